"""The days of what a fact tells: as somebody gives them, as its own text names them, and since when it is true."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable, Sequence
from datetime import date, datetime, tzinfo
from typing import Any, NamedTuple

from memlite import calendar_days as calendar
from memlite import dates, instants
from memlite.date_words import MOVED, language, languages_of
from memlite.records import ResolvedDate


class Event(NamedTuple):
    """Calendar days as ISO text, both included, and how exact they are: as of a ResolvedDate."""

    first: str
    last: str
    precision: str


class _Place(NamedTuple):
    """Where a text names the days of an event, in characters; end is the first one after it."""

    start: int
    end: int
    event: Event


# Strings, not compiled patterns: few processes ever need them.
_DAY = r"\d{4}-\d\d-\d\d"
_ISO = r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[T ]\d\d?[:.]?\d\d.*)?)?)?"
_ABOUT = r"(?i)(?:around|about|approximately|roughly|circa|ca?\.?)\s+(?:the\s+)?(?=\S)"
# As `dates.shown` writes them, and years from one to another.
_PERIODS = (
    rf"(?i)(?<![\w-])(?:(?P<unit>week|weekend) of (?P<day>{_DAY})|(?P<first>{_DAY})/(?P<last>{_DAY})"
    r"|(?:from|between|von|zwischen|de|entre|van|tussen|dal?) (?P<year>(?:19|20)\d\d)"
    r"(?: ?[-–—] ?| (?:to|until|till|through|and|bis|und|à|a|et|y|e|hasta|até|tot|en|al) )"
    r"(?P<end_year>(?:19|20)\d\d))(?![\w-])"
)
_TO = r"\s*(?:[-–—]|\b(?:to|until|till|through|and)\b)\s*(?:the\s+)?"
_FROM = r"(?i)\b(?:from|between)\s+(?:the\s+)?"
_YEAR = r"\d{4}|\d[./-]\d\d?[./-]\d\d|年|년"  # no date but a relative one is without
_LONGEST = 2000  # characters of a text that are looked at: a fact is a sentence
_PARTS = {"early": 0, "mid": 1, "late": 2}
_QUOTED = (
    r"“[^“”\n]+”|\"[^\"\n]+\"|«[^«»\n]+»|‘[^‘’\n]+’(?!\w)|(?<!\w)'[^'\n]+'(?!\w)|"
    r"《[^《》\n]+》|『[^『』\n]+』|「[^「」\n]+」"
)
_SINCE = r"(?i)\b(?:since|from|as of|starting(?: in| on| from)?|seit|depuis|desde|dal?|sinds|vanaf|ab)\s+(?:the\s+)?$"
_SINCE_AFTER = r"\s*(?:から|以来|부터|起)"
# Who did one of these is another one since then.
_CHANGED = (
    r"(?i)\b(?:became|quit|moved|started|began|got|joined|married|switched|left|stopped|retired|graduated|divorced|"
    r"changed|adopted)\b"
)
# What somebody is or has, in English; "has" before what is no participle.
_STATE = (
    r"(?i)\b(?:is|are|am|lives?|works?|owns?|likes?|loves?|prefers?|enjoys?|wants?|needs?|hates?|speaks?|plays?|"
    r"drives?|keeps?|teach(?:es)?|stud(?:ies|y)|uses?|knows?|attends?|runs?|ha(?:s|ve) (?:an?|the|no))\b"
)


def read(when: str, said: datetime) -> Event | None:
    """The days of "2025-05-11", "2025-05", "2025" or "first/last" of these; of a date in words that needs no other
    day, such as "summer 2024" or "14 June 2025"; and of "around" any of them. None for anything else: a date that
    cannot be read is no date.

    said: when, for a year of two digits.
    """
    text = when.strip()
    if about := re.match(_ABOUT, text):
        found = read(text[about.end() :], said)
        return found and found._replace(precision="approximate")
    first, between, last = text.partition("/")
    start, end = _iso(first.strip()), _iso(last.strip())
    if between and start and end:
        return _from_to(start, end) if start.first <= end.last else None
    return _iso(text) or _in_words(text, said)


def _iso(text: str) -> Event | None:
    match = re.fullmatch(_ISO, text)
    if not match:
        return None
    year, month, day = (int(part) if part else None for part in match.groups())
    try:
        first = date(year or 0, month or 1, day or 1)
    except ValueError:
        return None
    if day:
        return Event(first.isoformat(), first.isoformat(), "day")
    last = first.replace(month=month or 12)
    last = last.replace(day=monthrange(last.year, last.month)[1])
    return Event(first.isoformat(), last.isoformat(), "month" if month else "year")


def _in_words(text: str, said: datetime) -> Event | None:
    places = _places(text, said)
    if len(places) == 1 and (places[0].start, places[0].end) == (0, len(text)):
        return places[0].event
    return None


def _from_to(start: Event, end: Event) -> Event:
    return Event(start.first, end.last, start.precision if start.precision == end.precision else "day")


def named(
    text: str, said: datetime, names: Iterable[str] = (), *, relative: bool = False, given: Event | None = None
) -> Event | None:
    """The days that a text names which was said then; of several those that are told most exactly, the first of these.

    names: of what the text mentions: a date in a name, or between quotation marks, is none. relative: of a text that
    names no others, those that depend on the day on which it was said, where they are sure. given: days that a model
    gives: of several those that begin with them, and where the text names none these.
    """
    places = _places(text, said, names) if re.search(_YEAR, text) else []
    if not places and relative:
        places = _places(text, said, names, relative=True)
    found = [place.event for place in places]
    if given and not any(event.first < given.first <= event.last for event in found):
        found = [event for event in found if event.first == given.first] or found or [given]
    elif given:  # in a period that the text names
        return given
    return max(found, key=lambda event: len(dates.shown(ResolvedDate("", *event))), default=None)


def rewritten(text: str, before: Event | None, observed: datetime, now: datetime, names: Iterable[str]) -> Event | None:
    """The days of a text that somebody writes now in the place of one with these days: those it names, or the same ones
    where they still stand in it. observed: when the one before was said.
    """
    if found := named(text, now, names):
        return found
    if before and before in (each.event for each in _places(text, observed, names, relative=True)):
        return before
    return named(text, now, names, relative=True)


def of_resolved(found: ResolvedDate) -> Event:
    """The days of a date that was resolved; of "early May" those of its first third."""
    days = (date.fromisoformat(found.start), date.fromisoformat(found.end), found.precision)
    return _event(found.expression, days)


def _event(expression: str, days: calendar.Days) -> Event:
    part = re.match(r"(?i)(early|mid|late)\b", expression)
    if part and days[2] == "month":
        from memlite.date_meanings import part_of  # here, for importing memlite has no use for it

        days = part_of(days, _PARTS[part[1].lower()])
    return Event(days[0].isoformat(), days[1].isoformat(), days[2])


def _places(text: str, said: datetime, names: Iterable[str] = (), *, relative: bool = False) -> list[_Place]:
    """Where a text names days, in its order."""
    text = text[:_LONGEST]
    places = [place for match in re.finditer(_PERIODS, text) if (place := _period(match))]
    taken = [(place.start, place.end) for place in places]
    taken += [match.span() for match in re.finditer(_QUOTED, text)]
    taken += [match.span() for name in names if name for match in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text)]
    sure = {each.expression for each in dates.resolve(text, said)} if relative else set()
    found = [
        _Place(each.start, each.end, _event(each.expression, (each.first, each.last, each.precision)))
        for each in dates.find(text, said)
        if (not each.relative or each.expression in sure)
        and not any(
            start < each.end and each.start < end and (each.relative or text[start:end] != each.expression)
            for start, end in taken
        )
    ]
    return sorted([*places, *_joined(text, found)])


def _period(match: re.Match[str]) -> _Place | None:
    try:
        if match["unit"]:
            days = calendar.shift(date.fromisoformat(match["day"]), match["unit"].lower(), 0)
            return _Place(*match.span(), _event("", days))
        first, last = (date.fromisoformat(match[name]) if match["first"] else None for name in ("first", "last"))
    except ValueError:  # no such day
        return None
    if first and last:
        return _Place(*match.span(), Event(match["first"], match["last"], "approximate")) if first <= last else None
    if match["year"] > match["end_year"]:
        return None
    return _Place(*match.span(), Event(f"{match['year']}-01-01", f"{match['end_year']}-12-31", "year"))


def _joined(text: str, found: Sequence[_Place]) -> list[_Place]:
    """The dates of a text, those from one to another as one; of what was moved from one to another that one counts."""
    joined: list[_Place] = []
    for place in found:
        if not (joined and re.fullmatch(_TO, text[joined[-1].end : place.start])):
            joined.append(place)
            continue
        first = joined.pop()
        opening = re.search(rf"{_FROM}$|\A$", text[: first.start])
        moved = opening and re.search(MOVED, text[: opening.start()])
        if first.event.first > place.event.last or moved or not opening:
            joined += [place] if moved else [first, place]
        else:
            joined.append(_Place(first.start, place.end, _from_to(first.event, place.event)))
    return joined


def columns(event: Event | None, text: str, observed: int, offset: int, zone: tzinfo | None) -> dict[str, Any]:
    """What a new fact has of its event: the days and, where they came before it was said, since when it is true.

    observed: when that was, in UTC milliseconds, and its offset in minutes; zone: as of `instants.beside`.
    """
    if event is None:
        return {}
    first = begins(text, event, instants.local(observed, offset))
    return {
        "event_start": event.first,
        "event_end": event.last,
        "event_precision": event.precision,
        "valid_from": first and instants.midnight(first, observed, offset, zone),
    }


def begins(text: str, event: Event, said: datetime) -> date | None:
    """From which day on a fact is true whose event came before it was said; None where from when it was said on.

    What somebody is or has ("Ana lives in the house built in 1950") is not true since that day, unless it says so. Of a
    period that is not over ("in 2025", "this week") the sentence has to speak of the past.
    """
    today = said.date().isoformat()
    if event.first >= today:
        return None
    place = next((each for each in _places(text, said, relative=True) if each.event == event), None)
    start, end = (place.start, place.end) if place else (len(text), len(text))
    before, after = text[:start], text[end:]
    since = re.search(_SINCE, before) or re.match(_SINCE_AFTER, after)
    if not since and not re.search(_CHANGED, before):
        if re.search(_STATE, before):
            return None
        if event.last >= today and not language(languages_of(text)[0]).is_past(text, start, end):
            return None
    return date.fromisoformat(event.first)
