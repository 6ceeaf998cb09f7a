"""Saving what can be read of a damaged file into a new one beside it; the damaged one is not written to.

SQLite gives a table up at the first page that makes no sense. Here every page is read by itself (`pages`): rows are
found from the table's root, and where a page above them is lost, by their shape. What is derived from them, words,
vectors and flags, is made anew.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import apsw

from memlite import cipher, repair, schema
from memlite.db import Database, contents, is_encrypted, unlock
from memlite.errors import FileError
from memlite.pages import HEADER, Pages, Row, Value
from memlite.records import Salvaged

UNKNOWN = "salvaged-"  # begins the user_id of a scope whose own ids are lost; its number follows

# In an order in which no row needs a later one. What a reembed or a reextract had made is made again.
_TABLES = (
    "scopes", "batches", "messages", "hidden_messages", "facts", "sources", "recalls", "entities", "aliases",
    "mentions", "links", "events", "ttls",
)  # fmt: skip
_COUNTED = ("facts", "messages")  # of which the index of their uids tells how many there were
# Indexes that have all columns of a table, the other way round.
_MIRRORS = {name: f"{name}_by_message" for name in ("sources", "recalls", "hidden_messages")}
_PYTHON: dict[str, tuple[type, ...]] = {"INTEGER": (int,), "TEXT": (str,), "REAL": (int, float), "BLOB": (bytes,)}
_EMBEDDED = ("facts", "messages", "entities")
_MARK = b"CREATE TABLE hidden_messages("  # what tells a file of memlite whose first page is lost


@dataclass(frozen=True, slots=True)
class _Table:
    """How a table's rows are stored: its columns in their order there, each with its type and whether it may be NULL.

    id_at: where the row id stands among them, None in a table WITHOUT ROWID, which an index looks like.
    """

    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    required: tuple[bool, ...]
    id_at: int | None

    @property
    def telling(self) -> bool:
        """Whether a row without its table can be told from those of others: not by two numbers."""
        return set(self.types) != {"INTEGER"}

    def values(self, row: Row, *, whole: bool) -> tuple[Value, ...] | None:
        """A row's columns; None where it cannot be one of this table. whole: it has to have all columns, also those
        that a migration has added since.
        """
        id_, found = row
        if len(found) > len(self.columns) or (whole and len(found) < len(self.columns)):
            return None
        if (id_ is None) != (self.id_at is None):
            return None
        values = list(found)
        if self.id_at is not None:
            if values[self.id_at] is not None:
                return None
            values[self.id_at] = id_
        fits = all(map(_fits, values, self.types, self.required))
        return tuple(values) if fits else None


def recognised(path: Path) -> bool:
    """Whether the bytes of a file that is refused are those of a memlite file whose beginning is lost."""
    tail = b""
    with suppress(apsw.Error, OSError):
        for block in contents(path):
            if _MARK in tail + block:
                return True
            tail = block[-len(_MARK) :]
    return False


def salvage(path: Path, into: Path | None = None, *, key: str | bytes | None = None) -> Salvaged:
    """Save what can be read of a damaged file.

    into: a file that does not exist yet; by default NAME.salvaged.db beside it. key: of an encrypted file, by default
    the one in MEMLITE_KEY; the new one has it too, and nothing is written in the clear meanwhile. Messages, facts and
    all that belongs to them keep their ids; vectors are made by `memlite work`. Nobody else may write to the file
    meanwhile. Raises FileError where `into` exists or cannot be written, or nothing can be read, and what
    `cipher.read_key` raises.
    """
    secret = cipher.read_key(key) if is_encrypted(path) else None
    into = into or path.with_name(f"{path.stem}.salvaged{path.suffix}")
    if into.exists():
        raise FileError(f"{into} exists already, perhaps from an earlier try: move it away, or name another file.")
    try:
        with tempfile.TemporaryDirectory(prefix=".salvage-", dir=into.parent) as folder:
            copy, made = Path(folder) / "copy.db", Path(folder) / "made.db"
            with closing(Pages(_copy(path, copy, secret))) as pages:
                there, made_up = _save(pages, made, secret)
                unreadable = len(pages.unreadable)
            notes = made_up + _put_in_order(made, secret)
            with closing(_connected(made, secret)) as db:
                rows = {name: int(db.execute(f"SELECT count(*) FROM {name}").get) for name in _TABLES}
                lost = {name: None if ids is None else len(ids - _ids(db, name)) for name, ids in there.items()}
            if not any(rows.values()):
                raise FileError(f"nothing can be read of {path}, so nothing was saved. Restore a backup.")
            made.rename(into)
    except (OSError, apsw.Error) as error:
        raise FileError(f"cannot save {path} into {into}: {getattr(error, 'strerror', None) or error}.") from error
    return Salvaged(str(into), {name: count for name, count in rows.items() if count}, lost, unreadable, notes)


# The damaged file.


def _copy(path: Path, copy: Path, key: bytes | None) -> BinaryIO:
    """Copy a file and put what its write-ahead log holds in its place there; return it, or decrypted what it holds.

    Where the header is lost it gets that of a new file, without which SQLite would not read the log.
    """
    for ending in ("", "-wal"):
        with suppress(apsw.CantOpenError), copy.with_name(copy.name + ending).open("wb") as file:
            file.writelines(contents(path.with_name(path.name + ending)))
    if key is None and not _is_ours(_header(copy)):
        with copy.open("r+b") as file:
            file.write(_new_header())
    connection = _connected(copy, key, checked=False)
    with suppress(apsw.Error):
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    pages = b"" if key is None else connection.serialize("main")
    connection.close()  # the last to close a file puts the log in its place
    return copy.open("rb") if key is None else io.BytesIO(pages)


def _connected(path: Path, key: bytes | None, *, checked: bool = True) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    unlock(connection, path, key, checked=checked)
    return connection


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEADER)


def _is_ours(header: bytes) -> bool:
    return header.startswith(cipher.MAGIC) and header[68:72] == schema.APPLICATION_ID.to_bytes(4, "big")


def _version(pages: Pages) -> int:
    """The schema version of a file, this one's where its header is lost."""
    version = int.from_bytes(pages.header[60:64], "big") if _is_ours(pages.header) else schema.VERSION
    return min(max(version, 1), schema.VERSION)


