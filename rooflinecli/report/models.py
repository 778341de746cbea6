"""How models are shown: a table of all, one taken apart, and the parts of its steps."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rooflinecli import __version__
from rooflinecli.models.kv_cache import kv_cache
from rooflinecli.models.presets import aliases, preset_names
from rooflinecli.models.weights import active_parameters, parameters
from rooflinecli.report.sheet import Line, Section, Sheet, View, flatten
from rooflinecli.units import format_bytes, format_capacity, format_rate, format_seconds

if TYPE_CHECKING:
    from rooflinecli.models.spec import Attention, ModelSpec
    from rooflinecli.step import Part, Step

LIST_SCHEMA, SHOW_SCHEMA = "rooflinecli/models/1", "rooflinecli/model/1"


def list_view(specs: Sequence[ModelSpec]) -> View:
    """Models side by side, ready for any format."""
    rows = [_row(spec) for spec in specs]
    document = {**_head(LIST_SCHEMA), "models": rows}
    records = [
        {key: " ".join(map(str, value)) if isinstance(value, list) else value for key, value in row.items()}
        for row in rows
    ]
    return View(document, records, lambda: [_list_sheet(specs, rows)])


def show_view(spec: ModelSpec, steps: Sequence[Step]) -> View:
    """One model and its steps, ready for any format; records are the parts of the steps, or the model's layers."""
    document = {**_head(SHOW_SCHEMA), **_row(spec), "layers": _layers(spec), "steps": [_step(step) for step in steps]}
    document |= {"notes": list(spec.notes), "assumed": list(spec.assumed), "warnings": list(spec.warnings)}
    records = [
        {"model": spec.name, "gpu": step["gpu"]["id"], "phase": step["phase"], "context": step["context"],
         "batch": step["batch"], **part}
        for step in document["steps"]
        for part in step["parts"]
    ]  # fmt: skip
    layers = [flatten({"model": spec.name, **layer}) for layer in document["layers"]]
    return View(document, records or layers, lambda: [_show_sheet(spec), *(_step_sheet(step) for step in steps)])


def _head(schema: str) -> dict[str, Any]:
    return {"schema": schema, "version": __version__, "command": ["rooflinecli", *sys.argv[1:]]}


def _row(spec: ModelSpec) -> dict[str, Any]:
    sample = _sample(spec)
    return {
        "name": spec.name,
        "aliases": aliases(spec.name) if spec.name in preset_names() else [],
        "family": spec.family,
        "n_layers": len(spec.layers),
        "hidden_size": spec.hidden,
        "heads": sample.heads,
        "kv_heads": 1 if sample.mla else sample.kv_heads,
        "head_dim": sample.head_dim,
        "attention": sample.variant,
        "windows": sorted({a.window for a, _ in spec.attention_groups if a.window is not None}),
        "vocab_size": spec.vocab,
        "max_context": spec.max_context,
        "tied_embeddings": spec.tied,
        "parameters": parameters(spec),
        "active_parameters": active_parameters(spec),
        "kv_bytes_per_token_fp16": kv_cache(spec).bytes_per_token,
        "source": spec.source,
        "from_memory": list(spec.from_memory),
    }


def _sample(spec: ModelSpec) -> Attention:
    """The attention of the first layer that keeps something a token."""
    groups = spec.attention_groups
    return next((attention for attention, _ in groups if attention.elements_per_token), groups[0][0])


def _layers(spec: ModelSpec) -> list[dict[str, Any]]:
    """Each kind of layer, in order of appearance."""
    found = []
    for layer, count in spec.layer_groups:
        at = [index for index, each in enumerate(spec.layers) if each == layer]
        found.append({"kind": layer.attention.kind, "window": layer.attention.window, "count": count,
                      "attention": asdict(layer.attention), "intermediate_size": layer.intermediate,
                      "experts": None if layer.experts is None else asdict(layer.experts), "indices": at})  # fmt: skip
    return found


def _step(step: Step) -> dict[str, Any]:
    total = step.total
    return {
        "gpu": {"id": step.gpu, "name": step.gpu_name},
        "phase": step.phase,
        "context": step.context,
        "batch": step.batch,
        "n_q": step.n_q,
        "dtype": step.dtype,
        "weights_dtype": step.weights_dtype,
        "kv_dtype": step.kv_dtype,
        "ceilings": [
            {"ceiling": each.id, "rate": each.rate, "unit": each.unit, "source": each.source}
            for each in (step.compute, step.memory)
        ],
        "parts": [_part(step, part) for part in (*step.parts, total)],
        "flops": total.flops,
        "weight_bytes": total.weight_bytes,
        "cache_bytes": total.cache_bytes,
        "activation_bytes": total.activation_bytes,
        "seconds_at_least": step.seconds_at_least,
        "seconds_in_turn": step.seconds_in_turn,
        "bound_by": step.bound_by(total),
        "tokens_per_second": step.tokens_per_second,
    }


def _part(step: Step, part: Part) -> dict[str, Any]:
    return {
        "part": part.name,
        "flops": part.flops,
        "vector_flops": part.vector_flops,
        "weight_bytes": part.weight_bytes,
        "cache_bytes": part.cache_bytes,
        "activation_bytes": part.activation_bytes,
        "intensity": part.intensity,
        "compute_seconds": step.compute_seconds(part),
        "memory_seconds": step.memory_seconds(part),
        "bound_by": step.bound_by(part),
    }


