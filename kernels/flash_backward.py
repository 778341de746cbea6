"""FlashAttention's backward pass in FlashAttention-2's order: K and V outer, dQ accumulated in memory.

Formula, with `P = exp(Q K^T * scale - LSE)` over the visible pairs and `delta = rowsum(O * dO)`:
`dV = P^T dO`, `dS = P * (dO V^T - delta)`, `dK = dS^T Q * scale`, `dQ = dS K * scale`.
Reference: `rooflinecli.kernels.flash_inputs.gradients`. Accounting algorithm: `backward`, with `br` query rows a
step and `bc` keys a program. Three kernels: delta, the main one, and the conversion of dQ from its fp32 sums.

dQ is added in fp32 where it lies, by the copy engine's reduction where the chip has it and by atomics elsewhere,
so two runs may differ in dQ's last bits. One program walks all query heads of its K/V head: dK and dV are written
once, also with grouped heads. The delta kernel clears the sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl
from rooflinecli.kernels.flash_call import capability_of, describable, descriptor, interpreted
from rooflinecli.kernels.flash_choice import Problem, backward_config
from rooflinecli.kernels.flash_inputs import gradients, make_qkv, torch_dtype
from rooflinecli.kernels.flash_tiles import load_rows, padded, precision_of, product, query_tiles, seen_by, store_rows
from rooflinecli.kernels.spec import Capability, KernelConfig, Launch

from rooflinecli.errors import InputError
from rooflinecli.workload import Workload

if TYPE_CHECKING:
    import torch

LOG2E = 1.4426950408889634


def kernels_of(config: KernelConfig) -> tuple[str, ...]:
    """The device kernels of one backward pass, in order."""
    main = "flash_backward_main_hopper" if config.variant == "gluon" else "flash_backward_main"
    return ("flash_backward_delta", main, "flash_backward_convert")


@triton.jit
def flash_backward_delta(o, do, delta, sums, total, D: tl.constexpr, DV: tl.constexpr, BD: tl.constexpr,
                         BDV: tl.constexpr, BR: tl.constexpr):  # fmt: skip
    """delta = rowsum(O * dO) in fp32, and dQ's sums (total, D) cleared: o, do (total, DV), delta (total,)."""
    r = tl.program_id(0).to(tl.int64) * BR + tl.arange(0, BR)
    c = tl.arange(0, BDV)
    at = r[:, None] * DV + c[None, :]
    live = (r < total)[:, None] & (c < DV)[None, :]
    forward = tl.load(o + at, mask=live, other=0.0).to(tl.float32)
    tl.store(delta + r, tl.sum(forward * tl.load(do + at, mask=live, other=0.0).to(tl.float32), 1), mask=r < total)
    e = tl.arange(0, BD)
    cleared = tl.zeros([BR, BD], tl.float32)
    tl.store(sums + r[:, None] * D + e[None, :], cleared, mask=(r < total)[:, None] & (e < D)[None, :])


