"""AsyncMemory: the same verbs for asyncio, each run in a thread. No second copy of the code."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from memlite.memory import Memory

P = ParamSpec("P")
R = TypeVar("R")


def _in_thread(
    verb: Callable[Concatenate[Memory, P], R],
) -> Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, R]]:
    @functools.wraps(verb)
    async def call(self: AsyncMemory, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(verb, self._memory, *args, **kwargs)

    return call  # type: ignore[return-value]  # wraps() keeps the names; the parameters are P's all the same


class AsyncMemory:
    """`Memory` for asyncio: every verb is awaited, with the same parameters, results and errors.

    The verbs run in the loop's default thread pool; a cancelled one still finishes there, whole.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes what `Memory` takes."""
        self._memory = Memory(*args, **kwargs)

    add = _in_thread(Memory.add)
    remember = _in_thread(Memory.remember)
    import_file = _in_thread(Memory.import_file)
    export = _in_thread(Memory.export)
    get = _in_thread(Memory.get)
    get_all = _in_thread(Memory.get_all)
    get_messages = _in_thread(Memory.get_messages)
    search = _in_thread(Memory.search)
    context = _in_thread(Memory.context)
    why = _in_thread(Memory.why)
    update = _in_thread(Memory.update)
    archive = _in_thread(Memory.archive)
    restore = _in_thread(Memory.restore)
    undo = _in_thread(Memory.undo)
    prune = _in_thread(Memory.prune)
    audit = _in_thread(Memory.audit)
    preview_fix = _in_thread(Memory.preview_fix)
    fix = _in_thread(Memory.fix)
    set_ttl = _in_thread(Memory.set_ttl)
    ttls = _in_thread(Memory.ttls)
    delete = _in_thread(Memory.delete)
    preview_delete = _in_thread(Memory.preview_delete)
    delete_query = _in_thread(Memory.delete_query)
    preview_delete_query = _in_thread(Memory.preview_delete_query)
    preview_delete_all = _in_thread(Memory.preview_delete_all)
    delete_all = _in_thread(Memory.delete_all)
    reset = _in_thread(Memory.reset)
    history = _in_thread(Memory.history)
    lineage = _in_thread(Memory.lineage)
    diff = _in_thread(Memory.diff)
    entities = _in_thread(Memory.entities)
    stats = _in_thread(Memory.stats)
    work = _in_thread(Memory.work)
    reembed = _in_thread(Memory.reembed)
    reextract = _in_thread(Memory.reextract)
    rollback_reembed = _in_thread(Memory.rollback_reembed)
    compact = _in_thread(Memory.compact)
    repair = _in_thread(Memory.repair)
    backup = _in_thread(Memory.backup)
    close = _in_thread(Memory.close)

    def scope(
        self, *, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> AsyncMemory:
        """A handle that cannot see or write outside these ids."""
        handle = AsyncMemory.__new__(AsyncMemory)
        handle._memory = self._memory.scope(user_id=user_id, agent_id=agent_id, run_id=run_id)
        return handle

    @property
    def path(self) -> Path:
        """The file."""
        return self._memory.path

    async def __aenter__(self) -> AsyncMemory:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
