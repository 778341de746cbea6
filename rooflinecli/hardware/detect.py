"""The GPU that is here, asked through NVIDIA's management library: which profile fits it, and what differs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rooflinecli.errors import UnavailableError
from rooflinecli.hardware.library import list_profiles
from rooflinecli.hardware.matching import best_match
from rooflinecli.hardware.schema import Profile

NO_LIBRARY = "pip install nvidia-ml-py (or rooflinecli[measure]), or name a profile with --gpu"
NO_GPU = "run this on a machine with an NVIDIA GPU and its driver, or name a profile with --gpu"


@dataclass(frozen=True, slots=True)
class Detection:
    """The first GPU: its driver's name for it, the profile that fits, why, and what differs from the profile."""

    device_name: str
    driver: str
    profile: Profile
    why: str
    differs: tuple[str, ...]


def detect(nvml: Any = None) -> Detection:
    """Ask the first GPU who it is; `nvml` stands in for the management library in tests.

    Raises:
        UnavailableError: no management library, no GPU, or no profile for the GPU that is here.
    """
    library = _library() if nvml is None else nvml
    try:
        library.nvmlInit()
        handle = library.nvmlDeviceGetHandleByIndex(0)
        name, driver = _text(library.nvmlDeviceGetName(handle)), _text(library.nvmlSystemGetDriverVersion())
        memory = int(library.nvmlDeviceGetMemoryInfo(handle).total)
    except library.NVMLError as error:
        raise UnavailableError(f"no NVIDIA GPU answers: {error}", NO_GPU) from None
    profile = best_match(list_profiles(), name, memory)
    if profile is None:
        raise UnavailableError(f"no profile describes {name}", "rooflinecli calibrate measures this GPU and writes one")
    exact = name in profile.device_names
    why = f"its device names hold {name!r}" if exact else f"its device names hold {name!r} but for the vendor's prefix"
    return Detection(name, driver, profile, why, tuple(_differences(library, handle, profile, memory)))


def _differences(nvml: Any, handle: Any, profile: Profile, memory: int) -> list[str]:
    found = []
    capacity = profile.dram.capacity
    if capacity is not None and abs(memory / capacity.value - 1) > 0.08:
        found.append(f"memory: {memory} B here, {capacity.value} B in the profile")
    limit = _ask(nvml, "nvmlDeviceGetEnforcedPowerLimit", handle)
    if limit is not None and profile.power is not None and round(limit / 1000) != round(profile.power.value):
        found.append(f"power limit: {limit / 1000:g} W here, {profile.power.value:g} W in the profile")
    clock = _ask(nvml, "nvmlDeviceGetMaxClockInfo", handle, getattr(nvml, "NVML_CLOCK_SM", 1))
    boost = profile.clocks.boost
    if clock is not None and boost is not None and clock != round(boost.value / 1e6):
        found.append(f"maximum SM clock: {clock} MHz here, {boost.value / 1e6:g} MHz in the profile")
    partitioned = _ask(nvml, "nvmlDeviceGetMigMode", handle)
    if partitioned is not None and partitioned[0]:
        found.append("MIG is on: an instance has a part of the SMs, L2 and bandwidth that the profile states")
    ecc = _ask(nvml, "nvmlDeviceGetEccMode", handle)
    if ecc is not None and not ecc[0]:
        found.append("ECC is off: capacity and, without on-die ECC, bandwidth are above the profile's")
    return found


def _ask(nvml: Any, function: str, *arguments: Any) -> Any:
    """An answer, or None where this driver or card has none."""
    try:
        return getattr(nvml, function)(*arguments)
    except (nvml.NVMLError, AttributeError):
        return None


def _library() -> Any:
    try:
        import pynvml
    except ImportError:
        raise UnavailableError("asking the GPU needs the package nvidia-ml-py", NO_LIBRARY) from None
    return pynvml


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
