"""Which profile is measured against: the one asked for, if the card that is here is the card it describes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.errors import InputError, naming
from rooflinecli.hardware import list_profiles, load_profile
from rooflinecli.hardware.matching import best_match, describes

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
    if allow_mismatch or describes(profile, identity.name):
        return profile
    if present is not None and profile.family == present.family and not _is_exact(asked, profile):
        return present
    raise InputError(
        f"--gpu {asked}: is {profile.name}, but the GPU here is {identity.name}",
        "--gpu auto measures against the card that is here; --allow-mismatch compares all the same",
    )


def describing(identity: Identity) -> Profile | None:
    """The bundled or user profile whose device names hold this card's, or None; memory tells members apart."""
    return best_match(list_profiles(), identity.name, identity.memory)


def _is_exact(asked: str, profile: Profile) -> bool:
    """Whether one card was named, by its id or its file, rather than a family."""
    return asked.strip().lower() == profile.id or asked.endswith((".yaml", ".yml"))
