"""Which source a file comes from, by what is in it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memlite import cipher
from memlite.errors import InvalidInputError
from memlite.imports import chatgpt, claude, exported, files, jsonl, librechat, mcp_memory, mem0
from memlite.records import LeftOut

_SQLITE = b"SQLite format 3\x00"
_TELLING = 1_000  # lines or conversations that are looked at: the first may be malformed


def source(path: Path) -> tuple[str, str]:
    """The name of the source, and what told it. Raises InvalidInputError where nothing does, FileError."""
    if path.is_dir():
        stores, history = mem0.find(path)
        if stores or history:
            return "mem0", "it has a collection of Qdrant in it" if stores else "it has mem0's history.db in it"
        raise InvalidInputError(f"{path} is a folder, and none of mem0; give the path of a file.")
    if not path.is_file():
        raise InvalidInputError(f"{path} is no file, and it has to be read more than once.")
    inside = files.conversations(path)[0]
    with files.opened(path, inside[0]) as text:
        if text.stream.peek(len(_SQLITE)).startswith(_SQLITE):
            stores, history = mem0.find(path)
            if stores or history:
                return "mem0", "it is a database of Qdrant" if stores else "it is mem0's history.db"
            raise InvalidInputError(f"{path} is an SQLite database, and none of mem0.")
        if cipher.looks_encrypted(text.stream.peek(100)):
            raise InvalidInputError(
                f"{path} is an encrypted database. If it is memlite's, `memlite --db {path} export FILE` writes what "
                "can be imported."
            )
        beginning = text.beginning()
        if not beginning:
            raise InvalidInputError(f"{path} is empty; there is nothing to import.")
        found = _of_lines(text) if _in_lines(beginning) else _of_values(text) if beginning[0] in "[{" else None
    if found:
        return found
    if beginning[0] in "[{" and not re.match(r"\[[^\]\n]{1,40}\]", beginning):
        raise InvalidInputError(
            f"{path} is JSON, but of no source that memlite knows; `memlite import --help` lists them."
        )
    return "text", "it is no JSON"


def _in_lines(beginning: str) -> bool:
    """Whether the first line is a JSON object by itself."""
    line = beginning.split("\n", 1)[0].strip()
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


_LINES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("memlite", exported.is_head, "its first line says so"),
    ("mcp-memory", mcp_memory.is_line, "it has lines of entities and relations"),
    ("librechat", librechat.is_conversation, "it has a conversationId and messages"),
    ("chatgpt", chatgpt.is_conversation, "its conversations have a mapping"),
    ("claude", claude.is_conversation, "its conversations have chat_messages"),
    ("jsonl", jsonl.is_message, "it has messages with role and content"),
)


def _of_lines(text: files.Text) -> tuple[str, str] | None:
    for number, found in enumerate(text.lines()):
        if number > _TELLING:
            break
        if isinstance(found, LeftOut):
            continue
        try:
            value = json.loads(found[1])
        except (ValueError, RecursionError):
            continue
        if told := _told(value):
            return told
    return None


def _of_values(text: files.Text) -> tuple[str, str] | None:
    for number, found in enumerate(text.values("value")):
        if number > _TELLING:
            break
        if not isinstance(found, LeftOut) and (told := _told(found[1])):
            return told
    return None


def _told(value: Any) -> tuple[str, str] | None:
    return next(((name, why) for name, fits, why in _LINES if fits(value)), None)
