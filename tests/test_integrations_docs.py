"""docs/integrations.md is executed, one example after another, with models that only talk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import set_tracing_disabled
from llama_index.core.llms.mock import MockLLM
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel
from test_integrations_openai_agents import Talker, says
from test_integrations_openai_client import Server

from memlite import integrations
from memlite.context import NOTE

ROOT = Path(__file__).parent.parent
DOCS = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What the page leaves to its reader; all without a network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMLITE_EXTRACTOR", "off")
    monkeypatch.setenv("MEMLITE_EMBEDDER", "off")
    set_tracing_disabled(True)
    server = Server("At Feedzai.")
    names: dict[str, Any] = {
        "server": server,
        "client": server.sync(),
        "llm": MockLLM(),
        "model": Talker(says("Noted.")),
        "chat_model": FunctionModel(lambda messages, info: ModelResponse([TextPart("At Feedzai.")])),
    }
    yield names
    names["memory"].close()


def test_the_examples_run_and_do_what_the_page_says(given: dict[str, Any]) -> None:
    for code in re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL):
        exec(compile(code, "docs/integrations.md", "exec"), given)
    assert NOTE in given["server"].asked[0][0]["content"]
    assert given["documents"][0].page_content == "Ana works at Feedzai in Porto."
    assert [item.key for item in given["store"].search(("memories",), query="walnuts")] == ["food"]
    assert given["result"].output == "At Feedzai."
    memory = given["memory"]
    counts = {run: len(memory.get_messages(user_id="ana", run_id=f"chat-{run}")) for run in range(1, 6)}
    assert counts == {1: 2, 2: 2, 3: 2, 4: 2, 5: 4}


def test_every_adapter_and_extra_is_on_the_page() -> None:
    listed = re.findall(r"memlite\.integrations\.(\w+) ", integrations.__doc__ or "")
    assert len(listed) == 6
    for name in listed:
        assert f"`memlite.integrations.{name}`" in DOCS, name
