"""The messages table: every turn as it was said, and the window before a batch."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import apsw

from memlite import instants
from memlite.records import Message, Scope
from memlite.schema import HEARD
from memlite.words import beside, digest, fold, match_expression, quote

SESSION_GAP = 6 * 3600 * 1000  # milliseconds of silence after which another session begins
_PHRASE = 200  # characters of words side by side by which the index is asked for them
WINDOW = 10  # messages of the exact scope shown to the extractor before the new ones
_COUNTED = 1024  # row ids of messages, among which those of a scope are counted

# Neither hidden nor without a word of its own: what memlite itself had recalled brings back nothing.
_HEARD = f"m.archived_at IS NULL AND {HEARD.format('m')}"

# By its words a message would bring back whatever was put away of it, so it must have nothing put away.
# `{put_away}` is a condition over the facts alias `f`; a fact that was deleted left `spent`.
_UNTOUCHED = f"""
({_HEARD} AND m.spent = 0 AND NOT EXISTS (
   SELECT 1 FROM sources r JOIN facts f ON f.id = r.fact_id WHERE r.message_id = m.id AND {{put_away}}))
"""

# Where the past is asked for, one of its facts has to count, if it has any.
# `{current}` is a condition over the facts alias `f`, `{counted}` a query of the facts that count for message m.
_NOT_PAST = f"""
({_HEARD} AND (NOT EXISTS ({{counted}})
 OR EXISTS (SELECT 1 FROM sources r JOIN facts f ON f.id = r.fact_id WHERE r.message_id = m.id AND {{current}})))
"""
_LEARNT = "SELECT 1 FROM sources r WHERE r.message_id = m.id"
_LEARNT_BY = (
    "SELECT 1 FROM sources r JOIN facts f ON f.id = r.fact_id WHERE r.message_id = m.id AND f.created_at <= {at}"
)


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A validated turn, not yet stored. Instants are UTC milliseconds, the offset minutes; metadata is canonical JSON,
    or empty where it has none of its own.
    """

    role: str
    name: str
    content: str
    observed_at: int
    observed_offset: int
    caller_id: str | None = None
    metadata: str = ""


class Place(NamedTuple):
    """Where a message stands: up to two of its session before and after it, the nearest first, and how it is told."""

    scope_id: int
    at: int
    offset: int
    name: str
    assistant: bool
    question: bool
    characters: int
    before: tuple[int, ...]
    after: tuple[int, ...]


