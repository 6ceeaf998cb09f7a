"""history(): what happened to each fact, in which scope and batch, before and after."""

from __future__ import annotations

import sqlite3
from datetime import datetime, timezone
from typing import Any

import pytest

from memlite import Diff, InvalidInputError, Memory, NotFoundError, instants


def actions(memory: Memory, id_: str) -> list[str]:
    return [event.action for event in memory.history(id_)]


def test_an_add_is_an_event_with_scope_batch_and_actor_but_no_text(memory: Memory) -> None:
    result = memory.remember("Ana likes tea.", user_id="u", agent_id="a", run_id="r")
    (event,) = memory.history(result.facts[0].id)
    assert (event.action, event.fact, event.batch, event.actor) == (
        "ADD",
        result.facts[0].id,
        result.batch,
        "caller",
    )
    assert event.scope.given() == {"user_id": "u", "agent_id": "a", "run_id": "r"}
    assert (event.before, event.after) == (None, None)


def test_an_update_keeps_before_and_after(memory: Memory) -> None:
    fact = memory.remember("Ana likes tea.", user_id="u", kind="taste", metadata={"n": 1}).facts[0]
    memory.update(fact.id, text="Ana likes coffee.", metadata={"n": 2})
    event = memory.history(fact.id)[-1]
    assert event.before == {"text": "Ana likes tea.", "metadata": {"n": 1}, "kind": "taste", "expires_at": None}
    assert event.after == {"text": "Ana likes coffee.", "metadata": {"n": 2}, "kind": "taste", "expires_at": None}


def test_a_replacement_names_the_fact_that_replaced(memory: Memory) -> None:
    old = memory.remember("Ana lives in Porto.", user_id="u", observed_at="2020-01-01").facts[0]
    result = memory.remember({"text": "Ana lives in Lisbon.", "replaces": old.id}, user_id="u")
    event = memory.history(old.id)[-1]
    new = result.facts[0]
    ends = round(new.valid_from.timestamp() * 1000)
    assert (event.action, event.batch) == ("SUPERSEDE", result.batch)
    assert event.after == {"replaced_by": new.id, "valid_to": ends}


def test_an_event_tells_the_state_before_and_after(memory: Memory) -> None:
    fact = memory.remember("Ana lives in Porto.", user_id="u", observed_at="2020-01-01T00:00Z").facts[0]
    memory.remember("Ana lives in Porto.", user_id="u", observed_at="2019-01-01T00:00Z")
    memory.archive(fact.id)
    memory.restore(fact.id)
    memory.remember({"text": "Ana lives in Lisbon.", "replaces": fact.id}, user_id="u")
    _, confirmed, archived, restored, replaced = memory.history(fact.id)
    first, earlier = (round(datetime(year, 1, 1, tzinfo=timezone.utc).timestamp() * 1000) for year in (2020, 2019))
    shown = {"valid_from": first, "last_confirmed_at": first, "expires_at": None}
    assert (confirmed.action, confirmed.before) == ("CONFIRM", shown)
    assert confirmed.after == shown | {"valid_from": earlier, "observed_at": earlier}
    here = {"live": True, "valid_to": None, "expires_at": None, "archived_at": None}
    assert archived.before == restored.after == replaced.before == here
    assert archived.after == restored.before
    assert archived.after is not None
    assert (archived.after["live"], archived.after["archived_at"]) == (False, round(archived.at.timestamp() * 1000))
    assert [event.text for event in memory.history(fact.id)] == ["Ana lives in Porto."] * 5


def test_what_a_fact_said_after_an_event_is_told_whatever_came_next(memory: Memory) -> None:
    fact = memory.remember("Ana likes tea.", user_id="u").facts[0]
    memory.archive(fact.id)
    memory.restore(fact.id)
    memory.update(fact.id, text="Ana likes coffee.")
    said = [event.text for event in memory.history(fact.id)]
    assert said == ["Ana likes tea.", "Ana likes tea.", "Ana likes tea.", "Ana likes coffee."]


def test_a_deleted_message_leaves_its_id_and_the_time(memory: Memory) -> None:
    (message,) = memory.add("I like tea.", user_id="u", extract="never").messages
    memory.delete(message)
    (event,) = memory.history(message[:10])
    assert (event.action, event.fact, event.actor, event.scope.user_id) == ("DELETE", message, "caller", "u")
    assert (event.before, event.after, event.reason, event.text) == (None, None, "", None)
    assert memory.history(user_id="u") == [event]


def test_a_facts_events_come_in_the_order_they_happened(memory: Memory) -> None:
    fact = memory.remember("Ana likes tea.", user_id="u").facts[0]
    memory.update(fact.id, text="Ana likes coffee.")
    memory.update(fact.id, kind="taste")
    memory.remember({"text": "Ana likes water.", "replaces": fact.id}, user_id="u")
    memory.delete(fact.id)
    assert actions(memory, fact.id) == ["ADD", "UPDATE", "UPDATE", "SUPERSEDE", "DELETE"]
    times = [event.at for event in memory.history(fact.id)]
    assert times == sorted(times)


def test_a_scopes_events_come_newest_first_and_at_most_as_many_as_asked(memory: Memory) -> None:
    ids = [memory.remember(f"Fact {n}.", user_id="u").facts[0].id for n in range(5)]
    memory.remember("Other.", user_id="v")
    assert [event.fact for event in memory.history(user_id="u")] == ids[::-1]
    assert [event.fact for event in memory.history(user_id="u", limit=2)] == ids[:-3:-1]


