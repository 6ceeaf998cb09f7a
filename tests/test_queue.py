"""The queue: what waits, who works on it, and what becomes of a claim."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from memlite import ExtractedFact, Extraction, ExtractionError, ExtractionRequest, Memory


class Echo:
    """An extractor whose facts are the messages themselves; it may fail on some and wait in others."""

    name = "echo"
    prompt_version = "1"

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.unusable: set[str] = set()
        self.started, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    def extract(self, request: ExtractionRequest) -> Extraction:
        texts = [turn.text for turn in request.messages]
        self.seen += texts
        self.started.set()
        assert self.go_on.wait(30)
        if self.unusable & set(texts):
            raise ExtractionError(f"cannot read {texts}")
        return Extraction(tuple(ExtractedFact(turn.text, turn.speaker, (turn.number,)) for turn in request.messages))


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def memory(path: Path, echo: Echo) -> Iterator[Memory]:
    with Memory(path, embedder=False, extractor=echo) as opened:
        yield opened


def take_over(memory: Memory, worker: str) -> None:
    """Another worker takes every claimed batch, as it may once a lease has run out."""
    db = apsw.Connection(str(memory.path))
    db.set_busy_timeout(5000)
    db.execute("UPDATE batches SET worker = ? WHERE worker IS NOT NULL", (worker,))
    db.close()


def claims(memory: Memory) -> list[str]:
    db = apsw.Connection(str(memory.path))
    found = [worker for (worker,) in db.execute("SELECT worker FROM batches WHERE worker IS NOT NULL")]
    db.close()
    return found


def test_work_extracts_what_waits_the_oldest_first(memory: Memory, echo: Echo) -> None:
    for n in range(6):
        memory.add(f"Message number {n}.", user_id=f"u{n % 2}", extract="later")
    result = memory.work()
    assert (result.batches, result.facts, result.queued, result.failures) == (6, 6, 0, ())
    assert echo.seen == [f"Message number {n}." for n in range(6)]


def test_work_with_nothing_to_do_does_nothing(memory: Memory, echo: Echo) -> None:
    assert (memory.work().batches, echo.seen) == (0, [])


def test_work_stops_at_its_limit(memory: Memory, echo: Echo) -> None:
    for n in range(5):
        memory.add(f"Message number {n}.", user_id="u", extract="later")
    result = memory.work(limit=2)
    assert (result.batches, result.queued, len(echo.seen)) == (2, 3, 2)


def test_work_reports_its_progress(memory: Memory) -> None:
    memory.add("Ana likes tea.", user_id="u", extract="later")
    lines: list[str] = []
    memory.work(progress=lines.append)
    assert len(lines) == 1
    assert "1 fact" in lines[0]


def test_one_failing_batch_does_not_hold_up_the_others(memory: Memory, echo: Echo) -> None:
    echo.unusable = {"Message number 1."}
    for n in range(3):
        memory.add(f"Message number {n}.", user_id="u", extract="later")
    result = memory.work()
    assert (result.batches, result.queued, len(result.failures)) == (2, 1, 1)
    assert echo.seen.count("Message number 1.") == 1
    assert claims(memory) == []


def test_a_failing_batch_counts_its_attempts(memory: Memory, echo: Echo) -> None:
    echo.unusable = {"Ana likes tea."}
    memory.add("Ana likes tea.", user_id="u")
    memory.work()
    memory.work()
    (queued,) = memory.stats().queued
    assert queued.attempts == 3
    assert "cannot read" in queued.error


def test_work_without_an_extractor_says_what_turns_it_on(path: Path) -> None:
    with Memory(path, embedder=False, extractor=False) as memory:
        memory.add("Ana likes tea.", user_id="u", extract="later")
        result = memory.work()
        assert (result.batches, result.queued) == (0, 1)
        assert any("memlite work" in note for note in result.notes)


def test_a_worker_that_lost_its_claim_stores_nothing(memory: Memory, echo: Echo) -> None:
    memory.add("Ana likes tea.", user_id="u", extract="later")
    echo.go_on.clear()
    worker = threading.Thread(target=memory.work)
    worker.start()
    assert echo.started.wait(30)
    take_over(memory, "another-host/1/1/x")
    echo.go_on.set()
    worker.join()
    assert memory.stats().facts == 0
    assert claims(memory) == ["another-host/1/1/x"]


def test_work_goes_on_after_a_lost_claim(memory: Memory, echo: Echo) -> None:
    class Stolen(Echo):
        def extract(self, request: ExtractionRequest) -> Extraction:
            if not self.seen:
                take_over(memory, "another-host/1/1/x")
            return super().extract(request)

    with Memory(memory.path, embedder=False, extractor=Stolen()) as thief:
        memory.add("Ana likes tea.", user_id="u", extract="later")
        memory.add("Ben likes coffee.", user_id="v", extract="later")
        result = thief.work()
        assert (result.batches, result.queued) == (1, 1)
        assert [fact.text for fact in memory.get_all(user_id="v")] == ["Ben likes coffee."]


def test_an_add_whose_claim_another_worker_took_returns_that_workers_facts(path: Path) -> None:
    class Slow(Echo):
        def extract(self, request: ExtractionRequest) -> Extraction:
            if not self.seen:
                self.seen.append("once")
                # The lease is over: another worker extracts and stores while this one still runs.
                db = apsw.Connection(str(path))
                db.execute("UPDATE batches SET lease_until = 0")
                db.close()
                with Memory(path, embedder=False, extractor=Echo()) as other:
                    assert other.work().facts == 1
            return super().extract(request)

    with Memory(path, embedder=False, extractor=Slow()) as memory:
        result = memory.add("Ana likes tea.", user_id="u")
        assert (result.status, [fact.text for fact in result.facts]) == ("done", ["Ana likes tea."])
        assert memory.stats().facts == 1


def test_a_lease_that_ran_out_is_taken_over(memory: Memory, echo: Echo) -> None:
    memory.add("Ana likes tea.", user_id="u", extract="later")
    db = apsw.Connection(str(memory.path))
    db.execute("UPDATE batches SET worker = 'another-host/1/1/x', lease_until = 1")
    db.close()
    assert memory.work().facts == 1


def test_a_lease_that_holds_is_respected(memory: Memory, echo: Echo) -> None:
    memory.add("Ana likes tea.", user_id="u", extract="later")
    memory.add("Ben likes coffee.", user_id="u", extract="later")
    db = apsw.Connection(str(memory.path))
    db.execute(
        """UPDATE batches SET worker = 'another-host/1/1/x', lease_until = 9999999999999
           WHERE id = (SELECT min(id) FROM batches)"""
    )
    db.close()
    result = memory.work()
    assert (result.batches, result.queued, echo.seen) == (0, 2, [])


def test_one_batch_of_a_scope_is_in_flight_others_go_on(memory: Memory, echo: Echo) -> None:
    memory.add("First of u.", user_id="u", extract="later")
    memory.add("Second of u.", user_id="u", extract="later")
    memory.add("First of v.", user_id="v", extract="later")
    echo.go_on.clear()
    worker = threading.Thread(target=memory.work)
    worker.start()
    assert echo.started.wait(30)
    other = Echo()
    with Memory(memory.path, embedder=False, extractor=other) as second:
        second.work()
    assert other.seen == ["First of v."]
    echo.go_on.set()
    worker.join()
    assert memory.stats().facts == 3


def test_no_transaction_is_open_while_the_model_runs(memory: Memory, echo: Echo) -> None:
    echo.go_on.clear()
    adding = threading.Thread(target=memory.add, args=("Ana likes tea.",), kwargs={"user_id": "u"})
    adding.start()
    assert echo.started.wait(30)
    db = apsw.Connection(str(memory.path))  # no busy timeout: a lock would be an error at once
    db.execute("BEGIN EXCLUSIVE; UPDATE scopes SET user_id = user_id; COMMIT")
    db.close()
    assert memory.search("tea", user_id="u")[0].text == "Ana likes tea."
    echo.go_on.set()
    adding.join()
    assert memory.stats().facts == 1


def test_a_claim_is_released_when_the_model_is_interrupted(memory: Memory, echo: Echo) -> None:
    class Interrupted(Echo):
        def extract(self, request: ExtractionRequest) -> Extraction:
            raise KeyboardInterrupt

    memory.add("Ana likes tea.", user_id="u", extract="later")
    with Memory(memory.path, embedder=False, extractor=Interrupted()) as other:
        with pytest.raises(KeyboardInterrupt):
            other.work()
    assert claims(memory) == []
    assert memory.work().facts == 1
