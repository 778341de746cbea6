"""The page of readings says what the model says today."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from rooflinecli.hardware import load_profile
from rooflinecli.memory import cache

ROOT = Path(__file__).parents[2]


def test_the_page_of_readings_is_what_its_script_writes() -> None:
    spec = importlib.util.spec_from_file_location("l2_model", ROOT / "benchmarks/l2_model.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    sys.modules["l2_model"] = script
    spec.loader.exec_module(script)
    kept = (ROOT / "docs/l2-model-readings.md").read_text()
    assert script.document(script.readings(), load_profile("h200-sxm-141gb")) == kept


def test_other_cards_get_the_shares_that_were_fitted() -> None:
    profile = load_profile("h200-sxm-141gb")
    fitted = cache.cache_of(profile)
    scaled = cache.cache_of(profile.model_copy(update={"l2_model": None}))
    assert fitted is not None
    assert scaled is not None
    assert (scaled.shared, scaled.spread) == (fitted.shared, fitted.spread)
    assert abs(scaled.private / fitted.private - 1) < 1e-3
    assert fitted.provenance != scaled.provenance == cache.SCALED
