"""What other programs have kept, read and stored: one file for each source, `storing` for what they have in common.

`guess` tells the source, a source reads its format into `items`, `storing` puts these into the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timezone, tzinfo
from pathlib import Path

from memlite.db import Database
from memlite.errors import FileError, InvalidInputError
from memlite.imports import chatgpt, claude, exported, files, guess, jsonl, librechat, mcp_memory, mem0, text
from memlite.imports.files import Text
from memlite.imports.items import Item
from memlite.imports.storing import Append, Learn, Reading, Storing, Target
from memlite.records import Imported, LeftOut, Scope

_READ: dict[str, Callable[[Text, tzinfo | None], Iterator[Item]]] = {
    "chatgpt": chatgpt.read,
    "claude": claude.read,
    "librechat": librechat.read,
    "mcp-memory": mcp_memory.read,
    "jsonl": jsonl.read,
}
SOURCES = ("chatgpt", "claude", "librechat", "mcp-memory", "mem0", "jsonl", "text", "memlite")
_WITH_IDS = ("mem0", "memlite")  # those that say themselves whose memory something is


def bring(
    path: Path,
    source: str,
    database: Database,
    *,
    whose: Scope,
    bound: Scope | None,
    zone: tzinfo | None,
    dry_run: bool,
    append: Append,
    learn: Learn | None,
    progress: Callable[[str], None],
    skipped: Callable[[LeftOut], None],
) -> Imported:
    """Import a file; see `Memory.import_file`."""
    if source != "auto" and source not in SOURCES:
        raise InvalidInputError(f"source is {source!r}, expected auto or one of {', '.join(SOURCES)}.")
    if not path.is_file() and not path.is_dir():
        raise InvalidInputError(
            f"{path} is {'no file' if path.exists() else 'not there'}; give what is to be imported."
        )
    guessed = ""
    if source == "auto":
        source, guessed = guess.source(path)
        progress(f"{source}: {guessed}")
    if not whose.given() and source not in _WITH_IDS:
        raise InvalidInputError("no user_id or agent_id was given; say whose memory this becomes.")
    if source == "memlite" and whose.given():
        raise InvalidInputError(
            "an export of memlite says itself whose memory it is: leave the ids out, and the scope."
        )
    modified = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc).astimezone(zone)
    reading = Reading()
    storing = Storing(
        Target(database, whose, bound, zone, dry_run, append, learn, progress, skipped, reading, modified)
    )
    if source == "mem0":
        storing.run(source, mem0.read(path, zone))
        return storing.result(source, guessed, ())
    if path.is_dir():
        raise InvalidInputError(f"{path} is a folder; {source} is read from a file.")
    inside, beside = _parts(path, source)
    reading.size = sum(files.size(path, member) for member in inside)
    for member in inside:
        with files.opened(path, member) as opened:
            try:
                if source == "memlite":
                    head = exported.Head()
                    storing.restore(exported.read(reading.follow(opened), head), head)
                elif source == "text":
                    with files.opened(path, member) as again:
                        storing.run(source, text.read(opened, zone, reading.follow(again)))
                else:
                    storing.run(source, _READ[source](reading.follow(opened), zone))
            except FileError as error:
                storing.run(source, [LeftOut(opened.name, str(error))])  # what was read before is stored
    others = [name for name in beside if name]
    notes = [f"not read, for it holds no conversations: {_named(others)}"] if others else []
    return storing.result(source, guessed, notes)


def _parts(path: Path, source: str) -> tuple[list[str | None], list[str]]:
    """The files to read, None for the path itself, and what else is in a zip."""
    if source in ("chatgpt", "claude"):
        return files.conversations(path)
    return [None], []


def _named(names: Iterable[str], most: int = 5) -> str:
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
