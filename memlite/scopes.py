"""The scopes table: whose memory a row is, and which scopes a wider one covers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import apsw

from memlite.errors import InvalidInputError, excerpt
from memlite.records import Scope

_IDS = ("user_id", "agent_id", "run_id")
_FEW = 200  # scopes that a search may look through: some microseconds


@dataclass(frozen=True, slots=True)
class StoredScope:
    """A scope with its row id and its root's."""

    id: int
    root_id: int
    scope: Scope
    user_key: int
    agent_key: int
    run_key: int


@dataclass(frozen=True, slots=True)
class Reach:
    """What a scope sees: every row that has all of its ids.

    terms: for FTS5. keys: the numbers that stand for its ids, {} where they do not tell its scopes. sql, bindings: a
    condition over the alias `s`. scopes: a query of the row ids of its scopes, with the same bindings.
    """

    terms: str
    keys: dict[str, int]
    sql: str
    bindings: tuple[int, ...]
    scopes: str


def read_ids(user_id: object, agent_id: object, run_id: object, bound: Scope | None = None) -> Scope:
    """Trim and check the ids a caller gave; ids of a bound handle are filled in and cannot be changed."""
    ids: dict[str, str] = {}
    for name, value in zip(_IDS, (user_id, agent_id, run_id)):
        fixed = getattr(bound, name) if bound else ""
        if value is None:
            ids[name] = fixed
            continue
        if not isinstance(value, str):
            raise InvalidInputError(f"{name} is a {type(value).__name__}, expected a text.")
        trimmed = value.strip()
        if not trimmed:
            raise InvalidInputError(f"{name} is empty, expected any text; leave it out if there is none.")
        check_text(name, trimmed)
        if fixed and trimmed != fixed:
            raise InvalidInputError(
                f"this handle sees {name}={excerpt(fixed)} only; {name}={excerpt(trimmed)} was given."
            )
        ids[name] = trimmed
    if not any(ids.values()):
        raise InvalidInputError("no user_id, agent_id or run_id was given; say whose memory this is with at least one.")
    return Scope(**ids)


def check_text(name: str, text: str) -> None:
    """Refuse a text that UTF-8, and so the file, cannot hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{name} has half of a surrogate pair at character {error.start}, expected whole characters; "
            "decode it with errors='replace' first."
        ) from error


def intern(db: apsw.Connection, scope: Scope) -> StoredScope:
    """The row of a scope, made on first use together with its root's."""
    found = find(db, scope)
    if found:
        return found
    root = root_of(scope)
    root_id = None if root == scope else intern(db, root).id
    id_: int = db.execute("SELECT coalesce(max(id), 0) + 1 FROM scopes").get
    keys = [_key(db, name, getattr(scope, name)) or (id_ if getattr(scope, name) else 0) for name in _IDS]
    db.execute(
        "INSERT INTO scopes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            id_,
            scope.user_id,
            scope.agent_id,
            scope.run_id,
            root_id or id_,
            *keys,
            "u{} a{} r{}".format(*keys),
        ),
    )
    return StoredScope(id_, root_id or id_, scope, *keys)


def find(db: apsw.Connection, scope: Scope) -> StoredScope | None:
    """The row of exactly this scope, or None."""
    row = db.execute(
        """
        SELECT id, root_id, user_key, agent_key, run_key FROM scopes
        WHERE user_id = ? AND agent_id = ? AND run_id = ?
        """,
        (scope.user_id, scope.agent_id, scope.run_id),
    ).fetchone()
    return StoredScope(row[0], row[1], scope, *row[2:]) if row else None


def fetch(db: apsw.Connection, id_: int) -> StoredScope:
    """A scope by its row id."""
    row = next(
        db.execute(
            "SELECT id, root_id, user_id, agent_id, run_id, user_key, agent_key, run_key FROM scopes WHERE id = ?",
            (id_,),
        )
    )
    return StoredScope(row[0], row[1], Scope(*row[2:5]), *row[5:])


def reach(db: apsw.Connection, scope: Scope) -> Reach | None:
    """Everything that has all of the given ids; None when one of them was never seen."""
    keys: dict[str, int] = {}
    for name in _IDS:
        value = getattr(scope, name)
        if value:
            key = _key(db, name, value)
            if key is None:
                return None
            keys[name.replace("_id", "_key")] = key
    return _reach(keys)


def root_of(scope: Scope) -> Scope:
    """Who knows what a scope learns: its user and agent, or the run alone where it has neither."""
    return Scope(scope.user_id, scope.agent_id) if scope.user_id or scope.agent_id else scope


def reach_of_entities(db: apsw.Connection, scope: Scope) -> Reach | None:
    """Like `reach`, for the entities, which belong to the root: a run sees those of its user and agent."""
    found = reach(db, root_of(scope))
    if found is None or scope.user_id or scope.agent_id:
        return found
    # A run by itself: the roots of everything that was said in it.
    sql = "s.id IN (SELECT root_id FROM scopes WHERE run_id = (SELECT run_id FROM scopes WHERE id = ?))"
    return Reach(found.terms, {}, sql, (found.keys["run_key"],), f"SELECT s.id FROM scopes s WHERE {sql}")


