"""Vectors in ordinary tables: how near what is found is, what other processes store, and files of before."""

from __future__ import annotations

import os
import random
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from memlite import Memory, codes, embed, scopes, vectors, virtual
from memlite.quantisation import all_quantised, quantised
from memlite.records import Scope
from tests.conftest import as_version_3

DIMENSION = 130  # enough numbers for codes, and not a multiple of eight
MANY = vectors._FEW + 100


class Scattered:
    """An embedder that gives every text a direction of its own; a text that begins as another one is near it."""

    name = "scattered"

    def __init__(self, dimension: int = DIMENSION) -> None:
        self.dimension = dimension

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [list(map(sum, zip(self._of(text.split(":")[0], 1.0), self._of(text, 0.5)))) for text in texts]

    def _of(self, text: str, length: float) -> list[float]:
        chance = random.Random(text)
        return [length * chance.gauss(0, 1) for _ in range(self.dimension)]


def opened(path: Path, dimension: int = DIMENSION) -> Memory:
    return Memory(path, embedder=Scattered(dimension), extractor=False)


def texts(number: int, topic: str = "topic {}: note {}") -> list[str]:
    return [topic.format(n % 7, n) for n in range(number)]


@pytest.fixture
def many(path: Path) -> Iterator[Memory]:
    """A memory with a scope of so many facts that they are found by their codes."""
    with opened(path) as memory:
        memory.remember(texts(MANY), user_id="u")
        yield memory


def near(memory: Memory, text: str, k: int = 10, **ids: str) -> list[tuple[str, float]]:
    """The facts whose vectors are nearest to a text's, nearest first."""
    with memory._database.read() as db:
        reach = scopes.reach(db, Scope(**(ids or {"user_id": "u"})))
        assert reach is not None
        vector = embed.pack(embed.normalise(Scattered(DIMENSION).embed([text])[0]))
        found = vectors.nearest(db, "fact", vector, reach, k)
        said = dict(db.execute("SELECT id, text FROM facts"))
    return [(said[id_], similarity) for id_, similarity in found]


def held(memory: Memory) -> list[int]:
    """How many codes are held of each scope."""
    return [len(each) for each in memory._database._codes._scopes.values()]


def exact(texts: Sequence[str], text: str, k: int = 10) -> list[str]:
    embedder = Scattered(DIMENSION)
    query, *others = (embed.pack(embed.normalise(vector)) for vector in embedder.embed([text, *texts]))
    return sorted(texts, key=lambda each: -embed.cosine(query, others[texts.index(each)]))[:k]


# How near.


def test_many_vectors_are_quantised_together_as_each_by_itself() -> None:
    chance = random.Random(3)
    made = [embed.pack([chance.gauss(0, 1) for _ in range(13)]) for _ in range(200)]
    made += [embed.pack([0.0] * 13), embed.pack([1.0] * 13), embed.pack([127.0, 0.5, 1.5, 2.5, -2.5, *[-126.5] * 8])]
    assert all_quantised(made) == list(map(quantised, made))


def test_a_stored_vector_of_any_scale_is_quantised_alike_and_again_the_same() -> None:
    vector = embed.pack([0.3, -0.1, 0.0, 0.02])
    stored = quantised(vector)
    assert struct.unpack("8b", stored) == (127, -42, 0, 8, 0, 0, 0, 0)
    assert quantised(embed.pack([30, -10, 0, 2])) == stored
    assert quantised(vectors.Form(1, 4, False).packed(stored)) == stored
    assert quantised(embed.pack([0.0] * 3)) == bytes(8)


@pytest.mark.parametrize("number", [vectors._FEW, MANY], ids=["few", "many"])
def test_the_nearest_are_those_of_an_exact_search(path: Path, number: int) -> None:
    said = texts(number)
    with opened(path) as memory:
        memory.remember(said, user_id="u")
        for asked in ("topic 3: what", "topic 5: note 40", "something else"):
            assert len({text for text, _ in near(memory, asked)} & set(exact(said, asked))) >= 9
        assert held(memory) == ([number] if number == MANY else [])


def test_a_texts_own_vector_has_a_similarity_of_one(many: Memory) -> None:
    assert near(many, "topic 3: note 10", 1) == [("topic 3: note 10", pytest.approx(1.0))]


