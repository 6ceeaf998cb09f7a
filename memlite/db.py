"""One SQLite file: check it before opening, open it, one writer and a reader for each thread."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import re
import stat
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw

from memlite import cipher, codes, filters, schema
from memlite.errors import (
    DamagedFileError,
    FileError,
    ForeignFileError,
    MemliteError,
    NewerFileError,
    ReadOnlyError,
    WrongKeyError,
)

BUSY_TIMEOUT_MS = 30_000
LOGS = ("-wal", "-journal")  # what SQLite keeps beside an open file, or one that a killed process had open
PAGE_CACHE_KIB = 16_384  # as much again for every thread that reads
# Likewise of an encrypted file, each page of which costs its decryption: to compare 100,000 vectors takes 1.4 x as long
# as in a plain file where the cache is no larger than that file's, and as long with this.
DECRYPTED_CACHE_KIB = 65_536

_BLOCK = 1 << 20
_OF_WORDS = re.compile(r"fts5: |inverted index")  # what a word index says of itself, not SQLite of its pages

# What Python makes of damaged rows that SQLite reads without an error: of a NULL, or of one that is not there.
_SENSELESS = (LookupError, TypeError, ValueError, AttributeError, AssertionError, StopIteration)

# Databases of this process. A fork copies SQLite's locks and mutexes as they are: one made while another thread
# works would leave the child waiting for somebody who is not there. So no fork happens inside a read or write.
_open_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_held_for_fork: list[tuple[Database, list[apsw.Connection]]] = []

_creating = threading.Lock()

# After a fork the child must neither use nor close its parent's connections: closing one would drop the
# parent's file locks. They are kept referenced here for as long as the child lives.
_inherited: list[object] = []


class Database:
    """An open memlite file. `read()` and `write()` give a connection inside a transaction.

    Usable from any thread, and after a fork, where it opens connections of its own. key: of an encrypted file, or of a
    new one that is to be.
    """

    def __init__(self, path: str | Path, key: bytes | None = None) -> None:
        self.key = key
        self.in_memory = str(path) == ":memory:"
        self.path = Path(str(path)) if self.in_memory else Path(path).expanduser().absolute()
        self._names = () if self.in_memory else (str(self.path), str(_log(self.path)))
        self.vectors_off: str | None = None  # why sqlite-vec could not be loaded
        self._open()
        _open_databases.add(self)

    def _open(self) -> None:
        self._pid = os.getpid()
        self._write_lock = threading.RLock()
        self._idle = threading.Condition()  # guards the two below
        self._reading = 0
        self._held = False
        self._closed = False
        self._codes = codes.Held()
        version = None if self.in_memory else check_file(self.path, self.key)
        if version is None and not self.in_memory:
            self._create_place()
        try:
            self._connect_all()
        except DamagedFileError:
            if version is not None or self.key is None:
                raise
            self._open()  # another process has made the file meanwhile, and salted the key otherwise

    def _connect_all(self) -> None:
        self._local = threading.local()
        self._readers: weakref.WeakSet[apsw.Connection] = weakref.WeakSet()
        with clear_errors(self.path, self.key):
            self._writer = self._connect()
            self._migrate()
            _pragma(self._writer, "user_version")  # SQLite makes the log when it first reads
        self._files = self._on_disk()

    def _create_place(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Made here rather than by SQLite, so that nobody else can read it at any moment; by one thread, which
            # closes it before another one's SQLite locks it (see contents).
            with _creating, contextlib.suppress(FileExistsError):
                make_file(self.path)
        except OSError as error:
            raise ReadOnlyError(
                f"cannot create {self.path}: {error.strerror or error}. Give a path in a folder you may write to."
            ) from error

    def _connect(self) -> apsw.Connection:
        # CREATE is only for memory: a file that vanished since it was checked must not come back empty.
        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if self.in_memory else 0)
        connection = apsw.Connection(str(self.path), flags=flags)
        try:
            self.vectors_off = _prepare(connection, self.path, self.key)
        except BaseException:
            connection.close()
            raise
        self._codes.share(connection)
        return connection

    def _migrate(self) -> None:
        """Bring the file to this version; a current file is not written to."""
        version = _pragma(self._writer, "user_version")
        if version > schema.VERSION:
            self._writer.close()
            raise _newer(self.path, version)
        if version < schema.VERSION:
            # EXCLUSIVE, and the version read again inside: two processes may have found the same old file.
            with self._begun("EXCLUSIVE"):
                schema.migrate(self._writer, _pragma(self._writer, "user_version"))
                self._writer.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
                self._writer.execute(f"PRAGMA user_version = {schema.VERSION}")
        # Only now: in WAL mode the header would reach the file itself at the next checkpoint only, and until
        # then other processes would take it for a foreign one.
        if not self.in_memory and _pragma(self._writer, "journal_mode") != "wal":
            self._write_ahead()

    def _write_ahead(self) -> None:
        """Switch the file to WAL mode.

        SQLite reads the header first and then asks for the write lock; in that order it does not wait for another
        connection, which may be making the same switch, but says at once that the file is busy.
        """
        deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
        while True:
            try:
                self._writer.execute("PRAGMA journal_mode = WAL")
                return
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.005)

    def _on_disk(self) -> list[tuple[int, int] | None]:
        """Which file, and which write-ahead log, lie there now under their names; None: none."""
        found: list[tuple[int, int] | None] = []
        for name in self._names:
            try:
                status = os.stat(name)  # noqa: PTH116  # asked before every read; a Path takes four times as long
                found.append((status.st_dev, status.st_ino))
            except OSError:
                found.append(None)
        return found

    def _replaced(self) -> bool:
        """Whether another file or log lies under their names, or the file is gone; a log alone that is gone is not."""
        now = self._on_disk()
        return now != self._files and now != [self._files[0], None]

    @contextlib.contextmanager
    def write(self) -> Iterator[apsw.Connection]:
        """A connection inside one IMMEDIATE transaction: all of it is stored, or nothing."""
        self._check_process()
        with self._write_lock, clear_errors(self.path, self.key):
            self._check_open()  # it may have been closed while this thread waited
            with self._begun():
                yield self._writer

    @contextlib.contextmanager
    def _begun(self, mode: str = "IMMEDIATE") -> Iterator[None]:
        """A transaction of the write connection, or a part of the one that is open.

        BEGIN is executed: `with connection` would wait for another writer with the interpreter's lock in its hands, and
        where that writer is a thread of this process, both would wait until the timeout.
        """
        if self._writer.in_transaction:
            with self._writer:
                yield
            return
        self._writer.execute(f"BEGIN {mode}")
        try:
            yield
        except BaseException:
            if self._writer.in_transaction:  # a full disk, say, has ended it already
                self._writer.execute("ROLLBACK")
            raise
        try:
            self._writer.execute("COMMIT")
        except BaseException:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """This thread's read connection; everything inside sees one state of the file."""
        self._check_process()
        if self.in_memory:  # one connection holds the memory; whoever reads waits for whoever writes
            with self.write() as connection:
                yield connection
            return
        with self._idle:
            self._check_open()
            self._reading += 1
        self._local.depth = getattr(self._local, "depth", 0) + 1
        try:
            with clear_errors(self.path, self.key):
                reader: apsw.Connection | None = getattr(self._local, "reader", None)
                if reader is None:
                    reader = self._local.reader = self._connect()
                    reader.execute("PRAGMA query_only = ON")
                    self._readers.add(reader)
                try:
                    with reader:
                        yield reader
                finally:
                    # Where an error ended a loop over rows something may keep their cursor (a traceback, or apsw
                    # 3.54.0.0): its statement goes on, and the connection would see this state of the file as long.
                    if self._local.depth == 1 and reader.txn_state("main") != apsw.SQLITE_TXN_NONE:
                        self._local.reader = None
                        reader.close(True)
        finally:
            self._local.depth -= 1
            with self._idle:
                self._reading -= 1
                self._idle.notify_all()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[apsw.Connection]:
        """A connection for SQLite's backup of the file as it is now. Whoever writes to the file goes on meanwhile."""
        if self.in_memory:  # its one connection may not be writing, as that of `read` is
            self._check_process()
            with self._write_lock:
                self._check_open()
                yield self._writer
            return
        with self.read() as connection:
            connection.execute("SELECT 1 FROM sqlite_schema").fetchone()  # the state is that of the first read
            yield connection

    def truncate_wal(self, timeout_ms: int = 2_000) -> bool:
        """Copy the write-ahead log into the file and empty it; False if a reader or a full disk prevents that."""
        if self.in_memory:
            return True
        self._check_process()
        with self._write_lock:
            self._writer.set_busy_timeout(timeout_ms)
            try:
                busy, _, _ = next(self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)"))
            except (apsw.BusyError, apsw.FullError, apsw.IOError):
                return False
            finally:
                self._writer.set_busy_timeout(BUSY_TIMEOUT_MS)
            return not busy

    def compact(self) -> None:
        """Rebuild the word indexes from the visible rows, in the format older SQLite versions read, and VACUUM."""
        self._check_process()
        with self._write_lock, clear_errors(self.path, self.key):
            with self._begun():
                for table in schema.WORDS:
                    rebuild_words(self._writer, table)
            self._writer.execute("VACUUM")
        self.truncate_wal()

    def close(self) -> None:
        """Close every connection; the last process to close removes the write-ahead log. May be called twice."""
        if self._pid != os.getpid() or self._closed:
            return
        with self._idle:
            self._closed = True
            # What other threads are doing is done first; a connection in use cannot be closed.
            self._idle.wait_for(lambda: self._reading == 0, timeout=BUSY_TIMEOUT_MS / 1000)
        with self._write_lock:
            replaced = self._replaced()
            for connection in (*self._readers, self._writer):
                if replaced:  # closing would put this log into the other file, or delete the other log by its name
                    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                connection.close()

    def hold(self, timeout: float = 10.0) -> None:
        """Wait until no other thread reads or writes, and let none begin: before a fork."""
        self._held = self._write_lock.acquire(timeout=timeout)
        self._idle.acquire()
        mine = getattr(self._local, "depth", 0)
        self._idle.wait_for(lambda: self._reading <= mine, timeout=timeout)

    def let_go(self) -> None:
        """The end of `hold`, in the parent."""
        self._idle.release()
        if self._held:
            self._write_lock.release()

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            if self.in_memory:  # the child's own copy of the memory; there is no file to lock
                self._pid, self._write_lock, self._idle = os.getpid(), threading.RLock(), threading.Condition()
            else:
                _inherited.append((self._writer, self._local, list(self._readers), self._write_lock))
                self._open()
        self._check_open()
        self._check_files()

    def _check_open(self) -> None:
        if self._closed:
            raise FileError(f"{self.path} was closed. Open a new Memory on it.")

    def _check_files(self) -> None:
        """Open the file anew where its log has gone, and refuse another one: SQLite would go on in files that nobody
        else sees, with locks that nobody else asks for.

        Another SQLite library in this process, say Python's own, takes itself for the last one that uses the file when
        it closes it, for locks are a process's; it puts the log in its place, and deletes it.
        """
        if self._on_disk() == self._files or self._closed:
            return
        self.hold(BUSY_TIMEOUT_MS / 1000)
        try:
            if self._on_disk() == self._files or self._closed:  # another thread did what follows
                return
            idle = self._held and not self._reading and not self._writer.in_transaction
            if self._replaced() or not idle:
                raise FileError(
                    f"{self.path}, or the write-ahead log beside it, was deleted or replaced by another program while "
                    "this process had it open. Nothing more is read or stored, for nobody else would see it. Close "
                    "this Memory and open a new one."
                )
            with clear_errors(self.path, self.key):
                told = self._told()
                for connection in (*self._readers, self._writer):
                    connection.close()  # puts what the deleted log holds into the file, unless another process has it
                self._connect_all()
                if any(now < before for before, now in zip(told, self._told())):
                    raise FileError(
                        f"the write-ahead log of {self.path} was deleted by another program, and what was stored last "
                        "with it. What is in the file now counts."
                    )
        finally:
            self.let_go()

    def _told(self) -> list[int]:
        """How many messages, facts and events were ever stored."""
        last = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = ?), 0)"
        return [int(self._writer.execute(last, (table,)).get) for table in ("messages", "facts", "events")]


