"""One step of a whole model on a GPU, for orientation: what its parts compute and move, and what binds.

Weights are read once a step, whatever the batch; of a mixture those experts that the step's tokens reach in
expectation. Keys and values of earlier tokens are read once a layer, those of new tokens written. Both are
compulsory, and the bound stands on them alone: activations may stay on chip. They are counted as what each
matrix product reads and writes, so that a part's intensity can be seen. FLOPs are those of matrix products
(FMA = 2), attention's over visible pairs only; logits are computed for the last token of a prefill.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rooflinecli.accounting.visibility import visible_keys, visible_pairs
from rooflinecli.dtypes import DType, compute_dtype, dtype
from rooflinecli.errors import InputError, naming
from rooflinecli.models.kv_cache import bytes_per_token, state_bytes
from rooflinecli.models.spec import Attention, Layer, ModelSpec, Style
from rooflinecli.models.weights import embedding, head_matrix, layer_weights
from rooflinecli.models.workloads import PHASES, attention_calls
from rooflinecli.roofline import Ceiling, bandwidth, peak

if TYPE_CHECKING:
    from rooflinecli.hardware import Profile

# The parts of a step, in the order a token passes them.
PARTS = ("embedding", "norms", "projections", "attention", "MLP", "experts", "logits")


@dataclass(frozen=True, slots=True)
class Part:
    """One part, all layers together. `flops` are of matrix products, `vector_flops` of everything else."""

    name: str
    flops: int = 0
    vector_flops: int = 0
    weight_bytes: int = 0
    cache_bytes: int = 0
    activation_bytes: int = 0

    def __add__(self, other: Part) -> Part:
        return Part(
            self.name,
            self.flops + other.flops,
            self.vector_flops + other.vector_flops,
            self.weight_bytes + other.weight_bytes,
            self.cache_bytes + other.cache_bytes,
            self.activation_bytes + other.activation_bytes,
        )

    @property
    def compulsory(self) -> int:
        """Bytes that must cross HBM: weights and cache."""
        return self.weight_bytes + self.cache_bytes

    @property
    def bytes(self) -> int:
        """Bytes with every activation written and read through memory."""
        return self.compulsory + self.activation_bytes

    @property
    def intensity(self) -> float | None:
        """Matrix FLOP a byte, activations included; None where nothing moves."""
        return self.flops / self.bytes if self.bytes else None


@dataclass(frozen=True, slots=True)
class Step:
    """A prefill or decode step. Times are bounds from below: no implementation is faster on this GPU."""

    spec: ModelSpec
    gpu: str
    gpu_name: str
    phase: str
    context: int
    batch: int
    n_q: int
    dtype: str
    weights_dtype: str
    kv_dtype: str
    compute: Ceiling
    memory: Ceiling
    parts: tuple[Part, ...]

    @property
    def total(self) -> Part:
        """The parts together."""
        whole = Part("total")
        for part in self.parts:
            whole = whole + part
        return whole

    def compute_seconds(self, part: Part) -> float:
        """Time of a part's matrix products at the peak."""
        return part.flops / self.compute.rate

    def memory_seconds(self, part: Part) -> float:
        """Time of a part's weights and cache at memory bandwidth."""
        return part.compulsory / self.memory.rate

    def bound_by(self, part: Part) -> str:
        """Id of the ceiling that binds a part."""
        return (self.compute if self.compute_seconds(part) >= self.memory_seconds(part) else self.memory).id

    @property
    def seconds_at_least(self) -> float:
        """The larger of all products at the peak and all compulsory bytes at memory bandwidth."""
        return max(self.compute_seconds(self.total), self.memory_seconds(self.total))

    @property
    def seconds_in_turn(self) -> float:
        """The same with the parts one after another, none overlapping the next."""
        return sum(max(self.compute_seconds(part), self.memory_seconds(part)) for part in self.parts)

    @property
    def tokens(self) -> int:
        """Tokens the step takes in (prefill) or puts out (decode)."""
        return self.batch * self.n_q

    @property
    def tokens_per_second(self) -> float:
        """At best."""
        return self.tokens / self.seconds_at_least


