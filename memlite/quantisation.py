"""Vectors as the tables hold them: a signed byte for each number, where that tells them apart."""

from __future__ import annotations

import functools
import struct

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


def coarse(probes: bytes) -> bool:
    """Whether some number of an embedder's packed vectors, each of length 1, is so great that a byte for each does not
    tell the others well: cosines would be wrong by more than .0013 (standard deviation).
    """
    return max(map(abs, struct.unpack(f"<{len(probes) // 4}f", probes)), default=0.0) > _GREAT
