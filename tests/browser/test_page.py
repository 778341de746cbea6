"""The page in a real browser: quiet, self-contained, right when hovered, switched, zoomed and downloaded."""

from __future__ import annotations

import itertools
import math
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rooflinecli.report.plot.build import chart
from rooflinecli.report.plot.chart import Chart
from rooflinecli.report.plot.read import chart_from_text
from rooflinecli.report.plot.style import PALETTES
from tests.browser.conftest import Tab
from tests.roofline.builders import H100, flash, machine, standard

pytestmark = pytest.mark.browser
STANDARD = standard()

# Where the marks are on the screen, of traces that are shown.
MARKS = """
const out = [];
for (const group of document.querySelectorAll('#plot .scatterlayer .trace')) {
  for (const path of group.querySelectorAll('.points path')) {
    const box = path.getBoundingClientRect();
    out.push({x: box.x + box.width / 2, y: box.y + box.height / 2, w: box.width, o: Number(path.style.opacity || 1)});
  }
}
return out;
"""
# The rectangle of the axes on the screen.
AXES = """
const p = document.getElementById('plot'), box = p.getBoundingClientRect(), size = p._fullLayout._size;
return {left: box.x + size.l, top: box.y + size.t, right: box.x + size.l + size.w, bottom: box.y + size.t + size.h};
"""
# The corners of every word on the picture, turned words too.
WORDS = """
return [...document.querySelectorAll('#plot .annotation-text')].map((node) => {
  const box = node.getBBox(), m = node.getScreenCTM();
  const at = (x, y) => [m.a * x + m.c * y + m.e, m.b * x + m.d * y + m.f];
  return {text: node.textContent, corners: [at(box.x, box.y), at(box.x + box.width, box.y),
          at(box.x + box.width, box.y + box.height), at(box.x, box.y + box.height)]};
});
"""


def where(tab: Tab, intensity: float, flops_per_s: float) -> tuple[float, float]:
    """Where a point must be on the screen, by the axes' own ranges."""
    ranges = tab.run("const l = document.getElementById('plot')._fullLayout; return [l.xaxis.range, l.yaxis.range]")
    axes = tab.run(AXES)
    share = (math.log10(intensity) - ranges[0][0]) / (ranges[0][1] - ranges[0][0])
    up = (math.log10(flops_per_s / 1e12) - ranges[1][0]) / (ranges[1][1] - ranges[1][0])
    return axes["left"] + share * (axes["right"] - axes["left"]), axes["bottom"] - up * (axes["bottom"] - axes["top"])


def hover(tab: Tab, x: float, y: float) -> str:
    for dx in (3, 0):  # a browser reports movement, not presence
        event = {"type": "mouseMoved", "x": x + dx, "y": y}
        tab.driver.execute_cdp_cmd("Input.dispatchMouseEvent", event)
    return str(tab.until("return document.querySelector('#plot .hoverlayer .hovertext')?.textContent", "hover text"))


