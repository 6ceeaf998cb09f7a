"""Where files lie that nobody named: the default memory, and what belongs to a running server."""

from __future__ import annotations

import os
import stat
import sys

TYPE_CHECKING = False  # of typing, whose import would be a tenth of what a served command takes
if TYPE_CHECKING:
    from pathlib import Path


def default_path() -> Path:
    """The file that is used when none is given: memory.db in the platform's folder for user data."""
    from platformdirs import user_data_path  # here, for most callers name a file

    return user_data_path("memlite", appauthor=False) / "memory.db"


def runtime_folder() -> str:
    """The folder that holds the sockets of this user's servers; it may not exist.

    Not platformdirs' one: without XDG_RUNTIME_DIR that prints a warning, and its import takes as long as a search.
    """
    if sys.platform == "win32":
        return os.path.join(os.environ.get("LOCALAPPDATA") or os.path.expanduser("~"), "memlite", "run")
    base = os.environ.get("XDG_RUNTIME_DIR") or os.environ.get("TMPDIR") or "/tmp"
    return os.path.join(base, f"memlite-{os.getuid()}")


def address(path: str) -> str:
    """Where the server of a memory is found, however its path is written (links, relative); there may be none."""
    import hashlib

    real = os.path.normcase(os.path.realpath(path))
    return os.path.join(runtime_folder(), hashlib.sha256(os.fsencode(real)).hexdigest()[:16])


def is_private(folder: str) -> bool:
    """Whether a folder is this user's, and nobody else may look into it. A link is not."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    if sys.platform == "win32":  # what lies in a user's folder is his
        return stat.S_ISDIR(found.st_mode)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
