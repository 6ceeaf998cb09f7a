"""remember(), update(), get(), get_all() and entities(): facts a caller already knows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlite import Fact, InvalidInputError, Memory, NamedEntity, NotFoundError

TABLES = ("scopes", "batches", "messages", "facts", "events", "entities", "mentions", "sources", "links")
UTC = timezone.utc


class Hashed:
    """An embedder whose vectors depend on the words' letters only; it counts the texts it was given."""

    name = "hashed"
    dimension = 16

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.texts += texts
        return [[1.0 + sum(ord(ch) for ch in text[n::16]) % 97 for n in range(16)] for text in texts]


@pytest.fixture
def embedded(path: Path) -> Iterator[Memory]:
    with Memory(path, embedder=Hashed(), extractor=False) as opened:
        yield opened


def fact(memory: Memory, id_: str) -> Fact:
    found = memory.get(id_)
    assert isinstance(found, Fact)
    return found


def only(memory: Memory, given: Any, **arguments: Any) -> Fact:
    (found,) = memory.remember(given, user_id="u", **arguments).facts
    return found


def rows(memory: Memory) -> dict[str, int]:
    db = sqlite3.connect(memory.path)
    counts = {table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES}
    db.close()
    return counts


# What a fact may say.


def test_a_text_is_a_fact(memory: Memory) -> None:
    found = only(memory, "  Ana likes tea. ")
    assert (found.text, found.current, found.sources, found.by) == ("Ana likes tea.", True, (), "")
    assert memory.get(found.id) == found


@pytest.mark.parametrize(
    ("key", "given", "kept"),
    [
        pytest.param("by", " Ana ", "Ana", id="by"),
        pytest.param("kind", "preference", "preference", id="kind"),
        pytest.param("metadata", {"a": [1, None]}, {"a": [1, None]}, id="metadata"),
        pytest.param("confidence", 0.25, 0.25, id="confidence"),
        pytest.param("confidence", 1, 1.0, id="confidence-whole"),
        pytest.param("entities", ["Ana"], (NamedEntity("Ana", "unknown"),), id="entity-as-name"),
        pytest.param(
            "entities",
            [{"name": "Acme", "type": "organisation"}],
            (NamedEntity("Acme", "organisation"),),
            id="entity-with-type",
        ),
        pytest.param("entities", [], (), id="no-entities"),
        pytest.param(
            "observed_at",
            "2025-05-11T19:30:00+02:00",
            datetime(2025, 5, 11, 19, 30, tzinfo=timezone(timedelta(hours=2))),
            id="observed-at",
        ),
        pytest.param("valid_from", "2020-01-01T00:00:00Z", datetime(2020, 1, 1, tzinfo=UTC), id="valid-from"),
        pytest.param("expires_at", "2999-01-01T00:00:00Z", datetime(2999, 1, 1, tzinfo=UTC), id="expires-at"),
    ],
)
def test_a_fact_keeps_what_it_is_given(memory: Memory, key: str, given: Any, kept: Any) -> None:
    found = only(memory, {"text": "Ana works at Acme.", key: given})
    assert getattr(found, key) == kept


@pytest.mark.parametrize(
    ("event", "kept"),
    [
        pytest.param("2025-05-11", ("2025-05-11", "2025-05-11", "day"), id="day"),
        pytest.param("2025-05", ("2025-05-01", "2025-05-31", "month"), id="month"),
        pytest.param("2024", ("2024-01-01", "2024-12-31", "year"), id="year"),
        pytest.param("2024-02", ("2024-02-01", "2024-02-29", "month"), id="leap-month"),
        pytest.param("2025-05-10/2025-05-12", ("2025-05-10", "2025-05-12", "day"), id="days"),
        pytest.param("2025-05-11T19:30", ("2025-05-11", "2025-05-11", "day"), id="time-of-day"),
        pytest.param("summer 2024", ("2024-06-01", "2024-08-31", "season"), id="season"),
        pytest.param("around 2024-05-10", ("2024-05-10", "2024-05-10", "approximate"), id="approximate"),
    ],
)
def test_an_event_date_is_kept_with_its_precision(memory: Memory, event: str, kept: tuple[str, str, str]) -> None:
    found = only(memory, {"text": "Ana flies to Oslo.", "event": event})
    assert (found.event_start, found.event_end, found.event_precision) == kept


