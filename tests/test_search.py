"""search(): what is found, what is hidden, in which order, and why."""

from __future__ import annotations

import gc
import math
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memlite import (
    EmbedderMismatchError,
    InvalidInputError,
    Memory,
    ModelMissingError,
    instants,
)
from memlite.words import read_query


class SameVector:
    """A hostile embedder: every text is every other text."""

    name = "same"
    dimension = 8

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0] * self.dimension for _ in texts]


class Noise(SameVector):
    """A hostile embedder: what a text means is chance, though always the same chance."""

    name = "noise"
    dimension = 96

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[random.Random(f"{n} {text}").gauss(0, 1) for n in range(self.dimension)] for text in texts]


class Wider(SameVector):
    name = "wider"
    dimension = 12


@pytest.fixture
def meaning(path: Path) -> Iterator[Memory]:
    """A memory with the real embedder."""
    with Memory(path, extractor=False) as opened:
        yield opened


def texts(hits: Any) -> list[str]:
    return [hit.text for hit in hits]


# Words.

FOUND = [
    pytest.param("Ana moved to Lisbon.", "lisbon", id="last-word-before-a-full-stop"),
    pytest.param("Ana moved to Lisbon!?", "Lisbon", id="last-word-before-two-marks"),
    pytest.param("We chose node.js for it.", "node.js", id="dotted-name"),
    pytest.param("We chose node.js.", "node.js", id="dotted-name-before-a-full-stop"),
    pytest.param("Mail goes to a@b.com.", "a@b.com", id="mail-address"),
    pytest.param("It failed with ERR-7731.", "err-7731", id="error-code"),
    pytest.param("It needs C++ and C#.", "C++", id="letter-with-signs"),
    pytest.param("The file is /etc/fstab.", "/etc/fstab", id="file-path"),
    pytest.param("The setting is max_open_files.", "max_open_files", id="underscores"),
    pytest.param("A well-known story.", "well known", id="hyphen-as-space"),
    pytest.param("Ana's favourite is tea.", "Ana", id="possessive"),
    pytest.param("She runs marathons.", "running marathon", id="porter-stems"),
    pytest.param("Call 555-0199 today.", "555-0199", id="telephone-number"),
    pytest.param("It costs $1,299.50 now.", "1,299.50", id="price"),
    pytest.param("Anaは緑茶が好きです。", "緑茶", id="japanese-kanji"),
    pytest.param("毎朝コーヒーを飲みます。", "コーヒー", id="japanese-katakana"),
    pytest.param("毎朝ｺｰﾋｰを飲みます。", "コーヒー", id="japanese-half-width"),
    pytest.param("她喜欢喝绿茶。", "绿茶", id="chinese-two-characters"),
    pytest.param("她喜欢喝绿茶。", "茶", id="chinese-one-character"),
    pytest.param("她喜欢喝绿茶。", "喝绿茶", id="chinese-three-characters"),
    pytest.param("我喜欢iPhone手机", "iPhone", id="latin-inside-chinese"),
    pytest.param("ฉันชอบดื่มชาเขียวทุกเช้า", "ชาเขียว", id="thai"),
    pytest.param("민수는 녹차를 좋아한다.", "녹차", id="korean-without-its-particle"),
    pytest.param("녹차 좋아함", "녹차를", id="korean-with-another-particle"),
    pytest.param("أحب الشاي الأخضر.", "الشاي", id="arabic"),
    pytest.param("मुझे पानी चाहिए।", "पानी", id="hindi-final-vowel-sign"),
    pytest.param("मुझे हिन्दी पसंद है।", "हिन्दी", id="hindi-virama"),
    pytest.param("எனக்கு தமிழ் பிடிக்கும்.", "தமிழ்", id="tamil"),
    pytest.param("Она любит чай.", "ЧАЙ", id="cyrillic-case"),
    pytest.param("Η Άννα πίνει τσάι.", "ΤΣΆΙ", id="greek-case"),
    pytest.param("She lives in São Paulo.", "sao paulo", id="accent-in-the-text"),
    pytest.param("She lives in Sao Paulo.", "São Paulo", id="accent-in-the-query"),
    pytest.param("The cafe\u0301 is closed.", "caf\u00e9", id="decomposed-text"),
    pytest.param("The ﬁsh is fresh.", "fish", id="ligature"),
    pytest.param("The code is ＥＲＲ－７７３１", "ERR-7731", id="full-width-text"),
    pytest.param("The code is ERR-7731", "ＥＲＲ－７７３１", id="full-width-query"),
    pytest.param("First\x00second", "second", id="after-a-nul"),
]


@pytest.mark.parametrize("kind", ["fact", "message"])
@pytest.mark.parametrize(("text", "query"), FOUND)
def test_a_word_is_found(memory: Memory, kind: str, text: str, query: str) -> None:
    if kind == "fact":
        memory.remember({"text": text, "entities": []}, user_id="u")
    else:
        memory.add(text, user_id="u", extract="never")
    (hit,) = memory.search(query, user_id="u", explain=True)
    assert (hit.kind, hit.text) == (kind, text)
    assert hit.explain is not None
    assert hit.explain.keyword > 0


@pytest.mark.parametrize(
    ("text", "query"),
    [
        pytest.param("She likes 绿茶.", "红茶", id="another-tea"),
        pytest.param("Ana moved to Lisbon.", "Lis", id="beginning-of-a-word"),
        pytest.param("The scope is live.", "u1", id="scope-terms-are-no-words"),
        pytest.param("Ana likes tea.", "live", id="live-is-no-word-of-it"),
    ],
)
def test_what_a_text_does_not_say_does_not_find_it(memory: Memory, text: str, query: str) -> None:
    memory.remember({"text": text, "entities": []}, user_id="u")
    assert len(memory.search(query, user_id="u")) == 0


def test_a_speakers_name_finds_what_they_said(memory: Memory) -> None:
    memory.add([{"name": "Ana", "content": "I like tea."}, {"name": "Ben", "content": "I like tea too."}], user_id="u")
    assert memory.search("what does Ben like", user_id="u")[0].text == "I like tea too."


