"""Entities of a root that look like one: by how their names are written, and by what the facts say of them.

Never by vectors: "Maria" and "Mario" are as near to each other as anything.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import apsw

from memlite import facts
from memlite.audit import reading, slots
from memlite.entities import UNKNOWN
from memlite.words import fold

_TITLES = frozenset("mr mrs ms miss dr prof sir herr frau sr sra don dona madame monsieur".split())
# What firms put behind their names. In capitals: "Ana Sá" is no firm.
_FORMS = re.compile(
    r"(?i:inc|ltd|llc|llp|corp|gmbh|sarl|plc|pty|lda)\.?|SAS?|SRL|SPA|BV|NV|AB|AS|OY|AG|KG|S\.A\.|S\.p\.A\.|B\.V\."
)
_IN_TWO = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"})
_LEAST = 7  # letters of a name that one wrong letter leaves to be recognised
_LONGEST = 100  # letters of a name in which a slip is looked for: each is left out once
_MOST_SHARING = 3  # facts, or a twentieth of them, in which a name still tells something of who is meant
_MOST_TEXTS = 200  # facts of an entity that are read
_SAME = re.compile(
    r"\b(?:full name is|real name is|also (?:called|known as)|a\.?k\.?a\b|known as|goes by|short for|nickname(?:d)?|"
    r"stands for|abbreviat\w+)",
    re.IGNORECASE,
)
# What persons do, behind their name: what tells that "Ana", of which nobody has said what it is, is one.
_PERSONAL = (
    "works|lives|likes|loves|hates|prefers|eats|drinks|plays|studies|moved|married|wants|hopes|knows|speaks|owns|"
    "bought|visited|met|called|said|told|plans|thinks|enjoys|teaches|wrote|sings|runs|swims|cooks|is allergic|"
    "is married|was born|leads|manages|drives|feels|joined|adopted|collects|paints"
)


@dataclass(slots=True)
class Named:
    """An entity with the row ids of the visible facts that mention it."""

    id: int
    uid: str
    root: int
    name: str
    type: str
    facts: set[int] = field(default_factory=set)

    @property
    def parts(self) -> list[str]:
        """The words of a name, folded, without a title and what firms put behind theirs."""
        written = self.name.replace(",", " ").split()
        while len(written) > 1 and _FORMS.fullmatch(written[-1]):
            written = written[:-1]
        words = [word for word in re.split(r"[\s.]+", fold(" ".join(written))) if word]
        if len(words) > 1 and (words[0] == "the" or (len(words) > 2 and words[0] in _TITLES)):
            return words[1:]
        return words or [self.name]


@dataclass(frozen=True, slots=True)
class Alike:
    """Two entities that look like one: the one that would be kept, the one that would join it, and why."""

    kept: Named
    other: Named
    why: str


def find(db: apsw.Connection, sql: str, bindings: Sequence[object]) -> Iterator[Alike]:
    """Entities that look like one, of the roots that `sql` (alias `s`) admits; each joins one other at most."""
    for named in _load(db, sql, bindings).values():
        if len(named) > 1:
            yield from _of_root(_Root(db, named))


def _load(db: apsw.Connection, sql: str, bindings: Sequence[object]) -> dict[int, list[Named]]:
    """The entities that visible facts mention, by their roots."""
    rows = db.execute(
        f"""
        SELECT e.id, e.uid, e.root_id, e.name, e.type, f.id
        FROM scopes s JOIN entities e ON e.root_id = s.id
        JOIN mentions m ON m.entity_id = e.id JOIN facts f ON f.id = m.fact_id
        WHERE {facts.KEPT} AND {sql} ORDER BY e.id
        """,
        bindings,
    )
    found: dict[int, Named] = {}
    for id_, uid, root, name, type_, fact_id in rows:
        found.setdefault(id_, Named(id_, uid, root, name, type_)).facts.add(fact_id)
    by_root: dict[int, list[Named]] = defaultdict(list)
    for entity in found.values():
        by_root[entity.root].append(entity)
    return by_root


class _Root:
    """The entities of one root, and what its facts say that mention them."""

    def __init__(self, db: apsw.Connection, named: Sequence[Named]) -> None:
        self._db = db
        self.named = named
        self.mentioned: dict[int, set[int]] = defaultdict(set)
        for entity in named:
            for fact in entity.facts:
                self.mentioned[fact].add(entity.id)
        self._sizes = {entity.id: len(entity.facts) for entity in named}

    def texts(self, ids: set[int]) -> list[tuple[str, str]]:
        """What facts say, and who says it: of very many the newest."""
        listed = json.dumps(sorted(ids)[-_MOST_TEXTS:])
        rows = "SELECT text, attributed_to FROM facts WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
        return list(self._db.execute(rows, (listed,)))

    def told_apart(self, one: Named, other: Named) -> bool:
        """Whether a fact speaks of both, as of two, or the facts give them two homes, ages, employers."""
        if both := one.facts & other.facts:
            return not any(_SAME.search(text) for text, _ in self.texts(both))
        having = [
            {slot.name: slot for text, by in self.texts(entity.facts) for slot in slots.read(reading.read(text, by), {})
             if slot.subject == fold(entity.name)} for entity in (one, other)
        ]  # fmt: skip
        return any(
            slot.sort == (theirs := having[1][name]).sort and slots.differ(slot.value, theirs.value, slot.sort)
            for name, slot in having[0].items()
            if name in having[1]
        )

    def shared(self, one: Named, other: Named) -> str | None:
        """The name of another entity of which facts about both speak, and few others do."""
        most = max(_MOST_SHARING, len(self.mentioned) // 20)
        beside = [{id_ for fact in entity.facts for id_ in self.mentioned[fact]} for entity in (one, other)]
        shared = {id_ for id_ in beside[0] & beside[1] if self._sizes[id_] <= most} - {one.id, other.id}
        return next((entity.name for entity in self.named if entity.id in shared), None)

    def is_person(self, entity: Named) -> bool:
        """Whether it is a person, by its type or, where nobody has told, by what it does."""
        if entity.type != UNKNOWN:
            return entity.type == "person"
        does = re.compile(rf"(?<!\w){re.escape(entity.name)} (?:{_PERSONAL})\b")
        return any(does.search(text) for text, _ in self.texts(entity.facts))


def _of_root(root: _Root) -> Iterator[Alike]:
    joined: set[int] = set()
    for one, other, why in (*_spelt(root), *_initials(root), *_surnames(root), *_letters(root)):
        if one.id in joined or other.id in joined or not _typed_alike(one, other) or root.told_apart(one, other):
            continue
        kept, second = sorted((one, other), key=_keeping)
        joined.add(second.id)
        yield Alike(kept, second, why)


def _keeping(entity: Named) -> tuple[int, int, int]:
    """The one that is kept: the fuller name, of two as full the more mentioned one, the older one."""
    spelt_out = sum(len(part) > 1 for part in entity.parts)
    return -spelt_out, -len(entity.facts), entity.id


def _typed_alike(one: Named, other: Named) -> bool:
    return one.type == other.type or UNKNOWN in (one.type, other.type)


_Pair = tuple[Named, Named, str]


def _spelt(root: _Root) -> Iterator[_Pair]:
    """Names that differ in accents, marks, spaces, a title or a firm's form only: Müller and Mueller, J.R. and JR."""
    by_key: dict[str, dict[int, Named]] = defaultdict(dict)
    for entity in root.named:
        for folded in (" ".join(entity.parts), fold(entity.name.casefold().translate(_IN_TWO))):
            by_key[_squashed(folded)][entity.id] = entity
    for key, group in by_key.items():
        # Of one name and several types nobody knows which is meant where nothing is said.
        types = {entity.type for entity in group.values()} - {UNKNOWN}
        titles = {fold(entity.name).split()[0].strip(".") for entity in group.values()} & _TITLES
        if len(key) < 2 or len(types) > 1 or len(titles) > 1:
            continue
        first, *others = sorted(group.values(), key=_keeping)
        yield from ((first, other, "their names are spelt alike") for other in others)


