"""The facts table: insert without duplicates, close, rewrite, page through, delete."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, tzinfo

import apsw

from memlite import instants
from memlite.records import Fact, NamedEntity, Scope
from memlite.scopes import Reach
from memlite.words import beside, digest

# A fact that counts today, over the alias `f`. The time is SQLite's own, so that one condition serves all.
CURRENT = """
(f.live = 1 AND f.archived_at IS NULL
 AND (f.expires_at IS NULL OR f.expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER)))
"""

# An event by which somebody gave a fact another text by hand. A deletion has taken the words of some.
REWORDED = """
(e.action = 'UPDATE' AND e.batch_id IS NULL AND (e.before IS NULL OR e.before ->> '$.text' <> e.after ->> '$.text'))
"""

# One that somebody has put away, and that no current one says word for word: archived, undone, replaced, expired, or
# changed by hand. What a reextract did not find again or reworded was put away by nobody, and what a fix has joined to
# another fact is said by that one. The last event tells.
PUT_AWAY = f"""
(NOT {CURRENT}
 AND NOT EXISTS (
   SELECT 1 FROM facts t WHERE t.scope_id = f.scope_id AND t.hash = f.hash AND {CURRENT.replace("f.", "t.")})
 AND CASE WHEN f.recorded_to IS NOT NULL THEN EXISTS (
     SELECT 1 FROM links l JOIN facts o ON o.id = l.from_fact JOIN events e ON e.fact_uid = o.uid
     WHERE l.to_fact = f.id AND l.relation = 'updates' AND e.at = f.recorded_to AND {REWORDED})
   WHEN f.archived_at IS NOT NULL THEN coalesce((
     SELECT coalesce(b.kind, '') <> 'reextract' AND NOT EXISTS (
              SELECT 1 FROM events j WHERE j.fact_uid = f.uid AND j.action = 'MERGE' AND j.batch_id = e.batch_id)
     FROM events e LEFT JOIN batches b ON b.id = e.batch_id
     WHERE e.fact_uid = f.uid AND e.action = 'ARCHIVE' ORDER BY e.id DESC LIMIT 1), 1)
   ELSE 1 END)
"""

# One that counts or once counted: not what an update rewrote, nor what was put away.
KEPT = "(f.recorded_to IS NULL AND f.archived_at IS NULL)"

# One in the archive.
ARCHIVED = "(f.recorded_to IS NULL AND f.archived_at IS NOT NULL)"

# One that was true at `{at}`, UTC milliseconds.
TRUE_AT = f"""
({KEPT} AND f.valid_from <= {{at}} AND (f.valid_to IS NULL OR f.valid_to > {{at}})
 AND (f.expires_at IS NULL OR f.expires_at > {{at}}))
"""

# The id under which a fact is known; a closed version has one of its own.
_UID = """
CASE WHEN f.recorded_to IS NULL THEN f.uid ELSE
  (SELECT o.uid FROM links l JOIN facts o ON o.id = l.from_fact WHERE l.to_fact = f.id AND l.relation = 'updates') END
"""

# The expiry that a fact had at `{at}`, 0 for none: a reopened one has lost it since.
_EXPIRY_AT = f"""
coalesce((
   SELECT coalesce(e.before ->> '$.expires_at', 0) FROM events e
   WHERE e.fact_uid = {_UID} AND e.at > {{at}} AND e.at < coalesce(f.recorded_to, e.at + 1)
     AND e.action = 'RESTORE' AND e.before IS NOT NULL
   ORDER BY e.id LIMIT 1), f.expires_at, 0)
"""

# Whether a fact that was there counted at `{at}`, its expiry apart: the last event until then tells. An archived fact
# that was past already comes back as a past one.
_COUNTED_AT = f"""
coalesce((
   SELECT e.action = 'RESTORE' AND (e.before ->> '$.archived_at' IS NULL OR e.before ->> '$.valid_to' IS NULL)
   FROM events e
   WHERE e.fact_uid = {_UID} AND e.at <= {{at}} AND e.action IN ('SUPERSEDE', 'EXPIRE', 'ARCHIVE', 'RESTORE')
   ORDER BY e.id DESC LIMIT 1), 1)
"""

# One that memlite took for true at `{at}`, in the words that it had then.
_TAKEN_AT = f"""
(f.created_at <= {{at}} AND (f.recorded_to IS NULL OR f.recorded_to > {{at}})
 AND ({_EXPIRY_AT} = 0 OR {_EXPIRY_AT} > {{at}}) AND {_COUNTED_AT})
"""

# One that by `{at}` had been replaced, as memlite knew then, by the fact that a link `l` comes from.
REPLACED_AT = f"""
({KEPT} AND NOT {_COUNTED_AT} AND EXISTS (
   SELECT 1 FROM events e JOIN facts n ON n.id = l.from_fact
   WHERE e.fact_uid = f.uid AND e.action = 'SUPERSEDE' AND e.at <= {{at}} AND e.after ->> '$.replaced_by' = n.uid))