def test_the_days_that_a_text_names_are_its_event_unless_others_are_given(memory: Memory) -> None:
    named, given, titled = memory.remember(
        [
            "Ana flies to Oslo on 14 June 2025.",
            {"text": "Ana flew to Rome on 14 June 2025.", "event": "2024"},
            {"text": "Ana saw Summer in 2019.", "entities": [{"name": "Summer in 2019", "type": "work"}]},
        ],
        user_id="u",
    ).facts
    assert (named.event_start, named.event_end, named.event_precision) == ("2025-06-14", "2025-06-14", "day")
    assert (given.event_start, titled.event_start) == ("2024-01-01", None)


def test_a_fact_is_true_since_an_event_that_was_before_it_was_said(memory: Memory) -> None:
    said = {"observed_at": "2025-05-14T10:00:00Z"}
    moved, state, given = memory.remember(
        [
            {"text": "Ana moved to Lisbon in 2025-04.", **said},
            {"text": "Ana lives in the house built in 1950.", **said},
            {"text": "Ana met Ben in 2023.", "valid_from": "2024-01-01T00:00:00Z", **said},
        ],
        user_id="u",
    ).facts
    assert [each.valid_from.date().isoformat() for each in (moved, state, given)] == [
        "2025-04-01",
        "2025-05-14",
        "2024-01-01",
    ]


# What was true for a time.


def over(text: str = "Ana worked at Acme.", begins: str = "2018-01-01", ends: str = "2020-01-01") -> dict[str, str]:
    return {"text": text, "valid_from": f"{begins}T00:00:00Z", "valid_to": f"{ends}T00:00:00Z"}


def found(memory: Memory, **when: Any) -> list[str]:
    return [hit.text for hit in memory.search("Where did Ana work?", user_id="u", include="facts", **when)]


def test_a_fact_with_an_end_is_past(embedded: Memory) -> None:
    stored = only(embedded, over())
    assert (stored.current, stored.valid_to) == (False, datetime(2020, 1, 1, tzinfo=UTC))
    assert (embedded.get_all(user_id="u").facts, found(embedded)) == ((), [])
    assert found(embedded, past=True) == found(embedded, as_of="2019-06-01") == ["Ana worked at Acme."]
    assert found(embedded, as_of="2020-06-01") == found(embedded, known_at="2999-01-01") == []
    assert [event.action for event in embedded.history(stored.id)] == ["ADD", "EXPIRE"]


def test_a_fact_with_an_end_is_reopened_and_undone_as_others_are(memory: Memory) -> None:
    result = memory.remember(over(), user_id="u")
    undone = memory.undo(result.batch)
    memory.undo(undone.batch)
    assert not fact(memory, result.facts[0].id).current
    other = memory.remember({"text": "Ana works at Initech.", "replaces": result.facts[0].id}, user_id="u")
    memory.undo(other.batch)
    assert fact(memory, result.facts[0].id).valid_to == datetime(2020, 1, 1, tzinfo=UTC)
    assert memory.restore(result.facts[0].id).current


def test_the_same_fact_may_be_true_now_and_have_been_before(memory: Memory) -> None:
    now = only(memory, "Ana worked at Acme.")
    before = only(memory, over())
    again = memory.remember(over(), user_id="u")
    assert [each.existing for each in again.skipped] == [before.id]
    assert fact(memory, now.id).current
    later = memory.remember({"text": "Ana worked at Acme.", "observed_at": "2019-01-01"}, user_id="u")
    assert later.skipped[0].existing == now.id


def test_an_old_message_does_not_bring_back_what_has_ended(memory: Memory) -> None:
    before = only(memory, over())
    again = memory.remember(before.text, user_id="u", observed_at="2019-01-01")
    assert [(each.reason, each.existing) for each in again.skipped] == [("known, and replaced since", before.id)]


