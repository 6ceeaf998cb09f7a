"""What holds for every adapter: nothing else needs a framework, and where one is missing it is said what to install."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from memlite import InvalidInputError, Memory
from memlite.integrations.transcript import Item, Transcript

ROOT = Path(__file__).parent.parent
FRAMEWORKS = {
    "langchain": "langchain_core",
    "langgraph": "langgraph",
    "llamaindex": "llama_index",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
}


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nothing_but_its_adapter_imports_a_framework_and_the_wrapped_client_needs_none() -> None:
    printed = run(f"""
import importlib, pkgutil, sys
import memlite
for found in pkgutil.walk_packages(memlite.__path__, "memlite."):
    if not found.name.startswith("memlite.integrations.") and found.name != "memlite.__main__":
        importlib.import_module(found.name)
import memlite.integrations.openai_client, memlite.integrations.transcript
print(sorted({{*{list(FRAMEWORKS.values())!r}, "openai"}} & set(sys.modules)))
""")
    assert printed.strip() == "[]"


@pytest.mark.parametrize("adapter", FRAMEWORKS)
def test_without_its_framework_an_adapter_says_what_to_install(adapter: str) -> None:
    printed = run(f"""
import sys
sys.modules[{FRAMEWORKS[adapter]!r}] = None
import memlite
try:
    import memlite.integrations.{adapter}
except memlite.FrameworkMissingError as error:
    print(isinstance(error, ImportError), isinstance(error, memlite.MemliteError), error)
""")
    assert printed.startswith("True True")
    extra = adapter.replace("_", "-")
    assert f"pip install 'memlite[{extra}]'" in printed
    assert re.search(rf"^{extra} = \[", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)


def test_a_conversation_of_another_users_with_the_same_name_is_another_one(memory: Memory) -> None:
    ana, ben = (Transcript(memory, "x", user_id=user, agent_id=None, run_id="1") for user in ("ana", "ben"))
    ana.append([Item("user", "I am Ana.", "{}")])
    ben.append([Item("user", "I am Ben.", "{}")])
    ana.clear()
    assert [each.content for each in ben.last()] == ["I am Ben."]
    assert ana.last() == []
    assert ana.pop() is None


def test_an_item_without_text_is_kept_and_nothing_is_learnt_from_it(learning: Memory) -> None:
    kept = Transcript(learning, "x", user_id="ana", agent_id=None, run_id="1", extract="now")
    kept.append([Item("user", " \n", '{"image": 1}')])
    (message,) = kept.last()
    assert kept.raw(message) == '{"image": 1}'
    assert message.role == "tool"
    assert not learning.get_all(user_id="ana")


def test_a_fact_does_not_carry_the_item_that_it_was_learnt_from(learning: Memory) -> None:
    kept = Transcript(learning, "x", user_id="ana", agent_id=None, run_id="1", extract="now")
    kept.append([Item("user", "I live in Porto.", '{"it": 1}')])
    (fact,) = learning.get_all(user_id="ana")
    assert fact.metadata == {}


def test_only_a_memory_will_do(path: Path) -> None:
    with pytest.raises(InvalidInputError, match="expected a memlite"):
        Transcript(str(path), "x", user_id="ana", agent_id=None, run_id="1")  # type: ignore[arg-type]
