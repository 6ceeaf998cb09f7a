"""The command line: what each command prints for people and for programs, and how it says no."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import apsw
import click
import pytest
from click.testing import CliRunner, Result

from memlite import ExtractedFact, Extraction, ExtractionError, ExtractionRequest, Memory, NamedEntity, cli, downloads
from memlite import models as model_files

Run = Callable[..., Result]
CLI = [sys.executable, "-m", "memlite"]
UNKNOWN = "deadbeef" * 4
FACT_KEYS = {"id", "user_id", "agent_id", "run_id", "text", "by", "entities", "metadata", "kind", "sources", "current"}


@pytest.fixture
def run(path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`memlite WORDS...` in this process, on a file of its own and without models; the exit code is checked."""
    monkeypatch.setenv("MEMLITE_DB", str(path))
    monkeypatch.setenv("MEMLITE_EMBEDDER", "off")
    monkeypatch.setenv("MEMLITE_EXTRACTOR", "off")

    def run_(*words: object, code: int = 0, stdin: str | bytes = "") -> Result:
        result = CliRunner().invoke(cli.main, [str(word) for word in words], input=stdin)
        if result.exception and not isinstance(result.exception, SystemExit):
            traceback.print_exception(result.exception)
        assert result.exception is None or isinstance(result.exception, SystemExit), "a traceback reached the person"
        assert result.exit_code == code, result.output
        return result

    return run_


def value(result: Result) -> Any:
    """The one JSON value on stdout."""
    return json.loads(result.stdout)


def lines(result: Result) -> list[Any]:
    """The JSON objects on stdout, one a line."""
    return [json.loads(line) for line in result.stdout.splitlines()]


def remembered(run: Run, /, *texts: str, **options: str) -> list[str]:
    """Store facts; return their ids."""
    given = [word for name, text in options.items() for word in (f"--{name}", text)]
    return [fact["id"] for fact in value(run("remember", *texts, *given, "--json"))["facts"]]


def said(run: Run, text: str, *options: str) -> str:
    """Store one message that nothing is learnt from; return its id."""
    return value(run("add", text, "--extract", "never", "--json", *options))["messages"][0]


def texts(result: Result) -> list[str]:
    found = value(result)
    return [fact["text"] for fact in (found["facts"] if isinstance(found, dict) else found)]


def process(*words: object, stdin: str | bytes = b"", env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    """`memlite WORDS...` as a process of its own."""
    return subprocess.run(
        [*CLI, *map(str, words)],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        env={**os.environ, **(env or {})},
        timeout=120,
        check=False,
    )


class Echo:
    """An extractor whose facts are the messages themselves, and one that it made up."""

    name = "echo"
    prompt_version = "1"

    def extract(self, request: ExtractionRequest) -> Extraction:
        told = [
            ExtractedFact(
                turn.text, turn.speaker, (turn.number,), entities=(NamedEntity("Osteria Lume", "organisation"),)
            )
            for turn in request.messages
        ]
        return Extraction((*told, ExtractedFact("Bruno flew to Tokyo with 7 llamas.", "User", (1,))))


class Failing(Echo):
    """An extractor that never answers."""

    def extract(self, request: ExtractionRequest) -> Extraction:
        raise ExtractionError("the model said nothing usable")


@pytest.fixture
def extractor(run: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    """Makes the commands find this extractor."""

    def use(found: object) -> None:
        monkeypatch.delenv("MEMLITE_EXTRACTOR", raising=False)
        monkeypatch.setattr("memlite.extract.open_extractor", lambda *_, **__: found)

    return use


@pytest.fixture
def same_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """All ids made from now on begin with "abcd"."""
    numbers = itertools.count(1)
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(hex=f"abcd{next(numbers):04x}{'0' * 24}"))


# Every command.


def commands(group: click.Group = cli.main, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group below `memlite`, by the words that call it."""
    yield before, group
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*before, name))
        else:
            yield (*before, name), command


EVERY = [pytest.param(words, command, id=" ".join(("memlite", *words))) for words, command in commands()]
SERVERS = ("mcp", "serve")  # which answer a program, not the person who calls them
LEAVES = [case for case in EVERY if case.values[0] and case.values[0][0] not in ("models", "bench")]


def example(run: Run, words: tuple[str, ...]) -> str:
    """The last line of a command's help."""
    return [line for line in run(*words, "--help").stdout.splitlines() if line.strip()][-1].strip()


@pytest.mark.parametrize(("words", "command"), EVERY)
def test_every_help_ends_with_a_line_that_parses(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], command: click.Command
) -> None:
    program, *arguments = shlex.split(example(run, words))
    assert program == "memlite"
    called: list[tuple[str, ...]] = []
    for path, leaf in commands():
        if path:
            monkeypatch.setattr(leaf, "callback", lambda path=path, **_: called.append(path))
    run(*arguments)
    assert called
    assert called[-1][: len(words)] == words


@pytest.mark.parametrize(
    "words",
    [("add",), ("remember",), ("search",), ("list",), ("entities",), ("work",), ("stats",), ("models",), ("doctor",)],
    ids=lambda words: words[0],
)
def test_a_helps_last_line_can_be_pasted_and_works(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...]
) -> None:
    remembered(run, "Clara is allergic to walnuts.", user="ana")
    monkeypatch.setenv("MEMLITE_MODELS", str(tmp_path / "models"))
    run(*shlex.split(example(run, words))[1:])


@pytest.mark.parametrize(("words", "command"), LEAVES)
def test_every_command_takes_the_file_and_both_forms_of_output(
    run: Run, words: tuple[str, ...], command: click.Command
) -> None:
    options = {option for parameter in command.params for option in parameter.opts}
    assert "--db" in options
    assert words[0] in SERVERS or {"--json", "--nl"} <= options
    assert run(*words, "-h").stdout == run(*words, "--help").stdout


@pytest.mark.parametrize(("words", "command"), EVERY)
def test_every_option_says_what_it_does(words: tuple[str, ...], command: click.Command) -> None:
    silent = [
        parameter.name
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.help and not isinstance(parameter.type, click.Choice)
    ]
    assert silent == []


