"""Search on the texts that come with memlite: no group falls below its floor, and the data says what it means."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from memlite.bench import figures, sets, synthetic
from memlite.bench.retrieval import Found
from memlite.cli import main
from memlite.embed import Choice
from memlite.errors import ModelMissingError


@pytest.mark.parametrize("embedder", [pytest.param(False, id="words alone"), pytest.param(None, id="with vectors")])
def test_no_group_of_questions_falls_below_its_floor(embedder: Choice) -> None:
    outcomes, size = synthetic.measure(embedder)
    assert size > 0
    answers = [each.found for each in outcomes]
    reports = [figures.report(synthetic.collected(answers), answers, level) for level in figures.LEVELS]
    found = synthetic.report(outcomes)
    for k in (1, 5):
        assert {reports[0][f"{name}@{k}"] for name in ("any", "frac", "all")} == {found[f"right@{k}"]}
    assert reports[1]["any@1"] >= reports[0]["any@1"]
    assert found["vectors"] == (embedder is None)
    assert synthetic.failures(found) == [], json.dumps(found["wrong"], ensure_ascii=False, indent=1)


def test_every_text_is_there_once_and_every_id_that_is_used_has_one() -> None:
    data = synthetic.read()
    told = [each for step in data.steps for part in ("messages", "facts", "updates") for each in step.get(part, ())]
    assert [text for text, times in Counter(each["text"] for each in told).items() if times > 1] == []
    assert [id_ for id_, times in Counter(each["id"] for each in told if "id" in each).items() if times > 1] == []
    used = {id_ for question in data.questions for id_ in (*question.right, *question.rivals, *question.gone)}
    assert used <= data.texts.keys()


def test_what_a_question_calls_gone_was_deleted_or_replaced_and_no_other_text_was() -> None:
    data = synthetic.read()
    replaced = {id_ for step in data.steps for each in step.get("facts", ()) for id_ in each.get("replaces", ())}
    changed = {each["fact"] for step in data.steps for each in step.get("updates", ())}
    deleted = {id_ for step in data.steps for id_ in step.get("deletions", ())}
    gone = {id_ for question in data.questions for id_ in question.gone}
    assert replaced | changed | deleted <= gone
    assert not gone & {id_ for question in data.questions for id_ in question.right}


def test_every_group_has_questions_of_its_own_and_floors_for_what_they_measure() -> None:
    questions = synthetic.read().questions
    assert [text for text, times in Counter(each.text for each in questions).items() if times > 1] == []
    assert synthetic.FLOORS.keys() == {each.group for each in questions}
    for group, floors in synthetic.FLOORS.items():
        asked = [replace(RIGHT, question=each) for each in questions if each.group == group]
        assert len(asked) >= 5
        assert floors.keys() <= {measure for each in asked for measure in each.held()}


QUESTION = synthetic.Question("names", "Who?", right=("a",), rivals=("b",), gone=("c",))
RIGHT = synthetic.Outcome(
    QUESTION,
    vectors=True,
    rank=1,
    before=True,
    clean=True,
    returned=True,
    first="A",
    found=Found(sets.Question("names: Who?", "tove", "names", "Who?", frozenset("a"), frozenset("r")), "a", "r"),
)


def test_a_missed_floor_is_a_sentence_and_a_wrong_question_is_named() -> None:
    found = synthetic.report([RIGHT])
    assert (found["right@1"], found["clean"], found["silent"], found["wrong"]) == (1.0, 1.0, None, [])
    assert synthetic.failures(found) == []
    found = synthetic.report([RIGHT, replace(RIGHT, rank=2, before=False)])
    assert synthetic.failures(found) == [
        "names: right@1 is 0.5 with vectors, expected 0.81 or more",
        "names: before is 0.5 with vectors, expected 1.0 or more",
    ]
    assert found["wrong"] == [{"group": "names", "question": "Who?", "missed": ["right@1", "before"], "first": "A"}]


def test_a_question_without_an_answer_is_held_to_silence_alone() -> None:
    unanswerable = replace(RIGHT, question=synthetic.Question("names", "Why?"), rank=0, before=False)
    assert unanswerable.held() == {"silent": False}
    assert replace(unanswerable, returned=False).held() == {"silent": True}


def test_an_embedder_that_is_asked_for_has_to_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLITE_EMBEDDER", "off")
    with pytest.raises(ModelMissingError, match="--no-vectors"):
        synthetic.measure()


def test_the_command_prints_the_groups_and_exits_with_1_where_a_floor_is_missed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    outcomes = [RIGHT]
    monkeypatch.setattr(synthetic, "measure", lambda embedder, tell: (outcomes, 4096))
    done = CliRunner().invoke(main, ["bench", "synthetic"])
    assert (done.exit_code, done.stderr) == (0, "")
    assert [line.split()[:4] for line in done.stdout.splitlines()] == [
        ["n", "right@1", "right@5", "before"],
        ["names", "1", "1", "1"],
        ["all", "1", "1", "1"],
    ]
    outcomes.append(replace(RIGHT, rank=9))
    out = tmp_path / "out.jsonl"
    done = CliRunner().invoke(main, ["bench", "synthetic", "--no-vectors", "--json", "--out", str(out)])
    assert done.exit_code == 1
    turn, session = map(json.loads, done.stdout.splitlines())
    assert [(each["set"], each["level"], each["n"], each["bytes"]) for each in (turn, session)] == [
        ("synthetic", "turn", 2, 4096),
        ("synthetic", "session", 2, 4096),
    ]
    cuts = {f"{name}@{k}" for name in ("any", "frac", "all") for k in (1, 5, 10)}
    assert turn.keys() & session.keys() >= {*cuts, "mrr", "p50_ms", "p95_ms", "tokens", "abstain_rate", "types"}
    assert turn["groups"]["names"]["right@5"] == 0.5
    assert [each["gold_turns"] for each in figures.outcomes(out)] == [["a"], ["a"]]
    assert "names: right@5 is 0.5" in done.stderr
