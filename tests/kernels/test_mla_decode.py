"""Absorbed latent attention, every option, against float64 loops. On a CPU it runs interpreted."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflinecli.kernels import KERNELS, KernelConfig
from rooflinecli.kernels.decode import decode
from rooflinecli.kernels.mla_decode import make_inputs, mla_decode

from rooflinecli.accounting import ALGORITHMS
from rooflinecli.errors import InputError
from rooflinecli.workload import Workload
from tests.kernels.decode_oracle import CAPABILITY, CONFIGS, assert_right, plain, run
from tests.kernels.flash_oracle import DEVICE, softmax_rows


@st.composite
def latents(draw: st.DrawFn) -> Workload:
    """One latent head, ragged lengths, latent and rotary parts that do and do not fill their blocks, every mask."""
    d_v = draw(st.sampled_from([16, 24, 64]))
    dtype, cached = draw(
        st.sampled_from(
            [(x, x) for x in ("fp32", "tf32", "fp16", "bf16")]
            + [("fp32", "fp8_e4m3"), ("bf16", "fp8_e4m3"), ("bf16", "int8"), ("fp16", "fp8_e5m2")]
        )
    )
    return Workload(
        batch=draw(st.integers(1, 2)),
        heads=draw(st.sampled_from([1, 3, 20])),
        kv_heads=1,
        n_q=draw(st.integers(1, 3)),
        n_kv=draw(st.integers(1, 80)),
        d=d_v + draw(st.sampled_from([8, 16, 20])),
        d_v=d_v,
        dtype=dtype,
        kv_dtype=cached,
        causal=draw(st.booleans()),
        window=draw(st.none() | st.integers(1, 60)),
    )


@settings(max_examples=30, deadline=None)
@given(workload=latents(), config=CONFIGS, seed=st.integers(0, 2**31))
def test_output_is_the_formulas(workload: Workload, config: KernelConfig, seed: int) -> None:
    # GIVEN a latent cache of any kind, and any tiles
    inputs = make_inputs(workload, DEVICE, seed)
    # WHEN the kernels run over a poisoned output, THEN it is the formula's
    assert_right(run("mla_decode", inputs, workload, config), plain(inputs), workload)


def test_it_is_decoding_with_the_latent_as_values() -> None:
    # GIVEN a latent cache, and a copy of its first columns as a V of its own
    w = Workload(batch=2, heads=5, kv_heads=1, n_q=2, n_kv=70, d=48, d_v=32, dtype="fp32", causal=True)
    inputs = make_inputs(w, DEVICE, 3)
    # WHEN both kernels attend with the scale of the heads before absorption
    out = mla_decode(inputs["q"], inputs["k"], 32, scale=0.3, causal=True)
    expected = decode(inputs["q"], inputs["k"], inputs["v"].contiguous(), scale=0.3, causal=True)
    # THEN they agree
    assert (out - expected).abs().max() < 1e-5


def test_the_function_takes_one_scale_for_the_whole_latent() -> None:
    w = Workload(heads=4, kv_heads=1, n_q=1, n_kv=33, d=24, d_v=16, dtype="fp32", kv_dtype="fp8_e4m3")
    inputs = make_inputs(w, DEVICE, 8)
    out = mla_decode(inputs["q"], inputs["k"], 16, latent_scale=inputs["k_scale"])
    o, _, _ = softmax_rows(plain(inputs), w)
    assert (out.cpu().double() - o).abs().max() < 1e-5


def test_the_spec_runs_the_kernels_at_the_size_of_deepseeks_models() -> None:
    # GIVEN the latent of DeepSeek-V2 and V3
    spec = KERNELS["mla_decode"]
    w = Workload(heads=16, kv_heads=1, n_q=1, n_kv=40, d=576, d_v=512, dtype="fp16")
    assert spec.supports(w, CAPABILITY) is None
    config, inputs = spec.config(w, CAPABILITY), spec.make_inputs(w, DEVICE, 9)
    assert inputs["v"].data_ptr() == inputs["k"].data_ptr()
    # WHEN a launch is prepared from the spec and run
    launch = spec.prepare(inputs, w, config)
    launch()
    # THEN the output is the reference's
    assert (launch.outputs["o"].double() - spec.reference(inputs, w)["o"]).abs().max() < 2e-3


@pytest.mark.parametrize("heads", [16, 128])
def test_the_cache_is_counted_once_a_tile_of_heads(heads: int) -> None:
    w = Workload(batch=16, heads=heads, kv_heads=1, n_q=1, n_kv=8192, d=576, d_v=512, dtype="bf16")
    config = KERNELS["mla_decode"].config(w, (9, 0))
    rows = [row for row in ALGORITHMS["mla"].cost(w, config.tile).ledger if row.level == "sm" and row.tensor == "K"]
    assert [row.bytes for row in rows] == [16 * -(-heads // config.br) * 8192 * 576 * 2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"latent": torch.zeros(1, 2, 8, 24)}, "latent"),
        ({"d_v": 24}, "d_v 24"),
        ({"q": torch.zeros(1, 2, 1, 16)}, "shapes"),
        ({"latent_scale": torch.ones(2)}, "k_scale"),
    ],
)
def test_what_the_kernel_does_not_take_is_refused(change: dict[str, Any], message: str) -> None:
    call = {"q": torch.zeros(1, 2, 1, 24), "latent": torch.zeros(1, 1, 8, 24), "d_v": 16}
    with pytest.raises(InputError, match=message):
        mla_decode(**{**call, **change})


def test_spec_says_what_it_cannot_do() -> None:
    spec = KERNELS["mla_decode"]
    latent = {"heads": 4, "kv_heads": 1, "n_q": 1, "n_kv": 64, "dtype": "bf16"}
    assert "one head" in str(spec.supports(Workload(n_q=1, d=128), (9, 0)))
    assert "512" in str(spec.supports(Workload(**latent, d=1088, d_v=1024), (9, 0)))
    assert "no decode" in str(spec.supports(Workload(**{**latent, "n_q": 64}, d=576, d_v=512), (9, 0)))
    assert "8.9" in str(spec.supports(Workload(**latent, d=576, d_v=512, kv_dtype="fp8_e4m3"), (8, 0)))
