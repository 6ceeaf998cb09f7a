"""Finding facts and messages: candidates from every lane, their signals, one score, no duplicates."""

from __future__ import annotations

import functools
import json
import operator
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, tzinfo
from itertools import islice

import apsw

from memlite import entities, facts, filters, instants, messages, rank, scopes, standing, tokens, vectors
from memlite.records import Explain, Fact, Hit, Message
from memlite.schema import HAPPENED_ON, SAID_ON
from memlite.scopes import Reach
from memlite.words import STOP_WORDS, Query, fold, match_expression, unquoted

POOL = 30  # candidates of each lane
MOST_ROWS = 1000  # rows that hold a term, up to which they are all read
_MANY = 8  # times MOST_ROWS: texts of a scope from which on the words of a query are not counted out
_COUNTED_OUT = 100_000  # row ids of an index up to which its rows are counted
_MOST_PASSING = 50  # the share of the ids of an index, 1 of so many, of which a filter's rows are listed
_FEW_PASSING = 300  # rows that may meet a filter, up to which their texts are read
_MOST_COMBINED = 8  # common terms of a query that are looked for together in so many texts
BEST = 20  # messages that nominate what stands beside them
SPEAKING = 30  # messages that speak for their session, however many are nominated for a higher limit
MOST_SAME = 200  # rows of each kind whose text is the query, that are all candidates ("ok" may be said every day)
_ENTITY_SIMILARITY = 0.7  # a query this close to an entity's name means that entity
_WORD = re.compile(r"\w+")
_BEGINNING, _MOST_BEGINNINGS = 4, 8  # letters of a word that may begin a name, and such words of a query
_NAME_WORDS = 4  # words of the longest entity name looked up in a query
_RUN_CHARACTERS = 8


@dataclass(frozen=True, slots=True)
class Lane:
    """The names of one kind's tables and the condition under which its rows may be shown.

    past: the condition with what no longer holds. true_at, known_at: for what was true, and what memlite took for true,
    at `{at}`, UTC milliseconds. said: the column with when it was last said.
    """

    kind: vectors.Kind
    table: str
    alias: str
    condition: str
    past: str
    true_at: str
    known_at: str
    said: str


FACTS = Lane("fact", "facts", "f", facts.CURRENT, facts.KEPT, facts.TRUE_AT, facts.KNOWN_AT, "last_confirmed_at")
MESSAGES = Lane(
    "message",
    "messages",
    "m",
    messages.untouched(facts.PUT_AWAY),
    f"({messages.untouched(facts.PUT_AWAY)} OR {messages.visible(facts.KEPT)})",
    f"({messages.visible(facts.TRUE_AT)} AND m.observed_at <= {{at}})",
    f"({messages.visible_at(facts.KNOWN_AT)} AND m.created_at <= {{at}})",
    "observed_at",
)
LANES = {"facts": FACTS, "messages": MESSAGES}


@dataclass(frozen=True, slots=True)
class Asked:
    """A query with everything computed from it before the file is read.

    periods: the first and last days of the times that it names; `dated`, a bit for each term that only names them.
    then: UTC milliseconds at the end of a past one of them; what was true then may be shown as well. past: whether past
    facts may be shown as well. current_first: those that have replaced them before them; else, where the query asks for
    what was, behind them.
    as_of: UTC milliseconds at which what is shown has to hold, instead of now. known_at: at which memlite knew it.
    needed: what the filter needs (filters.needed); passing: of each kind the only rows that may meet it, if it is
    known. half_life: milliseconds in which the odds of a hit halve; None: its age does not count. zone: of what is
    shown.
    """

    query: Query
    digest: str
    vector: bytes | None
    reach: Reach
    entity_reach: Reach
    filter_sql: str
    filter_bindings: Sequence[object]
    now: int
    needed: Sequence[Sequence[filters.Needed]] = ()
    passing: Mapping[vectors.Kind, set[int]] = field(default_factory=dict)
    periods: Sequence[tuple[date, date]] = ()
    dated: int = 0
    then: int | None = None
    past: bool = False
    current_first: bool = False
    as_of: int | None = None
    known_at: int | None = None
    half_life: int | None = None
    zone: tzinfo | None = None

    @property
    def living_only(self) -> bool:
        """Whether only what holds now may be shown, as the indexes mark it."""
        return not self.past and self.as_of is None and self.known_at is None and self.then is None

    def condition(self, lane: Lane) -> str:
        """The condition over the lane's alias under which its rows may be shown."""
        if self.as_of is not None:
            return lane.true_at.format(at=self.as_of)
        if self.known_at is not None:
            return lane.known_at.format(at=self.known_at)
        if self.then is not None and not self.past:
            return f"({lane.condition} OR {lane.true_at.format(at=self.then)})"
        return lane.past if self.past else lane.condition


