"""mem0's calls: its published examples in our words, its shapes, and every parameter in docs/mem0.md."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import re
import warnings
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from conftest import Echo

import memlite
from memlite import FileError, ForeignFileError, InvalidInputError, MemliteError, NotFoundError
from memlite.mem0 import AsyncMemory, Mem0Warning, Memory, MemoryConfig, MemoryNotFoundError

DOCS = (Path(__file__).parent.parent / "docs" / "mem0.md").read_text(encoding="utf-8")
NONE = object()  # a default that is mem0's own sign for "not given"
REQUIRED = inspect.Parameter.empty

# The parameters of mem0ai 2.2.1's Memory with their defaults; AsyncMemory's `add` has `llm` as well.
MEM0: dict[str, dict[str, Any]] = {
    "Memory": {"config": NONE},
    "from_config": {"config_dict": REQUIRED},
    "add": {
        "messages": REQUIRED,
        "user_id": None,
        "agent_id": None,
        "run_id": None,
        "metadata": None,
        "timestamp": None,
        "expiration_date": None,
        "infer": True,
        "memory_type": None,
        "prompt": None,
        "llm": None,
    },
    "get": {"memory_id": REQUIRED},
    "get_all": {"filters": None, "top_k": 20, "show_expired": False, "kwargs": REQUIRED},
    "search": {
        "query": REQUIRED,
        "top_k": 20,
        "filters": None,
        "threshold": 0.1,
        "rerank": False,
        "explain": False,
        "reference_date": None,
        "show_expired": False,
        "kwargs": REQUIRED,
    },
    "update": {"memory_id": REQUIRED, "text": None, "metadata": None, "expiration_date": NONE, "data": None},
    "delete": {"memory_id": REQUIRED},
    "delete_all": {"user_id": None, "agent_id": None, "run_id": None},
    "history": {"memory_id": REQUIRED},
    "reset": {},
    "close": {},
    "chat": {"query": REQUIRED},
    "project.update": {"custom_instructions": None, "custom_categories": None, "multilingual": None, "decay": None},
}
CONFIG = ("vector_store", "llm", "embedder", "history_db_path", "reranker", "version", "custom_instructions")
OLD = ("graph_store", "custom_fact_extraction_prompt", "custom_update_memory_prompt")  # of mem0 0.x and 1.x

# What mem0 returns for a memory of a user, and what it adds where there is something.
KEYS = {"id", "memory", "hash", "metadata", "created_at", "updated_at", "user_id"}
DETAILS = {
    *("semantic_score", "bm25_score", "entity_boost", "raw_score", "max_possible_score", "final_score", "threshold"),
}
ROW = {
    *("id", "memory_id", "old_memory", "new_memory", "event", "created_at", "updated_at", "is_deleted"),
    *("actor_id", "role"),
}


def settings(path: Path, **parts: Any) -> dict[str, Any]:
    """A configuration on a file, without an embedder and with an extractor whose facts are the messages."""
    own: dict[str, Any] = {
        "vector_store": {"provider": "memlite", "config": {"path": path}},
        "llm": {"provider": "memlite", "config": {"model": Echo()}},
        "embedder": {"provider": "memlite", "config": {"model": False}},
    }
    return {name: part for name, part in (own | parts).items() if part is not None}


@pytest.fixture
def m(path: Path) -> Iterator[Memory]:
    with Memory.from_config(settings(path)) as opened:
        yield opened


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Iterator[Memory]:
    """With the default models, as after `memlite models pull default`."""
    folder = tmp_path_factory.mktemp("real")
    with Memory.from_config({"vector_store": {"provider": "memlite", "config": {"path": folder / "m.db"}}}) as opened:
        yield opened


def texts(answer: dict[str, Any]) -> list[str]:
    return [each["memory"] for each in answer["results"]]


def raw(memory: Memory, *said: str, **about: Any) -> list[str]:
    """Store each text as a memory of ana; return the ids."""
    answers = [memory.add(text, user_id="ana", infer=False, **about) for text in said]
    return [answer["results"][0]["id"] for answer in answers]


ANA = {"user_id": "ana"}


# -- mem0's examples, with the real models --------------------------------------------------------------


def test_the_quickstart_learns_from_a_conversation_and_finds_it(real: Memory) -> None:
    told = [
        {"role": "user", "content": "Hello, my name is Alex. I love basketball and gaming."},
        {"role": "assistant", "content": "Nice to meet you, Alex. I will keep that in mind."},
    ]
    added = real.add(told, user_id="alex")
    assert added["results"]
    assert all(set(each) == {"id", "memory", "event"} and each["event"] == "ADD" for each in added["results"])
    results = real.search("What do you know about me?", filters={"user_id": "alex"})["results"]
    assert any("basketball" in each["memory"] for each in results)
    assert all(0 <= each["score"] <= 1 and each["user_id"] == "alex" for each in results)


def test_the_film_example_goes_through_every_call(real: Memory) -> None:
    told = [
        {"role": "user", "content": "I want to see a film tonight. What do you suggest?"},
        {"role": "assistant", "content": "A thriller, perhaps?"},
        {"role": "user", "content": "I don't like thrillers, but I love sci-fi films."},
        {"role": "assistant", "content": "Understood."},
    ]
    real.add(told, user_id="alice", metadata={"category": "films"})
    everything = real.get_all(filters={"user_id": "alice"})["results"]
    assert any("sci-fi" in each["memory"] for each in everything)
    assert {each["metadata"]["category"] for each in everything} == {"films"}
    found = real.search("Which films do I love?", filters={"user_id": "alice", "category": "films"}, top_k=3)["results"]
    assert "sci-fi" in found[0]["memory"]
    one = found[0]["id"]
    assert real.get(one)["memory"] == found[0]["memory"]  # type: ignore[index]
    assert real.update(memory_id=one, text="Alice loves India, her favourite country.") == {
        "message": "Memory updated successfully!"
    }
    assert [row["event"] for row in real.history(memory_id=one)] == ["ADD", "UPDATE"]
    assert real.delete(memory_id=one) == {"message": "Memory deleted successfully!"}
    assert real.get(one) is None
    assert real.delete_all(user_id="alice") == {"message": "Memories deleted successfully!"}
    assert real.get_all(filters={"user_id": "alice"}) == {"results": []}


def test_the_support_agent_keeps_what_a_customer_says(real: Memory) -> None:
    real.add("I need help with my order 12345. It has not arrived yet.", user_id="jane", metadata={"app": "support"})
    assert any("12345" in text for text in texts(real.get_all(filters={"user_id": "jane"})))


def test_instructions_that_the_model_is_too_small_for_are_told_of(real: Memory) -> None:
    with pytest.warns(Mem0Warning, match="too small to heed instructions"):
        real.add("My order 77 is late.", user_id="joe", prompt="Only order numbers.")


def test_the_time_something_was_said_dates_what_it_tells(real: Memory) -> None:
    said = datetime(2025, 3, 11, 12, tzinfo=timezone.utc)
    (added,) = real.add("Yesterday I finished the review of Q1.", user_id="jo", timestamp=said.timestamp())["results"]
    assert "2025-03-10" in added["memory"]
    assert real.get(added["id"])["created_at"] == said.isoformat()  # type: ignore[index]


def test_a_question_about_last_week_is_counted_from_the_reference_date(real: Memory) -> None:
    for text in (
        "I finished the review of Q1 on March 10, 2025.",
        "I have a dentist appointment on April 18, 2025 at 2 PM.",
        "I am the product lead at Acme.",
    ):
        real.add(text, user_id="jordan", infer=False)
    asked = {"filters": {"user_id": "jordan"}, "threshold": 0}
    then = real.search("What did I do last week?", reference_date="2025-03-21T00:00:00Z", **asked)  # type: ignore[arg-type]
    assert "review" in texts(then)[0]
    with_seconds = real.search("What did I do last week?", reference_date=1742515200, **asked)  # type: ignore[arg-type]
    assert texts(with_seconds) == texts(then)


# -- shapes ----------------------------------------------------------------------------------------------


def test_a_memory_has_the_keys_of_mem0(m: Memory) -> None:
    (one,) = raw(m, "Ana likes tea.", metadata={"topic": "drinks"})
    got = m.get(one)
    assert got is not None
    assert set(got) == KEYS | {"score", "role"}
    assert (got["score"], got["role"], got["metadata"]) == (None, "user", {"topic": "drinks"})
    assert got["hash"] == hashlib.md5(b"Ana likes tea.").hexdigest()
    assert datetime.fromisoformat(got["created_at"]).utcoffset() == timedelta(0)
    assert m.get_all(filters=ANA) == {"results": [{key: got[key] for key in got if key != "score"}]}
    (found,) = m.search("tea", filters=ANA)["results"]
    assert {key: found[key] for key in found if key != "score"} == m.get_all(filters=ANA)["results"][0]


def test_a_memory_without_metadata_has_none(m: Memory) -> None:
    assert m.get(raw(m, "Ana likes tea.")[0])["metadata"] is None  # type: ignore[index]


def test_a_learnt_memory_tells_who_said_it(m: Memory) -> None:
    m.add([{"role": "assistant", "content": "I recommend the soup."}], user_id="ana", agent_id="bot", run_id="r1")
    (one,) = m.get_all(filters=ANA)["results"]
    assert (one["attributed_to"], one["agent_id"], one["run_id"]) == ("assistant", "bot", "r1")
    assert "role" not in one


def test_explain_has_the_details_of_mem0(m: Memory) -> None:
    raw(m, "Ana likes tea.")
    (found,) = m.search("tea", filters=ANA, explain=True)["results"]
    assert set(found["score_details"]) >= DETAILS
    assert found["score_details"]["final_score"] == found["score"]
    assert found["score_details"]["words"] == ["tea"]


def test_the_history_has_the_rows_of_mem0(m: Memory) -> None:
    (one,) = raw(m, "Ana likes tea.")
    m.update(one, "Ana likes coffee.")
    rows = m.history(one)
    assert all(set(row) == ROW and row["memory_id"] == one and row["role"] == "user" for row in rows)
    assert [(row["event"], row["old_memory"], row["new_memory"]) for row in rows] == [
        ("ADD", None, "Ana likes tea."),
        ("UPDATE", "Ana likes tea.", "Ana likes coffee."),
    ]
    m.delete(one)
    last = m.history(one)[-1]
    assert (last["event"], last["is_deleted"], last["old_memory"], last["new_memory"]) == ("DELETE", True, None, None)
    assert m.history("00000000-0000-4000-8000-000000000000") == m.history("no id") == []


def test_an_id_may_have_hyphens_but_no_beginning_of_one_is_enough(m: Memory) -> None:
    (one,) = raw(m, "Ana likes tea.")
    hyphens = "-".join((one[:8], one[8:12], one[12:16], one[16:20], one[20:]))
    assert m.get(hyphens) == m.get(one)
    assert m.get(one[:8]) is None
    for call in (m.delete, lambda id_: m.update(id_, "Ana likes coffee.")):
        with pytest.raises(MemoryNotFoundError):
            call(one[:8])
        with pytest.raises(ValueError, match="no memory has the id"):
            call("nothing")
    assert issubclass(MemoryNotFoundError, NotFoundError)


# -- add -------------------------------------------------------------------------------------------------


def test_raw_messages_are_memories_with_their_role_and_speaker(m: Memory) -> None:
    said = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "I like tea.", "name": "Ana"},
        {"role": "assistant", "content": "Noted."},
    ]
    results = m.add(said, user_id="ana", infer=False)["results"]
    assert [(each["memory"], each["event"], each["actor_id"], each["role"]) for each in results] == [
        ("I like tea.", "ADD", "Ana", "user"),
        ("Noted.", "ADD", None, "assistant"),
    ]
    assert texts(m.get_all(filters={"user_id": "ana", "actor_id": "Ana"})) == ["I like tea."]
    assert texts(m.search("noted", filters={"user_id": "ana", "role": "assistant"})) == ["Noted."]
    assert m.add(said[:1], user_id="ana", infer=False) == {"results": []}


def test_a_raw_message_has_the_time_that_it_was_said(m: Memory) -> None:
    said = [{"role": "user", "content": "I like tea.", "observed_at": "2024-05-01T10:00:00+02:00"}, "I like cake."]
    m.add(said, user_id="ana", infer=False, timestamp="2025-01-01T00:00:00Z")
    times = {each["memory"]: each["created_at"] for each in m.get_all(filters=ANA)["results"]}
    assert times == {"I like tea.": "2024-05-01T08:00:00+00:00", "I like cake.": "2025-01-01T00:00:00+00:00"}


def test_a_raw_message_that_is_known_is_named_and_not_stored_again(m: Memory) -> None:
    (one,) = raw(m, "Ana likes tea.")
    again = m.add(["Ana likes tea.", "Ana likes cake.", "Ana likes cake."], user_id="ana", infer=False)["results"]
    assert [each["event"] for each in again] == ["NONE", "ADD", "NONE"]
    assert again[0]["id"] == one
    assert again[1]["id"] == again[2]["id"]
    assert len(m.get_all(filters=ANA)["results"]) == 2


def test_messages_without_an_extractor_are_kept_and_the_caller_is_told(path: Path) -> None:
    with Memory(settings(path, llm={"provider": "memlite", "config": {"model": False}})) as m:
        with pytest.warns(Mem0Warning, match="wait to be learnt from"):
            added = m.add("Ana likes tea.", user_id="ana")
        assert (added["results"], added["status"]) == ([], "queued")
        assert "memlite work" in added["reason"]
        assert [hit.text for hit in m.memlite.search("tea", user_id="ana")] == ["Ana likes tea."]


def test_a_procedural_memory_is_what_was_said_in_its_order(m: Memory) -> None:
    steps = [
        {"role": "user", "content": "How is cold brew made?"},
        {"role": "assistant", "content": "1. Grind the beans\n2. Steep them for 12 hours"},
    ]
    (one,) = m.add(steps, user_id="ana", agent_id="barista", memory_type="procedural_memory")["results"]
    assert one["memory"] == "user: How is cold brew made?\nassistant: 1. Grind the beans\n2. Steep them for 12 hours"
    assert m.get(one["id"])["metadata"] == {"memory_type": "procedural_memory"}  # type: ignore[index]
    assert texts(m.search("steep beans", filters={"agent_id": "barista"})) == [one["memory"]]
    with pytest.warns(Mem0Warning, match="prompt"):
        (again,) = m.add(steps, user_id="ana", agent_id="barista", memory_type="procedural_memory", prompt="Short.")[
            "results"
        ]
    assert (again["id"], again["event"]) == (one["id"], "NONE")


def test_custom_instructions_reach_the_extractor_and_a_prompt_takes_their_place(path: Path) -> None:
    asked: list[str] = []

    class Asked(Echo):
        def extract(self, request: Any) -> Any:
            asked.append(request.instructions)
            return super().extract(request)

    llm = {"provider": "memlite", "config": {"model": Asked()}}
    with Memory(settings(path, llm=llm, custom_instructions="Only food.")) as m:
        m.add("Ana likes tea.", user_id="ana")
        m.add("Ana likes cake.", user_id="ana", prompt="Only sweets.")
        m.project.update(custom_instructions="Only drinks.")
        m.add("Ana likes milk.", user_id="ana")
    assert asked == ["Only food.", "Only sweets.", "Only drinks."]


def test_an_image_leaves_a_mark(m: Memory) -> None:
    image = {"role": "user", "content": {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}}
    assert texts(m.add([image], user_id="ana", infer=False)) == ["[image]"]
    several = {"role": "user", "content": [{"type": "text", "text": "My dog:"}, image["content"]]}
    assert texts(m.add(several, user_id="ana", infer=False)) == ["My dog:\n[image]"]


def test_a_memory_counts_until_the_end_of_its_last_day(m: Memory) -> None:
    today = datetime.now(timezone.utc).date()
    raw(m, "Ana is in Oslo.", expiration_date=today)
    (gone,) = raw(m, "Ana is in Rome.", expiration_date=str(today - timedelta(1)))
    (dated,) = raw(m, "Ana is in Bonn.", metadata={"expiration_date": "2020-01-01"})
    assert texts(m.get_all(filters=ANA)) == texts(m.search("Where is Ana?", filters=ANA)) == ["Ana is in Oslo."]
    assert m.get(gone)["expiration_date"] == str(today - timedelta(1))  # type: ignore[index]
    assert len(m.get_all(filters=ANA, show_expired=True)["results"]) == 3
    assert len(m.search("Where is Ana?", filters=ANA, show_expired=True)["results"]) == 3
    m.update(gone, expiration_date=None)
    m.update(dated, expiration_date=datetime(9999, 12, 31))
    assert len(m.get_all(filters=ANA)["results"]) == 3
    assert "expiration_date" not in m.get(gone)  # type: ignore[operator]


def test_what_was_replaced_is_no_expired_memory(m: Memory) -> None:
    (old,) = raw(m, "Ana lives in Oslo.")
    m.memlite.remember({"text": "Ana lives in Rome.", "replaces": old}, user_id="ana")
    assert texts(m.get_all(filters=ANA, show_expired=True)) == ["Ana lives in Rome."]
    assert texts(m.search("Ana lives", filters=ANA, show_expired=True)) == ["Ana lives in Rome."]
    assert "Ana lives in Oslo." in texts(m.search("Where did Ana live before?", filters=ANA))
    assert m.history(old)[-1]["event"] == "SUPERSEDE"


def test_metadata_cannot_say_whose_memory_it_is(m: Memory) -> None:
    with pytest.warns(Mem0Warning, match="user_id, actor_id"):
        (one,) = raw(m, "Ana likes tea.", metadata={"user_id": "ben", "actor_id": "Ben", "city": "Porto"})
    assert m.get(one)["metadata"] == {"city": "Porto"}  # type: ignore[index]
    with pytest.warns(Mem0Warning, match="run_id"):
        m.update(one, metadata={"run_id": "r9", "user_id": "ana"})
    assert m.get(one)["metadata"] == {"city": "Porto"}  # type: ignore[index]


def test_an_update_keeps_what_it_does_not_name(m: Memory) -> None:
    (one,) = raw(m, "Ana likes tea.", metadata={"city": "Porto", "age": 40}, expiration_date="2999-01-01")
    m.update(one, metadata={"age": 41})
    got = m.get(one)
    assert got is not None
    assert (got["memory"], got["metadata"]) == ("Ana likes tea.", {"city": "Porto", "age": 41})
    assert (got["expiration_date"], got["role"]) == ("2999-01-01", "user")
    with pytest.warns(DeprecationWarning, match="text="):
        m.update(one, data="Ana likes coffee.")
    assert m.get(one)["metadata"] == {"city": "Porto", "age": 41}  # type: ignore[index]


def test_what_cannot_be_added_or_changed_is_refused_and_nothing_is_stored(m: Memory) -> None:
    (one,) = raw(m, "Ana likes tea.")
    bad: list[dict[str, Any]] = [
        {"messages": "x"},
        {"messages": "x", "user_id": " "},
        {"messages": 5, "user_id": "ana"},
        {"messages": [], "user_id": "ana"},
        {"messages": " ", "user_id": "ana"},
        {"messages": "x", "user_id": "ana", "memory_type": "semantic_memory"},
        {"messages": "x", "user_id": "ana", "expiration_date": "soon"},
        {"messages": "x", "user_id": "ana", "expiration_date": 7},
        {"messages": "x", "user_id": "ana", "timestamp": 1742515200000},
        {"messages": "x", "user_id": "ana", "timestamp": True},
        {"messages": "x", "user_id": "ana", "timestamp": "then"},
        {"messages": "x", "user_id": "ana", "metadata": ["a"]},
        {"messages": "x", "user_id": "ana", "metadata": {"when": date(2025, 1, 1)}},
        {"messages": "x", "user_id": "ana", "llm": object()},
    ]
    for given in bad:
        for infer in (True, False):
            with pytest.raises(InvalidInputError):
                m.add(**given, infer=infer)
    for change in ({}, {"text": ""}, {"metadata": 5}, {"expiration_date": "soon"}):
        with pytest.raises(ValueError, match="expected"):
            m.update(one, **change)
    with pytest.raises(InvalidInputError):
        m.delete_all()
    assert len(m.get_all(filters=ANA)["results"]) == m.memlite.stats().facts == 1
    assert m.memlite.stats().messages == 0


# -- search, get_all -------------------------------------------------------------------------------------


def test_scores_fall_and_the_threshold_is_for_them(m: Memory) -> None:
    raw(m, "Ana likes green tea.", "Ana likes tea.", "Ben plays the tuba.")
    found = m.search("green tea", filters=ANA, threshold=0)["results"]
    scores = [each["score"] for each in found]
    assert scores == sorted(scores, reverse=True)
    assert found[0]["memory"] == "Ana likes green tea."
    above = m.search("green tea", filters=ANA, threshold=scores[0])["results"]
    assert texts({"results": above}) == ["Ana likes green tea."]
    assert m.search("green tea", filters=ANA, top_k=0) == {"results": []}
    assert len(m.search("green tea", filters=ANA, top_k=1)["results"]) == 1


def test_a_memory_that_only_has_the_right_word_is_above_the_usual_threshold(real: Memory) -> None:
    for text in ("The ticket is ERR-7731.", "Eva likes long walks on the beach.", "Eva plays the tuba."):
        real.add(text, user_id="eva", infer=False)
    assert texts(real.search("ERR-7731", filters={"user_id": "eva"}))[0] == "The ticket is ERR-7731."


def test_get_all_returns_more_than_a_page(m: Memory) -> None:
    m.memlite.remember([f"Ana has {number} pears." for number in range(1100)], user_id="ana")
    assert len(m.get_all(filters=ANA)["results"]) == 20
    assert len({each["id"] for each in m.get_all(filters=ANA, top_k=5000)["results"]}) == 1100
    assert m.get_all(filters=ANA, top_k=0) == {"results": []}


FILTERS: list[tuple[Any, set[int]]] = [
    ({"city": "Porto"}, {1, 2}),
    ({"city": {"eq": "Porto"}, "n": {"gt": 1}}, {2}),
    ({"city": {"ne": "Porto"}}, {3, 4}),
    ({"n": {"gte": 2, "lte": 3}}, {2, 3}),
    ({"n": {"lt": 2}}, {1}),
    ({"city": {"in": ["Porto", "Oslo"]}}, {1, 2, 3}),
    ({"city": ["Porto", "Oslo"]}, {1, 2, 3}),
    ({"city": {"nin": ["Porto", "Oslo"]}}, {4}),
    ({"city": {"contains": "ort"}}, {1, 2}),
    ({"city": {"icontains": "OSL"}}, {3}),
    ({"city": "*"}, {1, 2, 3}),
    ({"AND": [{"city": "Porto"}, {"n": {"ne": 1}}, {"n": {"ne": 7}}]}, {2}),
    ({"OR": [{"city": "Oslo"}, {"n": 1}]}, {1, 3}),
    ({"AND": [{"OR": [{"n": 1}, {"n": 2}]}, {"OR": [{"n": 2}, {"n": 3}]}]}, {2}),
    ({"NOT": [{"city": "Porto"}, {"n": 3}]}, {4}),
    ({"AND": [{"OR": [{"city": "Oslo"}, {"n": 2}]}, {"NOT": [{"n": 3}]}]}, {2}),
    ({"role": "user", "n": 4}, {4}),
]


@pytest.mark.parametrize(("conditions", "expected"), FILTERS)
def test_a_filter_means_what_it_says(m: Memory, conditions: Any, expected: set[int]) -> None:
    for n, city in ((1, "Porto"), (2, "Porto"), (3, "Oslo"), (4, None)):
        raw(m, f"Number {n}.", metadata={"n": n} | ({"city": city} if city else {}))
    for filters in ({**ANA, **conditions}, {"AND": [ANA, conditions]}):
        listed = m.get_all(filters=filters)["results"]
        assert {each["metadata"]["n"] for each in listed} == expected
        found = m.search("number", filters=filters, threshold=0)["results"]
        assert {each["metadata"]["n"] for each in found} == expected


def test_any_agent_is_a_star_where_the_user_is_named(m: Memory) -> None:
    m.add("I like tea.", user_id="ana", agent_id="bot", infer=False)
    m.add("I like tea.", user_id="ben", agent_id="bot", infer=False)
    assert len(m.get_all(filters={"user_id": "ana", "agent_id": "*"})["results"]) == 1
    assert len(m.get_all(filters={"user_id": "*", "agent_id": "bot"})["results"]) == 2


def test_numbers_are_ids(m: Memory) -> None:
    m.add("I like tea.", user_id=7, infer=False)  # type: ignore[arg-type]
    assert len(m.get_all(filters={"user_id": 7})["results"]) == len(m.get_all(filters={"user_id": "7"})["results"]) == 1


DEEP: dict[str, Any] = {"city": "Porto"}
for _ in range(5000):
    DEEP = {"AND": [DEEP]}


@pytest.mark.parametrize(
    "filters",
    [
        None,
        {},
        [],
        "ana",
        {"city": "Porto"},
        {"user_id": "*"},
        {"user_id": ""},
        {"user_id": None},
        {"user_id": {"in": ["ana", "ben"]}},
        {"user_id": "ana", "AND": [{"user_id": "ben"}]},
        {"OR": [{"user_id": "ana"}, {"user_id": "ben"}]},
        {"user_id": "ana", "NOT": [{"agent_id": "bot"}]},
        {"user_id": "ana", "AND": {"city": "Porto"}},
        {"user_id": "ana", "OR": []},
        {"user_id": "ana", "NOT": []},
        {"user_id": "ana", "AND": ["Porto"]},
        {"user_id": "ana", "city": {"like": "P%"}},
        {"user_id": "ana", "city": {}},
        {"user_id": "ana", "created_at": {"gte": "2025-01-01"}},
        {"user_id": "ana", **DEEP},
    ],
)
def test_a_filter_that_cannot_be_asked_is_refused(m: Memory, filters: Any) -> None:
    raw(m, "Ana likes tea.")
    for call in (lambda: m.get_all(filters=filters), lambda: m.search("tea", filters=filters)):
        with pytest.raises(ValueError, match=r"expected|no user_id|one scope|there are|does not|nested|is empty"):
            call()


@pytest.mark.parametrize(
    "given",
    [
        {"query": " "},
        {"query": 5},
        {"top_k": -1},
        {"top_k": True},
        {"top_k": None},
        {"top_k": 1001},
        {"threshold": 1.5},
        {"threshold": "low"},
        {"rerank": True},
        {"reference_date": "soon"},
        {"limit": 3},
        {"user_id": "ana"},
    ],
)
def test_a_search_that_cannot_be_asked_is_refused(m: Memory, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        m.search(**{"query": "tea", "filters": ANA} | given)


def test_a_swallowed_keyword_of_mem0_is_refused_by_name(m: Memory) -> None:
    with pytest.raises(InvalidInputError, match="limit is called top_k"):
        m.get_all(filters=ANA, limit=3)
    with pytest.raises(InvalidInputError, match="filters="):
        m.search("tea", user_id="ana")


def test_the_reranker_reads_more_than_it_returns(path: Path) -> None:
    class Shortest:
        name = "shortest"

        def scores(self, query: str, texts: Any) -> list[float]:
            return [1 / len(text) for text in texts]

    config = settings(path, reranker={"provider": "memlite", "config": {"model": Shortest()}})
    with Memory.from_config(config) as m:
        raw(m, "Tea, green tea, and more tea is what Ana likes.", "Ana likes tea at five.", "Some tea.")
        (plain,) = m.search("tea", filters=ANA, top_k=1)["results"]
        (first,) = m.search("tea", filters=ANA, top_k=1, rerank=True)["results"]
    assert "rerank_score" not in plain
    assert (first["memory"], first["rerank_score"]) == ("Some tea.", 1 / len("Some tea."))


def test_delete_all_and_reset_leave_nothing(m: Memory, path: Path) -> None:
    raw(m, "Ana's word is xylophone.")
    m.add("Ben's word is saxophone.", user_id="ben")
    m.delete_all(user_id="ben")
    assert len(m.get_all(filters=ANA)["results"]) == 1
    assert m.reset() is None  # type: ignore[func-returns-value]
    assert m.get_all(filters=ANA) == {"results": []}
    m.close()
    assert not re.search(rb"xylophone|saxophone", path.read_bytes())


# -- the configuration -----------------------------------------------------------------------------------


def path_of(config: Any) -> tuple[str, str]:
    """The file that a configuration means, and the warning that it gives; no model is loaded."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with Memory(config) as m:
            return str(m.memlite.path), " ".join(str(each.message) for each in told if each.category is Mem0Warning)


