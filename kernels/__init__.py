"""Bundled Triton kernels, each with a spec that names its accounting algorithm and tile."""

from __future__ import annotations

from rooflinecli.kernels.spec import KernelConfig, KernelSpec, Launch

KERNELS: dict[str, KernelSpec] = {
    spec.name: spec
    for spec in (
        KernelSpec("flash_forward", "flash2", "flash_forward", "online softmax, Q outer, K and V streamed"),
        KernelSpec("flash_backward", "backward", "flash_backward", "dQ, dK, dV with K and V outer, dQ by reductions"),
        KernelSpec("naive", "naive", "naive", "three kernels, S and P written out and read back"),
        KernelSpec("decode", "decode", "decode", "split-KV, a group's heads share a tile"),
        KernelSpec("paged_decode", "paged", "paged_decode", "decode over a paged cache, any page size"),
        KernelSpec("mla_decode", "mla", "mla_decode", "absorbed latent attention, one cache row for K and V"),
    )
}

__all__ = ["KERNELS", "KernelConfig", "KernelSpec", "Launch"]
