"""The vec0 tables: one vector for each fact, message and entity, and the embedder that made them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import apsw

Kind = Literal["fact", "message", "entity"]
KINDS: tuple[Kind, ...] = ("fact", "message", "entity")

FOREVER = 2**63 - 1  # expires_at of a row that does not expire: vec0 metadata columns cannot be NULL

MOST = 4096  # neighbours sqlite-vec returns at most

# Rows in a chunk: vec0 allocates whole chunks, so 1,024 (its default) makes three empty tables 4.7 MB.
_CHUNK = 256


@dataclass(frozen=True, slots=True)
class Row:
    """A vector with what the index filters by."""

    id: int
    vector: bytes
    user_key: int
    agent_key: int
    run_key: int
    live: bool = True
    expires_at: int = FOREVER


@dataclass(frozen=True, slots=True)
class Identity:
    """What the file knows of the embedder that made its vectors."""

    name: str
    dimension: int
    probes: bytes


def identity(db: apsw.Connection) -> Identity | None:
    """The embedder of this file, None while it has no vectors."""
    row = db.execute("SELECT name, dimension, probes FROM embedder").fetchone()
    return Identity(*row) if row else None


def create(db: apsw.Connection, embedder: Identity) -> None:
    """Make the tables for vectors of this embedder; every row counts as not yet embedded."""
    drop(db)
    for kind in KINDS:
        db.execute(
            f"""
            CREATE VIRTUAL TABLE {kind}_vectors USING vec0(
              id INTEGER PRIMARY KEY, user_key INTEGER, agent_key INTEGER, run_key INTEGER, live INTEGER,
              expires_at INTEGER, embedding float[{int(embedder.dimension)}] distance_metric=cosine,
              chunk_size={_CHUNK})
            """
        )
    db.execute(
        "INSERT INTO embedder(id, name, dimension, probes) VALUES (1, ?, ?, ?)",
        (embedder.name, embedder.dimension, embedder.probes),
    )


def drop(db: apsw.Connection) -> None:
    """Remove all vectors, so that another embedder can begin."""
    for kind, table in (("fact", "facts"), ("message", "messages"), ("entity", "entities")):
        db.execute(f"DROP TABLE IF EXISTS {kind}_vectors")
        db.execute(f"UPDATE {table} SET embedded = 0 WHERE embedded = 1")
    db.execute("DELETE FROM embedder")


def insert(db: apsw.Connection, kind: Kind, rows: Iterable[Row], probes: bytes) -> None:
    """Store vectors and mark their rows as embedded. A row that has one already keeps it.

    probes: of the embedder that made them. If the file has another one by now nothing is stored, and the rows
    count as not embedded.
    """
    made_by = identity(db)
    if made_by is None or made_by.probes != probes:
        return
    table = {"fact": "facts", "message": "messages", "entity": "entities"}[kind]
    for row in rows:
        # vec0 knows no ON CONFLICT; the flag on the row says whether a vector is there.
        fresh = db.execute(f"UPDATE {table} SET embedded = 1 WHERE id = ? AND embedded = 0 RETURNING 1", (row.id,)).get
        if fresh:
            db.execute(
                f"""
                INSERT INTO {kind}_vectors(id, user_key, agent_key, run_key, live, expires_at, embedding)
                VALUES (?, ?, ?, ?, ?, ?, ?)
                """,
                (row.id, row.user_key, row.agent_key, row.run_key, int(row.live), row.expires_at, row.vector),
            )


def delete(db: apsw.Connection, kind: Kind, ids: Iterable[int]) -> None:
    """Remove the vectors of rows that go, or that change."""
    db.executemany(f"DELETE FROM {kind}_vectors WHERE id = ?", [(id_,) for id_ in ids])


def set_live(db: apsw.Connection, fact_id: int, live: bool) -> None:
    """Mark a fact's vector as current or past."""
    db.execute("UPDATE fact_vectors SET live = ? WHERE id = ?", (int(live), fact_id))


def expire(db: apsw.Connection, fact_id: int, expires_at: int | None) -> None:
    """Change when a fact's vector stops counting."""
    db.execute("UPDATE fact_vectors SET expires_at = ? WHERE id = ?", (expires_at or FOREVER, fact_id))


def fetch(db: apsw.Connection, kind: Kind, id_: int) -> bytes | None:
    """One stored vector, float32 little-endian."""
    vector: bytes | None = db.execute(f"SELECT embedding FROM {kind}_vectors WHERE id = ?", (id_,)).get
    return vector


def nearest(
    db: apsw.Connection,
    kind: Kind,
    query: bytes,
    keys: dict[str, int],
    k: int,
    now: int | None,
    within: tuple[str, Sequence[object]] | None = None,
) -> list[tuple[int, float]]:
    """The k nearest living rows, as (row id, cosine similarity clipped to [0, 1]), nearest first.

    now: the UTC milliseconds at which they live; None: past rows as well. keys: the scope's keys (see scopes.Reach).
    within: an SQL query of the row ids that may be returned.
    """
    conditions = "".join(f" AND {name} = ?" for name in keys)
    bindings: list[object] = [query, min(k, MOST), *keys.values()]
    if now is not None:
        conditions += " AND live = 1 AND expires_at > ?"
        bindings.append(now)
    if within:
        conditions += f" AND id IN ({within[0]})"
        bindings += within[1]
    rows = db.execute(
        f"""
        SELECT id, distance FROM {kind}_vectors
        WHERE embedding MATCH ? AND k = ? {conditions}
        """,
        bindings,
    )
    return [(id_, similarity(distance)) for id_, distance in rows]


def similarities(db: apsw.Connection, kind: Kind, query: bytes, ids: Iterable[int]) -> dict[int, float]:
    """The similarity of given rows to a query, for those that have a vector."""
    rows = db.execute(
        f"""
        SELECT v.id, vec_distance_cosine(v.embedding, ?) FROM json_each(?) wanted
        CROSS JOIN {kind}_vectors v ON v.id = wanted.value
        """,
        (query, json.dumps(list(ids))),
    )
    return {id_: similarity(distance) for id_, distance in rows}


def similarity(distance: float | None) -> float:
    """Cosine distance (0 to 2) as similarity; a vector of zeros has none and resembles nothing."""
    return 0.0 if distance is None else min(1.0, max(0.0, 1.0 - distance))
