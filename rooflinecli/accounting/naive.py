"""Naive attention: three kernels that materialise S and P.

Each kernel reads its inputs once and writes its output once; a mask saves nothing, S is whole.
Source: Dao et al. 2022, algorithm 0 (standard attention), with O kept in the ledger.
"""

from __future__ import annotations

from rooflinecli.accounting.ledger import Algorithm, Cost, Tile, always, moved
from rooflinecli.accounting.shared import exponentials, forward_floor, forward_flops, symbols
from rooflinecli.workload import Workload


def cost(workload: Workload, tile: Tile) -> Cost:
    """Bytes at the SM boundary and work of naive attention; `tile` plays no part."""
    w = workload
    scores = w.batch * w.heads * w.n_q * w.n_kv
    q, k = w.batch * w.heads * w.n_q * w.d, w.batch * w.kv_heads * w.n_kv * w.d
    v, o = w.batch * w.kv_heads * w.n_kv * w.d_v, w.batch * w.heads * w.n_q * w.d_v
    ledger = [
        moved("scores", "Q", "read", q, w.storage, "B*Hq*Nq*d"),
        moved("scores", "K", "read", k, w.kv, "B*Hk*Nk*d"),
        moved("scores", "S", "write", scores, w.scores, "B*Hq*Nq*Nk"),
        moved("softmax", "S", "read", scores, w.scores, "B*Hq*Nq*Nk"),
        moved("softmax", "P", "write", scores, w.scores, "B*Hq*Nq*Nk"),
        moved("output", "P", "read", scores, w.scores, "B*Hq*Nq*Nk"),
        moved("output", "V", "read", v, w.kv, "B*Hk*Nk*dv"),
        moved("output", "O", "write", o, w.storage, "B*Hq*Nq*dv"),
    ]
    everything = w.n_q * w.n_kv
    return Cost(
        "naive",
        None,
        forward_flops(w, everything),
        exponentials(w, everything),
        (*ledger, *forward_floor(w)),
        symbols(w),
    )


PSEUDOCODE = """\
for each batch and head:
    S = Q K^T         read Q, K     write S
    P = softmax(S)    read S        write P
    O = P V           read P, V     write O"""

ALGORITHM = Algorithm(
    name="naive",
    summary="three kernels, S and P written out and read back",
    pseudocode=PSEUDOCODE,
    tiled=False,
    applies=always,
    cost=cost,
)
