"""`measure` as one call: what is asked for in, a typed `Measurement` out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rooflinecli.errors import InputError
from rooflinecli.measurement import card, suites
from rooflinecli.measurement.peers import PEERS
from rooflinecli.measurement.records import Measurement
from rooflinecli.measurement.runner import Progress, Runner, describe, interpreted, silent
from rooflinecli.measurement.timing import FULL, QUICK
from rooflinecli.workload import Workload

if TYPE_CHECKING:
    from rooflinecli.hardware import Profile
    from rooflinecli.measurement.device import Device


def measure(
    workload: Workload | Sequence[Workload] | None = None,
    *,
    suite: str = "quick",
    algorithms: Iterable[str] | None = None,
    gpu: str = card.AUTO,
    allow_mismatch: bool = False,
    peers: bool = False,
    seed: int = 0,
    progress: Progress = silent,
) -> Measurement:
    """Run bundled kernels on this GPU: checked against float64, timed with a cold L2, beside their bounds.

    Args:
        workload: what to measure, one or several; every kernel that runs it is tried. None measures `suite`.
        suite: "quick" or "full"; "full" also makes timing stricter.
        algorithms: names of kernels or of their algorithms; all by default.
        gpu: the profile to measure against: auto, an id, a family, a file.
        allow_mismatch: whether that profile may be another card's.
        peers: whether torch's attention backends are measured beside the forward kernel.
        seed: of the random inputs.
        progress: told (points done, points in all, what runs).

    Returns:
        Times in seconds, rates in FLOP/s. An interruption ends the run early and sets `interrupted`.

    Raises:
        UnavailableError: no GPU, no torch or no triton.
        InputError: an unknown suite or kernel, a workload that no kernel runs, a profile of another card.
    """
    from rooflinecli.measurement.device import open_device

    device = open_device()
    profile = card.resolve(gpu, device.identity, allow_mismatch=allow_mismatch)
    return _run(workload, suite, algorithms, device, profile, peers, seed, progress)


def check(
    workload: Workload | Sequence[Workload] | None = None,
    *,
    suite: str = "check",
    algorithms: Iterable[str] | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> Measurement:
    """The correctness part alone, through Triton's interpreter on a CPU; nothing is timed.

    Must come before anything imports triton in the process. Arguments and errors as for `measure`.
    """
    with interpreted():
        return _run(workload, suite, algorithms, None, None, False, seed, progress)


def _run(
    workload: Workload | Sequence[Workload] | None, suite: str, algorithms: Iterable[str] | None, device: Device | None,
    profile: Profile | None, peers: bool, seed: int, progress: Progress,
) -> Measurement:  # fmt: skip
    from rooflinecli.kernels import KERNELS

    names = list(algorithms or ())
    chosen = suites.select(KERNELS.values(), names)
    capability = None if device is None else device.identity.capability
    if workload is not None:
        wanted = [workload] if isinstance(workload, Workload) else list(dict.fromkeys(workload))
        cases = suites.cases_for_each(wanted, chosen, capability)
        name = "; ".join(map(describe, wanted))
    else:
        cases, name = suites.suite(suite, chosen), suite
    if not cases:
        raise InputError(f"--algorithm {', '.join(names)}: suite {name} has nothing for it")
    policy = FULL if suite == "full" else QUICK
    return Runner(KERNELS, device, profile, policy, PEERS if peers else (), seed).run(cases, name, progress)
