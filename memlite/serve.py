"""`memlite serve`: commands of other processes on one file, run by threads of this one with its memory and models.

A command runs here as it would in the process that asked: the same code, with that process's words, environment, folder
and terminal; what it prints is sent there as it prints it.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memlite import cipher, interruption, wire
from memlite.commands import Caller
from memlite.errors import ModelError, ServerError
from memlite.listener import Listener
from memlite.memory import Memory
from memlite.warm import Drain, WarmMemory
from memlite.wire import Line

_THREADS = 8  # commands at once; threads are used again, each with its connection and its page cache
_ASK_SECONDS = 10.0  # for whoever connects to say what he wants
_STOP_SECONDS = 120.0  # for a server to end
_LONGEST_WAIT = 30.0  # seconds between two looks for models that are idle


class NotHereError(Exception):
    """The command is left to the process that asked; nothing of it was done."""


class Server:
    """Answers the commands on one file, and extracts what is queued in it, until it is stopped.

    key: of an encrypted file, None for the one in MEMLITE_KEY; only who has the same one in his environment is
    answered. command: click's main of the command line. idle_seconds: after which unused models are freed. tell: gets a
    line for each thing that is worth one.
    """

    def __init__(
        self,
        path: Path,
        key: str | None,
        command: Callable[..., Any],
        idle_seconds: float,
        tell: Callable[[str], None],
    ) -> None:
        self._path = Path(os.path.realpath(path.expanduser()))  # a link may come to lead elsewhere
        self._command = command
        self._idle_seconds = idle_seconds
        self._told = tell
        self._identity = wire.identity(cipher.read_key(key))
        self._memory = WarmMemory(self._path, key)
        self._stopping = threading.Event()
        self._drain = Drain(WarmMemory(self._path, key), self._stopping, idle_seconds, self._tell)
        self._here = threading.local()  # the line and the streams of the command that a thread runs
        self._lines: set[Line] = set()
        self._stoppers: list[Line] = []  # who waits for the end

    def run(self) -> None:
        """Serve until SIGTERM, SIGINT, SIGHUP or `stop_server`. In the main thread; raises ServerError, FileError."""
        try:
            wakes, self._waking = socket.socketpair()
            with wakes, self._waking, self._signals(), Listener(self._path) as listener, self._own_streams():
                interruption.wanted = self._interrupted
                with ThreadPoolExecutor(_THREADS, thread_name_prefix="memlite serve") as pool:
                    try:
                        self._warm_up()
                        self._drain.start()
                        self._tell(f"process {os.getpid()} serves {self._path}, until Ctrl-C or `memlite serve --stop`")
                        self._accept(listener, wakes, pool)
                    except KeyboardInterrupt:
                        pass  # while it warmed up
                    finally:
                        self._stopping.set()
                        listener.close()
                        for line in list(self._lines):
                            line.end()
                self._drain.join()
                self._memory.close()
        finally:
            interruption.wanted = interruption.never
            for line in self._stoppers:
                line.send({"stopped": True})
                line.close()

    def _warm_up(self) -> None:
        """Open the file and load the embedder, where the file has vectors."""
        memory = self._memory.get()
        try:
            memory.search("what is warm?", user_id="memlite")
        except ModelError as error:
            self._tell(str(error))  # and so will every search

    def _accept(self, listener: Listener, wakes: socket.socket, pool: ThreadPoolExecutor) -> None:
        unloading: Future[None] | None = None
        with selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            selector.register(wakes, selectors.EVENT_READ)
            while not self._stopping.is_set():
                ready = [key.fileobj for key, _ in selector.select(min(_LONGEST_WAIT, self._idle_seconds / 2))]
                if listener in ready:
                    try:
                        pool.submit(self._serve, listener, listener.accept())
                    except OSError:
                        pass  # whoever connected has gone
                if unloading is None or unloading.done():  # it waits for a model that is in use
                    unloading = pool.submit(self._memory.unload, self._idle_seconds)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Stop at the first signal; the second one does what it would without a server."""
        names = [name for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)]
        before = {getattr(signal, name): signal.getsignal(getattr(signal, name)) for name in names}

        def stop(number: int, frame: object) -> None:
            self._stopping.set()
            signal.signal(number, before[signal.Signals(number)])

        self._waking.setblocking(False)
        woken = signal.set_wakeup_fd(self._waking.fileno())
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:  # of nohup, say
                signal.signal(number, stop)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(woken)

    def _stop(self) -> None:
        self._stopping.set()
        self._waking.send(b".")

    def _interrupted(self) -> bool:
        line: Line | None = getattr(self._here, "line", None)
        return self._stopping.is_set() or (line is not None and line.interrupted())

    def _tell(self, line: str) -> None:
        try:
            self._told(line)
        except OSError:
            pass  # who started it reads no more, and those that ask do not suffer for it

    # -- one command -----------------------------------------------------------------------------

    def _serve(self, listener: Listener, line: Line) -> None:
        """One connection, which is one command, or the wish that the server stops."""
        self._lines.add(line)
        try:
            if not listener.admits(line):
                return
            told = line.receive(_ASK_SECONDS) or {}
            if "stop" in told:
                self._stoppers.append(line)
                line.send({"process": os.getpid()})
                self._stop()
                return
            if other := self._other(told.get("identity")):
                self._tell(f"a command was left to its process: not the same are {other}")
                line.send({"alone": other})
                return
            line.send({"process": os.getpid()})
            call = line.receive(_ASK_SECONDS)
            line.send({"alone": "it is being stopped"} if call is None else self._answer(line, call))
        except Exception:  # the caller is told by the end of the connection
            self._tell(traceback.format_exc())
        finally:
            self._lines.discard(line)
            if line not in self._stoppers:
                line.close()

    def _other(self, identity: object) -> str:
        """What a caller has otherwise than this process: then it would answer itself otherwise."""
        if not isinstance(identity, dict):
            return "who asks"
        names = {*identity, *self._identity}
        return ", ".join(sorted(name for name in names if identity.get(name) != self._identity.get(name)))

    def _answer(self, line: Line, call: dict[str, Any]) -> dict[str, Any]:
        """Run a command; what is to be said at its end."""
        by = Caller(call["environ"], Path(call["folder"]), self._opened)
        if hasattr(time, "tzset"):
            time.tzset()  # the machine may have come to another zone
        tty = dict(zip(("stdin", "stdout", "stderr"), call["terminal"], strict=True))
        self._here.line = line
        self._here.stdin = _CallersStdin(line, tty["stdin"])
        self._here.stdout = _CallersOutput(line, "stdout", tty["stdout"])
        self._here.stderr = _CallersOutput(line, "stderr", tty["stderr"])
        try:
            self._command(call["words"], prog_name="memlite", obj=by, windows_expand_args=False)
        except SystemExit as done:
            return {"exit": done.code if isinstance(done.code, int) else int(done.code is not None)}
        except NotHereError as reason:
            self._tell(f"a command was left to its process: {reason}")
            return {"alone": str(reason)}
        except Exception:
            traceback.print_exc()
            return {"exit": 1}
        finally:
            self._here.__dict__.clear()
        return {"exit": 0}

    @contextmanager
    def _opened(self, path: Path, **settings: Any) -> Iterator[Memory]:
        """The memory for a command, which opens it with fewer models, and closes it, where it runs by itself."""
        if settings.get("min_confidence"):
            raise NotHereError("it has a --min-confidence of its own")
        if os.path.realpath(path) != str(self._path):
            raise NotHereError(f"it is for {path}")
        try:
            memory = self._memory.get()
        except FileNotFoundError as error:
            raise NotHereError("the file was removed") from error
        yield memory

    @contextmanager
    def _own_streams(self) -> Iterator[None]:
        """Let the standard streams be the caller's in a thread that runs a command."""
        usual = sys.stdin, sys.stdout, sys.stderr
        sys.stdin, sys.stdout, sys.stderr = (
            _OfThread(self._here, name, stream)
            for name, stream in zip(("stdin", "stdout", "stderr"), usual, strict=True)
        )
        try:
            yield
        finally:
            sys.stdin, sys.stdout, sys.stderr = usual


