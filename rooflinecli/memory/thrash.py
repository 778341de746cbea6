"""Blocks of unequal length: causal and windowed attention behind an L2.

Blocks that start at the same key and end at different ones are replaced at different times and fall out of step. While
what they stream stays near the L2's size, late ones find it there, catch up, and every byte is read about once. Far
beyond it each block ends up reading for itself.
"""

from __future__ import annotations

import math

from rooflinecli.accounting.ledger import Cost
from rooflinecli.memory.cache import Cache
from rooflinecli.memory.waves import Streams
from rooflinecli.workload import Workload

# Fitted on causal readings of an H200: half of the SM's reads reach DRAM where the stream is this many times the
# effective capacity; the step is log-normal.
MIDDLE, WIDTH = 3.8, 0.32
FITS = 0.5  # of the effective capacity: nothing has been seen to be read twice


def thrashed_share(grid: Streams, cost: Cost, workload: Workload, cache: Cache) -> float:
    """The share of SM-boundary reads beyond the compulsory ones that reach DRAM. 0 where the stream fits twice."""
    streams = min(grid.streams, -(-grid.resident // grid.blocks_a_stream))
    stream = grid.stream_bytes
    if workload.window is not None and cost.tile is not None:
        # Resident blocks of a head see a band of keys: a window and what lies between their first and last query.
        span = workload.window * (1 if workload.causal else 2) + cost.tile.br * min(grid.resident, grid.blocks_a_stream)
        stream = min(stream, stream * span / workload.n_kv)
    together = streams * stream
    if together <= FITS * cache.shared:
        return 0.0
    if cache.shared <= 0:
        return 1.0
    return 0.5 * (1 + math.erf(math.log(together / (MIDDLE * cache.shared)) / (WIDTH * math.sqrt(2))))
