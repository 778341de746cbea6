"""How a calibration is shown: the JSON `rooflinecli/calibrate/1`, figures beside the datasheet's, the L2's curve."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rooflinecli import __version__
from rooflinecli.measurement.records import CALIBRATE_SCHEMA
from rooflinecli.report.measure import device_document
from rooflinecli.report.sheet import Line, Section, Sheet, View
from rooflinecli.units import format_capacity, format_rate, format_seconds

if TYPE_CHECKING:
    from rooflinecli.hardware import Profile
    from rooflinecli.measurement.calibrate import Calibration, Ceiling

LABELS = {
    "hbm_read": "HBM, read", "hbm_write": "HBM, write", "hbm_copy": "HBM, copy", "hbm_triad": "HBM, triad",
    "hbm_copy_torch": "HBM, torch's copy", "l2_read": "L2, read", "fp32_vector": "FP32 vector", "exp": "exponentials",
    "shared_memory": "shared memory, whole GPU", "launch": "an empty launch",
}  # fmt: skip


def view(found: Calibration, base: Profile | None) -> View:
    """The calibration, ready for any format; `base` is the profile whose datasheet figures stand beside it."""
    ceilings = [asdict(one) for one in found.ceilings]
    document = {
        "schema": CALIBRATE_SCHEMA,
        "version": __version__,
        "command": ["rooflinecli", *sys.argv[1:]],
        "device": device_document(found.identity),
        "interrupted": found.interrupted,
        "ceilings": ceilings,
        "l2_curve": [asdict(one) for one in found.curve],
        "l2_marches": [asdict(one) for one in found.marches],
        "l2_effective": found.l2_effective,
        "missing": found.missing,
        "environment": asdict(found.environment),
        "warnings": found.environment.warnings(),
    }
    records = [*ceilings, *document["l2_curve"], *document["l2_marches"]]  # type: ignore[misc]  # a list of mappings
    curves = (
        ("Reading a footprint again and again, each block by one SM: bandwidth", found.curve),
        ("Reading a footprint again and again, all SMs in step: time of a step of 16 KiB", found.marches),
    )
    return View(document, records, lambda: [_sheet(found, base), *(_curve(*curve) for curve in curves if curve[1])])


def datasheet(base: Profile | None, kind: str) -> float | None:
    """The figure of a profile that a measured kind stands beside; None where there is none."""
    if base is None:
        return None
    if kind.startswith("hbm_"):
        figure = base.dram.bandwidth
    elif kind == "l2_read":
        figure = base.l2.bandwidth
    elif kind == "exp":
        figure = base.exp_rate
    else:
        figure = next((peak for name, peak in base.peaks.items() if name == kind), None)
    return None if figure is None else float(figure.value)


def _sheet(found: Calibration, base: Profile | None) -> Sheet:
    versions = ", ".join(f"{name} {version}" for name, version in found.identity.versions.items())
    notes = [f"warning: {warning}" for warning in found.environment.warnings()]
    notes += [f"{LABELS.get(kind, kind)}: not measured: {why}" for kind, why in found.missing.items()]
    if found.l2_effective is not None:
        size = "" if found.identity.l2 is None else f" of {format_capacity(found.identity.l2)}"
        kept = format_capacity(found.l2_effective)
        notes.append(f"Effective capacity of the L2{size}: {kept}, where half of what is read again is missed.")
    if found.interrupted:
        notes.append("Interrupted: what was measured until then is here.")
    return Sheet(
        title=f"Ceilings of {found.identity.name}, measured",
        subtitle=[versions],
        columns=["median", "95% from", "to", "of datasheet", "SM clock"],
        sections=[Section("", [_line(one, base) for one in found.ceilings])],
        notes=notes,
    )


def _line(one: Ceiling, base: Profile | None) -> Line:
    stated = datasheet(base, one.kind)
    clock = "—" if one.sm_clock_low is None else f"{one.sm_clock_low / 1e6:.0f} MHz"
    share = "—" if not stated else f"{one.median / stated:.1%}"
    label = LABELS.get(one.kind, one.kind.replace("_", " "))
    return Line(label, [_show(one, one.median), _show(one, one.low), _show(one, one.high), share, clock])


def _curve(title: str, points: Sequence[Ceiling]) -> Sheet:
    best = max(one.median for one in points)
    lines = [
        Line(
            format_capacity(one.footprint or 0),
            [_show(one, one.median), _show(one, one.low), _show(one, one.high), "█" * round(24 * one.median / best)],
        )
        for one in points
    ]
    return Sheet(title=title, columns=["median", "95% from", "to", ""], sections=[Section("", lines)])


def _show(one: Ceiling, value: float) -> str:
    return format_seconds(value) if one.unit == "s" else format_rate(value, one.unit)
