"""A grid of characters to draw on: lines in Braille dots (or ASCII), glyphs and words on top of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

# Braille dots of a cell, by (column, row) from its upper left corner.
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_BRAILLE = 0x2800


@dataclass(slots=True)
class Canvas:
    """`width` x `height` cells; lines are in dots, 2 x 4 a cell, from the upper left corner."""

    width: int
    height: int
    unicode: bool
    dots: dict[tuple[int, int], int] = field(default_factory=dict)
    styles: dict[tuple[int, int], str] = field(default_factory=dict)
    glyphs: dict[tuple[int, int], str] = field(default_factory=dict)

    def line(self, x0: float, y0: float, x1: float, y1: float, style: str, dash: tuple[int, int], letter: str) -> None:
        """A line between two places in cells; `dash` is dots on and dots off, `letter` what ASCII shows."""
        steps = max(1, math.ceil(max(abs(x1 - x0) * 2, abs(y1 - y0) * 4)))
        for step in range(steps + 1):
            if step % sum(dash) >= dash[0]:
                continue
            x, y = x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps
            column, row = math.floor(x), math.floor(y)
            if not (0 <= column < self.width and 0 <= row < self.height):
                continue
            cell = column, row
            if self.unicode:
                dot = _DOTS[min(1, int((x - column) * 2))][min(3, int((y - row) * 4))]
                self.dots[cell] = self.dots.get(cell, 0) | dot
            else:
                self.glyphs.setdefault(cell, letter)
            self.styles.setdefault(cell, style)

    def glyph(self, column: int, row: int, text: str, style: str) -> None:
        """One character over whatever is there."""
        if 0 <= column < self.width and 0 <= row < self.height:
            self.glyphs[column, row] = text
            self.styles[column, row] = style

    def put(self, places: list[tuple[int, int]], text: str, style: str, taken: set[tuple[int, int]]) -> bool:
        """Words at a place (column and row of their start) free of others, with the fewest dots under them."""
        best: tuple[int, int, int] | None = None
        for rank, (column, row) in enumerate(places):
            cells = [(column + offset, row) for offset in range(-1 if len(text) > 1 else 0, len(text) + 1)]
            inside = column >= 0 and column + len(text) <= self.width and 0 <= row < self.height
            if not inside or any(cell in taken for cell in cells):
                continue
            under = sum(cell in self.dots or cell in self.glyphs for cell in cells)
            if best is None or under * 4 + rank < best[0]:
                best = under * 4 + rank, column, row
        if best is None:
            return False
        for offset, letter in enumerate(text):
            cell = best[1] + offset, best[2]
            self.glyphs[cell] = letter
            self.styles[cell] = style
            self.dots.pop(cell, None)
            taken.add(cell)
        return True

    def row(self, row: int) -> list[tuple[str, str]]:
        """One row as characters with their styles."""
        found = []
        for column in range(self.width):
            cell = column, row
            character = self.glyphs.get(cell) or (chr(_BRAILLE + self.dots[cell]) if cell in self.dots else " ")
            found.append((character, self.styles.get(cell, "") if character != " " else ""))
        return found