def near(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return abs(one[0] - other[0]) < 1.5 and abs(one[1] - other[1]) < 1.5


@pytest.mark.parametrize("width", [375, 1600])
@pytest.mark.parametrize(("name", "scheme"), [("one", "light"), ("one", "dark"), ("two", "light"), ("sweep", "dark")])
def test_it_fits_and_stays_quiet(tab: Tab, tmp_path: Path, name: str, width: int, scheme: str) -> None:
    # GIVEN a screen of this width, in this colour scheme
    tab.view(width, 900, scheme)
    # WHEN the page is opened
    tab.show(STANDARD[name], tmp_path)
    # THEN nothing complains, and nobody else is asked for anything
    assert tab.errors() == []
    assert {address.split(":")[0] for address in tab.requests()} <= {"file", "data", "blob"}
    # nothing sticks out to the side, and the paper has the scheme's colour
    assert tab.run("return document.documentElement.scrollWidth") <= width
    paper = PALETTES[scheme].paper  # type: ignore[index]
    rgb = f"rgb({', '.join(str(int(paper[at : at + 2], 16)) for at in (1, 3, 5))})"
    assert tab.run("return getComputedStyle(document.body).backgroundColor") == rgb
    assert tab.run("return document.getElementById('plot')._fullLayout.paper_bgcolor") == paper
    # every point is where its numbers say, inside the axes
    marks = [(mark["x"], mark["y"]) for mark in tab.run(MARKS)]
    assert len(marks) == len(STANDARD[name].points)
    axes = tab.run(AXES)
    for point in STANDARD[name].points:
        place = where(tab, point.intensity, point.flops_per_s)
        assert any(near(place, mark) for mark in marks)
        assert axes["left"] < place[0] < axes["right"]
        assert axes["top"] < place[1] < axes["bottom"]
    # and no words run into each other or off the axes.
    words = tab.run(WORDS)
    assert len(words) >= len(STANDARD[name].ridges)
    for one, other in itertools.combinations(words, 2):
        assert not overlap(one["corners"], other["corners"]), (one["text"], other["text"])


def overlap(one: list[list[float]], other: list[list[float]]) -> bool:
    from tests.roofline.svg import overlap as shapes_overlap

    return shapes_overlap([(x, y) for x, y in one], [(x, y) for x, y in other])


def test_hovering_says_what_the_point_is(tab: Tab, tmp_path: Path) -> None:
    tab.view(1600, 1000, "light")
    tab.show(STANDARD["measured"], tmp_path)
    [point] = [p for p in STANDARD["measured"].points if p.measured and p.level == "hbm"]
    text = hover(tab, *where(tab, point.intensity, point.flops_per_s))
    # By hand: 4 * 8192^2 * 64 = 17.18 GFLOP in 27.5 us is 624.7 TFLOP/s; four tensors of 8192 * 64 * 2 B are 4.19 MB:
    # 4096 FLOP a byte. At the SM boundary 126 FLOP/B times the L2's 5.6 TB/s allow 705.8.
    for part in (
        "flash_forward", "measured 624.7 TFLOP/s", "attainable 705.8 TFLOP/s", "share of roof 88.5%", "level HBM",
        "bound by L2 bandwidth", "time 27.5 us", "intensity 4096 FLOP/B", "H100 SXM",
    ):  # fmt: skip
        assert part in text


def test_levels_algorithms_and_reset(tab: Tab, tmp_path: Path) -> None:
    tab.view(1600, 1000, "light")
    tab.show(STANDARD["one"], tmp_path)
    assert len(tab.run(MARKS)) == 6
    # WHEN a level is switched off THEN its points and its slope go, and come back
    tab.tick("level", "sm")
    assert len(tab.run(MARKS)) == 4
    assert not any("L2 bandwidth" in words["text"] for words in tab.run(WORDS))
    tab.tick("level", "sm")
    assert len(tab.run(MARKS)) == 6
    # WHEN an algorithm is switched off THEN only the other one is left
    tab.tick("algorithm", "naive")
    assert len(tab.run(MARKS)) == 3
    # The HBM slope serves two levels: it goes with the second.
    tab.tick("level", "hbm")
    assert any("HBM bandwidth" in words["text"] for words in tab.run(WORDS))
    tab.tick("level", "textbook")
    assert not any("HBM bandwidth" in words["text"] for words in tab.run(WORDS))
    assert tab.errors() == []


def test_formats_and_gpus(tab: Tab, tmp_path: Path) -> None:
    eight = machine("h100", "H100 SXM", {"fp8_tensor": 1978.9e12, "hbm": 3350e9})
    half = replace(flash(H100, 8192), dtype="fp8_e4m3", limits={"fp8_tensor": 1e-5, "hbm": 1e-6})
    tab.view(1600, 1000, "light")
    tab.show(chart("Two formats", [H100, eight], [flash(H100, 8192), half]), tmp_path)
    assert len(tab.run(MARKS)) == 6
    tab.tick("dtype", "fp8_e4m3")
    assert len(tab.run(MARKS)) == 3
    words = " ".join(each["text"] for each in tab.run(WORDS))
    assert "fp16 tensor dense" in words
    assert "fp8 tensor dense" not in words
    tab.show(STANDARD["two"], tmp_path)
    tab.tick("gpu", "h100")
    assert len(tab.run(MARKS)) == 6
    assert not any("3.35 TB/s" in each["text"] for each in tab.run(WORDS))


def test_isolating_a_kernel_fades_the_others(tab: Tab, tmp_path: Path) -> None:
    tab.view(1600, 1000, "light")
    tab.show(STANDARD["one"], tmp_path)
    tab.run("const s = document.getElementById('isolate'); s.value = '1'; s.dispatchEvent(new Event('change'))")
    tab.settle()
    faint = [mark for mark in tab.run(MARKS) if mark["o"] < 0.5]
    assert len(faint) == 3
    # WHEN one of the faint ones is clicked THEN it is the one that stays
    for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
        event = {"type": kind, "x": faint[0]["x"], "y": faint[0]["y"], "button": "left", "clickCount": 1}
        tab.driver.execute_cdp_cmd("Input.dispatchMouseEvent", event)
    tab.until("return document.getElementById('isolate').value === '0'", "the click to isolate")
    tab.click("reset")
    tab.settle()
    assert all(mark["o"] == 1 for mark in tab.run(MARKS))


def test_slope_labels_follow_a_zoom(tab: Tab, tmp_path: Path) -> None:
    tab.view(1600, 1000, "light")
    tab.show(STANDARD["one"], tmp_path)
    ranges = "{'xaxis.range': [1, 2], 'yaxis.range': [0, 3]}"
    tab.run(f"return Plotly.relayout(document.getElementById('plot'), {ranges}).then(() => true)")
    axes = tab.run(AXES)
    across, up = axes["right"] - axes["left"], (axes["bottom"] - axes["top"]) / 3
    angle = -math.degrees(math.atan2(up, across))
    tab.until(
        "return document.getElementById('plot')._fullLayout.annotations.some((a) => a.text.startsWith('HBM bandwidth')"
        f" && Math.abs(a.textangle - ({angle})) < 0.5)",
        "the label to turn",
    )


@pytest.mark.parametrize("width", [375, 1600])
def test_downloads(tab: Tab, tmp_path: Path, width: int) -> None:
    tab.view(width, 900, "light")
    tab.show(STANDARD["one"], tmp_path)
    for name in ("png", "svg", "json", "csv"):
        tab.click(name)
    assert tab.downloaded("roofline.png").startswith(b"\x89PNG")
    picture = ET.fromstring(tab.downloaded("roofline.svg"))
    said = " ".join("".join(node.itertext()) for node in picture.iter("{http://www.w3.org/2000/svg}text"))
    assert "Roofline of A100 40GB" in said
    assert "ridge 200.6" in said or "200.6" in said
    # The data are what was drawn, and can be drawn again.
    for name in ("roofline.json", "roofline.csv"):
        assert chart_from_text(tab.downloaded(name).decode()).points == STANDARD["one"].points
    assert tab.errors() == []


def test_the_theme_button(tab: Tab, tmp_path: Path) -> None:
    tab.view(1600, 1000, "light")
    tab.show(STANDARD["one"], tmp_path)
    tab.click("theme")
    tab.settle()
    assert tab.run("return document.getElementById('plot')._fullLayout.paper_bgcolor") == PALETTES["dark"].paper
    assert tab.run("return document.getElementById('theme').textContent") == "Light"


def test_names_are_text_and_never_markup(tab: Tab, tmp_path: Path) -> None:
    evil = "</script><script>window.hurt = 1</script><img src=x onerror='window.hurt = 1'>&amp;"
    drawn: Chart = STANDARD["one"]
    drawn = replace(drawn, title=evil, gpus={"a100": evil},
                    roofs=tuple(replace(roof, label=evil, source=evil) for roof in drawn.roofs),
                    points=tuple(replace(point, kernel=evil) for point in drawn.points))  # fmt: skip
    tab.view(1600, 1000, "light")
    tab.show(drawn, tmp_path)
    point: Any = drawn.points[0]
    hover(tab, *where(tab, point.intensity, point.flops_per_s))
    assert tab.run("return window.hurt === undefined")
    # Words on the picture too: a roof called <b>x</b> is called just that.
    assert all("</script>" in words["text"] for words in tab.run(WORDS) if not words["text"].startswith("ridge"))
    assert tab.run("return document.getElementById('subtitle').textContent") == evil
    assert {address.split(":")[0] for address in tab.requests()} <= {"file", "data", "blob"}


def test_without_points_or_with_reasons(tab: Tab, tmp_path: Path) -> None:
    tab.view(375, 800, "light")
    tab.show(chart("Nothing", [H100], [replace(flash(H100, 8192), executed=0, book_flops=0)]), tmp_path)
    assert tab.errors() == []
    assert "0 FLOP" in tab.run("return document.getElementById('notes').textContent")