"""

# The same, without what has been archived since.
KNOWN_AT = f"""
(f.archived_at IS NULL AND {_TAKEN_AT} AND NOT EXISTS (
   SELECT 1 FROM links l JOIN facts o ON o.id = l.from_fact
   WHERE l.to_fact = f.id AND l.relation = 'updates' AND o.archived_at IS NOT NULL))
"""


@dataclass(frozen=True, slots=True)
class NewFact:
    """A fact ready to be stored. Instants are UTC milliseconds, ttl milliseconds, offsets minutes, metadata JSON.

    uid: the id that it is to have, 32 hexadecimal digits; "" for a new one.
    """

    text: str
    observed_at: int
    observed_offset: int = 0
    by: str = ""
    kind: str = ""
    metadata: str = "{}"
    entities: tuple[NamedEntity, ...] = ()
    sources: tuple[int, ...] = ()
    confidence: float | None = None
    model: str = ""
    prompt_version: str = ""
    event_start: str | None = None
    event_end: str | None = None
    event_precision: str | None = None
    valid_from: int | None = None
    valid_to: int | None = None
    expires_at: int | None = None
    ttl: int | None = None
    uid: str = ""

    @property
    def begins(self) -> int:
        """When it is true from, in UTC milliseconds."""
        return self.observed_at if self.valid_from is None else self.valid_from


@dataclass(frozen=True, slots=True)
class Twin:
    """The living fact that already says what a new one says."""

    id: int
    uid: str
    expires_at: int | None


def insert(db: apsw.Connection, scope_id: int, batch_id: int | None, fact: NewFact, now: int) -> tuple[int, str]:
    """Store one fact; return its row id and id. A living twin makes this fail: look with `twin` first. One that has a
    `valid_to` is past.
    """
    uid = fact.uid or uuid.uuid4().hex
    db.execute(
        """
        INSERT INTO facts(uid, scope_id, batch_id, text, hash, words, attributed_to, kind, metadata, confidence,
                          model, prompt_version, created_at, observed_at, observed_offset, event_start, event_end,
                          event_precision, valid_from, begins, valid_to, live, last_confirmed_at, expires_at, ttl)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (
            uid,
            scope_id,
            batch_id,
            fact.text,
            digest(fact.text),
            beside(fact.text),
            fact.by,
            fact.kind,
            fact.metadata,
            fact.confidence,
            fact.model,
            fact.prompt_version,
            now,
            fact.observed_at,
            fact.observed_offset,
            fact.event_start,
            fact.event_end,
            fact.event_precision,
            fact.begins,
            fact.begins,
            fact.valid_to,
            int(fact.valid_to is None),
            fact.observed_at,
            fact.expires_at,
            fact.ttl,
        ),
    )
    id_ = db.last_insert_rowid()
    add_sources(db, id_, fact.sources)
    return id_, uid


def twin(db: apsw.Connection, scope_id: int, text: str) -> Twin | None:
    """The living fact of the exact scope with the same normal form."""
    row = db.execute(
        "SELECT id, uid, expires_at FROM facts WHERE scope_id = ? AND hash = ? AND live = 1",
        (scope_id, digest(text)),
    ).fetchone()
    return Twin(*row) if row else None


def current(db: apsw.Connection, ids: Iterable[int]) -> set[int]:
    """Those of some facts that count now."""
    sql = f"SELECT f.id FROM facts f WHERE f.id IN (SELECT value FROM json_each(?)) AND {CURRENT}"
    return {id_ for (id_,) in db.execute(sql, (json.dumps(list(ids)),))}


def archived(db: apsw.Connection, ids: Iterable[int]) -> set[int]:
    """Those of some facts that are in the archive."""
    sql = "SELECT id FROM facts WHERE id IN (SELECT value FROM json_each(?)) AND archived_at IS NOT NULL"
    return {id_ for (id_,) in db.execute(sql, (json.dumps(list(ids)),))}


def current_of_root(db: apsw.Connection, root_id: int) -> list[int]:
    """The row ids of all facts of a root that count now."""
    sql = f"SELECT f.id FROM scopes s CROSS JOIN facts f ON f.scope_id = s.id WHERE s.root_id = ? AND {CURRENT}"
    return [id_ for (id_,) in db.execute(sql, (root_id,))]


def twin_in_root(db: apsw.Connection, root_id: int, text: str) -> Twin | None:
    """A living, unexpired fact of another run of the same root that says the same."""
    row = db.execute(
        f"""
        SELECT f.id, f.uid, f.expires_at FROM scopes s CROSS JOIN facts f ON f.scope_id = s.id
        WHERE s.root_id = ? AND f.hash = ? AND {CURRENT} ORDER BY f.id LIMIT 1
        """,
        (root_id, digest(text)),
    ).fetchone()
    return Twin(*row) if row else None


