"""What the extractor may answer, as a grammar, and how an answer is read, whatever a small model made of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from memlite.errors import ExtractionError
from memlite.prompt import LONGEST_NAME, label, one_line
from memlite.records import ExtractedFact, Extraction, ExtractionRequest, NamedEntity, Skipped
from memlite.sentences import clean

ENTITY_TYPES = ("person", "place", "organisation", "product", "work", "event", "project")
MOST_FACTS = 8  # of one answer
MOST_ENTITIES = 8  # of one fact
MOST_SOURCES = 6  # of one fact, and of its links
MOST_WORDS = 80  # of one fact
LONGEST_WORD = 120  # characters between two spaces; a sentence in a script without spaces is one word


def grammar(request: ExtractionRequest, *, most_facts: int = MOST_FACTS, most_words: int = MOST_WORDS) -> str:
    """The GBNF of the legal answers: only messages, known facts and speakers of this request can be named.

    A text is one sentence: after a word with a full stop the text ends, unless it is like "Dr.", "p.m." or "3.".
    Left free, a small model goes on with more sentences, and then repeats them up to the limit.
    """
    numbers = [turn.number for turn in request.messages if turn.number > 0]
    known = [fact.number for fact in request.known]
    speakers = dict.fromkeys(label(turn.speaker) for turn in request.messages if turn.number > 0)
    slots = [r'",\"by\":" by ",\"from\":[" sources "]"', r'(",\"when\":" day)?']
    if known:
        slots += [r'(",\"replaces\":[" links "]")?', r'(",\"continues\":[" links "]")?']
    slots.append(r'(",\"entities\":[" entity ("," entity){0,' + str(MOST_ENTITIES - 1) + '} "]")?')
    rules = [
        r'root ::= "{\"facts\":[" (fact ("," fact){0,' + str(most_facts - 1) + r'})? "]}"',
        r'fact ::= "{\"text\":" text ' + " ".join(slots) + ' "}"',
        r'text ::= "\"" ((word " "){2,'
        + str(most_words - 1)
        + r"} last | [\u0e00-\U0010ffff] plain{5,"
        + str(LONGEST_WORD)
        + r'} stop?) "\""',
        r"word ::= quote? core quote? [,;:)]? | short",
        r'short ::= ([A-ZÀ-Þ] plain{0,2} | [0-9]{1,2} | "Prof" | "Corp" | "vs" | "ca") "." | (plain "."){2,6}',
        r"last ::= quote? core quote? stop? quote?",
        r'core ::= (plain | "." [a-z0-9]){1,' + str(LONGEST_WORD) + r"}",
        r"stop ::= [.!?]{1,3}",
        r'quote ::= "\\\""',
        r'plain ::= [^"\\\x00-\x20.!?\x7f\u0085\u2028\u2029] | "\\" [\\/]',
        r'char ::= [^"\\\x00-\x1f\x7f\u0085\u2028\u2029] | quote',
        "by ::= " + any_of(json.dumps(name, ensure_ascii=False) for name in speakers),
        "source ::= " + any_of(str(number) for number in numbers),
        'sources ::= source ("," source){0,' + str(MOST_SOURCES - 1) + "}",
        r'day ::= "\"" [12] [0-9] [0-9] [0-9] "-" ("0" [1-9] | "1" [0-2]) "-" ([0-2] [0-9] | "3" [01]) "\""',
        r'entity ::= "{\"name\":\"" plain char{0,' + str(LONGEST_NAME - 1) + r'} "\",\"type\":" type "}"',
        "type ::= " + any_of(json.dumps(name) for name in ENTITY_TYPES),
    ]
    if known:
        rules.append("link ::= " + any_of(str(number) for number in known))
        rules.append('links ::= link ("," link){0,' + str(MOST_SOURCES - 1) + "}")
    return "\n".join(rules) + "\n"


def any_of(literals: Iterable[str]) -> str:
    """GBNF alternatives of literal texts."""
    return " | ".join('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in literals)


# How the answer is read.

_LISTS = (
    "facts",
    "fact",
    "memory",
    "memories",
    "results",
    "result",
    "data",
    "items",
    "answer",
    "output",
    "response",
)
_TEXTS = ("text", "fact", "content", "memory", "sentence", "statement", "value", "description", "summary")
_SPEAKERS = ("by", "speaker", "attributed_to", "author", "role")
_SOURCES = ("from", "sources", "source", "messages", "message", "message_numbers", "cites")
_DAYS = ("when", "date", "day", "event_date")
_ENTITIES = ("entities", "entity", "names")
_SLOTS = frozenset((*_SPEAKERS, *_SOURCES, *_DAYS, *_ENTITIES, "replaces", "continues", "type", "name"))
_TYPE_WORDS = {
    "people": "person",
    "human": "person",
    "user": "person",
    "location": "place",
    "city": "place",
    "country": "place",
    "restaurant": "place",
    "organization": "organisation",
    "company": "organisation",
    "org": "organisation",
    "group": "organisation",
    "book": "work",
    "film": "work",
    "movie": "work",
    "song": "work",
}


Sure = Callable[[str], float | None]  # the confidence, 0 to 1, of a fact's text as the model wrote it; None unknown


def unsure(text: str) -> None:
    """No confidence: of an answer without probabilities."""


def parse(answer: str, request: ExtractionRequest, sure: Sure = unsure) -> Extraction:
    """Read a model's answer, whatever its shape; raise ExtractionError when it is not a list of facts.

    No facts are returned only when the answer says so. What is cut off or has no text is in `unusable`.
    """
    values = list(_json_values(_without_thoughts(answer)))
    lists = [found for value in values if (found := _fact_list(value)) is not None]
    facts_shown = next((found for found in lists if found), lists[0] if lists else None)
    if facts_shown is None or (not facts_shown and isinstance(facts_shown, _CutList)):
        what = "an empty answer" if not answer.strip() else "no list of facts"
        raise ExtractionError(f'the extractor gave {what}, expected JSON with "facts"; {_beginning(answer)}')
    read = [_fact(shown, request, sure) for shown in facts_shown]
    facts = merged(fact for fact in read if isinstance(fact, ExtractedFact))
    unusable = [skipped for skipped in read if isinstance(skipped, Skipped)]
    if not facts and unusable:
        reason = unusable[0].reason
        raise ExtractionError(f"the extractor gave no usable fact: {reason}; {_beginning(answer)}")
    return Extraction(facts, tuple(unusable))


def merged(facts: Iterable[ExtractedFact]) -> tuple[ExtractedFact, ...]:
    """The facts, each text once, as it was first told, with the sources of all that tell it."""
    told: dict[str, ExtractedFact] = {}
    for fact in facts:
        key = " ".join(fact.text.casefold().split())
        first = told.get(key)
        told[key] = fact if first is None else replace(first, sources=once((*first.sources, *fact.sources)))
    return tuple(told.values())


def _beginning(answer: str) -> str:
    return f"the answer begins {clean(answer.strip())[:200]!r}" if answer.strip() else "nothing was answered"


def _without_thoughts(answer: str) -> str:
    """The answer after what a reasoning model thought aloud, closed (or opened by the template) or not."""
    answer = answer.lstrip("\ufeff")
    closed = re.split(r"</think(?:ing)?>", answer, flags=re.IGNORECASE)
    return re.sub(r"<think(?:ing)?>", "", closed[-1], flags=re.IGNORECASE)


class _Cut(dict[str, Any]):
    """An object, or the text of one, that the end of the answer cut off."""


class _CutList(list[Any]):
    """A list that the end of the answer cut off."""


def _json_values(text: str) -> Iterator[Any]:
    """The outermost lists and objects in the text, in order; the last may be cut off."""
    position = 0
    while (start := re.compile(r"[\[{]").search(text, position)) is not None:
        reader = _Reader(text, start.start())
        try:
            value = reader.value()
        except (ValueError, RecursionError):
            position = start.end()
            continue
        yield value
        position = max(reader.position, start.end())


class _Reader:
    """JSON as models write it: line breaks in strings, commas too many, or an end too early."""

    _STRING = re.compile(r'"((?:[^"\\]|\\.)*)(")?', re.DOTALL)
    _WORD = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[A-Za-z]+")
    _WORDS: Mapping[str, Any] = {"true": True, "false": False, "null": None, "none": None}

    def __init__(self, text: str, position: int) -> None:
        self.text = text
        self.position = position
        self.cut = False
        self.depth = 0

    def value(self) -> Any:
        mark = self._peek()
        if mark == "{":
            return self._object()
        if mark == "[":
            return self._list()
        if mark == '"':
            return self._string()
        word = self._WORD.match(self.text, self.position)
        if word is None:
            raise ValueError(f"not JSON at {self.position}")
        self.position = word.end()
        if self.position >= len(self.text):
            self.cut = True
        spelled = word.group()
        if spelled[0].isalpha():
            if spelled.lower() not in self._WORDS and not self.cut:
                raise ValueError(f"not JSON at {word.start()}")
            return self._WORDS.get(spelled.lower())
        return int(spelled) if spelled.lstrip("-").isdigit() and len(spelled) < 20 else float(spelled)

    def _peek(self) -> str:
        """The next mark that is not white space; at the end "", and the answer counts as cut."""
        while self.position < len(self.text) and self.text[self.position].isspace():
            self.position += 1
        if self.position >= len(self.text):
            self.cut = True
            return ""
        return self.text[self.position]

    def _open(self) -> None:
        self.depth += 1
        if self.depth > 20:
            raise ValueError("JSON too deep")
        self.position += 1

    def _close(self) -> None:
        self.depth -= 1
        self.position += 1

    def _list(self) -> list[Any]:
        self._open()
        values: list[Any] = []
        while (mark := self._peek()) != "]":
            if mark == "":
                return _CutList(values)
            if mark == ",":
                self.position += 1
                continue
            values.append(self.value())
            if self.cut:
                if isinstance(values[-1], str):
                    values[-1] = _Cut(text=values[-1])
                return _CutList(values)
        self._close()
        return values

    def _object(self) -> dict[str, Any]:
        self._open()
        pairs: dict[str, Any] = {}
        while (mark := self._peek()) != "}":
            if mark == "":
                return _Cut(pairs)
            if mark == ",":
                self.position += 1
                continue
            if mark != '"':
                raise ValueError(f"no key at {self.position}")
            key = self._string()
            if self.cut or self._peek() == "":
                return _Cut(pairs)
            if self.text[self.position] != ":":
                raise ValueError(f"no value at {self.position}")
            self.position += 1
            if self._peek() == "":
                return _Cut(pairs)
            pairs[key] = self.value()
            if self.cut:
                return _Cut(pairs)
        self._close()
        return pairs

    def _string(self) -> str:
        match = self._STRING.match(self.text, self.position)
        if match is None:
            raise ValueError(f"no string at {self.position}")
        self.position = match.end()
        raw = match.group(1)
        if match.group(2) is None:
            self.cut = True
        # an escape that JSON does not have stands for the character itself
        legal = re.sub(
            r"\\(u[0-9a-fA-F]{4}|.|$)",
            lambda m: m[0] if m[1][:1] in '"\\/bfnrt' or m[1][1:] else m[1],
            raw,
            flags=re.DOTALL,
        )
        return str(json.loads(f'"{legal}"', strict=False))


def _fact_list(value: Any, depth: int = 0) -> list[Any] | None:
    """The facts in a value, or None when it does not look like an answer."""
    if isinstance(value, list):
        return value if all(isinstance(shown, (dict, str)) for shown in value) else None
    if not isinstance(value, dict) or depth > 3:
        return None
    keys = {str(key).strip().lower(): key for key in value}
    for name in _LISTS:
        if name not in keys:
            continue
        inner = value[keys[name]]
        if inner is None and not isinstance(value, _Cut):
            return []
        if isinstance(inner, list):
            return _fact_list(inner)
        if isinstance(inner, dict) and (found := _fact_list(inner, depth + 1)) is not None:
            return found
    if any(name in keys for name in _TEXTS):
        return [value]
    if keys and all(isinstance(inner, dict) for inner in value.values()):  # {"1": {...}, "2": {...}}
        facts = list(value.values())
        return facts if all(any(str(key).lower() in _TEXTS for key in inner) for inner in facts) else None
    lists = [inner for key, inner in value.items() if isinstance(inner, list) and str(key).lower() not in _SLOTS]
    return _fact_list(lists[0]) if len(lists) == 1 else None


def _fact(shown: Any, request: ExtractionRequest, sure: Sure) -> ExtractedFact | Skipped:
    """One fact of the answer, or why it cannot be used."""
    if isinstance(shown, str):
        shown = {"text": shown}
    written = _text(_slot(shown, _TEXTS))
    text = one_line(written)
    if isinstance(shown, _Cut):
        return Skipped(text, "the answer was cut off in this fact")
    if not any(mark.isalnum() for mark in text):
        return Skipped(text, "the fact has no text")
    numbers = {turn.number for turn in request.messages if turn.number > 0}
    known = {fact.number for fact in request.known}
    sources = _numbers(_slot(shown, _SOURCES), numbers)
    return ExtractedFact(
        text=text,
        by=_speaker(_slot(shown, _SPEAKERS), request),
        sources=tuple(numbers) if not sources and len(numbers) == 1 else sources,
        when=_day(_slot(shown, _DAYS)),
        replaces=_numbers(_slot(shown, ("replaces",)), known),
        continues=_numbers(_slot(shown, ("continues",)), known),
        entities=_entities(_slot(shown, _ENTITIES), text),
        confidence=sure(written),
    )


def _slot(shown: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The first slot with one of these names that holds something."""
    keys = {str(key).strip().lower(): key for key in shown}
    held = [shown[keys[name]] for name in names if name in keys]
    return next((value for value in held if value not in (None, "", [], {})), None)


