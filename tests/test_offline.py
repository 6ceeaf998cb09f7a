"""What memlite does on a machine: no internet socket, no thread, process or file left, nothing that others may read."""

from __future__ import annotations

import json
import os
import platform
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from memlite import Memory

# A filter of the kernel's, which counts for C code as well: a process that makes an internet socket is ended (SIGSYS).
# Its instructions read the number of a system call, then the first argument of socket(): AF_INET is 2, AF_INET6 10.
GUARD = """
import ctypes, struct, sys

def allow_no_internet():
    number = {"x86_64": 41, "aarch64": 198}[__import__("platform").machine()]  # of socket()
    load, equal, give = 0x20, 0x15, 0x06
    program = [
        (load, 0, 0, 0), (equal, 0, 4, number), (load, 0, 0, 16), (equal, 1, 0, 2), (equal, 0, 1, 10),
        (give, 0, 0, 0x80000000), (give, 0, 0, 0x7FFF0000),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
    libc = ctypes.CDLL(None, use_errno=True)
    held = Program(len(program), ctypes.addressof(code))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(held), 0, 0):
        raise OSError(ctypes.get_errno(), "no seccomp")

def deny(event, given):
    if event in ("socket.getaddrinfo", "socket.gethostbyname") or (
        event == "socket.__new__" and given[1] in (2, 10)
    ):
        raise SystemExit(f"{event}{given[1:]}")

sys.addaudithook(deny)
allow_no_internet()
"""

LIBRARY = """
import json, os, sys, threading, time
from pathlib import Path

before = threading.active_count(), len(os.listdir("/proc/self/task"))

from memlite import Memory, doctor

path = sys.argv[1]
with Memory(path) as memory:
    added = memory.add("My sister Clara is allergic to walnuts.", user_id="ana")
    memory.add("Clara moved to Porto yesterday.", user_id="ana", extract="later")
    worked = memory.work()
    remembered = memory.remember("Ana works at Feedzai in Porto.", user_id="ana")
    hits = memory.search("what must Clara not eat?", user_id="ana", explain=True)
    memory.context("what must Clara not eat?", user_id="ana")
    memory.update(remembered.facts[0].id, text="Ana works at Critical Software in Porto.")
    memory.audit()
    memory.reembed()
    memory.backup(path + ".copy")
    memory.export(path + ".jsonl")
    memory.import_file(path + ".jsonl")
    os.remove(path + ".copy")
    os.remove(path + ".jsonl")
    memory.delete(remembered.facts[0].id)
    receipt = memory.delete_all(user_id="ana")
list(doctor.examine(Path(path)))
end = time.monotonic() + 10
while len(os.listdir("/proc/self/task")) > before[1] and time.monotonic() < end:
    time.sleep(0.01)  # the system counts a thread for a moment after its end

children = [pid for pid in os.listdir("/proc") if pid.isdigit() and parent(pid) == os.getpid()]
print(json.dumps({
    "facts": len(added.facts), "worked": worked.batches, "hits": [hit.text for hit in hits],
    "semantic": hits[0].explain.semantic,
    "threads": [list(before), [threading.active_count(), len(os.listdir("/proc/self/task"))]],
    "children": children,
}))
"""
PARENT = """
def parent(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0
"""

needs_seccomp = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"), reason="seccomp is Linux's"
)


def guarded(code: str, *words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own that cannot make an internet socket."""
    return subprocess.run(
        [sys.executable, "-c", GUARD + code, *map(str, words)],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **variables},  # numpy's own threads are numpy's
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file of a folder with its size and time."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): (file.stat().st_size, file.stat().st_mtime_ns) for file in files}


@needs_seccomp
@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6"])
@pytest.mark.parametrize("from_c", [False, True], ids=["python", "c"])
def test_the_guard_ends_a_process_that_makes_an_internet_socket(family: str, from_c: bool) -> None:
    make = f"ctypes.CDLL(None).socket(int(socket.{family}), 1, 0)" if from_c else f"socket.socket(socket.{family})"
    assert guarded(f"import socket\n{make}").returncode == (-signal.SIGSYS if from_c else 1)
    assert guarded("import socket\nsocket.socket(socket.AF_UNIX).close()").returncode == 0


@needs_seccomp
def test_the_library_works_without_a_network_and_leaves_nothing_behind(tmp_path: Path, models: Path) -> None:
    home, path = tmp_path / "home", tmp_path / "data" / "memory.db"
    home.mkdir()
    cached = tree(models)
    done = guarded(PARENT + textwrap.dedent(LIBRARY), path, HOME=str(home), TMPDIR=str(home), XDG_CACHE_HOME=str(home))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert (found["facts"], found["worked"]) == (1, 1)
    assert any("walnuts" in text for text in found["hits"])
    assert found["semantic"] > 0.3  # the real embedder
    assert found["threads"][1] == found["threads"][0]
    assert found["children"] == []
    assert sorted(file.name for file in path.parent.iterdir()) == ["memory.db"]
    assert list(home.rglob("*")) == []
    assert tree(models) == cached


@needs_seccomp
def test_the_command_line_works_without_a_network_and_leaves_nothing_behind(tmp_path: Path, models: Path) -> None:
    home, path, chat = tmp_path / "home", tmp_path / "data" / "memory.db", tmp_path / "chat.json"
    home.mkdir()
    chat.write_text(json.dumps([{"role": "user", "content": "My sister Clara is allergic to walnuts."}]))
    cached = tree(models)
    for words in (
        ["add", "--file", str(chat)],
        ["add", "Clara moved to Porto.", "--extract", "later"],
        ["work"],
        ["remember", "Ana works at Feedzai in Porto."],
        ["search", "what must Clara not eat?", "--explain"],
        ["context", "what must Clara not eat?"],
        ["list", "--json"],
        ["entities"],
        ["audit"],
        ["doctor"],
        ["delete", "--query", "Feedzai", "--yes"],
        ["reset", "--everything", "--yes"],
        ["stats"],
    ):
        code = f"from memlite.cli import main\nsys.argv = {['memlite', *words]!r}\nmain()"
        done = guarded(code, HOME=str(home), TMPDIR=str(home), XDG_CACHE_HOME=str(home), MEMLITE_DB=str(path))
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    assert sorted(file.name for file in path.parent.iterdir()) == ["memory.db"]
    assert list(home.rglob("*")) == []
    assert tree(models) == cached


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o277])
def test_nobody_else_may_read_the_file_its_logs_or_a_copy_whatever_the_umask(path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with Memory(path, embedder=False, extractor=False) as memory:
            memory.add("Hello.", user_id="u")
            memory.search("hello", user_id="u")
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
            memory.backup(path.with_name("copy.db"))
            memory.export(path.with_name("all.jsonl"))
        assert modes == dict.fromkeys(("memory.db", "memory.db-wal", "memory.db-shm"), 0o600)
        assert all(stat.S_IMODE(file.stat().st_mode) & 0o077 == 0 for file in path.parent.iterdir())
    finally:
        os.umask(before)


def test_a_file_that_its_owner_has_opened_to_a_group_stays_so(path: Path) -> None:
    Memory(path, embedder=False, extractor=False).close()
    path.chmod(0o640)
    with Memory(path, embedder=False, extractor=False) as memory:
        memory.add("Hello.", user_id="u")
        assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o640}