def test_what_was_over_before_ends_nothing_that_began_since(memory: Memory) -> None:
    now = only(memory, {"text": "Ana works at Initech.", "observed_at": "2024-01-01"})
    before = only(memory, over() | {"replaces": now.id})
    assert fact(memory, now.id).current
    assert fact(memory, before.id).valid_to == datetime(2020, 1, 1, tzinfo=UTC)
    assert [each.id for each in memory.lineage(now.id)] == [now.id, before.id]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"valid_to": "2999-01-01"}, "expires_at", id="to come"),
        pytest.param({"valid_to": "2020-01-01"}, "give valid_from", id="before it was said"),
        pytest.param(over(begins="2021-01-01"), "expected a time after", id="before it began"),
        pytest.param({"valid_to": "then"}, "valid_to of fact 1", id="no time"),
    ],
)
def test_an_end_that_cannot_be_is_an_error(memory: Memory, given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        memory.remember({"text": "Ana worked at Acme."} | given, user_id="u")


def test_the_keyword_values_hold_where_a_fact_does_not_say_its_own(memory: Memory) -> None:
    one, other = memory.remember(
        ["Ana likes tea.", {"text": "Ben likes coffee.", "kind": "own", "metadata": {"n": 2}}],
        user_id="u",
        kind="shared",
        metadata={"n": 1},
    ).facts
    assert (one.kind, one.metadata) == ("shared", {"n": 1})
    assert (other.kind, other.metadata) == ("own", {"n": 2})


def test_names_are_found_by_rule_where_none_are_given(memory: Memory) -> None:
    found = only(memory, "Yesterday Ana met Ben at the Blue Lagoon.")
    assert {entity.name for entity in found.entities} == {"Ana", "Ben", "Blue Lagoon"}


def test_a_source_is_a_message(memory: Memory) -> None:
    message = memory.add("I like tea.", user_id="u", extract="never").messages[0]
    found = only(memory, {"text": "Ana likes tea.", "source": message})
    assert found.sources == (message,)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param("", id="empty"),
        pytest.param(" \n", id="blank"),
        pytest.param([], id="none"),
        pytest.param(None, id="null"),
        pytest.param(5, id="number"),
        pytest.param(b"Ana", id="bytes"),
        pytest.param([5], id="list-of-number"),
        pytest.param({}, id="no-text"),
        pytest.param({"text": None}, id="text-none"),
        pytest.param({"text": ["Ana"]}, id="text-list"),
        pytest.param({"text": "Half \ud83d."}, id="lone-surrogate"),
        pytest.param({"text": "Ana.", "user_id": "v"}, id="scope-in-a-fact"),
        pytest.param({"text": "Ana.", "id": "1"}, id="id-in-a-fact"),
        pytest.param({"text": "Ana.", "created_at": "2020-01-01"}, id="created-at-in-a-fact"),
        pytest.param({"text": "Ana.", "entities": "Ana"}, id="entities-text"),
        pytest.param({"text": "Ana.", "entities": [5]}, id="entity-number"),
        pytest.param({"text": "Ana.", "entities": [{"type": "person"}]}, id="entity-without-name"),
        pytest.param({"text": "Ana.", "entities": [" "]}, id="entity-blank"),
        pytest.param({"text": "Ana.", "entities": ["\udc00"]}, id="entity-lone-surrogate"),
        pytest.param({"text": "Ana.", "event": "soon"}, id="event-in-words"),
        pytest.param({"text": "Ana.", "event": "2025-02-30"}, id="event-no-such-day"),
        pytest.param({"text": "Ana.", "event": "2025-05-12/2025-05-10"}, id="event-backwards"),
        pytest.param({"text": "Ana.", "confidence": 1.5}, id="confidence-above-1"),
        pytest.param({"text": "Ana.", "confidence": True}, id="confidence-true"),
        pytest.param({"text": "Ana.", "confidence": float("nan")}, id="confidence-nan"),
        pytest.param({"text": "Ana.", "by": 5}, id="by-number"),
        pytest.param({"text": "Ana.", "kind": ["a"]}, id="kind-list"),
        pytest.param({"text": "Ana.", "metadata": "a"}, id="metadata-text"),
        pytest.param({"text": "Ana.", "observed_at": "then"}, id="observed-in-words"),
        pytest.param({"text": "Ana.", "valid_from": 5}, id="valid-from-number"),
        pytest.param({"text": "Ana.", "replaces": [5]}, id="replaces-number"),
        pytest.param({"text": "Ana.", "source": "no such id!"}, id="source-not-an-id"),
        pytest.param(["Ben.", "Cleo.", {"text": ""}], id="third-of-three"),
    ],
)
def test_a_fact_that_cannot_be_used_stores_nothing(memory: Memory, given: Any) -> None:
    memory.remember("Something was here before.", user_id="other")
    before = rows(memory)
    with pytest.raises(InvalidInputError):
        memory.remember(given, user_id="u")
    assert rows(memory) == before


@pytest.mark.parametrize("key", ["replaces", "continues", "source"])
def test_an_id_that_is_not_there_stores_nothing(memory: Memory, key: str) -> None:
    before = rows(memory)
    with pytest.raises(NotFoundError):
        memory.remember(["Ben likes tea.", {"text": "Ana.", key: "0123456789abcdef"}], user_id="u")
    assert rows(memory) == before


