"""Attention calls of a model against masks that are drawn out, pair by pair."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflinecli.accounting.visibility import visible_keys, visible_pairs
from rooflinecli.errors import InputError
from rooflinecli.models import attention_workloads, load_model
from rooflinecli.models.spec import Attention, Layer, ModelSpec
from tests.models.oracle import sees

CONFIGS = Path(__file__).parents[1] / "data/configs"


def one(kind: str, window: int | None) -> ModelSpec:
    return ModelSpec("one", "one", 8, (Layer(Attention(kind, 4, 2, 8, 8, window)),))  # type: ignore[arg-type]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["full", "sliding", "chunked"]), st.integers(1, 20), st.integers(1, 60), st.data())
def test_calls_see_the_pairs_the_layer_sees(kind: str, window: int, context: int, data: st.DataObject) -> None:
    # GIVEN a layer, and the last queries of a context
    n_q = data.draw(st.integers(1, context))
    phase = data.draw(st.sampled_from(["prefill", "decode"]))
    spec = one(kind, None if kind == "full" else window)
    # WHEN its calls are listed
    found = attention_workloads(spec, phase, context, batch=3, n_q=n_q)
    # THEN together they see what the mask shows, for three sequences
    pairs = [
        (query, key)
        for query in range(context - n_q, context)
        for key in range(context)
        if sees(query, key, window if kind == "sliding" else None, window if kind == "chunked" else None)
    ]
    assert sum(each.workload.batch * visible_pairs(each.workload) for each in found) == 3 * len(pairs)
    # AND touch the keys it touches
    touched = len({key for _, key in pairs})
    assert sum(each.workload.batch * visible_keys(each.workload) for each in found) == 3 * touched
    assert sum(each.workload.batch * each.workload.n_q for each in found) == 3 * n_q


def test_prefill_and_decode_of_a_plain_model() -> None:
    spec = load_model("llama-3-8b")
    (prefill,) = attention_workloads(spec, "prefill", 2048, 2, dtype="bf16", kv_dtype="fp8")
    (decode,) = attention_workloads(spec, "decode", 4096)
    w = prefill.workload
    assert (prefill.kind, prefill.count, prefill.algorithm_hint) == ("full", 32, "flash2")
    assert (w.batch, w.heads, w.kv_heads, w.n_q, w.n_kv, w.d, w.d_v) == (2, 32, 8, 2048, 2048, 128, 128)
    assert (w.dtype, w.kv_dtype, w.causal, w.window) == ("bf16", "fp8_e4m3", True, None)
    assert (decode.workload.n_q, decode.workload.n_kv, decode.algorithm_hint) == (1, 4096, "decode")


def test_kinds_of_layers_are_listed_apart() -> None:
    found = attention_workloads(load_model("gemma-3-27b"), "prefill", 8192)
    assert [(each.kind, each.count, each.workload.window) for each in found] == [
        ("sliding", 52, 1024),
        ("full", 10, None),
    ]


def test_a_latent_prefills_expanded_and_decodes_absorbed() -> None:
    spec = load_model("deepseek-v3")
    (prefill,) = attention_workloads(spec, "prefill", 1024)
    (decode,) = attention_workloads(spec, "decode", 1024, 8)
    p, d = prefill.workload, decode.workload
    assert (p.heads, p.kv_heads, p.d, p.d_v, prefill.algorithm_hint) == (128, 128, 192, 128, "flash2")
    assert (d.heads, d.kv_heads, d.d, d.d_v, decode.algorithm_hint) == (128, 1, 576, 512, "mla")


def test_linear_layers_make_no_attention_call() -> None:
    found = attention_workloads(load_model(str(CONFIGS / "qwen3_next.json")), "decode", 100)
    assert [(each.kind, each.count) for each in found] == [("full", 1)]


def test_what_cannot_be_asked() -> None:
    spec = load_model("gpt2")
    with pytest.raises(InputError, match="--phase train"):
        attention_workloads(spec, "train", 10)
    with pytest.raises(InputError, match="--N 11"):
        attention_workloads(spec, "prefill", 10, n_q=11)
    with pytest.raises(InputError):
        attention_workloads(spec, "prefill", 0)
