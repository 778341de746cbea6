"""An SVG read back: where its points, ridges and words lie on the paper, by the font's own glyph outlines."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass

SVG, XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
Corners = list[tuple[float, float]]


@dataclass(frozen=True)
class Words:
    """A text element: what it says and the corners of its ink."""

    text: str
    corners: Corners


@dataclass(frozen=True)
class Drawing:
    """What a test asks of a picture."""

    axes: tuple[float, float, float, float]  # left, top, right, bottom
    page: tuple[float, float]
    points: list[tuple[float, float]]
    ridges: list[float]
    words: list[Words]

    def inside(self, x: float, y: float) -> bool:
        left, top, right, bottom = self.axes
        return left <= x <= right and top <= y <= bottom

    def in_axes(self) -> list[Words]:
        return [each for each in self.words if all(self.inside(x, y) for x, y in each.corners)]


def parse(picture: bytes) -> Drawing:
    root = ET.fromstring(picture)
    numbers = [float(part) for part in (root.get("viewBox") or "").split()]
    groups = {element.get("id"): element for element in root.iter(f"{SVG}g")}
    xs, ys = zip(*_path(groups["axes"]), strict=True)
    marked = [group for name, group in groups.items() if name and name.startswith("points-")]
    uses = [use for group in marked for use in group.iter(f"{SVG}use")]
    points = [(float(use.get("x", "nan")), float(use.get("y", "nan"))) for use in uses]
    ridges = [_path(group)[0][0] for name, group in groups.items() if name and name.startswith("ridge-")]
    words = [_words(element) for element in root.iter(f"{SVG}text")]
    return Drawing((min(xs), min(ys), max(xs), max(ys)), (numbers[2], numbers[3]), points, ridges, words)


def _path(group: ET.Element) -> Corners:
    path = next(group.iter(f"{SVG}path"))
    found = re.findall(r"[ML] (\S+) (\S+)", path.get("d", ""))
    return [(float(x), float(y)) for x, y in found]


def _words(element: ET.Element) -> Words:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    style = element.get("style", "")
    size = float(re.search(r"font(?:-size)?: (?:bold |\d+ )*([\d.]+)px", style)[1])  # type: ignore[index]
    text = "".join(element.itertext())
    ink = TextPath((0, 0), text, prop=FontProperties(family="DejaVu Sans", size=size)).get_extents()
    anchor = re.search(r"text-anchor: (\w+)", style)
    width = float(ink.width)
    start = {"middle": -width / 2, "end": -width}.get(anchor[1] if anchor else "", 0.0)
    turn = re.search(r"rotate\((\S+) (\S+) (\S+)\)", element.get("transform", ""))
    move = re.search(r"translate\((\S+) (\S+)\)", element.get("transform", ""))
    x, y = (float(part) for part in move.groups()) if move else (float(element.get("x", 0)), float(element.get("y", 0)))
    angle = re.search(r"rotate\((\S+?)[ )]", element.get("transform", ""))
    radians = math.radians(float(angle[1])) if angle else 0.0
    assert turn or move or angle is None
    cos, sin = math.cos(radians), math.sin(radians)
    box = ((start, -ink.y1), (start + width, -ink.y1), (start + width, -ink.y0), (start, -ink.y0))
    return Words(text, [(x + dx * cos - dy * sin, y + dx * sin + dy * cos) for dx, dy in box])


def overlap(one: Corners, other: Corners) -> bool:
    """Whether two convex shapes share area: no edge of either separates them."""
    for shape in (one, other):
        for index, (ax, ay) in enumerate(shape):
            bx, by = shape[(index + 1) % len(shape)]
            sides = [[(bx - ax) * (y - ay) - (by - ay) * (x - ax) for x, y in each] for each in (one, other)]
            if max(sides[0]) <= min(sides[1]) or max(sides[1]) <= min(sides[0]):
                return False
    return True
