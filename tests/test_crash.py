"""scripts/crash: fifty of its kills, and that it finds what it is there to find."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from memlite.db import Database
from tests.conftest import script

crash = script("crash")


def test_what_is_killed_at_any_point_loses_nothing_and_goes_on(tmp_path: Path) -> None:
    totals = crash.crash(50, 7, tmp_path)
    assert totals.wrong == []
    assert totals.killed.total() >= 40
    assert {name for name, _ in totals.killed} == set(crash.VERBS)
    assert {kind for _, kind in totals.killed} == set(crash.KINDS)


def test_a_write_that_is_not_synced_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = Database._connect

    def careless(self: Database) -> apsw.Connection:
        connection = connect(self)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    monkeypatch.setattr(Database, "_connect", careless)
    monkeypatch.setattr(crash, "KINDS", ("power",))
    assert crash.crash(4, 1, tmp_path, ["add"]).wrong


def test_a_write_in_two_transactions_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def careless(self: Database, mode: str = "IMMEDIATE") -> Iterator[None]:
        yield

    monkeypatch.setattr(Database, "_begun", careless)
    monkeypatch.setattr(crash, "KINDS", ("statement",))
    assert crash.crash(4, 1, tmp_path, ["add"]).wrong
