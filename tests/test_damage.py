"""A file that is damaged, full, gone or replaced: what it says, that nothing more is lost, and what can be saved."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
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
    NotFoundError,
    Salvaged,
    cli,
    db,
)
from memlite.db import contents
from memlite.salvage import recognised, salvage
from memlite.schema import run as run_script
from tests.conftest import Echo

PAGE = 4096
LOREM = "with her sister Clara, near the river Douro, " * 4
LONG = "A very long story of the river. " * 400  # of several pages


class Letters:
    """An embedder that counts letters."""

    name = "letters"
    dimension = 26

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0 + text.lower().count(chr(97 + n)) for n in range(26)] for text in texts]


def opened(path: Path) -> Memory:
    return Memory(path, embedder=Letters(), extractor=Echo())


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of which most tables have several pages."""
    path = tmp_path_factory.mktemp("damage") / "furnished.db"
    with opened(path) as memory:
        for n in range(30):
            memory.add(f"Ana keeps crate {n} in Porto, {LOREM}", user_id="ana", run_id=f"r{n % 3}")
        memory.add(LONG, user_id="ana", extract="never")
        facts = [{"text": f"Bo left box {n} in Lisbon.", "entities": ["Lisbon", f"Box {n}"]} for n in range(60)]
        first = memory.remember(facts, user_id="bo").facts[0]
        memory.remember({"text": "Bo left box 0 in Rome.", "replaces": first.id}, user_id="bo")
        memory.add("Ana has a dog called Miso.", user_id="ana", extract="later")
        memory.delete(memory.remember("Bo owes Ana a canary.", user_id="bo").facts[0].id)
    return path


@pytest.fixture
def file(furnished: Path, path: Path) -> Path:
    shutil.copy(furnished, path)
    return path


def pages_of(path: Path, name: str) -> list[int]:
    """The pages of a table or an index, its root first."""
    connection = apsw.Connection(str(path))
    rows = connection.execute("SELECT pageno FROM dbstat WHERE name = ? ORDER BY path", (name,)).fetchall()
    connection.close()
    return [number for (number,) in rows]


def spoil(path: Path, *pages: int, content: bytes = b"\xff" * PAGE) -> None:
    data = bytearray(path.read_bytes())
    for number in pages:
        data[(number - 1) * PAGE : number * PAGE] = content
    path.write_bytes(data)


GIVEN = {
    **dict.fromkeys(("scopes", "batches", "sources", "mentions", "links", "events"), "*"),
    "facts": "id, uid, scope_id, batch_id, text, hash, live, metadata, created_at, valid_to",
    "messages": "id, uid, scope_id, batch_id, content, observed_at",
    "entities": "id, uid, root_id, name, type",
}


def rows(path: Path) -> dict[str, set[str]]:
    """What a file says, without what is derived."""
    connection = sqlite3.connect(path)
    found = {
        table: {repr(row) for row in connection.execute(f"SELECT {columns} FROM {table}")}
        for table, columns in GIVEN.items()
    }
    connection.close()
    return found


def lost(before: dict[str, set[str]], path: Path) -> dict[str, int]:
    """How many rows of each table a file lacks; it has none that were not there."""
    after = rows(path)
    assert {table: after[table] - before[table] for table in before if after[table] - before[table]} == {}
    return {table: len(before[table] - after[table]) for table in before if before[table] - after[table]}


def salvaged(path: Path) -> Salvaged:
    """Save a damaged file, which stays as it is; the new one is in order and goes on."""
    before = path.read_bytes()
    result = salvage(path)
    assert path.read_bytes() == before
    assert {each.name for each in path.parent.iterdir() if path.stem in each.name} <= {
        path.name,
        Path(result.path).name,
    }
    with opened(Path(shutil.copy(result.path, path.with_name("goes-on.db")))) as memory:
        memory.work()
        repaired = memory.repair(dry_run=True)
        assert (repaired.found, memory.stats().without_vector, memory.stats().queued) == ((), 0, ())
        assert memory.remember("Bo likes tea.", user_id="bo").facts
    return result


def only_in_log(path: Path) -> Memory:
    """An open memory that has stored what only its log holds yet."""
    memory = opened(path)
    memory.remember("Bo sold the boat.", user_id="bo")
    # Not read_bytes(): closing the file would drop the locks of this process on it.
    assert b"Bo sold the boat." not in b"".join(contents(path))
    return memory


