"""Split-KV decoding, every option, against float64 loops. On a CPU it runs interpreted."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflinecli.kernels import KERNELS, KernelConfig
from rooflinecli.kernels.decode import decode
from rooflinecli.kernels.decode_choice import splits_for
from rooflinecli.kernels.decode_inputs import make_decode

from rooflinecli.accounting import ALGORITHMS
from rooflinecli.errors import InputError
from rooflinecli.workload import Workload
from tests.kernels.decode_oracle import CAPABILITY, CONFIGS, assert_right, plain, run, workloads
from tests.kernels.flash_oracle import DEVICE, softmax_rows

SEEDS = st.integers(0, 2**31)


@settings(max_examples=25, deadline=None)
@given(workload=workloads(("fp32", "tf32", "fp16", "bf16")), config=CONFIGS, seed=SEEDS)
def test_output_is_the_formulas_for_any_split(workload: Workload, config: KernelConfig, seed: int) -> None:
    # GIVEN any small problem, any tiles and any number of splits, some of them empty
    inputs = make_decode(workload, DEVICE, seed)
    # WHEN the kernels run over a poisoned output, THEN it is the formula's
    assert_right(run("decode", inputs, workload, config), plain(inputs), workload)


@settings(max_examples=15, deadline=None)
@given(
    workload=workloads(("fp32", "fp16", "bf16"), ("fp8_e4m3", "fp8_e5m2", "int8")), config=CONFIGS, seed=SEEDS
)  # fmt: skip
def test_8_bit_caches_err_no_more_than_twice_what_torch_errs(
    workload: Workload, config: KernelConfig, seed: int
) -> None:
    # GIVEN a quantised cache with a scale a head
    inputs = make_decode(workload, DEVICE, seed)
    # WHEN the kernels read it, THEN they err like torch on the numbers it stands for
    assert_right(run("decode", inputs, workload, config), plain(inputs), workload)


def test_the_function_takes_scales_and_chooses_its_tiles() -> None:
    # GIVEN an e4m3 cache, a scale of the scores and a window
    w = Workload(batch=2, heads=6, kv_heads=2, n_q=2, n_kv=70, d=16, dtype="fp32", kv_dtype="fp8_e4m3", causal=True,
                 window=33)  # fmt: skip
    inputs = make_decode(w, DEVICE, 4)
    # WHEN the function is called with half the scale the formula has, on twice the queries
    out = decode(
        inputs["q"] * 2, inputs["k"], inputs["v"], causal=True, window=33, scale=0.5 / 4, k_scale=inputs["k_scale"],
        v_scale=inputs["v_scale"],
    )  # fmt: skip
    # THEN O is the formula's
    o, _, _ = softmax_rows(plain(inputs), w)
    assert (out.cpu().double() - o).abs().max() < 1e-5


def test_the_spec_runs_the_kernels_and_names_them() -> None:
    spec, workload = KERNELS["decode"], Workload(heads=4, kv_heads=2, n_q=1, n_kv=64, d=16, dtype="fp16")
    assert spec.supports(workload, CAPABILITY) is None
    inputs = spec.make_inputs(workload, DEVICE, 9)
    # WHEN launches with several splits and with one are prepared from the spec
    both = [spec.prepare(inputs, workload, KernelConfig(br=16, bc=16, splits=splits)) for splits in (3, 1)]
    # THEN one split needs no combining, and both leave what the reference says
    assert [launch.kernels for launch in both] == [("decode_attend", "decode_combine"), ("decode_attend",)]
    expected = spec.reference(inputs, workload)["o"]
    for launch in both:
        launch()
        assert (launch.outputs["o"].double() - expected).abs().max() < 2e-3


@pytest.mark.parametrize("n_kv", [1, 63, 64, 1000, 8192, 65536])
@pytest.mark.parametrize("batch", [1, 3, 16, 256])
def test_splits_fill_the_multiprocessors_and_are_never_more_than_tiles(batch: int, n_kv: int) -> None:
    # GIVEN a decode on a card of 132 multiprocessors
    workload = Workload(batch=batch, heads=32, kv_heads=8, n_q=1, n_kv=n_kv, d=128, dtype="fp16")
    config = KERNELS["decode"].config(workload, (9, 0))
    tiles = -(-n_kv // config.bc)
    # THEN the ledger knows every split, and its formula holds
    cost = ALGORITHMS["decode"].cost(workload, config.tile)
    assert cost.symbols["splits"] == config.splits <= tiles
    # AND no other number of splits would keep the card more than 5% busier
    programs = batch * 8

    def busy(splits: int) -> float:
        return programs * splits / 264 / -(-programs * splits // 264)

    if DEVICE == "cpu":
        assert busy(config.splits) >= 0.95 * max(busy(splits) for splits in range(1, min(128, tiles) + 1))


def test_targets_get_the_splits_they_were_tuned_for() -> None:
    assert splits_for(128, 128, 264) == 2
    assert splits_for(8, 1024, 264) == 32
    assert splits_for(8, 1, 264) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"window": 0}, "window"),
        ({"k": torch.zeros(1, 3, 8, 16)}, "shapes"),
        ({"k": torch.zeros(1, 3, 8, 16), "v": torch.zeros(1, 3, 8, 16)}, "K/V heads"),
        ({"k": torch.zeros(2, 2, 8, 16), "v": torch.zeros(2, 2, 8, 16)}, "sequences"),
        ({"q": torch.zeros(1, 2, 16, 8).mT}, "contiguous"),
        ({"q": torch.zeros(2, 16)}, "four dimensions"),
        ({"v": torch.zeros(1, 2, 8, 16, dtype=torch.float16)}, "8 bits"),
        ({"out": torch.zeros(1, 2, 1, 24)}, "out"),
        ({"k_scale": torch.ones(3)}, "k_scale"),
    ],
)
def test_what_the_kernel_does_not_take_is_refused(change: dict[str, object], message: str) -> None:
    # GIVEN a good call
    call = {"q": torch.zeros(1, 2, 1, 16), "k": torch.zeros(1, 2, 8, 16), "v": torch.zeros(1, 2, 8, 16)}
    # WHEN one thing in it is wrong, THEN it is named
    with pytest.raises(InputError, match=message):
        decode(**{**call, **change})  # type: ignore[arg-type]


def test_spec_says_what_it_cannot_do() -> None:
    spec = KERNELS["decode"]
    assert "256" in str(spec.supports(Workload(n_q=1, d=512), None))
    assert "no decode" in str(spec.supports(Workload(n_q=4096, d=64), None))
    assert "fp8_e4m3" in str(spec.supports(Workload(n_q=1, d=64, dtype="fp8_e4m3"), (9, 0)))
    assert "8.9" in str(spec.supports(Workload(n_q=1, d=64, kv_dtype="fp8_e4m3"), (8, 0)))
    assert "cache" in str(spec.supports(Workload(n_q=1, d=64, kv_dtype="q8_0"), (9, 0)))