def test_the_version_is_printed(run: Run) -> None:
    import memlite

    assert memlite.__version__ in run("--version").stdout


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["ad", "hi"], id="unknown-command"),
        pytest.param(["add"], id="no-text"),
        pytest.param(["add", "one", "two"], id="two-texts"),
        pytest.param(["add", "text", "--file", "chat.json"], id="text-and-file"),
        pytest.param(["add", ""], id="empty-text"),
        pytest.param(["add", " \t "], id="blank-text"),
        pytest.param(["add", "hi", "--role", "alien"], id="unknown-role"),
        pytest.param(["add", "hi", "--extract", "soon"], id="unknown-extract"),
        pytest.param(["add", "hi", "--at", "yesterday"], id="bad-time"),
        pytest.param(["add", "hi", "--at", "2025-13-45"], id="impossible-day"),
        pytest.param(["add", "hi", "--expires", "soon"], id="bad-expiry"),
        pytest.param(["add", "hi", "--metadata", "{city"], id="metadata-not-json"),
        pytest.param(["add", "hi", "--metadata", "[1]"], id="metadata-not-an-object"),
        pytest.param(["add", "hi", "--user", ""], id="empty-user"),
        pytest.param(["remember"], id="no-facts"),
        pytest.param(["remember", ""], id="empty-fact"),
        pytest.param(["remember", "a", "b", "--replaces", UNKNOWN], id="two-facts-replace-one"),
        pytest.param(["search"], id="no-query"),
        pytest.param(["search", "tea", "--limit", "0"], id="limit-0"),
        pytest.param(["search", "tea", "--limit", "-1"], id="limit-negative"),
        pytest.param(["search", "tea", "--limit", "many"], id="limit-not-a-number"),
        pytest.param(["search", "tea", "--filter", "{city"], id="filter-not-json"),
        pytest.param(["search", "tea", "--filter", "[]"], id="filter-not-an-object"),
        pytest.param(["search", "tea", "--filter", '{"city": {"like": "P%"}}'], id="filter-unknown-operator"),
        pytest.param(["search", "tea", "--include", "dreams"], id="include-unknown"),
        pytest.param(["list", "--limit", "0"], id="list-limit-0"),
        pytest.param(["list", "--cursor", "next"], id="cursor-not-from-a-page"),
        pytest.param(["list", "--order", "random"], id="order-unknown"),
        pytest.param(["show"], id="show-nothing"),
        pytest.param(["show", "abc"], id="id-too-short"),
        pytest.param(["update", UNKNOWN], id="update-nothing"),
        pytest.param(["delete"], id="delete-nothing"),
        pytest.param(["delete", "--all"], id="delete-all-unconfirmed"),
        pytest.param(["delete", UNKNOWN, "--all", "--yes"], id="delete-id-and-all"),
        pytest.param(["models", "pull", "nosuch"], id="pull-unknown-name"),
        pytest.param(["models", "pull"], id="pull-nothing"),
        pytest.param(["list", "--json", "--nl"], id="json-and-nl"),
    ],
)
def test_what_is_asked_wrongly_is_answered_on_stderr_with_exit_code_2(run: Run, words: list[str]) -> None:
    remembered(run, "Ana likes tea.")
    result = run(*words, code=2)
    assert result.stdout == ""
    assert "Error: " in result.stderr or "Usage: " in result.stderr
    assert texts(run("list", "--json")) == ["Ana likes tea."]
    assert value(run("stats", "--json"))["messages"] == 0


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["add", "Bob likes rum."], id="add"),
        pytest.param(["remember", "Bob likes rum."], id="remember"),
        pytest.param(["update", "ID", "--text", "Bob likes rum."], id="update"),
        pytest.param(["delete", "ID"], id="delete"),
        pytest.param(["reset", "--yes"], id="reset"),
        pytest.param(["delete", "--all", "--yes"], id="delete-all"),
    ],
)
def test_json_and_nl_together_are_refused_before_anything_is_done(run: Run, words: list[str]) -> None:
    (fact,) = remembered(run, "Ana likes tea.")
    run(*(fact if word == "ID" else word for word in words), "--json", "--nl", code=2)
    assert texts(run("list", "--json")) == ["Ana likes tea."]
    assert value(run("stats", "--json"))["messages"] == 0


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["show", UNKNOWN], id="show"),
        pytest.param(["update", UNKNOWN, "--text", "Ana likes tea."], id="update"),
        pytest.param(["delete", UNKNOWN], id="delete"),
        pytest.param(["delete", UNKNOWN, "--dry-run"], id="delete-dry-run"),
        pytest.param(["history", UNKNOWN], id="history"),
        pytest.param(["archive", UNKNOWN], id="archive"),
        pytest.param(["restore", UNKNOWN], id="restore"),
        pytest.param(["undo", UNKNOWN], id="undo"),
        pytest.param(["remember", "Ana likes rum.", "--replaces", UNKNOWN], id="replaces"),
    ],
)
def test_an_id_that_is_not_there_is_exit_code_1_and_named(run: Run, words: list[str]) -> None:
    remembered(run, "Ana likes cake.")
    result = run(*words, code=1)
    assert result.stdout == ""
    assert UNKNOWN in result.stderr
    assert texts(run("list", "--json")) == ["Ana likes cake."]


# The file and the scope.


def test_the_file_of_the_option_goes_before_the_file_of_the_environment(run: Run, tmp_path: Path) -> None:
    remembered(run, "Ana likes tea.")
    run("--db", tmp_path / "second.db", "remember", "Bob likes rum.")
    run("remember", "--db", tmp_path / "third.db", "Carla likes gin.")
    assert texts(run("list", "--json")) == ["Ana likes tea."]
    assert texts(run("list", "--json", "--db", tmp_path / "second.db")) == ["Bob likes rum."]
    assert texts(run("--db", tmp_path / "second.db", "list", "--json", "--db", tmp_path / "third.db")) == [
        "Carla likes gin."
    ]


