"""The sign codes of vectors, a bit for each number, held in memory for the scopes that were searched.

To find the nearest of a million vectors by their codes takes a hundredth of the time that comparing the vectors takes,
and 56 bytes of memory for each one of 384 numbers. What is found is more than the nearest; the vectors then tell.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import apsw

if TYPE_CHECKING:
    import numpy as np

    _Array = np.ndarray[Any, Any]

MOST = 4_000_000  # codes held of all scopes together; the scopes that were not searched for longest go first
_MOST_IDS = 100_000_000  # up to which each may be a byte of a table
_WEIGHED = 1024  # codes that are unpacked at once, each bit to four bytes
_BLOCK = 65_536  # codes that are compared at once, and that fit into a processor's cache


class Chosen(Protocol):
    """Gives the numbers and the row ids of codes that were found (see Codes.nearest)."""

    def __call__(self, count: int, among: int = 0, bits: int | None = None) -> tuple[list[int], list[int]]: ...


Key = tuple[int, object]  # the version of the schema, and the scope

# Of each connection what it shares with the others of its open file.
_shared: weakref.WeakKeyDictionary[apsw.Connection, Held] = weakref.WeakKeyDictionary()


def available() -> bool:
    """Whether numpy is there, and can count bits (2.0 or newer): without it every vector is compared."""
    try:
        import numpy as np
    except ImportError:
        return False
    return hasattr(np, "bitwise_count")


@dataclass(frozen=True, slots=True)
class Codes:
    """The codes of one scope's vectors. It never changes: who reads one does not meet who adds to it.

    last: the greatest number of a vector that the file had. floats: whether it stores vectors as floats. rows: the
    numbers of the vectors and the ids of their rows, those also that have gone since. blocks: the words of the codes, a
    row for each word and a column for each vector.
    """

    last: int
    floats: bool
    rows: tuple[_Array, ...] = ()
    blocks: tuple[_Array, ...] = ()

    def __len__(self) -> int:
        return sum(block.shape[1] for block in self.blocks)

    def nearest(self, vector: bytes) -> Chosen:
        """What gives the numbers and the row ids of so many of the nearest, in no order; of those that are equally near
        the newest. `among` so many, if they are more, each bit then counts by the query's number: that tells them
        better. None that differ in more `bits`. vector: as it is stored.
        """
        import numpy as np

        query = self._coded([vector])[:, 0]
        distances = np.concatenate([_distances(block, query) for block in self.blocks])
        within = np.cumsum(_counted(distances))
        # Of one block after the other: all side by side would be a copy of them.
        ends = np.cumsum([rows.shape[1] for rows in self.rows])

        def chosen(count: int, among: int = 0, bits: int | None = None) -> tuple[list[int], list[int]]:
            most = max(count, among)
            farthest = int(np.searchsorted(within, most))
            if bits is not None and bits <= farthest:
                farthest, most = bits, len(distances)
            near, border = np.flatnonzero(distances < farthest), np.flatnonzero(distances == farthest)
            places = np.sort(np.concatenate((near, border[-most:])))
            parts = np.split(places, np.searchsorted(places, ends[:-1]))
            at = [part - start for part, start in zip(parts, (0, *ends))]
            found = np.concatenate([rows[:, part] for rows, part in zip(self.rows, at)], axis=1)
            if among > count:
                blocks = np.concatenate([block[:, part] for block, part in zip(self.blocks, at)], axis=1)
                weights = self._weighed(blocks, vector)
                found = found[:, np.lexsort((-places, -weights))[:count]]
            numbers, ids = found.tolist()
            return numbers, ids

        return chosen

    def only(self, ids: Collection[int]) -> Codes:
        """Those of rows with these ids."""
        import numpy as np

        found = np.fromiter(ids, np.int64, len(ids))
        last = max(int(held[1].max()) for held in self.rows)
        if last < _MOST_IDS:
            wanted = np.zeros(last + 1, bool)
            wanted[found[found <= last]] = True
            places = [np.flatnonzero(wanted[held[1]]) for held in self.rows]
        else:  # ids that somebody has made up
            places = [np.flatnonzero(np.isin(held[1], found)) for held in self.rows]
        rows = tuple(held[:, at] for held, at in zip(self.rows, places))
        blocks = tuple(block[:, at] for block, at in zip(self.blocks, places))
        return Codes(self.last, self.floats, rows, blocks)

    def _weighed(self, block: _Array, vector: bytes) -> _Array:
        """The sum of the numbers of a vector, as it is stored, at the ones of each code."""
        import numpy as np

        numbers = np.frombuffer(vector, "<f4" if self.floats else np.int8).astype(np.float32)
        codes = np.ascontiguousarray(block.T).view(np.uint8)
        weighed = np.empty(len(codes), np.float32)
        for at in range(0, len(codes), _WEIGHED):
            ones = np.unpackbits(codes[at : at + _WEIGHED], axis=1, count=len(numbers)).astype(np.float32)
            # Not a product of matrices: the threads that BLAS divides one among would spin from one search to the next.
            np.einsum("ij,j->i", ones, numbers, out=weighed[at : at + _WEIGHED])
        return weighed

    def more(self, last: int, more: Iterable[tuple[int, int, bytes]]) -> Codes:
        """These and others: the number of a vector, the id of its row and the vector as it is stored."""
        import numpy as np

        rows, blocks, rest = list(self.rows), list(self.blocks), iter(more)
        while part := list(islice(rest, _BLOCK // 8)):
            numbers, ids, found = zip(*part)
            new_rows, new = np.array((numbers, ids), np.int64), self._coded(found)
            if new_rows.max() < 2**32:
                new_rows = new_rows.astype(np.uint32)
            # Only blocks of about one size are joined: one that came alone does not have a large one copied.
            while rows and rows[-1].shape[1] <= min(2 * new.shape[1], _BLOCK - new.shape[1]):
                new_rows = np.concatenate((rows.pop(), new_rows), axis=1)
                new = np.concatenate((blocks.pop(), new), axis=1)
            rows.append(new_rows)
            blocks.append(new)
        return Codes(last, self.floats, tuple(rows), tuple(blocks))

    def _coded(self, vectors: Sequence[bytes]) -> _Array:
        """The words of the codes of vectors, in columns; zeros fill up the last word."""
        import numpy as np

        numbers = np.frombuffer(b"".join(vectors), "<f4" if self.floats else np.int8)
        signs = np.packbits(numbers.reshape(len(vectors), -1) > 0, axis=1)
        if lacking := -signs.shape[1] % 8:
            signs = np.pad(signs, ((0, 0), (0, lacking)))
        return np.ascontiguousarray(signs.view(np.uint64).T)


def _distances(block: _Array, query: _Array) -> _Array:
    """In how many bits each code of a block differs from the query's."""
    import numpy as np

    found, other, bits = (np.empty(block.shape[1], kind) for kind in (np.uint16, np.uint64, np.uint8))
    found[:] = 0
    for word, asked in zip(block, query):
        np.bitwise_xor(word, asked, out=other)
        np.bitwise_count(other, out=bits)
        np.add(found, bits, out=found)
    return found


