"""The vector tables: one vector for each fact, message and entity of each generation, and the embedders that made them.

Others give and get vectors packed, as 32-bit floats; `stored` is one in the form that the tables hold (Form).
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import apsw

from memlite import codes
from memlite.quantisation import all_quantised, coarse, quantised
from memlite.scopes import Reach

# The cosines that the default embedder gives the texts of embed.PAIRS (see embed.calibration); another embedder's are
# brought to its scale, so that a similarity, and every weight and floor that was fitted on it, means the same.
APART, ALIKE = 0.101, 0.566
_SAME_SCALE = 0.02  # a runtime or a quantisation of the default model stays this close
_TOLD_APART = 2.0  # standard deviations; what tells a question's answer from others no better has no scale
_FAR = 9.0  # farther than any distance

Kind = Literal["fact", "message", "entity"]
KINDS: tuple[Kind, ...] = ("fact", "message", "entity")
ROWS: dict[Kind, str] = {"fact": "facts", "message": "messages", "entity": "entities"}

_FEW = 300  # vectors of a scope up to which to compare them all takes less time than to choose by their codes
_TELLING = 128  # numbers from which on codes tell vectors apart
# Vectors that are chosen by their codes for one that is wanted, but at least so many, and so many times the square root
# of how many there are; and among how many times that root. Recall@10 is .99 of 10,000 and 100,000 mixed sentences.
_OVERSAMPLING, _LEAST, _OF_ROOT = 4, 100, 0.7
_AMONG = 7
_MOST_CHOSEN = 32_768  # beyond, all rows that may be shown are listed first


@dataclass(frozen=True, slots=True)
class Row:
    """A vector of a row, and its scope: of an entity its root."""

    id: int
    scope_id: int
    vector: bytes


@dataclass(frozen=True, slots=True)
class Identity:
    """What the file knows of the embedder that made its vectors."""

    name: str
    dimension: int
    probes: bytes


Generation = Literal["serving", "building", "previous"]
GENERATIONS: tuple[Generation, ...] = ("serving", "building", "previous")


def generations(db: apsw.Connection) -> dict[Generation, Identity]:
    """The embedders of this file's vectors: those that answer, those a `reembed` is making, those before the last."""
    rows = db.execute("SELECT generation, name, dimension, probes FROM embedder")
    return {generation: Identity(*identity) for generation, *identity in rows}


def identity(db: apsw.Connection, generation: Generation = "serving") -> Identity | None:
    """The embedder of this file, None while it has no vectors."""
    return generations(db).get(generation)


def calibrated(db: apsw.Connection) -> bool:
    """Whether the file knows the scale of its embedder."""
    return bool(db.execute("SELECT count(alike) FROM embedder WHERE generation = 'serving'").get)


def calibrate(db: apsw.Connection, embedder: Identity, found: tuple[float, float, float]) -> None:
    """Keep the scale of the file's embedder (see embed.calibration), if it still is this one."""
    db.execute(
        "UPDATE embedder SET apart = ?, spread = ?, alike = ? WHERE generation = 'serving' AND probes = ?",
        (*found, embedder.probes),
    )


@dataclass(frozen=True, slots=True)
class Form:
    """How the tables know a generation's embedder, and in which form they hold its vectors.

    factor, constant: what makes of a cosine a similarity on the default embedder's scale.
    """

    made_by: int
    dimension: int
    floats: bool
    factor: float = 1.0
    constant: float = 0.0

    def stored(self, vector: bytes) -> bytes:
        """A packed vector as the tables hold it."""
        return vector if self.floats else quantised(vector)

    def all_stored(self, given: Sequence[bytes]) -> Sequence[bytes]:
        """Packed vectors as the tables hold them."""
        return given if self.floats else all_quantised(given)

    def packed(self, stored: bytes) -> bytes:
        """Such a vector packed, with length 1."""
        if self.floats:
            return stored
        numbers = struct.unpack(f"{len(stored)}b", stored)[: self.dimension]
        length = math.sqrt(sum(number * number for number in numbers)) or 1.0
        return struct.pack(f"<{len(numbers)}f", *(number / length for number in numbers))

    @property
    def distance(self) -> str:
        """The SQL of the distance of a vector of the alias `v` to a stored one; a vector of zeros is far from all."""
        vectors = "v.vector, ?" if self.floats else "vec_int8(v.vector), vec_int8(?)"
        return f"ifnull(vec_distance_cosine({vectors}), {_FAR})"

    def similarity(self, distance: float) -> float:
        """A distance (0 to 2) as similarity in [0, 1]."""
        return min(1.0, max(0.0, self.factor * (1.0 - distance) + self.constant))

    def bits(self, similarity: float) -> int:
        """In how many bits the codes of two vectors of this similarity differ at the most, but for one pair in some
        hundred thousand: each of n bits with the angle between them as a share of pi (Goemans and Williamson, 1995).
        """
        cosine = max(-1.0, min((similarity - self.constant) / self.factor, 1.0))
        share = math.acos(cosine) / math.pi
        return math.ceil(self.dimension * share + 4.5 * math.sqrt(self.dimension * share * (1.0 - share)))


