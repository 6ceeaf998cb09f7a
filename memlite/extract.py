"""The extractor: one structured call to a GGUF chat model turns messages into facts and the entities they name."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from memlite import forms, worth
from memlite.answer import merged
from memlite.asking import Asking, asked, one_type, way
from memlite.chat import ChatModel
from memlite.errors import InvalidInputError
from memlite.records import Extraction, ExtractionRequest, Extractor

Choice = str | Path | Extractor | bool | None  # what a caller may name as the extractor


class GGUFExtractor:
    """An extractor that runs a GGUF chat model with llama.cpp. Any thread may use it; a fork gets its own.

    The model is loaded by the first extraction. Longer inputs than `n_ctx` holds are split. With
    `greedy_first=False` the grammar masks the whole vocabulary at every token: the same answers, only slower.
    form: how the model is asked and answers, and adapter: a LoRA adapter on it; None is what the table in forms.toml
    says of this file. recheck_below: 0 to 1; a fact of less confidence is asked for a second time, of its messages
    alone, without the window and what is known, and is unusable where the model then says nothing like it (mostly so
    where only the window names whom it is about). 0 asks once.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        n_ctx: int = 4096,
        n_threads: int = 1,
        max_answer_tokens: int = 768,
        greedy_first: bool = True,
        form: forms.Form | None = None,
        adapter: str | os.PathLike[str] | None = None,
        recheck_below: float = 0.0,
    ) -> None:
        if form is not None and form not in forms.FORMS:
            raise InvalidInputError(f"form={form!r}: expected one of {', '.join(forms.FORMS)}")
        if n_threads < 1 or max_answer_tokens < 32:
            raise InvalidInputError(
                f"n_threads={n_threads}, max_answer_tokens={max_answer_tokens}: expected at least 1 thread, 32 tokens"
            )
        self.path = Path(path)
        self.n_ctx = n_ctx
        self.n_threads = n_threads
        self.max_answer_tokens = max_answer_tokens
        self.greedy_first = greedy_first
        self.form = form
        self.adapter = None if adapter is None else Path(adapter)
        self.recheck_below = recheck_below
        self._lock = threading.Lock()
        self._way: Asking | None = None
        self._loaded: ChatModel | None = None
        self._used = 0.0  # time.monotonic() when it was needed last
        self._inherited: list[ChatModel] = []
        _extractors.add(self)

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def prompt_version(self) -> str:
        """Of the form that is used; of the general one until the model is loaded and its form known."""
        return way(self.form or "general", 0, True).version

    def extract(self, request: ExtractionRequest) -> Extraction:
        """Return the facts of the new messages; raise ExtractionError when the model gives no usable answer."""
        told = (turn for turn in request.messages if turn.number > 0 and turn.text.strip())
        if all(map(worth.acknowledges, told)):
            return Extraction(())
        with self._lock:
            loaded, asking = self._load()
            answers = [asked(asking, loaded, part, self.recheck_below) for part in asking.parts(loaded, request)]
            answer = _merged(answers)
            self._used = time.monotonic()
            if asking.heeds:
                return answer
            notes = (self._deaf(),) if request.instructions.strip() else ()
            return replace(one_type(answer), notes=notes)

    def load(self) -> None:
        """Load the model with its adapter now, which the first extraction does else. Raises ModelError."""
        with self._lock:
            self._load()

    def close(self, *, idle_seconds: float = 0.0) -> None:
        """Free the model, where it has been idle for so long. A later extraction loads it again."""
        with self._lock:
            if self._loaded is not None and time.monotonic() - self._used >= idle_seconds:
                self._loaded.close()
                self._loaded = None

    def _load(self) -> tuple[ChatModel, Asking]:
        """The model, with its adapter, and how it is asked."""
        if self._loaded is None or self._way is None:
            loaded = ChatModel(self.path, self.n_ctx, self.n_threads)
            try:
                if self.form is None:
                    entry = forms.choose(self.path, loaded.parameters)
                    self.form, self.adapter = entry.form, self.adapter or entry.adapter
                self._way = way(self.form, self.max_answer_tokens, self.greedy_first)
                if self.adapter is not None:
                    forms.check_adapter(self.adapter, self.path, self._way.version)
                    loaded.adapt(self.adapter)
            except BaseException:
                loaded.close()
                raise
            self._loaded = loaded
        self._used = time.monotonic()
        return self._loaded, self._way

    def _deaf(self) -> str:
        return (
            f"{self.name} is too small to heed instructions, and learnt as without them; a larger model heeds them "
            "(`memlite models pull qwen3-1.7b`)"
        )

    def _after_fork(self) -> None:
        """In the child: a new lock, and a model of its own. The parent's is kept, for freeing it is not ours to do."""
        self._lock = threading.Lock()
        if self._loaded is not None:
            self._inherited.append(self._loaded)
            self._loaded = None


_extractors: weakref.WeakSet[GGUFExtractor] = weakref.WeakSet()


def _after_fork() -> None:
    for extractor in list(_extractors):
        extractor._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def open_extractor(choice: Choice = None, *, n_threads: int = 1) -> Extractor | None:
    """The extractor that is meant: None finds an installed one, False is none, a path is a GGUF file."""
    if choice is False:
        return None
    if choice is None:
        from memlite.models import find

        found = find("extractor")
        return None if found is None else GGUFExtractor(found.path, n_threads=n_threads)
    if isinstance(choice, (str, Path)):
        return GGUFExtractor(choice, n_threads=n_threads)
    if isinstance(choice, bool) or not callable(getattr(choice, "extract", None)):
        raise InvalidInputError(
            f"extractor={choice!r}: expected the path of a GGUF file, an object with extract(), None or False"
        )
    return choice


def _merged(parts: Sequence[Extraction]) -> Extraction:
    """The answers of all parts as one; a fact that two of them give stands once."""
    return Extraction(
        merged(fact for part in parts for fact in part.facts),
        tuple(skipped for part in parts for skipped in part.unusable),
        sum(part.prompt_tokens for part in parts),
        sum(part.evaluated_tokens for part in parts),
        sum(part.answer_tokens for part in parts),
    )
