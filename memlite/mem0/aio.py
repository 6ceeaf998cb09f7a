"""AsyncMemory: mem0's calls for asyncio, each run in a thread."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

import memlite
from memlite.aio import in_thread
from memlite.mem0.config import MemoryConfig
from memlite.mem0.memory import Memory, Project


class AsyncProject:
    """`Project` for asyncio."""

    def __init__(self, memory: Memory) -> None:
        self._memory = Project(memory)

    update = in_thread(Project.update)


class AsyncMemory:
    """mem0's `AsyncMemory`: the same calls to await, each run in a thread; only `close` and `from_config` are not."""

    def __init__(self, config: MemoryConfig | Mapping[str, Any] | None = None) -> None:
        self._memory = Memory(config)

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> AsyncMemory:
        """A memory by mem0's configuration (see `MemoryConfig`)."""
        return cls(config_dict)

    add = in_thread(Memory.add)
    get = in_thread(Memory.get)
    # A keyword "self" among its **kwargs is what mypy thinks of.
    get_all = in_thread(Memory.get_all)  # type: ignore[arg-type]
    search = in_thread(Memory.search)  # type: ignore[arg-type]
    update = in_thread(Memory.update)
    delete = in_thread(Memory.delete)
    delete_all = in_thread(Memory.delete_all)
    history = in_thread(Memory.history)
    reset = in_thread(Memory.reset)
    chat = in_thread(Memory.chat)

    @property
    def memlite(self) -> memlite.Memory:
        """The `memlite.Memory` behind it, whose calls are not awaited."""
        return self._memory.memlite

    @property
    def project(self) -> AsyncProject:
        """As `Memory.project`."""
        return AsyncProject(self._memory)

    def close(self) -> None:
        """Close the file and free the models."""
        self._memory.close()

    async def __aenter__(self) -> AsyncMemory:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
