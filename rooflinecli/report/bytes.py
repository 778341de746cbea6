"""How an account is shown: the JSON contract `rooflinecli/bytes/1`, flat records, one sheet a GPU."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rooflinecli import __version__
from rooflinecli.memory.cache import SCALED, cache_of
from rooflinecli.report.sheet import Line, Section, Sheet, View, flatten
from rooflinecli.units import format_bytes, format_capacity, format_rate, format_seconds

if TYPE_CHECKING:
    from rooflinecli.accounting.ledger import Traffic
    from rooflinecli.calculator import Account, Result
    from rooflinecli.hardware import Profile
    from rooflinecli.memory.l2 import HbmTraffic

SCHEMA = "rooflinecli/bytes/1"


def view(account: Account) -> View:
    """The account, ready for any format."""
    results = [result_document(result) for result in account.results]
    workload = account.workload.echo()
    document = {**head([account]), "workload": workload, "results": results}
    records = [flatten({"workload": workload, **result}) for result in results]
    return View(document, records, lambda: [sheet(account, profile) for profile in account.gpus])


def head(accounts: Sequence[Account]) -> dict[str, Any]:
    """What a document of accounts on the same GPUs begins with."""
    first = accounts[0]
    gpus = [_gpu(profile, accounts) for profile in first.gpus]
    return {
        "schema": SCHEMA,
        "version": __version__,
        "command": ["rooflinecli", *sys.argv[1:]],
        "memory_model": first.memory_model,
        "compute_dtype": first.compute_dtype,
        "excluded": list(first.excluded),
        "gpu": gpus[0],
        "gpus": gpus,
    }


def _gpu(profile: Profile, accounts: Sequence[Account]) -> dict[str, Any]:
    ceilings = {
        bound.ceiling.id: bound.ceiling
        for account in accounts
        for result in account.results
        if result.gpu == profile.id
        for bound in result.bounds
    }
    figures = {
        name: {
            "label": ceiling.label, "value": ceiling.rate, "unit": ceiling.unit, "source": ceiling.source,
            "clock_hz": ceiling.clock, "measured": ceiling.measured,
        }
        for name, ceiling in ceilings.items()
    }  # fmt: skip
    cache = cache_of(profile)
    kept = (
        None
        if cache is None
        else {
            "shared_bytes": round(cache.shared),
            "private_bytes": round(cache.private),
            "spread": cache.spread,
            "provenance": cache.provenance,
        }
    )
    return {"id": profile.id, "name": profile.name, **figures, "l2_model": kept}


def result_document(result: Result) -> dict[str, Any]:
    """One entry of `results` in the JSON; measured points carry the same as their prediction."""
    cost, tile, hbm = result.cost, result.cost.tile, result.hbm
    sm, floor = cost.traffic("sm"), cost.traffic("compulsory")
    return {
        "gpu": result.gpu,
        "algorithm": result.algorithm,
        "tile": None if tile is None else asdict(tile),
        "flops": asdict(cost.flops),
        "exponentials": asdict(cost.exponentials),
        "bytes": {
            "sm": {"read": sm.read, "write": sm.write, "total": sm.total},
            "hbm": {
                "read": hbm.read, "write": hbm.write, "total": hbm.total, "read_low": hbm.read_low,
                "read_high": hbm.read_high, "write_low": hbm.write_low, "regime": hbm.regime,
            },
            "compulsory": {"read": floor.read, "write": floor.write, "total": floor.total},
        },
        "intensity": asdict(result.intensity),
        "bounds": [
            {
                "ceiling": bound.ceiling.id,
                "amount": bound.amount,
                "seconds": bound.seconds,
                "flops_per_s": bound.flops_per_s if math.isfinite(bound.flops_per_s) else None,
            }
            for bound in result.bounds
        ],
        "bound_by": result.bound_by,
        "seconds_at_least": result.seconds_at_least,
        "textbook": asdict(result.textbook),
        "ledger": [asdict(row) for row in cost.ledger],
    }  # fmt: skip


def sheet(account: Account, profile: Profile) -> Sheet:
    """The algorithms of one GPU side by side."""
    results = [result for result in account.results if result.gpu == profile.id]
    naive = next((result for result in results if result.algorithm == "naive"), None)

    def lines(label: str, cell: Callable[[Result], str], strong: bool = False) -> Line:
        return Line(label, [cell(result) for result in results], strong)

    sections = [
        Section("", [lines("tile Br × Bc", _tile)]),
        Section(
            "FLOPs (FMA = 2)",
            [
                lines("useful", lambda r: format_rate(r.cost.flops.useful, "FLOP")),
                lines("executed, masked parts too", lambda r: format_rate(r.cost.flops.executed, "FLOP")),
                lines("exponentials executed", lambda r: format_rate(r.cost.exponentials.executed, "exp")),
            ],
        ),
        Section("bytes at the SM boundary", _level_lines(results, naive, "sm")),
        Section(
            "bytes at HBM, behind the L2",
            [
                *_level_lines(results, naive, "hbm"),
                lines("reads between", lambda r: _interval(r.hbm.read_low, r.hbm.read_high)),
                lines("regime", lambda r: r.hbm.regime),
            ],
        ),
        Section("bytes, compulsory", [lines("total", lambda r: format_bytes(r.cost.traffic("compulsory").total))]),
        Section(
            f"textbook roofline (SM bytes over HBM), ridge {results[0].textbook.ridge:.1f} FLOP/B",
            [
                lines("intensity", lambda r: _ratio(r.textbook.intensity, " FLOP/B")),
                lines("attainable", lambda r: format_rate(r.textbook.attainable_flops_per_s, "FLOP/s")),
                lines("share of peak", lambda r: f"{r.textbook.share_of_peak:.1%}"),
                lines("time at least", lambda r: format_seconds(r.textbook.seconds_at_least)),
                lines("speed-up over naive", lambda r: _ratio(r.textbook.speedup_over_naive, "×")),
            ],
        ),
        Section(f"time at least, by ceiling ({account.memory_model} memory model)", _ceiling_lines(results)),
        Section(
            "",
            [
                lines("bound by", lambda r: r.bounds[0].ceiling.label, strong=True),
                lines("time at least", lambda r: format_seconds(r.seconds_at_least), strong=True),
                lines("useful work at best", lambda r: format_rate(r.bounds[0].flops_per_s, "FLOP/s"), strong=True),
            ],
        ),
    ]
    return Sheet(
        title=_title(account),
        subtitle=_ceilings_in_words(profile, results),
        columns=[result.algorithm for result in results],
        sections=sections,
        notes=_notes(account, results, profile),
    )


def _title(account: Account) -> str:
    w = account.workload
    heads = "1 head" if w.heads == 1 else f"{w.heads} heads"
    heads += "" if w.kv_heads == w.heads else f" over {w.kv_heads} K/V head{'' if w.kv_heads == 1 else 's'}"
    length = f"N={w.n_q}" if w.n_kv == w.n_q else f"N={w.n_q} against {w.n_kv} keys"
    dim = f"d={w.d}" if w.d_v == w.d else f"d={w.d}, d_v={w.d_v}"
    formats = w.dtype if w.kv_dtype == w.dtype else f"{w.dtype}, K/V {w.kv_dtype}"
    mask = [*(["causal"] if w.causal else []), *([f"window {w.window}"] if w.window else [])]
    return "Attention, " + ", ".join([f"batch {w.batch}", heads, length, dim, formats, *mask])


def _ceilings_in_words(profile: Profile, results: list[Result]) -> list[str]:
    ceilings = {bound.ceiling.id: bound.ceiling for result in results for bound in result.bounds}
    rates = [f"{ceiling.label} {format_rate(ceiling.rate, ceiling.unit)}" for ceiling in ceilings.values()]
    cache = "L2 unknown" if profile.l2.size is None else f"L2 {format_capacity(profile.l2.size.value)}"
    return [f"{profile.name} ({profile.id}), {cache}", "; ".join(rates)]


def _level_lines(results: list[Result], naive: Result | None, level: str) -> list[Line]:
    def moved(result: Result) -> Traffic | HbmTraffic:
        return result.hbm if level == "hbm" else result.cost.traffic("sm")

    found = [
        Line("read", [format_bytes(moved(result).read) for result in results]),
        Line("written", [format_bytes(moved(result).write) for result in results]),
        Line("total", [format_bytes(moved(result).total) for result in results], strong=True),
    ]
    if naive is not None and len(results) > 1 and moved(naive).total:
        shares = [_ratio(moved(result).total / moved(naive).total, "×") for result in results]
        found.append(Line("against naive", shares))
    return found


def _ceiling_lines(results: list[Result]) -> list[Line]:
    names = {bound.ceiling.id: bound.ceiling.label for result in results for bound in result.bounds}
    by_name = [{bound.ceiling.id: bound.seconds for bound in result.bounds} for result in results]
    return [
        Line(label, [format_seconds(seconds[name]) if name in seconds else "—" for seconds in by_name])
        for name, label in names.items()
    ]


def _tile(result: Result) -> str:
    tile = result.cost.tile
    if tile is None:
        return "—"
    return f"{tile.br} × {tile.bc}" + (f", {tile.splits} splits" if tile.splits > 1 else "")


def _interval(low: int, high: int) -> str:
    return format_bytes(low) if low == high else f"{format_bytes(low)} – {format_bytes(high)}"


def _ratio(value: float | None, unit: str) -> str:
    return "—" if value is None else f"{value:.3g}{unit}"


def _notes(account: Account, results: list[Result], profile: Profile) -> list[str]:
    """What a reader of the two byte counts should know about this case."""
    notes = []
    by_name = {result.algorithm: result for result in results}
    naive, flash = by_name.get("naive"), by_name.get("flash2")
    if naive and flash:
        ratio = naive.cost.traffic("sm").total / max(1, flash.cost.traffic("sm").total)
        saved = naive.hbm.total / max(1, flash.hbm.total)
        if saved > 2 * ratio:
            notes.append(
                f"At the SM boundary naive moves {ratio:.4g}× what flash2 moves: the textbook roofline credits tiling "
                f"with {'nothing' if ratio < 1.05 else f'{ratio:.3g}×'}. Behind the L2 it is {saved:.3g}×: K and V are "
                f"re-read from the L2, and {format_bytes(flash.hbm.total)} reach HBM against "
                f"{format_bytes(naive.hbm.total)}."
            )
    unknown = [
        name
        for name, figure in (("L2 bandwidth", profile.l2.bandwidth), ("exponential rate", profile.exp_rate))
        if figure is None
    ]
    if unknown:
        notes.append(f"Not bounded by {' or '.join(unknown)}: the profile of {profile.id} does not know it.")
    cache = cache_of(profile)
    if cache is not None and cache.provenance == SCALED:
        notes.append(f"Bytes at HBM of {profile.id}: the L2 model is {SCALED}; see the interval.")
    if account.excluded:
        notes.append(f"Left out of the ledgers: {', '.join(account.excluded)}.")
    return notes
