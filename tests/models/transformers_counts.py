"""What transformers itself makes of `tests/data/configs`: parameters created, and the shape of the caches it fills.

Run by hand, with transformers installed, when a config is added; its output is the data the tests compare with:

    python tests/models/transformers_counts.py tests/data/configs/*.json > tests/data/model_counts.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TOKENS = 40


def counted(path: Path) -> dict[str, Any]:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    raw = json.loads(path.read_text())
    while "text_config" in raw:
        raw = raw["text_config"]
    model_type = {"kimi_k2": "deepseek_v3"}.get(raw["model_type"], raw["model_type"])
    config = AutoConfig.for_model(model_type, **{k: v for k, v in raw.items() if k != "model_type"})
    config._attn_implementation = "eager"
    with torch.device("meta"):
        parameters = sum(each.numel() for each in AutoModelForCausalLM.from_config(config).parameters())
    if config.hidden_size > 1024:  # a full-sized model is not filled
        return {"parameters": parameters}
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        cache = model(torch.arange(TOKENS)[None] % config.vocab_size, use_cache=True).past_key_values
    return {"parameters": parameters, "layers": [shape(layer) for layer in layers_of(cache)]}


def layers_of(cache: Any) -> list[Any]:
    cache = getattr(cache, "self_attention_cache", cache)
    if hasattr(cache, "layers"):
        return list(cache.layers)
    return list(zip(cache.key_cache, cache.value_cache, strict=True))  # caches of hybrid models


def shape(layer: Any) -> list[int] | None:
    """K/V heads, head dim of K, head dim of V, window (0: none); nothing for a layer that keeps no keys."""
    keys, values = layer if isinstance(layer, tuple) else (getattr(layer, "keys", None), getattr(layer, "values", None))
    if keys is None or keys.numel() == 0:
        return None
    return [keys.shape[1], keys.shape[3], values.shape[3], getattr(layer, "sliding_window", None) or 0]


def main() -> None:
    import transformers

    found: dict[str, Any] = {}
    for path in map(Path, sys.argv[1:]):
        try:
            found[path.stem] = counted(path)
        except Exception as error:
            print(f"{path.stem}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
    rows = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()]
    head = json.dumps(f"transformers {transformers.__version__}")
    print(f'{{"made_with": {head}, "models": {{\n' + ",\n".join(rows) + "\n}}")


if __name__ == "__main__":
    main()
