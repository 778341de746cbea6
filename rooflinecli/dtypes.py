"""Storage formats: how many bytes so many elements take, and which hardware peak applies to them."""

from __future__ import annotations

from dataclasses import dataclass

from rooflinecli.errors import InputError, unknown_name


@dataclass(frozen=True, slots=True)
class DType:
    """A storage format.

    `block_elements` consecutive elements take `block_bytes` bytes, scales included; plain formats
    have blocks of one element (two for 4-bit ones). `peaks` names the profile peaks that apply to
    matrix products on this format, best first; empty for formats only a KV cache is stored in.
    """

    name: str
    block_elements: int
    block_bytes: int
    peaks: tuple[str, ...] = ()

    @property
    def bytes_per_element(self) -> float:
        """Bytes an element takes on average, scales included."""
        return self.block_bytes / self.block_elements

    def nbytes(self, elements: int) -> int:
        """Bytes of `elements` stored elements, a last partial block counted whole."""
        return -(-elements // self.block_elements) * self.block_bytes


_ALL = (
    DType("fp64", 1, 8, ("fp64_tensor", "fp64_vector")),
    DType("fp32", 1, 4, ("fp32_tensor", "fp32_vector")),
    DType("tf32", 1, 4, ("tf32_tensor",)),
    DType("fp16", 1, 2, ("fp16_tensor",)),
    DType("bf16", 1, 2, ("bf16_tensor",)),
    DType("fp8_e4m3", 1, 1, ("fp8_tensor",)),
    DType("fp8_e5m2", 1, 1, ("fp8_tensor",)),
    DType("int8", 1, 1, ("int8_tensor", "int8_vector")),
    # Formats of a cache only. Scaled ones follow their published block layouts: llama.cpp's q8_0 and
    # q4_0 (32 elements and an fp16 scale), OCP MX (32 and an 8-bit scale), NVFP4 (16 and an fp8 scale).
    DType("int4", 2, 1),
    DType("fp4", 2, 1),
    DType("q8_0", 32, 34),
    DType("q4_0", 32, 18),
    DType("mxfp8", 32, 33),
    DType("mxfp4", 32, 17),
    DType("nvfp4", 16, 9),
)
DTYPES: dict[str, DType] = {dtype.name: dtype for dtype in _ALL}
ALIASES = {"fp8": "fp8_e4m3", "e4m3": "fp8_e4m3", "e5m2": "fp8_e5m2", "float32": "fp32", "float16": "fp16",
           "half": "fp16", "bfloat16": "bf16"}  # fmt: skip


def dtype(name: str) -> DType:
    """The format called `name` (or one of its aliases).

    Raises:
        InputError: nobody knows it; the nearest names are in the message.
    """
    key = name.strip().lower()
    found = DTYPES.get(ALIASES.get(key, key))
    if found is None:
        raise unknown_name("dtype", name, DTYPES)
    return found


def compute_dtype(name: str) -> DType:
    """The format called `name`, which must be one that matrix products are computed in."""
    found = dtype(name)
    if not found.peaks:
        able = ", ".join(known.name for known in _ALL if known.peaks)
        raise InputError(f"dtype {name!r} only stores a KV cache; nothing computes in it", f"computing: {able}")
    return found
