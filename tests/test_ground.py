"""Grounding: what a fact says must have been said. Every message here is of Wednesday 14 May 2025."""

from __future__ import annotations

import time
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlite import ground
from memlite.dates import resolve
from memlite.ground import mentioned_names, ungrounded
from memlite.records import ExtractedFact, ExtractionRequest, KnownFact, NamedEntity, Turn

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)

WEDNESDAY = datetime(2025, 5, 14, 12, tzinfo=timezone.utc)


def turn(text: str, number: int = 1, speaker: str = "Ann", role: str = "user") -> Turn:
    return Turn(number, role, speaker, text, WEDNESDAY, resolve(text, WEDNESDAY))


def check(
    message: str,
    fact: str,
    *entities: str,
    window: str = "",
    known: str = "",
    when: str | None = None,
    sources: tuple[int, ...] = (1,),
) -> tuple[str, ...]:
    request = ExtractionRequest(
        (turn(message), turn("Okay, noted.", 2, "assistant", "assistant")),
        (turn(window, 0),) if window else (),
        (KnownFact(1, known),) if known else (),
    )
    named = tuple(NamedEntity(name, "other") for name in entities)
    return ungrounded(ExtractedFact(fact, "user", sources, when, entities=named), request)


@pytest.mark.parametrize(
    ("message", "fact", "entities"),
    [
        pytest.param("I moved to Lisbon", "Ann moved to Lisbon.", ["Ann", "Lisbon"], id="speaker and city"),
        pytest.param("We saw it yesterday", "Ann saw it on 2025-05-13.", [], id="yesterday as an ISO day"),
        pytest.param("We saw it yesterday", "Ann saw it on May 13th, 2025.", [], id="yesterday, month first"),
        pytest.param("We saw it yesterday", "Ann saw it on 13 May 2025.", [], id="yesterday, day first"),
        pytest.param("We saw it yesterday", "Ann saw it on Tuesday.", [], id="yesterday as a weekday"),
        pytest.param("I ran last month", "Ann ran in April 2025.", [], id="last month"),
        pytest.param("We moved last year", "Ann moved in 2024.", [], id="last year"),
        pytest.param("Lunch is at noon", "Ann had lunch at noon on 14 May 2025.", [], id="the day it was said"),
        pytest.param("The party is on May 20", "The party is on 2025-05-20.", [], id="a date without its year"),
        pytest.param("I have two cats", "Ann has 2 cats.", [], id="two is 2"),
        pytest.param("I have 21 cats", "Ann has twenty-one cats.", [], id="21 is twenty-one"),
        pytest.param("It cost 1,000 euros", "It cost Ann 1000 euros.", [], id="1,000 is 1000"),
        pytest.param("It cost two hundred and fifty euros", "It cost 250 euros.", [], id="words with and"),
        pytest.param("I won 1.5 million euros", "Ann won 1500000 euros.", [], id="1.5 million"),
        pytest.param("I came in third", "Ann came in 3rd.", [], id="third is 3rd"),
        pytest.param("The train leaves at 7pm", "The train leaves at 19:00.", [], id="7pm is 19:00"),
        pytest.param("The train leaves at 19:30", "The train leaves at 7:30 PM.", [], id="19:30 is 7:30 PM"),
        pytest.param("I ran a 5K race", "Ann ran a race of 5 km.", [], id="digits inside a token"),
        pytest.param("i love CAFÉ müller", "Ann loves Cafe Müller.", ["Cafe Muller"], id="case and accents"),
        pytest.param("I work at ＡＢＣ", "Ann works at ABC.", ["ABC"], id="width"),
        pytest.param("I love Lisbon's trams", "Ann loves the trams of Lisbon.", ["Lisbon"], id="possessive"),
        pytest.param("my GP saw me", "Ann's GP saw Ann.", [], id="a speaker's possessive"),
        pytest.param("the Opel Corsa broke", "Ann's Opel Corsa broke.", ["Opel Corsa"], id="a speaker's car"),
        pytest.param("İstanbul'da yaşıyorum", "Ann, İstanbul'da yaşıyor.", ["İstanbul"], id="an ending, in Turkish"),
        pytest.param("I photograph birds", "Photography of birds is a hobby of Ann.", [], id="another word form"),
        pytest.param("Ich habe einen Hund", "Ann hat einen Hund.", [], id="a German noun"),
        pytest.param("Ich habe drei Hunde in Köln", "Ann hat 3 Hunde in Köln.", ["Köln"], id="a German number"),
        pytest.param("我住在上海，喜欢喝绿茶。", "用户住在上海，喜欢绿茶。", ["上海"], id="Chinese"),
        pytest.param("我有三只猫", "用户有3只猫。", [], id="a Chinese number"),
        pytest.param(
            "東京に住んでいます。ラーメンが好きです。",
            "ユーザーは東京に住んでいる。",
            ["東京"],
            id="Japanese",
        ),
        pytest.param("서울에서 살고 있어요", "사용자는 서울에 살고 있다.", ["서울"], id="Korean"),
        pytest.param("ฉันอาศัยอยู่ในกรุงเทพ", "ฉันอาศัยอยู่ในกรุงเทพ", ["กรุงเทพ"], id="Thai"),
        pytest.param("I read Bank of America's letter", "Ann read a letter of Bank of America.", [], id="connector"),
        pytest.param("node.js threw ERR-7731", "Ann saw ERR-7731 in node.js.", ["node.js"], id="odd tokens"),
        pytest.param("I like tea", "User likes tea.", ["User"], id="the word user"),
    ],
)
def test_what_was_said_is_grounded(message: str, fact: str, entities: list[str]) -> None:
    assert check(message, fact, *entities) == ()


