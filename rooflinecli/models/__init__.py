"""Real models: presets, Hugging Face configs, what their caches hold and what their attention computes.

`load_model(name | path | "-")` gives a `ModelSpec`; `attention_workloads` turns it into attention calls.
"""

from __future__ import annotations

from rooflinecli.models.load import load_model
from rooflinecli.models.spec import Attention, ModelSpec
from rooflinecli.models.workloads import LayerWorkload, attention_workloads

__all__ = ["Attention", "LayerWorkload", "ModelSpec", "attention_workloads", "load_model"]
