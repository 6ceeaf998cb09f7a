"""An export keeps everything, is of one moment, and comes back as it was."""

from __future__ import annotations

import io
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memlite import FileError, InvalidInputError, Memory, NamedEntity
from memlite.records import ExtractedFact, Extraction, ExtractionRequest


class Named:
    """An extractor whose facts are the messages, about the first word of each, under two names."""

    name = "named"
    prompt_version = "2"

    def extract(self, request: ExtractionRequest) -> Extraction:
        return Extraction(
            tuple(
                ExtractedFact(
                    turn.text, turn.speaker, (turn.number,), entities=(NamedEntity(turn.text.split()[0], "person"),)
                )
                for turn in request.messages
            )
        )


class Letters:
    """An embedder that counts letters: what a vector is does not matter here."""

    name = "letters"
    dimension = 8

    def embed(self, texts: Any) -> list[list[float]]:
        return [[1.0 + sum(ord(ch) % 8 == n for ch in text) for n in range(8)] for text in texts]


def memory_at(path: Path | str, **models: Any) -> Memory:
    return Memory(path, **{"embedder": False, "extractor": False, **models})


def lived(memory: Memory) -> None:
    """A bit of everything that a file can hold."""
    day = datetime(2025, 5, 11, 19, 30, tzinfo=timezone(timedelta(hours=2)))
    said = memory.add(
        [
            {"role": "user", "name": "Ana", "content": "Clara lives in Zürich 🏔️ — 东京も好き.", "id": "m-1"},
            {"role": "assistant", "content": "Noted:\n\u2028a line\x00 with a NUL"},
            {"role": "tool", "name": "browser", "content": "{}"},
        ],
        user_id="ana", run_id="r1", observed_at=day, metadata={"z": 1.0, "a": [None, {"ü": True}]},
    )  # fmt: skip
    memory.add("Bob waits for the worker.", user_id="ana", extract="later", instructions="names", kind="plan")
    old = memory.remember(
        {"text": "Ana works at Feedzai.", "entities": [{"name": "Ana", "type": "person", "aliases": ["Anita"]}]},
        user_id="ana", observed_at="2024-01-01",
    ).facts[0]  # fmt: skip
    memory.remember({"text": "Ana works at Talkdesk.", "replaces": old.id}, user_id="ana", observed_at="2025-01-01")
    memory.remember({"text": "Ana lived in Oslo.", "valid_from": "2018-01-01", "valid_to": "2020-01-01"}, user_id="ana")
    memory.remember({"text": "Ana sings.", "confidence": 0.0, "by": "Bob"}, agent_id="bot", expires_at="2099-01-01")
    undone = memory.remember("Ana plays chess.", user_id="ana")
    memory.undo(undone.batch)
    hidden = memory.remember("Ana hates chess.", user_id="ana").facts[0]
    memory.archive(hidden.id, reason="not so")
    changed = memory.remember("Ana drinks tea.", user_id="ana", kind="habit").facts[0]
    memory.update(changed.id, text="Ana drinks green tea.", metadata={"cups": 2})
    memory.remember("Ana drinks green tea.", user_id="ana")
    memory.add(["As I remember, Ana drinks green tea.", "- Ana drinks green tea."], user_id="ana", extract="never")
    gone = memory.remember("Ana has a secret.", user_id="ana").facts[0]
    memory.delete(gone.id)
    memory.set_ttl(90, user_id="ana", kind="plan")
    memory.set_ttl(30)
    memory.remember("Ana plans a trip to Rome.", user_id="ana", kind="plan")
    if said.facts:
        memory.delete(said.facts[0].id, keep_messages=True)


def exported(memory: Memory, **options: Any) -> bytes:
    stream = io.BytesIO()
    memory.export(stream, **options)
    return stream.getvalue()


def kinds(data: bytes, kind: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, data.decode().split("\n")[:-1]) if line.get("record") == kind]


def brought(data: bytes, folder: Path, **models: Any) -> Memory:
    """A memory of its own with what an export holds."""
    file = folder / "given.jsonl"
    file.write_bytes(data)
    memory = memory_at(folder / "other.db", **models)
    done = memory.import_file(file)
    assert not done.left_out
    return memory