def _squashed(name: str) -> str:
    """A name without what is written or not: "node.js" and "NodeJS"; between digits it counts, and so do + and #."""
    return re.sub(r"(?<!\d)[^\w+#]|[^\w+#](?!\d)|_", "", name)


def _initials(root: _Root) -> Iterator[_Pair]:
    """A. Silva and Ana Silva, Ana M. Silva and Ana Silva: where only one name can be meant."""
    full: dict[tuple[str, ...], list[Named]] = defaultdict(list)
    for entity in root.named:
        first, *rest = entity.parts
        if rest and len(first) > 1:
            for key in ((first[0], *rest), (first, rest[-1])):
                full[key].append(entity)
    for entity in root.named:
        first, *rest = entity.parts
        if rest and len(first) == 1 and len(rest[-1]) > 1:
            candidates = full[tuple(entity.parts)]
        elif len(rest) == 2 and len(rest[0]) == 1:
            candidates = [each for each in full[(first, rest[1])] if each.parts == [first, rest[1]]]
        else:
            continue
        if len(candidates) == 1 and {entity.type, candidates[0].type} <= {"person", UNKNOWN}:
            yield entity, candidates[0], "one has an initial for a name of the other, and no other name fits"


def _surnames(root: _Root) -> Iterator[_Pair]:
    """Ana and Ana Silva: persons, where no other Ana has a surname and facts about both speak of a third."""
    full: dict[str, list[Named]] = defaultdict(list)
    for entity in root.named:
        if len(entity.parts) > 1:
            full[entity.parts[0]].append(entity)
    for entity in root.named:
        if len(entity.parts) != 1 or len(candidates := full[entity.parts[0]]) != 1:
            continue
        (other,) = candidates
        if entity.facts & other.facts:
            yield entity, other, "a fact says that they are one"  # or it tells them apart, which is looked at for all
        elif root.is_person(entity) and root.is_person(other) and (shared := root.shared(entity, other)):
            why = f"one name lacks a surname that only the other one has, and facts about both speak of {shared}"
            yield entity, other, why


