"""Facts made anew from the messages they were learnt from, by the extractor that is here now.

Every batch is extracted again and its answer kept beside the facts that count; when all have been, the facts change in
one transaction. What somebody has replaced, archived, undone, changed by hand or deleted stays as it is.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any

import apsw

from memlite import batches, facts, history, instants, learn, lifecycle, messages, rewording, scopes, worth
from memlite.batches import Batch
from memlite.db import Database
from memlite.errors import ModelError
from memlite.facts import NewFact
from memlite.learn import Candidate, Embedded, Learnt
from memlite.records import Extractor, NamedEntity
from memlite.semantic import Semantic
from memlite.words import digest

KIND = "reextract"  # of the batch that stands for what one changed
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
    """A fact that was learnt from a batch or cites its messages.

    counts: it is current. open: this batch's own as well, nobody has changed it by hand, and none of its messages was
    deleted, without which it would not be found again. corrected: its text was changed by hand. put_away: replaced,
    expired, archived or undone; what an earlier reextract did not find again neither counts nor is put away.
    """

    id: int
    text: str
    counts: bool
    open: bool
    corrected: bool
    put_away: bool
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


def answer(
    database: Database,
    semantic: Semantic,
    extractor: Extractor,
    batch_id: int,
    min_confidence: float,
    zone: tzinfo | None,
) -> None:
    """Extract a batch again and keep the answer. Raises ModelError."""
    with database.read() as db:
        batch = batches.fetch(db, batch_id)[0]
    found = learn.propose(database, semantic, extractor, batch, min_confidence, zone, Learnt(), again=True)
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
    database: Database,
    semantic: Semantic,
    extractor: Extractor,
    sql: str,
    bindings: Sequence[object],
    failed: Collection[int],
) -> Changes | None:
    """Change the facts of a scope to what its answers say, in one transaction. None where batches wait again, the
    failed ones apart: another process has extracted meanwhile.
    """
    with database.read() as db:
        wanted = [candidates for _, candidates in _answers(db, extractor, sql, bindings)]
    made = learn.embed_candidates(semantic, [candidate for each in wanted for candidate in each])
    changes = Changes()
    with database.write() as db:
        if not set(failed).issuperset(waiting(db, extractor, sql, bindings)):
            return None
        for batch, candidates in list(_answers(db, extractor, sql, bindings)):
            _apply(db, batch, candidates, made, extractor, changes)
            db.execute("DELETE FROM answers WHERE batch_id = ?", (batch.id,))
    return changes


def _answers(
    db: apsw.Connection, extractor: Extractor, sql: str, bindings: Sequence[object]
) -> Iterator[tuple[Batch, list[Candidate]]]:
    rows = db.execute(
        f"""
        SELECT a.batch_id, a.facts FROM answers a JOIN batches b ON b.id = a.batch_id JOIN scopes s ON s.id = b.scope_id
        WHERE a.made_by = ?1 AND b.made_by <> ?1 AND {sql} ORDER BY a.batch_id
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
    batches.finish(db, batch.id, learn.made_by(extractor))
    if batches.undone_by(db, batch.id):
        return
    scope = scopes.fetch(db, batch.scope_id)
    old = _old(db, batch.id)
    closed = _closed(db, batch.id, old)
    told = [candidate for candidate in candidates if not closed.intersection(candidate.fact.sources)]
    left = [fact for fact in old if fact.counts]
    new: list[Candidate] = []
    for candidate, twin in _paired(told, [fact for fact in left if not closed & fact.sources]):
        if twin is None or not _keep(db, twin, candidate, scope.root_id, made, batch, extractor, changes):
            # Corrected by hand after this was said, though it was learnt from another message.
            if not facts.was_reworded(db, scope.root_id, candidate.fact.text, batches.begun(db, batch.id)):
                new.append(candidate)
            continue
        left.remove(twin)
        changes.kept += twin.id not in changes.changed
    if new:
        learnt = Learnt()
        step = _step(db, batch, extractor, changes)
        learn.store(db, scope, batch.id, new, learnt, made, extractor.name, across_runs=True, part_of=step.batch_id)
        changes.added += learnt.facts
    for fact in left:
        if fact.open and not closed & fact.sources and not _is_needed(db, fact, batch):
            lifecycle.archive(db, fact.id, _step(db, batch, extractor, changes))
            changes.archived.append(fact.id)
        else:
            changes.kept += 1


def _keep(
    db: apsw.Connection,
    old: _Old,
    candidate: Candidate,
    root_id: int,
    made: Embedded,
    batch: Batch,
    extractor: Extractor,
    changes: Changes,
) -> bool:
    """Let a fact stay under its id, in the new words where they differ; False where it cannot take them."""
    fact = candidate.fact
    if old.text != fact.text and old.open:
        if facts.twin_in_root(db, root_id, fact.text):  # that one says it, and this one goes
            return False
        if not _is_needed(db, old, batch):
            step = _step(db, batch, extractor, changes)
            change = rewording.Change(text=fact.text, entities=fact.entities)
            rewording.rewrite(db, old.id, change, made, step.reason, actor=step.actor, batch_id=step.batch_id)
            facts.set_origin(db, old.id, fact)
            lifecycle.begin(db, old.id)
            changes.changed.append(old.id)
    if old.open:
        facts.add_sources(db, old.id, messages.existing(db, fact.sources))
        if candidate.replaces:
            learn.replace_by(db, candidate, old.id, _step(db, batch, extractor, changes))
    return True


