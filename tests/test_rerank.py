"""A reranker orders the best hits; a broken one is an error, and none is the default."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memlite import InvalidInputError, Memory, ModelError, ModelMissingError
from memlite.cli import main
from memlite.rerank import POOL


class Shortest:
    """A reranker that likes short texts. It keeps what it was asked."""

    name = "shortest"

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        self.asked.append((query, list(texts)))
        return [1 / len(text) for text in texts]


class Broken(Shortest):
    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return list(self.answer)


TEXTS = ["Tea with oat milk and honey is what Ana drinks in the morning.", "Ana drinks tea at noon.", "Ana drinks tea."]


def filled(path: Path, reranker: Any) -> Memory:
    memory = Memory(path, embedder=False, extractor=False, reranker=reranker)
    memory.remember(TEXTS, user_id="u")
    memory.add({"name": "Ana", "content": "I drink tea!"}, user_id="u", extract="never")
    return memory


def test_hits_come_in_the_order_of_the_rerankers_scores(path: Path) -> None:
    reranker = Shortest()
    with filled(path, reranker) as memory:
        hits = memory.search("What does Ana drink?", user_id="u", limit=2, explain=True)
        assert [hit.text for hit in hits] == ["Ana drinks tea.", "I drink tea!"]
        assert [hit.score for hit in hits] == [1 / len("Ana drinks tea."), 1 / len("Ana: I drink tea!")]
        assert [hit.explain.rerank for hit in hits if hit.explain] == [hit.score for hit in hits]
        ((query, texts),) = reranker.asked
        assert query == "What does Ana drink?"
        assert set(texts) == {*TEXTS, "Ana: I drink tea!"}  # the whole pool, not what the limit leaves
        assert list(memory.search("xyzzy", user_id="u")) == []
        assert len(reranker.asked) == 1


def test_no_more_is_read_than_the_pool(path: Path) -> None:
    reranker = Shortest()
    with Memory(path, embedder=False, extractor=False, reranker=reranker) as memory:
        memory.remember([f"Ana drinks tea number {n}." for n in range(2 * POOL)], user_id="u")
        assert len(memory.search("tea", user_id="u", limit=3)) == 3
        assert len(reranker.asked[0][1]) == POOL


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([0.5], "1 scores for 4 texts"),
        ([0.1, 0.2, 0.3, math.nan], "no numbers"),
        ([0.1, 7.3, 0.3, 0.4], "a score of 7.3, expected numbers from 0 to 1"),
        ([0.1, 0.2, -9.0, 0.4], "a score of -9, expected numbers from 0 to 1"),
        (OSError("gone"), "OSError: gone"),
    ],
    ids=["too few", "nan", "above 1", "below 0", "error"],
)
def test_a_broken_reranker_is_an_error_that_names_it(path: Path, answer: Any, message: str) -> None:
    with filled(path, Broken(answer)) as memory, pytest.raises(ModelError, match=message):
        memory.search("tea", user_id="u")


def test_the_query_itself_stays_first_with_a_score_of_1(path: Path) -> None:
    with filled(path, Broken([0.9, 1 + 1e-9, -1e-9, 0.2])) as memory:
        first, second, *_, last = memory.search("Ana drinks tea.", user_id="u", explain=True)
        assert (first.text, first.score) == ("Ana drinks tea.", 1)
        assert first.explain is not None
        assert first.explain.rerank == 1
        assert (second.score, last.score) == (1, 0)


def test_a_long_query_is_read_by_both_ends(path: Path) -> None:
    reranker = Shortest()
    with filled(path, reranker) as memory:
        memory.search("tea " * 20_000 + "end", user_id="u")
        memory.search("tea " * 400, user_id="u")
    (long, _), (short, _) = reranker.asked
    assert len(long) < 2100
    assert (long[:4], long[-3:], short) == ("tea ", "end", "tea " * 400)


def test_what_is_no_reranker_is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="reranker"):
        Memory(path, reranker=7)  # type: ignore[arg-type]
    with pytest.raises(ModelMissingError, match="there is no"):
        Memory(path, reranker=tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with filled(path, tmp_path / "empty") as memory, pytest.raises(ModelError, match="no cross-encoder"):
        memory.search("tea", user_id="u")


def tiny(place: Path, labels: int = 1, activation: Any = None, logit: float = 0.0) -> Path:
    """A real cross-encoder of sentence-transformers, as small as can be, that has learnt nothing but the logit."""
    from sentence_transformers import CrossEncoder
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ana", "tea", "drinks", "what", "does", "drink", ".", "?"]
    (place / "vocab.txt").write_text("\n".join(words))
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        num_labels=labels,
    )
    model = BertForSequenceClassification(config)
    model.classifier.bias.data.fill_(logit)
    model.save_pretrained(place / "raw")
    BertTokenizer(str(place / "vocab.txt")).save_pretrained(place / "raw")
    CrossEncoder(str(place / "raw"), device="cpu", activation_fn=activation).save_pretrained(str(place / "tiny"))
    return place / "tiny"


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny(tmp_path_factory.mktemp("models"))


def test_a_cross_encoder_is_loaded_from_its_folder(path: Path, cross_encoder: Path) -> None:
    with filled(path, cross_encoder) as memory:
        hits = memory.search("What does Ana drink?", user_id="u")
        scores = [hit.score for hit in hits]
        assert len(hits) == 4
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
        assert [hit.id for hit in memory.search("What does Ana drink?", user_id="u")] == [hit.id for hit in hits]


def test_a_cross_encoder_whose_own_activation_is_no_probability_scores_from_0_to_1(path: Path, tmp_path: Path) -> None:
    """As those published for MS MARCO, which give logits from -11 to 11."""
    from torch.nn import Identity

    place = tiny(tmp_path, activation=Identity(), logit=7.0)
    with filled(path, place) as memory:
        scores = [hit.score for hit in memory.search("What does Ana drink?", user_id="u")]
        assert scores == sorted(scores, reverse=True)
        assert all(0.99 < score < 1 for score in scores)
        best = memory.search(TEXTS[0], user_id="u")[0]
        assert (best.text, best.score) == (TEXTS[0], 1)


def test_a_classifier_is_no_reranker(path: Path, tmp_path: Path) -> None:
    with filled(path, tiny(tmp_path, labels=3)) as memory, pytest.raises(ModelError, match="3 labels"):
        memory.search("tea", user_id="u")


def test_a_benchmark_measures_a_reranker(cross_encoder: Path, tmp_path: Path) -> None:
    said = {"conv": "c", "session": 1, "time": "2023-05-01T10:00:00+00:00", "speaker": "Ana"}
    turns = [{**said, "id": f"D1:{n}", "text": f"Tea number {n} is fine."} for n in range(1, 4)]
    asked = {"qid": "q", "conv": "c", "category": 4, "question": "Which tea is number 2?", "evidence": ["D1:2"]}
    (tmp_path / "turns.jsonl").write_text("\n".join(map(json.dumps, turns)))
    (tmp_path / "questions.jsonl").write_text(json.dumps(asked))
    result = CliRunner().invoke(
        main, ["bench", "locomo", str(tmp_path), "--no-vectors", "--json", "--reranker", str(cross_encoder)]
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout.splitlines()[0])["any@10"] == 1.0
