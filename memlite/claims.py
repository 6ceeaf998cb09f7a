"""Whether a claim that one fact replaces another is believable: of the same subject, and of something it changes."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import date

from memlite import dates, predicates, subjects, worth
from memlite.words import fold, read_query

_CORRECTS = re.compile(
    r"\b(?:not|never|no longer|instead|actually|cancel\w*|call(?:s|ed) off|postponed|moved|rather|wrong|correct\w*|"
    r"back|again)\b|n't",
    re.IGNORECASE,
)
_DENIES = re.compile(r"\b(?:not|never|no|cannot)\b|n['’]t\b", re.IGNORECASE)
_TURNS = re.compile(r"\b(?:now|again|longer|any ?more|instead|but|before)\b|, not\b", re.IGNORECASE)
# Behind "the assistant": what it is to do is somebody's wish. Behind an assistant's name: what it did was to talk.
_NO_DEED = r"['’]s |(?:should|must|ought|may|is to|has to|needs to|is called|is named)\b"
_TALKS = (
    r"(?:(?:has|had|also|then) )*(?:recommend|suggest|advis|propos|offer|promis|remind|explain|warn|tells|told|says|"
    r"said|notes|noted)"
)
_SHORT = 6  # words of weight of a fact that says one thing
_OPENING = r"^(?:As|Because|Since|Given|Knowing|On|In|At|After|When|For)\b[^,]*, "


def may_replace(old: str, new: str, day: date, speakers: Sequence[str] = (), users: Collection[str] = ()) -> bool:
    """Whether a claim that `new` replaces `old` is believable; day: on which the new one was said.

    One of them mentions whom the other is about. They share words, three tenths of the old one's at least, the
    speakers' names apart, four where nothing in them tells of a change, and half where the old one is long: it says
    several things, and the new one would take them all away. A move elsewhere needs no word of the old home. What was
    over by that day has happened, whatever comes after it, unless it is corrected. And one denial does not end another.
    What an assistant did is no news of others. And the new one must not be of another slot, add to the old one or say
    it again (`predicates.stands_beside`). users: names of who is "the user".

    Of 1,468 replacements of the training skeletons 92.1 % pass. Of those told of another person, or of a relative, 1 %
    do, and of 2,702 other pairs of a known and a new fact of one conversation, mostly of the same people, 25.6 %.
    """
    if not (predicates.moves(old, new) or _share_words(old, new, speakers)):
        return False
    if _others(old, new, speakers, users) or not subjects.same(old, new, users) or _another_denial(old, new):
        return False
    if _only_the_assistant(old, new, speakers, users) or predicates.stands_beside(old, new, users):
        return False
    days, _ = dates.absolute(fold(old))
    return not days or _CORRECTS.search(new) is not None or not all(_is_over(parts, day) for _, parts in days)


def _share_words(old: str, new: str, speakers: Sequence[str]) -> bool:
    mine, theirs = (set(read_query(text).terms) for text in (new, old))
    if len(mine & theirs) < min(2, len(theirs)):
        return False
    before = worth.stems(old) - worth.stems(" ".join(speakers))
    asked = 5 if len(before) > _SHORT else 3 if predicates.tells_of_change(old, new) else 4  # tenths
    return 10 * len(worth.stems(new) & before) >= asked * len(before)


def _is_over(parts: dates.PartialDate, day: date) -> bool:
    year, month, number = parts
    return (year or 9999, month or 12, number or 31) < (day.year, day.month, day.day)


def _another_denial(old: str, new: str) -> bool:
    """Whether both only deny something, and not the same: who eats no nuts, and then no fish, eats neither."""
    if not (_DENIES.search(old) and _DENIES.search(new)) or _TURNS.search(new):
        return False
    return not worth.stems(old) <= worth.stems(new)


def _others(old: str, new: str, speakers: Sequence[str], users: Collection[str]) -> bool:
    """Whether both name somebody who speaks, and nobody both."""
    before, after = (
        {name for name in speakers if subjects.folded(text, users).issuperset(fold(name).split())}
        for text in (old, new)
    )
    return bool(before and after) and before.isdisjoint(after)


def _only_the_assistant(old: str, new: str, speakers: Sequence[str], users: Collection[str]) -> bool:
    """Whether one tells what an assistant did or said, and the other is about somebody else."""
    people = {"user", *map(fold, users)}
    assistants = [name for name in speakers if fold(name) not in people]
    before, after = (_assistant(text, assistants) for text in (old, new))
    if bool(before) == bool(after):
        return False
    other = subjects.read(new if before else old)
    return (before or after).isdisjoint(other.names | other.called)


def _assistant(text: str, assistants: Sequence[str]) -> frozenset[str]:
    """The name of the assistant of which a text tells what it did or said, in folded words; of "the assistant" that."""
    subject = subjects.read(re.sub(_OPENING, "", text))
    behind = subject.behind.lstrip()
    if subject.kin:
        return frozenset()
    if "assistant" in subject.names:
        return frozenset() if re.match(_NO_DEED, behind) else subject.names
    named = any(subject.names and subject.names <= subjects.folded(name) for name in assistants)
    return subject.names if named and re.match(_TALKS, behind) else frozenset()
