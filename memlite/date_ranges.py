"""Dates from one to another, in ten languages: "from 3 to 10 August", "vom 3. bis 10. August", "Monday to Friday".

Each end is read by itself; the year, month or week that it leaves open the other one has, or else the sentence shows
it. What was moved from one date to another is no range.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import islice

from memlite import calendar_days as calendar
from memlite.calendar_days import Days
from memlite.date_tokens import tokens
from memlite.date_words import MONTH_HOLDS, MOVED, Language, around
from memlite.records import FoundDate

Read = Callable[[str, date], Iterable[FoundDate]]  # the dates of a text that is said on that day
Range = tuple[int, int, "FoundDate | None"]  # where a range begins and ends, in characters, and what it means

# Strings, not compiled patterns: few texts need them. Those of the kinds of tokens:
_NUMBER, _MONTH = r"t?[noc]\.?d?", r"t?[Mm]\.?"
_OF_MONTH, _DAY_OF_MONTH = "[MmG%#]", "[MmG].*[noc]|[noc].*[Mm]|[%#]"
_ONE_ONLY = "[yY#LXHTIqSruhE]"  # a date with one of these does not come again
_AGAIN = (("year", "[MmG%]"), ("month", "[noc]"), ("week", "[Ww]"))
_DATE_LIKE = "nocMmWTPuGLHXdy#%"  # may be the word beside "to"
_NO_END = r"[x|:0AZJ]|,(?!y)|^I|^t+[nc]$"
# Of the text:
_DASH = r" {1,3}[-–—~] {1,3}|(?<!\d\d\d)(?<!-\d\d)(?<!-\d)[-–—~〜～](?!\d\d?-\d)"  # none of 2025-08-03
_COUNTED = "[后後前間间內内以]| ?(?:후|전|간|동안|안)"  # 2日後 is no day of a month
_AFTER_NUMBER = r"\s*(?:$|[.,;:!?)])| (?:and|or|with|for|in|at|but|because|so|when|if|as|we|I|he|she|they)\b"
_TIED = r"(?i)[-–—~]|\b(?:to|through|thru)\b"  # "August 3 to 10", but not "until 10"
_YEAR_BEHIND = r",? ((?:19|20)\d\d)\b"
_WORD, _LONGEST_WORD = r"[\w']+", 14
_NEAR, _MOST_PIECES = 40, 10  # of one end: characters, words
_MOST_JOINTS = 100  # of a text: each is read some times
_LENGTHS = {"year": timedelta(365), "month": timedelta(30), "week": timedelta(6)}  # one of its dates is in so many days


@dataclass(frozen=True)
class _End:
    """A date at an end of a range: its place in the text, the kinds of its words, and which one is meant on a day."""

    start: int
    end: int
    kinds: str
    on: Callable[[date], FoundDate | None]

    @property
    def again(self) -> str | None:
        """After what it comes again; None where there is only one."""
        if re.search(_ONE_ONLY, self.kinds):
            return None
        return next((unit for unit, of in _AGAIN if re.search(of, self.kinds)), None)

    @property
    def is_number(self) -> bool:
        """Whether it only numbers a day."""
        return re.fullmatch(_NUMBER, self.kinds) is not None

    def until(self, day: date) -> FoundDate | None:
        """The latest one that begins on that day or before."""
        latest, at = None, day - _LENGTHS[self.again or "week"]
        while (found := self.on(at)) and found.first <= day:
            latest, at = found, found.last + timedelta(1)
        return latest


@dataclass(frozen=True)
class _Said:
    """A text, on which day it is said, its language, and how its dates are read."""

    text: str
    today: date
    language: Language
    read: Read

    def may_join(self, joint: re.Match[str]) -> bool:
        """Whether what stands beside it looks like a date: most "to" and "-" are done with by this."""
        after = re.match(_WORD, self.text[joint.end() : joint.end() + _LONGEST_WORD])
        if not after or tokens(after[0], self.language)[0].kind not in _DATE_LIKE:
            return False
        before = re.search(rf"({_WORD})\.?$", self.text[max(0, joint.start() - _LONGEST_WORD) : joint.start()])
        return before is not None and tokens(before[1], self.language)[-1].kind in _DATE_LIKE

    def first(self, joint: re.Match[str]) -> _End | None:
        """The longest date that ends at the joint."""
        begin = max(0, joint.start() - _NEAR)
        return self._longest([(begin + start, joint.start()) for start, _ in self._pieces(begin, joint.start())])

    def last(self, joint: re.Match[str]) -> _End | None:
        """The longest date that begins behind the joint."""
        ends = [joint.end() + end for _, end in self._pieces(joint.end(), joint.end() + _NEAR)]
        words = [self.text[joint.end() : end].rstrip("])'\"”,;:!?.。，、") for end in reversed(ends)]
        return self._longest([(joint.end(), joint.end() + len(each)) for each in words])

    def _pieces(self, start: int, end: int) -> list[tuple[int, int]]:
        pattern = r"[^\s']+'?|'" if self.language.spaced else r"\d+|\S"
        return [piece.span() for piece in re.finditer(pattern, self.text[start:end])]

    def _longest(self, places: list[tuple[int, int]]) -> _End | None:
        for start, end in places[-_MOST_PIECES:]:
            words = self.text[start:end].lstrip("(['\"“")
            made = self.end(words, end - len(words), end)
            if made.kinds and not re.search(_NO_END, made.kinds) and made.on(self.today):
                return made
        return None

    def end(self, words: str, start: int, end: int) -> _End:
        """These words as an end that stands there."""
        found = tokens(words, self.language)
        unsure = any(token.kind == "%" and token.value[2] for token in found)  # 1/2
        kinds = "x" if unsure else "".join(token.kind for token in found)
        number = next((int(token.value) for token in found if token.kind in "nocMm"), 0)

        def on(day: date) -> FoundDate | None:
            days: Days | None = None
            if re.fullmatch(_NUMBER, kinds):
                days = calendar.one(calendar.day_of_month(day, number, None)) if 1 <= number <= 31 else None
            elif re.fullmatch(_MONTH, kinds):
                days = calendar.yearly(day, 0, None, lambda year: calendar.months(year, number + 1))
            else:
                dates = list(self.read(words, day))
                whole = len(dates) == 1 and dates[0].start == 0 and dates[0].end >= len(words.rstrip("."))
                return dates[0] if whole and dates[0].precision in ("day", "month", "year") else None
            return days and FoundDate(words, 0, len(words), *days, relative=True)

        return _End(start, end, kinds, on)

    def month_before(self, at: int) -> date | None:
        """The first day of the last date before that place that names a month."""
        for found in reversed([*self.read(self.text[max(0, at - MONTH_HOLDS) : at], self.today)]):
            kinds = "".join(token.kind for token in tokens(found.expression, self.language))
            if found.precision in ("day", "month") and re.search(_OF_MONTH, kinds):
                return found.first
        return None


def ranges(text: str, today: date, language: Language, read: Read) -> Iterator[Range]:
    """The ranges of a text, in its order; None for what is no date of its own: it comes every week."""
    said, at = _Said(text.replace("’", "'"), today, language, read), 0
    joints = re.finditer(f"(?i){_DASH}|{language.range_joint}", said.text)
    for joint in islice(filter(said.may_join, joints), _MOST_JOINTS):
        try:
            found = _range(joint, said) if joint.start() >= at else None
        except (OverflowError, ValueError):  # before the year 1, after 9999
            continue
        if found:
            start, at, dates = found
            yield start, at, dates and replace(dates, expression=text[start:at], start=start, end=at)


def _range(joint: re.Match[str], said: _Said) -> Range | None:
    """The range that is joined there, if it is one."""
    first = said.first(joint)
    last = first and said.last(joint)
    if not first or not last or not _fit(first, last, joint, said):
        return None
    if last.is_number and (year := re.match(_YEAR_BEHIND, said.text[last.end :])):  # August 3 to 10, 2026
        first = said.end(f"{said.text[first.start : first.end]} {year[1]}", first.start, first.end)
        last = replace(last, end=last.end + year.end())
    if first.again == last.again == "week" and _is_weekly(first.start, last.end, said):
        return first.start, last.end, None
    dates = _dates(first, last, said)
    return (first.start, last.end, dates) if dates else None


def _fit(first: _End, last: _End, joint: re.Match[str], said: _Said) -> bool:
    """Whether these two are the ends of a range: "3 to 10" is none, nor are "August 3 to 10 people"."""
    opening = re.search(f"(?i)(?:{said.language.range_opening})$", said.text[max(0, first.start - 20) : first.start])
    between = opening is not None and opening.groupdict().get("between") is not None
    begin, after = first.start - (len(opening[0]) if opening else 0), said.text[last.end :]
    if joint.groupdict().get("and") and not between:
        return False
    if re.search(rf"{MOVED}(?: [\w'-]+){{0,4}} *$", said.text[max(0, begin - 80) : begin]):
        return False
    if last.is_number and not _is_a_day(last, after, tied=bool(opening or re.search(_TIED, joint[0]))):
        return False
    if first.is_number and last.is_number:
        days = re.search("[o.d]", first.kinds) and (re.search("[od]", last.kinds) or after.startswith("."))
        return bool(opening and not between and days)
    if first.is_number or last.is_number:
        return re.search(_DAY_OF_MONTH, last.kinds if first.is_number else first.kinds) is not None
    if not said.language.spaced and (first.again == "week") != (last.again == "week"):
        return False  # the last Monday of April to 1 October: no space tells where it begins
    months = all(re.search(_OF_MONTH, end.kinds) for end in (first, last))
    return opening is not None or months or not re.fullmatch(" +[-–—~] +", joint[0])  # Monday - on Friday


def _is_a_day(number: _End, after: str, *, tied: bool) -> bool:
    """Whether the number at the end is a day's: no hour ("until 10"), no count. tied: whether its joint shows it."""
    if number.kinds.endswith("d"):
        return not re.match(_COUNTED, after)
    return bool((tied or "o" in number.kinds) and re.match(rf"{_AFTER_NUMBER}|{_YEAR_BEHIND}", after))