@pytest.mark.parametrize("key", ["replaces", "continues", "source"])
def test_an_id_of_another_user_is_not_there(memory: Memory, key: str) -> None:
    theirs = memory.remember("Ana lives in Porto.", user_id="v").facts[0].id
    if key == "source":
        theirs = memory.add("Hello.", user_id="v", extract="never").messages[0]
    with pytest.raises(NotFoundError):
        memory.remember({"text": "Ana lives in Lisbon.", key: theirs}, user_id="u")


def test_the_error_names_the_fact_that_cannot_be_used(memory: Memory) -> None:
    with pytest.raises(InvalidInputError, match="fact 2 has an empty text, expected one sentence"):
        memory.remember(["Ana likes tea.", " "], user_id="u")


def test_one_call_embeds_texts_and_names_together(path: Path) -> None:
    embedder = Hashed()
    with Memory(path, embedder=embedder, extractor=False) as memory:
        memory.remember("Warm up.", user_id="u")
        embedder.texts.clear()
        memory.remember(["Now Ana met Ben.", "Now Ana met Cleo."], user_id="u")
    assert sorted(embedder.texts) == ["Ana", "Ben", "Cleo", "Now Ana met Ben.", "Now Ana met Cleo."]


# Duplicates.


def test_the_same_fact_is_kept_once(memory: Memory) -> None:
    first = only(memory, "Ana likes tea.")
    again = memory.remember(["Ana likes tea", "ANA LIKES TEA!", "Ben likes coffee."], user_id="u")
    assert [s.existing for s in again.skipped] == [first.id, first.id]
    assert [f.text for f in again.facts] == ["Ben likes coffee."]


def test_a_fact_said_twice_in_one_call_is_kept_once(memory: Memory) -> None:
    result = memory.remember(["Ana likes tea.", "Ana likes tea."], user_id="u")
    assert len(result.facts) == 1
    assert result.skipped[0].existing == result.facts[0].id


def test_each_exact_scope_has_its_own_copy(memory: Memory) -> None:
    for scope in ({"user_id": "u"}, {"user_id": "u", "run_id": "r"}, {"user_id": "v"}, {"run_id": "r"}):
        assert memory.remember("Ana likes tea.", **scope).facts


def test_an_expired_twin_does_not_block(memory: Memory) -> None:
    old = only(memory, "Ana likes tea.", expires_at="2001-01-01")
    new = only(memory, "Ana likes tea.")
    assert [f.id for f in memory.get_all(user_id="u")] == [new.id]
    assert [event.action for event in memory.history(old.id)] == ["ADD", "EXPIRE"]


# Replacing.


@pytest.mark.parametrize("known_first", ["old", "new"])
def test_the_older_observation_is_past_whichever_was_stored_first(memory: Memory, known_first: str) -> None:
    porto = {"text": "Ana lives in Porto.", "observed_at": "2023-01-01T00:00:00Z"}
    lisbon = {"text": "Ana lives in Lisbon.", "observed_at": "2025-01-01T00:00:00Z"}
    first, second = (porto, lisbon) if known_first == "old" else (lisbon, porto)
    first_id = only(memory, first).id
    memory.remember(second | {"replaces": first_id}, user_id="u")
    current, past = memory.get_all(user_id="u"), memory.get_all(user_id="u", past=True)
    assert [f.text for f in current] == ["Ana lives in Lisbon."]
    (porto_fact,) = [f for f in past if not f.current]
    assert porto_fact.valid_to == datetime(2025, 1, 1, tzinfo=UTC)
    assert [event.action for event in memory.history(porto_fact.id)] == ["ADD", "SUPERSEDE"]


def test_what_replaced_what_stands_in_links(memory: Memory) -> None:
    old = only(memory, {"text": "Ana lives in Porto.", "observed_at": "2023-01-01"})
    new = only(memory, {"text": "Ana lives in Lisbon.", "replaces": old.id})
    db = sqlite3.connect(memory.path)
    links = db.execute(
        """SELECT n.uid, l.relation, o.uid FROM links l
           JOIN facts n ON n.id = l.from_fact JOIN facts o ON o.id = l.to_fact"""
    ).fetchall()
    db.close()
    assert links == [(new.id, "replaces", old.id)]


def test_a_fact_of_another_run_may_be_replaced(memory: Memory) -> None:
    old = memory.remember("Ana lives in Porto.", user_id="u", run_id="r1", observed_at="2023-01-01").facts[0]
    memory.remember({"text": "Ana lives in Lisbon.", "replaces": old.id}, user_id="u", run_id="r2")
    assert not fact(memory, old.id).current


def test_a_continued_fact_stays_current(memory: Memory) -> None:
    old = only(memory, "Ana adopted a dog.")
    only(memory, {"text": "Ana's dog is called Rex.", "continues": old.id})
    assert fact(memory, old.id).current


