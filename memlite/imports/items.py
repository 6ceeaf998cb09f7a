"""What every source gives, whatever its format: conversations, ready facts, and what could not be used."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone, tzinfo
from typing import Any

import apsw

from memlite import instants
from memlite.errors import InvalidInputError
from memlite.records import LeftOut

_MILLISECONDS = 100_000_000_000  # a number of seconds above this, of the year 5138, is one of milliseconds


@dataclass(frozen=True, slots=True)
class Line:
    """A message as `add` takes it, with an id, and where in the file it stands."""

    place: str
    message: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation, or a piece of a long one; its id becomes the run's.

    at: when it began, for messages without a time before any that has one; None where the source does not say.
    begins: whether this is its first piece.
    """

    id: str
    place: str
    lines: Sequence[Line]
    title: str = ""
    at: datetime | None = None
    begins: bool = True


@dataclass(frozen=True, slots=True)
class Statement:
    """A ready fact: what `remember` takes, with the ids of whose it is, and what it said before, the oldest first."""

    id: str
    place: str
    fact: Mapping[str, Any]
    scope: Mapping[str, str] = field(default_factory=dict)
    before: Sequence[Mapping[str, Any]] = ()


Item = Conversation | Statement | LeftOut


def undated(place: str, value: object) -> LeftOut:
    """That the time of something could not be read."""
    return LeftOut(place, f"its time {value!r:.60} cannot be read: that of the message before it is taken")


def dated(place: str, value: object, zone: tzinfo | None) -> tuple[datetime | None, list[LeftOut]]:
    """A time as `when` reads it, or None and what is told where it cannot be read."""
    try:
        return when(value, zone), []
    except InvalidInputError:
        return None, [undated(place, value)]


def when(value: object, zone: tzinfo | None) -> datetime | None:
    """A time as exports write it: seconds or milliseconds since 1970, or ISO 8601; None for none.

    What is in UTC is an instant, and was said on the day that it was in `zone` (None: the machine's). Raises
    InvalidInputError for what cannot be read.
    """
    if value is None or value == "":
        return None
    if isinstance(value, str) and _is_number(value):
        value = float(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = value / 1000 if abs(value) > _MILLISECONDS else value
        try:
            return datetime.fromtimestamp(seconds, timezone.utc).astimezone(zone)
        except (ValueError, OverflowError, OSError) as error:
            raise InvalidInputError(f"{value!r} is no time") from error
    at, offset = instants.read(value, zone, "a time")
    found = instants.local(at, offset)
    try:
        return found if offset else found.astimezone(zone)
    except (OverflowError, OSError, ValueError):  # the ends of the calendar
        return found


def _is_number(text: str) -> bool:
    whole, _, part = text.strip().partition(".")
    return whole.isascii() and whole.isdecimal() and len(whole) > 8 and (not part or part.isdecimal())


def lines(place: str, id_: str, parts: Iterable[tuple[str, str | None, str]], at: datetime | None) -> list[Line]:
    """One message of a source as the messages that it is here: (role, name, text) each; the first has its id."""
    return [
        Line(
            place,
            {
                "role": role,
                "name": name,
                "content": text,
                "id": id_ if number == 1 else f"{id_}:{number}",
                "observed_at": at,
            },
        )
        for number, (role, name, text) in enumerate(parts, 1)
    ]


class Identifiers:
    """Ids for messages that have none: by what they say, so that a log that has grown is the old one and more.

    Of equal messages of a conversation each has its number. They are counted in a temporary database, which goes to
    disk where there are many.
    """

    def __init__(self) -> None:
        self._db = apsw.Connection("")
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("CREATE TABLE seen(digest BLOB PRIMARY KEY, times INTEGER NOT NULL) WITHOUT ROWID")
        self._db.execute("BEGIN")

    def of(self, *parts: str) -> str:
        """An id for a message of a conversation; parts: what makes it this one, the conversation among it."""
        digest = hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).digest()[:16]
        times: int = self._db.execute(
            "INSERT INTO seen VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1 RETURNING times", (digest,)
        ).get
        return f"{digest.hex()}-{times}"
