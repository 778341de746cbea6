"""Sheets as text for a terminal, a pipe or a file; styled only where a person watches."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Sequence

from rich.box import ASCII2, HORIZONTALS, Box
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from rooflinecli.report.sheet import Sheet

PIPE_WIDTH = 120
_INDENT = "  "  # of lines under a heading
_FIGURE = 13  # characters that a figure with its unit takes at most
# What a terminal that knows no Unicode shows instead.
_PLAIN = str.maketrans({"×": "x", "–": "-", "—": "-", "·": ",", "≥": ">=", "≤": "<=", "µ": "u", "→": "->", "…": "..."})


def is_watched() -> bool:
    """Whether standard output is a terminal that understands styles."""
    return sys.stdout.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def speaks_unicode() -> bool:
    """Whether standard output can show more than ASCII."""
    return "utf" in (sys.stdout.encoding or "").lower()


def width() -> int:
    """Columns there are: the terminal's, or `COLUMNS`, or for a pipe a fixed number."""
    return max(20, shutil.get_terminal_size((PIPE_WIDTH, 24)).columns if _sized() else PIPE_WIDTH)


def sheets_as_text(sheets: Sequence[Sheet]) -> str:
    """All sheets, one under the other."""
    stream = io.StringIO()
    watched = is_watched()
    console = Console(
        file=stream, width=width(), force_terminal=watched, no_color=None if watched else True, highlight=False
    )
    for index, sheet in enumerate(sheets):
        if index:
            console.print()
        _print(console, sheet)
    text = "\n".join(line.rstrip() for line in stream.getvalue().rstrip("\n").split("\n"))
    return text if speaks_unicode() else text.translate(_PLAIN)


def _print(console: Console, sheet: Sheet) -> None:
    console.print(Text(sheet.title, style="bold"))
    for remark in sheet.subtitle:
        console.print(Text(remark, style="dim"))
    for columns in _groups(sheet, console.width):
        console.print(_table(sheet, columns, console.width))
    for note in sheet.notes:
        console.print(Text(note))


def _table(sheet: Sheet, columns: Sequence[int], space: int) -> Table:
    """The sheet with only these columns."""
    widths = _widths([_labels(sheet), *(_cells(sheet, index) for index in columns)], space)
    table = Table(box=_box(), show_edge=True, pad_edge=False, header_style="bold cyan")
    table.add_column("", overflow="fold", no_wrap=False, width=widths[0])
    for index, width in zip(columns, widths[1:], strict=True):
        justify: JustifyMethod = "left" if sheet.left else "right"
        table.add_column(sheet.columns[index], justify=justify, overflow="fold", width=width)
    for section in sheet.sections:
        if section.heading:
            if table.row_count:
                table.add_section()
            table.add_row(Text(section.heading, style="bold"), *("" for _ in columns))
        indent = _INDENT if section.heading else ""
        for line in section.lines:
            style = "bold green" if line.strong else ""
            cells = (Text(line.cells[index]) for index in columns)
            table.add_row(f"{indent}{line.label}", *cells, style=style)
    return table


def _groups(sheet: Sheet, space: int) -> list[list[int]]:
    """Columns that stand beside each other without a word being cut; the rest follows in tables underneath."""
    label = _need(_labels(sheet))
    groups: list[list[int]] = [[]]
    for index in range(len(sheet.columns)):
        together = [*groups[-1], index]
        if groups[-1] and _wide([label, *(_need(_cells(sheet, each)) for each in together)]) > space:
            groups.append([index])
        else:
            groups[-1] = together
    return groups


def _widths(columns: Sequence[Sequence[str]], space: int) -> list[int] | list[None]:
    """Characters of each column: all it has where there is room, else the widest give way, down to what words need.

    None leaves it to the library, which cuts words: where there is room for nothing else.
    """
    needs = [_need(texts) for texts in columns]
    whole = [max(map(len, texts), default=1) for texts in columns]
    if _wide(needs) > space:
        return [None] * len(columns)
    widths = needs
    for most in range(1, space):
        wider = [max(need, min(most, full)) for need, full in zip(needs, whole, strict=True)]
        if _wide(wider) > space:
            break
        widths = wider
    return widths


def _wide(widths: Sequence[int]) -> int:
    """Characters of a table's line: an edge on each side, three blanks between columns."""
    return sum(widths) + 3 * (len(widths) - 1) + 2


def _labels(sheet: Sheet) -> list[str]:
    headings = [section.heading for section in sheet.sections]
    labels = [(_INDENT if section.heading else "") + line.label for section in sheet.sections for line in section.lines]
    return [*headings, *labels]


def _cells(sheet: Sheet, index: int) -> list[str]:
    return [sheet.columns[index], *(line.cells[index] for section in sheet.sections for line in section.lines)]


def _need(texts: Sequence[str]) -> int:
    """The longest word; a figure and its unit stay together, and so does a label with its indent."""
    whole = [len(text) for text in texts if len(text) <= _FIGURE]
    indented = [len(text) - len(text.lstrip()) + len(word) for text in texts for word in text.split()]
    return max([*whole, *indented, 1])


def _box() -> Box:
    return HORIZONTALS if speaks_unicode() else ASCII2


def _sized() -> bool:
    return sys.stdout.isatty() or "COLUMNS" in os.environ
