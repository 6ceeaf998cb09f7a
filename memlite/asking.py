"""The three ways of asking a chat model for facts: rules and JSON, sentences to choose from, or a line a fact."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from memlite import compact, coverage, ground, verbatim, worth
from memlite.answer import MOST_ENTITIES, MOST_FACTS, Sure, grammar, parse
from memlite.chat import Answer, ChatModel
from memlite.date_words import is_foreign
from memlite.errors import ExtractionError
from memlite.forms import Form
from memlite.long_input import by_topic, split
from memlite.prompt import EXAMPLES, PROMPT_VERSION, label, render
from memlite.records import ExtractedFact, Extraction, ExtractionRequest, NamedEntity, ResolvedDate, Skipped, Turn

MESSAGES_A_CALL = 16  # more messages than this hold more than MOST_FACTS facts
SURE_TYPES = ("person", "place", "organisation")  # a "product" that the model did not list is Celsius or Braille
SURE_OF_TYPE = 0.5  # probability from which a name that the model did not list is the entity it says
QUOTES_A_CALL = 8  # messages whose sentences a small model chooses from at once


class Asking(Protocol):
    """How one model is asked. heeds: whether it is large enough to follow a caller's instructions."""

    version: str
    heeds: bool

    def parts(self, chat: ChatModel, request: ExtractionRequest) -> list[ExtractionRequest]:
        """The request in parts that fit into one call each."""

    def ask(self, chat: ChatModel, part: ExtractionRequest) -> Extraction:
        """One structured call. Raises ExtractionError where there is no usable answer."""


class General:
    """Rules, examples and JSON, for a model that can follow them."""

    version = PROMPT_VERSION
    heeds = True

    def __init__(self, most_tokens: int, greedy_first: bool) -> None:
        self.most_tokens = most_tokens
        self.greedy_first = greedy_first

    def parts(self, chat: ChatModel, request: ExtractionRequest) -> list[ExtractionRequest]:
        room = chat.n_ctx - self.most_tokens
        return split(request, room, lambda part: len(self._prompt(chat, part)), MESSAGES_A_CALL)

    def ask(self, chat: ChatModel, part: ExtractionRequest) -> Extraction:
        """Where the call fails: once more without context, with short texts, so that one fits."""
        try:
            return self._call(chat, part, grammar(part, most_facts=_most_facts(part)))
        except ExtractionError:
            bare = replace(part, window=(), known=())
            return self._call(chat, bare, grammar(bare, most_facts=len(bare.messages), most_words=30))

    def _prompt(self, chat: ChatModel, part: ExtractionRequest) -> list[int]:
        system, user = render(part)
        return chat.prompt(system, EXAMPLES, user)

    def _call(self, chat: ChatModel, part: ExtractionRequest, rules: str) -> Extraction:
        prompt = self._prompt(chat, part)
        answer = chat.answer(prompt, rules, self.most_tokens, self.greedy_first)
        read = _counted(parse(answer.text, part, _sure(answer)), answer, prompt)
        return replace(read, facts=tuple(_attributed(fact, part) for fact in read.facts))


class Quotes:
    """Whole sentences that were said; the model chooses among them."""

    version = verbatim.PROMPT_VERSION
    heeds = False

    def __init__(self, greedy_first: bool) -> None:
        self.greedy_first = greedy_first

    def parts(self, chat: ChatModel, request: ExtractionRequest) -> list[ExtractionRequest]:
        return split(request, chat.n_ctx, lambda part: self._tokens(chat, part), QUOTES_A_CALL)

    def ask(self, chat: ChatModel, part: ExtractionRequest) -> Extraction:
        kept = verbatim.sentences(part)
        if not kept:
            return Extraction(())
        prompt = self._prompt(chat, part)
        budget = chat.n_ctx - len(prompt)
        answer = chat.answer(prompt, verbatim.grammar(kept), budget, self.greedy_first, finite=True)
        return _counted(parse(answer.text, part, _sure(answer)), answer, prompt)

    def _prompt(self, chat: ChatModel, part: ExtractionRequest) -> list[int]:
        # What a pronoun needs of the window is in the grammar, and a quoted fact links to no known one.
        _, user = render(replace(part, window=(), known=()))
        return chat.prompt(verbatim.SYSTEM, verbatim.QUOTED_EXAMPLES, user)

    def _tokens(self, chat: ChatModel, part: ExtractionRequest) -> int:
        """The tokens of a prompt and of the longest answer to it, in which every sentence is quoted."""
        kept = verbatim.sentences(part)
        texts = "\n".join(f"{sentence.antecedent} {sentence.text}" for sentence in kept)
        slots = sum(60 + 20 * len(sentence.names) for sentence in kept)
        return len(self._prompt(chat, part)) + chat.count(texts) + slots


