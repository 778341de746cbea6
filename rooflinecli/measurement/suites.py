"""What is measured when no workload is named: a little of everything, or much of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from rooflinecli.errors import InputError, unknown_name
from rooflinecli.workload import Workload

if TYPE_CHECKING:
    from rooflinecli.kernels import KernelSpec
    from rooflinecli.kernels.spec import Capability


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel on one workload."""

    kernel: str
    workload: Workload


def _forward(n: int, d: int, dtype: str, causal: bool) -> Workload:
    return Workload(heads=16 if d == 64 else 32, batch=2 if d == 64 else 1, n_q=n, d=d, dtype=dtype, causal=causal)


_QUICK: Mapping[str, tuple[Workload, ...]] = {
    "flash2": (
        _forward(4096, 128, "fp16", False),
        _forward(4096, 128, "fp16", True),
        _forward(4096, 64, "bf16", False),
        Workload(heads=32, kv_heads=8, n_q=4096, d=128, dtype="fp16", causal=True),
    ),
    "naive": (_forward(4096, 128, "fp16", False),),
    "backward": (_forward(4096, 128, "fp16", True),),
    "decode": (Workload(batch=16, heads=32, kv_heads=8, n_q=1, n_kv=8192, d=128, dtype="fp16"),),
    "paged": (Workload(batch=16, heads=32, kv_heads=8, n_q=1, n_kv=8192, d=128, dtype="fp16"),),
    "mla": (Workload(batch=16, heads=128, kv_heads=1, n_q=1, n_kv=8192, d=576, d_v=512, dtype="bf16"),),
}
_CHECK: Mapping[str, tuple[Workload, ...]] = {
    "flash2": (
        Workload(heads=2, n_q=64, d=32, dtype="fp32"),
        Workload(heads=4, kv_heads=2, n_q=49, n_kv=70, d=32, dtype="fp16", causal=True),
        Workload(heads=2, n_q=64, d=16, dtype="fp32", causal=True, window=20),
    ),
    "naive": (Workload(heads=2, n_q=48, d=32, dtype="fp32"),),
    "backward": (Workload(heads=2, n_q=40, d=32, dtype="fp32", causal=True),),
    "decode": (Workload(heads=4, kv_heads=2, n_q=1, n_kv=96, d=32, dtype="fp32"),),
    "paged": (Workload(heads=4, kv_heads=2, n_q=1, n_kv=96, d=32, dtype="fp32"),),
    "mla": (Workload(heads=4, kv_heads=1, n_q=1, n_kv=64, d=48, d_v=32, dtype="fp32"),),
}
SUITES = ("quick", "full")


def suite(name: str, kernels: Iterable[KernelSpec]) -> list[Case]:
    """The cases of a suite, for these kernels; "check" is small enough for an interpreter.

    Raises:
        InputError: no such suite.
    """
    tables: dict[str, Callable[[str], tuple[Workload, ...]]] = {
        "quick": lambda algorithm: _QUICK.get(algorithm, ()),
        "full": _full,
        "check": lambda algorithm: _CHECK.get(algorithm, ()),
    }
    if name not in tables:
        raise unknown_name("suite", name, SUITES)
    return [Case(spec.name, workload) for spec in kernels for workload in tables[name](spec.algorithm)]


def _full(algorithm: str) -> tuple[Workload, ...]:
    if algorithm == "flash2":
        grid = product((1024, 4096, 16384), (64, 128), ("fp16", "bf16"), (False, True))
        return (
            *(_forward(*one) for one in grid),
            _forward(16384, 128, "fp8_e4m3", False),
            Workload(heads=32, kv_heads=8, n_q=4096, d=128, dtype="fp16", causal=True),
            Workload(heads=32, n_q=16384, d=128, dtype="fp16", causal=True, window=4096),
            Workload(heads=8, n_q=4096, d=64, dtype="fp32"),
        )
    if algorithm in ("naive", "backward"):
        return tuple(
            _forward(n, d, "fp16", causal) for n in (1024, 4096) for d in (64, 128) for causal in (False, True)
        )
    if algorithm in ("decode", "paged"):
        sizes = ((1, 65536), (16, 8192), (64, 2048))
        return tuple(
            Workload(batch=batch, heads=32, kv_heads=kv_heads, n_q=1, n_kv=n_kv, d=128, dtype=dtype)
            for batch, n_kv in sizes
            for kv_heads, dtype in ((8, "fp16"), (8, "bf16"), (32, "fp16"))
        )
    return _QUICK.get(algorithm, ())


def select(kernels: Iterable[KernelSpec], names: Iterable[str] | None) -> list[KernelSpec]:
    """Kernels by their name or their algorithm's; all that compute attention where no name is given.

    Raises:
        InputError: no kernel of that name or algorithm.
    """
    able = [spec for spec in kernels if spec.algorithm != "probe"]
    if not names:
        return able
    known = {name: None for spec in able for name in (spec.name, spec.algorithm)}
    for name in names:
        if name not in known:
            raise unknown_name("kernel or algorithm", name, known)
    wanted = set(names)
    return [spec for spec in able if spec.name in wanted or spec.algorithm in wanted]


def cases_for_each(workloads: Sequence[Workload], kernels: Sequence[KernelSpec], capability: Capability) -> list[Case]:
    """`cases_for` each of them; one that no kernel runs is kept, to be left out with its reasons beside the others.

    Raises:
        InputError: no kernel runs any of them.
    """
    found: list[Case] = []
    refusals: list[InputError] = []
    for workload in workloads:
        try:
            found += cases_for(workload, kernels, capability)
        except InputError as error:
            refusals.append(error)
            found += [Case(spec.name, workload) for spec in kernels]
    if len(refusals) == len(workloads):
        raise refusals[0]
    return found


def cases_for(workload: Workload, kernels: Iterable[KernelSpec], capability: Capability) -> list[Case]:
    """Every one of `kernels` that runs this workload.

    Raises:
        InputError: none does; the message says why each does not.
    """
    reasons = {spec.name: spec.supports(workload, capability) for spec in kernels}
    if all(reasons.values()):
        raise InputError(
            "no kernel runs this workload: " + "; ".join(f"{name}: {why}" for name, why in reasons.items())
        )
    return [Case(name, workload) for name, why in reasons.items() if why is None]
