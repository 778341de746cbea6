"""Decoding with split-KV: a few queries against a long cache.

Formula: `O = softmax(Q K^T * scale, masked) V`, over splits of the keys that are combined by their log-sum-exp.
A query that sees no key gets `O = 0`. Reference: Dao et al. 2023, Flash-Decoding; in float64
`rooflinecli.kernels.flash_inputs.attention`. Accounting algorithm: `decode` with the tile and splits of `config`.
The kernels are in `split_kv`, shared with `paged_decode` and `mla_decode`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rooflinecli.kernels.decode_call import LOG2E, DecodeCall, call_of
from rooflinecli.kernels.decode_choice import decode_config, refuses, too_many_rows
from rooflinecli.kernels.decode_inputs import make_decode, widened
from rooflinecli.kernels.flash_call import capability_of
from rooflinecli.kernels.flash_inputs import attention
from rooflinecli.kernels.spec import Capability, KernelConfig, Launch
from rooflinecli.kernels.split_kv import launch_of, launcher

from rooflinecli.workload import Workload

if TYPE_CHECKING:
    import torch


def decode(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, window: int | None = None,
           scale: float | None = None, k_scale: torch.Tensor | None = None, v_scale: torch.Tensor | None = None,
           tf32: bool = False, out: torch.Tensor | None = None, config: KernelConfig | None = None) -> Any:  # fmt: skip
    """Attention of q (B, Hq, Nq, d) over a cache k (B, Hk, Nk, d), v (B, Hk, Nk, dv): O (B, Hq, Nq, dv).

    Tensors are contiguous; q is fp32, fp16 or bf16, and k, v in q's dtype, e4m3, e5m2 or int8. What an 8-bit cache
    stores stands for itself times k_scale, v_scale (Hk,), fp32. Causal masks are aligned bottom-right; a window of W
    keys includes the own position. `tf32` lets fp32 use the tensor cores. O is in q's dtype unless `out` is given.

    Raises:
        InputError: shapes, strides or dtypes the kernel does not take.
    """
    import torch

    out = torch.empty(*q.shape[:3], v.shape[-1], dtype=q.dtype, device=q.device) if out is None else out
    factor = (1 / math.sqrt(q.shape[-1]) if scale is None else scale) * LOG2E
    call = DecodeCall(q, k, v, out, factor, k.shape[-2], causal, window, tf32, k_scale, v_scale)
    call.check()
    launcher(call, config or decode_config(call.workload, capability_of(q)))()
    return out


def supports(workload: Workload, capability: Capability) -> str | None:
    """None where the kernel runs the workload; the reason why not otherwise."""
    return too_many_rows(workload) or refuses(workload, capability)


def config(workload: Workload, capability: Capability) -> KernelConfig:
    """The tile table's answer."""
    return decode_config(workload, capability)


def make_inputs(workload: Workload, device: str = "cuda", seed: int = 0) -> dict[str, Any]:
    """Normal random q, k and v, and the scales of an 8-bit cache."""
    return make_decode(workload, device, seed)


def prepare(inputs: Mapping[str, Any], workload: Workload, config: KernelConfig) -> Launch:
    """A launch into a poisoned `o`."""
    return launch_of(call_of(inputs, workload), config)


def reference(inputs: Mapping[str, Any], workload: Workload) -> dict[str, Any]:
    """`o` in float64, of the values that the cache stands for."""
    k, v = (widened(inputs[name], inputs[f"{name}_scale"]) for name in "kv")
    return {"o": attention(inputs["q"], k, v, workload.causal, workload.window)[0]}
