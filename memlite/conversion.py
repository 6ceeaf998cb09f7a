"""Converting all-MiniLM-L6-v2 from safetensors to the GGUF that llama.cpp runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from memlite.errors import ModelError, ModelMissingError
from memlite.models import STRIPPED_BY_MEMLITE, read_number


def convert_minilm(safetensors: Path, vocabulary: str, config: Mapping[str, Any], out: Path) -> None:
    """Write all-MiniLM-L6-v2 as one GGUF file: matrices in F16, norms, biases and positions in F32.

    vocabulary: the text of vocab.txt, one token a line. config: the content of config.json.
    """
    try:
        import gguf
        import numpy
    except ImportError as problem:
        raise ModelMissingError(
            f"converting a model needs the packages gguf and numpy ({problem}): pip install 'memlite[local]'"
        ) from problem
    layers = config["num_hidden_layers"]
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, layers)
    writer = gguf.GGUFWriter(out, "bert")
    writer.add_type(gguf.GGUFType.MODEL)
    writer.add_name("all-MiniLM-L6-v2")
    writer.add_license("apache-2.0")
    writer.add_block_count(layers)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_token_type_count(config["type_vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    _add_vocabulary(writer, vocabulary.split("\n")[: config["vocab_size"]])

    kept_exact = {"token_types.weight", "position_embd.weight"}  # llama.cpp adds these as they are
    for name, tensor in _safetensors(safetensors):
        if name == "embeddings.position_ids" or name.startswith("pooler."):
            continue  # not used by mean pooling
        new_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if new_name is None:
            raise ModelError(f"{safetensors} holds the tensor {name}, which a BERT model does not have")
        exact = tensor.ndim == 1 or new_name in kept_exact
        writer.add_tensor(new_name, tensor.astype(numpy.float32 if exact else numpy.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_vocabulary(writer: Any, tokens: list[str]) -> None:
    """A WordPiece vocabulary as llama.cpp wants it: the start of a word is marked, not its continuation."""
    import gguf

    special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}

    def marked(token: str) -> str:
        if token in special:
            return token
        return token[2:] if token.startswith("##") else "\u2581" + token

    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([marked(token) for token in tokens])
    kinds = gguf.TokenType
    writer.add_token_types([kinds.CONTROL if token in special else kinds.NORMAL for token in tokens])
    writer.add_bos_token_id(tokens.index("[CLS]"))
    writer.add_sep_token_id(tokens.index("[SEP]"))
    writer.add_unk_token_id(tokens.index("[UNK]"))
    writer.add_pad_token_id(tokens.index("[PAD]"))
    writer.add_mask_token_id(tokens.index("[MASK]"))
    # llama.cpp takes for accents what are vowels in Hindi, Bengali or Tamil, so embed.py strips them instead.
    writer.add_bool("tokenizer.ggml.normalizer.strip_accents", False)
    writer.add_bool(STRIPPED_BY_MEMLITE, True)


def _safetensors(path: Path) -> Iterable[tuple[str, Any]]:
    """The tensors of a safetensors file: eight bytes of length, a JSON header, then the numbers."""
    import numpy

    types = {"F32": "<f4", "F16": "<f2", "I64": "<i8"}
    with path.open("rb") as file:
        length = read_number(file, "<Q")
        header = json.loads(file.read(length))
    data = numpy.memmap(path, dtype=numpy.uint8, mode="r", offset=8 + length)
    for name, about in header.items():
        if name != "__metadata__":
            start, end = about["data_offsets"]
            yield name, data[start:end].view(types[about["dtype"]]).reshape(about["shape"])
