"""The forward pass for Hopper in Gluon: a producer warp and two or three consumer warpgroups.

Formula, reference and accounting (`flash2`) are those of `flash_forward`; this is another schedule of the same
algorithm. A producer warp keeps the tensor copy engine busy with tiles of K and V in a ring of stages. Each
consumer warpgroup owns 64 rows of Q. In its loop the product `S = Q K_j^T` and the product `O += P V_(j+1)` are
both in flight while nothing else is ready, then the softmax of S runs under the tail of the second product; the
warpgroups take turns, so that one's softmax runs under another's products. Key tiles are walked from the last to
the first: the ones the mask cuts come first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton
from rooflinecli.kernels.flash_call import Call
from rooflinecli.kernels.flash_tiles import key_tiles, padded, sees
from rooflinecli.kernels.spec import KernelConfig
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

# The copy engine's functions were renamed after Triton 3.6.
copy_in = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
copy_out = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global

ROWS = gl.constexpr(64)  # rows of Q a consumer warpgroup owns: the M of one warpgroup matrix product
LN2 = gl.constexpr(0.6931471805599453)


@gluon.jit
def _work(index, tiles, section, BR: gl.constexpr, CAUSAL: gl.constexpr):
    """Which (query tile, head) piece `index` is. Causal: long tiles first, `section` heads side by side in L2."""
    if CAUSAL:
        rest = index % (tiles * section)
        tile = tiles - 1 - rest // section
        head = index // (tiles * section) * section + rest % section
    else:
        tile = index % tiles
        head = index // tiles
    return tile, head


@gluon.jit
def _span(tile, n_q, n_kv, window, BR: gl.constexpr, BC: gl.constexpr, CAUSAL: gl.constexpr, WINDOW: gl.constexpr):
    """The ranges of `key_tiles` for one query tile."""
    last = gl.minimum(tile * BR + BR, n_q) - 1
    return key_tiles(tile * BR, last, n_q, n_kv, window, BC, CAUSAL, WINDOW)


@gluon.jit
def _produce(
    q,
    k,
    v,
    q_tiles,
    k_ring,
    v_ring,
    q_full,
    q_empty,
    k_full,
    k_empty,
    v_full,
    v_empty,
    n_q,
    n_kv,
    window,
    tiles,
    section,
    total,
    GROUP: gl.constexpr,
    BR: gl.constexpr,
    BC: gl.constexpr,
    CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr,
    GROUPS: gl.constexpr,
    STAGES: gl.constexpr,
    FP8: gl.constexpr,
):
    """The producer warp: Q once a piece, K and V tiles as their stages come free."""
    turn = 0
    count = 0
    for index in range(gl.program_id(0), total, gl.num_programs(0)):
        tile, head = _work(index, tiles, section, BR, CAUSAL)
        lo, _, _, hi = _span(tile, n_q, n_kv, window, BR, BC, CAUSAL, WINDOW)
        mbarrier.wait(q_empty, (turn & 1) ^ 1)
        mbarrier.expect(q_full, GROUPS * q.block_type.nbytes)
        for g in gl.static_range(GROUPS):
            copy_in(q, [head, tile * BR + g * ROWS, 0], q_full, q_tiles.index(g))
        for back in range(hi - lo):
            at = (hi - 1 - back) * BC
            stage = count % STAGES
            phase = (count // STAGES & 1) ^ 1
            mbarrier.wait(k_empty.index(stage), phase)
            mbarrier.expect(k_full.index(stage), k.block_type.nbytes)
            if FP8:
                sixteens = head // GROUP * (n_kv // 16) + at // 16
                copy_in(k, [sixteens, 0, 0, 0, 0], k_full.index(stage), k_ring.index(stage))
            else:
                copy_in(k, [head // GROUP, at, 0], k_full.index(stage), k_ring.index(stage))
            mbarrier.wait(v_empty.index(stage), phase)
            mbarrier.expect(v_full.index(stage), v.block_type.nbytes)
            if FP8:
                copy_in(v, [head // GROUP, 0, at], v_full.index(stage), v_ring.index(stage))
            else:
                copy_in(v, [head // GROUP, at, 0], v_full.index(stage), v_ring.index(stage))
            count += 1
        turn += 1


@gluon.jit
def pin(x):
    """x, through an empty instruction that keeps its place among the waits around it and its registers until there."""
    per_register: gl.constexpr = 32 // x.dtype.primitive_bitwidth
    return gl.inline_asm_elementwise("", "=r,0", [x], dtype=x.dtype, is_pure=False, pack=per_register)


@gluon.jit
def _scores(q, k_ring, k_full, count, BC: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, S_L: gl.constexpr):
    """Start `Q K^T` on the ring's tile number `count`."""
    stage = count % STAGES
    mbarrier.wait(k_full.index(stage), count // STAGES & 1)
    keys = k_ring.index(stage).reshape([BC, D]).permute((1, 0))
    return warpgroup_mma(q, keys, gl.zeros([ROWS, BC], gl.float32, S_L), use_acc=False, is_async=True)


@gluon.jit
def _weighted(acc, p, v_ring, v_full, count, BC: gl.constexpr, DV: gl.constexpr, STAGES: gl.constexpr,
              FP8: gl.constexpr):  # fmt: skip
    """Start `acc + P V` on the ring's tile number `count`. 8-bit V lies transposed: along the keys."""
    stage = count % STAGES
    mbarrier.wait(v_full.index(stage), count // STAGES & 1)
    if FP8:
        values = v_ring.index(stage).reshape([DV, BC]).permute((1, 0))
    else:
        values = v_ring.index(stage).reshape([BC, DV])
    return warpgroup_mma(p, values, acc, is_async=True)


@gluon.jit
def _key_order(BC: gl.constexpr, FP8: gl.constexpr, S_L: gl.constexpr):
    """Which key of its tile each column of the scores belongs to.

    The scores leave a matrix product with columns 2c, 2c+1 of every 8 in the c-th thread of a quad; an 8-bit left
    operand is wanted with columns 4c..4c+3 of every 16 there. Instead of moving weights between threads, 8-bit K
    is fetched with its rows in an order (`key_descriptor`) that makes each thread's columns the keys it is to hold.
    """
    c = gl.arange(0, BC, gl.SliceLayout(0, S_L))
    if FP8:
        c = c // 16 * 16 + c % 8 // 2 * 4 + c % 16 // 8 * 2 + c % 2
    return c


@gluon.jit
def _weights(w, dtype: gl.constexpr, BC: gl.constexpr, FP8: gl.constexpr, P_L: gl.constexpr):
    """The softmax weights as the left operand of P V, keys in order; no thread gives anything to another."""
    if FP8:
        w = w.reshape([ROWS, BC // 16, 2, 4, 2]).permute(0, 1, 3, 2, 4).reshape([ROWS, BC])
    return gl.convert_layout(w, P_L, assert_trivial=True).to(dtype)


@gluon.jit
def _carry(p, BC: gl.constexpr, FP8: gl.constexpr):
    """Weights in the form they cross from one step to the next: 8-bit ones four to a word.

    A loop keeps each element in a register of its own, and taking words apart and together would cost more than
    the softmax's additions. The register moves written here are all removed by the assembler.
    """
    if FP8:
        words = gl.inline_asm_elementwise(
            "mov.b32 $0, $4; mov.b32 $1, $4; mov.b32 $2, $4; mov.b32 $3, $4;", "=r,=r,=r,=r,r", [p],
            dtype=gl.int32, is_pure=True, pack=4,
        )  # fmt: skip
        half, _ = gl.split(words.reshape([ROWS, BC // 4, 2, 2]))
        p, _ = gl.split(half)
    return p


@gluon.jit
def _uncarry(p, ring, BC: gl.constexpr, FP8: gl.constexpr, P_L: gl.constexpr):
    """`_carry` undone, in the dtype of `ring`."""
    if FP8:
        pair = gl.join(p, p)
        words = gl.convert_layout(gl.join(pair, pair).reshape([ROWS, BC]), P_L, assert_trivial=True)
        p = gl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r,r,r,r", [words], dtype=ring.dtype, is_pure=True, pack=4)
    return p


@gluon.jit
def _softmax(s, m, mass, queries, start, n_q, n_kv, window, scale, BC: gl.constexpr, CAUSAL: gl.constexpr,
             WINDOW: gl.constexpr, MASKED: gl.constexpr, FP8: gl.constexpr, S_L: gl.constexpr):  # fmt: skip
    """Online softmax of one tile: weights, new maximum, new sum, and the factor that fades what came before."""
    if MASKED:
        keys = start + _key_order(BC, FP8, S_L)
        visible = sees(gl.expand_dims(queries, 1), gl.expand_dims(keys, 0), n_q, n_kv, window, CAUSAL, WINDOW)
        s = gl.where(visible, s, float("-inf"))
    higher = gl.maximum(m, gl.max(s, 1) * scale)
    base = higher
    if MASKED:
        base = gl.where(higher == float("-inf"), 0.0, higher)
    fade = gl.exp2(m - base)
    if FP8:  # 8-bit weights are finest well below 1: let them end at 2^8, and the sum with them
        base = base - 8.0
    p = gl.exp2(s * scale - gl.expand_dims(base, 1))
    mass = mass * fade + gl.sum(p, 1)
    return p, higher, mass, fade


@gluon.jit
def _step(acc, p, m, mass, q, k_ring, v_ring, k_full, k_empty, v_full, v_empty, mine, other, count, queries, at,
          n_q, n_kv, window, scale, BC: gl.constexpr, D: gl.constexpr, DV: gl.constexpr, CAUSAL: gl.constexpr,
          WINDOW: gl.constexpr, MASKED: gl.constexpr, STAGES: gl.constexpr, TURNS: gl.constexpr, OVERLAP: gl.constexpr,
          FP8: gl.constexpr, S_L: gl.constexpr, O_L: gl.constexpr, P_L: gl.constexpr):  # fmt: skip
    """One key tile: its scores and the product with V of the tile before are in flight together."""
    if TURNS:
        mbarrier.wait(mine, count & 1)
    s = _scores(q, k_ring, k_full, count, BC, D, STAGES, S_L)
    p = _uncarry(p, v_ring, BC, FP8, P_L)
    acc = _weighted(acc, p, v_ring, v_full, count - 1, BC, DV, STAGES, FP8)
    if TURNS:
        mbarrier.arrive(other, count=1)
    if OVERLAP:
        s = warpgroup_mma_wait(1, deps=[s])
        mbarrier.arrive(k_empty.index(count % STAGES), count=1)
    else:
        s, acc = warpgroup_mma_wait(0, deps=[s, acc])
        pin(p)
        mbarrier.arrive(k_empty.index(count % STAGES), count=1)
        mbarrier.arrive(v_empty.index((count - 1) % STAGES), count=1)
    w, m, mass, fade = _softmax(s, m, mass, queries, at * BC, n_q, n_kv, window, scale, BC, CAUSAL, WINDOW, MASKED, FP8,
                             S_L)  # fmt: skip
    ready = pin(_weights(w, v_ring.dtype, BC, FP8, P_L))
    if OVERLAP:
        # Pinned before the wait, the weights are computed while P V runs; pinned after it, P keeps its registers
        # for it. The assembler moves a wait for matrix products up past arithmetic, but not past a branch:
        # looking once more at a barrier known to have passed is one.
        mbarrier.wait(v_full.index((count - 1) % STAGES), (count - 1) // STAGES & 1)
        acc = warpgroup_mma_wait(0, deps=[acc])
        pin(p)
        mbarrier.arrive(v_empty.index((count - 1) % STAGES), count=1)
    acc = acc * gl.expand_dims(gl.convert_layout(fade, gl.SliceLayout(1, O_L)), 1)
    return acc, _carry(ready, BC, FP8), m, mass


@gluon.jit
def _consume(o, lse, q_tiles, o_tiles, k_ring, v_ring, q_full, q_empty, k_full, k_empty, v_full, v_empty, turns,
             n_q, n_kv, window, scale, v_scale, tiles, section, total, WHO: gl.constexpr, BR: gl.constexpr,
             BC: gl.constexpr, D: gl.constexpr, DV: gl.constexpr, CAUSAL: gl.constexpr, WINDOW: gl.constexpr,
             GROUPS: gl.constexpr, STAGES: gl.constexpr, TURNS: gl.constexpr, LSE: gl.constexpr, FP8: gl.constexpr,
             OVERLAP: gl.constexpr, SHARED: gl.constexpr):  # fmt: skip
    """Consumer warpgroup WHO: 64 rows of each piece."""
    DEPTH: gl.constexpr = 32 if FP8 else 16  # what one instruction contracts: 32 bytes
    S_L: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, BC, DEPTH])
    O_L: gl.constexpr = gl.NVMMADistributedLayout([3, 0], warps_per_cta=[4, 1], instr_shape=[16, DV, DEPTH])
    P_L: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=O_L, k_width=4 if FP8 else 2)
    R_L: gl.constexpr = gl.SliceLayout(1, S_L)
    mine = turns.index(WHO)
    other = turns.index((WHO + 1) % GROUPS)
    turn = 0
    count = 0
    for index in range(gl.program_id(0), total, gl.num_programs(0)):
        tile, head = _work(index, tiles, section, BR, CAUSAL)
        lo, full_lo, full_hi, hi = _span(tile, n_q, n_kv, window, BR, BC, CAUSAL, WINDOW)
        row = tile * BR + WHO * ROWS
        queries = row + gl.arange(0, ROWS, R_L)
        acc = gl.zeros([ROWS, DV], gl.float32, O_L)
        m = gl.full([ROWS], float("-inf"), gl.float32, R_L)
        mass = gl.zeros([ROWS], gl.float32, R_L)
        mbarrier.wait(q_full, turn & 1)
        if hi > lo:
            q = q_tiles.index(WHO).reshape([ROWS, D])
            if TURNS:
                mbarrier.wait(mine, count & 1)
            s = _scores(q, k_ring, k_full, count, BC, D, STAGES, S_L)
            if TURNS:
                mbarrier.arrive(other, count=1)
            s = warpgroup_mma_wait(0, deps=[s])
            mbarrier.arrive(k_empty.index(count % STAGES), count=1)
            w, m, mass, _ = _softmax(s, m, mass, queries, (hi - 1) * BC, n_q, n_kv, window, scale, BC, CAUSAL, WINDOW,
                                     True, FP8, S_L)  # fmt: skip
            p = _carry(_weights(w, v_ring.dtype, BC, FP8, P_L), BC, FP8)
            count += 1
            for back in range(hi - 1 - full_hi):
                acc, p, m, mass = _step(acc, p, m, mass, q, k_ring, v_ring, k_full, k_empty, v_full, v_empty, mine,
                                     other, count, queries, hi - 2 - back, n_q, n_kv, window, scale, BC, D, DV, CAUSAL,
                                     WINDOW, True, STAGES, TURNS, OVERLAP, FP8, S_L, O_L, P_L)  # fmt: skip
                count += 1
            top = gl.minimum(full_hi, hi - 1)
            for back in range(top - full_lo):
                acc, p, m, mass = _step(acc, p, m, mass, q, k_ring, v_ring, k_full, k_empty, v_full, v_empty, mine,
                                     other, count, queries, top - 1 - back, n_q, n_kv, window, scale, BC, D, DV, CAUSAL,
                                     WINDOW, False, STAGES, TURNS, OVERLAP, FP8, S_L, O_L, P_L)  # fmt: skip
                count += 1
            if WINDOW:
                left = gl.minimum(full_lo, hi - 1)
                for back in range(left - lo):
                    acc, p, m, mass = _step(acc, p, m, mass, q, k_ring, v_ring, k_full, k_empty, v_full, v_empty, mine,
                                         other, count, queries, left - 1 - back, n_q, n_kv, window, scale, BC, D, DV,
                                         CAUSAL, WINDOW, True, STAGES, TURNS, OVERLAP, FP8, S_L, O_L, P_L)  # fmt: skip
                    count += 1
            p = _uncarry(p, v_ring, BC, FP8, P_L)
            acc = _weighted(acc, p, v_ring, v_full, count - 1, BC, DV, STAGES, FP8)
            acc = warpgroup_mma_wait(0, deps=[acc])
            pin(p)
            mbarrier.arrive(v_empty.index((count - 1) % STAGES), count=1)
        if not SHARED:
            mbarrier.arrive(q_empty, count=1)
        turn += 1

        seen = mass > 0.0
        inverse = gl.where(seen, v_scale / gl.where(seen, mass, 1.0), 0.0)
        out = acc * gl.expand_dims(gl.convert_layout(inverse, gl.SliceLayout(1, O_L)), 1)
        if not SHARED:
            tma.store_wait(0)
        o_tiles.index(WHO).reshape([ROWS, DV]).store(out.to(o_tiles.dtype))
        fence_async_shared()
        copy_out(o, [head, row, 0], o_tiles.index(WHO))
        if LSE:
            lift: gl.constexpr = 8.0 if FP8 else 0.0
            total_lse = gl.where(seen, (m - lift + gl.log2(gl.where(seen, mass, 1.0))) * LN2, float("-inf"))
            gl.store(lse + head.to(gl.int64) * n_q + queries, total_lse, mask=queries < n_q)
        if SHARED:
            tma.store_wait(0)
            mbarrier.arrive(q_empty, count=1)
    if not SHARED:
        tma.store_wait(0)


@gluon.jit
def flash_forward_hopper(q, k, v, o, lse, n_q, n_kv, window, scale, v_scale, tiles, section, total,
                         GROUP: gl.constexpr, BR: gl.constexpr, BC: gl.constexpr, BD: gl.constexpr,
                         BDV: gl.constexpr, CAUSAL: gl.constexpr, WINDOW: gl.constexpr, GROUPS: gl.constexpr,
                         STAGES: gl.constexpr, TURNS: gl.constexpr, LSE: gl.constexpr, FP8: gl.constexpr,
                         OVERLAP: gl.constexpr, SHARED: gl.constexpr, REGISTERS: gl.constexpr):  # fmt: skip
    """Descriptors q, o with blocks of 64 rows, k, v with blocks of BC; `scale` includes log2(e).

    8-bit inputs (FP8): k through `key_descriptor`, v transposed, (heads, DV, n_kv).
    """
    q_tiles = gl.allocate_shared_memory(q.dtype, [GROUPS, 1, ROWS, BD], q.layout)
    if SHARED:  # a warpgroup's O takes the room of its Q, which comes free later then
        o_tiles = q_tiles
    else:
        o_tiles = gl.allocate_shared_memory(o.dtype, [GROUPS, 1, ROWS, BDV], o.layout)
    k_ring = gl.allocate_shared_memory(k.dtype, [STAGES] + k.block_type.shape, k.layout)  # noqa: RUF005  # Triton 3.6 unpacks nothing
    v_ring = gl.allocate_shared_memory(v.dtype, [STAGES] + v.block_type.shape, v.layout)  # noqa: RUF005
    q_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    q_empty = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    turns = gl.allocate_shared_memory(gl.int64, [GROUPS, 1], mbarrier.MBarrierLayout())
    mbarrier.init(q_full, count=1)
    mbarrier.init(q_empty, count=GROUPS)
    for i in gl.static_range(STAGES):
        mbarrier.init(k_full.index(i), count=1)
        mbarrier.init(v_full.index(i), count=1)
        mbarrier.init(k_empty.index(i), count=GROUPS)
        mbarrier.init(v_empty.index(i), count=GROUPS)
    for i in gl.static_range(GROUPS):
        mbarrier.init(turns.index(i), count=1)
    if TURNS:
        mbarrier.arrive(turns.index(0), count=1)  # the first warpgroup begins

    # The arguments stand in the call itself: in a variable, compile-time ones would become run-time values.
    if GROUPS == 3:
        gl.warp_specialize([
            (_consume, (o, lse, q_tiles, o_tiles, k_ring, v_ring, q_full, q_empty, k_full, k_empty, v_full, v_empty,
                        turns, n_q, n_kv, window, scale, v_scale, tiles, section, total, 0, BR, BC, BD, BDV, CAUSAL,
                        WINDOW, GROUPS, STAGES, TURNS, LSE, FP8, OVERLAP, SHARED)),
            (_consume, (o, lse, q_tiles, o_tiles, k_ring, v_ring, q_full, q_empty, k_full, k_empty, v_full, v_empty,
                        turns, n_q, n_kv, window, scale, v_scale, tiles, section, total, 1, BR, BC, BD, BDV, CAUSAL,
                        WINDOW, GROUPS, STAGES, TURNS, LSE, FP8, OVERLAP, SHARED)),
            (_consume, (o, lse, q_tiles, o_tiles, k_ring, v_ring, q_full, q_empty, k_full, k_empty, v_full, v_empty,
                        turns, n_q, n_kv, window, scale, v_scale, tiles, section, total, 2, BR, BC, BD, BDV, CAUSAL,
                        WINDOW, GROUPS, STAGES, TURNS, LSE, FP8, OVERLAP, SHARED)),
            (_produce, (q, k, v, q_tiles, k_ring, v_ring, q_full, q_empty, k_full, k_empty, v_full, v_empty, n_q, n_kv,
                        window, tiles, section, total, GROUP, BR, BC, CAUSAL, WINDOW, GROUPS, STAGES, FP8)),
        ], [4, 4, 1], [REGISTERS, REGISTERS, 32])  # fmt: skip
    else:
        gl.warp_specialize([
            (_consume, (o, lse, q_tiles, o_tiles, k_ring, v_ring, q_full, q_empty, k_full, k_empty, v_full, v_empty,
                        turns, n_q, n_kv, window, scale, v_scale, tiles, section, total, 0, BR, BC, BD, BDV, CAUSAL,
                        WINDOW, GROUPS, STAGES, TURNS, LSE, FP8, OVERLAP, SHARED)),
            (_consume, (o, lse, q_tiles, o_tiles, k_ring, v_ring, q_full, q_empty, k_full, k_empty, v_full, v_empty,
                        turns, n_q, n_kv, window, scale, v_scale, tiles, section, total, 1, BR, BC, BD, BDV, CAUSAL,
                        WINDOW, GROUPS, STAGES, TURNS, LSE, FP8, OVERLAP, SHARED)),
            (_produce, (q, k, v, q_tiles, k_ring, v_ring, q_full, q_empty, k_full, k_empty, v_full, v_empty, n_q, n_kv,
                        window, tiles, section, total, GROUP, BR, BC, CAUSAL, WINDOW, GROUPS, STAGES, FP8)),
        ], [4, 1], [REGISTERS, 24])  # fmt: skip


_DTYPES = {
    "torch.float32": gl.float32,
    "torch.float16": gl.float16,
    "torch.bfloat16": gl.bfloat16,
    "torch.float8_e4m3fn": gl.float8e4nv,
    "torch.float8_e5m2": gl.float8e5,
}


def descriptor(tensor: Any, rows: int, columns: int, block_rows: int, block_columns: int) -> Any:
    """A Gluon descriptor over (heads, rows, columns) with blocks of one head."""
    shape, strides = [tensor.numel() // (rows * columns), rows, columns], [rows * columns, columns, 1]
    return described(tensor, shape, strides, [1, block_rows, block_columns])


def key_descriptor(k: Any, n_kv: int, d: int, bc: int, bd: int) -> Any:
    """8-bit K, the rows of every 16 in the order of `_key_order`: row 4*j + 2*i + e comes (i, j, e)-th.

    Heads run on into each other: rows past a head's last key are masked, not zero. Needs n_kv in sixteens.
    """
    shape = [k.numel() // (16 * d), 2, 4, 2, d]
    return described(k, shape, [16 * d, 2 * d, 4 * d, d, 1], [bc // 16, 2, 4, 2, bd])


def described(tensor: Any, shape: list[int], strides: list[int], block: list[int], layout: Any = None) -> Any:
    """A Gluon descriptor; tiles lie in shared memory as matrix products want them, or in `layout`."""
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    layout = layout or gl.NVMMASharedLayout.get_default_for(block, _DTYPES[str(tensor.dtype)])
    return TensorDescriptor(tensor, shape, strides, block, layout)


SHARED_MEMORY = 226 * 2**10  # bytes a block can have on compute capability 9.0, less what the barriers take
L2_SECTION = 24 * 2**20  # bytes of K and V that stay in half of an H200's L2 while the heads of a section run


def launcher(
    call: Call,
    config: KernelConfig,
    persistent: bool | None = None,
    turns: bool | None = None,
    shared: bool | None = None,
    overlap: bool | None = None,
) -> Callable[[], None]:
    """A callable that runs `call`: `config.br` is 64 rows a consumer warpgroup, two or three of them."""
    (batch, heads, n_q, d), (_, _, n_kv, d_v) = call.q.shape, call.v.shape
    br, bc, bd, bdv, groups = config.br, config.bc, padded(d), padded(d_v), config.br // 64
    tiles, everything = triton.cdiv(n_q, br), batch * heads
    section = max(1, min(everything, L2_SECTION // (n_kv * (d + d_v) * call.q.element_size()) * call.group))
    while everything % section:
        section -= 1
    total = tiles * everything
    q, o = descriptor(call.q, n_q, d, 64, bd), descriptor(call.out, n_q, d_v, 64, bdv)
    if call.fp8:
        k, v = key_descriptor(call.k, n_kv, d, bc, bd), descriptor(call.v.mT, d_v, n_kv, bdv, bc)
    else:
        k, v = descriptor(call.k, n_kv, d, bc, bd), descriptor(call.v, n_kv, d_v, bc, bdv)
    persistent = not call.causal if persistent is None else persistent
    programs = min(total, processors(call.q.device.index)) if persistent else total
    kernel = flash_forward_hopper[(programs,)]
    if shared is None:
        item, o_item = call.q.element_size(), call.out.element_size()
        room = br * (bd * item + bdv * o_item) + config.stages * bc * (bd + bdv) * item
        shared = bd == bdv and item == o_item and room > SHARED_MEMORY
    overlap = groups == 2 if overlap is None else overlap
    use_turns = True if turns is None else turns

    def launch() -> None:
        kernel(
            q, k, v, o, call.lse, n_q, n_kv, call.window_keys, call.scale, call.v_scale, tiles, section, total,
            GROUP=call.group, BR=br, BC=bc, BD=bd, BDV=bdv, CAUSAL=call.causal, WINDOW=call.window is not None,
            GROUPS=groups, STAGES=config.stages, TURNS=use_turns, LSE=call.lse is not None,
            FP8=call.fp8, OVERLAP=overlap, SHARED=shared, REGISTERS=240 if groups == 2 else 160, num_warps=4,
        )  # fmt: skip

    return launch


def processors(index: int | None) -> int:
    """Multiprocessors of a CUDA device."""
    import torch

    return int(torch.cuda.get_device_properties(index).multi_processor_count)
