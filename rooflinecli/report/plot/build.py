"""From kernels and GPUs to a chart: points per level, roofs, ridges, and what cannot be drawn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rooflinecli.report.plot.chart import Chart, Level, Point, Ridge, Roof, Undrawable
from rooflinecli.report.plot.kernels import Ceiling, Kernel, Machine, from_account
from rooflinecli.report.plot.title import title
from rooflinecli.sweep import count_label

if TYPE_CHECKING:
    from rooflinecli.grid import Grid

_SLOPES: dict[str, Level] = {"hbm": "hbm", "l2": "sm"}
# Rounding in a division or two; a point is over a roof only by more than this.
_TOLERANCE = 1e-9


def chart(
    heading: str,
    machines: Iterable[Machine],
    kernels: Sequence[Kernel],
    *,
    swept: Sequence[str] = (),
    undrawable: Iterable[Undrawable] = (),
    notes: Iterable[str] = (),
) -> Chart:
    """The chart of `kernels` under the roofs of `machines`; machines and ceilings that repeat are drawn once."""
    boxes = _merged(machines)
    points: list[Point] = []
    missing: list[Undrawable] = list(undrawable)
    for kernel in kernels:
        found, lost = _points(kernel, boxes[kernel.run, kernel.gpu])
        points += found
        missing += lost
    roofs = [roof for box in boxes.values() for roof in _roofs(box, kernels)]
    drawn = Chart(
        title=heading,
        gpus={box.gpu: box.name for box in boxes.values()},
        roofs=tuple(roofs),
        ridges=tuple(_ridges(roofs)),
        points=tuple(points),
        undrawable=tuple(dict.fromkeys(missing)),
        swept=tuple(swept),
        notes=tuple(dict.fromkeys(notes)),
    )
    # The literature's picture has one slope and one peak.
    return drawn.only(("textbook",)) if kernels and all(kernel.textbook_only for kernel in kernels) else drawn


def _merged(machines: Iterable[Machine]) -> dict[tuple[str | None, str], Machine]:
    """One machine a GPU and run, with the ceilings of all mentions: each format brings its own peak."""
    found: dict[tuple[str | None, str], Machine] = {}
    for machine in machines:
        known = found.get((machine.run, machine.gpu))
        ceilings = {**known.ceilings, **machine.ceilings} if known else machine.ceilings
        others = tuple(dict.fromkeys([*(known.others if known else ()), *machine.others]))
        found[machine.run, machine.gpu] = Machine(machine.gpu, machine.name, ceilings, machine.run, others)
    return found


def matrix_peak(kernel: Kernel, machine: Machine) -> Ceiling | None:
    """The peak that the kernel's matrix products run at."""
    return next((machine.ceilings[name] for name in kernel.peak_ids if name in machine.ceilings), None)


def _points(kernel: Kernel, machine: Machine) -> tuple[list[Point], list[Undrawable]]:
    points: list[Point] = []
    lost: list[Undrawable] = []
    levels: list[tuple[Level, int, int, int, int]] = []
    if not kernel.textbook_only:
        levels = [
            ("hbm", kernel.executed, kernel.hbm_bytes, kernel.hbm_low, kernel.hbm_high),
            ("sm", kernel.executed, kernel.sm_bytes, kernel.sm_bytes, kernel.sm_bytes),
        ]
    levels.append(("textbook", kernel.book_flops, kernel.sm_bytes, kernel.sm_bytes, kernel.sm_bytes))
    for level, flops, moved, low, high in levels:
        limits = _textbook_limits(kernel, machine) if level == "textbook" else _rates(flops, kernel.limits)
        why = _why_not(level, flops, moved, limits, kernel.seconds)
        if why is not None:
            lost.append(Undrawable(f"{_named(kernel)} at level {level}", why, kernel.gpu, kernel.run))
            continue
        bound_by = min(limits, key=lambda name: limits[name])
        attainable = limits[bound_by]
        reached = attainable if kernel.seconds is None else flops / kernel.seconds
        points.append(
            Point(
                gpu=kernel.gpu,
                algorithm=kernel.algorithm,
                level=level,
                measured=kernel.seconds is not None,
                dtype=kernel.dtype,
                workload=kernel.workload,
                tile=kernel.tile,
                flops=flops,
                bytes=moved,
                bytes_low=low,
                bytes_high=high,
                seconds=flops / reached,
                intensity=flops / moved,
                flops_per_s=reached,
                attainable=attainable,
                bound_by=bound_by,
                limits=limits,
                above=tuple(name for name, rate in limits.items() if reached > rate * (1 + _TOLERANCE)),
                at=kernel.at,
                kernel=kernel.name,
                run=kernel.run,
            )
        )
    return points, lost


def _rates(flops: int, seconds: Mapping[str, float]) -> dict[str, float]:
    """FLOP/s each ceiling allows alone; a ceiling that needs no time is no limit."""
    return {name: flops / each for name, each in seconds.items() if each > 0}


def _textbook_limits(kernel: Kernel, machine: Machine) -> dict[str, float]:
    """The literature's two: the matrix peak, and SM-boundary bytes at HBM bandwidth."""
    found = {}
    roof, slope = matrix_peak(kernel, machine), machine.ceilings.get("hbm")
    if roof is not None:
        found[roof.id] = float(roof.rate)
    if slope is not None and kernel.sm_bytes:
        found["hbm"] = slope.rate * (kernel.book_flops / kernel.sm_bytes)
    return found


