"""Deletions as a memory makes them: chosen, shown before, carried out, looked at afterwards and told in a receipt."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import apsw

from memlite import (
    arguments,
    entities,
    erasure,
    facts,
    forget,
    history,
    ids,
    instants,
    messages,
    scopes,
    subjects,
    ttls,
)
from memlite.db import Database
from memlite.errors import DamagedFileError, NotFoundError
from memlite.forget import Deletion
from memlite.records import Checked, DeletionPreview, Fact, Matched, Matching, Receipt
from memlite.scopes import Reach
from memlite.words import match_expression, read_query, unquoted

Place = tuple[str, tuple[int, ...]]  # a condition over the scopes alias `s`, and its bindings
LOG_HELD = (
    "another process reads the file, or there is no room to empty its write-ahead log, which still holds the deleted "
    "bytes; "
    "they go when all have closed it, or with `memlite doctor --compact`"
)
_UNSEARCHED = (
    "the file is encrypted, and was not searched for what is left: that takes an empty log, and a file of at most "
    f"{erasure.MOST_DECRYPTED // 1_000_000} MB without a damaged page (`memlite check`)"
)
_FEWEST_OF_FACT, _FEWEST_OF_MESSAGE = 2, 3  # words by which an erased text is known in the messages that stay
_NEAREST = 3  # rows that are shown of those that have too few of a query's words


@dataclass(frozen=True, slots=True)
class Gone:
    """A deletion that was carried out, and what was found of it in the tables before and after."""

    shown: DeletionPreview
    deletion: Deletion
    erased: erasure.Erased
    checked: tuple[Checked, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Deleting:
    """Deletions within what a handle of a memory sees. place: that; read: facts as it shows them, by their row ids."""

    database: Database
    place: Callable[[apsw.Connection], Place]
    read: Callable[[apsw.Connection, Sequence[int]], list[Fact]]

    def preview(self, db: apsw.Connection, deletion: Deletion) -> DeletionPreview:
        """What a deletion would take."""
        return DeletionPreview(
            tuple(self.read(db, deletion.facts)),
            tuple(messages.fetch(db, deletion.messages).values()),
            tuple(ttls.fetch(db, deletion.ttls)),
            deletion.ids,
        )

    def forget(self, plan: Callable[[apsw.Connection], Deletion]) -> Receipt:
        """Carry out what `plan` chooses, in one transaction with it."""
        try:
            with self.database.write() as db:
                gone = self.carry_out(db, plan(db), "caller")
        except NotFoundError:
            self.database.truncate_wal()  # a deletion that was killed may have left its bytes there
            raise
        return self.receipt(gone)

    def carry_out(self, db: apsw.Connection, deletion: Deletion, actor: str) -> Gone:
        """Delete inside the caller's transaction, and look at every table before and after."""
        shown, erased = self.preview(db, deletion), erasure.read(db, deletion)
        before = erasure.places(db, erased)
        repeats = messages.recalling(db, erased.facts, *self.place(db))
        again = [uid for id_, uid in repeats if id_ not in deletion.messages]
        users = scopes.of_users(db, erased.facts, erased.messages)
        forget.carry_out(db, deletion, instants.now(), actor)
        after = erasure.left(db, erased)
        checked = tuple(Checked(name, before[name], after[name]) for name in before)
        return Gone(shown, deletion, erased, checked, tuple(self._left(db, deletion, erased, again, users)))

    def _left(
        self,
        db: apsw.Connection,
        deletion: Deletion,
        erased: erasure.Erased,
        recalling: Sequence[str],
        users: scopes.Users,
    ) -> Iterator[str]:
        """What a deletion leaves that has something of it, for nothing may go that is about something else.

        recalling: ids of messages that repeat its facts. users: whose it was.
        """
        place, names = self.place(db), ", ".join(deletion.names)
        within = f"{place[0]} AND {users.sql}", (*place[1], *users.bindings)
        if names and (named := messages.naming(db, deletion.names, *place)):
            yield f"{named} message(s) still have the name {names}; `memlite delete --query` shows them"
        if names and (told := history.forget_reasons(db, deletion.names, *place)):
            yield f"{told} reason(s) in the history had the name {names} and were taken out"
        lines = forget.repeating(db, erased.message_texts.values(), *place) if erased.message_texts else ()
        if again := dict.fromkeys((*recalling, *lines)):
            yield f"{len(again)} message(s) repeat what was deleted, as memlite had recalled it: {', '.join(again)}"
        if saying := [uid for uid in _saying(db, erased, *within) if uid not in again]:
            yield (
                f"{len(saying)} fact(s) or message(s) have all the words of what was deleted: {', '.join(saying)}; "
                "`memlite show ID` shows what else they say, `memlite delete ID` takes them"
            )
        yield from deletion.notes

    def receipt(self, gone: Gone) -> Receipt:
        """Empty the write-ahead log, search the bytes for what was erased, and say what went."""
        truncated = self.database.truncate_wal()
        wanted = erasure.pieces(gone.erased.texts)
        checked, notes = gone.checked, gone.notes if truncated else (LOG_HELD, *gone.notes)
        searched = self._searched(wanted, truncated)
        for name, found in searched.items():
            with self.database.read() as db:
                checked += (Checked(name, None, len(erasure.unexplained(db, found))),)
        return Receipt(
            tuple(fact.id for fact in gone.shown.facts),
            tuple(message.id for message in gone.shown.messages),
            len(gone.deletion.versions),
            len(gone.deletion.entities),
            truncated,
            notes if searched else (*notes, _UNSEARCHED),
            checked,
            gone.deletion.ids,
        )

    def _searched(self, wanted: Sequence[bytes], truncated: bool) -> dict[str, set[bytes]]:
        """Which of the pieces stand in the bytes of the file and of what lies beside it.

        The bytes of an encrypted file tell nothing. Its pages are searched as they read decrypted, once the log is
        empty: until then the newer ones would be read from there.
        """
        if self.database.key is None:
            path, beside = self.database.path, (("file", ""), ("log", "-wal"), ("journal", "-journal"))
            return {name: erasure.in_file(path.with_name(path.name + ending), wanted) for name, ending in beside}
        if not truncated:
            return {}
        try:
            with self.database.read() as db:
                found = erasure.in_pages(db, wanted)
        except DamagedFileError:  # all is deleted by now, and some page that nothing needed cannot be decrypted
            found = None
        return {} if found is None else {"file": found}


