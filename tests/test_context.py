"""context(): the best hits as lines for a prompt, within a budget, and nothing where nothing answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memlite import InvalidInputError, Memory, context
from memlite.cli import main

TALK = [
    {"role": "user", "content": "My sister Clara is allergic to walnuts.", "observed_at": "2026-06-01T10:00:00Z"},
    {"role": "assistant", "content": "I will keep walnuts out of every recipe.", "observed_at": "2026-06-01T10:01:00Z"},
    {"role": "user", "content": "The tram to the office was late again.", "observed_at": "2026-06-02T08:00:00Z"},
]


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with Memory(":memory:", extractor=False) as opened:
        added = opened.add(TALK, user_id="u", extract="never")
        opened.remember(
            {"text": "Clara, the user's sister, is allergic to walnuts.", "source": added.messages[0]},
            user_id="u",
            observed_at="2026-06-01T10:00:00Z",
        )
        yield opened


def test_a_line_holds_the_fact_its_day_and_what_was_said(memory: Memory) -> None:
    made = memory.context("Which nuts is Clara allergic to?", user_id="u")
    first, *_ = made.text.splitlines()
    assert first == (
        "- Clara, the user's sister, is allergic to walnuts. (2026-06-01) "
        "[user: My sister Clara is allergic to walnuts.]"
    )
    assert made.evidence >= made.floor > 0
    assert made.hits[0].kind == "fact"
    assert made.tokens == context.tokens(made.text)


def test_a_line_says_what_its_fact_replaced_where_there_is_room(learning: Memory) -> None:
    old = learning.remember("Ana drinks almond milk (the sweet one).", user_id="u", observed_at="2024-03-01").facts[0]
    new = {"text": "Ana drinks oat milk.", "replaces": old.id}
    learning.remember(new, user_id="u", observed_at="2025-05-10")
    line = "- Ana drinks oat milk. (2025-05-10, before: Ana drinks almond milk (the sweet one).)"

    def ask(**about: Any) -> str:
        return learning.context("What milk does Ana drink?", user_id="u", floor=0, **about).text

    assert ask() == line
    assert ask(replaced=False) == ask(max_tokens=20) == "- Ana drinks oat milk. (2025-05-10)"
    for text in (line, f"> {line} [somebody: no]", line.removesuffix(")")):
        learnt = learning.add([{"role": "assistant", "content": text}], user_id="u").facts
        assert bool(learnt) == (text != line)


def test_a_predecessor_goes_from_the_messages_that_recalled_it(learning: Memory) -> None:
    old = learning.remember("Ana drinks almond milk.", user_id="u", observed_at="2024-03-01").facts[0]
    learning.remember({"text": "Ana drinks oat milk.", "replaces": old.id}, user_id="u", observed_at="2025-05-10")
    text = learning.context("What milk does Ana drink?", user_id="u", floor=0).text
    message = learning.add(f"You told me:\n{text}", user_id="u").messages[0]
    assert message in learning.delete(old.id).messages


def test_what_nothing_answers_brings_nothing(memory: Memory) -> None:
    made = memory.context("How many moons does Jupiter have?", user_id="u")
    assert (made.text, made.hits, made.tokens) == ("", (), 0)
    assert made.evidence < made.floor
    assert memory.context("How many moons does Jupiter have?", user_id="u", floor=0).text
    assert memory.context("walnuts", user_id="nobody").text == ""


@pytest.mark.parametrize("room", [1, 10, 20, 40, 80])
def test_the_budget_is_kept_and_facts_come_before_quotations(memory: Memory, room: int) -> None:
    made = memory.context("Which nuts is Clara allergic to?", user_id="u", max_tokens=room, floor=0)
    assert made.tokens <= room
    assert len(made.text.splitlines()) == len(made.hits)
    if room == 20:
        assert "[user:" not in made.text


@pytest.mark.parametrize(
    ("text", "least"), [("", 0), ("Ana likes tea.", 4), ("绿茶很好", 4), ("internationalisation", 4), ("a-b", 3)]
)
def test_tokens_are_counted_rather_high(text: str, least: int) -> None:
    assert context.tokens(text) >= least


def test_a_context_may_be_as_long_as_a_models_window(memory: Memory) -> None:
    memory.remember([f"Clara's walnut tree number {n} is {n} metres high." for n in range(30)], user_id="trees")
    few = memory.context("How high is Clara's walnut tree?", user_id="trees", max_tokens=100, floor=0)
    many = memory.context("How high is Clara's walnut tree?", user_id="trees", max_tokens=200_000, floor=0)
    assert len(few.hits) < len(many.hits)


@pytest.mark.parametrize(
    "wrong", [{"max_tokens": 0}, {"max_tokens": 1_000_001}, {"max_tokens": True}, {"floor": 2}, {"floor": "high"}]
)
def test_a_wrong_budget_or_floor_is_refused(memory: Memory, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        memory.context("walnuts", user_id="u", **wrong)  # type: ignore[arg-type]


def test_the_command_prints_the_lines_and_says_when_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMLITE_DB", str(tmp_path / "m.db"))
    runner = CliRunner()
    assert runner.invoke(main, ["remember", "Clara is allergic to walnuts."]).exit_code == 0
    shown = runner.invoke(main, ["context", "Clara is allergic to walnuts.", "--max-tokens", "50"])
    assert (shown.exit_code, shown.stdout[:32]) == (0, "- Clara is allergic to walnuts. ")
    none = runner.invoke(main, ["context", "moons of Jupiter"])
    assert (none.exit_code, none.stdout) == (0, "")
    assert "floor" in none.stderr


# What comes back.


def test_fifty_rounds_of_recall_teach_nothing_new(learning: Memory) -> None:
    learning.add([{"role": "user", "name": "Ana", "content": "I like tea (the green one)."}], user_id="u")
    learning.add("Ben (my brother) [the tall one] lives in Porto. (2024-01-01)", user_id="u", extract="never")
    old = learning.remember("Ana lives in Porto.", user_id="u").facts[0].id
    learning.remember({"text": "Ana lives in Lisbon.", "replaces": old}, user_id="u")
    before = sorted(fact.text for fact in learning.get_all(user_id="u", past=True))
    for number in range(50):
        query = ("Where did Ana live before?", "What does Ana like?", "Where does Ben live?")[number % 3]
        context = learning.context(query, user_id="u", run_id=None, floor=0)
        assert context.hits
        result = learning.add([{"role": "assistant", "content": context.text}], user_id="u", run_id=f"r{number}")
        assert result.facts == ()
        assert {skipped.reason for skipped in result.skipped} == {"memlite recalled it"}
    assert sorted(fact.text for fact in learning.get_all(user_id="u", past=True)) == before


def test_what_is_said_beside_a_recalled_line_is_learnt(learning: Memory) -> None:
    learning.remember("Ana likes tea.", user_id="u", observed_at="2026-01-01")
    text = learning.context("What does Ana like?", user_id="u", floor=0).text
    result = learning.add(f"You told me:\n{text}\nToday I like cake.", user_id="u")
    assert [fact.text for fact in result.facts] == ["You told me:\nToday I like cake."]
    assert learning.get(result.messages[0]).content.count("tea") == 1  # the message itself stays as it was said
    unknown = learning.add("- Ben likes rum. (2026-01-01)", user_id="u")
    assert len(unknown.facts) == 1  # in the form of a recalled line, but nothing that is known


def test_a_recalled_fact_does_not_come_back_through_the_message_that_recalled_it(learning: Memory) -> None:
    for end in (learning.archive, learning.delete):
        fact = learning.add("Clara is allergic to walnuts.", user_id="u").facts[0].id
        learning.add(learning.context("Clara walnuts", user_id="u", floor=0).text, user_id="u")
        end(fact)
        assert not learning.search("Clara walnuts", user_id="u")


def test_words_added_to_a_recalled_line_are_learnt(learning: Memory) -> None:
    learning.remember("Ana works at Feedzai.", user_id="u", observed_at="2025-05-01")
    result = learning.add("- Ana works at Feedzai. (2025-05-01) [she left in June for Acme]", user_id="u")
    assert len(result.facts) == 1
