"""How a hit's score is made: calibrated parts in [0, 1], a weighted mean of those that apply."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

K1, B = 1.2, 0.75  # BM25's usual constants, and FTS5's

# BM25 at which a text counts as half a perfect keyword match, and the weight of each part. Measured on
# LoCoMo conversations 1 to 5: cosine + b / (b + 8) over the union of both lanes (README, "Search").
HALF_BM25 = 8.0
SEMANTIC, KEYWORD, ENTITY, EXACT = 1.0, 1.0, 0.3, 1.0


@dataclass(frozen=True, slots=True)
class Occurrences:
    """A text's length in tokens, the average text's, and how often each query term stands in it."""

    length: int
    average: float
    counts: tuple[int, ...]


@dataclass(slots=True)
class Signals:
    """What is known of one candidate: bm25 >= 0; entity and exact in [0, 1]; semantic None: no vector."""

    semantic: float | None = None
    occurrences: Occurrences | None = None
    bm25: float = 0.0
    entity: float = 0.0
    exact: float = 0.0
    words: tuple[str, ...] = ()


def idf(rows: int, containing: int) -> float:
    """Inverse document frequency, never below 0: log(1 + (N - n + 0.5) / (n + 0.5)), as in Lucene's BM25.

    FTS5's own is 0 for a word in half of the texts, which in a store of three facts is every word.
    """
    return math.log(1.0 + max(rows - containing + 0.5, 0.0) / (containing + 0.5))


def bm25(found: Occurrences, idfs: Sequence[float]) -> float:
    """Okapi BM25 (Robertson and Zaragoza 2009, equation 3.15) of one text; >= 0, higher is better."""
    norm = K1 * (1.0 - B + B * found.length / max(found.average, 1.0))
    return sum(weight * n * (K1 + 1.0) / (n + norm) for weight, n in zip(idfs, found.counts) if n)


def keyword(signals: Signals) -> float:
    """BM25 squashed into [0, 1)."""
    return signals.bm25 / (signals.bm25 + HALF_BM25)


def entity_weight(facts: int) -> float:
    """What naming an entity is worth, in (0, 1]: the more facts mention it, the less it tells them apart."""
    return 1.0 / (1.0 + math.log(max(facts, 1)))


def total(signals: Signals, *, vectors: bool, entities: bool, exact: bool) -> float:
    """The score in [0, 1]. The flags say which parts this query and this store can have at all."""
    parts = [(KEYWORD, keyword(signals))]
    if vectors:
        parts.append((SEMANTIC, signals.semantic or 0.0))
    if entities:
        parts.append((ENTITY, signals.entity))
    if exact:
        parts.append((EXACT, signals.exact))
    return sum(weight * part for weight, part in parts) / sum(weight for weight, _ in parts)
