"""What a text or a number of things costs: no more than its length, whoever wrote it.

Pieces that are repeated thousands of times find what costs the square: a pattern that begins anew at every place and
reads on to the end, a list that is searched for each of its members, a statement that looks at every row.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from memlite import (
    ExtractedFact,
    Extraction,
    ExtractionError,
    ExtractionRequest,
    Memory,
    answer,
    asking,
    claims,
    compact,
    context,
    conversation,
    dates,
    facts,
    ground,
    learn,
    long_input,
    prompt,
    recalled,
    remembered,
    sense,
    sentences,
    verbatim,
    words,
    worth,
)
from memlite.audit import reading, secrets
from memlite.date_words import language as language_of
from memlite.records import Turn

NOW = datetime(2025, 5, 12, 9, 30)


def turn(text: str) -> Turn:
    return Turn(1, "user", "User", sentences.clean(text), NOW, dates.resolve(text[:5000], NOW))


def request(text: str) -> ExtractionRequest:
    return ExtractionRequest((turn(text),))


def told(text: str) -> ExtractedFact:
    return ExtractedFact(text, "User", (1,))


FACT = told("Ana moved to Porto with two cats.")


def read_answer(text: str) -> None:
    for parse in (answer.parse, compact.parse):
        try:
            parse(text, request("Ana likes tea."))
        except ExtractionError:
            continue


def in_parts(text: str) -> None:
    long_input.split(request(text), 400, lambda part: sum(len(each.text) for each in part.messages), 1)


def judge(text: str) -> None:
    said = request(text)
    ground.ungrounded(FACT, said)
    ground.trimmed(FACT, said)
    sense.with_owner(FACT, said)
    sense.distorted(FACT, said)
    worth.unworthy(FACT, request(f"Ana moved to Porto with two cats. {text}?"))


Read = Callable[[str], object]
COMMON = ("a", "Ana ", "1 ", '"', "- ", "   ", "\n", "x? ", "漢", "ﬁ", "\u0301", "my ")
# What reads a text, pieces beside the common ones, and so many characters as show what their square would cost.
READERS: dict[str, tuple[Read, tuple[str, ...], int]] = {
    "a query": (words.read_query, ("a@b ", "node.js/", "1-", "«a» ", "The ", "US "), 6_000),
    "dates": (lambda text: dates.find(text, NOW), ("yesterday ", "3 to 10 August ", "明日", "$1 "), 1_500),
    "sentences": (sentences.split, (), 6_000),
    "sentences to choose from": (lambda text: verbatim.sentences(request(text)), ("She is 1. ",), 2_500),
    "how many facts it may hold": (lambda text: asking._most_facts(request(text)), ("|", "a|"), 1_500),
    "a model's answer": (read_answer, ("[", "{", '{"a":', '["', '"[,', "[],", "<think>", '\\"', "a a "), 1_500),
    "names": (remembered.named_by_rule, ("Bank of ", "a.b", "«A» ", "A-"), 1_500),
    "secrets": (secrets.find, ("-eyJa", "-xoxb-a", "sk-", "password is ", "AB12 ", "1234 "), 15_000),
    "a fact to compare": (reading.read, ("2025-05-11 ", "May 5, 2025 ", "of ", "I'm "), 4_000),
    "a claim to replace": (lambda text: claims.may_replace(text, text, NOW.date()), ("lives in Bo ",), 1_500),
    "what a prompt recalled": (context.recalled, ("* ", " (2025-05-11", " (2025-05-11, before: x"), 6_000),
    "emphasis": (lambda text: recalled._EMPHASIS.sub("", text), ("*", "`", "_", "~a", "*!"), 1_500),
    "a message that a fact is of": (judge, ("with two ", "summarize ", "right ", "so ", "mum's "), 1_500),
}
DATED = ("yesterday ", "明日")


def seconds(read: Read, text: str) -> float:
    started = time.process_time()
    read(text)
    return time.process_time() - started


def check_growth(read: Read, pieces: tuple[str, ...], length: int) -> None:
    """Four times the text may take eight times as long, and 0.05 s: the square of it would be sixteen times."""
    read("Ana and Ben went to the harbour yesterday, and the ferry was late.")  # reads tables, compiles patterns
    for piece in pieces:
        few, many = (piece * (characters // len(piece)) for characters in (length, 4 * length))
        least = seconds(read, few)
        assert any(seconds(read, many) < 8 * least + 0.05 for _ in range(3)), (piece, least)


@pytest.mark.parametrize("name", READERS)
def test_what_reads_a_text_takes_time_that_grows_with_its_length(name: str) -> None:
    read, pieces, length = READERS[name]
    check_growth(read, COMMON + pieces, length)


def test_many_dates_and_sentences_are_read_in_time_that_grows_with_their_number() -> None:
    check_growth(reading.read, ("2025-05-11 ",), 15_000)
    check_growth(lambda text: verbatim.sentences(request(text)), ("She is 1. ",), 10_000)


def test_a_long_word_is_looked_through_for_numbers_in_time_that_grows_with_its_length() -> None:
    for language in map(language_of, ("en", "de", "nl", "fr")):
        check_growth(language.numbers.cardinal, ("zwei", "twintig", "fi", "hundred", "cent"), 10_000)


def test_a_conversation_is_read_in_time_that_grows_with_its_messages() -> None:
    check_growth(lambda text: conversation.read(ids(len(text)), (0, 0), None), ("a",), 4_000)


def test_dates_are_shown_in_time_that_grows_with_their_number() -> None:
    found = {piece: dates.resolve(piece * 12_000, NOW) for piece in DATED}

    def show(text: str) -> None:
        piece = next(piece for piece in DATED if text.startswith(piece))
        prompt.with_dates(text, found[piece][: len(text) // len(piece)])

    for piece in DATED:
        few, many = piece * 3_000, piece * 12_000
        least = seconds(show, few)
        assert any(seconds(show, many) < 8 * least + 0.05 for _ in range(3)), piece


def test_a_long_message_is_cut_in_time_that_grows_with_its_length() -> None:
    check_growth(in_parts, ("yesterday ", "Ana said so. ", "a"), 4_000)
    check_growth(lambda text: long_input.by_topic(turn(text), 400), ("Ana said so. ", "a\n"), 4_000)


def test_a_date_goes_with_its_part_of_a_long_message() -> None:
    text = "Ana came yesterday. " + "It rained. " * 40 + "Ben came today and yesterday. " + "It rained. " * 40
    parts = long_input.split(request(text), 300, lambda part: sum(len(each.text) for each in part.messages), 1)
    found = [each.expression for part in parts for said in part.messages for each in said.dates]
    assert found == ["yesterday", "today", "yesterday"]
    assert all(each.expression in said.text for part in parts for said in part.messages for each in said.dates)
    assert "".join(said.text for part in parts for said in part.messages) == text


def test_the_facts_of_a_message_share_what_was_read_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    evidence = ground._Evidence.__init__

    def counted(self: Any, *turns: Any) -> None:
        read.append(turns)
        evidence(self, *turns)

    monkeypatch.setattr(ground._Evidence, "__init__", counted)
    text = "I moved to Porto with Bruno. " * 20
    for count in (1, 20):
        read.clear()
        kept, _ = learn.accepted(Extraction((told("User moved to Porto with Bruno."),) * count), request(text))
        assert len(kept) == count
        assert len(read) <= 2
    assert ground._read_evidence.cache_info().currsize == 0  # nothing that was said stays in memory


def ids(count: int) -> list[dict[str, str]]:
    return [{"content": "Hello.", "id": f"id {number}"} for number in range(count)]


class Tea:
    """An extractor that learns one thing."""

    name, prompt_version = "tea", "1"

    def extract(self, request: ExtractionRequest) -> Extraction:
        return Extraction((ExtractedFact("Ana likes tea.", request.messages[0].speaker, (1,)),))


MANY: dict[str, tuple[Callable[[Memory, int], object], int]] = {
    "sentences of an assistant": (
        lambda memory, n: memory.add({"role": "assistant", "content": "It is so. " * n}, user_id="u", extract="never"),
        800,
    ),
    "words of a message that is audited": (
        lambda memory, n: memory.add({"name": "Ana", "content": "Ana likes tea. (" + "A " * n}, user_id="u"),
        2500,
    ),
    "names in one fact": (
        lambda memory, n: memory.remember({"text": "A list.", "entities": [f"N{i}" for i in range(n)]}, user_id="u"),
        800,
    ),
    "other names of one entity": (
        lambda memory, n: memory.remember(
            {"text": "Bo.", "entities": [{"name": "Bo", "type": "person", "aliases": [f"Bo{i}" for i in range(n)]}]},
            user_id="u",
        ),
        1500,
    ),
}


@pytest.mark.parametrize("name", MANY)
def test_many_things_at_once_take_time_that_grows_with_their_number(tmp_path: Path, name: str) -> None:
    do, count = MANY[name]

    def measured(number: int) -> float:
        with Memory(tmp_path / f"{number}.db", embedder=False, extractor=Tea()) as opened:
            opened.remember("Ben has a dog.", user_id="u")  # the tables are read
            started = time.process_time()
            do(opened, number)
            opened.search("Bo", user_id="u")
            opened.audit(user_id="u")
            return time.process_time() - started

    assert measured(4 * count) < 8 * measured(count) + 0.2


def test_what_replaced_a_fact_is_looked_up_without_a_look_at_every_other_one(memory: Memory) -> None:
    asked: list[str] = []
    with memory._database.read() as db:
        db.exec_trace = lambda cursor, sql, bindings: asked.append(sql) or True
        facts.followers(db, "[1]")
        db.exec_trace = None
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {asked[0]}", ("[1]",))]
    assert not [step for step in plan if step.startswith("SCAN") and "line" not in step and "json_each" not in step]
