"""Absorbed decoding with multi-head latent attention: one latent a token, shared by all query heads.

Formula: `O = softmax(Q C^T * scale) C[:, :dv]`, where a row of the cache C is `[latent (dv), rotary part (d - dv)]` and
the projections to keys and values have been absorbed into Q and into what follows O. DeepSeek's models have dv = 512
and d = 576; their scale is that of the heads before absorption, 1 / sqrt(128 + 64). Reference: DeepSeek-V2
(arXiv:2405.04434); in float64 `rooflinecli.kernels.flash_inputs.attention`. Accounting algorithm: `mla` with the tile
and splits of `config`: each tile of the cache is read once and serves both products. The kernels are in `split_kv`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rooflinecli.kernels.decode_call import LOG2E, DecodeCall, call_of
from rooflinecli.kernels.decode_choice import decode_config, refuses
from rooflinecli.kernels.decode_inputs import cache, normal, widened
from rooflinecli.kernels.flash_call import capability_of
from rooflinecli.kernels.flash_inputs import attention
from rooflinecli.kernels.spec import Capability, KernelConfig, Launch
from rooflinecli.kernels.split_kv import launch_of, launcher

from rooflinecli.errors import InputError
from rooflinecli.workload import Workload

if TYPE_CHECKING:
    import torch

MOST_QUERIES = 16  # of a sequence: beyond, it is no decode
WIDEST = (512, 128)  # latent and rotary part: the output of 64 heads fills the registers


def mla_decode(q: torch.Tensor, latent: torch.Tensor, d_v: int, *, scale: float | None = None, causal: bool = False,
               window: int | None = None, latent_scale: torch.Tensor | None = None, tf32: bool = False,
               out: torch.Tensor | None = None, config: KernelConfig | None = None) -> Any:  # fmt: skip
    """Attention of q (B, Hq, Nq, d) over a cache `latent` (B, 1, Nk, d), whose first d_v columns are the values.

    Tensors are contiguous; q is fp32, fp16 or bf16, and `latent` in q's dtype, e4m3, e5m2 or int8, standing for itself
    times latent_scale (1,), fp32. `scale` is 1 / sqrt(d) unless given. O is (B, Hq, Nq, d_v), in q's dtype unless `out`
    is given. Masks and `tf32` are those of `decode`.

    Raises:
        InputError: shapes, strides or dtypes the kernel does not take.
    """
    import torch

    if latent.dim() != 4 or latent.shape[1] != 1 or not 1 <= d_v < latent.shape[3]:
        raise InputError(f"latent {tuple(latent.shape)}, d_v {d_v}: must be (batch, 1, keys, d) with d_v under d")
    out = torch.empty(*q.shape[:3], d_v, dtype=q.dtype, device=q.device) if out is None else out
    factor = (1 / math.sqrt(q.shape[-1]) if scale is None else scale) * LOG2E
    call = DecodeCall(q, latent, latent[..., :d_v], out, factor, latent.shape[2], causal, window, tf32, latent_scale,
                      latent_scale, latent=True)  # fmt: skip
    call.check()
    launcher(call, config or decode_config(call.workload, capability_of(q), latent=True))()
    return out


def supports(workload: Workload, capability: Capability) -> str | None:
    """None where the kernel runs the workload; the reason why not otherwise."""
    w = workload
    if w.kv_heads != 1 or w.d_v >= w.d:
        return "a latent cache has one head, whose first columns are the values"
    if w.d_v > WIDEST[0] or w.d - w.d_v > WIDEST[1]:
        return f"latents over {WIDEST[0]} and rotary parts over {WIDEST[1]} columns do not fit its tiles"
    if w.n_q > MOST_QUERIES:
        return f"{w.n_q} queries a sequence are more than {MOST_QUERIES}: no decode"
    return refuses(w, capability)


def config(workload: Workload, capability: Capability) -> KernelConfig:
    """The tile table's answer."""
    return decode_config(workload, capability, latent=True)


def make_inputs(workload: Workload, device: str = "cuda", seed: int = 0) -> dict[str, Any]:
    """Normal random q and cache `k` with the scale of an 8-bit one; `v` is a view of its first columns."""
    import torch

    w = workload
    generator = torch.Generator(device=device).manual_seed(seed)
    q = normal((w.batch, w.heads, w.n_q, w.d), w.dtype, device, generator)
    k, scale = cache((w.batch, 1, w.n_kv, w.d), w.kv_dtype, device, generator)
    return {"q": q, "k": k, "v": k[..., : w.d_v], "k_scale": scale, "v_scale": scale}


def prepare(inputs: Mapping[str, Any], workload: Workload, config: KernelConfig) -> Launch:
    """A launch into a poisoned `o`."""
    return launch_of(call_of(inputs, workload, latent=True), config)


def reference(inputs: Mapping[str, Any], workload: Workload) -> dict[str, Any]:
    """`o` in float64, of the values that the cache stands for."""
    k, v = (widened(inputs[name], inputs[f"{name}_scale"]) for name in "kv")
    return {"o": attention(inputs["q"], k, v, workload.causal, workload.window)[0]}
