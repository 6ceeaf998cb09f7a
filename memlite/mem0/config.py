"""mem0's configuration, read into memlite's: which file, which models. What is left aside is told, never dropped."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from memlite.errors import InvalidInputError, excerpt
from memlite.mem0.notices import tell
from memlite.places import default_path

OWN = "memlite"  # the provider whose `model` or `path` is memlite's own choice
_DEFAULT_EMBEDDERS = ("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2")  # what memlite has as a GGUF
_FILES = (".db", ".sqlite", ".sqlite3")
_LOCAL_RERANKERS = (OWN, "sentence_transformer", "huggingface")
# What mem0 has or had, and what is in its place.
_GONE = {
    "history_db_path": "the history is in the same file",
    "graph_store": "the entities of facts are in the same file, and search follows them",
    "custom_fact_extraction_prompt": "it is the whole prompt of another model: say what to look for in "
    "custom_instructions",
    "custom_update_memory_prompt": "what a fact replaces is told by its own words",
}


@dataclass
class MemoryConfig:
    """mem0's configuration, each part of it as a dict: {"provider": NAME, "config": {...}}.

    vector_store: {"provider": "memlite", "config": {"path": FILE}} is the file. llm, embedder: {"provider": "memlite",
    "config": {"model": MODEL}}, a model as `memlite.Memory` takes it for its extractor and its embedder: False for
    none. reranker: likewise. custom_instructions: what the extractor is to look for.
    """

    vector_store: Mapping[str, Any] | None = None
    llm: Mapping[str, Any] | None = None
    embedder: Mapping[str, Any] | None = None
    history_db_path: str | None = None
    reranker: Mapping[str, Any] | None = None
    version: str = "v1.1"
    custom_instructions: str | None = None


@dataclass
class Settings:
    """What a configuration means: what `memlite.Memory` takes, and the instructions for its extractor."""

    path: str | Path
    extractor: Any = None
    embedder: Any = None
    reranker: Any = None
    instructions: str | None = None


def read(config: object) -> Settings:
    """What a configuration means, with a Mem0Warning that names all of it that has no effect.

    config: a dict, a MemoryConfig, or None for the defaults. Raises InvalidInputError for what is none.
    """
    given = {} if config is None else _as_dict(config)
    known = {each.name for each in fields(MemoryConfig)}
    if unknown := [name for name in given if name not in known and name not in _GONE]:
        raise InvalidInputError(
            f"the configuration has {', '.join(map(excerpt, unknown))}; known are {', '.join(sorted(known))}."
        )
    aside = [f"{name}: {why}" for name, why in _GONE.items() if given.get(name)]
    if given.get("version", "v1.1") != "v1.1":
        aside.append(f"version {excerpt(given['version'])}: what is returned has the shapes of v1.1")
    settings = Settings(_path(given, aside))
    settings.extractor = _extractor(given, aside)
    settings.embedder = _embedder(given, aside)
    settings.reranker = _reranker(given, aside)
    settings.instructions = given.get("custom_instructions")
    if settings.instructions is not None and not isinstance(settings.instructions, str):
        raise InvalidInputError(f"custom_instructions is {excerpt(settings.instructions)}, expected a text.")
    if aside:
        tell("mem0's configuration: left aside are " + "; ".join(aside) + ".")
    return settings


def _as_dict(config: object) -> Mapping[str, Any]:
    if isinstance(config, MemoryConfig):
        return {each.name: value for each in fields(config) if (value := getattr(config, each.name)) is not None}
    if not isinstance(config, Mapping):
        raise InvalidInputError(
            f"the configuration is a {type(config).__name__}, expected a dict or a memlite.mem0.MemoryConfig."
        )
    return config


def _part(given: Mapping[str, Any], name: str) -> tuple[str, dict[str, Any]]:
    """A part's provider and what it is given; "" where it is not configured."""
    part = given.get(name)
    if part is None:
        return "", {}
    provider, config = (part.get("provider"), part.get("config") or {}) if isinstance(part, Mapping) else (None, None)
    known = {"provider", "config"}
    if not (provider and isinstance(provider, str) and isinstance(config, Mapping) and set(part) <= known):
        # Not what it is: there may be keys of services in it.
        raise InvalidInputError(f"{name} is not of the form {{'provider': NAME, 'config': {{...}}}}.")
    return provider, dict(config)


