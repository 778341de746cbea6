"""What else a family's layers hold besides the big matrices: biases, norms, gates, position tables.

Each function reads the few fields that decide it. Sources: `modeling_*.py` of transformers 4.57 and 5.24;
the resulting counts are tested against the parameters those classes create.
"""

from __future__ import annotations

from dataclasses import replace

from rooflinecli.models.fields import Fields
from rooflinecli.models.spec import Style


def plain(_: Fields) -> Style:
    """Gated MLP, two RMS norms, no bias anywhere."""
    return Style()


def llama(f: Fields) -> Style:
    """As plain, with biases where `attention_bias` and `mlp_bias` say so."""
    bias = f.flag("attention_bias", False)
    return Style(qkv_bias=bias, out_bias=bias, mlp_bias=f.flag("mlp_bias", False))


def bias_by_field(f: Fields) -> Style:
    """As plain, with `attention_bias` on all four projections."""
    bias = f.flag("attention_bias", False)
    return Style(qkv_bias=bias, out_bias=bias)


def qwen2(_: Fields) -> Style:
    """Biases on Q, K and V only."""
    return Style(qkv_bias=True)


def qwen2_moe(f: Fields) -> Style:
    """As qwen2, with a gated shared expert."""
    return Style(qkv_bias=f.flag("qkv_bias", True), shared_gate=True)


def qwen3(f: Fields) -> Style:
    """Q and K normalised a head."""
    return replace(bias_by_field(f), qk_norm="head")


def qwen3_next(f: Fields) -> Style:
    """As qwen3, with a gate on the attention's output and a gated shared expert."""
    return replace(qwen3(f), output_gate=True, shared_gate=True)


def qk_head_norm(_: Fields) -> Style:
    """As plain, Q and K normalised a head."""
    return Style(qk_norm="head")


def qk_full_norm(_: Fields) -> Style:
    """As plain, Q and K normalised over all heads."""
    return Style(qk_norm="full")


def gemma2(f: Fields) -> Style:
    """Norms before and after attention and MLP."""
    return replace(bias_by_field(f), norms=4)


def gemma3(f: Fields) -> Style:
    """As gemma2, Q and K normalised a head."""
    return replace(gemma2(f), qk_norm="head")


def gpt2(f: Fields) -> Style:
    """Plain MLP, learned positions, layer norms, biases everywhere."""
    positions = f.count("n_positions", "max_position_embeddings")
    return replace(_biased(), positions=positions)


def gpt_neo(f: Fields) -> Style:
    """As gpt2, without biases on Q, K and V."""
    return replace(_biased(), qkv_bias=False, positions=f.count("max_position_embeddings"))


def gptj(_: Fields) -> Style:
    """One norm for attention and MLP side by side; the output has a bias."""
    return replace(_biased(), qkv_bias=False, out_bias=False, norms=1, head_bias=True)


def gpt_neox(f: Fields) -> Style:
    """Plain MLP, layer norms, biases."""
    bias = f.flag("attention_bias", True)
    return replace(_biased(), qkv_bias=bias, out_bias=bias)


def opt(f: Fields) -> Style:
    """As gpt2; two positions are reserved, the embedding may be narrower than the model."""
    bias = f.flag("enable_bias", True)
    width = 2 if f.flag("layer_norm_elementwise_affine", True) else 0
    final = f.flag("do_layer_norm_before", True) and not f.flag("_remove_final_layer_norm", False)
    return Style(
        gated=False, qkv_bias=bias, out_bias=bias, mlp_bias=bias, norm_width=width, final_norm=final,
        positions=f.count("max_position_embeddings") + 2, embed_dim=f.count_or_none("word_embed_proj_dim"),
    )  # fmt: skip


def bloom(_: Fields) -> Style:
    """As gpt2 without positions (ALiBi), the embedding normalised."""
    return replace(_biased(), embed_norm=True)


def falcon(f: Fields) -> Style:
    """Attention and MLP side by side under one norm or two."""
    bias = f.flag("bias", False)
    if f.flag("new_decoder_architecture", f.text("model_type") == "RefinedWeb"):
        norms = f.count_or_none("num_ln_in_parallel_attn") or 2
    else:
        norms = 1 if f.flag("parallel_attn", True) else 2
    return Style(gated=False, qkv_bias=bias, out_bias=bias, mlp_bias=bias, norms=norms, norm_width=2)


