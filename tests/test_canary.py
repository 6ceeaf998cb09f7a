"""A text that was deleted: with a reader open, after a crash, in a file restored from a backup, in the files beside it.

What the receipt says is true in each case: it is clean only where no byte of the text is left.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from memlite import Memory, NotFoundError, Receipt
from memlite.db import Database
from tests.test_delete import CANARY, MARK, Distinct, Echo

FORK = multiprocessing.get_context("fork")
TEXT = f"{CANARY} likes tea, and keeps the spoon that {CANARY}'s grandmother left behind."


def open_memory(path: Path) -> Memory:
    return Memory(path, embedder=Distinct(), extractor=Echo())


def places(path: Path) -> list[str]:
    """The files beside each other that hold the canary."""
    files = sorted(file for file in path.parent.iterdir() if file.is_file())
    return [file.name for file in files if MARK in file.read_bytes().lower()]


def rows(path: Path) -> dict[str, int]:
    """In how many rows of each table the canary stands."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    tables = [
        name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%STRICT%'")
    ]
    found = {}
    for table in tables:
        count = sum(CANARY.lower() in repr(row).lower() for row in db.execute(f"SELECT * FROM {table}"))
        found |= {table: count} if count else {}
    db.close()
    return found


def is_true(receipt: Receipt, path: Path) -> bool:
    """Whether a receipt that says that all is clean does so where it is."""
    return not receipt.clean or not places(path)


@pytest.fixture
def filled(path: Path) -> Path:
    """A closed file in which the canary has been everywhere: said, learnt, changed, replaced, archived, undone."""
    with open_memory(path) as memory:
        memory.remember([f"Note {n} about the garden." for n in range(40)], user_id="other")
        fill(memory)
    return path


def fill(memory: Memory) -> str:
    """The id of a fact."""
    told = memory.add({"name": CANARY, "content": TEXT}, user_id="u", metadata={"who": CANARY})
    memory.update(told.facts[0].id, metadata={"and": CANARY})
    newer = {"text": f"{CANARY} likes rum.", "replaces": told.facts[0].id}
    memory.archive(memory.remember(newer, user_id="u").facts[0].id, reason=CANARY)
    memory.undo(memory.add(f"{CANARY} rows.", user_id="u").batch)
    memory.add(f"{CANARY} swims.", user_id="u", extract="later")
    return told.facts[0].id


def test_no_byte_of_whose_memory_it_was_is_left(path: Path) -> None:
    about = {"user_id": f"{CANARY}@example.com", "agent_id": f"{CANARY} agent", "run_id": f"{CANARY} run"}
    for whole in ({"user_id": about["user_id"]}, {"everything": True}):
        with open_memory(path) as memory:
            memory.remember("Ben rows.", user_id="other")
            told = memory.add("I like tea, the green one.", **about)
            memory.set_ttl(90, **about)
            memory.archive(told.facts[0].id)
            memory.undo(memory.remember("Somebody likes rum.", user_id=about["user_id"]).batch)
            memory.delete(memory.remember("Somebody likes gin.", user_id=about["user_id"]).facts[0].id)
            assert places(path)
            receipt = memory.delete_all(**whole)
            assert receipt.clean
            assert set(receipt.ids) >= {f"{name}={value}" for name, value in about.items()}
            assert (rows(path), places(path)) == ({}, [])
            assert memory.history(told.facts[0].id)[-1].action == "DELETE"
        assert places(path) == []


# With a reader open.


@pytest.fixture
def reader(filled: Path) -> Iterator[apsw.Connection]:
    """A reader that sees the file as it was before the deletion."""
    connection = apsw.Connection(str(filled))
    connection.execute("BEGIN; SELECT count(*) FROM facts").fetchall()
    yield connection
    connection.close()


def test_with_a_reader_open_the_receipt_says_what_is_left_until_all_have_closed_it(
    filled: Path, reader: apsw.Connection
) -> None:
    memory = open_memory(filled)
    receipt = memory.delete_all(user_id="u")
    assert not receipt.clean
    assert any("all have closed it" in note for note in receipt.notes)
    left = {place.name for place in receipt.checked if place.after}
    assert left <= {"file", "log"}
    assert bool(left) == bool(places(filled))
    assert rows(filled) == {}
    assert not memory.search(CANARY, user_id="u", past=True)
    reader.execute("COMMIT")
    reader.close()
    memory.close()
    assert places(filled) == []


def test_when_the_reader_has_gone_the_next_deletion_takes_the_rest(filled: Path, reader: apsw.Connection) -> None:
    with open_memory(filled) as memory:
        assert not memory.delete_all(user_id="u").clean
        reader.execute("COMMIT")
        receipt = memory.delete_all(user_id="u")
        assert receipt.clean
        assert places(filled) == []


def test_a_reader_that_came_after_the_deletion_holds_nothing_back(filled: Path) -> None:
    with open_memory(filled) as memory, open_memory(filled) as other:
        assert other.search(CANARY, user_id="u", past=True)
        receipt = memory.delete_all(user_id="u")
        assert not other.search(CANARY, user_id="u", past=True)
        assert receipt.clean
        assert places(filled) == []


# After a crash.


