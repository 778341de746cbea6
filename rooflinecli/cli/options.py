"""Options that several commands share: declared once, spliced into each command's signature.

`@takes(WorkloadOptions, ...)` replaces a parameter annotated with such a class by the class's own fields,
so that a command's function receives one object and the command line shows every option.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from rooflinecli.accounting import algorithm
from rooflinecli.cli.model_option import HELP as MODEL_HELP
from rooflinecli.cli.model_option import read_model
from rooflinecli.dtypes import compute_dtype
from rooflinecli.errors import InputError, naming
from rooflinecli.hardware import load_profile
from rooflinecli.report.output import check_writable, format_of
from rooflinecli.units import parse_count
from rooflinecli.workload import Workload

if TYPE_CHECKING:
    from rooflinecli.hardware import Profile
    from rooflinecli.models.spec import ModelSpec
    from rooflinecli.models.workloads import LayerWorkload

_WORKLOAD = "Workload"
_MODEL = "Workload of a model"
_KERNEL = "Algorithm and tile"
_OUTPUT = "Output"


def _option(*names: str, panel: str, help: str, metavar: str = "COUNT") -> Any:
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel)


@dataclass(frozen=True, slots=True)
class WorkloadOptions:
    """The attention problem, as typed; `read()` gives the `Workload`."""

    n: Annotated[str | None, _option("--N", panel=_WORKLOAD, help="Query length; 8k is 8000, 8Ki is 8192.")] = None
    n_kv: Annotated[str | None, _option("--N-kv", panel=_WORKLOAD, help="Key/value length. Default: --N.")] = None
    d: Annotated[str | None, _option("--d", panel=_WORKLOAD, help="Head dim of Q and K.")] = None
    d_v: Annotated[str | None, _option("--d-v", panel=_WORKLOAD, help="Head dim of V and O. Default: --d.")] = None
    heads: Annotated[str | None, _option("--heads", panel=_WORKLOAD, help="Query heads. Default: 1.")] = None
    kv_heads: Annotated[
        str | None, _option("--kv-heads", panel=_WORKLOAD, help="Key/value heads (GQA, MQA). Default: --heads.")
    ] = None
    batch: Annotated[str | None, _option("--batch", panel=_WORKLOAD, help="Sequences. Default: 1.")] = None
    dtype: Annotated[
        str | None,
        _option(
            "--dtype", panel=_WORKLOAD, metavar="FORMAT",
            help="Storage format: fp32, tf32, fp16, bf16, fp8_e4m3 (fp8), fp8_e5m2, int8. Default: fp16.",
        ),
    ] = None  # fmt: skip
    kv_dtype: Annotated[
        str | None,
        _option("--kv-dtype", panel=_WORKLOAD, metavar="FORMAT",
                help="Format of K and V; also int4, fp4, q8_0, q4_0, mxfp8, mxfp4, nvfp4. Default: --dtype."),
    ] = None  # fmt: skip
    s_dtype: Annotated[
        str | None,
        _option(
            "--s-dtype", panel=_WORKLOAD, metavar="FORMAT", help="Format of a materialised S and P. Default: --dtype."
        ),
    ] = None
    causal: Annotated[
        bool | None,
        typer.Option("--causal/--no-causal", help="Causal mask, aligned bottom-right.", rich_help_panel=_WORKLOAD),
    ] = None
    window: Annotated[
        str | None, _option("--window", panel=_WORKLOAD, help="Keys a query sees, its own position included.")
    ] = None
    model: Annotated[str | None, _option("--model", panel=_MODEL, metavar="NAME|FILE|-", help=MODEL_HELP)] = None
    phase: Annotated[
        str | None,
        _option("--phase", panel=_MODEL, metavar="prefill|decode", help="Which step of the model. Default: prefill."),
    ] = None
    context: Annotated[
        str | None,
        _option("--context", panel=_MODEL, help="Tokens of a sequence when the step is done. Default in prefill: --N."),
    ] = None

    def layers(self, spec: ModelSpec | None = None) -> list[LayerWorkload]:
        """The attention calls of a step of `--model`, each with the number of layers that make it.

        spec: the model, where it was read before (standard input is read once).

        Raises:
            InputError: an option that the model answers, a missing context, or what `attention_workloads` refuses.
        """
        from rooflinecli.models.workloads import attention_workloads

        assert self.model is not None
        for option, given in (
            ("--N-kv", self.n_kv), ("--d", self.d), ("--d-v", self.d_v), ("--heads", self.heads),
            ("--kv-heads", self.kv_heads), ("--causal", self.causal), ("--window", self.window),
        ):  # fmt: skip
            if given is not None:
                raise InputError(f"{option}: --model {self.model} says it", "leave one of the two out")
        phase = self.phase or "prefill"
        length = self.context if self.context is not None or phase != "prefill" else self.n
        if length is None:
            raise InputError("--context is missing", f"for instance --model {self.model} --phase {phase} --context 8Ki")
        found = attention_workloads(
            read_model(self.model) if spec is None else spec,
            phase,
            count("--context", length, least=1),
            count("--batch", self.batch or "1", least=1),
            n_q=None if self.n is None else count("--N", self.n, least=1),
            dtype=self.dtype or "fp16",
            kv_dtype=self.kv_dtype,
        )
        if not found:
            raise InputError(f"--model {self.model}: no layer of it has attention over keys")
        if self.s_dtype is None:
            return found
        return [replace(each, workload=replace(each.workload, s_dtype=self.s_dtype)) for each in found]

    @property
    def step(self) -> str:
        """What `layers()` is of, in words."""
        phase = self.phase or "prefill"
        parts = [phase, *([f"N={self.n}"] if self.n else []), *([f"context {self.context}"] if self.context else [])]
        return f"{self.model}, {', '.join(parts)}"

    def read(self) -> Workload:
        """The one workload these options describe.

        Raises:
            InputError: a value that is not a count, a missing option, what `Workload` refuses, or a model whose
                layers make different calls.
        """
        if self.model is not None:
            calls = self.layers()
            if len(calls) > 1:
                raise InputError(
                    f"--model {self.model}: its layers make {len(calls)} different calls; this command takes one",
                    "`bytes`, `explain`, `roofline` and `measure` take all of them; --N, --heads, ... describe one",
                )
            return calls[0].workload
        for option, given in (("--phase", self.phase), ("--context", self.context)):
            if given is not None:
                raise InputError(f"{option} {given}: is of a --model", "--N and --N-kv say it of a plain workload")
        counts = {
            "n_q": ("--N", self.n), "n_kv": ("--N-kv", self.n_kv), "d": ("--d", self.d), "d_v": ("--d-v", self.d_v),
            "heads": ("--heads", self.heads), "kv_heads": ("--kv-heads", self.kv_heads),
            "batch": ("--batch", self.batch), "window": ("--window", self.window),
        }  # fmt: skip
        fields: dict[str, Any] = {
            name: count(option, text) for name, (option, text) in counts.items() if text is not None
        }
        for needed, option in (("n_q", "--N"), ("d", "--d")):
            if needed not in fields:
                raise InputError(f"{option} is missing", "for instance --N 8192 --d 128")
        formats = {"dtype": self.dtype, "kv_dtype": self.kv_dtype, "s_dtype": self.s_dtype}
        fields |= {name: given for name, given in formats.items() if given is not None}
        return Workload(**fields, causal=bool(self.causal))


@dataclass(frozen=True, slots=True)
class KernelOptions:
    """How the work is done: algorithms, tiles, what counts."""

    algorithm: Annotated[
        list[str] | None,
        _option("--algorithm", "-a", panel=_KERNEL, metavar="NAME",
                help="naive, flash1, flash2, decode, paged, mla, backward; repeatable. Default: all that apply."),
    ] = None  # fmt: skip
    gpu: Annotated[
        list[str] | None,
        _option("--gpu", panel=_KERNEL, metavar="ID|FILE",
                help="GPU profile: an id, a family (a100, h100), a YAML file, auto; repeatable. Default: a100."),
    ] = None  # fmt: skip
    br: Annotated[
        str | None, _option("--br", panel=_KERNEL, help="Rows of Q in a tile. Default: as kernels choose.")
    ] = None
    bc: Annotated[
        str | None, _option("--bc", panel=_KERNEL, help="Rows of K/V in a tile. Default: as kernels choose.")
    ] = None
    splits: Annotated[
        str | None, _option("--splits", panel=_KERNEL, help="Blocks that share a query's keys (split-KV).")
    ] = None
    pack_gqa: Annotated[
        bool | None,
        typer.Option("--pack-gqa/--no-pack-gqa", rich_help_panel=_KERNEL,
                     help="Query heads of a group share a tile. Default: for decode only."),
    ] = None  # fmt: skip
    page_size: Annotated[
        str | None, _option("--page-size", panel=_KERNEL, help="Tokens in a page of a paged cache. Default: 16.")
    ] = None
    exclude: Annotated[
        list[str] | None,
        _option("--exclude", panel=_KERNEL, metavar="TENSOR",
                help="Leave a tensor out of the ledger: O, or naive:O for one algorithm; repeatable."),
    ] = None  # fmt: skip
    memory_model: Annotated[
        str, _option("--memory-model", panel=_KERNEL, metavar="l2|textbook", help="Whose bytes feed the bounds.")
    ] = "l2"
    compute_dtype: Annotated[
        str | None,
        _option(
            "--compute-dtype", panel=_KERNEL, metavar="FORMAT", help="Format whose peak is the roof. Default: --dtype."
        ),
    ] = None

    def read(self) -> dict[str, Any]:
        """Keyword arguments of `rooflinecli.account`.

        Raises:
            InputError: a value that is not a count of at least 1, or an unknown memory model.
        """
        if self.memory_model not in ("l2", "textbook"):
            raise InputError(f"--memory-model {self.memory_model}: must be l2 or textbook")
        counts = {"br": ("--br", self.br), "bc": ("--bc", self.bc), "splits": ("--splits", self.splits),
                  "page_size": ("--page-size", self.page_size)}  # fmt: skip
        for name in self.algorithm or ():
            with naming("--algorithm", name):
                algorithm(name)
        if self.compute_dtype is not None:
            with naming("--compute-dtype", self.compute_dtype):
                compute_dtype(self.compute_dtype)
        return {
            "gpu": [profile(name) for name in self.gpu or ["a100"]],
            "algorithms": self.algorithm or None,
            "pack_gqa": self.pack_gqa,
            "exclude": self.exclude or (),
            "memory_model": self.memory_model,
            "compute_dtype": self.compute_dtype,
            **{name: None if text is None else count(option, text, least=1) for name, (option, text) in counts.items()},
        }


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Where the result goes and what it looks like."""

    format: Annotated[
        str | None,
        _option("--format", "-f", panel=_OUTPUT, metavar="FORMAT",
                help="table, json, jsonl, csv, markdown. Default: by --output's suffix, else table."),
    ] = None  # fmt: skip
    output: Annotated[
        Path | None, _option("--output", "-o", panel=_OUTPUT, metavar="FILE", help="A file; - is standard output.")
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.", rich_help_panel=_OUTPUT)] = False

    def check(self) -> str:
        """The format, after making sure that the output can be written.

        Raises:
            InputError: an unknown format, or a file that exists and is not to be replaced.
        """
        check_writable(self.output, force=self.force)
        return format_of(self.format, self.output)


def profile(name: str) -> Profile:
    """The profile that `--gpu` names.

    Raises:
        InputError: names the option.
    """
    with naming("--gpu", name):
        return load_profile(name)


def count(option: str, text: str, least: int | None = None) -> int:
    """The whole number an option was given; see `rooflinecli.units.parse_count`.

    Raises:
        InputError: names the option.
    """
    try:
        value = parse_count(text)
    except InputError as error:
        hint = "`sweep` takes lists and ranges" if "," in text or ".." in text else error.hint
        raise InputError(f"{option} {error.message}", hint) from None
    if least is not None and value < least:
        raise InputError(f"{option} {text}: must be at least {least}")
    return value


def takes(command: Callable[..., None]) -> Callable[..., None]:
    """Splice the fields of option classes into the signature of `command`; see the module's docstring."""
    hints = get_type_hints(command, include_extras=True)
    signature = inspect.signature(command)
    groups: dict[str, type] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        hint = hints[name]
        if isinstance(hint, type) and hint in (WorkloadOptions, KernelOptions, OutputOptions):
            groups[name] = hint
            types = get_type_hints(hint, include_extras=True)
            parameters += [
                inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=types[f.name])
                for f in fields(hint)
            ]
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hint))

    def spliced(**given: Any) -> None:
        objects = {name: hint(**{f.name: given.pop(f.name) for f in fields(hint)}) for name, hint in groups.items()}
        command(**given, **objects)

    spliced.__doc__ = command.__doc__
    spliced.__name__ = command.__name__
    spliced.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    spliced.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return spliced
