"""A model given by its dimensions instead of a name, and a known model with its K/V heads changed."""

from __future__ import annotations

from dataclasses import replace

from rooflinecli.errors import InputError
from rooflinecli.models.spec import Attention, Kind, Layer, Mla, ModelSpec
from rooflinecli.workload import MAX_DIMENSION

MOST_LAYERS = 10_000


def model_of(
    *,
    layers: int,
    heads: int,
    d: int,
    kv_heads: int | None = None,
    d_v: int | None = None,
    window: int | None = None,
    latent: tuple[int, int] | None = None,
) -> ModelSpec:
    """A model of `layers` equal layers; `latent` (rank, rotary dim) makes its attention MLA.

    Raises:
        InputError: a count out of range, heads that the K/V heads do not divide.
    """
    shared = heads if kv_heads is None else kv_heads
    counts = {"--layers": layers, "--heads": heads, "--kv-heads": shared, "--d": d, "--d-v": d_v, "--window": window,
              "--kv-lora-rank": latent and latent[0], "--rope-dim": latent and latent[1]}  # fmt: skip
    for option, value in counts.items():
        most = MOST_LAYERS if option == "--layers" else MAX_DIMENSION
        if value is not None and not 1 <= value <= most:
            raise InputError(f"{option} {value}: must be at least 1 and at most {most}")
    if heads % shared:
        raise InputError(f"--kv-heads {shared}: must divide --heads {heads}")
    mla = Mla(latent[0], latent[1], d, d_v or d) if latent else None
    kind: Kind = "mla" if mla else "full" if window is None else "sliding"
    if mla and window is not None:
        raise InputError(f"--window {window}: not with a latent cache")
    attention = Attention(kind, heads, shared, d, d_v or d, window, mla)
    return ModelSpec(name="custom", family="custom", hidden=heads * d, layers=(Layer(attention),) * layers)


def with_kv_heads(spec: ModelSpec, kv_heads: int) -> ModelSpec:
    """`spec` as if each of its layers had `kv_heads` K/V heads; its weights are then not known.

    Raises:
        InputError: they do not divide the query heads, or the model has a latent instead.
    """
    if any(attention.mla for attention, _ in spec.attention_groups):
        raise InputError(f"--kv-heads {kv_heads}: {spec.name} caches a latent, which has no K/V heads")
    for attention, _ in spec.attention_groups:
        if kv_heads < 1 or attention.heads % kv_heads:
            raise InputError(f"--kv-heads {kv_heads}: must divide the {attention.heads} query heads of {spec.name}")
    layers = tuple(replace(layer, attention=replace(layer.attention, kv_heads=kv_heads)) for layer in spec.layers)
    return replace(spec, layers=layers, notes=(*spec.notes, f"with {kv_heads} K/V heads instead of its own"))
