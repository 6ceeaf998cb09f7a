"""Vectors that are out of step with their rows, in every generation: finding them, and putting them right.

A vector is only taken away here; its row is then marked as having none, and `Semantic.catch_up` makes it.
"""

from __future__ import annotations

import apsw

from memlite import vectors
from memlite.schema import HEARD


def unsound(db: apsw.Connection) -> list[tuple[vectors.Kind, vectors.Generation, int | None]]:
    """Vector tables that cannot be read, or that nothing tells the embedder of, with the dimension that they need."""
    made_by = vectors.generations(db)
    found: list[tuple[vectors.Kind, vectors.Generation, int | None]] = []
    for generation in vectors.GENERATIONS:
        for kind in vectors.KINDS:
            if generation in made_by:
                if not vectors.sound(db, kind, generation):
                    found.append((kind, generation, made_by[generation].dimension))
            elif vectors.exists(db, kind, generation):
                found.append((kind, generation, None))
    return found


def remake(db: apsw.Connection) -> None:
    """Make them anew, empty, or remove those of no embedder."""
    for kind, generation, dimension in unsound(db):
        vectors.remake(db, kind, generation, dimension)


def _readable(db: apsw.Connection) -> list[tuple[vectors.Kind, vectors.Generation]]:
    tables = [(kind, generation) for generation in vectors.generations(db) for kind in vectors.KINDS]
    return [(kind, generation) for kind, generation in tables if vectors.sound(db, kind, generation)]


def strays(db: apsw.Connection) -> list[tuple[str, int]]:
    """Vectors of rows that are gone, hidden or marked as having none, as (table, id)."""
    found = []
    for kind, generation in _readable(db):
        hidden = "" if kind == "entity" else " OR t.archived_at IS NOT NULL"
        hidden += f" OR NOT {HEARD.format('t')}" if kind == "message" else ""
        unmarked = " OR t.embedded = 0" if generation == "serving" else ""
        name = vectors.table(kind, generation)
        rows = db.execute(
            f"""
            SELECT v.id FROM {name} v LEFT JOIN {vectors.ROWS[kind]} t ON t.id = v.id
            WHERE t.id IS NULL{hidden}{unmarked}
            """
        )
        found += [(name, id_) for (id_,) in rows]
    return found


def delete_strays(db: apsw.Connection) -> None:
    """Take them away."""
    for name, id_ in strays(db):
        db.execute(f"DELETE FROM {name} WHERE id = ?", (id_,))


def promised(db: apsw.Connection) -> list[tuple[str, int]]:
    """Rows marked as having a vector that have none, as (table, id)."""
    serving = {kind for kind, generation in _readable(db) if generation == "serving"}
    found = []
    for kind, rows in vectors.ROWS.items():
        without = f"AND id NOT IN (SELECT id FROM {vectors.table(kind)})" if kind in serving else ""
        found += [(rows, id_) for (id_,) in db.execute(f"SELECT id FROM {rows} WHERE embedded = 1 {without}")]
    return found


def take_back(db: apsw.Connection) -> None:
    """Mark them as having none."""
    for rows, id_ in promised(db):
        db.execute(f"UPDATE {rows} SET embedded = 0 WHERE id = ?", (id_,))


def mismarked(db: apsw.Connection) -> list[tuple[str, int, tuple[int, ...]]]:
    """Vectors whose scope, state or expiry is not that of their row, as (table, id, what it has to be)."""
    found = []
    for kind, generation in _readable(db):
        owner = "root_id" if kind == "entity" else "scope_id"
        living = f"t.live, coalesce(t.expires_at, {vectors.FOREVER})" if kind == "fact" else f"1, {vectors.FOREVER}"
        name = vectors.table(kind, generation)
        marks = f"s.user_key, s.agent_key, s.run_key, {living}"
        rows = db.execute(
            f"""
            SELECT v.id, {marks} FROM {name} v CROSS JOIN {vectors.ROWS[kind]} t ON t.id = v.id
            CROSS JOIN scopes s ON s.id = t.{owner}
            WHERE (v.user_key, v.agent_key, v.run_key, v.live, v.expires_at) IS NOT ({marks})
            """
        )
        found += [(name, id_, tuple(wanted)) for id_, *wanted in rows]
    return found


def mark(db: apsw.Connection) -> None:
    """Mark them as their rows are."""
    for name, id_, marks in mismarked(db):
        db.execute(
            f"UPDATE {name} SET user_key = ?, agent_key = ?, run_key = ?, live = ?, expires_at = ? WHERE id = ?",
            (*marks, id_),
        )
