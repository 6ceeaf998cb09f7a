"""prune(): what each rule chooses, that nothing goes before it is meant, and that what goes does not come back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from memlite import InvalidInputError, Memory, instants

DAY = timedelta(days=1)


def texts(memory: Memory, **about: Any) -> list[str]:
    return sorted(fact.text for fact in memory.get_all(user_id="u", **about))


def chosen(memory: Memory, **rules: Any) -> list[str]:
    """What a dry run shows."""
    return sorted(fact.text for fact in memory.prune(**rules).facts)


@pytest.fixture
def aged(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> Memory:
    """Facts of 100 days ago: one current, one confirmed yesterday, one expired, one replaced then, one replaced now."""
    now = instants.now()
    monkeypatch.setattr(instants, "now", lambda: now - 100 * 86_400_000)
    old = {text: memory.remember(text, user_id="u").facts[0].id for text in ("Ana rows.", "Ana sings.", "Ana skis.")}
    memory.remember("Ana is ill.", user_id="u", expires_at=instants.local(now - 90 * 86_400_000))
    memory.remember({"text": "Ana skis no more.", "replaces": old["Ana skis."]}, user_id="u")
    monkeypatch.setattr(instants, "now", lambda: now)
    memory.remember("Ana sings.", user_id="u")
    memory.remember(
        {"text": "Ana runs.", "replaces": memory.remember("Ana walks.", user_id="u").facts[0].id}, user_id="u"
    )
    return memory


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"expired": True}, ["Ana is ill."]),
        ({"replaced_for": 90 * DAY}, ["Ana skis."]),
        ({"replaced_for": 0 * DAY}, ["Ana skis.", "Ana walks."]),
        ({"unconfirmed_for": 90 * DAY}, ["Ana rows.", "Ana skis no more."]),
        ({"most_facts": 2}, ["Ana rows.", "Ana skis no more."]),
        ({"most_facts": 4}, []),
        ({"expired": True, "replaced_for": 90 * DAY}, ["Ana is ill.", "Ana skis."]),
    ],
)
def test_a_rule_chooses_what_it_says(aged: Memory, rules: dict[str, Any], expected: list[str]) -> None:
    before = texts(aged, past=True)
    assert chosen(aged, **rules) == expected
    assert texts(aged, past=True) == before
    pruned = aged.prune(**rules, dry_run=False)
    assert pruned.receipt
    assert sorted(pruned.receipt.facts) == sorted(fact.id for fact in pruned.facts)
    assert texts(aged, past=True) == sorted(set(before) - set(expected))
    assert chosen(aged, **rules) == []


def test_a_pruned_fact_does_not_come_back_through_its_message(learning: Memory) -> None:
    learning.add("Ana lives in Porto.", user_id="u", expires_at="2001-01-01")
    pruned = learning.prune(expired=True, dry_run=False)
    assert [message.content for message in pruned.messages] == ["Ana lives in Porto."]
    assert not learning.search("Porto", user_id="u", past=True)
    assert b"Porto" not in learning.path.read_bytes()


def test_old_messages_go_and_their_facts_stay(learning: Memory) -> None:
    learning.add("Ana lives in Porto.", user_id="u", observed_at="2020-01-01")
    waiting = learning.add("Ana lived in Rome.", user_id="u", observed_at="2020-01-01", extract="later").messages
    kept = learning.add("Ben lives in Faro.", user_id="u").messages
    pruned = learning.prune(messages_older_than=365 * DAY, dry_run=False)
    assert [message.content for message in pruned.messages] == ["Ana lives in Porto."]
    assert pruned.rules == {"messages": tuple(message.id for message in pruned.messages)}
    assert texts(learning) == ["Ana lives in Porto.", "Ben lives in Faro."]
    said = learning.search("lives lived", user_id="u", include="messages")
    assert {hit.id for hit in said} == {*waiting, *kept}  # what waits for extraction is not lost
    assert learning.work().facts == 1


def test_a_scope_prunes_its_own(memory: Memory) -> None:
    for user in ("u", "v"):
        memory.remember("Ana is ill.", user_id=user, expires_at="2001-01-01")
    assert len(memory.prune(expired=True).facts) == 2
    assert len(memory.scope(user_id="u").prune(expired=True).facts) == 1
    assert memory.prune(expired=True, user_id="nobody").facts == ()
    (fact,) = memory.prune(expired=True, user_id="v", dry_run=False).facts
    assert fact.scope.user_id == "v"
    assert len(memory.prune(expired=True).facts) == 1


def test_an_archived_fact_is_left_alone(memory: Memory) -> None:
    memory.archive(memory.remember("Ana is ill.", user_id="u", expires_at="2001-01-01").facts[0].id)
    rules = {"expired": True, "replaced_for": 0 * DAY, "unconfirmed_for": 0 * DAY, "most_facts": 1}
    assert memory.prune(**rules).facts == ()


@pytest.mark.parametrize(
    "rules",
    [{}, {"most_facts": 0}, {"replaced_for": 90}, {"unconfirmed_for": -DAY}, {"messages_older_than": "90d"}],
)
def test_rules_that_cannot_be_are_refused(memory: Memory, rules: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        memory.prune(**rules)


def test_what_was_replaced_again_just_now_is_kept(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    now = instants.now()
    monkeypatch.setattr(instants, "now", lambda: now - 100 * 86_400_000)
    rome = memory.remember("Ana lives in Rome.", user_id="u").facts[0].id
    memory.remember({"text": "Ana lives in Oslo.", "replaces": rome}, user_id="u")
    monkeypatch.setattr(instants, "now", lambda: now)
    memory.restore(rome)
    memory.remember({"text": "Ana lives in Milan.", "replaces": rome}, user_id="u")
    assert memory.prune(replaced_for=90 * DAY).facts == ()


def test_what_an_undo_took_from_the_queue_is_kept(learning: Memory) -> None:
    batch = learning.add("Ana likes tea.", user_id="u", extract="later", observed_at="2020-01-01").batch
    undone = learning.undo(batch)
    learning.prune(messages_older_than=30 * DAY, dry_run=False)
    learning.undo(undone.batch)
    assert learning.work().facts == 1
