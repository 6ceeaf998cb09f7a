"""What is said again is not embedded again, in a call, a process or a file; no vector is another embedder's."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import apsw
import pytest

from memlite import EmbedderMismatchError, Memory, embed, semantic

TEA = "Ana likes green tea."


class Counting:
    """An embedder that gives every text a vector of its own, and keeps what it was given."""

    def __init__(self, name: str = "counting", dimension: int = 16) -> None:
        self.name, self.dimension = name, dimension
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        asked = {*embed.PROBES, *(text for pair in embed.PAIRS for text in pair)}
        self.texts += [text for text in texts if text not in asked]
        return [
            [byte / 7 - 9 for byte in sha256((self.name + text).encode()).digest()[: self.dimension]] for text in texts
        ]


@pytest.fixture
def embedder() -> Counting:
    return Counting()


def opened(path: Path, embedder: Counting) -> Memory:
    return Memory(path, embedder=embedder, extractor=False)


def stored(path: Path, kind: str = "fact", text: str = TEA) -> list[bytes]:
    """The vectors that answer of every row with this text."""
    rows, column = {"fact": ("facts", "text"), "message": ("messages", "content")}[kind]
    db = apsw.Connection(str(path))
    found = db.execute(
        f"""
        SELECT v.vector FROM {rows} t JOIN {kind}_vectors v ON v.id = t.id
        JOIN embedder e ON e.number = v.made_by AND e.generation = 'serving' WHERE t.{column} = ?
        """,
        (text,),
    ).fetchall()
    db.close()
    return [vector for (vector,) in found]


def test_a_text_is_embedded_once_in_a_call_and_in_any_number_of_them(path: Path, embedder: Counting) -> None:
    with opened(path, embedder) as memory:
        memory.add([{"role": "user", "content": "Thanks!"}] * 100, user_id="ana", extract="never")
        for user in ("ana", "ben", "cleo"):
            memory.add(["Thanks!", "Thanks!"], user_id=user, extract="never")
            memory.remember([TEA, TEA], user_id=user)
    assert embedder.texts == ["Thanks!", TEA, "Ana"]
    assert len(set(stored(path, "message", "Thanks!"))) == 1
    assert len(stored(path)) == 3


def test_what_the_file_has_a_vector_of_takes_that_one(path: Path, tmp_path: Path, embedder: Counting) -> None:
    with opened(path, embedder) as memory:
        for user in ("ana", "dora"):
            memory.remember(TEA, user_id=user)
            memory.add([{"role": "user", "name": "Ana", "content": "Thanks!"}], user_id=user, extract="never")
    again = Counting()
    with opened(path, again) as memory:
        memory.remember([TEA, "Ben likes coffee."], user_id="ben")
        memory.add([{"role": "user", "name": "Ana", "content": "Thanks!"}], user_id="ben", extract="never")
    assert TEA not in again.texts
    assert "Ana: Thanks!" not in again.texts
    assert "Ben likes coffee." in again.texts
    with opened(tmp_path / "fresh.db", again) as memory:
        memory.remember(TEA, user_id="ben")
    assert stored(path) == stored(tmp_path / "fresh.db") * 3


def test_the_default_embedders_vectors_are_taken_as_they_are(path: Path, models: Path) -> None:
    with Memory(path, extractor=False) as memory:
        memory.remember(TEA, user_id="ana")
    with Memory(path, extractor=False) as memory:
        memory.remember(TEA, user_id="ben")
        (hit,) = memory.search(TEA, user_id="ben", limit=1, explain=True)
    assert hit.explain is not None
    assert hit.explain.semantic == pytest.approx(1.0)
    one, other = stored(path)
    assert one == other


@pytest.mark.parametrize(
    ("kind", "said"),
    [("fact", "ana likes GREEN tea"), ("message", "ana likes GREEN tea"), ("speaker", TEA)],
)
def test_what_only_counts_as_the_same_is_embedded(path: Path, kind: str, said: str, embedder: Counting) -> None:
    with opened(path, embedder) as memory:
        if kind == "fact":
            memory.remember([TEA], user_id="ana")
            memory.remember([said], user_id="ben")
        else:
            memory.add([{"role": "user", "content": TEA}], user_id="ana", extract="never")
            name = "Ben" if kind == "speaker" else None
            memory.add([{"role": "user", "name": name, "content": said}], user_id="ben", extract="never")
    assert {TEA, f"Ben: {said}" if kind == "speaker" else said} <= set(embedder.texts)


def test_a_query_that_is_asked_again_is_not_embedded_again(path: Path, embedder: Counting) -> None:
    with opened(path, embedder) as memory:
        memory.remember(TEA, user_id="ana")
        first = memory.search("What does Ana drink?", user_id="ana")
        assert memory.search("What does Ana drink?", user_id="ana") == first
        memory.search(TEA, user_id="ana")
    assert embedder.texts.count("What does Ana drink?") == 1
    assert embedder.texts.count(TEA) == 1


def test_what_is_restored_is_embedded_at_most_once(path: Path, embedder: Counting) -> None:
    with opened(path, embedder) as memory:
        fact = memory.remember(TEA, user_id="ana").facts[0]
        memory.archive(fact.id)
    again = Counting()
    with opened(path, again) as memory:
        memory.restore(fact.id)
    assert again.texts == [TEA]
    assert len(stored(path)) == 1


def test_only_so_many_texts_are_held(path: Path, embedder: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(semantic, "_RECENT", 10)
    with opened(path, embedder) as memory:
        for number in range(50):
            memory.search(f"question {number}", user_id="ana")
        memory.search("question 49", user_id="ana")
        assert len(embedder.texts) == 50
        memory.search("question 0", user_id="ana")
        assert len(embedder.texts) == 51


def test_another_embedder_makes_every_vector_itself(path: Path, tmp_path: Path, embedder: Counting) -> None:
    with opened(path, embedder) as memory:
        for user in ("ana", "ben"):
            memory.remember([TEA, "Ana"], user_id=user)
    new = Counting("new")
    with opened(path, new) as memory:
        with pytest.raises(EmbedderMismatchError):
            memory.remember(TEA, user_id="cleo")
        memory.reembed()
        memory.remember(TEA, user_id="cleo")
    assert sorted(new.texts) == ["Ana", TEA]
    with opened(tmp_path / "fresh.db", new) as memory:
        memory.remember(TEA, user_id="ana")
    assert stored(path) == stored(tmp_path / "fresh.db") * 3


def test_an_embedder_that_changes_while_it_is_open_holds_nothing_of_before(path: Path, embedder: Counting) -> None:
    with opened(path, embedder) as memory:
        memory.remember(TEA, user_id="ana")
        before = stored(path)
        embedder.name = "trained further"
        memory.reembed()
    assert embedder.texts.count(TEA) == 2
    assert stored(path) != before


def test_an_embedder_of_another_dimension_takes_nothing(path: Path, embedder: Counting) -> None:
    with opened(path, embedder) as memory:
        memory.remember(TEA, user_id="ana")
    wide = Counting(dimension=32)
    with opened(path, wide) as memory:
        memory.reembed()
        memory.remember(TEA, user_id="ben")
    assert [len(vector) for vector in stored(path)] == [32, 32]


def test_after_the_way_back_the_vectors_are_those_of_before(path: Path, tmp_path: Path, embedder: Counting) -> None:
    new = Counting("new")
    with opened(path, embedder) as memory:
        memory.remember(TEA, user_id="ana")
        with opened(path, new) as other:
            other.reembed()
        with pytest.raises(EmbedderMismatchError):  # though it holds a vector of this text
            memory.remember(TEA, user_id="ben")
        memory.rollback_reembed()
        memory.remember(TEA, user_id="cleo")
        memory._semantic.complete()
    with opened(tmp_path / "fresh.db", Counting()) as memory:
        memory.remember(TEA, user_id="ana")
    assert set(stored(path)) == set(stored(tmp_path / "fresh.db"))


def test_vectors_that_another_process_makes_anew_after_the_check_are_not_taken(
    path: Path, embedder: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(path, embedder) as memory:
        memory.remember(TEA, user_id="ana")
        with opened(path, Counting("new")) as other:
            other.reembed()
            other.remember("Ben likes coffee.", user_id="ben")
        monkeypatch.setattr(memory._semantic, "_check", lambda embedder: None)  # it was just before that
        memory.remember("Ben likes coffee.", user_id="cleo")
    assert "Ben likes coffee." in embedder.texts
    assert len(stored(path, text="Ben likes coffee.")) == 1  # that of the other one; the new fact waits for its own


def test_a_damaged_vector_is_not_taken(path: Path, embedder: Counting) -> None:
    with opened(path, embedder) as memory:
        memory.remember(TEA, user_id="ana")
    whole = stored(path)
    db = apsw.Connection(str(path))
    db.execute("UPDATE fact_vectors SET vector = x'0102'")
    db.close()
    again = Counting()
    with opened(path, again) as memory:
        memory.remember(TEA, user_id="ben")
    assert again.texts.count(TEA) == 1
    assert stored(path) == [b"\1\2", *whole]
