"""Whether a fact is worth keeping, as far as a rule can tell: no question, no small talk, nothing known already."""

from __future__ import annotations

import re

from memlite import ground
from memlite.records import ExtractedFact, ExtractionRequest, Turn
from memlite.words import STOP_WORDS

_SMALL_TALK = frozenset(
    "hi hello hey bye goodbye thanks thank welcome sure ok okay wow great nice cool good glad happy sorry please help "
    "helping helps congratulations congrats luck morning evening afternoon night day weekend wonderful awesome amazing "
    "fantastic lovely hope hopes wish wishes wishing greeted greets greeting thanked congratulated congratulates proud "
    "agree agrees agreed looks look sounds sound talk chat later soon forward hear hearing know question questions "
    "answer answers".split()
)
_NEGATION = re.compile(r"\b(?:not|no|never|none|without|longer|\w+n['’]t|cannot|stopped|quit)\b", re.IGNORECASE)
_PASTED = re.compile(
    r"\b(?:pasted?|pasting)\b"
    r"|\b(?:summari[sz]e|sum up|shorten|proofread|translate|rephrase|reword|gist of|tl;?dr)\b[^.?!]{0,200}"
    r"\b(?:this|these|that|below|following|article|text|e-?mail|letter|notice|page|paragraph)\b",
    re.IGNORECASE,
)
_AGENCY = re.compile(r"[^.\n]{2,40}[,(] ?(?:Reuters|AP|AFP|dpa|Bloomberg)\b")
_OF_SPEAKERS = re.compile(r"\b(?:I|me|my|mine|we|us|our|ours|you|your|yours)\b", re.IGNORECASE)
_RECALLING = re.compile(
    r"\bremember\?|\bas (?:you (?:may )?(?:know|remember|recall)|I(?:'ve| have)? (?:said|told you|mentioned))\b"
    r"|\blike I(?:'ve| have)? (?:said|told you|mentioned)\b|\bI(?:'ve| have)? (?:already )?(?:told|reminded) you\b",
    re.IGNORECASE,
)
_ACKNOWLEDGING = _SMALL_TALK | frozenset(
    "got noted updated done saved fixed changed added understood alright fine perfect right correct exactly absolutely "
    "thing update course problem pleasure worries gotcha roger deal anytime remember remembered happen happy".split()
)
_AUXILIARY = r"(?:is|are|was|were|do|does|did|has|have|had)(?:n['’]t)?"
# Strings, not compiled patterns: compiling takes longer than importing, and re keeps what it compiled.
_TAG = (
    rf"(?i)[,;]?\s+(?:right|correct|no|yes|yeah|eh|huh|true|(?:{_AUXILIARY}|(?:ca|wo|could|would|should|ai)n['’]t) "
    r"(?:it|he|she|they|you|we|i|there|that|this))\W*$"
)
# "Did you know that ...?" and "Have I told you that ...?" are statements, "Do you want to ...?" is an offer.
_ASKING = (
    rf"(?i)\W*(?:(?:so|and|but|oh|hey|wait)\W+)*{_AUXILIARY} "
    r"(?!you (?:want|like|mind|fancy|need|know|hear|heard|see|seen|remember|recall|believe|reali[sz]e)\b"
    r"|I (?:\w+ )?(?:tell|told|mention\w*|say|said)\b)"
)
_LEAST_PASTED = 8  # words of a pasted text
_STEM = 5  # letters by which two forms of a word are one
_CLAUSE = re.compile(r"; |,? (?:and|but|or|while|because|although|so|then|after|before|when|if) ", re.IGNORECASE)


def unworthy(fact: ExtractedFact, request: ExtractionRequest) -> str | None:
    """Why a fact is not kept, or None."""
    if fact.text.rstrip("\"”’') ").endswith(("?", "？")):
        return "it is a question"
    if _repeats_question(fact, request):
        return "its message asks whether it is so"
    cited = [turn for turn in request.messages if turn.number in fact.sources]
    if cited and all(map(acknowledges, cited)):
        return "its message says only that it was heard"
    words = _words(fact, request)
    if words and words <= _SMALL_TALK and not ground.number_words(fact.text):
        return "it is small talk"
    if _is_of_pasted(fact, request):
        return "it is of a text that was pasted, not of who pasted it"
    return None


def acknowledges(turn: Turn) -> bool:
    """Whether an assistant without a name says only that it has heard: "Updated.", "Got it!"."""
    if turn.role != "assistant" or ground.fold(turn.speaker) != "assistant" or ground.number_words(turn.text):
        return False
    return {ground.fold(word) for word in ground.content_words(turn.text)} <= _ACKNOWLEDGING


def known(fact: ExtractedFact, request: ExtractionRequest) -> str | None:
    """The text of the known fact of which this one says no more, or None. What claims to replace one says the same."""
    if fact.continues:
        return None
    return next(
        (
            each.text
            for each in request.known
            if (
                _says_no_more(fact, each.text, request)
                and (not fact.replaces or _says_no_less(fact, each.text, request))
            )
            or _is_reminder(fact, each.text, request)
        ),
        None,
    )


def _repeats_question(fact: ExtractedFact, request: ExtractionRequest) -> bool:
    """Whether a message asks just that ("Is Ben ill?", "Ben is ill, right?") and none says it beside the question."""
    words = stems(fact.text) - {name[:_STEM] for name in _speakers(request)}
    cited = [turn for turn in request.messages if turn.number in fact.sources]
    said = [part for turn in cited for part in re.split(r"(?<=[.!?…])\s|\n", turn.text)]
    for part in said:
        asked = stems(_asked(part)) if part.rstrip().endswith("?") else set()
        same = words & asked
        if words and 5 * len(same) >= 4 * len(words) and 2 * len(same) > len(asked):
            rest = stems(" ".join(other for other in said if other is not part))
            return 4 * len(words & rest) < len(words)
    return False


