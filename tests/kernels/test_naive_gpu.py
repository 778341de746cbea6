"""The three kernels of naive attention on a GPU: dtypes, head dims, masks and shapes, through their spec."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from rooflinecli.workload import Workload
from tests.kernels.test_flash_gpu import MASKS, SHAPES, outputs_of

pytestmark = pytest.mark.gpu
# Of one element, with normal inputs: S and P are rounded to the format too.
TOLERANCE = {"fp32": 5e-6, "tf32": 4e-3, "fp16": 4e-3, "bf16": 3.2e-2}


@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_naive_is_right_and_every_repeat_is_bit_identical(
    dtype: str, shape: dict[str, Any], mask: dict[str, Any]
) -> None:
    # GIVEN a workload and a launch over poisoned outputs
    got, expected, launch = outputs_of("naive", Workload(dtype=dtype, **shape, **mask))
    first = got["o"].clone()
    # THEN it is the float64 result, and thirty repeats are the same bits
    assert (first.double() - expected["o"]).abs().max() < TOLERANCE[dtype]
    for _ in range(30):
        launch()
    assert torch.equal(first.view(torch.uint8), launch.outputs["o"].view(torch.uint8))


def test_rows_as_long_as_the_softmax_takes() -> None:
    got, expected, _ = outputs_of("naive", Workload(n_q=64, n_kv=32768, d=128, dtype="fp16", causal=True))
    assert (got["o"].double() - expected["o"]).abs().max() < TOLERANCE["fp16"]
