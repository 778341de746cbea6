"""The main kernel of the backward pass for Hopper in Gluon: a producer warp and two consumer warpgroups.

Formula, reference and accounting (`backward`) are those of `flash_backward`; this is another schedule of its main
kernel for head dims from 72 to 128. A program owns 128 keys, each warpgroup 64 of them: its dK and dV stay in
its registers. The producer brings Q, dO, LSE and delta of 64 queries a step. S and dP stand transposed, so that P
and dS are left operands as they lie; dS also goes to shared memory, where both warpgroups find all 128 keys for
dQ: each computes half of dQ's columns, one step late, while the exponentials of the next step run, and hands them
to the copy engine, which adds them to dQ's sums.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import triton
from rooflinecli.kernels.flash_gluon import copy_in, copy_out, described, pin
from rooflinecli.kernels.flash_tiles import query_tiles, seen_by
from triton._C.libtriton import ir
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import _unwrap_if_constexpr, builtin
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

if TYPE_CHECKING:
    from rooflinecli.kernels.flash_backward import Gradients

ROWS = gl.constexpr(64)  # keys a warpgroup owns, and queries a step
HALF = gl.constexpr(64)  # columns of dQ a warpgroup computes
LOG2E = gl.constexpr(1.4426950408889634)


@builtin
def _copy_add(tensor_desc: Any, coord: Any, src: Any, _semantic: Any = None) -> None:
    """Add a tile of shared memory to global memory: what `tma.async_atomic_add` is after Triton 3.6."""
    at = _semantic._convert_to_ir_values(coord, require_i64=False)
    _semantic.builder.create_async_tma_reduce(ir.DESCRIPTOR_REDUCE_KIND.ADD, tensor_desc.handle, at, src.handle)


@builtin
def _room_for(tile: Any, dtype: Any, shape: Any, layout: Any, _semantic: Any = None) -> Any:
    """The same shared memory as another tile: a method of memory descriptors that was renamed after Triton 3.6."""
    plain = [_unwrap_if_constexpr(x) for x in (dtype, layout)]
    return _semantic.memdesc_reinterpret(tile, plain[0], [_unwrap_if_constexpr(size) for size in shape], plain[1])


copy_add = getattr(tma, "async_atomic_add", None) or _copy_add


@gluon.jit
def _ranges(tile, n_q, n_kv, window, CAUSAL: gl.constexpr, WINDOW: gl.constexpr, RAGGED: gl.constexpr):
    """`query_tiles`, with every step masked where the key tile reaches past the last key."""
    lo, full_lo, full_hi, hi = query_tiles(tile, n_q, n_kv, window, ROWS, 2 * ROWS, CAUSAL, WINDOW)
    if RAGGED:
        partial = (tile + 1) * 2 * ROWS > n_kv
        full_lo = gl.where(partial, hi, full_lo)
        full_hi = gl.where(partial, hi, full_hi)
    return lo, full_lo, full_hi, hi


@gluon.jit
def _produce(q, k, v, do, lse, delta, k_tiles, v_tiles, q_ring, do_ring, lse_ring, delta_ring, kv_full, q_full,
             q_empty, do_full, do_empty, n_q, n_kv, window, GROUP: gl.constexpr, CAUSAL: gl.constexpr,
             WINDOW: gl.constexpr, RAGGED: gl.constexpr, STAGES: gl.constexpr):  # fmt: skip
    """The producer warp: K and V once, then Q, LSE, dO, delta a step."""
    tile = gl.program_id(0)
    kv_head = gl.program_id(1)
    mbarrier.expect(kv_full, 2 * k.block_type.nbytes + 2 * v.block_type.nbytes)
    for g in gl.static_range(2):
        copy_in(k, [kv_head, (2 * tile + g) * ROWS, 0], kv_full, k_tiles.index(g))
        copy_in(v, [kv_head, (2 * tile + g) * ROWS, 0], kv_full, v_tiles.index(g))
    lo, _, _, hi = _ranges(tile, n_q, n_kv, window, CAUSAL, WINDOW, RAGGED)
    count = 0
    for member in range(GROUP):
        head = kv_head * GROUP + member
        for step in range(lo, hi):
            stage = count % STAGES
            phase = (count // STAGES & 1) ^ 1
            mbarrier.wait(q_empty.index(stage), phase)
            mbarrier.expect(q_full.index(stage), q.block_type.nbytes + lse.block_type.nbytes)
            copy_in(q, [head, step * ROWS, 0], q_full.index(stage), q_ring.index(stage))
            copy_in(lse, [head, step * ROWS], q_full.index(stage), lse_ring.index(stage))
            mbarrier.wait(do_empty.index(stage), phase)
            mbarrier.expect(do_full.index(stage), do.block_type.nbytes + delta.block_type.nbytes)
            copy_in(do, [head, step * ROWS, 0], do_full.index(stage), do_ring.index(stage))
            copy_in(delta, [head, step * ROWS], do_full.index(stage), delta_ring.index(stage))
            count += 1


@gluon.jit
def _query_gradient(k_tiles, ds_ring, ds_full, count, WHO: gl.constexpr, D: gl.constexpr, Q_L: gl.constexpr):
    """Start this warpgroup's columns of dQ of step `count`: dS of all 128 keys, from both warpgroups."""
    stage = count % 2
    mbarrier.wait(ds_full.index(stage), count // 2 & 1)
    dq = gl.zeros([ROWS, HALF], gl.float32, Q_L)
    for g in gl.static_range(2):
        keys = k_tiles.index(g).reshape([ROWS, D]).slice(WHO * HALF, HALF, dim=1)
        dq = warpgroup_mma(ds_ring.index(stage * 2 + g).permute((1, 0)), keys, dq, use_acc=g > 0, is_async=True)
    return dq


@gluon.jit
def _hand_over(dq, sums, dq_tiles, head, row, WHO: gl.constexpr):
    """Let the copy engine add dq, once it has read the tile before."""
    tma.store_wait(0)
    dq_tiles.index(WHO).reshape([ROWS, HALF]).store(dq)
    fence_async_shared()
    copy_add(sums, [head, row, WHO * HALF], dq_tiles.index(WHO))


@gluon.jit
def _step(dk, dv, sums, k_tiles, v_tiles, q_ring, do_ring, lse_ring, delta_ring, ds_ring, dq_tiles, q_full, q_empty,
          do_full, do_empty, ds_full, count, head, step, keys, n_q, n_kv, window, scale, WHO: gl.constexpr,
          D: gl.constexpr, DV: gl.constexpr, CAUSAL: gl.constexpr, WINDOW: gl.constexpr, MASKED: gl.constexpr,
          FIRST: gl.constexpr, STAGES: gl.constexpr, S_L: gl.constexpr, Q_L: gl.constexpr, P_K: gl.constexpr,
          P_V: gl.constexpr):  # fmt: skip
    """64 queries of one head against this warpgroup's 64 keys. FIRST: no dQ of a step before is waiting."""
    stage = count % STAGES
    phase = count // STAGES & 1
    mbarrier.wait(q_full.index(stage), phase)
    query = q_ring.index(stage).reshape([ROWS, D])
    # Masked steps are few and short of registers: there dQ is done with before the scores begin.
    TOGETHER: gl.constexpr = not FIRST and not MASKED
    if MASKED and not FIRST:
        early = _query_gradient(k_tiles, ds_ring, ds_full, count - 1, WHO, D, Q_L)
        early = warpgroup_mma_wait(0, deps=[early])
        _hand_over(early, sums, dq_tiles, head, (step - 1) * ROWS, WHO)
    mine = k_tiles.index(WHO).reshape([ROWS, D])
    s = warpgroup_mma(
        mine, query.permute((1, 0)), gl.zeros([ROWS, ROWS], gl.float32, S_L), use_acc=False, is_async=True
    )
    if not TOGETHER:
        s = warpgroup_mma_wait(0, deps=[s])
    else:
        dq = _query_gradient(k_tiles, ds_ring, ds_full, count - 1, WHO, D, Q_L)
        s = warpgroup_mma_wait(2, deps=[s])
    p = gl.exp2(s * scale - lse_ring.index(stage).load(S_L) * LOG2E)
    if MASKED:
        queries = gl.expand_dims(step * ROWS + gl.arange(0, ROWS, gl.SliceLayout(0, S_L)), 0)
        visible = seen_by(queries, gl.expand_dims(keys, 1), n_q, n_kv, window, CAUSAL, WINDOW)
        p = gl.where(visible, p, 0.0)
    p = p.to(q_ring.dtype)  # 16 bits from here on: registers are what this kernel has least of
    weights = pin(gl.convert_layout(p, P_V, assert_trivial=True))
    mbarrier.wait(do_full.index(stage), phase)
    if TOGETHER:
        dq = warpgroup_mma_wait(0, deps=[dq])
        _hand_over(dq, sums, dq_tiles, head, (step - 1) * ROWS, WHO)

    upstream = do_ring.index(stage).reshape([ROWS, DV])
    values = v_tiles.index(WHO).reshape([ROWS, DV])
    dp = warpgroup_mma(
        values, upstream.permute((1, 0)), gl.zeros([ROWS, ROWS], gl.float32, S_L), use_acc=False, is_async=True
    )
    dv = warpgroup_mma(weights, upstream, dv, is_async=True)
    dp = warpgroup_mma_wait(1, deps=[dp])
    p = gl.convert_layout(weights, S_L, assert_trivial=True)
    ds = (p.to(gl.float32) * (dp - delta_ring.index(stage).load(S_L))).to(q_ring.dtype)
    ds_ring.index(count % 2 * 2 + WHO).store(ds)
    fence_async_shared()
    mbarrier.arrive(ds_full.index(count % 2), count=1)
    left = pin(gl.convert_layout(ds, P_K, assert_trivial=True))
    dk = warpgroup_mma(left, query, dk, is_async=True)
    dk, dv = warpgroup_mma_wait(0, deps=[dk, dv])
    pin(weights)
    pin(left)
    mbarrier.arrive(q_empty.index(stage), count=1)
    mbarrier.arrive(do_empty.index(stage), count=1)
    return dk, dv


@gluon.jit
def _consume(sums, dk_out, dv_out, k_tiles, v_tiles, q_ring, do_ring, lse_ring, delta_ring, ds_ring, dq_tiles,
             kv_full, q_full, q_empty, do_full, do_empty, ds_full, n_q, n_kv, window, scale, out_scale,
             WHO: gl.constexpr, GROUP: gl.constexpr, D: gl.constexpr, DV: gl.constexpr, CAUSAL: gl.constexpr,
             WINDOW: gl.constexpr, RAGGED: gl.constexpr, STAGES: gl.constexpr):  # fmt: skip
    """Consumer warpgroup WHO: 64 keys against every query that sees the program's 128."""
    S_L: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, ROWS, 16])
    Q_L: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, HALF, 16])
    K_L: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, D, 16])
    V_L: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, DV, 16])
    P_K: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=K_L, k_width=2)
    P_V: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=V_L, k_width=2)
    tile = gl.program_id(0)
    kv_head = gl.program_id(1)
    lo, full_lo, full_hi, hi = _ranges(tile, n_q, n_kv, window, CAUSAL, WINDOW, RAGGED)
    keys = (2 * tile + WHO) * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, S_L))
    dk = gl.zeros([ROWS, D], gl.float32, K_L)
    dv = gl.zeros([ROWS, DV], gl.float32, V_L)
    mbarrier.wait(kv_full, 0)
    count = 0
    if hi > lo:
        for member in range(GROUP):
            head = kv_head * GROUP + member
            dk, dv = _step(
                dk,
                dv,
                sums,
                k_tiles,
                v_tiles,
                q_ring,
                do_ring,
                lse_ring,
                delta_ring,
                ds_ring,
                dq_tiles,
                q_full,
                q_empty,
                do_full,
                do_empty,
                ds_full,
                count,
                head,
                lo,
                keys,
                n_q,
                n_kv,
                window,
                scale,
                WHO,
                D,
                DV,
                CAUSAL,
                WINDOW,
                CAUSAL or WINDOW or RAGGED,
                True,
                STAGES,
                S_L,
                Q_L,
                P_K,
                P_V,
            )
            count += 1
            if CAUSAL or WINDOW or RAGGED:
                for step in range(lo + 1, full_lo):
                    dk, dv = _step(dk, dv, sums, k_tiles, v_tiles, q_ring, do_ring, lse_ring, delta_ring, ds_ring,
                                   dq_tiles, q_full, q_empty, do_full, do_empty, ds_full, count, head, step, keys,
                                   n_q, n_kv, window, scale, WHO, D, DV, CAUSAL, WINDOW, True, False, STAGES, S_L,
                                   Q_L, P_K, P_V)  # fmt: skip
                    count += 1
            for step in range(gl.maximum(lo + 1, full_lo), full_hi):
                dk, dv = _step(dk, dv, sums, k_tiles, v_tiles, q_ring, do_ring, lse_ring, delta_ring, ds_ring,
                               dq_tiles, q_full, q_empty, do_full, do_empty, ds_full, count, head, step, keys, n_q,
                               n_kv, window, scale, WHO, D, DV, CAUSAL, WINDOW, False, False, STAGES, S_L, Q_L, P_K,
                               P_V)  # fmt: skip
                count += 1
            if WINDOW:
                for step in range(gl.maximum(lo + 1, full_hi), hi):
                    dk, dv = _step(dk, dv, sums, k_tiles, v_tiles, q_ring, do_ring, lse_ring, delta_ring, ds_ring,
                                   dq_tiles, q_full, q_empty, do_full, do_empty, ds_full, count, head, step, keys,
                                   n_q, n_kv, window, scale, WHO, D, DV, CAUSAL, WINDOW, True, False, STAGES, S_L,
                                   Q_L, P_K, P_V)  # fmt: skip
                    count += 1
            dq = _query_gradient(k_tiles, ds_ring, ds_full, count - 1, WHO, D, Q_L)
            dq = warpgroup_mma_wait(0, deps=[dq])
            _hand_over(dq, sums, dq_tiles, head, (hi - 1) * ROWS, WHO)

    # dK, then dV leave through the room of dQ's tile, which is as large.
    row = (2 * tile + WHO) * ROWS
    tma.store_wait(0)
    k_room = _room_for(dq_tiles.index(WHO), dk_out.dtype, dk_out.block_type.shape, dk_out.layout)
    k_room.reshape([ROWS, D]).store((dk * out_scale).to(dk_out.dtype))
    fence_async_shared()
    copy_out(dk_out, [kv_head, row, 0], k_room)
    tma.store_wait(0)
    v_room = _room_for(dq_tiles.index(WHO), dv_out.dtype, dv_out.block_type.shape, dv_out.layout)
    v_room.reshape([ROWS, DV]).store(dv.to(dv_out.dtype))
    fence_async_shared()
    copy_out(dv_out, [kv_head, row, 0], v_room)
    tma.store_wait(0)


