"""add(): what it takes, what it refuses, what it stores, and what it hands to the extractor."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from memlite import (
    ExtractedFact,
    Extraction,
    ExtractionError,
    ExtractionRequest,
    Fact,
    InvalidInputError,
    Memory,
    Message,
    NamedEntity,
)

TABLES = ("scopes", "batches", "messages", "facts", "events", "entities", "mentions", "sources", "links")


class Echo:
    """An extractor whose facts are the messages themselves. It keeps every request it was shown."""

    name = "echo"
    prompt_version = "1"

    def __init__(self) -> None:
        self.requests: list[ExtractionRequest] = []

    def extract(self, request: ExtractionRequest) -> Extraction:
        self.requests.append(request)
        return Extraction(tuple(ExtractedFact(turn.text, turn.speaker, (turn.number,)) for turn in request.messages))


class Constant(Echo):
    """An extractor that always answers the same facts."""

    def __init__(self, *facts: ExtractedFact) -> None:
        super().__init__()
        self.facts = facts

    def extract(self, request: ExtractionRequest) -> Extraction:
        self.requests.append(request)
        return Extraction(self.facts)


class Failing(Echo):
    """An extractor that raises its error as long as it has one."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__()
        self.error = error

    def extract(self, request: ExtractionRequest) -> Extraction:
        if self.error:
            raise self.error
        return super().extract(request)


@pytest.fixture
def echo(path: Path) -> Iterator[tuple[Memory, Echo]]:
    extractor = Echo()
    with Memory(path, embedder=False, extractor=extractor) as memory:
        yield memory, extractor


def rows(memory: Memory) -> dict[str, int]:
    db = sqlite3.connect(memory.path)
    counts = {table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES}
    db.close()
    return counts


def stored(memory: Memory, ids: Sequence[str]) -> list[Message]:
    found = [memory.get(id_) for id_ in ids]
    assert all(isinstance(each, Message) for each in found)
    return found  # type: ignore[return-value]


# What it takes.


