"""Facts of other programs: mem0's memories, read without what it needs, and MCP's memory file."""

from __future__ import annotations

import base64
import io
import json
import os
import pickle
import sqlite3
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memlite import Fact, InvalidInputError, Memory, cli
from memlite.records import Imported

# A point as qdrant-client 1.19 stored it for mem0 2.2.1: "Ana lives in Lisbon.", of user ana.
REAL = base64.b64decode(
    "gASVMAIAAAAAAACMIHFkcmFudF9jbGllbnQuaHR0cC5tb2RlbHMubW9kZWxzlIwLUG9pbnRTdHJ1Y3SUk5QpgZR9lCiMCF9fZGljdF9flH2UKIwC"
    "aWSUjCRkOWY3ZmVjZC0yYzY0LTRiZjMtYTM2OC1hNDEwNTdlMjdlMWKUjAZ2ZWN0b3KUfZSMAJRdlChHP9sbGxsbGxtHP+lZWVlZWVlHP+j4+Pj4"
    "+PlHAAAAAAAAAABHP9VVVVVVVVVHP9VVVVVVVVVHP8SUlJSUlJVHP9GRkZGRkZJlc4wHcGF5bG9hZJR9lCiMBGNpdHmUjAVQb3J0b5SMB3VzZXJf"
    "aWSUjANhbmGUjARyb2xllIwEdXNlcpSMBGRhdGGUjBRBbmEgbGl2ZXMgaW4gTGlzYm9uLpSMBGhhc2iUjCA4YjA5ZWI5Y2UyMjExZmJlNzE3MTNm"
    "MDc5ZTllZjRhYpSMCmNyZWF0ZWRfYXSUjCAyMDI2LTExLTMwVDIzOjQ3OjI5Ljc5NjA5MyswMDowMJSMCnVwZGF0ZWRfYXSUjCAyMDI2LTExLTMw"
    "VDIzOjQ3OjI5Ljg0ODA0NSswMDowMJSMD3RleHRfbGVtbWF0aXplZJSMFEFuYSBsaXZlcyBpbiBMaXNib24ulHV1jBJfX3B5ZGFudGljX2V4dHJh"
    "X1+UTowXX19weWRhbnRpY19maWVsZHNfc2V0X1+Uj5QoaAdoDWgJkIwUX19weWRhbnRpY19wcml2YXRlX1+UTnViLg=="
)
REAL_ID = "d9f7fecd-2c64-4bf3-a368-a41057e27e1b"
DAY = "2025-05-11T19:30:00+00:00"


class PointStruct:
    """In the place of Qdrant's class, which pickles name: its state is what pydantic makes of it."""

    def __init__(self, id_: Any, payload: Any) -> None:
        self.fields = {"id": id_, "vector": {"": [0.5]}, "payload": payload}

    def __getstate__(self) -> dict[str, Any]:
        return {"__dict__": self.fields, "__pydantic_fields_set__": set(self.fields)}


def point(id_: Any, payload: Any) -> bytes:
    module = types.ModuleType("qdrant_client.http.models.models")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("qdrant_client", "qdrant_client.http", "qdrant_client.http.models", module.__name__):
            patch.setitem(sys.modules, name, module)
        patch.setattr(PointStruct, "__module__", module.__name__)
        module.PointStruct = PointStruct  # type: ignore[attr-defined]
        return pickle.dumps(PointStruct(id_, payload), protocol=4)


def memory_of(text: str, **more: Any) -> dict[str, Any]:
    """A payload of mem0."""
    return {"data": text, "hash": "x", "created_at": DAY, "updated_at": DAY, "user_id": "ana", **more}


def qdrant(folder: Path, *points: bytes, name: str = "mem0") -> Path:
    """The folder of an embedded Qdrant."""
    place = folder / "qdrant" / "collection" / name
    place.mkdir(parents=True)
    with sqlite3.connect(place / "storage.sqlite") as db:
        db.execute("CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB)")
        db.executemany("INSERT INTO points VALUES (?, ?)", [(str(n), blob) for n, blob in enumerate(points)])
    db.close()
    return folder / "qdrant"


