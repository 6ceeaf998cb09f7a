"""What callers give to the verbs, read and checked: each error says what was found and what was expected."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta, tzinfo

from memlite.errors import InvalidInputError, NotFoundError, excerpt
from memlite.records import AUDIT_KINDS, AuditKind, Finding
from memlite.scopes import check_text
from memlite.search import LANES

MOST = 1000  # hits, facts or events of one answer
MOST_KEPT = 1_000_000_000  # facts of a scope that a pruning may leave
MOST_TOKENS = 1_000_000  # of a context
OF_FILE: tuple[AuditKind, ...] = ("orphans",)  # what an audit finds in no scope
_SHORTEST_PREFIX = 4
_MOST_THREADS = 256


def zone(given: str | tzinfo | None) -> tzinfo | None:
    """The time zone of naive times; None is the machine's."""
    if given is None or isinstance(given, tzinfo):
        return given
    import zoneinfo  # here, for few name a zone

    try:
        return zoneinfo.ZoneInfo(given)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError, TypeError) as error:
        raise InvalidInputError(
            f"timezone is {excerpt(given)}, expected an IANA name such as Europe/Lisbon or a tzinfo "
            "(on Windows: pip install tzdata)."
        ) from error


def local_offset(zone: tzinfo | None) -> int:
    """Minutes east of UTC, now."""
    offset = datetime.now(zone).astimezone(zone).utcoffset()
    return int(offset.total_seconds() // 60) if offset else 0


def text(name: str, value: object) -> str:
    """A text that may be left out, trimmed."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} is a {type(value).__name__}, expected a text.")
    check_text(name, value)
    return value.strip()


def included(include: object) -> tuple[str, ...]:
    """What a search is to find."""
    names = (include,) if isinstance(include, str) else tuple(include) if isinstance(include, Collection) else ()
    if not names or not all(isinstance(name, str) and name in LANES for name in names):
        raise InvalidInputError(f"include is {excerpt(include)}, expected {' and/or '.join(LANES)}.")
    return tuple(dict.fromkeys(names))


def count(name: str, value: object, most: int = MOST) -> int:
    """A limit from 1 to `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InvalidInputError(f"{name} is {excerpt(value)}, expected a whole number from 1 to {most}.")
    return value


def threads(value: object) -> int:
    """How many threads a model may have."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST_THREADS:
        raise InvalidInputError(f"n_threads is {excerpt(value)}, expected a whole number from 1 to {_MOST_THREADS}.")
    return value


def milliseconds(name: str, seconds: object) -> int:
    """A duration of more than no time and less than a year."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < 31_536_000:
        raise InvalidInputError(f"{name} is {excerpt(seconds)}, expected seconds, more than 0 and less than a year.")
    return max(1, int(seconds * 1000))


def duration(name: str, value: object) -> int:
    """How long something takes, a timedelta or a number of days, more than none: in milliseconds."""
    try:
        length = value if isinstance(value, timedelta) else timedelta(days=value)  # type: ignore[arg-type]
        if timedelta(0) < length and not isinstance(value, bool):
            return max(1, round(length / timedelta(milliseconds=1)))
    except (TypeError, ValueError, OverflowError):
        pass
    raise InvalidInputError(f"{name} is {excerpt(value)}, expected a timedelta or a number of days, more than none.")


def age(name: str, value: object) -> timedelta | None:
    """How long ago something must be, or None."""
    if value is None or (isinstance(value, timedelta) and timedelta(0) <= value):
        return value
    raise InvalidInputError(f"{name} is {excerpt(value)}, expected a timedelta that is not negative.")


def probability(name: str, value: object) -> float:
    """A number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise InvalidInputError(f"{name} is {excerpt(value)}, expected a number from 0 to 1.")
    return float(value)


def kinds(given: object, *, of_scope: bool) -> tuple[AuditKind, ...]:
    """What an audit is to look for; None is all that there can be."""
    if given is None:
        return tuple(kind for kind in AUDIT_KINDS if not (of_scope and kind in OF_FILE))
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Collection) else ()
    if not names or not all(name in AUDIT_KINDS for name in names):
        raise InvalidInputError(f"kinds is {excerpt(given)}, expected any of {', '.join(AUDIT_KINDS)}.")
    if of_scope and any(name in OF_FILE for name in names):
        raise InvalidInputError(f"{', '.join(OF_FILE)} are of the whole file, not of a scope in it: leave the ids out.")
    return tuple(kind for kind in AUDIT_KINDS if kind in names)


def fixes(given: object) -> tuple[tuple[AuditKind, ...], tuple[str, ...]]:
    """What a fix is asked for: kinds, and the ids of findings or enough of their beginnings."""
    single = isinstance(given, (str, Finding))
    items = (given,) if single else tuple(given) if isinstance(given, Collection) else ()
    names = [item.id if isinstance(item, Finding) else item for item in items]
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidInputError(f"a fix was asked for {excerpt(given)}, expected kinds, or findings or their ids.")
    chosen = tuple(kind for kind in AUDIT_KINDS if kind in names)
    return chosen, tuple(id_prefix(name) for name in names if name not in AUDIT_KINDS)


def id_prefix(id: object) -> str:
    """An id, or enough of its beginning."""
    if not isinstance(id, str) or not id.strip() or not id.isascii():
        raise InvalidInputError(f"id is {excerpt(id)}, expected the id of a fact or message.")
    prefix = id.strip().lower()
    if len(prefix) < _SHORTEST_PREFIX:
        raise InvalidInputError(f"id is {excerpt(id)}; give at least its first {_SHORTEST_PREFIX} characters.")
    return prefix


def only(id: str, what: str, found: Sequence[tuple[int, str]]) -> tuple[int, str]:
    """The one (row id, id) that `id` means; raises NotFoundError for none or several."""
    exact = [row for row in found if row[1] == id.strip().lower()]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if not found:
        raise NotFoundError(f"no {what} {excerpt(id)} is visible here; `memlite list` shows the ids of facts.")
    raise NotFoundError(
        f"{excerpt(id)} begins the ids of several: {', '.join(uid for _, uid in found)}. Give more of it."
    )
