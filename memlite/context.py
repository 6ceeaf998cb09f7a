"""Hits as lines of a prompt, within a budget of tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable

from memlite.prompt import one_line
from memlite.records import Fact, Hit, Message

MOST_HITS = 50  # more would not fit into a prompt
LONGEST_QUOTE = 240  # characters of a source that are quoted behind its fact
# The day behind what a line says, and perhaps a quotation behind it.
_LINE_ENDS = re.compile(r" \(\d{4}-\d\d-\d\d(?:, [^()]*)?\)(?= \[|$)")
_WORDS = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\w{1,6}|[^\w\s]")


def tokens(text: str) -> int:
    """An estimate of a text's tokens, rather too many: pieces of six letters, signs, characters of unspaced scripts."""
    return len(_WORDS.findall(text))


def pack(hits: Iterable[Hit], room: int) -> tuple[list[str], list[Hit]]:
    """The lines of the best hits that fit into `room` tokens, and those hits. A hit too long is left out, the next
    tried. Sources follow in a second round, so that no quotation takes the place of a fact.
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
        quoted = _quotation(hit)
        if quoted and (cost := tokens(quoted)) <= left:
            lines[at] += quoted
            left -= cost
    return lines, shown


def recalled(line: str) -> list[tuple[str, str]]:
    """What a line says if `pack` wrote it: the text of a fact, or who said what; each reading of an unclear one."""
    if not line.startswith("- "):
        return []
    return [(line[2 : found.start()], _unquoted(line[found.end() :])) for found in _LINE_ENDS.finditer(line)]


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


def _said(message: Message) -> str:
    return f"{message.name or message.role}: {message.content}"


def _quotation(hit: Hit) -> str:
    if not hit.sources:
        return ""
    said = one_line(_said(hit.sources[-1]))
    return f" [{said if len(said) <= LONGEST_QUOTE else said[:LONGEST_QUOTE] + '…'}]"
