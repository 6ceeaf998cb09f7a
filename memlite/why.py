"""Why a stored fact or message did or did not come back: the first true cause, found by asking as search asks."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import apsw

from memlite import arguments, batches, entities, facts, history, ids, instants, messages, rank, search, vectors
from memlite.errors import excerpt
from memlite.records import Fact, Message, Scope, Verdict, Why
from memlite.search import Asked, Lane, Ranked, Ranking
from memlite.words import unquoted

PARTS = 3  # parts of the score that are compared with the last hit's
MOST_WORDS = 8  # words of the query that a reason names
LONGEST = 200  # characters of metadata that a reason quotes


@dataclass(frozen=True, slots=True)
class Given:
    """What the search was given. no_vector: why its query could have none, "" where nothing speaks against one."""

    query: str
    scope: Scope
    include: Collection[str]
    limit: int
    no_vector: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """The fact or message that is asked about, with its row id."""

    lane: Lane
    row_id: int
    record: Fact | Message


class Cause(NamedTuple):
    """A verdict in words. instead: the id of what came, or counts, in the target's place."""

    verdict: Verdict
    reason: str
    instead: str | None = None


def answer(db: apsw.Connection, asked: Asked | None, id: str, place: tuple[str, Sequence[object]], given: Given) -> Why:
    """Why `id` did or did not come back. asked: None where nobody has ever used the scope.

    id: of a fact or message, or enough of its beginning. place: the scopes (alias `s`) where it is looked for.
    Raises InvalidInputError for what cannot be an id, NotFoundError where several begin so.
    """
    query = given.query.encode("utf-8", "replace").decode()
    target = _find(db, id, place)
    if target is None:
        return _gone(db, id, place, query)
    record = target.record
    text = record.content if isinstance(record, Message) else record.text
    kept = Why(record.id, query, "returned", "", kind=target.lane.kind, text=text)
    hidden = _past(db, target, asked) or _elsewhere(asked, target, given)
    if asked is None or hidden:
        assert hidden  # what is stored has a scope, and that is another one where `asked` is None
        return replace(kept, **hidden._asdict())
    hidden = _filtered(db, asked, target, given)
    if hidden:
        return replace(kept, **hidden._asdict())
    ranking = search.ranking(db, asked, given.include, given.limit)
    with_vectors = asked.vector is not None
    floor = rank.floor(vectors=with_vectors)
    kept = replace(kept, candidates=len(ranking.ranked), evidence=ranking.evidence, floor=floor)
    at = _position(ranking.ranked, target.lane.kind, target.row_id)
    if at is None:
        return replace(kept, **_not_nominated(db, asked, ranking, target, given)._asdict())
    mine, last = ranking.ranked[at - 1], ranking.chosen[-1]
    kept = replace(
        kept,
        rank=at,
        score=mine.score,
        explain=search.explained(db, asked, mine, ranking),
        last=_uid(db, last),
        last_score=last.score,
        apart=_apart(mine.signals, last.signals, vectors=with_vectors),
    )
    return replace(kept, **_placed(db, asked, ranking, target, given, floor)._asdict())


def _find(db: apsw.Connection, id: str, place: tuple[str, Sequence[object]]) -> Target | None:
    """What an id or its beginning means, None where nothing visible begins so."""
    prefix = arguments.id_prefix(id)
    in_facts, in_messages = ids.find(db, "facts", prefix, *place), ids.find(db, "messages", prefix, *place)
    if not in_facts + in_messages:
        return None
    row = arguments.only(id, "fact or message", in_facts + in_messages)
    if row not in in_facts:
        return Target(search.MESSAGES, row[0], messages.fetch(db, [row[0]])[row[0]])
    named = entities.of_facts(db, json.dumps([row[0]]))
    return Target(search.FACTS, row[0], facts.fetch(db, [row[0]], named, *place)[row[0]])