@pytest.mark.parametrize("vectors", [False, True], ids=["without vectors", "with vectors"])
def test_an_export_of_an_import_of_an_export_is_the_same_bytes(path: Path, tmp_path: Path, vectors: bool) -> None:
    with memory_at(path, extractor=Named(), embedder=Letters()) as memory:
        lived(memory)
        before = exported(memory, vectors=vectors)
    assert {line.get("record") for line in map(json.loads, before.decode().split("\n")[1:-1])} == {
        "batch", "message", "entity", "fact", "link", "event", "ttl", "end",
    }  # fmt: skip
    assert (b'"vector"' in before) is vectors
    with brought(before, tmp_path, embedder=Letters()) as other:
        assert exported(other, vectors=vectors) == before
        again = other.import_file(tmp_path / "given.jsonl")
        assert (again.added, again.left_out) == ({}, ())
        assert exported(other, vectors=vectors) == before


def test_what_was_imported_answers_as_the_file_it_is_from(path: Path, tmp_path: Path) -> None:
    with memory_at(path, extractor=Named(), embedder=Letters()) as memory:
        lived(memory)
        questions = ("where does Ana work?", "green tea", "Zürich", "东京", "chess", "Oslo")
        found = [[(hit.id, hit.score) for hit in memory.search(each, user_id="ana", past=True)] for each in questions]
        with brought(exported(memory, vectors=True), tmp_path, extractor=Named(), embedder=Letters()) as other:
            told = [[(hit.id, hit.score) for hit in other.search(each, user_id="ana", past=True)] for each in questions]
            assert told == found
            assert other.entities(user_id="ana") == memory.entities(user_id="ana")
            assert [e.action for e in other.history()] == [e.action for e in memory.history()]
            assert other.ttls() == memory.ttls()
            assert not other.audit("orphans")
            assert not other.repair(dry_run=True).found


def test_an_undo_and_an_archive_can_be_taken_back_where_they_were_imported(path: Path, tmp_path: Path) -> None:
    with memory_at(path) as memory:
        batch = memory.remember("Ana plays chess.", user_id="ana").batch
        undo = memory.undo(batch).batch
        hidden = memory.remember("Ana sings.", user_id="ana").facts[0].id
        memory.archive(hidden)
        with brought(exported(memory), tmp_path) as other:
            other.restore(hidden)
            other.undo(undo)
            assert {fact.text for fact in other.get_all(user_id="ana")} == {"Ana plays chess.", "Ana sings."}


def test_the_queue_goes_on_where_it_was_imported(path: Path, tmp_path: Path) -> None:
    with memory_at(path) as memory:
        memory.add("Bob likes tea.", user_id="bob", extract="later")
        with brought(exported(memory), tmp_path, extractor=Named()) as other:
            assert other.work().facts == 1


def test_messages_that_a_fix_hides_stay_hidden(path: Path, tmp_path: Path) -> None:
    with memory_at(path, extractor=Named()) as memory:
        memory.add("Ana likes tea.", user_id="ana")
        memory.add("Ana likes her tea.", user_id="ana")
        message = memory.search("tea", user_id="ana", include="messages")[0].id
        with memory._database.write() as db:
            batch, row = next(db.execute("SELECT batch_id, id FROM messages WHERE uid = ?", (message,)))
            db.execute("UPDATE messages SET archived_at = 5 WHERE id = ?", (row,))
            db.execute("INSERT INTO hidden_messages VALUES (?, ?)", (batch, row))
        before = exported(memory)
        assert sum("hidden_by" in line for line in kinds(before, "message")) == 1
        with brought(before, tmp_path) as other:
            assert exported(other) == before
            assert message not in {hit.id for hit in other.search("tea", user_id="ana", include="messages")}


def test_a_scope_is_exported_without_what_others_said(path: Path, tmp_path: Path) -> None:
    with memory_at(path, extractor=Named()) as memory:
        lived(memory)
        memory.add("Eve keeps a secret.", user_id="eve")
        before = exported(memory, user_id="eve")
        assert b"Ana" not in before
        assert exported(memory.scope(user_id="eve")) == before
        with brought(before, tmp_path) as other:
            assert exported(other) == exported(other, user_id="eve") == before


def test_one_run_is_exported_with_what_its_rows_name(path: Path, tmp_path: Path) -> None:
    with memory_at(path, extractor=Named()) as memory:
        memory.add("Ana likes tea.", user_id="ana", run_id="r1")
        memory.add("Ana likes tea.", user_id="ana", run_id="r2")
        with brought(exported(memory, user_id="ana", run_id="r2"), tmp_path) as other:
            assert other.stats().messages == 1


def test_a_scope_that_nobody_ever_used_is_an_empty_export(memory: Memory) -> None:
    assert len(exported(memory, user_id="nobody").splitlines()) == 2


