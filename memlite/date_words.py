"""The words of dates in ten languages, read from dates.toml, and the language a text is in."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from memlite.number_words import NumberWords, bare

# The kinds of words, one letter each: memlite/date_tokens.py says what they mean.
_KINDS = {
    "never": "x", "every": "R", "weekdays": "W", "weekdays_short": "w", "weekdays_weak": "e", "months": "M",
    "months_short": "m", "last": "L", "last_but_one": "L", "final": "l", "this": "H", "next": "X", "next_but_one": "X",
    "ago_before": "A", "ago_after": "Z", "in_before": "I", "in_after": "J", "within_before": "i", "within_after": "j",
    "before": "B", "after": "F", "early": "E", "mid": "E", "late": "E", "about": "Q", "about_after": "b", "vague": "v",
    "part": "P", "clock": "k", "one": "a", "of": "f", "the": "t", "on": "p", "and": "g",
    "day_mark": "d", "month_mark": "G", "year_mark": "Y",
    **dict.fromkeys(("day", "week", "fortnight", "weekend", "month", "year"), "u"),
    **dict.fromkeys(("spring", "summer", "autumn", "winter"), "S"),
}  # fmt: skip
_VALUES: dict[str, object] = {
    "last": -1, "last_but_one": -2, "final": -1, "this": 0, "next": 1, "next_but_one": 2, "one": [1],
    "early": 0, "mid": 1, "late": 2, "spring": 3, "summer": 6, "autumn": 9, "winter": 12,
    "day_mark": "day", "month_mark": "month", "year_mark": "year",
}  # fmt: skip
_COUNTED = {"counted_days": "q", "number_phrases": "c", "eras": "r", "ordinal_phrases": "o"}  # word=number

SPACED = ("en", "de", "es", "fr", "pt", "it", "nl")  # in the order in which ties are tried
HAN, KANA, HANGUL = "\u3400-\u9fff々〇", "\u3040-\u30ff", "\uac00-\ud7a3"
_LETTERS = re.compile(r"(?<!\d)[^\W\d_]+")
SPACED_WORD = r"\d+|[^\W\d_]+|\S|\n"
MONTH_HOLDS = 300  # characters behind a date in which "the 19th" is of its month, or of the next one
# Before "from Monday to Friday": the one in the place of the other, and no range.
MOVED = (
    r"(?i)\b(?:mov(?:ed?|ing)\b|chang(?:ed?|ing)\b|shift(?:ed|ing)\b|br(?:ing|ought)\b|put (?:off|back)\b|"
    r"movi(?:ó|eron|do)\b|(?:postpon|reschedul|delay|push|slip|switch|swap|bump|defer|prefer|reporté|déplac|repouss|décal|aplaz|pospus|"
    r"traslad|cambi|spostat|rinviat|rimandat|adiad|remarcad|transferid|mudad|verplaatst|verschoven)\w*)"
)
_SENTENCE_END = r"[.!?\n](?:\s|$)|[。！？]"

Phrase = tuple[tuple[str, ...], str, Any]  # its words, kind and value


class Language:
    """What dates.toml says of a language.

    code: "de". spaced: whether it is written in Latin letters. phrases: by their first word or sign, longest first.
    habitual: articles before the weekday of every week. before_day: words after which "17." is a day. by_week: words
    for "next" and "last" with which a weekday is the one of that week. yearly: words of what comes again.
    range_opening, range_joint, weekly: patterns of what opens and joins a range, and of what is so every week.
    """

    def __init__(self, code: str, entry: Mapping[str, Any]) -> None:
        self.code = code
        self.spaced = code in SPACED
        self.day_first = bool(entry.get("day_first", True))
        self.numbers = NumberWords(entry)
        self._past, self._ahead = (str(entry[key]).replace("\n", "") for key in ("past", "ahead"))
        self.range_opening, self.range_joint, self.weekly = (
            str(entry[key]) for key in ("range_opening", "range_joint", "weekly")
        )
        self.by_week = frozenset(_words(entry.get("weekdays_by_week", "")))
        self.habitual = frozenset(_words(entry.get("habitual", "")))
        self.before_day = frozenset(_words(entry.get("before_day", "")))
        self.yearly = tuple(_words(entry.get("yearly", "")))
        self.digit_endings = frozenset(_words(entry.get("digit_endings", "")))
        self._accented = frozenset(_words(entry.get("accented", "")))
        self.phrases: dict[str, list[Phrase]] = {}
        for words, kind, value in _entries(entry):
            self._add(words, kind, value)
        for phrases in self.phrases.values():
            phrases.sort(key=lambda phrase: -sum(map(len, phrase[0])))

    def is_past(self, text: str, start: int, end: int) -> bool | None:
        """Whether the sentence speaks of the past, by the cue nearest to the expression; None without a cue."""
        before, after = around(text, start, end)
        nearest = list(re.finditer(self._past, before))[-1:]
        cues = nearest or list(re.finditer(self._past, after))[:1]
        if not cues or cues[0]["past"] is None:
            return False if cues else None
        ahead = re.finditer(f"(?i)(?=({self._ahead}))", f"{before}¦{after}")
        reached = max((each.end(1) for each in ahead if each.start() <= len(before)), default=-1)
        return reached < (nearest[0].end() if nearest else 0)

    def _add(self, words: str, kind: str, value: object) -> None:
        """A word or phrase, a longer one without its accents as well. Of two that are the same the first one counts."""
        plain = bare(words) if words == words.lower() and words not in self._accented else words
        for form in dict.fromkeys((words, plain if len(plain) > 3 else words)):
            parts = tuple(re.findall(SPACED_WORD, form)) if self.spaced else (form,)
            same = self.phrases.setdefault(parts[0] if self.spaced else form[0], [])
            if all(parts != other for other, _, _ in same):
                same.append((parts, kind, value))


def around(text: str, start: int, end: int) -> tuple[str, str]:
    """The sentence before and after an expression."""
    before = text[max(0, start - 200) : start].replace("’", "'")
    after = text[end : end + 200].replace("’", "'")
    return re.split(_SENTENCE_END, before)[-1], re.split(_SENTENCE_END, after)[0]


@cache
def language(code: str) -> Language:
    """A language, read when it is first asked for."""
    return Language(code, _table()[code])


def languages_of(text: str) -> list[str]:
    """The languages a text may be in, the likeliest first; English is always among them.

    Chinese, Japanese and Korean are told by their script; in Latin letters it is the language, or the languages, of
    which most words are there.
    """
    found = []
    if not text.isascii():
        if re.search(f"[{HANGUL}]", text):
            found.append("ko")
        elif re.search(f"[{KANA}]", text) or any(mark in text for mark in str(_table()["ja"]["marks"]).split()):
            found.append("ja")
        elif re.search(f"[{HAN}]", text):
            found.append("zh")
    telling = _telling()
    counts = Counter(code for word in _LETTERS.findall(text.lower()) for code in telling.get(word, ()))
    most = max(counts.values(), default=0)
    found += [code for code in SPACED if counts[code] == most > 0]
    return found if "en" in found else [*found, "en"]


def frequent_words(text: str) -> frozenset[str]:
    """The frequent words of the language that a text is in, lower case; none where it may be in English.

    Two of them have to be there that are no English words and no names ("Ben" is Dutch for "am", but not behind other
    words), and no word that is English only: "war" alone is no German.
    """
    words = {word.lower() for at, word in enumerate(_LETTERS.findall(text)) if at == 0 or word.islower()}
    found = [_telling().get(word, []) for word in words]
    counts = Counter(code for codes in found if "en" not in codes for code in codes)
    most = max(counts.values(), default=0)
    if most < 2 or ["en"] in found:
        return frozenset()
    codes = [code for code in SPACED if counts[code] == most]
    return frozenset(word for code in codes for word in str(_table()[code]["told_by"]).split())


def is_foreign(text: str) -> bool:
    """Whether a text is surely not in English: by frequent words of another language, or by its letters."""
    letters = "".join(_LETTERS.findall(text))
    other = sum(ch > "\u024f" for ch in letters)
    return 2 * other > len(letters) or bool(frequent_words(text))


@cache
def _telling() -> dict[str, list[str]]:
    """The languages in Latin letters that have a word among their frequent ones or those of dates."""
    telling: dict[str, list[str]] = {}
    for code in SPACED:
        entry = _table()[code]
        lists = [str(entry["told_by"]), *(words for words, _, _ in _entries(entry))]
        for word in {word.lower() for words in lists for word in re.findall(SPACED_WORD, words) if word.isalpha()}:
            telling.setdefault(word, []).append(code)
    return telling


def _entries(entry: Mapping[str, Any]) -> Iterator[tuple[str, str, object]]:
    """Every word and phrase of a language with its kind and value."""
    for key, kind in _KINDS.items():
        lists = entry.get(key, "")
        if isinstance(lists, str):
            yield from ((words, kind, _VALUES.get(key, key)) for words in _words(lists))
        else:  # weekdays, months
            yield from ((words, kind, at) for at, each in enumerate(lists) for words in _words(each))
    for away, words in entry["away"].items():
        unit, count = away.split()
        yield from ((each, "T", (unit, int(count))) for each in _words(words))
    for which, words in entry["holidays"].items():
        yield from ((each, "h", which) for each in _words(words))
    for key, kind in _COUNTED.items():
        for pair in _words(entry.get(key, "")):
            word, number = pair.split("=")
            yield word, kind, [int(number)] if kind == "c" else int(number)


def _words(text: str) -> Iterator[str]:
    """The words and phrases of a list: "letzte(n|r), vorige" are letzte, letzten, letzter and vorige."""
    for words in text.split(","):
        stem, _, endings = " ".join(words.split()).partition("(")
        if stem:
            yield stem
            yield from (stem + ending for ending in endings.rstrip(")").split("|") if ending)


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]
    return dict(tomllib.loads(Path(__file__).with_name("dates.toml").read_text(encoding="utf-8")))
