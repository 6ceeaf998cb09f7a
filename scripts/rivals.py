"""memlite and other memories by the same measure: each in an environment and a process of its own.

`Beside` is what scripts/bench_scale asks. The other half of this file runs inside a rival's environment, as
`python rivals.py NAME STEP ...`, and needs nothing there but the standard library and that rival; a step's last line
is its JSON. All are given the same texts with their vectors: no embedder and no language model takes part.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import environment
from resident import resident_mb

USER = "me"
TOGETHER = 1000  # texts that are stored at once, where a rival can
ADDS = 200
WARMING = 10  # questions whose time does not count
STARTS = 3
CACHE_KIB = 16_384  # SQLite's cache of the control, as large as memlite's
UNITS = {
    "add": "ms",
    "add / FTS5": "x",
    "search": "ms",
    "search / FTS5": "x",
    "cold start": "s",
    "memory": "MB",
    "bytes an item": "",
    "installed": "MB",
}

Known = dict[str, "array[float]"]  # vectors by their texts


# The rivals. Each is imported where it is opened: a cold start counts that.


class Rival:
    """One memory, open.

    folder: where it may keep what it likes. known: the vectors of what it will be given or asked for; it stays the
    caller's, who adds to it before each call.
    """

    requirements: tuple[str, ...] = ()

    def __init__(self, folder: Path, known: Known) -> None:
        raise NotImplementedError

    def add(self, text: str) -> None:
        """Store one text, durably."""
        raise NotImplementedError

    def store(self, texts: Sequence[str]) -> None:
        """Store many, in the way that is fastest."""
        for text in texts:
            self.add(text)

    def settle(self) -> None:
        """Wait until all that was stored is found also by its vector."""

    def search(self, question: str) -> int:
        """How many of the ten best there are."""
        raise NotImplementedError

    def count(self) -> int:
        """Texts that it holds."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave the store as a process that ends in peace."""


class Memlite(Rival):
    requirements = (str(environment.ROOT), "numpy>=2")  # numpy comes with the extra that has the embedder

    def __init__(self, folder: Path, known: Known) -> None:
        from memlite import Memory

        self.memory = Memory(folder / "memory.db", embedder=_Fixed(known), extractor=False, timezone="UTC")

    def add(self, text: str) -> None:
        self.memory.remember(text, user_id=USER)

    def store(self, texts: Sequence[str]) -> None:
        self.memory.remember(texts, user_id=USER)

    def search(self, question: str) -> int:
        return len(self.memory.search(question, user_id=USER))

    def count(self) -> int:
        return int(self.memory.stats().facts)

    def close(self) -> None:
        self.memory.close()


class _Fixed:
    """memlite's embedder: vectors that are known, and for a name in a text chance that is always the same."""

    name = "given"

    def __init__(self, known: Known) -> None:
        self.known, self.names = known, Known()
        self.dimension = len(next(iter(known.values())))

    def embed(self, texts: Sequence[str]) -> list[array[float]]:
        return [self.known.get(text) or self._of_name(text) for text in texts]

    def _of_name(self, text: str) -> array[float]:
        if text not in self.names:
            import numpy

            seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
            self.names[text] = array("f", numpy.random.default_rng(seed).normal(0, 1, self.dimension))
        return self.names[text]


class Mem0(Rival):
    """With its embedded Qdrant and infer=False, which stores a text as it is. Nothing else is changed."""

    requirements = ("mem0ai==2.2.1",)

    def __init__(self, folder: Path, known: Known) -> None:
        os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder / "home")}  # read when it is imported
        from mem0 import Memory
        from mem0.utils.factory import EmbedderFactory, LlmFactory

        class Embedder:
            def embed(self, text: str, memory_action: str | None = None) -> list[float]:
                return known[text].tolist()

        # Its own would ask a server; left out of the cold start, as every other rival's.
        EmbedderFactory.create = staticmethod(lambda *_, **__: Embedder())
        LlmFactory.create = staticmethod(lambda *_, **__: None)
        place = {"path": str(folder / "qdrant"), "on_disk": True, "embedding_model_dims": _dimension(known)}
        self.memory = Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": place},
                "history_db_path": str(folder / "history.db"),
            }
        )

    def add(self, text: str) -> None:
        self.memory.add(text, user_id=USER, infer=False)

    def search(self, question: str) -> int:
        return len(self.memory.search(question, filters={"user_id": USER}, top_k=10)["results"])

    def count(self) -> int:
        held = self.memory.vector_store
        return int(held.client.count(held.collection_name).count)

    def close(self) -> None:
        self.memory.close()
        self.memory.vector_store.client.close()


