"""Files that are no profiles: refused in one line with a position, fast and in little memory."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rooflinecli.hardware import load_profile

GOOD = Path(load_profile("a100").origin).read_text()
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(8)
)
# What is written -> what the line must say.
CASES: dict[str, tuple[str | bytes, str]] = {
    "alias bomb": (BOMB, "aliases"),
    "python tag": (GOOD.replace("vendor: nvidia", "vendor: !!python/object/apply:os.system [ls]"), "tag"),
    "duplicate key": (GOOD + "vendor: amd\n", "vendor"),
    "tab": ("id:\n\tname: x\n", "YAML"),
    "empty": ("", "no fields"),
    "a list": ("- a\n- b\n", "no fields"),
    "binary": (b"\x00\x01\xff\xfe\x80PNG", "UTF-8"),
    "control characters": ("id: a\x00b\n", "YAML"),
    "wrong unit": (GOOD.replace("1555.2 GB/s", "1555.2 GB"), "dram.bandwidth"),
    "no unit": (GOOD.replace("1555.2 GB/s", "1555.2"), "dram.bandwidth"),
    "decimal comma": (GOOD.replace("1555.2 GB/s", '"1555,2 GB/s"'), "dram.bandwidth"),
    "negative": (GOOD.replace("1555.2 GB/s", "-1555.2 GB/s"), "dram.bandwidth"),
    "zero": (GOOD.replace("1555.2 GB/s", "0 GB/s"), "dram.bandwidth"),
    "nan": (GOOD.replace("1555.2 GB/s", ".nan"), "dram.bandwidth"),
    "infinity": (GOOD.replace("1555.2 GB/s", ".inf"), "dram.bandwidth"),
    "unknown key": (GOOD + "bandwith: 3 GB/s\n", "bandwith"),
    "unknown peak": (GOOD.replace("tf32_tensor", "tf64_tensor"), "tf64_tensor"),
    "no source": (GOOD.replace("value: 400 W, source: a100wp", "value: 400 W"), "power"),
    "unknown source": (GOOD.replace("value: 400 W, source: a100wp", "value: 400 W, source: rumour"), "rumour"),
    "a bare figure": (GOOD.replace("power: {value: 400 W, source: a100wp}", "power: 400 W"), "power"),
    "fraction of an SM": (GOOD.replace("sm_count: {value: 108", "sm_count: {value: 108.5"), "sm_count"),
    "missing field": (GOOD.replace("vendor: nvidia\n", ""), "vendor"),
    "deep": ("a: " + "[" * 500 + "]" * 500, "nested"),
}


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (700 << 20, 700 << 20))


def validate(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "rooflinecli", "profiles", "validate", str(path)], capture_output=True,
                          text=True, check=False, cwd=Path(__file__).parents[2], preexec_fn=limited)  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_refused_in_one_line_with_a_position(tmp_path: Path, name: str) -> None:
    body, said = CASES[name]
    file = tmp_path / "card.yaml"
    file.write_bytes(body if isinstance(body, bytes) else body.encode())
    done = validate(file)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    where, message = done.stderr.split(f"{file}:")
    assert where == "error: "
    line, column, text = message.split(":", 2)
    assert int(line) >= 1
    assert int(column) >= 1
    assert said in text


def test_the_position_is_where_the_mistake_stands(tmp_path: Path) -> None:
    file = tmp_path / "card.yaml"
    file.write_text(GOOD.replace("1555.2 GB/s", "1555.2 GB"))
    number = next(i for i, line in enumerate(GOOD.split("\n"), 1) if "1555.2" in line)
    assert f"{file}:{number}:" in validate(file).stderr


def test_a_hundred_megabytes_are_not_read(tmp_path: Path) -> None:
    file = tmp_path / "card.yaml"
    with file.open("wb") as stream:
        stream.truncate(100 << 20)
    start = time.monotonic()
    done = validate(file)
    assert done.returncode == 2
    assert "larger than" in done.stderr
    assert time.monotonic() - start < 30  # a hang, not a benchmark


def test_a_sparse_figure_in_a_dense_field_is_doubted(tmp_path: Path) -> None:
    file = tmp_path / "card.yaml"
    file.write_text(GOOD.replace("fp16_tensor: {value: 312 TFLOP/s", "fp16_tensor: {value: 624 TFLOP/s"))
    done = validate(file)
    assert done.returncode == 0
    assert "sparse" in done.stderr
    assert "peaks.fp16_tensor" in done.stderr
