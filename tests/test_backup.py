"""backup() and check(): a copy while others write, never one that only looks whole, and looks that change nothing."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import apsw
import pytest
from click.testing import CliRunner

from memlite import (
    FileError,
    ForeignFileError,
    InvalidInputError,
    MemliteError,
    Memory,
    NewerFileError,
    NotFoundError,
    backup,
    cli,
    schema,
)
from memlite.check import check
from memlite.db import damage

FORK = multiprocessing.get_context("fork")
PAGE = 4096


class Letters:
    """An embedder whose vectors count letters, so that texts of the same words are near one another."""

    name = "letters"
    dimension = 26

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0 + 5 * text.lower().count(chr(97 + at)) for at in range(26)] for text in texts]


def opened(path: Path | str) -> Memory:
    return Memory(path, embedder=Letters(), extractor=False)


@pytest.fixture
def full(path: Path) -> Path:
    """A file with facts, messages, entities and vectors."""
    with opened(path) as memory:
        memory.remember([f"Ana keeps {n} bees in Porto." for n in range(40)], user_id="ana")
        memory.add(["The risotto is at Osteria Lume.", "绿茶 and \0 and tests"], user_id="ana", extract="never")
        memory.archive(memory.get_all(user_id="ana")[0].id)
    return path


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup of a small file in as many steps as one of a large file has."""
    monkeypatch.setattr(backup, "_STEP", 5)


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def contents(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """Every file but the index of a log, which is no data: its bytes, mode and time of change."""
    return {
        file.name: (file.read_bytes(), file.stat().st_mode, file.stat().st_mtime_ns)
        for file in folder.iterdir()
        if not file.name.endswith("-shm")
    }


def killed(act: Callable[[], object]) -> None:
    """Act in a child that dies of SIGKILL on the way."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL


def kill(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def left_by_a_killed_process(path: Path) -> None:
    """Facts that are in the log only."""

    def act() -> None:
        memory = opened(path)
        memory.remember("Ben lives in Lisbon.", user_id="ben")
        kill()

    killed(act)
    assert path.with_name(path.name + "-wal").stat().st_size > 0


# What a backup is.


def test_a_backup_has_all_that_the_file_has(full: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with opened(full) as memory:
        made = memory.backup(copy)
        wanted = [(hit.text, hit.score) for hit in memory.search("who keeps 7 bees?", user_id="ana")]
    assert made.ok
    assert made.path == str(copy)
    assert made.rows == check(full).rows
    assert all(made.rows.values())
    assert names(tmp_path) == {"memory.db", "copy.db"}
    with opened(copy) as memory:
        assert [(hit.text, hit.score) for hit in memory.search("who keeps 7 bees?", user_id="ana")] == wanted


def test_a_backup_has_what_only_the_log_has_yet(full: Path, tmp_path: Path) -> None:
    left_by_a_killed_process(full)
    with opened(full) as memory:
        memory.backup(tmp_path / "copy.db")
    with opened(tmp_path / "copy.db") as memory:
        assert memory.search("Lisbon", user_id="ben")


def test_a_memory_without_a_file_can_be_backed_up(path: Path) -> None:
    with opened(":memory:") as memory:
        memory.remember("Ana likes tea.", user_id="ana")
        assert memory.backup(path).ok
    with opened(path) as memory:
        assert memory.search("tea", user_id="ana")[0].text == "Ana likes tea."


def test_nobody_else_may_read_a_backup_at_any_moment(full: Path, tmp_path: Path, small_steps: None) -> None:
    modes = set()
    before = os.umask(0)
    try:
        with opened(full) as memory:
            memory.backup(
                tmp_path / "copy.db",
                progress=lambda *_: modes.add(stat.S_IMODE((tmp_path / "copy.db.partial").stat().st_mode)),
            )
    finally:
        os.umask(before)
    assert modes | {stat.S_IMODE((tmp_path / "copy.db").stat().st_mode)} == {0o600}


def test_progress_tells_the_bytes_copied_and_all_of_them(full: Path, tmp_path: Path, small_steps: None) -> None:
    told: list[tuple[int, int]] = []
    with opened(full) as memory:
        memory.backup(tmp_path / "copy.db", progress=lambda done, of: told.append((done, of)))
    assert len(told) > 5
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1] == (tmp_path / "copy.db").stat().st_size


def test_others_write_without_waiting_and_the_backup_is_of_one_moment(
    full: Path, tmp_path: Path, small_steps: None
) -> None:
    with opened(full) as memory, opened(full) as other:
        other._database._writer.set_busy_timeout(0)
        before = check(full).rows
        memory.backup(
            tmp_path / "copy.db",
            progress=lambda done, of: other.remember(f"Ben has {done} hens.", user_id="ben"),
        )
        assert other.stats().facts > before["facts"] + 5
    found = check(tmp_path / "copy.db")
    assert found.ok
    assert found.rows == before


def keep_writing(path: Path, stop: str) -> None:
    with opened(path) as memory:
        number = 0
        while not Path(stop).exists():
            number += 1
            memory.remember(f"Ben has {number} hens.", user_id="ben")
            if number % 7 == 0:
                memory.delete(memory.get_all(user_id="ben")[0].id)


def test_backups_beside_a_process_that_writes_and_deletes_are_whole(full: Path, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    writer = FORK.Process(target=keep_writing, args=(full, str(stop)))
    writer.start()
    try:
        with opened(full) as memory:
            for number in range(8):
                assert memory.backup(tmp_path / f"{number}.db").ok
    finally:
        stop.touch()
        writer.join()
    assert writer.exitcode == 0


# What stops a backup.


@pytest.mark.parametrize("step", [1, 4, 8])
def test_of_a_killed_backup_nothing_has_its_name_and_the_next_one_is_made(
    full: Path, tmp_path: Path, small_steps: None, step: int
) -> None:
    copy, steps = tmp_path / "copy.db", iter(range(step))
    killed(lambda: opened(full).backup(copy, progress=lambda *_: next(steps, None) is None and kill()))
    assert names(tmp_path) - {"memory.db-wal", "memory.db-shm"} == {"memory.db", "copy.db.partial"}
    with opened(full) as memory:
        assert memory.backup(copy).ok
    assert names(tmp_path) == {"memory.db", "copy.db"}


@pytest.mark.parametrize("at", ["first", "last"])
def test_of_an_interrupted_backup_nothing_is_left(full: Path, tmp_path: Path, small_steps: None, at: str) -> None:
    def interrupt(done: int, of: int) -> None:
        if at == "first" or done == of:
            raise KeyboardInterrupt

    with opened(full) as memory, pytest.raises(KeyboardInterrupt):
        memory.backup(tmp_path / "copy.db", progress=interrupt)
    assert names(tmp_path) == {"memory.db"}


def test_a_backup_that_replaces_another_and_is_interrupted_leaves_that(full: Path, tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with opened(full) as memory:
        memory.backup(tmp_path / "copy.db")
        before = (tmp_path / "copy.db").read_bytes()
        with pytest.raises(KeyboardInterrupt):
            memory.backup(tmp_path / "copy.db", replace=True, progress=interrupt)
    assert (tmp_path / "copy.db").read_bytes() == before


def test_where_there_is_no_room_nothing_is_left(full: Path, tmp_path: Path) -> None:
    (tmp_path / "answer").touch()

    def act() -> None:
        with opened(full) as memory:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (20 * PAGE, 20 * PAGE))
            try:
                memory.backup(tmp_path / "copy.db")
            except FileError as error:
                (tmp_path / "answer").write_text(str(error))
        kill()

    killed(act)
    assert "copy.db.partial" in (tmp_path / "answer").read_text()
    assert names(tmp_path) == {"memory.db", "answer"}


def test_a_copy_that_is_not_whole_never_has_its_name(
    full: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk loses a page of what was written."""
    copied = backup._copy

    def copy_badly(*given: object) -> None:
        copied(*given)  # type: ignore[arg-type]
        with (tmp_path / "copy.db.partial").open("r+b") as file:
            file.seek(3 * PAGE)
            file.write(b"\xff" * PAGE)

    monkeypatch.setattr(backup, "_copy", copy_badly)
    with opened(full) as memory, pytest.raises(FileError, match="thrown away"):
        memory.backup(tmp_path / "copy.db")
    assert names(tmp_path) == {"memory.db"}


def test_two_backups_to_one_path_do_not_meet(full: Path, tmp_path: Path, small_steps: None) -> None:
    refused: list[str] = []

    def another(*_: object) -> None:
        with pytest.raises(FileError, match="another backup") as raised:
            memory.backup(tmp_path / "copy.db")
        refused.append(str(raised.value))

    with opened(full) as memory:
        assert memory.backup(tmp_path / "copy.db", progress=another).ok
    assert len(refused) > 5
    assert names(tmp_path) == {"memory.db", "copy.db"}


# Where a backup may go.


def test_an_earlier_backup_is_replaced_only_where_that_is_asked(full: Path, tmp_path: Path) -> None:
    with opened(full) as memory:
        memory.backup(tmp_path / "copy.db")
        memory.remember("Ben lives in Lisbon.", user_id="ben")
        memory.delete(memory.get_all(user_id="ana")[0].id)
        with pytest.raises(InvalidInputError, match="--replace"):
            memory.backup(tmp_path / "copy.db")
        assert memory.backup(tmp_path / "copy.db", replace=True).ok
    with opened(tmp_path / "copy.db") as memory:
        assert memory.search("Lisbon", user_id="ben")


def of_another_file(place: Path, full: Path) -> None:
    with opened(place) as memory:
        memory.add("Carla sings.", user_id="carla", extract="never")


def later_than_the_file(place: Path, full: Path) -> None:
    shutil.copy(full, place)
    of_another_file(place, full)


def of_a_newer_memlite(place: Path, full: Path) -> None:
    shutil.copy(full, place)
    with sqlite3.connect(place) as connection:
        connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()


def a_diary(place: Path, full: Path) -> None:
    place.write_text("Dear diary, " * 50)


def with_a_log_beside_it(place: Path, full: Path) -> None:
    place.with_name(place.name + "-wal").write_bytes(b"of another file")


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (of_another_file, InvalidInputError, "no earlier backup"),
        (later_than_the_file, InvalidInputError, "no earlier backup"),
        (of_a_newer_memlite, NewerFileError, "upgrade"),
        (a_diary, ForeignFileError, "Dear diary"),
        (with_a_log_beside_it, InvalidInputError, "a log lies beside"),
        (lambda place, full: place.mkdir(), ForeignFileError, "directory"),
    ],
)
def test_what_is_no_earlier_backup_is_not_replaced(
    full: Path, tmp_path: Path, make: Callable[[Path, Path], object], error: type[MemliteError], words: str
) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    make(folder / "copy.db", full)
    before = {} if (folder / "copy.db").is_dir() else contents(folder)
    with opened(full) as memory, pytest.raises(error, match=words):
        memory.backup(folder / "copy.db", replace=True)
    assert before == ({} if (folder / "copy.db").is_dir() else contents(folder))