OFF = {
    "llm": {"provider": "memlite", "config": {"model": False}},
    "embedder": {"provider": "memlite", "config": {"model": False}},
}


def test_the_file_is_that_of_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert path_of(OFF) == (str(tmp_path / "memlite" / "memory.db"), "")
    monkeypatch.setenv("MEMLITE_DB", str(tmp_path / "mine.db"))
    assert path_of(MemoryConfig(**OFF)) == (str(tmp_path / "mine.db"), "")  # type: ignore[arg-type]


def test_each_store_and_collection_of_mem0_has_a_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))

    def of(provider: str = "qdrant", **config: Any) -> str:
        found, told = path_of({**OFF, "vector_store": {"provider": provider, "config": config}})
        assert provider in told
        assert found in told
        return str(Path(found).relative_to(tmp_path))

    assert of(path=str(tmp_path / "q"), on_disk=True) == "q/mem0.db"
    assert of("faiss", path=str(tmp_path / "q"), collection_name="work") == "q/work.db"
    assert of("chroma", path=str(tmp_path / "x.db")) == "x.db"
    assert of(host="localhost", port=6333) == "memlite/memory.db"
    assert of("pgvector", collection_name="work", password="hunter2") == "memlite/work.db"


def test_what_is_left_aside_is_named_and_no_secret_with_it(path: Path) -> None:
    config = {
        "vector_store": {"provider": "memlite", "config": {"path": path}},
        "llm": {"provider": "openai", "config": {"model": "gpt-5-mini", "api_key": "sk-secret", "temperature": 0.1}},
        "embedder": {"provider": "openai", "config": {"model": "text-embedding-3-small"}},
        "history_db_path": "/tmp/history.db",
        "version": "v1.0",
        "graph_store": {"provider": "neo4j", "config": {"password": "sk-secret"}},
        "custom_fact_extraction_prompt": "Extract.",
        "custom_update_memory_prompt": "Update.",
    }
    _, told = path_of(config)
    for name in ("llm openai", "api_key", "temperature", "embedder openai", "history_db_path", "version", *OLD):
        assert name in told
    assert "sk-secret" not in told


