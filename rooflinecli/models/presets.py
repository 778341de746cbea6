"""The bundled models, `presets.yaml`: config fields, a source each, and what was not looked up."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from rooflinecli.errors import unknown_name
from rooflinecli.models.config import read_config
from rooflinecli.models.spec import ModelSpec

FILE = Path(__file__).with_name("presets.yaml")


def preset_names() -> list[str]:
    """Names of the bundled models, in the order of the file."""
    return list(_entries())


def aliases(name: str) -> list[str]:
    """Other names of the preset `name`."""
    return list(_entries()[name].get("aliases", ()))


def find_preset(name: str, *, quiet: bool = False) -> ModelSpec | None:
    """The preset called `name` (case does not matter) or by one of its aliases.

    Raises:
        InputError: nobody knows the name; the nearest ones are in the message. `quiet` gives None instead.
    """
    entries = _entries()
    known = {alias: key for key, entry in entries.items() for alias in (key, *entry.get("aliases", ()))}
    key = known.get(name.strip().lower())
    if key is None:
        if quiet:
            return None
        raise unknown_name("model", name, known)
    return _spec(key, entries[key])


def _spec(name: str, entry: dict[str, Any]) -> ModelSpec:
    from dataclasses import replace

    found = read_config(entry["config"], name, f"preset {name}", entry["source"])
    notes = (entry["note"], *found.notes) if "note" in entry else found.notes
    return replace(found, notes=notes, from_memory=tuple(entry.get("from_memory", ())))


@cache
def _entries() -> dict[str, dict[str, Any]]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser reads the file ten times faster
    entries: dict[str, dict[str, Any]] = yaml.load(FILE.read_text(encoding="utf-8"), Loader=loader)
    return entries
