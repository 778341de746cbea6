"""YAML into a profile, strictly: no tags, no aliases, no duplicate keys, and errors that name line and column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from rooflinecli.errors import InputError
from rooflinecli.hardware.schema import Profile

LARGEST = 256 * 1024  # bytes; the bundled files have under 10 KiB
DEEPEST = 12


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The safe loader of YAML, the compiled one where it is there."""


def read_profile(path: Path) -> Profile:
    """The profile in the file `path`.

    Raises:
        InputError: it cannot be read, is not YAML, or is not a profile; the message begins with
            `file:line:column:` and names the field.
    """
    return parse_profile(_text(path), str(path))


def parse_profile(text: str, where: str) -> Profile:
    """The profile written in `text`; `where` stands before the line in messages.

    Raises:
        InputError: as `read_profile`.
    """
    root = _compose(text, where)
    data = _construct(root, where)
    sources = data.get("sources") if isinstance(data, dict) else None
    context = {"sources": sources if isinstance(sources, dict) else {}}
    try:
        return Profile.model_validate(data | {"origin": where} if isinstance(data, dict) else data, context=context)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        raise _refusal(problems, root, where) from None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            body = stream.read(LARGEST + 1)
        if len(body) > LARGEST:
            raise InputError(f"{path}:1:1: is larger than {LARGEST} bytes; no profile is")
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}:1:1: is not text in UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None


def _compose(text: str, where: str) -> yaml.Node:
    loader = _Loader(text)
    try:
        for event in yaml.parse(text, Loader=_Loader):
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise _at(where, event.start_mark, "anchors and aliases are not allowed; write the figure out")
            tag = getattr(event, "tag", None)
            if tag is not None and tag != "!":
                raise _at(where, event.start_mark, f"the tag {tag} is not allowed")
        root = loader.get_single_node()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "is not YAML"
        raise _at(where, mark, f"is not YAML: {problem}") from None
    except RecursionError:
        raise InputError(f"{where}:1:1: is nested too deeply") from None
    finally:
        loader.dispose()
    if not isinstance(root, yaml.MappingNode):
        raise _at(where, None if root is None else root.start_mark, "is not a profile: it holds no fields")
    return root


def _construct(node: yaml.Node, where: str, depth: int = 0) -> Any:
    """Plain values; a scalar is what YAML makes of it, except that dates and octals stay text."""
    if depth > DEEPEST:
        raise _at(where, node.start_mark, "is nested too deeply")
    if isinstance(node, yaml.MappingNode):
        found: dict[Any, Any] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if name is None or name in found:
                raise _at(
                    where, key.start_mark, f"the key {name!r} stands here twice" if name else "a key must be a word"
                )
            found[name] = _construct(value, where, depth + 1)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_construct(item, where, depth + 1) for item in node.value]
    return _scalar(node.tag, node.value)


def _scalar(tag: str, text: str) -> Any:
    if tag == "tag:yaml.org,2002:null":
        return None
    if tag == "tag:yaml.org,2002:bool":
        return text.lower() in ("true", "yes", "on")
    if tag == "tag:yaml.org,2002:int" and text.lstrip("+-").isdigit():
        return int(text) if len(text) < 40 else text
    if tag == "tag:yaml.org,2002:float":
        return float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan").replace(".NaN", "nan"))
    return text


def _refusal(problems: Sequence[Any], root: yaml.Node, where: str) -> InputError:
    first = problems[0]
    path = [part for part in first["loc"] if part not in ("[key]",)]
    mark = _mark(root, path)
    field = ".".join(str(part) for part in path) or "profile"
    message = str(first["msg"]).removeprefix("Value error, ")
    message = {"extra_forbidden": "no such field", "missing": "is missing"}.get(first["type"], message)
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return _at(where, mark, f"{field}: {message}{more}")


def _mark(node: yaml.Node, path: Sequence[str | int]) -> Any:
    """Where the deepest part of `path` that exists is written."""
    mark = node.start_mark
    for part in path:
        if isinstance(node, yaml.MappingNode):
            pair = next(((key, value) for key, value in node.value if key.value == part), None)
            if pair is None:
                return mark
            mark, node = pair[0].start_mark, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            mark = node.start_mark
        else:
            return mark
    return mark


def _at(where: str, mark: Any, message: str) -> InputError:
    line, column = (1, 1) if mark is None else (mark.line + 1, mark.column + 1)
    return InputError(f"{where}:{line}:{column}: {message}")