def history(place: Path, *events: tuple[str, str | None, str | None, str, str]) -> Path:
    """mem0's history: (memory, earlier text, text, event, time)."""
    with sqlite3.connect(place) as db:
        db.execute(
            """
            CREATE TABLE history (
              id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT, created_at DATETIME,
              updated_at DATETIME, is_deleted INTEGER, actor_id TEXT, role TEXT)
            """
        )
        rows = [(str(n), id_, old, new, event, at) for n, (id_, old, new, event, at) in enumerate(events)]
        db.executemany(
            "INSERT INTO history(id, memory_id, old_memory, new_memory, event, created_at) VALUES (?, ?, ?, ?, ?, ?)",
            rows,
        )
    db.close()
    return place


def known(memory: Memory, **scope: str) -> list[Fact]:
    return list(memory.get_all(**(scope or {"user_id": "ana"}), past=True, order="oldest"))


def again(memory: Memory, path: Path, **options: Any) -> Imported:
    """Import it once more: nothing is added, and the file says the same."""
    before, after = io.BytesIO(), io.BytesIO()
    memory.export(before)
    done = memory.import_file(path, **options)
    memory.export(after)
    assert (done.added, before.getvalue()) == ({}, after.getvalue())
    return done


# -- mem0


def test_a_memory_of_mem0_becomes_a_fact_with_its_ids_dates_and_metadata(memory: Memory, tmp_path: Path) -> None:
    folder = qdrant(tmp_path, REAL)
    done = memory.import_file(folder)
    assert (done.source, done.added) == ("mem0", {"facts": 1})
    (fact,) = known(memory)
    assert (fact.text, fact.scope.user_id, fact.by) == ("Ana lives in Lisbon.", "ana", "user")
    assert fact.metadata == {"city": "Porto", "role": "user"}
    assert fact.observed_at.isoformat(timespec="milliseconds") == "2026-11-30T23:47:29.848+00:00"
    assert {entity.name for entity in fact.entities} == {"Ana", "Lisbon"}
    assert again(memory, folder).known == {"facts": 1}


def test_what_a_memory_said_before_stands_behind_it(memory: Memory, tmp_path: Path) -> None:
    folder = qdrant(tmp_path, REAL)
    history(
        tmp_path / "history.db",
        (REAL_ID, None, "Ana lives in Oslo.", "ADD", "2024-01-01T00:00:00-08:00"),
        (REAL_ID, "Ana lives in Oslo.", "Ana lives in Porto.", "UPDATE", "2025-01-01T00:00:00-08:00"),
        (REAL_ID, "Ana lives in Porto.", "Ana lives in Lisbon.", "UPDATE", "2026-11-30T23:47:29+00:00"),
    )
    assert memory.import_file(folder).added == {"facts": 1, "earlier texts of facts": 2}
    told = [(fact.text, fact.current, fact.observed_at.year) for fact in known(memory)]
    assert told == [
        ("Ana lives in Oslo.", False, 2024), ("Ana lives in Porto.", False, 2025), ("Ana lives in Lisbon.", True, 2026)
    ]  # fmt: skip
    assert [fact.text for fact in memory.lineage(known(memory)[0].id)] == [text for text, *_ in told]
    again(memory, folder)


def test_a_fact_that_was_changed_or_archived_since_is_not_brought_back(memory: Memory, tmp_path: Path) -> None:
    folder = qdrant(tmp_path, point("1", memory_of("Ana sings.")), point("2", memory_of("Ana eats fish.")))
    memory.import_file(folder)
    first, second = known(memory)
    memory.update(first.id, text="Ana sings well.")
    memory.archive(second.id)
    assert again(memory, folder).known == {"facts": 2}


def test_what_is_known_already_is_not_stored_twice(memory: Memory, tmp_path: Path) -> None:
    memory.remember("Ana sings.", user_id="ana")
    folder = qdrant(
        tmp_path,
        point("1", memory_of("ana SINGS")),
        point("2", memory_of("Eve eats.")),
        point("3", memory_of("Eve eats")),
    )
    assert memory.import_file(folder).added == {"facts": 1}
    again(memory, folder)


def test_each_memory_stays_whose_it_was_and_ids_that_are_given_go_first(memory: Memory, tmp_path: Path) -> None:
    folder = qdrant(
        tmp_path,
        point(7, memory_of("I like tea", user_id="bob", agent_id="bot", run_id="r1", expiration_date="2099-01-01")),
        point("8", memory_of("Nobody's.", user_id=None)),
    )
    done = memory.import_file(folder)
    assert [fact.scope.run_id for fact in known(memory, user_id="bob", agent_id="bot")] == ["r1"]
    assert known(memory, user_id="bob")[0].expires_at is not None
    assert "no user_id" in done.left_out[0].reason
    assert memory.import_file(folder, user_id="eve").added == {"facts": 2}
    assert len(known(memory, user_id="eve")) == 2


