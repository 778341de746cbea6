"""Counters beside predictions, level by level, and what a difference between them usually means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from rooflinecli.errors import InputError
from rooflinecli.measurement.ncu.metrics import names_in, resolve, totals
from rooflinecli.measurement.ncu.reader import Launch, Reading
from rooflinecli.workload import Workload

if TYPE_CHECKING:
    from rooflinecli.calculator import Result
    from rooflinecli.hardware import Profile

TOLERANCE = 0.005
HBM_TOLERANCE = 0.02  # the L2 model's own, where everything fits; DRAM also serves instructions and page tables


@dataclass(frozen=True, slots=True)
class Comparison:
    """One quantity. `low` to `high` is what is predicted; they are equal where the prediction is exact.

    `judged` says whether it counts for the verdict; `agrees` is None where nothing was counted.
    """

    quantity: str
    unit: str
    predicted: float
    low: float
    high: float
    counted: float | None
    tolerance: float
    judged: bool
    agrees: bool | None
    meaning: str = ""

    @property
    def ratio(self) -> float | None:
        """Counted over predicted."""
        return None if self.counted is None or not self.predicted else self.counted / self.predicted


@dataclass(frozen=True, slots=True)
class Verification:
    """One case: every quantity, the kernels it was counted over, and what the file held that nobody asked for."""

    workload: Workload
    algorithm: str
    kernel: str | None
    gpu: str
    tile: Mapping[str, Any] | None
    rows: tuple[Comparison, ...]
    kernels: tuple[str, ...]
    missing: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    reason: str | None = None

    @property
    def passed(self) -> bool:
        """Whether something judged was counted, and all of it agrees."""
        judged = [row.agrees for row in self.rows if row.judged and row.agrees is not None]
        return bool(judged) and all(judged)


def compare_counters(
    result: Result,
    workload: Workload,
    launches: Sequence[Launch],
    *,
    kernel: str | None = None,
    tolerance: float = TOLERANCE,
    chained: bool = True,
    notes: Iterable[str] = (),
) -> Verification:
    """Lay the counters of `launches`, which together did the work once, beside `result`.

    `chained` says that nothing emptied the L2 between the launches, as the prediction at HBM assumes.
    """
    counters, missing = resolve(names_in(launches), workload.dtype)
    counted = totals(launches, counters)
    one_cache = chained or len(launches) == 1
    rows = [
        _compare(quantity, unit, predicted, low, high, counted.get(quantity), slack, judged)
        for quantity, unit, predicted, low, high, slack, judged in _predictions(result, tolerance, one_cache)
    ]
    used = {metric for counter in counters.values() for metric in counter.metrics}
    unused = sorted(name for name in {name for launch in launches for name in launch.metrics} - used if _counts(name))
    told = list(notes)
    if not one_cache:
        told.append("the cache was emptied before each kernel: HBM traffic is not that of the chain, and is not judged")
    return Verification(
        workload, result.algorithm, kernel, result.gpu, _tile(result), tuple(rows),
        tuple(launch.kernel for launch in launches), tuple(missing), tuple(unused), tuple(told),
    )  # fmt: skip


def _counts(metric: str) -> bool:
    """Whether a metric is a total somebody asked for: wide tables also describe the device, the launch, the tool."""
    attributes = ("device__", "launch__", "profiler__", "numa__", "nvlink__", "c2clink__")
    return metric.endswith(".sum") and not metric.startswith(attributes)


def parse_tolerance(text: str) -> float:
    """A share from a percentage: "0.5%" is 0.005.

    Raises:
        InputError: no percentage from 0 to 100.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", text)
    if found is None or float(found[1]) > 100:
        raise InputError(f"--tolerance {text}: must be a percentage from 0% to 100%, such as 0.5%")
    return float(found[1]) / 100


def once(launches: Sequence[Launch]) -> tuple[list[Launch], list[str]]:
    """Launches of the same kernel with the same grid are repeats of it: their medians, and a note that says so."""
    groups: dict[tuple[str, str, str], list[Launch]] = {}
    for launch in launches:
        groups.setdefault((launch.kernel, launch.grid, launch.block), []).append(launch)
    notes = [
        f"{len(group)} launches of {group[0].kernel[:60]} are taken as repeats: medians; --sum adds them up"
        for group in groups.values()
        if len(group) > 1
    ]
    return [_median(group) for group in groups.values()], notes


