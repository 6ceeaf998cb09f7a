"""What every test stands on: the real models, a file of its own, and no way into a person's data."""

from __future__ import annotations

import importlib.util
import signal
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import apsw
import pytest
import sqlite_vec  # noqa: F401  # said to be there by name when it is missing, not by a failing search

from memlite import ExtractedFact, Extraction, ExtractionRequest, Memory, downloads, models, vectors
from memlite.db import load_sqlite_vec


def pytest_report_header() -> str:
    return f"SQLite {apsw.sqlite_lib_version()}, apsw {apsw.apsw_version()}, models in {models.models_folder()}"


if sys.version_info < (3, 11):  # these two frameworks no longer install there
    collect_ignore = ["test_integrations_docs.py", "test_integrations_langchain.py", "test_integrations_pydantic_ai.py"]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # behind a shell's &; processes that tests start would ignore it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", name="models", autouse=True)
def _models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The models folder with the default models, pulled where they are missing."""
    folder = models.models_folder()
    downloads.pull_default()
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMLITE_MODELS", str(folder))
        # The default file lies in a person's data folder; no test may reach it.
        patch.setenv("XDG_DATA_HOME", str(home))
        for name in ("MEMLITE_DB", "MEMLITE_USER", "MEMLITE_AGENT", "MEMLITE_RUN", "MEMLITE_EMBEDDER"):
            patch.delenv(name, raising=False)
        for name in ("MEMLITE_EXTRACTOR", "MEMLITE_KEY", "MEMLITE_NEW_KEY"):
            patch.delenv(name, raising=False)
        patch.setenv("TOKENIZERS_PARALLELISM", "false")
        yield folder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A place for a file that does not exist yet."""
    return tmp_path / "memory.db"


@pytest.fixture
def memory(path: Path) -> Iterator[Memory]:
    """A memory without models: what does not depend on a model's words is tested on it."""
    with Memory(path, embedder=False, extractor=False) as opened:
        yield opened


def script(name: str) -> ModuleType:
    """A script of this checkout, which has no ending, as a module."""
    loader = SourceFileLoader(name, str(Path(__file__).parent.parent / "scripts" / name))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    loader.exec_module(made)
    return made


def as_version_3(path: Path) -> None:
    """Make a file what it was in version 3: the vectors lie in vec0's tables, as floats, one for each generation."""
    db = apsw.Connection(str(path))
    load_sqlite_vec(db)
    generations = list(db.execute("SELECT generation, number, dimension, floats FROM embedder"))
    with db:
        for kind in ("fact", "message", "entity"):
            rows = list(db.execute(f"SELECT id, made_by, vector FROM {kind}_vectors"))
            db.execute(f"DROP TABLE {kind}_vectors")
            for generation, number, dimension, floats in generations:
                name = f"{kind}_vectors" + ("" if generation == "serving" else f"_{generation}")
                db.execute(
                    f"""
                    CREATE VIRTUAL TABLE {name} USING vec0(
                      id INTEGER PRIMARY KEY, user_key INTEGER, agent_key INTEGER, run_key INTEGER, live INTEGER,
                      expires_at INTEGER, embedding float[{dimension}] distance_metric=cosine, chunk_size=256)
                    """
                )
                for id_, made_by, vector in rows:
                    if made_by == number:
                        packed = vectors.Form(number, dimension, bool(floats)).packed(vector)
                        db.execute(f"INSERT INTO {name} VALUES (?, 1, 0, 0, 1, 9223372036854775807, ?)", (id_, packed))
        db.execute("ALTER TABLE embedder DROP COLUMN number")
        db.execute("ALTER TABLE embedder DROP COLUMN floats")
        db.execute("DROP INDEX facts_by_last_day")
        for kind in ("fact", "message"):
            db.execute(f"DROP TABLE {kind}_metadata")
            for when in ("insert", "delete", "update"):
                db.execute(f"DROP TRIGGER {kind}_metadata_{when}")
        db.execute("PRAGMA user_version = 3")
    db.close()


class Echo:
    """An extractor whose facts are the messages themselves."""

    name = "echo"
    prompt_version = "1"

    def extract(self, request: ExtractionRequest) -> Extraction:
        return Extraction(tuple(ExtractedFact(turn.text, turn.speaker, (turn.number,)) for turn in request.messages))


@pytest.fixture
def learning(path: Path) -> Iterator[Memory]:
    """A memory that learns every message as it is."""
    with Memory(path, embedder=False, extractor=Echo()) as opened:
        yield opened
