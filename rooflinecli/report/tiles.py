"""How tiles that fit are shown: the JSON `rooflinecli/tiles/1`, flat records, one sheet a GPU."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rooflinecli import __version__
from rooflinecli.report.sheet import Line, Section, Sheet, View, flatten
from rooflinecli.units import format_bytes, format_capacity

if TYPE_CHECKING:
    from rooflinecli.memory.fitting import Fit, Fitting
    from rooflinecli.workload import Workload

SCHEMA = "rooflinecli/tiles/1"
_CONVENTIONS = {
    "kernel": "Q and {stages} copies of K and V in shared memory; S, O and row statistics in registers, fp32",
    "scores": "Q, K, V and S",
    "full": "Q, K, V, S, O and row statistics",
}
_CRITERIA = {
    "intensity": "highest textbook intensity",
    "sm-bytes": "fewest bytes at the SM boundary",
    "product": "largest Br × Bc",
    "occupancy": "highest occupancy",
}


def view(workload: Workload, found: Sequence[Fitting], how: Mapping[str, Any], top: int) -> View:
    """The tiles, ready for any format.

    how: the options the tiles were chosen with: `by`, `working_set`, `capacity`, `stages`, `step`, `pack_gqa`.
    top: tiles a table shows; the other formats hold all.
    """
    tiles = [
        {"gpu": each.profile.id, "rank": rank, "best": rank == 1, **_tile(fit)}
        for each in found
        for rank, fit in enumerate(each.fits, 1)
    ]
    document = {
        "schema": SCHEMA,
        "version": __version__,
        "command": ["rooflinecli", *sys.argv[1:]],
        "workload": workload.echo(),
        **how,
        "gpus": [
            {"id": each.profile.id, "name": each.profile.name, "capacity_bytes": each.capacity, "refusal": each.refusal}
            for each in found
        ],
        "tiles": tiles,
    }
    records = [{**flatten(tile), "limited_by": " and ".join(tile["limited_by"])} for tile in tiles]
    return View(document, records, lambda: [_sheet(workload, each, how, top) for each in found])


def _tile(fit: Fit) -> dict[str, Any]:
    return {
        "br": fit.br,
        "bc": fit.bc,
        "product": fit.product,
        "bytes": fit.bytes,
        "working_set": asdict(fit.needs),
        "warps": fit.warps,
        "registers_a_thread": fit.registers,
        "blocks_per_sm": fit.blocks_per_sm,
        "limited_by": list(fit.limited_by),
        "occupancy": fit.occupancy,
        "intensity": fit.intensity,
        "sm_bytes": fit.sm_bytes,
    }


def _sheet(workload: Workload, found: Fitting, how: Mapping[str, Any], top: int) -> Sheet:
    profile, shown = found.profile, found.fits[:top]
    keys = "" if workload.n_kv == workload.n_q else f" against {workload.n_kv} keys"
    notes = [] if found.refusal is None else [f"{found.refusal}."]
    if len(found.fits) > len(shown):
        notes.append(f"The first {len(shown)} of {len(found.fits)}; --top shows more, --format csv all.")
    return Sheet(
        title=f"Tiles on {profile.name} ({profile.id}) for N={workload.n_q}{keys}, d={workload.d}, {workload.dtype}",
        subtitle=[
            f"on chip: {_CONVENTIONS[how['working_set']].format(**how)}; {format_capacity(found.capacity)} for a block",
            f"best first: {_CRITERIA[how['by']]}; blocks and warps an SM; FLOP/B and bytes at the SM boundary, flash2",
        ],
        columns=["Br·Bc", "on chip", "blocks", "warps", "limited by", "FLOP/B", "SM bytes"],
        sections=[Section("", [_line(fit, best=rank == 0) for rank, fit in enumerate(shown)])],
        notes=notes,
    )


def _line(fit: Fit, *, best: bool) -> Line:
    return Line(
        f"{fit.br} × {fit.bc}{' best' if best else ''}",
        [
            str(fit.product),
            format_capacity(fit.bytes),
            str(fit.blocks_per_sm),
            f"{fit.warps * fit.blocks_per_sm}" + ("" if fit.occupancy is None else f" ({fit.occupancy:.0%})"),
            ", ".join(name.removeprefix("shared ") for name in fit.limited_by) or "—",
            "—" if fit.intensity is None else f"{fit.intensity:.4g}",
            format_bytes(fit.sm_bytes),
        ],
        strong=best,
    )
