"""scope(): a handle that cannot see or write outside its ids; and which scopes a wider one covers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memlite import (
    InvalidInputError,
    Memory,
    NotFoundError,
)


def texts(found: Any) -> set[str]:
    return {each.text for each in found}


def test_a_handle_writes_into_its_scope(memory: Memory) -> None:
    ana = memory.scope(user_id="ana", agent_id="cook")
    message = ana.add("I like tea.").messages[0]
    fact = ana.remember("Ana likes tea.").facts[0]
    assert fact.scope.given() == memory.get(message).scope.given() == {"user_id": "ana", "agent_id": "cook"}


def test_a_handle_may_be_narrowed(memory: Memory) -> None:
    run = memory.scope(user_id="ana").scope(run_id="r1")
    assert run.remember("Ana likes tea.").facts[0].scope.given() == {"user_id": "ana", "run_id": "r1"}
    by_call = memory.scope(user_id="ana").remember("Ana likes rice.", run_id="r2").facts[0]
    assert by_call.scope.given() == {"user_id": "ana", "run_id": "r2"}


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda handle: handle.add("Hello.", user_id="ben"), id="add"),
        pytest.param(lambda handle: handle.remember("Hello.", user_id="ben"), id="remember"),
        pytest.param(lambda handle: handle.search("tea", user_id="ben"), id="search"),
        pytest.param(lambda handle: handle.get_all(user_id="ben"), id="get_all"),
        pytest.param(lambda handle: handle.history(user_id="ben"), id="history"),
        pytest.param(lambda handle: handle.entities(user_id="ben"), id="entities"),
        pytest.param(lambda handle: handle.delete_all(user_id="ben"), id="delete_all"),
        pytest.param(lambda handle: handle.scope(user_id="ben"), id="scope"),
    ],
)
def test_a_handles_ids_cannot_be_changed(memory: Memory, call: Callable[[Memory], object]) -> None:
    memory.remember("Ben likes tea.", user_id="ben")
    with pytest.raises(InvalidInputError, match="user_id='ana' only"):
        call(memory.scope(user_id="ana"))
    assert len(memory.get_all(user_id="ben")) == 1


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda handle, id_: handle.get(id_), id="get"),
        pytest.param(lambda handle, id_: handle.update(id_, text="Mine now."), id="update"),
        pytest.param(lambda handle, id_: handle.delete(id_), id="delete"),
        pytest.param(lambda handle, id_: handle.preview_delete(id_), id="preview_delete"),
        pytest.param(lambda handle, id_: handle.history(id_), id="history"),
        pytest.param(lambda handle, id_: handle.remember({"text": "New.", "replaces": id_}), id="replaces"),
        pytest.param(lambda handle, id_: handle.remember({"text": "New.", "continues": id_}), id="continues"),
    ],
)
@pytest.mark.parametrize(
    "handle",
    [
        pytest.param({"user_id": "ana"}, id="other-user"),
        pytest.param({"user_id": "ben", "run_id": "r2"}, id="other-run"),
        pytest.param({"user_id": "ben", "agent_id": "cook"}, id="other-agent"),
        pytest.param({"user_id": "never written"}, id="unknown-user"),
    ],
)
def test_what_is_outside_a_handle_is_not_found(
    memory: Memory, handle: dict[str, str], call: Callable[[Memory, str], object]
) -> None:
    fact = memory.remember("Ben likes tea.", user_id="ben", run_id="r1").facts[0]
    memory.remember("Something.", user_id="ana")
    with pytest.raises(NotFoundError):
        call(memory.scope(**handle), fact.id)
    assert memory.get(fact.id) == fact


def test_a_message_outside_a_handle_is_not_found(memory: Memory) -> None:
    message = memory.add("I like tea.", user_id="ben").messages[0]
    ana = memory.scope(user_id="ana")
    for call in (ana.get, ana.delete, lambda id_: ana.remember({"text": "New.", "source": id_})):
        with pytest.raises(NotFoundError):
            call(message)
    assert memory.get(message)


def test_a_handle_counts_and_lists_its_scope_only(memory: Memory) -> None:
    memory.remember("Later Ben met Cleo.", user_id="ben")
    memory.add(["One.", "Two."], user_id="ben", extract="later")
    ana = memory.scope(user_id="ana")
    ana.remember("Later Ana met Dora.")
    stats = ana.stats()
    assert (stats.facts, stats.messages, stats.entities, stats.queued) == (1, 0, 2, ())
    assert {entity.name for entity in ana.entities()} == {"Ana", "Dora"}
    assert texts(ana.get_all()) == {"Later Ana met Dora."}


def test_a_handle_on_a_scope_nobody_wrote_to_is_empty(memory: Memory) -> None:
    memory.remember("Ben likes tea.", user_id="ben")
    nobody = memory.scope(user_id="nobody")
    assert (len(nobody.search("tea")), len(nobody.get_all()), nobody.entities(), nobody.history()) == (0, 0, [], [])
    assert (nobody.stats().facts, nobody.delete_all().facts) == (0, ())


def test_a_handle_needs_an_id(memory: Memory) -> None:
    with pytest.raises(InvalidInputError):
        memory.scope()


def test_a_handle_works_on_its_own_queue(learning: Memory) -> None:
    learning.add("Ana likes tea.", user_id="ana", extract="later")
    learning.add("Ben likes coffee.", user_id="ben", extract="later")
    assert learning.scope(user_id="ana").work().batches == 1
    assert texts(learning.get_all(user_id="ana")) == {"Ana likes tea."}
    assert len(learning.get_all(user_id="ben")) == 0


def test_what_another_run_confirmed_stays_out_of_sight(learning: Memory) -> None:
    """A run that repeats what its root knows adds a source to the other run's fact; its words stay its own."""
    fact = learning.add("Ana likes tea.", user_id="u", run_id="r1").facts[0]
    second = learning.add("ana likes TEA", user_id="u", run_id="r2").messages[0]
    first_run = learning.scope(user_id="u", run_id="r1")
    (hit,) = first_run.search("tea")
    assert second not in [message.id for message in hit.sources]
    assert second not in first_run.get(fact.id).sources  # type: ignore[union-attr]
    assert second not in [message.id for message in first_run.preview_delete(fact.id).messages]
    assert first_run.delete(fact.id).messages != (second,)
    assert learning.get(second)


