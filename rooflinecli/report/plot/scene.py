"""Where everything of a chart goes, before a medium is chosen: ranges, lines, marks, paths, and all words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rooflinecli.report.plot.chart import LEVELS, Chart, Level, Point, Ridge, Roof
from rooflinecli.report.roofline import ceiling_label, spread
from rooflinecli.sweep import COUNTS, count_label
from rooflinecli.units import format_rate

# A unit that would only bind this many times above the peak is named, not drawn: it would flatten the picture.
_FAR_ABOVE = 2.5
# More kernels than this are not called by name beside their points.
_CALLED_OUT = 12
# What each level's bytes and FLOPs are, for whoever reads the picture without the manual.
LEVEL_WORDS: dict[Level, str] = {
    "hbm": "HBM: executed FLOP per byte behind the L2",
    "sm": "SM boundary: executed FLOP per byte, under the L2 slope",
    "textbook": "textbook: useful + softmax FLOP per SM-boundary byte, under the HBM slope",
}


@dataclass(frozen=True, slots=True)
class RoofLine:
    """A roof as it is drawn, from (x0, y0) to (x1, y1); `low` is the lower edge of a band where it differs."""

    roof: Roof
    x0: float
    y0: float
    x1: float
    y1: float
    label: str
    variant: int
    low: float | None = None


@dataclass(frozen=True, slots=True)
class RidgeMark:
    """A ridge as it is drawn."""

    ridge: Ridge
    level: Level
    label: str
    variant: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A point as it is drawn. `variant` counts the GPUs, formats and files that are told apart by tint and size."""

    point: Point
    variant: int
    name: str

    @property
    def x(self) -> float:
        """Intensity."""
        return self.point.intensity

    @property
    def y(self) -> float:
        """FLOP/s."""
        return self.point.flops_per_s


@dataclass(frozen=True, slots=True)
class Track:
    """The path of one algorithm at one level as a swept count grows."""

    marks: tuple[Mark, ...]
    option: str


@dataclass(frozen=True, slots=True)
class Callout:
    """Words at a point; `detail` is said where there is room for it."""

    mark: Mark
    text: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Scene:
    """A whole picture. `y_unit` divides FLOP/s for the axis. `ties` join one kernel's levels at equal height."""

    chart: Chart
    title: str
    subtitle: str
    x: tuple[float, float]
    y: tuple[float, float]
    y_unit: tuple[float, str]
    lines: tuple[RoofLine, ...]
    ridges: tuple[RidgeMark, ...]
    marks: tuple[Mark, ...]
    tracks: tuple[Track, ...]
    ties: tuple[tuple[Mark, Mark], ...]
    shift: tuple[Mark, Mark] | None
    callouts: tuple[Callout, ...]
    variants: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def x_label(self) -> str:
        """What the horizontal axis is."""
        return "arithmetic intensity (FLOP per byte moved at the level of the colour)"

    @property
    def y_label(self) -> str:
        """What the vertical axis is."""
        return f"performance ({self.y_unit[1]})"


def scene(chart: Chart) -> Scene:
    """The picture of `chart`."""
    variants = _variants(chart)
    marks = tuple(Mark(point, _variant(point, variants), _name(point)) for point in chart.points)
    drawn, far = _drawable(chart.roofs)
    x, y = _ranges(chart, drawn)
    ridges = tuple(_ridge_marks(chart, variants))
    tracks = tuple(_tracks(chart, marks))
    return Scene(
        chart=chart,
        title=_heading(chart),
        subtitle=chart.title,
        x=x,
        y=y,
        y_unit=(1e12, "TFLOP/s") if y[1] >= 1e11 else (1e9, "GFLOP/s"),
        lines=tuple(_lines(drawn, x, y, variants, chart)),
        ridges=ridges,
        marks=marks,
        tracks=tracks,
        ties=() if tracks else tuple(_ties(marks)),
        shift=_shift(chart, marks),
        callouts=tuple(_callouts(marks, tracks, list(variants.values()))),
        variants=tuple(variants.values()) if len(variants) > 1 else (),
        notes=tuple(_notes(chart, marks, far)),
    )


def _heading(chart: Chart) -> str:
    names = list(chart.gpus.values())
    if len(names) > 1:
        names = [short_name(chart, gpu) for gpu in chart.gpus]
    return f"Roofline of {' and '.join(names) if len(names) < 4 else f'{len(names)} GPUs'}"