def form(db: apsw.Connection, generation: Generation = "serving") -> Form:
    """That of a generation; where it is not there nothing was made by it."""
    sql = "SELECT number, dimension, floats, apart, spread, alike FROM embedder WHERE generation = ?"
    row = db.execute(sql, (generation,)).fetchone()
    return Form(row[0], row[1], bool(row[2]), *_scale(*row[3:])) if row else Form(0, 0, False)


def _scale(apart: float | None, spread: float | None, alike: float | None) -> tuple[float, float]:
    """The factor and the constant that bring an embedder's cosines to the default one's scale (see `calibrate`)."""
    if apart is None or spread is None or alike is None:
        return 1.0, 0.0
    same = abs(apart - APART) < _SAME_SCALE and abs(alike - ALIKE) < _SAME_SCALE
    if same or alike - apart <= _TOLD_APART * spread:
        return 1.0, 0.0
    factor = (ALIKE - APART) / (alike - apart)
    return factor, APART - factor * apart


def create(db: apsw.Connection, embedder: Identity, generation: Generation = "serving") -> None:
    """Begin a generation, empty, of vectors of this embedder, in place of the one there is."""
    drop(db, generation)
    for kind in KINDS:  # of an embedder that somebody has deleted by hand: the number may be used again
        db.execute(f"DELETE FROM {kind}_vectors WHERE made_by NOT IN (SELECT number FROM embedder)")
    db.execute(
        """
        INSERT INTO embedder(generation, name, dimension, probes, floats, number)
        VALUES (?, ?, ?, ?, ?, (SELECT coalesce(max(number), 0) + 1 FROM embedder))
        """,
        (generation, embedder.name, embedder.dimension, embedder.probes, int(coarse(embedder.probes))),
    )


def drop(db: apsw.Connection, generation: Generation = "serving") -> None:
    """Remove the vectors of a generation, if there are any."""
    made_by = form(db, generation).made_by
    for kind in KINDS:
        db.execute(f"DELETE FROM {kind}_vectors WHERE made_by = ?", (made_by,))
        if generation == "serving":
            db.execute(f"UPDATE {ROWS[kind]} SET embedded = 0 WHERE embedded = 1")
    db.execute("DELETE FROM embedder WHERE generation = ?", (generation,))


def exchange(db: apsw.Connection, other: Generation) -> None:
    """Let another generation answer, and keep the one that did until now as the previous one.

    Rows that have no vector in it count as not embedded.
    """
    if other == "building":
        drop(db, "previous")
    for old, new in (("serving", "leaving"), (other, "serving"), ("leaving", "previous")):
        db.execute("UPDATE embedder SET generation = ? WHERE generation = ?", (new, old))
    for kind, rows in ROWS.items():
        there = f"(SELECT id FROM {kind}_vectors WHERE made_by = {form(db).made_by})"
        db.execute(f"UPDATE {rows} SET embedded = 0 WHERE embedded = 1 AND id NOT IN {there}")
        db.execute(f"UPDATE {rows} SET embedded = 1 WHERE embedded = 0 AND id IN {there}")