def insert(
    db: apsw.Connection, scope_id: int, batch_id: int, message: NewMessage, metadata: str, now: int, own: str | None
) -> tuple[int, str]:
    """Store one message; return its row id and id. own: see the column."""
    uid = uuid.uuid4().hex
    said = message.content if own is None else own
    db.execute(
        """
        INSERT INTO messages(uid, scope_id, batch_id, caller_id, role, name, content, own, hash, words, metadata,
                             observed_at, observed_offset, created_at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (
            uid,
            scope_id,
            batch_id,
            message.caller_id,
            message.role,
            message.name,
            message.content,
            own,
            digest(said),
            beside(said),
            metadata,
            message.observed_at,
            message.observed_offset,
            now,
        ),
    )
    return db.last_insert_rowid(), uid


def by_caller_id(db: apsw.Connection, scope_id: int, caller_id: str) -> tuple[str, str, int, bool] | None:
    """The message a caller's own id stands for in a scope: (id, content, batch row id, whether it is hidden)."""
    return db.execute(
        "SELECT uid, content, batch_id, archived_at IS NOT NULL FROM messages WHERE scope_id = ? AND caller_id = ?",
        (scope_id, caller_id),
    ).fetchone()


def of_batch(db: apsw.Connection, batch_id: int) -> list[int]:
    """The row ids of a batch's messages that nothing hides, in the order they were said."""
    rows = db.execute("SELECT id FROM messages WHERE batch_id = ? AND archived_at IS NULL ORDER BY id", (batch_id,))
    return [id_ for (id_,) in rows]


def with_text(db: apsw.Connection, sql: str, bindings: Sequence[object], speaker: str, text: str) -> str | None:
    """The id of a message of a scope (`sql` over the alias `s`) in which this speaker says exactly this."""
    uid: str | None = db.execute(
        f"""
        SELECT m.uid FROM messages m CROSS JOIN scopes s ON s.id = m.scope_id
        WHERE m.hash = ? AND ? IN (m.name, m.role) AND {sql} LIMIT 1
        """,
        (digest(text), speaker, *bindings),
    ).get
    return uid


def with_words(
    db: apsw.Connection, sql: str, bindings: Sequence[object], speaker: str, said: str
) -> Iterator[tuple[str, str]]:
    """The visible messages of a scope in which this speaker says these words side by side: (id, text)."""
    phrase = said if len(said) <= _PHRASE else said[:_PHRASE].rpartition(" ")[0]
    phrase = phrase.replace("\x00", " ").encode("utf-8", "replace").decode()
    if not any(ch.isalnum() for ch in phrase):
        return
    yield from db.execute(
        f"""
        SELECT m.uid, coalesce(m.own, m.content) FROM message_words
        CROSS JOIN messages m ON m.id = message_words.rowid JOIN scopes s ON s.id = m.scope_id
        WHERE message_words MATCH ? AND ? IN (m.name, m.role) AND {sql}
        """,
        (match_expression((quote(phrase),), ""), speaker, *bindings),
    )


def recall(db: apsw.Connection, message_id: int, fact_ids: Iterable[int]) -> None:
    """Note that a message repeats facts as memlite had recalled them."""
    db.executemany(
        "INSERT INTO recalls(fact_id, message_id) VALUES (?, ?) ON CONFLICT DO NOTHING",
        [(fact_id, message_id) for fact_id in fact_ids],
    )


def recalling(db: apsw.Connection, fact_ids: str, sql: str, bindings: Sequence[object]) -> list[tuple[int, str]]:
    """The messages of a scope that repeat any of these facts so: (row id, id). fact_ids: a JSON array of row ids."""
    rows = db.execute(
        f"""
        SELECT DISTINCT m.id, m.uid FROM recalls r JOIN messages m ON m.id = r.message_id
        JOIN scopes s ON s.id = m.scope_id
        WHERE r.fact_id IN (SELECT value FROM json_each(?)) AND {sql} ORDER BY m.id
        """,
        (fact_ids, *bindings),
    )
    return list(rows)


def having_words(db: apsw.Connection, expression: str, sql: str, bindings: Sequence[object]) -> list[str]:
    """The ids of a scope's messages whose own words an FTS5 expression finds, but of those that a deletion kept."""
    rows = db.execute(
        f"""
        SELECT m.uid FROM message_words w CROSS JOIN messages m ON m.id = w.rowid JOIN scopes s ON s.id = m.scope_id
        WHERE message_words MATCH ? AND NOT m.spent AND {sql} ORDER BY m.id
        """,
        (f"{{text words}} : ({expression})", *bindings),
    )
    return [uid for (uid,) in rows]


def naming(db: apsw.Connection, names: Sequence[str], sql: str, bindings: Sequence[object]) -> int:
    """How many messages of a scope have any of these normalised names in them."""
    said = db.execute(f"SELECT m.content FROM messages m JOIN scopes s ON s.id = m.scope_id WHERE {sql}", bindings)
    return sum(any(map(fold(content).__contains__, names)) for (content,) in said)


def window(db: apsw.Connection, scope_id: int, before: int) -> list[int]:
    """The row ids of the last messages of the exact scope below `before`, in order.

    By row id, not by time: equal times are common, and a batch drained later sees what it would have seen.
    """
    rows = db.execute(
        f"""
        SELECT id FROM (SELECT m.id FROM messages m WHERE m.scope_id = ? AND m.id < ? AND {_HEARD}
                        ORDER BY m.id DESC LIMIT ?)
        ORDER BY id
        """,
        (scope_id, before, WINDOW),
    )
    return [id_ for (id_,) in rows]


def number_before(db: apsw.Connection, scope_id: int, before: int) -> int:
    """A number that grows by one with each message of the exact scope: how many it has below `before`, since the last
    row id that _COUNTED divides. To count them all would cost the more the longer they talk.
    """
    sql = "SELECT count(*) FROM messages WHERE scope_id = ? AND id >= ? AND id < ?"
    found: int = db.execute(sql, (scope_id, before - before % _COUNTED, before)).get
    return found


def places(db: apsw.Connection, ids: Iterable[int]) -> dict[int, Place]:
    """Where messages stand. Those beside one are of its scope, without a long silence between."""
    rows = db.execute(_PLACES, (json.dumps(list(ids)),))
    return {
        id_: Place(
            scope,
            at,
            offset,
            name,
            assistant,
            question,
            length,
            tuple(filter(None, (before, before2))),
            tuple(filter(None, (after, after2))),
        )
        for id_, scope, at, offset, name, assistant, question, length, before, before2, after, after2 in rows
    }


def _beside(name: str, other: str, next_: str) -> str:
    """A join with the message next to `other`, if it is of the same session and not archived."""
    return f"""
    LEFT JOIN messages {name} ON {name}.id = (SELECT {next_.format(other)} AND scope_id = m.scope_id)
      AND {name}.archived_at IS NULL AND abs({other}.observed_at - {name}.observed_at) <= {SESSION_GAP}"""


_BEFORE = "max(id) FROM messages WHERE id < {}.id"
_AFTER = "min(id) FROM messages WHERE id > {}.id"
_PLACES = f"""
    SELECT m.id, m.scope_id, m.observed_at, m.observed_offset, m.name, m.role = 'assistant',
           rtrim(coalesce(m.own, m.content)) GLOB '*[?？]', length(coalesce(m.own, m.content)),
           before.id, before2.id, after.id, after2.id
    FROM json_each(?) wanted JOIN messages m ON m.id = wanted.value
    {_beside("before", "m", _BEFORE)}{_beside("before2", "before", _BEFORE)}
    {_beside("after", "m", _AFTER)}{_beside("after2", "after", _AFTER)}
"""


def fetch(db: apsw.Connection, ids: Iterable[int]) -> dict[int, Message]:
    """Messages by row id, in the order given."""
    wanted = list(ids)
    rows = db.execute(
        """
        SELECT m.id, m.uid, s.user_id, s.agent_id, s.run_id, b.uid, m.role, m.name, m.content, m.metadata,
               m.observed_at, m.observed_offset, m.created_at, m.caller_id, m.own
        FROM messages m JOIN scopes s ON s.id = m.scope_id JOIN batches b ON b.id = m.batch_id
        WHERE m.id IN (SELECT value FROM json_each(?))
        """,
        (json.dumps(wanted),),
    )
    found = {
        row[0]: Message(
            id=row[1],
            scope=Scope(row[2], row[3], row[4]),
            batch=row[5],
            role=row[6],
            name=row[7],
            content=row[8],
            metadata=json.loads(row[9]),
            observed_at=instants.local(row[10], row[11]),
            created_at=instants.local(row[12]),
            caller_id=row[13],
            own=row[14],
        )
        for row in rows
    }
    return {id_: found[id_] for id_ in wanted if id_ in found}


def last(db: apsw.Connection, scopes: str, bindings: Sequence[object], before: int | None, limit: int) -> list[int]:
    """The row ids of the last messages that nothing hides, the newest first. scopes: a query of row ids of scopes.
    before: a row id, of which only earlier ones follow.
    """
    earlier = "AND m.id < ?" if before is not None else ""
    # The plus keeps SQLite from walking back through everybody's messages until it has enough of these.
    rows = db.execute(
        f"""
        SELECT m.id FROM messages m WHERE m.scope_id IN ({scopes}) AND m.archived_at IS NULL {earlier}
        ORDER BY +m.id DESC LIMIT ?
        """,
        (*bindings, *([before] if before is not None else []), limit),
    )
    return [id_ for (id_,) in rows]


def any_in(db: apsw.Connection, scopes: str, bindings: Sequence[object]) -> bool:
    """Whether anything was ever said there. scopes: a query of row ids of scopes."""
    found = f"SELECT EXISTS (SELECT 1 FROM ({scopes}) s CROSS JOIN messages m ON m.scope_id = s.id)"
    return bool(db.execute(found, bindings).get)


def existing(db: apsw.Connection, ids: Iterable[int]) -> tuple[int, ...]:
    """Those of the row ids that are still there."""
    rows = db.execute(
        "SELECT id FROM messages WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id",
        (json.dumps(list(ids)),),
    )
    return tuple(id_ for (id_,) in rows)


def visible_of(db: apsw.Connection, ids: Iterable[int]) -> list[int]:
    """Those of the row ids whose messages are there and not hidden."""
    sql = "SELECT id FROM messages WHERE id IN (SELECT value FROM json_each(?)) AND archived_at IS NULL ORDER BY id"
    return [id_ for (id_,) in db.execute(sql, (json.dumps(list(ids)),))]


def by_uids(db: apsw.Connection, uids: Iterable[str]) -> list[int]:
    """The row ids of those of the messages with these ids that are still there."""
    sql = "SELECT id FROM messages WHERE uid IN (SELECT value FROM json_each(?))"
    return [id_ for (id_,) in db.execute(sql, (json.dumps(list(uids)),))]


def spend(db: apsw.Connection, fact_ids: str) -> None:
    """Note that facts learnt from messages that stay are deleted: such a fact must not be learnt from them again."""
    db.execute(
        """
        UPDATE messages SET spent = 1
        WHERE id IN (SELECT message_id FROM sources WHERE fact_id IN (SELECT value FROM json_each(?)))
        """,
        (fact_ids,),
    )


def spent(db: apsw.Connection, ids: Iterable[int]) -> list[int]:
    """Those of these messages from which a fact was learnt that was deleted."""
    sql = "SELECT id FROM messages WHERE id IN (SELECT value FROM json_each(?)) AND spent = 1"
    return [id_ for (id_,) in db.execute(sql, (json.dumps(list(ids)),))]


def in_reach(db: apsw.Connection, sql: str, bindings: Sequence[object]) -> list[int]:
    """The row ids of all messages of a scope."""
    rows = db.execute(f"SELECT m.id FROM messages m JOIN scopes s ON s.id = m.scope_id WHERE {sql}", bindings)
    return [id_ for (id_,) in rows]


def set_hidden(db: apsw.Connection, ids: Iterable[int], at: int | None) -> list[int]:
    """Hide messages from search and from the window since a time, or show them again (None).

    Returns the row ids of those that this changes. They have no vectors then.
    """
    rows = db.execute(
        """
        UPDATE messages SET archived_at = ?1, embedded = 0
        WHERE id IN (SELECT value FROM json_each(?2)) AND (archived_at IS NULL) = (?1 IS NOT NULL) RETURNING id
        """,
        (at, json.dumps(list(ids))),
    )
    return [id_ for (id_,) in rows]


def hide_by(db: apsw.Connection, batch_id: int, ids: Iterable[int]) -> None:
    """Note that a batch hides messages as long as it is not undone."""
    db.executemany(
        "INSERT INTO hidden_messages(batch_id, message_id) VALUES (?, ?) ON CONFLICT DO NOTHING",
        [(batch_id, id_) for id_ in ids],
    )


def hiding(db: apsw.Connection, batch_id: int) -> list[tuple[int, int, tuple[int, ...]]]:
    """The messages that a batch stored, or hides: (row id, its own batch, all batches that hide it)."""
    rows = db.execute(
        """
        SELECT m.id, m.batch_id, (SELECT json_group_array(h.batch_id) FROM hidden_messages h WHERE h.message_id = m.id)
        FROM messages m
        WHERE m.batch_id = ?1 OR m.id IN (SELECT message_id FROM hidden_messages WHERE batch_id = ?1) ORDER BY m.id
        """,
        (batch_id,),
    )
    return [(id_, own, tuple(json.loads(hiders))) for id_, own, hiders in rows]


def untouched(put_away: str) -> str:
    """The condition over the alias `m` under which a message is a default hit: it has words of its own, and of what was
    learnt from it nothing is put away.
    """
    return _UNTOUCHED.format(put_away=put_away)


def visible(current: str) -> str:
    """The condition over the alias `m` under which a message is a hit where the past is asked for: one of its facts
    counts, or it has none.
    """
    return _NOT_PAST.format(current=current, counted=_LEARNT)


def visible_at(known: str) -> str:
    """The same for what was known at `{at}`: facts that were learnt later do not count."""
    return _NOT_PAST.format(current=known, counted=_LEARNT_BY)


def of_facts(
    db: apsw.Connection, fact_ids: str, sql: str = "1", bindings: Sequence[object] = ()
) -> dict[int, list[int]]:
    """The row ids of the messages behind each fact, within a scope (`sql` over the alias `s`).

    fact_ids: a JSON array of row ids.
    """
    found: dict[int, list[int]] = {}
    rows = db.execute(
        f"""
        SELECT r.fact_id, r.message_id FROM sources r JOIN messages m ON m.id = r.message_id
        JOIN scopes s ON s.id = m.scope_id
        WHERE r.fact_id IN (SELECT value FROM json_each(?)) AND {sql} ORDER BY r.fact_id, r.message_id
        """,
        (fact_ids, *bindings),
    )
    for fact_id, message_id in rows:
        found.setdefault(fact_id, []).append(message_id)
    return found


def scopes_of(db: apsw.Connection, ids: Iterable[int]) -> list[tuple[str, int]]:
    """The ids of messages, given by their row ids, and the row ids of their scopes."""
    sql = "SELECT uid, scope_id FROM messages WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
    return [(uid, scope_id) for uid, scope_id in db.execute(sql, (json.dumps(list(ids)),))]


def facts_of(db: apsw.Connection, ids: Sequence[int]) -> list[int]:
    """The row ids of the facts that were learnt from any of these messages, hidden ones among them."""
    rows = db.execute(
        "SELECT DISTINCT fact_id FROM sources WHERE message_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(ids)),),
    )
    return [id_ for (id_,) in rows]


def delete(db: apsw.Connection, ids: str) -> None:
    """Delete messages, their words with them. `ids`: a JSON array of row ids."""
    db.execute("DELETE FROM messages WHERE id IN (SELECT value FROM json_each(?))", (ids,))