def killed(path: Path, where: Any) -> None:
    """Delete in another process that is killed on the way. where: takes a function that kills it."""

    def child() -> None:
        with pytest.MonkeyPatch.context() as patch:
            memory = open_memory(path)
            where(patch, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
            memory.delete_all(user_id="u")

    process = FORK.Process(target=child)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def before_the_facts_go(patch: pytest.MonkeyPatch, kill: Any) -> None:
    patch.setattr("memlite.facts.delete", kill)


def before_the_commit(patch: pytest.MonkeyPatch, kill: Any) -> None:
    patch.setattr("memlite.batches.forget_empty", kill)


def before_the_log_is_emptied(patch: pytest.MonkeyPatch, kill: Any) -> None:
    patch.setattr(Database, "truncate_wal", kill)


@pytest.mark.parametrize("where", [before_the_facts_go, before_the_commit], ids=lambda where: where.__name__)
def test_a_deletion_killed_before_its_commit_has_not_happened(filled: Path, where: Any) -> None:
    before = rows(filled)
    killed(filled, where)
    with open_memory(filled) as memory:
        assert rows(filled) == before
        assert memory.search(CANARY, user_id="u", past=True)
        assert memory.delete_all(user_id="u").clean
        assert (rows(filled), places(filled)) == ({}, [])


@pytest.mark.parametrize("again", ["delete", "delete_all", "close"])
def test_a_deletion_killed_after_its_commit_has_happened_and_the_next_one_empties_the_log(
    filled: Path, again: str
) -> None:
    with open_memory(filled) as memory:
        fact = next(f.id for f in memory.get_all(user_id="u", past=True))
    killed(filled, before_the_log_is_emptied)
    with open_memory(filled) as memory:
        assert rows(filled) == {}
        assert not memory.search(CANARY, user_id="u", past=True)
        if again == "delete":
            with pytest.raises(NotFoundError):
                memory.delete(fact)
        elif again == "delete_all":
            assert memory.delete_all(user_id="u").clean
        if again != "close":
            assert places(filled) == []
    assert places(filled) == []


def test_a_deletion_killed_at_any_moment_is_whole_or_not_at_all(filled: Path) -> None:
    chance = random.Random(5)
    for _ in range(int(os.environ.get("MEMLITE_RUNS", "25")) // 5):
        before = rows(filled)

        def child() -> None:
            open_memory(filled).delete_all(user_id="u")
            time.sleep(10)

        process = FORK.Process(target=child)
        process.start()
        time.sleep(chance.random() * 0.15)
        assert process.pid
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        with open_memory(filled) as memory:
            assert rows(filled) in ({}, before)
            assert memory.delete_all(user_id="u").clean
            assert (rows(filled), places(filled)) == ({}, [])
            fill(memory)


# In a file that was restored.


def by_backup(path: Path, copy: Path) -> None:
    """With SQLite's backup, while the file is open."""
    source, target = apsw.Connection(str(path)), apsw.Connection(str(copy))
    with target.backup("main", source, "main") as backup:
        backup.step()
    target.close()
    source.close()


def with_its_log(path: Path, copy: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        shutil.copy(file, copy.with_name(file.name.replace(path.name, copy.name)))


def without_its_log(path: Path, copy: Path) -> None:
    shutil.copy(path, copy)


@pytest.mark.parametrize("how", [by_backup, with_its_log, without_its_log], ids=lambda how: how.__name__)
def test_what_was_deleted_here_is_deleted_in_a_restored_file_as_well(filled: Path, tmp_path: Path, how: Any) -> None:
    copy = tmp_path / "restored" / "memory.db"
    copy.parent.mkdir()
    with open_memory(filled) as memory:
        fill(memory)  # some of it in the write-ahead log only
        how(filled, copy)
        memory.delete_all(user_id="u")
        assert places(filled) == []
    assert places(copy)
    with open_memory(copy) as memory:
        assert memory.search(CANARY, user_id="u", past=True)
        assert memory.delete_all(user_id="u").clean
        assert (rows(copy), places(copy)) == ({}, [])
    assert places(copy) == []


def test_a_file_that_was_not_erased_securely_is_told_from_one_that_was(filled: Path) -> None:
    db = apsw.Connection(str(filled))  # another program, in which what is deleted stays in free pages
    db.execute("PRAGMA secure_delete = OFF")
    db.execute("CREATE TABLE scratch(text TEXT)")
    db.executemany("INSERT INTO scratch VALUES (?)", [(TEXT * 20,)] * 50)
    db.execute("DROP TABLE scratch")
    db.close()
    with open_memory(filled) as memory:
        receipt = memory.delete_all(user_id="u")
        assert is_true(receipt, filled)
        assert not receipt.clean
        assert {place.name for place in receipt.checked if place.after} == {"file"}
        memory.compact()
        assert places(filled) == []


@pytest.mark.parametrize("ending", ["-journal", "-wal"])
def test_the_files_beside_it_are_looked_at(filled: Path, ending: str) -> None:
    """A journal that another program left behind, in a mode in which it is kept."""
    with open_memory(filled) as memory:
        if ending == "-journal":
            filled.with_name(filled.name + ending).write_bytes(b"\0" * 512 + TEXT.encode())
        else:
            fill(memory)
            memory._database.truncate_wal = lambda: True  # type: ignore[method-assign]
        receipt = memory.delete_all(user_id="u")
        assert is_true(receipt, filled)
        assert {place.name for place in receipt.checked if place.after} >= {
            "journal" if ending == "-journal" else "log"
        }
