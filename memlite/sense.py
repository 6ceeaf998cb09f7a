"""Whether a fact keeps the sense of its message, as far as a rule can tell: a sentence, of somebody, said as it was.

A small model writes well what it was shown often. Elsewhere it may leave a word out, and the words that are left say
something else: "Grandma's 90th birthday" becomes the user's, "I haven't sold the boat" a sale.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from memlite import ground
from memlite.date_words import languages_of
from memlite.records import ExtractedFact, ExtractionRequest, Turn
from memlite.sentences import split
from memlite.words import STOP_WORDS

_WORD = r"[^\W\d_]+(?:['’-][^\W\d_]+)*"
_VERBS = frozenset(
    "am is are was were be been has have had do does did can could will would shall should may might must cannot "
    "bet bit blew bore bought broke brought built burnt came caught chose cost cut dealt dreamt drank drew drove dug "
    "ate fed fell felt fled flew fought found froze gave get go goes got grew held hid hit hung hurt kept knew laid "
    "led left lent let like likes live lives lost love loves made meant met need needs paid play plays put quit ran "
    "read rode rose said sang sat saw sent set shot shut slept slid sold spent split spoke spread stole stood stuck "
    "struck swam swore taught think threw told took tore understood want wants went wept woke won wore work works "
    "wrote".split()
)
# Strings, not compiled patterns: compiling takes longer than importing, and re keeps what it compiled.
_VERB_LIKE = r"n['’]t$|['’](?:ll|ve|re|d|m)$|^[^\W\dA-Z_].*(?:[^s'’]s|ed|ing)$"
_ENGLISH = r"(?i)\bthe\b|['’]s\b"
_SOMEBODY = r"(?i)\b(?:he|she|him)\b"

# What denies, and what a denial may be drawn from, or be meant by.
_DENIAL = r"(?i)\b(?:not|no|never|none|nobody|nothing|neither|nor|without|cannot)\b|n['’]t\b"
_CUE = (
    r"(?i)\b(?:not|no|nope|nah|never|none|nobody|nothing|nowhere|neither|nor|without|cannot|any ?more|hardly|barely|"
    r"stop\w*|quit\w*|g[ai]v(?:e|es|en|ing) up|avoid\w*|refus\w*|hat(?:e|es|ed)|instead|free|allerg\w*|off|out|over|"
    r"fail\w*|los[te]|delet\w*|cancel\w*|only|just|now|old|wrong|mistake\w*|correct\w*|outdated|mix\w* up|skip\w*|"
    r"scratch|drop\w*|bann?\w*|forb[ia]d\w*|forg[eo]t\w*|declin\w*|reject\w*|turn\w* down|lack\w*|miss\w*|rarely|"
    r"seldom|vegan\w*|vegetarian\w*|sober|zero|0|rather|except|but|too|less|\w+less|(?:un|dis|im|non)\w*|"
    r"(?:can|won|do|does|did|is|are|was|were|ai|have|has|had|would|could|should)nt)\b|n['’]t\b|[👎❌🚫]"
)
# "Not Y", where X is said, denies nothing; nor does "no longer" of what was sold or left.
_CONTRAST = (
    r"\bno longer\b|(?:,| and| but)? not (?:(?:the|an?|on|in|at|from|to|with|for|until|by|of|as)\b ?)*(?![a-z])[^,;.]*"
)
_JOINED = r"[,;:]| (?:and|or|but|because|so|if|when|that|who|which|than|as|until|before|only) "
_MOST_SHOWN = 6  # earlier messages in which a denial may stand

_PEOPLE = frozenset(
    "mum mom mother mummy mommy dad daddy father parent parents grandma grandpa gran granny grandmother grandfather "
    "grandparents nan nana sister brother siblings son daughter wife husband partner girlfriend boyfriend fiancé "
    "fiancée aunt auntie uncle cousin niece nephew friend boss manager colleague coworker neighbour neighbor "
    "teacher doctor dentist landlord landlady tenant nurse child kid baby flatmate roommate".split()
)
_NO_OWNERS = frozenset(
    "today tonight tomorrow yesterday day week month year season weekend morning evening everyone everybody anyone "
    "anybody nobody somebody".split()
)
_OF_MY = r"\b(?:[Mm]y|[Oo]ur) (?P<whose>(?:[a-z][\w-]* )?[^\W\d_][\w-]*(?: [A-Z][\w-]*)*)$"
_OF_ANY = r"(?:\b(?P<of>[Tt]he|[Aa]n?|[Hh]is|[Hh]er|[Tt]heir|[Yy]our) )?(?P<whose>[^\W\d_][\w-]*(?: [A-Z][\w-]*)*)$"
_LONGEST_OWNER = 60  # characters


def with_owner(fact: ExtractedFact, request: ExtractionRequest) -> ExtractedFact | None:
    """The fact with "the user's birthday" as it was said, of grandma's or of "my dad's". None where that is
    somebody's whom the message does not name.
    """
    text = fact.text
    for turn in _cited(fact, request):
        mine = rf"(?<!\w)(?:the user|{re.escape(turn.speaker)})['’]s (?=(\w[\w-]*))"
        for owned in re.finditer(mine, text, re.IGNORECASE):
            whose = _whose(owned[1], turn.text, text)
            if whose == "":
                return None
            if whose:
                owner = "" if whose[0].isupper() else owned[0]
                return replace(fact, text=f"{text[: owned.start()]}{owner}{whose}{text[owned.end() :]}")
    return fact


def _whose(thing: str, said: str, text: str) -> str | None:
    """Of whom a message says what a fact says of its speaker, with the 's; '' is unknown, None nobody else."""
    if re.search(rf"\b(?:my|our)\b(?: [\w-]+){{0,2}} {re.escape(thing)}\b", said, re.IGNORECASE):
        return None
    for ending in re.finditer(rf"(?:['’]s|(?<=s)['’]) (?=(?:[\w-]+ )?{re.escape(thing)}\b)", said, re.IGNORECASE):
        before = said[max(0, ending.start() - _LONGEST_OWNER) : ending.start()]
        mine = re.search(_OF_MY, before)
        if mine and not set(mine["whose"].casefold().split()) & STOP_WORDS:
            of, whose = "", mine["whose"]
        elif found := re.search(_OF_ANY, before):
            of, whose = found["of"], found["whose"]
        else:
            continue
        last = whose.split()[-1].casefold()
        if ground.fold(last) in ground.fold(text):
            continue
        if last in _PEOPLE:
            return "" if of else f"{whose if mine else whose.casefold()}{ending[0]}"
        if mine or (not of and whose[0].isupper() and ground.content_words(last) and last not in _NO_OWNERS):
            return f"{whose}{ending[0]}"
    return None