def _why_not(level: Level, flops: int, moved: int, limits: Mapping[str, float], seconds: float | None) -> str | None:
    """Why a point has no place on logarithmic axes, or None when it has one."""
    if flops == 0:
        return "0 FLOP: no visible pairs, so neither intensity nor FLOP/s is above zero"
    if moved == 0:
        return f"0 bytes cross level {level}: the intensity is infinite"
    if not limits:
        return "no ceiling of this GPU applies"
    if seconds is not None and (not math.isfinite(seconds) or seconds <= 0):
        return f"its time is {seconds}, which is not a time"
    if not all(math.isfinite(rate) and rate > 0 for rate in limits.values()):
        return "a ceiling is not a finite number above zero"
    return None


def _named(kernel: Kernel) -> str:
    at = ", ".join(f"{name}={value}" for name, value in kernel.at.items())
    return f"{kernel.name or kernel.algorithm}{f' ({at})' if at else ''}"


def _roofs(machine: Machine, kernels: Sequence[Kernel]) -> list[Roof]:
    """Slopes, matrix peaks, other units' rates as these kernels meet them, and peaks to compare with."""
    mine = [kernel for kernel in kernels if (kernel.run, kernel.gpu) == (machine.run, machine.gpu)]
    formats = {peak.id: kernel.dtype for kernel in mine if (peak := matrix_peak(kernel, machine)) is not None}
    if not mine:  # a GPU without kernels: every ceiling is still worth a line
        formats = {name: name.partition("_")[0] for name in machine.ceilings if name.endswith("_tensor")}
    found = []
    for ceiling in machine.ceilings.values():
        if ceiling.id in _SLOPES:
            found.append(_roof(machine, ceiling, "bandwidth", level=_SLOPES[ceiling.id]))
        elif ceiling.id in formats:
            found.append(_roof(machine, ceiling, "compute", dtype=formats[ceiling.id]))
        elif ceiling.unit == "FLOP/s":
            found.append(_roof(machine, ceiling, "reference"))
        met = _met(ceiling, [kernel for kernel in mine if not kernel.textbook_only])
        if met is not None and ceiling.id not in _SLOPES and (ceiling.id not in formats or ceiling.id == "fp32_vector"):
            low, high = met
            found.append(_roof(machine, ceiling, "kernel", low=low, high=high))
    found += [_roof(machine, ceiling, "reference") for ceiling in machine.others if ceiling.id not in machine.ceilings]
    return sorted(found, key=lambda roof: ("bandwidth", "compute", "kernel", "reference").index(roof.kind))


def _met(ceiling: Ceiling, kernels: Sequence[Kernel]) -> tuple[float, float] | None:
    """FLOP/s at which these kernels saturate the unit: least and greatest."""
    rates = [
        kernel.executed / kernel.limits[ceiling.id]
        for kernel in kernels
        if kernel.executed and kernel.limits.get(ceiling.id)
    ]
    return (min(rates), max(rates)) if rates else None


def _roof(
    machine: Machine,
    ceiling: Ceiling,
    kind: str,
    *,
    level: Level | None = None,
    dtype: str | None = None,
    low: float | None = None,
    high: float | None = None,
) -> Roof:
    return Roof(
        gpu=machine.gpu, id=ceiling.id, kind=kind, label=ceiling.label, rate=ceiling.rate, unit=ceiling.unit,  # type: ignore[arg-type]
        source=ceiling.source, measured=ceiling.measured, level=level, dtype=dtype, clock_hz=ceiling.clock_hz,
        low=low, high=high, run=machine.run,
    )  # fmt: skip


def _ridges(roofs: Sequence[Roof]) -> list[Ridge]:
    """Every slope with every matrix peak of the same GPU."""
    return [
        Ridge(slope.gpu, slope.id, flat.id, flat.dtype, flat.rate / slope.rate, flat.rate, slope.run)
        for slope in roofs
        if slope.kind == "bandwidth"
        for flat in roofs
        if flat.kind == "compute" and (flat.run, flat.gpu) == (slope.run, slope.gpu)
    ]


def from_grid(
    found: Grid,
    *,
    swept: Sequence[str] = (),
    excluded: Sequence[str] = (),
    all_peaks: bool = False,
    notes: Iterable[str] = (),
) -> Chart:
    """The chart of many accounts; what was refused is among what is not drawn."""
    machines: list[Machine] = []
    kernels: list[Kernel] = []
    for cell in found.cells:
        some, more = from_account(cell.account, cell.at, all_peaks=all_peaks)
        machines += some
        kernels += more
    lost = [Undrawable(_refused(each.algorithm, each.at), each.reason, each.gpu) for each in found.refused]
    return chart(title(kernels, excluded=excluded), machines, kernels, swept=swept, undrawable=lost, notes=notes)


def _refused(algorithm: str | None, at: Mapping[str, Any]) -> str:
    values = ", ".join(f"{name}={count_label(value)}" for name, value in at.items())
    return " ".join(word for word in (algorithm or "", values) if word) or "the workload"
