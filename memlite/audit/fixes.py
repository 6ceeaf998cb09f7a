"""Putting right what an audit found, each fix as events of a batch that `undo` takes back."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import apsw

from memlite import batches, entities, facts, instants, lifecycle, merging, messages, scopes
from memlite.audit import derived
from memlite.audit.findings import Found
from memlite.db import Database
from memlite.lifecycle import Step
from memlite.records import AuditKind, Fixed, Scope
from memlite.semantic import Semantic

NewStep = Callable[[], Step]  # begins the batch of a fix, which is not there where nothing is left to do


def put_right(database: Database, semantic: Semantic, chosen: Sequence[Found], scope: Scope | None) -> Fixed:
    """Put findings right: those of rows in one transaction, what is derived after it."""
    with database.write() as db:
        of_rows = [each for each in chosen if each.finding.kind in _FIXES and each.finding.fix]
        done, made = apply(db, [each for each in of_rows if _says_so_still(db, each)])
    fixed = {each.finding.id for each in done}
    notes: tuple[str, ...] = ()
    of_file = [kind for kind in derived.KINDS if any(each.finding.kind == kind for each in chosen)]
    if of_file:
        notes = derived.mend(database, semantic, [each.finding for each in chosen], scope)
        left = {each.id for each in derived.look(database, semantic, of_file, scope)}
        fixed |= {each.finding.id for each in chosen if each.finding.kind in of_file} - left
    findings = [each.finding for each in chosen]
    return Fixed(
        tuple(each for each in findings if each.id in fixed),
        tuple(each for each in findings if each.id not in fixed),
        tuple(made),
        notes,
    )


def apply(db: apsw.Connection, wanted: Sequence[Found]) -> tuple[list[Found], list[str]]:
    """Put findings right inside the caller's transaction; return those that were, and the ids of the batches.

    One batch for each kind and scope; what concerns several scopes is of their root. A finding is left where another
    fix, done first, has taken what it was about.
    """
    made: dict[tuple[AuditKind, int], Step] = {}
    uids: list[str] = []
    done = []
    for found in sorted(wanted, key=lambda each: list(_FIXES).index(each.finding.kind)):
        kind, scope_id = found.finding.kind, _scope(db, found)

        def step(kind: AuditKind = kind, scope_id: int = scope_id) -> Step:
            if (kind, scope_id) not in made:
                batch = batches.insert(db, scope_id, "done", instants.now(), kind="audit")
                made[kind, scope_id] = Step(instants.now(), "audit", f"audit: {kind}", batch.id)
                uids.append(batch.uid)
            return made[kind, scope_id]

        if _FIXES[kind](db, found, step):
            done.append(found)
    return done, uids


def _says_so_still(db: apsw.Connection, found: Found) -> bool:
    """Whether the facts of a finding still say what they said when it was found."""
    now = dict(
        db.execute(
            "SELECT id, text FROM facts WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(found.facts),)
        )
    )
    return all(now.get(id_) == text for id_, text in zip(found.facts, found.said))


def _scope(db: apsw.Connection, found: Found) -> int:
    """The row id of the scope of everything that a finding concerns, or of their root where there are several."""
    rows = db.execute(
        """
        SELECT scope_id FROM facts WHERE id IN (SELECT value FROM json_each(?))
        UNION SELECT scope_id FROM messages WHERE id IN (SELECT value FROM json_each(?))
        UNION SELECT root_id FROM entities WHERE id IN (SELECT value FROM json_each(?))
        """,
        tuple(json.dumps(ids) for ids in (found.facts, found.messages, found.entities)),
    )
    ids: list[int] = [id_ for (id_,) in rows]
    return ids[0] if len(ids) == 1 else scopes.fetch(db, ids[0]).root_id


def _current(db: apsw.Connection, fact_id: int) -> bool:
    return db.execute(f"SELECT 1 FROM facts f WHERE f.id = ? AND {facts.CURRENT}", (fact_id,)).get is not None


def _is_visible(db: apsw.Connection, fact_id: int) -> bool:
    state = facts.state(db, fact_id)
    return state is not None and state.archived_at is None


def _join(db: apsw.Connection, found: Found, step: NewStep) -> bool:
    kept, *others = found.facts
    others = [id_ for id_ in others if _current(db, id_)] if _current(db, kept) else []
    for id_ in others:
        lifecycle.join(db, kept, id_, step())
    return bool(others)


def _replace(db: apsw.Connection, found: Found, step: NewStep) -> bool:
    older, newer = found.facts
    if not (_current(db, older) and _current(db, newer)):
        return False
    lifecycle.replace(db, older, newer, step())
    return True


def _archive(db: apsw.Connection, found: Found, step: NewStep) -> bool:
    (id_,) = found.facts
    return _current(db, id_) and lifecycle.archive(db, id_, step())


def _hide(db: apsw.Connection, found: Found, step: NewStep) -> bool:
    """Archive the facts, past ones too, and hide the messages that say a secret.

    It is put right as well where they said another secret, and were hidden for that.
    """
    for id_ in found.facts:
        if _is_visible(db, id_):
            lifecycle.archive(db, id_, step())
    said = messages.visible_of(db, found.messages)
    if said:
        lifecycle.hide_messages(db, said, step())
    return True


def _merge(db: apsw.Connection, found: Found, step: NewStep) -> bool:
    kept, other = found.entities
    if len(entities.fetch(db, found.entities)) < 2:
        return False
    merging.merge(db, kept, other, step().now, **step().about())
    return True


# A fact that goes is gone before others are compared with it.
_FIXES: dict[AuditKind, Callable[[apsw.Connection, Found, NewStep], bool]] = {
    "secrets": _hide,
    "restated": _archive,
    "sourceless": _archive,
    "near-duplicates": _join,
    "contradictions": _replace,
    "entities": _merge,
}