NEEDLE = "The night shift wrote to a@b.example: ERR-7731 came from node.js in Zanzibar, over 绿茶."


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(False, id="vectors-off"),
        pytest.param(SameVector(), id="same"),
        pytest.param(Noise(), id="noise"),
        pytest.param(None, id="real"),
    ],
)
def haystack(request: pytest.FixtureRequest) -> Iterator[Memory]:
    with Memory(":memory:", embedder=request.param, extractor=False) as opened:
        hay = [f"Note {n}: the day shift wrote a report about machine {n % 7} and room {n}." for n in range(500)]
        opened.remember([*hay[:250], NEEDLE, *hay[250:]], user_id="u")
        yield opened


@pytest.mark.parametrize(
    "query", ["ERR-7731", "what was ERR-7731 about?", "zanzibar", "a@b.example", "node.js", "绿茶"]
)
def test_a_keyword_only_match_among_five_hundred_facts_is_rank_one(haystack: Memory, query: str) -> None:
    assert haystack.search(query, user_id="u", limit=3)[0].text == NEEDLE


def test_rare_words_outweigh_common_ones(memory: Memory) -> None:
    memory.remember([f"Ana talked about tea number {n}." for n in range(40)], user_id="u")
    memory.remember("Ana talked about pottery.", user_id="u")
    assert memory.search("Ana tea pottery", user_id="u")[0].text == "Ana talked about pottery."


# Meaning.


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("Which animals does she own?", "Ana has two cats and a parrot.", id="animals"),
        pytest.param("her profession", "Ana works as a nurse in a hospital.", id="profession"),
        pytest.param("food she must avoid", "Ana is allergic to peanuts.", id="food"),
        pytest.param("means of transport", "Ana rides her bicycle every morning.", id="transport"),
    ],
)
def test_meaning_is_found_where_no_word_is_shared(meaning: Memory, query: str, expected: str) -> None:
    meaning.remember(
        [
            "Ana has two cats and a parrot.",
            "Ana works as a nurse in a hospital.",
            "Ana is allergic to peanuts.",
            "Ana rides her bicycle every morning.",
            "Ana plays the violin.",
        ],
        user_id="u",
    )
    assert meaning.search(query, user_id="u")[0].text == expected


def test_a_named_entity_brings_its_facts(memory: Memory) -> None:
    memory.remember(
        {"text": "The firm pays late.", "entities": [{"name": "Acme", "type": "organisation"}]}, user_id="u"
    )
    (hit,) = memory.search("what about Acme?", user_id="u", explain=True)
    assert hit.explain is not None
    assert (hit.text, hit.explain.entities) == ("The firm pays late.", ("Acme",))
    assert hit.explain.entity > 0


def test_an_entity_named_in_every_fact_counts_less_than_a_rare_one(memory: Memory) -> None:
    memory.remember(
        [{"text": f"The firm made thing {n}.", "entities": ["Acme"]} for n in range(20)]
        + [{"text": "The firm paid someone.", "entities": ["Zoe"]}],
        user_id="u",
    )
    assert memory.search("Acme and Zoe", user_id="u")[0].text == "The firm paid someone."


# What stands around a message.


def said(*lines: str, at: str = "2026-05-01T10:00:00Z") -> list[dict[str, str]]:
    return [
        {"name": name, "content": text, "observed_at": at} for name, text in (line.split(": ", 1) for line in lines)
    ]


def test_an_answer_is_found_beside_its_question(memory: Memory) -> None:
    memory.add(
        said("Ann: Which restaurant did you pick for the birthday?", "Bob: The Golden Fork, at eight."),
        user_id="u",
        extract="never",
    )
    memory.add(said("Cid: It rains.", "Dan: Again.", at="2026-05-03T10:00:00Z"), user_id="u", extract="never")
    hits = memory.search("restaurant for the birthday", user_id="u", explain=True)
    found = {hit.text: hit for hit in hits}
    assert set(found) == {"Which restaurant did you pick for the birthday?", "The Golden Fork, at eight."}
    beside = found["The Golden Fork, at eight."].explain
    assert beside is not None
    assert (beside.keyword, beside.words) == (0.0, ())
    assert beside.parts["around"][0] > 0.5


def test_another_session_is_not_beside(memory: Memory) -> None:
    memory.add(said("Ann: Which restaurant did you pick?"), user_id="u", extract="never")
    memory.add(said("Bob: The Golden Fork.", at="2026-05-02T10:00:00Z"), user_id="u", extract="never")
    memory.add(said("Bob: The Silver Spoon."), user_id="u", run_id="other", extract="never")
    assert texts(memory.search("restaurant", user_id="u")) == ["Which restaurant did you pick?"]


def test_a_session_that_speaks_of_it_lifts_its_messages(memory: Memory) -> None:
    about = (
        "Ann: The kiln was on all night.",
        "Ann: Glaze ran down the kiln shelf.",
        "Bob: Which kiln?",
        "Ann: The red one.",
    )
    memory.add(said(*about, "Ann: I fired six mugs."), user_id="u", extract="never")
    memory.add(said("Ann: I fired six arrows.", at="2026-05-09T10:00:00Z"), user_id="u", extract="never")
    hits = texts(memory.search("What did Ann fire in the kiln, six mugs or arrows?", user_id="u"))
    assert hits.index("I fired six mugs.") < hits.index("I fired six arrows.")


@pytest.mark.parametrize("embedder", [False, None, Noise()], ids=["vectors-off", "real", "noise"])
def test_the_same_text_scores_highest(embedder: Any) -> None:
    with Memory(":memory:", embedder=embedder, extractor=False) as memory:
        memory.add(said("Ann: Ann has a cat, a big black cat, and the cat is old."), user_id="u", extract="never")
        memory.remember(["Ann has a cat.", "Ann has a black cat called Tom, a cat as black as coal."], user_id="u")
        first, second, *_ = memory.search("ann has a CAT", user_id="u")
        assert (first.text, first.score) == ("Ann has a cat.", 1.0)
        assert second.score < 1.0


