"""From messages to facts: one extraction, grounded, stored in one transaction or not at all."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo

import apsw

from memlite import (
    batches,
    claims,
    dates,
    entities,
    event_dates,
    extracted,
    facts,
    ground,
    history,
    instants,
    lifecycle,
    messages,
    rank,
    scopes,
    sense,
    ttls,
    vectors,
    worth,
)
from memlite.db import Database
from memlite.errors import ExtractionError, ModelError
from memlite.event_dates import Event
from memlite.facts import NewFact
from memlite.records import (
    ExtractedFact,
    Extraction,
    ExtractionRequest,
    Extractor,
    KnownFact,
    Message,
    Skipped,
    Turn,
)
from memlite.scopes import Reach, StoredScope
from memlite.semantic import Semantic
from memlite.sentences import clean, quotes
from memlite.words import digest, fold, match_expression, read_query

KNOWN = 10  # nearest known facts of the root shown to the extractor
LEARNT_ROLES = ("user", "assistant")  # system and tool text is stored, never extracted
# Characters of a message that is learnt from, and shown with later ones. Each of its facts is compared with all of it,
# so that what a message costs grows with its length and the number of its facts.
LONGEST_MESSAGE = 200_000
MANY_KNOWN = 8000  # facts of a file from which on those with a message's words are not all compared, but
_LOOKED_AT = 100  # so many of each word, the newest
_SHOWN = 200  # characters of a longer one in `skipped`
BESIDE = 16  # messages of a batch, before a cited one and after it, that an extractor was shown with it


class ClaimLostError(Exception):
    """Another worker took the batch while the model ran; what it extracted counts, not this."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A fact about to be stored, and the stored facts (row ids) it replaces or continues.

    refused: texts of those it does not replace, although the model says so.
    """

    fact: NewFact
    replaces: tuple[int, ...] = ()
    continues: tuple[int, ...] = ()
    refused: tuple[str, ...] = ()


@dataclass(slots=True)
class Learnt:
    """What came of one batch: row ids of new facts, what was skipped and why, milliseconds of each step, notes."""

    facts: list[int] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@contextmanager
def timed(timings: dict[str, float], step: str) -> Iterator[None]:
    """Add the milliseconds of a step to `timings`."""
    start = time.perf_counter()
    try:
        yield
    finally:
        timings[step] = timings.get(step, 0.0) + (time.perf_counter() - start) * 1000


def made_by(extractor: Extractor) -> str:
    """What tells the answers of one model and prompt from those of another."""
    return f"{extractor.name} {extractor.prompt_version}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the extractor makes of a batch, not stored yet. known, saying: row ids with known facts and messages."""

    scope: StoredScope
    candidates: tuple[Candidate, ...]
    known: tuple[tuple[int, str], ...]
    saying: tuple[tuple[int, Message], ...]


def learn(
    database: Database,
    semantic: Semantic,
    extractor: Extractor,
    batch: batches.Batch,
    worker: str,
    min_confidence: float,
    zone: tzinfo | None,
) -> Learnt:
    """Extract a claimed batch and store its facts. Raises ModelError or ClaimLostError; then nothing is stored.

    zone: of the days on which something was so (see `instants.beside`).
    """
    learnt = Learnt()
    found = propose(database, semantic, extractor, batch, min_confidence, zone, learnt)
    with timed(learnt.timings, "embed_facts"):
        made = embed_candidates(semantic, found.candidates)
    with timed(learnt.timings, "write"), database.write() as db:
        if not batches.holds(db, batch.id, worker):
            raise ClaimLostError
        store(db, found.scope, batch.id, found.candidates, learnt, made, extractor.name, across_runs=True)
        step = lifecycle.Step(instants.now(), extractor.name, batch_id=batch.id)
        _confirm_repeated(db, found.saying, found.known, learnt, step)
        batches.finish(db, batch.id, made_by(extractor))
    return learnt