def _asked(sentence: str) -> str:
    """What a question asks for a yes or no, '' if nothing: of one with a tag the clause before that."""
    sentence = " ".join(sentence.split())  # \s+ at each place of a long gap would cost the square of its length
    if re.search(_TAG, sentence):
        return _CLAUSE.split(re.sub(_TAG, "", sentence))[-1]
    return sentence if re.match(_ASKING, sentence) else ""


def _is_of_pasted(fact: ExtractedFact, request: ExtractionRequest) -> bool:
    """Whether all its messages are pasted text, or an assistant's words about it, that speak of nobody present."""
    turns = [*request.window, *request.messages]
    pasted: list[Turn] = []
    for at, turn in enumerate(turns):
        before = turns[at - 1] if at else None
        announcing, text = _announced(turn, before)
        about = turn.role == "assistant" and before in pasted
        if (announcing or about) and not _OF_SPEAKERS.search(text) and len(text.split()) >= _LEAST_PASTED:
            pasted.append(turn)
    cited = [turn for turn in request.messages if turn.number in fact.sources]
    return bool(cited) and all(turn in pasted for turn in cited)


def _announced(turn: Turn, before: Turn | None) -> tuple[bool, str]:
    """Whether the speaker said that this text is pasted, before it or at its beginning; and the text."""
    if _AGENCY.match(turn.text) or (before and before.speaker == turn.speaker and _PASTED.search(before.text)):
        return True, turn.text
    beginning, *rest = re.split(r":\s|\n", turn.text, maxsplit=1)
    return bool(rest and _PASTED.search(beginning)), rest[0] if rest else turn.text


def _is_reminder(fact: ExtractedFact, known: str, request: ExtractionRequest) -> bool:
    """Whether its message reminds of the known fact ("I'm vegan, remember?"): half of its words, no other number."""
    cited = [turn for turn in request.messages if turn.number in fact.sources]
    if not cited or not all(_RECALLING.search(turn.text) for turn in cited):
        return False
    old = stems(known) - {name[:_STEM] for name in _speakers(request)}
    same = 2 * len(old & {word[:_STEM] for word in _words(fact, request)}) >= len(old) > 0
    return same and ground.number_words(fact.text) <= ground.number_words(known)


def repeated(fact: ExtractedFact, request: ExtractionRequest) -> bool:
    """Whether an earlier message says it, and not the one that it is of: that one has not a quarter of its words.

    What answers a question, or says "it" or "she", may draw on what was said before.
    """
    cited = [turn for turn in request.messages if turn.number in fact.sources]
    words = {word[:_STEM] for word in _words(fact, request)}
    if len(cited) != 1 or not words or not ground.speaks_for_itself(cited, request):
        return False
    mine, *theirs = (len(words & stems(turn.text)) for turn in (*cited, *request.window))
    return 4 * mine < len(words) and 5 * max(theirs, default=0) >= 4 * len(words)


def stems(text: str) -> set[str]:
    """The words that carry a text, two forms of one as one."""
    return {ground.fold(word)[:_STEM] for word in ground.content_words(text)}


def _words(fact: ExtractedFact, request: ExtractionRequest) -> set[str]:
    """The words that carry a fact, without the names of who speaks."""
    return {ground.fold(word) for word in ground.content_words(fact.text)} - _speakers(request)


def _speakers(request: ExtractionRequest) -> set[str]:
    return _tokens(" ".join(turn.speaker for turn in (*request.messages, *request.window)))


def _tokens(text: str) -> set[str]:
    return {ground.fold(word) for word in re.findall(r"\w+", text)}


def _short(text: str) -> set[str]:
    """What is too short for a word of weight and tells facts apart all the same: "C", "TV", "r2", "B12"."""
    return {
        word for word in _tokens(text) if (len(word) < 3 or not word.isalpha()) and word not in STOP_WORDS
    } - ground.number_words(text)


def _says_no_more(fact: ExtractedFact, known: str, request: ExtractionRequest) -> bool:
    """Whether every word of weight and number stands in one clause of the known fact, said or denied alike.

    In one clause: who hates dogs and loves cats does not hate cats.
    """
    words = _words(fact, request)
    subjects = _tokens(fact.text) & (_speakers(request) | {"user", "assistant"})
    if len(words) < 2 or not subjects <= _tokens(known):
        return False
    numbers, denied = ground.number_words(fact.text), bool(_NEGATION.search(fact.text))
    return any(
        words <= {ground.fold(word) for word in ground.content_words(clause)}
        and numbers <= ground.number_words(clause)
        and _short(fact.text) <= _short(clause)
        and denied == bool(_NEGATION.search(clause))
        for clause in _CLAUSE.split(known)
    )


def _says_no_less(fact: ExtractedFact, known: str, request: ExtractionRequest) -> bool:
    """Whether every word of weight and number of the known fact stands in this one."""
    words = {ground.fold(word) for word in ground.content_words(known)} - _speakers(request)
    numbers, short = ground.number_words(known), _short(known)
    return words <= _words(fact, request) and numbers <= ground.number_words(fact.text) and short <= _short(fact.text)