class Memd(Rival):
    """With a flat list of hits. Its vectors are made behind an add: `settle` waits for them."""

    requirements = ("memd-engine==0.5.2",)

    def __init__(self, folder: Path, known: Known) -> None:
        import memd.engine.memory
        import numpy
        from memd.pipeline.embedder import Embedder

        class Fixed(Embedder):
            name, kind, dim = "given", "fastembed", _dimension(known)  # of a kind whose vectors it ranks by

            def embed(self, texts: list[str]) -> Any:
                return numpy.array([known[text] for text in texts], numpy.float32)

        memd.engine.memory.resolve_embedder = lambda _: Fixed()  # no setting takes an embedder of one's own
        self.memory = memd.engine.memory.Memory(str(folder))

    def add(self, text: str) -> None:
        self.memory.add(text, user_id=USER)

    def store(self, texts: Sequence[str]) -> None:
        self.memory.add_events([{"content": text, "user_id": USER} for text in texts])

    def settle(self) -> None:
        self.memory.flush()

    def search(self, question: str) -> int:
        return len(self.memory.search(question, user_id=USER, packing="flat").items[:10])

    def count(self) -> int:
        held = self.memory.stats()
        return int(min(held["records"], held["vectors"]))

    def close(self) -> None:
        self.memory.close()


class PyMemori(Rival):
    requirements = ("py-memori==0.7.1",)

    def __init__(self, folder: Path, known: Known) -> None:
        from memori import PyMemori

        self.memory, self.known = PyMemori(str(folder / "memori.db")), known

    def add(self, text: str) -> None:
        self.memory.insert(text, vector=self.known[text].tolist(), no_embed=True)

    def search(self, question: str) -> int:
        return len(self.memory.search(vector=self.known[question].tolist(), text=question, limit=10))

    def count(self) -> int:
        return int(self.memory.count())


RIVALS: dict[str, type[Rival]] = {"memlite": Memlite, "mem0": Mem0, "memd": Memd, "py-memori": PyMemori}


def _dimension(known: Known) -> int:
    return len(next(iter(known.values())))


# What all are given: texts as JSON lines, vectors as raw floats.


class Given:
    """The texts and questions of a folder."""

    def __init__(self, folder: Path) -> None:
        held = json.loads((folder / "asked.json").read_text(encoding="utf-8"))
        self.dimension: int = held["dimension"]
        self.questions: dict[str, str] = held["questions"]  # with what FTS5 is asked for
        self._items = folder / "items"
        with (folder / "asked.f32").open("rb") as vectors:
            self.known: Known = {text: self._read(vectors) for text in (*self.questions, *held["fixed"])}

    def items(self, start: int, stop: int) -> Iterator[tuple[str, array[float]]]:
        """Texts and their vectors."""
        lines, vectors = self._items.with_suffix(".jsonl"), self._items.with_suffix(".f32")
        with lines.open(encoding="utf-8") as texts, vectors.open("rb") as numbers:
            numbers.seek(start * self.dimension * 4)
            for line in islice(texts, start, stop):
                yield json.loads(line), self._read(numbers)

    def _read(self, numbers: Any) -> array[float]:
        vector = array("f")
        vector.fromfile(numbers, self.dimension)
        return vector


def give(
    folder: Path, pieces: Iterable[tuple[list[str], Any]], questions: dict[str, str], known: dict[str, Any]
) -> None:
    """Write what a `Given` reads. pieces: texts and their numpy matrix; known: vectors of questions and all else."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "items.jsonl").open("w", encoding="utf-8") as lines, (folder / "items.f32").open("wb") as numbers:
        for texts, matrix in pieces:
            lines.writelines(json.dumps(text) + "\n" for text in texts)
            numbers.write(matrix.astype("f4").tobytes())
    fixed = [text for text in known if text not in questions]
    with (folder / "asked.f32").open("wb") as numbers:
        numbers.writelines(known[text].astype("f4").tobytes() for text in (*questions, *fixed))
    asked = {"dimension": matrix.shape[1], "questions": questions, "fixed": fixed}
    (folder / "asked.json").write_text(json.dumps(asked), encoding="utf-8")


# Steps, each a process in the rival's environment.


def store(rival: type[Rival], folder: Path, given: Given, size: int, seconds: float) -> dict[str, Any]:
    """Store `size` texts, or as many as the seconds allow."""
    end, stored = time.monotonic() + seconds, 0
    folder.mkdir(parents=True)
    known = dict(given.known)
    with closing(rival(folder, known)) as opened:
        while stored < size and time.monotonic() < end:
            piece = dict(given.items(stored, min(size, stored + TOGETHER)))
            known |= piece
            opened.store(list(piece))
            stored += len(piece)
            opened.settle()  # what waits may be limited: memd drops the vectors of all beyond 5,000 texts
            for text in piece:
                del known[text]
        return {"stored": stored, "held": opened.count()}


def start(rival: type[Rival], folder: Path, given: Given, begun: float) -> dict[str, Any]:
    """The seconds from `begun`, by the system's monotonic clock, to the first answer, and the memory after some."""
    question, *others = given.questions
    with closing(rival(folder, given.known)) as opened:
        opened.search(question)
        seconds = time.monotonic() - begun
        end = time.monotonic() + 20
        for other in others[:20]:
            if time.monotonic() < end:
                opened.search(other)
        return {"cold start": seconds, "memory": resident_mb()}


