"""The file: how it is made, what is refused untouched, what stock SQLite can do with it, and what survives."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from memlite import (
    FileError,
    ForeignFileError,
    MemliteError,
    Memory,
    NewerFileError,
    NotFoundError,
    ReadOnlyError,
    doctor,
    schema,
)
from memlite.db import Database

FORK = multiprocessing.get_context("fork")
NOBODY = 65534


def open_memory(path: Path | str) -> Memory:
    return Memory(path, embedder=False, extractor=False)


def snapshot(folder: Path) -> dict[str, tuple[str, int, int]]:
    """Every file of a folder: its bytes' digest, mode and time of change."""
    return {
        str(file.relative_to(folder)): (
            hashlib.sha256(file.read_bytes()).hexdigest(),
            file.stat().st_mode,
            file.stat().st_mtime_ns,
        )
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def in_child(function: Callable[[], str]) -> str:
    """What a forked child returns; the error's words where it raises."""
    receiver, sender = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            answer = function()
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(sender, answer.encode()[:60_000])
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(pid, 0)
    return answer


def as_nobody(function: Callable[[], str]) -> str:
    """Run in a child without root's power to write everywhere."""

    def drop_and_run() -> str:
        if os.geteuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        return function()

    return in_child(drop_and_run)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder another user can reach; pytest's own are closed to them."""
    folder = Path(tempfile.mkdtemp(prefix="memlite-test-"))
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o700)
    shutil.rmtree(folder)


# What is refused, and left as it was.


def make_journal_database(path: Path) -> None:
    db = sqlite3.connect(path)
    db.executescript("CREATE TABLE facts(id INTEGER PRIMARY KEY, text TEXT); INSERT INTO facts(text) VALUES ('theirs')")
    db.close()


def make_live_wal_database(path: Path) -> None:
    """A WAL database as a killed program leaves it: the newest rows are in the -wal file only."""
    original = path.with_suffix(".original")
    db = sqlite3.connect(original)
    db.executescript("PRAGMA journal_mode = WAL; CREATE TABLE t(x); INSERT INTO t VALUES ('only in the log')")
    for suffix in ("", "-wal", "-shm"):
        shutil.copy(f"{original}{suffix}", f"{path}{suffix}")
    db.close()
    original.unlink()
    assert Path(f"{path}-wal").stat().st_size > 0


def make_newer_file(path: Path) -> None:
    open_memory(path).close()
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    db.execute("PRAGMA journal_mode = DELETE")
    db.close()


REFUSED = [
    pytest.param(make_journal_database, ForeignFileError, ["application_id", "another path"], id="foreign-journal"),
    pytest.param(make_live_wal_database, ForeignFileError, ["application_id", "another path"], id="foreign-wal"),
    pytest.param(
        make_newer_file,
        NewerFileError,
        [str(schema.VERSION + 1), str(schema.VERSION), "pip install --upgrade"],
        id="newer",
    ),
    pytest.param(
        lambda path: path.write_text("Dear diary, " * 50),
        ForeignFileError,
        ["Dear diary", "SQLite", "another path"],
        id="text-file",
    ),
    pytest.param(
        lambda path: path.write_bytes(b"SQLite format 3\x00abc"),
        ForeignFileError,
        ["SQLite", "another path"],
        id="short-file",
    ),
    pytest.param(lambda path: path.write_bytes(b"x"), ForeignFileError, ["another path"], id="one-byte"),
    pytest.param(lambda path: path.mkdir(), ForeignFileError, ["directory", "memory.db"], id="directory"),
]


@pytest.mark.parametrize(("make", "error", "words"), REFUSED)
def test_what_is_not_a_memlite_file_of_this_version_is_refused_untouched(
    path: Path, make: Callable[[Path], object], error: type[MemliteError], words: list[str]
) -> None:
    make(path)
    before = snapshot(path.parent)
    with pytest.raises(error) as raised:
        open_memory(path)
    assert snapshot(path.parent) == before
    assert all(word in str(raised.value) for word in [str(path), *words])


def test_an_empty_file_becomes_a_memlite_file(path: Path) -> None:
    path.touch()
    with open_memory(path) as memory:
        assert memory.remember("Ana likes tea.", user_id="u").status == "done"


