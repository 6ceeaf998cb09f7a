"""Chat logs as people keep them, Markdown or plain: every turn begins with a line that names its speaker.

    ## User                              a heading, or a line in bold, with a role or a name, perhaps with a time
    **Assistant** (2025-05-11 19:30)
    Ana: text                            a name and a colon
    [2025-05-11 19:30] Ana: text         a time before it, in brackets or not, with a dash or not
    11/05/2025, 19:30 - Ana: text
    [19:30] <ana> text                   a name in angle brackets

A line with nothing but a day, perhaps as a heading, is the day of what follows. What no speaker begins goes on with
what was said before.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone, tzinfo
from pathlib import PurePath

from memlite import instants
from memlite.errors import InvalidInputError
from memlite.imports.files import Text
from memlite.imports.items import Conversation, Identifiers, Item, Line
from memlite.records import LeftOut

ROLES = {
    **dict.fromkeys(("user", "human", "you", "me", "you said"), "user"),
    **dict.fromkeys(
        ("assistant", "ai", "bot", "chatbot", "chatgpt", "chatgpt said", "gpt", "claude", "gemini", "copilot"),
        "assistant",
    ),
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("tool", "function"), "tool"),
}  # fmt: skip
_PIECE = 200  # messages that are stored together
_MOST_NAMES = 10_000  # different words before a colon; a file with more is no log

_DAY = r"\d{4}-\d\d?-\d\d?|\d{1,2}[./-]\d{1,2}[./-](?:\d{4}|\d\d)"
_CLOCK = r"\d{1,2}:\d\d(?::\d\d)?(?:\.\d+)?(?:\s?[ap]\.?m\.?)?(?:\s?(?:Z|UTC|[+-]\d\d:?\d\d))?"
_TIME = rf"(?:(?P<day>{_DAY})(?:[T ]|,\s?)?)?(?P<clock>{_CLOCK})?"
_NAME = r"(?P<name>[^\s:#*<>\[\]|][^:\n#*<>\[\]|]{0,39}?)"


def _stamped(pattern: str) -> re.Pattern[str]:
    """The pattern with a time, in brackets or bare, in place of each @; its groups are day1, clock1, day2, ..."""
    number = 0

    def stamp(_: re.Match[str]) -> str:
        nonlocal number
        forms = []
        for form in (r"\[{}\]", r"\({}\)", "{}"):
            number += 1
            forms.append(form.format(_TIME.replace("<day>", f"<day{number}>").replace("<clock>", f"<clock{number}>")))
        return f"(?:{'|'.join(forms)})"

    return re.compile(re.sub("@", stamp, pattern), re.IGNORECASE)


# Marks that some programs write before a line to say which way it reads.
_DIRECTION = "\u200e\u200f\u202a\u202c\ufeff"
_HEADING = _stamped(rf"^#{{1,6}}\s+(?:\*\*)?{_NAME}:?(?:\*\*)?:?\s*(?:[-–—|·,]\s*)?@?\s*$")
_BOLD = _stamped(rf"^(?:@\s*[-–—]?\s*)?(?:\*\*|__){_NAME}:?(?:\*\*|__)\s*@?\s*:?(?:\s+(?P<said>.*))?$")
_ANGLE = _stamped(r"^(?:@\s*)?<\s?(?P<name>[^<>\n]{1,40})>\s(?P<said>.*)$")
_COLON = _stamped(rf"^(?:@\s*[-–—]?\s*)?{_NAME}\s?:(?:\s(?P<said>.*))?$")
_DATE = re.compile(rf"^(?:#{{1,6}}\s+|[-=*_ ]+)?(?P<day>{_DAY})[-=*_: ]*$")


@dataclass
class _Turn:
    number: int
    name: str
    at: datetime | None
    written: str  # its time as the log has it
    said: list[str]


@dataclass(frozen=True, slots=True)
class _Speech:
    """A line that begins a turn: its speaker, what it says itself, and its time as written."""

    name: str
    said: str
    day: str
    clock: str
    sure: bool  # nothing else looks so: a heading, bold, or a time before it


def read(text: Text, zone: tzinfo | None, again: Text) -> Iterator[Item]:
    """Its turns, as one conversation that is called as the file is. again: the same file, to be read once more.

    Raises InvalidInputError where no line names a speaker.
    """
    speakers, day_first, note = _survey(text)
    if not speakers:
        raise InvalidInputError(
            f"no line of {text.name} names who speaks. Expected lines such as 'User: ...', 'Ana: ...', '## Assistant'; "
            "`memlite add --file` takes JSON, `memlite add -` a text as it is."
        )
    if note:
        yield LeftOut(text.name, note, 0)
    yield from _Log(again, zone, speakers, day_first).read()


def _survey(text: Text) -> tuple[set[str], bool, str]:
    """Who speaks, whether days come before months, and what there is to say of that.

    A word before a colon may be anything, so a name without a time before it counts only where it comes twice.
    """
    sure: set[str] = set()
    seen: Counter[str] = Counter()
    first_parts = second_parts = 0
    american = False
    for found in text.lines():
        line = "" if isinstance(found, LeftOut) else found[1]
        speech, day = _speech(line), _only_day(line)
        written = day or (speech.day if speech else "")
        if parts := re.fullmatch(r"(\d{1,2})[/-](\d{1,2})[/-]\d+", written):
            first_parts, second_parts = max(first_parts, int(parts[1])), max(second_parts, int(parts[2]))
            american = american or bool(speech and speech.clock.lower().rstrip(".").endswith(("am", "pm")))
        if speech is None:
            continue
        if speech.sure or speech.name.casefold() in ROLES:
            sure.add(speech.name)
        elif len(seen) < _MOST_NAMES or speech.name in seen:
            seen[speech.name] += 1
    again = {name for name, count in seen.items() if count > 1}
    # Beside certain speakers a name without a time is most likely none; of two or more that come again a talk is made.
    speakers = sure or (again if len(again) > 1 else set())
    day_first = first_parts > 12 or (second_parts <= 12 and not american)
    unclear = first_parts and first_parts <= 12 and second_parts <= 12
    order = "the day first" if day_first else "the month first"
    return speakers, day_first, f"dates such as 3/4/2025 were read with {order}; nothing in it tells" if unclear else ""


def _speech(line: str) -> _Speech | None:
    line = line.strip(_DIRECTION).rstrip()
    for pattern in (_HEADING, _BOLD, _ANGLE, _COLON):
        found = pattern.match(line)
        if found is None:
            continue
        groups = found.groupdict()
        name = groups["name"].strip().rstrip(":").strip()
        day = next((value for key, value in groups.items() if key.startswith("day") and value), "")
        clock = next((value for key, value in groups.items() if key.startswith("clock") and value), "")
        if pattern is _COLON and (groups.get("said") or "").startswith("//"):
            return None
        known = name.casefold() in ROLES
        marked = pattern in (_HEADING, _BOLD)
        if not name or (marked and not known and not (day or clock)):
            return None
        return _Speech(
            name, groups.get("said") or "", day, clock, (known and marked) or bool(clock) or pattern is _ANGLE
        )
    return None


def _only_day(line: str) -> str:
    found = _DATE.match(line.strip(_DIRECTION).strip())
    return found["day"] if found else ""


class _Log:
    """Reads the turns of one log."""

    def __init__(self, text: Text, zone: tzinfo | None, speakers: set[str], day_first: bool) -> None:
        self._text, self._zone, self._speakers, self._day_first = text, zone, speakers, day_first
        self._id = PurePath(text.name).stem
        self._identifiers = Identifiers()
        self._day: tuple[int, int, int] | None = None
        self._modified = datetime.fromtimestamp(text.modified, timezone.utc).astimezone(zone)

    def read(self) -> Iterator[Item]:
        turn: _Turn | None = None
        lines: list[Line] = []
        before: list[int] = []
        begins = True
        for found in self._text.lines():
            if isinstance(found, LeftOut):
                yield found
                continue
            number, line = found
            if day := _only_day(line):
                self._day = self._read_day(day) or self._day
                continue
            speech = _speech(line)
            if speech is None or speech.name not in self._speakers:
                if turn is not None:
                    turn.said.append(line)
                elif line.strip():
                    before.append(number)
                continue
            if turn is not None:
                lines += self._line(turn)
            if len(lines) >= _PIECE:
                yield Conversation(self._id, self._text.name, lines, at=self._modified, begins=begins)
                lines, begins = [], False
            at = self._when(speech)
            turn = _Turn(number, speech.name, at, f"{self._day} {speech.clock}", [speech.said])
        if turn is not None:
            lines += self._line(turn)
        if lines:
            yield Conversation(self._id, self._text.name, lines, at=self._modified, begins=begins)
        if before:
            yield LeftOut(f"lines {before[0]} to {before[-1]}", "they stand before the first speaker", len(before))

    def _line(self, turn: _Turn) -> list[Line]:
        content = "\n".join(turn.said).strip().removesuffix("---").strip()
        role = ROLES.get(turn.name.casefold(), "user")
        name = "" if turn.name.casefold() in ROLES else turn.name
        id_ = self._identifiers.of(self._id, role, name, content, turn.written)
        message = {"role": role, "name": name, "content": content, "id": id_, "observed_at": turn.at}
        return [Line(f"line {turn.number}", message)]

    def _read_day(self, written: str) -> tuple[int, int, int] | None:
        first, second, third = (int(part) for part in re.split(r"[./-]", written))
        if len(written.split("-")[0]) == 4:
            year, month, day = first, second, third
        else:
            day_first = self._day_first or "." in written
            day, month = (first, second) if day_first else (second, first)
            year = third if third > 99 else 2000 + third
        try:
            datetime(year, month, day)
        except ValueError:
            return None
        return year, month, day

    def _when(self, speech: _Speech) -> datetime | None:
        """When a turn was said, None where the log does not tell."""
        if speech.day:
            self._day = self._read_day(speech.day)
        if self._day is None:
            return None
        clock = re.match(r"(\d{1,2}):(\d\d)(?::(\d\d))?(?:\.\d+)?\s?([ap])?[.m]*\s?(.*)", speech.clock, re.IGNORECASE)
        hour, minute, second = (int(part or 0) for part in clock.groups()[:3]) if clock else (0, 0, 0)
        if clock and clock[4]:
            hour = hour % 12 + (12 if clock[4].lower() == "p" else 0)
        year, month, day = self._day
        zone = clock[5].strip().upper().replace("UTC", "Z") if clock else ""
        zone = f"{zone[:3]}:{zone[-2:]}" if zone[:1] in ("+", "-") else zone.replace("Z", "+00:00")
        try:
            written = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{zone}"
            return instants.local(*instants.read(written, self._zone, "a time"))
        except InvalidInputError:
            return None
