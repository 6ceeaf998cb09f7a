"""Relative English dates of a message, as the local calendar days they mean.

What counts is the local day of `observed_at`, by its own offset. Conventions, where English leaves a choice:

- Weeks run from Monday to Sunday, weekends are Saturday and Sunday; "last", "this" and "next" week, weekend,
  month and year are the ones before, around and after the day. So on a Wednesday "this weekend" is in three
  days and "next weekend" in ten.
- "last Friday" is the latest Friday before the day, "next Friday" the first one after it; months and seasons
  likewise: in July "last summer" is a year ago, in October it is this year's.
- A bare or "this" Friday, June, "May 5th" or "the 18th" is the next to come, the day itself included; in a
  sentence about the past it is the latest one. The nearest cue before it (else after it) decides: was, went,
  -ed ... or will, going to, let's ...
- Seasons are the meteorological ones of the northern hemisphere: summer is June to August.
- "two weeks ago" is a week, "two months ago" a month, "two years ago" a year: nobody counts the days. "two
  weeks from today" does, and is a day.

What is absolute already ("May 5, 2019"), repeats ("every Friday", "my birthday is May 5th"), lasts ("the last
two weeks") or is vague ("a few days ago", "over a year ago") is left alone: a wrong date is worse than none.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from functools import cache

from memlite.records import ResolvedDate

Days = tuple[date, date, str]  # first and last day, precision
PartialDate = tuple[int | None, int | None, int | None]  # year, month, day
Match = re.Match[str]

_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SEASONS = {"spring": 3, "summer": 6, "fall": 9, "autumn": 9, "winter": 12}
_NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve"
_WAYS = {"last": -1, "past": -1, "previous": -1, "this": 0, "the": 0, "next": 1, "coming": 1, "upcoming": 1}

# Strings, not compiled patterns: compiling takes longer than importing, and re keeps what it compiled.
_SENTENCE_END = r"[.!?\n](?:\s|$)"
_PAST = (
    r"(?i)\b(?:(?P<past>was|were|wasn't|weren't|had|did|didn't|went|got|came|saw|met|took|made|said|told|felt|"
    r"found|bought|left|gave|ate|ran|won|lost|began|spent|wrote|sent|heard|brought|caught|flew|drove|taught|"
    r"thought|held|kept|grew|haven't|hasn't|'ve|been|since|ago|"
    r"(?!need|speed|feed|bleed|breed|indeed|hundred|excited|planned|scheduled|supposed|booked)[a-z]{2,}ed)"
    r"|(?:is|are|am|be|'m|'s|'re)(?: (?:so|very|really|not|still|now|being))?(?: [a-z]+ed)?"
    r"|will|'ll|won't|shall|going to|gonna|let's|(?:plan|plans|planning|want|hope|need|have) to|should|can|"
    r"could|would|soon)\b"
)
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
_REPEATS = r"(?i)birthday|anniversary|\bborn\b|\bevery\b"


def resolve(text: str, observed_at: datetime) -> tuple[ResolvedDate, ...]:
    """The relative dates of a text, in its order; of two that overlap the first one, or else the longer."""
    today = observed_at.date()
    found: list[tuple[int, int, Days | None]] = []
    for pattern, meaning in _rules():
        for match in pattern.finditer(text):
            try:
                days = meaning(match, today) if meaning else None
            except (
                LookupError,
                OverflowError,
                ValueError,
            ):  # "February 30th", the year 10,000, a "ſ" for an "s"
                days = None
            found.append((*match.span(), days))
    found.sort(key=lambda each: (each[0], -each[1]))  # stable: of equals the earlier rule counts
    resolved, end = [], 0
    for start, stop, days in found:
        if start < end:
            continue
        end = stop
        if days:
            first, last, precision = days
            resolved.append(ResolvedDate(text[start:stop], first.isoformat(), last.isoformat(), precision))
    return tuple(resolved)


def absolute(text: str) -> tuple[list[tuple[str, PartialDate]], str]:
    """The absolute dates of a lower-case text, as written and in parts; and the text with a ";" in their places."""
    found: list[tuple[str, PartialDate]] = []

    def take(match: Match) -> str:
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
    found = [(date.fromisoformat(each.start), date.fromisoformat(each.end)) for each in resolve(text, now)]
    told, rest = absolute(text.casefold())
    for _, (year, month, day) in told:
        if year and month:
            first, last, _ = _months(year, month) if day is None else _day(date(year, month, day))
            found.append((first, last))
    years = map(int, re.findall(r"\b(?:in|during|of|since) ((?:19|20)\d\d)\b", rest))
    return (*found, *((date(year, 1, 1), date(year, 12, 31)) for year in years))


def shown(found: ResolvedDate) -> str:
    """A resolved date, as exact as it is: "2025-05-11", "week of 2025-05-05", "2025-05", "summer 2025", "2025"."""
    if found.precision in ("week", "weekend"):
        return f"{found.precision} of {found.start}"
    if found.precision == "season":
        names = {month: name for name, month in _SEASONS.items()}
        return f"{names[int(found.start[5:7])]} {found.start[:4]}"
    return found.start[: {"month": 7, "year": 4}.get(found.precision, 10)]


_PREPOSITIONS = {"day": "on", "weekend": "on the", "week": "in the"}


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


def _around(match: Match) -> tuple[str, str]:
    """The sentence before and after the expression."""
    before = match.string[max(0, match.start() - 200) : match.start()].replace("’", "'")
    after = match.string[match.end() : match.end() + 200].replace("’", "'")
    return re.split(_SENTENCE_END, before)[-1], re.split(_SENTENCE_END, after)[0]


def _is_past(match: Match) -> bool | None:
    """Whether the sentence speaks of the past, by the cue nearest to the expression; None without a cue."""
    before, after = _around(match)
    cues = list(re.finditer(_PAST, before))[-1:] or list(re.finditer(_PAST, after))[:1]
    return cues[0]["past"] is not None if cues else None


def _way(match: Match) -> int:
    return _WAYS[(match.groupdict().get("way") or "this").lower().split()[-1]]


def _count(match: Match) -> int:
    first = match["n"].lower().split()[0]
    if first.isdecimal():
        return int(first)
    return 2 if "couple" in match["n"].lower() else 1 if first in ("a", "an") else _NUMBERS.split().index(first)


def _day(day: date) -> Days:
    return day, day, "day"


def _months(year: int, month: int, months: int = 1) -> Days:
    """A month or, of three, a season; a month below 1 or above 12 is one of another year."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    end_year, end_month = year + (month + months - 2) // 12, (month + months - 2) % 12 + 1
    last = date(end_year, end_month, monthrange(end_year, end_month)[1])
    return date(year, month, 1), last, "month" if months == 1 else "season"


