"""memlite serve: real processes on real sockets. A command prints the same with it and without, and nothing is left."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from memlite import ExtractedFact, Extraction, ExtractionError, ExtractionRequest, Memory, places, warm, wire
from memlite.listener import Listener

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="on Unix sockets; the loopback line is tested below")

# The command line, which then says whether it has run the command itself: only that imports click.
CLIENT = """
import atexit, os, sys
from memlite.entry import main
atexit.register(lambda: print("click" in sys.modules, file=open(os.environ["RAN_HERE"], "w")))
main()
"""
FACTS = (
    "Ana works at Feedzai in Porto.",
    "Clara is allergic to walnuts.",
    "Bruno spielt seit 2019 Geige in Zürich.",
    "我住在北京，在一家医院工作。",
)


class Answer:
    """What a command printed, and whether a server ran it."""

    def __init__(self, done: subprocess.CompletedProcess[bytes], served: bool) -> None:
        self.stdout, self.stderr, self.code, self.served = done.stdout, done.stderr, done.returncode, served

    @property
    def printed(self) -> tuple[int, bytes, bytes]:
        return self.code, self.stdout, self.stderr


class Shell:
    """Commands on one file, in an environment with a folder for sockets of its own."""

    def __init__(self, path: Path, sockets: Path, **environ: str) -> None:
        self.path, self.sockets = path, sockets
        self.environ = {**os.environ, "MEMLITE_DB": str(path), "XDG_RUNTIME_DIR": str(sockets), **environ}
        self.servers: list[subprocess.Popen[bytes]] = []

    def memlite(self, *words: str, stdin: bytes = b"", cwd: Path | None = None, **environ: str) -> Answer:
        mark = Path(tempfile.mkstemp(dir=self.sockets)[1])
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, *words],
            input=stdin,
            capture_output=True,
            env={**self.environ, "RAN_HERE": str(mark), **environ},
            cwd=cwd,
            timeout=120,
            check=False,
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        ran_here = mark.read_text().strip()
        mark.unlink()
        return Answer(done, ran_here == "False")

    def by_itself(self, *words: str, stdin: bytes = b"", cwd: Path | None = None, **environ: str) -> Answer:
        return self.memlite(*words, stdin=stdin, cwd=cwd, MEMLITE_SERVE="off", **environ)

    def serve(self, *words: str) -> subprocess.Popen[bytes]:
        server = subprocess.Popen(
            [sys.executable, "-m", "memlite", "serve", *words],
            stderr=subprocess.PIPE,
            env=self.environ,
        )
        self.servers.append(server)
        assert server.stderr
        told = server.stderr.readline().decode()
        assert f"process {server.pid} serves {self.path}" in told, told + server.stderr.read().decode()
        return server

    def left(self) -> list[str]:
        """What lies in the folder of the sockets."""
        return sorted(path.name for path in (self.sockets / f"memlite-{os.getuid()}").glob("*"))

    def end(self) -> None:
        for server in self.servers:
            server.kill()
            server.communicate()


def until(true: Callable[[], object]) -> None:
    """Wait for it."""
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextlib.contextmanager
def place() -> Iterator[Path]:
    """A folder for sockets with a short path: that of a socket has at most some hundred characters."""
    folder = Path(tempfile.mkdtemp(prefix="m"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def sockets() -> Iterator[Path]:
    with place() as folder:
        yield folder


@pytest.fixture
def shell(path: Path, sockets: Path) -> Iterator[Shell]:
    """A shell without models, on a file with one fact."""
    with Memory(path, embedder=False, extractor=False) as memory:
        memory.remember(FACTS[0], user_id="me")
    opened = Shell(path, sockets, MEMLITE_EMBEDDER="off", MEMLITE_EXTRACTOR="off")
    yield opened
    opened.end()


@pytest.fixture
def secret_shell(path: Path, sockets: Path) -> Iterator[Shell]:
    """Likewise on an encrypted file, with its key in the environment."""
    with Memory(path, key="the right key", embedder=False, extractor=False) as memory:
        memory.remember(FACTS[0], user_id="me")
    opened = Shell(path, sockets, MEMLITE_EMBEDDER="off", MEMLITE_EXTRACTOR="off", MEMLITE_KEY="the right key")
    yield opened
    opened.end()


@pytest.fixture(scope="module")
def warm_shell(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Iterator[Shell]:
    """A shell with the real embedder, whose file is served."""
    path = tmp_path_factory.mktemp("warm") / "memory.db"
    with Memory(path, extractor=False) as memory:
        memory.remember(FACTS, user_id="me", metadata={"city": "Porto"})
        memory.add("Dinner at 七 is at Osteria Lume.", user_id="me", extract="never")
    with place() as sockets:
        opened = Shell(path, sockets, MEMLITE_EXTRACTOR="off")
        opened.serve("--idle", "1")
        yield opened
        opened.end()


# The same with a server and without.


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (["search", "who must not eat nuts?"], b""),
        (["search", "who must not eat nuts?", "--json"], b""),
        (["search", "-", "--explain", "--nl"], "Wer spielt Geige in Zürich?".encode()),
        (["search", "tea", "--user", "nobody"], b""),
        (["context", "where does Ana work?"], b""),
        (["list", "--json", "--limit", "2"], b""),
        (["log"], b""),
        (["show", "deadbeef"], b""),
        (["search"], b""),
        (["add", "-"], b"caf\xe9"),
        (["update", "deadbeef", "--text", "x"], b""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_prints_the_same_bytes_and_exits_with_the_same_code(
    warm_shell: Shell, words: Sequence[str], stdin: bytes
) -> None:
    served = warm_shell.memlite(*words, stdin=stdin)
    assert served.served
    assert served.printed == warm_shell.by_itself(*words, stdin=stdin).printed


def test_options_and_paths_are_those_of_the_shell_that_asks(warm_shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(warm_shell.path.parent)
    (tmp_path / "folder").mkdir()
    for words in (["--db", "link/memory.db", "search", "tea"], ["stats", "--db=folder/../link/memory.db"]):
        served = warm_shell.memlite(*words, cwd=tmp_path, MEMLITE_USER="eva")
        assert served.served
        assert b"link/memory.db" in served.stdout + served.stderr
        assert served.printed == warm_shell.by_itself(*words, cwd=tmp_path, MEMLITE_USER="eva").printed


def test_many_shells_write_and_read_at_once(warm_shell: Shell) -> None:
    def remember(number: int) -> Answer:
        warm_shell.memlite("search", "tea", "--user", "many")
        return warm_shell.memlite("remember", f"Eva has {number} green teas.", "--user", "many", "--json")

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(remember, range(8)))
    assert all(answer.served and answer.code == 0 for answer in answers)
    assert len({json.loads(answer.stdout)["facts"][0]["id"] for answer in answers}) == 8
    assert warm_shell.memlite("list", "--user", "many").stdout.count(b"green teas") == 8


def test_a_reader_that_stops_reading_is_no_error(warm_shell: Shell) -> None:
    for off in ("", "off"):
        line = f"{sys.executable} -m memlite list --limit 1000 | head -c 1; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(
            ["bash", "-c", line], env={**warm_shell.environ, "MEMLITE_SERVE": off}, capture_output=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="reads /proc")
def test_an_idle_model_is_freed_and_loaded_again_by_the_next_search(warm_shell: Shell, models: Path) -> None:
    (server,) = warm_shell.servers

    def loaded() -> bool:
        return ".gguf" in Path(f"/proc/{server.pid}/maps").read_text()

    until(lambda: not loaded())
    first = warm_shell.memlite("search", "who had better eat no nuts?", "--json")
    assert loaded()
    assert json.loads(first.stdout)[0]["explain"]["semantic"] is not None
    until(lambda: not loaded())
    assert warm_shell.memlite("search", "who had better eat no nuts?", "--json").printed == first.printed
    assert not loaded()  # the vector of that query is held
    warm_shell.memlite("search", "who had better eat no almonds?")
    assert loaded()


# When the command runs by itself.


def test_a_server_is_passed_over_where_the_environment_says_so_or_is_another_one(shell: Shell) -> None:
    shell.serve()
    assert shell.memlite("list").served
    assert not shell.by_itself("list").served
    assert not shell.memlite("list", MEMLITE_EXTRACTOR="").served
    assert not shell.memlite("list", TZ="Asia/Tokyo").served


@pytest.mark.parametrize(
    "words",
    [["add", "x", "--extract", "never", "--min-confidence", "0.5"], ["delete", "--all", "--yes"], ["list", "--help"]],
    ids=" ".join,
)
def test_what_a_server_does_not_do_is_done_all_the_same(shell: Shell, words: Sequence[str]) -> None:
    shell.serve()
    answer = shell.memlite(*words)
    assert (answer.code, answer.served) == (0, False)


def test_a_text_on_stdin_that_a_server_has_read_is_not_lost_to_the_process_that_runs_by_itself(shell: Shell) -> None:
    shell.serve()
    answer = shell.memlite("add", "-", "--extract", "never", "--min-confidence", "0.5", stdin="Zürich".encode())
    assert (answer.code, answer.served) == (0, False)
    assert "Zürich" in shell.memlite("search", "Zürich").stdout.decode()


def test_a_file_that_was_removed_and_made_anew_is_the_one_that_is_answered_from(shell: Shell) -> None:
    shell.serve()
    assert b"Feedzai" in shell.memlite("list").stdout
    for path in shell.path.parent.glob("memory.db*"):
        path.unlink()
    gone = shell.memlite("list")
    assert gone.code == 1
    assert b"does not exist" in gone.stderr
    assert not shell.memlite("remember", FACTS[1]).served
    answer = shell.memlite("list")
    assert answer.served
    assert b"walnuts" in answer.stdout
    assert b"Feedzai" not in answer.stdout


# The end of a server.


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, None], ids=str)
def test_a_server_that_is_stopped_leaves_nothing_behind(shell: Shell, how: signal.Signals | None) -> None:
    server = shell.serve()
    assert len(shell.left()) == 2
    shell.memlite("list")
    if how is None:
        assert shell.memlite("serve", "--stop").printed == (0, b"", f"process {server.pid} has ended\n".encode())
    else:
        server.send_signal(how)
    assert server.wait(30) == 0
    assert shell.left() == []
    assert not list(shell.path.parent.glob("memory.db-*"))
    assert not shell.memlite("list").served
    assert shell.memlite("serve", "--stop").code == 1


def test_a_server_that_was_killed_is_in_nobodys_way(shell: Shell) -> None:
    killed = shell.serve()
    killed.kill()
    killed.wait()
    assert len(shell.left()) == 2
    answer = shell.memlite("list")
    assert (answer.code, answer.served) == (0, False)
    shell.serve()
    assert shell.memlite("list").served
    assert shell.memlite("serve", "--stop").code == 0
    assert shell.left() == []


def test_a_second_server_of_a_file_says_so_and_the_first_goes_on(shell: Shell, tmp_path: Path) -> None:
    first = shell.serve()
    (tmp_path / "link").symlink_to(shell.path.parent)
    second = shell.memlite("--db", str(tmp_path / "link" / "memory.db"), "serve")
    assert second.code == 1
    assert f"process {first.pid} serves" in second.stderr.decode()
    assert shell.memlite("list").served


def test_a_server_of_a_missing_file_says_so(shell: Shell) -> None:
    answer = shell.memlite("--db", "missing.db", "serve")
    assert answer.code == 1
    assert b"missing.db does not exist" in answer.stderr
    assert shell.left() == []


def test_a_server_without_a_memlite_file_leaves_no_socket(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("a letter")
    answer = shell.memlite("--db", str(tmp_path / "x.db"), "serve")
    assert answer.code == 1
    assert b"not a memlite file" in answer.stderr
    assert shell.left() == []


# A server that dies, or says nothing.


@pytest.fixture
def dying(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bool], None]]:
    """A server that ends with the command that it was given, or before it was given any."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(shell.sockets))
    listener = Listener(shell.path)
    listener._socket.setblocking(True)

    def die(taken: bool) -> None:
        line = listener.accept()
        line.receive()
        if taken:
            line.send({"process": 4711})
            assert (line.receive() or {})["words"]
        line.close()

    threads: list[threading.Thread] = []

    def start(taken: bool) -> None:
        threads.append(threading.Thread(target=die, args=(taken,)))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join()
    listener.leave()