def _gone(db: apsw.Connection, id: str, place: tuple[str, Sequence[object]], query: str) -> Why:
    """What the history knows of an id that nothing stored has."""
    known = history.find(db, arguments.id_prefix(id), *place)
    if not known:
        reason = (
            f"no fact or message {excerpt(id.strip())} is visible here, and the history knows none of that id; "
            "`memlite list` shows the ids of facts"
        )
        return Why(id.strip(), query, "not stored", reason)
    _, uid = arguments.only(id, "fact or message", [(0, uid) for uid in known])
    events = history.of_fact(db, uid)
    event, kind = events[-1], "message" if events[0].action == "DELETE" else "fact"  # of a message that is all
    by = f" by {event.actor}" if event.actor else ""
    at = f"{event.at:%Y-%m-%d %H:%M}"
    reason = f"the {kind} was deleted on {at}{by}, and what is deleted is gone for good; add it anew"
    return Why(uid, query, "deleted", reason, kind=kind)


def _past(db: apsw.Connection, target: Target, asked: Asked | None) -> Cause | None:
    """Why it is past, where the past was not asked for: of a message, that a fact learnt from it is."""
    lane = target.lane
    shown = asked.condition(lane) if asked else lane.condition
    if db.execute(f"SELECT {shown} FROM {lane.table} {lane.alias} WHERE {lane.alias}.id = ?", (target.row_id,)).get:
        return None
    if asked and (later := _later(db, target, asked)):
        return later
    if lane is search.FACTS:
        cause = _past_fact(db, target.row_id)
        return cause._replace(reason=f"it {cause.reason}; {_to_see(cause)}")
    return _past_message(db, target.row_id)


def _past_message(db: apsw.Connection, message_id: int) -> Cause:
    """Why a message is hidden, says nothing of its own, or has something put away."""
    batch_id, archived_at, own, spent = next(
        db.execute("SELECT batch_id, archived_at, own, spent FROM messages WHERE id = ?", (message_id,))
    )
    if archived_at is not None and batches.undone_by(db, batch_id):
        return Cause("archived", "the add that stored it was undone; `memlite undo` of that undo brings it back")
    if archived_at is not None:
        return Cause("archived", "an audit's fix hid it, for it says a secret; `memlite undo` of that brings it back")
    if own == "":
        return Cause("recalled", "it only repeats what memlite itself had recalled, which no search returns twice")
    learnt = [id_ for id_, _ in facts.fed_by(db, json.dumps([message_id]))]
    listed = json.dumps([id_ for id_ in learnt if facts.is_put_away(db, id_)] or learnt)
    versions = facts.owners(db, listed)
    causes = [_past_fact(db, id_) for id_ in json.loads(listed) if id_ not in versions]
    causes += [Cause("deleted", "was deleted, and its messages were kept")] if spent else []
    causes = causes or [Cause("replaced", "was changed by hand since", uid) for uid in versions.values()]
    cause = min(causes, key=lambda cause: ("replaced", "expired", "deleted", "archived").index(cause.verdict))
    more = f", and {len(causes) - 1} more put away" if len(causes) > 1 else ""
    return cause._replace(reason=f"a fact learnt from it {cause.reason}{more}; {_to_see(cause)}")


def _later(db: apsw.Connection, target: Target, asked: Asked) -> Cause | None:
    """That it is of a time after the one that was searched."""
    fact = target.lane is search.FACTS
    began, searched, what = (
        ("valid_from" if fact else "observed_at", asked.as_of, "true" if fact else "said")
        if asked.as_of is not None
        else ("created_at", asked.known_at, "stored")
    )
    at: int = db.execute(f"SELECT {began} FROM {target.lane.table} WHERE id = ?", (target.row_id,)).get
    if searched is None or at <= searched:
        return None
    return Cause(
        "not yet", f"it was {what} on {instants.local(at):%Y-%m-%d %H:%M} only, after the time that was searched"
    )


def _to_see(cause: Cause) -> str:
    if cause.verdict == "archived":
        return "no search returns what was archived, `memlite show` shows it, `memlite restore` brings a fact back"
    return "a search with past=True (`--past`) shows it"


def _past_fact(db: apsw.Connection, fact_id: int) -> Cause:
    """Why a fact is past, for a sentence that begins with it."""
    fact = facts.fetch(db, [fact_id], {})[fact_id]
    by = facts.replacing(db, fact_id)
    actions = {event.action for event in history.of_fact(db, fact.id)}
    ended = fact.valid_to or fact.expires_at
    on = f" on {ended:%Y-%m-%d %H:%M}" if ended else ""
    if by or "SUPERSEDE" in actions:
        return Cause("replaced", f"was replaced{on} by {by or 'a fact that was deleted since'}", by)
    if "EXPIRE" in actions or (fact.expires_at and fact.expires_at <= instants.local(instants.now())):
        return Cause("expired", f"expired{on}")
    return Cause("archived", "was archived")


