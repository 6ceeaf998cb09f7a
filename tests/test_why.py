"""why(): the first true cause for which a stored fact or message does or does not come back, as search asks."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import Echo
from hypothesis import given, settings
from hypothesis import strategies as st

from memlite import (
    InvalidInputError,
    Memory,
    NotFoundError,
)
from memlite.cli import main

UNKNOWN = "deadbeef" * 4


def remember(memory: Memory, *texts: str, **options: Any) -> list[str]:
    """Store facts that name no entity; return their ids."""
    given = [{"text": text, "entities": []} for text in texts]
    return [fact.id for fact in memory.remember(given, **{"user_id": "u"} | options).facts]


# What is not there.


def test_an_id_that_nothing_has_is_not_stored(memory: Memory) -> None:
    remember(memory, "Ana likes tea.")
    why = memory.why(UNKNOWN, "tea", user_id="u")
    assert (why.verdict, why.id, why.rank, why.candidates, why.text) == ("not stored", UNKNOWN, None, 0, "")
    assert "memlite list" in why.reason


def test_what_cannot_be_an_id_is_refused_as_show_refuses_it(memory: Memory) -> None:
    for wrong in ("abc", "", "héllo"):
        with pytest.raises(InvalidInputError):
            memory.why(wrong, "tea", user_id="u")


def test_the_beginning_of_an_id_is_enough_unless_several_have_it(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = remember(memory, "Ana likes tea.", "Ben likes rum.")
    assert memory.why(first[:8].upper() + " ", "tea", user_id="u").id == first
    with sqlite3.connect(memory.path) as file:
        file.execute("UPDATE facts SET uid = ? WHERE uid = ?", (first[:8] + second[8:], second))
    file.close()
    with pytest.raises(NotFoundError, match="several"):
        memory.why(first[:8], "tea", user_id="u")


def test_a_deleted_fact_is_known_to_the_history(memory: Memory) -> None:
    (id_,) = remember(memory, "Ana likes tea.")
    memory.delete(id_)
    why = memory.why(id_[:8], "tea", user_id="u")
    assert (why.verdict, why.id, why.text) == ("deleted", id_, "")
    assert "by caller" in why.reason


def test_a_deleted_message_says_by_whom_and_when(memory: Memory) -> None:
    (id_,) = memory.add("Ana likes tea.", user_id="u").messages
    memory.delete(id_)
    why = memory.why(id_, "tea", user_id="u")
    assert (why.verdict, why.kind, why.text) == ("deleted", "message", "")
    assert why.reason.startswith("the message was deleted on")


# What is past.


def test_a_replaced_fact_and_its_message_name_what_counts_now(learning: Memory) -> None:
    old = learning.add("Ana lives in Porto.", user_id="u", observed_at="2023-01-01")
    (new,) = remember(learning, "Ana lives in Lisbon.")
    (newer,) = (f.id for f in learning.remember({"text": "Ana lives in Faro.", "replaces": new}, user_id="u").facts)
    learning.remember({"text": "Ana has left Porto.", "replaces": old.facts[0].id}, user_id="u")
    why = learning.why(new, "Where does Ana live?", user_id="u")
    assert (why.verdict, why.instead, why.text) == ("replaced", newer, "Ana lives in Lisbon.")
    assert newer in why.reason
    assert "--past" in why.reason
    why = learning.why(old.messages[0], "Porto", user_id="u")
    assert (why.verdict, why.kind) == ("replaced", "message")
    assert "learnt from it" in why.reason


def test_a_replaced_fact_is_replaced_also_where_its_successor_was_deleted(memory: Memory) -> None:
    (old,) = remember(memory, "Ana lives in Porto.", observed_at="2023-01-01")
    (new,) = (f.id for f in memory.remember({"text": "Ana lives in Faro.", "replaces": old}, user_id="u").facts)
    memory.delete(new)
    why = memory.why(old, "Porto", user_id="u")
    assert (why.verdict, why.instead) == ("replaced", None)


def test_an_expired_fact_and_its_message_say_since_when(learning: Memory) -> None:
    said = learning.add("The code for the door is 7731.", user_id="u", expires_at="2001-01-01T12:00:00Z")
    for id_ in (said.facts[0].id, said.messages[0]):
        why = learning.why(id_, "door code", user_id="u")
        assert why.verdict == "expired"
        assert "2001-01-01" in why.reason
    learning.remember("The code for the door is 7731.", user_id="u")  # closes the one whose time is over
    assert learning.why(said.facts[0].id, "door code", user_id="u").verdict == "expired"


def test_an_archived_fact_is_hidden(memory: Memory) -> None:
    (id_,) = remember(memory, "Ana likes tea.")
    with sqlite3.connect(memory.path) as file:
        file.execute("UPDATE facts SET live = 0, archived_at = 1 WHERE uid = ?", (id_,))
    file.close()
    assert memory.why(id_, "tea", user_id="u").verdict == "archived"


@pytest.mark.parametrize("when", ["as_of", "known_at"])
def test_what_came_later_than_the_time_that_was_searched(memory: Memory, when: str) -> None:
    (id_,) = remember(memory, "Ana likes tea.")
    message = memory.add("Ana likes cake.", user_id="u", extract="never").messages[0]
    for later in (id_, message):
        assert memory.why(later, "Ana", user_id="u", **{when: "2001-01-01"}).verdict == "not yet"
        assert memory.why(later, "Ana", user_id="u", **{when: "2999-01-01"}).verdict == "returned"


def test_a_message_of_an_undone_add_is_archived(memory: Memory) -> None:
    added = memory.add("Ana likes tea.", user_id="u", extract="never")
    memory.undo(added.batch)
    why = memory.why(added.messages[0], "tea", user_id="u")
    assert why.verdict == "archived"
    assert "undo" in why.reason


# What the search does not look at.


def test_another_scope_is_named(memory: Memory) -> None:
    (id_,) = remember(memory, "Ana likes tea.", run_id="r1")
    remember(memory, "Ben likes tea.", user_id="ben")
    for asked in ({"user_id": "ben"}, {"user_id": "nobody"}, {"user_id": "u", "agent_id": "a"}):
        why = memory.why(id_, "tea", **asked)
        assert (why.verdict, why.rank) == ("other scope", None)
        assert "user_id=u run_id=r1" in why.reason
    assert memory.why(id_, "tea", user_id="u").verdict == "returned"


def test_a_handle_does_not_know_what_is_outside_its_scope(memory: Memory) -> None:
    (id_,) = remember(memory, "Ana likes tea.")
    remember(memory, "Ben likes tea.", user_id="ben")
    assert memory.scope(user_id="ben").why(id_, "tea").verdict == "not stored"
    memory.delete(id_)
    assert memory.scope(user_id="ben").why(id_, "tea").verdict == "not stored"
    assert memory.scope(user_id="u").why(id_, "tea").verdict == "deleted"


def test_a_filter_that_it_does_not_meet_is_the_cause(memory: Memory) -> None:
    (id_,) = remember(memory, "Ana drinks tea.", metadata={"city": "Faro"})
    why = memory.why(id_, "tea", user_id="u", filters={"city": "Porto"})
    assert why.verdict == "filtered"
    assert '"city": "Faro"' in why.reason
    assert memory.why(id_, "tea", user_id="u", filters={"city": "Faro"}).verdict == "returned"


def test_a_kind_that_was_not_asked_for_is_filtered(memory: Memory) -> None:
    (fact,) = remember(memory, "Ana drinks tea.")
    (message,) = memory.add("Tea is served.", user_id="u").messages
    assert memory.why(fact, "tea", user_id="u", include=["messages"]).verdict == "filtered"
    assert memory.why(message, "tea", user_id="u", include=["facts"]).verdict == "filtered"


# What no lane puts forward.


def test_without_a_word_in_common_the_lanes_say_what_they_were_asked(memory: Memory) -> None:
    (id_,) = remember(memory, "Ana likes tea.")
    (message,) = memory.add("The kettle is on.", user_id="u").messages
    memory.remember({"text": "The firm pays late.", "entities": ["Acme"]}, user_id="u")
    for target in (id_, message):
        why = memory.why(target, "What does Acme pay?", user_id="u")
        assert (why.verdict, why.rank, why.candidates, why.explain) == ("not nominated", None, 1, None)
        assert "none of the query's words (Acme, pay)" in why.reason
        assert "vectors are off" in why.reason
    assert "does not mention Acme" in memory.why(id_, "What does Acme pay?", user_id="u").reason


def test_where_others_fill_the_pool_the_limit_that_shows_it_is_named(memory: Memory) -> None:
    (id_,) = remember(memory, "Once there was tea among other things, in a house by the sea, and much else besides.")
    remember(memory, *(f"Tea, tea and tea {n}." for n in range(60)))
    why = memory.why(id_, "tea", user_id="u")
    assert why.verdict == "not nominated"
    assert "it has tea, and 30 others match better" in why.reason
    (enough,) = (int(word) for word in why.reason.split("a limit of ")[1].split()[:1])
    assert id_ in [hit.id for hit in memory.search("tea", user_id="u", limit=enough)]


def test_a_vector_too_far_and_a_vector_that_is_missing(path: Path) -> None:
    with Memory(path, extractor=False) as memory:
        remember(memory, *(f"Ana has {n} cats." for n in range(2, 40)))
        (far,) = remember(memory, "The invoice was paid on Monday.")
        near = memory.search("young pets", user_id="u", limit=5)[0].id
        why = memory.why(far, "young pets", user_id="u")
        assert why.verdict == "not nominated"
        assert "the similarity of its vector is 0." in why.reason
        assert "the 30 nearest end at 0." in why.reason
        assert why.notes == ()
        found = memory.why(near, "young pets", user_id="u")
        assert (found.rank, found.verdict in ("returned", "below the floor")) == (1, True)
        assert found.explain is not None
        assert found.explain.semantic
    with Memory(path, embedder=False, extractor=False) as memory:
        (missing,) = remember(memory, "Ben adopted a kitten.")
    with Memory(path, extractor=False) as memory:
        why = memory.why(missing, "young pets", user_id="u")
        assert why.verdict == "not nominated"
        assert "memlite work" in why.reason


# Candidates.


def test_a_message_behind_a_returned_fact_is_shown_by_it(learning: Memory) -> None:
    said = learning.add("Ana likes tea.", user_id="u")
    why = learning.why(said.messages[0], "tea", user_id="u")
    assert (why.verdict, why.instead, why.rank) == ("shown by a fact", said.facts[0].id, 2)
    assert learning.why(said.messages[0], "tea", user_id="u", include=["messages"]).verdict in (
        "returned",
        "below the floor",
    )


def test_an_equal_text_of_another_run_stands_for_it(memory: Memory) -> None:
    ids = [remember(memory, "Ana likes tea.", run_id=run)[0] for run in ("r1", "r2")]
    found = {id_: memory.why(id_, "tea", user_id="u") for id_ in ids}
    assert [why.verdict for why in found.values()] == ["twin", "returned"]  # the newer one comes first
    assert found[ids[0]].instead == ids[1]
    assert (found[ids[0]].rank, found[ids[0]].candidates) == (2, 2)


def test_past_the_limit_names_a_limit_that_shows_it(memory: Memory) -> None:
    texts = [f"Ana likes tea number {n}." for n in range(12)]
    ids = [remember(memory, text, run_id=run)[0] for text in texts for run in ("r1", "r2")]
    why = memory.why(ids[0], "tea", user_id="u", limit=5)
    assert why.verdict == "past the limit"
    assert (why.rank, why.candidates) == (24, 24)
    assert "it would be hit 12, and the limit was 5; a limit of 12 shows it" in why.reason
    assert memory.why(ids[0], "tea", user_id="u", limit=11).verdict == "past the limit"
    assert memory.why(ids[0], "tea", user_id="u", limit=12).verdict == "twin"


def test_a_hit_that_context_would_not_return_is_below_the_floor(memory: Memory) -> None:
    (id_,) = remember(memory, "Ana likes tea.")
    query = "Did Ana see zebras, quartz, sailors, thunder, violins and pelicans?"
    why = memory.why(id_, query, user_id="u")
    assert why.verdict == "below the floor"
    assert id_ in [hit.id for hit in memory.search(query, user_id="u")]
    assert memory.context(query, user_id="u").hits == ()
    assert why.evidence is not None
    assert why.floor is not None
    assert why.evidence < why.floor


def test_a_hit_that_context_leaves_out_beside_the_best_one_is_returned_all_the_same(memory: Memory) -> None:
    query = "Is Clara allergic to walnuts and hazelnuts from the market?"
    best, last = remember(memory, "Clara is allergic to walnuts and hazelnuts from the market.", "Clara sings.")
    assert [hit.id for hit in memory.search(query, user_id="u")] == [best, last]
    assert [hit.id for hit in memory.context(query, user_id="u").hits] == [best]
    left_out, shown = (memory.why(id_, query, user_id="u") for id_ in (last, best))
    assert (left_out.verdict, shown.verdict) == ("returned", "returned")
    assert "context" in left_out.reason
    assert "context" not in shown.reason


def test_the_parts_that_tell_it_from_the_last_hit_are_given(memory: Memory) -> None:
    texts = ["Ana likes green tea.", "Ben grows green beans.", "Green is the door.", "Ben is late."]
    remember(memory, *texts)
    memory.add("The tea is cold. Is it?", user_id="u", extract="never")
    hits = memory.search("green tea, Ben?", user_id="u", limit=3, explain=True)
    everything = memory.search("green tea, Ben?", user_id="u", limit=50, explain=True)
    last = hits[-1]
    for hit in everything:
        why = memory.why(hit.id, "green tea, Ben?", user_id="u", limit=3)
        assert (why.score, why.explain, why.last, why.last_score) == (hit.score, hit.explain, last.id, last.score)
        assert hit.explain is not None
        assert last.explain is not None
        apart = {
            name: weight * (value - last.explain.parts[name][0]) for name, (value, weight) in hit.explain.parts.items()
        }
        largest = sorted(apart.values(), key=lambda odds: -abs(odds))[:3]
        assert list(why.apart.values()) == pytest.approx([odds for odds in largest if abs(odds) > 1e-4], abs=5e-3)
        assert len(why.apart) <= 3


@pytest.mark.parametrize("embedder", [False, None], ids=["vectors-off", "real"])
def test_the_rank_is_the_place_in_a_search_without_end(embedder: Any) -> None:
    with Memory(":memory:", embedder=embedder, extractor=False) as memory:
        remember(memory, *(f"Ana saw {n} birds over the {n % 7}th house and drank tea." for n in range(20)))
        memory.add([f"Tea at {n} o'clock, with birds." for n in range(5)], user_id="u")
        hits = memory.search("four birds, tea", user_id="u", limit=40)
        for place, hit in enumerate(hits, 1):
            why = memory.why(hit.id, "four birds, tea", user_id="u", limit=40)
            assert (why.rank, why.candidates, why.score) == (place, len(hits), hit.score)


@pytest.fixture(scope="module")
def mixed() -> Iterator[tuple[Memory, list[str]]]:
    """Facts, their messages, messages of nobody's, twins of several runs, what is replaced; and all ids."""
    with Memory(":memory:", embedder=False, extractor=Echo()) as memory:
        ids: list[str] = []
        for n in range(9):
            for run in ("r1", "r2")[: 1 + n % 2]:
                said = memory.add(
                    [f"Ana likes tea number {n}.", f"Ben likes {n} birds."],
                    user_id="u",
                    run_id=run,
                    extract="now" if n < 6 else "never",
                )
                ids += [*said.messages, *(fact.id for fact in said.facts)]
        ids += remember(memory, "Ana likes tea number 0.", "Ben met Ana.", run_id="r3")
        ids += [f.id for f in memory.remember({"text": "Ana is away.", "replaces": ids[-1]}, user_id="u").facts]
        yield memory, ids


