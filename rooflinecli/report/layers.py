"""How a model's attention is shown: `rooflinecli/bytes/1` with an account a kind of layer, and totals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from rooflinecli.report.bytes import head, result_document, sheet
from rooflinecli.report.sheet import Line, Section, Sheet, View, flatten
from rooflinecli.units import format_bytes, format_rate, format_seconds

if TYPE_CHECKING:
    from rooflinecli.accounting.ledger import Traffic
    from rooflinecli.hardware import Profile
    from rooflinecli.layers import LayerAccount, ModelAccount, Total


def view(found: ModelAccount, model: str) -> View:
    """The accounts of all layers, ready for any format. model: what the step is of, in words."""
    results = [
        {**layer_document(layer), "workload": layer.account.workload.echo(), **result_document(result)}
        for layer in found.layers
        for result in layer.account.results
    ]
    totals = [_total_document(total) for total in found.totals]
    document = {
        **head([layer.account for layer in found.layers]),
        "model": model,
        "workload": found.layers[0].account.workload.echo(),
        "layers": [{**layer_document(layer), "workload": layer.account.workload.echo()} for layer in found.layers],
        "results": results,
        "total": totals,
    }
    records = [*map(flatten, results), *({"layer": "total", **flatten(total)} for total in totals)]
    return View(document, records, lambda: _sheets(found, model))


def layer_document(layer: LayerAccount) -> dict[str, Any]:
    """What a result says of the layers it is of."""
    return {"layer": layer.kind, "count": layer.count}


def layer_title(layer: LayerAccount, model: str) -> str:
    """Which layers of `model` a sheet is of."""
    layers = "1 layer" if layer.count == 1 else f"each of {layer.count} layers"
    return f"{model}: {layers}, {layer.kind}"


def _total_document(total: Total) -> dict[str, Any]:
    def both(traffic: Traffic) -> dict[str, int]:
        return {"read": traffic.read, "write": traffic.write, "total": traffic.total}

    low, high = total.hbm_reads
    return {
        "gpu": total.gpu,
        "algorithm": total.algorithm,
        "flops": asdict(total.flops),
        "exponentials": asdict(total.exponentials),
        "bytes": {
            "sm": both(total.sm),
            "hbm": {**both(total.hbm), "read_low": low, "read_high": high},
            "compulsory": both(total.compulsory),
        },
        "bound_by": total.bound_by,
        "seconds_at_least": total.seconds_at_least,
    }


def _sheets(found: ModelAccount, model: str) -> list[Sheet]:
    shown = []
    for profile in found.layers[0].account.gpus:
        for layer in found.layers:
            one = sheet(layer.account, profile)
            shown.append(replace(one, title=layer_title(layer, model), subtitle=[one.title, *one.subtitle]))
        totals = [total for total in found.totals if total.gpu == profile.id]
        if totals:
            shown.append(_total_sheet(totals, profile, model, sum(layer.count for layer in found.layers)))
    return shown


def _total_sheet(totals: list[Total], profile: Profile, model: str, calls: int) -> Sheet:
    def line(label: str, cell: Callable[[Total], str], strong: bool = False) -> Line:
        return Line(label, [cell(total) for total in totals], strong)

    def traffic(level: Callable[[Total], Traffic]) -> list[Line]:
        return [
            line("read", lambda t: format_bytes(level(t).read)),
            line("written", lambda t: format_bytes(level(t).write)),
            line("total", lambda t: format_bytes(level(t).total), strong=True),
        ]

    return Sheet(
        title=f"{model}: attention of all layers, {calls} calls one after the other",
        subtitle=[f"{profile.name} ({profile.id})"],
        columns=[total.algorithm for total in totals],
        sections=[
            Section(
                "FLOPs (FMA = 2)",
                [
                    line("useful", lambda t: format_rate(t.flops.useful, "FLOP")),
                    line("executed, masked parts too", lambda t: format_rate(t.flops.executed, "FLOP")),
                    line("exponentials executed", lambda t: format_rate(t.exponentials.executed, "exp")),
                ],
            ),
            Section("bytes at the SM boundary", traffic(lambda t: t.sm)),
            Section(
                "bytes at HBM, behind the L2",
                [
                    *traffic(lambda t: t.hbm),
                    line("reads between", lambda t: " – ".join(map(format_bytes, dict.fromkeys(t.hbm_reads)))),
                ],
            ),
            Section("bytes, compulsory", [line("total", lambda t: format_bytes(t.compulsory.total))]),
            Section(
                "",
                [
                    line("bound longest by", lambda t: t.bound_by_label, strong=True),
                    line("time at least", lambda t: format_seconds(t.seconds_at_least), strong=True),
                ],
            ),
        ],
    )
