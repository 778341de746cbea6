"""`rooflinecli bytes`: what attention moves, computes and is bound by."""

from __future__ import annotations

from rooflinecli.calculator import account
from rooflinecli.cli.options import KernelOptions, OutputOptions, WorkloadOptions, takes
from rooflinecli.report import bytes as report
from rooflinecli.report.formats import render
from rooflinecli.report.output import emit


@takes
def command(workload: WorkloadOptions, kernel: KernelOptions, out: OutputOptions) -> None:
    """Bytes per memory level, FLOPs, intensity and what binds, for each algorithm side by side."""
    shape = out.check()
    found = account(workload.read(), **kernel.read())
    emit(render(report.view(found), shape), out.output, force=out.force)
