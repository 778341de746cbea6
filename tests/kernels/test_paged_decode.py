"""Decoding over pages of any size, against float64 loops on the gathered cache. On a CPU it runs interpreted."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflinecli.kernels import KERNELS, KernelConfig
from rooflinecli.kernels.decode import decode
from rooflinecli.kernels.paged_decode import make_inputs, paged_decode

from rooflinecli.accounting import ALGORITHMS
from rooflinecli.errors import InputError
from rooflinecli.workload import Workload
from tests.kernels.decode_oracle import CAPABILITY, CONFIGS, assert_right, one_sequence, plain, run, workloads
from tests.kernels.flash_oracle import DEVICE


def dense_of(inputs: dict[str, Any]) -> dict[str, Any]:
    """The cache token by token, every page whole."""
    pages, _, size, _ = inputs["k"].shape
    table = inputs["table"].cpu()
    tokens = range(table.shape[1] * size)
    found = {"q": inputs["q"], "k_scale": inputs["k_scale"], "v_scale": inputs["v_scale"]}
    for name in "kv":
        at = torch.tensor([[int(row[t // size]) % pages * size + t % size for t in tokens] for row in table])
        flat = inputs[name].cpu().transpose(1, 2).flatten(0, 1)  # every token there is: (tokens, heads, columns)
        found[name] = flat.view(torch.uint8)[at].view(flat.dtype).transpose(1, 2).contiguous().to(DEVICE)
    return plain(found)


@settings(max_examples=25, deadline=None)
@given(
    workload=workloads(("fp32", "fp16", "bf16")) | workloads(("fp32", "bf16"), ("fp8_e4m3", "int8")),
    config=CONFIGS,
    page_size=st.sampled_from([1, 5, 16, 24, 64, 256]),
    seed=st.integers(0, 2**31),
    data=st.data(),
)
def test_output_is_the_formulas_for_any_page_size_and_length(
    workload: Workload, config: KernelConfig, page_size: int, seed: int, data: st.DataObject
) -> None:
    # GIVEN pages in any order, and sequences that end anywhere, NaN in what lies beyond their ends
    w = workload
    lengths = data.draw(st.lists(st.integers(1, w.n_kv), min_size=w.batch, max_size=w.batch))
    inputs = make_inputs(w, DEVICE, seed, page_size, torch.tensor(lengths, dtype=torch.int32, device=DEVICE))
    dense = dense_of(inputs)
    if w.kv_dtype != "int8":
        poison_ends(inputs, lengths)
    # WHEN the kernels run over a poisoned output
    out = run("paged_decode", inputs, w, config)
    # THEN each sequence is attended to its own length
    for index, length in enumerate(lengths):
        assert_right(out[index : index + 1], *one_sequence(dense, w, index, length))


def poison_ends(inputs: dict[str, Any], lengths: list[int]) -> None:
    """NaN in every slot past a sequence's end, page numbers out of range past its last page."""
    size, table = inputs["k"].shape[2], inputs["table"]
    for row, length in zip(table, lengths, strict=True):
        for t in range(length, len(row) * size):
            for name in "kv":
                page = inputs[name][int(row[t // size])]
                page[:, t % size] = torch.full_like(page[:, t % size], math.nan, dtype=torch.float32).to(page.dtype)
    for row, length in zip(table, lengths, strict=True):
        row[-(-length // size) :] = 2**30


def test_one_page_a_sequence_is_the_dense_kernel() -> None:
    # GIVEN caches whose only page is the whole sequence
    w = Workload(batch=2, heads=4, kv_heads=2, n_q=3, n_kv=50, d=16, dtype="fp16", causal=True, window=40)
    inputs = make_inputs(w, DEVICE, 3, page_size=50)
    order = inputs["table"][:, 0].long()
    config = KernelConfig(br=16, bc=16, splits=3, pack_gqa=True)
    # WHEN both kernels run with the same tiles, THEN they give the same bits
    out = paged_decode(*(inputs[name] for name in ("q", "k", "v", "table", "lengths")), causal=True, window=40,
                       config=config)  # fmt: skip
    k, v = inputs["k"][order].contiguous(), inputs["v"][order].contiguous()
    assert torch.equal(out, decode(inputs["q"], k, v, causal=True, window=40, config=config))


def test_the_spec_runs_the_kernels_and_its_ledger_knows_the_page_size() -> None:
    spec = KERNELS["paged_decode"]
    w = Workload(batch=2, heads=4, kv_heads=2, n_q=1, n_kv=70, d=16, dtype="fp16", kv_dtype="fp8_e4m3")
    assert spec.supports(w, CAPABILITY) is None
    config, inputs = spec.config(w, CAPABILITY), spec.make_inputs(w, DEVICE, 9)
    # WHEN a launch is prepared from the spec and run
    launch = spec.prepare(inputs, w, config)
    launch()
    # THEN the output is the reference's
    assert (launch.outputs["o"].double() - spec.reference(inputs, w)["o"]).abs().max() < 2e-3
    # AND the block table is counted with the pages that were made
    assert config.tile.page_size == inputs["k"].shape[2]
    assert ALGORITHMS["paged"].cost(w, config.tile).symbols["pages"] == inputs["table"].shape[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"table": torch.zeros(1, 2, dtype=torch.int64)}, "table .*int32"),
        ({"table": torch.zeros(2, 2, dtype=torch.int32)}, "table .*a row a sequence"),
        ({"table": torch.zeros(1, 4, dtype=torch.int32)[:, ::2]}, "table must be contiguous"),
        ({"lengths": torch.zeros(1, 1, dtype=torch.int32)}, "lengths"),
        ({"v": torch.zeros(3, 2, 4, 16)}, "shapes"),
    ],
)
def test_what_the_kernel_does_not_take_is_refused(change: dict[str, Any], message: str) -> None:
    call = {"q": torch.zeros(1, 2, 1, 16), "k": torch.zeros(3, 2, 8, 16), "v": torch.zeros(3, 2, 8, 16),
            "table": torch.zeros(1, 2, dtype=torch.int32), "lengths": torch.ones(1, dtype=torch.int32)}  # fmt: skip
    with pytest.raises(InputError, match=message):
        paged_decode(**{**call, **change})
