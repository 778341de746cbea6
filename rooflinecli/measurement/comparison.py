"""Result files side by side, aligned by workload: differences, what of them is noise, and a gate for CI."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rooflinecli.errors import InputError, unknown_name
from rooflinecli.measurement.statistics import Statistics, differ, geometric_mean

Key = tuple[tuple[str, Any], ...]
LIMIT = 256 << 20
_GATE = re.compile(r"\s*([a-z][a-z0-9_.]*)\s*(>=|<=|>|<)\s*([+-]\d+(?:\.\d+)?)\s*%\s*")
_TESTS: dict[str, Callable[[float, float], bool]] = {
    ">": lambda a, b: a > b, ">=": lambda a, b: a >= b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
}  # fmt: skip
_STATISTICS = ("count", "median", "low", "high", "confidence", "p05", "p95", "minimum", "maximum")


@dataclass(frozen=True, slots=True)
class Entry:
    """One result of a file: what it is of, and its figures by name. `statistics` where seconds were measured."""

    key: Key
    figures: Mapping[str, float]
    statistics: Statistics | None = None


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A result file in its essentials."""

    name: str
    schema: str
    gpu: str
    entries: Mapping[Key, Entry]


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure of one result in two files; `change` is relative to the first. `noise`: within the spread."""

    key: Key
    figure: str
    before: float
    after: float
    noise: bool

    @property
    def change(self) -> float | None:
        """(after - before) / before; None from zero to something."""
        if self.before:
            return (self.after - self.before) / self.before
        return 0.0 if self.after == self.before else None


@dataclass(frozen=True, slots=True)
class Gate:
    """`seconds > +5%`: fails when the change of a figure is beyond a threshold, and no noise."""

    text: str
    figure: str
    relation: str
    threshold: float

    def trips(self, difference: Difference) -> bool:
        """Whether this difference fails the gate. A change from zero is beyond any threshold."""
        if difference.figure != self.figure or difference.noise:
            return False
        change = difference.change
        if change is None:
            change = float("inf") if difference.after > 0 else float("-inf")
        return _TESTS[self.relation](change, self.threshold)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The first file against another: differences of results both have, and results only one has."""

    base: ResultFile
    other: ResultFile
    differences: tuple[Difference, ...]
    only_base: tuple[Key, ...]
    only_other: tuple[Key, ...]

    def means(self) -> dict[str, float]:
        """Geometric mean of after over before, by figure, over results where both are over zero."""
        ratios: dict[str, list[float]] = {}
        for one in self.differences:
            if one.before > 0 and one.after > 0:
                ratios.setdefault(one.figure, []).append(one.after / one.before)
        return {figure: geometric_mean(found) for figure, found in ratios.items()}


def read_results(path: Path) -> ResultFile:
    """A result file of `bytes`, `roofline`, `measure` or `verify`.

    Raises:
        InputError: not readable, not JSON, or no result file of these.
    """
    try:
        if path.stat().st_size > LIMIT:
            raise InputError(f"{path}: larger than {LIMIT >> 20} MiB; this is no result file")
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise InputError(
            f"{path}: is not JSON", "results are written by: rooflinecli measure --output FILE.json"
        ) from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if not isinstance(schema, str) or schema.split("/")[1:2] not in (["bytes"], ["roofline"], ["measure"], ["verify"]):
        raise InputError(f"{path}: is no result of bytes, roofline, measure or verify", f"its schema is {schema!r}")
    try:
        return _file(str(path), schema, document)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(f"{path}: does not keep to {schema}: {error!r}") from None


def compare(base: ResultFile, other: ResultFile) -> Comparison:
    """Align two files by workload, algorithm and kernel.

    Where one of them knows no kernel (a prediction), algorithms are aligned instead.

    Raises:
        InputError: they have no result in common.
    """
    mine, theirs = base.entries, other.entries
    if not set(mine) & set(theirs):
        mine, theirs = _without_kernel(mine), _without_kernel(theirs)
    common = [key for key in mine if key in theirs]
    if not common:
        raise InputError(f"{base.name} and {other.name} have no workload in common")
    found = []
    for key in common:
        one, two = mine[key], theirs[key]
        for figure in one.figures:
            if figure in two.figures:
                noise = _is_noise(figure, one, two)
                found.append(Difference(key, figure, one.figures[figure], two.figures[figure], noise))
    return Comparison(
        base, other, tuple(found),
        tuple(key for key in mine if key not in theirs), tuple(key for key in theirs if key not in mine),
    )  # fmt: skip


