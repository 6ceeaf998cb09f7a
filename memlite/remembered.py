"""What callers hand to remember(): ready facts, as texts or dicts, read into candidates."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from memlite import event_dates, filters, ground, instants
from memlite.entities import UNKNOWN
from memlite.errors import InvalidInputError, excerpt
from memlite.event_dates import Event
from memlite.facts import NewFact
from memlite.learn import Candidate
from memlite.records import NamedEntity
from memlite.scopes import check_text
from memlite.words import fold

Given = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]

_LONGEST_NAME = 200  # characters of a name that is found by rule

KEYS = (
    "text",
    "entities",
    "event",
    "by",
    "kind",
    "metadata",
    "observed_at",
    "valid_from",
    "valid_to",
    "expires_at",
    "confidence",
    "replaces",
    "continues",
    "source",
)


@dataclass(frozen=True, slots=True)
class Remembered:
    """A validated fact whose replaces, continues and source are still the ids the caller gave."""

    fact: NewFact
    replaces: tuple[str, ...]
    continues: tuple[str, ...]
    source: tuple[str, ...]

    def candidate(self, fact_row: Callable[[str], int], message_row: Callable[[str], int]) -> Candidate:
        """Look the ids up; the two functions raise NotFoundError for an id that is not in scope."""
        sources = tuple(message_row(id_) for id_ in self.source)
        return Candidate(
            NewFact(**{name: getattr(self.fact, name) for name in NewFact.__slots__} | {"sources": sources}),
            tuple(fact_row(id_) for id_ in self.replaces),
            tuple(fact_row(id_) for id_ in self.continues),
        )


def read(
    given: Given,
    *,
    observed: tuple[int, int],
    zone: tzinfo | None,
    kind: str,
    metadata: str,
    expires_at: int | None,
) -> list[Remembered]:
    """Validate facts; the keyword values hold where a fact does not say its own.

    Raises InvalidInputError naming the fact that cannot be used.
    """
    if isinstance(given, (str, Mapping)):
        given = [given]
    if not isinstance(given, Sequence) or isinstance(given, (bytes, bytearray)):
        raise InvalidInputError(f"facts is a {type(given).__name__}, expected a text, a dict or a list of them.")
    if not given:
        raise InvalidInputError("facts is empty, expected at least one fact.")
    return [_fact(item, f"fact {n}", observed, zone, kind, metadata, expires_at) for n, item in enumerate(given, 1)]


def fact_text(text: object, where: str) -> str:
    """A fact's text, trimmed; raises InvalidInputError for anything but words."""
    if not isinstance(text, str):
        raise InvalidInputError(f"{where} has a {type(text).__name__} as text, expected one sentence.")
    check_text(where, text)
    if not text.strip():
        raise InvalidInputError(f"{where} has an empty text, expected one sentence.")
    return text.strip()


def named_by_rule(text: str) -> tuple[NamedEntity, ...]:
    """The names in a text that no model has read; what they name is not known. A run of many capitals is none."""
    found = [name for name in ground.mentioned_names(text) if len(name) <= _LONGEST_NAME]
    names = {fold(name): name for name in reversed(found) if fold(name)}
    return tuple(NamedEntity(name, UNKNOWN) for name in reversed(names.values()))


def _fact(
    item: object,
    where: str,
    observed: tuple[int, int],
    zone: tzinfo | None,
    kind: str,
    metadata: str,
    expires_at: int | None,
) -> Remembered:
    if isinstance(item, str):
        item = {"text": item}
    if not isinstance(item, Mapping):
        raise InvalidInputError(f"{where} is a {type(item).__name__}, expected a text or a dict with text.")
    unknown = [key for key in item if key not in KEYS]
    if unknown:
        raise InvalidInputError(
            f"{where} has the keys {', '.join(map(excerpt, unknown)):.200}; known are {', '.join(KEYS)}."
        )

    def instant(key: str) -> tuple[int, int] | None:
        return None if item.get(key) is None else instants.read(item[key], zone, f"{key} of {where}")

    text = fact_text(item.get("text"), where)
    at, offset = instant("observed_at") or observed
    valid_from, valid_to, expires = instant("valid_from"), instant("valid_to"), instant("expires_at")
    given = item.get("entities")
    named = named_by_rule(text) if given is None else _entities(given, where)
    said = instants.local(at, offset)
    happens = item.get("event")
    days = event_dates.named(text, said, [e.name for e in named]) if happens is None else event(happens, where, said)
    fact = NewFact(
        text=text,
        observed_at=at,
        observed_offset=offset,
        by=_word(item, "by", where),
        kind=_word(item, "kind", where) or kind,
        metadata=metadata if item.get("metadata") is None else filters.check_metadata(item["metadata"]),
        entities=named,
        confidence=_confidence(item.get("confidence"), where),
        valid_to=valid_to[0] if valid_to else None,
        expires_at=expires[0] if expires else expires_at,
        **event_dates.columns(days, text, at, offset, zone) | ({"valid_from": valid_from[0]} if valid_from else {}),
    )
    _check_end(fact, where)
    return Remembered(fact, _ids(item, "replaces", where), _ids(item, "continues", where), _ids(item, "source", where))


