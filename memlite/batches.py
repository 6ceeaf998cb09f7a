"""The batches table: everything one add() wrote, and the queue of what is still to be extracted.

A claim is a worker's name and a lease, written in one transaction; the commit of the extracted facts
checks that the claim still holds, so a batch is extracted once however many workers there are.
"""

from __future__ import annotations

import json
import os
import platform
import threading
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import apsw


@dataclass(frozen=True, slots=True)
class Batch:
    """One row of the queue."""

    id: int
    uid: str
    scope_id: int
    kind: str
    instructions: str
    metadata: str
    expires_at: int | None
    attempts: int
    undoes: int | None


# A batch that an undo has taken out of the queue, over the alias `b`: undone, that one puts it back.
LEFT_QUEUE = """
(b.state = 'stored' AND EXISTS (
   SELECT 1 FROM batches u WHERE u.undoes = b.id AND u.metadata ->> '$.state' = 'queued'))
"""
_COLUMNS = "id, uid, scope_id, kind, instructions, metadata, expires_at, attempts, undoes"


def insert(
    db: apsw.Connection,
    scope_id: int,
    state: str,
    created_at: int,
    *,
    kind: str = "",
    instructions: str = "",
    metadata: str = "{}",
    expires_at: int | None = None,
    undoes: int | None = None,
) -> Batch:
    """Begin a batch. undoes: the row id of the batch that it undoes."""
    rows = db.execute(
        f"""
        INSERT INTO batches(uid, scope_id, kind, instructions, metadata, expires_at, created_at, state, undoes)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING {_COLUMNS}
        """,
        (uuid.uuid4().hex, scope_id, kind, instructions, metadata, expires_at, created_at, state, undoes),
    )
    return Batch(*next(rows))


def worker_name() -> str:
    """A name for one claim: host and process tell whether its holder still lives."""
    return f"{platform.node()}/{os.getpid()}/{threading.get_ident()}/{uuid.uuid4().hex[:8]}"


def claim(
    db: apsw.Connection,
    worker: str,
    now: int,
    lease_ms: int,
    sql: str,
    bindings: Sequence[object],
    *,
    only: int | None = None,
    leave: Collection[int] = (),
) -> Batch | None:
    """Take the oldest queued batch of a scope that has none in flight; None when there is none to take.

    sql, bindings: the scopes to work for, over the alias `s`. only: take this batch or none. leave: batches
    this worker already tried.
    """
    _free_abandoned(db, now)
    row = db.execute(
        f"""
        UPDATE batches SET worker = ?, lease_until = ?, attempts = attempts + 1
        WHERE id = (
          SELECT b.id FROM batches b JOIN scopes s ON s.id = b.scope_id
          WHERE b.state = 'queued' AND b.worker IS NULL AND {sql}
            AND b.id = coalesce(?, b.id) AND b.id NOT IN (SELECT value FROM json_each(?))
            AND NOT EXISTS (SELECT 1 FROM batches o WHERE o.scope_id = b.scope_id AND o.worker IS NOT NULL)
          ORDER BY b.id LIMIT 1)
        RETURNING {_COLUMNS}
        """,
        (worker, now + lease_ms, *bindings, only, json.dumps(list(leave))),
    ).fetchone()
    return Batch(*row) if row else None


def _free_abandoned(db: apsw.Connection, now: int) -> None:
    """Drop claims whose lease is over or whose process on this machine is gone."""
    held = list(db.execute("SELECT id, worker, lease_until FROM batches WHERE worker IS NOT NULL"))
    for id_, worker, lease_until in held:
        if lease_until <= now or _is_dead(worker):
            db.execute("UPDATE batches SET worker = NULL, lease_until = NULL WHERE id = ?", (id_,))


def _is_dead(worker: str) -> bool:
    host, pid, *_ = worker.split("/")
    # Signal 0 asks without sending, on POSIX; on Windows os.kill would end the process.
    if os.name != "posix" or host != platform.node():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def holds(db: apsw.Connection, batch_id: int, worker: str) -> bool:
    """Whether the claim is still this worker's, and the batch still to be extracted."""
    found = db.execute("SELECT 1 FROM batches WHERE id = ? AND worker = ? AND state = 'queued'", (batch_id, worker)).get
    return found is not None


def finish(db: apsw.Connection, batch_id: int, made_by: str) -> None:
    """Mark a batch as extracted. made_by: model and prompt version."""
    db.execute(
        "UPDATE batches SET state = 'done', error = '', worker = NULL, lease_until = NULL, made_by = ? WHERE id = ?",
        (made_by, batch_id),
    )


