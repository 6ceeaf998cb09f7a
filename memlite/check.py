"""Whether a memlite file is whole: its pages, what belongs together, the word indexes, the vectors."""

from __future__ import annotations

from pathlib import Path

import apsw

from memlite import repair, schema, vectors
from memlite.db import clear_errors, damage, reading, schema_version, unopened
from memlite.errors import FileError, NotFoundError
from memlite.records import FileCheck

_TABLES = ("facts", "messages", "entities", "events")
_TRIES = 5  # of a file that another process opens and closes meanwhile


def check(path: str | Path) -> FileCheck:
    """Look at a file, a backup say, without changing a byte of it or of its log.

    Raises NotFoundError where there is none, ForeignFileError and NewerFileError for what this memlite cannot read, and
    FileError where others write to it all the time.
    """
    where = Path(path).expanduser().absolute()
    for _ in range(_TRIES):
        version = schema_version(where)
        if version is None:
            raise NotFoundError(f"{where} does not exist or is empty; give the path of a memlite file.")
        before = _changed(where)
        found = _look(where, version)
        if _changed(where) == before:
            return found
    raise FileError(f"{where} was opened and written to again and again while it was looked at. Try again.")


def _changed(path: Path) -> tuple[int, int] | None:
    """When a file that nobody has open was changed; None where SQLite sees to it that a reader does not notice."""
    return (path.stat().st_size, path.stat().st_mtime_ns) if unopened(path) else None


def rows(db: apsw.Connection) -> dict[str, int]:
    """How many rows the tables have that hold what people said, and how many vectors there are; of those there are."""
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    vec0 = [name for name in there if name.endswith("_rowids")]  # of files of before version 4
    made = vec0 or [f"{kind}_vectors" for kind in vectors.KINDS]
    counts = {name: int(db.execute(f"SELECT count(*) FROM {name}").get) for name in (*_TABLES, *made) if name in there}
    return {**{name: counts[name] for name in _TABLES if name in there}, "vectors": sum(counts.get(n, 0) for n in made)}


def _look(path: Path, version: int) -> FileCheck:
    size = path.stat().st_size
    with clear_errors(path):
        try:
            with reading(path) as db:
                return _read(db, str(path), size, version)
        except (apsw.CorruptError, apsw.NotADBError) as error:
            return FileCheck(str(path), size, version, {}, (str(error),))


def _read(db: apsw.Connection, path: str, size: int, version: int) -> FileCheck:
    if found := damage(db):
        return FileCheck(path, size, version, {}, tuple(found))
    counts = rows(db)
    if version < schema.VERSION:
        note = f"schema version {version}, which this memlite makes {schema.VERSION}: only the pages were looked at"
        return FileCheck(path, size, version, counts, notes=(note,))
    return FileCheck(path, size, version, counts, faults=repair.seen(db))
