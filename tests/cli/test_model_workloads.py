"""`--model` on the commands that take a workload: the layers' own calls, as if typed one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Run


def document(run: Run, *arguments: str) -> dict[str, Any]:
    done = run(*arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


TYPED = {
    # model and its step -> layers, and the call each makes as published configs give it
    "llama-3.1-8b --context 4096 --batch 2": [
        (32, "--batch 2 --N 4096 --heads 32 --kv-heads 8 --d 128 --causal"),
    ],
    "llama-3.1-8b --context 8Ki --phase decode --batch 16 --kv-dtype fp8": [
        (32, "--batch 16 --N 1 --N-kv 8192 --heads 32 --kv-heads 8 --d 128 --causal --kv-dtype fp8"),
    ],
    "gpt-oss-20b --context 2048": [
        (12, "--N 2048 --heads 64 --kv-heads 8 --d 64 --causal --window 128"),
        (12, "--N 2048 --heads 64 --kv-heads 8 --d 64 --causal"),
    ],
    "gemma-3-27b --context 16Ki --N 512": [
        (52, "--N 512 --N-kv 16384 --heads 32 --kv-heads 16 --d 128 --causal --window 1024"),
        (10, "--N 512 --N-kv 16384 --heads 32 --kv-heads 16 --d 128 --causal"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("step", TYPED)
def test_the_layers_and_their_sum_are_what_typing_them_gives(run: Run, step: str) -> None:
    whole = document(run, "bytes", "--model", *step.split(), "--gpu", "h200")
    typed = [(count, document(run, "bytes", *call.split(), "--gpu", "h200")) for count, call in TYPED[step]]
    assert [layer["count"] for layer in whole["layers"]] == [count for count, _ in typed]
    assert [layer["workload"] for layer in whole["layers"]] == [one["workload"] for _, one in typed]
    expected = [result for _, one in typed for result in one["results"]]
    extra = ("layer", "count", "workload")
    assert [{k: v for k, v in result.items() if k not in extra} for result in whole["results"]] == expected
    for total in whole["total"]:
        mine = [
            (count, result)
            for count, one in typed
            for result in one["results"]
            if result["algorithm"] == total["algorithm"]
        ]
        for level, field in (("sm", "read"), ("sm", "write"), ("hbm", "read_high"), ("compulsory", "total")):
            summed = sum(count * result["bytes"][level][field] for count, result in mine)
            assert total["bytes"][level][field] == summed
        assert total["flops"]["executed"] == sum(count * result["flops"]["executed"] for count, result in mine)
        seconds = sum(count * result["seconds_at_least"] for count, result in mine)
        assert total["seconds_at_least"] == pytest.approx(seconds, rel=1e-12)


def test_each_kind_of_layer_is_explained(run: Run) -> None:
    whole = document(run, "explain", "--model", "gpt-oss-20b", "--context", "2048", "-a", "flash2")
    one_by_one = [
        {"layer": kind, "count": count, **document(run, "explain", *typed.split(), "-a", "flash2")["results"][0]}
        for (count, typed), kind in zip(TYPED["gpt-oss-20b --context 2048"], ("sliding", "full"), strict=True)
    ]
    assert [{**result, "workload": None} for result in whole["results"]] == [
        {**result, "workload": None} for result in one_by_one
    ]


def test_a_latent_cache_is_read_once(run: Run) -> None:
    whole = document(run, "bytes", "--model", "deepseek-v3", "--phase", "decode", "--context", "4096")
    assert {result["algorithm"] for result in whole["results"]} == {"mla"}
    # One latent of 512 and 64 rotary elements a token for 128 heads, 61 layers, fp16; Q and O besides.
    inputs = 4096 * 576 + 128 * 576
    assert whole["total"][0]["bytes"]["compulsory"]["read"] == 61 * 2 * inputs


def test_the_roofline_has_a_point_a_kind_of_layer_and_says_the_whole(run: Run) -> None:
    chart = document(run, "roofline", "--model", "gpt-oss-20b", "--context", "2048", "--gpu", "h200", "-a", "flash2")
    assert {point["at"]["layer"] for point in chart["points"]} == {"12 sliding", "12 full"}
    assert any("all layers one after the other" in note for note in chart["notes"])


def test_a_context_can_be_swept(run: Run) -> None:
    sweep = ("--sweep", "context=1Ki..4Ki", "--phase", "decode", "-a", "decode")
    chart = document(run, "roofline", "--model", "llama-3.1-8b", *sweep)
    assert {point["at"]["context"] for point in chart["points"]} == {1024, 2048, 4096}


def test_a_config_comes_from_standard_input(run: Run) -> None:
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 256, "num_attention_heads": 4,
        "num_hidden_layers": 3, "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 1000,
        "max_position_embeddings": 2048,
    }  # fmt: skip
    for command in ("bytes", "roofline"):
        done = run(command, "--model", "-", "--context", "128", "--format", "json", stdin=json.dumps(config))
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--model llama-3.1-8b", "--context is missing"),
        ("--model llama-3.1-8b --context 8Ki --heads 4", "--heads: --model llama-3.1-8b says it"),
        ("--model llama-3.1-8b --context 8Ki --no-causal", "--causal: --model llama-3.1-8b says it"),
        ("--model llama-3.1-8b --context 8Ki --phase think", "--phase think: must be prefill or decode"),
        ("--model llama-3.1-8b --context 8Ki --N 9000", "--N 9000: more queries"),
        ("--model llama-3.1-8b --context 0", "--context 0: must be at least 1"),
        ("--model lama-3.1-8b --context 8Ki", "llama-3.1-8b"),
        ("--N 8 --d 64 --context 8", "--context 8: is of a --model"),
        ("--N 8 --d 64 --phase decode", "--phase decode: is of a --model"),
    ],
)
def test_what_a_model_contradicts_is_refused(run: Run, arguments: str, said: str) -> None:
    done = run("bytes", *arguments.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr.split("\n\n")[0] + done.stderr
    assert "Traceback" not in done.stderr
