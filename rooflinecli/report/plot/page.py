"""The roofline as a page to explore: one HTML file with everything in it, plotly.js too; no network."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rooflinecli.report.formats import render
from rooflinecli.report.plot.chart import LEVELS, Level
from rooflinecli.report.plot.scene import LEVEL_WORDS, Mark, RoofLine, Scene, by_importance, kernel_key
from rooflinecli.report.plot.style import HOLLOW, PALETTES, marker
from rooflinecli.report.plot.terminal import short_label
from rooflinecli.report.roofline import LEVEL_NAMES, bound_label, ceiling_label, document, origin, point_label, view
from rooflinecli.units import format_bytes, format_rate, format_seconds

_WEB = Path(__file__).parent / "web"
_TINTS = (0.0, 0.38, 0.58, 0.7)
# Dots a line is hovered at: plotly answers at vertices only.
_HOVERED = 48
# More points than this are named by hovering only.
_NAMED = 16


def page(scene: Scene) -> str:
    """The page as HTML. Needs plotly, for the plotly.js it carries."""
    from plotly.offline import get_plotlyjs

    shown = view(scene.chart)
    alt = f"{scene.title}. {scene.subtitle}. The figures are in the tables below."
    parts = {
        "TITLE": html.escape(scene.title),
        "SUBTITLE": html.escape(scene.subtitle),
        "ALT": html.escape(alt),
        "STYLE": (_WEB / "page.css").read_text(encoding="utf-8"),
        "DATA": _json(document(scene.chart)),
        "SCENE": _json(specification(scene, render(shown, "csv"))),
        "SCRIPT": (_WEB / "page.js").read_text(encoding="utf-8"),
        "PLOTLY": get_plotlyjs().replace("</script", "<\\/script"),
    }
    text = (_WEB / "page.html").read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"@@{name}@@", part)
    return text


def _json(value: Any) -> str:
    """JSON that may stand inside a script element."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("</", "<\\/")


def specification(scene: Scene, csv: str = "") -> dict[str, Any]:
    """Everything the page's script draws from: traces with what they belong to, labels, controls, words."""
    kernels = list(dict.fromkeys(kernel_key(mark) for mark in scene.marks))
    names = {kernel_key(mark): _kernel_name(scene, mark) for mark in scene.marks}
    unit, _ = scene.y_unit
    return {
        "x": [math.log10(end) for end in scene.x],
        "y": [math.log10(end / unit) for end in scene.y],
        "x_label": scene.x_label,
        "y_label": scene.y_label,
        "palettes": {
            name: {"paper": each.paper, "ink": each.ink, "soft": each.soft, "grid": each.grid, "alarm": each.alarm,
                   "levels": each.levels}
            for name, each in PALETTES.items()
        },
        "controls": list(_controls(scene)),
        "traces": [*_roof_traces(scene), *_tie_traces(scene, kernels), *_point_traces(scene, kernels)],
        "labels": list(_labels(scene)),
        "kernels": [names[key] for key in kernels],
        "roofs": [
            [line.label, scene.chart.gpus.get(line.roof.gpu, line.roof.gpu), origin(line.roof),
             "measured" if line.roof.measured else "datasheet"]
            for line in scene.lines
        ],
        "point_heads": ["kernel", "GPU", "level", "FLOP/B", "FLOP/s", "attainable", "of its roof", "bound by", "time"],
        "points": [_row(scene, mark) for mark in scene.marks],
        "notes": list(scene.notes),
        "csv": csv,
    }  # fmt: skip


def _controls(scene: Scene) -> Iterator[dict[str, Any]]:
    points, chart = [mark.point for mark in scene.marks], scene.chart
    levels = [
        {"value": level, "text": LEVEL_NAMES[level], "level": level, "title": LEVEL_WORDS[level]}
        for level in chart.levels or LEVELS
    ]
    yield {"key": "level", "title": "level", "options": levels}
    shapes = [
        {"value": name, "text": name, "glyph": _glyph(name, any(p.measured for p in points if p.algorithm == name))}
        for name in chart.algorithms
    ]
    yield {"key": "algorithm", "title": "algorithm", "options": shapes}
    for key, title, values in (
        ("gpu", "GPU", dict(chart.gpus)),
        ("dtype", "format", {point.dtype: point.dtype for point in points}),
        ("run", "file", {point.run: point.run for point in points if point.run is not None}),
        ("measured", "points", {_state(point.measured): _state(point.measured) for point in points}),
    ):
        yield {"key": key, "title": title, "options": [{"value": v, "text": t} for v, t in values.items()]}


def _state(measured: bool) -> str:
    return "measured" if measured else "predicted"


def _glyph(algorithm: str, filled: bool) -> str:
    glyph = marker(algorithm)[2]
    return glyph if filled else HOLLOW[glyph]


def _meta(line: RoofLine, scene: Scene) -> dict[str, Any]:
    """What a roof belongs to: hidden when none of its levels, or not its GPU, format or file, is chosen."""
    roof = line.roof
    levels: Sequence[Level] = ("hbm", "sm")
    if roof.kind == "bandwidth":
        levels = ("hbm", "textbook") if roof.level == "hbm" else ("sm",)
    elif roof.kind == "compute":
        levels = LEVELS
    return {"kind": "roof", "gpu": roof.gpu, "run": roof.run, "dtype": roof.dtype, "levels": list(levels)}


