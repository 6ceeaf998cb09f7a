"""The retriever and the chat history for LangChain, with LangChain's own classes and a model that only talks."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables.history import RunnableWithMessageHistory

from memlite import InvalidInputError, Memory
from memlite.integrations.langchain import MemliteChatMessageHistory, MemliteRetriever

SAID: list[BaseMessage] = [
    SystemMessage("Be brief."),
    HumanMessage(
        [
            {"type": "text", "text": "I saw this yellow carriage."},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aa"}},
        ]
    ),
    HumanMessage([{"type": "image_url", "image_url": {"url": "https://example.org/tram.png"}}]),
    AIMessage(
        "",
        id="run-1",
        tool_calls=[{"name": "look", "args": {"where": "Porto"}, "id": "c1", "type": "tool_call"}],
        usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
    ),
    ToolMessage("A tram.", tool_call_id="c1", name="look", artifact={"raw": [1, 2.5, None]}),
    AIMessage("It is a tram in Porto.", response_metadata={"model": "m"}),
]


def test_a_retriever_returns_facts_as_documents_with_their_ids(memory: Memory) -> None:
    memory.remember("Ana works at Feedzai in Porto.", user_id="ana", metadata={"city": "Porto"})
    memory.remember("Ben works at Feedzai in Lisbon.", user_id="ben")
    retriever = MemliteRetriever(memory=memory, user_id="ana")
    (document,) = retriever.invoke("Where does Ana work?")
    assert document.page_content == "Ana works at Feedzai in Porto."
    assert document.metadata["kind"] == "fact"
    assert document.metadata["city"] == "Porto"
    assert 0 < document.metadata["score"] <= 1
    assert memory.get(str(document.id))
    assert asyncio.run(retriever.ainvoke("Where does Ana work?")) == [document]


def test_a_retriever_narrows_by_metadata_and_limit(memory: Memory) -> None:
    for city in ("Porto", "Lisbon", "Braga"):
        memory.remember(f"Ana has worked in {city}.", user_id="ana", metadata={"city": city})
    narrow = MemliteRetriever(memory=memory, user_id="ana", filters={"city": "Braga"})
    assert [each.page_content for each in narrow.invoke("work")] == ["Ana has worked in Braga."]
    assert len(MemliteRetriever(memory=memory, user_id="ana", limit=2).invoke("worked")) == 2


def test_a_precise_retriever_returns_nothing_where_nothing_answers(memory: Memory) -> None:
    memory.remember("Ana works at Feedzai in Porto.", user_id="ana")
    query = "Which colour is the submarine of Ana?"
    assert MemliteRetriever(memory=memory, user_id="ana").invoke(query)
    assert not MemliteRetriever(memory=memory, user_id="ana", precise=True).invoke(query)


def test_a_history_gives_back_every_message_as_it_was(memory: Memory) -> None:
    history = MemliteChatMessageHistory("chat-1", memory, user_id="ana")
    history.add_messages(SAID)
    assert MemliteChatMessageHistory("chat-1", memory, user_id="ana").messages == SAID
    assert asyncio.run(history.aget_messages()) == SAID
    assert memory.search("yellow carriage", user_id="ana")[0].text == "I saw this yellow carriage."


def test_a_document_does_not_carry_the_message_it_was_stored_for(memory: Memory) -> None:
    MemliteChatMessageHistory("chat-1", memory, user_id="ana").add_messages([HumanMessage("I live in Porto.")])
    (document,) = MemliteRetriever(memory=memory, user_id="ana").invoke("Porto")
    assert set(document.metadata) == {"kind", "score", "by", "observed_at"}


def test_a_history_is_cleared_for_good_and_no_other_with_it(memory: Memory) -> None:
    first, other = (MemliteChatMessageHistory(name, memory, user_id="ana") for name in ("chat-1", "chat-2"))
    first.add_messages([HumanMessage("The zebra password is here.")])
    asyncio.run(other.aadd_messages([HumanMessage("The other one stays.")]))
    first.clear()
    assert first.messages == []
    assert [each.content for each in other.messages] == ["The other one stays."]
    path = memory.path
    memory.close()
    assert b"zebra" not in path.read_bytes()


def test_facts_are_learnt_from_what_people_say_and_not_from_tools(learning: Memory) -> None:
    MemliteChatMessageHistory("chat-1", learning, user_id="ana", extract="now").add_messages(SAID)
    assert {fact.text for fact in learning.get_all(user_id="ana")} == {said.text for said in (SAID[1], SAID[-1])}


@pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory is deprecated")  # it still asks for such a history
def test_a_chain_remembers_its_conversation_across_runs(memory: Memory) -> None:
    prompt = ChatPromptTemplate.from_messages([("placeholder", "{history}"), ("human", "{question}")])
    model = GenericFakeChatModel(messages=iter([AIMessage("Hello Ana."), AIMessage("You are Ana.")]))
    chain = RunnableWithMessageHistory(
        prompt | model,
        lambda session_id: MemliteChatMessageHistory(session_id, memory, user_id="ana"),
        input_messages_key="question",
        history_messages_key="history",
    )
    config = {"configurable": {"session_id": "chat-1"}}
    chain.invoke({"question": "I am Ana."}, config)  # type: ignore[arg-type]
    chain.invoke({"question": "Who am I?"}, config)  # type: ignore[arg-type]
    said = [each.content for each in MemliteChatMessageHistory("chat-1", memory, user_id="ana").messages]
    assert said == ["I am Ana.", "Hello Ana.", "Who am I?", "You are Ana."]


def test_messages_of_another_program_are_read_by_role_and_text(memory: Memory) -> None:
    memory.add([{"role": "user", "content": "Hi."}, {"role": "tool", "content": "4"}], user_id="ana", run_id="chat-1")
    found = MemliteChatMessageHistory("chat-1", memory, user_id="ana").messages
    assert [(each.type, each.content) for each in found] == [("human", "Hi."), ("chat", "4")]


def test_a_message_that_json_cannot_write_stores_none_of_them(memory: Memory) -> None:
    history = MemliteChatMessageHistory("chat-1", memory)
    with pytest.raises(InvalidInputError, match="JSON"):
        history.add_messages([HumanMessage("Hi."), HumanMessage("x", additional_kwargs={"it": object()})])
    assert history.messages == []


@pytest.mark.parametrize("session", ["", "  "])
def test_a_history_without_a_name_is_refused(memory: Memory, session: str) -> None:
    with pytest.raises(InvalidInputError, match="names it"):
        MemliteChatMessageHistory(session, memory, user_id="ana")