def release(db: apsw.Connection, batch_id: int, worker: str, error: str) -> None:
    """Give a claimed batch back to the queue with the reason it was not extracted."""
    db.execute(
        "UPDATE batches SET error = ?, worker = NULL, lease_until = NULL WHERE id = ? AND worker = ?",
        (error, batch_id, worker),
    )


def fetch(db: apsw.Connection, batch_id: int) -> tuple[Batch, str, str]:
    """A batch with its state and the last error."""
    row = next(db.execute(f"SELECT {_COLUMNS}, state, error FROM batches WHERE id = ?", (batch_id,)))
    return Batch(*row[:-2]), row[-2], row[-1]


def begun(db: apsw.Connection, batch_id: int) -> int:
    """When a batch was stored, in UTC milliseconds."""
    at: int = db.execute("SELECT created_at FROM batches WHERE id = ?", (batch_id,)).get
    return at


def queued(db: apsw.Connection, sql: str, bindings: Sequence[object]) -> list[Any]:
    """The queued batches of a scope: (id, attempts, last error), oldest first."""
    return list(
        db.execute(
            f"""
        SELECT b.uid, b.attempts, b.error FROM batches b JOIN scopes s ON s.id = b.scope_id
        WHERE b.state = 'queued' AND {sql} ORDER BY b.id
        """,
            bindings,
        )
    )


def undone_by(db: apsw.Connection, batch_id: int) -> str | None:
    """The id of the undo of a batch that is in force: one that is not undone itself."""
    undos = list(db.execute("SELECT id, uid FROM batches WHERE undoes = ? ORDER BY id DESC", (batch_id,)))
    return next((uid for id_, uid in undos if undone_by(db, id_) is None), None)


def last_undo(db: apsw.Connection, batch_ids: Iterable[int]) -> int | None:
    """The row id of the last batch that undid any of these, or was the undo of such an undo; None: nothing did."""
    id_: int | None = db.execute(
        "SELECT max(id) FROM batches WHERE undoes IN (SELECT value FROM json_each(?))", (json.dumps(list(batch_ids)),)
    ).get
    return id_


def of_messages(db: apsw.Connection, message_ids: Iterable[int]) -> dict[int, int]:
    """The row id of the batch that stored each message."""
    sql = "SELECT id, batch_id FROM messages WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
    return dict(db.execute(sql, (json.dumps(list(message_ids)),)))


def first(db: apsw.Connection, batch_id: int) -> Batch:
    """The batch that an undo, or an undo of that, is about; any other is about itself."""
    batch = fetch(db, batch_id)[0]
    return batch if batch.undoes is None else first(db, batch.undoes)


def left_queue(db: apsw.Connection, batch_id: int) -> bool:
    """Whether an undo has taken a batch out of the queue, and it has not been extracted."""
    return bool(db.execute(f"SELECT {LEFT_QUEUE} FROM batches b WHERE b.id = ?", (batch_id,)).get)


def set_state(db: apsw.Connection, batch_id: int, state: str) -> None:
    """Queue a batch, or take it from the queue; a worker that has it loses its claim."""
    db.execute("UPDATE batches SET state = ?, worker = NULL, lease_until = NULL WHERE id = ?", (state, batch_id))


def forget_answers(db: apsw.Connection, fact_ids: str, message_ids: str) -> None:
    """Delete what a `reextract` that is not done has made in the roots of facts and messages that go."""
    db.execute(
        """
        DELETE FROM answers WHERE batch_id IN (
          SELECT b.id FROM batches b JOIN scopes s ON s.id = b.scope_id WHERE s.root_id IN (
            SELECT g.root_id FROM facts f JOIN scopes g ON g.id = f.scope_id
            WHERE f.id IN (SELECT value FROM json_each(?))
            UNION SELECT g.root_id FROM messages m JOIN scopes g ON g.id = m.scope_id
            WHERE m.id IN (SELECT value FROM json_each(?))))
        """,
        (fact_ids, message_ids),
    )


def forget_empty(db: apsw.Connection, batch_ids: str) -> None:
    """Blank what batches without any message or fact left still say; their rows stay for the history."""
    db.execute(
        """
        UPDATE batches SET kind = '', instructions = '', metadata = '{}', error = '', state = 'done',
                           worker = NULL, lease_until = NULL
        WHERE id IN (SELECT value FROM json_each(?))
          AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.batch_id = batches.id)
          AND NOT EXISTS (SELECT 1 FROM facts f WHERE f.batch_id = batches.id)
        """,
        (batch_ids,),
    )
    # An error quotes the model's answer, and so perhaps what was just deleted.
    db.execute("UPDATE batches SET error = '' WHERE id IN (SELECT value FROM json_each(?))", (batch_ids,))
