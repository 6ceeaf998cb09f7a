"""What is true now, what was true when, and what memlite knew when, against the rules written in plain Python."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from memlite import AddResult, Diff, ExtractedFact, Extraction, ExtractionRequest, Fact, Memory, instants
from tests.conftest import Echo

RUNS = int(os.environ.get("MEMLITE_RUNS", "25"))
STEPS = 16
DAY = 86_400_000
FIRST_DAY = instants.read("2020-01-01T00:00:00Z", None, "day")[0]
FIRST_STEP = instants.read("2021-01-01T00:00:00Z", None, "step")[0]  # after all that is said
OVER = "2001-01-01T00:00:00Z"


def day(number: int) -> int:
    return FIRST_DAY + number * DAY


def moment(milliseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=milliseconds)


@dataclass
class Claim:
    """That one fact stands in another's place: by which batch, and until when the other one was true."""

    batch: str
    winner: Known
    ends: int
    number: int


@dataclass(eq=False)
class Known:
    """A fact as the rules see it."""

    id: str
    text: str
    observed: int
    first: int  # true from then on, by what it was first learnt from
    batch: str
    said: list[tuple[str, int]] = field(default_factory=list)  # by which batch, when
    vouched: list[int] = field(default_factory=list)  # by hand
    claims: list[Claim] = field(default_factory=list)  # of others to its place
    reopened: int = 0  # number of the step at which it was reopened by hand
    given: int | None = None  # its end, where that was given; reopened by hand it has none
    replaced: bool = False  # at any time
    over: bool = False  # its expiry is past
    archived: str = ""  # by hand or by an undo
    kind: str = ""


class Rules:
    """What memlite should do with one person's facts."""

    def __init__(self) -> None:
        self.facts: dict[str, Known] = {}
        self.undoes: dict[str, str] = {}  # an undo: what it undid
        self.links: set[tuple[str, str]] = set()  # one that replaced, one that was replaced, whoever said so
        self.steps = 0

    # What follows from what was said.

    def stands(self, batch: str) -> bool:
        return not any(of == batch and self.stands(undo) for undo, of in self.undoes.items())

    def hidden(self, fact: Known) -> bool:
        """Nobody says it any more."""
        return not any(self.stands(batch) for batch, _ in fact.said)

    def begins(self, fact: Known) -> int:
        """What said it before it was learnt counts too, but not before something that it replaced was observed."""
        barred = max((self.facts[old].observed for new, old in self.links if new == fact.id), default=day(-1))
        said = [at for batch, at in fact.said if self.stands(batch) and barred < at < fact.observed]
        return min([fact.first, *said])

    def ends(self, fact: Known) -> int | None:
        """It ends as it was given, or when the first one began that replaced it."""
        found = (fact.given, self.replaced_at(fact))
        return min((max(at, self.begins(fact)) for at in found if at is not None), default=None)

    def replaced_at(self, fact: Known, seen: tuple[Known, ...] = ()) -> int | None:
        """Behind a hidden one stands what replaced that."""
        found: list[int | None] = []
        for claim in fact.claims:
            if claim.number <= fact.reopened or claim.winner in seen:
                continue
            if claim.winner.id in self.facts and self.hidden(claim.winner):
                found.append(self.replaced_at(claim.winner, (*seen, fact)))
            elif self.stands(claim.batch):
                known_first = claim.winner.id in self.facts and fact.observed <= claim.winner.observed
                found.append(min(claim.ends, self.begins(claim.winner)) if known_first else claim.ends)
        return min((at for at in found if at is not None), default=None)

    def last_said(self, fact: Known) -> int:
        return max((at for batch, at in fact.said if self.stands(batch)), default=fact.observed)

    def last_confirmed(self, fact: Known) -> int:
        said = [at for batch, at in fact.said if self.stands(batch)]
        return max(said + fact.vouched, default=fact.observed)

    def counts(self, fact: Known) -> bool:
        return not fact.archived and not fact.over and self.ends(fact) is None

    def lineage(self, fact: Known) -> set[str]:
        line = {fact.id}
        while more := {id_ for link in self.links if line & set(link) for id_ in link} - line:
            line |= more
        return line

    # What happens.

    def living(self, text: str) -> Known | None:
        return next((f for f in self.facts.values() if f.text == text and self.counts(f)), None)

    def say(self, id_: str, text: str, at: int, batch: str, over: bool, first: int | None = None) -> Known:
        self.steps += 1
        fact = self.facts.get(id_)
        if fact is None:
            fact = self.facts[id_] = Known(id_, text, at, at if first is None else first, batch, over=over)
        fact.said.append((batch, at))
        return fact

    def replace(self, old: Known, new: Known, batch: str, *, follow: bool = True) -> None:
        if old is new:
            return
        past = follow and self.is_past(old)
        followers = [f for f in self.behind(old) if self.counts(f) and f is not new] if past else []
        for each in (old, *followers):
            over = new.given is not None and new.given <= each.first
            loser, winner = (new, each) if over or self.last_said(new) < self.last_said(each) else (each, new)
            ends = winner.first if loser.observed <= winner.observed else self.last_said(winner)
            self.links.add((winner.id, loser.id))
            if not self.hidden(winner):
                loser.claims.append(Claim(batch, winner, ends, self.steps))
                loser.replaced = True

    def is_past(self, fact: Known) -> bool:
        return self.ends(fact) is not None or bool(fact.archived)

    def behind(self, fact: Known) -> list[Known]:
        """All that has replaced it, or what replaced it, whoever said so."""
        line = {fact.id}
        while more := {winner for winner, loser in self.links if loser in line} - line:
            line |= more
        return [self.facts[id_] for id_ in line - {fact.id}]

    def undo(self, undo: str, batch: str) -> None:
        first = batch
        while first in self.undoes:
            first = self.undoes[first]
        before = self.stands(first)
        self.undoes[undo] = batch
        for fact in self.facts.values():
            if first in (said_by for said_by, _ in fact.said):
                if before and not self.stands(first) and self.hidden(fact) and not fact.archived:
                    fact.archived = "undo"
                elif not before and self.stands(first) and fact.archived == "undo":
                    fact.archived = ""

    def restore(self, fact: Known, now: int) -> None:
        self.steps += 1
        if fact.archived:
            fact.archived = ""
        elif self.counts(fact):
            return
        else:
            fact.reopened, fact.over, fact.given = self.steps, False, None
        fact.vouched.append(now)

    def delete(self, fact: Known) -> None:
        """What replaced it then replaces what it had replaced. Undone, it had never replaced anything."""
        self.steps += 1
        newer = {winner for winner, loser in self.links if loser == fact.id}
        older = {loser: self.ends(self.facts[loser]) for winner, loser in self.links if winner == fact.id}
        del self.facts[fact.id]
        self.links = {link for link in self.links if fact.id not in link}
        if self.hidden(fact):
            for each in self.facts.values():
                each.claims = [claim for claim in each.claims if claim.winner is not fact]
        for winner, (loser, ends) in itertools.product(newer, older.items()):
            if winner != loser:
                self.links.add((winner, loser))
                if ends is not None:
                    other = self.facts[winner]
                    self.facts[loser].claims.append(Claim(other.batch, other, ends, self.steps))
                    self.facts[loser].replaced = True


