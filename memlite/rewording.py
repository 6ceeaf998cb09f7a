"""Facts that get other words, metadata or days under their ids: by hand, by a reextract or a rule, and back again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import tzinfo
from types import EllipsisType
from typing import Any

import apsw

from memlite import batches, entities, event_dates, facts, history, instants, learn, lifecycle, scopes, ttls, vectors
from memlite.errors import InvalidInputError
from memlite.event_dates import Event
from memlite.facts import NewFact
from memlite.learn import Embedded
from memlite.records import NamedEntity

TTL_REASON = "time to live"  # of an update that a rule has made


@dataclass(frozen=True, slots=True)
class Change:
    """What an update gives anew; None stays as it is. expires: the new expiry, and the time to live that makes it.

    by_hand: whether somebody wrote the text: then no model made it, and its event is the one that it names. event: days
    that somebody gives instead, None for none.
    """

    text: str | None = None
    metadata: str | None = None
    kind: str | None = None
    expires: tuple[int | None, int | None] | None = None
    entities: tuple[NamedEntity, ...] = ()  # of the new text
    by_hand: bool = False
    event: Event | EllipsisType | None = ...


@dataclass(frozen=True, slots=True)
class _Origin:
    """What a fact has of its first telling, apart from its text."""

    observed_at: int
    observed_offset: int
    begins: int
    event: Event | None
    made: tuple[float | None, str, str]  # confidence, model, prompt version

    @classmethod
    def read(cls, db: apsw.Connection, fact_id: int) -> _Origin:
        row = next(
            db.execute(
                """
                SELECT observed_at, observed_offset, coalesce(begins, valid_from), event_start, event_end,
                       event_precision, confidence, model, prompt_version
                FROM facts WHERE id = ?
                """,
                (fact_id,),
            )
        )
        at, offset, begins, first, last, precision, *made = row
        return cls(at, offset, begins, Event(first, last, precision) if first else None, tuple(made))

    def event_of(self, text: str, change: Change, zone: tzinfo | None) -> Event | None:
        """The event that the fact has after a change; text: what it says then."""
        if not isinstance(change.event, EllipsisType):
            return change.event
        if not change.by_hand or change.text is None:
            return self.event
        observed = instants.local(self.observed_at, self.observed_offset)
        now = instants.local(instants.now()).astimezone(zone)
        return event_dates.rewritten(text, self.event, observed, now, [each.name for each in change.entities])

    def after(self, old: str, new: str, event: Event | None, zone: tzinfo | None) -> NewFact:
        """The same after somebody has given the fact a text and an event. When it is true from stays as a caller gave
        it; else it follows the event.
        """
        before, after = (
            NewFact(text, *self.said, **event_dates.columns(days, text, *self.said, zone))
            for text, days in ((old, self.event), (new, event))
        )
        if self.begins != before.begins:
            after = replace(after, valid_from=self.begins)
        made = self.made if new == old else (None, "", "")
        return replace(after, confidence=made[0], model=made[1], prompt_version=made[2])

    @property
    def said(self) -> tuple[int, int]:
        return self.observed_at, self.observed_offset


def rewrite(
    db: apsw.Connection,
    fact_id: int,
    change: Change,
    made: Embedded,
    reason: str = "",
    *,
    actor: str = "caller",
    batch_id: int | None = None,
    zone: tzinfo | None = None,
) -> None:
    """Give a fact new content inside the caller's transaction; its old text stays as a closed version.

    batch_id: row id of the batch that it is a part of, and with which it is undone. zone: of what is written by hand.
    What the change does not give is read here, where no other writer can come between. Raises
    InvalidInputError when another living fact has the new text.
    """
    now = instants.now()
    uid, scope_id, live, *old = next(
        db.execute(
            "SELECT uid, scope_id, live, text, metadata, kind, expires_at, ttl FROM facts WHERE id = ?",
            (fact_id,),
        )
    )
    given = (change.text, change.metadata, change.kind)
    text, metadata, kind = (was if new is None else new for new, was in zip(given, old))
    expires_at, ttl = change.expires or old[3:]
    origin = _Origin.read(db, fact_id)
    event = origin.event if text == old[0] and change.event is ... else origin.event_of(text, change, zone)
    if [text, metadata, kind, expires_at, ttl] == old and event == origin.event:
        return
    scope = scopes.fetch(db, scope_id)
    other = facts.twin(db, scope.id, text) if live else None
    if other and other.id != fact_id and lifecycle.open_twin(db, scope.id, text, now, None):
        raise InvalidInputError(f"another fact of this scope, {other.uid}, already says {text!r}; delete one of them.")
    made_by = vectors.identity(db)
    old_vector = vectors.fetch(db, "fact", fact_id) if made_by else None
    version = facts.rewrite(db, fact_id, now, text=text, metadata=metadata, kind=kind, expires_at=expires_at, ttl=ttl)
    if made_by and old_vector is not None:
        vectors.insert(db, "fact", [vectors.Row(version, scope.id, old_vector)], made_by.probes)
    if change.by_hand and (text != old[0] or event != origin.event):
        facts.set_origin(db, fact_id, origin.after(old[0], text, event, zone))
        lifecycle.begin(db, fact_id)
    if text != old[0]:
        vectors.delete(db, "fact", [fact_id])
        facts.forget_vector(db, fact_id)
        new = NewFact(text, observed_at=0, entities=change.entities, expires_at=expires_at)
        facts.drop_mentions(db, fact_id)
        named = list(learn.mention(db, scope, fact_id, new, made))
        learn.store_vectors(db, learn.vector(scope, fact_id, new, made), named, made)  # of an archived fact none
    history.record(
        db,
        "UPDATE",
        uid,
        scope_id,
        now,
        batch_id=batch_id,
        actor=actor,
        reason=reason,
        before=_content(old[:4]) | ({} if event == origin.event else {"event": origin.event}),
        after=_content([text, metadata, kind, expires_at]) | ({} if event == origin.event else {"event": event}),
    )
    if not reason and (text, expires_at) != (old[0], old[3]):
        lifecycle.vouch(db, fact_id, now)


def reword(db: apsw.Connection, batch: batches.Batch, step: lifecycle.Step, back: bool) -> list[int]:
    """Give the facts that a batch has rewritten their earlier words again, or no longer; return their row ids.

    One that was changed since then keeps what it says.
    """
    reworded = []
    events = history.of_batch(db, batch.id)
    for event in events[::-1] if back else events:
        id_ = facts.by_uid(db, event.fact)
        if event.action != "UPDATE" or id_ is None or not event.before or not event.after:
            continue
        was, will = (event.after, event.before) if back else (event.before, event.after)
        said = db.execute("SELECT text FROM facts WHERE id = ?", (id_,)).get
        version = facts.version_with(db, id_, will["text"])
        if said != was["text"] or version is None:
            continue
        named = entities.of_facts(db, json.dumps([version])).get(version, ())
        change = Change(text=will["text"], entities=named)
        with suppress(InvalidInputError):  # another fact says that by now
            rewrite(db, id_, change, Embedded({}, {}, b""), step.reason, actor=step.actor, batch_id=step.batch_id)
            facts.take_origin(db, id_, version)
            lifecycle.begin(db, id_)
            reworded.append(id_)
    return reworded


def apply_ttls(db: apsw.Connection, kind: str, sql: str, bindings: Sequence[object]) -> int:
    """Let the living facts of a scope (`sql` over the alias `s`) and a kind ("": any) expire by the rules, unless a
    caller has said when; return how many do so now that did not.
    """
    rows = db.execute(
        f"""
        SELECT f.id, f.scope_id, f.kind, f.last_confirmed_at, f.ttl FROM facts f JOIN scopes s ON s.id = f.scope_id
        WHERE f.live = 1 AND (f.expires_at IS NULL OR f.ttl IS NOT NULL) AND ? IN ('', f.kind) AND {sql}
        """,
        (kind, *bindings),
    )
    held: dict[tuple[int, str], int | None] = {}
    changed = 0
    for id_, scope_id, of_kind, said, before in list(rows):
        if (scope_id, of_kind) not in held:
            held[scope_id, of_kind] = ttls.holding(db, scopes.fetch(db, scope_id), of_kind)
        ttl = held[scope_id, of_kind]
        if ttl != before:
            change = Change(expires=(facts.expiry(said, ttl), ttl))
            rewrite(db, id_, change, Embedded({}, {}, b""), TTL_REASON)
            changed += 1
    return changed


def _content(columns: Sequence[Any]) -> dict[str, Any]:
    """What a fact says, as the history keeps it."""
    text, metadata, kind, expires_at = columns
    return {"text": text, "metadata": json.loads(metadata), "kind": kind, "expires_at": expires_at}
