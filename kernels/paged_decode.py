"""Decoding over a paged cache: `decode`, with keys and values found by way of a block table.

Formula: token `t` of sequence `b` lies in page `table[b, t // page_size]`, at `t % page_size`; otherwise that of
`decode`, over the first `lengths[b]` tokens. Pages can have any size: a step's keys are looked up one by one, and
what a page holds beyond a sequence's end is never read. Reference: Kwon et al. 2023, PagedAttention; in float64
`rooflinecli.kernels.flash_inputs.attention` on the gathered cache. Accounting algorithm: `paged` with the tile,
splits and page size of `config`. The kernels are in `split_kv`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rooflinecli.kernels.decode_call import LOG2E, DecodeCall, call_of
from rooflinecli.kernels.decode_choice import decode_config, refuses, too_many_rows
from rooflinecli.kernels.decode_inputs import cache, normal, widened
from rooflinecli.kernels.flash_call import capability_of
from rooflinecli.kernels.flash_inputs import attention
from rooflinecli.kernels.spec import Capability, KernelConfig, Launch
from rooflinecli.kernels.split_kv import launch_of, launcher

from rooflinecli.workload import Workload

if TYPE_CHECKING:
    import torch

PAGE_SIZE = 16  # tokens in a page of the inputs made here: the usual size, and the most table entries


def paged_decode(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor, *,
                 causal: bool = False, window: int | None = None, scale: float | None = None,
                 k_scale: torch.Tensor | None = None, v_scale: torch.Tensor | None = None, tf32: bool = False,
                 out: torch.Tensor | None = None, config: KernelConfig | None = None) -> Any:  # fmt: skip
    """Attention of q (B, Hq, Nq, d) over pages k (pages, Hk, page_size, d), v (pages, Hk, page_size, dv).

    Tensors are contiguous. `table` (B, entries), int32, holds the page numbers of each sequence in order; entries past
    its length are not looked at. `lengths` (B,), int32, are in tokens, `Nq` newest ones included. O is
    (B, Hq, Nq, dv); the other arguments are those of `decode`.

    Raises:
        InputError: shapes, strides or dtypes the kernel does not take.
    """
    import torch

    out = torch.empty(*q.shape[:3], v.shape[-1], dtype=q.dtype, device=q.device) if out is None else out
    factor = (1 / math.sqrt(q.shape[-1]) if scale is None else scale) * LOG2E
    most = table.shape[-1] * k.shape[-2]
    call = DecodeCall(q, k, v, out, factor, most, causal, window, tf32, k_scale, v_scale, table, lengths)
    call.check()
    launcher(call, config or decode_config(call.workload, capability_of(q)))()
    return out


def supports(workload: Workload, capability: Capability) -> str | None:
    """None where the kernel runs the workload; the reason why not otherwise."""
    return too_many_rows(workload) or refuses(workload, capability)


def config(workload: Workload, capability: Capability) -> KernelConfig:
    """The tile table's answer."""
    return replace(decode_config(workload, capability), page_size=PAGE_SIZE)


def make_inputs(
    workload: Workload, device: str = "cuda", seed: int = 0, page_size: int = PAGE_SIZE, lengths: Any = None
) -> dict[str, Any]:
    """Normal random q, and k and v in pages that lie in any order; `lengths` (B,) are all Nk unless given."""
    import torch

    w = workload
    generator = torch.Generator(device=device).manual_seed(seed)
    entries = -(-w.n_kv // page_size)
    pages = w.batch * entries
    q = normal((w.batch, w.heads, w.n_q, w.d), w.dtype, device, generator)
    k, k_scale = cache((pages, w.kv_heads, page_size, w.d), w.kv_dtype, device, generator)
    v, v_scale = cache((pages, w.kv_heads, page_size, w.d_v), w.kv_dtype, device, generator)
    table = torch.randperm(pages, generator=generator, device=device, dtype=torch.int32).reshape(w.batch, entries)
    if lengths is None:
        lengths = torch.full((w.batch,), w.n_kv, dtype=torch.int32, device=device)
    return {"q": q, "k": k, "v": v, "k_scale": k_scale, "v_scale": v_scale, "table": table, "lengths": lengths}


def prepare(inputs: Mapping[str, Any], workload: Workload, config: KernelConfig) -> Launch:
    """A launch into a poisoned `o`."""
    return launch_of(call_of(inputs, workload), config)


def reference(inputs: Mapping[str, Any], workload: Workload) -> dict[str, Any]:
    """`o` in float64, of the values that the pages stand for."""
    import torch

    w = workload
    sequences = []
    for index, length in enumerate(inputs["lengths"].tolist()):
        k, v = (gathered(inputs, name, index, length) for name in "kv")
        sequences.append(attention(inputs["q"][index : index + 1], k, v, w.causal, w.window)[0])
    return {"o": torch.cat(sequences)}


def gathered(inputs: Mapping[str, Any], name: str, sequence: int, length: int) -> Any:
    """The first `length` tokens of one sequence of the cache `name`, dense (1, Hk, length, columns), in float64."""
    pages = inputs[name][inputs["table"][sequence].long()]
    dense = pages.transpose(0, 1).flatten(1, 2)[None, :, :length]
    return widened(dense, inputs[f"{name}_scale"])
