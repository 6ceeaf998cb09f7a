"""Current facts of a root that say the same in other words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

import apsw

from memlite import vectors
from memlite.audit.current import Current

# Cosine below which two facts with the same word stems are two: "peanut allergy" and "allergic to peanuts" have 0.90
# with the default embedder, "international law" and "internal law" 0.84.
ALIKE = 0.88


def find(db: apsw.Connection, current: Sequence[Current]) -> Iterator[list[Current]]:
    """Groups of facts that say the same, the oldest first.

    Their words are the same in one plain form, numbers and names among them; or, where their vectors are alike, the
    stems of the words, what they deny and when it was. Whatever tells two facts apart otherwise must be equal: kind,
    metadata, expiry and the days that they tell of.
    """
    groups = _together([[fact] for fact in current], _words)
    if vectors.identity(db):
        groups = [each for group in _together(groups, _stems) for each in _alike(db, group)]
    for group in groups:
        found = sorted({fact.hash: fact for fact in reversed(group)}.values(), key=lambda fact: fact.age)
        if len(found) > 1:  # the same words in two runs are one hit anyway
            yield found


_Group = list[Current]


def _together(groups: Iterable[_Group], key: Callable[[Current], Hashable]) -> list[_Group]:
    """The groups joined whose oldest facts have the same key."""
    found: dict[Hashable, list[_Group]] = defaultdict(list)
    for group in groups:
        found[_apart(group[0]), key(group[0])].append(group)
    return [[fact for group in joined for fact in group] for joined in found.values()]


def _apart(fact: Current) -> Hashable:
    """What makes two facts two whatever they say. What happened on another day happened again."""
    happened = fact.days or (fact.seen if fact.reading.tenses - {"can"} else None)
    return fact.root, fact.kept, happened


def _words(fact: Current) -> Hashable:
    words = fact.reading.plain + fact.reading.placed
    return (fact.reading.plain, fact.reading.placed, fact.reading.denies) if words else fact.hash


def _stems(fact: Current) -> Hashable:
    # One word, or a script that is not split into words, says nothing by its first letters.
    few = len(fact.reading.stems) < 2 or max(fact.text) >= "\u0e00"
    return _words(fact) if few else (fact.reading.stems, fact.reading.tenses, fact.reading.denies)


def _alike(db: apsw.Connection, group: _Group) -> Iterator[_Group]:
    """A group with what is like its oldest fact by meaning as well, and the others by themselves."""
    oldest, vector = group[0], vectors.fetch(db, "fact", group[0].id) if len(group) > 1 else None
    if vector is None:
        yield from _together([[fact] for fact in group], _words)
        return
    near = vectors.similarities(db, "fact", vector, [fact.id for fact in group])
    same = [fact for fact in group if _words(fact) == _words(oldest) or near.get(fact.id, 0.0) >= ALIKE]
    yield same
    yield from _together([[fact] for fact in group if fact not in same], _words)
