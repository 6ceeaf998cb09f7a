"""How well search finds the evidence of questions: LoCoMo and LongMemEval, read as published or as JSON lines.

A haystack is one long conversation or one user's many; each is a user of its own in one memlite file, each session a
run. A question counts when the turns that hold its answer are among the first hits. A fact stands for its turns.
"""

from __future__ import annotations

import gzip
import math
import random
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from memlite.bench import read_json, read_lines
from memlite.bench.cached import Cached
from memlite.embed import open_embedder
from memlite.errors import InvalidInputError, ModelMissingError
from memlite.memory import Memory
from memlite.records import Embedder

LEVELS = ("turn", "session")
CUTS = (1, 5, 10)
_LOCOMO_TYPES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_SESSIONS_ASKED = 50  # hits from which ten different sessions are taken
_RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a haystack; time: when it was said, ISO 8601."""

    id: str
    session: str
    time: str
    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class Haystack:
    """What one question, or many, is asked of. facts: (text, ids of its turns, time), where the set gives them."""

    id: str
    turns: Sequence[Turn]
    facts: Sequence[tuple[str, Sequence[str], str]] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """turns, sessions: ids of those that hold the answer; none where the haystack does not answer it."""

    id: str
    haystack: str
    type: str
    text: str
    turns: frozenset[str]
    sessions: frozenset[str]


@dataclass(frozen=True, slots=True)
class Collected:
    """A set as it was read."""

    name: str
    haystacks: Sequence[Haystack]
    questions: Sequence[Question]


@dataclass(slots=True)
class Found:
    """What one search brought, best first, and how long it took without the query's embedding."""

    question: Question
    turns: Sequence[str] = ()
    sessions: Sequence[str] = ()
    milliseconds: float = 0.0
    tokens: int = 0
    returned: bool = True  # whether the evidence clears the floor, so that `context` would return something

    def ids(self, level: str) -> tuple[Sequence[str], frozenset[str]]:
        """What was found and what is right, at the level of turns or of sessions."""
        if level == "turn":
            return self.turns, self.question.turns
        return self.sessions, self.question.sessions


# Reading


