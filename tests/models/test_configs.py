"""Configs of every family, fields as in published files, against what transformers makes of the same files.

`tests/data/model_counts.json` is what `transformers_counts.py` wrote: parameters created, and the shapes of a
cache that a forward pass filled.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rooflinecli.models import load_model
from rooflinecli.models.families import FAMILIES
from rooflinecli.models.spec import Attention
from rooflinecli.models.weights import parameters

DATA = Path(__file__).parents[1] / "data"
CONFIGS = sorted((DATA / "configs").glob("*.json"))
COUNTED: dict[str, dict[str, Any]] = json.loads((DATA / "model_counts.json").read_text())["models"]
# transformers copies the K/V heads of this one to every query head, and keeps what has left gpt_neo's window.
COPIES, KEEPS = "falcon_40b", "gpt_neo"
UNCOUNTED = {"gemma3n_text", "dbrx", "codegen", "jamba", "bamba", "granitemoehybrid", "falcon_h1", "lfm2", "nemotron_h"}

# Types that transformers does not know, or not as a language model of its own; `test_families.py` has them.
UNREAD = {"chatglm", "deepseek", "minimax", "mllama", "qwen", "qwen2_5_vl", "recurrent_gemma", "refined_web",
          "refined_web_model", "unknown"}  # fmt: skip


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_means_what_transformers_makes_of_it(path: Path) -> None:
    # GIVEN a config, and what transformers created and cached from it
    spec = load_model(str(path))
    counted = COUNTED.get(path.stem)
    if counted is None:
        assert path.stem in UNREAD
        return
    # THEN the parameters are as many
    assert parameters(spec) == (None if path.stem in UNCOUNTED else counted["parameters"])
    # AND every layer caches heads of the same number and width, with the same window
    if "layers" not in counted:
        return
    found = [_shape(layer.attention) for layer in spec.layers if layer.attention.kind != "shared"]
    expected = counted["layers"]
    if path.stem == COPIES:
        found = [[shape[0] * 4, *shape[1:]] for shape in found if shape]
    if path.stem == KEEPS:
        found = [[*shape[:3], 0] for shape in found if shape]
    assert found == expected[: len(found)]
    assert all(shape is None for shape in expected[len(found) :])


def _shape(a: Attention) -> list[int] | None:
    if a.elements_per_token == 0:
        return None
    if a.mla is not None:  # the latent in the place of keys, its rotary part in the place of values
        return [1, a.mla.kv_lora_rank, a.mla.rope_dim, 0]
    return [a.kv_heads, a.head_dim, a.v_head_dim, a.window or 0]


def test_every_counted_config_is_there() -> None:
    assert set(COUNTED) <= {path.stem for path in CONFIGS}
    assert len(COUNTED) > 60


def test_every_family_has_a_config() -> None:
    # GIVEN the types that the configs name, inside and out
    seen = set()
    for path in CONFIGS:
        raw = json.loads(path.read_text())
        seen |= {raw["model_type"], raw.get("text_config", {}).get("model_type")}
    # THEN each family of the table is tried under at least one of its names
    untried = {names for names in {family.names for family in FAMILIES.values()} if not seen & set(names)}
    assert untried == {("baichuan", "xverse"), ("ministral", "ministral3")}
