"""What is kept of an extractor's answer: what was shown with a message counts, and what the message itself says."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import pytest

from memlite import ExtractedFact, Extraction, ExtractionRequest, Memory, NamedEntity, ground, learn
from memlite.dates import resolve
from memlite.records import KnownFact, Turn

WEDNESDAY = datetime(2025, 5, 14, 12, tzinfo=timezone.utc)
CLARA = "My sister Clara is visiting me from Lisbon next week."
WALNUTS = "She is allergic to walnuts, so no pesto for her."


def turn(number: int, who: str, text: str) -> Turn:
    role = "assistant" if who == "assistant" else "user"
    return Turn(number, role, who, text, WEDNESDAY, resolve(text, WEDNESDAY))


def talk(*said: str, window: Sequence[str] = (), known: Sequence[str] = ()) -> ExtractionRequest:
    """Messages as "speaker: text", or a text alone of the user."""

    def read(number: int, line: str) -> Turn:
        who, colon, text = line.partition(": ")
        return turn(number, who, text) if colon and " " not in who else turn(number, "user", line)

    return ExtractionRequest(
        tuple(read(number, line) for number, line in enumerate(said, 1)),
        tuple(read(0, line) for line in window),
        tuple(KnownFact(number, text) for number, text in enumerate(known, 1)),
    )


def kept(text: str, request: ExtractionRequest, *sources: int) -> tuple[str | None, str]:
    """What is stored of a fact (of the last message, unless others are cited), and why not where it is not."""
    fact = ExtractedFact(text, sources=sources or (len(request.messages),))
    facts, skipped = learn.accepted(Extraction((fact,)), request)
    return (facts[0].text, "") if facts else (None, skipped[-1].reason)


def test_a_message_of_the_same_add_counts_for_the_later_ones_as_one_of_an_earlier_add_does(tmp_path: Path) -> None:
    class Clara:
        name, prompt_version = "clara", "1"

        def extract(self, request: ExtractionRequest) -> Extraction:
            number = len(request.messages)
            named = (NamedEntity("Clara", "person"),)
            return Extraction(
                (ExtractedFact("The user's sister Clara is allergic to walnuts.", "User", (number,), entities=named),)
            )

    for batches in ([[CLARA, WALNUTS]], [[CLARA], [WALNUTS]]):
        with Memory(tmp_path / f"{len(batches)}.db", embedder=False, extractor=Clara()) as memory:
            results = [
                memory.add([{"role": "user", "content": said} for said in each], user_id="ana") for each in batches
            ]
            (fact,) = results[-1].facts
            assert fact.text == "The user's sister Clara is allergic to walnuts."
            assert [memory.get(id_).text for id_ in fact.sources] == [CLARA, WALNUTS]


def test_a_later_message_says_nothing_for_an_earlier_one() -> None:
    assert kept("The user's sister Clara is allergic to walnuts.", talk(WALNUTS, CLARA), 1)[0] is None


def test_the_source_of_a_name_is_no_later_message(tmp_path: Path) -> None:
    class Clara:
        name, prompt_version = "clara", "1"

        def extract(self, request: ExtractionRequest) -> Extraction:
            return Extraction((ExtractedFact("The user's sister Clara is allergic to walnuts.", "User", (2,)),))

    with Memory(tmp_path / "memory.db", embedder=False, extractor=Clara()) as memory:
        said = [CLARA, WALNUTS, "Clara arrives on Monday."]
        (fact,) = memory.add([{"role": "user", "content": each} for each in said], user_id="ana").facts
        assert [memory.get(id_).text for id_ in fact.sources] == [CLARA, WALNUTS]


RISOTTO = "assistant: I recommend the saffron risotto at Osteria Lume; it is made without nuts."
MADE = "The assistant recommended the saffron risotto at Osteria Lume to the user, made without nuts"


@pytest.mark.parametrize(
    "tail",
    [
        ", for the user's sister Clara",
        ", for the user's pesto",
        ", for a table for two at 19:30",
        ", for a table of two at Osteria Lume on 2026-06-14 at 19:30",
    ],
)
def test_for_whom_an_assistant_speaks_is_cut_where_its_message_does_not_say_so(tail: str) -> None:
    before = ["I booked a table for two at Osteria Lume on 14 June at 19:30.", CLARA, WALNUTS]
    assert kept(f"{MADE}{tail}.", talk(RISOTTO, window=before)) == (f"{MADE}.", "")


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("assistant: I recommend the risotto for her.", "The assistant recommended the risotto for the user's sister."),
        ("assistant: I recommend the risotto for Clara.", "The assistant recommended the risotto for Clara."),
        ("assistant: I reserved the table at 8.", "The assistant reserved the table at 8."),
        ("Bob: I baked the lemon tart again, for that.", "Bob baked the lemon tart for Clara's visit."),
        ("Ben: Lemon tart!", "Ben baked a lemon tart for Clara."),  # it may answer
    ],
)  # fmt: skip
def test_a_last_phrase_that_was_said_or_pointed_at_stays(said: str, text: str) -> None:
    window = [CLARA, *(["Ann: What did you bake for Clara?"] if said.startswith("Ben") else [])]
    assert kept(text, talk(said, window=window))[0] == text


def test_what_was_cut_to_no_sentence_is_skipped() -> None:
    said = "Her manager, Lukas Brandt, doesn't like remote work."
    priya = talk(said, window=["My colleague Priya works with her brother Arjun."])
    bare = "The user's colleague Priya's manager Lukas Brandt"
    assert kept(f"{bare}, who is Arjun's friend at Shopify.", priya)[1].endswith("what is left has no verb")
    assert kept(f"{bare} dislikes remote work, and Arjun plays chess.", priya)[0] == f"{bare} dislikes remote work."
    german = talk("Meine Frau Katrin mag keine Pilze.")
    assert kept("Meine Frau Katrin mag keine Pilze; Arjun mag Wein.", german)[0] == "Meine Frau Katrin mag keine Pilze."


@pytest.mark.parametrize(
    ("text", "who"),
    [
        ("She is allergic to walnuts.", "she"),
        ("The user told him that walnuts are fine.", "him"),
        ('The user said: "She is allergic to walnuts."', "she"),
        ("Clara says that she is allergic to walnuts.", None),
        ("Al says he is allergic to walnuts.", None),
        ("The user's sister says she is allergic to walnuts.", None),
        ("The user is allergic to walnuts.", None),
    ],
)
def test_a_fact_says_who_she_is(text: str, who: str | None) -> None:
    request = talk(WALNUTS, window=[CLARA, "Tell him, Al, walnuts are fine."])
    found, reason = kept(text, request)
    assert reason == (f"it does not say who {who} is" if who else "")
    assert (found is None) == (who is not None)


def test_he_in_another_language_is_somebody_else() -> None:
    said = "He comprado un coche rojo en Sevilla."
    assert kept(said, talk(said))[0] == said


@pytest.mark.parametrize(
    ("said", "text", "expected"),
    [
        (
            "Grandma's 90th birthday is on the 22nd.",
            "The user's 90th birthday is on 2025-05-22.",
            "The user's grandma's 90th birthday is on 2025-05-22.",
        ),
        ("My dad's car is a Volvo.", "The user's car is a Volvo.", "The user's dad's car is a Volvo."),
        ("Ann: My dad's car is a Volvo.", "Ann's car is a Volvo.", "Ann's dad's car is a Volvo."),
        (
            "I sleep at my parents' house.",
            "The user sleeps at the user's house.",
            "The user sleeps at the user's parents' house.",
        ),
        (
            "My best friend Sofia's wedding is in Graz.",
            "The user's wedding is in Graz.",
            "The user's best friend Sofia's wedding is in Graz.",
        ),
        ("Tom's new flat is in Graz.", "The user's flat is in Graz.", "Tom's flat is in Graz."),
        ("Her dad's flat is in Graz.", "The user's flat is in Graz.", None),
        ("My flat is near Tom's flat in Graz.", "The user's flat is in Graz.", "The user's flat is in Graz."),
        ("Tomorrow's interview is at Roche.", "The user's interview is at Roche.", "The user's interview is at Roche."),
        ("I did a master's thesis on ice.", "The user's thesis is on ice.", "The user's thesis is on ice."),
        ("Let's keep the flat in Graz.", "The user's flat is in Graz.", "The user's flat is in Graz."),
        ("My sister's dog is Rex.", "The user's sister's dog is Rex.", "The user's sister's dog is Rex."),
    ],
)  # fmt: skip
def test_what_was_said_of_grandmas_is_not_the_users(said: str, text: str, expected: str | None) -> None:
    assert kept(text, talk(said))[0] == expected


@pytest.mark.parametrize("said", ["Updated.", "Noted!", "Got it, thanks.", "Done!"])
def test_an_acknowledgement_says_and_replaces_nothing(said: str) -> None:
    known = "The user's ferry to Hvar leaves at 7:40."
    request = talk("We take the ferry to Hvar at 8 now.", f"assistant: {said}", known=[known])
    assert kept("The user's ferry to Hvar leaves at 8.", request) == (None, "its message says only that it was heard")
    assert kept("The user's ferry to Hvar leaves at 8.", request, 1, 2)[0] is not None


@pytest.mark.parametrize(
    ("said", "text", "asked"),
    [
        ("Dinner Friday at mine? Ben is allergic to shellfish, right?", "Ben is allergic to shellfish.", True),
        ("Ben is allergic to shellfish, isn't he?", "Ben is allergic to shellfish.", True),
        ("Is Ben still allergic to shellfish? I forgot.", "Ben is allergic to shellfish.", True),
        ("Did you know that Ben is allergic to shellfish?", "Ben is allergic to shellfish.", False),
        ("Did I tell you that Ben is allergic to shellfish?", "Ben is allergic to shellfish.", False),
        ("Is it bad? Ben is allergic to shellfish.", "Ben is allergic to shellfish.", False),
        ("Ben is allergic to shellfish and eats no meat. Crazy, right?", "Ben is allergic to shellfish.", False),
        ("Does my daughter Mia need a visa for Japan?", "The user has a daughter Mia.", False),
        ("Why does my dog Rex limp?", "The user's dog Rex limps.", False),
    ],
)
def test_what_a_message_only_asks_is_no_fact(said: str, text: str, asked: bool) -> None:
    assert kept(text, talk(said)) == ((None, "its message asks whether it is so") if asked else (text, ""))


@pytest.mark.parametrize(
    ("said", "text", "reason"),
    [
        ("I sold the boat yesterday.", "The user has not sold the boat.", "it denies what nobody has denied"),
        ("I haven't sold the boat.", "The user sold the boat.", "it says what its message denies"),
        ("I never eat fish.", "The user eats fish.", "it says what its message denies"),
        ("I haven't sold the boat.", "The user has not sold the boat.", ""),
        ("I can't stand fish.", "The user dislikes fish.", ""),
        ("I stopped eating fish.", "The user does not eat fish.", ""),
        ("My new boss is Rowan. Teea is from payroll.", "The user's new boss is Rowan, not Teea.", ""),
        ("I eat fish but no meat.", "The user eats fish.", ""),
        ("Ich esse keinen Fisch in Bonn.", "The user does not eat Fisch in Bonn.", ""),
    ],
)
def test_a_fact_denies_what_its_message_denies(said: str, text: str, reason: str) -> None:
    assert kept(text, talk(said))[1] == reason


def test_a_denial_may_stand_in_what_was_shown_before() -> None:
    assert kept(
        "The user has no lactose in the diet.", talk("Lactose, of all of my diet.", window=["What can't you eat?"])
    )[0]


def test_a_foreign_model_without_probabilities_passes_any_floor() -> None:
    request = talk("I moved to Porto.")
    facts = tuple(ExtractedFact("The user moved to Porto.", sources=(1,), confidence=each) for each in (None, 0.4))
    found, skipped = learn.accepted(Extraction(facts), request, 0.5)
    assert [fact.confidence for fact in found] == [None]
    assert "confidence" in skipped[0].reason


def test_a_batch_of_many_messages_is_checked_without_reading_them_all_for_each_fact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []
    ungrounded = ground.ungrounded

    def counted(fact: ExtractedFact, request: ExtractionRequest) -> tuple[str, ...]:
        read.append(len(request.window) + len(request.messages))
        return ungrounded(fact, request)

    monkeypatch.setattr(ground, "ungrounded", counted)
    request = talk(*(f"I bought {number} apples." for number in range(200)), window=["Hi."] * 10)
    facts = tuple(ExtractedFact(f"The user bought {n - 1} apples.", sources=(n,)) for n in range(1, 201))
    found, _ = learn.accepted(Extraction(facts), request)
    assert len(found) == 200
    assert max(read) <= 10 + 2 * learn.BESIDE + 1
