"""One table of architecture families: how each writes its config, and what it leaves out.

The rules are those of the reference implementations (transformers 4.57 and 5.24, `configuration_*.py` and
`modeling_*.py`), which is how published `config.json` files are meant to be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from rooflinecli.models import styles
from rooflinecli.models.fields import Fields
from rooflinecli.models.spec import Style

KvRule = Literal["heads", "optional", "required", "falcon", "multi_query", "mpt", "dbrx", "chatglm", "mla"]
WindowRule = Literal["none", "every", "qwen", "qwen_every", "pattern", "chunked", "gpt_neo", "linear", "hybrid"]
ExpertRule = Literal["none", "local", "qwen", "deepseek", "llama4", "olmoe"]


@dataclass(frozen=True, slots=True)
class Family:
    """How configs of one architecture are read.

    kv: where the number of K/V heads is: the family has none of its own ("heads"), may leave it out
        ("optional": then as many as query heads), or must write it ("required").
    head_dim: what a config that leaves it out means; None: hidden size over heads.
    windows: which layers have one; `pattern`: every pattern-th layer has none; `window_needed`: a config
        without the field is incomplete, since null and a default mean different things.
    sparse: whether an indexer picks the keys to attend to, and caches keys of its own for that.
    tied: whether a config that does not say so shares the embedding with the output.
    dim_needed: whether a config without a head dim is incomplete: hidden size over heads would be a guess.
    nested: what a text section inside a larger config may leave out, because it equals the default.
    """

    names: tuple[str, ...]
    kv: KvRule = "optional"
    head_dim: int | None = None
    dim_needed: bool = False
    windows: WindowRule = "none"
    pattern: int = 0
    window_needed: bool = False
    experts: ExpertRule = "none"
    sparse: bool = False
    tied: bool = False
    style: Callable[[Fields], Style] | None = None
    nested: Mapping[str, int] = field(default_factory=dict)


_LLAMA = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 11008,
          "vocab_size": 32000}  # fmt: skip
_QWEN2 = {**_LLAMA, "num_key_value_heads": 32, "intermediate_size": 22016, "vocab_size": 151936}
_MISTRAL = {**_LLAMA, "num_key_value_heads": 8, "intermediate_size": 14336, "sliding_window": 4096}
_GEMMA3 = {"num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 262208}
_GEMMA3N = {"num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 262400, "num_kv_shared_layers": 15}

_ALL = (
    Family(("llama", "yi", "internlm2", "internlm3", "minicpm", "aquila", "arctic_llama"),
           style=styles.llama, nested=_LLAMA),
    Family(("baichuan", "xverse"), kv="heads", style=styles.plain),
    Family(("qwen", "internlm", "codegen", "persimmon", "xglm", "biogpt"), kv="heads"),
    Family(("dbrx",), kv="dbrx"),
    Family(("jamba", "bamba", "falcon_h1", "lfm2", "lfm2_moe", "minimax", "minimax_text_01", "minimax_m1",
            "mllama_text_model"), kv="required", windows="hybrid"),
    Family(("nemotron_h",), kv="required", dim_needed=True, windows="hybrid"),
    Family(("granitemoehybrid", "recurrent_gemma"), windows="hybrid"),
    Family(("deepseek",), experts="deepseek", style=styles.bias_by_field),
    Family(("mistral",), kv="required", windows="every", window_needed=True, style=styles.plain, nested=_MISTRAL),
    Family(("ministral", "ministral3"), kv="required", dim_needed=True, windows="every", style=styles.plain),
    Family(("mixtral",), kv="required", windows="every", experts="local", style=styles.plain),
    Family(("qwen2", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_5_omni_text"),
           kv="required", windows="qwen", style=styles.qwen2, nested=_QWEN2),
    Family(("qwen2_moe",), kv="required", windows="qwen", experts="qwen", style=styles.qwen2_moe),
    Family(("qwen3", "qwen3_vl_text"), kv="required", head_dim=128, windows="qwen", style=styles.qwen3),
    Family(("qwen3_moe", "qwen3_vl_moe_text", "qwen3_omni_moe_text"), kv="required", dim_needed=True,
           windows="qwen_every", experts="qwen", style=styles.qwen3),
    Family(("qwen3_next", "qwen3_5_moe_text", "qwen3_5_text"), kv="required", head_dim=256, windows="linear",
           experts="qwen", style=styles.qwen3_next),
    Family(("gemma",), kv="required", head_dim=256, tied=True, style=styles.bias_by_field),
    Family(("gemma2",), kv="required", head_dim=256, windows="pattern", pattern=2, tied=True, style=styles.gemma2),
    Family(("gemma3_text",), kv="required", head_dim=256, windows="pattern", pattern=6, tied=True,
           style=styles.gemma3, nested=_GEMMA3),
    Family(("gemma3n_text",), kv="required", head_dim=256, windows="pattern", pattern=5, tied=True, nested=_GEMMA3N),
    Family(("phi3", "phi4mm"), windows="every", style=styles.plain),
    Family(("phimoe",), kv="required", windows="every", experts="local", style=styles.phimoe),
    Family(("phi", "phi-msft"), style=styles.phi),
    Family(("gpt2",), kv="heads", tied=True, style=styles.gpt2),
    Family(("gpt_bigcode",), kv="multi_query", tied=True, style=styles.gpt2),
    Family(("gpt_neo",), kv="heads", windows="gpt_neo", tied=True, style=styles.gpt_neo),
    Family(("gptj",), kv="heads", style=styles.gptj),
    Family(("gpt_neox",), kv="heads", style=styles.gpt_neox),
    Family(("opt",), kv="heads", tied=True, style=styles.opt),
    Family(("bloom",), kv="heads", tied=True, style=styles.bloom),
    Family(("falcon", "RefinedWeb", "RefinedWebModel"), kv="falcon", tied=True, style=styles.falcon),
    Family(("mpt",), kv="mpt", tied=True, style=styles.mpt),
    Family(("chatglm",), kv="chatglm", style=styles.chatglm),
    Family(("starcoder2",), kv="required", windows="every", tied=True, style=styles.starcoder2),
    Family(("stablelm", "stablelm_epoch"), kv="required", style=styles.stablelm),
    Family(("cohere",), tied=True, style=styles.cohere),
    Family(("cohere2",), windows="pattern", pattern=4, tied=True, style=styles.cohere2),
    Family(("glm",), kv="required", head_dim=128, style=styles.glm),
    Family(("glm4", "glm4v_text"), kv="required", head_dim=128, style=styles.glm4),
    Family(("glm4_moe", "glm4v_moe_text"), kv="required", dim_needed=True, experts="deepseek", style=styles.glm4_moe),
    Family(("granite",), style=styles.llama),
    Family(("granitemoe",), experts="local", style=styles.bias_by_field),
    Family(("smollm3",), kv="required", windows="qwen", tied=True, style=styles.llama),
    Family(("olmo",), style=styles.olmo),
    Family(("olmo2",), style=styles.olmo2),
    Family(("olmo3",), windows="pattern", pattern=4, style=styles.olmo2),
    Family(("olmoe",), experts="olmoe", style=styles.olmo2),
    Family(("nemotron",), style=styles.nemotron),
    Family(("exaone4",), kv="required", windows="pattern", pattern=4, style=styles.qk_head_norm),
    Family(("seed_oss",), kv="required", head_dim=128, style=styles.seed_oss),
    Family(("hunyuan_v1_dense",), style=styles.hunyuan),
    Family(("ernie4_5",), kv="required", head_dim=128, tied=True, style=styles.ernie),
    Family(("minimax_m2",), kv="required", head_dim=128, experts="local", style=styles.qk_full_norm),
    Family(("gpt_oss",), kv="required", head_dim=64, windows="pattern", pattern=2, experts="local",
           style=styles.gpt_oss),
    Family(("llama4_text",), kv="required", head_dim=128, windows="chunked", experts="llama4", style=styles.plain),
    Family(("deepseek_v2", "deepseek_v3", "kimi_k2", "mistral4", "glm4_moe_lite"), kv="mla", experts="deepseek",
           style=styles.bias_by_field),
    Family(("deepseek_v32", "glm_moe_dsa"), kv="mla", experts="deepseek", sparse=True, style=styles.deepseek_v32),
    Family(("minicpm3",), kv="mla", tied=True, style=styles.bias_by_field),
)  # fmt: skip
FAMILIES: dict[str, Family] = {name: family for family in _ALL for name in family.names}

# Wrappers around a language model whose text section may leave its own type out.
TEXT_TYPES = {"llava": "llama", "llava_next": "llama", "mistral3": "mistral", "gemma3": "gemma3_text",
              "paligemma": "gemma", "llama4": "llama4_text", "gemma3n": "gemma3n_text", "mllama": "mllama_text_model",
              "qwen2_vl": "qwen2_vl_text",
              "qwen2_5_vl": "qwen2_5_vl_text", "qwen3_vl": "qwen3_vl_text", "qwen3_vl_moe": "qwen3_vl_moe_text",
              "qwen3_5": "qwen3_5_text", "qwen3_5_moe": "qwen3_5_moe_text"}  # fmt: skip
TEXT_SECTIONS = ("text_config", "language_config", "llm_config", "thinker_config")

# Types that keep no cache of the kind counted here, and why.
REFUSED = {
    **dict.fromkeys(("t5", "mt5", "umt5", "bart", "mbart", "pegasus", "whisper", "marian", "t5gemma", "m2m_100"),
                    "is an encoder-decoder: its cross-attention cache depends on the input's length too"),
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "electra", "deberta", "deberta-v2", "modernbert", "distilbert",
                     "albert", "clip", "vit", "siglip"), "is an encoder: it keeps no K/V cache"),
    **dict.fromkeys(("mamba", "mamba2", "falcon_mamba", "rwkv", "xlstm"),
                    "has no attention: it keeps a state of fixed size and no K/V cache"),
}  # fmt: skip

# Fields that change what is cached. Nobody who does not know the family may read past them.
DECISIVE = frozenset({
    "attention_chunk_size", "attention_types", "attn_layer_indices", "attn_layer_period", "attn_type_list",
    "block_configs", "block_types", "cla_share_factor", "compress_ratios", "conv_L_cache", "cross_attention_layers",
    "decoder_attention_types", "full_attention_interval", "full_attn_idxs", "global_head_dim", "hybrid_layer_ids",
    "hybrid_layer_pattern", "hybrid_override_pattern", "index_head_dim", "interleaved_sliding_window",
    "layer_group_size", "layers_block_type", "linear_attn_config", "linear_num_value_heads", "mamba_d_state",
    "mamba_expand", "mixer_types", "num_global_key_value_heads", "num_key_value_heads_per_layer",
    "num_kv_shared_layers", "per_layer_config", "rnn_state_size", "sliding_window_layers", "ssm_cfg",
    "ssm_state_size", "state_size", "swa_head_dim", "swa_num_key_value_heads", "use_bidirectional_attention",
    "use_cla", "zero_expert_num",
})  # fmt: skip
