"""Memory: the verbs. Each reads like the README; the work is done one layer down."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, tzinfo
from pathlib import Path
from types import EllipsisType, TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal

import apsw

from memlite import (
    arguments,
    backup,
    batches,
    cipher,
    context,
    conversation,
    dates,
    deletion,
    entities,
    facts,
    filters,
    forget,
    former,
    history,
    ids,
    instants,
    interruption,
    learn,
    lifecycle,
    messages,
    prune,
    rank,
    recalled,
    reextract,
    remembered,
    repair,
    rerank,
    rewording,
    rewrite,
    scopes,
    search,
    ttls,
    vectors,
    why,
)
from memlite.db import Database
from memlite.deletion import Deleting, Place
from memlite.errors import EmbedderMismatchError, InvalidInputError, ModelError, ModelMissingError, excerpt
from memlite.forget import Deletion
from memlite.learn import Learnt, timed
from memlite.places import default_path
from memlite.records import (
    AddResult,
    Audit,
    AuditKind,
    Context,
    DeletionPreview,
    Diff,
    Entity,
    Event,
    Exported,
    Extractor,
    Fact,
    FileCheck,
    Finding,
    Fixed,
    FoundDate,
    Hits,
    Imported,
    LeftOut,
    Matching,
    Message,
    NamedEntity,
    Page,
    Pruned,
    Queued,
    Receipt,
    Reextracted,
    Repaired,
    Scope,
    Skipped,
    Stats,
    Ttl,
    Undone,
    Why,
    WorkResult,
)
from memlite.search import Asked
from memlite.semantic import Semantic
from memlite.words import Query, digest, fold, read_query

if TYPE_CHECKING:
    from memlite import embed, extract
    from memlite.audit.findings import Found

Instant = datetime | date | str

EXTRACTION_OFF = (
    "no extractor was found, so no facts are learnt; `memlite models pull default` gets one, "
    "`memlite work` then learns from what is queued"
)
_SWITCHED_OFF = (
    "extraction is switched off (extractor=False, or MEMLITE_EXTRACTOR=off in the environment); switched on, "
    "`memlite work` learns from what is queued"
)
HIDDEN = ", and hidden, for its add was undone, or by a fix of an audit; `memlite undo` of that brings it back"
_END = 1000  # characters; two such ends are more than the 256 tokens that the default embedder reads at a time
_RERANKED = "the reranker orders the hits by its own scores; half_life told only which of them it reads"
_EXTRACT = ("now", "later", "never")
_NO_VECTORS = "this file has no vectors yet, so nothing is found by meaning; `memlite work` makes them"


class Memory:
    """One SQLite file of messages, facts and entities.

    path: the file, made if it is missing; by default `memory.db` in the platform's data folder, ":memory:" for
    none. key: a text or bytes that encrypts the whole of a new file, or that of an encrypted one; None for what
    MEMLITE_KEY has, if anything (`memlite.rekey` changes it). embedder: a GGUF file, "sentence-transformers/NAME", an
    object with `embed`, None for the one that `memlite models` shows, False for none. extractor: likewise a GGUF chat
    model, or an object with `extract` (a `memlite.extract.GGUFExtractor`, which can ask for doubtful facts again).
    reranker: the folder of a sentence-transformers cross-encoder, a GGUF reranker, or an object with `scores`, that
    orders the best hits of a search; None for none. rewriter: a GGUF chat model, or an object with `rewrite`, that adds
    words to every query; None for none. timezone: of naive times, an IANA name or a tzinfo; by default the machine's.
    n_threads: for all models. lease_seconds: how long a worker may take for one batch before another may try.
    min_confidence: 0 to 1, the mean probability of a fact's words below which it is skipped; 0 keeps all.

    Usable from any thread and after a fork. Raises FileError where the file cannot be used
    (WrongKeyError: not with this key, or with none) and ModelError where a model that was asked for cannot.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        key: str | bytes | None = None,
        embedder: embed.Choice = None,
        extractor: extract.Choice = None,
        reranker: rerank.Choice = None,
        rewriter: rewrite.Choice = None,
        timezone: str | tzinfo | None = None,
        n_threads: int = 1,
        lease_seconds: float = 600.0,
        min_confidence: float = 0.0,
    ) -> None:
        self._zone = arguments.zone(timezone)
        self._lease_ms = arguments.milliseconds("lease_seconds", lease_seconds)
        self._min_confidence = arguments.probability("min_confidence", min_confidence)
        n_threads = arguments.threads(n_threads)
        self._reranker = rerank.open_reranker(reranker, n_threads=n_threads)
        self._rewriter = rewrite.open_rewriter(rewriter, n_threads=n_threads)
        where = path if path is not None else default_path()
        self._database = Database(where, _key(where, key))
        try:
            self._semantic = Semantic(self._database, embedder, n_threads)
            self._extractor = _open_extractor(extractor, n_threads)
        except BaseException:
            self._database.close()
            raise
        self._extraction_off = _SWITCHED_OFF if _is_off(extractor) else EXTRACTION_OFF
        self._bound: Scope | None = None

    # -- writing ---------------------------------------------------------------------------------

    def add(
        self,
        messages: conversation.Given,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        kind: str | None = None,
        observed_at: Instant | None = None,
        metadata: Mapping[str, Any] | None = None,
        extract: Literal["now", "later", "never"] = "now",
        instructions: str | None = None,
        expires_at: Instant | None = None,
    ) -> AddResult:
        """Store messages at once, then learn facts and entities from them.

        messages: a text, a message or a list (see `conversation.read`). At least one id says whose memory this
        is. kind: a name for the facts ("procedural", ...). observed_at: when it was said, now by default.
        extract: "now" waits for the model, "later" leaves it to `work()`, "never" stores only. instructions:
        what to look for. expires_at: when the facts stop counting.

        A failing model does not lose the messages: the status is then "queued" and `reason` says why. What memlite had
        recalled in them, lines of `context` or facts word for word, is skipped, and not searched (see `recalled`).
        Raises InvalidInputError before anything is stored.
        """
        scope = self._ids(user_id, agent_id, run_id)
        _check_extract(extract)
        observed = self._instant(observed_at, "observed_at") or (instants.now(), arguments.local_offset(self._zone))
        new = conversation.read(messages, observed, self._zone)
        expires = self._instant(expires_at, "expires_at")
        timings: dict[str, float] = {}
        with timed(timings, "store"):
            batch, stored, repeated = self._append(
                scope,
                new,
                filters.check_metadata(metadata),
                waits=extract != "never",
                kind=arguments.text("kind", kind),
                instructions=arguments.text("instructions", instructions),
                expires_at=expires[0] if expires else None,
            )
        learnt, reason = Learnt(skipped=repeated, timings=timings), None
        try:
            if extract != "later":
                with timed(timings, "embed_messages"):
                    self._semantic.catch_up("message", [id_ for id_, _ in stored])
            if extract == "now":
                reason = self._learn_now(batch.id, learnt)
        except ModelError as error:  # the messages are stored: the result says what is missing
            reason = str(error)
        return self._result(batch, learnt, [uid for _, uid in stored], reason)

    def remember(
        self,
        facts: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]],
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        kind: str | None = None,
        observed_at: Instant | None = None,
        metadata: Mapping[str, Any] | None = None,
        expires_at: Instant | None = None,
    ) -> AddResult:
        """Store facts the caller already knows; no model reads them. All of them, or none.

        facts: texts, or dicts with "text" and any of entities (names, or dicts with name, type and aliases), event,
        by, kind, metadata, observed_at, valid_from, valid_to, expires_at, confidence, replaces and continues (ids of
        facts), source (ids of messages).
        event: when it happens, as "2025-05-11", "2025-05", "2025" or "first/last" of these, as a date in words with its
        year ("summer 2024", "14 June 2025", in ten languages), or "around" any of them; by default the days that the
        text names. valid_from: from when on it is true, by default from when it was observed on, or the first day of an
        event before that. valid_to: until when it was, for what is over: it is stored as past.
        Names are found by rule where no entities are given. Of a fact and what it replaces the one that was said last
        counts: an older one is stored as past, true until the newer one began.
        Raises InvalidInputError for a fact that cannot be used, NotFoundError for an id that is not in scope.
        """
        scope = self._ids(user_id, agent_id, run_id)
        observed = self._instant(observed_at, "observed_at") or (instants.now(), arguments.local_offset(self._zone))
        expires = self._instant(expires_at, "expires_at")
        given = remembered.read(
            facts,
            observed=observed,
            zone=self._zone,
            kind=arguments.text("kind", kind),
            metadata=filters.check_metadata(metadata),
            expires_at=expires[0] if expires else None,
        )
        learnt = Learnt()
        with self._database.read() as db:
            # What a fact replaces may have been learnt in another run of the same root.
            place = _within(scopes.reach(db, self._bound or scopes.root_of(scope)))
            candidates = [
                fact.candidate(
                    lambda id_: self._find_fact(db, id_, place),
                    lambda id_: self._find_message(db, id_, place),
                )
                for fact in given
            ]
        with timed(learnt.timings, "embed"):
            made = learn.embed_candidates(self._semantic, candidates)
        with timed(learnt.timings, "write"), self._database.write() as db:
            stored = scopes.intern(db, scope)
            batch = batches.insert(db, stored.id, "done", instants.now())
            learn.store(db, stored, batch.id, candidates, learnt, made, "caller", across_runs=False)
        return self._result(batch, learnt, [], None)

    def update(
        self,
        id: str,
        *,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        kind: str | None = None,
        expires_at: Instant | EllipsisType | None = ...,
        event: str | EllipsisType | None = ...,
    ) -> Fact:
        """Change a fact under its id; what is not given stays. Earlier texts are kept in the file's history.

        A text that is given has neither model nor confidence; its event is on the days that it names, or the same days
        where they still stand in it. event: other days, as in `remember`; None for none. metadata replaces the whole of
        it; expires_at=None takes the expiry away.
        Raises NotFoundError, and InvalidInputError for an empty text or one that another fact already has.
        """
        if text is not None:
            text = remembered.fact_text(text, "the update")
        expires = None if expires_at is ... else self._instant(expires_at, "expires_at")
        with self._database.read() as db:
            row_id = self._find_fact(db, id, self._place(db))
            before = self._facts(db, [row_id])[0]
        change = rewording.Change(
            text=text,
            metadata=None if metadata is None else filters.check_metadata(metadata),
            kind=None if kind is None else arguments.text("kind", kind),
            expires=None if expires_at is ... else (expires[0] if expires else None, None),
            entities=() if text is None else _names_in(text, before.entities),
            by_hand=True,
            event=event if event is None or event is ... else remembered.event(event, "the update", self._now()),
        )
        new = facts.NewFact(text or before.text, observed_at=0, entities=change.entities)
        made = learn.embed_candidates(self._semantic, [learn.Candidate(new)] if text else [])
        with self._database.write() as db:
            self._find_fact(db, before.id, self._place(db))  # it may have been deleted meanwhile
            rewording.rewrite(db, row_id, change, made, zone=self._zone)
        with self._database.read() as db:
            return self._facts(db, [row_id])[0]

    def import_file(
        self,
        path: str | Path,
        source: str = "auto",
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        extract: Literal["now", "later", "never"] = "later",
        dry_run: bool = False,
        progress: Callable[[str], None] | None = None,
        skipped: Callable[[LeftOut], None] | None = None,
    ) -> Imported:
        """Bring in what another program, or another memlite, has kept; the same import again adds nothing.

        path: a file, a zip or a folder. source: "chatgpt", "claude", "librechat", "mcp-memory", "mem0", "jsonl",
        "text", "memlite" (what `export` wrote), or "auto": what is in the file tells. Each conversation becomes a run
        under its own id, unless a run_id is given, and its messages keep their dates. The ids that are given say whose
        memory it becomes; a memory of mem0 keeps those it has beside them, and memlite's own export all of its.
        extract: as in `add`; "later" by default, for years of talk take hours: `work` does it. What is imported has no
        vectors before that. dry_run: only tell what would be added. progress: told how far it is; skipped: told of
        everything that is left out, with its place and the reason. A malformed part does not stop the rest; an import
        that was stopped goes on where it was when it is started again.
        Raises InvalidInputError for what is of no such source, FileError where it cannot be read.
        """
        _check_extract(extract)
        from memlite import imports  # here, for few processes import anything

        given = any(each is not None for each in (user_id, agent_id, run_id))
        scope = self._ids(user_id, agent_id, run_id) if given or self._bound else Scope()

        def append(
            of: Scope, said: Sequence[messages.NewMessage], metadata: str
        ) -> tuple[batches.Batch, list[tuple[int, str]], list[Skipped]]:
            waits = extract != "never"
            return self._append(of, said, metadata, waits=waits, kind="", instructions="", expires_at=None)

        def learn_from(batch_id: int, rows: Sequence[int]) -> tuple[int, str | None]:
            learnt = Learnt()
            try:
                self._semantic.catch_up("message", rows)
                reason = self._learn_now(batch_id, learnt)
            except ModelError as error:
                reason = str(error)
            return len(learnt.facts), reason

        return imports.bring(
            Path(path).expanduser(),
            source,
            self._database,
            whose=scope,
            bound=self._bound,
            zone=self._zone,
            dry_run=dry_run,
            append=append,
            learn=learn_from if extract == "now" else None,
            progress=progress or (lambda line: None),
            skipped=skipped or (lambda left: None),
        )

    def export(
        self,
        target: str | Path | IO[bytes],
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        format: Literal["jsonl", "markdown"] = "jsonl",
        vectors: bool = False,
        messages: bool = True,
    ) -> Exported:
        """Write the whole file, or a scope of it, to one file that another memlite can import, or that people can read.

        target: a path, or an open binary stream. A file is written beside its name and then given it, readable by its
        owner alone, so that it is whole or not there. "jsonl" has everything that was said and learnt, past and hidden,
        with its history (docs/export.md); imported and exported again it is the same bytes. vectors: those as well.
        "markdown" has the facts by scope, each before what it replaced; messages=False leaves the conversations out.
        All of it is of one moment, while others go on writing. Raises InvalidInputError, FileError.
        """
        if format not in ("jsonl", "markdown"):
            raise InvalidInputError(f"format is {format!r}, expected jsonl or markdown.")
        if format == "jsonl" and not messages:
            raise InvalidInputError(
                "messages=False is for Markdown: facts without their messages would lose their sources."
            )
        if format == "markdown" and vectors:
            raise InvalidInputError("vectors=True is for jsonl; nobody reads them.")
        if vectors and self._database.vectors_off:
            raise ModelMissingError(f"the vectors cannot be read: {self._database.vectors_off}")
        from memlite import exports, readable  # here, as in `import_file`

        given = any(each is not None for each in (user_id, agent_id, run_id))
        scope = self._ids(user_id, agent_id, run_id) if given else self._bound
        counts: dict[str, int] = {}
        with self._database.read() as db:
            place = _within(scopes.reach(db, scope)) if scope else None
            if format == "markdown":
                lines = readable.lines(db, place, with_messages=messages, counts=counts)
            else:
                lines = exports.lines(db, place, with_vectors=vectors, counts=counts)
            if isinstance(target, (str, Path)):
                exports.write(Path(target), lines)
            else:
                exports.write_to(target, lines)
        return Exported(str(target) if isinstance(target, (str, Path)) else None, format, counts)

    def set_ttl(
        self,
        ttl: timedelta | float | None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        kind: str | None = None,
        existing: bool = False,
    ) -> int:
        """Say how long facts count that are stored from now on, learnt and remembered ones, after they were last said.

        ttl: a timedelta or days, None takes the rule away. It is for the facts of every scope that has these ids, and
        of this kind; what is not given, it is for all. Of several rules the one with more ids holds, then the one for
        the kind, then the shorter one, and above all an `expires_at` that a caller gives. A fact that is said again
        counts for so long from then on. existing: also for facts that are stored already, but for those whose expiry
        was given; returns how many of them it changes. Raises InvalidInputError.
        """
        given = any(each is not None for each in (user_id, agent_id, run_id))
        scope = self._ids(user_id, agent_id, run_id) if given else self._bound
        name = arguments.text("kind", kind)
        milliseconds = None if ttl is None else arguments.duration("ttl", ttl)
        with self._database.write() as db:
            ttls.put(db, scopes.intern(db, scope).id if scope else None, name, milliseconds)
            place = _within(scopes.reach(db, scope)) if scope else ("1", ())
            return rewording.apply_ttls(db, name, *place) if existing else 0

    def work(self, limit: int | None = None, progress: Callable[[str], None] | None = None) -> WorkResult:
        """Drain the queue: extract every waiting batch once, oldest first, then embed what has no vector.

        limit: at most so many batches. progress: called with a line after each step. Safe to run in several
        processes: each batch is extracted once. A batch that fails stays queued with the reason.
        """
        tell = progress or (lambda line: None)
        done = found = skipped = 0
        failures: list[str] = []
        notes: dict[str, None] = {}
        tried: list[int] = []
        made = self._semantic.complete()
        while self._extractor is not None and (limit is None or len(tried) < limit):
            worker = batches.worker_name()
            batch = self._claim(worker, leave=tried)
            if batch is None:
                break
            tried.append(batch.id)
            learnt = Learnt()
            try:
                error = self._learn_claimed(batch, worker, learnt)
            except learn.ClaimLostError:  # another worker has it; its facts count
                continue
            if error:
                failures.append(f"{batch.uid}: {error}")
            else:
                done, found, skipped = done + 1, found + len(learnt.facts), skipped + len(learnt.skipped)
                notes |= dict.fromkeys(learnt.notes)
            tell(f"batch {len(tried)}: {error or f'{len(learnt.facts)} fact(s)'}")
        made += self._semantic.complete()
        with self._database.read() as db:
            waiting = batches.queued(db, *self._place(db))
        notes |= dict.fromkeys(self._notes(bool(waiting)))
        return WorkResult(done, found, skipped, made, len(waiting), tuple(failures), tuple(notes))

    def reembed(self, progress: Callable[[int], None] | None = None) -> int:
        """Make all vectors of the file anew with this embedder; return how many.

        Those that are there answer meanwhile, for whoever has their embedder, until the new ones take their place at
        once. Stopped half way, the next call goes on. progress is told how many are made.
        """
        self._whole_file("reembed")
        return self._semantic.rebuild(progress)

    def rollback_reembed(self) -> str:
        """Let the vectors answer again that the last `reembed` replaced, or give one up that was stopped half way.

        Returns the name of the embedder that answers then.

        What was stored since then gets its vector from that embedder, by `work`. Called again, it goes forward again.
        Raises InvalidInputError where there are none: `compact` gives their space back.
        """
        self._whole_file("rollback_reembed")
        return self._semantic.roll_back()

    def reextract(self, limit: int | None = None, progress: Callable[[str], None] | None = None) -> Reextracted:
        """Learn again from all messages that were learnt from by another model or prompt than the one that is here.

        What counts goes on counting until every batch has been extracted; then the facts change in one transaction:
        in other words under the same id, new ones, and archived those that are not found again. What was replaced,
        archived, undone, changed by hand or deleted stays so. Stopped half way, or after `limit` batches, the next
        call goes on. `undo` of each of the result's batches takes it back.
        Raises ModelMissingError where there is no extractor.
        """
        if self._extractor is None:
            raise ModelMissingError(self._extraction_off)
        count = None if limit is None else arguments.count("limit", limit)
        with self._database.read() as db:
            place = self._place(db)
        done = reextract.run(
            self._database,
            self._semantic,
            self._extractor,
            place,
            self._min_confidence,
            self._zone,
            count,
            progress or (lambda line: None),
        )
        self._semantic.catch_up("fact", done.changes.changed)
        with self._database.read() as db:
            changes = done.changes
            return Reextracted(
                batches=tuple(each.uid for each in changes.batches),
                extracted=done.extracted,
                waiting=done.waiting,
                added=tuple(self._facts(db, changes.added)),
                changed=tuple(self._facts(db, changes.changed)),
                archived=tuple(self._facts(db, changes.archived)),
                kept=changes.kept,
                failures=tuple(done.failures),
                notes=self._notes(False),
            )

    def compact(self) -> None:
        """Rebuild the word indexes, in the format SQLite before 3.42 reads as well, and give free space back.

        The vectors that the last `reembed` replaced go.
        """
        self._whole_file("compact")
        with self._database.write() as db:
            vectors.drop(db, "previous")
        self._database.compact()

    def repair(self, *, dry_run: bool = False, progress: Callable[[str], None] | None = None) -> Repaired:
        """Make anew what is derived and out of step with facts and messages: words, vectors, flags, references to rows
        that are gone. What people said is never changed.

        dry_run: only look. progress: told each step. Stopped half way, the next call does the rest. Raises
        DamagedFileError where the pages of the file are damaged, and leaves it as it is: `memlite.salvage.salvage`
        saves what can be read of it.
        """
        self._whole_file("repair")
        found = repair.look(self._database)
        if dry_run:
            return Repaired(found, found, 0, self._notes(False))
        repair.mend(self._database, progress or (lambda line: None))
        made, notes = 0, self._notes(False)
        try:
            made = self._semantic.complete()
        except ModelError as error:  # all else is mended, and words answer meanwhile
            notes += (str(error),)
        return Repaired(found, repair.look(self._database), made, notes)

    def backup(
        self,
        path: str | Path,
        *,
        replace: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> FileCheck:
        """Copy the whole file as it is now to a path, while others go on writing, and check the copy.

        The copy is called PATH.partial until it was found whole, and goes where this is stopped or fails; only its
        owner may read it. replace: it may take the place of an earlier backup of this file, and of nothing else.
        progress: told the bytes copied and all of them, every 4 MB. Faults that the file itself has are told in the
        result. What is deleted later stays in it. Raises InvalidInputError for a path that cannot be or is taken, and
        FileError where it cannot be written.
        """
        self._whole_file("backup")
        return backup.write(self._database, Path(path), over=replace, progress=progress or (lambda done, of: None))

    def archive(self, id: str, *, reason: str | None = None) -> Fact:
        """Hide a fact from every search, and its messages where they say nothing else; `restore` brings it back.

        reason: for the history. Raises NotFoundError.
        """
        why_ = arguments.text("reason", reason)
        with self._database.write() as db:
            row_id = self._find_fact(db, id, self._place(db))
            lifecycle.archive(db, row_id, lifecycle.Step(instants.now(), "caller", why_))
            return self._facts(db, [row_id])[0]

    def restore(self, id: str, *, reason: str | None = None) -> Fact:
        """Bring an archived fact back as it was; reopen one that was replaced or has expired. Returns what counts now.

        That is another fact where a current one says the same: it takes over the sources. One that has expired
        comes back without its expiry. Raises NotFoundError.
        """
        why_ = arguments.text("reason", reason)
        if self._semantic.begun():
            self._semantic.embed([self.get(id).text])  # an embedder that fails does so before anything has changed
        with self._database.write() as db:
            row_id = self._find_fact(db, id, self._place(db))
            row_id = lifecycle.restore(db, row_id, lifecycle.Step(instants.now(), "caller", why_))
        self._semantic.catch_up("fact", [row_id])
        with self._database.read() as db:
            return self._facts(db, [row_id])[0]

    def undo(self, batch: str) -> Undone:
        """Undo everything one `add`, `remember` or `fix` wrote; its result names the batch. An undo can be undone too.

        What the batch added is hidden, its messages too; what it replaced counts again, unless something newer has
        replaced it. What was deleted stays deleted. Raises NotFoundError, and InvalidInputError where it is undone
        already.
        """
        with self._database.write() as db:
            found = ids.find(db, "batches", arguments.id_prefix(batch), *self._place(db))
            row_id, uid = arguments.only(batch, "batch", found)
            reword = functools.partial(rewording.reword, db)
            new, changed = lifecycle.undo(db, row_id, instants.now(), "caller", reword)
        notes = self._notes(False)
        try:
            self._semantic.catch_up("fact", changed.restored)
            self._semantic.catch_up("message", changed.messages_restored)
            self._semantic.catch_up("entity")
        except ModelError as error:  # what came back is found by its words; `work` makes the vectors
            notes += (str(error),)
        with self._database.read() as db:
            return Undone(
                batch=new.uid,
                undid=uid,
                archived=tuple(fact.id for fact in self._facts(db, changed.archived)),
                restored=tuple(fact.id for fact in self._facts(db, changed.restored)),
                messages_archived=tuple(m.id for m in messages.fetch(db, changed.messages_archived).values()),
                messages_restored=tuple(m.id for m in messages.fetch(db, changed.messages_restored).values()),
                notes=notes,
                entities=tuple(changed.entities),
            )

    def delete(self, id: str, *, keep_messages: bool = False) -> Receipt:
        """Delete a fact, a message or an entity for good: text, words, vectors, mentions, history text.

        A fact takes the messages with it that it was learnt from, or that repeat it as memlite had recalled it, unless
        keep_messages; a message takes the facts that have no other source or quote it; an entity takes every fact that
        mentions it, as if each were deleted, and what only has its name stays: the receipt tells of it. An identifier
        and a time stay in the history. Raises NotFoundError.
        """
        return self._deleting().forget(lambda db: self._deletion(db, id, keep_messages))

    def preview_delete(self, id: str, *, keep_messages: bool = False) -> DeletionPreview:
        """What `delete` would take with it. Raises NotFoundError."""
        with self._database.read() as db:
            return self._deleting().preview(db, self._deletion(db, id, keep_messages))

    def delete_query(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        limit: int = 10,
        floor: float = 1.0,
        keep_messages: bool = False,
    ) -> Receipt:
        """Delete for good what says all words of a query: current and past facts, and messages, with what `delete` of
        each takes.

        No model chooses: the words are compared as the index has them, so that "likes" is "like", and words such as
        "the" do not count. floor: the share of the words that is enough, in [0, 1]; 0 is any of them. limit: at most so
        many, those with the most words first. Raises InvalidInputError.
        """
        seen, choose = self._choosing(query, self._ids(user_id, agent_id, run_id), limit, floor, keep_messages)
        return seen._deleting().forget(lambda db: choose(db)[0])

    def preview_delete_query(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        limit: int = 10,
        floor: float = 1.0,
        keep_messages: bool = False,
    ) -> DeletionPreview:
        """What `delete_query` would take, and by which words; also the nearest of what has too few of them."""
        seen, choose = self._choosing(query, self._ids(user_id, agent_id, run_id), limit, floor, keep_messages)
        with self._database.read() as db:
            chosen, matching = choose(db)
            return dataclasses.replace(seen._deleting().preview(db, chosen), matching=matching)

    def _choosing(
        self, query: str, scope: Scope, limit: int, floor: float, keep_messages: bool
    ) -> tuple[Memory, Callable[[apsw.Connection], tuple[Deletion, Matching]]]:
        """A handle that sees the scope, and what chooses there."""
        if not isinstance(query, str):
            raise InvalidInputError(f"query is a {type(query).__name__}, expected a text.")
        count, least = arguments.count("limit", limit), arguments.probability("floor", floor)
        return self.scope(**scope.given()), lambda db: deletion.of_query(
            db, scopes.reach(db, scope), query, count, least, keep_messages
        )

    def preview_delete_all(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        everything: bool = False,
    ) -> DeletionPreview:
        """What `delete_all`, or `reset`, would take with it."""
        with self._database.read() as db:
            return self._deleting().preview(db, self._whole(db, self._emptied(user_id, agent_id, run_id, everything)))

    def delete_all(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        everything: bool = False,
    ) -> Receipt:
        """Delete every fact and message of a scope for good, the queued ones too, and the rules of `set_ttl` for it.

        everything: of the whole file, or of the scope that this handle is bound to, and no ids. The users, agents and
        runs under which nothing else is stored are forgotten as well; their history has random numbers in their place.
        """
        scope = self._emptied(user_id, agent_id, run_id, everything)
        return self._deleting().forget(lambda db: self._whole(db, scope))

    def reset(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        everything: bool = False,
    ) -> Receipt:
        """Empty a scope, or everything, to begin anew: another name of `delete_all`."""
        return self.delete_all(user_id=user_id, agent_id=agent_id, run_id=run_id, everything=everything)

    def _emptied(self, user_id: str | None, agent_id: str | None, run_id: str | None, everything: bool) -> Scope | None:
        """The scope that is to be emptied; None is all that this handle sees."""
        if everything and any(each is not None for each in (user_id, agent_id, run_id)):
            raise InvalidInputError("everything=True takes no ids: it is the whole file, or all that this handle sees.")
        return None if everything else self._ids(user_id, agent_id, run_id)

    def _whole(self, db: apsw.Connection, scope: Scope | None) -> Deletion:
        return forget.of_everything(db, *(self._place(db) if scope is None else _within(scopes.reach(db, scope))))

    def prune(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        expired: bool = False,
        replaced_for: timedelta | None = None,
        unconfirmed_for: timedelta | None = None,
        messages_older_than: timedelta | None = None,
        most_facts: int | None = None,
        dry_run: bool = True,
    ) -> Pruned:
        """Delete for good what has had its time, by the rules that are given; a dry run shows it only.

        Of the scope, or of the whole file. expired: facts whose time is over. replaced_for: facts that were replaced so
        long ago. unconfirmed_for: current facts that nobody has said, restored or given another text or expiry for so
        long. messages_older_than: what was said so long ago and is extracted; its facts stay. most_facts: those beyond
        so many current ones in one scope, confirmed longest ago. A fact takes its messages along, for they would bring
        it back. Raises InvalidInputError.
        """
        rules = prune.Rules(
            expired=expired,
            replaced=arguments.age("replaced_for", replaced_for),
            unconfirmed=arguments.age("unconfirmed_for", unconfirmed_for),
            messages=arguments.age("messages_older_than", messages_older_than),
            most=None if most_facts is None else arguments.count("most_facts", most_facts, arguments.MOST_KEPT),
        )
        if rules == prune.Rules():
            raise InvalidInputError("prune was given no rule; it chooses nothing by itself.")
        given = any(each is not None for each in (user_id, agent_id, run_id))
        scope = self._ids(user_id, agent_id, run_id) if given else self._bound
        now = instants.now()
        with self._database.read() if dry_run else self._database.write() as db:
            place = _within(scopes.reach(db, scope)) if scope else ("1", ())
            chosen = prune.choose(db, rules, now, *place)
            shown = self._deleting().preview(db, chosen.deletion)
            ids: dict[str, tuple[str, ...]] = {}
            for rule, rows in chosen.by_rule.items():
                read = messages.fetch(db, rows) if rule == "messages" else facts.fetch(db, rows, {})
                ids[rule] = tuple(record.id for record in read.values())
            gone = None if dry_run else self._deleting().carry_out(db, chosen.deletion, "prune")
        receipt = None if gone is None else self._deleting().receipt(gone)
        return Pruned(shown.facts, shown.messages, ids, receipt)

    def audit(
        self,
        kinds: str | Collection[str] | None = None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
    ) -> Audit:
        """What is wrong with a scope, or with the whole file, as far as rules can tell. Nothing is changed.

        kinds: any of "near-duplicates" (current facts of one root that say the same), "contradictions" (of which only
        one can be so), "sourceless" (learnt, with no message left, though none was deleted), "restated" (learnt from a
        system message, or from what memlite had recalled), "orphans" (rows that have lost what they belong to; of the
        whole file only), "entities" (that look like one), "vectors" (missing, out of step or of another model) and
        "secrets" (keys, card numbers, passwords); None is all. Entities belong to a user and agent, and are left out
        for one run of these.
        Raises InvalidInputError.
        """
        chosen, scope = self._audited(kinds, user_id, agent_id, run_id)
        found = self._look(chosen, scope)
        return Audit(tuple(each.finding for each in found), chosen, self._notes(False) if "vectors" in chosen else ())

    def preview_fix(
        self,
        what: str | Finding | Collection[str | Finding],
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
    ) -> tuple[Finding, ...]:
        """The findings that `fix` would put right. Raises InvalidInputError and NotFoundError."""
        _, scope = self._audited(None, user_id, agent_id, run_id)
        return tuple(each.finding for each in self._chosen(what, scope))

    def fix(
        self,
        what: str | Finding | Collection[str | Finding],
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
    ) -> Fixed:
        """Put right what `audit` finds: all of a kind, or single findings, by their ids or as they are.

        Each finding says in `fix` what is done. Facts and messages are archived or replaced, never deleted, and
        entities are merged only where they are asked for here; `undo` of each of the result's batches takes it back.
        What is derived, orphans and vectors, is made anew. Raises InvalidInputError and NotFoundError.
        """
        from memlite.audit import fixes  # here, as in `_look`

        _, scope = self._audited(None, user_id, agent_id, run_id)
        return fixes.put_right(self._database, self._semantic, self._chosen(what, scope), scope)

    def _look(self, kinds: Sequence[AuditKind], scope: Scope | None) -> list[Found]:
        from memlite import audit  # here, for its rules take as long to compile as all else takes to import

        return audit.look(self._database, self._semantic, kinds, scope)

    def _chosen(self, what: str | Finding | Collection[str | Finding], scope: Scope | None) -> list[Found]:
        """The findings of a scope that a fix is asked for."""
        kinds, wanted = arguments.fixes(what)
        asked = arguments.kinds(kinds or None, of_scope=scope is not None)
        found = self._look(arguments.kinds(None, of_scope=scope is not None) if wanted else asked, scope)
        ids_ = [(number, each.finding.id) for number, each in enumerate(found)]
        named = {
            arguments.only(id_, "finding", [each for each in ids_ if each[1].startswith(id_)])[0] for id_ in wanted
        }
        return [each for number, each in enumerate(found) if each.finding.kind in kinds or number in named]

    def _audited(
        self, kinds: object, user_id: str | None, agent_id: str | None, run_id: str | None
    ) -> tuple[tuple[AuditKind, ...], Scope | None]:
        """The kinds to look for, and where: in a scope, or in the whole file."""
        given = any(each is not None for each in (user_id, agent_id, run_id))
        scope = self._ids(user_id, agent_id, run_id) if given else self._bound
        return arguments.kinds(kinds, of_scope=scope is not None), scope

    # -- reading ---------------------------------------------------------------------------------

    def search(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        limit: int = 10,
        filters: Mapping[str, Any] | None = None,
        explain: bool = False,
        include: Collection[Literal["facts", "messages"]] = ("facts", "messages"),
        past: bool | None = None,
        as_of: Instant | None = None,
        known_at: Instant | None = None,
        half_life: timedelta | float | None = None,
        asked_at: Instant | None = None,
    ) -> Hits:
        """The current facts and messages that answer a query, best first. Any text is a legal query.

        A scope sees everything that has all of its ids: user_id alone sees all of the user's agents and runs. filters:
        conditions on metadata (see `memlite.filters`). include: "facts", "messages" or both; a message comes only where
        no returned fact cites it, and by its own words: not by what memlite had recalled there, and not once any of its
        facts was archived, replaced, undone, deleted or changed by hand, or has expired. past: also facts that were
        replaced or have expired, behind what has replaced them, and their messages; None: where the query asks for what
        was ("used to", "before"). as_of: what was true and said at this instant, instead of now; a naive one is in the
        time zone of this Memory. known_at: what memlite took for true at this instant, in the words that it had then;
        what was archived or deleted since is not shown.
        half_life: a timedelta or days in which the odds of a hit halve since it was last said, at most five times (see
        `rank.HALVINGS`). As of another time it is the age that it had then. asked_at: when the query is asked, by which
        it means what it says of time ("last week"); by default now.
        A text that is the query comes first with a score of 1, or in its place a fact that was learnt from it. Of a
        long query the first 20,000 characters are read for words, at most 64 of them, and the first and the last
        thousand for what it means. Raises InvalidInputError.
        """
        kinds = arguments.included(include)
        count = arguments.count("limit", limit)
        when: dict[str, Any] = {
            "past": past,
            "as_of": as_of,
            "known_at": known_at,
            "half_life": half_life,
            "asked_at": asked_at,
        }
        return self._search(query, self._ids(user_id, agent_id, run_id), filters, kinds, count, explain=explain, **when)

    def _search(
        self,
        query: str,
        scope: Scope,
        filters: Mapping[str, Any] | None,
        kinds: Collection[str],
        count: int,
        *,
        explain: bool = False,
        precise: bool = False,
        **when: Any,
    ) -> Hits:
        """The answer to a search whose arguments are checked. precise: without hits that are hardly worth a line."""
        with self._asked(query, scope, filters, **when) as (db, asked):
            if asked is None:
                return Hits((), self._notes(False))
            most = max(count, rerank.POOL) if self._reranker else count
            with_vector = asked.vector is not None
            share = rank.cut(vectors=with_vector) if precise else 0.0
            found, evidence = search.find(db, asked, kinds, most, explain=explain, share=share)
            floor = rank.floor(vectors=with_vector)
        notes = self._notes(False)
        if self._reranker:
            found = rerank.reranked(self._reranker, _ends(query), found)[:count]
            notes += (_RERANKED,) if when.get("half_life") is not None else ()
        return Hits(tuple(found), notes, evidence, floor)

    def context(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        max_tokens: int = 1000,
        filters: Mapping[str, Any] | None = None,
        floor: float | None = None,
        half_life: timedelta | float | None = None,
        replaced: bool = True,
    ) -> Context:
        """The best hits of a query as lines for a prompt, and nothing where nothing answers it.

        Each line is a fact or message with its day; behind a fact, if there is room, the one that it replaced ("before:
        ...", where that has no line of its own; not with replaced=False) and what was said, if nothing of that was put
        away. Hits that score next to nothing beside the best one are left out (below `rank.cut`, which keeps 99 % of
        the right ones). max_tokens: at most so many, 1 to 1,000,000, by an estimate that counts high in any script.
        floor: the evidence asked for, in [0, 1], instead of the fitted one; 0 returns whatever was found. half_life: as
        in `search`; it orders the lines, and what is old clears the floor and the cut as well. What is remembered is
        data: show it to a model as such, not as instructions. Raises InvalidInputError.
        """
        room = arguments.count("max_tokens", max_tokens, arguments.MOST_TOKENS)
        least = None if floor is None else arguments.probability("floor", floor)
        scope = self._ids(user_id, agent_id, run_id)
        hits = self._search(
            query, scope, filters, tuple(search.LANES), context.MOST_HITS, precise=least != 0, half_life=half_life
        )
        least = hits.floor if least is None else least
        lines, shown = context.pack(hits if hits.evidence >= least else (), room, query, replaced=replaced)
        text = "\n".join(lines)
        return Context(text, tuple(shown), context.tokens(text), hits.evidence, least, hits.notes)

    def why(
        self,
        id: str,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        limit: int = 10,
        filters: Mapping[str, Any] | None = None,
        include: Collection[Literal["facts", "messages"]] = ("facts", "messages"),
        past: bool | None = None,
        as_of: Instant | None = None,
        known_at: Instant | None = None,
        half_life: timedelta | float | None = None,
        asked_at: Instant | None = None,
    ) -> Why:
        """Why a fact or message does or does not come back when `search` is asked so, and what to do to see it.

        id: of a fact or message, or enough of its beginning; one that nothing has is "not stored". Nothing is written.
        Raises InvalidInputError, and NotFoundError where several ids begin so.
        """
        kinds = arguments.included(include)
        count = arguments.count("limit", limit)
        scope = self._ids(user_id, agent_id, run_id)
        when: dict[str, Any] = {
            "past": past,
            "as_of": as_of,
            "known_at": known_at,
            "half_life": half_life,
            "asked_at": asked_at,
        }
        with self._asked(query, scope, filters, writes=False, **when) as (db, asked):
            no_vector = self._semantic.note or ("" if vectors.identity(db) else _NO_VECTORS)
            given = why.Given(query, scope, kinds, count, no_vector)
            found = why.answer(db, asked, id, self._place(db), given)
            return dataclasses.replace(found, notes=(no_vector,) if no_vector else ())

    def _signals(self, query: str, *, user_id: str) -> tuple[dict[str, rank.Signals], rank.Signals | None]:
        """For fitting the ranking: what search knows of every candidate message of a query, by the caller's own id, and
        of the best hit, as the evidence judges it.
        """
        with self._asked(query, self._ids(user_id, None, None), None) as (db, asked):
            if asked is None:
                return {}, None
            ranking = search.ranking(db, asked, ("facts", "messages"), 10)
            found = ranking.nominated.signals["message"]
            records = messages.fetch(db, found)
            return {records[id_].caller_id or records[id_].id: each for id_, each in found.items()}, ranking.best

    @contextlib.contextmanager
    def _asked(
        self,
        query: str,
        scope: Scope,
        conditions: Mapping[str, Any] | None,
        *,
        writes: bool = True,
        past: bool | None = None,
        as_of: Instant | None = None,
        known_at: Instant | None = None,
        half_life: timedelta | float | None = None,
        asked_at: Instant | None = None,
    ) -> Iterator[tuple[apsw.Connection, Asked | None]]:
        """A query made ready, and the file at one moment; None where nobody has ever used the scope.

        writes: whether a file without vectors may be told the embedder by this; if not, the query has no vector there.
        """
        if not isinstance(query, str):
            raise InvalidInputError(f"query is a {type(query).__name__}, expected a text.")
        if bool(past) + (as_of is not None) + (known_at is not None) > 1:
            raise InvalidInputError(
                "past, as_of and known_at exclude each other: as_of shows what was true then, known_at what memlite "
                "took for true then, past everything."
            )
        then, known = self._instant(as_of, "as_of"), self._instant(known_at, "known_at")
        asked = self._instant(asked_at, "asked_at")
        fading = None if half_life is None else arguments.duration("half_life", half_life)
        sql, bindings = _compile(conditions)
        read = read_query(query)
        more = rewrite.more_words(self._rewriter, query) if self._rewriter and query.strip() else ""
        wide = read_query(f"{query}\n{more}") if more else read
        asks = query.strip() and (writes or self._semantic.begun())
        embedded = self._semantic.embed([_ends(wide.text)]) if asks else None
        with self._database.read() as db:
            reach, entity_reach = scopes.reach(db, scope), scopes.reach_of_entities(db, scope)
            if reach is None or entity_reach is None:
                yield db, None
                return
            if embedded and not self._semantic.made(db):
                raise EmbedderMismatchError(
                    "all vectors were made anew or rolled back while the query was embedded; ask again."
                )
            asks_for_past = former.asked_for(read.text[:2000])
            now = instants.now()
            today = instants.local(*asked) if asked else instants.local(now).astimezone(self._zone)
            named = dates.find(read.text[:2000], today)
            last = max((each.last for each in named), default=today.date())
            free = past is None and as_of is None and known_at is None
            yield (
                db,
                Asked(
                    query=wide,
                    digest=digest(read.text),
                    vector=embedded[0] if embedded and any(embedded[0]) else None,
                    reach=reach,
                    entity_reach=entity_reach,
                    filter_sql=sql,
                    filter_bindings=bindings,
                    needed=filters.needed(conditions or {}),
                    now=now,
                    as_of=then[0] if then else None,
                    known_at=known[0] if known else None,
                    half_life=fading,
                    past=asks_for_past if past is None else past,
                    current_first=bool(past) and not asks_for_past,
                    periods=tuple((each.first, each.last) for each in named),
                    dated=_only_dates(wide, read.text, named),
                    then=self._end_of(last) if free and last < today.date() else None,
                    zone=self._zone,
                ),
            )

    def _end_of(self, day: date) -> int:
        """The last millisecond, in UTC, of a day before today."""
        return instants.read(day + timedelta(1), self._zone, "the day")[0] - 1

    def ttls(self) -> list[Ttl]:
        """The rules of `set_ttl`, the widest first; of a bound scope, those that were set within it."""
        with self._database.read() as db:
            return ttls.fetch(db, ttls.in_reach(db, *self._place(db)))

    def get(self, id: str) -> Fact | Message:
        """A fact or message by its id, or the beginning of it where that is unique. Raises NotFoundError."""
        with self._database.read() as db:
            kind, row_id = self._find(db, id, self._place(db))
            return self._facts(db, [row_id])[0] if kind == "fact" else messages.fetch(db, [row_id])[row_id]

    def get_all(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
        limit: int = 100,
        cursor: str | None = None,
        order: Literal["newest", "oldest"] = "newest",
        past: bool = False,
        archived: bool = False,
    ) -> Page:
        """One page of current facts. `cursor` is the page's before; each fact comes once, also while others are added.

        past: also facts that were replaced or have expired. archived: those that were archived, and no others.
        """
        scope = self._ids(user_id, agent_id, run_id)
        count = arguments.count("limit", limit)
        if order not in ("newest", "oldest"):
            raise InvalidInputError(f"order is {excerpt(order)}, expected newest or oldest.")
        if cursor is not None and not (isinstance(cursor, str) and cursor.isdecimal() and len(cursor) < 19):
            raise InvalidInputError(f"cursor is {excerpt(cursor)}, expected the cursor of the page before.")
        sql, bindings = _compile(filters)
        shown = facts.ARCHIVED if archived else facts.KEPT if past else facts.CURRENT
        with self._database.read() as db:
            reach = scopes.reach(db, scope)
            if reach is None:
                return Page((), None)
            ids = facts.page(
                db,
                reach,
                f"{shown} AND {sql}",
                bindings,
                after=int(cursor) if cursor else None,
                newest_first=order == "newest",
                limit=count + 1,
            )
            more = len(ids) > count
            return Page(tuple(self._facts(db, ids[:count])), str(ids[count - 1]) if more else None)

    def get_messages(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> list[Message]:
        """The last messages of a scope, 1 to 1,000 of them, in the order in which they were stored: of a run, what was
        said last in that conversation.

        before: the id of a message, of which only those stored earlier are returned; the first one's id fetches the
        page before. Those that an undo or a fix hides are left out. Raises InvalidInputError, NotFoundError.
        """
        scope = self._ids(user_id, agent_id, run_id)
        count = arguments.count("limit", limit)
        with self._database.read() as db:
            reach = scopes.reach(db, scope)
            if reach is None:
                return []
            below = None if before is None else self._find_message(db, before, _within(reach))
            found = messages.last(db, reach.scopes, reach.bindings, below, count)
            return list(messages.fetch(db, found[::-1]).values())

    def history(
        self,
        id: str | None = None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        limit: int = 100,
        before: int | None = None,
    ) -> list[Event]:
        """What happened to a fact, oldest first; or, without an id, in a scope, or in the whole file, newest first.

        limit: at most so many of a scope or the file. before: the number of an event, of which only earlier ones
        follow: of the last one of a page, for the next page. A deleted fact's events remain without words, of a
        deleted message its DELETE. Raises NotFoundError.
        """
        with self._database.read() as db:
            if id is not None:
                found = history.find(db, arguments.id_prefix(id), *self._place(db))
                return history.of_fact(db, arguments.only(id, "fact", [(0, uid) for uid in found])[1])
            given = any(each is not None for each in (user_id, agent_id, run_id))
            scope = self._ids(user_id, agent_id, run_id) if given else self._bound
            place = _within(scopes.reach(db, scope)) if scope else ("1", ())
            below = None if before is None else arguments.count("before", before, arguments.MOST_KEPT)
            return history.of_reach(db, *place, arguments.count("limit", limit), below)

    def lineage(self, id: str) -> list[Fact]:
        """A fact and all that replaced one another with it, the oldest first, archived ones too."""
        with self._database.read() as db:
            line = facts.lineage(db, self._find_fact(db, id, self._place(db)))
            seen = set(facts.in_reach(db, *self._place(db))) if self._bound else set(line)
            return self._facts(db, [id_ for id_ in line if id_ in seen])

    def diff(
        self,
        since: Instant,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
    ) -> Diff:
        """What memlite takes for true in a scope now and did not at `since`, and the other way round.

        What was deleted since is gone without a trace here. Raises InvalidInputError.
        """
        scope = self._ids(user_id, agent_id, run_id)
        at = instants.read(since, self._zone, "since")[0]
        with self._database.read() as db:
            changes = facts.changed_since(db, at, *_within(scopes.reach(db, scope)))
            read = dict(zip([id_ for id_, _, _ in changes], self._facts(db, [id_ for id_, _, _ in changes])))
        now = {id_ for id_, current, _ in changes if current}
        updated = {id_: owner for id_, _, owner in changes if owner in now}
        return Diff(
            tuple(read[id_] for id_ in read if id_ in now and id_ not in updated.values()),
            tuple(read[id_] for id_ in read if id_ not in now and id_ not in updated),
            tuple(
                (read[old], read[owner])
                for old, owner in updated.items()
                if owner is not None and _says(read[old]) != _says(read[owner])
            ),
        )

    def entities(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        limit: int = 100,
    ) -> list[Entity]:
        """The entities that current facts of a scope mention, the most mentioned first."""
        scope = self._ids(user_id, agent_id, run_id)
        with self._database.read() as db:
            reach = scopes.reach(db, scope)
            if reach is None:
                return []
            return entities.listed(db, facts.CURRENT, reach.sql, reach.bindings, arguments.count("limit", limit))

    def stats(self) -> Stats:
        """Counts of the whole file, or of a bound scope, and what is off."""
        with self._database.read() as db:
            sql, bindings = self._place(db)
            current, past, said, named = (
                db.execute(statement.format(sql=sql, current=facts.CURRENT), bindings).get
                for statement in (
                    "SELECT count(*) FROM facts f JOIN scopes s ON s.id = f.scope_id WHERE {sql} AND {current}",
                    """SELECT count(*) FROM facts f JOIN scopes s ON s.id = f.scope_id
                       WHERE {sql} AND f.recorded_to IS NULL AND NOT {current}""",
                    "SELECT count(*) FROM messages m JOIN scopes s ON s.id = m.scope_id WHERE {sql}",
                    """SELECT count(DISTINCT n.entity_id) FROM mentions n JOIN facts f ON f.id = n.fact_id
                       JOIN scopes s ON s.id = f.scope_id WHERE {sql} AND {current}""",
                )
            )
            waiting = tuple(Queued(*row) for row in batches.queued(db, sql, bindings))
            size = db.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").get
            return Stats(
                facts=current,
                past_facts=past,
                messages=said,
                entities=named,
                queued=waiting,
                without_vector=self._semantic.missing(db, sql, bindings),
                embedder=self._semantic.name(),
                extractor=self._extractor.name if self._extractor else None,
                bytes=size,
                path=str(self._database.path),
                notes=self._notes(bool(waiting)),
            )

    # -- handles ---------------------------------------------------------------------------------

    def scope(self, *, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None) -> Memory:
        """A handle on the same file that cannot see or write outside these ids. Closing it closes nothing."""
        handle = copy.copy(self)
        handle._bound = self._ids(user_id, agent_id, run_id)
        return handle

    @property
    def path(self) -> Path:
        """The file."""
        return self._database.path

    def close(self) -> None:
        """Close the file and free the models. May be called twice; nothing else may be called afterwards."""
        if self._bound is not None:
            return
        self._database.close()
        for model in (self._semantic.embedder, self._extractor, self._reranker, self._rewriter):
            close = getattr(model, "close", None)
            if callable(close):
                close()

    def _unload(self, idle_seconds: float) -> None:
        """Free the GGUF models that nobody has used for so long (see serve.py); the next use loads them again."""
        from memlite.embed import GGUFModel
        from memlite.extract import GGUFExtractor

        for model in (self._semantic.embedder, self._extractor):
            if isinstance(model, (GGUFModel, GGUFExtractor)):
                model.close(idle_seconds=idle_seconds)

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- one layer down --------------------------------------------------------------------------

    def _append(
        self,
        scope: Scope,
        new: Sequence[messages.NewMessage],
        metadata: str,
        *,
        waits: bool,
        kind: str,
        instructions: str,
        expires_at: int | None,
    ) -> tuple[batches.Batch, list[tuple[int, str]], list[Skipped]]:
        """Store the messages in one transaction: the batch, the new rows, and what is known: messages that were there
        already, and what memlite recalled in the new ones.
        """
        stored: list[tuple[int, str]] = []
        repeated: list[Skipped] = []
        learnable = any(message.role in learn.LEARNT_ROLES for message in new)
        state = "stored" if not waits else "queued" if learnable else "done"
        with self._database.write() as db:
            row = scopes.intern(db, scope)
            now = instants.now()
            batch: batches.Batch | None = None
            earlier: int | None = None
            for message in new:
                known = messages.by_caller_id(db, row.id, message.caller_id) if message.caller_id else None
                if known:
                    uid, content, earlier, hidden = known
                    if content != message.content:
                        raise InvalidInputError(
                            f"the message id {excerpt(message.caller_id)} stands for another text in this scope "
                            f"({content[:60]!r}); an id names one message. Nothing was stored."
                        )
                    reason = "message already stored" + (HIDDEN if hidden else "")
                    repeated.append(Skipped(message.content, reason, uid))
                    continue
                batch = batch or batches.insert(
                    db,
                    row.id,
                    state,
                    now,
                    kind=kind,
                    instructions=instructions,
                    metadata=metadata,
                    expires_at=expires_at,
                )
                told = recalled.read(db, row, message)
                given = metadata
                if message.metadata:
                    given = filters.check_metadata({**json.loads(metadata), **json.loads(message.metadata)})
                stored.append(messages.insert(db, row.id, batch.id, message, given, now, told.own))
                messages.recall(db, stored[-1][0], told.facts)
                repeated += told.skipped
            if batch is None:
                assert earlier is not None  # there was at least one message, and none of them was new
                batch = batches.fetch(db, earlier)[0]
        return batch, stored, repeated

    def _learn_now(self, batch_id: int, learnt: Learnt) -> str | None:
        """Extract one batch while the caller waits; return why it stays queued, or None when it is done."""
        worker = batches.worker_name()
        deadline = time.monotonic() + self._lease_ms / 1000
        pause = 0.01
        while True:
            with self._database.read() as db:
                _, state, _ = batches.fetch(db, batch_id)
            if state != "queued":
                # Another worker was faster: its facts are this batch's facts.
                with self._database.read() as db:
                    learnt.facts = facts.of_batch(db, batch_id)
                return None
            if self._extractor is None:
                return self._extraction_off
            batch = self._claim(worker, only=batch_id)
            if batch is not None:
                try:
                    return self._learn_claimed(batch, worker, learnt)
                except learn.ClaimLostError:
                    continue
            if time.monotonic() > deadline:
                return "another batch of this scope is still being extracted; `memlite work` goes on with this one"
            interruption.check()
            time.sleep(pause)
            pause = min(2 * pause, 0.2)

    def _claim(self, worker: str, *, only: int | None = None, leave: Collection[int] = ()) -> batches.Batch | None:
        with self._database.write() as db:
            sql, bindings = self._place(db)
            return batches.claim(db, worker, instants.now(), self._lease_ms, sql, bindings, only=only, leave=leave)

    def _learn_claimed(self, batch: batches.Batch, worker: str, learnt: Learnt) -> str | None:
        """Extract a claimed batch; return the reason when it goes back to the queue."""
        assert self._extractor is not None
        try:
            found = learn.learn(
                self._database, self._semantic, self._extractor, batch, worker, self._min_confidence, self._zone
            )
        except ModelError as error:
            self._release(batch, worker, str(error))
            return str(error)
        except BaseException as error:
            # An interruption is nobody's failure; anything else is kept with the batch.
            interrupted = isinstance(error, (KeyboardInterrupt, SystemExit))
            self._release(batch, worker, "" if interrupted else f"{type(error).__name__}: {error}")
            raise
        learnt.facts, learnt.skipped = found.facts, learnt.skipped + found.skipped
        learnt.timings.update(found.timings)
        learnt.notes = found.notes
        return None

    def _release(self, batch: batches.Batch, worker: str, error: str) -> None:
        with self._database.write() as db:
            batches.release(db, batch.id, worker, error)

    def _result(self, batch: batches.Batch, learnt: Learnt, stored: Sequence[str], reason: str | None) -> AddResult:
        with self._database.read() as db:
            _, state, error = batches.fetch(db, batch.id)
            new = tuple(self._facts(db, learnt.facts))
        if state == "queued":
            reason = reason or error or "extraction was left for later; `memlite work` does it"
        return AddResult(
            status=state,
            batch=batch.uid,
            facts=new,
            skipped=tuple(learnt.skipped),
            messages=tuple(stored),
            reason=reason if state == "queued" else None,
            notes=self._notes(False) + learnt.notes + ((reason,) if reason and state != "queued" else ()),
            timings={step: round(ms, 2) for step, ms in learnt.timings.items()},
        )

    def _deleting(self) -> Deleting:
        return Deleting(self._database, self._place, self._facts)

    def _deletion(self, db: apsw.Connection, id: str, keep_messages: bool) -> Deletion:
        return deletion.of_id(db, id, keep_messages, self._place(db), self._place_of_entities(db))

    def _place_of_entities(self, db: apsw.Connection) -> Place:
        """Like `_place`, for entities: they belong to the roots of what this handle sees."""
        return _within(scopes.reach_of_entities(db, self._bound)) if self._bound else ("1", ())

    def _ids(self, user_id: object, agent_id: object, run_id: object) -> Scope:
        return scopes.read_ids(user_id, agent_id, run_id, self._bound)

    def _place(self, db: apsw.Connection) -> Place:
        """What this handle sees, as a condition over the scopes alias `s`: the whole file, or its bound scope."""
        return _within(scopes.reach(db, self._bound)) if self._bound else ("1", ())

    def _find(self, db: apsw.Connection, id: str, place: Place) -> tuple[Literal["fact", "message"], int]:
        in_facts = ids.find(db, "facts", arguments.id_prefix(id), *place)
        row = arguments.only(
            id, "fact or message", in_facts + ids.find(db, "messages", arguments.id_prefix(id), *place)
        )
        return ("fact" if row in in_facts else "message"), row[0]

    def _find_fact(self, db: apsw.Connection, id: str, place: Place) -> int:
        return arguments.only(id, "fact", ids.find(db, "facts", arguments.id_prefix(id), *place))[0]

    def _find_message(self, db: apsw.Connection, id: str, place: Place) -> int:
        return arguments.only(id, "message", ids.find(db, "messages", arguments.id_prefix(id), *place))[0]

    def _whole_file(self, verb: str) -> None:
        if self._bound:
            raise InvalidInputError(f"{verb} works on the whole file, and this handle sees {self._bound} only.")

    def _facts(self, db: apsw.Connection, ids: Sequence[int]) -> list[Fact]:
        named = entities.of_facts(db, json.dumps(list(ids)))
        return list(facts.fetch(db, ids, named, *self._place(db), self._zone).values())

    def _now(self) -> datetime:
        return instants.local(instants.now()).astimezone(self._zone)

    def _instant(self, value: object, name: str) -> tuple[int, int] | None:
        return None if value is None else instants.read(value, self._zone, name)

    def _notes(self, waiting: bool) -> tuple[str, ...]:
        notes = [self._semantic.note] if self._semantic.note else []
        if waiting and self._extractor is None:
            notes.append(self._extraction_off)
        return tuple(notes)


def _check_extract(extract: object) -> None:
    if extract not in _EXTRACT:
        raise InvalidInputError(f"extract is {excerpt(extract)}, expected one of {', '.join(_EXTRACT)}.")


def _key(path: str | Path, given: object) -> bytes | None:
    """The key of a file; a memory without one has nothing to encrypt."""
    if str(path) != ":memory:":
        return cipher.read_key(given)
    if given is not None:
        raise InvalidInputError("a memory without a file has nothing to encrypt: leave the key out.")
    return None


def _ends(query: str) -> str:
    """What of a query models read, for they take a tenth of a second for every 256 tokens: of a long one both ends."""
    return query if len(query) <= 2 * _END else f"{query[:_END]}\n{query[-_END:]}"


def _only_dates(query: Query, text: str, named: Sequence[FoundDate]) -> int:
    """A bit for each term of a query that stands only in the dates that its text names."""
    if not named:
        return 0
    ends = [0, *(place for each in named for place in (each.start, each.end)), len(text)]
    others = read_query(" ; ".join(text[start:end] for start, end in zip(ends[::2], ends[1::2]))).terms
    return sum(1 << at for at, term in enumerate(query.terms) if term not in others)


def _is_off(extractor: extract.Choice) -> bool:
    return extractor is False or os.environ.get("MEMLITE_EXTRACTOR", "").lower() == "off"


def _open_extractor(choice: extract.Choice, n_threads: int) -> Extractor | None:
    if choice is False:
        return None
    from memlite.extract import open_extractor  # here, because most processes only search

    return open_extractor(choice, n_threads=n_threads)


def _within(reach: scopes.Reach | None) -> Place:
    """A scope's condition; one that nothing was ever written to admits no row."""
    return (reach.sql, reach.bindings) if reach else ("0", ())


def _says(fact: Fact) -> tuple[str, str, Mapping[str, Any]]:
    """What a fact says, apart from how long it counts."""
    return fact.text, fact.kind, fact.metadata


def _names_in(text: str, before: Sequence[NamedEntity]) -> tuple[NamedEntity, ...]:
    """The entities of a rewritten fact: those of the old text the new one still names, and names found by rule."""
    kept = {fold(entity.name): entity for entity in before if fold(entity.name) in fold(text)}
    return tuple((kept | {fold(e.name): kept.get(fold(e.name), e) for e in remembered.named_by_rule(text)}).values())


def _compile(conditions: Mapping[str, Any] | None) -> tuple[str, list[Any]]:
    """A metadata filter as SQL. Facts and messages both call the column so, and nothing they are joined with does."""
    return filters.compile_filter(conditions, "metadata")