def replaced_twin(db: apsw.Connection, root_id: int | None, scope_id: int, text: str, observed_at: int) -> Twin | None:
    """The fact that says the same and was replaced, or ended as it was given, after `observed_at`: what was said before
    tells nothing new.

    Of the exact scope, or of the whole root where it is given.
    """
    row = db.execute(
        f"""
        SELECT f.id, f.uid, f.expires_at FROM scopes s CROSS JOIN facts f ON f.scope_id = s.id
        WHERE (s.root_id = ?1 OR s.id = ?2) AND f.hash = ?3 AND {KEPT} AND f.live = 0 AND f.valid_to > ?4
          AND EXISTS (
            SELECT 1 FROM events e
            WHERE e.fact_uid = f.uid AND (e.action = 'SUPERSEDE' OR e.action = 'EXPIRE' AND e.after ->> '$.given'))
        ORDER BY f.valid_to DESC, f.id DESC LIMIT 1
        """,
        (root_id, scope_id, digest(text), observed_at),
    ).fetchone()
    return Twin(*row) if row else None


def ended_twin(db: apsw.Connection, scope_id: int, text: str, begins: int, ends: int) -> Twin | None:
    """The past fact of the exact scope that says the same of the same time, UTC milliseconds."""
    row = db.execute(
        f"""
        SELECT f.id, f.uid, f.expires_at FROM facts f
        WHERE f.scope_id = ? AND f.hash = ? AND {KEPT} AND f.valid_from = ? AND f.valid_to = ? LIMIT 1
        """,
        (scope_id, digest(text), begins, ends),
    ).fetchone()
    return Twin(*row) if row else None


def with_text(db: apsw.Connection, sql: str, bindings: Sequence[object], text: str) -> tuple[int, str] | None:
    """The row id and id of a fact of a scope (`sql` over the alias `s`) that says exactly this, or once said it, a
    current one first.
    """
    return with_texts(db, sql, bindings, (text,)).get(text)


def with_texts(
    db: apsw.Connection, sql: str, bindings: Sequence[object], texts: Iterable[str]
) -> dict[str, tuple[int, str]]:
    """The same for those of many texts that a fact says."""
    digests = {text: digest(text) for text in texts}
    if not digests:
        return {}
    rows = db.execute(
        f"""
        SELECT f.hash, f.id, {_UID} FROM json_each(?) wanted CROSS JOIN facts f ON f.hash = wanted.value
        CROSS JOIN scopes s ON s.id = f.scope_id WHERE {sql} ORDER BY f.live, f.id
        """,
        (json.dumps(sorted(set(digests.values()))), *bindings),
    )
    found = {hash_: (id_, uid) for hash_, id_, uid in rows}
    return {text: found[each] for text, each in digests.items() if each in found}


def having_words(db: apsw.Connection, expression: str, sql: str, bindings: Sequence[object]) -> list[str]:
    """The ids of a scope's facts, past ones as well, that an FTS5 expression finds."""
    rows = db.execute(
        f"""
        SELECT f.uid FROM fact_words w CROSS JOIN facts f ON f.id = w.rowid JOIN scopes s ON s.id = f.scope_id
        WHERE fact_words MATCH ? AND {sql} ORDER BY f.id
        """,
        (f"{{text words}} : ({expression})", *bindings),
    )
    return [uid for (uid,) in rows]


def was_reworded(db: apsw.Connection, root_id: int, text: str, at: int) -> bool:
    """Whether a fact of a root said this until somebody gave it another text by hand, at `at` or later."""
    sql = f"""
        SELECT 1 FROM scopes s CROSS JOIN facts f ON f.scope_id = s.id JOIN links l ON l.to_fact = f.id
        JOIN facts o ON o.id = l.from_fact JOIN events e ON e.fact_uid = o.uid
        WHERE s.root_id = ? AND f.hash = ? AND f.recorded_to >= ? AND l.relation = 'updates'
          AND e.at = f.recorded_to AND {REWORDED}
    """
    return db.execute(sql, (root_id, digest(text), at)).get is not None


def add_sources(db: apsw.Connection, fact_id: int, message_ids: Iterable[int]) -> None:
    """Cite more messages; one that is cited already stays cited once."""
    db.executemany(
        "INSERT INTO sources(fact_id, message_id) VALUES (?, ?) ON CONFLICT DO NOTHING",
        [(fact_id, message_id) for message_id in message_ids],
    )


def drop_sources(db: apsw.Connection, fact_id: int, message_uids: Iterable[str]) -> None:
    """Cite messages, given by their ids, no longer."""
    db.executemany(
        "DELETE FROM sources WHERE fact_id = ? AND message_id = (SELECT id FROM messages WHERE uid = ?)",
        [(fact_id, uid) for uid in message_uids],
    )


# The same as `expiry`, since a fact that is said again goes on counting.
_SAID = f"""
UPDATE facts SET last_confirmed_at = {{said}},
                 expires_at = CASE WHEN ttl IS NULL THEN expires_at ELSE min({{said}} + ttl, {instants.LAST}) END
WHERE id = ?2
"""


def expiry(said: int, ttl: int | None) -> int | None:
    """When a fact stops counting that was last said then, by its time to live in milliseconds."""
    return None if ttl is None else min(said + ttl, instants.LAST)


def confirm(db: apsw.Connection, fact_id: int, observed_at: int, message_ids: Iterable[int]) -> None:
    """Note that a fact was said again: it has one more source and a later confirmation."""
    db.execute(_SAID.format(said="max(last_confirmed_at, ?1)"), (observed_at, fact_id))
    add_sources(db, fact_id, message_ids)


