"""What the flash kernels should compute, by counting loops, and the runs the tests compare with it."""

from __future__ import annotations

import math
from typing import Any

import torch
from hypothesis import strategies as st
from rooflinecli.kernels.flash_call import Call, interpreted
from rooflinecli.kernels.flash_forward import LOG2E, portable_launcher
from rooflinecli.kernels.spec import KernelConfig

from rooflinecli.workload import Workload

DEVICE = "cpu" if interpreted() else "cuda"


def sees(w: Workload, query: int, key: int) -> bool:
    """Whether a query sees a key, from the words of the definition."""
    position = query + w.n_kv - w.n_q
    if w.causal and key > position:
        return False
    return w.window is None or abs(position - key) <= w.window - 1


def mask_of(w: Workload) -> torch.Tensor:
    return torch.tensor([[sees(w, i, j) for j in range(w.n_kv)] for i in range(w.n_q)])


def softmax_rows(inputs: dict[str, Any], w: Workload) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """`(o, lse, weight of |v|)` in float64, one query at a time over the keys it sees."""
    q, k, v = (inputs[name].double().cpu() for name in "qkv")
    seen = mask_of(w)
    o = torch.zeros(w.batch, w.heads, w.n_q, w.d_v, dtype=torch.float64)
    lse = torch.full((w.batch, w.heads, w.n_q), -math.inf, dtype=torch.float64)
    spread = torch.zeros_like(o)
    for i in range(w.n_q):
        keys = seen[i].nonzero()[:, 0]
        if len(keys) == 0:
            continue
        for h in range(w.heads):
            ks, vs = k[:, h // w.group, keys], v[:, h // w.group, keys]
            scores = (ks @ q[:, h, i, :, None])[..., 0] / math.sqrt(w.d)
            total = torch.exp(scores).sum(-1, keepdim=True)
            weights = torch.exp(scores) / total
            o[:, h, i] = (weights[..., None] * vs).sum(1)
            spread[:, h, i] = (weights[..., None] * vs.abs()).sum(1)
            lse[:, h, i] = torch.log(total[..., 0])
    return o, lse, spread


def run_forward(inputs: dict[str, Any], w: Workload, config: KernelConfig, out_dtype: torch.dtype | None = None,
                descriptors: bool | None = None) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """O and LSE of the portable kernel, written over NaN."""
    q = inputs["q"]
    out = torch.full((*q.shape[:3], w.d_v), math.nan, device=q.device).to(out_dtype or q.dtype)
    lse = torch.full(q.shape[:3], math.nan, device=q.device)
    scale = LOG2E / math.sqrt(w.d)
    call = Call(q, inputs["k"], inputs["v"], out, lse, w.causal, w.window, scale, 1.0, w.dtype == "tf32")
    call.check()
    portable_launcher(call, config, descriptors)()
    return out.cpu(), lse.cpu()


@st.composite
def workloads(draw: st.DrawFn, dtypes: tuple[str, ...], head_dims: tuple[int, ...] = (16, 24, 32, 40)) -> Workload:
    """Small problems: ragged, n_kv != n_q either way, grouped heads, every mask, d_v != d."""
    kv_heads, group = draw(st.sampled_from([(1, 1), (2, 1), (1, 3), (2, 2)]))
    return Workload(
        batch=draw(st.integers(1, 2)),
        heads=kv_heads * group,
        kv_heads=kv_heads,
        n_q=draw(st.integers(1, 40)),
        n_kv=draw(st.integers(1, 48)),
        d=draw(st.sampled_from(head_dims)),
        d_v=draw(st.sampled_from(head_dims)),
        dtype=draw(st.sampled_from(dtypes)),
        causal=draw(st.booleans()),
        window=draw(st.none() | st.integers(1, 70)),
    )


CONFIGS = st.builds(
    KernelConfig,
    br=st.sampled_from([16, 32]),
    bc=st.sampled_from([16, 32]),
    pack_gqa=st.booleans(),
)