def test_a_query_that_names_a_person_prefers_what_they_said(memory: Memory) -> None:
    memory.add(
        said("Ann: I play chess on Mondays.", "Bob: I play chess on Mondays, too."), user_id="u", extract="never"
    )
    assert memory.search("When does Bob play chess?", user_id="u")[0].record.name == "Bob"
    assert memory.search("What's Ann's day for chess?", user_id="u")[0].record.name == "Ann"


@pytest.mark.parametrize(
    "query", ["What did Ann bake in May 2023?", "What did Ann bake on 11 May, 2023?", "Ann baked 2023-05"]
)
def test_a_query_that_names_a_time_prefers_what_was_said_then(memory: Memory, query: str) -> None:
    for day in ("2023-03-11", "2023-05-11", "2023-08-11", "2024-05-11"):
        said = {"name": "Ann", "content": f"I baked bread number {day[2:4]}.{day[5:7]}."}
        memory.add(said, user_id="u", run_id=day, extract="never", observed_at=f"{day}T23:30:00-05:00")
    assert memory.search(query, user_id="u")[0].text == "I baked bread number 23.05."


def test_a_query_that_names_a_time_prefers_what_happened_then(memory: Memory) -> None:
    for day in ("2023-05-11", "2022-05-11", "2024-05-11"):
        memory.remember({"text": f"Ann baked bread on {day}."}, user_id="u", observed_at="2024-06-01")
    memory.remember({"text": "Ann baked bread once.", "observed_at": "2022-05-20"}, user_id="u")
    texts = [hit.text for hit in memory.search("What bread did Ann bake in May 2022?", user_id="u")]
    assert sorted(texts[:2]) == ["Ann baked bread on 2022-05-11.", "Ann baked bread once."]


def test_what_went_on_at_a_named_time_is_found_whatever_began_or_ended_before(memory: Memory) -> None:
    memory.remember([{"text": f"Note {n}.", "event": f"2022-{4 + n % 2:02}-03"} for n in range(90)], user_id="u")
    memory.remember([{"text": f"Tour {n}.", "event": f"2022-04-0{n}/2022-04-20"} for n in range(1, 9)], user_id="u")
    memory.remember({"text": "Clara sails round the world.", "event": "2019-02-01/2022-06-20"}, user_id="u")
    hits = memory.search("What was there in May 2022?", user_id="u", limit=60, explain=True)
    assert "Clara sails round the world." in texts(hits)
    assert not [text for text in texts(hits) if text.startswith("Tour")]


def test_the_words_of_a_user_count_more_than_an_assistants_long_answer(memory: Memory) -> None:
    words = "The violin lesson is on Tuesday, and after it we practise in the old school hall until six o'clock."
    for role, name in (("assistant", "Helper"), ("user", "Ann")):
        memory.add(
            {"role": role, "name": name, "content": f"{words} ({name})"}, user_id="u", extract="never", run_id=role
        )
    hits = memory.search("When is the violin lesson?", user_id="u", explain=True)
    assert [hit.record.role for hit in hits] == ["user", "assistant"]  # type: ignore[union-attr]
    assert hits[1].explain is not None
    assert hits[1].explain.parts["assistant"][0] > 0


def test_a_clear_hit_scores_much_in_a_small_store_as_well(meaning: Memory) -> None:
    texts = ("Clara is allergic to walnuts.", "Ben plays the cello.", "The flat costs 900 euros.")
    memory_hits = []
    for size in (3, 60):
        others = [f"Number {n} of the list is {2 * n}." for n in range(size - 3)]
        meaning.remember([*texts, *others], user_id=f"u{size}")
        memory_hits.append(meaning.search("What is Clara allergic to?", user_id=f"u{size}")[0])
    few, many = memory_hits
    assert few.text == many.text == texts[0]
    assert few.score > many.score / 2


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Ewa mieszka w Łodzi.", "lodzi"),
        ("Ewa mieszka w Lodzi.", "Łodzi"),
        ("Tromsø is cold.", "Tromso"),
        ("Tromsø is cold.", "Tromsoe"),
        ("Göran wohnt in Köln.", "Koeln"),
        ("Göran wohnt in Köln.", "Koln"),
        ("Die Straße ist lang.", "Strasse"),
        ("Die Strasse ist lang.", "Straße"),
        ("ma sœur", "soeur"),
    ],
)
def test_a_word_is_found_in_its_other_spelling(memory: Memory, text: str, query: str) -> None:
    memory.remember([text, "Something else is warm."], user_id="u")
    assert [hit.text for hit in memory.search(query, user_id="u")] == [text]


def test_a_word_in_nearly_all_texts_finds_them_only_where_it_is_the_whole_query(memory: Memory) -> None:
    memory.remember([f"The user's number {n} is {n}." for n in range(60)] + ["The user's tea is green."], user_id="u")
    assert [hit.text for hit in memory.search("user tea", user_id="u")] == ["The user's tea is green."]
    assert len(memory.search("the user", user_id="u", limit=5)) == 5


