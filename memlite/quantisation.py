"""Vectors as the tables hold them: a signed byte for each number, where that tells them apart."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence

_GREAT = 0.4  # the default embedder's greatest is 0.3


@functools.lru_cache(maxsize=16)  # a search asks for the same one several times
def quantised(vector: bytes) -> bytes:
    """A packed float vector as it is stored: a signed byte for each number, the farthest from 0 being 127 or -127.

    Zeros fill it up to a multiple of eight. Neither they nor the scale, which is not kept, change a cosine. Of what is
    quantised already it is the same.
    """
    numbers = struct.unpack(f"<{len(vector) // 4}f", vector)
    factor = 127 / (max(map(abs, numbers), default=0.0) or 1.0)
    rounded = list(map(round, map(factor.__mul__, numbers)))
    return struct.pack(f"{len(rounded)}b{-len(rounded) % 8}x", *rounded)


_FEW = 32  # vectors up to which numpy is not worth its calls


def all_quantised(vectors: Sequence[bytes]) -> list[bytes]:
    """The same of vectors of one length, to the bit; numpy takes a twentieth of the time, where it is there."""
    if len(vectors) <= _FEW:
        return list(map(quantised, vectors))
    try:
        import numpy as np
    except ImportError:
        return list(map(quantised, vectors))
    numbers = np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), -1).astype(np.float64)
    greatest = np.abs(numbers).max(axis=1, initial=0.0, keepdims=True)
    greatest[greatest == 0.0] = 1.0
    rounded = np.rint(numbers * (127 / greatest)).astype(np.int8)
    filled = np.pad(rounded, ((0, 0), (0, -rounded.shape[1] % 8)))
    return [row.tobytes() for row in filled]


def coarse(probes: bytes) -> bool:
    """Whether some number of an embedder's packed vectors, each of length 1, is so great that a byte for each does not
    tell the others well: cosines would be wrong by more than .0013 (standard deviation).
    """
    return max(map(abs, struct.unpack(f"<{len(probes) // 4}f", probes)), default=0.0) > _GREAT
