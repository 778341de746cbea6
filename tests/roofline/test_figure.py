"""The figure: the same bytes every time, everything inside the axes, no words over each other."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from rooflinecli.report.plot.build import chart
from rooflinecli.report.plot.chart import Chart
from rooflinecli.report.plot.figure import figure
from rooflinecli.report.plot.scene import Scene, scene
from tests.roofline.builders import A100, H100, flash, kernel, machine, naive, standard
from tests.roofline.svg import Drawing, overlap, parse

ROOT = Path(__file__).parents[2]
STANDARD = standard()


def traps() -> dict[str, Chart]:
    far = machine("x", "X", {"fp16_tensor": 300e12, "hbm": 1e11, "l2": 1e12})
    near = machine("y", "Y", {"fp16_tensor": 1e11, "hbm": 1e12})
    least = 4 * 8192 * 8192 * 64 / 989.4e12
    return {
        "all compute-bound": chart("", [A100], [flash(A100, n) for n in (16384, 65536)]),
        "one point": chart("", [A100], [naive(A100, 1024, textbook_only=True)]),
        "no point": chart("", [A100], []),
        "zero FLOP": chart("", [A100], [kernel(A100, "naive", 0, sm=1, hbm=1), flash(A100, 1024)]),
        "only zero FLOP": chart("", [A100], [kernel(A100, "naive", 0, sm=1, hbm=1)]),
        "above the roof": chart("", [H100], [flash(H100, 8192, seconds=least / 30)]),
        "ridge at 3000": chart("", [far], [naive(far, 1024)]),
        "ridge at 0.1": chart("", [near], [naive(near, 1024)]),
        "both ridges": chart("", [far, near], [naive(far, 1024), naive(near, 1024)]),
        "tiny": chart("", [A100], [kernel(A100, "flash2", 1024, sm=10**15, hbm=10**15)]),
        "long names": chart("A title " * 40, [replace(A100, name="A very long name " * 5), H100], [naive(A100, 1024)]),
        "every peak": chart(
            "",
            [
                replace(
                    A100,
                    others=tuple(
                        replace(
                            A100.ceilings["fp16_tensor"],
                            id=f"x{step}_tensor",
                            label=f"x{step} tensor dense",
                            rate=312e12 * step,
                        )
                        for step in (0.1, 0.25, 0.5, 2, 4)
                    ),
                )
            ],
            [naive(A100, 1024)],
        ),
        "many": chart("", [A100], [naive(A100, 256 + n, name=f"kernel {n}") for n in range(0, 2000, 40)]),
    }


EVERY = {**STANDARD, **traps()}


@cache
def drawing_of(name: str) -> tuple[Scene, Drawing]:
    shown = scene(EVERY[name])
    return shown, parse(figure(shown, "svg"))


@pytest.mark.parametrize("name", EVERY)
def test_every_point_and_ridge_is_inside_the_axes(name: str) -> None:
    shown, drawing = drawing_of(name)
    assert len(drawing.points) == len(shown.marks)
    assert all(drawing.inside(x, y) for x, y in drawing.points)
    left, _, right, _ = drawing.axes
    assert len(drawing.ridges) == len(shown.chart.ridges)
    assert all(left < x < right for x in drawing.ridges)


@pytest.mark.parametrize("name", EVERY)
def test_points_lie_where_their_numbers_say(name: str) -> None:
    # An own reading of the logarithmic axes, from their limits alone.
    shown, drawing = drawing_of(name)
    left, top, right, bottom = drawing.axes
    for mark in shown.marks:
        x = left + (right - left) * math.log(mark.point.intensity / shown.x[0], shown.x[1] / shown.x[0])
        y = bottom - (bottom - top) * math.log(mark.point.flops_per_s / shown.y[0], shown.y[1] / shown.y[0])
        assert min(math.dist((x, y), place) for place in drawing.points) < 0.05


@pytest.mark.parametrize("name", EVERY)
def test_no_words_overlap_and_none_leave_the_page(name: str) -> None:
    _, drawing = drawing_of(name)
    for one, other in itertools.combinations(drawing.words, 2):
        assert not overlap(one.corners, other.corners), (one.text, other.text)
    width, height = drawing.page
    for words in drawing.words:
        assert all(0 <= x <= width and 0 <= y <= height for x, y in words.corners), words.text


@pytest.mark.parametrize("name", ["one", "textbook", "two", "sweep", "measured"])
def test_what_must_be_said_is_said(name: str) -> None:
    shown, drawing = drawing_of(name)
    inside = {words.text for words in drawing.in_axes()}
    # Every roof is labelled on its line, every ridge with its value,
    assert {line.label for line in shown.lines} <= inside
    assert {f"ridge {ridge.intensity:.4g}" for ridge in shown.chart.ridges} <= inside
    # and the legend has every source, shape and colour's meaning.
    everything = " ".join(words.text for words in drawing.words)
    for part in ("datasheet, page 3", "dashed", *shown.chart.algorithms, "FLOP per byte", "TFLOP/s"):
        assert part in everything
    assert ("measured with a copy kernel" in everything) == (name != "textbook")


def test_bandwidth_labels_lie_along_their_slopes() -> None:
    shown, drawing = drawing_of("one")
    [label] = [words for words in drawing.words if words.text.startswith("HBM bandwidth") and "TB/s" in words.text
               and words in drawing.in_axes()]  # fmt: skip
    (x0, y0), (x1, y1) = label.corners[0], label.corners[1]
    left, top, right, bottom = drawing.axes
    decades = math.log10(shown.x[1] / shown.x[0]), math.log10(shown.y[1] / shown.y[0])
    slope = math.atan2((bottom - top) / decades[1], (right - left) / decades[0])
    assert math.atan2(y0 - y1, x1 - x0) == pytest.approx(slope, abs=1e-3)


def test_points_above_a_roof_are_flagged_in_words() -> None:
    _, drawing = drawing_of("above the roof")
    text = " ".join(words.text for words in drawing.words)
    assert "Above a roof: flash2 is over fp16 tensor dense, exponentials" in text


def test_what_is_not_drawn_is_said_with_the_reason() -> None:
    text = " ".join(words.text for words in drawing_of("zero FLOP")[1].words)
    assert "Not drawn: naive at level hbm: 0 FLOP" in text


@pytest.mark.parametrize("shape", ["svg", "pdf", "png"])
def test_two_runs_write_the_same_bytes(shape: str, tmp_path: Path) -> None:
    # In two processes, with different hash seeds: nothing may depend on the order of a set or on the clock.
    code = (
        "import sys; from tests.roofline.builders import standard; from rooflinecli.report.plot.scene import scene;"
        "from rooflinecli.report.plot.figure import figure;"
        f"sys.stdout.buffer.write(figure(scene(standard()['two']), '{shape}'))"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=ROOT,
                       env={"PYTHONHASHSEED": seed, "MPLCONFIGDIR": str(tmp_path)}).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert runs[0] == runs[1]
    assert runs[0].startswith({"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}[shape])


def test_level_colours_differ_in_grey_and_from_the_paper() -> None:
    from rooflinecli.report.plot.style import PALETTES

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    def contrast(one: str, other: str) -> float:
        high, low = sorted((luminance(one), luminance(other)), reverse=True)
        return (high + 0.05) / (low + 0.05)

    for palette in PALETTES.values():
        assert contrast(palette.ink, palette.paper) >= 7
        assert contrast(palette.soft, palette.paper) >= 4.5
        for colour in palette.levels.values():
            assert contrast(colour, palette.paper) >= 3
    for one, other in itertools.combinations(PALETTES["light"].levels.values(), 2):
        assert contrast(one, other) >= 1.5


def test_the_dark_figure_is_dark() -> None:
    assert b"#14171c" in figure(scene(STANDARD["one"]), "svg", "dark")
    assert b"#14171c" not in figure(scene(STANDARD["one"]), "svg", "light")


def test_the_scene_keeps_the_trajectory_in_order() -> None:
    shown: Scene = scene(STANDARD["sweep"])
    assert len(shown.tracks) == 6
    for track in shown.tracks:
        values = [mark.point.at["N"] for mark in track.marks]
        assert values == sorted(values)
        assert len(values) == 10
