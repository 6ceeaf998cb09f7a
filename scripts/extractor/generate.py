"""Examples from skeletons: slots filled, alternatives picked, noise added, other conversation around it.

An example is what the extractor is asked (an ExtractionRequest) and the facts it should answer. The same seed gives the
same examples.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path

import slots
from skeletons import MARKED, SLOT, SPEAKERS, Said, Skeleton, base, choices, kind, read

from memlite import dates, ground
from memlite.compact import LEAST_EARLIER, MOST_EARLIER, MOST_KNOWN, shown
from memlite.records import ExtractedFact, ExtractionRequest, KnownFact, NamedEntity, ResolvedDate, Turn

FOLDER = Path(__file__).parent

_GENERATOR = ("generate.py", "skeletons.py", "slots.py")
BLENDED = 0.25  # share of the new messages that say something of another skeleton as well
_LONGEST_BLENDED = 420  # characters
_MOST_KNOWN = 4  # of a conversation, before memlite chooses which to show

_ROLES = {"U": "user", "S": "assistant", "T": "tool"}
_PREPOSITIONS = {"day": "on", "weekend": "on the", "week": "in the", "month": "in", "season": "in", "year": "in"}


@dataclass(frozen=True)
class Example:
    """What is asked, what should be answered, and the skeletons it came from."""

    request: ExtractionRequest
    facts: tuple[ExtractedFact, ...]
    skeletons: tuple[str, ...]


class NoDateError(ValueError):
    """No expression for a date slot reads as the wanted day in its sentence."""


def data_version() -> str:
    """What tells these examples from those of other skeletons or another generator: a digest of their bytes."""
    found = hashlib.sha256()
    for path in [*sorted((FOLDER / "skeletons").glob("*.txt")), *(FOLDER / name for name in _GENERATOR)]:
        found.update(f"{path.name} {path.stat().st_size}\n".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def training() -> list[Skeleton]:
    return _all(FOLDER / "skeletons")


def held_out() -> list[Skeleton]:
    return _all(FOLDER / "held_out")


@cache
def _all(folder: Path) -> list[Skeleton]:
    found, complaints = read(sorted(folder.glob("*.txt")))
    if complaints:
        raise SystemExit("\n".join(complaints))
    return found


def examples(
    skeletons: Sequence[Skeleton], seed: int, *, plain: bool = False, one_message: bool = False
) -> Iterator[Example]:
    """Endless examples, every skeleton once a round in a new order, and twice where a known fact is linked.

    plain: no noise, nothing added. one_message: a single message is new, as memlite asks; those before it are its
    window.
    """
    round_ = 0
    while True:
        linked = [each for each in skeletons if any(target.replaces or target.continues for target in each.targets)]
        order = [(each, 1) for each in skeletons] + [(each, 2) for each in linked]
        order.sort(key=lambda each: (each[0].name, each[1]))
        random.Random(f"{seed}/{round_}").shuffle(order)
        for skeleton, time in order:
            rng = random.Random(f"{seed}/{round_}/{skeleton.name}/{time}")
            made = example(skeleton, skeletons, rng, plain=plain, one_message=one_message)
            if made is not None:
                yield made
        round_ += 1


def example(
    skeleton: Skeleton,
    others: Sequence[Skeleton],
    rng: random.Random,
    *,
    plain: bool = False,
    one_message: bool = False,
) -> Example | None:
    """One example of a skeleton; None where its dates could not be said, or no message can be asked of alone."""
    for _ in range(12):
        try:
            conversation = Conversation(skeleton, rng, plain=plain)
            break
        except NoDateError:
            continue
    else:
        return None
    if not plain:
        conversation.surround(others)
    if one_message and not conversation.ask_of_one():
        return None
    if one_message and not plain and rng.random() < BLENDED:
        conversation.blend(others)
    return conversation.example()


class Conversation:
    """A skeleton being filled."""

    def __init__(self, skeleton: Skeleton, rng: random.Random, *, plain: bool, cast: Cast | None = None) -> None:
        self.skeleton = skeleton
        self.rng = rng
        self.cast = cast or Cast(skeleton, rng, plain=plain)
        self.style = Style(rng, plain=plain)
        self.values: dict[str, str] = {}
        self.resolved: dict[str, ResolvedDate] = {}
        self.lower_names = self.style.lower and rng.random() < 0.3
        self.names = [skeleton.name]
        told = " ".join(target.text for target in skeleton.targets).lower()
        self.kept = set(re.findall(r"[a-z]{2,}", told))  # words of a fact are not misspelt
        self.window = [self._turn(0, said) for said in skeleton.window]
        self.messages = [self._turn(number, said) for number, said in enumerate(skeleton.messages, 1)]
        self.facts = [self._fact(target) for target in skeleton.targets]
        self.known = [_with_articles(self._fill(text, None)) for text in skeleton.known]

    # Slots.

    def _value(self, slot: str) -> str:
        if slot not in self.values:
            made = ""
            for _ in range(20):
                if own := choices(self.skeleton, slot):
                    made = self.rng.choice([value.strip() for value in own[0].split("|")])
                else:
                    made = slots.VALUES[base(slot)](self.rng)
                taken = {v.casefold() for k, v in self.values.items() if base(k) == base(slot)} | self.cast.taken
                if made.casefold() not in taken:
                    break
            if self.lower_names and kind(self.skeleton, slot):
                made = made.lower()
            self.values[slot] = made
        return self.values[slot]

    def _fill(self, text: str, speaking: str | None) -> str:
        """The text with its slots filled; in a fact or a known one (speaking None) with resolved dates."""

        def value(match: re.Match[str]) -> str:
            slot = match[1]
            if slot in tuple(SPEAKERS):
                if speaking is not None and slot in _ROLES and self.cast.name(slot) == _ROLES[slot]:
                    return "you" if slot != speaking else "me"
                name = self.cast.subject(slot)
                start = match.start() == 0 or text[: match.start()].rstrip().endswith((".", "!", "?"))
                return name[0].upper() + name[1:] if start else name
            if base(slot) in slots.DATE_SLOTS:
                return self._resolved(slot)
            return self._value(slot)

        filled = SLOT.sub(value, text)
        return filled if speaking is not None else dates.written_out(filled, ())  # no "until on 2025-05-11"

    def _resolved(self, slot: str) -> str:
        """A date slot in a fact. One that no message says is of a day long before."""
        found = self.resolved.get(slot)
        if found is None:
            day = self.cast.now.date() - timedelta(self.rng.randint(20, 400))
            found = self.resolved[slot] = ResolvedDate("", day.isoformat(), day.isoformat(), "day")
        return f"{_PREPOSITIONS[found.precision]} {dates.shown(found)}"

    # Messages and facts.

    def _turn(self, number: int, said: Said) -> Turn:
        rng = self.rng
        text = re.sub(r"\[([^\[\]]*)\]", lambda m: rng.choice(m[1].split("|")), said.text)
        text = re.sub(r"[^\S\n]+(?=[,.!?])|(?<=[^\S\n])[^\S\n]+", "", text).strip()
        said_dates = [slot for slot in dict.fromkeys(SLOT.findall(text)) if base(slot) in slots.DATE_SLOTS]
        for slot in said_dates:
            text = self._say_date(text, slot)
        text = self._fill(text, said.speaker)
        text = re.sub(r"(^|[.!?]\s+)([a-z])", lambda m: m[1] + m[2].upper(), text) if not self._is_lower(said) else text
        text = _with_articles(text)
        when = self.cast.now
        if said.speaker not in "T":
            days = dates.resolve(text, when)
            fixed = [*self.values.values(), *(found.expression for found in days)]
            written = self.style.write(text, fixed, self.kept, chatty=said.speaker in "ABCU")
            if [(d.start, d.end) for d in dates.resolve(written, when)] == [(d.start, d.end) for d in days]:
                text = written  # else the noise has changed what a date means
        read = {(found.start, found.end) for found in dates.resolve(text, when)}
        for slot in said_dates:  # the values of other slots may have changed what "on Saturday" means
            if (self.resolved[slot].start, self.resolved[slot].end) not in read:
                raise NoDateError(slot)
        role = _ROLES.get(said.speaker) or ("user" if said.speaker == "A" else self.cast.other_role)
        return Turn(number, role, self.cast.name(said.speaker), text, when, dates.resolve(text, when))

    def _is_lower(self, said: Said) -> bool:
        return said.text[:1].islower() and not said.text.startswith("{")

    def _say_date(self, text: str, slot: str) -> str:
        """Put words for a date into a message, such that dates.py reads them as the date that is meant."""
        if slot in self.resolved and self.resolved[slot].expression:
            return text.replace(f"{{{slot}}}", self.resolved[slot].expression)
        today = self.cast.now.date().isoformat()
        candidates = iter(slots.expressions(base(slot), self.rng))
        for _ in range(25):
            expression = next(candidates)
            said = text.replace(f"{{{slot}}}", expression, 1)
            probe = SLOT.sub("Xy", said)
            for found in dates.resolve(probe, self.cast.now):
                over, to_come = found.end <= today, found.start >= today
                right = {"past": over, "past_day": over, "today": over and to_come}.get(base(slot), to_come)
                taken = any((d.start, d.end) == (found.start, found.end) for d in self.resolved.values())
                if (
                    right
                    and not taken
                    and found.expression in expression
                    and len(found.expression) > len(expression) - 6
                ):
                    self.resolved[slot] = replace(found, expression=expression)
                    return said.replace(f"{{{slot}}}", expression)
        raise NoDateError(slot)

    def _fact(self, target) -> ExtractedFact:
        entities: dict[str, NamedEntity] = {}
        for match in MARKED.finditer(target.text):
            entities[match[1] or match[2]] = NamedEntity(match[1] or match[2], match[3])
        bare = MARKED.sub(lambda m: m[1] or m[2], target.text)
        for slot in SLOT.findall(bare):
            if slot not in tuple(SPEAKERS) and kind(self.skeleton, slot):
                entities[self._value(slot)] = NamedEntity(self._value(slot), kind(self.skeleton, slot))
        text = _with_articles(self._fill(bare, None))
        if not any(text.startswith(name) for name in entities):
            text = text[0].upper() + text[1:]
        named = sorted((e for name, e in entities.items() if name in text), key=lambda e: text.index(e.name))
        return ExtractedFact(
            text,
            sources=target.sources,
            replaces=target.replaces,
            continues=target.continues,
            entities=tuple(named[:8]),
        )

    # What is around it.

    def surround(self, others: Sequence[Skeleton]) -> None:
        """Other conversation of the same speakers before and after, other known facts, a part of it as the past."""
        rng = self.rng
        if len(self.messages) > 2 and rng.random() < 0.25:
            self._begin_later(rng.randint(1, len(self.messages) - 1))
        if rng.random() < 0.25 and len(self.messages) <= 4:
            self._join(others)
        elif len(self.messages) > 1 and rng.random() < 0.12:
            self._drop_empty()
        room = rng.choice((0, 0, 0, 2, 2, 4, 6))
        while len(self.window) < room and (earlier := self._other(others)):
            self.window = [replace(turn, number=0) for turn in earlier.messages][-4:] + self.window
            said = [fact.text for fact in earlier.facts]
            if said and rng.random() < 0.5:
                self.known += said[:2]  # learnt from the window already
        more = rng.choice((0, 0, 1, 2, 3)) if self.known or rng.random() < 0.5 else 0
        while len(self.known) < more and (earlier := self._other(others)):
            self.known += [fact.text for fact in earlier.facts][:1] or earlier.known[:1]
            more -= 1
        self._shuffle_known()

    def _other(self, others: Sequence[Skeleton]) -> Conversation | None:
        """Another skeleton with the same speakers, filled."""
        mine = self.skeleton.speakers
        for _ in range(30):
            chosen = self.rng.choice(others)
            if chosen.speakers <= mine and chosen.name not in self.names:
                try:
                    made = Conversation(chosen, self.rng, plain=True, cast=self.cast)
                except NoDateError:
                    continue
                self.cast.taken |= {value.casefold() for value in made.values.values()}
                return made
        return None

    def _begin_later(self, first: int) -> None:
        """The first messages become the window; what they say is no new fact."""
        if any((fact.replaces or fact.continues) and max(fact.sources) <= first for fact in self.facts):
            return
        told = self._pass(first)
        if self.rng.random() < 0.6:
            self.known += told

    def _pass(self, first: int) -> list[str]:
        """So many messages are over: they are the window. Returns the facts that they told, which are asked no more."""
        told = [fact.text for fact in self.facts if max(fact.sources) <= first]
        self.facts = [
            replace(fact, sources=tuple(number - first for number in fact.sources if number > first))
            for fact in self.facts
            if max(fact.sources) > first
        ]
        self.window += [replace(turn, number=0) for turn in self.messages[:first]]
        self.messages = [replace(turn, number=turn.number - first) for turn in self.messages[first:]]
        return told

    def ask_of_one(self) -> bool:
        """One message is new, those before it are the window, and what they said may be known already.

        Returns whether there is such a message.
        """
        candidates = [number for number in range(1, len(self.messages) + 1) if not self._is_half_said(number)]
        if not candidates:
            return False
        tells = {max(fact.sources) for fact in self.facts}
        number = self.rng.choices(candidates, [1.0 if each in tells else 0.6 for each in candidates])[0]
        now = [fact for fact in self.facts if max(fact.sources) == number]
        over = {known for fact in self.facts if max(fact.sources) < number for known in fact.replaces}
        if any(over & {*fact.replaces, *fact.continues} for fact in now):
            return False
        self.messages = self.messages[:number]
        self.facts = [fact for fact in self.facts if max(fact.sources) <= number]
        told = self._pass(number - 1)
        self.window = self.window[-self.rng.randint(LEAST_EARLIER, MOST_EARLIER) :]
        self._keep_known([at for at in range(len(self.known)) if at + 1 not in over])
        if over or self.rng.random() < 0.5:
            self.known += told
        self._keep_near()
        return True

    def blend(self, others: Sequence[Skeleton]) -> None:
        """The one new message says what the first message of another skeleton says too, before or after its own words.

        So no fact is learnt together with all that its skeleton says beside it.
        """
        (turn,) = self.messages
        other = self._other([each for each in others if self._can_add(each, turn)])
        if other is None or any(fact.sources != (1,) for fact in other.facts if 1 in fact.sources):
            return
        added = other.messages[0].text
        if "\n" in turn.text + added or len(turn.text) + len(added) > _LONGEST_BLENDED:
            return
        facts = [fact for fact in other.facts if fact.sources == (1,)]
        first, second = (turn.text, added) if self.rng.random() < 0.5 else (added, turn.text)
        text = f"{first}{'' if first[-1] in '.!?…' else '.'} {second}"
        found = dates.resolve(text, turn.observed_at)
        said = [(day.start, day.end) for part in (first, second) for day in dates.resolve(part, turn.observed_at)]
        if [(day.start, day.end) for day in found] != said:
            return  # a word beside it has changed what a date means
        self.messages = [replace(turn, text=text, dates=found)]
        self.facts = [*self.facts, *facts] if first is turn.text else [*facts, *self.facts]
        self.names.append(other.skeleton.name)

    def _can_add(self, skeleton: Skeleton, turn: Turn) -> bool:
        """Whether the first message of this skeleton is by that speaker and stands by itself."""
        first = skeleton.messages[0]
        by = self.cast.names.get(first.speaker) == turn.speaker
        return by and not (skeleton.window or skeleton.known) and first.speaker in skeleton.speakers

    def _keep_near(self) -> None:
        """Of the known facts those that memlite would show, in the order of what they share with the message."""
        (turn,) = self.messages
        linked = {n - 1 for fact in self.facts for n in (*fact.replaces, *fact.continues)}
        words = set(ground.content_words(turn.text))
        nearness = [
            len(words.intersection(ground.content_words(text))) + self.rng.random() * (3 if at in linked else 2)
            for at, text in enumerate(self.known)
        ]
        order = sorted(range(len(self.known)), key=lambda at: -nearness[at])
        request = ExtractionRequest(
            (turn,), tuple(self.window), tuple(KnownFact(at, self.known[at]) for at in order)
        )
        kept = [fact.number for fact in shown(turn, request)]
        if not linked <= set(kept):  # the index of vectors would have found them
            kept = [*sorted(linked), *(at for at in kept if at not in linked)][: max(MOST_KNOWN, len(linked))]
            self.rng.shuffle(kept)
        self._keep_known(kept)

    def _is_half_said(self, number: int) -> bool:
        """Whether this message says a part of a fact whose speaker goes on later."""
        speaker = {turn.number: turn.speaker for turn in self.messages}
        return any(
            number in fact.sources and number < max(fact.sources) and speaker[number] == speaker[max(fact.sources)]
            for fact in self.facts
        )

    def _join(self, others: Sequence[Skeleton]) -> None:
        """More new messages, before or after: another conversation of the same people, with its facts."""
        other = self._other(others)
        if other is None or other.skeleton.known or other.skeleton.window:
            return
        first, second = (self, other) if self.rng.random() < 0.5 else (other, self)
        away = len(first.messages)
        if away + len(second.messages) > 8 or (second is self and self.window):
            return
        later = [replace(fact, sources=tuple(n + away for n in fact.sources)) for fact in second.facts]
        self.messages, self.facts = (
            [*first.messages, *(replace(turn, number=turn.number + away) for turn in second.messages)],
            [*first.facts, *later],
        )
        self.names.append(other.skeleton.name)

    def _drop_empty(self) -> None:
        """Without the last messages, where none of them says a fact."""
        needed = max((max(fact.sources) for fact in self.facts), default=1)
        self.messages = self.messages[:needed]

    def _shuffle_known(self) -> None:
        order = list(range(len(self.known)))
        linked = {n - 1 for fact in self.facts for n in (*fact.replaces, *fact.continues)}
        while len(order) > _MOST_KNOWN:
            order.remove(self.rng.choice([n for n in order if n not in linked]))
        self.rng.shuffle(order)
        self._keep_known(order)

    def _keep_known(self, order: Sequence[int]) -> None:
        """The known facts at these places, in this order; links to others go."""
        new = {old + 1: at for at, old in enumerate(order, 1)}
        self.known = [self.known[at] for at in order]
        self.facts = [
            replace(
                fact,
                replaces=tuple(new[n] for n in fact.replaces if n in new),
                continues=tuple(new[n] for n in fact.continues if n in new),
            )
            for fact in self.facts
        ]

    def example(self) -> Example:
        known = list(dict.fromkeys(self.known))
        request = ExtractionRequest(
            tuple(self.messages),
            tuple(self.window),
            tuple(KnownFact(number, text) for number, text in enumerate(known, 1)),
        )
        return Example(request, tuple(self.facts), tuple(self.names))


def _with_articles(text: str) -> str:
    """A slot behind "a" may begin with a vowel."""
    return re.sub(r"\b([Aa]) (?=[aeiouAEIO][a-z])(?!uni|one|use|eu|ut)", r"\1n ", text)


class Cast:
    """Who speaks, when, and which names are taken."""

    def __init__(self, skeleton: Skeleton, rng: random.Random, *, plain: bool) -> None:
        self.now = datetime(2020, 1, 1, tzinfo=timezone.utc) + timedelta(minutes=rng.randint(0, 7 * 365 * 24 * 60))
        self.taken: set[str] = set()
        self.names: dict[str, str] = {}
        self.other_role = rng.choice(("user", "user", "assistant"))
        facts = " ".join(target.text for target in skeleton.targets)
        speaks_of_b = re.search(r"\{[BC]\}", facts + " ".join(skeleton.known))
        addressed = any(re.search(r"\{[AB]\}", said.text) for said in (*skeleton.window, *skeleton.messages))
        # A may be the user without a name, and whoever answers the assistant, unless the facts are of them.
        self.a_is_user = (
            not plain and not speaks_of_b and not addressed and "C" not in skeleton.speakers and rng.random() < 0.25
        )
        for letter in SPEAKERS:
            name = slots.VALUES["person"](rng)
            while name.casefold() in self.taken:
                name = slots.VALUES["person"](rng)
            if letter in "ABC" and rng.random() < 0.06:
                name += " " + rng.choice(slots._people()["last"])
            self.names[letter] = name
            self.taken.add(name.casefold())
        if self.a_is_user:
            self.names["A"], self.names["B"] = "user", "assistant"
        if plain or "U" not in skeleton.speakers or rng.random() < 0.7:
            self.names["U"] = "user"
        if plain or "S" not in skeleton.speakers or rng.random() < 0.92:
            self.names["S"] = "assistant"
        self.names["T"] = "tool"

    def name(self, letter: str) -> str:
        return self.names[letter]

    def subject(self, letter: str) -> str:
        """How a fact calls a speaker."""
        name = self.names[letter]
        return f"the {name}" if name in ("user", "assistant", "tool") else name


_CONTRACTIONS = (
    ("I am", "I'm"), ("I have", "I've"), ("I will", "I'll"), ("do not", "don't"), ("does not", "doesn't"), ("did not", "didn't"),
    ("is not", "isn't"), ("cannot", "can't"), ("it is", "it's"), ("we are", "we're"), ("going to", "gonna"), ("want to", "wanna"),
    ("I would", "I'd"), ("that is", "that's"), ("we have", "we've"), ("you are", "you're"), ("have to", "gotta"),
)  # fmt: skip
_SHORT = (("you", "u"), ("your", "ur"), ("because", "cuz"), ("please", "pls"), ("tomorrow", "tmrw"), ("though", "tho"), ("really", "rly"), ("with", "w/"), ("and", "&"), ("people", "ppl"))  # fmt: skip
_OPENERS = (
    "Hey!", "Hi there!", "Oh wow!", "Haha.", "Ok so,", "Well,", "Honestly,", "So,", "Btw,", "Guess what!", "Good question!", "Hmm.",
    "Yeah,", "Actually,", "Hey {B},", "Thanks for asking!", "Oh,", "Right.", "Quick update:", "Just so you know,", "Aww!", "Same here!",
    "You won't believe it!", "Long story short,", "By the way,", "Sorry for the late reply!", "Good morning!", "Hello!", "Not gonna lie,",
)  # fmt: skip
_CLOSERS = (
    "How about you?", "Anyway!", "Haha.", "What do you think?", "Crazy, right?", "Thanks!", "Talk soon!", "Hope you're well!", ":)",
    "Can you believe it?", "So yeah.", "Wish me luck!", "Hope that helps.", "How are things with you?", "lol", "What's new with you?",
    "Just saying.", "Let me know!", "❤️", "😊", "🎉", "It feels great!", "Fingers crossed!", "What else is new?",
)  # fmt: skip


class Style:
    """How one conversation is written: casing, contractions, typos, fillers."""

    def __init__(self, rng: random.Random, *, plain: bool) -> None:
        self.rng = rng
        self.plain = plain
        self.lower = not plain and rng.random() < 0.12
        self.typos = not plain and rng.random() < 0.15
        self.short = not plain and rng.random() < 0.06
        self.contracts = rng.choice((0, 0, 1, -1))
        self.fills = not plain and rng.random() < 0.3

    def write(self, text: str, values: Sequence[str], kept: set[str], *, chatty: bool) -> str:
        if self.plain:
            return text
        rng = self.rng
        if self.contracts and not any(word in value for value in values for word in ("I am", "do not")):
            for long, short in _CONTRACTIONS:
                source, target = (long, short) if self.contracts > 0 else (short, long)
                if rng.random() < 0.7 and (self.lower or short not in ("gonna", "wanna", "gotta")):
                    text = re.sub(rf"\b{re.escape(source)}\b", target, text)
        if self.fills and chatty:
            if rng.random() < 0.35:
                opener = rng.choice(_OPENERS).replace(" {B}", "")
                starts_small = opener.endswith(",") and re.match(r"(?:The|A|An|My|We|It|You|This|That|There)\b", text)
                text = f"{opener} {text[0].lower() + text[1:] if starts_small else text}"
            if rng.random() < 0.35:
                text = f"{text} {rng.choice(_CLOSERS)}"
        if self.short and chatty:
            for long, short in _SHORT:
                if long not in kept and rng.random() < 0.5:
                    text = self._outside(text, values, lambda part, long=long, short=short: re.sub(rf"\b{long}\b", short, part))
        if self.lower and chatty:
            text = self._outside(text, values, str.lower)
        if self.typos and chatty:
            text = self._outside(text, values, lambda part: self._mistype(part, kept))
        return text

    def _outside(self, text, values, change) -> str:
        """Change what is not the value of a slot."""
        longest = sorted((value for value in values if value), key=len, reverse=True)
        pattern = "|".join(re.escape(value) for value in longest)
        if not pattern:
            return change(text)
        parts = re.split(f"({pattern})", text)
        return "".join(part if at % 2 else change(part) for at, part in enumerate(parts))

    def _mistype(self, text: str, kept: set[str]) -> str:
        def wrong(match: re.Match[str]) -> str:
            word = match[0]
            if word.lower() in kept or self.rng.random() > 0.06:
                return word
            at = self.rng.randrange(1, len(word) - 1)
            return self.rng.choice(
                (
                    word[:at] + word[at + 1 :],
                    word[:at] + word[at + 1] + word[at] + word[at + 2 :],
                    word[:at] + word[at] + word[at:],
                )
            )

        return re.sub(r"\b[a-z]{5,}\b", wrong, text)