def _new_header() -> bytes:
    """The beginning of a file in WAL mode whose size in pages is not said."""
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE t(x)")
    header = bytearray(connection.serialize("main")[:HEADER])
    connection.close()
    header[18:20], header[92:96] = b"\x02\x02", bytes(4)
    return bytes(header)


def _roots(pages: Pages) -> dict[str, int]:
    """The root page of every table and index that the file knows of."""
    found = list(pages.tree(1))
    if pages.unreadable or pages.broken:
        found += chain.from_iterable(pages.strays())
    kept = (values for _, values in found if len(values) == 5 and values[0] in ("table", "index"))
    return {str(name): root for _, name, _, root, _ in kept if isinstance(root, int) and root > 1}


# The new one.


def _save(pages: Pages, made: Path, key: bytes | None) -> tuple[dict[str, set[int] | None], tuple[str, ...]]:
    """Make a file of the same schema version with all rows that can be read; return the row ids that there were, by the
    index of the uids, None where that is damaged too, and what was made up.
    """
    version = _version(pages)
    made.touch(mode=0o600)
    db = _connected(made, key)
    try:
        schema.migrate(db, 0, version)
        db.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {version}")
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)  # the words are made anew when all rows are there
        with db:
            there = _fill(db, pages)
            made_up = _stand_in(db)
            for name in _EMBEDDED:
                db.execute(f"UPDATE {name} SET embedded = 0")
    finally:
        db.close()
    return there, made_up


def _fill(db: apsw.Connection, pages: Pages) -> dict[str, set[int] | None]:
    """Store the rows that the tables' roots lead to, then those of other pages that can be of one table only."""
    tables, roots = [_table(db, name) for name in _TABLES], _roots(pages)
    trees = {name: list(pages.tree(root)) for name, root in roots.items() if name in _MIRRORS.values()}
    for table in tables:
        rows: Iterable[Row] = pages.tree(roots[table.name]) if table.name in roots else ()
        mirrored = trees.get(_MIRRORS.get(table.name, ""), [])
        for row in chain(rows, ((None, values[::-1]) for _, values in mirrored)):
            _insert(db, table, table.values(row, whole=False))
    there = {name: _indexed(pages, roots.get(f"sqlite_autoindex_{name}_1")) for name in _COUNTED}
    for root in roots.values():  # what all other tables and indexes have is no stray
        for _ in pages.tree(root):
            pass
    for row in chain.from_iterable(pages.strays()):
        for table in tables:
            if table.telling and (values := table.values(row, whole=True)):
                _insert(db, table, values)
                break
    return there