def _counted(distances: _Array) -> _Array:
    """How often there is each distance; by blocks, because they are copied for it as larger numbers."""
    import numpy as np

    most = int(distances.max()) + 1
    starts = range(0, len(distances), _BLOCK)
    return sum((np.bincount(distances[at : at + _BLOCK], minlength=most) for at in starts), np.zeros(most, np.int64))


class Held:
    """What the connections of one open file hold together. Usable from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._scopes: OrderedDict[Key, Codes] = OrderedDict()

    def share(self, connection: apsw.Connection) -> None:
        """Let a connection of the file use it."""
        _shared[connection] = self

    def get(self, key: Key) -> Codes | None:
        """What is held of a scope."""
        with self._lock:
            if key in self._scopes:
                self._scopes.move_to_end(key)
            return self._scopes.get(key)

    def put(self, key: Key, codes: Codes) -> None:
        """Hold it, if what is held is not newer, and let go of others where it is too much."""
        with self._lock:
            held = self._scopes.get(key)
            if held is None or held.last <= codes.last:
                self._scopes[key] = codes
            for other in [other for other in self._scopes if other[0] != key[0]]:
                del self._scopes[other]
            while len(self._scopes) > 1 and sum(map(len, self._scopes.values())) > MOST:
                self._scopes.popitem(last=False)

    def drop(self, key: Key) -> None:
        """Hold it no longer."""
        with self._lock:
            self._scopes.pop(key, None)


def of(connection: apsw.Connection) -> Held | None:
    """What a connection may use; None inside a transaction that writes, of which nothing may be kept if it fails."""
    if connection.txn_state("main") == apsw.SQLITE_TXN_WRITE:
        return None
    return _shared.get(connection)
