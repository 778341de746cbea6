"""Which profiles there are: the bundled ones, and a user's own, which extend and override them.

A user's profiles are `*.yaml` in the folders of the environment variable ROOFLINECLI_PROFILES (separated like
PATH) and in `profiles/` under the platform's configuration folder for `rooflinecli`; the first that has an id wins.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

from rooflinecli.errors import InputError, unknown_name
from rooflinecli.hardware.reader import read_profile
from rooflinecli.hardware.schema import Profile

# Family -> the member it stands for in analysis: the card that most literature means. `h100` is the SXM5 board; `a100`
# is the 40 GB one, whose 1555 GB/s textbooks quote.
ALIASES = {
    "v100": "v100-sxm2-16gb",
    "a100": "a100-sxm4-40gb",
    "a100-40gb": "a100-sxm4-40gb",
    "a100-80gb": "a100-sxm4-80gb",
    "a100-sxm4": "a100-sxm4-40gb",
    "a100-pcie": "a100-pcie-80gb",
    "h100": "h100-sxm5-80gb",
    "h100-sxm": "h100-sxm5-80gb",
    "h100-sxm5": "h100-sxm5-80gb",
    "h100-pcie": "h100-pcie-80gb",
    "h100-nvl": "h100-nvl-94gb",
    "h200": "h200-sxm-141gb",
    "h200-sxm": "h200-sxm-141gb",
    "gh200": "gh200-96gb",
    "mi250x": "mi250x-gcd",
}
AUTO = "auto"


def bundled_folder() -> Path:
    """Where the profiles that come with the package lie."""
    inside = Path(__file__).parents[1] / "profiles"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "profiles"


def user_folders() -> list[Path]:
    """Where a user's own profiles are looked for, first found first taken."""
    named = [Path(part).expanduser() for part in os.environ.get("ROOFLINECLI_PROFILES", "").split(os.pathsep) if part]
    return [*named, _configuration() / "profiles"]


def load_profile(name: str) -> Profile:
    """The profile called `name`: an id, a family's alias, the path of a YAML file, or `auto` for the GPU that is here.

    Raises:
        InputError: nobody knows it (the nearest ids are in the message), or its file is not a profile.
        UnavailableError: `auto`, and there is no GPU or no way to ask it.
    """
    if name == AUTO:
        from rooflinecli.hardware.detect import detect

        return detect().profile
    if name.endswith((".yaml", ".yml")) or os.sep in name:
        return read_profile(Path(name).expanduser())
    key = name.strip().lower()
    found = _file_of(key) or _file_of(ALIASES.get(key, ""))
    if found is None:
        raise unknown_name("GPU", name, {*profile_ids(), *ALIASES})
    return _cached(found, found.stat().st_mtime_ns)


def list_profiles() -> list[Profile]:
    """Every profile there is, by id.

    Raises:
        InputError: one of a user's files is not a profile.
    """
    return [load_profile(name) for name in profile_ids()]


def profile_ids() -> list[str]:
    """The ids there are: the stems of the files."""
    folders = [*user_folders(), bundled_folder()]
    return sorted({path.stem for folder in folders if folder.is_dir() for path in folder.glob("*.yaml")})


def is_bundled(profile: Profile) -> bool:
    """Whether the profile came with the package."""
    return Path(profile.origin).parent == bundled_folder()


@cache
def _cached(path: Path, _changed: int) -> Profile:
    profile = read_profile(path)
    if profile.id != path.stem:
        raise InputError(f"{path}: holds the profile {profile.id!r}; the file must be called {profile.id}.yaml")
    return profile


def _file_of(key: str) -> Path | None:
    if not key or "/" in key or key.startswith("."):
        return None
    candidates = [folder / f"{key}.yaml" for folder in (*user_folders(), bundled_folder())]
    return next((path for path in candidates if path.is_file()), None)


def _configuration() -> Path:
    """As `typer.get_app_dir("rooflinecli")` finds it, without importing typer into the library."""
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA", Path.home())) / "rooflinecli"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "rooflinecli"
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "rooflinecli"