class _OfThread:
    """A standard stream that is another one in each thread."""

    def __init__(self, here: threading.local, name: str, usual: object) -> None:
        self._here = here
        self._name = name
        self._usual = usual

    def __getattr__(self, attribute: str) -> Any:
        return getattr(getattr(self._here, self._name, self._usual), attribute)


class _CallersStdin:
    """The stdin of the process that asked: it is read there, when it is read here."""

    encoding = "utf-8"

    def __init__(self, line: Line, is_tty: bool) -> None:
        self._line = line
        self._is_tty = is_tty
        self.buffer = self

    def read(self) -> bytes:
        """All of it. Raises KeyboardInterrupt where the caller has pressed Ctrl-C instead, or is gone."""
        self._line.send({"read": True})
        told = self._line.receive() or {}
        if "stdin" not in told:
            raise KeyboardInterrupt
        return str(told["stdin"]).encode("utf-8", "surrogateescape")

    def isatty(self) -> bool:
        return self._is_tty


class _CallersOutput:
    """The stdout or stderr of the process that asked. What is printed once that has gone is printed nowhere."""

    encoding, errors = "utf-8", "strict"

    def __init__(self, line: Line, name: str, is_tty: bool) -> None:
        self._line = line
        self._name = name
        self._is_tty = is_tty

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"{type(text).__name__} is no text")  # by which click knows that it takes none
        if text:
            self._line.send({self._name: text})
        return len(text)

    def flush(self) -> None:
        pass  # nothing is kept

    def isatty(self) -> bool:
        return self._is_tty


def stop_server(path: Path) -> int:
    """Stop the server of a file, wait until it has ended, and return its process id. Raises ServerError."""
    line = wire.connect(str(path.expanduser()))
    if line is None:
        raise ServerError(f"no server runs for {path}.")
    try:
        line.send({"stop": True})
        process = (line.receive(wire.GREETING_SECONDS) or {}).get("process")
        if process is None:
            raise ServerError(f"the server of {path} does not answer; end its process.")
        if "stopped" not in (line.receive(_STOP_SECONDS) or {}):
            raise ServerError(f"process {process} has not ended in {_STOP_SECONDS:.0f} s; what it does goes on.")
    finally:
        line.close()
    return int(process)