def _entities(given: object, where: str) -> tuple[NamedEntity, ...]:
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise InvalidInputError(f"{where} has a {type(given).__name__} as entities, expected a list.")
    found: dict[tuple[str, str], NamedEntity] = {}
    for item in given:
        name = item.get("name") if isinstance(item, Mapping) else item
        type_ = item.get("type", UNKNOWN) if isinstance(item, Mapping) else UNKNOWN
        if not isinstance(name, str) or not isinstance(type_, str) or not fold(name) or not type_.strip():
            raise InvalidInputError(
                f"{where} has the entity {excerpt(item)}, expected a name or a dict with name and type."
            )
        also = item.get("aliases", ()) if isinstance(item, Mapping) else ()
        if not isinstance(also, (list, tuple, set, frozenset)) or not all(
            isinstance(alias, str) and fold(alias) for alias in also
        ):
            raise InvalidInputError(
                f"{where} has {excerpt(also)} as aliases of {excerpt(name)}, expected a list of names."
            )
        check_text(f"an entity of {where}", "".join((name, type_, *also)))
        aliases = tuple(" ".join(alias.split()) for alias in also)
        entity = NamedEntity(" ".join(name.split()), type_.strip().lower(), aliases)
        found.setdefault((fold(entity.name), entity.type), entity)
    return tuple(found.values())


def event(when: object, where: str, said: datetime) -> Event:
    """An event's days as a caller gives them at a time. Raises InvalidInputError for what is no date by itself."""
    days = event_dates.read(when if isinstance(when, str) else excerpt(when), said)
    if days is None:
        raise InvalidInputError(
            f"{where} has the event {excerpt(when)}, expected a day, month or year such as 2025-05-11, 2025-05, 2025, "
            "first/last of these, a date in words such as summer 2024, or around one of them."
        )
    return days


def _check_end(fact: NewFact, where: str) -> None:
    """Refuse an end that is not over yet, or not after the beginning."""
    if fact.valid_to is None:
        return
    ends = f"{instants.local(fact.valid_to, fact.observed_offset):%Y-%m-%d %H:%M}"
    if fact.valid_to > instants.now():
        raise InvalidInputError(
            f"{where} has the valid_to {ends}, which is still to come: a fact that counts until then has an expires_at."
        )
    if fact.valid_to <= fact.begins:
        begins = f"{instants.local(fact.begins, fact.observed_offset):%Y-%m-%d %H:%M}"
        raise InvalidInputError(
            f"{where} has the valid_to {ends}, expected a time after it began to be true, {begins}: give valid_from, "
            "or the observed_at at which it was said."
        )


def _confidence(value: object, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise InvalidInputError(f"{where} has the confidence {excerpt(value)}, expected a number from 0 to 1.")
    return float(value)


def _word(item: Mapping[str, Any], key: str, where: str) -> str:
    value = item.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidInputError(f"{where} has a {type(value).__name__} as {key}, expected a text.")
    check_text(f"{key} of {where}", value)
    return value.strip()


def _ids(item: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = item.get(key)
    values = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(values, Sequence) or not all(isinstance(v, str) and re.fullmatch(r"\w+", v) for v in values):
        raise InvalidInputError(f"{where} has {excerpt(value)} as {key}, expected an id or a list of ids.")
    return tuple(values)
