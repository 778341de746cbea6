"""How many parameters a model has, part by part: matrices that tokens are multiplied with, and the rest."""

from __future__ import annotations

from dataclasses import dataclass

from rooflinecli.models.spec import Attention, Experts, Layer, ModelSpec, Style


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """Parameters of one layer. Every token passes `attention` and `mlp`; of `experts` it takes some.

    mlp: a dense MLP, or the router and the shared experts of a mixture. expert: one routed expert.
    rest: biases, norms, sinks, convolutions: nothing a token is multiplied with as a matrix.
    """

    attention: int
    mlp: int
    expert: int
    experts: int
    rest: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.attention + self.mlp + self.expert * self.experts + self.rest


def parameters(spec: ModelSpec) -> int | None:
    """Parameters of the language model, tied embeddings once; `None` where they are not known."""
    if spec.style is None or spec.vocab is None:
        return None
    layers = sum(layer_weights(spec, layer, spec.style).total * count for layer, count in spec.layer_groups)
    return layers + _outside(spec, spec.style)


def active_parameters(spec: ModelSpec) -> int | None:
    """Parameters one token uses: as `parameters`, of each mixture only the experts a token takes."""
    total = parameters(spec)
    if total is None or spec.style is None:
        return None
    for layer, count in spec.layer_groups:
        if layer.experts is not None:
            idle = layer.experts.count - layer.experts.per_token
            total -= count * idle * layer_weights(spec, layer, spec.style).expert
    return total


def embedding(spec: ModelSpec) -> int:
    """Parameters of the token embedding; a model whose vocabulary is unknown has none here."""
    width = spec.style.embed_dim if spec.style and spec.style.embed_dim else spec.hidden
    return (spec.vocab or 0) * width


def head_matrix(spec: ModelSpec) -> int:
    """Parameters that the last hidden state of a token is multiplied with to give logits."""
    style = spec.style
    width = style.embed_dim if style and style.embed_dim else spec.hidden
    projection = width * spec.hidden if width != spec.hidden else 0
    return (spec.vocab or 0) * width + projection


def layer_weights(spec: ModelSpec, layer: Layer, style: Style) -> LayerWeights:
    """Parameters of one layer."""
    hidden = spec.hidden
    matrices = _attention(layer.attention, hidden, style)
    mlp, expert, experts = _mlp(layer, hidden, style)
    rest = style.norms * style.norm_width * hidden
    rest += _attention_rest(layer.attention, hidden, style) + _mlp_rest(layer, hidden, style)
    return LayerWeights(matrices, mlp, expert, experts, rest)


def _outside(spec: ModelSpec, style: Style) -> int:
    """Embeddings, positions, the last norm and the output."""
    width = style.embed_dim or spec.hidden
    total = embedding(spec) + style.positions * spec.hidden
    if style.embed_norm:
        total += style.norm_width * spec.hidden
    if style.final_norm:
        total += style.norm_width * spec.hidden
    if not spec.tied:
        total += embedding(spec)
    if width != spec.hidden:
        total += 2 * width * spec.hidden  # into the model's width and back
    return total + (spec.vocab or 0 if style.head_bias else 0)


def _attention(a: Attention, hidden: int, style: Style) -> int:
    if a.state is not None:
        s = a.state
        keys, values = s.key_heads * s.key_dim, s.value_heads * s.value_dim
        return hidden * (2 * keys + 2 * values + 2 * s.value_heads) + values * hidden
    if a.mla is not None:
        m = a.mla
        wide = a.heads * a.head_dim
        q = hidden * wide if m.q_lora_rank is None else m.q_lora_rank * (hidden + wide)
        kv = hidden * (m.kv_lora_rank + m.rope_dim) + m.kv_lora_rank * a.heads * (m.nope_dim + m.v_dim)
        return q + kv + a.heads * m.v_dim * hidden + _indexer(a, hidden, style)
    q = a.heads * a.head_dim * (2 if style.output_gate else 1)
    kv = 0 if a.kind == "shared" else a.kv_heads * (a.head_dim + a.v_head_dim)
    return hidden * (q + kv + a.heads * a.v_head_dim)


def _indexer(a: Attention, hidden: int, style: Style) -> int:
    if style.index is None or a.mla is None:
        return 0
    heads, dim = style.index
    return (a.mla.q_lora_rank or hidden) * heads * dim + hidden * dim + hidden * heads


def _attention_rest(a: Attention, hidden: int, style: Style) -> int:
    if a.state is not None:
        s = a.state
        return s.conv_width * s.conv + 2 * s.value_heads + s.value_dim
    if a.mla is not None:
        m = a.mla
        total = m.kv_lora_rank + (m.q_lora_rank or 0)
        if style.qkv_bias:
            total += (m.q_lora_rank or 0) + m.kv_lora_rank + m.rope_dim
        total += hidden if style.out_bias else 0
        return total + (2 * style.index[1] if style.index else 0)
    q, k, v = a.heads * a.head_dim, a.kv_heads * a.head_dim, a.kv_heads * a.v_head_dim
    total = (q * (2 if style.output_gate else 1) + k + v) if style.qkv_bias else 0
    total += hidden if style.out_bias else 0
    total += {"none": 0, "head": 2 * a.head_dim * _norm(style), "full": q + k, "heads": q + k}[style.qk_norm]
    return total + (a.heads if style.sinks else 0)


def _norm(style: Style) -> int:
    return max(1, style.norm_width)


def _mlp(layer: Layer, hidden: int, style: Style) -> tuple[int, int, int]:
    """Matrices of what every token passes, of one expert, and how many experts there are."""
    matrices = 3 if style.gated else 2
    mixture = layer.experts
    if mixture is None:
        return matrices * hidden * (layer.intermediate or 0), 0, 0
    always = hidden * mixture.count + matrices * hidden * mixture.shared
    always += hidden if style.shared_gate and mixture.shared else 0
    return always, matrices * hidden * mixture.intermediate, mixture.count


def _mlp_rest(layer: Layer, hidden: int, style: Style) -> int:
    mixture = layer.experts
    if mixture is None:
        if not style.mlp_bias or layer.intermediate is None:
            return 0
        return layer.intermediate * (2 if style.gated else 1) + hidden
    return _expert_rest(mixture, hidden, style)


def _expert_rest(mixture: Experts, hidden: int, style: Style) -> int:
    total = mixture.count if style.router_bias else 0
    if style.expert_bias:
        total += mixture.count * (2 * mixture.intermediate + hidden)
    return total
