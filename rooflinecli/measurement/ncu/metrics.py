"""Which counter says what, on which chip: candidates, and the tool is asked which of them it has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rooflinecli.measurement.ncu.reader import Launch

# Quantity -> counters that report it, best first: chips differ in names.
_CANDIDATES: dict[str, tuple[str, ...]] = {
    "sm.read": ("l1tex__m_xbar2l1tex_read_bytes",),
    "sm.write": ("l1tex__m_l1tex2xbar_write_bytes",),
    "hbm.read": ("dram__bytes_read", "dram__bytes_op_read"),
    "hbm.write": ("dram__bytes_write", "dram__bytes_op_write"),
    "exponentials": ("sm__inst_executed_pipe_xu", "smsp__inst_executed_pipe_xu"),
    "seconds": ("gpu__time_duration",),
}
_TENSOR = re.compile(
    r"sm__ops_path_tensor_op_([a-z0-9]+)_src_([a-z0-9]+?)((?:_dst_[a-z0-9]+)?)((?:_sparsity_(?:on|off))?)"
)
_METRIC = re.compile(r"\b([a-z][a-z0-9]*__[a-z0-9_]+)\b")
# Storage format -> what the counters call the operands of its matrix products.
SOURCES = {"fp16": ("fp16",), "bf16": ("bf16",), "tf32": ("tf32",), "fp8_e4m3": ("fp8",), "fp8_e5m2": ("fp8",),
           "int8": ("int8",), "fp64": ("fp64",), "fp32": ()}  # fmt: skip
WARP = 32  # threads an instruction of a warp is executed for


@dataclass(frozen=True, slots=True)
class Counter:
    """A quantity as one chip counts it: the sum of `metrics`, times `factor`."""

    quantity: str
    metrics: tuple[str, ...]
    factor: int = 1


def available(listing: str) -> set[str]:
    """The metric names in what `ncu --query-metrics` prints."""
    return {match[1] for line in listing.splitlines() if (match := _METRIC.match(line.strip()))}


def resolve(known: Iterable[str], dtype: str) -> tuple[dict[str, Counter], list[str]]:
    """Counters for a computation in `dtype` on a chip that has the metrics `known`, and quantities it has none for."""
    names = set(known)
    found: dict[str, Counter] = {}
    for quantity, candidates in _CANDIDATES.items():
        chosen = next((name for name in candidates if name in names), None)
        if chosen is not None:
            found[quantity] = Counter(quantity, (f"{chosen}.sum",), WARP if quantity == "exponentials" else 1)
    tensor = tensor_metrics(names, dtype)
    if tensor:
        found["flops.executed"] = Counter("flops.executed", tuple(f"{name}.sum" for name in tensor))
    wanted = [*_CANDIDATES, *(["flops.executed"] if SOURCES[dtype] else [])]
    return found, [quantity for quantity in wanted if quantity not in found]


def tensor_metrics(known: Iterable[str], dtype: str) -> list[str]:
    """Counters of matrix operations on operands of `dtype`, every instruction kind once.

    A kind is counted by several names, as a whole, by result and by sparsity: the least specific level that
    exists is taken, all of it. Dense and sparse are summed, since a kernel may use either.
    """
    kinds: dict[str, dict[tuple[bool, bool], list[str]]] = {}
    for name in sorted(set(known)):
        match = _TENSOR.fullmatch(name)
        if match and match[2] in SOURCES[dtype]:
            kinds.setdefault(match[1], {}).setdefault((bool(match[4]), bool(match[3])), []).append(name)
    if kinds:
        return [name for kind in sorted(kinds) for name in kinds[kind][min(kinds[kind])]]
    # Some formats are counted in all only, whatever the instruction.
    whole = {f"sm__ops_path_tensor_src_{source}{result}" for source in SOURCES[dtype] for result in ("", "_dst_fp32")}
    return sorted(whole & set(known))[:1]


def totals(launches: Sequence[Launch], counters: Mapping[str, Counter]) -> dict[str, float | None]:
    """Each quantity summed over `launches`; None where a launch lacks one of its metrics, which is not zero."""
    return {quantity: _total(launches, counter) for quantity, counter in counters.items()}


def names_in(launches: Iterable[Launch]) -> set[str]:
    """Base names (without `.sum`) of the metrics that have a value in some launch."""
    return {
        name.removesuffix(".sum")
        for launch in launches
        for name, reading in launch.metrics.items()
        if name.endswith(".sum") and reading.value is not None
    }


def _total(launches: Sequence[Launch], counter: Counter) -> float | None:
    sums = [_of(launch, counter) for launch in launches]
    return None if not sums or None in sums else sum(value for value in sums if value is not None)


def _of(launch: Launch, counter: Counter) -> float | None:
    values = [reading.value if (reading := launch.metrics.get(name)) else None for name in counter.metrics]
    return None if None in values else counter.factor * sum(value for value in values if value is not None)


Resolver = Callable[[Sequence[str]], set[str]]
