"""Sentences: where they end, and whether a fact repeats one of a message."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

LONGEST = 400  # characters of a sentence that can be a fact
_LEAST_QUOTE = 12  # characters of a sentence whose repetition is no accident

# Where a sentence may end, without regard to what follows: for cutting a text, not for quoting from it.
ENDS = r"[.!?。！？…]['\")\]]*\s+|\n+|[。！？]"
_END = re.compile(r"(?<=[.!?…])[\"”’)]*\s+(?=[A-ZÀ-Þ\u0400-\u042f0-9\"“‘(])|(?<=[。！？])|\n+")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:[A-ZÀ-Þ]|Dr|Mrs?|Ms|St|Jr|Sr|No|Nr|Prof|vs|ca|e\.g|i\.e)\.$"
    r"|(?:^|\b(?:am|der|den|dem|vom|zum|bis) )\d{1,2}\.$"  # German days: "am 3. Juli"
)


_LONGEST_ABBREVIATION = 16  # characters, with what stands before it


def clean(text: str) -> str:
    """Text without control characters, which could draw lines of their own; unpaired surrogates become U+FFFD."""
    text = re.sub("[\ud800-\udfff]", "\ufffd", text)
    return re.sub(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u200b\u2060\ufeff]", "", text)


def split(text: str) -> list[str]:
    """The sentences of a text; what is longer than a fact should be is cut at its commas, or where it must."""
    found: list[str] = []
    for piece in _END.split(clean(text)):
        piece = " ".join(piece.split())
        if found and _ABBREVIATION.search(found[-1][-_LONGEST_ABBREVIATION:]):
            found[-1] += " " + piece
        elif piece:
            found.append(piece)
    return [part for sentence in found for part in _parts(sentence)]


def _parts(sentence: str) -> Iterator[str]:
    while len(sentence) > LONGEST:
        head = sentence[: LONGEST + 1]
        cuts = [m.end() for m in re.finditer(r"[;,:，、；]\s*|\s+", head) if m.end() <= LONGEST]
        strong = [m.end() for m in re.finditer(r"[;,:，、；]\s*", head) if LONGEST // 4 <= m.end() <= LONGEST]
        cut = (strong or cuts or [LONGEST])[-1]
        yield sentence[:cut].strip()
        sentence = sentence[cut:].strip()
    yield sentence


def quotes(fact: str, message: str, others: Sequence[str] = ()) -> bool:
    """Whether a fact repeats a sentence of a message, word for word, that none of the other messages has."""
    said, also = _flat(fact), [_flat(other) for other in others]
    return any(
        len(text) > _LEAST_QUOTE and text in said and not any(text in other for other in also)
        for text in map(_flat, split(message))
    )


def _flat(text: str) -> str:
    """A text as it stands inside a quotation."""
    return " ".join(clean(text).split()).replace('"', "'")
