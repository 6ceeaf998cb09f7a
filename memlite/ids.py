"""What an id, or enough of its beginning, means: one lookup for every kind of row that has one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import apsw

# Of each table: the column that says whose a row is, and which rows have an id that people know (over the alias `t`).
_TABLES = {
    "facts": ("scope_id", "t.recorded_to IS NULL"),  # what a fact said before an update has no say
    "messages": ("scope_id", "1"),
    "entities": ("root_id", "1"),
    "batches": ("scope_id", "1"),
}


def find(
    db: apsw.Connection,
    table: Literal["facts", "messages", "entities", "batches"],
    prefix: str,
    sql: str,
    bindings: Sequence[object],
) -> list[tuple[int, str]]:
    """Rows whose id begins with `prefix`, within a scope (`sql` over the alias `s`): up to three (row id, id)."""
    owner, condition = _TABLES[table]
    rows = db.execute(
        f"""
        SELECT t.id, t.uid FROM {table} t JOIN scopes s ON s.id = t.{owner}
        WHERE t.uid >= ? AND t.uid < ? || 'g' AND {condition} AND {sql} LIMIT 3
        """,
        (prefix, prefix, *bindings),
    )
    return list(rows)
