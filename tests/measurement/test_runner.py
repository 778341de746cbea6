"""Measuring points: memory, correctness, time, interruption; on kernels and a card that are made up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflinecli.kernels import KernelConfig, KernelSpec, Launch

from rooflinecli.hardware import load_profile
from rooflinecli.measurement.memory_needs import bytes_needed, checkable
from rooflinecli.measurement.peers import PEERS
from rooflinecli.measurement.records import Correctness, Measurement
from rooflinecli.measurement.runner import Runner
from rooflinecli.measurement.suites import Case
from rooflinecli.measurement.timing import Policy
from rooflinecli.workload import Workload
from tests.measurement.fake import CALM, FakeDevice, OutOfMemoryError

SMALL = Workload(heads=32, n_q=4096, d=128)
POLICY = Policy(least=30, most=60, batch=20, budget=1.0, warm_up=0.0)


@dataclass
class FakeKernel:
    """Launches nothing; `act` is called at each launch and may raise."""

    name: str = "flash_forward"
    algorithm: str = "flash2"
    reason: str | None = None
    act: Callable[[], None] = lambda: None
    prepared: list[Workload] = field(default_factory=list)

    def supports(self, workload: Workload, capability: object) -> str | None:
        return self.reason

    def config(self, workload: Workload, capability: object) -> KernelConfig:
        return KernelConfig(br=128, bc=64)

    def make_inputs(self, workload: Workload, device: str, seed: int) -> dict[str, Any]:
        return {}

    def prepare(self, inputs: Mapping[str, Any], workload: Workload, config: KernelConfig) -> Launch:
        self.prepared.append(workload)
        return Launch(lambda: self.act(), {"o": 0.0}, ("fake",))

    def reference(self, inputs: Mapping[str, Any], workload: Workload) -> dict[str, Any]:
        return {"o": 0.0}


def right(outputs: object, reference: object, workload: Workload) -> Correctness:
    return Correctness(1e-4, 2e-3, "o", workload)


def run(
    *kernels: FakeKernel, device: FakeDevice | None, workloads: tuple[Workload, ...] = (SMALL,), **more: Any
) -> Measurement:
    by_name: dict[str, Any] = {kernel.name: kernel for kernel in kernels}
    runner = Runner(by_name, device, load_profile("h200"), POLICY, **{"judge": right, **more})
    return runner.run([Case(kernel.name, w) for w in workloads for kernel in kernels], "test")


def test_a_point_carries_its_samples_its_prediction_and_its_share() -> None:
    # GIVEN a kernel of 32 heads, N=4096, d=128: 4*N*N*d*32 = 274.9 GFLOP, at 989.4 TFLOP/s at least 277.8 us
    found = run(FakeKernel(), device=FakeDevice(400e-6))
    [point] = found.points
    # WHEN it takes 400 us
    assert point.status == "measured"
    assert point.seconds == pytest.approx(400e-6)
    assert point.timing is not None
    assert len(point.timing.samples) >= 30
    # THEN it does 687.2 TFLOP/s, 69.5% of what the tensor cores allow
    assert point.flops_per_s == pytest.approx(687.2e12, rel=1e-3)
    tensor = next(share for share in point.shares if share.ceiling == "fp16_tensor")
    assert tensor.share == pytest.approx(0.6946, rel=1e-3)
    assert point.shares[0].share == max(share.share for share in point.shares)
    assert point.above == ()


def test_a_point_above_its_roof_is_flagged() -> None:
    found = run(FakeKernel(), device=FakeDevice(200e-6))
    assert [share.ceiling for share in found.points[0].above] == ["fp16_tensor"]
    assert any("above its roof" in warning for warning in found.warnings)


def test_wrong_results_are_not_timed() -> None:
    device = FakeDevice()
    found = run(FakeKernel(), device=device, judge=lambda *_: Correctness(0.5, 2e-3, "o", SMALL))
    assert [point.status for point in found.wrong] == ["wrong"]
    assert found.points[0].timing is None
    assert device.runs == 0


@pytest.mark.parametrize("error", [float("nan"), float("inf")])
def test_an_error_that_is_no_number_is_wrong(error: float) -> None:
    assert not Correctness(error, 2e-3, "o", SMALL).passed


def test_what_cannot_fit_is_not_tried() -> None:
    # GIVEN naive attention whose S and P take 2 x 32 x 4096 x 4096 x 2 B = 2 GiB, on a card with 1.5 GiB free
    device = FakeDevice(free=3 << 29)
    kernel = FakeKernel("naive", "naive")
    found = run(kernel, device=device)
    assert found.points[0].status == "skipped"
    assert "GiB of GPU memory" in str(found.points[0].reason)
    assert "1.5 GiB are free" in str(found.points[0].reason)
    assert kernel.prepared == []


def test_running_out_of_memory_skips_the_point_and_goes_on() -> None:
    def burst() -> None:
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    device = FakeDevice()
    found = run(FakeKernel("greedy", act=burst), FakeKernel(), device=device)
    assert [point.status for point in found.points] == ["skipped", "measured"]
    assert "ran out of GPU memory" in str(found.points[0].reason)
    assert "needs" in str(found.points[0].reason) or "need" in str(found.points[0].reason)
    assert device.released >= 2


def test_a_kernel_that_fails_to_run_is_one_line() -> None:
    def fail() -> None:
        raise RuntimeError("no such instruction\nlong trace")

    found = run(FakeKernel(act=fail), device=FakeDevice())
    assert found.points[0].reason == "did not run: no such instruction"


def test_an_unsupported_workload_says_why() -> None:
    found = run(FakeKernel(reason="head dims over 256"), device=FakeDevice())
    assert (found.points[0].status, found.points[0].reason) == ("skipped", "head dims over 256")


def test_an_interruption_keeps_what_was_measured() -> None:
    # GIVEN a user who presses Ctrl-C while the second of three points is timed
    launches = 0

    def act() -> None:
        nonlocal launches
        launches += 1
        if launches > 30:
            raise KeyboardInterrupt

    workloads = (SMALL, replace(SMALL, n_q=2048, n_kv=2048), replace(SMALL, n_q=1024, n_kv=1024))
    calm = FakeKernel("calm")
    found = run(calm, FakeKernel("slow", act=act), device=FakeDevice(), workloads=workloads)
    assert found.interrupted
    assert [(point.kernel, point.status) for point in found.points] == [("calm", "measured")]


def test_without_a_gpu_nothing_is_timed() -> None:
    kernel = FakeKernel()
    found = run(kernel, device=None)
    [point] = found.points
    assert (point.status, point.timing, point.prediction) == ("checked", None, None)
    assert found.identity is None


def test_without_a_profile_times_stand_alone() -> None:
    runner = Runner({"flash_forward": FakeKernel()}, FakeDevice(), None, POLICY, judge=right)  # type: ignore[dict-item]
    [point] = runner.run([Case("flash_forward", SMALL)], "test").points
    assert (point.status, point.prediction, point.shares) == ("measured", None, ())


def test_warnings_are_said_once() -> None:
    busy = replace(CALM, others=2)
    found = run(FakeKernel(), FakeKernel("other"), device=FakeDevice(states=busy))
    assert sum("2 other processes" in warning for warning in found.warnings) == 1


def test_progress_reaches_its_end() -> None:
    told: list[tuple[int, int]] = []
    runner = Runner({"flash_forward": FakeKernel()}, FakeDevice(), None, POLICY, judge=right)  # type: ignore[dict-item]
    runner.run([Case("flash_forward", SMALL)] * 3, "test", lambda done, total, _: told.append((done, total)))
    assert told[0] == (0, 3)
    assert told[-1] == (3, 3)
    assert told == sorted(told)


def test_what_torch_means_differently_is_not_asked_of_it() -> None:
    torch_flash = PEERS[0]
    assert torch_flash.supports(SMALL) is None
    for changed in (
        {"causal": True, "n_q": 1, "n_kv": 4096}, {"window": 128, "causal": True}, {"dtype": "fp8", "kv_dtype": "fp8"},
    ):  # fmt: skip
        assert torch_flash.supports(Workload(**{"n_q": 4096, "d": 128, **changed})) is not None  # type: ignore[arg-type]


SIZES = st.integers(1, 1 << 17)


@given(SIZES, SIZES, st.integers(1, 8), st.sampled_from([1, 2, 4]), st.booleans())
def test_what_is_checked_is_like_what_is_timed_and_affordable(
    n_q: int, n_kv: int, batch: int, group: int, causal: bool
) -> None:
    whole = Workload(batch=batch, heads=4 * group, kv_heads=4, n_q=n_q, n_kv=n_kv, d=128, causal=causal)
    small = checkable(whole)
    assert (small.d, small.d_v, small.dtype, small.causal, small.group) == (128, 128, "fp16", causal, group)
    assert small.n_q <= whole.n_q
    assert small.n_kv <= whole.n_kv
    assert small.n_q * small.n_kv <= max(2**27, 256 * n_q)
    assert whole.n_q > whole.n_kv or small.n_q <= small.n_kv or small == whole


def test_needs_are_at_least_the_tensors() -> None:
    w = SMALL
    tensor = 2 * w.heads * w.n_q * w.d
    assert bytes_needed(w, "flash2") >= 4 * tensor
    assert bytes_needed(w, "naive") >= 4 * tensor + 2 * 2 * w.heads * w.n_q * w.n_q
    assert bytes_needed(w, "backward") >= 10 * tensor
    # A split's partial results are fp32
    decode = Workload(batch=16, heads=32, kv_heads=8, n_q=1, n_kv=8192, d=128)
    assert bytes_needed(decode, "decode", splits=8) - bytes_needed(decode, "decode") == 8 * 16 * 32 * (128 + 1) * 4


def test_the_bundled_specs_are_what_the_runner_takes() -> None:
    spec = KernelSpec("flash_forward", "flash2", "flash_forward", "")
    assert all(callable(getattr(spec, name)) for name in ("supports", "config", "make_inputs", "prepare", "reference"))
