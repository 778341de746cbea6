"""Bundled kernels under a profiler that is made up: which run how, and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest
from rooflinecli.kernels import KernelConfig

from rooflinecli.cli import verify_live
from rooflinecli.cli.options import KernelOptions, WorkloadOptions
from rooflinecli.errors import InputError, UnavailableError
from rooflinecli.measurement.device import Identity
from rooflinecli.measurement.ncu.reader import Launch, Reading
from rooflinecli.measurement.ncu.run import Profiled, Replay
from rooflinecli.measurement.suites import Case
from rooflinecli.report import verify as report
from rooflinecli.report.formats import render
from tests.measurement.fake import H200, FakeDevice

CONFIG = asdict(KernelConfig(br=128, bc=128))


class FakeNcu:
    """Counts what the accounting of N=2048, d=128, 32 heads predicts, times `scale`; writes at 1.0."""

    seen: tuple[tuple[Replay, int], ...] = ()
    scale = 1.0

    def __init__(self, program: str | None) -> None:
        FakeNcu.seen = ()

    def version(self) -> str:
        return "2025.3.1"

    def profile(self, cases: Sequence[Case], replay: Replay) -> tuple[list[Profiled], str]:
        FakeNcu.seen += ((replay, len(cases)),)
        counters = {
            "l1tex__m_xbar2l1tex_read_bytes.sum": Reading(553_648_128 * self.scale, "B"),
            "l1tex__m_l1tex2xbar_write_bytes.sum": Reading(16_777_216, "B"),
            "dram__bytes_read.sum": Reading(50_400_000, "B"),
            "sm__ops_path_tensor_op_hgmma_src_fp16.sum": Reading(68_719_476_736, ""),
        }
        launch = Launch("0", "flash_forward_hopper", "", "", "9.0", counters)
        return [Profiled(case, (launch,), CONFIG, replay) for case in cases], f"csv of {replay}"


@pytest.fixture(autouse=True)
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_live, "Ncu", FakeNcu)
    monkeypatch.setattr(verify_live, "open_device", FakeDevice)


def options(**more: object) -> tuple[WorkloadOptions, KernelOptions]:
    return WorkloadOptions(n="2048", d="128", heads="32"), KernelOptions(**more)  # type: ignore[arg-type]


def run(kernel: KernelOptions, workload: WorkloadOptions, replay: str = "auto", csv: Path | None = None):  # noqa: ANN201
    return verify_live.run(workload, kernel, None, 0.005, replay, None, csv, False, False)


def test_counters_that_equal_the_ledger_pass() -> None:
    workload, kernel = options(algorithm=["flash2"])
    [case], source = run(kernel, workload)
    assert case.passed
    assert case.kernel == "flash_forward"
    assert source["tool"] == "Nsight Compute 2025.3.1"
    text = render(report.view([case], source), "table")
    assert "agrees" in text
    assert "DISAGREES" not in text


def test_half_a_percent_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    workload, kernel = options(algorithm=["flash2"])
    for scale, passes in ((1.0049, True), (1.0051, False), (0.9951, True), (0.9949, False)):
        monkeypatch.setattr(FakeNcu, "scale", scale)
        [case], _ = run(kernel, workload)
        assert case.passed is passes


def test_single_kernels_one_by_one_and_chains_as_a_range(tmp_path: Path) -> None:
    workload, kernel = options(algorithm=["flash2", "backward"])
    run(kernel, workload, csv=tmp_path / "c.csv")
    assert FakeNcu.seen == (("kernel", 1), ("range", 1))
    assert (tmp_path / "c.csv").read_text() == "csv of kernel"
    assert (tmp_path / "c.range.csv").read_text() == "csv of range"
    [_, backward], _ = run(kernel, workload, replay="kernel")
    assert FakeNcu.seen == (("kernel", 2),)
    assert backward.algorithm == "backward"


def test_a_tile_cannot_be_forced_on_a_bundled_kernel() -> None:
    workload, kernel = options(br="64")
    with pytest.raises(InputError, match="--br"):
        run(kernel, workload)


def test_a_card_nobody_describes(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = Identity("NVIDIA Oddity", (9, 0), 1 << 36, 100, 1 << 25)
    monkeypatch.setattr(verify_live, "open_device", lambda: FakeDevice(identity=odd))
    workload, kernel = options()
    with pytest.raises(UnavailableError, match="NVIDIA Oddity"):
        run(kernel, workload)


def test_another_card_is_named_beside_this_one() -> None:
    workload, kernel = options(gpu=["a100"])
    with pytest.raises(InputError, match=r"a100.*H200") as caught:
        run(kernel, workload)
    assert "--gpu auto" in str(caught.value.hint)
    assert H200.name == "NVIDIA H200"
