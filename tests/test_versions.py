"""A file of every schema version, kept as SQL by scripts/keep_version: it opens, is migrated, and loses nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import apsw
import pytest

from memlite import Memory, schema
from memlite.schema import run as run_script
from tests.conftest import Echo, script

KEPT = Path(__file__).parent / "versions"
VERSIONS = range(1, schema.VERSION + 1)
CURRENT = {
    "Ana rows on the Douro.",
    "Ana plays the cello.",
    "Ana drinks almond milk.",
    "Ana is happy.",
    "Bo has a red bike.",
}


Vowels = script("keep_version").Vowels  # the embedder of these files


def unpack(version: int, path: Path) -> None:
    """Make the file of a version that is kept."""
    connection = apsw.Connection(str(path))
    run_script(connection, (KEPT / f"{version}.sql").read_text(encoding="utf-8"))
    connection.close()


@pytest.fixture(params=VERSIONS, ids=lambda version: f"version-{version}")
def old(path: Path, request: pytest.FixtureRequest) -> Path:
    unpack(request.param, path)
    assert path.read_bytes()[60:64] == request.param.to_bytes(4, "big")
    return path


def opened(path: Path) -> Memory:
    return Memory(path, embedder=Vowels(), extractor=False)


def objects(connection: apsw.Connection) -> dict[str, str]:
    """The SQL of everything in a file that a migration makes."""
    rows = connection.execute(
        "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE '%_vectors%'"
    )
    return dict(rows)


def made_by(steps: Sequence[str]) -> dict[str, str]:
    connection = apsw.Connection(":memory:")
    for step in steps:
        step(connection) if callable(step) else run_script(connection, step)
    found = objects(connection)
    connection.close()
    return found


def test_a_file_of_every_version_is_kept() -> None:
    kept = sorted(int(file.stem) for file in KEPT.glob("*.sql"))
    assert kept == list(VERSIONS), "a new entry of MIGRATIONS: run scripts/keep_version, once"


@pytest.mark.parametrize("version", VERSIONS)
def test_an_entry_of_the_migrations_never_changes(version: int, path: Path) -> None:
    unpack(version, path)
    connection = apsw.Connection(str(path))
    found = objects(connection)
    connection.close()
    wanted = made_by(schema.MIGRATIONS[:version])
    assert {name for name in wanted if found.get(name) != wanted[name]} == set()
    assert set(found) - set(wanted) == set()


def test_an_older_file_becomes_one_of_this_version(old: Path) -> None:
    opened(old).close()
    connection = apsw.Connection(str(old))
    found = objects(connection)
    version = connection.execute("PRAGMA user_version").get
    connection.close()
    assert version == schema.VERSION
    assert found == made_by(schema.MIGRATIONS)


def test_the_facts_of_an_older_file_are_found(old: Path) -> None:
    with opened(old) as memory:
        facts = [fact for user in ("ana", "bo") for fact in memory.get_all(user_id=user)]
        assert {fact.text for fact in facts} == CURRENT
        for fact in facts:
            assert memory.search(fact.text, user_id=fact.scope.user_id, include="facts")[0].id == fact.id
        assert memory.search("里斯本", user_id="ana")[0].text == "安娜住在里斯本。"


def test_the_past_of_an_older_file_is_there(old: Path) -> None:
    with opened(old) as memory:
        past = {fact.text for fact in memory.get_all(user_id="ana", past=True)}
        assert past >= {"Ana drinks oat milk.", "Ana has a cold."}
        owed = memory.get_all(user_id="ana", archived=True)
        assert {"Ana owes Bo ten euros.", "Ana moved to Rome."} <= {fact.text for fact in owed}
        bike = memory.get_all(user_id="bo")[0]
        assert [event.action for event in memory.history(bike.id)] == ["ADD", "UPDATE"]
        assert bike.metadata == {"n": 1}
        assert [entity.aliases for entity in memory.entities(user_id="bo")] == [("Bolek",)]
        assert len(memory.ttls()) == 1


def test_an_older_file_goes_on(old: Path) -> None:
    with Memory(old, embedder=Vowels(), extractor=Echo()) as memory:
        assert (memory.work().facts, memory.stats().queued) == (1, ())
        assert (
            memory.add({"id": "m1", "content": "Ana plays the cello."}, user_id="ana", agent_id="cook").messages == ()
        )
        assert memory.remember("Ana likes tea.", user_id="ana").facts
        assert memory.stats().without_vector == 0


def test_nothing_of_an_older_file_is_out_of_step(old: Path) -> None:
    with opened(old) as memory:
        result = memory.repair(dry_run=True)
        assert (result.found, result.left) == ((), ())
