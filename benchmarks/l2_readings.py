"""Take DRAM and SM-boundary counter readings of attention kernels and of plain streams, with Nsight Compute.

Run on a machine with an NVIDIA GPU, PyTorch, Triton and `ncu`; each mode prints its cases in launch order:

    python benchmarks/l2_readings.py take OUT.json     # runs ncu on itself for both modes and joins the tables
    python benchmarks/l2_readings.py cold | warm       # what ncu runs: one labelled case after the other

`cold` launches are measured with every cache flushed before each kernel. `warm` launches come in sequences that
find what the kernel before left in L2; a plain read of a large buffer stands between sequences.
"""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SECONDS = float(os.environ.get("SECONDS_AT_MOST", "75"))
METRICS = {
    "dram__bytes_read.sum": "dram_read_bytes",
    "dram__bytes_write.sum": "dram_write_bytes",
    "l1tex__m_xbar2l1tex_read_bytes.sum": "sm_read_bytes",
    "l1tex__m_l1tex2xbar_write_bytes.sum": "sm_write_bytes",
    "gpu__time_duration.sum": "duration_ns",
    "launch__grid_size": "blocks",
    "launch__block_size": "threads_per_block",
    "launch__registers_per_thread": "registers_per_thread",
    "launch__shared_mem_per_block": "shared_mem_per_block",
    "launch__occupancy_limit_registers": "limit_registers",
    "launch__occupancy_limit_shared_mem": "limit_shared_mem",
    "launch__occupancy_limit_warps": "limit_warps",
    "launch__occupancy_limit_blocks": "limit_blocks",
}
# A second pass would save and restore memory through the cache, so warm launches get what one pass counts.
WARM_METRICS = [name for name in METRICS if name.startswith(("dram", "launch", "gpu"))]

Case = tuple[dict[str, Any], Callable[[], object]]


def flash_cases() -> Iterator[Case]:
    """The plain Triton kernel at, around and beyond the point where K and V stop fitting."""
    # (B, Hq, Hk, Nq, Nk, d, dtype, causal, window, br, bc, warps)
    big, small = (128, 64, 8), (64, 64, 4)
    for shape in (
        *((1, 1, 1, n, n, 128, "fp16", False, 0, *big) for n in (40960, 57344)),
        *((1, 1, 1, n, n, 64, "fp16", False, 0, *big) for n in (98304, 131072, 262144)),
        *((1, 1, 1, n, n, 128, "fp16", True, 0, *big) for n in (65536, 98304, 131072, 196608)),
        (1, 4, 4, 65536, 65536, 64, "fp16", False, 0, *big),
        (1, 4, 4, 65536, 65536, 64, "fp16", False, 0, *small),
        (1, 1, 1, 131072, 131072, 64, "fp16", False, 0, *small),
        (1, 8, 1, 65536, 65536, 128, "fp16", False, 0, *big),
        (1, 8, 2, 65536, 65536, 128, "fp16", True, 0, *big),
        (1, 1, 1, 49152, 49152, 128, "fp16", True, 0, *big),
        (1, 1, 1, 131072, 131072, 128, "fp16", True, 0, *small),
        (1, 1, 1, 65536, 65536, 128, "fp16", True, 0, *small),
        (1, 2, 2, 98304, 98304, 128, "fp16", True, 0, *big),
        (1, 2, 2, 65536, 65536, 128, "fp16", False, 0, *big),
        (1, 32, 8, 16384, 16384, 128, "fp16", True, 0, *big),
        (1, 1, 1, 131072, 131072, 128, "fp16", True, 32768, *big),
        (1, 4, 4, 131072, 131072, 128, "fp16", True, 8192, *big),
        (1, 4, 1, 8192, 131072, 128, "fp16", True, 0, *big),
        (1, 4, 4, 8192, 131072, 128, "fp16", False, 0, *big),
        (1, 1, 1, 65536, 65536, 64, "fp32", False, 0, *small),
        (2, 2, 2, 131072, 131072, 64, "fp16", True, 0, *big),
        (1, 1, 1, 65536, 65536, 64, "fp16", False, 0, *big),
        *((1, 1, 1, n, n, 128, "fp16", False, 0, *big) for n in (45056, 53248)),
        (1, 3, 3, 40960, 40960, 128, "fp16", False, 0, *small),
        (1, 1, 1, 262144, 262144, 128, "fp16", True, 0, *big),
    ):
        yield _flash(shape)


