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
  -ed ... or will, going to, let's ... What was moved to a date, and what tickets were bought for, is to come. A
  weekday beside it decides as well: "Monday 21" is the nearest 21st that is a Monday, and of the latest and the
  next "Tuesday, May 9" the one that is a Tuesday. "The 18th" shortly after a date is of its month, or the next one.
- "from 3 to 10 August", "3-10 August", "between June and August" and "from Monday to Friday" are one date with
  both ends, by whichever of them has the year, the month or the week.
- Seasons are the meteorological ones of the northern hemisphere: summer is June to August.
- "two weeks ago" is a week, "two months ago" a month, "two years ago" a year: nobody counts the days. "two
  weeks from today", "two weeks before Christmas" and "two weeks and three days ago" do, and are a day. A weekday
  beside them corrects them: "in three days on Friday" is the Friday nearest to that day.
- 5/6 is May 6 in English, Chinese, Japanese and Korean, and 5 June in the others, unless it cannot be.
- "around May 5th" is that day, and approximate; so is early, mid and late May, each a third of it (in English
  `resolve` says the month). What is "more than two weeks ago" is no date.

`resolve` leaves alone what is absolute already ("May 5, 2019"), repeats ("every Friday", "open Monday to Friday",
"my birthday is May 5th"), lasts ("the last two weeks"), is vague ("a few days ago", "over a year ago") or is said of
every year ("at Christmas"): a wrong date is worse than none. `find` gives the absolute ones and the holidays as well.
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
    from memlite.date_ranges import Range

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
    for code in _languages(text):
        ranges = _ranges(text, observed_at.date(), code)
        found = [each for each in _found(text, observed_at.date(), code) if not _within(each.start, each.end, ranges)]
        if found := found + [each for _, _, each in ranges if each]:
            return tuple(sorted(found, key=lambda each: each.start))
    return ()


def resolve(text: str, observed_at: datetime) -> tuple[ResolvedDate, ...]:
    """The relative dates of a text, in its order; of two that overlap the first one, or else the longer."""
    for code in _languages(text):
        relative = _english if code == "en" else _relative
        ranges = _ranges(text, observed_at.date(), code)
        found = [each for each in relative(text, observed_at.date(), code) if not _within(*each[:2], ranges)]
        found += [
            (start, end, (each.first, each.last, each.precision))
            for start, end, each in ranges
            if each and each.relative
        ]
        if found:
            return tuple(
                ResolvedDate(text[start:end], first.isoformat(), last.isoformat(), precision)
                for start, end, (first, last, precision) in sorted(found)
            )
    return ()


def _languages(text: str) -> Iterator[str]:
    """The languages in which a text may name a date."""
    from memlite import date_grammar  # here, for importing memlite has no use for it

    return (code for code in languages_of(text) if date_grammar.may_name_a_date(text, language(code)))


def _ranges(text: str, today: date, code: str) -> list[Range]:
    from memlite import date_ranges  # here, for importing memlite has no use for it

    return list(date_ranges.ranges(text, today, language(code), lambda part, day: _found(part, day, code)))


def _within(start: int, end: int, ranges: Sequence[Range]) -> bool:
    """Whether a place has a part in one of these."""
    return any(first < end and start < last for first, last, _ in ranges)


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


def shown(found: ResolvedDate) -> str:
    """A resolved date, as exact as it is: "2025-05-11", "week of 2025-05-05", "2025-05", "summer 2025", "2025"; of a
    range both ends: "2025-08-03 to 2025-08-10", "2025-06 to 2025-08".
    """
    if found.precision in ("week", "weekend"):
        return f"{found.precision} of {found.start}"
    if found.precision == "season":
        return f"{_SEASONS[int(found.start[5:7])]} {found.start[:4]}"
    if found.precision == "approximate" and found.start != found.end:
        return f"{found.start}/{found.end}"
    return " to ".join(_ends(found))


def _ends(found: ResolvedDate) -> tuple[str, ...]:
    """The first and the last day, month or year, where they are not the same."""
    length = {"month": 7, "year": 4}.get(found.precision, 10)
    return tuple(dict.fromkeys((found.start[:length], found.end[:length])))


_PREPOSITIONS = {"day": "on", "approximate": "on", "weekend": "on the", "week": "in the"}
_KEPT = (  # before a date; somebody who "came by on Friday" did not come by Friday
    "until|till|since|from|before|after|to|for|(?<!came |come |drop |stop |pass |went )"
    "(?<!comes |drops |stops )(?<!coming |passed )(?<!dropped |stopped )by"
)
_ISO = r"\d{4}-\d\d(?:-\d\d)?(?![\w-])"
_SHOWN = rf"(?:{_ISO}|week(?:end)? of \d{{4}}-|(?:spring|summer|autumn|winter) \d{{4}}\b)"
_UNTOLD = r"in|on|at|an?|the|of|this|next|last|past|coming|to|and|until"  # no date by themselves
_UNCLOSED = rf"[(\[](?={_SHOWN}[^()\[\]]*$)"
# What a small model makes of dates, and what it meant.
_TIDIED = (
    (rf"(?i)\b({_KEPT}) (?:on|in) (?=(?:the )?{_SHOWN})", r"\1 "),
    (rf"(?i)\b(on|in) (?:on|in) (?={_SHOWN})", r"\1 "),
    (rf"(?i)\b(between {_ISO} and) (?:on|in) (?={_ISO})", r"\1 "),
    (rf"(?i)\b(?:on|in|between) ({_ISO} to {_ISO})", r"from \1"),
)


