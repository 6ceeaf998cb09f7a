"""The store for LangGraph: the same answers as LangGraph's own store in memory, and what only a file can promise."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from langgraph.store.base import BaseStore, GetOp, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from memlite import InvalidInputError, Memory
from memlite.integrations.langgraph import MemliteStore

VALUES: dict[tuple[tuple[str, ...], str], dict[str, Any]] = {
    (("memories", "ana"), "work"): {"text": "Ana works at Feedzai in Porto.", "stars": 4.5, "tags": ["job"]},
    (("memories", "ana"), "pet"): {"text": "Ana has a cat called Mimi.", "stars": 5, "done": True},
    (("memories", "ben"), "work"): {"text": "Ben works as a baker.", "stars": 3, "done": None},
    (("memories", "ana", "old"), "work"): {"text": "Ana worked at OutSystems.", "nested": {"a": [1, {"b": 2.5}]}},
    (("settings", "Zoë / 100 %"), " theme "): {"colour": "dark"},
}


@pytest.fixture
def store(memory: Memory) -> MemliteStore:
    return filled(MemliteStore(memory))


def filled(store: Any) -> Any:
    for (namespace, key), value in VALUES.items():
        store.put(namespace, key, value)
    return store


def names(items: Any) -> list[tuple[tuple[str, ...], str]]:
    return sorted((item.namespace, item.key) for item in items)


def test_an_item_comes_back_as_it_was_put(store: MemliteStore) -> None:
    for (namespace, key), value in VALUES.items():
        item = store.get(namespace, key)
        assert item is not None
        assert (item.namespace, item.key, item.value) == (namespace, key, value)
        assert abs(item.created_at - datetime.now(timezone.utc)) < timedelta(minutes=1)
    assert store.get(("memories", "ana"), "nothing") is None
    assert store.get(("memories",), "work") is None


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"limit": 2},
        {"filter": {"stars": 5}},
        {"filter": {"stars": {"$gte": 4, "$lt": 5}}},
        {"filter": {"done": True}},
        {"filter": {"text": {"$ne": "Ben works as a baker."}}},
        {"filter": {"stars": 5, "done": False}},
        {"offset": 10},
    ],
    ids=str,
)
def test_a_search_without_a_query_returns_what_langgraphs_own_store_does(
    store: MemliteStore, asked: dict[str, Any]
) -> None:
    own = filled(InMemoryStore())
    for prefix in ((), ("memories",), ("memories", "ana"), ("memories", "an"), ("nothing",)):
        if any(isinstance(each, dict) and "$gte" in each for each in asked.get("filter", {}).values()) and not prefix:
            continue  # the other one compares what has no such member, and fails
        try:
            expected = own.search(prefix, **asked)
        except TypeError:
            continue
        found = store.search(prefix, **asked)
        assert len(found) == len(expected)
        if "limit" not in asked:
            assert names(found) == names(expected)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"prefix": ("memories",)},
        {"suffix": ("ana",)},
        {"prefix": ("memories", "*", "old")},
        {"max_depth": 1},
        {"prefix": ("memories",), "max_depth": 2, "limit": 1, "offset": 1},
        {"prefix": ("a", "b", "c", "d")},
    ],
    ids=str,
)
def test_namespaces_are_listed_as_by_langgraphs_own_store(store: MemliteStore, asked: dict[str, Any]) -> None:
    assert store.list_namespaces(**asked) == filled(InMemoryStore()).list_namespaces(**asked)


def test_a_query_finds_by_words_the_best_first_within_its_namespace(store: MemliteStore) -> None:
    found = store.search(("memories",), query="Who works as a baker?")
    assert found[0].key == "work"
    assert found[0].namespace == ("memories", "ben")
    assert found[0].score
    assert all(item.namespace[:2] == ("memories", "ana") for item in store.search(("memories", "ana"), query="works"))
    assert names(store.search((), query="works", filter={"stars": 3})) == [(("memories", "ben"), "work")]


def test_a_query_finds_by_meaning(path: Path) -> None:
    with Memory(path, extractor=False) as memory:
        store = filled(MemliteStore(memory))
        store.put(("memories", "ana"), "food", {"text": "Ana is allergic to walnuts."})
        assert store.search(("memories", "ana"), query="What must she not eat?", limit=1)[0].key == "food"


def test_items_with_the_same_text_are_all_found(memory: Memory) -> None:
    store = MemliteStore(memory)
    for user in ("ana", "ben", "eva"):
        store.put((user,), "a", {"text": "Likes green tea."})
        store.put((user,), "b", {"text": "Likes green tea."})
    assert len(store.search((), query="green tea")) == 6
    assert len(store.search((), query="green tea", limit=4, offset=3)) == 3
    assert names(store.search(("ben",), query="green tea")) == [(("ben",), "a"), (("ben",), "b")]


def test_only_the_fields_that_are_indexed_are_searched(memory: Memory) -> None:
    store = MemliteStore(memory, fields=["about"])
    store.put(("n",), "a", {"about": "A zebra.", "secret": "A lion."})
    store.put(("n",), "b", {"about": "A tiger.", "list": [{"x": "A bear."}]}, index=["list[*].x"])
    store.put(("n",), "c", {"about": "A wolf."}, index=False)
    searched = {word: names(store.search(("n",), query=word)) for word in ("zebra", "lion", "tiger", "bear", "wolf")}
    assert {word for word, found in searched.items() if found} == {"zebra", "bear"}
    assert len(store.search(("n",))) == 3


def test_an_item_put_again_is_changed_and_keeps_when_it_was_made(memory: Memory, store: MemliteStore) -> None:
    before = store.get(("memories", "ana"), "work")
    store.put(("memories", "ana"), "work", {"text": "Ana works at Sword Health."})
    after = store.get(("memories", "ana"), "work")
    assert before
    assert after
    assert after.value == {"text": "Ana works at Sword Health."}
    assert after.created_at == before.created_at
    assert after.updated_at > before.updated_at
    assert not store.search(("memories", "ana"), query="Feedzai")
    (fact,) = memory.get_all(agent_id="langgraph", user_id="memories/ana", run_id="work")
    assert [event.action for event in memory.history(fact.id)] == ["ADD", "UPDATE"]


def test_a_deleted_item_is_gone_from_the_file(memory: Memory, store: MemliteStore) -> None:
    store.put(("memories", "ana"), "pet", {"text": "Ana has a dog called Rufus."})
    store.delete(("memories", "ana"), "pet")
    store.delete(("memories", "ana"), "never there")
    assert store.get(("memories", "ana"), "pet") is None
    assert len(store.search(())) == len(VALUES) - 1
    path = memory.path
    memory.close()
    assert b"Mimi" not in path.read_bytes()
    assert b"Rufus" not in path.read_bytes()


def test_a_batch_answers_in_order_and_of_several_puts_the_last_counts(memory: Memory) -> None:
    store = MemliteStore(memory)
    puts = [PutOp(("n",), "a", {"text": text}) for text in ("First.", "Second.")]
    results = asyncio.run(store.abatch([*puts, GetOp(("n",), "a"), SearchOp(("n",))]))
    assert results == [None, None, None, []]
    assert asyncio.run(store.aget(("n",), "a")).value == {"text": "Second."}  # type: ignore[union-attr]


def test_an_item_lasts_as_long_as_it_is_told_and_reading_begins_it_anew(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemliteStore(memory, ttl={"default_ttl": 60, "refresh_on_read": True})
    store.put(("n",), "default", {"text": "Tea."})
    store.put(("n",), "forever", {"text": "Coffee."}, ttl=None)
    store.put(("n",), "short", {"text": "Milk."}, ttl=0.0005)
    time.sleep(0.05)
    assert names(store.search(("n",))) == [(("n",), "default"), (("n",), "forever")]
    assert store.get(("n",), "short") is None
    (fact,) = memory.get_all(agent_id="langgraph", run_id="default")
    memory.update(fact.id, expires_at=datetime.now(timezone.utc) + timedelta(minutes=1))
    store.get(("n",), "default", refresh_ttl=False)
    assert expiry(memory) < timedelta(minutes=2)
    store.get(("n",), "default")
    assert expiry(memory) > timedelta(minutes=59)
    events = len(memory.history(fact.id))
    store.search(("n",), query="tea")
    assert len(memory.history(fact.id)) == events  # it has hardly begun
    store.put(("n",), "short", {"text": "Milk."})
    assert store.get(("n",), "short")


def expiry(memory: Memory) -> timedelta:
    (fact,) = memory.get_all(agent_id="langgraph", run_id="default")
    assert fact.expires_at
    return fact.expires_at - datetime.now(timezone.utc)


def test_eight_threads_that_put_one_key_leave_one_item(path: Path) -> None:
    with Memory(path, embedder=False, extractor=False) as memory:
        store = MemliteStore(memory)
        threads = [Thread(target=store.put, args=(("n",), "a", {"text": f"Text {n}."})) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(store.search(("n",))) == 1
        assert len(memory.get_all(agent_id="langgraph")) == 1


def test_stores_of_one_file_do_not_see_one_another_nor_what_else_is_there(memory: Memory) -> None:
    one, other = MemliteStore(memory), MemliteStore(memory, agent_id="other")
    one.put(("n",), "a", {"text": "Tea."})
    memory.remember("Ana likes tea.", user_id="ana", agent_id="langgraph")
    assert other.get(("n",), "a") is None
    assert other.search(()) == []
    assert names(one.search((), query="tea")) == [(("n",), "a")]
    assert one.list_namespaces() == [("n",)]


def test_a_fact_that_was_archived_by_hand_does_not_stand_in_the_way(memory: Memory) -> None:
    store = MemliteStore(memory)
    store.put(("n",), "a", {"text": "Tea."})
    (fact,) = memory.get_all(agent_id="langgraph")
    memory.archive(fact.id)
    assert store.get(("n",), "a") is None
    memory.remember("Coffee.", user_id="n", agent_id="langgraph", run_id="b")
    for key, text in (("a", "Tea."), ("b", "Coffee.")):
        store.put(("n",), key, {"text": text})
        assert store.get(("n",), key).value == {"text": text}  # type: ignore[union-attr]
    assert len(store.search(("n",))) == 2


@pytest.mark.parametrize(
    "value",
    [{"x": object()}, {"x": 2**70}, {"x": float("nan")}, {1: "x"}],
    ids=["object", "large", "nan", "key"],
)
def test_what_json_cannot_write_is_refused_and_the_item_stays(store: MemliteStore, value: Any) -> None:
    with pytest.raises(InvalidInputError):
        store.put(("memories", "ana"), "work", value)
    assert store.get(("memories", "ana"), "work").value == VALUES[("memories", "ana"), "work"]  # type: ignore[union-attr]


@pytest.mark.parametrize("ttl", [1e12, float("nan"), "5"], ids=str)
def test_a_time_to_live_that_is_none_is_refused(store: MemliteStore, ttl: Any) -> None:
    with pytest.raises(InvalidInputError, match="ttl"):
        store.put(("memories", "ana"), "work", {"text": "New."}, ttl=ttl)
    assert store.get(("memories", "ana"), "work").value == VALUES[("memories", "ana"), "work"]  # type: ignore[union-attr]


def test_a_filter_that_cannot_be_compiled_is_an_error_and_not_another_answer(store: MemliteStore) -> None:
    for wanted in ({"nested": {"a": 1}}, {"stars": {"$near": 3}}, {"tags": ["job"]}):
        with pytest.raises(InvalidInputError):
            store.search((), filter=wanted)


def test_it_is_a_store_that_says_it_knows_time_to_live(store: MemliteStore) -> None:
    assert isinstance(store, BaseStore)
    assert store.supports_ttl