def insert(db: apsw.Connection, kind: Kind, rows: Iterable[Row], probes: bytes) -> None:
    """Store vectors and mark their rows as embedded. A row that has one already keeps it.

    probes: of the embedder that made them. If the file has another one by now nothing is stored, and the rows
    count as not embedded.
    """
    serving = identity(db)
    if serving is None or serving.probes != probes:
        return
    ids = _put(db, kind, rows, form(db))
    db.execute(f"UPDATE {ROWS[kind]} SET embedded = 1 WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(ids),))


def build(db: apsw.Connection, kind: Kind, rows: Iterable[Row]) -> None:
    """Store vectors of the generation that is being made, of rows that are there and have none in it."""
    _put(db, kind, rows, form(db, "building"))


def _put(db: apsw.Connection, kind: Kind, rows: Iterable[Row], made: Form) -> list[int]:
    """Store vectors, unless their rows have one; return the ids of all these rows."""
    given = list(rows)
    stored = made.all_stored([row.vector for row in given])
    db.executemany(
        f"INSERT INTO {kind}_vectors(id, made_by, scope_id, vector) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [(row.id, made.made_by, row.scope_id, vector) for row, vector in zip(given, stored)],
    )
    return [row.id for row in given]


def delete(db: apsw.Connection, kind: Kind, ids: Iterable[int]) -> None:
    """Remove the vectors of rows that go, or that change, from every generation."""
    db.executemany(f"DELETE FROM {kind}_vectors WHERE id = ?", ((id_,) for id_ in ids))


def fetch(db: apsw.Connection, kind: Kind, id_: int) -> bytes | None:
    """The vector of a row, as precise as it is stored."""
    made = form(db)
    stored = db.execute(f"SELECT vector FROM {kind}_vectors WHERE id = ? AND made_by = ?", (id_, made.made_by)).get
    return None if stored is None else made.packed(stored)


@dataclass(frozen=True, slots=True)
class Shown:
    """Which rows may be found. among: those of some; every: all of the scope; only: no others, if it is known."""

    among: Callable[[Collection[int]], Collection[int]]
    every: Callable[[], Collection[int]]
    only: Collection[int] | None = None


def nearest(
    db: apsw.Connection,
    kind: Kind,
    query: bytes,
    reach: Reach,
    k: int,
    shown: Shown | None = None,
    least: float = 0.0,
) -> list[tuple[int, float]]:
    """The k nearest rows that a scope sees, as (row id, similarity), nearest first. shown: if not all may be found.
    least: a similarity below which none is wanted; some may come nevertheless.
    """
    wanted = 2 * k if shown else k
    made = form(db)
    stored = made.stored(query)
    held = _codes(db, kind, reach, made)
    if held is None:
        near = _compared(db, kind, stored, reach, made, wanted)
    else:
        if shown and shown.only is not None:
            held = held.only(shown.only)
        if not len(held):
            return []
        chosen = held.nearest(stored)
        root = math.sqrt(len(held))
        bits = made.bits(least) if least else made.dimension
        numbers, _ = chosen(max(_OVERSAMPLING * k, _LEAST, int(_OF_ROOT * root)), among=int(_AMONG * root), bits=bits)
        compared = _ordered(db, kind, stored, made, numbers, by="number")
        if 2 * len(compared) < len(numbers):  # most have gone from the file: what is held is read anew
            _let_go(db, kind, reach, made)
            return nearest(db, kind, query, reach, k, shown, least)
        near = _similar(made, compared[:wanted])
    if shown is None:
        return near
    found: list[tuple[int, float]] = []
    for part in (near[:k], near[k:]):  # mostly the first part is enough
        visible = shown.among([id_ for id_, _ in part])
        found += [(id_, similarity) for id_, similarity in part if id_ in visible]
        if len(found) >= k:
            return found[:k]
    if len(near) < wanted:
        return found
    admitted = None if held is None else _admitted(chosen, len(held), k, shown)
    every = _ordered(db, kind, stored, made, shown.every() if admitted is None else admitted)
    return _similar(made, every[:k])


def _admitted(chosen: codes.Chosen, held: int, k: int, shown: Shown) -> set[int] | None:
    """The nearest by their codes of the rows that may be found, some times k of them; None where these are so few that
    it takes less time to list them all.
    """
    seen, admitted, count = set[int](), set[int](), 8 * k
    while count <= min(_MOST_CHOSEN, held):
        new = set(chosen(count)[1]) - seen
        seen |= new
        admitted |= set(shown.among(new))
        if len(admitted) >= 3 * k:
            return admitted
        share = max(len(admitted), 1) / len(seen)
        count = min(8 * count, max(2 * count, int(4 * k / share)))
    return None


def _codes(db: apsw.Connection, kind: Kind, reach: Reach, made: Form) -> codes.Codes | None:
    """The codes of the vectors that a scope sees, as the file has them now; None where all have to be compared: there
    are few, in all or in numbers, there is no numpy, or the file is being written to.
    """
    held = codes.of(db)
    if held is None or not reach.keys or made.dimension < _TELLING:
        return None
    key = _key(db, kind, reach, made)
    last: int = db.execute(f"SELECT coalesce(max(number), 0) FROM {kind}_vectors").get
    known = held.get(key)
    if known is None:
        few = f"SELECT count(*) FROM (SELECT 1 FROM {_within(kind, reach)} LIMIT {_FEW + 1})"
        if db.execute(few, (*reach.bindings, made.made_by)).get <= _FEW or not codes.available():
            return None
        rows = db.execute(
            f"SELECT v.number, v.id, v.vector FROM {_within(kind, reach)}", (*reach.bindings, made.made_by)
        )
        known = codes.Codes(last, made.floats).more(last, rows)
    elif known.last < last:
        new = f"""
            SELECT number, id, vector FROM {kind}_vectors
            WHERE number > ? AND made_by = ? AND scope_id IN ({reach.scopes})
        """
        known = known.more(last, db.execute(new, (known.last, made.made_by, *reach.bindings)))
    else:
        return known
    held.put(key, known)
    return known


def _let_go(db: apsw.Connection, kind: Kind, reach: Reach, made: Form) -> None:
    """Hold the codes of a scope no longer."""
    if held := codes.of(db):
        held.drop(_key(db, kind, reach, made))


def _key(db: apsw.Connection, kind: Kind, reach: Reach, made: Form) -> codes.Key:
    """What the codes of a scope are held by. A table that was made anew numbers its vectors from 1."""
    schema: int = db.execute("PRAGMA schema_version").get
    return schema, (kind, made, *reach.keys.items())


def _within(kind: Kind, reach: Reach) -> str:
    """The vectors (alias `v`) that a scope sees, of the embedder of the last binding."""
    return f"({reach.scopes}) s CROSS JOIN {kind}_vectors v ON v.scope_id = s.id AND v.made_by = ?"


def _compared(
    db: apsw.Connection, kind: Kind, stored: bytes, reach: Reach, made: Form, k: int
) -> list[tuple[int, float]]:
    """The k nearest of all that a scope sees, each of them compared."""
    rows = db.execute(
        f"""
        SELECT {made.distance} AS distance, v.id FROM {_within(kind, reach)} ORDER BY distance LIMIT ?
        """,
        (stored, *reach.bindings, made.made_by, k),
    )
    return _similar(made, rows)


def similarities(db: apsw.Connection, kind: Kind, query: bytes, ids: Iterable[int]) -> dict[int, float]:
    """The similarity of given rows to a query, in [0, 1], for those that have a vector."""
    made = form(db)
    return dict(_similar(made, _ordered(db, kind, made.stored(query), made, ids)))


def _ordered(
    db: apsw.Connection,
    kind: Kind,
    stored: bytes,
    made: Form,
    wanted: Iterable[int],
    by: Literal["id", "number"] = "id",
) -> list[tuple[float, int]]:
    """Given rows that have a vector, with their distances, nearest first. by: what they are given by; by the numbers of
    the vectors takes half the time.
    """
    listed = list(wanted)
    if not listed:
        return []
    rows = db.execute(
        f"""
        SELECT {made.distance}, v.id FROM json_each(?) wanted
        CROSS JOIN {kind}_vectors v ON v.{by} = wanted.value AND v.made_by = ?
        """,
        (stored, json.dumps(listed), made.made_by),
    )
    return sorted(rows)


def _similar(made: Form, found: Iterable[tuple[float, int]]) -> list[tuple[int, float]]:
    """Row ids with their similarities, of distances with their row ids."""
    return [(id_, made.similarity(distance)) for distance, id_ in found]
