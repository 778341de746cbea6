"""Reading single fields of a config strictly: each is there and right, or an error names it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rooflinecli.errors import InputError

LARGEST = 2**40


class MissingFieldError(InputError):
    """A field that is needed is not there (or is null)."""


class Fields:
    """The fields of one config object. `assumed` collects what had to be filled in by a rule."""

    def __init__(self, raw: Mapping[str, Any], where: str) -> None:
        self.raw = raw
        self.where = where
        self.assumed: list[str] = []

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self.raw.get(name) is not None

    def count(self, *names: str, least: int = 1) -> int:
        """A whole number of at least `least`, under any of its names; several must agree.

        Raises:
            MissingFieldError: none of the names is there.
            InputError: not a whole number in range, or two names contradict.
        """
        found = self.count_or_none(*names, least=least)
        if found is None:
            raise MissingFieldError(f"{self.where}: {' or '.join(names)} is missing")
        return found

    def count_or_none(self, *names: str, least: int = 1) -> int | None:
        """As `count`, `None` where no name is there or all are null."""
        found = {name: self._whole(name, least) for name in names if self.has(name)}
        if len(set(found.values())) > 1:
            said = " and ".join(f"{name} {value}" for name, value in found.items())
            raise InputError(f"{self.where}: {said} contradict each other")
        return next(iter(found.values()), None)

    def flag(self, name: str, default: bool) -> bool:
        """True or false; `default` where the field is missing or null."""
        value = self.raw.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise InputError(f"{self.where}: {name} {short(value)} must be true or false")
        return value

    def flag_or_none(self, name: str) -> bool | None:
        """As `flag`, `None` where it is missing or null."""
        return self.flag(name, False) if self.has(name) else None

    def text(self, name: str) -> str | None:
        """A string, or `None`."""
        value = self.raw.get(name)
        if value is not None and not isinstance(value, str):
            raise InputError(f"{self.where}: {name} {short(value)} must be a string")
        return value

    def listed(self, name: str, length: int | None = None) -> Sequence[Any] | None:
        """A list, of `length` entries where that is given, or `None`."""
        value = self.raw.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise InputError(f"{self.where}: {name} must be a list")
        if length is not None and len(value) != length:
            raise InputError(f"{self.where}: {name} has {len(value)} entries, the model {length} layers")
        return value

    def indices(self, name: str) -> set[int] | None:
        """A list of layer numbers as a set, or `None`."""
        value = self.listed(name)
        if value is None:
            return None
        if any(type(each) is not int or each < 0 for each in value):
            raise InputError(f"{self.where}: {name} must be a list of layer numbers")
        return set(value)

    def inner(self, name: str) -> Fields | None:
        """The object under `name`, or `None`."""
        value = self.raw.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise InputError(f"{self.where}: {name} must be an object")
        return Fields(value, f"{self.where}: {name}")

    def assume(self, what: str) -> None:
        """Note what was filled in."""
        if what not in self.assumed:
            self.assumed.append(what)

    def fail(self, what: str, hint: str | None = None) -> InputError:
        """An error about this config."""
        return InputError(f"{self.where}: {what}", hint)

    def _whole(self, name: str, least: int) -> int:
        value = self.raw[name]
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(f"{self.where}: {name} {short(value)} must be a whole number")
        if not least <= value <= LARGEST:
            raise InputError(f"{self.where}: {name} {short(value)} must be at least {least} and at most 2^40")
        return value


def short(value: object) -> str:
    """`value` as a message shows it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