def test_a_replaced_fact_may_be_said_again(memory: Memory) -> None:
    old = only(memory, "Ana lives in Porto.")
    only(memory, {"text": "Ana lives in Lisbon.", "replaces": old.id})
    again = only(memory, "Ana lives in Porto.")
    assert again.id != old.id
    assert len(memory.get_all(user_id="u")) == 2


def test_a_known_fact_that_replaces_another_still_replaces_it(memory: Memory) -> None:
    lisbon = only(memory, "Ana lives in Lisbon.", observed_at="2023-01-01")
    porto = only(memory, "Ana lives in Porto.", observed_at="2024-01-01")
    memory.remember({"text": "Ana lives in Porto.", "replaces": lisbon.id}, user_id="u")
    assert [f.id for f in memory.get_all(user_id="u")] == [porto.id]


# Changing.


FULL = {
    "text": "Ana works at Acme in Oslo.",
    "kind": "job",
    "metadata": {"a": 1},
    "by": "Ana",
    "expires_at": "2999-01-01T00:00:00Z",
    "event": "2025-05",
    "entities": [{"name": "Acme", "type": "organisation"}, {"name": "Oslo", "type": "place"}],
}
CHANGES = [
    pytest.param({"text": "Ana works at Acme in Bergen."}, id="text"),
    pytest.param({"metadata": {"b": 2}}, id="metadata"),
    pytest.param({"metadata": {}}, id="metadata-emptied"),
    pytest.param({"kind": "work"}, id="kind"),
    pytest.param({"kind": ""}, id="kind-emptied"),
    pytest.param({"expires_at": datetime(2998, 1, 1, tzinfo=UTC)}, id="expires-at"),
    pytest.param({"expires_at": None}, id="expires-at-removed"),
]


@pytest.mark.parametrize("changes", CHANGES)
def test_an_update_changes_what_it_is_given_and_keeps_the_rest(embedded: Memory, changes: dict[str, Any]) -> None:
    before = only(embedded, FULL)
    after = embedded.update(before.id, **changes)
    anew = {"created_at", "entities", "last_confirmed_at"}
    anew |= {"event_start", "event_end", "event_precision"} if "text" in changes else set()
    kept = {
        name: (getattr(before, name), getattr(after, name))
        for name in Fact.__slots__
        if name not in changes and name not in anew
    }
    assert {name: value for name, value in changes.items() if getattr(after, name) != value} == {}
    assert {name: values for name, values in kept.items() if values[0] != values[1]} == {}
    assert after == embedded.get(before.id)


VISIT = {"text": "Ana sees the dentist on 2025-05-23.", "observed_at": "2025-05-14", "confidence": 0.5}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({"text": "Ana sees the dentist on 2025-08-01."}, ("2025-08-01", "2025-08-01", "day"), id="named"),
        pytest.param({"text": "Ana sees a dentist on 23 May."}, ("2025-05-23", "2025-05-23", "day"), id="stands still"),
        pytest.param({"text": "Ana sees the dentist soon."}, (None, None, None), id="named no longer"),
        pytest.param({"event": "2025-06"}, ("2025-06-01", "2025-06-30", "month"), id="given"),
        pytest.param({"event": None}, (None, None, None), id="taken away"),
        pytest.param(
            {"text": "Ana sees the dentist on 2025-08-01.", "event": "around 2025-08-02"},
            ("2025-08-02", "2025-08-02", "approximate"),
            id="named and given",
        ),
        pytest.param({"kind": "plan"}, ("2025-05-23", "2025-05-23", "day"), id="something else"),
    ],
)
def test_the_event_of_an_update_is_what_its_text_names(
    memory: Memory, changes: dict[str, Any], expected: tuple[str | None, ...]
) -> None:
    before = only(memory, VISIT)
    after = memory.update(before.id, **changes)
    assert (after.event_start, after.event_end, after.event_precision) == expected
    assert after.confidence == (None if "text" in changes else 0.5)
    event = memory.history(before.id)[-1]
    assert event.before is not None
    assert event.after is not None
    if expected == ("2025-05-23", "2025-05-23", "day"):
        assert "event" not in event.after
    else:
        assert event.before["event"] == ["2025-05-23", "2025-05-23", "day"]
        assert event.after["event"] == (list(expected) if expected[0] else None)


