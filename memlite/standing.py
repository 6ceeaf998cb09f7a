"""What follows for a fact from the batches that stand: whether it is said, since when it is true, when it ended."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import apsw

from memlite import batches, facts, history, messages
from memlite.history import Saying


def stands(db: apsw.Connection, fact_id: int) -> bool:
    """Whether any batch that says a fact is not undone; of one that was learnt later, that of its messages as well."""
    saying = batches_saying(db, fact_id)
    home: int | None = db.execute("SELECT batch_id FROM facts WHERE id = ?", (fact_id,)).get
    if home is not None and home not in saying and batches.undone_by(db, home):
        return False
    return not saying or any(not batches.undone_by(db, id_) for id_ in saying)


def left_saying(db: apsw.Connection, fact_id: int, message_ids: Collection[int]) -> Left:
    """What of the batches that say a fact says it without these messages.

    What a caller remembered, or gave with one of these messages as its source, is said by no message of its own batch.
    """
    cited = batches.of_messages(db, messages.of_facts(db, json.dumps([fact_id])).get(fact_id, ()))
    saying = batches_saying(db, fact_id)
    emptied, by_itself = [], False
    for batch_id in saying:
        own = [id_ for id_, batch in cited.items() if batch == batch_id]
        own = own or [id_ for id_, batch in cited.items() if batch not in saying]
        if own and set(own) <= set(message_ids):
            emptied.append(batch_id)
        elif not own and not batches.undone_by(db, batch_id):
            by_itself = True
    return Left(by_itself, emptied)


def confirmations(db: apsw.Connection, fact_id: int) -> list[int]:
    """When a fact was said by the batches that stand, and vouched for by hand, UTC milliseconds."""
    return _said_at(db, fact_id) + history.vouched(db, fact_id)


def _said_at(db: apsw.Connection, fact_id: int) -> list[int]:
    return [said.at for said in sayings(db, fact_id) if not batches.undone_by(db, said.batch_id)]


def said_last(db: apsw.Connection, fact_id: int) -> int:
    """When a fact was last said, by which of two is replaced, in UTC milliseconds."""
    found = Observed.read(db, fact_id)
    assert found is not None
    return found.said


def batches_saying(db: apsw.Connection, fact_id: int) -> set[int]:
    """The row ids of the batches that say a fact, or one that was joined to it."""
    return {said.batch_id for said in sayings(db, fact_id)}


def sayings(db: apsw.Connection, fact_id: int, seen: frozenset[int] = frozenset()) -> list[Saying]:
    """Which batch said a fact when, or one that a fix which stands has joined to it."""
    said = history.sayings(db, fact_id)
    for batch_id, other in history.joined(db, fact_id):
        if other not in seen and not batches.undone_by(db, batch_id):
            said += sayings(db, other, seen | {fact_id})
    return said


@dataclass(frozen=True, slots=True)
class Left:
    """by_itself: a batch that stands says it, whatever becomes of messages. emptied: batches that say it no longer."""

    by_itself: bool
    emptied: list[int]


@dataclass(frozen=True, slots=True)
class Observed:
    """A fact in time, in UTC milliseconds: first and last said, true from then on by what it was learnt from, and until
    when, where that was given.
    """

    id: int
    uid: str
    scope_id: int
    observed: int
    begins: int
    said: int
    ends: int | None

    @classmethod
    def read(cls, db: apsw.Connection, fact_id: int) -> Observed | None:
        sql = "SELECT id, uid, scope_id, observed_at, coalesce(begins, valid_from) FROM facts WHERE id = ?"
        row = db.execute(sql, (fact_id,)).fetchone()
        if row is None:
            return None
        id_, uid, scope_id, observed, begins = row
        said = max(_said_at(db, fact_id), default=observed)
        return cls(id_, uid, scope_id, observed, begins, said, history.ended(db, uid))


def begins(db: apsw.Connection, fact_id: int, more: Sequence[Saying] = ()) -> int:
    """Since when a fact is true: by what it was first learnt from, or by what says it of an earlier time; but not of
    one before something else is known in its place. more: sayings that are not in the history yet.
    """
    fact, barred = Observed.read(db, fact_id), facts.barred_until(db, fact_id)
    assert fact is not None
    said = [*more, *(each for each in sayings(db, fact_id) if not batches.undone_by(db, each.batch_id))]
    earlier = [each for each in said if each.since < max(fact.observed, each.at)]
    return min((fact.begins, *(each.since for each in earlier if barred is None or each.at > barred)))


def ended_by(db: apsw.Connection, uid: str, newer_id: int, at: int) -> int:
    """When a fact ended by one that replaced it, which was said to be at `at`: an older message may have put the
    beginning of that one back since.
    """
    sql = """
        SELECT CASE WHEN o.observed_at <= n.observed_at THEN min(n.valid_from, ?1) ELSE ?1 END
        FROM facts o, facts n WHERE o.uid = ?2 AND n.id = ?3
    """
    earliest: int = db.execute(sql, (at, uid, newer_id)).get
    return earliest


def ends(db: apsw.Connection, fact_id: int) -> int | None:
    """When a fact ended, by what stands and by its time; None where nothing says so."""
    uid, began = next(db.execute("SELECT uid, valid_from FROM facts WHERE id = ?", (fact_id,)))
    found = (_replaced_at(db, uid), history.ended(db, uid))
    return min((max(began, at) for at in found if at is not None), default=None)


def _replaced_at(db: apsw.Connection, uid: str, seen: frozenset[str] = frozenset()) -> int | None:
    """When a fact was replaced first, as batches say that stand; by a hidden one, when what replaced that began."""
    found: list[int | None] = []
    for batch_id, by, at in history.replacements(db, uid):
        if by in seen:  # a fact is not replaced by itself, when it takes the place of what had replaced it
            continue
        id_ = facts.by_uid(db, by)
        hidden = id_ is not None and not stands(db, id_)
        if hidden:
            found.append(_replaced_at(db, by, seen | {uid}))
        elif batch_id is None or not batches.undone_by(db, batch_id):
            found.append(at if id_ is None else ended_by(db, uid, id_, at))
    return min((at for at in found if at is not None), default=None)
