"""What a picture is of, in one line: whatever all its kernels share."""

from __future__ import annotations

from collections.abc import Sequence

from rooflinecli.report.plot.kernels import Kernel
from rooflinecli.sweep import count_label


def title(kernels: Sequence[Kernel], *, excluded: Sequence[str] = ()) -> str:
    """`Attention, N=2048, d=64, fp32`: the workload fields that all kernels agree on, defaults left out."""
    if not kernels:
        return "Roofline"
    shared = {
        name: value
        for name, value in kernels[0].workload.items()
        if all(kernel.workload.get(name) == value for kernel in kernels)
    }
    # A field that follows another one in every kernel says nothing new, whether or not it varies.
    follows = {
        name: all(kernel.workload.get(name) == kernel.workload.get(other) for kernel in kernels)
        for name, other in (("n_kv", "n_q"), ("kv_heads", "heads"), ("d_v", "d"), ("kv_dtype", "dtype"))
    }
    words = [f"{name} {count_label(shared[name])}" for name in ("batch",) if shared.get(name, 1) != 1]
    if shared.get("heads", 1) != 1:
        words.append(f"{shared['heads']} heads")
    if "kv_heads" in shared and not follows["kv_heads"]:
        words.append(f"{shared['kv_heads']} K/V heads")
    for name, label in (("n_q", "N"), ("n_kv", "keys"), ("d", "d"), ("d_v", "d_v")):
        if name in shared and not follows.get(name, False):
            words.append(f"{label}={count_label(shared[name])}")
    words += [str(shared["dtype"])] if "dtype" in shared else []
    words += [f"K/V {shared['kv_dtype']}"] if "kv_dtype" in shared and not follows["kv_dtype"] else []
    words += ["causal"] if shared.get("causal") else []
    words += [f"window {count_label(shared['window'])}"] if shared.get("window") is not None else []
    computed = {kernel.dtype for kernel in kernels}
    if len(computed) == 1 and "dtype" in shared and computed != {shared["dtype"]}:
        words.append(f"computed in {computed.pop()}")
    tiles = {kernel.tile for kernel in kernels if kernel.tile}
    words += [f"tile {tiles.pop()}"] if len(tiles) == 1 else []
    words += [f"without {', '.join(excluded)}"] if excluded else []
    return "Attention, " + ", ".join(words)
