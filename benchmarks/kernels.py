"""Time the flash kernels beside torch's attention backends and FlexAttention: a table, and JSON.

    python benchmarks/kernels.py [--out OUT.json] [--rounds 20] [--only forward|backward]

Contenders take turns within each round, in one process, on the same inputs; a figure is the median over rounds.
TFLOP/s count visible pairs only: 4 d a pair and head forward, 10 d backward. Nothing touches the card's clocks.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from rooflinecli.kernels import KERNELS

from rooflinecli.accounting import ALGORITHMS
from rooflinecli.workload import Workload

Run = Callable[[], object]


def forward_cases() -> Iterator[Workload]:
    """The sizes the speed targets name, then 8-bit inputs, a wide head and grouped heads."""
    for n in (4096, 16384):
        for d in (64, 128):
            heads, batch = ((16, 4) if d == 64 else (32, 1)) if n == 4096 else (32 if d == 64 else 16, 1)
            for causal in (False, True):
                for dtype in ("fp16", "bf16"):
                    yield Workload(batch=batch, heads=heads, n_q=n, d=d, dtype=dtype, causal=causal)
    for causal in (False, True):
        yield Workload(heads=16, n_q=16384, d=128, dtype="fp8_e4m3", causal=causal)
        yield Workload(heads=16, n_q=4096, d=256, dtype="fp16", causal=causal)
        yield Workload(heads=32, kv_heads=8, n_q=8192, d=128, dtype="bf16", causal=causal)


def backward_cases() -> Iterator[Workload]:
    """N = 4096 with and without a causal mask, both head dims; grouped heads."""
    for d in (64, 128):
        for causal in (False, True):
            yield Workload(
                batch=4 if d == 64 else 1, heads=16 if d == 64 else 32, n_q=4096, d=d, dtype="fp16", causal=causal
            )
    yield Workload(heads=32, kv_heads=8, n_q=4096, d=128, dtype="bf16", causal=True)


def forward_peers(w: Workload, inputs: dict[str, Any]) -> Iterator[tuple[str, Run]]:
    """Torch's backends and FlexAttention, on inputs they take."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if w.dtype not in ("fp16", "bf16"):
        return
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    sdpa = torch.nn.functional.scaled_dot_product_attention

    def backend(which: Any) -> Run:
        def run() -> None:
            with sdpa_kernel(which):
                sdpa(q, k, v, is_causal=w.causal, enable_gqa=w.group > 1)

        return run

    yield "fa2", backend(SDPBackend.FLASH_ATTENTION)
    yield "cudnn", backend(SDPBackend.CUDNN_ATTENTION)
    if w.dtype != "fp16" or w.group > 1:  # each case costs FlexAttention a compilation: fp16 stands for both
        return
    from torch.nn.attention.flex_attention import create_block_mask

    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, w.n_q, w.n_kv, "cuda") if w.causal else None
    flex = compiled_flex()
    yield "flex", lambda: flex(q, k, v, block_mask=mask)


def compiled_flex() -> Any:
    """FlexAttention through torch.compile, as it is meant to be used."""
    import torch
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=False)


def backward_peers(w: Workload, inputs: dict[str, Any]) -> Iterator[tuple[str, Run]]:
    """The backward passes of torch's backends."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    for name, which in (("fa2", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
        leaves = [inputs[x].detach().clone().requires_grad_() for x in "qkv"]
        with sdpa_kernel(which):
            o = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=w.causal, enable_gqa=w.group > 1)
        yield name, partial(torch.autograd.grad, o, leaves, inputs["do"], retain_graph=True)


def medians(runs: dict[str, Run], rounds: int) -> dict[str, float]:
    """Milliseconds of each, taking turns."""
    import torch

    for run in runs.values():
        for _ in range(3):
            run()
    marks: dict[str, list[Any]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            run()
            end.record()
            marks[name].append((start, end))
    torch.cuda.synchronize()
    return {name: statistics.median(a.elapsed_time(b) for a, b in pairs) for name, pairs in marks.items()}


def measure(name: str, w: Workload, rounds: int) -> dict[str, Any]:
    """One row: the bundled kernel and its peers on one workload."""
    import torch

    spec = KERNELS[name]
    config = spec.config(w, torch.cuda.get_device_capability())
    inputs = spec.make_inputs(w, "cuda", 0)
    runs: dict[str, Run] = {"bundled": spec.prepare(inputs, w, config)}
    failed = {}
    try:
        for peer, run in (forward_peers if name == "flash_forward" else backward_peers)(w, inputs):
            try:
                run()
                runs[peer] = run
            except Exception as error:  # a backend that refuses a workload is no reason not to time the others
                failed[peer] = str(error).splitlines()[0][:100]
    except Exception as error:
        failed["peers"] = str(error).splitlines()[0][:100]
    flops = ALGORITHMS[spec.algorithm].cost(w, config.tile).flops.useful
    times = medians(runs, rounds)
    tflops = {who: flops / ms / 1e9 for who, ms in times.items()}
    return {"kernel": name, "workload": w.echo(), "variant": config.variant, "tile": [config.br, config.bc],
            "ms": times, "tflops": tflops, "failed": failed}  # fmt: skip


def main() -> None:
    """Parse, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", choices=("forward", "backward"))
    options = parser.parse_args()
    from flash_readings import about

    plan = [("flash_forward", w) for w in forward_cases() if options.only != "backward"]
    plan += [("flash_backward", w) for w in backward_cases() if options.only != "forward"]
    print(
        f"{'kernel':15} {'workload':44} {'schedule':15}"
        + "".join(f"{x:>9}" for x in ("bundled", "fa2", "cudnn", "flex"))
        + "  TFLOP/s"
    )
    rows = []
    for name, w in plan:
        row = measure(name, w, options.rounds)
        rows.append(row)
        what = f"B{w.batch} H{w.heads}/{w.kv_heads} N{w.n_q} d{w.d} {w.dtype}{' causal' if w.causal else ''}"
        figures = "".join(f"{row['tflops'].get(x, float('nan')):9.1f}" for x in ("bundled", "fa2", "cudnn", "flex"))
        print(
            f"{name:15} {what:44} {row['variant']:7}{row['tile'][0]:>3}x{row['tile'][1]:<4}{figures}",
            row["failed"] or "",
            flush=True,
        )
    if options.out:
        temporary = options.out.with_suffix(".part")
        temporary.write_text(json.dumps({"gpu": about(), "rounds": options.rounds, "rows": rows}, indent=1) + "\n")
        temporary.rename(options.out)


if __name__ == "__main__":
    main()
