"""What a model's cache would be if its heads shared keys and values another way: MHA, GQA, MQA, MLA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rooflinecli.models.kv_cache import kv_cache
from rooflinecli.models.spec import Attention, Mla, ModelSpec, variant

DEEPSEEK = (512, 64)  # latent rank and rotary dim of DeepSeek-V2 and -V3


@dataclass(frozen=True, slots=True)
class Variant:
    """A way of sharing K/V heads; `own` marks the model's. `kv_heads` is None for a latent."""

    name: str
    kv_heads: int | None
    bytes_per_token: int
    bytes_total: int
    share_of_mha: float
    own: bool


def variants(
    spec: ModelSpec,
    context: int = 1,
    batch: int = 1,
    kv_dtype: str = "fp16",
    *,
    latent: tuple[int, int] | None = None,
) -> tuple[Variant, ...]:
    """The allocated cache under every usual way of sharing K/V heads, from MHA to MQA, and with a latent.

    `latent` is (rank, rotary dim) of the MLA row; by default the model's own, else DeepSeek-V2's 512 and 64
    where that is less than MHA. Empty for a model without attention.
    """
    sample = next((attention for attention, _ in spec.attention_groups if attention.elements_per_token), None)
    if sample is None:
        return ()
    own = (sample.mla.kv_lora_rank, sample.mla.rope_dim) if sample.mla else None
    rows: list[tuple[str, int | None, ModelSpec]] = [
        (variant(sample.heads, count), count, _changed(spec, _sharing(count))) for count in _counts(sample)
    ]
    rank, rope = latent or own or DEEPSEEK
    if latent or own or rank + rope < sample.heads * (sample.head_dim + sample.v_head_dim):
        rows.append((f"MLA {rank}+{rope}", None, _changed(spec, _latent(rank, rope))))
    found: list[Variant] = []
    for name, count, changed in rows:
        cache = kv_cache(changed, context, batch, kv_dtype)
        whole = found[0].bytes_per_token if found else cache.bytes_per_token
        mine = (rank, rope) == own if count is None else own is None and count == sample.kv_heads
        share = cache.bytes_per_token / whole
        found.append(Variant(name, count, cache.bytes_per_token, cache.bytes_allocated, share, mine))
    return tuple(found)


def _counts(sample: Attention) -> list[int]:
    """K/V heads worth a row: all, halves of that as long as it goes, the model's own, one."""
    counts = {sample.heads, 1, sample.heads if sample.mla else sample.kv_heads}
    half = sample.heads
    while half % 2 == 0:
        half //= 2
        counts.add(half)
    return sorted(counts, reverse=True)


def _sharing(kv_heads: int) -> Callable[[Attention], Attention]:
    return lambda a: replace(a, kind="full" if a.mla else a.kind, kv_heads=kv_heads, mla=None)


def _latent(rank: int, rope: int) -> Callable[[Attention], Attention]:
    return lambda a: replace(a, kind="mla", mla=Mla(rank, rope, a.head_dim, a.v_head_dim))


def _changed(spec: ModelSpec, change: Callable[[Attention], Attention]) -> ModelSpec:
    layers = tuple(
        replace(layer, attention=change(layer.attention)) if layer.attention.elements_per_token else layer
        for layer in spec.layers
    )
    return replace(spec, layers=layers)
