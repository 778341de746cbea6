"""How many K/V heads a config means, and how wide a head is: one rule a family."""

from __future__ import annotations

from collections.abc import Callable

from rooflinecli.models.families import Family
from rooflinecli.models.fields import Fields, MissingFieldError, short

_NAMES = ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv", "num_query_groups")


def kv_heads(f: Fields, family: Family | None, model_type: str, heads: int) -> int:
    """K/V heads of a config with `heads` query heads.

    Raises:
        InputError: the field is missing where its family needs it, or contradicts another.
    """
    rule = family.kv if family is not None else "unknown"
    if rule in _RULES:
        return _RULES[rule](f, model_type, heads)
    found = f.count_or_none(*_NAMES) if rule == "unknown" else f.count_or_none(_NAMES[0])
    if found is not None:
        return found
    if _NAMES[0] not in f.raw and rule not in ("optional", "mla"):
        raise MissingFieldError(f"{f.where}: {_NAMES[0]} is missing; null means one a query head")
    f.assume(f"{_NAMES[0]} is not given: one a query head, {heads}")
    return heads


def head_dim(f: Fields, family: Family | None, model_type: str, hidden: int, heads: int, *, nested: bool) -> int:
    """Width of a head: the field, or hidden size over heads where that is the family's rule and comes out even.

    Raises:
        InputError: the field is missing and the quotient would be a guess, or both are there and differ in
            a family that has no choice.
    """
    said = f.count_or_none("head_dim", "kv_channels")
    exact = hidden % heads == 0
    bound = family is not None and family.kv in ("heads", "falcon", "multi_query", "mpt", "dbrx")
    if said is not None:
        if bound and (not exact or said != hidden // heads):
            raise f.fail(f"head_dim {said} and hidden_size {hidden} over {heads} heads contradict each other")
        return said
    usual = family.head_dim if family is not None else None
    if usual is not None and (nested or (exact and usual == hidden // heads)):
        f.assume(f"head_dim is missing from {f.where}: {usual}, the default of {model_type}")
        return usual
    if usual is not None or (family is not None and family.dim_needed):
        said_so = f"in this family it is not hidden_size {hidden} over num_attention_heads {heads}"
        raise MissingFieldError(f"{f.where}: head_dim is missing, and {said_so}")
    if not exact:
        uneven = f"hidden_size {hidden} is not divisible by {heads} heads"
        raise MissingFieldError(f"{f.where}: head_dim is missing, and {uneven}")
    if not bound:
        f.assume(f"head_dim is not given: hidden_size over heads, {hidden // heads}")
    return hidden // heads


def _one_each(f: Fields, model_type: str, heads: int) -> int:
    for name in ("num_key_value_heads", "num_kv_heads"):
        said = f.count_or_none(name)
        if said is not None and said != heads:
            raise f.fail(f"{name} {said}, but every query head of {model_type} has its own K/V head")
    return heads


def _falcon(f: Fields, model_type: str, heads: int) -> int:
    modern = f.flag_or_none("new_decoder_architecture")
    if modern is None and model_type == "RefinedWeb":
        modern = True
    if modern:
        return f.count("num_kv_heads", "n_head_kv")
    multi = f.flag_or_none("multi_query")
    if multi is None:
        raise MissingFieldError(f"{f.where}: multi_query is missing")
    said = f.count_or_none("num_kv_heads", "n_head_kv")
    if multi and said not in (None, 1, heads):
        both = f"multi_query true and num_kv_heads {said}"
        raise f.fail(f"{both} contradict each other without new_decoder_architecture")
    return 1 if multi else said or heads


def _multi_query(f: Fields, _: str, heads: int) -> int:
    multi = f.flag_or_none("multi_query")
    if multi is None:
        raise MissingFieldError(f"{f.where}: multi_query is missing")
    found = 1 if multi else heads
    said = f.count_or_none("num_key_value_heads")
    if said is not None and said != found:
        raise f.fail(f"multi_query {str(multi).lower()} and num_key_value_heads {said} contradict each other")
    return found


def _mpt(f: Fields, _: str, heads: int) -> int:
    inner = f.inner("attn_config")
    if inner is None:
        raise MissingFieldError(f"{f.where}: attn_config is missing")
    kinds = {"multihead_attention": heads, "multiquery_attention": 1, "grouped_query_attention": None}
    kind = inner.text("attn_type") or "multihead_attention"
    if kind not in kinds:
        raise inner.fail(f"attn_type {short(kind)} is not known")
    said, found = inner.count_or_none("kv_n_heads"), kinds[kind]
    if found is None:
        return inner.count("kv_n_heads")
    if said is not None and said != found:
        raise inner.fail(f"attn_type {kind} and kv_n_heads {said} contradict each other")
    return found


def _dbrx(f: Fields, _: str, heads: int) -> int:
    inner = f.inner("attn_config")
    if inner is None:
        raise MissingFieldError(f"{f.where}: attn_config is missing")
    return inner.count("kv_n_heads")


def _chatglm(f: Fields, _: str, heads: int) -> int:
    said = f.count_or_none("multi_query_group_num")
    multi = f.flag_or_none("multi_query_attention")
    if multi is None and said is not None:
        raise MissingFieldError(f"{f.where}: multi_query_attention is missing beside multi_query_group_num {said}")
    return f.count("multi_query_group_num") if multi else heads


_RULES: dict[str, Callable[[Fields, str, int], int]] = {
    "heads": _one_each,
    "falcon": _falcon,
    "multi_query": _multi_query,
    "mpt": _mpt,
    "dbrx": _dbrx,
    "chatglm": _chatglm,
}
