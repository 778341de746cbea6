"""Time the bundled kernels beside torch's attention backends and FlexAttention: a table, and JSON.

    python benchmarks/kernels.py [--out OUT.json] [--rounds 20] [--only forward|backward|naive|decode]

Contenders take turns within each round, in one process, on the same inputs; a figure is the median over rounds.
TFLOP/s count visible pairs only: 4 d a pair and head forward, 10 d backward. Of naive attention and decoding, which
memory binds, the table shows GB/s over the fewest bytes they can move, S and P included: more than any L2 holds.
Nothing touches the card's clocks.
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
Cases = Callable[[], Iterator[Workload]]
Peers = Callable[[Workload, dict[str, Any]], Iterator[tuple[str, Run]]]


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


def naive_cases() -> Iterator[Workload]:
    """S and P of 1 GiB, far beyond any L2; the last of 4 GiB."""
    for d in (64, 128):
        for dtype in ("fp16", "bf16"):
            yield Workload(heads=32, n_q=4096, d=d, dtype=dtype)
    yield Workload(heads=32, n_q=4096, d=128, dtype="fp16", causal=True)
    yield Workload(heads=8, n_q=16384, d=128, dtype="fp16")


def dense_cases() -> Iterator[Workload]:
    """The two shapes that the targets of decoding name, in 16 bits and with 8-bit caches."""
    for batch, n_kv in ((16, 8192), (1, 65536)):
        for dtype, cache in (("fp16", "fp16"), ("bf16", "bf16"), ("bf16", "fp8_e4m3"), ("bf16", "int8")):
            yield Workload(batch=batch, heads=32, kv_heads=8, n_q=1, n_kv=n_kv, d=128, dtype=dtype, kv_dtype=cache)


def paged_cases() -> Iterator[Workload]:
    """The same shapes in pages."""
    for w in dense_cases():
        if w.kv_dtype in ("bf16", "fp8_e4m3"):
            yield w


def latent_cases() -> Iterator[Workload]:
    """DeepSeek's latent: all 128 heads, and the 16 that one of eight GPUs has under tensor parallelism."""
    for heads in (128, 16):
        yield Workload(batch=64, heads=heads, kv_heads=1, n_q=1, n_kv=8192, d=576, d_v=512, dtype="bf16")


def forward_peers(w: Workload, inputs: dict[str, Any]) -> Iterator[tuple[str, Run]]:
    """Torch's backends and FlexAttention, on inputs they take."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if w.dtype not in ("fp16", "bf16") or w.kv_dtype != w.dtype:
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


def naive_peers(w: Workload, inputs: dict[str, Any]) -> Iterator[tuple[str, Run]]:
    """Torch's three kernels: matmul, softmax, matmul, the scale in Q; a mask costs it a fourth."""
    import torch

    q, k, v = inputs["q"] / w.d**0.5, inputs["k"], inputs["v"]
    hidden = torch.ones(w.n_q, w.n_kv, dtype=torch.bool, device="cuda").triu(w.n_kv - w.n_q + 1) if w.causal else None

    def run() -> object:
        s = q @ k.mT
        return (s if hidden is None else s.masked_fill_(hidden, float("-inf"))).softmax(-1) @ v

    yield "three", run


def no_peers(_w: Workload, _inputs: dict[str, Any]) -> Iterator[tuple[str, Run]]:
    """For kernels that torch has no counterpart of."""
    return iter(())


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


# What runs with --only: kernel, its cases, its peers.
GROUPS: dict[str, tuple[tuple[str, Cases, Peers], ...]] = {
    "forward": (("flash_forward", forward_cases, forward_peers),),
    "backward": (("flash_backward", backward_cases, backward_peers),),
    "naive": (("naive", naive_cases, naive_peers),),
    "decode": (
        ("decode", dense_cases, forward_peers),
        ("paged_decode", paged_cases, no_peers),
        ("mla_decode", latent_cases, no_peers),
    ),
}
COLUMNS = ("bundled", "fa2", "cudnn", "flex", "three")


def measure(name: str, w: Workload, peers: Peers, rounds: int) -> dict[str, Any]:
    """One row: the bundled kernel and its peers on one workload."""
    import torch

    spec = KERNELS[name]
    config = spec.config(w, torch.cuda.get_device_capability())
    inputs = spec.make_inputs(w, "cuda", 0)
    runs: dict[str, Run] = {"bundled": spec.prepare(inputs, w, config)}
    failed = {}
    try:
        for peer, run in peers(w, inputs):
            try:
                run()
                runs[peer] = run
            except Exception as error:  # a backend that refuses a workload is no reason not to time the others
                failed[peer] = str(error).splitlines()[0][:100]
    except Exception as error:
        failed["peers"] = str(error).splitlines()[0][:100]
    cost = ALGORITHMS[spec.algorithm].cost(w, config.tile)
    # Naive attention must move S and P too: its ledger is the floor of the three kernels.
    moved = cost.traffic("sm" if spec.algorithm == "naive" else "compulsory").total
    times = medians(runs, rounds)
    return {"kernel": name, "workload": w.echo(), "variant": config.variant, "tile": [config.br, config.bc],
            "splits": config.splits, "ms": times, "failed": failed,
            "tflops": {who: cost.flops.useful / ms / 1e9 for who, ms in times.items()},
            "gbytes_per_s": {who: moved / ms / 1e6 for who, ms in times.items()}}  # fmt: skip


def main() -> None:
    """Parse, measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", choices=tuple(GROUPS))
    options = parser.parse_args()
    import torch
    from flash_readings import about

    rows = []
    print(f"{'kernel':15} {'workload':52} {'schedule':15}" + "".join(f"{x:>9}" for x in COLUMNS))
    for group in [options.only] if options.only else GROUPS:
        unit = "gbytes_per_s" if group in ("naive", "decode") else "tflops"
        for name, cases, peers in GROUPS[group]:
            for w in cases():
                row = measure(name, w, peers, options.rounds)
                rows.append(row)
                torch.cuda.empty_cache()
                figures = "".join(f"{row[unit].get(x, float('nan')):9.1f}" for x in COLUMNS)
                schedule = f"{row['variant']:7}{row['tile'][0]:>3}x{row['tile'][1]:<4}"
                print(f"{name:15} {label(w):52} {schedule}{figures}", unit, row["failed"] or "", flush=True)
    if options.out:
        temporary = options.out.with_suffix(".part")
        temporary.write_text(json.dumps({"gpu": about(), "rounds": options.rounds, "rows": rows}, indent=1) + "\n")
        temporary.rename(options.out)


def label(w: Workload) -> str:
    """A workload in a few words."""
    length = f"N{w.n_q}" if w.n_q == w.n_kv else f"N{w.n_q}x{w.n_kv}"
    cache = "" if w.kv_dtype == w.dtype else f" {w.kv_dtype} cache"
    mask = " causal" if w.causal else ""
    return f"B{w.batch} H{w.heads}/{w.kv_heads} {length} d{w.d} {w.dtype}{cache}{mask}"


if __name__ == "__main__":
    main()
