"""An open memory that is held for many commands, and the thread that drains its queue."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from memlite import models
from memlite.memory import Memory

_LOOK = 1.0  # seconds between two looks at the file for what is queued
_REST = 60.0  # seconds after a batch failed, before anything is tried again
_ANYWAY = 600.0  # seconds after which the queue is worked through though nobody wrote: a claim's holder may have died


class WarmMemory:
    """One file with its models, opened anew where the file was replaced or other models are found now.

    key: of an encrypted file; None for the one in MEMLITE_KEY, if any.
    """

    def __init__(self, path: Path, key: str | None) -> None:
        self.path = path
        self._key = key
        self._opening = threading.Lock()
        self._opened: Memory | None = None
        self._as_found: object = None

    def get(self) -> Memory:
        """The memory; one that is not up to date is closed when the last command lets go of it.

        Raises FileNotFoundError where the file is gone, and what `Memory` raises.
        """
        with self._opening:
            try:
                found = self._found()
            except FileNotFoundError:
                self._opened = None
                raise
            if self._opened is None or found != self._as_found:
                self._opened, self._as_found = None, found
                self._opened = Memory(self.path, key=self._key)
            return self._opened

    def version(self) -> object:
        """What is another one after anybody has written to the file. Raises what `get` raises."""
        with self.get()._database.read() as db:
            return self._as_found, db.pragma("data_version")

    def _found(self) -> object:
        """What a process that started now would open."""
        file = self.path.stat()
        return file.st_dev, file.st_ino, models.find("embedder"), models.find("extractor")

    def unload(self, idle_seconds: float) -> None:
        """Free the models that have been idle for so long."""
        opened = self._opened
        if opened is not None:
            opened._unload(idle_seconds)

    def close(self) -> None:
        """Close the file and free the models; no command may use it any more."""
        with self._opening:
            if self._opened is not None:
                self._opened.close()
            self._opened = None


class Drain:
    """A thread that works through the queue of a file whenever somebody has written to it.

    It has models of its own, which map the same file into memory: a command does not wait for what it extracts.
    """

    def __init__(
        self, memory: WarmMemory, stopping: threading.Event, idle_seconds: float, tell: Callable[[str], None]
    ) -> None:
        self._memory = memory
        self._stopping = stopping
        self._idle_seconds = idle_seconds
        self._tell = tell
        self._thread = threading.Thread(target=self._run, name="memlite drain")

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        """Wait until it has ended, which it does once `stopping` is set; what it was extracting is queued again."""
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        seen: object = None
        rests_until = due = 0.0
        try:
            while not self._stopping.wait(_LOOK):
                self._memory.unload(self._idle_seconds)
                now = time.monotonic()
                try:
                    version = self._memory.version()
                    if version != seen:
                        # Not at once: an `add` that extracts what it has just stored claims that itself.
                        seen, due = version, min(due, now + _LOOK)
                    if now < max(due, rests_until):
                        continue
                    more, failed = self._round()
                    if failed:  # it was written down, and is no reason to try again
                        seen = self._memory.version()
                except FileNotFoundError:
                    more, failed = False, True
                except Exception as error:  # without this thread the queue would be left to nobody
                    self._tell(f"queue: {type(error).__name__}: {error}")
                    more, failed = False, True
                now = time.monotonic()
                due = now + (_LOOK if more else _ANYWAY)
                rests_until = now + _REST if failed else 0.0
        except KeyboardInterrupt:
            pass  # of interruption.check
        finally:
            self._memory.close()

    def _round(self) -> tuple[bool, bool]:
        """Extract all that waits; whether there is more to do, and whether something failed."""
        result = self._memory.get().work()
        if result.batches or result.failures:
            self._tell(f"queue: {result.batches} extracted, {result.facts} facts learnt, {result.queued} waiting")
        for failure in result.failures:
            self._tell(f"queue: {failure}")
        return bool(result.batches) and result.queued > len(result.failures), bool(result.failures)
