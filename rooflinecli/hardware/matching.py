"""Which profile describes a card, by the name its driver gives it.

Part of a name is never enough: GH200 is no H200, L40S no L4, A100 no A10. Old drivers leave the vendor out.
"""

from __future__ import annotations

from collections.abc import Iterable

from rooflinecli.hardware.schema import Profile

_VENDOR_WORDS = ("nvidia", "tesla", "geforce", "amd")


def normal(name: str) -> str:
    """A device name without the vendor's words, in one case and spacing."""
    words = name.replace("_", " ").lower().split()
    return " ".join(word for word in words if word not in _VENDOR_WORDS)


def describes(profile: Profile, device_name: str) -> bool:
    """Whether the profile names this card as its driver does."""
    return normal(device_name) in {normal(name) for name in profile.device_names}


def best_match(profiles: Iterable[Profile], device_name: str, memory: int | None = None) -> Profile | None:
    """The profile of the card called `device_name`, or None. An exact name wins; then `memory` (bytes) decides."""

    def distance(profile: Profile) -> tuple[bool, float]:
        capacity = profile.dram.capacity
        apart = abs(capacity.value - memory) if capacity is not None and memory is not None else float("inf")
        return device_name not in profile.device_names, apart

    return min((profile for profile in profiles if describes(profile, device_name)), key=distance, default=None)
