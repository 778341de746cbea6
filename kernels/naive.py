"""Naive attention: three kernels that write S and P to memory and read them back.

Formulas: `S = Q K^T * scale`; `P = softmax(S)` over the keys a query sees, 0 elsewhere and where it sees none;
`O = P V`. Reference: Dao et al. 2022, algorithm 0; in float64 `rooflinecli.kernels.flash_inputs.attention`.
Accounting algorithm: `naive`. S, P, Q and O cross the SM boundary as often as it says, S and P rounded up to rows of 16
elements. K and V cross it once for each tile of `br` queries of each query head, `B*Hq*ceil(Nq/br)*Nk*(d + dv)`
elements, because they do not fit on chip beside the rest; all but the first reading comes from the L2.

What makes them fast: all three stream. The first keeps a tile of Q and writes tiles of S while the next keys arrive;
the second holds whole rows in registers; the third is a matrix product as deep as the keys are many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl
from rooflinecli.kernels.decode_choice import multiprocessors
from rooflinecli.kernels.flash_call import Call, capability_of, describable, descriptor, interpreted
from rooflinecli.kernels.flash_choice import Problem
from rooflinecli.kernels.flash_inputs import attention, make_qkv, torch_dtype
from rooflinecli.kernels.flash_tiles import load_rows, padded, precision_of, product, sees, store_rows
from rooflinecli.kernels.spec import Capability, KernelConfig, Launch

from rooflinecli.errors import InputError
from rooflinecli.workload import Workload

if TYPE_CHECKING:
    import torch

NAMES = ("naive_scores", "naive_softmax", "naive_output")
MOST_KEYS = 32768  # a row of S that the softmax holds in the registers of one program
MAX_HEAD_DIM = 256
LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def naive_scores(q, k, s, n_q, n_kv, row, scale, GROUP: tl.constexpr, D: tl.constexpr, BD: tl.constexpr,
                 BR: tl.constexpr, BC: tl.constexpr, DESC: tl.constexpr, PRECISION: tl.constexpr,
                 STAGES: tl.constexpr):  # fmt: skip
    """One program: BR rows of S (B*Hq, n_q, row) against a share of the keys; what lies past n_kv becomes 0."""
    tile = tl.program_id(0)
    head = tl.program_id(2)
    tiles = (row + BC - 1) // BC
    first = tl.program_id(1) * tiles // tl.num_programs(1)
    last = (tl.program_id(1) + 1) * tiles // tl.num_programs(1)
    query = load_rows(q, head, tile * BR, n_q, BR, D, BD, DESC)
    for step in tl.range(first, last, num_stages=STAGES):
        keys = load_rows(k, head // GROUP, step * BC, n_kv, BC, D, BD, DESC)
        scores = product(query, keys.T, tl.zeros([BR, BC], tl.float32), PRECISION) * scale
        if DESC:
            s.store([head, tile * BR, step * BC], scores.to(s.dtype).reshape(1, BR, BC))
        else:
            r = tile * BR + tl.arange(0, BR)
            c = step * BC + tl.arange(0, BC)
            at = s + (head.to(tl.int64) * n_q + r)[:, None] * row + c[None, :]
            tl.store(at, scores.to(s.dtype.element_ty), mask=(r < n_q)[:, None] & (c < row)[None, :])


@triton.jit
def naive_softmax(s, p, rows, n_q, n_kv, row, window, ROWS: tl.constexpr, BLOCK: tl.constexpr, CAUSAL: tl.constexpr,
                  WINDOW: tl.constexpr):  # fmt: skip
    """One program: ROWS whole rows of S and P (rows, row); hidden keys and those past n_kv get 0."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    at = r.to(tl.int64)[:, None] * row + c[None, :]
    inside = (r < rows)[:, None] & (c < row)[None, :]
    # Everything is read: that a mask hides much of S saves naive attention nothing.
    scores = tl.load(s + at, mask=inside, other=0.0).to(tl.float32)
    visible = sees((r % n_q)[:, None], c[None, :], n_q, n_kv, window, CAUSAL, WINDOW)
    scores = tl.where(visible, scores * LOG2E, float("-inf"))
    top = tl.max(scores, 1)
    weights = tl.math.exp2(scores - tl.where(top == float("-inf"), 0.0, top)[:, None])
    total = tl.sum(weights, 1)
    weights *= (1.0 / tl.where(total > 0.0, total, 1.0))[:, None]
    tl.store(p + at, weights.to(p.dtype.element_ty), mask=inside)


