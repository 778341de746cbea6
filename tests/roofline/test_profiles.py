"""Every bundled GPU: nothing predicted is above anything, and every roof says where it is from."""

from __future__ import annotations

import math

import pytest

from rooflinecli import Workload, account, load_profile
from rooflinecli.errors import InputError
from rooflinecli.hardware import profile_ids
from rooflinecli.report.plot.build import chart
from rooflinecli.report.plot.kernels import from_account
from rooflinecli.report.plot.scene import scene

WORKLOADS = [
    Workload(n_q=8192, d=64, heads=16),
    Workload(n_q=4096, d=128, heads=8, kv_heads=2, causal=True, dtype="bf16"),
    Workload(n_q=1, n_kv=32768, d=128, heads=32, kv_heads=8),
    Workload(n_q=1000, d=96, dtype="fp32"),
]


@pytest.mark.parametrize("gpu", profile_ids())
def test_no_predicted_point_is_above_a_roof(gpu: str) -> None:
    drawn_any = False
    for workload in WORKLOADS:
        try:
            found = account(workload, gpu)
        except InputError as error:
            if "no ceiling" not in error.message:
                raise
            continue
        machines, kernels = from_account(found)
        drawn = chart("", machines, kernels)
        drawn_any = True
        assert drawn.undrawable == ()
        assert {point.level for point in drawn.points} == {"hbm", "sm", "textbook"}
        assert all(roof.source for roof in drawn.roofs)
        for point in drawn.points:
            own = "hbm" if point.level == "textbook" else point.level
            over = [
                roof.id
                for roof in drawn.roofs
                if (
                    roof.level == own or roof.kind == "compute" or (roof.kind == "kernel" and point.level != "textbook")
                )
                and point.flops_per_s > roof.at(point.intensity) * (1 + 1e-9)
            ]
            assert over == []
        # The height is the account's own time, read independently of the plot's limits.
        for result in found.results:
            [mark] = [p for p in drawn.points if (p.algorithm, p.level) == (result.algorithm, "hbm")]
            assert mark.seconds == pytest.approx(result.seconds_at_least)
            assert mark.bound_by == result.bound_by
        shown = scene(drawn)
        ends = [*shown.x, *shown.y, *(value for mark in shown.marks for value in (mark.x, mark.y))]
        assert all(math.isfinite(value) and value > 0 for value in ends)
    assert drawn_any


def test_datasheet_and_measured_roofs_are_told_apart() -> None:
    profile = load_profile("a100-sxm4-80gb")
    machines, kernels = from_account(account(WORKLOADS[0], profile))
    drawn = chart("", machines, kernels)
    assert profile.l2.bandwidth is not None
    assert {roof.id for roof in drawn.roofs if roof.measured} == {"l2"}
    assert {roof.id: roof.source for roof in drawn.roofs}["l2"] == profile.l2.bandwidth.source
