"""The three kernels of naive attention, every option, against float64 loops. On a CPU they run interpreted."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflinecli.kernels import KERNELS, KernelConfig
from rooflinecli.kernels.flash_inputs import make_qkv, torch_dtype
from rooflinecli.kernels.naive import naive

from rooflinecli.errors import InputError
from rooflinecli.workload import Workload
from tests.kernels.flash_oracle import DEVICE, mask_of, softmax_rows, workloads

CONFIGS = st.builds(
    KernelConfig, br=st.sampled_from([16, 32]), bc=st.sampled_from([16, 32]), splits=st.integers(1, 3)
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(
    workload=workloads(("fp32", "tf32", "fp16", "bf16")),
    config=CONFIGS,
    seed=st.integers(0, 2**31),
    wide=st.booleans(),
)
def test_output_and_what_is_materialised_equal_the_formula(
    workload: Workload, config: KernelConfig, seed: int, wide: bool
) -> None:
    # GIVEN any small problem, S and P in its dtype or in fp32
    w = replace(workload, s_dtype="fp32") if wide else workload
    inputs = make_qkv(w, DEVICE, seed)
    # WHEN the kernels run over poisoned outputs
    launch = KERNELS["naive"].prepare(inputs, w, config)
    assert all(torch.isnan(tensor).all() for tensor in launch.outputs.values())
    launch()
    got, s, p = (launch.outputs[name].cpu() for name in "osp")
    # THEN S and P lie in memory whole, in the format asked for, a mask or not
    assert s.dtype == p.dtype == torch_dtype(w.s_dtype)
    assert torch.isfinite(s).all()
    assert torch.isfinite(p).all()
    q, k, v = (inputs[name].double().cpu() for name in "qkv")
    scores = q @ k.repeat_interleave(w.group, 1).mT / math.sqrt(w.d)
    seen = mask_of(w)
    ulp = {"fp16": 2**-10, "bf16": 2**-7}.get(w.s_dtype, 4e-7 if DEVICE == "cpu" or w.dtype == "fp32" else 2e-3)
    assert (s[..., : w.n_kv].double() - scores).abs().max() <= ulp * max(1.0, float(scores.abs().max()))
    assert torch.all(p[..., : w.n_kv][..., ~seen] == 0)
    assert torch.all(p[..., w.n_kv :] == 0)
    # AND O is the formula's: to 1e-6 in fp32, else it errs at most twice what torch's own three steps err
    o, _, _ = softmax_rows(inputs, w)
    assert torch.isfinite(got).all()
    if w.dtype in ("fp32", "tf32"):
        tolerance = 1e-6 if DEVICE == "cpu" or w.dtype == "fp32" else 2e-3
        assert (got.double() - o).abs().max() <= tolerance * max(1.0, float(v.abs().max()))
        return
    q, k, v = (inputs[name].cpu() for name in "qkv")
    k, v = (x.repeat_interleave(w.group, 1) for x in (k, v))
    kept = (q @ k.mT / math.sqrt(w.d)).masked_fill(~seen, -math.inf)
    torchs = kept.softmax(-1).nan_to_num(0.0) @ v
    # Small problems: torch's own error may be luckily small, so three roundings of S, P and O are always allowed.
    allowed = 2 * (torchs.double() - o).norm() + 3 * (2**-10 if w.dtype == "fp16" else 2**-8) * o.norm()
    assert (got.double() - o).norm() <= allowed
    if w.dtype == "fp16":
        assert (got.double() - o).abs().max() <= 2e-3 * max(1.0, float(v.abs().max()))


def test_the_function_allocates_what_it_needs() -> None:
    # GIVEN a causal problem whose first queries see nothing
    w = Workload(batch=2, heads=4, kv_heads=2, n_q=37, n_kv=21, d=24, d_v=16, dtype="fp32", causal=True)
    inputs = make_qkv(w, DEVICE, 7)
    # WHEN the function chooses its tiles, and half of the scale is in the queries
    out = naive(inputs["q"] * 2, inputs["k"], inputs["v"], causal=True, scale=0.5 / math.sqrt(24))
    # THEN O is the formula's, and blind queries give 0
    o, lse, _ = softmax_rows(inputs, w)
    assert (out.cpu().double() - o).abs().max() < 2e-6
    assert torch.all(out.cpu()[torch.isinf(lse)] == 0)


@pytest.mark.parametrize(("heads", "n"), [(1, 512), (32, 4096), (4, 16384), (256, 64)])
@pytest.mark.parametrize("dtype", ["fp16", "fp32", "tf32"])
def test_every_multiprocessor_gets_a_tile_where_there_are_enough(heads: int, n: int, dtype: str) -> None:
    config = KERNELS["naive"].config(Workload(heads=heads, n_q=n, d=128, dtype=dtype), (9, 0))
    assert 1 <= config.splits <= -(-n // config.bc)
    assert config.br == 128 or heads * -(-n // 128) < 132 or dtype == "fp32"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"window": 0}, "window"),
        ({"k": torch.zeros(1, 3, 8, 16)}, "K/V heads|shapes"),
        ({"v": torch.zeros(1, 2, 16, 8).mT}, "v must be contiguous"),
        ({name: torch.zeros(1, 2, 8, 16).to(torch.float8_e5m2) for name in "qkv"}, "fp16"),
    ],
)
def test_what_the_kernels_do_not_take_is_refused(change: dict[str, object], message: str) -> None:
    call = {"q": torch.zeros(1, 2, 8, 16), "k": torch.zeros(1, 2, 8, 16), "v": torch.zeros(1, 2, 8, 16)}
    with pytest.raises(InputError, match=message):
        naive(**{**call, **change})  # type: ignore[arg-type]


def test_spec_says_what_it_cannot_do() -> None:
    spec = KERNELS["naive"]
    assert "32768" in str(spec.supports(Workload(n_q=65536, d=64), (9, 0)))
    assert "256" in str(spec.supports(Workload(n_q=8, d=512), (9, 0)))
    assert "K and V" in str(spec.supports(Workload(n_q=8, d=64, kv_dtype="int8"), (9, 0)))
    assert "kept" in str(spec.supports(Workload(n_q=8, d=64, s_dtype="int8"), (9, 0)))
    assert "fp8" in str(spec.supports(Workload(n_q=8, d=64, dtype="fp8_e4m3"), (9, 0)))
    assert spec.supports(Workload(n_q=4096, d=128), (9, 0)) is None