def test_a_write_is_not_done_again_when_the_server_dies_over_it(shell: Shell, dying: Callable[[bool], None]) -> None:
    dying(True)
    answer = shell.memlite("remember", FACTS[1])
    assert answer.code == 1
    assert b"process 4711" in answer.stderr
    assert b"not tried again" in answer.stderr
    assert b"walnuts" not in shell.by_itself("list").stdout


def test_a_write_that_the_server_was_not_given_is_done_here(shell: Shell, dying: Callable[[bool], None]) -> None:
    dying(False)
    assert shell.memlite("remember", FACTS[1]).code == 0
    assert b"walnuts" in shell.by_itself("list").stdout


def test_a_read_is_done_here_when_the_server_dies_over_it(shell: Shell, dying: Callable[[bool], None]) -> None:
    dying(True)
    assert shell.memlite("list").printed == shell.by_itself("list").printed


def test_a_server_that_hangs_is_not_waited_for(shell: Shell) -> None:
    server = shell.serve()
    server.send_signal(signal.SIGSTOP)
    answer = shell.memlite("remember", FACTS[1])
    server.send_signal(signal.SIGCONT)
    assert (answer.code, answer.served) == (0, False)
    assert shell.memlite("list").stdout.count(b"walnuts") == 1


def test_what_is_no_command_harms_no_server(shell: Shell) -> None:
    shell.serve()
    (address,) = (name for name in shell.left() if not name.endswith(".lock"))
    for garbage in (b"", b"GET / HTTP/1.1\r\n\r\n", b"[1]\n", b'{"identity": 1}\n', b"{" * 100_000 + b"\n"):
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as connection:
            connection.connect(str(shell.sockets / f"memlite-{os.getuid()}" / address))
            with contextlib.suppress(OSError):
                connection.sendall(garbage)
    assert shell.memlite("list").served


