"""Whether a memlite file is whole: its pages, what belongs together, the word indexes, the vectors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import apsw

from memlite import cipher, repair, schema, vectors
from memlite.db import clear_errors, damage, reading, schema_version, unopened
from memlite.errors import FileError, NotFoundError
from memlite.records import FileCheck

_TABLES = ("facts", "messages", "entities", "events")
_TRIES = 5  # of a file that another process opens and closes meanwhile


def check(path: str | Path, *, key: str | bytes | None = None) -> FileCheck:
    """Look at a file, a backup say, without changing a byte of it or of its log.

    key: of an encrypted file; by default the one in MEMLITE_KEY. Raises NotFoundError where there is no file,
    ForeignFileError, NewerFileError and WrongKeyError for what cannot be read, and FileError where others write to it
    all the time.
    """
    return look(Path(path).expanduser().absolute(), cipher.read_key(key))


def look(path: Path, key: bytes | None) -> FileCheck:
    """The same, with this key or none."""
    for _ in range(_TRIES):
        version = schema_version(path, key)
        if version is None:
            raise NotFoundError(f"{path} does not exist or is empty; give the path of a memlite file.")
        before = _changed(path)
        found = _look(path, version, key)
        if _changed(path) == before:
            return found
    raise FileError(f"{path} was opened and written to again and again while it was looked at. Try again.")


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


def _look(path: Path, version: int, key: bytes | None) -> FileCheck:
    seen = FileCheck(str(path), path.stat().st_size, version, key is not None, {})
    with clear_errors(path, key):
        try:
            with reading(path, key) as db:
                return _read(db, seen)
        except (apsw.CorruptError, apsw.NotADBError) as error:
            return replace(seen, damage=(str(error),))


def _read(db: apsw.Connection, seen: FileCheck) -> FileCheck:
    if found := damage(db):
        return replace(seen, damage=tuple(found))
    seen = replace(seen, rows=rows(db))
    if seen.version < schema.VERSION:
        then = f"which this memlite makes {schema.VERSION}: only the pages were looked at"
        return replace(seen, notes=(f"schema version {seen.version}, {then}",))
    return replace(seen, faults=repair.seen(db))