TOOL_CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param("Hello.", [("user", "", "Hello.")], id="text"),
        pytest.param({"role": "assistant", "content": "Hi."}, [("assistant", "", "Hi.")], id="one-message"),
        pytest.param(["Hello.", "Again."], [("user", "", "Hello."), ("user", "", "Again.")], id="texts"),
        pytest.param(({"content": "Hello."},), [("user", "", "Hello.")], id="tuple-without-role"),
        pytest.param(
            [{"role": "user", "name": "Ana", "content": "Hello."}, {"role": "assistant", "content": "Hi."}],
            [("user", "Ana", "Hello."), ("assistant", "", "Hi.")],
            id="list-with-name",
        ),
        pytest.param({"role": "system", "content": "Be kind."}, [("system", "", "Be kind.")], id="system"),
        pytest.param({"role": "developer", "content": "Be kind."}, [("system", "", "Be kind.")], id="developer"),
        pytest.param(
            {"role": "tool", "tool_call_id": "call_1", "content": "12 degrees"},
            [("tool", "", "12 degrees")],
            id="tool",
        ),
        pytest.param(
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look at this."},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                    {"type": "input_text", "text": "Nice?"},
                ],
            },
            [("user", "", "Look at this.\n[image]\nNice?")],
            id="content-parts",
        ),
        pytest.param(
            {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA"}}]},
            [("user", "", "[audio]")],
            id="audio-part",
        ),
        pytest.param(
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "I cannot."}]},
            [("assistant", "", "I cannot.")],
            id="refusal-part",
        ),
        pytest.param(
            {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]},
            [("assistant", "", 'weather({"city":"Oslo"})')],
            id="tool-call",
        ),
        pytest.param(
            {"role": "assistant", "content": "", "tool_calls": [TOOL_CALL]},
            [("assistant", "", 'weather({"city":"Oslo"})')],
            id="tool-call-beside-empty-content",
        ),
        pytest.param("  two  spaces \n", [("user", "", "  two  spaces \n")], id="white-space-is-kept"),
        pytest.param("nul \x00 inside", [("user", "", "nul \x00 inside")], id="nul-is-kept"),
        pytest.param({"content": "Hi.", "mood": "gay"}, [("user", "", "Hi.")], id="other-keys-are-ignored"),
    ],
)
def test_it_takes_the_shapes_that_conversations_come_in(
    memory: Memory, given: Any, expected: list[tuple[str, str, str]]
) -> None:
    result = memory.add(given, user_id="u")
    found = stored(memory, result.messages)
    assert [(message.role, message.name, message.content) for message in found] == expected


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"messages": ""}, id="empty-text"),
        pytest.param({"messages": " \n\t "}, id="blank-text"),
        pytest.param({"messages": []}, id="no-messages"),
        pytest.param({"messages": ["Hello.", "  "]}, id="second-message-blank"),
        pytest.param({"messages": None}, id="none"),
        pytest.param({"messages": 5}, id="number"),
        pytest.param({"messages": b"Hello."}, id="bytes"),
        pytest.param({"messages": {"a", "b"}}, id="set"),
        pytest.param({"messages": [["Hello."]]}, id="nested-list"),
        pytest.param({"messages": [None]}, id="list-of-none"),
        pytest.param({"messages": {"role": "user"}}, id="no-content"),
        pytest.param({"messages": {"role": "user", "content": None}}, id="content-none"),
        pytest.param({"messages": {"role": "user", "content": 5}}, id="content-number"),
        pytest.param({"messages": {"role": "user", "content": []}}, id="no-parts"),
        pytest.param({"messages": {"role": "user", "content": [{"type": "hologram"}]}}, id="unknown-part"),
        pytest.param({"messages": {"role": "assistant", "tool_calls": 5}}, id="tool-calls-number"),
        pytest.param({"messages": {"role": "boss", "content": "Hi."}}, id="unknown-role"),
        pytest.param({"messages": {"role": None, "content": "Hi."}}, id="role-none"),
        pytest.param({"messages": {"name": 5, "content": "Hi."}}, id="name-number"),
        pytest.param({"messages": {"id": "  ", "content": "Hi."}}, id="blank-message-id"),
        pytest.param({"messages": {"id": [1], "content": "Hi."}}, id="message-id-list"),
        pytest.param(
            {"messages": [{"id": "a", "content": "Hi."}, {"id": "a", "content": "Ho."}]}, id="message-id-twice"
        ),
        pytest.param({"messages": {"content": "Hi.", "observed_at": "yesterday"}}, id="message-date-in-words"),
        pytest.param({"messages": "half \ud83d of a pair"}, id="lone-surrogate"),
        pytest.param({"messages": {"name": "\udc00", "content": "Hi."}}, id="lone-surrogate-in-name"),
        pytest.param({"user_id": None}, id="no-id"),
        pytest.param({"user_id": "  "}, id="blank-id"),
        pytest.param({"user_id": 5}, id="number-as-id"),
        pytest.param({"agent_id": ""}, id="blank-agent"),
        pytest.param({"run_id": "\ud83d"}, id="lone-surrogate-in-id"),
        pytest.param({"extract": "soon"}, id="unknown-extract"),
        pytest.param({"extract": None}, id="extract-none"),
        pytest.param({"observed_at": "last week"}, id="date-in-words"),
        pytest.param({"observed_at": ""}, id="empty-date"),
        pytest.param({"observed_at": 1700000000}, id="unix-time"),
        pytest.param({"expires_at": "2025-13-01"}, id="month-13"),
        pytest.param({"metadata": ["a"]}, id="metadata-list"),
        pytest.param({"metadata": {"a": float("nan")}}, id="metadata-nan"),
        pytest.param({"metadata": {1: "a"}}, id="metadata-number-as-key"),
        pytest.param({"metadata": {"a": object()}}, id="metadata-object"),
        pytest.param({"metadata": {"a": "\ud83d"}}, id="metadata-lone-surrogate"),
        pytest.param({"kind": 5}, id="kind-number"),
        pytest.param({"instructions": 5}, id="instructions-number"),
    ],
)
def test_what_cannot_be_used_is_an_error_and_leaves_the_file_unchanged(
    memory: Memory, arguments: dict[str, Any]
) -> None:
    memory.add("Something was here before.", user_id="other")
    before = rows(memory)
    with pytest.raises(InvalidInputError):
        memory.add(**{"messages": "Hello.", "user_id": "u"} | arguments)
    assert rows(memory) == before


def test_an_error_of_input_is_also_a_value_error(memory: Memory) -> None:
    with pytest.raises(ValueError, match="message 2 is blank, expected some text"):
        memory.add(["Hello.", ""], user_id="u")


