"""Facts made anew from the messages they were learnt from, by the extractor that is here now.

Every batch is extracted again and its answer kept beside the facts that count; when all have been, the facts change in
one transaction. What somebody has replaced, archived, undone, changed by hand or deleted stays as it is.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import apsw

from memlite import batches, facts, instants, learn, lifecycle, messages, scopes, worth
from memlite.batches import Batch
from memlite.db import Database
from memlite.errors import InvalidInputError, ModelError
from memlite.facts import NewFact
from memlite.learn import Candidate, Embedded, Learnt
from memlite.records import Extractor, NamedEntity
from memlite.semantic import Semantic
from memlite.words import digest

_ALIKE = 0.5  # F1 of the stems of two facts of one message that say the same in other words


@dataclass(slots=True)
class Changes:
    """Row ids of facts by what happened to them, and the batches that stand for it, one for each scope."""

    batches: list[Batch] = field(default_factory=list)
    added: list[int] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    archived: list[int] = field(default_factory=list)
    kept: int = 0


@dataclass(frozen=True, slots=True)
class _Old:
    """A fact of a batch as it is now. open: it counts, and nobody has changed it by hand."""

    id: int
    uid: str
    text: str
    open: bool
    hidden: bool
    sources: frozenset[int]


def waiting(db: apsw.Connection, extractor: Extractor, sql: str, bindings: Sequence[object]) -> list[int]:
    """Row ids of the batches of a scope that this extractor has neither extracted nor answered again."""
    rows = db.execute(
        f"""
        SELECT b.id FROM batches b JOIN scopes s ON s.id = b.scope_id
        WHERE b.state = 'done' AND b.made_by <> ?1 AND {sql}
          AND EXISTS (SELECT 1 FROM messages m WHERE m.batch_id = b.id AND m.archived_at IS NULL)
          AND NOT EXISTS (SELECT 1 FROM answers a WHERE a.batch_id = b.id AND a.made_by = ?1)
        ORDER BY b.id
        """,
        (learn.made_by(extractor), *bindings),
    )
    return [id_ for (id_,) in rows]


def answer(database: Database, semantic: Semantic, extractor: Extractor, batch_id: int, min_confidence: float) -> None:
    """Extract a batch again and keep the answer. Raises ModelError."""
    with database.read() as db:
        batch = batches.fetch(db, batch_id)[0]
    found = learn.propose(database, semantic, extractor, batch, min_confidence, Learnt(), again=True)
    text = json.dumps([dataclasses.asdict(candidate) for candidate in found.candidates])
    with database.write() as db:
        # A message that was deleted meanwhile must not live on in the answer.
        cited = {id_ for candidate in found.candidates for id_ in candidate.fact.sources}
        if len(messages.existing(db, cited)) == len(cited):
            db.execute(
                """
                INSERT INTO answers(batch_id, made_by, facts) VALUES (?, ?, ?)
                ON CONFLICT(batch_id) DO UPDATE SET made_by = excluded.made_by, facts = excluded.facts
                """,
                (batch_id, learn.made_by(extractor), text),
            )


def apply(
    database: Database, semantic: Semantic, extractor: Extractor, sql: str, bindings: Sequence[object]
) -> Changes:
    """Change the facts of a scope to what its answers say, in one transaction."""
    with database.read() as db:
        wanted = [each for _, each in _answers(db, extractor, sql, bindings)]
    made = learn.embed_candidates(semantic, [candidate for each in wanted for candidate in each])
    changes = Changes()
    with database.write() as db:
        for batch, candidates in list(_answers(db, extractor, sql, bindings)):
            _apply(db, batch, candidates, made, extractor, changes)
        db.execute(
            f"""
            DELETE FROM answers WHERE batch_id IN (
              SELECT b.id FROM batches b JOIN scopes s ON s.id = b.scope_id WHERE {sql})
            """,
            bindings,
        )
    return changes


def _answers(
    db: apsw.Connection, extractor: Extractor, sql: str, bindings: Sequence[object]
) -> Iterator[tuple[Batch, list[Candidate]]]:
    rows = db.execute(
        f"""
        SELECT a.batch_id, a.facts FROM answers a JOIN batches b ON b.id = a.batch_id JOIN scopes s ON s.id = b.scope_id
        WHERE a.made_by = ? AND {sql} ORDER BY a.batch_id
        """,
        (learn.made_by(extractor), *bindings),
    )
    for batch_id, text in rows:
        yield batches.fetch(db, batch_id)[0], [_candidate(each) for each in json.loads(text)]


def _candidate(told: dict[str, Any]) -> Candidate:
    """A candidate as it was before it was written as JSON."""
    fact = told["fact"]
    names = tuple(NamedEntity(**(each | {"aliases": tuple(each["aliases"])})) for each in fact["entities"])
    new = NewFact(**(fact | {"entities": names, "sources": tuple(fact["sources"])}))
    return Candidate(new, tuple(told["replaces"]), tuple(told["continues"]))


def _apply(
    db: apsw.Connection,
    batch: Batch,
    candidates: Sequence[Candidate],
    made: Embedded,
    extractor: Extractor,
    changes: Changes,
) -> None:
    if batches.undone_by(db, batch.id):
        return
    batches.finish(db, batch.id, learn.made_by(extractor))
    scope = scopes.fetch(db, batch.scope_id)
    old = _old(db, batch.id)
    new: list[Candidate] = []
    for candidate in candidates:
        twin = _alike(candidate, old)
        if twin is None:
            if not _hidden(db, candidate, old):
                new.append(candidate)
            continue
        old.remove(twin)
        if not twin.open:
            changes.kept += 1
        elif twin.text == candidate.fact.text:
            facts.set_origin(db, twin.id, candidate.fact)
            changes.kept += 1
        else:
            _reword(db, twin, candidate.fact, made, _step(db, batch, extractor, changes), changes)
    if new:
        learnt = Learnt()
        step = _step(db, batch, extractor, changes)
        learn.store(db, scope, batch.id, new, learnt, made, extractor.name, across_runs=True, part_of=step.batch_id)
        changes.added += learnt.facts
    for fact in old:
        if fact.open and lifecycle.batches_saying(db, fact.id) <= {batch.id}:
            lifecycle.archive(db, fact.id, _step(db, batch, extractor, changes))
            changes.archived.append(fact.id)
        else:
            changes.kept += 1


def _step(db: apsw.Connection, batch: Batch, extractor: Extractor, changes: Changes) -> lifecycle.Step:
    """A step of the batch that stands for all changes of this one's scope, made when it is first needed."""
    now = instants.now()
    found = next((each for each in changes.batches if each.scope_id == batch.scope_id), None)
    if found is None:
        found = batches.insert(db, batch.scope_id, "done", now, kind="reextract")
        changes.batches.append(found)
    return lifecycle.Step(now, extractor.name, "extracted again", found.id)