def test_a_memory_of_mem0_keeps_its_id_where_it_stays_whose_it_was(memory: Memory, tmp_path: Path) -> None:
    id_ = "0b5f1a3e-8f6c-4f0e-9a3d-2f6f0c1d2e3f"
    folder = qdrant(tmp_path, point(id_, memory_of("Ana sings.")))
    memory.import_file(folder)
    memory.import_file(folder, user_id="eve")
    ids = [fact.id for who in ("ana", "eve") for fact in known(memory, user_id=who)]
    assert ids[0] == id_.replace("-", "")
    assert len(set(ids)) == 2
    again(memory, folder)


def test_on_the_command_line_each_memory_of_mem0_stays_whose_it_was(path: Path, tmp_path: Path) -> None:
    folder = qdrant(tmp_path, point("1", memory_of("Ana sings.")), point("2", memory_of("Bob sings.", user_id="bob")))
    command = ["import", "mem0", str(folder), "--db", str(path)]
    assert CliRunner().invoke(cli.main, command, env={"MEMLITE_USER": "me"}).exit_code == 0
    with Memory(path, embedder=False, extractor=False) as memory:
        assert [[fact.text for fact in known(memory, user_id=who)] for who in ("ana", "bob", "me")] == [
            ["Ana sings."],
            ["Bob sings."],
            [],
        ]
    assert CliRunner().invoke(cli.main, [*command, "--user", "eve"]).exit_code == 0
    with Memory(path, embedder=False, extractor=False) as memory:
        assert len(known(memory, user_id="eve")) == 2


def test_a_memory_of_mem0_counts_to_the_end_of_its_last_day(memory: Memory, tmp_path: Path) -> None:
    memory.import_file(qdrant(tmp_path, point("1", memory_of("I like tea", expiration_date="2099-01-01"))))
    (fact,) = known(memory)
    assert fact.expires_at is not None
    assert fact.expires_at.isoformat(timespec="seconds") == "2099-01-01T23:59:59+00:00"


def test_the_history_alone_tells_what_mem0_knew(memory: Memory, tmp_path: Path) -> None:
    place = history(
        tmp_path / "history.db",
        ("m1", None, "Ana lives in Oslo.", "ADD", DAY),
        ("m2", None, "Ana has a secret.", "ADD", DAY),
        ("m2", "Ana has a secret.", None, "DELETE", DAY),
    )
    with pytest.raises(InvalidInputError):
        memory.import_file(tmp_path / "nothing")
    done = memory.import_file(place, user_id="ana")
    assert [fact.text for fact in known(memory)] == ["Ana lives in Oslo."]
    assert done.reasons == {"memories that mem0 had deleted": 1}
    again(memory, place, user_id="ana")


