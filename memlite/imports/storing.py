"""From what a source gives to what the file holds: each conversation a run, each message once, what is broken named.

A piece of a conversation, some facts, or some records of an export are one transaction. So a stopped import has lost
nothing, and the same one again adds what is missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo

import apsw

from memlite import batches, conversation, facts, filters, instants, learn, messages, remembered, scopes, vectors
from memlite.batches import Batch
from memlite.db import Database
from memlite.errors import EmbedderMismatchError, InvalidInputError
from memlite.imports import exported
from memlite.imports.files import Text
from memlite.imports.items import Conversation, Item, Line, Statement
from memlite.learn import Candidate, Embedded, Learnt
from memlite.messages import NewMessage
from memlite.records import Imported, LeftOut, Scope, Skipped
from memlite.scopes import StoredScope
from memlite.semantic import compare

MOST_SHOWN = 1000  # things left out that a result keeps; each is told as it is met
_TOGETHER = 100  # facts that are stored in one transaction
_LONGEST_EXCHANGE = 10  # messages that are learnt from together
_HALVES = re.compile("[\ud800-\udfff]")
_UNDATED = "messages without a time of their own: they have that of the message before them, or of the file"
_MENDED = "messages with broken characters: � stands in their place"

Append = Callable[[Scope, Sequence[NewMessage], str], tuple[Batch, list[tuple[int, str]], list[Skipped]]]
# Takes the row ids of a batch and of its messages; gives how many facts were learnt, and why none could be.
Learn = Callable[[int, Sequence[int]], tuple[int, str | None]]


@dataclass(slots=True)
class Target:
    """Where an import goes. whose: the ids that were given; those of a conversation's run and of a memory of mem0 come
    from the source. append, learn: as `Memory.add` does it, the one inside a transaction, the other after it.

    tell: progress. skipped: told of everything that is left out. reading: for the estimate. modified: when the source
    was changed last, for what has no time.
    """

    database: Database
    whose: Scope
    bound: Scope | None
    zone: tzinfo | None
    dry_run: bool
    append: Append
    learn: Learn | None
    tell: Callable[[str], None]
    skipped: Callable[[LeftOut], None]
    reading: Reading
    modified: datetime


@dataclass(slots=True)
class Reading:
    """How far the files of an import have been read. size: the bytes of all of them."""

    size: int = 0
    before: int = 0
    text: Text | None = None
    begun: float = field(default_factory=lambda: time.monotonic())

    def follow(self, text: Text) -> Text:
        """From now on this one is read."""
        self.before += self.text.at if self.text else 0
        self.text = text
        return text

    def share(self) -> float:
        """How much of it has been read, 0 to 1."""
        return min(1.0, (self.before + (self.text.at if self.text else 0)) / self.size) if self.size else 0.0

    def estimate(self) -> str:
        """How far it is, and how long the rest may take."""
        share = self.share()
        if not share:
            return ""
        left = (time.monotonic() - self.begun) * (1 - share) / share
        return f"{share:.0%}, about {f'{left / 60:.0f} min' if left > 90 else f'{left:.0f} s'} left: "


@dataclass(slots=True)
class _Counts:
    added: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    left_out: list[LeftOut] = field(default_factory=list)
    queued: int = 0


class Storing:
    """One import. `run` and `restore` each take what a source gives, and return what came of it."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._counts = _Counts()
        self._told = time.monotonic()
        self._last: dict[str, datetime] = {}  # of the conversation that is being stored, when its last message was said
        self._refused: set[str] = set()  # reasons for which nothing is learnt now

    def run(self, source: str, items: Iterable[Item]) -> None:
        """Store conversations and facts."""
        waiting: list[tuple[Scope, Statement]] = []
        for item in items:
            if isinstance(item, LeftOut):
                self._leave(item)
            elif isinstance(item, Conversation):
                self._conversation(source, item)
            else:
                scope = self._scope_of(item)
                if waiting and (len(waiting) >= _TOGETHER or waiting[0][0] != scope):
                    self._statements(source, waiting)
                    waiting = []
                if scope is not None:
                    waiting.append((scope, item))
            self._progress()
        if waiting:
            self._statements(source, waiting)

    def restore(self, records: Iterable[exported.Record | LeftOut], head: exported.Head) -> None:
        """Store the records of memlite's own export under their ids."""
        restoring = exported.Restoring()
        chunk: list[exported.Record] = []
        begun = False
        for found in records:
            if not begun:
                restoring.embedder, begun = self._embedder(head), True
            if isinstance(found, LeftOut):
                self._leave(found)
                continue
            chunk.append(found)
            if len(chunk) >= exported.CHUNK:
                self._records(restoring, chunk)
                chunk = []
                self._progress()
        self._records(restoring, chunk)
        if self._counts.reasons and restoring.names:
            with self._target.database.write() as db:
                restoring.settle(db)

    def result(self, source: str, guessed: str, notes: Iterable[str]) -> Imported:
        """What came of it."""
        counts = self._counts
        told = [f"{count} {note}" if count > 1 else note for note, count in counts.notes.items()]
        return Imported(
            source=source,
            guessed=guessed,
            added=dict(+counts.added),
            known=dict(+counts.known),
            left_out=tuple(counts.left_out),
            reasons=dict(counts.reasons),
            queued=counts.queued,
            dry_run=self._target.dry_run,
            notes=(*told, *sorted(self._refused), *notes),
        )

    # -- conversations -----------------------------------------------------------------------------

    def _conversation(self, source: str, found: Conversation) -> None:
        whose = self._target.whose
        run_id = whose.run_id or self._clean(found.id).strip()
        try:
            scope = scopes.read_ids(whose.user_id or None, whose.agent_id or None, run_id, self._target.bound)
        except InvalidInputError as error:
            self._leave(LeftOut(found.place, str(error)))
            return
        new = list(self._validated(found))
        about = {"source": source} | ({"title": self._clean(found.title)} if found.title else {})
        metadata = filters.check_metadata(about)
        if self._target.dry_run:
            with self._target.database.read() as db:
                stored = scopes.find(db, scope)
                fresh = list(self._fresh(db, stored.id if stored else None, new))
            self._counts.added["messages"] += len(fresh)
            queued: list[tuple[Batch, list[int]]] = []
        else:
            fresh, queued = self._append(scope, new, metadata)
        if found.begins and (fresh or new):
            (self._counts.added if fresh else self._counts.known)["conversations"] += 1
        for batch, rows in queued:
            self._learn(batch, rows)

    def _append(
        self, scope: Scope, new: Sequence[tuple[Line, NewMessage]], metadata: str
    ) -> tuple[list[NewMessage], list[tuple[Batch, list[int]]]]:
        """Store what is new of a piece of a conversation; return it, and the batches that wait, with their messages."""
        queued = []
        with self._target.database.write() as db:
            stored = scopes.find(db, scope)
            fresh = list(self._fresh(db, stored.id if stored else None, new))
            for exchange in exchanges(fresh):
                batch, rows, _ = self._target.append(scope, exchange, metadata)
                if batches.fetch(db, batch.id)[1] == "queued":
                    queued.append((batch, [row for row, _ in rows]))
        self._counts.queued += len(queued)
        self._counts.added["messages"] += len(fresh)
        return fresh, queued

    def _learn(self, batch: Batch, rows: Sequence[int]) -> None:
        """Learn from a stored batch now, where that was asked for."""
        if self._target.learn is None:
            return
        learnt, reason = self._target.learn(batch.id, rows)
        self._counts.added["facts"] += learnt
        if reason is None:
            self._counts.queued -= 1
        else:
            self._refused.add(reason)
        self._progress()

    def _validated(self, found: Conversation) -> Iterator[tuple[Line, NewMessage]]:
        """The messages of a conversation that can be stored, each with a time."""
        last = self._last.get(found.id)
        for line in found.lines:
            said = dict(line.message)
            mended = {key: self._clean(value) for key, value in said.items() if isinstance(value, str)}
            if mended != {key: value for key, value in said.items() if isinstance(value, str)}:
                self._counts.notes[_MENDED] += 1
            said |= mended
            if said.get("observed_at") is None:
                said["observed_at"] = last or found.at or self._target.modified
                self._counts.notes[_UNDATED] += 1
            try:
                (message,) = conversation.read([said], (0, 0), self._target.zone)
            except InvalidInputError as error:
                self._leave(LeftOut(line.place, str(error)))
                continue
            last = said["observed_at"]
            yield line, message
        self._last = {found.id: last} if last else {}

    def _fresh(
        self, db: apsw.Connection, scope_id: int | None, new: Sequence[tuple[Line, NewMessage]]
    ) -> Iterator[NewMessage]:
        """Those of the messages that the scope does not have."""
        seen: dict[str, str] = {}
        for line, message in new:
            assert message.caller_id is not None
            there = messages.by_caller_id(db, scope_id, message.caller_id) if scope_id is not None else None
            text = there[1] if there else seen.get(message.caller_id)
            if text is None:
                seen[message.caller_id] = message.content
                yield message
            elif text == message.content:
                self._counts.known["messages"] += 1
            else:
                reason = f"its id stands for another text here, which stays: {text[:60]!r}"
                self._leave(LeftOut(line.place, reason))

    # -- facts -------------------------------------------------------------------------------------

    def _scope_of(self, item: Statement) -> Scope | None:
        """Whose a fact is: the ids that were given, and beside them those that the source tells."""
        given = self._target.whose.given()
        ids = {**{name: self._clean(value) for name, value in item.scope.items()}, **given}
        try:
            return scopes.read_ids(ids.get("user_id"), ids.get("agent_id"), ids.get("run_id"), self._target.bound)
        except InvalidInputError as error:
            self._leave(LeftOut(item.place, str(error)))
            return None

    def _statements(self, source: str, given: Sequence[tuple[Scope, Statement]]) -> None:
        """Store facts of one scope."""
        scope = given[0][0]
        read = [(item, self._read(source, scope, item)) for _, item in given]
        ready = [(item, versions) for item, versions in read if versions]
        if self._target.dry_run:
            with self._target.database.read() as db:
                stored = scopes.find(db, scope)
                for _, versions in ready:
                    known = stored is not None and self._is_known(db, stored, versions[-1])
                    (self._counts.known if known else self._counts.added)["facts"] += 1
            return
        with self._target.database.write() as db:
            row: StoredScope | None = scopes.find(db, scope)
            fresh = [each for each in ready if row is None or not self._is_known(db, row, each[1][-1])]
            self._counts.known["facts"] += len(ready) - len(fresh)
            if not fresh:
                return
            row = row or scopes.intern(db, scope)
            batch = batches.insert(db, row.id, "done", instants.now())
            for _, versions in fresh:
                self._store(db, row, batch, versions)

    def _store(self, db: apsw.Connection, scope: StoredScope, batch: Batch, versions: Sequence[facts.NewFact]) -> None:
        """Store a fact behind what it said before: each in the place of the one before it."""
        before: tuple[int, ...] = ()
        for number, fact in enumerate(versions):
            if self._is_known(db, scope, fact):
                if number == len(versions) - 1:  # another fact of this import says the same
                    self._counts.known["facts"] += 1
                continue
            learnt = Learnt()
            # Without vectors: `work` makes them all, and an import needs no model.
            candidate = Candidate(fact, before, ())
            learn.store(db, scope, batch.id, [candidate], learnt, Embedded({}, {}, b""), "import", across_runs=False)
            before = tuple(learnt.facts) or before
            kind = "facts" if number == len(versions) - 1 else "earlier texts of facts"
            (self._counts.added if learnt.facts else self._counts.known)[kind] += 1

    @staticmethod
    def _is_known(db: apsw.Connection, scope: StoredScope, fact: facts.NewFact) -> bool:
        """Whether a fact was imported before, whatever has become of it, or is current under another id."""
        return facts.by_uid(db, fact.uid) is not None or facts.twin(db, scope.id, fact.text) is not None

    def _read(self, source: str, scope: Scope, item: Statement) -> list[facts.NewFact]:
        """A fact and its earlier texts as they are stored, the oldest first; none where the fact cannot be used."""
        found: list[facts.NewFact] = []
        given = [*item.before, item.fact]
        for number, each in enumerate(given):
            try:
                (ready,) = remembered.read(
                    {**each, "text": self._clean(str(each["text"]))},
                    observed=instants.read(self._target.modified, self._target.zone, "the file's time"),
                    zone=self._target.zone,
                    kind="",
                    metadata=filters.check_metadata({"source": source}),
                    expires_at=None,
                )
            except InvalidInputError as error:
                self._leave(LeftOut(item.place, str(error)))
                if number == len(given) - 1:
                    return []
                continue
            version = "" if number == len(given) - 1 else f"@{number}"
            found.append(replace(ready.fact, uid=_uid(source, scope, item, version)))
        return found

    # -- memlite's own export ----------------------------------------------------------------------

    def _embedder(self, head: exported.Head) -> vectors.Identity | None:
        """The embedder under which the vectors of an export are stored; None where they are left out."""
        if head.embedder is None or self._target.dry_run:
            return None
        if self._target.database.vectors_off:
            self._refused.add(f"its vectors were left out: {self._target.database.vectors_off}")
            return None
        with self._target.database.write() as db:
            there = vectors.identity(db)
            if there is None:
                vectors.create(db, head.embedder)
                if head.scale:
                    vectors.calibrate(db, head.embedder, head.scale)
                return head.embedder
        try:
            compare(there, head.embedder)
        except EmbedderMismatchError:
            self._refused.add(
                f"its vectors were left out: they are of {head.embedder.name}, and those here of {there.name}; "
                "`memlite work` makes them"
            )
            return None
        return there

    def _records(self, restoring: exported.Restoring, chunk: Sequence[exported.Record]) -> None:
        if self._target.dry_run:
            with self._target.database.read() as db:
                for record in chunk:
                    known = exported.is_there(db, record)
                    (self._counts.known if known else self._counts.added)[_plural(record.kind)] += 1
            return
        with self._target.database.write() as db:
            for record in chunk:
                try:
                    with db:  # a part of the transaction
                        outcome = restoring.store(db, record)
                except InvalidInputError as error:
                    self._leave(LeftOut(record.place, str(error)))
                else:
                    (self._counts.added if outcome == "added" else self._counts.known)[_plural(record.kind)] += 1
                    for problem in restoring.problems:
                        self._leave(problem)
                restoring.problems.clear()
            restoring.store_vectors(db)

    # -- telling -----------------------------------------------------------------------------------

    def _leave(self, left: LeftOut) -> None:
        left = replace(left, place=self._clean(left.place), reason=self._clean(left.reason))
        if left.count:
            self._counts.reasons[_without_values(left.reason)] += left.count
        if len(self._counts.left_out) < MOST_SHOWN:
            self._counts.left_out.append(left)
        self._target.skipped(left)

    def _progress(self) -> None:
        """Tell once a second how far it is."""
        if time.monotonic() - self._told >= 1:
            self._told = time.monotonic()
            done = ", ".join(f"{count} {kind}" for kind, count in self._counts.added.items() if count)
            self._target.tell(f"{self._target.reading.estimate()}{done or 'nothing new yet'}")

    @staticmethod
    def _clean(text: str) -> str:
        """A text without halves of surrogate pairs, which no file can hold."""
        return _HALVES.sub("\ufffd", text)


