"""Running the profiler: what it is told, what it says when it cannot, and whose launches are whose."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from rooflinecli.errors import InputError, UnavailableError
from rooflinecli.measurement.ncu.reader import Launch
from rooflinecli.measurement.ncu.run import Ncu, assign, command, find
from rooflinecli.measurement.suites import Case
from rooflinecli.workload import Workload
from tests.measurement.test_ncu_metrics import LISTING

DATA = Path(__file__).parents[1] / "data/ncu"
FORWARD = Case("flash_forward", Workload(heads=32, n_q=2048, d=128))
BACKWARD = Case("flash_backward", Workload(heads=32, n_q=2048, d=128))
CONFIG = {"br": 128, "bc": 64, "warps": 4, "stages": 2, "splits": 1, "pack_gqa": False, "variant": "triton"}

FAKE = """#!{python}
import json, sys
arguments = sys.argv[1:]
if "--version" in arguments:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.1.0 (build 36398880)")
elif "--query-metrics" in arguments:
    print(open({listing!r}).read())
else:
    json.dump(arguments, open({told!r}, "w"))
    open(arguments[arguments.index("--log-file") + 1], "w").write(open({csv!r}).read())
    {manifest}
"""


@pytest.fixture
def tool(tmp_path: Path) -> Any:
    """`tool(csv, manifest)` is a profiler that prints this CSV and says this of the cases."""

    def make(csv: str, told: list[dict[str, Any]] | None) -> tuple[Ncu, Path]:
        (tmp_path / "listing").write_text(LISTING)
        (tmp_path / "csv").write_text(csv)
        manifest = "pass" if told is None else f"open(arguments[-1], 'w').write({json.dumps(told)!r})"
        program = tmp_path / "ncu"
        program.write_text(
            FAKE.format(
                python=sys.executable, listing=str(tmp_path / "listing"), csv=str(tmp_path / "csv"),
                told=str(tmp_path / "told"), manifest=manifest,
            )
        )  # fmt: skip
        program.chmod(0o755)
        return Ncu(str(program)), tmp_path / "told"

    return make


def launch(kernel: str, index: int = 0) -> Launch:
    return Launch(str(index), kernel, "", "", "9.0", {})


def test_a_case_from_start_to_end(tool: Any) -> None:
    csv = (DATA / "wide_base.csv").read_text()
    ncu, told = tool(csv, [{"config": CONFIG, "kernels": ["flash_forward"]}])
    [found], text = ncu.profile([FORWARD], "kernel")
    assert text == csv
    assert ncu.version() == "2025.3.1.0"
    assert found.reason is None
    assert [one.kernel[:13] for one in found.launches] == ["flash_forward"]
    # The tool is told to leave the clocks alone and to count only what the chip has
    arguments = json.loads(told.read_text())
    assert arguments[arguments.index("--clock-control") + 1] == "none"
    assert arguments[arguments.index("--print-units") + 1] == "base"
    asked = arguments[arguments.index("--metrics") + 1].split(",")
    assert "dram__bytes_read.sum" in asked
    assert "sm__ops_path_tensor_op_hgmma_src_fp16.sum" in asked
    assert not any("dram__bytes_op_read" in metric for metric in asked)


def test_a_refusal_is_said_in_one_line_with_what_helps(tool: Any) -> None:
    refusal = (
        "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters\n"
    )
    ncu, _ = tool(refusal, [{"config": CONFIG, "kernels": ["flash_forward"]}])
    with pytest.raises(UnavailableError, match="administrators"):
        ncu.profile([FORWARD], "kernel")


def test_a_program_that_never_ran(tool: Any) -> None:
    ncu, _ = tool("==ERROR== The application returned an error code (1).\n", None)
    with pytest.raises(UnavailableError, match="returned an error code"):
        ncu.profile([FORWARD], "kernel")


def test_a_case_that_could_not_run_does_not_spoil_the_others(tool: Any) -> None:
    csv = (DATA / "wide_base.csv").read_text()
    ncu, _ = tool(csv, [{"error": "head dims over 256"}, {"config": CONFIG, "kernels": ["flash_forward"]}])
    found, _ = ncu.profile([BACKWARD, FORWARD], "kernel")
    assert found[0].reason == "head dims over 256"
    assert len(found[1].launches) == 1


def test_fills_before_a_kernel_are_the_cases_own() -> None:
    launches = [launch(name, index) for index, name in enumerate(["fill", "delta", "main", "convert", "fill", "fwd"])]
    told = [{"config": CONFIG, "kernels": ["delta", "main", "convert"]}, {"config": CONFIG, "kernels": ["fwd"]}]
    one, two = assign([BACKWARD, FORWARD], told, launches, "kernel")
    assert [each.kernel for each in one.launches] == ["fill", "delta", "main", "convert"]
    assert [each.kernel for each in two.launches] == ["fill", "fwd"]


def test_a_range_is_one_launch_a_case() -> None:
    told = [{"config": CONFIG, "kernels": ["delta", "main"]}, {"config": CONFIG, "kernels": ["fwd"]}]
    one, two = assign([BACKWARD, FORWARD], told, [launch("range", 0), launch("range", 1)], "range")
    assert [each.id for each in (*one.launches, *two.launches)] == ["0", "1"]


def test_a_case_without_its_kernels_says_so() -> None:
    [found] = assign([FORWARD], [{"config": CONFIG, "kernels": ["fwd"]}], [launch("other")], "kernel")
    assert found.reason is not None
    assert found.launches == ()


def test_kernel_by_kernel_and_as_a_range(tmp_path: Path) -> None:
    paths = (tmp_path / "log", tmp_path / "plan", tmp_path / "manifest")
    assert "--profile-from-start" in command(["m.sum"], "kernel", *paths)
    ranged = command(["m.sum"], "range", *paths)
    assert ranged[ranged.index("--replay-mode") + 1] == "app-range"
    assert "--profile-from-start" not in ranged


def test_finding_the_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="--ncu nothing"):
        find("nothing")
    program = tmp_path / "ncu"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert find(None) == str(program)
