"""What of the card's state a reader is warned about."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rooflinecli.measurement.environment import UNKNOWN, Monitor, State, environment, others, throttles
from tests.measurement.fake import CALM


def test_a_calm_card_warns_of_nothing() -> None:
    assert environment(CALM, [CALM, CALM], CALM).warnings() == []


def test_an_idle_card_before_is_no_throttling_while_measuring() -> None:
    idle = State(sm_clock=345_000_000, temperature=30, throttling=("temperature (software)",), others=0)
    found = environment(idle, [CALM], CALM)
    assert found.throttling == ()
    assert found.sm_clock_low == CALM.sm_clock


@pytest.mark.parametrize(("count", "words"), [(1, "1 other process on"), (3, "3 other processes on")])
def test_another_process_is_noticed(count: int, words: str) -> None:
    busy = State(sm_clock=1, others=count)
    assert words in environment(CALM, [CALM], busy).warnings()[0]


def test_a_busy_card_is_noticed_where_processes_cannot_be_listed() -> None:
    before = State(sm_clock=1, others=None, busy=0.7)
    assert "70% busy" in environment(before, [], before).warnings()[0]


def test_unknown_is_said_to_be_unknown() -> None:
    assert "nvidia-ml-py" in environment(UNKNOWN, [UNKNOWN], UNKNOWN).warnings()[0]


def test_reasons_in_words() -> None:
    # Idle (1) and application clocks (2) are no faults; the power cap (4) and heat (32, 64) are.
    assert throttles(0b011) == ()
    assert throttles(4 | 32) == ("power limit", "temperature (software)")
    assert throttles(64 | 128 | 8) == ("hardware slowdown", "temperature (hardware)", "power brake")


@pytest.mark.parametrize(
    ("pids", "count"),
    [([], 0), ([42], 0), ([7], 0), ([42, 7], 1), ([7, 8], 2)],  # ids of a container are not the driver's
)
def test_own_process_is_not_another(pids: list[int], count: int) -> None:
    assert others(pids, 42) == count


class FakeNvml:
    """Answers like the driver's library, in its units; what is not set raises, as on cards that do not support it."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, **answers: Any) -> None:
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        if name not in self._answers:
            raise RuntimeError("not supported")
        return lambda *_: self._answers[name]


def test_units_of_the_drivers_library() -> None:
    monitor = Monitor(
        FakeNvml(
            nvmlDeviceGetClockInfo=1980, nvmlDeviceGetPowerUsage=312_500, nvmlDeviceGetEnforcedPowerLimit=700_000,
            nvmlDeviceGetTemperature=55, nvmlDeviceGetCurrentClocksThrottleReasons=4,
            nvmlDeviceGetUtilizationRates=SimpleNamespace(gpu=25, memory=1),
            nvmlDeviceGetComputeRunningProcesses=[SimpleNamespace(pid=1), SimpleNamespace(pid=2)],
        )
    )  # fmt: skip
    found = monitor.state()
    assert (found.sm_clock, found.power, found.power_limit, found.temperature) == (1_980_000_000, 312.5, 700.0, 55)
    assert (found.throttling, found.others, found.busy) == (("power limit",), 2, 0.25)


def test_what_a_card_does_not_tell_is_unknown() -> None:
    found = Monitor(FakeNvml(nvmlDeviceGetTemperature=40)).state()
    assert found == State(temperature=40)
    assert Monitor().state() == UNKNOWN
