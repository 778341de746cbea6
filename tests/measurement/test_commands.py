"""The commands as a user meets them on a machine without a GPU, and with files made elsewhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import Run, run  # noqa: F401  # a fixture

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests/data/ncu"
CASE = ("--N", "2048", "--d", "128", "--heads", "32", "--gpu", "h200", "--br", "128", "--bc", "128")
NO_GPU = pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")


def is_one_line(done: subprocess.CompletedProcess[str], code: int) -> bool:
    lines = done.stderr.rstrip("\n").split("\n")
    hinted = len(lines) == 1 or (len(lines) == 3 and lines[2].startswith("hint: "))
    return done.returncode == code and done.stdout == "" and lines[0].startswith("error: ") and hinted


@NO_GPU
@pytest.mark.parametrize("arguments", [("measure",), ("calibrate",), ("measure", "--N", "64", "--d", "64")])
def test_without_a_gpu(run: Run, arguments: tuple[str, ...]) -> None:  # noqa: F811
    done = run(*arguments)
    assert is_one_line(done, 3), done.stderr
    assert "GPU" in done.stderr


def test_without_torch_it_says_what_to_install(run: Run, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    done = run("measure", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert is_one_line(done, 3), done.stderr
    assert "torch" in done.stderr
    assert "pip install 'rooflinecli[measure]'" in done.stderr


def test_without_the_profiler(run: Run) -> None:  # noqa: F811
    done = run("verify", PATH="")
    assert is_one_line(done, 3), done.stderr
    assert "ncu" in done.stderr
    assert "--import" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("measure", "--suite", "huge"), ("suite", "huge", "quick")),
        (("measure", "--suite", "quick", "--N", "64", "--d", "64"), ("--suite",)),
        (("measure", "--N", "0", "--d", "64"), ("--N", "0")),
        (("measure", "--check-only", "-a", "flash9"), ("flash9", "flash2")),
        (
            ("measure", "--check-only", "--N", "64", "--d", "999", "--kv-dtype", "q8_0", "--d", "32"),
            ("no kernel runs",),
        ),
        (("measure", "--check-only", "--plot"), ("--plot", "--check-only")),
        (("measure", "--plot", "points.gif"), ("--plot points.gif", ".svg")),
        (("verify", "--tolerance", "5"), ("--tolerance", "5", "%")),
        (("verify", "--replay", "graph"), ("--replay", "graph", "range")),
        (("verify", "--import", "nowhere.csv", *CASE), ("nowhere.csv",)),
        (("verify", "--import", str(DATA / "wide_no_unit.csv"), *CASE), ("wide_no_unit.csv", "no unit")),
        (
            ("verify", "--import", str(DATA / "wide_base.csv"), "--N", "64", "--d", "64", "--gpu", "a100"),
            ("8.0", "9.0"),
        ),
        (
            ("verify", "--import", str(DATA / "wide_base.csv"), *CASE, "--kernel-name", "gemm"),
            ("gemm", "flash_forward"),
        ),
        (("verify", "--import", str(DATA / "wide_base.csv"), *CASE, "--kernel-name", "("), ("regular expression",)),
        (("compare", "one.json"), ("two files",)),
        (("compare", "one.json", "two.json", "--fail-if", "seconds > 5"), ("--fail-if", "seconds > 5")),
        (("compare", "one.json", "two.json"), ("one.json",)),
    ],
    ids=lambda value: " ".join(Path(part).name for part in value),
)
def test_bad_input_is_one_clear_line(run: Run, arguments: tuple[str, ...], named: tuple[str, ...]) -> None:  # noqa: F811
    done = run(*arguments)
    assert is_one_line(done, 2), done.stderr
    assert all(part in done.stderr for part in named)


@pytest.mark.parametrize("name", ["wide_base", "wide_scaled", "wide_dots", "long", "wide_spreadsheet"])
def test_counters_that_agree(run: Run, name: str) -> None:  # noqa: F811
    done = run("verify", "--import", str(DATA / f"{name}.csv"), *CASE, "--format", "json")
    assert done.returncode == 0, done.stderr
    [result] = json.loads(done.stdout)["results"]
    rows = {row["quantity"]: row for row in result["rows"]}
    assert rows["sm.read"]["predicted"] == rows["sm.read"]["counted"] == 553_648_128
    assert rows["flops.executed"]["ratio"] == 1
    assert rows["hbm.read"]["agrees"]
    assert rows["seconds"]["counted"] == pytest.approx(102.432e-6)
    assert result["passed"]


def test_counters_that_disagree_end_with_1_and_say_what_it_usually_means(run: Run) -> None:  # noqa: F811
    done = run("verify", "--import", str(DATA / "wide_base.csv"), *CASE[:-4], "--br", "64", "--bc", "128")
    assert done.returncode == 1
    assert done.stderr.startswith("error: flash2")
    assert "sm.read" in done.stderr
    assert "multicast" in done.stdout
    # half of what is predicted is far beyond half a percent, and within sixty
    wide = run("verify", "--import", str(DATA / "wide_base.csv"), *CASE[:-4], "--br", "64", "--tolerance", "60%")
    assert wide.returncode == 0


def test_a_counter_that_is_not_there_is_not_a_failure_and_not_zero(run: Run) -> None:  # noqa: F811
    done = run("verify", "--import", str(DATA / "wide_other_chip.csv"), *CASE, "--allow-mismatch", "--format", "json")
    [result] = json.loads(done.stdout)["results"]
    rows = {row["quantity"]: row for row in result["rows"]}
    assert rows["hbm.read"]["counted"] == 50_401_280  # under the name it has there
    assert result["unused_metrics"] == ["zz__made_up.sum"]
    holes = run("verify", "--import", str(DATA / "wide_holes.csv"), *CASE, "--format", "json")
    [result] = json.loads(holes.stdout)["results"]
    assert {row["quantity"]: row["counted"] for row in result["rows"]}["hbm.read"] is None
    assert "hbm.read" in result["missing"]


def test_repeats_are_not_added_up_unless_asked(run: Run) -> None:  # noqa: F811
    picked = ("verify", "--import", str(DATA / "wide_repeats.csv"), *CASE, "--kernel-name", "flash", "-f", "json")
    done = run(*picked)
    assert done.returncode == 0, done.stderr
    rows = {row["quantity"]: row for row in json.loads(done.stdout)["results"][0]["rows"]}
    assert rows["seconds"]["counted"] == pytest.approx(103e-6)
    summed = run(*picked, "--sum")
    assert summed.returncode == 1
    rows = {row["quantity"]: row for row in json.loads(summed.stdout)["results"][0]["rows"]}
    assert rows["sm.read"]["ratio"] == pytest.approx(3)


def test_checking_on_a_cpu_claims_no_times(run: Run, tmp_path: Path) -> None:  # noqa: F811
    done = run("measure", "--check-only", "-a", "flash2", "--N", "40", "--d", "16", "--dtype", "fp32", "-o", "c.json")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "c.json").read_text())
    assert found["schema"] == "rooflinecli/measure/1"
    assert found["points"]
    for point in found["points"]:
        assert (point["status"], point["seconds"], point["samples"]) == ("checked", None, [])
        assert point["correctness"]["passed"]
        assert 0 < point["correctness"]["error"] < 1e-5


def test_an_interruption_writes_a_whole_file_and_ends_with_130(tmp_path: Path) -> None:
    # GIVEN a check of every kernel, whose second case never ends until somebody presses Ctrl-C
    script = tmp_path / "slow.py"
    script.write_text(
        "import sys, time\n"
        "from rooflinecli.measurement import runner\n"
        "real = runner.Runner._case\n"
        "seen = []\n"
        "def slow(self, case, announce):\n"
        "    seen.append(case)\n"
        "    if len(seen) == 2:\n"
        "        open('waiting', 'w').close()\n"
        "        time.sleep(60)\n"
        "    yield from real(self, case, announce)\n"
        "runner.Runner._case = slow\n"
        "from rooflinecli.cli.app import main\n"
        "main(['measure', '--check-only', '-a', 'flash2', '-o', 'kept.json'])\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, str(script)], cwd=tmp_path, env=environment, stderr=subprocess.PIPE)
    for _ in range(600):
        if (tmp_path / "waiting").exists() or process.poll() is not None:
            break
        time.sleep(0.1)
    # WHEN they do
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=30)
    # THEN the first case is in a file that is whole, and nothing else lies about
    assert process.returncode == 130, complaint
    assert b"Traceback" not in complaint
    found = json.loads((tmp_path / "kept.json").read_text())
    assert found["interrupted"]
    assert [point["status"] for point in found["points"]] == ["checked"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.json", "slow.py", "waiting"]