def test_a_damaged_file_is_a_file_error_that_says_how_to_save_it(path: Path) -> None:
    with open_memory(path) as memory:
        memory.remember([f"Fact number {n} about tea." for n in range(200)], user_id="u")
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(FileError, match="Restore a backup"):
        open_memory(path).remember("Ana likes tea.", user_id="u")


def test_a_file_below_a_file_cannot_be_created(path: Path) -> None:
    path.write_text("a file")
    with pytest.raises(ReadOnlyError, match="directory"):
        open_memory(path / "memory.db")
    assert path.read_text() == "a file"


def test_a_file_that_may_only_be_read_is_refused_untouched(public: Path) -> None:
    path = public / "memory.db"
    with open_memory(path) as memory:
        memory.remember("Ana likes tea.", user_id="u")
    path.chmod(0o444)
    before = snapshot(public)
    answer = as_nobody(lambda: str(open_memory(path).path))
    assert answer.startswith("ReadOnlyError")
    assert str(path) in answer
    assert "write" in answer
    assert snapshot(public) == before


def test_a_file_in_a_folder_that_may_only_be_read_is_refused_untouched(public: Path) -> None:
    path = public / "memory.db"
    open_memory(path).close()
    path.chmod(0o666)
    public.chmod(0o555)
    before = snapshot(public)
    answer = as_nobody(lambda: str(open_memory(path).path))
    assert answer.startswith("ReadOnlyError")
    assert str(public) in answer
    assert snapshot(public) == before


def test_a_file_cannot_be_made_in_a_folder_that_may_only_be_read(public: Path) -> None:
    public.chmod(0o555)
    answer = as_nobody(lambda: str(open_memory(public / "memory.db").path))
    assert answer.startswith("ReadOnlyError: cannot create")
    assert snapshot(public) == {}


