"""The cache against caches that are filled token by token, and against figures others got wrong in public."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflinecli.dtypes import DTYPES
from rooflinecli.errors import InputError
from rooflinecli.models import load_model
from rooflinecli.models.custom import model_of, with_kv_heads
from rooflinecli.models.kv_cache import kv_cache, longest_context, sequence_bytes
from rooflinecli.models.spec import Attention, Layer, ModelSpec
from rooflinecli.models.variants import variants
from tests.models.oracle import filled

CONFIGS = Path(__file__).parents[1] / "data/configs"
GIB = 2**30


def windowed(windows: list[int | None], kind: str = "sliding") -> ModelSpec:
    """One K/V head of width 1 a layer: a token is 2 elements, 4 bytes in fp16."""
    layers = tuple(
        Layer(Attention("full" if window is None else kind, 1, 1, 1, 1, window))  # type: ignore[arg-type]
        for window in windows
    )
    return ModelSpec("drawn", "drawn", 1, layers)


# What other calculators answered differently, with the right value.
def test_deepseek_v3_caches_one_latent() -> None:
    assert kv_cache(load_model("deepseek-v3"), kv_dtype="bf16").bytes_per_token == 70272


def test_qwen3_4b_has_a_head_dim_of_its_own() -> None:
    assert kv_cache(load_model("qwen3-4b"), 4096, kv_dtype="bf16").bytes_allocated == 603979776


@pytest.mark.parametrize(
    ("model", "context", "gib"),
    [("llama-3.1-70b", 32768, 10), ("llama-2-7b", 4096, 2), ("llama-3-8b", 4096, 0.5)],
)
def test_whole_gibibytes(model: str, context: int, gib: float) -> None:
    assert kv_cache(load_model(model), context, kv_dtype="bf16").bytes_allocated == gib * GIB


def test_half_the_layers_of_gpt_oss_hold_a_window() -> None:
    cache = kv_cache(load_model("gpt-oss-20b"), 8192, 32, "bf16")
    assert cache.bytes_allocated == 12 * GIB
    assert cache.bytes_resident / GIB == 6.09375  # printed as 6.094


@pytest.mark.parametrize(
    ("name", "size"), [("nvfp4", 0.5625), ("q8_0", 1.0625), ("q4_0", 0.5625), ("fp8", 1), ("int4", 0.5)]
)
def test_a_quantised_cache_pays_for_its_scales(name: str, size: float) -> None:
    elements = 2 * 32 * 8 * 128
    assert kv_cache(load_model("llama-3-8b"), kv_dtype=name).bytes_per_token == elements * size


# The documents.
def test_the_documents_figures() -> None:
    assert kv_cache(load_model("llama-7b")).bytes_per_token == 524288
    assert kv_cache(load_model("llama-7b"), 4096).bytes_allocated == 2147483648
    assert kv_cache(load_model("llama-2-70b")).bytes_per_token == 327680
    assert kv_cache(with_kv_heads(load_model("llama-2-70b"), 64)).bytes_per_token == 2621440
    assert kv_cache(load_model("llama-2-70b"), kv_dtype="fp8").bytes_per_token == 160 * 1024
    mha = kv_cache(with_kv_heads(load_model("mistral-7b-v0.3"), 32)).bytes_per_token
    assert mha == 4 * kv_cache(load_model("mistral-7b-v0.3")).bytes_per_token


def test_the_documents_table_of_variants() -> None:
    # GIVEN the small model of the documents
    mini = model_of(layers=2, heads=4, d=16)
    # WHEN its heads share keys and values in every usual way
    rows = variants(mini, 64, 1, "fp32")
    # THEN the table is the documents'
    assert [(row.name, row.kv_heads, row.bytes_per_token, row.bytes_total) for row in rows] == [
        ("MHA", 4, 1024, 65536),
        ("GQA-2", 2, 512, 32768),
        ("MQA", 1, 256, 16384),
    ]
    assert [row.own for row in rows] == [True, False, False]
    assert [row.share_of_mha for row in rows] == [1, 0.5, 0.25]


def test_variants_of_a_latent_model_are_its_expanded_heads() -> None:
    rows = {row.name: row for row in variants(load_model("deepseek-v3"), kv_dtype="bf16")}
    assert rows["MHA"].bytes_per_token == 4997120
    assert rows["MLA 512+64"].bytes_per_token == 70272
    assert [row.name for row in rows.values() if row.own] == ["MLA 512+64"]


def test_variants_name_the_models_own_sharing() -> None:
    own = [row.name for row in variants(load_model("llama-2-70b")) if row.own]
    assert own == ["GQA-8"]
    assert [row.name for row in variants(load_model("falcon-7b")) if row.own] == ["MQA"]


# Windows and pages against a cache that is really filled.
@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 90), st.lists(st.one_of(st.none(), st.integers(1, 40)), min_size=1, max_size=4),
    st.one_of(st.none(), st.integers(1, 9)), st.integers(1, 3),
)  # fmt: skip
def test_windows_and_pages_as_filled(context: int, windows: list[int | None], page: int | None, batch: int) -> None:
    # GIVEN layers with drawn windows, filled token by token
    held = [filled(context, window, page, frees=True) for window in windows]
    kept = [filled(context, window, page, frees=False) for window in windows]
    # WHEN the cache is counted
    spec = windowed(windows)
    cache = kv_cache(spec, context, batch, page_size=page)
    # THEN both counts are those of the filled layers, four bytes a token
    assert cache.bytes_resident == batch * 4 * sum(layer.tokens_reserved() for layer in held)
    assert cache.bytes_allocated == batch * 4 * sum(layer.tokens_reserved() for layer in kept)
    # AND a sequence on its way there never took more than is planned for it, and sometimes as much
    table = 4 * len(kept[0].pages) if page else 0
    most = sequence_bytes(spec, context, "fp16", page, windows=True) - table
    assert most == 4 * sum(layer.most_tokens_reserved() for layer in held)
    assert sequence_bytes(spec, context, "fp16", page, windows=False) - table == cache.bytes_allocated // batch


def test_a_block_table_is_one_entry_a_page_a_sequence() -> None:
    cache = kv_cache(load_model("llama-3-8b"), 1000, 3, page_size=16)
    assert cache.block_table_bytes == 3 * 4 * 63
    assert cache.bytes_allocated == 3 * 63 * 16 * 131072


def test_a_chunk_holds_at_most_its_size() -> None:
    assert kv_cache(windowed([16], "chunked"), 40).bytes_resident == 16 * 4
    assert kv_cache(windowed([16], "chunked"), 40, page_size=16).bytes_resident == 16 * 4


def test_a_state_is_counted_apart() -> None:
    # GIVEN one layer of attention and three with a state, of 4 value heads 8 x 8 and a convolution over 4
    spec = load_model(str(CONFIGS / "qwen3_next.json"))
    cache = kv_cache(spec, 100, 2)
    # THEN the state does not grow with the context
    conv = (2 * 2 * 8 + 4 * 8) * 3
    assert cache.state_bytes == 2 * 3 * 2 * (4 * 8 * 8 + conv)
    assert cache.state_bytes == kv_cache(spec, 1, 2).state_bytes
    assert cache.bytes_allocated == 2 * 100 * 2 * (2 * 2 * 16)


# Tensor parallelism.
@settings(max_examples=200, deadline=None)
@given(st.integers(1, 4), st.integers(1, 16), st.integers(1, 48))
def test_every_device_holds_the_heads_its_queries_need(group: int, kv_heads: int, tp: int) -> None:
    # GIVEN query heads dealt to devices in order
    heads = group * kv_heads
    spec = model_of(layers=1, heads=heads, kv_heads=kv_heads, d=8)
    if heads % tp:
        with pytest.raises(InputError, match="--tp"):
            kv_cache(spec, tp=tp)
        return
    each = heads // tp
    needed = [{head // group for head in range(device * each, device * each + each)} for device in range(tp)]
    # WHEN one device's share is counted
    try:
        found = kv_cache(spec, tp=tp)
    except InputError:
        # THEN it is refused only where K/V heads neither split nor repeat evenly
        assert kv_heads % tp
        assert tp % kv_heads
        return
    # THEN it is what the device's queries need, and as many devices hold a head as are said to
    assert {len(share) for share in needed} == {found.layers[0].kv_heads}
    assert found.bytes_per_token == found.layers[0].kv_heads * 2 * 8 * 2
    copies = [sum(head in share for share in needed) for head in range(kv_heads)]
    assert set(copies) == {found.layers[0].replicas}


def test_a_latent_is_whole_on_every_device() -> None:
    alone, shared = kv_cache(load_model("deepseek-v3")), kv_cache(load_model("deepseek-v3"), tp=16)
    assert shared.bytes_per_token == alone.bytes_per_token
    assert shared.layers[0].replicas == 16


@pytest.mark.parametrize(("model", "tp"), [("llama-2-7b", 3), ("falcon-7b", 2), ("deepseek-v3", 3), ("llama-3-8b", 64)])
def test_a_split_that_is_not_even_is_refused(model: str, tp: int) -> None:
    with pytest.raises(InputError, match=f"--tp {tp}"):
        kv_cache(load_model(model), tp=tp)


# What cannot be.
@pytest.mark.parametrize("option", ["context", "batch", "page_size", "tp"])
@pytest.mark.parametrize("value", [0, -1, 2**41])
def test_counts_out_of_range(option: str, value: int) -> None:
    with pytest.raises(InputError, match=f"--{option.replace('_', '-')} {value}"):
        kv_cache(load_model("gpt2"), **{option: value})


def test_blocks_must_divide_a_head() -> None:
    with pytest.raises(InputError, match="blocks of 32"):
        kv_cache(model_of(layers=1, heads=1, d=80), kv_dtype="q8_0")


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(DTYPES)), st.integers(1, 4), st.integers(1, 4))
def test_a_cache_is_additive(name: str, context: int, batch: int) -> None:
    # GIVEN any storage format: a cache of several sequences and tokens is as many of one
    spec = model_of(layers=2, heads=2, d=64)
    one = kv_cache(spec, kv_dtype=name).bytes_allocated
    assert kv_cache(spec, context, batch, name).bytes_allocated == context * batch * one


# How far it goes.
@settings(max_examples=100, deadline=None)
@given(st.integers(0, 5000), st.integers(1, 50))
def test_the_longest_context_is_the_last_that_fits(budget: int, each: int) -> None:
    found = longest_context(lambda tokens: tokens * each <= budget)
    assert found == max(tokens for tokens in range(budget // each + 2) if tokens * each <= budget)


def test_a_context_without_end() -> None:
    # GIVEN layers that all have a window
    spec = windowed([16, 16])
    assert longest_context(lambda tokens: sequence_bytes(spec, tokens, "fp16", windows=True) <= 128) is None
    assert longest_context(lambda tokens: sequence_bytes(spec, tokens, "fp16", windows=True) <= 127) == 15


def test_other_kv_heads_are_not_for_a_latent() -> None:
    with pytest.raises(InputError, match="latent"):
        with_kv_heads(load_model("deepseek-v3"), 8)
    with pytest.raises(InputError, match="--kv-heads 5"):
        with_kv_heads(load_model("llama-2-7b"), 5)


def test_changed_heads_keep_everything_else() -> None:
    spec, changed = load_model("gemma-2-9b"), with_kv_heads(load_model("gemma-2-9b"), 16)
    back = [replace(layer.attention, kv_heads=8) for layer in changed.layers]
    assert back == [layer.attention for layer in spec.layers]
