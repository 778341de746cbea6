"""Which layers have a window, which keep a state instead, and which have experts: one rule a family."""

from __future__ import annotations

from collections.abc import Sequence

from rooflinecli.errors import InputError
from rooflinecli.models.families import Family
from rooflinecli.models.fields import Fields, MissingFieldError, short
from rooflinecli.models.hybrid import hybrid_kinds
from rooflinecli.models.spec import Experts, Kind

_TYPES: dict[str, Kind] = {
    "full_attention": "full", "attention": "full", "global": "full", "full": "full",
    "sliding_attention": "sliding", "local": "sliding", "sliding": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "linear", "mamba": "linear", "conv": "linear", "recurrent": "linear",
    "mlp": "none", "moe": "none",
}  # fmt: skip


def layer_kinds(f: Fields, family: Family | None, layers: int) -> list[tuple[Kind, int | None]]:
    """Kind and window of each layer, from `layer_types` where the config lists them, else by the family's rule.

    Raises:
        InputError: a missing window, fields that contradict each other, a layer type nobody knows.
    """
    listed = _listed(f, layers)
    f.count_or_none("sliding_window")  # wrong is wrong, even where it is switched off
    rule = family.windows if family is not None else "unknown"
    if rule in ("none", "gpt_neo"):
        kinds = _local_global(f, layers) if rule == "gpt_neo" else _no_windows(f, listed, layers)
    elif rule == "chunked":
        kinds = _chunked(f, layers)
    elif rule == "hybrid":
        kinds = hybrid_kinds(f, f.text("model_type") or "", listed, layers)
    elif rule == "linear":
        kinds = _linear(f, listed, layers)
    elif rule == "pattern" and family is not None:
        kinds = _alternating(f, family, listed, layers)
    elif rule in ("qwen", "qwen_every"):
        kinds = _switched(f, listed, layers, every=rule == "qwen_every")
    else:
        kinds = _every(f, family, layers)
    if listed is not None and kinds != listed:
        _check_agreement(f, rule, kinds, listed)
    found = listed if listed is not None else kinds
    return [(kind, _window(f, family, kind)) for kind in found]


def _listed(f: Fields, layers: int) -> list[Kind] | None:
    name = "layers_block_type" if f.has("layers_block_type") else "layer_types"
    types = f.listed(name, layers)
    if types is None:
        return None
    for each in types:
        if not isinstance(each, str) or each not in _TYPES:
            raise f.fail(f"{name} has {short(each)}, which is not known here", f"known: {', '.join(_TYPES)}")
    return [_TYPES[each] for each in types]


def _check_agreement(f: Fields, rule: str, ruled: Sequence[Kind], listed: Sequence[Kind]) -> None:
    """The list wins where it is the newer way of saying more, and must not deny what another field says."""
    index = next(i for i, (one, other) in enumerate(zip(ruled, listed, strict=True)) if one != other)
    said = f"layer {index} is {listed[index]} by layer_types and {ruled[index]} by the other fields"
    if rule in ("every", "unknown") and f.has("sliding_window"):
        return  # mistral and its kin: a list narrows "every layer" down
    raise f.fail(f"{said}: they contradict each other")


def _window(f: Fields, family: Family | None, kind: Kind) -> int | None:
    if kind == "chunked":
        return f.count("attention_chunk_size")
    if kind != "sliding":
        return None
    if family is not None and family.windows == "gpt_neo":
        return f.count("window_size")
    if family is not None and family.windows == "hybrid":
        return f.count("attention_window_size")
    return f.count("sliding_window")


def _no_windows(f: Fields, listed: Sequence[Kind] | None, layers: int) -> list[Kind]:
    if f.has("sliding_window") and f.flag("use_sliding_window", True) and listed is None:
        f.assume(f"sliding_window {f.count('sliding_window')} is ignored: this family has no windows")
    return ["full"] * layers


def _every(f: Fields, family: Family | None, layers: int) -> list[Kind]:
    window = f.count_or_none("sliding_window")
    needed = family is not None and family.window_needed
    if window is None:
        if needed and "sliding_window" not in f.raw:
            raise MissingFieldError(f"{f.where}: sliding_window is missing; null means that there is none")
        if family is not None and "sliding_window" not in f.raw:
            f.assume("sliding_window is not given: no windows")
        return ["full"] * layers
    switch = f.flag_or_none("use_sliding_window")
    if family is None:
        return _unknown(f, window, switch, layers)
    if switch is False:
        raise f.fail(f"sliding_window {window} and use_sliding_window false contradict each other in this family")
    return ["sliding"] * layers


