"""Medians and their intervals, against plain counting and against draws whose median is known."""

from __future__ import annotations

import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflinecli.errors import InputError
from rooflinecli.measurement.statistics import differ, geometric_mean, median_ranks, summarize

FINITE = st.floats(min_value=1e-9, max_value=1e3)


@pytest.mark.parametrize("count", range(1, 15))
def test_ranks_enclose_the_median_as_often_as_they_say(count: int) -> None:
    # GIVEN every way in which `count` samples can fall under (0) or over (1) the true median
    low, high, confidence = median_ranks(count)
    # WHEN the samples are sorted, the ones under it come first: the interval misses it if it lies in one half
    missed = sum(under <= low or under > high for under in (ways.count(0) for ways in product((0, 1), repeat=count)))
    # THEN it is missed in exactly the share that is told
    assert confidence == pytest.approx(1 - missed / 2**count)
    assert confidence >= 0.95 or (low, high) == (0, count - 1)


def test_known_ranks() -> None:
    # From the table of binomial(10, 1/2): P(X <= 1) = 11/1024, so the 2nd and the 9th value hold 97.9%.
    assert median_ranks(10) == (1, 8, pytest.approx(1 - 22 / 1024))
    assert median_ranks(5)[:2] == (0, 4)
    assert median_ranks(5)[2] < 0.95 <= median_ranks(6)[2]


def test_the_interval_covers_the_true_median_of_a_skewed_distribution() -> None:
    # GIVEN runs of 40 samples from an exponential distribution, whose median is ln 2
    draw = random.Random(7)
    runs = [summarize([draw.expovariate(1.0) for _ in range(40)]) for _ in range(600)]
    # THEN about 95% of the intervals hold it; under 92% would be 3.4 standard deviations off
    assert sum(run.low <= 0.693147 <= run.high for run in runs) / 600 > 0.92


@given(st.lists(FINITE, min_size=1, max_size=60))
def test_order_of_the_figures(samples: list[float]) -> None:
    found = summarize(samples)
    assert found.minimum <= found.p05 <= found.median <= found.p95 <= found.maximum
    assert found.minimum <= found.low <= found.median <= found.high <= found.maximum
    assert found.count == len(samples)
    half = len(samples) / 2
    assert sum(sample <= found.median for sample in samples) >= half
    assert sum(sample >= found.median for sample in samples) >= half


@given(st.lists(FINITE, min_size=1, max_size=60), st.randoms())
def test_the_order_of_samples_does_not_matter(samples: list[float], shuffler: random.Random) -> None:
    mixed = list(samples)
    shuffler.shuffle(mixed)
    assert summarize(mixed) == summarize(samples)


def test_one_outlier_moves_nothing() -> None:
    calm = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.0, 1.0]
    assert summarize([*calm, 1000.0]).median == pytest.approx(1.0)


@pytest.mark.parametrize("samples", [[], [1.0, float("nan")], [float("inf")]])
def test_nothing_and_nonsense_are_refused(samples: list[float]) -> None:
    with pytest.raises(InputError):
        summarize(samples)


def test_two_runs_of_the_same_thing_are_noise_and_a_real_change_is_not() -> None:
    draw = random.Random(3)

    def run(level: float) -> list[float]:
        return [draw.gauss(level, 0.01 * level) for _ in range(60)]

    # Runs of one thing differ by less than its samples do...
    assert not any(differ(summarize(run(1.0)), summarize(run(1.002))) for _ in range(50))
    # ...and a tenth more is seen every time.
    assert all(differ(summarize(run(1.0)), summarize(run(1.1))) for _ in range(50))


@given(st.lists(FINITE, min_size=3, max_size=30), st.lists(FINITE, min_size=3, max_size=30))
def test_differing_is_mutual(one: list[float], other: list[float]) -> None:
    assert differ(summarize(one), summarize(other)) == differ(summarize(other), summarize(one))
    assert not differ(summarize(one), summarize(one))


def test_geometric_mean() -> None:
    assert geometric_mean([2.0, 0.5]) == pytest.approx(1.0)
    assert geometric_mean([2.0, 2.0, 16.0]) == pytest.approx(4.0)
    for bad in ([], [1.0, 0.0], [-1.0]):
        with pytest.raises(InputError):
            geometric_mean(bad)
