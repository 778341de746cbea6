"""FlashAttention's forward pass, Q outer, K and V streamed past each tile of queries.

Formula: `O = softmax(Q K^T * scale, masked) V`, `LSE = log(sum(exp(Q K^T * scale)))` over the visible keys.
A query that sees no key gets `O = 0` and `LSE = -inf`. Reference: `rooflinecli.kernels.flash_inputs.attention`
in float64. Accounting algorithm: `flash2` with the tile of `config`; LSE, written only on request, is not in it.

What makes it fast: the scale and the change of base are folded into the one FMA before `exp2`; tiles out of
sight are not visited and only tiles the mask cuts are masked, so the loop is split in three; tiles arrive
through tensor descriptors where the chip has them (Hopper on), through masked pointers elsewhere. On
Hopper `flash_gluon` has the same algorithm with two consumer warpgroups, and `config` prefers it where it pays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl
from rooflinecli.kernels.flash_call import Call, capability_of, describable, descriptor, interpreted
from rooflinecli.kernels.flash_choice import Problem, forward_config
from rooflinecli.kernels.flash_inputs import attention, make_qkv, torch_dtype
from rooflinecli.kernels.flash_tiles import key_tiles, load_rows, padded, precision_of, product, sees, store_rows
from rooflinecli.kernels.spec import Capability, KernelConfig, Launch

from rooflinecli.workload import Workload

if TYPE_CHECKING:
    import torch

LN2 = tl.constexpr(0.6931471805599453)
LOG2E = 1.4426950408889634


@triton.jit
def _attend(acc, m, mass, q, k, v, head, queries, n_q, n_kv, window, scale, shift, lo, hi,
            D: tl.constexpr, DV: tl.constexpr, BD: tl.constexpr, BDV: tl.constexpr, BC: tl.constexpr,
            CAUSAL: tl.constexpr, WINDOW: tl.constexpr, MASKED: tl.constexpr, DESC: tl.constexpr, V_T: tl.constexpr,
            PRECISION: tl.constexpr, STAGES: tl.constexpr, SPECIALIZE: tl.constexpr):  # fmt: skip
    """Fold the key tiles `[lo, hi)` into the running output `acc`, maximum `m` and sum `mass` (base 2)."""
    for tile in tl.range(lo, hi, num_stages=STAGES, warp_specialize=SPECIALIZE):
        start = tile * BC
        keys = load_rows(k, head, start, n_kv, BC, D, BD, DESC)
        s = product(q, keys.T, tl.zeros([q.shape[0], BC], tl.float32), PRECISION)
        if MASKED:
            at = start + tl.arange(0, BC)
            visible = sees(queries[:, None], at[None, :], n_q, n_kv, window, CAUSAL, WINDOW)
            s = tl.where(visible, s, float("-inf"))
        higher = tl.maximum(m, tl.max(s, 1) * scale)
        base = higher - shift
        if MASKED:  # a row that has seen nothing yet: exp2(-inf - 0) is 0, exp2(-inf + inf) would be NaN
            base = tl.where(higher == float("-inf"), 0.0, base)
        p = tl.math.exp2(s * scale - base[:, None])
        fade = tl.math.exp2(m - shift - base)
        mass = mass * fade + tl.sum(p, 1)
        acc = acc * fade[:, None]
        if V_T:
            if DESC:
                values = v.load([head, 0, start]).reshape(BDV, BC).T
            else:
                r = start + tl.arange(0, BC)
                c = tl.arange(0, BDV)
                where = v + (head.to(tl.int64) * DV + c)[None, :] * n_kv + r[:, None]
                values = tl.load(where, mask=(r < n_kv)[:, None] & (c < DV)[None, :], other=0.0)
        else:
            values = load_rows(v, head, start, n_kv, BC, DV, BDV, DESC)
        acc = product(p.to(values.dtype), values, acc, PRECISION)
        m = higher
    return acc, m, mass


@triton.jit
def flash_forward_kernel(q, k, v, o, lse, n_q, n_kv, window, scale, v_scale,
                         GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, BD: tl.constexpr, BDV: tl.constexpr,
                         BR: tl.constexpr, BC: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr,
                         RAGGED: tl.constexpr, PACK: tl.constexpr, DESC: tl.constexpr, V_T: tl.constexpr,
                         LSE: tl.constexpr, FP8: tl.constexpr, PRECISION: tl.constexpr, STAGES: tl.constexpr,
                         SPECIALIZE: tl.constexpr):  # fmt: skip
    """One program: BR rows of one query head (or of one packed group of heads) against all keys they see.

    q (B*Hq, n_q, D), k (B*Hk, n_kv, D), v (B*Hk, n_kv, DV) or, with V_T, (B*Hk, DV, n_kv), o (B*Hq, n_q, DV),
    lse (B*Hq, n_q) fp32. `scale` includes log2(e). Packed rows interleave the heads of a group within a query.
    """
    # The last tiles see the most keys under a causal mask: they start first, so that short ones fill the end.
    tile = tl.num_programs(0) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)
    head = tl.program_id(1)
    rows = tile * BR + tl.arange(0, BR)
    if PACK:
        queries = rows // GROUP
        kv_head = head
        total = n_q * GROUP
        line = (head * GROUP + rows % GROUP).to(tl.int64) * n_q + queries
        c = tl.arange(0, BD)
        query = tl.load(q + line[:, None] * D + c[None, :], mask=(rows < total)[:, None] & (c < D)[None, :], other=0.0)
        first_query = tile * BR // GROUP
        last_query = (tl.minimum(tile * BR + BR, total) - 1) // GROUP
    else:
        queries = rows
        kv_head = head // GROUP
        query = load_rows(q, head, tile * BR, n_q, BR, D, BD, DESC)
        first_query = tile * BR
        last_query = tl.minimum(tile * BR + BR, n_q) - 1

    lo, full_lo, full_hi, hi = key_tiles(first_query, last_query, n_q, n_kv, window, BC, CAUSAL, WINDOW)
    # e4m3 has its finest steps below 1 near 2^-9: lift the weights, which end at 1, to end at 2^8.
    shift = 8.0 if FP8 else 0.0
    acc = tl.zeros([BR, BDV], tl.float32)
    m = tl.full([BR], float("-inf"), tl.float32)
    mass = tl.zeros([BR], tl.float32)
    if WINDOW:
        acc, m, mass = _attend(
            acc,
            m,
            mass,
            query,
            k,
            v,
            kv_head,
            queries,
            n_q,
            n_kv,
            window,
            scale,
            shift,
            lo,
            full_lo,
            D,
            DV,
            BD,
            BDV,
            BC,
            CAUSAL,
            WINDOW,
            True,
            DESC,
            V_T,
            PRECISION,
            STAGES,
            SPECIALIZE,
        )
    acc, m, mass = _attend(
        acc,
        m,
        mass,
        query,
        k,
        v,
        kv_head,
        queries,
        n_q,
        n_kv,
        window,
        scale,
        shift,
        full_lo,
        full_hi,
        D,
        DV,
        BD,
        BDV,
        BC,
        CAUSAL,
        WINDOW,
        False,
        DESC,
        V_T,
        PRECISION,
        STAGES,
        SPECIALIZE,
    )
    if CAUSAL or WINDOW or RAGGED:
        acc, m, mass = _attend(
            acc,
            m,
            mass,
            query,
            k,
            v,
            kv_head,
            queries,
            n_q,
            n_kv,
            window,
            scale,
            shift,
            full_hi,
            hi,
            D,
            DV,
            BD,
            BDV,
            BC,
            CAUSAL,
            WINDOW,
            True,
            DESC,
            V_T,
            PRECISION,
            STAGES,
            SPECIALIZE,
        )

    seen = mass > 0.0
    out = acc * (tl.where(seen, 1.0 / tl.where(seen, mass, 1.0), 0.0) * v_scale)[:, None]
    total_lse = tl.where(seen, (m - shift + tl.math.log2(tl.where(seen, mass, 1.0))) * LN2, float("-inf"))
    if PACK:
        live = rows < n_q * GROUP
        line = (head * GROUP + rows % GROUP).to(tl.int64) * n_q + queries
        c = tl.arange(0, BDV)
        tl.store(
            o + line[:, None] * DV + c[None, :], out.to(o.dtype.element_ty), mask=live[:, None] & (c < DV)[None, :]
        )
        if LSE:
            tl.store(lse + line, total_lse, mask=live)
    else:
        store_rows(o, out, head, tile * BR, n_q, BR, DV, BDV, DESC)
        if LSE:
            tl.store(lse + head.to(tl.int64) * n_q + rows, total_lse, mask=rows < n_q)


def flash_forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False,
                  window: int | None = None, scale: float | None = None, return_lse: bool = False,
                  tf32: bool = False, q_scale: float = 1.0, k_scale: float = 1.0, v_scale: float = 1.0,
                  out: torch.Tensor | None = None, lse: torch.Tensor | None = None,
                  config: KernelConfig | None = None) -> Any:  # fmt: skip
    """Attention of q (B, Hq, Nq, d) over k (B, Hk, Nk, d) and v (B, Hk, Nk, dv): O (B, Hq, Nq, dv).

    Tensors are contiguous, in fp32, fp16, bf16 or an 8-bit float; 8-bit V may also be a view of contiguous
    (B, Hk, dv, Nk). 8-bit inputs stand for `x * x_scale`. O is allocated in q's dtype unless `out` is given.
    `tf32` lets fp32 inputs use the tensor cores. With `return_lse`: `(O, LSE)`, LSE natural, fp32 (B, Hq, Nq).

    Raises:
        InputError: shapes or strides the kernel does not take.
    """
    import torch

    if out is None:
        out = torch.empty(*q.shape[:3], v.shape[-1], dtype=q.dtype, device=q.device)
    if lse is None and return_lse:
        lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    call = Call(q, k, v, out, lse, causal, window, scale * q_scale * k_scale * LOG2E, v_scale, tf32)
    call.check()
    problem = Problem(q.shape[3], v.shape[3], q.shape[2], k.shape[2], q.element_size(), call.group, tf32)
    config = config or forward_config(problem, capability_of(q))
    launcher(call, config)()
    return (out, lse) if return_lse else out


def launcher(call: Call, config: KernelConfig) -> Callable[[], None]:
    """A callable that runs `call` with `config`, everything but the launch done beforehand."""
    if config.variant == "gluon":
        from rooflinecli.kernels import flash_gluon

        return flash_gluon.launcher(call, config)
    return portable_launcher(call, config)


def portable_launcher(
    call: Call, config: KernelConfig, descriptors: bool | None = None, specialize: bool = False
) -> Callable[[], None]:
    """The launch of the portable kernel; `descriptors` None lets the device decide whether tiles arrive by them."""
    (batch, heads, n_q, d), (_, kv_heads, n_kv, d_v) = call.q.shape, call.v.shape
    br, bc, bd, bdv = config.br, config.bc, padded(d), padded(d_v)
    if descriptors is None:
        # The fp32 matrix product without tensor cores spills registers when its operands come by descriptor.
        plain = call.q.element_size() == 4 and not call.tf32
        able = not plain and call.q.is_cuda and not interpreted() and (capability_of(call.q) or (0, 0)) >= (9, 0)
        v_row = n_kv if call.v_transposed else d_v
        widest = bd * call.q.element_size() >= 16 and bdv * call.out.element_size() >= 16
        rows = ((call.q, d), (call.k, d), (call.v, v_row), (call.out, d_v))
        descriptors = able and widest and all(describable(tensor, row) for tensor, row in rows)
    q, k, v, out = call.q, call.k, call.v, call.out
    if descriptors:
        k = descriptor(k, n_kv, d, bc, bd)
        v = descriptor(v.mT, d_v, n_kv, bdv, bc) if call.v_transposed else descriptor(v, n_kv, d_v, bc, bdv)
        if not config.pack_gqa:
            q, out = descriptor(q, n_q, d, br, bd), descriptor(out, n_q, d_v, br, bdv)
    packed_rows, programs = (n_q * call.group, batch * kv_heads) if config.pack_gqa else (n_q, batch * heads)
    grid = (triton.cdiv(packed_rows, br), programs)
    is_bf16 = str(call.q.dtype) == "torch.bfloat16"
    precision = precision_of(call.q.element_size(), is_bf16, call.tf32, interpreted())
    kernel = flash_forward_kernel[grid]

    def launch() -> None:
        kernel(
            q, k, v, out, call.lse, n_q, n_kv, call.window_keys, call.scale, call.v_scale,
            GROUP=call.group, D=d, DV=d_v, BD=bd, BDV=bdv, BR=br, BC=bc, CAUSAL=call.causal,
            WINDOW=call.window is not None, RAGGED=n_kv % bc != 0, PACK=config.pack_gqa, DESC=descriptors,
            V_T=call.v_transposed, LSE=call.lse is not None, FP8=call.fp8, PRECISION=precision,
            STAGES=config.stages, SPECIALIZE=specialize, num_warps=config.warps, num_stages=config.stages,
        )  # fmt: skip

    return launch


MAX_HEAD_DIM = 256


def supports(workload: Workload, capability: Capability) -> str | None:
    """None where the kernel runs the workload; the reason why not otherwise."""
    w = workload
    if max(w.d, w.d_v) > MAX_HEAD_DIM:
        return f"head dims over {MAX_HEAD_DIM} do not fit its tiles"
    if w.kv_dtype != w.dtype:
        return "K and V are taken in Q's dtype"
    if w.dtype not in ("fp32", "tf32", "fp16", "bf16", "fp8_e4m3", "fp8_e5m2"):
        return f"it does not compute in {w.dtype}"
    if w.dtype.startswith("fp8") and capability is not None and capability < (8, 9):
        return "8-bit floats need compute capability 8.9"
    return None


def config(workload: Workload, capability: Capability) -> KernelConfig:
    """The tile table's answer."""
    return forward_config(Problem.of(workload), capability)


