"""The memory file of MCP's memory server: JSON lines of entities with observations, and of relations between them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone, tzinfo
from typing import Any

from memlite.imports.files import Text
from memlite.imports.items import Item, Statement
from memlite.records import LeftOut
from memlite.words import fold


def read(text: Text, zone: tzinfo | None) -> Iterator[Item]:
    """A fact for each observation and each relation, with the entities that it is of.

    The file has no dates: its facts are taken as said when it was changed last.
    """
    at = datetime.fromtimestamp(text.modified, timezone.utc).astimezone(zone)
    for found in text.lines():
        if isinstance(found, LeftOut):
            yield found
        elif found[1].strip():
            yield from _line(f"line {found[0]}", found[1], at)


def is_line(value: Any) -> bool:
    """Whether a value looks like one of its lines."""
    if not isinstance(value, Mapping):
        return False
    kind = value.get("type")
    return (kind == "entity" and "name" in value) or (kind == "relation" and "relationType" in value)


def _line(place: str, line: str, at: datetime) -> Iterator[Item]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        yield LeftOut(place, f"malformed JSON: {error}")
        return
    if not is_line(value):
        yield LeftOut(place, "it is neither an entity with a name nor a relation with a relationType")
    elif value["type"] == "entity":
        yield from _entity(place, value, at)
    else:
        yield from _relation(place, value, at)


def _entity(place: str, value: Mapping[str, Any], at: datetime) -> Iterator[Item]:
    name, observations = value["name"], value.get("observations")
    if not isinstance(name, str) or not name.strip():
        yield LeftOut(place, f"an entity with the name {name!r}")
        return
    type_ = value["entityType"] if isinstance(value.get("entityType"), str) and value["entityType"].strip() else ""
    told = observations if isinstance(observations, list) else []
    if not told and type_:
        yield _fact(place, f"{_plain(name)}: {_plain(type_)}", at, [_named(name, type_)])
    elif not told:
        yield LeftOut(place, f"nothing is said of {name!r}")
    for number, each in enumerate(told, 1):
        if not isinstance(each, str) or not each.strip():
            yield LeftOut(f"{place}, observation {number}", f"it is {each!r:.60}, expected a text")
            continue
        named = fold(_plain(name)) in fold(each) or fold(name) in fold(each)
        yield _fact(place, each if named else f"{_plain(name)}: {each}", at, [_named(name, type_)])


def _relation(place: str, value: Mapping[str, Any], at: datetime) -> Iterator[Item]:
    ends = value.get("from"), value["relationType"], value.get("to")
    if not all(isinstance(each, str) and each.strip() for each in ends):
        yield LeftOut(place, f"a relation {ends!r:.100}, expected three texts")
        return
    start, relation, end = map(str, ends)
    yield _fact(place, f"{_plain(start)} {_plain(relation)} {_plain(end)}.", at, [_named(start, ""), _named(end, "")])


def _fact(place: str, text: str, at: datetime, entities: list[dict[str, Any]]) -> Statement:
    return Statement(text, place, {"text": text, "entities": entities, "observed_at": at})


def _named(name: str, type_: str) -> dict[str, Any]:
    """An entity under its name as people write it; the one in the file becomes an alias."""
    plain = _plain(name)
    found: dict[str, Any] = {"name": plain, "type": _plain(type_) or "unknown"}
    return found if plain == name else {**found, "aliases": [name]}


def _plain(name: str) -> str:
    """A name such as John_Smith or works_at with its words apart."""
    return " ".join(name.replace("_", " ").split()) or name