def parse_gate(text: str) -> Gate:
    """`FIGURE RELATION CHANGE%`, the change with its sign: `seconds > +5%`, `flops_per_s < -3%`.

    Raises:
        InputError: anything else.
    """
    found = _GATE.fullmatch(text)
    if found is None:
        raise InputError(f"--fail-if {text!r}: is not a figure, a relation and a signed percentage",
                         "for instance --fail-if 'seconds > +5%', with one of > >= < <=")  # fmt: skip
    return Gate(" ".join(text.split()), found[1], found[2], float(found[3]) / 100)


def tripped(gates: Sequence[Gate], comparisons: Sequence[Comparison]) -> list[str]:
    """What fails, one line each: differences beyond a gate, and results the gate can no longer judge.

    Raises:
        InputError: a gate names a figure that no result has: it would never fail.
    """
    lines = []
    for gate in gates:
        known = {one.figure for each in comparisons for one in each.differences}
        if gate.figure not in known:
            raise InputError(f"--fail-if {gate.text}: {unknown_name('figure', gate.figure, known).message}")
        for each in comparisons:
            lines += [
                f"{gate.text}: {key_text(one.key)}: {change_text(one)}" for one in each.differences if gate.trips(one)
            ]
            judged = {one.key for one in each.differences if one.figure == gate.figure}
            for key, entry in _keyed(each).items():
                if gate.figure in entry.figures and key not in judged:
                    lines.append(f"{gate.text}: {key_text(key)}: gone from {each.other.name}")
    return lines


def key_text(key: Key) -> str:
    """A key in a few words."""
    return " ".join(f"{value}" if name in ("kernel", "algorithm") else f"{name}={value}" for name, value in key)


def change_text(one: Difference) -> str:
    """A change in percent."""
    return "from zero" if one.change is None else f"{one.change:+.2%}"


def _keyed(each: Comparison) -> Mapping[Key, Entry]:
    keys = {one.key for one in each.differences}
    return each.base.entries if keys <= set(each.base.entries) else _without_kernel(each.base.entries)


def _is_noise(figure: str, one: Entry, two: Entry) -> bool:
    if figure not in ("seconds", "flops_per_s", "share_of_roof") or one.statistics is None or two.statistics is None:
        return False
    return not differ(one.statistics, two.statistics)


def _without_kernel(entries: Mapping[Key, Entry]) -> dict[Key, Entry]:
    found: dict[Key, Entry] = {}
    for key, entry in entries.items():
        found.setdefault(tuple(pair for pair in key if pair[0] != "kernel"), entry)
    return found


def _file(name: str, schema: str, document: Mapping[str, Any]) -> ResultFile:
    entries: dict[Key, Entry] = {}
    several = len({one.get("gpu") for one in _results(document)}) > 1
    for one in _results(document):
        found = _entry(one, one.get("workload", document.get("workload")), several)
        if found is not None:
            entries.setdefault(found.key, found)
    gpu = document.get("gpu")
    return ResultFile(name, schema, gpu.get("id", "") if isinstance(gpu, dict) else str(gpu or ""), entries)


def _results(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(document.get("points") or document.get("results") or [])


def _entry(one: Mapping[str, Any], workload: Mapping[str, Any], several: bool) -> Entry | None:
    status = one.get("status", "measured")
    if status not in ("measured", "checked"):
        return None
    named = [(name, one[name]) for name in ("kernel", "algorithm", "level", "measured") if one.get(name)]
    if several:
        named.append(("gpu", one.get("gpu")))
    shape = [(name, workload[name]) for name in workload if workload[name] is not None]
    statistics = one.get("statistics")
    return Entry(
        key=(*named, *shape),
        figures=dict(_figures(one)),
        statistics=None if not statistics else Statistics(**{field: statistics[field] for field in _STATISTICS}),
    )


def _figures(one: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Figures by the names a gate uses. A prediction inside a measurement gives its bytes, not its time."""
    for row in one.get("rows") or ():
        if row.get("counted") is not None:
            yield row["quantity"], float(row["counted"])
    inner = one.get("prediction") or one
    for level, moved in (inner.get("bytes") or {}).items():
        for direction in ("read", "write", "total"):
            if direction in moved:
                yield f"{level}.{direction}", float(moved[direction])
    for kind, count in (inner.get("flops") or {}).items():
        yield f"flops.{kind}", float(count)
    intensity = inner.get("intensity")
    if isinstance(intensity, (int, float)):  # a point of a roofline has one level
        yield "intensity", float(intensity)
    else:
        for kind, value in (intensity or {}).items():
            if value is not None:
                yield f"intensity.{kind}", float(value)
    seconds = one.get("seconds", one.get("seconds_at_least"))
    if seconds is not None:
        yield "seconds", float(seconds)
    for name in ("flops_per_s", "share_of_roof", "attainable"):
        if one.get(name) is not None:
            yield name, float(one[name])