@dataclass(frozen=True, slots=True)
class Candidates:
    """What every lane nominates. sources: the messages behind each fact; hashes: of each text's normal form; terms: the
    query's, in the texts of each kind.
    """

    signals: dict[vectors.Kind, dict[int, rank.Signals]]
    sources: dict[int, list[int]]
    hashes: dict[vectors.Kind, dict[int, str]]
    terms: dict[vectors.Kind, rank.Terms]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its score."""

    kind: vectors.Kind
    id: int
    score: float
    signals: rank.Signals


@dataclass(frozen=True, slots=True)
class Ranking:
    """All candidates, best first, and those that are returned, each with the row ids of all that it stands for.

    best: the signals of the first one, as the evidence judges them.
    """

    named: list[entities.Mentioned]
    pool: int
    nominated: Candidates
    ranked: list[Ranked]
    chosen: list[Ranked]
    twins: dict[tuple[str, int], list[int]]
    best: rank.Signals | None
    evidence: float


def find(
    db: apsw.Connection, asked: Asked, include: Collection[str], limit: int, *, explain: bool, share: float = 0.0
) -> tuple[list[Hit], float]:
    """The best hits, best first, and the evidence that anything answers: a message only where no returned fact cites
    it, twins as one. share: of the best hit's score, that the others must have.
    """
    found = ranking(db, asked, include, limit)
    if share:
        found = replace(found, chosen=worth(found, share, vectors=asked.vector is not None))
    return _hits(db, asked, found, explain), found.evidence


def worth(found: Ranking, share: float, *, vectors: bool) -> list[Ranked]:
    """The hits that score at least a share of the best one, their age left out: what is old is no noise."""
    scores = [rank.score(replace(r.signals, age=0.0), vectors=vectors) for r in found.chosen]
    least = share * max(scores, default=0.0)
    return [r for r, score in zip(found.chosen, scores) if score >= least]


def ranking(db: apsw.Connection, asked: Asked, include: Collection[str], limit: int) -> Ranking:
    """Every candidate with its score, and the first `limit` hits among them."""
    if not scopes.outside(db, asked.reach):
        asked = replace(asked, reach=replace(asked.reach, terms=""))  # a term that all have only costs time
    asked = replace(asked, passing=_passing(db, asked))
    named = _named_entities(db, asked)
    pool = max(POOL, 2 * limit)
    nominated = candidates(db, asked, include, pool, named)
    behind = _lift(db, asked, nominated.signals["fact"])
    ranked = [
        Ranked(kind, id_, rank.score(signals, vectors=asked.vector is not None), signals)
        for kind, found in nominated.signals.items()
        if f"{kind}s" in include
        for id_, signals in found.items()
        if rank.has_reason(signals)
    ]
    # Facts before messages, current ones before what they replaced, the query's own text before what stands for it, and
    # new before old where the score is the same: the order never depends on chance.
    ranked.sort(
        key=lambda r: (
            -r.score,
            r.kind,
            r.kind == "fact" and r.id in behind,
            nominated.hashes[r.kind][r.id] != asked.digest,
            -r.id,
        )
    )
    best, evidence = None, 0.0
    if ranked:  # a time that is named is met or not: that its words stand in no text says nothing
        best = rank.without(ranked[0].signals, nominated.terms[ranked[0].kind], asked.dated)
        evidence = rank.evidence(best, vectors=asked.vector is not None)
    chosen, twins = choose(ranked, nominated, limit)
    return Ranking(named, pool, nominated, ranked, chosen, twins, best, evidence)


def _lift(db: apsw.Connection, asked: Asked, found: Mapping[int, rank.Signals]) -> set[int]:
    """Where past facts may be shown, let one of each pair of a replaced fact and what stands in its place score as well
    as the other: the current one, or the past one if the query asks for what was. Return those that come behind.
    """
    if not asked.past:
        return set()
    pairs = [(old, new) for old, new, _ in facts.followers(db, json.dumps(list(found))) if new in found]
    if not asked.current_first:
        pairs = [(new, old) for old, new in pairs]
    for behind, first in pairs:
        rank.lift(found[first], found[behind], vectors=asked.vector is not None)
    return {behind for behind, _ in pairs}


def _passing(db: apsw.Connection, asked: Asked) -> dict[vectors.Kind, set[int]]:
    """Of each kind the only rows that may meet the filter, where these are few."""
    found: dict[vectors.Kind, set[int]] = {}
    for lane in LANES.values() if asked.needed else ():
        first, last = _ends(db, f"{lane.kind}_words")
        most = MOST_ROWS + (last - first) // _MOST_PASSING
        ids = filters.passing(db, lane.kind, asked.needed, most) if first <= last else None
        if ids is not None:
            found[lane.kind] = ids
    return found


def candidates(
    db: apsw.Connection,
    asked: Asked,
    include: Collection[str],
    pool: int,
    named: Sequence[entities.Mentioned] = (),
) -> Candidates:
    """What every lane nominates, with all signals.

    A fact that says best what its message says stands for that message, and has its signals: where the message is the
    query, the fact scores 1 as well. Not where it says something else (`rank.stands`).
    """
    hashes: dict[vectors.Kind, dict[int, str]] = {"fact": {}, "message": {}}
    any_said = messages.any_in(db, asked.reach.scopes, asked.reach.bindings)
    said = _terms(db, asked, MESSAGES) if any_said else _no_terms(asked)
    terms: dict[vectors.Kind, rank.Terms] = {"message": said}
    same = _same(db, asked, MESSAGES) if any_said else []
    found: dict[int, rank.Signals] = {}
    if "facts" in include:
        terms["fact"] = _terms(db, asked, FACTS)
        found = _facts(db, asked, terms["fact"], named, same, pool, hashes["fact"])
    cited: dict[int, list[int]] = {}
    told: dict[int, rank.Signals] = {}
    if any_said:
        nominate = "messages" in include
        within = f"{asked.reach.sql} AND m.archived_at IS NULL"
        cited = messages.of_facts(db, json.dumps(list(found)), within, asked.reach.bindings)
        told = _messages(db, asked, said, cited, same, pool, hashes["message"], nominate=nominate)
    best: dict[int, int] = {}  # of each message, the fact learnt from it that matches best
    for fact_id, sources in cited.items():
        for id_ in sources:
            if id_ in told and (id_ not in best or rank.match(found[fact_id]) > rank.match(found[best[id_]])):
                best[id_] = fact_id
    if asked.half_life is not None:
        _grow_old(db, asked, FACTS, asked.half_life, found)
        _grow_old(db, asked, MESSAGES, asked.half_life, told)
    alone = dict(found)
    extracted = facts.extracted(db, best.values())
    vectors_on = asked.vector is not None
    for id_, fact_id in best.items():
        signals, fact = told[id_], alone[fact_id]
        signals.fact_semantic, signals.fact_keyword = fact.semantic, fact.keyword
        if fact_id in extracted:
            signals.fact_semantic = rank.extracted(fact.semantic, signals.semantic)
            signals.fact_keyword = rank.extracted(fact.keyword, signals.keyword)
        signals.entity, signals.exact = max(signals.entity, fact.entity), max(signals.exact, fact.exact)
        signals.when = max(signals.when, fact.when)
        if not rank.stands(fact, signals):
            continue
        stands = replace(
            signals,
            terms=signals.terms | fact.terms,
            age=min(signals.age, fact.age),
            speaker=max(signals.speaker, fact.speaker),
        )
        if not found[fact_id].same and (
            rank.score(stands, vectors=vectors_on) > rank.score(found[fact_id], vectors=vectors_on)
        ):
            found[fact_id] = stands
    return Candidates({"fact": found, "message": told}, cited, hashes, terms)


def _facts(
    db: apsw.Connection,
    asked: Asked,
    terms: rank.Terms,
    named: Sequence[entities.Mentioned],
    same: Sequence[int],
    pool: int,
    hashes: dict[int, str],
) -> dict[int, rank.Signals]:
    """The facts that vectors, words and entities nominate, and those that are the query, or are learnt from `same`,
    the messages that are.
    """
    if not terms.texts:
        return {}
    of_text = (*_same(db, asked, FACTS), *shown(db, asked, FACTS, messages.facts_of(db, same)))
    near = by_vector(db, asked, FACTS, pool)
    found = {id_: rank.Signals() for id_ in (*of_text, *near, *_by_words(db, asked, FACTS, terms, pool))}
    for entity in named:
        for id_ in _by_entity(db, asked, entity.id, pool):
            signals = found.setdefault(id_, rank.Signals())
            signals.entity = min(1.0, signals.entity + rank.entity_weight(entity.facts, in_part=entity.in_part))
    for id_ in _by_day(db, asked, FACTS, pool):
        found.setdefault(id_, rank.Signals())
    if asked.past:
        listed = json.dumps(list(found))
        if asked.current_first:
            others = {new for _, new, _ in facts.followers(db, listed)}
        else:
            others = {old for each in facts.replaced_by(db, listed).values() for old in each}
        found |= {id_: rank.Signals() for id_ in shown(db, asked, FACTS, others - set(found))}
    _match(db, asked, FACTS, terms, found, near, hashes)
    best = max(map(rank.match, found.values()), default=0.0) or 1.0
    if asked.periods:
        for id_, (first, last) in facts.days(db, found).items():
            found[id_].when = float(_meets(asked, first, last))
        for id_ in facts.true_only_then(db, found, asked.then) if asked.then is not None else ():
            found[id_].when = 1.0
    for signals in found.values():
        signals.around, signals.around_terms = signals.keyword, signals.terms
        signals.words = terms.weight(signals.terms, rank.SHORTEST)
        signals.session = rank.match(signals) / best
        signals.length = rank.length(rank.SHORTEST)
    for id_ in _first_named(asked, facts.subjects(db, found)):
        found[id_].speaker = 1.0
    return found


def _messages(
    db: apsw.Connection,
    asked: Asked,
    terms: rank.Terms,
    cited: Mapping[int, Sequence[int]],
    same: Sequence[int],
    pool: int,
    hashes: dict[int, str],
    *,
    nominate: bool,
) -> dict[int, rank.Signals]:
    """The messages behind facts and, where they may be hits, those that are the query (`same`), those that vectors and
    words nominate, and what stands beside the best of them: an answer often has no word of its question.
    """
    sources = {id_ for ids in cited.values() for id_ in ids}
    ids = set(shown(db, asked, MESSAGES, sources))
    near: dict[int, float] = by_vector(db, asked, MESSAGES, pool) if nominate else {}
    if nominate:
        ids |= {*same, *near, *_by_words(db, asked, MESSAGES, terms, pool), *_by_day(db, asked, MESSAGES, pool)}
    found = {id_: rank.Signals() for id_ in ids}
    _match(db, asked, MESSAGES, terms, found, near, hashes)
    best = sorted(found, key=lambda id_: (-rank.match(found[id_]), id_))
    own = {id_: found[id_] for id_ in best[:SPEAKING]}
    places = messages.places(db, found)
    if nominate:
        beside = {other for id_ in best[:BEST] for other in (*places[id_].before[:1], *places[id_].after[:1])} - set(
            found
        )
        more = {id_: rank.Signals() for id_ in shown(db, asked, MESSAGES, beside)}
        _match(db, asked, MESSAGES, terms, more, {}, hashes)
        found |= more
        places |= messages.places(db, more)
    around = {id_ for place in places.values() for id_ in (*place.before, *place.after)} - set(found)
    _look_up(db, asked, MESSAGES, terms, around)
    if asked.living_only:
        holding = around & terms.rows.keys()
        for id_ in holding - _visible(db, asked, holding):
            del terms.rows[id_]  # what was put away speaks for nothing beside it either
    _surround(asked, terms, found, own, places)
    return found


def by_itself(db: apsw.Connection, asked: Asked, lane: Lane, id_: int) -> rank.Signals:
    """The signals of one text by itself, nominated or not."""
    signals = rank.Signals()
    _match(db, asked, lane, _terms(db, asked, lane), {id_: signals}, {}, {})
    return signals


def _match(
    db: apsw.Connection,
    asked: Asked,
    lane: Lane,
    terms: rank.Terms,
    found: dict[int, rank.Signals],
    near: dict[int, float],
    hashes: dict[int, str],
) -> None:
    """The signals of each text by itself; its hash is kept for finding twins. near: similarities that are known."""
    if asked.vector is not None:
        others = [id_ for id_ in found if id_ not in near]
        for id_, similarity in (near | vectors.similarities(db, lane.kind, asked.vector, others)).items():
            found[id_].semantic = similarity
    _look_up(db, asked, lane, terms, found)
    exact = sum(1 << at for at, term in enumerate(asked.query.terms) if term in asked.query.exact)
    for id_, signals in found.items():
        signals.terms = terms.rows.get(id_, 0)
        signals.keyword = terms.share(signals.terms)
        if exact:
            signals.exact = (signals.terms & exact).bit_count() / exact.bit_count()
    read = _hashes(db, lane, list(found))
    hashes |= read
    for id_, hash_ in read.items():
        found[id_].same = hash_ == asked.digest


def _surround(
    asked: Asked,
    terms: rank.Terms,
    found: dict[int, rank.Signals],
    own: Mapping[int, rank.Signals],
    places: Mapping[int, messages.Place],
) -> None:
    """The signals that each message has from those around it. own: those that were nominated for themselves."""
    sessions = _sessions(places)
    matches: dict[int, list[float]] = {}
    for id_, signals in own.items():
        matches.setdefault(sessions[id_], []).append(rank.match(signals))
    strength = {session: sum(sorted(each, reverse=True)[: rank.SESSION]) for session, each in matches.items()}
    best = max(strength.values(), default=0.0) or 1.0
    words = set(_WORD.findall(fold(asked.query.text)))
    named = {
        name for name in {place.name for place in places.values()} if words.intersection(_WORD.findall(fold(name)))
    }
    rows = terms.rows
    for id_, signals in found.items():
        place = places[id_]
        next_ = (*place.before[:1], *place.after[:1])
        beside = [rows[other] for other in next_ if other in rows]
        further = [rows[other] for other in (*place.before[1:], *place.after[1:]) if other in rows]
        held = functools.reduce(operator.or_, further, functools.reduce(operator.or_, beside, signals.terms))
        signals.around, signals.around_terms = terms.share(held), held
        signals.words = terms.weight(signals.terms, place.characters, (beside, further)) if held else 0.0
        signals.near = max([found[other].semantic for other in next_ if other in found], default=0.0)
        signals.session = strength.get(sessions[id_], 0.0) / best
        signals.speaker = float(place.name in named)
        signals.question = float(place.question)
        signals.same = signals.same and not place.question  # what was asked before does not answer it
        if asked.periods:
            day = instants.day(place.at, place.offset)
            signals.when = float(_meets(asked, day, day))
        signals.assistant = rank.length(place.characters) if place.assistant else 0.0
        signals.length = rank.length(max(place.characters, rank.SHORTEST))


def _first_named(asked: Asked, subjects: Mapping[int, str]) -> list[int]:
    """Those of the facts, by their subjects' names, that are about the one whom the query names first."""
    words = {id_: set(_WORD.findall(fold(name))) for id_, name in subjects.items()}
    asked_for = {unquoted(term).casefold() for term in asked.query.terms}
    known = set().union(*words.values()) - (STOP_WORDS - asked_for)  # The Hague is not named by "the"
    first = next((word for word in _WORD.findall(fold(asked.query.text)) if word in known), None)
    return [id_ for id_, name in words.items() if first in name]