def _shift(today: date, unit: str, count: int) -> Days:
    """The day, week, weekend, month or year that many of them away from today's."""
    if unit == "day":
        return _day(today + timedelta(count))
    if unit == "month":
        return _months(today.year, today.month + count)
    if unit == "year":
        return date(today.year + count, 1, 1), date(today.year + count, 12, 31), "year"
    monday = today - timedelta(today.weekday()) + timedelta(weeks=count * (2 if unit == "fortnight" else 1))
    if unit == "weekend":
        return monday + timedelta(5), monday + timedelta(6), "weekend"
    return monday, monday + timedelta(6), "week"


def _ago(match: Match, today: date) -> Days:
    return _shift(today, match["unit"].lower(), -_count(match))


def _ahead(match: Match, today: date) -> Days | None:
    if _is_past(match):  # "I wrote it in three days" is how long it took
        return None
    return _shift(today, match["unit"].lower(), _count(match))


def _counted(match: Match, today: date) -> Days:
    start = today + timedelta({"yesterday": -1, "tomorrow": 1}.get(match["from"].lower(), 0))
    count = _count(match) * (-1 if match["side"].lower() in ("before", "ago") else 1)
    unit = match["unit"].lower()
    if unit in ("month", "year"):
        first, last, _ = _months(start.year, start.month + count * (12 if unit == "year" else 1))
        return _day(first.replace(day=min(start.day, last.day)))
    return _day(start + timedelta(count * {"day": 1, "fortnight": 14}.get(unit, 7)))


def _unit(match: Match, today: date) -> Days | None:
    way, unit = _way(match), match["unit"].lower()
    if unit == "weekend" and way == 0 and today.weekday() < 5:
        past = _is_past(match)
        if past is None and match["way"].lower() == "the":
            return None  # "Anything fun over the weekend?" can be either
        way = -1 if past else 0  # on a Monday: "we went there this weekend"
    return _shift(today, unit, way)


def _weekday(match: Match, today: date) -> Days:
    way, day = _way(match), _WEEKDAYS.index(match["day"][:3].lower())
    if match.groupdict().get("week"):
        return _day(_shift(today, "week", way)[0] + timedelta(day))
    ahead = (day - today.weekday()) % 7
    if way < 0 or (way == 0 and ahead and _is_past(match)):
        return _day(today - timedelta(7 - ahead))
    return _day(today + timedelta(ahead or 7 * way))


def _yearly(match: Match, today: date, of_year: Callable[[int], Days]) -> Days:
    """What comes once a year: the latest that is over, the first to begin, or as the sentence has it."""
    way, all_of_them = _way(match), []
    for year in range(today.year - 8, today.year + 9):  # February 29th can be eight years away
        with suppress(ValueError):
            all_of_them.append(of_year(year))
    if way < 0:
        return max(days for days in all_of_them if days[1] < today)
    if way > 0:
        return min(days for days in all_of_them if days[0] > today)
    if _is_past(match):
        return max(days for days in all_of_them if days[0] <= today)
    return min(days for days in all_of_them if days[1] >= today)


