"""A copy of the file as it is at one moment, made while others write to it, and looked at before it has its name."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import apsw

from memlite.check import look, rows
from memlite.db import LOGS, Database, clear_errors, make_file, reading, schema_version, unlock, unopened
from memlite.errors import FileError, InvalidInputError, ReadOnlyError
from memlite.records import FileCheck
from memlite.schema import run

ENDING = ".partial"  # of a backup that is being made, or was stopped
_STEP = 1_000  # pages copied at a time: 4 MB


def write(database: Database, to: Path, *, over: bool, progress: Callable[[int, int], None]) -> FileCheck:
    """Copy the file to a path. Until it was looked at the copy is called PATH.partial, and goes if this is stopped.

    A copy of an encrypted file is encrypted with the same key.

    over: whether it may take the place of an earlier backup. progress: told the bytes copied and all of them. Raises
    InvalidInputError for a path that cannot be, FileError where it cannot be written or the copy is not whole.
    """
    to = Path(os.path.realpath(to.expanduser()))
    with database.snapshot() as source:
        _refuse_unfit(database, source, to, over)
    partial = to.with_name(to.name + ENDING)
    with _reserved(partial, database.key) as copy, clear_errors(partial, database.key):
        with database.snapshot() as source, clear_errors(partial, database.key):
            _copy(source, copy, progress)
            wanted = rows(source)
        found = whole(partial, database.key, wanted, database.path)
        copy.close()  # Windows renames no open file
        name(partial, to)
    return replace(found, path=str(to))


def _refuse_unfit(database: Database, source: apsw.Connection, to: Path, over: bool) -> None:
    """Refuse a path that is no place for a backup, or is taken by what is not an earlier one."""
    own = [] if database.in_memory else [database.path.with_name(database.path.name + end) for end in ("", *LOGS)]
    if to in map(Path.resolve, own):
        raise InvalidInputError(f"{to} is the file itself, or the place of its log. Give the backup another path.")
    if not to.parent.is_dir():
        raise InvalidInputError(f"{to.parent} is not a folder that is there. Make it, or give the backup another path.")
    if not unopened(to):
        raise InvalidInputError(
            f"a log lies beside {to}: it is open, or was left by a process that was killed, and would be taken for the "
            "backup's. Close it, or give the backup another path."
        )
    if not to.exists():
        return
    if not over:
        raise InvalidInputError(
            f"{to} exists. Give the backup another path, or say that it replaces an earlier one: --replace "
            "(replace=True)."
        )
    if schema_version(to, database.key) is not None and not _is_earlier(source, to, database.key):
        raise InvalidInputError(
            f"{to} holds what this file does not, so it is no earlier backup of it, and was not replaced. Give the "
            "backup another path."
        )


def _is_earlier(source: apsw.Connection, to: Path, key: bytes | None) -> bool:
    """Whether the last things that were done in a backup were done in this file too. Neither's row ever goes."""
    lasts = [f"SELECT id, {what} FROM {table} {{}}" for table, what in (("batches", "uid"), ("events", "fact_uid, at"))]
    with clear_errors(to, key), reading(to, key) as old:
        for last in lasts:
            row = old.execute(last.format("ORDER BY id DESC LIMIT 1")).fetchone()
            if row and source.execute(last.format("WHERE id = ?"), (row[0],)).fetchone() != row:
                return False
    return True


@contextmanager
def _reserved(partial: Path, key: bytes | None) -> Iterator[apsw.Connection]:
    """An empty file that only its owner may read, in place of what a stopped backup has left; it goes on an error."""
    try:
        if partial.exists() and not _in_use(partial):
            partial.unlink()
        make_file(partial)
        copy = _locked(partial, key)
    except (FileExistsError, FileNotFoundError, apsw.BusyError, apsw.CantOpenError) as error:
        raise FileError(f"{partial} is being written by another backup. Wait until that is done.") from error
    except OSError as error:
        raise ReadOnlyError(f"cannot create {partial}: {error.strerror or error}.") from error
    try:
        yield copy
    except BaseException:
        copy.close()
        partial.unlink(missing_ok=True)
        raise


def _in_use(partial: Path) -> bool:
    """Whether a backup that is being made holds its lock on the file."""
    if not stat.S_ISREG(partial.lstat().st_mode):
        return True
    connection = apsw.Connection(str(partial), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        run(connection, "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; ROLLBACK")
        return False
    except apsw.BusyError:
        return True
    except (apsw.CorruptError, apsw.NotADBError):  # stopped before all pages were there
        return False
    finally:
        connection.close()


def _locked(partial: Path, key: bytes | None) -> apsw.Connection:
    """A connection that nobody else can write the file beside, until it is closed.

    It needs no journal: what is not whole in the end is thrown away.
    """
    connection = apsw.Connection(str(partial), flags=apsw.SQLITE_OPEN_READWRITE)
    unlock(connection, partial, key)
    run(connection, "PRAGMA journal_mode = OFF; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT")
    return connection


def _copy(source: apsw.Connection, copy: apsw.Connection, progress: Callable[[int, int], None]) -> None:
    size = int(source.execute("PRAGMA page_size").get)
    with copy.backup("main", source, "main") as backup:
        while not backup.done:
            backup.step(_STEP)
            progress((backup.page_count - backup.remaining) * size, backup.page_count * size)


def whole(partial: Path, key: bytes | None, wanted: Mapping[str, int], original: Path) -> FileCheck:
    """What a look at a copy finds. Raises FileError where it is not whole, or has not the rows that are wanted."""
    found = look(partial, key)
    if found.damage:
        raise FileError(
            f"the copy of {original} is damaged ({'; '.join(found.damage[:5])}) and was thrown away. "
            "`memlite doctor` tells whether the file itself is."
        )
    if found.rows != wanted:
        raise FileError(f"the copy of {original} has {found.rows}, expected {wanted}, and was thrown away. Try again.")
    return found


def name(partial: Path, to: Path) -> None:
    """Give a copy that nobody has open its name, once all of it is on the disk; the name as well."""
    try:
        with partial.open("r+b") as written:
            os.fsync(written.fileno())
        partial.replace(to)
        if os.name == "posix":  # Windows writes names at once, and opens no folder
            folder = os.open(to.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as error:
        raise FileError(f"cannot give {partial} the name {to}: {error.strerror or error}.") from error
