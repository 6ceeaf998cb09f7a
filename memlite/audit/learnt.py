"""Facts that an extractor should not have left: without a message that says them, or of text that nobody told."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import apsw

from memlite import facts, messages
from memlite.audit import reading
from memlite.audit.current import Current
from memlite.context import LONGEST_QUOTE
from memlite.records import Message
from memlite.sentences import quotes, split
from memlite.words import digest

_LEAST = 3  # word stems of an instruction by which it is recognised
_SHARE = 0.9  # of a fact's stems that stand in one sentence of the instructions
# What only instructions to a model say, and models of themselves.
_INSTRUCTS = re.compile(
    r"^(?:you are|you['’]re|act as) (?:now )?(?:a|an|the) [^.]{0,60}?\b(?:assistant|chatbot|language model|copilot)\b"
    r"|\bas an? (?:ai |large )?language model\b|^as an ai(?: assistant)?,"
    r"|^the assistant is (?:an? )?(?:helpful|(?:large |ai )?language model|ai (?:assistant|model))\b",
    re.IGNORECASE,
)
# The day with which a line of `context` ends, and what may stand before such a line since: a quotation mark, a bullet,
# a number. Each is looked for by itself: one pattern for the whole line would begin anew at every word of a long text.
_LINE_END = re.compile(
    r" \(\d{4}-\d\d-\d\d(?:, (?:true until|no longer)[^()]*)?"
    rf"(?:, before: [^\n]{{1,{LONGEST_QUOTE}}}?)?\)"
)
_LINE_BEGIN = re.compile(r"\s*(?:[>|*•·\-–—]+|\d{1,2}[.)])?[>\s*•\-–]*")


@dataclass(frozen=True, slots=True)
class Unfounded:
    """A fact that should not have been learnt, and why."""

    fact: Current
    why: str


def sourceless(db: apsw.Connection, sql: str, bindings: Sequence[object]) -> list[tuple[int, str, str]]:
    """Facts of a scope that a model wrote and no message bears out any more: (row id, id, text).

    A caller's own facts have no messages by design, those whose messages were deleted or pruned on purpose, and past
    facts are not what an answer is made of.
    """
    return list(
        db.execute(
            f"""
            SELECT f.id, f.uid, f.text FROM facts f JOIN scopes s ON s.id = f.scope_id
            WHERE {facts.CURRENT} AND f.model <> '' AND f.unsourced = 0 AND {sql} AND NOT EXISTS (
              SELECT 1 FROM sources r JOIN messages m ON m.id = r.message_id WHERE r.fact_id = f.id)
            ORDER BY f.id
            """,
            bindings,
        )
    )


def restated(
    db: apsw.Connection, current: Iterable[Current], sql: str, bindings: Sequence[object]
) -> Iterator[Unfounded]:
    """Facts learnt from instructions to a model, or from what memlite itself had recalled."""
    learnt = [fact for fact in current if fact.model and fact.sources]
    told = messages.fetch(db, sorted({id_ for fact in learnt for id_ in fact.sources}))
    instructions = _Instructions(db, sql, bindings)
    for fact in learnt:
        said = [told[id_] for id_ in sorted(fact.sources) if id_ in told]
        why = (instructions.of(fact, said) or _recalled(db, fact, said)) if said else None
        if why:
            yield Unfounded(fact, why)


class _Instructions:
    """The sentences of the system messages, by their root and the stems of their words."""

    def __init__(self, db: apsw.Connection, sql: str, bindings: Sequence[object]) -> None:
        rows = db.execute(
            f"""
            SELECT DISTINCT s.root_id, m.content FROM messages m JOIN scopes s ON s.id = m.scope_id
            WHERE m.role = 'system' AND {sql}
            """,
            bindings,
        )
        self._having: dict[tuple[int, str], set[int]] = defaultdict(set)
        self._sentences: list[tuple[str, reading.Reading]] = []
        known: dict[str, list[int]] = {}
        for root, content in rows:
            if content not in known:
                known[content] = []
                for sentence in split(content):
                    known[content].append(len(self._sentences))
                    self._sentences.append((sentence, reading.read(sentence)))
            for number in known[content]:
                for stem in self._sentences[number][1].stems:
                    self._having[root, stem].add(number)

    def of(self, fact: Current, said: Sequence[Message]) -> str | None:
        """Why a fact is one of the instructions: as no user has said it in words of his own."""
        if _INSTRUCTS.search(fact.text):
            return "it is an instruction to a model, not what anybody told"
        stems = set(fact.reading.stems) - {"user", "assis"}
        if len(stems) < _LEAST:
            return None
        counted: dict[int, int] = defaultdict(int)
        for stem in stems:
            for number in self._having.get((fact.root, stem), ()):
                counted[number] += 1
        for number, count in counted.items():
            sentence, instruction = self._sentences[number]
            if count < _SHARE * len(stems) or instruction.denies != fact.reading.denies:
                continue
            if all(message.role == "assistant" or quotes(message.content, sentence) for message in said):
                return f"it restates a system message: {sentence}"
        return None


def _recalled(db: apsw.Connection, fact: Current, said: Sequence[Message]) -> str | None:
    """Why a fact is only what memlite had recalled, wherever it was said."""
    if any(_has_recalled(db, fact, line) for line in fact.text.split("\n")):
        return "it is a line that memlite itself had written for a prompt"
    if all(_shows(db, fact, message.content) for message in said):
        return "the messages it comes from have it in lines that memlite itself had written for a prompt"
    if all(message.role == "assistant" for message in said) and _past_before(db, fact):
        return "only the assistant says it, and it repeats a fact that is past or archived"
    return None


def _shows(db: apsw.Connection, fact: Current, content: str) -> bool:
    """Whether a message has the fact in recalled lines only."""
    stems = set(fact.reading.stems)
    having = [line for line in content.split("\n") if stems <= set(reading.read(line).stems)] if "(" in content else []
    return bool(having) and all(_has_recalled(db, fact, line) for line in having)


def _has_recalled(db: apsw.Connection, fact: Current, line: str) -> bool:
    """Whether a line has what `context` wrote of a fact that is older, whatever stands before it."""
    at = 0
    for end in _LINE_END.finditer(line):
        begin = _LINE_BEGIN.match(line, at, end.start())
        if begin and begin.end() < end.start() and _known_before(db, fact, line[begin.end() : end.start()]):
            return True
        at = end.end()
    return False


def _known_before(db: apsw.Connection, fact: Current, text: str) -> bool:
    """Whether an older fact of the root, in whatever state, says or said this."""
    return _said_before(db, fact, digest(text), "1")


def _past_before(db: apsw.Connection, fact: Current) -> bool:
    """Whether it repeats an older fact of the root that was replaced or archived."""
    return _said_before(db, fact, fact.hash, f"f.recorded_to IS NULL AND NOT {facts.CURRENT}")


def _said_before(db: apsw.Connection, fact: Current, hash_: str, condition: str) -> bool:
    rows = db.execute(
        f"""
        SELECT 1 FROM scopes s CROSS JOIN facts f ON f.scope_id = s.id
        WHERE s.root_id = ? AND f.hash = ? AND f.id < ? AND {condition} LIMIT 1
        """,
        (fact.root, hash_, fact.id),
    )
    return rows.get is not None
