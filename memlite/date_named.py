"""The tokens that a rule of the date grammar has found in a text, and the days they name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

from memlite.calendar_days import Days
from memlite.date_tokens import Token
from memlite.date_words import Language


@dataclass(frozen=True, slots=True)
class Named:
    """The days that an expression names.

    relative: whether they depend on the day it was said. of_year: the same of another year, where it has none of its
    own. weekday: 0 is Monday, where nothing else says the day. number: of the month, likewise. holiday: without last
    or next. alone: whether it is a date by itself, not only a part of one. day: the very day, where weeks, months or
    years are counted.
    """

    days: Days
    relative: bool = True
    of_year: Callable[[int], Days] | None = None
    weekday: int | None = None
    number: int | None = None
    holiday: bool = False
    alone: bool = True
    day: date | None = None


@dataclass(frozen=True, slots=True)
class Nothing:
    """Words that are no date, claimed so that no other rule reads a part of them."""


class Words:
    """The tokens that a rule has found, by the names it gives them."""

    def __init__(
        self, text: str, tokens: Sequence[Token], match: re.Match[str], today: date, language: Language
    ) -> None:
        self._text, self._tokens, self._match = text, tokens, match
        self.today = today
        self.language = language
        start, end = match.span()
        self.before = tokens[start - 1] if start else None
        self.after = tokens[end] if end < len(tokens) else None

    def has(self, name: str) -> bool:
        return name in self._match.re.groupindex and self._match.start(name) >= 0

    def token(self, name: str) -> Token:
        return self._tokens[self._match.start(name)]

    def all(self, *names: str) -> list[Token]:
        """The tokens under these names, those that were found."""
        return [
            token
            for name in names
            if self.has(name)
            for token in self._tokens[self._match.start(name) : self._match.end(name)]
        ]

    def ends_with(self, name: str) -> bool:
        return self._match.end(name) == self._match.end()

    def number(self, name: str) -> int:
        """What a token counts, or the number of a unit, weekday (0 is Monday) or season (its first month)."""
        value = self.token(name).value
        return int(value[0]) if isinstance(value, list) else int(value)

    def named(self, name: str) -> Named:
        value = self.token(name).value
        assert isinstance(value, Named)
        return value

    def said(self, token: Token) -> str:
        return self._text[token.start : token.end].lower()

    def is_capital(self, token: Token) -> bool:
        return self._text[token.start].isupper()

    def way(self) -> int | None:
        """-2 to 2, by the words that say last, this or next; None without one."""
        ways = [int(token.value) for token in self.all("way", "way_")]
        return next((way for way in ways if way), ways[0]) if ways else None

    def is_past(self) -> bool | None:
        """Whether the sentence speaks of the past; None where nothing shows it."""
        first, last = (self._tokens[at] for at in (self._match.start(), self._match.end() - 1))
        return self.language.is_past(self._text, first.start, last.end)


Meaning = Callable[[Words], "Named | Nothing | None"]
