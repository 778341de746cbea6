"""FlashAttention of 2022: K and V outer, Q inner.

l and m, the running sum and maximum of a row, are fp32. Source: Dao et al. 2022 (arXiv:2205.14135),
algorithm 1.
"""

from __future__ import annotations

from rooflinecli.accounting.ledger import Algorithm, Cost, Row, Tile, always, moved
from rooflinecli.accounting.shared import FP32, forward_floor, streams_all, symbols, tiled_work
from rooflinecli.accounting.visibility import visible_keys, walk
from rooflinecli.workload import Workload


def cost(workload: Workload, tile: Tile) -> Cost:
    """Bytes at the SM boundary and work of FlashAttention's 2022 order with `tile`."""
    w = workload
    walked = walk(w, tile.br, tile.bc)
    heads = w.batch * w.heads
    flops, exps = tiled_work(w, walked, tile.br, tile.bc)
    # A key tile that no query sees is never loaded; one that is seen is loaded whole.
    keys = _visited_keys(w, tile.bc)
    passes = "B*Hq*Tc*Nq" if streams_all(w) else "B*Hq*q_rows"
    stored = "B*Hq*Nk" if streams_all(w) else "B*Hq*k_loaded"
    ledger: list[Row] = [
        moved("forward", "K", "read", heads * keys * w.d, w.kv, f"{stored}*d"),
        moved("forward", "V", "read", heads * keys * w.d_v, w.kv, f"{stored}*dv"),
        moved("forward", "Q", "read", heads * walked.q_rows * w.d, w.storage, f"{passes}*d"),
    ]
    for direction in ("read", "write"):
        ledger += [
            moved("forward", "O", direction, heads * walked.q_rows * w.d_v, w.storage, f"{passes}*dv"),
            moved("forward", "l", direction, heads * walked.q_rows, FP32, passes),
            moved("forward", "m", direction, heads * walked.q_rows, FP32, passes),
        ]
    known = symbols(w, Tc=-(-w.n_kv // tile.bc), q_rows=walked.q_rows, k_loaded=keys)
    return Cost("flash1", tile, flops, exps, (*ledger, *forward_floor(w)), known)


def _visited_keys(workload: Workload, bc: int) -> int:
    """Rows of the key tiles that some query sees: the seen range, widened to whole tiles, clipped to n_kv."""
    seen = visible_keys(workload)
    if not seen:
        return 0
    offset = workload.n_kv - workload.n_q
    start = 0 if workload.window is None else max(0, offset - workload.window + 1)
    return min(workload.n_kv, -(-(start + seen) // bc) * bc) - start // bc * bc


PSEUDOCODE = """\
for each batch and query head:
    for each tile of Bc keys that some query sees:
        read K_j, V_j
        for each tile of Br queries that sees one of these keys:
            read Q_i, O_i, l_i, m_i
            S = Q_i K_j^T;  rescale O_i, l_i, m_i and add softmax(S) V_j
            write O_i, l_i, m_i"""

ALGORITHM = Algorithm(
    name="flash1",
    summary="K/V outer, O rescaled in memory for each key tile (FlashAttention, 2022)",
    pseudocode=PSEUDOCODE,
    applies=always,
    cost=cost,
)
