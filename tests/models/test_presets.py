"""Bundled models against figures that were looked up elsewhere, and against what each file says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rooflinecli.errors import InputError
from rooflinecli.models import load_model
from rooflinecli.models.kv_cache import kv_cache
from rooflinecli.models.presets import FILE, aliases, preset_names
from rooflinecli.models.spec import ModelSpec
from rooflinecli.models.weights import active_parameters, parameters
from tests.models.oracle import elements_of_a_token

PUBLISHED: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[1] / "data/models_published.yaml").read_text()
)
# Parameters as the publishers print them, in billions: total and, of mixtures, active.
ADVERTISED = {
    "gpt2": 0.124, "gpt2-xl": 1.56, "opt-13b": 12.85, "bloom-176b": 176.2, "llama-7b": 6.74, "llama-13b": 13.0,
    "llama-30b": 32.5, "llama-65b": 65.2, "llama-2-70b": 69.0, "llama-3-8b": 8.03, "llama-3.1-70b": 70.6,
    "llama-3.1-405b": 405.9, "llama-3.2-1b": 1.24, "llama-3.2-3b": 3.21, "mistral-7b-v0.1": 7.24,
    "mixtral-8x7b": 46.7, "mixtral-8x22b": 140.6, "qwen2.5-0.5b": 0.494, "qwen2.5-7b": 7.61, "qwen2.5-72b": 72.7,
    "qwen3-4b": 4.02, "qwen3-8b": 8.19, "qwen3-32b": 32.8, "qwen3-30b-a3b": 30.5, "qwen3-235b-a22b": 235.1,
    "gemma-2-9b": 9.24, "gemma-2-27b": 27.2, "gemma-3-27b": 27.0, "phi-3-mini-4k": 3.82, "falcon-7b": 6.92,
    "falcon-40b": 41.3, "deepseek-v2-236b": 235.7, "deepseek-v3-671b": 671.0, "gpt-oss-120b": 116.8,
    "gpt-oss-20b": 20.9,
}  # fmt: skip
ACTIVE = {"mixtral-8x7b": 12.9, "mixtral-8x22b": 39.1, "qwen3-30b-a3b": 3.3, "qwen3-235b-a22b": 22.2,
          "deepseek-v2-236b": 21.4, "deepseek-v3-671b": 37.6, "kimi-k2": 32.9}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_preset_has_the_published_dimensions(name: str) -> None:
    # GIVEN a model's published dimensions
    said = PUBLISHED[name]
    # WHEN its preset is loaded
    spec = load_model(name)
    # THEN every layer is as published, and a token takes what its elements add up to, two bytes each
    assert len(spec.layers) == said["layers"]
    one = said["latent"] + said["rotary"] if "latent" in said else _elements(said)
    assert {layer.attention.heads for layer in spec.layers} == {said["heads"]}
    assert [layer.attention.elements_per_token for layer in spec.layers] == [one] * said["layers"]
    assert kv_cache(spec, kv_dtype="bf16").bytes_per_token == said["bytes_per_token"]
    windows = [layer.attention.window for layer in spec.layers if layer.attention.window is not None]
    assert windows == [said["window"]] * said["windowed_layers"] if "window" in said else windows == []


def _elements(said: dict[str, Any]) -> int:
    return elements_of_a_token(said["kv_heads"], said["head_dim"], said["head_dim"])


def test_the_order_of_windows_is_the_published_one() -> None:
    # GIVEN models whose layers differ
    gemma3, gemma2, oss = (load_model(name) for name in ("gemma-3-27b", "gemma-2-9b", "gpt-oss-120b"))

    def full(spec: ModelSpec) -> list[int]:
        return [index for index, layer in enumerate(spec.layers) if layer.attention.kind == "full"]

    # THEN the layers without a window are the published ones
    assert full(gemma3) == [5, 11, 17, 23, 29, 35, 41, 47, 53, 59]
    assert full(gemma2) == list(range(1, 42, 2))
    assert full(oss) == list(range(1, 36, 2))


@pytest.mark.parametrize("name", ADVERTISED)
def test_parameters_are_the_advertised_ones(name: str) -> None:
    total = parameters(load_model(name))
    assert total is not None
    assert total / 1e9 == pytest.approx(ADVERTISED[name], rel=5e-3)


@pytest.mark.parametrize("name", ACTIVE)
def test_active_parameters_are_the_advertised_ones(name: str) -> None:
    active = active_parameters(load_model(name))
    assert active is not None
    assert active / 1e9 == pytest.approx(ACTIVE[name], rel=2e-2)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_says_where_it_is_from_and_needs_no_assumption(name: str) -> None:
    spec = load_model(name)
    assert len(spec.source) > 10
    assert spec.assumed == ()
    assert spec.warnings == ()
    assert parameters(spec) is not None


def test_what_is_from_memory_stays_marked() -> None:
    marked = {name for name in preset_names() if load_model(name).from_memory}
    assert marked >= {"bloom-176b", "mistral-7b-v0.1", "phi-3-mini-4k", "deepseek-v3-671b", "kimi-k2"}


def test_names_and_aliases_are_unique_and_case_does_not_matter() -> None:
    names = [*preset_names(), *(alias for name in preset_names() for alias in aliases(name))]
    assert len(names) == len(set(names))
    assert len(preset_names()) >= 40
    assert load_model("DeepSeek-V3") == load_model("deepseek-v3-671b")


def test_an_unknown_name_offers_the_nearest() -> None:
    with pytest.raises(InputError) as error:
        load_model("lama-3-8b")
    assert "llama-3-8b" in error.value.message


def test_the_file_has_no_field_that_nobody_reads() -> None:
    # GIVEN the file as it is
    entries = yaml.safe_load(FILE.read_text())
    # THEN every entry has only the known keys
    for name, entry in entries.items():
        assert set(entry) <= {"source", "aliases", "from_memory", "note", "config"}, name
