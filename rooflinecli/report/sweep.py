"""How a sweep is shown: the JSON `rooflinecli/sweep/1`, one flat record a result, one sheet a GPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rooflinecli import __version__
from rooflinecli.report.bytes import head, result_document
from rooflinecli.report.plot.kernels import from_account
from rooflinecli.report.plot.title import title
from rooflinecli.report.sheet import Line, Section, Sheet, View, flatten
from rooflinecli.sweep import count_label
from rooflinecli.units import format_bytes, format_rate, format_seconds

if TYPE_CHECKING:
    from rooflinecli.calculator import Account, Result
    from rooflinecli.grid import Grid, Refused

SCHEMA = "rooflinecli/sweep/1"


def view(found: Grid, swept: Sequence[str], excluded: Sequence[str] = ()) -> View:
    """The results of all combinations, ready for any format.

    swept: names of the options that vary. excluded: tensors left out of the ledgers.
    """
    accounts = _by_gpu(found)
    results = [_document(cell.at, cell.account, result) for cell in found.cells for result in cell.account.results]
    document = {
        "schema": SCHEMA,
        "version": __version__,
        "command": ["rooflinecli", *sys.argv[1:]],
        "swept": list(swept),
        "excluded": list(excluded),
        "gpus": [gpu for some in accounts.values() for gpu in head(some)["gpus"]],
        "results": results,
        "refused": [
            {"at": dict(each.at), "gpu": each.gpu, "algorithm": each.algorithm, "reason": each.reason}
            for each in found.refused
        ],
    }
    return View(document, [flatten(result) for result in results], lambda: list(_sheets(found, excluded)))


def _document(at: Mapping[str, Any], account: Account, result: Result) -> dict[str, Any]:
    """As in `bytes`, without the ledger; `at` holds the swept values."""
    return {
        "at": dict(at),
        "workload": account.workload.echo(),
        "memory_model": account.memory_model,
        "compute_dtype": account.compute_dtype,
        **{name: value for name, value in result_document(result).items() if name != "ledger"},
        "flops_per_s": result.bounds[0].flops_per_s if result.cost.flops.useful else 0.0,
    }


def _by_gpu(found: Grid) -> dict[str, list[Account]]:
    """Accounts by the id of their GPU; a grid has one GPU an account."""
    accounts: dict[str, list[Account]] = {}
    for cell in found.cells:
        accounts.setdefault(cell.account.gpus[0].id, []).append(cell.account)
    return accounts


def _sheets(found: Grid, excluded: Sequence[str]) -> Iterator[Sheet]:
    for gpu, accounts in _by_gpu(found).items():
        profile = accounts[0].gpus[0]
        kernels = [kernel for account in accounts for kernel in from_account(account)[1]]
        yield Sheet(
            title=f"Sweep on {profile.name} ({gpu})",
            subtitle=[title(kernels, excluded=excluded)],
            columns=["SM bytes", "HBM bytes", "FLOP/B at HBM", "time at least", "useful work at best", "bound by"],
            sections=[
                Section(
                    "",
                    [
                        _line(cell.at, result)
                        for cell in found.cells
                        for result in cell.account.results
                        if result.gpu == gpu
                    ],
                )
            ],
        )
    if found.refused:
        lines = [Line(named(each), [each.reason]) for each in found.refused]
        yield Sheet("Left out", ["why"], [Section("", lines)], left=True)


def _line(at: Mapping[str, Any], result: Result) -> Line:
    intensity = result.intensity.hbm
    return Line(
        " ".join([result.algorithm, *_values(at)]),
        [
            format_bytes(result.cost.traffic("sm").total),
            format_bytes(result.hbm.total),
            "—" if intensity is None else f"{intensity:.4g}",
            format_seconds(result.seconds_at_least),
            format_rate(result.bounds[0].flops_per_s, "FLOP/s"),
            result.bounds[0].ceiling.label,
        ],
    )


def named(refused: Refused) -> str:
    """What was left out, in words."""
    words = [*([refused.algorithm] if refused.algorithm else []), *_values(refused.at)]
    return " ".join([*words, *([f"on {refused.gpu}"] if refused.gpu else [])]) or "the workload"


def _values(at: Mapping[str, Any]) -> list[str]:
    return [f"{name}={count_label(value)}" for name, value in at.items()]