def _flash(shape: tuple[Any, ...]) -> Case:
    b, hq, hk, nq, nk, d, dtype, causal, window, br, bc, warps = shape
    label = {
        "source": "plain Triton FA2-style kernel (Q outer)", "algorithm": "flash2",
        "workload": _workload(b, hq, hk, nq, nk, d, dtype, causal, window),
        "tile": {"br": br, "bc": bc, "warps": warps},
    }  # fmt: skip

    def launch() -> None:
        q, k, v = (_random(b, h, n, d, dtype) for h, n in ((hq, nq), (hk, nk), (hk, nk)))
        import torch
        from l2_kernels import flash_forward

        out = torch.empty_like(q)
        _profiled(lambda: flash_forward(q, k, v, out, causal=causal, window=window, br=br, bc=bc, warps=warps))

    return label, launch


def library_cases() -> Iterator[Case]:
    """PyTorch's attention backends where K and V no longer fit, forward and backward."""
    for backend, h, n, causal, backward in (
        ("flash", 2, 65536, False, False), ("cudnn", 2, 65536, False, False),
        ("flash", 2, 65536, True, False), ("cudnn", 2, 65536, True, False),
        ("flash", 1, 65536, False, True), ("cudnn", 1, 65536, False, True), ("flash", 4, 16384, False, True),
        ("flash", 1, 65536, True, True), ("cudnn", 1, 65536, True, True), ("efficient", 2, 65536, False, False),
    ):  # fmt: skip
        label = {
            "source": f"torch SDPA {backend} backend", "algorithm": "flash2-backward" if backward else "flash2",
            "workload": _workload(1, h, h, n, n, 128, "fp16", causal, 0),
        }  # fmt: skip
        yield label, lambda a=(backend, h, n, causal, backward): _library(*a)  # type: ignore[misc]


def _library(backend: str, h: int, n: int, causal: bool, backward: bool) -> None:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    which = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
             "efficient": SDPBackend.EFFICIENT_ATTENTION}[backend]  # fmt: skip
    q, k, v = (_random(1, h, n, 128, "fp16").requires_grad_(backward) for _ in range(3))
    with sdpa_kernel(which):
        if not backward:
            _profiled(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal))
            return
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        grad = torch.randn_like(out)
        _profiled(lambda: out.backward(grad))


def stream_cases() -> Iterator[Case]:
    """Two plain kernels over one buffer: what the second finds of what the first left, by size and order."""
    for first, second in (
        ("write", "read"),
        ("write", "read_reverse"),
        ("read", "read"),
        ("read", "read_reverse"),
        ("share", "share"),
    ):
        for mib in (16, 20, 24, 28, 32, 40, 48, 56, 64, 96):
            yield (
                {"source": "plain stream", "pair": [first, second], "buffer_bytes": mib << 20},
                lambda a=(first, second, mib): _stream(*a),
            )  # type: ignore[misc]


def _stream(first: str, second: str, mib: int) -> None:
    import torch
    from l2_kernels import stream

    buffer = torch.randn(mib << 18, device="cuda")
    sink = torch.zeros(1 << 20, device="cuda")
    _evict()
    _profiled(lambda: stream(buffer, sink, first))
    _profiled(lambda: stream(buffer, sink, second))


def chain_cases() -> Iterator[Case]:
    """Eager attention, kernel by kernel, each finding what the one before left."""
    for h, n, d in (
        (8, 1024, 64),
        (12, 1024, 128),
        (16, 1024, 128),
        (4, 2048, 128),
        (6, 2048, 128),
        (1, 4096, 128),
        (2, 4096, 128),
        (3, 4096, 128),
        (1, 8192, 128),
        (8, 2048, 128),
        (1, 5120, 128),
    ):
        yield (
            {
                "source": "torch eager, three kernels",
                "algorithm": "naive",
                "workload": _workload(1, h, h, n, n, d, "fp16", False, 0),
            },
            lambda a=(h, n, d): _chain(*a),
        )  # type: ignore[misc]
    for b, h, hk, n in ((1, 32, 8, 65536), (4, 32, 8, 4096)):
        yield (
            {
                "source": "torch SDPA flash backend",
                "algorithm": "decode",
                "workload": _workload(b, h, hk, 1, n, 128, "fp16", False, 0),
            },
            lambda a=(b, h, hk, n): _decode(*a),
        )  # type: ignore[misc]