def test_a_wider_scope_sees_the_events_of_its_runs(memory: Memory) -> None:
    memory.remember("One.", user_id="u", run_id="r1")
    memory.remember("Two.", user_id="u", agent_id="a")
    assert len(memory.history(user_id="u")) == 2
    assert len(memory.history(user_id="u", run_id="r1")) == 1
    assert memory.history(user_id="nobody") == []


def test_a_deleted_facts_history_is_found_by_its_id(memory: Memory) -> None:
    fact = memory.remember("Ana likes tea.", user_id="u").facts[0]
    memory.delete(fact.id)
    assert actions(memory, fact.id[:10]) == ["ADD", "DELETE"]


def test_a_bound_handle_does_not_see_the_history_of_others(memory: Memory) -> None:
    fact = memory.remember("Ana likes tea.", user_id="u").facts[0]
    with pytest.raises(NotFoundError):
        memory.scope(user_id="v").history(fact.id)
    assert memory.scope(user_id="v").history() == []


def test_a_past_text_stays_in_the_file_until_its_fact_is_deleted(memory: Memory) -> None:
    fact = memory.remember("Ana likes tea.", user_id="u").facts[0]
    memory.update(fact.id, text="Ana likes coffee.")
    db = sqlite3.connect(memory.path)
    rows = db.execute("SELECT text, live FROM facts WHERE recorded_to IS NOT NULL").fetchall()
    db.close()
    assert rows == [("Ana likes tea.", 0)]


def test_without_ids_it_is_of_the_whole_file_or_of_the_handle_a_page_at_a_time(memory: Memory) -> None:
    ids = [memory.remember(f"Ana has {n} cats.", user_id=user).facts[0].id for n, user in enumerate("uvu", 2)]
    assert [event.fact for event in memory.history()] == ids[::-1]
    assert [event.fact for event in memory.scope(user_id="u").history()] == [ids[2], ids[0]]
    first, second = memory.history(limit=2)
    assert [event.fact for event in memory.history(before=second.id)] == ids[:1]
    assert memory.history(before=first.id, user_id="u") == memory.history(ids[0])
    assert memory.history(before=memory.history(ids[0])[0].id) == []


@pytest.mark.parametrize("arguments", [{"before": 0}, {"user_id": ""}, {"user_id": "u", "limit": 0}], ids=str)
def test_a_history_of_nothing_is_an_error(memory: Memory, arguments: dict[str, Any]) -> None:
    memory.remember("Ana likes tea.", user_id="u")
    with pytest.raises(InvalidInputError):
        memory.history(**arguments)


def test_a_history_of_an_unknown_fact_is_not_found(memory: Memory) -> None:
    with pytest.raises(NotFoundError):
        memory.history("0123456789abcdef")


# Lines of facts, and what has changed.


def test_a_lineage_is_all_that_replaced_one_another(memory: Memory) -> None:
    porto = memory.remember("Ana lives in Porto.", user_id="u", observed_at="2020-01-01").facts[0].id
    lisbon = {"text": "Ana lives in Lisbon.", "replaces": porto, "observed_at": "2022-01-01"}
    second = memory.remember(lisbon, user_id="u", run_id="r").facts[0].id
    memory.remember({"text": "Ana lives in Faro.", "replaces": second, "observed_at": "2024-01-01"}, user_id="u")
    memory.remember("Ana likes tea.", user_id="u")
    line = ["Ana lives in Porto.", "Ana lives in Lisbon.", "Ana lives in Faro."]
    assert [fact.text for fact in memory.lineage(porto)] == [fact.text for fact in memory.lineage(second)] == line
    assert [fact.text for fact in memory.scope(user_id="u", run_id="r").lineage(second)] == ["Ana lives in Lisbon."]


def test_a_diff_is_what_counts_now_and_what_counted_then(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1_000_000]
    monkeypatch.setattr(instants, "now", lambda: clock[0])
    porto = memory.remember("Ana lives in Porto.", user_id="u", observed_at="1970-01-01").facts[0].id
    tea, cake, rum, wine = (
        memory.remember(f"Ana likes {what}.", user_id="u").facts[0].id for what in ("tea", "cake", "rum", "wine")
    )
    since = instants.local(clock[0])
    clock[0] += 1_000_000
    assert memory.diff(since, user_id="u") == Diff((), (), ())
    memory.remember({"text": "Ana lives in Faro.", "replaces": porto, "observed_at": "1970-01-02"}, user_id="u")
    memory.update(tea, text="Ana likes green tea.")
    memory.archive(cake)
    memory.restore(cake)
    memory.delete(rum)
    memory.archive(memory.remember("Ana likes gin.", user_id="u").facts[0].id)
    memory.archive(wine)
    diff = memory.diff(since, user_id="u")
    assert [fact.text for fact in diff.added] == ["Ana lives in Faro."]
    assert [fact.text for fact in diff.gone] == ["Ana lives in Porto.", "Ana likes wine."]
    assert [(a.text, b.text, a.id == b.id) for a, b in diff.updated] == [
        ("Ana likes tea.", "Ana likes green tea.", True)
    ]
    assert memory.diff(since, user_id="nobody") == Diff((), (), ())
