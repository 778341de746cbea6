"""Decoding a few queries against a long cache: split-KV (Flash-Decoding), and its paged and MLA forms.

With one split the main kernel writes O itself. Grouped (`pack_gqa`, the default here), the query heads
of a group share a tile and K, V are read once per K/V head; otherwise once per query head.

`paged` reads the block table too: 4 B an entry, for each block of work the entries of the pages it visits
at least once: counted as the whole visited table once a reader (K/V head, query tile).
`mla` caches one latent of d elements a token for all heads; V is its first d_v elements, read with it.
Sources: Dao et al. 2023, Flash-Decoding; Kwon et al. 2023 (PagedAttention); DeepSeek-V2 (arXiv:2405.04434).
"""

from __future__ import annotations

from dataclasses import replace

from rooflinecli.accounting.ledger import Algorithm, Cost, Row, Tile, moved, when_asked
from rooflinecli.accounting.shared import FP32, forward_floor, streams_all, symbols, tiled_work
from rooflinecli.accounting.visibility import visible_keys, walk
from rooflinecli.dtypes import DType
from rooflinecli.workload import Workload

# A decode kernel holds the queries of a group in one tile of the matrix unit's rows.
MOST_ROWS = 128
TABLE_ENTRY = DType("int32", 1, 4)


def applies(workload: Workload) -> bool:
    """When the queries of a group fit one tile and the cache is longer than they are."""
    return workload.n_q * workload.group <= MOST_ROWS and workload.n_kv > workload.n_q


def split_kv(name: str, workload: Workload, tile: Tile, *, v_is_k: bool = False) -> Cost:
    """The split-KV ledger that decode, paged and MLA share."""
    w = workload
    group = w.group if tile.pack_gqa else 1
    walked = walk(w, tile.br, tile.bc, group)
    packs, heads = w.batch * w.heads // group, w.batch * w.heads
    splits = min(tile.splits, -(-w.n_kv // tile.bc))
    flops, exps = tiled_work(w, walked, tile.br, tile.bc, group)
    per = "B*Hk" if tile.pack_gqa else "B*Hq"
    streamed = f"{per}*Tr*Nk" if streams_all(w) else f"{per}*kv_rows"
    out = heads * w.n_q * w.d_v
    ledger: list[Row] = [
        moved("attend", "Q", "read", splits * heads * w.n_q * w.d, w.storage, "splits*B*Hq*Nq*d"),
        moved("attend", "K", "read", packs * walked.kv_rows * w.d, w.kv, f"{streamed}*d"),
    ]
    if not v_is_k:
        ledger.append(moved("attend", "V", "read", packs * walked.kv_rows * w.d_v, w.kv, f"{streamed}*dv"))
    if splits == 1:
        ledger.append(moved("attend", "O", "write", out, w.storage, "B*Hq*Nq*dv"))
    else:
        partials = (("O_partial", splits * out, "splits*B*Hq*Nq*dv"), ("LSE", splits * heads * w.n_q, "splits*B*Hq*Nq"))
        ledger += [moved("attend", tensor, "write", count, FP32, text) for tensor, count, text in partials]
        ledger += [moved("combine", tensor, "read", count, FP32, text) for tensor, count, text in partials]
        ledger.append(moved("combine", "O", "write", out, w.storage, "B*Hq*Nq*dv"))
    known = symbols(w, Tr=walked.q_tiles, kv_rows=walked.kv_rows, splits=splits)
    return Cost(name, tile, flops, exps, (*ledger, *forward_floor(w, v_is_k=v_is_k)), known)


def cost(workload: Workload, tile: Tile) -> Cost:
    """Bytes at the SM boundary and work of split-KV decoding with `tile`."""
    return split_kv("decode", workload, tile)


def paged_cost(workload: Workload, tile: Tile) -> Cost:
    """As `cost`, over a paged cache: K and V by way of a block table of `tile.page_size` tokens an entry."""
    w, page = workload, tile.page_size or 16
    dense = split_kv("paged", w, tile)
    readers = w.kv_heads if tile.pack_gqa else w.heads
    tables = -(-w.n_q * (w.group if tile.pack_gqa else 1) // tile.br)
    entries = -(-w.n_kv // page) - (w.n_kv - visible_keys(w)) // page
    per = "Hk" if tile.pack_gqa else "Hq"
    table = moved("attend", "block_table", "read", w.batch * readers * tables * entries, TABLE_ENTRY,
                  f"B*{per}*Tr*pages")  # fmt: skip
    once = moved("any", "block_table", "read", w.batch * entries, TABLE_ENTRY, "B*pages", "compulsory")
    return replace(dense, ledger=(table, *dense.ledger, once), symbols={**dense.symbols, "pages": entries})


def mla_cost(workload: Workload, tile: Tile) -> Cost:
    """Absorbed MLA decoding: K is the latent (d = kv_lora_rank + rope_dim), V a view of it (d_v = kv_lora_rank)."""
    return split_kv("mla", workload, tile, v_is_k=True)


def mla_applies(workload: Workload) -> bool:
    """One latent head whose first d_v elements are the values, wider than any per-head cache."""
    return workload.kv_heads == 1 and workload.heads > 1 and workload.d_v < workload.d and workload.d > 256


_SPLIT_KV = """\
for each batch, {head}, tile of Br queries and split (a range of key tiles):
    read Q_i;  O_i, l_i, m_i = 0, 0, -inf, on chip
    for each tile of Bc keys in the range that one of these queries sees:
        {load}
        S = Q_i K_j^T;  rescale O_i, l_i, m_i and add softmax(S) V_j
    write O_i / l_i and LSE_i, fp32 (O itself, if there is one split)
for each query, if there are several splits: read the partial O and LSE;  write O"""

ALGORITHMS = (
    Algorithm(
        name="decode",
        summary="split-KV, a group's heads share a tile (Flash-Decoding)",
        pseudocode=_SPLIT_KV.format(head="key/value head", load="read K_j, V_j"),
        packs=True,
        applies=applies,
        cost=cost,
    ),
    Algorithm(
        name="paged",
        summary="decode over a paged cache, block table included",
        pseudocode=_SPLIT_KV.format(
            head="key/value head", load="read their pages' entries in the block table, K_j, V_j"
        ),
        packs=True,
        applies=when_asked,
        cost=paged_cost,
    ),
    Algorithm(
        name="mla",
        summary="absorbed multi-head latent attention, one latent cache for all heads",
        pseudocode=_SPLIT_KV.format(head="the one latent", load="read K_j; V_j is its first dv columns"),
        packs=True,
        applies=mla_applies,
        cost=mla_cost,
    ),
)
