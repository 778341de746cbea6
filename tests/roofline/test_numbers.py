"""What is attainable: hand-worked cases, and properties against exact fractions."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflinecli.report.plot.build import chart
from rooflinecli.report.plot.chart import Chart, Point
from rooflinecli.report.plot.kernels import Kernel, Machine
from tests.roofline.builders import A100, H100, flash, kernel, limits, machine, standard


def at(drawn: Chart, level: str, algorithm: str = "flash2") -> Point:
    [point] = [point for point in drawn.points if (point.level, point.algorithm) == (level, algorithm)]
    return point


def test_the_documents_naive_point() -> None:
    # GIVEN naive attention of the source documents: fp32 storage, N=2048, d=64, O left out, tensor cores in fp16
    n, d = 2048, 64
    moved = (4 * n * n + 3 * n * d) * 4
    book = replace(kernel(A100, "naive", n, d, sm=moved, hbm=moved), textbook_only=True)
    # WHEN it is drawn under the textbook roof
    drawn = chart("", [A100], [book])
    # THEN intensity, ridge and share are the documents' (their byte count is 68,681,728)
    point = at(drawn, "textbook", "naive")
    assert moved == 68_681_728
    assert round(point.intensity, 2) == 15.94
    assert round(drawn.ridges[0].intensity, 1) == 200.6
    assert round(point.flops_per_s / 1e12) == 25
    assert round(point.flops_per_s / 312e12, 2) == 0.08
    assert point.bound_by == "hbm"
    assert [roof.id for roof in drawn.roofs] == ["hbm", "fp16_tensor"]


def test_one_kernel_stands_at_equal_height_on_every_level() -> None:
    drawn = chart("", [A100], [flash(A100, 8192)])
    sm, hbm = at(drawn, "sm"), at(drawn, "hbm")
    assert sm.flops_per_s == hbm.flops_per_s == pytest.approx(312e12)
    # Tiles of 128 queries read K and V 64 times: (2 + 2 * 64) n d elements at the SM by hand, 4 n d at HBM.
    assert hbm.intensity / sm.intensity == pytest.approx((2 + 2 * 64) / 4)
    assert sm.bound_by == hbm.bound_by == "fp16_tensor"


def test_exponentials_are_a_ceiling_of_their_own() -> None:
    # GIVEN d=64 on Hopper: 256 FLOP a pair, one exponential a pair
    drawn = chart("", [H100], [flash(H100, 8192)])
    [exp] = [roof for roof in drawn.roofs if roof.id == "exp"]
    # THEN 3.865e12 exponentials a second carry 256 times as many FLOP: exactly at the tensor peak
    assert (exp.kind, exp.low, exp.high) == ("kernel", pytest.approx(989.44e12), pytest.approx(989.44e12))
    # and d=128 halves them
    [half] = [roof for roof in chart("", [H100], [kernel(H100, "flash2", 8192, 128, sm=1, hbm=1)]).roofs
              if roof.id == "exp"]  # fmt: skip
    assert half.high == pytest.approx(2 * 989.44e12)


def test_exponentials_bind_where_they_are_slowest() -> None:
    slow = machine("x", "X", {"fp16_tensor": 1e15, "hbm": 1e13, "l2": 1e14, "fp32_vector": 1e15, "exp": 1e12})
    point = at(chart("", [slow], [flash(slow, 4096)]), "hbm")
    assert point.bound_by == "exp"
    assert point.attainable == pytest.approx(256e12)


def test_without_tensor_cores_the_vector_unit_does_both() -> None:
    old = machine("p100", "P100", {"fp32_vector": 10e12, "hbm": 732e9})
    both = Kernel(
        gpu="p100", algorithm="naive", dtype="fp32", workload={}, tile="", executed=1000, book_flops=1020, sm_bytes=1,
        hbm_bytes=1, hbm_low=1, hbm_high=1, limits=limits(old, {"fp32_vector": 1020, "hbm": 1}),
    )  # fmt: skip
    drawn = chart("", [old], [both])
    assert at(drawn, "hbm", "naive").attainable == pytest.approx(10e12 * 1000 / 1020)
    assert {roof.kind for roof in drawn.roofs if roof.id == "fp32_vector"} == {"compute", "kernel"}


rates = st.integers(10**9, 10**16)
amounts = st.integers(1, 10**18)


@st.composite
def drawn_kernels(draw: st.DrawFn) -> tuple[Machine, Kernel]:
    names = ["fp16_tensor", "hbm", *draw(st.sets(st.sampled_from(["l2", "exp", "fp32_vector"])))]
    gpu = machine("x", "X", {name: draw(rates) for name in names})
    work, sm, hbm = draw(amounts), draw(amounts), draw(amounts)
    spent = {"fp16_tensor": work, "hbm": hbm, "l2": sm, "exp": draw(amounts), "fp32_vector": draw(amounts)}
    made = Kernel(
        gpu="x", algorithm="flash2", dtype="fp16", workload={}, tile="", executed=work, book_flops=work + 5,
        sm_bytes=sm, hbm_bytes=hbm, hbm_low=hbm, hbm_high=hbm,
        limits=limits(gpu, {name: spent[name] for name in names}),
    )  # fmt: skip
    return gpu, made


@given(drawn_kernels())
def test_attainable_is_the_least_that_any_ceiling_allows(made: tuple[Machine, Kernel]) -> None:
    gpu, each = made
    drawn = chart("", [gpu], [each])
    for point in drawn.points:
        # No point is over any slope that carries its bytes, over the peak, or over another unit's roof.
        for roof in drawn.roofs:
            mine = roof.kind != "bandwidth" or roof.level == ("hbm" if point.level == "textbook" else point.level)
            if mine and roof.kind != "reference" and (point.level != "textbook" or roof.kind != "kernel"):
                assert point.flops_per_s <= roof.at(point.intensity) * (1 + 1e-9)
        # The whole time is exactly the slowest ceiling's, in fractions.
        if point.level != "textbook":
            slowest = max(Fraction(seconds) for seconds in each.limits.values())
            assert point.flops_per_s == pytest.approx(float(each.executed / slowest))
            assert each.limits[point.bound_by] == max(each.limits.values())
        assert point.above == ()
        assert point.share == 1


@given(drawn_kernels(), st.integers(2, 1000))
def test_attainable_never_falls_as_bytes_do(made: tuple[Machine, Kernel], factor: int) -> None:
    gpu, heavy = made
    light = replace(
        heavy,
        hbm_bytes=max(1, heavy.hbm_bytes // factor),
        limits={**heavy.limits, "hbm": heavy.limits["hbm"] * max(1, heavy.hbm_bytes // factor) / heavy.hbm_bytes},
    )
    before, after = (at(chart("", [gpu], [each]), "hbm") for each in (heavy, light))
    assert after.intensity >= before.intensity
    assert after.attainable >= before.attainable * (1 - 1e-12)


@given(rates, rates)
def test_the_ridge_is_where_slope_and_peak_meet(bandwidth: int, peak: int) -> None:
    drawn = chart("", [machine("x", "X", {"hbm": bandwidth, "fp16_tensor": peak})], [])
    [ridge] = drawn.ridges
    slope, flat = drawn.roofs
    assert slope.at(ridge.intensity) == pytest.approx(flat.at(ridge.intensity)) == pytest.approx(ridge.flops_per_s)
    assert slope.at(ridge.intensity / 2) < flat.at(1)


def test_a_measured_point_keeps_its_own_height_and_is_flagged_above_a_roof() -> None:
    # GIVEN a time 10% shorter than the tensor peak allows
    least = 4 * 8192 * 8192 * 64 / 989.4e12
    drawn = chart("", [H100], [flash(H100, 8192, seconds=least / 1.1)])
    # THEN the point is drawn there, above the peak and whatever else it beats
    point = at(drawn, "hbm")
    assert point.flops_per_s == pytest.approx(1.1 * 989.4e12)
    assert {"fp16_tensor", "l2", "exp"} == set(point.above)
    assert point.share == pytest.approx(point.flops_per_s / point.attainable)


@pytest.mark.parametrize(
    ("wrong", "levels", "word"),
    [
        ({"executed": 0, "book_flops": 0}, {"hbm", "sm", "textbook"}, "0 FLOP"),
        ({"hbm_bytes": 0}, {"hbm"}, "0 bytes"),
        ({"seconds": math.nan}, {"hbm", "sm", "textbook"}, "nan"),
        ({"seconds": 0.0}, {"hbm", "sm", "textbook"}, "0.0"),
        ({"seconds": math.inf}, {"hbm", "sm", "textbook"}, "inf"),
    ],
)
def test_what_has_no_place_is_listed_with_the_reason(wrong: dict[str, object], levels: set[str], word: str) -> None:
    drawn = chart("", [A100], [replace(flash(A100, 1024), **wrong)])  # type: ignore[arg-type]
    assert {lost.what.split()[-1] for lost in drawn.undrawable} == levels
    assert all(word in lost.reason for lost in drawn.undrawable)
    assert not levels & {point.level for point in drawn.points}


def test_formats_bring_their_own_peaks_to_one_machine() -> None:
    # GIVEN the same GPU seen through two formats
    eight = machine("h100", "H100 SXM", {"fp8_tensor": 1978.9e12, "hbm": 3350e9})
    eighth = replace(flash(H100, 1024), dtype="fp8_e4m3", limits={"fp8_tensor": 1e-6, "hbm": 1e-6})
    drawn = chart("", [H100, eight], [flash(H100, 1024), eighth])
    # THEN each peak is a roof, named after its format, and each gives a ridge for each slope
    assert {(roof.id, roof.dtype) for roof in drawn.roofs if roof.kind == "compute"} == {
        ("fp16_tensor", "fp16"), ("fp8_tensor", "fp8_e4m3"),
    }  # fmt: skip
    assert len(drawn.ridges) == 4


def test_only_some_levels() -> None:
    drawn = standard()["one"].only(("sm",))
    assert {point.level for point in drawn.points} == {"sm"}
    assert [roof.id for roof in drawn.roofs if roof.kind == "bandwidth"] == ["l2"]
    assert {ridge.bandwidth for ridge in drawn.ridges} == {"l2"}
