"""What comes first, and what does not count: names in part, subjects, lengths, everyday tokens, frequent words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memlite import Memory, entities, scopes
from memlite.records import Scope


@pytest.fixture(params=[None, False], ids=["with vectors", "words alone"])
def both(path: Path, request: pytest.FixtureRequest) -> Iterator[Memory]:
    with Memory(path, embedder=request.param, extractor=False) as opened:
        yield opened


# Everyday tokens.


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("The gym opens at 5pm.", "What did the dentist say at 5pm?"),
        ("Ana's 2nd cat is grey.", "Who won the 2nd prize at the chess tournament?"),
        ("Ben lives in the U.S. now.", "Which U.S. president visited Lisbon?"),
        ("Clara was born in the 90s.", "Who sang that 90s song?"),
    ],
)
def test_a_time_or_an_ordinal_alone_answers_nothing(both: Memory, text: str, question: str) -> None:
    both.remember([text, "It rained on Sunday.", "The train was late."], user_id="u")
    assert both.context(question, user_id="u").text == ""


def test_an_identifier_answers(both: Memory) -> None:
    both.remember(["ERR-7731 means that the disk is full.", "It rained on Sunday."], user_id="u")
    assert both.context("What did the dentist say about ERR-7731?", user_id="u").hits[0].text.startswith("ERR-7731")


# Names in part.


def named(memory: Memory, *names: Any) -> None:
    memory.remember([{"text": f"Number {n}.", "entities": [name]} for n, name in enumerate(names)], user_id="u")


def entities_of(memory: Memory, query: str) -> dict[str, float]:
    hits = memory.search(query, user_id="u", explain=True)
    return {name: hit.explain.entity for hit in hits if hit.explain for name in hit.explain.entities}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        pytest.param("Christoph", {"Christopher": 0.5}, id="inside-a-word"),
        pytest.param("What did Christoph say?", {"Christopher": 0.5}, id="in-a-question"),
        pytest.param("christoph", {"Christopher": 0.5}, id="in-small-letters-alone"),
        pytest.param("Osteria", {"Osteria Lume": 0.5}, id="a-word-of-a-name"),
        pytest.param("Jean's song", {"Jean-Luc": 0.5}, id="before-a-hyphen"),
        pytest.param("Gret", {"Margarethe": 0.5}, id="of-an-alias"),
        pytest.param("Where do I live?", {}, id="no-name"),
        pytest.param("Liv", {}, id="three-letters"),
        pytest.param("Mari", {}, id="two-names-inside-a-word"),
        pytest.param("Maria", {"Maria Silva": 0.5, "Maria Rossi": 0.5}, id="two-names-at-a-words-end"),
        pytest.param("Christopher", {"Christopher": 1.0}, id="the-whole-name"),
    ],
)
def test_the_beginning_of_a_name_names_it_and_weighs_half(memory: Memory, query: str, found: dict[str, float]) -> None:
    alias = {"name": "Margarethe", "aliases": ["Gretchen"]}
    named(memory, "Christopher", "Osteria Lume", "Jean-Luc", alias, "Liverpool", "Maria Silva", "Maria Rossi")
    assert entities_of(memory, query) == found


def test_a_name_that_begins_too_many_names_is_none(memory: Memory) -> None:
    named(memory, *(f"Maria {family}" for family in "Silva Rossi Costa Lopes Braga Pinto".split()))
    assert entities_of(memory, "Maria") == {}


def test_what_begins_a_name_is_looked_up_by_index(memory: Memory) -> None:
    named(memory, "Christopher")
    with memory._database.read() as db:
        reach = scopes.reach_of_entities(db, Scope(user_id="u"))
        assert reach is not None
        asked: list[tuple[str, Any]] = []
        db.exec_trace = lambda _, sql, bindings: asked.append((sql, bindings)) or True
        found = entities.beginning(db, "christoph", reach)
        db.exec_trace = None
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {asked[0][0]}", asked[0][1])]
    assert [each.name for each in found] == ["Christopher"]
    looked_up = [step for step in plan if step.startswith(("SEARCH e ", "SEARCH a ", "SCAN e", "SCAN a"))]
    assert len(looked_up) == 2
    assert all(step.endswith("(root_id=? AND folded>? AND folded<?)") for step in looked_up)


# Subjects.


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("What did Ana give?", "Ana gave Ben a violin."),
        ("What did Ben give?", "Ben gave Ana a ticket to Rome."),
        ("What did Ana give Ben?", "Ana gave Ben a violin."),
        ("What did Ben give Ana?", "Ben gave Ana a ticket to Rome."),
        ("What does Ana like?", "Ana likes Ben's apple cake."),
        ("What does Ben like?", "Ben likes Ana's garden."),
    ],
)
def test_a_fact_about_whom_the_query_names_first_comes_first(both: Memory, question: str, first: str) -> None:
    given = ["Ana gave Ben a violin.", "Ben gave Ana a ticket to Rome."]
    both.remember(
        ["Ana likes Ben's apple cake.", "Ben likes Ana's garden."] if "like" in question else given, user_id="u"
    )
    found = both.search(question, user_id="u", explain=True)
    about = [hit.text for hit in found if hit.explain and hit.explain.parts["speaker"][0]]
    assert about == [hit.text for hit in found if hit.text.startswith(first.split()[0])]
    assert found[0].text == first


def test_what_somebody_says_of_himself_is_about_him(memory: Memory) -> None:
    told = [{"text": "I sing in a choir.", "by": "Ana"}, {"text": "I sing in a band.", "by": "Ben"}]
    memory.remember(told, user_id="u")
    assert memory.search("Where does Ana sing?", user_id="u")[0].text == "I sing in a choir."
    assert memory.search("Where does Ben sing?", user_id="u")[0].text == "I sing in a band."


def test_a_fact_from_a_message_of_another_keeps_its_subject(memory: Memory) -> None:
    said = memory.add([{"role": "user", "content": "Ben gave me a violin, I gave him a drum"}], user_id="u").messages
    told = ["Ben gave Ana a violin.", "Ana gave Ben a drum."]
    memory.remember([{"text": text, "source": said} for text in told], user_id="u")
    hits = memory.search("What did Ana give?", user_id="u", explain=True)
    about = {hit.text: hit.explain.parts["speaker"][0] for hit in hits if hit.explain}
    assert about == {told[0]: 0.0, told[1]: 1.0}


# Lengths.

RAMBLE = """I have been thinking a lot about {} and the weather, the garden, what my neighbour said about taxes and the
new tram line, and how the summer was far too hot for anything but sitting in the shade with a cold drink and a book,
which reminds me of the time when we drove to the coast and the car broke down near a petrol station, and we waited
four hours for help while it rained; later somebody fixed it with a piece of wire, and we laughed about it for years."""


@pytest.mark.parametrize("question", ["What is the name of my cat?", "Who is my cat?", "my cat", "cat"])
def test_a_short_text_that_says_it_comes_before_long_ones_that_mention_it(both: Memory, question: str) -> None:
    both.add("My cat is Mimi.", user_id="u", run_id="short", extract="never")
    for n, what in enumerate(["my cat", "a cat", "cats and dogs", "the cat of my aunt"]):
        both.add(RAMBLE.format(what), user_id="u", run_id=f"long {n}", extract="never")
    assert both.search(question, user_id="u")[0].text == "My cat is Mimi."


# Frequent words.


def test_words_that_nearly_all_of_many_texts_hold_bring_the_newest(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memlite.search.MOST_ROWS", 20)
    memory.remember([f"The user has code {n}." for n in range(80)], user_id="u")
    newest = [f"The user has code {n}." for n in range(79, 74, -1)]
    assert [hit.text for hit in memory.search("user code", user_id="u", limit=5)] == newest
    assert memory.search("user code 7", user_id="u")[0].text == "The user has code 7."


def test_how_rare_a_frequent_word_is_is_told_by_its_first_rows(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.remember([f"The user has {('tea', 'milk')[n % 2]} number {n}." for n in range(100)], user_id="u")
    memory.remember([f"Elsewhere {n}." for n in range(100)], user_id="another")
    exact = memory.search("user tea 8", user_id="u", explain=True)
    monkeypatch.setattr("memlite.search.MOST_ROWS", 20)
    told = memory.search("user tea 8", user_id="u", explain=True)
    assert [hit.text for hit in told] == [hit.text for hit in exact]
    assert [hit.score for hit in told] == pytest.approx([hit.score for hit in exact], rel=0.05)


@pytest.fixture
def very_many(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> Memory:
    """A file of so many facts that the words of a query are not counted out."""
    monkeypatch.setattr("memlite.search.MOST_ROWS", 10)
    told = [f"The {('red', 'green', 'blue')[n % 3]} {('cat', 'dog')[n % 2]} has number {n}." for n in range(120)]
    told[40] = "A red dog barked at the zebra."
    told[50] = "A zebra stood on a hill."
    memory.remember([{"text": text, "metadata": {"n": n}} for n, text in enumerate(told)], user_id="u")
    return memory


def test_of_very_many_texts_those_with_most_of_the_words_are_nominated(very_many: Memory) -> None:
    found = [hit.text for hit in very_many.search("red dog zebra", user_id="u", limit=2)]
    assert found[0] == "A red dog barked at the zebra."
    hits = very_many.search("red dog", user_id="u", limit=10)
    assert all("red dog" in hit.text for hit in hits)
    assert len(hits) == 10


@pytest.mark.parametrize("read", [0, 300], ids=["index", "texts"])
def test_of_very_many_texts_filters_are_kept_to(very_many: Memory, read: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memlite.search._FEW_PASSING", read)
    few = very_many.search("red dog zebra", user_id="u", filters={"n": {"lt": 5}}, limit=10)
    assert [hit.text for hit in few][:1] == ["The red dog has number 3."]
    assert all(hit.record.metadata["n"] < 5 for hit in few)
    assert very_many.search("zebra", user_id="u", filters={"n": 50})[0].text == "A zebra stood on a hill."
    found = very_many.search("red dog zebra", user_id="u", filters={"n": {"gte": 30, "lt": 42}}, limit=2)
    assert [hit.text for hit in found] == ["A red dog barked at the zebra.", "The red dog has number 39."]
    assert not very_many.search("red dog zebra", user_id="u", filters={"n": 500})


def test_of_very_many_texts_no_past_one_is_found(very_many: Memory) -> None:
    hit = very_many.search("red dog zebra", user_id="u", limit=1)[0]
    very_many.update(hit.id, text="A red dog slept.")
    assert [found.text for found in very_many.search("zebra", user_id="u")] == ["A zebra stood on a hill."]
    assert very_many.search("red dog slept", user_id="u", limit=1)[0].text == "A red dog slept."


def test_where_most_of_very_many_are_deleted_the_rest_is_counted_out(
    very_many: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memlite.search._COUNTED_OUT", 10)
    about = very_many.search("red dog zebra", user_id="u", explain=True)
    monkeypatch.setattr("memlite.search._COUNTED_OUT", 1000)
    assert very_many.search("red dog zebra", user_id="u", explain=True) == about  # no id is missing
    very_many.remember("Last of all a dog.", user_id="u")
    for fact in very_many.get_all(user_id="u", limit=60, order="oldest"):
        very_many.delete(fact.id)
    exact = very_many.search("dog", user_id="u", explain=True)
    monkeypatch.setattr("memlite.search._COUNTED_OUT", 1)
    assert very_many.search("dog", user_id="u", explain=True) == exact


def test_of_very_many_texts_another_scope_is_not_seen(very_many: Memory) -> None:
    very_many.remember([f"A red dog is called zebra {n}." for n in range(100)], user_id="another")
    hits = very_many.search("red dog zebra", user_id="u", limit=100)
    assert hits[0].text == "A red dog barked at the zebra."
    assert not [hit for hit in hits if "called" in hit.text]


def test_a_small_scope_among_very_many_texts_is_searched_without_bm25(very_many: Memory) -> None:
    very_many.remember([f"A red dog is called zebra {n}." for n in range(60)], user_id="another")
    very_many.remember(["A red dog sleeps.", "A cat sleeps.", "The dog ran."], user_id="few")
    asked: list[str] = []
    with very_many._database.read() as db:
        db.exec_trace = lambda cursor, sql, bindings: asked.append(sql) or True
        found = [hit.text for hit in very_many.search("red dog", user_id="few")]
        db.exec_trace = None
    assert found == ["A red dog sleeps.", "The dog ran."]
    assert not [sql for sql in asked if "fact_words.rank" in sql]


# Times that are named.


def test_what_was_said_or_happened_on_a_day_is_found_by_the_day_alone(memory: Memory) -> None:
    for day in range(1, 29):
        memory.add(f"Painted wall {day}.", user_id="u", observed_at=f"2024-03-{day:02}T20:00+02:00", extract="never")
    memory.remember({"text": "Ana flew to Oslo.", "event": "2024-03-12"}, user_id="u", observed_at="2024-05-01")
    found = [hit.text for hit in memory.search("What did we do on 12 March 2024?", user_id="u", limit=2)]
    assert sorted(found) == ["Ana flew to Oslo.", "Painted wall 12."]


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("Where does Ana live?", "Ana lives in Lisbon."),
        ("Where did Ana live in 2021?", "Ana lives in Porto."),
        ("Where did Ana live in March 2022?", "Ana lives in Porto."),
        ("Where did Ana live on 1 January 2020?", "Ana lives in Porto."),
        ("Where did Ana live before Lisbon?", "Ana lives in Porto."),
        ("What was the previous place that Ana lives in?", "Ana lives in Porto."),
    ],
)
def test_a_question_about_a_past_time_is_answered_by_what_was_true_then(
    memory: Memory, question: str, first: str
) -> None:
    old = memory.remember("Ana lives in Porto.", user_id="u", observed_at="2020-01-01T10:00").facts[0].id
    memory.remember({"text": "Ana lives in Lisbon.", "replaces": [old]}, user_id="u", observed_at="2023-01-01")
    assert memory.search(question, user_id="u")[0].text == first


def test_of_what_was_before_only_what_was_true_at_the_time_named_meets_it(memory: Memory) -> None:
    old = ""
    for year, place in (("2018", "Porto"), ("2020", "Rome"), ("2022", "Lisbon")):
        told = {"text": f"Ana lives in {place}.", "replaces": [old] if old else []}
        old = memory.remember(told, user_id="u", observed_at=f"{year}-01-01").facts[0].id
    hits = memory.search("Where did Ana use to live in 2021?", user_id="u", explain=True)
    met = {hit.text: hit.explain.parts["when"][0] for hit in hits if hit.explain}
    assert met == {"Ana lives in Rome.": 1, "Ana lives in Porto.": 0, "Ana lives in Lisbon.": 0}


def test_the_evidence_does_not_ask_for_the_words_of_a_date(memory: Memory) -> None:
    memory.add("We visited the maritime museum with Tom.", user_id="u", observed_at="2023-07-15", extract="never")
    memory.add([f"Wall {n} is painted." for n in range(30)], user_id="u", observed_at="2022-01-01", extract="never")
    plain = memory.search("Who visited the museum with us?", user_id="u").evidence
    assert memory.search("Who visited the museum with us in July 2023?", user_id="u").evidence > plain
    assert memory.search("Who visited the museum with us in July 2021?", user_id="u").evidence == plain


def test_an_alias_that_a_fact_uses_is_explained_as_its_entity(memory: Memory) -> None:
    named(memory, {"name": "Robert Miller", "aliases": ["Bob"]})
    memory.remember({"text": "Bob is afraid of dogs.", "entities": [{"name": "Bob", "type": "person"}]}, user_id="u")
    hit = next(hit for hit in memory.search("What is Bob afraid of?", user_id="u", explain=True) if "dogs" in hit.text)
    assert hit.explain
    assert hit.explain.entities == ("Robert Miller",)
