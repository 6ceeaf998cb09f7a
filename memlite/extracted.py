"""What an extractor answers, which may be a caller's own code, checked before anything is made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from memlite.errors import ExtractionError
from memlite.records import ExtractedFact, Extraction, ExtractionRequest, NamedEntity, Skipped

LONGEST_TEXT = 2000  # characters of a fact, which is a sentence, and of all names in it
_SHOWN = 200  # characters of a longer one in `unusable`


def checked(answer: object, request: ExtractionRequest, name: str) -> Extraction:
    """The answer, the facts that cannot be stored among its `unusable`: too long, or with half of a surrogate pair.

    What a fact cites beyond the messages shown is left out. Raises ExtractionError for anything that is no Extraction
    of the types that it declares: the fault is in the extractor, named `name`, and the messages stay queued.
    """
    if not isinstance(answer, Extraction):
        raise ExtractionError(f"{name} returned a {type(answer).__name__}, expected an Extraction")
    _check(answer, _OF_EXTRACTION, name)
    numbers = {turn.number for turn in request.messages}
    facts: list[ExtractedFact] = []
    unusable = list(answer.unusable)
    for fact in answer.facts:
        _check(fact, _OF_FACT, name)
        for entity in fact.entities:
            _check(entity, _OF_ENTITY, name)
        if reason := _unusable(fact):
            unusable.append(Skipped(_shown(fact.text), reason))
        else:
            cited = tuple(number for number in dict.fromkeys(fact.sources) if number in numbers)
            facts.append(replace(fact, sources=cited, entities=tuple(fact.entities)))
    return replace(answer, facts=tuple(facts), unusable=tuple(unusable), notes=tuple(answer.notes))


def _unusable(fact: ExtractedFact) -> str | None:
    """Why a fact cannot be stored, or None."""
    names = [part for entity in fact.entities for part in (entity.name, entity.type, *entity.aliases)]
    for what, length in (("text", len(fact.text)), ("speaker", len(fact.by)), ("names", sum(map(len, names)))):
        if length > LONGEST_TEXT:
            return f"it has {length} characters of {what}, expected {LONGEST_TEXT} at the most: a fact is a sentence"
    try:
        "".join((fact.text, fact.by, fact.when or "", *names)).encode()
    except UnicodeEncodeError:
        return "it has half of a surrogate pair, which no file can hold"
    return None


def _shown(text: str) -> str:
    whole = text[: _SHOWN + 1].encode("utf-8", "replace").decode()
    return whole if len(whole) <= _SHOWN else f"{whole[:_SHOWN]}…"


_Holds = Callable[[Any], bool]


def _check(record: object, fields: Mapping[str, tuple[_Holds, str]], name: str) -> None:
    for field, (holds, expected) in fields.items():
        value = getattr(record, field)
        if not holds(value):
            where = f"{type(record).__name__}.{field}"
            raise ExtractionError(f"{name} returned {ascii(value)[:60]} as {where}, expected {expected}")


def _is(*types: type) -> _Holds:
    return lambda value: isinstance(value, types) and not isinstance(value, bool)


def _are(of: type) -> _Holds:
    each = _is(of)
    return lambda value: isinstance(value, (tuple, list)) and all(map(each, value))


_TEXT, _TEXTS, _NUMBERS = (_is(str), "a text"), (_are(str), "texts"), (_are(int), "numbers")
_SHARE = (lambda value: value is None or (_is(int, float)(value) and 0 <= value <= 1), "a number from 0 to 1, or None")
_OF_ENTITY = {"name": _TEXT, "type": _TEXT, "aliases": _TEXTS}
_OF_FACT = {
    "text": _TEXT,
    "by": _TEXT,
    "sources": _NUMBERS,
    "when": (_is(str, type(None)), "a text or None"),
    "replaces": _NUMBERS,
    "continues": _NUMBERS,
    "entities": (_are(NamedEntity), "NamedEntity records"),
    "confidence": _SHARE,
}
_OF_EXTRACTION = {
    "facts": (_are(ExtractedFact), "ExtractedFact records"),
    "unusable": (_are(Skipped), "Skipped records"),
    "notes": _TEXTS,
}
