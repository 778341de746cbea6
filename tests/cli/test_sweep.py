"""`rooflinecli sweep` as a user runs it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run


def rows(run: Run, *arguments: str) -> list[dict[str, str]]:
    done = run("sweep", *arguments, "-f", "csv")
    assert done.returncode == 0, done.stderr
    return list(csv.DictReader(io.StringIO(done.stdout)))


def test_a_row_for_each_workload_algorithm_and_gpu(run: Run) -> None:
    found = rows(run, "--N", "1Ki..4Ki", "--d", "64,128", "-a", "flash2", "-a", "naive", "--gpu", "a100", "--gpu", "t4")
    assert len(found) == 3 * 2 * 2 * 2
    assert len({(row["at.N"], row["at.d"], row["algorithm"], row["gpu"]) for row in found}) == len(found)
    assert {row["workload.n_kv"] for row in found} == {"1024", "2048", "4096"}


def test_a_row_is_what_bytes_says(run: Run) -> None:
    asked = ("--heads", "8", "-a", "flash2", "--gpu", "h200")
    found = rows(run, "--N", "2048,8192", "--d", "128", *asked)
    alone = json.loads(run("bytes", "--N", "8192", "--d", "128", *asked, "-f", "json").stdout)["results"][0]
    assert int(found[1]["bytes.hbm.total"]) == alone["bytes"]["hbm"]["total"]
    assert float(found[1]["seconds_at_least"]) == alone["seconds_at_least"]
    assert found[1]["bound_by"] == alone["bound_by"]
    assert float(found[1]["flops_per_s"]) == alone["bounds"][0]["flops_per_s"]


def test_json_and_json_lines(run: Run) -> None:
    asked = ("--N", "1k", "--d", "64", "--dtype", "fp16,bf16", "--sweep", "causal=no,yes", "-a", "flash2")
    found: dict[str, Any] = json.loads(run("sweep", *asked, "-f", "json").stdout)
    assert (found["schema"], found["swept"]) == ("rooflinecli/sweep/1", ["dtype", "causal"])
    assert [result["at"] for result in found["results"]] == [
        {"dtype": name, "causal": causal} for name in ("fp16", "bf16") for causal in (False, True)
    ]
    assert found["gpus"][0]["hbm"]["source"]
    assert "ledger" not in found["results"][0]
    lines = [json.loads(line) for line in run("sweep", *asked, "-f", "jsonl").stdout.splitlines()]
    assert [line["at.dtype"] for line in lines] == ["fp16", "fp16", "bf16", "bf16"]


def test_tiles_of_kernel_options_too(run: Run) -> None:
    found = rows(run, "--N", "4096", "--d", "64", "-a", "flash2", "--br", "64,128", "--bc", "32..128")
    assert [(row["tile.br"], row["tile.bc"]) for row in found] == [
        (br, bc) for br in ("64", "128") for bc in ("32", "64", "128")
    ]


def test_a_model_over_its_context(run: Run) -> None:
    found = rows(run, "--model", "gemma-3-27b", "--phase", "decode", "--context", "1k,100k", "-a", "decode")
    assert [(row["at.context"], row["at.layer"]) for row in found] == [
        (context, layer) for context in ("1000", "100000") for layer in ("52 sliding", "10 full")
    ]


def test_what_is_wrong_alone_is_left_out_and_said(run: Run) -> None:
    asked = ("--N", "1k", "--d", "64", "--dtype", "fp16,fp8", "-a", "flash2")
    done = run("sweep", *asked)
    assert done.returncode == 0
    assert done.stderr == (
        "warning: 1 left out: dtype=fp8 on a100-sxm4-40gb: --dtype fp8_e4m3: a100-sxm4-40gb has no ceiling for it\n"
    )
    assert "Left out" in done.stdout
    assert json.loads(run("sweep", *asked, "-f", "json").stdout)["refused"][0]["at"] == {"dtype": "fp8"}


def test_a_picture_and_the_figures(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    asked = ("--N", "1k..4k", "--d", "64", "--plot", "path.svg", "-o", "path.csv")
    done = run("sweep", *asked)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "wrote path.svg\n")
    assert (tmp_path / "path.svg").read_text().startswith("<?xml")
    assert (tmp_path / "path.csv").read_text().startswith("at.N,")
    again = run("sweep", *asked)
    assert (again.returncode, again.stdout) == (2, "")
    assert "--plot path.svg: exists already" in again.stderr


def test_a_picture_in_the_terminal(run: Run) -> None:
    done = run("sweep", "--N", "1k..4k", "--d", "64", "--plot", COLUMNS="80")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.split("\n"))) <= 80
    assert "Roofline of NVIDIA A100" in done.stdout
    assert "SM bytes" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--d 64", "--N is missing"),
        ("--N 1..9:x1 --d 64", "--N 1..9:x1: step 'x1' goes nowhere"),
        ("--N 9..1 --d 64", "--N 9..1: the range ends at 1, before its start 9"),
        ("--N 1,x --d 64", "--N 1,x: 'x' is not a whole number"),
        ("--N 1, --d 64", "--N 1,: '' is not a whole number"),
        ("--N 0,-1 --d 64", "--N 0: must be at least 1"),
        ("--N 1..100000:+1 --d 64", "--N 1..100000:+1: more than 1000 values"),
        ("--N 1..900:+1 --d 1..900:+1", "combinations; at most 4096"),
        ("--N 1k,2k --d 64 --sweep N=4k", "--sweep N: is given twice"),
        ("--N 1k --d 64 --dtype fp12,fp13", "--dtype fp12"),
        ("--N 1k --d 64 --sweep gpu=a100", "--sweep gpu=a100: unknown option 'gpu'"),
        ("--N 1k,2k --d 64 --causal maybe", "maybe"),
        ("--N 1k,2k --d 64 --sweep causal=maybe", "--sweep causal=maybe: 'maybe' is neither yes nor no"),
        ("--N 1k,2k --d 64 --gpu a1000", "--gpu a1000"),
        ("--N 1k,2k --d 64 --format xml", "--format xml"),
        ("--N 1k,2k --d 64 --plot x.gif", "--plot x.gif"),
        ("--model llama-3.1-8b --heads 4,8 --context 1k", "--heads: --model llama-3.1-8b says it"),
    ],
)
def test_bad_input_is_one_clear_line(run: Run, arguments: str, said: str) -> None:
    done = run("sweep", *arguments.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.split("\n\nhint: ")[0].strip().split("\n")) == 1
