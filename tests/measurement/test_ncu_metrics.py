"""Which counter is asked for which quantity, chip by chip."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflinecli.measurement.ncu.metrics import available, names_in, resolve, tensor_metrics, totals
from rooflinecli.measurement.ncu.reader import read_csv

DATA = Path(__file__).parents[1] / "data/ncu"
LISTING = """
Device NVIDIA H200 (GH100)
------------------------------------------------------------------ --------------- ---------------
Metric Name                                                        Metric Type     Metric Unit
------------------------------------------------------------------ --------------- ---------------
dram__bytes_read                                                   Counter         byte
dram__bytes_write                                                  Counter         byte
gpu__time_duration                                                 Counter         nsecond
l1tex__m_l1tex2xbar_write_bytes                                    Counter         byte
l1tex__m_xbar2l1tex_read_bytes                                     Counter         byte
sm__inst_executed_pipe_xu                                          Counter         inst
sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32                     Counter
sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off        Counter
sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_on         Counter
sm__ops_path_tensor_op_hgmma_src_fp16                              Counter
sm__ops_path_tensor_op_hgmma_src_fp16_dst_fp16                     Counter
sm__ops_path_tensor_op_hgmma_src_fp16_dst_fp32                     Counter
sm__ops_path_tensor_op_hgmma_src_fp16_sparsity_off                 Counter
sm__ops_path_tensor_op_hgmma_src_fp8_sparsity_off                  Counter
sm__ops_path_tensor_op_hgmma_src_fp8_sparsity_on                   Counter
sm__ops_path_tensor_op_hmma_src_fp16                               Counter
sm__ops_path_tensor_src_fp16                                       Counter
"""
KNOWN = available(LISTING)


def test_the_tools_own_list_is_read() -> None:
    assert len(KNOWN) == 17
    assert "dram__bytes_read" in KNOWN


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        # one name a kind of instruction: the sum of its special cases is not added to it
        ("fp16", ["hgmma_src_fp16", "hmma_src_fp16"]),
        ("bf16", ["hgmma_src_bf16_dst_fp32"]),
        # where only the special cases exist, all of them
        ("fp8_e4m3", ["hgmma_src_fp8_sparsity_off", "hgmma_src_fp8_sparsity_on"]),
        ("int8", []),
        ("fp32", []),
    ],
)
def test_tensor_counters_count_everything_once(dtype: str, expected: list[str]) -> None:
    assert tensor_metrics(KNOWN, dtype) == [f"sm__ops_path_tensor_op_{name}" for name in expected]


def test_a_format_counted_in_all_only() -> None:
    listed = {"sm__ops_path_tensor_src_fp8", "sm__ops_path_tensor_src_fp8_sparsity_on", "sm__ops_path_tensor_src_int8"}
    assert tensor_metrics(listed, "fp8_e5m2") == ["sm__ops_path_tensor_src_fp8"]
    assert tensor_metrics({"sm__ops_path_tensor_src_fp8"}, "fp8_e4m3") == ["sm__ops_path_tensor_src_fp8"]


def test_resolution() -> None:
    found, missing = resolve(KNOWN, "bf16")
    assert missing == []
    assert found["hbm.read"].metrics == ("dram__bytes_read.sum",)
    assert found["sm.read"].metrics == ("l1tex__m_xbar2l1tex_read_bytes.sum",)
    # fp32 products run on the vector unit: no tensor counter is missed
    assert resolve(KNOWN, "fp32")[1] == []


def test_a_chip_with_other_names_and_a_chip_without() -> None:
    found, missing = resolve({"dram__bytes_op_read", "gpu__time_duration"}, "fp16")
    assert found["hbm.read"].metrics == ("dram__bytes_op_read.sum",)
    assert missing == ["sm.read", "sm.write", "hbm.write", "exponentials", "flops.executed"]


def test_totals_add_launches_and_count_threads_of_a_warp() -> None:
    launches = read_csv(DATA / "wide_repeats.csv")
    counters, _ = resolve(names_in(launches), "fp16")
    found = totals(launches, counters)
    assert found["sm.write"] == sum(
        launch.metrics["l1tex__m_l1tex2xbar_write_bytes.sum"].value or 0 for launch in launches
    )
    assert found["exponentials"] == 32 * 3 * 4_259_840
    assert found["flops.executed"] == 3 * 68_719_476_736


def test_a_hole_makes_a_total_unknown_not_smaller() -> None:
    launches = [*read_csv(DATA / "wide_base.csv"), *read_csv(DATA / "wide_holes.csv")]
    counters, _ = resolve(names_in(launches), "fp16")
    found = totals(launches, counters)
    assert found["hbm.read"] is None
    assert found["sm.read"] == 2 * 553_648_128
