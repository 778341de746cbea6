"""Whether a kernel computes the right thing: fresh random inputs, poisoned outputs, float64 beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rooflinecli.measurement.records import Correctness
from rooflinecli.workload import Workload

# Storage format -> ||out - ref|| / ||ref|| a right kernel stays under. Rounding to the format alone makes about a
# third of its epsilon; P is rounded too, and 8-bit formats round it to 3 or 2 bits.
LIMITS = {"fp64": 1e-12, "fp32": 1e-5, "tf32": 2e-3, "fp16": 2e-3, "bf16": 1.6e-2, "fp8_e4m3": 0.08, "fp8_e5m2": 0.16,
          "int8": 0.05}  # fmt: skip
# Storage format of a K/V cache -> the limit it imposes: the reference reads the same stored cache, so only the
# arithmetic on it differs.
CACHE_LIMITS = {"fp8_e4m3": 0.05, "fp8_e5m2": 0.08, "int8": 0.02}


def limit_of(workload: Workload) -> float:
    """The error a right kernel stays under on this workload."""
    return max(LIMITS.get(workload.dtype, 0.05), CACHE_LIMITS.get(workload.kv_dtype, 0.0))


def judge(outputs: Mapping[str, Any], reference: Mapping[str, Any], workload: Workload) -> Correctness:
    """The worst output against its reference. An element nobody wrote is still NaN, and makes the error infinite."""
    errors = {name: relative_error(outputs[name], reference[name]) for name in outputs if name in reference}
    worst = max(errors, key=lambda name: errors[name]) if errors else ""
    return Correctness(errors.get(worst, float("inf")), limit_of(workload), worst, workload)


def relative_error(out: Any, reference: Any) -> float:
    """||out - ref|| / ||ref|| in float64; infinite where `out` is not finite and the reference is, or shapes differ."""
    import torch

    if tuple(out.shape) != tuple(reference.shape):
        return float("inf")
    out, reference = out.double(), reference.double()
    finite = torch.isfinite(reference)
    if not bool(torch.equal(out[~finite], reference[~finite])) or not bool(torch.isfinite(out[finite]).all()):
        return float("inf")
    norm = float(torch.linalg.vector_norm(reference[finite]))
    distance = float(torch.linalg.vector_norm(out[finite] - reference[finite]))
    return distance / norm if norm else distance