def test_an_embedder_with_one_great_number_keeps_floats(path: Path) -> None:
    class Lifted(Scattered):
        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            return [[30.0, *vector[1:]] for vector in super().embed(texts)]

    with Memory(path, embedder=Lifted(), extractor=False) as memory:
        memory.remember(texts(MANY), user_id="u")
        (hit,) = memory.search("topic 3: what", user_id="u", limit=1, include=("facts",))
        assert hit.text.startswith("topic 3")
        assert held(memory) == [MANY]
    db = sqlite3.connect(path)
    assert db.execute("SELECT DISTINCT length(vector) FROM fact_vectors").fetchall() == [(4 * DIMENSION,)]
    db.close()


def test_without_numpy_all_are_compared(many: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = near(many, "topic 2: what")
    many._database._codes._scopes.clear()
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert not codes.available()
    assert near(many, "topic 2: what") == expected
    assert held(many) == []


def test_equal_vectors_do_not_fill_a_search(path: Path) -> None:
    class Alike(Scattered):
        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            return super().embed([text.split(":")[0] for text in texts])

    with Memory(path, embedder=Alike(), extractor=False) as memory:
        memory.remember([f"one: {n}" for n in range(MANY)], user_id="u")
        assert len(near(memory, "one", 5)) == 5
        (codes_,) = memory._database._codes._scopes.values()
        with memory._database.read() as db:
            vector = db.execute("SELECT vector FROM fact_vectors LIMIT 1").get
        assert sorted(codes_.nearest(vector)(20)[1]) == list(range(MANY - 19, MANY + 1))


# Filters.


@pytest.mark.parametrize("every", [2, 100, 250, 10_000], ids=["half", "few", "fewer", "none"])
def test_a_filter_leaves_the_nearest_of_those_that_pass(path: Path, every: int) -> None:
    said = texts(3 * MANY)
    with opened(path) as memory:
        memory.remember([{"text": text, "metadata": {"n": n}} for n, text in enumerate(said)], user_id="u")
        chosen = [n for n in range(len(said)) if n and n % every == 0]
        filters = {"n": {"in": chosen or [-1]}}
        hits = memory.search("topic 4: zzz", user_id="u", filters=filters, include=("facts",), limit=10)
        passing = [said[n] for n in chosen]
        assert len(hits) == min(10, len(passing))
        assert len({hit.text for hit in hits} & set(exact(passing, "topic 4: zzz"))) >= len(hits) - 2  # words count too


def test_what_no_longer_holds_does_not_crowd_out_what_does(many: Memory) -> None:
    for fact in many.get_all(user_id="u", limit=1000)[3:]:
        many.update(fact.id, expires_at="2001-01-01")
    assert len(many.search("topic 1: zzz", user_id="u")) == 3


# Others who write.


def test_what_another_connection_stores_changes_and_deletes_is_seen_at_the_next_search(many: Memory) -> None:
    assert near(many, "rare: a", 1)[0][1] < 0.9
    with opened(many.path) as other:
        fact = other.remember("rare: a", user_id="u").facts[0]
        assert near(many, "rare: a", 1) == [("rare: a", pytest.approx(1.0))]
        other.update(fact.id, text="rare: b")
        assert near(many, "rare: b", 1) == [("rare: b", pytest.approx(1.0))]
        other.delete(fact.id)
        assert near(many, "rare: b", 1)[0][1] < 0.9
        other.remember("rare: a", user_id="somebody else")
        assert near(many, "rare: a", 1)[0][1] < 0.9
    assert held(many) == [MANY + 3]  # only what was new was read, one of it the old version


def test_what_is_held_is_read_anew_once_most_of_it_has_gone(many: Memory) -> None:
    near(many, "topic 1")
    with opened(many.path) as other:
        with other._database.write() as db:
            vectors.delete(db, "fact", range(1, MANY + 1))
        other.remember(texts(MANY, "again {}: {}"), user_id="u")
    assert near(many, "again 2: 2", 1)[0][0] == "again 2: 2"
    assert held(many) == [2 * MANY]  # what has gone is not near it
    for _ in range(2):
        assert {text[:5] for text, _ in near(many, "topic 1: zzz")} == {"again"}
    assert held(many) == [MANY]


def test_nothing_is_kept_of_a_transaction_that_fails(many: Memory) -> None:
    class Stopped(Exception):
        pass

    near(many, "topic 1")
    with pytest.raises(Stopped), many._database.write() as db:  # noqa: PT012
        row = vectors.Row(1, 1, embed.pack([1.0] * DIMENSION))
        vectors.delete(db, "fact", [1])
        vectors.insert(db, "fact", [row], vectors.identity(db).probes)  # type: ignore[union-attr]
        reach = scopes.reach(db, Scope("u"))
        assert reach is not None
        assert len(vectors.nearest(db, "fact", row.vector, reach, 3)) == 3
        raise Stopped
    many.remember("rare: a", user_id="u")
    assert near(many, "rare: a", 1) == [("rare: a", pytest.approx(1.0))]


def test_a_table_that_was_made_anew_is_read_anew(many: Memory) -> None:
    near(many, "topic 1")
    db = sqlite3.connect(many.path)
    db.execute("DROP TABLE fact_vectors")
    db.close()
    many.repair()
    for asked in ("topic 1: note 1", "topic 2: note 2"):
        assert near(many, asked, 1) == [(asked, pytest.approx(1.0))]


def test_a_wider_scope_sees_all_of_its_scopes_and_no_other(path: Path) -> None:
    with opened(path) as memory:
        for user, run in (("u", "a"), ("u", "b"), ("v", "a")):
            memory.remember(texts(MANY, f"{user}{run} {{}}: {{}}"), user_id=user, run_id=run)
        assert {text[:2] for text, _ in near(memory, "zzz", 200, user_id="u")} == {"ua", "ub"}
        assert {text[:2] for text, _ in near(memory, "zzz", 200, run_id="a")} == {"ua", "va"}
        assert {text[:2] for text, _ in near(memory, "zzz", 200, user_id="u", run_id="a")} == {"ua"}
        assert held(memory) == [2 * MANY, 2 * MANY, MANY]


def test_a_text_that_is_said_again_in_one_call_is_embedded_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(path) as memory:
        memory.remember("warm: up", user_id="u")
        asked: list[str] = []
        embedded = Scattered.embed
        monkeypatch.setattr(Scattered, "embed", lambda self, said: asked.extend(said) or embedded(self, said))
        memory.add(["tea: a", "tea: b", "tea: a", "tea: a"], user_id="u", extract="never")
        assert sorted(asked) == ["tea: a", "tea: b"]
        found = memory.search("tea: a", user_id="u", include="messages", explain=True)
        assert [hit.explain.semantic for hit in found if hit.explain and hit.text == "tea: a"] == [
            pytest.approx(1, abs=0.01)
        ]


def test_bits_that_count_by_the_querys_numbers_tell_the_nearest_better() -> None:
    chance = random.Random(5)
    made = all_quantised([embed.pack([chance.gauss(0, 1) for _ in range(DIMENSION)]) for _ in range(3000)])
    held = codes.Codes(3000, floats=False).more(3000, ((at, 10_000 + at, vector) for at, vector in enumerate(made, 1)))
    rows = [struct.unpack(f"{len(vector)}b", vector) for vector in made]
    lengths = [sum(x * x for x in row) ** 0.5 for row in rows]
    plain = weighed = 0
    for query in rows[:20]:
        likeness = [sum(map(int.__mul__, query, row)) / length for row, length in zip(rows, lengths)]
        exact = set(sorted(range(1, 3001), key=lambda at: -likeness[at - 1])[:10])
        chosen = held.nearest(struct.pack(f"{len(query)}b", *query))
        numbers, ids = chosen(100, among=400)
        assert ids == [10_000 + number for number in numbers]
        assert len(numbers) == 100
        plain += len(exact.intersection(chosen(100)[0]))
        weighed += len(exact.intersection(numbers))
    assert weighed > plain


@pytest.mark.parametrize("least", [0.5, 0.7])
def test_what_is_less_like_than_is_wanted_is_left_out_by_its_code_and_nothing_else(many: Memory, least: float) -> None:
    with many._database.read() as db:
        reach = scopes.reach(db, Scope("u"))
        assert reach is not None
        vector = embed.pack(embed.normalise(Scattered(DIMENSION).embed(["topic 3: note 10"])[0]))
        every = vectors.nearest(db, "fact", vector, reach, MANY)
        found = vectors.nearest(db, "fact", vector, reach, MANY, least=least)
    wanted = [(id_, similarity) for id_, similarity in every if similarity >= least]
    assert 0 < len(wanted) < MANY
    assert found[: len(wanted)] == wanted
    assert len(found) < len(every)


def test_to_compare_codes_keeps_no_other_processor_busy() -> None:
    program = """
import time
import numpy as np
from memlite import codes
vectors = np.random.default_rng(1).integers(-127, 127, (20_000, 384), np.int8)
held = codes.Codes(1, floats=False).more(20_000, ((at, at, vector.tobytes()) for at, vector in enumerate(vectors, 1)))
own, all_ = time.thread_time(), time.process_time()
for vector in vectors[:200]:
    held.nearest(vector.tobytes())(200, among=4000)
own, all_ = time.thread_time() - own, time.process_time() - all_
print(all_ - own < 0.2 * own, own, all_)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("True"), done.stdout


def test_the_scopes_that_were_not_searched_for_longest_are_let_go(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "MOST", 2 * MANY)
    with opened(path) as memory:
        for user in ("u", "v", "w"):
            memory.remember(texts(MANY), user_id=user)
            near(memory, "topic 1", user_id=user)
        assert held(memory) == [MANY, MANY]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_holds_its_own(many: Memory) -> None:
    near(many, "topic 1")
    child = os.fork()
    if child == 0:
        try:
            many.remember("rare: a", user_id="u")
            os._exit(0 if near(many, "rare: a", 1)[0][0] == "rare: a" and held(many) == [MANY + 1] else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert near(many, "rare: a", 1)[0][0] == "rare: a"


def test_a_small_scope_is_found_by_the_index_over_its_rows(many: Memory) -> None:
    with many._database.read() as db:
        reach = scopes.reach(db, Scope("u"))
        assert reach is not None
        sql = f"EXPLAIN QUERY PLAN SELECT v.id FROM {vectors._within('fact', reach)}"
        plan = [row[3] for row in db.execute(sql, (*reach.bindings, 1))]
    assert not [step for step in plan if step.startswith("SCAN")]
    assert any("fact_vectors_by_scope (scope_id=? AND made_by=?)" in step for step in plan)


# Files of before.


def tables(path: Path) -> dict[str, list[Any]]:
    db = sqlite3.connect(path)
    found = {
        f"{kind}_vectors": db.execute(
            f"SELECT id, e.generation, scope_id, vector FROM {kind}_vectors JOIN embedder e ON e.number = made_by "
            "ORDER BY id, generation"
        ).fetchall()
        for kind in ("fact", "message", "entity")
    }
    found["names"] = db.execute("SELECT name FROM sqlite_schema ORDER BY name").fetchall()
    found["embedded"] = db.execute("SELECT id, embedded FROM facts ORDER BY id").fetchall()
    db.close()
    return found


@pytest.fixture(params=[DIMENSION, 5], ids=["bytes", "floats"])
def before(request: pytest.FixtureRequest, path: Path) -> Path:
    """A file with two generations of vectors, in more than one chunk."""
    with opened(path, request.param) as memory:
        memory.remember(texts(300), user_id="u", run_id="r")
        memory.add("Ana likes tea.", user_id="u", extract="never")
        memory.reembed()
        memory.archive(memory.remember("Ana owes Bo ten euros.", user_id="u").facts[0].id)
    return path


def test_a_file_of_version_3_keeps_its_vectors(before: Path) -> None:
    expected = tables(before)
    as_version_3(before)
    with Memory(before, embedder=False, extractor=False) as memory:
        assert memory.repair(dry_run=True).found == ()
    assert tables(before) == expected
    assert len(expected["fact_vectors"]) == 600


def test_a_file_of_version_3_is_converted_where_sqlite_vec_does_not_load(
    before: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = tables(before)
    as_version_3(before)
    monkeypatch.setattr("memlite.db.load_sqlite_vec", lambda connection: connection.execute("no such thing"))
    with Memory(before, extractor=False) as memory:
        assert memory.stats().without_vector == 0
    assert tables(before) == expected


@pytest.mark.parametrize("part", ["rowids", "vector_chunks00"])
def test_what_cannot_be_read_of_a_file_of_version_3_is_made_again(before: Path, part: str) -> None:
    expected = tables(before)
    as_version_3(before)
    db = sqlite3.connect(before)
    db.execute(f"DROP TABLE fact_vectors_{part}")
    db.close()
    dimension = DIMENSION if len(expected["fact_vectors"][0][3]) > 100 else 5
    with opened(before, dimension) as memory:
        assert memory.stats().without_vector == 300
        assert memory.work().vectors == 300
        assert memory.repair(dry_run=True).found == ()
    assert tables(before)["names"] == expected["names"]


def test_a_conversion_that_is_stopped_leaves_the_file_as_it_was(before: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = tables(before)
    as_version_3(before)
    old = before.read_bytes()
    read = virtual._read

    def stop(db: apsw.Connection, name: str, dimension: int) -> Iterator[tuple[int, bytes]]:
        yield from read(db, name, dimension)
        if name == "message_vectors":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(virtual, "_read", stop)
        with pytest.raises(KeyboardInterrupt):
            Memory(before, embedder=False, extractor=False)
    assert before.read_bytes() == old
    Memory(before, embedder=False, extractor=False).close()
    assert tables(before) == expected