@gluon.jit
def flash_backward_main_hopper(q, k, v, do, lse, delta, sums, dk, dv, n_q, n_kv, window, scale, out_scale,
                               GROUP: gl.constexpr, BD: gl.constexpr, BDV: gl.constexpr, CAUSAL: gl.constexpr,
                               WINDOW: gl.constexpr, RAGGED: gl.constexpr, STAGES: gl.constexpr):  # fmt: skip
    """One program: 128 keys of one K/V head. Everything comes as descriptors of 64 rows; `scale` includes log2(e)."""
    k_tiles = gl.allocate_shared_memory(k.dtype, [2, 1, ROWS, BD], k.layout)
    v_tiles = gl.allocate_shared_memory(v.dtype, [2, 1, ROWS, BDV], v.layout)
    q_ring = gl.allocate_shared_memory(q.dtype, [STAGES, 1, ROWS, BD], q.layout)
    do_ring = gl.allocate_shared_memory(do.dtype, [STAGES, 1, ROWS, BDV], do.layout)
    lse_ring = gl.allocate_shared_memory(gl.float32, [STAGES, 1, ROWS], lse.layout)
    delta_ring = gl.allocate_shared_memory(gl.float32, [STAGES, 1, ROWS], delta.layout)
    square: gl.constexpr = gl.NVMMASharedLayout.get_default_for([ROWS, ROWS], q.dtype)
    ds_ring = gl.allocate_shared_memory(q.dtype, [4, ROWS, ROWS], square)
    dq_tiles = gl.allocate_shared_memory(gl.float32, [2, 1, ROWS, HALF], sums.layout)
    kv_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    q_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    q_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    do_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    do_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    ds_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    mbarrier.init(kv_full, count=1)
    for i in gl.static_range(STAGES):
        mbarrier.init(q_full.index(i), count=1)
        mbarrier.init(do_full.index(i), count=1)
        mbarrier.init(q_empty.index(i), count=2)
        mbarrier.init(do_empty.index(i), count=2)
    for i in gl.static_range(2):
        mbarrier.init(ds_full.index(i), count=2)

    gl.warp_specialize([
        (_consume, (sums, dk, dv, k_tiles, v_tiles, q_ring, do_ring, lse_ring, delta_ring, ds_ring, dq_tiles, kv_full,
                    q_full, q_empty, do_full, do_empty, ds_full, n_q, n_kv, window, scale, out_scale, 0, GROUP, BD,
                    BDV, CAUSAL, WINDOW, RAGGED, STAGES)),
        (_consume, (sums, dk, dv, k_tiles, v_tiles, q_ring, do_ring, lse_ring, delta_ring, ds_ring, dq_tiles, kv_full,
                    q_full, q_empty, do_full, do_empty, ds_full, n_q, n_kv, window, scale, out_scale, 1, GROUP, BD,
                    BDV, CAUSAL, WINDOW, RAGGED, STAGES)),
        (_produce, (q, k, v, do, lse, delta, k_tiles, v_tiles, q_ring, do_ring, lse_ring, delta_ring, kv_full, q_full,
                    q_empty, do_full, do_empty, n_q, n_kv, window, GROUP, CAUSAL, WINDOW, RAGGED, STAGES)),
    ], [4, 1], [240, 24])  # fmt: skip


