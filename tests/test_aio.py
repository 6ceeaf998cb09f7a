"""AsyncMemory: the same verbs, awaited."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

from memlite import AsyncMemory, InvalidInputError, Memory

VERBS = sorted(
    name
    for name, member in inspect.getmembers(Memory, inspect.isfunction)
    if not name.startswith("_") and name != "scope"
)


def open_memory(path: Path) -> AsyncMemory:
    return AsyncMemory(path, embedder=False, extractor=False)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_awaited_with_the_same_parameters(verb: str) -> None:
    assert inspect.signature(getattr(AsyncMemory, verb)) == inspect.signature(getattr(Memory, verb))


def test_a_conversation_is_stored_and_found(path: Path) -> None:
    async def main() -> tuple[str, list[str], int]:
        async with open_memory(path) as memory:
            result = await memory.add("Ana likes tea.", user_id="u")
            await memory.remember("Ana was born in Oslo.", user_id="u")
            hits = await memory.search("tea", user_id="u")
            return result.status, [hit.text for hit in hits], (await memory.stats()).facts

    assert asyncio.run(main()) == ("queued", ["Ana likes tea."], 1)


def test_twenty_adds_at_once_are_all_stored(path: Path) -> None:
    async def main() -> tuple[set[str], int]:
        async with open_memory(path) as memory:
            results = await asyncio.gather(*(memory.add(f"Message {n}.", user_id="u") for n in range(20)))
            return {id_ for result in results for id_ in result.messages}, (await memory.stats()).messages

    ids, stored = asyncio.run(main())
    assert (len(ids), stored) == (20, 20)


def test_twenty_writers_of_one_fact_leave_one_copy(path: Path) -> None:
    async def main() -> int:
        async with open_memory(path) as memory:
            await asyncio.gather(*(memory.remember("Ana likes tea.", user_id="u") for _ in range(20)))
            return len(await memory.get_all(user_id="u"))

    assert asyncio.run(main()) == 1


def test_a_scope_handle_stays_in_its_scope(path: Path) -> None:
    async def main() -> tuple[int, list[str]]:
        async with open_memory(path) as memory:
            await memory.remember("Ben likes tea.", user_id="ben")
            ana = memory.scope(user_id="ana")
            await ana.remember("Ana likes tea.")
            with pytest.raises(InvalidInputError):
                await ana.search("tea", user_id="ben")
            await ana.close()  # closes nothing
            return (await memory.stats()).facts, [hit.text for hit in await ana.search("tea")]

    assert asyncio.run(main()) == (2, ["Ana likes tea."])


def test_both_faces_answer_the_same(path: Path) -> None:
    with Memory(path, extractor=False) as memory:
        memory.remember([f"Ana saw {n} birds." for n in range(20)], user_id="u")
        expected: Any = memory.search("seven birds", user_id="u", explain=True)

    async def main() -> Any:
        async with AsyncMemory(path, extractor=False) as asynchronous:
            return await asynchronous.search("seven birds", user_id="u", explain=True)

    assert asyncio.run(main()) == expected


def test_the_loop_runs_on_while_a_verb_works(path: Path) -> None:
    async def main() -> bool:
        async with open_memory(path) as memory:
            ticked = asyncio.Event()
            adding = asyncio.create_task(memory.add([f"Message {n}." for n in range(50)], user_id="u"))
            asyncio.get_running_loop().call_soon(ticked.set)
            await ticked.wait()
            running = not adding.done()
            await adding
            return running

    assert asyncio.run(main())


def test_errors_reach_the_caller(path: Path) -> None:
    async def main() -> None:
        async with open_memory(path) as memory:
            await memory.add(" ", user_id="u")

    with pytest.raises(InvalidInputError, match="blank"):
        asyncio.run(main())


def test_the_path_is_known(path: Path) -> None:
    async def main() -> Path:
        async with open_memory(path) as memory:
            return memory.path

    assert asyncio.run(main()) == path
