"""`--model`, the same on every command that takes it: what was filled in is said on stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rooflinecli.models.spec import ModelSpec

HELP = "A preset (`rooflinecli models list`), a Hugging Face config.json, or - for one on standard input."


def read_model(model: str) -> ModelSpec:
    """The model `--model` names; warnings and assumptions go to stderr, one line each.

    Raises:
        InputError: no such model, or a config that is incomplete or contradicts itself.
    """
    from rooflinecli.models.load import load_model

    spec = load_model(model)
    for warning in spec.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for assumed in spec.assumed:
        print(f"note: {assumed}", file=sys.stderr)
    return spec
