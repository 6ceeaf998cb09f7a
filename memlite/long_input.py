"""What is too long for one call, in parts: a conversation between messages, a message between sentences, and both where
the topic changes, if it does.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from memlite import ground
from memlite.errors import ModelError
from memlite.records import ExtractionRequest, ResolvedDate, Turn
from memlite.sentences import ENDS


def split(
    request: ExtractionRequest, room: int, tokens: Callable[[ExtractionRequest], int], most: int
) -> list[ExtractionRequest]:
    """The request in parts of at most `room` tokens and `most` messages, within a message only when it must be.

    A message keeps its number in every part. What came before a part is its window, as far as there is room. A part
    ends where the topic changes, if it changes in its second half.
    """
    turns = [turn for turn in request.messages if turn.number > 0]
    parts: list[ExtractionRequest] = []
    before = list(request.window)
    while turns:
        part = replace(request, messages=(), window=tuple(before[-max(len(request.window), 4) :]))
        fitting = _fitting(part, turns[:most], room, tokens)
        if fitting == 0:
            part = _trimmed(replace(part, messages=(turns[0],)), room, tokens)
            if tokens(part) > room:
                turns[:1] = _halves(
                    turns[0], room, tokens(replace(part, messages=(replace(turns[0], text="-", dates=()),)))
                )
                continue
            fitting = 1
        if fitting < len(turns):
            fitting = _topic_end(turns, fitting)
        parts.append(replace(part, messages=tuple(turns[:fitting])))
        before += [replace(turn, number=0) for turn in turns[:fitting]]
        del turns[:fitting]
    return parts


def by_topic(turn: Turn, most: int) -> list[Turn]:
    """The turn in pieces of whole sentences, of at most `most` characters where none is longer.

    It is cut where the sentences beside each other share the fewest words, the nearest to its middle; no piece is less
    than a quarter of what was cut.
    """
    text = turn.text
    ends = [0, *(found.end() for found in re.finditer(ENDS, text)), len(text)]
    words = [set(ground.content_words(text[start:end])) for start, end in itertools.pairwise(ends)]
    cuts = [at for at in range(1, len(words)) if len(text) <= 4 * ends[at] <= 3 * len(text)]
    if len(text) <= most or not cuts:
        return [turn]

    def shared(at: int) -> tuple[float, int]:
        before, after = words[at - 1], words[at]
        return len(before & after) / max(1, min(len(before), len(after))), abs(2 * ends[at] - len(text))

    cut = ends[min(cuts, key=shared)]
    return [piece for half in _cut(turn, cut) for piece in by_topic(half, most)]


def _topic_end(turns: Sequence[Turn], most: int) -> int:
    """How many turns to take, at most `most` and at least half of them: up to where the words change most."""

    def shared(cut: int) -> float:
        before, after = (
            {word for turn in part for word in ground.content_words(turn.text)}
            for part in (turns[max(0, cut - 2) : cut], turns[cut : cut + 2])
        )
        return len(before & after) / max(1, min(len(before), len(after)))

    return min(range(most, max(1, most // 2) - 1, -1), key=shared)


def _fitting(
    part: ExtractionRequest, turns: Sequence[Turn], room: int, tokens: Callable[[ExtractionRequest], int]
) -> int:
    """How many of the turns fit into the part."""
    low, high = 0, len(turns)
    while low < high:
        middle = (low + high + 1) // 2
        if tokens(replace(part, messages=tuple(turns[:middle]))) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def _trimmed(part: ExtractionRequest, room: int, tokens: Callable[[ExtractionRequest], int]) -> ExtractionRequest:
    """The part with as much of the newest window, then of the first known facts, as there is room for."""
    while part.window and tokens(part) > room:
        part = replace(part, window=part.window[1:])
    while part.known and tokens(part) > room:
        part = replace(part, known=part.known[:-1])
    return part


def _halves(turn: Turn, room: int, without: int) -> list[Turn]:
    """The turn as two, cut behind the sentence or the word nearest its middle."""
    text = turn.text
    if without >= room or len(text) < 2:
        raise ModelError(
            f"the prompt takes {without} tokens without any message and {room} fit: give the extractor a larger n_ctx"
        )
    middle = len(text) // 2
    ends = [found.end() for found in re.finditer(ENDS, text)]
    words = [found.end() for found in re.finditer(r"\s+", text)]
    for borders in (ends, words):
        near = [border for border in borders if len(text) // 4 <= border <= len(text) - len(text) // 4]
        if near:
            middle = min(near, key=lambda border: abs(border - middle))
            break
    return _cut(turn, middle)


def _cut(turn: Turn, at: int) -> list[Turn]:
    """The turn as two. Its dates are in the order of its text, and go with their words; what is cut is in neither."""
    text, begin = turn.text, 0
    before: list[ResolvedDate] = []
    behind: list[ResolvedDate] = []
    for found in turn.dates:
        place = text.find(found.expression, begin)
        if place < 0:
            continue
        begin = place + len(found.expression)
        if begin <= at or place >= at:
            (before if begin <= at else behind).append(found)
    return [replace(turn, text=text[:at], dates=tuple(before)), replace(turn, text=text[at:], dates=tuple(behind))]
