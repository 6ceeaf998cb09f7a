"""Encrypted files: nothing is readable without the key, a wrong one changes nothing, a new one is all or nothing."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner

from memlite import (
    DamagedFileError,
    FileError,
    ForeignFileError,
    InvalidInputError,
    MemliteError,
    Memory,
    WrongKeyError,
    cipher,
    cli,
    erasure,
    salvage,
    wire,
)
from memlite.check import check
from memlite.db import PAGE_CACHE_KIB, Database
from memlite.rekey import rekey
from memlite.schema import run

FORK = multiprocessing.get_context("fork")
KEY = "a quoted ' key, 鍵"
ROOT = Path(__file__).parent.parent
CANARIES = [b"zanzibar", b"osteria", b"ferry"]  # of facts, messages and ids, in small letters


class Letters:
    """An embedder whose vectors count letters."""

    name = "letters"
    dimension = 26

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0 + 5 * text.lower().count(chr(97 + at)) for at in range(26)] for text in texts]


def opened(path: Path | str, key: str | bytes | None = KEY) -> Memory:
    return Memory(path, key=key, embedder=Letters(), extractor=False)


@pytest.fixture
def secret(path: Path) -> Path:
    """An encrypted file."""
    fill(path, KEY)
    return path


@pytest.fixture
def plain(path: Path) -> Path:
    """The same one, plain."""
    fill(path, None)
    return path


def fill(path: Path, key: str | None) -> None:
    with opened(path, key) as memory:
        memory.remember([f"Zanzibar has {n} spices." for n in range(40)], user_id="ferry")
        memory.add("The risotto is at Osteria Lume.", user_id="ferry", extract="never")


def told(path: Path, key: str | bytes | None) -> list[tuple[str, float]]:
    with opened(path, key) as memory:
        return [(hit.text, hit.score) for hit in memory.search("spices of Zanzibar", user_id="ferry")]


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file but the index of a log, which is no data."""
    files = [file for file in folder.iterdir() if not file.name.endswith("-shm")]
    return {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


def readable(path: Path) -> set[bytes]:
    """The canaries in the bytes of all files beside one another."""
    data = b"".join(file.read_bytes() for file in path.parent.iterdir()).lower()
    return {canary for canary in CANARIES if canary in data}


def test_the_driver_that_is_tested_encrypts() -> None:
    """memlite's own dependency; where another package has put apsw over it nothing below could be tested."""
    assert hasattr(apsw, "mc_version"), "pip install --force-reinstall --no-deps apsw-sqlite3mc"


# What can be read.


def test_words_vectors_and_entities_are_found_in_an_encrypted_file_as_in_a_plain_one(tmp_path: Path) -> None:
    fill(tmp_path / "plain.db", None)
    fill(tmp_path / "secret.db", KEY)
    found = told(tmp_path / "secret.db", KEY)
    assert len(found) == 10
    assert found == told(tmp_path / "plain.db", None)


def test_no_word_and_no_vector_stands_in_the_file_or_its_log(path: Path) -> None:
    with opened(path) as memory:
        fill_more(memory)
        assert Path(f"{path}-wal").stat().st_size > 0
        vector = memory._database._writer.execute("SELECT vector FROM fact_vectors LIMIT 1").get
        for checkpoint in ("PASSIVE", "TRUNCATE"):
            data = b"".join(file.read_bytes() for file in path.parent.iterdir())
            assert not readable(path)
            assert vector not in data
            assert b"CREATE TABLE" not in data
            memory._database._writer.execute(f"PRAGMA wal_checkpoint({checkpoint})").fetchall()
    assert not readable(path)


def fill_more(memory: Memory) -> None:
    memory.remember([f"Zanzibar has {n} spices." for n in range(40)], user_id="ferry")
    memory.add("The risotto is at Osteria Lume.", user_id="ferry", extract="never")


def test_the_search_for_what_is_readable_would_find_it(plain: Path) -> None:
    assert readable(plain) == set(CANARIES)


def test_compacting_leaves_an_encrypted_file_encrypted(secret: Path) -> None:
    with opened(secret) as memory:
        memory.compact()
        assert not readable(secret)
    assert told(secret, KEY)


@pytest.mark.parametrize(
    "key",
    ["word", b"\x00\xff\x27 bytes", "x" * 1000, " ", "raw:" + "7" * 96, "x'" + "7" * 64 + "'"],
    ids=["text", "bytes", "long", "space", "like-a-raw-key", "like-a-blob"],
)
def test_any_text_or_bytes_is_a_key(path: Path, key: str | bytes) -> None:
    with opened(path, key) as memory:
        memory.remember("Zanzibar has spices.", user_id="ferry")
    assert not readable(path)
    assert told(path, key)


def test_the_key_of_a_text_is_its_utf_8(secret: Path) -> None:
    assert told(secret, KEY.encode())


def test_other_programs_with_the_same_driver_read_the_file_by_its_key(secret: Path) -> None:
    connection = apsw.Connection(str(secret))
    connection.pragma("key", KEY)
    assert connection.execute("SELECT count(*) FROM facts").get == 40
    connection.close()


def test_every_thread_and_a_forked_child_read_with_the_key(secret: Path) -> None:
    with opened(secret) as memory:
        child = FORK.Process(target=lambda: sys.exit(not memory.search("spices", user_id="ferry")))
        child.start()
        child.join()
        assert child.exitcode == 0


def make(path: Path, barrier: Any) -> None:
    barrier.wait()
    with opened(path) as memory:
        memory.remember(f"Process {os.getpid()} likes tea.", user_id="ferry")


def test_processes_that_make_a_file_at_once_make_one(path: Path) -> None:
    """Each salts the key of a new file otherwise; only the first one's salt is in the file."""
    barrier = FORK.Barrier(4)
    makers = [FORK.Process(target=make, args=(path, barrier)) for _ in range(4)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert [maker.exitcode for maker in makers] == [0] * 4
    assert check(path, key=KEY).rows["facts"] == 4


def test_the_page_cache_of_an_encrypted_file_is_larger(tmp_path: Path) -> None:
    sizes = []
    for key in (None, KEY.encode()):
        database = Database(tmp_path / f"{key!r}.db", key)
        with database.read() as db:
            sizes.append(-db.execute("PRAGMA cache_size").get)
        database.close()
    assert sizes[0] == PAGE_CACHE_KIB
    assert sizes[1] >= 4 * PAGE_CACHE_KIB


def test_nothing_is_written_aside_in_the_clear(secret: Path) -> None:
    with opened(secret) as memory, memory._database.read() as db:
        assert db.execute("PRAGMA temp_store").get == 2  # memory


# The wrong key, and none.


@pytest.mark.parametrize("use", [told, lambda path, key: check(path, key=key)], ids=["opened", "looked-at"])
@pytest.mark.parametrize(
    ("of_file", "given", "words"),
    [
        pytest.param(KEY, "wrong", "another key", id="wrong-key"),
        pytest.param(KEY, None, "is encrypted. Give its key", id="no-key"),
        pytest.param(None, "any", "is not encrypted", id="key-for-a-plain-file"),
    ],
)
def test_a_key_that_is_not_the_files_is_refused_and_nothing_touched(
    path: Path, of_file: str | None, given: str | None, words: str, use: Callable[[Path, str | None], object]
) -> None:
    fill(path, of_file)
    before = contents(path.parent)
    with pytest.raises(WrongKeyError, match=words):
        use(path, given)
    assert contents(path.parent) == before
    assert told(path, of_file)


def foreign_plain(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs(x)")
    connection.close()


def foreign_with_our_key(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.pragma("key", KEY)
    run(connection, "PRAGMA application_id = 7; CREATE TABLE theirs(x)")
    connection.close()


def foreign_with_another_key_and_a_log(path: Path) -> None:
    original = path.with_suffix(".original")
    connection = apsw.Connection(str(original))
    connection.pragma("key", "theirs")
    run(connection, "PRAGMA journal_mode = WAL; CREATE TABLE theirs(x)")
    for ending in ("", "-wal", "-shm"):
        path.with_name(path.name + ending).write_bytes(original.with_name(original.name + ending).read_bytes())
    connection.close()
    original.unlink()


@pytest.mark.parametrize(
    ("harm", "error"),
    [
        (foreign_plain, WrongKeyError),
        (foreign_with_our_key, ForeignFileError),
        (foreign_with_another_key_and_a_log, WrongKeyError),
        (lambda path: path.write_bytes(random.Random(1).randbytes(8192)), ForeignFileError),
        (lambda path: path.write_text("Dear diary, " * 50), ForeignFileError),
    ],
    ids=["plain", "our-key", "another-key", "random", "text"],
)
def test_with_a_key_a_foreign_file_is_refused_untouched_too(
    path: Path, harm: Callable[[Path], object], error: type[MemliteError]
) -> None:
    harm(path)
    before = contents(path.parent)
    with pytest.raises(error):
        opened(path)
    assert contents(path.parent) == before


@pytest.mark.parametrize("key", ["", b"", 7, True, "\ud800"])
def test_what_is_no_key_is_refused_before_a_file_is_made(path: Path, key: Any) -> None:
    with pytest.raises(InvalidInputError, match="key"):
        opened(path, key)
    assert not path.exists()


def test_an_empty_key_in_the_environment_makes_no_plain_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLITE_KEY", "")
    with pytest.raises(InvalidInputError, match="MEMLITE_KEY"):
        opened(path, None)
    assert not path.exists()


def test_the_key_in_the_environment_is_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLITE_KEY", KEY)
    fill(path, None)
    assert not readable(path)
    monkeypatch.delenv("MEMLITE_KEY")
    assert told(path, KEY)


def test_a_memory_without_a_file_takes_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match="nothing to encrypt"):
        opened(":memory:", KEY)
    monkeypatch.setenv("MEMLITE_KEY", KEY)
    with opened(":memory:", None) as memory:
        assert memory.remember("Ana likes tea.", user_id="ana").facts


def test_without_a_driver_that_encrypts_a_key_is_an_error_that_says_what_to_install(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(apsw, "mc_version", raising=False)
    with pytest.raises(FileError, match="pip install --force-reinstall --no-deps apsw-sqlite3mc"):
        opened(path)
    assert not path.exists()
    with opened(path, None) as memory:
        memory.remember("Ana likes tea.", user_id="ana")


def test_what_is_left_of_a_driver_that_was_uninstalled_is_an_error_that_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "apsw").mkdir()
    (tmp_path / "apsw" / "__init__.py").touch()
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))}
    code = "from memlite import Memory"
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, cwd=ROOT)
    assert "pip install --force-reinstall --no-deps apsw-sqlite3mc" in done.stderr


