"""A model by name, by file, or from standard input."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rooflinecli.errors import InputError, naming
from rooflinecli.models.config import read_config
from rooflinecli.models.spec import ModelSpec

LARGEST_FILE = 16 * 2**20


def load_model(model: str) -> ModelSpec:
    """The model called `model`: a preset's name, a `config.json` (or the folder it lies in), or `-` for stdin.

    Raises:
        InputError: no such preset or file (the nearest names are offered), not JSON, or a config that is
            incomplete or contradicts itself.
    """
    if model == "-":
        return _parse(sys.stdin.buffer.read(LARGEST_FILE + 1), "stdin", "standard input")
    path = Path(model)
    if path.is_dir():
        path = path / "config.json"
    if path.is_file():
        return _read(path)
    from rooflinecli.models.presets import find_preset  # YAML is read for a name only

    if path.suffix == ".json" or len(path.parts) > 1:
        near = find_preset(path.name, quiet=True)
        hint = f"the preset {near.name} needs no file" if near is not None else "rooflinecli models list"
        raise InputError(f"--model {model}: there is no such file", hint)
    with naming("--model", model):
        found = find_preset(model)
    assert found is not None  # not quiet: an unknown name raises
    return found


def _read(path: Path) -> ModelSpec:
    try:
        with path.open("rb") as stream:
            body = stream.read(LARGEST_FILE + 1)
    except OSError as error:
        raise InputError(f"--model {path}: {error.strerror or error}") from error
    folder = path.resolve().parent.name
    return _parse(body, str(path), folder if path.name == "config.json" and folder else path.stem)


def _parse(body: bytes, where: str, name: str) -> ModelSpec:
    if len(body) > LARGEST_FILE:
        raise InputError(f"--model {where}: larger than 16 MiB, which no config is")
    try:
        raw = json.loads(body.decode("utf-8-sig"), parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
    except UnicodeDecodeError:
        raise InputError(f"--model {where}: not a text file") from None
    except (json.JSONDecodeError, RecursionError, _BadJsonError) as error:
        raise InputError(f"--model {where}: not a JSON file: {_one_line(error)}") from None
    except ValueError as error:  # an integer of more digits than Python converts
        raise InputError(f"--model {where}: {_one_line(error)}") from None
    if not isinstance(raw, dict):
        raise InputError(f"--model {where}: not a JSON object, as a config.json is")
    return read_config(raw, name, f"--model {where}", source=where)


class _BadJsonError(ValueError):
    pass


def _no_constant(text: str) -> Any:
    raise _BadJsonError(f"{text} is not a number")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _BadJsonError(f"{twice} is there twice")
    return found


def _one_line(error: BaseException) -> str:
    return str(error).replace("\n", " ") or type(error).__name__
