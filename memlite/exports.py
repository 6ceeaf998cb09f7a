"""A file, or a scope of it, as JSON lines: everything that was said and learnt, nothing that can be made anew.

`docs/export.md` describes the lines; `imports/exported.py` reads them. They name rows by their ids, never by row ids,
and leave out what is empty, so that an export of an import is the same bytes.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import apsw

from memlite import cipher, instants, vectors
from memlite.db import contents
from memlite.errors import FileError, InvalidInputError

FORMAT = 1
KINDS = ("batch", "message", "entity", "fact", "link", "event", "ttl")  # in the order of the lines
_BUFFER = 1 << 20

Place = tuple[str, Sequence[object]]  # a condition over the scopes alias `s`, and its bindings
_WHOLE: Place = ("1", ())

# Batches of the scope, and those that its rows name: a fix of the whole file may have hidden its messages.
_BATCHES = """
SELECT b.uid, s.user_id, s.agent_id, s.run_id, b.kind, b.instructions, b.metadata, b.expires_at, b.created_at, b.state,
       b.attempts, b.error, u.uid, b.made_by
FROM batches b JOIN scopes s ON s.id = b.scope_id LEFT JOIN batches u ON u.id = b.undoes
WHERE {where} ORDER BY b.id
"""
_NAMED_BATCHES = """
b.id IN (
  WITH RECURSIVE named(id) AS (
    SELECT t.batch_id FROM messages t JOIN scopes s ON s.id = t.scope_id WHERE {place}
    UNION SELECT t.batch_id FROM facts t JOIN scopes s ON s.id = t.scope_id WHERE {place}
    UNION SELECT t.batch_id FROM events t JOIN scopes s ON s.id = t.scope_id WHERE {place}
    UNION SELECT h.batch_id FROM hidden_messages h JOIN messages t ON t.id = h.message_id
          JOIN scopes s ON s.id = t.scope_id WHERE {place}
    UNION SELECT b.undoes FROM batches b JOIN named ON named.id = b.id)
  SELECT id FROM named WHERE id IS NOT NULL)
"""
_MESSAGES = """
SELECT m.uid, s.user_id, s.agent_id, s.run_id, b.uid, m.caller_id, m.role, m.name, m.content, m.own, m.metadata,
       m.observed_at, m.observed_offset, m.created_at, m.archived_at, m.spent,
       (SELECT json_group_array(uid) FROM (
          SELECT h.uid FROM hidden_messages i JOIN batches h ON h.id = i.batch_id
          WHERE i.message_id = m.id ORDER BY h.id)),
       m.id
FROM messages m JOIN scopes s ON s.id = m.scope_id JOIN batches b ON b.id = m.batch_id
WHERE {where} ORDER BY m.id
"""
_ENTITIES = """
SELECT e.uid, s.user_id, s.agent_id, s.run_id, e.name, e.type,
       (SELECT json_group_array(name) FROM (SELECT name FROM aliases WHERE entity_id = e.id ORDER BY folded)), e.id
FROM entities e JOIN scopes s ON s.id = e.root_id
WHERE {where} ORDER BY e.id
"""
_MENTIONED = """
e.id IN (SELECT n.entity_id FROM mentions n JOIN facts f ON f.id = n.fact_id JOIN scopes s ON s.id = f.scope_id
         WHERE {place})
"""
_FACTS = """
SELECT f.uid, s.user_id, s.agent_id, s.run_id, b.uid, f.text, f.live, f.attributed_to, f.kind, f.metadata, f.confidence,
       f.model, f.prompt_version, f.created_at, f.observed_at, f.observed_offset, f.event_start, f.event_end,
       f.event_precision, f.valid_from, f.begins, f.valid_to, f.recorded_to, f.last_confirmed_at, f.expires_at, f.ttl,
       f.archived_at, f.unsourced,
       (SELECT json_group_array(uid) FROM (
          SELECT m.uid FROM sources r JOIN messages m ON m.id = r.message_id JOIN scopes s ON s.id = m.scope_id
          WHERE r.fact_id = f.id AND {place} ORDER BY m.id)),
       (SELECT json_group_array(uid) FROM (
          SELECT m.uid FROM recalls r JOIN messages m ON m.id = r.message_id JOIN scopes s ON s.id = m.scope_id
          WHERE r.fact_id = f.id AND {place} ORDER BY m.id)),
       (SELECT json_group_array(json_object(
                 'entity', uid, 'name', name, 'position', position, 'aliases', json(aliases))) FROM (
          SELECT e.uid, n.name, n.position, n.aliases FROM mentions n JOIN entities e ON e.id = n.entity_id
          WHERE n.fact_id = f.id ORDER BY n.position, e.id)),
       f.id