def test_a_term_in_very_many_rows_counts_as_in_few(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.remember([f"Tea number {n} is green." for n in range(30)], user_id="u")
    memory.add(said(*(f"Ann: Tea {n}, green again." for n in range(30))), user_id="u", extract="never")
    few = memory.search("green tea 7", user_id="u", explain=True)
    monkeypatch.setattr("memlite.search.MOST_ROWS", 3)
    assert memory.search("green tea 7", user_id="u", explain=True) == few


def test_evidence_tells_whether_anything_answers(meaning: Memory) -> None:
    meaning.remember(["Ana is allergic to peanuts.", "Ana plays the violin."], user_id="u")
    there, absent = (meaning.search(query, user_id="u") for query in ("What is Ana allergic to?", "Who won the cup?"))
    assert there.evidence > there.floor > absent.evidence
    assert 0 < there.floor < 1
    assert meaning.search("anything", user_id="nobody").evidence == 0.0


# Any text is a legal query.


ODD_QUERIES = [
    pytest.param("", id="empty"),
    pytest.param(" \n\t", id="blank"),
    pytest.param("?!…", id="punctuation"),
    pytest.param("🍵", id="emoji"),
    pytest.param("\x00", id="nul"),
    pytest.param("tea\x00tea", id="nul-inside"),
    pytest.param("\ud83d", id="lone-surrogate"),
    pytest.param("tea \udc00", id="lone-surrogate-behind-a-word"),
    pytest.param('"', id="one-quote"),
    pytest.param('"tea', id="open-quote"),
    pytest.param('"""" ""', id="quotes"),
    pytest.param("tea AND NOT (OR", id="operators"),
    pytest.param("NEAR(tea green, 2)", id="near"),
    pytest.param("text : tea", id="column-filter"),
    pytest.param("{text words} : tea", id="column-set"),
    pytest.param("- ^tea* + tea", id="signs"),
    pytest.param("scope : u1", id="scope-column"),
    pytest.param("'; DROP TABLE facts; --", id="sql"),
    pytest.param("%s {0} \\", id="formats"),
    pytest.param("tea " * 25_000, id="100-kB-of-words"),
    pytest.param("t" * 100_000, id="100-kB-word"),
    pytest.param("t." * 50_000, id="100-kB-of-dots"),
    pytest.param("茶" * 33_000, id="100-kB-of-one-sign"),
    pytest.param('"' * 100_000, id="100-kB-of-quotes"),
    pytest.param("\u0301" * 1000, id="marks-alone"),
]


@pytest.mark.parametrize("embedder", [False, Noise()], ids=["vectors-off", "vectors-on"])
@pytest.mark.parametrize("query", ODD_QUERIES)
def test_any_text_is_a_legal_query(query: str, embedder: Any) -> None:
    with Memory(":memory:", embedder=embedder, extractor=False) as memory:
        memory.remember(["Ana likes green tea.", "她喜欢喝绿茶。"], user_id="u")
        hits = memory.search(query, user_id="u", explain=True)
        assert all(0 <= hit.score <= 1 for hit in hits)


@pytest.fixture(scope="module")
def filled() -> Iterator[Memory]:
    with Memory(":memory:", embedder=Noise(), extractor=False) as opened:
        opened.remember(["Ana likes green tea.", "She drinks 绿茶 at Café Zoë.", "ERR-7731 again."], user_id="u")
        opened.add("The kettle is on.", user_id="u")
        yield opened


@given(st.text(st.characters(exclude_categories=()), max_size=200))
@example("\U0001e900\U0001e901")  # letters younger than SQLite's tables
@example("ǅ İ ß ŉ")
def test_any_characters_are_a_legal_query(filled: Memory, query: str) -> None:
    hits = filled.search(query, user_id="u", explain=True)
    assert all(0 <= hit.score <= 1 for hit in hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_the_real_embedder_takes_any_query(meaning: Memory) -> None:
    meaning.remember("Ana likes green tea.", user_id="u")
    for query in ("", "\x00", "\ud83d", "🍵" * 2000, "tea " * 3000, "a\u0301" * 400):
        meaning.search(query, user_id="u")


def test_of_a_long_query_both_ends_are_embedded() -> None:
    kept: list[str] = []

    class Keeping(Noise):
        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            kept.extend(texts)
            return super().embed(texts)

    with Memory(":memory:", embedder=Keeping(), extractor=False) as memory:
        memory.remember("Ana likes green tea.", user_id="u")
        for query in ("tea " * 500, "first " + "tea " * 25_000 + "last"):
            memory.search(query, user_id="u")
    whole, cut = kept[-2:]
    assert whole == "tea " * 500
    assert len(cut) < 2100
    assert (cut[:9], cut[-8:]) == ("first tea", "tea last")


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": None},
        {"query": 5},
        {"query": b"tea"},
        {"limit": 0},
        {"limit": -1},
        {"limit": 1001},
        {"limit": 2.0},
        {"include": ()},
        {"include": "everything"},
        {"include": 5},
        {"filters": {"a": {"like": "x"}}},
        {"filters": ["a"]},
        {"user_id": None},
        {"user_id": " "},
    ],
    ids=str,
)
def test_a_search_that_cannot_be_is_an_error(memory: Memory, arguments: dict[str, Any]) -> None:
    memory.remember("Ana likes tea.", user_id="u")
    with pytest.raises(InvalidInputError):
        memory.search(**{"query": "tea", "user_id": "u"} | arguments)


def test_a_search_in_a_scope_nobody_wrote_to_is_empty(memory: Memory) -> None:
    assert len(memory.search("tea", user_id="nobody")) == 0


# Facts and messages.


def test_a_message_is_a_hit_only_where_no_returned_fact_cites_it(learning: Memory) -> None:
    learning.add("Ana likes tea.", user_id="u")
    learning.add("The kettle for tea is on.", user_id="u", extract="never")
    hits = learning.search("tea", user_id="u")
    assert [(hit.kind, hit.text) for hit in hits] == [
        ("fact", "Ana likes tea."),
        ("message", "The kettle for tea is on."),
    ]
    assert texts(hits[0].sources) == ["Ana likes tea."]


def test_messages_make_room_for_others_when_a_fact_cites_them(learning: Memory) -> None:
    for n in range(8):
        learning.add(f"Ana likes tea number {n}.", user_id="u", extract="now" if n < 4 else "never")
    hits = learning.search("Ana tea number", user_id="u", limit=8)
    assert sorted(hit.kind for hit in hits) == ["fact"] * 4 + ["message"] * 4


def test_a_cited_message_comes_back_where_facts_are_not_asked_for(learning: Memory) -> None:
    learning.add("Ana likes tea.", user_id="u")
    assert [hit.kind for hit in learning.search("tea", user_id="u", include=["messages"])] == ["message"]
    assert [hit.kind for hit in learning.search("tea", user_id="u", include="facts")] == ["fact"]


def test_equal_messages_are_one_hit(memory: Memory) -> None:
    for run in ("r1", "r2", "r3"):
        memory.add("Good morning to you!", user_id="u", run_id=run)
    assert texts(memory.search("good morning", user_id="u")) == ["Good morning to you!"]


