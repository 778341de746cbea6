"""Measuring cases one after another: memory first, then correctness, then time; what was measured is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from rooflinecli.accounting.ledger import Tile
from rooflinecli.errors import RooflineError
from rooflinecli.measurement.correctness import judge
from rooflinecli.measurement.device import Device
from rooflinecli.measurement.memory_needs import bytes_needed, checkable
from rooflinecli.measurement.peers import BESIDE, PEERS, Peer
from rooflinecli.measurement.prediction import predict
from rooflinecli.measurement.records import Measurement, Point
from rooflinecli.measurement.suites import Case
from rooflinecli.measurement.timing import QUICK, Policy, measure_time
from rooflinecli.units import format_capacity
from rooflinecli.workload import Workload

if TYPE_CHECKING:
    from rooflinecli.hardware import Profile
    from rooflinecli.kernels import KernelSpec, Launch

Progress = Callable[[int, int, str], None]
Judge = Callable[[Mapping[str, Any], Mapping[str, Any], Workload], Any]


def silent(_done: int, _total: int, _label: str) -> None:
    """For callers who want no progress."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Everything a point needs. `device` None checks on a CPU, through Triton's interpreter, and times nothing."""

    kernels: Mapping[str, KernelSpec]
    device: Device | None
    profile: Profile | None
    policy: Policy = QUICK
    peers: tuple[Peer, ...] = ()
    seed: int = 0
    judge: Judge = judge

    def run(self, cases: Sequence[Case], suite: str, progress: Progress = silent) -> Measurement:
        """Measure `cases` in order. An interruption ends the run; the points so far are kept."""
        points: list[Point] = []
        interrupted = False
        total = sum(1 + (case.kernel in BESIDE) * len(self.peers) for case in cases)
        try:
            for case in cases:
                progress(len(points), total, f"{case.kernel} {describe(case.workload)}")
                for point in self._case(case, lambda label: progress(len(points), total, label)):
                    points.append(point)
                    progress(len(points), total, point.kernel)
                if self.device is not None:
                    self.device.release()
        except KeyboardInterrupt:
            interrupted = True
        identity = None if self.device is None else self.device.identity
        return Measurement(suite, tuple(points), self.profile, identity, interrupted, tuple(_warnings(points)))

    def _case(self, case: Case, announce: Callable[[str], None]) -> Iterator[Point]:
        spec, w = self.kernels[case.kernel], case.workload
        blank = Point(spec.name, spec.algorithm, "bundled", w, "skipped")
        capability = None if self.device is None else self.device.identity.capability
        reason = spec.supports(w, capability)
        if reason is not None:
            yield replace(blank, reason=reason)
            return
        config = spec.config(w, capability)
        blank = replace(blank, config=asdict(config))
        lacking = self._lacking(w, spec.algorithm, config.splits)
        if lacking:
            yield replace(blank, reason=lacking)
            return
        holder = _Inputs(spec, w, self.seed, "cpu" if self.device is None else "cuda")
        yield self._point(blank, holder, lambda inputs, w: spec.prepare(inputs, w, config), config.tile)
        for peer in self.peers if case.kernel in BESIDE else ():
            announce(peer.name)
            blank = Point(peer.name, peer.algorithm, "peer", w, "skipped", asdict(peer.tile))
            reason = peer.supports(w)
            yield replace(blank, reason=reason) if reason else self._point(blank, holder, peer.prepare, peer.tile)

    def _lacking(self, workload: Workload, algorithm: str, splits: int) -> str | None:
        if self.device is None:
            return None
        needed, free = bytes_needed(workload, algorithm, splits), self.device.free_memory()
        if needed <= free:
            return None
        return f"needs {format_capacity(needed)} of GPU memory, {format_capacity(free)} are free"

    def _point(
        self, blank: Point, inputs: _Inputs, prepare: Callable[[Mapping[str, Any], Workload], Launch], tile: Tile
    ) -> Point:
        """One kernel, prepared by `prepare`, checked and then timed."""
        try:
            launch = prepare(inputs.checked, inputs.small)
            launch()
            found = self.judge(launch.outputs, inputs.reference, inputs.small)
            blank = replace(blank, correctness=found)
            if not found.passed:
                return replace(blank, status="wrong", reason=f"{found.output} is off by {found.error:.2g}")
            if self.device is None:
                return replace(blank, status="checked")
            launch = prepare(inputs.timed, blank.workload)
            timing = measure_time(self.device, launch, self.policy)
        except Exception as error:  # a compiler's, a library's, a driver's: the other points can still be had
            return replace(blank, status="skipped", reason=self._why(error, blank))
        return replace(blank, status="measured", timing=timing, prediction=self._predict(blank, tile))

    def _why(self, error: BaseException, point: Point) -> str:
        if self.device is not None and self.device.is_out_of_memory(error):
            self.device.release()
            needed = format_capacity(bytes_needed(point.workload, point.algorithm))
            return f"ran out of GPU memory; it was expected to need {needed}"
        return f"did not run: {str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__}"

    def _predict(self, point: Point, tile: Tile) -> Any:
        if self.profile is None:
            return None
        try:
            return predict(point.algorithm, point.workload, tile, self.profile)
        except RooflineError:  # the profile has no peak for this format: the time stands without a bound
            return None


