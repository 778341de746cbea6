"""The flash backward kernels against float64 autograd. On a CPU they run interpreted."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflinecli.kernels import KERNELS, KernelConfig
from rooflinecli.kernels.flash_backward import Gradients, flash_backward, launcher
from rooflinecli.kernels.flash_inputs import attention, gradients, make_qkv

from rooflinecli.errors import InputError
from rooflinecli.workload import Workload
from tests.kernels.flash_oracle import DEVICE, mask_of, workloads

CONFIGS = st.builds(KernelConfig, br=st.sampled_from([16, 32]), bc=st.sampled_from([16, 32]))


def expected_gradients(inputs: dict[str, torch.Tensor], do: torch.Tensor, w: Workload) -> list[torch.Tensor]:
    """dQ, dK, dV from autograd of exp, sums and products over the pairs a loop found visible."""
    q, k, v = (inputs[name].double().cpu().requires_grad_() for name in "qkv")
    wide_k, wide_v = (x.repeat_interleave(w.group, 1) for x in (k, v))
    weights = torch.exp(q @ wide_k.mT / math.sqrt(w.d)) * mask_of(w)
    total = weights.sum(-1, keepdim=True)
    o = (weights / torch.where(total > 0, total, 1.0)) @ wide_v
    return list(torch.autograd.grad(o, (q, k, v), do.double().cpu()))


@settings(max_examples=20, deadline=None)
@given(workload=workloads(("fp32", "fp16")), config=CONFIGS, seed=st.integers(0, 2**31))
def test_gradients_equal_the_formula(workload: Workload, config: KernelConfig, seed: int) -> None:
    # GIVEN any small problem, its forward result and a gradient of O
    w, inputs = workload, make_qkv(workload, DEVICE, seed)
    o, lse = attention(**inputs, causal=w.causal, window=w.window)
    do = torch.randn(o.shape, generator=torch.Generator(DEVICE).manual_seed(seed), device=DEVICE).to(inputs["q"].dtype)
    # WHEN the kernels run twice over poisoned outputs (the second run must not add to the first)
    held = Gradients.of(*inputs.values(), o.to(do.dtype), lse.float(), do)
    launch = launcher(held, w.causal, w.window, config=config)
    launch()
    launch()
    # THEN each gradient is the formula's, in the scale of its largest element
    for got, expected in zip((held.dq, held.dk, held.dv), expected_gradients(inputs, do, w), strict=True):
        scale = max(1.0, float(expected.abs().max()))
        assert (got.double().cpu() - expected).abs().max() <= (2e-6 if w.dtype == "fp32" else 1.5e-3) * scale


def test_the_spec_runs_the_kernels_on_bf16() -> None:
    # GIVEN what measurement knows of the kernel: its spec, whose inputs come from the forward kernel
    spec, capability = KERNELS["flash_backward"], None if DEVICE == "cpu" else torch.cuda.get_device_capability()
    workload = Workload(heads=4, kv_heads=2, n_q=40, n_kv=53, d=16, dtype="bf16", causal=True)
    # WHEN a launch is prepared from it and run
    assert spec.supports(workload, capability) is None
    inputs = spec.make_inputs(workload, DEVICE, 1)
    launch = spec.prepare(inputs, workload, spec.config(workload, capability))
    launch()
    # THEN its three kernels left what the reference says
    assert launch.kernels == ("flash_backward_delta", "flash_backward_main", "flash_backward_convert")
    expected = spec.reference(inputs, workload)
    assert expected.keys() == launch.outputs.keys()
    for name, gradient in launch.outputs.items():
        assert (gradient.double() - expected[name]).norm() < 1e-2 * expected[name].norm()


def test_the_reference_is_autograd_of_torchs_attention() -> None:
    # GIVEN a causal problem torch's own attention computes in float64
    inputs = make_qkv(Workload(heads=2, n_q=21, d=16, dtype="fp32", causal=True), "cpu", 3)
    do = torch.randn(1, 2, 21, 16, dtype=torch.float64)
    # WHEN the package's reference differentiates its formula
    got = gradients(*inputs.values(), do, causal=True)
    # THEN they agree
    leaves = [x.double().requires_grad_() for x in inputs.values()]
    expected = torch.autograd.grad(
        torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=True), leaves, do
    )
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(got, expected, strict=True))


def test_what_the_kernels_do_not_take_is_refused() -> None:
    good = torch.zeros(1, 2, 8, 16)
    lse = torch.zeros(1, 2, 8)
    with pytest.raises(InputError, match="q must be contiguous"):
        flash_backward(torch.zeros(1, 2, 16, 8).mT, good, good, good, lse, good)
    with pytest.raises(InputError, match="shapes do not fit"):
        flash_backward(good, good, good, good, torch.zeros(1, 2, 9), good)
    eight_bit = good.to(torch.float8_e4m3fn)
    with pytest.raises(InputError, match="fp32, fp16 and bf16"):
        flash_backward(eight_bit, eight_bit, eight_bit, eight_bit, lse, eight_bit)
