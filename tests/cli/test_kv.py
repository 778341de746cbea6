"""`rooflinecli kv` as a user runs it: the contract of its JSON, its words, its refusals."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "tests/data/configs"
GIB = 2**30


def answer(run: Run, *arguments: str) -> dict[str, Any]:
    done = run("kv", *arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_json_keeps_its_contract(run: Run) -> None:
    # WHEN half-windowed layers are asked about
    found = answer(run, "--model", "gpt-oss-20b", "--context", "8Ki", "--batch", "32")
    # THEN the fixed fields are there, and right
    assert found["schema"] == "rooflinecli/kv/1"
    assert found["model"] == "gpt-oss-20b"
    layers = [{key: layer[key] for key in ("kind", "window", "count", "bytes_per_token")} for layer in found["layers"]]
    assert layers == [
        {"kind": "sliding", "window": 128, "count": 12, "bytes_per_token": 2048},
        {"kind": "full", "window": None, "count": 12, "bytes_per_token": 2048},
    ]
    assert found["bytes_per_token"] == 49152
    assert found["bytes_allocated"] == 12 * GIB
    assert found["bytes_resident"] == 6.09375 * GIB
    assert "per_device" not in found
    assert "fits" not in found


def test_one_token_of_one_sequence_by_default(run: Run) -> None:
    found = answer(run, "--model", "llama-2-7b")
    assert (found["context"], found["batch"], found["bytes_allocated"]) == (1, 1, 524288)


def test_devices_and_a_budget(run: Run) -> None:
    found = answer(run, "--model", "llama-3.1-70b", "--context", "32768", "--tp", "8", "--memory", "80GiB",
                   "--weights-dtype", "fp16")  # fmt: skip
    assert found["per_device"]["bytes_per_token"] == 327680 // 8
    assert found["per_device"]["layers"][0]["kv_heads"] == 1
    fits = found["fits"]
    assert fits["weights"] == -(-2 * 70553706496 // 8)
    assert fits["users"] == (80 * GIB - fits["weights"]) // (10 * GIB // 8)


def test_a_gpu_is_a_budget_and_a_bandwidth(run: Run) -> None:
    found = answer(run, "--model", "llama-2-7b", "--context", "4096", "--gpu", "h100", "--gpu", "a100")
    first, second = found["gpus"]
    assert first["read_seconds"] == pytest.approx(2 * GIB / first["bandwidth"]["value"])
    assert first["fits"]["users"] > second["fits"]["users"] > 0
    assert found["fits"] == first["fits"]


def test_the_documents_table(run: Run) -> None:
    mini = ("--layers", "2", "--heads", "4", "--d", "16", "--dtype", "fp32")
    found = answer(run, *mini, "--context", "64", "--variants")
    rows = [(row["name"], row["bytes_per_token"], row["bytes_total"]) for row in found["variants"]]
    assert rows == [("MHA", 1024, 65536), ("GQA-2", 512, 32768), ("MQA", 256, 16384)]


def test_a_config_by_file_by_folder_and_by_standard_input(run: Run, tmp_path: Path) -> None:
    body = (CONFIGS / "gemma2.json").read_text()
    folder = tmp_path / "my-gemma"
    folder.mkdir()
    (folder / "config.json").write_text(body)
    by_file = answer(run, "--model", str(folder / "config.json"))
    by_folder = answer(run, "--model", str(folder))
    piped = subprocess.run(
        [sys.executable, "-m", "rooflinecli", "kv", "--model", "-", "-f", "json"],
        input=body, capture_output=True, text=True, cwd=ROOT, check=True,
    )  # fmt: skip
    from_stdin = json.loads(piped.stdout)
    assert by_file["model"] == by_folder["model"] == "my-gemma"
    assert by_file["layers"] == by_folder["layers"] == from_stdin["layers"]


def test_what_was_filled_in_is_said_beside_the_data(run: Run) -> None:
    done = run("kv", "--model", str(CONFIGS / "llama_mha.json"), "--format", "json")
    assert "note: num_key_value_heads is not given" in done.stderr
    assert any("num_key_value_heads" in each for each in json.loads(done.stdout)["assumed"])
    done = run("kv", "--model", str(CONFIGS / "unknown.json"), "--format", "json")
    assert done.stderr.startswith("warning: ")
    assert "brandnew" in done.stderr


@pytest.mark.parametrize("shape", ["table", "markdown"])
def test_the_table_says_both_counts(run: Run, shape: str) -> None:
    done = run("kv", "--model", "gpt-oss-20b", "--context", "8192", "--batch", "32", "--page-size", "16", "-f", shape)
    for text in ("12 GiB", "6.094 GiB", "window 128", "block tables", "64 KiB"):
        assert text in done.stdout
    assert "\x1b" not in done.stdout


def test_csv_has_a_row_a_gpu(run: Run) -> None:
    done = run("kv", "--model", "llama-2-7b", "--gpu", "a100", "--gpu", "h100", "-f", "csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["bytes_per_token"] for row in rows] == ["524288", "524288"]
    assert len({row["gpu.id"] for row in rows}) == 2


WRONG = [
    ((), ("--model", "missing")),
    (("--heads", "4", "--d", "16"), ("--layers", "missing")),
    (("--model", "llama-9-7b"), ("--model", "llama-9-7b", "did you mean")),
    (("--model", "no/such/config.json"), ("--model", "no/such/config.json")),
    (("--model", "llama-2-7b", "--context", "0"), ("--context", "0")),
    (("--model", "llama-2-7b", "--context", "-5"), ("--context", "-5")),
    (("--model", "llama-2-7b", "--context", "1.5"), ("--context", "1.5")),
    (("--model", "llama-2-7b", "--batch", "0"), ("--batch", "0")),
    (("--model", "llama-2-7b", "--tp", "3"), ("--tp", "3", "32")),
    (("--model", "llama-2-7b", "--page-size", "0"), ("--page-size", "0")),
    (("--model", "llama-2-7b", "--memory", "80"), ("--memory", "80")),
    (("--model", "llama-2-7b", "--memory", "0 GB"), ("--memory", "0 GB")),
    (("--model", "llama-2-7b", "--memory", "80 GB/s"), ("--memory", "80 GB/s")),
    (("--model", "llama-2-7b", "--kv-dtype", "int3"), ("--kv-dtype", "int3")),
    (("--model", "llama-2-7b", "--dtype", "fp12"), ("--dtype", "fp12")),
    (("--model", "llama-2-7b", "--gpu", "a1000"), ("--gpu", "a1000")),
    (("--model", "llama-2-7b", "--weights-dtype", "fp12", "--memory", "80GB"), ("--weights-dtype", "fp12")),
    (("--model", "llama-2-7b", "--kv-heads", "5"), ("--kv-heads", "5")),
    (("--model", "llama-2-7b", "--heads", "5"), ("--heads", "5", "--model")),
    (("--layers", "2", "--heads", "4", "--kv-heads", "3", "--d", "16"), ("--kv-heads", "3", "4")),
    (("--layers", "99999", "--heads", "4", "--d", "16"), ("--layers", "99999")),
    (("--layers", "2", "--heads", "4", "--d", "16", "--window", "0"), ("--window", "0")),
    (("--layers", "2", "--heads", "4", "--d", "16", "--rope-dim", "8"), ("--rope-dim", "8")),
]


@pytest.mark.parametrize(("arguments", "named"), WRONG, ids=lambda value: " ".join(value) or "nothing")
def test_bad_input_is_one_clear_line(run: Run, arguments: tuple[str, ...], named: tuple[str, ...]) -> None:
    done = run("kv", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    first = done.stderr.splitlines()[0]
    assert first.startswith("error: ")
    assert all(text in first for text in named), first
    assert "Traceback" not in done.stderr


BROKEN = {
    "empty": b"",
    "binary": bytes(range(256)),
    "list": b"[1, 2]",
    "nan": b'{"model_type": "llama", "hidden_size": NaN}',
    "twice": b'{"model_type": "llama", "hidden_size": 8, "hidden_size": 16}',
    "deep": b"[" * 100_000,
    "long": b'{"hidden_size": ' + b"9" * 10_000 + b"}",
    "huge": b" " * (17 * 2**20),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_one_clear_line(run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_bytes(BROKEN[name])
    done = run("kv", "--model", "config.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: --model ")
    assert "Traceback" not in done.stderr
    assert len(done.stderr) < 500


def test_presets_are_not_read_for_a_file() -> None:
    # GIVEN the command run on a file
    code = (
        "import sys, json\n"
        "from rooflinecli.cli.app import main\n"
        f"try:\n    main(['kv', '--model', {str(CONFIGS / 'llama.json')!r}, '-f', 'json'])\n"
        "except SystemExit: pass\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(json.loads(done.stderr.splitlines()[-1]))
    # THEN neither the bundled models nor anything heavy is loaded
    assert not loaded & {"rooflinecli.models.presets", "torch", "numpy", "rich.table", "transformers"}
