"""What happens to a fact after it was stored: replaced, expired, archived, restored, and a whole batch undone.

Everything here runs inside the caller's transaction, and every step is an event of the history.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import apsw

from memlite import batches, facts, history, messages, vectors
from memlite.batches import Batch
from memlite.errors import InvalidInputError
from memlite.facts import NewFact, State
from memlite.records import Event

SAYING = ("ADD", "CONFIRM")  # what a batch says: a new fact, or one that was known


@dataclass(slots=True)
class Changed:
    """Row ids of the facts and messages that an undo hid and brought back."""

    archived: list[int] = field(default_factory=list)
    restored: list[int] = field(default_factory=list)
    messages_archived: list[int] = field(default_factory=list)
    messages_restored: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Step:
    """When something happened, by whom, why, and as part of which batch."""

    now: int
    actor: str = ""
    reason: str = ""
    batch_id: int | None = None


# Said again, replaced and expired.


def confirm(db: apsw.Connection, fact_id: int, observed_at: int, message_ids: Iterable[int], step: Step) -> None:
    """Note that a fact was said again: one more source, a later confirmation, and the batch that says it."""
    facts.confirm(db, fact_id, observed_at, message_ids)
    state = facts.state(db, fact_id)
    if state and step.batch_id is not None and step.batch_id not in history.batches_saying(db, fact_id):
        _record(db, "CONFIRM", state.uid, state.scope_id, step, after={"observed_at": observed_at})


def open_twin(db: apsw.Connection, scope_id: int, text: str, now: int, batch_id: int | None) -> facts.Twin | None:
    """The living fact of the exact scope with this text; one whose time is over is closed here and does not block."""
    twin = facts.twin(db, scope_id, text)
    if twin is None or twin.expires_at is None or twin.expires_at > now:
        return twin
    _close(db, twin.id, twin.expires_at)
    history.record(db, "EXPIRE", twin.uid, scope_id, now, batch_id=batch_id, reason="its time was over")
    return None


def replace(db: apsw.Connection, old_id: int, new_id: int, new_uid: str, fact: NewFact, step: Step) -> None:
    """Close the fact that was true before. The older observation is the one that closes, whichever arrived first."""
    row = db.execute(
        "SELECT uid, scope_id, live, observed_at, valid_from FROM facts WHERE id = ?", (old_id,)
    ).fetchone()
    if row is None:  # deleted while the model ran
        return
    uid, scope_id, live, observed_at, valid_from = row
    if not live:
        facts.link(db, new_id, old_id, "replaces")
        _record(db, "SUPERSEDE", uid, scope_id, step, after={"replaced_by": new_uid})
        return
    begins = fact.observed_at if fact.valid_from is None else fact.valid_from
    closed_id, closed_uid, by, ends = (
        (new_id, new_uid, uid, valid_from) if fact.observed_at < observed_at else (old_id, uid, new_uid, begins)
    )
    facts.link(db, new_id if closed_id == old_id else old_id, closed_id, "replaces")
    _close(db, closed_id, ends)
    _record(db, "SUPERSEDE", closed_uid, scope_id, step, after={"replaced_by": by})


def _close(db: apsw.Connection, fact_id: int, valid_to: int) -> None:
    """End a fact's validity, in its row and in the vector index."""
    facts.close(db, fact_id, valid_to)
    if vectors.identity(db):
        vectors.set_live(db, fact_id, False)


# Archived and restored.


def archive(db: apsw.Connection, fact_id: int, step: Step) -> bool:
    """Hide a fact: its words and vector leave the indexes, its row stays. Returns whether it was not hidden before."""
    before = facts.state(db, fact_id)
    if before is None or before.archived_at is not None:
        return False
    _set(db, fact_id, before, dataclasses.replace(before, live=False, archived_at=step.now))
    _record(db, "ARCHIVE", before.uid, before.scope_id, step, before=_shown(before))
    return True