def of_id(db: apsw.Connection, id: str, keep_messages: bool, place: Place, place_of_entities: Place) -> Deletion:
    """What the deletion of a fact, message or entity comes to. Raises NotFoundError."""
    prefix = arguments.id_prefix(id)
    in_facts, in_messages = ids.find(db, "facts", prefix, *place), ids.find(db, "messages", prefix, *place)
    in_entities = ids.find(db, "entities", prefix, *place_of_entities)
    row = arguments.only(id, "fact, message or entity", in_facts + in_messages + in_entities)
    if row in in_entities:
        root = scopes.reach_of_root(db, entities.root_of(db, row[0]))
        return forget.of_entity(db, row[0], keep_messages, f"{place[0]} AND {root.sql}", (*place[1], *root.bindings))
    if row in in_facts:
        return forget.of_facts(db, [row[0]], keep_messages, *place)
    return forget.of_messages(db, [row[0]], *place)


def _saying(db: apsw.Connection, erased: erasure.Erased, sql: str, bindings: Sequence[object]) -> list[str]:
    """The ids of what in a scope still has the words of an erased text, of a fact those behind its subject: of "Ana
    drinks oat milk" a message that says "You drink oat milk".
    """
    texts = [(_behind_subject(text), _FEWEST_OF_FACT) for text in erased.fact_texts.values()]
    texts += [(text, _FEWEST_OF_MESSAGE) for text in erased.message_texts.values()]
    asked = {terms for text, fewest in texts if len(terms := read_query(text).terms) >= fewest}
    found = {
        uid
        for terms in asked
        for kept in (facts.having_words, messages.having_words)
        for uid in kept(db, " AND ".join(terms), sql, bindings)
    }
    return sorted(found)


def _behind_subject(text: str) -> str:
    subject = subjects.read(text)
    return " ".join((*subject.called, subject.behind)) if subject.names else text


# What a query may delete: facts, current and past ones, and messages unless all that was learnt from them is archived.
_SAYING = {
    "fact": f"SELECT f.id, f.uid, f.text FROM facts f WHERE f.id IN (SELECT value FROM json_each(?)) AND {facts.KEPT}",
    "message": f"""
        SELECT m.id, m.uid, m.content FROM messages m
        WHERE m.id IN (SELECT value FROM json_each(?)) AND {messages.visible(facts.KEPT)}
    """,
}


def of_query(
    db: apsw.Connection, reach: Reach | None, query: str, limit: int, floor: float, keep_messages: bool
) -> tuple[Deletion, Matching]:
    """What goes of a scope because it has at least the share `floor` of a query's words, and one of them.

    A message that a chosen fact cites goes with it, or stays with `keep_messages`.
    """
    if reach is None:
        return Deletion((), (), (), ()), Matching((), (), 0, floor)
    found = sorted(_having_words(db, reach, query), key=lambda row: (-row[2].share, row[0], -row[1]))
    enough = [row for row in found if row[2].share >= floor]
    told = json.dumps([id_ for kind, id_, _ in enough if kind == "fact"])
    cited = {id_ for ids in messages.of_facts(db, told).values() for id_ in ids}
    enough = [row for row in enough if row[0] == "fact" or row[1] not in cited]
    chosen, more = enough[:limit], len(enough[limit:])
    in_facts, in_messages = ([id_ for kind, id_, _ in chosen if kind == each] for each in _SAYING)
    gone = forget.of_rows(db, in_facts, in_messages, keep_messages, reach.sql, reach.bindings)
    below = [matched for _, _, matched in found if matched.share < floor]
    notes = (f"{more} more have the words of the query; a greater limit takes them",) if more else ()
    matched = tuple(each for _, _, each in chosen)
    return replace(gone, notes=notes), Matching(matched, tuple(below[:_NEAREST]), more, floor)


def _having_words(db: apsw.Connection, reach: Reach, query: str) -> Iterator[tuple[str, int, Matched]]:
    """The facts and messages of a scope that have any of a query's words, with their row ids."""
    terms = read_query(query).terms
    for kind, rows in _SAYING.items():
        words: dict[int, list[str]] = {}
        for term in terms:
            index = f"SELECT rowid FROM {kind}_words WHERE {kind}_words MATCH ?"
            for (id_,) in db.execute(index, (match_expression((term,), reach.terms),)):
                words.setdefault(id_, []).append(unquoted(term))
        for id_, uid, text in list(db.execute(rows, (json.dumps(list(words)),))):
            yield kind, id_, Matched(uid, text, tuple(words[id_]), len(words[id_]) / len(terms))