FROM facts f JOIN scopes s ON s.id = f.scope_id LEFT JOIN batches b ON b.id = f.batch_id
WHERE {where} ORDER BY f.id
"""
_LINKS = """
SELECT f.uid, o.uid, l.relation
FROM links l JOIN facts f ON f.id = l.from_fact JOIN facts o ON o.id = l.to_fact
WHERE l.from_fact IN (SELECT t.id FROM facts t JOIN scopes s ON s.id = t.scope_id WHERE {place})
  AND l.to_fact IN (SELECT t.id FROM facts t JOIN scopes s ON s.id = t.scope_id WHERE {place})
ORDER BY l.from_fact, l.to_fact, l.relation
"""
# again: how many equal ones stand before it. An event has no id, and must be stored once however often it is imported.
EQUAL_EVENTS = """
SELECT count(*) FROM events p
WHERE p.fact_uid = {0}.fact_uid AND p.id < {0}.id AND p.action = {0}.action AND p.at = {0}.at
  AND p.scope_id = {0}.scope_id AND p.batch_id IS {0}.batch_id AND p.actor = {0}.actor AND p.reason = {0}.reason
  AND p.before IS {0}.before AND p.after IS {0}.after
"""
_EVENTS = f"""
SELECT e.fact_uid, e.action, s.user_id, s.agent_id, s.run_id, b.uid, e.actor, e.reason, e.before, e.after, e.at,
       ({EQUAL_EVENTS.format("e")})
FROM events e JOIN scopes s ON s.id = e.scope_id LEFT JOIN batches b ON b.id = e.batch_id
WHERE {{place}} ORDER BY e.id
"""
_TTLS = """
SELECT coalesce(s.user_id, ''), coalesce(s.agent_id, ''), coalesce(s.run_id, ''), t.kind, t.milliseconds
FROM ttls t LEFT JOIN scopes s ON s.id = t.scope_id
WHERE {place} ORDER BY t.id
"""


def lines(db: apsw.Connection, place: Place | None, *, with_vectors: bool, counts: dict[str, int]) -> Iterator[bytes]:
    """The lines of an export, each with its end. place: the scope, None for the whole file. counts: is filled in with
    how many there are of each kind.

    Everything is read through this connection: inside one read transaction it is one moment of the file.
    """
    head: dict[str, Any] = {"memlite": "export", "format": FORMAT}
    if with_vectors:
        head |= _embedder(db)
    yield line(head)
    for record in records(db, place, with_vectors=with_vectors and "embedder" in head):
        counts[record["record"]] = counts.get(record["record"], 0) + 1
        yield line(record)
    yield line({"record": "end", "records": sum(counts.values())})


def line(record: dict[str, Any]) -> bytes:
    """A record as it stands in an export."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def records(db: apsw.Connection, place: Place | None, *, with_vectors: bool = False) -> Iterator[dict[str, Any]]:
    """Every row of a scope, or of the whole file, as a record; what a row names comes before it."""
    sql, bindings = place or _WHOLE
    named = f"({sql} OR {_NAMED_BATCHES.format(place=sql)})" if place else sql
    mentioned = _MENTIONED.format(place=sql) if place else sql
    found: list[tuple[str, str, Callable[..., dict[str, Any]]]] = [
        ("batch", _BATCHES.format(where=named), _batch),
        ("message", _MESSAGES.format(where=sql), _message),
        ("entity", _ENTITIES.format(where=mentioned), _entity),
        ("fact", _FACTS.format(where=sql, place=sql), _fact),
        ("link", _LINKS.format(place=sql), _link),
        ("event", _EVENTS.format(place=sql), _event),
        ("ttl", _TTLS.format(place=sql), _ttl),
    ]
    for kind, query, read in found:
        # `s` stands in one query as often as the place does, each time with its own bindings.
        times = query.count(sql) if bindings else 0
        for row in db.execute(query, tuple(bindings) * times):
            record = {"record": kind, **read(*row)}
            if with_vectors and kind in vectors.KINDS:
                record |= _vector(db, kind, row[-1])
            yield record