def restore(db: apsw.Connection, fact_id: int, step: Step) -> int:
    """Bring an archived fact back as it was, or reopen one that was replaced or has expired.

    Returns the row id of the fact that counts now: another one where a living one says the same; it takes over the
    sources. The vector of one that was archived is made again by `Semantic.catch_up`.
    """
    before = facts.state(db, fact_id)
    assert before is not None
    over = before.expires_at is not None and before.expires_at <= step.now
    if before.archived_at is not None:
        after = dataclasses.replace(before, archived_at=None, live=before.valid_to is None)
    elif before.live and not over:
        return fact_id
    else:
        after = dataclasses.replace(before, live=True, valid_to=None, expires_at=None if over else before.expires_at)
    return _bring(db, fact_id, before, after, step)


def _bring(db: apsw.Connection, fact_id: int, before: State, after: State, step: Step) -> int:
    """Give a fact a state in which it may be living again, unless a living twin stands in its place already."""
    text: str = db.execute("SELECT text FROM facts WHERE id = ?", (fact_id,)).get
    twin = open_twin(db, before.scope_id, text, step.now, step.batch_id) if after.live else None
    if twin and twin.id != fact_id:
        for batch_id, at in history.sayings(db, fact_id):
            confirm(db, twin.id, at, (), dataclasses.replace(step, batch_id=batch_id))
        facts.add_sources(db, twin.id, messages.of_facts(db, json.dumps([fact_id])).get(fact_id, ()))
        _record(db, "MERGE", before.uid, before.scope_id, step, after={"merged_into": twin.uid})
        return twin.id
    _set(db, fact_id, before, after)
    _record(db, "RESTORE", before.uid, before.scope_id, step, before=_shown(before))
    return fact_id


def _set(db: apsw.Connection, fact_id: int, before: State, after: State) -> None:
    """Write a state, in the row and in the vector index."""
    facts.set_state(db, fact_id, after)
    if not vectors.identity(db):
        return
    if after.archived_at is not None:
        vectors.delete(db, "fact", [fact_id])
    elif before.archived_at is None:
        vectors.set_live(db, fact_id, after.live)
        vectors.expire(db, fact_id, after.expires_at)


def _shown(state: State) -> dict[str, object]:
    """A state as the history keeps it."""
    return {
        "live": state.live,
        "valid_to": state.valid_to,
        "expires_at": state.expires_at,
        "archived_at": state.archived_at,
    }


# Undone.


def undo(db: apsw.Connection, batch_id: int, now: int, actor: str) -> tuple[Batch, Changed]:
    """Undo a whole batch, or an undo. What it alone had said is hidden, what it replaced counts again.

    A fact that another batch says as well stays, and one that something else has replaced stays past. Raises
    InvalidInputError where it is undone already.
    """
    batch, _, _ = batches.fetch(db, batch_id)
    if by := batches.undone_by(db, batch_id):
        raise InvalidInputError(f"the batch {batch.uid} is undone already; undo {by}, the undo, to bring it back.")
    first = batch
    while first.undoes is not None:
        first = batches.fetch(db, first.undoes)[0]
    stood, state = not batches.undone_by(db, first.id), batches.fetch(db, first.id)[1]
    about = json.dumps({"state": state})
    new = batches.insert(db, batch.scope_id, "done", now, kind="undo", metadata=about, undoes=batch_id)
    stands = not batches.undone_by(db, first.id)
    changed = Changed()
    step = Step(now, actor, f"undo of {batch.uid}", new.id)
    if stood and not stands:
        _hide(db, first, step, changed)
    elif stands and not stood:
        _show(db, first, step, changed)
    return new, changed


def _hide(db: apsw.Connection, batch: Batch, step: Step, changed: Changed) -> None:
    """Hide what nobody but an undone batch has said, and reopen what it replaced."""
    events = history.of_batch(db, batch.id)
    said = dict.fromkeys(id_ for event, id_ in _with_facts(db, events) if event.action in SAYING)
    changed.archived += [id_ for id_ in said if not _stands(db, id_) and archive(db, id_, step)]
    for event, id_ in _with_facts(db, events[::-1]):
        if event.action == "SUPERSEDE":
            _reopen(db, id_, step, changed)
    changed.messages_archived += messages.archive(db, batch.id, step.now)
    if vectors.identity(db):
        vectors.delete(db, "message", changed.messages_archived)
    if batches.fetch(db, batch.id)[1] == "queued":
        batches.set_state(db, batch.id, "stored")
    _count_confirmations(db, said)


