"""Vectors that are out of step with their rows, in every generation: finding them, and putting them right.

A vector is only taken away here; its row is then marked as having none, and `Semantic.catch_up` makes it.
"""

from __future__ import annotations

import apsw

from memlite import vectors
from memlite.schema import HEARD

# Of a vector of the embedder `e`, in bytes (vectors.Form).
_LENGTH = "iif(e.floats, 4 * e.dimension, (e.dimension + 7) / 8 * 8)"


def _tables(db: apsw.Connection) -> list[tuple[vectors.Kind, str]]:
    """The kinds of rows whose vectors have a table, and the tables of the rows."""
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    return [(kind, rows) for kind, rows in vectors.ROWS.items() if f"{kind}_vectors" in there]


def strays(db: apsw.Connection) -> list[tuple[str, int]]:
    """Vectors of rows that are gone, hidden or marked as having none, of no embedder or of another length than its, as
    (table, number).
    """
    found = []
    for kind, rows in _tables(db):
        hidden = "" if kind == "entity" else " OR t.archived_at IS NOT NULL"
        hidden += f" OR NOT {HEARD.format('t')}" if kind == "message" else ""
        strange = db.execute(
            f"""
            SELECT v.number FROM {kind}_vectors v
            LEFT JOIN {rows} t ON t.id = v.id LEFT JOIN embedder e ON e.number = v.made_by
            WHERE t.id IS NULL OR e.number IS NULL OR length(v.vector) <> {_LENGTH}
              OR (e.generation = 'serving' AND t.embedded = 0){hidden}
            """
        )
        found += [(f"{kind}_vectors", number) for (number,) in strange]
    return found


def delete_strays(db: apsw.Connection) -> None:
    """Take them away."""
    for table, number in strays(db):
        db.execute(f"DELETE FROM {table} WHERE number = ?", (number,))


def promised(db: apsw.Connection) -> list[tuple[str, int]]:
    """Rows marked as having a vector that have none, as (table, id)."""
    return [
        (rows, id_)
        for kind, rows in _tables(db)
        for (id_,) in db.execute(
            f"""
            SELECT id FROM {rows}
            WHERE embedded = 1 AND id NOT IN (SELECT id FROM {kind}_vectors WHERE made_by = ?)
            """,
            (vectors.form(db).made_by,),
        )
    ]


def take_back(db: apsw.Connection) -> None:
    """Mark them as having none."""
    for rows, id_ in promised(db):
        db.execute(f"UPDATE {rows} SET embedded = 0 WHERE id = ?", (id_,))


def misplaced(db: apsw.Connection) -> list[tuple[str, int, int]]:
    """Vectors whose scope is not that of their row, as (table, number, the scope it has to be)."""
    found = []
    for kind, rows in _tables(db):
        owner = "root_id" if kind == "entity" else "scope_id"
        table = f"{kind}_vectors"
        sql = f"SELECT v.number, t.{owner} FROM {table} v JOIN {rows} t ON t.id = v.id WHERE v.scope_id <> t.{owner}"
        found += [(table, number, scope_id) for number, scope_id in db.execute(sql)]
    return found


def place(db: apsw.Connection) -> None:
    """Put them into the scopes of their rows, under new numbers: other processes then see that they have changed."""
    for table, number, scope_id in misplaced(db):
        gone = f"DELETE FROM {table} WHERE number = ? RETURNING id, made_by, vector"
        ((id_, made_by, vector),) = list(db.execute(gone, (number,)))
        db.execute(
            f"INSERT INTO {table}(id, made_by, scope_id, vector) VALUES (?, ?, ?, ?)", (id_, made_by, scope_id, vector)
        )
