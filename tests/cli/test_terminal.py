"""Tables in terminals of any width: nothing wider than there is room, no word or figure cut."""

from __future__ import annotations

import shlex

import pytest

from rooflinecli.report.sheet import Line, Section, Sheet
from rooflinecli.report.terminal import sheets_as_text
from tests.conftest import Run

COMMANDS = [
    "bytes --N 8192 --d 128",
    "explain --N 8192 --d 128 -a flash2",
    "tiles --N 8192 --d 128 --top 4",
    "sweep --N 1k..4k --d 64",
    "models list llama",
    "models show llama-3.1-8b",
    "kv --model llama-3.1-8b --context 8k --gpu a100",
    "profiles list",
    "profiles show l4",
    "profiles diff a100 h100",
]


@pytest.mark.parametrize("width", ["50", "60", "72", "100"])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_word_is_cut(run: Run, command: str, width: str) -> None:
    wide = run(*shlex.split(command), COLUMNS="500", PYTHONIOENCODING="utf-8")
    narrow = run(*shlex.split(command), COLUMNS=width, PYTHONIOENCODING="utf-8")
    assert narrow.returncode == 0, narrow.stderr
    assert max(map(len, narrow.stdout.split("\n"))) <= int(width)
    known = {word for word in wide.stdout.split() if set(word) != {"─"}}
    assert known == {word for word in narrow.stdout.split() if set(word) != {"─"}}


@pytest.mark.parametrize("width", range(24, 80))
def test_columns_move_underneath_where_there_is_no_room(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    names = ["alpha", "beta", "gamma", "delta", "epsilon"]
    lines = [Line(f"row {row}", [f"{10**column * 123 + row} MB" for column in range(5)]) for row in range(3)]
    text = sheets_as_text([Sheet("title", names, [Section("", lines)])])
    assert max(map(len, text.split("\n"))) <= width
    words = text.split()
    assert all(words.count(name) == 1 for name in names)
    assert all(words.count(cell.split()[0]) == 1 for line in lines for cell in line.cells)
