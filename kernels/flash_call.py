"""One call of a flash kernel: its tensors, what it may ask for, and the tiles it runs with."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from rooflinecli.errors import InputError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of one forward call; `scale` includes log2(e), `lse` is None where nobody wants it."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    out: torch.Tensor
    lse: torch.Tensor | None
    causal: bool
    window: int | None
    scale: float
    v_scale: float
    tf32: bool

    @property
    def v_transposed(self) -> bool:
        """Whether V's storage runs along the keys."""
        return self.v.stride(-1) != 1 and self.v.mT.is_contiguous()

    @property
    def fp8(self) -> bool:
        """Whether the inputs are 8-bit floats."""
        return self.q.element_size() == 1

    @property
    def group(self) -> int:
        """Query heads a K/V head serves."""
        return self.q.shape[1] // self.k.shape[1]

    @property
    def window_keys(self) -> int:
        """The window as the kernel takes it: never more than any query could reach, so that it fits 32 bits."""
        n_q, n_kv = self.q.shape[2], self.k.shape[2]
        return n_q + n_kv if self.window is None else min(self.window, n_q + n_kv)

    def check(self) -> None:
        """Raise InputError for shapes or strides that no variant takes."""
        q, k, v = self.q, self.k, self.v
        if not (q.dim() == k.dim() == v.dim() == self.out.dim() == 4):
            raise InputError("q, k, v and out must have four dimensions: batch, heads, rows, head dim")
        if q.shape[0] != k.shape[0] or k.shape[:3] != v.shape[:3] or q.shape[3] != k.shape[3]:
            raise InputError(f"shapes do not fit: q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}")
        if q.shape[1] % k.shape[1]:
            raise InputError(f"{k.shape[1]} K/V heads do not divide {q.shape[1]} query heads")
        if self.out.shape != (*q.shape[:3], v.shape[3]):
            raise InputError(f"out {tuple(self.out.shape)} must be {(*q.shape[:3], v.shape[3])}")
        if self.window is not None and self.window < 1:
            raise InputError(f"window {self.window}: must be at least 1")
        if not (q.is_contiguous() and k.is_contiguous() and self.out.is_contiguous()):
            raise InputError("q, k and out must be contiguous (batch, heads, rows, head dim)")
        if not (v.is_contiguous() or self.v_transposed):
            raise InputError("v must be contiguous, or a view of contiguous (batch, heads, head dim, rows)")


def interpreted() -> bool:
    """Whether Triton runs kernels in its interpreter, on the CPU."""
    return os.environ.get("TRITON_INTERPRET", "0") == "1"


@cache
def capability(index: int | None = None) -> tuple[int, int]:
    """Compute capability of CUDA device `index`, as torch reads it."""
    import torch

    return torch.cuda.get_device_capability(index)


def capability_of(tensor: torch.Tensor) -> tuple[int, int] | None:
    """Compute capability of the device a tensor is on; None on a CPU."""
    return capability(tensor.device.index) if tensor.is_cuda else None


def describable(tensor: torch.Tensor, row: int) -> bool:
    """Whether a tensor descriptor can address rows of `row` elements: 16-byte strides and base, 16-byte blocks."""
    return row * tensor.element_size() % 16 == 0 and tensor.data_ptr() % 16 == 0


def descriptor(tensor: torch.Tensor, rows: int, columns: int, block_rows: int, block_columns: int) -> Any:
    """A descriptor over (heads, rows, columns) with blocks of one head; what lies outside reads as zero."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    heads = tensor.numel() // (rows * columns)
    strides = [rows * columns, columns, 1]
    return TensorDescriptor(tensor, [heads, rows, columns], strides, [1, block_rows, block_columns])