def written_out(text: str, found: Sequence[ResolvedDate]) -> str:
    """A sentence in which the expressions of these dates are the days they mean: yesterday -> on 2025-05-11.

    A date that stands there twice, in words and as its day, is the day: "3 July (2025-07-03" -> "on 2025-07-03".
    """
    text = re.sub(_UNCLOSED, "", text)
    code = languages_of(text)[0] if found else "en"
    for each in sorted(found, key=lambda each: -len(each.expression)):
        text = _with_day(text, each, code)
    text = _without_words(text)
    for pattern, instead in _TIDIED:
        text = re.sub(pattern, instead, text)
    return text


def _with_day(text: str, found: ResolvedDate, code: str) -> str:
    """The text with the day in the place of the expression, if it is not there already."""
    day, words = shown(found), found.expression.split()
    text = re.sub(rf"{re.escape(day)} ?[(\[]{_said(words)}[)\]]", day, text)
    behind = _behind(re.escape(day).replace(r"\ to\ ", " (?:to|and|until|for|-) (?:on )?"))
    # Its first words do: "12-15 2025-06-12 to 2025-06-15" of "12-15 June".
    told = (words[:count] for count in range(len(words), 0, -1) if not re.fullmatch(_UNTOLD, words[count - 1].lower()))
    twice = (re.search(_said(each) + behind, text) for each in told)
    match = next(filter(None, twice), None) or (None if day in text else re.search(_said(words), text))
    if match is None or _is_an_end(text, *match.span("words"), code):
        return text
    of_range = " to " in day
    if code == "en":
        on = match["kept"] or ("from " if of_range else f"{_PREPOSITIONS.get(found.precision, 'in')} ")
        return text[: match.start()] + on + day + text[match.end() :]
    if of_range and (joint := re.search(language(code).range_joint, found.expression)):
        day = joint[0].join(_ends(found))  # vom 2025-08-03 bis 2025-08-10
    return text[: match.start("words")] + day + text[match.end() :]


def _said(words: Sequence[str]) -> str:
    """A pattern of these words: "on" and the like before them give way; "until", "since", "by", "from" stay."""
    said = r"\s+".join(map(re.escape, words))
    kept = rf"{_KEPT}|(?:about|around)(?= {said}(?!\w))"  # what was talked about on Friday was not about Friday
    before = rf"(?P<kept>\b(?:{kept}) )?(?:\b(?:on|in|at|over|during|between)(?: the)? )?"
    return rf"(?i:{before}(?<!\w)(?P<words>{said})(?!\w))"


def _behind(day: str) -> str:
    """A pattern of the day behind its words, in brackets or not."""
    return (
        rf"(?:,? ?(?P<open>[(\[])|,? )(?:= ?)?(?:(?:on|in|from)(?: the)? )?"
        rf"(?P<day>{day})(?![\w-])(?(open)[)\]])"
    )


def _is_an_end(text: str, start: int, end: int, code: str) -> bool:
    """Whether these words are an end of what has only a number at the other: "3 to 10 August"."""
    joint = rf"(?i:\s?[-–—]\s?|{language(code).range_joint})"
    before = re.search(rf"(?P<word>\w*)\W*\b\d{{1,2}}(?:st|nd|rd|th|\.)?{joint}$", text[max(0, start - 40) : start])
    after = re.match(rf"(?i){joint}\d{{1,2}}(?:st|nd|rd|th)?\b(?![-:.]\d| ?{_NAMED_MONTH})", text[end:])
    return bool(after or (before and not re.fullmatch(_NAMED_MONTH, before["word"].lower())))


def _without_words(text: str) -> str:
    """The text without the words of a day that stands behind them: "July 3rd, 2025-07-03"."""

    def day(match: re.Match[str]) -> str:
        said = f"{1 + _MONTHS.index(match['m'][:3].lower()):02}-{int(match['d']):02}"
        return match["day"] if match["day"].endswith(said) else match[0]

    for pattern in _ABSOLUTE[1:3]:
        text = re.sub(rf"(?i)(?:\bthe )?{pattern}{_behind(r'[0-9]{4}-[0-9]{2}-[0-9]{2}')}", day, text)
    return text
