"""Conversations of other programs: which branch, who said what when, what is left out and why, and only once."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlite import FileError, InvalidInputError, Memory
from memlite.imports import files
from memlite.records import Extraction, ExtractionRequest, Imported, LeftOut, Message

START = 1_700_000_000.25  # 2023-11-14 22:13:20.250 UTC
ROOT = {"id": "root", "message": None, "parent": None, "children": []}


def said(
    id_: str, role: str, content: str | Mapping[str, Any], parent: str = "root", *, at: Any = START, **more: Any
) -> dict[str, Any]:
    """A node of ChatGPT's tree."""
    told = {"content_type": "text", "parts": [content]} if isinstance(content, str) else content
    author = {"role": role, "name": more.pop("name", None), "metadata": {}}
    message = {"id": id_, "author": author, "create_time": at, "content": told, "recipient": "all", "metadata": {}}
    return {"id": id_, "message": {**message, **more}, "parent": parent, "children": []}


def chatgpt(*nodes: dict[str, Any], current: str | None = None, **more: Any) -> dict[str, Any]:
    """One of ChatGPT's conversations."""
    return {
        "title": "Dinner", "create_time": START, "mapping": {node["id"]: node for node in (ROOT, *nodes)},
        "current_node": current or nodes[-1]["id"], "conversation_id": "c1", **more,
    }  # fmt: skip


