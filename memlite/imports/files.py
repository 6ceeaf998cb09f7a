"""Files as they are read: in pieces, so that a large one takes no more memory than its largest conversation."""

from __future__ import annotations

import codecs
import io
import json
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from memlite.errors import FileError, InvalidInputError
from memlite.records import LeftOut

_CHUNK = 1 << 18  # characters
_PEEK = 8192  # bytes
LONGEST = 64_000_000  # characters of one conversation, or of one line
_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_SPACE = " \t\n\r\ufeff"

# Outside of strings: a whole string, a bracket, or the beginning of a string that the buffer cuts off.
_MARK = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}"]', re.DOTALL)
_OPENING = re.compile(r'\{\s*"[^"\\]{0,100}"\s*:')
_TOKEN = re.compile(r'"[^"]*"|\S')


@dataclass
class Text:
    """One text file, perhaps within a zip, while it is read. at, size: bytes that were read, and all of them."""

    name: str
    stream: io.BufferedReader | zipfile.ZipExtFile
    size: int
    modified: float  # seconds since 1970
    at: int = 0

    def beginning(self) -> str:
        """Its first some thousand characters, without white space before them; nothing is read by that."""
        start = self.stream.peek(_PEEK)[:_PEEK]
        encoding = next((name for bom, name in _BOMS.items() if start.startswith(bom)), "utf-8")
        return start.decode(encoding, "replace").lstrip(_SPACE)

    def chunks(self) -> Iterator[str]:
        """The text in pieces. Bytes that are not UTF-8 become halves of surrogate pairs, which `cleaned` counts."""
        start = self.stream.read(4)
        encoding = next((name for bom, name in _BOMS.items() if start.startswith(bom)), "utf-8")
        errors = "replace" if encoding == "utf-16" else "surrogateescape"
        decoder = codecs.getincrementaldecoder(encoding)(errors)
        try:
            block = start + self.stream.read(_CHUNK)
            while block:
                self.at += len(block)
                yield decoder.decode(block)
                block = self.stream.read(_CHUNK)
            yield decoder.decode(b"", final=True)
        except (OSError, EOFError, zipfile.BadZipFile, RuntimeError) as error:  # the last: encrypted, say
            raise FileError(f"{self.name} cannot be read on from byte {self.at}: {error}. Fetch it again.") from error

    def lines(self) -> Iterator[tuple[int, str] | LeftOut]:
        """Its lines with their numbers, without their ends."""
        rest: list[str] = []
        length = number = 0
        for chunk in self.chunks():
            *whole, last = chunk.split("\n")
            for piece in whole:
                number += 1
                if length + len(piece) > LONGEST:
                    yield LeftOut(f"line {number}", f"it is longer than {LONGEST:,} characters")
                else:
                    yield number, "".join((*rest, piece)).rstrip("\r")
                rest, length = [], 0
            length += len(last)
            if length <= LONGEST:
                rest.append(last)
        if length > LONGEST:
            yield LeftOut(f"line {number + 1}", f"it is longer than {LONGEST:,} characters")
        elif length:
            yield number + 1, "".join(rest).rstrip("\r")

    def values(self, what: str) -> Iterator[tuple[str, Any] | LeftOut]:
        """The members of its JSON list, or its JSON values one after the other: each with its place, as "`what` 3"."""
        return _Values(self.chunks(), what).read()


class _Malformed(ValueError):
    """A value that is no JSON; the message says where."""