@pytest.mark.parametrize("given", [" u ", "u\n", "\tu"])
def test_ids_are_trimmed(memory: Memory, given: str) -> None:
    memory.add("Ana likes tea.", user_id=given)
    assert memory.search("tea", user_id="u")[0].record.scope.user_id == "u"


@pytest.mark.parametrize("odd", ["*", "%", "u1", "' OR 1=1 --", "всё", "a b", "ALL", '"', "live"])
def test_any_text_is_an_ordinary_id(memory: Memory, odd: str) -> None:
    memory.add("Ana likes tea.", user_id="someone else")
    memory.add("Ben likes tea.", user_id=odd)
    assert [hit.text for hit in memory.search("tea", user_id=odd)] == ["Ben likes tea."]
    assert len(memory.search("tea", user_id="someone else")) == 1


# Callers' own message ids.


def test_a_message_id_that_is_known_is_not_stored_again(memory: Memory) -> None:
    first = memory.add({"id": "m1", "content": "Ana likes tea."}, user_id="u")
    second = memory.add({"id": "m1", "content": "Ana likes tea."}, user_id="u")
    assert memory.stats().messages == 1
    assert second.messages == ()
    assert [(s.reason, s.existing) for s in second.skipped] == [("message already stored", first.messages[0])]


def test_a_conversation_sent_again_with_more_stores_only_what_is_new(echo: tuple[Memory, Echo]) -> None:
    memory, extractor = echo
    turns = [{"id": n, "content": f"Message number {n}."} for n in range(4)]
    memory.add(turns[:2], user_id="u")
    result = memory.add(turns, user_id="u")
    assert [turn.text for turn in extractor.requests[-1].messages] == ["Message number 2.", "Message number 3."]
    assert len(result.messages) == 2
    assert memory.stats().messages == 4


def test_a_message_id_with_another_text_is_an_error_and_nothing_is_stored(memory: Memory) -> None:
    memory.add({"id": "m1", "content": "Ana likes tea."}, user_id="u")
    before = rows(memory)
    with pytest.raises(InvalidInputError, match="another text"):
        memory.add([{"id": "m2", "content": "New."}, {"id": "m1", "content": "Ana likes coffee."}], user_id="u")
    assert rows(memory) == before


def test_a_message_id_is_unique_in_its_scope_only(memory: Memory) -> None:
    memory.add({"id": "m1", "content": "Ana likes tea."}, user_id="u")
    memory.add({"id": "m1", "content": "Ben likes coffee."}, user_id="v")
    memory.add({"id": "m1", "content": "Cleo likes water."}, user_id="u", run_id="r")
    assert memory.stats().messages == 3


def test_sending_a_failed_batch_again_extracts_it(path: Path) -> None:
    extractor = Failing(ExtractionError("busy"))
    with Memory(path, embedder=False, extractor=extractor) as memory:
        assert memory.add({"id": "m1", "content": "Ana likes tea."}, user_id="u").status == "queued"
        extractor.error = None
        again = memory.add({"id": "m1", "content": "Ana likes tea."}, user_id="u")
        assert (again.status, [fact.text for fact in again.facts]) == ("done", ["Ana likes tea."])


# What the extractor is shown.


def test_the_window_of_fourteen_messages_is_the_ten_before_them(echo: tuple[Memory, Echo]) -> None:
    memory, extractor = echo
    for n in range(13):
        memory.add(f"Before {n}.", user_id="u", extract="never")
    memory.add([f"New {n}." for n in range(14)], user_id="u")
    (request,) = extractor.requests
    assert [turn.text for turn in request.window] == [f"Before {n}." for n in range(3, 13)]
    assert [turn.text for turn in request.messages] == [f"New {n}." for n in range(14)]


def test_a_batch_drained_later_sees_the_window_it_would_have_seen(echo: tuple[Memory, Echo]) -> None:
    memory, extractor = echo
    for n in range(12):
        memory.add(f"Before {n}.", user_id="u", extract="never")
    memory.add("The new one.", user_id="u", extract="later")
    for n in range(12):
        memory.add(f"After {n}.", user_id="u", extract="never")
    memory.work()
    (request,) = extractor.requests
    assert [turn.text for turn in request.window] == [f"Before {n}." for n in range(2, 12)]