def _key(run: str | None, gpu: str, dtype: str | None) -> tuple[str | None, str, str | None]:
    return run, gpu, dtype


def _variants(chart: Chart) -> dict[tuple[str | None, str, str | None], str]:
    """What tells points of one algorithm at one level apart, in words: only the parts that differ."""
    keys = dict.fromkeys(_key(point.run, point.gpu, point.dtype) for point in chart.points)
    if not keys:
        keys = dict.fromkeys(_key(roof.run, roof.gpu, None) for roof in chart.roofs)
    differ = [len({key[place] for key in keys}) > 1 for place in range(3)]

    def words(run: str | None, gpu: str, dtype: str | None) -> str:
        said = [run or "", short_name(chart, gpu), dtype or ""]
        return ", ".join(word for word, differs in zip(said, differ, strict=True) if differs and word)

    return {key: words(*key) for key in keys}


def _variant(point: Point, variants: dict[tuple[str | None, str, str | None], str]) -> int:
    return list(variants).index(_key(point.run, point.gpu, point.dtype))


def _variant_of_roof(roof: Roof | Ridge, variants: dict[tuple[str | None, str, str | None], str]) -> int:
    """The first variant that a roof is over; a roof that several share has the colour of the first."""
    for index, (run, gpu, dtype) in enumerate(variants):
        same_format = roof.dtype in (None, dtype) or dtype is None
        if gpu == roof.gpu and roof.run in (None, run) and same_format:
            return index
    return 0


def _name(point: Point) -> str:
    return point.kernel or point.algorithm


def _drawable(roofs: Sequence[Roof]) -> tuple[list[Roof], list[Roof]]:
    """Roofs to draw, and unit roofs too far above the peak to draw. One on top of the peak's own line is neither."""
    drawn, far = [], []
    for roof in roofs:
        peaks = [each for each in roofs if each.kind == "compute" and (each.gpu, each.run) == (roof.gpu, roof.run)]
        peak = max((each.rate for each in peaks), default=None)
        if roof.kind == "kernel" and roof.low is not None:
            if peak is not None and roof.low > _FAR_ABOVE * peak:
                far.append(roof)
                continue
            if any(each.id == roof.id for each in peaks):
                continue
        drawn.append(roof)
    return drawn, far


