"""What happens to a fact after it was stored: replaced, expired, archived, restored, and a whole batch undone.

Everything here runs inside the caller's transaction, and every step is an event of the history.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import apsw

from memlite import batches, entities, facts, history, merging, messages, standing, vectors
from memlite.batches import Batch
from memlite.errors import InvalidInputError
from memlite.facts import State
from memlite.history import Saying
from memlite.records import Event

SAYING = ("ADD", "CONFIRM")  # what a batch says: a new fact, or one that was known


@dataclass(slots=True)
class Changed:
    """Row ids of the facts and messages that an undo hid and brought back."""

    archived: list[int] = field(default_factory=list)
    restored: list[int] = field(default_factory=list)
    messages_archived: list[int] = field(default_factory=list)
    messages_restored: list[int] = field(default_factory=list)
    entities: list[str] = field(default_factory=list)  # ids of those that are two again, or one again


@dataclass(frozen=True, slots=True)
class Step:
    """When something happened, by whom, why, and as part of which batch."""

    now: int
    actor: str = ""
    reason: str = ""
    batch_id: int | None = None

    def about(self) -> dict[str, Any]:
        """What an event says of a step beside its time."""
        return {"actor": self.actor, "reason": self.reason, "batch_id": self.batch_id}


# Said again, replaced and expired.


def confirm(
    db: apsw.Connection,
    fact_id: int,
    observed_at: int,
    message_ids: Iterable[int],
    step: Step,
    since: int | None = None,
) -> None:
    """Note that a fact was said again: one more source, a later confirmation, and the batch that says it.

    since: from when on it was true by that, by default from when it was said on.
    """
    before = facts.times(db, fact_id)
    facts.confirm(db, fact_id, observed_at, message_ids)
    state = facts.state(db, fact_id)
    if state is None or step.batch_id is None:
        return
    said = Saying(step.batch_id, observed_at, observed_at if since is None else since)
    if said in history.sayings(db, fact_id):
        return
    begins = standing.begins(db, fact_id, [said])
    after = facts.times(db, fact_id) | {"valid_from": begins, "observed_at": observed_at}
    after |= {"since": since} if said.since != observed_at else {}
    stood = standing.stands(db, fact_id)
    _record(db, "CONFIRM", state.uid, state.scope_id, step, before=before, after=after)
    begin(db, fact_id)
    _count_again(db, fact_id, stood, step)


def _count_again(db: apsw.Connection, fact_id: int, stood: bool, step: Step) -> None:
    """End again what a fact had replaced, where nothing that stands had said it before and something does now."""
    if not stood and standing.stands(db, fact_id):
        _settle(db, (), (fact_id,), step, Changed())


def vouch(db: apsw.Connection, fact_id: int, now: int) -> None:
    """Note that somebody holds by hand that a fact is so."""
    facts.confirm(db, fact_id, now, ())


def open_twin(db: apsw.Connection, scope_id: int, text: str, now: int, batch_id: int | None) -> facts.Twin | None:
    """The living fact of the exact scope with this text; one whose time is over is closed here and does not block."""
    twin = facts.twin(db, scope_id, text)
    if twin is None or twin.expires_at is None or twin.expires_at > now:
        return twin
    step = Step(now, reason="its time was over", batch_id=batch_id)
    before = facts.state(db, twin.id)
    assert before is not None
    facts.close(db, twin.id, twin.expires_at)
    _record(db, "EXPIRE", twin.uid, scope_id, step, before=_shown(before), after={"valid_to": twin.expires_at})
    return None


def note_end(db: apsw.Connection, fact_id: int, step: Step) -> None:
    """Note that a fact was stored as past, true until a time that was given."""
    state = facts.state(db, fact_id)
    assert state is not None
    _record(db, "EXPIRE", state.uid, state.scope_id, step, after={"valid_to": state.valid_to, "given": True})


def replace(db: apsw.Connection, old_id: int, new_id: int, step: Step) -> None:
    """Close the one of two facts that was true before: what was said last the longer ago, whichever arrived first.

    It ends when the other one began, or where that one was known before it, when that was said again.
    """
    old, new = (standing.Observed.read(db, id_) for id_ in (old_id, new_id))
    if old is None or new is None:  # deleted while the model ran
        return
    earlier = new.said < old.said or (new.ends is not None and new.ends <= old.begins)
    before, after = (new, old) if earlier else (old, new)
    ends = after.begins if before.observed <= after.observed else after.said
    facts.link(db, after.id, before.id, "replaces")
    begin(db, after.id)  # what it replaced was true after it had been said the first time
    if not standing.stands(db, after.id):  # undone, it ends nothing
        return
    state = facts.state(db, before.id)
    assert state is not None
    about = {"replaced_by": after.uid, "valid_to": ends}
    _record(db, "SUPERSEDE", before.uid, before.scope_id, step, before=_shown(state), after=about)
    ends = standing.ended_by(db, before.uid, after.id, ends)
    if state.valid_to is None or ends < state.valid_to:
        facts.close(db, before.id, ends)
    if not standing.stands(db, before.id):  # undone, it hands on to what it had replaced
        _settle(db, (), (before.id,), step, Changed())


def begin(db: apsw.Connection, fact_id: int) -> None:
    """Set anew since when a fact is true, after it was said again, or that was undone; the end of it, and of what it
    replaced, may then be another one.
    """
    if facts.set_begin(db, fact_id, standing.begins(db, fact_id)):
        for id_ in (fact_id, *facts.all_replaced_by(db, json.dumps([fact_id]))):
            _move_end(db, id_)


def _move_end(db: apsw.Connection, fact_id: int) -> None:
    """Set anew when a past fact ended; it does not count again by that."""
    state = facts.state(db, fact_id)
    ends = standing.ends(db, fact_id) if state and state.valid_to is not None else None
    if state and ends is not None:
        facts.set_state(db, fact_id, dataclasses.replace(state, valid_to=ends))


def join(db: apsw.Connection, kept_id: int, other_id: int, step: Step) -> None:
    """Archive a fact that says what another one says; that one takes over its sources, and when it was said."""
    kept, other = facts.state(db, kept_id), facts.state(db, other_id)
    assert kept is not None
    assert other is not None
    cited = messages.of_facts(db, json.dumps([kept_id, other_id]))
    new = [id_ for id_ in cited.get(other_id, ()) if id_ not in cited.get(kept_id, ())]
    stood = standing.stands(db, kept_id)
    about = {"joined": other.uid, "sources": [message.id for message in messages.fetch(db, new).values()]}
    _record(db, "CONFIRM", kept.uid, kept.scope_id, step, before=facts.times(db, kept_id), after=about)
    _record(db, "MERGE", other.uid, other.scope_id, step, after={"merged_into": kept.uid})
    facts.add_sources(db, kept_id, new)
    _count_confirmations(db, [kept_id])
    begin(db, kept_id)
    _count_again(db, kept_id, stood, step)
    archive(db, other_id, step)


def hide_messages(db: apsw.Connection, ids: Iterable[int], step: Step) -> list[int]:
    """Hide messages as long as the step's batch is not undone; return the row ids of those that were not hidden."""
    assert step.batch_id is not None
    hidden = messages.set_hidden(db, ids, step.now)
    messages.hide_by(db, step.batch_id, hidden)
    vectors.delete(db, "message", hidden)
    return hidden


