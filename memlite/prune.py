"""Which facts and messages have had their time, by rules that the caller names. Nothing is chosen by itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import apsw

from memlite import batches, facts, forget
from memlite.forget import Deletion


@dataclass(frozen=True, slots=True)
class Rules:
    """What may go. expired: facts whose time is over. replaced: facts that were replaced longer ago than this.

    unconfirmed: current facts that nobody has said for so long. most: current facts beyond so many in one scope, those
    that were confirmed longest ago first. messages: what was said longer ago, but for what waits for extraction; the
    facts learnt from it stay.
    """

    expired: bool = False
    replaced: timedelta | None = None
    unconfirmed: timedelta | None = None
    most: int | None = None
    messages: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """Row ids by the rule that chose them, and the deletion that they come to."""

    by_rule: dict[str, list[int]]
    deletion: Deletion


_FACTS = "SELECT f.id FROM facts f JOIN scopes s ON s.id = f.scope_id WHERE"


def choose(db: apsw.Connection, rules: Rules, now: int, sql: str, bindings: Sequence[object]) -> Chosen:
    """What the rules choose in a scope (`sql` over the alias `s`). A fact takes its messages along, as in `delete`."""
    by_rule: dict[str, list[int]] = {}

    def add(rule: str, statement: str, *values: object) -> None:
        by_rule[rule] = [id_ for (id_,) in db.execute(statement, (*values, *bindings))]

    if rules.expired:
        add("expired", f"{_FACTS} {facts.KEPT} AND f.expires_at <= ? AND {sql}", now)
    if rules.replaced is not None:
        add(
            "replaced",
            f"""
            {_FACTS} {facts.KEPT} AND f.live = 0 AND (
              SELECT max(e.at) FROM events e WHERE e.fact_uid = f.uid AND e.action = 'SUPERSEDE') <= ? AND {sql}
            """,
            _before(now, rules.replaced),
        )
    if rules.unconfirmed is not None:
        add(
            "unconfirmed",
            f"{_FACTS} {facts.CURRENT} AND f.last_confirmed_at <= ? AND {sql}",
            _before(now, rules.unconfirmed),
        )
    if rules.most is not None:
        add(
            "most",
            f"""
            SELECT id FROM (
              SELECT f.id AS id, row_number() OVER (
                PARTITION BY f.scope_id ORDER BY f.last_confirmed_at DESC, f.id DESC) AS place, ? AS most
              FROM facts f JOIN scopes s ON s.id = f.scope_id WHERE {facts.CURRENT} AND {sql})
            WHERE place > most
            """,
            rules.most,
        )
    gone = forget.of_facts(db, sorted({id_ for ids in by_rule.values() for id_ in ids}), False, sql, bindings)
    if rules.messages is not None:
        add(
            "messages",
            f"""
            SELECT m.id FROM messages m JOIN scopes s ON s.id = m.scope_id JOIN batches b ON b.id = m.batch_id
            WHERE m.observed_at <= ? AND {sql} AND b.state <> 'queued' AND NOT {batches.LEFT_QUEUE}
            """,
            _before(now, rules.messages),
        )
    # What waits for extraction was promised not to be lost.
    waiting = _waiting(db, gone.messages)
    kept_messages = sorted({*gone.messages, *by_rule.get("messages", ())} - waiting)
    return Chosen(by_rule, Deletion(gone.facts, gone.versions, tuple(kept_messages), gone.entities))


def _before(now: int, age: timedelta) -> int:
    return now - round(age.total_seconds() * 1000)


def _waiting(db: apsw.Connection, message_ids: Sequence[int]) -> set[int]:
    rows = db.execute(
        """
        SELECT m.id FROM messages m JOIN batches b ON b.id = m.batch_id
        WHERE m.id IN (SELECT value FROM json_each(?)) AND b.state = 'queued'
        """,
        (json.dumps(list(message_ids)),),
    )
    return {id_ for (id_,) in rows}
