"""A model's cache on a device: what fits beside the weights, and how long it takes to read it once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rooflinecli.dtypes import dtype
from rooflinecli.errors import InputError, naming
from rooflinecli.models.kv_cache import Cache, kv_cache, longest_context, sequence_bytes
from rooflinecli.models.variants import Variant, variants
from rooflinecli.models.weights import parameters

if TYPE_CHECKING:
    from rooflinecli.hardware import Profile
    from rooflinecli.models.spec import ModelSpec

NO_WEIGHTS = "none"


@dataclass(frozen=True, slots=True)
class Fit:
    """What fits in `memory` bytes of one device.

    budget: what weights and reserve leave; negative where the weights alone are too large. users: sequences
    of the context asked for; context: tokens for each of the sequences asked for, `None` where no context is
    too long. Plain figures allocate the whole context in every layer, `*_resident` only what windows hold.
    """

    memory: int
    weights: int
    reserve: int
    budget: int
    users: int
    users_resident: int
    context: int | None
    context_resident: int | None


@dataclass(frozen=True, slots=True)
class Reading:
    """The resident cache of one device, read once at its memory bandwidth: no decode step is faster."""

    gpu: str
    name: str
    bandwidth: float
    source: str
    bytes: int
    seconds: float
    fit: Fit | None = None


@dataclass(frozen=True, slots=True)
class KvAccount:
    """Everything `kv_account` found. `device` is the share of one device among `cache.tp`, where there are several."""

    spec: ModelSpec
    cache: Cache
    device: Cache | None
    weights_dtype: str
    parameters: int | None
    memory_fit: Fit | None
    readings: tuple[Reading, ...]
    variants: tuple[Variant, ...]


def kv_account(
    spec: ModelSpec,
    context: int = 1,
    batch: int = 1,
    kv_dtype: str = "fp16",
    *,
    page_size: int | None = None,
    tp: int = 1,
    gpu: Sequence[str | Profile] = (),
    memory: int | None = None,
    weights_dtype: str | None = None,
    reserve: int = 0,
    with_variants: bool = False,
    latent: tuple[int, int] | None = None,
) -> KvAccount:
    """The cache of `batch` sequences of `context` tokens, and what fits.

    Args:
        spec: the model.
        kv_dtype: format of the cache; scaled formats include their scales.
        page_size: tokens in a page of a paged cache.
        tp: devices that share the model by tensor parallelism; memory and reads are then of each.
        gpu: profile ids, families, files or profiles: the budget is their memory, the reading at their bandwidth.
        memory: bytes of one device, where the budget is to be that. Without `gpu`, reads are on an A100.
        weights_dtype: format of the weights that share the memory; `none` subtracts none. Default: fp16.
        reserve: bytes of each device kept for other things (activations, the runtime).
        with_variants, latent: see `rooflinecli.models.variants`.

    Raises:
        InputError: a count out of range, a split that is not even, weights that are not known.
    """
    cache = kv_cache(spec, context, batch, kv_dtype, page_size=page_size)
    device = kv_cache(spec, context, batch, kv_dtype, page_size=page_size, tp=tp) if tp > 1 else None
    wants_fit = bool(gpu) or memory is not None
    weights, label = _weights(spec, weights_dtype, needed=wants_fit)
    share = -(-weights // tp)
    profiles = [_profile(each) for each in gpu or ("a100",)]
    readings = []
    for profile in profiles:
        fit = None
        if gpu and memory is None:
            if profile.dram.capacity is None:
                raise InputError(f"--gpu {profile.id}: its profile does not know how much memory there is", "--memory")
            fit = _fit(spec, cache, int(profile.dram.capacity.value), share, reserve, tp)
        readings.append(_reading(spec, profile, cache, tp, fit))
    return KvAccount(
        spec=spec,
        cache=cache,
        device=device,
        weights_dtype=label,
        parameters=parameters(spec),
        memory_fit=None if memory is None else _fit(spec, cache, memory, share, reserve, tp),
        readings=tuple(readings),
        variants=variants(spec, context, batch, kv_dtype, latent=latent) if with_variants else (),
    )


def _profile(gpu: str | Profile) -> Profile:
    if not isinstance(gpu, str):
        return gpu
    from rooflinecli.hardware import load_profile

    with naming("--gpu", gpu):
        return load_profile(gpu)


def _weights(spec: ModelSpec, asked: str | None, *, needed: bool) -> tuple[int, str]:
    """Bytes of all weights, and the format they are in."""
    if asked == NO_WEIGHTS or (asked is None and not spec.source):
        return 0, NO_WEIGHTS  # a model given by its dimensions has no weights that anybody knows
    with naming("--weights-dtype", asked):
        storage = dtype(asked or "fp16")
    count = parameters(spec)
    if count is None:
        if needed:
            raise InputError(
                f"--model {spec.name}: how many weights {spec.family} has is not known here, nor what they leave",
                "--weights-dtype none, with --reserve for what the weights take",
            )
        return 0, NO_WEIGHTS
    return storage.nbytes(count), storage.name


def _fit(spec: ModelSpec, cache: Cache, memory: int, weights: int, reserve: int, tp: int) -> Fit:
    budget = memory - weights - reserve

    def taken(tokens: int, *, windows: bool) -> int:
        return sequence_bytes(spec, tokens, cache.dtype, cache.page_size, tp, windows=windows)

    def users(*, windows: bool) -> int:
        each = taken(cache.context, windows=windows)
        return max(0, budget) // each if each else 0

    def context(*, windows: bool) -> int | None:
        if budget <= 0:
            return 0
        return longest_context(lambda tokens: cache.batch * taken(tokens, windows=windows) <= budget)

    return Fit(
        memory=memory,
        weights=weights,
        reserve=reserve,
        budget=budget,
        users=users(windows=False),
        users_resident=users(windows=True),
        context=context(windows=False),
        context_resident=context(windows=True),
    )


def _reading(spec: ModelSpec, profile: Profile, cache: Cache, tp: int, fit: Fit | None) -> Reading:
    """Pages are allocated whole, but only their tokens are read."""
    figure = profile.dram.bandwidth
    if figure is None:
        raise InputError(f"--gpu {profile.id}: its profile does not know the memory bandwidth")
    held = kv_cache(spec, cache.context, cache.batch, cache.dtype, tp=tp)
    moved = held.bytes_resident + held.state_bytes
    return Reading(profile.id, profile.name, figure.value, figure.source, moved, moved / figure.value, fit)
