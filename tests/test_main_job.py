"""The whole main job with the real models: a conversation becomes facts, and searches answer from them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from memlite import AddResult, Fact, Memory

ROOT = Path(__file__).parent.parent
SISTER = "My sister Clara is visiting me from Lisbon next week."
DINNER = json.loads((ROOT / "scripts" / "dinner.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def dinner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Memory, AddResult]]:
    """The demo's conversation: an earlier message that waits in the queue, then the dinner plan."""
    with Memory(tmp_path_factory.mktemp("dinner") / "memory.db") as memory:
        memory.add(SISTER, user_id="ana", observed_at="2026-06-08T18:01:00+01:00", extract="later")
        yield memory, memory.add(DINNER, user_id="ana")


def fact_about(result: AddResult, word: str) -> Fact:
    (found,) = [fact for fact in result.facts if word in fact.text]
    return found


def test_booking_allergy_and_recommendation_are_learnt(dinner: tuple[Memory, AddResult]) -> None:
    _, result = dinner
    assert (result.status, result.notes) == ("done", ())
    assert [fact.text for fact in result.facts] == [
        "The user booked a table for two at Osteria Lume on 2026-06-14 at 19:30.",
        "The user's sister Clara is allergic to walnuts.",
        "The assistant recommended the saffron risotto at Osteria Lume to the user, made without nuts.",
    ]
    assert fact_about(result, "risotto").by == "Assistant"
    assert fact_about(result, "walnuts").model.startswith("SmolLM2")
    assert 0 < (fact_about(result, "walnuts").confidence or 0) <= 1


def test_the_earlier_message_that_the_pronoun_needs_is_a_source(dinner: tuple[Memory, AddResult]) -> None:
    memory, result = dinner
    sources = [memory.get(id).text for id in fact_about(result, "walnuts").sources]
    assert sources == [SISTER, DINNER[1]["content"]]


def test_an_entity_has_one_type_in_a_conversation(dinner: tuple[Memory, AddResult]) -> None:
    memory, _ = dinner
    names = [entity.name for entity in memory.entities(user_id="ana")]
    assert "Osteria Lume" in names
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("When is the dinner and where?", "booked"),
        ("What must Clara not eat?", "walnuts"),
        ("what did the assistant recommend?", "risotto"),
    ],
)
def test_a_question_finds_the_fact_first_with_its_reasons(
    dinner: tuple[Memory, AddResult], query: str, word: str
) -> None:
    memory, _ = dinner
    best = memory.search(query, user_id="ana", explain=True)[0]
    assert (best.kind, word in best.text) == ("fact", True)
    assert best.sources
    assert best.explain is not None
    assert best.explain.semantic is not None
    assert best.score == best.explain.total > 0


def test_no_message_is_shown_beside_the_fact_that_cites_it(dinner: tuple[Memory, AddResult]) -> None:
    memory, _ = dinner
    hits = memory.search("Osteria Lume", user_id="ana")
    cited = {source.id for hit in hits for source in hit.sources}
    assert not cited & {hit.id for hit in hits}


def test_deleting_the_earlier_message_takes_the_fact_that_quotes_it(tmp_path: Path) -> None:
    with Memory(tmp_path / "memory.db", embedder=False) as memory:
        earlier = memory.add(SISTER, user_id="ana", extract="never").messages[0]
        result = memory.add(DINNER[1:2], user_id="ana")
        assert "Clara" in fact_about(result, "walnuts").text
        assert memory.delete(earlier).facts == (fact_about(result, "walnuts").id,)
        assert not memory.search("walnuts", user_id="ana")  # nor through the message that was left
        assert [hit.kind for hit in memory.search("walnuts", user_id="ana", past=True)] == ["message"]
    assert b"Clara" not in (tmp_path / "memory.db").read_bytes()


def test_deleting_one_of_two_equal_messages_keeps_the_fact(tmp_path: Path) -> None:
    with Memory(tmp_path / "memory.db", embedder=False) as memory:
        first = memory.add(SISTER, user_id="ana").messages[0]
        memory.add(SISTER, user_id="ana")
        assert memory.delete(first).facts == ()
        assert memory.search("Clara", user_id="ana")[0].kind == "fact"


def test_the_queued_message_is_learnt_by_a_worker_and_a_repeated_conversation_adds_no_fact(
    dinner: tuple[Memory, AddResult],
) -> None:
    memory, result = dinner
    assert memory.work().batches == 1
    facts = memory.stats().facts
    again = memory.add([DINNER[0], DINNER[2]], user_id="ana", run_id="another evening")
    assert memory.stats().facts == facts
    known = {fact_about(result, word).id for word in ("booked", "risotto")}
    existing = {skipped.existing for skipped in again.skipped if skipped.reason == "duplicate"}
    assert existing
    assert existing <= known
