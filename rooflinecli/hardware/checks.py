"""Figures of a profile against each other: peaks that the SMs and clocks do not add up to, sparse figures."""

from __future__ import annotations

import math

from rooflinecli.hardware.schema import Figure, Profile

AGREES = 0.012  # datasheets round
SPARSE = (1.9, 2.1)
# Rates that are no power of two a clock a SM, and why: (profile or family, peak) -> reason.
EXCEPTIONS = {
    ("b300", "fp64_vector"): "cut to a few FLOP/clock/SM",
    ("b300", "fp64_tensor"): "cut to a few FLOP/clock/SM",
    ("b300", "tf32_tensor"): "the datasheet rounds 1112 to 1100",
    ("b300", "fp4_tensor"): "three quarters of sixteen times the fp16 rate's step: 13.5 PFLOP/s by the HGX page",
    ("b300", "int8_tensor"): "cut to about 560 OP/clock/SM",
    ("l40s", "fp64_vector"): "the datasheet rounds 2 FLOP/clock/SM to 1.41 TFLOP/s",
    ("l40s", "fp16_tensor"): "the datasheet's 362.05 is quoted at 2491 MHz",
    ("l40s", "bf16_tensor"): "the datasheet's 362.05 is quoted at 2491 MHz",
}


def per_clock(profile: Profile, peak: Figure | None) -> float | None:
    """FLOP a clock a SM that a peak comes to; None where SMs or clock are unknown."""
    if peak is None or profile.sm_count is None or peak.clock is None:
        return None
    return float(peak.value / (profile.sm_count.value * peak.clock))


def odd_peaks(profile: Profile) -> dict[str, float]:
    """Peaks whose FLOP a clock a SM is not near a power of two, and which no exception explains."""
    found = {}
    for name, peak in profile.peaks.items():
        rate = per_clock(profile, peak)
        if rate is None or (profile.id, name) in EXCEPTIONS or (profile.family, name) in EXCEPTIONS:
            continue
        if abs(rate / 2 ** round(math.log2(rate)) - 1) > AGREES:
            found[name] = rate
    return found


# 16-bit dense FLOP a clock a SM of each tensor core generation.
DENSE_16_BIT = {
    "volta": 1024, "turing": 1024, "ampere": 2048, "ada": 1024, "hopper": 4096, "blackwell": 8192,
    "cdna2": 1024, "cdna3": 2048, "cdna4": 4096,
}  # fmt: skip
_BY_CAPABILITY = {"8.6": 1024, "12.0": 1024}


def warnings(profile: Profile) -> list[str]:
    """What a reader should doubt, one line each; empty for a profile whose figures agree."""
    found = [
        f"peaks.{name}: comes to {rate:.4g} FLOP a clock a SM, no power of two"
        for name, rate in odd_peaks(profile).items()
    ]
    dense = _BY_CAPABILITY.get(profile.compute_capability or "", DENSE_16_BIT.get(profile.architecture))
    for name, times in (
        ("fp16_tensor", 1.0),
        ("bf16_tensor", 1.0),
        ("tf32_tensor", 0.5),
        ("fp8_tensor", 2.0),
        ("int8_tensor", 2.0),
    ):
        peak = profile.peaks.get(name)
        rate = per_clock(profile, peak)
        if dense is not None and rate is not None and SPARSE[0] <= rate / (dense * times) <= SPARSE[1]:
            found.append(
                f"peaks.{name}: {rate / (dense * times):.2f} times the dense rate of {profile.architecture}: "
                "looks like the 2:4-sparse figure; profiles hold dense ones"
            )
    unknown = [
        name
        for name, figure in (("sm_count", profile.sm_count), ("dram.bandwidth", profile.dram.bandwidth))
        if figure is None
    ]
    return found + [f"{name}: unknown; most questions need it" for name in unknown]