def test_twins_of_several_runs_are_one_hit_with_all_sources(memory: Memory) -> None:
    said = []
    for run in ("r1", "r2"):
        message = memory.add(f"I told you in {run}: tea.", user_id="u", run_id=run).messages[0]
        memory.remember({"text": "Ana likes tea.", "source": message}, user_id="u", run_id=run)
        said.append(message)
    (hit,) = memory.search("Ana likes tea", user_id="u", include="facts")
    assert [message.id for message in hit.sources] == said


def test_the_limit_counts_hits_not_twins(memory: Memory) -> None:
    for n in range(5):
        for run in ("r1", "r2", "r3"):
            memory.remember(f"Ana likes tea number {n}.", user_id="u", run_id=run)
    assert len(set(texts(memory.search("Ana tea", user_id="u", limit=5)))) == 5


# What is hidden.


def test_a_replaced_fact_is_hidden_and_so_is_its_message(learning: Memory) -> None:
    old = learning.add("Ana lives in Porto.", user_id="u", observed_at="2023-01-01")
    learning.remember({"text": "Ana lives in Lisbon.", "replaces": old.facts[0].id}, user_id="u")
    assert texts(learning.search("Where does Ana live? Porto?", user_id="u")) == ["Ana lives in Lisbon."]
    assert learning.get(old.messages[0])


def test_an_expired_fact_is_hidden_and_so_is_its_message(learning: Memory) -> None:
    learning.add("The code for the door is 7731.", user_id="u", expires_at="2001-01-01")
    assert len(learning.search("door code 7731", user_id="u")) == 0


def moved(memory: Memory) -> None:
    """Ana lived in Porto and lives in Lisbon; her visit has expired; of her cat an update has other words."""
    old = memory.remember("Ana lives in Porto.", user_id="u", observed_at="2024-01-01").facts[0]
    new = {"text": "Ana lives in Lisbon.", "replaces": [old.id], "observed_at": "2025-03-01"}
    memory.remember(new, user_id="u")
    memory.remember("Ana lives at her aunt's for a week.", user_id="u", expires_at="2025-02-01")
    cat = memory.remember("Ana lives with a cat named Tom.", user_id="u").facts[0]
    memory.update(cat.id, text="Ana lives with a cat named Tim.")


ONCE = {
    "Ana lives in Lisbon.",
    "Ana lives in Porto.",
    "Ana lives at her aunt's for a week.",
    "Ana lives with a cat named Tim.",
}


@pytest.mark.parametrize("embedder", [False, SameVector()], ids=["words", "vectors"])
@pytest.mark.parametrize(
    ("query", "past", "shown"),
    [
        ("Where does Ana live?", None, False),
        ("Where did Ana live before?", None, True),
        ("Where did Ana used to live?", None, True),
        ("Where did Ana live before?", False, False),
        ("Where does Ana live?", True, True),
    ],
)
def test_what_no_longer_holds_is_found_where_it_is_asked_for(
    path: Path, embedder: Any, query: str, past: bool | None, shown: bool
) -> None:
    with Memory(path, embedder=embedder, extractor=False) as memory:
        moved(memory)
        hits = memory.search(query, user_id="u", past=past)
        expected = ONCE if shown else {"Ana lives in Lisbon.", "Ana lives with a cat named Tim."}
        assert {hit.text for hit in hits} == expected
        assert {hit.text for hit in hits if hit.record.current} == ONCE - {  # type: ignore[union-attr]
            "Ana lives in Porto.",
            "Ana lives at her aunt's for a week.",
        }


@pytest.mark.parametrize("embedder", [False, SameVector()], ids=["words", "vectors"])
@pytest.mark.parametrize(
    ("as_of", "expected"),
    [
        ("2023-12-31", set()),
        ("2024-06-01", {"Ana lives in Porto.", "I moved to Porto, says Ana."}),
        ("2025-03-01", {"Ana lives in Lisbon.", "I moved to Porto, says Ana."}),
        ("2025-06-01", {"Ana lives in Lisbon.", "I moved to Porto, says Ana.", "Ana moved again."}),
    ],
)
def test_a_search_as_of_a_day_shows_what_was_true_and_said_then(
    path: Path, embedder: Any, as_of: str, expected: set[str]
) -> None:
    with Memory(path, embedder=embedder, extractor=False, timezone="UTC") as memory:
        old = memory.remember("Ana lives in Porto.", user_id="u", observed_at="2024-01-01").facts[0]
        memory.remember(
            {"text": "Ana lives in Lisbon.", "replaces": [old.id], "observed_at": "2025-03-01"}, user_id="u"
        )
        for day, text in (("2024-01-02", "I moved to Porto, says Ana."), ("2025-05-01", "Ana moved again.")):
            memory.add(text, user_id="u", run_id=day, extract="never", observed_at=day)
        assert {hit.text for hit in memory.search("Where does Ana live?", user_id="u", as_of=as_of)} == expected
        with pytest.raises(InvalidInputError, match="exclude each other"):
            memory.search("Ana", user_id="u", as_of=as_of, past=True)
        with pytest.raises(InvalidInputError, match="as_of"):
            memory.search("Ana", user_id="u", as_of="soon")


