"""What a model is, as far as its cache, its attention and its weights are concerned."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

Kind = Literal["full", "sliding", "chunked", "mla", "linear", "shared", "cross", "none"]
# What a layer of each kind keeps of the past.
KINDS: dict[str, str] = {
    "full": "keys and values of every token",
    "sliding": "keys and values of the last W tokens, the token's own included",
    "chunked": "keys and values of the current chunk of W tokens",
    "mla": "one latent a token for all heads",
    "linear": "a state of fixed size, nothing a token",
    "shared": "nothing of its own: it reads an earlier layer's keys and values",
    "cross": "keys and values of what it is shown (an image), whatever the context",
    "none": "nothing: it does not attend",
}
KEEPS_NOTHING_A_TOKEN = ("linear", "shared", "cross", "none")


@dataclass(frozen=True, slots=True)
class Mla:
    """Dimensions of multi-head latent attention (DeepSeek-V2, arXiv:2405.04434); `q_lora_rank` None: Q is full rank."""

    kv_lora_rank: int
    rope_dim: int
    nope_dim: int
    v_dim: int
    q_lora_rank: int | None = None


@dataclass(frozen=True, slots=True)
class LinearState:
    """A gated delta net: what it keeps a sequence, whatever its length."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv: int

    @property
    def conv_width(self) -> int:
        """Channels of the short convolution: queries, keys and values."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention of one layer. `window` is in tokens and includes the token's own position.

    For MLA `head_dim` and `v_head_dim` are those of the expanded heads, `kv_heads` is `heads`, and the
    cache holds `mla.kv_lora_rank + mla.rope_dim` elements a token instead. `index_dim` elements more are
    cached where a sparse-attention indexer keeps keys of its own.
    """

    kind: Kind
    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    window: int | None = None
    mla: Mla | None = None
    index_dim: int = 0
    state: LinearState | None = None

    @property
    def elements_per_token(self) -> int:
        """Elements that one token adds to this layer's cache."""
        if self.kind in KEEPS_NOTHING_A_TOKEN:
            return 0
        if self.mla is not None:
            return self.mla.kv_lora_rank + self.mla.rope_dim + self.index_dim
        return self.kv_heads * (self.head_dim + self.v_head_dim) + self.index_dim

    @property
    def variant(self) -> str:
        """MHA, GQA-8, MQA, MLA, or what takes its place."""
        if self.kind in ("linear", "cross", "none"):
            return self.kind
        if self.mla is not None:
            return "MLA"
        return variant(self.heads, self.kv_heads)


def variant(heads: int, kv_heads: int) -> str:
    """The usual name for `heads` query heads over `kv_heads` K/V heads: MHA, GQA-<K/V heads>, MQA."""
    if kv_heads == heads:
        return "MHA"
    return "MQA" if kv_heads == 1 else f"GQA-{kv_heads}"


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture: every token takes `per_token` of `count` experts; `shared` is the width all tokens take."""

    count: int
    per_token: int
    intermediate: int
    shared: int = 0

    def touched(self, tokens: int) -> float:
        """Distinct experts that `tokens` tokens reach in expectation, each choosing evenly at random."""
        return self.count * (1.0 - (1.0 - self.per_token / self.count) ** tokens)


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: its attention and its MLP, `intermediate` wide or a mixture. An MLP may be missing."""

    attention: Attention
    intermediate: int | None = None
    experts: Experts | None = None


@dataclass(frozen=True, slots=True)
class Style:
    """Everything else that decides how many weights there are. Sizes are counts of parameters.

    qk_norm: per-head-dim vectors ("head"), one vector over all heads ("full"), a vector a head ("heads").
    norm_width: parameters of a norm an element of hidden size (1 RMS, 2 with bias, 0 none).
    """

    gated: bool = True
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    norms: int = 2
    norm_width: int = 1
    final_norm: bool = True
    qk_norm: Literal["none", "head", "full", "heads"] = "none"
    positions: int = 0
    embed_norm: bool = False
    embed_dim: int | None = None
    head_bias: bool = False
    sinks: bool = False
    router_bias: bool = False
    expert_bias: bool = False
    shared_gate: bool = False
    output_gate: bool = False
    index: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A decoder-only language model (or the language part of a larger one).

    assumed: what the config leaves out and was filled in by its family's rule; never empty silently.
    from_memory: fields of a preset that nobody has looked up yet. style None: weights are not counted.
    """

    name: str
    family: str
    hidden: int
    layers: tuple[Layer, ...]
    vocab: int | None = None
    max_context: int | None = None
    tied: bool = False
    style: Style | None = None
    source: str = ""
    notes: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    from_memory: tuple[str, ...] = ()

    @property
    def attention_groups(self) -> tuple[tuple[Attention, int], ...]:
        """Different attentions and how many layers have each, in order of appearance."""
        return tuple(Counter(layer.attention for layer in self.layers).items())

    @property
    def layer_groups(self) -> tuple[tuple[Layer, int], ...]:
        """Different layers and how many there are of each, in order of appearance."""
        return tuple(Counter(self.layers).items())