class Compact:
    """A line a fact, by a model that was trained to write them."""

    version = compact.PROMPT_VERSION
    heeds = False

    def __init__(self, greedy_first: bool) -> None:
        self.greedy_first = greedy_first

    def parts(self, chat: ChatModel, request: ExtractionRequest) -> list[ExtractionRequest]:
        """A part for each message, and for each topic of a long one.

        Shown two a small model makes one fact of what two people said, and of six facts in one it writes three.
        """
        room = min(compact.LONGEST_PROMPT, chat.n_ctx - compact.LONGEST_ANSWER)
        parts: list[ExtractionRequest] = []
        before = list(request.window)
        for number, turn in enumerate(request.messages):
            window = _recent(before, request.earlier + number)
            if turn.text.strip() and not worth.acknowledges(turn):
                for piece in by_topic(turn, compact.LONGEST_MESSAGE):
                    part = replace(request, messages=(piece,), window=window, known=compact.shown(piece, request))
                    parts += split(part, room, lambda part: len(self._prompt(chat, part)), 1)
                    window = (*window, replace(piece, number=0))[-compact.MOST_EARLIER :]
            before.append(replace(turn, number=0))
        return parts

    def ask(self, chat: ChatModel, part: ExtractionRequest) -> Extraction:
        """What is said in another language than that of the training is quoted: written anew it would be garbled."""
        prompt = self._prompt(chat, part)
        if any(is_foreign(turn.text) for turn in part.messages):
            return self._named(chat, prompt, Extraction(tuple(verbatim.quoted(part)), (), len(prompt)))
        rules, budget = compact.grammar(part), compact.LONGEST_ANSWER
        nothing = compact.NOTHING, compact.NOTHING_FROM
        answer = chat.answer(prompt, rules, budget, self.greedy_first, rather=nothing, unsure=coverage.UNSURE)
        if answer.text != compact.NOTHING:
            wanted = coverage.names(part)
            answer = coverage.complete(chat, prompt, rules, budget, self.greedy_first, answer, wanted)
        read = self._named(chat, prompt, _counted(compact.parse(answer.text, part, _sure(answer)), answer, prompt))
        old = [fact for fact in read.facts if worth.repeated(fact, part)]
        return replace(
            read,
            facts=tuple(fact for fact in read.facts if fact not in old),
            unusable=(
                *read.unusable,
                *(Skipped(fact.text, "an earlier message says it, not this one") for fact in old),
            ),
        )

    def _prompt(self, chat: ChatModel, part: ExtractionRequest) -> list[int]:
        return chat.prompt(compact.SYSTEM, (), compact.render(part))

    def _named(self, chat: ChatModel, prompt: list[int], read: Extraction) -> Extraction:
        """The answer with the names that a fact has and does not list as entities, each with its likeliest type."""
        facts, evaluated, decoded = [], read.evaluated_tokens, read.answer_tokens
        for fact in read.facts:
            for name in compact.unnamed(fact):
                beginning, types = compact.naming(fact, name)
                budget = 1 + chat.count("organisation")
                kind = chat.answer([*prompt, *chat.plain(beginning)], types, budget, self.greedy_first)
                evaluated, decoded = evaluated + kind.evaluated, decoded + kind.decoded
                if kind.text in SURE_TYPES and kind.probabilities[0] >= SURE_OF_TYPE:
                    fact = replace(fact, entities=(*fact.entities, NamedEntity(name, kind.text))[:MOST_ENTITIES])
            facts.append(fact)
        return replace(read, facts=tuple(facts), evaluated_tokens=evaluated, answer_tokens=decoded)


