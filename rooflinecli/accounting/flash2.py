"""FlashAttention-2: Q outer, K and V streamed past each query tile.

`pack_gqa` puts the query heads of a group into the rows of one tile, which then share the reads of
K and V. Source: Dao 2023 (arXiv:2307.08691), algorithm 1; equal to hardware counters at the SM boundary.
"""

from __future__ import annotations

from rooflinecli.accounting.ledger import Algorithm, Cost, Tile, always, moved
from rooflinecli.accounting.shared import forward_floor, streams_all, symbols, tiled_work
from rooflinecli.accounting.visibility import walk
from rooflinecli.workload import Workload


def cost(workload: Workload, tile: Tile) -> Cost:
    """Bytes at the SM boundary and work of FlashAttention-2 with `tile`."""
    w = workload
    group = w.group if tile.pack_gqa else 1
    walked = walk(w, tile.br, tile.bc, group)
    packs = w.batch * w.heads // group
    flops, exps = tiled_work(w, walked, tile.br, tile.bc, group)
    heads = "B*Hk" if tile.pack_gqa else "B*Hq"
    streamed = f"{heads}*Tr*Nk" if streams_all(w) else f"{heads}*kv_rows"
    ledger = [
        moved("forward", "Q", "read", w.batch * w.heads * w.n_q * w.d, w.storage, "B*Hq*Nq*d"),
        moved("forward", "K", "read", packs * walked.kv_rows * w.d, w.kv, f"{streamed}*d"),
        moved("forward", "V", "read", packs * walked.kv_rows * w.d_v, w.kv, f"{streamed}*dv"),
        moved("forward", "O", "write", w.batch * w.heads * w.n_q * w.d_v, w.storage, "B*Hq*Nq*dv"),
    ]
    known = symbols(w, Tr=walked.q_tiles, kv_rows=walked.kv_rows)
    return Cost("flash2", tile, flops, exps, (*ledger, *forward_floor(w)), known)


PSEUDOCODE = """\
for each batch and query head (key/value head, if a tile packs its group):
    for each tile of Br queries:
        read Q_i;  O_i, l_i, m_i = 0, 0, -inf, on chip
        for each tile of Bc keys that one of these queries sees:
            read K_j, V_j
            S = Q_i K_j^T;  rescale O_i, l_i, m_i and add softmax(S) V_j
        write O_i / l_i"""

ALGORITHM = Algorithm(
    name="flash2",
    summary="Q outer, K/V streamed for each query tile (FlashAttention-2)",
    pseudocode=PSEUDOCODE,
    applies=always,
    cost=cost,
)
