"""`rooflinecli roofline`: ceilings, ridges, what is attainable and what binds; and the picture of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from rooflinecli.cli.model_option import read_model
from rooflinecli.cli.options import KernelOptions, OutputOptions, WorkloadOptions, takes
from rooflinecli.errors import InputError
from rooflinecli.grid import Case, grid
from rooflinecli.layers import account_layers, algorithms_for
from rooflinecli.report import roofline as report
from rooflinecli.report.formats import render
from rooflinecli.report.output import check_writable, emit, write_whole
from rooflinecli.report.plot.build import from_grid
from rooflinecli.report.plot.chart import LEVELS, Chart, Level
from rooflinecli.report.plot.draw import check_drawable, picture
from rooflinecli.report.plot.read import overlay, read_charts
from rooflinecli.sweep import Sweep, Value, combinations, parse_sweeps
from rooflinecli.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from rooflinecli.models.spec import ModelSpec
    from rooflinecli.workload import Workload

_PICTURE = "Picture"
_TERMINAL = "-"


class _PlotCommand(TyperCommand):
    """A command whose `--plot` may stand alone: without a file it means the terminal."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put in what a bare `--plot` stands for."""
        return super().parse_args(ctx, list(_with_terminal(args)))


def _with_terminal(args: list[str]) -> Iterator[str]:
    for index, word in enumerate(args):
        yield word
        follower = args[index + 1] if index + 1 < len(args) else "--"
        if word == "--plot" and follower.startswith("-") and follower != _TERMINAL:
            yield _TERMINAL


@dataclass(frozen=True, slots=True)
class _Pictures:
    """Where the pictures go."""

    files: tuple[Path, ...]
    terminal: bool
    theme: Any
    data: Path | None


@takes
def command(
    workload: WorkloadOptions,
    kernel: KernelOptions,
    plot: Annotated[
        list[str] | None,
        typer.Option("--plot", metavar="[FILE]", rich_help_panel=_PICTURE,
                     help="Draw: alone in the terminal, else to a .png, .svg, .pdf or .html; repeatable."),
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option("--sweep", metavar="OPTION=VALUES", rich_help_panel=_PICTURE,
                     help="Values an option takes: N=256..128k (doubling), N=1k,2k,4k, d=64..256:+64; repeatable."),
    ] = None,
    level: Annotated[
        list[str] | None,
        typer.Option("--level", metavar="LEVEL", rich_help_panel=_PICTURE,
                     help="hbm, sm, textbook; repeatable. Default: all."),
    ] = None,
    all_peaks: Annotated[
        bool, typer.Option("--all-peaks", rich_help_panel=_PICTURE, help="Draw every format's peak, to compare with.")
    ] = False,
    theme: Annotated[
        str, typer.Option("--theme", metavar="light|dark", rich_help_panel=_PICTURE, help="Colours of a figure.")
    ] = "light",
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="FILE", rich_help_panel=_PICTURE,
                     help="Write what was drawn to a .json or .csv, to draw it again with --from."),
    ] = None,
    source: Annotated[
        list[Path] | None,
        typer.Option("--from", metavar="FILE", rich_help_panel=_PICTURE,
                     help="Draw a result file (roofline, bytes, measure) without computing; repeatable, they overlay."),
    ] = None,
    *,
    out: OutputOptions,
) -> None:  # fmt: skip
    """Roofs, ridges, what is attainable and what binds, per memory level and unit; and the picture of it."""
    pictures = _pictures(plot, data, theme, out)
    levels = _levels(level)
    sweeps = parse_sweeps(sweep or ())
    shape = out.check()
    charts = read_charts(source or ())
    if not charts or workload.n is not None or workload.model is not None or sweeps:
        charts.append(_computed(workload, kernel, sweeps, all_peaks))
    chart = overlay(charts)
    chart = chart if levels is None else chart.only(levels)
    _write(chart, pictures, shape, out)


def _computed(workload: WorkloadOptions, kernel: KernelOptions, sweeps: tuple[Sweep, ...], all_peaks: bool) -> Chart:
    given = {name: value for name, value in kernel.read().items() if name not in ("gpu", "algorithms")}
    named = kernel.read()
    swept = {each.option: each.field for each in sweeps}
    spec = None if workload.model is None else read_model(workload.model)
    cases = [
        case
        for at in combinations(sweeps)
        for case in _cases(workload, kernel, spec, given, at, {swept[name]: value for name, value in at.items()})
    ]
    found = grid(cases, named["gpu"], named["algorithms"])
    notes = () if spec is None or sweeps or found.refused else _totals(workload, spec, named)
    return from_grid(found, swept=tuple(swept), excluded=kernel.exclude or (), all_peaks=all_peaks, notes=notes)