@pytest.mark.parametrize(
    ("message", "fact", "entities", "reason"),
    [
        pytest.param("I moved to Lisbon", "Ann moved to Paris.", [], "name 'Paris' is in no message", id="a city"),
        pytest.param("I moved away", "Ann moved.", ["Paris"], "name 'Paris' is in no message", id="an entity"),
        pytest.param("I like tea", "Bob likes tea.", [], "name 'Bob' is in no message", id="the subject"),
        pytest.param("Joan likes tea", "Jo likes tea.", ["Jo"], "name 'Jo' is in no message", id="part of a name"),
        pytest.param(
            "I met Ann Lee",
            "I met Ann Wu.",
            ["Ann Wu"],
            "name 'Ann Wu' is in no message",
            id="one word of a name",
        ),
        pytest.param("I have 2 cats", "Ann has 3 cats.", [], "number '3' is in no message", id="a number"),
        pytest.param("I have cats", "Ann has four cats.", [], "number 'four' is in no message", id="a number word"),
        pytest.param("I have 1,500 books", "Ann has 15 books.", [], "number '15' is in no message", id="some digits"),
        pytest.param(
            "We saw it yesterday",
            "We saw it on 2025-05-12.",
            [],
            "date '2025-05-12' is in no message",
            id="a date",
        ),
        pytest.param("We saw it yesterday", "We saw it on Monday.", [], "date 'monday' is in no message", id="weekday"),
        pytest.param(
            "I ran last month", "I ran in March 2025.", [], "date 'march 2025' is in no message", id="a month"
        ),
        pytest.param(
            "I ran last month",
            "I ran on 2025-04-01.",
            [],
            "date '2025-04-01' is in no message",
            id="too precise",
        ),
        pytest.param("我住在上海", "用户住在上海。", ["北京"], "name '北京' is in no message", id="Chinese"),
        pytest.param(
            "東京に住んでいます",
            "東京に住んでいる。",
            ["大阪"],
            "name '大阪' is in no message",
            id="Japanese",
        ),
        pytest.param(
            "Ich habe einen Hund",
            "Ann hat einen Hund.",
            ["Köln"],
            "name 'Köln' is in no message",
            id="German",
        ),
        pytest.param(
            "I like green tea",
            "User's weather is cloudy.",
            [],
            "only 0 of 2 content words are in the messages",
            id="nothing in common",
        ),
        pytest.param(
            "我喜欢喝绿茶",
            "用户的天气多云。",
            [],
            "only 0 of 4 content words are in the messages",
            id="nothing in common, in Chinese",
        ),
        pytest.param("I like tea", "", [], "the fact is empty", id="empty"),
        pytest.param("I like tea", " \n", [], "the fact is empty", id="blank"),
    ],
)
def test_what_nobody_said_is_reported(message: str, fact: str, entities: list[str], reason: str) -> None:
    assert check(message, fact, *entities) == (reason,)


