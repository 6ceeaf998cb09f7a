"""Hits as lines of a prompt, within a budget of tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from memlite.prompt import one_line
from memlite.records import Fact, Hit, Message

MOST_HITS = 50  # more would not fit into a prompt
LONGEST_QUOTE = 240  # characters of a source that are quoted behind its fact
# What a line may begin with in another's hands: bullets, numbers, quotation marks of mail.
BULLET = r"(?:[>|*•·\-–—]+|\d{1,2}[.)])[>\s*•·\-–—]*"
_BEGINS = re.compile(rf"(?:^|(?<=\s)){BULLET}(?=\S)")
_MOST_READINGS = 8  # beginnings of a line, and ends: no line may cost its length squared
# The day behind what a line says, perhaps with what it replaced, and perhaps a quotation behind it.
_LINE_ENDS = re.compile(
    rf" \(\d{{4}}-\d\d-\d\d(?:, (?!before: )[^()]*?)?(?:, before: (?P<before>.{{1,{LONGEST_QUOTE}}}?))?\)(?= \[|$)"
)
_WORDS = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\w{1,6}|[^\w\s]")


def tokens(text: str) -> int:
    """An estimate of a text's tokens, rather too many: pieces of six letters, signs, characters of unspaced scripts."""
    return len(_WORDS.findall(text))


def pack(hits: Iterable[Hit], room: int, *, replaced: bool = True) -> tuple[list[str], list[Hit]]:
    """The lines of the best hits that fit into `room` tokens, and those hits. A hit too long is left out, the next
    tried. What they replaced and sources follow in a second round, so that neither takes the place of a fact.
    """
    lines: list[str] = []
    shown: list[Hit] = []
    left = room
    for hit in hits:
        made = _line(hit)
        if (cost := tokens(made) + 1) <= left:
            lines.append(made)
            shown.append(hit)
            left -= cost
    for at, hit in enumerate(shown):
        before = _before(hit) if replaced else ""
        if before and (cost := tokens(before)) <= left:
            lines[at] = f"{lines[at][:-1]}{before})"
            left -= cost
        quoted = _quotation(hit.quote) if hit.quote else ""
        if quoted and (cost := tokens(quoted)) <= left:
            lines[at] += quoted
            left -= cost
    return lines, shown


class Recalled(NamedTuple):
    """What a line says from `start` on, in characters, if `pack` wrote it: the text of a fact or who said what, what it
    replaced, and what is quoted behind it.
    """

    start: int
    text: str
    before: str
    quoted: str


def recalled(line: str) -> list[Recalled]:
    """Each reading of a line that `pack` may have written, whatever bullets or words others have put before it."""
    ends = list(_LINE_ENDS.finditer(line))[:_MOST_READINGS]
    begins = list(_BEGINS.finditer(line))[:_MOST_READINGS] if ends else []
    spans = [(0, 0), *((found.start(), found.end()) for found in begins)]
    return [
        Recalled(start, line[first : end.start()], end["before"] or "", _unquoted(line[end.end() :]))
        for start, first in spans
        for end in ends
        if first < end.start()
    ]


def _unquoted(end: str) -> str:
    """What a quotation at the end of a line says; "" where there is none, or where it was cut short."""
    said = end.removeprefix(" [").removesuffix("]")
    return "" if said.endswith("…") else said


def _line(hit: Hit) -> str:
    return f"- {one_line(_said(hit.record) if isinstance(hit.record, Message) else hit.text)} ({_day(hit.record)})"


def _day(record: Fact | Message) -> str:
    if isinstance(record, Message):
        return f"{record.observed_at:%Y-%m-%d}"
    ended = record.valid_to or record.expires_at
    over = "" if record.current else f", true until {ended:%Y-%m-%d}" if ended else ", no longer true"
    return (record.event_start or f"{record.observed_at:%Y-%m-%d}") + over


def _before(hit: Hit) -> str:
    """The fact that a hit replaced, for the end of its line; "" where there is none, or one too long for a line."""
    text = one_line(hit.replaced[0].text) if hit.replaced else ""
    return f", before: {text}" if 0 < len(text) <= LONGEST_QUOTE else ""


def _said(message: Message) -> str:
    return f"{message.name or message.role}: {message.text}"


def _quotation(message: Message) -> str:
    said = one_line(_said(message))
    return f" [{said if len(said) <= LONGEST_QUOTE else said[:LONGEST_QUOTE] + '…'}]"
