"""How results look: the library's keys as JSON, or lines and small tables for people."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from memlite.entities import UNKNOWN
from memlite.records import (
    AddResult,
    DeletionPreview,
    Diff,
    Entity,
    Event,
    Explain,
    Fact,
    FileCheck,
    Finding,
    Fixed,
    Hit,
    Hits,
    Imported,
    Matched,
    Message,
    NamedEntity,
    Pruned,
    Receipt,
    Reextracted,
    Scope,
    Stats,
    Ttl,
    Undone,
    Why,
)

_ID = 8  # characters of an id shown to people; any unique prefix is accepted back
_IDS = 5  # of users, agents and runs named in one line; more are counted
_LINE = 300  # characters of a text in a list; `memlite show` has all of it


def as_json(value: Any) -> Any:
    """A record as plain JSON values: dataclass fields by name, a scope as its three ids, instants as ISO 8601."""
    if isinstance(value, Hit):
        shown = {"kind": value.kind, "id": value.id, "text": value.text, "score": round(value.score, 6)}
        explain = None if value.explain is None else as_json(value.explain)
        record = {k: v for k, v in as_json(value.record).items() if k not in {*shown, "content", "own", "sources"}}
        return {
            **shown,
            "explain": explain,
            **record,
            "sources": as_json(value.sources),
            "quote": value.quote and value.quote.id,
            "replaced": as_json(value.replaced),
        }
    if isinstance(value, FileCheck):
        return {"ok": value.ok, **{f.name: as_json(getattr(value, f.name)) for f in fields(value)}}
    if isinstance(value, Receipt):
        return {**{f.name: as_json(getattr(value, f.name)) for f in fields(value)}, "clean": value.clean}
    if isinstance(value, NamedEntity):
        return {"name": value.name, "type": value.type}
    if isinstance(value, Explain):
        return {f.name: _rounded(as_json(getattr(value, f.name))) for f in fields(value)}
    if is_dataclass(value) and not isinstance(value, type):
        found: dict[str, Any] = {}
        for f in fields(value):
            item = getattr(value, f.name)
            if isinstance(item, Scope):
                found |= {"user_id": item.user_id, "agent_id": item.agent_id, "run_id": item.run_id}
            else:
                found[f.name] = as_json(item)
        return found
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    return value


def dump(value: Any) -> str:
    """JSON on one line, every script readable."""
    return json.dumps(as_json(value), ensure_ascii=False)


def short(id_: str) -> str:
    """The beginning of an id that people see and type."""
    return id_[:_ID]


def fact_lines(fact: Fact) -> list[str]:
    """One fact: its id, text and, indented, what is known of it."""
    about = [f"by {fact.by}"] if fact.by else []
    if fact.event_start:
        about.append("on " + fact.event_start + (f" to {fact.event_end}" if fact.event_end != fact.event_start else ""))
    if fact.entities:
        about.append("names " + ", ".join(e.name + _type(e.type) for e in fact.entities))
    if fact.kind:
        about.append(f"kind {fact.kind}")
    if fact.metadata:
        about.append("metadata " + json.dumps(dict(fact.metadata), ensure_ascii=False))
    if fact.expires_at:
        about.append(f"until {fact.expires_at:%Y-%m-%d %H:%M}")
    if fact.archived_at:
        about.append(f"archived since {fact.archived_at.astimezone():%Y-%m-%d}")
    elif not fact.current:
        about.append(_over(fact))
    lines = [f"{short(fact.id)}  {_one_line(fact.text)}"]
    return [*lines, f"          {'; '.join(about)}"] if about else lines


def _over(fact: Fact) -> str:
    """That a fact is past, and since when."""
    ended = fact.valid_to or fact.expires_at
    return f"past since {ended:%Y-%m-%d}" if ended else "past"


def message_line(message: Message) -> str:
    """One message: its id, who said it when, and what."""
    when = message.observed_at.strftime("%Y-%m-%d %H:%M")
    return f"{short(message.id)}  {when}  {message.name or message.role}: {_one_line(message.content)}"


def added_lines(result: AddResult) -> list[str]:
    """What an add did: facts learnt, what was skipped and why, and what is still to come."""
    lines = [line for fact in result.facts for line in fact_lines(fact)]
    for skipped in result.skipped:
        existing = f" (as {short(skipped.existing)})" if skipped.existing else ""
        lines.append(f"skipped   {_one_line(skipped.text)}\n          {skipped.reason}{existing}")
    stored = f"{counted(len(result.messages), 'message')} stored, " if result.messages else ""
    learnt = counted(len(result.facts), "fact")
    lines.append(f"{result.status}: {stored}{learnt} learnt (batch {short(result.batch)})")
    if result.reason:
        lines.append(f"          {result.reason}")
    return lines


_TURN_SECONDS = 2.0  # that the default extractor takes for a turn and its answer (see the README)


def imported_lines(done: Imported) -> list[str]:
    """What an import added, what was known, how much was left out of each kind, and how to learn from it."""
    lines = [f"{'would add' if done.dry_run else 'added'}: {_kinds(done.added) or 'nothing'}"]
    lines += [f"there already: {_kinds(done.known)}"] if done.known else []
    lines += [f"left out: {count:,} x {plain(reason)}" for reason, count in done.reasons.items()]
    if done.queued:
        minutes = done.queued * _TURN_SECONDS / 60
        long = f"{minutes / 60:.0f} hours" if minutes > 100 else f"{max(1, minutes):.0f} min"
        waiting = counted(done.queued, "batch waits", "batches wait")
        lines.append(f"{waiting} to be learnt from: `memlite work` (--limit), some {long} with the default extractor")
    return lines


def _kinds(counts: Mapping[str, int]) -> str:
    """So many of each kind; the kinds are plurals."""
    one = {"batches": "batch", "entities": "entity", "earlier texts of facts": "earlier text of a fact"}
    return ", ".join(
        f"{count:,} {kind if count != 1 else one.get(kind, kind.removesuffix('s'))}" for kind, count in counts.items()
    )


def search_lines(hits: Hits) -> list[str]:
    """The hits, and where they are explained how much they look like an answer, and what `context` asks for."""
    lines = [line for hit in hits for line in hit_lines(hit)]
    if hits and hits[0].explain:
        lines.append(_evidence(hits.evidence, hits.floor))
    return lines


def hit_lines(hit: Hit) -> list[str]:
    """One hit with its score, and under it the fact that it replaced; where it is explained, why it was chosen as well,
    all that it replaced, and the messages behind it.
    """
    who = f"{hit.record.name or hit.record.role}: " if isinstance(hit.record, Message) else ""
    over = f" ({_over(hit.record)})" if isinstance(hit.record, Fact) and not hit.record.current else ""
    lines = [f"{hit.score:.3f}  {hit.kind:<7}  {short(hit.id)}  {who}{_one_line(hit.text)}{over}"]
    if hit.explain:
        lines += _explained(hit.explain, in_talk=isinstance(hit.record, Message) or bool(hit.sources))
    before, sources = (hit.replaced, hit.sources) if hit.explain else (hit.replaced[:1], ())
    lines += [f"       before: {short(fact.id)}  {_one_line(fact.text)} ({_over(fact)})" for fact in before]
    return lines + [f"       from {message_line(source)}" for source in sources]


def why_lines(why: Why) -> list[str]:
    """Why a fact or message did or did not come back, and under it what it is and how it was scored."""
    lines = [f"{why.verdict}: {plain(' '.join(why.reason.split()))}"]
    if why.text:
        lines.append(f"       {why.kind}  {short(why.id)}  {_one_line(why.text)}")
    if why.score is not None and why.explain:
        lines.append(f"       candidate {why.rank} of {why.candidates}, score {why.score:.3f}")
        lines += _explained(why.explain, in_talk=why.kind == "message")
    if why.evidence is not None and why.floor is not None:
        lines.append(f"       {_evidence(why.evidence, why.floor)}")
    if why.last and why.last_score is not None and why.last != why.id:
        apart = "; ".join(f"{name} {odds:+.2f}" for name, odds in why.apart.items())
        behind = f", in log-odds: {apart}" if apart else ""
        lines.append(f"       against the last hit, {short(why.last)} with {why.last_score:.3f}{behind}")
    return lines


def _evidence(evidence: float, floor: float) -> str:
    return f"evidence that anything answers {evidence:.2f}, floor {floor:.2f}"


def _explained(explain: Explain, *, in_talk: bool) -> list[str]:
    """What a score is made of, in words and as a sum. in_talk: something was said around it."""
    semantic = "off" if explain.semantic is None else f"{explain.semantic:.2f}"
    parts = [f"meaning {semantic}", f"words {explain.keyword:.2f}", f"names {explain.entity:.2f}"]
    if in_talk:
        around, session = (explain.parts[name][0] for name in ("around", "session"))
        parts.append(f"with what stands around {around:.2f}; session {session:.2f}")
    if explain.exact:
        parts.append(f"exact {explain.exact:.2f}")
    if "age" in explain.parts and explain.parts["age"][0]:
        parts.append(f"age {explain.parts['age'][0]:.2f}")
    if explain.words:
        parts.append("matched " + ", ".join(explain.words))
    if explain.entities:
        parts.append("about " + ", ".join(explain.entities))
    if explain.rerank is not None:
        parts.append(f"read again {explain.rerank:.2f}")
    return ["       " + "; ".join(parts), f"       {_summed(explain)}"]


def _summed(explain: Explain) -> str:
    """The score before any reranker: the values and weights of its parts, the largest first."""
    if explain.total == 1:
        return "score 1: it is the query, or stands for what is"
    odds = {name: value * weight for name, (value, weight) in explain.parts.items() if value}
    largest = sorted(odds, key=lambda name: -abs(odds[name]))
    terms = [f"{name} {explain.parts[name][0]:.2f} x {explain.parts[name][1]:.2f}" for name in largest]
    return f"score {explain.total:.3f}, log-odds {explain.bias + sum(odds.values()):.2f} = " + " + ".join(
        [f"{explain.bias:.2f}", *terms]
    )


def event_line(event: Event, *, whose: bool = False) -> str:
    """One event of the history, with the words of its fact while it has any. whose: with its scope."""
    before, after = (event.before or {}).get("text"), (event.after or {}).get("text")
    words = f"{_one_line(before)} -> {_one_line(after)}" if before and after else _one_line(event.text or "")
    by = f"by {event.actor}" if event.actor else ""
    reason = f"({event.reason})" if event.reason else ""
    line = f"{event.at.astimezone():%Y-%m-%d %H:%M:%S}  {event.action:<9}  {short(event.fact)}"
    scope = plain(str(event.scope)) if whose else ""
    return "  ".join(part for part in (line, scope, words, by, reason) if part)


def entity_line(entity: Entity) -> str:
    """One entity and how often it is mentioned."""
    also = f" (also {', '.join(entity.aliases)})" if entity.aliases else ""
    return f"{entity.facts:>5}  {entity.name}{_type(entity.type)}{also}"


def undone_lines(undone: Undone) -> list[str]:
    """What an undo did."""
    changed = (
        ("archived", undone.archived, "fact"),
        ("restored", undone.restored, "fact"),
        ("archived", undone.messages_archived, "message"),
        ("restored", undone.messages_restored, "message"),
    )
    done = ", ".join(f"{counted(len(ids), what)} {verb}" for verb, ids, what in changed if ids)
    if undone.entities:
        merged = counted(len(undone.entities), "merged entity", "merged entities")
        done += f"{', ' if done else ''}{merged} changed back"
    return [f"undone: {done or 'nothing of it is left'} (batch {short(undone.batch)})"]


def reextracted_lines(result: Reextracted) -> list[str]:
    """What a reextract changed, or how far it is."""
    if result.waiting:
        return [f"{result.extracted} extracted, {result.waiting} still waiting; until then the facts stay as they are"]
    lines = [f"+ {fact_lines(fact)[0]}" for fact in result.added]
    lines += [f"~ {fact_lines(fact)[0]}" for fact in result.changed]
    lines += [f"- {fact_lines(fact)[0]}" for fact in result.archived]
    changed = f"{len(result.added)} added, {len(result.changed)} changed, {len(result.archived)} archived"
    lines.append(f"{counted(result.extracted, 'batch', 'batches')} extracted: {changed}, {result.kept} kept")
    lines += [f"memlite undo {short(batch)}   takes it back" for batch in result.batches]
    return lines + [f"failed: {failure}" for failure in result.failures]


def diff_lines(diff: Diff) -> list[str]:
    """What counts now and did not then (+), what counted then and does not now (-)."""
    lines = [f"+ {fact_lines(fact)[0]}" for fact in diff.added]
    lines += [f"- {fact_lines(fact)[0]}" + (f" ({_over(fact)})" if fact.valid_to else "") for fact in diff.gone]
    for before, after in diff.updated:
        shown = 1 if before.text != after.text else None  # else what is known of it has changed
        lines += [f"- {line}" for line in fact_lines(before)[:shown]]
        lines += [f"+ {line}" for line in fact_lines(after)[:shown]]
    return lines


def with_sources(fact: Fact, sources: Mapping[str, Message]) -> dict[str, Any]:
    """A fact as JSON values with the messages it was learnt from, instead of their ids."""
    return {**as_json(fact), "sources": [as_json(sources[id_]) for id_ in fact.sources if id_ in sources]}


def lineage_lines(line: Sequence[Fact], sources: Mapping[str, Message]) -> list[str]:
    """A fact's forerunners and followers with what was said, the oldest first."""
    lines = []
    for fact in line:
        state = "archived" if fact.archived_at else "current" if fact.current else _over(fact)
        lines.append(f"{fact.observed_at:%Y-%m-%d}  {short(fact.id)}  {_one_line(fact.text)} ({state})")
        lines += [f"            from {message_line(sources[id_])}" for id_ in fact.sources if id_ in sources]
    return lines


