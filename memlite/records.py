"""The values that cross files: frozen dataclasses, no behaviour beyond what they say of themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Literal, Protocol, get_args, overload

Metadata = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose memory: any non-empty subset of three ids; an absent id is the empty string."""

    user_id: str = ""
    agent_id: str = ""
    run_id: str = ""

    def given(self) -> dict[str, str]:
        """The ids that are present, by name."""
        ids = {"user_id": self.user_id, "agent_id": self.agent_id, "run_id": self.run_id}
        return {name: value for name, value in ids.items() if value}

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.given().items())


@dataclass(frozen=True, slots=True)
class Message:
    """One raw turn, kept word for word. own: the content without what memlite itself had recalled there, which search
    does not see; None where that is all of it.
    """

    id: str
    scope: Scope
    batch: str
    role: str
    name: str
    content: str
    metadata: Metadata
    observed_at: datetime
    created_at: datetime
    caller_id: str | None = None
    own: str | None = None

    @property
    def text(self) -> str:
        """Its own words: facts and messages are read by the same name in a list of hits."""
        return self.content if self.own is None else self.own


@dataclass(frozen=True, slots=True)
class NamedEntity:
    """A name as a fact writes it, with its type. `aliases`: other names a caller gives it; read them from Entity."""

    name: str
    type: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entity:
    """A named thing and how many visible facts mention it."""

    id: str
    name: str
    type: str
    aliases: tuple[str, ...]
    facts: int
    user_id: str = ""
    agent_id: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """One self-contained sentence that memlite knows, and where it came from."""

    id: str
    scope: Scope
    batch: str | None
    text: str
    by: str
    kind: str
    metadata: Metadata
    entities: tuple[NamedEntity, ...]
    sources: tuple[str, ...]
    confidence: float | None
    model: str
    prompt_version: str
    created_at: datetime
    observed_at: datetime
    event_start: str | None
    event_end: str | None
    event_precision: str | None
    valid_from: datetime
    valid_to: datetime | None
    last_confirmed_at: datetime
    expires_at: datetime | None
    archived_at: datetime | None
    current: bool


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the history. fact: its id; of a DELETE it may be that of a message. before, after: what has changed;
    instants in them are UTC milliseconds. text: what the fact said after it, None once the fact was deleted.
    """

    id: int
    fact: str
    action: str
    scope: Scope
    batch: str | None
    actor: str
    reason: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    at: datetime
    text: str | None


@dataclass(frozen=True, slots=True)
class Skipped:
    """A fact that was not stored, why, and the stored fact it repeats (where it repeats one)."""

    text: str
    reason: str
    existing: str | None = None


@dataclass(frozen=True, slots=True)
class AddResult:
    """What one `add()` or `remember()` did.

    status: "done" (facts extracted, perhaps none), "queued" (messages stored and searchable, extraction
    still to come; `reason` says why) or "stored" (stored, and not to be extracted).
    timings: milliseconds of each step.
    """

    status: str
    batch: str
    facts: tuple[Fact, ...]
    skipped: tuple[Skipped, ...]
    messages: tuple[str, ...]
    reason: str | None = None
    notes: tuple[str, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkResult:
    """What one `work()` did: batches extracted, facts learnt, vectors made, and what stayed queued and why."""

    batches: int
    facts: int
    skipped: int
    vectors: int
    queued: int
    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Explain:
    """Why a hit has its score. The named values are in [0, 1]; `semantic` is None while vectors are off.

    words, entities: what of the query was found. parts: every signal by name with its weight in log-odds; their
    products and the constant `bias`, added up, are the log-odds of `total`, which is 1 where the text, or that of a
    message for which a fact stands, is the query itself. rerank: the reranker's score, by which hits are ordered where
    there is one. evidence, floor: of the whole answer (see Hits).
    """

    semantic: float | None
    keyword: float
    entity: float
    exact: float
    total: float
    words: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    parts: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    rerank: float | None = None
    bias: float = 0.0
    evidence: float = 0.0
    floor: float = 0.0


@dataclass(frozen=True, slots=True)
class Hit:
    """A fact or message that a search returned. `sources` are the messages a fact was learnt from, oldest first: the
    last one says it, an earlier one what is asked there or who is meant. They are for people who ask where it comes
    from; `quote` is the one of them to show to a model: of those of which nothing was put away the one that matches the
    query best, None where there is none. `replaced` are the past facts in whose place it stands, the last one first.
    """

    kind: str
    id: str
    text: str
    score: float
    record: Fact | Message
    sources: tuple[Message, ...] = ()
    explain: Explain | None = None
    replaced: tuple[Fact, ...] = ()
    quote: Message | None = None


@dataclass(frozen=True, slots=True)
class Hits(Sequence[Hit]):
    """The answer to a search, best first. `notes` says what was off while it was made.

    evidence: in [0, 1], how much the best hit looks like that of a question which is answered here, rather than like
    that of one asked of somebody else's memory; 0.5 is as much the one as the other. It is not the probability that the
    hit is right: that is its score. `context` returns nothing below `floor`, which a quarter of the questions asked
    of somebody else's messages reach, and more than nine of ten that have an answer.
    """

    hits: tuple[Hit, ...]
    notes: tuple[str, ...] = ()
    evidence: float = 0.0
    floor: float = 0.0

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[index]

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)


@dataclass(frozen=True, slots=True)
class Context:
    """What `context` packed for a prompt: a line a hit, `tokens` of them by an estimate that counts high; empty where
    nothing clears the floor. evidence, floor: see Hits.
    """

    text: str
    hits: tuple[Hit, ...]
    tokens: int
    evidence: float
    floor: float
    notes: tuple[str, ...] = ()


Verdict = Literal[
    "not stored",
    "deleted",
    "replaced",
    "expired",
    "archived",
    "recalled",
    "not yet",
    "other scope",
    "filtered",
    "not nominated",
    "shown by a fact",
    "shown by a message",
    "twin",
    "past the limit",
    "below the floor",
    "returned",
]


@dataclass(frozen=True, slots=True)
class Why:
    """Why a fact or message did or did not come back for a query. reason: what was found, and what to do to see it.

    instead: the id of what replaced it or came for it. rank: its place, from 1, among the `candidates` of the search,
    with what is not returned because an equal text or a fact comes for it. last, last_score: the last hit returned.
    apart: the parts of the score that differ most from that hit's, in log-odds, below 0 where it falls behind; none
    where one of the two is the query itself. evidence, floor: see Hits; "below the floor" is a hit of `search` that
    `context` does not return. What was not asked, as the rank of a deleted fact, is None or 0.
    """

    id: str
    query: str
    verdict: Verdict
    reason: str
    kind: str = ""
    text: str = ""
    instead: str | None = None
    rank: int | None = None
    candidates: int = 0
    score: float | None = None
    explain: Explain | None = None
    last: str | None = None
    last_score: float | None = None
    apart: Mapping[str, float] = field(default_factory=dict)
    evidence: float | None = None
    floor: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Page(Sequence[Fact]):
    """One page of facts; `cursor` fetches the next one and is None on the last."""

    facts: tuple[Fact, ...]
    cursor: str | None

    @overload
    def __getitem__(self, index: int) -> Fact: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Fact, ...]: ...
    def __getitem__(self, index: int | slice) -> Fact | tuple[Fact, ...]:
        return self.facts[index]

    def __len__(self) -> int:
        return len(self.facts)

    def __iter__(self) -> Iterator[Fact]:
        return iter(self.facts)


# What the extractor is shown, and what it answers.


@dataclass(frozen=True, slots=True)
class ResolvedDate:
    """A relative date as it was said ("yesterday") and the local calendar days it means.

    start, end: ISO days, both included ("2025-05-11"). precision: day, week, weekend, month, season, year or
    approximate (about that day, or in that third of a month or year); from one day, month or year to another that of
    both ends.
    """

    expression: str
    start: str
    end: str
    precision: str


@dataclass(frozen=True, slots=True)
class FoundDate:
    """A date in a text, relative or absolute, with the days it means.

    start, end: its place, in characters from the beginning; `end` is the first one after it. first, last: days, both
    included. precision: as of a ResolvedDate. relative: whether the days depend on the day on which it was said.
    day: where weeks, months or years are counted, the very day: "in two weeks" is a week, and in 14 days.
    """

    expression: str
    start: int
    end: int
    first: date
    last: date
    precision: str
    relative: bool
    day: date | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One message as the extractor sees it: a small number instead of an id, its dates resolved.

    number is 0 for a message of the window: it is context and cannot be cited.
    """

    number: int
    role: str
    speaker: str
    text: str
    observed_at: datetime
    dates: tuple[ResolvedDate, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownFact:
    """A stored fact shown to the extractor under a small number."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class ExtractionRequest:
    """Everything one extraction sees. `messages` are numbered from 1; `window` comes before them.

    earlier: a number that grows by one with each message of the scope: how many it has before the new ones, counted
    from one of every thousand or so of the file.
    """

    messages: tuple[Turn, ...]
    window: tuple[Turn, ...] = ()
    known: tuple[KnownFact, ...] = ()
    kind: str = ""
    instructions: str = ""
    earlier: int = 0


@dataclass(frozen=True, slots=True)
class ExtractedFact:
    """A fact as the extractor wrote it, before grounding. `sources` are message numbers."""

    text: str
    by: str = ""
    sources: tuple[int, ...] = ()
    when: str | None = None
    replaces: tuple[int, ...] = ()
    continues: tuple[int, ...] = ()
    entities: tuple[NamedEntity, ...] = ()
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Extraction:
    """The extractor's answer: facts (perhaps none), what of it was unusable, and what it cost in tokens.

    prompt_tokens: of what was asked; evaluated_tokens: those that the cache did not hold. answer_tokens: what was
    decoded, also of answers that were tried and not taken. notes: what was asked and could not be heeded.
    """

    facts: tuple[ExtractedFact, ...]
    unusable: tuple[Skipped, ...] = ()
    prompt_tokens: int = 0
    evaluated_tokens: int = 0
    answer_tokens: int = 0
    notes: tuple[str, ...] = ()


class Extractor(Protocol):
    """What memlite asks of an extractor."""

    @property
    def name(self) -> str: ...
    @property
    def prompt_version(self) -> str: ...
    def extract(self, request: ExtractionRequest) -> Extraction:
        """Return the facts of `request.messages`; raise ExtractionError when there is no usable answer."""


class Embedder(Protocol):
    """What memlite asks of an embedder: vectors of one length, the same text always the same vector."""

    @property
    def name(self) -> str: ...
    @property
    def dimension(self) -> int: ...
    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector for each text, in order."""


class Reranker(Protocol):
    """What memlite asks of a reranker: how well texts answer a query."""

    @property
    def name(self) -> str: ...
    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return one number in [0, 1] for each text, in order: the score of the hit. Others are a ModelError."""


class Rewriter(Protocol):
    """What memlite asks of a rewriter: more words for a question."""

    @property
    def name(self) -> str: ...
    def rewrite(self, query: str) -> str:
        """Return words to search for beside the query's own; "" for none."""


# What deleting says, before and after.


@dataclass(frozen=True, slots=True)
class Ttl:
    """How many days facts count, after they were last said, that are stored from then on: those of every scope that
    has the ids of `scope`, and of `kind`; one that says nothing is for all.
    """

    scope: Scope
    kind: str
    days: float


@dataclass(frozen=True, slots=True)
class Matched:
    """A fact or message with those of a query's words that it has; share: which part of them all, in [0, 1]."""

    id: str
    text: str
    words: tuple[str, ...]
    share: float


@dataclass(frozen=True, slots=True)
class Matching:
    """What a query to delete by has found: facts and messages that have enough of its words, best first.

    floor: the share of the words that was asked for. below: the nearest of what has some of them, but fewer. more: how
    many match beyond the limit.
    """

    matched: tuple[Matched, ...]
    below: tuple[Matched, ...]
    more: int
    floor: float


@dataclass(frozen=True, slots=True)
class DeletionPreview:
    """What a deletion would take with it. ids: of a scope, as "user_id=ana", that go with what is in it. matching: why
    a query chose it.
    """

    facts: tuple[Fact, ...]
    messages: tuple[Message, ...]
    ttls: tuple[Ttl, ...] = ()
    ids: tuple[str, ...] = ()
    matching: Matching | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """A place in the file: how many rows, or erased texts in its bytes, were there before a deletion and are there now.

    before: None where nobody looked.
    """

    name: str
    before: int | None
    after: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a deletion took: ids of facts and messages, how many earlier versions and entities went with them.

    ids: of a scope, as "user_id=ana", that were forgotten with it: the history has a random number in their place.

    checked: every place where something of it may lie, looked at after the deletion: the tables, the word indexes, the
    vectors, and for its texts the bytes of the file and of the write-ahead log. clean: nothing was found in any.

    wal_truncated: whether the write-ahead log, which still held the bytes, could be emptied; `notes` says
    what to do when a reader prevented that.
    """

    facts: tuple[str, ...]
    messages: tuple[str, ...]
    versions: int
    entities: int
    wal_truncated: bool
    notes: tuple[str, ...] = ()
    checked: tuple[Checked, ...] = ()
    ids: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        return self.wal_truncated and not any(place.after for place in self.checked)


@dataclass(frozen=True, slots=True)
class Diff:
    """What has changed in a scope since a time: facts that count now and did not then, facts that counted then and do
    not now, and updated ones as they were and as they are.
    """

    added: tuple[Fact, ...]
    gone: tuple[Fact, ...]
    updated: tuple[tuple[Fact, Fact], ...]


@dataclass(frozen=True, slots=True)
class Pruned:
    """What `prune` chose: all that goes, and under each rule the ids that it chose.

    receipt: of the deletion; None where nothing was deleted, only shown.
    """

    facts: tuple[Fact, ...]
    messages: tuple[Message, ...]
    rules: Mapping[str, tuple[str, ...]]
    receipt: Receipt | None


@dataclass(frozen=True, slots=True)
class Fault:
    """Something in the file that is out of step with what it comes from.

    place: "schema", "words", "metadata", "rows", "references" or "vectors". count: how many of `what`, in the
    plural. mendable: whether `repair` puts it right; if not, `what` says what to do.
    """

    place: str
    count: int
    what: str
    mendable: bool


@dataclass(frozen=True, slots=True)
class FileCheck:
    """What a look at a whole file found, or at the backup that was made of one.

    bytes: its size, without its log. rows: how many facts (past and archived ones as well), messages, entities, events
    and vectors it has; empty where its pages are damaged. damage: what is wrong with them, none of which can be mended.
    faults: what is out of step.
    """

    path: str
    bytes: int
    version: int
    encrypted: bool
    rows: Mapping[str, int]
    damage: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing was found wrong."""
        return not self.damage and not self.faults


@dataclass(frozen=True, slots=True)
class Repaired:
    """What `repair` found out of step and what of it is left: all, where it was only to look; else what it cannot mend.

    vectors: how many it made; `notes` says why others are missing still.
    """

    found: tuple[Fault, ...]
    left: tuple[Fault, ...]
    vectors: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What was saved of a damaged file into the new one `path`.

    rows: how many of each table. lost: how many facts and messages there were besides, None where that cannot be known.
    unreadable: pages of the damaged file that could not be read, those of indexes with them. notes: what to look at.
    """

    path: str
    rows: Mapping[str, int]
    lost: Mapping[str, int | None]
    unreadable: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reextracted:
    """What a `reextract` did: how many batches it extracted and how many wait still; until none does, no fact changes.

    batches: what `undo` takes to take it back, one for each scope. added, changed (in their new words), archived:
    facts; kept: how many stayed as they were. failures: batches that could not be extracted, whose facts stay.
    """

    batches: tuple[str, ...]
    extracted: int
    waiting: int
    added: tuple[Fact, ...]
    changed: tuple[Fact, ...]
    archived: tuple[Fact, ...]
    kept: int
    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


AuditKind = Literal[
    "near-duplicates",
    "contradictions",
    "sourceless",
    "restated",
    "orphans",
    "entities",
    "vectors",
    "secrets",
]
AUDIT_KINDS: tuple[AuditKind, ...] = get_args(AuditKind)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that an audit found. id: names it for `fix`, and stays the same while it concerns the same rows.

    facts, messages, entities: the ids of what it concerns; texts: what these say, in that order, secrets masked. why: a
    sentence. fix: what `fix` would do; "" where only a person can do something.
    """

    id: str
    kind: AuditKind
    facts: tuple[str, ...]
    messages: tuple[str, ...]
    entities: tuple[str, ...]
    texts: tuple[str, ...]
    why: str
    fix: str


@dataclass(frozen=True, slots=True)
class Audit(Sequence[Finding]):
    """What an audit found, kind by kind. kinds: those that were looked for. notes: what could not be looked at."""

    findings: tuple[Finding, ...]
    kinds: tuple[AuditKind, ...]
    notes: tuple[str, ...] = ()

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Finding, ...]: ...
    def __getitem__(self, index: int | slice) -> Finding | tuple[Finding, ...]:
        return self.findings[index]

    def __len__(self) -> int:
        return len(self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)