def _before_fork() -> None:
    for database in sorted(_open_databases, key=id):
        if database._pid == os.getpid():
            database.hold()
            # The child's interpreter drops what belongs to the threads it does not have, their connections too.
            _held_for_fork.append((database, list(database._readers)))


def _after_fork_in_parent() -> None:
    while _held_for_fork:
        _held_for_fork.pop()[0].let_go()


def _after_fork_in_child() -> None:
    global _creating
    _creating = threading.Lock()
    # The locks stay held: _check_process makes new ones. The connections stay referenced for ever.
    _inherited.extend(_held_for_fork)
    _held_for_fork.clear()


if hasattr(os, "register_at_fork"):
    # The child makes locks of its own (_check_process); there is nothing to release.
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


@contextlib.contextmanager
def reading(path: Path, key: bytes | None = None) -> Iterator[apsw.Connection]:
    """A connection to any memlite file that cannot write, to it or to its log. Everything inside sees one state of it.

    Where no log lies beside the file nobody has it open, and it is read as one that does not change: SQLite would make
    a log for any other reader.
    """
    uri = path.as_uri() + ("?immutable=1" if unopened(path) else "")
    connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        _prepare(connection, path, key)
        connection.set_progress_handler(lambda: False, 100_000)  # where Ctrl-C is heard while SQLite checks pages
        connection.execute("BEGIN")
        yield connection
    finally:
        connection.close()


