"""Ranges and lists of values."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflinecli.errors import InputError
from rooflinecli.sweep import combinations, count_label, parse_sweep, parse_sweeps
from rooflinecli.units import parse_count


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("N=256..2048", (256, 512, 1024, 2048)),
        ("N=1k,2k,4k", (1000, 2000, 4000)),
        ("N=256..1k", (256, 512, 1000)),
        ("N=5..5", (5,)),
        ("d=64..256:+64", (64, 128, 192, 256)),
        ("d=64..250:+64", (64, 128, 192, 250)),
        ("N=1..1000:x10", (1, 10, 100, 1000)),
        ("N=8Ki,1..4", (8192, 1, 2, 4)),
        ("N=1,2,1", (1, 2)),
        ("--N=1,2", (1, 2)),
        ("dtype=fp16,bf16", ("fp16", "bf16")),
        ("causal=no,yes", (False, True)),
    ],
)
def test_values(text: str, values: tuple[object, ...]) -> None:
    assert parse_sweep(text).values == values


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("N", "OPTION=VALUES"),
        ("N=", "OPTION=VALUES"),
        ("M=1,2", "unknown option"),
        ("N=1,x", "whole number"),
        ("N=4..2", "before its start"),
        ("N=0..8", "starts at 1"),
        ("N=1..8:x1", "goes nowhere"),
        ("N=1..8:+0", "goes nowhere"),
        ("N=1..8:7", "neither a factor nor a distance"),
        ("N=1..1M:+1", "1000 values"),
        ("causal=maybe", "neither yes nor no"),
        ("dtype=fp16,", "empty"),
    ],
)
def test_refusals_name_the_text(text: str, word: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_sweep(text)
    assert word in caught.value.message
    assert f"--sweep {text}" in caught.value.message


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_range_grows_from_its_first_to_its_last_value(one: int, other: int) -> None:
    first, last = sorted((one, other))
    values = parse_sweep(f"N={first}..{last}").values
    assert (values[0], values[-1]) == (first, last)
    assert all(int(a) < int(b) <= 2 * int(a) for a, b in pairwise(values))


def test_every_combination_once() -> None:
    found = list(combinations(parse_sweeps(["N=1,2", "d=64,128,192"])))
    assert len(found) == len({tuple(each.items()) for each in found}) == 6
    assert found[0] == {"N": 1, "d": 64}
    assert list(combinations(())) == [{}]


def test_too_many_or_twice() -> None:
    with pytest.raises(InputError, match="given twice"):
        parse_sweeps(["N=1", "N=2"])
    with pytest.raises(InputError, match="combinations"):
        parse_sweeps(["N=1..500:+1", "d=1..500:+1"])


@given(st.integers(1, 2**40))
def test_labels_read_back_as_the_same_count(value: int) -> None:
    assert parse_count(count_label(value)) == value
