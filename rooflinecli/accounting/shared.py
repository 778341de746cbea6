"""What several algorithms share: the work of a forward pass, and the floor no schedule goes under."""

from __future__ import annotations

from rooflinecli.accounting.ledger import Direction, Exponentials, Flops, Row, moved
from rooflinecli.accounting.visibility import Walk, seeing_queries, visible_keys, visible_pairs
from rooflinecli.dtypes import dtype
from rooflinecli.workload import Workload

FP32 = dtype("fp32")


def forward_flops(workload: Workload, executed_pairs: int) -> Flops:
    """FLOPs of S = Q K^T and O = P V over all heads; `executed_pairs` is what one head really multiplies."""
    w, heads = workload, workload.batch * workload.heads
    pairs = visible_pairs(w)
    published = 2 * w.n_q * w.n_kv * (w.d + w.d_v)
    return Flops(
        useful=heads * 2 * pairs * (w.d + w.d_v),
        published=heads * (published // 2 if w.causal else published),
        executed=heads * 2 * executed_pairs * (w.d + w.d_v),
        softmax=heads * 5 * pairs,
    )


def exponentials(workload: Workload, executed: int) -> Exponentials:
    """One exponential a visible pair; `executed` is what one head evaluates."""
    heads = workload.batch * workload.heads
    return Exponentials(useful=heads * visible_pairs(workload), executed=heads * executed)


def tiled_work(workload: Workload, walked: Walk, br: int, bc: int, group: int = 1) -> tuple[Flops, Exponentials]:
    """FLOPs and exponentials of an online softmax over the visited tiles, each computed whole.

    A visit evaluates br*bc exponentials and one rescale a row. `walked` is of one packed group of heads.
    """
    w = workload
    packs = w.batch * w.heads // group
    flops = forward_flops(w, 0)
    useful = exponentials(w, 0).useful
    executed = packs * 2 * walked.visits * br * bc * (w.d + w.d_v)
    return (
        Flops(flops.useful, flops.published, executed, flops.softmax),
        Exponentials(useful, packs * walked.visits * (br * bc + br)),
    )


def forward_floor(workload: Workload, *, v_is_k: bool = False) -> list[Row]:
    """Compulsory traffic of attention: what at least one query needs, once, and O once.

    `v_is_k` leaves V out: it is a view of K (the latent cache of MLA).
    """
    w = workload
    keys, queries = visible_keys(w), seeing_queries(w)
    seen, seeing = "Nk" if keys == w.n_kv else "k_seen", "Nq" if queries == w.n_q else "q_seeing"
    rows = [
        floor("Q", "read", w.batch * w.heads * queries * w.d, w.dtype, f"B*Hq*{seeing}*d"),
        floor("K", "read", w.batch * w.kv_heads * keys * w.d, w.kv_dtype, f"B*Hk*{seen}*d"),
    ]
    if not v_is_k:
        rows.append(floor("V", "read", w.batch * w.kv_heads * keys * w.d_v, w.kv_dtype, f"B*Hk*{seen}*dv"))
    rows.append(floor("O", "write", w.batch * w.heads * w.n_q * w.d_v, w.dtype, "B*Hq*Nq*dv"))
    return rows


def floor(tensor: str, direction: Direction, elements: int, dtype_name: str, formula: str) -> Row:
    """A row of the compulsory level."""
    return moved("any", tensor, direction, elements, dtype(dtype_name), formula, "compulsory")


def streams_all(workload: Workload) -> bool:
    """Whether every query tile reads every key, so that formulas need no sum over tiles."""
    return not workload.causal and workload.window is None


def symbols(workload: Workload, **of_the_algorithm: int) -> dict[str, int]:
    """Values of the symbols in formulas: the workload's, and those only one algorithm knows."""
    w = workload
    shapes = {"B": w.batch, "Hq": w.heads, "Hk": w.kv_heads, "Nq": w.n_q, "Nk": w.n_kv, "d": w.d, "dv": w.d_v}
    return {**shapes, "k_seen": visible_keys(w), "q_seeing": seeing_queries(w), **of_the_algorithm}
