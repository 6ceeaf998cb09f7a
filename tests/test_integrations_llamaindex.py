"""The memory for LlamaIndex, used by its own chat engine with a model that only talks."""

from __future__ import annotations

import asyncio

import pytest
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, MessageRole, TextBlock, ToolCallBlock
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms.mock import MockLLM

from memlite import Memory
from memlite.context import NOTE
from memlite.integrations.llamaindex import MemliteMemory

SAID = [
    ChatMessage(role="system", content="Be brief."),
    ChatMessage(role="user", blocks=[TextBlock(text="What is this?"), ImageBlock(image=b"aGVsbG8=")]),
    ChatMessage(role="assistant", blocks=[ToolCallBlock(tool_call_id="c1", tool_name="look", tool_kwargs={"x": [1]})]),
    ChatMessage(role="tool", content="A tram.", additional_kwargs={"tool_call_id": "c1", "raw": {"n": 2.5}}),
    ChatMessage(role="assistant", content="It is a tram in Porto."),
]


def chat(memory: Memory, session: str = "chat-1", **others: object) -> MemliteMemory:
    return MemliteMemory(memory=memory, session_id=session, user_id="ana", **others)


def test_every_message_comes_back_as_it_was(memory: Memory) -> None:
    chat(memory).put_messages(SAID)
    assert chat(memory).get_all() == SAID
    assert asyncio.run(chat(memory).aget_all()) == SAID
    assert chat(memory, max_tokens=0).get() == SAID


def test_what_another_conversation_told_stands_before_the_question_as_data(memory: Memory) -> None:
    chat(memory, "chat-0").put(ChatMessage(role="user", content="I work at Feedzai in Porto."))
    now = chat(memory)
    now.put_messages([ChatMessage(role="user", content="Hello."), ChatMessage(role="assistant", content="Hello!")])
    now.put(ChatMessage(role="user", content="Where do I work in Porto?"))
    *before, asked = now.get("Where do I work in Porto?")
    assert [each.content for each in before] == ["Hello.", "Hello!"]
    first, question = asked.blocks
    assert isinstance(first, TextBlock)
    assert first.text.startswith(f"{NOTE}\n<memory>\n")
    assert "I work at Feedzai in Porto." in first.text
    assert "Where do I work" not in first.text  # the prompt has it already
    assert question == TextBlock(text="Where do I work in Porto?")
    assert len(now.get_all()) == 3


def test_what_was_recalled_is_not_stored_again_when_it_is_put_back(memory: Memory) -> None:
    chat(memory, "chat-0").put(ChatMessage(role="user", content="I work at Feedzai in Porto."))
    now = chat(memory)
    now.put(ChatMessage(role="user", content="Where do I work in Porto?"))
    given = now.get()
    assert len(given[0].blocks) == 2
    now.set(given)
    assert [each.content for each in now.get_all()] == ["Where do I work in Porto?"]
    assert memory.stats().messages == 2


def test_the_last_messages_begin_with_one_of_a_user(memory: Memory) -> None:
    now = chat(memory, limit=4, max_tokens=0)
    now.put_messages([*SAID, ChatMessage(role="user", content="And now?")])
    assert [each.role for each in now.get()] == [MessageRole.USER]
    assert [each.content for each in now.get()] == ["And now?"]
    assert len(now.get_all()) == 6


def test_setting_the_messages_adds_what_is_new_or_begins_anew(memory: Memory) -> None:
    now = chat(memory)
    now.put_messages(SAID[:2])
    kept = memory.get_messages(user_id="ana", run_id="chat-1")
    now.set(SAID)
    assert memory.get_messages(user_id="ana", run_id="chat-1")[:2] == kept
    assert now.get_all() == SAID
    asyncio.run(now.aset(SAID[1:2]))
    assert now.get_all() == SAID[1:2]
    now.set([])
    assert now.get_all() == []


def test_a_reset_deletes_the_conversation_for_good(memory: Memory) -> None:
    now = chat(memory)
    now.put(ChatMessage(role="user", content="A secret zebra."))
    asyncio.run(now.areset())
    assert now.get() == []
    path = memory.path
    memory.close()
    assert b"zebra" not in path.read_bytes()


def test_a_chat_engine_keeps_its_conversation_and_recalls_another(memory: Memory) -> None:
    memory.remember("Ana works at Feedzai in Porto.", user_id="ana")
    engine = SimpleChatEngine.from_defaults(llm=MockLLM(), memory=chat(memory))
    answer = str(engine.chat("Where does Ana work?"))  # the mock says what it is asked
    assert "Ana works at Feedzai in Porto." in answer
    assert NOTE in answer
    said = [each.content for each in chat(memory).get_all()]
    assert said == ["Where does Ana work?", answer]
    assert [each.content for each in engine.chat_history] == said


def test_a_conversation_without_a_name_and_a_limit_of_nothing_are_refused(memory: Memory) -> None:
    with pytest.raises(ValueError, match="names it"):
        MemliteMemory(memory=memory, session_id=" ")
    with pytest.raises(ValueError, match="limit"):
        chat(memory, limit=0)
