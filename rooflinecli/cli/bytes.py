"""`rooflinecli bytes`: what attention moves, computes and is bound by."""

from __future__ import annotations

from rooflinecli.calculator import account
from rooflinecli.cli.options import KernelOptions, OutputOptions, WorkloadOptions, takes
from rooflinecli.report import bytes as report
from rooflinecli.report.formats import render
from rooflinecli.report.output import emit
from rooflinecli.report.sheet import View


@takes
def command(workload: WorkloadOptions, kernel: KernelOptions, out: OutputOptions) -> None:
    """Bytes per memory level, FLOPs, intensity and what binds, for each algorithm side by side."""
    shape = out.check()
    shown = (
        report.view(account(workload.read(), **kernel.read())) if workload.model is None else _model(workload, kernel)
    )
    emit(render(shown, shape), out.output, force=out.force)


def _model(workload: WorkloadOptions, kernel: KernelOptions) -> View:
    from rooflinecli.layers import account_layers
    from rooflinecli.report.layers import view

    calls = workload.layers()
    return view(account_layers(calls, **kernel.read()), workload.step)
