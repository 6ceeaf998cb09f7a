"""The tokens that the word indexes make of a text, and which of a query's terms are among them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterator, Sequence
from typing import cast

import apsw

from memlite.schema import TOKENIZER
from memlite.words import unquoted

_NAMED = shlex.split(TOKENIZER.replace("''", "'"))
_ONLY_TOKENS = {"include_offsets": False, "include_colocated": False}


def holding(db: apsw.Connection, kind: str, terms: Sequence[str], ids: Collection[int]) -> Iterator[tuple[int, int]]:
    """Of each of these facts or messages its row id and a bit for each term that it holds, as its index would say.

    From their texts: a row that is looked up in the index costs as much as the term has rows.
    """
    tokenize = tokenizer(db)

    def line(*texts: str) -> str:
        """The tokens of texts, a blank around each (a token may be empty), a bar between texts (no token is a bar)."""
        said = (
            tokenize(text.encode("utf-8", "replace"), apsw.FTS5_TOKENIZE_DOCUMENT, None, **_ONLY_TOKENS)
            for text in texts
            if text
        )
        return f" {'| '.join(' '.join([*cast('list[str]', each), '']) for each in said)}"

    wanted = [(1 << at, line(unquoted(term))[: -1 if term.endswith("*") else None]) for at, term in enumerate(terms)]
    wanted = [(bit, tokens) for bit, tokens in wanted if len(tokens) > 1]  # a term without tokens is in no text
    rows = db.execute(
        f"SELECT id, text, words FROM {kind}_text WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(ids)),),
    )
    for id_, text, words in rows:
        held = line(text, words)
        yield id_, sum([bit for bit, tokens in wanted if tokens in held])


def tokenizer(db: apsw.Connection) -> apsw.FTS5Tokenizer:
    """The tokenizer of the indexes."""
    name, *options = _NAMED
    return db.fts5_tokenizer(name, options)
