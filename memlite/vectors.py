"""The vec0 tables: one vector for each fact, message and entity, and the embedder that made them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import apsw

from memlite.db import discard

# The cosines that the default embedder gives the texts of embed.PAIRS (see embed.calibration); another embedder's are
# brought to its scale, so that a similarity, and every weight and floor that was fitted on it, means the same.
APART, ALIKE = 0.101, 0.566
_SAME_SCALE = 0.02  # a runtime or a quantisation of the default model stays this close
_TOLD_APART = 2.0  # standard deviations; what tells a question's answer from others no better has no scale

Kind = Literal["fact", "message", "entity"]
KINDS: tuple[Kind, ...] = ("fact", "message", "entity")

FOREVER = 2**63 - 1  # expires_at of a row that does not expire: vec0 metadata columns cannot be NULL

MOST = 4096  # neighbours sqlite-vec returns at most

# Rows in a chunk: vec0 allocates whole chunks, so 1,024 (its default) makes three empty tables 4.7 MB.
_CHUNK = 256

ROWS: dict[Kind, str] = {"fact": "facts", "message": "messages", "entity": "entities"}

# What vec0 calls the tables that it keeps beside one of ours.
_BLOBS = ("vector_chunks00", *(f"metadatachunks{column:02}" for column in range(5)))  # a row for each chunk
_PARTS = ("info", "chunks", "rowids", *_BLOBS)


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


Generation = Literal["serving", "building", "previous"]
GENERATIONS: tuple[Generation, ...] = ("serving", "building", "previous")


def generations(db: apsw.Connection) -> dict[Generation, Identity]:
    """The embedders of this file's vectors: those that answer, those a `reembed` is making, those before the last."""
    rows = db.execute("SELECT generation, name, dimension, probes FROM embedder")
    return {generation: Identity(*identity) for generation, *identity in rows}


def identity(db: apsw.Connection, generation: Generation = "serving") -> Identity | None:
    """The embedder of this file, None while it has no vectors."""
    return generations(db).get(generation)


def calibrated(db: apsw.Connection) -> bool:
    """Whether the file knows the scale of its embedder."""
    return bool(db.execute("SELECT count(alike) FROM embedder WHERE generation = 'serving'").get)


def calibrate(db: apsw.Connection, embedder: Identity, found: tuple[float, float, float]) -> None:
    """Keep the scale of the file's embedder (see embed.calibration), if it still is this one."""
    db.execute(
        "UPDATE embedder SET apart = ?, spread = ?, alike = ? WHERE generation = 'serving' AND probes = ?",
        (*found, embedder.probes),
    )


def _scale(db: apsw.Connection) -> tuple[float, float]:
    """The factor and the constant that make a similarity on the default embedder's scale of a cosine."""
    row = db.execute("SELECT apart, spread, alike FROM embedder WHERE generation = 'serving'").fetchone()
    apart, spread, alike = row if row and row[2] is not None else (APART, 0.0, ALIKE)
    same = abs(apart - APART) < _SAME_SCALE and abs(alike - ALIKE) < _SAME_SCALE
    if same or alike - apart <= _TOLD_APART * spread:
        return 1.0, 0.0
    factor = (ALIKE - APART) / (alike - apart)
    return factor, APART - factor * apart


def table(kind: Kind, generation: Generation | Literal["leaving"] = "serving") -> str:
    """The name of a vec0 table."""
    return f"{kind}_vectors" if generation == "serving" else f"{kind}_vectors_{generation}"


def create(db: apsw.Connection, embedder: Identity, generation: Generation = "serving") -> None:
    """Make empty tables for vectors of this embedder, in place of those of this generation."""
    drop(db, generation)
    for kind in KINDS:
        _make(db, table(kind, generation), embedder.dimension)
    db.execute(
        "INSERT INTO embedder(generation, name, dimension, probes) VALUES (?, ?, ?, ?)",
        (generation, embedder.name, embedder.dimension, embedder.probes),
    )