def _old(db: apsw.Connection, batch_id: int) -> list[_Old]:
    """What an extractor has learnt from a batch."""
    rows = list(
        db.execute(
            """
            SELECT f.id, f.uid, f.text, f.live = 1 AND NOT EXISTS (
                     SELECT 1 FROM events e LEFT JOIN batches b ON b.id = e.batch_id
                     WHERE e.fact_uid = f.uid AND (e.action = 'UPDATE' AND e.batch_id IS NULL OR e.action = 'RESTORE')
                       AND coalesce(b.kind, '') <> 'reextract' AND b.undoes IS NULL),
                   f.archived_at IS NOT NULL
            FROM facts f WHERE f.batch_id = ? AND f.model <> '' AND f.recorded_to IS NULL ORDER BY f.id
            """,
            (batch_id,),
        )
    )
    sources = messages.of_facts(db, json.dumps([row[0] for row in rows]))
    return [
        _Old(id_, uid, text, bool(open_), bool(hidden), frozenset(sources.get(id_, ())))
        for id_, uid, text, open_, hidden in rows
    ]


def _alike(candidate: Candidate, old: Sequence[_Old]) -> _Old | None:
    """The fact of the same messages that says the same, in these words or in others."""
    hash_ = digest(candidate.fact.text)
    same = [fact for fact in old if digest(fact.text) == hash_]
    if same:
        return max(same, key=lambda fact: fact.open)
    near = [
        (_overlap(candidate.fact.text, fact.text), fact) for fact in old if fact.sources & {*candidate.fact.sources}
    ]
    best = max(near, key=lambda pair: (pair[0], -pair[1].id), default=None)
    return best[1] if best and best[0] >= _ALIKE else None


def _overlap(one: str, other: str) -> float:
    mine, theirs = worth.stems(one), worth.stems(other)
    return 2 * len(mine & theirs) / max(1, len(mine) + len(theirs))


def _hidden(db: apsw.Connection, candidate: Candidate, old: Sequence[_Old]) -> bool:
    """Whether a fact that is new may be one in other words that somebody has archived or deleted: better none.

    Of a message from which all that was learnt is hidden nothing is learnt again.
    """
    cited = {*candidate.fact.sources}
    if messages.spent(db, cited):
        return True
    about = [fact for fact in old if fact.sources & cited]
    return bool(about) and all(fact.hidden for fact in about)


def _reword(
    db: apsw.Connection, old: _Old, fact: NewFact, made: Embedded, step: lifecycle.Step, changes: Changes
) -> None:
    try:
        learn.rewrite(
            db,
            old.id,
            learn.Change(text=fact.text, entities=fact.entities),
            made,
            step.reason,
            actor=step.actor,
            batch_id=step.batch_id,
        )
    except InvalidInputError:  # another fact of the scope says that
        changes.kept += 1
        return
    facts.set_origin(db, old.id, fact)
    changes.changed.append(old.id)


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a run: how many batches were extracted and how many wait; what failed, and keeps its facts."""

    changes: Changes
    extracted: int
    waiting: int
    failures: list[str]


def run(
    database: Database,
    semantic: Semantic,
    extractor: Extractor,
    place: tuple[str, Sequence[object]],
    min_confidence: float,
    limit: int | None,
    tell: Callable[[str], None],
) -> Done:
    """Answer what waits, at most `limit` batches, and apply the answers once none waits."""
    failures: list[str] = []
    with database.read() as db:
        ids = waiting(db, extractor, *place)
    chosen = ids if limit is None else ids[:limit]
    for number, id_ in enumerate(chosen, 1):
        try:
            answer(database, semantic, extractor, id_, min_confidence)
        except ModelError as error:
            with database.read() as db:
                failures.append(f"{batches.fetch(db, id_)[0].uid}: {error}")
        tell(f"batch {number} of {len(chosen)}")
    left = len(ids) - len(chosen)
    changes = Changes() if left else apply(database, semantic, extractor, *place)
    return Done(changes, len(chosen) - len(failures), left, failures)