class _Inputs:
    """Inputs and reference of one case, made when first wanted and shared with the peers."""

    def __init__(self, spec: KernelSpec, workload: Workload, seed: int, device: str) -> None:
        self._spec, self._workload, self._seed, self._device = spec, workload, seed, device
        self.small = checkable(workload)
        self._made: dict[str, Any] = {}

    @property
    def checked(self) -> Any:
        """Inputs of the problem that is checked."""
        if self.small == self._workload:
            return self.timed
        return self._once("checked", lambda: self._spec.make_inputs(self.small, self._device, self._seed + 1))

    @property
    def timed(self) -> Any:
        """Inputs of the problem that is timed."""
        return self._once("timed", lambda: self._spec.make_inputs(self._workload, self._device, self._seed))

    @property
    def reference(self) -> Any:
        """Outputs in float64 for `checked`."""
        return self._once("reference", lambda: self._spec.reference(self.checked, self.small))

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]


def describe(workload: Workload) -> str:
    """A workload in a few words."""
    w = workload
    heads = f"H{w.heads}" if w.kv_heads == w.heads else f"H{w.heads}/{w.kv_heads}"
    length = f"N{w.n_q}" if w.n_kv == w.n_q else f"N{w.n_q}x{w.n_kv}"
    dim = f"d{w.d}" if w.d == w.d_v else f"d{w.d}/{w.d_v}"
    mask = (" causal" if w.causal else "") + (f" W{w.window}" if w.window else "")
    return f"B{w.batch} {heads} {length} {dim} {w.dtype}{mask}"


def _warnings(points: Sequence[Point]) -> list[str]:
    """What the environments complain of, once each, and points above a roof."""
    found: dict[str, None] = {}
    for point in points:
        for warning in point.timing.environment.warnings() if point.timing else ():
            found[warning] = None
        for share in point.above:
            found[
                f"{point.kernel} {describe(point.workload)} is above its roof by {share.label}: {share.share:.2f}x"
            ] = None
        if point.timing is not None and not point.timing.steady:
            found[f"{point.kernel} {describe(point.workload)}: the median was not steady within the budget"] = None
    return list(found)


@contextmanager
def interpreted() -> Iterator[None]:
    """Run kernels through Triton's interpreter, on a CPU: must begin before any kernel is imported."""
    import os

    before = os.environ.get("TRITON_INTERPRET")
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TRITON_INTERPRET"]
        else:
            os.environ["TRITON_INTERPRET"] = before


PeerChoice = Literal["none", "torch"]
ALL_PEERS = PEERS
