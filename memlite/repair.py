"""What is derived and has come out of step with the rows it comes from: finding it, and making it anew.

Derived are the word indexes, vectors and flags, the forms in which texts and names are compared, the numbers of scopes,
and the views, triggers and indexes that keep it all. memlite writes them with their rows in one transaction; stock
`sqlite3`, whose foreign keys are off, can change one without the other. What people said is never
written here: where nothing tells what a row was, its fault is only told.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import apsw

from memlite import schema, tokens, vector_faults, vectors
from memlite.db import Database, damage, damaged, rebuild_words
from memlite.records import Fault
from memlite.virtual import discard
from memlite.words import beside, digest, fold

_DERIVED_TABLES = (*(f"{kind}_vectors" for kind in vectors.KINDS), *(f"{kind}_metadata" for kind in schema.MEMBERS_OF))
_WORD_PARTS = ("data", "idx", "docsize", "config", "content")
_FORMS: dict[str, Callable[..., str]] = {"memlite_digest": digest, "memlite_beside": beside, "memlite_fold": fold}
_LONGEST = 32_768  # bytes that FTS5 keeps of a token


@dataclass(frozen=True, slots=True)
class _Check:
    """How many of something are out of step, and what puts them right; None: only a person can."""

    place: str
    what: str
    count: Callable[[apsw.Connection], int]
    mend: Callable[[apsw.Connection], object] | None = None


def look(database: Database) -> tuple[Fault, ...]:
    """Everything that is out of step; nothing is written. Raises DamagedFileError where the pages are damaged."""
    _refuse_damaged(database)
    return tuple(_told((check, _count(database, check)) for check in _checks_of(database)))


def seen(db: apsw.Connection) -> tuple[Fault, ...]:
    """Likewise what a connection shows that may only read."""
    _know_forms(db)
    return tuple(_told((check, check.count(db)) for check in _checks(db)))


def mend(database: Database, tell: Callable[[str], None]) -> None:
    """Put right what can be, one kind of fault after the other, each in one transaction.

    Stopped half way, what was done is done, and the next call does the rest. What has no vector afterwards is marked so
    that `Semantic.catch_up` makes it. tell: is told each step. Raises DamagedFileError where the pages are damaged.
    """
    _refuse_damaged(database)
    for check in _checks_of(database):
        if check.mend is None:
            continue
        count = _count(database, check)
        if count:
            with _connection(database) as db:
                check.mend(db)
            tell(f"{count} {check.what}")


def _refuse_damaged(database: Database) -> None:
    """What is made anew from damaged pages cannot be trusted."""
    with database.read() as db:
        problems = damage(db)
    if problems:
        raise damaged(database.path, problems)


def _told(counted: Iterable[tuple[_Check, int]]) -> Iterator[Fault]:
    for check, count in counted:
        if count:
            yield Fault(check.place, count, check.what, check.mend is not None)


class _Counted(Exception):
    """Ends a transaction that only looked: a broken word index does not let it be committed."""


def _count(database: Database, check: _Check) -> int:
    count = 0
    with suppress(_Counted), _connection(database) as db:
        count = check.count(db)
        raise _Counted
    return count


@contextmanager
def _connection(database: Database) -> Iterator[apsw.Connection]:
    """A transaction in which SQL knows the forms that are compared. To check a word index takes one that may write."""
    with database.write() as db:
        _know_forms(db)
        yield db


def _know_forms(db: apsw.Connection) -> None:
    for name, function in _FORMS.items():
        db.create_scalar_function(name, function, 1, deterministic=True)


def _checks_of(database: Database) -> list[_Check]:
    with database.read() as db:
        return list(_checks(db))


def _checks(db: apsw.Connection) -> Iterator[_Check]:
    """What is looked at, in an order in which nothing that is put right needs what comes later."""
    missing = _missing_tables(db)
    derived = [name for name in missing if name in _DERIVED_TABLES]
    if missing != derived:
        what = f"table(s) gone ({', '.join(missing)}); nothing else was looked at: restore a backup"
        yield _Check("schema", what, lambda db: len(missing))
        return
    yield from (_check_gone(name) for name in derived)
    yield _Check(
        "schema",
        "view(s), trigger(s) or index(es) of the schema missing or changed",
        lambda db: len(_other_objects(db)),
        _restore_objects,
    )
    yield from _SCOPES
    yield _Check("words", "word index(es) that disagree with the rows", lambda db: len(_words_apart(db)), _remake_words)
    yield from (_check_members(kind) for kind in schema.MEMBERS_OF)
    yield from _REFERENCES
    yield from _ROWS
    yield from _VECTORS


def _of(table: str, what: str, where: str, change: str | None, place: str = "rows") -> _Check:
    """A check of the rows of one table. where: the condition that is wrong; change: the statement that ends it."""
    count = f"SELECT count(*) FROM {table} WHERE {where}"
    return _Check(
        place,
        what,
        lambda db: int(db.execute(count).get),
        None if change is None else lambda db: db.execute(f"{change} WHERE {where}"),
    )


def _anew(table: str, what: str, column: str, form: str, where: str) -> _Check:
    """A check of a column of which no two rows have the same, and which a vector depends on. form: what it has to be.

    Every wrong row gives its own away first: it may be what another one has to be, where texts have changed places.
    """

    def mend(db: apsw.Connection) -> None:
        db.execute(f"UPDATE {table} SET {column} = 'mending ' || id, embedded = 0 WHERE {where}")
        db.execute(f"UPDATE OR IGNORE {table} SET {column} = {form} WHERE {column} = 'mending ' || id")

    return replace(_of(table, what, where, None), mend=mend)


# The schema.


@functools.cache
def _schema() -> dict[str, tuple[str, str]]:
    """Every table, view, index and trigger of a new file by its name: its type and its SQL."""
    db = apsw.Connection(":memory:")
    try:
        schema.migrate(db, 0)
        rows = db.execute("SELECT name, type, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid")
        return {name: (kind, sql) for name, kind, sql in rows}
    finally:
        db.close()


def _missing_tables(db: apsw.Connection) -> list[str]:
    """Tables that nothing can be made from; a word index is made from the others."""
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    wanted = (name for name, (kind, _) in _schema().items() if kind == "table" and not name.startswith("sqlite_"))
    return [name for name in wanted if name not in there and not name.startswith(tuple(schema.WORDS))]


def _check_gone(table: str) -> _Check:
    """A table that is not there; what was in it is made by other checks."""

    def make(db: apsw.Connection) -> None:
        db.execute(_schema()[table][1])

    return _Check(table.partition("_")[2], f"table(s) gone: {table}", lambda _: 1, make)


def _other_objects(db: apsw.Connection) -> list[str]:
    """What has to stand beside the tables and does not, or reads otherwise. Views come first: triggers read them."""
    there = dict(db.execute("SELECT name, sql FROM sqlite_schema"))
    found = [name for name, (kind, sql) in _schema().items() if kind != "table" and there.get(name) != sql]
    return sorted(found, key=lambda name: ("view", "index", "trigger").index(_schema()[name][0]))


def _restore_objects(db: apsw.Connection) -> None:
    for name in _other_objects(db):
        kind, sql = _schema()[name]
        db.execute(f"DROP {kind} IF EXISTS {name}")
        try:
            with db:
                db.execute(sql)
        except apsw.ConstraintError:
            pass  # a UNIQUE index over rows that are twice there; which of them are is a fault of its own


# Words.


def _words_apart(db: apsw.Connection) -> list[str]:
    """The word indexes that do not say exactly what the visible rows say, or have lost their settings."""
    wanted = {("rank", "bm25(1.0, 1.0, 0.0)"), ("secure-delete", 1)}
    found = []
    for table in schema.WORDS:
        try:
            if db.readonly("main"):
                apart = _words_read(db, table) != _words_said(db, table)
            else:
                db.execute(f"INSERT INTO {table}({table}, rank) VALUES ('integrity-check', 1)")
                apart = False
            apart = apart or not wanted <= set(db.execute(f"SELECT k, v FROM {table}_config"))
        except apsw.Error:
            apart = True
        found += [table] if apart else []
    return found


# FTS5 compares an index with its rows for who may write only. For others the rows and words of both are added up, each
# with its place, in whatever order they come.


def _words_read(db: apsw.Connection, table: str) -> int:
    db.execute(f"CREATE VIRTUAL TABLE temp.indexed USING fts5vocab(main, {table}, instance)")
    try:
        words = db.execute("SELECT doc, col, offset, CAST(term AS BLOB) FROM temp.indexed")
        return sum(map(hash, words)) + sum(map(hash, db.execute(f"SELECT id FROM {table}_docsize")))
    finally:
        db.execute("DROP TABLE temp.indexed")


def _words_said(db: apsw.Connection, table: str) -> int:
    tokenize = tokens.tokenizer(db)
    columns = ("text", "words", "scope")
    total = 0
    for id_, *texts in db.execute(f"SELECT id, {', '.join(columns)} FROM {table.removesuffix('_words')}_text"):
        total += hash((id_,))
        for column, text in zip(columns, texts, strict=True):
            said = tokenize(
                text.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False
            )
            total += sum(hash((id_, column, at, str(token).encode()[:_LONGEST])) for at, token in enumerate(said))
    return total


def _remake_words(db: apsw.Connection) -> None:
    """Make the indexes anew from nothing: of a broken one not everything can be rebuilt in its place."""
    for table, script in schema.WORDS.items():
        discard(db, table, _WORD_PARTS)
        schema.run(db, script)
        rebuild_words(db, table)


# Metadata.


def _check_members(kind: str) -> _Check:
    """What filters look up, and what the rows' metadata says."""
    table, said = f"{kind}_metadata", schema.MEMBERS_OF[kind]
    there = f"SELECT key, value, id FROM {table}"
    apart = (
        f"SELECT count(*) FROM (SELECT * FROM ({said} EXCEPT {there}) UNION ALL SELECT * FROM ({there} EXCEPT {said}))"
    )

    def count(db: apsw.Connection) -> int:
        return 0 if table in _missing_tables(db) else int(db.execute(apart).get)

    def mend(db: apsw.Connection) -> None:
        db.execute(f"DELETE FROM {table}")
        db.execute(f"INSERT OR IGNORE INTO {table} {said}")

    what = f"member(s) of the metadata of {kind}s that filters do not find, or find where they are not"
    return _Check("metadata", what, count, mend)


