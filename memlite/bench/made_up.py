"""What a fact has that nobody said: names, numbers and dates, by whole words; apart from ground.py, which it judges."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from memlite import dates
from memlite.date_words import HAN, HANGUL, KANA, language, languages_of
from memlite.number_words import IDEOGRAPHS, NumberWords, goes_on, ideographs, total
from memlite.records import ExtractedFact, ExtractionRequest, FoundDate, ResolvedDate

_DAY = r"\d{4}-(?:0[1-9]|1[0-2])(?:-\d\d)?(?!\d)"
_TOKEN = re.compile(rf"{_DAY}|\d+(?:[.,:]\d+)*|[^\W\d_]\w*")
_UNSPACED = re.compile(rf"([{HAN}{KANA}{HANGUL}]+)")
_SIGNS = re.compile(f"[{IDEOGRAPHS}]+")
_GROUPED = re.compile(r"[1-9]\d{0,2}(?:[.,]\d{3})+")
_SCALES = {"k": 1000, "million": 10**6, "billion": 10**9}
_COUNTS = {"a": "1", "an": "1", "once": "1", "twice": "2", "both": "2", "couple": "2", "pair": "2", "dozen": "12"}
_NOT_COUNTED = ("0", "1", "1.", "2.")  # in words: "one of them", "a second"
# Words at the beginning of a sentence, and those in which a fact speaks of who says it.
_NO_NAMES = frozenset(
    "a about after all although am an and as assistant at because before both but by during each every for from he her "
    "his i if in instead it its most my no not of on once one only or our over pm she since so some that the their "
    "there these they this those though to under until user we what when where which while who with without you".split()
)


def made_up(fact: ExtractedFact, request: ExtractionRequest) -> list[str]:
    """The names, numbers, number words and dates of a fact that stand nowhere in what was shown, in their order.

    What is only written otherwise was said: a date that was resolved or told in words, digits for number words and the
    reverse, digits grouped otherwise, a name without its accents. German nouns count as names; "one" and "second" are
    no numbers.
    """
    said = _Said(request)
    text = fact.text
    for found in reversed(dates.find(text, request.messages[0].observed_at)):
        if said.has_date(_shown(found)):
            text = f"{text[: found.start]} {text[found.end :]}"
    tokens = _tokens(text)
    missing = {at for at, token in enumerate(tokens) if _is_name(token) and token.casefold() not in said.words}
    for at, number in _numbers(tokens, _words_of(text)):
        counted = tokens[at][0].isdigit() or number not in _NOT_COUNTED
        if counted and number not in said.numbers and not said.has_date(number):
            missing.add(at)
    return [tokens[at] for at in sorted(missing)]


class _Said:
    """The words, numbers and dates of all that was shown. numbers: "12", and of ordinals "12."."""

    def __init__(self, request: ExtractionRequest) -> None:
        turns = (*request.window, *request.messages)
        self.dates = {dates.shown(found) for turn in turns for found in turn.dates}
        self.dates |= {_shown(found) for turn in turns for found in dates.find(turn.text, turn.observed_at)}
        texts = [text for turn in turns for text in (turn.speaker, turn.text)]
        self.words: set[str] = set()
        self.numbers: set[str] = set()
        for text in (*texts, *(known.text for known in request.known), *self.dates):
            tokens = _tokens(text)
            words = {token.casefold() for token in tokens}
            self.words |= words
            self.dates |= {token for token in tokens if re.fullmatch(_DAY, token)}
            self.numbers |= {number for _, number in _numbers(tokens, _words_of(text))}
            self.numbers |= {_COUNTS[word] for word in words & _COUNTS.keys()}

    def has_date(self, shown: str) -> bool:
        """Whether this date was said, or a more exact one: 2025-05 where 2025-05-11 was."""
        return any(date == shown or date.startswith(f"{shown}-") for date in self.dates)


def _shown(found: FoundDate) -> str:
    first, last = found.first.isoformat(), found.last.isoformat()
    return dates.shown(ResolvedDate(found.expression, first, last, found.precision))


def _tokens(text: str) -> list[str]:
    """The words and numbers of a text, without accents. A100 is one word; 20mg, and a name within Chinese, are two."""
    apart = unicodedata.normalize("NFKD", _UNSPACED.sub(r" \1 ", text))
    return _TOKEN.findall("".join(sign for sign in apart if not unicodedata.combining(sign)))


def _is_name(token: str) -> bool:
    return token[0].isupper() and token.casefold() not in _NO_NAMES


def _words_of(text: str) -> NumberWords:
    return language(languages_of(text)[0]).numbers


def _numbers(tokens: Sequence[str], words: NumberWords) -> Iterator[tuple[int, str]]:
    """The numbers of a text, in digits and in words, each with the place of its first token."""
    at = 0
    while at < len(tokens):
        if tokens[at][0].isdigit():
            number, end = _number(tokens[at]), at + 1
        else:
            number, end = _spelled(tokens, at, words)
        if number and end < len(tokens):
            following = tokens[end].casefold()
            scale = _SCALES.get(following) or next(iter(words.cardinal(following)), 0)
            if following in ("st", "nd", "rd", "th"):
                number, end = f"{number}.", end + 1
            elif scale >= 100 and re.fullmatch(r"\d+(?:\.\d+)?", number):
                number, end = f"{float(number) * scale:.12g}", end + 1
        if number:
            yield at, number
        yield from ((at, str(value)) for value in map(ideographs, _SIGNS.findall(tokens[at])) if value > 1)
        at = end


def _number(digits: str) -> str:
    """Digits in one way: 3,200 and 3.200 as 3200, 07:30 as 7.30, 6.00 as 6; a day as it stands."""
    if re.fullmatch(_DAY, digits):
        return digits
    if _GROUPED.fullmatch(digits):
        return re.sub(r"\D", "", digits)
    plain = re.sub(r"(?:\.0+)+$", "", re.sub(r"\D", ".", digits)).lstrip("0")
    return plain if plain[:1].isdigit() else f"0{plain}"


def _spelled(tokens: Sequence[str], at: int, words: NumberWords) -> tuple[str, int]:
    """The number in words that begins there, "" where none does, and where it ends."""
    values: list[int] = []
    end, joined = at, False
    for place in range(at, len(tokens)):
        word = tokens[place].casefold()
        ordinal = None if (parts := words.cardinal(word)) else words.ordinal(word)
        new = parts if ordinal is None else [ordinal]
        if values and word in words.joiners and not joined:
            joined = True
            continue
        if not new or (values and not goes_on(values, new[0], joined=joined)):
            break
        values, end, joined = [*values, *new], place + 1, False
        if ordinal is not None:
            return f"{total(values)}.", end
    return (str(total(values)), end) if values else ("", at + 1)
