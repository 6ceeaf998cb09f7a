"""Whether a fact stands on what was said: its names, numbers, dates and words must occur in its evidence.

Evidence is the messages a fact cites (all new ones, if it cites none), the window before them, every
speaker's name, the known facts and the resolved dates that were shown, and the day on which a cited message
was said. Comparison ignores case, accents and width. Words match whole ("Joanna" is no "Ann", "Lisbon's" is
"Lisbon"); scripts without spaces, and Korean, match as substrings.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from functools import lru_cache
from itertools import zip_longest

from memlite import dates
from memlite.records import ExtractedFact, ExtractionRequest, KnownFact, NamedEntity, Turn

# Below this share of its content words a fact counts as invented. Measured on LoCoMo's 1,210 facts, which
# people wrote freely: 4 % are below it beside the turns they cite, 84 % beside others of the same speaker. At
# 0.4 it is 2 % and 77 %, at 0.6 10 % and 92 %.
MIN_SHARE = 0.5

_SPACELESS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_LETTER = rf"(?:(?![{_SPACELESS}])[^\W_])"
_LETTERS = f"{_LETTER}+"
_TOKEN = rf"[{_SPACELESS}]+|{_LETTERS}"
_NO_ACCENTS = dict.fromkeys(range(0x300, 0x370))


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Words that are in every text, or that report one; they ground nothing and need no ground.
_STOP = _set(
    "a an the this that these those some any no not nor and or but if so as at by for from in into of off "
    "on onto out over to up with without within about above after again against all also always am are "
    "aren be because been before being below between both can cannot could did didn do does doesn doing "
    "don down during each either else ever every few further get gets getting given go goes going gone "
    "got had has hasn have haven having he her here hers herself him himself his how however i im is isn "
    "it its itself just let like ll made make makes making many may maybe me might mine more most much "
    "must my myself never now once one only other others our ours ourselves own per perhaps please quite "
    "rather re really recently said same say says shall she should shouldn since still such than their "
    "theirs them themselves then there they think thing things through too took toward under until upon "
    "us use used uses using ve very was wasn we well went were weren what when where whether which while "
    "who whom whose why will won would wouldn yes yet you your yours yourself called named mention "
    "mentioned mentions told tell tells asked asks ask recommended recommends suggested suggests stated "
    "states according user users assistant speaker person someone something"
)
_GERMAN = _set(
    "der die das dem den des ein eine einen einem einer und oder aber ist sind war hat haben nicht ich du "
    "er sie es wir ihr mein meine sein seine mit fur auf von zu zum zur im am aus bei nach uber wird "
    "werden auch als dass"
)
_ENGLISH = _set(
    "the a and or but is are has have had not i you he she it we they my his her with for on of to at from "
    "by that this will would likes"
)
# Capitalised because a sentence starts with them, not because they are names.
_STARTERS = _set(
    "actually afternoon afterwards ah amazing another anyone anything anyway apparently awesome book "
    "breakfast bye call check come congrats congratulations cool dad day dear did dinner earlier email "
    "evening everyone everything eventually exactly fact finally find first following food friend friends "
    "fun future glad goal good great guess hello help hey hi hobby home hope hopefully house imagine "
    "indeed instead job keep kids later last look lots love lunch mainly man meanwhile meeting meetings "
    "mom money morning mother mum music name nearly new next nice night nobody nothing number oh ok okay "
    "old others otherwise people perfect previously probably question read remember second see send show "
    "sleep sometimes soon sorry start stop sure take team thank thanks third time today tomorrow tonight "
    "total trip try two three four five six seven eight nine ten ugh unfortunately update usually wait "
    "want watch wake way weather weekend welcome whatever whenever wife work wow yeah year years yep "
    "yesterday"
)
_TITLES = _set("mr mrs ms dr prof st sr jr mt")
_CONNECTORS = _set("of the de da do dos das del della di du des van von der den la le el al bin ibn y zu")
_NAME_VERBS = _set(
    "is was has had will would can could does did doesn didn isn wasn hasn won said got went came bought "
    "ate made took met saw found left felt told thought began became grew ran wrote spent lost built "
    "taught lent sold drew drove broke chose caught flew fell forgot gave grew heard held kept knew led paid "
    "rode sang sent slept spoke swam threw won wore woke hid beat also just now never still always often usually "
    "recently might must should"
)
_MONTHS = "january february march april may june july august september october november december"
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday"
_MONTH_NUMBER = {month: number for number, month in enumerate(_MONTHS.split(), 1)}
_WEEKDAY_NUMBER = {weekday: number for number, weekday in enumerate(_WEEKDAYS.split())}
_NO_NAMES = _set(f"ok tv am pm {_MONTHS} {_WEEKDAYS}")
_ALWAYS = _STOP | _TITLES | _set("ok tv am pm")

_DATE_WORD = (
    rf"\b(?:{'|'.join(_WEEKDAYS.split())}|january|february|april|june|july|august|september|october|november|"
    r"december|(?<=\bin )(?:may|march))\b"
)

_BEFORE_DAY = "in|on|of|last|next|this|since|until|till|by|early|mid|late|every|from|before|after|during"

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_ORDINAL = (
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
    "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_VALUES = {
    **{word: value for words in (_SMALL, _ORDINAL) for value, word in enumerate(words.split())},
    **{word: 10 * value for value, word in enumerate(_TENS.split(), 2)},
    **{word.replace("y", "ieth"): 10 * value for value, word in enumerate(_TENS.split(), 2)},
}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_NO_CONTENT = _STOP | _VALUES.keys() | _SCALES.keys() | _MONTH_NUMBER.keys() | _WEEKDAY_NUMBER.keys()
_PRONOUNS = _set("zero one first second")  # "one of them", "a second look": not always a number
# What a message may say where the fact has digits; from two on, in German, French, Spanish, Italian,
# Portuguese and Dutch.
_OTHER_VALUES = {"once": 1, "single": 1, "twice": 2, "both": 2, "pair": 2, "dozen": 12} | {
    word: value
    for words in (
        "zwei drei vier funf sechs sieben acht neun zehn elf zwolf",
        "deux trois quatre cinq six sept huit neuf dix onze douze",
        "dos tres cuatro cinco seis siete ocho nueve diez once doce",
        "due tre quattro cinque sei sette otto nove dieci undici dodici",
        "dois tres quatro cinco seis sete oito nove dez onze doze",
        "twee drie vier vijf zes zeven acht negen tien elf twaalf",
    )
    for value, word in enumerate(words.split(), 2)
    if word != "once"
}

_CLAUSE = re.compile(
    r"(?=, (?:and|but|so|because|which|who|where|while|although|with) |; | and (?:the|an?|is|was|has|wants) )"
)
_PHRASE = re.compile(r"(?= (?:for|with|in|at|to|from|by|about|of|as|because of|during) )")
_TWO_PREDICATES = re.compile(
    r"(?P<subject>(?:The user|[^\W\d_a-z]\S*)(?: [^\W\d_a-z]\S*)?(?:['’]s \w+(?: [^\W\d_a-z]\w+)?)?) "
    r"(?P<old>.{3,200}?),? and "
    r"(?P<new>(?:is|was|has|had|will|does|did|[a-z]+s|[a-z]+ed) .+)$",
    re.DOTALL,
)
_HALF_DAY = re.compile(r"(?<=\d) ?([ap])(?:m\b|\.m\.(?!$)|\.m(?=\.$))", re.IGNORECASE)
_ROLES = _set("user assistant speaker") | {"the user", "the assistant", "the speaker"}
_LONGEST_END = 12  # words
_TACKED_ON = (" for ", " with ", " at ")  # what a small model likes to end a fact with
_MEANING_ONE_BEFORE = "him|her|it|us|them|that|this|those|these|there|ones?|both"
_OF_ONESELF = re.compile(r"^(?:\W*\w+,)?\W*(?:I|We|My|Our)\b(?:\W+\w+){4}", re.IGNORECASE)
_REFERRING = re.compile(
    r"\b(?:he|she|it|they|him|hers?|his|its|them|theirs?|this|that|these|those|there|here|then|ones?|both|same|another|"
    r"such|too|also|instead|so|either|neither|again|yes|yeah|yep|no|nope)\b",
    re.IGNORECASE,
)
_ENDINGS = ("ing", "ers", "ies", "ed", "er", "es", "ly", "s", "e", "y")
_SENTENCE_START = r"(?:^|[.!?:;…。！？\n•])[^\w.!?:;…。！？\n]*$"
_QUOTED = r"“([^“”\n]{2,60})”|\"([^\"\n]{2,60})\"|«([^«»\n]{2,60})»|《([^《》\n]{1,60})》|『([^『』\n]{1,60})』"
_CODE = rf"(?<!{_LETTER})(?a:(?<![\w.+#@:/-])[A-Za-z0-9](?:[\w.+#@:/-]{{0,200}}[\w+#])?)(?!{_LETTER})"
# No names though they look odd: 7pm, 3rd, 30-year-old, and/or.
_QUANTITY = r"\d[\d.,:/-]*[a-z%]{0,4}|\d+\w{0,3}(?:-[a-z]+)+|[a-z]+(?:[-/][a-z]+)*"
_WORD = rf"(?<!{_LETTER})(?!\d){_LETTERS}(?:[-'’&]{_LETTERS})*"


def ungrounded(fact: ExtractedFact, request: ExtractionRequest) -> tuple[str, ...]:
    """What of the fact its evidence does not bear out, a sentence each; () if the fact is grounded."""
    if not fact.text.strip():
        return ("the fact is empty",)
    evidence = _evidence(fact, request)
    text = unicodedata.normalize("NFKC", fact.text)
    names = [entity.name for entity in fact.entities]
    if not _is_german(text):  # every German noun has a capital
        names += mentioned_names(text)
    missing = [f"name '{name}'" for name in names if not evidence.has_name(name)]
    missing += [f"date '{shown}'" for shown in _unknown_dates(text, evidence, evidence.dates)]
    if fact.when:  # where a period begins or ends may stand for it here, not in the text
        missing += [
            f"date '{shown}'" for shown in _unknown_dates(fact.when, evidence, evidence.dates | evidence.bounds)
        ]
    missing += [f"number '{shown}'" for shown in _unknown_numbers(text, evidence)]
    reasons = list(dict.fromkeys(f"{each} is in no message" for each in missing))
    words = [word for word in content_words(text) if word not in evidence.speakers]
    found = sum(evidence.has_word(word) for word in words)
    if found < MIN_SHARE * len(words):
        reasons.append(f"only {found} of {len(words)} content words are in the messages")
    return tuple(reasons)


def as_said(fact: ExtractedFact, request: ExtractionRequest) -> ExtractedFact:
    """The fact without what a small model adds by habit: "pm" behind a time, a role or a day as a name, a firm's name
    in two.
    """
    said = " ".join(turn.text for turn in (*request.window, *request.messages))
    text = _HALF_DAY.sub(lambda m: m[0] if re.search(rf"\d ?{m[1]}\.?m\b", said, re.IGNORECASE) else "", fact.text)
    named = [e for e in fact.entities if fold(e.name) not in _ROLES and not _is_day(e, text, request)]
    return replace(fact, text=text, entities=_whole_names(text, named))


def _is_day(entity: NamedEntity, text: str, request: ExtractionRequest) -> bool:
    """Whether a name is only a date: "May", "3 June", "Am 3. Juni". May that is a person is one, but not "in May"."""
    words = _tokens(entity.name)
    calendar = any(word in _MONTH_NUMBER or word in _WEEKDAY_NUMBER for word in words)
    if calendar and not content_words(entity.name):
        name = re.escape(entity.name)
        dated = rf"(?:\b(?:{_BEFORE_DAY})|\d(?:st|nd|rd|th)?) {name}\b|\b{name} (?:the )?\d"
        return len(words) > 1 or entity.type not in ("person", "") or re.search(dated, text, re.IGNORECASE) is not None
    if not any(map(str.isdecimal, entity.name)):
        return False
    rest = entity.name
    for found in reversed(dates.find(entity.name, request.messages[0].observed_at)):
        rest = rest[: found.start] + rest[found.end :]
    return rest != entity.name and not any(map(str.isdecimal, rest)) and not content_words(rest)


def _whole_names(text: str, entities: Sequence[NamedEntity]) -> tuple[NamedEntity, ...]:
    """The entities, two names with & between them as one: an organisation's."""
    whole: list[NamedEntity] = []
    for entity in entities:
        joined = f"{whole[-1].name} & {entity.name}" if whole else ""
        if joined and joined in text:
            whole[-1] = NamedEntity(joined, "organisation")
        else:
            whole.append(entity)
    return tuple(whole)


