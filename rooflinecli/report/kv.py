"""How a cache is shown: the JSON contract `rooflinecli/kv/1`, flat records, sheets."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rooflinecli import __version__
from rooflinecli.report.sheet import Line, Section, Sheet, View, flatten
from rooflinecli.units import format_bytes, format_capacity, format_rate, format_seconds

if TYPE_CHECKING:
    from rooflinecli.capacity import Fit, KvAccount, Reading
    from rooflinecli.models.kv_cache import Cache, KvLayer

SCHEMA = "rooflinecli/kv/1"


def view(account: KvAccount) -> View:
    """The account, ready for any format."""
    document = _document(account)
    plain = {key: value for key, value in document.items() if key not in ("schema", "version", "command")}
    if account.variants:
        records = [{"model": account.spec.name, **asdict(each)} for each in account.variants]
    else:
        records = [flatten({**plain, "gpus": None, "gpu": reading}) for reading in document["gpus"]]
    return View(document, records, lambda: _sheets(account))


def _document(account: KvAccount) -> dict[str, Any]:
    spec, cache = account.spec, account.cache
    fit = account.memory_fit or (account.readings[0].fit if account.readings else None)
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "version": __version__,
        "command": ["rooflinecli", *sys.argv[1:]],
        "model": spec.name,
        "family": spec.family,
        "source": spec.source,
        "context": cache.context,
        "batch": cache.batch,
        "kv_dtype": cache.dtype,
        "page_size": cache.page_size,
        "tp": (account.device or cache).tp,
        "layers": [_layer(layer) for layer in cache.layers],
        "bytes_per_token": cache.bytes_per_token,
        "bytes_per_sequence": cache.bytes_allocated // cache.batch,
        "bytes_allocated": cache.bytes_allocated,
        "bytes_resident": cache.bytes_resident,
        "block_table_bytes": cache.block_table_bytes,
        "state_bytes": cache.state_bytes,
        "parameters": account.parameters,
        "weights_dtype": account.weights_dtype,
        "gpus": [_reading(reading) for reading in account.readings],
        "notes": _plain_notes(account),
        "assumed": list(spec.assumed),
        "warnings": list(spec.warnings),
        "from_memory": list(spec.from_memory),
    }
    if account.device is not None:
        document["per_device"] = _per_device(account.device)
    if fit is not None:
        document["fits"] = asdict(fit)
    if account.variants:
        document["variants"] = [asdict(each) for each in account.variants]
    return document


def _layer(layer: KvLayer) -> dict[str, Any]:
    return {
        "kind": layer.kind,
        "variant": layer.variant,
        "window": layer.window,
        "count": layer.count,
        "kv_heads": layer.kv_heads,
        "elements_per_token": layer.elements_per_token,
        "bytes_per_token": layer.bytes_per_token,
        "bytes_per_token_all": layer.count * layer.bytes_per_token,
        "tokens_resident": layer.tokens,
    }


def _per_device(cache: Cache) -> dict[str, Any]:
    return {
        "bytes_per_token": cache.bytes_per_token,
        "bytes_allocated": cache.bytes_allocated,
        "bytes_resident": cache.bytes_resident,
        "state_bytes": cache.state_bytes,
        "layers": [{**_layer(layer), "replicas": layer.replicas} for layer in cache.layers],
    }


def _reading(reading: Reading) -> dict[str, Any]:
    return {
        "id": reading.gpu,
        "name": reading.name,
        "bandwidth": {"value": reading.bandwidth, "unit": "B/s", "source": reading.source},
        "bytes_read": reading.bytes,
        "read_seconds": reading.seconds,
        "fits": None if reading.fit is None else asdict(reading.fit),
    }


def _sheets(account: KvAccount) -> list[Sheet]:
    sheets = [_cache_sheet(account)]
    if account.variants:
        sheets.append(_variants_sheet(account))
    fits = [(reading.name, reading.fit) for reading in account.readings if reading.fit is not None]
    if account.memory_fit is not None:
        fits.insert(0, (format_capacity(account.memory_fit.memory), account.memory_fit))
    if fits:
        sheets.append(_fit_sheet(account, fits))
    return sheets


def _cache_sheet(account: KvAccount) -> Sheet:
    spec, cache, device = account.spec, account.cache, account.device
    columns = ["whole model"] if device is None else ["whole model", f"each of {device.tp} devices"]
    caches = [cache] if device is None else [cache, device]

    def line(label: str, values: list[str], strong: bool = False) -> Line:
        return Line(label, values, strong)

    kinds = [
        line(_kind(layer), [_per_token(each.layers[index]) for each in caches])
        for index, layer in enumerate(cache.layers)
    ]
    totals = [
        line("a token, all layers", [format_capacity(each.bytes_per_token) for each in caches], strong=True),
        line("a sequence, allocated", [format_capacity(each.bytes_allocated // cache.batch) for each in caches]),
        line("the batch, allocated", [format_capacity(each.bytes_allocated) for each in caches], strong=True),
        line("the batch, resident", [format_capacity(each.bytes_resident) for each in caches], strong=True),
    ]
    if cache.page_size is not None:
        totals.append(line("block tables", [format_capacity(each.block_table_bytes) for each in caches]))
    if cache.state_bytes:
        totals.append(line("states of linear layers", [format_capacity(each.state_bytes) for each in caches]))
    reads = [
        Line(f"{reading.name}, {format_rate(reading.bandwidth, 'B/s')}",
             [*("" for _ in caches[1:]), f"{format_seconds(reading.seconds)} for {format_bytes(reading.bytes)}"])
        for reading in account.readings
    ]  # fmt: skip
    heading = "read once at memory bandwidth: no decode step is faster"
    return Sheet(
        title=_title(account),
        subtitle=[f"{spec.family}; {spec.source}"] if spec.source else [],
        columns=columns,
        sections=[Section("one layer of each kind, a token", kinds), Section("cache", totals), Section(heading, reads)],
        notes=_notes(account),
    )


def _title(account: KvAccount) -> str:
    cache = account.cache
    pages = f", pages of {cache.page_size}" if cache.page_size else ""
    tokens = f"{cache.context} token" + ("s" if cache.context != 1 else "")
    many = f"{cache.batch} sequence" + ("s" if cache.batch != 1 else "")
    return f"K/V cache of {account.spec.name}: {many} of {tokens}, {cache.dtype}{pages}"


def _kind(layer: KvLayer) -> str:
    window = "" if layer.window is None else f", window {layer.window}"
    return f"{layer.count} × {layer.kind}{window} ({layer.variant})"


def _per_token(layer: KvLayer) -> str:
    held = "K/V head" + ("s" if layer.kv_heads != 1 else "")
    if layer.kind == "mla":
        text = f"{format_capacity(layer.bytes_per_token)}, one latent"
    elif layer.bytes_per_token == 0:
        return "nothing"
    else:
        text = f"{format_capacity(layer.bytes_per_token)}, {layer.kv_heads} {held}"
    return text + (f", a copy on {layer.replicas}" if layer.replicas > 1 else "")


def _variants_sheet(account: KvAccount) -> Sheet:
    cache = account.cache
    lines = [
        Line(
            f"{each.name}{' (this model)' if each.own else ''}",
            [
                "latent" if each.kv_heads is None else str(each.kv_heads),
                format_capacity(each.bytes_per_token),
                format_capacity(each.bytes_total),
                f"{each.share_of_mha:.3g}×",
            ],
            strong=each.own,
        )
        for each in account.variants
    ]
    total = f"{cache.batch} × {cache.context} tokens"
    return Sheet("The same model with other K/V heads, allocated", ["K/V heads", "a token", total, "of MHA"],
                 [Section("", lines)])  # fmt: skip


def _fit_sheet(account: KvAccount, fits: list[tuple[str, Fit]]) -> Sheet:
    cache, tp = account.cache, (account.device or account.cache).tp
    share = "" if tp == 1 else f", 1/{tp} of them"
    windows = any(layer.window is not None for layer in cache.layers)

    def row(label: str, cell: Any, strong: bool = False) -> Line:
        return Line(label, [cell(fit) for _, fit in fits], strong)

    memory = [
        row("memory", lambda fit: format_capacity(fit.memory)),
        row(f"weights ({account.weights_dtype}{share})", lambda fit: format_capacity(fit.weights)),
        *([row("reserve", lambda fit: format_capacity(fit.reserve))] if any(fit.reserve for _, fit in fits) else []),
        row("left for the cache", lambda fit: format_capacity(max(0, fit.budget)), strong=True),
    ]
    sequences = "1 sequence" if cache.batch == 1 else f"{cache.batch} sequences"
    answers = [
        row(f"users at {cache.context} tokens", lambda fit: str(fit.users), strong=True),
        row(
            f"tokens for {sequences}",
            lambda fit: _tokens(fit.context),
            strong=True,
        ),
    ]
    if windows:
        answers += [
            row("users, if windows free what they pass", lambda fit: str(fit.users_resident)),
            row("tokens, if windows free what they pass", lambda fit: _tokens(fit.context_resident)),
        ]
    notes = [
        f"{name}: the weights alone are {format_capacity(fit.weights)}, more than there is."
        for name, fit in fits
        if fit.weights > fit.memory
    ]
    longest = account.spec.max_context
    if longest is not None:
        notes.append(f"The model itself is made for {longest} tokens.")
    title = "What fits" if tp == 1 else f"What fits on each of {tp} devices"
    return Sheet(title, [name for name, _ in fits], [Section("", memory), Section("", answers)], notes=notes)


def _tokens(count: int | None) -> str:
    return "no limit" if count is None else str(count)


def _plain_notes(account: KvAccount) -> list[str]:
    """What the model's own notes say, and what this question adds."""
    notes = list(account.spec.notes)
    longest = account.spec.max_context
    if longest is not None and account.cache.context > longest:
        notes.append(f"{account.cache.context} tokens are more than the {longest} the model is made for")
    device = account.device
    if device is not None and any(layer.replicas > 1 and layer.kind != "mla" for layer in device.layers):
        notes.append(f"there are fewer K/V heads than {device.tp} devices: several hold the same")
    return notes


def _notes(account: KvAccount) -> list[str]:
    spec = account.spec
    notes = [f"{note[0].upper()}{note[1:]}." for note in _plain_notes(account)]
    if account.cache.bytes_resident != account.cache.bytes_allocated:
        notes.append("Allocated: every layer holds the whole context. Resident: layers hold what their window shows.")
    if any(layer.kind == "mla" for layer in account.cache.layers) and account.device is not None:
        notes.append("The latent belongs to all heads: every device holds it whole.")
    if spec.from_memory:
        notes.append(f"Not looked up, from memory: {', '.join(spec.from_memory)}.")
    return notes