def _path(given: Mapping[str, Any], aside: list[str]) -> str | Path:
    """The file: the one that is named; in the folder of an embedded store; or as for the command line."""
    provider, config = _part(given, "vector_store")
    default: str | Path = os.environ.get("MEMLITE_DB") or default_path()
    named = config.pop("path", None)
    if named is not None and not isinstance(named, (str, Path)):
        raise InvalidInputError(f"vector_store's path is {excerpt(named)}, expected a path.")
    if provider in ("", OWN):
        _nothing_else(f"vector_store {OWN}", config, "path")
        return named or default
    collection = config.pop("collection_name", None)
    name = "mem0" if collection is None else collection
    if not isinstance(name, str) or not name or Path(name).name != name:
        raise InvalidInputError(f"collection_name is {excerpt(name)}, expected a name that a file can have.")
    if named:
        path = Path(named).expanduser()
        whole = str(named) == ":memory:" or path.suffix in _FILES
        found: str | Path = path if whole else path / f"{name}.db"
    elif collection is None or os.environ.get("MEMLITE_DB"):
        found = default
    else:
        found = Path(default).with_name(f"{name}.db")
    config.pop("on_disk", None)  # it always is
    aside.append(f"vector_store {_listed(provider, config)}: all is in the file {found}")
    return found


def _extractor(given: Mapping[str, Any], aside: list[str]) -> Any:
    provider, config = _part(given, "llm")
    model = config.pop("model", None)
    if provider == OWN:
        _nothing_else(f"llm {OWN}", config, "model")
        return model
    if isinstance(model, (str, Path)) and Path(model).suffix == ".gguf":
        if config:
            aside.append(f"llm {_listed(provider, config)}: {model} runs in this process")
        return model
    if provider:
        named = config | ({} if model is None else {"model": model})
        aside.append(
            f"llm {_listed(provider, named)}: the extractor that `memlite models` shows runs here; a GGUF file as the "
            "model is another"
        )
    return None


def _embedder(given: Mapping[str, Any], aside: list[str]) -> Any:
    provider, config = _part(given, "embedder")
    model = config.pop("model", None)
    if provider == OWN:
        _nothing_else(f"embedder {OWN}", config, "model")
        return model
    gguf = isinstance(model, (str, Path)) and Path(model).suffix == ".gguf"
    if gguf or (provider == "huggingface" and isinstance(model, str) and "huggingface_base_url" not in config):
        if config:
            aside.append(f"embedder {_listed(provider, config)}: {model} runs in this process")
        if gguf:
            return model
        prefix = "sentence-transformers/"
        return None if model in _DEFAULT_EMBEDDERS else prefix + model.removeprefix(prefix)
    if provider:
        named = config | ({} if model is None else {"model": model})
        aside.append(f"embedder {_listed(provider, named)}: the one that `memlite models` shows runs here")
    return None


def _reranker(given: Mapping[str, Any], aside: list[str]) -> Any:
    provider, config = _part(given, "reranker")
    if not provider:
        return None
    model = config.pop("model", None)
    if provider not in _LOCAL_RERANKERS or model is None:
        raise InvalidInputError(
            f"reranker {excerpt(provider)} with the model {excerpt(model)}: memlite asks no service. Leave it out, or "
            f"give {{'provider': '{OWN}', 'config': {{'model': PATH}}}}, where PATH is the folder of a cross-encoder "
            "or a GGUF reranker."
        )
    if config:
        aside.append(f"reranker {_listed(provider, config)}: {excerpt(model)} runs in this process")
    return model


def _nothing_else(what: str, config: Mapping[str, Any], known: str) -> None:
    if config:
        raise InvalidInputError(f"{what} has {', '.join(map(excerpt, config))}, expected {known} only.")


def _listed(provider: str, config: Mapping[str, Any]) -> str:
    """A provider with the names of what it was given, which may be keys: never their values."""
    return f"{provider} ({', '.join(map(str, config))})" if config else provider
