"""Names of a message that its facts have lost, and the model's second choice that keeps them.

A small model writes what it is surest of, and leaves out the end of a sentence, or an uncommon name. Where a name is
missing it is asked to go on from its second choice at the places where it was least sure, and the line with the name is
taken if it is nearly as likely.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from memlite import ground
from memlite.chat import Answer, ChatModel
from memlite.records import ExtractionRequest

UNSURE = 0.9  # probability of a token, 0 to 1, below which its rival is worth trying
_TRIES = 4  # places of a line where it is tried
# What one more name makes up for, in the mean log-probability of a line's tokens. Chosen on half of the held-out set.
_WORTH = 0.2


def names(request: ExtractionRequest) -> list[str]:
    """The names in the new messages, folded, but not those of who speaks."""
    speakers = {ground.fold(turn.speaker) for turn in (*request.window, *request.messages)}
    found = {ground.fold(name) for turn in request.messages for name in ground.mentioned_names(turn.text)}
    return sorted(found - speakers)


def complete(
    chat: ChatModel,
    prompt: list[int],
    rules: str,
    budget: int,
    greedy_first: bool,
    answer: Answer,
    wanted: Sequence[str],
) -> Answer:
    """The answer, in lines, with such lines instead as have more of the names `wanted`, folded, if they are likely."""
    begins, evaluated, decoded = 0, answer.evaluated, answer.decoded
    while missing := [name for name in wanted if name not in ground.fold(answer.text)]:
        ends = _end(answer, begins)
        if ends == begins:
            break
        best, most = answer, _likelihood(answer, begins, ends, wanted)
        for at in _least_sure(answer, begins, ends):
            other = chat.answer(prompt, rules, budget, greedy_first, begun=chat.otherwise(answer, at), ends=_closes)
            evaluated, decoded = evaluated + other.evaluated, decoded + other.decoded + 1
            end = _end(other, begins)
            likelihood = _likelihood(other, begins, end, wanted)
            if likelihood > most and any(name in _text(other, begins, end) for name in missing):
                best, most = other.until(end), likelihood
        if best is not answer:
            answer = chat.answer(prompt, rules, budget, greedy_first, unsure=UNSURE, begun=best)
            evaluated, decoded = evaluated + answer.evaluated, decoded + answer.decoded
        begins = next(
            (at + 1 for at in range(begins, len(answer.pieces)) if b"\n" in answer.pieces[at]), len(answer.pieces)
        )
    return replace(answer, evaluated=evaluated, decoded=decoded)


def _closes(piece: bytes) -> bool:
    """Whether the text of a fact ends with a token."""
    return b"|" in piece or b"\n" in piece


def _end(answer: Answer, begins: int) -> int:
    """Where the text of the line ends that begins at a token."""
    return next((at for at in range(begins, len(answer.pieces)) if _closes(answer.pieces[at])), len(answer.pieces))


def _text(answer: Answer, begins: int, ends: int) -> str:
    return ground.fold(b"".join(answer.pieces[begins:ends]).decode("utf-8", "replace"))


def _least_sure(answer: Answer, begins: int, ends: int) -> Iterator[int]:
    places = [at for at in range(begins + 1, ends) if answer.rivals[at] is not None]
    yield from sorted(places, key=lambda at: answer.probabilities[at])[:_TRIES]


def _likelihood(answer: Answer, begins: int, ends: int, wanted: Sequence[str]) -> float:
    """The mean log-probability of a line's tokens, and what its names are worth."""
    held = answer.probabilities[begins:ends]
    mean = sum(math.log(max(each, 1e-9)) for each in held) / max(1, len(held))
    text = _text(answer, begins, ends)
    return mean + _WORTH * sum(name in text for name in wanted)
