"""Several threads and processes on one file: one copy of each fact, one extraction of each batch."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import sqlite3
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from memlite import AsyncMemory, ExtractedFact, Extraction, ExtractionRequest, InvalidInputError, Memory
from tests.conftest import script

FORK, SPAWN = multiprocessing.get_context("fork"), multiprocessing.get_context("spawn")
TEXTS = [f"Ana bought {n} green teas." for n in range(8)]


class Constant:
    """An extractor that always answers the same facts."""

    name = "constant"
    prompt_version = "1"

    def extract(self, request: ExtractionRequest) -> Extraction:
        return Extraction(tuple(ExtractedFact(text, "Ana", (1,)) for text in TEXTS))


class Logging:
    """An extractor that writes what it extracts into a file, which all processes share."""

    name = "logging"
    prompt_version = "1"

    def __init__(self, log: Path) -> None:
        self.log = log

    def extract(self, request: ExtractionRequest) -> Extraction:
        with self.log.open("a") as file:
            file.write("".join(f"{turn.text}\n" for turn in request.messages))
        return Extraction(tuple(ExtractedFact(turn.text, turn.speaker, (turn.number,)) for turn in request.messages))


class Letters:
    """An embedder that counts letters."""

    name = "letters"
    dimension = 26

    def embed(self, texts: Any) -> list[list[float]]:
        return [[1.0 + text.lower().count(chr(97 + n)) for n in range(26)] for text in texts]


def open_memory(path: Path) -> Memory:
    return Memory(path, embedder=Letters(), extractor=Constant())


def remember(memory: Memory) -> None:
    memory.remember(TEXTS, user_id="u")


def remember_one_by_one(memory: Memory) -> None:
    for text in TEXTS:
        memory.remember(text, user_id="u")


def add(memory: Memory) -> None:
    memory.add(" ".join(TEXTS), user_id="u")


def work(memory: Memory) -> None:
    memory.add(" ".join(TEXTS), user_id="u", extract="later")
    memory.work()


def in_processes(number: int, function: Callable[[int], object]) -> None:
    """Run in so many forked processes that start at the same moment; raise if one of them fails."""
    barrier = FORK.Barrier(number)

    def run(n: int) -> None:
        barrier.wait()
        function(n)

    children = [FORK.Process(target=run, args=(n,)) for n in range(number)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * number


WRITERS = [remember, remember_one_by_one, add, work]


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_eight_threads_that_write_the_same_facts_leave_one_copy_of_each(path: Path, write: Any) -> None:
    with open_memory(path) as memory:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _: write(memory), range(8)))
        memory.work()
        assert sorted(fact.text for fact in memory.get_all(user_id="u", past=True)) == TEXTS
        assert memory.stats().queued == ()


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_four_processes_that_write_the_same_facts_leave_one_copy_of_each(path: Path, write: Any) -> None:
    def child(_: int) -> None:
        with open_memory(path) as memory:
            write(memory)

    in_processes(4, child)
    with open_memory(path) as memory:
        memory.work()
        assert sorted(fact.text for fact in memory.get_all(user_id="u", past=True)) == TEXTS
        assert memory.stats().queued == ()


def write_everything(path: Path) -> None:
    """At the top of the module: a spawned process imports what it runs."""
    with open_memory(path) as memory:
        for write in WRITERS:
            write(memory)


def test_two_spawned_processes_that_write_the_same_facts_leave_one_copy_of_each(path: Path) -> None:
    children = [SPAWN.Process(target=write_everything, args=(path,)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0]
    with open_memory(path) as memory:
        assert sorted(fact.text for fact in memory.get_all(user_id="u", past=True)) == TEXTS
        assert memory.stats().queued == ()


def test_the_loops_of_two_processes_that_write_the_same_facts_leave_one_copy_of_each(path: Path) -> None:
    async def main() -> None:
        async with AsyncMemory(path, embedder=Letters(), extractor=Constant()) as memory:
            verbs = [memory.remember(text, user_id="u") for text in TEXTS]
            verbs += [memory.add(" ".join(TEXTS), user_id="u") for _ in range(2)]
            await asyncio.gather(*verbs, memory.work())

    in_processes(2, lambda _: asyncio.run(main()))
    with open_memory(path) as memory:
        assert sorted(fact.text for fact in memory.get_all(user_id="u", past=True)) == TEXTS
        assert memory.stats().queued == ()


def test_eight_writing_and_eight_reading_processes_lose_nothing_and_double_nothing(path: Path) -> None:
    processes = script("processes")
    told, wrong = processes.run(path, 4, start="fork")
    assert wrong == []
    assert set(told.calls) >= {"add", "remember", "work", "delete", "search", "together"}


# One process waits for its model, the others go on.


class Held:
    """Both models of a process, which answer when they are let."""

    name = "held"
    prompt_version = "1"
    dimension = 26

    def __init__(self, asked: Any, let_go: Any) -> None:
        self.asked, self.let_go = asked, let_go

    def extract(self, request: ExtractionRequest) -> Extraction:
        self.asked.set()
        assert self.let_go.wait(60)
        return Extraction(tuple(ExtractedFact(turn.text, turn.speaker, (turn.number,)) for turn in request.messages))

    def embed(self, texts: Any) -> list[list[float]]:
        self.asked.set()
        assert self.let_go.wait(60)
        return Letters().embed(texts)


SLOW: list[tuple[str, Callable[[Memory], object], str]] = [
    ("work", lambda memory: memory.work(), "extractor"),
    ("add", lambda memory: memory.add("Zoe has a boat.", user_id="slow"), "extractor"),
    ("reextract", lambda memory: memory.reextract(), "extractor"),
    ("remember", lambda memory: memory.remember("Zoe has a boat.", user_id="slow"), "embedder"),
    ("search", lambda memory: memory.search("boat", user_id="slow"), "embedder"),
    ("reembed", lambda memory: memory.reembed(), "embedder"),
    ("repair", lambda memory: memory.repair(), "embedder"),
]


@pytest.mark.parametrize(("verb", "model"), [each[1:] for each in SLOW], ids=[each[0] for each in SLOW])
def test_while_one_process_waits_for_its_model_another_stores_and_finds(
    path: Path, verb: Callable[[Memory], object], model: str
) -> None:
    asked, let_go = FORK.Event(), FORK.Event()

    def slow() -> None:
        held = Held(asked, let_go)
        models = {"extractor": held if model == "extractor" else Constant()}
        with Memory(path, embedder=held if model == "embedder" else Letters(), **models) as memory:  # type: ignore[arg-type]
            verb(memory)

    with open_memory(path) as memory:
        memory.add("Zoe has a bike.", user_id="old")  # what reextract learns again
        memory.add("Zoe has a cat.", user_id="slow", extract="later")
        memory._database._writer.execute("UPDATE facts SET embedded = 0")  # what repair makes a vector for
    child = FORK.Process(target=slow)
    child.start()
    try:
        assert asked.wait(60)
        with open_memory(path) as memory:
            memory._database._writer.set_busy_timeout(0)  # a lock would be an error at once
            assert memory.add("Ana keeps bees.", user_id="u", extract="later").messages
            assert memory.add(" ".join(TEXTS), user_id="other").status == "done"
            fact = memory.remember("Ben likes tea.", user_id="u").facts[0]
            assert memory.search("bees", user_id="u")[0].text.endswith("Ana keeps bees.")
            assert memory.update(fact.id, text="Ben likes mate.").text == "Ben likes mate."
            assert memory.delete(fact.id).facts == (fact.id,)
            assert memory.stats().facts
        assert child.is_alive()
        assert not let_go.is_set()
    finally:
        let_go.set()
        child.join()
    assert child.exitcode == 0
    with open_memory(path) as memory:
        memory.work()
        assert memory.repair(dry_run=True).found == ()


def test_a_message_id_is_stored_once_however_many_send_it(path: Path) -> None:
    def child(_: int) -> None:
        with Memory(path, embedder=False, extractor=False) as memory:
            for n in range(10):
                memory.add({"id": f"m{n}", "content": f"Message {n}."}, user_id="u")

    in_processes(4, child)
    with Memory(path, embedder=False, extractor=False) as memory:
        assert memory.stats().messages == 10


def test_two_workers_extract_each_batch_exactly_once(path: Path, tmp_path: Path) -> None:
    messages = [f"Message number {n}." for n in range(24)]
    with Memory(path, embedder=False, extractor=False) as memory:
        for n, text in enumerate(messages):
            memory.add(text, user_id=f"u{n % 5}", extract="later")
    log = tmp_path / "extracted"

    def child(_: int) -> None:
        with Memory(path, embedder=False, extractor=Logging(log)) as memory:
            while memory.stats().queued:
                memory.work()

    in_processes(2, child)
    assert sorted(log.read_text().splitlines()) == sorted(messages)
    with Memory(path, embedder=False, extractor=False) as memory:
        assert memory.stats().facts == len(messages)


def test_eight_threads_that_work_extract_each_batch_exactly_once(path: Path, tmp_path: Path) -> None:
    messages = [f"Message number {n}." for n in range(24)]
    log = tmp_path / "extracted"
    with Memory(path, embedder=False, extractor=Logging(log)) as memory:
        for n, text in enumerate(messages):
            memory.add(text, user_id=f"u{n % 5}", extract="later")
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _: memory.work(), range(8)))
        memory.work()
    assert sorted(log.read_text().splitlines()) == sorted(messages)


def test_the_batch_of_a_killed_worker_is_taken_over_at_once(path: Path) -> None:
    class Dying(Constant):
        def extract(self, request: ExtractionRequest) -> Extraction:
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError

    def child() -> None:
        Memory(path, embedder=False, extractor=Dying()).work()

    with Memory(path, embedder=False, extractor=Constant()) as memory:
        memory.add(" ".join(TEXTS), user_id="u", extract="later")
        dying = FORK.Process(target=child)
        dying.start()
        dying.join()
        assert dying.exitcode == -signal.SIGKILL
        (queued,) = memory.stats().queued
        assert queued.attempts == 1
        assert memory.work().facts == len(TEXTS)


def test_readers_see_a_batch_whole_or_not_at_all(path: Path) -> None:
    def child(_: int) -> None:
        with Memory(path, embedder=False, extractor=False) as memory:
            for n in range(40):
                memory.remember([f"Part {part} of {n}." for part in range(5)], user_id="u")

    with Memory(path, embedder=False, extractor=False) as memory:
        writer = FORK.Process(target=child, args=(0,))
        writer.start()
        counts = [memory.stats().facts]
        while writer.is_alive():
            counts.append(memory.stats().facts)
        writer.join()
        assert writer.exitcode == 0
        assert {count % 5 for count in counts} == {0}
        assert memory.stats().facts == 200


# Whatever is done to it, the file agrees with itself.

SCOPES = st.sampled_from([{"user_id": "u"}, {"user_id": "u", "run_id": "r"}, {"agent_id": "a"}])
SENTENCES = st.sampled_from(
    [
        "Then Ana met Ben.",
        "Then Ana met Cleo.",
        "ana MET ben!",
        "她喜欢绿茶。",
        "Ben likes node.js.",
        "Oslo, again Oslo.",
    ]
) | st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(str.strip)


class Lifetime(RuleBasedStateMachine):
    """Everything a caller can do, in any order, with vectors on and off."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "memory.db"
        self.memory = Memory(self.path, embedder=Letters(), extractor=Constant())

    def teardown(self) -> None:
        self.memory.close()
        self.folder.cleanup()

    def ids(self) -> list[str]:
        """The ids of all facts, in the order they came: the ids themselves are random."""
        scopes = ({"user_id": "u"}, {"agent_id": "a"})
        return [
            fact.id
            for scope in scopes
            for fact in self.memory.get_all(**scope, past=True, order="oldest", limit=1000)  # type: ignore[arg-type]
        ]

    def pick(self, number: int) -> str | None:
        ids = self.ids()
        return ids[number % len(ids)] if ids else None

    @rule(text=SENTENCES, scope=SCOPES, extract=st.sampled_from(["now", "later", "never"]))
    def add(self, text: str, scope: dict[str, str], extract: Any) -> None:
        self.memory.add([text, TEXTS[0]], extract=extract, **scope)  # type: ignore[arg-type]

    @rule(texts=st.lists(SENTENCES, min_size=1, max_size=3), scope=SCOPES, expired=st.booleans())
    def remember(self, texts: list[str], scope: dict[str, str], expired: bool) -> None:
        self.memory.remember(texts, expires_at="2001-01-01" if expired else None, **scope)  # type: ignore[arg-type]

    @rule(text=SENTENCES, scope=SCOPES, number=st.integers(0, 99), old=st.booleans())
    def replace(self, text: str, scope: dict[str, str], number: int, old: bool) -> None:
        id_ = self.pick(number)
        if id_ is not None:
            whose = self.memory.get(id_).scope.given()
            self.memory.remember({"text": text, "replaces": id_}, observed_at="2001-01-01" if old else None, **whose)

    @rule(text=SENTENCES, number=st.integers(0, 99))
    def update(self, text: str, number: int) -> None:
        id_ = self.pick(number)
        if id_ is not None:
            with contextlib.suppress(InvalidInputError):  # another fact says so
                self.memory.update(id_, text=text, metadata={"n": number})

    @rule(number=st.integers(0, 99), keep=st.booleans())
    def delete(self, number: int, keep: bool) -> None:
        id_ = self.pick(number)
        if id_ is not None:
            self.memory.delete(id_, keep_messages=keep)

    @rule(text=SENTENCES)
    def delete_a_message(self, text: str) -> None:
        for hit in self.memory.search(text, user_id="u", include="messages", limit=1):
            self.memory.delete(hit.id)

    @rule(scope=SCOPES)
    def delete_all(self, scope: dict[str, str]) -> None:
        self.memory.delete_all(**scope)

    @rule()
    def work(self) -> None:
        self.memory.work()

    @rule(vectors=st.booleans())
    def reopen(self, vectors: bool) -> None:
        self.memory.close()
        self.memory = Memory(self.path, embedder=Letters() if vectors else False, extractor=Constant())

    @invariant()
    def the_file_agrees_with_itself(self) -> None:
        db = apsw.Connection(str(self.path))
        for table in ("fact_words", "message_words"):
            db.execute(f"INSERT INTO {table}({table}, rank) VALUES ('integrity-check', 1)")
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        orphans = "SELECT name FROM entities WHERE id NOT IN (SELECT entity_id FROM mentions)"
        assert db.execute(orphans).fetchall() == []
        twins = "SELECT hash FROM facts WHERE live = 1 GROUP BY scope_id, hash HAVING count(*) > 1"
        assert db.execute(twins).fetchall() == []
        if db.execute("SELECT count(*) FROM embedder").get:
            for kind, table in (("fact", "facts"), ("message", "messages"), ("entity", "entities")):
                flagged = db.execute(f"SELECT id FROM {table} WHERE embedded = 1 ORDER BY id").fetchall()
                vectors = db.execute(f"SELECT id FROM {kind}_vectors ORDER BY id").fetchall()
                assert flagged == vectors
            apart = "SELECT f.id FROM facts f JOIN fact_vectors v ON v.id = f.id WHERE f.scope_id <> v.scope_id"
            assert db.execute(apart).fetchall() == []
        db.close()