class _Values:
    """JSON values read from pieces of text. One that is malformed is left out, and reading goes on behind it."""

    def __init__(self, chunks: Iterator[str], what: str) -> None:
        self._chunks, self._what = chunks, what
        self._buffer, self._at = "", 0
        self._gone = 0  # characters before the buffer
        self._decoder = json.JSONDecoder(strict=False)
        self._sibling: re.Pattern[str] | None = None  # how a value begins that follows another, if as the first one

    def read(self) -> Iterator[tuple[str, Any] | LeftOut]:
        number = 0
        in_list = listed = self._next() == "["
        if listed:
            self._at += 1
        while (found := self._next(",")) is not None:
            if listed and found == ("]" if in_list else "["):  # behind the end of a list another one may begin
                self._at += 1
                in_list = not in_list
                continue
            number += 1
            place = f"{self._what} {number}"
            try:
                yield place, self._value()
            except _Malformed as error:
                yield LeftOut(place, str(error))
        if in_list:
            yield LeftOut(f"after {self._what} {number}", "the file ends before its list does: it has been cut off")

    def _more(self, least: int = _CHUNK) -> bool:
        """Read on, and forget what is behind; False at the end of the file."""
        self._gone += self._at
        pieces, read = [self._buffer[self._at :]], 0
        self._at = 0
        for chunk in self._chunks:
            pieces.append(chunk)
            read += len(chunk)
            if read >= least:
                break
        self._buffer = "".join(pieces)
        return read > 0

    def _next(self, also: str = "") -> str | None:
        """The next character that is neither white space nor one of `also`; None at the end."""
        passed = _SPACE + also
        while True:
            while self._at < len(self._buffer):
                if self._buffer[self._at] not in passed:
                    return self._buffer[self._at]
                self._at += 1
            if not self._more():
                return None

    def _value(self) -> Any:
        """The value that begins here. Raises _Malformed, and is then where the next one may begin."""
        if self._sibling is None and (begun := _OPENING.match(self._buffer, self._at)):
            opening = r"\s*".join(map(re.escape, _TOKEN.findall(begun[0])))
            self._sibling = re.compile(rf"[}}\]]\s*,\s*({opening})")
        try:
            value, end = self._decoder.raw_decode(self._buffer, self._at)
        except (ValueError, RecursionError):
            end = -1
        if 0 <= end < len(self._buffer):  # at the end of the buffer it may go on
            self._at = end
            return value
        length, whole = self._extent()
        text = self._buffer[self._at : self._at + length]
        start = self._gone + self._at + 1
        try:
            value = self._decoder.decode(text)
        except (ValueError, RecursionError) as error:
            at = getattr(error, "pos", 0)
            # Where a bracket is missing, what follows seems to be a part of it.
            follows = self._sibling.search(text, at if whole else 1) if self._sibling else None
            self._at += follows.start(1) if follows else max(length, 1)
            reason = getattr(error, "msg", "it is nested too deeply") if whole or follows else "it has no end"
            raise _Malformed(f"malformed JSON at character {start + at}: {reason}") from None
        self._at += length
        return value

    def _extent(self) -> tuple[int, bool]:
        """How many characters the value has that begins here, and whether it has an end; brackets tell."""
        at = depth = 0
        while True:
            while found := _MARK.search(self._buffer, self._at + at):
                if found[0] == '"':  # what it begins is not all in the buffer
                    at = found.start() - self._at
                    break
                depth += (found[0] in "[{") - (found[0] in "]}")
                if depth < 0:  # of the list around it
                    return found.start() - self._at, True
                at = found.end() - self._at
                if depth == 0:
                    return at, True
            length = len(self._buffer) - self._at
            if length > LONGEST or not self._more(max(_CHUNK, length)):
                return len(self._buffer) - self._at, False


@contextmanager
def opened(path: Path, member: str | None = None) -> Iterator[Text]:
    """A text file, or a member of a zip. Raises FileError where it cannot be read."""
    try:
        modified = path.stat().st_mtime
        if member is None:
            with path.open("rb") as stream:
                yield Text(path.name, stream, path.stat().st_size, modified)
            return
        with zipfile.ZipFile(path) as archive, archive.open(member) as packed:
            assert isinstance(packed, zipfile.ZipExtFile)
            yield Text(f"{path.name}/{member}", packed, archive.getinfo(member).file_size, modified)
    except (OSError, zipfile.BadZipFile, RuntimeError) as error:  # the last: encrypted, say
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"cannot read {path}: {reason}.") from error


def size(path: Path, member: str | None) -> int:
    """How many bytes a text has. Raises FileError."""
    with opened(path, member) as text:
        return text.size


def members(path: Path) -> list[str]:
    """The names of the files in a zip."""
    try:
        with zipfile.ZipFile(path) as archive:
            return [each.filename for each in archive.infolist() if not each.is_dir()]
    except (OSError, zipfile.BadZipFile) as error:
        raise FileError(f"cannot read {path}: {error}. Fetch it again.") from error


def conversations(path: Path) -> tuple[list[str | None], list[str]]:
    """The files with conversations of an export, None for a file that is none of a zip; and what else is in it."""
    if not zipfile.is_zipfile(path):
        return [None], []
    names = members(path)
    found = sorted(name for name in names if re.fullmatch(r"conversations.*\.json", PurePosixPath(name).name))
    if not found:
        raise InvalidInputError(f"{path} has no conversations.json in it; is it the zip of an export?")
    return list(found), [name for name in names if name not in found]
