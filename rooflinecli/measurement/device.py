"""The one small interface to a GPU that everything here measures through; tests put a fake behind it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from rooflinecli.errors import UnavailableError
from rooflinecli.measurement.environment import Monitor, State

INSTALL = "on a machine with an NVIDIA GPU: pip install 'rooflinecli[measure]'"


@dataclass(frozen=True, slots=True)
class Identity:
    """The card. `memory` and `l2` in bytes; `l2` None where the driver does not say."""

    name: str
    capability: tuple[int, int] | None
    memory: int
    sm_count: int
    l2: int | None
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Batch:
    """Timings in seconds of runs one after another, and the looks taken at the card while they ran."""

    seconds: Sequence[float]
    states: Sequence[State]


class Device(Protocol):
    """What measuring needs of a GPU."""

    @property
    def identity(self) -> Identity:
        """The card."""

    def state(self) -> State:
        """Clocks, power, temperature, throttling and other processes, now."""

    def free_memory(self) -> int:
        """Bytes that can still be allocated."""

    def time(self, run: Callable[[], object], repeats: int, *, cold: bool = True) -> Batch:
        """Time `run` `repeats` times with device events; `cold` empties the L2 before each."""

    def release(self) -> None:
        """Give memory that nothing uses back."""

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether `error` says that memory ran out."""

    def clock(self) -> float:
        """Seconds on the host's clock, for budgets; never a measurement."""


def open_device() -> Device:
    """The NVIDIA GPU torch uses here.

    Raises:
        UnavailableError: no torch, no triton or no GPU; the hint says what to install.
    """
    try:
        import torch
    except ImportError:
        raise UnavailableError("measuring needs torch, which is not installed", INSTALL) from None
    try:
        import triton  # noqa: F401  # only whether it is there
    except ImportError:
        raise UnavailableError("measuring needs triton, which is not installed", INSTALL) from None
    if not torch.cuda.is_available():
        raise UnavailableError(
            "no NVIDIA GPU that torch can use here",
            "measure --check-only checks the kernels on a CPU; a GPU needs a driver and a CUDA build of torch",
        )
    return CudaDevice(torch)


class CudaDevice:
    """An NVIDIA GPU through torch's events and the driver's management library."""

    def __init__(self, torch: Any, index: int = 0) -> None:
        self._torch = torch
        torch.cuda.set_device(index)
        properties = torch.cuda.get_device_properties(index)
        self._monitor = Monitor.open(str(getattr(properties, "uuid", "")), index)
        self.identity = Identity(
            name=properties.name,
            capability=(properties.major, properties.minor),
            memory=properties.total_memory,
            sm_count=properties.multi_processor_count,
            l2=getattr(properties, "L2_cache_size", None),
            versions=self._monitor.versions(torch),
        )
        # Reading a buffer of several times the L2 leaves it full of clean lines of no use to anyone. Writing
        # one, as is often done, leaves dirty lines whose write-back is then charged to the kernel.
        words = max(256 << 20, 4 * (self.identity.l2 or 0)) // 4
        self._filler = torch.ones(words, dtype=torch.int32, device="cuda")
        self._sink = torch.empty((), dtype=torch.int32, device="cuda")

    def state(self) -> State:
        """Clocks, power, temperature, throttling and other processes, now."""
        return self._monitor.state()

    def free_memory(self) -> int:
        """Bytes the driver has free, and what torch holds without using it."""
        cuda = self._torch.cuda
        free, _ = cuda.mem_get_info()
        return int(free + cuda.memory_reserved() - cuda.memory_allocated())

    def time(self, run: Callable[[], object], repeats: int, *, cold: bool = True) -> Batch:
        """Time `run` `repeats` times, each between two events.

        The device is kept busy while the host queues the work, so that a launch slower than the kernel
        leaves no gap between the events.
        """
        torch = self._torch
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]
        self._hold(repeats)
        for start, end in events:
            if cold:
                self._evict()
            start.record()
            run()
            end.record()
        # Look while the work runs: clocks drop as soon as it ends.
        states = [self._monitor.state()]
        while not events[-1][1].query():
            time.sleep(2e-3)
            states.append(self._monitor.state())
        torch.cuda.synchronize()
        return Batch([start.elapsed_time(end) * 1e-3 for start, end in events], states)

    def release(self) -> None:
        """Return cached memory to the driver."""
        import gc

        gc.collect()
        self._torch.cuda.empty_cache()

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether torch or the driver ran out of memory."""
        return isinstance(error, self._torch.cuda.OutOfMemoryError) or "out of memory" in str(error)

    def clock(self) -> float:
        """The host's monotonic clock."""
        return time.monotonic()

    def _evict(self) -> None:
        self._torch.amax(self._filler, dim=0, out=self._sink)

    def _hold(self, repeats: int) -> None:
        # 100 microseconds a repeat is more than Python takes to queue one, at any clock up to 2 GHz.
        sleep = getattr(self._torch.cuda, "_sleep", None)
        if sleep is not None:
            sleep(min(repeats, 50) * 200_000)