def test_a_file_that_may_not_be_read_is_refused(public: Path) -> None:
    path = public / "memory.db"
    open_memory(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    answer = as_nobody(lambda: str(open_memory(path).path))
    assert answer.startswith("ReadOnlyError") == (os.geteuid() == 0)


def test_a_folder_that_may_not_be_entered_is_refused(public: Path) -> None:
    closed = public / "closed"
    closed.mkdir(mode=0o700)
    if os.geteuid() != 0:
        closed.chmod(0)
    answer = as_nobody(lambda: str(open_memory(closed / "memory.db").path))
    closed.chmod(0o700)
    assert answer.startswith("ReadOnlyError")


@pytest.mark.parametrize("kind", ["null-device", "pipe"])
def test_what_is_no_ordinary_file_is_refused(path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/null")

    def attempt() -> str:
        signal.alarm(5)  # opening a pipe waits for its other end
        return str(open_memory(path).path)

    assert in_child(attempt).startswith("ForeignFileError")


def deleted(memory: Memory) -> None:
    memory.delete(memory.get_all(user_id="ana")[0].id)


def opened_again(memory: Memory) -> None:
    open_memory(memory.path).close()


def examined(memory: Memory) -> None:
    list(doctor.examine(memory.path))


@pytest.mark.parametrize("use", [deleted, opened_again, examined])
def test_another_program_that_reads_the_file_leaves_the_log_of_an_open_memory(
    path: Path, use: Callable[[Memory], None]
) -> None:
    """Closing a file drops the process's locks on it, and another SQLite would take itself for the last one."""
    reads = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM facts').fetchone())"
    with open_memory(path) as memory:
        for drink in ("tea", "rum", "gin"):
            memory.remember(f"Ana likes {drink}.", user_id="ana")
        use(memory)
        facts = len(memory.get_all(user_id="ana"))
        for drink in ("milk", "beer", "wine"):
            subprocess.run([sys.executable, "-c", reads, path], check=True, capture_output=True)
            assert Path(f"{path}-wal").exists()
            memory.remember(f"Ana likes {drink}.", user_id="ana")
            again = subprocess.run([sys.executable, "-c", reads, path], check=True, capture_output=True, text=True)
            facts += 1
            assert again.stdout == f"({facts},)\n"
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_name_that_is_too_long_is_a_file_error(tmp_path: Path) -> None:
    with pytest.raises(FileError):
        open_memory(tmp_path / ("x" * 300))


def test_a_full_disk_is_a_file_error_and_nothing_is_stored(path: Path) -> None:
    with open_memory(path) as memory:
        memory.remember("Ana likes tea.", user_id="u")
        memory._database._writer.execute("PRAGMA max_page_count = 1")
        with pytest.raises(FileError, match="no space left"):
            memory.add(["Hello. " * 20_000, "Again."], user_id="u")
        assert memory.stats().messages == 0
        memory._database._writer.execute("PRAGMA max_page_count = 1000000")
        assert memory.add("Hello again.", user_id="u").messages


def test_nobody_else_may_read_a_new_file(path: Path) -> None:
    with open_memory(path) as memory:
        memory.remember("Ana likes tea.", user_id="u")
        modes = {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {0o600}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("my memory.db", id="space"),
        pytest.param("спомен-記憶-é.db", id="three-scripts"),
        pytest.param("100%?mode=ro#x&.db", id="uri-syntax"),
        pytest.param("a'b\"c;--.db", id="sql-syntax"),
        pytest.param("new/folders/below/memory.db", id="folders-that-do-not-exist"),
    ],
)
def test_any_path_names_a_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with open_memory(str(path)) as memory:
        memory.remember("Ana likes tea.", user_id="u")
        assert memory.path == path
    with open_memory(path) as memory:
        assert memory.search("tea", user_id="u")[0].text == "Ana likes tea."


def test_a_home_folder_is_written_with_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with open_memory("~/memory.db") as memory:
        assert memory.path == tmp_path / "memory.db"


def test_without_a_path_the_file_lies_in_the_platforms_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with Memory(embedder=False, extractor=False) as memory:
        assert memory.path.name == "memory.db"
        assert memory.path.exists()


# What the file is.


def test_the_file_is_marked_as_memlites(path: Path) -> None:
    open_memory(path).close()
    header = path.read_bytes()[:100]
    assert int.from_bytes(header[68:72], "big") == schema.APPLICATION_ID
    assert int.from_bytes(header[60:64], "big") == schema.VERSION


def test_the_file_is_in_wal_mode(path: Path) -> None:
    open_memory(path).close()
    assert path.read_bytes()[18:20] == b"\x02\x02"


def test_every_table_of_ours_is_strict(path: Path) -> None:
    open_memory(path).close()
    db = sqlite3.connect(path)
    loose = db.execute(
        "SELECT name FROM pragma_table_list WHERE type = 'table' AND strict = 0 AND schema = 'main'"
        " AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    db.close()
    assert loose == []


PRAGMAS = {"foreign_keys": 1, "secure_delete": 1, "trusted_schema": 0, "busy_timeout": 30_000}


@pytest.mark.parametrize("role", ["writer", "reader"])
def test_every_connection_has_its_pragmas(path: Path, role: str) -> None:
    database = Database(path)
    with database.write() if role == "writer" else database.read() as db:
        found = {name: db.execute(f"PRAGMA {name}").get for name in PRAGMAS}
    database.close()
    assert found == PRAGMAS


def test_what_was_asked_before_is_not_planned_again(memory: Memory) -> None:
    """SQLite may plan a statement anew for every value it is run with, and FTS5's as well: a quarter of a search."""
    planned = []

    def authorizer(operation: int, table: str | None, *_: object) -> int:
        if operation == apsw.SQLITE_READ and table and not table.endswith("_words"):  # a virtual table asks by itself
            planned.append(table)
        return apsw.SQLITE_OK

    memory.remember("Ana works at Feedzai.", user_id="u")
    memory.add("Ben keeps bees.", user_id="u", extract="never")
    with memory._database.read() as reader:
        reader.authorizer = authorizer
        for query in ("where does Ana work?", "what does Ben keep?", "who keeps bees?"):
            planned.clear()
            assert memory.search(query, user_id="u")
    assert planned == []


def test_a_write_begins_immediate(path: Path) -> None:
    first, second = Database(path), Database(path)
    with first.write():
        second._writer.set_busy_timeout(0)
        with pytest.raises(FileError, match="locked"), second.write():
            pass
    first.close()
    second.close()


def test_a_reader_cannot_write(path: Path) -> None:
    database = Database(path)
    with pytest.raises(ReadOnlyError), database.read() as db:
        db.execute("DELETE FROM facts")
    database.close()


def test_opening_searching_and_closing_a_current_file_writes_nothing(path: Path) -> None:
    with open_memory(path) as memory:
        memory.remember("Ana likes tea.", user_id="u")
    before = snapshot(path.parent)
    with open_memory(path) as memory:
        assert len(memory.search("tea", user_id="u")) == 1
        memory.get_all(user_id="u")
        memory.stats()
    assert snapshot(path.parent) == before


def test_closing_twice_is_allowed(path: Path) -> None:
    memory = open_memory(path)
    memory.close()
    memory.close()


def test_a_closed_memory_says_so(path: Path) -> None:
    memory = open_memory(path)
    memory.close()
    with pytest.raises(FileError, match="closed"):
        memory.search("tea", user_id="u")


def test_closing_leaves_one_file(path: Path) -> None:
    with open_memory(path) as memory:
        memory.remember("Ana likes tea.", user_id="u")
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_closing_a_scope_handle_closes_nothing(memory: Memory) -> None:
    with memory.scope(user_id="u"):
        pass
    assert memory.remember("Ana likes tea.", user_id="u").facts


# Migrations.


def test_an_older_file_is_migrated_when_it_is_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_memory(path) as memory:
        memory.remember("Ana likes tea.", user_id="u")
    step = "CREATE TABLE later(x INTEGER) STRICT; INSERT INTO later VALUES (1);"
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, step))
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    with open_memory(path) as memory:
        assert memory.search("tea", user_id="u")[0].text == "Ana likes tea."
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
    assert db.execute("SELECT x FROM later").fetchall() == [(1,)]
    db.close()