def test_a_file_is_merged_into_another_one(path: Path, tmp_path: Path) -> None:
    with memory_at(path, extractor=Named()) as memory, memory_at(tmp_path / "b.db", extractor=Named()) as other:
        for each in (memory, other):
            each.add({"content": "Ana likes tea.", "id": "same"}, user_id="ana")
        memory.add("Ana sings.", user_id="ana")
        other.add("Bob sings.", user_id="bob")
        memory.export(tmp_path / "a.jsonl")
        done = other.import_file(tmp_path / "a.jsonl")
        assert [left.reason.split(" says")[1] for left in done.left_out] == [" the same; it has its messages now"]
        assert {fact.text for fact in other.get_all(user_id="ana")} == {"Ana likes tea.", "Ana sings."}
        assert [entity.name for entity in other.entities(user_id="ana")] == ["Ana"]
        assert not other.repair(dry_run=True).found
        assert other.import_file(tmp_path / "a.jsonl").added == {}


def test_a_fact_that_has_changed_since_stays_as_it_is_and_is_told_of(memory: Memory, tmp_path: Path) -> None:
    fact = memory.remember("Ana sings.", user_id="ana").facts[0]
    memory.export(tmp_path / "a.jsonl")
    memory.update(fact.id, text="Ana sings well.")
    done = memory.import_file(tmp_path / "a.jsonl")
    assert (done.added, [left.place for left in done.left_out]) == ({}, ["line 4"])
    assert memory.get(fact.id).text == "Ana sings well."


def test_malformed_records_are_named_and_the_rest_is_stored(path: Path, tmp_path: Path) -> None:
    with memory_at(path, extractor=Named()) as memory:
        lived(memory)
        memory.add("Eve likes tea.", user_id="eve")
        lines = exported(memory).decode().split("\n")

    def broken(change: Callable[[dict[str, Any]], Any], kind: str, which: int = 0) -> None:
        at = [n for n, line in enumerate(lines) if f'"record":"{kind}"' in line][which]
        value = json.loads(lines[at])
        change(value)
        lines[at] = json.dumps(value)

    broken(lambda fact: fact.update(observed_at="yesterday"), "fact")
    broken(lambda event: event.update(action="SHOUT"), "event")
    broken(lambda message: message.update(role="king"), "message", -1)
    lines.insert(5, "{not json")
    lines.insert(6, '{"record":"song"}')
    file = tmp_path / "broken.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    with memory_at(tmp_path / "b.db") as other:
        done = other.import_file(file)
        told = {left.place: left.reason for left in done.left_out}
        assert "malformed JSON" in told["line 6"]
        assert "'song'" in told["line 7"]
        reasons = " ".join(told.values())
        assert all(word in reasons for word in ("observed_at", "king", "action", "stored without one thing"))
        assert other.stats().facts > 3
        assert not other.audit("orphans")


def test_an_export_that_was_cut_off_says_so(memory: Memory, tmp_path: Path) -> None:
    memory.remember(["Ana sings.", "Bob sings."], user_id="ana")
    data = exported(memory)
    file = tmp_path / "cut.jsonl"
    file.write_bytes(data[:-60])
    with memory_at(tmp_path / "b.db") as other:
        done = other.import_file(file)
        assert any("cut off" in left.reason for left in done.left_out)
        file.write_bytes(b"\n".join(line for n, line in enumerate(data.split(b"\n")) if n != 4))
        assert any("had" in left.reason for left in other.import_file(file).left_out)


