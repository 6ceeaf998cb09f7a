"""`memlite bench extraction`: every system by its own name and in its own process, and what cannot run is an error."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from memlite import models as model_files
from memlite.bench import extraction as bench
from memlite.bench.apart import Apart
from memlite.cli import main
from memlite.errors import ExtractionError, ModelError
from memlite.records import ExtractedFact, Extraction, ExtractionRequest

DEFAULT = model_files.DEFAULTS["extractor"].file


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    said = {"role": "user", "name": "Ann", "text": "I moved to Ghent.", "at": "2025-05-12T12:00:00+00:00"}
    fact = {"text": "Ann moved to Ghent.", "from": [1], "replaces": [], "continues": [], "entities": []}
    case = {"messages": [said], "window": [], "known": [], "facts": [fact]}
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps(case) + "\n" + json.dumps(case), encoding="utf-8")
    return path


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["bench", "extraction", *map(str, words)])


class Fake:
    """Holds so many megabytes, and answers or does not."""

    name = "fake"
    prompt_version = "1"

    def __init__(self, megabytes: int, reason: str = "") -> None:
        self.held = b"x" * (megabytes * 10**6)
        self.reason = reason

    def extract(self, request: ExtractionRequest) -> Extraction:
        if self.reason:
            raise ExtractionError(self.reason)
        return Extraction((ExtractedFact("Ann moved to Ghent.", "Ann", (1,)),))


def ends() -> Fake:
    os._exit(9)


def cannot(reason: str) -> Fake:
    raise ModelError(reason)


@pytest.mark.parametrize("content", [b"not a model", b"GGUF and then nothing"], ids=["text", "broken"])
def test_a_file_that_is_no_model_is_an_error_before_anything_is_measured(
    cases: Path, tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "Meaning", None)
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(content)
    result = run(cases, "--gguf", wrong, "--json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert str(wrong) in result.stderr


def test_a_model_of_the_same_file_name_does_not_take_the_place_of_the_installed_one(
    cases: Path, tmp_path: Path, models: Path
) -> None:
    other = tmp_path / DEFAULT
    try:
        os.link(models / "extractor" / DEFAULT, other)
    except OSError:
        shutil.copyfile(models / "extractor" / DEFAULT, other)
    result = run(cases, "--limit", "1", "--gguf", other, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert set(found["systems"]) == {str(other), "copy first person", "copy every sentence"}
    for each in (found, found["systems"][str(other)]):
        assert (each["recall"], each["valid"], each["failures"]) == (1.0, 1.0, {})
        assert each["memory_mb"] > 100


def test_the_memory_of_a_system_is_its_own(cases: Path) -> None:
    systems: dict[str, Callable[[], Fake]] = {"large": partial(Fake, 400), "small": partial(Fake, 0)}
    found = bench.extraction(cases, systems)
    assert found["large"]["memory_mb"] - found["small"]["memory_mb"] > 300
    assert (found["small"]["recall"], found["copy first person"]["memory_mb"]) == (1.0, None)


def test_why_there_was_no_usable_answer_is_told(cases: Path) -> None:
    found = bench.extraction(cases, {"mute": partial(Fake, 0, "it says nothing")})
    assert (found["mute"]["valid"], found["mute"]["failures"]) == (0.0, {"it says nothing": 2})


@pytest.mark.parametrize(("how", "said"), [(partial(cannot, "no such thing"), "no such thing"), (ends, "bad")])
def test_a_system_that_cannot_be_opened_is_an_error(cases: Path, how: Callable[[], Fake], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        bench.extraction(cases, {"good": partial(Fake, 0), "bad": how})


def stops(extractor: object) -> None:
    os._exit(9)


def test_a_process_that_ends_is_an_error_at_once_and_later(cases: Path) -> None:
    with Apart("brief", partial(Fake, 0)) as apart:
        for _ in range(2):
            with pytest.raises(ModelError, match="brief: its process ended"):
                apart.ask(stops)
