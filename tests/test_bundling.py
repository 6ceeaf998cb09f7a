"""The assistant of docs/bundling.md, bundled by PyInstaller, moved, and run with nothing of Python around it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import memlite

PAGE = Path(__file__).parent.parent / "docs" / "bundling.md"


def test_a_bundled_assistant_adds_works_and_searches(tmp_path: Path, models: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "assistant.py").write_text(code, encoding="utf-8")
    # As the installed package names it; the tests may run from a checkout.
    hooks = Path(memlite.__file__).parent / "__pyinstaller"
    build = [
        sys.executable,
        "-m",
        "PyInstaller",
        "--noconfirm",
        "--log-level",
        "ERROR",
        "--additional-hooks-dir",
        str(hooks),
    ]
    build += ["--add-data", f"{models}:models", "--paths", str(Path(memlite.__file__).parent.parent), "assistant.py"]
    done = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    application = tmp_path / "elsewhere"
    shutil.move(tmp_path / "dist" / "assistant", application)
    shutil.rmtree(tmp_path / "build")
    lines = "My sister Clara is allergic to walnuts.\n?what is Clara allergic to?\n?who won the regatta?\n"
    ran = subprocess.run(
        [application / "assistant", tmp_path / "memory.db"],
        input=lines,
        env={"HOME": str(tmp_path)},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [line.partition(". (")[0] for line in ran.stdout.splitlines()] == [
        "- The user's sister Clara is allergic to walnuts",
        "I do not know.",
    ]
    assert not [name for name in ("torch", "transformers", "gguf") if (application / "_internal" / name).exists()]
