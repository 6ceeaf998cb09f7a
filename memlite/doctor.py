"""Looking at a machine and a file: what works, what does not, and what to do about it."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import apsw

from memlite import catalogue, cipher, codes, models, repair, salvage, vectors
from memlite.db import Database, check_file, load_sqlite_vec
from memlite.errors import DamagedFileError, ForeignFileError, MemliteError, ModelError, ModelMissingError
from memlite.memory import EXTRACTION_OFF, Memory
from memlite.records import Fault, Repaired, Salvaged
from memlite.semantic import Semantic

_LEAST_FREE = 100_000_000  # bytes


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ok False: memlite cannot do its work until it is mended."""

    name: str
    ok: bool
    detail: str


def examine(path: Path, key: str | bytes | None = None) -> Iterator[Finding]:
    """Look at SQLite, the extension, the models and the file, in this order; a missing file is not made.

    key: of an encrypted file; by default the one in MEMLITE_KEY.
    """
    ciphers = getattr(apsw, "mc_version", "no encryption: apsw lies over apsw-sqlite3mc")
    versions = f"apsw {apsw.apsw_version()}, {ciphers}, Python {platform.python_version()}"
    yield Finding("sqlite", True, f"{apsw.sqlite_lib_version()} ({versions})")
    yield _fts5()
    yield _extension()
    for role in ("embedder", "extractor"):
        yield _model(role)
    place = next(p for p in (path, *path.absolute().parents) if p.exists())
    free = shutil.disk_usage(place).free
    yield Finding("disk", free > _LEAST_FREE, f"{free / 1e9:.1f} GB free")
    try:
        secret = cipher.read_key(key)
        if check_file(path, secret) is None and not path.exists():
            writable = os.access(place, os.W_OK)
            then = "the first `memlite add` makes it" if writable else f"and {place} is read-only: choose another place"
            yield Finding("file", writable, f"{path} does not exist yet; {then}")
            return
        database = Database(path, secret)
    except MemliteError as error:
        yield Finding("file", False, str(error))
        return
    try:
        yield from _file(database)
    except MemliteError as error:
        yield Finding("file", False, str(error))
    finally:
        database.close()


def repaired(path: Path, progress: Callable[[str], None] | None = None, key: str | bytes | None = None) -> Finding:
    """Make anew what is out of step; of a file that is damaged save what can be read into a new one beside it.

    key: as of `examine`.
    """
    try:
        with Memory(path, key=key, extractor=False) as memory:
            return _mended(memory.repair(progress=progress))
    except DamagedFileError:
        return _saved(salvage.salvage(path, key=key), path)
    except ForeignFileError:
        if not salvage.recognised(path):
            raise
        return _saved(salvage.salvage(path), path)


def _mended(done: Repaired) -> Finding:
    """What a repair did."""
    left = {(fault.place, fault.what): fault.count for fault in done.left}
    counts = {fault: fault.count - left.get((fault.place, fault.what), 0) for fault in done.found}
    told = [f"mended {count} {fault.what}" for fault, count in counts.items() if count > 0]
    told += [f"made {done.vectors} vectors"] if done.vectors else []
    told += [f"left {fault.count} {fault.what}" for fault in done.left]
    return Finding("repair", not done.left, "; ".join((*told, *done.notes)) or "nothing was out of step")


def _saved(done: Salvaged, path: Path) -> Finding:
    """What was saved of a damaged file, which is none the better for it."""
    told = [f"saved {', '.join(f'{count} {table}' for table, count in done.rows.items())} into {done.path}"]
    told += [f"lost {count} {table}" for table, count in done.lost.items() if count]
    told += [f"how many {table} are lost is not known" for table, count in done.lost.items() if count is None]
    told += [f"{done.unreadable} page(s) could not be read"] if done.unreadable else []
    told += [*done.notes, f"{path} was left as it is: look at the new file, then put it in its place"]
    return Finding("repair", False, "; ".join(told))


def _fts5() -> Finding:
    db = apsw.Connection(":memory:")
    try:
        db.execute("CREATE VIRTUAL TABLE t USING fts5(x)")
        return Finding("fts5", True, "built in")
    except apsw.SQLError as error:
        return Finding("fts5", False, f"{error}: reinstall apsw from its wheel")
    finally:
        db.close()