def pruned_lines(pruned: Pruned) -> list[str]:
    """What was chosen and by which rule, and whether it is gone."""
    rules: dict[str, list[str]] = {}
    for rule, ids in pruned.rules.items():
        for id_ in ids:
            rules.setdefault(id_, []).append(rule)
    verb = "would delete" if pruned.receipt is None else "deleted"

    def why(id_: str) -> str:
        return ", ".join(rules.get(id_, ["its fact goes"]))

    lines = [f"{verb} {fact_lines(fact)[0]} ({why(fact.id)})" for fact in pruned.facts]
    lines += [f"{verb} {message_line(message)} ({why(message.id)})" for message in pruned.messages]
    return lines + ([] if pruned.receipt is None else receipt_lines(pruned.receipt))


def ttl_lines(rules: Sequence[Ttl]) -> list[str]:
    """Rules, one a line: of whose facts, of which kind, and for how long they count."""
    return table(
        (plain(str(rule.scope)) or "every scope", plain(f"kind {rule.kind or '(any)'}"), f"{rule.days:g}d")
        for rule in rules
    )


def finding_lines(findings: Iterable[Finding]) -> list[str]:
    """What an audit found: each finding with its id, under it what it concerns and what a fix would do."""
    lines = []
    for finding in findings:
        lines.append(f"{short(finding.id)}  {finding.kind}: {_one_line(finding.why)}")
        ids = finding.facts + finding.messages + finding.entities
        lines += [f"            {short(id_)}  {_one_line(text)}" for id_, text in zip(ids, finding.texts)]
        lines += [f"            fix: {finding.fix}"] if finding.fix else []
    return lines