def test_a_migration_that_fails_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_memory(path).close()
    version = schema.VERSION
    steps = ("CREATE TABLE later(x INTEGER) STRICT", "CREATE TABLE facts(again INTEGER) STRICT")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, *steps))
        patch.setattr(schema, "VERSION", version + 2)
        with pytest.raises(FileError, match="already exists"):
            open_memory(path)
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (version,)
    assert db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'later'").fetchone() == (0,)
    db.close()
    open_memory(path).close()


class Creator:
    """One of several processes that open the same missing file at the same moment."""

    def __init__(self, path: Path, processes: int) -> None:
        self.path, self.barrier, self.answers = path, FORK.Barrier(processes), FORK.SimpleQueue()

    def __call__(self, number: int) -> None:
        self.barrier.wait()
        try:
            with open_memory(self.path) as memory:
                memory.remember(f"Fact number {number}.", user_id="u")
        except Exception as error:
            self.answers.put(f"{type(error).__name__}: {error}")
        else:
            self.answers.put("made")


def test_processes_may_create_the_same_file_at_once(tmp_path: Path) -> None:
    for attempt in range(5):
        create = Creator(tmp_path / f"{attempt}.db", 4)
        children = [FORK.Process(target=create, args=(number,)) for number in range(4)]
        for child in children:
            child.start()
        answers = [create.answers.get() for _ in children]
        for child in children:
            child.join()
        assert answers == ["made"] * 4
        with open_memory(create.path) as memory:
            assert len(memory.get_all(user_id="u")) == 4


# Threads, forks and sudden death.


@pytest.mark.parametrize("place", ["file", ":memory:"])
def test_eight_threads_share_one_memory(path: Path, place: str) -> None:
    with open_memory(path if place == "file" else place) as memory:

        def use(number: int) -> int:
            for n in range(10):
                memory.remember(f"Thread {number} knows fact {n}.", user_id="u")
                memory.search(f"thread {number}", user_id="u")
            return len(memory.search(f"thread {number}", user_id="u", limit=100))

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(use, range(8)))
        assert memory.stats().facts == 80


def test_closing_waits_for_what_other_threads_are_doing(tmp_path: Path) -> None:
    for attempt in range(10):
        memory = open_memory(tmp_path / f"{attempt}.db")
        memory.remember("Ana likes tea.", user_id="u")
        rounds = threading.Semaphore(0)

        def use(memory: Memory = memory, rounds: threading.Semaphore = rounds) -> str:
            try:
                while True:
                    memory.search("tea", user_id="u")
                    memory.remember("Ben likes coffee.", user_id="u")
                    rounds.release()
            except FileError as error:
                return str(error)

        with ThreadPoolExecutor(4) as threads:
            answers = [threads.submit(use) for _ in range(4)]
            for _ in range(12):
                rounds.acquire()
            memory.close()
        assert all("was closed" in answer.result() for answer in answers)
        assert not Path(f"{memory.path}-wal").exists()


def test_a_memory_in_memory_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_memory(":memory:") as memory:
        memory.remember("Ana likes tea.", user_id="u")
        assert memory.search("tea", user_id="u")
    assert list(tmp_path.iterdir()) == []


