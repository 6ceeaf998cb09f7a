"""A reranker that is one GGUF file, run by llama.cpp."""

from __future__ import annotations

from collections.abc import Sequence

from memlite import rank
from memlite.embed import GGUFModel


class GGUFReranker(GGUFModel):
    """A reranker of the BERT or XLM-RoBERTa family as a GGUF file (bge-reranker-v2-m3, say), run by llama.cpp.

    One that wants a prompt (Qwen3-Reranker) or segments (MS MARCO's MiniLM, whose folder sentence-transformers runs) is
    refused when it is loaded.
    """

    ranks = True

    @property
    def name(self) -> str:
        return self.path.stem

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """How well each text answers the query, in [0, 1]. Raises ModelError where the file is no such reranker."""
        with self._lock:
            return [rank.probability(logit) for logit in self._loaded().compare(query, texts)]
