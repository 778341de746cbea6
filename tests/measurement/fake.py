"""A GPU that is not there: it tells the times it is given, counts what is asked of it, and has a clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat

from rooflinecli.measurement.device import Batch, Identity
from rooflinecli.measurement.environment import State

H200 = Identity("NVIDIA H200", (9, 0), 150 * 10**9, 132, 60 << 20, {"torch": "2.11.0", "triton": "3.6.0"})
CALM = State(
    sm_clock=1_980_000_000, memory_clock=3_201_000_000, power=300.0, power_limit=700.0, temperature=50, others=0
)


class OutOfMemoryError(RuntimeError):
    """What torch raises."""


class FakeDevice:
    """`seconds` yields the duration of each run; `states` the card's state at each look."""

    def __init__(
        self,
        seconds: Iterator[float] | float = 1e-3,
        states: Iterator[State] | State = CALM,
        free: int = 140 * 10**9,
        identity: Identity = H200,
    ) -> None:
        self.identity = identity
        self._seconds = repeat(seconds) if isinstance(seconds, float) else seconds
        self._states = repeat(states) if isinstance(states, State) else states
        self._free = free
        self._now = 0.0
        self.runs = 0
        self.released = 0
        self.cold: list[bool] = []

    def state(self) -> State:
        return next(self._states)

    def free_memory(self) -> int:
        return self._free

    def time(self, run: Callable[[], object], repeats: int, *, cold: bool = True) -> Batch:
        found = []
        for _ in range(repeats):
            run()
            self.runs += 1
            self.cold.append(cold)
            found.append(next(self._seconds))
        self._now += sum(found)
        return Batch(found, [self.state()])

    def release(self) -> None:
        self.released += 1

    def is_out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, OutOfMemoryError)

    def clock(self) -> float:
        return self._now
