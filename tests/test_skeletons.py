"""The training data of the extractor: enough of it, in its form, held-out apart, and every fact grounded."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import generate
import pytest
import skeletons

from memlite import compact, ground
from memlite.bench import extraction as bench

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def some() -> list[generate.Example]:
    return list(itertools.islice(generate.examples(generate.training(), 1), 800))


def test_there_are_enough_skeletons_without_a_mistake() -> None:
    for folder, least in (("skeletons", 600), ("held_out", 120)):
        found, complaints = skeletons.read(sorted((ROOT / "scripts" / "extractor" / folder).glob("*.txt")))
        assert complaints == []
        assert len(found) >= least
        assert 0.15 < sum(not each.targets for each in found) / len(found) < 0.4


def four_grams(skeleton: skeletons.Skeleton) -> set[tuple[str, ...]]:
    found: set[tuple[str, ...]] = set()
    for text in skeleton.texts():
        words = re.findall(r"\{\w+\}|[\w']+", text.lower())
        found |= {tuple(words[at : at + 4]) for at in range(len(words) - 3)}
    return found


def test_no_held_out_skeleton_shares_much_with_a_training_one() -> None:
    training = [four_grams(each) for each in generate.training()]
    for skeleton in generate.held_out():
        mine = four_grams(skeleton)
        worst = max(len(mine & other) / len(mine) for other in training)
        assert worst <= 0.4, skeleton.name


def test_nearly_every_fact_of_an_example_is_grounded_in_it(some: list[generate.Example]) -> None:
    facts = [(fact, example) for example in some for fact in example.facts]
    bad = [fact.text for fact, example in facts if ground.ungrounded(fact, example.request)]
    assert len(bad) <= len(facts) / 200, bad


def test_the_same_seed_gives_the_same_examples_and_no_two_are_alike(some: list[generate.Example]) -> None:
    again = itertools.islice(generate.examples(generate.training(), 1), 20)
    assert [example.request for example in again] == [example.request for example in some[:20]]
    shown = [str(example.request) for example in some]
    assert len(set(shown)) > 0.99 * len(shown)


def test_asked_of_one_message_what_was_said_before_is_window_and_perhaps_known() -> None:
    one = list(itertools.islice(generate.examples(generate.training(), 2, one_message=True), 500))
    assert 0.25 < sum(not each.facts for each in one) / len(one) < 0.55
    for example in one:
        assert len(example.request.messages) == 1
        assert len(example.request.window) <= compact.MOST_EARLIER
        assert all(fact.sources == (1,) for fact in example.facts)
        links = {n for fact in example.facts for n in (*fact.replaces, *fact.continues)}
        assert links <= {known.number for known in example.request.known}
    whole = itertools.islice(generate.examples(generate.training(), 2), 500)
    assert any(len(each.request.messages) > 1 for each in whole)


def test_an_answer_reads_back_as_the_facts_it_was_made_of() -> None:
    for example in itertools.islice(generate.examples(generate.training(), 3, one_message=True), 300):
        read = compact.parse(compact.write(example.facts), example.request)
        assert not read.unusable
        assert [(f.text, f.sources, f.replaces, f.continues) for f in read.facts] == [
            (f.text, f.sources, f.replaces, f.continues) for f in example.facts
        ]
        for told, held in zip(example.facts, read.facts, strict=True):
            assert set(told.entities) <= set(held.entities)


def test_an_example_survives_its_line_of_json(some: list[generate.Example], tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(bench.write_case(e.request, e.facts) for e in some[:50]), encoding="utf-8")
    for case, example in zip(bench.read_cases(path), some, strict=False):
        assert compact.render(case.request) == compact.render(example.request)
        assert case.facts == tuple(example.facts)


def test_a_mistake_in_a_skeleton_is_named_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_text("== one\nA: Hi {nosuch}.\n> 2 | {A} waves\nX: what\n", encoding="utf-8")
    _, complaints = skeletons.read([path])
    assert any("bad.txt:4" in each for each in complaints)
    assert any("{nosuch}" in each for each in complaints)
    assert any("message 2" in each for each in complaints)
    assert any("full stop" in each for each in complaints)
