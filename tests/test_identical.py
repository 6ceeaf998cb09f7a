"""A text that is searched for itself comes first with a score of 1, whatever the limit and whatever else is there."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlite import Memory, search
from memlite.words import digest

LIMITS = (1, 2, 3, 10, 60)


class Noise:
    """A hostile embedder: what a text means is chance, though always the same chance."""

    name = "noise"
    dimension = 16

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[random.Random(f"{n} {text}").gauss(0, 1) for n in range(self.dimension)] for text in texts]


def says(hit: Any, text: str) -> bool:
    """Whether a hit is the text, or a fact that stands for a message that is."""
    return digest(text) in map(digest, (hit.text, *(source.text for source in hit.sources)))


T = "For your trip to Porto I recommend the saffron risotto at Osteria Lume and the ferry at nine"


@pytest.mark.parametrize("embedder", [False, None], ids=["vectors-off", "real"])
def test_a_message_comes_itself_where_its_fact_says_little_of_it(embedder: Any) -> None:
    with Memory(":memory:", embedder=embedder, extractor=False) as memory:
        said = memory.add({"role": "assistant", "content": T}, user_id="u", run_id="a", extract="never").messages[0]
        told = [{"text": "There is a trip planned.", "source": [said]}]
        fact = memory.remember(told, user_id="u", run_id="a").facts[0].id
        nearly = T.replace("ferry", "ferries")
        other = memory.add(nearly, user_id="u", run_id="b", extract="never").messages[0]
        for limit in LIMITS:
            hits = memory.search(T, user_id="u", limit=limit, explain=True)
            assert [(hit.id, hit.score == 1) for hit in hits] == [(said, True), (other, False)][:limit]
            assert hits[0].explain is not None
            assert hits[0].explain.total == 1
        assert memory.search(T, user_id="u", include="facts")[0].id == fact
        why = memory.why(fact, T, user_id="u", limit=1)
        assert (why.verdict, why.instead) == ("shown by a message", said)


def test_the_fact_with_the_words_comes_before_one_that_stands_for_a_message_with_them(memory: Memory) -> None:
    own = memory.remember("I live in Porto.", user_id="u", run_id="a").facts[0].id
    said = memory.add("I live in Porto", user_id="u", run_id="b", extract="never").messages[0]
    memory.remember({"text": "The user is a resident of Porto.", "source": [said]}, user_id="u", run_id="b")
    for limit in LIMITS:
        hits = memory.search("i live in Porto", user_id="u", limit=limit)
        assert (hits[0].id, hits[0].score) == (own, 1)


def test_a_text_is_first_however_many_match_as_well(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """It need not be among what the lanes nominate."""
    monkeypatch.setattr(search, "POOL", 2)
    long = "tea with milk and honey and a slice of lemon in the garden"
    said = memory.add(long, user_id="u", run_id="a", extract="never").messages[0]
    memory.remember({"text": "A habit.", "source": [said]}, user_id="u", run_id="a")
    longest = "tea, " * 9000
    memory.remember([long + "s", "🍵", "it is what it is", longest], user_id="u")
    memory.add([f"tea {n}, milk, honey, lemon, garden" for n in range(70)], user_id="u", run_id="b", extract="never")
    memory.remember([f"tea {n}, milk, honey, lemon" for n in range(70)], user_id="u", run_id="b")
    for limit in LIMITS:
        hits = memory.search(long, user_id="u", limit=limit)
        assert (hits[0].id, hits[0].score) == (said, 1)
        for text in (long + "s", "🍵", "it is what it is", longest):
            hits = memory.search(text, user_id="u", limit=limit)
            assert (hits[0].text, hits[0].score) == (text.strip(), 1)


def test_a_fact_that_stands_for_a_message_is_no_older_than_that(memory: Memory) -> None:
    said = memory.add({"role": "user", "content": "Ana likes green tea with milk."}, user_id="u", extract="never")
    told = {"text": "Ana likes green tea.", "source": said.messages[0], "observed_at": "2024-01-01"}
    fact = memory.remember(told, user_id="u").facts[0].id
    for limit in LIMITS:
        best = memory.search("green tea with milk", user_id="u", limit=limit, half_life=30, explain=True)[0]
        assert best.id == fact
        assert best.explain is not None
        assert best.explain.parts["age"][0] < 0.01


def test_what_a_filter_or_an_archive_hides_is_not_first(learning: Memory) -> None:
    learning.remember("Ana likes tea.", user_id="u", metadata={"k": "a"})
    assert not learning.search("Ana likes tea.", user_id="u", filters={"k": "b"})
    fact = learning.add("Ana likes cake.", user_id="u").facts[0].id
    learning.archive(fact)
    assert not [hit for hit in learning.search("Ana likes cake.", user_id="u") if says(hit, "Ana likes cake.")]


# Any store.

WORDS = st.lists(
    st.sampled_from("ana tea ben milk the in porto is 7 C++ node.js 茶 🍵 Zoë".split()), min_size=1, max_size=6
)
TEXTS = WORDS.map(" ".join)
YEARS = st.integers(2024, 2026).map("{}-01-01T00:00:00Z".format)
MESSAGES = st.lists(st.tuples(TEXTS, st.sampled_from(("user", "assistant")), st.sampled_from("ab"), YEARS), max_size=8)
FACTS = st.lists(st.tuples(TEXTS, st.sets(st.integers(0, 7), max_size=2), st.sampled_from("ab"), YEARS), max_size=8)


@contextlib.contextmanager
def stored(messages: Any, facts: Any, embedder: Any) -> Iterator[Memory]:
    with Memory(":memory:", embedder=embedder, extractor=False) as memory:
        ids = []
        for text, role, run, at in messages:
            said = {"role": role, "content": text, "observed_at": at}
            ids += memory.add(said, user_id="u", run_id=run, extract="never").messages
        for text, sources, run, at in facts:
            told = {"text": text, "source": [ids[n] for n in sources if n < len(ids)], "observed_at": at}
            memory.remember(told, user_id="u", run_id=run)
        yield memory


@pytest.mark.parametrize("embedder", [False, Noise()], ids=["vectors-off", "noise"])
@given(messages=MESSAGES, facts=FACTS, query=TEXTS, half_life=st.sampled_from((None, 30.0)))
@settings(max_examples=40, deadline=None)
def test_the_hits_of_a_limit_are_the_first_of_a_larger_one(
    messages: Any, facts: Any, query: str, half_life: Any, embedder: Any
) -> None:
    with stored(messages, facts, embedder) as memory:
        whole = [(hit.id, hit.score) for hit in memory.search(query, user_id="u", limit=60, half_life=half_life)]
        for limit in LIMITS:
            hits = memory.search(query, user_id="u", limit=limit, half_life=half_life)
            assert [hit.id for hit in hits] == [id_ for id_, _ in whole[:limit]]
            assert [hit.score for hit in hits] == pytest.approx([score for _, score in whole[:limit]], rel=1e-3)


@pytest.mark.parametrize("embedder", [False, Noise()], ids=["vectors-off", "noise"])
@given(messages=MESSAGES, facts=FACTS, half_life=st.sampled_from((None, 1.0)))
@settings(max_examples=40, deadline=None)
def test_any_text_that_is_stored_is_first_for_itself(messages: Any, facts: Any, half_life: Any, embedder: Any) -> None:
    with pytest.MonkeyPatch.context() as patch, stored(messages, facts, embedder) as memory:
        patch.setattr(search, "POOL", 2)
        told = {digest(text) for text, *_ in facts}
        for text, *_ in (*messages, *facts):
            found = [memory.search(text, user_id="u", limit=limit, half_life=half_life) for limit in LIMITS]
            assert len({hits[0].id for hits in found}) == 1
            best = found[0][0]
            assert best.score == 1
            assert says(best, text)
            assert digest(text) not in told or digest(best.text) == digest(text)
        for text, *_ in messages:
            best = memory.search(text, user_id="u", limit=1, include="messages")[0]
            assert (digest(best.text), best.score) == (digest(text), 1)
