"""`rooflinecli bytes`: what attention moves, computes and is bound by."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rooflinecli.calculator import account
from rooflinecli.cli.options import KernelOptions, OutputOptions, WorkloadOptions, takes
from rooflinecli.report import bytes as report
from rooflinecli.report.formats import render
from rooflinecli.report.output import emit

if TYPE_CHECKING:
    from rooflinecli.calculator import Account
    from rooflinecli.layers import ModelAccount
    from rooflinecli.report.sheet import View


@takes
def command(workload: WorkloadOptions, kernel: KernelOptions, out: OutputOptions) -> None:
    """Bytes per memory level, FLOPs, intensity and what binds, for each algorithm side by side."""
    emit_account(workload, kernel, out, report.view, _layers_view)


def emit_account(
    workload: WorkloadOptions,
    kernel: KernelOptions,
    out: OutputOptions,
    view: Callable[[Account], View],
    layers_view: Callable[[ModelAccount, str], View],
) -> None:
    """Account for what the options describe, one call or a model's, and show it by the view for each."""
    shape = out.check()
    if workload.model is None:
        shown = view(account(workload.read(), **kernel.read()))
    else:
        from rooflinecli.layers import account_layers

        shown = layers_view(account_layers(workload.layers(), **kernel.read()), workload.step)
    emit(render(shown, shape), out.output, force=out.force)


def _layers_view(found: ModelAccount, model: str) -> View:
    from rooflinecli.report.layers import view

    return view(found, model)