@triton.jit
def naive_output(p, v, o, n_q, n_kv, row, GROUP: tl.constexpr, DV: tl.constexpr, BDV: tl.constexpr, BR: tl.constexpr,
                 BC: tl.constexpr, DESC: tl.constexpr, PRECISION: tl.constexpr, STAGES: tl.constexpr):  # fmt: skip
    """One program: BR rows of O (B*Hq, n_q, DV), from all of their P (B*Hq, n_q, row) and of V (B*Hk, n_kv, DV)."""
    tile = tl.program_id(0)
    head = tl.program_id(1)
    acc = tl.zeros([BR, BDV], tl.float32)
    for step in tl.range(0, (n_kv + BC - 1) // BC, num_stages=STAGES):
        if DESC:
            weights = p.load([head, tile * BR, step * BC]).reshape(BR, BC)
        else:
            r = tile * BR + tl.arange(0, BR)
            c = step * BC + tl.arange(0, BC)
            at = p + (head.to(tl.int64) * n_q + r)[:, None] * row + c[None, :]
            weights = tl.load(at, mask=(r < n_q)[:, None] & (c < row)[None, :], other=0.0)
        values = load_rows(v, head // GROUP, step * BC, n_kv, BC, DV, BDV, DESC)
        acc = product(weights.to(values.dtype), values, acc, PRECISION)
    store_rows(o, acc, head, tile * BR, n_q, BR, DV, BDV, DESC)


@dataclass(frozen=True, slots=True)
class Materialised:
    """S and P (B, Hq, Nq, row), whose rows are Nk rounded up to 16 elements so that they start aligned."""

    s: torch.Tensor
    p: torch.Tensor

    @staticmethod
    def of(q: torch.Tensor, n_kv: int, dtype: torch.dtype) -> Materialised:
        """Poisoned, in the format `dtype`."""
        import torch

        shape = (*q.shape[:3], triton.cdiv(n_kv, 16) * 16)
        return Materialised(*(torch.full(shape, math.nan, dtype=dtype, device=q.device) for _ in range(2)))


def naive(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, window: int | None = None,
          scale: float | None = None, tf32: bool = False, s_dtype: torch.dtype | None = None,
          out: torch.Tensor | None = None, config: KernelConfig | None = None) -> Any:  # fmt: skip
    """Attention of q (B, Hq, Nq, d) over k (B, Hk, Nk, d) and v (B, Hk, Nk, dv): O (B, Hq, Nq, dv).

    Tensors are contiguous, in fp32, fp16 or bf16; S and P are kept in `s_dtype`, q's dtype unless given. `tf32` lets
    fp32 inputs use the tensor cores. O is allocated in q's dtype unless `out` is given.

    Raises:
        InputError: shapes or strides the kernels do not take.
    """
    import torch

    out = torch.empty(*q.shape[:3], v.shape[-1], dtype=q.dtype, device=q.device) if out is None else out
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    call = Call(q, k, v, out, None, causal, window, scale, 1.0, tf32)
    call.check()
    between = Materialised.of(q, k.shape[2], s_dtype or q.dtype)
    if config is None:
        problem = Problem(q.shape[3], v.shape[3], q.shape[2], k.shape[2], q.element_size(), call.group, tf32)
        config = tiles(problem, q.shape[0] * q.shape[1], capability_of(q))
    launcher(call, between, config)()
    return out


def launcher(
    call: Call, between: Materialised, config: KernelConfig, descriptors: bool | None = None
) -> Callable[[], None]:
    """A callable that runs the three kernels; `call.scale` is a plain factor of the scores.

    `descriptors` says whether tiles travel by the copy engine; None lets the device decide.

    Raises:
        InputError: 8-bit inputs, or a V whose storage runs along the keys.
    """
    if call.fp8 or not call.v.is_contiguous():
        raise InputError(
            "v must be contiguous" if not call.fp8 else f"{call.q.dtype}: q, k and v are fp32, fp16 or bf16"
        )
    (batch, heads, n_q, d), (_, _, n_kv, d_v) = call.q.shape, call.v.shape
    br, bc, bd, bdv, row = config.br, config.bc, padded(d), padded(d_v), between.s.shape[3]
    step = min(bc, 64)
    if descriptors is None:
        hopper = (capability_of(call.q) or (0, 0)) >= (9, 0) and not interpreted()
        plain = call.q.element_size() == 4 and not call.tf32  # fp32 products spill when operands come by descriptor
        sides = ((call.q, d), (call.k, d), (call.v, d_v), (call.out, d_v))
        descriptors = hopper and not plain and all(describable(tensor, width) for tensor, width in sides)
    q, k, v, s, p, out = call.q, call.k, call.v, between.s, between.p, call.out
    if descriptors:
        q, k = descriptor(q, n_q, d, br, bd), descriptor(k, n_kv, d, bc, bd)
        s, p = descriptor(s, n_q, row, br, bc), descriptor(p, n_q, row, br, step)
        v, out = descriptor(v, n_kv, d_v, step, bdv), descriptor(out, n_q, d_v, br, bdv)
    is_bf16 = str(call.q.dtype) == "torch.bfloat16"
    precision = precision_of(call.q.element_size(), is_bf16, call.tf32, interpreted())
    block = max(16, triton.next_power_of_2(row))
    together = max(1, 2048 // block)
    softmax_warps = min(32, max(4, block // 512))  # 16 elements a thread
    query_tiles, rows = triton.cdiv(n_q, br), batch * heads * n_q
    scores = naive_scores[(query_tiles, min(config.splits, triton.cdiv(row, bc)), batch * heads)]
    softmax = naive_softmax[(triton.cdiv(rows, together),)]
    output = naive_output[(query_tiles, batch * heads)]

    def launch() -> None:
        scores(
            q, k, s, n_q, n_kv, row, call.scale, GROUP=call.group, D=d, BD=bd, BR=br, BC=bc, DESC=descriptors,
            PRECISION=precision, STAGES=config.stages, num_warps=config.warps, num_stages=config.stages,
        )  # fmt: skip
        softmax(
            between.s, between.p, rows, n_q, n_kv, row, call.window_keys, ROWS=together, BLOCK=block,
            CAUSAL=call.causal, WINDOW=call.window is not None, num_warps=softmax_warps,
        )  # fmt: skip
        output(
            p, v, out, n_q, n_kv, row, GROUP=call.group, DV=d_v, BDV=bdv, BR=br, BC=step, DESC=descriptors,
            PRECISION=precision, STAGES=config.stages + 1, num_warps=config.warps, num_stages=config.stages + 1,
        )  # fmt: skip

    return launch


def tiles(problem: Problem, heads: int, capability: Capability) -> KernelConfig:
    """`br` queries by `bc` keys; `splits` programs of the first kernel share the keys of one tile of queries.

    `heads` are those of all sequences.
    """
    p = problem
    if capability is None:
        return KernelConfig(br=16, bc=16, splits=2)
    if p.itemsize == 4 and not p.tf32:  # without tensor cores a thread holds whole rows of its operands
        br, bc, warps, stages = (
            (64, 32, 8, 2) if p.width <= 64 else (32, 32, 16, 2) if p.width <= 128 else (32, 16, 8, 1)
        )
    else:
        # Fewer queries a tile where tiles of 128 would leave multiprocessors without one.
        br = 128 if heads * -(-p.n_q // 128) >= multiprocessors() else 64
        bc = 128 if p.width * p.itemsize <= 256 else 64
        warps, stages = 2 * br // 32, 2
    programs = heads * -(-p.n_q // br)
    splits = max(1, min(-(-p.n_kv // bc) // 4, 4 * multiprocessors() // programs))
    return KernelConfig(br=br, bc=bc, warps=warps, stages=stages, splits=splits)


def supports(workload: Workload, capability: Capability) -> str | None:
    """None where the kernels run the workload; the reason why not otherwise."""
    w = workload
    if w.dtype not in ("fp32", "tf32", "fp16", "bf16"):
        return f"it does not compute in {w.dtype}"
    if w.kv_dtype != w.dtype:
        return "K and V are taken in Q's dtype"
    if w.s_dtype not in ("fp32", "tf32", "fp16", "bf16"):
        return f"S and P are not kept in {w.s_dtype}"
    if max(w.d, w.d_v) > MAX_HEAD_DIM:
        return f"head dims over {MAX_HEAD_DIM} do not fit its tiles"
    if w.n_kv > MOST_KEYS:
        return f"rows of S over {MOST_KEYS} keys do not stay on chip in the softmax"
    return None


def config(workload: Workload, capability: Capability) -> KernelConfig:
    """The tile table's answer."""
    return tiles(Problem.of(workload), workload.batch * workload.heads, capability)


def make_inputs(workload: Workload, device: str = "cuda", seed: int = 0) -> dict[str, Any]:
    """Normal random q, k, v."""
    return make_qkv(workload, device, seed)


def prepare(inputs: Mapping[str, Any], workload: Workload, config: KernelConfig) -> Launch:
    """A launch into a poisoned `o`, by way of poisoned `s` and `p` in the format the ledger counts."""
    import torch

    w, q = workload, inputs["q"]
    out = torch.full((*q.shape[:3], w.d_v), math.nan, dtype=torch_dtype(w.dtype), device=q.device)
    scale = 1 / math.sqrt(w.d)
    call = Call(q, inputs["k"], inputs["v"], out, None, w.causal, w.window, scale, 1.0, w.dtype == "tf32")
    call.check()
    between = Materialised.of(q, w.n_kv, torch_dtype(w.s_dtype))
    return Launch(launcher(call, between, config), {"o": out, "s": between.s, "p": between.p}, NAMES)


def reference(inputs: Mapping[str, Any], workload: Workload) -> dict[str, Any]:
    """`o` in float64."""
    return {"o": attention(inputs["q"], inputs["k"], inputs["v"], workload.causal, workload.window)[0]}
