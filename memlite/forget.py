"""Deleting means gone: what goes with a fact or a message, and taking it out of every table."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import apsw

from memlite import (
    batches,
    context,
    entities,
    facts,
    ground,
    history,
    lifecycle,
    messages,
    scopes,
    standing,
    ttls,
    vectors,
)
from memlite.sentences import quotes
from memlite.words import digest, fold


@dataclass(frozen=True, slots=True)
class Deletion:
    """Row ids of everything one deletion takes with it; `versions` are earlier texts of the facts.

    names: of a deleted entity. ttls: of a scope that is emptied. ids: of it, as "user_id=ana", that are forgotten with
    it. unsaid: facts that stay, each with a batch that says it no longer. notes: what the receipt says of what stays.
    """

    facts: tuple[int, ...]
    versions: tuple[int, ...]
    messages: tuple[int, ...]
    entities: tuple[int, ...]
    names: tuple[str, ...] = ()
    ttls: tuple[int, ...] = ()
    ids: tuple[str, ...] = ()
    unsaid: tuple[tuple[int, int], ...] = ()
    notes: tuple[str, ...] = ()


def of_facts(
    db: apsw.Connection, fact_ids: Iterable[int], keep_messages: bool, sql: str, bindings: Sequence[object]
) -> Deletion:
    """Facts with their earlier versions and, unless kept, the messages of a scope they were learnt from, and those that
    repeat them as memlite had recalled them.

    Other facts those messages fed keep their text and lose that source.
    """
    chosen = list(fact_ids)
    old = facts.versions(db, json.dumps(chosen))
    listed, gone = json.dumps(chosen + old), set[int]()
    if not keep_messages:
        sources = messages.of_facts(db, listed, sql, bindings)
        gone |= {id_ for ids in sources.values() for id_ in ids}
        gone |= {id_ for id_, _ in messages.recalling(db, listed, sql, bindings)}
    return _with_entities(db, chosen, old, gone)


def of_messages(db: apsw.Connection, message_ids: Iterable[int], sql: str, bindings: Sequence[object]) -> Deletion:
    """Messages and the facts of a scope that have no other source, or repeat a sentence or a name that only these
    messages say; but none that a caller has remembered without them.
    """
    chosen = list(message_ids)
    fed = facts.fed_by(db, json.dumps(chosen), sql, bindings)
    left = {id_: standing.left_saying(db, id_, chosen) for id_, _ in fed}
    alone = {id_ for id_, only in fed if not left[id_].by_itself and (only or _draws_on(db, id_, chosen))}
    # A version goes with its fact, and by itself when the fact has found other sources since.
    old = {*facts.versions(db, json.dumps(sorted(alone))), *facts.owners(db, json.dumps(sorted(alone)))}
    unsaid = [(id_, batch_id) for id_ in left if id_ not in alone | old for batch_id in left[id_].emptied]
    return replace(_with_entities(db, sorted(alone - old), sorted(old), chosen), unsaid=tuple(unsaid))


def of_rows(
    db: apsw.Connection,
    fact_ids: Iterable[int],
    message_ids: Iterable[int],
    keep_messages: bool,
    sql: str,
    bindings: Sequence[object],
) -> Deletion:
    """Facts and messages, each with what goes with it."""
    told, said = of_facts(db, fact_ids, keep_messages, sql, bindings), of_messages(db, message_ids, sql, bindings)
    versions = {*told.versions, *said.versions}
    gone = {*told.facts, *said.facts} - versions
    found = _with_entities(db, sorted(gone), sorted(versions), {*told.messages, *said.messages})
    return replace(found, unsaid=tuple(each for each in said.unsaid if each[0] not in gone | versions))


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
    gone = [told[id_].text for id_ in sources if id_ in message_ids]
    left = [told[id_] for id_ in sources if id_ not in message_ids]
    said = fold("\n".join(f"{message.name or ''}: {message.text}" for message in left))
    names = [fold(name) for name in ground.mentioned_names(text)]
    return any(
        quotes(text, own, [message.text for message in left])
        or any(name in fold(own) and name not in said for name in names)
        for own in gone
    )


def of_everything(db: apsw.Connection, sql: str, bindings: tuple[object, ...]) -> Deletion:
    """Every fact and message of a scope, its rules, and its ids where nothing else is stored under them.

    sql, bindings: its condition over the alias `s`.
    """
    every = facts.in_reach(db, sql, bindings)
    old = set(facts.versions(db, json.dumps(every)))
    found = _with_entities(
        db, [id_ for id_ in every if id_ not in old], sorted(old), messages.in_reach(db, sql, bindings)
    )
    alone, shared = scopes.ids_in(db, sql, bindings)
    notes = (f"something else is stored under {', '.join(shared)}: not forgotten",) if shared else ()
    return replace(found, ttls=tuple(ttls.in_reach(db, sql, bindings)), ids=tuple(alone), notes=notes)


def carry_out(db: apsw.Connection, deletion: Deletion, now: int, actor: str) -> None:
    """Delete all of it inside the caller's transaction: text, words, vectors, mentions, links, history text.

    What stays is the id of each fact and message with the times of its events, the last one a DELETE.
    """
    fact_ids = deletion.facts + deletion.versions
    listed, step = json.dumps(fact_ids), lifecycle.Step(now, actor)
    touched = _batches_of(db, listed, json.dumps(deletion.messages))
    rows = list(
        db.execute("SELECT id, uid, scope_id FROM facts WHERE id IN (SELECT value FROM json_each(?))", (listed,))
    )
    said_less = {id_ for id_, _ in deletion.unsaid} | {kept for id_ in fact_ids for kept in history.joined_to(db, id_)}
    versions = set(deletion.versions)
    for owner in facts.owners(db, json.dumps(deletion.versions)).values():
        history.blank(db, owner)  # its events quote what the version said
    for id_, uid, scope_id in rows:
        history.blank(db, uid)
        if id_ not in versions:
            history.record(db, "DELETE", uid, scope_id, now, actor=actor)
    for uid, scope_id in messages.scopes_of(db, deletion.messages):
        history.record(db, "DELETE", uid, scope_id, now, actor=actor)
    vectors.delete(db, "fact", fact_ids)
    vectors.delete(db, "message", deletion.messages)
    vectors.delete(db, "entity", deletion.entities)
    lifecycle.withdraw(db, listed)
    for newer, older in facts.handed_on(db, listed):
        lifecycle.hand_on(db, newer, older, step)
    beside = lifecycle.beside(db, listed)
    for id_, batch_id in deletion.unsaid:
        history.unsay(db, id_, batch_id, now, actor)
    messages.spend(db, listed)
    batches.forget_answers(db, listed, json.dumps(deletion.messages))
    aliases = entities.brought_by(db, listed)
    facts.delete(db, listed)
    lifecycle.settle_beside(db, beside)
    entities.settle_aliases(db, aliases)
    facts.mark_unsourced(db, json.dumps(deletion.messages))
    messages.delete(db, json.dumps(deletion.messages))
    lifecycle.settle_unsaid(db, said_less.difference(fact_ids), now)
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
            for said in (read.text, read.quoted)
        )
    ]


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
