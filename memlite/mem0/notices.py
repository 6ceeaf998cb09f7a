"""What is told to whoever calls, beside what is returned."""

from __future__ import annotations

import sys
import warnings
from types import FrameType


class Mem0Warning(UserWarning):
    """Something of mem0's that memlite leaves aside, or does otherwise; the message says what holds instead."""


def tell(what: str) -> None:
    """Warn of something, at the line outside memlite that has called it."""
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("memlite."):
        level, frame = level + 1, frame.f_back
    warnings.warn(what, Mem0Warning, stacklevel=level)
