"""How result files side by side are shown: the JSON `rooflinecli/compare/1`, one sheet a pair of files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rooflinecli import __version__
from rooflinecli.measurement.comparison import change_text
from rooflinecli.report.sheet import Line, Section, Sheet, View
from rooflinecli.units import format_bytes, format_rate, format_seconds

if TYPE_CHECKING:
    from rooflinecli.measurement.comparison import Comparison, Difference, Key

SCHEMA = "rooflinecli/compare/1"


def view(comparisons: Sequence[Comparison], failures: Sequence[str], *, everything: bool = False) -> View:
    """The comparisons, ready for any format. Tables show figures that changed, and times; or `everything`."""
    results = [_document(each) for each in comparisons]
    document = {
        "schema": SCHEMA,
        "version": __version__,
        "command": ["rooflinecli", *sys.argv[1:]],
        "failures": list(failures),
        "comparisons": results,
    }
    records = [{"base": each["base"], "other": each["other"], **row} for each in results for row in each["differences"]]
    return View(document, records, lambda: [_sheet(each, failures, everything) for each in comparisons])


def _document(each: Comparison) -> dict[str, Any]:
    return {
        "base": each.base.name,
        "other": each.other.name,
        "gpus": [each.base.gpu, each.other.gpu],
        "geometric_means": each.means(),
        "differences": [
            {
                **dict(one.key),
                "figure": one.figure,
                "before": one.before,
                "after": one.after,
                "change": one.change,
                "noise": one.noise,
            }
            for one in each.differences
        ],
        "only_in_base": [dict(key) for key in each.only_base],
        "only_in_other": [dict(key) for key in each.only_other],
    }


def _sheet(each: Comparison, failures: Sequence[str], everything: bool) -> Sheet:
    common = _common(each)
    shown = [one for one in each.differences if everything or one.figure == "seconds" or one.before != one.after]
    sections: dict[str, list[Line]] = {}
    for one in shown:
        sections.setdefault(_title(one.key, common), []).append(_line(one))
    means = {figure: mean for figure, mean in each.means().items() if any(one.figure == figure for one in shown)}
    if means:
        lines = [Line(figure, ["", "", f"{mean - 1:+.2%}", ""], strong=True) for figure, mean in means.items()]
        sections["geometric mean of the ratios"] = lines
    hidden = len(each.differences) - len(shown)
    notes = [f"{hidden} figures are equal; --all shows them."] if hidden else []
    for name, keys in ((each.base.name, each.only_base), (each.other.name, each.only_other)):
        if keys:
            notes.append(f"Only in {name}: {'; '.join(_title(key, common) for key in keys)}.")
    notes += [f"FAILED {failure}" for failure in failures]
    gpus = "" if each.base.gpu == each.other.gpu else f" ({each.base.gpu} against {each.other.gpu})"
    return Sheet(
        title=f"{each.base.name} → {each.other.name}{gpus}",
        columns=["before", "after", "change", ""],
        sections=[Section(heading, lines) for heading, lines in sections.items()],
        subtitle=[", ".join(f"{name}={value}" for name, value in common.items())] if common else [],
        notes=notes,
    )


def _line(one: Difference) -> Line:
    word = "noise" if one.noise else "" if one.before == one.after else "changed"
    return Line(one.figure, [_show(one.figure, one.before), _show(one.figure, one.after), change_text(one), word])


def _show(figure: str, value: float) -> str:
    if figure == "seconds":
        return format_seconds(value)
    if figure.endswith("flops_per_s"):
        return format_rate(value, "FLOP/s")
    if figure.startswith("flops."):
        return format_rate(value, "FLOP")
    if figure.split(".")[0] in ("sm", "hbm", "compulsory"):
        return format_bytes(value)
    return f"{value:.4g}"


def _common(each: Comparison) -> dict[str, Any]:
    """Fields of the workload that all results share: said once, above."""
    keys = [dict(key) for key in {one.key: None for one in each.differences}]
    first = keys[0] if keys else {}
    return {
        name: value
        for name, value in first.items()
        if name not in ("kernel", "algorithm") and len(keys) > 1 and all(key.get(name) == value for key in keys)
    }


def _title(key: Key, common: dict[str, Any]) -> str:
    return " ".join(
        str(value) if name in ("kernel", "algorithm") else f"{name}={value}"
        for name, value in key
        if name not in common
    )
