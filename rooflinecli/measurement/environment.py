"""The state a GPU is in while something is measured, and what of it a reader must be warned about."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

# Reasons for a lower clock, as the driver's management library numbers them, that spoil a measurement.
THROTTLES = {
    0x04: "power limit",
    0x08: "hardware slowdown",
    0x20: "temperature (software)",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}


@dataclass(frozen=True, slots=True)
class State:
    """One look at the card; None is unknown. Hz, W, degrees Celsius; `busy` is the share of time it worked.

    `others` counts processes on the card besides this one.
    """

    sm_clock: int | None = None
    memory_clock: int | None = None
    power: float | None = None
    power_limit: float | None = None
    temperature: int | None = None
    throttling: tuple[str, ...] = ()
    others: int | None = None
    busy: float | None = None


UNKNOWN = State()


@dataclass(frozen=True, slots=True)
class Environment:
    """The card before, while and after something was measured."""

    before: State
    after: State
    sm_clock_low: int | None = None
    sm_clock_high: int | None = None
    temperature_high: int | None = None
    power_high: float | None = None
    throttling: tuple[str, ...] = ()

    def warnings(self) -> list[str]:
        """What makes the measurement less than it seems, one line each."""
        found = []
        if self.throttling:
            clocks = _clocks(self.sm_clock_low, self.sm_clock_high)
            found.append(f"the GPU was held back by its {', '.join(self.throttling)} while measuring{clocks}")
        others = max((state.others or 0 for state in (self.before, self.after)), default=0)
        if others:
            found.append(f"{others} other process{'es' if others > 1 else ''} on the GPU: times may include its work")
        elif (self.before.busy or 0) > 0.1 and self.before.others is None:
            found.append(f"the GPU was {self.before.busy:.0%} busy before the measurement began")
        if self.before.sm_clock is None:
            found.append("clocks, power and throttling are unknown: pip install nvidia-ml-py reads them")
        return found


def environment(before: State, during: Iterable[State], after: State) -> Environment:
    """Sum up the looks taken; throttling counts if any of them, before the work excluded, saw it."""
    seen = [*during, after]
    clocks = [state.sm_clock for state in seen[:-1] or seen if state.sm_clock is not None]
    temperatures = [state.temperature for state in seen if state.temperature is not None]
    powers = [state.power for state in seen if state.power is not None]
    return Environment(
        before=before,
        after=after,
        sm_clock_low=min(clocks, default=None),
        sm_clock_high=max(clocks, default=None),
        temperature_high=max(temperatures, default=None),
        power_high=max(powers, default=None),
        throttling=tuple(dict.fromkeys(reason for state in seen for reason in state.throttling)),
    )


def throttles(bits: int) -> tuple[str, ...]:
    """The reasons in a bit mask that spoil a measurement, in words."""
    return tuple(reason for bit, reason in THROTTLES.items() if bits & bit)


class Monitor:
    """The driver's management library for one card; knows nothing where the library is not there."""

    def __init__(self, nvml: Any = None, handle: Any = None) -> None:
        self._nvml, self._handle = nvml, handle

    @classmethod
    def open(cls, uuid: str, index: int) -> Monitor:
        """The monitor of the card with this UUID, or of the card at `index` where no UUID matches."""
        try:
            import pynvml

            pynvml.nvmlInit()
        except Exception:  # the library, the driver or the permission is missing: then nothing is known
            return cls()
        for named in (uuid if uuid.startswith("GPU-") else f"GPU-{uuid}",):
            try:
                return cls(pynvml, pynvml.nvmlDeviceGetHandleByUUID(named))
            except pynvml.NVMLError:
                pass
        try:
            return cls(pynvml, pynvml.nvmlDeviceGetHandleByIndex(index))
        except pynvml.NVMLError:
            return cls()

    def state(self) -> State:
        """One look; what the card does not tell is None."""
        if self._nvml is None:
            return UNKNOWN
        nvml = self._nvml
        sm_clock = self._ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM)
        memory_clock = self._ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM)
        power, limit = self._ask("nvmlDeviceGetPowerUsage"), self._ask("nvmlDeviceGetEnforcedPowerLimit")
        utilization = self._ask("nvmlDeviceGetUtilizationRates")
        processes = self._ask("nvmlDeviceGetComputeRunningProcesses")
        return State(
            sm_clock=None if sm_clock is None else sm_clock * 10**6,
            memory_clock=None if memory_clock is None else memory_clock * 10**6,
            power=None if power is None else power / 1000,
            power_limit=None if limit is None else limit / 1000,
            temperature=self._ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            throttling=throttles(self._ask("nvmlDeviceGetCurrentClocksThrottleReasons") or 0),
            others=None if processes is None else others([process.pid for process in processes], os.getpid()),
            busy=None if utilization is None else utilization.gpu / 100,
        )

    def versions(self, torch: Any) -> dict[str, str]:
        """Versions of what a measurement depends on."""
        import triton

        from rooflinecli import __version__

        found = {
            "rooflinecli": __version__,
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "triton": str(triton.__version__),
            "cuda": str(torch.version.cuda),
        }
        driver = None if self._nvml is None else self._nvml.nvmlSystemGetDriverVersion()
        if driver is not None:
            found["driver"] = driver.decode() if isinstance(driver, bytes) else str(driver)
        return found

    def _ask(self, function: str, *arguments: Any) -> Any:
        try:
            return getattr(self._nvml, function)(self._handle, *arguments)
        except Exception:  # not supported on this card, or not permitted
            return None


def others(pids: Sequence[int], own: int) -> int:
    """Processes besides `own`. In a container the driver sees other ids: a single stranger is then ourselves."""
    foreign = [pid for pid in pids if pid != own]
    return 0 if len(foreign) == len(pids) == 1 else len(foreign)


def _clocks(low: int | None, high: int | None) -> str:
    if low is None or high is None:
        return ""
    return f" (SM clock {low / 1e6:.0f} to {high / 1e6:.0f} MHz)"
