"""Tiles and splits of the decoding kernels.

A decode is bound by memory: what counts is that every multiprocessor keeps loading until the end. The rows of a tile
are the queries of a group, a step's keys are about 32 KiB, and the keys are split so that the programs fill the
multiprocessors in whole rounds.
"""

from __future__ import annotations

from rooflinecli.kernels.flash_tiles import padded
from rooflinecli.kernels.spec import Capability, KernelConfig

from rooflinecli.workload import Workload

STEP_BYTES = 32768  # of K and V a program loads a step
MOST_SPLITS = 128  # the combining kernel holds a row's partial results at once
MOST_ROWS = 128  # queries of a group: beyond, `flash_forward` is the better kernel
MAX_HEAD_DIM = 256
SMS = 132  # of an H100 or H200, where there is no GPU to ask
EIGHT_BIT = ("fp8_e4m3", "fp8_e5m2", "int8")


def decode_config(workload: Workload, capability: Capability, *, latent: bool = False) -> KernelConfig:
    """Tiles, stages and splits for a cache of K and V, or of one latent both are read from."""
    w = workload
    if capability is None:
        return KernelConfig(br=16, bc=16, splits=min(3, -(-w.n_kv // 16)), pack_gqa=True)
    br = min(64, padded(w.n_q * w.group))
    hopper = capability >= (9, 0)
    columns = padded(w.d_v) + (padded(w.d - w.d_v) if latent else padded(w.d))
    if latent and columns > 256:  # the output alone fills half the registers: one program a multiprocessor
        warps, resident = 8, 1
        if w.storage.bytes_per_element == 4:
            br, bc, stages = 16, 16, 3 if hopper else 2
        elif br == 64:
            bc, stages = (64, 2 if w.kv_dtype == w.dtype else 3) if hopper else (16, 2)
        else:
            bc, stages = (64 if br == 16 else 32, 3) if hopper else (32, 2)
    else:
        resident = 2
        bc = max(16, min(128, 1 << (STEP_BYTES // (columns * int(w.kv.bytes_per_element))).bit_length() - 1))
        # Products in fp32 without tensor cores hold whole rows of their operands: twice the threads spill nothing.
        warps = 8 if w.dtype == "fp32" else 4
        # Warpgroup products (64 rows) keep a step's tiles one step longer than those of a warp.
        stages = 2 if not hopper else 3 if br == 64 or w.dtype == "fp32" else 4
    programs = w.batch * w.kv_heads * -(-w.n_q * w.group // br)
    splits = splits_for(programs, -(-w.n_kv // bc), resident * multiprocessors())
    return KernelConfig(br=br, bc=bc, warps=warps, stages=stages, splits=splits, pack_gqa=True)


def splits_for(programs: int, tiles: int, slots: int) -> int:
    """The fewest splits that keep the `slots` programs that run at once within 5% as busy as any number would."""

    def busy(splits: int) -> float:
        rounds = programs * splits / slots
        return rounds / -(-programs * splits // slots)

    able = range(1, min(MOST_SPLITS, tiles) + 1)
    best = max(map(busy, able))
    return next(splits for splits in able if busy(splits) >= 0.95 * best)


def multiprocessors() -> int:
    """Multiprocessors of the current GPU."""
    import torch

    return int(torch.cuda.get_device_properties(None).multi_processor_count) if torch.cuda.is_available() else SMS


def too_many_rows(workload: Workload) -> str | None:
    """Why a cache of K and V heads is no decode: wide heads, or queries that another kernel shares K and V among."""
    w = workload
    if max(w.d, w.d_v) > MAX_HEAD_DIM:
        return f"head dims over {MAX_HEAD_DIM} do not fit its tiles"
    if w.n_q * w.group > MOST_ROWS:
        return f"{w.n_q * w.group} queries a K/V head are more than {MOST_ROWS}: no decode"
    return None


def refuses(workload: Workload, capability: Capability) -> str | None:
    """Why no decoding kernel runs a workload, or None."""
    w = workload
    if w.dtype not in ("fp32", "tf32", "fp16", "bf16"):
        return f"its queries are fp32, tf32, fp16 or bf16, not {w.dtype}"
    if w.kv_dtype not in (w.dtype, *EIGHT_BIT):
        return f"the cache is in the queries' dtype or in {', '.join(EIGHT_BIT)}"
    if w.kv_dtype.startswith("fp8") and capability is not None and capability < (8, 9):
        return "8-bit floats need compute capability 8.9"
    return None