def _ranges(chart: Chart, roofs: Sequence[Roof]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Axes that hold every point and every ridge, with room for the words on the lines."""
    flats = [roof.at(1.0) for roof in roofs if roof.kind != "bandwidth"]
    ridge_x = [ridge.intensity for ridge in chart.ridges]
    spans = [
        point.flops / moved
        for point in chart.points
        for moved in (point.bytes, point.bytes_low, point.bytes_high)
        if moved > 0
    ]
    xs = [*ridge_x, *spans] or [1.0]
    ys = [*flats, *(point.flops_per_s for point in chart.points)] or [1e12]
    x_low, x_high = min(xs) / 4, max(xs) * 4
    if ridge_x:
        x_low, x_high = min(x_low, min(ridge_x) / 25), max(x_high, max(ridge_x) * 12)
    y_low, y_high = min(ys) / 4, max(ys) * 2.2
    y_low = min(y_low, y_high / 300)
    return (x_low, x_high), (y_low, y_high)


def _lines(
    roofs: Sequence[Roof],
    x: tuple[float, float],
    y: tuple[float, float],
    variants: dict[tuple[str | None, str, str | None], str],
    chart: Chart,
) -> Iterable[RoofLine]:
    several = len({(roof.gpu, roof.run) for roof in roofs}) > 1
    for roof in roofs:
        here = [
            each for each in roofs if each.gpu == roof.gpu and (each.run == roof.run or None in (each.run, roof.run))
        ]
        steepest = max((each.rate for each in here if each.kind == "bandwidth"), default=None)
        top = max((each.at(1.0) for each in here if each.kind in ("compute", "kernel")), default=y[1])
        label = roof_label(roof, owner=_owner(roof, chart) if several else "")
        variant = _variant_of_roof(roof, variants)
        if roof.kind == "bandwidth":
            start, end = max(x[0], y[0] / roof.rate), min(x[1], top / roof.rate)
            if start < end:
                yield RoofLine(roof, start, start * roof.rate, end, end * roof.rate, label, variant)
            continue
        height = roof.at(1.0)
        start = x[0] if steepest is None else min(max(x[0], height / steepest), x[1])
        low = roof.low if roof.low is not None and roof.low < height * 0.97 else None
        yield RoofLine(roof, start, height, x[1], height, label, variant, low)


def _owner(roof: Roof, chart: Chart) -> str:
    name = roof.run if roof.run and len(chart.gpus) == 1 else short_name(chart, roof.gpu)
    return name if not roof.run or name == roof.run else f"{name}, {roof.run}"


def short_name(chart: Chart, gpu: str) -> str:
    """A GPU's name without its maker."""
    return chart.gpus.get(gpu, gpu).removeprefix("NVIDIA ").removeprefix("AMD ")


def roof_label(roof: Roof, owner: str = "") -> str:
    """What stands on a roof's line."""
    rate = format_rate(roof.rate, roof.unit)
    if roof.kind == "kernel":
        here = spread(roof.low or roof.rate, roof.high or roof.rate)
        what = "softmax on the FP32 vector unit" if roof.id == "fp32_vector" else f"{roof.label}, {rate}"
        text = f"{what}: {here} here"
    elif roof.kind == "reference":
        text = f"{roof.label} {rate} (not used here)"
    elif roof.level == "sm":
        text = f"{roof.label} {rate} (SM bytes)"
    else:
        text = f"{roof.label} {rate}"
    return f"{text}, {owner}" if owner else text


def _ridge_marks(chart: Chart, variants: dict[tuple[str | None, str, str | None], str]) -> Iterable[RidgeMark]:
    levels = {roof.id: roof.level for roof in chart.roofs if roof.kind == "bandwidth"}
    for ridge in chart.ridges:
        level = levels.get(ridge.bandwidth)
        if level is not None:
            variant = _variant_of_roof(ridge, variants)
            yield RidgeMark(ridge, level, f"ridge {ridge.intensity:.4g}", variant)


def _tracks(chart: Chart, marks: Sequence[Mark]) -> Iterable[Track]:
    """Marks that differ in nothing but the first swept count, joined in its order."""
    option = next((name for name in chart.swept if name in COUNTS), None)
    if option is None:
        return
    groups: dict[tuple[object, ...], list[Mark]] = {}
    for mark in marks:
        point = mark.point
        rest = tuple(sorted((name, str(value)) for name, value in point.at.items() if name != option))
        if option in point.at:
            key = (point.run, point.gpu, point.dtype, mark.name, point.level, point.measured, rest)
            groups.setdefault(key, []).append(mark)
    for group in groups.values():
        if len(group) > 1:
            yield Track(tuple(sorted(group, key=lambda mark: mark.point.at[option])), option)


def kernel_key(mark: Mark) -> tuple[object, ...]:
    """What all marks of one kernel, at whatever level, have in common."""
    point = mark.point
    return (
        point.run, point.gpu, point.dtype, mark.name, point.measured, point.tile,
        tuple(sorted((name, str(value)) for name, value in point.workload.items())),
    )  # fmt: skip


def _ties(marks: Sequence[Mark]) -> Iterable[tuple[Mark, Mark]]:
    """Per kernel, its leftmost and rightmost mark of those at equal height."""
    groups: dict[tuple[object, ...], list[Mark]] = {}
    for mark in marks:
        if mark.point.level != "textbook":
            groups.setdefault(kernel_key(mark), []).append(mark)
    for group in groups.values():
        first, last = min(group, key=lambda mark: mark.x), max(group, key=lambda mark: mark.x)
        if first.x < last.x and math.isclose(first.y, last.y, rel_tol=1e-6):
            yield first, last


def _shift(chart: Chart, marks: Sequence[Mark]) -> tuple[Mark, Mark] | None:
    """In a plain textbook picture, the way from naive to its tiled successor: up the slope."""
    if chart.levels != ("textbook",) or chart.swept or len(marks) != 2:
        return None
    by_name = {mark.point.algorithm: mark for mark in marks}
    one, other = by_name.get("naive"), by_name.get("flash2") or by_name.get("flash1")
    if one is None or other is None or one.point.workload != other.point.workload:
        return None
    return one, other


def _callouts(marks: Sequence[Mark], tracks: Sequence[Track], variants: Sequence[str]) -> Iterable[Callout]:
    if tracks:
        levels = [level for level in LEVELS if any(track.marks[0].point.level == level for track in tracks)]
        for track in tracks:
            if track.marks[0].point.level == levels[0]:
                for mark in (track.marks[0], track.marks[-1]):
                    at = f"{track.option}={count_label(mark.point.at[track.option])}"
                    yield Callout(mark, _said(mark, variants), at)
        return
    groups: dict[tuple[object, ...], list[Mark]] = {}
    for mark in marks:
        groups.setdefault((*kernel_key(mark), mark.point.level == "textbook"), []).append(mark)
    several = len({mark.point.level for mark in marks}) > 1
    if len(groups) > _CALLED_OUT:
        return
    for group in groups.values():
        mark = max(group, key=lambda each: each.x)
        point = mark.point
        if several and len(variants) > 1 and point.level == "textbook":
            continue  # many machines: the colour says it
        over = ", above a roof" if point.above else ""
        book = " (textbook)" if several and point.level == "textbook" else ""
        rate = format_rate(point.flops_per_s, "FLOP/s")
        detail = f"{point.intensity:.4g} FLOP/B, {rate}" if len(group) == 1 else rate
        if not several:
            detail += f", {point.flops_per_s / max(point.limits.values()):.1%} of the peak" if _has_peak(point) else ""
        yield Callout(mark, f"{_said(mark, variants)}{book}{over}", "" if len(groups) > 6 else detail)


def _has_peak(point: Point) -> bool:
    """Whether the highest of a textbook point's two limits is its matrix peak."""
    return point.level == "textbook" and max(point.limits, key=lambda name: point.limits[name]) != "hbm"


def _said(mark: Mark, variants: Sequence[str]) -> str:
    """A mark in words: the kernel, the layers of a model it is of, whether it was measured, and its variant."""
    kind = " measured" if mark.point.measured else ""
    layer = f", {mark.point.at['layer']}" if "layer" in mark.point.at else ""
    return f"{mark.name}{kind}{layer}" + (f", {variants[mark.variant]}" if len(variants) > 1 else "")


def _notes(chart: Chart, marks: Sequence[Mark], far: Sequence[Roof]) -> Iterable[str]:
    for roof in far:
        yield (
            f"Not drawn: {roof_label(roof, chart.gpus.get(roof.gpu, roof.gpu) if len(chart.gpus) > 1 else '')}, "
            f"more than {_FAR_ABOVE:g} times the peak."
        )
    yield from dict.fromkeys(_over(chart, mark) for mark in marks if mark.point.above)
    slopes = {(roof.gpu, roof.level) for roof in chart.roofs if roof.kind == "bandwidth"}
    for gpu in chart.gpus:
        if any(m.point.gpu == gpu and m.point.level == "sm" for m in marks) and (gpu, "sm") not in slopes:
            yield f"No slope for the SM boundary: the profile of {gpu} does not know its L2 bandwidth."
    for lost in chart.undrawable:
        who = f" ({lost.gpu})" if lost.gpu and len(chart.gpus) > 1 else ""
        yield f"Not drawn: {lost.what}{who}: {lost.reason}."
    yield from chart.notes


def _over(chart: Chart, mark: Mark) -> str:
    """Why a point is flagged; the same words for the levels of one kernel, whose height is one."""
    point = mark.point
    at = "".join(f" {name}={count_label(value)}" for name, value in point.at.items())
    if point.level == "textbook":
        return (
            f"Above a roof: {mark.name}{at} is over the textbook's, which charges to HBM what the L2 serves"
            if "hbm" in point.above and len(point.above) == 1
            else f"Above a roof: {mark.name}{at} is over every roof of the textbook"
        ) + "."
    names = ", ".join(ceiling_label(chart, point, name) for name in point.above)
    return f"Above a roof: {mark.name}{at} is over {names}: a figure of the GPU, a count or a time is wrong."


def by_importance(lines: Iterable[RoofLine]) -> list[RoofLine]:
    """Lines in the order their labels are placed: peaks, then slopes from the steepest, then units, then references."""
    order = ("compute", "bandwidth", "kernel", "reference")
    return sorted(lines, key=lambda line: (order.index(line.roof.kind), -line.roof.rate))