# Who may use it.


def test_nobody_else_may_look_into_the_folder_or_connect(shell: Shell) -> None:
    shell.serve()
    folder = shell.sockets / f"memlite-{os.getuid()}"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE((folder / name).stat().st_mode) for name in shell.left()] == [0o600, 0o600]


@pytest.mark.parametrize(
    "opened",
    [
        lambda folder: folder.chmod(0o755),
        pytest.param(
            lambda folder: os.chown(folder, 12345, -1),
            marks=pytest.mark.skipif(getattr(os, "getuid", int)() != 0, reason="only root gives a folder away"),
        ),
    ],
    ids=["a folder that is open to others", "another user's folder"],
)
def test_a_socket_that_may_be_somebody_elses_is_neither_used_nor_made(
    shell: Shell, opened: Callable[[Path], None]
) -> None:
    shell.serve()
    folder = shell.sockets / f"memlite-{os.getuid()}"
    opened(folder)
    try:
        assert not shell.memlite("list").served
        answer = shell.memlite("serve")
        assert answer.code == 1
        assert b"could answer in the server's place" in answer.stderr
    finally:
        os.chown(folder, os.getuid(), -1)
        folder.chmod(0o700)


@pytest.mark.parametrize("same_key", [True, False])
def test_on_the_loopback_interface_both_sides_prove_that_they_have_the_key(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, same_key: bool
) -> None:
    monkeypatch.setattr(wire, "LOOPBACK", True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    admitted: list[bool] = []
    with Listener(path) as listener:
        listener._socket.setblocking(True)
        address = Path(places.address(str(path)))
        assert stat.S_IMODE(address.stat().st_mode) == 0o600
        if not same_key:
            port, _ = address.read_text().split()
            address.write_text(f"{port} {'00' * 32}")

        def answer() -> None:
            line = listener.accept()
            admitted.append(listener.admits(line))
            line.send({"hello": "you"})
            line.close()

        thread = threading.Thread(target=answer)
        thread.start()
        line = wire.connect(str(path))
        thread.join()
        assert admitted == [same_key]
        assert (line is not None) is same_key
        if line is not None:
            assert line.receive() == {"hello": "you"}
            line.close()
    assert list(address.parent.iterdir()) == []


# The queue.


class Echo:
    """An extractor whose facts are the messages themselves; it fails for those that say so."""

    name = "echo"
    prompt_version = "1"

    def __init__(self) -> None:
        self.asked = 0

    def extract(self, request: ExtractionRequest) -> Extraction:
        self.asked += 1
        if any("FAIL" in turn.text for turn in request.messages):
            raise ExtractionError("no usable answer")
        return Extraction(tuple(ExtractedFact(turn.text, turn.speaker, (turn.number,)) for turn in request.messages))


@pytest.fixture
def draining(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Echo, Memory, list[str]]]:
    """A thread that drains the queue of a file with an extractor of the test, and what it tells."""
    echo, told, stopping = Echo(), list[str](), threading.Event()
    monkeypatch.setattr("memlite.extract.open_extractor", lambda *_, **__: echo)
    monkeypatch.setattr(warm, "_LOOK", 0.05)
    monkeypatch.setenv("MEMLITE_EMBEDDER", "off")
    with Memory(path, embedder=False, extractor=False) as memory:
        drain = warm.Drain(warm.WarmMemory(path, None), stopping, 300, told.append)
        drain.start()
        yield echo, memory, told
        stopping.set()
        drain.join()


