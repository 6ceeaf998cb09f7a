"""half_life: what was said long ago scores less, by the formula, and is found all the same; off, nothing changes."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memlite import Hit, InvalidInputError, Memory, cli, instants, rank, weights

DAY = timedelta(days=1)
NOW = datetime.now(timezone.utc).replace(microsecond=0)


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instants, "now", lambda: round(NOW.timestamp() * 1000))


def odds(score: float) -> float:
    return score / (1 - score)


def score(memory: Memory, text: str, query: str = "who likes tea", **about: Any) -> float:
    """The score of the hit with this text."""
    found: Sequence[Hit] = memory.search(query, user_id="ana", explain=True, **about)
    (hit,) = [hit for hit in found if hit.text == text]
    assert hit.explain
    assert hit.explain.total == hit.score
    assert 0 <= hit.score <= 1
    return hit.score


@pytest.fixture
def teas(memory: Memory) -> Memory:
    """Five facts that match alike, said 0 to 100 days ago."""
    for days, name in enumerate(("Ada", "Bea", "Cas", "Dot", "Eva")):
        memory.remember(f"{name} likes tea.", user_id="ana", observed_at=NOW - 25 * days * DAY)
    return memory


# The formula.


@pytest.mark.parametrize("half_life", [10, 10.0, 10 * DAY, timedelta(hours=240)], ids=repr)
@pytest.mark.parametrize("days", [0, 5, 10, 25, 49])
def test_the_odds_halve_with_every_half_life(memory: Memory, days: int, half_life: Any) -> None:
    memory.remember("Ana likes tea.", user_id="ana", observed_at=NOW - days * DAY)
    whole, aged = score(memory, "Ana likes tea."), score(memory, "Ana likes tea.", half_life=half_life)
    assert odds(aged) == pytest.approx(odds(whole) * 0.5 ** (days / 10))


@pytest.mark.parametrize("days", [50, 500, 50_000])
def test_they_halve_five_times_at_most(memory: Memory, days: int) -> None:
    memory.remember("Ana likes tea.", user_id="ana", observed_at=NOW - days * DAY)
    whole, aged = score(memory, "Ana likes tea."), score(memory, "Ana likes tea.", half_life=10)
    assert odds(aged) == pytest.approx(odds(whole) / 32)


def test_age_is_a_part_of_the_score_by_its_own_name(teas: Memory) -> None:
    hits = teas.search("who likes tea", user_id="ana", explain=True, half_life=25)
    for at, hit in enumerate(hits):
        assert hit.explain
        assert hit.explain.parts["age"] == (pytest.approx(at / 5, abs=1e-3), pytest.approx(-5 * math.log(2)))
        logit = weights.WITHOUT_VECTORS["bias"] + sum(value * weight for value, weight in hit.explain.parts.values())
        assert math.log(odds(hit.score)) == pytest.approx(logit, abs=1e-3)


def test_the_newest_comes_first_of_what_matches_alike(teas: Memory) -> None:
    hits = teas.search("who likes tea", user_id="ana", half_life=30)
    assert [hit.text[:3] for hit in hits] == ["Ada", "Bea", "Cas", "Dot", "Eva"]


def test_a_message_counts_from_when_it_was_said(memory: Memory) -> None:
    for days, text in ((30, "I like green tea."), (0, "I like black tea.")):
        memory.add(text, user_id="ana", observed_at=NOW - days * DAY, extract="never")
    whole, aged = (score(memory, "I like green tea.", "which tea", **about) for about in ({}, {"half_life": 15}))
    assert odds(aged) == pytest.approx(odds(whole) / 4)
    hits = memory.search("which tea", user_id="ana", half_life=15)
    assert [hit.text for hit in hits] == ["I like black tea.", "I like green tea."]


def test_a_fact_counts_from_when_it_was_last_confirmed(teas: Memory) -> None:
    teas.remember("Eva likes tea.", user_id="ana", observed_at=NOW)
    hits = teas.search("who likes tea", user_id="ana", half_life=30)
    assert {hit.text[:3] for hit in hits[:2]} == {"Ada", "Eva"}


def test_a_fact_that_stands_for_its_message_has_its_own_age(learning: Memory) -> None:
    learning.add("Ana likes tea.", user_id="ana", observed_at=NOW - 50 * DAY)
    learning.remember("Ana likes tea.", user_id="ana", observed_at=NOW)
    (hit,) = learning.search("who likes tea", user_id="ana", explain=True, half_life=10)
    assert hit.kind == "fact"
    assert hit.explain
    assert hit.explain.parts["age"][0] == pytest.approx(0, abs=1e-3)


def test_what_is_said_in_the_future_is_new(memory: Memory) -> None:
    memory.remember("Ana likes tea.", user_id="ana", observed_at=NOW + 50 * DAY)
    assert score(memory, "Ana likes tea.", half_life=1) == score(memory, "Ana likes tea.")


# What is old is found all the same.


def test_a_text_that_is_the_query_scores_1_whatever_its_age(memory: Memory) -> None:
    memory.remember("Ana likes tea.", user_id="ana", observed_at="1990-01-01")
    memory.remember("Ana likes green tea.", user_id="ana")
    hits = memory.search("ana likes tea", user_id="ana", half_life=1)
    assert [(hit.text, hit.score == 1) for hit in hits] == [("Ana likes tea.", True), ("Ana likes green tea.", False)]


def test_an_identifier_weighs_more_than_any_age(memory: Memory) -> None:
    memory.remember("The printer failed with ERR-7731.", user_id="ana", observed_at="1990-01-01")
    memory.remember("The printer failed with a noise.", user_id="ana")
    hits = memory.search("what failed with ERR-7731", user_id="ana", half_life=1)
    assert [hit.text for hit in hits] == ["The printer failed with ERR-7731.", "The printer failed with a noise."]
    assert rank.BY_HAND["exact"] > rank.HALVINGS * math.log(2)


def test_nothing_is_left_out_for_its_age(teas: Memory) -> None:
    assert len(teas.search("who likes tea", user_id="ana", half_life=timedelta(seconds=1))) == 5
    whole, aged = (teas.search("tea", user_id="ana", half_life=half_life) for half_life in (None, 1))
    assert (aged.evidence, aged.floor) == (whole.evidence, whole.floor)


def test_a_context_holds_what_is_old_where_nothing_newer_says_it(memory: Memory) -> None:
    memory.remember("Clara must not eat walnuts.", user_id="ana", observed_at="1990-01-01")
    query = "what must Clara not eat?"
    assert memory.context(query, user_id="ana").hits
    assert memory.context(query, user_id="ana", half_life=1).text == memory.context(query, user_id="ana").text


def test_a_context_has_the_newest_first(teas: Memory) -> None:
    lines = teas.context("who likes tea", user_id="ana", floor=0, half_life=30).text.splitlines()
    assert [line[2:5] for line in lines] == ["Ada", "Bea", "Cas", "Dot", "Eva"]


# Without it.


def test_without_a_half_life_no_score_changes(teas: Memory) -> None:
    """The same sum, in the same order, as before there was an age."""
    for vectors in (True, False):
        table = weights.WITH_VECTORS if vectors else weights.WITHOUT_VECTORS
        parts = {name: weight for name, weight in table.items() if name != "bias"} | rank.BY_HAND
        for at in range(200):
            values = {name: ((at * 7 + place * 13) % 101) / 101 for place, name in enumerate(parts)}
            logit = table["bias"] + float(sum(weight * values[name] for name, weight in parts.items()))
            expected = 1.0 / (1.0 + math.exp(-max(-60.0, min(logit, 60.0))))
            assert rank.score(rank.Signals(**values), vectors=vectors) == expected
    for hit in teas.search("who likes tea", user_id="ana", explain=True):
        assert hit.explain
        assert hit.explain.parts["age"][0] == 0


def test_of_texts_as_old_the_order_is_the_same(memory: Memory) -> None:
    memory.remember([f"Ana likes tea number {n} {'and cake ' * n}." for n in range(9)], user_id="ana", observed_at=NOW)
    plain, aged = (memory.search("tea and cake", user_id="ana", half_life=each) for each in (None, 1))
    assert [hit.id for hit in plain] == [hit.id for hit in aged]


@pytest.mark.parametrize("half_life", [0, -1, "30d", True, float("nan"), float("inf"), timedelta(0), -DAY, 1e12])
def test_what_is_no_time_is_refused(memory: Memory, half_life: Any) -> None:
    for verb in (memory.search, memory.context, lambda query, **about: memory.why("abcd", query, **about)):
        with pytest.raises(InvalidInputError, match="half_life"):
            verb("tea", user_id="ana", half_life=half_life)


# At another time.


@pytest.mark.parametrize("when", ["as_of", "known_at"])
def test_at_another_time_it_is_the_age_of_then(memory: Memory, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    stored: dict[str, str] = {}
    for days, text in ((100, "Ada likes tea."), (80, "Bea likes tea."), (70, "Ada likes tea."), (1, "Bea likes tea.")):
        at = NOW - days * DAY
        monkeypatch.setattr(instants, "now", lambda at=at: round(at.timestamp() * 1000))
        stored |= {fact.text: fact.id for fact in memory.remember(text, user_id="ana", observed_at=at).facts}
    monkeypatch.setattr(instants, "now", lambda: round(NOW.timestamp() * 1000))

    def ages(**about: Any) -> dict[str, float]:
        hits = memory.search("who likes tea", user_id="ana", explain=True, half_life=20, **about)
        return {hit.text[:3]: 100 * hit.explain.parts["age"][0] for hit in hits if hit.explain}

    assert ages() == {"Ada": pytest.approx(70), "Bea": pytest.approx(1)}
    # 75 days ago Ada had said it once; 50 days ago she had said it again, and Bea had not.
    assert ages(**{when: NOW - 75 * DAY}) == {"Ada": pytest.approx(25), "Bea": pytest.approx(5)}
    assert ages(**{when: NOW - 50 * DAY}) == {"Ada": pytest.approx(20), "Bea": pytest.approx(30)}


# Where else it counts.


def test_why_tells_that_age_put_it_behind(teas: Memory) -> None:
    eva = next(fact for fact in teas.get_all(user_id="ana") if fact.text.startswith("Eva"))
    about: dict[str, Any] = {"user_id": "ana", "limit": 1}
    assert teas.why(eva.id, "who likes tea", **about).verdict in ("returned", "past the limit")
    found = teas.why(eva.id, "who likes tea", **about, half_life=20)
    assert (found.verdict, found.rank) == ("past the limit", 5)
    assert found.apart == {"age": pytest.approx(-5 * math.log(2), abs=1e-3)}


class Contrary:
    """A reranker that likes the oldest name best."""

    name = "contrary"

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        return [ord(text[0]) / 200 for text in texts]


def test_a_reranker_has_the_last_word_and_the_answer_says_so(path: Path) -> None:
    with Memory(path, embedder=False, extractor=False, reranker=Contrary()) as memory:
        memory.remember(["Ada likes tea.", "Eva likes tea."], user_id="ana")
        hits = memory.search("tea", user_id="ana", half_life=30)
        assert hits[0].text == "Eva likes tea."
        assert any("reranker" in note for note in hits.notes)
        assert not any("reranker" in note for note in memory.search("tea", user_id="ana").notes)


def run(path: Path, *words: str, code: int = 0) -> Any:
    result = CliRunner().invoke(cli.main, [*words, "--db", str(path)], env={"MEMLITE_EMBEDDER": "off"})
    assert result.exit_code == code, result.output
    return result


def test_the_commands_take_it(path: Path) -> None:
    for text, at in (("Ada likes tea.", "2001-01-01"), ("Bea likes tea.", "2020-01-01")):
        run(path, "remember", text, "--at", at)
    shown = run(path, "search", "tea", "--half-life", "30d", "--explain")
    assert "age 1.00" in shown.stdout
    assert "age" not in run(path, "search", "tea", "--explain").stdout
    hits = json.loads(run(path, "search", "tea", "--half-life", "20y", "--json").stdout)
    assert [hit["text"][:3] for hit in hits] == ["Bea", "Ada"]
    assert 0 < hits[0]["explain"]["parts"]["age"][0] < hits[1]["explain"]["parts"]["age"][0] < 1
    assert run(path, "context", "tea", "--floor", "0", "--half-life", "20y").stdout.startswith("- Bea")
    assert "age" in run(path, "why", hits[1]["id"], "tea", "--half-life", "20y", "--limit", "1").stdout
    run(path, "search", "tea", "--half-life", "soon", code=2)
    run(path, "search", "tea", "--half-life", "0d", code=2)
