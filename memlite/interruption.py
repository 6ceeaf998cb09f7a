"""Ctrl-C for other threads than the main one, which alone a signal reaches: long work asks whether to go on."""

from __future__ import annotations

from collections.abc import Callable


def never() -> bool:
    return False


# Whether the work of the thread that asks is to end. A server sets it (serve.py), which is stopped, or its caller gone.
wanted: Callable[[], bool] = never


def check() -> None:
    """Raise KeyboardInterrupt where the work of this thread is to end. Called before each evaluation by llama.cpp."""
    if wanted():
        raise KeyboardInterrupt
