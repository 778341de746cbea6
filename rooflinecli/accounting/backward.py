"""The backward pass in FlashAttention-2's order: K and V outer, dQ accumulated in memory.

Five matrix products a pair instead of two. dQ is added where it lies, by reductions that only write
across the SM boundary. Source: Dao 2023 (arXiv:2307.08691), algorithm 2; equal to hardware counters.
"""

from __future__ import annotations

from rooflinecli.accounting.ledger import Algorithm, Cost, Exponentials, Flops, Tile, moved, when_asked
from rooflinecli.accounting.shared import FP32, floor, forward_floor, streams_all, symbols
from rooflinecli.accounting.visibility import visible_pairs, walk
from rooflinecli.workload import Workload


def cost(workload: Workload, tile: Tile) -> Cost:
    """Bytes at the SM boundary and work of the backward pass; `tile.br` steps over queries."""
    w = workload
    heads, kv_heads = w.batch * w.heads, w.batch * w.kv_heads
    walked = walk(w, tile.br, tile.bc)
    out, rows = heads * w.n_q * w.d_v, heads * w.n_q
    passes = "B*Hq*Tc*Nq" if streams_all(w) else "B*Hq*q_rows"
    visits = heads * walked.q_rows
    ledger = (
        moved("preprocess", "O", "read", out, w.storage, "B*Hq*Nq*dv"),
        moved("preprocess", "dO", "read", out, w.storage, "B*Hq*Nq*dv"),
        moved("preprocess", "delta", "write", rows, FP32, "B*Hq*Nq"),
        moved("preprocess", "dQ_acc", "write", rows * w.d, FP32, "B*Hq*Nq*d"),
        moved("main", "K", "read", kv_heads * w.n_kv * w.d, w.kv, "B*Hk*Nk*d"),
        moved("main", "V", "read", kv_heads * w.n_kv * w.d_v, w.kv, "B*Hk*Nk*dv"),
        moved("main", "Q", "read", visits * w.d, w.storage, f"{passes}*d"),
        moved("main", "dO", "read", visits * w.d_v, w.storage, f"{passes}*dv"),
        moved("main", "LSE", "read", visits, FP32, passes),
        moved("main", "delta", "read", visits, FP32, passes),
        moved("main", "dQ_acc", "write", visits * w.d, FP32, f"{passes}*d"),
        moved("main", "dK", "write", kv_heads * w.n_kv * w.d, w.storage, "B*Hk*Nk*d"),
        moved("main", "dV", "write", kv_heads * w.n_kv * w.d_v, w.storage, "B*Hk*Nk*dv"),
        moved("convert", "dQ_acc", "read", rows * w.d, FP32, "B*Hq*Nq*d"),
        moved("convert", "dQ", "write", rows * w.d, w.storage, "B*Hq*Nq*d"),
    )
    inputs = [row for row in forward_floor(w) if row.tensor != "O"]
    once = (
        *inputs,
        floor("O", "read", out, w.dtype, "B*Hq*Nq*dv"),
        floor("dO", "read", out, w.dtype, "B*Hq*Nq*dv"),
        floor("LSE", "read", rows, "fp32", "B*Hq*Nq"),
        floor("dQ", "write", rows * w.d, w.dtype, "B*Hq*Nq*d"),
        floor("dK", "write", kv_heads * w.n_kv * w.d, w.dtype, "B*Hk*Nk*d"),
        floor("dV", "write", kv_heads * w.n_kv * w.d_v, w.dtype, "B*Hk*Nk*dv"),
    )
    # S, dQ and dK contract or produce d; dP and dV contract or produce dv.
    per_pair = 2 * (3 * w.d + 2 * w.d_v)
    pairs = visible_pairs(w)
    published = w.n_q * w.n_kv * per_pair
    flops = Flops(
        useful=heads * pairs * per_pair,
        published=heads * (published // 2 if w.causal else published),
        executed=heads * walked.visits * tile.br * tile.bc * per_pair,
        softmax=heads * 5 * pairs,
    )
    executed = heads * walked.visits * tile.br * tile.bc
    known = symbols(w, Tc=-(-w.n_kv // tile.bc), q_rows=walked.q_rows)
    return Cost("backward", tile, flops, Exponentials(heads * pairs, executed), (*ledger, *once), known)


PSEUDOCODE = """\
for each query: read O, dO;  write delta = rowsum(O * dO);  clear dQ_acc
for each batch and key/value head:
    for each tile of Bc keys:
        read K_j, V_j;  dK_j, dV_j = 0, on chip
        for each query head of the group, each tile of Br queries that sees one of these keys:
            read Q_i, dO_i, LSE_i, delta_i
            P = exp(Q_i K_j^T - LSE_i);  dV_j += P^T dO_i
            dS = P * (dO_i V_j^T - delta_i);  dK_j += dS^T Q_i
            add dS K_j to dQ_acc_i, where it lies
        write dK_j, dV_j
for each query: read dQ_acc;  write dQ"""

ALGORITHM = Algorithm(
    name="backward",
    summary="gradients in FlashAttention-2's order, dQ accumulated in fp32",
    pseudocode=PSEUDOCODE,
    applies=when_asked,
    cost=cost,
)
