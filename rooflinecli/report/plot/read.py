"""Charts from result files: `roofline --from`. The one place that knows other commands' documents.

A record kind is added by one function in `_READERS`: a document in, its machines and kernels out.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rooflinecli.dtypes import compute_dtype
from rooflinecli.errors import InputError, RooflineError
from rooflinecli.report.plot.build import chart
from rooflinecli.report.plot.chart import SCHEMA, Chart, Roof, Undrawable
from rooflinecli.report.plot.kernels import Ceiling, Kernel, Machine, tile_text
from rooflinecli.report.plot.title import title

Parts = tuple[list[Machine], list[Kernel], list[Undrawable]]
# Results name their ceilings by id only.
_LABELS = {"hbm": "HBM bandwidth", "l2": "L2 bandwidth", "exp": "exponentials", "fp32_vector": "FP32 vector"}


def read_charts(paths: Sequence[Path]) -> list[Chart]:
    """The chart of each file; with more than one, points carry the file's name as their run.

    Raises:
        InputError: a file cannot be read, or holds nothing that can be drawn; names the file.
    """
    charts = [_read(path) for path in paths]
    if len(charts) < 2:
        return charts
    names = _names(paths)
    return [_in_run(each, name) for each, name in zip(charts, names, strict=True)]


def overlay(charts: Sequence[Chart]) -> Chart:
    """Several charts as one; roofs that agree in everything but their kernels are drawn once.

    Raises:
        InputError: there is nothing to draw at all.
    """
    if len(charts) == 1:
        return charts[0]
    roofs: dict[tuple[Any, ...], list[Roof]] = {}
    for each in charts:
        for roof in each.roofs:
            key = (roof.gpu, roof.id, roof.kind, roof.rate, roof.source, roof.dtype)
            roofs.setdefault(key, []).append(roof)
    merged = tuple(_one_roof(group) for group in roofs.values())
    kept = {(roof.run, roof.gpu, roof.id) for roof in merged}
    ridges = [ridge for each in charts for ridge in each.ridges]
    ridges = [
        ridge if (ridge.run, ridge.gpu, ridge.bandwidth) in kept else replace(ridge, run=None) for ridge in ridges
    ]
    titles = dict.fromkeys(each.title for each in charts)
    return Chart(
        title=next(iter(titles)) if len(titles) == 1 else f"{len(charts)} results on one roofline",
        gpus={name: words for each in charts for name, words in each.gpus.items()},
        roofs=merged,
        ridges=tuple(dict.fromkeys(ridges)),
        points=tuple(point for each in charts for point in each.points),
        undrawable=tuple(dict.fromkeys(lost for each in charts for lost in each.undrawable)),
        swept=tuple(dict.fromkeys(name for each in charts for name in each.swept)),
        notes=tuple(dict.fromkeys(note for each in charts for note in each.notes)),
    )


def _one_roof(group: Sequence[Roof]) -> Roof:
    """Roofs of one rate and source: one line, over the kernels of all of them."""
    runs = {roof.run for roof in group}
    lows = [roof.low for roof in group if roof.low is not None]
    highs = [roof.high for roof in group if roof.high is not None]
    return replace(
        group[0],
        run=group[0].run if len(runs) == 1 else None,
        low=min(lows) if lows else None,
        high=max(highs) if highs else None,
    )


def _in_run(drawn: Chart, run: str) -> Chart:
    def inside(old: str | None) -> str:
        return run if old is None else f"{run}: {old}"

    return replace(
        drawn,
        roofs=tuple(replace(roof, run=inside(roof.run)) for roof in drawn.roofs),
        ridges=tuple(replace(ridge, run=inside(ridge.run)) for ridge in drawn.ridges),
        points=tuple(replace(point, run=inside(point.run)) for point in drawn.points),
        undrawable=tuple(replace(lost, run=inside(lost.run)) for lost in drawn.undrawable),
    )


def _names(paths: Sequence[Path]) -> list[str]:
    """The shortest names that tell the files apart."""
    stems = [path.stem for path in paths]
    if len(set(stems)) == len(stems):
        return stems
    texts = [str(path) for path in paths]
    return [text if texts.count(text) == 1 else f"{text} #{index + 1}" for index, text in enumerate(texts)]


def _read(path: Path) -> Chart:
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not text"
        raise InputError(f"--from {path}: {reason}") from error
    try:
        return chart_from_text(text)
    except RooflineError as error:
        raise InputError(f"--from {path}: {error.message}", error.hint) from error


def chart_from_text(text: str) -> Chart:
    """The chart that a JSON document, or a CSV written by `--data`, describes.

    Raises:
        InputError: neither of them, or a record kind that has no points.
    """
    if text.lstrip().startswith("record,"):
        return _from_csv(text)
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"is neither JSON nor a roofline's CSV (line {error.lineno}: {error.msg})") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema == SCHEMA:
        return _typed(document)
    if not isinstance(schema, str) or schema not in _READERS:
        known = ", ".join([SCHEMA, *_READERS])
        raise InputError(f"its schema is {schema!r}, which has no roofline in it", f"these have: {known}")
    try:
        machines, kernels, lost = _READERS[schema](document)
        shown = title(kernels, excluded=document.get("excluded", ()))
        return chart(shown, machines, kernels, undrawable=lost)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(f"is not a whole {schema} document ({type(error).__name__}: {error})") from error


def _bytes(document: Mapping[str, Any]) -> Parts:
    """`rooflinecli/bytes/1`."""
    machines = [_machine(gpu) for gpu in document["gpus"]]
    only = document["memory_model"] == "textbook"
    kernels = [
        _kernel(result, result.get("workload", document["workload"]), document["compute_dtype"], textbook_only=only)
        for result in document["results"]
    ]
    return machines, kernels, []


def _measure(document: Mapping[str, Any]) -> Parts:
    """`rooflinecli/measure/1`: a measured kernel beside what was predicted of it."""
    gpu = document["gpu"]
    if gpu is None:
        raise InputError("was measured on a card without a profile: there is no roof to draw its points under")
    machine = _machine(gpu)
    kernels, lost = [], []
    for point in document["points"]:
        prediction, name = point["prediction"], point["kernel"]
        if prediction is None or point["seconds"] is None:
            reason = point.get("reason") or f"{point['status']}: it has no time"
            lost.append(Undrawable(name, reason, gpu["id"]))
            continue
        computed = compute_dtype(point["workload"]["dtype"]).name
        predicted = _kernel({**prediction, "gpu": gpu["id"]}, point["workload"], computed, name=name)
        kernels += [predicted, replace(predicted, seconds=float(point["seconds"]))]
    return [machine], kernels, lost


_READERS: dict[str, Callable[[Mapping[str, Any]], Parts]] = {
    "rooflinecli/bytes/1": _bytes,
    "rooflinecli/measure/1": _measure,
}


def _machine(gpu: Mapping[str, Any]) -> Machine:
    """A GPU and the ceilings beside its id and name."""
    found = {}
    for name, figure in gpu.items():
        if isinstance(figure, Mapping) and {"value", "unit", "source"} <= set(figure):
            label = figure.get("label") or _LABELS.get(name, f"{name.replace('_', ' ')} dense")
            rate, source = float(figure["value"]), str(figure["source"])
            if not 0 < rate < float("inf"):
                raise InputError(f"ceiling {name} of {gpu['id']} is {rate}")
            found[name] = Ceiling(
                name, label, rate, figure["unit"], source, figure.get("clock_hz"), bool(figure.get("measured"))
            )
    return Machine(gpu["id"], gpu["name"], found)


def _kernel(
    result: Mapping[str, Any],
    workload: Mapping[str, Any],
    computed: str,
    *,
    textbook_only: bool = False,
    name: str | None = None,
) -> Kernel:
    """A kernel from one entry of `results`."""
    flops, moved, tile = result["flops"], result["bytes"], result["tile"] or {}
    hbm = moved["hbm"]
    return Kernel(
        gpu=result["gpu"],
        algorithm=result["algorithm"],
        dtype=computed,
        workload=dict(workload),
        tile=tile_text(tile.get("br"), tile.get("bc"), tile.get("splits", 1)),
        executed=flops["executed"],
        book_flops=flops["useful"] + flops["softmax"],
        sm_bytes=moved["sm"]["total"],
        hbm_bytes=hbm["total"],
        hbm_low=hbm["read_low"] + hbm["write"],
        hbm_high=hbm["read_high"] + hbm["write"],
        limits={bound["ceiling"]: bound["seconds"] for bound in result["bounds"]},
        textbook_only=textbook_only,
        name=name,
    )


def _typed(document: Mapping[str, Any]) -> Chart:
    """A chart from its own document, every field checked."""
    from pydantic import TypeAdapter, ValidationError

    gpus = {gpu["id"]: gpu["name"] for gpu in document.get("gpus", ()) if isinstance(gpu, Mapping)}
    try:
        read = TypeAdapter(Chart).validate_python({**document, "gpus": gpus})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{where}: {first['msg']}") from error
    for roof in read.roofs:
        if not 0 < roof.rate < float("inf"):
            raise InputError(f"roof {roof.id} of {roof.gpu}: its rate is {roof.rate}")
    good = tuple(point for point in read.points if _has_a_place(point.intensity, point.flops_per_s, point.attainable))
    lost = tuple(
        Undrawable(f"{p.kernel or p.algorithm} at level {p.level}", f"intensity {p.intensity}, FLOP/s {p.flops_per_s}",
                   p.gpu, p.run)
        for p in read.points if p not in good
    )  # fmt: skip
    return replace(read, points=good, undrawable=(*read.undrawable, *lost))


def _has_a_place(*values: float) -> bool:
    return all(0 < value < float("inf") for value in values)


def _from_csv(text: str) -> Chart:
    """A chart from the flat records of the CSV; `record` says what each line is."""
    document: dict[str, Any] = {
        "title": "Roofline",
        "gpus": [],
        "roofs": [],
        "ridges": [],
        "points": [],
        "undrawable": [],
    }
    for row in csv.DictReader(io.StringIO(text)):
        kind, fields = row.pop("record"), _nested(row.items())
        if kind == "chart":
            document["title"] = str(fields.get("title", "Roofline"))
            document["swept"] = str(fields.get("swept", "")).split()
        elif f"{kind}s" in document or kind == "undrawable":
            for name in ("at", "workload", "limits") if kind == "point" else ():
                fields.setdefault(name, {})
            if kind == "point":
                fields["above"] = str(fields.get("above", "")).split()
                fields["tile"] = str(fields.get("tile", ""))
            document[kind if kind == "undrawable" else f"{kind}s"].append(fields)
        else:
            raise InputError(f"its records are not a roofline's: {kind!r}")
    return _typed(document)


def _nested(cells: Iterable[tuple[str, str | None]]) -> dict[str, Any]:
    """Dotted columns as nested mappings; empty cells are left out."""
    found: dict[str, Any] = {}
    for name, cell in cells:
        if not cell:
            continue
        outer, _, inner = name.partition(".")
        if inner:
            found.setdefault(outer, {})[inner] = _scalar(cell)
        else:
            found[name] = cell  # its type is the field's
    return found


def _scalar(cell: str) -> Any:
    if cell in ("True", "False"):
        return cell == "True"
    for read in (int, float):
        try:
            return read(cell)
        except ValueError:
            continue
    return cell
