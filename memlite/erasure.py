"""Whether what was deleted is gone: its rows in every table, its words in the index, its text in the file's bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import apsw

from memlite.db import contents
from memlite.forget import Deletion
from memlite.schema import MEMBERS_OF
from memlite.words import read_query

MOST_TEXTS = 200  # erased texts that the bytes are searched for, the longest ones
PIECE = 48  # bytes: a long text lies in several pages, so its beginning, middle and end are searched for
MOST_DECRYPTED = 256_000_000  # bytes of an encrypted file that are searched: all its pages are in memory for that
_SHORTEST = 8  # bytes of a text below which finding it proves nothing

_LISTED = "(SELECT value FROM json_each(?))"
_MEMBERS = "(SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(CAST(? AS TEXT)))"
_IDS = "'user_id=' || user_id, 'agent_id=' || agent_id, 'run_id=' || run_id"
# Where anything of a deletion may lie: a table, which of the row ids it is asked by, and the condition.
_PLACES = (
    ("facts", "facts", f"id IN {_LISTED}"),
    ("messages", "messages", f"id IN {_LISTED}"),
    ("entities", "entities", f"id IN {_LISTED}"),
    ("aliases", "entities", f"entity_id IN {_LISTED}"),
    ("mentions", "facts", f"fact_id IN {_LISTED}"),
    ("sources", "facts", f"fact_id IN {_LISTED}"),
    ("sources", "messages", f"message_id IN {_LISTED}"),
    ("recalls", "facts", f"fact_id IN {_LISTED}"),
    ("recalls", "messages", f"message_id IN {_LISTED}"),
    ("links", "facts", f"from_fact IN {_LISTED}"),
    ("links", "facts", f"to_fact IN {_LISTED}"),
    ("ttls", "ttls", f"id IN {_LISTED}"),
    ("scopes", "ids", f"EXISTS (SELECT 1 FROM json_each(?) WHERE value IN ({_IDS}))"),
    ("events", "uids", f"(before IS NOT NULL OR after IS NOT NULL OR reason <> '') AND fact_uid IN {_LISTED}"),
    ("fact_words_docsize", "facts", f"id IN {_LISTED}"),
    ("message_words_docsize", "messages", f"id IN {_LISTED}"),
    ("fact_metadata", "fact_members", f"(key, value, id) IN {_MEMBERS}"),
    ("message_metadata", "message_members", f"(key, value, id) IN {_MEMBERS}"),
    ("fact_vectors", "facts", f"id IN {_LISTED}"),
    ("message_vectors", "messages", f"id IN {_LISTED}"),
    ("entity_vectors", "entities", f"id IN {_LISTED}"),
)

# Every column that holds what somebody has written.
_TEXTS = {
    "facts": ("text", "words", "metadata", "attributed_to", "kind"),
    "messages": ("content", "own", "words", "name", "metadata", "caller_id"),
    "events": ("before", "after", "reason"),
    "batches": ("instructions", "kind", "metadata", "error"),
    "entities": ("name", "folded"),
    "aliases": ("name", "folded"),
    "mentions": ("name", "aliases"),
    "scopes": ("user_id", "agent_id", "run_id"),
    "fact_metadata": ("key", "value"),
    "message_metadata": ("key", "value"),
    "ttls": ("kind",),
    "answers": ("facts",),
}


@dataclass(frozen=True, slots=True)
class Erased:
    """What a deletion takes: row ids as JSON arrays, and so the ids of scopes and of facts, and the members of metadata
    with the row ids of theirs; the texts of facts and of messages by row id.
    """

    facts: str
    messages: str
    entities: str
    ttls: str
    ids: str
    uids: str
    fact_members: bytes
    message_members: bytes
    fact_texts: dict[int, str]
    message_texts: dict[int, str]

    @property
    def texts(self) -> list[str]:
        ids = (each.partition("=")[2] for each in json.loads(self.ids))
        return [*self.fact_texts.values(), *self.message_texts.values(), *ids]


def read(db: apsw.Connection, deletion: Deletion) -> Erased:
    """What a deletion will take, read before it is carried out."""
    facts = json.dumps(deletion.facts + deletion.versions)
    messages = json.dumps(deletion.messages)
    rows = list(db.execute(f"SELECT id, uid, text FROM facts WHERE id IN {_LISTED}", (facts,)))
    return Erased(
        facts,
        messages,
        json.dumps(deletion.entities),
        json.dumps(deletion.ttls),
        json.dumps(deletion.ids),
        json.dumps([uid for _, uid, _ in rows]),
        _members(db, "fact", facts),
        _members(db, "message", messages),
        {id_: text for id_, _, text in rows},
        dict(db.execute(f"SELECT id, content FROM messages WHERE id IN {_LISTED}", (messages,))),
    )


def _members(db: apsw.Connection, kind: str, ids: str) -> bytes:
    """As bytes: JSON may hold half of a surrogate pair, of which Python makes no text."""
    rows = f"WITH found(key, value, id) AS ({MEMBERS_OF[kind]} AND t.id IN {_LISTED})"
    listed: bytes = db.execute(
        f"{rows} SELECT CAST(json_group_array(json_array(key, value, id)) AS BLOB) FROM found", (ids,)
    ).get
    return listed


def places(db: apsw.Connection, erased: Erased) -> dict[str, int]:
    """How many rows of every table hold something of it."""
    found: dict[str, int] = {}
    for table, ids, condition in _PLACES:
        rows: int = db.execute(f"SELECT count(*) FROM {table} WHERE {condition}", (getattr(erased, ids),)).get
        name = table.removesuffix("_docsize")
        found[name] = found.get(name, 0) + rows
    return found


def left(db: apsw.Connection, erased: Erased) -> dict[str, int]:
    """The same after the deletion. The word indexes are then asked for each erased row's own words as well."""
    found = places(db, erased)
    for name, texts in (("fact_words", erased.fact_texts), ("message_words", erased.message_texts)):
        found[name] = max(found[name], sum(_indexed(db, name, id_, text) for id_, text in texts.items()))
    return found