def distorted(fact: ExtractedFact, request: ExtractionRequest) -> str | None:
    """Why a fact does not say what its messages say, or None."""
    if (somebody := re.search(_SOMEBODY, fact.text)) and _is_english(fact.text):
        before = fact.text[: somebody.start()]
        if not (ground.content_words(before) or ground.mentioned_names(before)):
            return f"it does not say who {somebody[0].casefold()} is"
    cited = _cited(fact, request)
    said = " ".join(turn.text for turn in cited)
    if not _is_english(said):
        return None
    shown = " ".join([*(turn.text for turn in request.window[-_MOST_SHOWN:]), said])
    if re.search(_DENIAL, re.sub(_CONTRAST, "", fact.text)) and not re.search(_CUE, shown):
        return "it denies what nobody has denied"
    if re.search(_DENIAL, said) and not re.search(_CUE, fact.text) and _is_denied(fact.text, cited):
        return "it says what its message denies"
    return None


def _is_denied(text: str, cited: Sequence[Turn]) -> bool:
    """Whether the sentence that says it is a denial, in one clause."""
    words = _stems(text)
    sentences = [sentence for turn in cited for sentence in split(turn.text)]
    shared = [len(words & _stems(sentence)) for sentence in sentences]
    most = max(shared, default=0)
    if not most or 5 * most < 4 * len(words):
        return False
    sentence = sentences[shared.index(most)]
    return re.search(_DENIAL, sentence) is not None and not re.search(_JOINED, sentence)


def _stems(text: str) -> set[str]:
    return {ground.stem(word) for word in ground.content_words(text)}


def is_sentence(text: str) -> bool:
    """Whether an English text has a verb, as far as can be told; True of other languages."""
    if not (re.search(_ENGLISH, text) and _is_english(text)):
        return True
    words = re.findall(_WORD, text)
    return any(word.casefold() in _VERBS or re.search(_VERB_LIKE, word) for word in words)


def _cited(fact: ExtractedFact, request: ExtractionRequest) -> list[Turn]:
    return [turn for turn in request.messages if turn.number in fact.sources]


def _is_english(text: str) -> bool:
    return languages_of(text)[0] == "en" and not STOP_WORDS.isdisjoint(re.findall(_WORD, text.casefold()))