def _is_weekly(start: int, end: int, said: _Said) -> bool:
    """Whether "Monday to Friday" is those of every week, or nothing shows that it is not."""
    sentence, untold = "".join(around(said.text, start, end)), said.language.is_past(said.text, start, end) is None
    return untold or re.search(f"(?i){said.language.weekly}", sentence) is not None


def _dates(first: _End, last: _End, said: _Said) -> FoundDate | None:
    """The days from one to the other; of what comes again the next ones, in a sentence about the past the latest."""
    past, today = bool(said.language.is_past(said.text, first.start, last.end)), said.today
    forward = first.again is None or (first.again == "week" and not past)
    if first.is_number and last.is_number and (month := said.month_before(first.start)):
        today, forward = month, True
    day = timedelta(1)
    if last.again and (forward or (last.is_number and not first.is_number)):
        start = first.on(today) if forward else first.until(today)
        end = start and last.on(start.last + day)
        if end and end.last < today and not forward and not past:
            start = first.on(today)
            end = start and last.on(start.last + day)
    else:
        end = last.until(today) if last.again and past else last.on(today)
        start = first.until(end.first - day) if end and first.again else first.on(today)
    if not start or not end or start.first > end.first:
        return None
    precision = start.precision if start.precision == end.precision else "day"
    if precision != "day" and not said.language.spaced:
        return None  # 6月から8月 are two months
    # A year at one end is that of the other one too.
    fixed = [found.relative for of, found in ((first, start), (last, end)) if of.again is None]
    return replace(start, last=end.last, precision=precision, relative=any(fixed) or not fixed)
