"""The L2 model against DRAM counters of real kernels on an H200."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from rooflinecli.accounting import ALGORITHMS
from rooflinecli.accounting.ledger import Tile
from rooflinecli.hardware import load_profile
from rooflinecli.memory.l2 import HbmTraffic, estimate
from rooflinecli.workload import Workload

READINGS: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "data/h200_counters.json").read_text())[
    "readings"
]
H200 = load_profile("h200")
MB = 10**6


def predicted(reading: dict[str, Any], algorithm: str, tile: Tile | None = None) -> tuple[HbmTraffic, int]:
    """The estimate and the compulsory reads; the tile is the reading's own where it has one."""
    workload = Workload(**{**reading["workload"], "window": reading["workload"]["window"] or None})
    own = reading.get("tile")
    tile = Tile(own["br"], own["bc"]) if own else tile or Tile(128, 128)
    cost = ALGORITHMS[algorithm].cost(workload, tile)
    resident = reading["launch"]["blocks_per_sm"] if own else None
    return estimate(cost, workload, H200, resident), cost.traffic("compulsory").read


def flash(causal: bool) -> list[tuple[dict[str, Any], HbmTraffic, int]]:
    rows = [r for r in READINGS if r["algorithm"] == "flash2" and "tile" in r and r["workload"]["causal"] is causal]
    return [(reading, *predicted(reading, "flash2")) for reading in rows]


def read(reading: dict[str, Any]) -> int:
    return int(reading["counters"]["dram_read_bytes"])


def test_what_fits_is_read_once() -> None:
    fitting = [(r, e) for r, e, floor in flash(causal=False) if e.regime == "fits in L2"]
    assert len(fitting) >= 20
    for reading, found in fitting:
        assert found.read == pytest.approx(read(reading), rel=0.03 if read(reading) < MB else 0.02)


def test_beyond_the_l2() -> None:
    errors = [abs(e.read / read(r) - 1) for r, e, floor in flash(causal=False) if read(r) > 1.05 * floor]
    assert len(errors) >= 18
    assert statistics.median(errors) <= 0.03
    assert sum(error <= 0.10 for error in errors) >= 0.9 * len(errors)


def test_every_dense_reading_lies_in_its_interval() -> None:
    for reading, found, _ in flash(causal=False):
        # The counter includes the instructions and parameters that every launch fetches.
        assert found.read_low * 0.99 <= read(reading) <= found.read_high + 20_000, (reading["workload"], found)


def test_causal_readings() -> None:
    rows = flash(causal=True)
    assert len(rows) == 8
    for reading, found, floor in rows:
        assert found.read_low * 0.99 <= read(reading) <= found.read_high + 20_000, (reading["workload"], found)
        if found.regime == "fits in L2":
            assert found.read == pytest.approx(read(reading), rel=0.10)
            assert found.read == pytest.approx(floor, rel=0.02)


def shape_of(reading: dict[str, Any]) -> str:
    return f"{reading['workload']['heads']}x{reading['workload']['n_q']}-d{reading['workload']['d']}"


@pytest.mark.parametrize("reading", [r for r in READINGS if r["algorithm"] == "naive-chain"], ids=shape_of)
def test_three_kernels_in_a_row(reading: dict[str, Any]) -> None:
    found, _ = predicted(reading, "naive")
    w = reading["workload"]
    scores = w["heads"] * w["n_q"] * w["n_kv"] * 2
    slack = 0.15 if 25 * MB < scores < 80 * MB else 0.10
    assert found.read == pytest.approx(read(reading), rel=slack, abs=100_000)
    assert found.write_low <= reading["counters"]["dram_write_bytes"] <= found.write * 1.01


def test_naive_kernels_one_by_one_through_hbm() -> None:
    # GIVEN readings of single kernels, the caches flushed before each, where S is far larger than the L2
    cases: dict[int, list[dict[str, Any]]] = {}
    for r in READINGS:
        if r["algorithm"] == "naive" and r["workload"]["n_q"] * r["workload"]["heads"] >= 8192 * 8:
            cases.setdefault(r["case"], []).append(r)
    assert cases
    for rows in cases.values():
        found, _ = predicted(rows[0], "naive")
        assert found.read == pytest.approx(sum(map(read, rows)), rel=0.03)


def test_backward_fetches_its_accumulator() -> None:
    for reading in (r for r in READINGS if r["algorithm"] == "flash2-backward"):
        if reading["counters"]["sm_write_bytes"] < 10**9:
            continue
        # GIVEN the three kernels, each with its caches flushed before it
        rows = [r for r in READINGS if r["algorithm"] == "flash2-backward" and r["source"] == reading["source"]
                and r["workload"] == reading["workload"]]  # fmt: skip
        total = sum(map(read, rows))
        found, floor = predicted(reading, "backward")
        # THEN the chain reads no more than that, and the accumulator and dO again at least in part
        assert floor < 0.85 * found.read
        assert 0.87 * total < found.read < 1.01 * total


@pytest.mark.parametrize("source", ["FA2", "cuDNN"])
def test_decode_reads_the_cache_once(source: str) -> None:
    rows = [r for r in READINGS if r["algorithm"] == "decode" and source in r["source"]]
    main = [r for r in rows if read(r) > 10 * MB]
    assert main
    for reading in main:
        found, _ = predicted(reading, "decode", Tile(16, 128, splits=8, pack_gqa=True))
        assert found.read == pytest.approx(read(reading), rel=0.02)
