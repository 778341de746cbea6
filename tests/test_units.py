"""Quantities and counts: taken literally or refused, never guessed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflinecli.dtypes import DTYPES, dtype
from rooflinecli.errors import InputError
from rooflinecli.units import format_bytes, format_capacity, format_rate, format_seconds, parse_count, parse_quantity


@pytest.mark.parametrize(
    ("text", "base", "value"),
    [
        ("1.0 TB/s", "B/s", 10**12),
        ("3350 GiB/s", "B/s", 3597035110400),
        ("3350 GB/s", "B/s", 3350000000000),
        ("3,350 GB/s", "B/s", 3350000000000),
        ("1e3 GB/s", "B/s", 10**12),
        ("1555.2GB/s", "B/s", 1555200000000),
        ("40 MiB", "B", 41943040),
        ("40 MB", "B", 40000000),
        ("227 KiB", "B", 232448),
        ("989.4 TFLOP/s", "FLOP/s", 989400000000000),
        ("989.4 TFLOPS", "FLOP/s", 989400000000000),
        ("1410 MHz", "Hz", 1410000000),
        ("700 W", "W", 700),
        ("0.5 B", "B", 0.5),
    ],
)
def test_quantities(text: str, base: str, value: float) -> None:
    found = parse_quantity(text, base)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("3,35 GB/s", "B/s"),  # a decimal comma is not a thousands separator
        ("3.350,5 GB/s", "B/s"),
        ("2039", "B/s"),
        (2039, "B/s"),
        ("GB/s", "B/s"),
        ("40 Gb/s", "B/s"),
        ("40 GB", "B/s"),
        ("40 GB/s", "B"),
        ("40 mB", "B"),
        ("nan GB/s", "B/s"),
        ("inf GB/s", "B/s"),
        ("1e9999 GB/s", "B/s"),
        ("", "B"),
        (None, "B"),
    ],
)
def test_not_quantities(text: object, base: str) -> None:
    with pytest.raises(InputError):
        parse_quantity(text, base)


@pytest.mark.parametrize(
    ("text", "value"),
    [("8192", 8192), ("8k", 8000), ("8Ki", 8192), ("128k", 128000), ("1.5k", 1500), ("2M", 2000000), ("1e9", 10**9),
     ("8,192", 8192), ("0.5Ki", 512)],
)  # fmt: skip
def test_counts(text: str, value: int) -> None:
    assert parse_count(text) == value


@pytest.mark.parametrize("text", ["8.5", "8,19", "k", "8 kB", "nan", "1e40", "--", "x8"])
def test_not_counts(text: str) -> None:
    with pytest.raises(InputError):
        parse_count(text)


@given(st.integers(0, 2**60))
def test_a_count_survives_being_written(value: int) -> None:
    assert parse_count(str(value)) == value
    assert parse_count(f"{value:,}") == value


def test_printing() -> None:
    assert format_bytes(541065216) == "541.1 MB"
    assert format_capacity(82432) == "80.5 KiB"
    assert format_capacity(65536) == "64 KiB"
    assert format_rate(312e12, "FLOP/s") == "312 TFLOP/s"
    assert format_rate(999.96e9, "B") == "1 TB"
    assert format_seconds(0.0885) == "88.5 ms"
    assert format_seconds(3.2e-6) == "3.2 us"


@pytest.mark.parametrize(
    ("name", "per_element"), [("nvfp4", 0.5625), ("q8_0", 1.0625), ("q4_0", 0.5625), ("mxfp4", 0.53125)]
)
def test_scales_are_counted(name: str, per_element: float) -> None:
    assert dtype(name).bytes_per_element == per_element
    assert dtype(name).nbytes(4096) == 4096 * per_element


def test_every_format_is_found_by_its_name_in_any_case() -> None:
    assert all(dtype(name.upper()) is found for name, found in DTYPES.items())
    assert dtype("fp8") is DTYPES["fp8_e4m3"]
