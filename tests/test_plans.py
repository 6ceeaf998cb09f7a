"""What a hot statement reads: no whole table, and no sort of what an index has in order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import apsw
import pytest

from memlite import Memory
from tests.conftest import Echo
from tests.test_vectors import Scattered

# Read whole because they never have many rows, or because only a few of them are read.
SMALL = {
    "embedder": "three generations",
    "ttls": "rules that somebody made",
    "t": "rules that somebody made",
    "s": "some scopes, and only while the file has few (scopes.outside)",
    "fact_words_docsize": "counted by its pages",
    "message_words_docsize": "counted by its pages",
    "batches_claimed": "claims, of which each process has one",
    "batches_queued": "what is left to do, in order",
}
# A search by one of these is of few rows, and so is a sort of them.
FEW = re.compile(
    r"VIRTUAL TABLE|SCAN (t|\(subquery-1\)|embedder)|PRIMARY KEY \(rowid=\?\)$"
    r"|\b(hash|uid|folded|fact_id|message_id|fact_uid|entity_id|from_fact|to_fact|batch_id)=\?"
)
HOT: dict[str, Callable[[Memory, str], object]] = {
    "search": lambda memory, _: memory.search("Where does Ana row with Bo?", user_id="u"),
    "search of a run": lambda memory, _: memory.search("Where does Ana row?", run_id="r"),
    "search of a user's run": lambda memory, _: memory.search("Where does Ana row?", user_id="u", run_id="r"),
    "search by metadata": lambda memory, _: memory.search("Where does Ana row?", user_id="u", filters={"n": 1}),
    "search of the past": lambda memory, _: memory.search("Where did Ana row?", user_id="u", past=True),
    "search as of a day": lambda memory, _: memory.search("Where does Ana row?", user_id="u", as_of="2024-01-01"),
    "search by what was known": lambda memory, _: memory.search("Ana rows?", user_id="u", known_at="2024-01-01"),
    "search of a month": lambda memory, _: memory.search("Who rowed in May 2024?", user_id="u"),
    "context": lambda memory, _: memory.context("Where does Ana row?", user_id="u"),
    "add": lambda memory, _: memory.add("Ana rows on the Tagus now.", user_id="u"),
    "add without a model": lambda memory, _: memory.add("Ana sings.", user_id="u", extract="never"),
    "remember": lambda memory, _: memory.remember("Ana rows with Clara in Porto.", user_id="u"),
    "update": lambda memory, id_: memory.update(id_, text="Ana rows on the Minho."),
    "get": lambda memory, id_: memory.get(id_),
    "get_all": lambda memory, _: memory.get_all(user_id="u", limit=2),
}


@pytest.fixture
def some(path: Any) -> Iterator[tuple[Memory, str]]:
    """Facts, messages, entities, past facts and vectors, and one fact's id."""
    with Memory(path, embedder=Scattered(), extractor=Echo()) as memory:
        memory.remember(
            [{"text": f"Ana rowed number {n} with Bo.", "metadata": {"n": n}} for n in range(9)], user_id="u"
        )
        memory.add(["Ana rows on the Douro.", "Bo laughs."], user_id="u", run_id="r")
        old = memory.remember("Ana lives in Porto.", user_id="u").facts[0].id
        memory.remember({"text": "Ana lives in Lisbon.", "replaces": [old]}, user_id="u")
        yield memory, memory.remember("Ana rows every day.", user_id="u").facts[0].id


def plans(memory: Memory, do: Callable[[], object]) -> dict[str, list[str]]:
    """The plan of every statement that a verb runs."""
    asked: dict[str, Any] = {}
    writer = memory._database._writer
    with memory._database.read() as reader:
        pass
    for connection in (reader, writer):
        connection.exec_trace = lambda _, sql, bindings: asked.setdefault(sql, bindings) is bindings or True
    do()
    for connection in (reader, writer):
        connection.exec_trace = None
    return {" ".join(sql.split()): plan(writer, sql, bindings) for sql, bindings in asked.items()}


def plan(db: apsw.Connection, sql: str, bindings: Any) -> list[str]:
    if not sql.lstrip().upper().startswith(("SELECT", "WITH", "UPDATE", "DELETE", "INSERT")):
        return []
    return [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", bindings)]


def read_whole(steps: list[str], sql: str) -> set[str]:
    """The tables and indexes that a statement reads from one end to the other, if they may be large."""
    if sql.endswith("LIMIT 1"):
        return set()
    made = {step.split()[1] for step in steps if step.startswith(("CO-ROUTINE", "MATERIALIZE"))}
    scans = [re.match(r"SCAN (\w+)\b(?!.* VIRTUAL)(?: USING (?:COVERING )?INDEX (\w+))?", step) for step in steps]
    return {scan[2] or scan[1] for scan in scans if scan} - made - SMALL.keys() - {"CONSTANT"}


@pytest.mark.parametrize("name", HOT)
def test_no_hot_statement_reads_a_whole_table(some: tuple[Memory, str], name: str) -> None:
    memory, id_ = some
    found = plans(memory, lambda: HOT[name](memory, id_))
    assert len(found) > 1
    assert not [(tables, sql) for sql, steps in found.items() if (tables := read_whole(steps, sql))]


@pytest.mark.parametrize("name", HOT)
def test_no_hot_statement_sorts_more_than_a_few_rows(some: tuple[Memory, str], name: str) -> None:
    memory, id_ = some
    sorted_ = [
        (steps, sql)
        for sql, steps in plans(memory, lambda: HOT[name](memory, id_)).items()
        if any("TEMP B-TREE FOR ORDER" in step for step in steps) and not any(map(FEW.search, steps))
    ]
    assert not sorted_