def fixed_lines(fixed: Fixed) -> list[str]:
    """What a fix did, and how it is taken back."""
    lines = [f"fixed {line}" if line[0] != " " else line for line in finding_lines(fixed.findings)]
    lines += [f"left  {short(each.id)}  {each.kind}: {_one_line(each.why)}" for each in fixed.left]
    return lines + [f"`memlite undo {short(batch)}` takes it back" for batch in fixed.batches]


def preview_lines(preview: DeletionPreview) -> list[str]:
    """What a deletion would take, and what of a query chose it."""
    matched = {each.id: each for each in preview.matching.matched} if preview.matching else {}

    def line(id_: str, shown: str) -> str:
        why = f" ({_words(matched[id_])})" if id_ in matched else " (goes with it)" if matched else ""
        return f"would delete {shown}{why}"

    lines = [line(fact.id, fact_lines(fact)[0]) for fact in preview.facts]
    lines += [line(message.id, message_line(message)) for message in preview.messages]
    lines += [f"would delete the time to live {shown}" for shown in ttl_lines(preview.ttls)]
    return lines + [f"would forget {plain(id_)}" for id_ in preview.ids]


def matched_line(matched: Matched) -> str:
    """A fact or message with how many of a query's words it has."""
    return f"{short(matched.id)}  {_one_line(matched.text)} ({_words(matched)})"


