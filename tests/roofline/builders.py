"""Machines and kernels made by hand, from public datasheets, so that no test here depends on a profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rooflinecli.report.plot.build import chart
from rooflinecli.report.plot.chart import Chart
from rooflinecli.report.plot.kernels import Ceiling, Kernel, Machine


def machine(gpu: str, name: str, rates: Mapping[str, float], run: str | None = None) -> Machine:
    units = {"hbm": "B/s", "l2": "B/s", "exp": "op/s"}
    labels = {"hbm": "HBM bandwidth", "l2": "L2 bandwidth", "exp": "exponentials", "fp32_vector": "FP32 vector"}
    found = {}
    for id_, rate in rates.items():
        measured = id_ == "l2"
        source = "measured with a copy kernel" if measured else "datasheet, page 3"
        label = labels.get(id_, f"{id_.replace('_', ' ')} dense")
        found[id_] = Ceiling(id_, label, rate, units.get(id_, "FLOP/s"), source, None, measured)
    return Machine(gpu, name, found, run)


A100 = machine(
    "a100", "A100 40GB", {"fp16_tensor": 312e12, "hbm": 1555e9, "l2": 4.7e12, "fp32_vector": 19.5e12, "exp": 2.436e12}
)
H100 = machine(
    "h100", "H100 SXM", {"fp16_tensor": 989.4e12, "hbm": 3350e9, "l2": 5.6e12, "fp32_vector": 66.9e12, "exp": 3.865e12}
)


def limits(machine: Machine, amounts: Mapping[str, float]) -> dict[str, float]:
    """Seconds by ceiling."""
    known = machine.ceilings
    return {name: amount / known[name].rate for name, amount in amounts.items() if name in known}


def kernel(machine: Machine, algorithm: str, n: int, d: int = 64, *, sm: int, hbm: int, **other: Any) -> Kernel:
    """Attention of one head: 4 n^2 d FLOPs in the matrix products, one exponential and 5 softmax FLOPs a pair."""
    pairs, workload = n * n, {"batch": 1, "heads": 1, "n_q": n, "n_kv": n, "d": d, "d_v": d, "dtype": "fp16"}
    amounts = {"fp16_tensor": 4 * pairs * d, "exp": pairs, "fp32_vector": 5 * pairs, "l2": sm, "hbm": hbm}
    made = Kernel(
        gpu=machine.gpu, algorithm=algorithm, dtype="fp16", workload=workload, tile="", executed=4 * pairs * d,
        book_flops=4 * pairs * d + 5 * pairs, sm_bytes=sm, hbm_bytes=hbm, hbm_low=hbm, hbm_high=hbm,
        limits=limits(machine, amounts), run=machine.run,
    )  # fmt: skip
    return replace(made, **other)


def naive(machine: Machine, n: int, **other: Any) -> Kernel:
    """S and P written and read: 4 n^2 elements, and Q, K, V, O, of 2 bytes."""
    moved = (4 * n * n + 4 * n * 64) * 2
    return kernel(machine, "naive", n, sm=moved, hbm=moved, **other)


def flash(machine: Machine, n: int, **other: Any) -> Kernel:
    """K and V once a tile of 128 queries at the SM; every tensor once at HBM."""
    sm = (2 * n * 64 + 2 * n * 64 * -(-n // 128)) * 2
    return kernel(machine, "flash2", n, sm=sm, hbm=4 * n * 64 * 2, **other)


def standard() -> dict[str, Chart]:
    """The pictures that every medium must get right."""
    both = [naive(A100, 8192), flash(A100, 8192)]
    ns = [256 * 2**step for step in range(10)]
    swept = [make(H100, n, at={"N": n}) for n in ns for make in (naive, flash)]
    measured = [flash(H100, 8192), flash(H100, 8192, seconds=0.0275e-3, name="flash_forward")]
    wide = replace(flash(H100, 8192), hbm_high=40 * 4 * 8192 * 64 * 2)
    return {
        "one": chart("Attention, N=8192, d=64, fp16", [A100], both),
        "textbook": chart("Attention, N=2048", [A100], [replace(each, textbook_only=True) for each in both]),
        "two": chart("Attention, N=8192", [A100, H100], [*both, naive(H100, 8192), flash(H100, 8192)]),
        "sweep": chart("Attention, d=64, fp16", [H100], swept, swept=["N"]),
        "measured": chart("Attention, N=8192", [H100], measured),
        "interval": chart("Attention, N=8192, causal", [H100], [wide, naive(H100, 8192)]),
    }
