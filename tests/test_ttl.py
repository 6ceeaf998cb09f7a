"""set_ttl(): which rule holds for which fact, that saying a fact again extends it, and whose rules go when."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memlite import InvalidInputError, Memory, Ttl, cli, instants
from memlite.records import Scope

DAY = timedelta(days=1)
NOW = datetime.now(timezone.utc).replace(microsecond=0)


def days(memory: Memory, text: str, **about: Any) -> float | None:
    """After how many days a new fact expires."""
    fact = memory.remember(text, **about).facts[0]
    return None if fact.expires_at is None else (fact.expires_at - fact.observed_at) / DAY


def texts(memory: Memory, **about: Any) -> list[str]:
    return sorted(fact.text for fact in memory.get_all(user_id="ana", **about))


class Lengths:
    """An embedder of two numbers."""

    name = "lengths"
    dimension = 2

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, len(text) / 100] for text in texts]


@pytest.fixture
def near(path: Path) -> Iterator[Memory]:
    """A memory whose facts are found by vectors alone."""
    with Memory(path, embedder=Lengths(), extractor=False) as opened:
        yield opened


# Which rule holds.

RULES: list[tuple[dict[str, str], int]] = [
    ({}, 1),
    ({"kind": "mood"}, 2),
    ({"user_id": "ana"}, 3),
    ({"user_id": "ana", "kind": "mood"}, 4),
    ({"agent_id": "cook"}, 6),
    ({"user_id": "ana", "agent_id": "cook"}, 7),
    ({"user_id": "ana", "agent_id": "cook", "run_id": "r1", "kind": "mood"}, 8),
]


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        pytest.param({"user_id": "bo"}, 1, id="whole-file"),
        pytest.param({"user_id": "bo", "kind": "mood"}, 2, id="kind"),
        pytest.param({"user_id": "ana"}, 3, id="scope"),
        pytest.param({"user_id": "ana", "kind": "plan"}, 3, id="scope-for-another-kind"),
        pytest.param({"user_id": "ana", "run_id": "r9"}, 3, id="wider-scope"),
        pytest.param({"user_id": "ana", "kind": "mood"}, 4, id="scope-and-kind"),
        pytest.param({"user_id": "bo", "agent_id": "cook"}, 6, id="one-of-two-ids"),
        pytest.param({"user_id": "ana", "agent_id": "cook"}, 7, id="exact-scope"),
        pytest.param({"user_id": "ana", "agent_id": "cook", "kind": "mood"}, 7, id="more-ids-before-kind"),
        pytest.param({"user_id": "ana", "agent_id": "cook", "run_id": "r1"}, 7, id="kind-of-an-exact-scope-only"),
        pytest.param({"user_id": "ana", "agent_id": "cook", "run_id": "r1", "kind": "mood"}, 8, id="all"),
    ],
)
def test_the_most_specific_rule_holds(memory: Memory, about: dict[str, str], expected: float) -> None:
    for given, number in RULES:
        memory.set_ttl(number, **given)  # type: ignore[arg-type]
    assert days(memory, "Ana feels fine.", **about) == expected


def test_of_two_rules_as_specific_the_shorter_one_holds(memory: Memory) -> None:
    memory.set_ttl(30, user_id="ana")
    memory.set_ttl(20, agent_id="cook")
    memory.set_ttl(40, run_id="r1")
    assert days(memory, "Ana feels fine.", user_id="ana", agent_id="cook", run_id="r1") == 20


def test_without_a_rule_nothing_expires(memory: Memory) -> None:
    memory.set_ttl(30, user_id="bo")
    memory.set_ttl(30, kind="plan")
    assert days(memory, "Ana feels fine.", user_id="ana", kind="mood") is None


def test_a_rule_holds_for_learnt_facts(learning: Memory) -> None:
    learning.set_ttl(7, kind="mood")
    fact = learning.add("Ana feels fine.", user_id="ana", kind="mood", observed_at=NOW).facts[0]
    assert fact.expires_at == NOW + 7 * DAY
    assert learning.add("Ana lives in Porto.", user_id="ana").facts[0].expires_at is None


def test_time_counts_from_when_it_was_said(memory: Memory) -> None:
    memory.set_ttl(7 * DAY)
    memory.remember("Ana has a cold.", user_id="ana", observed_at=NOW - 8 * DAY)
    memory.remember("Ana has a new bike.", user_id="ana", observed_at=NOW - 6 * DAY)
    assert texts(memory) == ["Ana has a new bike."]
    assert texts(memory, past=True) == ["Ana has a cold.", "Ana has a new bike."]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"facts": "Ana feels fine.", "expires_at": NOW + 99 * DAY}, id="of-all"),
        pytest.param({"facts": {"text": "Ana feels fine.", "expires_at": NOW + 99 * DAY}}, id="of-one"),
    ],
)
def test_an_expiry_that_is_given_is_above_every_rule(memory: Memory, given: dict[str, Any]) -> None:
    memory.set_ttl(7, user_id="ana", kind="mood")
    fact = memory.remember(**given, user_id="ana", kind="mood").facts[0]
    assert fact.expires_at == NOW + 99 * DAY
    memory.remember(fact.text, user_id="ana", observed_at=NOW + 3 * DAY)
    assert memory.get(fact.id).expires_at == NOW + 99 * DAY  # type: ignore[union-attr]


def test_an_expiry_that_an_add_gives_is_above_every_rule(learning: Memory) -> None:
    learning.set_ttl(7)
    fact = learning.add("Ana feels fine.", user_id="ana", expires_at=NOW + 99 * DAY).facts[0]
    assert fact.expires_at == NOW + 99 * DAY


def test_a_fact_of_the_last_days_of_the_calendar_expires_with_it(memory: Memory) -> None:
    memory.set_ttl(timedelta(days=999_999_999))
    fact = memory.remember("The sun still shines.", user_id="ana", observed_at="9999-12-01T00:00Z").facts[0]
    assert fact.expires_at == instants.local(instants.LAST)


# A rule that changes.


def test_a_rule_is_for_what_is_stored_later(memory: Memory) -> None:
    memory.remember("Ana rows.", user_id="ana")
    assert memory.set_ttl(7, user_id="ana") == 0
    assert days(memory, "Ana sings.", user_id="ana") == 7
    memory.set_ttl(9, user_id="ana")
    assert days(memory, "Ana skis.", user_id="ana") == 9
    memory.set_ttl(None, user_id="ana")
    assert days(memory, "Ana swims.", user_id="ana") is None
    expire = {fact.text: fact.expires_at is not None for fact in memory.get_all(user_id="ana")}
    assert expire == {"Ana rows.": False, "Ana sings.": True, "Ana skis.": True, "Ana swims.": False}
    assert memory.ttls() == []


def test_with_existing_the_rules_hold_for_stored_facts_whose_expiry_was_not_given(memory: Memory) -> None:
    about: dict[str, Any] = {"user_id": "ana", "observed_at": NOW - 10 * DAY}
    memory.remember("Ana rows.", **about)
    memory.remember("Ana is happy.", kind="mood", **about)
    memory.remember("Ana is ill.", expires_at=NOW + 99 * DAY, **about)
    memory.remember("Bo rows.", user_id="bo", observed_at=NOW - 10 * DAY)
    memory.set_ttl(5, user_id="ana", kind="mood")
    assert memory.set_ttl(20, user_id="ana", existing=True) == 2
    found = {fact.text: fact.expires_at for fact in memory.get_all(user_id="ana", past=True)}
    assert found == {
        "Ana rows.": NOW + 10 * DAY,
        "Ana is happy.": NOW - 5 * DAY,  # by the rule that is more specific
        "Ana is ill.": NOW + 99 * DAY,
    }
    assert memory.get_all(user_id="bo")[0].expires_at is None
    assert memory.set_ttl(20, user_id="ana", existing=True) == 0


def test_a_rule_for_existing_facts_can_be_taken_back(memory: Memory) -> None:
    memory.remember(["Ana rows.", "Ana sings."], user_id="ana", observed_at=NOW - 10 * DAY)
    memory.set_ttl(5, existing=True)
    assert texts(memory) == []
    assert memory.set_ttl(None, existing=True) == 2
    assert texts(memory) == ["Ana rows.", "Ana sings."]


def test_what_a_rule_for_existing_facts_hides_was_known_before(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    now = instants.now()
    monkeypatch.setattr(instants, "now", lambda: now - 100 * 86_400_000)
    fact = memory.remember("Ana rows.", user_id="ana").facts[0]
    monkeypatch.setattr(instants, "now", lambda: now)
    memory.set_ttl(5, existing=True)
    assert not memory.search("rows", user_id="ana")
    assert [hit.id for hit in memory.search("rows", user_id="ana", known_at=NOW - 50 * DAY)] == [fact.id]
    event = memory.history(fact.id)[-1]
    assert (event.action, event.reason, event.before and event.before["expires_at"]) == ("UPDATE", "time to live", None)


# Said again.


def test_a_fact_that_is_said_again_counts_for_so_long_from_then_on(memory: Memory) -> None:
    memory.set_ttl(7)
    fact = memory.remember("Ana rows.", user_id="ana", observed_at=NOW - 5 * DAY).facts[0]
    assert fact.expires_at == NOW + 2 * DAY
    memory.remember("ana rows", user_id="ana", observed_at=NOW - DAY)
    again = memory.get(fact.id)
    assert (again.last_confirmed_at, again.expires_at) == (NOW - DAY, NOW + 6 * DAY)  # type: ignore[union-attr]
    memory.remember("Ana rows.", user_id="ana", observed_at=NOW - 3 * DAY)  # said before that
    assert memory.get(fact.id) == again


def test_its_time_to_live_is_the_one_it_was_stored_with(memory: Memory) -> None:
    memory.set_ttl(7)
    fact = memory.remember("Ana rows.", user_id="ana", observed_at=NOW - 5 * DAY).facts[0]
    memory.set_ttl(None)
    memory.remember("Ana rows.", user_id="ana", observed_at=NOW)
    assert memory.get(fact.id).expires_at == NOW + 7 * DAY  # type: ignore[union-attr]


def test_a_fact_that_is_said_again_after_its_time_is_a_new_one(memory: Memory) -> None:
    memory.set_ttl(7)
    old = memory.remember("Ana rows.", user_id="ana", observed_at=NOW - 9 * DAY).facts[0]
    new = memory.remember("Ana rows.", user_id="ana", observed_at=NOW).facts[0]
    assert new.id != old.id
    assert new.expires_at == NOW + 7 * DAY
    assert memory.get(old.id).valid_to == NOW - 2 * DAY  # type: ignore[union-attr]


def test_undoing_what_said_it_again_takes_the_time_back(memory: Memory) -> None:
    memory.set_ttl(7)
    fact = memory.remember("Ana rows.", user_id="ana", observed_at=NOW - 8 * DAY + timedelta(hours=2)).facts[0]
    assert not texts(memory)
    memory.set_ttl(10, existing=True)
    confirmed = memory.remember("Ana rows.", user_id="ana", observed_at=NOW).batch
    assert memory.get(fact.id).expires_at == NOW + 10 * DAY  # type: ignore[union-attr]
    undone = memory.undo(confirmed).batch
    assert memory.get(fact.id).expires_at == NOW + 2 * DAY + timedelta(hours=2)  # type: ignore[union-attr]
    memory.undo(undone)
    assert memory.get(fact.id).expires_at == NOW + 10 * DAY  # type: ignore[union-attr]


def test_what_is_found_by_meaning_goes_by_the_new_time(near: Memory) -> None:
    near.set_ttl(timedelta(days=7))
    near.remember("Ana rows.", user_id="ana", observed_at=NOW - 6 * DAY)
    near.remember("Ana rows.", user_id="ana", observed_at=NOW)
    near.remember("Bo has rowed.", user_id="ana", observed_at=NOW - 8 * DAY)
    assert [hit.text for hit in near.search("xyz", user_id="ana")] == ["Ana rows."]


@pytest.mark.parametrize("given", [NOW + 3 * DAY, NOW + 7 * DAY, None], ids=["another", "the-same", "never"])
def test_an_update_that_says_when_a_fact_expires_ends_its_time_to_live(memory: Memory, given: datetime | None) -> None:
    memory.set_ttl(7)
    fact = memory.remember("Ana rows.", user_id="ana", observed_at=NOW).facts[0]
    assert memory.update(fact.id, expires_at=given).expires_at == given
    memory.remember("Ana rows.", user_id="ana", observed_at=NOW + 2 * DAY)
    assert memory.get(fact.id).expires_at == given  # type: ignore[union-attr]


def test_an_update_of_something_else_leaves_it(memory: Memory) -> None:
    memory.set_ttl(7)
    fact = memory.remember("Ana rows.", user_id="ana", observed_at=NOW).facts[0]
    memory.update(fact.id, text="Ana rows at dawn.")
    memory.remember("Ana rows at dawn.", user_id="ana", observed_at=NOW + 2 * DAY)
    assert memory.get(fact.id).expires_at == NOW + 9 * DAY  # type: ignore[union-attr]


def test_a_fact_that_is_restored_after_its_time_stays(memory: Memory) -> None:
    memory.set_ttl(7)
    fact = memory.remember("Ana rows.", user_id="ana", observed_at=NOW - 9 * DAY).facts[0]
    assert memory.restore(fact.id).expires_at is None
    memory.remember("Ana rows.", user_id="ana", observed_at=NOW)
    assert memory.get(fact.id).expires_at is None  # type: ignore[union-attr]


# Whose rules.


def test_the_rules_are_listed_the_widest_first(memory: Memory) -> None:
    for given, number in reversed(RULES):
        memory.set_ttl(number, **given)  # type: ignore[arg-type]
    memory.set_ttl(12 * timedelta(hours=1))
    found = memory.ttls()
    assert found[:3] == [Ttl(Scope(), "", 0.5), Ttl(Scope(), "mood", 2), Ttl(Scope(agent_id="cook"), "", 6)]
    assert len(found) == len(RULES)


def test_a_handle_sets_and_sees_the_rules_of_its_scope(memory: Memory) -> None:
    memory.set_ttl(1)
    memory.set_ttl(2, user_id="bo")
    ana = memory.scope(user_id="ana")
    ana.set_ttl(3)
    ana.set_ttl(4, run_id="r1", kind="mood")
    assert [(rule.scope, rule.days) for rule in ana.ttls()] == [(Scope("ana"), 3), (Scope("ana", "", "r1"), 4)]
    with pytest.raises(InvalidInputError):
        ana.set_ttl(5, user_id="bo")
    memory.remember("Bo rows.", user_id="bo")
    assert ana.set_ttl(None, existing=True) == 0


def test_the_rules_of_a_scope_go_with_it(memory: Memory) -> None:
    for given, number in RULES:
        memory.set_ttl(number, **given)  # type: ignore[arg-type]
    memory.set_ttl(9, user_id="bo", kind="a kind that nobody may read")
    assert [rule.days for rule in memory.preview_delete_all(user_id="bo").ttls] == [9]
    receipt = memory.delete_all(user_id="bo")
    assert ("ttls", 1, 0) in [(place.name, place.before, place.after) for place in receipt.checked]
    assert receipt.clean
    assert b"a kind that nobody" not in memory.path.read_bytes()
    memory.delete_all(user_id="ana")
    assert [rule.days for rule in memory.ttls()] == [1, 2, 6]
    memory.delete_all(everything=True)
    assert memory.ttls() == []


def test_a_deletion_in_a_scope_leaves_the_rules(memory: Memory) -> None:
    memory.set_ttl(7, user_id="ana")
    memory.delete(memory.remember("Ana rows.", user_id="ana").facts[0].id)
    memory.delete_all(user_id="ana", run_id="r1")
    assert len(memory.ttls()) == 1


def test_what_expires_by_a_rule_can_be_pruned(learning: Memory) -> None:
    learning.set_ttl(7)
    learning.add("Ana has a cold.", user_id="ana", observed_at=NOW - 9 * DAY)
    assert [fact.text for fact in learning.prune(expired=True, dry_run=False).facts] == ["Ana has a cold."]
    assert not learning.search("cold", user_id="ana", past=True)


@pytest.mark.parametrize("ttl", [0, -1, "90d", True, float("nan"), float("inf"), timedelta(0), -DAY, 1e12])
def test_what_is_no_time_is_refused(memory: Memory, ttl: Any) -> None:
    with pytest.raises(InvalidInputError, match="days"):
        memory.set_ttl(ttl, user_id="ana")
    assert memory.ttls() == []


def test_the_file_holds_a_rule_once(memory: Memory) -> None:
    memory.set_ttl(7)
    memory.set_ttl(8, user_id="ana")
    stock = sqlite3.connect(memory.path)
    for scope_id in (None, 1):
        with pytest.raises(sqlite3.IntegrityError):
            stock.execute("INSERT INTO ttls(scope_id, milliseconds) VALUES (?, 1)", (scope_id,))
    stock.close()


# The command line.


def run(path: Path, *words: str, code: int = 0) -> Any:
    result = CliRunner().invoke(cli.main, [*words, "--db", str(path)])
    assert result.exit_code == code, result.output
    return result


def test_the_command_sets_shows_and_takes_away(path: Path) -> None:
    run(path, "ttl", "90d", "--kind", "plan", "--user", "ana")
    run(path, "ttl", "2w")
    assert run(path, "ttl").stdout.splitlines() == ["every scope  kind (any)  14d", "user_id=ana  kind plan   90d"]
    assert json.loads(run(path, "ttl", "--user", "ana", "--json").stdout) == [
        {"user_id": "ana", "agent_id": "", "run_id": "", "kind": "plan", "days": 90.0}
    ]
    run(path, "remember", "Ana sails in May.", "--kind", "plan", "--user", "ana")
    set_ = json.loads(run(path, "ttl", "never", "--kind", "plan", "--user", "ana", "--existing", "--json").stdout)
    assert set_["changed"] == 1
    assert [rule["days"] for rule in set_["ttls"]] == [14.0]
    run(path, "ttl", "never")
    shown = run(path, "ttl")
    assert (shown.stdout, "no rule" in shown.stderr) == ("", True)


@pytest.mark.parametrize("words", [["90"], ["0d"], ["-5d"], ["--kind", "plan"], ["--existing"]])
def test_the_command_refuses_what_is_no_rule(path: Path, words: list[str]) -> None:
    run(path, "remember", "Ana rows.")
    run(path, "ttl", *words, code=2)
    assert run(path, "ttl", "--json").stdout == "[]\n"


def test_a_deletion_shows_the_rules_that_go(path: Path) -> None:
    run(path, "ttl", "90d", "--user", "ana")
    shown = run(path, "delete", "--all", "--user", "ana", "--dry-run")
    assert shown.stdout.splitlines() == [
        "would delete the time to live user_id=ana  kind (any)  90d",
        "would forget user_id=ana",
    ]
