"""The cases of a sweep or a model, from the options as typed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from rooflinecli.cli.options import KernelOptions, WorkloadOptions
from rooflinecli.errors import InputError
from rooflinecli.grid import Case, Grid, grid
from rooflinecli.layers import algorithms_for
from rooflinecli.sweep import Sweep, Value, combinations

if TYPE_CHECKING:
    from rooflinecli.models.spec import ModelSpec
    from rooflinecli.workload import Workload


def account_cases(
    workload: WorkloadOptions, kernel: KernelOptions, spec: ModelSpec | None, sweeps: Sequence[Sweep]
) -> Grid:
    """The accounts of every combination of swept values; of a model, of each of its attention calls.

    Raises:
        InputError: an option that no swept value stands for cannot be read.
    """
    named = kernel.read()
    given = {name: value for name, value in named.items() if name not in ("gpu", "algorithms")}
    cases = [case for at in combinations(sweeps) for case in _cases(workload, kernel, spec, given, sweeps, at)]
    return grid(cases, named["gpu"], named["algorithms"])


def _cases(
    workload: WorkloadOptions,
    kernel: KernelOptions,
    spec: ModelSpec | None,
    given: Mapping[str, Any],
    sweeps: Sequence[Sweep],
    at: Mapping[str, Value],
) -> Iterator[Case]:
    """A case of one combination of swept values, or of a model one for each call of its layers.

    Swept values stand in the place of what was typed.
    """
    values = {each.field: at[each.option] for each in sweeps}
    texts = {name: value if isinstance(value, bool) else str(value) for name, value in values.items()}
    names = {field.name for field in fields(WorkloadOptions)}
    here = replace(workload, **{name: text for name, text in texts.items() if name in names})  # type: ignore[arg-type]
    tiles = {name: text for name, text in texts.items() if name not in names}

    def options() -> Mapping[str, Any]:
        if not tiles:
            return given
        again = replace(kernel, gpu=[], **tiles).read()  # type: ignore[arg-type]
        return {name: again[name] for name in given}

    if spec is None:
        yield Case(at, lambda: (here.read(), options()))
        return
    try:
        calls = here.layers(spec)
    except InputError as error:
        yield Case(at, partial(_refuse, error))
        return
    for call in calls:
        label = {"layer": f"{call.count} {call.kind}"} if len(calls) > 1 else {}
        yield Case({**at, **label}, partial(_called, call.workload, options), algorithms_for(call, kernel.algorithm))


def _called(workload: Workload, options: Callable[[], Mapping[str, Any]]) -> tuple[Workload, Mapping[str, Any]]:
    return workload, options()


def _refuse(error: InputError) -> NoReturn:
    raise error
