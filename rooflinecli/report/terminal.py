"""Sheets as text for a terminal, a pipe or a file; styled only where a person watches."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Sequence

from rich.box import ASCII2, HORIZONTALS, Box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rooflinecli.report.sheet import Sheet

PIPE_WIDTH = 120
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
    table = Table(box=_box(), show_edge=True, pad_edge=False, header_style="bold cyan")
    table.add_column("", overflow="fold", no_wrap=False)
    for column in sheet.columns:
        table.add_column(column, justify="left" if sheet.left else "right", overflow="fold")
    for section in sheet.sections:
        if section.heading:
            if table.row_count:
                table.add_section()
            table.add_row(Text(section.heading, style="bold"), *("" for _ in sheet.columns))
        indent = "  " if section.heading else ""
        for line in section.lines:
            style = "bold green" if line.strong else ""
            table.add_row(f"{indent}{line.label}", *(Text(cell) for cell in line.cells), style=style)
    console.print(table)
    for note in sheet.notes:
        console.print(Text(note))


def _box() -> Box:
    return HORIZONTALS if speaks_unicode() else ASCII2


def _sized() -> bool:
    return sys.stdout.isatty() or "COLUMNS" in os.environ
