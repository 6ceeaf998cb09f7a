"""The built wheel works by itself, and importing memlite stays light."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_importing_memlite_loads_no_model_runtime_and_no_numpy() -> None:
    heavy = "{'llama_cpp', 'torch', 'numpy', 'sentence_transformers', 'transformers', 'huggingface_hub', 'asyncio'}"
    code = f"import sys; from memlite import Memory; print(sorted({heavy} & set(sys.modules)))"
    assert run(sys.executable, "-c", code, cwd=ROOT).strip() == "[]"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel and its core dependencies, far from the source."""
    folder = tmp_path_factory.mktemp("plain")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel, cwd=folder)
    return python


def test_the_wheel_has_the_adapter_the_tables_and_all_else_that_is_no_code(wheel: Path) -> None:
    package = ROOT / "memlite"
    wanted = {path for path in package.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert {package / name for name in ("forms.toml", "dates.toml", "py.typed")} < wanted
    assert any(path.parent.name == "adapters" and path.suffix == ".gguf" for path in wanted)
    with zipfile.ZipFile(wheel) as packed:
        for path in wanted:
            assert packed.read(path.relative_to(ROOT).as_posix()) == path.read_bytes(), path


def test_the_plain_install_stores_searches_and_deletes_without_a_model(plain: Path, tmp_path: Path) -> None:
    code = """
import memlite
with memlite.Memory("memory.db", embedder=False, extractor=False) as memory:
    added = memory.add("The saffron risotto is at Osteria Lume.", user_id="ana")
    assert added.status == "queued", added
    (hit,) = memory.search("risotto", user_id="ana")
    assert hit.kind == "message" and hit.explain is None
    memory.delete(hit.id)
    assert not memory.search("risotto", user_id="ana")
print(memlite.__file__)
"""
    assert str(ROOT) not in run(plain, "-c", code, cwd=tmp_path)


def test_the_plain_install_encrypts(plain: Path, tmp_path: Path) -> None:
    """Its driver has the module of the package apsw, which would do everything else."""
    code = """
import memlite, pathlib
with memlite.Memory("memory.db", key="secret", embedder=False, extractor=False) as memory:
    memory.add("The saffron risotto is at Osteria Lume.", user_id="ana", extract="never")
    assert memory.search("risotto", user_id="ana")
    print(any(b"risotto" in file.read_bytes() for file in pathlib.Path().iterdir()))
"""
    assert run(plain, "-c", code, cwd=tmp_path) == "False\n"


def test_the_plain_install_names_the_extra_when_a_model_is_asked_for(plain: Path, tmp_path: Path, models: Path) -> None:
    (embedder,) = (models / "embedder").glob("*.gguf")
    code = f"""
import memlite
memory = memlite.Memory("memory.db", embedder={str(embedder)!r}, extractor=False)
print(memory.add("x y", user_id="ana").reason)
try:
    memory.search("x", user_id="ana")
except memlite.ModelMissingError as error:
    print(error)
print(memory.stats().messages)
"""
    printed = run(plain, "-c", code, cwd=tmp_path)
    assert printed.count("pip install 'memlite[local]'") == 2
    assert printed.splitlines()[-1] == "1"  # the message was stored all the same


def test_the_plain_install_searches_by_words_where_a_model_was_found_that_nothing_can_run(
    plain: Path, tmp_path: Path
) -> None:
    code = """
import memlite
memory = memlite.Memory("memory.db")
memory.add("The risotto is at Osteria Lume.", user_id="ana")
hits = memory.search("risotto", user_id="ana")
assert len(hits) == 1
print(hits.notes[0])
"""
    assert "memlite[local]" in run(plain, "-c", code, cwd=tmp_path)


def test_the_command_of_the_plain_install_runs(plain: Path, tmp_path: Path) -> None:
    command = plain.parent / "memlite"
    run(command, "--db", "m.db", "remember", "Ana likes tea.", cwd=tmp_path)
    assert "Ana likes tea." in run(command, "--db", "m.db", "search", "tea", cwd=tmp_path)