def stored(db: apsw.Connection, kind: str, id_: str) -> dict[str, Any]:
    """The row of this id as a record; the kind is batch, message, entity or fact."""
    shapes: dict[str, tuple[str, Callable[..., dict[str, Any]], str]] = {
        "batch": (_BATCHES, _batch, "b"),
        "message": (_MESSAGES, _message, "m"),
        "entity": (_ENTITIES, _entity, "e"),
        "fact": (_FACTS, _fact, "f"),
    }
    query, read, alias = shapes[kind]
    row = next(db.execute(query.format(where=f"{alias}.uid = ?", place="1"), (id_,)))
    return {"record": kind, **read(*row)}


def _batch(
    uid: str, user: str, agent: str, run: str, kind: str, instructions: str, metadata: str, expires_at: int | None,
    created_at: int, state: str, attempts: int, error: str, undoes: str | None, made_by: str,
) -> dict[str, Any]:  # fmt: skip
    """What one `add` wrote together. Who has claimed it is no part of it."""
    return _said(
        id=uid,
        **_ids(user, agent, run),
        kind=kind,
        instructions=instructions,
        metadata=_json(metadata),
        expires_at=_instant(expires_at),
        created_at=_instant(created_at),
        state=state,
        attempts=attempts or None,
        error=error,
        undoes=undoes,
        made_by=made_by,
    )


def _message(
    uid: str, user: str, agent: str, run: str, batch_: str, caller_id: str | None, role: str, name: str, content: str,
    own: str | None, metadata: str, observed_at: int, offset: int, created_at: int, archived_at: int | None, spent: int,
    hidden_by: str, _: int,
) -> dict[str, Any]:  # fmt: skip
    """One turn, word for word."""
    found = _said(
        id=uid,
        **_ids(user, agent, run),
        batch=batch_,
        caller_id=caller_id,
        role=role,
        name=name,
        content=content,
        metadata=_json(metadata),
        observed_at=_instant(observed_at, offset),
        created_at=_instant(created_at),
        archived_at=_instant(archived_at),
        spent=bool(spent),
        hidden_by=json.loads(hidden_by),
    )
    return found if own is None else {**found, "own": own}  # '' says that nothing of it is its own


def _entity(uid: str, user: str, agent: str, run: str, name: str, type_: str, aliases: str, _: int) -> dict[str, Any]:
    """A name with its type, in the scope that is the root of the facts which mention it."""
    return _said(id=uid, **_ids(user, agent, run), name=name, type=type_, aliases=json.loads(aliases))


def _fact(
    uid: str, user: str, agent: str, run: str, batch_: str | None, text: str, live: int, by: str, kind: str,
    metadata: str, confidence: float | None, model: str, prompt_version: str, created_at: int, observed_at: int,
    offset: int, event_start: str | None, event_end: str | None, event_precision: str | None, valid_from: int,
    begins: int | None, valid_to: int | None, recorded_to: int | None, last_confirmed_at: int, expires_at: int | None,
    ttl: int | None, archived_at: int | None, unsourced: int, sources: str, recalled_by: str, mentions: str, _: int,
) -> dict[str, Any]:  # fmt: skip
    """One fact, or what one said before an update (`recorded_to`), current or past, hidden or not."""
    return _said(
        id=uid,
        **_ids(user, agent, run),
        batch=batch_,
        text=text,
        live=bool(live),
        by=by,
        kind=kind,
        metadata=_json(metadata),
        confidence=confidence,
        model=model,
        prompt_version=prompt_version,
        created_at=_instant(created_at),
        observed_at=_instant(observed_at, offset),
        event_start=event_start,
        event_end=event_end,
        event_precision=event_precision,
        valid_from=_instant(valid_from),
        begins=_instant(begins),
        valid_to=_instant(valid_to),
        recorded_to=_instant(recorded_to),
        last_confirmed_at=_instant(last_confirmed_at),
        expires_at=_instant(expires_at),
        ttl=ttl,
        archived_at=_instant(archived_at),
        unsourced=bool(unsourced),
        sources=json.loads(sources),
        recalled_by=json.loads(recalled_by),
        mentions=[_said(**mention) for mention in json.loads(mentions)],
    )