def _make(db: apsw.Connection, name: str, dimension: int) -> None:
    db.execute(
        f"""
        CREATE VIRTUAL TABLE {name} USING vec0(
          id INTEGER PRIMARY KEY, user_key INTEGER, agent_key INTEGER, run_key INTEGER, live INTEGER,
          expires_at INTEGER, embedding float[{int(dimension)}] distance_metric=cosine, chunk_size={_CHUNK})
        """
    )


def drop(db: apsw.Connection, generation: Generation = "serving") -> None:
    """Remove the vectors of a generation, if there are any."""
    for kind in KINDS:
        db.execute(f"DROP TABLE IF EXISTS {table(kind, generation)}")
        if generation == "serving":
            db.execute(f"UPDATE {ROWS[kind]} SET embedded = 0 WHERE embedded = 1")
    db.execute("DELETE FROM embedder WHERE generation = ?", (generation,))


def exchange(db: apsw.Connection, other: Generation) -> None:
    """Let another generation answer, and keep the one that did until now as the previous one.

    Rows that have no vector in it count as not embedded.
    """
    if other == "building":
        drop(db, "previous")
    _move(db, "serving", "leaving")
    _move(db, other, "serving")
    _move(db, "leaving", "previous")
    for kind, rows in ROWS.items():
        there = f"SELECT id FROM {table(kind)}"
        db.execute(f"UPDATE {rows} SET embedded = 0 WHERE embedded = 1 AND id NOT IN ({there})")
        db.execute(f"UPDATE {rows} SET embedded = 1 WHERE embedded = 0 AND id IN ({there})")


def _move(db: apsw.Connection, old: Generation | Literal["leaving"], new: Generation | Literal["leaving"]) -> None:
    """Make a generation, if it is there, another one."""
    if db.execute("UPDATE embedder SET generation = ? WHERE generation = ? RETURNING 1", (new, old)).get:
        for kind in KINDS:
            _rename(db, table(kind, old), table(kind, new))


def _rename(db: apsw.Connection, old: str, new: str) -> None:
    """Rename a vec0 table together with the tables it keeps its content in, which it does not do itself."""
    db.execute(f"ALTER TABLE {old} RENAME TO {new}")
    for part in _PARTS:
        db.execute(f"ALTER TABLE {old}_{part} RENAME TO {new}_{part}")


