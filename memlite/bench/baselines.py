"""What memlite's search is measured beside: the formulas of others over the same turns and the same vectors.

Each is written anew from what its authors published, indexes a haystack's turns once and uses nothing of memlite's
store. Some rank turns; others hand out whole passages, of which "ten hits" says nothing.
"""

from __future__ import annotations

import heapq
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import apsw

from memlite.bench.figures import LEVELS, held
from memlite.bench.retrieval import Found, Search, ask, cached, tokens
from memlite.bench.sets import Collected, Haystack, Question, Turn
from memlite.db import load_sqlite_vec
from memlite.embed import normalise, pack
from memlite.records import Embedder
from memlite.words import STOP_WORDS, read_query

CHUNKS = (128, 256, 512, 1024, 2048, 4096, 8192)  # tokens
READ = (1, 2)  # chunks


def beside(
    collected: Collected, cache: Path | None, tell: Callable[[str], None]
) -> tuple[dict[str, list[Found]], list[dict[str, Any]]]:
    """What each baseline that ranks turns finds, and a report a level of each that hands out passages.

    cache: the file of vectors that memlite's own run has filled; None: by words alone.
    """
    ranked, reports = {}, []
    with closing(cached(cache)) if cache else nullcontext() as embedder:
        for name, search in rankings(collected.haystacks, embedder).items():
            ranked[name] = ask(collected, search, embedder, tell)
        for name, (search, count) in passages(collected.haystacks, embedder).items():
            tell(name)
            answers = [search(question, count) for question in collected.questions]
            reports += [{"system": name, **report(collected, answers, level)} for level in LEVELS]
    return ranked, reports


def rankings(haystacks: Sequence[Haystack], embedder: Embedder | None) -> dict[str, Search]:
    """The baselines that rank turns; without an embedder those that need none."""
    found = {"plain FTS5": plain_fts5(haystacks)}
    if embedder is not None:
        found |= {"dense": dense(haystacks, embedder), "mem0's formula": mem0(haystacks, embedder)}
    return found


def passages(haystacks: Sequence[Haystack], embedder: Embedder | None) -> dict[str, tuple[Search, int]]:
    """The baselines that hand out passages, each with how many of them a question gets."""
    found: dict[str, tuple[Search, int]] = {}
    if embedder is not None:
        for size in CHUNKS:
            search = chunk_rag(haystacks, embedder, size)
            found |= {f"chunk RAG {size}, k={count}": (search, count) for count in READ}
    return found | {"full context": (full_context(haystacks), 1)}


def report(collected: Collected, answers: Sequence[Found], level: str) -> dict[str, Any]:
    """One JSON object: how much of the evidence is in everything that was returned, and its tokens, the mean."""
    asked = [(found, right) for found, right in (each.ids(level) for each in answers) if right]
    return {
        "set": collected.name,
        "level": level,
        "n": len(asked),
        **({name: round(share, 4) for name, share in held(asked).items()} if asked else {}),
        "tokens": round(statistics.mean(each.tokens for each in answers)) if answers else None,
    }


# Those that rank turns


def plain_fts5(haystacks: Sequence[Haystack]) -> Search:
    """The control: one FTS5 table a haystack, porter, memlite's stop words, OR, order by rank."""
    tables: dict[str, tuple[apsw.Connection, Sequence[Turn]]] = {}
    for haystack in haystacks:
        table = apsw.Connection(":memory:")
        table.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize='porter unicode61')")
        table.executemany("INSERT INTO t(x) VALUES (?)", [(_spoken(turn),) for turn in haystack.turns])
        tables[haystack.id] = table, haystack.turns

    def search(question: Question, limit: int) -> Found:
        table, turns = tables[question.haystack]
        query = " OR ".join(read_query(question.text).terms)
        if not query:
            return Found(question, returned=False)
        rows = table.execute("SELECT rowid - 1 FROM t WHERE t MATCH ? ORDER BY rank LIMIT ?", (query, limit))
        return _found(question, [turns[int(str(row))] for (row,) in rows])

    return search


def dense(haystacks: Sequence[Haystack], embedder: Embedder) -> Search:
    """The turns by the cosine of their vectors to the question's, and nothing else."""
    indexes = {each.id: (Vectors(_embedded(each.turns, embedder)), each.turns) for each in haystacks}

    def search(question: Question, limit: int) -> Found:
        vectors, turns = indexes[question.haystack]
        (asked,) = embedder.embed([question.text])
        return _found(question, [turns[row] for row, _ in vectors.nearest(asked, limit)])

    return search