def test_a_text_written_by_hand_has_no_model(learning: Memory) -> None:
    before = learning.add("Ana likes tea.", user_id="u").facts[0]
    assert (before.model, before.prompt_version) == ("echo", "1")
    assert learning.update(before.id, kind="taste").model == "echo"
    after = learning.update(before.id, text="Ana likes coffee.")
    assert (after.model, after.prompt_version, after.confidence) == ("", "", None)
    assert after.sources == before.sources


def test_when_it_is_true_from_follows_the_event_of_an_update_unless_it_was_given(memory: Memory) -> None:
    said = {"text": "Ana moved to Lisbon in 2025-04.", "observed_at": "2025-05-14T10:00:00Z"}
    moved = only(memory, said)
    assert memory.update(moved.id, text="Ana moved to Lisbon in 2025-02.").valid_from.date().isoformat() == "2025-02-01"
    assert memory.update(moved.id, text="Ana moved to Lisbon.").valid_from == moved.observed_at
    given = only(memory, said | {"valid_from": "2025-03-01T00:00:00Z"})
    assert memory.update(given.id, text="Ana moved to Lisbon in 2025-01.").valid_from == given.valid_from


def test_an_event_of_an_update_that_is_no_date_changes_nothing(memory: Memory) -> None:
    before = only(memory, VISIT)
    with pytest.raises(InvalidInputError, match="the update has the event 'soon'"):
        memory.update(before.id, event="soon")
    assert memory.get(before.id) == before


def test_an_update_keeps_the_entities_the_new_text_still_names(memory: Memory) -> None:
    before = only(memory, FULL)
    after = memory.update(before.id, text="Ana works at Acme in Bergen.")
    assert NamedEntity("Acme", "organisation") in after.entities
    assert "Oslo" not in {entity.name for entity in after.entities}
    assert "Bergen" in {entity.name for entity in after.entities}
    assert "Oslo" not in {entity.name for entity in memory.entities(user_id="u")}


def test_an_updated_fact_is_found_by_its_new_words_only(embedded: Memory) -> None:
    before = only(embedded, "Ana drinks green tea.")
    embedded.update(before.id, text="Ana drinks black coffee.")
    found = embedded.search("coffee", user_id="u", explain=True)
    assert [(hit.id, hit.text) for hit in found] == [(before.id, "Ana drinks black coffee.")]
    old = embedded.search("green tea", user_id="u", explain=True)
    assert all(hit.text == "Ana drinks black coffee." and hit.explain.keyword == 0 for hit in old)


def test_an_update_is_one_event_with_before_and_after(memory: Memory) -> None:
    before = only(memory, "Ana likes tea.", metadata={"a": 1})
    memory.update(before.id, text="Ana likes coffee.")
    added, updated = memory.history(before.id)
    assert (added.action, added.before, added.after) == ("ADD", None, None)
    assert updated.action == "UPDATE"
    assert updated.before is not None
    assert updated.after is not None
    assert (updated.before["text"], updated.after["text"]) == ("Ana likes tea.", "Ana likes coffee.")
    assert updated.before["metadata"] == updated.after["metadata"] == {"a": 1}


def test_an_update_that_changes_nothing_is_no_event(memory: Memory) -> None:
    before = only(memory, "Ana likes tea.", metadata={"a": 1}, kind="k")
    memory.update(before.id, text="Ana likes tea.", metadata={"a": 1}, kind="k")
    memory.update(before.id)
    assert [event.action for event in memory.history(before.id)] == ["ADD"]


def test_a_text_may_change_its_case_only(memory: Memory) -> None:
    before = only(memory, "ana likes tea.")
    assert memory.update(before.id, text="Ana likes tea.").text == "Ana likes tea."


@pytest.mark.parametrize("text", ["", "  \n", 5, b"x", "half \ud83d"])
def test_an_update_to_no_text_is_an_error_that_changes_nothing(memory: Memory, text: Any) -> None:
    before = only(memory, "Ana likes tea.")
    with pytest.raises(InvalidInputError):
        memory.update(before.id, text=text)
    assert memory.get(before.id) == before


def test_an_update_to_the_text_of_another_fact_is_an_error_that_changes_nothing(embedded: Memory) -> None:
    embedded.remember("Ana likes tea.", user_id="u")
    before = only(embedded, "Ana likes coffee.")
    counts = rows(embedded)
    with pytest.raises(InvalidInputError, match="another fact"):
        embedded.update(before.id, text="ana likes TEA")
    assert embedded.get(before.id) == before
    assert rows(embedded) == counts


def test_an_update_meets_an_expired_twin_and_goes_on(memory: Memory) -> None:
    old = only(memory, "Ana likes tea.", expires_at="2001-01-01")
    new = only(memory, "Ana likes coffee.")
    assert memory.update(new.id, text="Ana likes tea.").current
    assert [event.action for event in memory.history(old.id)] == ["ADD", "EXPIRE"]


