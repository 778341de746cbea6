"""An account derived step by step: pseudocode, formula, numbers put in, result."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rooflinecli import __version__
from rooflinecli.accounting import ALGORITHMS
from rooflinecli.accounting.ledger import SYMBOLS
from rooflinecli.dtypes import DTYPES
from rooflinecli.report.layers import layer_document, layer_title
from rooflinecli.report.sheet import Line, Section, Sheet, View
from rooflinecli.units import format_bytes, format_rate, format_seconds

if TYPE_CHECKING:
    from rooflinecli.accounting.ledger import Row
    from rooflinecli.calculator import Account, Result
    from rooflinecli.layers import ModelAccount

SCHEMA = "rooflinecli/explain/1"
_NAME = re.compile(r"[A-Za-z_]\w*")


def view(account: Account) -> View:
    """The derivation of every result, ready for any format."""
    return _view(account, [_document(result) for result in account.results], lambda: map(_sheet, account.results))


def layers_view(found: ModelAccount, model: str) -> View:
    """The derivation for each kind of a model's layers. model: what the step is of, in words."""
    results = [
        {**layer_document(layer), "workload": layer.account.workload.echo(), **_document(result)}
        for layer in found.layers
        for result in layer.account.results
    ]

    def sheets() -> Iterator[Sheet]:
        for layer in found.layers:
            for sheet in map(_sheet, layer.account.results):
                yield replace(sheet, title=layer_title(layer, model), subtitle=[sheet.title, *sheet.subtitle])

    return _view(found.layers[0].account, results, sheets, {"model": model})


def _view(
    account: Account, results: list[dict[str, Any]], sheets: Callable[[], Iterable[Sheet]], of: Mapping[str, Any] = {}
) -> View:
    document = {
        "schema": SCHEMA,
        "version": __version__,
        "command": ["rooflinecli", *sys.argv[1:]],
        **of,
        "workload": account.workload.echo(),
        "results": results,
    }
    shared = ("layer", "count", "gpu", "algorithm")
    records = [
        {**{name: result[name] for name in shared if name in result}, **row}
        for result in results
        for row in result["ledger"]
    ]
    return View(document, records, lambda: list(sheets()))


def _document(result: Result) -> dict[str, Any]:
    cost = result.cost
    return {
        "gpu": result.gpu,
        "algorithm": result.algorithm,
        "pseudocode": ALGORITHMS[result.algorithm].pseudocode.split("\n"),
        "symbols": {name: {"value": value, "meaning": SYMBOLS[name]} for name, value in cost.symbols.items()},
        "ledger": [
            {
                "step": row.step,
                "tensor": row.tensor,
                "level": row.level,
                "direction": row.direction,
                "formula": row.formula,
                "numbers": _numbers(row, result),
                "elements": row.elements,
                "bytes": row.bytes,
            }
            for row in cost.ledger
        ],
    }


def _sheet(result: Result) -> Sheet:
    cost, tile = result.cost, result.cost.tile
    sections = [
        *(_ledger_section(f"SM bytes: {step}", result, step) for step in _steps(result)),
        _ledger_section("compulsory bytes", result, "any"),
        _work_section(result),
        Section(
            "time at least: amount over rate",
            [
                Line(
                    bound.ceiling.label,
                    [
                        f"{bound.amount:,} / {format_rate(bound.ceiling.rate, bound.ceiling.unit)}",
                        bound.ceiling.source,
                        format_seconds(bound.seconds),
                    ],
                    strong=bound is result.bounds[0],
                )
                for bound in result.bounds
            ],
        ),
    ]
    used = {name for row in cost.ledger for name in _NAME.findall(row.formula)}
    shape = "no tiles" if tile is None else f"tiles of Br = {tile.br} by Bc = {tile.bc}"
    return Sheet(
        title=f"{result.algorithm} on {result.gpu}: {ALGORITHMS[result.algorithm].summary}, {shape}",
        subtitle=["", *ALGORITHMS[result.algorithm].pseudocode.split("\n"), ""],
        columns=["formula", "numbers put in", "result"],
        sections=sections,
        notes=[
            "; ".join(f"{name} = {value}: {SYMBOLS[name]}" for name, value in cost.symbols.items() if name in used),
            f"Behind the L2, HBM reads {format_bytes(result.hbm.read)} and writes {format_bytes(result.hbm.write)}: "
            f"{result.hbm.regime}.",
        ],
        left=True,
    )


def _steps(result: Result) -> list[str]:
    return list(dict.fromkeys(row.step for row in result.cost.ledger if row.level == "sm"))


def _ledger_section(heading: str, result: Result, step: str) -> Section:
    rows = [row for row in result.cost.ledger if row.step == step]
    lines = [
        Line(
            f"{row.direction} {row.tensor}",
            [
                f"{row.formula} × {_size(row):g} B",
                f"{_numbers(row, result)} × {_size(row):g} B",
                format_bytes(row.bytes),
            ],
        )
        for row in rows
    ]
    total = sum(row.bytes for row in rows)
    return Section(heading, [*lines, Line("sum", ["", f"{total:,} B", format_bytes(total)], strong=True)])


def _work_section(result: Result) -> Section:
    flops, exponentials = result.cost.flops, result.cost.exponentials
    return Section(
        "work",
        [
            _work("useful", "both products over visible pairs", flops.useful, "FLOP"),
            _work("executed", "masked and padded parts of tiles too", flops.executed, "FLOP"),
            _work("softmax", "5 a visible pair", flops.softmax, "FLOP"),
            _work("exponentials", "tile elements and rescales", exponentials.executed, "exp"),
        ],
    )


def _work(label: str, meaning: str, amount: int, unit: str) -> Line:
    return Line(label, [meaning, f"{amount:,} {unit}", format_rate(amount, unit)])


def _numbers(row: Row, result: Result) -> str:
    return _NAME.sub(lambda name: f"{result.cost.symbols[name[0]]}", row.formula).replace("*", " × ")


def _size(row: Row) -> float:
    return row.bytes / row.elements if row.elements else DTYPES["fp16"].bytes_per_element
