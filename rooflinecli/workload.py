"""The attention problem everything else is asked about."""

from __future__ import annotations

from dataclasses import dataclass, fields

from rooflinecli.dtypes import DType, compute_dtype, dtype
from rooflinecli.errors import InputError, naming

MAX_DIMENSION = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One attention call: Q (batch, heads, n_q, d), K (batch, kv_heads, n_kv, d), V (..., n_kv, d_v).

    Causal masks are aligned bottom-right: query `i` stands at position `i + n_kv - n_q`. A `window` of
    W keys includes the query's own position; without `causal` it reaches W - 1 keys to each side.
    Fields left `None` take the default of the field they follow: `kv_heads` of `heads`, `n_kv` of
    `n_q`, `d_v` of `d`, `kv_dtype` and `s_dtype` of `dtype`.

    Raises:
        InputError: a dimension under 1 or over 2**40, heads not divisible by kv_heads, a window
            under 1, an unknown dtype, a head dim that a block-scaled cache format cannot store.
    """

    batch: int = 1
    heads: int = 1
    kv_heads: int = None  # type: ignore[assignment]  # filled in __post_init__, so that readers see an int
    n_q: int
    n_kv: int = None  # type: ignore[assignment]
    d: int
    d_v: int = None  # type: ignore[assignment]
    dtype: str = "fp16"
    kv_dtype: str = None  # type: ignore[assignment]
    s_dtype: str = None  # type: ignore[assignment]
    causal: bool = False
    window: int | None = None

    def __post_init__(self) -> None:
        for field, source in DEFAULTS.items():
            if getattr(self, field) is None:
                object.__setattr__(self, field, getattr(self, source))
        for field, option in OPTIONS.items():
            value = getattr(self, field)
            if field == "window" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise InputError(f"{option} {value!r}: must be a whole number")
            if value < 1:
                raise InputError(f"{option} {value}: must be at least 1")
            if value > MAX_DIMENSION:
                raise InputError(f"{option} {value}: must be at most 2^40 ({MAX_DIMENSION})")
        if self.heads % self.kv_heads:
            raise InputError(f"--kv-heads {self.kv_heads}: must divide --heads {self.heads}")
        for field, known in (("dtype", compute_dtype), ("kv_dtype", dtype), ("s_dtype", dtype)):
            asked = getattr(self, field)
            with naming(f"--{field.replace('_', '-')}", asked):
                object.__setattr__(self, field, known(asked).name)
        block = self.kv.block_elements
        for option, size in (("--d", self.d), ("--d-v", self.d_v)):
            if size % block:
                raise InputError(f"{option} {size}: --kv-dtype {self.kv_dtype} stores blocks of {block} elements")

    @property
    def group(self) -> int:
        """Query heads that share one K/V head."""
        return self.heads // self.kv_heads

    @property
    def storage(self) -> DType:
        """The format of Q and O."""
        return dtype(self.dtype)

    @property
    def kv(self) -> DType:
        """The format of K and V."""
        return dtype(self.kv_dtype)

    @property
    def scores(self) -> DType:
        """The format naive attention keeps S and P in."""
        return dtype(self.s_dtype)

    def echo(self) -> dict[str, object]:
        """The fields by name, for JSON."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


# A field left out follows another one.
DEFAULTS = {"kv_heads": "heads", "n_kv": "n_q", "d_v": "d", "kv_dtype": "dtype", "s_dtype": "dtype"}
# How each dimension is called on the command line, in messages.
OPTIONS = {"batch": "--batch", "heads": "--heads", "kv_heads": "--kv-heads", "n_q": "--N", "n_kv": "--N-kv",
           "d": "--d", "d_v": "--d-v", "window": "--window"}  # fmt: skip
