"""The events table: what happened to each fact, by whom and why. Append-only."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import apsw

from memlite import instants
from memlite.records import Event, Scope
from memlite.words import fold

Action = Literal["ADD", "CONFIRM", "UPDATE", "SUPERSEDE", "EXPIRE", "ARCHIVE", "RESTORE", "DELETE", "MERGE"]


class Saying(NamedTuple):
    """That a batch (row id) said a fact at an instant, and since when it was true by that, UTC milliseconds."""

    batch_id: int
    at: int
    since: int


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


def of_reach(
    db: apsw.Connection, sql: str, bindings: Sequence[object], limit: int, before: int | None = None
) -> list[Event]:
    """The newest events of a scope, newest first. `sql` is a condition over the scopes alias `s`. before: row id of an
    event, of which only earlier ones count.
    """
    below = f"{sql} AND e.id < {int(before)}" if before is not None else sql
    return _events(db, below, bindings, f"ORDER BY e.id DESC LIMIT {int(limit)}")


def of_batch(db: apsw.Connection, batch_id: int) -> list[Event]:
    """Every event of a batch, oldest first."""
    return _events(db, "e.batch_id = ?", (batch_id,), "ORDER BY e.id")


def last_batch(db: apsw.Connection, fact_uid: str, action: Action) -> int | None:
    """Row id of the batch as part of which this last happened to a fact; None: by hand, or never."""
    batch_id: int | None = db.execute(
        "SELECT batch_id FROM events WHERE fact_uid = ? AND action = ? ORDER BY id DESC LIMIT 1", (fact_uid, action)
    ).get
    return batch_id


# The last event by which a fact was reopened by hand: what ended it before does no longer.
_REOPENED = """
coalesce((
  SELECT max(r.id) FROM events r LEFT JOIN batches rb ON rb.id = r.batch_id
  WHERE r.fact_uid = ?1 AND r.action = 'RESTORE' AND r.before ->> '$.archived_at' IS NULL AND rb.undoes IS NULL), 0)
"""


def replacements(db: apsw.Connection, fact_uid: str) -> list[tuple[int | None, str, int]]:
    """What has replaced a fact: (row id of the batch that said so, id of the fact, UTC milliseconds until when the fact
    was true by that). An undo only says it again.
    """
    rows = db.execute(
        f"""
        SELECT e.batch_id, e.after ->> '$.replaced_by', e.after ->> '$.valid_to'
        FROM events e LEFT JOIN batches b ON b.id = e.batch_id
        WHERE e.fact_uid = ?1 AND e.action = 'SUPERSEDE' AND e.after ->> '$.replaced_by' IS NOT NULL
          AND b.undoes IS NULL AND e.id > {_REOPENED}
        ORDER BY e.id
        """,
        (fact_uid,),
    )
    return [(batch_id, by, at) for batch_id, by, at in rows]


def forget_replacement(db: apsw.Connection, fact_id: int, by: int) -> None:
    """Take out of a fact's events that another one replaced it (both by row id)."""
    db.execute(
        """
        UPDATE events SET after = NULL
        WHERE fact_uid = (SELECT uid FROM facts WHERE id = ?) AND action = 'SUPERSEDE'
          AND after ->> '$.replaced_by' = (SELECT uid FROM facts WHERE id = ?)
        """,
        (fact_id, by),
    )


def ended(db: apsw.Connection, fact_uid: str) -> int | None:
    """When a fact was closed because its time was over, in UTC milliseconds; None where not, or reopened since."""
    at: int | None = db.execute(
        f"""
        SELECT coalesce(e.after ->> '$.valid_to', f.expires_at, f.valid_to)  -- a deletion may have blanked the event
        FROM events e JOIN facts f ON f.uid = e.fact_uid
        WHERE e.fact_uid = ?1 AND e.action = 'EXPIRE' AND e.id > {_REOPENED} ORDER BY e.id DESC LIMIT 1
        """,
        (fact_uid,),
    ).get
    return at


def batches_saying(db: apsw.Connection, fact_id: int) -> list[int]:
    """The row ids of the batches that added or confirmed a fact."""
    return list(dict.fromkeys(said.batch_id for said in sayings(db, fact_id)))


def sayings(db: apsw.Connection, fact_id: int) -> list[Saying]:
    """When a fact was said by which batch."""
    rows = db.execute(
        """
        SELECT batch_id, at, CASE action WHEN 'ADD' THEN begins ELSE coalesce(since, at) END FROM (
          SELECT e.id, e.batch_id, e.action, coalesce(e.after ->> '$.observed_at', f.observed_at) AS at,
                 e.after ->> '$.since' AS since, coalesce(f.begins, f.valid_from) AS begins
          FROM facts f JOIN events e ON e.fact_uid = f.uid
          WHERE f.id = ? AND e.action IN ('ADD', 'CONFIRM') AND e.batch_id IS NOT NULL
            AND e.after ->> '$.joined' IS NULL AND NOT EXISTS (
              SELECT 1 FROM events u JOIN batches b ON b.uid = u.after ->> '$.no_longer_by'
              WHERE u.fact_uid = f.uid AND u.id > e.id AND u.action = 'UPDATE' AND b.id = e.batch_id))
        ORDER BY id
        """,
        (fact_id,),
    )
    return [Saying(batch_id, int(at), int(since)) for batch_id, at, since in rows]


