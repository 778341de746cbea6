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
    """Everything found. `curve` is the L2 probe by footprint; `missing` says why a kind has no figure."""

    identity: Identity
    ceilings: tuple[Ceiling, ...]
    curve: tuple[Ceiling, ...]
    l2_effective: int | None
    missing: dict[str, str]
    environment: Environment
    interrupted: bool = False

    def ceiling(self, kind: str) -> Ceiling | None:
        """The figure called `kind`."""
        return next((found for found in self.ceilings if found.kind == kind), None)


def calibrate(
    device: Device, probes: Sequence[Probe], curve: Sequence[Probe], progress: Progress = lambda *_: None
) -> Calibration:
    """Run every probe; one that fails is left out with its reason, an interruption keeps what there is."""
    before = device.state()
    found: list[Ceiling] = []
    points: list[Ceiling] = []
    missing: dict[str, str] = {}
    states: list[State] = []
    interrupted = False
    total = len(probes) + len(curve)
    try:
        for index, probe in enumerate([*probes, *curve]):
            progress(index, total, probe.kind)
            try:
                one, seen = _measure(device, probe)
            except Exception as error:  # a compiler's, a library's, a driver's: the other figures can still be had
                missing[probe.kind] = _reason(device, error)
                continue
            finally:
                device.release()
            states += [seen.before, seen.after]
            (found if index < len(probes) else points).append(one)
        progress(total, total, "done")
    except KeyboardInterrupt:
        interrupted = True
    found = [one for one in found if _is_what_it_says(one, device.identity, missing)]
    hbm = next((one for one in found if one.kind == "hbm_read"), None)
    plateau = l2_plateau(points, device.identity.l2)
    if plateau is not None:
        found.append(plateau)
    return Calibration(
        identity=device.identity,
        ceilings=tuple(found),
        curve=tuple(points),
        l2_effective=effective_capacity(points, plateau, hbm),
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
    """Times of `amount` as a rate: the longest time is the lowest rate. Seconds stay seconds."""
    if unit == "s":
        return Ceiling("", unit, seconds.median, seconds.low, seconds.high, seconds.count, "")
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


def effective_capacity(curve: Sequence[Ceiling], plateau: Ceiling | None, hbm: Ceiling | None) -> int | None:
    """The footprint at which half of what is read again comes from HBM; None where the curve does not show it.

    Seconds a byte grow from the plateau's to HBM's as the footprint outgrows the cache; half way up, by
    interpolation between the two footprints around it, half is missed.
    """
    if plateau is None or hbm is None or hbm.median >= plateau.median:
        return None
    half = (1 / plateau.median + 1 / hbm.median) / 2
    points = sorted((one.footprint, 1 / one.median) for one in curve if one.footprint is not None)
    for (small, fast), (large, slow) in pairwise(points):
        if small >= (plateau.footprint or 0) and fast <= half < slow:
            return round(small + (large - small) * (half - fast) / (slow - fast))
    return None


def _reason(device: Device, error: BaseException) -> str:
    if device.is_out_of_memory(error):
        return "ran out of GPU memory"
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
