"""Ceilings out of times, on a card whose bandwidths are made up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflinecli.cli.app import main
from rooflinecli.hardware import load_profile
from rooflinecli.hardware.reader import parse_profile
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
from rooflinecli.measurement.calibrated import calibrated_profile
from rooflinecli.measurement.probes import footprints, stream_elements
from rooflinecli.measurement.statistics import summarize
from rooflinecli.report import calibrate as report
from rooflinecli.report.formats import render
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
    assert as_rate(summarize([3e-3]), 1000, "s").median == pytest.approx(3e-6)


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


def marches(effective: float, fast: float = 0.8e-6, slow: float = 1.3e-6) -> list[Ceiling]:
    """Steps of a cache that misses a share rising from 0 to 1 between 0.7 and 1.3 of its effective size."""
    curve = []
    for share in (4, 8, 12, 16, 20, 22, 24, 26, 28, 30, 32, 36, 42, 50, 60, 90, 120):
        missed = min(1.0, max(0.0, (share * MIB / effective - 0.7) / 0.6))
        time = fast + missed * (slow - fast)
        curve.append(Ceiling("l2_march", "s", time, time, time, 20, "", share * MIB))
    return curve


@given(st.floats(8.0, 80.0))
def test_marching_in_step_shows_the_effective_capacity(size: float) -> None:
    found = effective_capacity(marches(size * MIB))
    assert found is not None
    assert found == pytest.approx(size * MIB, rel=0.05)


def test_marches_without_a_knee_show_nothing() -> None:
    assert effective_capacity(marches(10_000 * MIB)) is None
    assert effective_capacity([]) is None


def test_the_plateau_is_the_l2s_bandwidth() -> None:
    curve = [point(size, 8e12 if size < 40 * MIB else 4e12) for size in footprints(H200)]
    plateau = l2_plateau(curve, H200.l2)
    assert plateau is not None
    assert (plateau.kind, plateau.median) == ("l2_read", 8e12)
    assert l2_plateau([], H200.l2) is None


def test_of_several_sizes_the_fastest_is_the_ceiling() -> None:
    found = run(probe("fp16_tensor", 7 * 10**11, unit="FLOP/s"), probe("fp16_tensor", 8 * 10**11, unit="FLOP/s"))
    assert [(one.kind, one.median) for one in found.ceilings] == [("fp16_tensor", pytest.approx(8e14))]


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


def whole(device: FakeDevice | None = None) -> Calibration:
    """A calibration of every kind, each run of which takes 1 ms."""
    amounts = {"hbm_read": 4.4e9, "hbm_write": 4.0e9, "hbm_copy": 4.2e9, "hbm_triad": 4.3e9}
    probes = [probe(kind, int(amount), 2 << 30) for kind, amount in amounts.items()]
    probes += [probe("fp16_tensor", 790 * 10**9, unit="FLOP/s"), probe("exp", 4 * 10**9, unit="op/s")]
    probes += [probe("shared_memory", 33 * 10**9), Probe("launch", "s", lambda: Prepared(lambda: None, 1), "")]
    probes += [Probe("int8_tensor", "FLOP/s", lambda: Prepared(lambda: 1 / 0, 1), "")]
    curve = [probe("l2_read_curve", 8 * 10**9 if size < 30 * MIB else 44 * 10**8, size) for size in footprints(H200)]
    steps = [probe("l2_march", 1250 if size < 25 * MIB else 800, size, unit="s") for size in footprints(H200)]
    return calibrate(device or FakeDevice(1e-3), probes, curve, steps)


def test_a_calibrated_profile_is_a_profile() -> None:
    # GIVEN an H200 that reads at 4.4 TB/s where its datasheet says 4.8
    base = load_profile("h200")
    found = parse_profile(calibrated_profile(whole(), base), "written.yaml")
    # THEN what was measured is the ceiling, says so, and holds at its clock
    assert found.dram.bandwidth is not None
    assert found.dram.bandwidth.value == pytest.approx(4.4e12)
    assert found.dram.bandwidth.source.startswith("measured on NVIDIA H200")
    assert found.dram.bandwidth.is_measured
    assert found.l2.bandwidth is not None
    assert found.l2.bandwidth.value == pytest.approx(8e12)
    assert found.peaks["fp16_tensor"].value == pytest.approx(790e12)
    assert found.peaks["fp16_tensor"].clock == pytest.approx(1.98e9)
    assert found.exp_rate is not None
    assert found.exp_rate.value == pytest.approx(4e12, rel=1e-5)
    assert found.shared_memory_bandwidth is not None
    assert found.shared_memory_bandwidth.value == pytest.approx(33e12, rel=1e-5)
    # AND what was not measured keeps the datasheet's figure and its source
    for name in ("fp8_tensor", "fp64_vector", "int8_tensor"):
        assert found.peaks[name] == base.peaks[name]
    assert found.dram.capacity == base.dram.capacity
    assert (found.sm.registers, found.sm_count, found.power) == (base.sm.registers, base.sm_count, base.power)
    # AND every figure is there with its interval and versions
    kinds = [one.kind for one in found.measured]
    assert {"hbm_read", "hbm_write", "hbm_copy", "hbm_triad", "l2_read", "launch", "fp16_tensor"} <= set(kinds)
    assert kinds.count("l2_read_curve") == len(footprints(H200))
    assert all(one.low <= one.median <= one.high for one in found.measured)
    assert all(one.versions == {"torch": "2.11.0", "triton": "3.6.0"} for one in found.measured)


def test_calibrating_twice_does_not_pile_up_names() -> None:
    once = parse_profile(calibrated_profile(whole(), load_profile("h200")), "once.yaml")
    twice = parse_profile(calibrated_profile(whole(), once), "twice.yaml")
    assert (twice.id, twice.name) == (once.id, once.name) == ("h200-sxm-141gb-calibrated", once.name)


def test_a_card_without_a_profile_gets_one() -> None:
    odd = replace(H200, name="NVIDIA Oddity 9000", capability=(12, 0))
    found = parse_profile(calibrated_profile(whole(FakeDevice(1e-3, identity=odd)), None), "odd.yaml")
    assert (found.id, found.compute_capability) == ("oddity-9000-calibrated", "12.0")
    assert found.device_names == ("NVIDIA Oddity 9000",)
    assert found.sm_count is not None
    assert found.sm_count.value == 132
    assert found.sm.registers is None
    assert found.exp_rate is not None
    assert found.exp_rate.value == pytest.approx(4e12, rel=1e-5)
    [effective] = [one for one in found.measured if one.kind == "l2_effective_capacity"]
    assert 20 * MIB < effective.median < 40 * MIB


def test_figures_beside_the_datasheets() -> None:
    text = render(report.view(whole(), load_profile("h200")), "table")
    assert "91.7%" in text  # 4.4 of 4.8 TB/s
    assert "79.8%" in text  # 790 of 989.4 TFLOP/s
    assert "Effective capacity" in text
    document = json.loads(render(report.view(whole(), None), "json"))
    assert document["schema"] == "rooflinecli/calibrate/1"
    assert len(document["l2_curve"]) == len(footprints(H200))


def test_a_yaml_output_is_the_profile_and_the_table_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # GIVEN a device and quick probes of it
    from rooflinecli.measurement import card, device, probes

    monkeypatch.setattr(device, "open_device", lambda: FakeDevice(1e-3))
    monkeypatch.setattr(card, "resolve", lambda *_, **__: load_profile("h200"))
    monkeypatch.setattr(probes, "ceilings", lambda _: [probe("hbm_copy", 10**9, 8 * 10**9)])
    monkeypatch.setattr(probes, "l2_curve", lambda _: [])
    monkeypatch.setattr(probes, "l2_marches", lambda _: [])
    # WHEN the output is a YAML file
    with pytest.raises(SystemExit) as left:
        main(["calibrate", "-o", str(tmp_path / "mine.yaml")])
    # THEN it holds a profile, and the figures stand on standard output
    assert left.value.code == 0
    assert load_profile(str(tmp_path / "mine.yaml")).id.endswith("calibrated")
    assert "HBM" in capsys.readouterr().out.upper()
    # AND two places for one file are refused
    with pytest.raises(SystemExit) as left:
        main(["calibrate", "-o", str(tmp_path / "a.yaml"), "--profile", str(tmp_path / "b.yaml")])
    assert left.value.code == 2