def _link(from_: str, to: str, relation: str) -> dict[str, Any]:
    return {"from": from_, "to": to, "relation": relation}


def _event(
    fact_uid: str, action: str, user: str, agent: str, run: str, batch_: str | None, actor: str, reason: str,
    before: str | None, after: str | None, at: int, again: int,
) -> dict[str, Any]:  # fmt: skip
    found = _said(
        fact=fact_uid,
        action=action,
        **_ids(user, agent, run),
        batch=batch_,
        actor=actor,
        reason=reason,
        at=_instant(at),
        again=again or None,
    )
    states = {"before": before, "after": after}  # {} is not the same as none
    return found | {name: _json(state) for name, state in states.items() if state is not None}


def _ttl(user: str, agent: str, run: str, kind: str, milliseconds: int) -> dict[str, Any]:
    return _said(**_ids(user, agent, run), kind=kind, milliseconds=milliseconds)


def _ids(user: str, agent: str, run: str) -> dict[str, str]:
    return {"user_id": user, "agent_id": agent, "run_id": run}


def _said(**fields: Any) -> dict[str, Any]:
    """The fields that say something: neither NULL nor empty nor false."""
    return {name: value for name, value in fields.items() if value is not False and value not in (None, "", [], {})}


def _json(text: str) -> Any:
    """A stored JSON object with its keys in the order in which they are stored again."""
    return json.loads(json.dumps(json.loads(text), sort_keys=True))


def _instant(milliseconds: int | None, offset: int = 0) -> str | None:
    return None if milliseconds is None else instants.local(milliseconds, offset).isoformat(timespec="milliseconds")


def _embedder(db: apsw.Connection) -> dict[str, Any]:
    """Who made the vectors, and the scale of its cosines; empty where there are none."""
    row = db.execute(
        "SELECT name, dimension, probes, apart, spread, alike FROM embedder WHERE generation = 'serving'"
    ).fetchone()
    if row is None:
        return {}
    name, dimension, probes, *scale = row
    found = {"name": name, "dimension": dimension, "probes": _base64(probes)}
    return {"embedder": found | ({} if scale[2] is None else {"scale": scale})}


def _vector(db: apsw.Connection, kind: Any, row_id: int) -> dict[str, str]:
    found = vectors.fetch(db, kind, row_id)
    return {} if found is None else {"vector": _base64(found)}


def _base64(numbers: bytes) -> str:
    return base64.b64encode(numbers).decode()


def write(target: Path, blocks: Iterable[bytes]) -> None:
    """Write a file that only its owner may read: whole, or not at all; what was there stays until it is done.

    Raises InvalidInputError for a path that must not be replaced, FileError where it cannot be written.
    """
    try:
        place = target.expanduser().resolve()  # what a link points at is replaced, not the link
        _check_replaceable(place)
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.", suffix=".part")  # of mode 0600
    except (OSError, RuntimeError, apsw.Error) as error:  # a circle of links is a RuntimeError before Python 3.13
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"cannot write {target}: {reason}. Give a path you may write to.") from error
    part = Path(name)
    try:
        with os.fdopen(handle, "wb", buffering=_BUFFER) as file:
            file.writelines(blocks)
            file.flush()
            os.fsync(file.fileno())
        part.replace(place)
    except OSError as error:
        raise FileError(f"cannot write {target}: {error.strerror or error}. Nothing was changed there.") from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink()  # after an error; else it has its name by now
    with contextlib.suppress(OSError):  # not every file system can
        _sync(place.parent)


def write_to(stream: IO[bytes], blocks: Iterable[bytes]) -> None:
    """Write to an open binary stream. Raises FileError where it does not take it all."""
    try:
        stream.writelines(blocks)
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise FileError(f"cannot write the export: {error.strerror or error}.") from error


def _check_replaceable(place: Path) -> None:
    """Refuse what an export must not stand in the place of: a folder, a device, a database."""
    try:
        mode = place.stat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise InvalidInputError(f"{place} is a folder; give the path of a file in it, as {place / 'memory.jsonl'}.")
    if not stat.S_ISREG(mode):
        raise InvalidInputError(f"{place} is a device or a pipe; `memlite export -` writes to stdout.")
    if cipher.begins_database(next(contents(place, 100), b"")):
        raise InvalidInputError(f"{place} is an SQLite database, which an export would replace; give another path.")


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
