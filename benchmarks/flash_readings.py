"""Take hardware counters of the flash kernels with Nsight Compute, beside the ledgers they should equal.

Run on a machine with an NVIDIA GPU, PyTorch, Triton and `ncu`, from the top of the repository:

    python benchmarks/flash_readings.py take OUT.json     # runs ncu on itself and writes the readings
    python benchmarks/flash_readings.py run               # what ncu runs: each case once, in order

`tests/data/kernel_readings_flash.json` is what it wrote on an H200; a test holds the ledgers to it.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from rooflinecli.kernels import KERNELS, KernelConfig

from rooflinecli.workload import Workload

METRICS = {
    "l1tex__m_xbar2l1tex_read_bytes.sum": "sm_read_bytes",
    "l1tex__m_l1tex2xbar_write_bytes.sum": "sm_write_bytes",
    "dram__bytes_read.sum": "dram_read_bytes",
    "dram__bytes_write.sum": "dram_write_bytes",
    "sm__ops_path_tensor_op_hgmma_src_fp16.sum": "hgmma_flops_fp16",
    "sm__inst_executed_pipe_xu.sum": "xu_warp_inst",
    "gpu__time_duration.sum": "duration_ns",
    "launch__grid_size": "blocks",
    "launch__block_size": "threads_per_block",
    "launch__registers_per_thread": "registers_per_thread",
    "launch__shared_mem_per_block": "shared_mem_per_block",
    "launch__occupancy_limit_registers": "limit_registers",
    "launch__occupancy_limit_shared_mem": "limit_shared_mem",
}
PORTABLE = KernelConfig(br=64, bc=64, warps=4, stages=3)


def cases() -> Iterator[tuple[str, Workload, KernelConfig | None]]:
    """Kernel, workload, and a configuration where the tile table's is not the one wanted."""
    forward = "flash_forward"
    for d in (64, 128, 256):
        for causal in (False, True):
            yield forward, Workload(heads=8, n_q=4096, d=d, dtype="fp16", causal=causal), None
    yield forward, Workload(heads=8, kv_heads=2, n_q=4096, d=128, dtype="bf16", causal=True), None
    yield forward, Workload(heads=4, n_q=8192, d=128, dtype="fp16", causal=True, window=1000), None
    yield forward, Workload(batch=2, heads=4, n_q=1000, n_kv=3000, d=128, dtype="fp16", causal=True), None
    yield forward, Workload(heads=4, n_q=3000, n_kv=1999, d=64, d_v=128, dtype="fp16"), None
    yield forward, Workload(heads=4, n_q=2048, d=96, dtype="fp16", window=300), None
    yield forward, Workload(heads=8, n_q=4096, d=128, dtype="fp8_e4m3"), None
    yield forward, Workload(heads=8, n_q=4096, d=64, dtype="fp8_e5m2", causal=True), None
    yield forward, Workload(heads=8, n_q=4096, d=128, dtype="fp16"), PORTABLE
    yield forward, Workload(heads=8, n_q=4096, d=128, dtype="fp16", causal=True), PORTABLE
    yield forward, Workload(heads=2, n_q=2048, d=64, dtype="fp32"), None
    yield forward, Workload(heads=2, n_q=2048, d=128, dtype="fp32", causal=True), None
    yield forward, Workload(heads=2, n_q=2048, d=64, dtype="tf32", causal=True), None
    yield forward, Workload(heads=2, n_q=1000, n_kv=1500, d=40, dtype="fp32", causal=True), None
    yield forward, Workload(batch=2, heads=32, kv_heads=4, n_q=16, n_kv=8192, d=128, dtype="fp16", causal=True), None
    backward = "flash_backward"
    for d in (64, 128):
        for causal in (False, True):
            yield backward, Workload(heads=8, n_q=4096, d=d, dtype="fp16", causal=causal), None
    yield backward, Workload(heads=8, kv_heads=2, n_q=2048, d=128, dtype="bf16", causal=True), None
    yield backward, Workload(heads=4, n_q=2048, n_kv=3072, d=64, dtype="fp16", causal=True, window=700), None
    yield backward, Workload(heads=4, n_q=2000, n_kv=3000, d=64, dtype="fp16", causal=True), None


def run() -> None:
    """Launch each case once between the profiler's marks."""
    import torch

    capability = torch.cuda.get_device_capability()
    for name, workload, config in cases():
        spec = KERNELS[name]
        chosen = config or spec.config(workload, capability)
        launch = spec.prepare(spec.make_inputs(workload, "cuda", 0), workload, chosen)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        launch()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()
        line = {
            "kernels": launch.kernels,
            "algorithm": spec.algorithm,
            "workload": workload.echo(),
            "config": asdict(chosen),
        }
        print("CASE", json.dumps(line), flush=True)


def take(out: Path) -> None:
    """Run ncu on `run`, join its table with the cases, and write both."""
    log = out.with_suffix(".csv")
    command = ["ncu", "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none",
               "-k", "regex:flash_",
               "--profile-from-start", "off", "--metrics", ",".join(METRICS), "--log-file", str(log),
               sys.executable, __file__, "run"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [json.loads(line[5:]) for line in done.stdout.splitlines() if line.startswith("CASE ")]
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-2000:], sep="\n")
    table = log.read_text()
    rows = list(csv.DictReader(io.StringIO(table[table.index('"ID"') :])))[1:]
    readings = []
    for line in lines:
        for kernel in line.pop("kernels"):
            row = rows.pop(0)
            assert row["Kernel Name"].startswith(kernel), (row["Kernel Name"], kernel)
            counted = {
                name: int(float(row[metric].replace(",", ""))) for metric, name in METRICS.items() if row.get(metric)
            }
            readings.append({"source": "bundled", **line, "kernel": kernel, "counters": counted})
    temporary = out.with_suffix(".part")
    temporary.write_text(json.dumps({"gpu": about(), "readings": readings}, indent=1) + "\n")
    temporary.rename(out)
    log.unlink()
    print(f"{len(readings)} readings of {len(lines)} cases in {out}")


def about() -> dict[str, Any]:
    """Card, driver and versions."""
    import torch
    import triton

    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    card = torch.cuda.get_device_properties(0)
    return {
        "name": card.name, "sms": card.multi_processor_count, "l2_bytes": card.L2_cache_size,
        "driver": subprocess.run(query, capture_output=True, text=True, check=True).stdout.split("\n")[0].strip(),
        "torch": torch.__version__, "triton": triton.__version__,
        "clock_control": "none", "ncu_cache_control": "flush before every kernel",
    }  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        run()
    elif sys.argv[1:2] == ["take"] and len(sys.argv) == 3:
        take(Path(sys.argv[2]).resolve())
    else:
        sys.exit(__doc__)