def trimmed(fact: ExtractedFact, request: ExtractionRequest) -> tuple[ExtractedFact, str]:
    """The fact without what no cited message says at its end or at its beginning, and what was cut off, '' if nothing.

    A small model that has written down what was said sometimes goes on: with a price that nobody named, with what it
    knows already, or "for" somebody who was not spoken of.
    """
    whole = fact.text.rstrip(".!")
    clauses = _CLAUSE.split(whole)
    if len(clauses) == 1 and not _PHRASE.search(whole):
        return fact, ""
    evidence = _evidence(fact, request)
    cited = tuple(turn for turn in request.messages if turn.number in fact.sources) or request.messages
    now = _evidence(fact, replace(request, messages=cited, window=(), known=()))
    while len(clauses) > 1 and (_says_again(clauses) or not _is_said(clauses[-1], evidence, now)):
        clauses.pop()
    alone = speaks_for_itself(cited, request)
    kept = _without_loose_end("".join(clauses), now if alone else evidence, evidence)
    if not alone and _needs_nothing(cited, request):
        kept = _without_loose_end(kept, now, evidence, _TACKED_ON)
    text = _without_old_beginning(kept, now) if alone else kept
    if text == whole:
        return fact, ""
    cut = whole[len(kept) :].strip(" ,;") if text == kept else whole
    text = text.rstrip(" ,;") + "."
    entities = tuple(entity for entity in fact.entities if entity.name in text)
    when = None if re.search(r"\d{4}-\d\d", cut) else fact.when
    return replace(fact, text=text, entities=entities, when=when), cut


