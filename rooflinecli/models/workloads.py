"""A model, a phase, a context and a batch -> the attention calls its layers make."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from rooflinecli.errors import InputError
from rooflinecli.models.spec import Attention, ModelSpec
from rooflinecli.workload import Workload

Phase = Literal["prefill", "decode"]
PHASES = ("prefill", "decode")


@dataclass(frozen=True, slots=True)
class LayerWorkload:
    """Attention of one kind of layer: `count` layers make the call `workload` each.

    algorithm_hint: the accounting algorithm that serves it: flash2 for prefill, decode, or mla for a
    latent cache (K is the latent with the rotary part, V a view of its first d_v elements).
    """

    kind: str
    count: int
    workload: Workload
    algorithm_hint: str


def attention_workloads(
    spec: ModelSpec,
    phase: str,
    context: int,
    batch: int = 1,
    n_q: int | None = None,
    dtype: str = "fp16",
    kv_dtype: str | None = None,
) -> list[LayerWorkload]:
    """The attention calls of one step, a list entry a kind of layer (a chunked layer may need several).

    Args:
        spec: the model.
        phase: "prefill" (all of `context` are queries, unless `n_q` says fewer: chunked prefill) or "decode"
            (the last `n_q` tokens, by default one).
        context: tokens in the cache when the step is done, the queries' own included.
        batch: sequences.
        dtype, kv_dtype: storage formats of Q and O, of K and V.

    Returns:
        Causal workloads. Layers with linear attention make none. MLA prefills with expanded heads and
        decodes absorbed, over one latent head (DeepSeek-V2, arXiv:2405.04434).

    Raises:
        InputError: an unknown phase, more queries than context, or what `Workload` refuses.
    """
    if phase not in PHASES:
        raise InputError(f"--phase {phase}: must be {' or '.join(PHASES)}")
    queries = n_q if n_q is not None else context if phase == "prefill" else 1
    if queries > context:
        raise InputError(f"--N {queries}: more queries than --context {context} tokens")
    found: list[LayerWorkload] = []
    for attention, count in spec.attention_groups:
        hint, calls = attention_calls(attention, phase, context, batch, queries, dtype, kv_dtype)
        found += [LayerWorkload(attention.kind, count, call, hint) for call in calls]
    return found


def attention_calls(
    attention: Attention, phase: str, context: int, batch: int, n_q: int, dtype: str, kv_dtype: str | None
) -> tuple[str, list[Workload]]:
    """Which algorithm serves one layer, and its calls: none for linear attention, up to three for chunks."""
    hint = "flash2" if phase == "prefill" else "decode" if attention.mla is None else "mla"
    if attention.kind in ("linear", "cross", "none"):
        return attention.kind, []
    common = Workload(batch=batch, n_q=n_q, n_kv=context, d=1, dtype=dtype, causal=True)
    if attention.kind == "chunked" and attention.window is not None:
        calls = _chunks(common, attention.window)
    else:
        calls = [replace(common, window=attention.window)]
    return hint, [_call(call, attention, hint, kv_dtype) for call in calls]


def _call(call: Workload, attention: Attention, hint: str, kv_dtype: str | None) -> Workload:
    a = attention
    if hint == "mla" and a.mla is not None:
        latent = a.mla.kv_lora_rank
        heads, kv_heads, d, d_v = a.heads, 1, latent + a.mla.rope_dim, latent
    else:
        heads, kv_heads, d, d_v = a.heads, a.kv_heads, a.head_dim, a.v_head_dim
    return replace(call, heads=heads, kv_heads=kv_heads, d=d, d_v=d_v, kv_dtype=kv_dtype or call.dtype)


def _chunks(call: Workload, size: int) -> list[Workload]:
    """Attention within chunks of `size` tokens: the first and last may be cut, those between are alike.

    Queries stand at positions `n_kv - n_q` to `n_kv - 1`; those of one chunk see its keys up to their own.
    """
    start, stop = call.n_kv - call.n_q, call.n_kv
    first, last = start // size, (stop - 1) // size
    found = []
    head_stop = min(stop, (first + 1) * size)
    found.append(replace(call, n_q=head_stop - start, n_kv=head_stop - first * size))
    between = last - first - 1
    if between > 0:
        found.append(replace(call, batch=call.batch * between, n_q=size, n_kv=size))
    if last > first:
        found.append(replace(call, n_q=stop - last * size, n_kv=stop - last * size))
    return found