def _parts(db: apsw.Connection, name: str) -> set[str]:
    """What is there of a table: its own name, and those of the tables that vec0 keeps beside it."""
    there = {found for (found,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    return there.intersection({name, *(f"{name}_{part}" for part in _PARTS)})


def exists(db: apsw.Connection, kind: Kind, generation: Generation = "serving") -> bool:
    """Whether anything of a table is there."""
    return bool(_parts(db, table(kind, generation)))


def sound(db: apsw.Connection, kind: Kind, generation: Generation = "serving") -> bool:
    """Whether a table and all that vec0 keeps beside it are there and agree about which rows have a vector.

    Stock `sqlite3` may write to what is beside it. Where that disagrees vec0 finds rows twice, or crashes.
    """
    name = table(kind, generation)
    if len(_parts(db, name)) <= len(_PARTS):
        return False
    for part in _BLOBS:
        lacking = f"SELECT 1 FROM {name}_chunks WHERE chunk_id NOT IN (SELECT rowid FROM {name}_{part})"
        if db.execute(lacking).get:
            return False
    chunks = {
        id_: (int.from_bytes(valid, "little"), rowids)
        for id_, valid, rowids in db.execute(f"SELECT chunk_id, validity, rowids FROM {name}_chunks")
    }
    rows = list(db.execute(f"SELECT rowid, chunk_id, chunk_offset FROM {name}_rowids"))
    return sum(valid.bit_count() for valid, _ in chunks.values()) == len(rows) and all(
        chunk in chunks
        and chunks[chunk][0] >> at & 1
        and int.from_bytes(chunks[chunk][1][8 * at : 8 * at + 8], "little") == id_
        for id_, chunk, at in rows
    )


def remake(db: apsw.Connection, kind: Kind, generation: Generation, dimension: int | None) -> None:
    """Make a table anew, empty, whatever is left of it; None: only remove it."""
    name = table(kind, generation)
    discard(db, name, _PARTS)
    if dimension is not None:
        _make(db, name, dimension)
    if generation == "serving":
        db.execute(f"UPDATE {ROWS[kind]} SET embedded = 0 WHERE embedded = 1")


def insert(db: apsw.Connection, kind: Kind, rows: Iterable[Row], probes: bytes) -> None:
    """Store vectors and mark their rows as embedded. A row that has one already keeps it.

    probes: of the embedder that made them. If the file has another one by now nothing is stored, and the rows
    count as not embedded.
    """
    made_by = identity(db)
    if made_by is None or made_by.probes != probes:
        return
    for row in rows:
        # vec0 knows no ON CONFLICT; the flag on the row says whether a vector is there.
        fresh = db.execute(
            f"UPDATE {ROWS[kind]} SET embedded = 1 WHERE id = ? AND embedded = 0 RETURNING 1", (row.id,)
        ).get
        if fresh:
            _put(db, table(kind), row)


def build(db: apsw.Connection, kind: Kind, rows: Iterable[Row]) -> None:
    """Store vectors of the generation that is being made, of rows that are there and have none in it."""
    name = table(kind, "building")
    for row in rows:
        if not db.execute(f"SELECT 1 FROM {name} WHERE id = ?", (row.id,)).get:
            _put(db, name, row)


def _put(db: apsw.Connection, name: str, row: Row) -> None:
    db.execute(
        f"""
        INSERT INTO {name}(id, user_key, agent_key, run_key, live, expires_at, embedding)
        VALUES (?, ?, ?, ?, ?, ?, ?)
        """,
        (row.id, row.user_key, row.agent_key, row.run_key, int(row.live), row.expires_at, row.vector),
    )


def delete(db: apsw.Connection, kind: Kind, ids: Iterable[int]) -> None:
    """Remove the vectors of rows that go, or that change, from every generation."""
    wanted = [(id_,) for id_ in ids]
    for generation in generations(db):
        db.executemany(f"DELETE FROM {table(kind, generation)} WHERE id = ?", wanted)


def set_live(db: apsw.Connection, fact_id: int, live: bool) -> None:
    """Mark a fact's vectors as current or past."""
    for generation in generations(db):
        db.execute(f"UPDATE {table('fact', generation)} SET live = ? WHERE id = ?", (int(live), fact_id))


def expire(db: apsw.Connection, fact_id: int, expires_at: int | None) -> None:
    """Change when a fact's vectors stop counting."""
    for generation in generations(db):
        db.execute(f"UPDATE {table('fact', generation)} SET expires_at = ? WHERE id = ?", (ends(expires_at), fact_id))


def ends(expires_at: int | None) -> int:
    """When a fact stops counting, as the index holds it."""
    return FOREVER if expires_at is None else expires_at


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
    """The k nearest living rows, as (row id, similarity), nearest first.

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
    scale = _scale(db)
    return [(id_, _similarity(distance, scale)) for id_, distance in rows]


def similarities(db: apsw.Connection, kind: Kind, query: bytes, ids: Iterable[int]) -> dict[int, float]:
    """The similarity of given rows to a query, in [0, 1], for those that have a vector."""
    rows = db.execute(
        f"""
        SELECT v.id, vec_distance_cosine(v.embedding, ?) FROM json_each(?) wanted
        CROSS JOIN {kind}_vectors v ON v.id = wanted.value
        """,
        (query, json.dumps(list(ids))),
    )
    scale = _scale(db)
    return {id_: _similarity(distance, scale) for id_, distance in rows}


def _similarity(distance: float | None, scale: tuple[float, float]) -> float:
    """Cosine distance (0 to 2) as similarity in [0, 1]; a vector of zeros has none and resembles nothing."""
    factor, constant = scale
    return 0.0 if distance is None else min(1.0, max(0.0, factor * (1.0 - distance) + constant))
