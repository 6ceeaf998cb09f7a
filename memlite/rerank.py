"""Reading the best candidates once more, each beside the query: by a reranker, off unless one is given.

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

from memlite import rank
from memlite.errors import InvalidInputError, ModelError, ModelMissingError, excerpt
from memlite.records import Hit, Message, Reranker

Choice = str | Path | Reranker | None  # what a caller may name as the reranker
POOL = 50  # hits that are read again, at least
_ROUNDING = 1e-6  # of 32-bit floats


class CrossEncoder:
    """A cross-encoder of sentence-transformers from a folder, loaded by the first search. Any thread may use it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise ModelMissingError(
                f"there is no {self.path}; reranker= expects the folder of a sentence-transformers cross-encoder or a "
                "GGUF file"
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
        logits = map(float, found)
        return [rank.probability(logit) if math.isfinite(logit) else logit for logit in logits]

    def _load(self) -> Any:
        try:
            from sentence_transformers import CrossEncoder as Model
            from torch.nn import Identity
        except ImportError as problem:
            raise ModelMissingError(
                f"{self.path} needs the package sentence-transformers, which cannot be imported ({problem}): "
                "pip install 'memlite[sentence-transformers]'"
            ) from problem
        try:
            # Many models name an activation that makes no probability of a logit, so none is used but a sigmoid.
            model = Model(str(self.path), device="cpu", local_files_only=True, activation_fn=Identity())
        except (OSError, ValueError) as problem:
            raise ModelError(f"{self.path} is no cross-encoder: {str(problem).splitlines()[0]}") from problem
        if model.num_labels != 1:
            raise ModelError(
                f"{self.path} gives {model.num_labels} labels, expected a cross-encoder that gives one score"
            )
        return model


def open_reranker(choice: Choice, *, n_threads: int = 1) -> Reranker | None:
    """The reranker that is meant: a path is a GGUF file or a cross-encoder's folder, unloaded.

    Raises ModelMissingError where there is none, InvalidInputError.
    """
    if isinstance(choice, (str, Path)):
        path = Path(choice).expanduser()
        if not path.is_file():
            return CrossEncoder(path)
        from memlite.rerank_gguf import GGUFReranker  # llama.cpp is slow to import, and hardly anybody gives one

        return GGUFReranker(path, n_threads=n_threads)
    if choice is None or callable(getattr(choice, "scores", None)):
        return choice
    raise InvalidInputError(
        f"reranker={excerpt(choice)}: expected a GGUF file, the folder of a cross-encoder, an object with scores() "
        "or None"
    )


def reranked(reranker: Reranker, query: str, hits: Sequence[Hit]) -> list[Hit]:
    """The hits in the order of the reranker's scores, which take the place of theirs; what scores 1, as the query's own
    text does, keeps that and stays first. Raises ModelError.
    """
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
    if odd := next((score for score in scores if not -_ROUNDING <= score <= 1 + _ROUNDING), None):
        raise ModelError(
            f"the reranker {reranker.name} gave a score of {odd:g}, expected numbers from 0 to 1: "
            "turn logits into probabilities, as 1 / (1 + exp(-logit))"
        )
    scores = [1.0 if hit.score == 1 else min(max(score, 0.0), 1.0) for hit, score in zip(hits, scores)]
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
