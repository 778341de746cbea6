"""Results in Jupyter: after `%load_ext rooflinecli` the library's objects show as the tables of the commands."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from rooflinecli.report.formats import render

# Class -> module of this package whose `view` shows it. Named, not imported: a notebook pays for what it uses.
_SHOWN_BY = {
    ("rooflinecli.calculator", "Account"): "bytes",
    ("rooflinecli.measurement.records", "Measurement"): "measure",
}


def register(shell: Any) -> None:
    """Teach an IPython shell to show results as Markdown tables."""
    formatter = shell.display_formatter.formatters["text/markdown"]
    for (module, name), report in _SHOWN_BY.items():
        formatter.for_type_by_name(module, name, _markdown(report))


def _markdown(report: str) -> Callable[[Any], str]:
    def show(result: Any) -> str:
        view = import_module(f"rooflinecli.report.{report}").view
        return render(view(result), "markdown")

    return show