def _says_again(clauses: Sequence[str]) -> bool:
    """Whether the last clause only repeats what stands before it: "a cat called Minka, and the cat is called Minka"."""
    last, before = clauses[-1], "".join(clauses[:-1])
    words = set(content_words(last))
    if re.search(r"\b(?:not|no|never|without)\b|n['’]t\b", last):
        return False
    return bool(words) and words <= set(content_words(before)) and number_words(last) <= number_words(before)


def speaks_for_itself(cited: Sequence[Turn], request: ExtractionRequest) -> bool:
    """Whether what was said needs nothing from before: a sentence of "I" that refers to nothing and answers nothing."""
    return len(cited) == 1 and _OF_ONESELF.search(cited[0].text) is not None and _refers_to_nothing(cited[0], request)


def _needs_nothing(cited: Sequence[Turn], request: ExtractionRequest) -> bool:
    """Whether a phrase at a fact's end must be of what was said: an assistant likes to say again for whom it speaks."""
    if len(cited) != 1:
        return False
    (turn,) = cited
    nameless = turn.role == "assistant" and fold(turn.speaker) in _ROLES
    return nameless or _refers_to_nothing(turn, request)


def _refers_to_nothing(turn: Turn, request: ExtractionRequest) -> bool:
    if _REFERRING.search(turn.text):
        return False
    before = [*request.window, *(each for each in request.messages if each.number < turn.number)]
    return not before or "?" not in before[-1].text


