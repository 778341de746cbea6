"""Probes of single units of a GPU: the FP32 pipe, the special-function unit, shared memory, and what a launch costs.

Formulas, with `P` programs and `R` repeats each:
fp32   every element of a block takes `R` dependent fused multiply-adds: `2 * P * BLOCK * R` FLOP
exp2   every element of a block takes `R` dependent exponentials: `P * BLOCK * R`
shared every element of a tile is read from shared memory `R` times, 16 bytes a thread: `4 * P * TILE * R` bytes
launch nothing: a kernel that only returns

Reference: the fp32 probe iterates x = x/2 + 1, whose fixed point is 2; the exp2 probe x = 2^-x, whose fixed point is
0.6411857445; the shared probe adds up ones. Accounting algorithm: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

if TYPE_CHECKING:
    import torch

UNROLL = 16
BLOCK = 2048  # elements of a program of the fp32 probe: 16 a thread, each a chain of its own
SHARED_ROWS, SHARED_COLUMNS, SHARED_SLICES = 32, 128, 4  # 16 KiB a slice: one vector of 4 a thread, 8 rows a pass


@triton.jit
def fp32_kernel(out, repeats, half, one, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
    """`repeats` times `UNROLL` fused multiply-adds on every element; out (programs, BLOCK)."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(out + at)
    for _ in range(repeats):
        for _ in tl.static_range(UNROLL):
            x = tl.fma(x, half, one)
    tl.store(out + at, x)


@triton.jit
def exp2_kernel(out, repeats, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
    """`repeats` times `UNROLL` exponentials of every element; the sign is free. out (programs, BLOCK)."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(out + at)
    for _ in range(repeats):
        for _ in tl.static_range(UNROLL):
            x = tl.math.exp2(-x)
    tl.store(out + at, x)


@gluon.jit
def shared_kernel(out, repeats, ROWS: gl.constexpr, COLUMNS: gl.constexpr, SLICES: gl.constexpr, UNROLL: gl.constexpr):
    """Add up `repeats * UNROLL` slices of shared memory, all ones; out (programs, ROWS, COLUMNS).

    The slice read depends on the loop's counter: a fixed one would be read once, before the loop.
    """
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [1, 32], [gl.num_warps(), 1], [1, 0])
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    slices = gl.allocate_shared_memory(gl.float32, [SLICES, ROWS, COLUMNS], plain)
    ones = gl.full([ROWS, COLUMNS], 1.0, gl.float32, layout)
    for index in gl.static_range(SLICES):
        slices.index(index).store(ones)
    gl.thread_barrier()
    total = gl.zeros([ROWS, COLUMNS], gl.float32, layout)
    for step in range(repeats):
        for index in gl.static_range(UNROLL):
            total += slices.index((step + index) % SLICES).load(layout)
    rows = gl.arange(0, ROWS, gl.SliceLayout(1, layout))
    columns = gl.arange(0, COLUMNS, gl.SliceLayout(0, layout))
    at = (gl.program_id(0) * ROWS + rows[:, None]) * COLUMNS + columns[None, :]
    gl.store(out + at, total)


@triton.jit
def empty_kernel(out):
    """Return at once."""


def fp32(out: torch.Tensor, repeats: int) -> int:
    """Run the fp32 probe on `out` (programs, BLOCK), fp32; returns the FLOP it does."""
    programs = out.shape[0]
    fp32_kernel[(programs,)](out, repeats, 0.5, 1.0, BLOCK=BLOCK, UNROLL=UNROLL, num_warps=4)
    return 2 * programs * BLOCK * repeats * UNROLL


def exp2(out: torch.Tensor, repeats: int) -> int:
    """Run the exp2 probe on `out` (programs, BLOCK), fp32; returns the exponentials it computes."""
    programs = out.shape[0]
    exp2_kernel[(programs,)](out, repeats, BLOCK=BLOCK, UNROLL=UNROLL, num_warps=4)
    return programs * BLOCK * repeats * UNROLL


def shared(out: torch.Tensor, repeats: int) -> int:
    """Run the shared-memory probe into `out` (programs, SHARED_ROWS, SHARED_COLUMNS), fp32; returns the bytes read."""
    shared_kernel[(out.shape[0],)](out, repeats, SHARED_ROWS, SHARED_COLUMNS, SHARED_SLICES, 8, num_warps=8)
    return 4 * out.numel() * repeats * 8


def empty(out: torch.Tensor) -> None:
    """Launch one program that does nothing."""
    empty_kernel[(1,)](out, num_warps=1)
