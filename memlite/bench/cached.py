"""An embedder that remembers its vectors in a file beside the data, so that a second run takes seconds."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import apsw

from memlite.embed import pack, unpack
from memlite.records import Embedder


class Cached:
    """Another embedder, asked for each text once."""

    def __init__(self, embedder: Embedder, path: Path) -> None:
        self.embedder = embedder
        self.name = embedder.name
        self.dimension = embedder.dimension
        self._last: tuple[str | None, Sequence[float]] = (None, ())
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = apsw.Connection(str(path))
        self._db.set_busy_timeout(30_000)  # another run may be writing
        self._db.execute("CREATE TABLE IF NOT EXISTS vectors(key BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID")

    def embed(self, texts: Sequence[str]) -> list[Sequence[float]]:
        """The vectors of the texts; what is new is embedded and kept."""
        if list(texts) == [self._last[0]]:  # a question, embedded before the clock of its search starts
            return [self._last[1]]
        keys = [self._key(text) for text in texts]
        new = {key: text for key, text in zip(keys, texts) if self._get(key) is None}
        if new:
            made = self.embedder.embed(list(new.values()))
            with self._db:
                self._db.executemany(
                    "INSERT INTO vectors VALUES (?, ?) ON CONFLICT DO NOTHING",
                    [(key, pack(vector)) for key, vector in zip(new, made)],
                )
        vectors: list[Sequence[float]] = [unpack(self._get(key) or b"") for key in keys]
        if len(vectors) == 1:
            self._last = texts[0], vectors[0]
        return vectors

    def close(self) -> None:
        """Close the file and the embedder."""
        self._db.close()
        if callable(close := getattr(self.embedder, "close", None)):
            close()

    def _key(self, text: str) -> bytes:
        return hashlib.sha256(f"{self.name}\0{text}".encode("utf-8", "surrogatepass")).digest()

    def _get(self, key: bytes) -> bytes | None:
        held: bytes | None = self._db.execute("SELECT vector FROM vectors WHERE key = ?", (key,)).get
        return held
