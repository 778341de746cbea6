"""Each family's own way of saying things, and what it must not be silent about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rooflinecli.errors import InputError
from rooflinecli.models.config import read_config
from rooflinecli.models.spec import ModelSpec

CONFIGS = Path(__file__).parents[1] / "data/configs"
GONE = "a field that is taken out"


def config(name: str, **changes: Any) -> dict[str, Any]:
    """A config of the test data; `GONE` deletes a field, wherever it stands."""
    raw: dict[str, Any] = json.loads((CONFIGS / f"{name}.json").read_text())
    section = raw.get("text_config", raw)
    for key, value in changes.items():
        if value is GONE:
            section.pop(key, None)
        else:
            section[key] = value
    return raw


def read(name: str, **changes: Any) -> ModelSpec:
    return read_config(config(name, **changes), name)


def kv_heads(spec: ModelSpec) -> int:
    return spec.layers[0].attention.kv_heads


def windows(spec: ModelSpec) -> list[int | None]:
    return [layer.attention.window for layer in spec.layers]


def test_llama_without_kv_heads_has_one_a_query_head_and_says_so() -> None:
    spec = read("llama", num_key_value_heads=GONE)
    assert kv_heads(spec) == 8
    assert any("num_key_value_heads" in each for each in spec.assumed)


def test_gpt2_inner_null_is_four_times_the_width() -> None:
    assert read("gpt2").layers[0].intermediate == 4 * 48
    assert read("gpt2", n_inner=None).layers[0].intermediate == 4 * 48
    assert read("gpt2_inner").layers[0].intermediate == 100


def test_gpt2_fields_may_have_their_general_names() -> None:
    general = {"hidden_size": 48, "num_attention_heads": 4, "num_hidden_layers": 3}
    assert read("gpt2", n_embd=GONE, n_head=GONE, n_layer=GONE, **general) == read("gpt2")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"new_decoder_architecture": True, "num_kv_heads": 2}, 2),
        ({"new_decoder_architecture": False, "multi_query": True}, 1),
        ({"new_decoder_architecture": False, "multi_query": True, "num_kv_heads": 8}, 1),
        ({"new_decoder_architecture": False, "multi_query": False, "num_kv_heads": GONE}, 8),
        ({"new_decoder_architecture": GONE, "multi_query": True, "num_kv_heads": GONE}, 1),
    ],
)
def test_falcon_kv_heads(changes: dict[str, Any], expected: int) -> None:
    assert kv_heads(read("falcon_40b", **{"num_kv_heads": GONE, **changes})) == expected


def test_falcon_under_its_first_names() -> None:
    assert kv_heads(read("refined_web")) == 2
    assert kv_heads(read("refined_web_model")) == 1


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("mistral", {}, [None] * 4),
        ("mistral_window", {}, [16] * 4),
        ("mixtral", {"sliding_window": GONE}, [None] * 4),
        ("phi3", {}, [15] * 4),
        ("starcoder2", {}, [16] * 4),
        ("qwen2", {}, [None] * 4),
        ("qwen2", {"use_sliding_window": GONE}, [None] * 4),
        ("qwen2_window", {}, [None, None, None, 16]),
        ("qwen2_window", {"max_window_layers": 0}, [16] * 4),
        ("qwen2_window", {"max_window_layers": 4}, [None] * 4),
        ("gemma2", {}, [16, None, 16, None, 16]),
        ("gemma3_text", {}, [16] * 5 + [None] + [16] * 2),
        ("gemma3_text", {"sliding_window_pattern": GONE}, [16] * 5 + [None] + [16] * 2),
        ("gemma3_text", {"sliding_window_pattern": 3}, [16, 16, None, 16, 16, None, 16, 16]),
        ("gemma3_text", {"sliding_window_pattern": GONE, "layer_types": ["full_attention"] * 8}, [None] * 8),
        ("gpt_oss", {"layer_types": GONE}, [16, None, 16, None]),
        ("cohere2", {"sliding_window_pattern": GONE}, [16, 16, 16, None] * 2),
        ("exaone4", {}, [16, 16, 16, None]),
        ("exaone4", {"sliding_window": None, "sliding_window_pattern": None, "layer_types": GONE}, [None] * 4),
        ("gpt_neo", {}, [None, 16, None, 16]),
        ("gpt_neo", {"attention_layers": GONE}, [None, 16, None, 16]),
        ("llama4", {}, [16, 16, 16, None] * 2),
        ("llama4", {"no_rope_layers": [1, 0] * 4}, [16, None] * 4),
        ("llama4", {"attention_chunk_size": None}, [None] * 8),
        ("mistral_window", {"layer_types": ["full_attention", "sliding_attention"] * 2}, [None, 16] * 2),
    ],
)
def test_windows(name: str, changes: dict[str, Any], expected: list[int | None]) -> None:
    assert windows(read(name, **changes)) == expected


def test_linear_layers_keep_nothing_a_token() -> None:
    spec = read("qwen3_next")
    assert [layer.attention.elements_per_token for layer in spec.layers] == [0, 0, 0, 2 * 2 * 16]
    assert any("nothing a token" in note for note in spec.notes)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("jamba", [1, 4]),
        ("recurrent_gemma", [2, 5]),
        ("minimax", [3]),
        ("mllama", [0, 2, 3, 5]),
        ("nemotron_h", [3]),
        ("lfm2", [2, 4]),
        ("falcon_h1", [0, 1, 2]),
    ],
)
def test_layers_that_attend_in_hybrids(name: str, expected: list[int]) -> None:
    found = [index for index, layer in enumerate(read(name).layers) if layer.attention.elements_per_token]
    assert found == expected
    if name != "mllama":
        assert any("not counted" in warning for warning in read(name).warnings)


@pytest.mark.parametrize(("name", "heads"), [("qwen", 8), ("deepseek", 8), ("chatglm", 2), ("qwen2_5_vl", 2)])
def test_families_that_transformers_does_not_have(name: str, heads: int) -> None:
    spec = read(name)
    assert {(layer.attention.kv_heads, layer.attention.head_dim) for layer in spec.layers} == {(heads, 8)}


def test_layers_that_read_earlier_keys_keep_none() -> None:
    spec = read("gemma3n_text")
    assert [layer.attention.elements_per_token for layer in spec.layers] == [64] * 7 + [0] * 3


def test_the_indexer_of_sparse_attention_is_counted() -> None:
    assert read("deepseek_v32").layers[0].attention.elements_per_token == 32 + 8 + 16


def test_q_lora_rank_null_is_a_full_rank_query() -> None:
    full, low = read("deepseek_v2_lite"), read("deepseek_v2")
    assert full.layers[0].attention.mla is not None
    assert full.layers[0].attention.mla.q_lora_rank is None
    assert full.layers[0].attention.elements_per_token == low.layers[0].attention.elements_per_token == 40


def test_mla_switched_off_is_ordinary_attention() -> None:
    spec = read("deepseek_v2", use_mla=False, kv_lora_rank=None)
    assert spec.layers[0].attention.elements_per_token == 2 * 8 * 8


def test_a_text_section_may_leave_out_its_familys_defaults_and_that_is_said() -> None:
    # GIVEN a wrapper whose text section says next to nothing, as published
    spec = read("llava")
    # THEN it is the family's default model, and every field filled in is named
    assert (len(spec.layers), spec.layers[0].attention.heads, spec.hidden) == (32, 32, 4096)
    assert any("hidden_size" in each for each in spec.assumed)
    assert any("num_hidden_layers" in each for each in spec.assumed)


def test_gemma3_text_section_without_heads() -> None:
    spec = read("gemma3")
    assert (kv_heads(spec), spec.layers[0].attention.head_dim) == (4, 256)
    assert {each.split()[0] for each in spec.assumed} == {
        "num_attention_heads", "num_key_value_heads", "head_dim", "neither",
    }  # fmt: skip


def test_a_class_name_stands_for_a_missing_type() -> None:
    assert read("llama", model_type=GONE).family == "llama"


def test_an_unknown_family_is_read_by_its_fields_and_says_so() -> None:
    spec = read("unknown")
    assert spec.layers[0].attention.elements_per_token == 2 * 2 * 16
    assert "brandnew" in spec.warnings[0]


WRONG = [
    # missing
    ("llama", {"num_hidden_layers": GONE}, "num_hidden_layers"),
    ("llama", {"hidden_size": None}, "hidden_size"),
    ("llama", {"num_attention_heads": GONE}, "num_attention_heads"),
    ("mistral", {"sliding_window": GONE}, "sliding_window"),
    ("mistral", {"num_key_value_heads": GONE}, "num_key_value_heads"),
    ("qwen2", {"num_key_value_heads": GONE}, "num_key_value_heads"),
    ("qwen2_window", {"max_window_layers": GONE}, "max_window_layers"),
    ("qwen3", {"head_dim": GONE}, "head_dim"),
    ("qwen3_moe", {"head_dim": GONE}, "head_dim"),
    ("gemma2", {"head_dim": GONE}, "head_dim"),
    ("gemma2", {"sliding_window": GONE}, "sliding_window"),
    ("gemma3", {"hidden_size": GONE}, "hidden_size"),
    ("gemma3", {"num_hidden_layers": GONE}, "num_hidden_layers"),
    ("gemma3", {"sliding_window": GONE}, "sliding_window"),
    ("gemma3", {"num_attention_heads": 16}, "num_key_value_heads"),
    ("gpt_oss", {"sliding_window": GONE}, "sliding_window"),
    ("falcon_40b", {"num_kv_heads": GONE}, "num_kv_heads"),
    ("falcon_7b", {"multi_query": GONE}, "multi_query"),
    ("gpt_bigcode", {"multi_query": GONE}, "multi_query"),
    ("chatglm", {"multi_query_group_num": GONE}, "multi_query_group_num"),
    ("chatglm", {"multi_query_attention": GONE}, "multi_query_attention"),
    ("mpt", {"attn_config": GONE}, "attn_config"),
    ("deepseek_v3", {"kv_lora_rank": GONE}, "kv_lora_rank"),
    ("deepseek_v3", {"kv_lora_rank": None}, "kv_lora_rank"),
    ("deepseek_v3", {"qk_rope_head_dim": GONE}, "qk_rope_head_dim"),
    ("deepseek_v3", {"q_lora_rank": GONE}, "q_lora_rank"),
    ("llama4", {"attention_chunk_size": GONE}, "attention_chunk_size"),
    ("unknown", {"num_key_value_heads": GONE}, "num_key_value_heads"),
    # contradictions
    ("llama", {"num_key_value_heads": 3}, "num_attention_heads 8"),
    ("llama", {"num_attention_heads": 6}, "head_dim is missing"),
    ("llama", {"n_layer": 5}, "num_hidden_layers 4 and n_layer 5"),
    ("llama", {"layer_types": ["sliding_attention"] * 4}, "layer_types"),
    ("gpt2", {"num_key_value_heads": 2}, "num_key_value_heads 2"),
    ("gpt2", {"head_dim": 16}, "head_dim 16"),
    ("gpt2", {"hidden_size": 64}, "n_embd 48"),
    ("bloom", {"hidden_size": 64}, "n_embed 48"),
    ("falcon_40b", {"new_decoder_architecture": False}, "num_kv_heads 2"),
    ("falcon_40b", {"new_decoder_architecture": GONE}, "num_kv_heads 2"),
    ("gpt_bigcode", {"num_key_value_heads": 3}, "num_key_value_heads 3"),
    ("qwen2_window", {"sliding_window": None}, "sliding_window"),
    ("qwen2", {"layer_types": ["full_attention"] * 3 + ["sliding_attention"]}, "layer 3"),
    ("qwen3_moe", {"use_sliding_window": True, "sliding_window": 16}, "max_window_layers"),
    ("gemma2", {"sliding_window": None}, "sliding_window is null"),
    ("gemma3_text", {"layer_types": ["full_attention"] * 8}, "layer 0"),
    ("gpt_oss", {"layer_types": ["full_attention"] * 3}, "layer_types has 3 entries"),
    ("gpt_oss", {"layer_types": ["full_attention", "wavy_attention"] * 2}, "wavy_attention"),
    ("gpt_neo", {"attention_layers": GONE, "attention_types": [[["global"], 3]]}, "attention_types"),
    ("deepseek_v3", {"qk_head_dim": 100}, "qk_head_dim 100"),
    ("mixtral", {"num_experts_per_tok": 9}, "num_experts_per_tok 9"),
    ("gemma3n_text", {"num_kv_shared_layers": 10}, "num_kv_shared_layers"),
    ("mpt", {"attn_config": {"attn_type": "multiquery_attention", "kv_n_heads": 4}}, "kv_n_heads 4"),
    # not of this kind
    ("llama", {"is_encoder_decoder": True}, "is_encoder_decoder"),
    ("llama", {"model_type": "t5"}, "encoder-decoder"),
    ("llama", {"model_type": "mamba"}, "no attention"),
    ("gemma3_text", {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
    ("unknown", {"mamba_d_state": 16}, "mamba_d_state"),
    ("unknown", {"num_kv_shared_layers": 2}, "num_kv_shared_layers"),
    ("unknown", {"layer_types": ["full_attention", "mamba"] * 2}, "layer_types"),
    ("jamba", {"attn_layer_period": GONE}, "attn_layer_period"),
    ("jamba", {"attn_layer_offset": GONE}, "attn_layer_offset"),
    ("jamba", {"attn_layer_offset": 3}, "attn_layer_offset 3"),
    ("bamba", {"attn_layer_indices": [1, 4]}, "attn_layer_indices has layer 4"),
    ("nemotron_h", {"hybrid_override_pattern": "M-M*-"}, "hybrid_override_pattern"),
    ("minimax", {"attn_type_list": [0, 1, 2, 1]}, "attn_type_list"),
    ("granitemoehybrid", {"layer_types": GONE}, "layer_types is missing"),
    ("recurrent_gemma", {"attention_window_size": GONE}, "attention_window_size"),
    # nonsense
    ("llama", {"num_hidden_layers": 0}, "num_hidden_layers 0"),
    ("llama", {"num_hidden_layers": -4}, "num_hidden_layers -4"),
    ("llama", {"num_hidden_layers": 4.0}, "num_hidden_layers 4.0"),
    ("llama", {"num_hidden_layers": "4"}, "num_hidden_layers '4'"),
    ("llama", {"num_hidden_layers": True}, "num_hidden_layers True"),
    ("llama", {"num_hidden_layers": 10**9}, "num_hidden_layers 1000000000"),
    ("llama", {"hidden_size": 2**50}, "hidden_size"),
    ("llama", {"intermediate_size": -1}, "intermediate_size -1"),
    ("llama", {"attention_bias": "yes"}, "attention_bias"),
    ("gpt_oss", {"layer_types": "full_attention"}, "layer_types"),
    ("mistral_window", {"sliding_window": 0}, "sliding_window 0"),
]


@pytest.mark.parametrize(("name", "changes", "named"), WRONG, ids=lambda value: str(value)[:60])
def test_what_is_missing_or_wrong_is_named(name: str, changes: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError) as error:
        read(name, **changes)
    assert named in error.value.message
    assert "\n" not in error.value.message


@pytest.mark.parametrize("field", ["vocab_size", "intermediate_size"])
def test_weights_are_not_counted_where_a_field_only_they_need_is_missing(field: str) -> None:
    # GIVEN a config without a field that the cache does not depend on
    spec = read("llama", **{field: GONE})
    # THEN the cache is as ever, and the warning says what cannot be counted
    assert spec.layers[0].attention == read("llama").layers[0].attention
    assert spec.style is None
    assert field in spec.warnings[0]


def test_a_section_that_contradicts_the_outside() -> None:
    with pytest.raises(InputError, match="hidden_size is 99 here"):
        read_config({**config("llama4"), "hidden_size": 99}, "x")
