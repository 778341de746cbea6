"""Timing until the median is steady: warm-up left out, batches of samples, a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rooflinecli.measurement.device import Device
from rooflinecli.measurement.environment import Environment, State, environment
from rooflinecli.measurement.statistics import Statistics, summarize


@dataclass(frozen=True, slots=True)
class Policy:
    """When to stop. The median is steady when its interval is within `precision` of it to each side and the
    last batch agrees; `budget` and `warm_up` are seconds on the host's clock.
    """

    precision: float = 0.005
    least: int = 30
    most: int = 1000
    batch: int = 20
    budget: float = 2.0
    warm_up: float = 0.1


QUICK = Policy(budget=1.0)
FULL = Policy(precision=0.002, least=60, most=3000, budget=5.0, warm_up=0.3)


@dataclass(frozen=True, slots=True)
class Timing:
    """Samples in seconds in the order taken, and what they say. `warm_up` runs came before and are not among them."""

    samples: tuple[float, ...]
    statistics: Statistics
    warm_up: int
    steady: bool
    cold: bool
    environment: Environment


def measure_time(device: Device, run: Callable[[], object], policy: Policy = QUICK, *, cold: bool = True) -> Timing:
    """Run `run` until its median is steady or the budget is spent.

    The first run compiles and is never timed. Warm-up goes on until the clocks are up: for `warm_up` seconds,
    and until two batches in a row agree within 2%, for at most half the budget more.
    """
    before = device.state()
    warm = _warm_up(device, run, policy, cold)
    samples: list[float] = []
    states: list[State] = []
    began = device.clock()
    steady = False
    while not steady and len(samples) < policy.most:
        batch = device.time(run, min(policy.batch, policy.most - len(samples)), cold=cold)
        samples += batch.seconds
        states += batch.states
        steady = len(samples) >= policy.least and _steady(samples, batch.seconds, policy)
        if len(samples) >= policy.batch and device.clock() - began >= policy.budget:
            break
    return Timing(
        samples=tuple(samples),
        statistics=summarize(samples),
        warm_up=warm,
        steady=steady,
        cold=cold,
        environment=environment(before, states, device.state()),
    )


def _warm_up(device: Device, run: Callable[[], object], policy: Policy, cold: bool) -> int:
    device.time(run, 1, cold=cold)  # compiles: its time says nothing
    began = device.clock()
    done, last = 1, None
    while True:
        median = summarize(device.time(run, 5, cold=cold).seconds).median
        done += 5
        spent = device.clock() - began
        level = last is not None and abs(median - last) <= 0.02 * last
        if (spent >= policy.warm_up and level) or spent >= policy.warm_up + policy.budget / 2:
            return done
        last = median


def _steady(samples: list[float], latest: Sequence[float], policy: Policy) -> bool:
    found = summarize(samples)
    recent = summarize(latest)
    drift = abs(recent.median - found.median) <= 2 * policy.precision * found.median
    return found.uncertainty <= policy.precision and drift