def _meets(asked: Asked, first: date, last: date) -> bool:
    """Whether what was from `first` to `last` was at a time that the query names."""
    return any(first <= end and begin <= last for begin, end in asked.periods)


def _sessions(places: Mapping[int, messages.Place]) -> dict[int, int]:
    """A number for the session of each message: those of one scope without a long silence between."""
    found: dict[int, int] = {}
    number, last = 0, None
    for id_ in sorted(places, key=lambda id_: (places[id_].scope_id, id_)):
        place = places[id_]
        if last is None or last.scope_id != place.scope_id or abs(place.at - last.at) > messages.SESSION_GAP:
            number += 1
        found[id_], last = number, place
    return found


def _terms(db: apsw.Connection, asked: Asked, lane: Lane) -> rank.Terms:
    """Which rows of the scope hold which of the query's terms: who everybody there talks about tells nothing apart.

    Of a term that more rows hold than MOST_ROWS only about how many, by how close together the first ones are:
    counting them would cost the more the less it tells. `_look_up` then reads the texts of those that matter.
    """
    words = f"{lane.kind}_words"
    rows = indexed = _indexed(db, words)
    scope = _inside(asked, lane, rows)
    if scope:
        rows = _count(db, words, scope)
    if not rows:
        return _no_terms(asked)
    held: dict[int, int] = {}
    idf, common = [], []
    for at, term in enumerate(asked.query.terms):
        first = f"SELECT rowid FROM {words} WHERE {words} MATCH ? ORDER BY rowid LIMIT ?"
        found: list[int] = [id_ for (id_,) in db.execute(first, (match_expression((term,), scope), MOST_ROWS + 1))]
        if len(found) > MOST_ROWS:
            common.append(at)
            before = _count(db, words, scope, found[-1]) if scope else _about(db, words, rows, found[-1])
            idf.append(rank.idf(rows, rows * len(found) / before))
            continue
        for id_ in found:
            held[id_] = held.get(id_, 0) | 1 << at
        idf.append(rank.idf(rows, len(found)))
    return rank.Terms(rows, tuple(idf), held, tuple(common), indexed)


