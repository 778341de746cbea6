"""Closed forms against loops that count one by one, on shapes nobody would pick by hand."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflinecli.accounting import ALGORITHMS
from rooflinecli.accounting.ledger import SYMBOLS, Cost, Tile
from rooflinecli.accounting.visibility import floor_sum, seeing_queries, visible_keys
from rooflinecli.workload import Workload
from tests.accounting import oracle

sizes = st.integers(1, 24)
shapes = st.builds(
    oracle.Shape,
    batch=st.integers(1, 2),
    kv_heads=st.integers(1, 2),
    group=st.integers(1, 3),
    n_q=sizes,
    n_kv=sizes,
    d=st.sampled_from([1, 3, 8]),
    d_v=st.sampled_from([1, 2, 8]),
    causal=st.booleans(),
    window=st.none() | st.integers(1, 30),
)
tiles = st.integers(1, 10)


def workload_of(shape: oracle.Shape) -> Workload:
    return Workload(
        batch=shape.batch,
        heads=shape.kv_heads * shape.group,
        kv_heads=shape.kv_heads,
        n_q=shape.n_q,
        n_kv=shape.n_kv,
        d=shape.d,
        d_v=shape.d_v,
        causal=shape.causal,
        window=shape.window,
    )


def assert_same(cost: Cost, counted: oracle.Counted) -> None:
    for row in cost.ledger:
        # A formula that a reader can put numbers into gives the row's elements.
        assert eval(row.formula, dict(cost.symbols)) == row.elements, row
        assert set(re.findall(r"[A-Za-z_]\w*", row.formula)) <= SYMBOLS.keys()
    ledger = Counter({(r.step, r.tensor, r.direction): r.elements for r in cost.ledger if r.level == "sm"})
    assert +ledger == +counted.moved
    assert cost.flops.executed == counted.executed
    assert cost.flops.useful == counted.useful
    assert cost.flops.softmax == 5 * counted.pairs
    assert cost.exponentials.useful == counted.pairs
    assert cost.exponentials.executed == counted.exponentials


@given(shapes)
def test_naive(shape: oracle.Shape) -> None:
    assert_same(ALGORITHMS["naive"].cost(workload_of(shape), Tile(1, 1)), oracle.naive(shape))


@settings(max_examples=300)
@given(shapes, tiles, tiles, st.booleans())
def test_flash2(shape: oracle.Shape, br: int, bc: int, pack: bool) -> None:
    cost = ALGORITHMS["flash2"].cost(workload_of(shape), Tile(br, bc, pack_gqa=pack))
    assert_same(cost, oracle.flash2(shape, br, bc, pack))


@settings(max_examples=200)
@given(shapes, tiles, tiles)
def test_flash1(shape: oracle.Shape, br: int, bc: int) -> None:
    assert_same(ALGORITHMS["flash1"].cost(workload_of(shape), Tile(br, bc)), oracle.flash1(shape, br, bc))


@settings(max_examples=200)
@given(shapes, tiles, tiles, st.booleans(), st.integers(1, 6))
def test_decode(shape: oracle.Shape, br: int, bc: int, pack: bool, splits: int) -> None:
    cost = ALGORITHMS["decode"].cost(workload_of(shape), Tile(br, bc, pack_gqa=pack, splits=splits))
    assert_same(cost, oracle.decode(shape, br, bc, pack, splits))


@settings(max_examples=150)
@given(shapes, tiles, tiles)
def test_backward(shape: oracle.Shape, br: int, bc: int) -> None:
    assert_same(ALGORITHMS["backward"].cost(workload_of(shape), Tile(br, bc)), oracle.backward(shape, br, bc))


@settings(max_examples=200)
@given(shapes)
def test_compulsory_counts_what_somebody_needs(shape: oracle.Shape) -> None:
    workload = workload_of(shape)
    seen = {k for q in range(shape.n_q) for k in range(shape.n_kv) if shape.sees(q, k)}
    seeing = {q for q in range(shape.n_q) for k in range(shape.n_kv) if shape.sees(q, k)}
    assert visible_keys(workload) == len(seen)
    assert seeing_queries(workload) == len(seeing)
    kv, q = shape.batch * shape.kv_heads, shape.batch * shape.kv_heads * shape.group
    floor = ALGORITHMS["flash2"].cost(workload, Tile(4, 4)).traffic("compulsory")
    assert floor.read == 2 * (q * len(seeing) * shape.d + kv * len(seen) * (shape.d + shape.d_v))
    assert floor.write == 2 * q * shape.n_q * shape.d_v


@settings(max_examples=200)
@given(shapes, tiles, tiles, st.sampled_from(["naive", "flash1", "flash2", "decode", "backward"]))
def test_no_schedule_moves_less_than_the_floor(shape: oracle.Shape, br: int, bc: int, name: str) -> None:
    cost = ALGORITHMS[name].cost(workload_of(shape), Tile(br, bc, pack_gqa=True))
    assert cost.traffic("sm").read >= cost.traffic("compulsory").read
    # A 2022 kernel that no key tile sends a query to leaves O as it found it.
    if name != "flash1":
        assert cost.traffic("sm").write >= cost.traffic("compulsory").write
    assert cost.flops.executed >= cost.flops.useful


@given(st.integers(0, 40), st.integers(1, 30), st.integers(0, 50), st.integers(0, 50))
def test_floor_sum(n: int, m: int, a: int, b: int) -> None:
    assert floor_sum(n, m, a, b) == sum((a * i + b) // m for i in range(n))


@pytest.mark.parametrize("page", [1, 5, 16])
def test_paged_reads_the_block_table_of_the_visible_pages(page: int) -> None:
    # GIVEN a windowed decode that sees keys 41..50 of 51
    workload = Workload(batch=3, heads=4, kv_heads=2, n_q=1, n_kv=51, d=8, causal=True, window=10)
    pages = {key // page for key in range(41, 51)}
    # WHEN it is counted over pages
    cost = ALGORITHMS["paged"].cost(workload, Tile(16, 16, pack_gqa=True, page_size=page))
    # THEN each K/V head of each sequence reads the entries of the pages it visits
    table = [row for row in cost.ledger if row.tensor == "block_table" and row.level == "sm"]
    assert [row.bytes for row in table] == [3 * 2 * len(pages) * 4]


def test_mla_reads_the_latent_once_for_all_heads() -> None:
    # GIVEN DeepSeek-V3's absorbed decode: 128 heads over one latent of 512 + 64
    workload = Workload(heads=128, kv_heads=1, n_q=1, n_kv=4096, d=576, d_v=512, dtype="bf16", causal=True)
    cost = ALGORITHMS["mla"].cost(workload, Tile(128, 64, pack_gqa=True))
    cache = [row for row in cost.ledger if row.tensor in ("K", "V") and row.level == "sm"]
    assert [(row.tensor, row.bytes) for row in cache] == [("K", 4096 * 576 * 2)]
    assert cost.flops.useful == 2 * 128 * 4096 * (2 * 512 + 64)
