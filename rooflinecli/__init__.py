"""Roofline and byte accounting for attention on GPUs.

>>> import rooflinecli
>>> workload = rooflinecli.Workload(n_q=8192, d=128)
>>> found = rooflinecli.account(workload, "a100", ["naive", "flash2"], br=64, bc=64)
>>> [result.cost.traffic("sm").total for result in found.results]
[545259520, 541065216]
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rooflinecli.calculator import Account, Result, account
    from rooflinecli.hardware import Profile, load_profile
    from rooflinecli.workload import Workload

__version__ = "0.1.0"
__all__ = ["Account", "Profile", "Result", "Workload", "account", "load_profile"]

# `kernels/` and `profiles/` lie at the top of the repository and inside an installed package: a
# checkout (an editable install too) finds them beside this folder, a wheel in it.
if not (Path(__file__).parent / "profiles").is_dir():
    __path__.append(str(Path(__file__).parent.parent))

_HOMES = {"Workload": "workload", "Profile": "hardware", "load_profile": "hardware"}


def __getattr__(name: str) -> object:
    """Public names are imported when first used: `--version` needs none of them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'calculator')}"), name)


def load_ipython_extension(shell: object) -> None:
    """For `%load_ext rooflinecli` in a notebook: results show as tables."""
    from rooflinecli.report.notebook import register

    register(shell)
