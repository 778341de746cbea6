"""Random inputs for the decoding kernels: queries, and caches in the queries' dtype or in 8 bits with scales."""

from __future__ import annotations

from typing import Any

from rooflinecli.kernels.decode_choice import EIGHT_BIT
from rooflinecli.kernels.flash_inputs import torch_dtype

from rooflinecli.workload import Workload

LARGEST = {"fp8_e4m3": 448.0, "fp8_e5m2": 57344.0, "int8": 127.0}  # what an 8-bit format stores at most


def normal(shape: tuple[int, ...], dtype: str, device: str, generator: Any) -> Any:
    """Normal random numbers in the format `dtype`."""
    import torch

    return torch.randn(*shape, generator=generator, device=device, dtype=torch.float32).to(torch_dtype(dtype))


def cache(shape: tuple[int, ...], dtype: str, device: str, generator: Any) -> tuple[Any, Any]:
    """A random cache (pages or batch, heads, tokens, columns) and its scales (heads,), None where it needs none.

    The scale of a head takes its largest element to the largest number that the 8-bit format holds.
    """
    import torch

    drawn = torch.randn(*shape, generator=generator, device=device, dtype=torch.float32)
    if dtype not in EIGHT_BIT:
        return drawn.to(torch_dtype(dtype)), None
    scale = drawn.abs().amax((0, 2, 3)) / LARGEST[dtype]
    drawn /= scale[:, None, None]
    stored = drawn.round_().to(torch.int8) if dtype == "int8" else drawn.to(torch_dtype(dtype))
    return stored, scale


def widened(stored: Any, scale: Any) -> Any:
    """What a cache stands for, in float64."""
    return stored.double() if scale is None else stored.double() * scale.double()[:, None, None]


def make_decode(workload: Workload, device: str, seed: int) -> dict[str, Any]:
    """`q` (B, Hq, Nq, d), `k` (B, Hk, Nk, d), `v` (B, Hk, Nk, dv), `k_scale` and `v_scale` (Hk,) or None."""
    import torch

    w = workload
    generator = torch.Generator(device=device).manual_seed(seed)
    q = normal((w.batch, w.heads, w.n_q, w.d), w.dtype, device, generator)
    k, k_scale = cache((w.batch, w.kv_heads, w.n_kv, w.d), w.kv_dtype, device, generator)
    v, v_scale = cache((w.batch, w.kv_heads, w.n_kv, w.d_v), w.kv_dtype, device, generator)
    return {"q": q, "k": k, "v": v, "k_scale": k_scale, "v_scale": v_scale}
