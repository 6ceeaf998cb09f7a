"""Instants: integer UTC milliseconds in the file, aware datetimes outside it."""

from __future__ import annotations

import time
from datetime import date, datetime, timedelta, timezone, tzinfo
from datetime import time as clock

from memlite.errors import InvalidInputError, excerpt

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
LAST = (datetime.max.replace(tzinfo=timezone.utc) - _EPOCH) // timedelta(milliseconds=1)  # of the calendar
_FIRST = (datetime.min.replace(tzinfo=timezone.utc) - _EPOCH) // timedelta(milliseconds=1)


def now() -> int:
    """This moment in UTC milliseconds."""
    return time.time_ns() // 1_000_000


def read(value: object, zone: tzinfo | None, name: str) -> tuple[int, int]:
    """An instant a caller gave, as (UTC milliseconds, minutes east of UTC).

    value: a datetime, a date (its midnight), or ISO 8601 text. A naive one is in `zone`, None being the
    machine's own. Raises InvalidInputError for anything else.
    """
    if isinstance(value, str):
        text = value.strip()
        try:
            # Python 3.10 reads neither "Z" nor a date with a basic time; both are everywhere.
            value = datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] in "zZ" and text else text)
        except ValueError as error:
            raise InvalidInputError(
                f"{name} is {excerpt(value)}, expected ISO 8601 such as 2025-05-11T19:30:00+02:00."
            ) from error
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        raise InvalidInputError(f"{name} is a {type(value).__name__}, expected a datetime or ISO 8601 text.")
    try:
        aware = value if value.tzinfo else (value.replace(tzinfo=zone) if zone else value.astimezone())
        milliseconds = (aware - _EPOCH) // timedelta(milliseconds=1)
        _EPOCH + timedelta(milliseconds=milliseconds)  # in UTC it must be inside the calendar as well
        return milliseconds, _minutes(aware)
    except (OverflowError, OSError, ValueError) as error:
        raise InvalidInputError(f"{name} is {value!r}, which is outside the years 1 to 9999.") from error


def _minutes(aware: datetime) -> int:
    """Minutes east of UTC. Before zones were of whole minutes rather more, so that a midnight stays in its day."""
    return -(-(aware.utcoffset() or timedelta()) // timedelta(minutes=1))


def local(milliseconds: int, offset: int = 0) -> datetime:
    """The stored instant as an aware datetime in the offset it was given with."""
    zone = timezone(timedelta(minutes=offset)) if offset else timezone.utc
    instant = _EPOCH + timedelta(milliseconds=milliseconds)
    try:
        return instant.astimezone(zone)
    except OverflowError:  # the first or the last hours of the calendar, which another offset leaves
        return instant


def end_of_day(day: date) -> datetime:
    """The last moment of a day in UTC."""
    return datetime.combine(day, clock.max, timezone.utc)


def beside(milliseconds: int, observed: int, offset: int, zone: tzinfo | None) -> datetime:
    """A stored instant of what was observed at another one, given with `offset`.

    Where that is the offset of `zone` (None: the machine's) at that time, this one is in the zone as well: in summer it
    has another offset than in winter.
    """
    try:
        if _minutes(local(observed).astimezone(zone)) == offset:
            offset = _minutes(local(milliseconds).astimezone(zone))
    except (OverflowError, OSError, ValueError):  # the ends of the calendar
        pass
    return local(milliseconds, offset)


def midnight(of: date, observed: int, offset: int, zone: tzinfo | None) -> int:
    """The beginning of a calendar day in UTC milliseconds, for what was observed at an instant as in `beside`."""
    start, found = (of - _EPOCH.date()) // timedelta(milliseconds=1), _FIRST
    near = start - offset * 60_000
    for _ in range(2):  # where clocks are changed at midnight the first answer is an hour out
        near = start - _minutes(beside(max(_FIRST, near), observed, offset, zone)) * 60_000
        found = max(found, near)
    return found


def day(milliseconds: int, offset: int = 0) -> date:
    """The calendar day of a stored instant, in the offset it was given with."""
    return local(milliseconds, offset).date()


def optional(milliseconds: int | None, offset: int = 0) -> datetime | None:
    """`local` for a column that may be NULL."""
    return None if milliseconds is None else local(milliseconds, offset)