def _month_number(match: Match) -> int:
    return _MONTHS.index(match["month"][:3].lower()) + 1


def _month(match: Match, today: date) -> Days:
    if match.groupdict().get("of_year"):
        return _months(today.year + _way(match), _month_number(match))
    return _yearly(match, today, lambda year: _months(year, _month_number(match)))


def _season(match: Match, today: date) -> Days:
    return _yearly(match, today, lambda year: _months(year, _SEASONS[match["season"].lower()], 3))


def _month_day(match: Match, today: date) -> Days | None:
    if match["year"] or any(re.search(_REPEATS, part) for part in _around(match)):
        return None
    return _yearly(match, today, lambda year: _day(date(year, _month_number(match), int(match["d"]))))


def _day_of_month(match: Match, today: date) -> Days:
    day = int(match["d"])
    firsts = [_months(today.year, today.month + away)[0] for away in range(-2, 3)]
    near = [first.replace(day=day) for first in firsts if day <= monthrange(first.year, first.month)[1]]
    if _is_past(match):
        return _day(max(each for each in near if each <= today))
    return _day(min(each for each in near if each >= today))


def _days(count: int) -> Callable[[Match, date], Days]:
    return lambda match, today: _day(today + timedelta(count))


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
    "D": r"(?P<d>\d{1,2})",
    "YEAR": r"(?P<year>[.,]?(?: of)? \d{4})?(?![-–:.,/]?\d|%| (?:am|pm|(?:of )?(?:last|next) year)\b)",
    "OWN": r"(?:the|my|your|his|her|its|our|their)",
    # What may follow a weekday that is a date and no part of a name: "Friday at 7", not "Friday Harbor".
    "THEN": r"(?=\s*(?:[,.;:!?)]|[-–—]\s|$)| (?:at|and|or|in|to|with|for|i|we|he|she|they|you|it|my|because"
    r"|so|after|before|from|if|when|but|is|was|works?|then|around|about|by|until|till)\b)",
}

# Where two rules find the same words the earlier one counts. None: words that are no date of their own,
# claimed so that no other rule reads a part of them.
_RULES: tuple[tuple[str, Callable[[Match, date], Days | None] | None], ...] = (
    (r"(?:an?|the|every|each|most|some|following|good|black|cyber|ash|easter|casual) {FULLDAY}", None),
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
    (r"the {UNIT} before last", lambda match, today: _shift(today, match["unit"].lower(), -2)),
    (r"the {UNIT} after next", lambda match, today: _shift(today, match["unit"].lower(), 2)),
    (r"{WAY}(?<!past) (?P<unit>week|weekend|month|year)(?! of\b)", _unit),
    (r"(?P<way>this past|past|(?<=over\s)the|(?<=at\s)the) (?P<unit>weekend)", _unit),
    (r"{DAY}(?: of)? {WAY} (?P<week>week)", _weekday),
    (r"{WAY} (?P<week>week),?(?: on)? {DAY}", _weekday),
    (r"{WAY} {DAY}{PART}(?! \d+[/.])", _weekday),
    (r"{BAREDAY}{PART}{THEN}", _weekday),
    (r"(?:{WAY} |(?<=\bin\s)|(?<=\bsince\s)|early |late |mid-?){FULLMONTH}(?!,? \d| of)", _month),
    (r"{FULLMONTH}(?: of)? {WAY} (?P<of_year>year)", _month),
    (r"{WAY} (?P<season>spring|summer|fall|autumn|winter)(?! of\b)", _season),
    (r"(?:{DAY},? )?(?:the )?{D}(?:st|nd|rd|th)?(?: of)? {MONTH}{YEAR}", _month_day),
    (r"(?:{WAY} )?(?:{DAY},? )?{MONTH}\.? (?:the )?{D}(?:st|nd|rd|th)?{YEAR}", _month_day),
    (r"{FULLDAY},? the {D}(?:st|nd|rd|th)", _day_of_month),
    (r"(?<=\bon\s)the {D}(?:st|nd|rd|th)(?=\s*(?:[.,;!?)]|$)|\sat\b)", _day_of_month),
)


@cache
def _rules() -> list[tuple[re.Pattern[str], Callable[[Match, date], Days | None] | None]]:
    """The rules as patterns, made at the first use: compiling them takes longer than importing memlite."""
    rules = []
    for pattern, meaning in _RULES:
        spaced = pattern.format_map(_WORDS).replace(" ", r"\s+")
        rules.append((re.compile(rf"(?<![\w/$£€–-])(?<!\d[.,]){spaced}(?!\w)", re.IGNORECASE), meaning))
    return rules