def test_without_option_and_environment_the_file_is_in_the_data_folder(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MEMLITE_DB")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    remembered(run, "Ana likes tea.")
    place = Path(value(run("stats", "--json"))["path"])
    assert place.name == "memory.db"
    assert place.exists()


def test_the_default_user_is_me(run: Run) -> None:
    remembered(run, "Ana likes tea.")
    assert texts(run("list", "--user", "me", "--json")) == ["Ana likes tea."]
    assert texts(run("list", "--user", "ana", "--json")) == []


def test_with_an_agent_or_a_run_there_is_no_default_user(run: Run) -> None:
    fact = value(run("remember", "The deploy key is rotated monthly.", "--agent", "ops", "--json"))["facts"][0]
    assert (fact["user_id"], fact["agent_id"], fact["run_id"]) == ("", "ops", "")


@pytest.mark.parametrize("name", ["user", "agent", "run"])
def test_the_environment_says_whose_memory_it_is_and_an_option_overrides_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(f"MEMLITE_{name.upper()}", "zoe")
    remembered(run, "Zoe sings.")
    remembered(run, "Tom paints.", **{name: "tom"})
    assert texts(run("list", "--json")) == ["Zoe sings."]
    assert texts(run("list", "--json", f"--{name}", "tom")) == ["Tom paints."]


@pytest.mark.parametrize("command", ["list", "search", "history", "entities"])
def test_a_reading_command_shows_nothing_of_another_user(run: Run, command: str) -> None:
    remembered(run, "Zoe sings in Faro.", user="zoe")
    words = ["search", "Zoe"] if command == "search" else [command]
    assert "Zoe" not in run(*words, "--user", "tom").stdout
    assert "Faro" not in run(*words, "--user", "tom", "--json").stdout


@pytest.mark.parametrize(
    "words",
    [
        ["add", "hi"],
        ["remember", "Ana likes tea."],
        ["search", "tea"],
        ["list"],
        ["stats"],
        ["work"],
        ["delete", UNKNOWN],
    ],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("foreign", [b"Dear diary, " * 20, None], ids=["text", "directory"])
def test_a_foreign_file_is_exit_code_1_and_stays_as_it_was(
    run: Run, path: Path, words: list[str], foreign: bytes | None
) -> None:
    path.mkdir() if foreign is None else path.write_bytes(foreign)
    result = run(*words, code=1)
    assert result.stdout == ""
    assert str(path) in result.stderr
    assert path.is_dir() if foreign is None else path.read_bytes() == foreign


READING = [["search", "tea"], ["list"], ["show", UNKNOWN], ["update", UNKNOWN, "--kind", "x"], ["delete", UNKNOWN],
           ["history"], ["entities"], ["work"], ["reembed"], ["stats"], ["why", UNKNOWN, "tea"],
           ["archive", UNKNOWN], ["restore", UNKNOWN], ["undo", UNKNOWN], ["prune", "--expired"],
           ["diff", "2001-01-01"]]  # fmt: skip


@pytest.mark.parametrize("words", READING, ids=lambda words: words[0])
def test_a_command_that_stores_nothing_new_makes_no_file(run: Run, path: Path, words: list[str]) -> None:
    result = run(*words, code=1)
    assert result.stdout == ""
    assert str(path) in result.stderr
    assert "memlite add" in result.stderr
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("words", [["list"], ["search", "tea"], ["history"], ["entities"]], ids=lambda words: words[0])
def test_an_empty_answer_says_whose_memory_and_which_file_it_is(run: Run, path: Path, words: list[str]) -> None:
    remembered(run, "Ana likes tea.", user="ana")
    result = run(*words, "--user", "zoe", "--run", "r1")
    assert result.stdout == ""
    assert "user=zoe" in result.stderr
    assert "run=r1" in result.stderr
    assert str(path) in result.stderr


def test_facts_are_hidden_and_come_back(run: Run) -> None:
    tea, cake = remembered(run, "Ana likes tea.", "Ana likes cake.")
    assert "archived since" in run("archive", tea[:8], cake[:8], "--reason", "outdated").stdout
    assert texts(run("list", "--json")) == texts(run("search", "Ana", "--json")) == []
    assert sorted(texts(run("list", "--archived", "--json"))) == ["Ana likes cake.", "Ana likes tea."]
    assert "restore" in run("why", tea, "tea").stdout
    assert [fact["id"] for fact in value(run("restore", tea, "--json"))] == [tea]
    assert texts(run("list", "--json")) == ["Ana likes tea."]


def test_prune_shows_first_and_deletes_with_yes(run: Run) -> None:
    remembered(run, "The code is 7731.", expires="2001-01-01")
    for words in (["prune", "--expired"], ["prune", "--expired", "--yes", "--dry-run"]):
        shown = run(*words)
        assert "would delete" in shown.stdout
        assert "(expired)" in shown.stdout
        assert "--yes" in shown.stderr
    assert texts(run("list", "--past", "--json")) == ["The code is 7731."]
    assert "1 fact" in run("prune", "--expired", "--yes").stdout
    assert texts(run("list", "--past", "--json")) == []
    assert "nothing to prune" in run("prune", "--replaced-for", "2y").stderr
    assert "90d" in run("prune", "--replaced-for", "90", code=2).stderr
    assert "no rule" in run("prune", code=2).stderr


def test_a_facts_log_shows_its_line_and_what_was_said(run: Run, tmp_path: Path) -> None:
    said = value(run("add", "I live in Porto.", "--extract", "never", "--json"))["messages"][0]
    facts = tmp_path / "facts.json"
    facts.write_text(json.dumps([{"text": "Ana lives in Porto.", "source": said}]))
    old = value(run("remember", "--file", str(facts), "--json"))["facts"][0]["id"]
    new = value(run("remember", "Ana lives in Faro.", "--replaces", old, "--json"))["facts"][0]["id"]
    for id_ in (old, new):
        shown = run("log", id_[:8]).stdout
        assert shown == run("history", id_[:8]).stdout
        assert "Ana lives in Porto. (past since" in shown
        assert "user: I live in Porto." in shown
        assert "Ana lives in Faro. (current)" in shown
        line = run("log", id_[:8], "--lineage").stdout
        assert line
        assert shown.endswith(line)
        first, second = value(run("log", id_[:8], "--lineage", "--json"))
        assert [each["content"] for each in first["sources"]] == ["I live in Porto."]
        assert (second["id"], second["sources"]) == (new, [])
    assert "ID" in run("log", "--lineage", code=2).stderr
    run("delete", old)
    assert "DELETE" in run("log", old).stdout
    assert "no fact" in run("log", old, "--lineage", code=1).stderr


def test_the_log_of_all_shows_every_scope_a_page_at_a_time(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [*remembered(run, "Ana likes tea.", user="ana"), *remembered(run, "Zoe sings.", "Zoe rows.", user="zoe")]
    monkeypatch.setenv("MEMLITE_USER", "nobody")
    assert [event["fact"] for event in value(run("log", "--all", "--json"))] == ids[::-1]
    page = run("log", "--all", "--limit", "2")
    shown = [line.split()[3:5] for line in page.stdout.splitlines()]
    assert shown == [[id_[:8], "user_id=zoe"] for id_ in ids[:0:-1]]
    *_, flag, number = page.stderr.split()
    rest = run("log", "--all", flag, number)
    assert "Ana likes tea." in rest.stdout
    assert len(rest.stdout.splitlines()) == 1
    assert rest.stderr == ""
    assert len(value(run("log", "--user", "zoe", "--limit", "1", flag, "99", "--json"))) == 1
    assert "more" not in run("log", "--user", "zoe", "--limit", "2").stderr
    assert "no history for user=nobody" in run("log").stderr
    for words in (["--all", "--user", "zoe"], ["--all", ids[0]], ["--before", "0"]):
        run("log", *words, code=2)
    run("delete", "--everything", "--yes", "--user", "zoe", code=2)


def test_diff_shows_what_is_new(run: Run) -> None:
    remembered(run, "Ana likes tea.")
    assert run("diff", "--since", "2001-01-01").stdout == run("diff", "2001-01-01").stdout
    for words in ([], ["2001-01-01", "--since", "2001-01-01"]):
        assert "--since" in run("diff", *words, code=2).stderr
    assert run("diff", "2001-01-01").stdout.startswith("+ ")
    assert "nothing has changed" in run("diff", "2999-01-01").stderr
    assert run("history", "--json").stdout == run("log", "--json").stdout
    assert "since" in run("diff", "soon", code=2).stderr


def test_an_add_is_undone_and_the_undo_as_well(run: Run) -> None:
    batch = value(run("remember", "Ana likes tea.", "--json"))["batch"]
    undone = value(run("undo", batch[:8], "--json"))
    assert texts(run("list", "--json")) == []
    assert run("undo", batch, code=2).stderr.count(undone["batch"]) == 1
    assert "1 fact restored" in run("undo", undone["batch"]).stdout
    assert texts(run("list", "--json")) == ["Ana likes tea."]


def test_stats_counts_one_scope_where_one_is_named(run: Run) -> None:
    remembered(run, "Ana likes tea.", "Ana likes cake.", user="ana")
    remembered(run, "Zoe sings.", user="zoe")
    assert value(run("stats", "--json"))["facts"] == 3
    assert value(run("stats", "--user", "ana", "--json"))["facts"] == 2


# What people see.


def test_control_characters_of_a_text_do_not_reach_the_terminal(run: Run) -> None:
    (fact,) = remembered(run, "Ana \x1b[2J\x07likes\ttea\nand \x9b31mcake.")
    for words in (["list"], ["search", "tea"], ["history"], ["show", fact], ["delete", fact, "--dry-run"]):
        shown = run(*words).stdout
        assert "likes" in shown
        assert not {"\x1b", "\x07", "\x9b"} & set(shown)
    assert texts(run("list", "--json")) == ["Ana \x1b[2J\x07likes\ttea\nand \x9b31mcake."]


def test_a_long_text_is_cut_for_people_and_whole_for_programs(run: Run) -> None:
    text = "The quick brown fox jumps over the lazy dog. " * 100
    said(run, text)
    (line,) = run("search", "fox").stdout.splitlines()
    assert len(line) < 500
    assert value(run("search", "fox", "--json"))[0]["text"].strip() == text.strip()


def test_an_expiry_is_shown(run: Run) -> None:
    remembered(run, "The shop is closed.", expires="2999-02-01T00:00:00+00:00")
    assert "until 2999-02-01" in run("list").stdout


# add


def test_add_prints_the_facts_it_learnt_and_what_it_left_out(run: Run, extractor: Callable[[object], None]) -> None:
    extractor(Echo())
    printed = run("add", "The table at Osteria Lume is for two.").stdout.splitlines()
    (fact,) = value(run("list", "--json"))["facts"]
    assert printed[0] == f"{fact['id'][:8]}  The table at Osteria Lume is for two."
    assert "Osteria Lume (organisation)" in printed[1]
    assert any(line.startswith("skipped") and "Tokyo" in line for line in printed)
    assert any(line.startswith("done: 1 message stored, 1 fact learnt") for line in printed)


def test_add_json_is_one_object_with_the_documented_keys(run: Run, extractor: Callable[[object], None]) -> None:
    extractor(Echo())
    result = run("add", "The table at Osteria Lume is for two.", "--json")
    answer = value(result)
    assert {"status", "batch", "facts", "skipped", "messages", "reason"} <= set(answer)
    assert answer["status"] == "done"
    (fact,) = answer["facts"]
    assert set(fact) >= FACT_KEYS
    assert fact["text"] == "The table at Osteria Lume is for two."
    assert fact["by"] == "User"
    assert fact["entities"] == [{"name": "Osteria Lume", "type": "organisation"}]
    assert fact["sources"] == answer["messages"]
    (skipped,) = answer["skipped"]
    assert set(skipped) == {"text", "reason", "existing"}
    assert skipped["text"] == "Bruno flew to Tokyo with 7 llamas."
    assert skipped["existing"] is None


def test_add_nl_is_one_fact_a_line_with_the_same_keys(run: Run, extractor: Callable[[object], None]) -> None:
    extractor(Echo())
    (from_json,) = value(run("add", "The table at Osteria Lume is for two.", "--json"))["facts"]
    result = run("add", "The table at Osteria Lume is for three.", "--nl")
    (fact,) = lines(result)
    assert fact.keys() == from_json.keys()
    assert fact["text"] == "The table at Osteria Lume is for three."
    assert "Tokyo" in result.stderr  # what was left out
    assert "0 facts" not in result.stderr


def test_add_nl_says_on_stderr_what_is_queued(run: Run) -> None:
    result = run("add", "Ana likes tea.", "--extract", "later", "--nl")
    assert result.stdout == ""
    assert "memlite work" in result.stderr


def test_a_repeated_fact_is_skipped_with_the_id_of_the_one_it_repeats(
    run: Run, extractor: Callable[[object], None]
) -> None:
    extractor(Echo())
    (first,) = value(run("add", "The table at Osteria Lume is for two.", "--json"))["facts"]
    again = value(run("add", "The table at Osteria Lume is for two.", "--json"))
    assert again["facts"] == []
    assert {"text": first["text"], "reason": "duplicate", "existing": first["id"]} in again["skipped"]
    assert f"as {first['id'][:8]}" in run("add", "The table at Osteria Lume is for two.").stdout


def test_without_an_extractor_add_says_queued_and_which_command_turns_extraction_on(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("MEMLITE_EXTRACTOR")
    monkeypatch.setenv("MEMLITE_MODELS", str(tmp_path / "models"))
    printed = run("add", "Ana likes tea.").stdout
    assert printed.startswith("queued: 1 message stored")
    assert "memlite models pull default" in printed
    assert "memlite work" in printed
    answer = value(run("add", "Ana likes rum.", "--json"))
    assert (answer["status"], answer["facts"]) == ("queued", [])
    assert "memlite models pull default" in answer["reason"]
    hits = value(run("search", "rum", "--json"))
    assert [hit["kind"] for hit in hits if hit["explain"]["words"]] == ["message"]
    assert [hit["text"] for hit in hits] == ["Ana likes rum.", "Ana likes tea."]  # what stands beside it comes after it


def test_extraction_can_be_left_for_later(run: Run, extractor: Callable[[object], None]) -> None:
    extractor(Echo())
    later = value(run("add", "The table at Osteria Lume is for two.", "--extract", "later", "--json"))
    assert (later["status"], later["facts"]) == ("queued", [])
    assert "memlite work" in later["reason"]
    assert value(run("work", "--json"))["facts"] == 1


def test_messages_can_be_stored_without_ever_being_extracted(run: Run, extractor: Callable[[object], None]) -> None:
    extractor(Echo())
    never = value(run("add", "The table at Osteria Lume is for two.", "--extract", "never", "--json"))
    assert (never["status"], never["reason"]) == ("stored", None)
    assert value(run("work", "--json"))["batches"] == 0


def test_an_extractor_that_fails_leaves_the_message_queued_with_the_reason(
    run: Run, extractor: Callable[[object], None]
) -> None:
    extractor(Failing())
    result = run("add", "Ana likes tea.")
    assert result.stdout.startswith("queued: 1 message stored")
    assert "the model said nothing usable" in result.stdout


def test_an_extractor_that_cannot_be_loaded_leaves_the_message_queued_with_the_reason(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, models: Path
) -> None:
    half = tmp_path / "half.gguf"
    with next((models / "extractor").glob("*.gguf")).open("rb") as whole:
        half.write_bytes(whole.read(3_000_000))
    monkeypatch.setenv("MEMLITE_EXTRACTOR", str(half))
    answer = value(run("add", "Ana likes tea.", "--json"))
    assert (answer["status"], len(answer["messages"])) == ("queued", 1)
    assert "half.gguf" in answer["reason"]


def test_a_dash_reads_the_message_from_stdin(run: Run) -> None:
    run("add", "-", "--extract", "never", stdin="The plumber comes on Friday.\nHe brings pipes.\n")
    (hit,) = value(run("search", "plumber", "--json"))
    assert "Friday.\nHe brings" in hit["text"]


def test_role_speaker_time_and_metadata_of_a_text_are_kept(run: Run) -> None:
    id_ = said(run, "I recommend the risotto.", "--role", "assistant", "--name", "Waiter", "--at",
               "2025-05-11T19:30:00+02:00", "--metadata", '{"city": "Porto"}')  # fmt: skip
    message = value(run("show", id_, "--json"))
    assert (message["role"], message["name"]) == ("assistant", "Waiter")
    assert datetime.fromisoformat(message["observed_at"]) == datetime(2025, 5, 11, 17, 30, tzinfo=timezone.utc)
    assert message["metadata"] == {"city": "Porto"}


TURNS = [
    {"role": "user", "content": "Clara is allergic to walnuts."},
    {"role": "assistant", "content": "Then take the risotto."},
]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("chat.json", json.dumps(TURNS), id="array"),
        pytest.param("chat.json", json.dumps({"messages": TURNS}), id="object-with-messages"),
        pytest.param("chat.json", json.dumps(TURNS, indent=2), id="indented"),
        pytest.param("chat.json", "\ufeff" + json.dumps(TURNS), id="byte-order-mark"),
        pytest.param("chat.jsonl", "\n".join(map(json.dumps, TURNS)), id="one-a-line"),
        pytest.param("chat.jsonl", "\r\n\r\n".join(map(json.dumps, TURNS)) + "\r\n", id="windows-lines"),
        pytest.param("chat.txt", "\n".join(map(json.dumps, TURNS)), id="any-name"),
    ],
)
def test_a_conversation_is_read_from_a_file(run: Run, tmp_path: Path, name: str, content: str) -> None:
    file = tmp_path / name
    file.write_bytes(content.encode())
    answer = value(run("add", "--file", file, "--extract", "never", "--json"))
    messages = [value(run("show", id_, "--json")) for id_ in answer["messages"]]
    assert [(m["role"], m["content"]) for m in messages] == [(t["role"], t["content"]) for t in TURNS]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param(None, "No such file", id="missing"),
        pytest.param(b"", "empty", id="empty"),
        pytest.param(b"[]", "empty", id="no-messages"),
        pytest.param(b'{"role": "user", "content": "cut', "JSON", id="cut-off"),
        pytest.param(b'{"role": "user", "content": "ok"}\n{"role": "user",\n', "line 2", id="second-line-cut-off"),
        pytest.param(b'{"text": "hi"}', "content", id="no-content"),
        pytest.param(b"[7]", "message 1", id="a-number"),
        pytest.param(b'{"role": "user", "content": "caf\xe9"}', "utf-8", id="latin-1"),
    ],
)
def test_a_conversation_that_cannot_be_used_is_named_and_nothing_is_stored(
    run: Run, tmp_path: Path, content: bytes | None, found: str
) -> None:
    file = tmp_path / "chat.json"
    if content is not None:
        file.write_bytes(content)
    result = run("add", "--file", file, code=2)
    assert found.lower() in result.stderr.lower()
    run("remember", "Ana likes tea.")
    assert value(run("stats", "--json"))["messages"] == 0


