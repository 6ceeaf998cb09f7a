"""The measure of extraction: its cases, what counts as right, and a run over a made-up extractor."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from memlite import dates
from memlite.bench import extraction as bench
from memlite.bench.made_up import made_up
from memlite.errors import ExtractionError, InvalidInputError
from memlite.records import ExtractedFact, Extraction, ExtractionRequest, KnownFact, NamedEntity, Turn

NOON = datetime(2025, 5, 12, 12, tzinfo=timezone.utc)


def turn(number: int, name: str, text: str) -> Turn:
    return Turn(number, "user", name, text, NOON, dates.resolve(text, NOON))


MOVE = bench.Case(
    ExtractionRequest(
        (turn(1, "Ann", "I moved from Lisbon to Porto yesterday."), turn(2, "Bob", "Wow!")),
        known=(KnownFact(1, "Ann lives in Lisbon."),),
    ),
    (
        ExtractedFact(
            "Ann moved from Lisbon to Porto on 2025-05-11.",
            sources=(1,),
            replaces=(1,),
            entities=(NamedEntity("Lisbon", "place"), NamedEntity("Porto", "place")),
        ),
    ),
    (NamedEntity("Lisbon", "place"), NamedEntity("Porto", "place")),
    linked=True,
)
TALK = bench.Case(ExtractionRequest((turn(1, "Ann", "Hi!"), turn(2, "Bob", "Hello!"))), (), (), linked=True)


class Told:
    """An extractor that answers what it was told, by the first message."""

    name = "told"
    prompt_version = "1"

    def __init__(self, *answers: tuple[ExtractedFact, ...]) -> None:
        self.answers = list(answers)

    def extract(self, request: ExtractionRequest) -> Extraction:
        facts = self.answers.pop(0)
        if not facts and request == MOVE.request:
            raise ExtractionError("no idea")
        return Extraction(facts, prompt_tokens=9, evaluated_tokens=3, answer_tokens=4)


def figures(*answers: tuple[ExtractedFact, ...]) -> dict[str, object]:
    told = Told(*answers)
    cases = [MOVE, TALK][: len(answers)]
    return bench.figures(cases, [bench.answer(told, case) for case in cases], lambda one, other: float(one == other))


def test_a_perfect_answer_has_perfect_figures() -> None:
    assert MOVE.facts is not None
    found = figures(tuple(replace(fact, by="Ann") for fact in MOVE.facts), ())
    right = (
        "recall",
        "recall_by_words",
        "recall_by_meaning",
        "precision",
        "f1",
        "empty_right",
        "entity_f1",
        "dates_right",
        "valid",
        "grounded",
    )
    assert {name: found[name] for name in (*right, "replaces_right", "attributed")} == dict.fromkeys(
        (*right, "replaces_right", "attributed"), 1.0
    )
    assert (found["n"], found["invented"], found["facts_a_turn"]) == (2, 0, 0.5)
    assert (found["prompt_tokens"], found["evaluated_tokens"], found["answer_tokens"]) == (9, 3, 4)


def test_the_wrong_message_date_link_and_entity_are_seen() -> None:
    (gold,) = MOVE.facts or ()
    assert figures((replace(gold, sources=(2,)),))["recall"] == 0
    assert figures((replace(gold, by="Bob"),))["attributed"] == 0
    wrong = replace(
        gold, text="Ann moved from Lisbon to Porto.", replaces=(), entities=(NamedEntity("Porto", "person"),)
    )
    found = figures((wrong,))
    assert (found["recall"], found["dates_right"], found["replaces_right"], found["entity_f1"]) == (1.0, 0.0, 0.0, 0.0)


def test_a_failure_is_no_empty_answer() -> None:
    found = figures(())
    assert (found["valid"], found["recall"], found["precision"]) == (0.0, 0.0, None)


def test_what_the_pipeline_drops_does_not_count_as_given() -> None:
    found = figures((ExtractedFact("Ann moved to Berlin.", sources=(1,)),))
    assert (found["facts_a_turn"], found["dropped"], found["invented"]) == (0.0, 1, 0)


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("Ann moved from Lisbon to Porto on 2025-05-11.", []),
        ("Ann moved to Porto with Clara.", ["Clara"]),
        ("Ann paid 300 for it.", ["300"]),
        ("Ann moved on 2025-05-13.", ["2025-05-13"]),
        ("The user moved.", []),
    ],
)
def test_what_nobody_said_is_found(text: str, missing: list[str]) -> None:
    assert made_up(ExtractedFact(text, sources=(1,)), MOVE.request) == missing


@pytest.mark.parametrize(
    ("said", "text", "missing"),
    [
        ("I moved in 2013 to Porto.", "The user paid 20 euros.", ["20"]),
        ("I moved in 2013 to Porto.", "The user has 3 cats.", ["3"]),
        ("I moved in 2013 to Porto.", "The user has three cats.", ["three"]),
        ("I moved in 2013 to Porto.", "Zorblax moved.", ["Zorblax"]),
        ("I moved in 2013 to Porto.", "The user likes Port.", ["Port"]),
        ("I moved in 2013 to Porto.", "The user moved on 2013-05-01.", ["2013-05-01"]),
        ("I have an A100.", "The user has 100 cats.", ["100"]),
        ("My third cat is called Max.", "The user has three cats.", ["three"]),
        ("It took twenty five minutes.", "It took 20 minutes.", ["20"]),
        ("It cost 0.7 or 5 euros.", "It cost 7.5 euros.", ["7.5"]),
        ("We met on 3 May 2021 with 4 dogs.", "The user met a dog on 2021-05-04.", ["2021-05-04"]),
        ("我在北京有两只猫。", "用户有9只猫。", ["9"]),
    ],
)
def test_a_part_of_a_word_or_number_says_nothing(said: str, text: str, missing: list[str]) -> None:
    request = ExtractionRequest((turn(1, "user", said),))
    assert made_up(ExtractedFact(text, sources=(1,)), request) == missing


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("I have two cats and 3 dogs.", "The user has 2 cats and three dogs."),
        ("I paid 3,200 euros, seven thousand before.", "The user paid 3200 euros, 7000 before."),
        ("We have twenty-five hens, 5k bees and a dozen eggs.", "The user has 25 hens, 5000 bees and 12 eggs."),
        ("It's my third marathon, the 2nd was better.", "It is the user's 3rd marathon; the second was better."),
        ("I run v7.0.2 at 6pm on a 128GB disk.", "The user runs v7.0.2 at 6 pm on a 128 GB disk."),
        ("Breakfast is at 07:30, dinner at 6.30pm.", "Breakfast is at 7:30 and dinner at 6:30 pm."),
        ("i sold it to françoise's cousin at O’Brien's.", "The user sold it to Francoise's cousin at O'Brien's."),
        ("I was born on 3 May 2021.", "The user was born on 2021-05-03."),
        ("I moved yesterday.", "The user moved on Sunday, 11 May 2025."),
        ("We went there last summer.", "The user went there in summer 2024, in 2024."),
        ("我在Feedzai工作，有两只猫。", "用户在Feedzai工作，有2只猫。"),
        ("Wir haben drei Katzen in Köln.", "In Koln: 3 Katzen."),
        ("It fell down after lunch.", "After lunch it fell down. Because of that, the user left."),
    ],
)
def test_what_is_only_written_otherwise_was_said(said: str, text: str) -> None:
    request = ExtractionRequest((turn(1, "user", said),))
    assert made_up(ExtractedFact(text, sources=(1,)), request) == []


def test_copying_takes_what_is_said_but_no_question() -> None:
    case = bench.Case(ExtractionRequest((turn(1, "Ann", "I like tea. It is hot. Do you?"),)), ())
    assert [f.text for f in bench.copied(case, first_person=True).facts] == ["Ann: I like tea."]
    assert [f.text for f in bench.copied(case, first_person=False).facts] == ["Ann: I like tea.", "Ann: It is hot."]


def write(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def test_conversations_become_pairs_with_their_window_and_earlier_facts(tmp_path: Path) -> None:
    said = [
        ("D1:1", 1, "Ann", "I keep bees."),
        ("D1:2", 1, "Bob", "Oh."),
        ("D1:3", 1, "Ann", "Bye."),
        ("D2:1", 2, "Bob", "Bees?"),
    ]
    write(
        tmp_path / "turns.jsonl",
        [
            {"conv": "c", "id": id_, "session": n, "time": "2023-05-08T13:56:00", "speaker": who, "text": text}
            for id_, n, who, text in said
        ],
    )
    write(
        tmp_path / "facts.jsonl",
        [{"conv": "c", "session": 1, "speaker": "Ann", "fact": "Ann keeps bees.", "evidence": ["D1:1"]}],
    )
    first, second, third = bench.read_cases(tmp_path)
    assert [fact.sources for fact in first.facts or ()] == [(1,)]
    assert ([t.text for t in second.request.window], second.facts) == (["I keep bees.", "Oh."], ())
    assert [known.text for known in third.request.known] == ["Ann keeps bees."]
    assert len(bench.read_cases(tmp_path, 2)) == 2


def test_labelled_texts_are_cases_for_facts_or_for_entities(tmp_path: Path) -> None:
    write(tmp_path / "dataset.de.jsonl", [{"id": "1", "text": "Aria wohnt in Ulm."}])
    write(tmp_path / "labels.jsonl", [{"id": "1", "entities": [{"name": "Ulm", "type": "organization"}]}])
    (case,) = bench.read_cases(tmp_path)
    assert (case.facts, case.entities) == (None, (NamedEntity("Ulm", "organisation"),))
    assert figures_of(case)["recall"] is None


def figures_of(case: bench.Case) -> dict[str, object]:
    return bench.figures([case], [bench.Answer()], lambda one, other: 0.0)


def test_a_path_without_cases_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"turns\.jsonl"):
        bench.read_cases(tmp_path)
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(InvalidInputError, match="no case"):
        bench.read_cases(tmp_path / "empty.jsonl")
