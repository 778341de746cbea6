"""The tiles the flash kernels visit are the tiles that hold something visible, and those the accounting counts."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflinecli.kernels.flash_tiles import key_tiles, padded, query_tiles

from rooflinecli.accounting.visibility import walk
from rooflinecli.workload import Workload
from tests.kernels.flash_oracle import DEVICE, mask_of, workloads

TILES = st.sampled_from([16, 32])


@triton.jit
def _key_ranges(
    out,
    n_q,
    n_kv,
    window,
    GROUP: tl.constexpr,
    BR: tl.constexpr,
    BC: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
):
    tile = tl.program_id(0)
    first = tile * BR // GROUP
    last = (tl.minimum(tile * BR + BR, n_q * GROUP) - 1) // GROUP
    lo, full_lo, full_hi, hi = key_tiles(first, last, n_q, n_kv, window, BC, CAUSAL, WINDOW)
    tl.store(out + tile * 4, lo)
    tl.store(out + tile * 4 + 1, full_lo)
    tl.store(out + tile * 4 + 2, full_hi)
    tl.store(out + tile * 4 + 3, hi)


@triton.jit
def _query_ranges(
    out, n_q, n_kv, window, BR: tl.constexpr, BC: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr
):
    tile = tl.program_id(0)
    lo, full_lo, full_hi, hi = query_tiles(tile, n_q, n_kv, window, BR, BC, CAUSAL, WINDOW)
    tl.store(out + tile * 4, lo)
    tl.store(out + tile * 4 + 1, full_lo)
    tl.store(out + tile * 4 + 2, full_hi)
    tl.store(out + tile * 4 + 3, hi)


@settings(max_examples=60, deadline=None)
@given(workload=workloads(("fp16",)), br=TILES, bc=TILES, packed=st.booleans())
def test_key_ranges_hold_what_is_visible_and_nothing_else(workload: Workload, br: int, bc: int, packed: bool) -> None:
    # GIVEN the mask, pair by pair, rows repeated where heads of a group are packed
    w, group = workload, workload.group if packed else 1
    seen = mask_of(w).repeat_interleave(group, 0)
    tiles = triton.cdiv(w.n_q * group, br)
    # WHEN each query tile asks which key tiles to visit
    out = torch.full((tiles, 4), -1, dtype=torch.int32, device=DEVICE)
    window = w.window or 0
    _key_ranges[(tiles,)](out, w.n_q, w.n_kv, window, GROUP=group, BR=br, BC=bc, CAUSAL=w.causal, WINDOW=window > 0)
    # THEN it visits those between the first and the last that hold a visible pair, and masks where one is hidden
    for tile, (lo, full_lo, full_hi, hi) in enumerate(out.tolist()):
        rows = seen[tile * br : (tile + 1) * br]
        any_seen = [bool(rows[:, j : j + bc].any()) for j in range(0, w.n_kv, bc)]
        all_seen = [bool(rows[:, j : j + bc].all()) and j + bc <= w.n_kv for j in range(0, w.n_kv, bc)]
        if any(any_seen):
            assert any_seen.index(True) == lo
            assert len(any_seen) - any_seen[::-1].index(True) == hi
        else:
            assert lo == hi
        assert lo <= full_lo <= full_hi <= hi
        assert all(all_seen[full_lo:full_hi])
        assert not any(all_seen[lo:full_lo]) or full_lo == full_hi
        assert not any(all_seen[full_hi:hi]) or full_lo == full_hi
    # AND their number is the one the accounting charges for
    assert int((out[:, 3] - out[:, 0]).sum()) == walk(w, br, bc, group).visits


@settings(max_examples=60, deadline=None)
@given(workload=workloads(("fp16",)), br=TILES, bc=TILES)
def test_query_ranges_hold_what_is_visible_and_nothing_else(workload: Workload, br: int, bc: int) -> None:
    # GIVEN the mask, pair by pair
    w, seen = workload, mask_of(workload)
    tiles = triton.cdiv(w.n_kv, bc)
    # WHEN each key tile asks which query tiles to visit
    out = torch.full((tiles, 4), -1, dtype=torch.int32, device=DEVICE)
    window = w.window or 0
    _query_ranges[(tiles,)](out, w.n_q, w.n_kv, window, BR=br, BC=bc, CAUSAL=w.causal, WINDOW=window > 0)
    # THEN all that hold a visible pair are visited, unmasked only where every pair is visible
    for tile, (lo, full_lo, full_hi, hi) in enumerate(out.tolist()):
        columns = seen[:, tile * bc : (tile + 1) * bc]
        any_seen = [bool(columns[i : i + br].any()) for i in range(0, w.n_q, br)]
        assert not any(any_seen[:lo])
        assert not any(any_seen[hi:])
        assert lo <= full_lo <= full_hi <= hi
        assert bool(columns[full_lo * br : full_hi * br].all())
    # AND their number is the one the accounting charges for
    assert int((out[:, 3] - out[:, 0]).sum()) == walk(w, br, bc).visits


def test_blocks_are_the_next_power_of_two_a_product_takes() -> None:
    assert [padded(size) for size in (1, 16, 17, 64, 80, 96, 128, 192, 256)] == [
        16,
        16,
        32,
        64,
        128,
        128,
        128,
        256,
        256,
    ]
