"""Any client with the shape of OpenAI's: it recalls before a chat completion and remembers after it.

It needs no package: whatever has `chat.completions.create` will do, openai's own client and those of others, for
waiting or for asyncio.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memlite.errors import InvalidInputError
from memlite.integrations.answers import AsyncStream, Stream, answer_text
from memlite.integrations.transcript import Extract, check, member, recalled, text_of
from memlite.memory import Memory

_NOT_HERE = "this client remembers chat.completions.create and parse alone; for {} use the client that you wrapped."
_OTHER_WAYS = ("responses", "stream", "with_raw_response", "with_streaming_response")


def with_memory(
    client: Any,
    memory: Memory,
    *,
    user_id: str | None = None,
    agent_id: str | None = None,
    run_id: str | None = None,
    max_tokens: int = 1000,
    extract: Extract = "later",
) -> Any:
    """The same client with a memory. Before each `chat.completions.create` (or `parse`) what is remembered that answers
    the last message of the user is put in front of that message, marked as data; afterwards what the user newly said,
    and the text of the answer, are stored, and facts are learnt from them.

    user_id, agent_id: whose memory it is. run_id: names the conversation. max_tokens: of what is recalled, 0 for
    nothing. extract: "later" leaves the learning to `Memory.work` or a worker, "now" waits for it, "never" only stores.

    New is what stands behind the last answer in `messages`. The caller's messages are not changed, so nothing recalled
    is sent or learnt again; tools and their calls pass through, and nothing of them is stored. A streamed answer is
    stored when the stream ends or is closed, as far as it came; an answer that fails is not stored, nor its question.
    Other things of the client are its own, but other ways to ask for an answer raise InvalidInputError: they would be
    forgotten.

        client = with_memory(OpenAI(), Memory("memory.db"), user_id="ana")
        client.chat.completions.create(model="gpt-5", messages=[{"role": "user", "content": "Where do I work?"}])
    """
    checked = check(memory, extract=extract, max_tokens=max_tokens)
    checked.scope(user_id=user_id, agent_id=agent_id, run_id=run_id)  # refuses what is no id
    return _Client(client, _Remembering(memory, user_id, agent_id, run_id, max_tokens, extract))


@dataclass(frozen=True, slots=True)
class _Remembering:
    memory: Memory
    user_id: str | None
    agent_id: str | None
    run_id: str | None
    max_tokens: int
    extract: Extract

    def recall(self, messages: Sequence[Any]) -> list[Any]:
        """The messages with what is remembered in front of the last one of the user."""
        said = list(messages)
        asked = next((at for at in reversed(range(len(said))) if member(said[at], "role") == "user"), None)
        if asked is None or not self.max_tokens:
            return said
        content = member(said[asked], "content")
        texts = {text_of(member(each, "content")) for each in said}
        block = recalled(
            self.memory,
            text_of(content),
            user_id=self.user_id,
            agent_id=self.agent_id,
            run_id=self.run_id,
            max_tokens=self.max_tokens,
            seen=texts,
        )
        if block:
            parts = content if isinstance(content, str) else [{"type": "text", "text": block}, *content]
            given = said[asked] if isinstance(said[asked], Mapping) else said[asked].model_dump(exclude_unset=True)
            said[asked] = {**given, "content": f"{block}\n\n{parts}" if isinstance(parts, str) else parts}
        return said

    def remember(self, messages: Sequence[Any], answer: str) -> None:
        """Store what the user said since the last answer, and the answer."""
        last = next((at for at in reversed(range(len(messages))) if member(messages[at], "role") == "assistant"), -1)
        new = [
            ("user", text_of(member(each, "content")))
            for each in messages[last + 1 :]
            if member(each, "role") == "user"
        ]
        said = [{"role": role, "content": text} for role, text in [*new, ("assistant", answer)] if text.strip()]
        if said:
            scope = self.memory.scope(user_id=self.user_id, agent_id=self.agent_id, run_id=self.run_id)
            scope.add(said, extract=self.extract)


class _Part:
    """A part of a client that passes on what it does not know."""

    def __init__(self, inner: Any, remembering: _Remembering) -> None:
        self._inner, self._remembering = inner, remembering

    def __getattr__(self, name: str) -> Any:
        if name in _OTHER_WAYS:
            raise InvalidInputError(_NOT_HERE.format(name))
        return getattr(self._inner, name)


class _Client(_Part):
    @property
    def chat(self) -> _Chat:
        return _Chat(self._inner.chat, self._remembering)

    def with_options(self, **options: Any) -> _Client:
        return _Client(self._inner.with_options(**options), self._remembering)

    copy = with_options

    def __enter__(self) -> _Client:
        self._inner.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._inner.__exit__(*error)

    async def __aenter__(self) -> _Client:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._inner.__aexit__(*error)


class _Chat(_Part):
    @property
    def completions(self) -> _Completions:
        return _Completions(self._inner.completions, self._remembering)


class _Completions(_Part):
    def create(self, **asked: Any) -> Any:
        return self._ask("create", asked)

    def parse(self, **asked: Any) -> Any:
        return self._ask("parse", asked)

    def _ask(self, way: str, asked: dict[str, Any]) -> Any:
        call = getattr(self._inner, way)
        if not isinstance(asked.get("messages"), Sequence) or isinstance(asked["messages"], str):
            raise InvalidInputError("messages is missing or no list; chat.completions needs the list of messages.")
        messages = list(asked["messages"])  # as they are now: the caller will add the answer to them
        if inspect.iscoroutinefunction(inspect.unwrap(call)):
            return self._awaited(call, asked, messages)
        answer = call(**{**asked, "messages": self._remembering.recall(messages)})
        if inspect.isawaitable(answer):  # of a client that does not say so beforehand
            return self._finished(answer, asked, messages)
        if asked.get("stream") is True:
            return Stream(answer, functools.partial(self._remembering.remember, messages))
        self._remembering.remember(messages, answer_text(answer, "message"))
        return answer

    async def _awaited(self, call: Any, asked: dict[str, Any], messages: list[Any]) -> Any:
        recalled = await asyncio.to_thread(self._remembering.recall, messages)
        return await self._finished(call(**{**asked, "messages": recalled}), asked, messages)

    async def _finished(self, coming: Awaitable[Any], asked: dict[str, Any], messages: list[Any]) -> Any:
        answer = await coming
        if asked.get("stream") is True:
            return AsyncStream(answer, functools.partial(self._remembering.remember, messages))
        await asyncio.to_thread(self._remembering.remember, messages, answer_text(answer, "message"))
        return answer
