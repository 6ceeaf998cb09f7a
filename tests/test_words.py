"""Normal forms, bigrams and queries: pure functions that must take any text a person can write."""

from __future__ import annotations

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlite import words
from memlite.schema import TOKENIZER
from memlite.words import (
    MAX_TERMS,
    STOP_WORDS,
    beside,
    digest,
    fold,
    match_expression,
    normalise,
    read_query,
    unquoted,
)

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.fixture(scope="module")
def index() -> apsw.Connection:
    db = apsw.Connection(":memory:")
    db.execute(f"CREATE VIRTUAL TABLE t USING fts5(text, words, scope, tokenize='{TOKENIZER}')")
    db.execute("INSERT INTO t VALUES ('one green tea', '', 'u1 live')")
    return db


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("Ana likes tea", "ana LIKES tea", id="case"),
        pytest.param("Ana likes tea", "  Ana \t likes\ntea ", id="white-space"),
        pytest.param("Ana likes tea", "Ana likes tea.", id="final-stop"),
        pytest.param("Ana likes tea", "Ana likes tea!", id="exclamation-mark"),
        pytest.param("我喜欢绿茶", "我喜欢绿茶。", id="ideographic-stop"),
        pytest.param("ERR-7731", "ＥＲＲ－７７３１", id="width"),
        pytest.param("caf\u00e9", "cafe\u0301", id="composition"),
        pytest.param("STRASSE", "straße", id="sharp-s"),
    ],
)
def test_two_spellings_are_one_text(one: str, other: str) -> None:
    assert digest(one) == digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("Ana has 2 cats", "Ana has 3 cats", id="number"),
        pytest.param("Ana likes tea", "Ana likes tea?", id="question"),
        pytest.param("resume", "résumé", id="accents-carry-meaning"),
        pytest.param("version 1.2", "version 12", id="inner-stop"),
        pytest.param(".", "!", id="only-punctuation"),
    ],
)
def test_two_texts_stay_two(one: str, other: str) -> None:
    assert digest(one) != digest(other)


@given(ANY_TEXT)
def test_a_normal_form_is_its_own_normal_form(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


@given(ANY_TEXT)
def test_a_digest_names_its_algorithm(text: str) -> None:
    assert digest(text).startswith("a")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("São Paulo", "sao paulo", id="accents-and-case"),
        pytest.param("Zürich,", "zurich", id="outer-punctuation"),
        pytest.param("“Dune”", "dune", id="quotes"),
        pytest.param("ＮＡＳＡ", "nasa", id="width"),
        pytest.param("김민수", "김민수", id="hangul"),
    ],
)
def test_two_names_fold_to_one(one: str, other: str) -> None:
    assert fold(one) == fold(other)


def test_folding_keeps_hangul_syllables_whole() -> None:
    assert fold("김민수") == "김민수"


@given(ANY_TEXT.filter(bool))
def test_a_folded_name_is_never_empty_unless_it_was_white_space_and_marks(name: str) -> None:
    assert fold(name) or not any(ch.isalnum() for ch in name)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        pytest.param("green tea", "", id="latin-has-none"),
        pytest.param("绿茶", "绿茶 茶", id="two-characters"),
        pytest.param("I like 绿茶 very much", "绿茶 茶", id="inside-latin"),
        pytest.param("绿", "绿", id="one-character"),
        pytest.param("녹차를", "녹차 차를 를", id="hangul"),
        pytest.param("ｶﾀｶﾅ", "カタ タカ カナ ナ", id="half-width-kana"),
        pytest.param("绿茶 红茶", "绿茶 茶 红茶 茶", id="a-space-ends-a-run"),
        pytest.param("the ﬁsh of ＥＲＲ－７７３１", "fish ERR-7731", id="ligature-and-width"),
    ],
)
def test_what_is_indexed_beside_a_text_is_bigrams_and_plain_spellings(text: str, pieces: str) -> None:
    assert beside(text) == pieces


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        pytest.param("where does Ana live?", ["Ana", "live"], id="stop-words-go"),
        pytest.param("who is it", ["who", "is", "it"], id="unless-nothing-else-is-left"),
        pytest.param("node.js", ["node.js"], id="identifier-stays-whole"),
        pytest.param("a well-known story", ["well-known", "well", "known", "story"], id="hyphen-and-its-parts"),
        pytest.param("Ana's cat", ["Ana", "cat"], id="possessive"),
        pytest.param("(tea)", ["tea"], id="outer-punctuation"),
        pytest.param("绿茶", ["绿茶"], id="bigram"),
        pytest.param("茶", ["茶"], id="single-character"),
        pytest.param("पानी", ["पानी"], id="hindi-vowel-sign-at-the-end"),
        pytest.param("हिन्दी", ["हिन्दी"], id="hindi-virama-inside"),
        pytest.param("தமிழ்", ["தமிழ்"], id="tamil"),
        pytest.param("?!", [], id="no-letter"),
        pytest.param("", [], id="empty"),
    ],
)
def test_a_query_is_read_as_terms(query: str, terms: list[str]) -> None:
    assert [unquoted(term) for term in read_query(query).terms] == terms


