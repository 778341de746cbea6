"""Probes of memory bandwidth: read, write, copy and triad of long arrays, and reading a footprint again and again.

Formulas, for arrays of `n` elements of 4 bytes: read `4n` and write `4n` bytes, copy `8n`, triad (z = x + s*y) `12n`.
The footprint probe reads `4 * BLOCK * programs * steps` bytes out of a footprint that may be much smaller: every
program walks all of it, and loads bypass the L1, so that what the footprint fits in is the L2 or nothing. Apart,
programs read different blocks at a time, which shows bandwidth. In step, all read the same block, as attention's read
K and V: no bandwidth is short then, and a step's time is a latency, which shows the share that is missed.
Reference: the sum of what was read, modulo 2^32, and the plain copy and sum. Accounting algorithm: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch

BLOCK = 4096  # elements of a step: 16 KiB, four 16-byte accesses a thread
WARPS = 8
PROGRAMS_PER_SM = 6
# Elements and warps of a program that copies: which is fastest differs by card, so all are tried.
COPY_SHAPES = ((4096, 8), (2048, 4), (1024, 4), (512, 4), (1024, 2), (8192, 8))


@triton.jit
def read_kernel(x, out, blocks, steps, apart, stride, BLOCK: tl.constexpr):
    """Add up `steps` blocks of x (blocks * BLOCK,), around; out (programs,).

    Programs begin `apart` blocks from each other and go on by `stride`.
    """
    program = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.int32)
    block = (program * apart) % blocks
    for _ in range(steps):
        at = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(x + at, cache_modifier=".cg")
        block = (block + stride) % blocks
    tl.store(out + program, tl.sum(total, 0))


@triton.jit
def write_kernel(z, value, BLOCK: tl.constexpr):
    """z = value."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + at, tl.full([BLOCK], value, tl.int32))


@triton.jit
def copy_kernel(x, z, BLOCK: tl.constexpr):
    """z = x."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + at, tl.load(x + at))


@triton.jit
def triad_kernel(x, y, z, scale, BLOCK: tl.constexpr):
    """z = x + scale * y."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + at, tl.load(x + at) + scale * tl.load(y + at))


def read(x: torch.Tensor, out: torch.Tensor, nbytes: int | None = None) -> int:
    """Read x, int32, a whole number of blocks, once, or about `nbytes` of it going around; returns the bytes read.

    `out` (programs,) int32 gets each program's sum.
    """
    blocks, programs = x.numel() // BLOCK, out.numel()
    steps = -(-(nbytes // (4 * BLOCK) if nbytes is not None else blocks) // programs)
    if nbytes is None and blocks % programs:
        raise ValueError(f"{blocks} blocks are not a whole number a program of {programs}")
    read_kernel[(programs,)](x, out, blocks, steps, 1, programs, BLOCK=BLOCK, num_warps=WARPS)
    return 4 * BLOCK * programs * steps


def march(x: torch.Tensor, out: torch.Tensor, rounds: int) -> int:
    """Every program reads all of x, int32, in one order, `rounds` times; returns the steps a program takes."""
    blocks = x.numel() // BLOCK
    read_kernel[(out.numel(),)](x, out, blocks, blocks * rounds, 0, 1, BLOCK=BLOCK, num_warps=WARPS)
    return blocks * rounds


def write(z: torch.Tensor) -> int:
    """Write z, int32; returns the bytes."""
    write_kernel[(z.numel() // BLOCK,)](z, 7, BLOCK=BLOCK, num_warps=WARPS)
    return 4 * z.numel()


def copy(x: torch.Tensor, z: torch.Tensor, block: int = BLOCK, warps: int = WARPS) -> int:
    """Copy x to z, int32, `block` elements a program; returns the bytes read and written."""
    copy_kernel[(z.numel() // block,)](x, z, BLOCK=block, num_warps=warps)
    return 8 * z.numel()


def triad(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> int:
    """z = x + 3y, int32; returns the bytes read and written."""
    triad_kernel[(z.numel() // BLOCK,)](x, y, z, 3, BLOCK=BLOCK, num_warps=WARPS)
    return 12 * z.numel()