def test_the_window_goes_by_the_order_of_arrival_not_by_the_dates_given(echo: tuple[Memory, Echo]) -> None:
    memory, extractor = echo
    for year in (2025, 2021, 2023):
        memory.add(f"Said in {year}.", user_id="u", observed_at=f"{year}-01-01", extract="never")
    memory.add("The new one.", user_id="u", observed_at="2019-01-01")
    assert [turn.text for turn in extractor.requests[0].window] == [
        "Said in 2025.",
        "Said in 2021.",
        "Said in 2023.",
    ]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"user_id": "u", "run_id": "other"}, id="other-run"),
        pytest.param({"user_id": "u"}, id="no-run"),
        pytest.param({"user_id": "v", "run_id": "r"}, id="other-user"),
        pytest.param({"user_id": "u", "agent_id": "a", "run_id": "r"}, id="an-agent-as-well"),
    ],
)
def test_the_window_belongs_to_the_exact_scope(echo: tuple[Memory, Echo], other: dict[str, str]) -> None:
    memory, extractor = echo
    memory.add("Said elsewhere.", extract="never", **other)
    memory.add("Said here.", user_id="u", run_id="r")
    assert extractor.requests[0].window == ()


def test_a_new_run_knows_the_facts_of_its_root(echo: tuple[Memory, Echo]) -> None:
    memory, extractor = echo
    memory.add("Ana is allergic to peanuts.", user_id="u", run_id="first")
    memory.add("Can Ana eat peanuts?", user_id="u", run_id="second")
    request = extractor.requests[-1]
    assert request.window == ()
    assert [(fact.number, fact.text) for fact in request.known] == [(1, "Ana is allergic to peanuts.")]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"user_id": "v"}, id="other-user"),
        pytest.param({"user_id": "u", "agent_id": "a"}, id="what-the-user-told-one-agent"),
        pytest.param({"run_id": "second"}, id="a-lone-run-of-the-same-name"),
    ],
)
def test_known_facts_stay_within_the_root(echo: tuple[Memory, Echo], other: dict[str, str]) -> None:
    memory, extractor = echo
    memory.remember("Ana is allergic to peanuts.", **other)
    memory.add("Can Ana eat peanuts?", user_id="u", run_id="second")
    assert extractor.requests[-1].known == ()


def test_at_most_ten_known_facts_are_shown_the_nearest_first(echo: tuple[Memory, Echo]) -> None:
    memory, extractor = echo
    memory.remember([f"Ana saw peanuts on day {n}." for n in range(30)], user_id="u")
    memory.remember("Ana is allergic to peanuts and sesame.", user_id="u")
    memory.add("Sesame and peanuts again for Ana?", user_id="u")
    known = extractor.requests[-1].known
    assert [fact.number for fact in known] == list(range(1, 11))
    assert known[0].text == "Ana is allergic to peanuts and sesame."


def test_past_facts_are_not_shown_as_known(echo: tuple[Memory, Echo]) -> None:
    memory, extractor = echo
    old = memory.remember("Ana lives in Porto.", user_id="u").facts[0]
    memory.remember({"text": "Ana lives in Lisbon.", "replaces": old.id}, user_id="u")
    memory.remember("Ana lives in a tent.", user_id="u", expires_at="2001-01-01")
    memory.add("Where does Ana live, Porto or a tent?", user_id="u")
    assert [fact.text for fact in extractor.requests[-1].known] == ["Ana lives in Lisbon."]