def test_what_others_leave_for_later_is_extracted(draining: tuple[Echo, Memory, list[str]]) -> None:
    _, memory, told = draining
    for text in FACTS[:2]:
        memory.add(text, user_id="me", extract="later")
        until(lambda: not memory.stats().queued)
    assert {fact.text for fact in memory.get_all(user_id="me")} == set(FACTS[:2])
    assert "1 extracted" in told[0]


def test_what_fails_is_told_and_not_tried_again_at_once(draining: tuple[Echo, Memory, list[str]]) -> None:
    echo, memory, told = draining
    memory.add("FAIL", user_id="me", extract="later")
    until(lambda: any("no usable answer" in line for line in told))
    memory.add("Ana likes tea.", user_id="other", extract="later")
    time.sleep(0.5)
    assert echo.asked == 1
    assert len(memory.stats().queued) == 2


def test_a_server_embeds_what_has_no_vector(warm_shell: Shell) -> None:
    with Memory(warm_shell.path, embedder=False, extractor=False) as memory:
        memory.add("The plumber comes on Friday.", user_id="me", extract="later")
        until(lambda: not memory.stats().without_vector)


def claims(path: Path) -> int:
    """How many batches somebody extracts."""
    with contextlib.closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        found: int = db.execute("SELECT count(*) FROM batches WHERE worker IS NOT NULL").get
        return found


