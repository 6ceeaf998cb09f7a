"""Messages as a conversation: the last ones in their order, each with metadata of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memlite import InvalidInputError, Memory, NotFoundError, messages
from memlite.context import NOTE


def contents(memory: Memory, **asked: Any) -> list[str]:
    return [each.content for each in memory.get_messages(**asked)]


def test_the_last_messages_of_a_conversation_come_in_their_order(memory: Memory) -> None:
    memory.add([f"One {n}." for n in range(5)], user_id="ana", run_id="1", observed_at="2025-01-01")
    memory.add(["Other."], user_id="ana", run_id="2")
    memory.add([{"role": "tool", "content": "4"}], user_id="ana", run_id="1", observed_at="2020-01-01")
    assert contents(memory, user_id="ana", run_id="1") == [f"One {n}." for n in range(5)] + ["4"]
    assert contents(memory, run_id="1", limit=2) == ["One 4.", "4"]
    assert contents(memory, user_id="ana", limit=3) == ["One 4.", "Other.", "4"]
    assert contents(memory, user_id="ben") == []


def test_pages_before_a_message_return_each_once_while_others_are_added(memory: Memory) -> None:
    memory.add([f"One {n}." for n in range(7)], user_id="ana")
    found: list[str] = []
    before = None
    while page := memory.get_messages(user_id="ana", limit=3, before=before):
        found = [each.content for each in page] + found
        before = page[0].id
        memory.add("Another.", user_id="ana")
    assert found == [f"One {n}." for n in range(7)]


def test_what_an_undo_hides_and_what_was_deleted_are_left_out(memory: Memory) -> None:
    memory.add("Stays.", user_id="ana")
    undone = memory.add("Undone.", user_id="ana")
    deleted = memory.add("Deleted.", user_id="ana")
    memory.undo(undone.batch)
    memory.delete(deleted.messages[0])
    assert contents(memory, user_id="ana") == ["Stays."]


def test_a_handle_sees_its_own_conversation_only(memory: Memory) -> None:
    ben = memory.add("Ben.", user_id="ben")
    ana = memory.scope(user_id="ana")
    ana.add("Ana.")
    assert contents(ana) == ["Ana."]
    with pytest.raises(NotFoundError):
        ana.get_messages(before=ben.messages[0])
    for limit in (0, 1001, "3"):
        with pytest.raises(InvalidInputError, match="limit"):
            ana.get_messages(limit=limit)  # type: ignore[arg-type]


def test_the_conversation_is_read_by_the_index_of_its_scope(memory: Memory) -> None:
    memory.add("Hi.", user_id="ana", run_id="1")
    run: list[tuple[str, Any]] = []
    with memory._database.read() as db:
        db.exec_trace = lambda cursor, sql, bindings: run.append((sql, bindings)) or True  # type: ignore[func-returns-value]
        assert messages.last(db, "SELECT id FROM scopes WHERE run_id = ?", ["1"], None, 5)
        db.exec_trace = None
        ((sql, bindings),) = run
        plan = " ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", bindings))
    assert "SEARCH m USING INDEX" in plan
    assert "(scope_id=?)" in plan


def test_a_message_has_metadata_of_its_own_over_that_of_all(learning: Memory) -> None:
    learning.add(
        [{"role": "user", "content": "I am Ana.", "metadata": {"a": 2, "own": [1, None]}}, "I live in Porto."],
        user_id="ana",
        metadata={"a": 1, "b": 1},
    )
    first, second = learning.get_messages(user_id="ana")
    assert first.metadata == {"a": 2, "b": 1, "own": [1, None]}
    assert second.metadata == {"a": 1, "b": 1}
    assert {str(fact.metadata) for fact in learning.get_all(user_id="ana")} == {"{'a': 1, 'b': 1}"}
    assert [hit.text for hit in learning.search("Ana", user_id="ana", filters={"a": 2}, include=["messages"])]


@pytest.mark.parametrize("metadata", ["x", [1], {"n": 2**70}, {"o": object()}], ids=["text", "list", "large", "object"])
def test_metadata_that_cannot_be_kept_stores_nothing(memory: Memory, metadata: object) -> None:
    with pytest.raises(InvalidInputError):
        memory.add(["Hi.", {"content": "Ho.", "metadata": metadata}], user_id="ana")
    assert memory.stats().messages == 0


def test_metadata_of_a_message_survives_export_and_import(memory: Memory, tmp_path: Path) -> None:
    memory.add([{"content": "Hi.", "metadata": {"own": 1}}], user_id="ana")
    memory.export(tmp_path / "all.jsonl")
    with Memory(tmp_path / "other.db", embedder=False, extractor=False) as other:
        other.import_file(tmp_path / "all.jsonl")
        assert [each.metadata for each in other.get_messages(user_id="ana")] == [{"own": 1}]


def test_the_note_over_what_is_remembered_is_nobodys_own_words(memory: Memory) -> None:
    memory.add(f"{NOTE}\nWhere do I work?", user_id="ana")
    (message,) = memory.get_messages(user_id="ana")
    assert message.text == "Where do I work?"
    assert NOTE in message.content
