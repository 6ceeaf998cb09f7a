"""The dates of a text, relative and absolute, in ten languages, as the local calendar days they mean.

What counts is the local day of `observed_at`, by its own offset. Conventions, where a language leaves a choice:

- Weeks run from Monday to Sunday, weekends are Saturday and Sunday; "last", "this" and "next" week, weekend,
  month and year are the ones before, around and after the day. So on a Wednesday "this weekend" is in three
  days and "next weekend" in ten.
- "last Friday" is the latest Friday before the day, "coming Friday" the first one after it, and "next Friday" and
  "previous Friday" are those of the next and the previous week, as in Dutch and Chinese ("volgende vrijdag",
  下周五). In the other languages the last and the next one are neither yesterday nor tomorrow, which have words of
  their own. Months and seasons: in July "last summer" is a year ago, in October it is this year's.
- A bare or "this" Friday, June, "May 5th" or "the 18th" is the next to come, the day itself included; in a
  sentence about the past it is the latest one. The nearest cue before it (else after it) decides: was, went,
  -ed ... or will, going to, let's ... A weekday beside it decides as well: "Monday 21" is the nearest 21st that
  is a Monday, and of the latest and the next "Tuesday, May 9" the one that is a Tuesday.
- Seasons are the meteorological ones of the northern hemisphere: summer is June to August.
- "two weeks ago" is a week, "two months ago" a month, "two years ago" a year: nobody counts the days. "two
  weeks from today", "two weeks before Christmas" and "two weeks and three days ago" do, and are a day. A weekday
  beside them corrects them: "in three days on Friday" is the Friday nearest to that day.
- 5/6 is May 6 in English, Chinese, Japanese and Korean, and 5 June in the others, unless it cannot be.
- "around May 5th" is that day, and approximate; so is early, mid and late May, each a third of it (in English
  `resolve` says the month). What is "more than two weeks ago" is no date.

`resolve` leaves alone what is absolute already ("May 5, 2019"), repeats ("every Friday", "my birthday is May
5th"), lasts ("the last two weeks"), is vague ("a few days ago", "over a year ago") or is said of every year
("at Christmas"): a wrong date is worse than none. `find` gives the absolute ones and the holidays as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING

from memlite import english_dates
from memlite.calendar_days import Days
from memlite.date_words import around, language, languages_of
from memlite.records import FoundDate, ResolvedDate

if TYPE_CHECKING:
    from memlite.date_named import Named

PartialDate = tuple[int | None, int | None, int | None]  # year, month, day

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SEASONS = {3: "spring", 6: "summer", 9: "autumn", 12: "winter"}
_ABOUT = r"(?i)\b(?:around|about|approximately|roughly|circa|ca\.?)\s+(?:the\s+)?$"

# Strings, not compiled patterns: compiling takes longer than importing, and re keeps what it compiled.
# Of lower-case text.
_NAMED_MONTH = (
    r"(?P<m>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_ABSOLUTE = (
    r"(?<![\d-])(?P<y>\d{4})-(?P<m>\d{2})(?:-(?P<d>\d{2}))?(?![\d-])",
    rf"\b{_NAMED_MONTH} (?:the )?(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?![\w:]|[.,]\d)(?:,? (?P<y>\d{{4}})\b)?",
    rf"(?<![\w.,:])(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_NAMED_MONTH}(?!\w)(?:,? (?P<y>\d{{4}})\b)?",
    rf"\b{_NAMED_MONTH},? (?:of )?(?P<y>\d{{4}})\b",
)


def find(text: str, observed_at: datetime) -> tuple[FoundDate, ...]:
    """All dates of a text said at that time, relative and absolute, in their order; none overlaps another."""
    for code in languages_of(text):
        if found := tuple(_found(text, observed_at.date(), code)):
            return found
    return ()


def resolve(text: str, observed_at: datetime) -> tuple[ResolvedDate, ...]:
    """The relative dates of a text, in its order; of two that overlap the first one, or else the longer."""
    for code in languages_of(text):
        relative = _english if code == "en" else _relative
        if found := list(relative(text, observed_at.date(), code)):
            return tuple(
                ResolvedDate(text[start:end], first.isoformat(), last.isoformat(), precision)
                for start, end, (first, last, precision) in found
            )
    return ()


def _english(text: str, today: date, _: str = "en") -> Iterator[tuple[int, int, Days]]:
    for start, end, days in english_dates.claimed(text, today):
        if days and days[2] == "day" and re.search(_ABOUT, text[max(0, start - 20) : start]):
            days = (days[0], days[1], "approximate")
        if days:
            yield start, end, days


def _relative(text: str, today: date, code: str) -> Iterator[tuple[int, int, Days]]:
    """Without holidays, and without what may come again in any year: a wrong date is worse than none."""
    yearly = language(code).yearly
    for start, end, named in _read(text, today, code):
        sentence = "".join(around(text, start, end)).lower()
        again = named.of_year is not None and any(word in sentence for word in yearly)
        if named.relative and not named.holiday and not again:
            yield start, end, named.days


def _found(text: str, today: date, code: str) -> Iterator[FoundDate]:
    named = {(start, end): each for start, end, each in _read(text, today, code)}
    # Of the same words the English rules count, but for what they only claim as no date of its own.
    ruled = english_dates.claimed(text, today) if code == "en" else []
    places: list[tuple[int, int, int, Days | None]] = [
        (start, -end, 1, each.days) for (start, end), each in named.items()
    ]
    places += [(start, -end, 0 if days else 2, days) for start, end, days in ruled]
    at = 0
    for start, end, rank, days in sorted(places, key=lambda place: place[:3]):
        if start < at:
            continue
        at = -end
        if days:
            same = named.get((start, at))
            relative = rank == 0 or (same is not None and same.relative)
            yield FoundDate(text[start:at], start, at, *days, relative, same.day if same else None)


def _read(text: str, today: date, code: str) -> list[tuple[int, int, Named]]:
    from memlite import date_grammar  # here, for importing memlite has no use for it

    return date_grammar.read(text, today, language(code))


def absolute(text: str) -> tuple[list[tuple[str, PartialDate]], str]:
    """The absolute dates of a lower-case text, as written and in parts; and the text with a ";" in their places."""
    found: list[tuple[str, PartialDate]] = []

    def take(match: re.Match[str]) -> str:
        groups = match.groupdict()
        month = groups["m"]
        number = int(month) if month.isdecimal() else 1 + _MONTHS.index(month[:3])
        year, day = (int(groups[name]) if groups.get(name) else None for name in ("y", "d"))
        try:
            date(2000 if year is None else year, number, 1 if day is None else day)
        except ValueError:
            return match[0]
        found.append((match[0], (year, number, day)))
        return ";"  # so that no number reads across the gap

    for pattern in _ABSOLUTE:
        text = re.sub(pattern, take, text)
    return found, text


def spans(text: str, now: datetime) -> tuple[tuple[date, date], ...]:
    """The first and last days of all periods that a question names: "last summer", "in May 2023", "2023-05-11"."""
    return tuple((found.first, found.last) for found in find(text, now))


def shown(found: ResolvedDate) -> str:
    """A resolved date, as exact as it is: "2025-05-11", "week of 2025-05-05", "2025-05", "summer 2025", "2025"."""
    if found.precision in ("week", "weekend"):
        return f"{found.precision} of {found.start}"
    if found.precision == "season":
        return f"{_SEASONS[int(found.start[5:7])]} {found.start[:4]}"
    if found.precision == "approximate" and found.start != found.end:
        return f"{found.start}/{found.end}"
    return found.start[: {"month": 7, "year": 4}.get(found.precision, 10)]


_PREPOSITIONS = {"day": "on", "approximate": "on", "weekend": "on the", "week": "in the"}


def written_out(text: str, found: Sequence[ResolvedDate]) -> str:
    """A sentence in which the expressions of these dates are the days they mean: yesterday -> on 2025-05-11."""
    for each in sorted(found, key=lambda each: -len(each.expression)):
        day = shown(each)
        if day in text:
            continue
        # "on" and the like before the expression give way; "until", "since", "by", "from" stay.
        expression = re.compile(
            r"(?P<kept>\b(?:until|since|by|from|before|after|to) )?(?:\b(?:on|in|at|over|during)(?: the)? )?"
            rf"(?<!\w){re.escape(each.expression)}(?!\w)",
            re.IGNORECASE,
        )
        if match := expression.search(text):
            before = match["kept"] or f"{_PREPOSITIONS.get(each.precision, 'in')} "
            text = text[: match.start()] + before + day + text[match.end() :]
    return text
