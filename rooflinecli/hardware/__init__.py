"""GPU profiles: sourced ceilings, loaded by name, file or by asking the GPU that is here."""

from __future__ import annotations

from rooflinecli.hardware.library import ALIASES, list_profiles, load_profile, profile_ids
from rooflinecli.hardware.schema import Figure, Measured, Profile

__all__ = ["ALIASES", "Figure", "Measured", "Profile", "list_profiles", "load_profile", "profile_ids"]
