"""The ttls table: how long facts count that are stored from then on. Of several rules the most specific one holds."""

from __future__ import annotations

import json
from collections.abc import Sequence

import apsw

from memlite.records import Scope, Ttl
from memlite.scopes import StoredScope


def put(db: apsw.Connection, scope_id: int | None, kind: str, milliseconds: int | None) -> None:
    """Set the rule for a scope (None: all) and a kind ("": all), or take it away."""
    db.execute("DELETE FROM ttls WHERE scope_id IS ? AND kind = ?", (scope_id, kind))
    if milliseconds is not None:
        db.execute("INSERT INTO ttls(scope_id, kind, milliseconds) VALUES (?, ?, ?)", (scope_id, kind, milliseconds))


def holding(db: apsw.Connection, scope: StoredScope, kind: str) -> int | None:
    """The milliseconds that facts of a scope and a kind count, None where no rule is for them.

    A rule is for every scope that has all of its ids. The one with more ids holds, of these the one for the kind, and
    of two as specific the shorter one.
    """
    milliseconds: int | None = db.execute(
        """
        SELECT t.milliseconds FROM ttls t LEFT JOIN scopes s ON s.id = t.scope_id
        WHERE t.kind IN ('', ?) AND (t.scope_id IS NULL OR (
          s.user_key IN (0, ?) AND s.agent_key IN (0, ?) AND s.run_key IN (0, ?)))
        ORDER BY coalesce((s.user_key > 0) + (s.agent_key > 0) + (s.run_key > 0), 0) DESC, t.kind DESC, t.milliseconds
        LIMIT 1
        """,
        (kind, scope.user_key, scope.agent_key, scope.run_key),
    ).get
    return milliseconds


def in_reach(db: apsw.Connection, sql: str, bindings: Sequence[object]) -> list[int]:
    """The row ids of the rules that `sql` (alias `s`, absent where a rule is for every scope) admits."""
    rows = db.execute(f"SELECT t.id FROM ttls t LEFT JOIN scopes s ON s.id = t.scope_id WHERE {sql}", bindings)
    return [id_ for (id_,) in rows]


def fetch(db: apsw.Connection, ids: Sequence[int]) -> list[Ttl]:
    """Rules by row id, the widest first."""
    rows = db.execute(
        """
        SELECT s.user_id, s.agent_id, s.run_id, t.kind, t.milliseconds
        FROM ttls t LEFT JOIN scopes s ON s.id = t.scope_id WHERE t.id IN (SELECT value FROM json_each(?))
        ORDER BY s.user_id, s.agent_id, s.run_id, t.kind
        """,
        (json.dumps(list(ids)),),
    )
    return [
        Ttl(Scope(user or "", agent or "", run or ""), kind, milliseconds / 86_400_000)
        for user, agent, run, kind, milliseconds in rows
    ]


def delete(db: apsw.Connection, ids: Sequence[int]) -> None:
    """Take rules away, by row id."""
    db.execute("DELETE FROM ttls WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(ids)),))
