"""Numbers as Nsight Compute prints them: separators by locale, units that scale by themselves."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from rooflinecli.errors import InputError

_ABSENT = {"", "n/a", "nan", "-nan", "(!) n/a", "no data", "inf", "-inf"}
# Spaces of all widths and apostrophes group thousands in some locales.
_SPACES = dict.fromkeys(map(ord, " \u00a0\u2009\u202f'\u2019"))
_SCALES = {
    "": 1,
    "n": 1e-9,
    "u": 1e-6,
    "µ": 1e-6,
    "m": 1e-3,
    "K": 1e3,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
}
# Spellings of a base unit, and the unit values are held in.
_BASES = {"byte": "B", "bytes": "B", "B": "B", "second": "s", "sec": "s", "s": "s", "inst": "inst", "sector": "sector",
          "cycle": "cycle", "hz": "Hz", "Hz": "Hz", "op": "op", "ops": "op", "block": "block", "thread": "thread",
          "warp": "warp", "register/thread": "register/thread", "byte/block": "B/block", "%": "%"}  # fmt: skip
_PLAIN = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


def is_absent(cell: str) -> bool:
    """Whether a cell says that there is no value."""
    return cell.strip().lower() in _ABSENT


def decimal_mark(cells: Iterable[tuple[str, bool]]) -> str:
    """Which of `.` and `,` marks decimals in a file: found from cells, each with whether it must be whole.

    Evidence is a cell that can be read one way only: both marks (the last is the decimal one), one mark twice,
    one mark not before exactly three digits, or one mark before three digits in a count that must be whole.
    Without evidence it is `.`, as the tool prints in the C locale.

    Raises:
        InputError: two cells say different things.
    """
    found: dict[str, str] = {}
    for cell, whole in cells:
        mark = _evidence(cell.strip().translate(_SPACES), whole)
        if mark is not None:
            found.setdefault(mark, cell)
    if len(found) > 1:
        raise InputError(
            f"numbers contradict each other: in {found['.']!r} the point marks decimals, in {found[',']!r} the comma",
            "make the CSV anew with --print-units base",
        )
    return next(iter(found), ".")


def parse_number(cell: str, mark: str = ".") -> float | None:
    """The number in a cell, None where there is none; `mark` is the decimal mark of its file.

    Raises:
        InputError: it is no number.
    """
    if is_absent(cell):
        return None
    text = cell.strip().translate(_SPACES)
    thousands = "," if mark == "." else "."
    whole, *rest = text.split(mark)
    groups = whole.lstrip("+-").split(thousands)
    grouped = len(groups) == 1 or (1 <= len(groups[0]) <= 3 and all(len(group) == 3 for group in groups[1:]))
    plain = text.replace(thousands, "").replace(mark, ".")
    if not grouped or len(rest) > 1 or (rest and thousands in rest[0]) or not _PLAIN.fullmatch(plain):
        raise InputError(f"{cell!r} is not a number")
    value = float(plain)
    if not math.isfinite(value):
        raise InputError(f"{cell!r} is not a finite number")
    return value


def scale_of(unit: str) -> tuple[float, str] | None:
    """What a value in `unit` is multiplied by, and the base unit it is then in; None for an unknown unit.

    Prefixes are decimal, as the tool's are: a Kbyte is 1000 bytes. A unit by `/` another scales by both.
    """
    text = unit.strip()
    if text in _BASES:
        return 1, _BASES[text]
    for prefix in _SCALES:
        rest = text[len(prefix) :]
        if prefix and text.startswith(prefix) and rest in _BASES:
            return _SCALES[prefix], _BASES[rest]
    if text.count("/") == 1:
        above, below = map(scale_of, text.split("/"))
        if above is not None and below is not None:
            return above[0] / below[0], f"{above[1]}/{below[1]}"
    return None


def _evidence(text: str, whole: bool) -> str | None:
    if is_absent(text) or not re.fullmatch(r"[+-]?[\d.,]+(?:[eE][+-]?\d+)?", text):
        return None
    points, commas = text.count("."), text.count(",")
    if points and commas:
        return "." if text.rfind(".") > text.rfind(",") else ","
    if points + commas == 0:
        return None
    mark, other = (".", ",") if points else (",", ".")
    if points + commas > 1:
        return other
    before, _, after = text.partition(mark)
    lone = len(after) != 3 or len(before.lstrip("+-")) > 3 or before.lstrip("+-") in ("", "0")
    if lone:
        return mark
    return other if whole else None
