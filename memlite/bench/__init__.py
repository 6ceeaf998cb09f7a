"""What `memlite bench` measures: extraction and retrieval, on data with known answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from memlite.errors import InvalidInputError


class Read(dict[str, Any]):
    """An object of a benchmark's file; asked for a key that it has not, it says which file and what it has."""

    def __init__(self, where: str, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.where = where

    def __missing__(self, key: str) -> Any:
        raise InvalidInputError(f"{self.where}: expected {key!r}, found {', '.join(map(repr, self)) or 'nothing'}")


def read_json(text: str, where: str) -> Any:
    """JSON with its objects as Read. Raises InvalidInputError."""
    try:
        return json.loads(text, object_hook=lambda values: Read(where, values))
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{where}: expected JSON: {error}") from error


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines. Raises InvalidInputError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{path} cannot be read: {error}") from error
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            where = f"{path}, line {number}"
            read = read_json(line, where)
            if not isinstance(read, dict):
                raise InvalidInputError(f"{where}: expected an object, found {line[:60]!r}")
            found.append(read)
    return found