def _words(matched: Matched) -> str:
    return f"{100 * matched.share:.0f} % of the words: {', '.join(map(plain, matched.words))}"


def receipt_lines(receipt: Receipt) -> list[str]:
    """What a deletion took."""
    gone = [
        counted(len(receipt.facts), "fact"),
        counted(len(receipt.messages), "message"),
        counted(receipt.versions, "earlier version"),
        counted(receipt.entities, "entity", "entities"),
    ]
    left = [f"{place.name} {place.after}" for place in receipt.checked if place.after]
    looked = f"looked at {counted(len(receipt.checked), 'place')}: " + (
        f"LEFT IN {', '.join(left)}" if left else "nothing of it is left"
    )
    ids = ", ".join(map(plain, receipt.ids)) if len(receipt.ids) <= _IDS else counted(len(receipt.ids), "id")
    forgotten = [f"forgot {ids}"] if ids else []
    return ["deleted " + ", ".join(gone), *forgotten, *([looked] if receipt.checked else []), *receipt.notes]


def stats_lines(stats: Stats) -> list[str]:
    """A file's counts as a small table."""
    rows = [
        ("file", stats.path),
        ("size", f"{stats.bytes / 1e6:.2f} MB"),
        ("facts", f"{stats.facts} current, {stats.past_facts} past"),
        ("messages", str(stats.messages)),
        ("entities", str(stats.entities)),
        ("queue", counted(len(stats.queued), "batch", "batches")),
        ("without vector", str(stats.without_vector)),
        ("embedder", stats.embedder or "none"),
        ("extractor", stats.extractor or "none"),
    ]
    lines = table(rows)
    for queued in stats.queued[:5]:
        lines.append(f"  {short(queued.batch)} tried {counted(queued.attempts, 'time')} {queued.error}".rstrip())
    return lines


