"""archive(), restore(), undo(): what is hidden, what counts again, and what the history says of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlite import AddResult, ExtractionRequest, InvalidInputError, Memory, NotFoundError
from tests.conftest import Echo


@pytest.fixture
def meaning(path: Path) -> Iterator[Memory]:
    """A memory with the real embedder, that learns every message as it is."""
    with Memory(path, extractor=Echo()) as opened:
        yield opened


def remember(memory: Memory, text: str, day: int = 1, **about: Any) -> AddResult:
    return memory.remember({"text": text, **about}, user_id="u", observed_at=f"2026-01-{day:02}")


def current(memory: Memory) -> list[str]:
    return sorted(fact.text for fact in memory.get_all(user_id="u"))


def found(memory: Memory, query: str = "Ana", **about: Any) -> list[str]:
    return sorted(hit.text for hit in memory.search(query, user_id="u", limit=50, **about))


def actions(memory: Memory, id_: str) -> list[str]:
    return [event.action for event in memory.history(id_)]


# Archive and restore.


def test_an_archived_fact_is_nowhere_but_in_the_archive(memory: Memory) -> None:
    id_ = remember(memory, "Ana likes tea.").facts[0].id
    fact = memory.archive(id_, reason="outdated")
    assert fact.archived_at is not None
    assert not fact.current
    assert found(memory) == found(memory, past=True) == found(memory, as_of="2026-06-01") == current(memory) == []
    assert memory.entities(user_id="u") == []
    assert [f.id for f in memory.get_all(user_id="u", archived=True)] == [id_]
    assert memory.get(id_).text == "Ana likes tea."
    event = memory.history(id_)[-1]
    assert (event.action, event.reason, event.actor) == ("ARCHIVE", "outdated", "caller")


def test_an_archived_fact_does_not_come_back_through_its_message(learning: Memory) -> None:
    learning.archive(learning.add("Ana likes tea.", user_id="u").facts[0].id)
    assert found(learning) == []


def test_an_archived_fact_comes_back_as_it_was(memory: Memory) -> None:
    old = remember(memory, "Ana lives in Porto.").facts[0].id
    new = remember(memory, "Ana lives in Lisbon.", 2, replaces=old).facts[0].id
    for id_ in (old, new):
        memory.archive(id_)
        memory.archive(id_)  # the second time nothing happens
        before, after = memory.get(id_), memory.restore(id_)
        assert after.archived_at is None
        assert before.id == after.id
    assert actions(memory, new) == ["ADD", "ARCHIVE", "RESTORE"]
    assert found(memory) == current(memory) == ["Ana lives in Lisbon."]
    assert found(memory, past=True) == ["Ana lives in Lisbon.", "Ana lives in Porto."]


def test_what_comes_back_is_found_by_meaning_again(meaning: Memory) -> None:
    id_ = meaning.remember("The user is allergic to walnuts.", user_id="u").facts[0].id
    meaning.archive(id_)
    assert meaning.stats().without_vector == 0
    assert not found(meaning, "What food is dangerous?")
    meaning.restore(id_)
    assert found(meaning, "What food is dangerous?") == ["The user is allergic to walnuts."]
    assert meaning.stats().without_vector == 0


def test_a_replaced_fact_can_be_reopened(memory: Memory) -> None:
    old = remember(memory, "Ana lives in Porto.").facts[0].id
    remember(memory, "Ana lives in Lisbon.", 2, replaces=old)
    fact = memory.restore(old)
    assert fact.current
    assert fact.valid_to is None
    assert found(memory) == current(memory) == ["Ana lives in Lisbon.", "Ana lives in Porto."]


def test_an_expired_fact_is_reopened_without_its_expiry(memory: Memory) -> None:
    id_ = remember(memory, "The code is 7731.", expires_at="2026-02-01").facts[0].id
    assert current(memory) == []
    assert memory.restore(id_).expires_at is None
    assert found(memory, "code") == ["The code is 7731."]


def test_a_current_fact_is_restored_by_doing_nothing(memory: Memory) -> None:
    id_ = remember(memory, "Ana likes tea.").facts[0].id
    assert memory.restore(id_).current
    assert actions(memory, id_) == ["ADD"]


def test_a_fact_that_was_learnt_again_meanwhile_is_merged(learning: Memory) -> None:
    first = learning.add("Ana likes tea.", user_id="u")
    learning.archive(first.facts[0].id)
    second = learning.add("Ana likes tea.", user_id="u")
    fact = learning.restore(first.facts[0].id)
    assert fact.id == second.facts[0].id
    assert set(fact.sources) == {*first.messages, *second.messages}
    assert current(learning) == ["Ana likes tea."]
    assert learning.history(first.facts[0].id)[-1].after == {"merged_into": fact.id}
    assert "CONFIRM" in actions(learning, fact.id)


def test_an_archived_fact_can_be_deleted_for_good(memory: Memory) -> None:
    id_ = remember(memory, "Ana likes tea.").facts[0].id
    memory.archive(id_, reason="she said tea")
    memory.delete(id_)
    assert b"tea" not in memory.path.read_bytes()
    assert [event.reason for event in memory.history(id_)] == ["", "", ""]


@pytest.mark.parametrize("how", ["archive", "undo", "delete"])
def test_an_alias_goes_with_the_fact_that_brought_it(memory: Memory, how: str) -> None:
    def about(*aliases: str) -> dict[str, Any]:
        return {"entities": [{"name": "Robert Weber", "type": "person", "aliases": list(aliases)}]}

    remember(memory, "Robert Weber likes tea.", **about("Robbie"))
    second = remember(memory, "Robert Weber likes rum.", **about("Bobby", "Robbie"))
    id_ = second.facts[0].id
    memory.update(id_, text="Robert Weber likes gin.")
    assert memory.entities(user_id="u")[0].aliases == ("Bobby", "Robbie")
    undone = memory.undo(second.batch) if how == "undo" else None
    if how != "undo":
        getattr(memory, how)(id_)
    assert memory.entities(user_id="u")[0].aliases == ("Robbie",)
    assert not memory.search("Bobby", user_id="u")
    if how != "delete":
        memory.undo(undone.batch) if undone else memory.restore(id_)
        assert memory.entities(user_id="u")[0].aliases == ("Bobby", "Robbie")


# Undo.


def test_an_undo_takes_back_a_whole_add(learning: Memory) -> None:
    old = remember(learning, "Ana lives in Porto.").facts[0].id
    kept = learning.add("Ben likes tea.", user_id="u")
    added = learning.add(["Ana likes tea.", "Ana moved to Lisbon."], user_id="u")
    learning.remember({"text": "Ana lives in Lisbon.", "replaces": old}, user_id="u")
    assert "Ana lives in Porto." not in current(learning)
    undone = learning.undo(added.batch[:12])
    assert undone.undid == added.batch
    assert sorted(undone.archived) == sorted(fact.id for fact in added.facts)
    assert set(undone.messages_archived) == set(added.messages)
    assert found(learning, "Ana Ben tea") == ["Ana lives in Lisbon.", "Ben likes tea."]
    assert {event.batch for event in learning.history(added.facts[0].id)} == {added.batch, undone.batch}
    assert [hit.id for hit in learning.search("tea", user_id="u", include="messages")] == list(kept.messages)


def test_what_an_undone_batch_replaced_counts_again(memory: Memory) -> None:
    old = remember(memory, "Ana lives in Porto.").facts[0].id
    new = remember(memory, "Ana lives in Lisbon.", 2, replaces=old)
    undone = memory.undo(new.batch)
    assert undone.restored == (old,)
    assert found(memory) == current(memory) == ["Ana lives in Porto."]
    again = memory.undo(undone.batch)
    assert (again.archived, again.restored) == ((old,), (new.facts[0].id,))
    assert found(memory) == current(memory) == ["Ana lives in Lisbon."]
    memory.undo(again.batch)
    assert found(memory) == current(memory) == ["Ana lives in Porto."]


def test_a_batch_may_be_undone_again_after_its_undo_was_undone(memory: Memory) -> None:
    old = remember(memory, "Ana lives in Porto.").facts[0].id
    new = remember(memory, "Ana lives in Lisbon.", 2, replaces=old)
    for _ in range(3):
        undone = memory.undo(new.batch)
        assert found(memory) == current(memory) == ["Ana lives in Porto."]
        memory.undo(undone.batch)
        assert found(memory) == current(memory) == ["Ana lives in Lisbon."]


def test_what_was_replaced_since_stays_past(memory: Memory) -> None:
    first = remember(memory, "Ana lives in Porto.")
    second = remember(memory, "Ana lives in Lisbon.", 2, replaces=first.facts[0].id)
    remember(memory, "Ana lives in Faro.", 3, replaces=second.facts[0].id)
    assert memory.undo(second.batch).restored == ()
    assert current(memory) == ["Ana lives in Faro."]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_undos_in_either_order_bring_back_what_was_before_both(memory: Memory, order: tuple[int, int]) -> None:
    first = remember(memory, "Ana lives in Porto.")
    second = remember(memory, "Ana lives in Lisbon.", 2, replaces=first.facts[0].id)
    third = remember(memory, "Ana lives in Faro.", 3, replaces=second.facts[0].id)
    for at in order:
        memory.undo((second, third)[at].batch)
    assert current(memory) == ["Ana lives in Porto."]


def test_a_batch_is_undone_once(memory: Memory) -> None:
    batch = remember(memory, "Ana likes tea.").batch
    undone = memory.undo(batch)
    with pytest.raises(InvalidInputError, match=undone.batch):
        memory.undo(batch)
    with pytest.raises(NotFoundError):
        memory.undo("0123456789abcdef")
    with pytest.raises(NotFoundError):
        memory.scope(user_id="other").undo(batch)
    memory.undo(undone.batch)
    memory.undo(batch)
    assert current(memory) == []


def test_a_kind_called_undo_is_a_kind_like_others(memory: Memory) -> None:
    result = memory.remember("Ana likes tea.", user_id="u", kind="undo", metadata={"undoes": "x"})
    memory.undo(memory.undo(result.batch).batch)
    assert current(memory) == ["Ana likes tea."]


def test_an_undone_message_is_not_shown_to_the_extractor(path: Path) -> None:
    windows: list[list[str]] = []

    class Watching(Echo):
        def extract(self, request: ExtractionRequest) -> Any:
            windows.append([turn.text for turn in request.window])
            return super().extract(request)

    with Memory(path, embedder=False, extractor=Watching()) as memory:
        memory.undo(memory.add("Ana likes tea.", user_id="u").batch)
        memory.add("Ben likes tea.", user_id="u")
    assert windows == [[], []]


def test_an_undone_batch_that_waits_is_not_extracted(learning: Memory) -> None:
    batch = learning.add("Ana likes tea.", user_id="u", extract="later").batch
    undone = learning.undo(batch)
    assert learning.work().batches == 0
    assert found(learning) == []
    learning.undo(undone.batch)
    assert learning.work().facts == 1
    assert current(learning) == ["Ana likes tea."]


def test_an_undo_takes_back_a_confirmation(learning: Memory) -> None:
    first = learning.add("Ana likes tea.", user_id="u", observed_at="2026-01-01")
    second = learning.add("Ana likes tea.", user_id="u", observed_at="2026-02-01")
    assert learning.get_all(user_id="u")[0].last_confirmed_at.month == 2
    undone = learning.undo(second.batch)
    (fact,) = learning.get_all(user_id="u")
    assert (fact.last_confirmed_at.month, fact.sources) == (1, first.messages)
    learning.undo(undone.batch)
    (fact,) = learning.get_all(user_id="u")
    assert (fact.last_confirmed_at.month, len(fact.sources)) == (2, 2)


def test_what_was_deleted_stays_deleted(learning: Memory) -> None:
    added = learning.add(["Ana likes tea.", "Ben likes tea."], user_id="u")
    undone = learning.undo(added.batch)
    learning.delete(added.facts[0].id)
    learning.undo(undone.batch)
    assert current(learning) == ["Ben likes tea."]


def test_undone_messages_are_found_by_meaning_again_when_they_come_back(meaning: Memory) -> None:
    added = meaning.add("I am allergic to walnuts.", user_id="u", extract="never")
    undone = meaning.undo(added.batch)
    assert not found(meaning, "What food is dangerous?")
    assert meaning.stats().without_vector == 0
    meaning.undo(undone.batch)
    assert found(meaning, "What food is dangerous?") == ["I am allergic to walnuts."]


def test_what_another_batch_says_as_well_stays(learning: Memory) -> None:
    first, second = (learning.add("Ana likes tea.", user_id="u", run_id=run) for run in ("r1", "r2"))
    learning.scope(user_id="u", run_id="r1").undo(first.batch)
    (fact,) = learning.get_all(user_id="u")
    assert fact.sources == second.messages
    learning.undo(second.batch)
    assert current(learning) == found(learning) == []


def test_a_merged_fact_stays_while_one_of_its_batches_does(memory: Memory) -> None:
    first = remember(memory, "Ana likes tea.")
    undone = memory.undo(first.batch)
    second = remember(memory, "Ana likes tea.", 2)
    memory.undo(undone.batch)
    memory.undo(second.batch)
    assert current(memory) == ["Ana likes tea."]


def test_a_fact_that_has_expired_meanwhile_is_not_reopened(memory: Memory) -> None:
    old = remember(memory, "Ana is in Rome.", expires_at="2026-01-05").facts[0].id
    new = remember(memory, "Ana is in Oslo.", 2, replaces=old)
    memory.undo(new.batch)
    assert current(memory) == []
    assert memory.get(old).expires_at is not None


def test_what_something_else_has_replaced_as_well_stays_past(memory: Memory) -> None:
    old = remember(memory, "Ana lives in Rome.").facts[0].id
    oslo = remember(memory, "Ana lives in Oslo.", 2, replaces=old)
    remember(memory, "Ana lives in Milan.", 3, replaces=old)
    memory.archive(oslo.facts[0].id)
    memory.undo(oslo.batch)
    assert current(memory) == ["Ana lives in Milan."]


def test_a_deleted_fact_hands_on_what_it_had_replaced(memory: Memory) -> None:
    old = remember(memory, "Ana lives in Rome.").facts[0].id
    oslo = remember(memory, "Ana lives in Oslo.", 2, replaces=old)
    remember(memory, "Ana lives in Milan.", 3, replaces=oslo.facts[0].id)
    memory.delete(oslo.facts[0].id)
    memory.undo(oslo.batch)
    assert current(memory) == ["Ana lives in Milan."]


def test_an_undo_reopens_what_a_fact_archived_by_hand_had_replaced(memory: Memory) -> None:
    old = remember(memory, "Ana lives in Rome.").facts[0].id
    oslo = remember(memory, "Ana lives in Oslo.", 2, replaces=old)
    memory.archive(oslo.facts[0].id)
    memory.undo(oslo.batch)
    assert current(memory) == ["Ana lives in Rome."]


def test_an_undo_hides_what_was_learnt_after_it_was_undone(learning: Memory) -> None:
    batch = learning.add("Ana likes tea.", user_id="u", extract="later").batch
    again = learning.undo(learning.undo(batch).batch)
    learning.work()
    assert current(learning) == ["Ana likes tea."]
    learning.undo(again.batch)
    assert current(learning) == found(learning) == []


def test_undos_in_any_order_leave_the_queue_right(learning: Memory) -> None:
    batch = learning.add("Ana likes tea.", user_id="u", extract="later").batch
    first = learning.undo(batch).batch
    second = learning.undo(first).batch
    third = learning.undo(batch).batch
    fourth = learning.undo(second).batch  # the first is in force again, beside the third
    assert learning.work().batches == 0
    learning.undo(third)
    assert learning.work().batches == 0
    learning.undo(fourth)
    assert learning.work().facts == 1


def test_what_was_changed_by_hand_meanwhile_stands(memory: Memory) -> None:
    result = remember(memory, "Ana likes tea.")
    undone = memory.undo(result.batch)
    memory.update(result.facts[0].id, expires_at="2999-01-01")
    memory.undo(undone.batch)
    (fact,) = memory.get_all(user_id="u")
    assert fact.expires_at
    assert fact.expires_at.year == 2999


def test_a_fact_updated_in_the_archive_is_found_by_meaning_again(meaning: Memory) -> None:
    id_ = meaning.remember("Ana owns a bicycle.", user_id="u").facts[0].id
    meaning.archive(id_)
    meaning.update(id_, text="Ana is allergic to walnuts.")
    meaning.restore(id_)
    hits = meaning.search("What food is dangerous?", user_id="u", explain=True)
    assert [hit.text for hit in hits] == ["Ana is allergic to walnuts."]
    assert (hits[0].explain.semantic or 0) > 0.1  # type: ignore[union-attr]


def test_messages_of_an_undone_add_that_come_again_say_that_they_are_hidden(learning: Memory) -> None:
    message = [{"role": "user", "content": "Ana likes tea.", "id": "m1"}]
    learning.undo(learning.add(message, user_id="u").batch)
    result = learning.add(message, user_id="u")
    assert result.facts == ()
    assert "undone" in result.skipped[0].reason


def test_what_was_said_last_is_right_after_an_undo(learning: Memory) -> None:
    learning.add("Ana likes tea.", user_id="u", observed_at="2020-01-01")
    learning.remember("Ana likes tea.", user_id="u", observed_at="2025-01-01")
    learning.undo(learning.add("Ana likes tea.", user_id="u", observed_at="2026-01-01").batch)
    assert learning.get_all(user_id="u")[0].last_confirmed_at.year == 2025


# All of it together, against the rules in plain Python.


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["remember", "replace", "archive", "restore", "delete", "undo"]),
        st.integers(0, 5),
        st.integers(0, 20),
    ),
    max_size=14,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_any_sequence_follows_the_rules(steps: list[tuple[str, int, int]]) -> None:
    with Memory(":memory:", embedder=False, extractor=False) as memory:
        rules = Rules()
        for number, (verb, text, which) in enumerate(steps, 1):
            getattr(rules, verb)(memory, f"Ana likes drink number {text}.", which, number)
            assert current(memory) == found(memory) == rules.current(), (verb, text, which)
            archived = sorted(fact.text for fact in memory.get_all(user_id="u", archived=True))
            assert archived == sorted(fact["text"] for fact in rules.facts if fact["archived"])


class Rules:
    """What memlite should do, as a list of facts that are changed in place."""

    def __init__(self) -> None:
        self.facts: list[dict[str, Any]] = []
        self.ids = itertools.count()

    def current(self) -> list[str]:
        return sorted(fact["text"] for fact in self.facts if fact["live"])

    def _one(self, which: int) -> dict[str, Any] | None:
        return self.facts[which % len(self.facts)] if self.facts else None

    def _twin(self, text: str) -> dict[str, Any] | None:
        return next((fact for fact in self.facts if fact["live"] and fact["text"] == text), None)

    def remember(self, memory: Memory, text: str, which: int, day: int, old: dict[str, Any] | None = None) -> str:
        about = {"replaces": old["id"]} if old else {}
        result = remember(memory, text, day, **about)
        twin = self._twin(text)
        if not twin:
            twin = {
                "id": result.facts[0].id,
                "text": text,
                "live": True,
                "closed": False,
                "archived": False,
                "after": set(),
            }
            self.facts.append(twin)
        if old and old is not twin:
            for each in [old] if old["live"] else [old, *self._living_after(old)]:
                if each is not twin:
                    each["after"].add(twin["id"])
                    each.update(live=False, closed=True)
        return result.batch

    def _living_after(self, fact: dict[str, Any]) -> list[dict[str, Any]]:
        """What counts of all that took the place of a fact that is past, or of what did."""
        line = set(fact["after"])
        while more := {id_ for each in self.facts if each["id"] in line for id_ in each["after"]} - line:
            line |= more
        return [each for each in self.facts if each["id"] in line and each["live"]]

    def replace(self, memory: Memory, text: str, which: int, day: int) -> None:
        self.remember(memory, text, which, day, self._one(which))

    def archive(self, memory: Memory, text: str, which: int, day: int) -> None:
        if fact := self._one(which):
            memory.archive(fact["id"])
            fact.update(live=False, archived=True)

    def restore(self, memory: Memory, text: str, which: int, day: int) -> None:
        fact = self._one(which)
        if not fact or fact["live"]:
            return
        back = memory.restore(fact["id"])
        lives = not (fact["archived"] and fact["closed"])
        if lives and (twin := self._twin(fact["text"])):
            assert back.id == twin["id"]
        else:
            fact.update(archived=False, live=lives, closed=fact["closed"] and not lives)

    def delete(self, memory: Memory, text: str, which: int, day: int) -> None:
        if fact := self._one(which):
            memory.delete(fact["id"])
            self.facts.remove(fact)
            for each in self.facts:  # what had replaced it replaces what it had replaced
                if fact["id"] in each["after"]:
                    each["after"] |= fact["after"] - {each["id"]}

    def undo(self, memory: Memory, text: str, which: int, day: int) -> None:
        """A batch, its undo, and the undo of that: the first and the last leave everything as it was before them."""
        before = (self.current(), sorted(fact.id for fact in memory.get_all(user_id="u", past=True)))
        old = dict(self._one(which) or {})
        batch = self.remember(memory, text, which, day, self._one(which))
        after = self.current()
        undone = memory.undo(batch)
        shown = (current(memory), sorted(fact.id for fact in memory.get_all(user_id="u", past=True)))
        assert shown == before, old
        memory.undo(undone.batch)
        assert current(memory) == after