def test_reasons_come_in_order_and_once() -> None:
    assert check("I moved to Lisbon", "Bob moved to Paris with 3 cats on 2024-01-02.", "Paris", "Rome") == (
        "name 'Paris' is in no message",
        "name 'Rome' is in no message",
        "name 'Bob' is in no message",
        "date '2024-01-02' is in no message",
        "number '3' is in no message",
        "only 1 of 4 content words are in the messages",
    )


def test_a_pronoun_is_resolved_from_the_window() -> None:
    assert check("She moved to Porto", "Maria moved to Porto.", "Maria", window="My sister Maria called.") == ()
    assert check("She moved to Porto", "Maria moved to Porto.", "Maria") != ()


def test_a_name_of_a_known_fact_is_grounded() -> None:
    assert check("I moved from there to Porto", "Ann moved from Rome to Porto.", known="Ann lives in Rome.") == ()


def test_a_known_fact_alone_does_not_bear_a_new_one_out() -> None:
    assert check("Good morning!", "Ann lives near the beach.", known="Ann lives near the beach.") != ()


def test_a_recommendation_of_the_assistant_is_grounded() -> None:
    request = ExtractionRequest((turn("Try Casa Verde for dinner.", 1, "assistant", "assistant"),))
    fact = ExtractedFact("Assistant recommended Casa Verde for dinner.", "assistant", (1,))
    assert ungrounded(fact, request) == ()


def test_only_the_cited_messages_count() -> None:
    request = ExtractionRequest((turn("I moved to Lisbon", 1), turn("Bob lives in Rome", 2)))
    assert ungrounded(ExtractedFact("Bob lives in Rome.", sources=(1,)), request) != ()
    assert ungrounded(ExtractedFact("Bob lives in Rome.", sources=(2,)), request) == ()
    assert ungrounded(ExtractedFact("Bob lives in Rome."), request) == ()


def test_when_may_name_where_a_period_begins_and_ends() -> None:
    assert check("I ran last month", "Ann ran.", when="2025-04-01/2025-04-30") == ()
    assert check("I ran last month", "Ann ran.", when="2025-04-02") == ("date '2025-04-02' is in no message",)


@given(st.text(min_size=1))
def test_a_text_is_grounded_by_itself(text: str) -> None:
    if text.strip():
        assert check(text, text, *mentioned_names(text)) == ()


WORDS = (
    "Maria|moved|to|Porto|in|May|2019|5th|,|.|two|hundred|and|thousand|1.000|11.05.2025|2025-05-11|7pm|19:30|"
    "The|Bank|of|America|\"|'s|node.js|ERR-7731|上海|三十二|ich|und|Hund|yesterday|Sunday|Feb 29|K|²|१२|é|"
    "e\u0301|İ|ß|-|\n"
)


@given(st.lists(st.sampled_from(WORDS.split("|"))).map(" ".join))
def test_a_sentence_of_awkward_words_is_grounded_by_itself(text: str) -> None:
    if text.strip():
        assert check(text, text, *mentioned_names(text)) == ()


@given(st.text(), st.text(), st.text())
def test_any_text_gets_a_verdict(message: str, fact: str, entity: str) -> None:
    assert all(isinstance(reason, str) for reason in check(message, fact, entity, window=entity, known=fact))


