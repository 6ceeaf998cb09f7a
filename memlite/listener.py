"""The only server of a file: its address, and the lock that tells a server that runs from one that was killed."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from types import TracebackType

from memlite import places, wire
from memlite.errors import ServerError
from memlite.wire import Line


class Listener:
    """The address of the only server of a file.

    Its process holds a lock as long as it lives; what a server left that was killed is replaced. Raises ServerError.
    """

    def __init__(self, path: Path) -> None:
        self._address = Path(places.address(str(path)))
        self._lock = self._address.with_suffix(".lock")
        _make_private(self._address.parent)
        self._key = os.urandom(32)
        try:
            self._held = _hold(self._lock, path)
        except OSError as error:
            raise ServerError(f"cannot lock {self._lock}: {error.strerror or error}.") from error
        try:
            self._address.unlink(missing_ok=True)
            self._socket = self._loopback() if wire.LOOPBACK else self._unix()
            self._socket.listen()
            self._socket.setblocking(False)  # whoever waited to be accepted may have gone
        except OSError as error:
            self._let_go()
            raise ServerError(f"cannot listen on {self._address}: {error.strerror or error}.") from error

    def _unix(self) -> socket.socket:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(self._address))
        self._address.chmod(0o600)
        return listening

    def _loopback(self) -> socket.socket:
        listening = socket.socket(socket.AF_INET)
        listening.bind((wire.HOST, 0))
        descriptor = os.open(self._address, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{listening.getsockname()[1]} {self._key.hex()}")
        return listening

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> Line:
        """The next connection. Raises OSError."""
        return Line(self._socket.accept()[0])

    def admits(self, line: Line) -> bool:
        """Whether the other side is this user's."""
        return not wire.LOOPBACK or wire.proved(line, self._key, "server", "caller")

    def close(self) -> None:
        """Nobody can connect any more. The lock is held until `leave`."""
        self._address.unlink(missing_ok=True)
        self._socket.close()

    def leave(self) -> None:
        """Let another server have the file."""
        self.close()
        self._let_go()

    def _let_go(self) -> None:
        if sys.platform == "win32":  # where what is open cannot be removed
            os.close(self._held)
            self._lock.unlink(missing_ok=True)
        else:
            self._lock.unlink(missing_ok=True)
            os.close(self._held)

    def __enter__(self) -> Listener:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ServerError(f"cannot make {folder} for the server's socket: {error.strerror or error}.") from error
    if not places.is_private(str(folder)):
        raise ServerError(
            f"{folder} is somebody else's, or open to others (expected a folder of yours with mode 0700), so that they "
            "could answer in the server's place. Remove it, or set XDG_RUNTIME_DIR to a folder of your own."
        )


def _hold(lock: Path, path: Path) -> int:
    """The descriptor of the locked file, which says whose it is. Raises ServerError where another process has it."""
    while True:
        held = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        if not _locked(held):
            holder = os.read(held, 20).decode("ascii", "replace").strip()
            os.close(held)
            raise ServerError(f"process {holder} serves {path} already; `memlite serve --stop` ends it.")
        try:
            ours = os.path.samestat(os.fstat(held), lock.stat())
        except FileNotFoundError:
            ours = False
        if ours:
            break
        os.close(held)  # its last holder removed it between the opening and the locking
    os.ftruncate(held, 0)
    os.write(held, str(os.getpid()).encode("ascii"))
    return held


def _locked(descriptor: int) -> bool:
    """Whether this process has the lock now; whoever has it loses it when he dies."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(descriptor, 1 << 20, os.SEEK_SET)  # behind what is read of it: nobody else reads a locked byte
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            os.lseek(descriptor, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.lseek(descriptor, 0, os.SEEK_SET)
        return False
    return True
