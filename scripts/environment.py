"""The virtual environment of this checkout: `.venv` with memlite, llama.cpp and the default models.

`scripts/demo`, `scripts/test` and the benchmarks call `ready()`, which does nothing where all is there.
Runs on any Python 3 so that an old one gets a sentence instead of a traceback.
"""

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
OLDEST = (3, 10)

# What of llama.cpp is left out: image and audio input (LLAVA), downloads (OpenSSL), OpenMP (memlite gives a
# model one thread), and with llama.cmake the "common" library that only llama.cpp's own programs use.
LLAMA_OPTIONS = [
    "-DLLAVA_BUILD=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DGGML_OPENMP=OFF",
    "-DCMAKE_PROJECT_llama.cpp_INCLUDE=" + (ROOT / "scripts" / "llama.cmake").as_posix(),
]
# Asked for before anything that needs torch: an open range takes a CUDA build of several GB.
TORCH = "torch==2.13.0"


def ready(extra, *needed):
    """Install memlite with one extra and the default models into `.venv`; return the path of its Python.

    needed: modules that tell whether the extra is installed.
    """
    python = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        _check_python()
        say("Making a virtual environment in .venv")
        missing = "the module venv is missing (on Debian: apt install python3-venv)"
        _run([sys.executable, "-m", "venv", str(VENV)], missing)
    if _stamp(extra).exists() and _has(python, "memlite", "llama_cpp", *needed):
        return python
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    if not _has(python, "llama_cpp"):
        _check_compiler()
        say(
            "Installing llama-cpp-python, which runs the models. pip compiles it from source: 2 to 10 minutes the "
            "first time, seconds afterwards (pip keeps the result)."
        )
        options = " ".join(shlex.quote(option) for option in LLAMA_OPTIONS)
        os.environ["CMAKE_ARGS"] = (os.environ.get("CMAKE_ARGS", "") + " " + options).strip()
        _run([*pip, _requirement("llama-cpp-python")], "llama-cpp-python did not build; the lines above say why")
    if extra == "dev" and not _has(python, "torch"):
        say("Installing torch and sentence-transformers, which the tests compare llama.cpp with (a few hundred MB)")
        _run([*pip, TORCH], "torch could not be installed")
    say("Installing memlite[" + extra + "]")
    _run([*pip, "-e", str(ROOT) + "[" + extra + "]"], "memlite could not be installed; the lines above say why")
    _run([str(python), "-m", "memlite", "models", "pull", "default"], "the default models could not be pulled")
    for old in VENV.glob("memlite-" + extra + "-*"):
        old.unlink()
    _stamp(extra).touch()
    return python


def say(line):
    """A line for the person who waits."""
    print("== " + line, flush=True)


def _stamp(extra):
    """A file that says this very pyproject.toml is installed."""
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()[:12]
    return VENV / ("memlite-" + extra + "-" + digest)


def _has(python, *modules):
    code = "import importlib.util as u, sys; sys.exit(not all(u.find_spec(m) for m in sys.argv[1:]))"
    return subprocess.run([str(python), "-c", code, *modules], check=False).returncode == 0


def _requirement(name):
    """The line of pyproject.toml that asks for a package, without its comment."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    start = text.index('"' + name) + 1
    return text[start : text.index('"', start)]


def _check_python():
    if sys.version_info < OLDEST:
        sys.exit(
            "memlite needs Python 3.10 or newer and this is "
            + ".".join(map(str, sys.version_info[:3]))
            + ": run the script with a newer one, as in `python3.12 scripts/demo`"
        )


def _check_compiler():
    found = any(shutil.which(name) for name in (os.environ.get("CXX", "c++"), "g++", "clang++", "cl"))
    if not found:
        sys.exit(
            "no C++ compiler was found, and llama-cpp-python is compiled from source: install one "
            "(Debian: apt install g++; macOS: xcode-select --install; Windows: Visual Studio Build Tools)"
        )


def _run(command, otherwise):
    if subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode:
        sys.exit(otherwise)
