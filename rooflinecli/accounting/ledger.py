"""What an algorithm is and what its cost is made of: ledger rows that add up, and nothing else adds anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from rooflinecli.dtypes import DType
from rooflinecli.workload import Workload

# The names that formulas are written in, and what they stand for.
SYMBOLS = {
    "B": "batch",
    "Hq": "query heads",
    "Hk": "key/value heads",
    "Nq": "query length",
    "Nk": "key/value length",
    "d": "head dim of Q and K",
    "dv": "head dim of V and O",
    "Tr": "query tiles a head (a packed group of heads counts as one)",
    "Tc": "key tiles a head",
    "kv_rows": "rows of K that a head's query tiles visit, all visits counted",
    "q_rows": "rows of Q that a head's key tiles visit, all visits counted",
    "k_loaded": "rows of the key tiles that some query sees",
    "k_seen": "keys that some query sees",
    "q_seeing": "queries that see some key",
    "splits": "blocks that share one query tile's keys",
    "pages": "pages that hold a seen key",
}

Level = Literal["sm", "compulsory"]
Direction = Literal["read", "write"]


@dataclass(frozen=True, slots=True)
class Tile:
    """How a kernel cuts the work: `br` rows of Q by `bc` rows of K/V.

    `splits` blocks share one query tile's keys (split-KV), `pack_gqa` puts the query heads of a group
    into the rows of one tile, `page_size` is the tokens in a page of a paged cache. `chosen_by` says
    whether a user or the defaults decided.
    """

    br: int
    bc: int
    chosen_by: Literal["user", "default", "kernel"] = "user"
    splits: int = 1
    pack_gqa: bool = False
    page_size: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One tensor crossing one memory level in one direction during one step; `formula` counts the elements."""

    step: str
    tensor: str
    level: Level
    direction: Direction
    elements: int
    bytes: int
    formula: str


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes read and written at one memory level."""

    read: int
    write: int

    @property
    def total(self) -> int:
        """Bytes in both directions."""
        return self.read + self.write


@dataclass(frozen=True, slots=True)
class Flops:
    """Floating-point operations, FMA = 2; the four conventions of `docs/accounting.md`."""

    useful: int
    published: int
    executed: int
    softmax: int


@dataclass(frozen=True, slots=True)
class Exponentials:
    """Special-function evaluations: over visible pairs, and as the kernel executes them."""

    useful: int
    executed: int


@dataclass(frozen=True, slots=True)
class Cost:
    """What one algorithm does for one workload: work, and the ledger of what it moves.

    symbols: values of the names in the rows' formulas, see `SYMBOLS`; every formula evaluates to its row's elements.
    """

    algorithm: str
    tile: Tile | None
    flops: Flops
    exponentials: Exponentials
    ledger: tuple[Row, ...]
    symbols: Mapping[str, int]

    def traffic(self, level: Level) -> Traffic:
        """Sum of the ledger rows of `level`."""
        read = sum(row.bytes for row in self.ledger if row.level == level and row.direction == "read")
        write = sum(row.bytes for row in self.ledger if row.level == level and row.direction == "write")
        return Traffic(read, write)

    def without(self, tensors: Iterable[str]) -> Cost:
        """The same cost with the rows of these tensors struck out (case-insensitive)."""
        gone = {tensor.lower() for tensor in tensors}
        kept = tuple(row for row in self.ledger if row.tensor.lower() not in gone)
        return replace(self, ledger=kept)


def moved(
    step: str, tensor: str, direction: Direction, elements: int, dtype: DType, formula: str, level: Level = "sm"
) -> Row:
    """A row for `elements` stored as `dtype`."""
    return Row(step, tensor, level, direction, elements, dtype.nbytes(elements), formula)


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """An accounting algorithm: `cost(workload, tile)` is its whole behaviour.

    tiled: whether `cost` needs a tile. packs: whether the query heads of a group share a tile unless
    told otherwise. applies: whether a user who names no algorithm wants to see it for this workload.
    pseudocode: what the ledger counts, as loops.
    """

    name: str
    summary: str
    pseudocode: str
    tiled: bool = True
    packs: bool = False
    applies: Callable[[Workload], bool]
    cost: Callable[[Workload, Tile], Cost]


def always(_: Workload) -> bool:
    """For algorithms that any workload can be given to."""
    return True


def when_asked(_: Workload) -> bool:
    """For algorithms that answer another question than the plain forward pass."""
    return False
