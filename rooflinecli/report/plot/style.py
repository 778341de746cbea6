"""Colours and shapes. Colour is the memory level, shape is the algorithm; no meaning rests on colour alone.

The three level colours differ in lightness by a quarter of the scale each, so that a grey print keeps them apart, and
in hue along the blue-yellow axis that common colour blindness leaves intact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rooflinecli.report.plot.chart import Level

Theme = Literal["light", "dark"]


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours of one theme, as #rrggbb."""

    paper: str
    ink: str
    soft: str
    grid: str
    alarm: str
    levels: dict[Level, str]


PALETTES: dict[Theme, Palette] = {
    "light": Palette(
        paper="#ffffff",
        ink="#1b1f24",
        soft="#5b6470",
        grid="#dfe3e8",
        alarm="#b00020",
        levels={"hbm": "#003f7f", "sm": "#b8405e", "textbook": "#bf8a00"},
    ),
    "dark": Palette(
        paper="#14171c",
        ink="#e8eaed",
        soft="#a3acb8",
        grid="#2c323a",
        alarm="#ff6b6b",
        levels={"hbm": "#4f9dff", "sm": "#ff9db0", "textbook": "#f4d35e"},
    ),
}

# Algorithm -> (matplotlib, plotly, Unicode, ASCII). The same shape in every medium, as far as it has it.
MARKERS: dict[str, tuple[str, str, str, str]] = {
    "naive": ("s", "square", "■", "n"),
    "flash1": ("^", "triangle-up", "▲", "1"),
    "flash2": ("o", "circle", "●", "2"),
    "decode": ("D", "diamond", "◆", "d"),
    "paged": ("v", "triangle-down", "▼", "p"),
    "mla": ("P", "cross", "✚", "m"),
    "backward": ("<", "triangle-left", "◀", "b"),
}
_SPARE = (("*", "star", "★", "x"), ("h", "hexagon", "⬢", "h"), ("X", "x", "✖", "z"), (">", "triangle-right", "▶", "r"))
# The same shape where the point is only predicted: hollow.
HOLLOW = {"■": "□", "▲": "△", "●": "○", "◆": "◇", "▼": "▽", "✚": "✛", "◀": "◁", "★": "☆", "⬢": "⬡", "✖": "✕", "▶": "▷"}


def marker(algorithm: str) -> tuple[str, str, str, str]:
    """The shape of `algorithm`; one that nobody gave a shape takes a spare one by its name, the same every time."""
    return MARKERS.get(algorithm) or _SPARE[sum(algorithm.encode()) % len(_SPARE)]


def mixed(colour: str, paper: str, share: float) -> str:
    """`colour` with `share` of `paper` in it."""
    inks, papers = (tuple(int(text[i : i + 2], 16) for i in (1, 3, 5)) for text in (colour, paper))
    return "#" + "".join(
        f"{round(ink * (1 - share) + sheet * share):02x}" for ink, sheet in zip(inks, papers, strict=True)
    )
