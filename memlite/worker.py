"""A thread that drains a memory's queue behind a long-lived process, so that no caller waits for the extractor."""

from __future__ import annotations

import logging
import threading

from memlite.errors import MemliteError
from memlite.memory import Memory

_EVERY = 60.0  # seconds after which it looks by itself for what other processes have queued

_log = logging.getLogger(__name__)


class _Stopped(Exception):
    """Ends a round between two batches."""


class Worker:
    """Extracts what is queued and embeds what has no vector, oldest first: when woken, and once a minute.

    Nothing happens, and no model is loaded, before the first wake or minute. Of a handle it does what that handle sees.
    A batch that failed is tried again only when there is something new. The thread is a daemon: a process that ends
    in the middle of a batch leaves its claim to the next worker.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._wake = threading.Event()
        self._stopping = False
        self._failed = False
        self._thread = threading.Thread(target=self._run, name="memlite worker", daemon=True)

    @property
    def failed(self) -> bool:
        """Whether something could not be extracted or embedded in the last round; the log says why."""
        return self._failed

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Tell that something is queued."""
        self._wake.set()

    def stop(self, timeout: float) -> bool:
        """End it after the batch in hand; whether that was done within `timeout` seconds."""
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        done: object = None
        while True:
            self._wake.wait(_EVERY)
            self._wake.clear()
            if self._stopping:
                return
            try:
                if self._waiting() != done:
                    failures = self._memory.work(progress=self._go_on).failures
                    done = self._waiting()
                    self._failed = bool(failures)
                    for failure in failures:
                        _log.warning("not learnt, and queued still: %s", failure)
            except _Stopped:
                return
            except MemliteError as error:
                self._failed = True
                _log.warning("%s", error)
            except Exception:  # nobody waits for this thread: it tells, and tries again
                self._failed = True
                _log.exception("the worker failed")

    def _waiting(self) -> object:
        """What is still to be done: the queued batches, and how many rows have no vector."""
        stats = self._memory.stats()
        return [each.batch for each in stats.queued], stats.without_vector

    def _go_on(self, line: str) -> None:
        if self._stopping:
            raise _Stopped
