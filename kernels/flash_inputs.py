"""Inputs and float64 references for the flash kernels."""

from __future__ import annotations

import math
from typing import Any

from rooflinecli.errors import UnavailableError
from rooflinecli.workload import Workload


def torch_dtype(name: str) -> Any:
    """The torch dtype that stores the format `name`; tf32 is stored as fp32."""
    import torch

    known = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16,
             "fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2, "int8": torch.int8}  # fmt: skip
    if name not in known:
        raise UnavailableError(f"no bundled kernel takes {name}", f"it can be one of {', '.join(known)}")
    return known[name]


def make_qkv(workload: Workload, device: str = "cuda", seed: int = 0) -> dict[str, Any]:
    """Normal random `q` (B, Hq, Nq, d), `k` (B, Hk, Nk, d), `v` (B, Hk, Nk, dv) in the workload's dtype.

    8-bit V is a view whose storage runs along the keys, (B, Hk, dv, Nk): the layout 8-bit matrix products take.
    """
    import torch

    w = workload
    generator = torch.Generator(device=device).manual_seed(seed)

    def normal(*shape: int) -> Any:
        drawn = torch.randn(*shape, generator=generator, device=device, dtype=torch.float32)
        return drawn.to(torch_dtype(w.dtype))

    q, k = normal(w.batch, w.heads, w.n_q, w.d), normal(w.batch, w.kv_heads, w.n_kv, w.d)
    if w.dtype.startswith("fp8"):
        return {"q": q, "k": k, "v": normal(w.batch, w.kv_heads, w.d_v, w.n_kv).mT}
    return {"q": q, "k": k, "v": normal(w.batch, w.kv_heads, w.n_kv, w.d_v)}


def visible(n_q: int, n_kv: int, causal: bool, window: int | None, device: Any = None) -> Any:
    """The mask as booleans (n_q, n_kv): bottom-right aligned, a window includes the own position."""
    import torch

    position = torch.arange(n_q, device=device)[:, None] + (n_kv - n_q)
    key = torch.arange(n_kv, device=device)[None, :]
    seen = torch.ones(n_q, n_kv, dtype=torch.bool, device=device)
    if causal:
        seen &= key <= position
    if window is not None:
        seen &= (key - position).abs() < window
    return seen


def attention(
    q: Any, k: Any, v: Any, causal: bool = False, window: int | None = None, scale: float | None = None
) -> Any:
    """Attention in float64, written down as the formula: `(o, lse)`; a query that sees nothing gets 0 and -inf.

    Heads are taken one at a time, so that the scores of one head are all it holds.
    """
    import torch

    group = q.shape[1] // k.shape[1]
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    hidden = ~visible(q.shape[2], k.shape[2], causal, window, q.device)
    o = torch.empty(*q.shape[:3], v.shape[-1], dtype=torch.float64, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float64, device=q.device)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            scores = (q[b, h].double() @ k[b, h // group].double().T) * scale
            scores = scores.masked_fill(hidden, float("-inf"))
            lse[b, h] = scores.logsumexp(-1)
            weights = scores.softmax(-1).nan_to_num(0.0)  # a row of -inf alone is 0/0 in softmax
            o[b, h] = weights @ v[b, h // group].double()
    return o, lse


def gradients(
    q: Any, k: Any, v: Any, do: Any, causal: bool = False, window: int | None = None, scale: float | None = None
) -> Any:
    """dQ, dK, dV in float64 through torch's autograd of `attention`'s formula."""
    import torch

    leaves = [x.detach().double().requires_grad_() for x in (q, k, v)]
    group = q.shape[1] // k.shape[1]
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    hidden = ~visible(q.shape[2], k.shape[2], causal, window, q.device)
    wide = [leaves[0], *(x.repeat_interleave(group, dim=1) for x in leaves[1:])]
    scores = (wide[0] @ wide[1].mT * scale).masked_fill(hidden, float("-inf"))
    blind = hidden.all(-1)[:, None]  # their softmax is 0/0; they send nothing back
    weights = scores.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)
    return torch.autograd.grad(weights @ wide[2], leaves, do.double())
