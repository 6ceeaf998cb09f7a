"""The entities of a root, their aliases, and which facts mention them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import apsw

from memlite.records import Entity, NamedEntity
from memlite.scopes import Reach
from memlite.words import fold

_MOST_MEANT = 5  # entities that the beginning of a name may stand for
_LAST = "\U0010ffff"  # greater than any character a name goes on with
UNKNOWN = "unknown"  # a name found by rule, until an extractor or a caller says what it is


@dataclass(frozen=True, slots=True)
class Mentioned:
    """An entity a query names, and how many facts mention it. in_part: only its name's beginning is named."""

    id: int
    name: str
    facts: int
    in_part: bool = False


def mention(db: apsw.Connection, root_id: int, fact_id: int, named: Sequence[NamedEntity]) -> list[tuple[int, str]]:
    """Link a fact to the entities it names; return the row ids and the normalised names of those that are new.

    Two names are one entity only when type and normalised name (or alias) are equal, never by similarity.
    """
    fresh = []
    for position, entity in enumerate(named):
        folded = fold(entity.name)
        id_ = db.execute(
            """
            SELECT id FROM entities WHERE root_id = :root AND folded = :folded AND type = :type
            UNION ALL
            SELECT a.entity_id FROM aliases a JOIN entities e ON e.id = a.entity_id
            WHERE a.root_id = :root AND a.folded = :folded AND e.type = :type
            LIMIT 1
            """,
            {"root": root_id, "folded": folded, "type": entity.type},
        ).get
        if id_ is None:
            id_ = _retype(db, root_id, folded, entity.type)
        if id_ is None:
            id_ = ensure(db, root_id, uuid.uuid4().hex, entity.name, entity.type)
            fresh.append((id_, folded))
        for alias in entity.aliases:
            add_alias(db, id_, alias)
        db.execute(
            """
            INSERT INTO mentions(fact_id, entity_id, name, position, aliases) VALUES (?, ?, ?, ?, ?)
            ON CONFLICT DO NOTHING
            """,
            (fact_id, id_, entity.name, position, json.dumps(entity.aliases, ensure_ascii=False)),
        )
    return fresh


def ensure(db: apsw.Connection, root_id: int, uid: str, name: str, type_: str) -> int:
    """The row id of the entity of this name and type, made under this id where there is none."""
    folded = fold(name)
    db.execute(
        "INSERT INTO entities(uid, root_id, name, folded, type) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (uid, root_id, name, folded, type_),
    )
    sql = "SELECT id FROM entities WHERE root_id = ? AND folded = ? AND type = ?"
    id_: int = db.execute(sql, (root_id, folded, type_)).get
    return id_


def _retype(db: apsw.Connection, root_id: int, folded: str, type_: str) -> int | None:
    """Join a name found by rule (type unknown) with the one entity of that name, whichever of them came first.

    Where none is called so, with the one that has it as an alias.
    """
    own = "SELECT id FROM entities WHERE root_id = ?1 AND folded = ?2"
    also = "SELECT entity_id FROM aliases WHERE root_id = ?1 AND folded = ?2"
    for named in (own, also):
        fitting = f"SELECT id FROM entities WHERE id IN ({named}) AND (?3 = '{UNKNOWN}' OR type = '{UNKNOWN}') LIMIT 2"
        found = [id_ for (id_,) in db.execute(fitting, (root_id, folded, type_))]
        if len(found) == 1 and type_ != UNKNOWN:
            # OR IGNORE: under another name there may be one of this type already.
            retyped = "UPDATE OR IGNORE entities SET type = ? WHERE id = ? RETURNING id"
            found = [id_ for (id_,) in db.execute(retyped, (type_, found[0]))]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def add_alias(db: apsw.Connection, entity_id: int, name: str) -> None:
    """Let another name find the same entity."""
    db.execute(
        """
        INSERT INTO aliases(entity_id, root_id, folded, name)
        SELECT id, root_id, ?1, ?2 FROM entities WHERE id = ?3 AND folded <> ?1 ON CONFLICT DO NOTHING
        """,
        (fold(name), name, entity_id),
    )


