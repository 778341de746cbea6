"""What a model's K/V cache takes: a token, a sequence, a batch, a device; allocated and resident, in whole pages.

Allocated: every layer holds the whole context, as a cache that knows no windows reserves it. Resident: a layer
with a window of W tokens holds min(context, W). Sequences are rounded up to whole pages where there are pages;
a page that still holds one visible token is resident.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rooflinecli.dtypes import DType, dtype
from rooflinecli.errors import InputError, naming
from rooflinecli.models.spec import Attention, ModelSpec

TABLE_ENTRY_BYTES = 4
LONGEST = 2**40


@dataclass(frozen=True, slots=True)
class KvLayer:
    """`count` layers of one kind. Bytes are one layer's, all of its K/V heads; `tokens` are what one holds resident.

    replicas: devices that hold a copy of the same K/V heads (or latent) under tensor parallelism.
    """

    kind: str
    variant: str
    window: int | None
    count: int
    kv_heads: int
    elements_per_token: int
    bytes_per_token: int
    tokens: int
    replicas: int = 1


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache of `batch` sequences of `context` tokens. `bytes_*` are of the whole batch.

    block_table_bytes: 4 B a page a sequence. state_bytes: what layers with linear attention keep, whatever
    the context. Neither is in `bytes_allocated` and `bytes_resident`, which are keys and values.
    """

    context: int
    batch: int
    dtype: str
    page_size: int | None
    tp: int
    layers: tuple[KvLayer, ...]
    bytes_per_token: int
    bytes_allocated: int
    bytes_resident: int
    block_table_bytes: int
    state_bytes: int