def test_long_and_hostile_texts_are_read_in_time_that_grows_with_their_length() -> None:
    for piece in ("hundred ", "9", "A", "A ", "Bank of ", '"', "a.", "a@", "1.", "十", "may 1 ", "-"):
        text = piece * (20_000 // len(piece))
        started = time.process_time()
        check(text, text)
        assert time.process_time() - started < 5, piece


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Maria moved to Porto", ["Maria", "Porto"]),
        ("The dinner is at Casa Verde", ["Casa Verde"]),
        ("My dog is ill", []),
        ("Bank of America hired Leonardo da Vinci.", ["Bank of America", "Leonardo da Vinci"]),
        ("Maria's dog is called Rex", ["Maria", "Rex"]),
        ("Casa Verde is good", ["Casa Verde"]),
        ("Visited Lisbon", ["Lisbon"]),
        ("Porto? I love Porto.", ["Porto"]),
        ("I met Dr. Ann Lee and J. R. R. Tolkien", ["Dr. Ann Lee", "J. R. R. Tolkien"]),
        ('I watched "Charlotte\'s Web" and said "I love it"', ["Charlotte's Web"]),
        ("I use node.js and C++ and got ERR-7731 at 7pm", ["node.js", "C++", "ERR-7731"]),
        ("Write to ann@example.org", ["ann@example.org"]),
        ("Tom and Ann like my iPhone", ["Tom", "Ann", "iPhone"]),
        ("Is Paris nice in May, on Sunday?", ["Paris"]),
        ("Maria", ["Maria"]),
        ("I LOVE PIZZA", []),
        ("Running is fun. Honestly, it is. Dinner is ready.", []),
        ("A 30-year-old ran 10k and/or walked, e.g. on the 3rd.", []),
        ("Мария живёт в городе Москва", ["Москва"]),
        ("Der Hund von Maria Schmidt ist in der Stadt", ["Maria Schmidt"]),
        ("我在腾讯用Jaccard，读《三体》", ["Jaccard", "三体"]),
        ("", []),
    ],
)
def test_names_are_read_from_a_text(text: str, names: list[str]) -> None:
    assert list(mentioned_names(text)) == names


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Ann moved to Porto, and Ann now works at Feedzai.", None),
        ("Ann moved to Porto, and the flat costs 900 euros.", "Ann moved to Porto."),
        ("Ann moved to Porto, and Ann has a dog called Rex.", "Ann moved to Porto."),
        ("Ann moved to Porto; Berta is there.", "Ann moved to Porto."),
        ("Ann moved to Porto because of Feedzai.", None),
        ("Berta moved to Porto.", None),
        ("Ann moved to Porto for Ikea.", "Ann moved to Porto."),
        ("Ann moved to Porto for the hot springs in Porto.", "Ann moved to Porto."),
        ("Ann moved to Porto with a dog.", "Ann moved to Porto."),  # which is known, but not what was said
        ("Ann moved to Porto with 3 parrots.", "Ann moved to Porto."),
        ("Ann moved to Porto at 19:30 with a dog.", "Ann moved to Porto."),
        ("Ann moved with joy to Porto.", None),  # only at the end
        ("Ann moved to Berlin.", None),  # not "Ann moved": it is dropped whole
    ],
)
def test_clauses_at_the_end_that_no_cited_message_says_are_cut(text: str, kept: str | None) -> None:
    turn = Turn(
        1, "user", "Ann", "I moved to Porto and now work at Feedzai.", datetime(2026, 1, 1, tzinfo=timezone.utc)
    )
    request = ExtractionRequest((turn,), known=(KnownFact(1, "Ann has a dog called Rex."),))
    fact, cut = ground.trimmed(ExtractedFact(text, sources=(1,)), request)
    assert (fact.text, bool(cut)) == (kept or text, kept is not None)


@pytest.mark.parametrize(
    ("message", "text", "kept"),
    [
        ("We adopted a cat called Minka.", "Ana adopted a cat called Minka, and the cat is called Minka.", True),
        ("We adopted a cat called Minka.", "Ana adopted a cat called Minka as pets.", True),
        ("I like cats, but not all cats.", "Ana likes cats, but not all cats.", False),
        ("I work as a nurse.", "Ana works as a nurse.", False),
    ],
)
def test_what_is_tacked_on_is_cut(message: str, text: str, kept: bool) -> None:
    request = ExtractionRequest((Turn(1, "user", "Ana", message, NOW),))
    found, cut = ground.trimmed(ExtractedFact(text, sources=(1,)), request)
    assert bool(cut) == kept
    assert found.text == ("Ana adopted a cat called Minka." if kept else text)


@pytest.mark.parametrize(
    ("said", "text", "kept"),
    [
        (
            "I am vegetarian and allergic to nuts.",
            "The user is travelling to Rome and is vegetarian and allergic to nuts.",
            "The user is vegetarian and allergic to nuts.",
        ),
        (
            "I am vegan, which is why I ask.",
            "The user is vegan and works in Porto.",
            "The user is vegan and works in Porto.",
        ),
        ("I work in Porto, on my own.", "The user is vegan and works in Porto.", "The user works in Porto."),
        ("I work in Porto and eat vegan.", "The user eats vegan and works in Porto.", None),
        ("It is in Porto that I work.", "The user is vegan and works in Porto.", None),
    ],
)
def test_what_an_earlier_message_says_is_cut_at_the_beginning_too(said: str, text: str, kept: str | None) -> None:
    before = Turn(0, "user", "User", "I'm travelling to Rome, and I am vegan.", NOW)
    request = ExtractionRequest((Turn(1, "user", "User", said, NOW),), (before,))
    fact, cut = ground.trimmed(ExtractedFact(text, by="User", sources=(1,)), request)
    assert fact.text == (kept or text)
    assert bool(cut) == (kept is not None and kept != text)