def _without_loose_end(text: str, evidence: _Evidence, shown: _Evidence, beginnings: tuple[str, ...] = (" ",)) -> str:
    """The text without its last phrases ("for Ikea", "for a stay in Porto", "with 3 parrots") of which nobody has said
    a word or a number. A phrase behind such a one goes with it if it only repeats the text before.

    shown: what the rest of the text may draw on. beginnings: of phrases that may go.
    """
    phrases = _PHRASE.split(text)
    kept = len(phrases)
    for at in range(len(phrases) - 1, 0, -1):
        words = [word for word in content_words(phrases[at]) if word not in evidence.speakers]
        numbers, unknown = _numbers_and_dates(phrases[at], evidence)
        if not (words or numbers):
            break
        if unknown == numbers and not any(word in evidence.words or evidence.has_word(word) for word in words):
            if phrases[at].startswith(beginnings) and not evidence.says_one_before(phrases[at].split()[0]):
                kept = at
        elif unknown < numbers or not set(words) <= set(content_words("".join(phrases[:at]))):
            break
    rest = "".join(phrases[:kept])
    begins = [word for word in content_words(rest) if word not in shown.speakers][:2]
    # "Ann moved to Berlin" of one who moved to Porto is made up as a whole: "Ann moved" is no fact to save.
    said = len(begins) == 2 and all(shown.has_word(word) for word in begins)
    short = len(text[len(rest) :].split()) <= _LONGEST_END
    return rest if said and short else text


def _without_old_beginning(text: str, now: _Evidence) -> str:
    """The text without a first predicate of which this message has no word, if it says all of the second: of "Ann is
    travelling to Rome and is vegan" the journey, which an earlier message told.
    """
    found = _TWO_PREDICATES.match(text)
    if found is None:
        return text
    old, new = ([word for word in content_words(found[part]) if word not in now.speakers] for part in ("old", "new"))
    if not (old and new) or any(map(now.has_word, old)) or not all(map(now.has_word, new)):
        return text
    return f"{found['subject']} {found['new']}"


def _numbers_and_dates(text: str, evidence: _Evidence) -> tuple[int, int]:
    """How many numbers and dates a text has, and how many of them nobody has said."""
    found, rest = _dates(text)
    numbers = [shown for shown, _ in _numbers(rest) if shown not in _PRONOUNS]
    unknown = [*_unknown_dates(text, evidence, evidence.dates), *_unknown_numbers(text, evidence)]
    return len(found) + len(re.findall(_DATE_WORD, rest)) + len(numbers), len(unknown)


