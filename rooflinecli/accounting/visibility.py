"""Which keys a query sees, and which tiles a kernel therefore visits: exact sums in closed form.

Query `i` stands at position `p = i + n_kv - n_q`. It sees the keys `[first, end)` with

    end   = n_kv            dense       first = 0             no window
          = p + 1           causal            = p - W + 1     window of W keys, own position included
          = p + W           window, not causal

clipped to `[0, n_kv)`. Both ends grow by one a query, so the keys a tile of queries sees together are
one range, and a sum over tiles is a sum of `floor((a*t + b) / m)`, which has a closed form of
logarithmic cost: a billion queries take as long as a thousand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rooflinecli.workload import Workload


@dataclass(frozen=True, slots=True)
class Walk:
    """The tiles a kernel with Q outer visits, for one head (or one packed group of heads).

    q_tiles: query tiles. visits: (query tile, key tile) pairs visited. kv_rows: K (or V) rows read,
    the last key tile clipped to n_kv. q_rows: rows of Q read if every visit read its query tile.
    """

    q_tiles: int
    visits: int
    kv_rows: int
    q_rows: int


def visible_pairs(workload: Workload) -> int:
    """(query, key) pairs of one head that the mask leaves visible. Exact."""
    return walk(workload, br=1, bc=1).kv_rows


def visible_keys(workload: Workload) -> int:
    """Keys of one head that at least one query sees."""
    span = _Span(workload, rows=1, group=1)
    return max(0, span.end(workload.n_q - 1) - span.first(0))


def seeing_queries(workload: Workload) -> int:
    """Queries of one head that see at least one key (the last ones, when a causal n_q exceeds n_kv)."""
    return workload.n_q - _Span(workload, rows=1, group=1).tiles_with_end_at_most(0)


def walk(workload: Workload, br: int, bc: int, group: int = 1) -> Walk:
    """Tiles visited by one head with `br` x `bc` tiles; `group` query heads packed into the rows of one.

    A packed tile interleaves heads within a query: row `r` is query `r // group`.
    """
    span = _Span(workload, br, group)
    tiles, n_kv = span.tiles, workload.n_kv
    key_tiles = -(-n_kv // bc)
    blind = span.tiles_with_end_at_most(0)
    unclipped = span.tiles_with_end_at_most(n_kv - 1)
    ends = span.sum_of_end_tiles(blind, unclipped, bc) + (tiles - unclipped) * key_tiles
    visits = ends - span.sum_of_first_tiles(bc)
    # The tiles that visit the last key tile read only its n_kv % bc real rows.
    padding = key_tiles * bc - n_kv
    reach_last = tiles - span.tiles_with_end_at_most((key_tiles - 1) * bc)
    last = -(-span.end(tiles - 1) // bc) - span.first(tiles - 1) // bc
    missing = tiles * br - span.total_rows
    return Walk(tiles, visits, visits * bc - padding * reach_last, visits * br - missing * last)


class _Span:
    """Ends of the key range seen by each tile of `rows` packed rows."""

    def __init__(self, workload: Workload, rows: int, group: int) -> None:
        self.rows, self.group, self.n_kv = rows, group, workload.n_kv
        self.total_rows = workload.n_q * group
        self.tiles = -(-self.total_rows // rows)
        offset = workload.n_kv - workload.n_q
        window = workload.window
        # end = query + ahead, first = query + behind, before clipping; None where nothing limits them.
        self.ahead = offset + 1 if workload.causal else None if window is None else offset + window
        self.behind = None if window is None else offset - window + 1

    def end(self, tile: int) -> int:
        """One past the last key that tile `tile` sees."""
        if self.ahead is None:
            return self.n_kv
        last_row = min(self.total_rows, (tile + 1) * self.rows) - 1
        return max(0, min(self.n_kv, last_row // self.group + self.ahead))

    def first(self, tile: int) -> int:
        """The first key that tile `tile` sees."""
        if self.behind is None:
            return 0
        return max(0, tile * self.rows // self.group + self.behind)

    def tiles_with_end_at_most(self, limit: int) -> int:
        """How many tiles see no key at or past `limit` (`end` never falls from one tile to the next)."""
        return _count_while(self.tiles, lambda tile: self.end(tile) <= limit)

    def sum_of_end_tiles(self, start: int, stop: int, bc: int) -> int:
        """Sum of ceil(end / bc) over tiles whose end is not clipped."""
        if self.ahead is None or start >= stop:
            return 0
        total = 0
        if stop == self.tiles:  # the last tile may have fewer rows
            stop -= 1
            total = -(-self.end(stop) // bc)
        # floor((floor(x / g) + c) / bc) = floor((x + c * g) / (g * bc)), with x the tile's last row
        shift = (start + 1) * self.rows - 1 + (self.ahead + bc - 1) * self.group
        return total + floor_sum(stop - start, self.group * bc, self.rows, shift)

    def sum_of_first_tiles(self, bc: int) -> int:
        """Sum of floor(first / bc) over all tiles."""
        if self.behind is None:
            return 0
        at_zero = _count_while(self.tiles, lambda tile: self.first(tile) == 0)
        shift = at_zero * self.rows + self.behind * self.group
        return floor_sum(self.tiles - at_zero, self.group * bc, self.rows, shift)


def floor_sum(n: int, m: int, a: int, b: int) -> int:
    """Sum of floor((a*i + b) / m) for i in [0, n), by the Euclidean algorithm on (a, m); a, b >= 0."""
    total = 0
    while n > 0:
        total += n * (n - 1) // 2 * (a // m) + n * (b // m)
        a, b = a % m, b % m
        top = a * n + b
        # Count the lattice points under the line column by column, then row by row: axes swap.
        n, b = top // m, top % m
        a, m = m, a
    return total


def _count_while(n: int, holds: Callable[[int], bool]) -> int:
    """How many of 0..n-1 satisfy a predicate that, once false, stays false."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            low = middle + 1
        else:
            high = middle
    return low
