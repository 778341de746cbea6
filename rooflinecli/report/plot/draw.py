"""Pictures by file name: which library each format needs, and the bytes of it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from rooflinecli.errors import InputError, UnavailableError
from rooflinecli.report.plot.chart import Chart
from rooflinecli.report.plot.scene import scene
from rooflinecli.report.plot.style import Theme

# Suffix -> the library that draws it; the terminal needs none.
LIBRARIES = {".png": "matplotlib", ".svg": "matplotlib", ".pdf": "matplotlib", ".html": "plotly"}


def check_drawable(path: Path) -> None:
    """Refuse early what `picture` would refuse late, before anything long is run.

    Raises:
        InputError: no such format.
        UnavailableError: the library that draws it is not installed.
    """
    library = LIBRARIES.get(path.suffix.lower())
    if library is None:
        formats = ", ".join(LIBRARIES)
        raise InputError(f"--plot {path}: its suffix must be one of {formats}", "--plot alone draws in the terminal")
    if find_spec(library) is None:
        raise UnavailableError(
            f"--plot {path}: needs {library}, which is not installed", "pip install 'rooflinecli[plot]'"
        )


def picture(chart: Chart, path: Path, theme: Theme = "light") -> bytes:
    """The picture of `chart` in the format that `path` is named after. A page has both themes anyway."""
    check_drawable(path)
    shape = path.suffix.lower().removeprefix(".")
    if shape == "html":
        from rooflinecli.report.plot.page import page

        return page(scene(chart)).encode()
    from rooflinecli.report.plot.figure import figure

    return figure(scene(chart), shape, theme)
