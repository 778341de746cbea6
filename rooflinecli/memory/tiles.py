"""Which tiles fit on chip, and the tile a kernel would choose.

Three definitions of a tile's working set are in use, and all three are here:

scores  the tile of S, in the format of S, with the tiles of Q, K and V (the FlashAttention paper)
full    the same with the O accumulator and the running maximum and sum of each row
kernel  as kernels hold it: Q and `stages` copies of K and V in shared memory, in the storage format;
        S, O, m and l in registers, fp32. Only this one decides what fits a real block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rooflinecli.accounting.ledger import Algorithm, Tile
from rooflinecli.errors import InputError
from rooflinecli.workload import Workload

if TYPE_CHECKING:
    from rooflinecli.hardware import Profile

STAGES = 2  # copies of K and V a pipelined kernel keeps in flight
RESERVED = 1024  # bytes of shared memory the driver takes from every resident block
_KEYS = (128, 64, 32, 16)


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """Bytes one block keeps on chip, by definition of "working set"."""

    scores: int
    full: int
    shared_memory: int
    registers: int


def working_set(workload: Workload, tile: Tile, stages: int = STAGES) -> WorkingSet:
    """Bytes that `tile` occupies; `stages` copies of K and V count for `shared_memory` only."""
    w, br, bc = workload, tile.br, tile.bc
    scores = w.scores.nbytes(br * bc) + w.storage.nbytes(br * w.d) + w.kv.nbytes(bc * w.d) + w.kv.nbytes(bc * w.d_v)
    full = scores + w.storage.nbytes(br * w.d_v + 2 * br)
    shared = w.storage.nbytes(br * w.d) + stages * (w.kv.nbytes(bc * w.d) + w.kv.nbytes(bc * w.d_v))
    return WorkingSet(scores, full, shared, 4 * (br * bc + br * w.d_v + 2 * br))


def check_fits(workload: Workload, tile: Tile, profile: Profile) -> None:
    """Refuse a tile that no block of `profile` can hold even without pipelining.

    Raises:
        InputError: says the bytes asked and the bytes there. A GPU whose limits are unknown refuses nothing.
    """
    needs = working_set(workload, tile, stages=1)
    shared, registers = profile.sm.shared_memory_per_block, profile.sm.registers
    where = f"--br {tile.br} --bc {tile.bc}: the tile needs"
    if shared is not None and needs.shared_memory > shared.value:
        raise InputError(
            f"{where} {needs.shared_memory} B of shared memory for Q, K and V; "
            f"a block on {profile.id} has {shared.value} B",
            "take a smaller tile",
        )
    if registers is not None and needs.registers > 4 * registers.value:
        raise InputError(
            f"{where} {needs.registers} B of registers for S, O and the row statistics; "
            f"an SM of {profile.id} has {4 * registers.value} B",
            "take a smaller tile",
        )


def choose_tile(
    workload: Workload,
    algorithm: Algorithm,
    profile: Profile,
    *,
    br: int | None = None,
    bc: int | None = None,
    splits: int | None = None,
    pack_gqa: bool | None = None,
    page_size: int | None = None,
) -> Tile:
    """The tile `algorithm` runs with: what the user fixed, and for the rest what kernels choose.

    Br is 128, or 64 where O is wider than 128 (and never more than the rows there are, rounded up to a
    power of two of at least 16); Bc is the widest power of two up to 128 whose pipelined working set fits
    shared memory and whose accumulators leave half the register file free (five eighths before Hopper,
    whose matrix instructions take K and V straight from shared memory). An algorithm without tiles gets
    one of a single pair, which it ignores.

    Raises:
        InputError: the tile does not fit, or no tile does.
    """
    if not algorithm.tiled:
        return Tile(1, 1, "default")
    w = workload
    packed = algorithm.packs if pack_gqa is None else pack_gqa
    rows = w.n_q * (w.group if packed else 1)
    chosen_br = br or min(64 if w.d_v > 128 else 128, _power_of_two(rows))
    widest = next((wide for wide in _KEYS if _comfortable(w, Tile(chosen_br, wide), profile)), _KEYS[-1])
    chosen_bc = bc or min(widest, _power_of_two(w.n_kv))
    tile = Tile(chosen_br, chosen_bc, "user" if br or bc else "default", 1, packed, page_size)
    check_fits(w, tile, profile)
    if algorithm.name in ("decode", "paged", "mla"):
        tile = Tile(tile.br, tile.bc, tile.chosen_by, splits or _fill(w, tile, profile), packed, page_size)
    return tile


def _comfortable(workload: Workload, tile: Tile, profile: Profile) -> bool:
    needs = working_set(workload, tile)
    shared, registers = profile.sm.shared_memory_per_block, profile.sm.registers
    share = 1 / 2 if _takes_operands_from_shared_memory(profile) else 3 / 8
    fits_shared = shared is None or needs.shared_memory <= shared.value
    return fits_shared and (registers is None or needs.registers - 8 * tile.br <= 4 * registers.value * share)


def _takes_operands_from_shared_memory(profile: Profile) -> bool:
    return profile.compute_capability is not None and float(profile.compute_capability) in (9.0, 10.0, 10.3)


def _fill(workload: Workload, tile: Tile, profile: Profile) -> int:
    """Splits that give every SM a block, as long as each keeps a key tile."""
    w = workload
    group = w.group if tile.pack_gqa else 1
    blocks = w.batch * w.heads // group * -(-w.n_q * group // tile.br)
    sms = 1 if profile.sm_count is None else int(profile.sm_count.value)
    return max(1, min(sms // blocks, -(-w.n_kv // tile.bc)))


def _power_of_two(count: int) -> int:
    """The least power of two that is at least `count` and 16, the rows of a matrix instruction."""
    return max(16, 1 << (count - 1).bit_length())
