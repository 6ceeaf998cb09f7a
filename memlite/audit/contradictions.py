"""Current facts of a root of which only one can be so: another value of one slot, one denied, one corrected."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import apsw

from memlite import ground, history, standing
from memlite.audit import slots
from memlite.audit.current import Current
from memlite.audit.reading import Reading, read

# What a fact says is not so: "is on viola now, no longer on violin". Behind a comma a new value stands before it.
_DENIED = re.compile(
    r"(?P<mark>,? (?:and |but )?not\b|\bno longer\b|\binstead of\b|\brather than\b|n['’]t\b|\bquit\b|\bgave up\b|"
    r"\bstopped\b(?! (?:at|in|on|by|for|to|over|off|near)\b)) (?P<what>(?:[^,;:.()]|(?<=\d)[,:.](?=\d))+?)"
    r"(?=[,;:](?!\d)|\.(?:\s|$)|$| but | because | since | so | and | as | any ?more)",
    re.IGNORECASE,
)
_CONTRAST = re.compile(r",|\binstead|\brather", re.IGNORECASE)
_REPORTS = re.compile(
    r"\b(?:says?|said|thinks?|believes?|hopes?|fears?|knows?|hears?|heard|told|tells?|asks?|asked|dream\w*|imagin\w*|"
    r"suppos\w*|pretend\w*|if|whether|unless|who|whose|would|may|might)\b",
    re.IGNORECASE,
)
_UNSURE = frozenset("did was were had would could may might if maybe".split())
_SHARE = 0.8  # of the older fact's words that a correction repeats: measured, see `corrects`


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two facts of which the newer one stands, and why they exclude each other."""

    older: Current
    newer: Current
    why: str


@dataclass(frozen=True, slots=True)
class Denial:
    """What a fact says is not so: in its words, their stems, the stems before it where they must be the same, and the
    words with what ties them.
    """

    said: str
    words: frozenset[str]
    before: frozenset[str]
    tied: tuple[str, ...]


def find(db: apsw.Connection, current: Sequence[Current]) -> Iterator[Contradiction]:
    """The contradictions of facts, each older fact once.

    What one message says of both, it says at once; and what somebody has judged to hold beside the other does.
    """
    judged = _judged(db, current)
    seen: set[int] = set()
    for found in (*_of_slots(current), *_of_denials(current), *_of_corrections(current)):
        older, newer = found.older, found.newer
        if older.id in seen or older.sources & newer.sources or frozenset((older.id, newer.id)) in judged:
            continue
        if standing.said_last(db, older.id) <= standing.said_last(db, newer.id):
            seen.add(older.id)
            yield found


def _judged(db: apsw.Connection, current: Sequence[Current]) -> set[frozenset[int]]:
    """Pairs of which one continues the other, or was replaced by it and reopened by hand."""
    uids = {fact.id: fact.uid for fact in current}
    rows = db.execute(
        """
        SELECT from_fact, to_fact, relation FROM links
        WHERE relation IN ('continues', 'replaces') AND to_fact IN (SELECT value FROM json_each(?))
        """,
        (json.dumps(list(uids)),),
    )
    return {
        frozenset((newer, older))
        for newer, older, relation in rows
        if relation == "continues" or history.last_batch(db, uids[older], "RESTORE") is None
    }


def _of_slots(current: Sequence[Current]) -> Iterator[Contradiction]:
    by_slot: dict[tuple[int, object, str, str], list[tuple[slots.Slot, Current]]] = defaultdict(list)
    for fact in current:
        for slot in slots.read(fact.reading, fact.types):
            who = fact.named.get(slot.subject, slot.subject)
            by_slot[fact.root, who, slot.name, slot.sort].append((slot, fact))
    for having in by_slot.values():
        having.sort(key=lambda each: each[1].said)
        last, newest = having[-1]
        for slot, fact in having[:-1]:
            if not slot.newer and slots.differ(slot.value, last.value, slot.sort):
                yield Contradiction(fact, newest, f"{_about(slot)} {slot.value} and {last.value}")


def _about(slot: slots.Slot) -> str:
    if "#" in slot.name:
        return "they differ in a number only:"
    return f"one {slot.name}, two values:"


def _of_denials(current: Sequence[Current]) -> Iterator[Contradiction]:
    by_words: dict[tuple[int, object], list[tuple[bool, Current]]] = defaultdict(list)
    for fact in current:
        if said := slots.denial(fact.reading):
            by_words[fact.root, said[0]].append((said[1], fact))
    for saying in by_words.values():
        saying.sort(key=lambda each: each[1].said)
        denies, newest = saying[-1]
        for denied, fact in saying[:-1]:
            if denied != denies:
                yield Contradiction(fact, newest, "one says what the other denies")


def _of_corrections(current: Sequence[Current]) -> Iterator[Contradiction]:
    by_word: dict[tuple[int, str, str], list[Current]] = defaultdict(list)
    for fact in current:
        if fact.reading.stems and not fact.reading.denies:
            for word in set(fact.reading.stems):
                by_word[fact.root, fact.reading.stems[0], word].append(fact)
    for fact in current:
        for denial in denials(fact.reading):
            begins = fact.reading.stems[0]
            having = (by_word.get((fact.root, begins, word), []) for word in denial.words)
            for older in min(having, key=len):
                if older.said < fact.said and corrects(fact.reading, denial, older.reading):
                    yield Contradiction(older, fact, f"the newer one says {denial.said!r}")


def denials(fact: Reading) -> Iterator[Denial]:
    """What a fact says is not so."""
    if not fact.stems or fact.tenses & _UNSURE:
        return
    for match in _DENIED.finditer(fact.text):
        what = read(match["what"])
        words = frozenset(what.stems) - {fact.stems[0]}
        lead = fact.text[: match.start()]
        if words and not _REPORTS.search(lead):
            # Before "not" stands of whom it is said; before ", not" what is so instead.
            before = () if _CONTRAST.search(match["mark"]) else read(lead).stems
            said = f"{match['mark']} {match['what']}".strip(" ,")
            yield Denial(said, words, frozenset(before), what.plain + what.placed)


def corrects(newer: Reading, denial: Denial, older: Reading) -> bool:
    """Whether what a fact denies is what an older one says, of the same subject and with the same names.

    Of 1,252 replacements in facts made from the training skeletons this finds 156, and none of 5,539 other pairs of one
    conversation.
    """
    words = set(older.stems)
    if not denial.words | denial.before <= words or len(words & set(newer.stems)) < _SHARE * len(words):
        return False
    if any(denial.words & each.words for each in denials(older)) or _tied_otherwise(denial, older):
        return False
    whose = 2 if _of_somebody(newer.text) or _of_somebody(older.text) else 1
    if newer.stems[:whose] != older.stems[:whose]:
        return False
    return all(set(read(name).stems) <= set(newer.stems) for name in ground.mentioned_names(older.text))


def _tied_otherwise(denial: Denial, older: Reading) -> bool:
    """Whether a denied word is tied to the rest by another small word there: after noon, before noon."""
    ties = {word: tie for tie, _, word in (unit.rpartition("_") for unit in (*older.plain, *older.placed)) if tie}
    return any(tie and ties.get(word, tie) != tie for tie, _, word in (unit.rpartition("_") for unit in denial.tied))


def _of_somebody(text: str) -> bool:
    """Whether a sentence is about somebody's: "Ana's brother", "the user's flat"."""
    return re.match(r"(?:[Tt]he )?(?:[^\s,]+ ){0,2}?[^\s,]+['’]s? ", text) is not None
