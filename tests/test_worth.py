"""What is not worth keeping, as far as a rule can tell."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from memlite import worth
from memlite.records import ExtractedFact, ExtractionRequest, KnownFact, Turn

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
TALK = ExtractionRequest(
    (Turn(1, "user", "Ann", "So what?", NOW), Turn(2, "assistant", "Bob", "Thanks a lot, good luck!", NOW)),
    known=(
        KnownFact(1, "Ann works as a nurse at Bay Clinic in Porto since 2019."),
        KnownFact(2, "Ann eats fish."),
        KnownFact(4, "Ann writes small programs in C and lives in flat B2."),
        KnownFact(3, "Ann hates big dogs and loves old cats; Ann does not like green tea."),
    ),
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Ann asks where Bob lives?", "question"),
        ('Ann said: "Where do you live?"', "question"),
        ("Bob said thanks.", "small talk"),
        ("Bob wishes Ann good luck.", "small talk"),
        ("Ann is vegan.", None),
        ("Ann works 12 hours.", None),
    ],
)
def test_questions_and_small_talk_are_dropped_with_the_reason(text: str, reason: str | None) -> None:
    found = worth.unworthy(ExtractedFact(text, sources=(1,)), TALK)
    assert (found is None) == (reason is None), found
    assert (reason or "") in (found or "")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Ann works as a nurse at Bay Clinic.", 0),
        ("Ann is a nurse in Porto.", 0),
        ("Ann works as a nurse at Hill Clinic.", None),
        ("Bob works as a nurse at Bay Clinic.", None),
        ("The user works as a nurse at Bay Clinic.", None),
        ("Ann does not work as a nurse at Bay Clinic.", None),
        ("Ann no longer eats fish.", None),
        ("Ann works as a nurse at Bay Clinic since 2021.", None),
        ("Ann works as a nurse at Bay Clinic for two years.", None),
        ("Ann writes programs in C.", 2),
        ("Ann writes programs in Go.", None),
        ("Ann lives in flat B2.", 2),
        ("Ann lives in flat A4.", None),
        ("Ann loves old cats.", 3),
        ("Ann hates old cats.", None),
        ("Ann hates cats.", None),
        ("Ann does not like green tea.", 3),
        ("Ann does not like dogs.", None),
    ],
)
def test_what_says_no_more_than_a_known_fact_is_that_fact(text: str, number: int | None) -> None:
    found = worth.known(ExtractedFact(text, sources=(1,)), TALK)
    assert found == (None if number is None else TALK.known[number].text)


def test_a_fact_that_says_what_it_replaces_is_no_repetition() -> None:
    fact = ExtractedFact("Ann works as a nurse in Porto.", sources=(1,), replaces=(1,))
    assert worth.known(fact, TALK) is None


def test_what_has_the_value_that_it_claims_to_replace_is_the_known_fact() -> None:
    for year, known in ((2019, True), (2020, False)):
        fact = ExtractedFact(f"Since {year} Ann works as a nurse at Bay Clinic in Porto now.", replaces=(1,))
        assert (worth.known(fact, TALK) is not None) == known


@pytest.mark.parametrize(
    ("said", "before", "fact", "repeated"),
    [
        ("My brother Tom plays the cello.", "I moved to Ghent in 2019.", "Ann moved to Ghent.", True),
        ("My brother Tom plays the cello.", "I moved to Ghent in 2019.", "Tom plays the cello.", False),
        ("She is allergic to walnuts.", "My sister Clara visits me.", "Ann's sister Clara visits Ann.", False),
        ("I did that two years ago, yes.", "Did you move to Ghent?", "Ann moved to Ghent.", False),
    ],
    ids=["repeated", "new", "refers to it", "answers"],
)
def test_what_an_earlier_message_says_is_not_a_fact_of_this_one(
    said: str, before: str, fact: str, repeated: bool
) -> None:
    request = ExtractionRequest((Turn(2, "user", "Ann", said, NOW),), (Turn(0, "user", "Ann", before, NOW),))
    assert worth.repeated(ExtractedFact(fact, "Ann", (2,)), request) == repeated


def talk(*said: tuple[str, str], known: str = "") -> ExtractionRequest:
    turns = [
        Turn(number, "assistant" if who == "assistant" else "user", who, text, NOW)
        for number, (who, text) in enumerate(said, 1)
    ]
    return ExtractionRequest(tuple(turns), known=(KnownFact(1, known),) if known else ())


SHARES = "Shares of Sonda rose 6.2% after the firm announced a new chief executive, Rafila Damian."


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (talk(("Ann", "Give me the gist of what I paste."), ("Ann", SHARES)), SHARES),
        (talk(("Ann", f"Can you summarise this article for me?\n{SHARES}")), SHARES),
        (talk(("Ann", f"Oslo, Reuters. {SHARES}")), SHARES),
        (talk(("Ann", f"tl;dr of this text: {SHARES}"), ("assistant", SHARES)), SHARES),
    ],
)
def test_of_a_pasted_text_nothing_is_kept(request_: ExtractionRequest, text: str) -> None:
    fact = ExtractedFact(text, sources=(len(request_.messages),))
    assert worth.unworthy(fact, request_) == "it is of a text that was pasted, not of who pasted it"


@pytest.mark.parametrize(
    "request_",
    [
        talk(("Ann", "Please translate this letter."), ("Ann", "My landlord wants 900 euros a month, it says.")),
        talk(("Ann", "Can you summarise this?"), ("Bob", SHARES)),
        talk(("Ann", "I translate novels from Czech and Polish for a small house in Brno.")),
        talk(("Ann", "Summarise this: " + SHARES), ("assistant", "I keep your summaries under fifty words now.")),
    ],
)  # fmt: skip
def test_what_is_said_beside_a_pasted_text_is_kept(request_: ExtractionRequest) -> None:
    last = request_.messages[-1]
    assert worth.unworthy(ExtractedFact(last.text, sources=(last.number,)), request_) is None


def test_what_only_reminds_of_a_known_fact_is_that_fact() -> None:
    known = "The user is vegan and does not eat eggs."
    said = talk(("user", "No eggs for me, I'm vegan, remember?"), known=known)
    fact = ExtractedFact("The user wants no eggs, because the user is vegan.", sources=(1,), replaces=(1,))
    assert worth.known(fact, said) == known
    other = talk(("user", "I told you I moved to Oslo with 3 cats."), known=known)
    assert worth.known(ExtractedFact("The user moved to Oslo with 3 cats.", sources=(1,)), other) is None
    plain = talk(("user", "No eggs for me, I'm vegan."), known=known)
    assert worth.known(fact, plain) is None