def _is_said(clause: str, evidence: _Evidence, now: _Evidence) -> bool:
    """Whether a clause has no name, date or number without evidence, and most of its words from the cited messages."""
    if [*_unknown_dates(clause, evidence, evidence.dates), *_unknown_numbers(clause, evidence)]:
        return False
    if not all(evidence.has_name(name) for name in mentioned_names(clause)):
        return False
    words = [word for word in content_words(clause) if word not in evidence.speakers]
    return not words or 2 * sum(now.has_word(word) for word in words) > len(words)


def mentioned_names(text: str) -> tuple[str, ...]:
    """The names in a text, by rule: runs of capitalised words, quoted titles, tokens such as node.js.

    A sentence's first word counts if it goes on as a name does ("Maria moved", "Casa Verde") or has its
    capital elsewhere too. In German only runs of two words and more count.
    """
    text = unicodedata.normalize("NFKC", text)
    found = [
        (match.start(), match.end(), title)
        for match in re.finditer(_QUOTED, text)
        if _is_title(title := next(filter(None, match.groups())))
    ]
    found += [(*match.span(), match[0]) for match in re.finditer(_CODE, text) if _is_code(match[0])]
    found += [(start, end, text[start:end]) for start, end in _capitalised(text)]
    found.sort(key=lambda each: (each[0], -each[1]))
    names: dict[str, str] = {}
    position = 0
    for start, end, name in found:
        if start >= position:
            position = end
            names.setdefault(fold(name), name)
    return tuple(names.values())


def fold(text: str) -> str:
    """Text without what the comparison ignores: case, accents and width."""
    bare = unicodedata.normalize("NFKD", text.casefold()).translate(_NO_ACCENTS)
    return unicodedata.normalize("NFKC", bare).casefold()


def _evidence(fact: ExtractedFact, request: ExtractionRequest) -> _Evidence:
    cited = tuple(turn for turn in request.messages if turn.number in fact.sources) or request.messages
    return _read_evidence(cited, request.window, request.messages, request.known)


class _Evidence:
    """All that a fact may draw on, read once."""

    def __init__(
        self,
        cited: tuple[Turn, ...],
        window: tuple[Turn, ...],
        messages: tuple[Turn, ...],
        known_facts: tuple[KnownFact, ...],
    ) -> None:
        shown = [*window, *messages]
        resolved = [each for turn in shown for each in turn.dates]
        said = [turn.text for turn in [*window, *cited]] + [each.expression for each in resolved]
        known = [each.text for each in known_facts]
        everything = fold("\n".join([*said, *known, *(turn.speaker for turn in shown)]))

        self.dates = {_parts(turn.observed_at) for turn in cited}
        self.numbers = _implied_numbers(everything)
        years = [turn.observed_at.year for turn in [*window, *cited]]
        for text, year in zip_longest([*said, *known], years):
            found, rest = _dates(text)
            self.dates |= {parts for _, parts in found}
            if year:  # "May 5" is of the year it was said in
                self.dates |= {(year, *parts[1:]) for _, parts in found if not parts[0]}
            self.numbers |= {form for _, forms in _numbers(rest) for form in forms}
        self.bounds = {_parts(date.fromisoformat(day)) for each in resolved for day in (each.start, each.end)}
        for each in resolved:
            kept = {"month": 2, "season": 2, "year": 1}.get(each.precision, 3)
            for year, month, day in (_parts(date.fromisoformat(day)) for day in (each.start, each.end)):
                self.dates.add((year, month if kept > 1 else None, day if kept > 2 else None))

        self.numbers |= {form for _, forms in _numbers(everything) for form in forms}
        for year, month, day in self.dates:
            self.numbers |= {str(part) for part in (year, month, day) if part}
            self.numbers |= {f"{day}.{month}", f"{month}.{day}"}

        self.speakers = {word for turn in shown for word in _tokens(turn.speaker)}
        self.words = {form for word in _tokens(everything) for form in (word, _singular(word))}
        self.unspaced = re.sub(r"[^\S\n]", "", everything)
        self.said = fold("\n".join(said))
        self.stems: dict[str, set[str]] = {}
        for word in set(_tokens(self.said)):
            self.stems.setdefault(stem(word), set()).add(word)
            self.stems.setdefault(word[:4], set()).add(word)

    def has_name(self, name: str) -> bool:
        name = re.sub(r"(?<=\w)['’]s(?!\w)", "", name)  # "Ann's Opel": who has it and what it is
        return all(self.has_name_word(word) for word in _tokens(name) if word not in _ALWAYS)

    def has_name_word(self, word: str) -> bool:
        if _is_spaceless(word):
            return word in self.unspaced
        if word in self.words or _singular(word) in self.words:
            return True
        if word in _MONTH_NUMBER or word in _WEEKDAY_NUMBER:
            return self.has_date_word(word)
        if word.isdecimal():
            return bool(_number_forms(word) & self.numbers)
        # The message may have it with an ending: "Istanbul'da", "Berliner".
        return len(word) > 3 and any(each.startswith(word) and len(each) < len(word) + 4 for each in self.words)

    def has_date_word(self, word: str) -> bool:
        if word in self.words:
            return True
        if word in _MONTH_NUMBER:
            return any(month == _MONTH_NUMBER[word] for _, month, _ in self.dates)
        for year, month, day in self.dates:
            with suppress(ValueError):  # February 29th, said in another year
                if year and month and day and date(year, month, day).weekday() == _WEEKDAY_NUMBER[word]:
                    return True
        return False

    def says_one_before(self, preposition: str) -> bool:
        """Whether it was said with a pronoun: "for her" may be for a sister who was spoken of before."""
        return re.search(rf"\b{preposition} (?:{_MEANING_ONE_BEFORE})\b", self.said) is not None

    def has_word(self, word: str) -> bool:
        if _is_spaceless(word):
            return word in self.said
        return stem(word) in self.stems or any(_related(word, each) for each in self.stems.get(word[:4], ()))


