"""The text formats: one function each, chosen by name."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

from rooflinecli.report.sheet import Sheet, View


def render(view: View, shape: str) -> str:
    """`view` as text in the format `shape`, one of `output.FORMATS`."""
    return _FORMATS[shape](view)


def _table(view: View) -> str:
    from rooflinecli.report.terminal import sheets_as_text

    return sheets_as_text(view.sheets())


def _json(view: View) -> str:
    return json.dumps(view.document, indent=2, ensure_ascii=False, allow_nan=False)


def _jsonl(view: View) -> str:
    return "\n".join(json.dumps(record, ensure_ascii=False, allow_nan=False) for record in view.records)


def _csv(view: View) -> str:
    columns = list(dict.fromkeys(key for record in view.records for key in record))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(view.records)
    return stream.getvalue()


def _markdown(view: View) -> str:
    return "\n\n".join(_markdown_sheet(sheet) for sheet in view.sheets())


def _markdown_sheet(sheet: Sheet) -> str:
    side = ":--" if sheet.left else "--:"
    lines = [f"### {_escaped(sheet.title)}", "", *(f"{_escaped(text)}  " for text in sheet.subtitle), ""]
    lines += [_markdown_row(["", *sheet.columns]), _markdown_row([":--", *(side for _ in sheet.columns)])]
    for section in sheet.sections:
        if section.heading:
            lines.append(_markdown_row([f"**{_escaped(section.heading)}**", *("" for _ in sheet.columns)]))
        for line in section.lines:
            cells = [_escaped(cell) for cell in (line.label, *line.cells)]
            lines.append(_markdown_row([f"**{cell}**" if cell else "" for cell in cells] if line.strong else cells))
    lines += ["", *(f"> {_escaped(note)}\n" for note in sheet.notes)]
    return "\n".join(lines).rstrip()


def _markdown_row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")


_FORMATS: dict[str, Callable[[View], str]] = {
    "table": _table,
    "json": _json,
    "jsonl": _jsonl,
    "csv": _csv,
    "markdown": _markdown,
}