def _no_terms(asked: Asked) -> rank.Terms:
    """Those of a scope without texts."""
    return rank.Terms(0, (0.0,) * len(asked.query.terms))


def _count(db: apsw.Connection, words: str, scope: str, last: int = 1 << 62) -> int:
    """How many rows of a scope the index has, up to a row id."""
    inside = f"SELECT count(*) FROM {words} WHERE {words} MATCH ? AND rowid <= ?"
    rows: int = db.execute(inside, (match_expression((), scope), last)).get
    return rows


def _indexed(db: apsw.Connection, words: str) -> int:
    """How many rows the index has; where they are very many, about: as many as they have ids."""
    first, last = _ends(db, words)
    if last - first >= _COUNTED_OUT:
        some = f"SELECT count(*) FROM (SELECT 1 FROM {words}_docsize LIMIT ?)"
        if db.execute(some, (_MANY * MOST_ROWS + 1,)).get > _MANY * MOST_ROWS:  # not most of them deleted
            return last - first + 1
    rows: int = db.execute(f"SELECT count(*) FROM {words}_docsize").get
    return rows


def _ends(db: apsw.Connection, words: str) -> tuple[int, int]:
    """The first and the last row id that the index has."""
    sql = f"SELECT (SELECT min(id) FROM {words}_docsize), (SELECT max(id) FROM {words}_docsize)"
    first, last = next(db.execute(sql))  # two seeks; both in one SELECT would be read from one end to the other
    return (0, -1) if first is None else (first, last)


