"""Where the command line begins: a server that keeps the file warm answers, or the command runs here.

Until a server has been asked nothing heavy is imported: that would take longer than its answer.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

    from memlite.wire import Line

# What a server does for others. What it does not: what people are asked about, what has a process's own files to read,
# and what makes or looks through everything anew, for which a start is a small part of the time.
_READS = frozenset({"search", "context", "why", "list", "show", "log", "history", "diff", "entities", "stats"})
_WRITES = frozenset({"add", "remember", "update", "archive", "restore", "undo"})
# <(a pipe), say, is a file of this process only, and a key that is typed is for this process.
_BY_ITSELF = ("--help", "-h", "--version", "--file", "--ask-key")


def main() -> None:
    """The command line."""
    asked = _Asked(sys.argv[1:])
    try:
        code = asked.answered()
    except KeyboardInterrupt:  # before anything was asked
        code = _aborted()
    if code is not None:
        sys.exit(code)
    if asked.stdin is not None:  # a server read it, and then left the command to this process
        import io

        sys.stdin = io.TextIOWrapper(io.BytesIO(asked.stdin))
    from memlite.cli import main

    # Its pattern of file names on Windows would make names of files of a question.
    main(prog_name="memlite", windows_expand_args=False)


class _Asked:
    """A command, asked of the server of its file. stdin: what was read of it on the way."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.stdin: bytes | None = None
        self._command, self._db = _read(words)
        # Of what reads only nothing is shown before all of it has come: it can then still be run here.
        self._held: list[tuple[str, str]] | None = [] if self._command in _READS else None
        self._interrupted = False

    def answered(self) -> int | None:
        """The exit code of the command, which a server has run; None where it is to be run here."""
        if self._command not in _READS | _WRITES or any(word.split("=")[0] in _BY_ITSELF for word in self.words):
            return None
        if os.environ.get("MEMLITE_SERVE", "").lower() == "off" or "_MEMLITE_COMPLETE" in os.environ:
            return None
        if not all(_speaks_utf8(stream) for stream in (sys.stdin, sys.stdout, sys.stderr)):
            return None
        from memlite import places

        path = os.path.expanduser(self._db or os.environ.get("MEMLITE_DB") or str(places.default_path()))
        try:
            folder = os.getcwd()
        except OSError:
            return None  # it was removed
        if not os.path.lexists(places.address(path)):
            return None
        from memlite import wire

        line = wire.connect(path)
        if line is None:
            return None
        try:
            line.send({"identity": wire.identity()})
            server = (line.receive(wire.GREETING_SECONDS) or {}).get("process")
            if server is None:
                return None
            terminal = [stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)]
            call = {"words": self.words, "folder": folder, "environ": wire.of_caller(), "terminal": terminal}
            return self._answer(line, call, server)
        finally:
            line.close()

    def _answer(self, line: Line, call: dict[str, Any], server: int) -> int | None:
        """Have a server run the command, and show what it says until it is done. From here on it may have been done."""
        sent = False
        while True:
            try:
                sent = sent or line.send(call)
                told = line.receive()
                if told is None:
                    return self._left_alone(server)
                if "alone" in told:
                    return _aborted() if self._interrupted else None
                if "read" in told:
                    self.stdin = sys.stdin.buffer.read()
                    line.send({"stdin": self.stdin.decode("utf-8", "surrogateescape")})
                for name in ("stdout", "stderr"):
                    if name in told:
                        self._take(name, told[name])
                if "exit" in told:
                    for name, text in self._held or ():
                        _show(name, text)
                    return int(told["exit"])
            except KeyboardInterrupt:
                if self._interrupted:
                    _show("stderr", f"\nnot waited for; process {server} goes on with it.\n")
                    return 1
                self._interrupted = True
                line.send({"interrupt": True})  # the answer tells what became of it

    def _take(self, name: str, text: str) -> None:
        if self._held is None:
            _show(name, text)
        else:
            self._held.append((name, text))

    def _left_alone(self, server: int) -> int | None:
        """The server died: what only reads runs here, what may have been written is not written twice."""
        if self._command in _READS:
            return _aborted() if self._interrupted else None
        _show(
            "stderr",
            f"Error: the server (process {server}) ended before it had answered; whether `{self._command}` was done is "
            "not known. It was not tried again: `memlite log` and `memlite stats` show what is stored.\n",
        )
        return 1


def _read(words: list[str]) -> tuple[str | None, str | None]:
    """The command and the file that are meant. A server that finds that another file was meant says so."""
    command = db = None
    rest = iter(words)
    for word in rest:
        if word == "--db":
            db = next(rest, None)
        elif word.startswith("--db="):
            db = word[len("--db=") :]
        elif command is None and not word.startswith("-"):
            command = word
    return command, db


def _speaks_utf8(stream: TextIO | None) -> bool:
    """Whether what a server says reaches the terminal as it would from here."""
    return stream is not None and (stream.encoding or "").lower().replace("-", "") == "utf8"


def _aborted() -> int:
    _show("stderr", "\nAborted!\n")
    return 1


def _show(name: str, text: str) -> None:
    """Raises SystemExit where it cannot be written, but for a pipe that nobody reads any more."""
    stream = sys.stdout if name == "stdout" else sys.stderr
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        # What is left in the buffer goes nowhere; `memlite list | head` is not an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"Error: cannot write the answer: {error.strerror}", file=sys.stderr)
            raise SystemExit(1) from None
