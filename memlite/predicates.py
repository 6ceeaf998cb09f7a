"""Whether a new fact says something else of its subject than an old one, as far as a rule of English can tell.

A slot is what a fact says something of: where Ana lives, what Ana is allergic to. In some only one value is true at a
time, in others each adds to those before.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from memlite import subjects, worth
from memlite.words import fold, normalise

# Strings, not compiled patterns: few processes ever need them.
_INSTEAD = r"\b(?:instead|rather than|switch\w*|swap\w*|chang\w*|replac\w*)\b"
_ENDS = (
    r"\b(?:no longer|no more|any ?more|moved|moves|moving|left|leaves|leaving|quits?|quitting|stop\w*|g[ai]ven? up|"
    r"gives up|sold|lost|died|dead|retired|resign\w*|fired|sacked|laid off|divorced|split up|broke up|closed|ended|"
    r"cancel\w*|called off|postponed|used to|until|former\w*|(?:up|down|back) from)\b"
)
_DENIES = r"\b(?:not|never|no|none|without|cannot)\b|n['’]t\b"
_NOW = r"\b(?:was|were|had|now|before)\b"
_NEWS = r"\b(?:any ?more|again|back|actually|after all|new|from now|so far)\b"
_IN_OTHER_LANGUAGES = (
    r"\b(?:nicht|kein\w*|mehr|bis|pas|plus|jamais|jusqu\w*|ya|nunca|hasta|non|mai|più|fino|não|mais|até|"
    r"niet|geen|meer|tot)\b"
)
_REASON = r"\b(?:because|since|as|given that) ([^,;]+)"
_BEFORE_REASON = r"^(.+?),? (?:because|since|as|given that)\b"
_FILLER = frozenset("a an the user my our his her their also still now currently already always really".split())

# What somebody has only one of at a time; a fact with another predicate is of another slot.
_SINGLE = {
    "home": r"lives?|lived|living (?:in|at|with|near)|resides?",
    "work": r"works?|worked|working (?:at|for|as|in)|job (?:at|in|as)|(?:un)?employ\w+|hired",
    "birth": r"born",
    "age": r"\w+ years old|turned \d+|aged \d+",
}
_FAMILY = "|".join(
    word
    for line in subjects.KIN
    if re.match("child|grandchild|sibling|pet", line[0])
    for word in " ".join(line).split()
)
# What somebody may have several of: the words behind the predicate say which.
_SEVERAL = {
    "allergy": r"(?:allergic|intolerant|allergy) (?:to|of)|(?:has|have) an?(?= (?:[\w-]+ ){1,2}allergy)",
    "language": r"speaks?|spoke|fluent in",
    "taste": r"likes|liked|loves|loved|enjoys|enjoyed|adores|hates|hated|dislikes|disliked|(?:cannot|can['’]t) stand|"
    r"(?:I|we|they|to|not|\w+n['’]t) (?:like|love|enjoy|hate)",
    "fear": r"(?:afraid|scared|frightened|terrified) of",
    "pursuit": r"plays?|played|collects?|collected",
    "possession": r"owns?|owned",
    "acquaintance": r"knows?|knew",
    "membership": r"members? of|belongs? to",
    "reading": r"read|reads",
    "family": rf"(?:has|have|had)(?= (?:[\w-]+ ){{0,3}}?(?:{_FAMILY})\b)",
}
# A change of home, with where to: not to another team, nor to tears.
_MOVE = (
    r"(?i:\b(?:move[sd]?|moving|relocat(?:ed?|es|ing)) (?:back |out |over |away )?)"
    r"(?:from (?:the )?[^\W\d_a-z][^,;.]{0,80}?)?"
    r"\b(?:to|into) (?P<home>(?:an? |the |(?:her|his|their|my|our) )?(?:\w+ )?"
    r"(?:(?:flat|house|apartment|room|studio|cottage|village|town|city)\b[^,;.]*|[^\W\d_a-z][\w'’ -]*))"
)
# What has happened has happened, whatever happens next.
_HAPPENED = "visited met saw watched attended bought tried won ate flew travelled climbed hiked".split()
_PREDICATES = _SINGLE | _SEVERAL | {verb: verb for verb in _HAPPENED}
_BEHIND_VALUE = (
    r"[,;:.!?]| (?:no|nobody|nothing|any|on|at|in|with|for|from|by|to|of|every|and|but|or|because|since|when|while|"
    r"after|before|until|who|which|that|as|than|not|is|are|was|were)\b"
)
_ATTRIBUTE = (
    r"(?:['’]s?|[Tt]he|[Aa]n?) ((?:(?!(?:that|who|which|where|when)\b)[\w’'-]+ ){1,8}?)(?:is|are|was|were|will be)\b"
)
_TIMELY = "new current old next latest last previous present usual regular"


def stands_beside(old: str, new: str, users: Collection[str] = ()) -> bool:
    """Whether `new` leaves `old` true: says it again, adds to it, or is of another slot; False where no rule can tell.

    users: names of who is "the user".
    """
    if (home := _new_home(old, new)) and home <= _stems(old):
        return True
    return _says_again(old, new, users) or _adds(old, new) or _other_predicate(old, new) or _other_attribute(old, new)


def moves(old: str, new: str) -> bool:
    """Whether the old one says where somebody lives and the new one that somebody has moved elsewhere.

    The two need have no word in common: "Ana lives in Lisbon, near the castle", "Ana moved to Porto".
    """
    home = _new_home(old, new)
    return bool(home) and not home <= _stems(old)


def _new_home(old: str, new: str) -> set[str]:
    """The words of where a move leads to, if the old fact says where somebody lives."""
    moved = re.search(_MOVE, new) if _has(rf"\b(?:{_SINGLE['home']})\b", old) else None
    return _stems(moved["home"]) if moved else set()


def tells_of_change(old: str, new: str) -> bool:
    """Whether the new one says that something has changed, or both have a predicate that is known."""
    changed = _turns(new) or _has(_NOW, new) or _has(_NEWS, new)
    return changed or not _predicates(old).isdisjoint(_predicates(new))


def _predicates(text: str) -> set[str]:
    """The names of the known predicates that a text has."""
    return {name for name, words in _PREDICATES.items() if _has(rf"\b(?:{words})\b", text)}


def _turns(text: str) -> bool:
    """Whether a text says of itself that something has changed, has ended or is not so."""
    return any(_has(pattern, text) for pattern in (_INSTEAD, _ENDS, _DENIES))


def _has(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None


def _says_again(old: str, new: str, users: Collection[str]) -> bool:
    """Whether the new one has the old one in it, word for word, and says nowhere that it is over.

    What it says of other things stands before a reason, or behind it: "Ana does not bake brownies, since Clara is
    allergic", "Ana works hard, because it is not easy".
    """
    ignored = {part for name in users for part in fold(name).split()} | _FILLER
    before, after = (_spoken(text, ignored) for text in (old, new))
    if before == after:
        return True
    return any(
        before in _spoken(part, ignored) and not (_turns(part) or _has(_NOW, part) or _has(_IN_OTHER_LANGUAGES, part))
        for part in (new, *re.findall(_REASON, new, re.IGNORECASE), *re.findall(_BEFORE_REASON, new, re.IGNORECASE))
    )


def _spoken(text: str, ignored: Collection[str]) -> str:
    # Not folded, which takes C, C++ and C# for one.
    words = (re.sub(r"['’]s?$", "", word.strip('.,;:!?()"“”')) for word in normalise(text).split())
    return f" {' '.join(word for word in words if fold(word) not in ignored)} "


def _adds(old: str, new: str) -> bool:
    """Whether both have a predicate of which several values are true, and neither names the other's value."""
    before, after = _stems(old), _stems(new)
    for predicate in _SEVERAL.values():
        mine, theirs = _value(predicate, new), _value(predicate, old)
        if mine and theirs and not (mine <= before or theirs <= after or _has(_INSTEAD, new)):
            return True
    return not _turns(new) and any(_has(rf"\b{verb}\b", old) and _has(rf"\b{verb}\b", new) for verb in _HAPPENED)