@pytest.mark.parametrize("embedder", [False, SameVector()], ids=["words", "vectors"])
def test_a_search_by_what_was_known_shows_what_memlite_took_for_true_then(
    path: Path, embedder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0]
    monkeypatch.setattr(instants, "now", lambda: clock[0] * 86_400_000)

    def shown(memory: Memory, day: int) -> list[str]:
        at = f"1970-01-{day + 1:02}T12:00:00Z"
        return sorted(hit.text for hit in memory.search("Where does Ana live?", user_id="u", known_at=at))

    with Memory(path, embedder=embedder, extractor=False) as memory:
        clock[0] = 1
        porto = memory.remember("Ana lives in Porto.", user_id="u", observed_at="2024-01-01").facts[0].id
        clock[0] = 3
        memory.update(porto, text="Ana lives in Matosinhos.")
        clock[0] = 5
        new = {"text": "Ana lives in Lisbon.", "replaces": porto, "observed_at": "2025-01-01"}
        lisbon = memory.remember(new, user_id="u")
        clock[0] = 7
        undone = memory.undo(lisbon.batch)
        clock[0] = 9
        memory.undo(undone.batch)
        clock[0] = 11
        memory.add("Ana lives, says Ben.", user_id="u", extract="never")
        assert shown(memory, 0) == []
        assert shown(memory, 1) == shown(memory, 2) == ["Ana lives in Porto."]
        assert shown(memory, 3) == shown(memory, 4) == ["Ana lives in Matosinhos."]
        assert shown(memory, 5) == shown(memory, 6) == ["Ana lives in Lisbon."]
        assert shown(memory, 7) == shown(memory, 8) == ["Ana lives in Matosinhos."]
        assert shown(memory, 9) == shown(memory, 10) == ["Ana lives in Lisbon."]
        assert shown(memory, 11) == ["Ana lives in Lisbon.", "Ana lives, says Ben."]
        (hit,) = memory.search("Porto", user_id="u", known_at="1970-01-03", include="facts")
        assert hit.id == porto  # the words it had then, under the id that it has
        with pytest.raises(InvalidInputError, match="exclude each other"):
            memory.search("Ana", user_id="u", known_at="1970-01-03", as_of="1970-01-03")


def test_what_is_archived_shows_no_earlier_words(memory: Memory) -> None:
    pin = memory.remember("Ana has the PIN 4711.", user_id="u").facts[0].id
    then = instants.local(instants.now())
    memory.update(pin, text="Ana has the PIN 0815.")
    memory.archive(pin)
    assert not memory.search("Ana PIN", user_id="u", known_at=then)


def test_a_message_that_was_stored_and_not_extracted_then_is_shown(learning: Memory) -> None:
    learning.add("Ana likes tea.", user_id="u", extract="later")
    then = instants.local(instants.now())
    time.sleep(0.002)
    learning.work()
    assert texts(learning.search("tea", user_id="u", known_at=then)) == ["Ana likes tea."]


def test_a_hit_carries_what_it_replaced(memory: Memory) -> None:
    almond = memory.remember("Ana drinks almond milk.", user_id="u", observed_at="2024-01-01").facts[0].id
    soy = memory.remember("Ana drinks soy milk.", user_id="u", observed_at="2024-06-01").facts[0].id
    oat = {"text": "Ana drinks oat milk.", "replaces": [almond, soy], "observed_at": "2025-05-01"}
    memory.remember(oat, user_id="u")
    (hit,) = memory.search("What does Ana drink?", user_id="u")
    assert [fact.id for fact in hit.replaced] == [soy, almond]
    memory.archive(soy)
    memory.restore(almond)
    found = {hit.text: hit.replaced for hit in memory.search("What does Ana drink?", user_id="u")}
    assert found == {"Ana drinks oat milk.": (), "Ana drinks almond milk.": ()}


def test_a_line_for_a_prompt_says_that_a_fact_is_over(memory: Memory) -> None:
    moved(memory)
    text = memory.context("Where did Ana live before Lisbon?", user_id="u", floor=0).text
    assert "- Ana lives in Porto. (2024-01-01, true until 2025-03-01)" in text.splitlines()
    assert "- Ana lives in Lisbon. (2025-03-01)" in text.splitlines()


def test_a_message_with_one_current_fact_left_is_shown_with_the_past_only(learning: Memory) -> None:
    source = learning.add("Ana lives in Porto and likes tea.", user_id="u", observed_at="2023-01-01")
    learning.remember({"text": "Ana likes tea.", "source": source.messages[0]}, user_id="u")
    learning.remember({"text": "Ana lives in Lisbon.", "replaces": source.facts[0].id}, user_id="u")
    assert not learning.search("Porto", user_id="u", include="messages")
    hits = learning.search("Porto", user_id="u", include="messages", past=True)
    assert texts(hits) == ["Ana lives in Porto and likes tea."]


def test_past_facts_do_not_crowd_out_current_ones(path: Path) -> None:
    with Memory(path, embedder=SameVector(), extractor=False) as memory:
        memory.remember([f"Old {n}." for n in range(300)], user_id="u", expires_at="2001-01-01")
        memory.remember("The only current one.", user_id="u")
        memory.remember([f"Older {n}." for n in range(300)], user_id="u", expires_at="2001-01-01")
        assert texts(memory.search("something else entirely", user_id="u")) == ["The only current one."]


# Filters.


@pytest.mark.parametrize("embedder", [False, SameVector(), Noise()], ids=["vectors-off", "same", "noise"])
@pytest.mark.parametrize("kind", ["facts", "messages"])
def test_a_filter_holds_before_the_cut(embedder: Any, kind: Any) -> None:
    with Memory(":memory:", embedder=embedder, extractor=False) as memory:
        better = [f"Tea, tea and tea {n}." for n in range(300)]
        if kind == "facts":
            memory.remember(better, user_id="u", metadata={"topic": "common"})
            memory.remember("Once there was tea among other things.", user_id="u", metadata={"topic": "rare"})
        else:
            memory.add(better, user_id="u", metadata={"topic": "common"})
            memory.add("Once there was tea among other things.", user_id="u", metadata={"topic": "rare"})
        hits = memory.search("tea", user_id="u", filters={"topic": "rare"}, limit=5)
        assert texts(hits) == ["Once there was tea among other things."]


def test_a_filter_holds_for_facts_found_by_their_entity(memory: Memory) -> None:
    memory.remember(
        [{"text": f"The firm, {n}.", "entities": ["Acme"], "metadata": {"n": n}} for n in range(100)], user_id="u"
    )
    assert texts(memory.search("Acme", user_id="u", filters={"n": 3})) == ["The firm, 3."]


def test_a_search_with_a_filter_reads_the_file_anew_each_time(memory: Memory, path: Path) -> None:
    memory.remember([{"text": f"Jonas likes tea {n}.", "metadata": {"n": n}} for n in range(200)], user_id="u1")
    few = {"n": {"lt": 150}}  # more than are nominated
    assert memory.search("tea", user_id="u1", filters=few)
    with Memory(path, embedder=False, extractor=False) as other:
        other.remember({"text": "Jonas likes tea and toast.", "metadata": {"n": 1}}, user_id="u1")
    assert texts(memory.search("toast", user_id="u1", filters=few, limit=1)) == ["Jonas likes tea and toast."]


