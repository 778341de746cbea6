"""The portable flash forward kernel, every option, against float64 loops. On a CPU it runs interpreted."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflinecli.kernels import KERNELS, KernelConfig
from rooflinecli.kernels.flash_forward import flash_forward
from rooflinecli.kernels.flash_inputs import attention, make_qkv

from rooflinecli.errors import InputError
from rooflinecli.workload import Workload
from tests.kernels.flash_oracle import CONFIGS, DEVICE, mask_of, run_forward, softmax_rows, workloads

SEEDS = st.integers(0, 2**31)


@settings(max_examples=50, deadline=None)
@given(workload=workloads(("fp32", "tf32", "fp16")), config=CONFIGS, seed=SEEDS)
def test_output_and_log_sum_exp_equal_the_formula(workload: Workload, config: KernelConfig, seed: int) -> None:
    # GIVEN any small problem and any tiles
    inputs = make_qkv(workload, DEVICE, seed)
    # WHEN the kernel runs over poisoned outputs
    out, lse = run_forward(inputs, workload, config)
    # THEN every element is the formula's, and queries that see nothing say so
    o, expected_lse, _ = softmax_rows(inputs, workload)
    tolerance = 1e-6 if workload.dtype != "fp16" else 1e-3
    if DEVICE == "cuda" and workload.dtype == "tf32":
        tolerance = 2e-3
    assert torch.isfinite(out).all()
    assert (out.double() - o).abs().max() <= tolerance * max(1.0, float(inputs["v"].abs().max()))
    blind = torch.isinf(expected_lse)
    assert torch.equal(torch.isneginf(lse), blind)
    assert torch.all(out[blind] == 0)
    if not blind.all():
        assert (lse.double() - expected_lse)[~blind].abs().max() < (1e-5 if tolerance < 2e-3 else 1e-2)


@settings(max_examples=10, deadline=None)
@given(workload=workloads(("bf16",)), config=CONFIGS, seed=SEEDS)
def test_bf16_errs_no_more_than_twice_what_torch_errs(workload: Workload, config: KernelConfig, seed: int) -> None:
    # GIVEN bf16 inputs
    inputs = make_qkv(workload, DEVICE, seed)
    # WHEN the kernel and torch's own bf16 softmax and matrix products compute the same attention
    out, _ = run_forward(inputs, workload, config)
    q, k, v = (inputs[name].cpu() for name in "qkv")
    k, v = (x.repeat_interleave(workload.group, 1) for x in (k, v))
    seen = mask_of(workload)
    scores = (q @ k.mT / math.sqrt(workload.d)).masked_fill(~seen, -math.inf)
    torchs = scores.softmax(-1).nan_to_num(0.0) @ v
    # THEN the kernel's error is at most twice torch's; what both err by rounding O alone is let be
    o, _, _ = softmax_rows(inputs, workload)
    error, allowed = (out.double() - o).norm(), 2 * (torchs.double() - o).norm()
    assert error <= allowed + 2**-9 * o.norm()


@settings(max_examples=12, deadline=None)
@given(workload=workloads(("fp8_e4m3", "fp8_e5m2"), head_dims=(16, 32)), config=CONFIGS, seed=SEEDS)
def test_8_bit_inputs_err_only_by_the_rounding_of_the_weights(
    workload: Workload, config: KernelConfig, seed: int
) -> None:
    # GIVEN 8-bit inputs and an fp32 output, so that rounding the weights is all there is
    inputs = make_qkv(workload, DEVICE, seed)
    # WHEN the kernel runs
    out, lse = run_forward(inputs, workload, config, out_dtype=torch.float32)
    # THEN each weight is off by half a unit in its last place, and O by no more than that in each term. Triton's
    # interpreter drops the carry where rounding up fills the mantissa: there a weight may come out halved.
    o, expected_lse, spread = softmax_rows(inputs, workload)
    half_unit = 2**-4 if workload.dtype == "fp8_e4m3" else 2**-3
    assert torch.all((out.double() - o).abs() <= (0.5 if DEVICE == "cpu" else half_unit) * spread * 1.01 + 2e-3)
    # AND the log-sum-exp, which no weight is rounded for, is exact
    assert torch.allclose(lse.double(), expected_lse, atol=1e-5 if DEVICE == "cpu" else 2e-3)


def test_scales_of_8_bit_inputs_multiply_what_they_belong_to() -> None:
    # GIVEN 8-bit tensors that stand for x * scale
    workload = Workload(heads=2, n_q=20, n_kv=32, d=16, dtype="fp8_e4m3")
    inputs = make_qkv(workload, DEVICE, 5)
    out = torch.full((1, 2, 20, 16), math.nan, device=DEVICE)
    # WHEN the scales are given
    flash_forward(**inputs, q_scale=0.5, k_scale=3.0, v_scale=7.0, out=out)
    # THEN O is the attention of the scaled tensors
    o, _ = attention(inputs["q"].double() * 0.5, inputs["k"].double() * 3.0, inputs["v"].double() * 7.0)
    assert (out.cpu().double() - o.cpu()).abs().max() < 7 * 0.3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"window": 0}, "window"),
        ({"k": torch.zeros(1, 3, 8, 16)}, "K/V heads|shapes"),
        ({"v": torch.zeros(1, 2, 9, 16)}, "shapes do not fit"),
        ({"q": torch.zeros(1, 2, 16, 8).mT}, "contiguous"),
        ({"v": torch.zeros(1, 8, 2, 16).transpose(1, 2)}, "v must be contiguous"),
        ({"out": torch.zeros(1, 2, 8, 24)}, "out"),
    ],
)
def test_what_the_kernel_does_not_take_is_refused(change: dict[str, object], message: str) -> None:
    # GIVEN a good call
    call = {"q": torch.zeros(1, 2, 8, 16), "k": torch.zeros(1, 2, 8, 16), "v": torch.zeros(1, 2, 8, 16)}
    # WHEN one thing in it is wrong, THEN it is named
    with pytest.raises(InputError, match=message):
        flash_forward(**{**call, **change})  # type: ignore[arg-type]


def test_the_reference_is_torchs_attention() -> None:
    # GIVEN a causal problem torch's own attention computes in float64
    inputs = make_qkv(Workload(batch=2, heads=3, n_q=33, d=16, dtype="fp32", causal=True), "cpu", 3)
    # WHEN the package's reference computes it
    o, _ = attention(**inputs, causal=True)
    # THEN they agree
    q, k, v = (inputs[name].double() for name in "qkv")
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.allclose(o, expected, atol=1e-12)


def test_the_spec_runs_the_kernel() -> None:
    # GIVEN what measurement knows of the kernel: its spec
    spec = KERNELS["flash_forward"]
    workload = Workload(heads=4, kv_heads=2, n_q=3, n_kv=40, d=16, dtype="fp16", causal=True)
    capability = None if DEVICE == "cpu" else torch.cuda.get_device_capability()
    # WHEN a launch is prepared from it and run
    assert spec.supports(workload, capability) is None
    config = spec.config(workload, capability)
    inputs = spec.make_inputs(workload, DEVICE, 9)
    launch = spec.prepare(inputs, workload, config)
    assert torch.isnan(launch.outputs["o"]).all()
    launch()
    # THEN few queries share a tile with their group, and the output is the reference's
    assert config.pack_gqa
    assert (launch.outputs["o"].double() - spec.reference(inputs, workload)["o"]).abs().max() < 4e-3


def test_spec_says_what_it_cannot_do() -> None:
    spec = KERNELS["flash_forward"]
    assert "256" in str(spec.supports(Workload(n_q=8, d=512), None))
    assert "8.9" in str(spec.supports(Workload(n_q=8, d=64, dtype="fp8_e4m3"), (8, 0)))
    assert "K and V" in str(spec.supports(Workload(n_q=8, d=64, kv_dtype="int8"), (9, 0)))
    assert "fp64" in str(spec.supports(Workload(n_q=8, d=64, dtype="fp64"), (9, 0)))
