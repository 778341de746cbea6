"""Pictures that commands draw: `--plot`, alone for the terminal or with a file, and what is written of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from rooflinecli.errors import InputError
from rooflinecli.report.output import check_writable, emit, write_whole

if TYPE_CHECKING:
    from rooflinecli.cli.options import OutputOptions
    from rooflinecli.report.plot.chart import Chart

PANEL = "Picture"
_TERMINAL = "-"


# The type of a command's `--plot`; the command itself is a `PlotCommand`.
PlotOption = Annotated[
    list[str] | None,
    typer.Option("--plot", metavar="[FILE]", rich_help_panel=PANEL,
                 help="Draw the roofline: alone in the terminal, else to a .png, .svg, .pdf or .html; repeatable."),
]  # fmt: skip


class PlotCommand(TyperCommand):
    """A command whose `--plot` may stand alone: without a file it means the terminal."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put in what a bare `--plot` stands for."""
        return super().parse_args(ctx, list(_with_terminal(args)))


def _with_terminal(args: list[str]) -> Iterator[str]:
    for index, word in enumerate(args):
        yield word
        follower = args[index + 1] if index + 1 < len(args) else "--"
        if word == "--plot" and follower.startswith("-") and follower != _TERMINAL:
            yield _TERMINAL


@dataclass(frozen=True, slots=True)
class Pictures:
    """Where the pictures go; true when there are any."""

    files: tuple[Path, ...]
    terminal: bool
    theme: Any

    def __bool__(self) -> bool:
        return bool(self.files) or self.terminal


def read_pictures(plot: list[str] | None, out: OutputOptions, theme: str = "light") -> Pictures:
    """What to draw, after making sure that it can be drawn and written.

    Raises:
        InputError, UnavailableError: it cannot.
    """
    from rooflinecli.report.plot.draw import check_drawable

    if theme not in ("light", "dark"):
        raise InputError(f"--theme {theme}: must be light or dark")
    files = tuple(Path(name) for name in plot or () if name != _TERMINAL)
    for path in files:
        check_drawable(path)
        check_writable(path, force=out.force, option="--plot")
    terminal = _TERMINAL in (plot or ())
    if terminal and out.format is not None and out.output is None:
        raise InputError(
            f"--plot: the terminal's picture and --format {out.format} both go to standard output",
            "--output FILE takes the figures",
        )
    return Pictures(files, terminal, theme)


def draw_files(chart: Chart, pictures: Pictures, *, force: bool) -> None:
    """Write the pictures that go to files."""
    from rooflinecli.report.plot.draw import picture

    for path in pictures.files:
        write_whole(path, picture(chart, path, pictures.theme), force=force, option="--plot")
        print(f"wrote {path}", file=sys.stderr)


def draw_terminal(chart: Chart, pictures: Pictures) -> None:
    """Show the picture that goes to the terminal: after the files, so that a closed pipe costs none of them."""
    if not pictures.terminal:
        return
    from rooflinecli.report.plot.scene import scene
    from rooflinecli.report.plot.terminal import show

    emit(show(scene(chart)))
