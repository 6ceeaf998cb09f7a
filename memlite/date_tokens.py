"""A text as tokens, each with a letter for its kind, so that a grammar can be regular expressions over the letters.

T days or weeks away        u unit             0 number          L last       A "hace" two days     f of
W weekday                   Y 年 G 月 d 日     n number to 31    l final      Z two days "ago"      t the
w e short, weak weekday     S season           c in words        H this       I "in" two days       p on
M month                     h holiday          a "a", as one     X next       J two days "later"    g and, or
m short or weak month       r era              o ordinal         B before     Q about               R every
# a date in digits          q counted days     y year            F after      v "more than"         k o'clock
% day and month in digits   P part of day      E early, late
i "within" two days         j "within", behind them         b "about", behind it
: a time of day             , . - / ( ) themselves, | the end of a sentence, x anything else
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from memlite.date_words import HAN, HANGUL, KANA, SPACED_WORD, Language, Phrase
from memlite.number_words import IDEOGRAPHS, bare, goes_on, ideographs, total

# Strings, not compiled patterns: compiling takes longer than importing, and re keeps what it compiled.
_TIME = r"\d\d?:\d\d(?::\d\d)?(?!\d)"
_SPACED_WORD = rf"{_TIME}|{SPACED_WORD}"
_UNSPACED_WORD = rf"{_TIME}|\d+|[^\W\d_{HAN}{KANA}{HANGUL}]+|\S|\n"
_NUMBER_SIGNS = rf"(?P<order>第)?(?P<number>[{IDEOGRAPHS}]+|(?<=第)\d+)"
_NUMERIC = (
    r"(?a)(?<![\w$€£#])(?<!\d[-/.,:])(?:"
    r"(?P<year>[12]\d{3})(?P<s>[-/.])(?P<month>\d\d?)(?P=s)(?P<day>\d\d?)(?!(?P=s)?\d)"
    r"|(?P<year_>[12]\d{3}) (?P<month_>\d\d) (?P<day_>\d\d)(?! ?\d)"
    r"|(?P<one>\d\d?)(?P<t>[-/.])(?P<two>\d\d?)(?P=t)'?(?P<three>[12]\d{3}|\d\d)(?!(?P=t)?\d)"
    r"|(?<!\d )(?P<one_>\d\d) (?P<two_>\d\d) (?P<three_>[12]\d{3})(?! ?\d)"
    r"|(?P<one__>\d\d?)\. (?P<two__>\d\d?)\. ?(?P<three__>[12]\d{3})(?!\d)"
    r"|(?P<first_>\d\d?)\. (?P<second_>\d\d?)\.(?! ?\d)"
    r"|(?P<year__>[12]\d{3})[-/](?P<month__>\d\d?)(?![-/.:]?\w)"
    r"|(?P<month___>\d\d?)[-/](?P<year___>[12]\d{3})(?![-/.:]?\w)"
    r"|(?!24/7\b)(?P<first>\d\d?)(?P<u>[-/.])(?P<second>\d\d?)(?![-/:]?\d|[a-zA-Z]|[.,]\d|%)"
    r"(?:(?<=\d\.\d\d)\.|(?<=\d\.\d)\.)?"
    r")"
)

# Wide digits and signs as narrow ones, each one sign for another: the places stay.
_NARROW = str.maketrans({chr(0xFF01 + at): chr(0x21 + at) for at in range(94)} | {"\u3000": " ", "’": "'", "–": "-"})
_SIGNS = {sign: sign for sign in ",.-/()"} | dict.fromkeys("!?\n;:。", "|") | {"、": ",", "~": "-"}
_OPENING = " \"“„«¿¡(-*'"

Place = tuple[str, int, int]  # a word, where it begins and ends


@dataclass(frozen=True, slots=True)
class Token:
    """A word or sign and its place in the text; value: what it is worth, by its kind."""

    kind: str
    value: Any
    start: int
    end: int


def tokens(text: str, language: Language) -> list[Token]:
    """The tokens of a text in its order."""
    text = text.translate(_NARROW)
    numeric = {}
    for match in re.finditer(_NUMERIC, text):
        if token := _numeric(match, language):
            numeric[token.start] = token
    scan = _words if language.spaced else _signs
    return list(_numbers_joined(list(scan(text, language, numeric)), text, language))


def _words(text: str, language: Language, numeric: dict[int, Token]) -> Iterator[Token]:
    """In languages with spaces."""
    found = [(match[0], match.start(), match.end()) for match in re.finditer(_SPACED_WORD, text)]
    at = 0
    while at < len(found):
        word, start, end = found[at]
        if start in numeric:
            token = numeric[start]
        elif phrase := _phrase(found, at, language, begins=_begins_a_sentence(text, start)):
            token = Token(phrase[1], phrase[2], start, found[at + len(phrase[0]) - 1][2])
        elif word.isdecimal():
            ending = _ending(text, end, language) if _kind(word) == "n" else ""
            money = text[max(0, start - 20) : start].rstrip()[-1:] in tuple("$€£¥")
            kind = "0" if money else "o" if ending else _kind(word)
            token = Token(kind, _value(word), start, end + len(ending))
        elif values := language.numbers.cardinal(word):
            token = Token("c", values, start, end)
        elif order := language.numbers.ordinal(word):
            token = Token("o", order, start, end)
        else:
            token = Token(_kind(word), word, start, end)
        yield token
        while at < len(found) and found[at][1] < token.end:
            at += 1


def _begins_a_sentence(text: str, at: int) -> bool:
    before = text[max(0, at - 20) : at].rstrip(_OPENING)
    return not before or before[-1] in ".!?\n;:"


def _phrase(found: list[Place], at: int, language: Language, *, begins: bool) -> Phrase | None:
    """The longest phrase from here. A capital where a sentence begins says nothing."""
    word, start, _ = found[at]
    for form in dict.fromkeys((word.lower(), word) if begins else (word, word.lower())):
        for phrase in language.phrases.get(form, ()):
            parts, rest = phrase[0], found[at + 1 : at + len(phrase[0])]
            same = len(rest) == len(parts) - 1 and all(
                part in (other, other.lower()) for part, (other, _, _) in zip(parts[1:], rest, strict=True)
            )
            # "6a" is no "6 a"
            if same and (not (rest and word.isdecimal()) or rest[-1][2] - start == len("".join(parts))):
                return phrase
    return None


def _ending(text: str, at: int, language: Language) -> str:
    """What makes an ordinal of the digits before it: "4th", "1.º"."""
    for ending in language.digit_endings:
        end = at + len(ending)
        if text[at:end].lower() == ending and not text[end : end + 1].isalnum():
            return ending
    return ""


def _signs(text: str, language: Language, numeric: dict[int, Token]) -> Iterator[Token]:
    """In languages without spaces, and in Korean, whose words have endings."""
    at, inside = 0, False
    while at < len(text):
        if text[at].isspace() and text[at] != "\n":
            at, inside = at + 1, False
            continue
        token = numeric.get(at) or (None if inside else _sign(text, at, language))
        if token is None:
            match = re.compile(_UNSPACED_WORD).match(text, at)
            assert match  # anything else is \S or \n
            token = Token(_kind(match[0]), _value(match[0]), at, match.end())
        yield token
        at = token.end
        inside = token.kind == "x" and language.code == "ko" and HANGUL[0] <= text[at - 1] <= HANGUL[-1]


def _sign(text: str, at: int, language: Language) -> Token | None:
    for (word,), kind, value in language.phrases.get(text[at], ()):
        if text.startswith(word, at):
            return Token(kind, value, at, at + len(word))
    if language.code != "ko" and (match := re.compile(_NUMBER_SIGNS).match(text, at)):
        number = _value(match["number"]) if match["number"].isdecimal() else ideographs(match["number"][:9])
        return Token("o", number, at, match.end()) if match["order"] else Token("c", [number], at, match.end())
    return None


def _numbers_joined(found: list[Token], text: str, language: Language) -> Iterator[Token]:
    """With the words of a number as one token: "twenty", "-", "first" are 21. What can be a year is one."""
    at = 0
    while at < len(found):
        token = found[at]
        at += 1
        if token.kind != "c":
            yield token
            continue
        kind, values, end = "c", list(token.value), token.end
        while at < len(found) and kind == "c":
            hyphen = found[at].kind == "-"
            joined = hyphen or bare(text[found[at].start : found[at].end]) in language.numbers.joiners
            after = found[at + joined] if at + joined < len(found) else None
            if after is None or after.kind not in ("coa" if joined else "co"):
                break
            more = [after.value] if after.kind == "o" else list(after.value)
            if not goes_on(values, more[0], joined=joined and not hyphen):
                break
            values += more
            kind, end, at = "o" if after.kind == "o" else "c", after.end, at + joined + 1
        number = total(values)
        yield Token("y" if kind == "c" and 1000 <= number < 3000 else kind, number, token.start, end)


def _kind(word: str) -> str:
    """The kind of a number in digits, of a time of day, a sign or any word."""
    if not word.isdecimal():
        return ":" if word[0].isdecimal() else _SIGNS.get(word, "x")
    if len(word) == 4 and 1000 <= int(word) < 3000:
        return "y"
    return "n" if len(word) < 3 and 1 <= int(word) <= 31 else "0"


def _value(word: str) -> int | str:
    """What digits count, as far as it can be a part of a date; anything else is itself."""
    return int(word[:9]) if word.isdecimal() else word


def _numeric(match: re.Match[str], language: Language) -> Token | None:
    """A date in digits, where it can be one."""
    part = {name.rstrip("_"): text for name, text in match.groupdict().items() if text}
    found = _pair(match[0], part, language) if "first" in part else _full(part, language)
    if found is None:
        return None
    return Token("%" if "first" in part else "#", found, match.start(), match.end())


def _pair(text: str, part: dict[str, str], language: Language) -> tuple[int, int, str] | None:
    """Month, day and, where more has to say that it is a date, the sign between them."""
    one, two, doubt = part["first"], part["second"], part.get("u", ".")
    month, day = _month_and_day(int(one), int(two), language, swap=not language.day_first)
    if not (1 <= month <= 12 and 1 <= day <= 31) or (doubt == "-" and language.code == "en"):  # hours, scores
        return None
    sure = text.endswith(".") or (doubt == "/" and (max(month, day) > 12 or "0" in (one[0], two[0])))
    return month, day, "" if sure else doubt


def _full(part: dict[str, str], language: Language) -> tuple[int, int, int | None] | None:
    """Year, of four digits or two, month and day, if there is one."""
    if "year" in part:
        year, month, day = int(part["year"]), int(part["month"]), int(part.get("day", 1))
    else:
        one, two, three = part["one"], part["two"], part["three"]
        year, (month, day) = int(three), _month_and_day(int(one), int(two), language, swap=True)
        if len(three) == 2 and part.get("t") == "." and (language.code == "en" or len(one) + len(two) < 4):
            return None  # a version
        if len(three) == 2 and not language.spaced:
            year, month, day = int(one), int(two), int(three)
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    return year, month, day if "day" in part or "one" in part else None


def _month_and_day(one: int, two: int, language: Language, *, swap: bool) -> tuple[int, int]:
    month, day = (two, one) if language.day_first else (one, two)
    return (day, month) if swap and month > 12 >= day else (month, day)
