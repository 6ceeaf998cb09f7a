"""What memlite's search is measured beside: each formula ranks as its numbers, worked out by hand, say."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memlite.bench import baselines, retrieval
from memlite.bench.retrieval import Found
from memlite.bench.sets import Collected, Haystack, Question, Turn
from memlite.cli import main


class AtAngles:
    """An embedder for which each text has a cosine to the question, 0 where none is given."""

    name = "at angles"
    dimension = 2

    def __init__(self, cosines: Mapping[str, float] | None = None) -> None:
        self.cosines = cosines or {}
        self.embedded: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.embedded += texts
        cosines = [1.0 if text.endswith("?") else self.cosines.get(text, 0.0) for text in texts]
        return [[cosine, math.sqrt(1 - cosine * cosine)] for cosine in cosines]


def haystack(texts: Iterable[str], *, session: int = 100) -> Haystack:
    """Turns t0, t1, ... of one user; a session has so many of them."""
    turns = [
        Turn(f"t{number}", str(number // session), "2023-05-08T13:56:00", "user", text)
        for number, text in enumerate(texts)
    ]
    return Haystack("h", turns)


def question(text: str, *turns: str, sessions: Iterable[str] = ()) -> Question:
    return Question("q", "h", "t", text, frozenset(turns), frozenset(sessions))


def test_plain_fts5_ranks_by_the_rarer_word_and_counts_the_tokens_of_its_turns() -> None:
    search = baselines.plain_fts5([haystack(["I like dogs.", "I like my cello, a dog.", "Nothing here.", "dog"])])
    found = search(question("Which cello has a dog?"), 10)
    assert list(found.turns) == ["t1", "t3", "t0"]
    assert found.tokens == round(1.3 * (6 + 1 + 3))
    assert not search(question("..."), 10).returned


def test_dense_ranks_by_cosine_alone() -> None:
    embedder = AtAngles({"a": 0.2, "b": 0.9, "c": -0.5, "d": 0.4})
    search = baselines.dense([haystack("abcd")], embedder)
    assert list(search(question("a?"), 3).turns) == ["t1", "t3", "t0"]
    assert list(search(question("a?"), 10).turns) == ["t1", "t3", "t0", "t2"]


def test_the_bm25_of_mem0s_store() -> None:
    words = baselines.Words(["The dog barked.", "A cat.", "Dogs and dogs"])
    assert words.terms("Whose dogs were barking?") == ["dog", "bark"]
    # ln(1 + 1.5 / 2.5) = 0.470004; the question weighs 2.2 / (1 + 1.2 (0.25 + 0.75 / 256)) = 1.687744,
    # twice in two terms 4.4 / (2 + 1.2 (0.25 + 1.5 / 256)) = 1.907213, once in two 2.2 / 1.307031 = 1.683204.
    assert words.best(words.terms("dog"), 10) == [
        (2, pytest.approx(0.470004 * 1.687744 * 1.907213, abs=1e-5)),
        (0, pytest.approx(0.470004 * 1.687744 * 1.683204, abs=1e-5)),
    ]
    assert [number for number, _ in words.best(words.terms("dog"), 1)] == [2]
    assert words.best([], 10) == []


def test_mem0_adds_a_sigmoid_of_bm25_to_the_cosine() -> None:
    """One of 100 texts has the word: BM25 is ln(1 + 99.5 / 1.5) * 1.6877 * 1.6832 = 11.96, its sigmoid
    1 / (1 + exp(-0.7 * (11.96 - 5))) = 0.992; so 0.2 + 0.992 comes before 0.9, and 0.09 is below the floor."""
    texts = ["flute player", "near", "nearly", "far", *(f"other {number}" for number in range(96))]
    near = AtAngles({"flute player": 0.2, "near": 0.9, "nearly": 0.11, "far": 0.09})
    search = baselines.mem0([haystack(texts)], near)
    assert list(search(question("flute?"), 10).turns) == ["t0", "t1", "t2"]
    assert list(search(question("..?"), 10).turns) == ["t1", "t0", "t2"]
    assert list(search(question("flute?"), 1).turns) == ["t0"]


@pytest.mark.parametrize(("terms", "score"), [(3, 0.927), (6, 0.603), (9, 0.406), (15, 0.330), (16, 0.252)])
def test_mem0_expects_more_of_longer_questions(terms: int, score: float) -> None:
    """Ten of 100 texts have the word: BM25 is ln(1 + 90.5 / 10.5) * 1.6832 = 3.811 times the question's weight,
    6.40, 6.35, 6.30, 6.20 and 6.18. The sigmoids of 0.7 (6.40 - 5), 0.6 (6.35 - 7), 0.5 (6.30 - 9), 0.5 (6.20 - 10)
    and 0.5 (6.18 - 12) are 0.727, 0.403, 0.206, 0.130 and 0.052; the cosine adds 0.2."""
    texts = ["flute player"] * 10 + ["higher", "lower"] + [f"other {number}" for number in range(88)]
    near = AtAngles({"flute player": 0.2, "higher": score + 0.01, "lower": score - 0.01})
    asked = " ".join(["flute", *(f"unknown{number}" for number in range(1, terms))]) + "?"
    found = baselines.mem0([haystack(texts)], near)(question(asked), 12)
    assert list(found.turns) == ["t10", *(f"t{number}" for number in range(10)), "t11"]


def test_a_word_does_not_bring_a_turn_into_mem0s_pool() -> None:
    """60 turns are nearer than the one that has the word, and for ten hits no more than 60 are looked at."""
    near = AtAngles({"flute": 0.3} | {f"other {number}": 0.5 for number in range(60)})
    search = baselines.mem0([haystack(near.cosines)], near)
    assert "t0" not in search(question("flute?"), 10).turns
    assert search(question("flute?"), 16).turns[0] == "t0"


def test_chunks_are_whole_turns_up_to_a_size() -> None:
    turns = haystack(["one two three"] * 4 + ["word " * 20] + ["one two three"]).turns
    cut = baselines.chunks(turns, 8)  # a turn of three words is 4 tokens, one of 20 is 26
    assert [[turn.id for turn in chunk] for chunk in cut] == [["t0", "t1"], ["t2", "t3"], ["t4"], ["t5"]]
    assert baselines.chunks([], 8) == []


def test_chunk_rag_returns_the_turns_of_the_nearest_chunks() -> None:
    """The means of the chunks' vectors, (0.8, 0.4), (0.3, 0.95) and (0.6, 0.8), have the cosines 0.894, 0.3 and 0.6."""
    texts = ["one two three", "four five six", "seven eight nine", "ten eleven twelve", "the last turn"]
    near = AtAngles({texts[0]: 1.0, texts[1]: 0.6, texts[2]: 0.0, texts[3]: 0.6, texts[4]: 0.6})
    search = baselines.chunk_rag([haystack(texts, session=3)], near, 8)
    first, second = (search(question("Which?"), count) for count in (1, 2))
    assert (list(first.turns), list(first.sessions), first.tokens) == (["t0", "t1"], ["0"], 8)
    assert (list(second.turns), list(second.sessions), second.tokens) == (["t0", "t1", "t4"], ["0", "1"], 12)
    assert sorted(near.embedded) == sorted([*texts, "Which?", "Which?"])