@triton.jit
def flash_backward_convert(sums, dq, total, scale, BLOCK: tl.constexpr):
    """dQ = sums * scale in dQ's dtype, `total` elements."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(sums + at, mask=at < total, other=0.0) * scale
    tl.store(dq + at, value.to(dq.dtype.element_ty), mask=at < total)


@triton.jit
def _fold(dk, dv, keys, values, q, do, sums, lse, delta, head, start, n_q, n_kv, window, scale, lo, hi,
          D: tl.constexpr, DV: tl.constexpr, BD: tl.constexpr, BDV: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr,
          CAUSAL: tl.constexpr, WINDOW: tl.constexpr, MASKED: tl.constexpr, DESC: tl.constexpr,
          PRECISION: tl.constexpr, STAGES: tl.constexpr):  # fmt: skip
    """Query tiles `[lo, hi)` of one head against one tile of keys: add to dK, dV, and to dQ's sums in memory.

    Scores stand transposed, keys down: then P and dS are the left operands of dV and dK as they lie in registers.
    """
    before = head.to(tl.int64) * n_q
    for tile in tl.range(lo, hi, num_stages=STAGES):
        first = tile * BR
        rows = first + tl.arange(0, BR)
        query = load_rows(q, head, first, n_q, BR, D, BD, DESC)
        # LSE and delta start the products' accumulators: subtracted there, they hold no registers afterwards.
        high = tl.load(lse + before + rows, mask=rows < n_q, other=float("inf")) * (1.4426950408889634 / scale)
        s = product(keys, query.T, tl.broadcast_to(-high[None, :], BC, BR), PRECISION)
        p = tl.math.exp2(s * scale)
        if MASKED:
            at = start + tl.arange(0, BC)
            p = tl.where(seen_by(rows[None, :], at[:, None], n_q, n_kv, window, CAUSAL, WINDOW), p, 0.0)
        upstream = load_rows(do, head, first, n_q, BR, DV, BDV, DESC)
        p = p.to(upstream.dtype)
        dv = product(p, upstream, dv, PRECISION)
        low = tl.load(delta + before + rows, mask=rows < n_q, other=0.0)
        dp = product(values, upstream.T, tl.broadcast_to(-low[None, :], BC, BR), PRECISION)
        ds = p.to(tl.float32) * dp
        ds = ds.to(query.dtype)
        dk = product(ds, query, dk, PRECISION)
        dq = product(ds.T, keys, tl.zeros([BR, BD], tl.float32), PRECISION)
        if DESC:
            sums.atomic_add([head, first, 0], dq.reshape(1, BR, BD))
        else:
            c = tl.arange(0, BD)
            live = (rows < n_q)[:, None] & (c < D)[None, :]
            tl.atomic_add(sums + before * D + rows[:, None] * D + c[None, :], dq, mask=live, sem="relaxed")
    return dk, dv


@triton.jit
def flash_backward_main(
    q,
    k,
    v,
    do,
    lse,
    delta,
    sums,
    dk,
    dv,
    n_q,
    n_kv,
    window,
    scale,
    out_scale,
    GROUP: tl.constexpr,
    D: tl.constexpr,
    DV: tl.constexpr,
    BD: tl.constexpr,
    BDV: tl.constexpr,
    BR: tl.constexpr,
    BC: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
    RAGGED: tl.constexpr,
    DESC: tl.constexpr,
    PRECISION: tl.constexpr,
    STAGES: tl.constexpr,
):
    """One program: BC keys of one K/V head against every query that sees them. `scale` includes log2(e).

    Under a causal mask the first keys are seen by the most queries, and the first programs start first.
    """
    tile = tl.program_id(0)
    kv_head = tl.program_id(1)
    start = tile * BC
    keys = load_rows(k, kv_head, start, n_kv, BC, D, BD, DESC)
    values = load_rows(v, kv_head, start, n_kv, BC, DV, BDV, DESC)
    grad_k = tl.zeros([BC, BD], tl.float32)
    grad_v = tl.zeros([BC, BDV], tl.float32)
    lo, full_lo, full_hi, hi = query_tiles(tile, n_q, n_kv, window, BR, BC, CAUSAL, WINDOW)
    if RAGGED:  # rows past the last key must weigh nothing: mask every step of the tile that has them
        partial = start + BC > n_kv
        full_lo = tl.where(partial, hi, full_lo)
        full_hi = tl.where(partial, hi, full_hi)
    for member in range(GROUP):
        head = kv_head * GROUP + member
        if CAUSAL or WINDOW or RAGGED:
            grad_k, grad_v = _fold(grad_k, grad_v, keys, values, q, do, sums, lse, delta, head, start, n_q, n_kv,
                                   window, scale, lo, full_lo, D, DV, BD, BDV, BR, BC, CAUSAL, WINDOW, True, DESC,
                                   PRECISION, STAGES)  # fmt: skip
        grad_k, grad_v = _fold(grad_k, grad_v, keys, values, q, do, sums, lse, delta, head, start, n_q, n_kv,
                               window, scale, full_lo, full_hi, D, DV, BD, BDV, BR, BC, CAUSAL, WINDOW, False, DESC,
                               PRECISION, STAGES)  # fmt: skip
        if WINDOW:
            grad_k, grad_v = _fold(grad_k, grad_v, keys, values, q, do, sums, lse, delta, head, start, n_q, n_kv,
                                   window, scale, full_hi, hi, D, DV, BD, BDV, BR, BC, CAUSAL, WINDOW, True, DESC,
                                   PRECISION, STAGES)  # fmt: skip
    store_rows(dk, grad_k * out_scale, kv_head, start, n_kv, BC, D, BD, DESC)
    store_rows(dv, grad_v, kv_head, start, n_kv, BC, DV, BDV, DESC)


@dataclass(frozen=True, slots=True)
class Gradients:
    """The tensors of one backward call; `sums` is dQ's fp32 accumulator, shaped like q."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    o: torch.Tensor
    lse: torch.Tensor
    do: torch.Tensor
    delta: torch.Tensor
    sums: torch.Tensor
    dq: torch.Tensor
    dk: torch.Tensor
    dv: torch.Tensor

    @staticmethod
    def of(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, do: torch.Tensor
    ) -> Gradients:
        """Allocate the outputs and the scratch beside the inputs; outputs are poisoned with NaN.

        Raises:
            InputError: an input is not contiguous, or its shape does not fit.
        """
        import torch

        for name, tensor in (("q", q), ("k", k), ("v", v), ("o", o), ("lse", lse), ("do", do)):
            if not tensor.is_contiguous():
                raise InputError(f"{name} must be contiguous")
        if o.shape != (*q.shape[:3], v.shape[3]) or do.shape != o.shape or lse.shape != q.shape[:3]:
            raise InputError(f"shapes do not fit: o {tuple(o.shape)}, do {tuple(do.shape)}, lse {tuple(lse.shape)}")
        if q.element_size() == 1:
            raise InputError("the backward kernel takes fp32, fp16 and bf16")
        scratch = {"dtype": torch.float32, "device": q.device}
        poisoned = [torch.full_like(tensor, float("nan")) for tensor in (q, k, v)]
        return Gradients(
            q, k, v, o, lse, do, torch.full(q.shape[:3], float("nan"), **scratch),
            torch.full(q.shape, float("nan"), **scratch), *poisoned,
        )  # fmt: skip