def _about(db: apsw.Connection, words: str, rows: int, last: int) -> float:
    """About how many of all rows the index has up to a row id: of few they are counted, of many their ids are taken for
    spread evenly.
    """
    if rows <= _MANY * MOST_ROWS:
        counted: int = db.execute(f"SELECT count(*) FROM {words}_docsize WHERE id <= ?", (last,)).get
        return counted
    first, end = _ends(db, words)
    share: float = (last - first + 1) / (end - first + 1)
    return rows * share


def _look_up(db: apsw.Connection, asked: Asked, lane: Lane, terms: rank.Terms, ids: Collection[int]) -> None:
    """Fill in which of these rows hold the common terms."""
    if terms.common:
        common = [asked.query.terms[at] for at in terms.common]
        for id_, held in tokens.holding(db, lane.kind, common, ids):
            for at in rank.bits(held):
                terms.rows[id_] = terms.rows.get(id_, 0) | 1 << terms.common[at]


def _same(db: apsw.Connection, asked: Asked, lane: Lane) -> list[int]:
    """The rows whose text is the query. The other lanes may miss them: many texts have the same words, or none."""
    rows = db.execute(
        f"""
        SELECT {lane.alias}.id FROM ({asked.reach.scopes}) s
        CROSS JOIN {lane.table} {lane.alias} ON {lane.alias}.scope_id = s.id AND {lane.alias}.hash = ?
        WHERE {asked.condition(lane)} AND {asked.filter_sql}
        ORDER BY {lane.alias}.id DESC LIMIT {MOST_SAME}
        """,
        (*asked.reach.bindings, asked.digest, *asked.filter_bindings),
    )
    return [id_ for (id_,) in rows]


def _by_words(db: apsw.Connection, asked: Asked, lane: Lane, terms: rank.Terms, pool: int) -> list[int]:
    """The best rows by FTS5's BM25, ordered by FTS5 itself, so that filters apply before the cut and it stops early.

    A word that most texts hold ("user") nominates none: it would cost reading them all. Where the query has no other
    the newest texts are nominated, if there are many.

    To order by BM25 costs by the number of rows, of all scopes, that hold any of the words; of very many texts
    `_combined` tells.
    """
    if not asked.query.terms:
        return []
    telling = [at for at, idf in enumerate(terms.idf) if idf > rank.TELLING]
    many = max(terms.texts, terms.indexed / 2) > _MANY * MOST_ROWS  # BM25 asks all scopes how rare a word is
    if telling and many:
        return _combined(db, asked, lane, terms, telling, pool)
    said = [asked.query.terms[at] for at in telling] or asked.query.terms
    expression = match_expression(said, _inside(asked, lane, terms.texts))
    return _matching(db, asked, lane, expression, pool, best_first=bool(telling) or not (terms.common or many))