class Truth(RuleBasedStateMachine):
    """One person's facts, changed in every way and looked at in every way."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.now = FIRST_STEP
        self.patch.setattr(instants, "now", lambda: self.now)
        self.memory = Memory(":memory:", embedder=False, extractor=Echo())
        self.rules = Rules()
        self.texts = (f"Ana likes drink number {number}." for number in itertools.count())
        self.batches: list[str] = []
        self.known: list[tuple[int, dict[str, tuple[str, str]]]] = []  # at which moment, what was taken for true

    def teardown(self) -> None:
        self.memory.close()
        self.patch.undo()

    def pick(self, number: int) -> Known | None:
        facts = list(self.rules.facts.values())
        return facts[number % len(facts)] if facts else None

    def store(
        self, text: str, at: int, old: Known | None, over: bool, by_message: bool, first: int | None = None
    ) -> None:
        """A fact that is new, or one that counts and is said again."""
        twin = self.rules.living(text)
        when = moment(at)
        if by_message and old is None and not over:
            result = self.memory.add(text, user_id="u", observed_at=when)
        else:
            fact: dict[str, Any] = {"text": text, "expires_at": OVER if over else None}
            fact |= {} if first is None else {"valid_from": moment(first)}
            result = self.memory.remember(fact | ({"replaces": old.id} if old else {}), user_id="u", observed_at=when)
        assert [fact.id for fact in result.facts] == ([] if twin else [fact.id for fact in result.facts][:1])
        assert [each.existing for each in result.skipped] == ([twin.id] if twin else [])
        said = self.rules.say(twin.id if twin else result.facts[0].id, text, at, result.batch, over, first)
        if old:
            self.rules.replace(old, said, result.batch)
        self.batches.append(result.batch)

    numbers = st.integers(0, 30)
    days = st.integers(0, 25)

    @rule(day_=days, over=st.booleans(), by_message=st.booleans())
    def learn(self, day_: int, over: bool, by_message: bool) -> None:
        self.store(next(self.texts), day(day_), None, over and not by_message, by_message)

    @rule(day_=days, number=numbers, by_message=st.booleans())
    def say_again(self, day_: int, number: int, by_message: bool) -> None:
        fact = self.pick(number)
        if fact and self.rules.counts(fact):
            self.store(fact.text, day(day_), None, False, by_message)

    @rule(day_=days, number=numbers, first=st.none() | days)
    def replace(self, day_: int, number: int, first: int | None) -> None:
        begins = None if first is None else day(first)
        self.store(next(self.texts), day(day_), self.pick(number), False, False, begins)

    @rule(day_=days, first=days, length=days, number=st.none() | numbers)
    def learn_what_is_over(self, day_: int, first: int, length: int, number: int | None) -> None:
        """With its end, and perhaps in the place of another one."""
        text, old = next(self.texts), None if number is None else self.pick(number)
        begins, ends = day(first), day(first + length + 1)
        given = {"text": text, "valid_from": moment(begins), "valid_to": moment(ends)}
        given |= {"replaces": old.id} if old else {}
        result = self.memory.remember(given, user_id="u", observed_at=moment(day(day_)))
        fact = self.rules.say(result.facts[0].id, text, day(day_), result.batch, False, begins)
        fact.given = ends
        if old:
            self.rules.replace(old, fact, result.batch, follow=False)
        self.batches.append(result.batch)

    @rule(day_=days, number=numbers, other=numbers)
    def say_again_and_replace(self, day_: int, number: int, other: int) -> None:
        fact = self.pick(number)
        if fact and self.rules.counts(fact):
            self.store(fact.text, day(day_), self.pick(other), False, False)

    @rule(day_=days, number=numbers)
    def say_what_was_replaced_later(self, day_: int, number: int) -> None:
        """It tells nothing new."""
        fact = self.pick(number)
        if fact and not fact.archived and not fact.over and (self.rules.ends(fact) or 0) > day(day_):
            result = self.memory.remember(fact.text, user_id="u", observed_at=moment(day(day_)))
            assert [(each.reason, each.existing) for each in result.skipped] == [("known, and replaced since", fact.id)]
            self.rules.say(fact.id, fact.text, day(day_), result.batch, False)
            self.batches.append(result.batch)

    @rule(number=numbers, what=st.sampled_from(["text", "expiry", "no expiry", "kind"]))
    def update(self, number: int, what: str) -> None:
        if not (fact := self.pick(number)):
            return
        if what == "text":
            fact.text = next(self.texts)
            self.memory.update(fact.id, text=fact.text)
        elif what == "kind":
            fact.kind = "taste"
            self.memory.update(fact.id, kind="taste")
            return
        else:
            if fact.over == (what == "expiry"):
                return
            fact.over = what == "expiry"
            self.memory.update(fact.id, expires_at=OVER if fact.over else None)
        fact.vouched.append(self.now)

    @rule(number=numbers)
    def archive(self, number: int) -> None:
        if fact := self.pick(number):
            self.memory.archive(fact.id)
            fact.archived = fact.archived or "hand"

    @rule(number=numbers)
    def restore(self, number: int) -> None:
        if fact := self.pick(number):
            assert self.memory.restore(fact.id).id == fact.id
            self.rules.restore(fact, self.now)

    @rule(number=numbers)
    def delete(self, number: int) -> None:
        if fact := self.pick(number):
            self.memory.delete(fact.id)
            self.rules.delete(fact)

    @rule(number=numbers)
    def undo(self, number: int) -> None:
        """A batch or an undo, once while it stands."""
        standing = [batch for batch in self.batches if self.rules.stands(batch)]
        if standing:
            undone = self.memory.undo(standing[number % len(standing)])
            self.rules.undo(undone.batch, undone.undid)
            self.batches.append(undone.batch)

    @rule(replaced=st.booleans())
    def prune(self, replaced: bool) -> None:
        shown = [fact for fact in self.rules.facts.values() if not fact.archived]
        if replaced:
            gone = [fact for fact in shown if fact.replaced and self.rules.ends(fact) is not None]
            pruned = self.memory.prune(replaced_for=timedelta(0), dry_run=False)
        else:
            gone = [fact for fact in shown if fact.over]
            pruned = self.memory.prune(expired=True, dry_run=False)
        assert sorted(fact.id for fact in pruned.facts) == sorted(fact.id for fact in gone)
        for fact in gone:
            self.rules.delete(fact)

    @invariant()
    def what_counts_is_as_the_rules_say(self) -> None:
        facts = self.rules.facts.values()
        current = {fact.id: fact.text for fact in facts if self.rules.counts(fact)}
        shown = {fact.id: fact.text for fact in self.memory.get_all(user_id="u")}
        assert shown == current
        assert sorted(hit.text for hit in self.memory.search("Ana", user_id="u", limit=100)) == sorted(current.values())
        past = {f.id: f for f in self.memory.get_all(user_id="u", past=True)}
        assert set(past) == {fact.id for fact in facts if not fact.archived}
        assert {f.id for f in self.memory.get_all(user_id="u", archived=True)} == {f.id for f in facts if f.archived}
        for fact in facts:
            stored = self.memory.get(fact.id)
            assert stored.valid_from == moment(self.rules.begins(fact))
            assert stored.valid_to == (None if (ends := self.rules.ends(fact)) is None else moment(ends))
            assert stored.last_confirmed_at == moment(self.rules.last_confirmed(fact))
        self.known.append((self.now, {id_: (text, self.rules.facts[id_].kind) for id_, text in current.items()}))
        self.now += 1000

    @invariant()
    def what_was_true_is_as_the_rules_say(self) -> None:
        facts = self.rules.facts.values()
        for number in (3, 12, 21):
            at = day(number) + DAY // 2
            true = [
                fact.text
                for fact in facts
                if not (fact.archived or fact.over)
                and self.rules.begins(fact) <= at < (at + 1 if (ends := self.rules.ends(fact)) is None else ends)
            ]
            hits = self.memory.search("Ana", user_id="u", limit=100, as_of=moment(at), include="facts")
            assert sorted(hit.text for hit in hits) == sorted(true)

    @invariant()
    def what_was_known_is_as_it_was(self) -> None:
        there = {fact.id for fact in self.rules.facts.values() if not fact.archived}
        for at, known in self.known[:: max(1, len(self.known) // 5)]:
            hits = self.memory.search("Ana", user_id="u", limit=100, known_at=moment(at), include="facts")
            assert sorted(hit.text for hit in hits) == sorted(text for id_, (text, _) in known.items() if id_ in there)

    @invariant()
    def what_has_changed_is_as_the_rules_say(self) -> None:
        for at, known in self.known[:: max(1, len(self.known) // 3)]:
            then = {id_: told for id_, told in known.items() if id_ in self.rules.facts}
            now = {id_: (f.text, f.kind) for id_, f in self.rules.facts.items() if self.rules.counts(f)}
            diff = self.memory.diff(moment(at), user_id="u")
            assert {fact.id for fact in diff.added} == now.keys() - then.keys()
            assert {fact.id for fact in diff.gone} == then.keys() - now.keys()
            changed = {after.id: (before.text, after.text) for before, after in diff.updated}
            both = {id_ for id_ in now.keys() & then.keys() if now[id_] != then[id_]}
            assert changed == {id_: (then[id_][0], now[id_][0]) for id_ in both}

    @invariant()
    def lines_are_as_the_rules_say(self) -> None:
        for fact in list(self.rules.facts.values())[-3:]:
            assert {each.id for each in self.memory.lineage(fact.id)} == self.rules.lineage(fact)


Truth.TestCase.settings = settings(
    max_examples=RUNS, stateful_step_count=STEPS, deadline=None, suppress_health_check=list(HealthCheck)
)
test_whatever_happens_the_rules_hold = Truth.TestCase


class Clock:
    """What memlite takes for the present, a second later at every step."""

    def __init__(self) -> None:
        self.now = FIRST_STEP

    def step(self) -> datetime:
        self.now += 1000
        return moment(self.now - 500)  # between what has happened and what comes


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(instants, "now", lambda: made.now)
    return made


def remember(memory: Memory, text: str, year: int, **about: Any) -> str:
    """Store a fact that was observed at the beginning of a year; its id."""
    result = memory.remember({"text": text, **about}, user_id="u", observed_at=f"{year}-01-01")
    return [*(fact.id for fact in result.facts), *(str(each.existing) for each in result.skipped)][0]


def current(memory: Memory) -> list[str]:
    return sorted(fact.text for fact in memory.get_all(user_id="u"))


def window(memory: Memory, id_: str) -> tuple[int, int | None]:
    """The years from which and until which a fact was true."""
    fact = memory.get(id_)
    assert isinstance(fact, Fact)
    return fact.valid_from.astimezone().year, fact.valid_to.astimezone().year if fact.valid_to else None


# Replacements in any order.


@pytest.mark.parametrize("order", [(2020, 2022), (2022, 2020)], ids=["in order", "the older one later"])
def test_the_newer_of_two_counts_whichever_comes_first(memory: Memory, order: tuple[int, int]) -> None:
    first = remember(memory, f"Ana lives in city {order[0]}.", order[0])
    second = remember(memory, f"Ana lives in city {order[1]}.", order[1], replaces=first)
    old, new = sorted((first, second), key=(first, second).index if order[0] < order[1] else (second, first).index)
    assert current(memory) == ["Ana lives in city 2022."]
    assert (window(memory, old), window(memory, new)) == ((2020, 2022), (2022, None))
    (hit,) = memory.search("Where does Ana live?", user_id="u")
    assert [fact.id for fact in hit.replaced] == [old]
    assert [hit.text for hit in memory.search("Ana city", user_id="u", as_of="2021-06-01")] == [
        "Ana lives in city 2020."
    ]


@pytest.mark.parametrize("order", list(itertools.permutations((2020, 2021, 2022))), ids=str)
def test_of_three_the_newest_counts_in_any_order(memory: Memory, order: tuple[int, ...]) -> None:
    """The third one is said to replace the first that came, which is past by then or never was current."""
    ids = {order[0]: remember(memory, f"Ana lives in city {order[0]}.", order[0])}
    for year in order[1:]:
        ids[year] = remember(memory, f"Ana lives in city {year}.", year, replaces=ids[order[0]])
    assert current(memory) == ["Ana lives in city 2022."]
    for year in (2020, 2021):
        at = memory.search("Ana city", user_id="u", as_of=f"{year}-06-01")
        assert f"Ana lives in city {year}." in [hit.text for hit in at]
    assert len(memory.lineage(ids[2021])) == 3


def test_what_came_between_ends_what_was_before_it(memory: Memory) -> None:
    rome = remember(memory, "Ana lives in Rome.", 2020)
    oslo = remember(memory, "Ana lives in Oslo.", 2022, replaces=rome)
    bern = remember(memory, "Ana lives in Bern.", 2021, replaces=rome)
    assert [window(memory, id_) for id_ in (rome, bern, oslo)] == [(2020, 2021), (2021, 2022), (2022, None)]


def test_what_was_replaced_by_something_else_is_not_followed(memory: Memory) -> None:
    both = remember(memory, "Ana lives in Rome and works for Acme.", 2020)
    remember(memory, "Ana lives in Oslo.", 2021, replaces=both)
    remember(memory, "Ana works for Initech.", 2022, replaces=both)
    assert current(memory) == ["Ana lives in Oslo.", "Ana works for Initech."]


def test_what_was_said_again_since_is_newer(memory: Memory) -> None:
    rome = remember(memory, "Ana lives in Rome.", 2020)
    remember(memory, "Ana lives in Rome.", 2024)
    oslo = remember(memory, "Ana lives in Oslo.", 2022, replaces=rome)
    assert current(memory) == ["Ana lives in Rome."]
    assert window(memory, oslo) == (2022, 2024)


def test_a_change_is_true_since_its_day_and_ends_then_what_it_replaced(memory: Memory) -> None:
    porto = remember(memory, "Ana lives in Porto.", 2024)
    said = {"observed_at": "2025-05-14T10:00Z", "replaces": porto}
    lisbon = memory.remember({"text": "Ana moved to Lisbon in 2025-04.", **said}, user_id="u").facts[0].id
    assert [str(memory.get(id_).valid_from)[:10] for id_ in (porto, lisbon)] == ["2024-01-01", "2025-04-01"]  # type: ignore[union-attr]
    assert memory.get(porto).valid_to == memory.get(lisbon).valid_from  # type: ignore[union-attr]

    def true(at: str) -> list[str]:
        return [hit.text for hit in memory.search("Ana Porto Lisbon", user_id="u", as_of=at, include="facts")]

    assert true("2025-05-05") == ["Ana moved to Lisbon in 2025-04."]
    assert true("2025-03-05") == ["Ana lives in Porto."]


def test_what_was_said_after_a_change_is_true_for_no_time(memory: Memory) -> None:
    """Its end is never before its beginning."""
    porto = memory.remember("Ana lives in Porto.", user_id="u", observed_at="2025-05-01T00:00Z").facts[0].id
    said = {"observed_at": "2025-05-14T10:00Z", "replaces": porto}
    memory.remember({"text": "Ana moved to Lisbon in 2025-04.", **said}, user_id="u")
    fact = memory.get(porto)
    assert isinstance(fact, Fact)
    assert fact.valid_to == fact.valid_from


@pytest.mark.parametrize(
    ("said", "begins"),
    [
        ("Ana moved to Lisbon last month.", "2025-04-01"),
        ("Ana visited Rome last week.", "2025-05-05"),
        ("Ana moves to Lisbon next month.", "2025-05-14"),
        ("Ana is in Rome this week.", "2025-05-14"),
        ("Ana lives in Lisbon.", "2025-05-14"),
    ],
)
def test_what_is_learnt_is_true_since_an_event_that_is_over(learning: Memory, said: str, begins: str) -> None:
    (fact,) = learning.add(said, user_id="u", observed_at="2025-05-14T10:00+00:00").facts
    assert str(fact.valid_from)[:10] == begins


def test_what_an_older_message_says_too_was_true_then(learning: Memory) -> None:
    later = learning.add("Ana drinks tea.", user_id="u", observed_at="2025-06-01T00:00Z")
    assert learning.search("tea", user_id="u", as_of="2024-06-01", include="facts").hits == ()
    older = learning.add("Ana drinks tea.", user_id="u", observed_at="2024-01-01T00:00Z")
    assert [each.existing for each in older.skipped] == [later.facts[0].id]
    assert len(learning.search("tea", user_id="u", as_of="2024-06-01", include="facts")) == 1
    undone = learning.undo(older.batch)
    assert window(learning, later.facts[0].id) == (2025, None)
    learning.undo(undone.batch)
    assert window(learning, later.facts[0].id) == (2024, None)


def test_what_was_closed_in_between_was_not_true_then(memory: Memory) -> None:
    first = remember(memory, "Ana lives in Rome.", 2020)
    oslo = remember(memory, "Ana lives in Oslo.", 2022, replaces=first)
    again = remember(memory, "Ana lives in Rome.", 2024, replaces=oslo)
    assert remember(memory, "Ana lives in Rome.", 2021) == again
    assert [window(memory, id_) for id_ in (first, oslo, again)] == [(2020, 2022), (2022, 2024), (2024, None)]
    assert remember(memory, "Ana lives in Rome.", 2023) == again
    assert [window(memory, id_) for id_ in (first, oslo, again)] == [(2020, 2022), (2022, 2023), (2023, None)]


def test_what_replaced_a_fact_ends_it_when_an_older_message_says_so(memory: Memory) -> None:
    rome = remember(memory, "Ana lives in Rome.", 2020)
    oslo = remember(memory, "Ana lives in Oslo.", 2024, replaces=rome)
    older = memory.remember("Ana lives in Oslo.", user_id="u", observed_at="2022-01-01")
    assert [window(memory, id_) for id_ in (rome, oslo)] == [(2020, 2022), (2022, None)]
    memory.undo(older.batch)
    assert [window(memory, id_) for id_ in (rome, oslo)] == [(2020, 2024), (2024, None)]


def test_what_was_joined_to_a_fact_tells_since_when_it_is_true(memory: Memory) -> None:
    remember(memory, "Ana likes green tea.", 2020)
    later = remember(memory, "Ana likes green teas.", 2024)
    fixed = memory.fix("near-duplicates", user_id="u")
    (kept,) = memory.get_all(user_id="u")
    assert window(memory, kept.id) == (2020, None)
    for batch in fixed.batches:
        memory.undo(batch)
    assert window(memory, later) == (2024, None)


def test_an_old_message_does_not_bring_back_what_was_replaced_since(learning: Memory) -> None:
    first = learning.add("Ana lives in Rome.", user_id="u", observed_at="2020-01-01")
    remember(learning, "Ana lives in Oslo.", 2022, replaces=first.facts[0].id)
    again = learning.add("Ana lives in Rome.", user_id="u", run_id="import", observed_at="2021-01-01")
    assert [(each.reason, each.existing) for each in again.skipped] == [
        ("known, and replaced since", first.facts[0].id)
    ]
    assert [hit.text for hit in learning.search("Where does Ana live?", user_id="u")] == ["Ana lives in Oslo."]
    back = learning.add("Ana lives in Rome.", user_id="u", observed_at="2023-01-01")
    assert [fact.text for fact in back.facts] == ["Ana lives in Rome."]


class Claiming:
    """An extractor that writes each message as a fact which replaces the first known one."""

    name = "claiming"
    prompt_version = "1"

    def extract(self, request: ExtractionRequest) -> Extraction:
        known = tuple(fact.number for fact in request.known[:1])
        return Extraction(
            tuple(ExtractedFact(turn.text, turn.speaker, (turn.number,), replaces=known) for turn in request.messages)
        )


def test_what_a_model_claims_is_done_where_it_can_be_believed(path: Path) -> None:
    said = [
        ("2022-01-01", "Ana lives in Rome.", ["Ana lives in Rome."]),
        ("2023-01-01", "Ana's sister lives in Bern.", ["Ana lives in Rome.", "Ana's sister lives in Bern."]),
        ("2024-01-01", "Ana lives in Rome now.", ["Ana lives in Rome.", "Ana's sister lives in Bern."]),
        ("2025-01-01", "Ana lives in Oslo.", ["Ana lives in Oslo.", "Ana's sister lives in Bern."]),
        ("2021-01-01", "Ana lives in Faro.", ["Ana lives in Oslo.", "Ana's sister lives in Bern."]),
    ]
    with Memory(path, embedder=False, extractor=Claiming()) as memory:
        for day_, text, counts in said:
            memory.add(text, user_id="u", observed_at=day_)
            assert current(memory) == counts, text
        (faro,) = (fact for fact in memory.get_all(user_id="u", past=True) if "Faro" in fact.text)
        assert window(memory, faro.id) == (2021, 2025)


def test_a_fact_replaced_in_the_archive_comes_back_as_a_past_one(memory: Memory) -> None:
    rome = remember(memory, "Ana lives in Rome.", 2020)
    memory.archive(rome)
    remember(memory, "Ana lives in Oslo.", 2022, replaces=rome)
    assert not memory.restore(rome).current
    assert current(memory) == ["Ana lives in Oslo."]


def test_what_is_undone_ends_nothing_and_hands_on_what_replaces_it(memory: Memory) -> None:
    rome = remember(memory, "Ana lives in Rome.", 2020)
    oslo = {"text": "Ana lives in Oslo.", "replaces": rome}
    undone = memory.undo(memory.remember(oslo, user_id="u", observed_at="2022-01-01").batch)
    (gone,) = undone.archived
    bern = remember(memory, "Ana lives in Bern.", 2021, replaces=gone)
    assert (window(memory, rome), window(memory, bern)) == ((2020, None), (2021, None))
    remember(memory, "Ana lives in Faro.", 2023, replaces=gone)
    assert current(memory) == ["Ana lives in Bern.", "Ana lives in Faro."]
    assert window(memory, rome) == (2020, 2023)


@pytest.mark.parametrize("by", ["said again", "joined"])
def test_what_stands_again_ends_again_what_it_had_replaced(memory: Memory, by: str) -> None:
    """Restored by hand after its undo it counts, but nothing says it, until something does."""
    green = memory.remember("Ana likes green teas.", user_id="u", observed_at="2024-01-01")
    id_ = green.facts[0].id
    mate = remember(memory, "Ana drinks mate.", 2022, replaces=id_)
    memory.undo(green.batch)
    memory.restore(id_)
    assert current(memory) == ["Ana drinks mate.", "Ana likes green teas."]
    if by == "joined":
        remember(memory, "Ana likes green tea.", 2025)
        (batch,) = memory.fix("near-duplicates", user_id="u").batches
    else:
        batch = memory.remember("Ana likes green teas.", user_id="u", observed_at="2020-01-01").batch
    assert current(memory) == ["Ana likes green teas."]
    assert window(memory, mate) == (2022, 2024)
    undone = memory.undo(batch)
    assert window(memory, mate) == (2022, None)
    assert "Ana drinks mate." in current(memory)
    memory.undo(undone.batch)
    assert current(memory) == ["Ana likes green teas."]


def test_what_was_before_a_time_is_told_as_it_was_known_then(memory: Memory, clock: Clock) -> None:
    rome = remember(memory, "Ana lives in Rome.", 2020)
    oslo = remember(memory, "Ana lives in Oslo.", 2022)
    first = clock.step()
    remember(memory, "Ana lives in Oslo.", 2023, replaces=rome)
    second = clock.step()
    memory.update(rome, text="Ana lives in Roma.")
    memory.update(oslo, text="Ana lives in Oslo, Norway.")
    clock.step()

    def before(**when: Any) -> list[list[str]]:
        hits = memory.search("Where does Ana live?", user_id="u", **when)
        return [[hit.text, *(fact.text for fact in hit.replaced)] for hit in hits if "Oslo" in hit.text]

    assert before(known_at=first) == [["Ana lives in Oslo."]]
    assert before(known_at=second) == [["Ana lives in Oslo.", "Ana lives in Rome."]]
    assert before() == [["Ana lives in Oslo, Norway.", "Ana lives in Roma."]]


def test_a_reopened_fact_had_expired_before(memory: Memory, clock: Clock) -> None:
    id_ = remember(memory, "The code is 7731.", 2020, expires_at=moment(clock.now + 1500))
    valid = clock.step()
    clock.step()
    over = clock.step()
    memory.restore(id_)
    again = clock.step()

    def known(at: datetime) -> list[str]:
        return [hit.text for hit in memory.search("code", user_id="u", known_at=at)]

    assert (known(valid), known(over), known(again)) == (["The code is 7731."], [], ["The code is 7731."])


def test_another_expiry_is_no_change_of_what_is_true(memory: Memory, clock: Clock) -> None:
    id_ = remember(memory, "The code is 7731.", 2020)
    since = clock.step()
    memory.update(id_, expires_at="2999-01-01")
    assert memory.diff(since, user_id="u") == Diff((), (), ())
    memory.update(id_, kind="secret")
    assert len(memory.diff(since, user_id="u").updated) == 1


@pytest.mark.parametrize("change", ["update", "restore", "reopen"])
def test_what_was_changed_by_hand_was_confirmed_then(memory: Memory, change: str) -> None:
    id_ = remember(memory, "The code is 7731.", 2020, expires_at="2021-01-01" if change == "reopen" else None)
    if change == "update":
        memory.update(id_, text="The code is 7732.")
    else:
        if change == "restore":
            memory.archive(id_)
        memory.restore(id_)
    pruned = memory.prune(unconfirmed_for=timedelta(days=365))
    assert pruned.facts == ()
    memory.update(remember(memory, "The gate is green.", 2020), kind="colour")
    assert len(memory.prune(unconfirmed_for=timedelta(days=365)).facts) == 1


AT_2024 = "2024-01-01"


def said(memory: Memory, text: str, year: int) -> AddResult:
    """A message from which an extractor learns itself."""
    return memory.add(text, user_id="u", observed_at=f"{year}-01-01")


@pytest.mark.parametrize("first", ["undone", "deleted"])
def test_what_is_undone_here_and_deleted_there_is_said_by_nobody(learning: Memory, first: str) -> None:
    old, new = said(learning, "I like zebra tea.", 2024), said(learning, "I like zebra tea.", 2025)
    if first == "undone":
        undo = learning.undo(old.batch)
        assert learning.delete(new.messages[0]).clean
    else:
        assert learning.delete(new.messages[0]).clean
        undo = learning.undo(old.batch)
    assert current(learning) == []
    assert not learning.search("zebra", user_id="u")
    learning.undo(undo.batch)
    (fact,) = learning.get_all(user_id="u")
    assert fact.sources == old.messages
    assert fact.last_confirmed_at.year == 2024


def test_a_message_deleted_takes_back_when_a_fact_was_said_last(learning: Memory) -> None:
    said(learning, "I like zebra tea.", 2024)
    new = said(learning, "I like zebra tea.", 2025)
    learning.delete(new.messages[0])
    (fact,) = learning.get_all(user_id="u")
    assert fact.last_confirmed_at.year == 2024


@pytest.mark.parametrize("undone", [False, True])
def test_what_a_caller_remembered_outlives_a_message_that_says_it(learning: Memory, undone: bool) -> None:
    remember(learning, "Ana likes zebra tea.", 2024)
    echo = said(learning, "Ana likes zebra tea.", 2025)
    if undone:
        learning.undo(echo.batch)
    receipt = learning.delete(echo.messages[0])
    assert receipt.facts == ()
    assert current(learning) == ["Ana likes zebra tea."]
    (note,) = receipt.notes
    assert "have all the words of what was deleted" in note


def test_what_was_remembered_with_a_message_as_its_source_goes_with_it(learning: Memory) -> None:
    message = learning.add("I like zebra tea.", user_id="u", extract="never").messages[0]
    learning.remember({"text": "Ana likes zebra tea.", "source": message}, user_id="u")
    learning.delete(message)
    assert current(learning) == []


@pytest.mark.parametrize("first", ["undone", "deleted"])
def test_what_only_a_joined_fact_said_goes_with_it(memory: Memory, first: str) -> None:
    milk = remember(memory, "Ana drinks milk.", 2023)
    kept = memory.remember({"text": "Ana drinks oat milk daily.", "replaces": milk}, user_id="u", observed_at=AT_2024)
    other = remember(memory, "Ana drinks oat milk, daily!", 2025)
    memory.fix("near-duplicates", user_id="u")
    assert len(current(memory)) == 1
    if first == "undone":
        memory.undo(kept.batch)
        memory.delete(other)
    else:
        memory.delete(other)
        memory.undo(kept.batch)
    assert current(memory) == ["Ana drinks milk."]


def test_what_was_restored_against_an_undo_stays_when_that_is_done_again(memory: Memory) -> None:
    fish = memory.remember("Ana eats fish.", user_id="u")
    first = memory.undo(fish.batch)
    memory.restore(fish.facts[0].id)
    second = memory.undo(first.batch)
    memory.undo(second.batch)
    assert current(memory) == ["Ana eats fish."]
    memory.archive(fish.facts[0].id)
    assert current(memory) == []


def test_what_takes_the_place_of_what_had_replaced_it_and_was_undone_counts(memory: Memory) -> None:
    tea = memory.remember("Ana drinks tea.", user_id="u", observed_at=AT_2024).facts[0].id
    milk = memory.remember({"text": "Ana drinks milk.", "replaces": tea}, user_id="u", observed_at=AT_2024)
    memory.undo(milk.batch)
    again = {"text": "Ana drinks tea.", "replaces": milk.facts[0].id}
    memory.remember(again, user_id="u", observed_at=AT_2024)
    assert current(memory) == ["Ana drinks tea."]


def test_what_an_undone_fact_handed_on_ends_no_more_when_that_one_is_reopened(memory: Memory) -> None:
    tea = memory.remember("Ana drinks tea.", user_id="u", observed_at=AT_2024).facts[0].id
    milk = memory.remember({"text": "Ana drinks milk.", "replaces": tea}, user_id="u", observed_at=AT_2024)
    memory.undo(milk.batch)
    old = milk.facts[0].id
    memory.remember({"text": "Ana drinks cocoa.", "replaces": old}, user_id="u", observed_at=AT_2024)
    assert current(memory) == ["Ana drinks cocoa."]
    memory.restore(old)
    memory.restore(old)
    assert set(current(memory)) == {"Ana drinks cocoa.", "Ana drinks milk.", "Ana drinks tea."}
