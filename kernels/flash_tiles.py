"""Which tiles the flash kernels visit, on the device, and which tile sizes they use, on the host.

The ranges are the ones `rooflinecli.accounting.visibility` counts: query `i` stands at `i + n_kv - n_q`
(bottom-right aligned), a window of W keys includes the own position and is symmetric without `causal`.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def key_tiles(first_query, last_query, n_q, n_kv, window, BC: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr):
    """Key tiles that queries `first_query..last_query` see together: `lo, full_lo, full_hi, hi`.

    Tiles in `[lo, hi)` are visited; those in `[full_lo, full_hi)` are seen whole by every query and need
    no mask. `lo == hi` when the queries see nothing.
    """
    shift = n_kv - n_q
    end = n_kv
    full_end = n_kv
    first = 0
    full_first = 0
    if CAUSAL:
        end = tl.minimum(n_kv, last_query + shift + 1)
        full_end = tl.minimum(n_kv, first_query + shift + 1)
    elif WINDOW:
        end = tl.minimum(n_kv, last_query + shift + window)
        full_end = tl.minimum(n_kv, first_query + shift + window)
    if WINDOW:
        first = tl.maximum(0, first_query + shift - window + 1)
        full_first = tl.maximum(0, last_query + shift - window + 1)
    lo = first // BC
    hi = tl.maximum(lo, (tl.maximum(end, 0) + BC - 1) // BC)
    full_lo = tl.minimum(hi, (full_first + BC - 1) // BC)
    full_hi = tl.minimum(hi, tl.maximum(full_lo, tl.maximum(full_end, 0) // BC))
    return lo, full_lo, full_hi, hi


@triton.jit
def query_tiles(
    key_tile, n_q, n_kv, window, BR: tl.constexpr, BC: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr
):
    """Query tiles that see key tile `key_tile`: `lo, full_lo, full_hi, hi`, as in `key_tiles`."""
    shift = n_kv - n_q
    first_key = key_tile * BC
    last_key = tl.minimum(n_kv, first_key + BC) - 1
    tiles = (n_q + BR - 1) // BR
    lo = 0
    full_lo = 0
    hi = tiles
    full_hi = tiles
    ahead = 0
    if CAUSAL:
        lo = tl.maximum(0, first_key - shift) // BR
        full_lo = (tl.maximum(0, last_key - shift) + BR - 1) // BR
    elif WINDOW:
        ahead = window - 1
        lo = tl.maximum(0, first_key - shift - ahead) // BR
        full_lo = (tl.maximum(0, last_key - shift - ahead) + BR - 1) // BR
    if WINDOW:
        hi = tl.minimum(tiles, (tl.maximum(0, first_key + BC - shift + window - 1) + BR - 1) // BR)
        full_hi = tl.maximum(0, first_key - shift + window) // BR
    hi = tl.maximum(lo, hi)
    full_lo = tl.minimum(hi, full_lo)
    full_hi = tl.minimum(hi, tl.maximum(full_lo, full_hi))
    return lo, full_lo, full_hi, hi


@triton.jit
def sees(queries, keys, n_q, n_kv, window, CAUSAL: tl.constexpr, WINDOW: tl.constexpr):
    """Whether each query sees each key; the two index tensors broadcast against each other."""
    # Limits are taken a query, so that a pair costs one comparison, or two under a window.
    position = queries + (n_kv - n_q)
    end = n_kv
    if CAUSAL:
        end = tl.minimum(position + 1, n_kv)
    elif WINDOW:
        end = tl.minimum(position + window, n_kv)
    visible = keys < end
    if WINDOW:
        visible = visible & (keys > position - window)
    return visible


@triton.jit
def seen_by(queries, keys, n_q, n_kv, window, CAUSAL: tl.constexpr, WINDOW: tl.constexpr):
    """`sees` with its limits taken a key: for tiles that have more queries a thread than keys."""
    origin = keys - (n_kv - n_q)  # the query that stands at the key
    beyond = 2147483647
    first = tl.where(keys < n_kv, 0, beyond)
    if CAUSAL:
        first = tl.where(keys < n_kv, origin, beyond)
    elif WINDOW:
        first = tl.where(keys < n_kv, origin - window + 1, beyond)
    visible = queries >= first
    if WINDOW:
        visible = visible & (queries < origin + window)
    return visible


@triton.jit
def load_rows(source, head, start, rows, ROWS: tl.constexpr, D: tl.constexpr, BD: tl.constexpr, DESC: tl.constexpr):
    """Rows `start..start+ROWS` of one head of a (heads, rows, D) tensor, zero outside it: (ROWS, BD).

    `source` is a tensor descriptor with blocks (1, ROWS, BD), or a pointer to contiguous elements.
    """
    if DESC:
        return source.load([head, start, 0]).reshape(ROWS, BD)
    else:
        r = start + tl.arange(0, ROWS)
        c = tl.arange(0, BD)
        at = source + (head.to(tl.int64) * rows + r)[:, None] * D + c[None, :]
        return tl.load(at, mask=(r < rows)[:, None] & (c < D)[None, :], other=0.0)


@triton.jit
def store_rows(
    target, value, head, start, rows, ROWS: tl.constexpr, D: tl.constexpr, BD: tl.constexpr, DESC: tl.constexpr
):
    """Write (ROWS, BD) to rows `start..` of one head; what lies outside the tensor is dropped."""
    cast = value.to(target.dtype if DESC else target.dtype.element_ty)
    if DESC:
        target.store([head, start, 0], cast.reshape(1, ROWS, BD))
    else:
        r = start + tl.arange(0, ROWS)
        c = tl.arange(0, BD)
        at = target + (head.to(tl.int64) * rows + r)[:, None] * D + c[None, :]
        tl.store(at, cast, mask=(r < rows)[:, None] & (c < D)[None, :])


@triton.jit
def product(a, b, acc, PRECISION: tl.constexpr):
    """`acc + a @ b` in fp32. "widen" is for bf16 in Triton's interpreter, which multiplies its bit patterns."""
    if PRECISION == "widen":
        return tl.dot(a.to(tl.float32), b.to(tl.float32), acc)
    else:
        return tl.dot(a, b, acc, input_precision=PRECISION)


def padded(size: int) -> int:
    """The block length for `size` elements: the next power of two, at least 16 (the least a matrix product takes)."""
    return max(16, 1 << (size - 1).bit_length())


def precision_of(itemsize: int, is_bf16: bool, tf32: bool, interpreted: bool) -> str | None:
    """The PRECISION of `product` for operands of `itemsize` bytes: only 4-byte ones have a choice on a GPU."""
    if interpreted and is_bf16:
        return "widen"
    return ("tf32" if tf32 else "ieee") if itemsize == 4 else None
