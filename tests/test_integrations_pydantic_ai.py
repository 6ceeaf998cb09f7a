"""The capability for Pydantic AI, used by its own agent with a model that only talks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic_ai import Agent, BinaryImage
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from memlite import InvalidInputError, Memory
from memlite.context import NOTE
from memlite.integrations.pydantic_ai import MemliteCapability


class Talker:
    """Answers in order, and what the model was asked each time."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), list[list[ModelMessage]]()

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.asked.append(messages)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return ModelResponse([TextPart(answer) if isinstance(answer, str) else answer])

    async def stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        self.asked.append(messages)
        for piece in self.answers.pop(0):
            yield piece

    def prompts(self) -> list[Any]:
        """The contents of the user's prompts in the last request."""
        parts = [part for message in self.asked[-1] for part in message.parts]
        return [part.content for part in parts if isinstance(part, UserPromptPart)]


def agent(talker: Talker, capability: MemliteCapability) -> Agent[None, str]:
    return Agent(FunctionModel(talker, stream_function=talker.stream), capabilities=[capability])


def test_an_agent_recalls_before_it_answers_and_remembers_afterwards(memory: Memory) -> None:
    memory.remember("Ana works at Feedzai in Porto.", user_id="ana")
    talker = Talker("At Feedzai.")
    remembering = MemliteCapability(memory, user_id="ana", run_id="chat-1")
    result = asyncio.run(agent(talker, remembering).run("Where does Ana work?"))
    ((block, question),) = talker.prompts()
    assert block.startswith(f"{NOTE}\n<memory>\n")
    assert "Ana works at Feedzai in Porto." in block
    assert question == "Where does Ana work?"
    said = [(each.role, each.content) for each in memory.get_messages(user_id="ana", run_id="chat-1")]
    assert said == [("user", "Where does Ana work?"), ("assistant", "At Feedzai.")]
    assert NOTE not in result.all_messages_json().decode()


def test_a_history_is_what_the_run_had_with_calls_of_tools_and_images(memory: Memory) -> None:
    talker = Talker(ToolCallPart("weather", {"city": "Porto"}), "It rains.", "You asked about Porto.")
    remembering = MemliteCapability(memory, user_id="ana", run_id="chat-1")
    asked = agent(talker, remembering)

    @asked.tool_plain
    def weather(city: str) -> str:
        return f"Rain in {city}."

    async def main() -> tuple[Any, Any]:
        first = await asked.run(["How is it here?", BinaryImage(b"\x89PNG", media_type="image/png")])
        kept = await MemliteCapability(memory, user_id="ana", run_id="chat-1").history()
        second = await asked.run("What did I ask?", message_history=kept)
        assert second.all_messages() == await remembering.history()
        return first.all_messages(), kept

    said, kept = asyncio.run(main())
    assert kept == said
    assert [each.role for each in memory.get_messages(user_id="ana", run_id="chat-1")] == [
        "user",
        "tool",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]
    assert memory.search("rain in Porto", user_id="ana")


def test_what_the_conversation_has_already_is_not_recalled_in_it(memory: Memory) -> None:
    talker = Talker("Noted.", "In Porto.")
    remembering = MemliteCapability(memory, user_id="ana", run_id="chat-1")

    async def main() -> None:
        asked = agent(talker, remembering)
        await asked.run("I live in Porto near the river.")
        await asked.run("Where do I live, near the river in Porto?", message_history=await remembering.history())

    asyncio.run(main())
    assert talker.prompts() == ["I live in Porto near the river.", "Where do I live, near the river in Porto?"]


def test_a_streamed_run_is_remembered_when_it_ends(memory: Memory) -> None:
    talker = Talker(["At ", "Feedzai."])

    async def main() -> None:
        asked = agent(talker, MemliteCapability(memory, user_id="ana", run_id="chat-1"))
        async with asked.run_stream("Where does Ana work?") as result:
            async for _ in result.stream_text(delta=True):
                pass

    asyncio.run(main())
    said = [each.content for each in memory.get_messages(user_id="ana", run_id="chat-1")]
    assert said == ["Where does Ana work?", "At Feedzai."]


def test_a_run_that_fails_stores_nothing_and_one_that_only_recalls_neither(memory: Memory) -> None:
    failing = agent(Talker(RuntimeError("down")), MemliteCapability(memory, user_id="ana", run_id="chat-1"))
    with pytest.raises(RuntimeError, match="down"):
        asyncio.run(failing.run("Hello?"))
    asyncio.run(agent(Talker("Hi."), MemliteCapability(memory, user_id="ana", remember=False)).run("Hello?"))
    assert memory.stats().messages == 0


def test_without_a_run_the_conversation_of_the_agent_is_the_run(memory: Memory) -> None:
    remembering = MemliteCapability(memory, user_id="ana")
    result = asyncio.run(agent(Talker("Hi."), remembering).run("Hello?", conversation_id="c-7"))
    assert asyncio.run(remembering.history("c-7")) == result.all_messages()
    with pytest.raises(InvalidInputError, match="which conversation"):
        asyncio.run(remembering.history())


def test_forgetting_a_conversation_is_for_good(memory: Memory) -> None:
    remembering = MemliteCapability(memory, user_id="ana", run_id="chat-1")
    asyncio.run(agent(Talker("A zebra!"), remembering).run("Which animal?"))
    asyncio.run(remembering.forget())
    assert asyncio.run(remembering.history()) == []
    path = memory.path
    memory.close()
    assert b"zebra" not in path.read_bytes()


def test_messages_of_another_program_are_read_by_role_and_text(memory: Memory) -> None:
    given = [{"role": role, "content": role} for role in ("system", "user", "assistant", "tool")]
    memory.add(given, user_id="ana", run_id="chat-1")
    found = asyncio.run(MemliteCapability(memory, user_id="ana", run_id="chat-1").history())
    assert [part.part_kind for message in found for part in message.parts] == [
        "system-prompt",
        "user-prompt",
        "text",
        "text",
    ]


def test_a_capability_of_nobody_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidInputError, match="whose memory"):
        MemliteCapability(memory)
