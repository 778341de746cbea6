"""How many blocks of a kernel an SM holds at once: the least of what its resources allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.accounting.ledger import Tile
from rooflinecli.memory.tiles import RESERVED, WorkingSet, working_set
from rooflinecli.workload import Workload

if TYPE_CHECKING:
    from rooflinecli.hardware import Profile

# Registers a thread needs beside its share of S, O and the row statistics: addresses, operands, loop state.
OVERHEAD_REGISTERS = 40
MOST_REGISTERS = 255
ROWS_A_WARP = 16
LEAST_WARPS, MOST_WARPS = 4, 8


def blocks_per_sm(workload: Workload, tile: Tile, profile: Profile) -> int:
    """Resident blocks of `tile` on one SM, at least 1; resources the profile does not know limit nothing."""
    needs, threads = working_set(workload, tile), threads_a_block(tile)
    registers = min(MOST_REGISTERS, registers_a_thread(needs, threads))
    limits = blocks_by_resource(profile, needs.shared_memory + RESERVED, registers, threads)
    return max(1, min(limits.values(), default=1))


def threads_a_block(tile: Tile) -> int:
    """A warp works on 16 rows of a query tile, as the matrix instructions of kernels do, and a block has 4 to 8."""
    return 32 * min(MOST_WARPS, max(LEAST_WARPS, tile.br // ROWS_A_WARP))


def registers_a_thread(needs: WorkingSet, threads: int) -> int:
    """Registers a thread asks for; what is over `MOST_REGISTERS` spills."""
    return needs.registers // (4 * threads) + OVERHEAD_REGISTERS


def blocks_by_resource(
    profile: Profile, shared_memory: int, registers: int, threads: int, *, sm_memory: int | None = None
) -> dict[str, int]:
    """How many blocks each resource of one SM holds, by its name; what is unknown or not asked for limits nothing.

    Args:
        profile: the GPU.
        shared_memory: bytes a block takes.
        registers: registers a thread takes; they are handed out in eights.
        threads: threads of a block.
        sm_memory: bytes of shared memory an SM has, where the profile's do not count.
    """
    there = profile.sm
    known = None if there.shared_memory is None else int(there.shared_memory.value)
    asked = {
        "shared memory": (known if sm_memory is None else sm_memory, shared_memory),
        "registers": (
            None if there.registers is None else int(there.registers.value),
            -(-registers // 8) * 8 * threads,
        ),
        "warps": (None if there.threads is None else int(there.threads.value), threads),
    }
    return {name: has // takes for name, (has, takes) in asked.items() if has is not None and takes}