# The facts of a message share their evidence: read for each anew, a long message would cost the square of its length.
_read_evidence = lru_cache(maxsize=4)(_Evidence)


def forget() -> None:
    """Give up what was read of the messages of earlier facts."""
    _read_evidence.cache_clear()


def _tokens(text: str) -> list[str]:
    return re.findall(_TOKEN, fold(text))


def _is_spaceless(word: str) -> bool:
    return re.match(f"[{_SPACELESS}]", word) is not None


def _is_german(text: str) -> bool:
    words = _tokens(text)
    return sum(word in _GERMAN for word in words) > sum(word in _ENGLISH for word in words)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def stem(word: str) -> str:
    """A folded word without its English ending."""
    ending = next((each for each in _ENDINGS if word.endswith(each) and len(word) - len(each) >= 3), "")
    bare = word[: len(word) - len(ending)]
    return bare[:-1] if len(bare) > 3 and bare[-1] == bare[-2] else bare  # running, run


def _related(one: str, other: str) -> bool:
    """Whether two words begin alike: four letters and two thirds of the shorter ("photos", "photography")."""
    shorter = min(len(one), len(other))
    same = next((at for at in range(shorter) if one[at] != other[at]), shorter)
    return same >= 4 and 3 * same >= 2 * shorter


def content_words(text: str) -> list[str]:
    """The words that carry a fact: no stop words, numbers or dates; of unspaced scripts the signs that do."""
    skipped = _NO_CONTENT | _GERMAN if _is_german(text) else _NO_CONTENT
    content: list[str] = []
    for word in _tokens(re.sub("用户|使用者|助手|ユーザー|사용자", " ", text)):
        if re.match("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]", word):  # Thai and its like, by threes
            content += [word[at : at + 3] for at in range(max(1, len(word) - 2))]
        elif _is_spaceless(word):  # hiragana and the commonest Chinese characters are grammar
            content += re.sub("[\u3040-\u309f・ー的是了在我你他她有和不也都就与及们一]", "", word)
        elif len(word) > 2 and not word[0].isdecimal() and word not in skipped:
            content.append(word)
    return list(dict.fromkeys(content))


def number_words(text: str) -> set[str]:
    """The numbers of a text, in digits or in words, as they are written."""
    return {word for word in _tokens(text) if word.isdecimal() or word in _VALUES or word in _SCALES}


# Dates


def _parts(day: date) -> dates.PartialDate:
    return day.year, day.month, day.day


def _dates(text: str) -> tuple[list[tuple[str, dates.PartialDate]], str]:
    """The absolute dates of a text, as written and in parts; and the folded text without them."""
    found, rest = dates.absolute(fold(text))
    return found, re.sub(r"(?<=\d):00\b", ";", rest)  # 7:00 is 7


def _unknown_dates(text: str, evidence: _Evidence, known: set[dates.PartialDate]) -> Iterator[str]:
    found, rest = _dates(text)
    for shown, parts in found:
        if not any(all(part in (None, at) for part, at in zip(parts, each, strict=True)) for each in known):
            yield shown
    yield from (word for word in re.findall(_DATE_WORD, rest) if not evidence.has_date_word(word))


