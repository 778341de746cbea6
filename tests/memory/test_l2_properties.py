"""What must hold of the L2 model whatever its parameters."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from rooflinecli.accounting import ALGORITHMS
from rooflinecli.accounting.ledger import Cost, Tile
from rooflinecli.hardware import Profile, load_profile
from rooflinecli.memory.chain import chain_of
from rooflinecli.memory.l2 import estimate
from rooflinecli.workload import Workload

H200 = load_profile("h200")


def with_l2(size: int) -> Profile:
    """The same card with another L2, scaled instead of fitted."""
    figure = H200.l2.size.model_copy(update={"value": size})  # type: ignore[union-attr]  # H200's is known
    return H200.model_copy(update={"l2": H200.l2.model_copy(update={"size": figure}), "l2_model": None})


workloads = st.builds(
    Workload,
    batch=st.integers(1, 3),
    heads=st.sampled_from([2, 4, 8, 32]),
    kv_heads=st.sampled_from([1, 2]),
    n_q=st.integers(1, 60_000),
    n_kv=st.integers(1, 200_000),
    d=st.sampled_from([64, 128]),
    causal=st.booleans(),
    window=st.none() | st.integers(1, 50_000),
)
names = st.sampled_from(["naive", "flash1", "flash2", "decode", "backward"])


def cost_of(workload: Workload, name: str) -> Cost:
    return ALGORITHMS[name].cost(workload, Tile(128, 64, splits=4))


@settings(max_examples=150, deadline=None)
@given(workloads, names, st.integers(2**20, 2**28))
def test_reads_lie_between_the_floor_and_what_crosses_the_sm(workload: Workload, name: str, size: int) -> None:
    cost = cost_of(workload, name)
    found = estimate(cost, workload, with_l2(size))
    floor, sm = cost.traffic("compulsory").read, cost.traffic("sm").read
    most = max(floor, sm + chain_of(cost).fetched_by_reductions)
    assert floor <= found.read_low <= found.read <= found.read_high <= most + 1
    assert 0 <= found.write_low <= found.write
    assert found.why
    assert found.regime


@settings(max_examples=100, deadline=None)
@given(workloads, names, st.integers(2**20, 2**28), st.floats(1.0, 50.0))
def test_a_larger_l2_never_reads_more(workload: Workload, name: str, size: int, factor: float) -> None:
    cost = cost_of(workload, name)
    small, large = (estimate(cost, workload, with_l2(int(each))) for each in (size, size * factor))
    assert large.read <= small.read + 1


@settings(max_examples=60, deadline=None)
@given(workloads, names)
def test_the_ends(workload: Workload, name: str) -> None:
    cost = cost_of(workload, name)
    # An L2 that holds everything: each byte once. None to speak of: all that crosses the SM boundary.
    everything = estimate(cost, workload, with_l2(2**60)).read
    if name == "naive":  # whose kernels read what no query sees too
        inputs = [row.bytes for row in cost.ledger if row.level == "sm" and row.tensor in "QKV"]
        assert everything == sum(inputs) >= cost.traffic("compulsory").read
    else:
        assert everything == cost.traffic("compulsory").read
    nothing = estimate(cost, workload, with_l2(1))
    assert nothing.read >= 0.999 * cost.traffic("sm").read


def test_a_million_tokens_cost_no_more_than_a_thousand() -> None:
    workload = Workload(batch=8, heads=128, kv_heads=8, n_q=10**6, d=128)
    cost = cost_of(workload, "flash2")
    start = time.process_time()
    estimate(cost, workload, H200)
    # Not a benchmark: a simulation block by block would take minutes here.
    assert time.process_time() - start < 5
