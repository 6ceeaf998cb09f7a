"""LangChain: what is remembered as documents, and a chat history that is kept and learnt from.

Needs `pip install 'memlite[langchain]'`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from memlite.integrations import missing
from memlite.integrations.transcript import ITEM, Extract, Item, Transcript, dump
from memlite.memory import Memory
from memlite.records import Message

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.documents import Document
    from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, message_to_dict, messages_from_dict
    from langchain_core.retrievers import BaseRetriever
except ImportError as error:
    raise missing("langchain", error) from error

_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "system": "system"}
_TYPES = {"user": "human", "assistant": "ai", "system": "system"}


class MemliteRetriever(BaseRetriever):
    """The facts and messages of a memory that answer a question, the best first.

    user_id, agent_id, run_id: whose, at least one. limit: at most so many, 1 to 1,000. precise: none where probably
    nothing answers (below the floor of `Hits`). filters: conditions on metadata. A document has the id of its fact or
    message, and beside the metadata that it was stored with: kind, score (0 to 1), by and observed_at (ISO 8601).

        retriever = MemliteRetriever(memory=Memory("memory.db"), user_id="ana", limit=5)
        documents = retriever.invoke("Where does Ana work?")
    """

    memory: Memory
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    limit: int = 10
    precise: bool = False
    filters: Mapping[str, Any] | None = None

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        hits = self.memory.search(
            query,
            user_id=self.user_id,
            agent_id=self.agent_id,
            run_id=self.run_id,
            limit=self.limit,
            filters=self.filters,
        )
        if self.precise and hits.evidence < hits.floor:
            return []
        return [
            Document(
                hit.text,
                id=hit.id,
                metadata={
                    **{key: value for key, value in hit.record.metadata.items() if key != ITEM},
                    "kind": hit.kind,
                    "score": hit.score,
                    "by": hit.record.name or hit.record.role if isinstance(hit.record, Message) else hit.record.by,
                    "observed_at": hit.record.observed_at.isoformat(),
                },
            )
            for hit in hits
        ]


class MemliteChatMessageHistory(BaseChatMessageHistory):
    """The messages of one conversation, kept as they are: tool calls, images and all. Facts are learnt from their text.

    session_id: names the conversation; it is the run of what is stored. user_id, agent_id: whose it is; give one, and
    what is learnt here is known in their other conversations. extract: "later" leaves the learning to
    `Memory.work` or a worker, "now" waits for it, "never" only stores. `clear` deletes for good, with the facts that
    were learnt here alone.

        chain = RunnableWithMessageHistory(
            model, lambda session_id: MemliteChatMessageHistory(session_id, memory, user_id="ana")
        )
    """

    def __init__(
        self,
        session_id: str,
        memory: Memory,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        extract: Extract = "later",
    ) -> None:
        super().__init__()
        self.session_id = session_id
        self._transcript = Transcript(
            memory, "langchain", user_id=user_id, agent_id=agent_id, run_id=session_id, extract=extract
        )

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # the base class says that it may be a property
        """All messages, the oldest first."""
        return [self._message(said) for said in self._transcript.last()]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store messages in their order, all of them or none. Raises InvalidInputError for what JSON cannot write."""
        self._transcript.append(map(_item, messages))

    def clear(self) -> None:
        """Delete the conversation for good."""
        self._transcript.clear()

    def _message(self, said: Message) -> BaseMessage:
        raw = self._transcript.raw(said)
        if raw is not None:
            return messages_from_dict([json.loads(raw)])[0]
        if said.role in _TYPES:
            data = {"type": _TYPES[said.role], "data": {"content": said.content, "name": said.name or None}}
            return messages_from_dict([data])[0]
        return ChatMessage(role=said.role, content=said.content)


def _item(message: BaseMessage) -> Item:
    role = message.role if isinstance(message, ChatMessage) else _ROLES.get(message.type, "tool")
    role = role if role in _TYPES else "tool"
    text = str(message.text)
    if not text.strip():
        calls = message.tool_calls if isinstance(message, AIMessage) else []
        shown = [f"{call['name']}({json.dumps(call['args'])})" for call in calls]
        role, text = "tool", "\n".join(shown)
    return Item(role, text, dump(message_to_dict(message)), message.name or "")
