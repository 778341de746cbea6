"""Ceilings out of times, on a card whose bandwidths are made up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflinecli.measurement.calibrate import (
    Calibration,
    Ceiling,
    Prepared,
    Probe,
    as_rate,
    calibrate,
    effective_capacity,
    l2_plateau,
)
from rooflinecli.measurement.probes import footprints, stream_elements
from rooflinecli.measurement.statistics import summarize
from tests.measurement.fake import CALM, H200, FakeDevice, OutOfMemoryError

MIB = 1 << 20


def probe(kind: str, amount: int, footprint: int | None = None, unit: str = "B/s") -> Probe:
    return Probe(kind, unit, lambda: Prepared(lambda: None, amount, footprint), "made up")


def point(footprint: int, rate: float) -> Ceiling:
    return Ceiling("l2_read_curve", "B/s", rate, rate, rate, 20, "", footprint)


def run(*probes: Probe, device: FakeDevice | None = None) -> Calibration:
    return calibrate(device or FakeDevice(1e-3), probes, [])


def test_a_rate_is_work_over_time_and_its_interval_turns_around() -> None:
    # GIVEN 4 GB in 1.00 ms, from 0.98 to 1.02
    found = as_rate(summarize([0.98e-3, 0.99e-3, 1.0e-3, 1.01e-3, 1.02e-3]), 4_000_000_000, "B/s")
    assert found.median == pytest.approx(4.0e12)
    assert found.low == pytest.approx(4e9 / 1.02e-3)
    assert found.high == pytest.approx(4e9 / 0.98e-3)
    # a launch stays a time
    assert as_rate(summarize([3e-6]), 1, "s").median == 3e-6


def test_a_working_set_that_the_l2_may_hold_is_not_called_hbm_bandwidth() -> None:
    # GIVEN an L2 of 60 MiB: 240 MiB is the least that counts
    small = run(probe("hbm_read", 10**9, 240 * MIB - 4))
    large = run(probe("hbm_read", 10**9, 240 * MIB))
    assert small.ceiling("hbm_read") is None
    assert "4 times the L2" in small.missing["hbm_read"]
    assert large.ceiling("hbm_read") is not None


def test_without_a_known_l2_nothing_is_called_hbm_bandwidth() -> None:
    found = run(probe("hbm_copy", 10**9, 1 << 40), device=FakeDevice(1e-3, identity=replace(H200, l2=None)))
    assert found.ceiling("hbm_copy") is None
    assert "unknown" in found.missing["hbm_copy"]


def test_a_probe_that_fails_is_left_out_with_its_reason() -> None:
    def burst() -> Prepared:
        raise OutOfMemoryError("CUDA out of memory")

    def absent() -> Prepared:
        raise AttributeError("module 'torch' has no attribute '_int_mm'")

    found = run(
        Probe("fp16_tensor", "FLOP/s", burst, ""), Probe("int8_tensor", "FLOP/s", absent, ""),
        probe("exp", 10**9, unit="op/s"),
    )  # fmt: skip
    assert found.missing["fp16_tensor"] == "ran out of GPU memory"
    assert "_int_mm" in found.missing["int8_tensor"]
    assert [one.kind for one in found.ceilings] == ["exp"]


def test_an_interruption_keeps_what_there_is() -> None:
    def stop() -> Prepared:
        raise KeyboardInterrupt

    found = run(probe("exp", 10**9), Probe("launch", "s", stop, ""), probe("fp32_vector", 10**9))
    assert found.interrupted
    assert [one.kind for one in found.ceilings] == ["exp"]


def test_throttling_stands_with_the_figure() -> None:
    held = replace(CALM, throttling=("power limit",))
    found = run(probe("fp16_tensor", 10**12, unit="FLOP/s"), device=FakeDevice(1e-3, states=held))
    assert found.ceilings[0].throttling == ("power limit",)
    assert found.environment.throttling == ("power limit",)


def cache(effective: float, fast: float = 8e12, slow: float = 4e12) -> list[Ceiling]:
    """The curve of a cache that misses a share rising from 0 to 1 between 0.6 and 1.4 of its effective size."""
    curve = []
    for footprint in footprints(H200):
        missed = min(1.0, max(0.0, (footprint / effective - 0.6) / 0.8))
        curve.append(point(footprint, 1 / ((1 - missed) / fast + missed / slow)))
    return curve


@given(st.floats(18.0, 60.0))
def test_the_curve_shows_the_effective_capacity(size: float) -> None:
    curve = cache(size * MIB)
    plateau = l2_plateau(curve, H200.l2)
    assert plateau is not None
    assert plateau.kind == "l2_read"
    found = effective_capacity(curve, plateau, replace(point(1 << 31, 4e12), kind="hbm_read"))
    assert found is not None
    # Between two footprints it is a straight line: a tenth is what the grid of footprints allows
    assert found == pytest.approx(size * MIB, rel=0.10)


def test_a_curve_without_a_knee_shows_nothing() -> None:
    flat = [point(footprint, 4e12) for footprint in footprints(H200)]
    assert effective_capacity(flat, l2_plateau(flat, H200.l2), point(1 << 31, 4e12)) is None
    assert effective_capacity(cache(25 * MIB), None, point(1 << 31, 4e12)) is None
    assert effective_capacity(cache(25 * MIB), l2_plateau(cache(25 * MIB), H200.l2), None) is None
    assert l2_plateau([], H200.l2) is None


def test_footprints_hold_the_cache_and_far_more() -> None:
    found = footprints(H200)
    assert found == sorted(set(found))
    assert found[0] < (60 << 20) / 16
    assert found[-1] == 4 * (60 << 20)
    assert all(size % (16 << 10) == 0 for size in found)
    assert footprints(replace(H200, l2=None)) == []


@pytest.mark.parametrize("free", [1 << 28, 8 << 30, 140 << 30])
def test_arrays_are_whole_shares_and_fit(free: int) -> None:
    elements = stream_elements(H200, free)
    assert elements % (4096 * 132 * 6) == 0
    assert 4 * elements <= max(2 << 30, 4 * 4096 * 132 * 6)
    assert 3 * 4 * elements <= free
