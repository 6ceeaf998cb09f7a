"""The short form in which a trained small model is shown a conversation and writes facts, a line each.

Every token costs a laptop some milliseconds, so nothing is said that training has taught already. What code knows
better than a model is left to code: a fact's speaker is the message's, its day the one whose resolved date it repeats.

    Bob: How's the little one doing?                      | earlier messages and, last, the new one
    Ann: Took Miso to the vet yesterday (2025-05-11).
    Known:                                                | the known facts that may be meant
    a) Ann has a grey cat called Miso.

    - Ann took Miso to the vet on 2025-05-11. | Miso=person | continues a         | what it answers

Known facts stand last, for they change with every message: what stands before them is in the model's cache already.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from string import ascii_lowercase

from memlite import dates, ground
from memlite.answer import ENTITY_TYPES, MOST_ENTITIES, MOST_FACTS, Sure, any_of, merged, once, unsure
from memlite.errors import ExtractionError
from memlite.prompt import LONGEST_NAME, block, label, one_line, with_dates
from memlite.records import ExtractedFact, Extraction, ExtractionRequest, KnownFact, NamedEntity, Skipped, Turn

PROMPT_VERSION = "2-compact"
SYSTEM = "Write down the facts that last."
NOTHING = "none"
NOTHING_FROM = 0.6  # probability of it from which it is the answer; from 0.3 on bare statements were lost

LEAST_EARLIER, MOST_EARLIER = 2, 6  # messages of the window that are shown, at least (if there are) and at most
LONGEST_MESSAGE = 300  # characters asked of at once
LONGEST_PROMPT = 640  # tokens, as in training
LONGEST_ANSWER = 400  # tokens
MOST_KNOWN = 2  # known facts shown: each costs some twenty tokens, and seldom does a further one matter
LONGEST_EARLIER = 240  # characters shown of an earlier message, its end: there stands what the next one answers

MOST_UNNAMED = 3  # names of a fact that are asked about
_LANGUAGE = re.compile(r"^\w+(?:ish|ese|ian|ean|rench|reek|utch|zech|erman|ebrew|abic|indi|wiss)$")

_LINE = re.compile(r"- (?P<text>[^|]+)(?P<slots>(?: \| [^|]+)*)$")

_REPEATED = re.compile(r"\b(\w+(?:['’]\w+)?(?: \w+){1,5})(?:,? \1)+\b|\b(\w+)(?:,? \2){2,}\b", re.IGNORECASE)

_NAME = r"[^\W\d_][\w'’-]*(?: (?!to\b|with\b|in\b|on\b)[A-Z\u00c0-\u024f][\w'’-]*)*"
_WAY = re.compile(rf"\bfrom (?P<start>{_NAME})(?: to (?P<end>{_NAME}))?(?!\w)")


def render(request: ExtractionRequest) -> str:
    """The text of a request with one new message: those before it, it, and known facts."""
    lines = [_said(_end(turn)) for turn in request.window]
    lines += [_said(turn) for turn in request.messages]
    if request.known:
        lines += [
            "Known:",
            *(f"{letter}) {one_line(fact.text)}" for letter, fact in zip(ascii_lowercase, request.known)),
        ]
    return "\n".join(lines)


def write(facts: Sequence[ExtractedFact]) -> str:
    """The answer that gives these facts; what a model is trained to write. Their known facts are numbered from 1."""
    return "\n".join(map(_written, facts)) or NOTHING


def unnamed(fact: ExtractedFact) -> list[str]:
    """The names in a fact's text that are none of its entities: no identifiers, acronyms, languages."""
    listed = [ground.fold(entity.name) for entity in fact.entities]
    return [
        name
        for name in ground.mentioned_names(fact.text)
        if name.replace(" ", "").isalpha()
        and not name.isupper()
        and not _LANGUAGE.search(name)
        and not any(ground.fold(name) in other or other in ground.fold(name) for other in listed)
    ][:MOST_UNNAMED]


def naming(fact: ExtractedFact, name: str) -> tuple[str, str]:
    """The beginning of an answer that asks of which type a name is, and the GBNF of its end."""
    written = _written(replace(fact, replaces=(), continues=()))
    return f"{written}{'; ' if fact.entities else ' | '}{name}=", "root ::= " + any_of(ENTITY_TYPES)


def grammar(request: ExtractionRequest) -> str:
    """The GBNF of the legal answers: only known facts of this request can be named."""
    slots = f'(" | " entity ("; " entity){{0,{MOST_ENTITIES - 1}}})?'
    rules = [
        f'root ::= "{NOTHING}" | fact ("\\n" fact){{0,{MOST_FACTS - 1}}}',
        r"text ::= [^|\x00-\x20\x7f] [^|\x00-\x1f\x7f\u0085\u2028\u2029]{10,400}",
        rf'entity ::= [^|=;\x00-\x20\x7f] [^|=;\x00-\x1f\x7f\u0085\u2028\u2029]{{0,{LONGEST_NAME - 1}}} "=" type',
        "type ::= " + any_of(ENTITY_TYPES),
    ]
    if request.known:
        slots += ' (" | replaces " link ("," link)?)? (" | continues " link ("," link)?)?'
        rules.append("link ::= " + any_of(ascii_lowercase[: len(request.known)]))
    rules.append(f'fact ::= "- " text {slots}')
    return "\n".join(rules) + "\n"