_MEM0_FLOOR = 0.1  # cosine
_MEM0_SIGMOIDS = ((3, 5.0, 0.7), (6, 7.0, 0.6), (9, 9.0, 0.5), (15, 10.0, 0.5), (math.inf, 12.0, 0.5))


def mem0(haystacks: Sequence[Haystack], embedder: Embedder) -> Search:
    """mem0's published ranking: the nearest turns gate, BM25 only re-scores them.

    Of the max(4 * limit, 60) nearest turns those with cosine >= 0.1 are ranked by

        cosine + 1 / (1 + exp(-steepness * (bm25 - midpoint)))

    where the second part is 0 for a turn that is not among as many best by BM25. The question's words, without stop
    words, choose (midpoint, steepness): up to 3 (5, 0.7), 6 (7, 0.6), 9 (9, 0.5), 15 (10, 0.5), more (12, 0.5). mem0
    divides the sum by 2, which changes no rank. Source: mem0ai/mem0, `_search_vector_store` in mem0/memory/main.py and
    mem0/utils/scoring.py; the BM25 of its default store is explained at `Words`.

    Three parts differ. Words are FTS5's porter stems and memlite's stop words instead of spaCy's lemmas and a Snowball
    stemmer. The boost for entities is left out: it needs spaCy, and for facts extracted word for word it brought mem0
    2.2.1 0.3 points of any@10 on LoCoMo. Recency is off, as it is there.
    """
    indexes = {
        each.id: (Vectors(_embedded(each.turns, embedder)), Words(map(_spoken, each.turns)), each.turns)
        for each in haystacks
    }

    def search(question: Question, limit: int) -> Found:
        vectors, words, turns = indexes[question.haystack]
        (asked,) = embedder.embed([question.text])
        pool = max(4 * limit, 60)
        terms = words.terms(question.text)
        midpoint, steepness = next(curve for most, *curve in _MEM0_SIGMOIDS if len(terms) <= most)
        said = {row: 1 / (1 + math.exp(-steepness * (bm25 - midpoint))) for row, bm25 in words.best(terms, pool)}
        scores = {
            row: similarity + said.get(row, 0.0)
            for row, similarity in vectors.nearest(asked, pool)
            if similarity >= _MEM0_FLOOR
        }
        return _found(question, [turns[row] for row in sorted(scores, key=scores.__getitem__, reverse=True)[:limit]])

    return search


# Those that hand out passages


def chunk_rag(haystacks: Sequence[Haystack], embedder: Embedder, size: int) -> Search:
    """The conversation in chunks of `size` tokens, the nearest first; `limit` counts chunks.

    A chunk's vector is the mean of its turns' vectors: most chunks are longer than the embedder's window, beyond which
    a text's vector is a mean as well, and nothing is embedded that memlite did not embed. With all-MiniLM-L6-v2 on
    LoCoMo the vectors of the chunks' own texts differ most for the smallest: any 31 and 46 (k=1, 2) instead of 29 and
    41 for 128 tokens, 34 and 47 instead of 35 and 48 for 256, 39 and 52 instead of 37 and 51 for 512.
    """
    indexes: dict[str, tuple[Vectors, list[list[Turn]]]] = {}
    for haystack in haystacks:
        cut = chunks(haystack.turns, size)
        made = iter(_embedded(haystack.turns, embedder))
        indexes[haystack.id] = Vectors([_mean([next(made) for _ in chunk]) for chunk in cut]), cut

    def search(question: Question, limit: int) -> Found:
        vectors, cut = indexes[question.haystack]
        (asked,) = embedder.embed([question.text])
        return _found(question, [turn for row, _ in vectors.nearest(asked, limit) for turn in cut[row]])

    return search


def chunks(turns: Iterable[Turn], size: int) -> list[list[Turn]]:
    """Whole turns in order, as many as `size` tokens hold; a longer turn is a chunk by itself."""
    found: list[list[Turn]] = []
    room = 0
    for turn in turns:
        needed = tokens([_spoken(turn)])
        if not found or needed > room:
            found.append([])
            room = size
        found[-1].append(turn)
        room -= needed
    return found


