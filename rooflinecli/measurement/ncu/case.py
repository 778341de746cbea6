"""The program that runs under Nsight Compute: each case is compiled and warmed up first, then launched once, marked.

Called as `python -m rooflinecli.measurement.ncu.case PLAN MANIFEST`: the plan is JSON with cases of (kernel,
workload); the manifest says, for each case, the configuration and the names of the device
kernels, or why it did not run.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rooflinecli.kernels import KERNELS
from rooflinecli.workload import Workload


def main(plan: str, manifest: str) -> None:
    """Run the plan; the manifest is written even when a case fails."""
    import torch

    told: list[dict[str, Any]] = []
    for case in json.loads(Path(plan).read_text()):
        try:
            told.append(_run(torch, case["kernel"], Workload(**case["workload"])))
        except Exception as error:  # the profiler shows nothing of it, and the other cases can still run
            told.append({"error": f"{type(error).__name__}: {error}"})
        torch.cuda.empty_cache()
    Path(manifest).write_text(json.dumps(told))


def _run(torch: Any, kernel: str, workload: Workload) -> dict[str, Any]:
    spec = KERNELS[kernel]
    capability = torch.cuda.get_device_capability()
    reason = spec.supports(workload, capability)
    if reason is not None:
        return {"error": reason}
    config = spec.config(workload, capability)
    launch = spec.prepare(spec.make_inputs(workload, "cuda", 0), workload, config)
    launch()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    launch()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()
    return {"config": asdict(config), "kernels": list(launch.kernels)}


if __name__ == "__main__":
    main(*sys.argv[1:])