def flash_backward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor,
                   do: torch.Tensor, *, causal: bool = False, window: int | None = None, scale: float | None = None,
                   tf32: bool = False, config: KernelConfig | None = None) -> tuple[Any, Any, Any]:  # fmt: skip
    """dQ, dK, dV of the forward call that gave `o` and the natural `lse`; shapes as there, all contiguous.

    Raises:
        InputError: shapes, strides or dtypes the kernel does not take.
    """
    held = Gradients.of(q, k, v, o, lse, do)
    launcher(held, causal, window, scale, tf32, config)()
    return held.dq, held.dk, held.dv


def launcher(
    held: Gradients,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    tf32: bool = False,
    config: KernelConfig | None = None,
    descriptors: bool | None = None,
) -> Callable[[], None]:
    """A callable that runs the three kernels; all but the launches is done beforehand."""
    g = held
    (batch, heads, n_q, d), (_, kv_heads, n_kv, d_v) = g.q.shape, g.v.shape
    bd, bdv = padded(d), padded(d_v)
    problem = Problem(d, d_v, n_q, n_kv, g.q.element_size(), heads // kv_heads, tf32)
    config = config or backward_config(problem, capability_of(g.q))
    br, bc = config.br, config.bc
    lines, elements, delta_rows = batch * heads * n_q, g.q.numel(), 64
    first = flash_backward_delta[(triton.cdiv(lines, delta_rows),)]
    last = flash_backward_convert[(triton.cdiv(elements, 4096),)]
    scale = 1 / math.sqrt(d) if scale is None else scale
    if config.variant == "gluon":
        from rooflinecli.kernels.flash_gluon_backward import main_launcher

        hopper = main_launcher(g, causal, window, scale, scale * LOG2E, config.stages)

        def launch_hopper() -> None:
            first(g.o, g.do, g.delta, g.sums, lines, D=d, DV=d_v, BD=bd, BDV=bdv, BR=delta_rows, num_warps=4)
            hopper()
            last(g.sums, g.dq, elements, scale, BLOCK=4096, num_warps=8)

        return launch_hopper
    if descriptors is None:
        able = g.q.is_cuda and not interpreted() and (capability_of(g.q) or (0, 0)) >= (9, 0)
        rows = ((g.q, d), (g.k, d), (g.v, d_v), (g.do, d_v), (g.sums, d), (g.dk, d), (g.dv, d_v))
        descriptors = able and all(describable(tensor, row) for tensor, row in rows)
    q, k, v, do, sums, dk, dv = g.q, g.k, g.v, g.do, g.sums, g.dk, g.dv
    if descriptors:
        q, do, sums = descriptor(q, n_q, d, br, bd), descriptor(do, n_q, d_v, br, bdv), descriptor(sums, n_q, d, br, bd)
        k, dk = descriptor(k, n_kv, d, bc, bd), descriptor(dk, n_kv, d, bc, bd)
        v, dv = descriptor(v, n_kv, d_v, bc, bdv), descriptor(dv, n_kv, d_v, bc, bdv)
    keys = n_q + n_kv if window is None else min(window, n_q + n_kv)
    precision = precision_of(g.q.element_size(), str(g.q.dtype) == "torch.bfloat16", tf32, interpreted())
    main = flash_backward_main[(triton.cdiv(n_kv, bc), batch * kv_heads)]

    def launch() -> None:
        first(g.o, g.do, g.delta, g.sums, lines, D=d, DV=d_v, BD=bd, BDV=bdv, BR=delta_rows, num_warps=4)
        main(
            q, k, v, do, g.lse, g.delta, sums, dk, dv, n_q, n_kv, keys, scale * LOG2E, scale,
            GROUP=heads // kv_heads, D=d, DV=d_v, BD=bd, BDV=bdv, BR=br, BC=bc, CAUSAL=causal,
            WINDOW=window is not None, RAGGED=n_kv % bc != 0, DESC=descriptors, PRECISION=precision,
            STAGES=config.stages, num_warps=config.warps, num_stages=config.stages,
        )  # fmt: skip
        last(g.sums, g.dq, elements, scale, BLOCK=4096, num_warps=8)

    return launch


def supports(workload: Workload, capability: Capability) -> str | None:
    """None where the kernel runs the workload; the reason why not otherwise."""
    w = workload
    if max(w.d, w.d_v) > 256:
        return "head dims over 256 do not fit its tiles"
    if w.kv_dtype != w.dtype:
        return "K and V are taken in Q's dtype"
    return None if w.dtype in ("fp32", "tf32", "fp16", "bf16") else f"it does not compute in {w.dtype}"


def config(workload: Workload, capability: Capability) -> KernelConfig:
    """The tile table's answer."""
    return backward_config(Problem.of(workload), capability)


def make_inputs(workload: Workload, device: str = "cuda", seed: int = 0) -> dict[str, Any]:
    """Normal random q, k, v, do; o and lse are the forward kernel's."""
    import torch
    from rooflinecli.kernels.flash_forward import flash_forward

    w = workload
    inputs = make_qkv(w, device, seed)
    o, lse = flash_forward(**inputs, causal=w.causal, window=w.window, return_lse=True, tf32=w.dtype == "tf32")
    generator = torch.Generator(device=device).manual_seed(seed + 2**20)
    do = torch.randn(o.shape, generator=generator, device=device, dtype=torch.float32).to(torch_dtype(w.dtype))
    return {**inputs, "o": o, "lse": lse, "do": do}


def prepare(inputs: Mapping[str, Any], workload: Workload, config: KernelConfig) -> Launch:
    """A launch into poisoned `dq`, `dk`, `dv`: three kernels."""
    held = Gradients.of(*(inputs[name] for name in ("q", "k", "v", "o", "lse", "do")))
    run = launcher(held, workload.causal, workload.window, None, workload.dtype == "tf32", config)
    return Launch(run, {"dq": held.dq, "dk": held.dk, "dv": held.dv}, kernels_of(config))


def reference(inputs: Mapping[str, Any], workload: Workload) -> dict[str, Any]:
    """dQ, dK, dV in float64."""
    dq, dk, dv = gradients(*(inputs[name] for name in ("q", "k", "v", "do")), workload.causal, workload.window)
    return {"dq": dq, "dk": dk, "dv": dv}
