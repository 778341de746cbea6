"""`rooflinecli tiles`: which tiles fit on chip, what limits them, and which is best."""

from __future__ import annotations

from typing import Annotated, Any, get_args

import typer

from rooflinecli.cli.options import OutputOptions, WorkloadOptions, count, profile, takes
from rooflinecli.errors import InputError, naming
from rooflinecli.memory.fitting import DOUBLING, Capacity, Convention, Criterion, fitting_tiles
from rooflinecli.report import tiles as report
from rooflinecli.report.formats import render
from rooflinecli.report.output import emit
from rooflinecli.units import parse_quantity

_TILES, _CHIP = "Tiles", "On chip"


def _option(*names: str, panel: str, help: str, metavar: str = "COUNT") -> Any:
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel)


@takes
def command(
    workload: WorkloadOptions,
    gpu: Annotated[
        list[str] | None,
        _option("--gpu", panel=_CHIP, metavar="ID|FILE",
                help="GPU profile: an id, a family (a100, h100), a YAML file, auto; repeatable. Default: a100."),
    ] = None,
    working_set: Annotated[
        str,
        _option("--working-set", panel=_CHIP, metavar="kernel|scores|full",
                help="What must fit: as kernels hold it; Q, K, V and S; the same with O and row statistics."),
    ] = "kernel",
    capacity: Annotated[
        str, _option("--capacity", panel=_CHIP, metavar="block|sm", help="What a block may take, or all an SM has.")
    ] = "block",
    sram: Annotated[
        str | None, _option("--sram", panel=_CHIP, metavar="SIZE", help="On-chip memory, not the GPU's: 192KiB.")
    ] = None,
    stages: Annotated[
        str, _option("--stages", panel=_CHIP, help="Copies of K and V in flight, of the working set `kernel`.")
    ] = "2",
    by: Annotated[
        str,
        _option("--by", panel=_TILES, metavar="intensity|sm-bytes|product|occupancy",
                help="What makes a tile the best; among equals the larger Br x Bc, then fewer bytes on chip."),
    ] = "product",
    step: Annotated[
        str, _option("--step", panel=_TILES, metavar="COUNT|x2", help="Sides are multiples of it; x2: powers of two.")
    ] = "16",
    br: Annotated[str | None, _option("--br", panel=_TILES, help="Only tiles with so many rows of Q.")] = None,
    bc: Annotated[str | None, _option("--bc", panel=_TILES, help="Only tiles with so many rows of K/V.")] = None,
    pack_gqa: Annotated[
        bool, typer.Option("--pack-gqa", rich_help_panel=_TILES, help="Query heads of a group share a tile.")
    ] = False,
    top: Annotated[str, _option("--top", panel=_TILES, help="Tiles a table shows; other formats hold all.")] = "20",
    *,
    out: OutputOptions,
) -> None:  # fmt: skip
    """Which tiles Br x Bc fit on chip, what limits them, blocks per SM and intensity; the best by a criterion."""
    shape = out.check()
    for option, given, known in (("--working-set", working_set, Convention), ("--capacity", capacity, Capacity),
                                 ("--by", by, Criterion)):  # fmt: skip
        if given not in get_args(known):
            raise InputError(f"{option} {given}: must be one of {', '.join(get_args(known))}")
    if workload.s_dtype is not None and working_set == "kernel":
        raise InputError(
            f"--s-dtype {workload.s_dtype}: kernels hold S in registers, in fp32",
            "--working-set scores or full holds it in memory",
        )
    problem = workload.read()
    how: dict[str, Any] = {
        "by": by,
        "working_set": working_set,
        "capacity": capacity if sram is None else _size(sram),
        "stages": count("--stages", stages, least=1),
        "step": step if step == DOUBLING else count("--step", step, least=1),
        "pack_gqa": pack_gqa,
    }
    most = count("--top", top, least=1)
    options = {
        **{name: value for name, value in how.items() if name != "working_set"},
        "convention": working_set,
        "br": None if br is None else count("--br", br, least=1),
        "bc": None if bc is None else count("--bc", bc, least=1),
    }
    found = [fitting_tiles(problem, profile(name), **options) for name in gpu or ["a100"]]
    refusals = [each.refusal for each in found if each.refusal is not None]
    if len(refusals) == len(found):
        raise InputError(refusals[0])
    emit(render(report.view(problem, found, how, most), shape), out.output, force=out.force)


def _size(text: str) -> int:
    with naming("--sram", text):
        value = parse_quantity(text, "B")
    if value < 1:
        raise InputError(f"--sram {text}: must be more than nothing")
    return int(value)
