"""The errors a user can cause, each with the exit code the command line ends with."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class RooflineError(Exception):
    """One clear line, perhaps a next step, and an exit code; caught once, at the edge of the CLI."""

    exit_code = 2

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(RooflineError):
    """Wrong usage or bad input (exit code 2)."""


class CheckFailedError(RooflineError):
    """A check the user asked for did not hold (exit code 1)."""

    exit_code = 1


class UnavailableError(RooflineError):
    """What was asked needs hardware or an optional package that is not there (exit code 3)."""

    exit_code = 3


def unknown_name(kind: str, name: str, known: Iterable[str]) -> InputError:
    """An `InputError` for a name nobody knows, which offers the nearest known ones."""
    names = sorted(known)
    near = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.5)
    offer = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}"
    return InputError(f"unknown {kind} {name!r}: {offer}")


@contextmanager
def naming(option: str, value: object) -> Iterator[None]:
    """Puts the option and its value before the message of any `RooflineError` raised inside."""
    try:
        yield
    except RooflineError as error:
        error.message = f"{option} {value}: {error.message}"
        raise