# Rows.

# One number for each distinct id: the row id of the first scope that has it (scopes.intern).
_KEYS = {
    name: f"iif({name}_id = '', 0, (SELECT min(o.id) FROM scopes o WHERE o.{name}_id = scopes.{name}_id))"
    for name in ("user", "agent", "run")
}
_TERMS = "printf('u%d a%d r%d', user_key, agent_key, run_key)"
_SCOPES = (
    _of(
        "scopes",
        "scope(s) with the number of another id",
        " OR ".join(f"{name}_key <> {key}" for name, key in _KEYS.items()),
        f"UPDATE scopes SET {', '.join(f'{name}_key = {key}' for name, key in _KEYS.items())}",
    ),
    _of(
        "scopes",
        "scope(s) whose terms in the word index are not their numbers",
        f"terms <> {_TERMS}",
        f"UPDATE scopes SET terms = {_TERMS}",
    ),
)

_NOWHERE = "(live = 0 AND valid_to IS NULL AND recorded_to IS NULL AND archived_at IS NULL)"
# Facts that all have to be the living one of their text: nothing tells which of them is.
_TWICE = f"""
(scope_id, memlite_digest(text)) IN (
  SELECT scope_id, memlite_digest(text) FROM facts WHERE live = 1 OR {_NOWHERE} GROUP BY 1, 2 HAVING count(*) > 1)
"""
_NAMED_TWICE = """
(root_id, type, memlite_fold(name)) IN (
  SELECT root_id, type, memlite_fold(name) FROM entities GROUP BY 1, 2, 3 HAVING count(*) > 1)
"""
# A hash of another text: the text was changed, so the vector is of another one as well.
_ROWS = (
    _anew(
        "facts",
        "fact(s) with the hash of another text",
        "hash",
        "memlite_digest(text)",
        f"hash <> memlite_digest(text) AND ((live = 0 AND NOT {_NOWHERE}) OR NOT {_TWICE})",
    ),
    _of(
        "facts",
        "fact(s) that are neither current nor past",
        f"{_NOWHERE} AND NOT {_TWICE}",
        "UPDATE OR IGNORE facts SET live = 1",
    ),
    _of(
        "facts",
        "facts of one scope that say the same and would all be current: archive or delete all but one, then repair",
        f"(live = 1 OR {_NOWHERE}) AND {_TWICE}",
        None,
    ),
    _of(
        "facts",
        "fact(s) indexed with the words of another text",
        "words <> memlite_beside(text)",
        "UPDATE facts SET words = memlite_beside(text)",
    ),
    _of(
        "messages",
        "message(s) with the hash of another text",
        "hash <> memlite_digest(coalesce(own, content))",
        "UPDATE messages SET hash = memlite_digest(coalesce(own, content)), embedded = 0",
    ),
    _of(
        "messages",
        "message(s) indexed with the words of another text",
        "words <> memlite_beside(coalesce(own, content))",
        "UPDATE messages SET words = memlite_beside(coalesce(own, content))",
    ),
    _anew(
        "entities",
        "entity or entities with the normal form of another name",
        "folded",
        "memlite_fold(name)",
        f"folded <> memlite_fold(name) AND NOT {_NAMED_TWICE}",
    ),
    _of("entities", "entities of one name and type: give all but one their own name again", _NAMED_TWICE, None),
    _of(
        "aliases",
        "alias(es) with the normal form of another name, or of another root",
        "folded <> memlite_fold(name) OR root_id <> (SELECT e.root_id FROM entities e WHERE e.id = entity_id)",
        """
        UPDATE OR IGNORE aliases SET folded = memlite_fold(name),
                                     root_id = (SELECT e.root_id FROM entities e WHERE e.id = entity_id)
        """,
    ),
)

