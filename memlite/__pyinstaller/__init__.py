"""What PyInstaller asks of an installed package: the folder with its hook."""

from __future__ import annotations

from pathlib import Path


def hook_folders() -> list[str]:
    """The folder whose `hook-memlite.py` says what a bundled application needs of memlite."""
    return [str(Path(__file__).parent)]
