"""The rules for relative English dates, whose conventions memlite/dates.py tells: the extractor was trained on them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from functools import cache

from memlite import calendar_days as calendar
from memlite.calendar_days import Days
from memlite.date_words import MONTH_HOLDS, around, language

Match = re.Match[str]
Meaning = Callable[[Match, date], "Days | None"]

_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SEASONS = {"spring": 3, "summer": 6, "fall": 9, "autumn": 9, "winter": 12}
_NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve"
_WAYS = {"last": -1, "past": -1, "previous": -1, "this": 0, "the": 0, "next": 1, "coming": 1, "upcoming": 1}
_BY_WEEK = ("next", "previous")  # of these weeks a weekday is: "next Friday" is none of this week
_REPEATS = r"(?i)birthday|anniversary|\bborn\b|\bevery\b"


def claimed(text: str, today: date) -> list[tuple[int, int, Days | None]]:
    """The places of relative dates and their days, in the order of the text; None of what is no date of its own.

    Of two that overlap the first one counts, or else the longer.
    """
    found = [(match, meaning) for pattern, meaning in _rules() for match in pattern.finditer(text)]
    found.sort(key=lambda each: (each[0].start(), -each[0].end()))  # stable: of equals the earlier rule counts
    kept: list[tuple[int, int, Days | None]] = []
    end, month, since = 0, None, 0
    for match, meaning in found:
        if match.start() < end:
            continue
        end = match.end()
        try:
            if meaning is _day_of_month and month and match.start() - since < MONTH_HOLDS:
                days: Days | None = calendar.one(calendar.day_of_month(month, int(match["d"]), None))
            else:
                days = meaning(match, today) if meaning else None
            if day := _day_in_month(match, days):
                month, since = day, end
        except (
            LookupError,
            OverflowError,
            ValueError,
        ):  # "February 30th", the year 10,000, a "ſ" for an "s"
            days = None
        kept.append((match.start(), end, days))
    return kept


def _day_in_month(match: Match, days: Days | None) -> date | None:
    """The first day of a date that names its month: "the 19th" after it is the next one."""
    groups = match.groupdict()
    if not groups.get("month") or _comes_again(match):
        return None
    year = re.search(r"\d{4}", groups.get("year") or "")
    if year:
        return date(int(year[0]), _month_number(match), int(match["d"]))
    return days[0] if days else None


def _comes_again(match: Match) -> bool:
    return any(re.search(_REPEATS, part) for part in around(match.string, *match.span()))


def _is_past(match: Match) -> bool | None:
    return language("en").is_past(match.string, match.start(), match.end())


def _way(match: Match) -> int:
    return _WAYS[(match.groupdict().get("way") or "this").lower().split()[-1]]


def _count(match: Match) -> int:
    first = match["n"].lower().split()[0]
    if first.isdecimal():
        return int(first)
    return 2 if "couple" in match["n"].lower() else 1 if first in ("a", "an") else _NUMBERS.split().index(first)


def _ago(match: Match, today: date) -> Days:
    return calendar.shift(today, match["unit"].lower(), -_count(match))


def _ahead(match: Match, today: date) -> Days | None:
    if _is_past(match):  # "I wrote it in three days" is how long it took
        return None
    return calendar.shift(today, match["unit"].lower(), _count(match))


def _counted(match: Match, today: date) -> Days:
    start = today + timedelta({"yesterday": -1, "tomorrow": 1}.get(match["from"].lower(), 0))
    count = _count(match) * (-1 if match["side"].lower() in ("before", "ago") else 1)
    return calendar.one(calendar.later(start, match["unit"].lower(), count))


def _unit(match: Match, today: date) -> Days | None:
    way, unit = _way(match), match["unit"].lower()
    if unit == "weekend" and way == 0 and today.weekday() < 5:
        past = _is_past(match)
        if past is None and match["way"].lower() == "the":
            return None  # "Anything fun over the weekend?" can be either
        way = -1 if past else 0  # on a Monday: "we went there this weekend"
    return calendar.shift(today, unit, way)


def _weekday(match: Match, today: date) -> Days:
    way, day = _way(match), _WEEKDAYS.index(match["day"][:3].lower())
    by_week = match.groupdict().get("week") or (match.groupdict().get("way") or "").lower() in _BY_WEEK
    if by_week:
        return calendar.one(calendar.shift(today, "week", way)[0] + timedelta(day))
    return calendar.one(calendar.weekday(today, day, way, None if way else _is_past(match)))


def _yearly(match: Match, today: date, of_year: Callable[[int], Days]) -> Days:
    way = _way(match)
    return calendar.yearly(today, way, None if way else _is_past(match), of_year)


def _month_number(match: Match) -> int:
    return _MONTHS.index(match["month"][:3].lower()) + 1


def _month(match: Match, today: date) -> Days:
    if match.groupdict().get("of_year"):
        return calendar.months(today.year + _way(match), _month_number(match))
    return _yearly(match, today, lambda year: calendar.months(year, _month_number(match)))


def _season(match: Match, today: date) -> Days:
    return _yearly(match, today, lambda year: calendar.months(year, _SEASONS[match["season"].lower()], 3))


def _month_day(match: Match, today: date) -> Days | None:
    if match["year"] or _comes_again(match):
        return None
    return _yearly(match, today, lambda year: calendar.one(date(year, _month_number(match), int(match["d"]))))


def _day_of_year(match: Match, today: date) -> Days:
    return calendar.one(date(today.year + _way(match), _month_number(match), int(match["d"])))


def _day_of_month(match: Match, today: date) -> Days:
    return calendar.one(calendar.day_of_month(today, int(match["d"]), _is_past(match)))


def _days(count: int) -> Meaning:
    return lambda match, today: calendar.one(today + timedelta(count))


_WORDS = {
    "N": r"(?P<n>an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\d{1,3}"
    r"|(?:a )?couple(?: of)?)",
    "UNIT": r"(?P<unit>day|week|fortnight|weekend|month|year)s?",
    "WAY": r"(?P<way>this past|this coming|this upcoming|last|past|previous|this|next|coming|upcoming)",
    "PART": r"(?: (?:morning|afternoon|evening|night))?",
    "FULLDAY": r"(?P<day>(?:mon|tues|wednes|thurs|fri|satur|sun)day)",
    "DAY": r"(?P<day>(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?-i:Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun))",
    "BAREDAY": r"(?P<day>(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|(?<=\bon\s)(?-i:Mon|Tue|Wed|Thu|Fri|Sat|Sun))",
    # "may" and "march" are verbs, unless a capital, an ordinal or "of", "in" says otherwise.
    "FULLMONTH": r"(?P<month>january|february|april|june|july|august|september|october|november|december"
    r"|(?-i:March|May)|(?<=\bin\s)(?:march|may))",
    "MONTH": r"(?P<month>jan(?:uary)?|feb(?:ruary)?|apr(?:il)?|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?|(?-i:Mar(?:ch)?|May)|(?<=\bof\s)(?:march|may)"
    r"|(?:march|may)(?= \d\d?[snrt]))",
    "MONTH_AFTER": r"(?<=\bin\s)|(?<=\bsince\s)|(?<=\buntil\s)|(?<=\btill\s)",
    "DAY_AFTER": r"(?:(?<=\bon\s)|(?<=\bby\s)|(?<=\buntil\s)|(?<=\btill\s))",
    "D": r"(?P<d>\d{1,2})",
    "YEAR": r"(?P<year>[.,]?(?: of)? \d{4})?(?![-–:.,/]?\d|%| (?:am|pm|(?:of )?(?:last|next) year)\b)",
    "OWN": r"(?:the|my|your|his|her|its|our|their)",
    # What may follow a weekday that is a date and no part of a name: "Friday at 7", not "Friday Harbor".
    "THEN": r"(?=\s*(?:[,.;:!?)]|[-–—]\s|$)| (?:at|and|or|in|to|with|for|i|we|he|she|they|you|it|my|because"
    r"|so|after|before|from|if|when|but|is|was|works?|then|around|about|by|until|till)\b)",
}

# Where two rules find the same words the earlier one counts. None: words that are no date of their own,
# claimed so that no other rule reads a part of them.
_RULES: tuple[tuple[str, Meaning | None], ...] = (
    (r"(?:an?|the|every|each|most|some|other|second|following|good|black|cyber|ash|easter|casual) {FULLDAY}", None),
    (r"{OWN} (?:very )?(?:last|past|next|previous) \w+", None),
    (r"(?:over|under|(?:more|less) than|at least|nearly|almost|half) {N} {UNIT}", None),
    (r"(?:\d+|one|two|three|four|five|six|day|week|month|year) (?:or|to) {N} {UNIT}", None),
    (r"{N} (?:and a half \w+|\w+ and a half)", None),
    (r"(?:once|twice|times?|days|hours|weeks|months) in {N} {UNIT}", None),
    (r"(?:the )?day before yesterday", _days(-2)),
    (r"(?:yesterday{PART}|last (?:night|evening))", _days(-1)),
    (r"(?:today|tonight|this (?:morning|afternoon|evening))", _days(0)),
    (r"(?:tomorrow|tmrw){PART}", _days(1)),
    (r"(?:the )?day after tomorrow", _days(2)),
    (r"{N} {UNIT} (?:ago|back(?=[.,;!?]|$))", _ago),
    (r"in (?!an? day\b){N} {UNIT}(?:['’] time)?(?! (?:or|and) )", _ahead),
    (r"{N} {UNIT} from now", _ahead),
    (r"{N} {UNIT} (?P<side>before|after|from|ago) (?P<from>yesterday|today|tomorrow)", _counted),
    (r"{N} {UNIT} (?:before|after|from)(?: (?:the|last|next|this))? \w+(?: \d+)?", None),
    (r"the {UNIT} before last", lambda match, today: calendar.shift(today, match["unit"].lower(), -2)),
    (r"the {UNIT} after next", lambda match, today: calendar.shift(today, match["unit"].lower(), 2)),
    (r"{WAY}(?<!past) (?P<unit>week|weekend|month|year)(?! of\b)", _unit),
    (r"(?P<way>this past|past|(?<=over\s)the|(?<=at\s)the) (?P<unit>weekend)", _unit),
    (r"{DAY}(?: of)? {WAY} (?P<week>week)", _weekday),
    (r"{WAY} (?P<week>week),?(?: on)? {DAY}", _weekday),
    (r"{WAY} {DAY}{PART}(?! \d+[/.])", _weekday),
    (r"{BAREDAY}{PART}{THEN}", _weekday),
    (r"(?:{WAY} |{MONTH_AFTER}|early |late |mid-?){FULLMONTH}(?!,? \d| of)", _month),
    (r"(?:(?<=\bto\s)|(?<=\bfor\s))(?!(?:april|may|june)\b){FULLMONTH}(?!,? \d| of)", _month),  # no names
    (r"{FULLMONTH}(?: of)? {WAY} (?P<of_year>year)", _month),
    (r"(?:{DAY},? )?(?:the )?{D}(?:st|nd|rd|th)?(?: of)? {MONTH},?(?: of)? {WAY} (?P<of_year>year)", _day_of_year),
    (r"(?:{DAY},? )?{MONTH}\.? (?:the )?{D}(?:st|nd|rd|th)?,?(?: of)? {WAY} (?P<of_year>year)", _day_of_year),
    (r"{WAY} (?P<season>spring|summer|fall|autumn|winter)(?! of\b)", _season),
    (r"(?:{DAY},? )?(?:the )?{D}(?:st|nd|rd|th)?(?: of)? {MONTH}{YEAR}", _month_day),
    (r"(?:{WAY} )?(?:{DAY},? )?{MONTH}\.? (?:the )?{D}(?:st|nd|rd|th)?{YEAR}", _month_day),
    (r"{FULLDAY},? the {D}(?:st|nd|rd|th)", _day_of_month),
    (r"{DAY_AFTER}the {D}(?:st|nd|rd|th)(?=\s*(?:[.,;!?)]|$)|\sat\b)", _day_of_month),
)


@cache
def _rules() -> list[tuple[re.Pattern[str], Meaning | None]]:
    """The rules as patterns, made at the first use: compiling them takes longer than importing memlite."""
    rules = []
    for pattern, meaning in _RULES:
        spaced = pattern.format_map(_WORDS).replace(" ", r"\s+")
        rules.append((re.compile(rf"(?<![\w/$£€–-])(?<!\d[.,:]){spaced}(?!\w)", re.IGNORECASE), meaning))
    return rules
