"""Encrypting a file, changing its key, or taking the encryption away."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import apsw

from memlite import backup, cipher
from memlite.check import rows
from memlite.db import check_file, clear_errors, is_encrypted, make_file, unlock
from memlite.errors import FileError, InvalidInputError, NotFoundError, ReadOnlyError
from memlite.records import FileCheck
from memlite.schema import run

_WAIT_MS = 2_000  # for others to close the file


def rekey(path: str | Path, new_key: str | bytes | None, *, key: str | bytes | None = None) -> FileCheck:
    """Encrypt a file, or change its key; None: make it plain. Nobody may have it open.

    It is copied to PATH.partial with the new key, and the copy takes its place once it was found whole: stopped or
    killed at any moment, the file is as it was before, or as it is to be. key: the one that it has; by default the one
    in MEMLITE_KEY. Earlier backups and replicas keep theirs, and the disk may keep the bytes of the old file for a
    while. Raises NotFoundError, InvalidInputError, and FileError where the file is open or cannot be read or written.
    """
    file = Path(os.path.realpath(Path(path).expanduser()))
    # In the environment may be the key that a plain file is to have.
    old = cipher.read_key(key) if key is not None or is_encrypted(file) else None
    new = None if new_key is None else cipher.read_key(new_key)
    if check_file(file, old) is None:
        raise NotFoundError(f"{file} does not exist or is empty; give the path of a memlite file.")
    if new == old:
        raise InvalidInputError(f"{file} {'is plain already' if new is None else 'has this key already'}.")
    if file.stat().st_nlink > 1:
        raise InvalidInputError(f"{file} has another name (a hard link), which would keep the old file. Remove that.")
    source = _alone(file, old)
    try:
        return replace(_copied(source, file, new), path=str(file))
    finally:
        source.close()


def _alone(file: Path, key: bytes | None) -> apsw.Connection:
    """A connection beside which nobody has the file open, nor can open it; with no log."""
    connection = apsw.Connection(file.as_uri(), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI)
    try:
        with clear_errors(file, key):
            unlock(connection, file, key)
            connection.set_busy_timeout(_WAIT_MS)
            connection.set_progress_handler(lambda: False, 100_000)  # where Ctrl-C is heard
            run(connection, "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = DELETE")
            run(connection, "BEGIN EXCLUSIVE; COMMIT")
            return connection
    except BaseException as error:
        connection.close()
        if isinstance(error.__cause__, apsw.BusyError):
            raise FileError(
                f"{file} is open in another process, or in this one. Close it (`memlite serve --stop` ends a server), "
                "then try again."
            ) from error
        raise


def _copied(source: apsw.Connection, file: Path, key: bytes | None) -> FileCheck:
    """Put a copy with this key in the place of a file that nobody else has open."""
    partial = file.with_name(file.name + backup.ENDING)
    try:
        partial.unlink(missing_ok=True)  # left by one that was stopped
        make_file(partial)
    except OSError as error:
        raise ReadOnlyError(f"cannot create {partial}: {error.strerror or error}.") from error
    try:
        with clear_errors(partial, key):
            source.execute("VACUUM INTO ?", (partial.as_uri() + cipher.in_uri(key),))
            found = backup.whole(partial, key, rows(source), file)
        _give_owner(partial, file.stat())
        if os.name == "nt":
            source.close()  # Windows replaces no open file, and so none that another process has opened meanwhile
        # Elsewhere it stays locked: who waits for it finds that it was replaced, and writes nothing (READONLY_DBMOVED).
        backup.name(partial, file)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return found


def _give_owner(partial: Path, of: os.stat_result) -> None:
    """Let a copy be read by whom the file could be read by."""
    partial.chmod(of.st_mode & 0o777)
    if os.name == "posix" and (of.st_uid, of.st_gid) != (os.geteuid(), os.getegid()):
        os.chown(partial, of.st_uid, of.st_gid)