def check_lines(check: FileCheck) -> list[str]:
    """A file's rows in one line, then everything that is wrong with it."""
    told = ", ".join(f"{count} {name}" for name, count in check.rows.items())
    faults = [f"{fault.place}: {fault.count} {fault.what}" for fault in check.faults]
    state = "ok" if check.ok else "DAMAGED" if check.damage else "OUT OF STEP"
    size = f"{check.bytes / 1e6:.2f} MB" + (", encrypted" if check.encrypted else "")
    return [f"{state}  {check.path}  {size}  {told}".rstrip(), *check.damage, *faults]


def table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Rows as aligned columns."""
    rows = [tuple(row) for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*rows)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def retrieval_lines(reports: Sequence[Mapping[str, Any]]) -> list[str]:
    """How well systems found their evidence, at each level: the totals, then every type of question.

    The first system's row has the name of the type, those of the others stand below it. The last two columns are the
    shares of the questions with an answer, and of those without, for which something clears the floor.
    """
    shown = {f"{name}@{k}": f"{name}@1" if k == 1 else f"@{k}" for name in ("any", "frac", "all") for k in (1, 5, 10)}
    shown["mrr"] = "mrr"
    levels: dict[str, list[Mapping[str, Any]]] = {}
    for report in reports:
        levels.setdefault(report["level"], []).append(report)
    lines = []
    if unknown := next((report["unknown_evidence"] for report in reports), 0):
        lines += [f"{counted(unknown, 'id')} of evidence left out: no turn has it", ""]
    for beside in levels.values():
        rows: list[tuple[str, ...]] = [(beside[0]["system"], "n", *shown.values(), "returned", "without an answer")]
        for type_ in ("all", *beside[0]["types"]):
            for report in beside:
                each = report if type_ == "all" else report["types"][type_]
                name = type_ if report is beside[0] else f"  {report['system']}"
                shares = [each.get(part) for part in (*shown, "return_rate")]
                shares.append(None if each["abstain_rate"] is None else 1 - each["abstain_rate"])
                rows.append((name, str(each["n"]), *map(_percent, shares)))
        lines += [*map(_cost_line, beside), *table(rows), *map(_certainty_line, beside), ""]
    return lines[:-1]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def _cost_line(report: Mapping[str, Any]) -> str:
    speed = f"p50 {report['p50_ms']} ms, p95 {report['p95_ms']} ms, {report['tokens']} tokens in ten hits"
    embedding = f", {report['embedding_ms']} ms more for the question's vector" if report.get("embedding_ms") else ""
    size = f", {report['bytes'] / 1e6:.1f} MB" if report["bytes"] else ""
    return f"{report['system']}, {report['set']}, {report['level']}s: {speed}{embedding}{size}"


def _certainty_line(report: Mapping[str, Any]) -> str:
    low, high = report["any@10_interval"]
    return f"{report['system']}: any@10 between {100 * low:.1f} and {100 * high:.1f} (95 %)"


def passage_lines(reports: Sequence[Mapping[str, Any]]) -> list[str]:
    """How much of the evidence is in what systems hand out whole, at each level."""
    shown = ("any", "frac", "all")
    lines = []
    for level in dict.fromkeys(report["level"] for report in reports):
        rows: list[tuple[str, ...]] = [(f"all that is returned, {level}s", "n", *shown, "tokens")]
        for report in reports:
            if report["level"] == level:
                shares = (f"{100 * report[part]:.1f}" if report["n"] else "-" for part in shown)
                rows.append((report["system"], str(report["n"]), *shares, str(report["tokens"])))
        lines += [*table(rows), ""]
    return lines[:-1]


def comparison_lines(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Two runs beside each other."""
    cells = [("", "n", "before", "after", "difference (95 %)", "won", "lost")]
    for row in rows:
        low, high = row["interval"]
        change = f"{100 * row['difference']:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
        shares = (f"{100 * row['before']:.1f}", f"{100 * row['after']:.1f}")
        name = f"{row['level'] or ''} {row['measure']}".strip()
        cells.append((name, str(row["n"]), *shares, change, str(row["won"]), str(row["lost"])))
    return table(cells)


def figure(value: Any) -> str:
    """A measured number as a table shows it; a dash where it was not measured."""
    return "-" if value is None else f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def counted(number: int, one: str, several: str = "") -> str:
    """ "1 fact", "2 facts"."""
    return f"{number} {one if number == 1 else several or one + 's'}"


def plain(text: str) -> str:
    """A text without control characters: a stored one must not clear the screen of who reads it."""
    return "".join("\ufffd" if unicodedata.category(ch) == "Cc" and ch not in "\n\t" else ch for ch in text)


def _type(type_: str) -> str:
    return "" if type_ == UNKNOWN else f" ({type_})"


def _rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def _one_line(text: str) -> str:
    """A text as a terminal may show it: one line, not too long, without codes that move the cursor."""
    line = plain(" ".join(text.split())[: _LINE + 1])
    return line if len(line) <= _LINE else line[:_LINE] + "…"
