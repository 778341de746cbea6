"""Which profile is measured against: the one asked for, if the card that is here is the card it describes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.errors import InputError, RooflineError
from rooflinecli.hardware import load_profile

if TYPE_CHECKING:
    from rooflinecli.hardware import Profile
    from rooflinecli.measurement.device import Identity


def normal(name: str) -> str:
    """A device name without the vendor's prefix, in one case and spacing."""
    words = name.replace("_", " ").lower().split()
    return " ".join(word for word in words if word not in ("nvidia", "tesla", "geforce", "amd"))


def describes(profile: Profile, identity: Identity) -> bool:
    """Whether the profile names this card as its driver does; part of a name is not enough (GH200 is no H200)."""
    return normal(identity.name) in {normal(name) for name in profile.device_names}
