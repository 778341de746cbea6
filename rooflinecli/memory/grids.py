"""Which grid of streaming blocks an algorithm launches."""

from __future__ import annotations

from rooflinecli.accounting.ledger import Cost
from rooflinecli.memory.waves import Streams
from rooflinecli.workload import Workload

# Blocks whose lengths differ by less than this share of the longest stay in step.
EQUAL_ENOUGH = 0.5


def marches_in_step(workload: Workload, cost: Cost) -> bool:
    """Whether resident blocks have nearly equal lengths: no mask, or a causal one over a long common prefix."""
    if workload.window is not None:
        return False
    return not workload.causal or cost.algorithm == "flash1" or workload.n_q <= EQUAL_ENOUGH * workload.n_kv


def grid_of(cost: Cost, workload: Workload, resident: int) -> Streams | None:
    """The grid of `cost`: who streams what. None where nothing is streamed twice."""
    w, tile = workload, cost.tile
    if tile is None:
        return None
    kv_row, q_row, o_row = w.kv.nbytes(w.d) + w.kv.nbytes(w.d_v), w.storage.nbytes(w.d), w.storage.nbytes(w.d_v)
    if cost.algorithm == "mla":
        kv_row = w.kv.nbytes(w.d)
    if cost.algorithm == "backward":
        # A block holds a key tile and streams its group's Q, dO, statistics and dQ.
        row = q_row + o_row + 8 + 4 * w.d
        return Streams(
            w.batch * w.heads, -(-w.n_kv // tile.bc), w.n_q * row, 2 * tile.bc * kv_row, tile.br * row, resident
        )
    if cost.algorithm == "flash1":
        # One block a head, which streams Q and O once a key tile: the same stream, key tile after key tile.
        row = q_row + 2 * o_row + 16
        heads, key_tiles = w.batch * w.heads, -(-w.n_kv // tile.bc)
        together = min(heads, resident)
        return Streams(heads, key_tiles, w.n_q * row, tile.bc * kv_row, tile.br * row, max(1, together))
    packed = w.group if tile.pack_gqa else 1
    tiles = -(-w.n_q * packed // tile.br) * (w.group // packed)
    return Streams(
        streams=w.batch * w.kv_heads,
        blocks_a_stream=tiles,
        stream_bytes=w.n_kv * kv_row,
        turnover_bytes=0,
        step_bytes=tile.bc * kv_row,
        resident=resident,
    )
