"""The terminal's picture: snapshots at three widths, with and without colour and Unicode; and what must hold in all.

Look at the pictures before accepting new ones: `UPDATE_SNAPSHOTS=1 pytest tests/roofline/test_terminal.py`, then
`less -R tests/roofline/snapshots/*`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from rooflinecli.report.plot.scene import scene
from rooflinecli.report.plot.terminal import plot
from tests.roofline.builders import standard

SNAPSHOTS = Path(__file__).parent / "snapshots"
STANDARD = standard()
ANSI = re.compile(r"\x1b\[[0-9;]*m")
MODES = {"unicode": (True, False), "colour": (True, True), "ascii": (False, False)}


def rendered(name: str, width: int, mode: str) -> str:
    unicode, colour = MODES[mode]
    return plot(scene(STANDARD[name]), width, unicode=unicode, colour=colour)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("width", [60, 80, 160])
@pytest.mark.parametrize("name", ["one", "sweep"])
def test_snapshot(name: str, width: int, mode: str) -> None:
    text = rendered(name, width, mode) + "\n"
    kept = SNAPSHOTS / f"{name}-{width}-{mode}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        kept.write_text(text, encoding="utf-8")
    assert text == kept.read_text(encoding="utf-8")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("width", [30, 60, 80, 160])
@pytest.mark.parametrize("name", STANDARD)
def test_no_line_is_wider_than_the_terminal(name: str, width: int, mode: str) -> None:
    lines = ANSI.sub("", rendered(name, width, mode)).split("\n")
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("name", STANDARD)
def test_ascii_is_ascii_and_colour_only_adds_colour(name: str) -> None:
    assert rendered(name, 100, "ascii").isascii()
    assert "\x1b" not in rendered(name, 100, "unicode")
    assert "\x1b[" in rendered(name, 100, "colour")


@pytest.mark.parametrize("mode", ["unicode", "ascii"])
def test_without_colour_every_mark_names_its_level(mode: str) -> None:
    # GIVEN two kernels at three levels, none of them on top of another one's cell
    text = rendered("measured", 160, mode)
    marks = re.findall(r"[○●2]([hst])", text) if mode == "unicode" else re.findall(r"2([hst])", text)
    assert set(marks) == {"h", "s", "t"}


@pytest.mark.parametrize("width", [60, 80, 160])
@pytest.mark.parametrize("name", ["one", "two", "textbook"])
def test_every_point_is_on_the_picture(name: str, width: int) -> None:
    shown = scene(STANDARD[name])
    picture = rendered(name, width, "colour")
    drawn = sum(picture.count(glyph) for glyph in "□○")
    legend = len(shown.chart.algorithms)
    cells = len({(mark.x, mark.y) for mark in shown.marks})
    assert 0 < drawn - legend <= cells
    for value in {f"{ridge.intensity:.4g}" for ridge in shown.chart.ridges}:
        assert value in picture


def test_sources_and_reasons_are_said() -> None:
    text = " ".join(rendered("one", 80, "ascii").split())
    assert "measured with a copy kernel" in text
    assert "datasheet, page 3" in text
    assert "Not drawn: softmax on the FP32 vector unit" in text
