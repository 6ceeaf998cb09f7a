"""The worker behind a server: it learns what is queued, says when it cannot, and stops between two batches."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memlite import Extraction, ExtractionError, ExtractionRequest, Memory, worker
from memlite.worker import Worker


class Failing:
    """An extractor that counts and fails."""

    name = "failing"
    prompt_version = "1"

    def __init__(self) -> None:
        self.calls = 0

    def extract(self, request: ExtractionRequest) -> Extraction:
        self.calls += 1
        raise ExtractionError("the model said nothing")


class Slow:
    """An extractor that says when it has begun and waits until it may end."""

    name = "slow"
    prompt_version = "1"

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()

    def extract(self, request: ExtractionRequest) -> Extraction:
        self.begun.set()
        assert self.may_end.wait(60)
        return Extraction(())


@contextmanager
def working(memory: Memory) -> Iterator[Worker]:
    made = Worker(memory)
    made.start()
    yield made
    assert made.stop(60)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_is_queued_is_learnt_when_it_is_woken(learning: Memory) -> None:
    with working(learning) as made:
        learning.add("Ana plays the violin.", user_id="ana", extract="later")
        made.wake()
        until(lambda: len(learning.get_all(user_id="ana")) == 1)
    assert not made.failed


def test_what_another_process_has_queued_is_found_without_a_wake(
    learning: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_EVERY", 0.01)
    with working(learning):
        learning.add("Ana plays the violin.", user_id="ana", extract="later")
        until(lambda: len(learning.get_all(user_id="ana")) == 1)


def test_a_handle_works_for_its_own_scope(learning: Memory) -> None:
    learning.add("Ana plays the violin.", user_id="ana", extract="later")
    learning.add("Bob plays the piano.", user_id="bob", extract="later")
    with working(learning.scope(user_id="ana")) as made:
        made.wake()
        until(lambda: len(learning.get_all(user_id="ana")) == 1)
    assert not learning.get_all(user_id="bob")


def test_a_batch_that_failed_is_told_and_tried_again_only_with_something_new(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    extractor = Failing()
    with Memory(path, embedder=False, extractor=extractor) as memory, caplog.at_level(logging.WARNING):
        memory.add("Ana plays the violin.", user_id="ana", extract="later")
        with working(memory) as made:
            made.wake()
            until(lambda: made.failed)
            monkeypatch.setattr(worker, "_EVERY", 0.001)
            made.wake()
            time.sleep(0.2)  # many rounds
            assert extractor.calls == 1
            memory.add("Ana likes tea.", user_id="ana", extract="later")
            until(lambda: extractor.calls == 3)
    assert "the model said nothing" in caplog.text


def test_a_stop_waits_for_the_batch_in_hand_and_takes_no_other(path: Path) -> None:
    extractor = Slow()
    with Memory(path, embedder=False, extractor=extractor) as memory:
        for text in ("Ana plays the violin.", "Ana likes tea."):
            memory.add(text, user_id="ana", extract="later")
        made = Worker(memory)
        made.start()
        made.wake()
        assert extractor.begun.wait(60)
        assert not made.stop(0.01)
        extractor.may_end.set()
        assert made.stop(60)
        assert len(memory.stats().queued) == 1


def test_an_error_that_nobody_expected_is_logged_and_the_worker_goes_on(
    learning: Memory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise RuntimeError("no such luck")

    learning.add("Ana plays the violin.", user_id="ana", extract="later")
    with working(learning) as made:
        with monkeypatch.context() as patch:
            patch.setattr(learning, "stats", broken)
            made.wake()
            until(lambda: made.failed)
        made.wake()
        until(lambda: not made.failed)
    assert "no such luck" in caplog.text
    assert len(learning.get_all(user_id="ana")) == 1
