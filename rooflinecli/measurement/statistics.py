"""What many timings of one thing say: a median with an interval, and whether two of them differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rooflinecli.errors import InputError

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Statistics:
    """Samples in brief, in the samples' own unit.

    `low` to `high` is an interval for the median that holds with `confidence` or better, whatever the
    distribution (order statistics). `p05` and `p95` hold the middle nine tenths of the samples: the spread
    one run shows, which is what another run of the same thing may be off by.
    """

    count: int
    median: float
    low: float
    high: float
    confidence: float
    p05: float
    p95: float
    minimum: float
    maximum: float

    @property
    def uncertainty(self) -> float:
        """Half the interval's width over the median."""
        return (self.high - self.low) / 2 / self.median if self.median else 0.0


def summarize(samples: Sequence[float]) -> Statistics:
    """The statistics of `samples`.

    Raises:
        InputError: no samples, or one that is not a finite number.
    """
    if not samples:
        raise InputError("there are no samples to summarize")
    if not all(math.isfinite(sample) for sample in samples):
        raise InputError("a sample is not a finite number")
    ordered = sorted(samples)
    low, high, reached = median_ranks(len(ordered))
    return Statistics(
        count=len(ordered),
        median=_quantile(ordered, 0.5),
        low=ordered[low],
        high=ordered[high],
        confidence=reached,
        p05=_quantile(ordered, 0.05),
        p95=_quantile(ordered, 0.95),
        minimum=ordered[0],
        maximum=ordered[-1],
    )


def median_ranks(count: int) -> tuple[int, int, float]:
    """Positions in `count` sorted samples whose values enclose the median, and how surely they do.

    How many of `count` samples lie under the true median is binomial with p = 1/2: positions `r` and
    `count-1-r` enclose it unless at most `r` samples, or all but at most `r`, do. The narrowest pair that
    reaches 95% is taken. Up to five samples cannot reach it: then it is the extremes, and less.
    """
    tail = 0  # ways for at most `rank` samples to lie under the median, out of 2**count
    best = 0
    for rank in range((count + 1) // 2):
        tail += math.comb(count, rank)
        if 2 * tail > (1 - CONFIDENCE) * 2**count:
            break
        best = rank
    missed = sum(math.comb(count, rank) for rank in range(best + 1))
    return best, count - 1 - best, max(0.0, 1 - 2 * missed / 2**count)


def differ(one: Statistics, other: Statistics) -> bool:
    """Whether two medians differ by more than the spread of their samples; otherwise it is noise.

    Each median must lie outside the middle nine tenths of the other's samples. Intervals of the medians
    alone are too narrow for this: within one process samples share a clock and a temperature, so
    two runs of the same thing differ by more than each run's own median is uncertain.
    """
    return not (one.p05 <= other.median <= one.p95 or other.p05 <= one.median <= other.p95)


def geometric_mean(ratios: Sequence[float]) -> float:
    """The mean of ratios; every one must be over zero.

    Raises:
        InputError: no ratios, or one that is zero or negative.
    """
    if not ratios or min(ratios) <= 0:
        raise InputError("a geometric mean needs ratios over zero")
    return math.exp(math.fsum(math.log(ratio) for ratio in ratios) / len(ratios))


def _quantile(ordered: Sequence[float], share: float) -> float:
    at = share * (len(ordered) - 1)
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)
