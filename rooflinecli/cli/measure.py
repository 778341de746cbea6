"""`rooflinecli measure`: the bundled kernels on this GPU, right first and then timed, beside their bounds."""

from __future__ import annotations

import sys
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rooflinecli.cli.options import OutputOptions, WorkloadOptions, takes
from rooflinecli.cli.pictures import PlotCommand, PlotOption, draw_files, draw_terminal, read_pictures
from rooflinecli.cli.progress import progress
from rooflinecli.errors import CheckFailedError, InputError, unknown_name
from rooflinecli.measurement import card, suites
from rooflinecli.measurement.measure import check, measure
from rooflinecli.measurement.runner import describe
from rooflinecli.report import measure as report
from rooflinecli.report.formats import render
from rooflinecli.report.output import emit

if TYPE_CHECKING:
    from rooflinecli.measurement.records import Measurement

_PANEL = "Measurement"


def _option(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=_PANEL, **more)


@takes
def command(
    workload: WorkloadOptions,
    out: OutputOptions,
    algorithm: Annotated[
        list[str] | None,
        _option("--algorithm", "-a", metavar="NAME", help="An algorithm or a kernel; repeatable. Default: all."),
    ] = None,
    gpu: Annotated[
        str, _option("--gpu", metavar="auto|ID|FILE", help="Profile to measure against; must be of the card here.")
    ] = card.AUTO,
    allow_mismatch: Annotated[
        bool, _option("--allow-mismatch", help="Measure against another card's profile all the same.")
    ] = False,
    suite: Annotated[
        str | None,
        _option("--suite", metavar="quick|full", help="What to measure where no workload is given. Default: quick."),
    ] = None,
    peers: Annotated[bool, _option("--peers", help="Measure torch's attention backends beside the kernels.")] = False,
    check_only: Annotated[
        bool, _option("--check-only", help="Check the kernels through Triton's interpreter on the CPU; no times.")
    ] = False,
    plot: PlotOption = None,
    seed: Annotated[int, _option("--seed", min=0, help="Seed of the random inputs.")] = 0,
) -> None:
    """Run the bundled kernels on this GPU: checked against float64, timed with a cold L2, beside their bounds."""
    pictures = read_pictures(plot, out)
    shape = out.check()
    given = any(getattr(workload, field.name) is not None for field in fields(workload))
    if check_only and pictures:
        raise InputError("--plot: --check-only measures no times, so there are no points to draw")
    if given and suite is not None:
        raise InputError(f"--suite {suite}: measures workloads of its own", "leave out --suite, or the workload")
    if suite is not None and suite not in suites.SUITES:
        raise unknown_name("suite", suite, suites.SUITES)
    calls = () if workload.model is None else tuple(workload.layers())
    asked = [call.workload for call in calls] or ([workload.read()] if given else None)
    with progress() as tell:
        if check_only:
            found = check(asked, suite=suite or "check", algorithms=algorithm, seed=seed, progress=tell)
        else:
            found = measure(
                asked, suite=suite or "quick", algorithms=algorithm, gpu=gpu, allow_mismatch=allow_mismatch,
                peers=peers, seed=seed, progress=tell,
            )  # fmt: skip
    found = replace(found, layers=tuple((call.count, call.workload) for call in calls))
    # The figures come first: whatever a picture meets, what was measured is kept.
    emit(render(report.view(found), shape), out.output, force=out.force)
    if pictures:
        chart = report.chart_of(found)
        draw_files(chart, pictures, force=out.force)
        draw_terminal(chart, pictures)
    _verdict(found)


COMMAND_CLASS = PlotCommand


def _verdict(found: Measurement) -> None:
    for warning in found.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if found.interrupted:
        raise KeyboardInterrupt
    if found.wrong:
        point = found.wrong[0]
        raise CheckFailedError(f"{point.kernel} {describe(point.workload)}: {point.reason}")
    if not any(point.status in ("measured", "checked") for point in found.points):
        raise CheckFailedError(
            f"nothing could be measured: {found.points[0].reason}" if found.points else "nothing ran"
        )
