"""The adapter as it was trained and as llama.cpp runs it: the same scores."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy
import pytest

from memlite import models as memlite_models
from memlite.chat import ChatModel

ROOT = Path(__file__).parent.parent
TEXT = "Maria moved from Lisbon to Porto on 2025-05-11 for her new job at Feedzai."


def test_torch_and_llama_cpp_give_the_same_scores_with_an_adapter(models: Path, tmp_path: Path) -> None:
    import lora
    import torch
    from transformers import AutoModelForCausalLM

    found = memlite_models.find("extractor")
    assert found is not None
    model = AutoModelForCausalLM.from_pretrained(
        str(found.path.parent), gguf_file=found.path.name, dtype=torch.float32
    ).eval()
    lora.attach(model, 32)
    torch.manual_seed(1)
    with torch.no_grad():
        for _, layer in lora.layers(model):
            layer.b.normal_(std=0.1)
    path = tmp_path / "random.gguf"
    lora.write(model, path, {"memlite.base.name": found.name})

    chat = ChatModel(found.path, 512, 1)
    try:
        tokens = chat.plain(TEXT)
        without = scores(chat, tokens)
        chat.adapt(path)
        adapted = scores(chat, tokens)
    finally:
        chat.close()
    with torch.no_grad():
        wanted = model(input_ids=torch.tensor([tokens])).logits[0, -1].numpy()
    assert cosine(adapted, wanted) > 0.99  # llama.cpp rounds activations to 8 bits
    assert 1 - cosine(without, wanted) > 10 * (1 - cosine(adapted, wanted))

    before = [layer.b.clone() for _, layer in lora.layers(model)]
    lora.load(model, path)
    for (name, layer), b in zip(lora.layers(model), before, strict=True):
        assert torch.allclose(layer.b, b, atol=0.005), name

    with torch.no_grad():
        for _, layer in lora.layers(model):
            layer.b.mul_(3)
    facts = {
        f"memlite.{key}": "1" for key in ("base.digest", "base.name", "data_version", "prompt_version", "examples")
    }
    one, three, mean = tmp_path / "one.gguf", tmp_path / "three.gguf", tmp_path / "mean.gguf"
    lora.write(model, three, facts)
    lora.load(model, path)
    lora.write(model, one, facts)
    script = ROOT / "scripts" / "extractor" / "average"
    subprocess.run([sys.executable, script, one, three, "--out", mean], check=True)
    lora.load(model, mean)
    for (name, layer), b in zip(lora.layers(model), before, strict=True):
        assert torch.allclose(layer.b, 2 * b, atol=0.02), name


def scores(chat: ChatModel, tokens: list[int]) -> numpy.ndarray:
    chat._evaluate(tokens)
    held = chat.api.llama_get_logits_ith(chat.context, -1)
    return numpy.ctypeslib.as_array(held, shape=(chat.n_vocab,)).copy()


def cosine(one: numpy.ndarray, other: numpy.ndarray) -> float:
    one, other = one - one.mean(), other - other.mean()
    return float(one @ other / numpy.linalg.norm(one) / numpy.linalg.norm(other))


def test_an_adapter_of_another_shape_is_refused(models: Path, tmp_path: Path) -> None:
    from memlite.errors import ModelError

    found = memlite_models.find("extractor")
    assert found is not None
    chat = ChatModel(found.path, 128, 1)
    try:
        with pytest.raises(ModelError, match="adapter"):
            chat.adapt(found.path)  # a model, no adapter
    finally:
        chat.close()


def test_the_attention_of_the_training_is_torchs_own_with_its_gradients() -> None:
    import attention
    import torch

    torch.manual_seed(1)
    query, key, value = (torch.randn(2, heads, 17, 8, dtype=torch.float64) for heads in (6, 2, 2))
    wanted = torch.randn(2, 6, 17, 8, dtype=torch.float64)
    found = []
    for attend in (
        lambda q, k, v: attention.attend(None, q, k, v, None, scaling=8**-0.5)[0].transpose(1, 2),
        lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
    ):
        inputs = [each.clone().requires_grad_() for each in (query, key, value)]
        out = attend(*inputs)
        (out * wanted).sum().backward()
        found.append([out.detach(), *(each.grad for each in inputs)])
    for ours, theirs in zip(*found, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-6)  # shares are float32
