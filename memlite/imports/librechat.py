"""LibreChat's export: one conversation as a JSON object, its messages as a list or as a tree of children."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import tzinfo
from typing import Any

from memlite.imports.files import Text
from memlite.imports.items import Conversation, Item, Line, dated, lines
from memlite.imports.trees import abandoned, branch, conversations, last_leaf, titled
from memlite.records import LeftOut


def read(text: Text, zone: tzinfo | None) -> Iterator[Item]:
    """Its conversation, or its conversations where several stand in a list, each along its last branch."""
    return conversations(text, lambda place, value: _conversation(place, value, zone))


def is_conversation(value: Any) -> bool:
    """Whether a value looks like one of its conversations."""
    return isinstance(value, Mapping) and "conversationId" in value and isinstance(value.get("messages"), list)


def _conversation(place: str, value: Any, zone: tzinfo | None) -> Iterator[Item]:
    title, place = titled(place, value, "title")
    if not is_conversation(value):
        yield LeftOut(place, f"it is a {type(value).__name__} without conversationId and messages")
        return
    id_ = value["conversationId"]
    if not isinstance(id_, str) or not id_.strip():
        yield LeftOut(place, f"its conversationId is {id_!r}")
        return
    turns: dict[str, Mapping[str, Any]] = {}
    parents: dict[str, str | None] = {}
    waiting: list[tuple[Any, str | None]] = [(said, None) for said in reversed(value["messages"])]
    while waiting:  # depth first, so that of a tree the last answer to the last answer comes last; not by recursion
        said, above = waiting.pop()
        message_id = said.get("messageId") if isinstance(said, Mapping) else None
        if not isinstance(message_id, str) or not message_id.strip() or message_id in turns:
            yield LeftOut(place, f"a message with the messageId {message_id!r}, expected one of its own")
            continue
        turns[message_id] = said
        parent = said.get("parentMessageId")
        parents[message_id] = parent if isinstance(parent, str) else above
        children = said.get("children")
        waiting += [(child, message_id) for child in reversed(children)] if isinstance(children, list) else []
    linked = any(parent in turns for parent in parents.values())
    leaf = last_leaf(parents)
    way = branch(parents, leaf) if linked and leaf is not None else list(turns)
    yield from abandoned(place, len(turns) - len(way))
    said_here: list[Line] = []
    empty = thoughts = 0
    for message_id in way:
        said, where = turns[message_id], f"{place}, message {message_id}"
        at, problems = dated(where, said.get("createdAt"), zone)
        yield from problems
        if said.get("error") is True:
            yield LeftOut(where, "it tells of an error")
            continue
        role = "user" if said.get("isCreatedByUser") else "assistant"
        parts = list(_parts(role, said))
        thoughts += sum(1 for each in _blocks(said) if each.get("type") == "think")
        empty += not parts
        said_here += lines(where, message_id, parts, at)
    for count, reason in ((empty, "messages without a text"), (thoughts, "what the model thought and did not say")):
        if count:
            yield LeftOut(place, reason, count)
    yield Conversation(id_, place, said_here, title)


def _blocks(said: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    blocks = said.get("content")
    return [each for each in blocks if isinstance(each, Mapping)] if isinstance(blocks, list) else []


def _parts(role: str, said: Mapping[str, Any]) -> Iterator[tuple[str, str | None, str]]:
    """What one message says, in order: (role, name, text). What goes to tools and comes back is of the tool."""
    texts: list[str] = []
    told: list[tuple[str, str | None, str]] = []
    for block in _blocks(said):
        kind = str(block.get("type", ""))
        if kind == "text":
            text = block.get("text")
            texts.append(str(text.get("value", "")) if isinstance(text, Mapping) else str(text or ""))
        elif kind == "tool_call" and isinstance(block.get("tool_call"), Mapping):
            call = block["tool_call"]
            given = call.get("args") or ""
            asked = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
            output = call.get("output")
            shown = "\n".join(filter(None, (asked, output if isinstance(output, str) else "")))
            told.append(("tool", str(call.get("name") or "tool"), shown))
        elif kind not in ("think", ""):
            texts.append("[image]" if "image" in kind else f"[{kind}]")
    if not any(text.strip() for text in texts) and isinstance(said.get("text"), str):
        texts = [said["text"]]
    attached = said.get("files")
    for each in attached if isinstance(attached, list) else ():
        if isinstance(each, Mapping):
            image = str(each.get("type", "")).startswith("image/")
            texts.append("[image]" if image else f"[file: {each.get('filename') or 'unnamed'}]")
    if text := "\n".join(each for each in texts if each.strip()).strip():
        yield role, None, text
    yield from (each for each in told if each[2].strip())
