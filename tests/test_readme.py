"""The README is executed: its Python, its commands, its SQL, and its tables of commands, verbs and tables."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from memlite import Memory, cli, db

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMLITE_DB", str(tmp_path / "memory.db"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{Path('/usr/bin')}:{Path('/bin')}")
    return tmp_path


def test_the_ten_lines_of_python_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks("python")
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert printed.startswith("done")
    assert "walnuts" in printed


def test_the_two_commands_are_there_and_can_be_executed() -> None:
    commands = blocks("sh")[0].split()
    assert commands == ["scripts/demo", "scripts/test"]
    for command in commands:
        assert shutil.which(command, path=str(ROOT)) or (ROOT / command).stat().st_mode & 0o100


def test_the_command_line_examples_and_the_sql_run(here: Path) -> None:
    examples = next(block for block in blocks("sh") if block.startswith("memlite add"))
    for line in examples.splitlines():
        done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    with sqlite3.connect(here / "memory.db") as stock:
        (sql,) = re.findall(r'sqlite3 memory.db "(.*)"', README)
        assert ("Ana works at Feedzai in Porto.",) in [row[:1] for row in stock.execute(sql)]
    stock.close()


def test_every_table_of_the_file_is_described(path: Path) -> None:
    with Memory(path, extractor=False) as memory:
        memory.remember("Ana works at Feedzai.", user_id="ana")
    with db.Database(path).read() as connection:
        names = {
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')")
            # FTS5 keeps shadow tables of its own; *_text are the views the indexes read.
            if not re.search(r"_(data|idx|docsize|config|text)$", name) and not name.startswith("sqlite_")
        }
    section = README[README.index("## The file") : README.index("## How a search scores")]
    assert names == {name for name in names if f"`{name}`" in section}


def test_every_command_and_verb_is_described() -> None:
    for command in cli.main.commands:
        assert re.search(rf"`{command}\b", README), command
    for verb in vars(Memory):
        if not verb.startswith("_") and verb not in ("close", "path", "compact"):
            assert f"`{verb}" in README or f"memory.{verb}(" in README, verb
