"""`rooflinecli compare`: result files side by side, and a gate for CI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rooflinecli.cli.options import OutputOptions, takes
from rooflinecli.errors import CheckFailedError, InputError
from rooflinecli.measurement import comparison
from rooflinecli.report import compare as report
from rooflinecli.report.formats import render
from rooflinecli.report.output import emit


@takes
def command(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Results of bytes, roofline, measure or verify; the first is the base."),
    ],
    out: OutputOptions,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-if", metavar="CONDITION",
            help="Exit 1 if a figure changed so: 'seconds > +5%', 'flops_per_s < -3%'; repeatable. Noise passes.",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show figures that are equal too.")] = False,
) -> None:  # fmt: skip
    """Two or more result files aligned by workload: differences, what of them is noise, geometric means."""
    shape = out.check()
    gates = [comparison.parse_gate(text) for text in fail_if or ()]
    if len(files) < 2:
        raise InputError("compare needs two files or more", "rooflinecli compare BEFORE.json AFTER.json")
    base, *others = [comparison.read_results(path) for path in files]
    found = [comparison.compare(base, other) for other in others]
    failures = comparison.tripped(gates, found)
    emit(render(report.view(found, failures, everything=everything), shape), out.output, force=out.force)
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise CheckFailedError(f"{failures[0]}{more}")