@pytest.mark.parametrize("limit", [1, 3, 10, 30])
@pytest.mark.parametrize("query", ["Ana tea", "birds 3", "Ana likes tea number 0", "Ben", "xylophone", ""])
@pytest.mark.parametrize("include", [("facts", "messages"), ("facts",), ("messages",)], ids="+".join)
def test_returned_is_said_of_what_search_returns_and_of_nothing_else(
    mixed: tuple[Memory, list[str]], query: str, limit: int, include: Any
) -> None:
    memory, ids = mixed
    hits = {hit.id for hit in memory.search(query, user_id="u", limit=limit, include=include)}
    why = {id_: memory.why(id_, query, user_id="u", limit=limit, include=include) for id_ in ids}
    assert {id_ for id_ in ids if why[id_].verdict in ("returned", "below the floor")} == hits
    assert all(each.instead in hits for each in why.values() if each.verdict in ("twin", "shown by a fact"))


# Any text, and nothing written.


@given(st.text(st.characters(exclude_categories=()), max_size=80))
@settings(deadline=None)
def test_any_characters_are_a_legal_query(mixed: tuple[Memory, list[str]], query: str) -> None:
    memory, ids = mixed
    json.dumps(dataclasses.asdict(memory.why(ids[0], query, user_id="u")), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "wrong",
    [{"query": None}, {"limit": 0}, {"include": "dreams"}, {"filters": {"a": {"like": "x"}}}, {"user_id": None}],
    ids=str,
)
def test_what_search_refuses_is_refused(memory: Memory, wrong: dict[str, Any]) -> None:
    (id_,) = remember(memory, "Ana likes tea.")
    with pytest.raises(InvalidInputError):
        memory.why(**{"id": id_, "query": "tea", "user_id": "u"} | wrong)


