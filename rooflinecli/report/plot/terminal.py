"""The roofline in a terminal: as wide as it is, with colour and Unicode where there are any, readable without both."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from typing import Any

from rich.console import Console
from rich.text import Text

from rooflinecli.report import terminal
from rooflinecli.report.plot.canvas import Canvas
from rooflinecli.report.plot.chart import Level
from rooflinecli.report.plot.labels import Frame
from rooflinecli.report.plot.legend import entries, wrapped
from rooflinecli.report.plot.scene import LEVEL_WORDS, Mark, RoofLine, Scene, by_importance
from rooflinecli.report.plot.style import HOLLOW, marker
from rooflinecli.report.roofline import LEVEL_NAMES, bound_label, origin, point_label
from rooflinecli.units import format_rate

MAX_LISTED = 12
_COLOURS: dict[Level, str] = {"hbm": "bright_blue", "sm": "bright_magenta", "textbook": "yellow"}
_LETTERS: dict[Level, str] = {"hbm": "h", "sm": "s", "textbook": "t"}
# What a terminal that knows no Unicode shows instead of the rest of the words.
_PLAIN = str.maketrans({"–": "-", "·": ".", "×": "x", "…": "...", "—": "-", "≥": ">=", "≤": "<="})


def show(scene: Scene) -> str:
    """The picture for whoever looks at standard output."""
    watched = terminal.is_watched()
    colour = watched and "NO_COLOR" not in os.environ
    rows = shutil.get_terminal_size((terminal.PIPE_WIDTH, 40)).lines if watched else 40
    return plot(scene, terminal.width(), unicode=terminal.speaks_unicode(), colour=colour, rows=rows)


def plot(scene: Scene, width: int, *, unicode: bool, colour: bool, rows: int = 40) -> str:
    """The picture as lines of at most `width` characters; `rows` bounds the height of the axes, not of the legend."""
    lines = [
        *_heading(scene, width),
        *_axes(scene, width, rows, unicode, colour),
        *_legend(scene, width, unicode, colour),
    ]
    stream = io.StringIO()
    console = Console(
        file=stream, width=width, force_terminal=colour, no_color=not colour, highlight=False, legacy_windows=False,
        color_system="standard" if colour else None,
    )  # fmt: skip
    for line in lines:
        console.print(line, soft_wrap=True)
    text = "\n".join(line.rstrip() for line in stream.getvalue().split("\n")).rstrip("\n")
    return text if unicode else text.translate(_PLAIN)


def _heading(scene: Scene, width: int) -> Iterator[Text]:
    for text, style in ((scene.title, "bold"), (scene.subtitle, "dim")):
        for line in wrapped(text, width, len):
            yield Text(line, style=style)


def _axes(scene: Scene, width: int, rows: int, unicode: bool, colour: bool) -> Iterator[Text]:
    ticks_y = _decades(scene.y)
    names = {tick: f"{tick / scene.y_unit[0]:g}" for tick in ticks_y}
    margin = max((len(name) for name in names.values()), default=1) + 2
    canvas = Canvas(max(10, width - margin), max(12, min(width // 4, rows - 12, 34)), unicode)
    frame = Frame(canvas.width, canvas.height, scene.x, scene.y)
    _draw(canvas, frame, scene, colour)
    at_row = {round(canvas.height - frame.place(scene.x[0], tick)[1] - 0.5): name for tick, name in names.items()}
    bar, corner, flat, notch = ("│", "└", "─", "┴") if unicode else ("|", "+", "-", "+")
    yield Text(scene.y_unit[1], style="dim")
    for row in range(canvas.height):
        line = Text()
        line.append(f"{at_row.get(row, ''):>{margin - 2}} {'┤' if unicode and row in at_row else bar}", style="dim")
        for style, run in groupby(canvas.row(row), key=lambda cell: cell[1]):
            line.append("".join(character for character, _ in run), style=style if colour else "")
        yield line
    ticks_x = {int(frame.place(tick, scene.y[0])[0]): f"{tick:g}" for tick in _decades(scene.x)}
    axis = "".join(notch if column in ticks_x else flat for column in range(canvas.width))
    yield Text(" " * (margin - 1) + corner + axis, style="dim")
    words = [" "] * canvas.width
    for column, name in ticks_x.items():
        start = max(0, min(canvas.width - len(name), column - len(name) // 2))
        if all(letter == " " for letter in words[max(0, start - 1) : start + len(name) + 1]):
            words[start : start + len(name)] = name
    yield Text(" " * margin + "".join(words), style="dim")
    label = "arithmetic intensity (FLOP/B)" if canvas.width > 30 else "FLOP/B"
    yield Text(" " * max(0, margin + (canvas.width - len(label)) // 2) + label, style="dim")


def _decades(span: tuple[float, float]) -> list[float]:
    found = [10.0**power for power in range(-12, 31) if span[0] <= 10.0**power <= span[1]]
    return found or [span[0]]


def _draw(canvas: Canvas, frame: Frame, scene: Scene, colour: bool) -> None:
    def cell(x: float, y: float) -> tuple[float, float]:
        across, up = frame.place(x, y)
        return min(across, canvas.width - 0.01), min(max(canvas.height - up, 0.0), canvas.height - 0.01)

    for line in scene.lines:
        ends = (*cell(line.x0, line.y0), *cell(line.x1, line.y1))
        letter = "/" if line.roof.kind == "bandwidth" else "=" if line.roof.kind == "compute" else "-"
        canvas.line(*ends, style=_style(line), dash=_dash(line), letter=letter)
    for ridge in scene.ridges:
        x = ridge.ridge.intensity
        ends = (*cell(x, scene.y[0]), *cell(x, ridge.ridge.flops_per_s))
        canvas.line(*ends, style=f"dim {_COLOURS[ridge.level]}", dash=(1, 3), letter=":")
    for one, other in scene.ties:
        canvas.line(*cell(one.x, one.y), *cell(other.x, other.y), style="dim", dash=(1, 3), letter=".")
    for track in scene.tracks:
        for first, second in pairwise(track.marks):
            style = _COLOURS[first.point.level]
            canvas.line(*cell(first.x, first.y), *cell(second.x, second.y), style=style, dash=(1, 0), letter=".")
    taken: set[tuple[int, int]] = set()
    for mark in scene.marks:
        x, y = cell(mark.x, mark.y)
        column, row = int(x), int(y)
        if (column, row) in taken and not colour and not scene.tracks:
            column = next((c for c in (column + 2, column - 2) if (c, row) not in taken), column)
        canvas.glyph(column, row, _glyph(mark, canvas.unicode), f"bold {_COLOURS[mark.point.level]}")
        taken.add((column, row))
        if not colour and not scene.tracks:
            canvas.glyph(column + 1, row, _LETTERS[mark.point.level], "")
            taken.add((column + 1, row))
        if mark.point.above:
            canvas.glyph(column, row - 1, "!", "bold red")
            taken.add((column, row - 1))
    if not colour:  # a path is long: its last mark says its level
        for track in scene.tracks:
            x, y = cell(track.marks[-1].x, track.marks[-1].y)
            canvas.put([(int(x) + 1, int(y)), (int(x) + 2, int(y))], _LETTERS[track.marks[-1].point.level], "", taken)
    _label(canvas, scene, cell, taken)


def _label(canvas: Canvas, scene: Scene, cell: Any, taken: set[tuple[int, int]]) -> None:
    for ridge in scene.ridges:
        column = int(cell(ridge.ridge.intensity, scene.y[0])[0])
        text = f"{ridge.ridge.intensity:.4g}"
        rows = [canvas.height - 1 - up for up in range(4)]
        places = [place for row in rows for place in ((column + 2, row), (column - 1 - len(text), row))]
        canvas.put(places, text, _COLOURS[ridge.level], taken)
    for line in by_importance(scene.lines):
        text = short_label(line)
        if line.roof.kind == "bandwidth":
            places = []
            for share in (0.35, 0.25, 0.45, 0.15, 0.55, 0.65, 0.75):
                x, y = cell(line.x0 * (line.x1 / line.x0) ** share, line.y0 * (line.y1 / line.y0) ** share)
                places += [(int(x) + 2, int(y)), (int(x) - len(text) - 1, int(y)), (int(x) + 2, int(y) + 1)]
        else:
            row = int(cell(line.x1, line.y1)[1])
            ends = [canvas.width - len(text) - gap for gap in (1, 6, 12, 20, 30, 40)]
            places = [(end, row + off) for end in ends for off in (-1, 1)]
        canvas.put(places, text, _style(line), taken)
    for callout in scene.callouts:
        x, y = (int(part) for part in cell(callout.mark.x, callout.mark.y))
        text = f"{callout.text} {callout.detail}" if scene.tracks else callout.text
        places = [
            (x + 3, y), (x - len(text) - 1, y), (x + 3, y + 1), (x + 1, y + 1), (x - len(text), y + 1),
            (x + 2, y - 1), (x - len(text), y - 1), (x + 2, y + 2), (x - len(text), y + 2),
        ]  # fmt: skip
        canvas.put(places, text, "", taken)


def short_label(line: RoofLine) -> str:
    """A roof in the fewest words."""
    roof = line.roof
    rate = format_rate(roof.rate if roof.high is None else roof.high, "FLOP/s" if roof.kind == "kernel" else roof.unit)
    name = roof.label.removesuffix(" dense").removesuffix(" bandwidth")
    if roof.kind == "kernel":
        name = "exp" if roof.id == "exp" else "softmax"
    return f"{name} {rate}"


def _style(line: RoofLine) -> str:
    level = line.roof.level
    if level is not None:
        return _COLOURS[level]
    return {"compute": "bold", "kernel": "cyan"}.get(line.roof.kind, "dim")


def _dash(line: RoofLine) -> tuple[int, int]:
    if line.roof.kind == "reference":
        return (1, 2)
    return (1, 0) if line.roof.measured else (4, 2)


def _glyph(mark: Mark, unicode: bool) -> str:
    _, _, filled, letter = marker(mark.point.algorithm)
    if unicode:
        return filled if mark.point.measured else HOLLOW[filled]
    return letter.upper() if mark.point.measured else letter


def _legend(scene: Scene, width: int, unicode: bool, colour: bool) -> Iterator[Text]:
    shapes = []
    for entry in entries(scene):
        if entry.kind == "algorithm" and entry.algorithm is not None:
            _, _, filled, letter = marker(entry.algorithm)
            glyph = (filled if entry.filled else HOLLOW[filled]) if unicode else letter
            shapes.append(f"{glyph} {entry.text}")
    fill = [entry.text for entry in entries(scene) if entry.kind == "fill"]
    yield from _block("", "  ".join([*shapes, *fill]), width, "")
    for level in scene.chart.levels:
        sign = ("■" if unicode else "#") if colour else _LETTERS[level]
        yield from _block(f"{sign} ", LEVEL_WORDS[level], width, _COLOURS[level] if colour else "")
    for line in scene.lines:
        sample = ("──" if line.roof.measured else "╌╌") if unicode else "=" if line.roof.measured else "-"
        yield from _block(f"{sample} ", f"{line.label}: {origin(line.roof)}", width, _style(line) if colour else "")
    yield from _listed(scene, width)
    for note in scene.notes[:MAX_LISTED]:
        yield from _block("  ", note, width, "")
    if len(scene.notes) > MAX_LISTED:
        yield Text(f"  ... and {len(scene.notes) - MAX_LISTED} more notes, all of them in --data")


def _listed(scene: Scene, width: int) -> Iterable[Text]:
    """The points in figures, where they are few: a terminal has no hover."""
    if len(scene.marks) > MAX_LISTED:
        return
    for mark in scene.marks:
        point = mark.point
        words = f"{LEVEL_NAMES[point.level]} {point.intensity:.4g} FLOP/B, {format_rate(point.flops_per_s, 'FLOP/s')}"
        reached = f"{point.share:.1%} of its roof, " if point.measured else ""
        gpu = f", {scene.variants[mark.variant]}" if scene.variants else ""
        yield from _block(
            "  ", f"{point_label(point)}{gpu}: {words}, {reached}bound by {bound_label(scene.chart, point)}", width, ""
        )


def _block(sign: str, text: str, width: int, style: str) -> Iterator[Text]:
    """Wrapped words behind a sign in colour."""
    for index, line in enumerate(wrapped(text, width - len(sign), len)):
        yield Text.assemble((sign if index == 0 else " " * len(sign), style), line)
