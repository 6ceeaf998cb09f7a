"""What the adapters of conversations share: the items of a framework as the messages of one run, and what a prompt is
given of what is remembered.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from memlite import context
from memlite.arguments import MOST_TOKENS, count
from memlite.errors import InvalidInputError, NotFoundError, excerpt
from memlite.memory import Memory
from memlite.records import Message, Receipt

Extract = Literal["now", "later", "never"]

ITEM = "memlite:item"  # in a message's metadata: the item as its framework has it, by the framework's name
_PAGE = 1000
_WIDER = 4  # times the tokens asked for, of which what the prompt has already is left out


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a conversation. text: what is searched and, from a user or an assistant, learnt from; raw: all of it
    as JSON. An item without text is kept as a tool's, of which nothing is learnt.
    """

    role: str
    text: str
    raw: str
    name: str = ""

    def as_message(self, framework: str) -> dict[str, Any]:
        """The item as `Memory.add` takes it."""
        text = self.text.encode("utf-8", "replace").decode()  # half of a surrogate pair is kept in the JSON alone
        return {
            "role": self.role if text.strip() else "tool",
            "content": text if text.strip() else "[no text]",
            "name": self.name,
            "metadata": {ITEM: {framework: self.raw}},
        }


class Transcript:
    """One conversation: the run `run_id`, of a user or an agent where these are given.

    framework: under whose name items are kept. extract: when facts are learnt, as in `Memory.add`.
    Raises InvalidInputError where the memory is no `Memory` or the id is empty.
    """

    def __init__(
        self,
        memory: Memory,
        framework: str,
        *,
        user_id: str | None,
        agent_id: str | None,
        run_id: str,
        extract: Extract = "later",
    ) -> None:
        if not isinstance(run_id, str) or not run_id.strip():
            raise InvalidInputError(f"the id of the conversation is {excerpt(run_id)}, expected a text that names it.")
        self._run = check(memory, extract=extract).scope(user_id=user_id, agent_id=agent_id, run_id=run_id)
        self._framework, self._extract = framework, extract

    def append(self, items: Iterable[Item]) -> None:
        """Store items in their order, all of them or none."""
        said = [item.as_message(self._framework) for item in items]
        if said:
            self._run.add(said, extract=self._extract)

    def last(self, limit: int | None = None) -> list[Message]:
        """The last `limit` messages, all for None, in their order."""
        found: list[Message] = []
        while limit is None or len(found) < limit:
            most = _PAGE if limit is None else min(_PAGE, limit - len(found))
            page = self._run.get_messages(limit=most, before=found[0].id if found else None)
            found = page + found
            if len(page) < most:
                break
        return found

    def raw(self, message: Message) -> str | None:
        """The item that a message was stored for; None where another program, or another adapter, stored it."""
        item = message.metadata.get(ITEM)
        found = item.get(self._framework) if isinstance(item, Mapping) else None
        return found if isinstance(found, str) else None

    def pop(self) -> Message | None:
        """Delete the last message for good, with the facts that have no other source, and return it."""
        while True:
            found = self._run.get_messages(limit=1)
            if not found:
                return None
            try:
                self._run.delete(found[0].id)
            except NotFoundError:  # another process has popped it; the next one is ours
                continue
            return found[0]

    def clear(self) -> Receipt:
        """Delete everything of this conversation for good, with the facts that have no other source."""
        return self._run.delete_all(everything=True)


def check(memory: Memory, *, extract: Extract = "later", max_tokens: int = 0) -> Memory:
    """Refuse, before a model is asked, what would fail after it has answered. A memory is no `AsyncMemory`: adapters
    have threads of their own for what is awaited.
    """
    if not isinstance(memory, Memory):
        raise InvalidInputError(f"memory is a {type(memory).__name__}, expected a memlite.Memory.")
    if extract not in get_args(Extract):
        raise InvalidInputError(f"extract is {excerpt(extract)}, expected one of {', '.join(get_args(Extract))}.")
    if max_tokens != 0:
        count("max_tokens", max_tokens, MOST_TOKENS)
    return memory


def dump(value: object) -> str:
    """An item as JSON in ASCII, from which `json.loads` makes the same again. Raises InvalidInputError."""
    try:
        return json.dumps(value)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"an item cannot be written as JSON ({error}): {excerpt(value)}") from error


def text_of(content: object) -> str:
    """What is text in the content of a message, which is a text or a list of parts; "" for images and the like."""
    if isinstance(content, str):
        return content
    if not isinstance(content, (list, tuple)):
        return ""
    texts = [part if isinstance(part, str) else member(part, "text") or member(part, "refusal") for part in content]
    return "\n".join(text for text in texts if isinstance(text, str))


def member(value: object, name: str) -> Any:
    """A member of a mapping or an object; None where it has none."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def recalled(
    memory: Memory,
    query: str,
    *,
    user_id: str | None,
    agent_id: str | None,
    run_id: str | None,
    max_tokens: int,
    seen: Collection[str] = (),
) -> str:
    """What is remembered that answers a query, marked as data, for the prompt of a model; "" where nothing does.

    It is looked for in all runs of the user and agent, or in the run alone where there is neither. seen: texts that the
    prompt has already; a message that says the same is left out. max_tokens: at most so many, by memlite's estimate.
    """
    if not query.strip():
        return ""
    seen_by = memory.scope(user_id=user_id, agent_id=agent_id) if user_id or agent_id else memory.scope(run_id=run_id)
    found = seen_by.context(query, max_tokens=min(_WIDER * max_tokens, MOST_TOKENS))
    lines: list[str] = []
    left = max_tokens
    for hit, line in zip(found.hits, found.text.split("\n")):  # a line a hit; one empty line where there is none
        cost = context.tokens(line) + 1
        if cost <= left and not (isinstance(hit.record, Message) and hit.record.content in seen):
            lines.append(line)
            left -= cost
    return "\n".join(context.fenced(lines))
