"""One strict parser for quantities with a unit and for plain counts, and the printing of both.

Decimal and binary prefixes are taken literally (GB = 1e9 B, GiB = 2**30 B) and never guessed.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

from rooflinecli.errors import InputError

_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_PREFIXES = {**_DECIMAL, **_BINARY}
# Dimension -> the unit every value of it is held in; an operation of an integer unit counts as a FLOP.
BASES = ("B", "B/s", "FLOP/s", "Hz", "W", "s", "B/clk", "op/s", "op/clk", "FLOP/clk")
_SYNONYMS = {"FLOPS": "FLOP/s", "flop/s": "FLOP/s", "OP/s": "op/s", "OPS": "op/s"}
_NUMBER = r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?|[+-]?\.\d+(?:[eE][+-]?\d+)?"
_QUANTITY = re.compile(rf"^\s*({_NUMBER})\s*([A-Za-z][A-Za-z/]*)\s*$")
_COUNT = re.compile(rf"^\s*({_NUMBER})\s*([kKMGT]i?)?\s*$")


def parse_quantity(text: object, base: str) -> int | float:
    """The value of `text` ("2039 GB/s", "40 MiB", "1,830 MHz") in the unit `base`, one of `BASES`.

    An exact whole number comes back as `int`. A thousands separator is accepted where it groups by
    three; a decimal comma is not.

    Raises:
        InputError: no number, no unit, another dimension's unit, or a value not finite.
    """
    found = _QUANTITY.match(text) if isinstance(text, str) else None
    if found is None:
        raise InputError(f"{text!r} is not a quantity", f"write a number and a unit, as in '{_example(base)}'")
    number, unit = found.groups()
    unit = _with_synonym(unit)
    scale = _scale(unit, base)
    if scale is None:
        raise InputError(f"{text!r} is not in {base} with or without a prefix", f"for instance '{_example(base)}'")
    return _plain(Decimal(number.replace(",", "")) * scale)


def parse_count(text: object) -> int:
    """A whole number of things, with an optional suffix: `8k` is 8000, `8Ki` is 8192, `1.5k` is 1500.

    Raises:
        InputError: not a number, or not a whole one.
    """
    found = _COUNT.match(str(text))
    if found is None:
        raise InputError(f"{text!r} is not a whole number", "write 8192, 8k (8000) or 8Ki (8192)")
    value = Decimal(found[1].replace(",", "")) * _PREFIXES[found[2] or ""]
    if value.adjusted() > 30 or value != value.to_integral_value():
        raise InputError(f"{text!r} is not a whole number a computer can hold", "write 8192, 8k (8000) or 8Ki (8192)")
    return int(value)


def format_bytes(value: float) -> str:
    """Bytes moved, decimal: `541.1 MB`."""
    return _scaled(value, "B", 1000, ("", "k", "M", "G", "T", "P", "E"))


def format_capacity(value: float) -> str:
    """Bytes that fit somewhere, binary: `80.5 KiB`."""
    return _scaled(value, "B", 1024, ("", "Ki", "Mi", "Gi", "Ti", "Pi"))


def format_rate(value: float, unit: str) -> str:
    """A rate or a count of operations, decimal: `312 TFLOP/s`, `1.555 TB/s`."""
    return _scaled(value, unit, 1000, ("", "k", "M", "G", "T", "P", "E"))


def format_seconds(value: float) -> str:
    """A time: `88.5 ms`, `3.2 us`."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if value * factor >= 1:
            return f"{value * factor:.4g} {unit}"
    return f"{value * 1e9:.4g} ns"


def _scaled(value: float, unit: str, step: int, prefixes: tuple[str, ...]) -> str:
    if not math.isfinite(value):
        return f"{value} {unit}"
    power = 0
    while abs(value) >= step and power < len(prefixes) - 1:
        value /= step
        power += 1
    text = f"{value:.4g}"
    if float(text) >= step and power < len(prefixes) - 1:  # 999.96 rounds up into the next prefix
        text, power = f"{float(text) / step:.4g}", power + 1
    return f"{text} {prefixes[power]}{unit}"


def _scale(unit: str, base: str) -> int | None:
    if not unit.endswith(base):
        return None
    return _PREFIXES.get(unit[: len(unit) - len(base)])


def _with_synonym(unit: str) -> str:
    for said, meant in _SYNONYMS.items():
        if unit.endswith(said) and unit[: -len(said)] in _PREFIXES:
            return unit[: -len(said)] + meant
    return unit


def _plain(value: Decimal) -> int | float:
    if value.adjusted() > 300:
        raise InputError(f"{value:.3E} is too large to be a figure of hardware")
    return int(value) if value == value.to_integral_value() else float(value)


def _example(base: str) -> str:
    return {"B": "40 MiB", "B/s": "2039 GB/s", "FLOP/s": "312 TFLOP/s", "Hz": "1410 MHz"}.get(base, f"128 {base}")
