"""`rooflinecli verify`: hardware counters beside predictions, level by level."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rooflinecli.cli.options import KernelOptions, OutputOptions, WorkloadOptions, takes
from rooflinecli.errors import CheckFailedError, InputError, UnavailableError
from rooflinecli.measurement.ncu import reader, verify
from rooflinecli.measurement.runner import describe
from rooflinecli.report import verify as report
from rooflinecli.report.formats import render
from rooflinecli.report.output import emit

if TYPE_CHECKING:
    from rooflinecli.measurement.ncu.verify import Verification

_PANEL = "Counters"


def _option(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=_PANEL, **more)


@takes
def command(
    workload: WorkloadOptions,
    kernel: KernelOptions,
    out: OutputOptions,
    imported: Annotated[
        Path | None,
        _option("--import", metavar="FILE.csv", help="Read a CSV of Nsight Compute instead of running it."),
    ] = None,
    kernel_name: Annotated[
        str | None, _option("--kernel-name", metavar="REGEX", help="With --import: only kernels of this name.")
    ] = None,
    add_up: Annotated[
        bool, _option("--sum", help="With --import: add up launches of one kernel instead of taking their median.")
    ] = False,
    suite: Annotated[
        str | None, _option("--suite", metavar="quick|full", help="Cases to run where no workload is given.")
    ] = None,
    tolerance: Annotated[
        str, _option("--tolerance", metavar="PERCENT", help="How far counters may be off, as in 0.5%.")
    ] = "0.5%",
    replay: Annotated[
        str,
        _option("--replay", metavar="auto|kernel|range",
                help="Count kernel by kernel, or several as one range. Default: as the algorithm is."),
    ] = "auto",
    ncu: Annotated[str | None, _option("--ncu", metavar="PROGRAM", help="Nsight Compute, if not on the PATH.")] = None,
    save_csv: Annotated[
        Path | None, _option("--save-csv", metavar="FILE", help="Keep the CSV that Nsight Compute printed.")
    ] = None,
    allow_mismatch: Annotated[
        bool, _option("--allow-mismatch", help="Compare with another card's predictions all the same.")
    ] = False,
) -> None:  # fmt: skip
    """Lay hardware counters beside predictions, level by level; exit 1 where they differ beyond the tolerance."""
    shape = out.check()
    slack = verify.parse_tolerance(tolerance)
    if replay not in ("auto", "kernel", "range"):
        raise InputError(f"--replay {replay}: must be auto, kernel or range")
    if imported is not None:
        cases = [_from_file(imported, workload, kernel, kernel_name, add_up, slack, allow_mismatch)]
        source: dict[str, Any] = {"file": str(imported)}
    else:
        from rooflinecli.cli.verify_live import run

        cases, source = run(workload, kernel, suite, slack, replay, ncu, save_csv, allow_mismatch, out.force)
    emit(render(report.view(cases, source), shape), out.output, force=out.force)
    _verdict(cases)


def _from_file(
    path: Path, workload: WorkloadOptions, kernel: KernelOptions, name: str | None, add_up: bool, slack: float,
    allow_mismatch: bool,
) -> Verification:  # fmt: skip
    from rooflinecli.calculator import account

    asked = workload.read()
    options = kernel.read()
    options["algorithms"] = options["algorithms"] or ["flash2"]
    if len(options["algorithms"]) > 1 or len(options["gpu"]) > 1:
        raise InputError("--import compares one algorithm on one GPU", "give one --algorithm and one --gpu")
    launches = verify.matching(reader.read_csv(path), name)
    profile = options["gpu"][0]
    verify.check_capability(launches, profile, allow=allow_mismatch)
    [result] = account(asked, **options).results
    chosen, notes = (launches, []) if add_up else verify.once(launches)
    return verify.compare_counters(result, asked, chosen, tolerance=slack, chained=False, notes=notes)


def _verdict(cases: list[Verification]) -> None:
    failed = [case for case in cases if not case.passed and case.reason is None]
    if failed:
        case = failed[0]
        who = f"{case.kernel or case.algorithm} {describe(case.workload)}"
        off = [f"{row.quantity} is {row.ratio:.4g}x predicted" for row in case.rows
               if row.judged and row.agrees is False and row.ratio is not None]  # fmt: skip
        raise CheckFailedError(f"{who}: {', '.join(off) or 'no counter to judge by'}")
    if all(case.reason is not None for case in cases):
        raise UnavailableError(f"nothing was counted: {cases[0].reason}")