def read_locomo(path: Path) -> Collected:
    """locomo10.json, or a folder with turns.jsonl, questions.jsonl and perhaps adversarial.jsonl and facts.jsonl."""
    if path.is_dir():
        return _locomo_lines(path)
    haystacks, questions = [], []
    for each in _published(path):
        name, talk = each["sample_id"], each["conversation"]
        numbers = sorted(int(key[8:]) for key in talk if re.fullmatch(r"session_\d+", key))
        turns, times = [], {}
        for number in numbers:
            at = datetime.strptime(talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").isoformat()
            times[number] = at
            turns += [
                Turn(said["dia_id"], str(number), at, said["speaker"], _with_caption(said, "blip_caption"))
                for said in talk[f"session_{number}"]
            ]
        facts = [
            (text, re.findall(r"D\d+:\d+", str(ids)), times[number])
            for number in numbers
            for told in each.get("observation", {}).get(f"session_{number}_observation", {}).values()
            for text, ids in told
        ]
        haystacks.append(Haystack(name, turns, facts))
        for number, asked in enumerate(each["qa"]):
            evidence = re.findall(r"D\d+:\d+", str(asked.get("evidence", "")))
            questions.append(_question(f"{name}_q{number}", name, asked["category"], asked["question"], evidence))
    return Collected("locomo", haystacks, [each for each in questions if each.turns])


def _locomo_lines(path: Path) -> Collected:
    if not (path / "turns.jsonl").is_file() or not (path / "questions.jsonl").is_file():
        raise InvalidInputError(f"{path}: expected locomo10.json, or a folder with turns.jsonl and questions.jsonl")
    turns: dict[str, list[Turn]] = {}
    for said in read_lines(path / "turns.jsonl"):
        turn = Turn(said["id"], str(said["session"]), said["time"], said["speaker"], _with_caption(said))
        turns.setdefault(said["conv"], []).append(turn)
    facts: dict[str, list[tuple[str, Sequence[str], str]]] = {}
    for told in _lines_if_any(path / "facts.jsonl"):
        facts.setdefault(told["conv"], []).append((told["fact"], told["evidence"], told["time"]))
    questions = [
        _question(asked["qid"], asked["conv"], asked.get("category", 5), asked["question"], asked["evidence"])
        for name in ("questions", "adversarial")
        for asked in _lines_if_any(path / f"{name}.jsonl")
    ]
    haystacks = [Haystack(name, said, facts.get(name, ())) for name, said in turns.items()]
    return Collected("locomo", haystacks, [each for each in questions if each.turns])


def _question(id_: str, haystack: str, category: int, text: str, evidence: Sequence[str]) -> Question:
    sessions = frozenset(turn[1:].partition(":")[0] for turn in evidence)
    return Question(id_, haystack, _LOCOMO_TYPES.get(category, str(category)), text, frozenset(evidence), sessions)


def _with_caption(said: Mapping[str, Any], key: str = "image_caption") -> str:
    return " ".join(filter(None, (said["text"], said.get(key))))


def read_longmemeval(path: Path) -> Collected:
    """The published json, or a folder with questions.jsonl and sessions.jsonl.gz.

    Of each session the user's side alone, as its authors measure retrieval. The ids of the sessions are made anew:
    theirs tell which hold the answer.
    """
    if path.is_dir():
        if not (path / "questions.jsonl").is_file() or not (path / "sessions.jsonl.gz").is_file():
            raise InvalidInputError(
                f"{path}: expected LongMemEval's json, or a folder with questions.jsonl and sessions.jsonl.gz"
            )
        packed = path / "sessions.jsonl.gz"
        with gzip.open(packed, "rt", encoding="utf-8") as file:
            sessions = {each["id"]: each["turns"] for each in (read_json(line, str(packed)) for line in file)}
        asked = _longmemeval_lines(read_lines(path / "questions.jsonl"), sessions)
    else:
        asked = _longmemeval_published(_published(path))
    haystacks, questions = [], []
    for id_, type_, text, said, evidence in asked:
        turns = [
            Turn(f"{number}:{at}", str(number), when, role, content)
            for number, (_, when, told) in enumerate(said)
            for at, (role, content) in enumerate(told)
            if role == "user" and content.strip()
        ]
        haystacks.append(Haystack(id_, turns))
        right = frozenset(str(number) for number, (session, _, _) in enumerate(said) if session in evidence)
        exact = frozenset(
            f"{number}:{at}"
            for number, (session, _, told) in enumerate(said)
            for at in evidence.get(session, ())
            if told[at][0] == "user"
        )
        questions.append(Question(id_, id_, type_, text, exact, right))
    return Collected("longmemeval", haystacks, questions)


_Said = list[tuple[str, str, list[tuple[str, str]]]]  # session id, time, turns as (role, text)


def _longmemeval_lines(
    questions: Iterable[Mapping[str, Any]], sessions: Mapping[str, Any]
) -> Iterator[tuple[str, str, str, _Said, dict[str, list[int]]]]:
    for each in questions:
        said: _Said = [(id_, when, [tuple(turn) for turn in sessions[id_]]) for id_, when in each["haystack"]]
        evidence: dict[str, list[int]] = {} if each["abstention"] else {id_: [] for id_ in each["evidence_sessions"]}
        for id_, at in [] if each["abstention"] else each["evidence_turns"]:
            evidence[id_].append(at)
        type_ = "abstention" if each["abstention"] else each["type"]
        yield each["qid"], type_, each["question"], said, evidence


def _longmemeval_published(
    questions: Iterable[Mapping[str, Any]],
) -> Iterator[tuple[str, str, str, _Said, dict[str, list[int]]]]:
    for each in questions:
        without_answer = each["question_id"].endswith("_abs")
        said: _Said = [
            (
                id_,
                datetime.strptime(re.sub(r" \(\w+\)", "", when), "%Y/%m/%d %H:%M").isoformat(),
                [(turn["role"], turn["content"]) for turn in turns],
            )
            for id_, when, turns in zip(
                each["haystack_session_ids"], each["haystack_dates"], each["haystack_sessions"], strict=True
            )
        ]
        evidence: dict[str, list[int]] = {} if without_answer else {id_: [] for id_ in each["answer_session_ids"]}
        for id_, turns in zip(each["haystack_session_ids"], each["haystack_sessions"], strict=True):
            if id_ in evidence:
                evidence[id_] += [at for at, turn in enumerate(turns) if turn.get("has_answer")]
        yield (
            each["question_id"],
            "abstention" if without_answer else each["question_type"],
            each["question"],
            said,
            evidence,
        )


def _published(path: Path) -> list[Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{path}: expected the published json or a folder of JSON lines: {error}") from error
    read = read_json(text, str(path))
    if not isinstance(read, list):
        raise InvalidInputError(f"{path}: expected the published json, a list of objects, found {text[:60]!r}")
    return read


def _lines_if_any(path: Path) -> list[dict[str, Any]]:
    return read_lines(path) if path.exists() else []


def part(collected: Collected, ids: Sequence[str]) -> Collected:
    """The set with these haystacks alone. Raises InvalidInputError."""
    known = [each.id for each in collected.haystacks]
    if unknown := [id_ for id_ in ids if id_ not in known]:
        raise InvalidInputError(f"there is no haystack {', '.join(unknown)}; there are {', '.join(known)}")
    return Collected(
        collected.name,
        [each for each in collected.haystacks if each.id in ids],
        [each for each in collected.questions if each.haystack in ids],
    )


def swapped(collected: Collected) -> Collected:
    """Every second question, asked of the next haystack about the people there: hardly one has an answer."""
    haystacks = list(collected.haystacks)
    speakers = {each.id: list(dict.fromkeys(turn.speaker for turn in each.turns)) for each in haystacks}
    following = {each.id: haystacks[(at + 1) % len(haystacks)].id for at, each in enumerate(haystacks)}
    questions = []
    for question in [each for each in collected.questions if each.type != "adversarial"][::2]:
        other = following[question.haystack]
        if other == question.haystack:
            continue
        text = question.text
        for name, instead in zip(speakers[question.haystack], speakers[other]):
            text = re.sub(rf"\b{re.escape(name)}\b", instead.replace("\\", r"\\"), text)
        questions.append(Question(question.id, other, question.type, text, frozenset(), frozenset()))
    return Collected(collected.name, haystacks, questions)


# Searching


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
        size = tokens(hit.text for hit in hits)
        return Found(question, list(turns), tokens=size, returned=hits.evidence >= hits.floor)

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
        found = search(question, max(CUTS))
        found.milliseconds = 1000 * (time.perf_counter() - start)
        more = search(question, _SESSIONS_ASKED).turns
        found.turns = found.turns[: max(CUTS)]
        found.sessions = list(dict.fromkeys(session_of[question.haystack, turn] for turn in more))[: max(CUTS)]
        answers.append(found)
        tell(f"{number} of {len(collected.questions)} questions")
    return answers


# Figures


@dataclass(frozen=True, slots=True)
class Figures:
    """The measures of some questions at one level: shares from 0 to 1, times in milliseconds."""

    n: int
    shares: Mapping[str, float] = field(default_factory=dict)
    interval: tuple[float, float] = (0.0, 0.0)  # 95 %, of any@10


def figures(answers: Sequence[Found], level: str) -> Figures:
    """any@k: one of the right ids is among the first k; frac@k: the share that is; all@k: all are. mrr: mean of
    1 / the rank of the first right one. The interval is Wilson's.
    """
    asked = [each.ids(level) for each in answers]
    asked = [(found, right) for found, right in asked if right]
    if not asked:
        return Figures(0)
    shares = {f"{name}@{k}": share for k in CUTS for name, share in held(asked, k).items()}
    first = [next((rank for rank, id_ in enumerate(found, 1) if id_ in right), 0) for found, right in asked]
    shares["mrr"] = sum(1 / rank for rank in first if rank) / len(first)
    return Figures(len(asked), shares, _wilson(shares["any@10"], len(asked)))


def held(asked: Sequence[tuple[Sequence[str], frozenset[str]]], first: int | None = None) -> dict[str, float]:
    """any, frac and all of what was found, best first, for what is right: of the `first`, or of everything found."""
    hits = [(len(right & set(found[:first])), len(right)) for found, right in asked]
    return {
        "any": sum(got > 0 for got, _ in hits) / len(hits),
        "frac": sum(got / wanted for got, wanted in hits) / len(hits),
        "all": sum(got == wanted for got, wanted in hits) / len(hits),
    }


def _wilson(share: float, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson 1927: the 95 % interval of a share of n."""
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return middle - half, middle + half


def report(collected: Collected, answers: Sequence[Found], level: str) -> dict[str, Any]:
    """One JSON object: the figures of a set at one level, also by type of question.

    return_rate, abstain_rate: of the questions with an answer those that clear the floor, of those without those that
    do not.
    """
    whole = figures(answers, level)
    times = sorted(each.milliseconds for each in answers)
    types = sorted({each.question.type for each in answers})
    by_type = {type_: figures([each for each in answers if each.question.type == type_], level) for type_ in types}
    return {
        "set": collected.name,
        "level": level,
        "n": whole.n,
        **{name: round(share, 4) for name, share in whole.shares.items()},
        "any@10_interval": [round(end, 4) for end in whole.interval],
        "return_rate": _share(each.returned for each in answers if each.question.sessions),
        "abstain_rate": _share(not each.returned for each in answers if not each.question.sessions),
        "p50_ms": round(statistics.median(times), 2) if times else None,
        "p95_ms": round(times[int(0.95 * len(times))], 2) if times else None,
        "tokens": round(statistics.mean(each.tokens for each in answers)) if answers else None,
        "types": {
            type_: {"n": each.n, **{name: round(share, 4) for name, share in each.shares.items()}}
            for type_, each in by_type.items()
            if each.n
        },
    }


def _share(held: Iterable[bool]) -> float | None:
    found = list(held)
    return round(sum(found) / len(found), 4) if found else None


def compare(one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Two runs, question by question: the difference of any@10 and all@10 with its 95 % bootstrap interval."""
    before = {each["qid"]: each for each in one if each["gold_sessions"]}
    pairs = [(before[each["qid"]], each) for each in other if each["gold_sessions"] and each["qid"] in before]
    rows = []
    for level in LEVELS:
        for name in ("any@5", "any@10", "all@10"):
            scored = [(_scored(a, level, name), _scored(b, level, name)) for a, b in pairs if a[f"gold_{level}s"]]
            if not scored:
                continue
            differences = [b - a for a, b in scored]
            rng = random.Random(1)
            means = sorted(statistics.fmean(rng.choices(differences, k=len(differences))) for _ in range(_RESAMPLES))
            rows.append(
                {
                    "level": level,
                    "measure": name,
                    "n": len(scored),
                    "before": round(statistics.fmean(a for a, _ in scored), 4),
                    "after": round(statistics.fmean(b for _, b in scored), 4),
                    "difference": round(statistics.fmean(differences), 4),
                    "interval": [round(means[_RESAMPLES // 40], 4), round(means[-_RESAMPLES // 40 - 1], 4)],
                    "won": sum(d > 0 for d in differences),
                    "lost": sum(d < 0 for d in differences),
                }
            )
    return rows


def _scored(line: Mapping[str, Any], level: str, name: str) -> float:
    kind, _, cut = name.partition("@")
    right = set(line[f"gold_{level}s"])
    got = len(right & set(line[f"{level}s"][: int(cut)]))
    return float(got > 0 if kind == "any" else got == len(right))


def outcomes(path: Path) -> list[dict[str, Any]]:
    """What `--out` wrote. Raises InvalidInputError."""
    try:
        read = _lines_if_any(path)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{path}: expected a file that `memlite bench ... --out` wrote: {error}") from error
    if not read or not all(isinstance(each, dict) and "qid" in each for each in read):
        raise InvalidInputError(f"{path}: expected a file that `memlite bench ... --out` wrote, a qid in every line")
    return read


def line(found: Found) -> dict[str, Any]:
    """One question's outcome, for `--out` and `compare`."""
    question = found.question
    return {
        "qid": question.id,
        "type": question.type,
        "question": question.text,
        "gold_turns": sorted(question.turns),
        "turns": list(found.turns),
        "gold_sessions": sorted(question.sessions),
        "sessions": list(found.sessions),
        "ms": round(found.milliseconds, 2),
    }
