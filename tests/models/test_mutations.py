"""Configs changed in one place at random: a right answer or a clear error, never a silent default."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rooflinecli.errors import InputError
from rooflinecli.models.config import read_config
from rooflinecli.models.spec import Attention, ModelSpec

CONFIGS = {
    path.stem: json.loads(path.read_text())
    for path in sorted((Path(__file__).parents[1] / "data/configs").glob("*.json"))
}
VALUES = st.one_of(
    st.sampled_from([0, -1, 2**41, 10**400, 1.5, "8", True, False, "", [], [1], {}, {"a": 1}]),
    st.integers(1, 64),
)
LAYERS = {"num_hidden_layers", "n_layer", "n_layers", "num_layers"}
# Fields whose null is an answer of its own.
NULL_SPEAKS = {"sliding_window", "attention_chunk_size", "q_lora_rank", "layer_types", "no_rope_layers"}


def section(raw: dict[str, Any]) -> dict[str, Any]:
    inner: dict[str, Any] = raw.get("text_config", raw)
    return inner


def read(raw: dict[str, Any]) -> ModelSpec | None:
    """The model, or None where the config is refused, which must be in one line."""
    try:
        return read_config(raw, "x", "config")
    except InputError as error:
        said = error.message
    assert "\n" not in said
    assert said.startswith("config")
    return None


def attentions(spec: ModelSpec) -> list[Attention]:
    return [layer.attention for layer in spec.layers]


@st.composite
def places(draw: st.DrawFn) -> tuple[str, str]:
    name = draw(st.sampled_from(sorted(CONFIGS)))
    return name, draw(st.sampled_from(sorted(section(CONFIGS[name]))))


@settings(max_examples=600, deadline=None)
@given(places(), st.booleans())
def test_a_field_taken_away_is_missed_aloud(place: tuple[str, str], delete: bool) -> None:
    # GIVEN a config without one of its fields, or with null in its place
    name, field = place
    raw = copy.deepcopy(CONFIGS[name])
    if delete:
        del section(raw)[field]
    else:
        section(raw)[field] = None
    before, after = read_config(CONFIGS[name], "x"), read(raw)
    # THEN it is refused, or the cache is the same, or what was filled in is said
    if after is None or attentions(after) == attentions(before):
        return
    said = set(after.assumed) - set(before.assumed) or set(after.warnings) - set(before.warnings)
    assert said or (not delete and field in NULL_SPEAKS), (name, field, after.attention_groups)


@settings(max_examples=1500, deadline=None)
@given(places(), VALUES)
def test_a_changed_value_is_followed_or_refused(place: tuple[str, str], value: Any) -> None:
    # GIVEN a config with another value in one field
    name, field = place
    raw = copy.deepcopy(CONFIGS[name])
    section(raw)[field] = value
    before, after = read_config(CONFIGS[name], "x"), read(raw)
    if after is None:
        return
    # THEN a count that was accepted is what the model has
    found = attentions(after)
    check = {
        **dict.fromkeys(LAYERS, lambda: len(found) == value),
        "num_key_value_heads": lambda: all(a.kv_heads == value or a.mla for a in found),
        "num_kv_heads": lambda: {a.kv_heads for a in found} <= {value, 1},
        "n_head_kv": lambda: {a.kv_heads for a in found} == {value},
        "multi_query_group_num": lambda: {a.kv_heads for a in found} == {value},
        "head_dim": lambda: {a.head_dim for a in found} == {value},
        "kv_channels": lambda: {a.head_dim for a in found} == {value},
        "sliding_window": lambda: {a.window for a in found} <= {value, None},
        "window_size": lambda: {a.window for a in found} <= {value, None},
        "attention_chunk_size": lambda: {a.window for a in found} <= {value, None},
        "kv_lora_rank": lambda: {a.mla and a.mla.kv_lora_rank for a in found} == {value},
        "qk_rope_head_dim": lambda: {a.mla and a.mla.rope_dim for a in found} == {value},
        "num_attention_heads": lambda: {a.heads for a in found} == {value},
    }.get(field)
    if check is not None:
        assert not isinstance(value, bool)
        assert check(), (name, field, value, after.attention_groups)
    # AND nothing that was accepted stands for less than one of anything
    assert all(a.heads >= 1 and a.kv_heads >= 1 and a.head_dim >= 1 and a.heads % a.kv_heads == 0 for a in found)
    # AND a field that says nothing of the cache changes nothing of it, unless something is said
    if field not in DECIDES and attentions(before) != found:
        assert after.assumed or after.warnings, (name, field, value)


# Fields that may change attention, whatever the family.
DECIDES = LAYERS | {
    "_sliding_window_pattern", "attention_chunk_size", "attention_layers", "attention_types",
    "attention_window_size", "attn_config", "attn_layer_indices", "attn_layer_offset", "attn_layer_period",
    "attn_type_list", "block_types", "cross_attention_layers", "d_model", "full_attention_interval",
    "full_attn_idxs", "head_dim", "hidden_size", "hybrid_override_pattern", "index_head_dim", "kv_channels",
    "kv_lora_rank", "layer_types", "linear_conv_kernel_dim", "linear_key_head_dim", "linear_num_key_heads",
    "linear_num_value_heads", "linear_value_head_dim", "max_window_layers", "multi_query", "multi_query_attention",
    "multi_query_group_num", "n_embd", "n_embed", "n_head", "n_head_kv", "n_heads", "new_decoder_architecture",
    "no_rope_layer_interval", "no_rope_layers", "num_attention_heads", "num_heads", "num_key_value_heads",
    "num_kv_heads", "num_kv_shared_layers", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "sliding_window",
    "sliding_window_pattern", "use_sliding_window", "v_head_dim", "window_size",
}  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["llama", "mistral", "mixtral", "qwen2", "qwen3", "gemma", "phi3", "olmo2", "granite", "cohere"]),
    st.integers(1, 12), st.integers(1, 8), st.integers(1, 8), st.integers(1, 32), st.booleans(),
)  # fmt: skip
def test_dimensions_drawn_at_random_add_up(
    name: str, layers: int, kv_heads: int, group: int, dim: int, says_dim: bool
) -> None:
    # GIVEN a consistent config of drawn dimensions, with a head dim of its own or that of the hidden size
    raw = copy.deepcopy(CONFIGS[name])
    heads = kv_heads * group
    raw |= {"num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads}
    raw |= {"hidden_size": heads * dim}
    raw.pop("head_dim", None)
    width = dim + 3 if says_dim else dim
    if says_dim or name in ("qwen3", "gemma"):
        raw["head_dim"] = width
    # WHEN it is read
    spec = read_config(raw, "x")
    # THEN a token stores K and V of every head of every layer
    stored = 0
    for _ in range(layers):
        for _ in range(kv_heads):
            stored += width + width
    assert sum(layer.attention.elements_per_token for layer in spec.layers) == stored
