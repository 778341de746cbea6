"""`rooflinecli models` as a user runs it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.conftest import Run

CONFIGS = Path(__file__).parents[1] / "data/configs"


def test_list_has_every_preset_with_its_source(run: Run) -> None:
    found = json.loads(run("models", "list", "-f", "json").stdout)
    assert found["schema"] == "rooflinecli/models/1"
    by_name = {model["name"]: model for model in found["models"]}
    assert len(by_name) >= 40
    assert all(model["source"] for model in by_name.values())
    llama = by_name["llama-2-70b"]
    assert (llama["n_layers"], llama["heads"], llama["kv_heads"], llama["head_dim"]) == (80, 64, 8, 128)
    assert (llama["attention"], llama["kv_bytes_per_token_fp16"], llama["parameters"]) == ("GQA-8", 327680, 68976648192)
    assert by_name["phi-3-mini-4k"]["from_memory"] == ["sliding_window"]


def test_list_narrows_down(run: Run) -> None:
    rows = list(csv.DictReader(io.StringIO(run("models", "list", "gemma", "-f", "csv").stdout)))
    assert {row["name"] for row in rows} == {"gemma-2-9b", "gemma-2-27b", "gemma-3-27b"}
    assert rows[0]["windows"] == "4096"


def test_show_takes_a_model_apart(run: Run) -> None:
    done = run("models", "show", "gemma-3-27b")
    for text in ("52 layers", "10 layers", "window 1024", "GQA-16", "27.01 B", "source: "):
        assert text in done.stdout


def test_show_gives_the_steps_of_llama_2_7b(run: Run) -> None:
    prefill = run("models", "show", "llama-2-7b", "--gpu", "a100-sxm4-80gb", "--phase", "prefill", "--context", "2048")
    decode = run("models", "show", "llama-2-7b", "--gpu", "a100-sxm4-80gb", "--context", "4096", "-f", "json")
    assert "88.5" in prefill.stdout
    steps = {step["phase"]: step for step in json.loads(decode.stdout)["steps"]}
    assert set(steps) == {"prefill", "decode"}
    assert round(steps["decode"]["seconds_at_least"] * 1e3, 2) == 7.53
    assert steps["decode"]["bound_by"] == "hbm"
    parts = [part["part"] for part in steps["decode"]["parts"]]
    assert parts == ["embedding", "norms", "projections", "attention", "MLP", "logits", "total"]


def test_show_of_a_file_whose_weights_are_not_known(run: Run) -> None:
    done = run("models", "show", str(CONFIGS / "unknown.json"), "-f", "json")
    found = json.loads(done.stdout)
    assert (found["parameters"], found["steps"]) == (None, [])
    assert "brandnew" in done.stderr


@pytest.mark.parametrize("shape", ["table", "json", "jsonl", "csv", "markdown"])
def test_every_format(run: Run, shape: str) -> None:
    for arguments in (("list",), ("show", "deepseek-v3")):
        done = run("models", *arguments, "-f", shape)
        assert done.returncode == 0, done.stderr
        assert "deepseek-v3-671b" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("show",), ("model",)),
        (("show", "lama-2-7b"), ("lama-2-7b", "llama-2-7b")),
        (("show", "llama-2-7b", "--phase", "train"), ("--phase", "train")),
        (("show", "llama-2-7b", "--context", "0"), ("--context", "0")),
        (("show", "llama-2-7b", "--gpu", "a1000"), ("--gpu", "a1000")),
        (("show", str(CONFIGS / "unknown.json"), "--context", "9"), ("unknown", "weights")),
        (("list", "-f", "xml"), ("--format", "xml")),
    ],
    ids=lambda value: " ".join(value)[-40:],
)
def test_bad_input_is_one_clear_line(run: Run, arguments: tuple[str, ...], named: tuple[str, ...]) -> None:
    done = run("models", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    line = next(line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert all(text in line for text in named), line
    assert "Traceback" not in done.stderr
