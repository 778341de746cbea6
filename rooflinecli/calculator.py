"""The whole calculation for one workload: costs, levels, bounds, for each algorithm on each GPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import rooflinecli.memory.l2 as l2
from rooflinecli.accounting import ALGORITHMS, algorithm
from rooflinecli.accounting.ledger import Cost, Tile
from rooflinecli.dtypes import DType, compute_dtype
from rooflinecli.errors import InputError, naming, unknown_name
from rooflinecli.hardware import load_profile
from rooflinecli.memory.tiles import choose_tile
from rooflinecli.roofline import Bound, MemoryModel, Textbook, bounds, textbook
from rooflinecli.workload import Workload

if TYPE_CHECKING:
    from rooflinecli.hardware import Profile


@dataclass(frozen=True, slots=True)
class Intensity:
    """FLOP a byte. `textbook`: useful and softmax FLOPs over SM-boundary bytes. `sm`, `hbm`: executed FLOPs
    over the bytes of that level, so that the tensor peak is the roof above them. None where nothing moves."""

    textbook: float | None
    sm: float | None
    hbm: float | None


@dataclass(frozen=True, slots=True)
class Result:
    """One algorithm on one GPU. `bounds` come slowest first; the first one binds."""

    gpu: str
    cost: Cost
    hbm: l2.HbmTraffic
    intensity: Intensity
    bounds: tuple[Bound, ...]
    textbook: Textbook

    @property
    def algorithm(self) -> str:
        """The algorithm's name."""
        return self.cost.algorithm

    @property
    def bound_by(self) -> str:
        """Id of the ceiling that binds."""
        return self.bounds[0].ceiling.id

    @property
    def seconds_at_least(self) -> float:
        """No kernel of this cost is faster on this GPU."""
        return self.bounds[0].seconds


@dataclass(frozen=True, slots=True)
class Account:
    """Everything `account` found: the workload, the GPUs in order, and a result an algorithm a GPU."""

    workload: Workload
    gpus: tuple[Profile, ...]
    results: tuple[Result, ...]
    memory_model: MemoryModel
    compute_dtype: str
    excluded: tuple[str, ...]


def account(
    workload: Workload,
    gpu: str | Profile | Sequence[str | Profile] = "a100",
    algorithms: Iterable[str] | None = None,
    *,
    br: int | None = None,
    bc: int | None = None,
    splits: int | None = None,
    pack_gqa: bool | None = None,
    page_size: int | None = None,
    exclude: Iterable[str] = (),
    memory_model: MemoryModel = "l2",
    compute_dtype: str | None = None,
) -> Account:
    """Bytes per memory level, FLOPs, intensity and bounds of attention algorithms on GPUs.

    Args:
        workload: shapes and formats; see `Workload`.
        gpu: profile ids, family aliases, paths of profile files, or loaded profiles.
        algorithms: names from `ALGORITHMS`; by default every one that applies to the workload.
        br, bc: rows of Q and of K/V in a tile; by default what kernels choose on that GPU.
        splits: blocks that share one query tile's keys, for split-KV algorithms.
        pack_gqa: whether the query heads of a group share a tile; by default as the algorithm does.
        page_size: tokens in a page of a paged cache (default 16).
        exclude: tensors struck from the ledgers: `O`, or `naive:O` for one algorithm's only.
        memory_model: which bytes feed the bounds; see `rooflinecli.roofline`.
        compute_dtype: the format whose peak is the roof, where it differs from the storage format.

    Returns:
        Integers of bytes and FLOP, floats of seconds and FLOP/s.

    Raises:
        InputError: an unknown name, a tile that does not fit, a format the GPU has no peak for.
    """
    given: list[str | Profile] = list(gpu) if isinstance(gpu, (list, tuple)) else [gpu]  # type: ignore[list-item]
    profiles = tuple(load_profile(one) if isinstance(one, str) else one for one in given)
    chosen = [algorithm(name) for name in algorithms or applicable(workload)]
    struck = tuple(exclude)
    unit = compute_dtype_of(workload, compute_dtype)
    results = []
    costs = []
    for profile in profiles:
        for each in chosen:
            tile = choose_tile(
                workload, each, profile, br=br, bc=bc, splits=splits, pack_gqa=pack_gqa, page_size=page_size
            )
            whole = each.cost(workload, tile)
            costs.append(whole)
            naive = None if each.name == "backward" else _strike(_naive(workload), struck)
            results.append(_result(_strike(whole, struck), naive, workload, profile, unit, memory_model))
    _check_struck(struck, costs)
    return Account(workload, profiles, tuple(results), memory_model, unit.name, struck)


def _naive(workload: Workload) -> Cost:
    """What speed-ups are over; it has no tile."""
    return ALGORITHMS["naive"].cost(workload, Tile(1, 1))


def compute_dtype_of(workload: Workload, asked: str | None) -> DType:
    """The format whose peak is the roof."""
    return workload.storage if asked is None else compute_dtype(asked)


def applicable(workload: Workload) -> list[str]:
    """Names of the algorithms that somebody who names none wants to see for this workload."""
    return [each.name for each in ALGORITHMS.values() if each.applies(workload)]


def _strike(cost: Cost, struck: tuple[str, ...]) -> Cost:
    """`cost` without the tensors that are excluded everywhere, or from this algorithm by name."""
    here = [tensor for scope, tensor in map(_scoped, struck) if scope in ("", cost.algorithm)]
    return cost.without(here) if here else cost


def _scoped(entry: str) -> tuple[str, str]:
    scope, _, tensor = entry.rpartition(":")
    return scope.strip().lower(), tensor.strip()


def _check_struck(struck: tuple[str, ...], results: Iterable[Cost]) -> None:
    """An exclusion that names nothing is a typing error, not a silent zero."""
    costs = {cost.algorithm: {row.tensor.lower(): row.tensor for row in cost.ledger} for cost in results}
    for scope, tensor in map(_scoped, struck):
        if scope and scope not in ALGORITHMS:
            with naming("--exclude", f"{scope}:{tensor}"):
                raise unknown_name("algorithm", scope, ALGORITHMS)
        known = {low: name for name, rows in costs.items() if scope in ("", name) for low, name in rows.items()}
        if known and tensor.lower() not in known:
            raise InputError(
                f"--exclude {tensor}: no such tensor here", f"there are {', '.join(sorted(known.values()))}"
            )


def _result(
    cost: Cost,
    naive: Cost | None,
    workload: Workload,
    profile: Profile,
    unit: DType,
    memory_model: MemoryModel,
) -> Result:
    hbm = l2.estimate(cost, workload, profile)
    moved = cost.traffic("sm").total
    book = textbook(cost, profile, unit, naive)
    intensity = Intensity(
        textbook=book.intensity,
        sm=cost.flops.executed / moved if moved else None,
        hbm=cost.flops.executed / hbm.total if hbm.total else None,
    )
    return Result(profile.id, cost, hbm, intensity, bounds(cost, hbm.total, profile, unit, memory_model), book)