# remember


def test_remember_prints_each_fact_with_its_names(run: Run) -> None:
    printed = run("remember", "Ana works at Feedzai in Porto.", "Bruno sings.").stdout
    assert "  Ana works at Feedzai in Porto." in printed
    assert "Feedzai" in printed.splitlines()[1]
    assert "2 facts learnt" in printed


def test_remember_json_has_the_keys_of_add(run: Run) -> None:
    answer = value(run("remember", "Ana works at Feedzai.", "--by", "Bruno", "--kind", "bio",
                       "--metadata", '{"n": 1}', "--at", "2025-05-11", "--json"))  # fmt: skip
    assert {"status", "batch", "facts", "skipped"} <= set(answer)
    (fact,) = answer["facts"]
    assert (fact["by"], fact["kind"], fact["metadata"]) == ("Bruno", "bio", {"n": 1})
    assert fact["observed_at"].startswith("2025-05-1")
    assert {"name": "Feedzai", "type": "unknown"} in fact["entities"]


def test_remember_reads_one_fact_a_line_from_stdin(run: Run) -> None:
    facts = lines(run("remember", "-", "--nl", stdin="Ana likes tea.\n\n  \nBruno sings.\n"))
    assert [fact["text"] for fact in facts] == ["Ana likes tea.", "Bruno sings."]


def test_remember_reads_texts_and_objects_from_a_file(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "facts.jsonl"
    file.write_text('"Ana likes tea."\n{"text": "Bruno was born in Faro.", "by": "Ana", "entities": ["Faro"]}\n')
    facts = value(run("remember", "--file", file, "--json"))["facts"]
    assert [(fact["text"], fact["by"]) for fact in facts] == [
        ("Ana likes tea.", ""),
        ("Bruno was born in Faro.", "Ana"),
    ]


def test_a_fact_replaces_another_by_the_beginning_of_its_id(run: Run) -> None:
    (old,) = remembered(run, "Ana lives in Porto.")
    run("remember", "Ana lives in Lisbon.", "--replaces", old[:8])
    assert texts(run("list", "--json")) == ["Ana lives in Lisbon."]
    assert set(texts(run("list", "--past", "--json"))) == {"Ana lives in Porto.", "Ana lives in Lisbon."}
    assert "past" in run("list", "--past").stdout


def test_an_expired_fact_is_not_listed(run: Run) -> None:
    run("remember", "The shop is closed.", "--at", "2020-01-01", "--expires", "2020-02-01")
    assert texts(run("list", "--json")) == []
    assert texts(run("list", "--past", "--json")) == ["The shop is closed."]


# search


def test_search_prints_score_kind_id_and_text_on_one_line(run: Run) -> None:
    (fact,) = remembered(run, "Ana works at Feedzai.")
    (line,) = run("search", "Feedzai").stdout.splitlines()
    score, kind, id_, text = line.split(maxsplit=3)
    assert float(score) > 0
    assert (kind, id_, text) == ("fact", fact[:8], "Ana works at Feedzai.")


def test_search_explains_in_words_where_it_is_asked_to(run: Run, extractor: Callable[[object], None]) -> None:
    extractor(Echo())
    run("add", "The table at Osteria Lume is for two.")
    shown = run("search", "table", "--explain").stdout
    assert "meaning off" in shown
    assert "matched table" in shown
    assert "user: The table at Osteria Lume is for two." in shown  # the message the fact was learnt from
    assert "log-odds" in shown
    assert re.search(r"around 1\.00 x \d", shown)  # a part with its weight
    assert re.fullmatch(r"evidence that anything answers 0\.\d\d, floor 0\.\d\d", shown.splitlines()[-1])
    assert "it is the query" in run("search", "The table at Osteria Lume is for two", "--explain").stdout
    assert not re.search("meaning|evidence", run("search", "table").stdout)


def test_search_json_is_an_array_of_hits_with_the_documented_keys(run: Run) -> None:
    remembered(run, "Ana works at Feedzai.")
    said(run, "Feedzai is in Porto.", "--name", "Ana")
    hits = value(run("search", "Where is Feedzai?", "--json"))
    assert {hit["kind"] for hit in hits} == {"fact", "message"}
    for hit in hits:
        assert {"kind", "id", "text", "score", "explain"} <= set(hit)
        assert {"semantic", "keyword", "entity", "total", "words", "entities"} <= set(hit["explain"])
        assert 0 < hit["explain"]["floor"] < hit["explain"]["evidence"] < 1
        assert hit["explain"]["semantic"] is None
        assert hit["explain"]["keyword"] > 0
    assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)


