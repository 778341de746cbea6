"""`rooflinecli sweep`: the account of many workloads, one row each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from rooflinecli.cli.cases import account_cases
from rooflinecli.cli.model_option import read_model
from rooflinecli.cli.options import KernelOptions, OutputOptions, WorkloadOptions, takes
from rooflinecli.cli.pictures import PlotCommand, PlotOption, draw_files, draw_terminal, read_pictures
from rooflinecli.report import sweep as report
from rooflinecli.report.formats import render
from rooflinecli.report.output import emit
from rooflinecli.sweep import COUNTS, NAMES, Sweep, distinct, parse_sweep

if TYPE_CHECKING:
    from rooflinecli.cli.pictures import Pictures
    from rooflinecli.grid import Grid

_SWEEP = "Sweep"
Options = TypeVar("Options", WorkloadOptions, KernelOptions)


@takes
def command(
    workload: WorkloadOptions,
    kernel: KernelOptions,
    sweep: Annotated[
        list[str] | None,
        typer.Option("--sweep", metavar="OPTION=VALUES", rich_help_panel=_SWEEP,
                     help="Another way to write a list or range, and the one for causal=no,yes; repeatable."),
    ] = None,
    plot: PlotOption = None,
    *,
    out: OutputOptions,
) -> None:  # fmt: skip
    """One row for each workload, algorithm and GPU, where options take lists and ranges.

    --N 256..128k doubles, --N 1k,2k,4k lists, --d 64..256:+64 adds, --dtype fp16,bf16 names.
    """
    pictures = read_pictures(plot, out)
    shape = out.check()
    sweeps = distinct([*_ranges(workload), *_ranges(kernel), *map(parse_sweep, sweep or ())])
    spec = None if workload.model is None else read_model(workload.model)
    found = account_cases(_without(workload, sweeps), _without(kernel, sweeps), spec, sweeps)
    swept = [each.option for each in sweeps]
    for each in found.refused[:1]:
        print(f"warning: {len(found.refused)} left out: {report.named(each)}: {each.reason}", file=sys.stderr)
    if pictures:
        _draw(found, swept, kernel, pictures, force=out.force)
    if not pictures.terminal or out.output is not None:
        emit(render(report.view(found, swept, kernel.exclude or ()), shape), out.output, force=out.force)


def _ranges(options: WorkloadOptions | KernelOptions) -> Iterator[Sweep]:
    """The options that were given a list or a range."""
    for option, field in {**COUNTS, **NAMES}.items():
        text = getattr(options, field, None)
        if text is not None and ("," in text or (".." in text and option in COUNTS)):
            yield parse_sweep(f"{option}={text}", f"--{option} {text}")


def _without(options: Options, sweeps: tuple[Sweep, ...]) -> Options:
    """The options without those that are swept: each case brings its own value."""
    swept = {each.field for each in sweeps} & {field.name for field in fields(options)}
    return replace(options, **dict.fromkeys(swept))  # type: ignore[arg-type]


def _draw(found: Grid, swept: list[str], kernel: KernelOptions, pictures: Pictures, *, force: bool) -> None:
    from rooflinecli.report.plot.build import from_grid

    chart = from_grid(found, swept=swept, excluded=kernel.exclude or ())
    draw_files(chart, pictures, force=force)
    draw_terminal(chart, pictures)


COMMAND_CLASS = PlotCommand