def test_two_memories_in_memory_know_nothing_of_each_other() -> None:
    with open_memory(":memory:") as one, open_memory(":memory:") as other:
        one.remember("Ana likes tea.", user_id="u")
        assert other.stats().facts == 0


def test_after_a_fork_parent_and_child_both_go_on(path: Path) -> None:
    with open_memory(path) as memory:
        memory.remember("Known before the fork.", user_id="u")

        def child() -> str:
            memory.remember("Learnt by the child.", user_id="u")
            found = memory.search("fork", user_id="u")[0].text
            memory.close()
            return found

        answer = in_child(child)
        memory.remember("Learnt by the parent.", user_id="u")
        texts = {fact.text for fact in memory.get_all(user_id="u")}
    assert answer == "Known before the fork."
    assert texts == {"Known before the fork.", "Learnt by the child.", "Learnt by the parent."}


def test_after_a_fork_the_child_may_embed_with_the_parents_model(path: Path) -> None:
    with Memory(path, extractor=False) as memory:
        memory.remember("Ana moved to Lisbon.", user_id="u")

        def child() -> str:
            memory.remember("Ben bought a new bicycle.", user_id="u")
            return memory.search("two wheels to ride on", user_id="u")[0].text

        assert in_child(child) == "Ben bought a new bicycle."
        assert memory.search("cycling", user_id="u")[0].text == "Ben bought a new bicycle."


def test_a_fork_while_threads_work_leaves_the_child_usable(path: Path) -> None:
    with open_memory(path) as memory:
        stop = threading.Event()

        def write() -> None:
            number = 0
            while not stop.is_set():
                memory.remember(f"Fact number {number}.", user_id="writer")
                number += 1

        thread = threading.Thread(target=write)
        thread.start()
        try:
            answers = [
                in_child(lambda n=n: memory.remember(f"Child {n} wrote this.", user_id="u").status) for n in range(5)
            ]
        finally:
            stop.set()
            thread.join()
        assert answers == ["done"] * 5
        assert len(memory.get_all(user_id="u")) == 5


def test_a_killed_writer_loses_nothing_it_was_told_was_stored(path: Path) -> None:
    told: list[str] = []
    for life in range(4):
        receiver, sender = os.pipe()
        pid = os.fork()
        if pid == 0:
            memory = open_memory(path)
            for number in range(10_000):
                memory.add(f"Message {number} of life {life}.", user_id="u")
                os.write(sender, f"Message {number} of life {life}.\n".encode())
            os._exit(1)
        os.close(sender)
        with os.fdopen(receiver, "r", encoding="utf-8") as pipe:
            told += [pipe.readline().strip() for _ in range(3 + 2 * life)]
            os.kill(pid, signal.SIGKILL)
            told += [line.strip() for line in pipe if line.endswith("\n")]
        os.waitpid(pid, 0)
    with open_memory(path) as memory:
        assert memory.search(told[-1], user_id="u")[0].text == told[-1]
        count = memory.stats().messages
    db = sqlite3.connect(path)
    stored = {content for (content,) in db.execute("SELECT content FROM messages")}
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()
    assert stored >= set(told)
    assert count == len(stored)


def test_a_killed_creator_leaves_a_file_that_can_be_opened(tmp_path: Path) -> None:
    for attempt in range(20):
        path = tmp_path / f"{attempt}.db"
        pid = os.fork()
        if pid == 0:
            open_memory(path).remember("Ana likes tea.", user_id="u")
            os._exit(0)
        time.sleep(attempt / 2000)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        with open_memory(path) as memory:
            assert memory.stats().facts in (0, 1)
            assert memory.remember("Ben likes coffee.", user_id="u").facts


def test_a_killed_deletion_is_whole_or_not_at_all(path: Path) -> None:
    for attempt in range(6):
        with open_memory(path) as memory:
            memory.remember([f"Fact {n} of life {attempt}." for n in range(300)], user_id="u")
        pid = os.fork()
        if pid == 0:
            open_memory(path).delete_all(user_id="u")
            os._exit(0)
        time.sleep(attempt / 200)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        with open_memory(path) as memory:
            assert memory.stats().facts in (0, 300)
            memory.delete_all(user_id="u")


# Stock SQLite.


