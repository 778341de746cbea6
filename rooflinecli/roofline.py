"""Ceilings of a GPU, and what of a cost each of them takes at least: the slowest binds.

Two models of memory, both always computed:

textbook  bytes at the SM boundary against HBM bandwidth, as if nothing lay between
l2        bytes at the SM boundary against L2 bandwidth, bytes behind the L2 against HBM bandwidth
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rooflinecli.accounting.ledger import Cost
from rooflinecli.dtypes import DType
from rooflinecli.errors import InputError

if TYPE_CHECKING:
    from rooflinecli.hardware import Figure, Profile

MemoryModel = Literal["textbook", "l2"]


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A rate no kernel exceeds. `id` is its name in JSON, `rate` is in `unit`, `source` says where it is from.

    measured: somebody timed it, rather than promised it in a datasheet.
    """

    id: str
    label: str
    rate: float
    unit: str
    source: str
    clock: float | None = None
    measured: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """What one ceiling allows: `amount` of work at its rate takes `seconds`.

    `flops_per_s` is the useful FLOP/s the whole kernel would reach if only this ceiling bound it.
    """

    ceiling: Ceiling
    amount: int
    seconds: float
    flops_per_s: float


@dataclass(frozen=True, slots=True)
class Textbook:
    """The roofline of the literature: useful and softmax FLOPs, SM-boundary bytes, HBM bandwidth, one peak."""

    intensity: float | None
    ridge: float
    attainable_flops_per_s: float
    share_of_peak: float
    bound_by: Literal["memory", "compute"]
    seconds_at_least: float
    speedup_over_naive: float | None = None


def peak(profile: Profile, dtype: DType) -> Ceiling:
    """The dense matrix peak for `dtype`.

    Raises:
        InputError: the GPU has no unit for it, or its profile does not know.
    """
    for name in dtype.peaks:
        figure = profile.peaks.get(name)
        if figure is not None:
            return _ceiling(name, f"{name.replace('_', ' ')} dense", figure)
    able = ", ".join(sorted(profile.peaks))
    raise InputError(f"--dtype {dtype.name}: {profile.id} has no ceiling for it", f"it has {able}")


def bandwidth(profile: Profile) -> Ceiling:
    """HBM (or GDDR) bandwidth.

    Raises:
        InputError: the profile does not know it.
    """
    figure = profile.dram.bandwidth
    if figure is None:
        raise InputError(f"--gpu {profile.id}: its profile does not know the memory bandwidth")
    return _ceiling("hbm", f"{profile.dram.type or 'DRAM'} bandwidth", figure)


def ceilings(profile: Profile, dtype: DType) -> dict[str, Ceiling]:
    """Every ceiling of `profile` that a kernel on `dtype` meets, by id. Unknown figures give no ceiling."""
    found = [peak(profile, dtype), bandwidth(profile)]
    for name, label, figure in (
        ("l2", "L2 bandwidth", profile.l2.bandwidth),
        ("fp32_vector", "FP32 vector", profile.peaks.get("fp32_vector")),
        ("exp", "exponentials", profile.exp_rate),
    ):
        if figure is not None and name != found[0].id:
            found.append(_ceiling(name, label, figure))
    return {ceiling.id: ceiling for ceiling in found}


def bounds(
    cost: Cost, hbm_bytes: int | None, profile: Profile, dtype: DType, memory_model: MemoryModel
) -> tuple[Bound, ...]:
    """What each ceiling allows, slowest first.

    `hbm_bytes` is the traffic behind the L2; under the textbook model the SM-boundary bytes take its place
    and the L2 does not exist. The vector unit does the softmax, 5 FLOP an exponential executed.
    """
    limits = ceilings(profile, dtype)
    matrix = peak(profile, dtype).id
    sm_bytes = cost.traffic("sm").total
    amounts = {matrix: cost.flops.executed, "exp": cost.exponentials.executed}
    # On a GPU that multiplies fp32 matrices on its vector unit, that unit does both.
    amounts["fp32_vector"] = amounts.get("fp32_vector", 0) + 5 * cost.exponentials.executed
    if memory_model == "textbook" or hbm_bytes is None:
        amounts["hbm"] = sm_bytes
    else:
        amounts |= {"l2": sm_bytes, "hbm": hbm_bytes}
    found = [_bound(limits[name], amount, cost) for name, amount in amounts.items() if name in limits]
    return tuple(sorted(found, key=lambda bound: -bound.seconds))


def textbook(cost: Cost, profile: Profile, dtype: DType, naive: Cost | None = None) -> Textbook:
    """The textbook roofline of `cost`; `naive`, when given, is what the speed-up is over."""
    roof, slope = peak(profile, dtype).rate, bandwidth(profile).rate
    flops, moved = cost.flops.useful + cost.flops.softmax, cost.traffic("sm").total
    by_compute, by_memory = flops / roof, moved / slope
    seconds = max(by_compute, by_memory)
    attainable = flops / seconds if seconds else 0.0
    return Textbook(
        intensity=flops / moved if moved else None,
        ridge=roof / slope,
        attainable_flops_per_s=attainable,
        share_of_peak=attainable / roof,
        bound_by="memory" if by_memory > by_compute else "compute",
        seconds_at_least=seconds,
        speedup_over_naive=None
        if naive is None or not seconds
        else textbook(naive, profile, dtype).seconds_at_least / seconds,
    )


def _ceiling(name: str, label: str, figure: Figure) -> Ceiling:
    return Ceiling(name, label, figure.value, figure.unit, figure.source, figure.clock, figure.is_measured)


def _bound(ceiling: Ceiling, amount: int, cost: Cost) -> Bound:
    seconds = amount / ceiling.rate
    return Bound(ceiling, amount, seconds, cost.flops.useful / seconds if seconds else float("inf"))
