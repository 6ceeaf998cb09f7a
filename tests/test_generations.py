"""Vectors made anew beside those that answer: reembed, what stops it half way, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import apsw
import pytest

from memlite import EmbedderMismatchError, InvalidInputError, Memory, ModelError, doctor
from tests.conftest import Echo


class Hashed:
    """An embedder that gives every text a vector of its own, and counts how many texts it was given."""

    def __init__(self, name: str, dimension: int = 16) -> None:
        self.name, self.dimension = name, dimension
        self.texts = 0
        self.before: Callable[[Sequence[str]], None] = lambda texts: None

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.before(texts)
        self.texts += len(texts)
        return [
            [1 + byte / 7 for byte in sha256((self.name + text).encode()).digest()[: self.dimension]] for text in texts
        ]


def fill(path: Path, number: int = 200) -> None:
    with Memory(path, embedder=Hashed("old"), extractor=False) as memory:
        memory.remember([f"Ana owns book number {n}." for n in range(number)], user_id="u")


def held(path: Path) -> dict[str, tuple[str, int]]:
    """The embedder of every generation, and how many facts have a vector in it."""
    db = apsw.Connection(str(path))
    counted = """
        SELECT generation, name, (SELECT count(*) FROM fact_vectors WHERE made_by = embedder.number) FROM embedder
    """
    counts = {generation: (name, count) for generation, name, count in db.execute(counted)}
    db.close()
    return counts


def first(memory: Memory, text: str) -> tuple[str, float | None]:
    (hit,) = memory.search(text, user_id="u", limit=1, explain=True)
    assert hit.explain is not None
    return hit.text, hit.explain.semantic


def test_the_old_vectors_answer_until_the_new_ones_take_their_place(path: Path) -> None:
    fill(path)
    text = "Ana owns book number 7."
    with Memory(path, embedder=Hashed("old"), extractor=False) as serving:
        seen: list[tuple[str, float | None]] = []
        new = Hashed("new", 24)
        new.before = lambda texts: seen.append(first(serving, text))
        with Memory(path, embedder=new, extractor=False) as memory:
            assert memory.reembed() == 201  # and the name
            new.before = lambda texts: None
            assert first(memory, text) == (text, pytest.approx(1.0))
        assert seen
        assert all(each == (text, pytest.approx(1.0)) for each in seen)
        with pytest.raises(EmbedderMismatchError):
            serving.search(text, user_id="u")
    assert held(path) == {"serving": ("new", 200), "previous": ("old", 200)}


def test_what_is_stored_meanwhile_has_a_vector_afterwards(path: Path) -> None:
    fill(path)
    with Memory(path, embedder=Hashed("old"), extractor=False) as serving:
        new = Hashed("new")

        def store(texts: Sequence[str]) -> None:
            if 0 < new.texts < 100:
                serving.remember(f"Ben likes tea number {new.texts}.", user_id="u")

        new.before = store
        with Memory(path, embedder=new, extractor=False) as memory:
            memory.reembed()
            facts = len(memory.get_all(user_id="u", limit=500))
    assert facts > 200
    assert held(path)["serving"] == ("new", facts)


class Stopped(Exception):
    pass


def test_what_was_stopped_goes_on_where_it_was(path: Path) -> None:
    fill(path)
    new = Hashed("new")

    def stop(texts: Sequence[str]) -> None:
        if new.texts > 140:
            raise Stopped

    new.before = stop
    with Memory(path, embedder=new, extractor=False) as memory, pytest.raises(ModelError, match="Stopped"):
        memory.reembed()
    assert held(path) == {"serving": ("old", 200), "building": ("new", 192)}
    with Memory(path, embedder=Hashed("old"), extractor=False) as serving:
        assert first(serving, "Ana owns book number 3.") == ("Ana owns book number 3.", pytest.approx(1.0))
    again = Hashed("new")
    with Memory(path, embedder=again, extractor=False) as memory:
        assert memory.reembed() == 9
        assert again.texts < 200
    assert held(path) == {"serving": ("new", 200), "previous": ("old", 200)}


def test_what_was_stopped_is_told_and_can_be_given_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLITE_EMBEDDER", "off")
    monkeypatch.setenv("MEMLITE_EXTRACTOR", "off")
    fill(path)
    new = Hashed("new")

    def stop(texts: Sequence[str]) -> None:
        if new.texts > 140:
            raise Stopped

    new.before = stop
    with Memory(path, embedder=new, extractor=False) as memory:
        with pytest.raises(ModelError, match="Stopped"):
            memory.reembed()
        (told,) = [finding for finding in doctor.examine(path) if finding.name == "reembed"]
        assert told.ok
        assert "192 vector(s) of new made, those of old answer meanwhile" in told.detail
        assert "--rollback" in told.detail
        assert memory.rollback_reembed() == "old"
    assert held(path) == {"serving": ("old", 200)}
    assert [finding for finding in doctor.examine(path) if finding.name == "reembed"] == []


def test_what_was_extracted_again_half_way_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLITE_EMBEDDER", "off")
    monkeypatch.setenv("MEMLITE_EXTRACTOR", "off")
    with Memory(path, embedder=False, extractor=Echo()) as memory:
        for text in ("Ana likes tea.", "Ben likes rum."):
            memory.add(text, user_id="u")
    other = Echo()
    other.name = "other"
    with Memory(path, embedder=False, extractor=other) as memory:
        memory.reextract(limit=1)
        (told,) = [finding for finding in doctor.examine(path) if finding.name == "reextract"]
        assert told.ok
        assert "1 batch(es) extracted again by other 1" in told.detail
        memory.reextract()
    assert [finding for finding in doctor.examine(path) if finding.name == "reextract"] == []


def test_another_embedder_begins_anew_and_the_first_one_ends_without_effect(path: Path) -> None:
    fill(path)
    third = Hashed("third")

    def take_over(texts: Sequence[str]) -> None:
        new.before = lambda texts: None
        with Memory(path, embedder=third, extractor=False) as other:
            other.reembed()

    with Memory(path, embedder=(new := Hashed("new")), extractor=False) as memory:
        new.before = lambda texts: take_over(texts) if len(texts) == 64 else None
        with pytest.raises(EmbedderMismatchError, match="another"):
            memory.reembed()
    assert held(path) == {"serving": ("third", 200), "previous": ("old", 200)}


def test_a_fact_that_changes_while_it_is_embedded_keeps_no_vector_of_its_old_text(path: Path) -> None:
    with Memory(path, embedder=Hashed("old"), extractor=False) as serving:
        (fact,) = serving.remember("Ana likes tea.", user_id="u").facts
        new = Hashed("new")

        def change(texts: Sequence[str]) -> None:
            if "Ana likes tea." in texts and serving.get(fact.id).text == "Ana likes tea.":  # type: ignore[union-attr]
                serving.update(fact.id, text="Ana likes coffee.")

        new.before = change
        with Memory(path, embedder=new, extractor=False) as memory:
            memory.reembed()
            assert first(memory, "Ana likes coffee.") == ("Ana likes coffee.", pytest.approx(1.0))


def test_the_last_reembed_can_be_rolled_back_and_forward(path: Path) -> None:
    fill(path)
    with Memory(path, embedder=Hashed("new", 24), extractor=False) as memory:
        memory.reembed()
        memory.remember("Ben likes tea.", user_id="u")
        assert memory.rollback_reembed() == "old"
        with pytest.raises(EmbedderMismatchError):
            memory.search("tea", user_id="u")
    with Memory(path, embedder=Hashed("old"), extractor=False) as memory:
        text = "Ana owns book number 11."
        assert first(memory, text) == (text, pytest.approx(1.0))
        assert memory.work().vectors == 2  # the fact and the name
        assert first(memory, "Ben likes tea.") == ("Ben likes tea.", pytest.approx(1.0))
        assert memory.rollback_reembed() == "new"
    assert held(path) == {"serving": ("new", 201), "previous": ("old", 201)}


def test_without_an_earlier_generation_there_is_no_way_back(path: Path) -> None:
    fill(path, 3)
    with Memory(path, embedder=Hashed("old"), extractor=False) as memory:
        with pytest.raises(InvalidInputError, match="no earlier vectors"):
            memory.rollback_reembed()
        memory.reembed()
        memory.compact()
        with pytest.raises(InvalidInputError, match="no earlier vectors"):
            memory.rollback_reembed()
    assert held(path) == {"serving": ("old", 3)}


def test_archived_replaced_and_expired_facts_are_so_in_every_generation(path: Path) -> None:
    with Memory(path, embedder=Hashed("old"), extractor=False) as memory:
        tea, milk, walk = memory.remember(["Ana likes tea.", "Ana likes milk.", "Ana likes walks."], user_id="u").facts
        memory.reembed()
        memory.archive(tea.id)
        memory.remember({"text": "Ana likes oat milk.", "replaces": [milk.id]}, user_id="u")
        memory.update(walk.id, expires_at="2020-01-01")
        memory.rollback_reembed()
        memory.work()
        assert [hit.text for hit in memory.search("Ana likes", user_id="u")] == ["Ana likes oat milk."]


def test_a_file_without_vectors_gets_them_by_reembed(path: Path) -> None:
    with Memory(path, embedder=False, extractor=False) as memory:
        memory.remember("Ana likes tea.", user_id="u")
    with Memory(path, embedder=Hashed("new"), extractor=False) as memory:
        assert memory.reembed() == 2
    assert held(path) == {"serving": ("new", 1)}


def test_a_search_during_the_switch_says_so(path: Path) -> None:
    fill(path, 3)
    old = Hashed("old")

    def switch(texts: Sequence[str]) -> None:
        if texts == ["books"]:
            with Memory(path, embedder=Hashed("new", 24), extractor=False) as other:
                other.reembed()

    with Memory(path, embedder=old, extractor=False) as memory:
        memory.search("Ana", user_id="u")
        old.before = switch
        with pytest.raises(EmbedderMismatchError, match="ask again"):
            memory.search("books", user_id="u")


def test_an_expiry_counts_whichever_generation_answers(path: Path) -> None:
    with Memory(path, embedder=Hashed("old"), extractor=False) as memory:
        memory.remember("Ana likes milk.", user_id="u")
    with Memory(path, embedder=Hashed("new"), extractor=False) as memory:
        memory.reembed()
        (fact,) = memory.remember("Ana likes tea.", user_id="u", expires_at="2090-01-01").facts
        memory.rollback_reembed()
    with Memory(path, embedder=False, extractor=False) as memory:
        memory.update(fact.id, expires_at="2020-01-01")
        memory.rollback_reembed()
    with Memory(path, embedder=Hashed("new"), extractor=False) as memory:
        assert [hit.text for hit in memory.search("zzz", user_id="u")] == ["Ana likes milk."]
