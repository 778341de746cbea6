"""Models whose layers only partly attend: each family has its own way of saying which."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rooflinecli.models.fields import Fields, MissingFieldError
from rooflinecli.models.spec import Kind

_MIXERS: dict[str, Kind] = {"M": "linear", "*": "full", "-": "none", "E": "none"}


def hybrid_kinds(f: Fields, model_type: str, listed: Sequence[Kind] | None, layers: int) -> list[Kind]:
    """Kind of each layer. The states of those that do not attend are not described further.

    Raises:
        InputError: the field that says it is missing or is not of the model's length.
    """
    rule = _RULES.get(model_type)
    if rule is not None:
        found = rule(f, layers)
        if found is not None:
            return found
    if listed is not None:
        return list(listed)
    names = {"jamba": "attn_layer_period", "bamba": "attn_layer_indices", "nemotron_h": "hybrid_override_pattern",
             "recurrent_gemma": "block_types", "mllama_text_model": "cross_attention_layers"}  # fmt: skip
    raise MissingFieldError(f"{f.where}: {names.get(model_type, 'layer_types')} is missing")


def _jamba(f: Fields, layers: int) -> list[Kind] | None:
    if not f.has("attn_layer_period"):
        return None
    period, offset = f.count("attn_layer_period"), f.count("attn_layer_offset", least=0)
    if offset >= period:
        raise f.fail(f"attn_layer_offset {offset} is not under attn_layer_period {period}")
    return ["full" if layer % period == offset else "linear" for layer in range(layers)]


def _picked(name: str, inside: Kind, outside: Kind) -> Callable[[Fields, int], list[Kind] | None]:
    """Layers whose numbers are listed are of one kind, the others of another."""

    def rule(f: Fields, layers: int) -> list[Kind] | None:
        picked = f.indices(name)
        if picked is None:
            return None
        if picked and max(picked) >= layers:
            raise f.fail(f"{name} has layer {max(picked)} of {layers}")
        return [inside if layer in picked else outside for layer in range(layers)]

    return rule


def _pattern(f: Fields, layers: int) -> list[Kind] | None:
    text = f.text("hybrid_override_pattern")
    if text is None:
        return None
    if len(text) != layers or set(text) - set(_MIXERS):
        raise f.fail(f"hybrid_override_pattern must be {layers} of {' '.join(_MIXERS)}, one a layer")
    return [_MIXERS[each] for each in text]


def _blocks(f: Fields, layers: int) -> list[Kind] | None:
    blocks = f.listed("block_types")
    if blocks is None:
        return None
    if not blocks or any(each not in ("recurrent", "attention") for each in blocks):
        raise f.fail("block_types must list recurrent and attention, repeated over the layers")
    return ["sliding" if blocks[layer % len(blocks)] == "attention" else "linear" for layer in range(layers)]


def _numbered(f: Fields, layers: int) -> list[Kind] | None:
    types = f.listed("attn_type_list", layers)
    if types is None:
        return None
    if any(type(each) is not int or each not in (0, 1) for each in types):
        raise f.fail("attn_type_list must be zeros (linear) and ones (softmax), one a layer")
    return ["full" if each else "linear" for each in types]


def _everywhere(_: Fields, layers: int) -> list[Kind] | None:
    return ["full"] * layers


_RULES: dict[str, Callable[[Fields, int], list[Kind] | None]] = {
    "jamba": _jamba,
    "bamba": _picked("attn_layer_indices", "full", "linear"),
    "lfm2": _picked("full_attn_idxs", "full", "linear"),
    "lfm2_moe": _picked("full_attn_idxs", "full", "linear"),
    "mllama_text_model": _picked("cross_attention_layers", "cross", "full"),
    "nemotron_h": _pattern,
    "recurrent_gemma": _blocks,
    "minimax": _numbered,
    "minimax_text_01": _numbered,
    "minimax_m1": _numbered,
    "falcon_h1": _everywhere,
}
