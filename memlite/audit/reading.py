"""A fact as rules can compare it: its words in one plain form, its names and numbers, and whether it denies something.

The words are English, as far as their forms are changed; in other languages only what is written alike is alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from memlite import dates
from memlite.words import fold

# Ways to say the same, in the form that stands for all. Only what nobody could mean otherwise.
_PHRASES = tuple(
    (re.compile(rf"\b{said}\b"), meant)
    for said, meant in (
        (r"(?:is|are|am) (?:currently |now )?employed (?:by|at|with)", "works at"),
        (r"work(s|ing)? for(?= (?:the )?\d*[A-Z])", r"work\1 at"),
        (r"(?:is|are|am) (?:currently |now )?(?:based|residing) in", "lives in"),
        (r"reside(s?) (in|at)", r"live\1 \2"),
        (r"(?:(?:has )?(?:stopped|quit|given up|gave up)(?= \w+ing\b)|no longer|not any ?more|never)", "not"),
        (r"(?:any ?more|any longer)", ""),
        (r"(?:is|are) (?:named|called)", "is named"),
        (r"(?:called)(?= [A-Z])", "named"),
        (r"(?:mother tongue|first language)", "native language"),
    )
)
_CONTRACTED = tuple(
    (re.compile(written, re.IGNORECASE), meant)
    for written, meant in (
        (r"\bwon['’]t\b", "will not"),
        (r"\bcan(?:['’]t|not)\b", "can not"),
        (r"(?<=\w)n['’]t\b", " not"),
        (r"(?<=\bi)['’]m\b", " am"),
        (r"(?<=\b(?:he|it))['’]s\b|(?<=\b(?:she))['’]s\b|(?<=\b(?:that))['’]s\b", " is"),
        (r"(?<=\w)['’]re\b", " are"),
        (r"(?<=\w)['’]ll\b", " will"),
        (r"(?<=\w)['’]ve\b", " have"),
        (r"(?<=\w)['’]s?(?!\w)", ""),  # whose it is, the order of the words says
    )
)
_SAME = {
    word: meant
    for meant, words in {
        "mother": "mum mom mommy mummy mama",
        "father": "dad daddy papa",
        "grandmother": "grandma granny",
        "grandfather": "grandpa grandad granddad",
        "child": "kid children",
        "apartment": "flat",
        "film": "movie",
        "doctor": "physician",
        "bicycle": "bike",
        "car": "automobile",
        "refrigerator": "fridge",
        "television": "tv telly",
        "favourite": "favorite",
        "colour": "color",
        "neighbour": "neighbor",
        "have": "has own possess",
        "buy": "purchase",
        "begin": "start",
    }.items()
    for word in words.split()
}
NUMBERS = {word: str(value) for value, word in enumerate(
    "zero one two three four five six seven eight nine ten eleven twelve".split())}  # fmt: skip
# What may be said or left out.
_EMPTY = frozenset(
    "a an the is are am be do does and also too just really very quite currently now still actually officially".split()
)
_PLACING = frozenset("at in on".split())  # what stands behind one of these may stand anywhere in the sentence
# What ties the next word to the rest in a way that matters: from Porto to Lisbon, hired by Ben.
_TIES = frozenset(
    "of from to by with without before after until till since against for as into onto off out up down over under than "
    "about between during except near".split()
)
_NOT = frozenset("not no none nobody nothing neither nor".split())
_BEING = frozenset("is are am be".split())
_TENSES = frozenset(
    "was were been had did will would can could may might shall should must ought used if maybe went got came saw met "
    "took made said told felt found bought left gave ate ran won lost began spent wrote sent heard brought caught flew "
    "drove taught thought held kept grew slept spoke swam threw wore woke".split()
)
_LIGHT = frozenset(("", "hav", "go", "get", "named"))  # words that add nothing where the others are the same
_AROUND = ".,;:!?…\"'“”‘’«»()[]{}-–—*"  # what stands around a word; "C++", "node.js" and "a@b.com" keep what is theirs
_SAID = re.compile(r"(?:The )?(.{1,60}?) said: [\"“](.+)[\"”]\.?", re.DOTALL)
_FIRST_PERSON = re.compile(r"\b(?:I|[Mm]e|[Mm]y|[Mm]ine|[Mm]yself)\b")  # "US" is a country, and "we" who knows who
_LONGEST = 2000  # characters of a text whose dates are read as one word each: a fact is a sentence
_PREFIX = 5  # letters by which two forms of a word are one


@dataclass(frozen=True, slots=True)
class Reading:
    """What two texts must have in common to say the same.

    text: in the third person. plain: the words in their order, a small one tied to the next ("from_porto"); placed:
    those behind "at", "in" and "on", whose order says nothing. stems: the first letters of those that carry the text,
    each behind what it is tied to ("allergic to peanuts", "peanut allergy"). tenses: when, and how surely: was, will,
    may, and words in -ed. denies: whether it says that something is not so.
    """

    text: str
    plain: tuple[str, ...]
    placed: tuple[str, ...]
    stems: tuple[str, ...]
    tenses: frozenset[str]
    denies: bool


def spoken(text: str, by: str) -> str:
    """A fact in the third person: of 'Ana said: "I run."' and of "I run." by Ana, "Ana run."."""
    said = _SAID.fullmatch(text)
    who, text = (said[1], said[2]) if said else (by, text)
    if not who or not _FIRST_PERSON.search(text):
        return text
    who = f"The {who.casefold()}" if who.casefold() in ("user", "assistant") else who
    text = re.sub(r"\bI(?:['’]m| am)\b", f"{who} is", text)
    return _FIRST_PERSON.sub(who, re.sub(r"\b[Mm]y\b", f"{who}'s", text))


def read(text: str, by: str = "") -> Reading:
    """Read a fact; by: who says it, for texts in the first person."""
    written = text = spoken(text, by)
    for pattern, meant in (*_CONTRACTED, *_PHRASES):
        written = pattern.sub(meant, written)
    plain: list[str] = []
    placed: list[str] = []
    stems: list[str] = []
    tenses: set[str] = set()
    denies, tie, place, before = False, "", False, ""
    for word in _words(written):
        if word in _NOT:
            denies = True
        elif word in _PLACING:
            place = True
        elif word in _TIES:
            tie = f"{tie}{word}_"
        if word in _TENSES or (len(word) > 5 and word.endswith("ed") and before not in _BEING):
            tenses.add(word[:_PREFIX])
        if word in _NOT | _PLACING | _TIES:
            continue
        before = word if word not in _EMPTY - _BEING else before
        if word in _EMPTY:
            continue
        unit = _plain(word)
        (placed if place else plain).append(tie + unit)
        if unit not in _LIGHT | _TENSES:
            stem = unit[:_PREFIX] if unit.isalpha() else unit  # the first digits of a date are those of many
            stems.insert(len(stems) - 1 if tie and stems else len(stems), stem)
        tie, place = "", False
    plain += [tie] if tie else []  # "the shop that Ana works for"
    if text.rstrip().endswith(("?", "？")):
        plain.append("?")
        stems.append("?")
    return Reading(text, tuple(plain), tuple(sorted(placed)), tuple(stems), frozenset(tenses), denies)


def _words(text: str) -> Iterator[str]:
    """The words of a text in lower case, each date as one."""
    found, _ = dates.absolute(fold(text)) if len(text) <= _LONGEST else ([], "")
    for shown, parts in found:
        day = "".join(f"{part:02}" if part else "00" for part in parts)
        text = re.sub(re.escape(shown), f" {day} ", text, count=1, flags=re.IGNORECASE)
    for written in text.split():
        if word := written.strip(_AROUND):
            yield word.casefold() if word[-1] in "+#" else fold(word) or word


def _plain(word: str) -> str:
    """A word without the endings that change nothing: works and working are work, and worked is not."""
    if word in NUMBERS:
        return NUMBERS[word]
    if word[0].isdecimal():
        return re.sub(r"(?<=\d),(?=\d{3}\b)", "", word)
    word = _SAME.get(word, word)
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif re.search(r"(?:s|x|z|ch|sh|o)es$", word) and len(word) > 3:
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        word = word[:-1]
    elif word.endswith("ing") and len(word) > 5:
        word = word[:-3]
        if word[-1] == word[-2] and word[-1] not in "lsz":
            word = word[:-1]  # running
    word = _SAME.get(word, word)
    return word.removesuffix("e") if len(word) > 3 else word  # lives and living
