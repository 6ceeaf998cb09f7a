"""Reading the best candidates once more, each beside the query: a cross-encoder, off unless one is given.

One trained on web pages may read first-person facts worse than the ranking does: measure it on data like yours with
`memlite bench ... --reranker`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from memlite.errors import InvalidInputError, ModelError, ModelMissingError
from memlite.records import Hit, Message, Reranker

Choice = str | Path | Reranker | None  # what a caller may name as the reranker
POOL = 50  # hits that are read again, at least


class CrossEncoder:
    """A cross-encoder of sentence-transformers from a folder, loaded by the first search. Any thread may use it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise ModelMissingError(
                f"there is no folder {self.path}; reranker= expects the folder of a sentence-transformers cross-encoder"
            )
        self._lock = threading.Lock()
        self._model: Any = None

    @property
    def name(self) -> str:
        return self.path.name

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """How well each text answers the query, in [0, 1]. Raises ModelMissingError without sentence-transformers."""
        with self._lock:
            if self._model is None:
                self._model = self._load()
            found = self._model.predict([(query, text) for text in texts], show_progress_bar=False)
        return [float(score) for score in found]

    def _load(self) -> Any:
        try:
            from sentence_transformers import CrossEncoder as Model
        except ImportError as problem:
            raise ModelMissingError(
                f"{self.path} needs the package sentence-transformers, which cannot be imported ({problem}): "
                "pip install 'memlite[sentence-transformers]'"
            ) from problem
        try:
            return Model(str(self.path), device="cpu", local_files_only=True)
        except (OSError, ValueError) as problem:
            raise ModelError(f"{self.path} is no cross-encoder: {str(problem).splitlines()[0]}") from problem


def open_reranker(choice: Choice) -> Reranker | None:
    """The reranker that is meant: a path is a cross-encoder's folder. Raises ModelMissingError, InvalidInputError."""
    if isinstance(choice, (str, Path)):
        return CrossEncoder(choice)
    if choice is None or callable(getattr(choice, "scores", None)):
        return choice
    raise InvalidInputError(
        f"reranker={choice!r:.80}: expected the folder of a cross-encoder, an object with scores() or None"
    )


def reranked(reranker: Reranker, query: str, hits: Sequence[Hit]) -> list[Hit]:
    """The hits in the order of the reranker's scores, which take the place of theirs. Raises ModelError."""
    if not hits:
        return []
    try:
        scores = [float(score) for score in reranker.scores(query, [_text(hit) for hit in hits])]
    except ModelError:
        raise
    except Exception as error:  # any error of foreign code
        raise ModelError(f"the reranker {reranker.name} failed with {type(error).__name__}: {error}") from error
    if len(scores) != len(hits) or not all(math.isfinite(score) for score in scores):
        raise ModelError(f"the reranker {reranker.name} gave {len(scores)} scores for {len(hits)} texts, or no numbers")
    order = sorted(range(len(hits)), key=lambda at: -scores[at])  # stable: of equals the better ranked one is first
    return [_scored(hits[at], scores[at]) for at in order]


def _scored(hit: Hit, score: float) -> Hit:
    explain = hit.explain
    return replace(hit, score=score, explain=None if explain is None else replace(explain, rerank=score))


def _text(hit: Hit) -> str:
    """What is read: of a message, under its speaker's name."""
    if isinstance(hit.record, Message):
        return f"{hit.record.name or hit.record.role}: {hit.text}"
    return hit.text
