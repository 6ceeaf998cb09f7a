"""A rewriter adds words to a query; a broken one is an error, and none is the default."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memlite import InvalidInputError, Memory, ModelError, ModelMissingError, models
from memlite.cli import main
from memlite.rewrite import GGUFRewriter


class Saying:
    """A rewriter that always says the same."""

    name = "saying"

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def rewrite(self, query: str) -> Any:
        self.asked.append(query)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def filled(path: Path, rewriter: Any) -> Memory:
    memory = Memory(path, embedder=False, extractor=False, rewriter=rewriter)
    memory.remember(["Ana is a nurse at Feedzai.", "Ben likes tea."], user_id="u")
    return memory


def test_what_a_rewriter_adds_is_searched_for(path: Path) -> None:
    rewriter = Saying("nurse hospital")
    with filled(path, rewriter) as memory:
        assert [hit.text for hit in memory.search("What is her job?", user_id="u")] == ["Ana is a nurse at Feedzai."]
        assert rewriter.asked == ["What is her job?"]
        assert memory.search(" ", user_id="u").hits == ()
        assert len(rewriter.asked) == 1


def test_without_a_rewriter_nothing_is_added(path: Path) -> None:
    with filled(path, None) as memory:
        assert not memory.search("What is her job?", user_id="u")


@pytest.mark.parametrize(
    ("answer", "message"), [(RuntimeError("no"), "RuntimeError: no"), (7, "int"), (ModelError("gone"), "gone")]
)
def test_a_broken_rewriter_is_an_error_that_names_it(path: Path, answer: Any, message: str) -> None:
    with filled(path, Saying(answer)) as memory, pytest.raises(ModelError, match=message):
        memory.search("tea", user_id="u")


def test_what_is_no_rewriter_is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="rewriter"):
        Memory(path, rewriter=7)  # type: ignore[arg-type]
    with filled(path, tmp_path / "nothing.gguf") as memory, pytest.raises(ModelMissingError, match="no model file"):
        memory.search("tea", user_id="u")


def chat_model() -> Path:
    found = models.find("extractor")
    assert found
    return found.path


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_real_model_adds_words_and_does_so_after_a_fork() -> None:
    rewriter = GGUFRewriter(chat_model())
    added = rewriter.rewrite("Where does Ana work?")
    assert 3 <= len(added.split()) <= 12
    child = os.fork()
    if child == 0:
        os._exit(0 if rewriter.rewrite("Where does Ana work?") == added else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert rewriter.rewrite("Where does Ana work? " * 500)
    rewriter.close()
    assert rewriter.rewrite("Where does Ana work?") == added


def test_a_benchmark_measures_a_rewriter(tmp_path: Path) -> None:
    turn = {"conv": "c", "session": 1, "time": "2026-01-01T10:00:00+00:00", "speaker": "Ana"}
    turns = [turn | {"id": f"D1:{n}", "text": text} for n, text in enumerate(("I am a nurse.", "I like tea."), 1)]
    question = {"qid": "q", "conv": "c", "category": 4, "question": "What is Ana's job?", "evidence": ["D1:1"]}
    for name, lines in (("turns", turns), ("questions", [question])):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    words = ["bench", "locomo", str(tmp_path), "--no-vectors", "--json", "--rewriter", str(chat_model())]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout.splitlines()[0])["n"] == 1