def _text(value: Any) -> str:
    """The sentence in a text slot: a string, or the first string in the object or list that is there instead."""
    for _ in range(4):
        if isinstance(value, dict):
            value = _slot(value, _TEXTS) or next((inner for inner in value.values() if isinstance(inner, str)), None)
        elif isinstance(value, list):
            value = next((inner for inner in value if isinstance(inner, (str, dict))), None)
    return value if isinstance(value, str) else ""


def _numbers(value: Any, legal: set[int]) -> tuple[int, ...]:
    """The legal numbers in a slot: a list, one number, or numbers as text."""
    found: list[int] = []
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, bool):
            continue
        if isinstance(item, (int, float)):
            found += [int(item)] if item == item // 1 and abs(item) < 1e9 else []
        elif isinstance(item, str):
            found += [int(digits) for digits in re.findall(r"[0-9]{1,9}", item)]
        elif isinstance(item, dict):
            found += [inner for inner in item.values() if isinstance(inner, int) and not isinstance(inner, bool)]
    return once(number for number in found if number in legal)


def once(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(numbers))


def _speaker(value: Any, request: ExtractionRequest) -> str:
    """The speaker that is meant, as the request writes the name; empty when none of them is."""
    meant = label(value).casefold() if isinstance(value, str) else ""
    turns = [turn for turn in request.messages if turn.number > 0]
    named = {label(turn.speaker).casefold(): turn.speaker for turn in turns}
    roles = {turn.role.casefold(): turn.speaker for turn in turns}
    return named.get(meant) or roles.get(meant) or ""


