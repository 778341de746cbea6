"""The roofline as a figure for paper: PNG, SVG, PDF by matplotlib, the same bytes every time."""

from __future__ import annotations

import io
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rooflinecli.report.plot import labels
from rooflinecli.report.plot.chart import Level
from rooflinecli.report.plot.labels import Board, Box, Frame, Segment
from rooflinecli.report.plot.legend import Entry, entries, wrapped
from rooflinecli.report.plot.scene import Mark, RoofLine, Scene, by_importance
from rooflinecli.report.plot.style import PALETTES, Palette, Theme, marker, mixed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
# Paper, in points.
_WIDTH, _AXES_HEIGHT = 540.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 54.0, 16.0, 44.0, 42.0
_SMALL, _TEXT, _TITLE = 7.0, 8.0, 11.0
_ROW = 12.0
_MARK = 6.5
# Fixed, so that two runs write the same bytes: text stays text, and neither dates nor random ids are written.
_SETTINGS = {
    "svg.hashsalt": "rooflinecli",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "font.family": ["DejaVu Sans", "sans-serif"],
    "axes.unicode_minus": False,
    "text.parse_math": False,
}
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": "rooflinecli"},
    "pdf": {"CreationDate": None, "Creator": "rooflinecli", "Producer": None},
    "png": {"Software": None},
}


def figure(scene: Scene, shape: str, theme: Theme = "light") -> bytes:
    """The picture as a file of format `shape`, one of `FORMATS`. Needs matplotlib."""
    import matplotlib as mpl

    with mpl.rc_context(_SETTINGS):
        drawn = _figure(scene, PALETTES[theme])
        stream = io.BytesIO()
        drawn.savefig(stream, format=shape, dpi=200, facecolor=drawn.get_facecolor(), metadata=_METADATA[shape])
    return stream.getvalue()


def _figure(scene: Scene, palette: Palette) -> Figure:
    from matplotlib.figure import Figure

    legend = list(entries(scene))
    depth = _legend_depth(legend)
    height = _TOP + _AXES_HEIGHT + _BOTTOM + depth
    sheet = Figure(figsize=(_WIDTH / 72, height / 72), dpi=72, facecolor=palette.paper)
    across = _WIDTH - _LEFT - _RIGHT
    axes = sheet.add_axes(
        (_LEFT / _WIDTH, (depth + _BOTTOM) / height, across / _WIDTH, _AXES_HEIGHT / height), facecolor=palette.paper
    )
    _axes(axes, scene, palette)
    board = Board(across, _AXES_HEIGHT)
    frame = Frame(across, _AXES_HEIGHT, scene.x, scene.y)
    _roofs(axes, scene, frame, board, palette)
    _points(axes, scene, frame, board, palette)
    _words(axes, scene, frame, board, palette)
    # Bold letters are up to a fifth wider than the metrics of plain ones say.
    title = min(_TITLE, _TITLE * across / (1.2 * _size(scene.title, _TITLE)[0] + 1))
    sheet.text(_LEFT / _WIDTH, 1 - 17 / height, scene.title, size=title, weight="bold", color=palette.ink)
    lines = wrapped(scene.subtitle, across, lambda text: _size(text, _TEXT)[0]) or [""]
    subtitle = lines[0] + (" ..." if lines[1:] else "")
    sheet.text(_LEFT / _WIDTH, 1 - 33 / height, subtitle, size=_TEXT, color=palette.soft)
    _legend(sheet, legend, height, depth, palette)
    return sheet


