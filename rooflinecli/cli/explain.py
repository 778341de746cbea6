"""`rooflinecli explain`: where each number of `bytes` comes from."""

from __future__ import annotations

from rooflinecli.calculator import account
from rooflinecli.cli.options import KernelOptions, OutputOptions, WorkloadOptions, takes
from rooflinecli.report import explain as report
from rooflinecli.report.formats import render
from rooflinecli.report.output import emit


@takes
def command(workload: WorkloadOptions, kernel: KernelOptions, out: OutputOptions) -> None:
    """The numbers of `bytes` derived step by step: pseudocode, formula, numbers put in, result."""
    shape = out.check()
    found = account(workload.read(), **kernel.read())
    emit(render(report.view(found), shape), out.output, force=out.force)
