"""The session for OpenAI's Agents SDK, run by the SDK with a model that only talks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agents import Agent, Model, ModelResponse, Runner, Session, Usage, function_tool, set_tracing_disabled
from agents.memory.session_settings import SessionSettings
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from memlite import InvalidInputError, Memory
from memlite.integrations.openai_agents import MemliteSession

ITEMS: list[Any] = [
    {"role": "user", "content": "What is the weather in Porto?"},
    {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,aa", "detail": "auto"}]},
    {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "It is about weather."}]},
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Porto"}', "id": "f1"},
    {"type": "function_call_output", "call_id": "c1", "output": "Rain, 14 degrees."},
    {
        "type": "computer_call",
        "id": "x",
        "call_id": "c2",
        "action": {"type": "click", "x": 1, "y": 12345678901234567890},
    },
    {
        "type": "message",
        "id": "m1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "It rains in Porto today.", "annotations": [], "logprobs": None}],
    },
]


class Talker(Model):
    """A model with its answers ready."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), list[Any]()

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        self.asked.append(input)
        return ModelResponse(output=[self.answers.pop(0)], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def says(text: str) -> ResponseOutputMessage:
    content: Any = [ResponseOutputText(text=text, type="output_text", annotations=[])]
    return ResponseOutputMessage(id="m", role="assistant", status="completed", type="message", content=content)


def test_it_is_a_session_and_gives_back_every_item_as_it_was(memory: Memory) -> None:
    session = MemliteSession("chat-1", memory, user_id="ana")
    assert isinstance(session, Session)
    asyncio.run(session.add_items(ITEMS))
    again = MemliteSession("chat-1", memory, user_id="ana")
    assert asyncio.run(again.get_items()) == ITEMS
    assert memory.search("14 degrees", user_id="ana")[0].record.role == "tool"  # type: ignore[union-attr]


@pytest.mark.parametrize("limit", [0, 1, 3, 7, 50])
def test_a_limit_gives_the_last_items_in_their_order(memory: Memory, limit: int) -> None:
    session = MemliteSession("chat-1", memory, user_id="ana")
    asyncio.run(session.add_items(ITEMS))
    assert asyncio.run(session.get_items(limit)) == (ITEMS[-limit:] if limit else [])
    bounded = MemliteSession("chat-1", memory, user_id="ana", session_settings=SessionSettings(limit=2))
    assert asyncio.run(bounded.get_items()) == ITEMS[-2:]


def test_more_items_than_a_page_are_all_returned(memory: Memory) -> None:
    session = MemliteSession("chat-1", memory, user_id="ana")
    items: list[Any] = [{"role": "user", "content": f"Message {n}."} for n in range(1003)]
    asyncio.run(session.add_items(items))
    assert asyncio.run(session.get_items()) == items
    assert asyncio.run(session.get_items(1001)) == items[2:]


def test_popping_takes_the_last_item_and_its_bytes(memory: Memory) -> None:
    session = MemliteSession("chat-1", memory, user_id="ana")
    asyncio.run(
        session.add_items([{"role": "user", "content": "Hello."}, {"role": "user", "content": "A secret zebra."}])
    )
    assert asyncio.run(session.pop_item()) == {"role": "user", "content": "A secret zebra."}
    assert asyncio.run(session.get_items()) == [{"role": "user", "content": "Hello."}]
    assert asyncio.run(session.pop_item()) == {"role": "user", "content": "Hello."}
    assert asyncio.run(session.pop_item()) is None
    path = memory.path
    memory.close()
    assert b"zebra" not in path.read_bytes()


def test_eight_poppers_at_once_get_each_item_once(memory: Memory) -> None:
    session = MemliteSession("chat-1", memory, user_id="ana")
    items: list[Any] = [{"role": "user", "content": f"Message {n}."} for n in range(8)]
    asyncio.run(session.add_items(items))

    async def main() -> list[Any]:
        return await asyncio.gather(*(session.pop_item() for _ in range(10)))

    popped = asyncio.run(main())
    assert sorted(each["content"] for each in popped if each) == [each["content"] for each in items]


def test_clearing_deletes_the_conversation_and_what_was_learnt_in_it_alone(learning: Memory) -> None:
    learning.remember("Ben likes tea.", user_id="ana")
    session = MemliteSession("chat-1", learning, user_id="ana", extract="now")
    asyncio.run(session.add_items(ITEMS))
    assert {fact.text for fact in learning.get_all(user_id="ana")} == {"Ben likes tea.", "It rains in Porto today."}
    asyncio.run(session.clear_session())
    assert asyncio.run(session.get_items()) == []
    assert [fact.text for fact in learning.get_all(user_id="ana")] == ["Ben likes tea."]


def test_a_run_of_an_agent_goes_on_where_the_last_one_ended(memory: Memory) -> None:
    set_tracing_disabled(True)

    @function_tool
    def weather(city: str) -> str:
        return f"Rain in {city}."

    call = ResponseFunctionToolCall(call_id="c1", name="weather", arguments='{"city":"Porto"}', type="function_call")
    model = Talker(call, says("It rains."), says("You asked about Porto."))
    agent = Agent(name="a", model=model, tools=[weather])

    async def main() -> str:
        await Runner.run(agent, "How is Porto?", session=MemliteSession("chat-1", memory, user_id="ana"))
        answer = await Runner.run(agent, "What did I ask?", session=MemliteSession("chat-1", memory, user_id="ana"))
        return str(answer.final_output)

    assert asyncio.run(main()) == "You asked about Porto."
    kinds = [each.get("type") or each["role"] for each in model.asked[-1]]
    assert kinds == ["user", "function_call", "function_call_output", "message", "user"]


def test_an_item_that_json_cannot_write_stores_none_of_them(memory: Memory) -> None:
    session = MemliteSession("chat-1", memory)
    bad: list[Any] = [ITEMS[0], {"role": "user", "content": "x", "it": object()}]
    with pytest.raises(InvalidInputError, match="JSON"):
        asyncio.run(session.add_items(bad))
    assert asyncio.run(session.get_items()) == []


def test_half_a_surrogate_pair_is_given_back_and_does_not_stop_the_rest(memory: Memory) -> None:
    session = MemliteSession("chat-1", memory)
    items: list[Any] = [{"role": "user", "content": "Half \ud83d of a pair."}]
    asyncio.run(session.add_items(items))
    assert asyncio.run(session.get_items()) == items
