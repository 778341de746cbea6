"""`rooflinecli kv`: what a model's K/V cache takes, and what fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rooflinecli.cli.model_option import HELP, read_model
from rooflinecli.cli.options import OutputOptions, count, takes
from rooflinecli.errors import InputError, naming
from rooflinecli.report.formats import render
from rooflinecli.report.output import emit

if TYPE_CHECKING:
    from rooflinecli.models.spec import ModelSpec

EXAMPLE = "for instance --model llama-3.1-8b, or --layers 32 --heads 32 --kv-heads 8 --d 128"
_MODEL, _CACHE, _MEMORY = "Model", "Cache", "Memory"


def _option(*names: str, panel: str, help: str, metavar: str = "COUNT") -> Any:
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel)


@takes
def command(
    *,
    model: Annotated[str | None, _option("--model", panel=_MODEL, metavar="NAME|FILE", help=HELP)] = None,
    layers: Annotated[
        str | None, _option("--layers", panel=_MODEL, help="Layers, of a model given by its dimensions.")
    ] = None,
    heads: Annotated[str | None, _option("--heads", panel=_MODEL, help="Query heads.")] = None,
    kv_heads: Annotated[
        str | None,
        _option("--kv-heads", panel=_MODEL, help="Key/value heads; with --model, not its own. Default: --heads."),
    ] = None,
    d: Annotated[str | None, _option("--d", panel=_MODEL, help="Head dim of K.")] = None,
    d_v: Annotated[str | None, _option("--d-v", panel=_MODEL, help="Head dim of V. Default: --d.")] = None,
    window: Annotated[
        str | None, _option("--window", panel=_MODEL, help="Window of every layer, own position included.")
    ] = None,
    kv_lora_rank: Annotated[
        str | None, _option("--kv-lora-rank", panel=_MODEL, help="Rank of the latent of an MLA cache.")
    ] = None,
    rope_dim: Annotated[
        str | None, _option("--rope-dim", panel=_MODEL, help="Rotary elements beside the latent. Default: 64.")
    ] = None,
    context: Annotated[
        str | None, _option("--context", panel=_CACHE, help="Tokens a sequence; 8k is 8000, 8Ki is 8192. Default: 1.")
    ] = None,
    batch: Annotated[str | None, _option("--batch", panel=_CACHE, help="Sequences. Default: 1.")] = None,
    dtype: Annotated[
        str, _option("--dtype", panel=_CACHE, metavar="FORMAT", help="Format of the model: fp16, bf16, fp32, fp8, ...")
    ] = "fp16",
    kv_dtype: Annotated[
        str | None,
        _option("--kv-dtype", panel=_CACHE, metavar="FORMAT",
                help="Format of the cache; also int8, int4, q8_0, q4_0, mxfp8, mxfp4, nvfp4. Default: --dtype."),
    ] = None,
    page_size: Annotated[
        str | None, _option("--page-size", panel=_CACHE, help="Tokens in a page of a paged cache.")
    ] = None,
    tp: Annotated[
        str | None, _option("--tp", panel=_CACHE, help="Devices that share the model by tensor parallelism.")
    ] = None,
    gpu: Annotated[
        list[str] | None,
        _option("--gpu", panel=_MEMORY, metavar="ID|FILE",
                help="What fits in this GPU's memory, read at its bandwidth; repeatable. Default: a100, reads only."),
    ] = None,
    memory: Annotated[
        str | None,
        _option("--memory", panel=_MEMORY, metavar="SIZE", help="What fits in so much memory a device: 80GiB, 24 GB."),
    ] = None,
    weights_dtype: Annotated[
        str | None,
        _option("--weights-dtype", panel=_MEMORY, metavar="FORMAT|none",
                help="Format of the weights that share the memory; none leaves all of it. Default: --dtype."),
    ] = None,
    reserve: Annotated[
        str | None, _option("--reserve", panel=_MEMORY, metavar="SIZE", help="Memory a device kept for other things.")
    ] = None,
    variants: Annotated[
        bool,
        typer.Option("--variants", help="Also as MHA, GQA, MQA and MLA, side by side.", rich_help_panel=_CACHE),
    ] = False,
    out: OutputOptions,
) -> None:  # fmt: skip
    """Bytes of a K/V cache a token, a sequence, a batch and a device, and how many users or tokens fit."""
    from rooflinecli.capacity import kv_account
    from rooflinecli.dtypes import dtype as known_dtype
    from rooflinecli.report import kv as report
    from rooflinecli.units import parse_quantity

    def size(option: str, text: str | None) -> int | None:
        if text is None:
            return None
        try:
            value = parse_quantity(text, "B")
        except InputError as error:
            raise InputError(f"{option} {error.message}", error.hint) from None
        if value < 0 or (value == 0 and option == "--memory"):
            raise InputError(f"{option} {text}: must be more than nothing")
        return int(value)

    shape = out.check()
    latent = None
    if kv_lora_rank is not None:
        latent = (count("--kv-lora-rank", kv_lora_rank, least=1), count("--rope-dim", rope_dim or "64", least=1))
    elif rope_dim is not None:
        raise InputError(f"--rope-dim {rope_dim}: only beside --kv-lora-rank")
    dimensions = {"layers": layers, "heads": heads, "kv_heads": kv_heads, "d": d, "d_v": d_v, "window": window}
    with naming("--dtype", dtype):
        known_dtype(dtype)
    spec = _model(model, {name: text for name, text in dimensions.items() if text is not None}, latent)
    found = kv_account(
        spec,
        count("--context", context or "1", least=1),
        count("--batch", batch or "1", least=1),
        kv_dtype or dtype,
        page_size=None if page_size is None else count("--page-size", page_size, least=1),
        tp=count("--tp", tp or "1", least=1),
        gpu=gpu or (),
        memory=size("--memory", memory),
        weights_dtype=weights_dtype or (dtype if model is not None else None),
        reserve=size("--reserve", reserve) or 0,
        with_variants=variants,
        latent=latent,
    )
    emit(render(report.view(found), shape), out.output, force=out.force)


def _model(model: str | None, given: dict[str, str], latent: tuple[int, int] | None) -> ModelSpec:
    """The model by name or file, or by its dimensions."""
    from rooflinecli.models.custom import model_of, with_kv_heads

    numbers = {name: count(f"--{name.replace('_', '-')}", text, least=1) for name, text in given.items()}
    if model is None:
        for needed in ("layers", "heads", "d"):
            if needed not in numbers:
                raise InputError(f"--{needed} is missing" if numbers else "--model is missing", EXAMPLE)
        return model_of(**numbers, latent=latent)
    kv_heads = numbers.pop("kv_heads", None)
    for name in numbers:
        raise InputError(f"--{name.replace('_', '-')} {given[name]}: --model {model} says it already")
    spec = read_model(model)
    return spec if kv_heads is None else with_kv_heads(spec, kv_heads)
