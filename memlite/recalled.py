"""What memlite itself wrote, when it comes back in a message: the lines of `context`, and facts word for word."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import apsw

from memlite import context, facts, messages
from memlite.messages import NewMessage
from memlite.records import Skipped
from memlite.scopes import StoredScope
from memlite.sentences import split

_TAG = r"</?[A-Za-z][\w:-]*>"
_PIECES = re.compile(rf"(\r?\n|{_TAG})")  # lines, and what prompts put around them: <memory>
_BULLET = re.compile(rf"\s*{context.BULLET}(?=\S)")
_QUOTED = re.compile(r'"([^"\n]+)"')
_NOT_WORDS = re.compile(rf"{_TAG}|[\W\d_]+")


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
    sentence or a quoted string, is known where the root has it; in a user's message only as a bullet of a list, for a
    user may say it again.
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
        found.recalled.own = said if _NOT_WORDS.sub("", said) else ""
    return found.recalled


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
            if self._is_line(line, piece):
                return piece[: line.start]
        bullet = _BULLET.match(piece)
        if bullet and self._is_fact(piece[bullet.end() :]):
            return ""
        if self._user_says:
            return piece
        left = _QUOTED.sub(lambda quoted: '""' if self._is_fact(quoted[1]) else quoted[0], piece)
        said = split(_BULLET.sub("", left, count=1) if bullet else left)
        kept = [sentence for sentence in said if not self._is_fact(sentence)]
        return left if len(kept) == len(said) else " ".join(kept)

    def _is_line(self, line: context.Recalled, piece: str) -> bool:
        if line.quoted and not self._says(line.quoted):
            return False  # somebody has written more in brackets
        found = facts.with_text(self._db, *self._user, line.text)
        said = None if found else self._says(line.text)
        if not (found or said):
            return False
        older = facts.with_text(self._db, *self._user, line.before) if line.before else None
        self.recalled.facts |= {row_id for row_id, _ in filter(None, (found, older))}
        self._skip(piece[line.start :], found[1] if found else said)
        return True

    def _says(self, text: str) -> str | None:
        """The id of the message of which this is who said what."""
        speaker, _, said = text.partition(": ")
        return messages.with_text(self._db, *self._user, speaker, said)

    def _is_fact(self, text: str) -> bool:
        found = facts.with_text(self._db, *self._root, text)
        if found:
            self.recalled.facts.add(found[0])
            self._skip(text, found[1])
        return found is not None

    def _skip(self, text: str, id_: str | None) -> None:
        self.recalled.skipped.append(Skipped(text.strip(), "memlite recalled it", id_))
