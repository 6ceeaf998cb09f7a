"""memlite doctor: what it says of a machine and a file, and that looking changes nothing."""

from __future__ import annotations

import json
import os
import sqlite3
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import apsw
import pytest
from click.testing import CliRunner

from memlite import ExtractionError, ExtractionRequest, Memory, cli, db, schema

Doctor = Callable[..., dict[str, tuple[bool, str]]]
PAGE = 4096
ORDER = ["sqlite", "fts5", "sqlite-vec", "embedder", "extractor", "disk", "file"]


@pytest.fixture
def doctor(path: Path, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """Each finding of `memlite doctor` by its name: whether it is in order, and the words. Without models."""
    monkeypatch.setenv("MEMLITE_EMBEDDER", "off")
    monkeypatch.setenv("MEMLITE_EXTRACTOR", "off")

    def examine(*words: str, code: int = 0) -> dict[str, tuple[bool, str]]:
        result = CliRunner().invoke(cli.main, ["doctor", "--db", str(path), "--json", *words])
        if result.exception and not isinstance(result.exception, SystemExit):
            traceback.print_exception(result.exception)
        assert result.exit_code == code, result.output
        findings = json.loads(result.stdout)
        assert all(set(finding) == {"name", "ok", "detail"} for finding in findings)
        assert code == int(not all(finding["ok"] for finding in findings))
        return {finding["name"]: (finding["ok"], finding["detail"]) for finding in findings}

    return examine


@pytest.fixture
def healthy(path: Path) -> Path:
    """A file with facts and messages and without a fault."""
    with Memory(path, embedder=False, extractor=False) as memory:
        memory.remember([f"Fact number {n} about tea in Porto." for n in range(40)], user_id="ana")
        memory.add("The risotto is at Osteria Lume.", user_id="ana", extract="never")
    return path


class Three:
    """An embedder of three numbers."""

    name = "three"
    dimension = 3

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, float(len(text)), float(text.count("a"))] for text in texts]


class Failing:
    """An extractor that never answers."""

    name = "failing"
    prompt_version = "1"

    def extract(self, request: ExtractionRequest) -> None:
        raise ExtractionError(f"no answer about {request.messages[0].text}")


def bad(findings: dict[str, tuple[bool, str]]) -> list[str]:
    return [name for name, (ok, _) in findings.items() if not ok]


def pages_of(path: Path, table: str) -> Iterator[int]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        for (number,) in list(connection.execute("SELECT pageno FROM dbstat WHERE name = ?", (table,))):
            yield number
    finally:
        connection.close()


def spoil(path: Path, table: str) -> None:
    """Overwrite every page of a table."""
    data = bytearray(path.read_bytes())
    for number in pages_of(path, table):
        data[(number - 1) * PAGE : number * PAGE] = b"\xff" * PAGE
    path.write_bytes(data)


# In order.


def test_a_healthy_file_is_in_order(doctor: Doctor, healthy: Path) -> None:
    findings = doctor()
    assert list(findings)[: len(ORDER)] == ORDER
    assert {"references", "vectors", "queue", "words"} <= set(findings)
    assert str(healthy) in findings["file"][1]


def test_for_people_each_finding_is_one_line_that_begins_with_ok_or_bad(doctor: Doctor, healthy: Path) -> None:
    names = list(doctor())
    shown = CliRunner().invoke(cli.main, ["doctor", "--db", str(healthy)]).stdout.splitlines()
    assert [line.split()[:2] for line in shown] == [["ok", name] for name in names]
    spoil(healthy, "facts")
    damaged = CliRunner().invoke(cli.main, ["doctor", "--db", str(healthy)])
    assert damaged.exit_code == 1
    assert {line.split()[0] for line in damaged.stdout.splitlines()} == {"ok", "BAD"}


