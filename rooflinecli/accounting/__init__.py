"""Analytic bytes, FLOPs and exponentials of attention algorithms, behind one registry."""

from __future__ import annotations

from rooflinecli.accounting import backward, decode, flash1, flash2, naive
from rooflinecli.accounting.ledger import Algorithm
from rooflinecli.errors import unknown_name

ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        naive.ALGORITHM,
        flash1.ALGORITHM,
        flash2.ALGORITHM,
        *decode.ALGORITHMS,
        backward.ALGORITHM,
    )
}


def algorithm(name: str) -> Algorithm:
    """The algorithm called `name`.

    Raises:
        InputError: nobody knows it; the nearest names are in the message.
    """
    found = ALGORITHMS.get(name.strip().lower())
    if found is None:
        raise unknown_name("algorithm", name, ALGORITHMS)
    return found