@pytest.mark.parametrize("place", ["memory.db", "memory.db-journal", "no folder/copy.db", "link.db"])
def test_a_path_that_is_no_place_for_a_backup_is_refused(full: Path, tmp_path: Path, place: str) -> None:
    (tmp_path / "link.db").symlink_to(full)
    with opened(full) as memory, pytest.raises(InvalidInputError):
        memory.backup(tmp_path / place, replace=True)
    assert names(tmp_path) == {"memory.db", "link.db"}


def test_a_handle_that_sees_one_scope_makes_no_backup(full: Path, tmp_path: Path) -> None:
    with opened(full) as memory, pytest.raises(InvalidInputError, match="whole file"):
        memory.scope(user_id="ana").backup(tmp_path / "copy.db")


def test_faults_that_the_file_itself_has_are_told_and_do_not_prevent_a_backup(full: Path, tmp_path: Path) -> None:
    with sqlite3.connect(full) as connection:
        connection.execute("UPDATE facts SET hash = 'other' WHERE id = 1")
    connection.close()
    with opened(full) as memory:
        made = memory.backup(tmp_path / "copy.db")
    assert not made.damage
    assert [fault.place for fault in made.faults] == ["rows"]


# Looking.


def test_looking_at_a_file_that_is_not_open_changes_and_leaves_nothing(full: Path) -> None:
    before = contents(full.parent)
    assert check(full).ok
    assert contents(full.parent) == before
    assert names(full.parent) == {"memory.db"}