def full_context(haystacks: Sequence[Haystack]) -> Search:
    """Everything, always: it holds whatever the haystack holds, and costs the most tokens."""
    everything = {each.id: each.turns for each in haystacks}

    def search(question: Question, limit: int) -> Found:
        return _found(question, everything[question.haystack])

    return search


# Turns, vectors, words


def _spoken(turn: Turn) -> str:
    """A turn as memlite embeds it, so that its vector is in the cache."""
    return turn.text if turn.speaker in ("user", "assistant") else f"{turn.speaker}: {turn.text}"


def _embedded(turns: Sequence[Turn], embedder: Embedder) -> list[Sequence[float]]:
    return [normalise(vector) for vector in embedder.embed([_spoken(turn) for turn in turns])]


def _mean(vectors: Sequence[Sequence[float]]) -> Sequence[float]:
    return [statistics.fmean(numbers) for numbers in zip(*vectors)]


def _found(question: Question, turns: Sequence[Turn]) -> Found:
    ids, sessions = [turn.id for turn in turns], list(dict.fromkeys(turn.session for turn in turns))
    return Found(question, ids, sessions, tokens=tokens(map(_spoken, turns)), returned=bool(turns))


class Vectors:
    """Vectors, numbered from 0, in a table in memory, searched exactly."""

    def __init__(self, vectors: Iterable[Sequence[float]]) -> None:
        self._db = apsw.Connection(":memory:")
        load_sqlite_vec(self._db)
        self._db.execute("CREATE TABLE vectors(vector BLOB NOT NULL) STRICT")
        self._db.executemany("INSERT INTO vectors VALUES (?)", [(pack(vector),) for vector in vectors])

    def nearest(self, vector: Sequence[float], limit: int) -> list[tuple[int, float]]:
        """Number and cosine of the nearest, best first; the distance to a vector of zeros is NULL."""
        rows = self._db.execute(
            """
            SELECT rowid - 1, coalesce(1 - vec_distance_cosine(vector, ?), 0) AS similarity
            FROM vectors
            ORDER BY similarity DESC, rowid
            LIMIT ?""",
            (pack(vector), limit),
        )
        return [(int(str(row)), float(str(similarity))) for row, similarity in rows]


class Words:
    """BM25 as mem0's default store computes it, over texts numbered from 0.

    A term that is `count` times in a text of `length` terms weighs

        count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / 256))

    with an average length that is not measured but 256 (k, b and avg_len in fastembed/sparse/bm25.py of
    qdrant/fastembed). The question is weighed as a text is (`_encode_bm25` in mem0/vector_stores/qdrant.py). The score
    is the sum, over the terms that both hold, of the product of both weights and Qdrant's IDF,
    ln(1 + (N - n + 0.5) / (n + 0.5)), where n of N texts hold the term.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._db = apsw.Connection(":memory:")
        self._tokenizer = self._db.fts5_tokenizer("porter", ["unicode61"])
        self._size = 0
        self._holding: dict[str, dict[int, float]] = {}  # term: weights in the texts that hold it
        for number, text in enumerate(texts):
            self._size += 1
            for term, weight in self._weights(self.terms(text)).items():
                self._holding.setdefault(term, {})[number] = weight

    def terms(self, text: str) -> list[str]:
        """The stems of a text without stop words, in order, repeated where they are."""
        raw = text.encode("utf-8", "replace")
        found = cast(list[tuple[int, int, str]], self._tokenizer(raw, apsw.FTS5_TOKENIZE_DOCUMENT, None))
        return [stem for start, end, stem in found if raw[start:end].decode().casefold() not in STOP_WORDS]

    def best(self, terms: Sequence[str], limit: int) -> list[tuple[int, float]]:
        """Number and score of the texts that share a term, best first."""
        scores: dict[int, float] = {}
        for term, asked in self._weights(terms).items():
            holding = self._holding.get(term, {})
            rarity = math.log(1 + (self._size - len(holding) + 0.5) / (len(holding) + 0.5))
            for number, weight in holding.items():
                scores[number] = scores.get(number, 0.0) + asked * weight * rarity
        return heapq.nlargest(limit, scores.items(), key=itemgetter(1))

    @staticmethod
    def _weights(terms: Sequence[str]) -> Mapping[str, float]:
        spread = 1.2 * (0.25 + 0.75 * len(terms) / 256)
        return {term: count * 2.2 / (count + spread) for term, count in Counter(terms).items()}
