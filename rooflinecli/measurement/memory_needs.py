"""How much GPU memory measuring a point takes, known before anything is allocated."""

from __future__ import annotations

from dataclasses import replace

from rooflinecli.workload import Workload

FP64_FLOPS = 2 * 10**12  # a reference that costs more is computed on a smaller problem
REFERENCE_PAIRS = 2**27  # pairs of one head, as float64 scores with a mask and weights beside them
OVERHEAD = 1 << 29  # contexts, modules, the allocator's rounding


def checkable(workload: Workload) -> Workload:
    """The workload itself, or the largest like it whose float64 reference is affordable.

    First batches and groups of heads go, which repeat the same work; then length, from both ends alike so that
    a causal mask keeps its alignment.
    """
    w = workload
    if not _dear(w):
        return w
    w = replace(w, batch=1, heads=w.group, kv_heads=1)
    while _dear(w) and w.n_kv > 256:
        n_kv = max(256, w.n_kv // 2 + w.n_kv // 2 % 2)
        w = replace(w, n_kv=n_kv, n_q=min(w.n_q, max(1, n_kv - max(0, w.n_kv - w.n_q))))
    return w


def bytes_needed(workload: Workload, algorithm: str, splits: int = 1) -> int:
    """Bytes a point takes: inputs, outputs, what the algorithm materialises, and the float64 check beside them."""
    held = _tensors(workload, algorithm, splits)
    return held + _reference(checkable(workload)) + OVERHEAD


def _dear(w: Workload) -> bool:
    pairs = w.n_q * w.n_kv
    return pairs > REFERENCE_PAIRS or 2 * w.batch * w.heads * pairs * (w.d + w.d_v) > FP64_FLOPS


def _tensors(w: Workload, algorithm: str, splits: int) -> int:
    q, o = w.batch * w.heads * w.n_q * w.d, w.batch * w.heads * w.n_q * w.d_v
    keys, values = w.batch * w.kv_heads * w.n_kv * w.d, w.batch * w.kv_heads * w.n_kv * w.d_v
    stored = w.storage.nbytes(q + o) + w.kv.nbytes(keys) + (0 if algorithm == "mla" else w.kv.nbytes(values))
    drawn = 4 * max(q, keys, values)  # random numbers are drawn in fp32 and converted
    if algorithm == "naive":
        return stored + drawn + 2 * w.scores.nbytes(w.batch * w.heads * w.n_q * w.n_kv)
    if algorithm == "backward":
        return 2 * stored + drawn + w.storage.nbytes(o) + 4 * (q + 2 * w.batch * w.heads * w.n_q)
    return stored + drawn + (4 * splits * (o + w.batch * w.heads * w.n_q) if splits > 1 else 0)


def _reference(w: Workload) -> int:
    """Scores, weights and their product's inputs of one head in float64, the mask, and the whole output."""
    outputs = w.batch * (w.heads * w.n_q * (w.d + w.d_v) + w.kv_heads * w.n_kv * (w.d + w.d_v))
    return 8 * (3 * w.n_q * w.n_kv + outputs) + w.n_q * w.n_kv