def _indexed(db: apsw.Connection, table: str, id_: int, text: str) -> bool:
    """Whether the index still leads to a row by any of its words: its postings, whatever its other tables say."""
    terms = read_query(text).terms
    if not terms:
        return False
    expression = f"{{text words}} : ({' OR '.join(terms)})"
    return db.execute(f"SELECT 1 FROM {table} WHERE {table} MATCH ? AND rowid = ?", (expression, id_)).get is not None


def pieces(texts: Iterable[str]) -> list[bytes]:
    """What the bytes are searched for: of each of the longest texts its beginning, middle and end."""
    chosen = sorted({text.encode() for text in texts}, key=lambda text: (-len(text), text))[:MOST_TEXTS]
    found: dict[bytes, None] = {}
    for text in chosen:
        middle = max(0, len(text) // 2 - PIECE // 2)
        found |= dict.fromkeys((text[:PIECE], text[middle : middle + PIECE], text[-PIECE:]))
    return [piece for piece in found if len(piece) >= _SHORTEST]


def in_file(path: Path, wanted: Sequence[bytes]) -> set[bytes]:
    """Those of the pieces that a file's bytes hold, free pages with them. A file that is not there holds none."""
    found, tail = set[bytes](), b""
    try:
        for block in contents(path):
            data = tail + block
            found |= {piece for piece in wanted if piece in data}
            tail = data[-PIECE:]
    except apsw.CantOpenError:
        if path.exists():
            raise
    return found


def in_pages(db: apsw.Connection, wanted: Sequence[bytes]) -> set[bytes] | None:
    """Likewise those that the decrypted pages of an encrypted file hold; None where these are too many.

    Raises apsw.CorruptError where one cannot be decrypted.
    """
    size: int = db.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").get
    if size > MOST_DECRYPTED:
        return None
    pages = db.serialize("main")
    db.execute("SELECT 1 FROM sqlite_schema").fetchone()  # an error where `pages` has zeros for what it could not read
    return {piece for piece in wanted if piece in pages}


def unexplained(db: apsw.Connection, found: Iterable[bytes]) -> set[bytes]:
    """Those of the pieces that no row says any more: what is left of them was not erased."""
    said = " OR ".join(
        f"EXISTS (SELECT 1 FROM {table} WHERE {' OR '.join(f'instr(CAST({name} AS BLOB), ?1)' for name in columns)})"
        for table, columns in _TEXTS.items()
    )
    return {piece for piece in found if not db.execute(f"SELECT {said}", (piece,)).get}
