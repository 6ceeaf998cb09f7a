"""Virtual tables taken apart without their modules: what is left of a broken one, and vec0's in files of version 3.

vec0 kept the vectors of a table as 32-bit floats in blobs of whole chunks of rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

import apsw

# What vec0 called the tables that it kept beside one of ours.
_PARTS = ("info", "chunks", "rowids", "vector_chunks00", *(f"metadatachunks{column:02}" for column in range(5)))
_ROWS = {"fact": ("facts", "scope_id"), "message": ("messages", "scope_id"), "entity": ("entities", "root_id")}


def discard(db: apsw.Connection, table: str, parts: Iterable[str] = ()) -> None:
    """Remove a virtual table together with the tables (TABLE_part) that it keeps its content in.

    Its module is not asked: where one of them is missing it refuses, or crashes.
    """
    db.execute("PRAGMA writable_schema = ON")
    try:
        db.execute("DELETE FROM sqlite_schema WHERE name = ?", (table,))
    finally:
        db.execute("PRAGMA writable_schema = RESET")
    for part in parts:
        db.execute(f"DROP TABLE IF EXISTS {table}_{part}")


def convert(
    db: apsw.Connection, make_tables: Callable[[], None], form: Callable[[bytes], Callable[[bytes], bytes] | None]
) -> None:
    """Move the vectors of every generation from vec0's tables to those that `make_tables` makes.

    form: how the vectors of an embedder are stored, by its probes; None: as floats.

    What cannot be read counts as having no vector, so that it is made again.
    """
    generations = list(db.execute("SELECT rowid, generation, dimension, probes FROM embedder"))
    for _, generation, *_ in generations:
        for kind in _ROWS:
            discard(db, _name(kind, generation))  # its parts hold all of it; a new table has the name
    make_tables()
    for number, generation, dimension, probes in generations:
        stored = form(probes)
        db.execute("UPDATE embedder SET floats = ? WHERE rowid = ?", (int(stored is None), number))
        for kind, (rows, scope) in _ROWS.items():
            name = _name(kind, generation)
            insert = f"INSERT INTO {kind}_vectors(id, made_by, scope_id, vector) SELECT id, ?, {scope}, ?"
            db.executemany(
                f"{insert} FROM {rows} WHERE id = ?",
                ((number, stored(vector) if stored else vector, id_) for id_, vector in _read(db, name, dimension)),
            )
            for part in _PARTS:
                db.execute(f"DROP TABLE IF EXISTS {name}_{part}")
    for kind, (rows, _) in _ROWS.items():
        there = f"""
            SELECT v.id FROM {kind}_vectors v JOIN embedder e ON e.rowid = v.made_by AND e.generation = 'serving'
        """
        db.execute(f"UPDATE {rows} SET embedded = 0 WHERE embedded = 1 AND id NOT IN ({there})")


def _name(kind: str, generation: str) -> str:
    return f"{kind}_vectors" if generation == "serving" else f"{kind}_vectors_{generation}"


def _read(db: apsw.Connection, name: str, dimension: int) -> Iterator[tuple[int, bytes]]:
    """The vectors of a table by their row ids, each chunk read once."""
    size = 4 * dimension
    places: dict[int, list[tuple[int, int]]] = defaultdict(list)
    try:
        for id_, chunk, at in db.execute(f"SELECT rowid, chunk_id, chunk_offset FROM {name}_rowids"):
            places[chunk].append((id_, size * at))
        chunks = db.execute(f"SELECT rowid, vectors FROM {name}_vector_chunks00")
    except apsw.SQLError:  # one of the two is gone
        return
    for chunk, vectors in chunks:
        found = ((id_, vectors[at : at + size]) for id_, at in places.get(chunk, ()))
        yield from ((id_, vector) for id_, vector in found if len(vector) == size)