def propose(
    database: Database,
    semantic: Semantic,
    extractor: Extractor,
    batch: batches.Batch,
    min_confidence: float,
    zone: tzinfo | None,
    learnt: Learnt,
    *,
    again: bool = False,
) -> Proposal:
    """Extract a batch without storing anything; `learnt` is told what was skipped. again: as if for the first time,
    without what is known from its own messages and later ones. Raises ModelError.
    """
    with timed(learnt.timings, "read"):
        scope, saying, window, known, earlier = _read_context(database, semantic, batch, again, learnt)
    turns = dict(enumerate(saying, 1))
    candidates: list[Candidate] = []
    if turns:
        request = ExtractionRequest(
            messages=tuple(_turn(number, message) for number, (_, message) in turns.items()),
            window=tuple(_turn(0, message) for _, message in window),
            known=tuple(KnownFact(number, text) for number, (_, text) in enumerate(known, 1)),
            kind=batch.kind,
            instructions=batch.instructions,
            earlier=earlier,
        )
        with timed(learnt.timings, "extract"):
            extraction = _ask(extractor, request)
        with timed(learnt.timings, "ground"):
            kept, skipped = accepted(extraction, request, min_confidence)
            learnt.skipped += skipped
            learnt.notes += extraction.notes
            user = scope.scope.user_id
            candidates += [
                _candidate(fact, turns, window, known, request, batch, extractor, user, zone) for fact in kept
            ]
    return Proposal(scope, tuple(candidates), tuple(known), tuple(saying))


def _confirm_repeated(
    db: apsw.Connection,
    new: Sequence[tuple[int, Message]],
    known: Sequence[tuple[int, str]],
    learnt: Learnt,
    step: lifecycle.Step,
) -> None:
    """Make a message that says word for word what a known fact was learnt from a source of that fact as well.

    A model that knows the fact does not write it again, and with its first source deleted it would be gone.
    """
    sources = messages.of_facts(db, json.dumps([id_ for id_, _ in known]))
    earlier = messages.fetch(db, sorted({id_ for ids in sources.values() for id_ in ids}))
    for fact_id, fact in facts.fetch(db, sources, {}).items():
        ids = sources[fact_id]
        for id_, message in new if fact.current else ():
            if id_ not in ids and any(_same(message, earlier[other]) for other in ids):
                at = instants.read(message.observed_at, None, "observed_at")[0]
                lifecycle.confirm(db, fact_id, at, (id_,), step)
                learnt.skipped.append(Skipped(fact.text, "duplicate", fact.id))


def _same(one: Message, other: Message) -> bool:
    """Whether two messages say the same, on days that mean the same."""
    if (one.role, one.name, digest(one.text)) != (other.role, other.name, digest(other.text)):
        return False
    return dates.resolve(one.text, one.observed_at) == dates.resolve(other.text, other.observed_at)


def accepted(
    extraction: Extraction, request: ExtractionRequest, min_confidence: float = 0.0
) -> tuple[list[ExtractedFact], list[Skipped]]:
    """The facts of an answer that may be stored, and the others, each with the reason why not."""
    kept: list[ExtractedFact] = []
    skipped = list(extraction.unusable)
    try:
        for told in extraction.facts:
            fact, reasons = _judged(told, as_shown(told, request), min_confidence)
            skipped += reasons
            kept += [fact] if fact else []
    finally:
        ground.forget()
    return kept, skipped


def _judged(
    told: ExtractedFact, seen: ExtractionRequest, min_confidence: float
) -> tuple[ExtractedFact | None, list[Skipped]]:
    """A fact as it may be stored, None where it may not, and what of it is not."""
    skipped: list[Skipped] = []
    fact, cut = ground.trimmed(ground.as_said(told, seen), seen)
    if cut:
        skipped.append(Skipped(cut, f"no cited message says it; it was cut from a fact: {fact.text}"))
    owned = sense.with_owner(fact, seen)
    fact = owned or fact
    if reasons := ground.ungrounded(fact, seen):
        reason = "not grounded: " + "; ".join(reasons)
    elif owned is None:
        reason = "it gives to its speaker what is somebody else's"
    elif cut and not sense.is_sentence(fact.text):
        reason = "what no cited message says was cut from it, and what is left has no verb"
    elif fact.confidence is not None and fact.confidence < min_confidence:
        reason = f"its confidence is {fact.confidence}, below {min_confidence}"
    else:
        reason = sense.distorted(fact, seen) or worth.unworthy(fact, seen) or ""
    if reason:
        return None, [*skipped, Skipped(fact.text, reason)]
    # Under the known fact's text it is that one's duplicate: its source is added, and no second fact.
    return replace(fact, text=worth.known(fact, seen) or fact.text), skipped


