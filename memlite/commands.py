"""What all commands of the command line share: how they are grouped and shown, and how errors and progress are told."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from memlite.errors import InvalidInputError, MemliteError
from memlite.memory import Memory

LEFT = 3  # exit code: what was asked for is deleted, but something of it is left in a place that the receipt names
_ALSO = {"history": "log"}  # another name that a command is called by


class Group(click.Group):
    """Commands in the order of a person's day, not of the alphabet."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, _ALSO.get(cmd_name, cmd_name))

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@dataclass(frozen=True)
class Caller:
    """Who called a command, as its context's `obj`: a person in this process, or one whom a server answers (serve.py).

    environ, folder: what options and paths are read by. opens: the memory, as `Memory` does.
    """

    environ: Mapping[str, str]
    folder: Path
    opens: Callable[..., AbstractContextManager[Memory]]


def caller(ctx: click.Context) -> Caller:
    """Whose command it is."""
    return ctx.obj if isinstance(ctx.obj, Caller) else Caller(os.environ, Path(), Memory)


class CallersOption(click.Option):
    """An option that may stand in the caller's environment instead."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        return caller(ctx).environ.get(str(self.envvar)) or None


def example(line: str) -> str:
    """The end of a help text: a line that can be pasted. \\b keeps click from filling it like a paragraph."""
    return f"\b\n{line}"


def answer_errors(function: Callable[..., None]) -> Callable[..., None]:
    """memlite's errors as messages: exit code 2 for what was asked wrongly, 1 for what could not be done."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        if kwargs.get("as_json") and kwargs.get("nl"):
            raise click.UsageError("--json and --nl exclude each other.")
        try:
            function(*args, **kwargs)
        except InvalidInputError as error:
            raise click.UsageError(str(error)) from error
        except MemliteError as error:
            raise click.ClickException(str(error)) from error

    return run


def progress() -> Callable[[str], None] | None:
    """Lines on stderr while a person watches, nothing otherwise."""
    return (lambda line: click.echo(line, err=True)) if sys.stderr.isatty() else None
