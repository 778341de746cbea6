"""`rooflinecli explain`: where each number of `bytes` comes from."""

from __future__ import annotations

from rooflinecli.cli.bytes import emit_account
from rooflinecli.cli.options import KernelOptions, OutputOptions, WorkloadOptions, takes
from rooflinecli.report import explain as report


@takes
def command(workload: WorkloadOptions, kernel: KernelOptions, out: OutputOptions) -> None:
    """The numbers of `bytes` derived step by step: pseudocode, formula, numbers put in, result."""
    emit_account(workload, kernel, out, report.view, report.layers_view)
