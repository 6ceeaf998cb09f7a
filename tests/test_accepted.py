"""What is kept of an extractor's answer: what was shown with a message counts, and what the message itself says."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import pytest

from memlite import ExtractedFact, Extraction, ExtractionRequest, Memory, NamedEntity, learn
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
            return Extraction((ExtractedFact("The user's sister Clara is allergic to walnuts.", "User", (number,), entities=named),))

    for batches in ([[CLARA, WALNUTS]], [[CLARA], [WALNUTS]]):
        with Memory(tmp_path / f"{len(batches)}.db", embedder=False, extractor=Clara()) as memory:
            results = [memory.add([{"role": "user", "content": said} for said in each], user_id="ana") for each in batches]
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


@pytest.mark.parametrize("tail", [", for the user's sister Clara", ", for the user's pesto", ", for a table for two at 19:30"])
def test_for_whom_an_assistant_speaks_is_cut_where_its_message_does_not_say_so(tail: str) -> None:
    before = ["I booked a table for two at Osteria Lume on 14 June at 19:30.", CLARA, WALNUTS]
    assert kept(f"{MADE}{tail}.", talk(RISOTTO, window=before)) == (f"{MADE}.", "")


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("assistant: I recommend the risotto for her.", "The assistant recommended the risotto for the user's sister Clara."),
        ("assistant: I recommend the risotto for Clara.", "The assistant recommended the risotto for Clara."),
        ("assistant: I reserved the table at 8.", "The assistant reserved the table at 8."),
        ("Bob: I baked the lemon tart again, for that.", "Bob baked the lemon tart for Clara's visit."),
        ("Ben: Lemon tart!", "Ben baked a lemon tart for Clara."),  # it may answer
    ],
)  # fmt: skip
def test_a_last_phrase_that_was_said_or_pointed_at_stays(said: str, text: str) -> None:
    window = [CLARA, *(["Ann: What did you bake for Clara?"] if said.startswith("Ben") else [])]
    assert kept(text, talk(said, window=window))[0] == text