@pytest.mark.parametrize("filters", [None, {"n": {"lt": 150}}], ids=["all", "filtered"])
def test_a_search_leaves_no_cursor_behind(memory: Memory, filters: dict[str, Any] | None) -> None:
    """Each one that stays makes every later statement slower: apsw looks through them all when it lets go of one."""
    memory.remember(
        [{"text": f"Jonas Berg likes tea {n}.", "entities": ["Jonas Berg"], "metadata": {"n": n}} for n in range(200)],
        user_id="u1",
    )

    def cursors() -> int:
        gc.collect()
        return sum(isinstance(each, apsw.Cursor) for each in gc.get_objects())

    before = cursors()
    for past in (None, True):
        memory.search("Does Jonas like tea in May 2024?", user_id="u1", filters=filters, past=past)
    memory.context("Does Jonas like tea?", user_id="u1")
    assert cursors() == before


def test_a_filter_may_combine_conditions(memory: Memory) -> None:
    for n in range(6):
        memory.remember(f"Tea number {n}.", user_id="u", metadata={"n": n, "tags": ["even" if n % 2 == 0 else "odd"]})
    filters = {"AND": [{"n": {"gte": 2}}, {"NOT": {"n": 4}}, {"tags": {"contains": "even"}}]}
    assert texts(memory.search("tea", user_id="u", filters=filters)) == ["Tea number 2."]


# Scopes.

IDS = st.sampled_from(["", "a", "b"])
SCOPES = st.tuples(IDS, IDS, IDS).filter(any)


def arguments(scope: tuple[str, str, str]) -> dict[str, str]:
    return {name: id_ for name, id_ in zip(("user_id", "agent_id", "run_id"), scope) if id_}


def covers(wide: tuple[str, str, str], narrow: tuple[str, str, str]) -> bool:
    return all(not w or w == n for w, n in zip(wide, narrow))


@given(st.lists(SCOPES, min_size=1, max_size=8), SCOPES, st.sampled_from([False, SameVector()]))
@settings(max_examples=60, deadline=None)
def test_a_search_sees_all_of_its_scope_and_nothing_else(
    written: list[tuple[str, str, str]], searched: tuple[str, str, str], embedder: Any
) -> None:
    with Memory(":memory:", embedder=embedder, extractor=False) as memory:
        for n, scope in enumerate(written):
            memory.remember({"text": f"Fact {n} about tea.", "entities": ["Acme"]}, **arguments(scope))
            memory.add(f"Message {n} about tea.", **arguments(scope))
        expected = {
            f"{kind} {n} about tea."
            for n, scope in enumerate(written)
            if covers(searched, scope)
            for kind in ("Fact", "Message")
        }
        assert set(texts(memory.search("tea", **arguments(searched), limit=50))) == expected
        assert set(texts(memory.scope(**arguments(searched)).search("Acme tea", limit=50))) == expected
        listed = {fact.text for fact in memory.get_all(**arguments(searched))}
        assert listed == {text for text in expected if text.startswith("Fact")}


# Explanations, scores and order.


def test_an_explanation_gives_every_part_and_the_matched_words(meaning: Memory) -> None:
    meaning.remember("Ana buys green tea at Acme.", user_id="u")
    (hit,) = found = meaning.search('Did Ana buy "green tea"?', user_id="u", explain=True)
    assert hit.explain is not None
    parts = (hit.explain.semantic, hit.explain.keyword, hit.explain.entity, hit.explain.exact)
    assert all(part is not None and 0 < part <= 1 for part in parts)
    assert hit.explain.total == hit.score
    assert set(hit.explain.words) >= {"Ana", "buy", "green tea"}
    assert hit.explain.entities == ("Ana",)
    odds = hit.explain.bias + sum(value * weight for value, weight in hit.explain.parts.values())
    assert hit.score == pytest.approx(1 / (1 + math.exp(-odds)), rel=1e-3)
    assert (hit.explain.evidence, hit.explain.floor) == (found.evidence, found.floor)


def test_nothing_is_explained_unless_asked(memory: Memory) -> None:
    memory.remember("Ana likes tea.", user_id="u")
    assert memory.search("tea", user_id="u")[0].explain is None


def test_without_vectors_the_answer_says_so_and_has_no_semantic_part(memory: Memory) -> None:
    memory.remember("Ana likes tea.", user_id="u")
    hits = memory.search("tea", user_id="u", explain=True)
    assert hits[0].explain is not None
    assert hits[0].explain.semantic is None
    assert any("vectors are off" in note for note in hits.notes)