def compare(rival: type[Rival], folder: Path, given: Given, size: int, control: str) -> dict[str, Any]:
    """Medians of searches and adds, in turns with bare FTS5, in milliseconds. It writes: give it copies."""
    known = dict(given.known)
    searches: list[tuple[float, float]] = []
    adds: list[tuple[float, float]] = []
    hits, warming = 0, min(WARMING, len(given.questions) - 1)
    with closing(rival(folder, known)) as opened, closing(_control(control)) as db:

        def ask(question: str) -> None:
            nonlocal hits
            hits += opened.search(question)

        # Each is asked once: a rival may keep its answers. 60 s are enough of a slow one.
        end = time.monotonic() + 60
        for number, (question, match) in enumerate(given.questions.items()):
            if time.monotonic() > end and searches:
                break
            both = _timed(lambda m=match: _words(db, m)), _timed(lambda q=question: ask(q))
            if number >= warming:
                searches.append(both)
        if not hits:
            raise RuntimeError(f"it holds {size:,} texts and found none for {len(given.questions)} questions")
        for text, vector in given.items(size, size + ADDS):
            known[text] = vector
            adds.append((_timed(lambda t=text: _insert(db, t)), _timed(lambda t=text: opened.add(t))))
        waited = _timed(opened.settle) / len(adds)
    fts5, search = (statistics.median(times) for times in zip(*searches))
    insert, add = (statistics.median(times) for times in zip(*adds))
    add += waited
    return {"add": add, "add / FTS5": add / insert, "search": search, "search / FTS5": search / fts5}


def _timed(act: Callable[[], Any]) -> float:
    """The milliseconds that it takes."""
    begun = time.perf_counter()
    act()
    return (time.perf_counter() - begun) * 1000