LONG = " ".join(f"My friend {name} lives in {city} and plays the violin." for name, city in [
    ("Clara", "Lisbon"), ("Bruno", "Porto"), ("Eva", "Oslo"), ("Tom", "Rome"), ("Lena", "Vienna"), ("Max", "Paris"),
])  # fmt: skip


@pytest.mark.parametrize("how", ["caller", "server"])
def test_an_extraction_is_interrupted_and_its_messages_are_queued_again(
    path: Path, sockets: Path, models: Path, how: str
) -> None:
    with Memory(path, embedder=False, extractor=False):
        pass
    shell = Shell(path, sockets, MEMLITE_EMBEDDER="off")
    server = shell.serve()
    try:
        client = subprocess.Popen(
            [sys.executable, "-m", "memlite", "add", LONG], env=shell.environ, stderr=subprocess.PIPE
        )
        until(lambda: claims(path))
        (client if how == "caller" else server).send_signal(signal.SIGINT)
        _, told = client.communicate(timeout=60)
        assert client.returncode == 1
        assert re.fullmatch(r"Error: interrupted\. What was given is stored and queued; .*\n", told.decode())
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
        assert claims(path) == 0
        with Memory(path, embedder=False, extractor=False) as memory:
            assert memory.stats().messages == 1
    finally:
        shell.end()


# What a served command costs.


