"""An export for people: Markdown, a heading for each scope, each fact before what it replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator

import apsw

from memlite import facts, instants
from memlite.exports import Place

_MEANT = re.compile(r"([\\`*_<>#\[\]|])")  # what Markdown would take for a sign

_SCOPES = """
SELECT DISTINCT s.id, s.user_id, s.agent_id, s.run_id FROM scopes s
WHERE {place} AND (EXISTS (SELECT 1 FROM facts f WHERE f.scope_id = s.id AND f.archived_at IS NULL)
                   OR ? AND EXISTS (SELECT 1 FROM messages m WHERE m.scope_id = s.id AND m.archived_at IS NULL))
ORDER BY s.user_id, s.agent_id, s.run_id
"""
_FACTS = """
SELECT f.id, f.text, f.observed_at, f.observed_offset, f.valid_from, f.valid_to, f.expires_at
FROM facts f JOIN scopes s ON s.id = f.scope_id
WHERE f.scope_id = ? AND {which} ORDER BY f.observed_at, f.id
"""
# What came before a fact: what it replaced, and what it said before updates.
_BEFORE = """
SELECT o.id, o.text, o.observed_at, o.observed_offset, o.valid_from, o.valid_to, o.expires_at
FROM links l JOIN facts o ON o.id = l.to_fact JOIN scopes s ON s.id = o.scope_id
WHERE l.from_fact = ? AND l.relation IN ('replaces', 'updates') AND o.archived_at IS NULL AND {place}
ORDER BY o.observed_at DESC, o.id DESC
"""
_REPLACED = """
EXISTS (SELECT 1 FROM links l JOIN facts n ON n.id = l.from_fact JOIN scopes s ON s.id = n.scope_id
        WHERE l.to_fact = f.id AND l.relation = 'replaces' AND n.archived_at IS NULL AND {place})
"""
_MESSAGES = """
SELECT CASE name WHEN '' THEN role ELSE name END, content, observed_at, observed_offset FROM messages
WHERE scope_id = ? AND archived_at IS NULL ORDER BY id
"""

_Row = tuple[int, str, int, int, int, int | None, int | None]


def lines(db: apsw.Connection, place: Place | None, *, with_messages: bool, counts: dict[str, int]) -> Iterator[bytes]:
    """The file, or a scope of it, in pieces of Markdown; what is archived or hidden is left out.

    counts: is filled in with how many there are of each kind.
    """
    sql, bindings = place or ("1", ())
    current = facts.CURRENT
    kept = f"{facts.KEPT} AND NOT {current} AND NOT {_REPLACED.format(place=sql)}"
    yield b"# Memory\n"
    for scope_id, *ids in list(db.execute(_SCOPES.format(place=sql), (*bindings, with_messages))):
        names = " ".join(f"{name} {_plain(each)}" for name, each in zip(("user", "agent", "run"), ids) if each)
        yield f"\n## {names}\n".encode()
        for title, which, held in (("Facts", current, ()), ("No longer so", kept, bindings)):
            rows = db.execute(_FACTS.format(which=which), (scope_id, *held))
            yield from _listed(db, title, rows, (sql, bindings), counts)
        if with_messages:
            yield from _said(db, scope_id, counts)


def _listed(
    db: apsw.Connection, title: str, rows: Iterator[_Row], place: Place, counts: dict[str, int]
) -> Iterator[bytes]:
    for number, row in enumerate(rows):
        if number == 0:
            yield f"\n### {title}\n\n".encode()
        counts["fact"] = counts.get("fact", 0) + 1
        yield f"- {_fact(row)}\n".encode()
        yield from _before(db, row[0], place, counts)


def _before(db: apsw.Connection, fact_id: int, place: Place, counts: dict[str, int]) -> Iterator[bytes]:
    """What a fact replaced, and what that did, the newest first."""
    waiting, seen = [fact_id], {fact_id}
    while waiting:
        at = waiting.pop()
        rows = [row for row in db.execute(_BEFORE.format(place=place[0]), (at, *place[1])) if row[0] not in seen]
        for row in rows:
            counts["fact"] = counts.get("fact", 0) + 1
            yield f"  - before: {_fact(row)}\n".encode()
        seen.update(row[0] for row in rows)
        waiting += [row[0] for row in reversed(rows)]


def _fact(row: _Row) -> str:
    _, text, observed_at, offset, valid_from, valid_to, expires_at = row
    told = [f"said {instants.day(observed_at, offset)}"]
    if valid_to is not None:
        told.append(f"so from {instants.day(valid_from, offset)} to {instants.day(valid_to, offset)}")
    elif instants.day(valid_from, offset) != instants.day(observed_at, offset):
        told.append(f"so from {instants.day(valid_from, offset)}")
    if expires_at is not None and valid_to is None:
        told.append(f"until {instants.day(expires_at, offset)}")
    return f"{_plain(text)} ({', '.join(told)})"


def _said(db: apsw.Connection, scope_id: int, counts: dict[str, int]) -> Iterator[bytes]:
    for number, (speaker, content, at, offset) in enumerate(db.execute(_MESSAGES, (scope_id,))):
        if number == 0:
            yield b"\n### Conversation\n"
        counts["message"] = counts.get("message", 0) + 1
        said = "\n".join(f"> {line}".rstrip() for line in content.splitlines())
        yield f"\n**{_plain(speaker)}**, {instants.local(at, offset):%Y-%m-%d %H:%M}\n\n{said}\n".encode()


def _plain(text: str) -> str:
    """A text on one line that Markdown shows as it is."""
    return _MEANT.sub(r"\\\1", " ".join(text.split()))
