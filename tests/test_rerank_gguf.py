"""A GGUF reranker: it scores as its model does elsewhere, and what llama.cpp would read otherwise is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memlite import Memory, ModelError, models
from memlite.conversion import _add_vocabulary
from memlite.embed import GGUFEmbedder
from memlite.rerank_gguf import GGUFReranker

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [*SPECIAL, "ana", "tea", "drinks", "what", "does", "drink", "at", "noon", "##s", ".", "?"]
LAYERS, WIDTH, WINDOW = 2, 32, 96


class Tiny:
    """A cross-encoder as small as can be, that has learnt nothing, and its GGUF file."""

    def __init__(self, path: Path, *, labels: int = 1, segments: int = 1) -> None:
        import gguf
        import torch
        from transformers import BertConfig, BertForSequenceClassification

        torch.manual_seed(1)
        config = BertConfig(
            vocab_size=len(WORDS), hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=2,
            intermediate_size=2 * WIDTH, max_position_embeddings=WINDOW, num_labels=labels, type_vocab_size=segments,
            initializer_range=0.3,
        )  # fmt: skip
        self.path = path
        self.model = BertForSequenceClassification(config).eval()
        writer = gguf.GGUFWriter(path, "bert")
        writer.add_type(gguf.GGUFType.MODEL)
        writer.add_block_count(LAYERS)
        writer.add_context_length(WINDOW)
        writer.add_embedding_length(WIDTH)
        writer.add_feed_forward_length(2 * WIDTH)
        writer.add_head_count(2)
        writer.add_layer_norm_eps(config.layer_norm_eps)
        writer.add_causal_attention(False)
        writer.add_pooling_type(gguf.PoolingType.RANK)
        writer.add_token_type_count(segments)
        if labels > 1:
            writer.add_classifier_output_labels([f"label {n}" for n in range(labels)])
        _add_vocabulary(writer, WORDS)
        names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, LAYERS)
        for name, tensor in self.model.state_dict().items():
            known = names.get_name(name.removeprefix("bert."), try_suffixes=(".weight", ".bias"))
            for layer, head in (("bert.pooler.dense", "cls"), ("classifier", "cls.output")):
                known = name.replace(layer, head) if name.startswith(layer) else known
            writer.add_tensor(known, tensor.float().numpy())
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def score(self, query: str, text: str) -> float:
        """The score by transformers, of at most WINDOW tokens."""
        import torch

        both = [[WORDS.index(word) for word in each.split()] for each in (query, text)]
        said = [2, *both[0], 3, *both[1]]
        tokens = [*said[: WINDOW - 1], 3]
        with torch.no_grad():
            found: Any = self.model(
                input_ids=torch.tensor([tokens]), token_type_ids=torch.zeros(1, len(tokens), dtype=torch.long)
            )
        return float(torch.sigmoid(found.logits)[0, 0])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return Tiny(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


def test_it_scores_as_the_same_model_does_in_transformers(tiny: Tiny) -> None:
    texts = ["ana drinks tea .", "tea at noon", "noon", "what ?", "tea " * 30, "ana " * 300, "ana " * 200 + "noon"]
    reranker = GGUFReranker(tiny.path)
    for query in ("what does ana drink ?", "tea"):
        theirs = [tiny.score(query, text) for text in texts]
        assert max(theirs) - min(theirs) > 0.1
        assert reranker.scores(query, texts) == pytest.approx(theirs, abs=0.005)
    assert len(reranker.scores("tea " * 500, texts)) == len(texts)
    reranker.close()
    assert reranker.name == "tiny"


def test_a_memory_orders_its_hits_by_one(tiny: Tiny, path: Path) -> None:
    texts = ["ana drinks tea.", "ana drinks tea at noon.", "what does ana drink at noon?"]
    with Memory(path, embedder=False, extractor=False, reranker=tiny.path) as memory:
        memory.remember(texts, user_id="u")
        hits = memory.search("ana drinks", user_id="u")
        expected = {text: tiny.score("ana drinks", text.replace(".", " .").replace("?", " ?")) for text in texts}
        assert {hit.text: hit.score for hit in hits} == pytest.approx(expected, abs=0.005)
        assert [hit.text for hit in hits] == sorted(texts, key=lambda text: -expected[text])
        best = memory.search("ana drinks tea at noon", user_id="u")[0]
        assert (best.text, best.score) == (texts[1], 1)


def test_what_does_not_rank_as_it_was_trained_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    embedder = models.find("embedder")
    assert embedder is not None
    for file, message in (
        (embedder.path, "is no reranker"),
        (Tiny(tmp_path / "labels.gguf", labels=2).path, "gives 2 scores"),
        (Tiny(tmp_path / "segments.gguf", segments=2).path, "segments"),
    ):
        with pytest.raises(ModelError, match=message):
            GGUFReranker(file).scores("tea", ["ana"])
    with pytest.raises(ModelError, match="is a reranker"):
        GGUFEmbedder(tiny.path).embed(["tea"])
