"""The probes `calibrate` runs: this project's own kernels for memory and single units, the vendor's for matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rooflinecli.measurement.calibrate import Prepared, Probe
from rooflinecli.measurement.device import Device, Identity

MATRICES = (8192, 4096)  # a long product is held back by its power, a short one by its ends
STREAM = 2 << 30  # bytes of one array, where the memory is there
REPEATS = 2000
TENSOR = ("fp16", "bf16", "tf32", "fp8", "int8")


def ceilings(device: Device) -> list[Probe]:
    """Every probe but the curve, for this card."""
    return [*_streams(device), *_units(device.identity), *_matrices()]


def footprints(identity: Identity) -> list[int]:
    """Footprints of the L2's curve in bytes: from 1/32 of it to 4 times it, dense where it overflows."""
    size = identity.l2 or 0
    shares = (1 / 32, 1 / 16, 1 / 8, 3 / 16, 1 / 4, 5 / 16, 3 / 8, 7 / 16, 1 / 2, 5 / 8, 3 / 4, 1, 1.5, 2, 4)
    return [max(1, round(size * share / _STEP)) * _STEP for share in shares] if size else []


def l2_marches(device: Device) -> list[Probe]:
    """Every program reading each footprint in one order, as attention's blocks read K and V; the time of a step."""
    identity = device.identity

    def prepare(footprint: int) -> Prepared:
        from rooflinecli.kernels import probe_stream as stream

        torch = _torch()
        x, out = torch.arange(footprint // 4, dtype=torch.int32, device="cuda"), _empty(torch, identity.sm_count)
        rounds = max(2, -(-_LEAST_STEPS * _STEP // footprint))
        return Prepared(lambda: stream.march(x, out, rounds), stream.march(x, out, rounds), footprint)

    method = "a program on each SM over the whole footprint, all in one order and past the L1; time of a step of 16 KiB"
    size = identity.l2 or 0
    sizes = [round(size * share / 60 / _STEP) * _STEP for share in _SIXTIETHS]
    return [
        Probe("l2_march", "s", lambda one=one: prepare(one), method, cold=False)  # type: ignore[misc]
        for one in sizes
        if one
    ]


def l2_curve(device: Device) -> list[Probe]:
    """Reading each footprint again and again, 16 times the L2 in all."""
    identity = device.identity

    def prepare(footprint: int) -> Prepared:
        from rooflinecli.kernels import probe_stream as stream

        torch, programs = _torch(), identity.sm_count * stream.PROGRAMS_PER_SM
        x, out = torch.arange(footprint // 4, dtype=torch.int32, device="cuda"), _empty(torch, programs)
        nbytes = max(16 * (identity.l2 or 0), 4 * footprint)
        amount = stream.read(x, out, nbytes)
        return Prepared(lambda: stream.read(x, out, nbytes), amount, footprint)

    method = "loads that bypass the L1, every program over the whole footprint, going around; L2 not emptied"
    return [
        Probe("l2_read_curve", "B/s", lambda size=size: prepare(size), method, cold=False)  # type: ignore[misc]
        for size in footprints(identity)
    ]


_STEP = 16 << 10
_LEAST_STEPS = 1500
_SIXTIETHS = (4, 8, 12, 16, 20, 22, 24, 26, 28, 30, 32, 36, 42, 50, 60, 90, 120)  # of the L2, to march over


def stream_elements(identity: Identity, free: int) -> int:
    """Elements of one array: 2 GiB of them or an eighth of the free memory, a whole number of blocks a program."""
    whole = _STEP // 4 * identity.sm_count * 6
    return max(1, min(STREAM, free // 8) // 4 // whole) * whole


def _streams(device: Device) -> Iterator[Probe]:
    identity = device.identity
    elements = stream_elements(identity, device.free_memory())

    def arrays(count: int) -> list[Any]:
        torch = _torch()
        return [torch.arange(elements, dtype=torch.int32, device="cuda") for _ in range(count)]

    def read() -> Prepared:
        from rooflinecli.kernels import probe_stream as stream

        [x] = arrays(1)
        out = _empty(_torch(), identity.sm_count * stream.PROGRAMS_PER_SM)
        return Prepared(lambda: stream.read(x, out), stream.read(x, out), 4 * elements)

    def write() -> Prepared:
        from rooflinecli.kernels import probe_stream as stream

        [z] = arrays(1)
        return Prepared(lambda: stream.write(z), stream.write(z), 4 * elements)

    def copy() -> Prepared:
        from rooflinecli.kernels import probe_stream as stream

        x, z = arrays(2)

        def seconds(shape: tuple[int, int]) -> float:
            stream.copy(x, z, *shape)
            return min(device.time(lambda: stream.copy(x, z, *shape), 4).seconds)

        shape = min(stream.COPY_SHAPES, key=seconds)
        return Prepared(lambda: stream.copy(x, z, *shape), stream.copy(x, z, *shape), 8 * elements)

    def triad() -> Prepared:
        from rooflinecli.kernels import probe_stream as stream

        x, y, z = arrays(3)
        return Prepared(lambda: stream.triad(x, y, z), stream.triad(x, y, z), 12 * elements)

    def vendor_copy() -> Prepared:
        x, z = arrays(2)
        return Prepared(lambda: z.copy_(x), 8 * elements, 8 * elements)

    for name, prepare in (("read", read), ("write", write), ("copy", copy), ("triad", triad)):
        yield Probe(f"hbm_{name}", "B/s", prepare, f"{name} of arrays of {4 * elements} B, bytes read and written")
    yield Probe("hbm_copy_torch", "B/s", vendor_copy, "torch's copy of the same arrays, for comparison")


def _units(identity: Identity) -> Iterator[Probe]:
    def unit(name: str, per_sm: int) -> Prepared:
        from rooflinecli.kernels import probe_units as units

        torch = _torch()
        shape = (units.SHARED_ROWS, units.SHARED_COLUMNS) if name == "shared" else (units.BLOCK,)
        out = torch.ones((identity.sm_count * per_sm, *shape), device="cuda")
        run = getattr(units, name)
        return Prepared(lambda: run(out, REPEATS), run(out, REPEATS))

    def launch() -> Prepared:
        from rooflinecli.kernels import probe_units as units

        out = _empty(_torch(), 1)
        return Prepared(lambda: units.empty(out), 1)

    yield Probe("fp32_vector", "FLOP/s", lambda: unit("fp32", 16), "dependent fused multiply-adds, 16 chains a thread")
    yield Probe("exp", "op/s", lambda: unit("exp2", 16), "dependent exp2, 16 chains a thread")
    yield Probe("shared_memory", "B/s", lambda: unit("shared", 6), "16-byte loads from shared memory, no conflicts")
    yield Probe("launch", "s", launch, "an empty kernel between two events", cold=False)


def _matrices() -> Iterator[Probe]:
    def product(name: str, size: int) -> Prepared:
        torch, flops = _torch(), 2 * size**3
        a, b = (torch.randn(size, size, device="cuda") for _ in range(2))
        if name == "tf32":
            out = torch.empty_like(a)

            def run() -> object:
                before = torch.backends.cuda.matmul.allow_tf32
                torch.backends.cuda.matmul.allow_tf32 = True
                try:
                    return torch.mm(a, b, out=out)
                finally:
                    torch.backends.cuda.matmul.allow_tf32 = before

            return Prepared(run, flops)
        if name == "fp8":
            one = torch.ones((), device="cuda")
            x, y = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t()
            return Prepared(lambda: torch._scaled_mm(x, y, one, one, out_dtype=torch.bfloat16), flops)
        if name == "int8":
            x, y = ((each * 40).clamp(-127, 127).to(torch.int8) for each in (a, b))
            y = y.t()
            return Prepared(lambda: torch._int_mm(x, y), flops)
        dtype = torch.float16 if name == "fp16" else torch.bfloat16
        x, y = a.to(dtype), b.to(dtype)
        out = torch.empty_like(x)
        return Prepared(lambda: torch.mm(x, y, out=out), flops)

    for name in TENSOR:
        for size in MATRICES:
            method = f"torch's matrix product of {size}^3 on normal random {name} inputs (cuBLAS)"
            yield Probe(f"{name}_tensor", "FLOP/s", lambda name=name, size=size: product(name, size), method)  # type: ignore[misc]


def _torch() -> Any:
    import torch

    return torch


def _empty(torch: Any, elements: int) -> Any:
    return torch.empty(elements, dtype=torch.int32, device="cuda")
