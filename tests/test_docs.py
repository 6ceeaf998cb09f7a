"""The pages under docs/ run: their Python, from above to below, prints what stands below it; their links lead on."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from memlite import cli

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(page.name for page in DOCS.glob("*.md"))
ELSEWHERE = ("integrations.md", "mem0.md")  # run by tests of their own
_BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


def blocks(page: str) -> list[tuple[str, str]]:
    """Every Python block with what it prints."""
    return _BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page) and page not in ELSEWHERE])
def test_the_python_of_a_page_prints_what_stands_below_it(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMLITE_MODELS", str(models))
    names: dict[str, object] = {"__file__": str(tmp_path / page)}
    for code, expected in blocks(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page, "exec"), names)
        assert printed.getvalue() == expected, code


@pytest.mark.parametrize("page", PAGES)
def test_the_links_and_commands_of_a_page_are_there(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
        assert (DOCS / link).exists(), link
    for command in re.findall(
        r"^memlite ([a-z]+)", "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)), re.MULTILINE
    ):
        assert command in cli.main.commands, command
