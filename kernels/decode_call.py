"""One call of a decoding kernel: its tensors, what it may ask for, and the problem they pose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rooflinecli.kernels.flash_inputs import torch_dtype

from rooflinecli.errors import InputError
from rooflinecli.workload import Workload

if TYPE_CHECKING:
    import torch

LOG2E = 1.4426950408889634


@dataclass(frozen=True, slots=True)
class DecodeCall:
    """One call: q and out (B, Hq, Nq, d and dv), and the cache, dense, paged (`table`, `lengths`) or latent.

    k and v are (B, Hk, Nk, d and dv), or (pages, Hk, tokens a page, d and dv) with `table` (B, entries). `scale`
    includes log2(e), `n_kv` is the most keys a sequence has, `latent` says that V is K's first columns.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    out: torch.Tensor
    scale: float
    n_kv: int
    causal: bool = False
    window: int | None = None
    tf32: bool = False
    k_scale: torch.Tensor | None = None
    v_scale: torch.Tensor | None = None
    table: torch.Tensor | None = None
    lengths: torch.Tensor | None = None
    latent: bool = False

    @property
    def kv_heads(self) -> int:
        """K/V heads of the cache."""
        return int(self.k.shape[1])

    @property
    def page(self) -> int:
        """Tokens in a page; 0 of a cache that has none."""
        return 0 if self.table is None else int(self.k.shape[2])

    @property
    def workload(self) -> Workload:
        """The problem, as the tile table takes it."""
        q, d_v = self.q, self.out.shape[3]
        return Workload(
            batch=q.shape[0], heads=q.shape[1], kv_heads=self.kv_heads, n_q=q.shape[2], n_kv=self.n_kv, d=q.shape[3],
            d_v=d_v, dtype="tf32" if self.tf32 else _named(q), kv_dtype=_named(self.k), causal=self.causal,
            window=self.window,
        )  # fmt: skip

    def check(self) -> None:
        """Refuse what the kernels cannot run.

        Raises:
            InputError: shapes, strides, dtypes or a window they do not take.
        """
        q, k, v = self.q, self.k, self.v
        for name, tensor in (("q", q), ("k", k), ("v", v), ("out", self.out)):
            if tensor.dim() != 4:
                raise InputError(f"{name} {tuple(tensor.shape)}: must have four dimensions")
            if not (tensor.is_contiguous() or (self.latent and tensor is v)):
                raise InputError(f"{name} must be contiguous")
        if k.shape[:3] != v.shape[:3] or k.shape[3] != q.shape[3]:
            raise InputError(f"shapes do not fit: q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}")
        if self.table is None and k.shape[0] != q.shape[0]:
            raise InputError(f"shapes do not fit: {q.shape[0]} sequences of queries, {k.shape[0]} of keys")
        for name, index, dims in (("table", self.table, 2), ("lengths", self.lengths, 1)):
            if index is None:
                continue
            if index.dim() != dims or index.shape[0] != q.shape[0] or str(index.dtype) != "torch.int32":
                raise InputError(f"{name} {tuple(index.shape)} {index.dtype}: must be int32, a row a sequence")
            if not index.is_contiguous():
                raise InputError(f"{name} must be contiguous")
        if self.out.shape != (*q.shape[:3], v.shape[3]):
            raise InputError(f"out {tuple(self.out.shape)} must be {(*q.shape[:3], v.shape[3])}")
        if q.shape[1] % k.shape[1]:
            raise InputError(f"{k.shape[1]} K/V heads do not divide {q.shape[1]} query heads")
        if self.window is not None and self.window < 1:
            raise InputError(f"window {self.window}: must be at least 1")
        if q.element_size() == 1 or k.dtype != v.dtype or (k.dtype != q.dtype and k.element_size() != 1):
            raise InputError(
                f"q {q.dtype}, k {k.dtype}, v {v.dtype}: k and v are in q's dtype or both in one of 8 bits"
            )
        for name, scale in (("k_scale", self.k_scale), ("v_scale", self.v_scale)):
            if scale is not None and scale.shape != (k.shape[1],):
                raise InputError(f"{name} {tuple(scale.shape)}: must have one scale a K/V head, {(k.shape[1],)}")


def _named(tensor: torch.Tensor) -> str:
    names = ("fp32", "fp16", "bf16", "fp8_e4m3", "fp8_e5m2", "int8")
    return next(name for name in names if torch_dtype(name) == tensor.dtype)


def call_of(inputs: Mapping[str, Any], workload: Workload, *, latent: bool = False) -> DecodeCall:
    """The call a workload's inputs make, into a poisoned output in the storage dtype the ledger counts."""
    import math

    import torch

    w, q = workload, inputs["q"]
    out = torch.full((*q.shape[:3], w.d_v), math.nan, device=q.device).to(torch_dtype(w.dtype))
    call = DecodeCall(
        q, inputs["k"], inputs["v"], out, LOG2E / math.sqrt(w.d), w.n_kv, w.causal, w.window, w.dtype == "tf32",
        inputs["k_scale"], inputs["v_scale"], inputs.get("table"), inputs.get("lengths"), latent,
    )  # fmt: skip
    call.check()
    return call