def _ink(line: RoofLine, words: bool = False) -> list[Any]:
    tint = _TINTS[min(line.variant, 3)]
    name = line.roof.level or ("ink" if line.roof.kind == "compute" else "soft")
    return [name, min(tint, 0.2) if words else tint]


def _roof_traces(scene: Scene) -> Iterator[dict[str, Any]]:
    unit = scene.y_unit[0]
    for line in scene.lines:
        roof = line.roof
        steps = [index / _HOVERED for index in range(_HOVERED + 1)]
        xs = [line.x0 * (line.x1 / line.x0) ** step for step in steps]
        ys = [line.y0 * (line.y1 / line.y0) ** step / unit for step in steps]
        dash = "dot" if roof.kind == "reference" else "solid" if roof.measured else "dash"
        width = {"bandwidth": 2.2, "compute": 2.2, "kernel": 1.5, "reference": 1.2}[roof.kind]
        words = f"<b>{html.escape(line.label)}</b><br>{html.escape(origin(roof))}"
        trace = {
            "type": "scatter", "mode": "lines", "x": xs, "y": ys, "line": {"width": width, "dash": dash},
            "hovertemplate": f"{words}<br>at %{{x:.4g}} FLOP/B: %{{y:.4g}} {scene.y_unit[1]}<extra></extra>",
        }  # fmt: skip
        yield {
            "trace": trace,
            "name": line.label,
            "ink": _ink(line),
            "meta": _meta(line, scene),
            "kernels": [],
            "above": [],
        }
        if line.low is not None:
            band = {
                "type": "scatter", "mode": "lines", "x": [line.x0, line.x1, line.x1, line.x0],
                "y": [line.y0 / unit, line.y1 / unit, line.low / unit, line.low / unit],
                "fill": "toself", "fillcolor": "soft", "line": {"width": 0}, "hoverinfo": "skip",
            }  # fmt: skip
            yield {
                "trace": band,
                "name": line.label,
                "ink": _ink(line),
                "meta": _meta(line, scene),
                "kernels": [],
                "above": [],
            }
    for ridge in scene.ridges:
        x, top = ridge.ridge.intensity, ridge.ridge.flops_per_s / unit
        trace = {
            "type": "scatter", "mode": "lines", "x": [x, x], "y": [scene.y[0] / unit, top],
            "line": {"width": 1, "dash": "dot"}, "hovertemplate": f"ridge {x:.4g} FLOP/B<extra></extra>",
        }  # fmt: skip
        yield {"trace": trace, "name": ridge.label, "ink": [ridge.level, _TINTS[min(ridge.variant, 3)]],
               "meta": _ridge_meta(ridge), "kernels": [], "above": []}  # fmt: skip


def _ridge_meta(mark: Any) -> dict[str, Any]:
    ridge = mark.ridge
    levels = ["hbm", "textbook"] if mark.level == "hbm" else [mark.level]
    return {"kind": "ridge", "gpu": ridge.gpu, "run": ridge.run, "dtype": ridge.dtype, "levels": levels}


def _tie_traces(scene: Scene, kernels: list[Any]) -> Iterator[dict[str, Any]]:
    for one, other in scene.ties:
        trace = {
            "type": "scatter", "mode": "lines",
            "x": [one.x, other.x], "y": [one.y / scene.y_unit[0], other.y / scene.y_unit[0]],
            "line": {"width": 1, "dash": "dot"}, "hoverinfo": "skip",
        }  # fmt: skip
        yield {"trace": trace, "name": "", "ink": ["soft", 0.0], "meta": {**_point_meta(one), "kind": "tie"},
               "kernels": [kernels.index(kernel_key(one))], "above": []}  # fmt: skip


def _point_meta(mark: Mark) -> dict[str, Any]:
    point = mark.point
    return {
        "kind": "points", "gpu": point.gpu, "run": point.run, "dtype": point.dtype, "algorithm": point.algorithm,
        "measured": _state(point.measured), "levels": [point.level],
    }  # fmt: skip


