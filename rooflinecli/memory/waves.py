"""What streams past resident blocks reads from DRAM, when the blocks march in step.

The blocks an SM array holds at once are a wave. A wave streams its heads' K and V (or whatever the algorithm streams)
chunk by chunk, every block of a head at the same chunk, and each chunk is read from DRAM once for all of them. The next
wave streams it again if it has blocks of the same head, and finds a chunk in the L2 unless too much was touched since.
"""

from __future__ import annotations

from dataclasses import dataclass

from rooflinecli.memory.cache import Cache

_SAMPLES = 8  # points along a stream where the reuse distance is taken
_MOST_WAVES = 512  # simulated one by one; more are sampled evenly, their pattern repeats


@dataclass(frozen=True, slots=True)
class Streams:
    """A grid of blocks that stream.

    blocks_a_stream: blocks that read the same stream (query tiles of a K/V head's group). streams: different ones.
    stream_bytes: of one stream. turnover_bytes: what one block reads and writes besides. step_bytes: what the
    blocks of one stream have in flight.
    """

    streams: int
    blocks_a_stream: int
    stream_bytes: float
    turnover_bytes: float
    step_bytes: float
    resident: int

    @property
    def blocks(self) -> int:
        """Blocks in all."""
        return self.streams * self.blocks_a_stream

    @property
    def waves(self) -> int:
        """Waves in all."""
        return -(-self.blocks // self.resident)


def streamed_again(grid: Streams, cache: Cache) -> float:
    """Bytes of streams read from DRAM beyond the first time."""
    if grid.stream_bytes <= 0:
        return 0.0
    boundaries = grid.waves - 1
    picked = range(boundaries) if boundaries <= _MOST_WAVES else _spread_over(boundaries)
    again = sum(_at_boundary(grid, wave, cache) for wave in picked)
    return again * boundaries / len(picked) if picked else 0.0


def unshared(grid: Streams, cache: Cache) -> float:
    """Probability that blocks of a wave do not even share a chunk in flight: the L2 holds less than one step."""
    return cache.lost(min(grid.streams, grid.resident) * grid.step_bytes, cache.shared)


def _at_boundary(grid: Streams, wave: int, cache: Cache) -> float:
    """What wave + 1 reads again of the stream it shares with `wave`."""
    start, middle = wave * grid.resident, (wave + 1) * grid.resident
    end = min(grid.blocks, middle + grid.resident)
    first, last = start // grid.blocks_a_stream, (middle - 1) // grid.blocks_a_stream
    if middle // grid.blocks_a_stream != last:
        return 0.0
    here, there = last - first + 1, (end - 1) // grid.blocks_a_stream - last + 1
    turnover = (end - start) / 2 * grid.turnover_bytes
    chances = []
    for sample in range(_SAMPLES):
        share = (sample + 0.5) / _SAMPLES
        distance = ((1 - share) * here + share * there) * grid.stream_bytes
        chances.append(cache.lost(distance + turnover, cache.shared))
    return grid.stream_bytes * sum(chances) / _SAMPLES


def _spread_over(count: int) -> range:
    return range(0, count, -(-count // _MOST_WAVES))
