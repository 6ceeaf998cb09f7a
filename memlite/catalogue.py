"""Every model that is found here, whether it loads and what is put on it: what `memlite models` shows."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from memlite import forms, models
from memlite.asking import way
from memlite.errors import MemliteError, ModelError, ModelMissingError

_ENGLISH = (
    "the default extractor is trained on English; for other languages a larger model does better: "
    "`memlite models pull qwen3-1.7b` (multilingual, 1.8 GB)"
)


@dataclass(frozen=True, slots=True)
class ListedModel:
    """One line of `memlite models`.

    error: None when llama.cpp loads the file, and its adapter where it has one, else why it does not. adapter: the file
    of a trained adapter that is put on the model, None where it has none. note: what one should know of it, or "".
    """

    role: models.Role
    name: str
    path: Path
    origin: str
    size: int
    licence: str
    used: bool
    error: str | None
    adapter: Path | None
    note: str = ""


def list_models() -> list[ListedModel]:
    """Every model that was found; each is loaded once through llama.cpp to know that it can be."""
    listed: list[ListedModel] = []
    for role in models.ROLES:
        found = list(models.installed(role))
        try:
            used = models.find(role)
        except ModelMissingError as problem:
            used = None
            path = Path(os.environ[f"MEMLITE_{role.upper()}"]).expanduser()
            listed.append(ListedModel(role, path.name, path, "environment", 0, "", False, str(problem), None))
        if used and used.origin == "environment":
            found.insert(0, used)
        listed += [_listed(model, model == used) for model in found]
    return listed


def load_error(model: models.ModelFile) -> str | None:
    """Why a model cannot be used, or its adapter not be put on it; None when all is well."""
    adapter = None
    try:
        entry = forms.adapted(model.path) if model.role == "extractor" else None
        if entry and entry.adapter:
            forms.check_adapter(entry.adapter, model.path, way(entry.form, 0, True).version)
            adapter = entry.adapter
    except MemliteError as problem:
        return models.load_error(model.path) or str(problem)
    return models.load_error(model.path, adapter)


def _listed(model: models.ModelFile, used: bool) -> ListedModel:
    adapter = forms.adapter_of(model.path) if model.role == "extractor" else None
    return ListedModel(
        role=model.role,
        name=model.name,
        path=model.path,
        origin=model.origin,
        size=model.size,
        licence=_licence(model),
        used=used,
        error=load_error(model),
        adapter=adapter,
        note=_ENGLISH if adapter and Path(forms.__file__).parent in adapter.parents else "",
    )


def _licence(model: models.ModelFile) -> str:
    """The licence in the file, else in the note that `pull` left beside it, else ""."""
    try:
        said = models.metadata(model.path).get("general.license")
        if said:
            return str(said)
        note = json.loads(models.note_of(model.path).read_text(encoding="utf-8"))
        return str(note.get("licence") or "")
    except (ModelError, OSError, ValueError):
        default = models.DEFAULTS[model.role]
        return default.licence if model.path.name == default.file else ""
