"""What all commands of the command line share: how they are grouped and shown, and how errors and progress are told."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from memlite import cipher, output
from memlite.db import is_encrypted
from memlite.errors import InvalidInputError, MemliteError
from memlite.memory import Memory
from memlite.places import default_path

DEFAULT_USER = "me"

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

    environ, folder: what options and paths are read by. opens: the memory, as `Memory` does, with the key it needs.
    """

    environ: Mapping[str, str]
    folder: Path
    opens: Callable[..., AbstractContextManager[Memory]]


def caller(ctx: click.Context) -> Caller:
    """Whose command it is."""
    return ctx.obj if isinstance(ctx.obj, Caller) else Caller(os.environ, Path(), open_here)


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


def db_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """--db, here as before the command."""
    return click.option(
        "--db", "own_db", type=click.Path(path_type=Path), help="The file, here as before the command."
    )(function)


def scope_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """--user, --agent and --run."""
    for name, text in (
        ("run", "One conversation."),
        ("agent", "Which assistant."),
        ("user", "Whose memory."),
    ):
        default = f" Without --user, --agent and --run it is the user {DEFAULT_USER!r}." if name == "user" else ""
        option = click.option(
            f"--{name}", f"{name}_id", cls=CallersOption, envvar=f"MEMLITE_{name.upper()}", help=text + default
        )
        function = option(function)
    return function


def output_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """--json and --nl; see `print_`."""
    function = click.option("--nl", is_flag=True, help="One JSON object a line.")(function)
    return click.option("--json", "as_json", is_flag=True, help="One JSON value.")(function)


def scope_of(user_id: str | None, agent_id: str | None, run_id: str | None) -> dict[str, Any]:
    """The scope that was given, or the default one."""
    if user_id is None and agent_id is None and run_id is None:
        user_id = DEFAULT_USER
    return {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}


def asked_scope(ids: Mapping[str, str | None]) -> dict[str, str | None] | None:
    """The scope that was given, None where it is only the default one."""
    return {name: value for name, value in ids.items() if value is not None} or None


def path_of(own_db: Path | None) -> Path:
    """The file of this command."""
    return own_db or click.get_current_context().find_root().params["db"] or default_path()


def whole_path(own_db: Path | None) -> Path:
    """The file as its caller means it, from the root on."""
    return (caller(click.get_current_context()).folder / path_of(own_db)).expanduser().absolute()


def existing(own_db: Path | None) -> Path:
    """The file of this command, which is there."""
    path, by = path_of(own_db), caller(click.get_current_context())
    if not (by.folder / path).exists():
        raise click.ClickException(f"{path} does not exist; `memlite add` makes it, --db names another file.")
    return by.folder / path


@contextmanager
def opened(own_db: Path | None, *, create: bool = False, **settings: Any) -> Iterator[Memory]:
    """The memory of this command. Only what writes something new may make the file."""
    by = caller(click.get_current_context())
    path = by.folder / path_of(own_db) if create else existing(own_db)
    with by.opens(path, **settings) as memory:
        yield memory


def open_here(path: Path, **settings: Any) -> Memory:
    """The memory of a file, opened by this process with the key it needs."""
    return Memory(path, key=key_of(path), **settings)


def key_of(path: Path) -> str | None:
    """The key that a person types, once for a file; None: the one in the environment, or none."""
    if str(path) == ":memory:":
        return None
    root = click.get_current_context().find_root()
    keys: dict[Path, str] = root.meta.setdefault("memlite.keys", {})
    at_terminal = sys.stdin is not None and sys.stdin.isatty()
    if root.params["ask_key"] or (at_terminal and cipher.VARIABLE not in os.environ and is_encrypted(path)):
        if path not in keys:
            keys[path] = type_key(f"Key of {path}", new=not path.exists() or not path.stat().st_size)
        return keys[path]
    return None


def type_key(prompt: str, *, new: bool) -> str:
    """What a person types without its being shown; of a new key twice."""
    key: str = click.prompt(prompt, hide_input=True, err=True, confirmation_prompt=new)
    return key


def print_(value: Any, items: Iterable[Any], lines: Callable[[], Iterable[str]], as_json: bool, nl: bool) -> None:
    """The whole value with --json, its items with --nl, lines otherwise."""
    shown: Iterable[str]
    if as_json:
        shown = [output.dump(value)]
    elif nl:
        shown = map(output.dump, items)
    else:
        shown = lines()
    try:
        for line in shown:
            click.echo(line)
        sys.stdout.flush()
    except BrokenPipeError:
        # `memlite list | head` is not an error; what is left in the buffer goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.ClickException(f"cannot write the answer: {error.strerror}") from error


def tell_notes(notes: Iterable[str]) -> None:
    """What an answer has to say beside itself, on stderr."""
    for note in notes:
        click.echo(f"note: {note}", err=True)


def typed(*names: str) -> bool:
    """Whether any of these options stands on the command line, and not only in the environment."""
    source = click.get_current_context().get_parameter_source
    return any(source(name) == click.core.ParameterSource.COMMANDLINE for name in names)
