"""Bad input: one line that names the option and the value, nothing on stdout, the right exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Run

GOOD = ("--N", "1024", "--d", "64")
CASES = [
    # sizes: zero, negative, fractional, absurd, not numbers
    (("--N", "0", "--d", "64"), ("--N", "0", "at least 1")),
    (("--N", "-8", "--d", "64"), ("--N", "-8", "at least 1")),
    (("--N", "2.5", "--d", "64"), ("--N", "2.5", "whole number")),
    (("--N", "2199023255552", "--d", "64"), ("--N", "2199023255552", "2^40")),
    (("--N", "nan", "--d", "64"), ("--N", "nan", "whole number")),
    (("--N", "inf", "--d", "64"), ("--N", "inf", "whole number")),
    (("--N", "1e999", "--d", "64"), ("--N", "1e999", "whole number")),
    (("--N", "", "--d", "64"), ("--N", "whole number")),
    (("--N", "8x", "--d", "64"), ("--N", "8x", "whole number")),
    (("--N", "1024", "--d", "0"), ("--d", "0", "at least 1")),
    ((*GOOD, "--batch", "0"), ("--batch", "0")),
    ((*GOOD, "--heads", "-1"), ("--heads", "-1")),
    ((*GOOD, "--N-kv", "0"), ("--N-kv", "0")),
    ((*GOOD, "--d-v", "0.5"), ("--d-v", "0.5")),
    ((*GOOD, "--br", "0"), ("--br", "0")),
    ((*GOOD, "--bc", "-4"), ("--bc", "-4")),
    ((*GOOD, "--splits", "0"), ("--splits", "0")),
    ((*GOOD, "--page-size", "0"), ("--page-size", "0")),
    # what does not go together
    ((*GOOD, "--heads", "8", "--kv-heads", "3"), ("--kv-heads", "3", "8")),
    ((*GOOD, "--window", "0"), ("--window", "0")),
    ((*GOOD, "--br", "4096", "--bc", "4096"), ("--br 4096", "--bc 4096", "1572864", "166912")),
    ((*GOOD, "--kv-dtype", "q8_0", "--d", "80"), ("--d", "80", "q8_0", "32")),
    # formats
    ((*GOOD, "--dtype", "fp12"), ("--dtype", "fp12", "did you mean")),
    ((*GOOD, "--dtype", "q4_0"), ("--dtype", "q4_0", "KV cache")),
    ((*GOOD, "--kv-dtype", "int3"), ("--kv-dtype", "int3", "did you mean")),
    ((*GOOD, "--dtype", "fp8"), ("--dtype", "fp8", "a100-sxm4-40gb", "no ceiling")),
    # names
    ((*GOOD, "--gpu", "a1000"), ("--gpu", "a1000", "a100")),
    ((*GOOD, "--gpu", "nothing.yaml"), ("--gpu", "nothing.yaml")),
    ((*GOOD, "--algorithm", "flash3"), ("--algorithm", "flash3", "flash2")),
    ((*GOOD, "--exclude", "X"), ("--exclude", "X")),
    ((*GOOD, "--exclude", "naiv:O"), ("--exclude", "naiv", "did you mean")),
    ((*GOOD, "--format", "xml"), ("--format", "xml", "json")),
    ((*GOOD, "--memory-model", "l3"), ("--memory-model", "l3", "textbook")),
    # usage
    (("--d", "64"), ("--N", "missing")),
    (("--N", "64"), ("--d", "missing")),
    ((*GOOD, "--nope"), ("--nope",)),
    ((*GOOD, "stray"), ("stray",)),
    ((*GOOD, "--output", "no/such/folder/x.json"), ("--output", "no/such/folder")),
]


@pytest.mark.parametrize(("arguments", "named"), CASES, ids=lambda value: " ".join(value))
def test_bad_input_is_one_clear_line(run: Run, arguments: tuple[str, ...], named: tuple[str, ...]) -> None:
    done = run("bytes", *arguments)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    complaint, *rest = done.stderr.rstrip("\n").split("\n")
    assert complaint.startswith("error: ")
    assert rest == [] or (rest[0] == "" and rest[1].startswith("hint: ") and len(rest) == 2)
    for part in named:
        assert part in done.stderr.split("hint:")[0] or part in ("did you mean", "json", "textbook")
        assert part in done.stderr
    assert "Traceback" not in done.stderr


def test_unknown_command(run: Run) -> None:
    done = run("byte")
    assert (done.returncode, done.stdout) == (2, "")
    assert "byte" in done.stderr
    assert done.stderr.startswith("error: ")


@pytest.mark.parametrize("command", [(), ("profiles",), ("models",)], ids=lambda command: " ".join(command))
def test_no_command_gets_the_help(run: Run, command: tuple[str, ...]) -> None:
    done = run(*command)
    assert (done.returncode, done.stderr) == (2, "")
    assert "Usage: rooflinecli" in done.stdout


def test_an_existing_file_is_replaced_only_with_force(run: Run, tmp_path: Path) -> None:
    # GIVEN a file somebody needs
    kept = tmp_path / "result.json"
    kept.write_text("precious")
    # WHEN a result is written there
    done = run("bytes", *GOOD, "-o", "result.json")
    # THEN it stays, until --force is given
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert kept.read_text() == "precious"
    assert run("bytes", *GOOD, "-o", "result.json", "--force").returncode == 0
    assert kept.read_text().startswith("{")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["result.json"]


def test_a_closed_pipe_is_silent(tmp_path: Path) -> None:
    import subprocess
    import sys

    command = f"{sys.executable} -m rooflinecli bytes --N 1024 --d 64 | head -c 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False,
                          cwd=Path(__file__).parents[2])  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.rstrip().endswith("0")
