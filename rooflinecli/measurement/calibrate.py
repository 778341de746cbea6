"""This GPU's own ceilings, measured: bandwidth per level, the L2's curve, peaks per format, exponentials, launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rooflinecli.measurement.device import Device, Identity
from rooflinecli.measurement.environment import Environment, State, environment
from rooflinecli.measurement.statistics import Statistics
from rooflinecli.measurement.timing import Policy, measure_time

FAR_BEYOND_L2 = 4  # a working set under so many times the L2 says nothing of HBM
CALIBRATION = Policy(precision=0.005, least=20, most=200, batch=20, budget=0.6, warm_up=0.1)
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A probe ready to run. `amount` of work a run in `unit` without the second; `footprint` bytes it touches."""

    run: Callable[[], object]
    amount: int
    footprint: int | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    """What is measured: `kind` is its name in the profile, `unit` the rate's (or s), `cold` whether the L2 is emptied.

    `prepare` allocates; it may raise what the device knows as out of memory.
    """

    kind: str
    unit: str
    prepare: Callable[[], Prepared]
    method: str
    cold: bool = True


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A measured rate (or, for launches, seconds): median, and an interval for it."""

    kind: str
    unit: str
    median: float
    low: float
    high: float
    samples: int
    method: str
    footprint: int | None = None
    sm_clock_low: int | None = None
    sm_clock_high: int | None = None
    throttling: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Calibration:
    """Everything found. `curve` and `marches`: the L2's probes by footprint; `missing`: why a kind has no figure."""

    identity: Identity
    ceilings: tuple[Ceiling, ...]
    curve: tuple[Ceiling, ...]
    marches: tuple[Ceiling, ...]
    l2_effective: int | None
    missing: dict[str, str]
    environment: Environment
    interrupted: bool = False

    def ceiling(self, kind: str) -> Ceiling | None:
        """The figure called `kind`."""
        return next((found for found in self.ceilings if found.kind == kind), None)


def calibrate(
    device: Device,
    probes: Sequence[Probe],
    curve: Sequence[Probe],
    marches: Sequence[Probe] = (),
    progress: Progress = lambda *_: None,
) -> Calibration:
    """Run every probe; one that fails is left out with its reason, an interruption keeps what there is.

    `curve` reads footprints apart, which shows the L2's bandwidth; `marches` in step, which shows what it keeps.
    """
    before = device.state()
    taken: list[list[Ceiling]] = [[], [], []]
    missing: dict[str, str] = {}
    states: list[State] = []
    interrupted = False
    queue = [(probe, kind) for kind, part in zip(taken, (probes, curve, marches), strict=True) for probe in part]
    total = len(queue)
    try:
        for index, (probe, kind) in enumerate(queue):
            progress(index, total, probe.kind)
            try:
                one, seen = _measure(device, probe)
            except Exception as error:  # a compiler's, a library's, a driver's: the other figures can still be had
                missing[probe.kind] = _reason(device, error)
                continue
            finally:
                device.release()
            states += [seen.before, seen.after]
            kind.append(one)
        progress(total, total, "done")
    except KeyboardInterrupt:
        interrupted = True
    figures, points, steps = taken
    found = [one for one in best_of_each(figures) if _is_what_it_says(one, device.identity, missing)]
    plateau = l2_plateau(points, device.identity.l2)
    if plateau is not None:
        found.append(plateau)
    return Calibration(
        identity=device.identity,
        ceilings=tuple(found),
        curve=tuple(points),
        marches=tuple(steps),
        l2_effective=effective_capacity(steps),
        missing=missing,
        environment=environment(before, states, device.state()),
        interrupted=interrupted,
    )


def _measure(device: Device, probe: Probe) -> tuple[Ceiling, Environment]:
    prepared = probe.prepare()
    timing = measure_time(device, prepared.run, CALIBRATION, cold=probe.cold)
    seen = timing.environment
    rate = as_rate(timing.statistics, prepared.amount, probe.unit)
    return replace(
        rate, kind=probe.kind, method=probe.method, footprint=prepared.footprint, sm_clock_low=seen.sm_clock_low,
        sm_clock_high=seen.sm_clock_high, throttling=seen.throttling,
    ), seen  # fmt: skip


def as_rate(seconds: Statistics, amount: int, unit: str) -> Ceiling:
    """Times of `amount` as a rate: the longest time is the lowest rate. In seconds, it is the time of one."""
    if unit == "s":
        one = (seconds.median / amount, seconds.low / amount, seconds.high / amount)
        return Ceiling("", unit, *one, seconds.count, "")
    return Ceiling(
        "", unit, amount / seconds.median, amount / seconds.high, amount / seconds.low, seconds.count, ""
    )  # fmt: skip


def _is_what_it_says(one: Ceiling, identity: Identity, missing: dict[str, str]) -> bool:
    """A working set that the L2 may have held is never called HBM bandwidth."""
    if not one.kind.startswith("hbm_"):
        return True
    least = FAR_BEYOND_L2 * (identity.l2 or 0)
    if identity.l2 is None:
        missing[one.kind] = "the size of the L2 is unknown: whether this was HBM cannot be told"
        return False
    if one.footprint is None or one.footprint < least:
        missing[one.kind] = f"its working set of {one.footprint} B is under {FAR_BEYOND_L2} times the L2 ({least} B)"
        return False
    return True


def l2_plateau(curve: Sequence[Ceiling], size: int | None) -> Ceiling | None:
    """The L2's bandwidth: the best median among footprints of an eighth to a quarter of it (if any).

    Smaller ones leave parts of the cache idle; of larger ones some is fetched from HBM, as an L2 of two halves
    keeps two copies.
    """
    if size is None:
        return None
    inside = [one for one in curve if one.footprint is not None and size / 8 <= one.footprint <= size / 4]
    best = max(inside, key=lambda one: one.median, default=None)
    return None if best is None else replace(best, kind="l2_read")


def best_of_each(figures: Sequence[Ceiling]) -> list[Ceiling]:
    """One figure a kind: where a kind was probed at several sizes, the fastest is the ceiling."""
    best: dict[str, Ceiling] = {}
    for one in figures:
        known = best.get(one.kind)
        if known is None or one.median > known.median:
            best[one.kind] = one
    return list(best.values())


def effective_capacity(marches: Sequence[Ceiling]) -> int | None:
    """The footprint at which half of what is read again has to be fetched; None where the marches do not show it.

    A step's time is a latency: it grows from the cache's to the memory's in proportion to the share missed. Half way
    between the shortest time and that of the largest footprint, by interpolation, half is missed.
    """
    points = sorted((one.footprint, one.median) for one in marches if one.footprint is not None)
    if len(points) < 3:
        return None
    fast, slow = min(time for _, time in points), points[-1][1]
    if slow < 1.1 * fast:  # no knee within the footprints
        return None
    half = (fast + slow) / 2
    for (small, before), (large, after) in pairwise(points):
        if before <= half < after:
            return round(small + (large - small) * (half - before) / (after - before))
    return None


def _reason(device: Device, error: BaseException) -> str:
    if device.is_out_of_memory(error):
        return "ran out of GPU memory"
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
