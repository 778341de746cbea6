"""Many accounts at once: swept workloads on several GPUs, keeping what works and saying what does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rooflinecli.calculator import Account, account, applicable
from rooflinecli.errors import InputError
from rooflinecli.hardware import load_profile
from rooflinecli.workload import Workload

if TYPE_CHECKING:
    from rooflinecli.hardware import Profile


@dataclass(frozen=True, slots=True)
class Case:
    """One combination of swept values: `at` names them, `read` makes the workload and `account`'s other arguments.

    algorithms: this case's own, where it does not take the grid's.
    """

    at: Mapping[str, Any]
    read: Callable[[], tuple[Workload, Mapping[str, Any]]]
    algorithms: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """The account of one case on one GPU."""

    at: Mapping[str, Any]
    account: Account


@dataclass(frozen=True, slots=True)
class Refused:
    """A case, or one algorithm or GPU of it, that is wrong in itself, and why."""

    at: Mapping[str, Any]
    reason: str
    gpu: str | None = None
    algorithm: str | None = None


@dataclass(frozen=True, slots=True)
class Grid:
    """Every account there is, and every refusal."""

    cells: tuple[Cell, ...]
    refused: tuple[Refused, ...]


def grid(
    cases: Iterable[Case],
    gpu: str | Profile | Sequence[str | Profile] = "a100",
    algorithms: Sequence[str] | None = None,
) -> Grid:
    """An account for each case on each GPU.

    A combination that `account` refuses (a tile that does not fit, a format the GPU has no peak for, heads that do not
    divide) is kept as refused, as long as any other one is good.

    Raises:
        InputError: nothing is good; the first refusal, as it stands.
    """
    asked: list[str | Profile] = list(gpu) if isinstance(gpu, (list, tuple)) else [gpu]  # type: ignore[list-item]
    profiles = [load_profile(one) if isinstance(one, str) else one for one in asked]
    cells: list[Cell] = []
    refused: list[Refused] = []
    first: InputError | None = None
    for case in cases:
        try:
            workload, options = case.read()
        except InputError as error:
            first = first or error
            refused.append(Refused(case.at, error.message))
            continue
        for profile in profiles:
            for found in _accounts(workload, profile, case.algorithms or algorithms, options):
                if isinstance(found, Account):
                    cells.append(Cell(case.at, found))
                else:
                    name, refusal = found
                    first = first or refusal
                    refused.append(Refused(case.at, refusal.message, profile.id, name))
    if not cells and first is not None:
        raise first
    return Grid(tuple(cells), tuple(refused))


def _accounts(
    workload: Workload, profile: Profile, algorithms: Sequence[str] | None, options: Mapping[str, Any]
) -> Iterator[Account | tuple[str | None, InputError]]:
    """All algorithms together, or, where that fails, each that works alone."""
    try:
        yield account(workload, profile, algorithms, **options)
        return
    except InputError as error:
        together = error
    names = algorithms or applicable(workload)
    alone: list[Account | tuple[str | None, InputError]] = []
    for name in names:
        try:
            alone.append(account(workload, profile, [name], **options))
        except InputError as error:
            alone.append((name, error))
    if any(isinstance(each, Account) for each in alone):
        yield from alone
    else:  # one reason for all of them is one line
        yield None, together
