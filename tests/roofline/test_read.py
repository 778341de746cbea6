"""Drawing again from files: nothing is lost on the way, several files overlay, bad ones are refused by name."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from rooflinecli.errors import InputError
from rooflinecli.report.formats import render
from rooflinecli.report.plot.figure import figure
from rooflinecli.report.plot.read import chart_from_text, overlay, read_charts
from rooflinecli.report.plot.scene import scene
from rooflinecli.report.roofline import view
from tests.roofline.builders import standard

STANDARD = standard()

# What `bytes` writes, by hand: one kernel of 256,000 FLOP and 1,000 exponentials on a GPU of round figures.
RESULT: dict[str, Any] = {
    "gpu": "g", "algorithm": "flash2", "tile": {"br": 64, "bc": 32, "splits": 1},
    "flops": {"useful": 200_000, "published": 0, "executed": 256_000, "softmax": 5_000},
    "exponentials": {"useful": 800, "executed": 1_000},
    "bytes": {"sm": {"read": 900, "write": 100, "total": 1_000},
              "hbm": {"read": 80, "write": 20, "total": 100, "read_low": 60, "read_high": 180, "write_low": 0}},
    "bounds": [{"ceiling": "fp16_tensor", "amount": 256_000, "seconds": 2.56e-4, "flops_per_s": 1e9},
               {"ceiling": "exp", "amount": 1_000, "seconds": 1e-4, "flops_per_s": 2.56e9},
               {"ceiling": "hbm", "amount": 100, "seconds": 1e-5, "flops_per_s": 2.56e10}],
}  # fmt: skip
GPU = {
    "id": "g", "name": "G", "hbm": {"value": 1e7, "unit": "B/s", "source": "a"},
    "fp16_tensor": {"value": 1e9, "unit": "FLOP/s", "source": "b", "measured": True},
    "exp": {"value": 1e7, "unit": "op/s", "source": "c"},
}  # fmt: skip
WORKLOAD = {"batch": 1, "heads": 1, "kv_heads": 1, "n_q": 8, "n_kv": 8, "d": 4, "d_v": 4, "dtype": "fp16"}
BYTES = {
    "schema": "rooflinecli/bytes/1", "workload": WORKLOAD, "memory_model": "l2", "compute_dtype": "fp16", "gpus": [GPU],
    "results": [RESULT],
}  # fmt: skip
MEASURE = {
    "schema": "rooflinecli/measure/1", "gpu": GPU, "points": [
        {"kernel": "flash_forward", "workload": WORKLOAD, "status": "measured", "seconds": 5.12e-4,
         "prediction": RESULT},
        {"kernel": "flash_forward", "workload": WORKLOAD, "status": "skipped", "seconds": None, "prediction": None,
         "reason": "too large"},
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", STANDARD)
@pytest.mark.parametrize("shape", ["json", "csv"])
def test_what_was_written_draws_the_same_picture(name: str, shape: str) -> None:
    drawn = STANDARD[name]
    again = chart_from_text(render(view(drawn), shape))
    assert again.points == drawn.points
    assert again.roofs == drawn.roofs
    assert (again.ridges, again.undrawable, dict(again.gpus)) == (drawn.ridges, drawn.undrawable, dict(drawn.gpus))
    assert figure(scene(again), "svg") == figure(scene(drawn), "svg")


def test_a_bytes_document() -> None:
    drawn = chart_from_text(json.dumps(BYTES))
    points = {point.level: point for point in drawn.points}
    # 256,000 FLOP in 2.56e-4 s, over 100 B and over 1000 B; the textbook's 205,000 FLOP are memory-bound at 1e7 B/s.
    assert points["hbm"].flops_per_s == points["sm"].flops_per_s == pytest.approx(1e9)
    assert (points["hbm"].intensity, points["sm"].intensity) == (2560, 256)
    assert points["textbook"].intensity == 205
    assert points["textbook"].flops_per_s == pytest.approx(1e9)  # 2.05e9 by bandwidth: the peak binds
    assert (points["hbm"].bytes_low, points["hbm"].bytes_high) == (80, 200)
    assert points["sm"].tile == "64x32"
    assert {roof.id: roof.measured for roof in drawn.roofs} == {"hbm": False, "fp16_tensor": True, "exp": False}
    [exp] = [roof for roof in drawn.roofs if roof.id == "exp"]
    assert exp.high == pytest.approx(2.56e9)


def test_a_measure_document() -> None:
    drawn = chart_from_text(json.dumps(MEASURE))
    measured = [point for point in drawn.points if point.measured and point.level == "hbm"]
    predicted = [point for point in drawn.points if not point.measured and point.level == "hbm"]
    assert [point.share for point in measured] == [pytest.approx(0.5)]
    assert [point.share for point in predicted] == [1]
    assert [(lost.what, lost.reason) for lost in drawn.undrawable] == [("flash_forward", "too large")]


def test_several_files_overlay_and_roofs_they_share_are_drawn_once(tmp_path: Path) -> None:
    other: dict[str, Any] = copy.deepcopy(MEASURE)
    other["points"][0]["seconds"] = 4e-4
    other["gpu"]["hbm"]["value"] = 9e6
    for name, document in (("monday", MEASURE), ("tuesday", other)):
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    drawn = overlay(read_charts([tmp_path / "monday.json", tmp_path / "tuesday.json"]))
    assert {point.run for point in drawn.points} == {"monday", "tuesday"}
    assert [(roof.run, roof.rate) for roof in drawn.roofs if roof.id == "hbm"] == [("monday", 1e7), ("tuesday", 9e6)]
    assert [roof.run for roof in drawn.roofs if roof.id == "fp16_tensor"] == [None]
    shown = scene(drawn)
    assert set(shown.variants) == {"monday", "tuesday"}
    assert "monday" in figure(shown, "svg").decode()


def test_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "run.json").write_text(json.dumps(BYTES))
    drawn = overlay(read_charts([tmp_path / "a" / "run.json", tmp_path / "b" / "run.json"]))
    assert len({point.run for point in drawn.points}) == 2


def test_points_that_are_not_numbers_are_listed() -> None:
    document = json.loads(render(view(STANDARD["one"]), "json"))
    document["points"][0]["flops_per_s"] = float("nan")
    drawn = chart_from_text(json.dumps(document))
    assert len(drawn.points) == len(STANDARD["one"].points) - 1
    assert "nan" in drawn.undrawable[-1].reason


def broken(path: str, value: object) -> dict[str, Any]:
    document: dict[str, Any] = copy.deepcopy(BYTES)
    place: Any = document
    *outer, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in outer:
        place = place[part]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return document


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "neither JSON nor"),
        ("{", "neither JSON nor"),
        ("[]", "no roofline"),
        ('{"schema": "rooflinecli/kv/1"}', "rooflinecli/kv/1"),
        ('{"schema": 3}', "no roofline"),
        (json.dumps(broken("results.0.bytes", None)), "not a whole rooflinecli/bytes/1"),
        (json.dumps(broken("gpus", None)), "not a whole rooflinecli/bytes/1"),
        (json.dumps(broken("results.0.gpu", "other")), "not a whole rooflinecli/bytes/1"),
        (json.dumps(broken("gpus.0.hbm.value", float("nan"))), "ceiling hbm of g is nan"),
        (json.dumps(broken("gpus.0.hbm.value", -1)), "ceiling hbm of g is -1"),
        (json.dumps({**MEASURE, "gpu": None}), "without a profile"),
        ('{"schema": "rooflinecli/roofline/1"}', "title"),
        (
            '{"schema": "rooflinecli/roofline/1", "title": "", "gpus": [], "roofs": 3, "ridges": [], "points": []}',
            "roofs",
        ),
        ("record,title\nbanana,x\n", "banana"),
    ],
)
def test_files_without_a_roofline_are_refused_by_name(text: str, word: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InputError) as caught:
        read_charts([tmp_path / "x.json"])
    assert f"--from {tmp_path / 'x.json'}: " in caught.value.message
    assert word in caught.value.message
    assert "\n" not in caught.value.message


def test_a_missing_or_binary_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_charts([tmp_path / "nothing.json"])
    (tmp_path / "x.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not text"):
        read_charts([tmp_path / "x.json"])
