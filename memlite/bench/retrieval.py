"""How well search finds the evidence of questions: the sets go in through the library, and every question is asked.

Each haystack is a user of its own in one memlite file, each session a run. A fact stands for its turns.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memlite.bench.cached import Cached
from memlite.bench.sets import Collected, Haystack, Question, swapped
from memlite.embed import open_embedder
from memlite.errors import ModelMissingError
from memlite.memory import Memory
from memlite.records import Embedder

MOST = 10  # turns, and sessions, of a question that are kept
_SESSIONS_ASKED = 50  # hits from which ten different sessions are taken


@dataclass(slots=True)
class Found:
    """What one search brought, best first, and how long it took without the query's embedding.

    evidence: as of Hits; None where a system has none. returned: whether it clears the floor, so that `context` would
    return something.
    """

    question: Question
    turns: Sequence[str] = ()
    sessions: Sequence[str] = ()
    milliseconds: float = 0.0
    tokens: int = 0
    returned: bool = True
    evidence: float | None = None

    def ids(self, level: str) -> tuple[Sequence[str], frozenset[str]]:
        """What was found and what is right, at the level of turns or of sessions."""
        if level == "turn":
            return self.turns, self.question.turns
        return self.sessions, self.question.sessions


def fill(memory: Memory, haystack: Haystack, *, extract: bool, gold_facts: bool) -> None:
    """Add a haystack through the library, a session as a run; gold_facts: and the facts that the set gives.

    extract: learn facts with the extractor, two messages at a time (seconds each).
    """
    sessions: dict[str, list[dict[str, Any]]] = {}
    for turn in haystack.turns:
        who = "role" if turn.speaker in ("user", "assistant") else "name"
        sessions.setdefault(turn.session, []).append(
            {"content": turn.text, "id": turn.id, "observed_at": turn.time, who: turn.speaker}
        )
    ids: dict[str, str] = {}
    step = 2 if extract else 10_000
    for session, said in sessions.items():
        for start in range(0, len(said), step):
            batch = said[start : start + step]
            added = memory.add(batch, user_id=haystack.id, run_id=session, extract="later" if extract else "never")
            ids |= {message["id"]: id_ for message, id_ in zip(batch, added.messages, strict=True)}
    if gold_facts:
        told = [
            {"text": text, "source": [ids[turn] for turn in turns if turn in ids], "observed_at": when}
            for text, turns, when in haystack.facts
        ]
        if told:
            memory.remember(told, user_id=haystack.id)


def measure(
    collected: Collected,
    *,
    vectors: bool = True,
    extract: bool = False,
    gold_facts: bool = False,
    cache: Path | None = None,
    reranker: Path | None = None,
    rewriter: Path | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> tuple[list[Found], int]:
    """Every question asked of a fresh memlite file that holds the haystacks; and the file's size in bytes.

    vectors: with the installed embedder. cache: a file for its vectors, so that a second run takes seconds. reranker:
    the folder of a cross-encoder. rewriter: a GGUF chat model.
    Raises ModelMissingError where a model is asked for and none is installed.
    """
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "bench.db"
        embedder = cached(cache or Path(place) / "vectors.db") if vectors else None
        extractor = None if extract else False
        with Memory(
            path, embedder=embedder or False, extractor=extractor, reranker=reranker, rewriter=rewriter
        ) as memory:
            for number, haystack in enumerate(collected.haystacks, 1):
                fill(memory, haystack, extract=extract, gold_facts=gold_facts)
                tell(f"{number} of {len(collected.haystacks)} haystacks stored")
            memory.work(progress=tell)
            answers = ask(collected, through(memory), embedder, tell)
            if collected.name == "locomo":  # its questions without an answer are made, not given
                answers += ask(swapped(collected), through(memory), embedder, tell)
        return answers, path.stat().st_size


def cached(path: Path) -> Cached:
    """The installed embedder with its vectors kept in a file. Raises ModelMissingError where there is none."""
    return Cached(_embedder(), path)


def _embedder() -> Embedder:
    embedder = open_embedder()
    if embedder is None:
        raise ModelMissingError("no embedder to measure with: `memlite models pull default`, or --no-vectors")
    return embedder


def embedding_ms(collected: Collected) -> float:
    """What embedding a question costs, uncached: the median of 30, in milliseconds. Raises ModelMissingError."""
    embedder = _embedder()
    times = []
    for question in collected.questions[:31]:
        start = time.perf_counter()
        embedder.embed([question.text])
        times.append(1000 * (time.perf_counter() - start))
    return round(statistics.median(times[1:] or times or [0.0]), 2)  # the first one loads the model


Search = Callable[[Question, int], Found]


def through(memory: Memory) -> Search:
    """Search with memlite: the turns of its hits, a turn once, and the tokens of their texts."""

    def search(question: Question, limit: int) -> Found:
        turns: dict[str, None] = {}
        hits = memory.search(question.text, user_id=question.haystack, limit=limit)
        for hit in hits:
            for message in hit.sources[::-1] or (hit.record,):  # the newest says it, an earlier one whom it is about
                turns[str(getattr(message, "caller_id", ""))] = None
        return Found(
            question,
            list(turns),
            tokens=tokens(hit.text for hit in hits),
            returned=hits.evidence >= hits.floor,
            evidence=hits.evidence,
        )

    return search


def tokens(texts: Iterable[str]) -> int:
    """About how many tokens the texts are: a word counts 1.3."""
    return round(1.3 * sum(len(text.split()) for text in texts))


def ask(collected: Collected, search: Search, embedder: Embedder | None, tell: Callable[[str], None]) -> list[Found]:
    """Every question asked once. embedder: one that remembers; a question is embedded before its clock starts."""
    session_of: dict[tuple[str, str], str] = {
        (each.id, turn.id): turn.session for each in collected.haystacks for turn in each.turns
    }
    answers = []
    for number, question in enumerate(collected.questions, 1):
        if embedder is not None:
            embedder.embed([question.text])
        start = time.perf_counter()
        found = search(question, MOST)
        found.milliseconds = 1000 * (time.perf_counter() - start)
        more = search(question, _SESSIONS_ASKED).turns
        found.turns = found.turns[:MOST]
        found.sessions = list(dict.fromkeys(session_of[question.haystack, turn] for turn in more))[:MOST]
        answers.append(found)
        tell(f"{number} of {len(collected.questions)} questions")
    return answers
