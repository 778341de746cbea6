"""What a notebook shows of a result."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import rooflinecli
from rooflinecli.measurement.records import Measurement


class FakeFormatter:
    """IPython's registry of formatters by class name."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], Any] = {}

    def for_type_by_name(self, module: str, name: str, show: Any) -> None:
        self.known[module, name] = show


def test_results_show_as_the_commands_tables() -> None:
    # GIVEN a notebook that loaded the extension
    formatter = FakeFormatter()
    rooflinecli.load_ipython_extension(
        SimpleNamespace(display_formatter=SimpleNamespace(formatters={"text/markdown": formatter}))
    )
    # WHEN a cell ends in a result
    account = rooflinecli.account(rooflinecli.Workload(n_q=1024, d=64), "a100", ["naive", "flash2"])
    shown = formatter.known[type(account).__module__, type(account).__name__](account)
    # THEN it is the table of `bytes`, and an empty measurement says that it is one
    assert "| naive | flash2 |" in shown
    nothing = Measurement("quick", ())
    assert "Nothing was measured" in formatter.known[type(nothing).__module__, type(nothing).__name__](nothing)