def test_nl_is_one_finding_a_line(doctor: Doctor, healthy: Path) -> None:
    result = CliRunner().invoke(cli.main, ["doctor", "--db", str(healthy), "--nl"])
    assert [json.loads(line)["name"] for line in result.stdout.splitlines()] == list(doctor())


def test_looking_changes_nothing(doctor: Doctor, healthy: Path) -> None:
    before = (healthy.read_bytes(), healthy.stat().st_mtime_ns)
    doctor()
    assert (healthy.read_bytes(), healthy.stat().st_mtime_ns) == before
    assert list(healthy.parent.iterdir()) == [healthy]


def test_a_file_in_use_can_be_examined(doctor: Doctor, healthy: Path) -> None:
    with Memory(healthy, embedder=False, extractor=False) as memory:
        memory.remember("Zoe sings.", user_id="ana")
        assert bad(doctor()) == []


@pytest.mark.parametrize("words", [[], ["--compact"]], ids=["look", "compact"])
def test_a_missing_file_is_no_fault_and_is_not_made(doctor: Doctor, path: Path, words: list[str]) -> None:
    ok, detail = doctor(*words)["file"]
    assert ok
    assert "memlite add" in detail
    assert list(path.parent.iterdir()) == []


def test_without_models_it_says_which_command_gets_them(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("MEMLITE_EMBEDDER")
    monkeypatch.delenv("MEMLITE_EXTRACTOR")
    monkeypatch.setenv("MEMLITE_MODELS", str(tmp_path / "models"))
    findings = doctor()
    for role in ("embedder", "extractor"):
        assert findings[role][0]
        assert "memlite models pull default" in findings[role][1]


def test_the_models_are_named_with_their_files(doctor: Doctor, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMLITE_EMBEDDER")
    monkeypatch.delenv("MEMLITE_EXTRACTOR")
    findings = doctor()
    for role in ("embedder", "extractor"):
        assert findings[role][0]
        assert str(models / role) in findings[role][1]


# Not in order.


@pytest.mark.parametrize("adapter", ['adapter = "mine.gguf"', 'adaptor = "mine.gguf"'], ids=["garbage", "misspelt"])
def test_an_extractor_whose_adapter_is_broken_is_bad(
    doctor: Doctor, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adapter: str
) -> None:
    (tmp_path / "mine.gguf").write_bytes(b"GGUF garbage")
    (tmp_path / "forms.toml").write_text(f'[[extractor]]\nfile = "*.gguf"\nform = "compact"\n{adapter}\n')
    monkeypatch.setenv("MEMLITE_MODELS", str(tmp_path))
    monkeypatch.setenv("MEMLITE_EXTRACTOR", str(next((models / "extractor").glob("*.gguf"))))
    ok, detail = doctor(code=1)["extractor"]
    assert not ok
    assert str(tmp_path) in detail


@pytest.mark.parametrize("content", [b"\x7fELF" * 100, b"x"], ids=["long", "one-byte"])
@pytest.mark.parametrize("words", [[], ["--compact"]], ids=["look", "compact"])
def test_a_foreign_file_is_bad_and_not_touched(path: Path, doctor: Doctor, content: bytes, words: list[str]) -> None:
    path.write_bytes(content)
    result = CliRunner().invoke(cli.main, ["doctor", "--db", str(path), *words])
    assert result.exit_code == 1
    assert "not a memlite file" in result.output
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


def test_the_database_of_another_program_is_bad_and_not_touched(doctor: Doctor, path: Path) -> None:
    theirs = sqlite3.connect(path)
    theirs.executescript("PRAGMA journal_mode = WAL; CREATE TABLE t(x); INSERT INTO t VALUES (1)")
    theirs.close()
    before = path.read_bytes()
    findings = doctor(code=1)
    assert bad(findings) == ["file"]
    assert "another program" in findings["file"][1]
    assert path.read_bytes() == before


def test_a_file_of_a_newer_memlite_is_bad(doctor: Doctor, healthy: Path) -> None:
    connection = sqlite3.connect(healthy)
    connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    connection.close()
    findings = doctor(code=1)
    assert bad(findings) == ["file"]
    assert "pip install --upgrade memlite" in findings["file"][1]


def test_a_directory_is_bad(doctor: Doctor, path: Path) -> None:
    path.mkdir()
    assert bad(doctor(code=1)) == ["file"]


@pytest.mark.parametrize(
    "table",
    ["facts", "messages", "scopes", "batches", "events", "facts_living", "sources_by_message", "sqlite_schema",
     "fact_words_data", "fact_words_config", "message_words_idx"],
)  # fmt: skip
def test_a_damaged_page_is_found_and_what_was_found_before_it_still_told(
    doctor: Doctor, healthy: Path, table: str
) -> None:
    spoil(healthy, table)
    findings = doctor(code=1)
    assert set(bad(findings)) & {"file", "words"}
    assert list(findings)[: len(ORDER)] == ORDER


def test_a_place_where_no_file_can_be_made_is_bad(doctor: Doctor, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    findings = doctor(code=1)
    assert bad(findings) == ["file"]
    assert str(path) in findings["file"][1]


def test_a_file_cut_off_in_the_middle_is_bad(doctor: Doctor, healthy: Path) -> None:
    healthy.write_bytes(healthy.read_bytes()[: healthy.stat().st_size // 2 // PAGE * PAGE])
    assert "file" in bad(doctor(code=1))


@pytest.mark.parametrize("table", ["facts", "sqlite_schema", "fact_words_config", "message_words_idx"])
def test_a_damaged_file_is_not_answered_with_the_doctor_again(doctor: Doctor, healthy: Path, table: str) -> None:
    spoil(healthy, table)
    findings = doctor(code=1)
    assert all("`memlite doctor`" not in findings[name][1] for name in bad(findings))


def test_a_damaged_file_cannot_be_compacted(doctor: Doctor, healthy: Path) -> None:
    spoil(healthy, "facts")
    before = healthy.read_bytes()
    result = CliRunner().invoke(cli.main, ["doctor", "--db", str(healthy), "--compact"])
    assert result.exit_code == 1
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "damaged" in result.output
    assert healthy.read_bytes() == before


def test_a_text_changed_behind_memlites_back_is_found_and_repairing_mends_it(doctor: Doctor, healthy: Path) -> None:
    data = healthy.read_bytes()
    assert data.count(b"Fact number 17 about tea") == 1
    healthy.write_bytes(data.replace(b"Fact number 17 about tea", b"Fact number 17 about gin"))
    findings = doctor(code=1)
    assert bad(findings) == ["rows", "words"]
    assert all("memlite doctor --repair" in findings[name][1] for name in ("rows", "words"))
    assert bad(doctor("--repair")) == []
    with Memory(healthy, embedder=False, extractor=False) as memory:
        assert memory.search("gin", user_id="ana")[0].text == "Fact number 17 about gin in Porto."


def test_words_without_their_rows_are_found(doctor: Doctor, healthy: Path) -> None:
    with db.Database(healthy).write() as connection:
        connection.execute("INSERT INTO message_words(message_words) VALUES ('delete-all')")
    assert bad(doctor(code=1)) == ["words"]
    doctor("--compact")
    with Memory(healthy, embedder=False, extractor=False) as memory:
        assert len(memory.search("risotto", user_id="ana", include=("messages",))) == 1


def test_rows_without_what_they_belong_to_are_found(doctor: Doctor, healthy: Path) -> None:
    connection = sqlite3.connect(healthy)  # foreign keys are off here
    connection.execute("UPDATE batches SET scope_id = 12345 WHERE id = 1")
    connection.commit()
    connection.close()
    assert bad(doctor(code=1)) == ["references"]


def test_vectors_that_disagree_with_the_rows_are_found_and_reembed_mends_them(doctor: Doctor, path: Path) -> None:
    with Memory(path, embedder=Three(), extractor=False) as memory:
        memory.remember(["Ana likes tea.", "Bruno sings."], user_id="ana")
    assert "three, 3 numbers" in doctor()["vectors"][1]
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM fact_vectors WHERE id = 1")
    connection.commit()
    connection.close()
    findings = doctor(code=1)
    assert bad(findings) == ["vectors"]
    assert "memlite doctor --repair" in findings["vectors"][1]
    with Memory(path, embedder=Three(), extractor=False) as memory:
        memory.reembed()
    doctor()


def test_an_embedder_that_did_not_make_the_vectors_is_found(
    doctor: Doctor, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory(path, embedder=Three(), extractor=False) as memory:
        memory.remember("Ana likes tea.", user_id="ana")
    monkeypatch.delenv("MEMLITE_EMBEDDER")
    findings = doctor(code=1)
    assert bad(findings) == ["agreement"]
    assert "memlite reembed" in findings["agreement"][1]


@pytest.mark.parametrize("role", ["embedder", "extractor"])
@pytest.mark.parametrize("content", [None, b"GGUF and then nothing", b"not a model"], ids=["missing", "cut", "other"])
def test_a_model_that_cannot_be_loaded_is_bad_and_the_file_is_examined_all_the_same(
    doctor: Doctor, healthy: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, role: str, content: bytes | None
) -> None:
    model = tmp_path / "models" / "broken.gguf"
    model.parent.mkdir()
    if content is not None:
        model.write_bytes(content)
    monkeypatch.setenv(f"MEMLITE_{role.upper()}", str(model))
    findings = doctor(code=1)
    assert bad(findings) == [role]
    assert str(model) in findings[role][1]
    assert findings["words"][0]


# The queue.


def test_a_queue_is_no_fault_and_the_command_that_drains_it_is_named(doctor: Doctor, path: Path) -> None:
    with Memory(path, embedder=False, extractor=False) as memory:
        for text in ("Ana likes tea.", "Bruno sings."):
            memory.add(text, user_id="ana", extract="later")
    ok, detail = doctor()["queue"]
    assert ok
    assert detail.startswith("2 ")
    assert "memlite work" in detail
    assert "error" not in detail.lower()


def test_a_queue_tells_its_last_error_in_plain_words(doctor: Doctor, path: Path) -> None:
    with Memory(path, embedder=False, extractor=Failing()) as memory:
        for text in ("Ana likes tea.", "Bruno sings."):
            assert memory.add(text, user_id="ana").status == "queued"
    detail = doctor()["queue"][1]
    assert detail.endswith("no answer about Bruno sings.")
    assert "[" not in detail


# Compacting.


def test_compacting_shrinks_a_file_that_much_was_deleted_from(doctor: Doctor, path: Path) -> None:
    with Memory(path, embedder=False, extractor=False) as memory:
        memory.remember([f"Fact {n}: " + "tea and cake " * 200 for n in range(200)], user_id="ana")
        memory.remember("Zoe sings.", user_id="zoe")
        memory.delete_all(user_id="ana")
    before = path.stat().st_size
    assert bad(doctor("--compact")) == []
    assert path.stat().st_size < before / 2
    with Memory(path, embedder=False, extractor=False) as memory:
        assert memory.search("sings", user_id="zoe")[0].text == "Zoe sings."


def test_compacting_keeps_every_row(doctor: Doctor, healthy: Path) -> None:
    def everything() -> list[str]:
        with sqlite3.connect(healthy) as connection:
            told = [f"{t}: {r}" for t in ("facts", "messages", "events", "scopes", "batches")
                    for r in connection.execute(f"SELECT * FROM {t} ORDER BY 1")]  # fmt: skip
        connection.close()
        return told

    before = everything()
    doctor("--compact")
    assert everything() == before
    assert list(healthy.parent.iterdir()) == [healthy]