def barred_until(db: apsw.Connection, fact_id: int) -> int | None:
    """Until when something else is known in the place of a fact: when what it replaced was observed, and when a past
    one of its root that said the same ended.
    """
    at: int | None = db.execute(
        f"""
        SELECT max(at) FROM (
          SELECT o.observed_at AS at FROM links l JOIN facts o ON o.id = l.to_fact
          WHERE l.from_fact = ?1 AND l.relation = 'replaces'
          UNION ALL SELECT f.valid_to FROM facts o JOIN scopes g ON g.id = o.scope_id
          JOIN scopes s ON s.root_id = g.root_id CROSS JOIN facts f ON f.scope_id = s.id AND f.hash = o.hash
          WHERE o.id = ?1 AND f.id <> ?1 AND {KEPT} AND f.live = 0)
        """,
        (fact_id,),
    ).get
    return at


def saying_the_same(db: apsw.Connection, fact_ids: str) -> list[int]:
    """The row ids of the facts of their roots that have the text of any of these (a JSON array of row ids)."""
    rows = db.execute(
        """
        SELECT DISTINCT o.id FROM facts f JOIN scopes g ON g.id = f.scope_id JOIN scopes s ON s.root_id = g.root_id
        CROSS JOIN facts o ON o.scope_id = s.id AND o.hash = f.hash
        WHERE f.id IN (SELECT value FROM json_each(?)) AND o.id <> f.id
        """,
        (fact_ids,),
    )
    return [id_ for (id_,) in rows]


def set_begin(db: apsw.Connection, fact_id: int, valid_from: int) -> bool:
    """Set when a fact is true from; return whether that was another time."""
    db.execute("UPDATE facts SET valid_from = ?1 WHERE id = ?2 AND valid_from <> ?1", (valid_from, fact_id))
    return db.changes() > 0


def close(db: apsw.Connection, fact_id: int, valid_to: int) -> None:
    """End a fact's validity: it is past from then on."""
    db.execute("UPDATE facts SET live = 0, valid_to = max(valid_from, ?) WHERE id = ?", (valid_to, fact_id))


@dataclass(frozen=True, slots=True)
class State:
    """Where a fact stands in its life: what archiving, restoring and undoing change. Instants are UTC milliseconds.

    ttl: milliseconds, where a rule made the expiry.
    """

    uid: str
    scope_id: int
    live: bool
    valid_to: int | None
    expires_at: int | None
    ttl: int | None
    archived_at: int | None


def state(db: apsw.Connection, fact_id: int) -> State | None:
    """The state of a fact, None where it is gone."""
    row = db.execute(
        "SELECT uid, scope_id, live, valid_to, expires_at, ttl, archived_at FROM facts WHERE id = ?", (fact_id,)
    ).fetchone()
    return State(row[0], row[1], bool(row[2]), *row[3:]) if row else None


def times(db: apsw.Connection, fact_id: int) -> dict[str, object]:
    """Since when a fact is true, when it was last said, and when it expires: what saying it again changes."""
    columns = ("valid_from", "last_confirmed_at", "expires_at")
    row = db.execute(f"SELECT {', '.join(columns)} FROM facts WHERE id = ?", (fact_id,)).fetchone()
    return dict(zip(columns, row)) if row else {}


def set_state(db: apsw.Connection, fact_id: int, new: State) -> None:
    """Write a state; a fact that is archived by it counts as not embedded."""
    db.execute(
        """
        UPDATE facts SET live = ?, valid_to = ?, expires_at = ?, ttl = ?, archived_at = ?,
                         embedded = CASE WHEN ?5 IS NULL THEN embedded ELSE 0 END
        WHERE id = ?
        """,
        (int(new.live), new.valid_to, new.expires_at, new.ttl, new.archived_at, fact_id),
    )


def by_uid(db: apsw.Connection, uid: str) -> int | None:
    """The row id of the fact with exactly this id, None where it is gone."""
    id_: int | None = db.execute("SELECT id FROM facts WHERE uid = ?", (uid,)).get
    return id_


def replaced_by(
    db: apsw.Connection, fact_ids: str, condition: str = "1", bindings: Sequence[object] = ()
) -> dict[int, list[int]]:
    """The row ids of the facts that each of these replaced, the last one first. fact_ids: a JSON array of row ids.

    condition: over the replaced facts (alias `f`) and their scopes (`s`).
    """
    found: dict[int, list[int]] = {}
    rows = db.execute(
        f"""
        SELECT l.from_fact, f.id FROM links l JOIN facts f ON f.id = l.to_fact JOIN scopes s ON s.id = f.scope_id
        WHERE l.from_fact IN (SELECT value FROM json_each(?)) AND l.relation = 'replaces' AND {condition}
        ORDER BY l.from_fact, f.observed_at DESC, f.id DESC
        """,
        (fact_ids, *bindings),
    )
    for newer, older in rows:
        found.setdefault(newer, []).append(older)
    return found


def all_replacing(db: apsw.Connection, fact_ids: str) -> list[int]:
    """The row ids of all facts that replaced any of these. fact_ids: a JSON array of row ids."""
    rows = db.execute(
        """
        SELECT DISTINCT from_fact FROM links
        WHERE to_fact IN (SELECT value FROM json_each(?)) AND relation = 'replaces'
        """,
        (fact_ids,),
    )
    return [id_ for (id_,) in rows]