def _totals(workload: WorkloadOptions, spec: ModelSpec, named: Mapping[str, Any]) -> Iterator[str]:
    """What all layers of a model take, one after the other, in words."""
    for total in account_layers(workload.layers(spec), **named).totals:
        where = f" on {total.gpu}" if len(named["gpu"]) > 1 else ""
        time, moved = format_seconds(total.seconds_at_least), format_bytes(total.hbm.total)
        yield (
            f"{total.algorithm}, all layers one after the other{where}: at least {time}, {moved} at HBM, "
            f"bound longest by {total.bound_by_label}"
        )


def _cases(
    workload: WorkloadOptions,
    kernel: KernelOptions,
    spec: ModelSpec | None,
    given: Mapping[str, Any],
    at: Mapping[str, Value],
    values: Mapping[str, Value],
) -> Iterator[Case]:
    """A case of one combination of swept values, or of a model one for each call of its layers.

    Swept values stand in the place of what was typed.
    """
    texts = {name: value if isinstance(value, bool) else str(value) for name, value in values.items()}
    names = {field.name for field in fields(WorkloadOptions)}
    here = replace(workload, **{name: text for name, text in texts.items() if name in names})  # type: ignore[arg-type]
    tiles = {name: text for name, text in texts.items() if name not in names}

    def options() -> Mapping[str, Any]:
        if not tiles:
            return given
        again = replace(kernel, gpu=[], **tiles).read()  # type: ignore[arg-type]
        return {name: again[name] for name in given}

    if spec is None:
        yield Case(at, lambda: (here.read(), options()))
        return
    try:
        calls = here.layers(spec)
    except InputError as error:
        yield Case(at, partial(_refuse, error))
        return
    for call in calls:
        label = {"layer": f"{call.count} {call.kind}"} if len(calls) > 1 else {}
        yield Case({**at, **label}, partial(_called, call.workload, options), algorithms_for(call, kernel.algorithm))


def _called(workload: Workload, options: Callable[[], Mapping[str, Any]]) -> tuple[Workload, Mapping[str, Any]]:
    return workload, options()


def _refuse(error: InputError) -> NoReturn:
    raise error


def _pictures(plot: list[str] | None, data: Path | None, theme: str, out: OutputOptions) -> _Pictures:
    """What to draw, after making sure that it can be drawn and written.

    Raises:
        InputError, UnavailableError: it cannot.
    """
    if theme not in ("light", "dark"):
        raise InputError(f"--theme {theme}: must be light or dark")
    files = tuple(Path(name) for name in plot or () if name != _TERMINAL)
    for path in files:
        check_drawable(path)
        check_writable(path, force=out.force, option="--plot")
    if data is not None:
        if data.suffix.lower() not in (".json", ".csv"):
            raise InputError(f"--data {data}: its suffix must be .json or .csv")
        check_writable(data, force=out.force, option="--data")
    terminal = _TERMINAL in (plot or ())
    if terminal and out.format is not None and out.output is None:
        raise InputError(
            f"--plot: the terminal's picture and --format {out.format} both go to standard output",
            "--output FILE takes the figures",
        )
    return _Pictures(files, terminal, theme, data)


def _levels(asked: list[str] | None) -> tuple[Level, ...] | None:
    for name in asked or ():
        if name not in LEVELS:
            raise InputError(f"--level {name}: must be one of {', '.join(LEVELS)}")
    return tuple(level for level in LEVELS if level in asked) if asked else None


def _write(chart: Chart, pictures: _Pictures, shape: str, out: OutputOptions) -> None:
    """Everything that was asked for; files first, so that a closed pipe costs none of them."""
    shown = report.view(chart)
    for path in pictures.files:
        write_whole(path, picture(chart, path, pictures.theme), force=out.force, option="--plot")
        print(f"wrote {path}", file=sys.stderr)
    if pictures.data is not None:
        text = render(shown, pictures.data.suffix.lower().removeprefix(".")).rstrip("\n") + "\n"
        write_whole(pictures.data, text.encode(), force=out.force, option="--data")
        print(f"wrote {pictures.data}", file=sys.stderr)
    if pictures.terminal:
        from rooflinecli.report.plot.scene import scene
        from rooflinecli.report.plot.terminal import show

        emit(show(scene(chart)))
    if not pictures.terminal or out.output is not None:
        emit(render(shown, shape), out.output, force=out.force)


group = typer.Typer(add_completion=False)
group.command("roofline", cls=_PlotCommand, context_settings={"help_option_names": ["-h", "--help"]})(command)