def test_two_updates_at_once_keep_what_the_other_one_gave(path: Path) -> None:
    class Meanwhile(Hashed):
        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            if "Ana likes coffee." in texts:
                memory.update(before.id, metadata={"n": 2}, kind="taste")
            return super().embed(texts)

    with Memory(path, embedder=Meanwhile(), extractor=False) as memory:
        before = only(memory, "Ana likes tea.", metadata={"n": 1})
        memory.update(before.id, text="Ana likes coffee.")
        after = fact(memory, before.id)
        assert (after.text, after.metadata, after.kind) == ("Ana likes coffee.", {"n": 2}, "taste")


def test_an_update_of_nothing_is_not_found(memory: Memory) -> None:
    with pytest.raises(NotFoundError):
        memory.update("0123456789abcdef", text="Ana likes tea.")


def test_an_old_version_has_no_life_of_its_own(memory: Memory) -> None:
    before = only(memory, "Ana likes tea.")
    memory.update(before.id, text="Ana likes coffee.")
    memory.update(before.id, text="Ana likes water.")
    assert [f.id for f in memory.get_all(user_id="u", past=True)] == [before.id]
    assert memory.stats().facts == 1
    assert memory.stats().past_facts == 0


def test_a_fact_can_expire_by_an_update(embedded: Memory) -> None:
    before = only(embedded, "Ana likes tea.")
    assert not embedded.update(before.id, expires_at="2001-01-01").current
    assert not embedded.search("tea", user_id="u")
    assert embedded.update(before.id, expires_at=None).current
    assert embedded.search("tea", user_id="u")


SPOOFED = {
    "user_id": "v",
    "agent_id": "a",
    "run_id": "r",
    "scope": "v",
    "scope_id": 7,
    "id": "mine",
    "uid": "mine",
    "text": "changed",
    "created_at": "1999-01-01",
    "observed_at": "1999-01-01",
    "expires_at": "1999-01-01",
    "live": 0,
}


@pytest.mark.parametrize("through", ["remember", "add", "update"])
def test_metadata_cannot_set_scope_ids_or_times(memory: Memory, through: str) -> None:
    if through == "add":
        id_ = memory.add("Ana likes tea.", user_id="u", metadata=SPOOFED).messages[0]
    else:
        id_ = only(memory, "Ana likes tea.", metadata=SPOOFED if through == "remember" else None).id
        if through == "update":
            memory.update(id_, metadata=SPOOFED)
    found = memory.get(id_)
    assert (found.id, found.text, found.scope.given()) == (id_, "Ana likes tea.", {"user_id": "u"})
    assert found.created_at.year == found.observed_at.year > 1999
    assert found.metadata == SPOOFED
    assert memory.search("tea", user_id="u")
    assert not memory.search("tea", user_id="v")


# Reading.


@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize("limit", [1, 3, 7, 100])
def test_paging_returns_each_fact_once(memory: Memory, order: Any, limit: int) -> None:
    memory.remember([f"Fact number {n}." for n in range(7)], user_id="u")
    seen: list[str] = []
    cursor = None
    while True:
        page = memory.get_all(user_id="u", limit=limit, cursor=cursor, order=order)
        assert len(page) <= limit
        seen += [f.text for f in page]
        cursor = page.cursor
        if cursor is None:
            break
    expected = [f"Fact number {n}." for n in range(7)]
    assert seen == (expected if order == "oldest" else expected[::-1])


@given(st.lists(st.integers(0, 3), max_size=6), st.integers(1, 4), st.sampled_from(["newest", "oldest"]))
@settings(max_examples=20)
def test_paging_returns_each_fact_once_while_others_are_added(inserts: list[int], limit: int, order: Any) -> None:
    with Memory(":memory:", embedder=False, extractor=False) as memory:
        first = {f.id for f in memory.remember([f"Fact number {n}." for n in range(9)], user_id="u").facts}
        seen: list[str] = []
        cursor, more = None, iter(inserts)
        while True:
            page = memory.get_all(user_id="u", limit=limit, cursor=cursor, order=order)
            seen += [f.id for f in page]
            for n in range(next(more, 0)):
                memory.remember(f"Added beside {len(seen)}, {n}.", user_id="u")
            cursor = page.cursor
            if cursor is None:
                break
        assert len(seen) == len(set(seen))
        assert first <= set(seen)


