"""What a process holds in memory that only searches a file.

Usage: resident.py FILE USER SEARCHES [model]

Prints the resident megabytes after 20 searches, and after so many more. The file's own embedder is not needed: queries
have a vector of chance. model: the default embedder is loaded beside it, and embeds each query.
"""

from __future__ import annotations

import os
import random
import sqlite3
import sys
from array import array
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

WARMING = 20


class Chance:
    """The identity of a file's embedder, with a vector of chance for queries."""

    def __init__(self, path: str) -> None:
        from memlite import embed

        with closing(sqlite3.connect(path)) as db:
            row = db.execute("SELECT name, dimension, probes FROM embedder WHERE generation = 'serving'").fetchone()
        self.name, self.dimension, packed = row
        numbers = array("f", packed)
        probes = (numbers[at : at + self.dimension] for at in range(0, len(numbers), self.dimension))
        self._probes = dict(zip(embed.PROBES, probes))
        chance = random.Random(1)
        self._other = array("f", (chance.gauss(0, 1) for _ in range(self.dimension)))

    def embed(self, texts: Sequence[str]) -> list[array[float]]:
        return [self._probes.get(text, self._other) for text in texts]


def resident_mb() -> float:
    """This process's resident memory now; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    path, user, searches, *model = sys.argv[1:]
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from memlite import Memory

    with ExitStack() as stack:
        memories = [stack.enter_context(Memory(path, embedder=Chance(path), extractor=False))]
        if model:
            memories.append(stack.enter_context(Memory(":memory:", extractor=False)))
            memories[-1].remember("Ana rows on the Douro.", user_id=user)
        for numbers in (range(WARMING), range(WARMING, WARMING + int(searches))):
            for number in numbers:
                for memory in memories:
                    memory.search(f"What did we say about the trip number {number}?", user_id=user)
            print(resident_mb(), flush=True)


if __name__ == "__main__":
    main()
