"""The tile tables of the flash kernels: capability, head dim, dtype and mask decide.

Entries for compute capability 9.0 are the best of a sweep on an H200 (`docs/kernels.md`); 8.x takes what fits its
smaller shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from rooflinecli.kernels.flash_tiles import padded
from rooflinecli.kernels.spec import Capability, KernelConfig

from rooflinecli.workload import Workload


@dataclass(frozen=True, slots=True)
class Problem:
    """What the tables look at. `itemsize` is bytes an element of Q, K and V; `group` query heads a K/V head."""

    d: int
    d_v: int
    n_q: int
    n_kv: int
    itemsize: int
    group: int = 1
    tf32: bool = False

    @staticmethod
    def of(workload: Workload) -> Problem:
        """The problem a workload poses."""
        w = workload
        size = int(w.storage.bytes_per_element)
        return Problem(w.d, w.d_v, w.n_q, w.n_kv, size, w.group, w.dtype == "tf32")

    @property
    def width(self) -> int:
        """The wider of the padded head dims."""
        return max(padded(self.d), padded(self.d_v))


def hopper_schedule_refuses(problem: Problem, capability: Capability) -> str | None:
    """Why the Gluon variant cannot run a problem, or None."""
    p, rows = problem, (problem.d * problem.itemsize, problem.d_v * problem.itemsize)
    if capability is None or capability[0] != 9:
        return "the Gluon variant is for compute capability 9.0 (wgmma)"
    if p.itemsize not in (1, 2):
        return "the Gluon variant takes fp16, bf16 and 8-bit floats"
    if p.width > 256 or min(p.d, p.d_v) < 16 or rows[0] % 16 or rows[1] % 16:
        return "the Gluon variant takes head dims from 16 to 256 whose rows are whole 16-byte pieces"
    if p.itemsize == 1 and (p.n_kv % 16 or min(p.d, p.d_v) < 32):
        return "the Gluon variant takes 8-bit inputs with head dims from 32 and a number of keys in sixteens"
    return None


def forward_config(problem: Problem, capability: Capability, pack_gqa: bool | None = None) -> KernelConfig:
    """The forward kernel's tiles. Heads of a group share a tile where their queries alone would not fill one."""
    p = problem
    pack = p.group > 1 and p.n_q < 64 if pack_gqa is None else pack_gqa
    if capability is None:
        return KernelConfig(br=16, bc=16, warps=4, stages=1, pack_gqa=pack)
    if not pack and hopper_schedule_refuses(p, capability) is None:
        if p.width > 128:
            return KernelConfig(br=128, bc=64, warps=4, stages=2, variant="gluon")
        if p.width == 128:
            return KernelConfig(br=128, bc=128, warps=4, stages=2 if p.itemsize == 2 else 4, variant="gluon")
        return KernelConfig(br=192 if p.n_q > 128 else 128, bc=128, warps=4, stages=2, variant="gluon")
    if p.tf32:
        return KernelConfig(br=64, bc=64 if p.width <= 64 else 32, warps=4, stages=2, pack_gqa=pack)
    if p.itemsize == 4:  # without tensor cores a thread holds whole rows of its operands: few rows a thread
        br, bc, warps, stages = (
            (64, 32, 8, 2) if p.width <= 64 else (32, 32, 16, 2) if p.width == 128 else (32, 16, 8, 1)
        )
        return KernelConfig(br=br, bc=bc, warps=warps, stages=stages, pack_gqa=pack)
    if p.width > 128:
        return KernelConfig(br=128, bc=64, warps=8, stages=2 if capability >= (9, 0) else 1, pack_gqa=pack)
    if capability >= (9, 0):
        if p.itemsize == 1:
            return KernelConfig(br=128, bc=64, warps=8, stages=3, pack_gqa=pack)
        return KernelConfig(
            br=64, bc=128 if p.width <= 64 else 64, warps=4, stages=2 if p.width <= 64 else 3, pack_gqa=pack
        )
    return KernelConfig(br=128 if p.width <= 64 else 64, bc=64, warps=4, stages=2, pack_gqa=pack)


def backward_config(problem: Problem, capability: Capability) -> KernelConfig:
    """The backward kernel's tiles: `br` query rows a step, `bc` keys a program."""
    if capability is None:
        return KernelConfig(br=16, bc=32, warps=4, stages=1)
    if problem.itemsize == 4 or problem.width > 128:
        return KernelConfig(br=32, bc=32, warps=4, stages=1)
    if capability >= (9, 0):
        if problem.width <= 64:
            return KernelConfig(br=64, bc=64, warps=4, stages=3)
        if problem.n_q % 4 == 0 and hopper_schedule_refuses(problem, capability) is None:
            return KernelConfig(br=64, bc=128, warps=4, stages=2, variant="gluon")
        return KernelConfig(br=64, bc=128, warps=8, stages=3)
    return KernelConfig(br=32, bc=64, warps=4, stages=2)
