"""Pydantic AI: a capability that lets an agent recall before it answers and remember afterwards.

Needs `pip install 'memlite[pydantic-ai]'`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any

from memlite.errors import InvalidInputError
from memlite.integrations import missing
from memlite.integrations.transcript import Extract, Item, Transcript, check, recalled
from memlite.memory import Memory
from memlite.records import Message

try:
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import (
        ModelMessage,
        ModelMessagesTypeAdapter,
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.tools import RunContext
except ImportError as error:
    raise missing("pydantic-ai", error) from error

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.run import AgentRunResult


@dataclass
class MemliteCapability(AbstractCapability[Any]):
    """What is remembered stands, marked as data, before the prompt of the user in each request to the model, and in no
    history; what the run said is stored when it ends, each message as it is, and facts are learnt from its text.

    user_id, agent_id: whose memory it is; at least one of them or run_id. run_id: names the conversation; by default
    the agent's own conversation id. max_tokens: of what is recalled, 0 for nothing. remember: False only recalls.
    extract: "later" leaves the learning to `Memory.work` or a worker, "now" waits for it, "never" only stores. A run
    that fails or is cancelled stores nothing.

        remembering = MemliteCapability(Memory("memory.db"), user_id="ana", run_id="chat-1")
        agent = Agent(model, capabilities=[remembering])
        result = await agent.run("Where do I work?", message_history=await remembering.history())
    """

    memory: Memory
    _: KW_ONLY
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    max_tokens: int = 1000
    remember: bool = True
    extract: Extract = "later"

    def __post_init__(self) -> None:
        memory = check(self.memory, extract=self.extract, max_tokens=self.max_tokens)
        memory.scope(user_id=self.user_id, agent_id=self.agent_id, run_id=self.run_id)  # refuses what is no id

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """None: an open file cannot be written into the specification of an agent."""
        return None

    async def history(self, run_id: str | None = None) -> list[ModelMessage]:
        """The messages of a conversation, by default of `run_id`, for `message_history`."""
        transcript = self._transcript(run_id or self.run_id)
        found: list[ModelMessage] = []
        for said in await asyncio.to_thread(transcript.last):
            raw = transcript.raw(said)
            found += [_other(said)] if raw is None else ModelMessagesTypeAdapter.validate_json(raw)
        return found

    async def forget(self, run_id: str | None = None) -> None:
        """Delete a conversation, by default that of `run_id`, for good, with the facts that were learnt in it alone."""
        await asyncio.to_thread(self._transcript(run_id or self.run_id).clear)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Put what is remembered before the user's prompt, in this request alone."""
        said = list(request_context.messages)
        place = next(((m, p) for m in reversed(range(len(said))) for p in _prompts(said[m])), None)
        if place is None or not self.max_tokens:
            return request_context
        at, part_at = place
        request, prompt = said[at], said[at].parts[part_at]
        assert isinstance(request, ModelRequest)
        assert isinstance(prompt, UserPromptPart)
        block = await asyncio.to_thread(
            recalled,
            self.memory,
            _said(prompt),
            user_id=self.user_id,
            agent_id=self.agent_id,
            run_id=self.run_id or ctx.conversation_id,
            max_tokens=self.max_tokens,
            seen={_text(each) for each in said},
        )
        if block:
            content = prompt.content if not isinstance(prompt.content, str) else [prompt.content]
            parts = list(request.parts)
            parts[part_at] = replace(prompt, content=[block, *content])
            said[at] = replace(request, parts=parts)
        return replace(request_context, messages=said)

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Store the new messages of the run."""
        if self.remember:
            transcript = self._transcript(self.run_id or ctx.conversation_id)
            await asyncio.to_thread(transcript.append, [_item(each) for each in result.new_messages()])
        return result

    def _transcript(self, run_id: str | None) -> Transcript:
        if not run_id:
            raise InvalidInputError("no run_id was given, here or to the capability; say which conversation is meant.")
        return Transcript(
            self.memory,
            "pydantic-ai",
            user_id=self.user_id,
            agent_id=self.agent_id,
            run_id=run_id,
            extract=self.extract,
        )


def _prompts(message: ModelMessage) -> list[int]:
    """Where the prompts of a user stand in a message, the last first."""
    return [at for at, part in reversed(list(enumerate(message.parts))) if isinstance(part, UserPromptPart)]


def _said(part: UserPromptPart) -> str:
    if isinstance(part.content, str):
        return part.content
    pieces = [each if isinstance(each, str) else getattr(each, "content", None) for each in part.content]
    kinds = [getattr(each, "kind", type(each).__name__) for each in part.content]
    return "\n".join(piece if isinstance(piece, str) else f"[{kind}]" for piece, kind in zip(pieces, kinds))


def _text(message: ModelMessage) -> str:
    """What the user or the model says in a message."""
    if isinstance(message, ModelResponse):
        return "\n".join(part.content for part in message.parts if isinstance(part, TextPart))
    return "\n".join(_said(part) for part in message.parts if isinstance(part, UserPromptPart))


def _item(message: ModelMessage) -> Item:
    raw = ModelMessagesTypeAdapter.dump_json([message], ensure_ascii=True).decode()
    text = _text(message)
    if text.strip():
        return Item("assistant" if isinstance(message, ModelResponse) else "user", text, raw)
    return Item("tool", "\n".join(_shown(message.parts)), raw)


def _shown(parts: Sequence[Any]) -> list[str]:
    """The parts of a message that nobody says: calls of tools, what they return, and the kinds of others."""
    return [
        f"{part.tool_name}({part.args_as_json_str()})"
        if isinstance(part, ToolCallPart)
        else part.model_response_str()
        if isinstance(part, ToolReturnPart)
        else f"[{part.part_kind}]"
        for part in parts
    ]


def _other(said: Message) -> ModelMessage:
    """A message that another program stored, or another adapter."""
    if said.role == "user":
        return ModelRequest([UserPromptPart(said.content, timestamp=said.observed_at)])
    if said.role == "system":
        return ModelRequest([SystemPromptPart(said.content, timestamp=said.observed_at)])
    return ModelResponse([TextPart(said.content)], timestamp=said.observed_at)