def test_nothing_is_written_also_where_a_search_would_begin_the_vectors(path: Path) -> None:
    with Memory(path, embedder=False, extractor=False) as memory:
        (id_,) = remember(memory, "Ana likes tea.")
    with Memory(path, extractor=False) as memory:
        other = sqlite3.connect(path)
        before = other.execute("PRAGMA data_version").fetchone()
        why = memory.why(id_, "what does she drink?", user_id="u")
        assert other.execute("PRAGMA data_version").fetchone() == before
        other.close()
        assert why.verdict == "not nominated"
        assert any("memlite work" in note for note in why.notes)


# The command line.


def test_the_command_says_why_for_people_and_for_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLITE_DB", str(tmp_path / "m.db"))
    monkeypatch.setenv("MEMLITE_EMBEDDER", "off")
    runner = CliRunner()

    def run(*words: str, stdin: str = "") -> Any:
        result = runner.invoke(main, list(words), input=stdin)
        assert result.exit_code == 0, result.output
        return result

    texts = [f"Ana likes tea number {n}." for n in range(4)]
    ids = [fact["id"] for fact in json.loads(run("remember", *texts, "--json").stdout)["facts"]]
    value = json.loads(run("why", ids[0][:8], "tea number 3", "--limit", "2", "--json").stdout)
    hits = json.loads(run("search", "tea number 3", "--limit", "10", "--json").stdout)
    assert hits[value["rank"] - 1]["id"] == ids[0]
    assert (value["verdict"], value["id"], value["query"]) == ("past the limit", ids[0], "tea number 3")
    assert value["last"] == hits[1]["id"]
    assert {"reason", "kind", "text", "instead", "candidates", "score", "explain", "apart", "floor"} <= set(value)
    assert json.loads(run("why", ids[0], "-", "--nl", stdin="tea number 3").stdout)["verdict"] == "returned"
    shown = run("why", ids[0][:8], "tea number 3", "--limit", "2").stdout
    assert shown.startswith("past the limit: it would be hit")
    assert "Ana likes tea number 0." in shown
    assert "against the last hit" in shown
    assert "user_id=me" in run("why", ids[0], "tea", "--user", "zoe").stdout
    assert run("why", UNKNOWN, "tea").stdout.startswith("not stored: ")
    filtered = run("why", ids[0], "tea", "--filter", '{"city": "Porto"}', "--include", "facts", "--json")
    assert json.loads(filtered.stdout)["verdict"] == "filtered"