def kv_cache(
    spec: ModelSpec,
    context: int = 1,
    batch: int = 1,
    kv_dtype: str = "fp16",
    *,
    page_size: int | None = None,
    tp: int = 1,
) -> Cache:
    """The cache of one device among `tp` (of the only one, by default).

    Raises:
        InputError: a count under 1, heads that `tp` does not divide, a head dim that the blocks of `kv_dtype`
            do not divide.
    """
    for option, value in (
        ("--context", context),
        ("--batch", batch),
        ("--tp", tp),
        ("--page-size", 1 if page_size is None else page_size),
    ):
        if value < 1:
            raise InputError(f"{option} {value}: must be at least 1")
        if value > LONGEST:
            raise InputError(f"{option} {value}: must be at most 2^40 ({LONGEST})")
    with naming("--kv-dtype", kv_dtype):
        storage = dtype(kv_dtype)
    layers, allocated, resident, state = [], 0, 0, 0
    for attention, count in spec.attention_groups:
        mine, replicas = on_device(attention, tp)
        per_token = bytes_per_token(mine, storage)
        held = resident_tokens(attention, context, page_size)
        allocated += count * per_token * _whole(context, page_size)
        resident += count * per_token * held
        state += count * state_bytes(mine, storage)
        layers.append(
            KvLayer(mine.kind, attention.variant, attention.window, count, 1 if mine.mla else mine.kv_heads,
                    mine.elements_per_token, per_token, held, replicas)
        )  # fmt: skip
    return Cache(
        context=context,
        batch=batch,
        dtype=storage.name,
        page_size=page_size,
        tp=tp,
        layers=tuple(layers),
        bytes_per_token=sum(layer.count * layer.bytes_per_token for layer in layers),
        bytes_allocated=batch * allocated,
        bytes_resident=batch * resident,
        block_table_bytes=0 if page_size is None else batch * TABLE_ENTRY_BYTES * -(-context // page_size),
        state_bytes=batch * state,
    )


def bytes_per_token(attention: Attention, storage: DType) -> int:
    """Bytes that one token adds to one layer, scales of a quantised cache included.

    Raises:
        InputError: a row (a head's K or V, or the latent) is not a whole number of the format's blocks.
    """
    a, block = attention, storage.block_elements
    if a.elements_per_token == 0:
        return 0
    rows = [a.mla.kv_lora_rank + a.mla.rope_dim] if a.mla is not None else [a.head_dim, a.v_head_dim]
    for row in (*rows, a.index_dim):
        if row % block:
            raise InputError(f"--kv-dtype {storage.name}: stores blocks of {block} elements, which do not divide {row}")
    return storage.nbytes(a.elements_per_token)


def state_bytes(attention: Attention, storage: DType) -> int:
    """Bytes one sequence's fixed state takes in one layer: the recurrent state and the convolution's inputs."""
    s = attention.state
    if s is None:
        return 0
    return storage.nbytes(s.value_heads * s.key_dim * s.value_dim + s.conv_width * (s.conv - 1))


def on_device(attention: Attention, tp: int) -> tuple[Attention, int]:
    """The share of one device among `tp`, and how many devices hold the same keys and values.

    Query heads are split. K/V heads are split too, or, where there are fewer of them than devices, each is
    held by several. The latent of MLA belongs to all heads: every device holds it whole.

    Raises:
        InputError: the heads do not split evenly.
    """
    a = attention
    if tp == 1:
        return a, 1
    if a.heads % tp:
        raise InputError(f"--tp {tp}: does not divide {a.heads} query heads", _divisors_hint(a.heads))
    if a.mla is not None:
        return replace(a, heads=a.heads // tp, kv_heads=a.kv_heads // tp), tp
    if a.state is not None:
        s = a.state
        if s.key_heads % tp or s.value_heads % tp:
            raise InputError(f"--tp {tp}: does not divide {s.key_heads} key and {s.value_heads} value heads of "
                             "the linear attention")  # fmt: skip
        share = replace(s, key_heads=s.key_heads // tp, value_heads=s.value_heads // tp)
        return replace(a, heads=a.heads // tp, state=share), 1
    if a.kv_heads % tp == 0:
        return replace(a, heads=a.heads // tp, kv_heads=a.kv_heads // tp), 1
    if tp % a.kv_heads == 0:
        return replace(a, heads=a.heads // tp, kv_heads=1), tp // a.kv_heads
    raise InputError(f"--tp {tp}: {a.kv_heads} K/V heads neither split among {tp} devices nor repeat evenly",
                     _divisors_hint(a.heads))  # fmt: skip


def resident_tokens(attention: Attention, context: int, page_size: int | None = None) -> int:
    """Tokens whose keys one layer still holds after `context` tokens, in whole pages where there are pages."""
    window = attention.window
    if window is None or window >= context:
        return _whole(context, page_size)
    if page_size is None:
        return window
    if attention.kind == "chunked":
        return _whole(window, page_size)
    first, last = (context - window) // page_size, (context - 1) // page_size
    return (last - first + 1) * page_size


def most_resident_tokens(attention: Attention, context: int, page_size: int | None = None) -> int:
    """The most one layer holds at any time while a sequence grows to `context` tokens.

    A window that is not aligned to pages touches one page more than one that is.
    """
    window = attention.window
    whole = _whole(context, page_size)
    if window is None or page_size is None or attention.kind == "chunked":
        return resident_tokens(attention, context, page_size)
    return min(whole, (-(-(window - 1) // page_size) + 1) * page_size)


def sequence_bytes(
    spec: ModelSpec, context: int, kv_dtype: str, page_size: int | None = None, tp: int = 1, *, windows: bool
) -> int:
    """The most one sequence takes on a device while it grows to `context`: keys, values, block table, state.

    `windows` frees what has left a layer's window; without, every layer keeps everything.
    """
    storage, total = dtype(kv_dtype), 0
    for attention, count in spec.attention_groups:
        mine, _ = on_device(attention, tp)
        held = most_resident_tokens(attention, context, page_size) if windows else _whole(context, page_size)
        total += count * (bytes_per_token(mine, storage) * held + state_bytes(mine, storage))
    return total + (0 if page_size is None else TABLE_ENTRY_BYTES * -(-context // page_size))


def longest_context(fits: Callable[[int], bool]) -> int | None:
    """The longest context for which `fits` holds (it must not come back once false); `None` where none is too long."""
    if fits(LONGEST):
        return None
    low, high = 0, LONGEST
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def _whole(tokens: int, page_size: int | None) -> int:
    return tokens if page_size is None else -(-tokens // page_size) * page_size


def _divisors_hint(heads: int) -> str:
    able = [count for count in (1, 2, 4, 8, 16, 32, 64, heads) if heads % count == 0]
    return f"--tp {' or '.join(str(count) for count in dict.fromkeys(able))} would"
