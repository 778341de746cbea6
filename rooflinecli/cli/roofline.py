"""`rooflinecli roofline`: ceilings, ridges, what is attainable and what binds; and the picture of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rooflinecli.cli.cases import account_cases
from rooflinecli.cli.model_option import read_model
from rooflinecli.cli.options import KernelOptions, OutputOptions, WorkloadOptions, takes
from rooflinecli.cli.pictures import PANEL, PlotCommand, PlotOption, draw_files, draw_terminal, read_pictures
from rooflinecli.errors import InputError
from rooflinecli.layers import account_layers
from rooflinecli.report import roofline as report
from rooflinecli.report.formats import render
from rooflinecli.report.output import check_writable, emit, write_whole
from rooflinecli.report.plot.build import from_grid
from rooflinecli.report.plot.chart import LEVELS, Chart, Level
from rooflinecli.report.plot.read import overlay, read_charts
from rooflinecli.sweep import Sweep, parse_sweeps
from rooflinecli.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from rooflinecli.cli.pictures import Pictures
    from rooflinecli.models.spec import ModelSpec


@takes
def command(
    workload: WorkloadOptions,
    kernel: KernelOptions,
    plot: PlotOption = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option("--sweep", metavar="OPTION=VALUES", rich_help_panel=PANEL,
                     help="Values an option takes: N=256..128k (doubling), N=1k,2k,4k, d=64..256:+64; repeatable."),
    ] = None,
    level: Annotated[
        list[str] | None,
        typer.Option("--level", metavar="LEVEL", rich_help_panel=PANEL,
                     help="hbm, sm, textbook; repeatable. Default: all."),
    ] = None,
    all_peaks: Annotated[
        bool, typer.Option("--all-peaks", rich_help_panel=PANEL, help="Draw every format's peak, to compare with.")
    ] = False,
    theme: Annotated[
        str, typer.Option("--theme", metavar="light|dark", rich_help_panel=PANEL, help="Colours of a figure.")
    ] = "light",
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="FILE", rich_help_panel=PANEL,
                     help="Write what was drawn to a .json or .csv, to draw it again with --from."),
    ] = None,
    source: Annotated[
        list[Path] | None,
        typer.Option("--from", metavar="FILE", rich_help_panel=PANEL,
                     help="Draw a result file (roofline, bytes, measure) without computing; repeatable, they overlay."),
    ] = None,
    *,
    out: OutputOptions,
) -> None:  # fmt: skip
    """Roofs, ridges, what is attainable and what binds, per memory level and unit; and the picture of it."""
    pictures = read_pictures(plot, out, theme)
    _check_data(data, out)
    levels = _levels(level)
    sweeps = parse_sweeps(sweep or ())
    shape = out.check()
    charts = read_charts(source or ())
    if not charts or workload.n is not None or workload.model is not None or sweeps:
        charts.append(_computed(workload, kernel, sweeps, all_peaks))
    chart = overlay(charts)
    chart = chart if levels is None else chart.only(levels)
    _write(chart, pictures, data, shape, out)


def _computed(workload: WorkloadOptions, kernel: KernelOptions, sweeps: tuple[Sweep, ...], all_peaks: bool) -> Chart:
    spec = None if workload.model is None else read_model(workload.model)
    found = account_cases(workload, kernel, spec, sweeps)
    notes = () if spec is None or sweeps or found.refused else _totals(workload, spec, kernel.read())
    swept = tuple(each.option for each in sweeps)
    return from_grid(found, swept=swept, excluded=kernel.exclude or (), all_peaks=all_peaks, notes=notes)


def _totals(workload: WorkloadOptions, spec: ModelSpec, named: Mapping[str, Any]) -> Iterator[str]:
    """What all layers of a model take, one after the other, in words."""
    for total in account_layers(workload.layers(spec), **named).totals:
        where = f" on {total.gpu}" if len(named["gpu"]) > 1 else ""
        time, moved = format_seconds(total.seconds_at_least), format_bytes(total.hbm.total)
        yield (
            f"{total.algorithm}, all layers one after the other{where}: at least {time}, {moved} at HBM, "
            f"bound longest by {total.bound_by_label}"
        )


def _check_data(data: Path | None, out: OutputOptions) -> None:
    if data is None:
        return
    if data.suffix.lower() not in (".json", ".csv"):
        raise InputError(f"--data {data}: its suffix must be .json or .csv")
    check_writable(data, force=out.force, option="--data")


def _levels(asked: list[str] | None) -> tuple[Level, ...] | None:
    for name in asked or ():
        if name not in LEVELS:
            raise InputError(f"--level {name}: must be one of {', '.join(LEVELS)}")
    return tuple(level for level in LEVELS if level in asked) if asked else None


def _write(chart: Chart, pictures: Pictures, data: Path | None, shape: str, out: OutputOptions) -> None:
    """Everything that was asked for; files first, so that a closed pipe costs none of them."""
    shown = report.view(chart)
    draw_files(chart, pictures, force=out.force)
    if data is not None:
        text = render(shown, data.suffix.lower().removeprefix(".")).rstrip("\n") + "\n"
        write_whole(data, text.encode(), force=out.force, option="--data")
        print(f"wrote {data}", file=sys.stderr)
    draw_terminal(chart, pictures)
    if not pictures.terminal or out.output is not None:
        emit(render(shown, shape), out.output, force=out.force)


COMMAND_CLASS = PlotCommand
