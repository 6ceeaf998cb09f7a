"""Whom a fact is about: somebody by name, "the user", or a relative of one of them."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from memlite import ground
from memlite.words import fold

# Who somebody is to another: each line has those who are called so, then those who are among them.
KIN = (
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
    rf"(?P<kin>{'|'.join(sorted((w for line in KIN for w in ' '.join(line).split()), key=len, reverse=True))})\b"
    rf"(?:,? (?P<called>{_NAME}(?: {_NAME})*))?"
)


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a sentence is about, in folded words: of "Ana's sister Clara sings" ana, sister (and sibling), clara.

    Of "the user" the name is "user". behind: the text after that.
    """

    names: frozenset[str]
    kin: frozenset[str]
    called: frozenset[str]
    behind: str


def same(old: str, new: str, users: Collection[str]) -> bool:
    """Whether one of them mentions whom the other is about: "Ana's sister" is somebody else than Ana."""
    before, after = read(old, users), read(new, users)
    in_old, in_new = folded(old, users), folded(new, users)
    if before.called & in_new:
        return True
    if before.called and after.called:
        return False
    # What Ana's doctor thinks of Ana is about Ana as well.
    if before.kin and not (before.names & folded(before.behind, users) or (before.kin | _values(old)) & in_new):
        return False
    if after.kin and not (before.names & folded(after.behind, users) or (after.kin | after.called) & in_old):
        return False
    return not before.names or not after.names or bool(before.names & in_new or after.names & in_old)


def read(text: str, users: Collection[str] = ()) -> Subject:
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
    return Subject(folded(names, users), _related(kin), folded(called), text[end:])


def _related(kin: str) -> frozenset[str]:
    """The words for the same relation, and for those that it may be among: mother, mum, parents."""
    found: set[str] = set()
    for all_of_them, *each in KIN:
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


def folded(text: str, users: Collection[str] = ()) -> frozenset[str]:
    """The words of a text, with "user" where it names who that is."""
    words = {fold(re.sub(r"['’]s?$", "", word)) for word in re.findall(r"\w[\w’'-]*", text)}
    named = any(words.issuperset(fold(name).split()) for name in users)
    return frozenset(words | {"user"} if named else words)
