"""What is wrong with a memory, as far as rules can tell, and what would put it right. Looking writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import apsw

from memlite.audit import contradictions, current, derived, duplicates, learnt, names, secrets
from memlite.audit.findings import Found, Place, finding, place
from memlite.db import Database
from memlite.records import AUDIT_KINDS, AuditKind, Scope
from memlite.semantic import Semantic


def look(database: Database, semantic: Semantic, kinds: Sequence[AuditKind], scope: Scope | None) -> list[Found]:
    """Everything of these kinds in a scope, or in the whole file, kind by kind."""
    with database.read() as db:
        where = place(db, scope)
        read = current.load(db, *where) if set(kinds) & _OF_CURRENT else []
        found = [each for kind in kinds if kind in _LOOKS for each in _LOOKS[kind](db, read, where)]
    found += map(Found, derived.look(database, semantic, kinds, scope))
    return sorted(found, key=lambda each: AUDIT_KINDS.index(each.finding.kind))


def _duplicates(db: apsw.Connection, read: list[current.Current], place: Place) -> Iterator[Found]:
    for group in duplicates.find(db, read):
        yield Found(
            finding(
                "near-duplicates",
                f"{len(group)} facts say the same in other words",
                "the first, which is the oldest, is kept and takes over the sources of the others, which are archived",
                facts=[(fact.uid, fact.text) for fact in group],
            ),
            facts=tuple(fact.id for fact in group),
            said=tuple(fact.text for fact in group),
        )


def _contradictions(db: apsw.Connection, read: list[current.Current], place: Place) -> Iterator[Found]:
    for found in contradictions.find(db, read):
        yield Found(
            finding(
                "contradictions",
                found.why,
                "the second, which was said last, replaces the first",
                facts=[(fact.uid, fact.text) for fact in (found.older, found.newer)],
            ),
            facts=(found.older.id, found.newer.id),
            said=(found.older.text, found.newer.text),
        )


def _sourceless(db: apsw.Connection, read: list[current.Current], place: Place) -> Iterator[Found]:
    for id_, uid, text in learnt.sourceless(db, *place):
        why = "a model learnt it, and no message is left that bears it out"
        yield Found(finding("sourceless", why, "it is archived", facts=[(uid, text)]), facts=(id_,), said=(text,))


def _restated(db: apsw.Connection, read: list[current.Current], place: Place) -> Iterator[Found]:
    for found in learnt.restated(db, read, *place):
        fact = found.fact
        yield Found(
            finding("restated", found.why, "it is archived", facts=[(fact.uid, fact.text)]),
            facts=(fact.id,),
            said=(fact.text,),
        )


def _entities(db: apsw.Connection, read: list[current.Current], place: Place) -> Iterator[Found]:
    for found in names.find(db, *place):
        pair = (found.kept, found.other)
        yield Found(
            finding(
                "entities",
                found.why,
                "the second becomes another name of the first; nothing does this but a fix that names it",
                entities=[(entity.uid, entity.name) for entity in pair],
            ),
            entities=tuple(entity.id for entity in pair),
        )


def _secrets(db: apsw.Connection, read: list[current.Current], place: Place) -> Iterator[Found]:
    for found in secrets.stored(db, *place):
        visible = [row for row in found.facts if not row.version]
        shown = {row.uid: row.text for row in found.facts}
        told = {row.uid: row.text for row in found.messages}
        hides = bool(visible or found.messages)
        yield Found(
            finding(
                "secrets",
                f"{found.what} stands here; only `memlite delete` erases it for good",
                "the facts and messages that say it are archived" if hides else "",
                facts=list(shown.items()),
                messages=list(told.items()),
                about=found.what,
            ),
            facts=tuple(row.id for row in visible),
            said=tuple(row.text for row in visible),
            messages=tuple(row.id for row in found.messages),
        )


_LOOKS: dict[AuditKind, Callable[[apsw.Connection, list[current.Current], Place], Iterable[Found]]] = {
    "near-duplicates": _duplicates,
    "contradictions": _contradictions,
    "sourceless": _sourceless,
    "restated": _restated,
    "entities": _entities,
    "secrets": _secrets,
}
_OF_CURRENT = {"near-duplicates", "contradictions", "restated"}
