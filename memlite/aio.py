"""AsyncMemory: the same verbs for asyncio, each run in a thread. No second copy of the code."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from memlite.memory import Memory

M = TypeVar("M")
P = ParamSpec("P")
R = TypeVar("R")


def in_thread(verb: Callable[Concatenate[M, P], R]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """A verb to await: it runs in a thread, on the `_memory` of whoever has it."""

    @functools.wraps(verb)
    async def call(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(verb, self._memory, *args, **kwargs)

    return call  # type: ignore[return-value]  # wraps() keeps the names; the parameters are P's all the same


class AsyncMemory:
    """`Memory` for asyncio: every verb is awaited, with the same parameters, results and errors.

    The verbs run in the loop's default thread pool; a cancelled one still finishes there, whole.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes what `Memory` takes."""
        self._memory = Memory(*args, **kwargs)

    add = in_thread(Memory.add)
    remember = in_thread(Memory.remember)
    import_file = in_thread(Memory.import_file)
    export = in_thread(Memory.export)
    get = in_thread(Memory.get)
    get_all = in_thread(Memory.get_all)
    get_messages = in_thread(Memory.get_messages)
    search = in_thread(Memory.search)
    context = in_thread(Memory.context)
    why = in_thread(Memory.why)
    update = in_thread(Memory.update)
    archive = in_thread(Memory.archive)
    restore = in_thread(Memory.restore)
    undo = in_thread(Memory.undo)
    prune = in_thread(Memory.prune)
    audit = in_thread(Memory.audit)
    preview_fix = in_thread(Memory.preview_fix)
    fix = in_thread(Memory.fix)
    set_ttl = in_thread(Memory.set_ttl)
    ttls = in_thread(Memory.ttls)
    delete = in_thread(Memory.delete)
    preview_delete = in_thread(Memory.preview_delete)
    delete_query = in_thread(Memory.delete_query)
    preview_delete_query = in_thread(Memory.preview_delete_query)
    preview_delete_all = in_thread(Memory.preview_delete_all)
    delete_all = in_thread(Memory.delete_all)
    reset = in_thread(Memory.reset)
    history = in_thread(Memory.history)
    lineage = in_thread(Memory.lineage)
    diff = in_thread(Memory.diff)
    entities = in_thread(Memory.entities)
    stats = in_thread(Memory.stats)
    work = in_thread(Memory.work)
    reembed = in_thread(Memory.reembed)
    reextract = in_thread(Memory.reextract)
    rollback_reembed = in_thread(Memory.rollback_reembed)
    compact = in_thread(Memory.compact)
    repair = in_thread(Memory.repair)
    backup = in_thread(Memory.backup)
    close = in_thread(Memory.close)

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