def unopened(path: Path) -> bool:
    """Whether nobody has a database file open, and nobody was killed with it open: it has no log."""
    return not any(path.with_name(path.name + ending).exists() for ending in LOGS)


def unlock(connection: apsw.Connection, path: Path, key: bytes | None, *, checked: bool = True) -> None:
    """Give a new connection the key of the file that it opens, before anything else is asked of it.

    checked: whether a page of an encrypted file that was changed is an error; else it is read as it is.
    """
    if key is not None:
        cipher.unlock(connection, key, b"".join(contents(path, cipher.SALT)), checked=checked)


def _prepare(connection: apsw.Connection, path: Path, key: bytes | None) -> str | None:
    """What every connection has; returns why sqlite-vec could not be loaded."""
    unlock(connection, path, key)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute(f"PRAGMA cache_size = -{DECRYPTED_CACHE_KIB if key else PAGE_CACHE_KIB}")
    # What SQLite sorts or rebuilds aside is not encrypted; of a plain file it may be more than there is memory.
    connection.execute(f"PRAGMA temp_store = {'MEMORY' if key else 'FILE'}")
    # Without this guarantee SQLite plans a statement anew for every value that it compares with a column of which
    # a partial index names one: FTS5's own statements too, a quarter of a search.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    filters.register(connection)
    connection.register_fts5_function("occurrences", _occurrences)
    try:
        load_sqlite_vec(connection)
    except (FileError, apsw.Error) as error:
        return str(error)
    return None