def _combined(
    db: apsw.Connection, asked: Asked, lane: Lane, terms: rank.Terms, telling: Sequence[int], pool: int
) -> list[int]:
    """The rows that hold most of the telling terms (their places) by idf, the newest first: of those with a rare term,
    and of those in which the most common ones stand together.
    """
    scope = _inside(asked, lane, terms.texts)
    common = [at for at in telling if at in terms.common]
    common = sorted(common, key=lambda at: -terms.idf[at])[:_MOST_COMBINED]
    others = [asked.query.terms[at] for at in common]
    rare = [asked.query.terms[at] for at in telling if at not in terms.common]
    wanted = sum(1 << at for at in telling)
    among = asked.passing.get(lane.kind)
    few = among is not None and len(among) <= _FEW_PASSING
    if among is not None and few:
        _look_up(db, asked, lane, terms, among)
    held = {id_: bits & wanted for id_, bits in terms.rows.items() if bits & wanted and (among is None or id_ in among)}
    for at, term in zip(common, others) if rare and not few else ():
        sql = f"SELECT rowid FROM {lane.kind}_words WHERE {lane.kind}_words MATCH ?"
        for (id_,) in db.execute(sql, (match_expression(rare, scope, also=(term,)),)):
            if id_ in held:
                held[id_] |= 1 << at
    alike: dict[int, list[int]] = {}
    for id_, bits in held.items():
        alike.setdefault(bits, []).append(id_)
    shares: dict[float, list[int]] = {}
    for bits, ids in alike.items():
        shares.setdefault(terms.share(bits), []).extend(ids)
    best = (id_ for share in sorted(shares, reverse=True) for id_ in sorted(shares[share], reverse=True))
    found = _first_shown(db, asked, lane, best, pool)
    if few:
        return found
    together: dict[int, None] = {}
    for count in range(len(others), int(len(found) >= pool), -1):  # as many of them as there are texts for
        if len(together) < pool:
            expression = match_expression((), scope, also=others[:count])
            together |= dict.fromkeys(_matching(db, asked, lane, expression, pool, best_first=False))
    return [*found, *list(together)[:pool]]


def _matching(
    db: apsw.Connection, asked: Asked, lane: Lane, expression: str, pool: int, *, best_first: bool
) -> list[int]:
    """The visible rows that match, by BM25 or the newest first."""
    words, alias = f"{lane.kind}_words", lane.alias
    order = f"{words}.rank" if best_first else f"{words}.rowid DESC"
    among = asked.passing.get(lane.kind)
    if among is not None:
        rows = db.execute(f"SELECT rowid FROM {words} WHERE {words} MATCH ? ORDER BY {order}", (expression,))
        return _first_shown(db, asked, lane, (id_ for (id_,) in rows if id_ in among), pool)
    rows = db.execute(
        f"""
        SELECT {words}.rowid FROM {words} CROSS JOIN {lane.table} {alias} ON {alias}.id = {words}.rowid
        WHERE {words} MATCH ? AND {asked.condition(lane)} AND {asked.filter_sql}
        ORDER BY {order} LIMIT ?
        """,
        (expression, *asked.filter_bindings, pool),
    )
    return [id_ for (id_,) in rows]


def _first_shown(db: apsw.Connection, asked: Asked, lane: Lane, ids: Iterable[int], count: int) -> list[int]:
    """The first of these rows that may be hits."""
    found: list[int] = []
    rest, size = iter(ids), 2 * count  # mostly all may be hits; of what hardly any may, many are asked for at once
    while len(found) < count and (part := list(islice(rest, size))):
        visible = shown(db, asked, lane, part)
        found += [id_ for id_ in part if id_ in visible]
        size = 8 * count
    return found[:count]


def _by_day(db: apsw.Connection, asked: Asked, lane: Lane, pool: int) -> list[int]:
    """What was said, or what happened, in a period that the query names: of each the first ones, and of what had begun
    before and went on then those that ended first.
    """
    alias = lane.alias
    first_day = (HAPPENED_ON if lane is FACTS else SAID_ON).format(alias)
    found: list[int] = []
    for first, last in ((first.isoformat(), last.isoformat()) for first, last in asked.periods):
        within = [(first_day, f"{first_day} BETWEEN ? AND ?", (first, last))]
        if lane is FACTS:
            went_on = "f.event_end > f.event_start AND f.event_end >= ? AND f.event_start < ?"
            within.append(("f.event_end", went_on, (first, first)))
        for day, condition, bindings in within:
            rows = db.execute(
                f"""
                SELECT id FROM (SELECT {alias}.id AS id, {day} AS day
                  FROM ({asked.reach.scopes}) s CROSS JOIN {lane.table} {alias} ON {alias}.id IN (
                    SELECT {alias}.id FROM {lane.table} {alias}
                    WHERE {alias}.scope_id = s.id AND {condition} AND {asked.condition(lane)} AND {asked.filter_sql}
                    ORDER BY {day} LIMIT ?)
                  ORDER BY day LIMIT ?)
                """,
                (*asked.reach.bindings, *bindings, *asked.filter_bindings, pool, pool),
            )
            found += [id_ for (id_,) in rows]
    return found


def by_vector(db: apsw.Connection, asked: Asked, lane: Lane, pool: int) -> dict[int, float]:
    """The nearest visible rows, nearest first, with their similarity."""
    if asked.vector is None:
        return {}
    visible = vectors.Shown(
        lambda ids: shown(db, asked, lane, ids), lambda: _all_shown(db, asked, lane), asked.passing.get(lane.kind)
    )
    return dict(vectors.nearest(db, lane.kind, asked.vector, asked.reach, pool, visible))


def _grow_old(db: apsw.Connection, asked: Asked, lane: Lane, half_life: int, found: Mapping[int, rank.Signals]) -> None:
    """Give candidates their age, at the time that is searched: what was said after it says nothing of then."""
    listed = json.dumps(list(found))
    said = f"SELECT id, {lane.said} FROM {lane.table} WHERE id IN (SELECT value FROM json_each(?))"
    then = asked.known_at if asked.as_of is None else asked.as_of
    for id_, last in list(db.execute(said, (listed,))):
        if lane is FACTS and then is not None and last > then:
            last = max((at for at in standing.confirmations(db, id_) if at <= then), default=then)
        found[id_].age = rank.age((asked.now if then is None else then) - last, half_life)


