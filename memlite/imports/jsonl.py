"""Messages as JSON: one a line, or a list of them, or conversations as objects with "messages"."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from pathlib import PurePath
from typing import Any

from memlite.imports.files import Text
from memlite.imports.items import Conversation, Identifiers, Item, Line, dated
from memlite.records import LeftOut

IDS = ("id", "message_id", "uuid")
TIMES = ("observed_at", "created_at", "timestamp", "time", "date", "ts")
CONVERSATIONS = ("conversation_id", "run_id", "session_id", "thread_id", "chat_id", "conversation")
_PIECE = 200  # messages of one conversation that are stored together


def read(text: Text, zone: tzinfo | None) -> Iterator[Item]:
    """Its messages. Those that name no conversation are of one that is called as the file is."""
    return _Reader(text, zone).read()


def is_message(value: Any) -> bool:
    """Whether a value looks like a message, or a conversation of such."""
    if not isinstance(value, Mapping):
        return False
    return ("role" in value and ("content" in value or "tool_calls" in value)) or isinstance(
        value.get("messages"), list
    )


def values(text: Text) -> Iterator[tuple[str, Any] | LeftOut]:
    """What a file that begins with a list has in it, else what stands in each line, with its place."""
    if text.beginning().startswith("["):
        yield from text.values("message")
        return
    for found in text.lines():
        if isinstance(found, LeftOut):
            yield found
        elif found[1].strip():
            try:
                yield f"line {found[0]}", json.loads(found[1], strict=False)
            except (ValueError, RecursionError) as error:
                yield LeftOut(f"line {found[0]}", f"malformed JSON: {error}")


class _Reader:
    """Reads one file; messages of one conversation that stand together are stored together."""

    def __init__(self, text: Text, zone: tzinfo | None) -> None:
        self._text, self._zone = text, zone
        self._own = PurePath(text.name).stem
        self._identifiers = Identifiers()
        self._lines: list[Line] = []
        self._conversation = ""
        self._begun: set[str] = set()

    def read(self) -> Iterator[Item]:
        for found in values(self._text):
            if isinstance(found, LeftOut):
                yield found
                continue
            place, value = found
            if isinstance(value, Mapping) and isinstance(value.get("messages"), list):
                yield from self._whole(place, value)
            else:
                yield from self._message(place, value, self._own)
        yield from self._piece()

    def _whole(self, place: str, value: Mapping[str, Any]) -> Iterator[Item]:
        """A conversation as one object; without an id it is known by its first message."""
        said = value["messages"]
        id_ = _first(value, (*CONVERSATIONS, *IDS))
        if id_ is None:
            id_ = self._identifiers.of("conversation", json.dumps(said[:1], sort_keys=True, default=str))
        title = value["title"] if isinstance(value.get("title"), str) else ""
        for number, each in enumerate(said, 1):
            yield from self._message(f"{place}, message {number}", each, id_, title)
        yield from self._piece(title)

    def _message(self, place: str, value: Any, conversation: str, title: str = "") -> Iterator[Item]:
        if not isinstance(value, Mapping):
            yield LeftOut(place, f"it is a {type(value).__name__}, expected an object with role and content")
            return
        conversation = _first(value, CONVERSATIONS) or conversation
        if conversation != self._conversation or len(self._lines) >= _PIECE:
            yield from self._piece(title)
            self._conversation = conversation
        given = next((value[key] for key in TIMES if value.get(key) not in (None, "")), None)
        at, problems = dated(place, given, self._zone)
        yield from problems
        role, content = value.get("role"), value.get("content")
        id_ = _first(value, IDS) or self._identifiers.of(
            conversation, str(role), json.dumps(content, sort_keys=True, default=str), str(given or "")
        )
        said = {key: value[key] for key in ("role", "content", "name", "tool_calls") if key in value}
        self._lines.append(Line(place, {**said, "id": id_, "observed_at": at}))

    def _piece(self, title: str = "") -> Iterator[Conversation]:
        if self._lines:
            begins = self._conversation not in self._begun
            self._begun.add(self._conversation)
            place = f"conversation {self._conversation}"
            yield Conversation(self._conversation, place, self._lines, title, begins=begins)
        self._lines = []


def _first(value: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    """The first of these that the object has, as a text."""
    found = (value.get(key) for key in keys)
    return next((str(each) for each in found if isinstance(each, (str, int)) and str(each).strip()), None)
