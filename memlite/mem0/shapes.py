"""The dicts that mem0 returns, and the values that it takes, made from memlite's and into them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timezone
from typing import Any

from memlite import instants
from memlite.errors import InvalidInputError, excerpt
from memlite.records import Event, Fact, Hit

PROMOTED = ("actor_id", "role")  # of the metadata, in a memory's own keys


def memory(fact: Fact, score: float | None = None) -> dict[str, Any]:
    """A fact as mem0 shows a memory: `get` with a score of None."""
    said, written = (each.astimezone(timezone.utc).isoformat() for each in (fact.observed_at, fact.created_at))
    metadata = {key: value for key, value in fact.metadata.items() if key not in PROMOTED}
    shown: dict[str, Any] = {
        "id": fact.id,
        "memory": fact.text,
        "hash": hashlib.md5(fact.text.encode(), usedforsecurity=False).hexdigest(),
        "metadata": metadata or None,
        "score": score,
        "created_at": said,
        "updated_at": max(said, written),
        **fact.scope.given(),
        **{key: fact.metadata[key] for key in PROMOTED if key in fact.metadata},
    }
    if fact.by and "role" not in fact.metadata:  # of a raw message mem0 says the role instead
        shown["attributed_to"] = fact.by.lower() if fact.by.lower() in ("user", "assistant") else fact.by
    if fact.expires_at is not None:
        shown["expiration_date"] = fact.expires_at.astimezone(timezone.utc).date().isoformat()
    return shown


def closeness(hits: Sequence[Hit]) -> list[float]:
    """A score from 0 to 1 for each hit on the scale that mem0's thresholds are for: its cosine, or the mean of that and
    of the share of the query's words or names that it has, and no less than what ranks behind it. What orders them is
    memlite's own score, a probability.
    """
    scores: list[float] = []
    for hit in reversed(hits):
        assert hit.explain is not None  # the search was asked for it
        parts = hit.explain
        meaning, words = parts.semantic or 0.0, max(parts.keyword, parts.entity)
        near = max(meaning, (meaning + words) / 2, parts.exact)
        scores.append(max(near, scores[-1]) if scores else near)
    return scores[::-1]


def details(hit: Hit, score: float, threshold: float) -> dict[str, Any]:
    """mem0's `score_details`, with what memlite knows besides: its probability, and what of the query was found."""
    parts = hit.explain
    assert parts is not None
    return {
        "semantic_score": parts.semantic or 0.0,
        "bm25_score": parts.keyword,
        "entity_boost": parts.entity,
        "raw_score": score,
        "max_possible_score": 1.0,
        "final_score": score,
        "threshold": threshold,
        "probability": parts.total,
        "words": list(parts.words),
        "entities": list(parts.entities),
    }


def history(memory_id: str, events: Sequence[Event], metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A fact's events as mem0's rows, oldest first. A deleted one's have lost their words."""
    rows: list[dict[str, Any]] = []
    before: str | None = None
    for event in events:
        if event.action == "CONFIRM":  # said once more: nothing of it has changed
            continue
        after = None if event.action == "DELETE" else event.text
        rows.append(
            {
                "id": str(event.id),
                "memory_id": memory_id,
                "old_memory": before,
                "new_memory": after,
                "event": event.action,
                "created_at": events[0].at.isoformat(),
                "updated_at": event.at.isoformat(),
                "is_deleted": event.action == "DELETE",
                "actor_id": metadata.get("actor_id"),
                "role": metadata.get("role"),
            }
        )
        before = after
    return rows


def expiry(value: object) -> datetime | None:
    """The last moment, in UTC, of the day until which a memory counts, as mem0 has it; None for none."""
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value)
        except ValueError:
            value = instants.local(*instants.read(value, timezone.utc, "expiration_date"))
    if isinstance(value, datetime):
        value = value.date()
    if not isinstance(value, date):
        raise InvalidInputError(f"expiration_date is {excerpt(value)}, expected a date such as 2026-12-31.")
    return instants.end_of_day(value)


def instant(value: object, name: str) -> datetime | date | str | None:
    """A time as mem0's platform takes it: Unix seconds (a day is the machine's), a datetime, or ISO 8601."""
    if value is None or isinstance(value, (str, date)):
        return value
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, timezone.utc).astimezone()
    except (ValueError, OverflowError, OSError):
        pass
    raise InvalidInputError(f"{name} is {excerpt(value)}, expected Unix time in seconds, a datetime or ISO 8601 text.")