def test_of_very_many_facts_those_with_the_rarest_words_are_known(
    echo: tuple[Memory, Echo], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memlite.learn.MANY_KNOWN", 10)
    memory, extractor = echo
    memory.remember("Ana is allergic to peanuts and sesame.", user_id="u")
    memory.remember([f"Ana saw peanuts on day {n}." for n in range(150)], user_id="u")
    memory.remember("Sesame grows for Ana, peanuts too.", user_id="v")
    old = memory.remember("Ana peels sesame and peanuts.", user_id="u").facts[0]
    memory.remember({"text": "Ana peels nothing.", "replaces": old.id}, user_id="u")
    memory.add("Sesame and peanuts again for Ana?", user_id="u")
    known = [fact.text for fact in extractor.requests[-1].known]
    assert len(known) == 10
    assert known[0] == "Ana is allergic to peanuts and sesame."
    assert not {"Sesame grows for Ana, peanuts too.", "Ana peels sesame and peanuts."}.intersection(known)


def test_system_and_tool_text_is_stored_but_never_extracted(echo: tuple[Memory, Echo]) -> None:
    memory, extractor = echo
    result = memory.add(
        [
            {"role": "system", "content": "The secret kettle is blue."},
            {"role": "user", "content": "Ana likes tea."},
            {"role": "tool", "content": "The kettle reports 80 degrees."},
            {"role": "assistant", "content": "Noted, tea it is."},
        ],
        user_id="u",
    )
    assert [turn.text for turn in extractor.requests[0].messages] == ["Ana likes tea.", "Noted, tea it is."]
    assert [fact.text for fact in result.facts] == ["Ana likes tea.", "Noted, tea it is."]
    hits = memory.search("kettle", user_id="u", explain=True)
    assert {hit.text for hit in hits if hit.explain and hit.explain.words} == {
        "The secret kettle is blue.",
        "The kettle reports 80 degrees.",
    }


def test_a_batch_of_system_text_alone_is_done_without_the_extractor(echo: tuple[Memory, Echo]) -> None:
    memory, extractor = echo
    assert memory.add({"role": "system", "content": "Be kind."}, user_id="u").status == "done"
    assert extractor.requests == []


def test_the_extractor_sees_who_spoke_and_when(echo: tuple[Memory, Echo]) -> None:
    memory, extractor = echo
    memory.add(
        [
            {"role": "user", "name": "Ana", "content": "I flew to Oslo yesterday."},
            {"role": "assistant", "content": "How was it?"},
        ],
        user_id="u",
        observed_at="2025-05-12T09:00:00+02:00",
    )
    first, second = extractor.requests[0].messages
    assert (first.number, first.role, first.speaker) == (1, "user", "Ana")
    assert (second.number, second.role, second.speaker) == (2, "assistant", "Assistant")
    assert first.observed_at == datetime(2025, 5, 12, 9, tzinfo=timezone(timedelta(hours=2)))
    assert [(each.expression, each.start) for each in first.dates] == [("yesterday", "2025-05-11")]


def test_kind_and_instructions_reach_the_extractor_also_later(echo: tuple[Memory, Echo]) -> None:
    memory, extractor = echo
    memory.add("First shake, then pour.", user_id="u", kind="procedural", instructions="Only steps.", extract="later")
    memory.work()
    assert (extractor.requests[0].kind, extractor.requests[0].instructions) == ("procedural", "Only steps.")
    assert memory.get_all(user_id="u")[0].kind == "procedural"


# What becomes of it.


@pytest.mark.parametrize(
    ("extract", "status", "facts"),
    [("now", "done", 1), ("later", "queued", 0), ("never", "stored", 0)],
)
def test_the_status_says_what_happened(echo: tuple[Memory, Echo], extract: Any, status: str, facts: int) -> None:
    memory, _ = echo
    result = memory.add("Ana likes tea.", user_id="u", extract=extract)
    assert (result.status, len(result.facts)) == (status, facts)
    assert (result.reason is None) == (status != "queued")
    assert "store" in result.timings


def test_what_is_stored_only_is_never_extracted(echo: tuple[Memory, Echo]) -> None:
    memory, extractor = echo
    memory.add("Ana likes tea.", user_id="u", extract="never")
    assert memory.work().batches == 0
    assert extractor.requests == []


def test_without_an_extractor_messages_are_queued_and_the_command_is_named(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMLITE_MODELS", str(tmp_path / "none"))
    with Memory(path, embedder=False) as memory:
        result = memory.add("Ana likes tea.", user_id="u")
        assert result.status == "queued"
        assert "memlite models pull default" in str(result.reason)
        assert memory.search("tea", user_id="u")[0].kind == "message"


def test_a_failing_extractor_leaves_the_batch_queued_with_the_reason(path: Path) -> None:
    with Memory(path, embedder=False, extractor=Failing(ExtractionError("truncated JSON"))) as memory:
        result = memory.add("Ana likes tea.", user_id="u")
        assert (result.status, result.facts) == ("queued", ())
        assert "truncated JSON" in str(result.reason)
        assert memory.search("tea", user_id="u")[0].text == "Ana likes tea."
        (queued,) = memory.stats().queued
        assert (queued.batch, queued.attempts, queued.error) == (result.batch, 1, "truncated JSON")


def test_a_batch_that_failed_is_extracted_by_the_next_work(path: Path) -> None:
    extractor = Failing(ExtractionError("truncated JSON"))
    with Memory(path, embedder=False, extractor=extractor) as memory:
        memory.add("Ana likes tea.", user_id="u")
        failed = memory.work()
        assert (failed.batches, failed.queued, len(failed.failures)) == (0, 1, 1)
        extractor.error = None
        done = memory.work()
        assert (done.batches, done.facts, done.queued) == (1, 1, 0)
        assert memory.stats().queued == ()


def test_an_unforeseen_error_keeps_the_batch_queued_and_the_claim_is_given_back(path: Path) -> None:
    extractor = Failing(RuntimeError("out of memory"))
    with Memory(path, embedder=False, extractor=extractor) as memory:
        added = memory.add("Ana likes tea.", user_id="u")
        assert (added.status, "out of memory" in (added.reason or "")) == ("queued", True)
        (queued,) = memory.stats().queued
        assert "out of memory" in queued.error
        extractor.error = None
        assert memory.work().facts == 1


def test_a_fact_carries_where_it_came_from(echo: tuple[Memory, Echo]) -> None:
    memory, _ = echo
    result = memory.add(
        [{"content": "Ana likes tea.", "name": "Ana"}, {"content": "Ben likes coffee.", "name": "Ben"}],
        user_id="u",
        metadata={"topic": "drinks"},
        observed_at="2025-05-12T09:00:00+02:00",
    )
    first, second = result.facts
    assert (first.by, second.by) == ("Ana", "Ben")
    assert (first.sources, second.sources) == ((result.messages[0],), (result.messages[1],))
    assert first.metadata == {"topic": "drinks"}
    assert (first.batch, first.model, first.prompt_version) == (result.batch, "echo", "1")
    assert first.observed_at.isoformat() == "2025-05-12T09:00:00+02:00"


@pytest.mark.parametrize(
    ("text", "names", "sources"),
    [
        ("Ann lost Ann's job.", ("Ann",), ["I lost my job."]),
        ("Clara lost Ann's job.", ("Ann", "Clara"), ["Hi Ann! How is Clara?", "I lost my job."]),
    ],
    ids=["the speaker", "somebody else"],
)
def test_an_earlier_message_that_names_somebody_is_a_source_where_the_cited_one_does_not(
    path: Path, text: str, names: tuple[str, ...], sources: list[str]
) -> None:
    fact = ExtractedFact(text, "Ann", (1,), entities=tuple(NamedEntity(name, "person") for name in names))
    with Memory(path, embedder=False, extractor=Constant(fact)) as memory:
        memory.add({"name": "Bob", "content": "Hi Ann! How is Clara?"}, user_id="u", extract="never")
        (learnt,) = memory.add({"name": "Ann", "content": "I lost my job."}, user_id="u").facts
        assert [memory.get(id_).content for id_ in learnt.sources] == sources


def test_a_fact_without_ground_in_the_messages_is_skipped_with_the_reason(path: Path) -> None:
    extractor = Constant(ExtractedFact("Ana flew from Reykjavik to Samarkand.", "Ana", (1,)))
    with Memory(path, embedder=False, extractor=extractor) as memory:
        result = memory.add("Ana likes tea.", user_id="u")
        assert result.status == "done"
        assert result.facts == ()
        (skipped,) = result.skipped
        assert skipped.text == "Ana flew from Reykjavik to Samarkand."
        assert "Samarkand" in skipped.reason
        assert memory.stats().facts == 0


def test_entities_the_extractor_names_can_be_listed(path: Path) -> None:
    fact = ExtractedFact("Ana works at Acme.", "Ana", (1,), entities=(NamedEntity("Acme", "organisation"),))
    with Memory(path, embedder=False, extractor=Constant(fact)) as memory:
        memory.add("Ana works at Acme.", user_id="u")
        assert [(e.name, e.type, e.facts) for e in memory.entities(user_id="u")] == [("Acme", "organisation", 1)]


def test_a_fact_the_extractor_replaces_is_past(path: Path) -> None:
    fact = ExtractedFact("Ana moved from Porto to Lisbon.", "Ana", (1,), replaces=(1,))
    with Memory(path, embedder=False, extractor=Constant(fact)) as memory:
        old = memory.remember("Ana lives in Porto.", user_id="u", run_id="r1", observed_at="2024-01-01").facts[0]
        memory.add("Ana moved from Porto to Lisbon.", user_id="u", run_id="r2", observed_at="2025-01-01")
        now = memory.get(old.id)
        assert isinstance(now, Fact)
        assert not now.current
        assert [event.action for event in memory.history(old.id)] == ["ADD", "SUPERSEDE"]


# Duplicates.


@pytest.mark.parametrize("again", ["Ana likes tea.", "ana likes  TEA", "Ana likes tea!"])
def test_the_same_fact_is_learnt_once_and_both_messages_are_its_sources(echo: tuple[Memory, Echo], again: str) -> None:
    memory, _ = echo
    first = memory.add("Ana likes tea.", user_id="u", observed_at="2025-01-01")
    second = memory.add(again, user_id="u", observed_at="2025-02-01")
    assert [(s.reason, s.existing) for s in second.skipped] == [("duplicate", first.facts[0].id)]
    (fact,) = memory.get_all(user_id="u")
    assert fact.sources == first.messages + second.messages
    assert fact.last_confirmed_at.date() >= date(2025, 1, 31)


class Once(Constant):
    """An extractor that writes its facts the first time only, as a model does that knows them by then."""

    def extract(self, request: ExtractionRequest) -> Extraction:
        return super().extract(request) if not self.requests else Extraction(())


@pytest.mark.parametrize(
    ("again", "name", "day", "sources"),
    [
        ("I like tea from Porto.", "Ana", "2025-03-01", 2),
        ("I like tea from Porto.", "Ben", "2025-03-01", 1),
        ("I like tea from Lisbon.", "Ana", "2025-03-01", 1),
    ],
    ids=["the same", "of another", "of something else"],
)
def test_a_message_that_is_said_again_is_a_source_of_its_fact_too(
    path: Path, again: str, name: str, day: str, sources: int
) -> None:
    extractor = Once(ExtractedFact("Ana likes tea from Porto.", "Ana", (1,)))
    with Memory(path, embedder=False, extractor=extractor) as memory:
        first = {"name": "Ana", "content": "I like tea from Porto."}
        memory.add(first, user_id="u", observed_at="2025-01-01")
        result = memory.add({"name": name, "content": again}, user_id="u", observed_at=day)
        (fact,) = memory.get_all(user_id="u")
        assert len(fact.sources) == sources
        assert [skipped.reason for skipped in result.skipped] == ["duplicate"] * (sources - 1)


def test_tomorrow_said_again_on_another_day_is_another_thing(path: Path) -> None:
    extractor = Once(ExtractedFact("The plane of Ana flies on 2025-01-02.", "Ana", (1,), "2025-01-02"))
    with Memory(path, embedder=False, extractor=extractor) as memory:
        for day in ("2025-01-01", "2025-02-01"):
            memory.add(
                {"name": "Ana", "content": "The plane of Ana flies tomorrow."},
                user_id="u",
                observed_at=f"{day}T12:00:00Z",
            )
        (fact,) = memory.get_all(user_id="u")
        assert len(fact.sources) == 1


def test_a_new_run_does_not_relearn_what_its_root_knows(echo: tuple[Memory, Echo]) -> None:
    memory, _ = echo
    first = memory.add("Ana likes tea.", user_id="u", run_id="r1")
    second = memory.add("Ana likes tea.", user_id="u", run_id="r2")
    assert [s.existing for s in second.skipped] == [first.facts[0].id]
    assert memory.stats().facts == 1


def test_an_expired_twin_does_not_block(echo: tuple[Memory, Echo]) -> None:
    memory, _ = echo
    old = memory.add("Ana likes tea.", user_id="u", expires_at="2001-01-01").facts[0]
    new = memory.add("Ana likes tea.", user_id="u").facts[0]
    assert old.id != new.id
    assert new.current
    assert [event.action for event in memory.history(old.id)] == ["ADD", "EXPIRE"]
    assert [fact.id for fact in memory.get_all(user_id="u")] == [new.id]


def test_an_expired_fact_of_another_run_does_not_block(echo: tuple[Memory, Echo]) -> None:
    memory, _ = echo
    memory.add("Ana likes tea.", user_id="u", run_id="r1", expires_at="2001-01-01")
    assert memory.add("Ana likes tea.", user_id="u", run_id="r2").facts


# When.


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        pytest.param("2025-05-11T19:30:00+02:00", "2025-05-11T19:30:00+02:00", id="iso-offset"),
        pytest.param("2025-05-11T19:30:00Z", "2025-05-11T19:30:00+00:00", id="iso-z"),
        pytest.param("2025-05-11T19:30:00-03:30", "2025-05-11T19:30:00-03:30", id="iso-half-hour"),
        pytest.param("2025-05-11T19:30", "2025-05-11T19:30:00+09:00", id="iso-naive"),
        pytest.param("2025-05-11", "2025-05-11T00:00:00+09:00", id="iso-day"),
        pytest.param(date(2025, 5, 11), "2025-05-11T00:00:00+09:00", id="date"),
        pytest.param(datetime(2025, 5, 11, 19, 30), "2025-05-11T19:30:00+09:00", id="naive-datetime"),
        pytest.param(
            datetime(2025, 5, 11, 19, 30, tzinfo=timezone.utc), "2025-05-11T19:30:00+00:00", id="aware-datetime"
        ),
        pytest.param(
            datetime(1905, 5, 11, 19, 30, 0, 123000, tzinfo=timezone.utc),
            "1905-05-11T19:30:00.123000+00:00",
            id="before-1970",
        ),
    ],
)
def test_the_time_and_its_offset_are_kept_as_given(path: Path, given: Any, kept: str) -> None:
    with Memory(path, embedder=False, extractor=Echo(), timezone="Asia/Tokyo") as memory:
        result = memory.add("Ana likes tea.", user_id="u", observed_at=given)
        message = memory.get(result.messages[0])
        assert message.observed_at.isoformat() == kept
        assert result.facts[0].observed_at.isoformat() == kept