def exchanges(said: Sequence[NewMessage]) -> list[list[NewMessage]]:
    """A conversation in pieces that are learnt from together: what a user says and what is answered to it.

    Of a talk among people, in which nobody answers as an assistant, two messages each.
    """
    talk = all(message.role == "user" for message in said)
    found: list[list[NewMessage]] = []
    for message in said:
        last = found[-1] if found else None
        answered = last and any(each.role == "assistant" for each in last)
        begins = len(last) >= 2 if talk and last else message.role == "user" and answered
        if last is None or begins or len(last) >= _LONGEST_EXCHANGE:
            found.append([message])
        else:
            last.append(message)
    return found


def _uid(source: str, scope: Scope, item: Statement, version: str) -> str:
    """The id of an imported fact: the same for the same one, so that it is stored once. Where the source's is a UUID,
    and the fact stays whose it was, it is that one: programs have it.
    """
    if not version and item.scope == scope.given():
        with contextlib.suppress(ValueError):
            return uuid.UUID(item.id).hex
    parts = (source, scope.user_id, scope.agent_id, scope.run_id, item.id + version)
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "replace")).hexdigest()[:32]


def _plural(kind: str) -> str:
    return {"batch": "batches", "entity": "entities"}.get(kind, f"{kind}s")


def _without_values(reason: str) -> str:
    """A reason without what it says of one case, so that equal ones are counted together."""
    return re.sub(r"\b[0-9a-f]{32}\b|'[^']*'|\"[^\"]*\"|\b\d+\b", "…", reason)[:160]
