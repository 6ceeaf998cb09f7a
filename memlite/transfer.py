"""`memlite export` and `memlite import`: everything out, and what other programs have kept in."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from memlite import output
from memlite.commands import (
    answer_errors,
    asked_scope,
    db_option,
    example,
    open_here,
    opened,
    output_options,
    path_of,
    print_,
    progress,
    scope_of,
    scope_options,
    tell_notes,
    typed,
)
from memlite.records import Exported, LeftOut


@click.command("export", epilog=example("memlite export memory.jsonl"))
@click.argument("target", metavar="FILE")
@click.option("--format", "format_", type=click.Choice(["jsonl", "markdown"]), default="jsonl", show_default=True)
@click.option("--vectors", is_flag=True, help="With the vectors: four times as large, and nothing to make anew.")
@click.option("--no-messages", is_flag=True, help="Markdown without the conversations.")
@scope_options
@output_options
@db_option
@answer_errors
def export(
    target: str, format_: Any, vectors: bool, no_messages: bool,
    user_id: str | None, agent_id: str | None, run_id: str | None, as_json: bool, nl: bool, own_db: Path | None,
) -> None:  # fmt: skip
    """Write the whole file, or a scope of it, to FILE (- is stdout).

    jsonl has everything and can be imported again; markdown is for reading.
    """
    asked: dict[str, Any] = asked_scope({"user_id": user_id, "agent_id": agent_id, "run_id": run_id}) or {}
    settings: dict[str, Any] = {**asked, "format": format_, "vectors": vectors, "messages": not no_messages}
    with opened(own_db, extractor=False, embedder=False) as memory:
        if target == "-":
            try:
                done = memory.export(sys.stdout.buffer, **settings)
            except BrokenPipeError:  # `memlite export - | head` is not an error
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                return
            click.echo(_wrote(done), err=True)
            return
        done = memory.export(target, **settings)
    print_(done, [done], lambda: [f"{done.path}: {_wrote(done)}"], as_json, nl)


def _wrote(done: Exported) -> str:
    several = {"batch": "batches", "entity": "entities"}
    counted = (output.counted(count, kind, several.get(kind, "")) for kind, count in done.records.items())
    return ", ".join(counted) or "nothing"


@click.command("import", epilog=example("memlite import chatgpt export.zip --user ana"))
@click.argument("words", metavar="[SOURCE] FILE", nargs=-1, required=True)
@click.option(
    "--extract",
    type=click.Choice(["now", "later", "never"]),
    default="later",
    show_default=True,
    help="When to learn facts: later leaves it to `memlite work`.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be added and what left out.")
@scope_options
@output_options
@db_option
@answer_errors
def import_(
    words: tuple[str, ...], extract: Any, dry_run: bool,
    user_id: str | None, agent_id: str | None, run_id: str | None, as_json: bool, nl: bool, own_db: Path | None,
) -> None:  # fmt: skip
    """Bring in conversations and facts of another program; the same again adds nothing.

    SOURCE: chatgpt, claude, librechat, mcp-memory, mem0 (its Qdrant folder or history.db), jsonl, text (a log), memlite
    (what `memlite export` wrote); without it what is in FILE tells. Each conversation becomes a run under its own id.
    """
    if len(words) > 2:
        raise click.UsageError("give a SOURCE and a FILE, or a FILE alone.")
    source, path = words if len(words) == 2 else ("auto", words[0])
    told = ""
    ids = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}
    if source == "auto" and Path(path).expanduser().exists():
        from memlite.imports import guess

        source, told = guess.source(Path(path).expanduser())
        click.echo(f"{source}: {told}", err=True)
    # They say whose memory something is: neither the default user nor what stands in the environment is meant.
    if source in ("memlite", "mem0") and not typed(*ids):
        whose: dict[str, Any] = {}
    else:
        whose = scope_of(**ids)

    def skipped(left: LeftOut) -> None:
        count = f" ({left.count})" if left.count > 1 else ""
        line = f"{output.plain(left.place)}: {output.plain(left.reason)}{count}"
        click.echo(f"{'skipped' if left.count else 'note'}: {line}", err=True)

    file = path_of(own_db)
    # A dry run makes no file; learning now needs the extractor.
    settings: dict[str, Any] = {} if extract == "now" else {"extractor": False, "embedder": False}
    with open_here(Path(":memory:") if dry_run and not file.exists() else file, **settings) as memory:
        try:
            done = memory.import_file(
                path, source, **whose, extract=extract, dry_run=dry_run, progress=progress(), skipped=skipped
            )
        except KeyboardInterrupt:
            raise click.ClickException(
                "interrupted. What was read so far is stored; the same import again goes on with the rest."
            ) from None
    done = replace(done, guessed=told)
    tell_notes(done.notes)
    print_(done, [done], lambda: output.imported_lines(done), as_json, nl)
    if done.reasons and not (done.added or done.known):
        raise SystemExit(1)
