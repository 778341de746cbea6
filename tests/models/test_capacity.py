"""What fits in a memory: found by search, checked by filling it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflinecli.capacity import kv_account
from rooflinecli.errors import InputError
from rooflinecli.models import load_model
from rooflinecli.models.custom import model_of
from rooflinecli.report.formats import render
from rooflinecli.report.kv import view
from tests.models.oracle import filled

CONFIGS = Path(__file__).parents[1] / "data/configs"
GIB = 2**30


def gpu(capacity: int | None = 80 * GIB, bandwidth: float = 2e12) -> Any:
    def figure(value: float, unit: str) -> SimpleNamespace:
        return SimpleNamespace(value=value, unit=unit, source="the test", clock=None, is_measured=False)

    memory = None if capacity is None else figure(capacity, "B")
    return SimpleNamespace(
        id="card", name="Card", dram=SimpleNamespace(type="HBM", bandwidth=figure(bandwidth, "B/s"), capacity=memory)
    )


def test_llama_2_7b_in_80_gib() -> None:
    # GIVEN 6,738,415,616 weights of two bytes, and 2 GiB of cache a user at 4096 tokens
    found = kv_account(load_model("llama-2-7b"), 4096, gpu=[gpu()])
    fit = found.readings[0].fit
    assert fit is not None
    # THEN the rest holds 33 users, or one of that many tokens
    left = 80 * GIB - 2 * 6738415616
    assert (fit.weights, fit.budget) == (2 * 6738415616, left)
    assert fit.users == fit.users_resident == left // (2 * GIB) == 33
    assert fit.context == left // 524288


def test_weights_in_another_format_and_none() -> None:
    spec = load_model("llama-2-7b")
    small = kv_account(spec, 4096, gpu=[gpu()], weights_dtype="int4").readings[0].fit
    whole = kv_account(spec, 4096, gpu=[gpu()], weights_dtype="none").readings[0].fit
    assert small is not None
    assert whole is not None
    assert small.weights == 6738415616 // 2
    assert (whole.weights, whole.users) == (0, 40)


def test_a_model_too_large_fits_nobody() -> None:
    fit = kv_account(load_model("llama-3.1-405b"), 4096, memory=80 * GIB, gpu=[gpu()]).memory_fit
    assert fit is not None
    assert fit.budget < 0
    assert (fit.users, fit.context, fit.users_resident, fit.context_resident) == (0, 0, 0, 0)


def test_devices_share_weights_and_heads() -> None:
    # GIVEN a 70B model over eight devices: an eighth of the weights and one K/V head on each
    found = kv_account(load_model("llama-3.1-70b"), 32768, tp=8, gpu=[gpu()])
    fit = found.readings[0].fit
    assert fit is not None
    assert fit.weights == -(-2 * 70553706496 // 8)
    assert fit.users == (80 * GIB - fit.weights) // (10 * GIB // 8)
    # AND each reads its own share
    assert found.readings[0].seconds == 10 * GIB / 8 / 2e12


def test_reads_are_of_what_is_resident_without_rounding() -> None:
    found = kv_account(load_model("gpt-oss-20b"), 1001, page_size=16, gpu=[gpu(bandwidth=1e9)])
    assert found.readings[0].bytes == 12 * 2048 * (1001 + 128)
    assert found.readings[0].seconds == pytest.approx(12 * 2048 * (1001 + 128) / 1e9)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40), st.one_of(st.none(), st.integers(1, 12)), st.one_of(st.none(), st.integers(1, 6)),
    st.integers(1, 3), st.integers(0, 3000), st.integers(0, 500),
)  # fmt: skip
def test_what_fits_is_what_filling_shows(
    context: int, window: int | None, page: int | None, batch: int, memory: int, reserve: int
) -> None:
    # GIVEN two layers of one head one wide, so that a token is eight bytes
    spec = model_of(layers=2, heads=1, d=1, window=window)
    # WHEN a memory is shared out
    found = kv_account(spec, context, batch, page_size=page, memory=max(1, memory), reserve=reserve, gpu=[gpu()])
    fit = found.memory_fit
    assert fit is not None
    budget = max(1, memory) - reserve

    def taken(tokens: int, frees: bool) -> int:
        layer = filled(tokens, window, page, frees=frees)
        return 8 * layer.most_tokens_reserved() + (
            4 * len(filled(tokens, None, page, frees=False).pages) if page else 0
        )

    # THEN as many sequences fit as filling says, with and without freeing what has left the window
    assert fit.users == max(0, budget) // taken(context, False)
    assert fit.users_resident == max(0, budget) // taken(context, True)
    # AND the longest context is the last that fits
    for frees, answer in ((False, fit.context), (True, fit.context_resident)):
        if answer is None:
            assert batch * taken(300, frees) <= budget
            continue
        if answer > 300:
            continue
        assert answer == 0 or batch * taken(answer, frees) <= budget
        assert batch * taken(answer + 1, frees) > budget


def test_what_is_not_known_is_asked_for() -> None:
    unknown = load_model(str(CONFIGS / "unknown.json"))
    with pytest.raises(InputError, match="weights"):
        kv_account(unknown, gpu=[gpu()])
    assert kv_account(unknown, gpu=[gpu()], weights_dtype="none").readings[0].fit is not None
    with pytest.raises(InputError, match="memory"):
        kv_account(load_model("gpt2"), gpu=[gpu(capacity=None)])


@pytest.mark.parametrize("shape", ["table", "json", "jsonl", "csv", "markdown"])
def test_every_format_says_what_fits(shape: str) -> None:
    found = kv_account(
        load_model("gemma-3-27b"), 8192, 2, tp=2, page_size=16, gpu=[gpu()], with_variants=shape != "csv"
    )
    text = render(view(found), shape)
    assert "gemma-3-27b" in text
    assert "None" not in text


def test_notes_name_what_is_unusual_about_the_question() -> None:
    long = view(kv_account(load_model("llama-2-7b"), 8192, gpu=[gpu()])).document["notes"]
    shared = view(kv_account(load_model("llama-3-8b"), tp=16, gpu=[gpu()])).document["notes"]
    assert any("4096 the model is made for" in note for note in long)
    assert any("fewer K/V heads than 16 devices" in note for note in shared)