def _is_needed(db: apsw.Connection, old: _Old, batch: Batch) -> bool:
    """Whether another batch says a fact as well, or it stands in the place of others: then it stays as it is."""
    saying = (batches.fetch(db, id_)[0] for id_ in history.batches_saying(db, old.id))
    return any(each.id != batch.id and each.kind != KIND for each in saying) or bool(
        facts.all_replaced_by(db, json.dumps([old.id]))
    )


def _step(db: apsw.Connection, batch: Batch, extractor: Extractor, changes: Changes) -> lifecycle.Step:
    """A step of the batch that stands for all changes of this one's scope, made when it is first needed."""
    now = instants.now()
    found = next((each for each in changes.batches if each.scope_id == batch.scope_id), None)
    if found is None:
        found = batches.insert(db, batch.scope_id, "done", now, kind=KIND)
        changes.batches.append(found)
    return lifecycle.Step(now, extractor.name, "extracted again", found.id)


def _old(db: apsw.Connection, batch_id: int) -> list[_Old]:
    """What was learnt from a batch, and what else cites its messages."""
    rows = list(
        db.execute(
            f"""
            SELECT f.id, f.text, f.live,
                   f.batch_id = ?1 AND f.live = 1 AND f.model <> '' AND f.unsourced = 0 AND NOT EXISTS (
                     SELECT 1 FROM events e LEFT JOIN batches b ON b.id = e.batch_id
                     WHERE e.fact_uid = f.uid AND b.id IS NULL AND e.reason <> ?2
                       AND e.action IN ('UPDATE', 'RESTORE')),
                   EXISTS (SELECT 1 FROM events e WHERE e.fact_uid = f.uid AND {facts.REWORDED}),
                   f.live = 0 AND coalesce((
                     SELECT b.kind FROM events e LEFT JOIN batches b ON b.id = e.batch_id
                     WHERE e.fact_uid = f.uid AND e.action = 'ARCHIVE' AND f.archived_at IS NOT NULL
                     ORDER BY e.id DESC LIMIT 1), '') <> ?3
            FROM facts f
            WHERE f.recorded_to IS NULL AND (f.batch_id = ?1 OR f.id IN (
              SELECT r.fact_id FROM sources r JOIN messages m ON m.id = r.message_id WHERE m.batch_id = ?1))
            ORDER BY f.id
            """,
            (batch_id, rewording.TTL_REASON, KIND),
        )
    )
    sources = messages.of_facts(db, json.dumps([row[0] for row in rows]))
    return [
        _Old(id_, text, bool(counts), bool(open_), bool(corrected), bool(put_away), frozenset(sources.get(id_, ())))
        for id_, text, counts, open_, corrected, put_away in rows
    ]


def _closed(db: apsw.Connection, batch_id: int, old: Sequence[_Old]) -> set[int]:
    """Row ids of the messages of which something was put away, corrected or deleted: what it was could come back in
    other words, so nothing more is learnt from them, and what else was learnt from them stays as it is.
    """
    spent = messages.spent(db, messages.of_batch(db, batch_id))
    return {*spent, *(id_ for fact in old if fact.put_away or fact.corrected for id_ in fact.sources)}


def _paired(candidates: Sequence[Candidate], old: Sequence[_Old]) -> Iterator[tuple[Candidate, _Old | None]]:
    """Every candidate with the fact that says the same, in these words or, of the same messages, in others."""
    taken: dict[int, _Old] = {}
    free = {fact.id: fact for fact in old}
    for number, candidate in enumerate(candidates):
        hash_ = digest(candidate.fact.text)
        same = next((fact for fact in free.values() if digest(fact.text) == hash_), None)
        if same:
            taken[number] = free.pop(same.id)
    near = sorted(
        (-_overlap(candidate.fact.text, fact.text), number, fact.id)
        for number, candidate in enumerate(candidates)
        for fact in free.values()
        if number not in taken and fact.sources & {*candidate.fact.sources}
    )
    for overlap, number, id_ in near:
        if -overlap >= _ALIKE and number not in taken and id_ in free:
            taken[number] = free.pop(id_)
    for number, candidate in enumerate(candidates):
        yield candidate, taken.get(number)


def _overlap(one: str, other: str) -> float:
    mine, theirs = worth.stems(one), worth.stems(other)
    return 2 * len(mine & theirs) / max(1, len(mine) + len(theirs))


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
    zone: tzinfo | None,
    limit: int | None,
    tell: Callable[[str], None],
) -> Done:
    """Answer what waits, at most `limit` batches, and apply the answers once none waits."""
    failed: dict[int, str] = {}
    while True:
        with database.read() as db:
            ids = [id_ for id_ in waiting(db, extractor, *place) if id_ not in failed]
        done = 0
        for number, id_ in enumerate(ids, 1):
            if done == limit:
                return Done(Changes(), done, len(ids) - number + 1, list(failed.values()))
            try:
                answer(database, semantic, extractor, id_, min_confidence, zone)
                done += 1
            except ModelError as error:
                with database.read() as db:
                    failed[id_] = f"{batches.fetch(db, id_)[0].uid}: {error}"
            tell(f"batch {number} of {len(ids)}")
        changes = apply(database, semantic, extractor, *place, failed)
        if changes is not None:
            return Done(changes, done, 0, list(failed.values()))
