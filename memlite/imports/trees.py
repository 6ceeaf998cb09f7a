"""Conversations in which a turn was edited or an answer made again: trees, of which one branch was said last."""

from __future__ import annotations

from collections.abc import Mapping


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
