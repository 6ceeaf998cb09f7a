"""Raw messages keep the promises of facts: what was put away does not come back through what was said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memlite import ExtractedFact, Extraction, ExtractionRequest, Hit, Memory
from memlite.search import MESSAGES
from memlite.sentences import split

SAID = "I live in Porto near the river. My cat is called Tom."
PORTO, TOM = split(SAID)
BESIDE = "The weather was fine."


class Sentences:
    """An extractor whose facts are the sentences of the messages."""

    name = "sentences"
    prompt_version = "1"

    def extract(self, request: ExtractionRequest) -> Extraction:
        return Extraction(
            tuple(
                ExtractedFact(sentence, turn.speaker, (turn.number,))
                for turn in request.messages
                for sentence in split(turn.text)
            )
        )


class Fewer(Sentences):
    """Another model, which does not find one of them."""

    name = "fewer"

    def extract(self, request: ExtractionRequest) -> Extraction:
        found = super().extract(request)
        return Extraction(tuple(fact for fact in found.facts if fact.text != PORTO))


@pytest.fixture
def learning(path: Path) -> Iterator[Memory]:
    with Memory(path, embedder=False, extractor=Sentences()) as opened:
        yield opened


def said(memory: Memory, text: str = SAID) -> dict[str, str]:
    """Store a message; return the ids of its facts by their text."""
    added = memory.add(text, user_id="u", observed_at="2024-01-01")
    return {fact.text: fact.id for fact in added.facts}


def archive(memory: Memory, id_: str) -> None:
    memory.archive(id_)


def replace(memory: Memory, id_: str) -> None:
    memory.remember({"text": "The user moved to Lisbon.", "replaces": id_}, user_id="u", observed_at="2025-01-01")


def expire(memory: Memory, id_: str) -> None:
    memory.update(id_, expires_at="2024-02-01")


def delete(memory: Memory, id_: str) -> None:
    memory.delete(id_, keep_messages=True)


def change(memory: Memory, id_: str) -> None:
    memory.update(id_, text="The user moved to Braga.")


def undo(memory: Memory, id_: str) -> None:
    """What another one says, remembered from the same message and taken back, is put away as well."""
    memory.archive(id_)
    message = memory.get_all(user_id="u")[0].sources[0]
    more = memory.remember({"text": "The user has moved.", "source": message}, user_id="u")
    memory.undo(more.batch)


WAYS = pytest.mark.parametrize("way", [archive, replace, expire, delete, change, undo], ids=lambda way: way.__name__)
Way = Callable[[Memory, str], None]


def shown(hits: Any) -> list[tuple[str, str]]:
    return [(hit.kind, hit.text) for hit in hits]


@WAYS
def test_a_message_of_which_anything_was_put_away_is_no_hit(learning: Memory, way: Way) -> None:
    way(learning, said(learning)[PORTO])
    found = learning.search("Where do I live, in Porto near the river?", user_id="u", limit=50)
    assert "message" not in {hit.kind for hit in found}
    assert not learning.search("Porto river", user_id="u", include="messages")
    assert ("fact", TOM) in shown(learning.search("What is my cat called?", user_id="u"))


@WAYS
def test_a_context_quotes_no_message_of_which_anything_was_put_away(learning: Memory, way: Way) -> None:
    way(learning, said(learning)[PORTO])
    made = learning.context("What is my cat called?", user_id="u", floor=0)
    (line,) = (line for line in made.text.splitlines() if "Tom" in line)
    assert line == f"- {TOM} (2024-01-01)"
    (hit,) = (hit for hit in made.hits if hit.text == TOM)
    assert [message.content for message in hit.sources] == [SAID]  # who asks where it comes from sees it
    assert hit.quote is None


def test_a_context_quotes_the_last_message_of_which_nothing_was_put_away(learning: Memory) -> None:
    facts = said(learning)
    learning.archive(facts[PORTO])
    learning.add(TOM, user_id="u", observed_at="2024-01-02")
    learning.archive(said(learning, f"{TOM} It is grey.")["It is grey."])
    (hit,) = learning.search("What is my cat called?", user_id="u", include="facts")
    assert [message.content == TOM for message in hit.sources] == [False, True, False]
    assert hit.quote
    assert hit.quote.content == TOM
    assert f"[user: {TOM}]" in learning.context("What is my cat called?", user_id="u", floor=0).text


@WAYS
def test_what_was_put_away_speaks_for_nothing_beside_it(learning: Memory, way: Way) -> None:
    def beside() -> list[Hit]:
        return [hit for hit in learning.search("Porto river", user_id="u", limit=50) if hit.text == BESIDE]

    id_ = said(learning)[PORTO]
    learning.add(BESIDE, user_id="u", observed_at="2024-01-01", extract="never")
    assert beside()
    way(learning, id_)
    assert not beside()
    (hit,) = (hit for hit in learning.search("weather Porto", user_id="u", explain=True) if hit.text == BESIDE)
    assert hit.explain
    assert hit.explain.parts["around"][0] == hit.explain.keyword


@WAYS
def test_the_past_shows_the_message_as_long_as_one_of_its_facts_was_kept(learning: Memory, way: Way) -> None:
    way(learning, said(learning)[PORTO])
    assert SAID in [hit.text for hit in learning.search("Porto river", user_id="u", include="messages", past=True)]
    for when in ({"as_of": "2999-01-01"}, {"known_at": "2999-01-01"}):
        assert SAID in [hit.text for hit in learning.search("Porto river", user_id="u", include="messages", **when)]


def test_what_comes_back_brings_its_message_back(learning: Memory) -> None:
    id_ = said(learning)[PORTO]
    learning.archive(id_)
    learning.restore(id_)
    assert shown(learning.search("Porto river", user_id="u", include="messages")) == [("message", SAID)]
    learning.archive(id_)
    learning.add(PORTO, user_id="u")  # it is said again, and so no longer put away
    assert SAID in [hit.text for hit in learning.search("Porto river", user_id="u", include="messages")]


def test_another_expiry_or_other_metadata_puts_nothing_away(learning: Memory) -> None:
    id_ = said(learning)[PORTO]
    learning.update(id_, metadata={"sure": True})
    learning.update(id_, expires_at="2999-01-01")
    assert shown(learning.search("Porto river", user_id="u", include="messages")) == [("message", SAID)]


def test_what_another_model_does_not_find_was_put_away_by_nobody(learning: Memory, path: Path) -> None:
    said(learning)
    learning.close()
    with Memory(path, embedder=False, extractor=Fewer()) as memory:
        assert [fact.text for fact in memory.reextract().archived] == [PORTO]
        assert [fact.text for fact in memory.get_all(user_id="u")] == [TOM]
        for past in (False, True):
            found = memory.search("Porto river", user_id="u", include="messages", past=past)
            assert shown(found) == [("message", SAID)]


def test_what_a_fix_joined_to_another_fact_was_put_away_by_nobody(learning: Memory) -> None:
    learning.remember("Ana plays the violin.", user_id="u", observed_at="2023-01-01")
    twice = f"Ana is playing the violin. {TOM}"
    said(learning, twice)
    learning.fix("near-duplicates")
    assert [fact.text for fact in learning.get_all(user_id="u")] == [TOM, "Ana plays the violin."]
    assert shown(learning.search("playing", user_id="u", include="messages")) == [("message", twice)]


@pytest.mark.parametrize(
    ("way", "verdict"),
    [(archive, "archived"), (replace, "replaced"), (expire, "expired"), (delete, "deleted"), (change, "replaced")],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_why_names_what_was_put_away_of_a_message(learning: Memory, way: Way, verdict: str) -> None:
    id_ = said(learning)[PORTO]
    message = learning.get(id_).sources[0]  # type: ignore[union-attr]
    way(learning, id_)
    why = learning.why(message, "Porto river", user_id="u")
    assert (why.verdict, why.kind, why.text) == (verdict, "message", SAID)
    assert "learnt from it" in why.reason


@pytest.mark.parametrize("condition", [MESSAGES.condition, MESSAGES.past], ids=["default", "past"])
def test_no_table_is_read_whole_to_tell_what_was_put_away_of_a_message(memory: Memory, condition: str) -> None:
    with memory._database.read() as db:
        plan = [
            row[3]
            for row in db.execute(f"EXPLAIN QUERY PLAN SELECT m.id FROM messages m WHERE m.id = 1 AND {condition}")
        ]
    assert [step for step in plan if step.startswith("SCAN")] == []
    for index in ("sources_by_message", "facts_living", "events_by_fact"):
        assert any(index in step for step in plan), index