def test_the_command_line_imports_nothing_heavy_before_it_has_asked_a_server() -> None:
    code = "import sys, memlite, memlite.entry, memlite.wire; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "memlite.wire" in loaded
    assert not {"apsw", "click", "typing", "pathlib", "dataclasses", "memlite.memory", "memlite.errors"} & {*loaded}


def test_the_package_gives_its_names_and_modules_when_they_are_asked_for() -> None:
    code = """
import memlite
assert memlite.Memory.__name__ == "Memory" and memlite.dates.find and memlite.ServerError
assert {"Memory", "AsyncMemory", "Hit"} <= set(dir(memlite)) and not hasattr(memlite, "Nothing")
from memlite import *
print(Hit, NotFoundError, AsyncMemory)
"""
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


# -- an encrypted file -----------------------------------------------------------------------------


def test_who_has_the_key_of_an_encrypted_file_is_answered_by_its_server(secret_shell: Shell) -> None:
    secret_shell.serve()
    answer = secret_shell.memlite("search", "Feedzai")
    assert answer.served
    assert FACTS[0].encode() in answer.stdout
    assert answer.printed == secret_shell.by_itself("search", "Feedzai").printed
    assert secret_shell.memlite("remember", FACTS[1]).served
    data = b"".join(file.read_bytes() for file in secret_shell.path.parent.iterdir() if file.is_file())
    assert b"Feedzai" not in data
    assert b"walnuts" not in data


@pytest.mark.parametrize(
    ("key", "words"),
    [
        pytest.param("the wrong key", ("search", "Feedzai"), id="wrong-read"),
        pytest.param("the wrong key", ("remember", "Ana likes tea."), id="wrong-write"),
        pytest.param("", ("list",), id="empty-read"),
        pytest.param(None, ("remember", "Ana likes tea."), id="none-write"),
    ],
)
def test_without_the_key_a_server_tells_and_does_nothing(
    secret_shell: Shell, key: str | None, words: tuple[str, ...]
) -> None:
    secret_shell.serve()
    if key is None:
        del secret_shell.environ["MEMLITE_KEY"]
    answer = secret_shell.memlite(*words, **({} if key is None else {"MEMLITE_KEY": key}))
    assert (answer.served, answer.stdout) == (False, b"")
    assert answer.code != 0
    assert b"key" in answer.stderr.lower()
    assert b"Feedzai" not in answer.stderr
    secret_shell.environ["MEMLITE_KEY"] = "the right key"
    answer = secret_shell.memlite("list", "--nl")
    assert answer.served
    assert answer.stdout.count(b"\n") == 1


def test_a_key_that_is_typed_is_for_the_process_that_asked_for_it(secret_shell: Shell) -> None:
    secret_shell.serve()
    answer = secret_shell.memlite("--ask-key", "list", stdin=b"the right key\n")
    assert not answer.served
    assert FACTS[0].encode() in answer.stdout


def test_a_key_for_a_plain_file_is_refused_though_its_server_has_none(shell: Shell) -> None:
    shell.serve()
    answer = shell.memlite("list", MEMLITE_KEY="a key")
    assert not answer.served
    assert b"is not encrypted" in answer.stderr


def test_a_server_without_the_key_does_not_start(secret_shell: Shell) -> None:
    answer = secret_shell.memlite("serve", MEMLITE_KEY="the wrong key")
    assert answer.code == 1
    assert b"another key" in answer.stderr
    assert secret_shell.left() == []


def test_a_served_file_keeps_its_key_and_a_server_does_not_answer_for_one_that_has_another(secret_shell: Shell) -> None:
    server = secret_shell.serve()
    assert b"serve --stop" in secret_shell.memlite("rekey", MEMLITE_NEW_KEY="new").stderr
    other = secret_shell.path.with_name("other.db")
    with Memory(other, key="new", embedder=False, extractor=False) as memory:
        memory.remember(FACTS[1], user_id="me")
    other.replace(secret_shell.path)
    assert b"another key" in secret_shell.memlite("list").stderr
    assert FACTS[1].encode() in secret_shell.memlite("list", MEMLITE_KEY="new").stdout
    assert server.poll() is None
