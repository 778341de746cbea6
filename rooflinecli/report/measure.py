"""How a measurement is shown: the JSON contract `rooflinecli/measure/1`, flat records, one line a point."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rooflinecli import __version__
from rooflinecli.measurement.records import MEASURE_SCHEMA
from rooflinecli.measurement.runner import describe
from rooflinecli.report.bytes import result_document
from rooflinecli.report.formats import render
from rooflinecli.report.sheet import Line, Section, Sheet, View, flatten
from rooflinecli.units import format_capacity, format_rate, format_seconds

if TYPE_CHECKING:
    from rooflinecli.hardware import Profile
    from rooflinecli.measurement.device import Identity
    from rooflinecli.measurement.records import Measurement, Point, Step
    from rooflinecli.report.plot.chart import Chart


def view(measurement: Measurement) -> View:
    """The measurement, ready for any format."""
    points = [point_document(point) for point in measurement.points]
    document = {
        "schema": MEASURE_SCHEMA,
        "version": __version__,
        "command": ["rooflinecli", *sys.argv[1:]],
        "suite": measurement.suite,
        "interrupted": measurement.interrupted,
        "gpu": gpu_document(measurement.gpu, measurement.points),
        "device": device_document(measurement.identity),
        "warnings": list(measurement.warnings),
        "layers": [{"count": count, "workload": workload.echo()} for count, workload in measurement.layers],
        "total": [asdict(step) for step in measurement.steps],
        "points": points,
    }
    records = [flatten({k: v for k, v in point.items() if k != "prediction"}) for point in points]
    return View(document, records, lambda: [_sheet(measurement)])


def chart_of(measurement: Measurement) -> Chart:
    """The measured points on the roofline, the same as `roofline --from` reads out of the JSON."""
    from rooflinecli.report.plot.read import chart_from_text

    return chart_from_text(render(view(measurement), "json"))


def device_document(identity: Identity | None) -> dict[str, Any] | None:
    """The card and the versions of what ran on it."""
    if identity is None:
        return None
    found = asdict(identity)
    if identity.capability is not None:
        found["capability"] = "{}.{}".format(*identity.capability)
    return found


def gpu_document(profile: Profile | None, points: tuple[Point, ...]) -> dict[str, Any] | None:
    """The profile measured against, with the figure and the source of each ceiling used."""
    if profile is None:
        return None
    ceilings = {
        bound.ceiling.id: {
            "label": bound.ceiling.label, "value": bound.ceiling.rate, "unit": bound.ceiling.unit,
            "source": bound.ceiling.source, "clock_hz": bound.ceiling.clock, "measured": bound.ceiling.measured,
        }
        for point in points if point.prediction is not None
        for bound in point.prediction.bounds
    }  # fmt: skip
    return {"id": profile.id, "name": profile.name, **ceilings}


def point_document(point: Point) -> dict[str, Any]:
    """One point: what ran, whether it was right, its samples, and what was predicted."""
    timing, prediction, checked = point.timing, point.prediction, point.correctness
    found: dict[str, Any] = {
        "kernel": point.kernel,
        "algorithm": point.algorithm,
        "source": point.source,
        "workload": point.workload.echo(),
        "config": dict(point.config),
        "status": point.status,
        "reason": point.reason,
        "correctness": None,
        "seconds": point.seconds,
        "flops_per_s": point.flops_per_s,
        "bound_by": None if prediction is None else prediction.bound_by,
        "share_of_roof": point.shares[0].share if point.shares else None,
        "shares": [asdict(share) for share in point.shares],
        "statistics": None,
        "samples": [],
        "environment": None,
        "prediction": None if prediction is None else result_document(prediction),
    }
    if checked is not None:
        error = checked.error if checked.error < float("inf") else None
        found["correctness"] = {
            "error": error, "limit": checked.limit, "output": checked.output, "passed": checked.passed,
            "workload": checked.workload.echo(),
        }  # fmt: skip
    if timing is not None:
        found["statistics"] = {
            **asdict(timing.statistics), "warm_up": timing.warm_up, "steady": timing.steady, "cold_l2": timing.cold,
        }  # fmt: skip
        found["samples"] = [round(sample, 10) for sample in timing.samples]
        found["environment"] = asdict(timing.environment)
    return found


def _sheet(measurement: Measurement) -> Sheet:
    timed = [point for point in measurement.points if point.status == "measured"]
    checked = [point for point in measurement.points if point.status in ("checked", "wrong")]
    skipped = [point for point in measurement.points if point.status == "skipped"]
    columns = ["median", "95% within", "useful work", "at least", "bound by", "of roof", "error"]
    if not timed:
        columns = ["", "error"]
    sections = [Section("", [_timed(point) for point in timed])] if timed else []
    if checked:
        heading = "wrong: not timed" if timed else ""
        sections.append(Section(heading, [_checked(point, len(columns)) for point in checked]))
    if measurement.steps:
        layers = sum(count for count, _ in measurement.layers)
        sections.append(Section(f"all {layers} layers, one after the other", list(map(_whole, measurement.steps))))
    notes = [f"warning: {warning}" for warning in measurement.warnings]
    notes += [f"{_label(point)}: left out: {point.reason}" for point in skipped]
    if measurement.interrupted:
        notes.append("Interrupted: what was measured until then is here.")
    if not measurement.points:
        notes.append("Nothing was measured.")
    return Sheet(_title(measurement), columns, sections, _subtitle(measurement), notes)


def _title(measurement: Measurement) -> str:
    identity = measurement.identity
    if identity is None:
        return "Kernels checked against float64 through Triton's interpreter, on a CPU: no times"
    return f"Measured on {identity.name}, suite {measurement.suite}: cold L2, medians"


def _subtitle(measurement: Measurement) -> list[str]:
    identity, gpu = measurement.identity, measurement.gpu
    if identity is None:
        return []
    versions = ", ".join(f"{name} {version}" for name, version in identity.versions.items())
    against = "no profile of this card: times without bounds" if gpu is None else f"against {gpu.name} ({gpu.id})"
    return [f"{against}; {format_capacity(identity.memory)}, {identity.sm_count} SMs", versions]


def _label(point: Point) -> str:
    return f"{point.kernel} {describe(point.workload)}"


def _timed(point: Point) -> Line:
    timing, prediction, shares = point.timing, point.prediction, point.shares
    assert timing is not None  # only measured points come here
    found = timing.statistics
    rate = "—" if point.flops_per_s is None else format_rate(point.flops_per_s, "FLOP/s")
    cells = [
        format_seconds(found.median),
        f"±{found.uncertainty:.2%}" + ("" if timing.steady else " unsteady"),
        rate,
        "—" if prediction is None else format_seconds(prediction.seconds_at_least),
        "—" if prediction is None else prediction.bounds[0].ceiling.id,
        f"{shares[0].share:.1%}" if shares else "—",
        _error(point),
    ]
    return Line(_label(point), cells)


def _whole(step: Step) -> Line:
    least = step.seconds_at_least
    share = "—" if least is None else f"{least / step.seconds:.1%}"
    at_least = "—" if least is None else format_seconds(least)
    return Line(step.kernel, [format_seconds(step.seconds), "", "", at_least, "", share, ""], strong=True)


def _checked(point: Point, columns: int) -> Line:
    state = "right" if point.status == "checked" else f"WRONG: {point.reason}"
    return Line(_label(point), [state, *("" for _ in range(columns - 2)), _error(point)])


def _error(point: Point) -> str:
    return "—" if point.correctness is None else f"{point.correctness.error:.1e}"
