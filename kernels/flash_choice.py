"""The tile tables of the flash kernels: capability, head dim, dtype and mask decide."""

from __future__ import annotations

from rooflinecli.kernels.flash_call import Call
from rooflinecli.kernels.flash_tiles import padded
from rooflinecli.kernels.spec import KernelConfig


def forward_config(call: Call, capability: tuple[int, int] | None, pack_gqa: bool = False) -> KernelConfig:
    """The forward kernel's tiles for one call; `capability` None is the interpreter on a CPU."""
    (_, _, n_q, d), d_v = call.q.shape, call.v.shape[3]
    return forward_tiles(capability, max(padded(d), padded(d_v)), call.q.element_size(), call.causal, n_q, pack_gqa)


def forward_tiles(capability: tuple[int, int] | None, bd: int, itemsize: int, causal: bool, n_q: int, pack_gqa: bool) -> KernelConfig:  # fmt: skip
    """Tiles for padded head dim `bd` and elements of `itemsize` bytes."""
    if capability is None:
        return KernelConfig(br=16, bc=16, warps=4, stages=1, pack_gqa=pack_gqa)
    return KernelConfig(br=128, bc=64, warps=8 if bd > 64 else 4, stages=2, pack_gqa=pack_gqa)


def backward_tiles(capability: tuple[int, int] | None, bd: int, itemsize: int) -> KernelConfig:
    """The backward kernel's tiles: `br` query rows a step, `bc` keys a program."""
    if capability is None:
        return KernelConfig(br=16, bc=32, warps=4, stages=1)
    return KernelConfig(br=64, bc=128, warps=8, stages=2)
