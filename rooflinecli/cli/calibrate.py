"""`rooflinecli calibrate`: measure this GPU's own ceilings and write a profile that says so."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from rooflinecli.cli.options import OutputOptions, takes
from rooflinecli.cli.progress import progress
from rooflinecli.errors import InputError
from rooflinecli.measurement import calibrate as measuring
from rooflinecli.measurement import card
from rooflinecli.report import calibrate as report
from rooflinecli.report.formats import render
from rooflinecli.report.output import check_writable, emit, write_whole


@takes
def command(
    out: OutputOptions,
    profile: Annotated[
        Path | None,
        typer.Option("--profile", metavar="FILE.yaml",
                     help="Write the profile here; so does --output FILE.yaml. Default: ID-calibrated.yaml."),
    ] = None,
    gpu: Annotated[
        str, typer.Option("--gpu", metavar="auto|ID|FILE", help="Profile whose other figures are kept.")
    ] = card.AUTO,
    allow_mismatch: Annotated[
        bool, typer.Option("--allow-mismatch", help="Keep another card's figures all the same.")
    ] = False,
) -> None:  # fmt: skip
    """Measure HBM, L2, shared memory, tensor and FP32 peaks, exponentials and launches; write them as a profile."""
    from rooflinecli.measurement import probes
    from rooflinecli.measurement.calibrated import calibrated_profile
    from rooflinecli.measurement.device import open_device

    if out.output is not None and out.output.suffix in (".yaml", ".yml"):  # a profile is what is written in YAML
        if profile is not None:
            raise InputError(f"--output {out.output}: --profile {profile} says where the profile goes")
        profile, out = out.output, replace(out, output=None)
    shape = out.check()
    if profile is not None:
        check_writable(profile, force=out.force)
    device = open_device()
    base = card.resolve(gpu, device.identity, allow_mismatch=allow_mismatch)
    target = profile or Path(f"{base.id if base is not None else 'this-gpu'}-calibrated.yaml")
    check_writable(target, force=out.force)
    with progress() as tell:
        found = measuring.calibrate(
            device, probes.ceilings(device), probes.l2_curve(device), probes.l2_marches(device), tell
        )
    emit(render(report.view(found, base), shape), out.output, force=out.force)
    if found.ceilings:
        write_whole(target, calibrated_profile(found, base).encode(), force=out.force)
        print(f"wrote {target}; use it with --gpu {target}", file=sys.stderr)
    if found.interrupted:
        raise KeyboardInterrupt
