"""Bytes at HBM behind an L2: what a cost's SM-boundary traffic leaves over for DRAM.

`estimate` takes the ledger apart by what kind of traffic it is:

streams   what every block of a head reads in the same order (K and V; Q, dO and dQ in K/V-outer algorithms): read once,
          and again at each wave boundary where the cache has lost it
chain     what one kernel writes and a later one reads (S, P, split-KV partials, the dQ accumulator)
the rest  read once, written once

See docs/l2-model.md for the derivation and for every reading it was held to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rooflinecli.accounting.ledger import Cost
from rooflinecli.memory.cache import Cache, cache_of
from rooflinecli.memory.chain import Chain, chain_of
from rooflinecli.memory.grids import grid_of, marches_in_step
from rooflinecli.memory.occupancy import blocks_per_sm
from rooflinecli.memory.thrash import thrashed_share
from rooflinecli.memory.waves import Streams, streamed_again, unshared
from rooflinecli.workload import Workload

if TYPE_CHECKING:
    from rooflinecli.hardware import Profile

# How far the effective capacity of one launch has been seen from the fitted one.
LOOSE = 0.3
# Blocks of one wave can drift apart and read twice what they would in step.
DRIFT = 2.25
# Waves whose last blocks share a stream with few others have been seen to read this much less again.
SHY = 0.75
SURE = 0.02  # where everything fits, readings lie this near


@dataclass(frozen=True, slots=True)
class HbmTraffic:
    """Bytes between L2 and DRAM.

    read, write: the estimate. read_low, read_high: what readings may show. write_low: what a counter shows that is read
    as the kernel ends, while the L2 still holds written lines. regime: in a word; why: in a sentence.
    """

    read: int
    write: int
    read_low: int
    read_high: int
    write_low: int
    regime: str
    why: str

    @property
    def total(self) -> int:
        """Bytes in both directions."""
        return self.read + self.write


def estimate(cost: Cost, workload: Workload, profile: Profile, resident_blocks: int | None = None) -> HbmTraffic:
    """DRAM traffic of `cost` on `profile`.

    `resident_blocks` is how many blocks an SM holds, where a launch tells; otherwise the tile's working set decides.
    Reads are never under the compulsory ones and never over what crosses the SM boundary (what reductions fetch
    included).
    """
    cache = cache_of(profile)
    sm, floor = cost.traffic("sm"), cost.traffic("compulsory")
    chain = chain_of(cost)
    if cache is None:
        why = "the profile does not know the size of the L2"
        return HbmTraffic(floor.read, chain.written, floor.read, sm.read, floor.write, "unknown L2", why)
    most = max(sm.read + chain.fetched_by_reductions, floor.read)
    written = max(chain.written, floor.write)
    # A counter read at the end misses what the L2 still holds, and intermediates that die there.
    write_low = max(0, written - cache.size)
    grid = _grid(cost, workload, profile, resident_blocks)
    if grid is None:
        # Kernels that know nothing of the mask read their inputs whole, also what no query sees.
        return _from_chain(max(floor.read, chain.inputs), most, written, write_low, chain, cache)
    if cost.tile is not None and not marches_in_step(workload, cost):
        return _unequal(grid, cost, workload, cache, floor.read, most, written, write_low, chain)
    read = _in_step(grid, chain, cache, floor.read, most)
    low = _in_step(grid, chain, cache.scaled(1 + LOOSE), floor.read, most)
    high = _in_step(grid, chain, cache.scaled(1 - LOOSE), floor.read, most)
    low = floor.read + (low - floor.read) * SHY
    again = high - floor.read
    high = min(most, floor.read * (1 + SURE) + again * (DRIFT if again > SURE * floor.read else 1))
    regime, why = _regime(grid, read, floor.read)
    return HbmTraffic(round(read), written, round(low), round(max(read, high)), write_low, regime, why)


def _grid(cost: Cost, workload: Workload, profile: Profile, resident: int | None) -> Streams | None:
    if cost.tile is None:
        return None
    each = resident or blocks_per_sm(workload, cost.tile, profile)
    sms = 1 if profile.sm_count is None else int(profile.sm_count.value)
    return grid_of(cost, workload, each * sms)


def _in_step(grid: Streams, chain: Chain, cache: Cache, floor: int, most: int) -> float:
    """Reads of blocks in step, between sharing everything and, where not even a step fits, sharing nothing."""
    shared = min(float(most), floor + chain.read_again(cache) + streamed_again(grid, cache))
    alone = unshared(grid, cache)
    return shared + alone * (most - shared)


def _from_chain(floor: int, most: int, written: int, write_low: int, chain: Chain, cache: Cache) -> HbmTraffic:
    """Kernels without tiles that stream: each reads its inputs once, and finds intermediates or not."""
    again, largest = chain.read_again(cache), chain.largest
    low, high = (chain.read_again(cache.scaled(factor)) for factor in (1 + LOOSE, 1 - LOOSE))
    if largest == 0 or again < SURE * chain.intermediate:
        regime, why = "fits in L2", "what one kernel writes is still in the L2 when the next one reads it"
    elif again > (1 - SURE) * chain.intermediate:
        regime, why = "through HBM", "what one kernel writes has left the L2 before the next one reads it"
    else:
        regime, why = "partly kept", "part of what one kernel writes is still in the L2 when the next one reads it"
    read, low, high = (min(float(most), floor + part) for part in (again, 0.9 * low, 1.05 * high))
    high = min(float(most), high + SURE * floor)
    return HbmTraffic(round(read), written, round(low), round(max(high, read)), write_low, regime, why)


def _unequal(
    grid: Streams, cost: Cost, workload: Workload, cache: Cache,
    floor: int, most: int, written: int, write_low: int, chain: Chain,
) -> HbmTraffic:  # fmt: skip
    """Blocks of unequal length fall out of step; together they thrash once the stream is far beyond the L2."""
    share = thrashed_share(grid, cost, workload, cache)
    shared = min(float(most), floor + chain.read_again(cache))
    alone = unshared(grid, cache)
    read = shared + max(share, alone) * (most - shared)
    if share == 0 and alone < SURE:
        high = min(most, round(shared * (1 + SURE)))
        why = "what the resident blocks stream stays in the L2"
        return HbmTraffic(round(read), written, floor, max(round(read), high), write_low, "fits in L2", why)
    why = "blocks of unequal length drift apart; they may read anything from each byte once to the SM's own count"
    return HbmTraffic(round(read), written, floor, most, write_low, "thrashing possible", why)


def _regime(grid: Streams, read: float, floor: int) -> tuple[str, str]:
    if read <= floor * (1 + SURE):
        return "fits in L2", "what the resident blocks stream stays in the L2 from one wave to the next"
    full = floor + max(0, grid.waves - grid.streams) * grid.stream_bytes
    if read >= 0.95 * full:
        return "re-streamed each wave", "each wave of resident blocks finds the L2 emptied of what it streams"
    return "partly kept", "a wave of resident blocks finds part of what it streams in the L2"
