"""How counters beside predictions are shown: the JSON `rooflinecli/verify/1`, one sheet a case."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rooflinecli import __version__
from rooflinecli.measurement.records import VERIFY_SCHEMA
from rooflinecli.measurement.runner import describe
from rooflinecli.report.sheet import Line, Section, Sheet, View, flatten
from rooflinecli.units import format_bytes, format_rate, format_seconds

if TYPE_CHECKING:
    from rooflinecli.measurement.ncu.verify import Comparison, Verification

LABELS = {
    "sm.read": "SM boundary, read",
    "sm.write": "SM boundary, written",
    "hbm.read": "HBM, read",
    "hbm.write": "HBM, written",
    "flops.executed": "tensor FLOPs executed",
    "exponentials": "special-function operations",
    "seconds": "duration",
}


def view(cases: Sequence[Verification], source: Mapping[str, Any]) -> View:
    """The cases, ready for any format; `source` says where the counters are from."""
    results = [_document(case) for case in cases]
    document = {
        "schema": VERIFY_SCHEMA,
        "version": __version__,
        "command": ["rooflinecli", *sys.argv[1:]],
        "source": dict(source),
        "passed": all(case.passed for case in cases),
        "results": results,
    }
    records = [
        flatten({"kernel": case["kernel"], "algorithm": case["algorithm"], "workload": case["workload"], **row})
        for case in results
        for row in case["rows"]
    ]
    return View(document, records, lambda: [_sheet(case, source) for case in cases])


def _document(case: Verification) -> dict[str, Any]:
    return {
        "kernel": case.kernel,
        "algorithm": case.algorithm,
        "gpu": case.gpu,
        "workload": case.workload.echo(),
        "tile": None if case.tile is None else dict(case.tile),
        "passed": case.passed,
        "rows": [_row(row) for row in case.rows],
        "kernels": list(case.kernels),
        "missing": list(case.missing),
        "unused_metrics": list(case.unused),
        "notes": list(case.notes),
        "reason": case.reason,
    }


def _row(row: Comparison) -> dict[str, Any]:
    found = {**asdict(row), "ratio": row.ratio}
    if not math.isfinite(row.high):  # a lower bound only
        found["high"] = None
    return found


def _sheet(case: Verification, source: Mapping[str, Any]) -> Sheet:
    who = f"{case.kernel} ({case.algorithm})" if case.kernel else case.algorithm
    title = f"{who}, {describe(case.workload)}: {'agrees' if case.passed else 'DISAGREES'}"
    if case.reason is not None:
        return Sheet(f"{who}, {describe(case.workload)}: not counted", [], [], notes=[case.reason])
    origin = ", ".join(f"{name} {value}" for name, value in source.items() if value)
    tile = "" if case.tile is None else f", tile {case.tile['br']} × {case.tile['bc']}, splits {case.tile['splits']}"
    notes = [f"{LABELS[row.quantity]}: {row.ratio:.4g}× predicted. Usually: {row.meaning}."
             for row in case.rows if row.meaning and row.ratio is not None]  # fmt: skip
    if case.missing:
        notes.append(f"n/a on this chip or not in the file: {', '.join(LABELS[name] for name in case.missing)}.")
    if case.unused:
        notes.append(f"Metrics nobody asked for, left alone: {', '.join(case.unused)}.")
    return Sheet(
        title=title,
        subtitle=[f"{case.gpu}{tile}; {origin}", "kernels: " + ", ".join(name[:60] for name in case.kernels)],
        columns=["predicted", "counted", "counted / predicted", "verdict"],
        sections=[Section("", [_line(row) for row in case.rows])],
        notes=[*notes, *case.notes],
    )


def _line(row: Comparison) -> Line:
    predicted = _show(row, row.predicted) if row.low == row.high else f"{_show(row, row.low)} – {_show(row, row.high)}"
    if not math.isfinite(row.high):
        predicted = f"at least {_show(row, row.low)}"
    counted = "n/a" if row.counted is None else _show(row, row.counted)
    ratio = "—" if row.ratio is None else f"{row.ratio:.4f}"
    words = {None: "n/a", True: "agrees", False: "DISAGREES" if row.judged else "differs"}
    return Line(
        LABELS[row.quantity], [predicted, counted, ratio, words[row.agrees]], strong=row.judged and not row.agrees
    )


def _show(row: Comparison, value: float) -> str:
    if row.unit == "s":
        return format_seconds(value)
    return format_bytes(value) if row.unit == "B" else format_rate(value, row.unit)