# References. A row that is there only for another one goes with it, as foreign keys say.


def _broken_references(db: apsw.Connection, cascade: bool) -> list[tuple[str, str, str]]:
    """Each row that refers to one that is gone, as (its table, the column, the other table)."""
    rows = db.execute(
        """
        SELECT c."table", l."from", l."table" FROM pragma_foreign_key_check c
        JOIN pragma_foreign_key_list(c."table") l ON l.id = c.fkid WHERE (l.on_delete = 'CASCADE') = ?
        """,
        (cascade,),
    )
    return list(rows)


def _cut_references(db: apsw.Connection) -> None:
    for table, column, other in set(_broken_references(db, True)):
        db.execute(f"DELETE FROM {table} WHERE {column} NOT IN (SELECT id FROM {other})")


_REFERENCES = (
    _Check(
        "references",
        "row(s) that belong to a fact, message, entity or batch that is gone",
        lambda db: len(_broken_references(db, True)),
        _cut_references,
    ),
    _of(
        "entities",
        "entity or entities that no fact mentions",
        "id NOT IN (SELECT entity_id FROM mentions)",
        "DELETE FROM entities",
        "references",
    ),
    _Check(
        "references",
        "row(s) whose scope or batch is gone: only a backup has it",
        lambda db: len(_broken_references(db, False)),
    ),
    _of(
        "facts",
        "earlier text(s) of facts that are gone: only a backup has these",
        "recorded_to IS NOT NULL AND id NOT IN (SELECT to_fact FROM links WHERE relation = 'updates')",
        None,
        "references",
    ),
)


_VECTORS = (
    _Check(
        "vectors",
        "vector(s) of rows that are gone, hidden or marked as having none, or that no embedder of this file made",
        lambda db: len(vector_faults.strays(db)),
        vector_faults.delete_strays,
    ),
    _Check(
        "vectors",
        "row(s) marked as having a vector, without one",
        lambda db: len(vector_faults.promised(db)),
        vector_faults.take_back,
    ),
    _Check(
        "vectors",
        "vector(s) with the scope of another row",
        lambda db: len(vector_faults.misplaced(db)),
        vector_faults.place,
    ),
)