# Archived and restored.


def archive(db: apsw.Connection, fact_id: int, step: Step) -> bool:
    """Hide a fact: its words and vector leave the indexes, its row stays. Returns whether it was not hidden before."""
    before = facts.state(db, fact_id)
    if before is None or before.archived_at is not None:
        return False
    after = dataclasses.replace(before, live=False, archived_at=step.now)
    _set(db, fact_id, before, after)
    _record(db, "ARCHIVE", before.uid, before.scope_id, step, before=_shown(before), after=_shown(after))
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
        after = dataclasses.replace(before, live=True, valid_to=None)
        if over:
            after = dataclasses.replace(after, expires_at=None, ttl=None)
    brought = _bring(db, fact_id, before, after, step)
    vouch(db, brought, step.now)
    if before.valid_to is not None and not standing.stands(db, fact_id):  # undone, it handed its end on
        _settle(db, (), (fact_id,), step, Changed())
    return brought


def _bring(db: apsw.Connection, fact_id: int, before: State, after: State, step: Step) -> int:
    """Give a fact a state in which it may be living again, unless a living twin stands in its place already."""
    text: str = db.execute("SELECT text FROM facts WHERE id = ?", (fact_id,)).get
    twin = open_twin(db, before.scope_id, text, step.now, step.batch_id) if after.live else None
    if twin and twin.id != fact_id:
        for said in standing.sayings(db, fact_id):
            confirm(db, twin.id, said.at, (), dataclasses.replace(step, batch_id=said.batch_id), said.since)
        facts.add_sources(db, twin.id, messages.of_facts(db, json.dumps([fact_id])).get(fact_id, ()))
        _record(db, "MERGE", before.uid, before.scope_id, step, after={"merged_into": twin.uid})
        return twin.id
    _set(db, fact_id, before, after)
    _record(db, "RESTORE", before.uid, before.scope_id, step, before=_shown(before), after=_shown(after))
    return fact_id


