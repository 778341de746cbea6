"""What an L2 keeps: the chance that a byte is gone when it is wanted again.

A cache of many sets behind a hash evicts by how much was touched since, not by a sharp edge: after a reuse distance
of D bytes a line is gone with probability Phi((D/C - 1) / s), C the effective capacity and s its spread. C is below the
nameplate because the two halves of an L2 each keep a copy of what SMs on both sides read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rooflinecli.hardware import Profile

# What the counters of an H200 (60 MiB L2) fit, as shares of the L2's size, for cards without readings of their own;
# see docs/l2-model.md.
SHARED_SHARE = 0.400  # what every SM reads: kept in both halves
PRIVATE_SHARE = 0.763  # what one block writes and another reads once
SPREAD = 0.14
SCALED = "scaled from the L2's size by what an H200 keeps of its own"


@dataclass(frozen=True, slots=True)
class Cache:
    """Effective capacities in bytes. None is an L2 of unknown size."""

    shared: float
    private: float
    spread: float
    size: int
    provenance: str

    def lost(self, distance: float, capacity: float) -> float:
        """Probability that a line is evicted after `distance` other bytes."""
        if distance <= 0:
            return 0.0
        if capacity <= 0:
            return 1.0
        # The bell's tail below a distance of 0 belongs to nobody: what was touched just now is still there.
        tail = self._below(0.0)
        return (self._below(distance / capacity) - tail) / (1 - tail)

    def _below(self, share: float) -> float:
        return 0.5 * (1 + math.erf((share - 1) / (self.spread * math.sqrt(2))))

    def scaled(self, factor: float) -> Cache:
        """The same cache, `factor` times as large."""
        return Cache(self.shared * factor, self.private * factor, self.spread, self.size, self.provenance)


def cache_of(profile: Profile) -> Cache | None:
    """The cache of `profile`: as its own readings fitted it, else scaled from its size; None where that is unknown."""
    if profile.l2.size is None:
        return None
    size = int(profile.l2.size.value)
    fitted = profile.l2_model
    if fitted is None or fitted.effective_capacity is None:
        return Cache(SHARED_SHARE * size, PRIVATE_SHARE * size, SPREAD, size, SCALED)
    shared, private = float(fitted.effective_capacity.value), fitted.private_capacity
    other = shared * PRIVATE_SHARE / SHARED_SHARE if private is None else float(private.value)
    return Cache(shared, other, fitted.spread, size, fitted.provenance)
