"""What happens to a fact after it was stored: replaced, expired, archived, restored, and a whole batch undone.

Everything here runs inside the caller's transaction, and every step is an event of the history.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import apsw

from memlite import batches, facts, history, messages, vectors
from memlite.batches import Batch
from memlite.errors import InvalidInputError
from memlite.facts import NewFact, State
from memlite.records import Event


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


# Replaced and expired.


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
        confirmed: int = db.execute("SELECT last_confirmed_at FROM facts WHERE id = ?", (fact_id,)).get
        facts.confirm(db, twin.id, confirmed, messages.of_facts(db, json.dumps([fact_id])).get(fact_id, ()))
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
    """Undo a whole batch, or an undo. What it added is hidden, what it replaced counts again.

    A fact that another one has replaced since stays past. Raises InvalidInputError where it is undone already.
    """
    batch, _, _ = batches.fetch(db, batch_id)
    if by := batches.undone_by(db, batch_id):
        raise InvalidInputError(f"the batch {batch.uid} is undone already; undo {by}, the undo, to bring it back.")
    first, hiding = _first(db, batch)
    state = batches.fetch(db, first.id)[1]
    about = json.dumps({"state": state})
    new = batches.insert(db, batch.scope_id, "done", now, kind="undo", metadata=about, undoes=batch_id)
    step = Step(now, actor, f"undo of {batch.uid}", new.id)
    changed = Changed()
    if batch.undoes is None:
        _undo_added(db, batch, step, changed)
    else:
        _undo_undone(db, batch, step, changed)
    if hiding:
        changed.messages_archived += messages.archive(db, first.id, now)
        if vectors.identity(db):
            vectors.delete(db, "message", changed.messages_archived)
        if state == "queued":
            batches.set_state(db, first.id, "stored")
    else:
        changed.messages_restored += messages.restore(db, first.id)
        batches.set_state(db, first.id, json.loads(batch.metadata)["state"])
    facts.count_confirmations(db, json.dumps(changed.messages_archived + changed.messages_restored))
    return new, changed


def _first(db: apsw.Connection, batch: Batch) -> tuple[Batch, bool]:
    """The batch that an undo, or the undo of an undo, is about; and whether undoing `batch` hides what it added."""
    hiding = True
    while batch.undoes is not None:
        batch, hiding = batches.fetch(db, batch.undoes)[0], not hiding
    return batch, hiding


def _undo_added(db: apsw.Connection, batch: Batch, step: Step, changed: Changed) -> None:
    """Hide what a batch brought, and reopen what it replaced."""
    events = history.of_batch(db, batch.id)
    added = [id_ for event, id_ in _with_facts(db, events) if event.action == "ADD"]
    living = {id_ for id_ in added if _is_living(db, id_)}
    changed.archived += [id_ for id_ in added if archive(db, id_, step)]
    for event, id_ in _with_facts(db, events[::-1]):
        if event.action == "SUPERSEDE" and id_ not in added:
            by = facts.by_uid(db, str((event.after or {}).get("replaced_by")))
            if by is None or by not in added or by in living:
                _reopen(db, id_, step, changed)


def _reopen(db: apsw.Connection, fact_id: int, step: Step, changed: Changed) -> None:
    """Let a replaced fact count again; where an undo has hidden it meanwhile, those that it had replaced."""
    state = facts.state(db, fact_id)
    if state is None:
        return
    if state.archived_at is None:
        if not state.live:
            changed.restored.append(restore(db, fact_id, step))
        return
    if history.hidden_by_undo(db, state.uid):
        for older in facts.replaced_by(db, json.dumps([fact_id])).get(fact_id, ()):
            _reopen(db, older, step, changed)


def _undo_undone(db: apsw.Connection, undo_: Batch, step: Step, changed: Changed) -> None:
    """Give back to each fact the state it had before an undo, the last one changed first.

    What has happened to it since, by hand or by a newer fact, stands.
    """
    for event, id_ in _with_facts(db, history.of_batch(db, undo_.id)[::-1]):
        now = facts.state(db, id_)
        if now is None or event.before is None:
            continue
        then = dataclasses.replace(now, **event.before)
        if event.action == "ARCHIVE" and now.archived_at is not None:
            changed.restored.append(_bring(db, id_, now, then, step))
        elif event.action == "RESTORE" and now.live:
            _set(db, id_, now, then)
            action: history.Action = "SUPERSEDE" if then.archived_at is None else "ARCHIVE"
            _record(db, action, now.uid, now.scope_id, step, before=_shown(now))
            changed.archived.append(id_)
        elif event.action == "SUPERSEDE" and not now.live and now.archived_at is None:
            changed.restored.append(_bring(db, id_, now, then, step))


def _with_facts(db: apsw.Connection, events: Sequence[Event]) -> Iterator[tuple[Event, int]]:
    """The events whose facts are still there, with their row ids."""
    for event in events:
        id_ = facts.by_uid(db, event.fact)
        if id_ is not None:
            yield event, id_


def _is_living(db: apsw.Connection, fact_id: int) -> bool:
    state = facts.state(db, fact_id)
    return state is not None and state.live


def _record(
    db: apsw.Connection,
    action: history.Action,
    uid: str,
    scope_id: int,
    step: Step,
    *,
    before: dict[str, object] | None = None,
    after: dict[str, object] | None = None,
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