def brought_by(db: apsw.Connection, fact_ids: str) -> dict[int, set[str]]:
    """The aliases that came with facts, by entity. fact_ids: a JSON array of row ids."""
    found: dict[int, set[str]] = {}
    rows = db.execute(
        """
        SELECT m.entity_id, a.value FROM mentions m, json_each(m.aliases) a
        WHERE m.fact_id IN (SELECT value FROM json_each(?))
        """,
        (fact_ids,),
    )
    for entity_id, name in rows:
        found.setdefault(entity_id, set()).add(name)
    return found


def settle_aliases(db: apsw.Connection, brought: Mapping[int, Iterable[str]]) -> None:
    """Keep of these aliases those that came with a fact which is still there and not archived, or that one calls so."""
    for entity_id, names in brought.items():
        rows = db.execute(
            """
            SELECT DISTINCT m.name, m.aliases FROM mentions m JOIN facts f ON f.id = m.fact_id
            LEFT JOIN links l ON l.to_fact = f.id AND l.relation = 'updates' LEFT JOIN facts o ON o.id = l.from_fact
            WHERE m.entity_id = ? AND f.archived_at IS NULL AND o.archived_at IS NULL
            """,
            (entity_id,),
        )
        kept = {fold(name) for called, aliases in rows for name in (called, *json.loads(aliases))}
        for name in names:
            if fold(name) in kept:
                add_alias(db, entity_id, name)
            else:
                db.execute("DELETE FROM aliases WHERE entity_id = ? AND folded = ?", (entity_id, fold(name)))


def any_in(db: apsw.Connection, reach: Reach) -> bool:
    """Whether the roots in reach have any entity."""
    found = f"SELECT EXISTS (SELECT 1 FROM ({reach.scopes}) s CROSS JOIN entities e ON e.root_id = s.id)"
    return bool(db.execute(found, reach.bindings).get)


def named(db: apsw.Connection, names: Sequence[str], reach: Reach) -> list[Mentioned]:
    """The entities that any of these normalised names stands for, in the roots in reach."""
    listed = json.dumps(list(names))
    rows = db.execute(
        f"""
        SELECT e.id, e.name, (SELECT count(*) FROM mentions m WHERE m.entity_id = e.id) FROM (
          SELECT e.id FROM json_each(?) n CROSS JOIN ({reach.scopes}) s
            CROSS JOIN entities e ON e.root_id = s.id AND e.folded = n.value
          UNION
          SELECT a.entity_id FROM json_each(?) n CROSS JOIN ({reach.scopes}) s
            CROSS JOIN aliases a ON a.root_id = s.id AND a.folded = n.value
        ) found CROSS JOIN entities e ON e.id = found.id ORDER BY e.id
        """,
        2 * (listed, *reach.bindings),
    )
    return [Mentioned(*row) for row in rows]


def beginning(db: apsw.Connection, start: str, reach: Reach) -> list[Mentioned]:
    """The entities whose normalised name, or alias, begins with this word: "osteria" of Osteria Lume; none of too many.

    Inside a word ("christoph" of Christopher) one is meant only where no other name begins so.
    """
    cut = f"LIMIT {_MOST_MEANT + 1}"
    rows = db.execute(
        f"""
        SELECT * FROM (SELECT e.id, e.folded FROM ({reach.scopes}) s
          CROSS JOIN entities e ON e.root_id = s.id AND e.folded >= ? AND e.folded < ? {cut})
        UNION
        SELECT * FROM (SELECT a.entity_id, a.folded FROM ({reach.scopes}) s
          CROSS JOIN aliases a ON a.root_id = s.id AND a.folded >= ? AND a.folded < ? {cut})
        """,
        2 * (*reach.bindings, start, start + _LAST),
    )
    found = {id_: folded for id_, folded in rows if folded != start}
    meant = [id_ for id_, folded in found.items() if not folded[len(start)].isalnum()] or list(found)[: len(found) == 1]
    return [replace(each, in_part=True) for each in fetch(db, meant)] if len(meant) <= _MOST_MEANT else []


def fetch(db: apsw.Connection, ids: Sequence[int]) -> list[Mentioned]:
    """Entities by row id."""
    rows = db.execute(
        """
        SELECT e.id, e.name, (SELECT count(*) FROM mentions m WHERE m.entity_id = e.id)
        FROM entities e WHERE e.id IN (SELECT value FROM json_each(?)) ORDER BY e.id
        """,
        (json.dumps(list(ids)),),
    )
    return [Mentioned(*row) for row in rows]


