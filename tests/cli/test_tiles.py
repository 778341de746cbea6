"""`rooflinecli tiles` as a user runs it."""

from __future__ import annotations

import csv
import io
import json

import pytest

from tests.conftest import Run

GOOD = ("--N", "8192", "--d", "128")
PRACTICE = (*GOOD, "--gpu", "h100", "--working-set", "scores", "--capacity", "sm")


def test_practice_2_in_every_format(run: Run) -> None:
    found = json.loads(run("tiles", *PRACTICE, "-f", "json").stdout)
    assert found["schema"] == "rooflinecli/tiles/1"
    assert found["gpus"][0]["capacity_bytes"] == 228 * 1024
    best = found["tiles"][0]
    assert (best["br"], best["bc"], best["product"], best["bytes"], best["best"]) == (288, 144, 41472, 230400, True)
    rows = list(csv.DictReader(io.StringIO(run("tiles", *PRACTICE, "-f", "csv").stdout)))
    assert len(rows) == len(found["tiles"]) > 100
    assert (rows[0]["br"], rows[0]["limited_by"]) == ("288", "shared memory")
    assert "288 × 144 best" in run("tiles", *PRACTICE, PYTHONIOENCODING="utf-8").stdout
    assert "**288 × 144 best**" in run("tiles", *PRACTICE, "-f", "markdown", PYTHONIOENCODING="utf-8").stdout


def test_s_in_fp32(run: Run) -> None:
    found = json.loads(run("tiles", *PRACTICE[:-2], "--s-dtype", "fp32", "-f", "json").stdout)
    assert (found["tiles"][0]["br"], found["tiles"][0]["bc"]) == (240, 112)


def test_a_size_instead_of_a_gpus(run: Run) -> None:
    done = run("tiles", *PRACTICE[:6], "--working-set", "scores", "--sram", "228 KiB", "-f", "json")
    assert json.loads(done.stdout)["tiles"][0]["product"] == 41472


def test_several_gpus_of_which_one_has_no_room(run: Run) -> None:
    done = run("tiles", "--N", "1024", "--d", "1024", "--gpu", "t4", "--gpu", "h100", "-f", "json")
    found = json.loads(done.stdout)
    assert [gpu["refusal"] is None for gpu in found["gpus"]] == [False, True]
    assert {tile["gpu"] for tile in found["tiles"]} == {"h100-sxm5-80gb"}


def test_a_table_shows_the_first(run: Run) -> None:
    done = run("tiles", *GOOD, "--top", "3")
    assert "The first 3 of 135" in done.stdout
    assert sum("KiB " in line and " MB" in line for line in done.stdout.split("\n")) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--d", "128"), "--N is missing"),
        ((*GOOD, "--by", "size"), "--by size: must be one of intensity, sm-bytes, product, occupancy"),
        ((*GOOD, "--working-set", "all"), "--working-set all: must be one of kernel, scores, full"),
        ((*GOOD, "--capacity", "l2"), "--capacity l2: must be one of block, sm"),
        ((*GOOD, "--sram", "192"), "--sram 192: '192' is not a quantity"),
        ((*GOOD, "--sram", "0 KiB"), "--sram 0 KiB: must be more than nothing"),
        ((*GOOD, "--step", "0"), "--step 0: must be at least 1"),
        ((*GOOD, "--step", "x3"), "--step 'x3' is not a whole number"),
        ((*GOOD, "--stages", "0"), "--stages 0: must be at least 1"),
        ((*GOOD, "--top", "-1"), "--top -1: must be at least 1"),
        ((*GOOD, "--br", "1.5"), "--br '1.5' is not a whole number"),
        ((*GOOD, "--s-dtype", "fp32"), "--s-dtype fp32: kernels hold S in registers"),
        ((*GOOD, "--gpu", "a1000"), "--gpu a1000"),
        ((*GOOD, "--gpu", "mi300x", "--by", "occupancy"), "--by occupancy: the profile of mi300x"),
        ((*GOOD, "--br", "512", "--bc", "512"), "--br 512 --bc 512: a tile of 512 x 512 needs 655360 B on chip"),
        (("--N", "64", "--d", "4096"), "--d 4096: a tile of 16 x 16 needs 655360 B"),
        (
            (*GOOD, "--gpu", "h100", "--br", "256", "--bc", "128"),
            "--br 256 --bc 128: a tile of 256 x 128 needs 298 reg",
        ),
        ((*GOOD, "--sram", "1TiB", "--working-set", "scores"), "--step 16: more than 20000 tiles fit"),
        ((*GOOD, "--format", "xml"), "--format xml"),
    ],
    ids=lambda value: " ".join(value)[-40:],
)
def test_bad_input_is_one_clear_line(run: Run, arguments: tuple[str, ...], said: str) -> None:
    done = run("tiles", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.split("\n\nhint: ")[0].strip().split("\n")) == 1
