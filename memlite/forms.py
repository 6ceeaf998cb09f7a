"""Which form of prompt and answer an extractor gets: the table in forms.toml, which users can put theirs before."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, get_args

from memlite import models
from memlite.errors import InvalidInputError, ModelError

Form = Literal["general", "quotes", "compact"]
FORMS: tuple[Form, ...] = get_args(Form)

TABLE = "forms.toml"
_KEYS = {"file": str, "below": (int, float), "form": str, "adapter": str}


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the table; adapter: the file, or None."""

    form: Form
    file: str = "*"
    below: float = float("inf")  # million parameters
    adapter: Path | None = None

    def fits(self, path: Path, parameters: int) -> bool:
        return fnmatchcase(path.name, self.file) and parameters < self.below * 1e6


def choose(path: Path, parameters: int) -> Entry:
    """The entry for a model file with so many parameters. Raises InvalidInputError where a table cannot be read."""
    return next(entry for entry in _entries() if entry.fits(path, parameters))


def adapted(path: Path) -> Entry | None:
    """The entry that puts an adapter on a file, by what the table says before anything of the file is loaded."""
    told = (entry for entry in _entries() if entry.file != "*" or entry.below == float("inf"))
    found = next((entry for entry in told if fnmatchcase(path.name, entry.file)), None)
    return found if found and found.adapter else None


def adapter_of(path: Path) -> Path | None:
    """The adapter that the table names for a file, before anything of it is loaded."""
    found = adapted(path)
    return found.adapter if found else None


def check_adapter(adapter: Path, base: Path, prompt_version: str) -> Mapping[str, Any]:
    """What an adapter says of itself. Raises ModelError where it was trained for another base or prompt."""
    if not adapter.is_file():
        raise ModelError(f"the adapter {adapter} does not exist: correct its entry in {TABLE}, or reinstall memlite")
    about = models.metadata(adapter)
    if about.get("adapter.type") != "lora":
        raise ModelError(f"{adapter} is no LoRA adapter: correct its entry in {TABLE}")
    wanted = about.get("memlite.base.digest")
    if wanted and wanted != models.digest(base):
        raise ModelError(
            f"the adapter {adapter.name} was trained for {about.get('memlite.base.name')} with the SHA-256 {wanted}, "
            f"and {base} is another file: `memlite models pull default` fetches the right one, or give this file "
            f"another name, so that {TABLE} finds it an entry without the adapter"
        )
    made_for = about.get("memlite.prompt_version", prompt_version)
    if made_for != prompt_version:
        raise ModelError(
            f"the adapter {adapter.name} was trained for prompt version {made_for}, and this memlite writes "
            f"{prompt_version}: install the adapter's version of memlite, or train it anew"
        )
    return about


def _entries() -> Iterator[Entry]:
    for path in (models.models_folder() / TABLE, Path(__file__).parent / TABLE):
        if path.is_file():
            yield from _read(path)


def _read(path: Path) -> list[Entry]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{path} cannot be read as TOML: {error}") from error
    shown = table.get("extractor", [])
    if not isinstance(shown, list) or set(table) - {"extractor"}:
        raise InvalidInputError(f"{path}: expected entries under [[extractor]], found {', '.join(table) or 'nothing'}")
    return [_entry(each, path) for each in shown]


def _entry(shown: Any, path: Path) -> Entry:
    if not isinstance(shown, dict) or set(shown) - set(_KEYS):
        found = ", ".join(sorted(set(shown) - set(_KEYS))) if isinstance(shown, dict) else repr(shown)
        raise InvalidInputError(f"{path}: an entry has {', '.join(_KEYS)}, and here is {found}")
    for key, value in shown.items():
        if not isinstance(value, _KEYS[key]) or isinstance(value, bool):  # type: ignore[arg-type]
            raise InvalidInputError(f"{path}: {key} = {value!r} is of the wrong type")
    form = next((form for form in FORMS if form == shown.get("form")), None)
    if form is None:
        raise InvalidInputError(f"{path}: form = {shown.get('form')!r}, expected one of {', '.join(FORMS)}")
    adapter = path.parent / shown["adapter"] if "adapter" in shown else None
    return Entry(form, shown.get("file", "*"), float(shown.get("below", "inf")), adapter)