def _day(value: Any) -> str | None:
    """The first whole calendar day in a slot."""
    for found in re.findall(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)", value if isinstance(value, str) else ""):
        try:
            return date.fromisoformat(found).isoformat()
        except ValueError:
            continue
    return None


def _entities(value: Any, text: str) -> tuple[NamedEntity, ...]:
    """The entities that a fact's text names: from objects, {name: type}, or names alone (then without a type)."""
    pairs: list[tuple[Any, Any]] = []
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            pairs.append((item, ""))
        elif isinstance(item, dict):
            named = _slot(item, ("name", "entity", "text"))
            pairs += [(named, _slot(item, ("type", "kind", "label")))] if named is not None else list(item.items())
    entities: dict[str, NamedEntity] = {}
    for name, kind in pairs:
        words = one_line(name) if isinstance(name, str) else ""
        if any(mark.isalnum() for mark in words) and words.casefold() in text.casefold():
            entities.setdefault(words.casefold(), NamedEntity(words, _entity_type(kind)))
    return tuple(entities.values())[:MOST_ENTITIES]


def _entity_type(value: Any) -> str:
    word = value.strip().lower() if isinstance(value, str) else ""
    word = _TYPE_WORDS.get(word, word)
    return word if word in ENTITY_TYPES else ""