def test_nothing_runs_that_a_point_asks_for(memory: Memory, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {tmp_path / 'ran'}",)

    class Setter:
        def __reduce__(self) -> Any:
            return eval, ("1",)

    bad = [
        pickle.dumps(Evil()),
        pickle.dumps({"payload": Setter()}),
        b"cos\nsystem\n(S'true'\ntR.",
        b"no pickle",
        b"",
        b"\x80\x04N.",
    ]
    folder = qdrant(
        tmp_path, *bad, point("1", memory_of("Ana sings.", extra=Evil())), point("2", memory_of("Ana eats."))
    )
    done = memory.import_file(folder)
    assert not (tmp_path / "ran").exists()
    assert [fact.text for fact in known(memory)] == ["Ana eats."]
    assert [left.place for left in done.left_out] == [f"mem0, point {n}" for n in range(1, 8)]
    assert sum("asks for" in left.reason for left in done.left_out) == 4


def test_a_point_that_is_made_to_explode_is_left_out(memory: Memory, tmp_path: Path) -> None:
    lists: Any = ["x"] * 10
    for _ in range(30):
        lists = [lists] * 10
    folder = qdrant(tmp_path, point("1", memory_of("Boom.", extra=lists)), point("2", memory_of("Ana eats.")))
    assert "more than" in memory.import_file(folder).left_out[0].reason
    assert len(known(memory)) == 1


def test_odd_payloads_are_named(memory: Memory, tmp_path: Path) -> None:
    folder = qdrant(
        tmp_path, point("1", memory_of("")), point("2", {"user_id": "ana"}), point("3", "text"), point("4", None),
        point("5", memory_of("Ana sings.", created_at="soon", updated_at="soon", expiration_date="x")),
        point("6", memory_of("Half \ud83d".encode("utf-8", "replace").decode(), big=2**80)),
    )  # fmt: skip
    qdrant_of_names = folder / "collection" / "mem0_entities"
    (folder / "collection" / "mem0").rename(qdrant_of_names.with_name("mine"))
    qdrant_of_names.mkdir()
    with sqlite3.connect(qdrant_of_names / "storage.sqlite") as db:
        db.execute("CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB)")
    db.close()
    done = memory.import_file(folder)
    assert [fact.text for fact in known(memory)] == ["Ana sings.", "Half ?"]
    assert len(done.left_out) == 8
    assert any("index of names" in left.reason for left in done.left_out)


def test_the_stores_of_mem0_are_not_touched(memory: Memory, tmp_path: Path) -> None:
    folder = qdrant(tmp_path, REAL)
    history(tmp_path / "history.db", (REAL_ID, None, "Ana lives in Lisbon.", "ADD", DAY))

    def state() -> list[tuple[str, bytes]]:
        return sorted(
            (str(each), each.read_bytes())
            for each in tmp_path.rglob("*")
            if each.is_file() and "memory.db" not in each.name
        )

    before = state()
    memory.import_file(folder)
    assert state() == before


def test_a_dry_run_of_facts_stores_none(memory: Memory, tmp_path: Path) -> None:
    folder = qdrant(tmp_path, REAL)
    assert memory.import_file(folder, dry_run=True).added == {"facts": 1}
    assert known(memory) == []


# -- MCP's memory file


def test_observations_and_relations_become_facts_about_their_entities(memory: Memory, tmp_path: Path) -> None:
    lines = [
        {"type": "entity", "name": "John_Smith", "entityType": "person",
         "observations": ["Speaks Spanish", "John Smith is 40."]},
        {"type": "entity", "name": "Anthropic", "entityType": "company", "observations": []},
        {"type": "relation", "from": "John_Smith", "to": "Anthropic", "relationType": "works_at"},
    ]  # fmt: skip
    place = tmp_path / "memory.jsonl"
    place.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    os.utime(place, (1_700_000_000, 1_700_000_000))
    done = memory.import_file(place, user_id="ana")
    assert (done.source, done.added) == ("mcp-memory", {"facts": 4})
    facts = known(memory)
    assert [fact.text for fact in facts] == [
        "John Smith: Speaks Spanish", "John Smith is 40.", "Anthropic: company", "John Smith works at Anthropic."
    ]  # fmt: skip
    assert {fact.observed_at.timestamp() for fact in facts} == {1_700_000_000}
    assert [(each.name, each.type, each.facts) for each in memory.entities(user_id="ana")] == [
        ("John Smith", "person", 3), ("Anthropic", "company", 2)
    ]  # fmt: skip
    assert memory.search("John_Smith", user_id="ana", include="facts")[0].text.startswith("John Smith")
    again(memory, place, user_id="ana")


def test_malformed_lines_of_a_memory_file_are_named(memory: Memory, tmp_path: Path) -> None:
    lines: list[Any] = [
        {"type": "entity", "name": "Ana", "entityType": "person", "observations": ["Sings", "", 5]},
        {"type": "entity", "name": "", "observations": ["x"]},
        {"type": "entity", "name": "Bob", "observations": None},
        {"type": "relation", "from": "Ana", "to": None, "relationType": "knows"},
        {"type": "song"},
        [],
    ]
    place = tmp_path / "memory.jsonl"
    place.write_text("\n".join(map(json.dumps, lines)) + "\n{broken", encoding="utf-8")
    done = memory.import_file(place, user_id="ana")
    assert [fact.text for fact in known(memory)] == ["Ana: Sings"]
    assert [left.place for left in done.left_out] == [
        "line 1, observation 2", "line 1, observation 3", *(f"line {n}" for n in range(2, 8))
    ]  # fmt: skip
