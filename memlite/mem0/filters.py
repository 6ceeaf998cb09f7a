"""mem0's `filters`: ids and conditions on metadata in one mapping, read into a scope's ids and memlite's filter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlite import filters
from memlite.errors import InvalidInputError, excerpt

IDS = ("user_id", "agent_id", "run_id")

ANY = "*"
# What mem0 keeps beside the metadata and memlite in columns of its own.
_COLUMNS = ("attributed_to", "created_at", "updated_at", "expiration_date", "hash", "memory", "data")


def read_filters(given: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """The ids and the conditions of a filter. An id stands at the top or in an AND there, where it holds for all.

    Raises InvalidInputError without an id, and for what cannot be asked.
    """
    ids: dict[str, Any] = {}
    conditions = _read({} if given is None else given, ids, 0)
    if not ids:
        raise InvalidInputError(
            "filters has no user_id, agent_id or run_id: say whose memory it is with at least one, "
            "as in filters={'user_id': 'ana'}."
        )
    return ids, conditions


def id_text(value: object) -> str:
    """An id as a text: mem0 takes numbers as well."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value  # type: ignore[return-value]


def _read(given: object, ids: dict[str, str] | None, depth: int) -> dict[str, Any]:
    """A filter in memlite's form, its ids moved to `ids`; None where an id would not hold for all."""
    if not isinstance(given, Mapping):
        raise InvalidInputError(f"filters has {excerpt(given)}, expected a dict of conditions.")
    if depth > filters.MAX_DEPTH:
        raise InvalidInputError(f"filters is nested more than {filters.MAX_DEPTH} levels deep.")
    found: list[dict[str, Any]] = []
    for key, wanted in given.items():
        if key in filters.LOGICAL:
            within = ids if key == "AND" else None
            found.append({key: [_read(each, within, depth + 1) for each in _parts(key, wanted)]})
        elif key in IDS:
            _add_id(ids, key, wanted)
        elif key in _COLUMNS:
            raise InvalidInputError(
                f"filters has {key}, which memlite keeps apart from the metadata and does not filter by: put what you "
                "filter by in the metadata of add(); of time, search() takes reference_date, and so does the question."
            )
        else:
            found.append({key: _condition(wanted)})
    return found[0] if len(found) == 1 else {"AND": found} if found else {}


def _parts(key: str, wanted: object) -> list[Any] | tuple[Any, ...]:
    if not isinstance(wanted, (list, tuple)) or not wanted:
        raise InvalidInputError(f"{key} has {excerpt(wanted)}, expected a list of at least one filter.")
    return wanted


def _condition(wanted: object) -> object:
    if wanted == ANY:
        return {"exists": True}
    return {"in": wanted} if isinstance(wanted, (list, tuple)) else wanted


def _add_id(ids: dict[str, str] | None, key: str, wanted: object) -> None:
    if ids is None:
        raise InvalidInputError(
            f"{key} stands inside OR or NOT: a search is of one scope. Put the ids at the top, or search once for each."
        )
    if wanted == ANY:  # whoever it is: the other ids say whose memory it is
        return
    if not isinstance(wanted, (str, int)):
        raise InvalidInputError(f"{key} is {excerpt(wanted)}, expected one id: a search is of one scope.")
    value = id_text(wanted)
    if ids.setdefault(key, value) != value:
        raise InvalidInputError(f"{key} is both {excerpt(ids[key])} and {excerpt(value)}, expected one id.")