@pytest.mark.parametrize(
    ("message", "text", "expected"),
    [
        ("The dentist is at 9.", "Ana sees the dentist at 9 pm.", "Ana sees the dentist at 9."),
        ("The dentist is at 9.", "Ana sees the dentist at 9 a.m. on Monday.", "Ana sees the dentist at 9 on Monday."),
        ("The dentist is at 9 pm.", "Ana sees the dentist at 9 pm.", "Ana sees the dentist at 9 pm."),
    ],
)
def test_a_half_of_the_day_that_nobody_named_is_left_out(message: str, text: str, expected: str) -> None:
    request = ExtractionRequest((Turn(1, "user", "Ana", message, NOW),))
    assert ground.as_said(ExtractedFact(text, sources=(1,)), request).text == expected


def test_a_role_is_no_name_and_a_firm_has_one() -> None:
    names = [("The user", "person"), ("Král", "person"), ("Sons", "organisation"), ("Ana", "person")]
    text = "The user hired Král & Sons for Ana."
    fact = ExtractedFact(text, sources=(1,), entities=tuple(NamedEntity(*name) for name in names))
    request = ExtractionRequest((Turn(1, "user", "User", "I hired Král & Sons for Ana.", NOW),))
    found = [(entity.name, entity.type) for entity in ground.as_said(fact, request).entities]
    assert found == [("Král & Sons", "organisation"), ("Ana", "person")]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Ann moved in May.", [("May", "person")]),
        ("Am 3. Juni hat Ann einen Termin.", [("Am 3. Juni", "person")]),
        ("Ann sails on 3 June.", [("3 June", "event")]),
        ("Ann sails on 2025-06-03.", [("2025-06-03", "event")]),
        ("Ann sails on Friday.", [("Friday", "event")]),
    ],
)
def test_a_day_is_no_entity(text: str, names: list[tuple[str, str]]) -> None:
    fact = ExtractedFact(text, sources=(1,), entities=tuple(NamedEntity(*name) for name in names))
    assert ground.as_said(fact, ExtractionRequest((turn(text),))).entities == ()


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        ("Ann's aunt May sings.", "May", "person"),
        ("Ann reads 1984.", "1984", "work"),
        ("Ann works at 3M.", "3M", "organisation"),
        ("Ann reads the Sunday Times.", "Sunday Times", "work"),
        ("Ann hates Black Friday.", "Black Friday", "event"),
        ("Ann loves Christmas 2024.", "U2", "organisation"),
        ("Ann drives a VW ID.3.", "VW ID.3", "product"),
    ],
)
def test_a_name_that_only_looks_like_a_day_is_an_entity(text: str, name: str, kind: str) -> None:
    fact = ExtractedFact(text, sources=(1,), entities=(NamedEntity(name, kind),))
    assert ground.as_said(fact, ExtractionRequest((turn(text),))).entities == fact.entities


@pytest.mark.parametrize(
    ("said", "before", "kept"),
    [
        ("I booked a table for two on 14 June.", "My sister Clara is visiting me.", "Ann booked a table for two."),
        ("I booked a table for her on 14 June.", "My sister Clara is visiting me.", None),
        ("I booked a table for two on 14 June.", "What did you do for your sister Clara?", None),
        ("Booked a table for two on 14 June.", "My sister Clara is visiting me.", "Ann booked a table for two."),
    ],
    ids=["speaks for itself", "refers to her", "answers", "without a subject"],
)
def test_what_only_an_earlier_message_says_is_cut_where_nothing_refers_to_it(
    said: str, before: str, kept: str | None
) -> None:
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    request = ExtractionRequest((Turn(1, "user", "Ann", said, at),), (Turn(0, "user", "Ann", before, at),))
    text = "Ann booked a table for two for Ann's sister Clara."
    fact, _ = ground.trimmed(ExtractedFact(text, sources=(1,)), request)
    assert fact.text == (kept or text)
