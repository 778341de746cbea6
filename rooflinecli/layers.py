"""Attention of a whole model: an account for each call its layers make, and their sum."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rooflinecli.accounting.ledger import Exponentials, Flops, Traffic
from rooflinecli.calculator import Account, Result, account, applicable

if TYPE_CHECKING:
    from rooflinecli.hardware import Profile
    from rooflinecli.models.workloads import LayerWorkload


@dataclass(frozen=True, slots=True)
class LayerAccount:
    """`count` layers of one kind make the same call; `account` is of one of them."""

    kind: str
    count: int
    account: Account


@dataclass(frozen=True, slots=True)
class Total:
    """All layers of one algorithm on one GPU: sums, layers one after the other.

    `hbm` is the estimate, `hbm_reads` what readings may show; `bound_by` the ceiling that binds longest, by its id
    and its label.
    """

    gpu: str
    algorithm: str
    flops: Flops
    exponentials: Exponentials
    sm: Traffic
    hbm: Traffic
    hbm_reads: tuple[int, int]
    compulsory: Traffic
    seconds_at_least: float
    bound_by: str
    bound_by_label: str


@dataclass(frozen=True, slots=True)
class ModelAccount:
    """Every call of a step and the totals of the algorithms that serve all of them."""

    layers: tuple[LayerAccount, ...]
    totals: tuple[Total, ...]


def algorithms_for(call: LayerWorkload, asked: Sequence[str] | None) -> list[str]:
    """The algorithms of one call: those asked for, else those that apply.

    A latent cache (MLA) is read once as K and V both, which only its own ledger knows.
    """
    if asked:
        return list(asked)
    return ["mla"] if call.algorithm_hint == "mla" else applicable(call.workload)


def account_layers(
    calls: Iterable[LayerWorkload],
    gpu: str | Profile | Sequence[str | Profile] = "a100",
    algorithms: Sequence[str] | None = None,
    **options: Any,
) -> ModelAccount:
    """`rooflinecli.account` for each of a model's attention calls, and their sum.

    Args:
        calls: of `rooflinecli.models.attention_workloads`.
        gpu, algorithms, options: as for `account`; by default each layer's own algorithms.

    Returns:
        Bytes and FLOP as integers, seconds as floats; an algorithm that does not serve every layer has no total.

    Raises:
        InputError: as `account`.
    """
    layers = tuple(
        LayerAccount(call.kind, call.count, account(call.workload, gpu, algorithms_for(call, algorithms), **options))
        for call in calls
    )
    return ModelAccount(layers, tuple(_totals(layers)))


def _totals(layers: Sequence[LayerAccount]) -> Iterator[Total]:
    found: dict[tuple[str, str], list[tuple[int, Result]]] = {}
    for layer in layers:
        for result in layer.account.results:
            found.setdefault((result.gpu, result.algorithm), []).append((layer.count, result))
    for (gpu, algorithm), parts in found.items():
        if len(parts) == len(layers):
            yield _total(gpu, algorithm, parts)


def _total(gpu: str, algorithm: str, parts: Sequence[tuple[int, Result]]) -> Total:
    def summed(amount: Callable[[Result], int]) -> int:
        return sum(count * amount(result) for count, result in parts)

    binding: dict[str, float] = {}
    labels: dict[str, str] = {}
    for count, result in parts:
        binding[result.bound_by] = binding.get(result.bound_by, 0.0) + count * result.seconds_at_least
        labels[result.bound_by] = result.bounds[0].ceiling.label
    longest = max(binding, key=lambda name: binding[name])
    return Total(
        gpu,
        algorithm,
        Flops(*(summed(lambda r, n=name: getattr(r.cost.flops, n)) for name in Flops.__slots__)),  # type: ignore[misc]
        Exponentials(summed(lambda r: r.cost.exponentials.useful), summed(lambda r: r.cost.exponentials.executed)),
        Traffic(summed(lambda r: r.cost.traffic("sm").read), summed(lambda r: r.cost.traffic("sm").write)),
        Traffic(summed(lambda r: r.hbm.read), summed(lambda r: r.hbm.write)),
        (summed(lambda r: r.hbm.read_low), summed(lambda r: r.hbm.read_high)),
        Traffic(
            summed(lambda r: r.cost.traffic("compulsory").read), summed(lambda r: r.cost.traffic("compulsory").write)
        ),
        sum(binding.values()),
        longest,
        labels[longest],
    )
