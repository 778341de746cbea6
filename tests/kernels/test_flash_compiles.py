"""The schedules for Hopper compile for it without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Triton compiles for a target it is told of; the driver it asks is replaced, and nothing is launched.
SCRIPT = """
import json, sys
import torch, triton
from triton.backends.compiler import GPUTarget
from rooflinecli.kernels import flash_gluon as forward, flash_gluon_backward as backward
from rooflinecli.kernels.flash_backward import Gradients
from rooflinecli.kernels.flash_call import Call
from rooflinecli.kernels.spec import KernelConfig

class Driver:
    def get_current_device(self): return 0
    def get_current_target(self): return GPUTarget("cuda", 90, 32)
    def get_current_stream(self, device=0): return 0
    def get_device_interface(self): return torch

triton.runtime.driver.set_active(Driver())
compiled = {}

class Compiles:
    def __init__(self, kernel): self.kernel = kernel
    def __getitem__(self, grid): return lambda *a, **k: compiled.update({what: self.kernel.warmup(*a, grid=grid, **k)})

forward.processors = lambda index: 132
forward.flash_forward_hopper = Compiles(forward.flash_forward_hopper)
backward.flash_backward_main_hopper = Compiles(backward.flash_backward_main_hopper)
x = {d: torch.empty(1, 2, 1024, d, dtype=torch.float16) for d in (64, 128)}
eight = torch.empty(1, 2, 1024, 128).to(torch.float8_e4m3fn)
for what, tensors, causal, (br, stages) in (
    ("forward d=128", (x[128], x[128], x[128]), True, (128, 2)),
    ("forward d=64", (x[64], x[64], x[64]), False, (192, 2)),
    ("forward 8-bit", (eight, eight, eight.reshape(1, 2, 128, 1024).mT), False, (128, 4)),
):
    call = Call(*tensors, torch.empty_like(tensors[0]), None, causal, None, 0.1, 1.0, False)
    forward.launcher(call, KernelConfig(br=br, bc=128, stages=stages, variant="gluon"))()
what = "backward d=128"
held = Gradients.of(x[128], x[128], x[128], x[128], torch.empty(1, 2, 1024), x[128])
backward.main_launcher(held, False, None, 0.1, 0.1, 2)()
print(json.dumps({name: kernel.asm["ptx"] for name, kernel in compiled.items()}))
"""


@pytest.mark.slow
def test_hopper_schedules_compile_without_a_gpu() -> None:
    # GIVEN a process in which Triton does not interpret
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    # WHEN the kernels are compiled for compute capability 9.0
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    compiled = json.loads(done.stdout.splitlines()[-1])
    # THEN they hold what they are written for: warpgroup products, the copy engine, registers given from warp to warp
    assert compiled.keys() == {"forward d=128", "forward d=64", "forward 8-bit", "backward d=128"}
    for name, ptx in compiled.items():
        product = "e4m3" if name == "forward 8-bit" else "f16"
        assert f"f32.{product}.{product}" in ptx, name
        assert "wgmma.mma_async" in ptx, name
        assert "cp.async.bulk.tensor" in ptx, name
        assert "setmaxnreg" in ptx, name
    assert "cp.reduce.async.bulk.tensor" in compiled["backward d=128"]