def test_the_report_of_passages_counts_everything_returned() -> None:
    one, other, without = question("?", "a", "b", sessions="1"), question("?", "c", sessions="2"), question("?")
    answers = [
        Found(one, ["x"] * 20 + ["b"], ["1"], tokens=10),
        Found(other, ["x"], ["1"], tokens=21),
        Found(without, [], [], tokens=2),
    ]
    made = Collected("made", [], [])
    shares = {"any": 0.5, "frac": 0.25, "all": 0.0}
    assert baselines.report(made, answers, "turn") == {"set": "made", "level": "turn", "n": 2, **shares, "tokens": 11}
    assert baselines.report(made, answers, "session")["all"] == 0.5
    assert baselines.report(made, answers[2:], "turn") == {"set": "made", "level": "turn", "n": 0, "tokens": 2}


def published(path: Path) -> Path:
    said = {
        f"session_{number}": [
            {"speaker": who, "dia_id": f"D{number}:{at}", "text": text} for at, (who, text) in enumerate(turns, 1)
        ]
        for number, turns in enumerate(
            [
                [("Ann", "How was the weekend?"), ("Bob", "I adopted a beagle.")],
                [("Bob", "I started to learn the cello."), ("Ann", "My sister plays the flute.")],
            ],
            1,
        )
    }
    asked = [
        {"question": "Which dog did Bob adopt?", "evidence": ["D1:2"], "category": 4},
        {"question": "Who plays instruments?", "evidence": ["D2:1", "D2:2"], "category": 1},
    ]
    dates = {f"session_{number}_date_time": f"1:56 pm on {number} May, 2023" for number in (1, 2)}
    path.write_text(json.dumps([{"sample_id": "conv-1", "qa": asked, "conversation": said | dates}]), encoding="utf-8")
    return path


def run(*arguments: object) -> str:
    result = CliRunner().invoke(main, ["bench", "locomo", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_run_prints_every_baseline_and_embeds_each_text_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = AtAngles()
    monkeypatch.setattr(retrieval, "open_embedder", lambda: embedder)
    data = published(tmp_path / "locomo10.json")
    reports: list[dict[str, Any]] = [json.loads(line) for line in run(data, "--baselines", "--json").splitlines()]
    again = {text for text in embedder.embedded if embedder.embedded.count(text) > 1}
    assert again == {"Which dog did Bob adopt?", "Who plays instruments?"}  # the questions, to time it
    assert all(each["n"] == 2 for each in reports)
    systems = list(dict.fromkeys(each["system"] for each in reports))
    passages = [f"chunk RAG {size}, k={count}" for size in baselines.CHUNKS for count in (1, 2)]
    assert systems == ["memlite", "plain FTS5", "dense", "mem0's formula", *passages, "full context"]
    assert {each["level"] for each in reports} == {"turn", "session"}
    assert reports[-1].keys() == {"system", "set", "level", "n", "any", "frac", "all", "tokens"}
    assert reports[-1]["any"] == reports[-1]["all"] == 1.0
    shown = run(data, "--baselines")
    assert all(name in shown for name in systems)
    assert "all that is returned, sessions" in shown


def test_without_vectors_only_words_and_the_whole_are_measured(tmp_path: Path) -> None:
    data = published(tmp_path / "locomo10.json")
    systems = {json.loads(line)["system"] for line in run(data, "--no-vectors", "--baselines", "--json").splitlines()}
    assert systems == {"memlite", "plain FTS5", "full context"}
    assert "full context" not in run(data, "--no-vectors")