def _value(predicate: str, text: str) -> set[str]:
    """The words of weight right behind a predicate: of "plays doubles tennis on Mondays" doubles and tennis."""
    found = re.search(rf"\b(?:{predicate})\b(.*)", text, re.IGNORECASE)
    return _stems(re.split(_BEHIND_VALUE, found[1], maxsplit=1)[0]) if found else set()


def _other_predicate(old: str, new: str) -> bool:
    """Whether the two have known predicates, no one in common, and one of them is of what there is only one of."""
    # Who no longer works in Porto may live there.
    if _turns(re.sub(rf"(?:\b(?:no longer|not|never)|n['’]t) (?:{'|'.join(_PREDICATES.values())})\b", "", new)):
        return False
    before, after = _predicates(old), _predicates(new)
    return bool(before and after) and before.isdisjoint(after) and not (before | after).isdisjoint(_SINGLE)


def _other_attribute(old: str, new: str) -> bool:
    """Whether both say what something of the subject's is, and not the same thing: the phone number, the size."""
    before, after = _attribute(old), _attribute(new)
    if not (before and after) or _turns(new):
        return False
    (head, about), (other_head, other_about) = before, after
    if head <= other_head or other_head <= head:
        return bool(about and other_about) and about.isdisjoint(other_about)
    return True


def _attribute(text: str) -> tuple[set[str], set[str]] | None:
    """What a sentence says is this or that: of "Ana's new budget for the sofa is 400 euros" budget, and sofa."""
    found = re.match(_ATTRIBUTE, subjects.read(text).behind)
    if not found:
        return None
    head, *about = re.split(r" (?:of|for|with|at|in|on|to|from|about) ", found[1], maxsplit=1)
    return _stems(head) - _stems(_TIMELY), _stems("".join(about))


def _stems(text: str) -> set[str]:
    """The words that carry a text, one and many as one."""
    return {stem.removesuffix("s") for stem in worth.stems(text)}