def killed(path: Path) -> None:
    """What a process leaves that was killed then."""
    pid = os.fork()
    if pid == 0:
        memory = only_in_log(path)
        os.kill(os.getpid(), signal.SIGKILL)
        memory.close()
    os.waitpid(pid, 0)


# Saved.


def test_of_a_sound_file_everything_is_saved(file: Path) -> None:
    before = rows(file)
    result = salvage(file)
    assert lost(before, Path(result.path)) == {}
    assert (dict(result.lost), result.unreadable, result.notes) == ({"facts": 0, "messages": 0}, 0, ())
    assert stat.S_IMODE(Path(result.path).stat().st_mode) == 0o600
    assert salvaged(file.rename(file.with_name("again.db"))).rows == result.rows


ROOTS = [
    "sqlite_schema", "facts", "messages", "events", "sources", "sqlite_autoindex_scopes_1", "facts_living",
    "sources_by_message", "fact_words_data", "fact_vectors",
]  # fmt: skip


@pytest.mark.parametrize("name", ROOTS)
def test_a_lost_root_page_loses_no_row(file: Path, name: str) -> None:
    before = rows(file)
    spoil(file, pages_of(file, name)[0])
    result = salvaged(file)
    assert {table: count for table, count in result.lost.items() if count} == {}
    assert lost(before, Path(result.path)) == {}


@pytest.mark.parametrize("name", ["facts", "messages", "events"])
@pytest.mark.parametrize("content", [b"\xff" * PAGE, bytes(PAGE), b"\x0d" * PAGE], ids=["ones", "zeros", "cells"])
def test_a_lost_page_of_rows_loses_those_rows_and_says_how_many(file: Path, name: str, content: bytes) -> None:
    before = rows(file)
    spoil(file, pages_of(file, name)[2], content=content)
    result = salvage(file)
    gone = lost(before, Path(result.path))
    assert gone[name] > 0
    assert dict(result.lost) == {table: gone.get(table, 0) for table in ("facts", "messages")}
    assert set(gone) <= {name, "sources", "mentions", "links", "entities"}


def test_facts_whose_scope_is_lost_are_of_an_unknown_user(file: Path) -> None:
    spoil(file, *pages_of(file, "scopes"))
    result = salvaged(file)
    assert "users salvaged-*" in " ".join(result.notes)
    assert dict(result.lost) == {"facts": 0, "messages": 0}
    connection = sqlite3.connect(result.path)
    owners = connection.execute(
        "SELECT DISTINCT s.user_id FROM facts f JOIN scopes s ON s.id = f.scope_id WHERE f.text LIKE 'Bo left%'"
    ).fetchall()
    connection.close()
    assert len(owners) == 1
    with opened(Path(result.path)) as memory:
        facts = memory.get_all(user_id=owners[0][0], limit=100)
        assert "Bo left box 7 in Lisbon." in {fact.text for fact in facts}


def test_what_was_stored_in_a_batch_that_is_lost_is_there(file: Path) -> None:
    spoil(file, *pages_of(file, "batches"))
    result = salvaged(file)
    assert dict(result.lost) == {"facts": 0, "messages": 0}
    assert "batch(es) are lost" in result.notes[0]


def test_what_only_the_log_of_a_killed_process_has_is_saved_though_the_first_page_is_lost(file: Path) -> None:
    killed(file)
    spoil(file, 1)
    Path(f"{file}-shm").unlink()
    log = Path(f"{file}-wal").read_bytes()
    assert recognised(file)
    result = salvage(file)
    assert Path(f"{file}-wal").read_bytes() == log
    with opened(Path(result.path)) as memory:
        assert memory.search("boat", user_id="bo")[0].text == "Bo sold the boat."


def test_what_was_deleted_is_not_saved(file: Path) -> None:
    with opened(file) as memory:
        memory.delete_all(user_id="ana")
    spoil(file, pages_of(file, "facts")[0])
    result = salvage(file)
    data = Path(result.path).read_bytes()
    assert b"canary" not in data
    assert b"Clara" not in data
    assert b"Bo left box 59" in data