def _by_entity(db: apsw.Connection, asked: Asked, entity_id: int, pool: int) -> list[int]:
    rows = db.execute(
        f"""
        SELECT f.id FROM mentions n CROSS JOIN facts f ON f.id = n.fact_id CROSS JOIN scopes s ON s.id = f.scope_id
        WHERE n.entity_id = ? AND {asked.condition(FACTS)} AND {asked.reach.sql} AND {asked.filter_sql}
        ORDER BY n.fact_id DESC LIMIT ?
        """,
        (entity_id, *asked.reach.bindings, *asked.filter_bindings, pool),
    )
    return [id_ for (id_,) in rows]


def _inside(asked: Asked, lane: Lane, rows: int) -> str:
    """The scope terms to look up words in. rows: of the index, or of the scope. Where all of very many may be seen
    there are none: a term that nearly all of them hold would cost reading them all, and the rows tell what is past.
    """
    return "" if not asked.reach.terms and rows > MOST_ROWS else _scope_terms(asked, lane)


def _scope_terms(asked: Asked, lane: Lane) -> str:
    return asked.reach.terms + (" live" if lane is FACTS and asked.living_only else "")


def _all_shown(db: apsw.Connection, asked: Asked, lane: Lane) -> list[int]:
    """All rows that may be hits, filters included."""
    alias = lane.alias
    rows = db.execute(
        f"""
        SELECT {alias}.id FROM ({asked.reach.scopes}) s CROSS JOIN {lane.table} {alias} ON {alias}.scope_id = s.id
        WHERE {asked.condition(lane)} AND {asked.filter_sql}
        """,
        (*asked.reach.bindings, *asked.filter_bindings),
    )
    return [id_ for (id_,) in rows]


def shown(db: apsw.Connection, asked: Asked, lane: Lane, ids: Collection[int]) -> set[int]:
    """Those of the rows that may be hits, filters included."""
    alias = lane.alias
    rows = db.execute(
        f"""
        SELECT {alias}.id FROM {lane.table} {alias} JOIN scopes s ON s.id = {alias}.scope_id
        WHERE {alias}.id IN (SELECT value FROM json_each(?)) AND {asked.condition(lane)} AND {asked.reach.sql}
          AND {asked.filter_sql}
        """,
        (json.dumps(list(ids)), *asked.reach.bindings, *asked.filter_bindings),
    )
    return {id_ for (id_,) in rows}


def _visible(db: apsw.Connection, asked: Asked, message_ids: Collection[int]) -> set[int]:
    """Those of the messages that may be hits if no filter forbids it."""
    sql = f"SELECT m.id FROM messages m WHERE m.id IN (SELECT value FROM json_each(?)) AND {asked.condition(MESSAGES)}"
    return {id_ for (id_,) in db.execute(sql, (json.dumps(list(message_ids)),))}


def _named_entities(db: apsw.Connection, asked: Asked) -> list[entities.Mentioned]:
    """The entities the query names: its words and word runs looked up by name, its names by what begins with them,
    and the whole by vector where they are on.
    """
    reach = asked.entity_reach
    if not entities.any_in(db, reach):
        return []
    named = entities.named(db, _possible_names(asked.query.text), reach)
    known = {entity.id for entity in named}
    beginnings = _beginnings(asked.query.text)
    begun = [entity for each in beginnings for entity in entities.beginning(db, each, reach)]
    named += {entity.id: entity for entity in begun if entity.id not in known}.values()
    if asked.vector is not None:
        near = vectors.nearest(db, "entity", asked.vector, reach, 5, least=_ENTITY_SIMILARITY)
        close = [id_ for id_, similarity in near if similarity >= _ENTITY_SIMILARITY]
        known = {entity.id for entity in named}
        named += [entity for entity in entities.fetch(db, close) if entity.id not in known]
    return named


def _beginnings(text: str) -> list[str]:
    """The words, normalised, with which longer names may begin: "Christoph", or a query of one word.

    "live" is no name, though Liverpool begins so.
    """
    words = _split(text)
    names = dict.fromkeys(fold(word) for word in words if len(words) == 1 or word[:1].isupper())
    return [name for name in names if len(name) >= _BEGINNING and name not in STOP_WORDS][:_MOST_BEGINNINGS]


def _split(text: str) -> list[str]:
    return [word.removesuffix("'s").removesuffix("’s") for word in text[:4000].split()[:64]]


def _possible_names(text: str) -> list[str]:
    words = _split(text)
    runs = {fold(" ".join(words[i : i + length])) for length in range(1, _NAME_WORDS + 1) for i in range(len(words))}
    for word in words:
        if not word.isascii():
            # Names inside a run without spaces: every piece of it is looked up.
            runs |= {fold(word[i : i + n]) for n in range(1, _RUN_CHARACTERS + 1) for i in range(min(len(word), 64))}
    return [name for name in runs if name]


