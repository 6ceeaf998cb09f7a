"""Skeletons: hand-written conversations with slots, and the facts to be kept of them. README.md says how one reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slots import DATE_SLOTS, TYPES, VALUES

from memlite.answer import ENTITY_TYPES

SPEAKERS = "ABCUST"
SLOT = re.compile(r"\{([A-Za-z_]+\d?)\}")
_BEFORE_A_DATE = re.compile(rf"\b(?:since|until|till|from|during) \{{(?:{'|'.join(DATE_SLOTS)})\d?\}}")
MARKED = re.compile(r"(?:\(([^()<>]+)\)|([^\s<>()]+))<([a-z]+)>")  # (Google Docs)<product>, Netflix<product>


@dataclass(frozen=True)
class Said:
    """One message: who says it, and what."""

    speaker: str
    text: str


@dataclass(frozen=True)
class Target:
    """One fact: the numbers of the new messages that say it, and of the known facts it replaces or continues."""

    sources: tuple[int, ...]
    text: str
    replaces: tuple[int, ...] = ()
    continues: tuple[int, ...] = ()


@dataclass
class Skeleton:
    name: str
    choices: dict[str, tuple[str, str]] = field(default_factory=dict)  # slot: its values with |, its entity type
    known: list[str] = field(default_factory=list)
    window: list[Said] = field(default_factory=list)
    messages: list[Said] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)

    @property
    def speakers(self) -> set[str]:
        return {said.speaker for said in (*self.window, *self.messages)}

    def texts(self) -> list[str]:
        return [*self.known, *(s.text for s in (*self.window, *self.messages)), *(t.text for t in self.targets)]


def read(paths: Sequence[Path]) -> tuple[list[Skeleton], list[str]]:
    """The skeletons of the files, and what is wrong with them, a sentence each with its place."""
    skeletons: list[Skeleton] = []
    complaints: list[str] = []
    names: set[str] = set()
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            where = f"{path.name}:{number}"
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            if line.startswith("=="):
                skeletons.append(Skeleton(name := line.strip("= ")))
                if name in names:
                    complaints.append(f"{where}: a second skeleton called {name}")
                names.add(name)
            elif not skeletons:
                complaints.append(f"{where}: a line before the first ==")
            else:
                try:
                    _add(skeletons[-1], line)
                except ValueError as error:
                    complaints.append(f"{where}: {error}")
    for skeleton in skeletons:
        complaints += [f"{skeleton.name}: {each}" for each in _mistakes(skeleton)]
    return skeletons, complaints


def _add(skeleton: Skeleton, line: str) -> None:
    mark, rest = line[0], line[1:].strip()
    if mark == "$":
        slot, _, values = rest.partition(":")
        name, _, kind = slot.strip().partition("/")
        if len(values.split("|")) < 2:
            raise ValueError(f"${name} needs values between |")
        skeleton.choices[name.strip()] = (values, TYPES.get(kind.strip(), kind.strip()))
    elif mark == "?":
        skeleton.known.append(rest)
    elif mark == "-":
        skeleton.window.append(_said(rest))
    elif mark == ">":
        skeleton.targets.append(_target(rest))
    else:
        skeleton.messages.append(_said(line))


def _said(text: str) -> Said:
    speaker, colon, said = text.partition(":")
    if not colon or speaker.strip() not in tuple(SPEAKERS):
        raise ValueError(f"expected a speaker of {SPEAKERS} and a colon, found {text[:40]!r}")
    return Said(speaker.strip(), said.strip().replace("\\n", "\n"))


def _target(line: str) -> Target:
    parts = [part.strip() for part in line.split("|")]
    if len(parts) < 2 or not re.fullmatch(r"\d( ?[, ] ?\d)*", parts[0]):
        raise ValueError(f"expected > numbers | text, found {line[:40]!r}")
    links: dict[str, tuple[int, ...]] = {}
    for part in parts[2:]:
        found = re.fullmatch(r"(replaces|continues) (\d(?:[ ,]+\d)*)", part)
        if not found:
            raise ValueError(f"expected replaces or continues and numbers, found {part!r}")
        links[found[1]] = tuple(map(int, re.findall(r"\d", found[2])))
    return Target(
        tuple(map(int, re.findall(r"\d", parts[0]))), parts[1], links.get("replaces", ()), links.get("continues", ())
    )


def base(slot: str) -> str:
    return slot.rstrip("0123456789")


def kind(skeleton: Skeleton, slot: str) -> str:
    """The entity type of what a slot holds, or ''."""
    chosen = choices(skeleton, slot)
    return chosen[1] if chosen else TYPES.get(base(slot), "")


def choices(skeleton: Skeleton, slot: str) -> tuple[str, str] | None:
    """The values between | of a slot of the skeleton's own, and their type; {film2} is another {film}."""
    return skeleton.choices.get(slot) or skeleton.choices.get(base(slot))


def _mistakes(skeleton: Skeleton) -> list[str]:
    found = []
    if not skeleton.messages:
        found.append("it has no message")
    for slot, (_, type_) in skeleton.choices.items():
        if type_ and type_ not in ENTITY_TYPES:
            found.append(f"${slot}: {type_!r} is no type")
    for text in skeleton.texts():
        for slot in SLOT.findall(text):
            known = choices(skeleton, slot) or base(slot) in VALUES or base(slot) in DATE_SLOTS
            if not known and slot not in tuple(SPEAKERS):
                found.append(f"the slot {{{slot}}} does not exist")
        if text.count("[") != text.count("]"):
            found.append(f"a bracket without its other in {text[:60]!r}")
    for target in skeleton.targets:
        if max(target.sources) > len(skeleton.messages) or min(target.sources) < 1:
            found.append(f"there is no message {max(target.sources)}")
        if any(number > len(skeleton.known) or number < 1 for number in (*target.replaces, *target.continues)):
            found.append("it replaces or continues a known fact that is not there")
        for match in MARKED.finditer(target.text):
            if match[3] not in ENTITY_TYPES:
                found.append(f"{match[3]!r} is no type")
        if "[" in target.text or "|" in target.text:
            found.append(f"a fact has no alternatives: {target.text[:60]!r}")
        if found_ := _BEFORE_A_DATE.search(target.text):
            found.append(f"a date slot brings its own preposition: {found_[0]!r}")
        if not re.search(r"[.!?][\"”)]?$", target.text):
            found.append(f"a fact ends with a full stop: {target.text[:60]!r}")
    return found