@dataclass(frozen=True, slots=True)
class Fixed:
    """What a fix did. findings: those that it put right; left: those of the chosen ones that have no fix, or that
    another one has settled. batches: the ids that `undo` takes, one for each kind and scope; none for orphans and
    vectors, which are derived.
    """

    findings: tuple[Finding, ...]
    left: tuple[Finding, ...]
    batches: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Undone:
    """What an undo did: the ids of facts and messages that it hid and that it brought back.

    batch: the undo itself, which `undo` takes as well. undid: the batch that was undone. entities: the ids of those
    that a fix had merged and that are two again, or one again.
    """

    batch: str
    undid: str
    archived: tuple[str, ...]
    restored: tuple[str, ...]
    messages_archived: tuple[str, ...]
    messages_restored: tuple[str, ...]
    notes: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Queued:
    """A batch that waits for extraction: how often it was tried, and what went wrong last."""

    batch: str
    attempts: int
    error: str


@dataclass(frozen=True, slots=True)
class Stats:
    """What a file, or one scope of it, holds. `bytes` is the size of the whole file."""

    facts: int
    past_facts: int
    messages: int
    entities: int
    queued: tuple[Queued, ...]
    without_vector: int
    embedder: str | None
    extractor: str | None
    bytes: int
    path: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What an import could not use, or leaves out on purpose: where it stands in the source, why, and how much it is.
    A count of 0 is a remark about what was stored.
    """

    place: str
    reason: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import added, or would have: by kind (conversations, messages, facts, ...).

    source: the format; guessed: what told it, "" where it was given. known: what was there already, by kind. left_out:
    the first 1,000 things that were not stored; reasons: how many there were of each. queued: batches that wait to be
    learnt from.
    """

    source: str
    guessed: str
    added: Mapping[str, int]
    known: Mapping[str, int]
    left_out: tuple[LeftOut, ...]
    reasons: Mapping[str, int]
    queued: int
    dry_run: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export wrote: the file (None for a stream) and how many lines of each kind, or None for Markdown."""

    path: str | None
    format: str
    records: Mapping[str, int]
