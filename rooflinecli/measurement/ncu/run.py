"""Running cases under Nsight Compute and giving each the launches that are its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rooflinecli.errors import InputError, UnavailableError
from rooflinecli.measurement.ncu.metrics import available, resolve
from rooflinecli.measurement.ncu.reader import Launch, parse_csv
from rooflinecli.measurement.suites import Case

Replay = Literal["kernel", "range"]
# Algorithms that take several kernels, with intermediates that may stay in the L2 between them.
CHAINS = ("naive", "decode", "paged", "mla", "backward")
_HINT = "Nsight Compute comes with the CUDA toolkit; --ncu names the program, --import reads a CSV made elsewhere"
# Why counters are refused, as the tool says it, and what helps.
_REFUSALS = {
    "ERR_NVGPUCTRPERM": "the driver lets only administrators read counters: run as root, or let every user "
    "(NVreg_RestrictProfilingToAdminUsers=0)",
    "LibraryNotLoaded": "the profiler cannot be loaded on this machine",
    "No kernels were profiled": "no kernel was profiled",
}


@dataclass(frozen=True, slots=True)
class Profiled:
    """A case as it ran: its launches, its configuration, or the reason why there is nothing."""

    case: Case
    launches: tuple[Launch, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    replay: Replay = "kernel"
    reason: str | None = None


class Ncu:
    """The profiler: asked once which metrics the GPU here has."""

    def __init__(self, program: str | None = None) -> None:
        self.program = find(program)
        self._known: set[str] | None = None

    def version(self) -> str:
        """The tool's version, as it says it."""
        said = self._call(["--version"])
        found = re.search(r"Version\s+(\S+)", said)
        return found[1] if found else said.strip().splitlines()[-1] if said.strip() else "unknown"

    def known(self, listing: str | None = None) -> set[str]:
        """Names of the metrics of the GPU here, as the tool lists them."""
        if self._known is None:
            self._known = available(self._call(["--query-metrics"]) if listing is None else listing)
        return self._known

    def profile(self, cases: Sequence[Case], replay: Replay) -> tuple[list[Profiled], str]:
        """Run the cases in one process under the profiler; also what the tool printed.

        Raises:
            UnavailableError: the tool could not read counters; the message is the tool's.
        """
        metrics = sorted({m for case in cases for m in wanted(self.known(), case.workload.dtype)})
        with tempfile.TemporaryDirectory() as folder:
            plan, manifest, log = (Path(folder) / name for name in ("plan.json", "manifest.json", "log.csv"))
            plan.write_text(json.dumps([{"kernel": case.kernel, "workload": case.workload.echo()} for case in cases]))
            told = self._call(command(metrics, replay, log, plan, manifest), log)
            text = log.read_text(errors="replace") if log.exists() else ""
            if not manifest.exists():
                raise UnavailableError(f"Nsight Compute did not run the cases: {_reason(text + told)}", _HINT)
            ran = json.loads(manifest.read_text())
        if any("error" not in one for one in ran) and "Metric" not in text and '"ID"' not in text:
            raise UnavailableError(f"Nsight Compute read no counters: {_reason(text + told)}", _HINT)
        return assign(cases, ran, parse_csv(text) if '"ID"' in text else [], replay), text

    def _call(self, arguments: Sequence[str], log: Path | None = None) -> str:
        root = Path(__file__).parents[3]
        environment = {**os.environ, "LC_ALL": "C"}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH", "")]))
        done = subprocess.run(
            [self.program, *arguments], capture_output=True, text=True, env=environment, check=False, errors="replace"
        )
        if done.returncode and log is None:
            raise UnavailableError(f"{self.program} failed: {_reason(done.stdout + done.stderr)}", _HINT)
        return done.stdout + done.stderr


def find(program: str | None) -> str:
    """Where Nsight Compute is: the program given, or `ncu` on the PATH, or where CUDA installs it.

    Raises:
        UnavailableError: nowhere.
        InputError: the program given is not one.
    """
    if program is not None:
        found = shutil.which(program)
        if found is None:
            raise InputError(f"--ncu {program}: is not a program")
        return found
    homes = sorted(Path("/opt/nvidia/nsight-compute").glob("*/ncu"), reverse=True)
    for candidate in ("ncu", "/usr/local/cuda/bin/ncu", *map(str, homes)):
        found = shutil.which(candidate)
        if found is not None:
            return found
    raise UnavailableError("verify needs Nsight Compute (ncu), which is not on the PATH", _HINT)


def command(metrics: Sequence[str], replay: Replay, log: Path, plan: Path, manifest: Path) -> list[str]:
    """The arguments of the profiler. Clocks are left as they are; the cache is emptied before each replay."""
    # A range is replayed by running the program again: the tool cannot record every launch to replay it itself.
    mode, marked = ("kernel", ["--profile-from-start", "off"]) if replay == "kernel" else ("app-range", [])
    return [
        "--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(metrics),
        "--clock-control", "none", "--cache-control", "all", "--replay-mode", mode, *marked, "--log-file", str(log),
        sys.executable, "-m", "rooflinecli.measurement.ncu.case", str(plan), str(manifest),
    ]  # fmt: skip


def wanted(known: set[str], dtype: str) -> list[str]:
    """Every metric that says something of a computation in `dtype`."""
    return [metric for counter in resolve(known, dtype)[0].values() for metric in counter.metrics]


def assign(
    cases: Sequence[Case], told: Sequence[Mapping[str, Any]], launches: Sequence[Launch], replay: Replay
) -> list[Profiled]:
    """Give each case its launches, which come in the order the cases ran.

    A range is one launch a case. Of single kernels a case takes those up to the last of its own, by name; what
    runs before them (a memory fill) is the case's too.
    """
    left = list(launches)
    found = []
    for case, one in zip(cases, told, strict=True):
        if "error" in one:
            found.append(Profiled(case, replay=replay, reason=str(one["error"])))
            continue
        own, left = (left[:1], left[1:]) if replay == "range" else _take(left, one["kernels"])
        reason = None if own else "the profiler shows no launch of it"
        found.append(Profiled(case, tuple(own), one["config"], replay, reason))
    return found


def _take(left: Sequence[Launch], kernels: Sequence[str]) -> tuple[list[Launch], list[Launch]]:
    expected = list(kernels)
    for index, launch in enumerate(left):
        if expected and expected[0] in launch.kernel:
            expected.pop(0)
        if not expected:
            return list(left[: index + 1]), list(left[index + 1 :])
    return [], list(left)


def _reason(said: str) -> str:
    for mark, meaning in _REFUSALS.items():
        if mark in said:
            return meaning
    lines = [line.strip() for line in said.splitlines()]
    for index, line in enumerate(lines):
        if line.startswith(("==ERROR==", "Error", "error")):
            told = line.removeprefix("==ERROR==").strip()
            follow = lines[index + 1] if told.endswith(":") and index + 1 < len(lines) else ""
            return f"{told} {follow.removeprefix('==ERROR==').strip()}".strip()
    return "it said nothing"