def _list_sheet(specs: Sequence[ModelSpec], rows: Sequence[dict[str, Any]]) -> Sheet:
    lines = [
        Line(row["name"], [
            row["family"], str(row["n_layers"]), str(row["heads"]), _attention(spec), str(row["head_dim"]),
            _count(row["parameters"]), format_capacity(row["kv_bytes_per_token_fp16"]), str(row["max_context"] or "—"),
        ])
        for spec, row in zip(specs, rows, strict=True)
    ]  # fmt: skip
    columns = ["family", "layers", "heads", "attention", "head dim", "parameters", "cache a token, fp16", "context"]
    return Sheet(f"{len(lines)} models", columns, [Section("", lines)])


def _attention(spec: ModelSpec) -> str:
    kinds = {a.kind for a, _ in spec.attention_groups}
    windows = {a.window for a, _ in spec.attention_groups if a.window is not None}
    text = _sample(spec).variant
    if windows:
        text += f", window {', '.join(map(str, sorted(windows)))}" + (" in some" if len(kinds) > 1 else "")
    return text + (", linear in some" if "linear" in kinds else "")


def _show_sheet(spec: ModelSpec) -> Sheet:
    total, active = parameters(spec), active_parameters(spec)
    lines = [
        Line("layers", [str(len(spec.layers))]),
        Line("hidden size", [str(spec.hidden)]),
        Line("vocabulary", [f"{spec.vocab or 'not known'}{', shared with the output' if spec.tied else ''}"]),
        Line("context", [str(spec.max_context or "not known")]),
        Line("parameters", [_count(total)]),
    ]
    if active != total:
        lines.append(Line("parameters a token uses", [_count(active)]))
    lines.append(Line("cache a token, fp16", [format_capacity(kv_cache(spec).bytes_per_token)]))
    layers = [Line(f"{count} layer{'s' if count > 1 else ''}", [_layer(layer)]) for layer, count in spec.layer_groups]
    notes = [f"{note[0].upper()}{note[1:]}." for note in spec.notes]
    if spec.from_memory:
        notes.append(f"Not looked up, from memory: {', '.join(spec.from_memory)}.")
    return Sheet(spec.name, [spec.family], [Section("", lines), Section("layers", layers)],
                 subtitle=[f"source: {spec.source}"] if spec.source else [], notes=notes, left=True)  # fmt: skip


def _layer(layer: Any) -> str:
    a = layer.attention
    if a.state is not None:
        text = f"linear attention, {a.state.value_heads} value heads of {a.state.value_dim}"
    elif a.mla is not None:
        text = f"MLA, {a.heads} heads, latent {a.mla.kv_lora_rank} + {a.mla.rope_dim} rotary"
    else:
        text = f"{a.variant}, {a.heads} heads over {a.kv_heads}, head dim {a.head_dim}"
        text += "" if a.window is None else f", {a.kind}, window {a.window}"
        text += ", keys and values of an earlier layer" if a.kind == "shared" else ""
    if layer.experts is not None:
        e = layer.experts
        text += f"; {e.per_token} of {e.count} experts of {e.intermediate}"
        return text + (f", {e.shared} shared" if e.shared else "")
    return text + ("" if layer.intermediate is None else f"; MLP {layer.intermediate}")


def _step_sheet(step: Step) -> Sheet:
    def line(part: Part, strong: bool = False) -> Line:
        intensity = part.intensity
        seconds = max(step.compute_seconds(part), step.memory_seconds(part))
        bound = step.compute if step.bound_by(part) == step.compute.id else step.memory
        return Line(part.name, [
            format_rate(part.flops, "FLOP"), format_bytes(part.weight_bytes), format_bytes(part.cache_bytes),
            format_bytes(part.activation_bytes), "—" if intensity is None else f"{intensity:.3g}",
            format_seconds(seconds) if seconds else "—", bound.label if seconds else "—",
        ], strong)  # fmt: skip

    columns = ["FLOP", "weights", "cache", "activations", "FLOP/B", "at least", "bound by"]
    what = f"{step.batch} × {step.context} tokens"
    if step.phase == "decode":
        what = f"{step.tokens} token{'s' if step.tokens > 1 else ''} after a context of {step.context}"
    per = f"{step.tokens_per_second:.4g} tokens/s at best"
    return Sheet(
        title=f"{step.phase} of {step.spec.name}: {what}, weights {step.weights_dtype}, cache {step.kv_dtype}",
        columns=columns,
        sections=[Section("", [line(part) for part in step.parts]), Section("", [line(step.total, strong=True)])],
        subtitle=[
            f"{step.gpu_name} ({step.gpu}): {step.compute.label} {format_rate(step.compute.rate, step.compute.unit)}, "
            f"{step.memory.label} {format_rate(step.memory.rate, step.memory.unit)}"
        ],
        notes=[
            f"At least {format_seconds(step.seconds_at_least)}, {per}, if everything overlaps; "
            f"{format_seconds(step.seconds_in_turn)} with one part after the other. Activations may stay on chip: "
            "they are counted, and bind nothing."
        ],
    )


def _count(value: int | None) -> str:
    return "not known" if value is None else format_rate(value, "").strip().replace("G", "B")