def _extension() -> Finding:
    db = apsw.Connection(":memory:")
    try:
        load_sqlite_vec(db)
        without = "" if codes.available() else "; without numpy 2 a search compares every vector of its scope"
        return Finding("sqlite-vec", True, db.execute("SELECT vec_version()").get + without)
    except (MemliteError, apsw.Error) as error:
        return Finding("sqlite-vec", False, f"{error}. Until then search runs without vectors")
    finally:
        db.close()


def _model(role: models.Role) -> Finding:
    try:
        found = models.find(role)
    except ModelError as error:
        return Finding(role, False, str(error))
    if found is None:
        off = "vectors are off; `memlite models pull default` turns them on"
        return Finding(role, True, f"none: {off if role == 'embedder' else EXTRACTION_OFF}")
    problem = catalogue.load_error(found)
    return Finding(role, problem is None, f"{found.name} ({found.path})" + (f": {problem}" if problem else ""))


def _file(database: Database) -> Iterator[Finding]:
    faults = repair.look(database)
    yield Finding("file", True, f"{database.path}: integrity ok")
    yield _in_step("schema", "views, triggers and indexes are those of this version", faults)
    yield _in_step("rows", "hashes, flags and normal forms are those of their rows", faults)
    yield _in_step("references", "all rows belong together", faults)
    with database.read() as db:
        yield _vectors(db, database, faults)
        yield from _unfinished(db)
        waiting = db.execute("SELECT count(*) FROM batches WHERE state = 'queued'").get
        error = db.execute(
            "SELECT error FROM batches WHERE state = 'queued' AND error <> '' ORDER BY id DESC LIMIT 1"
        ).get
        detail = f"{waiting} waiting; `memlite work` extracts them" if waiting else "empty"
        yield Finding("queue", True, detail + (f". Last error: {error}" if error else ""))
    yield _embedder(database)
    yield _in_step("words", "agree with facts and messages", faults)


def _unfinished(db: apsw.Connection) -> Iterator[Finding]:
    """What was begun to be made anew and is not done, and both ways on."""
    made = vectors.generations(db)
    if "building" in made:
        counts = (f"SELECT count(*) FROM {kind}_vectors WHERE made_by = ?" for kind in vectors.KINDS)
        count = sum(db.execute(sql, (vectors.form(db, "building").made_by,)).get for sql in counts)
        old, new = made["serving"].name if "serving" in made else "nothing", made["building"].name
        yield Finding(
            "reembed",
            True,
            f"not done: {count} vector(s) of {new} made, those of {old} answer meanwhile; `memlite reembed` with {new} "
            "goes on, `memlite reembed --rollback` gives it up",
        )
    for name, count in db.execute("SELECT made_by, count(*) FROM answers GROUP BY made_by ORDER BY made_by"):
        yield Finding(
            "reextract",
            True,
            f"not done: {count} batch(es) extracted again by {name}, and no fact changed yet; `memlite reextract` with "
            "it goes on, and what it changes then `memlite undo` takes back",
        )


def _in_step(place: str, fine: str, faults: Iterable[Fault]) -> Finding:
    """What is out of step in one place, and whether it can be mended."""
    mine = [fault for fault in faults if fault.place == place]
    if not mine:
        return Finding(place, True, fine)
    then = "; `memlite doctor --repair` mends " + ("this" if all(f.mendable for f in mine) else "what it can")
    told = "; ".join(f"{fault.count} {fault.what}" for fault in mine)
    return Finding(place, False, told + (then if any(fault.mendable for fault in mine) else ""))


def _embedder(database: Database) -> Finding:
    """Whether the embedder of this machine is the one that made the file's vectors."""
    with database.read() as db:
        used = vectors.identity(db) is not None
    try:
        semantic = Semantic(database, None, 1)
        if used:
            semantic.embed(["memlite"])
    except ModelMissingError:
        return Finding("agreement", True, "cannot be compared without the embedder")  # which is a finding above
    except ModelError as error:
        return Finding("agreement", False, str(error))
    return Finding("agreement", True, semantic.note or "the embedder is the one that made the vectors")


def _vectors(db: apsw.Connection, database: Database, faults: Iterable[Fault]) -> Finding:
    made_by = vectors.identity(db)
    if made_by is not None and database.vectors_off:
        return Finding("vectors", False, database.vectors_off)
    fine = "none yet" if made_by is None else f"made by {made_by.name}, {made_by.dimension} numbers"
    return _in_step("vectors", fine, faults)
