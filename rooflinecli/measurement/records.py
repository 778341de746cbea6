"""What measuring finds, typed; `rooflinecli.report.measure` turns it into the JSON `rooflinecli/measure/1`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from rooflinecli.calculator import Result
from rooflinecli.measurement.device import Identity
from rooflinecli.measurement.timing import Timing
from rooflinecli.workload import Workload

if TYPE_CHECKING:
    from rooflinecli.hardware import Profile

MEASURE_SCHEMA = "rooflinecli/measure/1"
VERIFY_SCHEMA = "rooflinecli/verify/1"
CALIBRATE_SCHEMA = "rooflinecli/calibrate/1"

Status = Literal["measured", "checked", "wrong", "skipped"]


@dataclass(frozen=True, slots=True)
class Correctness:
    """How far the outputs are from float64: `error` is the worst output's ||out - ref|| / ||ref||.

    `workload` is what was checked, which is smaller than what is timed where float64 would not fit or take long.
    """

    error: float
    limit: float
    output: str
    workload: Workload

    @property
    def passed(self) -> bool:
        """Whether the error is a number and within its limit."""
        return self.error <= self.limit


@dataclass(frozen=True, slots=True)
class Share:
    """How much of one ceiling was reached: time at least over time measured. Over 1 is above the roof."""

    ceiling: str
    label: str
    seconds_at_least: float
    share: float


@dataclass(frozen=True, slots=True)
class Point:
    """One kernel on one workload. What was not reached is None, and `reason` says why."""

    kernel: str
    algorithm: str
    source: Literal["bundled", "peer"]
    workload: Workload
    status: Status
    config: Mapping[str, Any] = field(default_factory=dict)
    reason: str | None = None
    correctness: Correctness | None = None
    timing: Timing | None = None
    prediction: Result | None = None

    @property
    def seconds(self) -> float | None:
        """The median, or None where nothing was timed."""
        return None if self.timing is None else self.timing.statistics.median

    @property
    def flops_per_s(self) -> float | None:
        """Useful FLOP/s at the median."""
        if self.seconds is None or self.prediction is None:
            return None
        return self.prediction.cost.flops.useful / self.seconds

    @property
    def shares(self) -> tuple[Share, ...]:
        """Every ceiling, the one that binds first."""
        if self.seconds is None or self.prediction is None:
            return ()
        return tuple(
            Share(bound.ceiling.id, bound.ceiling.label, bound.seconds, bound.seconds / self.seconds)
            for bound in self.prediction.bounds
        )

    @property
    def above(self) -> tuple[Share, ...]:
        """Ceilings the measurement beats by more than its own uncertainty: the ceiling or the count is wrong."""
        if self.timing is None:
            return ()
        high = self.timing.statistics.high
        return tuple(share for share in self.shares if share.seconds_at_least > high)


@dataclass(frozen=True, slots=True)
class Step:
    """All layers of a model through one kernel, one after the other: sums of the layers' medians.

    seconds_at_least: None where a layer has no prediction.
    """

    kernel: str
    seconds: float
    seconds_at_least: float | None


@dataclass(frozen=True, slots=True)
class Measurement:
    """A whole run. `gpu` is the profile measured against, None where none fits; `identity` the card itself.

    layers: of a model, how many layers make each call that was measured.
    """

    suite: str
    points: tuple[Point, ...]
    gpu: Profile | None = None
    identity: Identity | None = None
    interrupted: bool = False
    warnings: tuple[str, ...] = ()
    layers: tuple[tuple[int, Workload], ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        """The kernels that ran every layer of a model."""
        found = []
        for kernel in dict.fromkeys(point.kernel for point in self.points):
            ran = {point.workload: point for point in self.points if point.kernel == kernel and point.timing}
            if not self.layers or any(workload not in ran for _, workload in self.layers):
                continue
            parts = [(count, ran[workload]) for count, workload in self.layers]
            least = [None if each.prediction is None else each.prediction.seconds_at_least for _, each in parts]
            found.append(
                Step(
                    kernel,
                    sum(count * (each.seconds or 0.0) for count, each in parts),
                    None if None in least else sum(n * (s or 0.0) for (n, _), s in zip(parts, least, strict=True)),
                )
            )
        return tuple(found)

    @property
    def wrong(self) -> tuple[Point, ...]:
        """Points whose outputs were not right: these have no times."""
        return tuple(point for point in self.points if point.status == "wrong")