def _recent(window: Sequence[Turn], before: int) -> tuple[Turn, ...]:
    """The newest of the window. before: how many messages the conversation has by then.

    By their number it begins at every fifth message or so, in every process alike: the model then has most of it in its
    cache, and evaluates only what was said since.
    """
    before = max(before, len(window))
    length = before
    if before > compact.LEAST_EARLIER:
        steps = compact.MOST_EARLIER - compact.LEAST_EARLIER + 1
        length = compact.LEAST_EARLIER + (before - compact.LEAST_EARLIER) % steps
    return tuple(window[max(0, len(window) - length) :])


def asked(asking: Asking, chat: ChatModel, part: ExtractionRequest, recheck_below: float) -> Extraction:
    """One answer, without the doubtful facts that a second one, from their messages alone, does not bear out."""
    answer = asking.ask(chat, part)
    doubtful = [fact for fact in answer.facts if (1.0 if fact.confidence is None else fact.confidence) < recheck_below]
    if not doubtful:
        return answer
    cited = {number for fact in doubtful for number in fact.sources}
    messages = tuple(turn for turn in part.messages if turn.number in cited) or part.messages
    again = asking.ask(chat, replace(part, messages=messages, window=(), known=()))
    told = [set(ground.content_words(fact.text)) for fact in again.facts]
    refuted = [
        fact
        for fact in doubtful
        if not any(2 * len(words & set(ground.content_words(fact.text))) > len(words) for words in told)
    ]
    reason = "its confidence is {}, and asked again the model did not say it"
    return replace(
        answer,
        facts=tuple(fact for fact in answer.facts if fact not in refuted),
        unusable=(*answer.unusable, *(Skipped(fact.text, reason.format(fact.confidence)) for fact in refuted)),
        evaluated_tokens=answer.evaluated_tokens + again.evaluated_tokens,
        answer_tokens=answer.answer_tokens + again.answer_tokens,
    )


def way(form: Form, most_tokens: int, greedy_first: bool) -> Asking:
    """The way of asking that a form stands for."""
    if form == "general":
        return General(most_tokens, greedy_first)
    return Quotes(greedy_first) if form == "quotes" else Compact(greedy_first)


def _sure(answer: Answer) -> Sure:
    """The confidence of a fact's text; that of the whole answer where it is not found as it was read: "and\\/or"."""

    def confidence(written: str) -> float | None:
        found = answer.confidence(written)
        if found is None and answer.probabilities:
            found = round(sum(answer.probabilities) / len(answer.probabilities), 4)
        return found

    return confidence


def _counted(read: Extraction, answer: Answer, prompt: Sequence[int]) -> Extraction:
    """What was read of an answer, with its cost."""
    return replace(read, prompt_tokens=len(prompt), evaluated_tokens=answer.evaluated, answer_tokens=answer.decoded)


def one_type(extraction: Extraction) -> Extraction:
    """A name is the same thing in all facts of an answer: what it was first, for a small model wavers."""
    types: dict[str, str] = {}
    for entity in (entity for fact in extraction.facts for entity in fact.entities):
        types.setdefault(entity.name.casefold(), entity.type)
    facts = tuple(
        replace(fact, entities=tuple(replace(e, type=types[e.name.casefold()]) for e in fact.entities))
        for fact in extraction.facts
    )
    return replace(extraction, facts=facts)


def _attributed(fact: ExtractedFact, request: ExtractionRequest) -> ExtractedFact:
    """The fact with the sources and the speaker that its words point to: small models write better than they cite.

    A message with more of the fact's words than all cited ones is its source. The speaker is one of a source, and
    "The user" is called by name where the conversation has names. The day is one that a source speaks of: else
    it would be that of today, or of another message.
    """
    turns = {turn.number: turn for turn in request.messages if turn.number > 0}
    words = set(re.findall(r"\w{3,}", fact.text.casefold()))
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
    sentences = sum(len(re.findall(r"\w[^.!?。！？\n]*", turn.text)) for turn in request.messages)
    return max(1, min(MOST_FACTS, 2 * sentences))