def _set(db: apsw.Connection, fact_id: int, before: State, after: State) -> None:
    """Write a state; what is hidden has no vector."""
    facts.set_state(db, fact_id, after)
    if (after.archived_at is None) != (before.archived_at is None):
        told = [fact_id, *facts.versions(db, json.dumps([fact_id]))]
        entities.settle_aliases(db, entities.brought_by(db, json.dumps(told)))
    if after.archived_at is not None:
        vectors.delete(db, "fact", [fact_id])


def _shown(state: State) -> dict[str, object]:
    """A state as the history keeps it."""
    return {
        "live": state.live,
        "valid_to": state.valid_to,
        "expires_at": state.expires_at,
        "archived_at": state.archived_at,
    }


# Undone.


Reword = Callable[[Batch, Step, bool], Iterable[int]]


def undo(db: apsw.Connection, batch_id: int, now: int, actor: str, reword: Reword) -> tuple[Batch, Changed]:
    """Undo a whole batch, or an undo. What it alone had said is hidden, what it replaced counts again.

    A fact that another batch says as well stays, and one that something else has replaced stays past. reword: gives
    the facts that a batch has rewritten their earlier words (True) or the batch's, and returns their row ids. Raises
    InvalidInputError where it is undone already.
    """
    batch, _, _ = batches.fetch(db, batch_id)
    if by := batches.undone_by(db, batch_id):
        raise InvalidInputError(f"the batch {batch.uid} is undone already; undo {by}, the undo, to bring it back.")
    first = batches.first(db, batch_id)
    stood, state = not batches.undone_by(db, first.id), batches.fetch(db, first.id)[1]
    about = json.dumps({"state": state})
    new = batches.insert(db, batch.scope_id, "done", now, kind="undo", metadata=about, undoes=batch_id)
    stands = not batches.undone_by(db, first.id)
    changed = Changed()
    step = Step(now, actor, f"undo of {batch.uid}", new.id)
    if stood and not stands:
        _hide(db, first, step, changed)
        changed.restored += reword(first, step, True)
    elif stands and not stood:
        changed.restored += reword(first, step, False)  # before a fact comes back that would find its twin
        _show(db, first, step, changed)
    return new, changed


def _hide(db: apsw.Connection, batch: Batch, step: Step, changed: Changed) -> None:
    """Hide what nobody but an undone batch has said, reopen what it replaced, and show what it had hidden."""
    events = history.of_batch(db, batch.id)
    said = _said(db, batch, events)
    changed.archived += [id_ for id_ in said if not _held(db, id_) and archive(db, id_, step)]
    for id_ in said:
        begin(db, id_)
    _settle(db, events[::-1], said, step, changed)
    for event, id_ in _with_facts(db, events):
        if event.action == "ARCHIVE" and not _put_away(db, event.fact) and standing.stands(db, id_):
            _unarchive(db, id_, step, changed)
        elif event.action == "CONFIRM":
            facts.drop_sources(db, id_, (event.after or {}).get("sources", ()))
    changed.entities += merging.split(db, history.merges(db, batch.id))
    _settle_messages(db, batch, step, changed)
    if batches.fetch(db, batch.id)[1] == "queued":
        batches.set_state(db, batch.id, "stored")
    _count_confirmations(db, said)