@pytest.mark.parametrize(
    ("query", "exact"),
    [
        pytest.param("what is ERR-7731", ["ERR-7731"], id="code"),
        pytest.param("use node.js", ["node.js"], id="dotted"),
        pytest.param("mail a@b.com", ["a@b.com"], id="address"),
        pytest.param("python v2.0.1", ["v2.0.1"], id="version"),
        pytest.param('the book "War and Peace"', ["War and Peace"], id="quoted"),
        pytest.param("a well-known story", [], id="hyphenated-word"),
        pytest.param("about 30 people", [], id="plain-number"),
        pytest.param("मुझे चाय पसंद", [], id="hindi-words-are-words"),
    ],
)
def test_identifiers_and_quotations_are_exact(query: str, exact: list[str]) -> None:
    assert [unquoted(term) for term in read_query(query).exact] == exact


def test_a_long_query_keeps_a_bounded_number_of_terms() -> None:
    assert len(read_query(" ".join(f"word{n}" for n in range(5_000))).terms) == MAX_TERMS


def test_a_word_of_very_many_parts_is_looked_for_by_the_first(index: apsw.Connection) -> None:
    for query in ("a-" * 50_000, "x.y@" * 25_000, "ab-" * 33_000):
        assert max(map(len, read_query(query).terms)) < 100
    index.execute("INSERT INTO t VALUES (?, '', 'u9')", ("a-" * 500,))
    expression = match_expression(read_query("a-" * 500).terms, "u9")
    assert index.execute("SELECT count(*) FROM t WHERE t MATCH ?", (expression,)).get == 1
    index.execute("DELETE FROM t WHERE scope = 'u9'")


def test_stop_words_are_lower_case_words() -> None:
    assert all(word == word.casefold().strip() for word in STOP_WORDS)


@given(ANY_TEXT)
def test_any_text_is_a_legal_match_expression(index: apsw.Connection, text: str) -> None:
    expression = match_expression(read_query(text).terms, "u1 live")
    index.execute("SELECT rowid FROM t WHERE t MATCH ?", (expression,)).fetchall()


@given(st.lists(st.sampled_from([*"\"'*():^-+{}.,|&!~ \\", "NEAR", "OR", "AND", "NOT", "a", "b"])))
def test_fts5_syntax_in_a_query_is_only_text(index: apsw.Connection, parts: list[str]) -> None:
    expression = match_expression(read_query(" ".join(parts)).terms, "u1 live")
    index.execute("SELECT rowid FROM t WHERE t MATCH ?", (expression,)).fetchall()


def test_a_query_without_words_asks_for_the_whole_scope() -> None:
    assert match_expression((), "u1 live") == "scope : (u1 AND live)"


def test_a_query_cannot_name_another_scope(index: apsw.Connection) -> None:
    index.execute("INSERT INTO t VALUES ('the other user', '', 'u2 live')")
    expression = match_expression(read_query("scope : u2 OR u2 live other").terms, "u1 live")
    found = index.execute("SELECT text FROM t WHERE t MATCH ?", (expression,)).fetchall()
    assert ("the other user",) not in found