def all_replaced_by(db: apsw.Connection, fact_ids: str) -> list[int]:
    """The row ids of all facts that any of these replaced. fact_ids: a JSON array of row ids."""
    return [id_ for ids in replaced_by(db, fact_ids).values() for id_ in ids]


def set_confirmed(db: apsw.Connection, fact_id: int, at: int | None) -> None:
    """Set when a fact was last said; None: when it was first observed."""
    db.execute(_SAID.format(said="coalesce(?1, observed_at)"), (at, fact_id))


def replaced_outside(db: apsw.Connection, fact_ids: str) -> list[tuple[int, int]]:
    """Of these facts (a JSON array of row ids) and others: the row ids of one that replaced another, and of that."""
    rows = db.execute(
        """
        SELECT from_fact, to_fact FROM links
        WHERE from_fact IN (SELECT value FROM json_each(?1)) AND relation = 'replaces'
          AND to_fact NOT IN (SELECT value FROM json_each(?1))
        """,
        (fact_ids,),
    )
    return [(newer, older) for newer, older in rows]


def handed_on(db: apsw.Connection, fact_ids: str) -> list[tuple[int, int]]:
    """What deleting facts leaves between others: row ids of what replaced one, and of what that one had replaced."""
    rows = db.execute(
        """
        WITH RECURSIVE pair(newer, older) AS (
          SELECT n.from_fact, o.to_fact FROM links n JOIN links o ON o.from_fact = n.to_fact
          WHERE n.to_fact IN (SELECT value FROM json_each(?1)) AND n.relation = 'replaces' AND o.relation = 'replaces'
          UNION SELECT p.newer, o.to_fact FROM pair p JOIN links o ON o.from_fact = p.older
          WHERE p.older IN (SELECT value FROM json_each(?1)) AND o.relation = 'replaces')
        SELECT newer, older FROM pair WHERE newer <> older
          AND newer NOT IN (SELECT value FROM json_each(?1)) AND older NOT IN (SELECT value FROM json_each(?1))
        """,
        (fact_ids,),
    )
    return [(newer, older) for newer, older in rows]


def link(db: apsw.Connection, from_fact: int, to_fact: int, relation: str) -> None:
    """Say that one fact replaces, continues or updates another; nothing is said of one that is gone."""
    db.execute(
        """
        INSERT INTO links(from_fact, to_fact, relation) SELECT ?, id, ? FROM facts WHERE id = ?
        ON CONFLICT DO NOTHING
        """,
        (from_fact, relation, to_fact),
    )


def replacing(db: apsw.Connection, fact_id: int) -> str | None:
    """The id of the fact that replaced this one, the last one where there were several."""
    uid: str | None = db.execute(
        """
        SELECT f.uid FROM links l JOIN facts f ON f.id = l.from_fact
        WHERE l.to_fact = ? AND l.relation = 'replaces' ORDER BY f.id DESC LIMIT 1
        """,
        (fact_id,),
    ).get
    return uid


def followers(db: apsw.Connection, fact_ids: str) -> list[tuple[int, int, str]]:
    """For each of these facts that is past: the row ids of it and of the current ones that have replaced it, or what
    did, with their texts. fact_ids: a JSON array of row ids.
    """
    rows = db.execute(
        f"""
        WITH RECURSIVE line(old, id) AS (
          SELECT id, id FROM facts WHERE id IN (SELECT value FROM json_each(?)) AND live = 0
          UNION SELECT line.old, l.from_fact
          FROM line JOIN links l ON l.to_fact = line.id AND l.relation = 'replaces')
        SELECT line.old, f.id, f.text FROM line CROSS JOIN facts f ON f.id = line.id WHERE {CURRENT}
        ORDER BY line.old, f.id
        """,
        (fact_ids,),
    )
    return [(old, id_, text) for old, id_, text in rows]


def rewrite(
    db: apsw.Connection,
    fact_id: int,
    now: int,
    *,
    text: str,
    metadata: str,
    kind: str,
    expires_at: int | None,
    ttl: int | None,
) -> int:
    """Give a fact new content under its id; what it said before is kept as a closed row of its own.

    Returns the row id of the closed version, which `links` ties to the fact as "updates".
    """
    version: int = db.execute(
        """
        INSERT INTO facts(uid, scope_id, batch_id, text, hash, words, live, attributed_to, kind, metadata, confidence,
                          model, prompt_version, created_at, observed_at, observed_offset, event_start, event_end,
                          event_precision, valid_from, begins, valid_to, recorded_to, last_confirmed_at, expires_at,
                          ttl)
        SELECT ?, scope_id, batch_id, text, hash, words, 0, attributed_to, kind, metadata, confidence,
               model, prompt_version, created_at, observed_at, observed_offset, event_start, event_end,
               event_precision, valid_from, begins, valid_to, ?, last_confirmed_at, expires_at, ttl
        FROM facts WHERE id = ? RETURNING id
        """,
        (uuid.uuid4().hex, now, fact_id),
    ).get
    db.execute("INSERT INTO sources SELECT ?, message_id FROM sources WHERE fact_id = ?", (version, fact_id))
    db.execute(
        "INSERT INTO mentions SELECT ?, entity_id, name, position, aliases FROM mentions WHERE fact_id = ?",
        (version, fact_id),
    )
    link(db, fact_id, version, "updates")
    db.execute(
        """
        UPDATE facts SET text = ?, hash = ?, words = ?, metadata = ?, kind = ?, expires_at = ?, ttl = ?, created_at = ?
        WHERE id = ?
        """,
        (text, digest(text), beside(text), metadata, kind, expires_at, ttl, now, fact_id),
    )
    return version


