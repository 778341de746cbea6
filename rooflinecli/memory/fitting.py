"""Every tile of a grid that fits on chip, what limits it, and what it is worth to FlashAttention-2."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rooflinecli.accounting import ALGORITHMS
from rooflinecli.accounting.ledger import Tile
from rooflinecli.errors import InputError
from rooflinecli.memory.occupancy import (
    MOST_REGISTERS,
    MOST_WARPS,
    blocks_by_resource,
    registers_a_thread,
    threads_a_block,
)
from rooflinecli.memory.tiles import RESERVED, STAGES, WorkingSet, working_set
from rooflinecli.units import format_capacity
from rooflinecli.workload import Workload

if TYPE_CHECKING:
    from rooflinecli.hardware import Profile

Convention = Literal["kernel", "scores", "full"]
Capacity = Literal["block", "sm"]
Criterion = Literal["intensity", "sm-bytes", "product", "occupancy"]
DOUBLING = "x2"
LEAST = 16  # rows of a matrix instruction
MOST_TILES = 20_000


@dataclass(frozen=True, slots=True)
class Fit:
    """One tile that fits.

    bytes: on-chip memory it takes under the convention asked for. registers: of a thread, overhead included; None
    where the convention keeps everything in memory. limited_by: the resources that hold the fewest blocks. occupancy:
    resident warps over those an SM can hold; None where the GPU's profile does not say. intensity: useful and softmax
    FLOP over SM-boundary bytes, None where no byte moves.
    """

    br: int
    bc: int
    bytes: int
    needs: WorkingSet
    warps: int
    registers: int | None
    blocks_per_sm: int
    limited_by: tuple[str, ...]
    occupancy: float | None
    intensity: float | None
    sm_bytes: int

    @property
    def product(self) -> int:
        """Scores a tile holds."""
        return self.br * self.bc


@dataclass(frozen=True, slots=True)
class Fitting:
    """The tiles that fit one GPU, best first; `refusal` says why where there is none.

    capacity: bytes of on-chip memory that a tile may take.
    """

    profile: Profile
    capacity: int
    fits: tuple[Fit, ...]
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class _Room:
    """Bytes of on-chip memory: what a block may take, what an SM has, what the driver keeps of each block."""

    block: int
    sm: int | None
    reserved: int


def fitting_tiles(
    workload: Workload,
    profile: Profile,
    *,
    by: Criterion = "product",
    convention: Convention = "kernel",
    capacity: Capacity | int = "block",
    stages: int = STAGES,
    step: int | Literal["x2"] = LEAST,
    br: int | None = None,
    bc: int | None = None,
    pack_gqa: bool = False,
) -> Fitting:
    """The tiles that fit on chip, best by `by` first; among equals the larger product, then the fewer bytes.

    Args:
        workload: shapes and formats; its S format counts where `convention` keeps S in memory.
        profile: the GPU.
        by: highest textbook intensity, fewest SM-boundary bytes, largest Br * Bc, or highest occupancy.
        convention: which working set must fit; see `rooflinecli.memory.tiles`. `kernel` also asks that no thread
            needs more registers than there are, so that nothing spills.
        capacity: what one block may take, all that an SM has, or so many bytes.
        stages: copies of K and V in shared memory under `kernel`.
        step: tile sides are multiples of it; `x2` for powers of two from 16. No side is longer than the workload's,
            rounded up to the next one.
        br, bc: only tiles with this side.
        pack_gqa: the query heads of a group share a tile.

    Raises:
        InputError: the profile does not know the capacity or what `by` compares, or too many tiles fit.
    """
    room = _room(profile, capacity)
    if by == "occupancy" and profile.sm.threads is None:
        raise InputError(f"--by occupancy: the profile of {profile.id} does not know how many threads an SM holds")
    group = workload.group if pack_gqa else 1
    rows = [br] if br else _sides(workload.n_q * group, step, room.block)
    columns = [bc] if bc else _sides(workload.n_kv, step, room.block)
    found: list[Fit] = []
    for tile in _tiles(workload, rows, columns, convention, stages, room, pack_gqa):
        found.append(_fit(workload, tile, profile, convention, stages, room))
        if len(found) > MOST_TILES:
            raise InputError(f"--step {step}: more than {MOST_TILES} tiles fit", "take a larger step, or x2")
    refusal = None
    if not found:
        named = " ".join(f"--{name} {side}" for name, side in (("br", br), ("bc", bc)) if side)
        why = _refusal(workload, Tile(rows[0], columns[0]), profile, convention, stages, room)
        refusal = f"{named or f'--d {workload.d}'}: {why}"
    return Fitting(profile, room.block, tuple(sorted(found, key=lambda fit: _order(fit, by))), refusal)


def _room(profile: Profile, capacity: Capacity | int) -> _Room:
    if not isinstance(capacity, str):
        return _Room(capacity, capacity, 0)
    figure = profile.sm.shared_memory_per_block if capacity == "block" else profile.sm.shared_memory
    if figure is None:
        raise InputError(
            f"--capacity {capacity}: the profile of {profile.id} does not know it",
            "--sram 64KiB says how much there is",
        )
    whole = profile.sm.shared_memory
    # All of an SM for one block is the textbook's machine, without a driver.
    return _Room(int(figure.value), None if whole is None else int(whole.value), RESERVED if capacity == "block" else 0)


def _sides(length: int, step: int | Literal["x2"], most: int) -> Sequence[int]:
    """Lengths of a tile's side, up to the first that covers `length`; a side of more than `most` bytes never fits."""
    if isinstance(step, str):
        return [LEAST << power for power in range(max(1, (min(length, most) - 1).bit_length() - 3))]
    return range(step, max(step, min(-(-length // step) * step, most)) + 1, step)


def _tiles(
    workload: Workload,
    rows: Sequence[int],
    columns: Sequence[int],
    convention: Convention,
    stages: int,
    room: _Room,
    pack_gqa: bool,
) -> Iterator[Tile]:
    """Those that fit.

    Memory grows with both sides, registers with Bc and, once a block has all its warps, with Br: the first refusal
    ends a row, or everything.
    """
    for br in rows:
        for bc in columns:
            tile = Tile(br, bc, pack_gqa=pack_gqa)
            needs = working_set(workload, tile, stages)
            too_large = _memory(needs, convention) > room.block
            if too_large or _spills(needs, tile, convention):
                if bc == columns[0] and (too_large or threads_a_block(tile) == 32 * MOST_WARPS):
                    return
                break
            yield tile


def _memory(needs: WorkingSet, convention: Convention) -> int:
    return {"kernel": needs.shared_memory, "scores": needs.scores, "full": needs.full}[convention]


def _spills(needs: WorkingSet, tile: Tile, convention: Convention) -> bool:
    return convention == "kernel" and registers_a_thread(needs, threads_a_block(tile)) > MOST_REGISTERS


def _fit(workload: Workload, tile: Tile, profile: Profile, convention: Convention, stages: int, room: _Room) -> Fit:
    needs, threads = working_set(workload, tile, stages), threads_a_block(tile)
    memory = _memory(needs, convention)
    registers = registers_a_thread(needs, threads) if convention == "kernel" else None
    blocks = blocks_by_resource(profile, memory + room.reserved, registers or 0, threads, sm_memory=room.sm)
    fewest = min(blocks.values(), default=1)
    resident = max(1, fewest)
    cost = ALGORITHMS["flash2"].cost(workload, tile)
    moved = cost.traffic("sm").total
    most = profile.sm.threads
    return Fit(
        tile.br,
        tile.bc,
        memory,
        needs,
        threads // 32,
        registers,
        resident,
        tuple(name for name, held in blocks.items() if held == fewest),
        None if most is None else resident * threads / most.value,
        (cost.flops.useful + cost.flops.softmax) / moved if moved else None,
        moved,
    )


def _order(fit: Fit, by: Criterion) -> tuple[float, ...]:
    worth: float = {
        "intensity": fit.intensity or 0.0,
        "sm-bytes": -fit.sm_bytes,
        "product": fit.product,
        "occupancy": fit.occupancy or 0.0,
    }[by]
    return (-worth, -fit.product, fit.bytes, fit.br)


def _refusal(workload: Workload, tile: Tile, profile: Profile, convention: Convention, stages: int, room: _Room) -> str:
    """Why even the smallest tile does not fit."""
    needs = working_set(workload, tile, stages)
    memory, which = _memory(needs, convention), f"a tile of {tile.br} x {tile.bc} needs"
    if memory > room.block:
        return (
            f"{which} {memory} B on chip (working set: {convention}); {profile.id} has {room.block} B "
            f"({format_capacity(room.block)}) for it"
        )
    wanted = registers_a_thread(needs, threads_a_block(tile))
    return f"{which} {wanted} registers a thread for S, O and the row statistics; there are {MOST_REGISTERS}"
