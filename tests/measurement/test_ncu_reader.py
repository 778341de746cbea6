"""One launch, printed in every way the profiler has been seen to print it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflinecli.errors import InputError
from rooflinecli.measurement.ncu.numbers import decimal_mark, parse_number, scale_of
from rooflinecli.measurement.ncu.reader import Launch, parse_csv, read_csv

DATA = Path(__file__).parents[1] / "data/ncu"
# What every file below is a print of.
TRUTH = {
    "dram__bytes_read.sum": 50_401_280,
    "dram__bytes_write.sum": 2048,
    "l1tex__m_l1tex2xbar_write_bytes.sum": 16_777_216,
    "l1tex__m_xbar2l1tex_read_bytes.sum": 553_648_128,
    "sm__inst_executed_pipe_xu.sum": 4_259_840,
    "sm__ops_path_tensor_op_hgmma_src_fp16.sum": 68_719_476_736,
    "sm__ops_path_tensor_op_hmma_src_fp16.sum": 0,
}


def values(launch: Launch) -> dict[str, float | None]:
    return {name: reading.value for name, reading in launch.metrics.items()}


@pytest.mark.parametrize(
    "name",
    ["wide_base", "wide_scaled", "wide_newer", "wide_dots", "wide_spreadsheet", "long", "long_sections"],
)
def test_every_print_of_one_launch_reads_the_same(name: str) -> None:
    [launch] = read_csv(DATA / f"{name}.csv")
    found = values(launch)
    # 102.432 us; where dots group thousands the same digits are nanoseconds
    assert found.pop("gpu__time_duration.sum") == pytest.approx(102.432e-6)
    assert found == pytest.approx(TRUTH)
    # Commas and quotes inside a kernel's name are part of it
    assert launch.kernel == 'flash_forward<float, 128, (int)64>(const char *, "x", int)'
    assert (launch.grid, launch.block, launch.capability) == ("(16, 32, 1)", "(128, 1, 1)", "9.0")
    assert launch.metrics["l1tex__m_xbar2l1tex_read_bytes.sum"].unit == "B"
    assert launch.metrics["gpu__time_duration.sum"].unit == "s"


def test_a_file_redirected_on_windows(tmp_path: Path) -> None:
    saved = tmp_path / "utf16.csv"
    saved.write_bytes((DATA / "wide_base.csv").read_text().replace("\n", "\r\n").encode("utf-16"))
    assert read_csv(saved) == read_csv(DATA / "wide_base.csv")


def test_holes_are_not_zero() -> None:
    [launch] = read_csv(DATA / "wide_holes.csv")
    found = values(launch)
    for name in ("dram__bytes_read.sum", "dram__bytes_write.sum", "sm__inst_executed_pipe_xu.sum"):
        assert found[name] is None
    assert found["sm__ops_path_tensor_op_hmma_src_fp16.sum"] == 0


def test_launches_keep_their_order() -> None:
    launches = read_csv(DATA / "wide_repeats.csv")
    assert [launch.id for launch in launches] == ["0", "1", "2", "3"]
    assert launches[0].kernel == "fill_kernel"


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("wide_no_unit", ("dram__bytes_read.sum", "no unit")),
        ("sections_only", ("no metric by its own name",)),
        ("wide_contradicting", ("contradict", "553.648.128")),
    ],
)
def test_what_cannot_be_trusted_is_refused(name: str, named: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as caught:
        read_csv(DATA / f"{name}.csv")
    assert all(part in caught.value.message for part in named)
    assert f"{name}.csv" in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "text", ["", "hello", "a,b,c\n1,2,3\n", "==PROF== Connected\n", '"ID","Kernel Name"', "\0\1\2"]
)
def test_no_table(text: str) -> None:
    with pytest.raises(InputError):
        parse_csv(text)


def test_a_file_cut_short_is_noticed() -> None:
    whole = (DATA / "long.csv").read_text()
    cut = whole[: whole.index('"68,719') + 20]
    with pytest.raises(InputError, match="cut short"):
        parse_csv(cut)


def test_no_file() -> None:
    with pytest.raises(InputError, match="nowhere"):
        read_csv(Path("nowhere.csv"))


def test_an_unknown_unit_is_not_guessed() -> None:
    text = (DATA / "wide_base.csv").read_text().replace('"byte","byte"', '"KiB","byte"', 1)
    with pytest.raises(InputError, match="KiB"):
        parse_csv(text)


@pytest.mark.parametrize(
    ("unit", "scale"),
    [
        ("byte", (1, "B")), ("Kbyte", (1e3, "B")), ("Mbyte", (1e6, "B")), ("Gbyte", (1e9, "B")), ("Tbyte", (1e12, "B")),
        ("nsecond", (1e-9, "s")), ("usecond", (1e-6, "s")), ("msecond", (1e-3, "s")), ("second", (1, "s")),
        ("ns", (1e-9, "s")), ("us", (1e-6, "s")), ("ms", (1e-3, "s")), ("s", (1, "s")),
        ("inst", (1, "inst")), ("Gbyte/second", (1e9, "B/s")), ("byte/ns", (1e9, "B/s")), ("Mhz", (1e6, "Hz")),
    ],
)  # fmt: skip
def test_units(unit: str, scale: tuple[float, str]) -> None:
    found = scale_of(unit)
    assert found is not None
    assert found == (pytest.approx(scale[0]), scale[1])


@pytest.mark.parametrize("unit", ["KiB", "parsec", "bytes!", "/", "byte/", "Xbyte"])
def test_unknown_units(unit: str) -> None:
    assert scale_of(unit) is None


@pytest.mark.parametrize(
    ("cell", "mark", "value"),
    [
        ("27,595,520", ".", 27595520), ("27.595.520", ",", 27595520), ("1.234,5", ",", 1234.5),
        ("1,234.5", ".", 1234.5), ("0", ".", 0),
        ("27\u00a0595\u00a0520", ".", 27595520), ("27\u202f595\u202f520", ".", 27595520), ("1'234", ".", 1234),
        ("1.5e+09", ".", 1.5e9), ("-3", ".", -3), ("n/a", ".", None), ("", ".", None), ("NaN", ".", None),
    ],
)  # fmt: skip
def test_numbers(cell: str, mark: str, value: float | None) -> None:
    assert parse_number(cell, mark) == value


@pytest.mark.parametrize("cell", ["1,23,456", "1.2.3", "12,34", "abc", "1,2345", "0x10", "--1", ",123", "1.234,5"])
def test_no_numbers(cell: str) -> None:
    with pytest.raises(InputError):
        parse_number(cell, ".")


@given(st.integers(0, 10**15), st.sampled_from([(",", "."), (".", ","), ("\u202f", "."), ("", ".")]))
def test_whole_numbers_round_trip_in_every_locale(value: int, locale: tuple[str, str]) -> None:
    thousands, mark = locale
    printed = f"{value:,}".replace(",", thousands)
    # A count that must be whole tells the locale by itself, if it is printed with a separator at all
    assert decimal_mark([(printed, True)]) == (mark if thousands and thousands in ".," and value >= 1000 else ".")
    assert parse_number(printed, mark) == value


@given(st.floats(0.001, 999.0), st.sampled_from([(",", "."), (".", ",")]))
def test_decimals_round_trip(value: float, locale: tuple[str, str]) -> None:
    _, mark = locale
    printed = f"{value:.6f}".replace(".", mark)
    assert decimal_mark([(printed, False)]) == mark
    assert parse_number(printed, mark) == pytest.approx(value, abs=1e-6)
