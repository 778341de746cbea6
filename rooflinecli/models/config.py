"""A Hugging Face `config.json` -> `ModelSpec`, by architecture family: what is not there is not made up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rooflinecli.models import heads as heads_
from rooflinecli.models import pattern
from rooflinecli.models.families import DECISIVE, FAMILIES, REFUSED, TEXT_SECTIONS, TEXT_TYPES, Family
from rooflinecli.models.fields import Fields, MissingFieldError, short
from rooflinecli.models.spec import Attention, Layer, LinearState, Mla, ModelSpec, Style

MOST_LAYERS = 10_000
_HIDDEN = ("hidden_size", "n_embd", "n_embed", "d_model")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "seq_length", "n_ctx")


def read_config(raw: Mapping[str, Any], name: str, where: str = "config.json", source: str = "") -> ModelSpec:
    """The model a config describes; of a multimodal one its language model.

    `where` names the config in messages. Families and their rules: `rooflinecli.models.families`. A type that
    is not in the table is read by its fields, with a warning in the result.

    Raises:
        InputError: names the field that is missing, wrong or in contradiction with another, or says that
            this kind of model keeps no such cache.
    """
    outer = Fields(raw, where)
    f, nested = _language_model(outer)
    model_type = _model_type(f, outer, nested)
    for kind in (outer.text("model_type"), model_type):
        if kind in REFUSED:
            raise f.fail(f"{kind} {REFUSED[kind]}")
    if outer.flag("is_encoder_decoder", False) or f.flag("is_encoder_decoder", False):
        raise f.fail("is_encoder_decoder is true: its cross-attention cache depends on the input's length too")
    family = FAMILIES.get(model_type)
    return _Reader(f, outer, family, model_type, nested).spec(name, source)


def _language_model(outer: Fields) -> tuple[Fields, bool]:
    """The section that holds the language model, and whether it lies inside a larger config."""
    f, nested = outer, False
    for _ in range(3):
        sections = [section for section in TEXT_SECTIONS if isinstance(f.raw.get(section), dict)]
        if not sections:
            break
        inner = f.inner(sections[0])
        if inner is None or not inner.raw:
            raise f.fail(f"{sections[0]} is empty")
        for names in (_HIDDEN, _LAYERS, _HEADS):
            above, below = f.count_or_none(*names), inner.count_or_none(*names)
            if above is not None and below is not None and above != below:
                raise f.fail(f"{names[0]} is {above} here and {below} in {sections[0]}: they contradict each other")
        f, nested = inner, True
    return f, nested


def _model_type(f: Fields, outer: Fields, nested: bool) -> str:
    said = f.text("model_type")
    if said is not None:
        return TEXT_TYPES.get(said, said) if nested else said
    wrapper = outer.text("model_type")
    if nested and wrapper in TEXT_TYPES:
        return TEXT_TYPES[wrapper]
    # Some files only name the class: LlamaForCausalLM is of the type llama.
    listed = f.listed("architectures") or [None]
    class_name = listed[0] if isinstance(listed[0], str) else ""
    key = class_name.removesuffix("ForCausalLM").removesuffix("LMHeadModel").lower()
    return next((known for known in FAMILIES if known.replace("_", "").lower() == key), class_name)


class _Reader:
    """One config being read; `family` is None for a type that nobody here knows."""

    def __init__(self, f: Fields, outer: Fields, family: Family | None, model_type: str, nested: bool) -> None:
        self.f, self.outer, self.family, self.model_type, self.nested = f, outer, family, model_type, nested
        self.warnings: list[str] = []
        if family is None:
            self._check_readable()
        elif nested:
            self._fill_defaults(family)

    def spec(self, name: str, source: str) -> ModelSpec:
        f, family = self.f, self.family
        hidden, layers, heads = f.count(*_HIDDEN), f.count(*_LAYERS), f.count(*_HEADS)
        if layers > MOST_LAYERS:
            raise f.fail(f"{_LAYERS[0]} {layers} must be at most {MOST_LAYERS}")
        if family is not None and f.raw.get("use_bidirectional_attention"):
            raise f.fail("use_bidirectional_attention is set: such an encoder keeps no K/V cache")
        attentions = self._attentions(hidden, heads, layers)
        mlps, style = self._weights(layers)
        tied = f.flag_or_none("tie_word_embeddings")
        if tied is None:
            tied = self.outer.flag("tie_word_embeddings", family.tied if family else False)
        return ModelSpec(
            name=name,
            family=self.model_type or "unknown",
            hidden=hidden,
            layers=tuple(Layer(each, *mlp) for each, mlp in zip(attentions, mlps, strict=True)),
            vocab=f.count_or_none("vocab_size", "padded_vocab_size") if style else f.count_or_none("vocab_size"),
            max_context=self._context(),
            tied=tied,
            style=style,
            source=source,
            notes=self._notes(attentions),
            assumed=tuple(f.assumed),
            warnings=tuple(self.warnings),
        )

    def _check_readable(self) -> None:
        said = f"model_type {short(self.model_type)}" if self.model_type else "no model_type"
        present = sorted(name for name in DECISIVE if self.f.raw.get(name) not in (None, False, [], {}, ""))
        if present:
            raise self.f.fail(f"{said} is not a known family, and {', '.join(present)} changes what it caches",
                              "give the dimensions instead: --layers --heads --kv-heads --d")  # fmt: skip
        self.warnings.append(f"{self.f.where}: {said} is not a known family; read by its fields alone")

    def _fill_defaults(self, family: Family) -> None:
        """A section inside a larger config leaves out what equals the default of its family.

        Depth and width go together: a file that gives one of them and not the other is incomplete. A default
        number of K/V heads belongs to the default number of heads.
        """
        f, given = self.f, dict(self.f.raw)
        core = ("hidden_size", "num_hidden_layers")
        for name, value in family.nested.items():
            if name in given:
                continue
            if name in core and any(other in f.raw for other in core):
                continue
            heads = given.get("num_attention_heads", family.nested.get("num_attention_heads"))
            if name == "num_key_value_heads" and heads != family.nested["num_attention_heads"]:
                continue
            given[name] = value
            f.assume(f"{name} is missing from {f.where}: {value}, the default of {self.model_type}")
        f.raw = given

    def _attentions(self, hidden: int, heads: int, layers: int) -> list[Attention]:
        f, family = self.f, self.family
        latent = f.has("kv_lora_rank") if family is None or family.kv == "mla" else False
        if family is not None and family.kv == "mla" and f.flag("use_mla", True):
            latent = True
        kinds = pattern.layer_kinds(f, family, layers)
        if latent:
            if any(kind != "full" for kind, _ in kinds):
                raise f.fail("kv_lora_rank beside layers with a window: not known how the two go together")
            return [self._latent(heads)] * layers
        kv_heads = heads_.kv_heads(f, family, self.model_type, heads)
        if heads % kv_heads:
            raise f.fail(f"{kv_heads} K/V heads do not divide num_attention_heads {heads}")
        dim = heads_.head_dim(f, family, self.model_type, hidden, heads, nested=self.nested)
        linear = any(kind == "linear" for kind, _ in kinds)
        rule = family.windows if family is not None else "unknown"
        if linear and rule == "unknown":
            raise f.fail("layer_types has layers with a state, which is not known for this family")
        state = self._state() if linear and rule == "linear" else None
        if (linear and state is None) or (rule == "hybrid" and self.model_type == "falcon_h1"):
            self.warnings.append(f"{f.where}: the state of layers that do not attend is not counted")
        value_dim = (f.count_or_none("v_head_dim") or dim) if family is None else dim
        found = [
            Attention(kind, heads, kv_heads, dim, value_dim, window, state=state if kind == "linear" else None)
            for kind, window in kinds
        ]
        shares = self.model_type.startswith("gemma3n")
        shared = f.count("num_kv_shared_layers", least=0) if shares else 0
        if shared >= layers:
            raise f.fail(f"num_kv_shared_layers {shared} leaves no layer of {layers} with a cache")
        own = layers - shared
        return found[:own] + [Attention("shared", heads, kv_heads, dim, dim, each.window) for each in found[own:]]

    def _latent(self, heads: int) -> Attention:
        f = self.f
        f.count_or_none("num_key_value_heads")  # says nothing of a latent cache, but must be a count
        mla = Mla(
            kv_lora_rank=f.count("kv_lora_rank"),
            rope_dim=f.count("qk_rope_head_dim"),
            nope_dim=f.count("qk_nope_head_dim"),
            v_dim=f.count("v_head_dim"),
            q_lora_rank=f.count_or_none("q_lora_rank"),
        )
        if "q_lora_rank" not in f.raw and self.family is not None:
            raise MissingFieldError(f"{f.where}: q_lora_rank is missing; null means that Q has full rank")
        dim = mla.nope_dim + mla.rope_dim
        whole = f.count_or_none("qk_head_dim")
        if whole is not None and whole != dim:
            raise f.fail(f"qk_head_dim {whole} and qk_nope_head_dim + qk_rope_head_dim {dim} contradict each other")
        sparse = self.family is not None and self.family.sparse
        index = f.count("index_head_dim") if sparse else f.count_or_none("index_head_dim") or 0
        return Attention("mla", heads, heads, dim, mla.v_dim, mla=mla, index_dim=index)

    def _state(self) -> LinearState | None:
        f = self.f
        return LinearState(
            key_heads=f.count("linear_num_key_heads"),
            value_heads=f.count("linear_num_value_heads"),
            key_dim=f.count("linear_key_head_dim"),
            value_dim=f.count("linear_value_head_dim"),
            conv=f.count("linear_conv_kernel_dim"),
        )

    def _weights(self, layers: int) -> tuple[list[Any], Style | None]:
        """MLPs and style, or nothing and a warning where a field that only weights need is missing."""
        family = self.family
        if family is None or family.style is None:
            return [(None, None)] * layers, None
        try:
            mlps = pattern.mlps(self.f, family, layers)
            style = family.style(self.f)
            self.f.count("vocab_size", "padded_vocab_size")
        except MissingFieldError as error:
            self.warnings.append(f"{error.message}: weights are not counted")
            return [(None, None)] * layers, None
        return mlps, style

    def _context(self) -> int | None:
        return next((self.f.count(name) for name in _CONTEXT if self.f.has(name)), None)

    def _notes(self, attentions: list[Attention]) -> tuple[str, ...]:
        kinds = {each.kind for each in attentions}
        notes = []
        if "linear" in kinds:
            notes.append("layers with linear attention hold a state of fixed size and nothing a token")
        if "cross" in kinds:
            notes.append("layers of cross-attention hold what an image takes and nothing a token")
        if "shared" in kinds:
            notes.append("the last layers read the keys and values of earlier ones and hold none")
        if any(each.index_dim for each in attentions):
            notes.append("the indexer of sparse attention caches keys of its own; they are counted")
        return tuple(notes)
