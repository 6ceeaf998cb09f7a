"""`memlite bench`: the benchmarks on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TextIO

import click

from memlite import output
from memlite.commands import Group, answer_errors, example, progress
from memlite.errors import InvalidInputError

if TYPE_CHECKING:
    from memlite.bench.retrieval import Found
    from memlite.bench.sets import Collected


@click.group("bench", cls=Group, epilog=example("memlite bench extraction held_out.jsonl --limit 50"))
def bench() -> None:
    """Measure memlite on data with known answers."""


@bench.command("extraction", epilog=example("memlite bench extraction held_out.jsonl --limit 50"))
@click.argument("cases", metavar="PATH", type=click.Path(path_type=Path))
@click.option("--limit", type=click.IntRange(min=1), help="So many cases, spread evenly.")
@click.option("--bare", is_flag=True, help="Also the installed model without its adapter, with the general prompt.")
@click.option("--gguf", "others", multiple=True, type=click.Path(exists=True, path_type=Path), help="Also this model.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object; with several systems under their names.")
@answer_errors
def bench_extraction(cases: Path, limit: int | None, bare: bool, others: tuple[Path, ...], as_json: bool) -> None:
    """How many facts an extractor finds, how many of its facts are right, and what a turn costs.

    PATH: a folder with turns.jsonl and facts.jsonl (LoCoMo), one with labels.jsonl and dataset.*.jsonl, or a file of
    cases. Each system runs in a process of its own; memory_mb is the most that this process held.
    """
    from memlite.bench.extraction import COPIES, extraction, loaded
    from memlite.extract import GGUFExtractor, open_extractor

    used = open_extractor()
    if not isinstance(used, GGUFExtractor):
        raise InvalidInputError("there is no extractor to measure: `memlite models pull default` gets one")
    systems = {used.name: partial(loaded, used.path)}
    if bare:
        systems[f"{used.name} bare"] = partial(loaded, used.path, "general")
    for other in dict.fromkeys(others):
        systems[str(other) if other.stem in (*systems, *COPIES) else other.stem] = partial(loaded, other)
    found = extraction(cases, systems, limit=limit, tell=progress() or (lambda line: None))
    for name, each in found.items():
        if reasons := each["failures"]:
            failed = output.counted(sum(reasons.values()), "case")
            click.echo(f"{name}: no usable answer to {failed}, most often: {max(reasons, key=reasons.get)}", err=True)
    if as_json:
        first = found[used.name]
        click.echo(json.dumps(first | {"systems": {name: each for name, each in found.items() if name != used.name}}))
        return
    rows = [
        ("", *found),
        *(
            (name, *(output.figure(each[name]) for each in found.values()))
            for name in found[used.name]
            if name != "failures"
        ),
    ]
    click.echo("\n".join(output.table(rows)))


_OUT = "Write a JSON line for each question; see `memlite bench diff`."


def _retrieval_options(command: Callable[..., None]) -> Callable[..., None]:
    """What the benchmarks of search have in common."""
    options: list[Callable[[Callable[..., None]], Callable[..., None]]] = [
        click.option("--only", metavar="ID", multiple=True, help="Only this haystack; may be given again."),
        click.option("--vectors/--no-vectors", default=True, help="With the installed embedder, or by words alone."),
        click.option(
            "--extract",
            is_flag=True,
            help="Also learn facts with the extractor, seconds a turn; measured beside raw messages alone.",
        ),
        click.option(
            "--cache",
            type=click.Path(path_type=Path),
            help="Keep the vectors in this file, so that a second run takes seconds.",
        ),
        click.option(
            "--reranker",
            type=click.Path(path_type=Path),
            help="Order the best hits by this GGUF reranker, or by the cross-encoder in this folder.",
        ),
        click.option(
            "--rewriter",
            type=click.Path(path_type=Path),
            help="Add words to every question with this GGUF chat model.",
        ),
        click.option(
            "--baselines",
            is_flag=True,
            help="Also plain FTS5 and the full context; with vectors dense, mem0's formula and chunk RAG.",
        ),
        click.option(
            "--out",
            type=click.File("w", encoding="utf-8"),
            help=_OUT,
        ),
        click.option("--json", "as_json", is_flag=True, help="A JSON object for each system and level."),
        answer_errors,
    ]
    for option in reversed(options):
        command = option(command)
    return command


@bench.command("locomo", epilog=example("memlite bench locomo locomo10.json --baselines"))
@click.argument("data", metavar="PATH", type=click.Path(path_type=Path))
@click.option(
    "--gold-facts", is_flag=True, help="Also store the facts that the set gives; measured beside raw messages alone."
)
@_retrieval_options
def bench_locomo(data: Path, gold_facts: bool, **options: Any) -> None:
    """How well search finds the evidence of LoCoMo's questions.

    PATH: locomo10.json, or a folder with turns.jsonl and questions.jsonl (and adversarial.jsonl, facts.jsonl).
    """
    from memlite.bench.sets import read_locomo

    _bench_retrieval(read_locomo(data), gold_facts=gold_facts, **options)


@bench.command("longmemeval", epilog=example("memlite bench longmemeval longmemeval_s.json --cache vectors.db"))
@click.argument("data", metavar="PATH", type=click.Path(path_type=Path))
@_retrieval_options
def bench_longmemeval(data: Path, **options: Any) -> None:
    """How well search finds the sessions that answer LongMemEval's questions.

    PATH: the published json, or a folder with questions.jsonl and sessions.jsonl.gz.
    """
    from memlite.bench.sets import read_longmemeval

    _bench_retrieval(read_longmemeval(data), gold_facts=False, **options)


@bench.command("synthetic", epilog=example("memlite bench synthetic --no-vectors"))
@click.option("--vectors/--no-vectors", default=True, help="With the installed embedder, or by words alone.")
@click.option("--out", type=click.File("w", encoding="utf-8"), help=_OUT)
@click.option(
    "--json", "as_json", is_flag=True, help="A JSON object for each level; that of turns has what it gets wrong."
)
@answer_errors
def bench_synthetic(vectors: bool, out: TextIO | None, as_json: bool) -> None:
    """How well search does on texts that come with memlite; exit code 1 where a group misses its floor."""
    from memlite.bench import figures, retrieval, synthetic

    tell = progress() or (lambda line: None)
    outcomes, size = synthetic.measure(None if vectors else False, tell)
    found = synthetic.report(outcomes)
    answers = [each.found for each in outcomes]
    if out:
        _write(out, answers)
    if as_json:
        asked = synthetic.collected(answers)
        embedding = retrieval.embedding_ms(asked) if vectors else None
        for level in figures.LEVELS:
            made = {
                "system": "memlite",
                **figures.report(asked, answers, level),
                "bytes": size,
                "embedding_ms": embedding,
            }
            click.echo(json.dumps(found | made if level == "turn" else made, ensure_ascii=False))
    else:
        rows = [("", "n", *synthetic.MEASURES)]
        for name, each in {**found["groups"], "all": found}.items():
            rows.append((name, str(each["n"]), *(output.figure(each[measure]) for measure in synthetic.MEASURES)))
        click.echo("\n".join(output.table(rows)))
    if missed := synthetic.failures(found):
        raise click.ClickException("\n".join(missed))


def _bench_retrieval(
    collected: Collected,
    *,
    gold_facts: bool,
    only: tuple[str, ...],
    vectors: bool,
    extract: bool,
    cache: Path | None,
    reranker: Path | None,
    rewriter: Path | None,
    baselines: bool,
    out: TextIO | None,
    as_json: bool,
) -> None:
    from memlite.bench import figures, retrieval, sets
    from memlite.bench.baselines import beside

    tell = progress() or (lambda line: None)
    if only:
        collected = sets.part(collected, only)
    with TemporaryDirectory() as place:
        kept = cache or Path(place) / "vectors.db"  # what memlite's run embeds, the baselines find here
        models: dict[str, Any] = {"vectors": vectors, "cache": kept, "reranker": reranker, "rewriter": rewriter}
        systems, sizes = {}, {}
        systems["memlite"], sizes["memlite"] = retrieval.measure(
            collected, **models, extract=extract, gold_facts=gold_facts, tell=tell
        )
        if extract or gold_facts:
            systems[_RAW], sizes[_RAW] = retrieval.measure(collected, **models, tell=tell)
        others, passages = beside(collected, kept if vectors else None, tell) if baselines else ({}, [])
    if out:
        _write(out, systems["memlite"])
    embedding = retrieval.embedding_ms(collected) if vectors else None
    reports = [
        {
            "system": name,
            **figures.report(collected, found, level),
            "bytes": sizes.get(name),
            **({"embedding_ms": embedding} if name == "memlite" else {}),
        }
        for name, found in {**systems, **others}.items()
        for level in figures.LEVELS
    ]
    if as_json:
        click.echo("\n".join(map(json.dumps, [*reports, *passages])))
        return
    lines = [*output.retrieval_lines(reports), ""]
    if _RAW in systems:
        raw, facts = ([figures.line(each) for each in systems[name]] for name in (_RAW, "memlite"))
        lines += ["what the facts change:", *output.comparison_lines(figures.compare(raw, facts)), ""]
    click.echo("\n".join([*lines, *output.passage_lines(passages)]).rstrip())


_RAW = "raw messages alone"


def _write(out: TextIO, answers: Iterable[Found]) -> None:
    from memlite.bench.figures import line

    out.writelines(json.dumps(line(each), ensure_ascii=False) + "\n" for each in answers)


@bench.command("diff", epilog=example("memlite bench diff before.jsonl after.jsonl"))
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="A JSON object for each measure.")
@answer_errors
def bench_diff(before: Path, after: Path, as_json: bool) -> None:
    """Compare two runs of a benchmark, question by question: the files that --out wrote."""
    from memlite.bench.figures import compare, outcomes

    one, other = outcomes(before), outcomes(after)
    rows = compare(one, other)
    if alone := len({each["qid"] for each in one} ^ {each["qid"] for each in other}):
        click.echo(f"{output.counted(alone, 'question')} of one file only, left out", err=True)
    if as_json:
        click.echo("\n".join(map(json.dumps, rows)))
        return
    click.echo("\n".join(output.comparison_lines(rows)))
