"""Finding facts and messages: candidates from every lane, their signals, one score, no duplicates."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import apsw

from memlite import entities, facts, messages, rank, vectors
from memlite.records import Explain, Fact, Hit, Message
from memlite.scopes import Reach
from memlite.words import Query, fold, match_expression, unquoted

POOL = 60  # candidates of each lane
_ENTITY_SIMILARITY = 0.7  # a query this close to an entity's name means that entity
_NAME_WORDS = 4  # words of the longest entity name looked up in a query
_RUN_CHARACTERS = 8


@dataclass(frozen=True, slots=True)
class Lane:
    """The names of one kind's tables and the condition under which its rows may be shown."""

    kind: vectors.Kind
    table: str
    alias: str
    condition: str


FACTS = Lane("fact", "facts", "f", facts.CURRENT)
MESSAGES = Lane("message", "messages", "m", messages.visible(facts.CURRENT))
LANES = {"facts": FACTS, "messages": MESSAGES}


@dataclass(frozen=True, slots=True)
class Asked:
    """A query with everything computed from it before the file is read."""

    query: Query
    vector: bytes | None
    reach: Reach
    entity_reach: Reach
    filter_sql: str
    filter_bindings: Sequence[object]
    now: int


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its score."""

    kind: vectors.Kind
    id: int
    score: float
    signals: rank.Signals


def find(db: apsw.Connection, asked: Asked, include: Collection[str], limit: int, explain: bool) -> list[Hit]:
    """The best hits, best first: a message only where no returned fact cites it, twins as one."""
    named = _named_entities(db, asked)
    ranked: list[Ranked] = []
    for name in include:
        lane = LANES[name]
        candidates = _candidates(db, asked, lane, named, max(POOL, 2 * limit))
        for id_, signals in candidates.items():
            score = rank.total(
                signals, vectors=asked.vector is not None, entities=bool(named), exact=bool(asked.query.exact)
            )
            if score > 0.0:  # a hit without any reason is none
                ranked.append(Ranked(lane.kind, id_, score, signals))
    # Facts before messages and new before old where the score is the same: the order never depends on chance.
    ranked.sort(key=lambda r: (-r.score, r.kind, -r.id))
    return _hits(db, asked, ranked, named, limit, explain)


def _candidates(
    db: apsw.Connection, asked: Asked, lane: Lane, named: Sequence[entities.Mentioned], pool: int
) -> dict[int, rank.Signals]:
    """The union of what every lane nominates, each with all of its signals."""
    found = {id_: rank.Signals() for id_ in _by_vector(db, asked, lane, pool)}
    if lane is FACTS:
        for entity in named:
            for id_ in _by_entity(db, asked, entity.id, pool):
                signals = found.setdefault(id_, rank.Signals())
                signals.entity = min(1.0, signals.entity + rank.entity_weight(entity.facts))
    for id_, counts in _by_words(db, asked, lane, pool, list(found)).items():
        found.setdefault(id_, rank.Signals()).occurrences = counts
    if asked.vector is not None:
        for id_, similarity in vectors.similarities(db, lane.kind, asked.vector, list(found)).items():
            found[id_].semantic = similarity
    _weigh_words(db, asked, lane, found)
    return found


def _by_words(
    db: apsw.Connection, asked: Asked, lane: Lane, pool: int, others: Sequence[int]
) -> dict[int, rank.Occurrences]:
    """How often each query term stands in the best rows by FTS5's BM25, and in `others`.

    Ordered by FTS5 itself, so that filters apply before the cut and it stops early.
    """
    if not asked.query.terms:
        return {}
    words, alias = f"{lane.kind}_words", lane.alias
    expression = _expression(asked, lane)
    rows = list(
        db.execute(
            f"""
        SELECT {words}.rowid, occurrences({words})
        FROM {words} CROSS JOIN {lane.table} {alias} ON {alias}.id = {words}.rowid
        WHERE {words} MATCH ? AND {lane.condition} AND {asked.filter_sql}
        ORDER BY {words}.rank LIMIT ?
        """,
            (expression, *asked.filter_bindings, pool),
        )
    )
    known = {id_ for id_, _ in rows}
    for id_ in others:
        if id_ not in known:
            # One seek a row: `rank` must not be asked for here, it would read the terms' whole lists each time.
            rows += db.execute(
                f"SELECT rowid, occurrences({words}) FROM {words} WHERE {words} MATCH ? AND rowid = ?",
                (expression, id_),
            )
    first = len(_scope_terms(asked, lane).split())  # the scope's own phrases come first in the expression
    found = {}
    for id_, counted in rows:
        length, average, *counts = counted.split()
        found[id_] = rank.Occurrences(int(length), float(average), tuple(map(int, counts[first:])))
    return found


def _weigh_words(db: apsw.Connection, asked: Asked, lane: Lane, found: dict[int, rank.Signals]) -> None:
    """BM25 with the frequencies of the scope searched: who everybody there talks about tells nothing apart."""
    terms = asked.query.terms
    if not terms or not any(signals.occurrences for signals in found.values()):
        return
    words, scope = f"{lane.kind}_words", _scope_terms(asked, lane)
    count = f"SELECT count(*) FROM {words} WHERE {words} MATCH ?"
    rows: int = db.execute(count, (match_expression((), scope),)).get
    containing = [db.execute(count, (match_expression((term,), scope),)).get for term in terms]
    idf = [rank.idf(rows, n) for n in containing]
    for signals in found.values():
        if signals.occurrences:
            signals.bm25 = rank.bm25(signals.occurrences, idf)
            matched = [n > 0 for n in signals.occurrences.counts]
            signals.words = tuple(unquoted(term) for term, hit in zip(terms, matched) if hit)
            if asked.query.exact:
                hits = sum(hit for term, hit in zip(terms, matched) if term in asked.query.exact)
                signals.exact = hits / len(asked.query.exact)


def _by_vector(db: apsw.Connection, asked: Asked, lane: Lane, pool: int) -> list[int]:
    """The nearest visible rows. Rows the index cannot tell are past are dropped after it, and more are asked for."""
    if asked.vector is None:
        return []
    within = _filtered(asked, lane) if asked.filter_sql != "1" else None
    k = pool
    while True:
        ids = [id_ for id_, _ in vectors.nearest(db, lane.kind, asked.vector, asked.reach.keys, k, asked.now, within)]
        shown = _visible(db, lane, ids)
        if len(shown) >= pool or len(ids) < k or k >= vectors.MOST:
            return [id_ for id_ in ids if id_ in shown][:pool]
        k *= 4


def _by_entity(db: apsw.Connection, asked: Asked, entity_id: int, pool: int) -> list[int]:
    rows = db.execute(
        f"""
        SELECT f.id FROM mentions n JOIN facts f ON f.id = n.fact_id JOIN scopes s ON s.id = f.scope_id
        WHERE n.entity_id = ? AND {facts.CURRENT} AND {asked.reach.sql} AND {asked.filter_sql}
        ORDER BY f.id DESC LIMIT ?
        """,
        (entity_id, *asked.reach.bindings, *asked.filter_bindings, pool),
    )
    return [id_ for (id_,) in rows]


def _scope_terms(asked: Asked, lane: Lane) -> str:
    return asked.reach.terms + (" live" if lane is FACTS else "")


def _expression(asked: Asked, lane: Lane) -> str:
    return match_expression(asked.query.terms, _scope_terms(asked, lane))


def _filtered(asked: Asked, lane: Lane) -> tuple[str, Sequence[object]]:
    """The rows a metadata filter admits, for the vector index to stay within."""
    alias = lane.alias
    sql = f"""
        SELECT {alias}.id FROM {lane.table} {alias} JOIN scopes s ON s.id = {alias}.scope_id
        WHERE {asked.reach.sql} AND {asked.filter_sql}
    """
    return sql, (*asked.reach.bindings, *asked.filter_bindings)


def _visible(db: apsw.Connection, lane: Lane, ids: list[int]) -> set[int]:
    alias = lane.alias
    rows = db.execute(
        f"""
        SELECT {alias}.id FROM {lane.table} {alias}
        WHERE {alias}.id IN (SELECT value FROM json_each(?)) AND {lane.condition}
        """,
        (json.dumps(ids),),
    )
    return {id_ for (id_,) in rows}


def _named_entities(db: apsw.Connection, asked: Asked) -> list[entities.Mentioned]:
    """The entities the query names: its words and word runs looked up by name, and by vector where they are on."""
    reach = asked.entity_reach
    named = entities.named(db, _possible_names(asked.query.text), reach.sql, reach.bindings)
    if asked.vector is not None:
        near = vectors.nearest(db, "entity", asked.vector, reach.keys, 5, asked.now)
        close = [id_ for id_, similarity in near if similarity >= _ENTITY_SIMILARITY]
        known = {entity.id for entity in named}
        named += [entity for entity in entities.fetch(db, close) if entity.id not in known]
    return named


def _possible_names(text: str) -> list[str]:
    words = [word.removesuffix("'s").removesuffix("’s") for word in text[:4000].split()[:64]]
    runs = {fold(" ".join(words[i : i + length])) for length in range(1, _NAME_WORDS + 1) for i in range(len(words))}
    for word in words:
        if not word.isascii():
            # Names inside a run without spaces: every piece of it is looked up.
            runs |= {fold(word[i : i + n]) for n in range(1, _RUN_CHARACTERS + 1) for i in range(min(len(word), 64))}
    return [name for name in runs if name]


def _hits(
    db: apsw.Connection,
    asked: Asked,
    ranked: list[Ranked],
    named: Sequence[entities.Mentioned],
    limit: int,
    explain: bool,
) -> list[Hit]:
    fact_ids = [r.id for r in ranked if r.kind == "fact"]
    listed = json.dumps(fact_ids)
    source_ids = messages.of_facts(db, listed, asked.reach.sql, asked.reach.bindings)
    hashes = {
        kind: _hashes(db, LANES[f"{kind}s"], [r.id for r in ranked if r.kind == kind]) for kind in ("fact", "message")
    }
    chosen, twins = _choose(ranked, source_ids, hashes, limit)

    shown_facts = [id_ for r in chosen if r.kind == "fact" for id_ in twins[r.kind, r.id]]
    mentions = entities.of_facts(db, json.dumps(shown_facts))
    fact_records = facts.fetch(db, shown_facts, mentions, asked.reach.sql, asked.reach.bindings)
    wanted = {id_ for fact in shown_facts for id_ in source_ids.get(fact, ())}
    wanted |= {r.id for r in chosen if r.kind == "message"}
    message_records = messages.fetch(db, sorted(wanted))

    hits = []
    for r in chosen:
        record: Fact | Message
        sources: Iterable[int]
        if r.kind == "fact":
            record = fact_records[r.id]
            sources = sorted({id_ for twin in twins[r.kind, r.id] for id_ in source_ids.get(twin, ())})
        else:
            record, sources = message_records[r.id], ()
        hits.append(
            Hit(
                kind=r.kind,
                id=record.id,
                text=record.text,
                score=r.score,
                record=record,
                sources=tuple(message_records[id_] for id_ in sources),
                explain=_explain(asked, r, record, named) if explain else None,
            )
        )
    return hits


def _choose(
    ranked: list[Ranked],
    source_ids: dict[int, list[int]],
    hashes: dict[str, dict[int, str]],
    limit: int,
) -> tuple[list[Ranked], dict[tuple[str, int], list[int]]]:
    """The first `limit` candidates, equal texts counted once, without messages that a chosen fact cites.

    Returns them and, for each, the row ids of all candidates it stands for.
    """
    best: list[Ranked] = []
    twins: dict[tuple[str, int], list[int]] = {}
    first: dict[tuple[str, str], Ranked] = {}
    for r in ranked:
        key = (r.kind, hashes[r.kind][r.id])
        if key not in first:
            first[key] = r
            best.append(r)
        twins.setdefault((r.kind, first[key].id), []).append(r.id)
    cited: set[int] = set()
    while True:
        chosen = [r for r in best if r.kind == "fact" or r.id not in cited][:limit]
        now_cited = {
            id_ for r in chosen if r.kind == "fact" for twin in twins[r.kind, r.id] for id_ in source_ids.get(twin, ())
        }
        # Each round only adds: a dropped message makes room for what came after it.
        if now_cited <= cited:
            return chosen, twins
        cited |= now_cited


def _hashes(db: apsw.Connection, lane: Lane, ids: list[int]) -> dict[int, str]:
    return dict(
        db.execute(
            f"SELECT id, hash FROM {lane.table} WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(ids),),
        )
    )


def _explain(asked: Asked, r: Ranked, record: Fact | Message, named: Sequence[entities.Mentioned]) -> Explain:
    signals = r.signals
    mentioned = {fold(entity.name) for entity in record.entities} if isinstance(record, Fact) else set()
    return Explain(
        semantic=None if asked.vector is None else signals.semantic or 0.0,
        keyword=rank.keyword(signals),
        entity=signals.entity,
        exact=signals.exact,
        total=r.score,
        words=signals.words,
        entities=tuple(entity.name for entity in named if fold(entity.name) in mentioned),
    )
