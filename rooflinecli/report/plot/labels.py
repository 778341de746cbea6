"""Words on a picture that do not run into each other: each label takes its best free place, or none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Segment = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Frame:
    """Logarithmic axes on a rectangle of paper; paper units run right and up from its lower left corner."""

    width: float
    height: float
    x: tuple[float, float]
    y: tuple[float, float]

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Where (x, y) is on paper."""
        across = math.log(x / self.x[0]) / math.log(self.x[1] / self.x[0])
        up = math.log(y / self.y[0]) / math.log(self.y[1] / self.y[0])
        return across * self.width, up * self.height

    @property
    def slope_angle(self) -> float:
        """Degrees at which a line of slope 1 rises on paper: what bandwidth labels are turned by."""
        across = self.width / math.log(self.x[1] / self.x[0])
        up = self.height / math.log(self.y[1] / self.y[0])
        return math.degrees(math.atan2(up, across))


@dataclass(frozen=True, slots=True)
class Box:
    """A turned rectangle: its centre, its size, its angle in degrees."""

    x: float
    y: float
    width: float
    height: float
    angle: float = 0.0

    def corners(self) -> list[tuple[float, float]]:
        """Its four corners, around."""
        turn = math.radians(self.angle)
        cos, sin = math.cos(turn), math.sin(turn)
        half_w, half_h = self.width / 2, self.height / 2
        offsets = ((-half_w, -half_h), (half_w, -half_h), (half_w, half_h), (-half_w, half_h))
        return [(self.x + dx * cos - dy * sin, self.y + dx * sin + dy * cos) for dx, dy in offsets]


def overlap(one: Box, other: Box) -> bool:
    """Whether two turned rectangles share any area (separating axes)."""
    return _overlap(one.corners(), other.corners())


def crosses(box: Box, segment: Segment) -> bool:
    """Whether a segment runs through a box."""
    return _overlap(box.corners(), [(segment[0], segment[1]), (segment[2], segment[3])])


def _overlap(one: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> bool:
    for shape in (one, other):
        for (x0, y0), (x1, y1) in zip(shape, [*shape[1:], shape[0]], strict=True):
            nx, ny = y0 - y1, x1 - x0
            ours = [x * nx + y * ny for x, y in one]
            theirs = [x * nx + y * ny for x, y in other]
            if max(ours) <= min(theirs) or max(theirs) <= min(ours):
                return False
    return True


@dataclass(slots=True)
class Board:
    """A rectangle that labels are put on, one after the other; what is there already stays."""

    width: float
    height: float
    taken: list[Box] = field(default_factory=list)
    shapes: list[Box] = field(default_factory=list)
    lines: list[Segment] = field(default_factory=list)
    hairs: list[Segment] = field(default_factory=list)

    def put(self, candidates: Iterable[Box], *, pad: float = 2.0) -> Box | None:
        """Take the first candidate with the fewest lines and shapes under it; never over another label or the edge."""
        best: tuple[float, Box] | None = None
        for rank, box in enumerate(candidates):
            wide = Box(box.x, box.y, box.width + pad, box.height + pad, box.angle)
            if not self._inside(wide) or any(overlap(wide, label) for label in self.taken):
                continue
            cost = rank + 40 * sum(overlap(wide, shape) for shape in self.shapes)
            cost += 12 * sum(crosses(box, line) for line in self.lines)
            cost += 2 * sum(crosses(box, line) for line in self.hairs)
            if best is None or cost < best[0]:
                best = cost, box
        if best is None:
            return None
        self.taken.append(best[1])
        return best[1]

    def _inside(self, box: Box) -> bool:
        return all(0 <= x <= self.width and 0 <= y <= self.height for x, y in box.corners())


def along_slope(line: Segment, size: tuple[float, float], gap: float) -> Iterable[Box]:
    """Places for a label on a slope: above the line first, from its upper middle down, then below."""
    angle = math.atan2(line[3] - line[1], line[2] - line[0])
    cos, sin = math.cos(angle), math.sin(angle)
    length = math.hypot(line[2] - line[0], line[3] - line[1])
    reach = (size[0] / 2 + gap) / length if length else 1.0
    for side in (1, -1):
        off = side * (size[1] / 2 + gap)
        for share in (0.5, 0.6, 0.4, 0.7, 0.3, 0.8, 0.2, 0.9, 0.1, 0.0, 1.0):
            at = min(max(share, reach), 1 - reach) if reach < 0.5 else share
            x, y = line[0] + at * (line[2] - line[0]), line[1] + at * (line[3] - line[1])
            yield Box(x - off * sin, y + off * cos, *size, math.degrees(angle))


def along_flat(line: Segment, size: tuple[float, float], gap: float) -> Iterable[Box]:
    """Places for a label on a flat roof: above its right end first, then below, then further left."""
    for left in (0.0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9):
        x = line[2] - gap - size[0] / 2 - left * max(0.0, line[2] - line[0] - size[0])
        for side in (1, -1):
            yield Box(x, line[1] + side * (size[1] / 2 + gap), *size)


def around(x: float, y: float, size: tuple[float, float], gap: float) -> Iterable[Box]:
    """Places for a label at a point: right below, right, left above, ... then further out."""
    for far in (1.0, 2.2, 4.0, 6.0):
        dx, dy = size[0] / 2 + gap * far, size[1] / 2 + gap * far
        yield from (
            Box(x + dx, y - dy * 0.7, *size),
            Box(x + dx, y, *size),
            Box(x - dx, y + dy * 0.7, *size),
            Box(x, y - dy, *size),
            Box(x, y + dy, *size),
            Box(x + dx, y + dy * 0.7, *size),
            Box(x - dx, y, *size),
            Box(x - dx, y - dy * 0.7, *size),
        )