def matching(launches: Sequence[Launch], pattern: str | None) -> list[Launch]:
    """Launches whose kernel name holds `pattern`, a regular expression.

    Raises:
        InputError: a broken expression, or no launch matches; the message lists what there is.
    """
    if pattern is None:
        return list(launches)
    try:
        found = [launch for launch in launches if re.search(pattern, launch.kernel)]
    except re.error as error:
        raise InputError(f"--kernel-name {pattern}: not a regular expression: {error}") from None
    if not found:
        names = ", ".join(dict.fromkeys(launch.kernel[:60] for launch in launches))
        raise InputError(f"--kernel-name {pattern}: matches none of: {names}")
    return found


def check_capability(launches: Sequence[Launch], profile: Profile, *, allow: bool) -> None:
    """Refuse counters of one chip beside predictions for another.

    Raises:
        InputError: names both.
    """
    here = {launch.capability for launch in launches if launch.capability}
    if not allow and profile.compute_capability and here and here != {profile.compute_capability}:
        raise InputError(
            f"--gpu {profile.id}: has compute capability {profile.compute_capability}, "
            f"the counters are of {', '.join(sorted(here))}",
            "--gpu names the card they were read on; --allow-mismatch compares all the same",
        )


def _predictions(
    result: Result, tolerance: float, one_cache: bool
) -> list[tuple[str, str, float, float, float, float, bool]]:
    sm, hbm, cost = result.cost.traffic("sm"), result.hbm, result.cost
    at_hbm = max(tolerance, HBM_TOLERANCE)
    return [
        ("sm.read", "B", sm.read, sm.read, sm.read, tolerance, True),
        ("sm.write", "B", sm.write, sm.write, sm.write, tolerance, True),
        ("hbm.read", "B", hbm.read, hbm.read_low, hbm.read_high, at_hbm, one_cache),
        ("hbm.write", "B", hbm.write, hbm.write_low, hbm.write, at_hbm, False),
        ("flops.executed", "FLOP", cost.flops.executed, cost.flops.executed, cost.flops.executed, 0.0, True),
        ("exponentials", "op", cost.exponentials.executed, cost.exponentials.executed, float("inf"), tolerance, False),
        ("seconds", "s", result.seconds_at_least, result.seconds_at_least, float("inf"), tolerance, False),
    ]


def _compare(
    quantity: str,
    unit: str,
    predicted: float,
    low: float,
    high: float,
    counted: float | None,
    slack: float,
    judged: bool,
) -> Comparison:
    agrees = None if counted is None else low * (1 - slack) <= counted <= high * (1 + slack)
    ratio = None if counted is None or not predicted else counted / predicted
    meaning = "" if agrees is not False or ratio is None else meaning_of(quantity, ratio)
    return Comparison(quantity, unit, predicted, low, high, counted, slack, judged, agrees, meaning)


def meaning_of(quantity: str, ratio: float) -> str:
    """What a counter that is `ratio` times its prediction usually says."""
    above = ratio > 1
    if quantity == "sm.write":
        return (
            "spilled registers, partial results of split keys, or atomics" if above
            else "part of the output was not written, or the counter missed a kernel"
        )  # fmt: skip
    if quantity == "sm.read":
        return (
            "a smaller tile than assumed, Q read again for each key tile, or spilled registers" if above
            else "tiles shared between SMs (multicast), query heads packed into one tile, or a larger tile than assumed"
        )  # fmt: skip
    if quantity == "hbm.read":
        return (
            "the L2 overflows earlier than predicted: more blocks at once, or blocks out of step" if above
            else "inputs were in the L2 already (no flush), or a kernel of the chain is not counted"
        )  # fmt: skip
    if quantity == "hbm.write":
        return "intermediates or spills are written back" if above else "results are still in the L2, dirty"
    if quantity == "flops.executed":
        if above:
            return "warps repeat each other's products (a small tile), or a larger tile than assumed"
        return "tiles out of sight are skipped, products run on another unit, or a smaller tile than assumed"
    if quantity == "exponentials":
        return "part of the exponentials is computed by polynomials on the vector unit, or two at a time"
    return "faster than the bound: a ceiling of the profile is too low for this card's clocks"


def _tile(result: Result) -> dict[str, Any] | None:
    tile = result.cost.tile
    return None if tile is None else {"br": tile.br, "bc": tile.bc, "splits": tile.splits, "pack_gqa": tile.pack_gqa}


def _median(group: Sequence[Launch]) -> Launch:
    first = group[0]
    metrics = {}
    for name, reading in first.metrics.items():
        values = [one.value for launch in group if (one := launch.metrics.get(name)) and one.value is not None]
        metrics[name] = Reading(median(values) if values else None, reading.unit)
    return Launch(first.id, first.kernel, first.grid, first.block, first.capability, metrics)