def _show(db: apsw.Connection, batch: Batch, step: Step, changed: Changed) -> None:
    """Bring back what the undo of a batch has hidden, and close or hide again what that one had brought back."""
    events = history.of_batch(db, batch.id)
    said = _said(db, batch, events)
    _settle_messages(db, batch, step, changed)
    if batches.left_queue(db, batch.id):
        batches.set_state(db, batch.id, "queued")
    for id_ in said:
        begin(db, id_)
    _settle(db, events, said, step, changed)
    for event, id_ in _with_facts(db, events):
        if event.action == "ARCHIVE" and _put_away(db, event.fact) and archive(db, id_, step):
            changed.archived.append(id_)
        elif event.action == "CONFIRM":
            facts.add_sources(db, id_, messages.by_uids(db, (event.after or {}).get("sources", ())))
    changed.entities += merging.merge_again(db, history.merges(db, batch.id), step.now, **step.about())
    for id_ in said:
        now = facts.state(db, id_)
        if now and not _put_away(db, now.uid) and standing.stands(db, id_):
            _unarchive(db, id_, step, changed)
    _count_confirmations(db, said)


def _said(db: apsw.Connection, batch: Batch, events: Sequence[Event]) -> list[int]:
    """The facts that a batch says, those learnt from its messages later, and those that one of these was joined to."""
    said = dict.fromkeys(id_ for event, id_ in _with_facts(db, events) if event.action in SAYING)
    found = list(said | dict.fromkeys(facts.learnt_from(db, batch.id)))
    for id_ in found:  # it grows meanwhile
        found += [kept for kept in history.joined_to(db, id_) if kept not in found]
    return found


def _unarchive(db: apsw.Connection, fact_id: int, step: Step, changed: Changed) -> None:
    now = facts.state(db, fact_id)
    if now and now.archived_at is not None:
        then = dataclasses.replace(now, archived_at=None, live=now.valid_to is None)
        changed.restored.append(_bring(db, fact_id, now, then, step))


def _held(db: apsw.Connection, fact_id: int) -> bool:
    """Whether a batch that stands says a fact, or somebody has restored it by hand when none did."""
    return standing.stands(db, fact_id) or history.kept_by_hand(db, fact_id)


def _put_away(db: apsw.Connection, uid: str) -> bool:
    """Whether a fact was archived by hand, or by a batch that stands, and nobody has restored it since.

    What an undo did says nothing: it follows from which batches stand.
    """
    held: set[int | None] = set()
    for action, batch_id in history.archivings(db, uid):
        if action == "ARCHIVE":
            held.add(batch_id)
        else:
            held.clear()
    return any(batch_id is None or not batches.undone_by(db, batch_id) for batch_id in held)


def _settle_messages(db: apsw.Connection, batch: Batch, step: Step, changed: Changed) -> None:
    """Hide what is undone, or hidden by what stands, of a batch's messages and of those it hides; show the rest."""
    hide: list[int] = []
    show: list[int] = []
    for id_, own, hiders in messages.hiding(db, batch.id):
        hidden = batches.undone_by(db, own) or any(not batches.undone_by(db, each) for each in hiders)
        (hide if hidden else show).append(id_)
    changed.messages_restored += messages.set_hidden(db, show, None)
    changed.messages_archived += messages.set_hidden(db, hide, step.now)
    vectors.delete(db, "message", changed.messages_archived)