def contents(path: Path, most: int = -1) -> Iterator[bytes]:
    """The bytes of a database file, or of a file beside it, in blocks; no more than `most` of them.

    Through SQLite, which closes it when it has no more locks on it: on POSIX whoever closes a file drops all locks that
    his process has, and another process then takes itself for the last one that uses the database and deletes its log.
    Raises apsw.CantOpenError, apsw.IOError.
    """
    file = apsw.VFSFile("", str(path), [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB, 0])
    try:
        size = path.stat().st_size  # xFileSize says of one byte that it is none
        size = size if most < 0 else min(size, most)
        for start in range(0, size, _BLOCK):
            yield file.xRead(min(_BLOCK, size - start), start)
    finally:
        file.xClose()


def damage(connection: apsw.Connection) -> list[str]:
    """What is wrong with the pages of a file; a word index that disagrees with its rows is no damage."""
    try:
        told = [row for (row,) in connection.execute("PRAGMA integrity_check(100)")]
    except apsw.SQLError:
        # A word index that has lost its settings stops the check of the whole; of one table it is not asked.
        tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        names = [name for (name,) in connection.execute(tables)]
        told = [row for name in names for (row,) in connection.execute(f"PRAGMA integrity_check({name})")]
    return [" ".join(row.split()) for row in told if row != "ok" and not _OF_WORDS.search(row)]


def make_file(path: Path) -> None:
    """Make an empty file that its owner may read and write, and nobody else, whatever the umask. Raises OSError."""
    made = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        if hasattr(os, "fchmod"):  # the umask may have taken the owner's right to write
            os.fchmod(made, 0o600)
    finally:
        os.close(made)


