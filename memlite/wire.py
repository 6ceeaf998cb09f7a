"""The line between the command line and a server: its address, who may use it, and JSON values that go both ways.

A server listens on a Unix socket in a folder that only its user may look into; on Windows on a port of the loopback
interface, where both sides prove that they have read a key from that user's folder. Nothing is pickled. The command
line imports this file for every command: it imports as little as it can.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys

from memlite import __version__, places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOOPBACK = sys.platform == "win32"
GREETING_SECONDS = 2.0  # a server that does not answer so long is not waited for; nothing was asked of it yet
_SEND_SECONDS = 60.0  # whoever takes nothing for so long is gone: stopped, most likely
HOST = "127.0.0.1"

# What a caller may have otherwise than the server; a server answers for one environment, and others run by themselves.
_CALLERS = ("MEMLITE_DB", "MEMLITE_USER", "MEMLITE_AGENT", "MEMLITE_RUN", "MEMLITE_SERVE")
_MODELS = ("MEMLITE_EMBEDDER", "MEMLITE_EXTRACTOR", "MEMLITE_MODELS")
_KEY, _SECRET = "MEMLITE_KEY", ("MEMLITE_KEY", "MEMLITE_NEW_KEY")
_SHARED = ("TZ", "HOME", "XDG_DATA_HOME", "LOCALAPPDATA", "APPDATA", "USERPROFILE")


def of_caller() -> dict[str, str]:
    """The variables of the environment that a command reads, and each caller may have otherwise."""
    return {name: os.environ[name] for name in _CALLERS if name in os.environ}


def identity(key: bytes | None = None) -> dict[str, str]:
    """What must be the same on both sides for a server to answer as the command by itself would.

    key: of an encrypted file; None for what MEMLITE_KEY has. Only a digest is told, also where it is empty.
    """
    found = {
        "memlite": __version__,
        "its code": os.path.dirname(os.path.realpath(__file__)),
        "Python": sys.prefix,
    }
    for name, value in os.environ.items():
        if name in _MODELS and value.lower() != "off":
            found[name] = value and os.path.abspath(os.path.expanduser(value))  # it may be relative
        elif name in _SHARED or (name.startswith("MEMLITE_") and name not in (*_CALLERS, *_SECRET)):
            found[name] = value
    if key is None and _KEY in os.environ:
        key = os.environ[_KEY].encode("utf-8", "surrogateescape")
    if key is not None:
        import hashlib

        found["the key"] = hashlib.sha256(b"memlite serve " + key).hexdigest()
    return found


class Line:
    """One connection: JSON objects, one a line. Not for two threads at once, but for `end` and `interrupted`."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._file = connection.makefile("rwb")

    def send(self, value: dict[str, Any]) -> bool:
        """Whether it could be sent; the other side may be gone."""
        try:
            self._socket.settimeout(_SEND_SECONDS)
            self._file.write(json.dumps(value).encode("ascii") + b"\n")
            self._file.flush()
        except (OSError, ValueError):
            return False
        return True

    def receive(self, seconds: float | None = None) -> dict[str, Any] | None:
        """What the other side says; None where it is gone, says nothing in so many seconds, or no JSON object."""
        try:
            self._socket.settimeout(seconds)
            found = json.loads(self._file.readline())
        except (OSError, ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def interrupted(self) -> bool:
        """Whether the other side has said something unasked, or is gone."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def end(self) -> None:
        """Receive nothing more, in whatever thread; what is sent still goes."""
        try:
            self._socket.shutdown(socket.SHUT_RD)
        except OSError:
            pass  # it is closed

    def close(self) -> None:
        for each in (self._file, self._socket):
            try:
                each.close()
            except OSError:
                pass  # what was not sent yet has nobody to go to


def connect(path: str) -> Line | None:
    """A line to the server of a file; None where there is none, or none that is surely this user's."""
    address = places.address(path)
    if not (os.path.lexists(address) and places.is_private(os.path.dirname(address))):
        return None
    connection = socket.socket(socket.AF_INET if LOOPBACK else socket.AF_UNIX)
    connection.settimeout(GREETING_SECONDS)
    try:
        if not LOOPBACK:
            connection.connect(address)
            return Line(connection)
        with open(address, encoding="ascii") as file:
            port, key = file.read().split()
        connection.connect((HOST, int(port)))
        line = Line(connection)
        if proved(line, bytes.fromhex(key), "caller", "server"):
            return line
        line.close()
    except (OSError, ValueError):
        connection.close()  # a server that was killed leaves its address behind
    return None


def proved(line: Line, key: bytes, mine: str, theirs: str) -> bool:
    """Whether the other side has the key as well, which neither says: whoever got the port of a server that died, or
    guessed it, learns nothing.
    """
    import hmac

    nonce = os.urandom(16).hex()
    line.send({"nonce": nonce})
    told = (line.receive(GREETING_SECONDS) or {}).get("nonce")
    if not isinstance(told, str) or told == nonce:
        return False
    nonces = "".join(sorted((nonce, told)))
    line.send({"proof": hmac.digest(key, f"{mine} {nonces}".encode(), "sha256").hex()})
    proof = (line.receive(GREETING_SECONDS) or {}).get("proof")
    expected = hmac.digest(key, f"{theirs} {nonces}".encode(), "sha256").hex()
    return isinstance(proof, str) and hmac.compare_digest(proof.encode(), expected.encode())