def _axes(axes: Axes, scene: Scene, palette: Palette) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.patch.set_gid("axes")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(*scene.x)
    axes.set_ylim(*scene.y)
    for axis, divide in ((axes.xaxis, 1.0), (axes.yaxis, scene.y_unit[0])):
        axis.set_major_locator(LogLocator(numticks=20))
        axis.set_minor_locator(LogLocator(subs=(2, 3, 4, 5, 6, 7, 8, 9), numticks=200))
        axis.set_major_formatter(FuncFormatter(lambda value, _, by=divide: f"{value / by:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.tick_params(which="both", colors=palette.soft, labelsize=_TEXT, width=0.6)
    axes.tick_params(which="minor", length=2)
    axes.grid(which="major", color=palette.grid, linewidth=0.6)
    axes.set_axisbelow(True)
    for name, spine in axes.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(palette.soft)
        spine.set_linewidth(0.6)
    axes.set_xlabel(scene.x_label, size=_TEXT, color=palette.ink)
    axes.set_ylabel(scene.y_label, size=_TEXT, color=palette.ink)


def _roofs(axes: Axes, scene: Scene, frame: Frame, board: Board, palette: Palette) -> None:
    for line in scene.lines:
        style = _line_style(line, palette)
        axes.plot([line.x0, line.x1], [line.y0, line.y1], zorder=2, **style)
        board.lines.append(_segment(frame, line))
        if line.low is not None:
            axes.fill_between(
                [line.x0, line.x1],
                [line.low] * 2,
                [line.y0] * 2,
                color=style["color"],
                alpha=0.13,
                linewidth=0,
                zorder=1,
            )
    for index, ridge in enumerate(scene.ridges):
        colour = _colour(ridge.level, ridge.variant, palette)
        x, y = ridge.ridge.intensity, ridge.ridge.flops_per_s
        axes.plot([x, x], [scene.y[0], y], color=colour, linewidth=0.7, linestyle=(0, (1, 2)), zorder=1.5,
                  gid=f"ridge-{index}")  # fmt: skip
        board.hairs.append((*frame.place(x, scene.y[0]), *frame.place(x, y)))


def _points(axes: Axes, scene: Scene, frame: Frame, board: Board, palette: Palette) -> None:
    for one, other in scene.ties:
        axes.plot(
            [one.x, other.x], [one.y, other.y], color=palette.soft, linewidth=0.6, linestyle=(0, (1, 1.5)), zorder=2.5
        )
    for track in scene.tracks:
        colour = _colour(track.marks[0].point.level, track.marks[0].variant, palette)
        style = "-" if track.marks[0].point.measured else (0, (4, 1.2))
        xs, ys = [mark.x for mark in track.marks], [mark.y for mark in track.marks]
        axes.plot(xs, ys, color=colour, linewidth=1.0, linestyle=style, alpha=0.75, zorder=3)
    seen: set[tuple[int, int]] = set()
    for mark in scene.marks:
        point, size = mark.point, _mark_size(mark.variant)
        if point.bytes_low < point.bytes_high:
            ends = [point.flops / point.bytes_high, point.flops / max(1, point.bytes_low)]
            colour = _colour(point.level, mark.variant, palette)
            axes.plot(ends, [mark.y, mark.y], color=colour, linewidth=1.6, alpha=0.45, solid_capstyle="butt", zorder=3)
        if point.above:
            axes.plot([mark.x], [mark.y], marker="o", markersize=size + 6, markerfacecolor="none",
                      markeredgecolor=palette.alarm, markeredgewidth=1.3, zorder=3.8)  # fmt: skip
        x, y = frame.place(mark.x, mark.y)
        if (round(x / 3), round(y / 3)) not in seen:  # thousands of marks on one spot are one obstacle
            seen.add((round(x / 3), round(y / 3)))
            board.shapes.append(Box(x, y, size + 2, size + 2))
    for index, marks in enumerate(_alike(scene.marks)):
        first = marks[0].point
        colour = _colour(first.level, marks[0].variant, palette)
        axes.plot([mark.x for mark in marks], [mark.y for mark in marks], marker=marker(first.algorithm)[0],
                  markersize=_mark_size(marks[0].variant), markeredgecolor=colour, markeredgewidth=1.3,
                  markerfacecolor=colour if first.measured else palette.paper, zorder=4, linestyle="none",
                  clip_on=False, gid=f"points-{index}")  # fmt: skip
    if scene.shift is not None:
        one, other = scene.shift
        axes.annotate("", (other.x, other.y), (one.x, one.y), zorder=3.5,
                      arrowprops={"arrowstyle": "-|>", "color": palette.ink, "linewidth": 1.2, "shrinkA": 6,
                                  "shrinkB": 6, "connectionstyle": "arc3,rad=0.25"})  # fmt: skip


def _alike(marks: Iterable[Mark]) -> list[list[Mark]]:
    """Marks that look the same, together."""
    groups: dict[tuple[object, ...], list[Mark]] = {}
    for mark in marks:
        point = mark.point
        groups.setdefault((mark.variant, point.algorithm, point.level, point.measured), []).append(mark)
    return list(groups.values())


def _mark_size(variant: int) -> float:
    """Smaller for the second and third GPU, format or file."""
    return _MARK - 1.4 * min(variant, 2)


def _words(axes: Axes, scene: Scene, frame: Frame, board: Board, palette: Palette) -> None:
    """Labels in the order of what must not be missing: ridges, roofs, then points."""
    for ridge in scene.ridges:
        x = frame.place(ridge.ridge.intensity, scene.y[0])[0]
        size = _size(ridge.label, _SMALL)
        rows = (3.0, 3 + size[1] + 3, 3 + 2 * size[1] + 6, 3 + 3 * size[1] + 9)
        places = [Box(x + side * (size[0] / 2 + 3), row + size[1] / 2, *size) for row in rows for side in (1, -1)]
        _put(axes, board, ridge.label, places, _SMALL, _colour(ridge.level, min(ridge.variant, 1), palette, words=True))
    for line in by_importance(scene.lines):
        size, segment = _size(line.label, _SMALL), _segment(frame, line)
        slanted = line.roof.kind == "bandwidth"
        along = labels.along_slope(segment, size, 2.5) if slanted else labels.along_flat(segment, size, 2.5)
        _put(axes, board, line.label, list(along), _SMALL, _ink(line, palette))
    for callout in scene.callouts:
        x, y = frame.place(callout.mark.x, callout.mark.y)
        colour = palette.alarm if callout.mark.point.above else palette.ink
        for text in ([f"{callout.text}: {callout.detail}"] if callout.detail else []) + [callout.text]:
            box = _put(axes, board, text, list(labels.around(x, y, _size(text, _TEXT), 5.0)), _TEXT, colour)
            if box is not None:
                _leader(axes, board, box, x, y, colour)
                break


def _put(axes: Axes, board: Board, text: str, places: list[Box], points: float, colour: str) -> Box | None:
    box = board.put(places)
    if box is not None:
        ground = {"facecolor": axes.get_facecolor(), "alpha": 0.8, "pad": 0.6, "linewidth": 0}
        axes.text(box.x / board.width, box.y / board.height, text, size=points, color=colour, rotation=box.angle,
                  ha="center", va="center", rotation_mode="anchor", transform=axes.transAxes, zorder=2.7,
                  bbox=ground)  # fmt: skip
    return box


def _leader(axes: Axes, board: Board, box: Box, x: float, y: float, colour: str) -> None:
    """A hairline from a point to words that found no place beside it."""
    end_x = min(max(x, box.x - box.width / 2), box.x + box.width / 2)
    end_y = min(max(y, box.y - box.height / 2), box.y + box.height / 2)
    if abs(end_x - x) + abs(end_y - y) > 10:
        xs, ys = [x / board.width, end_x / board.width], [y / board.height, end_y / board.height]
        axes.plot(xs, ys, color=colour, linewidth=0.5, transform=axes.transAxes, zorder=2.6)


def _legend(sheet: Figure, legend: list[Entry], height: float, depth: float, palette: Palette) -> None:
    from matplotlib.lines import Line2D

    def text(x: float, y: float, words: str, colour: str) -> None:
        sheet.text(x / _WIDTH, y / height, words, size=_SMALL, color=colour, va="center")

    def sample(x0: float, x1: float, y: float, **style: Any) -> None:
        xs = [x0 / _WIDTH, x1 / _WIDTH] if x1 > x0 else [x0 / _WIDTH]
        sheet.add_artist(Line2D(xs, [y / height] * len(xs), transform=sheet.transFigure, **style))

    y = depth - _ROW / 2
    x = _LEFT
    flowing = [entry for entry in legend if entry.kind in ("algorithm", "fill")]
    for entry in flowing:
        if entry.kind == "algorithm":
            sample(x + 4, x + 4, y, marker=marker(entry.algorithm or "")[0], markersize=_MARK, color=palette.ink,
                   markerfacecolor=palette.ink if entry.filled else palette.paper, markeredgewidth=1.2)  # fmt: skip
            x += 13
        text(x, y, entry.text, palette.ink if entry.kind == "algorithm" else palette.soft)
        x += _size(entry.text, _SMALL)[0] + 14
    y -= _ROW if flowing else 0
    for entry in legend:
        if entry.kind in ("algorithm", "fill"):
            continue
        if entry.kind == "level" and entry.level is not None:
            sample(_LEFT, _LEFT + 18, y, color=palette.levels[entry.level], linewidth=4, solid_capstyle="butt")
        elif entry.kind == "variant":
            size = _mark_size(entry.variant)
            sample(_LEFT + 9, _LEFT + 9, y, marker="o", markersize=size, color=_colour("hbm", entry.variant, palette))
        elif entry.line is not None:
            sample(_LEFT, _LEFT + 18, y, **_line_style(entry.line, palette))
        for row in _rows(entry):
            text(_LEFT + 24, y, row, palette.soft if entry.kind == "note" else palette.ink)
            y -= _ROW * (0.85 if row is not _rows(entry)[-1] else 1)


def _rows(entry: Entry) -> list[str]:
    return wrapped(entry.text, _WIDTH - _LEFT - _RIGHT - 24, lambda text: _size(text, _SMALL)[0])


def _legend_depth(legend: list[Entry]) -> float:
    rows = sum(len(_rows(entry)) for entry in legend if entry.kind not in ("algorithm", "fill"))
    return (rows + any(entry.kind == "algorithm" for entry in legend)) * _ROW + 6


def _line_style(line: RoofLine, palette: Palette) -> dict[str, Any]:
    """Colour by level, dashes by where the figure comes from: measured solid, datasheet dashed, others' dotted."""
    roof = line.roof
    if roof.level is not None:
        colour = _colour(roof.level, line.variant, palette)
    else:
        colour = mixed(palette.ink if roof.kind == "compute" else palette.soft, palette.paper, _tint(line.variant))
    dashes: Any = "-" if roof.measured else (0, (5, 1.6))
    if roof.kind == "reference":
        dashes = (0, (1, 1.8))
    width = {"bandwidth": 1.5, "compute": 1.5, "kernel": 1.1, "reference": 0.9}[roof.kind]
    return {"color": colour, "linestyle": dashes, "linewidth": width}


def _ink(line: RoofLine, palette: Palette) -> str:
    """The colour of a roof's words: its line's, but never too pale to read."""
    if line.roof.level is not None:
        return _colour(line.roof.level, line.variant, palette, words=True)
    return palette.ink if line.roof.kind == "compute" else palette.soft


def _colour(level: Level, variant: int, palette: Palette, *, words: bool = False) -> str:
    return mixed(palette.levels[level], palette.paper, min(_tint(variant), 0.2) if words else _tint(variant))


def _tint(variant: int) -> float:
    return (0.0, 0.38, 0.58, 0.7)[min(variant, 3)]


def _segment(frame: Frame, line: RoofLine) -> Segment:
    return (*frame.place(line.x0, line.y0), *frame.place(line.x1, line.y1))


@lru_cache(maxsize=4096)
def _size(text: str, points: float) -> tuple[float, float]:
    """Width and height of a line of text on paper, in points, by the font's own metrics."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family="DejaVu Sans", size=points)
    width = text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]
    return float(width), points * 1.2