def test_a_refusal_shows_no_secret() -> None:
    with pytest.raises(InvalidInputError) as refused:
        Memory({"llm": {"provider": "openai", "confg": {"api_key": "sk-secret"}}})
    assert "sk-secret" not in str(refused.value)


def test_a_warning_names_the_line_that_called(path: Path) -> None:
    parts = settings(path, version="v2")
    with pytest.warns(Mem0Warning) as told, Memory.from_config(parts) as m:
        raw(m, "Ana likes tea.", metadata={"user_id": "ben"})
    assert {each.filename for each in told} == {__file__}


def test_a_model_of_mem0_is_run_here_where_it_can_be(path: Path, models: Path) -> None:
    (gguf,) = (models / "extractor").glob("*.gguf")
    local = {"provider": "ollama", "config": {"model": str(gguf)}}
    mini = {"provider": "huggingface", "config": {"model": "sentence-transformers/all-MiniLM-L6-v2"}}
    with Memory(settings(path, llm=local, embedder=mini)) as m:
        stats = m.memlite.stats()
    assert stats.extractor == gguf.name or gguf.stem in str(stats.extractor)
    assert "MiniLM" in str(stats.embedder)


@pytest.mark.parametrize(
    "config",
    [
        "config.yaml",
        {"colour": "blue"},
        {"vector_store": "qdrant"},
        {"vector_store": {"provider": "qdrant", "confg": {}}},
        {"vector_store": {"config": {"path": "x"}}},
        {"vector_store": {"provider": "", "config": {"path": "x"}}},
        {"vector_store": {"provider": "qdrant", "config": {"collection_name": ""}}},
        {"vector_store": {"provider": "memlite", "config": {"host": "localhost"}}},
        {"vector_store": {"provider": "qdrant", "config": {"path": 5}}},
        {"vector_store": {"provider": "qdrant", "config": {"collection_name": "../../x"}}},
        {"llm": {"provider": "memlite", "config": {"model": False, "temperature": 1}}},
        {"reranker": {"provider": "cohere", "config": {"model": "rerank-v3.5"}}},
        {"reranker": {"provider": "huggingface", "config": {}}},
        {"reranker": {"provider": "sentence_transformer", "config": {"model": "no/such-folder"}}},
        {"custom_instructions": 5},
    ],
)
def test_a_configuration_that_cannot_be_is_refused(config: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(MemliteError):
        Memory.from_config(config)
    assert not list(tmp_path.rglob("*.db"))


def test_a_file_of_mem0_is_not_touched(tmp_path: Path) -> None:
    foreign = tmp_path / "history.db"
    foreign.write_bytes(b"SQLite format 3\0" + b"\0" * 200)
    with pytest.raises((ForeignFileError, FileError)):
        Memory(settings(foreign))
    assert foreign.read_bytes() == b"SQLite format 3\0" + b"\0" * 200


# -- asyncio ---------------------------------------------------------------------------------------------


def test_every_call_is_awaited(path: Path) -> None:
    async def main() -> list[Any]:
        async with AsyncMemory.from_config(settings(path)) as m:
            (one,) = (await m.add("I travel to San Francisco.", user_id="ana"))["results"]
            await asyncio.gather(*(m.add(f"Item {n}.", user_id="ben", infer=False) for n in range(20)))
            found = await m.search("Where do I travel?", filters=ANA)
            await m.update(one["id"], "I travel to Seattle.")
            got = await m.get(one["id"])
            events = [row["event"] for row in await m.history(one["id"])]
            await m.project.update(custom_instructions="Only travel.")
            await m.delete(one["id"])
            left = [len((await m.get_all(filters={"user_id": who}))["results"]) for who in ("ana", "ben")]
            await m.delete_all(user_id="ben")
            await m.reset()
            assert isinstance(m.memlite, memlite.Memory)
            return [texts(found), got["memory"], events, left]

    assert asyncio.run(main()) == [["I travel to San Francisco."], "I travel to Seattle.", ["ADD", "UPDATE"], [0, 20]]


# -- every parameter -------------------------------------------------------------------------------------


def call(name: str, of: Any) -> Any:
    """What is called by a name of the table, of a class that nobody has opened."""
    if name == "Memory":
        return of
    if name == "project.update":
        unopened = object.__new__(of)
        unopened._memory = None  # of AsyncMemory
        return type(unopened.project).update
    return getattr(of, name)


@pytest.mark.parametrize("of", [Memory, AsyncMemory])
@pytest.mark.parametrize("name", MEM0)
def test_every_parameter_of_mem0_is_there_with_its_default(name: str, of: type) -> None:
    ours = {key: each for key, each in inspect.signature(call(name, of)).parameters.items() if key != "self"}
    assert list(ours) == list(MEM0[name])
    for key, default in MEM0[name].items():
        assert default is NONE or ours[key].default == default, key


def test_the_table_has_every_parameter_once_and_no_other() -> None:
    calls = re.findall(r"^\| `([\w.]+)` \| (?:`(\w+)`)? ?\| (same|better|refused) \|", DOCS, re.MULTILINE)
    told = [(name, parameter) for name, parameter, _ in calls]
    wanted = [(name, parameter) for name, given in MEM0.items() for parameter in given or [""]]
    assert sorted(told) == sorted(wanted)
    refused = {(name, parameter) for name, parameter, how in calls if how == "refused"}
    assert refused == {
        *(("add", "llm"), ("get_all", "kwargs"), ("search", "kwargs"), ("chat", "query")),
        *(("project.update", each) for each in ("custom_categories", "multilingual", "decay")),
    }
    keys = re.findall(r"^\| `(\w+)` \| (?:same|better|ignored) \|", DOCS, re.MULTILINE)
    assert sorted(keys) == sorted((*CONFIG, *OLD))


def test_what_the_table_says_is_refused_is_refused(m: Memory) -> None:
    for given in ({"custom_categories": [{"a": "b"}]}, {"multilingual": True}, {"decay": True}):
        with pytest.raises(InvalidInputError, match="platform"):
            m.project.update(**given)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError):
        m.chat("hello")
    with pytest.raises(InvalidInputError, match="llm"):
        m.add("x", user_id="ana", llm=object())


def test_mem0_has_no_parameter_that_is_not_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEM0_TELEMETRY", "False")
    monkeypatch.setenv("MEM0_DIR", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mem0 = pytest.importorskip("mem0", reason="mem0ai is not installed, and need not be")
    for name, given in MEM0.items():
        for of in (mem0.Memory, mem0.AsyncMemory):
            wanted = [each for each in given if each != "llm" or of is mem0.AsyncMemory]
            theirs = inspect.signature(call(name, of)).parameters
            assert [each for each in theirs if each != "self"] == wanted, name
            for key in wanted:
                assert given[key] in (NONE, theirs[key].default), (name, key)
    public = {
        name
        for name in dir(mem0.Memory)
        if not name.startswith("_") and name not in ("project", "entity_store")  # the second is its vector store
    }
    assert public == {name for name in MEM0 if "." not in name and name != "Memory"}
    assert set(mem0.configs.base.MemoryConfig.model_fields) == set(CONFIG)


def test_the_examples_of_the_documentation_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL))
    names: dict[str, Any] = {}
    exec(compile(code, "docs/mem0.md", "exec"), names)
    names["memory"].close()
    assert (tmp_path / "memory.db").exists()