@pytest.fixture
def used(path: Path) -> Path:
    """A file that was written to, changed, and deleted from, then compacted for older SQLite versions."""
    with Memory(path, extractor=False) as memory:
        memory.add("Is the kettle on?", user_id="u", extract="never")
        facts = memory.remember(
            ["Ana likes green tea.", "Ben likes black coffee.", "Ana 喜欢绿茶。", "Cleo plays chess."], user_id="u"
        ).facts
        memory.update(facts[1].id, text="Ben likes strong black coffee.")
        memory.delete(facts[3].id)
        memory.compact()
    return path


STOCK_QUERIES = [
    pytest.param("SELECT count(*) FROM current_facts", "3", id="current-facts"),
    pytest.param("SELECT count(*) FROM facts WHERE live = 1", "3", id="facts"),
    pytest.param("SELECT content FROM messages", "Is the kettle on?", id="messages"),
    pytest.param("SELECT count(*) FROM events WHERE action = 'ADD'", "4", id="history"),
    pytest.param("SELECT count(*) FROM events WHERE action = 'DELETE'", "1", id="deletions"),
    pytest.param(
        "SELECT text FROM facts WHERE id IN (SELECT rowid FROM fact_words WHERE fact_words MATCH 'tea')",
        "Ana likes green tea.",
        id="words",
    ),
    pytest.param(
        "SELECT f.text FROM fact_words w JOIN facts f ON f.id = w.rowid WHERE fact_words MATCH 'words : 绿茶'",
        "Ana 喜欢绿茶。",
        id="bigrams",
    ),
    pytest.param("SELECT count(*) FROM fact_words WHERE fact_words MATCH 'chess'", "0", id="deleted-words"),
    pytest.param("SELECT count(*) FROM message_words WHERE message_words MATCH 'kettle'", "1", id="message-words"),
    pytest.param("PRAGMA integrity_check", "ok", id="integrity"),
]


@pytest.mark.parametrize(("query", "answer"), STOCK_QUERIES)
def test_pythons_own_sqlite3_reads_the_file(used: Path, query: str, answer: str) -> None:
    db = sqlite3.connect(used)
    rows = db.execute(query).fetchall()
    db.close()
    assert [str(value) for (value,) in rows] == [answer]


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="the sqlite3 command is not installed")
@pytest.mark.parametrize(("query", "answer"), STOCK_QUERIES)
def test_the_sqlite3_command_reads_the_file(used: Path, query: str, answer: str) -> None:
    done = subprocess.run(["sqlite3", str(used), query], capture_output=True, text=True, encoding="utf-8", check=True)
    assert (done.stdout.strip(), done.stderr) == (answer, "")


def test_stock_sqlite3_may_delete_facts_and_their_words_follow(used: Path) -> None:
    db = sqlite3.connect(used)
    db.execute("PRAGMA foreign_keys = ON")
    with db:
        db.execute("DELETE FROM facts WHERE text LIKE '%green tea%'")
    assert db.execute("SELECT count(*) FROM fact_words WHERE fact_words MATCH 'tea'").fetchone() == (0,)
    db.execute("INSERT INTO fact_words(fact_words) VALUES ('integrity-check')")
    db.close()
    with Memory(used, extractor=False) as memory:
        found = [hit.text for hit in memory.search("green tea", user_id="u", include="facts")]
        assert "Ana likes green tea." not in found
        assert found


def test_stock_sqlite3_cannot_rewrite_the_history(used: Path) -> None:
    db = sqlite3.connect(used)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        db.execute("DELETE FROM events")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        db.execute("UPDATE events SET action = 'ADD' WHERE action = 'DELETE'")
    db.close()


def test_compacting_gives_free_space_back(path: Path) -> None:
    with open_memory(path) as memory:
        empty = memory.stats().bytes
        memory.remember([f"Fact number {n}: " + "tea " * 200 for n in range(100)], user_id="u")
        memory.delete_all(user_id="u")
        memory.compact()
        assert memory.stats().bytes < 1.5 * empty


def test_a_deleted_scope_is_unknown_and_the_file_goes_on(memory: Memory) -> None:
    fact = memory.remember("Ana likes tea.", user_id="u").facts[0]
    memory.delete_all(user_id="u")
    with pytest.raises(NotFoundError):
        memory.get(fact.id)
    assert memory.remember("Ana likes tea.", user_id="u").facts[0].id != fact.id