# Numbers


def _unknown_numbers(text: str, evidence: _Evidence) -> Iterator[str]:
    for shown, forms in _numbers(_dates(text)[1]):
        pieces = re.split("[.,]", shown)  # 11.05.2025, of which a message or a date has each
        several = len(pieces) > 2 and all(_number_forms(piece) & evidence.numbers for piece in pieces)
        if not (several or shown in _PRONOUNS or forms & evidence.numbers):
            yield shown


def _numbers(text: str) -> Iterator[tuple[str, set[str]]]:
    """The numbers of a folded text, in digits or English words: as written, and what equals them."""
    phrase: list[str] = []
    end = 0
    for match in re.finditer(r"\d+(?:[.,]\d+)*|(?<![^\W\d_])(?!and\b)[^\W\d_]+", text):
        word, gap = match[0], text[end : match.start()].strip()
        if phrase and not (gap in ("", "-", "and") and _continues(phrase, word)):
            yield _number(phrase)
            phrase = []
        if word[0].isdecimal() or word in _VALUES or word in _SCALES:
            phrase.append(word)
        end = match.end()
    if phrase:
        yield _number(phrase)


def _continues(phrase: list[str], word: str) -> bool:
    """Whether the word is of the same number: "twenty", "one" and "3", "million", but not "two", "three"."""
    last = phrase[-1]
    if len(phrase) > 7:  # no number anyone writes, and a scale upon a scale grows without end
        return False
    if word in _SCALES:
        return _SCALES[word] > _SCALES.get(last, 1)
    if word not in _VALUES or last[0].isdecimal():
        return False
    return last in _SCALES or (20 <= _VALUES[last] < 100 and _VALUES[last] % 10 == 0 and 0 < _VALUES[word] < 10)


def _number(phrase: list[str]) -> tuple[str, set[str]]:
    if len(phrase) == 1 and phrase[0][0].isdecimal():
        return phrase[0], _number_forms(phrase[0])
    total = chunk = 0.0
    for word in phrase:
        if word in _VALUES:
            chunk += _VALUES[word]
        elif word == "hundred":
            chunk = 100 * (chunk or 1)
        elif word in _SCALES:
            total, chunk = total + (chunk or 1) * _SCALES[word], 0
        else:
            digits = min(_number_forms(word), key=len)[:15]
            chunk = float(digits) if digits.count(".") < 2 else 0
    value = total + chunk
    return " ".join(phrase), {str(int(value)) if value == int(value) else f"{value:.10g}"}


def _number_forms(digits: str) -> set[str]:
    """What the digits may be, without leading zeros: 1,000 is 1000, 1.50 is 1.5, and 1.000 is 1000 or 1."""
    plain = "".join(str(unicodedata.decimal(sign, sign)) for sign in digits).replace(",", ".")
    whole, *rest = plain.split(".")
    forms = set()
    if len(rest) < 2:
        fraction = "".join(rest).rstrip("0")
        forms.add((whole.lstrip("0") or "0") + (f".{fraction}" if fraction else ""))
    if rest and len(whole) <= 3 and all(len(each) == 3 for each in rest):
        forms.add((whole + "".join(rest)).lstrip("0") or "0")
    return forms or {plain}


def _implied_numbers(text: str) -> set[str]:
    """What a message implies that a fact may write in digits: 19 for 7 pm, 5000 for 5k, 3 for "drei"."""
    numbers: set[str] = set()
    for word in re.findall(r"\d+(?:[.,]\d+)*|[^\W\d_]+", text):  # each alone too: a date may stand in between
        values = [each[word] for each in (_VALUES, _SCALES, _OTHER_VALUES) if word in each]
        numbers |= {str(value) for value in values} | (_number_forms(word) if word[0].isdecimal() else set())
    numbers |= {str(int(hour) % 12 + 12) for hour in re.findall(r"\b(\d{1,2})(?::\d\d)? ?p\.?m\b", text)}
    numbers |= {str(int(hour) - 12) for hour in re.findall(r"\b(1[3-9]|2[0-3])(?=:\d\d\b)", text)}
    numbers |= {f"{thousands}000" for thousands in re.findall(r"\b([1-9]\d{0,5})k\b", text)}
    if re.search(r"\ban?\b", text):
        numbers.add("1")
    for signs in re.findall("[一二两三四五六七八九十]+", text):
        tens, ten, units = signs.rpartition("十")
        digits = {sign: value for value, sign in enumerate("一二三四五六七八九", 1)} | {"两": 2}
        numbers |= {str(digits[sign]) for sign in signs if sign in digits}
        if ten:
            numbers.add(str(10 * digits.get(tens[-1:], 1) + digits.get(units[:1], 0)))
    return numbers