def set_origin(db: apsw.Connection, fact_id: int, new: NewFact) -> None:
    """Note what made a fact's text: model, prompt and confidence, and what it read: the event's days, and since when it
    is true.
    """
    db.execute(
        """
        UPDATE facts SET confidence = ?, model = ?, prompt_version = ?, event_start = ?, event_end = ?,
                         event_precision = ?, begins = coalesce(?, observed_at)
        WHERE id = ?
        """,
        (
            new.confidence,
            new.model,
            new.prompt_version,
            new.event_start,
            new.event_end,
            new.event_precision,
            new.valid_from,
            fact_id,
        ),
    )


def version_with(db: apsw.Connection, fact_id: int, text: str) -> int | None:
    """The row id of a fact's latest version that said this text."""
    version: int | None = db.execute(
        """
        SELECT v.id FROM links l JOIN facts v ON v.id = l.to_fact
        WHERE l.relation = 'updates' AND l.from_fact = ? AND v.text = ? ORDER BY v.id DESC LIMIT 1
        """,
        (fact_id, text),
    ).get
    return version


def take_origin(db: apsw.Connection, fact_id: int, version_id: int) -> None:
    """Give a fact the origin of an earlier version."""
    columns = "confidence, model, prompt_version, event_start, event_end, event_precision, begins"
    db.execute(
        f"UPDATE facts SET ({columns}) = (SELECT {columns} FROM facts WHERE id = ?) WHERE id = ?", (version_id, fact_id)
    )


def forget_vector(db: apsw.Connection, fact_id: int) -> None:
    """Mark a fact as not embedded: its text has changed."""
    db.execute("UPDATE facts SET embedded = 0 WHERE id = ?", (fact_id,))


def drop_mentions(db: apsw.Connection, fact_id: int) -> None:
    """Unlink a fact from its entities, before its new text names others."""
    db.execute("DELETE FROM mentions WHERE fact_id = ?", (fact_id,))


def is_put_away(db: apsw.Connection, fact_id: int) -> bool:
    """Whether somebody has put a fact, or an earlier version of one, away."""
    return db.execute(f"SELECT 1 FROM facts f WHERE f.id = ? AND {PUT_AWAY}", (fact_id,)).get is not None


def versions(db: apsw.Connection, fact_ids: str) -> list[int]:
    """The row ids of earlier versions of facts. `fact_ids`: a JSON array of row ids."""
    rows = db.execute(
        """
        SELECT to_fact FROM links
        WHERE relation = 'updates' AND from_fact IN (SELECT value FROM json_each(?))
        """,
        (fact_ids,),
    )
    return [id_ for (id_,) in rows]


def as_of_record(db: apsw.Connection, fact_ids: str, at: int) -> dict[int, int]:
    """The row ids that hold what facts said at a time, for those that have been updated since. `fact_ids`: a JSON array
    of row ids.
    """
    return dict(
        db.execute(
            """
            SELECT l.from_fact, v.id FROM links l JOIN facts v ON v.id = l.to_fact
            WHERE l.relation = 'updates' AND l.from_fact IN (SELECT value FROM json_each(?))
              AND v.created_at <= ? AND v.recorded_to > ?
            """,
            (fact_ids, at, at),
        )
    )


def owners(db: apsw.Connection, version_ids: str) -> dict[int, str]:
    """The ids of the facts whose earlier versions these rows are. `version_ids`: a JSON array of row ids."""
    return dict(
        db.execute(
            """
            SELECT l.to_fact, f.uid FROM links l JOIN facts f ON f.id = l.from_fact
            WHERE l.relation = 'updates' AND l.to_fact IN (SELECT value FROM json_each(?))
            """,
            (version_ids,),
        )
    )


def fed_by(
    db: apsw.Connection, message_ids: str, sql: str = "1", bindings: Sequence[object] = ()
) -> list[tuple[int, bool]]:
    """The facts of a scope that cite any of these messages, each with whether it cites no other message."""
    rows = db.execute(
        f"""
        SELECT DISTINCT fact_id, NOT EXISTS (
          SELECT 1 FROM sources o WHERE o.fact_id = r.fact_id
          AND o.message_id NOT IN (SELECT value FROM json_each(?)))
        FROM sources r JOIN facts f ON f.id = r.fact_id JOIN scopes s ON s.id = f.scope_id
        WHERE message_id IN (SELECT value FROM json_each(?)) AND {sql}
        """,
        (message_ids, message_ids, *bindings),
    )
    return [(id_, bool(alone)) for id_, alone in rows]


