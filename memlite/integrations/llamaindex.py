"""LlamaIndex: a memory of a chat engine or an agent that is kept, learnt from, and recalls other conversations.

Needs `pip install 'memlite[llamaindex]'`.
"""

from __future__ import annotations

import json
from typing import Any

from memlite.context import NOTE
from memlite.integrations import missing
from memlite.integrations.transcript import Extract, Item, Transcript, dump, recalled
from memlite.memory import Memory
from memlite.records import Message

try:
    from llama_index.core.base.llms.types import ChatMessage, ContentBlock, MessageRole, TextBlock, ToolCallBlock
    from llama_index.core.bridge.pydantic import ConfigDict, Field, PrivateAttr
    from llama_index.core.memory import BaseMemory
except ImportError as error:
    raise missing("llamaindex", error) from error

_ROLES = {"user": "user", "assistant": "assistant", "chatbot": "assistant", "model": "assistant"}
_ROLES |= {"system": "system", "developer": "system"}


class MemliteMemory(BaseMemory):
    """One conversation, its messages kept as they are. Facts are learnt from their text, and `get` puts what is
    remembered that answers the question, from all conversations of the same user and agent, before the last message of
    the user, marked as data.

    session_id: names the conversation; it is the run of what is stored. user_id, agent_id: whose it is. limit: the last
    so many messages that `get` returns, beginning with one of a user. max_tokens: of what is recalled, 0 for nothing.
    extract: "later" leaves the learning to `Memory.work` or a worker, "now" waits for it, "never" only stores.

        chat = MemliteMemory(memory=Memory("memory.db"), session_id="chat-1", user_id="ana")
        answer = await agent.run("Where do I work?", memory=chat)
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    memory: Memory = Field(exclude=True)
    session_id: str
    user_id: str | None = None
    agent_id: str | None = None
    limit: int = Field(default=50, ge=1)
    max_tokens: int = Field(default=1000, ge=0)
    extract: Extract = "later"
    _transcript: Transcript = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        self._transcript = Transcript(
            self.memory,
            "llamaindex",
            user_id=self.user_id,
            agent_id=self.agent_id,
            run_id=self.session_id,
            extract=self.extract,
        )

    @classmethod
    def class_name(cls) -> str:
        """The name by which LlamaIndex knows the class."""
        return "MemliteMemory"

    @classmethod
    def from_defaults(cls, **kwargs: Any) -> MemliteMemory:
        """The same as the class itself, for what makes its memory so."""
        return cls(**kwargs)

    def get(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:
        """The last messages, with what is remembered that answers `input`, or else the last message of the user."""
        said = [self._message(each) for each in self._transcript.last(self.limit + 1)]
        if len(said) > self.limit:  # an answer of a tool whose call is cut off would be refused
            del said[0]
            first = next((at for at, each in enumerate(said) if each.role == MessageRole.USER), 0)
            said = said[first:]
        asked = next((at for at in range(len(said) - 1, -1, -1) if said[at].role == MessageRole.USER), None)
        if asked is None or not self.max_tokens:
            return said
        block = recalled(
            self.memory,
            input or said[asked].content or "",
            user_id=self.user_id,
            agent_id=self.agent_id,
            run_id=self.session_id,
            max_tokens=self.max_tokens,
            seen={each.content or "" for each in said},
        )
        if block:
            blocks: list[ContentBlock] = [TextBlock(text=block), *said[asked].blocks]
            said[asked] = said[asked].model_copy(update={"blocks": blocks})
        return said

    def get_all(self) -> list[ChatMessage]:
        """All messages, the oldest first, without what is recalled."""
        return [self._message(each) for each in self._transcript.last()]

    def put(self, message: ChatMessage) -> None:
        """Store a message, without what `get` recalled in it. Raises InvalidInputError for what JSON cannot write."""
        self.put_messages([message])

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Store messages in their order, all of them or none."""
        self._transcript.append(map(_item, messages))

    def set(self, messages: list[ChatMessage]) -> None:
        """Make these the messages of the conversation: what goes on where it was is added, else all is stored anew."""
        new, old = [_item(each) for each in messages], [_item(each) for each in self.get_all()]
        if new[: len(old)] != old:
            self._transcript.clear()
            old = []
        self._transcript.append(new[len(old) :])

    def reset(self) -> None:
        """Delete the conversation for good, with the facts that were learnt in it alone."""
        self._transcript.clear()

    def _message(self, said: Message) -> ChatMessage:
        raw = self._transcript.raw(said)
        if raw is not None:
            return ChatMessage.model_validate(json.loads(raw))
        # Another program's tool, without the call that it answers.
        return ChatMessage(role=said.role if said.role in _ROLES else "assistant", content=said.content)


def _item(message: ChatMessage) -> Item:
    blocks = [block for block in message.blocks if not (isinstance(block, TextBlock) and block.text.startswith(NOTE))]
    message = message.model_copy(update={"blocks": blocks})
    role, text = _ROLES.get(message.role.value, "tool"), message.content or ""
    if not text.strip():
        role, text = "tool", "\n".join(map(_shown, blocks))
    return Item(role, text, dump(message.model_dump(mode="json")))


def _shown(block: ContentBlock) -> str:
    if isinstance(block, ToolCallBlock):
        return f"{block.tool_name}({block.tool_kwargs})"
    return f"[{block.block_type}]"
