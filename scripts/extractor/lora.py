"""Low-rank adapters on the linear layers of a LLaMA-type model, and how llama.cpp wants them written.

Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models": y = W x + (alpha / rank) B A x, with W frozen.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy
import torch
from torch import nn

_NAMES = {  # of a linear layer in transformers and in GGUF
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


class LowRank(nn.Module):
    """A frozen linear layer and its trained correction; alpha is the rank, so its scale is 1."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base
        self.a = nn.Parameter(torch.empty(rank, base.in_features))
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))
        self.register_buffer("kept", torch.ones(rank), persistent=False)
        nn.init.kaiming_uniform_(self.a, a=5**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        within = nn.functional.linear(x, self.a.to(x.dtype)) * self.kept.to(x.dtype)
        return self.base(x) + nn.functional.linear(within, self.b.to(x.dtype))

    def drop(self, share: float) -> None:
        """Leave this share of the ranks out of the next steps, each by chance; the others count for more instead."""
        self.kept.bernoulli_(1.0 - share).div_(1.0 - share)


def attach(model: Any, rank: int) -> None:
    """Freeze the model and put a LowRank around every linear layer of its blocks."""
    model.requires_grad_(False)
    for layer in model.model.layers:
        for name in _NAMES:
            parent, _, child = name.partition(".")
            setattr(getattr(layer, parent), child, LowRank(getattr(getattr(layer, parent), child), rank))


def layers(model: Any) -> Iterator[tuple[str, LowRank]]:
    """Every LowRank with its name in GGUF: blk.0.attn_q."""
    for number, layer in enumerate(model.model.layers):
        for name, short in _NAMES.items():
            parent, _, child = name.partition(".")
            yield f"blk.{number}.{short}", getattr(getattr(layer, parent), child)


def write(model: Any, path: Path, facts: dict[str, str]) -> None:
    """Write the adapter as a GGUF file. facts: what it was made for, under memlite.* keys."""
    tensors: dict[str, Any] = {}
    rank = 0
    for name, layer in layers(model):
        rank = layer.a.shape[0]
        a, b = layer.a.detach().float().cpu().numpy(), layer.b.detach().float().cpu().numpy()
        heads = _heads(model, name)
        tensors[f"{name}.weight.lora_a"] = a
        tensors[f"{name}.weight.lora_b"] = _permuted(b, heads) if heads else b
    pack(path, tensors, float(rank), facts)


def pack(path: Path, tensors: dict[str, Any], alpha: float, facts: dict[str, str]) -> None:
    """Write named arrays, ordered as llama.cpp wants them, as an adapter of Q8_0 tensors."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string("adapter.type", "lora")
    for key, value in facts.items():
        writer.add_string(key, value)
    for name, values in tensors.items():
        packed = gguf.quants.quantize(numpy.ascontiguousarray(values), gguf.GGMLQuantizationType.Q8_0)
        writer.add_tensor(name, packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.add_float32("adapter.lora.alpha", alpha)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def unpack(path: Path) -> dict[str, Any]:
    """The arrays of an adapter file by name."""
    return {
        tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type) for tensor in gguf.GGUFReader(path).tensors
    }


def load(model: Any, path: Path) -> None:
    """Set the LowRank layers to what an adapter file holds; the inverse of write()."""
    held = {name: torch.from_numpy(values.copy()) for name, values in unpack(path).items()}
    with torch.no_grad():
        for name, layer in layers(model):
            a, b = held[f"{name}.weight.lora_a"], held[f"{name}.weight.lora_b"]
            heads = _heads(model, name)
            layer.a.copy_(a)
            layer.b.copy_(torch.from_numpy(_unpermuted(b.numpy(), heads)) if heads else b)


def _heads(model: Any, name: str) -> int:
    """How many heads share the rows of a layer whose rows llama.cpp wants in another order, else 0."""
    if name.endswith("attn_q"):
        return int(model.config.num_attention_heads)
    return int(model.config.num_key_value_heads) if name.endswith("attn_k") else 0


def _permuted(rows: Any, heads: int) -> Any:
    """transformers rotates the two halves of a head, llama.cpp its neighbouring rows: (half, i) becomes (i, half)."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def _unpermuted(rows: Any, heads: int) -> Any:
    return rows.reshape(heads, rows.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)