def test_a_first_page_that_a_power_cut_has_torn_is_read_from_the_log(secret: Path) -> None:
    """A checkpoint was writing it: the log has it whole."""

    def die() -> None:
        memory = opened(secret)
        memory.remember([f"Zanzibar has {n} doors." for n in range(200)], user_id="ferry")
        os.kill(os.getpid(), signal.SIGKILL)

    child = FORK.Process(target=die)
    child.start()
    child.join()
    data = bytearray(secret.read_bytes())
    data[2000:4096] = bytes(2096)
    secret.write_bytes(data)
    with opened(secret) as memory:
        assert len(memory.get_all(user_id="ferry", limit=500)) == 240


# Damage.


def change(path: Path, at: int, bytes_: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[at : at + bytes_] = bytes(byte ^ 1 for byte in data[at : at + bytes_])
    path.write_bytes(data)


def texts(path: Path, key: str | None) -> set[str]:
    with opened(path, key) as memory:
        messages = memory._database._writer.execute("SELECT content FROM messages").fetchall()
        return {fact.text for fact in memory.get_all(user_id="ferry", limit=500)} | {text for (text,) in messages}


def test_a_changed_byte_is_noticed(secret: Path) -> None:
    change(secret, 5 * 4096 + 100)
    assert check(secret, key=KEY).damage


def test_a_file_whose_first_page_was_changed_is_damaged_and_a_wrong_key_is_one_still(secret: Path) -> None:
    change(secret, 2000)
    before = contents(secret.parent)
    with pytest.raises(DamagedFileError, match="its first page was changed"):
        opened(secret)
    with pytest.raises(WrongKeyError, match="another key"):
        opened(secret, "wrong")
    assert contents(secret.parent) == before


@pytest.mark.parametrize("at", [2000, 5 * 4096 + 100], ids=["first-page", "another-page"])
def test_a_damaged_file_is_saved_into_one_with_the_same_key(
    secret: Path, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(secret) as memory:
        memory.add("Osteria Lume is far. " * 1000, user_id="ferry", extract="never")  # of several pages
    before = texts(secret, KEY)
    change(secret, at)
    aside: list[bytes] = []
    put_in_order = salvage._put_in_order
    monkeypatch.setattr(
        salvage,
        "_put_in_order",
        lambda made, *given: (
            aside.extend(file.read_bytes().lower() for file in made.parent.iterdir()),
            put_in_order(made, *given),
        )[1],
    )
    saved = salvage.salvage(secret, key=KEY)
    assert len(aside) >= 2
    assert not any(canary in data for canary in CANARIES for data in aside)
    assert not readable(secret)
    assert texts(Path(saved.path), KEY) == before


def test_a_page_that_is_lost_takes_only_its_rows_with_it(secret: Path) -> None:
    before = texts(secret, KEY)
    connection = apsw.Connection(str(secret))
    connection.pragma("key", KEY)
    leaf = connection.execute("SELECT max(pageno) FROM dbstat WHERE name = 'facts' AND pagetype = 'leaf'").get
    connection.close()
    data = bytearray(secret.read_bytes())
    data[(leaf - 1) * 4096 : leaf * 4096] = random.Random(5).randbytes(4096)
    secret.write_bytes(data)
    saved = salvage.salvage(secret, key=KEY)
    after = texts(Path(saved.path), KEY)
    assert after < before
    assert after


def test_a_file_that_was_made_plain_again_is_saved_too(secret: Path) -> None:
    """Its pages end where the cipher had its own bytes."""
    with opened(secret) as memory:
        memory.add("Osteria Lume is far. " * 1000, user_id="ferry", extract="never")
    before = texts(secret, KEY)
    rekey(secret, None, key=KEY)
    saved = salvage.salvage(secret)
    assert saved.lost == {"facts": 0, "messages": 0}
    assert texts(Path(saved.path), None) == before


def test_a_damaged_file_is_saved_with_its_own_key_only(secret: Path) -> None:
    change(secret, 2000)
    with pytest.raises(FileError, match="nothing can be read"):
        salvage.salvage(secret, key="wrong")
    assert [file.name for file in secret.parent.iterdir()] == ["memory.db"]


def test_doctor_saves_what_can_be_read_of_an_encrypted_file(secret: Path) -> None:
    before = texts(secret, KEY)
    change(secret, 2000)
    environ = {"MEMLITE_KEY": KEY, "MEMLITE_EXTRACTOR": "off"}
    shown = command("--db", str(secret), "doctor", "--repair", env=environ, code=1)
    assert "saved" in shown
    assert texts(secret.with_name("memory.salvaged.db"), KEY) == before


def test_an_error_that_sqlite_gives_is_no_damage_of_an_encrypted_file(secret: Path) -> None:
    with opened(secret) as memory:
        with pytest.raises(FileError, match="cannot do this") as raised, memory._database.write() as db:
            db.execute("SELECT * FROM no_such_table")
        assert not isinstance(raised.value, DamagedFileError)


# Deletion and backup.


def test_a_deletion_looks_into_the_decrypted_pages(secret: Path) -> None:
    with opened(secret) as memory:
        receipt = memory.delete(memory.get_all(user_id="ferry")[0].id)
    assert receipt.clean
    assert [place.name for place in receipt.checked][-1] == "file"
    assert not receipt.notes


def test_what_a_deletion_leaves_in_an_encrypted_file_is_told(secret: Path) -> None:
    """A row that is freed without being overwritten, as by a program that knows no secure_delete."""
    connection = apsw.Connection(str(secret))
    connection.pragma("key", KEY)
    run(connection, "PRAGMA secure_delete = OFF; CREATE TABLE theirs(x)")
    connection.execute("INSERT INTO theirs VALUES (?)", ("Zanzibar has 7 spices. " * 400,))
    run(connection, "DROP TABLE theirs")
    connection.close()
    with opened(secret) as memory:
        (fact,) = [fact for fact in memory.get_all(user_id="ferry") if fact.text == "Zanzibar has 7 spices."]
        receipt = memory.delete(fact.id)
    assert not receipt.clean
    assert {place.name: place.after for place in receipt.checked}["file"] > 0


@pytest.mark.parametrize("cause", ["large", "log"])
def test_a_receipt_says_when_it_did_not_look_into_an_encrypted_file(
    secret: Path, monkeypatch: pytest.MonkeyPatch, cause: str
) -> None:
    with opened(secret) as memory, opened(secret) as other, other._database.read() as reader:
        if cause == "large":
            monkeypatch.setattr(erasure, "MOST_DECRYPTED", 1000)
        else:
            reader.execute("SELECT count(*) FROM facts").fetchone()
        receipt = memory.delete(memory.get_all(user_id="ferry")[0].id)
    assert "file" not in [place.name for place in receipt.checked]
    assert any("was not searched" in note for note in receipt.notes)
    assert receipt.clean == (cause == "large")


def test_a_receipt_says_when_a_page_that_is_free_could_not_be_decrypted(secret: Path) -> None:
    connection = apsw.Connection(str(secret))
    connection.pragma("key", KEY)
    run(connection, "CREATE TABLE theirs(x)")
    connection.execute("INSERT INTO theirs VALUES (?)", ("much " * 20_000,))
    run(connection, "DROP TABLE theirs")
    connection.close()
    change(secret, secret.stat().st_size - 2000)
    with opened(secret) as memory:
        receipt = memory.delete(memory.get_all(user_id="ferry")[0].id)
        assert len(memory.get_all(user_id="ferry", limit=100)) == 39
    assert "file" not in [place.name for place in receipt.checked]
    assert any("was not searched" in note for note in receipt.notes)


def test_a_backup_of_an_encrypted_file_has_its_key(secret: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with opened(secret) as memory:
        made = memory.backup(copy)
        memory.remember("Zanzibar has cloves.", user_id="ferry")
        assert memory.backup(copy, replace=True).ok
    assert made.ok
    assert made.encrypted
    assert not readable(copy)
    assert told(copy, KEY)
    with pytest.raises(WrongKeyError):
        check(copy)


# In and out.


def test_an_export_is_taken_into_an_encrypted_file_and_leaves_no_word_there(secret: Path, tmp_path: Path) -> None:
    out, environ = tmp_path / "out.jsonl", {"MEMLITE_KEY": KEY}
    other = tmp_path / "other" / "memory.db"
    command("--db", str(secret), "export", str(out), env=environ)
    command("--db", str(other), "import", str(out), "--dry-run", env=environ)
    assert not other.exists()
    command("--db", str(other), "import", str(out), env=environ)
    assert not readable(other)
    assert texts(other, KEY) == texts(secret, KEY)


def test_no_export_takes_the_place_of_an_encrypted_file(secret: Path, tmp_path: Path) -> None:
    with opened(tmp_path / "other.db", None) as memory:
        memory.remember("Ana likes tea.", user_id="ana")
        with pytest.raises(InvalidInputError, match="an export would replace"):
            memory.export(secret)
    assert told(secret, KEY)


def test_an_encrypted_file_is_no_text_to_be_imported(secret: Path, tmp_path: Path) -> None:
    with opened(tmp_path / "other.db", None) as memory, pytest.raises(InvalidInputError, match="encrypted database"):
        memory.import_file(secret, user_id="ana")


def test_vectors_that_are_made_anew_are_encrypted_too(secret: Path) -> None:
    with opened(secret) as memory:
        memory.reembed()
        assert not readable(secret)
        assert memory.search("spices", user_id="ferry")


# Another key.


@pytest.mark.parametrize(
    ("old", "new"), [(None, KEY), (KEY, "another"), (KEY, None)], ids=["encrypt", "change", "decrypt"]
)
def test_a_file_gets_another_key_and_keeps_all_it_has(path: Path, old: str | None, new: str | None) -> None:
    fill(path, old)
    with opened(path, old) as memory:
        memory.delete(memory.get_all(user_id="ferry")[3].id)
        path.chmod(0o640)
    before, rows = told(path, old), check(path, key=old).rows
    changed = rekey(path, new, key=old)
    assert changed.ok
    assert changed.path == str(path)
    assert changed.encrypted == (new is not None)
    assert changed.rows == rows
    assert [file.name for file in path.parent.iterdir()] == ["memory.db"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert bool(readable(path)) == (new is None)
    with pytest.raises(WrongKeyError):
        opened(path, old)
    assert told(path, new) == before


def test_the_key_in_the_environment_is_not_that_of_a_plain_file(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLITE_KEY", KEY)
    assert rekey(plain, KEY).encrypted


@pytest.mark.parametrize("held", ["in-this-process", "in-another"])
def test_a_file_that_is_open_keeps_its_key(plain: Path, held: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memlite.rekey._WAIT_MS", 50)
    code = "import sys; from memlite import Memory; m = Memory(sys.argv[1], embedder=False, extractor=False);"
    code += "print(len(m.get_all(user_id='ferry')), flush=True); sys.stdin.read()"
    if held == "in-another":
        other = subprocess.Popen(
            [sys.executable, "-c", code, plain], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert other.stdout is not None
        assert other.stdout.readline() == "40\n"
    else:
        memory = opened(plain, None)
        memory.get_all(user_id="ferry")
    with pytest.raises(FileError, match="is open in another process, or in this one"):
        rekey(plain, KEY)
    if held == "in-another":
        other.communicate()
    else:
        memory.remember("Zanzibar has cloves.", user_id="ferry")
        memory.close()
    assert told(plain, None)
    assert [file.name for file in plain.parent.iterdir()] == ["memory.db"]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        pytest.param({"new_key": KEY, "key": KEY}, "has this key already", id="same-key"),
        pytest.param({"new_key": "", "key": KEY}, "empty", id="empty-key"),
        pytest.param({"new_key": "other", "key": "wrong"}, "another key", id="wrong-key"),
        pytest.param({"new_key": "other"}, "Give its key", id="no-key"),
    ],
)
def test_a_key_that_cannot_be_is_refused_and_nothing_touched(secret: Path, given: dict[str, Any], error: str) -> None:
    before = contents(secret.parent)
    with pytest.raises(MemliteError, match=error):
        rekey(secret, **given)
    assert contents(secret.parent) == before


def test_a_file_with_another_name_keeps_its_key(plain: Path, tmp_path: Path) -> None:
    (tmp_path / "other.db").hardlink_to(plain)
    with pytest.raises(InvalidInputError, match="hard link"):
        rekey(plain, KEY)
    assert told(plain, None)


def test_a_link_to_the_file_stays_one(plain: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(plain)
    rekey(link, KEY)
    assert link.is_symlink()
    assert told(plain, KEY)


WAITS = """
import sys
from memlite import FileError, Memory
print("ready", flush=True)
try:
    with Memory(sys.argv[1], embedder=False, extractor=False) as memory:
        memory.remember("Zanzibar has cloves.", user_id="ferry")
    print("stored")
except FileError as error:
    print(error)
"""


def test_who_waits_for_the_file_meanwhile_writes_to_none_that_is_gone(
    plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has found the plain file and waits for its lock, which it gets when the file is gone."""
    from memlite import backup

    named, answers = backup.name, []

    def name_while_somebody_waits(partial: Path, to: Path) -> None:
        waiting = subprocess.Popen([sys.executable, "-c", WAITS, plain], stdout=subprocess.PIPE, text=True)
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "ready\n"
        time.sleep(0.3)  # until it waits; where it has not come so far, it finds the new file
        named(partial, to)
        answers.append(waiting)

    monkeypatch.setattr(backup, "name", name_while_somebody_waits)
    rekey(plain, KEY)
    said, _ = answers[0].communicate()
    assert "Open it again" in said or "is encrypted" in said
    assert [file.name for file in plain.parent.iterdir()] == ["memory.db"]
    found = check(plain, key=KEY)
    assert found.ok
    assert found.rows["facts"] == 40


@pytest.mark.parametrize("old", [None, KEY], ids=["encrypting", "decrypting"])
def test_killed_at_any_moment_the_file_has_its_old_key_or_its_new_one(tmp_path: Path, old: str | None) -> None:
    new = KEY if old is None else None
    seconds = random.Random(3)
    fill(tmp_path / "first.db", old)
    for number in range(6):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / "memory.db"
        path.write_bytes((tmp_path / "first.db").read_bytes())
        child = FORK.Process(target=rekey, args=(path, new), kwargs={"key": old})
        child.start()
        time.sleep(0.12 * seconds.random())
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        done = path.read_bytes().startswith(cipher.MAGIC) == (new is None)
        with opened(path, new if done else old) as memory:
            assert len(memory.get_all(user_id="ferry")) == 40
            memory.remember("Zanzibar has cloves.", user_id="ferry")
        if not done:
            rekey(path, new, key=old)
        assert check(path, key=new).ok
        assert check(path, key=new).rows["facts"] == 41
        assert [file.name for file in folder.iterdir()] == ["memory.db"]


# The command line.


def command(*words: str, code: int = 0, env: dict[str, str] | None = None, typed: str | None = None) -> str:
    result = CliRunner().invoke(cli.main, list(words), env={"MEMLITE_EMBEDDER": "off", **(env or {})}, input=typed)
    assert result.exit_code == code, result.output
    return result.output


def test_the_commands_take_the_key_from_the_environment_or_ask_for_it(secret: Path) -> None:
    db = ("--db", str(secret))
    assert "Zanzibar" in command(*db, "list", "--user", "ferry", env={"MEMLITE_KEY": KEY})
    shown = command(*db, "--ask-key", "list", "--user", "ferry", typed=f"{KEY}\n")
    assert "Zanzibar" in shown
    assert KEY not in shown
    assert "another key" in command(*db, "--ask-key", "list", typed="wrong\n", code=1)
    assert "is encrypted" in command(*db, "list", code=1)
    assert command("check", str(secret), env={"MEMLITE_KEY": KEY}).startswith("ok")
    findings = json.loads(command(*db, "doctor", "--json", env={"MEMLITE_KEY": KEY, "MEMLITE_EXTRACTOR": "off"}))
    assert {"file": True}.items() <= {finding["name"]: finding["ok"] for finding in findings}.items()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who types the commands sits at a terminal."""
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda self: True, raising=False)


def test_at_a_terminal_an_encrypted_files_key_is_asked_for(secret: Path, terminal: None) -> None:
    assert "Zanzibar" in command("--db", str(secret), "list", "--user", "ferry", typed=f"{KEY}\n")


def test_a_new_files_key_is_typed_twice(path: Path) -> None:
    command("--db", str(path), "--ask-key", "remember", "Zanzibar has spices.", typed=f"{KEY}\n{KEY}\n")
    assert not readable(path)
    assert told(path, KEY) == []
    assert check(path, key=KEY).rows["facts"] == 1


def test_the_command_changes_the_key(plain: Path) -> None:
    db = ("--db", str(plain))
    assert "encrypted" in command(*db, "rekey", env={"MEMLITE_NEW_KEY": "one"})
    command(*db, "rekey", env={"MEMLITE_KEY": "one"}, typed=f"{KEY}\n{KEY}\n")
    assert told(plain, KEY)
    command(*db, "rekey", "--decrypt", env={"MEMLITE_KEY": KEY})
    assert told(plain, None)


def test_the_key_is_neither_printed_nor_in_an_error(secret: Path) -> None:
    digest = hashlib.sha256(secret.read_bytes()).hexdigest()
    shown = command("--db", str(secret), "list", code=1, env={"MEMLITE_KEY": "a wrong secret"})
    assert "a wrong secret" not in shown
    with pytest.raises(WrongKeyError) as raised:
        opened(secret, "a wrong secret")
    assert "a wrong secret" not in str(raised.value)
    assert hashlib.sha256(secret.read_bytes()).hexdigest() == digest


def test_an_assistants_server_needs_the_key(secret: Path) -> None:
    pytest.importorskip("mcp")
    assert "is encrypted" in command("--db", str(secret), "mcp", code=1)
    assert "another key" in command("--db", str(secret), "mcp", code=1, env={"MEMLITE_KEY": "wrong"})


# A server.


def test_only_a_digest_of_the_key_is_told_to_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    without = wire.identity()
    monkeypatch.setenv("MEMLITE_KEY", KEY)
    monkeypatch.setenv("MEMLITE_NEW_KEY", "another")
    told = wire.identity()
    assert {name for name in told if name not in without} == {"the key"}
    assert KEY not in str(told)
    assert told == wire.identity(KEY.encode())
    assert told != wire.identity(b"another")
