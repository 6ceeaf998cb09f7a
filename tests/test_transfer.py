"""`memlite export` and `memlite import` on the command line."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memlite import Memory, cli

Run = Callable[..., Result]


@pytest.fixture
def run(path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`memlite WORDS...` in this process, on a file of its own and without models; the exit code is checked."""
    for name, value in (("DB", str(path)), ("EMBEDDER", "off"), ("EXTRACTOR", "off")):
        monkeypatch.setenv(f"MEMLITE_{name}", value)

    def run_(*words: object, code: int = 0) -> Result:
        result = CliRunner().invoke(cli.main, [str(word) for word in words])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code == code, result.output
        return result

    return run_


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """A conversation of Claude, with one message that is broken."""
    messages: list[Any] = [
        {"uuid": "a", "sender": "human", "text": "I sing.", "created_at": "2024-01-20T15:30:00Z"},
        {"uuid": "b", "sender": "dog", "text": "Woof"},
    ]
    place = tmp_path / "conversations.json"
    place.write_text(json.dumps([{"uuid": "c1", "name": "Talk", "chat_messages": messages}]), encoding="utf-8")
    return place


def test_what_was_guessed_added_and_left_out_is_told(run: Run, talk: Path) -> None:
    result = run("import", talk)
    assert result.stdout.splitlines() == [
        "added: 1 message, 1 conversation",
        "left out: 1 x its sender is …, expected human or assistant",
        "1 batch waits to be learnt from: `memlite work` (--limit), some 1 min with the default extractor",
    ]
    assert result.stderr.splitlines() == [
        "claude: its conversations have chat_messages",
        "skipped: conversation 1 (Talk), message b: its sender is 'dog', expected human or assistant",
    ]
    assert "there already: 1 message, 1 conversation" in run("import", "claude", talk).stdout
    assert "I sing." in run("search", "sing", "--run", "c1").stdout


def test_json_has_the_librarys_keys(run: Run, talk: Path) -> None:
    found = json.loads(run("import", talk, "--user", "bob", "--extract", "never", "--json").stdout)
    assert found["source"] == "claude"
    assert found["guessed"] == "its conversations have chat_messages"
    assert found["added"] == {"messages": 1, "conversations": 1}
    assert (found["queued"], found["left_out"][0]["place"]) == (0, "conversation 1 (Talk), message b")


def test_broken_characters_in_what_is_told_do_no_harm(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "conversations.json"
    place.write_text(
        '[{"title": "Half \\ud83d\\u001b[31m", "mapping": {"\\ud83d": 5}, "id": "\\ud83d"}]', encoding="utf-8"
    )
    result = run("import", place, code=1)
    assert "Half \ufffd" in result.stderr
    assert "\x1b" not in result.stderr


def test_a_dry_run_makes_no_file(run: Run, talk: Path, path: Path) -> None:
    assert "would add: 1 message, 1 conversation" in run("import", talk, "--dry-run").stdout
    assert not path.exists()


def test_an_import_of_which_nothing_could_be_used_ends_with_1(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "conversations.json"
    place.write_text('[{"title": "Empty"}]', encoding="utf-8")
    run("import", "chatgpt", place, code=1)


@pytest.mark.parametrize(
    "words",
    [["import"], ["import", "a", "b", "c"], ["import", "nowhere.json"], ["import", "gmail", "nowhere.json"]],
    ids=str,
)
def test_what_is_asked_wrongly_ends_with_2(run: Run, words: list[str]) -> None:
    run(*words, code=2)


def test_an_export_is_brought_in_by_another_file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("remember", "Ana sings.", "--user", "ana")
    shown = run("export", tmp_path / "a.jsonl")
    assert shown.stdout.endswith("a.jsonl: 1 batch, 1 entity, 1 fact, 1 event\n")
    assert stat.S_IMODE((tmp_path / "a.jsonl").stat().st_mode) == 0o600
    monkeypatch.setenv("MEMLITE_USER", "somebody")  # an export says itself whose memory it is
    other = ("--db", tmp_path / "b.db")
    assert "added: 1 batch, 1 entity, 1 fact, 1 event" in run("import", tmp_path / "a.jsonl", *other).stdout
    assert "Ana sings." in run("list", "--user", "ana", *other).stdout
    run("import", tmp_path / "a.jsonl", "--user", "bob", *other, code=2)


def test_an_export_goes_to_stdout(run: Run, path: Path) -> None:
    run("remember", "Ana sings.")
    result = run("export", "-", "--format", "markdown")
    assert "- Ana sings." in result.stdout
    assert result.stderr == "1 fact\n"
    shown = subprocess.run(
        f"{sys.executable} -m memlite export - | head -c 20",
        shell=True,
        capture_output=True,
        check=False,
        env=os.environ,
    )
    assert (shown.stdout, shown.stderr.count(b"Traceback")) == (b'{"memlite":"export",', 0)


def test_an_export_of_a_file_that_is_not_there_is_refused(run: Run, tmp_path: Path, path: Path) -> None:
    run("export", tmp_path / "a.jsonl", code=1)
    assert not path.exists()
    with Memory(path, embedder=False, extractor=False):
        run("export", path, code=2)
    run("export", tmp_path / "a.md", "--format", "markdown", "--vectors", code=2)
