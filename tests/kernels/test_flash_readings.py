"""Hardware counters of the flash kernels against the ledgers of the tiles they ran with."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rooflinecli.accounting import ALGORITHMS
from rooflinecli.accounting.ledger import Cost, Tile
from rooflinecli.workload import Workload

FILE = json.loads((Path(__file__).parents[1] / "data/kernel_readings_flash.json").read_text())
READINGS: list[dict[str, Any]] = FILE["readings"]
STEPS = {"flash_backward_delta": "preprocess", "flash_backward_convert": "convert"}


def workload_of(reading: dict[str, Any]) -> Workload:
    return Workload(**reading["workload"])


def tile_of(reading: dict[str, Any]) -> Tile:
    config = reading["config"]
    return Tile(config["br"], config["bc"], "kernel", splits=config["splits"], pack_gqa=config["pack_gqa"])


def name_of(reading: dict[str, Any]) -> str:
    w, config = workload_of(reading), reading["config"]
    mask = ("-causal" if w.causal else "") + (f"-w{w.window}" if w.window else "")
    return f"{reading['kernel']}-{w.dtype}-d{w.d}-n{w.n_q}x{w.n_kv}-h{w.heads}:{w.kv_heads}{mask}-{config['variant']}"


def ledger_bytes(cost: Cost, step: str) -> tuple[int, int]:
    moved: dict[str, int] = defaultdict(int)
    for row in cost.ledger:
        if row.level == "sm" and row.step == step:
            moved[row.direction] += row.bytes
    return moved["read"], moved["write"]


def copied_by_box(reading: dict[str, Any]) -> bool:
    """Whether tiles hang over the edges of tensors and the copy engine moves them: it counts whole boxes."""
    w, config = workload_of(reading), reading["config"]
    if reading["kernel"] in STEPS or w.dtype == "fp32":
        return False
    powers = all(size & (size - 1) == 0 for size in (w.d, w.d_v))
    return not powers or bool(w.n_q % 64 or w.n_kv % config["bc"])


@pytest.mark.parametrize("reading", [r for r in READINGS if not copied_by_box(r)], ids=name_of)
def test_bytes_at_the_sm_boundary_equal_the_counters(reading: dict[str, Any]) -> None:
    # GIVEN a kernel's counters and the ledger of its tile
    step = STEPS.get(reading["kernel"], "main" if "backward" in reading["kernel"] else "forward")
    read, written = ledger_bytes(ALGORITHMS[reading["algorithm"]].cost(workload_of(reading), tile_of(reading)), step)
    # THEN both directions agree within half a percent
    assert reading["counters"]["sm_read_bytes"] == pytest.approx(read, rel=5e-3)
    assert reading["counters"]["sm_write_bytes"] == pytest.approx(written, rel=5e-3)


@pytest.mark.parametrize(
    "reading",
    [r for r in READINGS if "hopper" in r["kernel"] or r["kernel"] == "flash_forward_kernel"],
    ids=name_of,
)
def test_executed_flops_equal_the_counters(reading: dict[str, Any]) -> None:
    # GIVEN the tensor cores' own count, which is there for fp16 operands
    w, counted = workload_of(reading), reading["counters"].get("hgmma_flops_fp16")
    if w.dtype != "fp16":
        assert not counted
        return
    # WHEN the accounting counts whole tiles, head dims padded to the power of two a block has
    wide = replace(w, d=1 << (w.d - 1).bit_length(), d_v=1 << (w.d_v - 1).bit_length())
    executed = ALGORITHMS[reading["algorithm"]].cost(wide, tile_of(reading)).flops.executed
    # THEN it is the same number
    assert counted == pytest.approx(executed, rel=1e-6)


def test_tiles_that_hang_over_are_counted_as_whole_boxes() -> None:
    # GIVEN a problem whose keys end inside a tile, and one whose head dim does not fill its block
    hanging = [r for r in READINGS if copied_by_box(r) and r["algorithm"] == "flash2" and not r["workload"]["causal"]]
    assert len(hanging) >= 2
    for reading in hanging:
        w, tile = workload_of(reading), tile_of(reading)
        # WHEN the ledger is made for the problem rounded up to whole boxes
        whole = replace(
            w, n_q=-(-w.n_q // tile.br) * tile.br, n_kv=-(-w.n_kv // tile.bc) * tile.bc,
            d=1 << (w.d - 1).bit_length(), d_v=1 << (w.d_v - 1).bit_length(),
        )  # fmt: skip
        if w.window is not None:
            whole = replace(whole, n_q=w.n_q, n_kv=w.n_kv)
        read, _ = ledger_bytes(ALGORITHMS["flash2"].cost(whole, tile), "forward")
        # THEN the copy engine moved that much: it fills what lies outside with zeros, and they are counted
        assert reading["counters"]["sm_read_bytes"] == pytest.approx(read, rel=1e-2)


def test_readings_carry_where_they_come_from() -> None:
    # THEN card, driver and versions stand beside the numbers, and every kernel was read
    assert {"name", "driver", "torch", "triton"} <= FILE["gpu"].keys()
    assert {r["kernel"] for r in READINGS} == {
        "flash_forward_hopper", "flash_forward_kernel", "flash_backward_delta", "flash_backward_main",
        "flash_backward_main_hopper", "flash_backward_convert",
    }  # fmt: skip
