"""The rows in the pages of an SQLite file, each page read by itself: what is left where SQLite itself gives up.

Only what can be read is given; a page or a cell that makes no sense is counted and passed over. The format is that of
https://sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from os import SEEK_END
from typing import BinaryIO

HEADER = 100  # bytes before the b-tree of the first page

_TABLE_INNER, _TABLE_LEAF, _INDEX_INNER, _INDEX_LEAF = 5, 13, 2, 10
_INNER = (_TABLE_INNER, _INDEX_INNER)
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # bytes, by the type that a record gives
_MOST_CELLS = 1 << 14

Value = int | float | str | bytes | None
Row = tuple[int | None, tuple[Value, ...]]  # the row id, None in an index and in a table WITHOUT ROWID; its columns


class _Senseless(Exception):
    """Bytes that cannot be what they have to be."""


@dataclass
class Pages:
    """The pages of a file that nobody writes to, open to be read.

    unreadable: b-tree pages that something refers to and that are none or are missing; broken: cells of the others that
    cannot be read.
    """

    file: BinaryIO
    unreadable: set[int] = field(default_factory=set)
    broken: int = 0
    _seen: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        header = self.header = self.file.read(HEADER).ljust(HEADER, b"\0")
        size = int.from_bytes(header[16:18], "big")
        self._size = size if size in (512 << n for n in range(7)) else 65_536 if size == 1 else 4096
        self._used = self._size - header[20]  # of each page; behind that encryption has its own, if there was any
        self._count = -(-self.file.seek(0, SEEK_END) // self._size)
        self._free = set(self._freelist(int.from_bytes(header[32:36], "big")))

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def tree(self, root: int) -> Iterator[Row]:
        """The rows of a table or an index, from its root page; pages that another tree had are left out."""
        waiting = [root]
        while waiting:
            number = waiting.pop()
            if number in self._seen:
                continue
            self._seen.add(number)
            try:
                kind, cells, inner = self._page(number)
            except _Senseless:
                self.unreadable.add(number)
                continue
            waiting += inner
            yield from self._rows(kind, cells)

    def strays(self) -> Iterator[list[Row]]:
        """The rows of each page with rows that no tree so far has led to, and that is not free."""
        for number in range(1, self._count + 1):
            if number in self._seen or number in self._free:
                continue
            try:
                kind, cells, _ = self._page(number)
            except _Senseless:  # mostly a page of a long text's rest, which has no head
                continue
            if kind in (_TABLE_LEAF, _INDEX_LEAF):
                before = self.broken
                yield list(self._rows(kind, cells))
                self.broken = before  # it may never have been such a page

    def _read(self, number: int) -> bytes:
        if not 1 <= number <= self._count:
            raise _Senseless
        self.file.seek((number - 1) * self._size)
        return self.file.read(self._size).ljust(self._size, b"\0")

    def _freelist(self, number: int) -> Iterator[int]:
        for _ in range(self._count):
            try:
                page = self._read(number)
            except _Senseless:
                return
            yield number
            number, count = struct.unpack_from(">II", page)
            yield from struct.unpack_from(f">{min(count, self._used // 4 - 2)}I", page, 8)

    def _page(self, number: int) -> tuple[int, list[bytes], list[int]]:
        """The kind of a b-tree page, its cells each to the end of the page, and the pages below it."""
        page = self._read(number)
        at = HEADER if number == 1 else 0
        kind, _, count = struct.unpack_from(">BHH", page, at)
        start = at + (12 if kind in _INNER else 8)
        if kind not in (*_INNER, _TABLE_LEAF, _INDEX_LEAF) or count > _MOST_CELLS or start + 2 * count > self._size:
            raise _Senseless
        places = struct.unpack_from(f">{count}H", page, start)
        cells = [page[place : self._used] for place in places]
        inner: list[int] = []
        if kind in _INNER:
            inner = [int.from_bytes(cell[:4], "big") for cell in cells] + [
                int.from_bytes(page[at + 8 : at + 12], "big")
            ]
        return kind, cells, inner

    def _rows(self, kind: int, cells: list[bytes]) -> Iterator[Row]:
        for cell in cells if kind != _TABLE_INNER else ():
            try:
                yield self._row(kind, cell)
            except (_Senseless, UnicodeDecodeError):
                self.broken += 1

    def _row(self, kind: int, cell: bytes) -> Row:
        at, id_ = (4 if kind == _INDEX_INNER else 0), None
        length, at = _varint(cell, at)
        if kind == _TABLE_LEAF:
            id_, at = _varint(cell, at)
        return id_, _record(self._payload(cell, at, length, kind == _TABLE_LEAF))

    def _payload(self, cell: bytes, at: int, length: int, of_table: bool) -> bytes:
        """The record in a cell, with what of it lies in pages of its own."""
        if length > self._count * self._size:
            raise _Senseless
        least = (self._used - 12) * 32 // 255 - 23
        most = self._used - 35 if of_table else (self._used - 12) * 64 // 255 - 23
        here = length
        if length > most:
            here = least + (length - least) % (self._used - 4)
            here = here if here <= most else least
        parts = [_take(cell, at, here)]
        left = length - here
        number = int.from_bytes(cell[at + here : at + here + 4], "big")
        while left > 0:
            page = self._read(number)
            number = int.from_bytes(page[:4], "big")
            parts.append(page[4 : min(self._used, 4 + left)])
            left -= len(parts[-1])
        return b"".join(parts)


def _take(data: bytes, at: int, length: int) -> bytes:
    if at + length > len(data):
        raise _Senseless
    return data[at : at + length]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, as a signed one, and where it ends."""
    value = 0
    for end in range(at, at + 8):
        byte = _take(data, end, 1)[0]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, end + 1
    value = value << 8 | _take(data, at + 8, 1)[0]
    return value - (value >> 63 << 64), at + 9


def _record(data: bytes) -> tuple[Value, ...]:
    end, at = _varint(data, 0)
    types: list[int] = []
    while at < end:
        kind, at = _varint(data, at)
        types.append(kind)
    if not types or at != end:  # what was overwritten with zeros is no row
        raise _Senseless
    values: list[Value] = []
    for kind in types:
        value, at = _value(data, at, kind)
        values.append(value)
    return tuple(values)


def _value(data: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind == 0:
        return None, at
    if kind in _INTEGERS:
        end = at + _INTEGERS[kind]
        return int.from_bytes(_take(data, at, end - at), "big", signed=True), end
    if kind == 7:
        (number,) = struct.unpack(">d", _take(data, at, 8))
        return number, at + 8
    if kind in (8, 9):
        return kind - 8, at
    if kind < 12:
        raise _Senseless
    length, is_text = divmod(kind - 12, 2)
    raw = _take(data, at, length)
    return raw.decode() if is_text else raw, at + length