QUANTITIES = """5pm 10am 7:30 7:30pm 7.30pm 12:30:15 19h30 7u30 5p.m. 1st 2nd 3rd 42nd 1er 2ème 2ª 1ste 2-й 5वीं 90s '90s
1990s 60's 80er 80er-Jahre 90-х mid-90s $40 20% 40€ US$40 1,200.50 1.200.000 40k 2x 4x4 3D 4K 10kg 500GB 100mg 5'11 20°C
20m² 30km/h 2023-05-08 14/06/2023 1.1.2024 24/7 10-12 2019-2021 2023/24 10-year-old 5-star 3-Zimmer-Wohnung 9am–5pm 1/2
1.5 3,5 A4 B12 Q3""".split()
ABBREVIATIONS = "U.S. e.g. z.B. Ph.D. a.m. AT&T R&B and/or well...then book(s) wow!great".split()


@pytest.mark.parametrize("word", [*QUANTITIES, *ABBREVIATIONS])
def test_what_stands_in_any_text_is_no_identifier(word: str) -> None:
    assert read_query(f"about {word}").exact == ()


@pytest.mark.parametrize(
    "word",
    """ERR-7731 7731-ERR node.js a@b.com v1.2.3 2.0.1 3.11.10 192.168.0.1 PT50000201231234567890154 a8f3e0b1c9 8f3e0
    /etc/hosts src/main.py C:\\Users\\ana covid-19 F-16 iPhone15 user_id example.com 555-1234 912-345-678 1-800-FLOWERS
    std::vector localhost:8080 AB12CD 978-3-16-148410-0""".split(),
)
def test_what_is_made_up_is_an_identifier(word: str) -> None:
    assert len(read_query(f"about {word}").exact) == 1


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        pytest.param("Welche Nüsse verträgt Clara nicht?", ["Nüsse", "verträgt", "Clara"], id="German"),
        pytest.param("Qu'est-ce que Claire ne supporte pas ?", ["Claire", "supporte"], id="French"),
        pytest.param("¿Dónde es que vive ahora mi hermano?", ["vive", "ahora", "hermano"], id="Spanish"),
        pytest.param("war Berlin", ["war", "Berlin"], id="one-word-tells-no-language"),
        pytest.param("Did Ana die in the war?", ["Ana", "die", "war"], id="English"),
        pytest.param("er ist es", ["er", "ist", "es"], id="unless-nothing-else-is-left"),
    ],
)
def test_what_builds_a_question_in_its_own_language_goes(query: str, terms: list[str]) -> None:
    assert [unquoted(term) for term in read_query(query).terms] == terms


@pytest.mark.parametrize("text", ["Ben found a job in Leeds.", "Ana met Tom in Den Haag", "Ben in Leeds"])
def test_a_name_that_is_a_frequent_word_elsewhere_is_looked_for(text: str) -> None:
    names = {f'"{word.strip(".")}"' for word in text.split() if word[0].isupper()}
    assert names <= set(read_query(text).terms)


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("When does the US visa expire?", "US"),
        ("who is the IT department", "IT"),
        ("Where does Will work?", "Will"),
        ("Will Ana come?", None),
        ("WHAT IS IT IN ROME?", None),
        ("Where Will You Be In May?", None),
        ("What do I think?", None),
    ],
)
def test_a_name_that_is_written_like_a_stop_word_is_asked_for(query: str, kept: str | None) -> None:
    stopped = [unquoted(term) for term in read_query(query).terms if unquoted(term).casefold() in STOP_WORDS]
    assert stopped == ([kept] if kept else [])


def test_how_a_long_text_is_written_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read for each of its words, a message of 10 MB took minutes to delete."""
    lengths: list[int] = []
    of = words._Case.of
    monkeypatch.setattr(words._Case, "of", lambda text: lengths.append(len(text)) or of(text))
    read_query("The Who " * 1_000_000)
    assert len(lengths) == 1
    assert lengths[0] <= words.LONGEST_QUERY
