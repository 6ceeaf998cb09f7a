"""How well an extractor does: cases with their right answers, what it made of them, and the figures.

A case is what an extractor is shown and what it should answer. Cases are read from a folder or a file:

- `turns.jsonl` and `facts.jsonl` (LoCoMo's): two messages a case; gold facts cite the turns that say them
- `dataset.*.jsonl` and `labels.jsonl` with "memories" or "entities": a text a case
- a .jsonl of cases, as `scripts/extractor/examples` writes them from skeletons
"""

from __future__ import annotations

import json
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from memlite import dates, ground, learn
from memlite.bench import read_lines
from memlite.bench.apart import Apart
from memlite.bench.made_up import made_up
from memlite.embed import open_embedder
from memlite.errors import InvalidInputError, ModelError
from memlite.extract import GGUFExtractor
from memlite.forms import Form
from memlite.records import ExtractedFact, Extraction, ExtractionRequest, Extractor, KnownFact, NamedEntity, Turn
from memlite.sentences import split

SAME_WORDS = 0.5  # token F1 from which two facts are one
SAME_MEANING = 0.75  # cosine from which they are
_WINDOW = 10  # earlier messages shown
_KNOWN = 10  # known facts shown
_RUN = 6  # cases that follow each other, with a limit
COPIES = {"copy first person": True, "copy every sentence": False}  # baselines: whether of the first person only


@dataclass(frozen=True, slots=True)
class Case:
    """What is shown, and the gold: facts (None where only entities are labelled), and entities where labelled.

    linked: whether gold facts say what they replace.
    """

    request: ExtractionRequest
    facts: tuple[ExtractedFact, ...] | None
    entities: tuple[NamedEntity, ...] | None = None
    linked: bool = False


# Reading cases


