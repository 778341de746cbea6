"""The kernels whose traffic is read: a plain FlashAttention-2 forward and three plain streams, in Triton.

`flash_forward` walks query tiles fastest, then heads, then batch, one block a tile; a block loads its tile of Q
once and streams K and V tile by tile from the first key its rows see to the last.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 8192  # elements a block of a stream touches


@triton.jit
def _forward(
    q, k, v, out, scale, n_q, n_kv, group: tl.constexpr, d: tl.constexpr, br: tl.constexpr, bc: tl.constexpr,
    causal: tl.constexpr, window: tl.constexpr,
):  # fmt: skip
    tile, head = tl.program_id(0), tl.program_id(1)
    rows = tile * br + tl.arange(0, br)
    cols = tl.arange(0, d)
    kv_head = (head // group).to(tl.int64)
    q += head.to(tl.int64) * n_q * d
    out += head.to(tl.int64) * n_q * d
    k += kv_head * n_kv * d
    v += kv_head * n_kv * d
    queries = tl.load(q + rows[:, None] * d + cols[None, :], mask=rows[:, None] < n_q, other=0.0)
    peak = tl.full((br,), float("-inf"), tl.float32)
    total = tl.zeros((br,), tl.float32)
    acc = tl.zeros((br, d), tl.float32)
    offset = n_kv - n_q
    low = 0
    high = n_kv
    if causal:
        high = tl.minimum(n_kv, (tile + 1) * br + offset)
    if window > 0:
        low = tl.maximum(0, tile * br + offset - window + 1) // bc * bc
    for start in range(low, high, bc):
        keys = start + tl.arange(0, bc)
        kt = tl.load(k + keys[None, :] * d + cols[:, None], mask=keys[None, :] < n_kv, other=0.0)
        s = tl.dot(queries, kt) * scale
        seen = keys[None, :] < n_kv
        if causal:
            seen = seen & (keys[None, :] <= rows[:, None] + offset)
        if window > 0:
            seen = seen & (keys[None, :] > rows[:, None] + offset - window)
        s = tl.where(seen, s, -1e30)
        higher = tl.maximum(peak, tl.max(s, 1))
        p = tl.exp2(s - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(p, 1)
        vt = tl.load(v + keys[:, None] * d + cols[None, :], mask=keys[:, None] < n_kv, other=0.0)
        acc = acc * shrink[:, None] + tl.dot(p.to(vt.dtype), vt)
        peak = higher
    tl.store(
        out + rows[:, None] * d + cols[None, :],
        (acc / total[:, None]).to(out.dtype.element_ty),
        mask=rows[:, None] < n_q,
    )


def flash_forward(
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    *,
    causal: bool,
    window: int,
    br: int,
    bc: int,
    warps: int,
) -> None:
    """`out = softmax(q k^T / sqrt(d)) v`, tensors (batch, heads, rows, d)."""
    b, hq, n_q, d = q.shape
    scale = d**-0.5 * 1.4426950408889634  # exponentials are of base two
    _forward[(triton.cdiv(n_q, br), b * hq)](
        q, k, v, out, scale, n_q, k.shape[2], hq // k.shape[1], d, br, bc, causal, window, num_warps=warps, num_stages=3
    )


@triton.jit
def _write_stream(x, block: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    tl.store(x + at, at.to(tl.float32))


@triton.jit
def _read_stream(x, sink, block: tl.constexpr, reverse: tl.constexpr):
    place = tl.program_id(0)
    if reverse:
        place = tl.num_programs(0) - 1 - place
    values = tl.load(x + place.to(tl.int64) * block + tl.arange(0, block))
    tl.store(sink + place, tl.sum(values, 0))


@triton.jit
def _share_stream(x, sink, blocks, block: tl.constexpr):
    total = 0.0
    for place in range(0, blocks):
        total += tl.sum(tl.load(x + tl.cast(place, tl.int64) * block + tl.arange(0, block)), 0)
    tl.store(sink + tl.program_id(0), total)


def stream(x: Any, sink: Any, how: str) -> None:
    """Touch `x` once in order: written, read by one block a piece, or read whole by a block on every SM."""
    blocks = x.numel() // BLOCK
    if how == "write":
        _write_stream[(blocks,)](x, BLOCK)
    elif how == "share":
        _share_stream[(torch.cuda.get_device_properties(0).multi_processor_count,)](x, sink, blocks, BLOCK)
    else:
        _read_stream[(blocks,)](x, sink, BLOCK, how == "read_reverse")
