"""What a run of questions comes to: shares by level and type of question, and two runs beside each other."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memlite.bench import read_lines
from memlite.bench.retrieval import Found
from memlite.bench.sets import Collected
from memlite.errors import InvalidInputError

LEVELS = ("turn", "session")
CUTS = (1, 5, 10)
_RESAMPLES = 1000


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
    do not; None where there are none, or no floor. unknown_evidence: see Collected.
    """
    times = sorted(each.milliseconds for each in answers)
    by_type: dict[str, list[Found]] = {}
    for each in sorted(answers, key=lambda each: each.question.type):
        by_type.setdefault(each.question.type, []).append(each)
    return {
        "set": collected.name,
        "level": level,
        **_measures(answers, level),
        "any@10_interval": [round(end, 4) for end in figures(answers, level).interval],
        "p50_ms": round(statistics.median(times), 2) if times else None,
        "p95_ms": round(times[int(0.95 * len(times))], 2) if times else None,
        "tokens": round(statistics.mean(each.tokens for each in answers)) if answers else None,
        "unknown_evidence": collected.unknown,
        "types": {type_: _measures(found, level) for type_, found in by_type.items()},
    }


def _measures(answers: Sequence[Found], level: str) -> dict[str, Any]:
    made = figures(answers, level)
    judged = [each for each in answers if each.evidence is not None]
    return {
        "n": made.n,
        **{name: round(share, 4) for name, share in made.shares.items()},
        "return_rate": _share(each.returned for each in judged if each.question.sessions),
        "abstain_rate": _share(not each.returned for each in judged if not each.question.sessions),
    }


def _share(held: Iterable[bool]) -> float | None:
    found = list(held)
    return round(sum(found) / len(found), 4) if found else None


# Two runs


_COMPARED = ("any@1", "any@5", "any@10", "all@5", "all@10", "mrr")


def compare(one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Two runs, question by question: the difference of each measure with its 95 % bootstrap interval.

    return_rate and abstain_rate (as of `report`) have no level. Raises InvalidInputError where no question is in both.
    """
    before = {each["qid"]: each for each in one}
    pairs = [(before[each["qid"]], each) for each in other if each["qid"] in before]
    if not pairs:
        raise InvalidInputError(
            f"the two runs have no question in common: one has {one[0]['qid']!r}, the other {other[0]['qid']!r}; "
            "compare two runs of the same set"
        )
    rows = []
    for level in LEVELS:
        of_level = [(a, b) for a, b in pairs if a[f"gold_{level}s"]]
        for name in _COMPARED:
            scored = [(_scored(a, level, name), _scored(b, level, name)) for a, b in of_level]
            rows += [_compared(level, name, scored)] if scored else []
    for name, answered in (("return_rate", True), ("abstain_rate", False)):
        of_kind = [(a, b) for a, b in pairs if bool(a["gold_sessions"]) == answered]
        scored = [(float(a["returned"] == answered), float(b["returned"] == answered)) for a, b in of_kind]
        rows += [_compared(None, name, scored)] if scored else []
    return rows


def _compared(level: str | None, name: str, scored: Sequence[tuple[float, float]]) -> dict[str, Any]:
    differences = [b - a for a, b in scored]
    rng = random.Random(1)
    means = sorted(statistics.fmean(rng.choices(differences, k=len(differences))) for _ in range(_RESAMPLES))
    return {
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


def _scored(line: Mapping[str, Any], level: str, name: str) -> float:
    kind, _, cut = name.partition("@")
    right, found = set(line[f"gold_{level}s"]), line[f"{level}s"]
    if kind == "mrr":
        return next((1 / rank for rank, id_ in enumerate(found, 1) if id_ in right), 0.0)
    got = len(right & set(found[: int(cut)]))
    return float(got > 0 if kind == "any" else got == len(right))


def outcomes(path: Path) -> list[dict[str, Any]]:
    """What `--out` wrote. Raises InvalidInputError."""
    read = read_lines(path)
    if not read or not all("qid" in each for each in read):
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
        "evidence": None if found.evidence is None else round(found.evidence, 4),
        "returned": found.returned,
        "ms": round(found.milliseconds, 2),
    }
