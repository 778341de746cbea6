"""One kernel on one GPU, whether computed now, read from a result file or measured: what points are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rooflinecli.dtypes import dtype

if TYPE_CHECKING:
    from rooflinecli.calculator import Account


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A rate, named and sourced, as results carry it."""

    id: str
    label: str
    rate: float
    unit: str
    source: str
    clock_hz: float | None = None
    measured: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """A GPU's ceilings by id. `run` tells two files apart. others: peaks its kernels do not run on."""

    gpu: str
    name: str
    ceilings: Mapping[str, Ceiling]
    run: str | None = None
    others: tuple[Ceiling, ...] = ()


@dataclass(frozen=True, slots=True)
class Kernel:
    """The cost of one algorithm on one GPU, and its time if somebody measured it.

    limits: the seconds each ceiling needs, by id, under the memory model that fed them. textbook_only: these are
    the literature's, whose bytes at `hbm` do not exist.
    """

    gpu: str
    algorithm: str
    dtype: str
    workload: Mapping[str, Any]
    tile: str
    executed: int
    book_flops: int
    sm_bytes: int
    hbm_bytes: int
    hbm_low: int
    hbm_high: int
    limits: Mapping[str, float]
    textbook_only: bool = False
    seconds: float | None = None
    at: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    run: str | None = None

    @property
    def peak_ids(self) -> tuple[str, ...]:
        """Ids of peaks this kernel's matrix products may run at, best first."""
        return dtype(self.dtype).peaks


def tile_text(br: int | None, bc: int | None, splits: int = 1) -> str:
    """A tile in words."""
    if br is None or bc is None:
        return ""
    return f"{br}x{bc}" + (f", {splits} splits" if splits > 1 else "")


def from_account(
    account: Account, at: Mapping[str, Any] | None = None, *, all_peaks: bool = False
) -> tuple[list[Machine], list[Kernel]]:
    """The GPUs and kernels of an account; `at` holds the values of what is swept.

    all_peaks: keep the peaks of every format the GPU has one for, to compare with.
    """
    from rooflinecli.dtypes import compute_dtype
    from rooflinecli.roofline import ceilings

    unit = compute_dtype(account.compute_dtype)
    machines = []
    for profile in account.gpus:
        met = {
            each.id: Ceiling(each.id, each.label, each.rate, each.unit, each.source, each.clock, each.measured)
            for each in ceilings(profile, unit).values()
        }
        others = tuple(
            Ceiling(
                name,
                f"{name.replace('_', ' ')} dense",
                peak.value,
                peak.unit,
                peak.source,
                peak.clock,
                peak.is_measured,
            )
            for name, peak in profile.peaks.items()
            if all_peaks and name not in met and peak is not None
        )
        machines.append(Machine(profile.id, profile.name, met, others=others))
    kernels = []
    for result in account.results:
        cost, tile, hbm = result.cost, result.cost.tile, result.hbm
        kernels.append(
            Kernel(
                gpu=result.gpu,
                algorithm=result.algorithm,
                dtype=account.compute_dtype,
                workload=account.workload.echo(),
                tile="" if tile is None else tile_text(tile.br, tile.bc, tile.splits),
                executed=cost.flops.executed,
                book_flops=cost.flops.useful + cost.flops.softmax,
                sm_bytes=cost.traffic("sm").total,
                hbm_bytes=hbm.total,
                hbm_low=hbm.read_low + hbm.write,
                hbm_high=hbm.read_high + hbm.write,
                limits={bound.ceiling.id: bound.seconds for bound in result.bounds},
                textbook_only=account.memory_model == "textbook",
                at=dict(at or {}),
            )
        )
    return machines, kernels