Lifetime.TestCase.settings = settings(
    max_examples=40, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
test_whatever_is_done_the_file_agrees_with_itself = Lifetime.TestCase


def test_the_words_of_every_deleted_row_are_gone_from_the_index(path: Path) -> None:
    with open_memory(path) as memory:
        add(memory)
        memory.delete_all(user_id="u")
    db = sqlite3.connect(path)
    assert db.execute("SELECT count(*) FROM facts").fetchone() == (0,)
    assert db.execute("SELECT count(*) FROM messages").fetchone() == (0,)
    db.close()


def test_two_memories_of_one_file_in_two_threads_do_not_stop_each_other(path: Path) -> None:
    def write(name: str) -> int:
        with Memory(path, embedder=False, extractor=False) as memory:
            return sum(len(memory.remember(f"{name} likes number {n}.", user_id="u").facts) for n in range(150))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(write, ("Ana", "Ben", "Cid", "Dan"))) == [150] * 4


def test_a_new_file_waits_for_another_that_switches_it_to_wal(path: Path) -> None:
    Memory(path, embedder=False, extractor=False).close()
    other = apsw.Connection(str(path))  # the library of memlite: locks of one process are not seen by another library
    other.execute("PRAGMA journal_mode = DELETE")  # as it is for a moment after its tables were made
    other.execute("BEGIN IMMEDIATE")
    freeing = threading.Timer(0.3, other.execute, ("ROLLBACK",))
    freeing.start()
    with Memory(path, embedder=False, extractor=False) as memory:
        assert memory.remember("Ana likes tea.", user_id="u").facts
    freeing.join()
    other.close()
