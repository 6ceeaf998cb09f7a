"""What LangGraph's items, filters and namespaces are among a memory's facts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from langgraph.store.base import MatchCondition, PutOp, SearchOp, get_text_at_path

from memlite.errors import InvalidInputError, excerpt
from memlite.records import Fact
from memlite.words import digest

VALUE = "value."  # what the members of a value begin with in a fact's metadata
ITEMS = {"namespace": {"exists": True}}  # which facts of the store's agent are items


def encoded(label: str) -> str:
    """A label so that it ends nowhere but at its end, and no blank is trimmed of it."""
    return re.sub(r"[%/\s]", lambda found: quote(found[0], safe=""), label)


def text(value: Mapping[str, Any], paths: Sequence[str] | None) -> str:
    """What is searched of a value: what stands at these paths, or for None all its texts."""
    found = _texts(value) if paths is None else (each for path in paths for each in get_text_at_path(value, path))
    return "\n".join(each for each in found if each.strip())


def metadata(op: PutOp, text: str, now: datetime) -> dict[str, Any]:
    """What a new fact keeps of an item. Raises InvalidInputError for a value that is no JSON object."""
    value = op.value
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise InvalidInputError(f"the value is {excerpt(value)}, expected a mapping whose names are texts.")
    return {
        **{f"{VALUE}{name}": each for name, each in value.items()},
        "namespace": list(op.namespace),
        "under": ["/".join(map(encoded, op.namespace[:depth])) for depth in range(1, len(op.namespace) + 1)],
        "key": op.key,
        "text": digest(text),
        "ttl": op.ttl,
        "created_at": now.isoformat(),  # a fact whose text changes has a new row
        "updated_at": now.isoformat(),
    }


def end(now: datetime, minutes: float) -> datetime:
    """When an item ends that lasts so long from now. Raises InvalidInputError."""
    try:
        return now + timedelta(minutes=minutes)
    except (TypeError, OverflowError, ValueError) as error:
        raise InvalidInputError(f"ttl is {excerpt(minutes)}, expected minutes: {error}.") from error


def parts(fact: Fact) -> dict[str, Any]:
    """What an item is made of."""
    about = fact.metadata
    return {
        "namespace": tuple(about["namespace"]),
        "key": about["key"],
        "value": {name.removeprefix(VALUE): each for name, each in about.items() if name.startswith(VALUE)},
        "created_at": datetime.fromisoformat(about["created_at"]),
        "updated_at": datetime.fromisoformat(about["updated_at"]),
    }


def _texts(value: Any) -> Iterator[str]:
    """The texts in a value; of numbers and booleans nothing, nobody asks for them in words."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)


def conditions(op: SearchOp) -> dict[str, Any]:
    """The namespace and filter of a search as conditions on metadata."""
    under = {"under": {"contains": "/".join(map(encoded, op.namespace_prefix))}} if op.namespace_prefix else {}
    return {
        **ITEMS,
        **under,
        **{f"{VALUE}{name}": _operators(name, wanted) for name, wanted in (op.filter or {}).items()},
    }


def _operators(name: str, wanted: Any) -> Any:
    if not isinstance(wanted, Mapping):
        return wanted
    if not all(isinstance(each, str) and each.startswith("$") for each in wanted):
        raise InvalidInputError(
            f"the filter on {excerpt(name)} is {excerpt(wanted)}, expected a text, number, boolean or null, or "
            "operators like $gt: members of members cannot be filtered by."
        )
    return {each.removeprefix("$"): value for each, value in wanted.items()}


def matches(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    """Whether a namespace begins, or ends, as a condition says; "*" is any label."""
    count = len(condition.path)
    part = namespace[:count] if condition.match_type == "prefix" else namespace[max(0, len(namespace) - count) :]
    return len(part) == count and all(wanted in ("*", label) for wanted, label in zip(condition.path, part))