def claude(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    """One of Claude's conversations."""
    return {
        "uuid": "c1",
        "name": "Dinner",
        "created_at": "2024-01-20T15:30:00Z",
        "chat_messages": list(messages),
        **more,
    }


def turn(id_: str, sender: str, text: str, **more: Any) -> dict[str, Any]:
    """One of Claude's messages."""
    return {"uuid": id_, "sender": sender, "text": text, "created_at": "2024-01-20T15:30:00Z", **more}


def file(folder: Path, content: Any, name: str = "conversations.json") -> Path:
    place = folder / name
    text = content if isinstance(content, str) else json.dumps(content)
    place.write_text(text, encoding="utf-8", errors="surrogatepass")
    return place


def brought(memory: Memory, path: Path, source: str = "auto", **options: Any) -> Imported:
    return memory.import_file(path, source, **{"user_id": "ana", **options})


def stored(memory: Memory, run_id: str = "c1") -> list[tuple[str, str, str]]:
    """(role, name, content) of a run's messages, in order."""
    return [(each.role, each.name, each.content) for each in records(memory, run_id)]


def records(memory: Memory, run_id: str = "c1") -> list[Message]:
    with memory._database.read() as db:
        sql = "SELECT m.uid FROM messages m JOIN scopes s ON s.id = m.scope_id WHERE s.run_id = ? ORDER BY m.id"
        ids = [uid for (uid,) in db.execute(sql, (run_id,))]
    return [record for id_ in ids if isinstance(record := memory.get(id_), Message)]


# -- ChatGPT


def test_a_conversation_becomes_a_run_with_its_dates_and_its_title(memory: Memory, tmp_path: Path) -> None:
    done = brought(memory, file(tmp_path, [chatgpt(said("a", "user", "Hi"), said("b", "assistant", "Hello", "a"))]))
    assert (done.source, done.guessed) == ("chatgpt", "its conversations have a mapping")
    assert done.added == {"messages": 2, "conversations": 1}
    first, second = records(memory)
    assert (first.caller_id, first.role, second.role) == ("a", "user", "assistant")
    assert first.observed_at == datetime(2023, 11, 14, 22, 13, 20, 250_000, timezone.utc)
    assert first.metadata == {"source": "chatgpt", "title": "Dinner"}
    assert memory.search("hello", user_id="ana")[0].text == "Hello"


def test_the_branch_that_was_looked_at_last_is_followed(memory: Memory, tmp_path: Path) -> None:
    nodes = [
        said("a", "user", "First"), said("b", "assistant", "Answer", "a"), said("b2", "assistant", "Again", "a"),
        said("c", "user", "Left", "b"), said("d", "user", "Went on", "b2"),
    ]  # fmt: skip
    done = brought(memory, file(tmp_path, [chatgpt(*nodes, current="d")]))
    assert [content for *_, content in stored(memory)] == ["First", "Again", "Went on"]
    assert done.left_out == (
        LeftOut("conversation 1 (Dinner)", "messages on a branch that was left: edited, or answered again", 2),
    )


@pytest.mark.parametrize("current", ["missing", None, 7], ids=str)
def test_without_a_current_node_the_last_leaf_is_taken(memory: Memory, tmp_path: Path, current: Any) -> None:
    value = {**chatgpt(said("a", "user", "First"), said("b", "assistant", "Last", "a")), "current_node": current}
    brought(memory, file(tmp_path, [value]))
    assert [content for *_, content in stored(memory)] == ["First", "Last"]


def test_a_circle_of_messages_ends(memory: Memory, tmp_path: Path) -> None:
    brought(memory, file(tmp_path, [chatgpt(said("a", "user", "One", "b"), said("b", "assistant", "Two", "a"))]))
    assert len(stored(memory)) == 2


def test_what_goes_to_tools_and_comes_back_is_a_tools(memory: Memory, tmp_path: Path) -> None:
    page = {"content_type": "tether_quote", "url": "https://a.b", "title": "A page", "text": "Of cooking."}
    nodes = [
        said("s", "system", "Be kind."),
        said(
            "i",
            "user",
            {"content_type": "user_editable_context", "user_profile": "A cook.", "user_instructions": ""},
            "s",
        ),
        said("a", "user", "Find it", "i"),
        said("b", "assistant", {"content_type": "code", "text": 'search("it")'}, "a", recipient="browser"),
        said("c", "tool", page, "b", name="browser"),
        said("t", "assistant", {"content_type": "thoughts", "thoughts": [{"content": "Hm"}]}, "c"),
        said("d", "assistant", "Found", "t"),
    ]
    done = brought(memory, file(tmp_path, [chatgpt(*nodes)]))
    assert stored(memory) == [
        ("system", "", "Be kind."),
        ("system", "", "A cook."),
        ("user", "", "Find it"),
        ("tool", "browser", 'search("it")'),
        ("tool", "browser", "A page\nhttps://a.b\nOf cooking."),
        ("assistant", "", "Found"),
    ]
    assert done.reasons == {"what the model thought and did not say": 1}


def test_images_sounds_and_files_leave_placeholders(memory: Memory, tmp_path: Path) -> None:
    parts = [
        {
            "content_type": "image_asset_pointer",
            "asset_pointer": "file://x",
            "metadata": {"dalle": {"prompt": "a fox"}},
        },
        {"content_type": "image_asset_pointer"},
        {"content_type": "audio_transcription", "text": "spoken"},
        {"content_type": "audio_asset_pointer"},
        "written",
        None,
    ]
    attached = [{"name": "a.pdf", "mime_type": "application/pdf"}, {"name": "b.png", "mime_type": "image/png"}]
    node = said("a", "user", {"content_type": "multimodal_text", "parts": parts}, metadata={"attachments": attached})
    brought(memory, file(tmp_path, [chatgpt(node)]))
    assert stored(memory)[0][2].splitlines() == [
        "[image: a fox]", "[image]", "spoken", "[audio]", "written", "[file: a.pdf]"
    ]  # fmt: skip


def test_citations_become_links(memory: Memory, tmp_path: Path) -> None:
    old = "It is so【3†source】."
    cited = {"start_ix": 8, "end_ix": 18, "metadata": {"title": "A page", "url": "https://a.b"}}
    new = "See \ue200cite\ue202turn0\ue201 and \ue200nav\ue201."
    marked = {"matched_text": "\ue200cite\ue202turn0\ue201", "start_idx": 4, "end_idx": 15, "alt": "([b](https://b.c))"}
    nodes = [
        said("a", "assistant", old, metadata={"citations": [cited, "odd", {"start_ix": 900, "end_ix": 2}]}),
        said("b", "assistant", new, "a", metadata={"content_references": [marked]}),
    ]
    brought(memory, file(tmp_path, [chatgpt(*nodes)]))
    assert [content for *_, content in stored(memory)] == [
        "It is so[A page](https://a.b).", "See ([b](https://b.c)) and ."
    ]  # fmt: skip


def test_what_is_malformed_is_named_and_the_rest_is_stored(memory: Memory, tmp_path: Path) -> None:
    good = chatgpt(said("z", "user", "Good"), conversation_id="c9")
    bad = [
        "a text",
        {"title": "No mapping"},
        chatgpt(said("a", "user", "x"), conversation_id=None),
        chatgpt(
            said("a", "user", "No role", author=None),
            said("b", "user", "  ", "a"),
            said("c", "user", "No time", "b", at="?"),
            said("d", "king", "Hm", "c"),
            said("e", "user", "Half \ud83d", "d", at=None),
        ),
    ]
    value = chatgpt(said("q", "user", "Odd node"), conversation_id="c2")
    value["mapping"]["broken"] = 5
    told: list[LeftOut] = []
    done = brought(memory, file(tmp_path, [*bad, value, good]), skipped=told.append)
    assert tuple(told) == done.left_out
    reasons = {left.place: left.reason for left in told}
    assert "expected a conversation" in reasons["conversation 1"]
    assert "no mapping" in reasons["conversation 2 (No mapping)"]
    assert "neither conversation_id nor id" in reasons["conversation 3 (Dinner)"]
    assert "role None" in reasons["conversation 4 (Dinner), message a"]
    assert "cannot be read" in reasons["conversation 4 (Dinner), message c"]
    assert "'king'" in reasons["conversation 4 (Dinner), message d"]
    assert "no objects" in reasons["conversation 5 (Dinner)"]
    assert [content for *_, content in stored(memory)] == ["No time", "Half \ufffd"]
    assert stored(memory, "c9")
    assert len(done.notes) == 2  # the time of one message, the half of a character of another


def test_a_message_without_a_time_has_that_of_the_one_before_it(memory: Memory, tmp_path: Path) -> None:
    nodes = [
        said("s", "system", "Be kind.", at=None),
        said("a", "user", "Hi", "s", at=START + 60),
        said("b", "user", "So", "a", at=None),
    ]
    brought(memory, file(tmp_path, [chatgpt(*nodes)]))
    assert [each.observed_at.timestamp() for each in records(memory)] == [START, START + 60, START + 60]


def test_an_instant_was_said_on_the_day_that_it_was_in_the_zone_of_the_memory(path: Path, tmp_path: Path) -> None:
    with Memory(path, embedder=False, extractor=False, timezone="Asia/Tokyo") as memory:
        brought(memory, file(tmp_path, [chatgpt(said("a", "user", "Hi"))]))
        assert f"{records(memory)[0].observed_at:%d %H:%M %z}" == "15 07:13 +0900"


def test_the_zip_is_read_as_it_is(memory: Memory, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "export.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("export/conversations.json", json.dumps([chatgpt(said("a", "user", "Hi"))]))
        archive.writestr("export/user.json", "{}")
    done = brought(memory, tmp_path / "export.zip")
    assert done.added == {"messages": 1, "conversations": 1}
    assert done.notes == ("not read, for it holds no conversations: export/user.json",)


def test_a_zip_that_is_none_or_has_no_conversations_is_refused(memory: Memory, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "empty.zip", "w") as archive:
        archive.writestr("readme.txt", "x")
    with pytest.raises(InvalidInputError, match="no conversations"):
        brought(memory, tmp_path / "empty.zip")


def test_a_zip_that_was_cut_off_loses_nothing_before_it(memory: Memory, tmp_path: Path) -> None:
    many = [chatgpt(said("a", "user", f"Hi {n} {os.urandom(200).hex()}"), conversation_id=f"c{n}") for n in range(3000)]
    with zipfile.ZipFile(tmp_path / "export.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps(many))
    data = bytearray((tmp_path / "export.zip").read_bytes())
    data[len(data) // 2 : len(data) // 2 + 64] = bytes(64)
    (tmp_path / "export.zip").write_bytes(data)
    done = brought(memory, tmp_path / "export.zip", dry_run=True)
    assert done.added["messages"] > 500
    assert any("cannot be read on" in left.reason or "malformed" in left.reason for left in done.left_out)


# -- Claude


def test_claudes_conversations_are_read_along_their_last_branch(memory: Memory, tmp_path: Path) -> None:
    messages = [
        turn("a", "human", "First", parent_message_uuid="00000000-0000-4000-8000-000000000000"),
        turn("b", "assistant", "Answer", parent_message_uuid="a"),
        turn("a2", "human", "Edited", parent_message_uuid="00000000-0000-4000-8000-000000000000"),
        turn("b2", "assistant", "Other", parent_message_uuid="a2", created_at="2024-01-20T15:31:00.5+00:00"),
    ]
    done = brought(memory, file(tmp_path, [claude(*messages)]))
    assert (done.source, done.reasons) == (
        "claude", {"messages on a branch that was left: edited, or answered again": 2}
    )  # fmt: skip
    assert stored(memory) == [("user", "", "Edited"), ("assistant", "", "Other")]
    assert [each.observed_at.isoformat()[:22] for each in records(memory)] == [
        "2024-01-20T15:30:00+00"[:22],
        "2024-01-20T15:31:00.50",
    ]
    brought(memory, file(tmp_path, [claude(*messages, current_leaf_message_uuid="b", uuid="c2")]))
    assert [content for *_, content in stored(memory, "c2")] == ["First", "Answer"]


def test_claudes_tools_files_thoughts_and_citations(memory: Memory, tmp_path: Path) -> None:
    content = [
        {"type": "thinking", "thinking": "Hm"},
        {"type": "text", "text": "Look:", "citations": [{"details": {"url": "https://a.b", "title": "A page"}}]},
        {"type": "tool_use", "name": "search", "input": {"query": "it"}},
        {"type": "tool_result", "name": "search", "content": [{"type": "text", "text": "found"}, {"type": "image"}]},
        {"type": "text", "text": "Done."},
        "odd",
    ]
    attached = [{"file_name": "a.txt", "extracted_content": "What it says."}, {"file_name": "b.pdf"}]
    messages = [
        turn("a", "human", "Read this", attachments=attached, files=[{"file_name": "b.pdf"}], content=[]),
        turn("b", "assistant", "This block is not supported.", content=content),
    ]
    done = brought(memory, file(tmp_path, [claude(*messages)]))
    assert stored(memory) == [
        ("user", "", "Read this\n[file: a.txt]\n[file: b.pdf]"),
        ("tool", "a.txt", "What it says."),
        ("assistant", "", "Look: [A page](https://a.b)\nDone."),
        ("tool", "search", '{"query": "it"}'),
        ("tool", "search", "found\n[image]"),
    ]
    assert done.reasons == {"what the model thought and did not say": 1}


def test_claudes_malformed_messages_are_named(memory: Memory, tmp_path: Path) -> None:
    messages: list[Any] = [
        turn("a", "human", "Hi"), turn("a", "human", "Twice"), {"text": "no uuid"}, 3, turn("b", "dog", "Woof"),
        turn("c", "assistant", ""), turn("d", "human", "When?", created_at="yesterday"),
    ]  # fmt: skip
    value = [claude(*messages), {"uuid": "x"}, claude(uuid=""), claude(uuid="empty")]
    done = brought(memory, file(tmp_path, value))
    assert [content for *_, content in stored(memory)] == ["Hi", "When?"]
    assert len(done.left_out) == 8
    assert {left.place.split(",")[-1].strip() for left in done.left_out} >= {"message 2", "message 3", "message b"}


# -- LibreChat


def libre(id_: str, parent: str, text: str, **more: Any) -> dict[str, Any]:
    """One of LibreChat's messages."""
    return {
        "messageId": id_, "parentMessageId": parent, "text": text, "isCreatedByUser": True,
        "createdAt": "2024-05-01T16:35:11.530Z", **more,
    }  # fmt: skip


@pytest.mark.parametrize("recursive", [False, True], ids=["a list", "a tree"])
def test_librechats_conversation_is_read_along_its_last_branch(memory: Memory, tmp_path: Path, recursive: bool) -> None:
    zero = "00000000-0000-0000-0000-000000000000"
    tree = [
        libre("a", zero, "First"),
        libre("b", "a", "Answer", isCreatedByUser=False, sender="GPT-4"),
        libre("b2", "a", "Again", isCreatedByUser=False),
        libre("c", "b2", "So"),
    ]
    value: list[Any] = tree
    if recursive:
        by_id: dict[Any, dict[str, Any]] = {each["messageId"]: {**each, "children": []} for each in tree}
        for each in by_id.values():
            if each["parentMessageId"] in by_id:
                by_id[each["parentMessageId"]]["children"].append(each)
        value = [by_id["a"]]
    done = brought(memory, file(tmp_path, {"conversationId": "c1", "title": "Talk", "messages": value}, "talk.json"))
    assert (done.source, done.added) == ("librechat", {"messages": 3, "conversations": 1})
    assert stored(memory) == [("user", "", "First"), ("assistant", "", "Again"), ("user", "", "So")]
    assert records(memory)[0].observed_at.isoformat(timespec="milliseconds") == "2024-05-01T16:35:11.530+00:00"


def test_librechats_parts_errors_and_odd_messages(memory: Memory, tmp_path: Path) -> None:
    content = [
        {"type": "think", "think": "Hm"},
        {"type": "text", "text": {"value": "Look"}},
        {"type": "tool_call", "tool_call": {"name": "search", "args": {"q": 1}, "output": "found"}},
        {"type": "image_file"},
    ]
    messages = [
        libre("a", "x", "", content=content, isCreatedByUser=False),
        libre("b", "a", "Broken", error=True),
        libre("c", "b", "  "),
        libre(
            "d",
            "c",
            "See",
            files=[{"filename": "a.pdf", "type": "application/pdf"}, {"type": "image/png"}],
            createdAt="?",
        ),
        libre("d", "c", "Twice"),
        None,
    ]
    done = brought(memory, file(tmp_path, {"conversationId": "c1", "messages": messages}, "talk.json"))
    assert stored(memory) == [
        ("assistant", "", "Look\n[image]"),
        ("tool", "search", '{"q": 1}\nfound'),
        ("user", "", "See\n[file: a.pdf]\n[image]"),
    ]
    assert sum(done.reasons.values()) == 6


# -- JSON lines


def test_lines_of_messages_keep_ids_names_times_and_conversations(memory: Memory, tmp_path: Path) -> None:
    lines = [
        {"role": "user", "content": "Hi", "name": "Ana", "id": 7, "timestamp": START, "conversation_id": "c1"},
        {"role": "assistant", "content": [{"type": "text", "text": "Hello"}, {"type": "image_url"}], "session_id": "c1",
         "created_at": "2023-11-14T23:13:20+01:00"},
        {"role": "developer", "content": "Be kind."},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
        {"messages": [{"role": "human", "content": "Whole"}], "id": "c2", "title": "All of it"},
    ]  # fmt: skip
    text = "\n\n".join(map(json.dumps, lines)) + "\n{broken\n[1]\n" + '{"role": "king", "content": "x"}'
    done = brought(memory, file(tmp_path, text, "talk.jsonl"))
    assert (done.source, done.added) == ("jsonl", {"messages": 5, "conversations": 3})
    assert stored(memory) == [("user", "Ana", "Hi"), ("assistant", "", "Hello\n[image]")]
    assert [each.observed_at.timestamp() for each in records(memory)] == [START, 1_700_000_000]
    assert records(memory)[0].caller_id == "7"
    assert stored(memory, "talk") == [("system", "", "Be kind."), ("assistant", "", "f({})")]
    assert stored(memory, "c2") == [("user", "", "Whole")]
    assert records(memory, "c2")[0].metadata == {"source": "jsonl", "title": "All of it"}
    assert [left.place for left in done.left_out] == ["line 10", "line 11", "line 12"]


def test_a_list_of_messages_is_read_as_well(memory: Memory, tmp_path: Path) -> None:
    done = brought(memory, file(tmp_path, [{"role": "user", "content": "Hi"}], "talk.json"))
    assert (done.source, stored(memory, "talk")) == ("jsonl", [("user", "", "Hi")])


def test_a_log_that_has_grown_adds_what_is_new(memory: Memory, tmp_path: Path) -> None:
    line = {"role": "user", "content": "yes"}
    brought(memory, file(tmp_path, "\n".join(map(json.dumps, [line, line])), "talk.jsonl"))
    new = [{"role": "user", "content": "before"}, line, line, {"role": "user", "content": "after"}, line]
    done = brought(memory, file(tmp_path, "\n".join(map(json.dumps, new)), "talk.jsonl"))
    assert (done.added["messages"], done.known["messages"]) == (3, 2)


# -- logs


LOG = """# Talk with a bot

## User
What is for dinner?

Something quick.

## Assistant (2025-05-11 19:30)
Pasta: with Note: nothing else.

- [ ] buy

**You:** Thanks
"""


def test_a_markdown_log_with_headings(memory: Memory, tmp_path: Path) -> None:
    done = brought(memory, file(tmp_path, LOG, "dinner.md"))
    assert (done.source, done.guessed) == ("text", "it is no JSON")
    assert stored(memory, "dinner") == [
        ("user", "", "What is for dinner?\n\nSomething quick."),
        ("assistant", "", "Pasta: with Note: nothing else.\n\n- [ ] buy"),
        ("user", "", "Thanks"),
    ]
    assert [left.place for left in done.left_out] == ["lines 1 to 1"]


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            "Ana: Hi\nBob: Hello\nAna: So: what?\nBob: no\n\nlink: x",
            [("Ana", "Hi", ""), ("Bob", "Hello", ""), ("Ana", "So: what?", ""), ("Bob", "no\n\nlink: x", "")],
        ),
        (
            "[2025-05-11 19:30] Ana: Hi\nNote: hm\n[2025-05-11 19:31:05] Bob: Yo",
            [("Ana", "Hi\nNote: hm", "2025-05-11T19:30:00"), ("Bob", "Yo", "2025-05-11T19:31:05")],
        ),
        (
            "31/12/2024, 23:59 - Ana: Hi\n1/1/2025, 00:01 - Bob B: Yo",
            [("Ana", "Hi", "2024-12-31T23:59:00"), ("Bob B", "Yo", "2025-01-01T00:01:00")],
        ),
        (
            "12/31/24, 11:59 PM - Ana: Hi\n1/2/25, 12:01 AM - Bob: Yo",
            [("Ana", "Hi", "2024-12-31T23:59:00"), ("Bob", "Yo", "2025-01-02T00:01:00")],
        ),
        ("\u200e[12.06.24, 19:30:11] Ana: Hi", [("Ana", "Hi", "2024-06-12T19:30:11")]),
        (
            "--- 2025-05-11 ---\n[19:30] <ana> hi\n--- 2025-05-12 ---\n[08:00] <bob> yo",
            [("ana", "hi", "2025-05-11T19:30:00"), ("bob", "yo", "2025-05-12T08:00:00")],
        ),
        ("2025-05-11T19:30:00+02:00 Ana: Hi", [("Ana", "Hi", "2025-05-11T17:30:00")]),
    ],
    ids=["names", "brackets", "day first", "month first", "dots", "days by themselves", "an offset"],
)
def test_logs_with_names_and_times(path: Path, tmp_path: Path, log: str, expected: list[tuple[str, str, str]]) -> None:
    with Memory(path, embedder=False, extractor=False, timezone="UTC") as memory:
        place = file(tmp_path, log, "talk.txt")
        os.utime(place, (0, 0))
        brought(memory, place)
        found = [(each.name, each.content, each.observed_at) for each in records(memory, "talk")]
    assert [(name, content) for name, content, _ in found] == [(name, content) for name, content, _ in expected]
    assert [f"{at.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%S}" for *_, at in found] == [
        at or "1970-01-01T00:00:00" for *_, at in expected
    ]


def test_dates_that_may_be_either_are_read_with_the_day_first_and_that_is_said(memory: Memory, tmp_path: Path) -> None:
    done = brought(memory, file(tmp_path, "3/4/2025, 10:00 - Ana: Hi", "talk.txt"))
    assert records(memory, "talk")[0].observed_at.month == 4
    assert "the day first" in done.left_out[0].reason
    assert done.reasons == {}


@pytest.mark.parametrize("text", ["Just a note.", "A: b", "", "{}", "[]", '{"a": 1}'], ids=str)
def test_what_nobody_says_is_refused(memory: Memory, tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInputError):
        brought(memory, file(tmp_path, text, "note.txt"))
    assert memory.stats().messages == 0


def test_other_encodings_are_read(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("User: Grüße", encoding="utf-16")
    (tmp_path / "b.txt").write_bytes("\ufeffUser: Grüße".encode())
    (tmp_path / "c.txt").write_bytes("User: Grüße".encode("latin-1"))
    done = [brought(memory, tmp_path / f"{name}.txt") for name in "abc"]
    assert [stored(memory, name)[0][2] for name in "ab"] == ["Grüße", "Grüße"]
    assert stored(memory, "c")[0][2] == "Gr\ufffd\ufffde"
    assert any("broken characters" in note for note in done[2].notes)


# -- what they have in common


def test_the_same_import_again_adds_nothing(memory: Memory, tmp_path: Path) -> None:
    place = file(tmp_path, [chatgpt(said("a", "user", "Hi"), said("b", "assistant", "Hello", "a"))])
    brought(memory, place)
    before = io.BytesIO(), io.BytesIO()
    memory.export(before[0])
    done = brought(memory, place)
    memory.export(before[1])
    assert (done.added, done.known, done.queued) == ({}, {"messages": 2, "conversations": 1}, 0)
    assert before[0].getvalue() == before[1].getvalue()


def test_a_message_that_was_changed_in_the_source_is_left_out_and_named(memory: Memory, tmp_path: Path) -> None:
    brought(memory, file(tmp_path, [chatgpt(said("a", "user", "Hi"))]))
    done = brought(memory, file(tmp_path, [chatgpt(said("a", "user", "Changed"), said("b", "user", "New", "a"))]))
    assert [content for *_, content in stored(memory)] == ["Hi", "New"]
    assert "another text here" in done.left_out[0].reason


def test_a_dry_run_changes_nothing_and_counts_the_same(memory: Memory, tmp_path: Path) -> None:
    place = file(tmp_path, [chatgpt(said("a", "user", "Hi")), chatgpt(said("b", "user", "Yo"), conversation_id="c2")])
    tried = brought(memory, place, dry_run=True)
    assert memory.stats().messages == 0
    done = brought(memory, place)
    assert (tried.added, tried.left_out) == (done.added, done.left_out)
    assert brought(memory, place, dry_run=True).known == {"messages": 2, "conversations": 2}


@pytest.mark.parametrize(("extract", "queued", "learnt"), [("later", 2, 0), ("never", 0, 0), ("now", 0, 3)])
def test_facts_are_learnt_when_it_is_said(
    learning: Memory, tmp_path: Path, extract: Any, queued: int, learnt: int
) -> None:
    nodes = [
        said("a", "user", "Ana sings."),
        said("b", "assistant", "Bob sings.", "a"),
        said("c", "user", "Eve eats fish.", "b"),
        said("d", "tool", "{}", "c"),
    ]
    done = brought(learning, file(tmp_path, [chatgpt(*nodes)]), extract=extract)
    assert (done.queued, len(learning.stats().queued), learning.stats().facts) == (queued, queued, learnt)
    assert done.added.get("facts", 0) == learnt
    if extract == "later":
        assert learning.work().facts == 3


def test_a_model_that_fails_leaves_what_is_stored_queued_and_says_so(path: Path, tmp_path: Path) -> None:
    class Broken:
        name, prompt_version = "broken", "1"

        def extract(self, request: ExtractionRequest) -> Extraction:
            raise ValueError("no")

    with Memory(path, embedder=False, extractor=Broken()) as memory:
        done = brought(memory, file(tmp_path, [chatgpt(said("a", "user", "Hi"))]), extract="now")
        assert (done.queued, len(done.notes)) == (1, 1)
        assert memory.stats().messages == 1


def test_what_is_learnt_together_begins_with_what_a_user_says(memory: Memory, tmp_path: Path) -> None:
    roles = ["system", "user", "assistant", "tool", "assistant", "user", "user", "assistant"]
    nodes = [said(str(n), role, f"Text {n}", str(n - 1) if n else "root") for n, role in enumerate(roles)]
    brought(memory, file(tmp_path, [chatgpt(*nodes)]))
    batches = [each.batch for each in records(memory)]
    assert [batches.index(batch) for batch in batches] == [0, 0, 0, 0, 0, 5, 5, 5]


def test_one_run_may_be_given(memory: Memory, tmp_path: Path) -> None:
    brought(memory, file(tmp_path, [chatgpt(said("a", "user", "Hi"))]), run_id="old talk", agent_id="bot")
    assert (records(memory, "old talk")[0].scope.agent_id, len(stored(memory, "c1"))) == ("bot", 0)


def test_a_bound_handle_brings_in_within_its_scope(memory: Memory, tmp_path: Path) -> None:
    place = file(tmp_path, [chatgpt(said("a", "user", "Hi"))])
    memory.scope(user_id="bob").import_file(place)
    assert records(memory)[0].scope.user_id == "bob"
    with pytest.raises(InvalidInputError):
        memory.scope(user_id="bob").import_file(place, user_id="ana")


@pytest.mark.parametrize(
    "options",
    [{"source": "gmail"}, {"extract": "soon"}, {"path": "missing.json"}, {"user_id": None}, {"path": "."}],
    ids=["source", "extract", "no file", "nobody", "a folder"],
)
def test_what_cannot_be_asked_for_is_refused(memory: Memory, tmp_path: Path, options: dict[str, Any]) -> None:
    place = file(tmp_path, [chatgpt(said("a", "user", "Hi"))])
    path_ = tmp_path / options.pop("path", place.name)
    with pytest.raises((InvalidInputError, FileError)):
        brought(memory, path_, **{"source": "chatgpt", **options})


def test_a_killed_import_goes_on_where_it_was(path: Path, tmp_path: Path) -> None:
    many = [
        chatgpt(said(f"a{n}", "user", f"Hi {n}."), said(f"b{n}", "assistant", "Yo", f"a{n}"), conversation_id=f"c{n}")
        for n in range(400)
    ]
    place = file(tmp_path, many)
    code = f"""
from memlite import Memory
with Memory({str(path)!r}, embedder=False, extractor=False) as memory:
    memory.import_file({str(place)!r}, user_id="ana", skipped=print)
"""
    process = subprocess.Popen([sys.executable, "-c", code])
    log = path.with_name(path.name + "-wal")
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline and not (log.exists() and log.stat().st_size > 10**6):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with Memory(path, embedder=False, extractor=False) as memory:
        before = memory.stats().messages
        done = brought(memory, place)
        assert before % 2 == 0  # a conversation is there as a whole or not at all
        assert (done.added.get("messages", 0), done.known.get("messages", 0)) == (800 - before, before)
        assert memory.stats().messages == 800


def test_two_processes_may_import_the_same_at_once(path: Path, tmp_path: Path) -> None:
    many = [chatgpt(said(f"a{n}", "user", f"Hi {n}."), conversation_id=f"c{n}") for n in range(60)]
    place = file(tmp_path, many)

    def bring() -> None:
        with Memory(path, embedder=False, extractor=False) as memory:
            found.append(brought(memory, place))

    found: list[Imported] = []
    threads = [threading.Thread(target=bring) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sum(done.added.get("messages", 0) for done in found) == 60
    with Memory(path, embedder=False, extractor=False) as memory:
        assert memory.stats().messages == 60


def test_progress_says_how_far_it_is(memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10_000))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    told: list[str] = []
    brought(memory, file(tmp_path, [chatgpt(said("a", "user", "Hi"))]), progress=told.append)
    assert told[0] == "chatgpt: its conversations have a mapping"
    assert "100%, about 0 s left: 1 messages, 1 conversations" in told


# -- reading a large or broken file


def values(text: str, chunk: int) -> list[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_CHUNK", chunk)
        data = text.encode("utf-8", "surrogatepass")
        read = files.Text("x", io.BufferedReader(io.BytesIO(data)), len(data), 0.0).values("item")  # type: ignore[arg-type]
        return [each if isinstance(each, LeftOut) else each[1] for each in read]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=("Cs",)), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('ab"\\[]{},: ', max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.dictionaries(st.sampled_from(["id", "b"]), JSON, max_size=3), max_size=5),
    st.integers(1, 40),
    st.booleans(),
)
def test_any_list_is_read_whatever_pieces_it_comes_in(given_: list[Any], chunk: int, ascii_: bool) -> None:
    assert values(json.dumps(given_, ensure_ascii=ascii_, indent=1), chunk) == given_
    assert values("\n".join(json.dumps(each, ensure_ascii=ascii_) for each in given_), chunk) == given_


@settings(max_examples=150, deadline=None)
@given(st.text('[]{}",:\\ 1ab\n', max_size=40), st.integers(1, 20))
def test_no_text_stops_the_reader(text: str, chunk: int) -> None:
    values(text, chunk)
    values(f"[{text}", chunk)


@pytest.mark.parametrize("chunk", [5, 1 << 18])
@pytest.mark.parametrize(
    ("text", "good"),
    [
        ('[{"id": 1}, {"id": 2 "x": 3}, {"id": 3}]', [1, 3]),
        ('[{"id": 1}, {"id": [2, {"id": 3}, {"id": 4}]', [1, 4]),
        ('[{"id": 1}}, {"id": 2}]', [1, 2]),
        ('[{"id": 1}, {"id": "cut', [1]),
        ('[{"id": 1}]\n[{"id": 2}]', [1, 2]),
        ('[{"id": 1}, {"id": ' + "[" * 100_000 + "]" * 100_000 + '}, {"id": 3}]', [1, 3]),
    ],
    ids=["no comma", "no bracket", "a bracket too many", "cut off", "two lists", "too deep"],
)  # fmt: skip
def test_what_follows_malformed_json_is_read(text: str, good: list[int], chunk: int) -> None:
    found = values(text, chunk if len(text) < 1000 else 1 << 18)
    assert [each["id"] for each in found if isinstance(each, dict)] == good
    assert any(isinstance(each, LeftOut) for each in found) or "]\n[" in text


def test_lines_are_read_whatever_pieces_they_come_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_CHUNK", 3)
    monkeypatch.setattr(files, "LONGEST", 12)

    def lines(text: str) -> Iterable[Any]:
        return list(files.Text("x", io.BufferedReader(io.BytesIO(text.encode())), 9, 0.0).lines())  # type: ignore[arg-type]

    assert lines("a\r\n\nb\u2028c\nd") == [(1, "a"), (2, ""), (3, "b\u2028c"), (4, "d")]
    first, second, third = lines("a\n0123456789abcdef\nb")
    assert (first, second.place, third) == ((1, "a"), "line 2", (3, "b"))
