"""Which profile is measured against: the one asked for, if the card that is here is the card it describes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.errors import InputError, naming
from rooflinecli.hardware import list_profiles, load_profile

if TYPE_CHECKING:
    from rooflinecli.hardware import Profile
    from rooflinecli.measurement.device import Identity

AUTO = "auto"


def resolve(asked: str, identity: Identity, *, allow_mismatch: bool = False) -> Profile | None:
    """The profile for `--gpu asked` on the card that is here; None for `auto` where no profile describes it.

    A family's alias is the member that is here, if it is one of the family.

    Raises:
        InputError: the profile is of another card, both named, unless a mismatch is allowed.
    """
    present = describing(identity)
    if asked == AUTO:
        return present
    with naming("--gpu", asked):
        profile = load_profile(asked)
    if allow_mismatch or describes(profile, identity):
        return profile
    if present is not None and profile.family == present.family and not _is_exact(asked, profile):
        return present
    raise InputError(
        f"--gpu {asked}: is {profile.name}, but the GPU here is {identity.name}",
        "--gpu auto measures against the card that is here; --allow-mismatch compares all the same",
    )


def describing(identity: Identity) -> Profile | None:
    """The bundled or user profile whose device names hold this card's, or None. Memory tells members apart that
    drivers give one name."""
    found = [profile for profile in list_profiles() if describes(profile, identity)]
    return min(found, key=lambda profile: _distance(profile, identity), default=None)


def describes(profile: Profile, identity: Identity) -> bool:
    """Whether the profile names this card as its driver does; part of a name is not enough (GH200 is no H200)."""
    return normal(identity.name) in {normal(name) for name in profile.device_names}


def normal(name: str) -> str:
    """A device name without the vendor's prefixes, in one case and spacing."""
    words = name.replace("_", " ").lower().split()
    return " ".join(word for word in words if word not in ("nvidia", "tesla", "geforce", "amd"))


def _distance(profile: Profile, identity: Identity) -> float:
    capacity = profile.dram.capacity
    return abs(float(capacity.value) - identity.memory) if capacity is not None else float("inf")


def _is_exact(asked: str, profile: Profile) -> bool:
    """Whether a name means this one member: its id or its file, rather than a family's alias."""
    return asked.strip().lower() == profile.id or asked == profile.origin