def _elsewhere(asked: Asked | None, target: Target, given: Given) -> Cause | None:
    """Why it is not in the scope that was searched."""
    scope = target.record.scope
    if asked and given.scope.given().items() <= scope.given().items():
        return None
    return Cause("other scope", f"it belongs to {scope}, and the search was in {given.scope}; search there to see it")


def _filtered(db: apsw.Connection, asked: Asked, target: Target, given: Given) -> Cause | None:
    """Why the conditions of the search leave it out."""
    kinds = f"{target.lane.kind}s"
    if kinds not in given.include:
        return Cause("filtered", f"the search was for {' and '.join(given.include)} only; include {kinds} to see it")
    if search.shown(db, asked, target.lane, [target.row_id]):
        return None
    metadata = json.dumps(dict(target.record.metadata), ensure_ascii=False)
    shown = metadata if len(metadata) <= LONGEST else metadata[:LONGEST] + "…"
    return Cause("filtered", f"its metadata, {shown}, does not meet the filter; change the filter or leave it out")


def _placed(db: apsw.Connection, asked: Asked, ranking: Ranking, target: Target, given: Given, floor: float) -> Cause:
    """What became of a candidate."""
    kind = target.lane.kind
    first = next(id_ for (of, id_), alike in ranking.twins.items() if of == kind and target.row_id in alike)
    number = _position(ranking.chosen, kind, first)
    hit = f"hit {number} of {len(ranking.chosen)}"
    citing = _citing(ranking, (target.row_id, first)) if kind == "message" else None
    if citing:
        uid = _uid(db, citing)
        reason = f"the fact {uid}, which was learnt from it, came back for it; include messages alone to see it itself"
        return Cause("shown by a fact", reason, uid)
    if number and first != target.row_id:
        uid = _uid(db, ranking.chosen[number - 1])
        return Cause("twin", f"{uid} says the same and came back for both as {hit}: equal texts are one hit", uid)
    if number and ranking.evidence < floor:
        reason = (
            f"it came back as {hit}, but `context` returns nothing: the evidence, {ranking.evidence:.2f}, is below the "
            f"floor, {floor:.2f}; a floor of 0 returns whatever is found"
        )
        return Cause("below the floor", reason)
    if number:
        with_vectors = asked.vector is not None
        cut = rank.cut(vectors=with_vectors)
        left_out = not _position(search.worth(ranking, cut, vectors=with_vectors), kind, first)
        beside = f"; `context` leaves it out, for it scores less than {cut:.1%} of what the best hit does"
        return Cause("returned", f"it came back as {hit}{beside if left_out else ''}")
    ordered, _ = search.choose(ranking.ranked, ranking.nominated, len(ranking.ranked))
    at = _position(ordered, kind, first)
    if at is None and kind == "fact":
        uid = _uid(db, next(r for r in ordered if r.id in ranking.nominated.sources[first] and r.kind == "message"))
        reason = f"the message {uid}, from which it was learnt, says more of what was asked and came back for it"
        return Cause("shown by a message", f"{reason}; include facts alone to see it itself", uid)
    if at is None:
        later = "with a larger limit a fact learnt from it comes for it; include messages alone to see it itself"
        return Cause("past the limit", f"the limit was {given.limit}; {later}")
    enough = _enough(db, asked, target, given, at)
    return Cause("past the limit", f"it would be hit {at}, and the limit was {given.limit}; {_limit(enough)}")


def _not_nominated(db: apsw.Connection, asked: Asked, ranking: Ranking, target: Target, given: Given) -> Cause:
    """What each lane was asked, and why it did not nominate the target."""
    own = search.by_itself(db, asked, target.lane, target.row_id)
    lanes = [
        _word_lane(asked, own, ranking.pool),
        _vector_lane(db, asked, target, ranking.pool, given),
        _name_lane(db, ranking, target) if target.lane is search.FACTS else _beside_lane(ranking),
    ]
    known = target.row_id in ranking.nominated.signals[target.lane.kind]
    put = "nothing speaks for it" if known else "neither words, meaning nor names put it forward"
    enough = _enough(db, asked, target, given, 2 * given.limit)
    advice = _limit(enough) if enough or own.terms else "ask in words that it has to see it"
    return Cause("not nominated", f"{put}: {'; '.join(lanes)}; {advice}")