def unsay(db: apsw.Connection, fact_id: int, batch_id: int, at: int, actor: str) -> None:
    """Note that a batch says a fact no longer: the messages of it that did are deleted."""
    uid, scope_id = next(db.execute("SELECT uid, scope_id FROM facts WHERE id = ?", (fact_id,)))
    batch_uid: str = db.execute("SELECT uid FROM batches WHERE id = ?", (batch_id,)).get
    about = {"no_longer_by": batch_uid}
    # before: an UPDATE without it has lost the words of another one.
    record(db, "UPDATE", uid, scope_id, at, actor=actor, reason="a message was deleted", before={}, after=about)


def joined(db: apsw.Connection, fact_id: int) -> list[tuple[int, int]]:
    """Which facts a fix has joined to this one: (row id of the batch, row id of the fact)."""
    rows = db.execute(
        """
        SELECT e.batch_id, o.id FROM facts f JOIN events e ON e.fact_uid = f.uid
        JOIN facts o ON o.uid = e.after ->> '$.joined'
        WHERE f.id = ? AND e.action = 'CONFIRM' ORDER BY e.id
        """,
        (fact_id,),
    )
    return list(rows)


def joined_to(db: apsw.Connection, fact_id: int) -> list[int]:
    """The row ids of the facts that a fix has joined this one to."""
    rows = db.execute(
        """
        SELECT DISTINCT o.id FROM facts f JOIN events e ON e.fact_uid = f.uid
        JOIN facts o ON o.uid = e.after ->> '$.merged_into'
        WHERE f.id = ? AND e.action = 'MERGE'
        """,
        (fact_id,),
    )
    return [id_ for (id_,) in rows]


def merges(db: apsw.Connection, batch_id: int) -> list[Event]:
    """Every MERGE of a batch, and of what undid it or undid that, oldest first."""
    line = """
        e.action = 'MERGE' AND e.batch_id IN (
          WITH RECURSIVE line(id) AS (VALUES (?) UNION SELECT b.id FROM batches b JOIN line ON b.undoes = line.id)
          SELECT id FROM line)"""
    return _events(db, line, (batch_id,), "ORDER BY e.id")


def archivings(db: apsw.Connection, fact_uid: str) -> list[tuple[str, int | None]]:
    """When a fact was archived, and restored, but not by an undo: (action, row id of the batch), in order."""
    rows = db.execute(
        """
        SELECT e.action, e.batch_id FROM events e LEFT JOIN batches b ON b.id = e.batch_id
        WHERE e.fact_uid = ? AND e.action IN ('ARCHIVE', 'RESTORE') AND b.undoes IS NULL ORDER BY e.id
        """,
        (fact_uid,),
    )
    return list(rows)


def kept_by_hand(db: apsw.Connection, fact_id: int) -> bool:
    """Whether somebody has restored by hand what an undo had archived, and has not archived it by hand since."""
    rows = db.execute(
        """
        SELECT e.action, e.batch_id IS NULL, b.undoes IS NOT NULL
        FROM facts f JOIN events e ON e.fact_uid = f.uid LEFT JOIN batches b ON b.id = e.batch_id
        WHERE f.id = ? AND e.action IN ('ARCHIVE', 'RESTORE') ORDER BY e.id
        """,
        (fact_id,),
    )
    undone = kept = False
    for action, by_hand, by_undo in rows:
        if action == "RESTORE":
            kept = kept or bool(undone and by_hand)
            undone = False
        else:
            undone, kept = bool(by_undo), kept and not by_hand
    return kept


def vouched(db: apsw.Connection, fact_id: int) -> list[int]:
    """When somebody restored a fact by hand, or gave it another text or expiry, in UTC milliseconds."""
    rows = db.execute(
        """
        SELECT e.at FROM facts f JOIN events e ON e.fact_uid = f.uid
        WHERE f.id = ? AND e.batch_id IS NULL AND (e.action = 'RESTORE' OR e.action = 'UPDATE' AND e.reason = ''
          AND (e.before ->> '$.text' IS NOT e.after ->> '$.text'
               OR e.before ->> '$.expires_at' IS NOT e.after ->> '$.expires_at'))
        ORDER BY e.id
        """,
        (fact_id,),
    )
    return [at for (at,) in rows]


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


def forget_reasons(db: apsw.Connection, names: Sequence[str], sql: str, bindings: Sequence[object]) -> int:
    """Take the reasons of a scope's events away that have any of these normalised names; return how many did."""
    named = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})(?!\w)")
    told = db.execute(
        f"SELECT e.id, e.reason FROM events e JOIN scopes s ON s.id = e.scope_id WHERE e.reason <> '' AND {sql}",
        bindings,
    )
    found = [id_ for id_, reason in told if named.search(fold(reason))]
    db.executemany("UPDATE events SET reason = '' WHERE id = ?", [(id_,) for id_ in found])
    return len(found)


def _events(db: apsw.Connection, condition: str, bindings: Sequence[object], order: str) -> list[Event]:
    rows = db.execute(
        f"""
        SELECT e.id, e.fact_uid, e.action, s.user_id, s.agent_id, s.run_id, b.uid, e.actor, e.reason,
               e.before, e.after, e.at, coalesce(
                 (SELECT json_extract(u.before, '$.text') FROM events u
                  WHERE u.fact_uid = e.fact_uid AND u.id > e.id AND u.action = 'UPDATE' AND u.before IS NOT NULL
                  ORDER BY u.id LIMIT 1), f.text)
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
