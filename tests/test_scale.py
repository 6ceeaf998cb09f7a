"""Another embedder's cosines on the default's scale, so that weights and floors mean the same."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from memlite import Memory, embed
from memlite.bench import synthetic
from tests.conftest import as_version_3

FACTS = ["Ana works at the harbour.", "Ben keeps bees behind his house.", "Clara is allergic to walnuts.", "It rained."]


class Lifted:
    """The default embedder with a constant component: cosines of .7 + .3 c, as of models like e5."""

    name = "lifted"
    dimension = 385
    kept, added = 0.3, 0.7

    def __init__(self) -> None:
        self.default = embed.open_embedder()

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        assert self.default is not None
        found = zip(texts, map(embed.normalise, self.default.embed(texts)))
        return [[x * math.sqrt(self.kept) for x in vector] + self.more(text) for text, vector in found]

    def more(self, text: str) -> list[float]:
        return [math.sqrt(self.added)]


class Lowered(Lifted):
    """The default embedder with a direction of its own for each text: cosines of about .5 c."""

    name = "lowered"
    dimension = 768
    kept, added = 0.5, 0.5

    def more(self, text: str) -> list[float]:
        chance = random.Random(text)
        return [x * math.sqrt(self.added) for x in embed.normalise(chance.gauss(0, 1) for _ in range(384))]


def similarities(path: Path, embedder: embed.Choice) -> list[float]:
    with Memory(path, embedder=embedder, extractor=False) as memory:
        memory.remember(FACTS, user_id="u")
        hits = memory.search("Where does Ana work?", user_id="u", explain=True)
        found = {hit.text: hit.explain.semantic for hit in hits if hit.explain}
        return [found.get(fact) or 0.0 for fact in FACTS]


def test_the_default_embedders_similarities_are_its_cosines(path: Path) -> None:
    default = embed.open_embedder()
    assert default is not None
    query, *facts = (embed.pack(embed.normalise(v)) for v in default.embed(["Where does Ana work?", *FACTS]))
    cosines = [max(0.0, embed.cosine(query, fact)) for fact in facts]
    assert similarities(path, None) == pytest.approx(cosines, abs=0.003)  # of numbers kept in a byte each


@pytest.mark.parametrize(("embedder", "near"), [(Lifted, 0.005), (Lowered, 0.15)], ids=["lifted", "lowered"])
def test_another_embedders_similarities_are_on_the_defaults_scale(
    tmp_path: Path, embedder: type[Lifted], near: float
) -> None:
    expected = similarities(tmp_path / "default.db", None)
    assert similarities(tmp_path / "other.db", embedder()) == pytest.approx(expected, abs=near)


@pytest.fixture(scope="module")
def with_default() -> dict[str, Any]:
    return synthetic.report(synthetic.measure()[0])


@pytest.mark.parametrize(("embedder", "near"), [(Lifted, 0.01), (Lowered, 0.08)], ids=["lifted", "lowered"])
def test_search_and_its_floor_are_as_good_with_another_embedders_cosines(
    embedder: type[Lifted], near: float, with_default: dict[str, Any]
) -> None:
    found = synthetic.report(synthetic.measure(embedder())[0])
    expected = {measure: pytest.approx(with_default[measure], abs=near) for measure in synthetic.MEASURES}
    assert {measure: found[measure] for measure in synthetic.MEASURES} == expected


def scale(path: Path) -> list[tuple[float | None, ...]]:
    db = apsw.Connection(str(path))
    found = db.execute("SELECT apart, spread, alike FROM embedder WHERE generation = 'serving'").fetchall()
    db.close()
    return found


def test_a_file_of_before_there_were_scales_learns_its_embedders_at_the_next_embedding(path: Path) -> None:
    expected = similarities(path, Lifted())
    known = scale(path)
    as_version_3(path)
    db = apsw.Connection(str(path))
    for column in ("apart", "spread", "alike"):
        db.execute(f"ALTER TABLE embedder DROP COLUMN {column}")
    for index in ("messages_by_day", "facts_by_day"):
        db.execute(f"DROP INDEX {index}")
    db.execute("PRAGMA user_version = 1")
    db.close()
    assert similarities(path, Lifted()) == expected
    assert scale(path) == known
    assert known[0][2] is not None


def test_the_scale_goes_with_the_embedder_that_answers(path: Path) -> None:
    expected = similarities(path, None)
    before = scale(path)
    with Memory(path, embedder=Lifted(), extractor=False) as memory:
        memory.reembed()
        assert scale(path) != before
        memory.rollback_reembed()
    assert scale(path) == before
    assert similarities(path, None) == expected
