"""An extractor in a process of its own: what it holds is measured alone, and goes when it is done."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from memlite.errors import MemliteError, ModelError
from memlite.records import Extractor

Result = TypeVar("Result")


class Apart:
    """The extractor that `open_it` makes, in a process that lives as long as the `with` block.

    open_it, and what is asked and answered, travel by pickle. Raises what open_it and a question raise of memlite's
    errors, and ModelError where the process ends.
    """

    def __init__(self, name: str, open_it: Callable[[], Extractor]) -> None:
        self.name = name
        spawn = get_context("spawn")  # a fork would begin with all that this process holds
        self._link, self._theirs = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(self._theirs, open_it), daemon=True)

    def __enter__(self) -> Apart:
        self._process.start()
        self._theirs.close()  # theirs alone now, so that its end is heard here
        try:
            self._answer()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()  # it may be in the middle of an answer
        self._process.join()
        self._link.close()

    def ask(self, question: Callable[..., Result], *arguments: Any) -> Result:
        """What a function of a module gives for the extractor and these arguments."""
        with suppress(BrokenPipeError):  # it has ended, and the answer tells so
            self._link.send((question, arguments))
        found: Result = self._answer()
        return found

    def memory_mb(self) -> int | None:
        """The most memory that its process has held, in megabytes; None where the system does not say."""
        return self.ask(_resident)

    def _answer(self) -> Any:
        try:
            found = self._link.recv()
        except (EOFError, OSError) as problem:
            raise ModelError(
                f"{self.name}: its process ended without an answer, as where there is too little memory for it"
            ) from problem
        if isinstance(found, MemliteError):
            raise found
        return found


def _serve(link: Connection, open_it: Callable[[], Extractor]) -> None:
    """Answer what is asked until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both processes, and the other one ends this
    try:
        extractor = open_it()
        link.send(None)
        while True:
            question, arguments = link.recv()
            link.send(question(extractor, *arguments))
    except MemliteError as error:
        link.send(error)
    except (EOFError, BrokenPipeError):
        pass  # the other process is gone


def _resident(_: Extractor) -> int | None:
    status = Path("/proc/self/status")
    if status.exists():  # on Linux ru_maxrss begins at what the parent held
        held = re.search(r"VmHWM:\s*(\d+) kB", status.read_text(encoding="utf-8"))
        return round(int(held[1]) * 1024 / 1e6) if held else None
    if sys.platform == "win32":
        return None
    import resource

    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3))