def read_cases(path: Path, limit: int | None = None) -> list[Case]:
    """The cases of a folder or file, `limit` of them: runs of neighbours, spread evenly. Raises InvalidInputError.

    Neighbours, because an extractor keeps what it has evaluated of a conversation that goes on.
    """
    if path.is_file():
        cases = [_case(each) for each in read_lines(path)]
    elif (path / "turns.jsonl").is_file() and (path / "facts.jsonl").is_file():
        cases = _conversations(read_lines(path / "turns.jsonl"), read_lines(path / "facts.jsonl"))
    elif (path / "labels.jsonl").is_file():
        cases = _labelled(path)
    else:
        raise InvalidInputError(
            f"{path}: expected a .jsonl file of cases, or a folder with turns.jsonl and facts.jsonl, or with "
            "labels.jsonl and dataset.*.jsonl"
        )
    if not cases:
        raise InvalidInputError(f"{path} holds no case")
    if limit is None or limit >= len(cases):
        return cases
    runs = -(-limit // _RUN)
    return [case for at in range(runs) for case in cases[at * len(cases) // runs :][:_RUN]][:limit]


def write_case(request: ExtractionRequest, facts: Sequence[ExtractedFact]) -> str:
    """A case as a line of JSON, from which read_cases makes it again."""

    def said(turn: Turn) -> dict[str, Any]:
        return {"role": turn.role, "name": turn.speaker, "text": turn.text, "at": turn.observed_at.isoformat()}

    return json.dumps(
        {
            "messages": [said(turn) for turn in request.messages],
            "window": [said(turn) for turn in request.window],
            "known": [fact.text for fact in request.known],
            "facts": [
                {
                    "text": fact.text,
                    "from": list(fact.sources),
                    "replaces": list(fact.replaces),
                    "continues": list(fact.continues),
                    "entities": [{"name": e.name, "type": e.type} for e in fact.entities],
                }
                for fact in facts
            ],
        },
        ensure_ascii=False,
    )


def _case(shown: Mapping[str, Any]) -> Case:
    def turn(number: int, said: Mapping[str, str]) -> Turn:
        at = datetime.fromisoformat(said["at"])
        return Turn(number, said["role"], said["name"], said["text"], at, dates.resolve(said["text"], at))

    facts = tuple(
        ExtractedFact(
            each["text"],
            sources=tuple(each["from"]),
            replaces=tuple(each["replaces"]),
            continues=tuple(each["continues"]),
            entities=tuple(NamedEntity(e["name"], e["type"]) for e in each["entities"]),
        )
        for each in shown["facts"]
    )
    request = ExtractionRequest(
        tuple(turn(number, said) for number, said in enumerate(shown["messages"], 1)),
        tuple(turn(0, said) for said in shown["window"]),
        tuple(KnownFact(number, text) for number, text in enumerate(shown["known"], 1)),
    )
    entities = tuple({(e.name, e.type): e for fact in facts for e in fact.entities}.values())
    return Case(request, facts, entities, linked=True)


def _conversations(turns: Sequence[Mapping[str, Any]], gold: Sequence[Mapping[str, Any]]) -> list[Case]:
    """Two messages a case. Known are the gold facts of earlier sessions with the most words in common."""
    sessions: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for turn in turns:
        sessions.setdefault((turn["conv"], turn["session"]), []).append(turn)
    cases = []
    for (conversation, session), said in sessions.items():
        earlier = [each["fact"] for each in gold if each["conv"] == conversation and each["session"] < session]
        for start in range(0, len(said), 2):
            pair = said[start : start + 2]
            messages = tuple(_said(number, turn, said[0]) for number, turn in enumerate(pair, 1))
            numbers = {turn["id"]: number for number, turn in enumerate(pair, 1)}
            facts = tuple(
                ExtractedFact(
                    each["fact"], each["speaker"], tuple(numbers[id_] for id_ in each["evidence"] if id_ in numbers)
                )
                for each in gold
                if each["conv"] == conversation and any(id_ in numbers for id_ in each["evidence"])
            )
            window = tuple(_said(0, turn, said[0]) for turn in said[max(0, start - _WINDOW) : start])
            known = tuple(
                KnownFact(number, text)
                for number, text in enumerate(_nearest(" ".join(turn.text for turn in messages), earlier), 1)
            )
            cases.append(Case(ExtractionRequest(messages, window, known, earlier=start), facts))
    return cases


def _said(number: int, turn: Mapping[str, Any], first: Mapping[str, Any]) -> Turn:
    at = datetime.fromisoformat(turn["time"])
    role = "user" if turn["speaker"] == first["speaker"] else "assistant"
    return Turn(number, role, turn["speaker"], turn["text"], at, dates.resolve(turn["text"], at))


def _nearest(text: str, known: Sequence[str]) -> list[str]:
    words = set(ground.content_words(text))
    shared = {fact: len(words & set(ground.content_words(fact))) for fact in known}
    return [fact for fact in sorted(shared, key=lambda fact: -shared[fact]) if shared[fact]][:_KNOWN]


def _labelled(path: Path) -> list[Case]:
    labels = {each["id"]: each for each in read_lines(path / "labels.jsonl")}
    at = datetime(2026, 1, 7, 12).astimezone()
    cases = []
    for file in sorted(path.glob("dataset.*.jsonl")):
        for each in read_lines(file):
            label = labels.get(each["id"])
            if label is None:
                continue
            turn = Turn(1, "assistant", "assistant", each["text"], at, dates.resolve(each["text"], at))
            facts = label.get("memories")
            entities = label.get("entities")
            cases.append(
                Case(
                    ExtractionRequest((turn,)),
                    None if facts is None else tuple(ExtractedFact(fact["content"], sources=(1,)) for fact in facts),
                    None if entities is None else tuple(NamedEntity(e["name"], _type(e["type"])) for e in entities),
                )
            )
    return cases


def _type(name: str) -> str:
    return {"organization": "organisation"}.get(name, name)


# What an extractor makes of them


@dataclass(slots=True)
class Answer:
    """What would be stored of a case; error: why there was no usable answer."""

    facts: Sequence[ExtractedFact] = ()
    dropped: int = 0
    error: str = ""
    seconds: float = 0.0
    extraction: Extraction = field(default_factory=lambda: Extraction(()))


def answer(extractor: Extractor, case: Case) -> Answer:
    """One case, as `Memory.add` would treat it: extracted, grounded, its unworthy facts dropped."""
    start = time.perf_counter()
    try:
        extraction = extractor.extract(case.request)
    except ModelError as error:
        return Answer(error=str(error), seconds=time.perf_counter() - start)
    seconds = time.perf_counter() - start
    kept, dropped = learn.accepted(extraction, case.request)
    known = {fact.text for fact in case.request.known}
    stored = [fact for fact in kept if fact.text not in known]
    return Answer(stored, len(dropped) + len(kept) - len(stored), "", seconds, extraction)


def copied(case: Case, *, first_person: bool) -> Answer:
    """The baseline without a model: the sentences that were said, or those in the first person."""
    kept = []
    for turn in case.request.messages:
        for sentence in split(turn.text):
            if sentence.endswith("?") or (first_person and not re.search(r"\b(?:I|I'm|my|we|our)\b", sentence)):
                continue
            kept.append(ExtractedFact(f"{turn.speaker}: {sentence}", turn.speaker, (turn.number,)))
    return Answer(kept)


# The figures


class Meaning:
    """Cosine of two texts by the installed embedder; 0 where there is none."""

    def __init__(self) -> None:
        self.embedder = open_embedder()
        self.kept: dict[str, Any] = {}

    def __enter__(self) -> Meaning:
        return self

    def __exit__(self, *_: object) -> None:
        if callable(close := getattr(self.embedder, "close", None)):
            close()

    def __call__(self, one: str, other: str) -> float:
        if self.embedder is None:
            return 0.0
        for text in (one, other):
            if text not in self.kept:
                self.kept[text] = self.embedder.embed([text])[0]
        return float(sum(a * b for a, b in zip(self.kept[one], self.kept[other], strict=True)))


def figures(cases: Sequence[Case], answers: Sequence[Answer], meaning: Callable[[str, str], float]) -> dict[str, Any]:
    """All measures of one system, by name; a measure that the cases have no gold for is None."""
    found = wanted = given = right = by_words = by_meaning = 0
    empty = empty_right = dated = dates_right = linked = linked_right = invented = grounded = 0
    named = named_right = named_wanted = attributed = 0
    for case, made in zip(cases, answers, strict=True):
        invented += sum(bool(made_up(fact, case.request)) for fact in made.facts)
        grounded += sum(not ground.ungrounded(fact, learn.as_shown(fact, case.request)) for fact in made.facts)
        if case.entities is not None:
            gold_names = _names(case, case.entities)
            names = _names(case, [e for fact in made.facts for e in fact.entities])
            named, named_wanted = named + len(names), named_wanted + len(gold_names)
            named_right += len(names & gold_names)
        if case.facts is None:
            continue
        wanted, given = wanted + len(case.facts), given + len(made.facts)
        if not case.facts:
            empty, empty_right = empty + 1, empty_right + (not made.facts and not made.error)
        matched: set[int] = set()
        for gold in case.facts:
            pairs = [
                (at, share(gold.text, fact.text), meaning(gold.text, fact.text))
                for at, fact in enumerate(made.facts)
                if set(gold.sources) & set(fact.sources)
            ]
            by_words += any(words >= SAME_WORDS for _, words, _ in pairs)
            by_meaning += any(cosine >= SAME_MEANING for _, _, cosine in pairs)
            same = [at for at, words, cosine in pairs if words >= SAME_WORDS or cosine >= SAME_MEANING]
            found += bool(same)
            matched.update(same)
            attributed += any(made.facts[at].by == _by(gold, case) for at in same)
            best = max(pairs, key=lambda pair: pair[1] + pair[2], default=None)
            days = set(re.findall(r"\d{4}-\d\d(?:-\d\d)?", gold.text))
            if days and best is not None:
                dated += 1
                dates_right += days <= set(re.findall(r"\d{4}-\d\d(?:-\d\d)?", made.facts[best[0]].text))
            if case.linked and gold.replaces:
                linked += 1
                linked_right += any(made.facts[at].replaces == gold.replaces for at in same)
        right += len(matched)
    recall, precision = _ratio(found, wanted), _ratio(right, given)
    entity_precision, entity_recall = _ratio(named_right, named), _ratio(named_right, named_wanted)
    extractions = [made.extraction for made in answers]
    return {
        "n": len(cases),
        "recall": recall,
        "recall_by_words": _ratio(by_words, wanted),
        "recall_by_meaning": _ratio(by_meaning, wanted),
        "precision": precision,
        "f1": _f1(precision, recall),
        "facts_a_turn": _ratio(sum(len(made.facts) for made in answers), len(cases)),
        "attributed": _ratio(attributed, found),
        "grounded": _ratio(grounded, sum(len(made.facts) for made in answers)),
        "invented": invented,
        "dropped": sum(made.dropped for made in answers),
        "empty_right": _ratio(empty_right, empty),
        "entity_precision": entity_precision,
        "entity_recall": entity_recall,
        "entity_f1": _f1(entity_precision, entity_recall),
        "dates_right": _ratio(dates_right, dated),
        "replaces_right": _ratio(linked_right, linked),
        "valid": _ratio(sum(not made.error for made in answers), len(answers)),
        "seconds_per_turn": round(statistics.median(made.seconds for made in answers), 3),
        "prompt_tokens": statistics.median(each.prompt_tokens for each in extractions),
        "evaluated_tokens": statistics.median(each.evaluated_tokens for each in extractions),
        "answer_tokens": statistics.median(each.answer_tokens for each in extractions),
        "failures": dict(Counter(made.error for made in answers if made.error)),
    }


def share(one: str, other: str) -> float:
    """Token F1 of two texts (SQuAD's measure): case and punctuation do not count."""
    first, second = (re.findall(r"\w+", text.casefold()) for text in (one, other))
    left = list(second)
    same = 0
    for token in first:
        if token in left:
            left.remove(token)
            same += 1
    return 2 * same / (len(first) + len(second)) if same else 0.0


def _names(case: Case, entities: Iterable[NamedEntity]) -> set[tuple[str, str]]:
    """Name and type of each entity; who speaks is left out, for code and not the model names it."""
    speakers = {turn.speaker.casefold() for turn in (*case.request.window, *case.request.messages)}
    return {(e.name.casefold(), e.type) for e in entities if e.name.casefold() not in speakers}


def _by(gold: ExtractedFact, case: Case) -> str:
    """Who says a gold fact: where the gold does not tell, the speaker of its first message."""
    return gold.by or next((t.speaker for t in case.request.messages if t.number in gold.sources), "")


def _ratio(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole else None


def _f1(precision: float | None, recall: float | None) -> float | None:
    if precision is None or recall is None:
        return None
    return round(2 * precision * recall / (precision + recall), 4) if precision + recall else 0.0


# A whole run


def loaded(path: Path, form: Form | None = None) -> GGUFExtractor:
    """The extractor of a GGUF file, with the model in memory. Raises ModelError where it cannot be used."""
    extractor = GGUFExtractor(path, form=form)
    extractor.load()
    return extractor


def extraction(
    path: Path,
    systems: Mapping[str, Callable[[], Extractor]],
    *,
    limit: int | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, dict[str, Any]]:
    """The figures of each extractor, and of the two copying baselines, on the cases of a path.

    systems: what opens each of them, in a process of its own, so it has to be known by the name of its module.
    memory_mb is the most that this process held: Python, memlite and the model. Raises ModelError, before anything is
    measured, where one cannot be opened.
    """
    cases = read_cases(path, limit)
    for name, open_it in systems.items():
        with Apart(name, open_it):
            tell(f"{name}: it loads")
    with Meaning() as meaning:
        found = {}
        for name, open_it in systems.items():
            answers = []
            with Apart(name, open_it) as apart:
                for number, case in enumerate(cases, 1):
                    answers.append(apart.ask(answer, case))
                    tell(f"{name}: {number} of {len(cases)}")
                found[name] = figures(cases, answers, meaning) | {"memory_mb": apart.memory_mb()}
        for name, first_person in COPIES.items():
            found[name] = figures(cases, [copied(case, first_person=first_person) for case in cases], meaning)
            found[name] |= dict.fromkeys(("grounded", "invented", "seconds_per_turn", "memory_mb"))
    return found
