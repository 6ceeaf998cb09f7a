"""audit() and fix() of facts: what is found and what is not, what a fix does, and that an undo takes it back whole."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memlite import ExtractedFact, Extraction, ExtractionRequest, Memory
from tests.conftest import Echo


def remember(memory: Memory, text: str, day: int = 1, user: str = "u", **about: Any) -> str:
    """Store a fact as observed on a day of January; return its id."""
    run_id = about.pop("run_id", None)
    result = memory.remember({"text": text, **about}, user_id=user, run_id=run_id, observed_at=f"2026-01-{day:02}")
    return result.facts[0].id


def texts(memory: Memory, **about: Any) -> list[str]:
    return sorted(fact.text for fact in memory.get_all(user_id="u", **about))


def found(memory: Memory, kind: str, **about: Any) -> list[tuple[str, ...]]:
    return [finding.texts for finding in memory.audit(kind, **about)]


def dump(memory: Memory) -> dict[str, list[Any]]:
    """What the file says of facts, messages and entities, but for times, row ids, versions and events."""
    queries = {
        "facts": "SELECT uid, text, live, valid_to, archived_at IS NULL, last_confirmed_at, expires_at FROM facts",
        "messages": "SELECT uid, content, archived_at IS NULL FROM messages",
        "sources": """SELECT f.uid, m.uid FROM sources r JOIN facts f ON f.id = r.fact_id
                      JOIN messages m ON m.id = r.message_id""",
        "entities": "SELECT uid, name, type FROM entities",
        "aliases": "SELECT e.uid, a.name FROM aliases a JOIN entities e ON e.id = a.entity_id",
        "mentions": """SELECT f.uid, e.uid, m.name, m.position, m.aliases FROM mentions m
                       JOIN facts f ON f.id = m.fact_id JOIN entities e ON e.id = m.entity_id""",
    }
    with memory._database.read() as db:
        return {name: sorted(db.execute(query), key=str) for name, query in queries.items()}


def fixes_and_undoes(memory: Memory, what: Any) -> None:
    """A fix leaves nothing of it to be found; its undo and the undo of that lead back and forth, time and again."""
    before, audit = dump(memory), memory.audit()
    fixed = memory.fix(what)
    assert fixed.findings
    assert fixed.left == ()
    assert fixed.batches
    after, left = dump(memory), memory.audit()
    assert after != before
    assert not {each.id for each in fixed.findings} & {each.id for each in left}
    undos = [memory.undo(batch).batch for batch in fixed.batches]
    for _ in range(2):
        assert dump(memory) == before
        assert memory.audit().findings == audit.findings
        for undo in undos:
            memory.undo(undo)
        assert dump(memory) == after
        assert memory.audit().findings == left.findings
        undos = [memory.undo(batch).batch for batch in fixed.batches]


# Near-duplicates.


class Same:
    """An embedder to which all texts are alike."""

    name = "same"
    dimension = 2

    def embed(self, texts: Any) -> list[list[float]]:
        return [[1.0, 0.0] for _ in texts]


def test_facts_that_say_the_same_in_other_words_are_found_and_joined(learning: Memory) -> None:
    first = learning.add("Ana works at Feedzai in Porto.", user_id="u", run_id="r1", observed_at="2026-01-01")
    second = learning.add("Ana is working for Feedzai in Porto!", user_id="u", run_id="r2", observed_at="2026-02-01")
    remember(learning, "Ana likes tea.")
    (finding,) = learning.audit()
    assert finding.kind == "near-duplicates"
    assert finding.facts == (first.facts[0].id, second.facts[0].id)
    assert "archived" in finding.fix
    fixes_and_undoes(learning, "near-duplicates")
    fixed = learning.fix(finding)
    (kept,) = learning.get_all(user_id="u", filters=None, limit=1, order="oldest")
    assert kept.id == first.facts[0].id
    assert kept.sources == first.messages + second.messages
    assert kept.last_confirmed_at.month == 2
    assert texts(learning) == ["Ana likes tea.", "Ana works at Feedzai in Porto."]
    actions = [event.action for event in learning.history(second.facts[0].id)]
    assert actions == ["ADD", "MERGE", "ARCHIVE", *("RESTORE", "ARCHIVE") * 2, "RESTORE", "MERGE", "ARCHIVE"]
    assert {event.actor for event in learning.history(second.facts[0].id)} >= {"audit"}
    assert len(fixed.batches) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ana likes tea.", "Ana likes coffee."),
        ("Ana works at Feedzai.", "Ana worked at Feedzai."),
        ("Ana eats fish.", "Ana does not eat fish."),
        ("Ana lent Ben 20 euros.", "Ben lent Ana 20 euros."),
        ("Ana hired Ben.", "Ana was hired by Ben."),
        ("Ana has two cats.", "Ana has three cats."),
        ("Ana travels from Porto to Lisbon.", "Ana travels from Lisbon to Porto."),
        ("Ana's dog chased the cat.", "Ana's cat chased the dog."),
        ("Ana likes C.", "Ana likes C++."),
        ("Ana eats fish and meat.", "Ana eats neither fish nor meat."),
        ("Ana has a cat and likes dogs.", "Ana has a cat that likes dogs."),
        ("Ana eats fish.", "Does Ana eat fish?"),
        ("The meeting is on 3 May 2026.", "The meeting is on 4 May 2026."),
        ("Ana works at Feedzai.", "Ana works at Feedzai in Porto."),
        ("The choir of Porto sings on 9 February 2020.", "The choir of Porto sings on 4 January 2020."),
        ("Maria appreciates John's support.", "John appreciates Maria's support."),
        ("Ana's older sister is a nurse.", "Ana's younger sister is a nurse."),
    ],
)
@pytest.mark.parametrize("embedder", [False, Same()], ids=["words", "whatever the vectors say"])
def test_what_only_looks_alike_is_two(path: Path, embedder: Any, one: str, other: str) -> None:
    with Memory(path, embedder=embedder, extractor=False) as memory:
        for day, text in enumerate((one, other), 1):
            remember(memory, text, day)
        assert found(memory, "near-duplicates") == []


def test_what_happened_on_two_days_happened_twice(memory: Memory) -> None:
    remember(memory, "Ana went to the dentist.", 1)
    remember(memory, "Ana went to a dentist.", 9)
    remember(memory, "Ana ran the marathon.", event="2025-05-11")
    remember(memory, "Ana ran a marathon.", event="2025-10-05")
    assert found(memory, "near-duplicates") == []
    remember(memory, "Ana actually went to the dentist.", 9)
    assert found(memory, "near-duplicates") == [("Ana went to a dentist.", "Ana actually went to the dentist.")]


@pytest.mark.parametrize("apart", [{"kind": "plan"}, {"metadata": {"city": "Porto"}}, {"expires_at": "2999-01-01"}])
def test_facts_that_are_kept_apart_stay_so(memory: Memory, apart: dict[str, Any]) -> None:
    remember(memory, "Ana plays the violin.")
    remember(memory, "Ana is playing the violin.", **apart)
    assert found(memory, "near-duplicates") == []


def test_the_same_words_in_two_runs_are_one_hit_and_no_finding(memory: Memory) -> None:
    remember(memory, "Ana likes tea.", run_id="r1")
    remember(memory, "Ana likes tea.", run_id="r2")
    assert len(memory.audit()) == 0


def test_other_forms_of_words_are_compared_by_meaning_as_well(path: Path) -> None:
    with Memory(path, extractor=False) as memory:
        for text in (
            "The user is allergic to peanuts.",
            "The user has a peanut allergy.",
            "Ana studies international law.",
            "Ana studies internal law.",
        ):
            remember(memory, text)
        assert found(memory, "near-duplicates") == [
            ("The user is allergic to peanuts.", "The user has a peanut allergy.")
        ]
        fixes_and_undoes(memory, "near-duplicates")


def test_a_joined_fact_stays_while_one_of_its_batches_does(learning: Memory) -> None:
    first = learning.add("Ana plays the violin.", user_id="u")
    second = learning.add("Ana is playing the violin.", user_id="u")
    fixed = learning.fix("near-duplicates")
    undone = learning.undo(first.batch)
    assert texts(learning) == ["Ana plays the violin."]  # the second batch says it as well
    learning.undo(second.batch)
    assert texts(learning) == []
    learning.undo(undone.batch)
    assert texts(learning) == ["Ana plays the violin."]
    learning.undo(fixed.batches[0])
    assert texts(learning) == ["Ana plays the violin."]  # the other one's add is undone


# Contradictions.


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Ana lives in Porto.", "Ana lives in Lisbon."),
        ("Ana lives in Portugal.", "Ana lives in Spain."),
        ("Ana works at Feedzai.", "Ana works at Critical Software."),
        ("Ana does not eat fish.", "Ana eats fish."),
        ("Ana eats fish.", "Ana no longer eats fish."),
        ("Ana likes coffee.", "Ana hates coffee."),
        ("Ana is single.", "Ana is married to Ben."),
        ("Ana is 34 years old.", "Ana is 35."),
        ("Ana has two cats.", "Ana has 3 cats."),
        ("The rent is 800 euros a month.", "The rent is 850 euros a month."),
        ("Ana's favourite colour is green.", "Ana's favorite color is blue."),
        ("Ana's boss is Ben Costa.", "Ana's boss is Clara Dias."),
        ("Ana's birthday is 3 May.", "Ana's birthday is 4 May."),
        ("Ana sings alto in the choir.", "Ana no longer sings alto in the choir but soprano."),
        ("The flight leaves at 9:40.", "The flight leaves at 11:20, not 9:40."),
        ('Ben said: "I live in Porto."', "Ben lives in Lisbon."),
    ],
)
def test_of_two_facts_that_exclude_each_other_the_newer_one_stands(memory: Memory, older: str, newer: str) -> None:
    remember(memory, newer, 2)
    remember(memory, older, 1)
    (finding,) = memory.audit()
    assert (finding.kind, finding.texts) == ("contradictions", (older, newer))
    fixes_and_undoes(memory, finding.id[:12])
    memory.fix("contradictions")
    assert texts(memory) == [newer]
    assert memory.get_all(user_id="u", past=True)[0].text == older
    assert [event.action for event in memory.history(finding.facts[0])][-1] == "SUPERSEDE"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ana lives in Porto.", "Ben lives in Lisbon."),
        ("Ana lives in Porto.", "Ana's sister lives in Lisbon."),
        ("Ana lives in Porto.", "Ana lives in Portugal."),
        ("Ana lives in Austin.", "Ana lives in Texas."),
        ("Ana lives in Porto.", "Ana lives in a small flat."),
        ("Ana lives in Porto.", "Ana lived in Lisbon."),
        ("Ana lives in Porto.", "Ana wants to live in Lisbon."),
        ("Ana lives in Porto in summer.", "Ana lives in Lisbon in winter."),
        ("Ana works at Feedzai.", "Ana also works at the University of Porto on weekends."),
        ("Ana works at Feedzai.", "Ana works at home."),
        ("Ana works at Feedzai.", "Ana works at Christmas."),
        ("Ana's husband is Ben.", "Ana's husband is Benjamin."),
        ("The train is in Porto.", "The train stops in Porto."),
        ("The bus is at the school.", "The bus stopped at the school."),
        ("The meeting is at 9:30.", "The meeting is at 10:30."),
        ("Ana has an appointment on 3 May 2026.", "Ana has an appointment on 10 May 2026."),
        ("Ana's sister is Clara.", "Ana's sister is a nurse."),
        ("Ana's boss is Ben.", "Ana's boss is very tall."),
        ("Ana's boss is Ben.", "Ana's boss is Ben Costa."),
        ("Ana's favourite colour is green.", "Ana's favourite colour is dark green."),
        ("Ana's favourite colour is green.", "Ana's favourite film is Alien."),
        ("Ana likes tea.", "Ana likes coffee."),
        ("Ana eats fish.", "Ana does not eat fish on Mondays."),
        ("Ana eats fish.", "Ana's brother does not eat fish."),
        ("Ana's sister Maria eats fish.", "Ana's sister Clara does not eat fish."),
        ("Ana eats fish.", "Ana thinks that Ben does not eat fish."),
        ("Ana drinks coffee.", "Ana did not drink coffee."),
        ("Room 12 is free.", "Room 13 is free."),
        ("Ana has Windows 10.", "Ana has Windows 11."),
        ("Ana paid 20 euros.", "Ana paid 30 euros."),
        ("Ana likes Formula 1.", "Ana likes Formula 2."),
        ("Ana has a dentist appointment on 3 May 2026.", "Ana has a dentist appointment on 9 June 2026."),
    ],
)
def test_what_can_both_be_so_is_no_contradiction(memory: Memory, one: str, other: str) -> None:
    for day, text in enumerate((one, other), 1):
        remember(memory, text, day)
    assert found(memory, "contradictions") == []


def test_what_one_message_says_of_both_is_no_contradiction(path: Path) -> None:
    class Both:
        name = "both"
        prompt_version = "1"

        def extract(self, request: ExtractionRequest) -> Extraction:
            said = ("Ana lives in Porto.", "Ana lives in Lisbon.")
            return Extraction(tuple(ExtractedFact(text, "user", (1,)) for text in said))

    with Memory(path, embedder=False, extractor=Both()) as memory:
        memory.add("Ana lives in Porto. Ana lives in Lisbon. She commutes.", user_id="u")
        assert len(texts(memory)) == 2
        assert found(memory, "contradictions") == []


def test_a_pair_that_somebody_has_judged_is_left_alone(memory: Memory) -> None:
    old = remember(memory, "Ana lives in Porto.")
    remember(memory, "Ana lives in Lisbon.", 2, replaces=old)
    memory.restore(old)
    assert found(memory, "contradictions") == []


def test_one_person_by_two_names_is_one_subject(memory: Memory) -> None:
    ana = {"name": "Ana Silva", "type": "person", "aliases": ["Annie"]}
    remember(memory, "Ana Silva lives in Porto.", entities=[ana])
    remember(memory, "Annie lives in Lisbon.", 2, entities=[{"name": "Annie", "type": "person"}])
    assert found(memory, "contradictions") == [("Ana Silva lives in Porto.", "Annie lives in Lisbon.")]


def test_what_a_fix_replaced_counts_again_when_the_newer_fact_is_undone(memory: Memory) -> None:
    remember(memory, "Ana lives in Porto.")
    newer = memory.remember("Ana lives in Lisbon.", user_id="u")
    memory.fix("contradictions")
    assert texts(memory) == ["Ana lives in Lisbon."]
    undone = memory.undo(newer.batch)
    assert texts(memory) == ["Ana lives in Porto."]
    memory.undo(undone.batch)
    assert texts(memory) == ["Ana lives in Lisbon."]


# Facts without a source, or of what nobody told.


def test_a_learnt_fact_without_a_message_is_found_and_a_remembered_one_is_not(learning: Memory) -> None:
    added = learning.add("Ana likes tea.", user_id="u", observed_at="2020-01-01")
    remember(learning, "Ben likes tea.")
    assert len(learning.audit()) == 0
    with sqlite3.connect(learning.path) as stock:  # whose foreign keys are off
        stock.execute("DELETE FROM messages WHERE uid = ?", added.messages)
    stock.close()
    assert found(learning, "sourceless") == [("Ana likes tea.",)]
    fixes_and_undoes(learning, "sourceless")
    learning.fix("sourceless")
    assert texts(learning) == ["Ben likes tea."]


class Splitting(Echo):
    """An extractor whose facts are the sentences of the messages."""

    def extract(self, request: ExtractionRequest) -> Extraction:
        told = [(f"{text}.", turn) for turn in request.messages for text in turn.text.rstrip(".").split(". ")]
        return Extraction(tuple(ExtractedFact(text, turn.speaker, (turn.number,)) for text, turn in told))


def test_what_lost_its_message_on_purpose_is_no_finding(path: Path) -> None:
    with Memory(path, embedder=False, extractor=Splitting()) as memory:
        tea = memory.add("Ana likes tea. Ben likes rum.", user_id="u").facts[0].id
        memory.delete(tea)  # its message goes with it
        memory.add("Cleo likes cake. Cleo rows.", user_id="u", observed_at="2020-01-01")
        memory.prune(messages_older_than=timedelta(days=30), dry_run=False)
        memory.update(memory.get_all(user_id="u")[0].id, text="Cleo rows at night.")
        assert texts(memory) == ["Ben likes rum.", "Cleo likes cake.", "Cleo rows at night."]
        assert memory.stats().messages == 0
        assert len(memory.audit()) == len(memory.fix("sourceless").findings) == 0
        assert len(memory.repair().found) == 0


class Pasting(Echo):
    """An extractor that learns every line, without its bullet and what it says of the day."""

    def extract(self, request: ExtractionRequest) -> Extraction:
        told = [
            (line.strip("*> ").replace(" these days", ""), turn)
            for turn in request.messages
            for line in turn.text.split("\n")
        ]
        return Extraction(
            tuple(ExtractedFact(line.partition(" (2")[0], turn.speaker, (turn.number,)) for line, turn in told)
        )


@pytest.fixture
def pasting(path: Path) -> Any:
    with Memory(path, embedder=False, extractor=Pasting()) as opened:
        yield opened


def test_recalled_text_that_was_learnt_all_the_same_is_found(pasting: Memory) -> None:
    old = remember(pasting, "Ana lives in Porto.")
    remember(pasting, "Ana lives in Lisbon.", 2, replaces=old)
    pasting.add("> * Ana lives in Porto. (2026-01-01, true until 2026-01-02), you said", user_id="u")
    pasting.add([{"role": "assistant", "content": "Ana likes tea."}], user_id="u")
    assert found(pasting, "restated") == [("Ana lives in Porto.",)]
    fixes_and_undoes(pasting, "restated")
    pasting.fix("restated")
    assert texts(pasting) == ["Ana likes tea.", "Ana lives in Lisbon."]


def test_an_assistant_that_repeats_what_was_replaced_is_found_and_a_user_is_not(pasting: Memory) -> None:
    old = remember(pasting, "Ana lives in Porto.")
    remember(pasting, "Ana lives in Lisbon.", 2, replaces=old)
    pasting.add("Ana lives in Porto.", user_id="u", run_id="r1")  # she may have moved back
    assert found(pasting, "restated") == []
    pasting.archive(pasting.get_all(user_id="u", run_id="r1")[0].id)
    pasting.add([{"role": "assistant", "content": "Ana lives in Porto these days."}], user_id="u", run_id="r2")
    assert found(pasting, "restated") == [("Ana lives in Porto.",)]


def test_a_restated_system_prompt_is_found(learning: Memory) -> None:
    system = "You are Pip, a travel agent. Always answer in French and never mention the price of a flight. Be kind."
    learning.add([{"role": "system", "content": system}, {"role": "user", "content": "Ana likes tea."}], user_id="u")
    learning.add(
        [
            {"role": "assistant", "content": "I never mention the price of a flight."},
            {"role": "user", "content": "Ana always answers in French, and never mentions the price of wine."},
            {"role": "user", "content": "You are a helpful assistant that books flights."},
        ],
        user_id="u",
    )
    assert sorted(found(learning, "restated")) == [
        ("I never mention the price of a flight.",),
        ("You are a helpful assistant that books flights.",),
    ]
    remember(learning, "Pip never mentions the price of a flight.")  # a caller may say so
    assert len(found(learning, "restated")) == 2
    assert found(learning, "restated", user_id="v") == []