def _settle(db: apsw.Connection, events: Sequence[Event], said: Iterable[int], step: Step, changed: Changed) -> None:
    """After a batch was undone, or is so no longer: end and reopen what it replaced, and what its facts had replaced.

    A fact ends when the first one began that replaced it and stands; of one that is hidden, that one in its place.
    """
    waiting = [id_ for event, id_ in _with_facts(db, events) if event.action == "SUPERSEDE"]
    waiting += facts.all_replaced_by(db, json.dumps(list(said)))
    seen: set[int] = set()
    for id_ in waiting:  # it grows meanwhile
        state = facts.state(db, id_)
        if state is None or id_ in seen:
            continue
        seen.add(id_)
        if not standing.stands(db, id_):
            waiting += facts.all_replaced_by(db, json.dumps([id_]))
        _end(db, id_, state, step, changed)


def _end(db: apsw.Connection, fact_id: int, before: State, step: Step, changed: Changed) -> None:
    """Let a fact have been true until what stands ended it; where nothing does, it counts again."""
    ends = standing.ends(db, fact_id)
    if ends == before.valid_to:
        return
    after = dataclasses.replace(before, live=ends is None and before.archived_at is None, valid_to=ends)
    if after.live:
        changed.restored.append(_bring(db, fact_id, before, after, step))
        return
    _set(db, fact_id, before, after)
    if before.live:
        # Without what has replaced it: nobody has said so of this one, and an undo has nothing to take back.
        about = {"valid_to": ends}
        _record(db, "SUPERSEDE", before.uid, before.scope_id, step, before=_shown(before), after=about)
        changed.archived.append(fact_id)


def withdraw(db: apsw.Connection, fact_ids: str) -> None:
    """Before facts are deleted (a JSON array of row ids): what is undone of them has never replaced anything."""
    for newer, older in facts.replaced_outside(db, fact_ids):
        if not standing.stands(db, newer):
            history.forget_replacement(db, older, newer)


def hand_on(db: apsw.Connection, newer: int, older: int, step: Step) -> None:
    """Let what replaced a fact that is to be deleted replace what that one had replaced, as part of its own batch."""
    facts.link(db, newer, older, "replaces")
    by, before = facts.state(db, newer), facts.state(db, older)
    assert by is not None
    assert before is not None
    if before.valid_to is None:  # it was reopened
        return
    batch_id: int | None = db.execute("SELECT batch_id FROM facts WHERE id = ?", (newer,)).get
    about = {"replaced_by": by.uid, "valid_to": before.valid_to}
    step = dataclasses.replace(step, batch_id=batch_id)
    _record(db, "SUPERSEDE", before.uid, before.scope_id, step, before=_shown(before), after=about)


def beside(db: apsw.Connection, fact_ids: str) -> list[int]:
    """What deleting facts (a JSON array of row ids) may leave with another time in which it was true: what replaced
    them, what they had replaced, and what says the same.
    """
    found = {
        *facts.all_replacing(db, fact_ids),
        *facts.all_replaced_by(db, fact_ids),
        *facts.saying_the_same(db, fact_ids),
    }
    return sorted(found.difference(json.loads(fact_ids)))


def settle_beside(db: apsw.Connection, fact_ids: Iterable[int]) -> None:
    """Set anew when facts were true after what stood beside them was deleted."""
    for id_ in fact_ids:
        begin(db, id_)
        _move_end(db, id_)


def settle_unsaid(db: apsw.Connection, fact_ids: Iterable[int], now: int) -> None:
    """After something that said these facts was deleted: hide those that only undone batches say by now, as the undo
    would have; set anew when the others were said.
    """
    for id_ in fact_ids:
        if not _held(db, id_):
            undo = batches.last_undo(db, standing.batches_saying(db, id_))
            step = Step(now, reason="what else said it was deleted", batch_id=undo)
            if archive(db, id_, step):
                begin(db, id_)
                _settle(db, (), (id_,), step, Changed())
        else:
            begin(db, id_)
        _count_confirmations(db, [id_])


def _count_confirmations(db: apsw.Connection, fact_ids: Iterable[int]) -> None:
    """Set anew when facts were last said, by the batches that stand."""
    for id_ in fact_ids:
        facts.set_confirmed(db, id_, max(standing.confirmations(db, id_), default=None))


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
        before=before,
        after=after,
        **step.about(),
    )
