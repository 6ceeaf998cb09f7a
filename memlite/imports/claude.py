"""Claude's export: conversations.json, by itself or in its zip; a list of conversations with their chat_messages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import tzinfo
from typing import Any

from memlite.imports.files import Text
from memlite.imports.items import Conversation, Item, Line, dated, lines
from memlite.imports.trees import abandoned, branch, conversations, last_leaf, titled
from memlite.records import LeftOut

_ROLES = {"human": "user", "assistant": "assistant"}
_THOUGHTS = ("thinking", "redacted_thinking", "token_budget", "flag")


def read(text: Text, zone: tzinfo | None) -> Iterator[Item]:
    """Its conversations, each along its last branch."""
    return conversations(text, lambda place, value: _conversation(place, value, zone))


def is_conversation(value: Any) -> bool:
    """Whether a value looks like one of its conversations."""
    return isinstance(value, Mapping) and isinstance(value.get("chat_messages"), list)


def _conversation(place: str, value: Any, zone: tzinfo | None) -> Iterator[Item]:
    title, place = titled(place, value, "name")
    if not is_conversation(value):
        yield LeftOut(place, f"it is a {type(value).__name__} without chat_messages")
        return
    id_ = value.get("uuid")
    if not isinstance(id_, str) or not id_.strip():
        yield LeftOut(place, "it has no uuid")
        return
    turns: dict[str, Mapping[str, Any]] = {}
    for number, said in enumerate(value["chat_messages"], 1):
        uuid = said.get("uuid") if isinstance(said, Mapping) else None
        if not isinstance(uuid, str) or not uuid.strip():
            yield LeftOut(f"{place}, message {number}", f"it is a {type(said).__name__} without a uuid")
        elif uuid in turns:
            yield LeftOut(f"{place}, message {number}", f"an earlier one has its uuid {uuid}")
        else:
            turns[uuid] = said
    way = _way(turns, value.get("current_leaf_message_uuid"))
    yield from abandoned(place, len(turns) - len(way))
    at, problems = dated(place, value.get("created_at"), zone)
    yield from problems
    reasons: Counter[str] = Counter()
    said_here: list[Line] = []
    for uuid in way:
        where = f"{place}, message {uuid}"
        role = _ROLES.get(str(turns[uuid].get("sender")))
        if role is None:
            yield LeftOut(where, f"its sender is {turns[uuid].get('sender')!r}, expected human or assistant")
            continue
        said_at, problems = dated(where, turns[uuid].get("created_at"), zone)
        yield from problems
        parts = list(_parts(role, turns[uuid], reasons))
        if not parts:
            reasons["messages without a text"] += 1
        said_here += lines(where, uuid, parts, said_at)
    for reason, count in reasons.items():
        yield LeftOut(place, reason, count)
    yield Conversation(id_, place, said_here, title, at)


def _way(turns: Mapping[str, Mapping[str, Any]], leaf: Any) -> list[str]:
    """The messages of the last branch; all of them where the export does not say what follows what."""
    if not any("parent_message_uuid" in said for said in turns.values()):
        return list(turns)
    parents = {
        uuid: said["parent_message_uuid"] if isinstance(said.get("parent_message_uuid"), str) else None
        for uuid, said in turns.items()
    }
    end = leaf if isinstance(leaf, str) and leaf in turns else last_leaf(parents)
    return branch(parents, end) if end is not None else []


def _parts(role: str, said: Mapping[str, Any], reasons: Counter[str]) -> Iterator[tuple[str, str | None, str]]:
    """What one message says, in order: (role, name, text). What goes to tools and comes back is of the tool."""
    blocks = said.get("content")
    texts: list[str] = []
    told: list[tuple[str, str | None, str]] = []
    for block in blocks if isinstance(blocks, list) else ():
        if not isinstance(block, Mapping):
            continue
        kind = str(block.get("type", ""))
        if kind == "text" and isinstance(block.get("text"), str):
            texts.append(_cited(block))
        elif kind in _THOUGHTS:
            if kind in ("thinking", "redacted_thinking"):
                reasons["what the model thought and did not say"] += 1
        else:
            name = block["name"] if isinstance(block.get("name"), str) else None
            if text := _of_tool(block):
                told.append(("tool", name, text))
    if not any(text.strip() for text in texts) and isinstance(said.get("text"), str) and not told:
        texts = [said["text"]]
    files = [each for name in ("attachments", "files") for each in said.get(name) or () if isinstance(each, Mapping)]
    names = [str(each["file_name"]) for each in files if each.get("file_name")]
    texts += [f"[file: {name}]" for name in dict.fromkeys(names)]
    if text := "\n".join(each for each in texts if each.strip()).strip():
        yield role, None, text
    for each in files:  # what a file says is searched, and not taken for what the user says of himself
        if isinstance(each.get("extracted_content"), str) and each["extracted_content"].strip():
            yield "tool", str(each.get("file_name") or "file"), each["extracted_content"]
    yield from told


def _of_tool(block: Mapping[str, Any]) -> str:
    """A call of a tool or its answer as text, with placeholders for what is none."""
    if "input" in block:
        return json.dumps(block["input"], ensure_ascii=False) if block["input"] else ""
    content = block.get("content")
    if isinstance(content, str):
        return content.strip()
    told = []
    for each in content if isinstance(content, list) else ():
        if isinstance(each, Mapping):
            text = each.get("text")
            told.append(text if isinstance(text, str) else f"[{each.get('type', 'something that is no text')}]")
    return "\n".join(told).strip() or (f"[{block['type']}]" if content is None and block.get("type") else "")


def _cited(block: Mapping[str, Any]) -> str:
    """A block's text with the pages behind it that it cites."""
    cited = block.get("citations")
    links = {}
    for each in cited if isinstance(cited, list) else ():
        details = each.get("details") if isinstance(each, Mapping) else None
        page = details if isinstance(details, Mapping) else each if isinstance(each, Mapping) else {}
        url, title = page.get("url"), page.get("title")
        if isinstance(url, str) and url:
            links[url] = f"[{title}]({url})" if isinstance(title, str) and title else f"({url})"
    return " ".join((str(block["text"]), *links.values()))