def model_step(
    spec: ModelSpec,
    gpu: str | Profile = "a100",
    phase: str = "decode",
    context: int = 4096,
    batch: int = 1,
    *,
    n_q: int | None = None,
    dtype: str = "fp16",
    weights_dtype: str | None = None,
    kv_dtype: str | None = None,
) -> Step:
    """One step of the whole model: `batch` sequences, `context` tokens each when the step is done.

    Args:
        phase: "prefill" (all of the context is new, or its last `n_q` tokens) or "decode" (one token, or `n_q`).
        dtype: format of activations, whose dense matrix peak is the compute roof.
        weights_dtype, kv_dtype: storage of weights and cache; by default `dtype`.

    Raises:
        InputError: an unknown phase, counts out of range, a model whose weights are not known.
    """
    if phase not in PHASES:
        raise InputError(f"--phase {phase}: must be {' or '.join(PHASES)}")
    for option, value in (("--context", context), ("--batch", batch), ("--N", 1 if n_q is None else n_q)):
        if not 1 <= value <= 2**40:
            raise InputError(f"{option} {value}: must be at least 1 and at most 2^40")
    if spec.style is None or spec.vocab is None:
        raise InputError(f"--model {spec.name}: how many weights {spec.family} has is not known here")
    profile = _profile(gpu)
    queries = n_q if n_q is not None else context if phase == "prefill" else 1
    if queries > context:
        raise InputError(f"--N {queries}: more queries than --context {context} tokens")
    with naming("--dtype", dtype):
        unit = compute_dtype(dtype)
    counter = _Counter(
        spec, spec.style, phase, context, batch, queries, unit, weights_dtype or dtype, kv_dtype or dtype
    )
    found: dict[str, Part] = {}
    for part in counter.parts():
        found[part.name] = found[part.name] + part if part.name in found else part
    return Step(
        spec=spec,
        gpu=profile.id,
        gpu_name=profile.name,
        phase=phase,
        context=context,
        batch=batch,
        n_q=queries,
        dtype=unit.name,
        weights_dtype=counter.weights.name,
        kv_dtype=counter.cache.name,
        compute=peak(profile, unit),
        memory=bandwidth(profile),
        parts=tuple(found[name] for name in PARTS if name in found),
    )


def _profile(gpu: str | Profile) -> Profile:
    if not isinstance(gpu, str):
        return gpu
    from rooflinecli.hardware import load_profile

    with naming("--gpu", gpu):
        return load_profile(gpu)