def test_without_a_model_the_note_names_the_command(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMLITE_MODELS", str(tmp_path / "none"))
    with Memory(path) as memory:
        memory.remember("Ana likes tea.", user_id="u")
        hits = memory.search("tea", user_id="u")
        assert texts(hits) == ["Ana likes tea."]
        assert any("memlite models pull default" in note for note in hits.notes)


def test_with_vectors_nothing_needs_to_be_noted(meaning: Memory) -> None:
    meaning.remember("Ana likes tea.", user_id="u")
    assert meaning.search("tea", user_id="u").notes == ()


@given(st.permutations([f"Ana saw {n} birds and tea." for n in ("two", "three", "four", "five", "six")]))
@settings(max_examples=15, deadline=None)
def test_scores_do_not_depend_on_the_order_of_arrival(order: list[str]) -> None:
    with Memory(":memory:", embedder=Noise(), extractor=False) as memory:
        memory.remember(order, user_id="u")
        memory.remember(sorted(order), user_id="v")
        one = {hit.text: hit.score for hit in memory.search("four birds", user_id="u")}
        other = {hit.text: hit.score for hit in memory.search("four birds", user_id="v")}
        assert one == pytest.approx(other)


def test_the_same_search_gives_the_same_answer(meaning: Memory) -> None:
    meaning.remember([f"Tea number {n}." for n in range(30)], user_id="u")
    meaning.add([f"Tea message {n}." for n in range(30)], user_id="u")
    first = meaning.search("tea", user_id="u", limit=40, explain=True)
    assert first == meaning.search("tea", user_id="u", limit=40, explain=True)
    assert [hit.score for hit in first] == sorted((hit.score for hit in first), reverse=True)


def test_last_week_is_counted_from_when_the_query_is_asked(memory: Memory) -> None:
    memory.remember(
        ["Ana finished the review on 2025-03-10.", "Ana finished the book on 2025-05-20."],
        user_id="u",
        observed_at="2026-01-01",
    )
    query = "What did Ana finish last week?"
    for asked_at, expected in (("2025-03-21", "review"), ("2025-05-28T12:00:00+02:00", "book")):
        hits = memory.search(query, user_id="u", asked_at=asked_at)
        assert expected in hits[0].text
        assert len(hits) == 2  # nothing is hidden
        assert memory.why(hits[0].id, query, user_id="u", asked_at=asked_at).rank == 1
    with pytest.raises(InvalidInputError, match="asked_at"):
        memory.search(query, user_id="u", asked_at="then")


def test_the_first_hits_are_the_same_for_every_limit(meaning: Memory) -> None:
    meaning.remember([f"Tea number {n} in room {n % 9}." for n in range(60)], user_id="u")
    whole = texts(meaning.search("tea in room 4", user_id="u", limit=20))
    assert texts(meaning.search("tea in room 4", user_id="u", limit=5)) == whole[:5]


# Embedders that come and go.


def without_vector(memory: Memory) -> int:
    return memory.stats().without_vector


def test_an_embedder_switched_in_later_fills_in_what_is_missing(path: Path) -> None:
    with Memory(path, embedder=False, extractor=False) as memory:
        memory.remember("Then Ana adopted a kitten.", user_id="u")
        memory.add("The kettle is on.", user_id="u")
        assert without_vector(memory) == 3
    with Memory(path, extractor=False) as memory:
        assert memory.work().vectors == 3
        assert without_vector(memory) == 0
        assert memory.search("young pets", user_id="u")[0].text == "Then Ana adopted a kitten."


def test_messages_left_for_later_get_their_vectors_from_work(path: Path) -> None:
    with Memory(path, extractor=False) as memory:
        memory.add("Ana adopted a kitten.", user_id="u", extract="later")
        assert without_vector(memory) == 1
        memory.work()
        assert memory.search("young pets", user_id="u")[0].text == "Ana adopted a kitten."


@pytest.mark.parametrize("other", [Noise(), Wider()], ids=["other-vectors", "other-dimension"])
def test_another_embedder_is_an_error_that_names_reembed(path: Path, other: Any) -> None:
    with Memory(path, embedder=SameVector(), extractor=False) as memory:
        memory.remember("Ana likes tea.", user_id="u")
    with Memory(path, embedder=other, extractor=False) as memory:
        with pytest.raises(EmbedderMismatchError, match="memlite reembed") as raised:
            memory.search("tea", user_id="u")
        assert "same" in str(raised.value)
        assert other.name in str(raised.value)
        with pytest.raises(EmbedderMismatchError):
            memory.remember("Ben likes coffee.", user_id="u")
        assert len(memory.get_all(user_id="u")) == 1


def test_reembed_makes_all_vectors_anew(path: Path) -> None:
    with Memory(path, embedder=Wider(), extractor=False) as memory:
        memory.remember("Then Ana adopted a kitten.", user_id="u")
        memory.add("The kettle is on.", user_id="u")
    with Memory(path, extractor=False) as memory:
        assert memory.reembed() == 3
        assert without_vector(memory) == 0
        assert memory.search("young pets", user_id="u")[0].text == "Then Ana adopted a kitten."


def test_a_memory_that_is_open_while_another_reembeds_stores_no_vector_of_the_old_embedder(path: Path) -> None:
    class Opposite(SameVector):
        name = "opposite"

        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            return [[-1.0] * self.dimension for _ in texts]

    with Memory(path, embedder=SameVector(), extractor=False) as one:
        one.remember("Ana likes tea.", user_id="u")
        with Memory(path, embedder=Opposite(), extractor=False) as other:
            other.reembed()
        with pytest.raises(EmbedderMismatchError):
            one.remember("Ben likes coffee.", user_id="u")


def test_reembed_without_an_embedder_is_an_error(memory: Memory) -> None:
    with pytest.raises(ModelMissingError):
        memory.reembed()


def test_the_same_embedder_under_another_name_is_the_same(path: Path) -> None:
    class Renamed(SameVector):
        name = "renamed"

    with Memory(path, embedder=SameVector(), extractor=False) as memory:
        memory.remember("Ana likes tea.", user_id="u")
    with Memory(path, embedder=Renamed(), extractor=False) as memory:
        assert memory.search("tea", user_id="u")


def test_an_alias_names_its_entity(memory: Memory) -> None:
    robert = {"name": "Robert Weber", "type": "person", "aliases": ["Bobby", "绰号"]}
    memory.remember({"text": "Robert Weber has moved to Graz.", "entities": [robert]}, user_id="u")
    memory.remember({"text": "He plays the cello.", "entities": [{"name": "bobby", "type": "person"}]}, user_id="u")
    (entity,) = memory.entities(user_id="u")
    assert (entity.name, set(entity.aliases), entity.facts) == ("Robert Weber", {"Bobby", "绰号"}, 2)
    assert len(memory.search("where is Bobby?", user_id="u")) == 2


# Properties.


@given(st.text(st.characters(exclude_categories=["Cs", "Cn"]), min_size=1, max_size=60).filter(str.strip))
@example("पानी ﬁsh ｺｰﾋｰ")
@example("x² ℌ ½")
@settings(deadline=None, max_examples=300)
def test_a_text_is_found_by_its_own_words(text: str) -> None:
    with Memory(":memory:", embedder=False, extractor=False) as memory:
        memory.remember({"text": text, "entities": []}, user_id="u")
        memory.remember("Something else.", user_id="u")
        if read_query(text).terms:
            assert text.strip() in texts(memory.search(text, user_id="u"))
