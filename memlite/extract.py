"""The extractor: one structured call to a GGUF chat model turns messages into facts and the entities they name."""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from memlite import compact, forms, ground, verbatim
from memlite.answer import MOST_FACTS, grammar, once, parse
from memlite.chat import ChatModel
from memlite.errors import ExtractionError, InvalidInputError, ModelError
from memlite.prompt import EXAMPLES, PROMPT_VERSION, label, render
from memlite.records import ExtractedFact, Extraction, ExtractionRequest, Extractor, ResolvedDate, Turn

Choice = str | Path | Extractor | bool | None  # what a caller may name as the extractor

MESSAGES_A_CALL = 16  # more messages than this hold more than MOST_FACTS facts
QUOTES_A_CALL = 8  # messages whose sentences a small model chooses from at once


class GGUFExtractor:
    """An extractor that runs a GGUF chat model with llama.cpp. Any thread may use it; a fork gets its own.

    The model is loaded by the first extraction. Longer inputs than `n_ctx` holds are split. With
    `greedy_first=False` the grammar masks the whole vocabulary at every token: the same answers, only slower.
    form: how the model is asked and answers, and adapter: a LoRA adapter on it; None is what the table in forms.toml
    says of this file.
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
    ) -> None:
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
        self._earliest: Turn | None = None  # where the window began that the model saw last
        self._lock = threading.Lock()
        self._loaded: ChatModel | None = None
        self._inherited: list[ChatModel] = []
        _extractors.add(self)

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def prompt_version(self) -> str:
        versions = {"quotes": verbatim.PROMPT_VERSION, "compact": compact.PROMPT_VERSION}
        return versions.get(self.form or "", PROMPT_VERSION)

    def extract(self, request: ExtractionRequest) -> Extraction:
        """Return the facts of the new messages; raise ExtractionError when the model gives no usable answer."""
        if not any(turn.number > 0 and turn.text.strip() for turn in request.messages):
            return Extraction(())
        with self._lock:
            loaded = self._load()
            if self.form == "quotes":
                parts = _split(request, loaded.n_ctx, lambda part: self._quote_tokens(loaded, part), QUOTES_A_CALL)
            elif self.form == "compact":
                request = replace(request, window=self._recent(request.window), known=compact.shown(request))
                room = compact.LONGEST_PROMPT
                parts = _split(request, room, lambda part: len(self._prompt(loaded, part)), compact.MESSAGES_A_CALL)
            else:
                room = loaded.n_ctx - self.max_answer_tokens
                parts = _split(request, room, lambda part: len(self._prompt(loaded, part)))
            return replace(_merged([self._ask(loaded, part) for part in parts]), notes=self._notes(request))

    def close(self) -> None:
        """Free the model. A later extraction loads it again."""
        with self._lock:
            if self._loaded is not None:
                self._loaded.close()
                self._loaded = None

    def _load(self) -> ChatModel:
        if self._loaded is None:
            loaded = ChatModel(self.path, self.n_ctx, self.n_threads)
            try:
                self._take_form(loaded)
            except BaseException:
                loaded.close()
                raise
            self._loaded = loaded
        return self._loaded

    def _take_form(self, loaded: ChatModel) -> None:
        """Settle how the model is asked, and put its adapter on."""
        if self.form is None:
            entry = forms.choose(self.path, loaded.parameters)
            self.form, self.adapter = entry.form, self.adapter or entry.adapter
        if self.adapter is not None:
            forms.check_adapter(self.adapter, self.path, self.prompt_version)
            loaded.adapt(self.adapter)

    def _notes(self, request: ExtractionRequest) -> tuple[str, ...]:
        """What was asked of a model that cannot heed it."""
        if not request.instructions.strip() or self.form == "general":
            return ()
        return (
            f"{self.name} is too small to heed instructions, and learnt as without them; a larger model heeds them "
            "(`memlite models pull qwen3-1.7b`)",
        )

    def _recent(self, window: Sequence[Turn]) -> tuple[Turn, ...]:
        """The newest of the window. It begins where it began last time, until too much has been said since.

        The model then still has most of it in its cache, and evaluates only what was said since.
        """
        begins = next((at for at, turn in enumerate(window) if turn == self._earliest), None)
        if begins is None or len(window) - begins > compact.MOST_EARLIER:
            begins = max(0, len(window) - compact.LEAST_EARLIER)
        recent = tuple(window[begins:])
        self._earliest = recent[0] if recent else None
        return recent

    def _ask(self, loaded: ChatModel, part: ExtractionRequest) -> Extraction:
        """One structured call. Where it fails: once more without context, with short texts, so that one fits."""
        if self.form == "quotes":
            return self._quote(loaded, part)
        if self.form == "compact":
            return self._line(loaded, part)
        try:
            return self._call(loaded, part, grammar(part, most_facts=_most_facts(part)))
        except ExtractionError:
            bare = replace(part, window=(), known=())
            return self._call(loaded, bare, grammar(bare, most_facts=len(bare.messages), most_words=30))

    def _quote(self, loaded: ChatModel, part: ExtractionRequest) -> Extraction:
        """One structured call in which the model chooses among the sentences that were said."""
        kept = verbatim.sentences(part)
        if not kept:
            return Extraction(())
        prompt = self._prompt(loaded, part)
        budget = loaded.n_ctx - len(prompt)
        answer = loaded.answer(prompt, verbatim.grammar(kept), budget, self.greedy_first, finite=True)
        read = parse(answer.text, part)
        facts = tuple(replace(fact, confidence=answer.confidence(fact.text)) for fact in read.facts)
        return Extraction(_one_type(facts), read.unusable, len(prompt), answer.evaluated, len(answer.pieces))

    def _line(self, loaded: ChatModel, part: ExtractionRequest) -> Extraction:
        """One call in which a trained model writes a line a fact."""
        prompt = self._prompt(loaded, part)
        budget = min(compact.LONGEST_ANSWER, loaded.n_ctx - len(prompt))
        answer = loaded.answer(prompt, compact.grammar(part), budget, self.greedy_first)
        read = compact.parse(answer.text, part)
        facts = tuple(replace(fact, confidence=answer.confidence(fact.text)) for fact in read.facts)
        return Extraction(_one_type(facts), read.unusable, len(prompt), answer.evaluated, len(answer.pieces))

    def _quote_tokens(self, loaded: ChatModel, part: ExtractionRequest) -> int:
        """The tokens of a prompt and of the longest answer to it, in which every sentence is quoted."""
        kept = verbatim.sentences(part)
        texts = "\n".join(f"{sentence.antecedent} {sentence.text}" for sentence in kept)
        slots = sum(60 + 20 * len(sentence.names) for sentence in kept)
        return len(self._prompt(loaded, part)) + loaded.count(texts) + slots

    def _prompt(self, loaded: ChatModel, part: ExtractionRequest) -> list[int]:
        if self.form == "compact":
            return loaded.prompt(compact.SYSTEM, (), compact.render(part))
        if self.form != "quotes":
            system, user = render(part)
            return loaded.prompt(system, EXAMPLES, user)
        # What a pronoun needs of the window is in the grammar, and a quoted fact links to no known one.
        _, user = render(replace(part, window=(), known=()))
        return loaded.prompt(verbatim.SYSTEM, verbatim.QUOTED_EXAMPLES, user)

    def _call(self, loaded: ChatModel, part: ExtractionRequest, rules: str) -> Extraction:
        prompt = self._prompt(loaded, part)
        answer = loaded.answer(prompt, rules, self.max_answer_tokens, self.greedy_first)
        read = parse(answer.text, part)
        facts = tuple(_attributed(replace(fact, confidence=answer.confidence(fact.text)), part) for fact in read.facts)
        return Extraction(facts, read.unusable, len(prompt), answer.evaluated, len(answer.pieces))

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


def _one_type(facts: Sequence[ExtractedFact]) -> tuple[ExtractedFact, ...]:
    """A name is the same thing in all facts of an answer: what it was first, for a small model wavers."""
    types: dict[str, str] = {}
    for entity in (entity for fact in facts for entity in fact.entities):
        types.setdefault(entity.name.casefold(), entity.type)
    return tuple(
        replace(fact, entities=tuple(replace(e, type=types[e.name.casefold()]) for e in fact.entities))
        for fact in facts
    )


def _merged(parts: Sequence[Extraction]) -> Extraction:
    """The answers of all parts as one; a fact that two of them give stands once."""
    facts: dict[str, ExtractedFact] = {}
    for fact in (fact for part in parts for fact in part.facts):
        key = fact.text.casefold()
        first = facts.get(key)
        facts[key] = fact if first is None else replace(first, sources=once((*first.sources, *fact.sources)))
    return Extraction(
        tuple(facts.values()),
        tuple(skipped for part in parts for skipped in part.unusable),
        sum(part.prompt_tokens for part in parts),
        sum(part.evaluated_tokens for part in parts),
        sum(part.answer_tokens for part in parts),
    )


def _attributed(fact: ExtractedFact, request: ExtractionRequest) -> ExtractedFact:
    """The fact with the sources and the speaker that its words point to: small models write better than they cite.

    A message with more of the fact's words than all cited ones is its source. The speaker is one of a source, and
    "The user" is called by name where the conversation has names. The day is one that a source speaks of: else
    it would be that of today, or of another message.
    """
    words = set(re.findall(r"\w{3,}", fact.text.casefold()))
    turns = {turn.number: turn for turn in request.messages if turn.number > 0}
    shared = {number: words & set(re.findall(r"\w{3,}", turn.text.casefold())) for number, turn in turns.items()}
    best = max(shared, key=lambda number: len(shared[number]))
    sources = tuple(number for number in fact.sources if number in turns)
    if len(shared[best]) > len(set().union(*(shared[number] for number in sources))):
        sources = (best,)
    speakers = [turns[number].speaker for number in sources]
    by = fact.by if fact.by in speakers or not speakers else speakers[0]
    text = fact.text
    if by and not any(label(turn.speaker).casefold() == "user" for turn in (*request.messages, *request.window)):
        text = re.sub(r"^(?:The user|User)(?='s |’s | )", lambda _: label(by), text)
    said = "\n".join([text, *(turns[number].text for number in sources)])
    dates = [found for number in sources for found in turns[number].dates]
    when = fact.when if fact.when and (_in_text(fact.when, said) or _in_dates(fact.when, dates)) else None
    return replace(fact, text=text, by=by, sources=sources, when=when)


def _in_text(day: str, said: str) -> bool:
    """Whether the day of the month is written there, as in "14 June" or "3.7."."""
    return re.search(rf"(?<![\d:.,])0?{int(day[8:])}(?![\d:%]|[.,]\d{{2}})", said) is not None


def _in_dates(day: str, dates: Iterable[ResolvedDate]) -> bool:
    return any(found.start <= day <= found.end for found in dates)


def _most_facts(request: ExtractionRequest) -> int:
    """How many facts the messages can hold: two a sentence. A small model fills whatever it is allowed."""
    sentences = sum(len(re.findall(r"[^.!?。！？\n]*\w[^.!?。！？\n]*", turn.text)) for turn in request.messages)
    return max(1, min(MOST_FACTS, 2 * sentences))


# Long inputs.


def _split(
    request: ExtractionRequest, room: int, tokens: Callable[[ExtractionRequest], int], most: int = MESSAGES_A_CALL
) -> list[ExtractionRequest]:
    """The request in parts of at most `room` tokens and `most` messages, within a message only when it must be.

    A message keeps its number in every part. What came before a part is its window, as far as there is room. A part
    ends where the topic changes, if it changes in its second half.
    """
    turns = [turn for turn in request.messages if turn.number > 0]
    parts: list[ExtractionRequest] = []
    before = list(request.window)
    while turns:
        part = replace(request, messages=(), window=tuple(before[-max(len(request.window), 4) :]))
        fitting = _fitting(part, turns[:most], room, tokens)
        if fitting == 0:
            part = _trimmed(replace(part, messages=(turns[0],)), room, tokens)
            if tokens(part) > room:
                turns[:1] = _halves(turns[0], room, tokens(replace(part, messages=(replace(turns[0], text="-"),))))
                continue
            fitting = 1
        if fitting < len(turns):
            fitting = _topic_end(turns, fitting)
        parts.append(replace(part, messages=tuple(turns[:fitting])))
        before += [replace(turn, number=0) for turn in turns[:fitting]]
        del turns[:fitting]
    return parts


def _topic_end(turns: Sequence[Turn], most: int) -> int:
    """How many turns to take, at most `most` and at least half of them: up to where the words change most."""

    def shared(cut: int) -> float:
        before, after = (
            {word for turn in part for word in ground.content_words(turn.text)}
            for part in (turns[max(0, cut - 2) : cut], turns[cut : cut + 2])
        )
        return len(before & after) / max(1, min(len(before), len(after)))

    return min(range(most, max(1, most // 2) - 1, -1), key=shared)


def _fitting(
    part: ExtractionRequest, turns: Sequence[Turn], room: int, tokens: Callable[[ExtractionRequest], int]
) -> int:
    """How many of the turns fit into the part."""
    low, high = 0, len(turns)
    while low < high:
        middle = (low + high + 1) // 2
        if tokens(replace(part, messages=tuple(turns[:middle]))) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def _trimmed(part: ExtractionRequest, room: int, tokens: Callable[[ExtractionRequest], int]) -> ExtractionRequest:
    """The part with as much of the newest window, then of the first known facts, as there is room for."""
    while part.window and tokens(part) > room:
        part = replace(part, window=part.window[1:])
    while part.known and tokens(part) > room:
        part = replace(part, known=part.known[:-1])
    return part


def _halves(turn: Turn, room: int, without: int) -> list[Turn]:
    """The turn as two, cut behind the sentence or the word nearest its middle."""
    text = turn.text
    if without >= room or len(text) < 2:
        raise ModelError(
            f"the prompt takes {without} tokens without any message and {room} fit: give the extractor a larger n_ctx"
        )
    middle = len(text) // 2
    ends = [found.end() for found in re.finditer(r"[.!?。！？…]['\")\]]*\s+|\n+|[。！？]", text)]
    words = [found.end() for found in re.finditer(r"\s+", text)]
    for borders in (ends, words):
        near = [border for border in borders if len(text) // 4 <= border <= len(text) - len(text) // 4]
        if near:
            middle = min(near, key=lambda border: abs(border - middle))
            break
    return [_piece(turn, text[:middle]), _piece(turn, text[middle:])]


def _piece(turn: Turn, text: str) -> Turn:
    dates = tuple(found for found in turn.dates if found.expression.casefold() in text.casefold())
    return replace(turn, text=text, dates=dates)
