"""What an attacker tried: odd settings, foreign code that fails, dates at the ends of the calendar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from memlite import (
    Extraction,
    ExtractionRequest,
    InvalidInputError,
    Memory,
    ModelError,
    NotFoundError,
)


class Foreign:
    """Somebody's extractor: fails for one user's talk, learns nothing from the others'."""

    name = "foreign"
    prompt_version = "1"

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer = answer

    def extract(self, request: ExtractionRequest) -> Extraction:
        if "trouble" in request.messages[0].text:
            return self.answer()  # type: ignore[no-any-return]
        return Extraction(())


def fail() -> Any:
    raise ValueError("out of luck")


@pytest.mark.parametrize("answer", [fail, lambda: None, lambda: ["a fact"]], ids=["raises", "none", "list"])
def test_a_foreign_extractor_that_fails_leaves_the_batch_queued_and_the_queue_running(
    path: Path, answer: Callable[[], Any]
) -> None:
    with Memory(path, embedder=False, extractor=Foreign(answer)) as memory:
        added = memory.add("some trouble", user_id="ana")
        assert (added.status, "foreign" in (added.reason or "")) == ("queued", True)
        memory.add("all is well", user_id="ben", extract="later")
        worked = memory.work()
        assert (worked.batches, worked.queued, len(worked.failures)) == (1, 1, 1)


def test_a_foreign_embedder_that_fails_is_a_model_error_and_loses_no_message(path: Path) -> None:
    class Broken:
        name = "broken"
        dimension = 3

        def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
            raise OSError("no connection")

    with Memory(path, embedder=Broken(), extractor=False) as memory:
        added = memory.add("I like tea.", user_id="ana", extract="never")
        assert (added.status, "no connection" in added.notes[0]) == ("stored", True)
        with pytest.raises(ModelError, match="broken failed with OSError"):
            memory.search("tea", user_id="ana")


@pytest.mark.parametrize(
    ("when", "zone"),
    [("0001-01-01", "Europe/Paris"), ("9999-12-31T23:59:59-14:00", "UTC")],
    ids=["before-the-first-day-in-utc", "after-the-last-one"],
)
def test_an_instant_outside_the_calendar_in_utc_is_refused(when: str, zone: str) -> None:
    with Memory(":memory:", timezone=zone, embedder=False, extractor=False) as memory:
        with pytest.raises(InvalidInputError, match="observed_at"):
            memory.add("hi Rome", user_id="u", observed_at=when)
        assert memory.stats().messages == 0


@pytest.mark.parametrize("when", ["0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59+00:00"])
def test_the_ends_of_the_calendar_can_be_stored_and_read(when: str) -> None:
    with Memory(":memory:", embedder=False, extractor=False) as memory:
        memory.add("hi Rome", user_id="u", observed_at=when, extract="never")
        assert memory.search("Rome", user_id="u")[0].record.observed_at.isoformat() == when


@pytest.mark.parametrize(
    "settings",
    [{"n_threads": n} for n in (0, 10**30, 1.5, "2", True)]
    + [{"lease_seconds": s} for s in (0, -1, float("nan"), float("inf"), None, "x")],
    ids=str,
)
def test_a_setting_that_cannot_be_used_is_refused_before_the_file_is_made(path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(settings))):
        Memory(path, **settings)
    assert not path.exists()


def test_a_zero_width_character_inside_a_name_loses_no_fact(path: Path) -> None:
    with Memory(path, embedder=False) as memory:
        (fact,) = memory.add("I moved to Po\u200brto with Bruno in May.", user_id="ana").facts
    assert "Porto with Bruno" in fact.text


def test_odd_arguments_are_errors_that_say_so(memory: Memory) -> None:
    for call in (
        lambda: memory.get("\ud800" * 8),
        lambda: memory.search("x", user_id="u", include=[[]]),  # type: ignore[list-item]
        lambda: memory.search("x", user_id="u", filters={f"a{i}": i for i in range(40_000)}),
    ):
        with pytest.raises(InvalidInputError):
            call()


def test_a_handle_counts_its_own_rows_and_does_not_touch_the_whole_file(memory: Memory) -> None:
    memory.remember(["Ana likes tea.", "Ana likes jam."], user_id="ana")
    memory.remember("Ben likes tea.", user_id="ben")
    handle = memory.scope(user_id="ben")
    assert handle.stats().without_vector == 2  # the fact, and Ben
    for whole in (handle.compact, handle.reembed):
        with pytest.raises(InvalidInputError, match="whole file"):
            whole()
    with pytest.raises(NotFoundError):
        handle.get(memory.get_all(user_id="ana")[0].id)