def _unknown(f: Fields, window: int, switch: bool | None, layers: int) -> list[Kind]:
    if switch is False:
        return ["full"] * layers
    if f.has("layer_types"):
        return ["sliding"] * layers
    for name in ("sliding_window_pattern", "max_window_layers"):
        if f.has(name):
            raise f.fail(f"{name} beside sliding_window: which layers that means is not known for this family",
                         "write layer_types, one entry a layer")  # fmt: skip
    f.assume(f"sliding_window {window} is taken for every layer")
    return ["sliding"] * layers


def _switched(f: Fields, listed: Sequence[Kind] | None, layers: int, *, every: bool) -> list[Kind]:
    """Qwen: `use_sliding_window` turns it on, from layer `max_window_layers` upwards (or everywhere)."""
    if not f.flag("use_sliding_window", False):
        if listed is not None and "sliding" in listed and not f.has("use_sliding_window"):
            raise MissingFieldError(f"{f.where}: layer_types has sliding layers, but use_sliding_window is missing")
        if f.has("sliding_window") and not f.has("use_sliding_window"):
            f.assume("use_sliding_window is missing: off, whatever sliding_window says")
        return ["full"] * layers
    if not f.has("sliding_window"):
        raise f.fail("use_sliding_window is true, but there is no sliding_window")
    if every:
        if f.count_or_none("max_window_layers", least=0):
            raise f.fail("use_sliding_window true and max_window_layers: this family windows every layer or none")
        return ["sliding"] * layers
    if listed is not None and not f.has("max_window_layers"):
        return list(listed)
    first = f.count("max_window_layers", least=0)
    return ["sliding" if layer >= first else "full" for layer in range(layers)]


def _alternating(f: Fields, family: Family, listed: Sequence[Kind] | None, layers: int) -> list[Kind]:
    """Every `pattern`-th layer sees everything, the others have a window."""
    if "sliding_window" in f.raw and not f.has("sliding_window"):
        if "exaone4" in family.names:
            return ["full"] * layers
        raise f.fail("sliding_window is null, but this family has layers with a window")
    said = f.raw.get("sliding_window_pattern", f.raw.get("_sliding_window_pattern"))
    if isinstance(said, str) and said and set(said) <= {"L", "G"}:
        return ["sliding" if said[layer % len(said)] == "L" else "full" for layer in range(layers)]
    if said is None and listed is not None:
        return list(listed)
    name = "sliding_window_pattern" if f.has("sliding_window_pattern") else "_sliding_window_pattern"
    pattern = family.pattern if said is None else f.count(name)
    if said is None and not family.names[0].startswith(("gemma2", "gpt_oss")):  # these have no other pattern
        f.assume(f"neither layer_types nor a pattern is given: every {pattern}th layer has no window")
    return ["sliding" if (layer + 1) % pattern else "full" for layer in range(layers)]


def _chunked(f: Fields, layers: int) -> list[Kind]:
    """Llama 4: layers with rotary positions attend within a chunk, those without to everything."""
    if not f.has("attention_chunk_size"):
        if "attention_chunk_size" in f.raw:
            return ["full"] * layers
        raise MissingFieldError(f"{f.where}: attention_chunk_size is missing; null means that there are no chunks")
    rotary = f.listed("no_rope_layers") or None
    if rotary is None:
        interval = f.count_or_none("no_rope_layer_interval") or 4
        rotary = [int((layer + 1) % interval != 0) for layer in range(layers)]
    elif len(rotary) != layers or any(type(each) is not int or each not in (0, 1) for each in rotary):
        raise f.fail(f"no_rope_layers must be {layers} zeros and ones, one a layer")
    return ["chunked" if each else "full" for each in rotary]


def _linear(f: Fields, listed: Sequence[Kind] | None, layers: int) -> list[Kind]:
    """Qwen3-Next: every `full_attention_interval`-th layer attends, the others keep a state."""
    interval = f.count_or_none("full_attention_interval")
    if interval is None:
        if listed is not None:
            return list(listed)
        interval = 4
        f.assume("full_attention_interval is missing: 4, the family's default")
    return ["linear" if (layer + 1) % interval else "full" for layer in range(layers)]


