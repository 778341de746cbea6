"""How a roofline is shown as figures: the JSON `rooflinecli/roofline/1`, flat records, two sheets a GPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from rooflinecli import __version__
from rooflinecli.report.plot.chart import SCHEMA, Chart, Point, Roof
from rooflinecli.report.sheet import Line, Section, Sheet, View, flatten
from rooflinecli.sweep import count_label
from rooflinecli.units import format_rate, format_seconds

LEVEL_NAMES = {"hbm": "HBM", "sm": "SM boundary", "textbook": "textbook"}
_KINDS = {"bandwidth": "slope", "compute": "peak", "kernel": "unit", "reference": "not used here"}


def view(chart: Chart) -> View:
    """The chart, ready for any format."""
    return View(document(chart), list(_records(chart)), lambda: list(_sheets(chart)))


def document(chart: Chart) -> dict[str, Any]:
    """The chart as JSON: what `--data` writes and `--from` reads."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "command": ["rooflinecli", *sys.argv[1:]],
        "title": chart.title,
        "swept": list(chart.swept),
        "gpus": [{"id": name, "name": words} for name, words in chart.gpus.items()],
        "roofs": [asdict(roof) for roof in chart.roofs],
        "ridges": [asdict(ridge) for ridge in chart.ridges],
        "points": [_point(point) for point in chart.points],
        "undrawable": [asdict(lost) for lost in chart.undrawable],
        "notes": list(chart.notes),
    }


def _point(point: Point) -> dict[str, Any]:
    return {
        **asdict(point),
        "workload": dict(point.workload),
        "above": list(point.above),
        "share_of_roof": point.share,
        "seconds_at_least": point.seconds_at_least,
    }


def _records(chart: Chart) -> Iterator[Mapping[str, Any]]:
    """One line each, told apart by `record`; a CSV of them can be drawn again."""
    yield {"record": "chart", "title": chart.title, "swept": " ".join(chart.swept)}
    for name, words in chart.gpus.items():
        yield {"record": "gpu", "id": name, "name": words}
    for roof in chart.roofs:
        yield {"record": "roof", **asdict(roof)}
    for ridge in chart.ridges:
        yield {"record": "ridge", **asdict(ridge)}
    for point in chart.points:
        yield {"record": "point", **flatten(_point(point)), "above": " ".join(point.above)}
    for lost in chart.undrawable:
        yield {"record": "undrawable", **asdict(lost)}


def _sheets(chart: Chart) -> Iterator[Sheet]:
    for gpu, name in chart.gpus.items():
        roofs = [roof for roof in chart.roofs if roof.gpu == gpu]
        points = [point for point in chart.points if point.gpu == gpu]
        ridges = {
            (ridge.run, ridge.bandwidth): f"{ridge.intensity:.4g} FLOP/B" for ridge in chart.ridges if ridge.gpu == gpu
        }
        yield Sheet(
            title=f"{name} ({gpu}): roofs",
            columns=["rate", "FLOP/s of these kernels", "ridge", "is", "source"],
            sections=[Section("", [_roof_line(roof, ridges) for roof in roofs])],
            left=True,
        )
        if points:
            yield _points_sheet(chart, name, points)
    if chart.undrawable:
        lines = [Line(lost.what, [lost.reason]) for lost in chart.undrawable]
        yield Sheet("Not drawn", ["why"], [Section("", lines)], left=True)


def _roof_line(roof: Roof, ridges: Mapping[tuple[str | None, str], str]) -> Line:
    here = "—"
    if roof.kind == "compute":
        here = format_rate(roof.rate, "FLOP/s")
    elif roof.kind == "kernel" and roof.low is not None and roof.high is not None:
        here = spread(roof.low, roof.high)
    ridge = ridges.get((roof.run, roof.id), "—") if roof.kind == "bandwidth" else "—"
    name = f"softmax on {roof.label}" if roof.kind == "kernel" and roof.id == "fp32_vector" else roof.label
    label = f"{name} ({roof.run})" if roof.run else name
    return Line(label, [format_rate(roof.rate, roof.unit), here, ridge, _KINDS[roof.kind], origin(roof)])


def origin(roof: Roof) -> str:
    """Where a roof's figure comes from, and the clock it is quoted at."""
    if roof.clock_hz is None or "MHz" in roof.source:
        return roof.source
    return f"{roof.source}, at {roof.clock_hz / 1e6:.0f} MHz"


def spread(low: float, high: float) -> str:
    """One rate, or the two ends of a range of more than 3%."""
    text = format_rate(high, "FLOP/s")
    return text if low > high * 0.97 else f"{format_rate(low, 'FLOP/s')} – {text}"


def _points_sheet(chart: Chart, name: str, points: list[Point]) -> Sheet:
    peaks = {(roof.run, roof.gpu, roof.dtype): roof.rate for roof in chart.roofs if roof.kind == "compute"}
    columns = ["intensity", "attainable", "of the peak", "bound by", "time at least"]
    measured = any(point.measured for point in points)
    columns += ["measured", "of the roof"] if measured else []
    sections = []
    for level in chart.levels:
        lines = []
        for point in points:
            if point.level != level:
                continue
            peak = peaks.get((point.run, point.gpu, point.dtype)) or peaks.get((None, point.gpu, point.dtype))
            cells = [
                f"{point.intensity:.4g} FLOP/B",
                format_rate(point.attainable, "FLOP/s"),
                "—" if peak is None else f"{point.attainable / peak:.1%}",
                bound_label(chart, point),
                format_seconds(point.seconds_at_least),
            ]
            if measured:
                above = (
                    f", above {', '.join(ceiling_label(chart, point, one) for one in point.above)}"
                    if point.above
                    else ""
                )
                cells += [format_seconds(point.seconds), f"{point.share:.1%}{above}"] if point.measured else ["—", "—"]
            lines.append(Line(point_label(point), cells))
        sections.append(Section(f"level: {LEVEL_NAMES[level]}", lines))
    return Sheet(f"{name}: points", columns, sections, subtitle=[chart.title], notes=list(chart.notes))


def ceiling_label(chart: Chart, point: Point, name: str) -> str:
    """What the ceiling `name` of the point's own GPU is called."""
    return next((roof.label for roof in chart.roofs if (roof.gpu, roof.id) == (point.gpu, name)), name)


def bound_label(chart: Chart, point: Point) -> str:
    """What binds the point, in words."""
    return ceiling_label(chart, point, point.bound_by)


def point_label(point: Point) -> str:
    """The algorithm and what tells it from the other points of its kind."""
    words = [point.kernel or point.algorithm, *(f"{name}={count_label(value)}" for name, value in point.at.items())]
    return " ".join([*words, *([f"({point.run})"] if point.run else [])])
