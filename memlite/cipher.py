"""Encryption of the whole file: its key, what such a file looks like, and the driver that reads it."""

from __future__ import annotations

import functools
import hashlib
import os

import apsw

from memlite.errors import FileError, InvalidInputError

_INSTALL = "pip install --force-reinstall --no-deps apsw-sqlite3mc"
if not hasattr(apsw, "Connection"):
    raise ImportError(
        "only a folder is left of the module apsw, as where the package apsw was uninstalled beside apsw-sqlite3mc: "
        f"{_INSTALL}"
    )

VARIABLE = "MEMLITE_KEY"
MAGIC = b"SQLite format 3\x00"  # a plain database begins so
_CIPHER = "chacha20"  # ChaCha20-Poly1305: a changed page is noticed; the key is made by PBKDF2 from what was given
_ITERATIONS = 64_007
SALT = 16  # bytes with which an encrypted file begins
_LAYOUT = bytes((32, 64, 32, 32))  # bytes of each page for its nonce and tag, and the fractions of all SQLite files


def read_key(given: object) -> bytes | None:
    """The key that was given, a text or bytes, or else the one in the environment; None where there is none."""
    key = os.environ.get(VARIABLE) if given is None else given
    if key is None:
        return None
    if not isinstance(key, (str, bytes)) or not key:
        what = f"{VARIABLE} in the environment" if given is None else "key"
        found = "empty" if isinstance(key, (str, bytes)) else f"a {type(key).__name__}"
        raise InvalidInputError(f"{what} is {found}, expected a text or bytes; leave it out for a file that is plain.")
    if not hasattr(apsw, "mc_version"):
        raise FileError(
            "a key was given, and the SQLite that is installed has no encryption: the package apsw lies over "
            f"apsw-sqlite3mc. pip uninstall apsw, then {_INSTALL}"
        )
    try:
        return key.encode("utf-8", "surrogateescape") if isinstance(key, str) else key  # any bytes in the environment
    except UnicodeEncodeError as error:
        raise InvalidInputError("key has half of a character (a lone surrogate), expected a text or bytes.") from error


def looks_encrypted(header: bytes) -> bool:
    """Whether the first 24 bytes are those of an encrypted database: the cipher leaves only the pages' layout readable.

    Nobody without the key can tell memlite's from those of another program.
    """
    size = int.from_bytes(header[16:18], "big")
    layout = size.bit_count() == 1 and set(header[18:20]) <= {1, 2} and header[20:24] == _LAYOUT
    return layout and not header.startswith(MAGIC)  # a file that was made plain again has kept its layout


def begins_database(header: bytes) -> bool:
    """Whether the first 24 bytes are those of an SQLite database, plain or encrypted."""
    return header.startswith(MAGIC) or looks_encrypted(header)


def unlock(connection: apsw.Connection, key: bytes, salt: bytes, *, checked: bool) -> None:
    """Give a new connection its key, before anything else is asked of it. A wrong one shows in what it reads first.

    salt: the first 16 bytes of the file; b"" of one that is to be made. checked: whether a page that was changed is an
    error.
    """
    connection.execute(f"PRAGMA cipher = '{_CIPHER}'")
    if not checked:
        connection.execute("PRAGMA hmac_check = 0")
    connection.execute(f"PRAGMA key = '{_raw(key, salt or os.urandom(SALT))}'")


def in_uri(key: bytes | None) -> str:
    """The query of a URI of a file that SQLite is to make with this key, or without one."""
    raw = "" if key is None else _raw(key, os.urandom(SALT))
    return f"?cipher={_CIPHER}&key={raw}"  # without a cipher it would be encrypted as the file that it is made of


@functools.lru_cache(maxsize=64)
def _raw(key: bytes, salt: bytes) -> str:
    """What the cipher makes of a key, 64,007 times, and would for every connection of every thread anew: 25 ms each."""
    return f"raw:{hashlib.pbkdf2_hmac('sha256', key, salt, _ITERATIONS, 32).hex()}{salt.hex()}"