def test_an_export_of_a_newer_format_or_of_another_program_is_refused(memory: Memory, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    for first in ('{"memlite":"export","format":99}', '{"memlite":"import"}', "no JSON"):
        file.write_text(f"{first}\n", encoding="utf-8")
        with pytest.raises(InvalidInputError):
            memory.import_file(file, "memlite")


def test_vectors_of_another_embedder_are_left_out(path: Path, tmp_path: Path) -> None:
    class Other(Letters):
        name = "other"

        def embed(self, texts: Any) -> list[list[float]]:
            return [vector[::-1] for vector in super().embed(texts)]

    with memory_at(path, embedder=Letters()) as memory:
        memory.remember("Ana sings.", user_id="ana")
        memory.export(tmp_path / "a.jsonl", vectors=True)
    with memory_at(tmp_path / "b.db", embedder=Other()) as other:
        other.remember("Bob sings.", user_id="bob")
        assert "vectors were left out" in other.import_file(tmp_path / "a.jsonl").notes[0]
        assert other.stats().without_vector == 2  # the fact, and the entity in it


def test_a_file_is_for_its_owner_alone_and_stays_what_it_was_until_it_is_done(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.remember("Ana sings.", user_id="ana")
    target = tmp_path / "out.jsonl"
    target.write_text("before", encoding="utf-8")
    from memlite import exports

    def fails(record: dict[str, Any]) -> bytes:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(exports, "line", fails)
        with pytest.raises(FileError, match="No space left"):
            memory.export(target)
    assert target.read_text(encoding="utf-8") == "before"
    memory.export(target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert sorted(each.name for each in tmp_path.iterdir() if not each.name.startswith("memory.db")) == ["out.jsonl"]


def test_an_export_that_failed_leaves_the_memory_as_good_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from memlite import exports

    def fails(record: dict[str, Any]) -> bytes:
        if record.get("record") == "fact":
            raise OSError(28, "No space left on device")
        return b""

    with memory_at(path, embedder=Letters()) as memory:
        memory.remember(["Ana sings.", "Ana rows.", "Ana paints."], user_id="ana")
        with monkeypatch.context() as patch:
            patch.setattr(exports, "line", fails)
            with pytest.raises(FileError, match="No space left"):
                memory.export(path.with_name("out.jsonl"), vectors=True)
        memory.remember("Ana cooks.", user_id="ana")
        assert "Ana cooks." in [fact.text for fact in memory.get_all(user_id="ana")]


def test_a_link_is_followed(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real.jsonl")
    memory.export(tmp_path / "link.jsonl")
    assert (tmp_path / "link.jsonl").is_symlink()
    assert (tmp_path / "real.jsonl").read_bytes()


def test_no_database_device_or_folder_is_replaced(memory: Memory, tmp_path: Path) -> None:
    memory.remember("Ana sings.", user_id="ana")
    for target in (memory.path, tmp_path, Path(os.devnull)):
        with pytest.raises(InvalidInputError):
            memory.export(target)
    with pytest.raises(FileError):
        memory.export(tmp_path / "no" / "folder.jsonl")
    assert memory.stats().facts == 1


def test_an_export_is_of_one_moment_while_others_write(path: Path, tmp_path: Path) -> None:
    class Slow(io.BytesIO):
        """A stream whose first line waits until somebody has written."""

        def writelines(self, lines: Any) -> None:
            for number, line in enumerate(lines):
                if number == 1:
                    wrote.wait(20)
                self.write(line)

    wrote = threading.Event()
    with memory_at(path) as memory:
        memory.remember("Ana sings.", user_id="ana")

        def write() -> None:
            with memory_at(path) as other:
                other.remember("Bob sings.", user_id="bob")
            wrote.set()

        threading.Timer(0.1, write).start()
        stream = Slow()
        memory.export(stream)
        assert wrote.is_set()
        assert b"Bob" not in stream.getvalue()
        assert b"Bob" in exported(memory)


def test_a_killed_import_goes_on_where_it_was(path: Path, tmp_path: Path) -> None:
    with memory_at(path) as memory:
        memory.remember([f"Ana has the number {n}." for n in range(400)], user_id="ana")
        memory.export(tmp_path / "a.jsonl")
        before = exported(memory)
    code = f"""
from memlite import Memory
from memlite.imports import exported
exported.CHUNK = 50
with Memory({str(tmp_path / "b.db")!r}, embedder=False, extractor=False) as memory:
    memory.import_file({str(tmp_path / "a.jsonl")!r})
"""
    process = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if (tmp_path / "b.db-wal").exists() and (tmp_path / "b.db-wal").stat().st_size > 200_000:
            break
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with memory_at(tmp_path / "b.db") as other:
        done = other.import_file(tmp_path / "a.jsonl")
        assert not done.left_out
        assert exported(other) == before


def test_markdown_shows_facts_by_scope_before_what_they_replaced(memory: Memory) -> None:
    lived(memory)
    memory.remember("Bob_s *bold* <b>claim</b>.", user_id="bob")
    text = exported(memory, format="markdown").decode()
    assert text.index("## agent bot") < text.index("## user ana") < text.index("## user bob")
    assert "- Ana works at Talkdesk. (said 2025-01-01)\n  - before: Ana works at Feedzai. (said 2024-01-01, " in text
    assert "  - before: Ana drinks tea." in text
    assert "### No longer so\n\n- Ana lived in Oslo." in text
    assert "so from 2018-01-01 to 2020-01-01)" in text
    assert "**Ana**, 2025-05-11 19:30\n\n> Clara lives in Zürich" in text
    assert "chess" not in text
    assert r"Bob\_s \*bold\* \<b\>claim\</b\>." in text
    assert "Zürich" not in exported(memory, format="markdown", messages=False).decode()


@pytest.mark.parametrize(
    "options",
    [{"format": "csv"}, {"format": "markdown", "vectors": True}, {"messages": False}, {"user_id": ""}],
    ids=["format", "vectors in Markdown", "without messages", "empty id"],
)
def test_what_cannot_be_exported_so_is_refused(memory: Memory, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        exported(memory, **options)


# What is in an export of each table, or is made anew from it (the second line). A new column has to be in one of them.
COLUMNS = {
    "scopes": "user_id agent_id run_id  id root_id user_key agent_key run_key terms",
    "batches": "uid scope_id kind instructions metadata expires_at created_at state attempts error undoes made_by"
    "  id worker lease_until",
    "messages": "uid scope_id batch_id caller_id role name content own metadata observed_at observed_offset created_at"
    " archived_at spent  id hash words embedded",
    "hidden_messages": "batch_id message_id",
    "facts": "uid scope_id batch_id text live attributed_to kind metadata confidence model prompt_version created_at"
    " observed_at observed_offset event_start event_end event_precision valid_from begins valid_to recorded_to"
    " last_confirmed_at expires_at ttl archived_at unsourced  id hash words embedded",
    "sources": "fact_id message_id",
    "recalls": "fact_id message_id",
    "entities": "uid root_id name type  id folded embedded",
    "aliases": "entity_id name  root_id folded",
    "mentions": "fact_id entity_id name position aliases",
    "links": "from_fact to_fact relation",
    "events": "fact_uid action scope_id batch_id actor reason before after at  id",
    "ttls": "scope_id kind milliseconds  id",
    "embedder": "name dimension probes apart spread alike  generation number floats",
    **{f"{kind}_vectors": "id scope_id vector  number made_by" for kind in ("fact", "message", "entity")},
    **{f"{kind}_metadata": " key value id" for kind in ("fact", "message")},
    "answers": " batch_id made_by facts",  # what is not done is begun again
}


def test_no_table_or_column_is_forgotten(memory: Memory) -> None:
    with memory._database.read() as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        mine = [name for name in tables if not name.startswith(("fact_words", "message_words", "sqlite_"))]
        found = {name: {row[1] for row in db.execute(f"PRAGMA table_info({name})")} for name in mine}
    assert found == {name: set(columns.split()) for name, columns in COLUMNS.items()}


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=30).filter(lambda text: text.strip())
WORDS = st.sampled_from(["Ana sings.", "ana SINGS", "Bob ate.", "Bob no longer eats.", "猫が好き", "É"])
SCOPES = st.sampled_from([{"user_id": "a"}, {"user_id": "a", "run_id": "1"}, {"agent_id": "b"}, {"run_id": "1"}])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "say", "remember", "replace", "update", "archive", "restore", "undo", "delete", "ttl"]),
        st.one_of(WORDS, TEXTS),
        SCOPES,
        st.integers(0, 5),
    ),
    max_size=12,
)


