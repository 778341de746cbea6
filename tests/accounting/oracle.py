"""Attention counted the slow way: loops over heads, tiles and keys that add up what each touches.

Nothing here comes from the package; masks are decided one (query, key) pair at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Counted:
    """(step, tensor, direction) -> elements; multiply-accumulate FLOPs; exponentials; visible pairs."""

    moved: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    executed: int = 0
    useful: int = 0
    exponentials: int = 0
    pairs: int = 0

    def load(self, step: str, tensor: str, elements: int) -> None:
        self.moved[step, tensor, "read"] += elements

    def store(self, step: str, tensor: str, elements: int) -> None:
        self.moved[step, tensor, "write"] += elements


@dataclass(frozen=True)
class Shape:
    batch: int
    kv_heads: int
    group: int
    n_q: int
    n_kv: int
    d: int
    d_v: int
    causal: bool
    window: int | None

    def sees(self, query: int, key: int) -> bool:
        position = query + self.n_kv - self.n_q
        if self.causal and key > position:
            return False
        return self.window is None or abs(position - key) < self.window


def chunks(total: int, size: int) -> list[range]:
    return [range(start, min(start + size, total)) for start in range(0, total, size)]


def visible_tiles(shape: Shape, rows: range, group: int, bc: int) -> Iterator[range]:
    """Key tiles in which at least one of these packed rows sees at least one key."""
    queries = {row // group for row in rows}
    for keys in chunks(shape.n_kv, bc):
        if any(shape.sees(query, key) for query in queries for key in keys):
            yield keys


def _pairs(shape: Shape, counted: Counted, flops_a_pair: int) -> None:
    for _ in range(shape.batch * shape.kv_heads * shape.group):
        for query in range(shape.n_q):
            for key in range(shape.n_kv):
                if shape.sees(query, key):
                    counted.pairs += 1
                    counted.useful += flops_a_pair


def naive(s: Shape) -> Counted:
    counted = Counted()
    _pairs(s, counted, 2 * s.d + 2 * s.d_v)
    for _ in range(s.batch * s.kv_heads):
        counted.load("scores", "K", s.n_kv * s.d)
        counted.load("output", "V", s.n_kv * s.d_v)
        for _ in range(s.group):
            for _ in range(s.n_q):
                counted.load("scores", "Q", s.d)
                counted.store("output", "O", s.d_v)
                for _ in range(s.n_kv):
                    counted.store("scores", "S", 1)
                    counted.load("softmax", "S", 1)
                    counted.store("softmax", "P", 1)
                    counted.load("output", "P", 1)
                    counted.executed += 2 * s.d + 2 * s.d_v
                    counted.exponentials += 1
    return counted


def flash2(s: Shape, br: int, bc: int, pack: bool) -> Counted:
    counted = Counted()
    _pairs(s, counted, 2 * s.d + 2 * s.d_v)
    group = s.group if pack else 1
    for _ in range(s.batch * s.kv_heads * s.group // group):
        for rows in chunks(s.n_q * group, br):
            counted.load("forward", "Q", len(rows) * s.d)
            for keys in visible_tiles(s, rows, group, bc):
                counted.load("forward", "K", len(keys) * s.d)
                counted.load("forward", "V", len(keys) * s.d_v)
                counted.executed += 2 * br * bc * (s.d + s.d_v)
                counted.exponentials += br * bc + br
            counted.store("forward", "O", len(rows) * s.d_v)
    return counted


def flash1(s: Shape, br: int, bc: int) -> Counted:
    counted = Counted()
    _pairs(s, counted, 2 * s.d + 2 * s.d_v)
    for _ in range(s.batch * s.kv_heads * s.group):
        for keys in chunks(s.n_kv, bc):
            seeing = [rows for rows in chunks(s.n_q, br) if any(s.sees(query, key) for query in rows for key in keys)]
            if seeing:
                counted.load("forward", "K", len(keys) * s.d)
                counted.load("forward", "V", len(keys) * s.d_v)
            for rows in seeing:
                counted.load("forward", "Q", len(rows) * s.d)
                for move in (counted.load, counted.store):
                    move("forward", "O", len(rows) * s.d_v)
                    move("forward", "l", len(rows))
                    move("forward", "m", len(rows))
                counted.executed += 2 * br * bc * (s.d + s.d_v)
                counted.exponentials += br * bc + br
    return counted


def decode(s: Shape, br: int, bc: int, pack: bool, splits: int) -> Counted:
    counted = Counted()
    _pairs(s, counted, 2 * s.d + 2 * s.d_v)
    group = s.group if pack else 1
    tiles = chunks(s.n_kv, bc)
    splits = min(splits, len(tiles))
    shares = [tiles[i * len(tiles) // splits : (i + 1) * len(tiles) // splits] for i in range(splits)]
    for _ in range(s.batch * s.kv_heads * s.group // group):
        for rows in chunks(s.n_q * group, br):
            visible = list(visible_tiles(s, rows, group, bc))
            for share in shares:
                counted.load("attend", "Q", len(rows) * s.d)
                for keys in share:
                    if keys in visible:
                        counted.load("attend", "K", len(keys) * s.d)
                        counted.load("attend", "V", len(keys) * s.d_v)
                        counted.executed += 2 * br * bc * (s.d + s.d_v)
                        counted.exponentials += br * bc + br
                if splits == 1:
                    counted.store("attend", "O", len(rows) * s.d_v)
                else:
                    counted.store("attend", "O_partial", len(rows) * s.d_v)
                    counted.store("attend", "LSE", len(rows))
                    counted.load("combine", "O_partial", len(rows) * s.d_v)
                    counted.load("combine", "LSE", len(rows))
            if splits > 1:
                counted.store("combine", "O", len(rows) * s.d_v)
    return counted


def backward(s: Shape, br: int, bc: int) -> Counted:
    counted = Counted()
    _pairs(s, counted, 2 * (3 * s.d + 2 * s.d_v))
    for _ in range(s.batch * s.kv_heads):
        for keys in chunks(s.n_kv, bc):
            counted.load("main", "K", len(keys) * s.d)
            counted.load("main", "V", len(keys) * s.d_v)
            for _ in range(s.group):
                for rows in chunks(s.n_q, br):
                    if any(s.sees(query, key) for query in rows for key in keys):
                        counted.load("main", "Q", len(rows) * s.d)
                        counted.load("main", "dO", len(rows) * s.d_v)
                        counted.load("main", "LSE", len(rows))
                        counted.load("main", "delta", len(rows))
                        counted.store("main", "dQ_acc", len(rows) * s.d)
                        for depth in (s.d, s.d_v, s.d_v, s.d, s.d):  # S, dP, dV, dQ, dK
                            counted.executed += 2 * br * bc * depth
                        counted.exponentials += br * bc
            counted.store("main", "dK", len(keys) * s.d)
            counted.store("main", "dV", len(keys) * s.d_v)
        for _ in range(s.group * s.n_q):
            for tensor in ("O", "dO"):
                counted.load("preprocess", tensor, s.d_v)
            counted.store("preprocess", "delta", 1)
            counted.store("preprocess", "dQ_acc", s.d)
            counted.load("convert", "dQ_acc", s.d)
            counted.store("convert", "dQ", s.d)
    return counted
