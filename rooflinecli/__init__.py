"""Roofline and byte accounting for attention on GPUs."""

from __future__ import annotations

from pathlib import Path

__version__ = "0.1.0"

# `kernels/` and `profiles/` lie at the top of the repository and inside an installed package: a
# checkout (an editable install too) finds them beside this folder, a wheel in it.
if not (Path(__file__).parent / "profiles").is_dir():
    __path__.append(str(Path(__file__).parent.parent))