def happen(memory: Memory, step: str, text: str, scope: dict[str, str], number: int) -> None:
    """One thing that people do, to the fact or batch of this number."""
    facts = memory.get_all(**scope, past=True)
    fact = facts[number % len(facts)].id if facts else None
    batches = [event.batch for event in memory.history() if event.batch]
    if step in ("add", "say"):
        memory.add(text, **scope, extract="now" if step == "add" else "later", metadata={"n": number})
    elif step == "remember" or fact is None:
        memory.remember(text, **scope, kind="k" if number % 2 else None)
    elif step == "replace":
        memory.remember({"text": text, "replaces": fact, "observed_at": f"20{20 + number}-01-01"}, **scope)
    elif step == "update":
        memory.update(fact, text=text)
    elif step == "archive":
        memory.archive(fact, reason=text)
    elif step == "restore":
        memory.restore(fact)
    elif step == "undo" and batches:
        memory.undo(batches[number % len(batches)])
    elif step == "delete":
        memory.delete(fact, keep_messages=bool(number % 2))
    elif step == "ttl":
        memory.set_ttl(number + 1, **scope, kind="k", existing=True)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(STEPS)
def test_any_history_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("any")
    with memory_at(":memory:", extractor=Named()) as memory:
        for step in steps:
            try:
                happen(memory, *step)
            except InvalidInputError:
                pass  # the same text twice, an undo undone: not what this is about
        before = exported(memory)
        with brought(before, folder) as other:
            assert exported(other) == before
            assert other.import_file(folder / "given.jsonl").added == {}