def _show(db: apsw.Connection, batch: Batch, step: Step, changed: Changed) -> None:
    """Bring back what the undo of a batch has hidden, and close again what that one had reopened."""
    events = history.of_batch(db, batch.id)
    said = dict.fromkeys(id_ for event, id_ in _with_facts(db, events) if event.action in SAYING)
    changed.messages_restored += messages.restore(db, batch.id)
    if batches.left_queue(db, batch.id):
        batches.set_state(db, batch.id, "queued")
    for event, id_ in _with_facts(db, events):
        now = facts.state(db, id_)
        if event.action == "SUPERSEDE" and now and now.live and history.last_by_undo(db, now.uid, "RESTORE"):
            by = facts.by_uid(db, str((event.after or {}).get("replaced_by")))
            begins: int | None = db.execute("SELECT valid_from FROM facts WHERE id = ?", (by,)).get
            _close(db, id_, step.now if begins is None else begins)
            _record(db, "SUPERSEDE", now.uid, now.scope_id, step, after=event.after)
            changed.archived.append(id_)
    for id_ in said:
        now = facts.state(db, id_)
        if now and now.archived_at is not None and history.last_by_undo(db, now.uid, "ARCHIVE"):
            past = now.valid_to is not None and not facts.replacing(db, id_)
            live = not past and not _is_replaced(db, now.uid)
            valid_to = None if live else now.valid_to if now.valid_to is not None else step.now
            then = dataclasses.replace(now, archived_at=None, live=live, valid_to=valid_to)
            changed.restored.append(_bring(db, id_, now, then, step))
    _count_confirmations(db, said)


def _reopen(db: apsw.Connection, fact_id: int, step: Step, changed: Changed) -> None:
    """Let a replaced fact count again that nothing else has replaced; where it is undone itself, those it replaced."""
    state = facts.state(db, fact_id)
    if state is None or _is_replaced(db, state.uid):
        return
    if not _stands(db, fact_id):
        for older in facts.replaced_by(db, json.dumps([fact_id])).get(fact_id, ()):
            _reopen(db, older, step, changed)
    elif state.archived_at is None and not state.live:
        then = dataclasses.replace(state, live=True, valid_to=None)
        changed.restored.append(_bring(db, fact_id, state, then, step))


def _stands(db: apsw.Connection, fact_id: int) -> bool:
    """Whether any batch that says a fact is not undone."""
    saying = history.batches_saying(db, fact_id)
    return not saying or any(not batches.undone_by(db, id_) for id_ in saying)


def _is_replaced(db: apsw.Connection, uid: str, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a batch that stands has replaced a fact, or what replaced it."""
    return any(
        batch_id is None or not batches.undone_by(db, batch_id) or _is_replaced(db, by, seen | {uid})
        for batch_id, by in history.replacements(db, uid)
        if by not in seen | {uid}
    )


def _count_confirmations(db: apsw.Connection, fact_ids: Iterable[int]) -> None:
    """Set anew when facts were last said, by the batches that stand."""
    for id_ in fact_ids:
        said = [at for batch_id, at in history.sayings(db, id_) if not batches.undone_by(db, batch_id)]
        facts.set_confirmed(db, id_, max(said, default=None))


def _with_facts(db: apsw.Connection, events: Sequence[Event]) -> Iterator[tuple[Event, int]]:
    """The events whose facts are still there, with their row ids."""
    for event in events:
        id_ = facts.by_uid(db, event.fact)
        if id_ is not None:
            yield event, id_


def _record(
    db: apsw.Connection,
    action: history.Action,
    uid: str,
    scope_id: int,
    step: Step,
    *,
    before: Mapping[str, object] | None = None,
    after: Mapping[str, object] | None = None,
) -> None:
    history.record(
        db,
        action,
        uid,
        scope_id,
        step.now,
        batch_id=step.batch_id,
        actor=step.actor,
        reason=step.reason,
        before=before,
        after=after,
    )
