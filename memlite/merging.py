"""Two entities as one, and as two again.

Every fact that mentioned the one that goes has an event that says how it did. A deletion blanks the event with its
fact, so no name outlives the facts that say it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import apsw

from memlite import entities, facts, history, scopes, vectors
from memlite.records import Event, Scope


@dataclass(frozen=True, slots=True)
class _Entity:
    """A row of the entities table."""

    id: int
    uid: str
    root: int
    name: str
    folded: str
    type: str


def merge(db: apsw.Connection, kept_id: int, other_id: int, now: int, **about: Any) -> None:
    """Let one entity be another one as well: its facts mention that one, and its names become aliases.

    about: batch_id, actor and reason of the events.
    """
    kept, other = _read(db, kept_id), _read(db, other_id)
    type_ = other.type if kept.type == entities.UNKNOWN and _is_free(db, kept, other.type) else kept.type
    names = [name for (name,) in db.execute("SELECT name FROM aliases WHERE entity_id = ?", (other.id,))]
    for name in (other.name, *names):
        entities.add_alias(db, kept.id, name)
    was = {"entity": other.uid, "name": other.name, "type": other.type, "aliases": names}
    after = {"merged_into": kept.uid, "type": type_, "type_before": kept.type}
    for owner, scope_id, mentions in _mentions(db, kept.id, other.id):
        before = {**was, "mentions": mentions}
        history.record(db, "MERGE", owner, scope_id, now, before=before, after=after, **about)
    db.execute("UPDATE entities SET type = ? WHERE id = ?", (type_, kept.id))
    # The name comes with the facts that say it, and goes with them, as aliases do.
    db.execute(
        """
        INSERT INTO mentions(fact_id, entity_id, name, position, aliases)
        SELECT fact_id, ?, name, position, json_insert(aliases, '$[#]', ?) FROM mentions WHERE entity_id = ?
        ON CONFLICT DO NOTHING
        """,
        (kept.id, other.name, other.id),
    )
    _drop(db, other.id)


def split(db: apsw.Connection, events: Iterable[Event]) -> list[str]:
    """Undo what `merge` recorded; return the ids of the entities that are there again."""
    found: dict[str, None] = {}
    for before, after, scope in _merged(events):
        root = scopes.intern(db, scopes.root_of(scope)).id
        # One of its name and type that was made since is it.
        id_ = entities.ensure(db, root, before["entity"], before["name"], before["type"])
        kept = _by_uid(db, after["merged_into"])
        for mention in before["mentions"]:
            _give_back(db, mention, id_, kept)
        entities.settle_aliases(db, {id_: before["aliases"]})
        if kept is not None:
            entities.settle_aliases(db, {kept: (before["name"], *before["aliases"])})
            _retype(db, kept, after["type"], after["type_before"])
        for each in (id_, kept):
            if each is not None and not _is_mentioned(db, each):  # what mentioned it was deleted or rewritten since
                _drop(db, each)
        found[before["entity"]] = None
    return [uid for uid in found if _by_uid(db, uid) is not None]


def merge_again(db: apsw.Connection, events: Iterable[Event], now: int, **about: Any) -> list[str]:
    """Merge once more what `split` took apart; return the ids of the entities that are gone again."""
    found: dict[str, None] = {}
    for before, after, _ in _merged(events):
        kept, other = _by_uid(db, after["merged_into"]), _by_uid(db, before["entity"])
        if kept is not None and other is not None:
            merge(db, kept, other, now, **about)
            found[before["entity"]] = None
    return list(found)


def _merged(events: Iterable[Event]) -> list[tuple[Mapping[str, Any], Mapping[str, Any], Scope]]:
    """Of each event of a merging what was before, what is after, and its scope; a deletion has blanked some."""
    return [
        (event.before, event.after, event.scope)
        for event in events
        if event.before and event.after and "mentions" in event.before
    ]


def _read(db: apsw.Connection, id_: int) -> _Entity:
    sql = "SELECT id, uid, root_id, name, folded, type FROM entities WHERE id = ?"
    return _Entity(*next(db.execute(sql, (id_,))))


def _by_uid(db: apsw.Connection, uid: str) -> int | None:
    id_: int | None = db.execute("SELECT id FROM entities WHERE uid = ?", (uid,)).get
    return id_


def _is_free(db: apsw.Connection, entity: _Entity, type_: str) -> bool:
    """Whether no other entity of the root has this name with that type."""
    sql = "SELECT 1 FROM entities WHERE root_id = ? AND folded = ? AND type = ? AND id <> ?"
    return db.execute(sql, (entity.root, entity.folded, type_, entity.id)).get is None


def _mentions(db: apsw.Connection, kept_id: int, other_id: int) -> list[tuple[str, int, list[dict[str, Any]]]]:
    """Who mentions an entity: (id of a fact, its scope, how it and its earlier texts do). both: the kept one too."""
    rows = db.execute(
        """
        SELECT coalesce(o.uid, f.uid), f.scope_id, f.uid, m.name, m.position, m.aliases,
               EXISTS (SELECT 1 FROM mentions b WHERE b.fact_id = m.fact_id AND b.entity_id = ?)
        FROM mentions m JOIN facts f ON f.id = m.fact_id
        LEFT JOIN links l ON l.to_fact = f.id AND l.relation = 'updates' LEFT JOIN facts o ON o.id = l.from_fact
        WHERE m.entity_id = ? ORDER BY f.id
        """,
        (kept_id, other_id),
    )
    found: dict[str, tuple[int, list[dict[str, Any]]]] = {}
    for owner, scope_id, uid, name, position, aliases, both in rows:
        mention = {"fact": uid, "name": name, "position": position, "aliases": json.loads(aliases), "both": bool(both)}
        found.setdefault(owner, (scope_id, []))[1].append(mention)
    return [(owner, scope_id, mentions) for owner, (scope_id, mentions) in found.items()]


def _give_back(db: apsw.Connection, mention: Mapping[str, Any], entity_id: int, kept_id: int | None) -> None:
    """Let a fact mention the entity again that it named; one rewritten since mentions what it says now."""
    told = (
        facts.by_uid(db, mention["fact"]),
        mention["name"],
        mention["position"],
        json.dumps(mention["aliases"], ensure_ascii=False),
        entity_id,
        kept_id,
    )
    if mention["both"]:
        db.execute(
            """
            INSERT INTO mentions(fact_id, entity_id, name, position, aliases)
            SELECT ?1, ?5, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM mentions WHERE fact_id = ?1 AND entity_id = ?6)
            ON CONFLICT DO NOTHING
            """,
            told,
        )
    else:
        db.execute(
            """
            UPDATE OR IGNORE mentions SET entity_id = ?5, aliases = ?4
            WHERE fact_id = ?1 AND name = ?2 AND position = ?3 AND entity_id = coalesce(?6, entity_id)
            """,
            told,
        )


def _retype(db: apsw.Connection, entity_id: int, now: str, before: str) -> None:
    entity = _read(db, entity_id)
    if entity.type == now != before and _is_free(db, entity, before):
        db.execute("UPDATE entities SET type = ? WHERE id = ?", (before, entity_id))


def _is_mentioned(db: apsw.Connection, entity_id: int) -> bool:
    return db.execute("SELECT 1 FROM mentions WHERE entity_id = ? LIMIT 1", (entity_id,)).get is not None


def _drop(db: apsw.Connection, entity_id: int) -> None:
    """Remove an entity with its aliases, mentions and vector."""
    vectors.delete(db, "entity", [entity_id])
    db.execute("DELETE FROM entities WHERE id = ?", (entity_id,))
