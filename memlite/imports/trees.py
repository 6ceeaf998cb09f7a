"""Conversations in which a turn was edited or an answer made again: trees, of which one branch was said last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memlite.imports.files import Text
from memlite.imports.items import Item
from memlite.records import LeftOut


def conversations(text: Text, read: Callable[[str, Any], Iterator[Item]]) -> Iterator[Item]:
    """What is read of each conversation of a text, by its place and its value, and what of the text is malformed."""
    for found in text.values("conversation"):
        if isinstance(found, LeftOut):
            yield found
        else:
            yield from read(*found)


def titled(place: str, value: Any, key: str) -> tuple[str, str]:
    """A conversation's title, "" if it has none, and its place with that."""
    title = value[key] if isinstance(value, Mapping) and isinstance(value.get(key), str) else ""
    return title, f"{place} ({title})" if title else place


def abandoned(place: str, count: int) -> Iterator[LeftOut]:
    """So many messages beside the branch that is taken."""
    if count:
        yield LeftOut(place, "messages on a branch that was left: edited, or answered again", count)


def branch(parents: Mapping[str, str | None], leaf: str) -> list[str]:
    """The way from the root to a leaf. parents: of each turn the one before it, None or an unknown one for the first.

    A circle ends where it closes.
    """
    way: dict[str, None] = {}
    at: str | None = leaf
    while at is not None and at in parents and at not in way:
        way[at] = None
        at = parents[at]
    return list(way)[::-1]


def last_leaf(parents: Mapping[str, str | None]) -> str | None:
    """The last turn in the order of the file that nothing follows; None of none."""
    followed = set(parents.values())
    return next((turn for turn in reversed(list(parents)) if turn not in followed), next(reversed(list(parents)), None))