def test_a_zone_nobody_knows_is_an_error(path: Path) -> None:
    with pytest.raises(InvalidInputError, match="Europe/Lisbon"):
        Memory(path, embedder=False, extractor=False, timezone="Mars/Olympus")


def test_a_message_may_say_its_own_time(memory: Memory) -> None:
    result = memory.add(
        [{"content": "One.", "observed_at": "2020-01-01T00:00:00Z"}, "Two."],
        user_id="u",
        observed_at="2025-01-01T00:00:00Z",
    )
    assert [message.observed_at.year for message in stored(memory, result.messages)] == [2020, 2025]


class Tiny:
    """An embedder that says the same of every text."""

    name = "tiny"
    dimension = 2

    def __init__(self, *numbers: float) -> None:
        self.numbers = numbers

    def embed(self, texts: Sequence[str]) -> list[Sequence[float]]:
        return [self.numbers for _ in texts]


@pytest.mark.parametrize("extract", ["now", "never"])
def test_another_embedder_does_not_lose_the_messages_and_is_reported(path: Path, extract: Any) -> None:
    with Memory(path, embedder=Tiny(1, 0), extractor=False) as memory:
        memory.add("Ana likes tea.", user_id="u")
    with Memory(path, embedder=Tiny(0, 1), extractor=False) as memory:
        result = memory.add("Ben likes coffee.", user_id="u", extract=extract)
        assert "memlite reembed" in f"{result.reason} {result.notes}"
    with Memory(path, embedder=False, extractor=False) as memory:
        assert memory.search("coffee", user_id="u")


def test_a_claim_to_replace_that_is_not_believed_is_told(path: Path) -> None:
    class Replaces(Echo):
        def extract(self, request: ExtractionRequest) -> Extraction:
            return Extraction(tuple(replace(f, replaces=(1,)) for f in super().extract(request).facts))

    with Memory(path, embedder=False, extractor=Replaces()) as memory:
        memory.add("Ana lives in Porto.", user_id="ana")
        added = memory.add("Ana works in Porto at Feedzai.", user_id="ana")
        memory.add("Ana was born in Porto.", user_id="ana", extract="later")
        worked = memory.work()
        assert "Ana lives in Porto." in [fact.text for fact in memory.get_all(user_id="ana")]
    (note,) = (note for note in added.notes if "stays current" in note)
    assert "'Ana lives in Porto.'" in note
    assert "works in Porto" in note
    assert any("stays current" in told for told in worked.notes)
