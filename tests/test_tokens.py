"""Which terms a text holds, told from the text as the word index tells it."""

from __future__ import annotations

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memlite.schema import TOKENIZER
from memlite.tokens import holding
from memlite.words import beside, read_query

ANY_TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=40)


@pytest.fixture(scope="module")
def index() -> apsw.Connection:
    db = apsw.Connection(":memory:")
    db.execute("CREATE TABLE fact_text(id INTEGER PRIMARY KEY, text, words)")
    db.execute(f"CREATE VIRTUAL TABLE t USING fts5(text, words, tokenize='{TOKENIZER}')")
    return db


@given(ANY_TEXT, ANY_TEXT)
@example("The users' running shoes, node.js.", "user shoe node.js run well-known")
@example("她喜欢喝绿茶。", "茶 绿茶 红茶")
@example("Die Straße in Łódź, ＥＲＲ－７７３１", "Strasse Lodz ERR-7731")
@example("a´ ´b", "´ ! ´*")  # an accent alone is a token without a letter
@example("मुझे हिन्दी पसंद है।", "हिन्दी हिन")
def test_a_text_holds_the_terms_with_which_the_index_finds_it(index: apsw.Connection, text: str, query: str) -> None:
    terms = read_query(f"{query} {text}").terms
    row = (1, text, beside(text))
    for table in ("fact_text", "t"):
        index.execute(f"DELETE FROM {table}")
        index.execute(f"INSERT INTO {table}({'id' if table != 't' else 'rowid'}, text, words) VALUES (?, ?, ?)", row)
    found = [at for at, term in enumerate(terms) if index.execute("SELECT 1 FROM t WHERE t MATCH ?", (term,)).get]
    held = dict(holding(index, "fact", terms, [1]))
    assert held == {1: sum(1 << at for at in found)}
