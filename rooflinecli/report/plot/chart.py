"""What a roofline shows, as plain data: roofs, ridges, points, and what cannot be drawn.

A chart is all that is needed to draw: `rooflinecli/roofline/1` is this, written down. Rates are in base units
(FLOP/s, B/s), intensities in FLOP/B.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

SCHEMA = "rooflinecli/roofline/1"

# Which bytes a point's intensity divides by. `textbook` is SM-boundary bytes under the HBM slope.
Level = Literal["hbm", "sm", "textbook"]
LEVELS: tuple[Level, ...] = ("hbm", "sm", "textbook")
# bandwidth: a slope. compute: the matrix peak of a format. kernel: another unit's rate, as FLOP/s of these
# kernels. reference: a peak that these kernels do not run on, to compare with.
RoofKind = Literal["bandwidth", "compute", "kernel", "reference"]


@dataclass(frozen=True, slots=True)
class Roof:
    """One ceiling. `rate` is the unit's own (B/s, FLOP/s or op/s).

    low, high: kind `kernel` only: the FLOP/s at which the drawn kernels would saturate this unit, the least and the
    greatest of them. level: whose bytes a bandwidth carries. dtype: the compute format a peak or a kernel roof is for.
    """

    gpu: str
    id: str
    kind: RoofKind
    label: str
    rate: float
    unit: str
    source: str
    measured: bool = False
    level: Level | None = None
    dtype: str | None = None
    clock_hz: float | None = None
    low: float | None = None
    high: float | None = None
    run: str | None = None

    def at(self, intensity: float) -> float:
        """FLOP/s this roof allows at `intensity`; of a kernel roof, the greatest."""
        if self.kind == "bandwidth":
            return self.rate * intensity
        return self.rate if self.high is None else self.high


@dataclass(frozen=True, slots=True)
class Ridge:
    """Where a slope meets a peak."""

    gpu: str
    bandwidth: str
    compute: str
    dtype: str | None
    intensity: float
    flops_per_s: float
    run: str | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """One kernel at one level.

    flops: what the height and the intensity are made of: executed FLOPs, at level `textbook` useful and softmax FLOPs.
    flops_per_s: over the time measured, else over the time at least. attainable: the least of `limits`, which holds
    the FLOP/s each ceiling would allow alone. above: ceilings this point is over. bytes_low, bytes_high: an
    estimate's interval. at: values of what was swept.
    """

    gpu: str
    algorithm: str
    level: Level
    measured: bool
    dtype: str
    workload: Mapping[str, Any]
    tile: str
    flops: int
    bytes: int
    bytes_low: int
    bytes_high: int
    seconds: float
    intensity: float
    flops_per_s: float
    attainable: float
    bound_by: str
    limits: Mapping[str, float]
    above: tuple[str, ...] = ()
    at: Mapping[str, Any] = field(default_factory=dict)
    kernel: str | None = None
    run: str | None = None

    @property
    def share(self) -> float:
        """What part of the roof over it the point reaches."""
        return self.flops_per_s / self.attainable

    @property
    def seconds_at_least(self) -> float:
        """The time the lowest ceiling leaves."""
        return self.flops / self.attainable


@dataclass(frozen=True, slots=True)
class Undrawable:
    """What has no place on logarithmic axes, or could not be computed, and why."""

    what: str
    reason: str
    gpu: str | None = None
    run: str | None = None


@dataclass(frozen=True, slots=True)
class Chart:
    """Everything of one picture. `gpus` maps ids to names; `swept` holds the options that vary, in order."""

    title: str
    gpus: Mapping[str, str]
    roofs: tuple[Roof, ...]
    ridges: tuple[Ridge, ...]
    points: tuple[Point, ...]
    undrawable: tuple[Undrawable, ...] = ()
    swept: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def levels(self) -> tuple[Level, ...]:
        """Levels that points lie at."""
        return tuple(level for level in LEVELS if any(point.level == level for point in self.points))

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Algorithms, in order of appearance."""
        return tuple(dict.fromkeys(point.algorithm for point in self.points))

    def only(self, levels: tuple[Level, ...]) -> Chart:
        """The chart with the points of these levels, and the slopes that carry their bytes."""
        slopes = {"hbm" if level == "textbook" else level for level in levels}
        # The textbook knows one slope and one peak; other units' roofs are for the real levels.
        real = any(level != "textbook" for level in levels)
        roofs = tuple(
            roof
            for roof in self.roofs
            if (roof.level in slopes if roof.kind == "bandwidth" else real or roof.kind == "compute")
        )
        kept = {(roof.run, roof.gpu, roof.id) for roof in roofs}
        return replace(
            self,
            roofs=roofs,
            ridges=tuple(ridge for ridge in self.ridges if (ridge.run, ridge.gpu, ridge.bandwidth) in kept),
            points=tuple(point for point in self.points if point.level in levels),
        )
