"""Where text goes: standard output, or a file that appears whole or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from rooflinecli.errors import InputError

FORMATS = ("table", "json", "jsonl", "csv", "markdown")
_SUFFIXES = {".json": "json", ".jsonl": "jsonl", ".csv": "csv", ".md": "markdown", ".txt": "table"}


def format_of(asked: str | None, output: Path | None) -> str:
    """The format asked for, or the one the output file's suffix names, or a table.

    Raises:
        InputError: no such format.
    """
    if asked is None:
        return _SUFFIXES.get(output.suffix, "table") if output is not None else "table"
    if asked not in FORMATS:
        raise InputError(f"--format {asked}: must be one of {', '.join(FORMATS)}")
    return asked


def emit(text: str, output: Path | None = None, *, force: bool = False) -> None:
    """Write `text`, ended by one newline, to `output`; `None` or `-` is standard output.

    Raises:
        InputError: the file exists and `force` was not given, or it cannot be written.
    """
    body = text if text.endswith("\n") else text + "\n"
    if output is None or str(output) == "-":
        sys.stdout.write(body)
        return
    write_whole(output, body.encode(), force=force)


def check_writable(output: Path | None, *, force: bool, option: str = "--output") -> None:
    """Refuse early what `write_whole` would refuse late, before anything long is run.

    Raises:
        InputError: the file exists and `force` was not given, or its folder does not.
    """
    if output is None or str(output) == "-":
        return
    if output.is_dir():
        raise InputError(f"{option} {output}: is a folder")
    if output.exists() and not force:
        raise InputError(f"{option} {output}: exists already", "--force replaces it")
    if not output.parent.is_dir():
        raise InputError(f"{option} {output}: its folder does not exist")


def write_whole(output: Path, body: bytes, *, force: bool = False, option: str = "--output") -> None:
    """Write `body` to a neighbour of `output` and move it into place.

    Raises:
        InputError: as `check_writable`, or the system refuses.
    """
    check_writable(output, force=force, option=option)
    try:
        handle, name = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(body)
            Path(name).chmod(0o666 & ~_umask())
            Path(name).replace(output)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"{option} {output}: {error.strerror or error}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