class Users(NamedTuple):
    """The scopes of some users, or roots of scopes: a condition over the alias `s`."""

    sql: str
    bindings: tuple[object, ...]


def of_users(db: apsw.Connection, fact_ids: str, message_ids: str) -> Users:
    """All scopes of the users of these facts and messages (JSON arrays of row ids); of what has none, of its root."""
    rows = list(
        db.execute(
            """
            SELECT DISTINCT user_key, root_id FROM scopes WHERE id IN (
              SELECT scope_id FROM facts WHERE id IN (SELECT value FROM json_each(?))
              UNION SELECT scope_id FROM messages WHERE id IN (SELECT value FROM json_each(?)))
            """,
            (fact_ids, message_ids),
        )
    )
    keys = json.dumps([key for key, _ in rows if key])
    roots = json.dumps([root for key, root in rows if not key])
    listed = "(s.user_key IN (SELECT value FROM json_each(?)) OR s.root_id IN (SELECT value FROM json_each(?)))"
    return Users(listed, (keys, roots))


def outside(db: apsw.Connection, reach: Reach) -> bool:
    """Whether the file may have a scope that a reach does not see: of many they are not looked through."""
    found: int = db.execute(
        f"SELECT (SELECT max(id) FROM scopes) > {_FEW} OR EXISTS (SELECT 1 FROM scopes s WHERE NOT ({reach.sql}))",
        reach.bindings,
    ).get
    return bool(found)


def reach_of_root(db: apsw.Connection, root_id: int) -> Reach:
    """Everything that shares a root: the runs of one (user, agent), or one lone run."""
    root = fetch(db, root_id)
    if not (root.scope.user_id or root.scope.agent_id):
        return _reach({"user_key": 0, "agent_key": 0, "run_key": root.run_key})
    # Both keys, 0 for the absent one: the root (user, '') does not see what the user told one agent.
    return _reach({"user_key": root.user_key, "agent_key": root.agent_key})


_FORGOTTEN = "deleted-"  # and a random number: what stands in the place of an id
# Whether anything is stored in the scope `s`. A batch of the queue has messages; the history needs no ids.
_FILLED = """
(EXISTS (SELECT 1 FROM facts WHERE scope_id = s.id) OR EXISTS (SELECT 1 FROM messages WHERE scope_id = s.id)
 OR EXISTS (SELECT 1 FROM ttls WHERE scope_id = s.id))
"""


def ids_in(db: apsw.Connection, sql: str, bindings: Sequence[object]) -> tuple[list[str], list[str]]:
    """The ids of the scopes that `sql` (alias `s`) admits, as "user_id=ana": those that no other scope needs in which
    anything is stored, and those that one does.
    """
    alone: list[str] = []
    shared: list[str] = []
    for name in _IDS:
        rows = db.execute(
            f"""
            SELECT {name}, max(NOT ({sql}) AND {_FILLED}) FROM scopes s
            WHERE {name} IN (SELECT {name} FROM scopes s WHERE {sql})
              AND {name} <> '' AND {name} NOT GLOB '{_FORGOTTEN}{"[0-9a-f]" * 32}'
            GROUP BY {name}
            """,
            (*bindings, *bindings),
        )
        for value, needed in rows:
            (shared if needed else alone).append(f"{name}={value}")
    return alone, shared


def forget(db: apsw.Connection, given: Iterable[str]) -> None:
    """Forget ids of scopes in which nothing is left. Their rows stay for the history, each id as a random number, of
    which nobody can tell whose it was.
    """
    for each in given:
        name, _, value = each.partition("=")
        assert name in _IDS
        db.execute(f"UPDATE scopes SET {name} = ? WHERE {name} = ?", (f"{_FORGOTTEN}{uuid.uuid4().hex}", value))


def _reach(keys: dict[str, int]) -> Reach:
    # The numbers have no index, the ids have; a number is the row id of the first scope with the id (0: of none).
    ids = " AND ".join(
        f"s.{name}_id = coalesce((SELECT {name}_id FROM scopes WHERE id = ?), '')"
        for name in (key.removesuffix("_key") for key in keys)
    )
    return Reach(
        terms=" ".join(f"{name[0]}{key}" for name, key in keys.items()),
        keys=keys,
        sql=" AND ".join(f"s.{name} = ?" for name in keys),
        bindings=tuple(keys.values()),
        scopes=f"SELECT s.id FROM scopes s WHERE {ids}",
    )


def _key(db: apsw.Connection, name: str, value: str) -> int | None:
    """The number that stands for one id, None while it has none."""
    if not value:
        return None
    key: int | None = db.execute(
        f"SELECT {name.replace('_id', '_key')} FROM scopes WHERE {name} = ? LIMIT 1", (value,)
    ).get
    return key
