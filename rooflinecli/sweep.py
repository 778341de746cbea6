"""Ranges and lists of option values: `N=256..128k`, `N=1k,2k,4k`, `d=64..256:+64`, `dtype=fp16,bf16`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rooflinecli.errors import InputError, unknown_name
from rooflinecli.units import parse_count

MAX_VALUES = 1000
MAX_CASES = 4096
Value = int | str | bool

# What can be swept -> the field of the options it sets.
COUNTS = {
    "N": "n", "N-kv": "n_kv", "d": "d", "d-v": "d_v", "heads": "heads", "kv-heads": "kv_heads", "batch": "batch",
    "window": "window", "context": "context", "br": "br", "bc": "bc", "splits": "splits", "page-size": "page_size",
}  # fmt: skip
NAMES = {"dtype": "dtype", "kv-dtype": "kv_dtype", "s-dtype": "s_dtype", "compute-dtype": "compute_dtype"}
SWITCHES = {"causal": "causal"}
_TRUTHS = {"yes": True, "true": True, "on": True, "1": True, "no": False, "false": False, "off": False, "0": False}
_STEP = re.compile(r"^(?P<kind>[x*+])(?P<size>.+)$")


@dataclass(frozen=True, slots=True)
class Sweep:
    """One option and the values it takes, in order. `option` is its name without dashes, `field` its attribute."""

    option: str
    field: str
    values: tuple[Value, ...]

    @property
    def numeric(self) -> bool:
        """Whether the values are counts, so that a path through them means something."""
        return self.option in COUNTS


def parse_sweep(text: str, said: str | None = None) -> Sweep:
    """Read `OPTION=VALUES`: a list with commas, or a range `FIRST..LAST`, doubling unless `:xF` or `:+S` says how.

    Both ends of a range belong to it: `256..128k` is 256, 512, ..., 65536, 128000. Lists may hold ranges.
    said: how the user wrote it, where not as `--sweep text`.

    Raises:
        InputError: names the text and what is wrong with it.
    """
    said = said or f"--sweep {text}"
    name, equals, values = text.partition("=")
    option = name.strip().lstrip("-")
    known = {**COUNTS, **NAMES, **SWITCHES}
    if not equals or not values.strip():
        raise InputError(f"{said}: is not OPTION=VALUES", "for instance --sweep N=256..128k")
    if option not in known:
        error = unknown_name("option", option, known)
        raise InputError(f"{said}: {error.message}")
    try:
        read = tuple(itertools.chain.from_iterable(_values(option, part.strip()) for part in values.split(",")))
    except InputError as error:
        raise InputError(f"{said}: {error.message}", error.hint) from None
    if len(read) > MAX_VALUES:
        raise InputError(f"{said}: {len(read)} values; at most {MAX_VALUES}")
    return Sweep(option, known[option], tuple(dict.fromkeys(read)))


def parse_sweeps(texts: Sequence[str]) -> tuple[Sweep, ...]:
    """All of them; every option once.

    Raises:
        InputError: as `parse_sweep`, an option named twice, or too many combinations.
    """
    return distinct([parse_sweep(text) for text in texts])


def distinct(sweeps: Iterable[Sweep]) -> tuple[Sweep, ...]:
    """`sweeps`, after making sure that every option is there once and that their combinations can be gone through.

    Raises:
        InputError: they are not.
    """
    sweeps = tuple(sweeps)
    seen: set[str] = set()
    cases = 1
    for sweep in sweeps:
        if sweep.option in seen:
            raise InputError(f"--sweep {sweep.option}: is given twice", "one list holds every value: N=1k,2k,4k")
        seen.add(sweep.option)
        cases *= len(sweep.values)
    if cases > MAX_CASES:
        raise InputError(f"--sweep: {cases} combinations; at most {MAX_CASES}")
    return sweeps


def combinations(sweeps: Sequence[Sweep]) -> Iterator[dict[str, Value]]:
    """Every combination of the values, by option; one empty combination when nothing is swept."""
    for values in itertools.product(*(sweep.values for sweep in sweeps)):
        yield {sweep.option: value for sweep, value in zip(sweeps, values, strict=True)}


def count_label(value: Value) -> str:
    """A count as people type it: 128000 is `128k`, 131072 is `128Ki`, under 10000 it stays as it is."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) or value < 10_000:
        return str(value)
    for size, suffix in ((1000**2, "M"), (1024**2, "Mi"), (1000, "k"), (1024, "Ki")):
        if value % size == 0:
            return f"{value // size}{suffix}"
    return str(value)


def _values(option: str, text: str) -> list[Value]:
    if option in SWITCHES:
        if text.lower() not in _TRUTHS:
            raise InputError(f"{text!r} is neither yes nor no")
        return [_TRUTHS[text.lower()]]
    if option in NAMES:
        if not text:
            raise InputError("a value is empty")
        return [text]
    if ".." not in text:
        return [parse_count(text)]
    ends, _, step = text.partition(":")
    first_text, _, last_text = ends.partition("..")
    first, last = parse_count(first_text), parse_count(last_text)
    if first < 1:
        raise InputError(f"a range starts at 1 or above, not at {first}")
    if last < first:
        raise InputError(f"the range ends at {last}, before its start {first}")
    return [*_range(first, last, step or "x2")]


def _range(first: int, last: int, step: str) -> list[int]:
    found = _STEP.match(step)
    if found is None:
        raise InputError(f"step {step!r} is neither a factor nor a distance", "x2 doubles, +64 adds 64")
    size = parse_count(found["size"])
    grows = found["kind"] != "+"
    if size < (2 if grows else 1):
        raise InputError(f"step {step!r} goes nowhere", "x2 doubles, +64 adds 64")
    values = [first]
    while values[-1] < last:
        if len(values) >= MAX_VALUES:
            raise InputError(f"more than {MAX_VALUES} values")
        values.append(min(last, values[-1] * size if grows else values[-1] + size))
    return values
