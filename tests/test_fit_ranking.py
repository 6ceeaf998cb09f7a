"""The script that fits the ranking: a lane that is off nominates nothing, and what is compared is paired."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import pytest

from memlite import weights
from memlite.bench import retrieval
from memlite.bench.sets import Collected, Haystack, Question, Turn, of_one

PARTS = [each for each in weights.WITH_VECTORS if each != "bias"]
TALK = [
    ("Bob", "Good morning!"),
    ("Bob", "Did you sleep well?"),
    ("Ann", "I bought a new cello yesterday."),
    ("Bob", "How much was it?"),
    ("Ann", "Far too much, if you ask my bank."),
    ("Bob", "The plumber comes on Friday."),
    ("Ann", "Then I will stay at home."),
]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = Path(__file__).parent.parent / "scripts" / "fit_ranking"
    loader = SourceFileLoader("fit_ranking", str(path))
    spec = importlib.util.spec_from_loader("fit_ranking", loader)
    assert spec
    made = importlib.util.module_from_spec(spec)
    loader.exec_module(made)
    return made


def collected() -> Collected:
    turns = [Turn(f"D1:{at}", "1", "2023-05-08T13:56:00", *said) for at, said in enumerate(TALK, 1)]
    facts = [("Ann plays in an orchestra called Harmonia.", ["D1:7"], "2023-05-08T13:56:00")]
    asked = [("Which cello did Ann get?", "D1:3"), ("Who plays in Harmonia?", "D1:7"), ("Why?", "D1:5")]
    questions = [
        Question(f"c_q{at}", "c", "t", text, frozenset({right}), frozenset("1"))
        for at, (text, right) in enumerate(asked)
    ]
    return Collected("made", [Haystack("c", turns, facts)], questions)


@pytest.fixture
def store(script: ModuleType, tmp_path: Path, models: Path) -> Iterator[Any]:
    with script.Store.filled(collected(), retrieval.cached(tmp_path / "vectors.db"), gold_facts=True) as filled:
        yield filled


def value(asked: Any, part: str, id_: str | None = None) -> float:
    column = asked.rows[:, PARTS.index(part)]
    return float(column[asked.ids.index(id_)] if id_ else abs(column).max(initial=0.0))


def test_a_lane_that_is_off_nominates_nothing_and_none_of_its_signals_is_known(script: ModuleType, store: Any) -> None:
    cello, harmonia, _ = store.asked(PARTS)
    assert all(value(cello, part) for part in ("semantic", "keyword", "near"))
    assert value(harmonia, "fact_keyword", "D1:7") > 0
    assert harmonia.by_hand["entity"].max() > 0
    off = {}
    for lane, switched_off in script.LANES.items():
        with switched_off():
            off[lane] = store.asked(PARTS)
    for part in ("semantic", "near", "fact_semantic"):
        assert not any(value(each, part) for each in off["vectors"])
    for part in ("keyword", "around", "words", "fact_keyword"):
        assert not any(value(each, part) for each in off["words"])
    assert all(not each.by_hand["entity"].any() for each in off["entities"])
    assert not any(value(each, "fact_keyword") for each in off["the facts' messages"])
    assert not any(value(each, "near") for each in off["neighbours"])
    assert value(off["neighbours"][0], "around", "D1:3") == value(off["neighbours"][0], "keyword", "D1:3")
    again = store.asked(PARTS)
    assert all((one.rows == other.rows).all() for one, other in zip(again, [cello, harmonia]))


def test_what_is_searched_is_ranked_by_the_weights_of_its_conversation(script: ModuleType, store: Any) -> None:
    plain = dict.fromkeys(PARTS, 0.0) | {"bias": 0.0}
    best = [found.turns[0] for found in store.searched({"c": plain | {"semantic": 5.0, "keyword": 5.0}})]
    worst = [found.turns[0] for found in store.searched({"c": plain | {"semantic": -5.0, "keyword": -5.0}})]
    assert best[0] == "D1:3"
    assert worst[0] != "D1:3"


def test_the_best_hit_is_that_by_the_weights_and_what_has_no_answer_is_told_apart(
    script: ModuleType, store: Any
) -> None:
    parts = ["semantic", "keyword"]
    plain = dict.fromkeys(PARTS, 0.0) | {"bias": 0.0, "semantic": 5.0, "keyword": 5.0}
    others = [
        Question(f"c_q{at}@c", "c", "t", text, frozenset(), frozenset())
        for at, text in enumerate(["Who won the regatta?", "When does the museum open?"])
    ]
    judged = script.Judged(store, collected().questions[:2], others, parts, {"c": plain}, plain)
    assert judged.right.tolist() == [True, True, False, False]
    assert judged.in_sample[:2].min(0).sum() > judged.in_sample[2:].max(0).sum()
    assert (judged.in_sample == judged.out_of_fold).all()
    judged.conversations = numpy.array(["c", "d", "c", "d"])
    table = script.floor({"raw messages": judged}, parts)
    assert set(table) == {"bias", "floor", *parts}


def test_a_person_is_the_user_of_the_facts_about_them_and_asks_in_the_first_person() -> None:
    said = ["2023-05-08T13:56:00", "Ann", "..."]
    ann = Haystack("a", [Turn("D1:1", "1", *said)], [("Ann says that Ann's cello is old.", ["D1:1"], said[0])])
    eve = Haystack("b", [Turn("D1:1", "1", said[0], "Eve", "...")], [("Eve has a boat.", ["D1:1"], said[0])])
    asked = [("How old is Ann's cello?", "D1:1"), ("Does Ann play?", "D1:1"), ("Is Ann in?", "D1:9"), ("And?", "D1:1")]
    questions = [
        Question(f"a_q{at}", "a", "t", text, frozenset({right}), frozenset("1"))
        for at, (text, right) in enumerate(asked)
    ]
    alone, others = of_one(Collected("made", [ann, eve], questions))
    facts = {each.id: [text for text, _, _ in each.facts] for each in alone.haystacks}
    assert facts == {"a/Ann": ["The user says that the user's cello is old."], "b/Eve": ["The user has a boat."]}
    mine = [(each.haystack, each.text) for each in alone.questions]
    assert mine == [("a/Ann", "How old is my cello?"), ("a/Ann", "Do I play?")]
    assert [(each.haystack, each.text, each.turns) for each in others] == [
        ("b/Eve", "How old is my cello?", frozenset())
    ]


def test_shares_stand_beside_what_changes_with_a_paired_interval(script: ModuleType) -> None:
    right = frozenset("a")
    whole = [(["a"], right)] * 3 + [(["x"], right)]
    fewer = [(["a"], right)] * 2 + [(["x"], right)] * 2
    assert script.beside(fewer, whole) == "any@5 50.0 all@5 50.0 any@10 50.0 all@10 50.0 -25.0 ± 42.4"


def test_a_question_knows_the_conversation_it_comes_from_and_what_is_counted(script: ModuleType) -> None:
    def asked(id_: str, haystack: str) -> Any:
        return script.Asked(Question(id_, haystack, "t", "?", frozenset({"3:1"}), frozenset("3")), {}, PARTS)

    assert [asked("conv-26_q7", "conv-26").conversation, asked("conv-26_q7@conv-30", "conv-30").conversation] == [
        "conv-26",
        "conv-26",
    ]
    long = asked("gpt4_15e38248", "gpt4_15e38248")
    assert (long.conversation, long.long, long.wanted) == ("gpt4_15e38248", True, {"3"})
    assert numpy.array_equal(long.rows, numpy.zeros((0, len(PARTS))))