def fetch(
    db: apsw.Connection,
    ids: Iterable[int],
    entities: dict[int, tuple[NamedEntity, ...]],
    sql: str = "1",
    bindings: Sequence[object] = (),
    zone: tzinfo | None = None,
) -> dict[int, Fact]:
    """Facts by row id, in the order given. `entities` comes from entities.of_facts.

    sql, bindings: the scopes (alias `s`) whose messages are named as sources; another run may have confirmed
    the same fact. zone: of what was observed in it (see instants.beside).
    """
    wanted = list(ids)
    listed = json.dumps(wanted)
    sources: dict[int, list[str]] = {}
    for fact_id, uid in db.execute(
        f"""
        SELECT r.fact_id, m.uid FROM sources r JOIN messages m ON m.id = r.message_id
        JOIN scopes s ON s.id = m.scope_id
        WHERE r.fact_id IN (SELECT value FROM json_each(?)) AND m.archived_at IS NULL AND {sql}
        ORDER BY r.fact_id, m.id
        """,
        (listed, *bindings),
    ):
        sources.setdefault(fact_id, []).append(uid)
    rows = db.execute(
        f"""
        SELECT f.id, {_UID}, s.user_id, s.agent_id, s.run_id, b.uid, f.text, f.attributed_to, f.kind, f.metadata,
               f.confidence, f.model, f.prompt_version, f.created_at, f.observed_at, f.observed_offset,
               f.event_start, f.event_end, f.event_precision, f.valid_from, f.valid_to, f.last_confirmed_at,
               f.expires_at, f.archived_at, {CURRENT}
        FROM facts f JOIN scopes s ON s.id = f.scope_id LEFT JOIN batches b ON b.id = f.batch_id
        WHERE f.id IN (SELECT value FROM json_each(?))
        """,
        (listed,),
    )
    found = {}
    for row in rows:
        at, offset = row[14:16]
        found[row[0]] = Fact(
            id=row[1],
            scope=Scope(row[2], row[3], row[4]),
            batch=row[5],
            text=row[6],
            by=row[7],
            kind=row[8],
            metadata=json.loads(row[9]),
            entities=entities.get(row[0], ()),
            sources=tuple(sources.get(row[0], ())),
            confidence=row[10],
            model=row[11],
            prompt_version=row[12],
            created_at=instants.local(row[13]),
            observed_at=instants.local(at, offset),
            event_start=row[16],
            event_end=row[17],
            event_precision=row[18],
            valid_from=instants.beside(row[19], at, offset, zone),
            valid_to=None if row[20] is None else instants.beside(row[20], at, offset, zone),
            last_confirmed_at=instants.beside(row[21], at, offset, zone),
            expires_at=None if row[22] is None else instants.beside(row[22], at, offset, zone),
            archived_at=instants.optional(row[23]),
            current=bool(row[24]),
        )
    return {id_: found[id_] for id_ in wanted if id_ in found}


def true_only_then(db: apsw.Connection, ids: Iterable[int], at: int) -> list[int]:
    """Those of the facts that were true at a time, UTC milliseconds, and no longer count."""
    rows = db.execute(
        f"""
        SELECT f.id FROM facts f
        WHERE f.id IN (SELECT value FROM json_each(?)) AND {TRUE_AT.format(at=at)} AND NOT {CURRENT}
        """,
        (json.dumps(list(ids)),),
    )
    return [id_ for (id_,) in rows]


def extracted(db: apsw.Connection, ids: Iterable[int]) -> set[int]:
    """Those of the facts that a model wrote."""
    rows = db.execute(
        "SELECT id FROM facts WHERE id IN (SELECT value FROM json_each(?)) AND model <> ''",
        (json.dumps(list(ids)),),
    )
    return {id_ for (id_,) in rows}


def subjects(db: apsw.Connection, ids: Iterable[int]) -> dict[int, str]:
    """Whom facts are about: the name that the text begins with, else who said it; none of what begins otherwise."""
    rows = db.execute(
        """
        SELECT f.id, coalesce(n.name, f.attributed_to) AS subject FROM facts f
        LEFT JOIN mentions n ON n.fact_id = f.id AND substr(f.text, 1, length(n.name)) = n.name
        WHERE f.id IN (SELECT value FROM json_each(?)) AND subject <> '' ORDER BY length(subject)
        """,
        (json.dumps(list(ids)),),
    )
    return dict(rows)


def days(db: apsw.Connection, ids: Iterable[int]) -> dict[int, tuple[date, date]]:
    """The first and last day of what facts tell; of one without a date the day it was observed."""
    rows = db.execute(
        """
        SELECT id, event_start, event_end, observed_at, observed_offset FROM facts
        WHERE id IN (SELECT value FROM json_each(?))
        """,
        (json.dumps(list(ids)),),
    )
    found = {}
    for id_, start, end, at, offset in rows:
        seen = instants.day(at, offset)
        found[id_] = (date.fromisoformat(start) if start else seen, date.fromisoformat(end) if end else seen)
    return found


