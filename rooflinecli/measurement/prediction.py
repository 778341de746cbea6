"""What the accounting says of a kernel that runs with a tile of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rooflinecli.memory.l2 as l2
from rooflinecli.accounting import ALGORITHMS
from rooflinecli.accounting.ledger import Tile
from rooflinecli.calculator import Intensity, Result
from rooflinecli.roofline import bounds, textbook
from rooflinecli.workload import Workload

if TYPE_CHECKING:
    from rooflinecli.hardware import Profile


def predict(algorithm: str, workload: Workload, tile: Tile, profile: Profile) -> Result:
    """The cost of `algorithm` with exactly this tile, its levels and its bounds on `profile`.

    Unlike `rooflinecli.account` it doubts no tile: a kernel that ran has shown that its tile fits.

    Raises:
        InputError: the GPU has no peak for the workload's format.
    """
    cost = ALGORITHMS[algorithm].cost(workload, tile)
    hbm = l2.estimate(cost, workload, profile)
    moved = cost.traffic("sm").total
    book = textbook(cost, profile, workload.storage)
    intensity = Intensity(
        textbook=book.intensity,
        sm=cost.flops.executed / moved if moved else None,
        hbm=cost.flops.executed / hbm.total if hbm.total else None,
    )
    found = bounds(cost, hbm.total, profile, workload.storage, "l2")
    return Result(profile.id, cost, hbm, intensity, found, book)
