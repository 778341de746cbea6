"""What the decoding kernels should compute, and how far torch's own low-precision path is from it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st
from rooflinecli.kernels import KERNELS, KernelConfig
from rooflinecli.kernels.decode_inputs import widened

from rooflinecli.workload import Workload
from tests.kernels.flash_oracle import DEVICE, mask_of, softmax_rows

CAPABILITY = None if DEVICE == "cpu" else torch.cuda.get_device_capability()
CONFIGS = st.builds(
    KernelConfig,
    br=st.sampled_from([16, 32]),
    bc=st.sampled_from([16, 32]),
    splits=st.integers(1, 5),
    pack_gqa=st.just(True),
)


@st.composite
def workloads(draw: st.DrawFn, dtypes: tuple[str, ...], caches: tuple[str, ...] = ()) -> Workload:
    """Few queries, ragged caches, grouped heads, every mask, d_v != d, caches in the queries' dtype or in `caches`."""
    kv_heads, group = draw(st.sampled_from([(1, 1), (2, 1), (1, 3), (2, 4)]))
    return Workload(
        batch=draw(st.integers(1, 2)),
        heads=kv_heads * group,
        kv_heads=kv_heads,
        n_q=draw(st.integers(1, 9)),
        n_kv=draw(st.integers(1, 90)),
        d=draw(st.sampled_from([16, 24, 32])),
        d_v=draw(st.sampled_from([16, 40, 32])),
        dtype=draw(st.sampled_from(dtypes)),
        kv_dtype=draw(st.sampled_from(caches)) if caches else None,  # type: ignore[arg-type]
        causal=draw(st.booleans()),
        window=draw(st.none() | st.integers(1, 60)),
    )


def run(name: str, inputs: dict[str, Any], w: Workload, config: KernelConfig) -> torch.Tensor:
    """O of a launch that its spec prepares over NaN."""
    launch = KERNELS[name].prepare(inputs, w, config)
    assert torch.isnan(launch.outputs["o"]).all()
    launch()
    return launch.outputs["o"].cpu()


def plain(inputs: dict[str, Any]) -> dict[str, Any]:
    """A dense cache as the numbers it stands for, in float64 on the CPU."""
    k, v = (widened(inputs[name], inputs[f"{name}_scale"]).cpu() for name in "kv")
    return {"q": inputs["q"].cpu(), "k": k, "v": v}


def assert_right(out: torch.Tensor, dense: dict[str, Any], w: Workload) -> None:
    """`out` is the formula's: to 1e-6 and 1e-3 of the values in fp32 and fp16, else twice what torch errs at most."""
    o, lse, _ = softmax_rows(dense, w)
    assert torch.isfinite(out).all()
    assert torch.all(out[torch.isinf(lse)] == 0)
    if w.kv_dtype == w.dtype and w.dtype in ("fp32", "tf32", "fp16"):
        tolerance = 1e-3 if w.dtype == "fp16" else 1e-6 if DEVICE == "cpu" or w.dtype == "fp32" else 2e-3
        assert (out.double() - o).abs().max() <= tolerance * max(1.0, float(dense["v"].abs().max()))
        return
    error, allowed = (out.double() - o).norm(), 2 * (torchs(dense, w).double() - o).norm()
    # Small problems: torch's own error may be luckily small, so roundings of P and O are always allowed.
    rounding = {"fp16": 2**-11, "bf16": 2**-8}.get(w.dtype, 2**-22)
    assert error <= allowed + 2 * rounding * o.norm()


def torchs(dense: dict[str, Any], w: Workload) -> torch.Tensor:
    """The same attention by torch's matrix products and softmax, in the queries' dtype."""
    q = dense["q"]
    k, v = (dense[name].to(q.dtype).repeat_interleave(w.group, 1) for name in "kv")
    scores = (q @ k.mT / math.sqrt(w.d)).masked_fill(~mask_of(w), -math.inf)
    return scores.softmax(-1).nan_to_num(0.0) @ v


def one_sequence(dense: dict[str, Any], w: Workload, index: int, length: int) -> tuple[dict[str, Any], Workload]:
    """Sequence `index` of a batch, cut to its `length` keys."""
    cut = {"q": dense["q"][index : index + 1]}
    cut |= {name: dense[name][index : index + 1, :, :length] for name in "kv"}
    return cut, replace(w, batch=1, n_kv=length)
