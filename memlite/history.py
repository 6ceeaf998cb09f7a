"""The events table: what happened to each fact, by whom and why. Append-only."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import apsw

from memlite import instants
from memlite.records import Event, Scope

Action = Literal["ADD", "CONFIRM", "UPDATE", "SUPERSEDE", "EXPIRE", "ARCHIVE", "RESTORE", "DELETE", "MERGE"]


def record(
    db: apsw.Connection,
    action: Action,
    fact_uid: str,
    scope_id: int,
    at: int,
    *,
    batch_id: int | None = None,
    actor: str = "",
    reason: str = "",
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Append one event. An ADD carries no text: the fact's row holds it."""
    db.execute(
        """
        INSERT INTO events(fact_uid, action, scope_id, batch_id, actor, reason, before, after, at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (fact_uid, action, scope_id, batch_id, actor, reason, _dump(before), _dump(after), at),
    )


def of_fact(db: apsw.Connection, fact_uid: str) -> list[Event]:
    """Every event of a fact, oldest first; a deleted fact's events have lost their words."""
    return _events(db, "e.fact_uid = ?", (fact_uid,), "ORDER BY e.id")


def of_reach(db: apsw.Connection, sql: str, bindings: Sequence[object], limit: int) -> list[Event]:
    """The newest events of a scope, newest first. `sql` is a condition over the scopes alias `s`."""
    return _events(db, sql, bindings, f"ORDER BY e.id DESC LIMIT {int(limit)}")


def of_batch(db: apsw.Connection, batch_id: int) -> list[Event]:
    """Every event of a batch, oldest first."""
    return _events(db, "e.batch_id = ?", (batch_id,), "ORDER BY e.id")


def last_by_undo(db: apsw.Connection, fact_uid: str, action: Action) -> bool:
    """Whether it was by an undo, and not by hand, that this last happened to a fact."""
    undoes = db.execute(
        """
        SELECT b.undoes FROM events e LEFT JOIN batches b ON b.id = e.batch_id
        WHERE e.fact_uid = ? AND e.action = ? ORDER BY e.id DESC LIMIT 1
        """,
        (fact_uid, action),
    ).get
    return undoes is not None


def replacements(db: apsw.Connection, fact_uid: str) -> list[tuple[int | None, str]]:
    """What has replaced a fact: (row id of the batch that said so, id of the fact). An undo only says it again."""
    rows = db.execute(
        """
        SELECT e.batch_id, e.after ->> '$.replaced_by' FROM events e LEFT JOIN batches b ON b.id = e.batch_id
        WHERE e.fact_uid = ? AND e.action = 'SUPERSEDE' AND e.after IS NOT NULL AND b.undoes IS NULL ORDER BY e.id
        """,
        (fact_uid,),
    )
    return [(batch_id, by) for batch_id, by in rows]


def batches_saying(db: apsw.Connection, fact_id: int) -> list[int]:
    """The row ids of the batches that added or confirmed a fact."""
    return list(dict.fromkeys(batch_id for batch_id, _ in sayings(db, fact_id)))


def sayings(db: apsw.Connection, fact_id: int) -> list[tuple[int, int]]:
    """When a fact was said by which batch: (batch row id, UTC milliseconds)."""
    rows = db.execute(
        """
        SELECT e.batch_id, coalesce(e.after ->> '$.observed_at', f.observed_at)
        FROM facts f JOIN events e ON e.fact_uid = f.uid
        WHERE f.id = ? AND e.action IN ('ADD', 'CONFIRM') AND e.batch_id IS NOT NULL ORDER BY e.id
        """,
        (fact_id,),
    )
    return [(batch_id, int(at)) for batch_id, at in rows]


def find(db: apsw.Connection, prefix: str, sql: str, bindings: Sequence[object]) -> list[str]:
    """The ids of facts with events, living or deleted, that begin with `prefix`, within a scope."""
    rows = db.execute(
        f"""
        SELECT DISTINCT e.fact_uid FROM events e JOIN scopes s ON s.id = e.scope_id
        WHERE e.fact_uid >= ? AND e.fact_uid < ? || 'g' AND {sql} LIMIT 3
        """,
        (prefix, prefix, *bindings),
    )
    return [uid for (uid,) in rows]


def blank(db: apsw.Connection, fact_uid: str) -> None:
    """Take the words out of a fact's events; the identifier, the action and the time stay."""
    db.execute("UPDATE events SET before = NULL, after = NULL, reason = '' WHERE fact_uid = ?", (fact_uid,))


def _events(db: apsw.Connection, condition: str, bindings: Sequence[object], order: str) -> list[Event]:
    rows = db.execute(
        f"""
        SELECT e.id, e.fact_uid, e.action, s.user_id, s.agent_id, s.run_id, b.uid, e.actor, e.reason,
               e.before, e.after, e.at, coalesce(
                 (SELECT json_extract(u.before, '$.text') FROM events u
                  WHERE u.fact_uid = e.fact_uid AND u.id > e.id AND u.before IS NOT NULL ORDER BY u.id LIMIT 1), f.text)
        FROM events e JOIN scopes s ON s.id = e.scope_id LEFT JOIN batches b ON b.id = e.batch_id
        LEFT JOIN facts f ON f.uid = e.fact_uid
        WHERE {condition} {order}
        """,
        bindings,
    )
    return [
        Event(
            id=row[0],
            fact=row[1],
            action=row[2],
            scope=Scope(row[3], row[4], row[5]),
            batch=row[6],
            actor=row[7],
            reason=row[8],
            before=None if row[9] is None else json.loads(row[9]),
            after=None if row[10] is None else json.loads(row[10]),
            at=instants.local(row[11]),
            text=row[12],
        )
        for row in rows
    ]


def _dump(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)
