"""The decoding kernels on a GPU: dtypes, caches, head dims, masks and lengths, through their specs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from rooflinecli.kernels import KERNELS
from rooflinecli.kernels.paged_decode import make_inputs as paged_inputs

from rooflinecli.workload import Workload
from tests.kernels.test_flash_gpu import outputs_of

pytestmark = pytest.mark.gpu
SHAPES: list[dict[str, Any]] = [
    {"n_q": 1, "n_kv": 8192, "d": 128, "heads": 32, "kv_heads": 8, "batch": 2},
    {"n_q": 1, "n_kv": 333, "d": 64, "heads": 4, "kv_heads": 4},
    {"n_q": 5, "n_kv": 1000, "d": 128, "heads": 16, "kv_heads": 2, "causal": True},
    {"n_q": 3, "n_kv": 777, "d": 96, "heads": 6, "kv_heads": 2, "causal": True, "window": 200},
    {"n_q": 2, "n_kv": 500, "d": 256, "heads": 2, "kv_heads": 1},
    {"n_q": 1, "n_kv": 513, "d": 80, "d_v": 64, "heads": 64, "kv_heads": 1},
    {"n_q": 4, "n_kv": 1, "d": 128, "heads": 4, "kv_heads": 2, "causal": True},
]
# Of one element, with normal inputs.
TOLERANCE = {"fp32": 5e-6, "tf32": 4e-3, "fp16": 2e-3, "bf16": 1.6e-2}
DTYPES = [(dtype, dtype) for dtype in TOLERANCE] + [
    (dtype, cache) for dtype in ("fp16", "bf16") for cache in ("fp8_e4m3", "fp8_e5m2", "int8")
]


def is_right_and_repeats(name: str, workload: Workload) -> None:
    got, expected, launch = outputs_of(name, workload)
    first = got["o"].clone()
    assert (first.double() - expected["o"]).abs().max() < TOLERANCE[workload.dtype]
    for _ in range(30):
        launch()
    assert torch.equal(first.view(torch.uint8), launch.outputs["o"].view(torch.uint8))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("dtype", "cache"), DTYPES)
def test_decode_is_right_and_every_repeat_is_bit_identical(dtype: str, cache: str, shape: dict[str, Any]) -> None:
    is_right_and_repeats("decode", Workload(dtype=dtype, kv_dtype=cache, **shape))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("dtype", "cache"), DTYPES)
def test_paged_decode_is_right_and_every_repeat_is_bit_identical(dtype: str, cache: str, shape: dict[str, Any]) -> None:
    is_right_and_repeats("paged_decode", Workload(dtype=dtype, kv_dtype=cache, **shape))


@pytest.mark.parametrize("page_size", [1, 16, 24, 64, 256])
def test_pages_of_any_size_and_sequences_of_any_length(page_size: int) -> None:
    # GIVEN sequences of many lengths, in pages that lie in any order
    w = Workload(batch=4, heads=32, kv_heads=8, n_q=2, n_kv=5000, d=128, dtype="bf16", causal=True)
    lengths = torch.tensor([5000, 1, 2, 1733], dtype=torch.int32, device="cuda")
    spec = KERNELS["paged_decode"]
    inputs = paged_inputs(w, "cuda", 5, page_size, lengths)
    launch = spec.prepare(inputs, w, spec.config(w, torch.cuda.get_device_capability()))
    launch()
    # THEN each is attended to its own end
    assert (launch.outputs["o"].double() - spec.reference(inputs, w)["o"]).abs().max() < TOLERANCE["bf16"]


@pytest.mark.parametrize("heads", [16, 32, 128])
@pytest.mark.parametrize(("dtype", "cache"), DTYPES)
def test_mla_decode_is_right_and_every_repeat_is_bit_identical(dtype: str, cache: str, heads: int) -> None:
    for options in ({"n_q": 1, "n_kv": 4097, "batch": 2}, {"n_q": 3, "n_kv": 200, "causal": True}):
        w = Workload(heads=heads, kv_heads=1, d=576, d_v=512, dtype=dtype, kv_dtype=cache, **options)
        is_right_and_repeats("mla_decode", w)


def test_a_long_cache_agrees_with_torch() -> None:
    # GIVEN a cache whose offsets pass 2^31 elements
    w = Workload(batch=4, heads=32, kv_heads=8, n_q=1, n_kv=2**19 + 5, d=128, dtype="fp16")
    spec = KERNELS["decode"]
    inputs = spec.make_inputs(w, "cuda", 3)
    launch = spec.prepare(inputs, w, spec.config(w, torch.cuda.get_device_capability()))
    # WHEN the kernel and torch compute it
    launch()
    q, k, v = (inputs[name] for name in "qkv")
    torchs = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    # THEN they differ by rounding only
    assert (launch.outputs["o"] - torchs).abs().max() < 1e-3
