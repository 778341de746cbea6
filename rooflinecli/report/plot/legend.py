"""The legend in words: what shapes, colours and lines mean, and where each roof's figure comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from rooflinecli.report.plot.chart import Level
from rooflinecli.report.plot.scene import LEVEL_WORDS, RoofLine, Scene
from rooflinecli.report.roofline import origin

MAX_NOTES = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the legend. What its sample shows depends on `kind`."""

    kind: Literal["algorithm", "fill", "level", "variant", "roof", "note"]
    text: str
    algorithm: str | None = None
    filled: bool = False
    level: Level | None = None
    variant: int = 0
    line: RoofLine | None = None


def entries(scene: Scene) -> Iterator[Entry]:
    """The whole legend, in order: shapes, fill, colours, variants, roofs with their sources, notes."""
    for name in scene.chart.algorithms:
        measured = any(mark.point.measured for mark in scene.marks if mark.point.algorithm == name)
        yield Entry("algorithm", name, algorithm=name, filled=measured)
    kinds = {mark.point.measured for mark in scene.marks}
    fills = [*(["filled: measured"] if True in kinds else []), *(["hollow: predicted"] if False in kinds else [])]
    yield Entry("fill", "; ".join([*fills, "roofs from a datasheet dashed, measured solid"]))
    for level in scene.chart.levels:
        yield Entry("level", LEVEL_WORDS[level], level=level)
    for index, words in enumerate(scene.variants):
        yield Entry("variant", words, variant=index)
    others: dict[str, list[RoofLine]] = {}
    for line in scene.lines:
        if line.roof.kind == "reference":
            others.setdefault(origin(line.roof), []).append(line)
        else:
            yield Entry("roof", f"{line.label}: {origin(line.roof)}", line=line)
    for source, lines in others.items():  # peaks to compare with, many of which have one source
        yield Entry("roof", f"{', '.join(line.label for line in lines)}: {source}", line=lines[0])
    notes = list(scene.notes)
    for note in notes[:MAX_NOTES]:
        yield Entry("note", note)
    if len(notes) > MAX_NOTES:
        yield Entry("note", f"... and {len(notes) - MAX_NOTES} more notes, all of them in --data.")


def wrapped(text: str, width: float, measure: Callable[[str], float]) -> list[str]:
    """`text` in lines no wider than `width`, cut at spaces; a word wider than a line is cut where it must be."""
    lines: list[str] = []
    line = ""
    for word in _short_words(text.split(), width, measure):
        longer = f"{line} {word}".strip()
        if line and measure(longer) > width:
            lines.append(line)
            line = word
        else:
            line = longer
    return [*lines, line] if line else lines


def _short_words(words: Iterable[str], width: float, measure: Callable[[str], float]) -> Iterator[str]:
    for word in words:
        rest = word
        while measure(rest) > width and len(rest) > 1:
            cut = len(rest) - 1
            while cut > 1 and measure(rest[:cut]) > width:
                cut -= 1
            yield rest[:cut]
            rest = rest[cut:]
        yield rest
