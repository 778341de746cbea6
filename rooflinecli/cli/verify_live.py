"""The part of `verify` that runs bundled kernels under the profiler, on the GPU that is here."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rooflinecli.cli.options import KernelOptions, WorkloadOptions
from rooflinecli.errors import InputError, UnavailableError
from rooflinecli.measurement import card, suites
from rooflinecli.measurement.device import open_device
from rooflinecli.measurement.ncu.run import CHAINS, Ncu, Profiled, Replay
from rooflinecli.measurement.ncu.verify import Verification, compare_counters
from rooflinecli.measurement.prediction import predict
from rooflinecli.report.output import check_writable, write_whole

if TYPE_CHECKING:
    from rooflinecli.hardware import Profile

KINDS: tuple[Replay, ...] = ("kernel", "range")
_FIXED = {"br": "--br", "bc": "--bc", "splits": "--splits", "pack_gqa": "--pack-gqa", "page_size": "--page-size"}


def run(
    workload: WorkloadOptions, kernel: KernelOptions, suite: str | None, slack: float, replay: str, ncu: str | None,
    save_csv: Path | None, allow_mismatch: bool, force: bool,
) -> tuple[list[Verification], dict[str, Any]]:  # fmt: skip
    """Count every case and compare; also where the counters are from.

    Raises:
        UnavailableError: no GPU, no profiler, no permission, or no profile of this card.
        InputError: an option that only an imported file can take.
    """
    for name, option in _FIXED.items():
        if getattr(kernel, name) is not None:
            raise InputError(f"{option}: the bundled kernels choose their tiles", f"{option} is for --import")
    if kernel.gpu and len(kernel.gpu) > 1:
        raise InputError("--gpu: verify counts on one GPU")
    tool = Ncu(ncu)
    device = open_device()
    profile = card.resolve(kernel.gpu[0] if kernel.gpu else card.AUTO, device.identity, allow_mismatch=allow_mismatch)
    if profile is None:
        raise UnavailableError(
            f"no profile describes {device.identity.name}", "rooflinecli calibrate measures one and writes it"
        )
    cases = _cases(workload, kernel, suite, device.identity.capability)
    files = {} if save_csv is None else {kind: _csv_of(save_csv, kind) for kind in KINDS}
    for path in files.values():
        check_writable(path, force=force)
    found, texts = _profile(tool, cases, replay)
    for kind, path in files.items():
        if kind in texts:
            write_whole(path, texts[kind].encode(), force=force)
    source = {"tool": f"Nsight Compute {tool.version()}", "device": device.identity.name, **device.identity.versions}
    return [_compare(one, profile, slack) for one in found], source


def _cases(
    workload: WorkloadOptions, kernel: KernelOptions, suite: str | None, capability: tuple[int, int] | None
) -> list[suites.Case]:
    from rooflinecli.kernels import KERNELS

    chosen = suites.select(KERNELS.values(), kernel.algorithm)
    if any(getattr(workload, field.name) is not None for field in fields(workload)):
        return suites.cases_for(workload.read(), chosen, capability)
    cases = suites.suite(suite or "quick", chosen)
    if not cases:
        raise InputError(f"--algorithm {', '.join(kernel.algorithm or ())}: no suite has a case for it")
    return cases


def _csv_of(path: Path, kind: Replay) -> Path:
    """Ranges have a table of their own: `counters.csv` and `counters.range.csv`."""
    return path if kind == "kernel" else path.with_suffix(f".range{path.suffix}")


def _profile(tool: Ncu, cases: list[suites.Case], replay: str) -> tuple[list[Profiled], dict[Replay, str]]:
    """Single kernels one by one and chains as ranges, each kind in one process, in the order asked for."""
    from rooflinecli.kernels import KERNELS

    def kind(case: suites.Case) -> Replay:
        if replay != "auto":
            return replay  # type: ignore[return-value]  # checked by the command
        return "range" if KERNELS[case.kernel].algorithm in CHAINS else "kernel"

    found: dict[int, Profiled] = {}
    texts: dict[Replay, str] = {}
    for each in KINDS:
        mine = [index for index, case in enumerate(cases) if kind(case) == each]
        if mine:
            try:
                profiled, text = tool.profile([cases[index] for index in mine], each)
            except UnavailableError as error:
                if replay != "auto" or each == "kernel":
                    raise
                print(f"warning: {error.message}; counting kernel by kernel instead", file=sys.stderr)
                profiled, text = tool.profile([cases[index] for index in mine], "kernel")
            found |= dict(zip(mine, profiled, strict=True))
            texts[each] = text
    return [found[index] for index in range(len(cases))], texts


def _compare(one: Profiled, profile: Profile, slack: float) -> Verification:
    from rooflinecli.kernels import KERNELS, KernelConfig

    spec = KERNELS[one.case.kernel]
    if one.reason is not None:
        return Verification(
            one.case.workload, spec.algorithm, spec.name, profile.id, None, (), (), reason=one.reason
        )  # fmt: skip
    result = predict(spec.algorithm, one.case.workload, KernelConfig(**one.config).tile, profile)
    chained = one.replay == "range"
    return compare_counters(result, one.case.workload, one.launches, kernel=spec.name, tolerance=slack, chained=chained)