def test_pages_hold_the_filter_and_the_scope(memory: Memory) -> None:
    for n in range(20):
        memory.remember(f"Fact {n} of u.", user_id="u", metadata={"n": n})
        memory.remember(f"Fact {n} of v.", user_id="v", metadata={"n": n})
    first = memory.get_all(user_id="u", filters={"n": {"gte": 10}}, limit=6)
    rest = memory.get_all(user_id="u", filters={"n": {"gte": 10}}, limit=6, cursor=first.cursor)
    assert [f.text for f in (*first, *rest)] == [f"Fact {n} of u." for n in range(19, 9, -1)]
    assert rest.cursor is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"limit": 0},
        {"limit": 1001},
        {"limit": True},
        {"limit": "5"},
        {"order": "random"},
        {"cursor": "abc"},
        {"cursor": 5},
        {"cursor": "-1"},
        {"cursor": "9" * 40},
        {"filters": {"a": {"like": "x"}}},
        {"user_id": None},
    ],
    ids=str,
)
def test_a_page_that_cannot_be_is_an_error(memory: Memory, arguments: dict[str, Any]) -> None:
    memory.remember("Ana likes tea.", user_id="u")
    with pytest.raises(InvalidInputError):
        memory.get_all(**{"user_id": "u"} | arguments)


def test_a_page_of_nobody_is_empty(memory: Memory) -> None:
    assert list(memory.get_all(user_id="nobody")) == []


def test_past_facts_are_listed_on_demand(memory: Memory) -> None:
    memory.remember("Ana liked tea.", user_id="u", expires_at="2001-01-01")
    assert list(memory.get_all(user_id="u")) == []
    assert [(f.text, f.current) for f in memory.get_all(user_id="u", past=True)] == [("Ana liked tea.", False)]


def test_an_id_may_be_given_by_its_beginning(memory: Memory) -> None:
    found = only(memory, "Ana likes tea.")
    assert memory.get(found.id[:12].upper()) == found


@pytest.mark.parametrize("id_", ["", "abc", "zzzzzzzz", "%%%%", "....", 5, None])
def test_an_id_of_nothing_is_an_error(memory: Memory, id_: Any) -> None:
    only(memory, "Ana likes tea.")
    with pytest.raises((NotFoundError, InvalidInputError)):
        memory.get(id_)


def test_entities_are_listed_the_most_mentioned_first(memory: Memory) -> None:
    memory.remember(["Later Ana met Ben.", "Then Ana saw Oslo.", "Later Cleo met Ana."], user_id="u")
    memory.remember("Later Zoe met Ana.", user_id="v")
    listed = [(entity.name, entity.facts) for entity in memory.entities(user_id="u")]
    assert listed == [("Ana", 3), ("Ben", 1), ("Cleo", 1), ("Oslo", 1)]


def test_names_that_differ_in_case_and_accents_are_one_entity(memory: Memory) -> None:
    memory.remember({"text": "Zoë met someone.", "entities": [{"name": "Zoë", "type": "person"}]}, user_id="u")
    memory.remember({"text": "ZOE is back.", "entities": [{"name": "ZOE", "type": "person"}]}, user_id="u")
    assert [(entity.name, entity.facts) for entity in memory.entities(user_id="u")] == [("Zoë", 2)]


def test_a_name_of_two_types_is_two_entities(memory: Memory) -> None:
    for kind in ("person", "place"):
        memory.remember({"text": f"Paris is a {kind}.", "entities": [{"name": "Paris", "type": kind}]}, user_id="u")
    assert {entity.type for entity in memory.entities(user_id="u")} == {"person", "place"}


def test_an_entity_goes_with_its_last_fact(memory: Memory) -> None:
    first, second = memory.remember(["Later Ana met Ben.", "Later Ana met Cleo."], user_id="u").facts
    memory.delete(first.id)
    assert {entity.name for entity in memory.entities(user_id="u")} == {"Ana", "Cleo"}
    memory.delete(second.id)
    assert memory.entities(user_id="u") == []


def test_stats_count_what_is_there(embedded: Memory) -> None:
    embedded.add(["One.", "Two."], user_id="u", extract="later")
    old = only(embedded, "Ana lives in Porto.", observed_at="2020-01-01")
    only(embedded, {"text": "Ana lives in Lisbon.", "replaces": old.id})
    stats = embedded.stats()
    assert (stats.facts, stats.past_facts, stats.messages, stats.entities) == (1, 1, 2, 2)
    assert len(stats.queued) == 1
    assert (stats.embedder, stats.extractor) == ("hashed", None)
    assert stats.bytes > 0