def _point_traces(scene: Scene, kernels: list[Any]) -> Iterator[dict[str, Any]]:
    """A trace for each algorithm, level, variant and kind; swept ones are joined in the order of the sweep."""
    place = {key: index for index, key in enumerate(kernels)}
    tracked = {id(mark) for track in scene.tracks for mark in track.marks}
    groups: list[tuple[bool, list[Mark]]] = [(True, list(track.marks)) for track in scene.tracks]
    loose: dict[tuple[Any, ...], list[Mark]] = {}
    for mark in scene.marks:
        if id(mark) not in tracked:
            point = mark.point
            key = (mark.variant, point.algorithm, point.level, point.measured)
            loose.setdefault(key, []).append(mark)
    for joined, marks in [*groups, *((False, each) for each in loose.values())]:
        first = marks[0]
        size = max(7, 11 - 2 * min(first.variant, 2))
        trace: dict[str, Any] = {
            "type": "scatter", "mode": "lines+markers" if joined else "markers",
            "x": [mark.x for mark in marks], "y": [mark.y / scene.y_unit[0] for mark in marks],
            "marker": {"symbol": marker(first.point.algorithm)[1], "size": size},
            "customdata": [place[kernel_key(mark)] for mark in marks],
            "hovertext": [_hover(scene, mark) for mark in marks],
            "hovertemplate": "%{hovertext}<extra></extra>",
        }  # fmt: skip
        if joined:
            trace["line"] = {"width": 1.2, "dash": "solid" if first.point.measured else "dash"}
        points = [mark.point for mark in marks]
        if any(point.bytes_low < point.bytes_high for point in points):
            trace["error_x"] = {
                "type": "data", "symmetric": False, "thickness": 2, "width": 0,
                "array": [point.flops / max(1, point.bytes_low) - point.intensity for point in points],
                "arrayminus": [point.intensity - point.flops / point.bytes_high for point in points],
            }  # fmt: skip
        yield {
            "trace": trace,
            "name": f"{first.name} {LEVEL_NAMES[first.point.level]}",
            "ink": [first.point.level, _TINTS[min(first.variant, 3)]],
            "meta": _point_meta(first),
            "kernels": [place[kernel_key(mark)] for mark in marks],
            "above": [bool(point.above) for point in points],
        }


def _labels(scene: Scene) -> Iterator[dict[str, Any]]:
    """Words on lines, those that must not be missing first."""
    unit = scene.y_unit[0]
    for ridge in scene.ridges:
        x = ridge.ridge.intensity
        yield {
            "kind": "ridge", "text": ridge.label, "short": f"{x:.4g}", "x0": x, "y0": scene.y[0] / unit, "x1": x,
            "y1": ridge.ridge.flops_per_s / unit, "ink": [ridge.level, min(_TINTS[min(ridge.variant, 3)], 0.2)],
            "meta": _ridge_meta(ridge),
        }  # fmt: skip
    for line in by_importance(scene.lines):
        yield {
            "kind": "slope" if line.roof.kind == "bandwidth" else "flat",
            "text": line.label, "short": short_label(line),
            "x0": line.x0, "y0": line.y0 / unit, "x1": line.x1, "y1": line.y1 / unit,
            "ink": _ink(line, words=True), "meta": _meta(line, scene),
        }  # fmt: skip

    for callout in scene.callouts if len(scene.callouts) <= _NAMED else ():
        mark = callout.mark
        text = f"{callout.text}: {callout.detail}" if scene.tracks else callout.text
        x, y = mark.x, mark.y / unit
        yield {"kind": "point", "text": text, "short": text, "x0": x, "y0": y, "x1": x, "y1": y,
               "ink": ["alarm" if mark.point.above else "ink", 0.0], "meta": _point_meta(mark)}  # fmt: skip


def _kernel_name(scene: Scene, mark: Mark) -> str:
    name = point_label(mark.point)
    words = [scene.variants[mark.variant]] if scene.variants else []
    words += ["measured"] if mark.point.measured else []
    return ", ".join([name, *words])


def _hover(scene: Scene, mark: Mark) -> str:
    point = mark.point
    interval = ""
    if point.bytes_low < point.bytes_high:
        interval = f" ({format_bytes(point.bytes_low)} – {format_bytes(point.bytes_high)})"
    lines = [
        f"<b>{html.escape(_kernel_name(scene, mark))}</b>",
        f"level {LEVEL_NAMES[point.level]}, {html.escape(scene.chart.gpus.get(point.gpu, point.gpu))}",
        f"intensity {point.intensity:.4g} FLOP/B",
        f"{format_rate(point.flops, 'FLOP')} over {format_bytes(point.bytes)}{interval}",
        f"{_state(point.measured)} {format_rate(point.flops_per_s, 'FLOP/s')}",
        f"attainable {format_rate(point.attainable, 'FLOP/s')}",
        f"share of roof {point.share:.1%}",
        f"bound by {html.escape(bound_label(scene.chart, point))}",
        f"time {format_seconds(point.seconds)}" + ("" if point.measured else " at least"),
    ]
    if point.measured:
        lines.append(f"time at least {format_seconds(point.seconds_at_least)}")
    if point.tile:
        lines.append(f"tile {html.escape(point.tile)}")
    if point.above:
        lines.append(
            f"<b>above {html.escape(', '.join(ceiling_label(scene.chart, point, name) for name in point.above))}</b>"
        )
    return "<br>".join(lines)


def _row(scene: Scene, mark: Mark) -> list[str]:
    point = mark.point
    return [
        _kernel_name(scene, mark), scene.chart.gpus.get(point.gpu, point.gpu), LEVEL_NAMES[point.level],
        f"{point.intensity:.4g}", format_rate(point.flops_per_s, "FLOP/s"), format_rate(point.attainable, "FLOP/s"),
        f"{point.share:.1%}", bound_label(scene.chart, point), format_seconds(point.seconds),
    ]  # fmt: skip