def test_a_damaged_file_of_an_older_version_is_saved_as_one_of_this(path: Path) -> None:
    connection = apsw.Connection(str(path))
    run_script(connection, (Path(__file__).parent / "versions" / "1.sql").read_text(encoding="utf-8"))
    connection.close()
    before = rows(path)
    spoil(path, pages_of(path, "facts")[0], content=bytes(PAGE))
    result = salvage(path)
    gone = lost(before, Path(result.path))
    assert result.lost["facts"] == gone["facts"]
    with Memory(result.path, embedder=False, extractor=False) as memory:
        assert memory.search("里斯本", user_id="ana")
        assert memory.repair(dry_run=True).found == ()


def test_a_file_cut_off_in_the_middle_is_saved_as_far_as_it_goes(file: Path) -> None:
    before = rows(file)
    file.write_bytes(file.read_bytes()[: file.stat().st_size * 19 // 20 - 100])
    result = salvaged(file)
    after = rows(Path(result.path))
    assert result.unreadable
    assert len(after["messages"] & before["messages"]) > 20


def test_nothing_is_saved_over_a_file_that_is_there(file: Path) -> None:
    there = file.with_name("memory.salvaged.db")
    there.write_text("precious")
    with pytest.raises(FileError, match="exists already"):
        salvage(file)
    assert there.read_text() == "precious"


def test_nothing_is_made_where_nothing_can_be_read(file: Path) -> None:
    spoil(file, *range(1, file.stat().st_size // PAGE + 1))
    with pytest.raises(FileError, match="nothing can be read"):
        salvage(file)
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_random_damage_is_saved_without_inventing_anything(file: Path, furnished: Path) -> None:
    before, rng = rows(file), random.Random(5)
    size = file.stat().st_size
    for _ in range(3):
        data = bytearray(furnished.read_bytes())
        for _ in range(40):
            start = rng.randrange(size)
            piece = rng.randbytes(rng.choice((1, 8, 200)))
            data[start : start + len(piece)] = piece
        file.write_bytes(data[:size])
        result = salvage(file)
        after = rows(Path(result.path))
        assert len(after["messages"] & before["messages"]) > 15
        Path(result.path).unlink()


# The command line.


def doctor(path: Path, *words: str, code: int = 1) -> dict[str, dict[str, Any]]:
    off = {"MEMLITE_EMBEDDER": "off", "MEMLITE_EXTRACTOR": "off"}
    result = CliRunner().invoke(cli.main, ["doctor", "--db", str(path), "--json", *words], env=off)
    assert result.exit_code == code, result.output
    return {finding["name"]: finding for finding in json.loads(result.stdout)}


@pytest.mark.parametrize("page", ["first", "facts"])
def test_doctor_saves_what_can_be_read_into_a_file_beside_it(file: Path, page: str) -> None:
    spoil(file, 1 if page == "first" else pages_of(file, "facts")[2])
    shown = doctor(file)
    assert page == "first" or "memlite doctor --repair" in shown["file"]["detail"]
    done = doctor(file, "--repair")["repair"]
    assert not done["ok"]
    assert f"into {file.with_name('memory.salvaged.db')}" in done["detail"]
    assert "was left as it is" in done["detail"]
    assert ("lost" in done["detail"]) == (page == "facts")
    assert doctor(file.with_name("memory.salvaged.db"), code=0)["file"]["ok"]


def test_doctor_saves_nothing_of_what_is_no_file_of_memlite(path: Path) -> None:
    path.write_bytes(b"\x7fELF" * 5000)
    result = CliRunner().invoke(cli.main, ["doctor", "--db", str(path), "--repair"])
    assert (result.exit_code, "not a memlite file" in result.output) == (1, True)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


# Used although it is damaged.


def test_every_verb_says_that_a_damaged_file_is_damaged(file: Path, furnished: Path) -> None:
    """Not only where SQLite notices: rows that make no sense, and vec0's own errors, are damage too."""
    named = {"facts", "messages", "scopes", "events", "fact_vectors", "message_vectors",
             "fact_words_data"}  # fmt: skip
    told = 0
    for name in sorted(named):
        for content in (b"\xff" * PAGE, bytes(PAGE), b"\0" * (PAGE // 2)):
            shutil.copy(furnished, file)
            number = pages_of(file, name)[-1]
            kept = b"" if len(content) == PAGE else file.read_bytes()[(number - 1) * PAGE :][: PAGE // 2]
            spoil(file, number, content=kept + content)
            told += use(file)
    assert told > len(named)


def use(path: Path) -> int:
    """Do something of everything; return how often it was said that the file is damaged."""
    told = 0
    try:
        memory = opened(path)
    except MemliteError:
        return 1
    verbs: tuple[Callable[[], object], ...] = (
        lambda: memory.search("crate river", user_id="ana"),
        lambda: memory.get_all(user_id="bo", limit=1000),
        lambda: memory.history(user_id="ana"),
        lambda: memory.add("Ana has a cat called Kiwi.", user_id="ana"),
        lambda: memory.remember("Bo likes tea.", user_id="bo"),
        lambda: [memory.update(fact.id, kind="box") for fact in memory.get_all(user_id="bo", limit=1)],
        lambda: memory.work(),
        lambda: memory.delete_query("box 5", user_id="bo"),
        lambda: memory.compact(),
    )
    for verb in verbs:
        try:
            verb()
        except MemliteError as error:
            told += isinstance(error, DamagedFileError)
    memory.close()
    for name in path.parent.iterdir():
        name.unlink()
    return told


def test_a_deletion_of_what_is_not_there_looks_for_no_damage(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does anything else that ends a transaction on purpose: of a large file that takes minutes."""
    monkeypatch.setattr(db, "_damage_of", lambda path: pytest.fail("the whole file is read"))
    with opened(file) as memory:
        with pytest.raises(NotFoundError):
            memory.delete("0" * 32)
        with pytest.raises(InvalidInputError):
            memory.remember({"text": ""}, user_id="bo")
        assert memory.repair(dry_run=True).found == ()


def test_vectors_that_are_out_of_step_are_told_with_what_mends_them(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("DROP TABLE fact_vectors")
    connection.close()
    with opened(file) as memory:
        with pytest.raises(FileError, match="memlite doctor --repair"):
            memory.search("crate", user_id="ana")
        memory.repair()
        assert memory.search("crate", user_id="ana")


# Gone, or replaced.


@pytest.mark.parametrize("endings", [("-wal",), ("-wal", "-shm")], ids=["log", "log-and-index"])
def test_a_log_that_is_deleted_under_an_open_memory_is_not_lost(file: Path, endings: Sequence[str]) -> None:
    with only_in_log(file) as memory:
        assert memory.search("boat", user_id="bo")[0].text == "Bo sold the boat."
        for ending in endings:
            Path(f"{file}{ending}").unlink()
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda n: memory.remember(f"Bo rows {n} miles.", user_id="bo"), range(8)))
        assert memory.search("boat", user_id="bo")[0].text == "Bo sold the boat."
        shows = "import sys, memlite; print(memlite.Memory(sys.argv[1], embedder=False, extractor=False).stats().facts)"
        seen = subprocess.run([sys.executable, "-c", shows, file], check=True, capture_output=True, text=True)
        assert int(seen.stdout) == memory.stats().facts
    with opened(file) as memory:
        assert memory.search("boat", user_id="bo")[0].text == "Bo sold the boat."
        assert memory.repair(dry_run=True).found == ()


def test_the_sqlite3_of_python_may_read_the_file_of_an_open_memory(file: Path) -> None:
    with only_in_log(file) as memory:
        stock = sqlite3.connect(file)
        assert stock.execute("SELECT count(*) FROM facts WHERE text = 'Bo sold the boat.'").fetchone() == (1,)
        stock.close()  # takes itself for the last one, and deletes the log
        assert not Path(f"{file}-wal").exists()
        memory.remember("Bo rows.", user_id="bo")
        assert Path(f"{file}-wal").exists()
        assert memory.search("boat", user_id="bo")[0].text == "Bo sold the boat."


def test_what_was_lost_with_a_deleted_log_is_told(file: Path) -> None:
    memory = only_in_log(file)
    memory._database._writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # as where another process has it open
    for reader in memory._database._readers:
        reader.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    Path(f"{file}-wal").unlink()
    with pytest.raises(FileError, match="what was stored last with it"):
        memory.remember("Bo rows.", user_id="bo")
    assert memory.remember("Bo rows.", user_id="bo").facts
    memory.close()


def test_a_log_that_is_deleted_in_the_middle_of_a_write_is_told(file: Path) -> None:
    memory = only_in_log(file)
    with memory._database.write():
        Path(f"{file}-wal").unlink()
        with pytest.raises(FileError, match="deleted or replaced"), memory._database.read():
            pass
    assert memory.remember("Bo rows.", user_id="bo").facts
    memory.close()


def test_what_another_process_stored_after_the_log_was_deleted_is_not_lost(file: Path) -> None:
    memory = only_in_log(file)
    Path(f"{file}-wal").unlink()
    Path(f"{file}-shm").unlink()
    stores = """if True:
        import sys; from memlite import Memory
        with Memory(sys.argv[1], embedder=False, extractor=False) as memory:
            memory.remember("Bo bought a bike.", user_id="bo")"""
    subprocess.run([sys.executable, "-c", stores, file], check=True)
    with pytest.raises(FileError, match="deleted or replaced"):
        memory.remember("Bo rows.", user_id="bo")
    memory.close()
    with opened(file) as memory:
        assert memory.search("bike", user_id="bo")[0].text == "Bo bought a bike."
        assert memory.repair(dry_run=True).found == ()


def test_a_file_that_is_replaced_under_an_open_memory_is_noticed_and_kept(file: Path, furnished: Path) -> None:
    memory = only_in_log(file)
    backup = file.with_name("backup.db")
    shutil.copy(furnished, backup)
    backup.replace(file)
    with pytest.raises(FileError, match="deleted or replaced"):
        memory.remember("Bo rows.", user_id="bo")
    memory.close()
    assert file.read_bytes() == furnished.read_bytes()


def test_a_log_that_was_deleted_after_a_crash_leaves_what_was_there_before(file: Path) -> None:
    killed(file)
    Path(f"{file}-wal").unlink()
    with opened(file) as memory:
        assert memory.repair(dry_run=True).found == ()
        assert len(memory.get_all(user_id="bo", limit=100)) == 60


@pytest.mark.parametrize("left", ["empty", "missing"])
def test_no_new_file_is_made_beside_the_log_of_another(file: Path, left: str) -> None:
    killed(file)
    log = Path(f"{file}-wal").read_bytes()
    file.write_bytes(b"")
    if left == "missing":
        file.unlink()
    with pytest.raises(FileError, match=f"is {left}, and its write-ahead log"):
        opened(file)
    assert Path(f"{file}-wal").read_bytes() == log
    assert not file.exists() or file.read_bytes() == b""


def test_a_file_cut_to_its_first_bytes_is_refused_untouched(file: Path) -> None:
    for size, error in ((50, ForeignFileError), (100, FileError), (PAGE, FileError)):
        file.write_bytes(file.read_bytes()[:size].ljust(size, b"\0"))
        before = file.read_bytes()
        with pytest.raises(error):
            opened(file).stats()
        assert file.read_bytes() == before


# No room.


@pytest.fixture(params=["tmpfs", "limit"])
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder with room for 3 MB, or a process that may not write longer files."""
    folder = tmp_path / "small"
    folder.mkdir()
    if request.param == "tmpfs":
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder], capture_output=True).returncode:
            pytest.skip("this user may not mount a small file system")
        yield folder
        subprocess.run(["umount", folder], check=True)
    else:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, before[1]))
        yield folder
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_loses_nothing_that_was_acknowledged_and_goes_on_when_there_is_room(small: Path) -> None:
    path = small / "memory.db"
    with opened(path) as memory:
        memory.remember("Bo left a box in Lisbon.", user_id="bo")
        told: list[str] = []

        def fill() -> None:
            while True:
                told.extend(memory.add(f"Message {len(told)}. {LONG * 3}", user_id="ana", extract="later").messages)

        with pytest.raises(FileError, match="nothing of this"):
            fill()
        assert len(told) > 10
        for verb in (
            lambda: memory.remember("Bo likes tea. " + LONG * 10, user_id="bo"),
            lambda: memory.compact(),
            lambda: memory.reembed(),
        ):
            with pytest.raises(FileError):
                verb()
        assert memory.search("box", user_id="bo")
        assert memory.stats().messages == len(told)
    with opened(shutil.copy(path, small.parent / "copy.db") if not Path(f"{path}-wal").exists() else path) as memory:
        assert memory.stats().messages == len(told)
        assert memory.repair(dry_run=True).found == ()


def test_a_deletion_that_has_no_room_to_empty_the_log_says_so(file: Path) -> None:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    with opened(file) as memory:
        fact = memory.get_all(user_id="bo")[0]
        resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size // 2, limit[1]))
        try:
            receipt = memory.delete(fact.id)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        assert (receipt.facts, receipt.wal_truncated) == ((fact.id,), False)
        assert "no room to empty" in receipt.notes[0]
