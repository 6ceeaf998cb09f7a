"""OpenAI's Agents SDK: a session whose items are kept and learnt from.

Needs `pip install 'memlite[openai-agents]'`.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

from memlite.integrations import missing
from memlite.integrations.transcript import Extract, Item, Transcript, dump, text_of
from memlite.memory import Memory
from memlite.records import Message

try:
    from agents.memory.session_settings import SessionSettings, resolve_session_limit
except ImportError as error:
    raise missing("openai-agents", error) from error

if TYPE_CHECKING:
    from agents import TResponseInputItem

_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}


class MemliteSession:
    """A session of the Agents SDK: one conversation, each of its items kept as it is. Facts are learnt from what the
    user and the assistant say; calls of tools, their results and reasoning are kept and found, never learnt from.

    session_id: names the conversation; it is the run of what is stored. user_id, agent_id: whose it is; give one, and
    what is learnt here is known in their other conversations. extract: "later" leaves the learning to
    `Memory.work` or a worker, "now" waits for it, "never" only stores. session_settings: its `limit` is the most items
    that a run of an agent gets.

        session = MemliteSession("chat-1", Memory("memory.db"), user_id="ana")
        result = await Runner.run(agent, "I moved to Porto.", session=session)
    """

    def __init__(
        self,
        session_id: str,
        memory: Memory,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        extract: Extract = "later",
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings: SessionSettings | None = session_settings or SessionSettings()
        self._transcript = Transcript(
            memory, "openai-agents", user_id=user_id, agent_id=agent_id, run_id=session_id, extract=extract
        )

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The last `limit` items, all for None (unless the settings have a limit), the oldest first."""
        most = resolve_session_limit(limit, self.session_settings)
        return [self._item(said) for said in await asyncio.to_thread(self._transcript.last, most)]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Store items in their order, all of them or none. Raises InvalidInputError for what JSON cannot write."""
        await asyncio.to_thread(self._transcript.append, list(map(_stored, items)))

    async def pop_item(self) -> TResponseInputItem | None:
        """Delete the last item for good, with the facts that were learnt from it alone; None where there is none."""
        said = await asyncio.to_thread(self._transcript.pop)
        return None if said is None else self._item(said)

    async def clear_session(self) -> None:
        """Delete the conversation for good, with the facts that were learnt in it alone."""
        await asyncio.to_thread(self._transcript.clear)

    def _item(self, said: Message) -> TResponseInputItem:
        raw = self._transcript.raw(said)
        role = said.role if said.role in _ROLES else "assistant"  # another program's tool, without the call it answers
        item = json.loads(raw) if raw is not None else {"role": role, "content": said.content}
        return cast("TResponseInputItem", item)  # as the SDK wrote it


def _stored(item: Any) -> Item:
    kind = item.get("type") or "message"
    if kind == "message":
        return Item(_ROLES.get(item.get("role"), "tool"), text_of(item.get("content")), dump(item))
    if kind == "function_call":
        text = f"{item.get('name')}({item.get('arguments')})"
    else:
        text = text_of(item.get("output") or item.get("summary")) or f"[{kind}]"
    return Item("tool", text, dump(item))
