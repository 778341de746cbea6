"""A whole step of a model: worked by hand, counted operator by operator, and what must always hold."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflinecli.errors import InputError
from rooflinecli.models import load_model
from rooflinecli.models.spec import Experts
from rooflinecli.step import Step, model_step
from tests.models.oracle import sees

CONFIGS = Path(__file__).parents[1] / "data/configs"


def gpu(flops: float = 312e12, bandwidth: float = 2039e9) -> Any:
    """A card of which two figures are known: by default those of an A100 with 80 GB."""

    def figure(value: float, unit: str) -> SimpleNamespace:
        return SimpleNamespace(value=value, unit=unit, source="the test", clock=None, is_measured=False)

    return SimpleNamespace(
        id="card", name="Card", peaks={"fp16_tensor": figure(flops, "FLOP/s")},
        dram=SimpleNamespace(type="HBM", bandwidth=figure(bandwidth, "B/s"), capacity=None),
    )  # fmt: skip


def step(model: str, phase: str, context: int, batch: int = 1, **options: Any) -> Step:
    return model_step(load_model(model), gpu(), phase, context, batch, **options)


def test_llama_2_7b_on_an_a100() -> None:
    # GIVEN the model's sizes: 32 layers of 4 x 4096^2 and 3 x 4096 x 11008, an output of 4096 x 32000
    matrices = 32 * (4 * 4096**2 + 3 * 4096 * 11008)
    output = 4096 * 32000
    # WHEN 2048 tokens are prefilled
    prefill = step("llama-2-7b", "prefill", 2048)
    # THEN it computes two FLOP a weight a token, attention over the visible pairs, logits once
    pairs = 2048 * 2049 // 2
    flops = 2 * matrices * 2048 + 32 * 32 * 4 * 128 * pairs + 2 * output
    assert prefill.total.flops == flops
    assert prefill.seconds_at_least == pytest.approx(flops / 312e12)
    assert round(prefill.seconds_at_least * 1e3, 1) == 88.5
    assert prefill.bound_by(prefill.total) == "fp16_tensor"
    # AND a token decoded at a context of 4096 reads weights and cache once
    decode = step("llama-2-7b", "decode", 4096)
    norms, row = 65 * 4096, 4096
    assert decode.total.compulsory == 2 * (matrices + output + norms - 4096 + row) + 4096 * 524288
    assert round(decode.seconds_at_least * 1e3, 2) == 7.53
    assert decode.tokens_per_second == pytest.approx(1 / decode.seconds_at_least)
    assert decode.bound_by(decode.total) == "hbm"


CASES = ["llama", "mistral_window", "gemma3_text", "gpt2", "falcon_40b", "mixtral", "llama4", "deepseek_v3", "opt"]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("phase", "context", "n_q", "batch"), [("prefill", 40, 40, 2), ("prefill", 40, 7, 1), ("decode", 40, 1, 3)]
)
def test_flops_counted_query_by_query(name: str, phase: str, context: int, n_q: int, batch: int) -> None:
    # GIVEN a small model of which every product is counted on its own
    spec = load_model(str(CONFIGS / f"{name}.json"))
    found = model_step(spec, gpu(), phase, context, batch, n_q=n_q)
    hidden, gated = spec.hidden, 3 if spec.style and spec.style.gated else 2
    products = attention = 0
    for layer, token in itertools.product(spec.layers, range(batch * n_q)):
        a, query = layer.attention, context - n_q + token % n_q
        mixture = layer.experts
        wide = layer.intermediate if mixture is None else mixture.per_token * mixture.intermediate + mixture.shared
        assert wide is not None
        products += 2 * gated * hidden * wide + (0 if mixture is None else 2 * hidden * mixture.count)
        window = a.window if a.kind == "sliding" else None
        seen = sum(sees(query, key, window, a.window if a.kind == "chunked" else None) for key in range(context))
        if a.mla is None:
            for width in (
                a.heads * a.head_dim,
                a.kv_heads * a.head_dim,
                a.kv_heads * a.v_head_dim,
                a.heads * a.v_head_dim,
            ):
                products += 2 * hidden * width
            attention += 2 * a.heads * seen * (a.head_dim + a.v_head_dim)
        else:
            m = a.mla
            assert m.q_lora_rank is not None
            products += 2 * hidden * m.q_lora_rank + 2 * m.q_lora_rank * a.heads * a.head_dim
            products += 2 * hidden * (m.kv_lora_rank + m.rope_dim) + 2 * a.heads * m.v_dim * hidden
            if phase == "decode":  # absorbed: the query into the latent's space and the result out of it
                products += 2 * a.heads * (m.nope_dim * m.kv_lora_rank + m.kv_lora_rank * m.v_dim)
                attention += 2 * a.heads * seen * (2 * m.kv_lora_rank + m.rope_dim)
            else:
                attention += 2 * a.heads * seen * (a.head_dim + a.v_head_dim)
    for layer in spec.layers:
        m2 = layer.attention.mla
        if m2 is not None and phase == "prefill":  # every latent of the context is expanded
            products += 2 * batch * context * m2.kv_lora_rank * layer.attention.heads * (m2.nope_dim + m2.v_dim)
    parts = {part.name: part for part in found.parts}
    assert parts["attention"].flops == attention
    assert sum(part.flops for part in found.parts if part.name not in ("attention", "logits")) == products
    answers = batch if phase == "prefill" else batch * n_q
    assert parts["logits"].flops == 2 * answers * hidden * (spec.vocab or 0)


@pytest.mark.parametrize("name", CASES)
def test_cache_bytes_are_the_keys_seen(name: str) -> None:
    # GIVEN a decode step of three sequences
    spec = load_model(str(CONFIGS / f"{name}.json"))
    found = model_step(spec, gpu(), "decode", 40, 3)
    moved = 0
    for layer in spec.layers:
        a = layer.attention
        for key in range(40):  # the keys of earlier tokens are read, that of the new one written
            if sees(39, key, a.window if a.kind == "sliding" else None, a.window if a.kind == "chunked" else None):
                moved += 3 * 2 * a.elements_per_token
    assert {part.name: part.cache_bytes for part in found.parts}["attention"] == moved


def test_a_prefill_writes_every_key_once() -> None:
    found = step("mistral-7b-v0.1", "prefill", 10000)
    assert found.total.cache_bytes == 10000 * 131072


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(1, 3), st.data())
def test_experts_touched_are_the_mean_over_all_choices(count: int, tokens: int, data: st.DataObject) -> None:
    # GIVEN tokens that each choose some of a few experts
    taken = data.draw(st.integers(1, count))
    choices = list(itertools.combinations(range(count), taken))
    # WHEN every way of choosing is tried
    reached = [len(set().union(*each)) for each in itertools.product(choices, repeat=tokens)]
    # THEN the expectation is their mean
    assert Experts(count, taken, 1).touched(tokens) == pytest.approx(sum(reached) / len(reached))


def test_one_token_reads_only_its_experts() -> None:
    one, many = step("mixtral-8x7b", "decode", 100), step("mixtral-8x7b", "decode", 100, 1000)
    expert = 3 * 4096 * 14336 * 2
    assert {part.name: part for part in one.parts}["experts"].weight_bytes == 32 * 2 * expert
    assert {part.name: part for part in many.parts}["experts"].weight_bytes == 32 * 8 * expert


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(["gpt2", "llama-3-8b", "gpt-oss-20b", "deepseek-v3"]), st.sampled_from(["prefill", "decode"]),
    st.integers(1, 10**5), st.integers(1, 100), st.floats(1e9, 1e16), st.floats(1e9, 1e14),
)  # fmt: skip
def test_bounds_hold(model: str, phase: str, context: int, batch: int, flops: float, bandwidth: float) -> None:
    found = model_step(load_model(model), gpu(flops, bandwidth), phase, context, batch)
    # the whole is the sum of its parts; nothing is faster than either ceiling, nor in turn than at once
    assert found.total.flops == sum(part.flops for part in found.parts)
    assert found.seconds_at_least >= found.total.flops / flops
    assert found.seconds_at_least >= found.total.compulsory / bandwidth
    assert found.seconds_in_turn >= found.seconds_at_least * (1 - 1e-12)
    # more sequences take longer, and never less than their share
    more = model_step(load_model(model), gpu(flops, bandwidth), phase, context, batch + 1)
    assert more.seconds_at_least >= found.seconds_at_least


def test_formats_of_weights_and_cache() -> None:
    plain = step("llama-2-7b", "decode", 4096)
    small = step("llama-2-7b", "decode", 4096, weights_dtype="int4", kv_dtype="fp8")
    assert small.total.weight_bytes == plain.total.weight_bytes // 4
    assert small.total.cache_bytes == plain.total.cache_bytes // 2


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"phase": "train"}, "--phase train"),
        ({"context": 0}, "--context 0"),
        ({"batch": -1}, "--batch -1"),
        ({"n_q": 0}, "--N 0"),
        ({"n_q": 5000}, "--N 5000"),
        ({"dtype": "q4_0"}, "q4_0"),
        ({"dtype": "fp64"}, "fp64"),
    ],
)
def test_what_cannot_be_asked(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError) as error:
        model_step(load_model("gpt2"), gpu(), **options)
    assert named in error.value.message


def test_a_model_of_unknown_weights_has_no_step() -> None:
    with pytest.raises(InputError, match="brandnew"):
        model_step(load_model(str(CONFIGS / "unknown.json")), gpu())