def test_search_nl_is_the_array_one_hit_a_line(run: Run) -> None:
    remembered(run, "Ana likes green tea.", "Bruno likes black tea.")
    assert lines(run("search", "tea", "--nl")) == value(run("search", "tea", "--json"))


def test_nothing_found_is_an_empty_answer_and_a_word_on_stderr(run: Run) -> None:
    remembered(run, "Ana likes tea.")
    result = run("search", "xylophone")
    assert result.stdout == ""
    assert "user=me" in result.stderr
    assert value(run("search", "xylophone", "--json")) == []
    assert run("search", "xylophone", "--nl").stdout == ""


def test_search_without_an_embedder_says_so_on_stderr_and_keeps_stdout_pure(run: Run) -> None:
    remembered(run, "Ana likes tea.")
    for form in ("--json", "--nl"):
        result = run("search", "tea", form)
        assert "vectors are off" in result.stderr
        assert lines(result)
    assert "vectors are off" not in run("search", "tea").stdout


def test_search_with_the_real_embedder_finds_by_meaning(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMLITE_EMBEDDER")
    remembered(run, "Clara is allergic to walnuts.", "The train leaves at nine.")
    result = run("search", "food she must not eat", "--json")
    assert value(result)[0]["text"] == "Clara is allergic to walnuts."
    assert value(result)[0]["explain"]["semantic"] > 0
    assert result.stderr == ""


def test_search_limits_filters_and_includes(run: Run) -> None:
    remembered(run, "Ana drinks tea in Porto.", metadata='{"city": "Porto"}')
    remembered(run, "Ana drinks tea in Faro.", metadata='{"city": "Faro"}')
    said(run, "Tea is served at five.")
    assert len(value(run("search", "tea", "--limit", "1", "--json"))) == 1
    assert texts(run("search", "tea", "--filter", '{"city": {"ne": "Faro"}}', "--include", "facts", "--json")) == [
        "Ana drinks tea in Porto."
    ]
    assert texts(run("search", "tea", "--include", "messages", "--json")) == ["Tea is served at five."]


def test_search_reads_the_query_from_stdin(run: Run) -> None:
    remembered(run, "Ana likes tea.")
    assert texts(run("search", "-", "--json", stdin="who likes tea?\n")) == ["Ana likes tea."]


@pytest.mark.parametrize("query", ["", "  ", '"', "*", "AND OR NOT", "(", "tea*) OR (", "🥜", "--", "a:b^c"])
def test_any_text_is_a_legal_query(run: Run, query: str) -> None:
    remembered(run, "Ana likes tea.")
    run("search", "--json", "--", query)


@pytest.mark.parametrize(
    "text", ["我妹妹对核桃过敏。", "Ana loves 🥜 and café.", "मुझे पानी चाहिए।"], ids=["han", "emoji", "hindi"]
)
def test_every_script_goes_in_and_comes_out_readable(run: Run, text: str) -> None:
    assert text in run("remember", text).stdout
    assert text in run("list", "--json").stdout  # not as \\u escapes
    assert texts(run("search", text, "--json")) == [text]


def test_a_very_long_message_is_stored_whole(run: Run) -> None:
    text = "The quick brown fox jumps over the lazy dog. " * 20_000
    id_ = value(run("add", "-", "--extract", "later", "--json", stdin=text))["messages"][0]
    assert value(run("show", id_, "--json"))["content"].strip() == text.strip()


# list, show, history, entities, stats


def test_list_pages_through_all_facts_once(run: Run) -> None:
    facts = [f"Fact number {n}." for n in range(5)]
    remembered(run, *facts)
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = value(run("list", "--limit", "2", "--json", *(["--cursor", cursor] if cursor else [])))
        seen += [fact["text"] for fact in page["facts"]]
        cursor = page["cursor"]
        if cursor is None:
            break
    assert seen == facts[::-1]
    assert texts(run("list", "--order", "oldest", "--json")) == facts


def test_list_says_on_stderr_how_to_go_on(run: Run) -> None:
    remembered(run, "Ana likes tea.", "Bruno sings.")
    first = run("list", "--limit", "1")
    assert first.stdout.splitlines()[0].endswith("Bruno sings.")
    option, cursor = first.stderr.split()[-2:]
    rest = run("list", "--limit", "1", option, cursor)
    assert "Ana likes tea." in rest.stdout
    assert "--cursor" not in rest.stderr
    assert "--cursor" in run("list", "--limit", "1", "--nl").stderr


def test_list_nl_is_one_fact_a_line(run: Run) -> None:
    remembered(run, "Ana likes tea.", "Bruno sings.")
    assert lines(run("list", "--nl")) == value(run("list", "--json"))["facts"]


def test_list_filters_on_metadata(run: Run) -> None:
    remembered(run, "Ana likes tea.", metadata='{"n": 1}')
    remembered(run, "Bruno sings.", metadata='{"n": 2}')
    assert texts(run("list", "--filter", '{"n": {"gt": 1}}', "--json")) == ["Bruno sings."]


def test_show_tells_all_of_a_fact_or_message_by_the_beginning_of_its_id(run: Run) -> None:
    (fact,) = remembered(run, "Ana likes tea.")
    message = said(run, "Good evening.")
    shown = run("show", fact[:6]).stdout
    assert fact in shown
    assert "Ana likes tea." in shown
    assert value(run("show", fact[:6], "--json"))["text"] == "Ana likes tea."
    assert value(run("show", message[:6], "--json"))["content"] == "Good evening."
    assert lines(run("show", fact, "--nl")) == [value(run("show", fact, "--json"))]


def test_an_id_may_be_given_in_capitals_and_with_spaces(run: Run) -> None:
    (fact,) = remembered(run, "Ana likes tea.")
    assert value(run("show", f" {fact[:8].upper()} ", "--json"))["id"] == fact


def test_show_prints_quotes_and_backslashes_as_they_were_said(run: Run) -> None:
    (fact,) = remembered(run, 'Ana said "C:\\temp"')
    assert 'Ana said "C:\\temp"' in run("show", fact).stdout


@pytest.mark.parametrize("command", ["show", "update", "delete", "history"])
def test_a_beginning_that_several_ids_have_is_refused_with_the_ids(
    run: Run, same_beginning: None, command: str
) -> None:
    facts = remembered(run, "Ana likes tea.", "Bruno sings.")
    result = run(command, "abcd", *(["--text", "Carla swims."] if command == "update" else []), code=1)
    assert result.stdout == ""
    assert all(fact in result.stderr for fact in facts)
    assert len(texts(run("list", "--json"))) == 2
    assert value(run("show", facts[0], "--json"))["id"] == facts[0]


def test_history_shows_what_an_update_changed(run: Run) -> None:
    (fact,) = remembered(run, "Ana lives in Porto.")
    run("update", fact, "--text", "Ana lives in Lisbon.")
    added, updated, _ = run("history", fact[:8]).stdout.splitlines()
    assert "ADD" in added
    assert fact[:8] in added
    assert "Ana lives in Porto." in added
    assert "UPDATE" in updated
    assert "Ana lives in Porto. -> Ana lives in Lisbon." in updated


def test_history_json_has_scope_batch_before_and_after(run: Run) -> None:
    (fact,) = remembered(run, "Ana lives in Porto.", user="ana")
    run("update", fact, "--text", "Ana lives in Lisbon.")
    added, updated = value(run("history", fact, "--json"))
    assert {"fact", "action", "user_id", "agent_id", "run_id", "batch", "actor", "before", "after", "at"} <= set(added)
    assert (added["action"], added["user_id"], added["before"]) == ("ADD", "ana", None)
    assert (updated["before"]["text"], updated["after"]["text"]) == ("Ana lives in Porto.", "Ana lives in Lisbon.")
    assert lines(run("history", fact, "--nl")) == [added, updated]


def test_history_without_an_id_is_the_scopes_newest_first(run: Run) -> None:
    first, second = remembered(run, "Ana likes tea.", "Bruno sings.")
    assert [event["fact"] for event in value(run("history", "--json"))] == [second, first]
    assert len(value(run("history", "--limit", "1", "--json"))) == 1


def test_history_of_a_deleted_fact_keeps_no_words(run: Run) -> None:
    (fact,) = remembered(run, "Ana likes tea.")
    run("delete", fact)
    events = value(run("history", fact, "--json"))
    assert [event["action"] for event in events] == ["ADD", "DELETE"]
    assert "tea" not in json.dumps(events)


def test_entities_are_listed_with_type_and_number_of_facts(run: Run, extractor: Callable[[object], None]) -> None:
    extractor(Echo())
    run("add", "The table at Osteria Lume is for two.")
    run("add", "The chef of Osteria Lume sings.")
    assert run("entities").stdout.split(maxsplit=1) == ["2", "Osteria Lume (organisation)\n"]
    (entity,) = value(run("entities", "--json"))
    assert {"id", "name", "type", "aliases", "facts"} <= set(entity)
    assert (entity["name"], entity["type"], entity["facts"]) == ("Osteria Lume", "organisation", 2)
    assert lines(run("entities", "--nl")) == [entity]


def test_stats_counts_what_the_file_holds(run: Run, path: Path) -> None:
    remembered(run, "Ana works at Feedzai.")
    run("add", "Ana likes tea.", "--extract", "later")
    stats = value(run("stats", "--json"))
    assert (stats["facts"], stats["messages"], len(stats["queued"])) == (1, 1, 1)
    assert stats["path"] == str(path)
    assert lines(run("stats", "--nl")) == [stats]
    table = run("stats").stdout
    assert "facts           1 current" in table
    assert str(path) in table


# update and delete


def test_update_keeps_the_id_and_what_it_was_not_given(run: Run) -> None:
    (fact,) = remembered(run, "Ana lives in Porto.", kind="bio", metadata='{"n": 1}')
    changed = value(run("update", fact[:8], "--text", "Ana lives in Lisbon.", "--json"))
    assert (changed["id"], changed["text"]) == (fact, "Ana lives in Lisbon.")
    assert (changed["kind"], changed["metadata"]) == ("bio", {"n": 1})
    assert run("update", fact, "--kind", "home").stdout.startswith(f"{fact[:8]}  Ana lives in Lisbon.")


def test_remember_takes_when_a_fact_happens_and_was_true(run: Run) -> None:
    given = ("--event", "summer 2024", "--valid-from", "2018-01-01", "--valid-to", "2020-01-01")
    (fact,) = value(run("remember", "Ana worked at Acme.", *given, "--json"))["facts"]
    assert (fact["event_start"], fact["event_precision"], fact["current"]) == ("2024-06-01", "season", False)
    assert (fact["valid_from"][:10], fact["valid_to"][:10]) == ("2018-01-01", "2020-01-01")
    assert "past since 2020-01-01" in run("list", "--past").stdout
    assert "summer 2024" in run("remember", "Ana flies.", "--event", "", code=2).stderr


def test_update_gives_an_event_and_takes_it_away(run: Run) -> None:
    (fact,) = remembered(run, "Ana flies to Oslo.")
    assert value(run("update", fact, "--event", "around 2025-06-14", "--json"))["event_precision"] == "approximate"
    assert value(run("update", fact, "--event", "none", "--json"))["event_start"] is None


def test_update_sets_an_expiry_and_takes_it_away(run: Run) -> None:
    (fact,) = remembered(run, "Ana lives in Porto.")
    assert value(run("update", fact, "--expires", "2999-01-01", "--json"))["expires_at"].startswith("299")
    assert value(run("update", fact, "--expires", "never", "--json"))["expires_at"] is None


@pytest.mark.parametrize(
    "change",
    [["--text", ""], ["--text", " "], ["--metadata", "{x"], ["--expires", "soon"], ["--text", "Bruno sings."]],
    ids=["empty-text", "blank-text", "bad-json", "bad-time", "text-of-another-fact"],
)
def test_an_update_that_cannot_be_made_changes_nothing(run: Run, change: list[str]) -> None:
    (fact, _) = remembered(run, "Ana lives in Porto.", "Bruno sings.")
    before = value(run("show", fact, "--json"))
    assert run("update", fact, *change, code=2).stdout == ""
    assert value(run("show", fact, "--json")) == before


def test_a_dry_run_shows_the_fact_and_its_messages_and_deletes_nothing(
    run: Run, extractor: Callable[[object], None]
) -> None:
    extractor(Echo())
    answer = value(run("add", "The table at Osteria Lume is for two.", "--json"))
    fact, message = answer["facts"][0]["id"], answer["messages"][0]
    shown = run("delete", fact[:8], "--dry-run").stdout.splitlines()
    assert [line.split()[2] for line in shown] == [fact[:8], message[:8]]
    preview = value(run("delete", fact, "--dry-run", "--json"))
    assert ([f["id"] for f in preview["facts"]], [m["id"] for m in preview["messages"]]) == ([fact], [message])
    kept = run("delete", fact, "--dry-run", "--keep-messages").stdout
    assert message[:8] not in kept
    run("show", fact)
    run("show", message)


def test_delete_takes_a_fact_with_its_messages_unless_told_to_keep_them(
    run: Run, extractor: Callable[[object], None]
) -> None:
    extractor(Echo())
    for keep in ([], ["--keep-messages"]):
        answer = value(run("add", f"The table at Osteria Lume is for {len(keep) + 4}.", "--json"))
        fact, message = answer["facts"][0]["id"], answer["messages"][0]
        printed = run("delete", fact[:8], *keep).stdout
        assert "1 fact" in printed
        run("show", fact, code=1)
        run("show", message, code=0 if keep else 1)


def test_delete_takes_several_ids_or_none_of_them(run: Run) -> None:
    first, second, third = remembered(run, "Ana likes tea.", "Bruno sings.", "Carla swims.")
    assert UNKNOWN in run("delete", first, UNKNOWN, code=1).stderr
    assert len(texts(run("list", "--json"))) == 3
    run("delete", first, second[:8])
    assert value(run("list", "--json"))["facts"][0]["id"] == third


def test_what_is_named_twice_is_deleted_once(run: Run, extractor: Callable[[object], None]) -> None:
    extractor(Echo())
    answer = value(run("add", "The table at Osteria Lume is for two.", "--json"))
    fact, message = answer["facts"][0]["id"], answer["messages"][0]
    receipt = value(run("delete", fact, fact[:8], message, "--json"))
    assert (receipt["facts"], receipt["messages"]) == ([fact], [message])


def test_one_receipt_tells_what_all_of_a_deletion_took(run: Run) -> None:
    facts = remembered(run, "Ana likes tea.", "Bruno sings.")
    receipt = value(run("delete", *facts, "--json"))
    assert {"facts", "messages", "versions", "entities", "wal_truncated", "notes"} <= set(receipt)
    assert receipt["facts"] == facts
    assert receipt["entities"] == 2


def test_a_fact_of_another_user_is_not_deleted(run: Run) -> None:
    (fact,) = remembered(run, "Zoe sings.", user="zoe")
    assert run("delete", fact, "--user", "tom", code=1).stdout == ""
    assert texts(run("list", "--user", "zoe", "--json")) == ["Zoe sings."]


def test_a_fact_of_another_user_has_no_history(run: Run) -> None:
    (fact,) = remembered(run, "Zoe sings.", user="zoe")
    assert run("history", fact, "--user", "tom", code=1).stdout == ""
    assert "Zoe sings." in run("history", fact, "--user", "zoe").stdout


def test_delete_all_needs_a_yes_and_stays_in_its_scope(run: Run) -> None:
    remembered(run, "Ana likes tea.", user="ana")
    remembered(run, "Zoe sings.", user="zoe")
    said(run, "Good evening.", "--user", "ana")
    assert "--yes" in run("delete", "--all", "--user", "ana", code=2).stderr
    assert "Ana likes tea." in run("delete", "--all", "--user", "ana", "--dry-run").stdout
    assert len(texts(run("list", "--user", "ana", "--json"))) == 1
    run("delete", "--all", "--user", "ana", "--yes")
    assert texts(run("list", "--user", "ana", "--json")) == []
    assert texts(run("list", "--user", "zoe", "--json")) == ["Zoe sings."]
    assert value(run("stats", "--json"))["messages"] == 0


def test_what_a_query_finds_is_shown_and_deleted_with_yes(run: Run) -> None:
    remembered(run, "Ana likes tea.", "Ana likes cake.")
    assert "would delete" in run("delete", "--query", "tea").stdout
    assert len(texts(run("list", "--json"))) == 2
    receipt = value(run("delete", "--query", "tea", "--yes", "--json"))
    assert receipt["clean"] is True
    assert {"name": "facts", "before": 1, "after": 0} in receipt["checked"]
    assert texts(run("list", "--json")) == ["Ana likes cake."]
    assert "no hits" in run("delete", "--query", "rum", "--yes").stderr
    assert value(run("delete", "--query", "rum", "--yes", "--json"))["facts"] == []


def test_a_query_deletes_nothing_that_only_looks_near(run: Run) -> None:
    message = said(run, "Clara likes the green tea of Porto.")
    for words in ([], ["--yes"]):
        nothing = run("delete", "--query", "Clara Feedzai nonsense", *words)
        assert nothing.stdout == ""
        assert f"{message[:8]}  Clara likes the green tea of Porto. (33 % of the words: Clara)" in nothing.stderr
        assert "--floor" in nothing.stderr
    preview = run("delete", "--query", "Clara Feedzai nonsense", "--floor", "0.3")
    assert preview.stdout.startswith(f"would delete {message[:8]}")
    assert "(33 % of the words: Clara)" in preview.stdout
    assert "--yes" in preview.stderr
    shown = value(run("delete", "--query", "Clara Feedzai nonsense", "--json"))
    assert (shown["messages"], shown["matching"]["floor"]) == ([], 1.0)
    assert [each["id"] for each in shown["matching"]["below"]] == [message]
    run("delete", "--query", "Clara Feedzai nonsense", "--floor", "0.3", "--yes")
    run("show", message, code=1)


def test_what_could_not_be_erased_has_an_exit_code_of_its_own(run: Run, path: Path) -> None:
    facts = remembered(run, "Ana likes tea, the green one from the hills.", "The code is 7731.", expires="2001-01-01")
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN; SELECT count(*) FROM facts").fetchall()
    assert "another process reads the file" in run("delete", facts[0], code=3).stdout
    assert value(run("prune", "--expired", "--yes", "--json", code=3))["receipt"]["clean"] is False
    assert value(run("reset", "--yes", "--json", code=3))["clean"] is False
    reader.close()
    run("reset", "--everything", "--yes")


def test_a_reset_shows_first_and_empties_with_yes(run: Run) -> None:
    remembered(run, "Ana likes tea.", user="ana")
    remembered(run, "Zoe likes tea.", user="zoe")
    for words in (["--user", "ana"], ["--user", "ana", "--yes", "--dry-run"]):
        shown = run("reset", *words)
        assert "Ana likes tea." in shown.stdout
        assert shown.stdout.endswith("would forget user_id=ana\n")
        assert "--yes" in shown.stderr
    assert len(value(run("reset", "--everything", "--json"))["facts"]) == 2
    printed = run("reset", "--user", "ana", "--yes").stdout
    assert "1 fact" in printed
    assert "forgot user_id=ana" in printed
    assert "nothing to delete" in run("reset", "--user", "ana").stderr
    assert texts(run("list", "--user", "zoe", "--json")) == ["Zoe likes tea."]
    assert "--all" in run("reset", "--everything", "--user", "zoe", "--yes", code=2).stderr
    receipt = value(run("reset", "--everything", "--yes", "--json"))
    assert (len(receipt["facts"]), receipt["ids"], receipt["clean"]) == (1, ["user_id=zoe"], True)
    assert value(run("stats", "--json"))["facts"] == 0


def test_a_hit_says_what_it_replaced(run: Run) -> None:
    (old,) = remembered(run, "Ana drinks almond milk.")
    run("remember", "Ana drinks oat milk.", "--replaces", old)
    hit, before = run("search", "what milk does Ana drink?").stdout.splitlines()
    assert "Ana drinks oat milk." in hit
    assert before.startswith(f"       before: {old[:8]}  Ana drinks almond milk. (past since ")
    assert before in run("search", "what milk does Ana drink?", "--explain").stdout
    context = ("context", "what milk does Ana drink?", "--floor", "0")
    assert "before: Ana drinks almond milk." in run(*context).stdout
    assert "almond" not in run(*context, "--no-replaced").stdout


def test_everything_is_deleted_with_yes(run: Run) -> None:
    remembered(run, "Ana likes tea.", user="ana")
    remembered(run, "Zoe likes tea.", user="zoe")
    assert "--yes" in run("delete", "--everything", code=2).stderr
    assert "--all" in run("delete", "--everything", "--user", "ana", "--yes", code=2).stderr
    assert "2 facts" in run("delete", "--everything", "--yes").stdout
    assert value(run("stats", "--json"))["facts"] == 0


def test_an_entity_is_deleted_by_its_id(run: Run) -> None:
    remembered(run, "Clara likes tea.", "Ana likes cake.")
    clara = next(each["id"] for each in value(run("entities", "--json")) if each["name"] == "Clara")
    run("delete", clara[:8], "--yes")
    assert texts(run("list", "--json")) == ["Ana likes cake."]


def test_a_dry_run_of_delete_all_shows_the_messages_too(run: Run) -> None:
    message = said(run, "Good evening.")
    assert message[:8] in run("delete", "--all", "--dry-run").stdout
    assert message in run("delete", "--all", "--dry-run", "--json").stdout
    run("show", message)


# work and reembed


def test_work_learns_from_what_is_queued(run: Run, extractor: Callable[[object], None]) -> None:
    for number in ("two", "three", "four"):
        run("add", f"The table at Osteria Lume is for {number}.", "--extract", "later")
    extractor(Echo())
    assert "1 batch" in run("work", "--limit", "1").stdout
    answer = value(run("work", "--json"))
    assert {"batches", "facts", "vectors", "queued", "failures"} <= set(answer)
    assert (answer["batches"], answer["facts"], answer["queued"]) == (2, 2, 0)
    assert lines(run("work", "--nl"))[0]["batches"] == 0


def test_work_whose_batch_fails_is_exit_code_1_and_says_which_and_why(
    run: Run, extractor: Callable[[object], None]
) -> None:
    batch = value(run("add", "Ana likes tea.", "--extract", "later", "--json"))["batch"]
    extractor(Failing())
    result = run("work", "--json", code=1)
    assert value(result)["queued"] == 1
    assert "the model said nothing usable" in value(result)["failures"][0]
    assert batch in result.stderr
    assert "the model said nothing usable" in result.stderr
    assert "1 still queued" in run("work", code=1).stdout
    assert "the model said nothing usable" in run("stats").stdout


def test_work_that_has_no_extractor_for_its_queue_is_exit_code_1(run: Run) -> None:
    run("work", code=1)  # there is no file
    run("add", "Ana likes tea.", "--extract", "later")
    result = run("work", code=1)
    assert "1 still queued" in result.stdout
    assert "MEMLITE_EXTRACTOR" in result.stderr


def test_reembed_counts_the_vectors_it_made(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    remembered(run, "Ana likes tea.")
    monkeypatch.delenv("MEMLITE_EMBEDDER")
    assert value(run("reembed", "--json"))["vectors"] == 2  # the fact and Ana
    assert run("reembed").stdout.startswith("2 vector")
    assert value(run("stats", "--json"))["without_vector"] == 0


def test_reembed_without_an_embedder_cannot_be_done(run: Run) -> None:
    remembered(run, "Ana likes tea.")
    result = run("reembed", code=1)
    assert result.stdout == ""
    assert "embedder" in result.stderr.lower()


# models


def test_models_shows_what_is_found_where_and_whether_it_loads(
    run: Run, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MEMLITE_EMBEDDER")
    monkeypatch.delenv("MEMLITE_EXTRACTOR")
    found = value(run("models", "--json"))
    assert all({"role", "name", "path", "size", "licence", "used", "error"} <= set(model) for model in found)
    used = {model["role"]: model for model in found if model["used"]}
    assert set(used) == {"embedder", "extractor"}
    assert all(model["licence"] and model["error"] is None for model in used.values())
    assert "memlite models pull qwen3-1.7b" in used["extractor"]["note"]
    assert used["extractor"]["note"] in run("models").stderr
    assert lines(run("models", "--nl")) == found
    table = run("models").stdout
    assert table.splitlines()[0].split()[:4] == ["role", "name", "size", "licence"]
    assert all(str(model["path"]) in table for model in found)


def test_without_models_the_command_that_gets_them_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MEMLITE_MODELS", str(tmp_path / "models"))
    result = run("models")
    assert result.stdout == ""
    assert "memlite models pull default" in result.stderr
    assert value(run("models", "--json")) == []


def test_a_model_that_does_not_load_is_listed_with_the_reason(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MEMLITE_MODELS", str(tmp_path))
    (tmp_path / "extractor").mkdir()
    (tmp_path / "extractor" / "broken.gguf").write_bytes(b"GGUF and then nothing")
    (model,) = value(run("models", "--json"))
    assert model["name"] == "broken"
    assert model["error"]
    shown = run("models").stdout.splitlines()
    assert "NO" in shown[1].split()
    assert any(model["error"] in line for line in shown[2:])


def test_pulling_prints_where_each_model_is(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = [
        model_files.ModelFile(role, role, tmp_path / f"{role}.gguf", "models folder", 1) for role in model_files.ROLES
    ]

    def pull_default(report: Callable[[str], None]) -> list[model_files.ModelFile]:
        report("fetching")
        return files

    monkeypatch.setattr(downloads, "pull_default", pull_default)
    result = run("models", "pull", "default")
    assert [line.split() for line in result.stdout.splitlines()] == [[f.role, str(f.path)] for f in files]
    assert "fetching" in result.stderr


def test_an_unknown_model_name_is_answered_with_the_known_ones(run: Run) -> None:
    said_ = run("models", "pull", "nosuch", code=2).stderr
    assert all(name in said_ for name in model_files.RECOMMENDED)


@pytest.mark.parametrize("variable", ["MEMLITE_EMBEDDER", "MEMLITE_EXTRACTOR"])
def test_a_model_named_in_the_environment_that_is_not_there_is_exit_code_1_and_named(
    run: Run, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    remembered(run, "Ana likes tea.")
    monkeypatch.setenv(variable, "/nowhere/model.gguf")
    result = run("work", code=1)
    assert "/nowhere/model.gguf" in result.stderr
    assert variable in result.stderr
    run("list")  # needs no model


# As a process of its own.


@pytest.fixture
def own(path: Path) -> dict[str, str]:
    """The environment of a process on a file of its own, without models."""
    return {"MEMLITE_DB": str(path), "MEMLITE_EMBEDDER": "off", "MEMLITE_EXTRACTOR": "off", "PYTHONUTF8": "0"}


def test_a_process_answers_on_stdout_and_ends_with_0_1_or_2(own: dict[str, str]) -> None:
    done = process("remember", "-", "--json", stdin="Ana likes 绿茶 🍵.\n", env=own)
    assert (done.returncode, json.loads(done.stdout)["facts"][0]["text"]) == (0, "Ana likes 绿茶 🍵.")
    assert process("show", UNKNOWN, env=own).returncode == 1
    asked_wrongly = process("search", "tea", "--limit", "0", env=own)
    assert (asked_wrongly.returncode, asked_wrongly.stdout) == (2, b"")


def test_a_command_that_only_reads_loads_no_model_runtime(own: dict[str, str]) -> None:
    process("remember", "Ana likes tea.", env=own)
    for words in (["list"], ["search", "tea"]):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", *CLI[1:], *words],
            capture_output=True, text=True, env={**os.environ, **own}, check=True,
        )  # fmt: skip
        loaded = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
        assert "Ana likes tea." in done.stdout
        assert not loaded & {"llama_cpp", "numpy", "torch", "huggingface_hub", "memlite.extract"}


def test_the_installed_command_bears_a_reader_that_leaves(own: dict[str, str]) -> None:
    facts = "\n".join(f"Fact number {n} about tea." for n in range(400))
    process("remember", "-", stdin=facts, env=own)
    command = [str(Path(sys.executable).with_name("memlite")), "list", "--limit", "1000", "--nl"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **own}
    ) as reading:
        assert reading.stdout
        assert reading.stderr
        assert json.loads(reading.stdout.readline())["text"] == "Fact number 399 about tea."
        reading.stdout.close()
        errors = reading.stderr.read().decode()
    assert "Traceback" not in errors
    assert "Broken" not in errors
    assert reading.returncode == 0


def test_a_full_disk_under_the_answer_is_no_traceback(own: dict[str, str]) -> None:
    process("remember", "Ana likes tea.", env=own)
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*CLI, "list"], stdout=full, stderr=subprocess.PIPE, env={**os.environ, **own}, check=False
        )
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("words", [["add", "-"], ["remember", "-"], ["search", "-"]], ids=lambda words: words[0])
def test_stdin_that_is_not_utf8_is_exit_code_2_and_says_so(own: dict[str, str], words: list[str]) -> None:
    process("remember", "Ana likes tea.", env=own)
    done = process(*words, stdin="le caf\xe9".encode("latin-1"), env=own)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"UTF-8" in done.stderr
    assert b"surrogate" not in done.stderr


def test_a_byte_order_mark_on_stdin_is_no_part_of_the_message(own: dict[str, str]) -> None:
    process("remember", "-", stdin="\ufeffAna likes tea.", env=own)
    (fact,) = json.loads(process("list", "--json", env=own).stdout)["facts"]
    assert fact["text"] == "Ana likes tea."


@pytest.mark.parametrize("locale", [{"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}, {"TERM": "dumb", "NO_COLOR": "1"}])
def test_the_answer_is_the_same_in_a_plain_locale_and_on_a_dumb_terminal(
    own: dict[str, str], locale: dict[str, str]
) -> None:
    process("remember", "-", stdin="Ana likes 绿茶.", env=own)
    done = process("list", env=own | locale)
    assert done.returncode == 0
    assert "Ana likes 绿茶." in done.stdout.decode()
    assert b"\x1b" not in done.stdout


def on_a_terminal(*words: str, env: dict[str, str]) -> tuple[bytes, str]:
    """Run with stderr on a terminal and stdout on a pipe; return what came on each."""
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [*CLI, *words], stdout=subprocess.PIPE, stderr=theirs, stdin=subprocess.DEVNULL, env={**os.environ, **env}
    ) as running:
        os.close(theirs)
        stdout, _ = running.communicate(timeout=120)
    assert running.returncode == 0, stdout
    seen = b""
    with contextlib.suppress(OSError):  # EIO: the other end is closed
        while data := os.read(ours, 65_536):
            seen += data
    os.close(ours)
    return stdout, seen.decode()


def test_progress_is_shown_on_a_terminal_only(own: dict[str, str]) -> None:
    process("remember", "Ana likes tea.", env=own)
    del own["MEMLITE_EMBEDDER"]
    stdout, seen = on_a_terminal("reembed", "--json", env=own)
    assert json.loads(stdout) == {"vectors": 2}
    assert "vectors" in seen
    assert process("reembed", "--json", env=own).stderr == b""


def test_the_real_extractor_learns_from_a_command_line(own: dict[str, str]) -> None:
    del own["MEMLITE_EMBEDDER"], own["MEMLITE_EXTRACTOR"]
    stdout, seen = on_a_terminal("add", "I booked Osteria Lume for 14 June at 19:30.", "--json", env=own)
    answer = json.loads(stdout)
    assert answer["status"] == "done"
    assert answer["facts"] or answer["skipped"]
    assert "extract" in seen
    hits = json.loads(process("search", "Osteria Lume", "--json", env=own).stdout)
    assert "Osteria Lume" in hits[0]["text"]


def test_an_interrupted_add_has_stored_its_message(own: dict[str, str], path: Path) -> None:
    Memory(path, embedder=False, extractor=False).close()
    del own["MEMLITE_EXTRACTOR"]
    with subprocess.Popen(
        [*CLI, "add", "I booked Osteria Lume for 14 June at 19:30. " * 80],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **own},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job's children ignore it
    ) as adding:  # fmt: skip
        with Memory(path, embedder=False, extractor=False) as memory:
            while not memory.stats().messages and adding.poll() is None:
                time.sleep(0.01)
        adding.send_signal(signal.SIGINT)
        _, errors = adding.communicate(timeout=120)
    assert b"Traceback" not in errors
    with Memory(path, embedder=False, extractor=False) as memory:
        stats = memory.stats()
        assert (stats.messages, len(stats.queued)) == (1, 1)
    assert adding.returncode not in (0, 2)
    assert b"memlite work" in errors
