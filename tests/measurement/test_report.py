"""What a measurement becomes: JSON that others read, tables that people read."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rooflinecli.measurement.comparison import compare, read_results
from rooflinecli.measurement.records import Correctness, Measurement
from rooflinecli.report import measure as report
from rooflinecli.report.formats import render
from rooflinecli.report.plot.scene import scene
from rooflinecli.report.plot.terminal import show
from tests.measurement.fake import CALM, FakeDevice
from tests.measurement.test_runner import SMALL, FakeKernel, OutOfMemoryError, run


def burst() -> None:
    raise OutOfMemoryError("CUDA out of memory")


@pytest.fixture
def measured() -> Measurement:
    """Two points with times, one that ran out of memory, on a card that another process uses."""
    kernels = (FakeKernel(), FakeKernel("greedy", act=burst))
    workloads = (SMALL, replace(SMALL, n_q=2048, n_kv=2048, causal=True))
    return run(*kernels, device=FakeDevice(400e-6, states=replace(CALM, others=1)), workloads=workloads)


def test_the_document_keeps_its_contract(measured: Measurement) -> None:
    document = json.loads(render(report.view(measured), "json"))
    assert document["schema"] == "rooflinecli/measure/1"
    assert document["gpu"]["id"].startswith("h200")
    assert document["gpu"]["hbm"]["unit"] == "B/s"
    assert document["device"]["versions"] == {"torch": "2.11.0", "triton": "3.6.0"}
    assert any("other process" in warning for warning in document["warnings"])
    timed = [point for point in document["points"] if point["status"] == "measured"]
    assert len(timed) == 2
    for point in timed:
        assert point["seconds"] == pytest.approx(400e-6)
        assert len(point["samples"]) == point["statistics"]["count"] >= 30
        assert point["statistics"]["low"] <= point["seconds"] <= point["statistics"]["high"]
        assert point["config"]["br"] == 128
        assert point["environment"]["before"]["sm_clock"] == 1_980_000_000
        assert point["prediction"]["algorithm"] == "flash2"
        # a share of the roof is the bound over the time
        assert point["share_of_roof"] == pytest.approx(point["prediction"]["seconds_at_least"] / point["seconds"])
        assert point["bound_by"] == point["shares"][0]["ceiling"]
    skipped = [point for point in document["points"] if point["status"] == "skipped"]
    assert all("ran out of GPU memory" in point["reason"] for point in skipped)


def test_the_table_says_what_binds_and_what_was_left_out(measured: Measurement) -> None:
    text = render(report.view(measured), "table")
    assert "400 us" in text
    assert "left out: ran out of GPU memory" in " ".join(text.split())
    assert "other process" in text


@pytest.mark.parametrize("shape", ["table", "markdown", "csv", "jsonl", "json"])
def test_every_format(measured: Measurement, shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert "flash_forward" in render(report.view(measured), shape).replace("\\", "")


def test_a_csv_has_a_line_a_point(measured: Measurement) -> None:
    rows = list(csv.DictReader(io.StringIO(render(report.view(measured), "csv"))))
    assert len(rows) == 4
    assert rows[0]["workload.n_q"] == "4096"
    assert float(rows[0]["statistics.median"]) == pytest.approx(400e-6)


def test_compare_reads_it(measured: Measurement, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(render(report.view(measured), "json"))
    found = compare(read_results(path), read_results(path))
    assert {one.change for one in found.differences} == {0.0}
    assert {"seconds", "flops_per_s", "sm.read", "hbm.read"} <= {one.figure for one in found.differences}


def test_the_roofline_draws_it(measured: Measurement) -> None:
    from rooflinecli.report.plot.read import chart_from_text

    chart = chart_from_text(render(report.view(measured), "json"))
    drawn = [point for point in chart.points if point.measured]
    assert len({point.flops_per_s for point in drawn if point.level == "hbm"}) == 2
    assert {lost.what for lost in chart.undrawable} == {"greedy"}


def test_an_infinite_error_is_no_number_in_json() -> None:
    def never(*_: Any) -> Correctness:
        return Correctness(float("inf"), 2e-3, "o", SMALL)

    document = json.loads(render(report.view(run(FakeKernel(), device=FakeDevice(), judge=never)), "json"))
    assert document["points"][0]["correctness"]["error"] is None
    assert document["points"][0]["status"] == "wrong"


def test_the_picture_in_the_terminal(measured: Measurement) -> None:
    drawn = show(scene(report.chart_of(measured)))
    assert "FLOP/s" in drawn
    assert "measured" in drawn