def _letters(root: _Root) -> Iterator[_Pair]:
    """Feedzai and Feedzay: one letter, but for a digit and the last of Maria and Mario, in a name told of once."""
    by_rest: dict[str, list[tuple[str, Named]]] = defaultdict(list)
    for entity in root.named:
        name = " ".join(entity.parts)
        if _LEAST <= len(name) <= _LONGEST:
            for rest in {name, *(name[:at] + name[at + 1 :] for at in range(len(name)))}:
                by_rest[rest].append((name, entity))
    seen: set[tuple[int, int]] = set()
    for group in by_rest.values():
        for at, (name, entity) in enumerate(group[:_MOST_ALIKE]):
            for other_name, other in group[at + 1 : _MOST_ALIKE]:
                pair = (entity.id, other.id)
                if pair in seen or min(len(entity.facts), len(other.facts)) > 1 or not _is_slip(name, other_name):
                    continue
                seen.add(pair)
                if shared := root.shared(entity, other):
                    yield entity, other, f"their names differ in one letter, and facts about both speak of {shared}"


_MOST_ALIKE = 20  # names one letter apart from a common rest; more are no slips of the pen


def _is_slip(one: str, other: str) -> bool:
    """Whether two names differ in one letter by which no two people are told apart."""
    if one == other or one[0] != other[0] or abs(len(one) - len(other)) > 1:
        return False
    at = next((n for n, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
    longer, shorter = sorted((one, other), key=len, reverse=True)
    if longer[at + 1 :] != (shorter[at:] if len(longer) > len(shorter) else shorter[at + 1 :]):
        return False
    changed = {longer[at : at + 1], shorter[at : at + 1] if len(longer) == len(shorter) else ""} - {""}
    ends_word = longer[at + 1 : at + 2] in ("", " ")
    return all(map(str.isalpha, changed)) and not (ends_word and changed & set("aeiouysn"))