def _chain(h: int, n: int, d: int) -> None:
    import torch

    q, k, v = (_random(1, h, n, d, "fp16") for _ in range(3))

    def eager() -> object:
        scores = q @ k.transpose(-1, -2)
        weights = torch.softmax(scores, dim=-1)
        return weights @ v

    eager()
    _evict()
    _profiled(eager)


def _decode(b: int, h: int, hk: int, n: int) -> None:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = _random(b, h, 1, 128, "fp16"), _random(b, hk, n, 128, "fp16"), _random(b, hk, n, 128, "fp16")
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        _evict()
        _profiled(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True))


def _workload(
    b: int, hq: int, hk: int, nq: int, nk: int, d: int, dtype: str, causal: bool, window: int
) -> dict[str, Any]:
    return {"batch": b, "heads": hq, "kv_heads": hk, "n_q": nq, "n_kv": nk, "d": d, "dtype": dtype,
            "causal": causal, "window": window}  # fmt: skip


def _random(b: int, h: int, n: int, d: int, dtype: str) -> Any:
    import torch

    return torch.randn(b, h, n, d, device="cuda", dtype=torch.float16 if dtype == "fp16" else torch.float32)


def _evict() -> None:
    """Fill the cache with clean lines of a buffer nobody else uses."""
    import torch

    global _LARGE
    if _LARGE is None:
        _LARGE = torch.zeros(1 << 28, device="cuda")
    _LARGE.sum()
    torch.cuda.synchronize()


_LARGE: Any = None


def _profiled(launch: Callable[[], object]) -> None:
    import torch

    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    launch()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


def run(mode: str) -> None:
    """Launch every case of `mode`, until the time is up; say on stdout which case each launch belongs to."""
    import torch

    started = time.monotonic()
    groups = (flash_cases, library_cases) if mode == "cold" else (chain_cases, stream_cases)
    _evict()
    for group in groups:
        for label, launch in group():
            if time.monotonic() - started > SECONDS:
                print("#TIME IS UP", flush=True)
                return
            print("#CASE " + json.dumps(label), flush=True)
            try:
                launch()
            except Exception as error:
                print("#FAILED " + repr(error)[:200], flush=True)
            torch.cuda.empty_cache()


def take(target: Path) -> None:
    """Run both modes under Nsight Compute and write one JSON of labelled readings."""
    readings: list[dict[str, Any]] = []
    for mode, cache, metrics in (("warm", "none", WARM_METRICS), ("cold", "all", list(METRICS))):
        report = target.with_suffix(f".{mode}")
        command = ["ncu", "--profile-from-start", "off", "--clock-control", "none", "--cache-control", cache,
                   "--replay-mode", "kernel", "--metrics", ",".join(metrics), "-f", "-o", str(report),
                   sys.executable, __file__, mode]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        print(mode, done.returncode, done.stdout[-600:], done.stderr[-600:], flush=True)
        table = subprocess.run(["ncu", "-i", f"{report}.ncu-rep", "--csv", "--page", "raw", "--print-units", "base"],
                               capture_output=True, text=True, check=False).stdout  # fmt: skip
        readings += _join(mode, done.stdout, table)
        _write(target, readings)


def _join(mode: str, said: str, table: str) -> list[dict[str, Any]]:
    """Lay the profiler's rows beside the cases: it says `==PROF== Profiling` on stdout as each launch passes."""
    owners: list[dict[str, Any]] = []
    current: dict[str, Any] = {}
    for line in said.splitlines():
        if line.startswith("#CASE "):
            current = json.loads(line[6:])
        elif line.startswith("==PROF== Profiling"):
            owners.append(current)
    rows = list(csv.DictReader(io.StringIO(table)))[1:]  # the first row under the names holds units
    out = []
    for index, row in enumerate(rows):
        label = owners[index] if index < len(owners) else {"source": "unknown"}
        values = {METRICS[name]: float(row[name].replace(",", "")) for name in METRICS if row.get(name)}
        out.append({**label, "cache": "flushed" if mode == "cold" else "as the kernel before left it",
                    "kernel": row["Kernel Name"], "counters": values})  # fmt: skip
    print(mode, "rows", len(rows), "launches seen", len(owners), flush=True)
    return out


def _write(target: Path, readings: list[dict[str, Any]]) -> None:
    import torch
    import triton

    gpu = {"name": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__}
    half = target.with_suffix(".part")
    half.write_text(json.dumps({"gpu": gpu, "readings": readings}, indent=1))
    half.rename(target)


if __name__ == "__main__":
    if sys.argv[1] == "take":
        take(Path(sys.argv[2]))
    else:
        run(sys.argv[1])
