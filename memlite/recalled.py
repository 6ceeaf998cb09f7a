"""What memlite itself wrote, when it comes back in a message: the lines of `context`, and facts word for word."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import apsw

from memlite import context, facts, messages
from memlite.messages import NewMessage
from memlite.prompt import one_line
from memlite.records import Skipped
from memlite.scopes import StoredScope
from memlite.sentences import LONGEST, split

_TAG = r"</?[A-Za-z][\w:-]*>"
_PIECES = re.compile(rf"(\r?\n|{_TAG})")  # lines, and what prompts put around them: <memory>
_BULLET = re.compile(rf"\s*{context.BULLET}(?=\S)")
_QUOTED = re.compile(r'"([^"\n]+)"')
# With an end, or a long run of such signs would take time that grows with its square.
_EMPHASIS = re.compile(r"(?<!\w)[*_`~]{1,8}(?=\w)|(?<=[\w.,!?])[*_`~]{1,8}(?!\w)")
_SIGNS = frozenset("*_`~")
_NOT_WORDS = re.compile(rf"{_TAG}|[\W\d_]+")
_MOST_LINES = 50  # of `context` in one line of a message
_MOST_SENTENCES = 3  # of one fact

# The words that lead to what is recalled, and from one such thing to the next; whatever else is said stays its own.
_LEADING = frozenset(
    """a about according also and as because before both earlier fact facts following for from given have i in is it
    know known me memories memory mentioned my note noted notes now of ok okay on our recall remember remembered
    reminder right said saved say says since so stored sure that the these things this to told we well what which yes
    you your user's ich weiß dass du sagtest und je sais que tu as dit et sé dijiste y so che mi hai detto e sei você
    disse ik weet dat je zei en 我记得 我知道 你说过 覚えています 기억하기로""".split()
)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
# Behind these a fact may begin whatever stands before; elsewhere in a sentence only where that but leads to it.
_OPENS = r"[:：(\[\"“«「（][\s*_`~]*"
# Where it may end. Strings, not compiled patterns: few processes ever need them.
_ENDS = (
    r"(?=[*_`~]*[.,:;!?…)\]\"”»](?:\W|$))|(?=[。，、；：！？）」])|(?=\s[-–—(\[])|[*_`~]*$|"
    r"(?=\s(?:so|and|but|or|because|since|which|who|if|when|then|though|although|while|as|right|too|already)\b)"
)
_TURNS = r"[\s,;–—-]*(?:but|not|no longer|no more|any ?more|until|instead|however|is (?:wrong|false|not))\b"
_DAY = r"[.!?]? \(\d{4}-\d\d-\d\d(?:, [^()]*)?\)"  # what `context` writes behind a fact
_MOST_ENDS = 24  # places of a sentence at which a fact may begin, and may end: no sentence may cost its length squared
_LEAST_CHARACTERS = 5  # of a fact within a sentence in a script without spaces


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

    A line of `context` is known in anybody's message, whichever agent of this user it is of. A fact word for word, as
    sentences, a quoted string, or part of a sentence that but leads to it ("As I remember, ..."), is known where the
    root has it; in a user's message only as a bullet of a list, for a user may say it again.
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
    """A text that stood before what was recalled, without a last sentence that only leads to it: "What you know:"."""
    *before, last = split(text) or [""]
    return " ".join(before) if last.endswith((":", "：")) and _leads(last) else text


def _leads(text: str) -> bool:
    """Whether a text has no word of its own."""
    return all(word.casefold() in _LEADING for word in _WORD.findall(text))


class _Reader:
    """Reads one message piece by piece."""

    def __init__(self, db: apsw.Connection, scope: StoredScope, user_says: bool) -> None:
        self._db, self._user_says = db, user_says
        self._root = "s.root_id = ?", (scope.root_id,)
        # `context` shows all agents of a user.
        self._user = ("s.user_key = ?", (scope.user_key,)) if scope.user_key else self._root
        # Of the whole file: of the root alone it would take a look into each of its runs.
        self._any_facts = db.execute("SELECT 1 FROM facts LIMIT 1").get is not None
        self.recalled = Recalled()

    def own(self, piece: str) -> str:
        """A piece of a message without what was recalled."""
        if piece.strip() == context.NOTE:
            self._skip(piece, None)
            return ""
        kept = ""
        for _ in range(_MOST_LINES):
            line = next((line for line in context.recalled(piece.rstrip()) if self._is_line(line, piece)), None)
            if line is None:
                break
            kept += _without_lead(piece[: line.start])
            piece = piece[line.end :].lstrip()
        return kept + self._without_facts(piece)

    def _is_line(self, line: context.Recalled, piece: str) -> bool:
        if piece[line.end :].strip() and self._user_says:
            return False
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
        known = messages.with_text(self._db, *self._user, speaker, said)
        if known or not (said.startswith(context.CUT) or said.endswith(context.CUT)):
            return known
        part = said.strip(f"{context.CUT} ")
        found = messages.with_words(self._db, *self._user, speaker, part)
        return next((uid for uid, whole in found if part in one_line(whole)), None)

    def _without_facts(self, piece: str) -> str:
        if not self._any_facts:
            return piece
        bullet = _BULLET.match(piece)
        text = piece[bullet.end() :] if bullet else piece
        if not text.strip() or (self._user_says and not bullet):
            return piece
        known = self._known([text] if self._user_says else [text, *_QUOTED.findall(text)])
        if self._take(known, text):
            return ""
        if self._user_says:
            return piece
        left = _QUOTED.sub(lambda found: '""' if self._take(known, found[1]) else found[0], text)
        said = split(left)
        kept = self._without_sentences(said)
        return " ".join(kept) if kept != said else piece if left == text else left

    def _without_sentences(self, said: list[str]) -> list[str]:
        """Sentences without the facts that they are, and those that they have within them."""
        runs = {
            (at, at + more): " ".join(said[at : at + more])
            for at in range(len(said))
            for more in range(min(_MOST_SENTENCES, len(said) - at), 0, -1)
        }
        known = self._known(runs.values())
        kept: list[str] = []
        at, cut = 0, False
        while at < len(said):
            ends = range(min(len(said), at + _MOST_SENTENCES), at, -1)
            run = next((to for to in ends if self._take(known, runs[at, to])), None)
            if run:
                at, cut = run, True
                continue
            # What `context` writes behind a fact stands in the next sentence where the fact ends with a stop.
            sentence = re.sub(rf"^{_DAY}\s*", "", f" {said[at]}").lstrip() if cut else said[at]
            left = self._without_parts(sentence)
            cut = left != sentence
            kept += [left] if left else []
            at += 1
        return kept

    def _without_parts(self, sentence: str) -> str:
        """A sentence with … in the place of each fact within it; "" where nothing else is said."""
        kept, at = "", 0
        for start, end in self._parts(sentence):
            kept += sentence[at:start] + context.CUT
            at = end
        kept += sentence[at:]
        return "" if at and _leads(kept) else kept

    def _parts(self, sentence: str) -> Iterator[tuple[int, int]]:
        """Where the facts stand in a sentence, the day behind them included; of those that begin alike the longest."""
        ends = [found.end() for found in re.finditer(_ENDS, sentence)][:_MOST_ENDS]
        ends = [end for end in ends if not re.compile(_TURNS).match(sentence, end)]
        opened = [found.end() for found in re.finditer(_OPENS, sentence)]
        starts = sorted({*_led_to(sentence, 0), *(s for end in ends for s in _led_to(sentence, end)), *opened})
        spans = [(a, b) for a in starts[:_MOST_ENDS] for b in reversed(ends) if _may_be_fact(sentence[a:b])]
        known = self._known(sentence[a:b] for a, b in spans)
        last = 0
        for start, end in spans if known else ():
            led = start >= last and (start in opened or start in _led_to(sentence, last))
            if led and self._take(known, sentence[start:end]):
                day = re.compile(_DAY).match(sentence, end)
                last = day.end() if day else end
                yield start, last

    def _known(self, texts: Iterable[str]) -> dict[str, tuple[int, str]]:
        """Those of the texts that are facts of the root, as they are or without the signs of emphasis in them."""
        # Only where there is a sign: of a long sentence there are hundreds of texts.
        plain = {text: text if _SIGNS.isdisjoint(text) else _EMPHASIS.sub("", text) for text in texts}
        found = facts.with_texts(self._db, *self._root, {*plain, *plain.values()})
        return {text: found.get(text) or found[bare] for text, bare in plain.items() if text in found or bare in found}

    def _take(self, known: dict[str, tuple[int, str]], text: str) -> bool:
        if text not in known:
            return False
        self.recalled.facts.add(known[text][0])
        self._skip(text, known[text][1])
        return True

    def _skip(self, text: str, id_: str | None) -> None:
        self.recalled.skipped.append(Skipped(text.strip(), "memlite recalled it", id_))


def _led_to(sentence: str, at: int) -> list[int]:
    """Where a fact may begin behind `at`: at the next word, and behind each that only leads to one."""
    found: list[int] = []
    for word in _WORD.finditer(sentence, at):
        found.append(word.start())
        if word[0].casefold() not in _LEADING:
            break
    return found


def _may_be_fact(text: str) -> bool:
    """Whether a part of a sentence is long enough that it stands there by no accident, and no longer than a fact."""
    if len(text) > LONGEST or not text.strip():
        return False
    return " " in text.strip() or (not text.isascii() and len(text) >= _LEAST_CHARACTERS)
