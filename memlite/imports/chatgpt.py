"""ChatGPT's export: conversations.json, by itself or in its zip; a list of conversations, each a tree of messages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Any

from memlite.errors import InvalidInputError
from memlite.imports.files import Text
from memlite.imports.items import Conversation, Item, Line, dated, undated, when
from memlite.imports.trees import abandoned, branch, conversations, last_leaf, titled
from memlite.records import LeftOut

_THOUGHTS = ("thoughts", "reasoning_recap")  # what the model told nobody
_IMAGES = ("image_asset_pointer", "image_url")
_SOUND = ("audio_asset_pointer", "real_time_user_audio_video_asset_pointer", "video_container_asset_pointer")
_MARKERS = re.compile("\ue200[^\ue201]*\ue201")  # references of which nothing says what they are
_REFERENCE = re.compile("^(?:\ue200.*\ue201|【.*】)$", re.DOTALL)


def read(text: Text, zone: tzinfo | None) -> Iterator[Item]:
    """Its conversations, each along the branch that was looked at last."""
    return conversations(text, lambda place, value: _conversation(place, value, zone))


def is_conversation(value: Any) -> bool:
    """Whether a value looks like one of its conversations."""
    return isinstance(value, Mapping) and isinstance(value.get("mapping"), Mapping)


def _conversation(place: str, value: Any, zone: tzinfo | None) -> Iterator[Item]:
    if not isinstance(value, Mapping):
        yield LeftOut(place, f"it is a {type(value).__name__}, expected a conversation with a mapping")
        return
    title, place = titled(place, value, "title")
    id_ = value.get("conversation_id") or value.get("id")
    if not is_conversation(value):
        yield LeftOut(place, "it has no mapping: its messages are not in the export")
        return
    if not isinstance(id_, str) or not id_.strip():
        yield LeftOut(place, "it has neither conversation_id nor id")
        return
    nodes = {key: node for key, node in value["mapping"].items() if isinstance(node, Mapping)}
    if broken := len(value["mapping"]) - len(nodes):
        yield LeftOut(place, "nodes that are no objects", broken)
    parents = {key: node["parent"] if isinstance(node.get("parent"), str) else None for key, node in nodes.items()}
    current = value.get("current_node")
    leaf = current if isinstance(current, str) and current in nodes else last_leaf(parents)
    way = branch(parents, leaf) if leaf is not None else []
    left = [key for key, node in nodes.items() if key not in set(way) and _has_text(node.get("message"))]
    yield from abandoned(place, len(left))
    at, problems = dated(place, value.get("create_time"), zone)
    yield from problems
    reasons: Counter[str] = Counter()
    lines = []
    for key in way:
        said = nodes[key].get("message")
        if said is None:
            continue
        where = f"{place}, message {key}"
        try:
            line = _line(where, key, said, zone)
        except InvalidInputError as error:
            yield LeftOut(where, str(error))
            continue
        if isinstance(line, str):
            reasons[line] += 1
            continue
        lines.append(line)
        if line.message["observed_at"] is None and said.get("create_time") is not None:
            yield undated(where, said["create_time"])
    for reason, count in reasons.items():
        yield LeftOut(place, reason, count)
    yield Conversation(id_, place, lines, title, at)


def _has_text(said: Any) -> bool:
    return isinstance(said, Mapping) and bool(_text(said.get("content"), {}).strip())


def _line(where: str, key: str, said: Any, zone: tzinfo | None) -> Line | str:
    """A message, or the reason for which it is none. Raises InvalidInputError for a malformed one."""
    if not isinstance(said, Mapping):
        raise InvalidInputError(f"it is a {type(said).__name__}, expected an object")
    author, content = said.get("author"), said.get("content")
    role = author.get("role") if isinstance(author, Mapping) else None
    if not isinstance(content, Mapping) or not isinstance(role, str):
        raise InvalidInputError(f"it has the role {role!r} and a {type(content).__name__} as content")
    metadata = said["metadata"] if isinstance(said.get("metadata"), Mapping) else {}
    kind = str(content.get("content_type", ""))
    if kind in _THOUGHTS:
        return "what the model thought and did not say"
    text = "\n".join(filter(None, (_text(content, metadata), *_files(metadata)))).strip()
    if not text:
        return "messages without a text"
    name = author.get("name") if isinstance(author, Mapping) else None
    to = said.get("recipient")
    if kind == "user_editable_context":
        role, name = "system", None  # it stood before every conversation, and was said in none
    elif role == "assistant" and isinstance(to, str) and to not in ("all", ""):
        role, name = "tool", to  # what goes to a tool and what comes back are told nobody
    try:
        at = when(said.get("create_time"), zone)
    except InvalidInputError:
        at = None
    id_ = said["id"] if isinstance(said.get("id"), str) and said["id"].strip() else key
    return Line(where, {"role": role, "name": name, "content": text, "id": id_, "observed_at": at})


def _text(content: Any, metadata: Mapping[str, Any]) -> str:
    """What a message says, with placeholders for what is no text. Raises InvalidInputError for an unknown shape."""
    if not isinstance(content, Mapping):
        return ""
    if isinstance(content.get("parts"), Sequence) and not isinstance(content["parts"], str):
        return _cited("\n".join(filter(None, map(_part, content["parts"]))), metadata)
    if content.get("content_type") == "user_editable_context":
        said = (content.get("user_profile"), content.get("user_instructions"))
        return "\n".join(each for each in said if isinstance(each, str))
    # Code, what running it printed, pages that were read, errors.
    about = [content.get(name) for name in ("title", "url") if content.get("content_type") != "code"]
    told = [content.get(name) for name in ("name", "text", "result", "summary", "model_set_context", "content")]
    found = [each for each in (*about, *told) if isinstance(each, str) and each.strip()]
    return "\n".join(found)


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        return ""
    kind = str(part.get("content_type", ""))
    if isinstance(part.get("text"), str):  # what was said aloud
        return str(part["text"])
    if kind in _IMAGES:
        asked = part["metadata"].get("dalle") if isinstance(part.get("metadata"), Mapping) else None
        prompt = asked.get("prompt") if isinstance(asked, Mapping) else None
        return f"[image: {prompt}]" if isinstance(prompt, str) and prompt else "[image]"
    return "[audio]" if kind in _SOUND else f"[{kind or 'something that is no text'}]"


def _files(metadata: Mapping[str, Any]) -> Iterator[str]:
    """Placeholders for attached files; an image has its own among the parts."""
    attached = metadata.get("attachments")
    for each in attached if isinstance(attached, Sequence) and not isinstance(attached, str) else ():
        if isinstance(each, Mapping) and not str(each.get("mime_type", "")).startswith("image/"):
            yield f"[file: {each['name']}]" if isinstance(each.get("name"), str) else "[file]"


def _cited(text: str, metadata: Mapping[str, Any]) -> str:
    """A text with its citations written out as links, where the export says what they stand for."""
    references: list[tuple[int, int, str]] = []
    for each in _objects(metadata.get("content_references")):
        written = each["alt"] if isinstance(each.get("alt"), str) else ""
        references += _spans(text, each.get("start_idx"), each.get("end_idx"), each.get("matched_text"), written)
    for each in _objects(metadata.get("citations")):
        page = each["metadata"] if isinstance(each.get("metadata"), Mapping) else {}
        url, title = page.get("url"), page.get("title")
        if isinstance(url, str) and url:
            link = f"[{title}]({url})" if isinstance(title, str) and title else f"({url})"
            references += _spans(text, each.get("start_ix"), each.get("end_ix"), None, link)
    end = len(text)
    for start, stop, written in sorted(references, key=lambda each: each[0], reverse=True):
        if stop <= end:
            text, end = text[:start] + written + text[stop:], start
    return _MARKERS.sub("", text)


def _spans(text: str, start: Any, stop: Any, matched: Any, written: str) -> Iterator[tuple[int, int, str]]:
    """Where a reference stands, if there is one: the export counts in a text of which this one may be a part."""
    if isinstance(start, int) and isinstance(stop, int) and 0 <= start < stop <= len(text):
        found = text[start:stop]
        if found == matched or (matched is None and _REFERENCE.match(found)):
            yield start, stop, written
            return
    if isinstance(matched, str) and _REFERENCE.match(matched) and (at := text.find(matched)) >= 0:
        yield at, at + len(matched), written


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    for each in value if isinstance(value, list) else ():
        if isinstance(each, Mapping):
            yield each
