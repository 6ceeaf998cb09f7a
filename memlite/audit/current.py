"""The current facts of a scope, read for the rules that compare them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import apsw

from memlite import facts, instants
from memlite.audit import reading
from memlite.words import fold


@dataclass(frozen=True, slots=True)
class Current:
    """A current fact: what it says, of whom by which entity, and what must be equal where two are one.

    age: which of two was observed first; said: which was said last the longer ago. named, types: the row ids and types
    of the entities it mentions, by their folded names as it writes them. kept: kind, metadata and expiry. days: first
    and last of what it tells, None where it gives none; seen: the day on which it was observed.
    """

    id: int
    uid: str
    scope_id: int
    root: int
    text: str
    hash: str
    by: str
    model: str
    age: tuple[int, int]
    said: tuple[int, int]
    sources: frozenset[int]
    named: dict[str, int]
    types: dict[str, str]
    kept: tuple[object, ...]
    days: tuple[str, str] | None
    seen: str
    reading: reading.Reading


def load(db: apsw.Connection, sql: str, bindings: Sequence[object]) -> list[Current]:
    """The current facts of a scope (`sql` over the alias `s`), by their age."""
    rows = list(
        db.execute(
            f"""
            SELECT f.id, f.uid, f.scope_id, s.root_id, f.text, f.hash, f.attributed_to, f.model, f.observed_at,
                   f.observed_offset, f.last_confirmed_at, f.event_start, f.event_end, f.kind, f.metadata, f.expires_at
            FROM facts f JOIN scopes s ON s.id = f.scope_id WHERE {facts.CURRENT} AND {sql}
            ORDER BY f.observed_at, f.id
            """,
            bindings,
        )
    )
    ids = json.dumps([row[0] for row in rows])
    sources: dict[int, list[int]] = defaultdict(list)
    for fact_id, message_id in db.execute(
        "SELECT fact_id, message_id FROM sources WHERE fact_id IN (SELECT value FROM json_each(?))", (ids,)
    ):
        sources[fact_id].append(message_id)
    named: dict[int, dict[str, int]] = defaultdict(dict)
    types: dict[int, dict[str, str]] = defaultdict(dict)
    for fact_id, entity_id, name, type_ in db.execute(
        """
        SELECT m.fact_id, e.id, m.name, e.type FROM mentions m JOIN entities e ON e.id = m.entity_id
        WHERE m.fact_id IN (SELECT value FROM json_each(?))
        """,
        (ids,),
    ):
        named[fact_id][fold(name)], types[fact_id][fold(name)] = entity_id, type_
    return [
        Current(
            id=id_,
            uid=uid,
            scope_id=scope_id,
            root=root,
            text=text,
            hash=hash_,
            by=by,
            model=model,
            age=(at, id_),
            said=(said, id_),
            sources=frozenset(sources[id_]),
            named=named[id_],
            types=types[id_],
            kept=(kind, about, expires),
            days=(start, end) if start else None,
            seen=instants.day(at, offset).isoformat(),
            reading=reading.read(text, by),
        )
        for id_, uid, scope_id, root, text, hash_, by, model, at, offset, said, start, end, kind, about, expires in rows
    ]
