"""What callers hand to add(): a text, one message or many, read into validated turns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import Any

from memlite import filters, instants
from memlite.errors import InvalidInputError, excerpt
from memlite.messages import NewMessage
from memlite.scopes import check_text

Given = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]

ROLES = ("user", "assistant", "system", "tool")
_ROLE_NAMES = {role: role for role in ROLES} | {
    "developer": "system",
    "function": "tool",
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
}
_PLACEHOLDERS = {"image": "image", "audio": "audio", "video": "video", "file": "file", "document": "file"}


def read(given: Given, observed: tuple[int, int], zone: tzinfo | None) -> list[NewMessage]:
    """Validate a conversation: a text (one user message), a message, or a list of either.

    A message has "role" and "content" (a text, or OpenAI's content parts), and may have "name" (the speaker),
    "id" (the caller's own, unique in its scope), "observed_at" (else `observed`) and "metadata" (of this message alone,
    over what is given for all; facts that are learnt from it do not have it). Other keys are ignored.
    Raises InvalidInputError naming the message that cannot be used; then nothing is stored.
    """
    if isinstance(given, (str, Mapping)):
        given = [given]
    if not isinstance(given, Sequence) or isinstance(given, (bytes, bytearray)):
        raise InvalidInputError(f"messages is a {type(given).__name__}, expected a text, a message or a list of them.")
    if not given:
        raise InvalidInputError("messages is empty, expected at least one message.")
    found = [_message(item, number, observed, zone) for number, item in enumerate(given, 1)]
    ids: set[str] = set()
    for id_ in (message.caller_id for message in found if message.caller_id is not None):
        if id_ in ids:
            raise InvalidInputError(
                f"two messages have the id {excerpt(id_)}; an id stands for one message of a scope."
            )
        ids.add(id_)
    return found


def _message(item: object, number: int, observed: tuple[int, int], zone: tzinfo | None) -> NewMessage:
    where = f"message {number}"
    if isinstance(item, str):
        item = {"role": "user", "content": item}
    if not isinstance(item, Mapping):
        raise InvalidInputError(f"{where} is a {type(item).__name__}, expected a text or a dict with role and content.")
    role = _ROLE_NAMES.get(str(item.get("role", "user")).strip().lower())
    if role is None:
        raise InvalidInputError(f"{where} has the role {excerpt(item['role'])}, expected one of {', '.join(ROLES)}.")
    content = _content(item, where)
    if not content.strip():
        raise InvalidInputError(f"{where} is blank, expected some text.")
    check_text(where, content)
    name = item.get("name") or ""
    caller_id = item.get("id")
    if not isinstance(name, str) or not isinstance(caller_id, (str, int, type(None))):
        raise InvalidInputError(f"{where}: name and id are texts, found {excerpt(name)} and {excerpt(caller_id)}.")
    check_text(f"{where}'s name", name)
    if caller_id is not None:
        caller_id = str(caller_id).strip()
        check_text(f"{where}'s id", caller_id)
        if not caller_id:
            raise InvalidInputError(f"{where} has an empty id; leave it out if there is none.")
    at, offset = (
        observed
        if item.get("observed_at") is None
        else instants.read(item["observed_at"], zone, f"observed_at of {where}")
    )
    own = item.get("metadata")
    metadata = "" if own is None else filters.check_metadata(own)
    return NewMessage(role, " ".join(name.split()), content, at, offset, caller_id, metadata)


def _content(item: Mapping[str, Any], where: str) -> str:
    content = item.get("content")
    calls = item.get("tool_calls")
    if calls and (content is None or content == ""):
        if not isinstance(calls, Sequence) or isinstance(calls, str):
            raise InvalidInputError(f"{where} has a {type(calls).__name__} as tool_calls, expected a list.")
        return "\n".join(_tool_call(call) for call in calls)
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence) and not isinstance(content, (bytes, bytearray)):
        return "\n".join(_part(part, where) for part in content)
    raise InvalidInputError(
        f"{where} has {'no content' if content is None else f'a {type(content).__name__} as content'}, "
        "expected a text or a list of content parts."
    )


def _part(part: object, where: str) -> str:
    """One of OpenAI's content parts; what is not text leaves a placeholder, so that it is not lost silently."""
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping):
        if isinstance(part.get("text"), str):
            return str(part["text"])
        if isinstance(part.get("refusal"), str):
            return str(part["refusal"])
        kind = str(part.get("type", ""))
        for key, placeholder in _PLACEHOLDERS.items():
            if key in kind:
                return f"[{placeholder}]"
    raise InvalidInputError(f"{where} has a content part {excerpt(part)}, expected type text, image, audio or file.")


def _tool_call(call: object) -> str:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return json.dumps(call, ensure_ascii=False, default=str)
    return f"{function.get('name', '')}({function.get('arguments', '')})"
