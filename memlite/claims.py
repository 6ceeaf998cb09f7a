"""Whether a claim that one fact replaces another is believable: of the same subject, and of something it changes."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date

from memlite import dates, ground, worth
from memlite.words import fold, read_query

_CORRECTS = re.compile(
    r"\b(?:not|never|no longer|instead|actually|cancel\w*|call(?:s|ed) off|postponed|moved|rather|wrong|correct\w*|"
    r"back|again)\b|n't",
    re.IGNORECASE,
)
_DENIES = re.compile(r"\b(?:not|never|no|cannot)\b|n['’]t\b", re.IGNORECASE)
_TURNS = re.compile(r"\b(?:now|again|longer|any ?more|instead|but|before)\b|, not\b", re.IGNORECASE)

# Who somebody is to another: each line has those who are called so, then those who are among them.
_KIN = (
    ("parent parents folks", "mother mum mom mama", "father dad papa"),
    ("grandparent grandparents", "grandmother grandma gran granny nan", "grandfather grandpa grandad granddad"),
    ("child children kid kids baby twins", "son sons boy", "daughter daughters girl"),
    ("grandchild grandchildren", "grandson grandsons", "granddaughter granddaughters"),
    ("sibling siblings twin twins", "brother brothers", "sister sisters"),
    ("spouse partner ex", "wife fiancee girlfriend ex-wife", "husband fiance boyfriend ex-husband"),
    ("in-laws", "mother-in-law", "father-in-law", "brother-in-law", "sister-in-law"),
    ("stepparents", "stepmother stepmum", "stepfather stepdad"),
    ("godparents", "godmother", "godfather"),
    ("godchild", "godson", "goddaughter"),
    ("uncle",),
    ("aunt auntie",),
    ("nephew nephews",),
    ("niece nieces",),
    ("cousin cousins",),
    ("friend friends",),
    ("flatmate flatmates roommate roommates housemate housemates lodger tenant",),
    ("neighbour neighbours neighbor neighbors",),
    ("colleague colleagues coworker coworkers co-worker co-workers",),
    ("boss manager supervisor",),
    ("mentor coach trainer teacher tutor instructor",),
    ("doctor dentist therapist vet physio physiotherapist",),
    ("landlord landlady",),
    ("pet pets", "dog dogs puppy", "cat cats kitten", "rabbit", "hamster", "parrot", "tortoise", "horse pony"),
)
_NAME = r"[^\W\d_a-z][\w’'-]*"
# Strings, not compiled patterns: few processes ever need them.
_OWNER = r"(?i:(?:the )?(user|assistant)|(?:my|our|his|her|their)'s)"
_HIS_OR_HERS = (
    r"(?:['’]s?|(?<='s)) (?:[\w-]+ ){0,2}?"
    rf"(?P<kin>{'|'.join(sorted((w for line in _KIN for w in ' '.join(line).split()), key=len, reverse=True))})\b"
    rf"(?:,? (?P<called>{_NAME}(?: {_NAME})*))?"
)


@dataclass(frozen=True, slots=True)
class _Subject:
    """Whom a sentence is about, in folded words: of "Ana's sister Clara sings" ana, sister (and sibling), clara.

    Of "the user" the name is "user". rest: the words behind that.
    """

    names: frozenset[str]
    kin: frozenset[str]
    called: frozenset[str]
    rest: frozenset[str]


def may_replace(old: str, new: str, day: date, speakers: Sequence[str] = (), users: Collection[str] = ()) -> bool:
    """Whether a claim that `new` replaces `old` is believable; day: on which the new one was said.

    One of them mentions whom the other is about. They share words, three tenths of the old one's at least, the
    speakers' names apart. What was over by that day has happened, whatever comes after it, unless it is corrected. And
    one denial does not end another. users: names of who is "the user".

    Of 1,455 replacements of the training skeletons 93 % pass. Of those told of another person, or of a relative, 1 %
    do, and of 2,178 other pairs of a known and a new fact of one conversation, mostly of the same people, 29 %.
    """
    mine, theirs = (set(read_query(text).terms) for text in (new, old))
    if len(mine & theirs) < min(2, len(theirs)):
        return False
    names = worth.stems(" ".join(speakers))
    before = worth.stems(old) - names
    if 10 * len(worth.stems(new) & before) < 3 * len(before):
        return False
    if _others(old, new, speakers, users) or not _same_subject(old, new, users) or _another_denial(old, new):
        return False
    days, _ = dates.absolute(fold(old))
    return not days or _CORRECTS.search(new) is not None or not all(_is_over(parts, day) for _, parts in days)


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
        {name for name in speakers if _folded(text, users).issuperset(fold(name).split())} for text in (old, new)
    )
    return bool(before and after) and before.isdisjoint(after)


def _same_subject(old: str, new: str, users: Collection[str]) -> bool:
    """Whether one of them mentions whom the other is about: "Ana's sister" is somebody else than Ana."""
    before, after = _subject(old, users), _subject(new, users)
    in_old, in_new = _folded(old, users), _folded(new, users)
    if before.called & in_new:
        return True
    if before.called and after.called:
        return False
    # What Ana's doctor thinks of Ana is about Ana as well.
    if before.kin and not (before.names & before.rest or (before.kin | _values(old)) & in_new):
        return False
    if after.kin and not (before.names & after.rest or (after.kin | after.called) & in_old):
        return False
    return not before.names or not after.names or bool(before.names & in_new or after.names & in_old)


def _subject(text: str, users: Collection[str]) -> _Subject:
    """Whom a sentence is about, by its first words."""
    text = re.sub(r"^(?i:my|our|his|her|their)(?= )", r"\g<0>'s", text)
    if owner := re.match(_OWNER, text):
        names, end = owner[1] or "", owner.end()
    else:
        names = next((name for name in ground.mentioned_names(text) if text.startswith(name)), "")
        end = len(names)
    kin, called = "", ""
    while end and (found := re.compile(_HIS_OR_HERS).match(text, end)):
        kin, called, end = found["kin"], found["called"] or "", found.end()
        if called.endswith(("'s", "’s")):
            called, end = called[:-2], end - 2
    return _Subject(_folded(names, users), _related(kin), _folded(called), _folded(text[end:], users))


def _related(kin: str) -> frozenset[str]:
    """The words for the same relation, and for those that it may be among: mother, mum, parents."""
    found: set[str] = set()
    for all_of_them, *each in _KIN:
        if kin in all_of_them.split():
            found.update(" ".join((all_of_them, *each)).split())
        for words in each:
            if kin in words.split():
                found.update(f"{words} {all_of_them}".split())
    return frozenset(found)


def _values(text: str) -> set[str]:
    """The names that somebody is or is called: of "Ana's boss is Ben Sands" ben and sands."""
    found = re.findall(rf"\b(?:is|are)(?: called| named)? ({_NAME}(?: {_NAME})*)", text)
    return {fold(word) for names in found for word in re.findall(r"\w+", names)}


def _folded(text: str, users: Collection[str] = ()) -> frozenset[str]:
    """The words of a text, with "user" where it names who that is."""
    words = {fold(re.sub(r"['’]s?$", "", word)) for word in re.findall(r"\w[\w’'-]*", text)}
    named = any(words.issuperset(fold(name).split()) for name in users)
    return frozenset(words | {"user"} if named else words)