def test_looking_at_a_file_in_use_changes_neither_it_nor_its_log(full: Path) -> None:
    with opened(full) as memory:
        memory.remember("Ben lives in Lisbon.", user_id="ben")
        before = contents(full.parent)
        found = check(full)
        assert found.ok
        assert found.rows["facts"] == 41
        assert contents(full.parent) == before


def test_looking_at_what_a_killed_process_has_left_sees_its_log_and_changes_nothing(full: Path) -> None:
    left_by_a_killed_process(full)
    before = contents(full.parent)
    found = check(full)
    assert found.ok
    assert found.rows["facts"] == 41
    assert contents(full.parent) == before


def test_a_file_that_may_only_be_read_is_looked_at(full: Path, tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    folder.mkdir()
    shutil.copy(full, folder / "copy.db")
    (folder / "copy.db").chmod(0o444)
    folder.chmod(0o555)
    assert check(folder / "copy.db").ok


def test_a_file_that_is_opened_meanwhile_is_looked_at_again(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []

    def write_while_looking(db: object) -> list[str]:
        if not looked:
            with opened(full) as memory:
                memory.remember("Ben lives in Lisbon.", user_id="ben")
        looked.append(db)
        return damage(db)  # type: ignore[arg-type]

    monkeypatch.setattr(sys.modules[check.__module__], "damage", write_while_looking)
    assert check(full).rows["facts"] == 41
    assert len(looked) == 2


def flip_a_page(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[5 * PAGE : 6 * PAGE] = b"\xff" * PAGE
    path.write_bytes(data)


def cut_off(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 // PAGE * PAGE)


@pytest.mark.parametrize("harm", [flip_a_page, cut_off])
def test_damaged_pages_are_told(full: Path, harm: Callable[[Path], object]) -> None:
    harm(full)
    found = check(full)
    assert not found.ok
    assert found.damage


@pytest.mark.parametrize(
    ("harm", "place"),
    [
        pytest.param("DELETE FROM fact_words_docsize WHERE id = 3", "words", id="a-row-of-an-index"),
        pytest.param(
            "INSERT INTO fact_words(fact_words, rowid, text, words, scope) SELECT 'delete', id, text, words, scope"
            " FROM fact_text WHERE id = 3",
            "words",
            id="the-words-of-a-fact",
        ),
        pytest.param(
            "INSERT INTO message_words(rowid, text, words, scope) VALUES (1, 'more', '', '')", "words", id="more-words"
        ),
        pytest.param("DELETE FROM batches WHERE id = 1", "references", id="a-lost-batch"),
        pytest.param("DELETE FROM fact_vectors WHERE id = 3", "vectors", id="a-row-of-the-vectors"),
        pytest.param("DROP TABLE mentions", "schema", id="a-lost-table"),
        pytest.param("DROP TRIGGER events_stay", "schema", id="a-lost-trigger"),
    ],
)
def test_what_is_out_of_step_is_told(full: Path, harm: str, place: str) -> None:
    connection = apsw.Connection(str(full))
    schema.run(connection, harm)
    connection.close()
    found = check(full)
    assert not found.damage
    assert place in [fault.place for fault in found.faults]


def test_a_file_of_an_earlier_schema_is_looked_at_and_left_so(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    connection = apsw.Connection(str(path))
    schema.run(connection, schema.MIGRATIONS[0])
    connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    before = contents(tmp_path)
    found = check(path)
    assert found.ok
    assert "schema version 1" in found.notes[0]
    assert contents(tmp_path) == before


@pytest.mark.parametrize(("make", "error"), [(a_diary, ForeignFileError), (of_a_newer_memlite, NewerFileError)])
def test_what_this_memlite_cannot_read_is_not_looked_at(
    full: Path, tmp_path: Path, make: Callable[[Path, Path], object], error: type[MemliteError]
) -> None:
    make(tmp_path / "other.db", full)
    with pytest.raises(error):
        check(tmp_path / "other.db")


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        check(tmp_path / "none.db")
    assert names(tmp_path) == set()


# The command line.


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(cli.main, list(words))
    assert result.exit_code == code, result.output
    return result.stdout


def test_the_commands_make_a_backup_and_look_at_it(full: Path, tmp_path: Path) -> None:
    made = json.loads(run("backup", str(tmp_path / "copy.db"), "--db", str(full), "--json"))
    assert made["ok"]
    assert run("check", str(tmp_path / "copy.db")).startswith("ok")
    assert run("check", "--db", str(full)).startswith("ok")
    run("backup", str(tmp_path / "copy.db"), "--db", str(full), code=2)
    run("backup", str(tmp_path / "copy.db"), "--db", str(full), "--replace")


def test_the_exit_code_of_check_says_whether_something_is_wrong(full: Path, tmp_path: Path) -> None:
    flip_a_page(full)
    told = json.loads(run("check", str(full), "--json", code=1))
    assert told["damage"]
    assert run("check", str(full), code=1).startswith("DAMAGED")
    run("check", str(tmp_path / "none.db"), code=1)


def test_an_interrupted_command_says_that_nothing_is_left(full: Path, tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from memlite import backup, cli; backup._STEP = 5\n"
        "name = backup.name\n"
        "backup.name = lambda *given: (os.kill(os.getpid(), signal.SIGINT), name(*given))\n"
        "cli.main(['--db', sys.argv[1], 'backup', sys.argv[2]])"
    )
    done = subprocess.run([sys.executable, "-c", code, full, tmp_path / "copy.db"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "Nothing was left" in done.stderr
    assert names(tmp_path) == {"memory.db"}
