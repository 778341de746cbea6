"""Running the command line as a user does: a process of its own, nothing inherited that styles output."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """`run("bytes", "--N", "8")` -> the finished process; the working folder is an empty one."""

    def call(*arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
        root = str(Path(__file__).parents[1])
        return subprocess.run(
            [sys.executable, "-m", "rooflinecli", *arguments],
            capture_output=True,
            input=stdin,
            text=True,
            cwd=tmp_path,
            env={**kept, "PYTHONPATH": root, **environment},
            check=False,
        )

    return call
