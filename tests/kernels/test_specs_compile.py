"""The naive and decoding kernels compile for Hopper without a GPU, with the tiles of their tables, and fit it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Triton compiles for a target it is told of; the driver it asks is replaced, and nothing is launched.
SCRIPT = """
import json
import torch, triton
from triton.backends.compiler import GPUTarget
from rooflinecli.kernels import KERNELS, naive, split_kv
from rooflinecli.workload import Workload

class Driver:
    def get_current_device(self): return 0
    def get_current_target(self): return GPUTarget("cuda", 90, 32)
    def get_current_stream(self, device=0): return 0
    def get_device_interface(self): return torch

triton.runtime.driver.set_active(Driver())
compiled = {}

class Compiles:
    def __init__(self, kernel): self.kernel = kernel
    def __getitem__(self, grid):
        def compile(*args, **options):
            made = self.kernel.warmup(*args, grid=grid, **options)
            compiled[f"{what} {self.kernel.__name__}"] = {"ptx": made.asm["ptx"], "shared": made.metadata.shared}
        return compile

for module in (naive, split_kv):
    module.capability_of = lambda tensor: (9, 0)
    for name in module.NAMES:
        setattr(module, name, Compiles(getattr(module, name)))
long = {"heads": 32, "kv_heads": 8, "n_q": 1, "n_kv": 1024, "d": 128, "dtype": "bf16"}
for what, name, options in (
    ("dense", "decode", long),
    ("dense e4m3", "decode", {**long, "kv_dtype": "fp8_e4m3"}),
    ("dense int8", "decode", {**long, "kv_dtype": "int8"}),
    ("paged", "paged_decode", long),
    ("paged e4m3", "paged_decode", {**long, "kv_dtype": "fp8_e4m3"}),
    ("latent", "mla_decode", {**long, "heads": 128, "kv_heads": 1, "d": 576, "d_v": 512}),
    ("latent e4m3", "mla_decode", {**long, "heads": 16, "kv_heads": 1, "d": 576, "d_v": 512, "kv_dtype": "fp8_e4m3"}),
    ("naive", "naive", {"heads": 2, "n_q": 256, "d": 128, "dtype": "fp16"}),
):
    w, spec = Workload(**options), KERNELS[name]
    spec.prepare(spec.make_inputs(w, "cpu", 0), w, spec.config(w, (9, 0)))()
print(json.dumps(compiled))
"""
MOST_SHARED = 227 * 1024  # bytes a program can have on compute capability 9.0


@pytest.fixture(scope="module")
def compiled() -> dict[str, dict[str, Any]]:
    """What came of each kernel, in a process in which Triton does not interpret."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.slow
def test_decoding_kernels_stream_their_cache(compiled: dict[str, dict[str, Any]]) -> None:
    attend = {name.removesuffix(" decode_attend"): made for name, made in compiled.items() if "attend" in name}
    assert len(attend) == 7
    for name, made in attend.items():
        # THEN a dense cache arrives by the copy engine and pages by asynchronous copies of 16 bytes
        copy = "cp.async.cg.shared.global" if "paged" in name else "cp.async.bulk.tensor"
        assert copy in made["ptx"], name
        # AND two programs share a multiprocessor, each with three steps of K and V of 32 KiB; one does with latents
        assert 2 * 32768 < made["shared"] <= MOST_SHARED // (1 if "latent" in name else 2), name
    # AND where 64 heads share a latent, products are those of warpgroups
    assert "wgmma.mma_async" in attend["latent"]["ptx"]
    # AND each lets the combining kernel begin, which waits for what it reads
    assert all("griddepcontrol.launch_dependents" in made["ptx"] for made in attend.values())
    assert all("griddepcontrol.wait" in made["ptx"] for name, made in compiled.items() if "combine" in name)


@pytest.mark.slow
def test_naive_kernels_multiply_by_warpgroups_and_move_vectors(compiled: dict[str, dict[str, Any]]) -> None:
    scores, softmax, output = (compiled[f"naive naive_{step}"] for step in ("scores", "softmax", "output"))
    for made in (scores, output):
        assert "wgmma.mma_async" in made["ptx"]
        assert "cp.async.bulk.tensor" in made["ptx"]
        assert made["shared"] <= MOST_SHARED
    assert "st.global.v4" in softmax["ptx"]
