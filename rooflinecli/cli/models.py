"""`rooflinecli models`: the models there are, and one of them taken apart."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rooflinecli.cli.model_option import HELP, read_model
from rooflinecli.cli.options import OutputOptions, count, takes
from rooflinecli.report.formats import render
from rooflinecli.report.output import emit

_CONTEXT = {"help_option_names": ["-h", "--help"]}
group = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings=_CONTEXT,
    help="Bundled models, and what a config.json means.",
)
_STEP = "One step on a GPU"


def _option(*names: str, help: str, metavar: str = "COUNT") -> Any:
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=_STEP)


def _list(
    *,
    search: Annotated[str | None, typer.Argument(help="Only models whose name or family has this in it.")] = None,
    out: OutputOptions,
) -> None:
    """The bundled models: dimensions, attention, parameters, cache a token."""
    from rooflinecli.models.presets import find_preset, preset_names
    from rooflinecli.report import models as report

    shape = out.check()
    found = [spec for spec in map(find_preset, preset_names()) if spec is not None]
    if search is not None:
        text = search.lower()
        found = [spec for spec in found if text in spec.name.lower() or text in spec.family.lower()]
    emit(render(report.list_view(found), shape), out.output, force=out.force)


def _show(
    *,
    model: Annotated[str, typer.Argument(help=HELP)],
    gpu: Annotated[str | None, _option("--gpu", metavar="ID|FILE", help="The GPU of the step. Default: a100.")] = None,
    phase: Annotated[
        str | None, _option("--phase", metavar="prefill|decode", help="Which step. Default: both.")
    ] = None,
    context: Annotated[
        str | None, _option("--context", help="Tokens of each sequence when the step is done. Default: 4096.")
    ] = None,
    batch: Annotated[str | None, _option("--batch", help="Sequences. Default: 1.")] = None,
    dtype: Annotated[str, _option("--dtype", metavar="FORMAT", help="Format of activations.")] = "fp16",
    weights_dtype: Annotated[
        str | None, _option("--weights-dtype", metavar="FORMAT", help="Format of weights. Default: --dtype.")
    ] = None,
    kv_dtype: Annotated[
        str | None, _option("--kv-dtype", metavar="FORMAT", help="Format of the cache. Default: --dtype.")
    ] = None,
    out: OutputOptions,
) -> None:
    """A model's layers, cache and weights, and what a prefill and a decode step of it are bound by."""
    from rooflinecli.models.workloads import PHASES
    from rooflinecli.report import models as report
    from rooflinecli.step import model_step

    shape = out.check()
    spec = read_model(model)
    asked = any(value is not None for value in (gpu, phase, context, batch, weights_dtype, kv_dtype))
    steps = []
    if asked or (spec.style is not None and spec.vocab is not None):
        tokens = count("--context", context or "4096", least=1)
        sequences = count("--batch", batch or "1", least=1)
        for each in PHASES if phase is None else (phase,):
            steps.append(
                model_step(spec, gpu or "a100", each, tokens, sequences, dtype=dtype, weights_dtype=weights_dtype,
                           kv_dtype=kv_dtype)
            )  # fmt: skip
    emit(render(report.show_view(spec, steps), shape), out.output, force=out.force)


group.command("list")(takes(_list))
group.command("show")(takes(_show))
