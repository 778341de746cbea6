"""What every result looks like before a format is chosen: a document, flat records, and sheets to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Line:
    """One row of a sheet: a label and a cell a column. `strong` lines carry the answer."""

    label: str
    cells: Sequence[str]
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """Lines under a heading; an empty heading separates nothing."""

    heading: str
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table to read: every cell is text with its unit."""

    title: str
    columns: Sequence[str]
    sections: Sequence[Section]
    subtitle: Sequence[str] = ()
    notes: Sequence[str] = ()
    left: bool = False  # cells are words rather than figures


@dataclass(frozen=True, slots=True)
class View:
    """A result ready for any format.

    document: the JSON, whole. records: one flat mapping a row, for CSV and JSON lines. sheets: built only
    when somebody reads them.
    """

    document: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]
    sheets: Callable[[], Sequence[Sheet]] = field(default=lambda: ())


def flatten(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, keys joined by dots; lists are left out, a table has no room for them."""
    return dict(_pairs(value, prefix))


def _pairs(value: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        name = f"{prefix}{key}"
        if isinstance(inner, Mapping):
            yield from _pairs(inner, f"{name}.")
        elif not isinstance(inner, (list, tuple)):
            yield name, inner