def of_facts(db: apsw.Connection, ids: str) -> dict[int, tuple[NamedEntity, ...]]:
    """The entities each fact mentions, as the fact writes them. `ids`: a JSON array of row ids."""
    found: dict[int, list[NamedEntity]] = {}
    rows = db.execute(
        """
        SELECT m.fact_id, m.name, e.type FROM mentions m JOIN entities e ON e.id = m.entity_id
        WHERE m.fact_id IN (SELECT value FROM json_each(?)) ORDER BY m.fact_id, m.position
        """,
        (ids,),
    )
    for fact_id, name, type_ in rows:
        found.setdefault(fact_id, []).append(NamedEntity(name, type_))
    return {id_: tuple(names) for id_, names in found.items()}


def of_fact(db: apsw.Connection, fact_id: int) -> set[int]:
    """The row ids of the entities that a fact mentions."""
    return {id_ for (id_,) in db.execute("SELECT entity_id FROM mentions WHERE fact_id = ?", (fact_id,))}


def root_of(db: apsw.Connection, entity_id: int) -> int:
    """The row id of the root that an entity belongs to."""
    id_: int = db.execute("SELECT root_id FROM entities WHERE id = ?", (entity_id,)).get
    return id_


def names(db: apsw.Connection, entity_id: int) -> set[str]:
    """All names of an entity, normalised: its own, its aliases, and what facts call it."""
    rows = db.execute(
        """
        SELECT name FROM entities WHERE id = ?1 UNION SELECT name FROM aliases WHERE entity_id = ?1
        UNION SELECT name FROM mentions WHERE entity_id = ?1
        """,
        (entity_id,),
    )
    return {folded for (name,) in rows if (folded := fold(name))}


def mentioning(db: apsw.Connection, entity_id: int, sql: str, bindings: Sequence[object]) -> list[tuple[int, bool]]:
    """The row ids of all facts of a scope that mention an entity, each with whether it is an earlier version of one."""
    rows = db.execute(
        f"""
        SELECT f.id, f.recorded_to IS NOT NULL
        FROM mentions m JOIN facts f ON f.id = m.fact_id JOIN scopes s ON s.id = f.scope_id
        WHERE m.entity_id = ? AND {sql}
        """,
        (entity_id, *bindings),
    )
    return [(id_, bool(old)) for id_, old in rows]


def only_in(db: apsw.Connection, fact_ids: str) -> list[int]:
    """The entities no other fact mentions: they go when these facts go."""
    rows = db.execute(
        """
        SELECT e.entity_id
        FROM (SELECT DISTINCT entity_id FROM mentions WHERE fact_id IN (SELECT value FROM json_each(:ids))) e
        WHERE NOT EXISTS (
          SELECT 1 FROM mentions o
          WHERE o.entity_id = e.entity_id AND o.fact_id NOT IN (SELECT value FROM json_each(:ids)))
        """,
        {"ids": fact_ids},
    )
    return [id_ for (id_,) in rows]


def listed(db: apsw.Connection, visible: str, sql: str, bindings: Sequence[object], limit: int) -> list[Entity]:
    """Entities that visible facts of a scope mention, the most mentioned first.

    visible: a condition over the facts alias `f`; sql, bindings: the scope's condition over `s`.
    """
    rows = db.execute(
        f"""
        SELECT e.uid, e.name, e.type, count(*) AS facts, r.user_id, r.agent_id,
               (SELECT group_concat(a.name, char(31)) FROM aliases a WHERE a.entity_id = e.id)
        FROM entities e JOIN scopes r ON r.id = e.root_id
        JOIN mentions m ON m.entity_id = e.id JOIN facts f ON f.id = m.fact_id JOIN scopes s ON s.id = f.scope_id
        WHERE {visible} AND {sql} GROUP BY e.id ORDER BY facts DESC, e.name LIMIT ?
        """,
        (*bindings, limit),
    )
    return [
        Entity(row[0], row[1], row[2], tuple(row[6].split("\x1f")) if row[6] else (), row[3], row[4], row[5])
        for row in rows
    ]
