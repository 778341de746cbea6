"""Adaptive timing, on a device whose times are known."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import chain, count, repeat

import pytest

from rooflinecli.measurement.environment import State
from rooflinecli.measurement.timing import Policy, measure_time
from tests.measurement.fake import CALM, FakeDevice

POLICY = Policy(precision=0.005, least=30, most=400, batch=20, budget=1.0, warm_up=0.02)


def noisy(spread: float, level: float = 1e-3) -> Iterator[float]:
    draw = random.Random(11)
    while True:
        yield level * max(0.1, draw.gauss(1, spread))


def idle() -> None:
    """Work that takes only the time the fake tells."""


def test_steady_times_stop_early_and_noisy_ones_go_on() -> None:
    calm = measure_time(FakeDevice(noisy(0.001)), idle, POLICY)
    rough = measure_time(FakeDevice(noisy(0.03)), idle, POLICY)
    assert calm.steady
    assert rough.steady
    assert 30 <= len(calm.samples) <= 60
    assert len(rough.samples) > 2 * len(calm.samples)
    assert rough.statistics.uncertainty <= 0.005


def test_what_never_settles_ends_with_the_budget_and_says_so() -> None:
    # GIVEN times of 1 ms with half of them off by a factor
    device = FakeDevice(noisy(0.5))
    found = measure_time(device, idle, Policy(most=10_000, budget=0.5, warm_up=0.01))
    assert not found.steady
    # THEN it ran for the budget, a batch more at most
    assert 0.5 <= sum(found.samples) <= 0.6


def test_the_number_of_samples_is_capped() -> None:
    found = measure_time(FakeDevice(noisy(0.5)), idle, POLICY)
    assert len(found.samples) == POLICY.most


def test_a_slow_run_is_timed_at_least_once_a_batch() -> None:
    found = measure_time(FakeDevice(10.0), idle, POLICY)
    assert len(found.samples) == POLICY.batch


def test_warm_up_is_left_out() -> None:
    # GIVEN a first run that compiles for a second, and clocks that rise over the next 30 runs
    slow = chain([1.0], (2e-3 - n * 3e-5 for n in range(30)), repeat(1e-3))
    device = FakeDevice(slow)
    found = measure_time(device, idle, POLICY)
    # THEN no sample knows of it, and the runs are accounted for
    assert max(found.samples) == pytest.approx(1e-3)
    assert found.warm_up >= 31
    assert found.warm_up + len(found.samples) == device.runs


def test_drift_is_not_taken_for_steadiness() -> None:
    # GIVEN times that climb by a tenth of a percent a run, as on a card that heats up
    climbing = (1e-3 * (1 + 1e-3 * n) for n in count())
    found = measure_time(FakeDevice(climbing), idle, Policy(most=60, warm_up=0.0))
    assert not found.steady


@pytest.mark.parametrize("cold", [True, False])
def test_the_cache_is_emptied_unless_asked_not_to(cold: bool) -> None:
    device = FakeDevice()
    assert measure_time(device, idle, POLICY, cold=cold).cold is cold
    assert set(device.cold) == {cold}


def test_samples_are_kept_in_the_order_taken() -> None:
    times = (1e-3 + 1e-9 * n for n in count())
    found = measure_time(FakeDevice(times), idle, POLICY)
    assert list(found.samples) == sorted(found.samples)
    assert len(set(found.samples)) == len(found.samples)


def test_the_card_is_looked_at_while_it_works() -> None:
    # GIVEN a card that runs at full clock before, and is held back by its power limit in one batch
    held = State(sm_clock=1_200_000_000, power=698.0, temperature=83, throttling=("power limit",), others=0)
    looks = chain(repeat(CALM, 9), [held], repeat(CALM))
    found = measure_time(FakeDevice(noisy(0.02), looks), idle, POLICY).environment
    assert found.throttling == ("power limit",)
    assert (found.sm_clock_low, found.sm_clock_high) == (1_200_000_000, 1_980_000_000)
    assert found.temperature_high == 83
    assert "power limit" in found.warnings()[0]
    assert "1200 to 1980 MHz" in found.warnings()[0]