def page(
    db: apsw.Connection,
    reach: Reach,
    condition: str,
    bindings: Sequence[object],
    *,
    after: int | None,
    newest_first: bool,
    limit: int,
) -> list[int]:
    """The row ids of one page of a scope's facts, by row id: a fact added meanwhile moves no other one.

    condition: over the alias `f`. after: the last row id of the page before.
    """
    direction, comparison = ("DESC", "<") if newest_first else ("ASC", ">")
    start = f"AND f.id {comparison} ?" if after is not None else ""
    rows = db.execute(
        f"""
        SELECT p.id FROM ({reach.scopes}) s CROSS JOIN facts p ON p.id IN (
          SELECT f.id FROM facts f WHERE f.scope_id = s.id AND {condition} {start} ORDER BY f.id {direction} LIMIT ?)
        ORDER BY p.id {direction} LIMIT ?
        """,  # of each scope a page in the order of its index: nobody reads all facts of a scope, or of the file
        (*reach.bindings, *bindings, *([after] if after is not None else []), limit, limit),
    )
    return [id_ for (id_,) in rows]


def lineage(db: apsw.Connection, fact_id: int) -> list[int]:
    """The row ids of a fact and of all that replaced one another with it, the oldest observation first."""
    rows = db.execute(
        """
        WITH RECURSIVE line(id) AS (
          VALUES (?)
          UNION SELECT l.to_fact FROM line JOIN links l ON l.from_fact = line.id AND l.relation = 'replaces'
          UNION SELECT l.from_fact FROM line JOIN links l ON l.to_fact = line.id AND l.relation = 'replaces')
        SELECT f.id FROM line JOIN facts f ON f.id = line.id ORDER BY f.observed_at, f.id
        """,
        (fact_id,),
    )
    return [id_ for (id_,) in rows]


def changed_since(
    db: apsw.Connection, at: int, sql: str, bindings: Sequence[object]
) -> list[tuple[int, bool, int | None]]:
    """Facts of a scope that count now and did not at `at`, or the other way round, by row id.

    Each with whether it counts now and, if it is what a fact said before an update, that fact's row id.
    """
    rows = db.execute(
        f"""
        SELECT id, now, CASE WHEN version THEN
            (SELECT from_fact FROM links WHERE to_fact = id AND relation = 'updates') END
        FROM (SELECT f.id AS id, {CURRENT} AS now, {_TAKEN_AT.format(at=int(at))} AS then_,
                     f.recorded_to IS NOT NULL AS version
              FROM facts f JOIN scopes s ON s.id = f.scope_id WHERE {sql})
        WHERE now <> then_ ORDER BY id
        """,
        bindings,
    )
    return [(id_, bool(now), owner) for id_, now, owner in rows]


def of_batch(db: apsw.Connection, batch_id: int) -> list[int]:
    """The row ids of the facts a batch brought, old versions and archived ones left out."""
    rows = db.execute("SELECT f.id FROM facts f WHERE batch_id = ? AND " + KEPT + " ORDER BY id", (batch_id,))
    return [id_ for (id_,) in rows]


def learnt_from(db: apsw.Connection, batch_id: int) -> list[int]:
    """The row ids of all facts of a batch, archived ones too, but for old versions."""
    rows = db.execute("SELECT id FROM facts WHERE batch_id = ? AND recorded_to IS NULL ORDER BY id", (batch_id,))
    return [id_ for (id_,) in rows]


def observed_before(db: apsw.Connection, fact_ids: Sequence[int], message_ids: Sequence[int]) -> list[int]:
    """Those facts that were known before any of these messages was said, in the order given."""
    rows = db.execute(
        """
        SELECT f.id FROM json_each(?1) given JOIN facts f ON f.id = given.value
        WHERE f.observed_at <= (SELECT min(observed_at) FROM messages WHERE id IN (SELECT value FROM json_each(?2)))
          AND NOT EXISTS (
            SELECT 1 FROM sources r WHERE r.fact_id = f.id AND r.message_id IN (SELECT value FROM json_each(?2)))
        ORDER BY given.key
        """,
        (json.dumps(list(fact_ids)), json.dumps(list(message_ids))),
    )
    return [id_ for (id_,) in rows]


def in_reach(db: apsw.Connection, sql: str, bindings: Sequence[object]) -> list[int]:
    """The row ids of all facts of a scope, old versions with them."""
    rows = db.execute(f"SELECT f.id FROM facts f JOIN scopes s ON s.id = f.scope_id WHERE {sql}", bindings)
    return [id_ for (id_,) in rows]


def mark_unsourced(db: apsw.Connection, message_ids: str) -> None:
    """Note for the facts learnt from messages that these go on purpose. `message_ids`: a JSON array of row ids."""
    db.execute(
        """
        UPDATE facts SET unsourced = 1
        WHERE id IN (SELECT fact_id FROM sources WHERE message_id IN (SELECT value FROM json_each(?)))
        """,
        (message_ids,),
    )


def delete(db: apsw.Connection, ids: str) -> None:
    """Delete facts; words, sources, mentions and links go with them. `ids`: a JSON array of row ids."""
    db.execute("DELETE FROM facts WHERE id IN (SELECT value FROM json_each(?))", (ids,))
