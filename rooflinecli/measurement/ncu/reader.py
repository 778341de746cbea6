"""Reading the CSV Nsight Compute prints, whoever ran it: wide or long, any locale, log lines around it."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rooflinecli.errors import InputError
from rooflinecli.measurement.ncu.numbers import decimal_mark, is_absent, parse_number, scale_of

LIMIT = 256 << 20  # bytes; a report of counters is kilobytes
_KERNEL = ("Kernel Name", "Function Name")
_LONG = ("Metric Name", "Metric Value")
# Columns that describe the launch. Everything else whose name holds two underscores is a metric.
_GRID, _BLOCK, _DEVICE, _CAPABILITY = ("Grid Size", "Grid"), ("Block Size", "Block"), ("Device",), ("CC",)


@dataclass(frozen=True, slots=True)
class Reading:
    """One metric of one launch in its base unit (B, s, inst, sector, ...); None where the tool had no value."""

    value: float | None
    unit: str


@dataclass(frozen=True, slots=True)
class Launch:
    """One profiled kernel, or one range of kernels, with its metrics by name."""

    id: str
    kernel: str
    grid: str
    block: str
    capability: str
    metrics: Mapping[str, Reading]


def read_csv(path: Path) -> list[Launch]:
    """The launches in a CSV file.

    Raises:
        InputError: the file cannot be read, holds no such table, or a value has no unit.
    """
    try:
        if path.stat().st_size > LIMIT:
            raise InputError(f"--import {path}: larger than {LIMIT >> 20} MiB; this is no report of counters")
        body = path.read_bytes()
    except OSError as error:
        raise InputError(f"--import {path}: {error.strerror or error}") from None
    try:
        return parse_csv(_decoded(body))
    except InputError as error:
        error.message = f"--import {path}: {error.message}"
        raise


def parse_csv(text: str) -> list[Launch]:
    """The launches in the text of a CSV; see `read_csv`."""
    header, rows = _table(text)
    if all(name in header for name in _LONG):
        return _long(header, rows)
    return _wide(header, rows)


def _decoded(body: bytes) -> str:
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):  # redirected by PowerShell
        return body.decode("utf-16", errors="replace")
    return body.decode("utf-8-sig", errors="replace")


def _table(text: str) -> tuple[list[str], list[list[str]]]:
    """The header and what follows it, log lines before, between and after left out."""
    lines = text.splitlines()
    for index, line in enumerate(lines):
        for delimiter in (",", ";", "\t"):
            header = _cells(line, delimiter)
            if "ID" in header and any(name in header for name in _KERNEL):
                return header, _rows(lines[index + 1 :], delimiter, len(header))
    raise InputError(
        "no table of Nsight Compute in it: no header with ID and Kernel Name",
        "make it with: ncu --csv --page raw --print-units base ... > FILE.csv",
    )


def _rows(lines: Sequence[str], delimiter: str, width: int) -> list[list[str]]:
    """The lines that are rows; whatever a log or the program printed between them is not as wide."""
    found = []
    for line in lines:
        row = _cells(line, delimiter)
        if len(row) == width:
            found.append(row)
        elif re.match(rf'"\d+"\s*({delimiter}|$)|\d+{delimiter}\d', line):
            raise InputError(f"cut short: a row has {len(row)} of {width} cells: {line[:60]!r}")
    return found


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter, strict=True), [])]
    except csv.Error:
        return []


def _wide(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Launch]:
    """One row a launch, one column a metric, and the units in a row of their own under the header."""
    if not rows:
        raise InputError("the table has no rows")
    at_id = header.index("ID")
    units = rows[0] if not rows[0][at_id].strip() else [""] * len(header)
    body = [row for row in rows if row[at_id].strip().isdigit()]
    columns = {name: index for index, name in enumerate(header) if "__" in name}
    mark = decimal_mark((row[i], _must_be_whole(name, units[i])) for name, i in columns.items() for row in body)
    return [
        _launch(header, row, {name: _reading(name, row[i], units[i], mark) for name, i in columns.items()})
        for row in body
    ]


def _long(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Launch]:
    """One row a metric, with a column for its unit; rows of one launch share an ID."""
    at = {name: header.index(name) for name in ("ID", *_LONG)}
    unit = header.index("Metric Unit") if "Metric Unit" in header else None
    body = [row for row in rows if row[at["ID"]].strip().isdigit() and "__" in row[at["Metric Name"]]]
    if not body:
        raise InputError("it holds no metric by its own name (dram__bytes_read.sum), only sections for reading",
                         "make it with: ncu --csv --page raw --print-units base ... > FILE.csv")  # fmt: skip

    def unit_of(row: Sequence[str]) -> str:
        return "" if unit is None else row[unit]

    mark = decimal_mark((row[at["Metric Value"]], _must_be_whole(row[at["Metric Name"]], unit_of(row))) for row in body)
    found: dict[str, tuple[Sequence[str], dict[str, Reading]]] = {}
    for row in body:
        name = row[at["Metric Name"]].strip()
        _, metrics = found.setdefault(row[at["ID"]].strip(), (row, {}))
        metrics[name] = _reading(name, row[at["Metric Value"]], unit_of(row), mark)
    return [_launch(header, row, metrics) for row, metrics in found.values()]


def _launch(header: Sequence[str], row: Sequence[str], metrics: Mapping[str, Reading]) -> Launch:
    def cell(names: Iterable[str]) -> str:
        return next((row[header.index(name)].strip() for name in names if name in header), "")

    return Launch(cell(("ID",)), cell(_KERNEL), cell(_GRID), cell(_BLOCK), cell(_CAPABILITY), metrics)


def _reading(name: str, cell: str, unit: str, mark: str) -> Reading:
    if is_absent(cell):
        return Reading(None, unit)
    scaled = scale_of(unit) if unit.strip() else None
    if scaled is None and _needs_unit(name):
        missing = f"unit {unit!r} is unknown" if unit.strip() else "it has no unit"
        raise InputError(f"{name} is {cell!r}: {missing}", "make the CSV anew with --print-units base")
    try:
        value = parse_number(cell, mark)
    except InputError:
        if _needs_unit(name):
            raise
        return Reading(None, unit)  # a text, such as the name of a function
    factor, base = scaled or (1, unit.strip())
    return Reading(None if value is None else value * factor, base)


def _needs_unit(metric: str) -> bool:
    """Bytes and times come scaled in any of four units: without one a value says nothing."""
    base = metric.split(".")[0]
    return "bytes" in base or base.endswith("__time_duration")


def _must_be_whole(metric: str, unit: str) -> bool:
    scaled = scale_of(unit) if unit.strip() else (1, "")
    return (
        metric.endswith(".sum")
        and scaled is not None
        and scaled[0] == 1
        and scaled[1] in ("B", "inst", "sector", "op", "")
    )