def mpt(f: Fields) -> Style:
    """Plain MLP, norms without bias unless `no_bias` is off, ALiBi or learned positions."""
    bias = not f.flag("no_bias", True)
    attention = f.inner("attn_config")
    alibi = attention is not None and attention.flag("alibi", True)
    learned = f.flag("learned_pos_emb", True) and not alibi
    return Style(gated=False, qkv_bias=bias, out_bias=bias, mlp_bias=bias, norm_width=2 if bias else 1,
                 positions=f.count("max_seq_len") if learned else 0)  # fmt: skip


def chatglm(f: Fields) -> Style:
    """Gated MLP, biases on Q, K, V or everywhere."""
    everywhere = f.flag("add_bias_linear", False)
    return Style(qkv_bias=everywhere or f.flag("add_qkv_bias", False), out_bias=everywhere, mlp_bias=everywhere)


def phi(f: Fields) -> Style:
    """Plain MLP beside attention under one norm, biases everywhere, the output's too."""
    return replace(_biased(), norms=1, head_bias=True, qk_norm="none" if not f.flag("qk_layernorm", False) else "head")


def phimoe(f: Fields) -> Style:
    """As mixtral with layer norms and optional biases."""
    return replace(bias_by_field(f), norm_width=2, head_bias=f.flag("lm_head_bias", False))


def starcoder2(f: Fields) -> Style:
    """Plain MLP, layer norms, biases by `use_bias`."""
    bias = f.flag("use_bias", True)
    return replace(_biased(), qkv_bias=bias, out_bias=bias, mlp_bias=bias)


def stablelm(f: Fields) -> Style:
    """Gated MLP, layer norms."""
    norms = 1 if f.flag("use_parallel_residual", False) else 2
    return Style(qkv_bias=f.flag("use_qkv_bias", False), norms=norms, norm_width=2,
                 qk_norm="heads" if f.flag("qk_layernorm", False) else "none")  # fmt: skip


def cohere(f: Fields) -> Style:
    """Attention and gated MLP side by side under one norm."""
    return replace(bias_by_field(f), norms=1, qk_norm="heads" if f.flag("use_qk_norm", False) else "none")


def cohere2(f: Fields) -> Style:
    """As cohere, never normalising Q and K."""
    return replace(bias_by_field(f), norms=1)


def glm(f: Fields) -> Style:
    """Biases on Q, K and V by `attention_bias`."""
    return Style(qkv_bias=f.flag("attention_bias", True))


def glm4(f: Fields) -> Style:
    """As glm, norms after attention and MLP too."""
    return replace(glm(f), norms=4)


def glm4_moe(f: Fields) -> Style:
    """As glm, Q and K normalised a head by `use_qk_norm`."""
    return Style(qkv_bias=f.flag("attention_bias", False), qk_norm="head" if f.flag("use_qk_norm", False) else "none")


def olmo(f: Fields) -> Style:
    """Norms without parameters."""
    return replace(bias_by_field(f), norm_width=0)


def olmo2(f: Fields) -> Style:
    """Q and K normalised over all heads."""
    return replace(bias_by_field(f), qk_norm="full")


def nemotron(f: Fields) -> Style:
    """Plain MLP, layer norms."""
    return replace(llama(f), gated=False, norm_width=2)


def seed_oss(f: Fields) -> Style:
    """Biases each with a field of its own."""
    return Style(
        qkv_bias=f.flag("attention_bias", True),
        out_bias=f.flag("attention_out_bias", False),
        mlp_bias=f.flag("mlp_bias", False),
    )


def hunyuan(f: Fields) -> Style:
    """Q and K normalised a head."""
    return replace(bias_by_field(f), qk_norm="head")


def ernie(f: Fields) -> Style:
    """Biases everywhere by `use_bias`."""
    bias = f.flag("use_bias", False)
    return Style(qkv_bias=bias, out_bias=bias, mlp_bias=bias)


def gpt_oss(f: Fields) -> Style:
    """Biases everywhere, one sink a head, biased experts."""
    bias = f.flag("attention_bias", True)
    return Style(qkv_bias=bias, out_bias=bias, sinks=True, router_bias=True, expert_bias=True)


def deepseek_v32(f: Fields) -> Style:
    """As deepseek, with an indexer of `index_n_heads` heads of `index_head_dim`."""
    return replace(bias_by_field(f), index=(f.count("index_n_heads"), f.count("index_head_dim")))


def _biased() -> Style:
    return Style(gated=False, qkv_bias=True, out_bias=True, mlp_bias=True, norm_width=2)
