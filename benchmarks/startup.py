"""What one `bytes` call costs over an empty Typer application of the same version, start-up included.

Alternates the two commands so that both see the same machine, and prints the medians and their difference:

    python benchmarks/startup.py [--runs 20] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EMPTY = """\
import typer
app = typer.Typer()
@app.command()
def main() -> None:
    pass
app()
"""
LIMIT_MS = 60


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.py"
        empty.write_text(EMPTY)
        commands = {
            "empty": [sys.executable, str(empty)],
            "bytes": [sys.executable, "-m", "rooflinecli", "bytes", "--N", "8192", "--d", "128", "--format", "json"],
        }
        for command in commands.values():  # fill the disk cache and write the bytecode
            _milliseconds(command)
        samples: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(options.runs):
            for name, command in commands.items():
                samples[name].append(_milliseconds(command))
    medians = {name: statistics.median(values) for name, values in samples.items()}
    extra = medians["bytes"] - medians["empty"]
    print(f"empty Typer application  {medians['empty']:7.1f} ms (median of {options.runs})")
    print(f"rooflinecli bytes        {medians['bytes']:7.1f} ms")
    print(f"difference               {extra:7.1f} ms, {'within' if extra <= LIMIT_MS else 'OVER'} {LIMIT_MS} ms")
    if options.json:
        options.json.write_text(json.dumps({"samples_ms": samples, "medians_ms": medians, "extra_ms": extra}, indent=2))


def _milliseconds(command: list[str]) -> float:
    # As users run it: with bytecode, whatever this shell says of writing it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return (time.perf_counter() - start) * 1e3


if __name__ == "__main__":
    main()
