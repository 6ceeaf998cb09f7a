"""The adapter as it was trained and as llama.cpp runs it: the same scores."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy
import pytest

from memlite import compact, forms
from memlite import models as memlite_models
from memlite.chat import ChatModel
from memlite.records import ExtractedFact, ExtractionRequest, Turn

ROOT = Path(__file__).parent.parent
NOON = datetime(2025, 5, 12, 12, tzinfo=timezone.utc)
TEXT = "Maria moved from Lisbon to Porto on 2025-05-11 for her new job at Feedzai."


@pytest.fixture(scope="module")
def model(models: Path) -> Any:
    """The base in torch, with an adapter of zeros, for tests to set."""
    import lora
    import torch
    from transformers import AutoModelForCausalLM

    base = the_base()
    model = AutoModelForCausalLM.from_pretrained(str(base.parent), gguf_file=base.name, dtype=torch.float32).eval()
    torch.manual_seed(1)
    lora.attach(model, 32)
    return model


def the_base() -> Path:
    found = memlite_models.find("extractor")
    assert found is not None
    return found.path


def scored_alike(model: Any, adapter: Path, request: ExtractionRequest | None, text: str) -> None:
    """At every second token of a text, behind the prompt of a request, torch and llama.cpp give the same scores."""
    import torch

    chat = ChatModel(the_base(), 1024, 1)
    try:
        prompt = chat.prompt(compact.SYSTEM, (), compact.render(request)) if request else []
        tokens = [*prompt, *chat.plain(text)]
        places = range(len(prompt) + 2, len(tokens) + 1, 2)
        without = [scores(chat, tokens[:place]) for place in places]
        chat.adapt(adapter)
        adapted = [scores(chat, tokens[:place]) for place in places]
    finally:
        chat.close()
    with torch.no_grad():
        wanted = model(input_ids=torch.tensor([tokens])).logits[0].numpy()
    assert len(places) >= 7
    for place, bare, own in zip(places, without, adapted, strict=True):
        alike = cosine(own, wanted[place - 1])
        assert alike > 0.995  # llama.cpp rounds activations to 8 bits
        assert 1 - cosine(bare, wanted[place - 1]) > 5 * (1 - alike)


def test_torch_and_llama_cpp_give_the_same_scores_with_the_adapter_that_ships(model: Any) -> None:
    import lora

    adapter = forms.adapter_of(the_base())
    assert adapter is not None
    lora.load(model, adapter)
    said = Turn(1, "user", "Maria", "I moved from Lisbon to Porto for my job at Feedzai.", NOON, ())
    answer = compact.write((ExtractedFact("Maria moved from Lisbon to Porto for her job at Feedzai.", sources=(1,)),))
    scored_alike(model, adapter, ExtractionRequest((said,)), answer)


def test_torch_and_llama_cpp_give_the_same_scores_with_an_adapter(model: Any, tmp_path: Path) -> None:
    import lora
    import torch

    torch.manual_seed(1)
    with torch.no_grad():
        for _, layer in lora.layers(model):
            layer.b.normal_(std=0.1)
    path = tmp_path / "random.gguf"
    lora.write(model, path, {"memlite.base.name": the_base().name})
    scored_alike(model, path, None, TEXT)

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
