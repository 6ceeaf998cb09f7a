"""Numbers in words, of one language: "einundzwanzig", "dix-neuf cent", "twenty first", "二十三"."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping

_IDEOGRAPHS = {"零": 0, "〇": 0, "两": 2, "兩": 2, "廿": 20, "十": 10, "百": 100, "千": 1000}
_IDEOGRAPHS.update((sign, number) for number, sign in enumerate("一二三四五六七八九", 1))
IDEOGRAPHS = "".join(_IDEOGRAPHS)


class NumberWords:
    """What words of a language are worth: its entry in dates.toml.

    atoms: the words that numbers are made of. ordinals: whole words; stems and endings make others.
    """

    def __init__(self, entry: Mapping[str, str]) -> None:
        self._atoms: dict[str, int] = {}
        for key, first, step in (("numbers", 0, 1), ("tens", 20, 10)):
            for at, words in enumerate(entry.get(key, "").split()):
                self._atoms.update((bare(word), first + at * step) for word in words.split("|"))
        self._atoms.update(_pairs(entry.get("more", "")))
        self._ordinals = _pairs(entry.get("ordinals", ""))
        self._stems = _pairs(entry.get("ordinal_stems", ""))
        self._endings = sorted(entry.get("ordinal_endings", "").split(), key=len, reverse=True)
        self.joiners = {bare(word) for word in entry.get("joiners", "").split()}
        self._longest = max(map(len, (*self._atoms, *self.joiners)), default=0)  # looked for, of a word of any length
        self._starts = {word[:2] for word in (*self._atoms, *self._stems, *self._ordinals)}

    def cardinal(self, word: str) -> list[int]:
        """The values a word is made of, in its order: "einundzwanzig" is 1 and 20; none where it is no number."""
        word = bare(word)
        if word[:2] not in self._starts:
            return []
        if word in self._atoms:
            return [self._atoms[word]]
        values, at = [], 0
        while at < len(word):
            longest = min(len(word), at + self._longest)
            part = next((word[at:end] for end in range(longest, at, -1) if self._is_part(word[at:end], at)), None)
            if part is None:
                return []
            if part in self._atoms:
                values.append(self._atoms[part])
            at += len(part)
        return values

    def _is_part(self, part: str, at: int) -> bool:
        return part in self._atoms or (at > 0 and part in self.joiners)

    def ordinal(self, word: str) -> int | None:
        """What an ordinal counts: "twelfth" is 12."""
        word = bare(word)
        if word[:2] not in self._starts:
            return None
        if word in self._ordinals:
            return self._ordinals[word]
        for ending in self._endings:
            stem = word.removesuffix(bare(ending))
            if stem != word:
                if stem in self._stems:
                    return self._stems[stem]
                irregular = next((each for each in self._stems if stem.endswith(each)), None)
                values = self.cardinal(stem.removesuffix(irregular)) if irregular else self.cardinal(stem)
                if values:
                    return total([*values, self._stems[irregular]] if irregular else values)
        return None


def total(values: Iterable[int]) -> int:
    """The number that its parts make: 2, 1000, 20 are 2020, and so are 20 and 20, of a year; 9, 100 are 900."""
    thousands, number = 0, 0
    for value in values:
        if value == 1000:
            thousands, number = max(number, 1) * 1000, 0
        elif value == 100:
            number = max(number, 1) * 100
        elif _is_century(number, value) and not thousands:
            number = number * 100 + value
        else:
            number += value
    return thousands + number


def goes_on(values: list[int], value: int, *, joined: bool) -> bool:
    """Whether a value can follow those of a number: 5 after 20 ("twenty five"), not after 3; joined: by "and"."""
    last, number = values[-1], total(values)
    if value in (100, 1000):
        return number % 1000 < 100 or value == 1000
    tens_and_ones = number % 100 >= 20 and last % 10 == 0 and value < 10
    if last in (100, 1000) or (last >= 100 and value < 100) or tens_and_ones:
        return True
    if joined:
        return last in (60, 80) and value == 11  # soixante et onze
    return (
        (last == 10 and 7 <= value <= 9)  # dix-sept
        or (number % 100 in (60, 80) and 10 <= value < 20)  # soixante-douze
        or _is_century(number, value)
    )


def _is_century(number: int, value: int) -> bool:
    """Whether two numbers are the halves of a year: nineteen ninety; and not soixante-douze, which is 72."""
    return 10 <= number < 100 and 10 <= value < 100 and not (number in (60, 80) and value < 20)


def ideographs(text: str) -> int:
    """The number that Chinese signs write: 二十三 is 23, 二〇一八 is 2018."""
    values = [_IDEOGRAPHS[sign] for sign in text]
    if all(value < 10 for value in values):
        return int("".join(map(str, values)))
    number, unit = 0, 0
    for value in values:
        if value < 10:
            unit = value
        else:
            number, unit = number + max(unit, 1) * value if value < 20 or value >= 100 else number + value, 0
    return number + unit


def bare(word: str) -> str:
    """A word in lower case without accents."""
    lower = word.lower()
    if lower.isascii():
        return lower
    return "".join(sign for sign in unicodedata.normalize("NFKD", lower) if not unicodedata.combining(sign))


def _pairs(text: str) -> dict[str, int]:
    return {bare(word): int(value) for word, value in (pair.split("=") for pair in text.split())}
