"""The sets that search is measured on: LoCoMo and LongMemEval, read as published or as JSON lines.

A haystack is one long conversation or one user's many; a question counts when the turns that hold its answer are found.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from memlite.bench import read_json, read_lines
from memlite.errors import InvalidInputError

_LOCOMO_TYPES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a haystack; time: when it was said, ISO 8601."""

    id: str
    session: str
    time: str
    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class Haystack:
    """What one question, or many, is asked of. facts: (text, ids of its turns, time), where the set gives them."""

    id: str
    turns: Sequence[Turn]
    facts: Sequence[tuple[str, Sequence[str], str]] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """turns, sessions: ids of those that hold the answer; none where the haystack does not answer it."""

    id: str
    haystack: str
    type: str
    text: str
    turns: frozenset[str]
    sessions: frozenset[str]


@dataclass(frozen=True, slots=True)
class Collected:
    """A set as it was read. unknown: how many ids of evidence name no turn and were left out."""

    name: str
    haystacks: Sequence[Haystack]
    questions: Sequence[Question]
    unknown: int = 0


def read_locomo(path: Path) -> Collected:
    """locomo10.json, or a folder with turns.jsonl, questions.jsonl and perhaps adversarial.jsonl and facts.jsonl."""
    if path.is_dir():
        return _locomo_lines(path)
    haystacks, asked = [], []
    for each in _published(path):
        name, talk = each["sample_id"], each["conversation"]
        numbers = sorted(int(key[8:]) for key in talk if re.fullmatch(r"session_\d+", key))
        turns, times = [], {}
        for number in numbers:
            at = datetime.strptime(talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").isoformat()
            times[number] = at
            turns += [
                Turn(said["dia_id"], str(number), at, said["speaker"], _with_caption(said, "blip_caption"))
                for said in talk[f"session_{number}"]
            ]
        facts = [
            (text, _turn_ids(ids)[0], times[number])
            for number in numbers
            for told in each.get("observation", {}).get(f"session_{number}_observation", {}).values()
            for text, ids in told
        ]
        haystacks.append(Haystack(name, turns, facts))
        asked += [
            (f"{name}_q{number}", name, of["category"], of["question"], of.get("evidence", ()))
            for number, of in enumerate(each["qa"])
        ]
    return _locomo(haystacks, asked)


def _locomo_lines(path: Path) -> Collected:
    if not (path / "turns.jsonl").is_file() or not (path / "questions.jsonl").is_file():
        raise InvalidInputError(f"{path}: expected locomo10.json, or a folder with turns.jsonl and questions.jsonl")
    turns: dict[str, list[Turn]] = {}
    for said in read_lines(path / "turns.jsonl"):
        turn = Turn(said["id"], str(said["session"]), said["time"], said["speaker"], _with_caption(said))
        turns.setdefault(said["conv"], []).append(turn)
    facts: dict[str, list[tuple[str, Sequence[str], str]]] = {}
    for told in _lines_if_any(path / "facts.jsonl"):
        facts.setdefault(told["conv"], []).append((told["fact"], _turn_ids(told["evidence"])[0], told["time"]))
    asked = [
        (of["qid"], of["conv"], of.get("category", 5), of["question"], of["evidence"])
        for name in ("questions", "adversarial")
        for of in _lines_if_any(path / f"{name}.jsonl")
    ]
    return _locomo([Haystack(name, said, facts.get(name, ())) for name, said in turns.items()], asked)


def _locomo(haystacks: Sequence[Haystack], asked: Iterable[tuple[str, str, int, str, object]]) -> Collected:
    """The questions that have evidence. asked: id, haystack, category, text and evidence of each."""
    session_of = {(each.id, turn.id): turn.session for each in haystacks for turn in each.turns}
    questions, unknown = [], 0
    for id_, haystack, category, text, evidence in asked:
        named, unreadable = _turn_ids(evidence)
        turns = frozenset(turn for turn in named if (haystack, turn) in session_of)
        unknown += unreadable + len(set(named) - turns)
        if turns:
            type_ = _LOCOMO_TYPES.get(category, str(category))
            sessions = frozenset(session_of[haystack, turn] for turn in turns)
            questions.append(Question(id_, haystack, type_, text, turns, sessions))
    return Collected("locomo", haystacks, questions, unknown)


_TURN_ID = re.compile(r"D:?0*(\d+):0*(\d+)")


def _turn_ids(given: object) -> tuple[list[str], int]:
    """The ids of turns in a list or a text, and how many others there are that say no turn.

    The published file has several in one text ("D8:6; D9:17"), zeros ("D30:05"), a colon too many ("D:11:26") and
    unfinished ones ("D").
    """
    text = " ".join(map(str, given)) if isinstance(given, (list, tuple)) else str(given or "")
    left = _TURN_ID.sub(" ", text)
    return [f"D{session}:{turn}" for session, turn in _TURN_ID.findall(text)], len(re.findall(r"[\w:]+", left))


def _with_caption(said: Mapping[str, Any], key: str = "image_caption") -> str:
    return " ".join(filter(None, (said["text"], said.get(key))))


def read_longmemeval(path: Path) -> Collected:
    """The published json, or a folder with questions.jsonl and sessions.jsonl.gz.

    Of each session the user's side alone, as its authors measure retrieval. The ids of the sessions are made anew:
    theirs tell which hold the answer.
    """
    if path.is_dir():
        if not (path / "questions.jsonl").is_file() or not (path / "sessions.jsonl.gz").is_file():
            raise InvalidInputError(
                f"{path}: expected LongMemEval's json, or a folder with questions.jsonl and sessions.jsonl.gz"
            )
        packed = path / "sessions.jsonl.gz"
        with gzip.open(packed, "rt", encoding="utf-8") as file:
            sessions = {each["id"]: each["turns"] for each in (read_json(line, str(packed)) for line in file)}
        asked = _longmemeval_lines(read_lines(path / "questions.jsonl"), sessions)
    else:
        asked = _longmemeval_published(_published(path))
    haystacks, questions = [], []
    for id_, type_, text, said, evidence in asked:
        turns = [
            Turn(f"{number}:{at}", str(number), when, role, content)
            for number, (_, when, told) in enumerate(said)
            for at, (role, content) in enumerate(told)
            if role == "user" and content.strip()
        ]
        haystacks.append(Haystack(id_, turns))
        right = frozenset(str(number) for number, (session, _, _) in enumerate(said) if session in evidence)
        exact = frozenset(
            f"{number}:{at}"
            for number, (session, _, told) in enumerate(said)
            for at in evidence.get(session, ())
            if told[at][0] == "user"
        )
        questions.append(Question(id_, id_, type_, text, exact, right))
    return Collected("longmemeval", haystacks, questions)


_Said = list[tuple[str, str, list[tuple[str, str]]]]  # session id, time, turns as (role, text)


def _longmemeval_lines(
    questions: Iterable[Mapping[str, Any]], sessions: Mapping[str, Any]
) -> Iterator[tuple[str, str, str, _Said, dict[str, list[int]]]]:
    for each in questions:
        said: _Said = [(id_, when, [tuple(turn) for turn in sessions[id_]]) for id_, when in each["haystack"]]
        evidence: dict[str, list[int]] = {} if each["abstention"] else {id_: [] for id_ in each["evidence_sessions"]}
        for id_, at in [] if each["abstention"] else each["evidence_turns"]:
            evidence[id_].append(at)
        type_ = "abstention" if each["abstention"] else each["type"]
        yield each["qid"], type_, each["question"], said, evidence


def _longmemeval_published(
    questions: Iterable[Mapping[str, Any]],
) -> Iterator[tuple[str, str, str, _Said, dict[str, list[int]]]]:
    for each in questions:
        without_answer = each["question_id"].endswith("_abs")
        said: _Said = [
            (
                id_,
                datetime.strptime(re.sub(r" \(\w+\)", "", when), "%Y/%m/%d %H:%M").isoformat(),
                [(turn["role"], turn["content"]) for turn in turns],
            )
            for id_, when, turns in zip(
                each["haystack_session_ids"], each["haystack_dates"], each["haystack_sessions"], strict=True
            )
        ]
        evidence: dict[str, list[int]] = {} if without_answer else {id_: [] for id_ in each["answer_session_ids"]}
        for id_, turns in zip(each["haystack_session_ids"], each["haystack_sessions"], strict=True):
            if id_ in evidence:
                evidence[id_] += [at for at, turn in enumerate(turns) if turn.get("has_answer")]
        yield (
            each["question_id"],
            "abstention" if without_answer else each["question_type"],
            each["question"],
            said,
            evidence,
        )


def _published(path: Path) -> list[Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{path}: expected the published json or a folder of JSON lines: {error}") from error
    read = read_json(text, str(path))
    if not isinstance(read, list):
        raise InvalidInputError(f"{path}: expected the published json, a list of objects, found {text[:60]!r}")
    return read


def _lines_if_any(path: Path) -> list[dict[str, Any]]:
    return read_lines(path) if path.exists() else []


def part(collected: Collected, ids: Sequence[str]) -> Collected:
    """The set with these haystacks alone. Raises InvalidInputError."""
    known = [each.id for each in collected.haystacks]
    if unknown := [id_ for id_ in ids if id_ not in known]:
        raise InvalidInputError(f"there is no haystack {', '.join(unknown)}; there are {', '.join(known)}")
    return Collected(
        collected.name,
        [each for each in collected.haystacks if each.id in ids],
        [each for each in collected.questions if each.haystack in ids],
        collected.unknown,
    )


def of_one(collected: Collected) -> tuple[Collected, list[Question]]:
    """The facts of each person alone, who is the user there: the questions about one person that a fact answers, asked
    in the first person, and every second one asked of the next haystack's person instead.
    """
    people, following = _people(collected), _following(collected)
    haystacks, covered = [], {}
    for each in collected.haystacks:
        speaker = {turn.id: turn.speaker for turn in each.turns}
        for name in people[each.id]:
            own = [fact for fact in each.facts if any(speaker.get(turn) == name for turn in fact[1][:1])]
            covered[each.id, name] = {turn for _, turns, _ in own for turn in turns}
            facts = [(_third_person(text, name), (), when) for text, _, when in own]
            haystacks.append(Haystack(f"{each.id}/{name}", (), facts))
    questions, others = [], []
    for question in collected.questions:
        named = [name for name in people[question.haystack] if re.search(rf"\b{re.escape(name)}\b", question.text)]
        if (
            question.type == "adversarial"
            or len(named) != 1
            or not question.turns & covered[question.haystack, named[0]]
        ):
            continue
        at, text = people[question.haystack].index(named[0]), _first_person(question.text, named[0])
        mine = f"{question.haystack}/{named[0]}"
        questions.append(replace(question, id=f"{question.id}@{mine}", haystack=mine, text=text))
        other = following[question.haystack]
        if len(questions) % 2 and other != question.haystack and at < len(people[other]):
            asked = f"{other}/{people[other][at]}"
            others.append(Question(f"{question.id}@{asked}", asked, question.type, text, frozenset(), frozenset()))
    return Collected(collected.name, haystacks, questions), others


def _third_person(text: str, name: str) -> str:
    text = re.sub(rf"^{re.escape(name)}\b", "The user", text)
    return re.sub(rf"\b{re.escape(name)}\b", "the user", text)


def _first_person(text: str, name: str) -> str:
    text = re.sub(rf"\b{re.escape(name)}['’]s\b", "my", text)
    text = re.sub(rf"\b{re.escape(name)}\b", "I", text)
    verbs = {"does": "do", "is": "am", "has": "have", "Does": "Do", "Is": "Am", "Has": "Have"}
    return re.sub(r"\b(does|is|has) I\b", lambda found: f"{verbs[found[1]]} I", text, flags=re.IGNORECASE)


def swapped(collected: Collected) -> Collected:
    """Every second question, asked of the next haystack about the people there: hardly one has an answer."""
    speakers, following = _people(collected), _following(collected)
    questions = []
    for question in [each for each in collected.questions if each.type != "adversarial"][::2]:
        other = following[question.haystack]
        if other == question.haystack:
            continue
        text = question.text
        for name, instead in zip(speakers[question.haystack], speakers[other]):
            text = re.sub(rf"\b{re.escape(name)}\b", instead.replace("\\", r"\\"), text)
        questions.append(Question(f"{question.id}@{other}", other, question.type, text, frozenset(), frozenset()))
    return Collected(collected.name, collected.haystacks, questions)


def _people(collected: Collected) -> dict[str, list[str]]:
    """Who speaks in each haystack, in the order of their first words."""
    return {each.id: list(dict.fromkeys(turn.speaker for turn in each.turns)) for each in collected.haystacks}


def _following(collected: Collected) -> dict[str, str]:
    """The haystack after each, behind the last one the first."""
    ids = [each.id for each in collected.haystacks]
    return dict(zip(ids, [*ids[1:], *ids[:1]]))
