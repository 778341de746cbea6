"""Result files side by side: alignment, noise, and the gate."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from rooflinecli.errors import InputError
from rooflinecli.measurement.comparison import compare, parse_gate, read_results, tripped
from rooflinecli.measurement.statistics import summarize

WORKLOAD = {"batch": 1, "heads": 32, "kv_heads": 32, "n_q": 4096, "n_kv": 4096, "d": 128, "d_v": 128, "dtype": "fp16",
            "causal": False, "window": None}  # fmt: skip


def point(seconds: float, spread: float = 0.002, **changes: Any) -> dict[str, Any]:
    samples = [seconds * (1 + spread * (n - 15) / 15) for n in range(31)]
    workload = {**WORKLOAD, **changes}
    return {
        "kernel": "flash_forward", "algorithm": "flash2", "workload": workload, "status": "measured",
        "seconds": seconds, "flops_per_s": 1e12 / seconds, "statistics": {**asdict(summarize(samples)), "warm_up": 11},
        "samples": samples,
    }  # fmt: skip


def measured(folder: Path, name: str, *points: dict[str, Any]) -> Path:
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"schema": "rooflinecli/measure/1", "gpu": {"id": "h200-sxm"}, "points": list(points)}))
    return path


def predicted(folder: Path, name: str, sm_read: int) -> Path:
    path = folder / f"{name}.json"
    result = {"gpu": "h200-sxm", "algorithm": "flash2", "seconds_at_least": 4e-4, "flops": {"useful": 7},
              "bytes": {"sm": {"read": sm_read, "write": 4, "total": sm_read + 4}}}  # fmt: skip
    document = {"schema": "rooflinecli/bytes/1", "gpu": {"id": "h200-sxm"}, "workload": WORKLOAD, "results": [result]}
    path.write_text(json.dumps(document))
    return path


def outcome(one: Path, two: Path, *gates: str) -> list[str]:
    found = compare(read_results(one), read_results(two))
    return tripped([parse_gate(gate) for gate in gates], [found])


def test_a_regression_trips_the_gate_and_an_improvement_does_not(tmp_path: Path) -> None:
    before = measured(tmp_path, "before", point(1e-3), point(2e-3, n_q=8192))
    slower = measured(tmp_path, "slower", point(1e-3), point(2.2e-3, n_q=8192))
    [line] = outcome(before, slower, "seconds > +5%")
    assert "+10.00%" in line
    assert "n_q=8192" in line
    assert outcome(before, slower, "seconds > +15%") == []
    assert outcome(slower, before, "seconds > +5%") == []
    assert len(outcome(before, slower, "flops_per_s < -5%")) == 1


def test_a_difference_within_the_spread_is_noise_and_passes(tmp_path: Path) -> None:
    # GIVEN two runs 6% apart whose samples spread over 10% to each side
    before = measured(tmp_path, "before", point(1e-3, spread=0.10))
    after = measured(tmp_path, "after", point(1.06e-3, spread=0.10))
    found = compare(read_results(before), read_results(after))
    assert {one.figure: one.noise for one in found.differences} == {"seconds": True, "flops_per_s": True}
    assert outcome(before, after, "seconds > +5%") == []
    # WHEN the same medians come with quiet samples THEN it is a change
    quiet = measured(tmp_path, "quiet", point(1e-3, spread=0.002)), measured(tmp_path, "quiet2", point(1.06e-3, 0.002))
    assert len(outcome(*quiet, "seconds > +5%")) == 1


def test_counts_are_never_noise(tmp_path: Path) -> None:
    one, two = predicted(tmp_path, "one", 1000), predicted(tmp_path, "two", 1001)
    assert len(outcome(one, two, "sm.read > +0%")) == 1
    assert outcome(one, one, "sm.read > +0%") == []


def test_a_result_that_is_gone_fails_the_gate(tmp_path: Path) -> None:
    before = measured(tmp_path, "before", point(1e-3), point(2e-3, n_q=8192))
    after = measured(tmp_path, "after", point(1e-3))
    [line] = outcome(before, after, "seconds > +5%")
    assert "gone" in line
    assert "n_q=8192" in line


def test_a_skipped_point_is_not_a_time(tmp_path: Path) -> None:
    skipped = {**point(1e-3, n_q=8192), "status": "skipped", "seconds": None, "statistics": None}
    found = read_results(measured(tmp_path, "one", point(1e-3), skipped))
    assert len(found.entries) == 1


def test_a_prediction_aligns_with_a_measurement(tmp_path: Path) -> None:
    # GIVEN a file of bounds, which knows no kernel, and a measurement
    found = compare(
        read_results(predicted(tmp_path, "bound", 10)), read_results(measured(tmp_path, "run", point(5e-4)))
    )
    # THEN they align by workload and algorithm: measured over bound
    assert [(one.figure, one.change) for one in found.differences] == [("seconds", pytest.approx(0.25))]


def test_geometric_means(tmp_path: Path) -> None:
    before = measured(tmp_path, "before", point(1e-3), point(1e-3, n_q=8192))
    after = measured(tmp_path, "after", point(2e-3), point(0.5e-3, n_q=8192))
    assert compare(read_results(before), read_results(after)).means()["seconds"] == pytest.approx(1.0)


def test_nothing_in_common(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no workload in common"):
        outcome(measured(tmp_path, "a", point(1e-3)), measured(tmp_path, "b", point(1e-3, d=64)))


@pytest.mark.parametrize(
    "text",
    ["", "seconds", "seconds > 5%", "seconds > +5", "seconds => +5%", "> +5%", "seconds > +5%%", "seconds > +x%",
     "seconds > +5% or so", "seconds > +1e3%", "SECONDS > +5%", "seconds > + 5%", "seconds == +5%"],
)  # fmt: skip
def test_the_grammar_is_strict(text: str) -> None:
    with pytest.raises(InputError, match="--fail-if"):
        parse_gate(text)


@pytest.mark.parametrize(
    ("text", "parts"),
    [("seconds > +5%", ("seconds", ">", 0.05)), ("sm.read>=+0.5%", ("sm.read", ">=", 0.005)),
     ("  flops_per_s  <  -3 % ", ("flops_per_s", "<", -0.03))],
)  # fmt: skip
def test_the_grammar(text: str, parts: tuple[str, str, float]) -> None:
    gate = parse_gate(text)
    assert (gate.figure, gate.relation, pytest.approx(gate.threshold)) == parts


def test_a_gate_on_a_figure_nobody_has_is_an_error(tmp_path: Path) -> None:
    one = measured(tmp_path, "one", point(1e-3))
    with pytest.raises(InputError, match=r"secconds.*seconds"):
        outcome(one, one, "secconds > +5%")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"schema": 3}', '{"schema": "rooflinecli/kv/1"}',
     '{"schema": "rooflinecli/measure/1", "points": [1]}',
     '{"schema": "rooflinecli/measure/1", "points": [{"statistics": {}, "workload": {"d": 1}, "seconds": "x"}]}', "\0"],
)  # fmt: skip
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"odd\.json"):
        read_results(path)
