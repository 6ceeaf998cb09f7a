"""Deleting means gone: what goes with a fact or a message, and taking it out of every table."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import apsw

from memlite import batches, context, entities, facts, ground, history, lifecycle, messages, scopes, ttls, vectors
from memlite.sentences import quotes
from memlite.words import digest, fold


@dataclass(frozen=True, slots=True)
class Deletion:
    """Row ids of everything one deletion takes with it; `versions` are earlier texts of the facts.

    names: of a deleted entity. ttls: of a scope that is emptied. ids: of scopes that are
    emptied and forgotten, as "user_id=ana".
    """

    facts: tuple[int, ...]
    versions: tuple[int, ...]
    messages: tuple[int, ...]
    entities: tuple[int, ...]
    names: tuple[str, ...] = ()
    ttls: tuple[int, ...] = ()
    ids: tuple[str, ...] = ()


def of_facts(
    db: apsw.Connection, fact_ids: Iterable[int], keep_messages: bool, sql: str, bindings: Sequence[object]
) -> Deletion:
    """Facts with their earlier versions and, unless kept, the messages of a scope they were learnt from.

    Other facts those messages fed keep their text and lose that source.
    """
    chosen = list(fact_ids)
    old = facts.versions(db, json.dumps(chosen))
    sources = messages.of_facts(db, json.dumps(chosen + old), sql, bindings)
    gone = set() if keep_messages else {id_ for ids in sources.values() for id_ in ids}
    return _with_entities(db, chosen, old, gone)


def of_messages(db: apsw.Connection, message_ids: Iterable[int], sql: str, bindings: Sequence[object]) -> Deletion:
    """Messages and the facts of a scope that have no other source, or repeat a sentence or a name that only these
    messages say.
    """
    chosen = list(message_ids)
    fed = facts.fed_by(db, json.dumps(chosen), sql, bindings)
    alone = {id_ for id_, only in fed if only or _draws_on(db, id_, chosen)}
    # A version goes with its fact, and by itself when the fact has found other sources since.
    old = {*facts.versions(db, json.dumps(sorted(alone))), *facts.owners(db, json.dumps(sorted(alone)))}
    return _with_entities(db, sorted(alone - old), sorted(old), chosen)


def of_entity(
    db: apsw.Connection, entity_id: int, keep_messages: bool, sql: str, bindings: Sequence[object]
) -> Deletion:
    """An entity with every fact of a scope that mentions it, the messages they were learnt from unless kept, and
    earlier versions of other facts that mention it.

    What only names it is left: a name may be a common word, and nothing that is about something else may go.
    """
    mentioning = entities.mentioning(db, entity_id, sql, bindings)
    told = of_facts(db, [id_ for id_, old in mentioning if not old], keep_messages, sql, bindings)
    versions = sorted({*told.versions, *(id_ for id_, old in mentioning if old)})
    found = _with_entities(db, told.facts, versions, told.messages)
    return replace(found, names=tuple(sorted(entities.names(db, entity_id))))


def _draws_on(db: apsw.Connection, fact_id: int, message_ids: Collection[int]) -> bool:
    """Whether a fact repeats what, of all its sources, only these messages say."""
    text: str = db.execute("SELECT text FROM facts WHERE id = ?", (fact_id,)).get
    sources = messages.of_facts(db, json.dumps([fact_id]))[fact_id]
    told = messages.fetch(db, sources)
    gone = [told[id_].content for id_ in sources if id_ in message_ids]
    left = [told[id_] for id_ in sources if id_ not in message_ids]
    said = fold("\n".join(f"{message.name or ''}: {message.content}" for message in left))
    names = [fold(name) for name in ground.mentioned_names(text)]
    return any(
        quotes(text, content, [message.content for message in left])
        or any(name in fold(content) and name not in said for name in names)
        for content in gone
    )


def of_everything(db: apsw.Connection, sql: str, bindings: tuple[object, ...], *, with_ids: bool = False) -> Deletion:
    """Every fact and message of a scope, and its rules. sql, bindings: its condition over the alias `s`.

    with_ids: the user, agent and run as well.
    """
    every = facts.in_reach(db, sql, bindings)
    old = set(facts.versions(db, json.dumps(every)))
    found = _with_entities(
        db, [id_ for id_ in every if id_ not in old], sorted(old), messages.in_reach(db, sql, bindings)
    )
    ids = scopes.only_in(db, sql, bindings) if with_ids else ()
    return replace(found, ttls=tuple(ttls.in_reach(db, sql, bindings)), ids=tuple(ids))


def carry_out(db: apsw.Connection, deletion: Deletion, now: int, actor: str) -> None:
    """Delete all of it inside the caller's transaction: text, words, vectors, mentions, links, history text.

    What stays is each fact's id with the times of its events, the last one a DELETE.
    """
    fact_ids = deletion.facts + deletion.versions
    listed = json.dumps(fact_ids)
    touched = _batches_of(db, listed, json.dumps(deletion.messages))
    rows = list(
        db.execute("SELECT id, uid, scope_id FROM facts WHERE id IN (SELECT value FROM json_each(?))", (listed,))
    )
    versions = set(deletion.versions)
    for owner in facts.owners(db, json.dumps(deletion.versions)).values():
        history.blank(db, owner)  # its events quote what the version said
    for id_, uid, scope_id in rows:
        history.blank(db, uid)
        if id_ not in versions:
            history.record(db, "DELETE", uid, scope_id, now, actor=actor)
    vectors.delete(db, "fact", fact_ids)
    vectors.delete(db, "message", deletion.messages)
    vectors.delete(db, "entity", deletion.entities)
    lifecycle.withdraw(db, listed)
    for newer, older in facts.handed_on(db, listed):
        _hand_on(db, newer, older, now, actor)
    messages.spend(db, listed)
    batches.forget_answers(db, listed, json.dumps(deletion.messages))
    aliases = entities.brought_by(db, listed)
    facts.delete(db, listed)
    entities.settle_aliases(db, aliases)
    messages.delete(db, json.dumps(deletion.messages))
    ttls.delete(db, deletion.ttls)
    scopes.forget(db, deletion.ids)
    batches.forget_empty(db, touched)


def repeating(db: apsw.Connection, contents: Iterable[str], sql: str, bindings: Sequence[object]) -> list[str]:
    """The ids of the messages of a scope that repeat any of these messages as `context` writes them."""
    gone = {digest(content) for content in contents}
    like = "m.content GLOB '*- *([0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*'"
    rows = db.execute(
        f"SELECT m.uid, m.content FROM messages m JOIN scopes s ON s.id = m.scope_id WHERE {like} AND {sql}",
        bindings,
    )
    return [
        uid
        for uid, content in rows
        if any(
            digest(said.partition(": ")[2]) in gone
            for line in content.split("\n")
            for read in context.recalled(line.strip())
            for said in read
        )
    ]


def _hand_on(db: apsw.Connection, newer: int, older: int, now: int, actor: str) -> None:
    """What replaced a deleted fact replaces what that one had replaced."""
    facts.link(db, newer, older, "replaces")
    sql = "SELECT n.uid, n.batch_id, o.uid, o.scope_id, o.valid_to FROM facts n, facts o WHERE n.id = ? AND o.id = ?"
    by, batch_id, uid, scope_id, ended = next(db.execute(sql, (newer, older)))
    if ended is not None:  # else it was reopened
        after = {"replaced_by": by, "valid_to": ended}
        history.record(db, "SUPERSEDE", uid, scope_id, now, batch_id=batch_id, actor=actor, after=after)


def _with_entities(
    db: apsw.Connection, fact_ids: Iterable[int], versions: Iterable[int], message_ids: Iterable[int]
) -> Deletion:
    fact_ids, versions = tuple(fact_ids), tuple(versions)
    lone = entities.only_in(db, json.dumps(fact_ids + versions))
    return Deletion(fact_ids, versions, tuple(sorted(message_ids)), tuple(lone))


def _batches_of(db: apsw.Connection, fact_ids: str, message_ids: str) -> str:
    rows = db.execute(
        """
        SELECT batch_id FROM facts WHERE id IN (SELECT value FROM json_each(?)) AND batch_id IS NOT NULL
        UNION SELECT batch_id FROM messages WHERE id IN (SELECT value FROM json_each(?))
        """,
        (fact_ids, message_ids),
    )
    return json.dumps([id_ for (id_,) in rows])
