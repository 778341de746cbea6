"""How many blocks of a kernel an SM holds at once: the least of what its resources allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.accounting.ledger import Tile
from rooflinecli.memory.tiles import RESERVED, working_set
from rooflinecli.workload import Workload

if TYPE_CHECKING:
    from rooflinecli.hardware import Profile

# Registers a thread needs beside its share of S, O and the row statistics: addresses, operands, loop state.
OVERHEAD_REGISTERS = 40
MOST_REGISTERS = 255
ROWS_A_WARP = 16


def blocks_per_sm(workload: Workload, tile: Tile, profile: Profile) -> int:
    """Resident blocks of `tile` on one SM, at least 1; resources the profile does not know limit nothing.

    A warp works on 16 rows of a query tile, as the matrix instructions of kernels do, and a block has 4 or 8.
    """
    needs = working_set(workload, tile)
    threads = 32 * min(8, max(4, tile.br // ROWS_A_WARP))
    registers = min(MOST_REGISTERS, needs.registers // (4 * threads) + OVERHEAD_REGISTERS)
    limits = [
        int(there.value) // asked
        for there, asked in (
            (profile.sm.shared_memory, needs.shared_memory + RESERVED),
            (profile.sm.registers, -(-registers // 8) * 8 * threads),
            (profile.sm.threads, threads),
        )
        if there is not None
    ]
    return max(1, min(limits, default=1))
