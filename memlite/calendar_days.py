"""Days, weeks, months and holidays of the calendar, counted from a day."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable
from contextlib import suppress
from datetime import date, timedelta

Days = tuple[date, date, str]  # first and last day, precision

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_YEARS = 8  # February 29th can be so many years away


def one(day: date) -> Days:
    return day, day, "day"


def months(year: int, month: int, count: int = 1) -> Days:
    """A month or, of three, a season; a month below 1 or above 12 is one of another year."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    end_year, end_month = year + (month + count - 2) // 12, (month + count - 2) % 12 + 1
    last = date(end_year, end_month, monthrange(end_year, end_month)[1])
    return date(year, month, 1), last, "month" if count == 1 else "season"


def whole_year(year: int) -> Days:
    return date(year, 1, 1), date(year, 12, 31), "year"


def shift(today: date, unit: str, count: int) -> Days:
    """The day, week, fortnight, weekend, month or year that many of them away from today's."""
    if unit == "day":
        return one(today + timedelta(count))
    if unit == "month":
        return months(today.year, today.month + count)
    if unit == "year":
        return whole_year(today.year + count)
    monday = today - timedelta(today.weekday()) + timedelta(weeks=count * (2 if unit == "fortnight" else 1))
    if unit == "weekend":
        return monday + timedelta(5), monday + timedelta(6), "weekend"
    return monday, monday + timedelta(6), "week"


def later(day: date, unit: str, count: int) -> date:
    """The very day so many units after a day, before it where count is negative; of a shorter month the last one."""
    if unit in ("month", "year"):
        first, last, _ = months(day.year, day.month + count * (12 if unit == "year" else 1))
        return first.replace(day=min(day.day, last.day))
    return day + timedelta(count * {"day": 1, "fortnight": 14}.get(unit, 7))


def weekday(today: date, day: int, way: int, past: bool | None) -> date:
    """A weekday (0 is Monday): before today (way -1), after it (1), or the next to come, of the past the latest."""
    ahead = (day - today.weekday()) % 7
    if way < 0 or (way == 0 and ahead and past):
        return today - timedelta(7 - ahead)
    return today + timedelta(ahead or 7 * way)


def yearly(today: date, way: int, past: bool | None, of_year: Callable[[int], Days]) -> Days:
    """What comes once a year: the latest that is over, the first to begin, or as the sentence has it."""
    all_of_them = []
    for year in range(today.year - _YEARS, today.year + _YEARS + 1):
        with suppress(ValueError):
            all_of_them.append(of_year(year))
    if way < 0:
        return max(days for days in all_of_them if days[1] < today)
    if way > 0:
        return min(days for days in all_of_them if days[0] > today)
    if past:
        return max(days for days in all_of_them if days[0] <= today)
    return min(days for days in all_of_them if days[1] >= today)


def day_of_month(today: date, day: int, past: bool | None) -> date:
    """The next month's day with this number, of the past the latest; today counts."""
    firsts = [months(today.year, today.month + away)[0] for away in range(-2, 3)]
    near = [first.replace(day=day) for first in firsts if day <= monthrange(first.year, first.month)[1]]
    return max(each for each in near if each <= today) if past else min(each for each in near if each >= today)


def nearest(today: date, fits: Callable[[date], bool]) -> date:
    """The nearest day that fits, at most eight years away."""
    for away in range(366 * _YEARS):
        for day in (today + timedelta(away), today - timedelta(away)):
            if fits(day):
                return day
    raise ValueError("no such day")


def week_of(first: date, last: date, number: int) -> Days:
    """The first (1), second, ... or last (-1) week of a period: one that has at least four of its days in it."""
    start = first + timedelta(3) if number > 0 else last - timedelta(3)
    return shift(start, "week", number - 1 if number > 0 else number + 1)


def weekday_of(first: date, last: date, day: int, number: int) -> date:
    """The first (1), second, ... or last (-1) Monday, Tuesday, ... of a period."""
    if number > 0:
        found = first + timedelta((day - first.weekday()) % 7 + 7 * (number - 1))
    else:
        found = last - timedelta((last.weekday() - day) % 7 - 7 * (number + 1))
    if not first <= found <= last:
        raise ValueError(f"no such day between {first} and {last}")
    return found


def holiday(which: str, year: int) -> date:
    """The day of "12-25", "11-4-thursday", "05-last-monday", "easter" or "advent", and "+1", "-46" days."""
    name, _, away = which.partition(" ")
    if name == "easter":
        day = _easter(year)
    elif name == "advent":
        day = date(year, 12, 25) - timedelta(date(year, 12, 25).isoweekday() + 21)
    elif name.count("-") == 2:
        month, number, weekday_name = name.split("-")
        first, last, _ = months(year, int(month))
        day = weekday_of(first, last, WEEKDAYS.index(weekday_name), -1 if number == "last" else int(number))
    else:
        day = date(year, *map(int, name.split("-")))
    return day + timedelta(int(away or 0))


def _easter(year: int) -> date:
    """Easter Sunday of the Gregorian calendar, by the algorithm of Meeus, Jones and Butcher."""
    a, (b, c) = year % 19, divmod(year, 100)
    (d, e), g = divmod(b, 4), (8 * b + 13) // 25
    h = (19 * a + b - d - g + 15) % 30
    i, k = divmod(c, 4)
    m = (a + 11 * h) // 319
    r = (2 * e + 2 * i - k - h + m + 32) % 7
    n = h - m + r + 90
    return date(year, n // 25, (h - m + r + n // 25 + 19) % 32)
