"""What kernels of one algorithm hand to each other through memory, and how much of it the L2 keeps."""

from __future__ import annotations

from dataclasses import dataclass

from rooflinecli.accounting.ledger import Cost
from rooflinecli.memory.cache import Cache

# A later kernel visits its input in an order of its own: the nearest reuse is this share of the tensor away, the
# farthest twice the tensor (itself and what is written meanwhile). Fitted on three-kernel ranges of an H200.
NEAREST, FARTHEST = 0.57, 2.0
_SAMPLES = 16


@dataclass(frozen=True, slots=True)
class Chain:
    """Intermediates between kernels: bytes of each, as written once and read once.

    inputs: bytes read that no step wrote, each tensor once. written: bytes that reach DRAM in the end.
    fetched_by_reductions: lines that additions in memory must fetch first.
    """

    handed_over: tuple[int, ...]
    inputs: int
    written: int
    fetched_by_reductions: int

    @property
    def intermediate(self) -> int:
        """Bytes of all intermediates."""
        return sum(self.handed_over)

    @property
    def largest(self) -> int:
        """Bytes of the largest."""
        return max(self.handed_over, default=0)

    def read_again(self, cache: Cache) -> float:
        """Bytes of intermediates that have to come back from DRAM, and what reductions fetch."""
        return sum(size * _lost(size, cache) for size in self.handed_over) + self._fetched(cache)

    def _fetched(self, cache: Cache) -> float:
        # The accumulator is cleared by one kernel and added to by the next.
        return self.fetched_by_reductions * _lost(self.fetched_by_reductions, cache)


def chain_of(cost: Cost) -> Chain:
    """The intermediates of `cost`: tensors that a step reads and an earlier one wrote, or read too."""
    written: dict[str, tuple[str, int]] = {}
    read: dict[str, tuple[str, int]] = {}
    handed: list[int] = []
    fetched = 0
    for row in cost.ledger:
        if row.level != "sm":
            continue
        if row.direction == "write":
            once = min(row.bytes, written[row.tensor][1]) if row.tensor in written else row.bytes
            if row.tensor in written and written[row.tensor][0] != row.step:
                fetched = once  # additions in memory to what an earlier step cleared
            written[row.tensor] = (row.step, once)
        elif row.tensor in written and written[row.tensor][0] != row.step:
            handed.append(min(row.bytes, written[row.tensor][1]))
        elif row.tensor in read and read[row.tensor][0] != row.step:
            handed.append(min(row.bytes, read[row.tensor][1]))
        else:
            read[row.tensor] = (row.step, row.bytes)
    distinct = {row.tensor: row.bytes for row in cost.ledger if row.level == "compulsory" and row.direction == "write"}
    total = sum(distinct.get(tensor, size) for tensor, (_, size) in written.items() if tensor not in ("l", "m"))
    return Chain(tuple(handed), sum(size for _, size in read.values()), total, fetched)


def _lost(size: int, cache: Cache) -> float:
    span = FARTHEST - NEAREST
    points = [NEAREST + span * (sample + 0.5) / _SAMPLES for sample in range(_SAMPLES)]
    return sum(cache.lost(size * point, cache.private) for point in points) / _SAMPLES
