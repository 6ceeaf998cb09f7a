"""repair() and `memlite doctor --repair`: what sqlite3 or a crash breaks is found and mended, and nothing else."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memlite import DamagedFileError, InvalidInputError, Memory, Repaired, cli

Snapshot = dict[str, list[Any]]


class Letters:
    """An embedder whose vectors count letters, so that texts of the same words are near one another."""

    name = "letters"
    dimension = 26

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0 + 5 * text.lower().count(chr(97 + at)) for at in range(26)] for text in texts]


class Others(Letters):
    """Another one."""

    name = "others"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [vector[::-1] for vector in super().embed(texts)]


class Echo:
    """An extractor whose facts are the messages themselves."""

    name = "echo"
    prompt_version = "1"

    def extract(self, request: Any) -> Any:
        from memlite import ExtractedFact, Extraction, NamedEntity

        return Extraction(
            tuple(
                ExtractedFact(turn.text, turn.speaker, (turn.number,), entities=(NamedEntity("Ana", "person"),))
                for turn in request.messages
            )
        )


def opened(path: Path, embedder: Any = None) -> Memory:
    return Memory(path, embedder=Letters() if embedder is None else embedder, extractor=Echo())


@pytest.fixture
def filled(path: Path) -> Path:
    """A file in which there is one of everything: current, replaced, updated, expired, archived and undone."""
    with opened(path) as memory:
        memory.add("Ana rows on the Douro.", user_id="ana", run_id="r1")
        memory.add("Ana plays the cello.", user_id="ana", agent_id="cook")
        memory.add("安娜住在里斯本。", user_id="ana", extract="never")
        oat = memory.remember(
            {"text": "Ana drinks oat milk.", "entities": [{"name": "Ana", "type": "person"}]}, user_id="ana"
        )
        memory.remember({"text": "Ana drinks almond milk.", "replaces": oat.facts[0].id}, user_id="ana")
        bike = memory.remember(
            {"text": "Bo has a bike.", "entities": [{"name": "Bo", "type": "person", "aliases": ["Bolek"]}]},
            user_id="bo",
            metadata={"colour": "red", "price": 10.5, "sold": False, "parts": [1]},
        )
        memory.update(bike.facts[0].id, text="Bo has a red bike.", kind="thing")
        memory.remember("Ana has a cold.", user_id="ana", expires_at="2001-01-01")
        memory.set_ttl(timedelta(days=30), kind="mood")
        memory.remember("Ana is happy.", user_id="ana", kind="mood")
        memory.archive(memory.remember("Ana owes Bo ten euros.", user_id="ana").facts[0].id)
        memory.undo(memory.add("Ana moved to Rome.", user_id="ana").batch)
        memory.compact()  # a word index that older versions of SQLite read as well
    return path


def stock(path: Path, script: str) -> None:
    """What a person does with sqlite3: no foreign keys."""
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.close()


TABLES = (
    "scopes",
    "batches",
    "facts",
    "messages",
    "sources",
    "entities",
    "aliases",
    "mentions",
    "links",
    "events",
    "ttls",
)
DERIVED = {"hash", "words", "live", "folded", "embedded", "user_key", "agent_key", "run_key", "terms"}


def said(path: Path) -> Snapshot:
    """Every row as it was given: without what is derived of it."""
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    found = {
        table: sorted(
            repr({name: row[name] for name in row.keys() if name not in DERIVED})  # noqa: SIM118
            for row in connection.execute(f"SELECT * FROM {table}")
        )
        for table in TABLES
    }
    connection.close()
    return found


QUERIES = (
    "who rows on the Douro", "cello", "里斯本", "what does Ana drink", "Bolek's bike", "a cold", "euros", "Rome",
    "happy",
)  # fmt: skip


def found(path: Path, embedder: Any = None) -> list[Any]:
    """What searching finds: now, in the past, and by meaning alone."""
    with opened(path, embedder) as memory:
        return [
            [(hit.id, round(hit.score, 6)) for hit in memory.search(query, user_id=user, past=past)]
            for query in QUERIES
            for user in ("ana", "bo")
            for past in (False, True)
        ]


def repaired(path: Path, **about: Any) -> Repaired:
    with opened(path) as memory:
        return memory.repair(**about)


def places(result: Repaired) -> set[str]:
    return {fault.place for fault in result.found}


# In order.


def test_nothing_is_out_of_step_where_memlite_alone_has_written(filled: Path) -> None:
    before = filled.read_bytes()
    assert repaired(filled, dry_run=True) == Repaired((), (), 0)
    assert repaired(filled) == Repaired((), (), 0)
    assert filled.read_bytes() == before
    with opened(filled, Others()) as memory:
        memory.reembed()
        memory.remember("Ana swims.", user_id="ana")
        assert memory.repair() == Repaired((), (), 0)
        memory.rollback_reembed()
    with opened(filled) as memory:
        memory.work()
        memory.delete(memory.search("cello", user_id="ana")[0].id)
        memory.set_ttl(1, user_id="ana", existing=True)
        assert memory.repair() == Repaired((), (), 0)
        memory.compact()
        memory.delete_all(everything=True)
        assert memory.repair() == Repaired((), (), 0)


def test_a_file_without_vectors_is_in_order(path: Path) -> None:
    with Memory(path, embedder=False, extractor=False) as memory:
        memory.remember("Ana rows.", user_id="ana")
        result = memory.repair()
        assert (result.found, result.left, result.vectors) == ((), (), 0)
        assert "vectors are off" in result.notes[0]


def test_a_handle_cannot_repair_the_file(memory: Memory) -> None:
    with pytest.raises(InvalidInputError, match="whole file"):
        memory.scope(user_id="ana").repair()


# Out of step, and mended: all is found as before, and nothing that was said has changed.

WORDS = [
    "INSERT INTO fact_words(fact_words) VALUES ('delete-all')",
    "INSERT INTO message_words(message_words) VALUES ('delete-all')",
    "INSERT INTO fact_words(rowid, text, words, scope) VALUES (77, 'a ghost', '', 'u1 a0 r0 live')",
    "DELETE FROM fact_words_data",
    "DELETE FROM fact_words_data WHERE id > 10",
    "DELETE FROM message_words_docsize",
    "DELETE FROM fact_words_config",
    "DELETE FROM fact_words_config WHERE k = 'secure-delete'",
    "DROP TABLE fact_words",
    "DROP TABLE message_words_data",
    "DROP TABLE message_words_idx",
    "DROP TABLE fact_words_docsize",
    "DROP TABLE fact_words_config",
]
SCHEMA = [
    "DROP TRIGGER fact_words_insert",
    "DROP TRIGGER mentions_last; DROP TRIGGER events_keep; DROP INDEX facts_by_text",
    "DROP VIEW fact_text",
    "DROP VIEW current_facts",
    "DROP INDEX facts_living",
    "DROP TRIGGER fact_words_after; CREATE TRIGGER fact_words_after AFTER UPDATE ON facts BEGIN SELECT 1; END",
    "DROP TRIGGER fact_words_before; DROP TRIGGER fact_words_after; UPDATE facts SET words = 'x'",
]
ROWS = [
    "UPDATE facts SET hash = 'sha256:0' || id",
    "UPDATE messages SET hash = 'sha256:0' WHERE id = 1",
    "UPDATE facts SET words = 'x'",
    "UPDATE messages SET words = ''",
    "UPDATE facts SET live = 0",
    "UPDATE entities SET folded = 'x' || id",
    "UPDATE aliases SET folded = 'x'",
    "UPDATE aliases SET root_id = 1",
    "UPDATE scopes SET user_key = 1, terms = 'u1 a0 r0'",
    "UPDATE scopes SET agent_key = 0",
    "UPDATE scopes SET terms = 'nobody'",
]
METADATA = [
    "DELETE FROM fact_metadata",
    "DELETE FROM fact_metadata WHERE key = 'sold'",
    "UPDATE fact_metadata SET value = 'green' WHERE key = 'colour'",
    "UPDATE fact_metadata SET id = id + 77",
    "INSERT INTO message_metadata VALUES ('colour', 'red', 1)",
    "DROP TABLE message_metadata",
    "DROP TABLE fact_metadata",
]
FLAGS = [
    "UPDATE facts SET embedded = 0",
    "UPDATE messages SET embedded = 0 WHERE id = 2",
    "UPDATE facts SET embedded = 1; UPDATE messages SET embedded = 1",
    "UPDATE entities SET embedded = 0",
    "DELETE FROM embedder",
    "DELETE FROM fact_vectors WHERE id = 1",
    "DELETE FROM fact_vectors",
    "DELETE FROM fact_vectors WHERE id = 2; DELETE FROM entity_vectors",
    "UPDATE fact_vectors SET made_by = 77",
    "UPDATE fact_vectors SET vector = zeroblob(8)",
    "UPDATE fact_vectors SET scope_id = 77",
    "UPDATE message_vectors SET scope_id = 77",
    "UPDATE entity_vectors SET scope_id = 77",
    "INSERT INTO fact_vectors SELECT 999, 999, made_by, scope_id, vector FROM fact_vectors WHERE id = 1",
    "INSERT INTO message_vectors SELECT 999, 5, made_by, scope_id, vector FROM message_vectors WHERE id = 1",
    "DROP TABLE fact_vectors",
    "DROP TABLE message_vectors; DROP TABLE entity_vectors",
]


@pytest.mark.parametrize(
    ("place", "script"),
    [
        *(pytest.param("words", script, id=script[:70]) for script in WORDS),
        *(pytest.param("schema", script, id=script[:70]) for script in SCHEMA),
        *(pytest.param("rows", script, id=script[:70]) for script in ROWS),
        *(pytest.param("metadata", script, id=script[:70]) for script in METADATA),
        *(pytest.param("vectors", script, id=script[:70]) for script in FLAGS),
    ],
)
def test_what_stock_sqlite_puts_out_of_step_is_found_and_mended(filled: Path, place: str, script: str) -> None:
    rows, hits = said(filled), found(filled)
    stock(filled, script)
    before = filled.read_bytes()
    looked = repaired(filled, dry_run=True)
    assert place in places(looked)
    assert all(fault.count > 0 and fault.mendable for fault in looked.found)
    assert looked.left == looked.found
    assert filled.read_bytes() == before
    result = repaired(filled)
    assert (result.found, result.left) == (looked.found, ())
    assert repaired(filled) == Repaired((), (), 0)
    assert said(filled) == rows
    assert found(filled) == hits


def test_all_of_it_at_once_is_mended(filled: Path) -> None:
    rows, hits = said(filled), found(filled)
    for script in (*ROWS, *FLAGS[-4:], *METADATA[-3:], *SCHEMA, *WORDS[-3:]):
        stock(filled, script)
    result = repaired(filled)
    assert places(result) == {"words", "metadata", "schema", "rows", "vectors"}
    assert result.left == ()
    assert said(filled) == rows
    assert found(filled) == hits


@pytest.mark.parametrize("generation", ["previous", "building"])
def test_the_vectors_of_other_generations_are_mended_too(filled: Path, generation: str) -> None:
    with opened(filled, Others()) as memory:
        memory.reembed()
        if generation == "building":
            memory.rollback_reembed()
    if generation == "building":
        embedder = Stopping(after=2)
        with opened(filled, embedder) as memory, pytest.raises(KeyboardInterrupt):
            memory.reembed()
    made_by = f"(SELECT number FROM embedder WHERE generation = '{generation}')"
    stock(filled, f"UPDATE fact_vectors SET scope_id = 77 WHERE id = 1 AND made_by = {made_by}")
    stock(filled, f"UPDATE message_vectors SET vector = zeroblob(3) WHERE id = 1 AND made_by = {made_by}")
    with opened(filled, Letters() if generation == "building" else Others()) as memory:
        result = memory.repair()
        assert (places(result), result.left) == ({"vectors"}, ())
        assert memory.repair() == Repaired((), (), 0)


# What is deleted or changed by hand.


@pytest.mark.parametrize(
    ("script", "gone"),
    [
        pytest.param("DELETE FROM facts WHERE text LIKE '%cello%'", {"facts"}, id="a fact"),
        pytest.param("DELETE FROM facts WHERE text LIKE '%almond%'", {"facts", "links"}, id="a fact that replaced one"),
        pytest.param("DELETE FROM facts", {"facts", "links", "mentions", "entities", "aliases"}, id="all facts"),
        pytest.param("DELETE FROM messages WHERE id = 1", {"messages", "sources"}, id="a message"),
        pytest.param("DELETE FROM entities WHERE name = 'Bo'", {"entities", "aliases", "mentions"}, id="an entity"),
        pytest.param("DELETE FROM mentions WHERE name = 'Bo'", {"entities", "aliases", "mentions"}, id="mentions"),
    ],
)
def test_what_belongs_to_a_row_that_was_deleted_by_hand_goes_with_it(filled: Path, script: str, gone: set[str]) -> None:
    rows = said(filled)
    stock(filled, script)
    assert repaired(filled).left == ()
    after = said(filled)
    # Nothing is there that was not before; what is gone is of the row that was deleted.
    assert all(set(after[table]) <= set(rows[table]) for table in TABLES)
    assert gone <= {table for table in TABLES if after[table] != rows[table]}
    assert {table for table in TABLES if after[table] != rows[table]} <= gone | {
        "mentions",
        "sources",
        "entities",
        "aliases",
    }
    assert repaired(filled) == Repaired((), (), 0)
    with opened(filled) as memory:
        memory.remember("Ana plays the cello.", user_id="ana")
        assert memory.search("cello", user_id="ana")[0].text == "Ana plays the cello."
    assert repaired(filled) == Repaired((), (), 0)


def test_a_text_that_was_changed_by_hand_is_found_by_its_words_and_its_meaning(filled: Path) -> None:
    stock(filled, "UPDATE facts SET text = 'Ana juggles knives.' WHERE text LIKE '%cello%'")
    result = repaired(filled)
    assert (places(result), result.left) == ({"rows"}, ())
    with opened(filled) as memory:
        hit = memory.search("juggles", user_id="ana", include=("facts",), explain=True)[0]
        assert (hit.text, hit.explain and hit.explain.keyword) == ("Ana juggles knives.", 1.0)
        assert memory.search("Ana juggles knives!", user_id="ana", explain=True)[0].score == 1
        meant = memory.search("knivesjuggles", user_id="ana", include=("facts",), explain=True)[0]
        assert meant.text == "Ana juggles knives."
        assert meant.explain
        assert meant.explain.semantic
        assert meant.explain.semantic > 0.9
        assert memory.remember("Ana juggles knives", user_id="ana", agent_id="cook").skipped[0].existing == hit.id


def test_a_text_that_another_fact_has_had_until_now_is_no_obstacle(filled: Path) -> None:
    stock(
        filled,
        """
        UPDATE facts SET text = CASE text WHEN 'Ana is happy.' THEN 'Ana juggles.' ELSE 'Ana is happy.' END
        WHERE text IN ('Ana drinks almond milk.', 'Ana is happy.')
        """,
    )
    assert repaired(filled).left == ()
    assert repaired(filled, dry_run=True).found == ()
    with opened(filled) as memory:
        assert memory.remember(["Ana is happy", "ana juggles"], user_id="ana").facts == ()


# What nothing tells.


def test_of_two_current_facts_that_say_the_same_a_person_chooses(filled: Path) -> None:
    stock(
        filled,
        """
        INSERT INTO facts(uid, scope_id, text, hash, created_at, observed_at, valid_from, last_confirmed_at)
        SELECT 'abcdef0123', scope_id, 'ana drinks ALMOND milk', 'sha256:of-another-text', 1, 1, 1, 1
        FROM facts WHERE text = 'Ana drinks almond milk.'
        """,
    )
    rows = said(filled)
    result = repaired(filled)
    assert [(fault.place, fault.count, fault.mendable) for fault in result.left] == [("rows", 2, False)]
    assert "archive or delete" in result.left[0].what
    assert said(filled) == rows
    with opened(filled) as memory:
        memory.delete("abcdef0123")
        assert memory.repair().left == ()


@pytest.mark.parametrize(
    ("script", "advice"),
    [
        ("UPDATE batches SET scope_id = 12345 WHERE id = 1", "backup"),
        ("DELETE FROM scopes WHERE id = (SELECT max(id) FROM scopes)", "backup"),
        ("DELETE FROM links WHERE relation = 'updates'", "backup"),
        ("DROP TABLE mentions", "restore a backup"),
        ("DROP TABLE ttls; DROP TABLE events", "ttls"),
    ],
)
def test_what_only_a_backup_has_is_told_and_left(filled: Path, script: str, advice: str) -> None:
    stock(filled, script)
    before = _dump(filled)
    result = repaired(filled)
    assert any(advice in fault.what and not fault.mendable for fault in result.left)
    assert _dump(filled) == before


def _dump(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    found = [repr(list(connection.execute(f"SELECT * FROM {table}"))) for table in TABLES if table in names]
    connection.close()
    return found


# Interrupted, without an embedder, damaged.


class Stopping(Others):
    """An embedder that is interrupted after so many calls."""

    name = "others"

    def __init__(self, after: int) -> None:
        self.left = after

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return super().embed(texts)


@pytest.mark.parametrize("steps", range(1, 6))
def test_an_interrupted_repair_goes_on_where_it_was(filled: Path, steps: int) -> None:
    rows, hits = said(filled), found(filled)
    for script in (SCHEMA[0], ROWS[0], ROWS[3], WORDS[0], FLAGS[0], FLAGS[5]):
        stock(filled, script)
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        if len(told) == steps:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        repaired(filled, progress=tell)
    left = repaired(filled, dry_run=True).found
    assert not {f"{fault.count} {fault.what}" for fault in left} & set(told)
    assert repaired(filled).left == ()
    assert said(filled) == rows
    assert found(filled) == hits


def test_a_repair_that_is_stopped_while_vectors_are_made_goes_on(filled: Path) -> None:
    hits = found(filled)
    stock(filled, "DELETE FROM fact_vectors; DELETE FROM message_vectors")

    class Stops(Letters):
        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            if any("Douro" in text and "Ana:" not in text for text in texts) and "cat" not in texts[0]:
                raise KeyboardInterrupt
            return super().embed(texts)

    with opened(filled, Stops()) as memory, pytest.raises(KeyboardInterrupt):
        memory.repair()
    assert repaired(filled).vectors > 0
    assert found(filled) == hits


def test_without_an_embedder_all_else_is_mended_and_work_makes_the_vectors(filled: Path) -> None:
    hits = found(filled)
    stock(filled, "DELETE FROM fact_vectors; DELETE FROM fact_words_config")
    with opened(filled, False) as memory:
        result = memory.repair()
        assert (result.left, result.vectors) == ((), 0)
        assert "vectors are off" in result.notes[0]
    with opened(filled) as memory:
        assert memory.work().vectors > 0
    assert found(filled) == hits


def test_with_another_embedder_it_says_what_to_do(filled: Path) -> None:
    stock(filled, "UPDATE facts SET embedded = 0")
    with opened(filled, Others()) as memory:
        result = memory.repair()
        assert result.left == ()
        assert "memlite reembed" in result.notes[-1]


def test_a_file_whose_pages_are_damaged_is_left_as_it_is(filled: Path) -> None:
    connection = sqlite3.connect(filled)
    (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'sources_by_message'").fetchone()
    connection.close()
    data = bytearray(filled.read_bytes())
    data[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    filled.write_bytes(data)
    for about in ({}, {"dry_run": True}):
        with opened(filled) as memory, pytest.raises(DamagedFileError, match=r"damaged.*backup.*doctor --repair"):
            memory.repair(**about)  # type: ignore[arg-type]
    assert filled.read_bytes() == bytes(data)
    result = CliRunner().invoke(cli.main, ["doctor", "--repair", "--db", str(filled)], env={"MEMLITE_EMBEDDER": "off"})
    assert result.exit_code == 1
    assert f"into {filled.with_name('memory.salvaged.db')}" in result.output
    assert filled.read_bytes() == bytes(data)


# The command line.


@pytest.fixture
def doctor(filled: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, dict[str, Any]]]:
    monkeypatch.setenv("MEMLITE_EMBEDDER", "off")
    monkeypatch.setenv("MEMLITE_EXTRACTOR", "off")

    def examine(*words: str, code: int = 0) -> dict[str, dict[str, Any]]:
        result = CliRunner().invoke(cli.main, ["doctor", "--db", str(filled), "--json", *words])
        assert result.exit_code == code, result.output
        return {finding["name"]: finding for finding in json.loads(result.stdout)}

    return examine


def test_doctor_tells_what_is_out_of_step_and_repair_mends_it(filled: Path, doctor: Any) -> None:
    assert "repair" not in doctor()
    stock(filled, "DELETE FROM facts WHERE id = 1; UPDATE facts SET hash = 'x' || id")
    stock(filled, "DROP INDEX facts_by_batch; DELETE FROM embedder; DELETE FROM fact_words_data")
    shown = doctor(code=1)
    assert [name for name, finding in shown.items() if not finding["ok"]] == [
        "schema", "rows", "references", "vectors", "words"
    ]  # fmt: skip
    assert all("memlite doctor --repair" in finding["detail"] for finding in shown.values() if not finding["ok"])
    mended = doctor("--repair")
    assert mended["repair"]["detail"].startswith("mended ")
    assert "fact(s) with the hash of another text" in mended["repair"]["detail"]
    assert doctor("--repair")["repair"]["detail"].startswith("vectors are off")


def test_doctor_does_not_promise_what_it_cannot(filled: Path, doctor: Any) -> None:
    stock(filled, "UPDATE batches SET scope_id = 12345 WHERE id = 1")
    assert "--repair" not in doctor(code=1)["references"]["detail"]
    after = doctor("--repair", code=1)
    assert not after["repair"]["ok"]
    assert after["repair"]["detail"].startswith("left 1 row(s)")


def test_a_missing_file_is_not_made(path: Path) -> None:
    result = CliRunner().invoke(cli.main, ["doctor", "--repair", "--db", str(path), "--json"])
    assert "repair" not in {finding["name"] for finding in json.loads(result.stdout)}
    assert not path.exists()