def as_shown(fact: ExtractedFact, request: ExtractionRequest) -> ExtractionRequest:
    """The request as the messages that a fact cites were shown: the earlier ones of the batch are window to them."""
    cited = [at for at, turn in enumerate(request.messages) if turn.number in fact.sources]
    if not cited:
        return request
    first, last = cited[0], cited[-1]
    earlier = request.messages[max(0, first - BESIDE) : first]
    return replace(request, window=(*request.window, *earlier), messages=request.messages[first : last + 1 + BESIDE])


def _ask(extractor: Extractor, request: ExtractionRequest) -> Extraction:
    """The extractor's answer; whatever goes wrong in foreign code is an ExtractionError, and the batch stays queued."""
    try:
        answer = extractor.extract(request)
    except ModelError:
        raise
    except Exception as error:  # any error of foreign code; one bad batch must not hold up the queue
        raise ExtractionError(f"{extractor.name} failed with {type(error).__name__}: {error}") from error
    return extracted.checked(answer, request, extractor.name)


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors by text and by an entity's normalised name, empty while vectors are off, and the embedder's probes."""

    texts: Mapping[str, bytes]
    names: Mapping[str, bytes]
    probes: bytes


def embed_candidates(semantic: Semantic, candidates: Sequence[Candidate]) -> Embedded:
    """The vectors of the facts' texts and of their entities' names, in one call."""
    texts = list(dict.fromkeys(c.fact.text for c in candidates))
    names = list(dict.fromkeys(e.name for c in candidates for e in c.fact.entities))
    found = semantic.embed(texts + names, "fact", {text: digest(text) for text in texts}) if texts else None
    if found is None:
        return Embedded({}, {}, b"")
    return Embedded(dict(zip(texts, found)), dict(zip(map(fold, names), found[len(texts) :])), semantic.probes)


def store(
    db: apsw.Connection,
    scope: StoredScope,
    batch_id: int,
    candidates: Sequence[Candidate],
    learnt: Learnt,
    made: Embedded,
    actor: str,
    *,
    across_runs: bool,
    part_of: int | None = None,
) -> None:
    """Write facts, words, vectors, entities, mentions, links and history inside the caller's transaction.

    Duplicates are looked for here, where no other writer can come between. across_runs: what another run of
    the same root already knows is a duplicate too. part_of: row id of the batch that undoes it, where that is another.
    """
    now = instants.now()
    step = lifecycle.Step(now, actor, batch_id=batch_id if part_of is None else part_of)
    holding: dict[str, int | None] = {}  # by kind
    told: list[vectors.Row] = []
    named: list[vectors.Row] = []
    for candidate in candidates:
        sources = messages.existing(db, candidate.fact.sources) if candidate.fact.sources else ()
        if candidate.fact.sources and not sources:
            learnt.skipped.append(Skipped(candidate.fact.text, "its source was deleted meanwhile"))
            continue
        fact = candidate.fact if sources == candidate.fact.sources else replace(candidate.fact, sources=sources)
        if fact.valid_to is not None:  # it tells of a time that is over, whatever counts now
            twin = facts.ended_twin(db, scope.id, fact.text, fact.begins, fact.valid_to)
        else:
            twin = _living_twin(db, scope, fact, now, batch_id, across_runs)
        reason = "duplicate"
        if twin is None and fact.valid_to is None:
            root_id = scope.root_id if across_runs else None
            twin = facts.replaced_twin(db, root_id, scope.id, fact.text, fact.observed_at)
            reason = "known, and replaced since"
        if twin:
            said = replace(step, batch_id=batch_id)
            lifecycle.confirm(db, twin.id, fact.observed_at, fact.sources, said, fact.valid_from)
            replace_by(db, candidate, twin.id, step)
            learnt.skipped.append(Skipped(fact.text, reason, twin.uid))
            continue
        if fact.expires_at is None:
            if fact.kind not in holding:
                holding[fact.kind] = ttls.holding(db, scope, fact.kind)
            if ttl := holding[fact.kind]:
                fact = replace(fact, expires_at=facts.expiry(fact.observed_at, ttl), ttl=ttl)
        id_, uid = facts.insert(db, scope.id, batch_id, fact, now)
        history.record(db, "ADD", uid, scope.id, now, batch_id=step.batch_id, actor=actor)
        if fact.valid_to is not None:
            lifecycle.note_end(db, id_, step)
        named += mention(db, scope, id_, fact, made)
        told += vector(scope, id_, fact, made)
        replace_by(db, candidate, id_, step)
        for other in candidate.continues:
            facts.link(db, id_, other, "continues")
        learnt.facts.append(id_)
        learnt.notes += tuple(_refusal(fact.text, old) for old in candidate.refused)
    store_vectors(db, told, named, made)


def replace_by(db: apsw.Connection, candidate: Candidate, fact_id: int, step: lifecycle.Step) -> None:
    """Put a fact in the place of those it replaces, and of those that replaced them while nobody knew of it."""
    replaced = dict.fromkeys(candidate.replaces)
    day = instants.day(candidate.fact.observed_at, candidate.fact.observed_offset)
    current = candidate.fact.valid_to is None
    for _, id_, text in facts.followers(db, json.dumps(candidate.replaces)) if current and replaced else ():
        if claims.may_replace(text, candidate.fact.text, day):
            replaced[id_] = None
    for other in replaced:
        if other != fact_id:
            lifecycle.replace(db, other, fact_id, step)


def mention(
    db: apsw.Connection, scope: StoredScope, fact_id: int, fact: NewFact, made: Embedded
) -> Iterator[vectors.Row]:
    """Link a fact to its entities; return the vectors of those that are new."""
    fresh = entities.mention(db, scope.root_id, fact_id, [e for e in fact.entities if fold(e.name)])
    return (vectors.Row(id_, scope.root_id, made.names[name]) for id_, name in fresh if name in made.names)


def vector(scope: StoredScope, fact_id: int, fact: NewFact, made: Embedded) -> list[vectors.Row]:
    """The vector of a fact, if it has one."""
    return [vectors.Row(fact_id, scope.id, made.texts[fact.text])] if fact.text in made.texts else []


def store_vectors(
    db: apsw.Connection, told: Sequence[vectors.Row], named: Sequence[vectors.Row], made: Embedded
) -> None:
    """Store the vectors of new facts and names, of those together that are stored together."""
    if told:  # what replaced one of them may have brought back its twin since, into which it was merged
        hidden = facts.archived(db, [row.id for row in told])
        vectors.insert(db, "fact", [row for row in told if row.id not in hidden], made.probes)
    if named:
        vectors.insert(db, "entity", named, made.probes)


def _read_context(
    database: Database, semantic: Semantic, batch: batches.Batch, again: bool, learnt: Learnt
) -> tuple[StoredScope, list[tuple[int, Message]], list[tuple[int, Message]], list[tuple[int, str]], int]:
    """The batch's messages to learn from, the window before them, the nearest known facts of the root, and the number
    of the messages before them.

    What says nothing of its own teaches nothing, nor does what is too long, of which `learnt` is told. Messages and
    known facts come with their row ids, which sources and links are made of.
    """
    with database.read() as db:
        scope = scopes.fetch(db, batch.scope_id)
        ids = messages.of_batch(db, batch.id)
        said = messages.fetch(db, ids)
        new = [(id_, message) for id_, message in said.items() if _teaches(message)]
        learnt.skipped += [_too_long(message) for message in said.values() if len(message.text) > LONGEST_MESSAGE]
        shown = messages.window(db, batch.scope_id, ids[0]) if ids else []
        window = [(id_, message) for id_, message in messages.fetch(db, shown).items() if _teaches(message)]
        near = _nearest_known(db, semantic, scope, new) if new else []
        known = facts.fetch(db, facts.observed_before(db, near, ids) if again else near, {})
        earlier = messages.number_before(db, batch.scope_id, ids[0]) if ids else 0
    return scope, new, window, [(id_, fact.text) for id_, fact in known.items()], earlier


def _teaches(message: Message) -> bool:
    return message.role in LEARNT_ROLES and 0 < len(message.text) <= LONGEST_MESSAGE


def _too_long(message: Message) -> Skipped:
    reason = (
        f"the message has {len(message.text)} characters, and facts are learnt from at most {LONGEST_MESSAGE}: it is "
        "stored and found, but not learnt from; add what is to be learnt in parts"
    )
    return Skipped(f"{message.text[:_SHOWN]}…", reason)


def _nearest_known(
    db: apsw.Connection, semantic: Semantic, scope: StoredScope, new: list[tuple[int, Message]]
) -> list[int]:
    """Row ids of current facts of the root closest to the new messages, by vector and by words."""
    reach = scopes.reach_of_root(db, scope.root_id)
    best: dict[int, float] = {}
    if semantic.name() and vectors.identity(db):
        current = vectors.Shown(lambda ids: facts.current(db, ids), lambda: facts.current_of_root(db, scope.root_id))
        for message_id, _ in new:
            vector = vectors.fetch(db, "message", message_id)
            if vector is None:
                continue
            for id_, similarity in vectors.nearest(db, "fact", vector, reach, KNOWN, current):
                best[id_] = max(best.get(id_, 0.0), similarity)
    query = read_query("\n".join(message.text for _, message in new))
    # Rank k of the words counts like a similarity of 1 / (1 + k): the first ones always have a place.
    for place, id_ in enumerate(_known_by_words(db, query.terms, reach)):
        best[id_] = max(best.get(id_, 0.0), 1.0 / (1 + place))
    return sorted(best, key=lambda id_: -best[id_])[:KNOWN]


def _known_by_words(db: apsw.Connection, terms: Sequence[str], reach: Reach) -> list[int]:
    """Row ids of the current facts of a root that say most of what these words say, the best first.

    By BM25, which costs by the number of rows with any of the words; in a file of very many by those of the newest
    rows of each word that hold the rarest ones.
    """
    if not terms:
        return []
    rows: int = db.execute("SELECT coalesce(max(id), 0) FROM fact_words_docsize").get  # or fewer: some are deleted
    if rows <= MANY_KNOWN:
        ranked = f"""
            SELECT fact_words.rowid FROM fact_words CROSS JOIN facts f ON f.id = fact_words.rowid
            WHERE fact_words MATCH ? AND {facts.CURRENT} ORDER BY fact_words.rank LIMIT {KNOWN}
        """
        return [id_ for (id_,) in db.execute(ranked, (match_expression(terms, f"{reach.terms} live"),))]
    inside = reach.terms if scopes.outside(db, reach) else ""  # a term that all have takes most of the time
    said: dict[int, float] = {}
    newest = f"SELECT rowid FROM fact_words WHERE fact_words MATCH ? ORDER BY rowid DESC LIMIT {_LOOKED_AT}"
    for term in terms:
        found = [id_ for (id_,) in db.execute(newest, (match_expression((term,), inside),))]
        holding = len(found)
        if holding == _LOOKED_AT:  # about how many hold it is told by how close together these are
            holding = max(holding, rows * holding // (found[0] - found[-1] + 1))
        for id_ in found:
            said[id_] = said.get(id_, 0.0) + rank.idf(rows, holding)
    best = sorted(said, key=lambda id_: (-said[id_], -id_))[: 4 * KNOWN]
    current = facts.current(db, best)
    return [id_ for id_ in best if id_ in current][:KNOWN]


def _refusal(new: str, old: str) -> str:
    return (
        f"{old!r} stays current: the model takes it for replaced by {new!r}, but the two are not seen to say something "
        "of the same; `memlite archive ID` puts it away"
    )


def _turn(number: int, message: Message) -> Turn:
    return Turn(
        number=number,
        role=message.role,
        speaker=message.name or message.role.capitalize(),
        text=clean(message.text),
        observed_at=message.observed_at,
        dates=dates.resolve(message.text, message.observed_at),
    )


def _candidate(
    fact: ExtractedFact,
    turns: Mapping[int, tuple[int, Message]],
    window: Sequence[tuple[int, Message]],
    known: Sequence[tuple[int, str]],
    request: ExtractionRequest,
    batch: batches.Batch,
    extractor: Extractor,
    user: str,
    zone: tzinfo | None,
) -> Candidate:
    cited = [turns[number] for number in fact.sources if number in turns] or list(turns.values())
    last = max((message for _, message in cited), key=lambda message: message.observed_at)
    at, offset = instants.read(last.observed_at, None, "observed_at")
    # What is quoted from the window, or from another new message, has its source there as well; so has a name.
    shown = [*window, *turns.values()]
    quoted = [id_ for id_, message in shown if quotes(fact.text, message.text)]
    heard = [turn for number, turn in turns.items() if number <= max(fact.sources, default=len(turns))]
    naming = _naming(fact, [message for _, message in cited], [*window, *heard])
    event = _event(fact, request, last.observed_at)
    day, speakers = last.observed_at.date(), [message.name or message.role for _, message in shown]
    users = {name for name in (user, *(message.name for _, message in shown if message.role == "user")) if name}
    replaced = [known[n - 1] for n in fact.replaces if 0 < n <= len(known)]
    new = NewFact(
        text=fact.text,
        observed_at=at,
        observed_offset=offset,
        by=fact.by or last.name or last.role,
        kind=batch.kind,
        metadata=batch.metadata,
        entities=fact.entities,
        sources=tuple(sorted({*quoted, *naming, *(id_ for id_, _ in cited)})),
        confidence=fact.confidence,
        model=extractor.name,
        prompt_version=extractor.prompt_version,
        expires_at=batch.expires_at,
        **event_dates.columns(event, fact.text, at, offset, zone),
    )
    believed = [id_ for id_, text in replaced if claims.may_replace(text, fact.text, day, speakers, users)]
    return Candidate(
        new,
        replaces=tuple(believed),
        refused=tuple(text for id_, text in replaced if id_ not in believed),
        continues=tuple(known[n - 1][0] for n in fact.continues if 0 < n <= len(known)),
    )


def _naming(fact: ExtractedFact, cited: Sequence[Message], shown: Sequence[tuple[int, Message]]) -> Iterator[int]:
    """For each name of a fact that no cited message says: the latest message before that does: it says who "she" is.

    Who says a cited message needs no other one to be named.
    """
    said = fold(" ".join(f"{message.name or ''} {message.text}" for message in cited))
    for name in {*(entity.name for entity in fact.entities), *ground.mentioned_names(fact.text)}:
        if fold(name) not in said:
            yield from [id_ for id_, message in shown if fold(name) in fold(message.text)][-1:]


def _event(fact: ExtractedFact, request: ExtractionRequest, said: datetime) -> Event | None:
    """The event's days: a resolved date that was shown keeps its own precision: "last week" is seven days. Else those
    that the fact's own text names, unless the model gives others.
    """
    for turn in request.messages:
        for resolved in turn.dates:
            told = fact.when in (resolved.start, dates.shown(resolved)) and turn.number in fact.sources
            if told and resolved.precision != "day":
                return event_dates.of_resolved(resolved)
    given = event_dates.read(fact.when, said) if fact.when else None
    names = [entity.name for entity in fact.entities]
    return event_dates.named(fact.text, said, names, relative=True, given=given)


def _living_twin(
    db: apsw.Connection, scope: StoredScope, fact: NewFact, now: int, batch_id: int, across_runs: bool
) -> facts.Twin | None:
    """The living fact that says the same, in the scope or, across runs, anywhere in its root."""
    twin = lifecycle.open_twin(db, scope.id, fact.text, now, batch_id)
    if twin is None and across_runs:
        twin = facts.twin_in_root(db, scope.root_id, fact.text)
    return twin