def test_a_search_in_one_run_shows_that_runs_sources(learning: Memory) -> None:
    learning.add("Ana likes tea.", user_id="u", run_id="r1")
    learning.add("ana likes TEA", user_id="u", run_id="r2")
    (hit,) = learning.search("tea", user_id="u", run_id="r1")
    assert texts(hit.sources) == {"Ana likes tea."}
    (wide,) = learning.search("tea", user_id="u")
    assert texts(wide.sources) == {"Ana likes tea.", "ana likes TEA"}


@pytest.mark.parametrize(
    ("searched", "found"),
    [
        pytest.param({"user_id": "u"}, {"u", "u+a", "u+r", "u+a+r"}, id="user"),
        pytest.param({"agent_id": "a"}, {"a", "u+a", "u+a+r"}, id="agent"),
        pytest.param({"run_id": "r"}, {"r", "u+r", "u+a+r"}, id="run"),
        pytest.param({"user_id": "u", "agent_id": "a"}, {"u+a", "u+a+r"}, id="user-and-agent"),
        pytest.param({"user_id": "u", "agent_id": "a", "run_id": "r"}, {"u+a+r"}, id="all-three"),
        pytest.param({"user_id": "a"}, set(), id="an-agents-name-is-no-users"),
    ],
)
def test_a_scope_covers_every_scope_that_has_its_ids(memory: Memory, searched: dict[str, str], found: set[str]) -> None:
    for ids in ("u", "a", "r", "u+a", "u+r", "u+a+r"):
        scope = {f"{name}_id": key for name, key in (("user", "u"), ("agent", "a"), ("run", "r")) if key in ids}
        memory.remember(f"Tea of {ids}.", **scope)
    assert texts(memory.search("tea", **searched)) == {f"Tea of {ids}." for ids in found}
    assert texts(memory.get_all(**searched)) == {f"Tea of {ids}." for ids in found}


@pytest.mark.parametrize("searched", [{"user_id": "u"}, {"agent_id": "a"}, {"run_id": "r"}], ids=str)
def test_an_entity_is_found_from_every_scope_that_sees_its_fact(memory: Memory, searched: dict[str, str]) -> None:
    memory.remember({"text": "The firm pays late.", "entities": ["Acme"]}, user_id="u", agent_id="a", run_id="r")
    assert texts(memory.search("Acme", **searched)) == {"The firm pays late."}


def test_one_run_does_not_see_an_entity_of_another(memory: Memory) -> None:
    memory.remember({"text": "The firm pays late.", "entities": ["Acme"]}, user_id="u", run_id="r1")
    memory.remember("Something else.", user_id="u", run_id="r2")
    assert len(memory.search("Acme", user_id="u", run_id="r2")) == 0
    assert memory.entities(user_id="u", run_id="r2") == []