def make_inputs(workload: Workload, device: str = "cuda", seed: int = 0) -> dict[str, Any]:
    """Normal random q, k, v."""
    return make_qkv(workload, device, seed)


def prepare(inputs: Mapping[str, Any], workload: Workload, config: KernelConfig, lse: bool = False) -> Launch:
    """A launch into a poisoned `o` (and `lse` on request), in the storage dtype the ledger counts."""
    import torch

    w, q = workload, inputs["q"]
    nan = float("nan")
    outputs = {"o": torch.full((*q.shape[:3], w.d_v), nan, device=q.device).to(torch_dtype(w.dtype))}
    if lse:
        outputs["lse"] = torch.full(q.shape[:3], nan, device=q.device)
    call = Call(q, inputs["k"], inputs["v"], outputs["o"], outputs.get("lse"), w.causal, w.window,
                LOG2E / math.sqrt(w.d), 1.0, w.dtype == "tf32")  # fmt: skip
    call.check()
    kernel = "flash_forward_hopper" if config.variant == "gluon" else "flash_forward_kernel"
    return Launch(launcher(call, config), outputs, (kernel,))


def reference(inputs: Mapping[str, Any], workload: Workload) -> dict[str, Any]:
    """`o` and `lse` in float64."""
    o, lse = attention(inputs["q"], inputs["k"], inputs["v"], workload.causal, workload.window)
    return {"o": o, "lse": lse}