def parse(answer: str, request: ExtractionRequest, sure: Sure = unsure) -> Extraction:
    """Read an answer; raise ExtractionError when it is neither facts nor their absence."""
    lines = [line for line in answer.strip().split("\n") if line.strip()]
    if lines == [NOTHING]:
        return Extraction(())
    read = [_read(line, request, sure) for line in lines]
    facts = merged(fact for fact in read if fact is not None)
    if not facts:
        raise ExtractionError(f"the extractor gave no facts, nor {NOTHING!r}; the answer begins {answer[:200]!r}")
    cut = [one_line(line) for line, fact in zip(lines, read, strict=True) if fact is None]
    return Extraction(facts, tuple(Skipped(line, "the answer was cut off in this fact") for line in cut))


def _said(turn: Turn) -> str:
    return f"{label(turn.speaker)}: {block(with_dates(turn.text, turn.dates, ' ({})'))}"


def _end(turn: Turn) -> Turn:
    """The last words of a long message, with the dates in them."""
    if len(turn.text) <= LONGEST_EARLIER:
        return turn
    text = "… " + turn.text[-LONGEST_EARLIER:].partition(" ")[2]
    return replace(turn, text=text, dates=tuple(found for found in turn.dates if found.expression in text))


def shown(turn: Turn, request: ExtractionRequest) -> tuple[KnownFact, ...]:
    """The known facts that are shown with a message: the nearest, and the next ones that share a word with it."""
    speakers = {word for said in (*request.window, *request.messages) for word in ground.content_words(said.speaker)}
    words = set(ground.content_words(turn.text)) - speakers
    near = [fact for fact in request.known[1:] if words.intersection(ground.content_words(fact.text))]
    return (*request.known[:1], *near)[:MOST_KNOWN]


def _written(fact: ExtractedFact) -> str:
    line = f"- {fact.text}"
    if fact.entities:
        line += " | " + "; ".join(f"{entity.name}={entity.type}" for entity in fact.entities)
    for relation, numbers in (("replaces", fact.replaces), ("continues", fact.continues)):
        if numbers:
            line += f" | {relation} {','.join(ascii_lowercase[number - 1] for number in numbers)}"
    return line


def _read(line: str, request: ExtractionRequest, sure: Sure) -> ExtractedFact | None:
    """The fact of a line; None where the line was cut off."""
    found = _LINE.match(line)
    (turn,) = request.messages
    text = _once(one_line(found["text"]), turn.text) if found else ""
    text = _way_round(dates.written_out(text, turn.dates), turn.text)
    if found is None or not any(mark.isalnum() for mark in text):
        return None
    known = {letter: fact.number for letter, fact in zip(ascii_lowercase, request.known)}
    links: dict[str, tuple[int, ...]] = {}
    entities: dict[str, NamedEntity] = {}
    for slot in found["slots"].split(" | ")[1:]:
        relation, _, letters = slot.partition(" ")
        if relation in ("replaces", "continues") and "=" not in slot:
            links[relation] = once(known[letter] for letter in letters.split(",") if letter in known)
            continue
        for pair in slot.split("; "):
            name, _, kind = pair.rpartition("=")
            if kind in ENTITY_TYPES and name.casefold() in text.casefold():
                entities.setdefault(name.casefold(), NamedEntity(name, kind))
    for name in dict.fromkeys(label(turn.speaker) for turn in (*request.window, *request.messages) if _is_name(turn)):
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text):
            entities.setdefault(name.casefold(), NamedEntity(name, "person"))
    return ExtractedFact(
        text,
        by=turn.speaker,
        sources=(turn.number,),
        when=_day(text, turn),
        replaces=links.get("replaces", ()),
        continues=links.get("continues", ()),
        entities=tuple(entities.values())[:MOST_ENTITIES],
        confidence=sure(found["text"]),
    )


def _once(text: str, said: str) -> str:
    """The fact without what the model repeats at once and nobody did: "is wide awake wide awake wide awake"."""
    said, before = said.casefold(), ""
    while text != before:  # "wide awake" eight times is "wide awake wide awake" four times
        before = text
        text = _REPEATED.sub(lambda again: again[0] if again[0].casefold() in said else again[1] or again[2], text)
    return text


def _way_round(text: str, said: str) -> str:
    """The fact with its way as it was said. "I moved to Porto with Bruno" is no move from Porto, nor one to Bruno.

    The trained model has seen so many moves "from Lisbon to Porto" that it makes one of every move.
    """
    way = _WAY.search(text)
    if way is None or not _says(said, "to", way["start"]) or _says(said, "from", way["start"]):
        return text
    end = way["end"] or ""
    company = f" with {end}" if end and _says(said, "with", end) else ""
    return f"{text[: way.start()]}to {way['start']}{company}{text[way.end() :]}"


def _says(said: str, word: str, name: str) -> bool:
    return re.search(rf"\b{word} (?:\w+ ){{0,3}}?{re.escape(name)}(?!\w)", said, re.IGNORECASE) is not None


def _is_name(turn: Turn) -> bool:
    """Whether a speaker has a name, not only a role."""
    return label(turn.speaker).casefold() != label(turn.role).casefold()


def _day(text: str, turn: Turn) -> str | None:
    """The first day of the resolved date that a fact repeats."""
    resolved = [found for found in turn.dates if dates.shown(found) in text]
    if resolved:
        return max(resolved, key=lambda found: len(dates.shown(found))).start
    day = re.search(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)", text)
    return day[0] if day else None