# Names


def _capitalised(text: str) -> Iterator[tuple[int, int]]:
    """Where the runs of capitalised words that are names begin and end."""
    words = list(re.finditer(_WORD, text))
    letters = [sign for sign in text if sign.isalpha()]
    if len(words) > 1 and 2 * sum(map(str.isupper, letters)) > len(letters):
        return  # shouting: capitals say nothing
    inside = {_key(word) for word in words if _is_capital(word) and not _starts_sentence(word)}
    german = _is_german(text)
    for first, last in _runs(words, _CONNECTORS - _GERMAN if german else _CONNECTORS):
        word, alone = words[first], first == last
        opening = alone and _starts_sentence(word) and _key(word) not in inside
        if (alone and german) or (opening and not _goes_on_as_name(words, first)):
            continue
        if not all(len(_key(each)) == 1 or _key(each) in _TITLES for each in words[first : last + 1]):
            yield word.start(), words[last].end() - (2 if words[last][0][-2:] in ("'s", "’s") else 0)


def _runs(words: list[re.Match[str]], connectors: frozenset[str]) -> Iterator[tuple[int, int]]:
    """The first and last word of each run, which a connector may join: "Bank of America", "Dr. Ann Lee"."""
    first = last = -1
    for at, word in enumerate(words):
        if first >= 0:
            before = words[at - 1]
            gap = word.string[before.end() : word.start()]
            abbreviated = gap in (".", ". ") and (len(before[0]) == 1 or _key(before) in _TITLES)
            if not (gap in (" ", " & ") or abbreviated):
                yield first, last
                first = -1
        plain = _key(word) in _STOP or _key(word) in _NO_NAMES
        if _is_capital(word) and not plain and not (_starts_sentence(word) and _is_opener(_key(word))):
            first, last = (at if first < 0 else first), at
        elif first >= 0 and not (_key(word) in connectors or (plain and _is_capital(word))):
            yield first, last
            first = -1
    if first >= 0:
        yield first, last


def _is_opener(key: str) -> bool:
    """Whether a sentence's first word is only that, and no part of a name after it: "Visited Lisbon"."""
    return key in _STARTERS or key in _GERMAN or (len(key) > 5 and key.endswith(("ed", "ing")))


def _key(word: re.Match[str]) -> str:
    return re.split("['’]", fold(word[0]))[0]


def _is_capital(word: re.Match[str]) -> bool:
    return any(map(str.isupper, word[0]))  # "iPhone" too


def _starts_sentence(word: re.Match[str]) -> bool:
    before = word.string[max(0, word.start() - 20) : word.start()]
    if re.search(r"\b(?:[^\W\d_a-z]|[Mm]rs?|[Mm]s|[Dd]r|[Pp]rof|[Ss]t)\. ?$", before):
        return False  # after "Dr." or an initial
    return re.search(_SENTENCE_START, before if word.start() <= 20 else f"x{before}") is not None


def _goes_on_as_name(words: list[re.Match[str]], at: int) -> bool:
    """Whether a sentence's first word is followed as a name is: "Maria moved", "Ann's", "Tom and Ann"."""
    name = words[at][0]
    if len(words) == 1 or name.endswith(("'s", "’s")) or any(map(str.isupper, name[1:])):
        return True
    if name.endswith(("ing", "ly")) or at + 1 == len(words):
        return False
    after = words[at + 1][0]
    if after == "and":
        return at + 2 < len(words) and _is_capital(words[at + 2])
    return after in _NAME_VERBS or (len(after) > 3 and after.endswith(("s", "ed")) and not after.endswith("ss"))


def _is_title(quoted: str) -> bool:
    """Whether quoted words are a title rather than speech: most of them have capitals."""
    words = [word for word in re.finditer(_WORD, quoted) if _key(word) not in _CONNECTORS]
    if not words:
        return _is_spaceless(quoted)
    return not quoted[0].islower() and 2 * sum(map(_is_capital, words)) > len(words)


def _is_code(token: str) -> bool:
    """Whether a token is a name by its make: node.js, ERR-7731, ann@example.org, C++."""
    if not any(map(str.isalpha, token)) or re.fullmatch(_QUANTITY, token, re.IGNORECASE):
        return False
    if any(map(str.isdecimal, token)) or "_" in token or token.endswith(("++", "#")) or "://" in token:
        return True
    return re.search(r"\w\w\.[a-z]{2}", token) is not None and not re.search(r"\.[A-Z]", token)