def vectors(tensor: Any, n_q: int) -> Any:
    """A descriptor over (heads, n_q) fp32 with blocks of 64 queries of one head."""
    layout = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=2)
    return described(tensor, [tensor.numel() // n_q, n_q], [n_q, 1], [1, 64], layout)


def main_launcher(
    g: Gradients, causal: bool, window: int | None, scale: float, log2_scale: float, stages: int
) -> Callable[[], None]:
    """A callable that runs the main kernel alone on one call's tensors; head dims 72 to 128, n_q in fours."""
    (batch, heads, n_q, d), (_, kv_heads, n_kv, d_v) = g.q.shape, g.v.shape

    def rows(tensor: Any, count: int, columns: int, block: int) -> Any:
        shape = [tensor.numel() // (count * columns), count, columns]
        return described(tensor, shape, [count * columns, columns, 1], [1, 64, block])

    arguments = (
        rows(g.q, n_q, d, 128), rows(g.k, n_kv, d, 128), rows(g.v, n_kv, d_v, 128), rows(g.do, n_q, d_v, 128),
        vectors(g.lse, n_q), vectors(g.delta, n_q), rows(g.sums, n_q, d, 64), rows(g.dk, n_kv, d, 128),
        rows(g.dv, n_kv, d_v, 128), n_q, n_kv, n_q + n_kv if window is None else min(window, n_q + n_kv), log2_scale,
        scale,
    )  # fmt: skip
    kernel = flash_backward_main_hopper[(triton.cdiv(n_kv, 128), batch * kv_heads)]

    def launch() -> None:
        kernel(*arguments, GROUP=heads // kv_heads, BD=128, BDV=128, CAUSAL=causal, WINDOW=window is not None,
               RAGGED=n_kv % 128 != 0, STAGES=stages, num_warps=4)  # fmt: skip

    return launch