class _Counter:
    def __init__(
        self, spec: ModelSpec, style: Style, phase: str, context: int, batch: int, n_q: int, unit: DType,
        weights: str, cache: str,
    ) -> None:  # fmt: skip
        self.spec, self.style, self.phase, self.context, self.batch, self.n_q = spec, style, phase, context, batch, n_q
        self.unit = unit
        with naming("--weights-dtype", weights):
            self.weights = dtype(weights)
        with naming("--kv-dtype", cache):
            self.cache = dtype(cache)
        self.tokens = batch * n_q

    def parts(self) -> Iterator[Part]:
        """Every part of every kind of layer; parts of one name are to be added up."""
        hidden, tokens = self.spec.hidden, self.tokens
        rows = embedding(self.spec) // max(1, self.spec.vocab or 1) * min(tokens, self.spec.vocab or 1)
        yield Part("embedding", weight_bytes=self.weights.nbytes(rows), activation_bytes=self._moved(tokens * hidden))
        for layer, count in self.spec.layer_groups:
            yield from (_times(part, count) for part in self._layer(layer))
        answers = self.batch if self.phase == "prefill" else tokens
        matrix = head_matrix(self.spec)
        yield Part("logits", flops=2 * matrix * answers, weight_bytes=self.weights.nbytes(matrix),
                   activation_bytes=self._moved(answers * (hidden + (self.spec.vocab or 0))))  # fmt: skip

    def _layer(self, layer: Layer) -> Iterator[Part]:
        spec, style, tokens, hidden = self.spec, self.style, self.tokens, self.spec.hidden
        held, a = layer_weights(spec, layer, style), layer.attention
        normed = style.norms * tokens * hidden
        yield Part("norms", vector_flops=4 * normed, weight_bytes=self.weights.nbytes(held.rest),
                   activation_bytes=self._moved(2 * normed))  # fmt: skip
        yield Part("projections", flops=2 * (held.attention * tokens + self._expansion(a)),
                   weight_bytes=self.weights.nbytes(held.attention),
                   activation_bytes=self._moved(tokens * (2 * hidden + _width(a))))  # fmt: skip
        yield self._attention(a)
        matrices = 3 if style.gated else 2
        mixture = layer.experts
        wide = (layer.intermediate or 0) if mixture is None else mixture.shared
        if held.mlp:
            yield Part("MLP", flops=2 * held.mlp * tokens, weight_bytes=self.weights.nbytes(held.mlp),
                       activation_bytes=self._moved(tokens * (2 * hidden + matrices * wide)))  # fmt: skip
        if mixture is not None:
            chosen = tokens * mixture.per_token
            through = chosen * (2 * hidden + matrices * mixture.intermediate)
            yield Part("experts", flops=2 * held.expert * chosen,
                       weight_bytes=self.weights.nbytes(round(held.expert * mixture.touched(tokens))),
                       activation_bytes=self._moved(through))  # fmt: skip

    def _attention(self, a: Attention) -> Part:
        _, calls = attention_calls(a, self.phase, self.context, self.batch, self.n_q, self.unit.name, self.cache.name)
        row = bytes_per_token(a, self.cache)
        flops = softmax = past = 0
        for call in calls:
            pairs = call.batch * call.heads * visible_pairs(call)
            flops += 2 * pairs * (call.d + call.d_v)
            softmax += 5 * pairs
            past += call.batch * (visible_keys(call) - call.n_q)
        state = 2 * self.batch * state_bytes(a, self.cache)
        if a.state is not None:  # three products a token with each head's state: read, correct, read out
            flops += self.tokens * a.state.value_heads * 6 * a.state.key_dim * a.state.value_dim
        through = self.tokens * a.heads * (a.head_dim + a.v_head_dim)
        return Part("attention", flops=flops, vector_flops=softmax, cache_bytes=(past + self.tokens) * row + state,
                    activation_bytes=self._moved(through))  # fmt: skip

    def _expansion(self, a: Attention) -> int:
        """Products that expand earlier tokens' latents again in a chunked prefill of MLA."""
        if a.mla is None or self.phase == "decode":
            return 0
        expand = a.mla.kv_lora_rank * a.heads * (a.mla.nope_dim + a.mla.v_dim)
        return expand * self.batch * (self.context - self.n_q)

    def _moved(self, elements: int) -> int:
        return self.unit.nbytes(elements)


def _width(a: Attention) -> int:
    """Elements a token's projections put out and take in between: Q, K, V (or the latent) and the heads' output."""
    out = a.heads * a.v_head_dim
    if a.state is not None:
        return a.state.conv_width + 2 * a.state.value_heads * (a.state.value_dim + 1)
    if a.mla is not None:
        return 2 * (a.mla.q_lora_rank or 0) + a.heads * a.head_dim + a.mla.kv_lora_rank + a.mla.rope_dim + out
    kv = 0 if a.kind == "shared" else a.kv_heads * (a.head_dim + a.v_head_dim)
    return a.heads * a.head_dim + kv + out


def _times(part: Part, count: int) -> Part:
    return Part(
        part.name, part.flops * count, part.vector_flops * count, part.weight_bytes * count,
        part.cache_bytes * count, part.activation_bytes * count,
    )  # fmt: skip
