"""The rooms import one way, and the base command imports nothing heavy."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LEAVES = {"errors", "dtypes", "units", "workload", "sweep"}
# Modules that answer a question about a whole model or a whole sweep, as `calculator` does about one attention call.
WHOLE = {"capacity", "step", "grid", "layers"}
# Room -> rooms it may import, besides itself and the leaves. The arrows point up this list.
MAY_IMPORT: dict[str, set[str]] = {
    "hardware": set(),
    "models": {"hardware"},
    "accounting": set(),
    "memory": {"accounting", "hardware"},
    "roofline": {"accounting", "memory", "hardware"},
    "calculator": {"accounting", "memory", "hardware", "roofline"},
    "layers": {"accounting", "hardware", "calculator", "models"},
    "grid": {"accounting", "hardware", "calculator"},
    "capacity": {"hardware", "models"},
    "step": {"accounting", "hardware", "models", "roofline"},
    "measurement": {"accounting", "memory", "hardware", "roofline", "calculator", "kernels", "models"},
    "report": {"accounting", "memory", "hardware", "roofline", "calculator", "measurement", "models"} | WHOLE,
    "cli": {"accounting", "memory", "hardware", "roofline", "calculator", "measurement", "models"}
    | WHOLE
    | {"report", "kernels"},
    "kernels": {"accounting"},
}


def modules() -> list[Path]:
    return sorted([*(ROOT / "rooflinecli").rglob("*.py"), *(ROOT / "kernels").rglob("*.py")])


def room_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return "kernels" if parts[0] == "kernels" else parts[1]


def imports_of(path: Path) -> set[str]:
    """Rooms a module imports, wherever the import stands; imports for type checking only do not count."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    rooms: set[str] = set()
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("rooflinecli.")}
    return {room for room in rooms if room in MAY_IMPORT or room in LEAVES}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_arrows_point_one_way(path: Path) -> None:
    room = room_of(path)
    imported = imports_of(path)
    if room in LEAVES:
        assert imported <= LEAVES
    elif room in MAY_IMPORT:
        assert imported <= MAY_IMPORT[room] | LEAVES | {room}


def test_the_base_command_imports_nothing_heavy() -> None:
    code = (
        "import sys, json\n"
        "from rooflinecli.cli.app import main\n"
        "try:\n    main(['bytes', '--N', '8192', '--d', '128', '--format', 'json'])\n"
        "except SystemExit: pass\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(json.loads(done.stderr))
    heavy = {"torch", "triton", "numpy", "matplotlib", "plotly", "plotext", "pynvml", "scipy", "rich.table"}
    assert not loaded & heavy
