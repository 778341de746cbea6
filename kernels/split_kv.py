"""The kernels behind decoding: few queries against a long cache, whose keys several programs share.

Formula, for each split `s` of the keys of one K/V head: `O_s = softmax(Q K_s^T * scale) V_s` and its log-sum-exp
`L_s`; then `O = sum_s exp(L_s - L) O_s` with `L = log(sum_s exp(L_s))`. Reference: Dao et al. 2023, Flash-Decoding.
Accounting algorithms: `decode`, `paged` and `mla`, which differ only in where a tile of keys comes from.

What makes it fast: the query heads of a group are rows of one tile, so that the cache is read once; splits are as
many as keep every multiprocessor's loads in flight to the end; partial results are written once a split, and the
kernel that combines them is launched early and waits on the device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl
from rooflinecli.kernels.decode_call import DecodeCall
from rooflinecli.kernels.flash_call import capability_of, describable, descriptor, interpreted
from rooflinecli.kernels.flash_tiles import key_tiles, padded, precision_of, product, sees
from rooflinecli.kernels.spec import KernelConfig, Launch
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

NAMES = ("decode_attend", "decode_combine")
COLUMNS = 64  # of the output that a program of the combining kernel makes: 256 bytes of each partial row


@triton.jit
def _columns(source, lines, live, head, start, FIRST: tl.constexpr, WIDTH: tl.constexpr, ROW: tl.constexpr,
             BLOCK: tl.constexpr, BC: tl.constexpr, DESC: tl.constexpr):  # fmt: skip
    """Columns `FIRST..FIRST+WIDTH` of cache rows that are ROW elements long, zero where not `live`: (BC, BLOCK)."""
    if DESC:
        return source.load([head, start, FIRST]).reshape(BC, BLOCK)
    else:
        c = tl.arange(0, BLOCK)
        at = source + lines[:, None] * ROW + (FIRST + c)[None, :]
        if WIDTH == BLOCK:
            return tl.load(at, mask=live[:, None], other=0.0)
        else:
            return tl.load(at, mask=live[:, None] & (c < WIDTH)[None, :], other=0.0)


@triton.jit
def _operand(stored, like):
    """What the cache stores, exactly, as an operand beside `like`."""
    if stored.dtype == tl.int8:  # by way of fp32: Triton's interpreter has no conversion to bf16 from integers
        return stored.to(tl.float32).to(like.dtype)
    else:
        return stored.to(like.dtype)


@triton.jit
def decode_attend(q, k, v, rope, table, lengths, k_scale, v_scale, out, lse, n_q, n_kv, entries, window, scale,
                  KV_HEADS: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, BD: tl.constexpr,
                  BDV: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr, SPLITS: tl.constexpr,
                  CAUSAL: tl.constexpr, WINDOW: tl.constexpr, PAGE: tl.constexpr, RAGGED: tl.constexpr,
                  LATENT: tl.constexpr, K_SCALED: tl.constexpr, V_SCALED: tl.constexpr, DESC: tl.constexpr,
                  PRECISION: tl.constexpr, STAGES: tl.constexpr, EARLY: tl.constexpr):  # fmt: skip
    """One program: BR packed rows (query `r // GROUP`, head `r % GROUP`) of one K/V head against one split of its keys.

    q (B*Hq, n_q, D). Dense caches k (B*Hk, n_kv, D), v (B*Hk, n_kv, DV); with PAGE, k (pages, Hk, PAGE, D) and v alike,
    and table (B, entries) of page numbers; RAGGED adds lengths (B,), keys of each sequence. With LATENT, V is the
    first DV columns of K, and BD holds the other D - DV. out (SPLITS, B*Hq, n_q, DV) and lse (SPLITS, B*Hq, n_q), base
    2, unwritten with one split. `scale` includes log2(e); k_scale and v_scale (Hk,) multiply what the cache stores.
    """
    tile = tl.program_id(0)
    split = tl.program_id(1)
    pack = tl.program_id(2)
    batch = pack // KV_HEADS
    head = pack % KV_HEADS
    keys_here = n_kv
    if RAGGED:
        keys_here = tl.load(lengths + batch)

    rows = tile * BR + tl.arange(0, BR)
    queries = rows // GROUP
    total = n_q * GROUP
    line = (pack * GROUP + rows % GROUP).to(tl.int64) * n_q + queries
    inside = rows < total
    narrow: tl.constexpr = D - DV if LATENT else D  # columns of the part of Q that BD pads
    wide = tl.zeros([BR, BDV], q.dtype.element_ty)
    if LATENT:
        wide = _columns(q, line, inside, 0, 0, 0, DV, D, BDV, BR, False)
    query = _columns(q, line, inside, 0, 0, D - narrow, narrow, D, BD, BR, False)
    if K_SCALED:
        scale *= tl.load(k_scale + head)

    last_query = (tl.minimum(tile * BR + BR, total) - 1) // GROUP
    lo, _, _, hi = key_tiles(tile * BR // GROUP, last_query, n_q, keys_here, window, BC, CAUSAL, WINDOW)
    first = lo + split * (hi - lo) // SPLITS
    last = lo + (split + 1) * (hi - lo) // SPLITS

    acc = tl.zeros([BR, BDV], tl.float32)
    m = tl.full([BR], float("-inf"), tl.float32)
    mass = tl.zeros([BR], tl.float32)
    if PAGE:
        table += batch.to(tl.int64) * entries
        at = first * BC + tl.arange(0, BC)
        page = tl.load(table + at // PAGE, mask=at < keys_here, other=0)
    for step in tl.range(first, last, num_stages=STAGES):
        start = step * BC
        at = start + tl.arange(0, BC)
        live = at < keys_here
        if PAGE:
            lines = (page.to(tl.int64) * KV_HEADS + head) * PAGE + at % PAGE
            # The next step's pages are looked up a step ahead, so that no load of keys waits for its address.
            page = tl.load(table + (at + BC) // PAGE, mask=at + BC < keys_here, other=0)
        else:
            lines = pack.to(tl.int64) * n_kv + at
        keys = _columns(rope if LATENT else k, lines, live, pack, start, D - narrow, narrow, D, BD, BC, DESC)
        s = product(query, _operand(keys, query).T, tl.zeros([BR, BC], tl.float32), PRECISION)
        if LATENT:
            values = _operand(_columns(k, lines, live, pack, start, 0, DV, D, BDV, BC, DESC), query)
            s = product(wide, values.T, s, PRECISION)
        visible = sees(queries[:, None], at[None, :], n_q, keys_here, window, CAUSAL, WINDOW)
        s = tl.where(visible, s, float("-inf"))
        higher = tl.maximum(m, tl.max(s, 1) * scale)
        base = tl.where(higher == float("-inf"), 0.0, higher)  # nothing seen yet: -inf + inf would be NaN
        p = tl.math.exp2(s * scale - base[:, None])
        fade = tl.math.exp2(m - base)
        mass = mass * fade + tl.sum(p, 1)
        acc = acc * fade[:, None]
        if not LATENT:
            values = _operand(_columns(v, lines, live, pack, start, 0, DV, DV, BDV, BC, DESC), query)
        acc = product(p.to(query.dtype), values, acc, PRECISION)
        m = higher

    if EARLY:
        gdc_launch_dependents()
    seen = mass > 0.0
    share = tl.where(seen, 1.0 / tl.where(seen, mass, 1.0), 0.0)
    if V_SCALED:
        share *= tl.load(v_scale + head)
    line += split.to(tl.int64) * (tl.num_programs(2) * total)
    c = tl.arange(0, BDV)
    tl.store(
        out + line[:, None] * DV + c[None, :],
        (acc * share[:, None]).to(out.dtype.element_ty),
        mask=inside[:, None] & (c < DV)[None, :],
    )
    if SPLITS > 1:
        tl.store(lse + line, m + tl.math.log2(mass), mask=inside)  # log2(0) is -inf, as is m then


@triton.jit
def decode_combine(partial, lse, out, SPLITS: tl.constexpr, BS: tl.constexpr, DV: tl.constexpr, BDV: tl.constexpr,
                   EARLY: tl.constexpr):  # fmt: skip
    """One program: BDV columns of one row of out (rows, DV), from partial (SPLITS, rows, DV) and lse (SPLITS, rows)."""
    row = tl.program_id(0)
    rows = tl.num_programs(0)
    s = tl.arange(0, BS)
    c = tl.program_id(1) * BDV + tl.arange(0, BDV)
    line = s.to(tl.int64) * rows + row
    if EARLY:
        gdc_wait()
    mass = tl.load(lse + line, mask=s < SPLITS, other=float("-inf"))
    parts = tl.load(partial + line[:, None] * DV + c[None, :], mask=(s < SPLITS)[:, None] & (c < DV)[None, :], other=0)
    top = tl.max(mass, 0)
    weight = tl.math.exp2(mass - tl.where(top == float("-inf"), 0.0, top))
    total = tl.sum(weight, 0)
    o = tl.sum(parts * weight[:, None], 0) / tl.where(total > 0.0, total, 1.0)
    tl.store(out + row.to(tl.int64) * DV + c, o.to(out.dtype.element_ty), mask=c < DV)


def launcher(call: DecodeCall, config: KernelConfig, descriptors: bool | None = None) -> Callable[[], None]:
    """A callable that runs `call`, scratch and descriptors made beforehand.

    `descriptors` says whether tiles arrive by the copy engine; None lets the device decide.
    """
    import torch

    batch, heads, n_q, d = call.q.shape
    d_v, group = call.out.shape[3], heads // call.kv_heads
    br, bc, bdv = config.br, config.bc, padded(d_v)
    bd = padded(d - d_v if call.latent else d)
    splits = splits_of(call, config)
    hopper = (capability_of(call.q) or (0, 0)) >= (9, 0) and not interpreted()
    k, v, rope, partial, lse = call.k, call.v, call.k, call.out, None
    if descriptors is None:
        descriptors = hopper and _describable(call, d_v == bdv, min(bd, bdv))
    if descriptors:
        rope = descriptor(call.k, call.n_kv, d, bc, bd) if call.latent else None
        k = descriptor(call.k, call.n_kv, d, bc, bdv if call.latent else bd)
        v = None if call.latent else descriptor(call.v, call.n_kv, d_v, bc, bdv)
    if splits > 1:
        partial = torch.empty(splits, *call.out.shape, dtype=torch.float32, device=call.q.device)
        lse = torch.empty(splits, batch, heads, n_q, dtype=torch.float32, device=call.q.device)
    is_bf16 = call.q.dtype == torch.bfloat16
    precision = precision_of(call.q.element_size(), is_bf16, call.tf32, interpreted())
    window = n_q + call.n_kv if call.window is None else min(call.window, n_q + call.n_kv)
    entries = 0 if call.table is None else call.table.shape[1]
    attend = decode_attend[(triton.cdiv(n_q * group, br), splits, batch * call.kv_heads)]
    combine = decode_combine[(batch * heads * n_q, triton.cdiv(d_v, COLUMNS))]
    early: dict[str, Any] = {"launch_pdl": True} if hopper else {}

    def launch() -> None:
        attend(
            call.q, k, v, rope, call.table, call.lengths, call.k_scale, call.v_scale, partial, lse,
            n_q, call.n_kv, entries, window, call.scale,
            KV_HEADS=call.kv_heads, GROUP=group, D=d, DV=d_v, BD=bd, BDV=bdv, BR=br, BC=bc, SPLITS=splits,
            CAUSAL=call.causal, WINDOW=call.window is not None, PAGE=call.page, RAGGED=call.lengths is not None,
            LATENT=call.latent, K_SCALED=call.k_scale is not None, V_SCALED=call.v_scale is not None,
            DESC=descriptors, PRECISION=precision, STAGES=config.stages, EARLY=hopper and splits > 1,
            num_warps=config.warps, num_stages=config.stages,
        )  # fmt: skip
        if splits > 1:
            combine(
                partial, lse, call.out, SPLITS=splits, BS=max(2, triton.next_power_of_2(splits)), DV=d_v, BDV=COLUMNS,
                EARLY=hopper, num_warps=4, **early,
            )  # fmt: skip

    return launch


def splits_of(call: DecodeCall, config: KernelConfig) -> int:
    """The splits a call runs with: no more than there are tiles of keys."""
    return min(config.splits, triton.cdiv(call.n_kv, config.bc))


def launch_of(call: DecodeCall, config: KernelConfig) -> Launch:
    """The launch of a call, as a spec hands it out."""
    return Launch(launcher(call, config), {"o": call.out}, NAMES if splits_of(call, config) > 1 else NAMES[:1])


def _describable(call: DecodeCall, whole: bool, narrowest: int) -> bool:
    """Whether the copy engine can bring the tiles: no pages, rows of whole 16-byte pieces, blocks of at least one.

    fp32 products without tensor cores spill when their operands come by descriptor, and a block of latent columns
    that is wider than they are would hold columns of the rotary part.
    """
    plain = call.q.element_size() == 4 and not call.tf32
    sides = ((call.k, call.k.shape[3]), (call.v, call.v.shape[3]))
    fits = all(describable(tensor, row) for tensor, row in sides) and narrowest * call.k.element_size() >= 16
    return call.table is None and not plain and fits and (whole or not call.latent)
