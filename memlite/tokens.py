"""The tokens that the word indexes make of a text, and which of a query's terms are among them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterator, Sequence
from typing import cast

import apsw

from memlite.schema import TOKENIZER
from memlite.words import unquoted


def holding(db: apsw.Connection, kind: str, terms: Sequence[str], ids: Collection[int]) -> Iterator[tuple[int, int]]:
    """Of each of these facts or messages its row id and a bit for each term that it holds, as its index would say.

    From their texts: a row that is looked up in the index costs as much as the term has rows.
    """
    tokenize = tokenizer(db)

    def line(text: str) -> str:
        given = text.encode("utf-8", "replace")
        read = tokenize(given, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False)
        return f" {' '.join(cast('list[str]', read))}"

    wanted = [line(unquoted(term)) + ("" if term.endswith("*") else " ") for term in terms]
    rows = db.execute(
        f"SELECT id, text, words FROM {kind}_text WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(ids)),),
    )
    for id_, text, words in rows:
        columns = [f"{line(each)} " for each in (text, words) if each]
        yield id_, sum(1 << at for at, each in enumerate(wanted) if len(each) > 1 and any(each in c for c in columns))


def tokenizer(db: apsw.Connection) -> apsw.FTS5Tokenizer:
    """The tokenizer of the indexes."""
    name, *options = shlex.split(TOKENIZER.replace("''", "'"))
    return db.fts5_tokenizer(name, options)