def _insert(db: apsw.Connection, table: _Table, values: tuple[Value, ...] | None) -> None:
    """Store a row that may be one of a table, unless it is there or breaks a rule of the table."""
    if values:
        columns, places = ", ".join(table.columns[: len(values)]), ", ".join("?" * len(values))
        with suppress(apsw.ConstraintError):
            db.execute(f"INSERT OR IGNORE INTO {table.name}({columns}) VALUES ({places})", values)


def _table(db: apsw.Connection, name: str) -> _Table:
    columns = [row[1:] for row in db.execute(f"PRAGMA table_info({name})")]
    by_key = db.execute("SELECT wr FROM pragma_table_list(?)", (name,)).get
    if by_key:  # such a table begins with its key
        columns = sorted(columns, key=lambda column: column[-1] or len(columns))
    names, types, required = (tuple(each[at] for each in columns) for at in range(3))
    return _Table(name, names, types, tuple(map(bool, required)), None if by_key else names.index("id"))


def _fits(value: Value, kind: str, required: bool) -> bool:
    return not required if value is None else isinstance(value, _PYTHON[kind])


def _indexed(pages: Pages, root: int | None) -> set[int] | None:
    """The row ids in an index of one column, None where not all of it can be read."""
    before = len(pages.unreadable), pages.broken
    rows = [] if root is None else list(pages.tree(root))
    if root is None or before != (len(pages.unreadable), pages.broken):
        return None
    return {values[-1] for _, values in rows if isinstance(values[-1], int)}


def _ids(db: apsw.Connection, table: str) -> set[int]:
    return {id_ for (id_,) in db.execute(f"SELECT id FROM {table}")}


def _stand_in(db: apsw.Connection) -> tuple[str, ...]:
    """Make a scope or a batch for rows whose own is lost, so that they can be seen, and deleted; what that means."""
    batches = _ids(db, "batches")
    # A root is (user, agent) of the scopes that belong to it.
    db.execute(
        """
        INSERT OR IGNORE INTO scopes(id, user_id, agent_id, root_id, user_key, agent_key, run_key, terms)
        SELECT root_id, user_id, agent_id, root_id, 0, 0, 0, '' FROM scopes
        WHERE root_id NOT IN (SELECT id FROM scopes) AND (user_id <> '' OR agent_id <> '')
        """
    )
    for table in _TABLES:
        for column in _referring(db, table, "scopes"):
            db.execute(
                f"""
                INSERT OR IGNORE INTO scopes(id, user_id, root_id, user_key, agent_key, run_key, terms)
                SELECT {column}, ? || {column}, {column}, 0, 0, 0, '' FROM {table}
                WHERE {column} NOT IN (SELECT id FROM scopes)
                """,
                (UNKNOWN,),
            )
    for table, since in (("messages", "created_at"), ("facts", "created_at"), ("events", "at")):
        db.execute(
            f"""
            INSERT OR IGNORE INTO batches(id, uid, scope_id, created_at, state)
            SELECT batch_id, lower(hex(randomblob(16))), scope_id, min({since}), 'stored' FROM {table}
            WHERE batch_id NOT IN (SELECT id FROM batches) GROUP BY batch_id
            """
        )
    db.execute("UPDATE batches SET undoes = NULL WHERE undoes NOT IN (SELECT id FROM batches)")
    db.execute("DELETE FROM hidden_messages WHERE batch_id NOT IN (SELECT id FROM batches)")
    unknown = db.execute("SELECT count(*) FROM scopes WHERE user_id GLOB ?", (f"{UNKNOWN}*",)).get
    told = [f"whose {unknown} scope(s) were is lost; what is in them is now of the users {UNKNOWN}*"] if unknown else []
    if lost := len(_ids(db, "batches") - batches):
        told.append(f"{lost} batch(es) are lost: what they stored is there, and if it was queued it is so no more")
    return tuple(told)


def _referring(db: apsw.Connection, table: str, other: str) -> list[str]:
    """The columns of a table that refer to another one."""
    rows = db.execute('SELECT "from" FROM pragma_foreign_key_list(?) WHERE "table" = ?', (table, other))
    return [name for (name,) in rows]


def _put_in_order(made: Path, key: bytes | None) -> tuple[str, ...]:
    """Bring the new file to this version and make anew what is derived; what a person has to know of it."""
    with closing(Database(made, key)) as database:
        found = repair.look(database)
        repair.mend(database, lambda line: None)
        left = repair.look(database)
    garbled = [fault for fault in found if fault.what.endswith("with the hash of another text")]
    return (
        *(f"{fault.count} {fault.what}: read them, the damage may have changed them" for fault in garbled),
        *(f"{fault.count} {fault.what}" for fault in left),
    )
