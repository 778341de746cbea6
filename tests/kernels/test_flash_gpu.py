"""The flash kernels on a GPU: the grid of dtypes, head dims, masks and shapes, through their specs."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from rooflinecli.kernels import KERNELS

from rooflinecli.workload import Workload

pytestmark = pytest.mark.gpu
SHAPES: list[dict[str, Any]] = [
    {"n_q": 512, "d": 64},
    {"n_q": 300, "d": 128, "heads": 2},
    {"n_q": 200, "n_kv": 777, "d": 64, "heads": 4, "kv_heads": 2},
    {"n_q": 700, "n_kv": 333, "d": 128},
    {"n_q": 333, "d": 96},
    {"n_q": 257, "d": 80, "d_v": 64},
    {"n_q": 400, "d": 256},
    {"n_q": 129, "d": 16},
    {"n_q": 3, "n_kv": 555, "d": 128, "heads": 8, "kv_heads": 2},
    {"n_q": 130, "d": 192, "d_v": 128},
]
MASKS: list[dict[str, Any]] = [{}, {"causal": True}, {"causal": True, "window": 100}, {"window": 37}]
EIGHT_BIT = [
    {"n_q": 512, "d": 128},
    {"n_q": 300, "n_kv": 400, "d": 64, "heads": 4, "kv_heads": 2},
    {"n_q": 256, "d": 256},
]
# Of one element, with normal inputs; 8-bit outputs are rounded to 3 and 2 bits of mantissa.
TOLERANCE = {"fp32": 5e-6, "tf32": 4e-3, "fp16": 2e-3, "bf16": 1.6e-2, "fp8_e4m3": 0.3, "fp8_e5m2": 0.6}


def outputs_of(name: str, workload: Workload) -> tuple[dict[str, Any], dict[str, Any], Any]:
    spec, capability = KERNELS[name], torch.cuda.get_device_capability()
    assert spec.supports(workload, capability) is None
    inputs = spec.make_inputs(workload, "cuda", 11)
    launch = spec.prepare(inputs, workload, spec.config(workload, capability))
    launch()
    torch.cuda.synchronize()
    return dict(launch.outputs), spec.reference(inputs, workload), launch


@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [(dtype, shape) for dtype in ("fp16", "bf16") for shape in SHAPES]
    + [(dtype, shape) for dtype in ("fp8_e4m3", "fp8_e5m2") for shape in EIGHT_BIT]
    + [(dtype, shape) for dtype in ("fp32", "tf32") for shape in (SHAPES[0], SHAPES[2], SHAPES[6])],
    ids=str,
)
def test_forward_is_right_and_every_repeat_is_bit_identical(
    dtype: str, shape: dict[str, Any], mask: dict[str, Any]
) -> None:
    # GIVEN a workload and a launch over poisoned outputs
    got, expected, launch = outputs_of("flash_forward", Workload(dtype=dtype, **shape, **mask))
    first = got["o"].clone()
    # THEN it is the float64 result, and thirty repeats are the same bits
    assert (first.double() - expected["o"]).abs().max() < TOLERANCE[dtype]
    for _ in range(30):
        launch()
    assert torch.equal(first.view(torch.uint8), launch.outputs["o"].view(torch.uint8))


@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape["n_q"] >= 100], ids=str)
@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32"])
def test_backward_is_right(dtype: str, shape: dict[str, Any], mask: dict[str, Any]) -> None:
    # GIVEN a workload and a launch over poisoned outputs
    got, expected, _ = outputs_of("flash_backward", Workload(dtype=dtype, **shape, **mask))
    # THEN each gradient is the float64 one, in the scale of its largest element
    for name, gradient in got.items():
        scale = max(1.0, float(expected[name].abs().max()))
        assert (gradient.double() - expected[name]).abs().max() < TOLERANCE[dtype] * scale, name


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128])
def test_long_sequences_agree_with_torch(d: int, causal: bool) -> None:
    # GIVEN 64k tokens, where offsets pass 2^31 bytes and no float64 reference fits
    w = Workload(heads=4, n_q=65536, d=d, dtype="fp16", causal=causal)
    spec = KERNELS["flash_forward"]
    inputs = spec.make_inputs(w, "cuda", 3)
    launch = spec.prepare(inputs, w, spec.config(w, torch.cuda.get_device_capability()))
    # WHEN the kernel and torch compute it
    launch()
    torchs = torch.nn.functional.scaled_dot_product_attention(inputs["q"], inputs["k"], inputs["v"], is_causal=causal)
    # THEN they differ by rounding only
    assert (launch.outputs["o"] - torchs).abs().max() < 4e-3
    assert math.isfinite(float(launch.outputs["o"].float().sum()))
