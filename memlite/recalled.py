"""What memlite itself wrote, when it comes back in a message: the lines of `context`, and facts word for word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import apsw

from memlite import context, facts, messages, worth
from memlite.messages import NewMessage
from memlite.records import Skipped
from memlite.scopes import StoredScope
from memlite.sentences import LONGEST, split

_TAG = r"</?[A-Za-z][\w:-]*>"
_PIECES = re.compile(rf"(\r?\n|{_TAG})")  # lines, and what prompts put around them: <memory>
_BULLET = re.compile(rf"\s*{context.BULLET}(?=\S)")
_QUOTED = re.compile(r'"([^"\n]+)"')
_EMPHASIS = re.compile(r"(?<!\w)[*_`~]+(?=\w)|(?<=[\w.,!?])[*_`~]+(?!\w)")
_NOT_WORDS = re.compile(rf"{_TAG}|[\W\d_]+")

# Where a fact may begin within a sentence: behind a sign or a word that leads to it, and at any capital, for most begin
# with a name; and where it may end. Strings, not compiled patterns: few processes ever need them.
_FROM = (
    r"^|(?:[:;,(\[\"“«]|\s[-–—]|\b(?:[Tt]hat|dass|dat|que|che)\b)\s+|[：，、；（「]|"
    r"(?<=[\s(\[\"“«])(?=[^\W\d_a-zß-öø-ÿ])"
)
_TO = (
    r"(?=[.,:;!?…)\]\"”»](?:\W|$))|(?=[。，、；：！？）」])|(?=\s[-–—(\[])|"
    r"(?=\s(?:so|and|but|or|because|since|which|who|if|when|then|though|although|while|as|right|too|already|anyway)\b)|$"
)
_DAY = r"[.!?]? \(\d{4}-\d\d-\d\d(?:, [^()]*)?\)"  # what `context` writes behind a fact
_MOST_ENDS = 24  # places of a sentence at which a fact may begin, and may end: no sentence may cost its length squared
_LEFT_OUT = "…"
_LEAST_WORDS = 2  # words of weight; with fewer the rest of a sentence only leads to what was recalled
_LEAST_CHARACTERS = 5  # the same in a script without spaces; and of a fact within a sentence there


@dataclass(slots=True)
class Recalled:
    """What a message repeats. own: what is left of it, its own words; None where that is all.

    facts: row ids of the facts that it repeats. skipped: each piece that is not its own, with the id of what it
    repeats.
    """

    own: str | None = None
    facts: set[int] = field(default_factory=set)
    skipped: list[Skipped] = field(default_factory=list)


def read(db: apsw.Connection, scope: StoredScope, message: NewMessage) -> Recalled:
    """Tell what a message repeats from its own words.

    A line of `context` is known in anybody's message, whichever agent of this user it is of. A fact word for word, as a
    sentence, part of one or a quoted string, is known where the root has it; in a user's message only as a bullet of a
    list, for a user may say it again.
    """
    found = _Reader(db, scope, message.role == "user")
    pieces = _PIECES.split(message.content)
    own: list[str] = []
    for at, piece in enumerate(pieces):
        left = piece if at % 2 else found.own(piece)
        if piece.strip() and not left.strip() and own and own[-1].endswith("\n"):
            own.pop()  # a line that is gone leaves no empty one
        else:
            own.append(left)
    if found.recalled.skipped:
        said = "".join(own).strip()
        found.recalled.own = _without_lead(said) if _NOT_WORDS.sub("", said) else ""
    return found.recalled


def _without_lead(text: str) -> str:
    """A text that stood before what was recalled, without a last sentence that only leads to it."""
    *before, last = split(text) or [""]
    return " ".join(before) if last.endswith((":", "：")) and _leads(last) else text


def _leads(text: str) -> bool:
    """Whether what is left of a text only leads to what was recalled: "What you know:", "As I remember: …"."""
    stems = worth.stems(text)
    return sum(len(stem) > 1 for stem in stems) < _LEAST_WORDS and len(stems) < _LEAST_CHARACTERS


class _Reader:
    """Reads one message piece by piece."""

    def __init__(self, db: apsw.Connection, scope: StoredScope, user_says: bool) -> None:
        self._db, self._user_says = db, user_says
        self._root = "s.root_id = ?", (scope.root_id,)
        # `context` shows all agents of a user.
        self._user = ("s.user_key = ?", (scope.user_key,)) if scope.user_key else self._root
        self.recalled = Recalled()

    def own(self, piece: str) -> str:
        """A piece of a message without what was recalled."""
        for line in context.recalled(piece.rstrip()):
            behind = piece[line.end :]
            if not (behind.strip() and self._user_says) and self._is_line(line, piece):
                return _without_lead(piece[: line.start]) + self.own(behind).lstrip()
        bullet = _BULLET.match(piece)
        if bullet and self._is_fact(piece[bullet.end() :]):
            return ""
        if self._user_says:
            return piece
        left = _QUOTED.sub(lambda quoted: '""' if self._is_fact(quoted[1]) else quoted[0], piece)
        said = split(_EMPHASIS.sub("", _BULLET.sub("", left, count=1) if bullet else left))
        kept: list[str] = []
        for at, sentence in enumerate(said):
            if at and kept[-1] != said[at - 1]:
                sentence = re.sub(rf"^{_DAY}\s*", "", f" {sentence}").strip()
            kept.append(self._without_facts(sentence))
        return left if kept == said else " ".join(filter(None, kept))

    def _without_facts(self, sentence: str) -> str:
        """A sentence with … in the place of each fact within it; "" where the rest only leads to them."""
        if self._is_fact(sentence):
            return ""
        kept, at = "", 0
        for start, end in self._facts_within(sentence):
            kept += sentence[at:start] + _LEFT_OUT
            at = end
        kept += sentence[at:]
        return "" if at and _leads(kept) else kept

    def _facts_within(self, sentence: str) -> Iterator[tuple[int, int]]:
        """Where the facts stand in it, the day behind them included; of several that begin alike the longest."""
        starts = sorted({found.end() for found in re.finditer(_FROM, sentence)})[:_MOST_ENDS]
        ends = [found.start() for found in re.finditer(_TO, sentence)][:_MOST_ENDS]
        spans = {(a, b): sentence[a:b] for a in starts for b in ends if _may_be_fact(sentence[a:b])}
        known = facts.with_texts(self._db, *self._root, spans.values())
        last = 0
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            if start >= last and (found := known.get(spans[start, end])):
                self._recall(spans[start, end], found)
                day = re.compile(_DAY).match(sentence, end)
                last = day.end() if day else end
                yield start, last

    def _is_line(self, line: context.Recalled, piece: str) -> bool:
        if line.quoted and not self._says(line.quoted):
            return False  # somebody has written more in brackets
        found = facts.with_text(self._db, *self._user, line.text)
        said = None if found else self._says(line.text)
        if not (found or said):
            return False
        older = facts.with_text(self._db, *self._user, line.before) if line.before else None
        self.recalled.facts |= {row_id for row_id, _ in filter(None, (found, older))}
        self._skip(piece[line.start : line.end], found[1] if found else said)
        return True

    def _says(self, text: str) -> str | None:
        """The id of the message of which this is who said what."""
        speaker, _, said = text.partition(": ")
        return messages.with_text(self._db, *self._user, speaker, said)

    def _is_fact(self, text: str) -> bool:
        found = facts.with_text(self._db, *self._root, text)
        if found:
            self._recall(text, found)
        return found is not None

    def _recall(self, text: str, found: tuple[int, str]) -> None:
        self.recalled.facts.add(found[0])
        self._skip(text, found[1])

    def _skip(self, text: str, id_: str | None) -> None:
        self.recalled.skipped.append(Skipped(text.strip(), "memlite recalled it", id_))


def _may_be_fact(text: str) -> bool:
    """Whether a part of a sentence is long enough that it stands there by no accident, and no longer than a fact."""
    if len(text) > LONGEST or not text.strip():
        return False
    return " " in text.strip() or (not text.isascii() and len(text) >= _LEAST_CHARACTERS)