def _word_lane(asked: Asked, own: rank.Signals, pool: int) -> str:
    terms = [unquoted(term) for term in asked.query.terms]
    if not terms:
        return "the query has no word to look for"
    held = [terms[at] for at in rank.bits(own.terms)]
    if held:
        return f"of the query's words it has {_listed(held)}, and {pool} others match better"
    return f"it has none of the query's words ({_listed(terms)})"


def _vector_lane(db: apsw.Connection, asked: Asked, target: Target, pool: int, given: Given) -> str:
    if asked.vector is None:
        return given.no_vector or "the query has no vector"
    kind, id_ = target.lane.kind, target.row_id
    nearest = search.by_vector(db, asked, target.lane, pool)
    found = vectors.similarities(db, kind, asked.vector, [id_])
    if id_ not in found:
        return "it has no vector yet (run `memlite work`)"
    if not nearest:
        return f"the similarity of its vector is {found[id_]:.2f}"
    end = min(nearest.values())
    return f"the similarity of its vector is {found[id_]:.2f}, the {len(nearest)} nearest end at {end:.2f}"


def _name_lane(db: apsw.Connection, ranking: Ranking, target: Target) -> str:
    if not ranking.named:
        return "the query names no entity that is known here"
    mentioned = entities.of_fact(db, target.row_id)
    both = [entity.name for entity in ranking.named if entity.id in mentioned]
    if both:
        return f"it mentions {_listed(both)}, as {ranking.pool} newer facts do"
    return f"it does not mention {_listed([entity.name for entity in ranking.named])}"


def _beside_lane(ranking: Ranking) -> str:
    return "no fact that was put forward cites it" + (
        f", it stands beside none of the {search.BEST} best messages" if ranking.nominated.signals["message"] else ""
    )


def _enough(db: apsw.Connection, asked: Asked, target: Target, given: Given, start: int) -> int | None:
    """A limit with which the target, or its twin, comes back: `start`, doubled until it does; None where none does."""
    limit = min(start, arguments.MOST)
    while True:
        ranking = search.ranking(db, asked, given.include, limit)
        if any(target.row_id in ranking.twins[r.kind, r.id] for r in ranking.chosen if r.kind == target.lane.kind):
            return limit
        if limit == arguments.MOST:
            return None
        limit = min(2 * limit, arguments.MOST)


def _limit(enough: int | None) -> str:
    if enough is None:
        return f"no limit up to {arguments.MOST} shows it, so ask more precisely or narrow the scope"
    return f"a limit of {enough} shows it"


def _apart(mine: rank.Signals, last: rank.Signals, *, vectors: bool) -> dict[str, float]:
    """The parts whose log-odds differ most from the last hit's, the largest difference first."""
    if mine.same or last.same:  # a score of 1 that is not the sum of its parts
        return {}
    theirs = rank.parts(last, vectors=vectors)
    apart = {
        name: round(weight * (value - theirs[name][0]), 4)
        for name, (value, weight) in rank.parts(mine, vectors=vectors).items()
    }
    return {name: apart[name] for name in sorted(apart, key=lambda name: -abs(apart[name]))[:PARTS] if apart[name]}


def _citing(ranking: Ranking, message_ids: Collection[int]) -> Ranked | None:
    """The returned fact that cites one of these messages."""
    sources = ranking.nominated.sources
    for r in ranking.chosen:
        if r.kind == "fact" and any(
            id_ in message_ids for twin in ranking.twins[r.kind, r.id] for id_ in sources.get(twin, ())
        ):
            return r
    return None


def _position(listed: Sequence[Ranked], kind: vectors.Kind, id_: int) -> int | None:
    """The place of a candidate in a list, from 1."""
    return next((at for at, r in enumerate(listed, 1) if (r.kind, r.id) == (kind, id_)), None)


def _uid(db: apsw.Connection, r: Ranked) -> str:
    uid: str = db.execute(f"SELECT uid FROM {r.kind}s WHERE id = ?", (r.id,)).get
    return uid


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:MOST_WORDS]) + (", …" if len(words) > MOST_WORDS else "")