def _hits(db: apsw.Connection, asked: Asked, found: Ranking, explain: bool) -> list[Hit]:
    source_ids, chosen, twins = found.nominated.sources, found.chosen, found.twins
    shown_facts = [id_ for r in chosen if r.kind == "fact" for id_ in twins[r.kind, r.id]]
    fact_records, before, replaced = _fact_records(db, asked, shown_facts) if shown_facts else ({}, {}, {})
    wanted = {id_ for fact in shown_facts for id_ in source_ids.get(fact, ())}
    wanted |= {r.id for r in chosen if r.kind == "message"}
    message_records = messages.fetch(db, sorted(wanted))
    quotable = found.nominated.signals["message"]

    hits = []
    for r in chosen:
        record: Fact | Message
        sources: Sequence[int]
        older: Iterable[int] = ()
        if r.kind == "fact":
            record = fact_records[r.id]
            older = dict.fromkeys(id_ for twin in twins[r.kind, r.id] for id_ in before.get(twin, ()))
            sources = sorted({id_ for twin in twins[r.kind, r.id] for id_ in source_ids.get(twin, ())})
        else:
            record, sources = message_records[r.id], ()
        spoken = [id_ for id_ in sources if id_ in quotable]
        quoted = max(spoken, key=lambda id_: (rank.match(quotable[id_]), id_), default=None)
        hits.append(
            Hit(
                kind=r.kind,
                id=record.id,
                text=record.text,
                score=r.score,
                record=record,
                sources=tuple(message_records[id_] for id_ in sources),
                explain=explained(db, asked, r, found) if explain else None,
                replaced=tuple(replaced[id_] for id_ in older),
                quote=None if quoted is None else message_records[quoted],
            )
        )
    return hits


def _fact_records(
    db: apsw.Connection, asked: Asked, ids: list[int]
) -> tuple[dict[int, Fact], dict[int, list[int]], dict[int, Fact]]:
    """Facts by row id, the row ids of the past facts that each of them replaced, and those facts."""
    sql, bindings, listed = asked.reach.sql, asked.reach.bindings, json.dumps(ids)
    found = facts.fetch(db, ids, entities.of_facts(db, listed), sql, bindings, asked.zone)
    if asked.known_at is not None:
        before = _replaced_then(db, ids, asked.known_at, sql, bindings)
    else:
        before = facts.replaced_by(db, listed, f"{facts.KEPT} AND NOT {facts.CURRENT} AND {sql}", bindings)
    older = [id_ for each in before.values() for id_ in each]
    return found, before, facts.fetch(db, older, {}, sql, bindings, asked.zone) if older else {}


def _replaced_then(
    db: apsw.Connection, ids: Sequence[int], at: int, sql: str, bindings: Sequence[object]
) -> dict[int, list[int]]:
    """What each of these facts, or their earlier versions, had replaced as memlite knew then, in the words of then."""
    owners = {version: facts.by_uid(db, uid) for version, uid in facts.owners(db, json.dumps(list(ids))).items()}
    rows = {id_: owners.get(id_) or id_ for id_ in ids}
    condition = f"{facts.REPLACED_AT.format(at=at)} AND {sql}"
    before = facts.replaced_by(db, json.dumps(list(rows.values())), condition, bindings)
    then = facts.as_of_record(db, json.dumps([id_ for each in before.values() for id_ in each]), at)
    return {id_: [then.get(older, older) for older in before.get(row, ())] for id_, row in rows.items()}


def choose(
    ranked: list[Ranked], nominated: Candidates, limit: int
) -> tuple[list[Ranked], dict[tuple[str, int], list[int]]]:
    """The first `limit` candidates, equal texts counted once: no message that a better fact cites, and no fact whose
    messages have all come before it.

    Returns them and, for each, the row ids of all candidates it stands for.
    """
    source_ids, hashes = nominated.sources, nominated.hashes
    best: list[Ranked] = []
    twins: dict[tuple[str, int], list[int]] = {}
    first: dict[tuple[str, str], Ranked] = {}
    for r in ranked:
        key = (r.kind, hashes[r.kind][r.id])
        if key not in first:
            first[key] = r
            best.append(r)
        twins.setdefault((r.kind, first[key].id), []).append(r.id)
    chosen: list[Ranked] = []
    cited: set[int] = set()
    told: set[int] = set()
    for r in best:
        ids = twins[r.kind, r.id]
        if r.kind == "fact":
            ids = [id_ for twin in ids for id_ in source_ids.get(twin, ())]
            if ids and told.issuperset(ids):
                continue
            cited.update(ids)
        elif r.id in cited:
            continue
        else:
            told.update(ids)
        chosen.append(r)
        if len(chosen) == limit:
            break
    return chosen, twins


def _hashes(db: apsw.Connection, lane: Lane, ids: list[int]) -> dict[int, str]:
    return dict(
        db.execute(
            f"SELECT id, hash FROM {lane.table} WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(ids),),
        )
    )


def explained(db: apsw.Connection, asked: Asked, r: Ranked, found: Ranking) -> Explain:
    """Why a candidate has its score."""
    signals = r.signals
    terms = asked.query.terms
    with_vectors = asked.vector is not None
    mentioned = entities.of_fact(db, r.id) if r.kind == "fact" else set()
    return Explain(
        semantic=signals.semantic if with_vectors else None,
        keyword=max(signals.keyword, signals.fact_keyword),
        entity=signals.entity,
        exact=signals.exact,
        total=r.score,
        words=tuple(unquoted(terms[at]) for at in rank.bits(signals.terms)),
        entities=tuple(entity.name for entity in found.named if entity.id in mentioned),
        parts={
            name: (round(value, 4), weight)
            for name, (value, weight) in rank.parts(signals, vectors=with_vectors).items()
        },
        bias=rank.bias(vectors=with_vectors),
        evidence=found.evidence,
        floor=rank.floor(vectors=with_vectors),
    )
