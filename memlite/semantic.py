"""The embedder of one open file: is it the one that made the file's vectors, and what has none yet."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import apsw

from memlite import vectors
from memlite.db import Database
from memlite.errors import EmbedderMismatchError, InvalidInputError, MemliteError, ModelError, ModelMissingError
from memlite.records import Embedder
from memlite.schema import HEARD, SPOKEN

if TYPE_CHECKING:
    from memlite.embed import Choice

AGREEMENT = 0.995  # cosine two runtimes of one model reach on the probe texts; another model stays far below
_ROUND = 64  # texts embedded between two commits
_RECENT = 512  # texts whose vectors are held, and as many again of before
_SCALES: dict[bytes, tuple[float, float, float]] = {}  # of the embedders, by their probes, that this process calibrated

# The rows that want a vector, with the scopes that see them and the hashes that they are found by.
_WANTING = {
    "fact": """
        SELECT t.id, t.text, t.scope_id, t.hash
        FROM facts t JOIN scopes s ON s.id = t.scope_id WHERE t.archived_at IS NULL""",
    "message": f"""
        SELECT t.id, {SPOKEN.format("t")}, t.scope_id, t.hash
        FROM messages t JOIN scopes s ON s.id = t.scope_id WHERE t.archived_at IS NULL AND {HEARD.format("t")}""",
    "entity": """
        SELECT t.id, t.name, t.root_id, ''
        FROM entities t JOIN scopes s ON s.id = t.root_id WHERE true""",
}
_Wanting = tuple[int, str, int, str]

# A row with a vector of this very text, among some with its hash: "Thanks!" may be said by any number of people. Names
# have no hash; most of them are held.
_SAME = {
    kind: f"""
        SELECT id FROM (SELECT t.id, {text} AS text, t.embedded FROM {kind}s t WHERE t.hash = ? LIMIT 20)
        WHERE text = ? AND embedded = 1 LIMIT 1"""
    for kind, text in (("fact", "t.text"), ("message", SPOKEN.format("t")))
}


class Semantic:
    """Vectors for texts, or the reason why there are none. Usable from any thread."""

    def __init__(self, database: Database, choice: Choice, n_threads: int) -> None:
        # embed is imported where it is used: it and the files below it are a fifth of `import memlite`.
        from memlite import embed

        self._database = database
        self._automatic = choice is None
        self._off: str | None = None
        self._checked: vectors.Identity | None = None  # the file's embedder, once this one agreed with it
        self._recent = _Recent(None)
        self._pid, self._lock = os.getpid(), threading.Lock()
        self.embedder = None if database.vectors_off else embed.open_embedder(choice, n_threads=n_threads)
        if database.vectors_off:
            self._off = f"sqlite-vec cannot be loaded: {database.vectors_off}"
        elif choice is False:
            self._off = "they were switched off (embedder=False)"
        elif self.embedder is None:
            self._off = (
                "MEMLITE_EMBEDDER=off in the environment; unset it"
                if os.environ.get("MEMLITE_EMBEDDER", "").lower() == "off"
                else "no embedder was found; `memlite models pull default` turns them on"
            )

    @property
    def note(self) -> str | None:
        """What an answer made without vectors has to say."""
        return f"vectors are off: {self._off}" if self._off else None

    def embed(
        self, texts: Sequence[str], kind: vectors.Kind = "fact", hashes: Mapping[str, str] | None = None
    ) -> list[bytes] | None:
        """A float32 vector of length 1 for each text, or None while vectors are off (see `note`).

        What is said again is not embedded again. hashes: those of texts that become rows of this kind; where the file
        has a vector of one already it is that, as precise as it is stored.
        Raises EmbedderMismatchError when the file's vectors come from another embedder.
        """
        if self.embedder is None or self._off:
            return None
        try:
            self._check(self.embedder)
            return self._known(self.embedder, texts, kind, hashes)
        except ModelMissingError as error:
            if not self._automatic:
                raise
            # A model file was found without the package that runs it: search goes on, and says so.
            self._off = str(error)
            return None

    @property
    def probes(self) -> bytes:
        """What identifies the embedder of the vectors that `embed` returned."""
        return self._checked.probes if self._checked else b""

    def made(self, db: apsw.Connection) -> bool:
        """Whether the vectors that answer now are of the embedder that `embed` used last: another process may have
        made all anew since then.
        """
        now = vectors.identity(db)
        return now is None or now == self._checked

    def begun(self) -> bool:
        """Whether any embedder has ever made vectors for this file."""
        with self._database.read() as db:
            return vectors.identity(db) is not None

    def name(self) -> str | None:
        """The embedder's name, None while vectors are off."""
        return self.embedder.name if self.embedder and not self._off else None

    def catch_up(self, kind: vectors.Kind, ids: Iterable[int] | None = None) -> int:
        """Embed rows that have no vector yet (of `ids`, or all); return how many vectors were made."""
        condition = "AND t.embedded = 0"
        bindings: tuple[str, ...] = ()
        if ids is not None:
            condition, bindings = f"{condition} AND t.id IN (SELECT value FROM json_each(?))", (json.dumps(list(ids)),)
        made = 0
        while True:
            with self._database.read() as db:
                rows = _wanting(db, kind, condition, bindings)
            found = self.embed([row[1] for row in rows], kind, {row[1]: row[3] for row in rows}) if rows else None
            if not found:
                return made
            with self._database.write() as db:
                vectors.insert(db, kind, _unchanged(db, kind, rows, found), self.probes)
            made += len(rows)

    def complete(self) -> int:
        """Embed every row that has no vector yet; return how many vectors were made."""
        return sum(self.catch_up(kind) for kind in vectors.KINDS)

    def rebuild(self, progress: Callable[[int], None] | None = None) -> int:
        """Make all vectors again with this embedder, beside those that answer, which they then replace at once.

        Stopped half way, the next call goes on where it was. Raises ModelError where another embedder began meanwhile.
        """
        if self.embedder is None or self._off:
            raise ModelMissingError(f"cannot embed: {self._off}")
        mine = self._identity(self.embedder)
        scale = self._scale(self.embedder, mine)
        with self._database.write() as db:
            if vectors.identity(db, "building") != mine:
                vectors.create(db, mine, "building")
        made = 0
        while fresh := sum(self._build(kind, mine, made, progress) for kind in vectors.KINDS):
            made += fresh
            if fresh < _ROUND:  # others may go on storing for ever; the last few get theirs below
                break
        with self._database.write() as db:
            if vectors.identity(db, "building") == mine:
                vectors.exchange(db, "building")
                vectors.calibrate(db, mine, scale)
            elif vectors.identity(db) != mine:
                raise EmbedderMismatchError(
                    f"another embedder began to make all vectors anew before {mine.name} was done, and its own go on; "
                    "or these were given up with `memlite reembed --rollback`."
                )
        return made + self.complete()

    def roll_back(self) -> str:
        """Let the vectors answer that did before the last `rebuild`, or give one up that is not done; return the name
        of their embedder.
        """
        with self._database.write() as db:
            serving = vectors.identity(db)
            if serving and vectors.identity(db, "building"):
                vectors.drop(db, "building")
                return serving.name
            previous = vectors.identity(db, "previous")
            if previous is None:
                raise InvalidInputError("there are no earlier vectors to go back to; `memlite reembed` keeps them.")
            vectors.exchange(db, "previous")
        return previous.name

    def _build(
        self, kind: vectors.Kind, mine: vectors.Identity, before: int, progress: Callable[[int], None] | None
    ) -> int:
        """Embed every row that has no vector in the generation that is being made; return how many."""
        assert self.embedder is not None
        made = last = 0
        while True:
            with self._database.read() as db:
                if vectors.identity(db, "building") != mine:
                    break
                lacking = f"AND NOT EXISTS (SELECT 1 FROM {kind}_vectors v WHERE v.id = t.id AND v.made_by = ?)"
                rows = _wanting(db, kind, lacking, (vectors.form(db, "building").made_by,), last)
            if not rows:
                break
            found = self._known(self.embedder, [row[1] for row in rows])
            with self._database.write() as db:
                if vectors.identity(db, "building") != mine:
                    break
                vectors.build(db, kind, _unchanged(db, kind, rows, found))
            last = rows[-1][0]
            made += len(rows)
            if progress:
                progress(before + made)
        return made

    def missing(self, db: apsw.Connection, place: str, bindings: Sequence[object]) -> int:
        """How many rows of a place (a condition over the scopes alias `s`) have no vector yet."""
        counts = (f"SELECT count(*) FROM ({sql} AND t.embedded = 0 AND {place})" for sql in _WANTING.values())
        return sum(db.execute(count, bindings).get for count in counts)

    def _check(self, embedder: Embedder) -> None:
        """Compare this embedder with the file's; the first one becomes the file's.

        Once, and again when the file's has changed: another process may have made all vectors anew.
        """
        with self._database.read() as db:
            theirs = vectors.identity(db)
        if theirs is not None and theirs == self._checked:
            return
        if self._pid != os.getpid():  # a fork may have copied the lock while another thread held it
            self._pid, self._lock = os.getpid(), threading.Lock()
        with self._lock:
            mine = self._identity(embedder)
            if theirs is None:
                with self._database.write() as db:
                    theirs = vectors.identity(db)  # another process may have been first
                    if theirs is None:
                        vectors.create(db, mine)
                        theirs = mine
            compare(theirs, mine)
            with self._database.read() as db:
                calibrated = vectors.calibrated(db)
            if not calibrated:
                scale = self._scale(embedder, mine)
                with self._database.write() as db:
                    vectors.calibrate(db, theirs, scale)
            self._checked = theirs

    def _scale(self, embedder: Embedder, mine: vectors.Identity) -> tuple[float, float, float]:
        """The scale of this embedder's cosines (see embed.calibration)."""
        from memlite.embed import PAIRS, calibration

        if mine.probes not in _SCALES:
            found = self._vectors(embedder, [text for pair in PAIRS for text in pair])
            _SCALES[mine.probes] = calibration(found[::2], found[1::2])
        return _SCALES[mine.probes]

    def _identity(self, embedder: Embedder) -> vectors.Identity:
        from memlite.embed import PROBES

        probes = b"".join(self._vectors(embedder, PROBES))
        found = vectors.Identity(embedder.name, embedder.dimension, probes)
        if self._recent.made_by != found:
            self._recent = _Recent(found)
        return found

    def _known(
        self,
        embedder: Embedder,
        texts: Sequence[str],
        kind: vectors.Kind = "fact",
        hashes: Mapping[str, str] | None = None,
    ) -> list[bytes]:
        """The vectors of texts: those held, those in the file (see `embed`), and of the rest each is made once."""
        recent = self._recent
        keys = {text: blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts}
        known = {text: vector for text, key in keys.items() if (vector := recent.get(key))}
        if hashes:
            known |= self._stored(kind, {text: hashes[text] for text in keys if text in hashes and text not in known})
        new = [text for text in keys if text not in known]
        if new:
            known |= zip(new, self._vectors(embedder, new))
        for text in new:
            recent.put(keys[text], known[text])
        return [known[text] for text in texts]

    def _stored(self, kind: vectors.Kind, hashes: Mapping[str, str]) -> dict[str, bytes]:
        """The vectors that the file has of texts, by their hashes, of the embedder that was checked."""
        sql = _SAME.get(kind)
        if sql is None or not hashes:
            return {}
        with self._database.read() as db:
            checked = vectors.identity(db)
            if checked is None or checked != self._checked:
                return {}
            rows = ((text, db.execute(sql, (hash_, text)).get) for text, hash_ in hashes.items())
            found = {text: vectors.fetch(db, kind, id_) for text, id_ in rows if id_ is not None}
        return {text: vector for text, vector in found.items() if vector and len(vector) == 4 * checked.dimension}

    def _vectors(self, embedder: Embedder, texts: Sequence[str]) -> list[bytes]:
        from memlite.embed import normalise, pack

        try:
            found = [pack(normalise(vector)) for vector in embedder.embed(texts)]
        except MemliteError:
            raise
        except Exception as error:  # any error of foreign code
            raise ModelError(f"the embedder {embedder.name} failed with {type(error).__name__}: {error}") from error
        if len(found) != len(texts) or any(len(vector) != 4 * embedder.dimension for vector in found):
            sizes = sorted({len(vector) // 4 for vector in found})
            raise ModelError(
                f"the embedder {embedder.name} returned {len(found)} vectors of {sizes} numbers for {len(texts)} "
                f"texts, expected one of {embedder.dimension} numbers for each."
            )
        return found


class _Recent:
    """Vectors by a digest of their text, which may be long: those used last, _RECENT of them or up to twice as many."""

    def __init__(self, made_by: vectors.Identity | None) -> None:
        self.made_by = made_by
        self._last: dict[bytes, bytes] = {}
        self._before: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        found = self._last.get(key) or self._before.get(key)
        if found:
            self.put(key, found)
        return found

    def put(self, key: bytes, vector: bytes) -> None:
        if key not in self._last and len(self._last) >= _RECENT:
            self._last, self._before = {}, self._last  # nothing is changed that another thread reads
        self._last[key] = vector


def _wanting(
    db: apsw.Connection, kind: vectors.Kind, condition: str, bindings: Sequence[object], after: int = 0
) -> list[_Wanting]:
    """The next rows, by their ids, that want a vector."""
    sql = f"{_WANTING[kind]} {condition} AND t.id > ? ORDER BY t.id LIMIT {_ROUND}"
    return list(db.execute(sql, (*bindings, after)))


def _unchanged(
    db: apsw.Connection, kind: vectors.Kind, rows: Sequence[_Wanting], found: Sequence[bytes]
) -> Iterator[vectors.Row]:
    """The vectors of those rows that are still what was read when they were embedded."""
    ids = json.dumps([row[0] for row in rows])
    now = set(db.execute(f"{_WANTING[kind]} AND t.id IN (SELECT value FROM json_each(?))", (ids,)))
    for row, vector in zip(rows, found):
        if row in now:
            yield vectors.Row(row[0], row[2], vector)


def compare(theirs: vectors.Identity, mine: vectors.Identity) -> None:
    """Raises EmbedderMismatchError where two embedders are not the same model."""
    from memlite.embed import cosine

    size = 4 * theirs.dimension
    agreement = 0.0
    if mine.dimension == theirs.dimension and len(mine.probes) == len(theirs.probes):
        pairs = [(theirs.probes[i : i + size], mine.probes[i : i + size]) for i in range(0, len(mine.probes), size)]
        agreement = min(cosine(a, b) for a, b in pairs)
    if agreement < AGREEMENT:
        raise EmbedderMismatchError(
            f"this file's vectors were made by {theirs.name} ({theirs.dimension} numbers), and the embedder now is "
            f"{mine.name} ({mine.dimension} numbers; they agree to {agreement:.3f}, expected {AGREEMENT}). "
            "Use that embedder again, or run `memlite reembed` to make all vectors anew."
        )
