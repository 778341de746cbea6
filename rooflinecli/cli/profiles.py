"""`rooflinecli profiles`: the GPUs there are, where each figure is from, and which one is here."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from rooflinecli.cli.options import OutputOptions, profile, takes
from rooflinecli.errors import InputError
from rooflinecli.hardware import list_profiles
from rooflinecli.report import profiles as report
from rooflinecli.report.formats import render
from rooflinecli.report.output import emit

_CONTEXT = {"help_option_names": ["-h", "--help"]}
group = typer.Typer(
    no_args_is_help=True, add_completion=False, context_settings=_CONTEXT, help="GPU profiles: sourced ceilings."
)


def _list(
    *,
    vendor: Annotated[str | None, typer.Option("--vendor", metavar="NAME", help="nvidia or amd.")] = None,
    architecture: Annotated[str | None, typer.Option("--architecture", metavar="NAME", help="hopper, ada, ...")] = None,
    capability: Annotated[str | None, typer.Option("--capability", metavar="X.Y", help="Compute capability.")] = None,
    out: OutputOptions,
) -> None:
    """The profiles there are, and where each came from."""
    shape = out.check()
    found = list_profiles()
    for option, field, value in (("--vendor", "vendor", vendor), ("--architecture", "architecture", architecture),
                                 ("--capability", "compute_capability", capability)):  # fmt: skip
        if value is not None:
            there = {str(getattr(each, field)) for each in found if getattr(each, field) is not None}
            found = [each for each in found if str(getattr(each, field)).lower() == value.lower()]
            if not found:
                raise InputError(f"{option} {value}: no profile has it", f"there are {', '.join(sorted(there))}")
    emit(render(report.list_view(found), shape), out.output, force=out.force)


def _show(*, gpu: Annotated[str, typer.Argument(metavar="ID|FILE|auto")], out: OutputOptions) -> None:
    """Every figure of one card with its source, and its ridge points; `-f yaml` prints the file."""
    found = profile(gpu)
    if out.format == "yaml":
        emit(Path(found.origin).read_text(encoding="utf-8"), out.output, force=out.force)
        return
    shape = out.check()
    emit(render(report.show_view(found), shape), out.output, force=out.force)


def _validate(*, files: Annotated[list[Path], typer.Argument(metavar="FILE...")]) -> None:
    """Check profile files: exit 2 names line, column and field of the first mistake; doubts are warnings."""
    from rooflinecli.hardware.checks import warnings
    from rooflinecli.hardware.reader import read_profile

    for file in files:
        found = read_profile(file)
        for doubt in warnings(found):
            print(f"warning: {file}: {doubt}", file=sys.stderr)
        print(f"{file}: {found.id} is valid")


def _schema() -> None:
    """The JSON Schema of a loaded profile."""
    from rooflinecli.hardware.schema import Profile

    emit(json.dumps(Profile.model_json_schema(), indent=2))


def _detect(*, out: OutputOptions) -> None:
    """Which profile fits the GPU that is here, why, and what differs."""
    from rooflinecli.hardware.detect import detect

    shape = out.check()
    emit(render(report.detect_view(detect()), shape), out.output, force=out.force)


def _diff(
    *,
    one: Annotated[str, typer.Argument(metavar="A")],
    other: Annotated[str, typer.Argument(metavar="B")],
    out: OutputOptions,
) -> None:
    """The figures in which two cards differ."""
    shape = out.check()
    if one == other:
        raise InputError(f"{one} {other}: name two cards")
    emit(render(report.diff_view(profile(one), profile(other)), shape), out.output, force=out.force)


for _name, _command in (("list", _list), ("show", _show), ("validate", _validate), ("schema", _schema),
                        ("detect", _detect), ("diff", _diff)):  # fmt: skip
    group.command(_name, context_settings=_CONTEXT)(takes(_command))