def check_file(path: Path, key: bytes | None = None) -> int | None:
    """The schema version in the file's header, or None where memlite may create a file.

    Reads 100 bytes, or with a key the first page, and nothing else: opening and closing a foreign WAL database with
    SQLite changes it.
    """
    log = 0
    with contextlib.suppress(OSError):
        log = _log(path).stat().st_size
    version = schema_version(path, key)  # after that: whoever makes the file makes its log last
    there = version is not None or path.exists()
    if log and version is None:
        raise FileError(
            f"{path} is {'empty' if there else 'missing'}, and its write-ahead log of {log} bytes lies beside it: a "
            f"new file would be the end of that. Put the file back, or move {_log(path)} away."
        )
    for place in (path, path.parent) if there else ():
        if not os.access(place, os.W_OK):
            raise ReadOnlyError(f"{place} is read-only. memlite needs to write the file and a log beside it.")
    return version


def schema_version(path: Path, key: bytes | None = None) -> int | None:
    """Likewise of a file that is only read; None where there is none, or an empty one."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ForeignFileError(f"{path} is a directory. Give the path of a file in it, as {path / 'memory.db'}.")
        if not stat.S_ISREG(mode):
            raise ForeignFileError(f"{path} is a device or a pipe, expected an ordinary file. Give another path.")
        if not os.access(path, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        header = b"".join(contents(path, 100))
    except FileNotFoundError:
        return None
    except NotADirectoryError as error:
        raise ReadOnlyError(f"cannot create {path}: a part of the path is not a directory.") from error
    except (OSError, ValueError, apsw.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise ReadOnlyError(f"cannot read {path}: {reason}. memlite needs to read and write it.") from error
    if not header:
        return None
    with clear_errors(path, key):
        application, version = _marks(path, header, key)
    if application != schema.APPLICATION_ID:
        raise ForeignFileError(
            f"{path} is an SQLite database of another program (application_id {application}, expected "
            f"{schema.APPLICATION_ID}). It was not touched; give another path."
        )
    if version > schema.VERSION:
        raise _newer(path, version)
    return version


def _marks(path: Path, header: bytes, key: bytes | None) -> tuple[int, int]:
    """The application and schema version of a database that begins so."""
    if len(header) < 100 or not cipher.begins_database(header):
        raise ForeignFileError(
            f"{path} is not a memlite file: it begins with {header[:16]!r}, expected an SQLite database. "
            "It was not touched; give another path."
        )
    if not cipher.looks_encrypted(header):
        if key is not None:
            raise WrongKeyError(
                f"{path} is not encrypted, and a key was given. Leave it out (unset {cipher.VARIABLE}), or encrypt the "
                "file: memlite rekey"
            )
        return int.from_bytes(header[68:72], "big"), int.from_bytes(header[60:64], "big")
    if key is None:
        raise WrongKeyError(
            f"{path} is encrypted. Give its key: as key=, in {cipher.VARIABLE}, or with memlite --ask-key"
        )
    try:
        return _decrypted_marks(path, key, "?immutable=1")  # its first page alone, whosever its log is
    except (apsw.NotADBError, apsw.CorruptError):
        pass  # another process is just making the file, or a power cut has torn the page, which then is in the log
    try:
        return _decrypted_marks(path, key, "?immutable=1" if unopened(path) else "")
    except apsw.NotADBError as error:
        with contextlib.suppress(apsw.Error):
            if _decrypted_marks(path, key, "?immutable=1", checked=False)[0] == schema.APPLICATION_ID:
                raise damaged(path, ["its first page was changed"]) from error
        raise WrongKeyError(
            f"{path} is encrypted with another key, or is no memlite file. It was not touched."
        ) from error


def _decrypted_marks(path: Path, key: bytes, query: str, *, checked: bool = True) -> tuple[int, int]:
    connection = apsw.Connection(path.as_uri() + query, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        unlock(connection, path, key, checked=checked)
        return _pragma(connection, "application_id"), _pragma(connection, "user_version")
    finally:
        connection.close()


def is_encrypted(path: Path) -> bool:
    """Whether a file that is there, and can be read, looks so."""
    try:
        return path.is_file() and cipher.looks_encrypted(b"".join(contents(path, 100)))
    except (apsw.Error, OSError):
        return False


def load_sqlite_vec(connection: apsw.Connection) -> None:
    """Load the extension by its path: importing the package would bring numpy in where it is installed."""
    spec = importlib.util.find_spec("sqlite_vec")
    if spec is None or not spec.submodule_search_locations:
        raise FileError("the package sqlite-vec is not installed: pip install sqlite-vec")
    connection.enable_load_extension(True)
    try:
        connection.load_extension(str(Path(spec.submodule_search_locations[0]) / "vec0"), "sqlite3_vec_init")
    finally:
        connection.enable_load_extension(False)


def rebuild_words(connection: apsw.Connection, table: str) -> None:
    """Make a word index anew from the visible rows, in the format that older SQLite versions read."""
    connection.execute(f"INSERT INTO {table}({table}) VALUES ('rebuild')")


def _occurrences(api: apsw.FTS5ExtensionApi, *_: object) -> str:
    """FTS5 function: "LENGTH AVERAGE n1 n2 ...": the row's tokens, the average row's, and each phrase's count.

    Only the text and its bigrams count, not the scope column. Its phrases come first, with a count of 0.
    """
    columns = (0, 1)
    length = sum(api.column_size(column) for column in columns)
    average = sum(api.column_total_size(column) for column in columns) / max(api.row_count, 1)
    counts = (sum(len(api.phrase_locations(i)[c]) for c in columns) for i in range(api.phrase_count))
    return f"{length} {average:.2f} " + " ".join(map(str, counts))


def _pragma(connection: apsw.Connection, name: str) -> Any:
    value: Any = connection.execute(f"PRAGMA {name}").get
    return value


def _newer(path: Path, version: int) -> NewerFileError:
    return NewerFileError(
        f"{path} has schema version {version}; this memlite knows up to {schema.VERSION}. "
        "It was not touched: pip install --upgrade memlite"
    )


@contextlib.contextmanager
def clear_errors(path: Path, key: bytes | None) -> Iterator[None]:
    """Say in memlite's words what SQLite says of a file, with its key, that cannot be used."""
    try:
        yield
    except MemliteError:
        raise
    except apsw.ReadOnlyError as error:
        code = getattr(error, "extendedresult", 0)
        if code == apsw.SQLITE_READONLY_DBMOVED:
            raise FileError(f"{path} is another file now, encrypted anew say. Open it again.") from error
        if code == apsw.SQLITE_READONLY_ROLLBACK:
            raise FileError(
                f"{path} was left by a process that was killed while it wrote. Open it once, with memlite stats say: "
                "then SQLite puts it right."
            ) from error
        raise ReadOnlyError(f"{path} is read-only ({error}). memlite needs to write the file.") from error
    except apsw.CantOpenError as error:
        raise ReadOnlyError(
            f"cannot open {path} ({error}). memlite needs to write the file and a log beside it."
        ) from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise damaged(path, [str(error)]) from error
    except apsw.FullError as error:
        raise FileError(
            f"no space left for {path}: nothing of this write was stored ({error}). Make room and try again."
        ) from error
    except apsw.IOError as error:
        code = getattr(error, "extendedresult", 0)  # tells more than its words, which may be "not an error"
        told = apsw.mapping_extended_result_codes.get(code, error)
        raise FileError(f"the disk failed, or has no room, for {path} ({told}): nothing of this was stored.") from error
    except apsw.BusyError as error:
        raise FileError(
            f"{path} was locked by another program for {BUSY_TIMEOUT_MS // 1000} s; nothing was stored. Try again."
        ) from error
    except (apsw.Error, *_SENSELESS) as error:
        if found := _damage_of(path, key):
            raise damaged(path, found) from error
        if isinstance(error, apsw.Error):
            raise FileError(
                f"SQLite cannot do this in {path} ({error}), and nothing was stored. `memlite doctor` looks for what "
                "is out of step, `memlite doctor --repair` makes it anew."
            ) from error
        raise


def damaged(path: Path, problems: Sequence[str]) -> DamagedFileError:
    """The error of a file whose pages are damaged."""
    return DamagedFileError(
        f"{path} is damaged ({'; '.join(problems[:5])}). Restore a backup, or let `memlite doctor --repair` save what "
        "can be read into a new file beside it."
    )


def _damage_of(path: Path, key: bytes | None) -> list[str]:
    """What is wrong with the pages of a file, looked at by a connection of its own."""
    if not path.exists():  # :memory:
        return []
    try:
        with reading(path, key) as connection:
            return damage(connection)
    except (apsw.CorruptError, apsw.NotADBError) as error:
        return [str(error)]
    except apsw.Error:
        return []


def _log(path: Path) -> Path:
    """The write-ahead log of a file."""
    return path.with_name(path.name + "-wal")
