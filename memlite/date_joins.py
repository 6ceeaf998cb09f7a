"""What dates mean together: "the 15th" of "next month", two weeks before "Christmas"."""

from __future__ import annotations

from calendar import monthrange
from dataclasses import replace
from datetime import timedelta

from memlite import calendar_days as calendar
from memlite.calendar_days import Days
from memlite.date_meanings import about, beside, later, part_of, span
from memlite.date_named import Named, Nothing, Words


def from_date(words: Words) -> Named | Nothing:
    """ "two weeks before Christmas", "昨日の2日前"."""
    counted, named = span(words), words.named("date")
    if not counted or words.has("vague"):
        return Nothing()
    sign = -1 if words.token("side").kind in "BAZ" else 1
    return Named(calendar.one(later(named.days[0], counted, sign)), relative=named.relative)


def weekday_from_date(words: Words) -> Named | Nothing | None:
    """ "Sunday three weeks after June 15", "two months from today on Tuesday"."""
    day, found = words.named("day").weekday, from_date(words)
    if day is None or isinstance(found, Nothing):
        return None
    return replace(found, days=calendar.one(beside(found.days[0], words, day)), weekday=day)


def from_date_in_chinese(words: Words) -> Named | Nothing | None:
    """圣诞节前两周."""
    return from_date(words) if words.language.code == "zh" else None


def day_of_week(words: Words) -> Named | None:
    """ "Tuesday of last week"."""
    week, day = words.named("week"), words.named("day").weekday
    if week.days[2] != "week" or day is None:
        return None
    return replace(week, days=calendar.one(week.days[0] + timedelta(day)), weekday=day)


def day_of_month(words: Words) -> Named | None:
    """ "the 15th of next month", "来月の4日"."""
    month, year_of = words.named("month"), words.named("month").of_year
    number = words.number("d") if words.has("d") else words.named("day").number
    if number is None or not 1 <= number <= monthrange(month.days[0].year, month.days[0].month)[1]:
        return None
    if words.has("unit") and words.token("unit").value != "day":
        return None

    def numbered(days: Days) -> Days:
        return calendar.one(days[0].replace(day=number))

    return replace(
        month, days=numbered(month.days), of_year=(lambda year: numbered(year_of(year))) if year_of else None
    )


def weekday_of_month(words: Words) -> Named | None:
    """ "the first Monday of next month"."""
    month, day = words.named("month"), words.named("day").weekday
    if day is None:
        return None
    found = calendar.weekday_of(month.days[0], month.days[1], day, words.number("which"))
    return replace(month, days=calendar.one(found), of_year=None)


def date_of_year(words: Words) -> Named | None:
    """ "5. Mai letzten Jahres", "去年9月", "independence day of this year"."""
    year, named = words.named("year"), words.named("date")
    if named.of_year is None or named.days[2] == "approximate":
        return None
    return Named(named.of_year(year.days[0].year), relative=year.relative)


def month_of_year(words: Words) -> Named:
    """ "June of last year"."""
    year = words.named("year")
    return Named(calendar.months(year.days[0].year, words.number("m") + 1), relative=year.relative)


def season_of_year(words: Words) -> Named:
    """ "去年夏天"."""
    year = words.named("year")
    return Named(calendar.months(year.days[0].year, words.number("season"), 3), relative=year.relative)


def same_day_twice(words: Words) -> Named | None:
    """ "this Friday (June 15)": the date says it."""
    first, second = words.named("first"), words.named("second")
    if first.weekday is None or second.weekday is not None or (second.relative and second.of_year is None):
        return None
    if second.of_year and second.days[0].weekday() != first.weekday:
        near = [second.of_year(words.today.year + away) for away in (0, 1, -1)]
        second = replace(second, days=next((each for each in near if each[0].weekday() == first.weekday), second.days))
    return second


def number_after_date(words: Words) -> Named | None:
    """The 19 of 6월 18일과 19일."""
    first, second = words.named("first"), words.named("second")
    if first.number is not None or first.weekday is not None or second.number is None:
        return None
    return replace(first, days=calendar.one(first.days[0].replace(day=second.number)))


def about_date(words: Words) -> Named:
    """ "around 10 May", "5月10日ごろ"."""
    named = words.named("date")
    return replace(named, days=about(named.days))


def part_of_date(words: Words) -> Named:
    """ "Ende letzten Jahres", "上月底"."""
    named = words.named("date")
    return replace(named, days=part_of(named.days, words.number("early")), of_year=None)


def same(words: Words) -> Named:
    return words.named("date")
