"""What an audit says of the rows that it found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import apsw

from memlite import scopes
from memlite.audit import secrets
from memlite.records import AuditKind, Finding, Scope

Place = tuple[str, Sequence[object]]  # a condition over the scopes alias `s`, and its bindings


@dataclass(frozen=True, slots=True)
class Found:
    """A finding with the row ids of what it concerns. Of facts and entities that are to be one, the first is kept.

    said: what the facts said, for they may be rewritten before they are put right.
    """

    finding: Finding
    facts: tuple[int, ...] = ()
    said: tuple[str, ...] = ()
    messages: tuple[int, ...] = ()
    entities: tuple[int, ...] = ()


def place(db: apsw.Connection, scope: Scope | None) -> Place:
    """The scopes that an audit looks at: all of the file, or what a scope sees."""
    if scope is None:
        return "1", ()
    reach = scopes.reach(db, scope)
    return (reach.sql, reach.bindings) if reach else ("0", ())


def finding(
    kind: AuditKind,
    why: str,
    fix: str,
    *,
    facts: Sequence[tuple[str, str]] = (),
    messages: Sequence[tuple[str, str]] = (),
    entities: Sequence[tuple[str, str]] = (),
    about: str = "",
) -> Finding:
    """A finding about rows, each as (id, text); no secret of a text is shown. about: what tells it from others."""
    rows = (*facts, *messages, *entities)
    name = json.dumps([kind, sorted(uid for uid, _ in rows), about])
    return Finding(
        id=hashlib.sha256(name.encode()).hexdigest()[:32],
        kind=kind,
        facts=tuple(uid for uid, _ in facts),
        messages=tuple(uid for uid, _ in messages),
        entities=tuple(uid for uid, _ in entities),
        texts=tuple(secrets.masked(text) for _, text in rows),
        why=secrets.masked(why),
        fix=fix,
    )
