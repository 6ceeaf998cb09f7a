"""What the words of a date mean: the days they name, Nothing where they are surely no date, None where they are not
the rule's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, timedelta

from memlite import calendar_days as calendar
from memlite.calendar_days import Days
from memlite.date_named import Named, Nothing, Words
from memlite.date_tokens import Token


def nothing(_: Words) -> Nothing:
    return Nothing()


# So far away


def away(words: Words) -> Named:
    """ "gestern", "先週"."""
    unit, count = words.token("away").value
    return Named(calendar.shift(words.today, unit, count))


def unit(words: Words) -> Named | None:
    """ "last week", "nächstes Jahr", "上个月"."""
    way, which = words.way(), words.token("unit").value
    if way is None or which == "day":
        return None
    if which == "weekend" and way == 0 and words.today.weekday() < 5:
        way = -1 if words.is_past() else 0  # on a Monday: "we went there this weekend"
    return Named(calendar.shift(words.today, which, way))


def the_weekend(words: Words) -> Named | None:
    """ "am Wochenende" can be either: the sentence has to tell. 周末我会 can be every weekend."""
    past = words.is_past()
    if words.token("unit").value != "weekend" or past is None or not (past or words.language.spaced):
        return None
    return Named(calendar.shift(words.today, "weekend", -1 if past and words.today.weekday() < 5 else 0))


def ago(words: Words) -> Named | Nothing | None:
    return _from_today(words, -1)


def ahead(words: Words) -> Named | Nothing | None:
    if words.is_past():  # "I wrote it in three days" is how long it took
        return Nothing()
    return _from_today(words, 1)


def within(words: Words) -> Named | Nothing | None:
    """ "within two weeks": some time until then."""
    counted = span(words)
    if not counted:
        return None
    if words.is_past():
        return Nothing()
    day = later(words.today, counted, 1)
    return Named((words.today, day, "approximate"), day=day)


def from_word(words: Words) -> Named | Nothing | None:
    """ "heute in einer Woche", "Freitag in einer Woche"."""
    counted, named = span(words), away(words) if words.has("away") else weekday(words)
    if not counted or not isinstance(named, Named):
        return named
    return Named(calendar.one(later(named.days[0], counted, 1 if words.token("side").kind == "I" else -1)))


def days_and_weekday(words: Words) -> Named | None:
    """ "in three days on Friday", "three days ago on Friday": who counts is a day out at times."""
    counted, sign = span(words), -1 if words.has("ago") else 1
    if not counted or counted[-1][1] != "day" or (sign > 0 and words.is_past()):
        return None
    return Named(calendar.one(beside(later(words.today, counted, sign), words, words.number("weekday"))))


def beside(day: date, words: Words, weekday: int) -> date:
    """The weekday that is meant beside a counted day: of days the nearest, of weeks the one in that week, else the
    next.
    """
    counted = span(words)
    unit, ahead = counted[-1][1] if counted else "day", (weekday - day.weekday()) % 7
    if unit == "day":
        return day + timedelta(ahead if ahead < 4 else ahead - 7)
    if unit in ("week", "fortnight"):
        return day + timedelta(weekday - day.weekday())
    return day + timedelta(ahead)


def _from_today(words: Words, sign: int) -> Named | Nothing | None:
    counted = span(words)
    if not counted:
        return None
    if words.has("vague"):
        return Nothing()
    day, (count, which) = later(words.today, counted, sign), counted[0]
    exact = len(counted) > 1 or words.token("span").kind == "q"
    days = calendar.one(day) if exact else calendar.shift(words.today, which, sign * count)
    return Named(about(days) if words.all("about", "about_") else days, day=day)


def span(words: Words) -> list[tuple[int, str]] | None:
    """So many units: "two weeks and three days" is [(2, "week"), (3, "day")]."""
    found, count = [], 0
    for token in words.all("span"):
        if token.kind == "q":
            found.append((int(token.value), "day"))
        elif token.kind in "0nca":
            if words.said(token).startswith("0"):
                return None  # 07年以后
            count = int(token.value[0]) if isinstance(token.value, list) else int(token.value)
        elif token.kind == "G" or (token.kind == "d" and words.language.code == "zh"):
            return None  # the name of a month, the number of a day
        elif token.kind in "uYd":
            found.append((count, str(token.value)))
    return found


def later(day: date, counted: Sequence[tuple[int, str]], sign: int) -> date:
    for count, which in counted:
        day = calendar.later(day, which, sign * count)
    return day


def about(days: Days) -> Days:
    return days[0], days[1], "approximate"


def part_of(days: Days, which: int) -> Days:
    """About the first (0), second or last (2) third of a period."""
    first, length = days[0], (days[1] - days[0]).days + 1
    marks = [first + timedelta(round(length * third / 3)) for third in range(4)]
    return marks[which], marks[which + 1] - timedelta(1), "approximate"


def part_of_unit(words: Words) -> Named | None:
    """ "Ende des Monats", 年末: of this one."""
    which, before = words.token("unit").value, words.before
    if which not in ("month", "year") or (before and before.kind in "0nca"):
        return None
    return Named(part_of(calendar.shift(words.today, which, 0), words.number("early")))


# Weekdays


def weekday(words: Words) -> Named | Nothing | None:
    token, way = words.token("weekday"), words.way()
    if way is None and _is_no_weekday(words, token):
        return Nothing()
    ways, day = words.all("way", "way_"), words.number("weekday")
    this = any(each.kind == "H" for each in ways)
    if way is not None and not (this and way) and any(words.said(each) in words.language.by_week for each in ways):
        return Named(calendar.one(calendar.shift(words.today, "week", way)[0] + timedelta(day)), weekday=day)
    found = calendar.weekday(words.today, day, way or 0, None if way else words.is_past())
    if way and not this and words.language.code != "en" and abs((found - words.today).days) == 1:
        found += timedelta(7 * way)  # of tomorrow nobody says "next Friday", but "this coming Friday"
    return Named(calendar.one(found), weekday=day, alone=way is not None or _stands_alone(words))


def _is_no_weekday(words: Words, token: Token) -> bool:
    """ "un viernes", 一周一次, "Santo Domingo"."""
    before, language = words.before, words.language
    if before is None:
        return False
    if before.kind == "a" or (not language.spaced and before.kind in "c0n" and before.end == token.start):
        return True
    name = language.spaced and language.code not in ("en", "de") and words.is_capital(token)
    return name and not words.has("part") and before.kind not in "tp|.,WDg"


def _stands_alone(words: Words) -> bool:
    """Not every Monday ("le lundi"), nor the first one; in English only in a list: its rules know the others."""
    before, after = words.before, words.after
    if before and (before.kind == "o" or (before.kind in "tp" and words.said(before) in words.language.habitual)):
        return False
    listed = (before and before.kind in "pg,-/") or (words.has("list") and after)
    return words.language.code != "en" or bool(listed)


def weekday_and_number(words: Words) -> Named | None:
    """ "Monday 21": the nearest month in which it is one."""
    day, number = words.number("weekday"), words.number("d")
    if not 1 <= number <= 31 or _other_unit(words) or (words.token("d").kind == "c" and not words.has("mark")):
        return None
    if any(words.said(token) in words.language.habitual for token in words.all("mark")):
        return None  # "sexta as 4": at four
    found = calendar.nearest(words.today, lambda each: each.day == number and each.weekday() == day)
    return Named(calendar.one(found))


# Months and their days


def month_number(words: Words) -> int:
    return words.number("m") + 1 if words.token("m").kind in "Mm" else words.number("m")


def month_and_day(words: Words) -> Named | None:
    """ "2. Oktober", "4th of July 1995", "Freitag, den 5. Mai", "2019年1月4日"."""
    month, day = month_number(words), words.number("d")
    if not 1 <= month <= 12 or not 1 <= day <= 31 or _other_unit(words):
        return None
    if words.language.spaced and not words.has("y"):
        if words.token("d").kind == "c" and (words.token("m").kind != "M" or words.language.code == "en"):
            return None  # "one may"
        if words.ends_with("d") and words.after and words.after.kind in "uk0n%/-":
            return None  # "in March 3 weeks", "May 5-7"
    if words.has("y") and words.token("y").kind in "0n" and len(words.said(words.token("y"))) != 2:
        return None
    date(2000, month, day)  # a February 30th is none
    weekdays = words.all("weekday", "weekday_")
    return of_year(
        words, lambda year: calendar.one(date(year, month, day)), int(weekdays[0].value) if weekdays else None
    )


def digits(words: Words) -> Named:
    """ "23/06/2018", "2018-06"."""
    year, month, day = words.token("date").value
    year = _full_year(year, words.today) if year < 100 else year
    days = calendar.months(year, month) if day is None else calendar.one(date(year, month, day))
    return Named(days, relative=False)


def digits_without_year(words: Words) -> Named | None:
    """ "28.10.", "friday 7/6"; of "1/2", "7.6" and "12-5" something has to say that it is a date."""
    (month, day, doubt), after = words.token("date").value, words.after
    signs = {token.kind for token in words.all("sign")}
    alone = words.before is None and after is None
    said = words.has("weekday") or words.has("listed") or words.way() is not None or alone
    said = said or (doubt == "/" and bool(signs & {"p", "t"})) or (doubt == "-" and bool(signs & {"p", "I"}))
    if doubt and not said:
        return None
    if doubt and not words.has("weekday") and after and after.kind in ("u" if doubt == "/" else "ukP0n"):
        return None
    if doubt == "-" and words.has("weekday") and day <= 12:
        return None  # hours: "lunes 3-8"
    date(2000, month, day)
    day_of_week = words.number("weekday") if words.has("weekday") else None
    return of_year(words, lambda year: calendar.one(date(year, month, day)), day_of_week)


def listed_day(words: Words) -> Named:
    """The 18 of "18 and 19 June"."""
    month, day = month_number(words), words.number("d")
    return of_year(words, lambda year: calendar.one(date(year, month, day)))


def day_number(words: Words) -> Named | None:
    """ "el día 18", "29日": of this month, or as the sentence has it."""
    token, number, after = words.token("d"), words.number("d"), words.after
    if not 1 <= number <= 31 or _other_unit(words):
        return None
    if not words.language.spaced:
        if words.has("unit") or (words.before is None and after is None) or (token.kind == "c" and number == 1):
            return None  # 12号 can be any number, 一日 is a day
        if words.language.code == "ko" and token.kind == "c":
            return None  # 한 일
        if words.language.code == "ja" and (number == 1 or (number < 11 and not (after and after.kind in "pf"))):
            return None  # 3日 can be three days
    return Named(calendar.one(calendar.day_of_month(words.today, number, words.is_past())), number=number)


def dotted_day(words: Words) -> Named | None:
    """ "am 17."."""
    before = words.before
    return day_number(words) if before and words.said(before) in words.language.before_day else None


def ordinal_day(words: Words) -> Named | None:
    """ "op de 5e"; "en huitième" is no day."""
    return day_number(words) if words.said(words.token("d"))[0].isdecimal() else None


def _other_unit(words: Words) -> bool:
    """Whether another unit stands where "day" may: "semana 3"."""
    return any(token.kind == "u" and token.value != "day" for token in words.all("unit", "mark"))


def month(words: Words) -> Named | None:
    """ "im März", "next May", "2018年12月", "Ende März"."""
    number, after = month_number(words), words.after
    if not 1 <= number <= 12 or (words.said(words.token("m")) == "一" and not (after and after.kind in "pfEd")):
        return None  # 一月 can be one month
    named = of_year(words, lambda year: calendar.months(year, number))
    return replace(named, days=part_of(named.days, words.number("early"))) if words.has("early") else named


# Weeks, seasons, years


def weekday_of_period(words: Words) -> Named:
    """ "the last Monday of May 2019"."""
    which, day, number = words.number("which"), words.number("weekday"), month_number(words)

    def days(year: int) -> Days:
        first, last, _ = calendar.months(year, number)
        return calendar.one(calendar.weekday_of(first, last, day, which))

    return of_year(words, days)


def unit_of_period(words: Words) -> Named | None:
    """ "the last week of May 2019", "the third month of 2019", "the first day of 2012"."""
    which, counted = words.number("which"), words.token("unit").value
    if counted == "month" and not words.has("m") and -1 <= which <= 12:
        return of_year(words, lambda year: calendar.months(year, which if which > 0 else 12))
    if counted not in ("day", "week") or which > 53:
        return None

    def days(year: int) -> Days:
        first, last, _ = calendar.months(year, month_number(words)) if words.has("m") else calendar.whole_year(year)
        if counted == "week":
            return calendar.week_of(first, last, which)
        return calendar.one(first + timedelta(which - 1) if which > 0 else last + timedelta(which + 1))

    return of_year(words, days)


def season(words: Words) -> Named:
    start = words.number("season")
    return of_year(words, lambda year: calendar.months(year, start, 3))


def holiday(words: Words) -> Named:
    which = str(words.token("holiday").value)
    named = of_year(words, lambda year: calendar.one(calendar.holiday(which, year)))
    return replace(named, holiday=words.way() is None and not words.has("y"))


def named_year(words: Words) -> Named | None:
    """ "in 2019", "Jahr 2009", "08年"; "in 2000 cases" and 20年 are none."""
    token, after, year = words.token("y"), words.after, _year(words)
    if token.kind in "n0" and not (words.said(token).startswith("0") or words.number("y") > 31):
        return None
    if words.has("unit") and words.token("unit").value != "year":
        return None
    if words.has("on") and not (1900 <= year < 2100 and not (after and after.kind in "uYMmk0n%-/")):
        return None
    return Named(calendar.whole_year(year), relative=False)


def era(words: Words) -> Named:
    """令和2年5月1日."""
    year = words.number("era") + words.number("y")
    days = calendar.whole_year(year)
    if words.has("d"):
        days = calendar.one(date(year, words.number("m"), words.number("d")))
    elif words.has("m"):
        days = calendar.months(year, words.number("m"))
    return Named(days, relative=False)


def of_year(words: Words, days: Callable[[int], Days], day_of_week: int | None = None) -> Named:
    """What comes once a year: of the year named, else of the one that its weekday or the sentence shows."""
    if words.has("y"):
        return Named(days(_year(words)), relative=False)
    way = words.way()
    if way == 0:
        return Named(days(words.today.year), of_year=days)
    if day_of_week is not None:
        near = [calendar.yearly(words.today, 0, past, days) for past in (True, False)]
        fitting = [each for each in near if each[0].weekday() == day_of_week]
        if fitting or way:
            return Named(min(fitting or near, key=lambda each: abs(each[0] - words.today)), of_year=days)
    return Named(calendar.yearly(words.today, way or 0, words.is_past(), days), of_year=days)


def _year(words: Words) -> int:
    year = words.number("y")
    return _full_year(year, words.today) if words.token("y").kind != "y" and year < 100 else year


def _full_year(year: int, today: date) -> int:
    """Of a year's last two digits the year: one of the last eighty or the next twenty."""
    year += today.year // 100 * 100
    return year - 100 if year >= today.year + 20 else year + 100 if year < today.year - 80 else year
