"""Asking for more words of a question: one call of a local chat model before a search, off unless one is given.

A question seldom has the words of its answer ("Where does she work?" and "Ana is a nurse at Feedzai"). What a model
adds is searched for as well. A small one adds what misleads: measure it with `memlite bench ... --rewriter`.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from memlite.errors import InvalidInputError, ModelError, excerpt
from memlite.records import Rewriter

if TYPE_CHECKING:
    from memlite.chat import ChatModel

Choice = str | Path | Rewriter | None  # what a caller may name as the rewriter
LONGEST_QUESTION = 500  # characters of it that the model is shown
LONGEST_ANSWER = 500  # characters of what it adds that are searched for
_TOKENS = 48
_SYSTEM = "Somebody looks for a note. Write words that the note may have in it."
_EXAMPLES = (
    ("Where does Ben work?", "job company office employer hired profession"),
    ("What must Lea not eat?", "allergic allergy intolerant avoids food diet"),
    ("When did Tom move to Rome?", "moved relocated new home apartment city"),
)
_GRAMMAR = r"""
root ::= word (" " word){2,11}
word ::= [^\x00-\x40\x5b-\x60\x7b-\x7f]{2,20}
"""


class GGUFRewriter:
    """A GGUF chat model that adds words to a question, loaded by the first search. Any thread may use it."""

    def __init__(self, path: str | Path, *, n_threads: int = 1) -> None:
        self.path = Path(path)
        self.n_threads = n_threads
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._loaded: ChatModel | None = None
        self._inherited: list[ChatModel] = []

    @property
    def name(self) -> str:
        return self.path.stem

    def rewrite(self, query: str) -> str:
        """Words that what is looked for may have. Raises ModelMissingError or ModelError."""
        if self._pid != os.getpid():  # a fork's copy: the parent frees its own, and may have held the lock
            self._inherited += [self._loaded] if self._loaded else []
            self._pid, self._lock, self._loaded = os.getpid(), threading.Lock(), None
        with self._lock:
            if self._loaded is None:
                from memlite.chat import ChatModel  # here, because hardly anybody gives a rewriter

                self._loaded = ChatModel(self.path, 1024, self.n_threads)
            prompt = self._loaded.prompt(_SYSTEM, _EXAMPLES, query[:LONGEST_QUESTION])
            return self._loaded.answer(prompt, _GRAMMAR, _TOKENS, greedy_first=True).text

    def close(self) -> None:
        """Free the model. A later search loads it again."""
        with self._lock:
            if self._loaded is not None and self._pid == os.getpid():
                self._loaded.close()
                self._loaded = None


def open_rewriter(choice: Choice, *, n_threads: int = 1) -> Rewriter | None:
    """The rewriter that is meant: a path is a GGUF chat model. Raises InvalidInputError."""
    if isinstance(choice, (str, Path)):
        return GGUFRewriter(choice, n_threads=n_threads)
    if choice is None or callable(getattr(choice, "rewrite", None)):
        return choice
    raise InvalidInputError(
        f"rewriter={excerpt(choice)}: expected the path of a GGUF chat model, an object with rewrite() or None"
    )


def more_words(rewriter: Rewriter, query: str) -> str:
    """What a rewriter adds to a question, "" where it adds nothing. Raises ModelError."""
    try:
        found = rewriter.rewrite(query)
    except ModelError:
        raise
    except Exception as error:  # any error of foreign code
        raise ModelError(f"the rewriter {_name(rewriter)} failed with {type(error).__name__}: {error}") from error
    if not isinstance(found, str):
        raise ModelError(f"the rewriter {_name(rewriter)} gave a {type(found).__name__}, expected a text")
    return found[:LONGEST_ANSWER]


def _name(rewriter: Rewriter) -> str:
    return str(getattr(rewriter, "name", type(rewriter).__name__))