def _control(path: str) -> sqlite3.Connection:
    """The file of bare FTS5 that bench_scale has made, by Python's own SQLite."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    return db


def _words(db: sqlite3.Connection, match: str) -> list[Any]:
    return db.execute("SELECT rowid FROM c WHERE c MATCH ? ORDER BY rank LIMIT 10", (match,)).fetchall()


def _insert(db: sqlite3.Connection, text: str) -> None:
    db.execute("INSERT INTO c(text) VALUES (?)", (text,))


STEPS: dict[str, Callable[..., dict[str, Any]]] = {"store": store, "start": start, "compare": compare}


def main() -> None:
    name, step, folder, given, *more = sys.argv[1:]
    print(json.dumps(STEPS[step](RIVALS[name], Path(folder), Given(Path(given)), *map(json.loads, more))))


# What bench_scale asks.


class NotRun(Exception):
    """A rival could not be installed or measured; the text says why."""


class Beside:
    """memlite and rivals beside it. A rival that did not get through a size is not tried with a larger one.

    given: a folder that `give` has written. folder: where stores are kept. seconds: what storing the texts of one
    size may take, and likewise each other step.
    """

    def __init__(self, names: Sequence[str], given: Path, folder: Path, seconds: float) -> None:
        self.names, self._given, self._folder, self._seconds = names, given, folder, seconds
        self._failed: dict[str, tuple[int, str]] = {}

    def measure(self, size: int, control: Path) -> Iterator[tuple[str, str | dict[str, float]]]:
        """Of each name its figures (those of UNITS) or the reason why there are none."""
        for name in self.names:
            failed, reason = self._failed.get(name, (0, ""))
            if failed and size >= failed:
                yield name, f"with {failed:,} texts: {reason}"
                continue
            try:
                yield name, self._measured(name, size, control)
            except NotRun as error:
                self._failed[name] = size, str(error)
                yield name, str(error)

    def _measured(self, name: str, size: int, control: Path) -> dict[str, float]:
        python = made(name, RIVALS[name].requirements)
        kept, copy = self._folder / f"{name}_{size}", self._folder / f"{name}_{size}.copy"
        other = copy.with_suffix(".control")
        if not kept.exists():
            self._store(name, python, kept, size)
        found = {"bytes an item": _bytes(kept) / size, "installed": _bytes(_packages(python), *PIP) / 1e6}
        try:
            _remove(copy)
            shutil.copytree(kept, copy)
            shutil.copyfile(control, other)
            _tell(f"{name}, {size:,} texts: starting, {1 + STARTS} times")
            starts = [self._run(name, python, "start", copy, time.monotonic) for _ in range(1 + STARTS)][1:]
            found |= {what: statistics.median(each[what] for each in starts) for what in starts[0]}
            _tell(f"{name}, {size:,} texts: searching and adding")
            return found | self._run(name, python, "compare", copy, size, str(other))
        finally:
            _remove(copy, *other.parent.glob(other.name + "*"))

    def _store(self, name: str, python: Path, kept: Path, size: int) -> None:
        _tell(f"{name}, {size:,} texts: storing")
        partial = kept.with_suffix(".partial")
        _remove(partial)
        try:
            told = self._run(name, python, "store", partial, size, self._seconds, more=60)
            if told["stored"] < size:
                raise NotRun(f"only {told['stored']:,} of {size:,} texts were stored in {self._seconds:.0f} s")
            if told["held"] != size:
                raise NotRun(f"{size:,} texts were stored, and it holds {told['held']:,}")
            partial.rename(kept)
        finally:
            _remove(partial)

    def _run(self, name: str, python: Path, step: str, store: Path, *rest: Any, more: float = 0) -> dict[str, Any]:
        """One step in a process of its own. Raises NotRun with the last line of what it complained of."""
        said = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        said |= {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "TOKENIZERS_PARALLELISM": "false"}
        if name == "memlite":
            said["PYTHONPATH"] = str(environment.ROOT)  # this checkout, whatever was installed
        command = [str(python), "-W", "ignore", __file__, name, step, str(store), str(self._given)]
        command += [json.dumps(each() if callable(each) else each) for each in rest]
        try:
            done = _ran(command, env=said, timeout=self._seconds + more)
        except subprocess.TimeoutExpired:
            raise NotRun(f"{step} took more than {self._seconds + more:.0f} s") from None
        if done.returncode:
            raise NotRun(f"{step} failed: {_last(done.stderr) or f'exit code {done.returncode}'}")
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found


def shown(value: float) -> str:
    """A figure for people."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def table(found: Iterable[dict[str, Any]]) -> str:
    """A Markdown table of the rivals' figures among those that bench_scale has found; "" if there are none.

    found: with "size", "measure" ("mem0: search") and "value"; where that is None a "reason", the measure being a name.
    """
    rows: dict[tuple[int, str], dict[str, float]] = {}
    reasons = []
    for each in found:
        name, _, what = each["measure"].partition(": ")
        if name in RIVALS and each["value"] is None:
            reasons.append(f"{name}, {each['size']:,} texts: {each['reason']}")
        elif name in RIVALS:
            rows.setdefault((each["size"], name), {})[what] = each["value"]
    if not rows and not reasons:
        return ""
    lines = [
        "",
        "| texts | | " + " | ".join(f"{what}, {unit}" if unit else what for what, unit in UNITS.items()) + " |",
    ]
    lines.append("|---" * (2 + len(UNITS)) + "|")
    for (size, name), row in rows.items():
        figures = [shown(row[what]) if what in row else "" for what in UNITS]
        lines.append(f"| {size:,} | {name} | {' | '.join(figures)} |")
    return "\n".join([*lines, "", *reasons]).rstrip("\n") + "\n"


PIP = ("pip", "setuptools", "wheel", "pkg_resources", "_distutils_hack", "distutils")  # what every environment has


def made(name: str, requirements: Sequence[str]) -> Path:
    """The Python of an environment beside memlite's own that has the requirements. Raises NotRun where it cannot be."""
    place = environment.VENV / "rivals" / name
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    project = (environment.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    wanted = "\n".join((*requirements, hashlib.sha256(project.encode()).hexdigest()))
    stamp = place / "installed"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    _tell(f"{name}: installing {' '.join(requirements)}")
    _remove(place)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q", *requirements]
    for command in ([sys.executable, "-m", "venv", str(place)], pip):
        done = _ran(command)
        if done.returncode:
            raise NotRun(f"it could not be installed: {_last(done.stderr) or f'exit code {done.returncode}'}")
    stamp.write_text(wanted, encoding="utf-8")
    return python


def _packages(python: Path) -> Path:
    """Where an environment's packages lie."""
    return Path(_ran([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).stdout.strip())


def _ran(command: list[str], **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, **more)


def _bytes(folder: Path, *without: str) -> int:
    """Bytes of all files of a folder but bytecode, and but what begins with these names at its top."""
    files = (each for each in folder.rglob("*") if each.is_file() and "__pycache__" not in each.parts)
    return sum(each.stat().st_size for each in files if not each.relative_to(folder).parts[0].startswith(without))


def _last(complaint: str) -> str:
    """The line that says what went wrong: pip's own last error, or the end of a traceback."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or [""])[-1].removeprefix("ERROR: ")[:300]


def _remove(*paths: Path) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _tell(line: str) -> None:
    """A line for the person who waits."""
    print(f"rivals: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