def _local_global(f: Fields, layers: int) -> list[Kind]:
    """GPT-Neo: `attention_types` is [[kinds, repeats], ...], or `attention_layers` lists them."""
    names = f.listed("attention_layers", layers)
    if names is None:
        groups = f.listed("attention_types")
        if groups is None:
            raise MissingFieldError(f"{f.where}: attention_types is missing")
        try:
            names = [name for kinds, times in groups for _ in range(min(times, layers + 1)) for name in kinds]
        except (TypeError, ValueError):
            raise f.fail("attention_types must be [[[kind, ...], times], ...]") from None
    if len(names) != layers or any(name not in ("global", "local") for name in names):
        raise f.fail(f"attention_types gives {len(names)} layers of local and global, the model has {layers}")
    return [_TYPES[name] for name in names]


def mlps(f: Fields, family: Family | None, layers: int) -> list[tuple[int | None, Experts | None]]:
    """Width or experts of each layer's MLP.

    Raises:
        MissingFieldError: a width or a number of experts that is needed is not there.
        InputError: more experts a token than there are.
    """
    rule = family.experts if family is not None else "none"
    if rule == "none" or (rule == "qwen" and not f.has("num_experts")):
        return [(_width(f), None)] * layers
    if rule == "deepseek":
        return _deepseek(f, layers)
    if rule == "llama4":
        return _llama4(f, layers)
    if rule == "qwen":
        return _qwen(f, layers)
    name = "num_experts" if rule == "olmoe" else "num_local_experts"
    mixture = _mixture(f, f.count(name), f.count("intermediate_size"))
    return [(None, mixture)] * layers


def _width(f: Fields) -> int:
    width = f.count_or_none("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "inner_hidden_size")
    if width is not None:
        return width
    model = f.text("model_type")
    hidden = f.count("hidden_size", "n_embd", "n_embed", "d_model")
    if model == "mpt":
        return hidden * f.count("expansion_ratio")
    if model in ("gpt2", "gptj", "gpt_bigcode", "gpt_neo", "bloom", "falcon", "RefinedWeb", "RefinedWebModel"):
        return 4 * hidden  # these families say null, or nothing, for four times the hidden size
    raise MissingFieldError(f"{f.where}: intermediate_size is missing")


def _mixture(f: Fields, count: int, width: int, shared: int = 0) -> Experts:
    taken = f.count("num_experts_per_tok", "experts_per_token", "top_k_experts")
    if taken > count:
        raise InputError(f"{f.where}: num_experts_per_tok {taken} is more than the {count} experts there are")
    return Experts(count, taken, width, shared)


def _qwen(f: Fields, layers: int) -> list[tuple[int | None, Experts | None]]:
    step = f.count_or_none("decoder_sparse_step") or 1
    dense = f.indices("mlp_only_layers") or set()
    mixture = _mixture(f, f.count("num_experts"), f.count("moe_intermediate_size"),
                       f.count_or_none("shared_expert_intermediate_size", least=0) or 0)  # fmt: skip
    sparse = [layer not in dense and (layer + 1) % step == 0 for layer in range(layers)]
    return [(None, mixture) if each else (f.count("intermediate_size"), None) for each in sparse]


def _deepseek(f: Fields, layers: int) -> list[tuple[int | None, Experts | None]]:
    if not f.has("n_routed_experts"):
        if "n_routed_experts" not in f.raw:
            raise MissingFieldError(f"{f.where}: n_routed_experts is missing")
        return [(f.count("intermediate_size"), None)] * layers
    types = f.listed("mlp_layer_types", layers)
    if types is None:
        first = f.count("first_k_dense_replace", least=0)
        step = f.count_or_none("moe_layer_freq") or 1
        sparse = [layer >= first and layer % step == 0 for layer in range(layers)]
    else:
        sparse = [each == "sparse" for each in types]
    width = f.count("moe_intermediate_size")
    shared = width * (f.count_or_none("n_shared_experts", least=0) or 0)
    mixture = _mixture(f, f.count("n_routed_experts"), width, shared)
    return [(None, mixture) if each else (f.count("intermediate_size"), None) for each in sparse]


def _llama4(f: Fields, layers: int) -> list[tuple[int | None, Experts | None]]:
    sparse = f.indices("moe_layers")
    if sparse is None:
        step = f.count("interleave_moe_layer_step")
        sparse = set(range(step - 1, layers, step))
    width = f.count("intermediate_size")
    mixture = _mixture(f, f.count("num_local_experts"), width, width)
    return [(None, mixture) if layer in sparse else (f.count("intermediate_size_mlp"), None) for layer in range(layers)]
