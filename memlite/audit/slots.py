"""What a fact says of whom, where that can have one value only: "Ana lives in Porto." has her home, and Porto.

English sentences of a few plain shapes, whole and of the present; whatever else stands there, nothing is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from memlite import dates
from memlite.audit import places, reading
from memlite.words import fold

_CAP = r"[^\W\d_a-z][\w&’'./-]*(?<![.’'])"
_SMALL = r"of|de|da|do|dos|das|del|della|di|du|van|von|der|den|la|le|&"
_NAME = rf"(?:(?:[Tt]he )?{_CAP}(?: (?:(?:{_SMALL}) (?:the )?){{0,2}}{_CAP})*)"
_WHO = r"(?P<subject>(?:[Tt]he )?[^\s,;:][^,;:]{0,50}?)"
_NOW = r"(?: now| currently| still)?"
_REST = r"(?P<rest>.*?)\.?"
# Who is one of several, and of whom something else is said by the same words.
_NOBODY = re.compile(
    r"\b(?:and|or|who|which|that|if|when|while|where|because|says?|said|thinks?|believes?|hopes?|wants?|knows?|not|"
    r"never|no|everyone|someone|somebody|nobody|one|they|he|she|it|his|her|their|this)\b",
    re.IGNORECASE,
)
# What follows the value and leaves room for another one.
_ALSO = re.compile(
    r"\b(?:and|or|also|sometimes|partly|part|half|during|until|till|while|when|if|weekends?|weekdays?|"
    r"summers?|winters?|springs?|autumns?|mondays?|tuesdays?|wednesdays?|thursdays?|fridays?|saturdays?|sundays?|"
    r"temporarily|remotely|freelance|second|another|mostly|usually|most|would|may|might|soon|next|used)\b",
    re.IGNORECASE,
)
_PERSONS = (
    "husband|wife|spouse|boyfriend|girlfriend|fiancée?|mother|father|boss|manager|supervisor|landlord|landlady|"
    "line manager|team lead|full name|first name|last name|middle name|maiden name|surname|name"
)
_THINGS = (
    "birthday|date of birth|birth ?date|phone number|mobile number|telephone number|home address|address|blood type|"
    "height|weight|shoe size|ring size|home ?town|birthplace|native language|star sign|zodiac sign|job title|salary|"
    r"budget|favou?rite (?:[\w-]+ ){0,2}?[\w-]+(?<!s)"
)
_STATUS = "single|married|divorced|widowed|engaged"
_STATES = (
    r"(?:is|are|has|have|had|own|owns|keeps|costs?|weighs?|measures?|earns?|pays?|takes?|needs?|lasts?|opens?|closes?|"
    r"drinks?|sleeps?|runs?|works?|walks?|reads?|smokes?|spends?|starts?|begins?)"
)
_LONGEST = 200  # characters of a fact of which one value is all that it says
_NUMBERED = re.compile(
    r"(?:\b(?:number|no|nr|room|flat|platform|gate|chapter|version|bus|line|route|page|form|level|grade|class|unit|"
    r"apartment|floor|track|step|part|season|episode|phase|type|model|tram|train|flight|seat|row|lot|plot)\.?"
    rf"|(?<![.!?] ){_CAP}) ?$"
)
_NUMBER = re.compile(r"(?<![\w.,:/-])\d+(?:[.,:]\d+)*(?![\w:/-]|[.,]\d)")
_STRONG = (
    (re.compile(r"\b(?:hate|dislike|detest)(s?)\b"), "does not like"),
    (re.compile(r"\bcan(?:['’]t|not| not) stand\b"), "does not like"),
    (re.compile(r"\b(?:love|enjoy|adore)s\b"), "likes"),
)
# What stands where a place or a firm could.
_TIMES = frozenset(
    "january february march april may june july august september october november december spring summer autumn winter "
    "christmas easter thanksgiving midnight night noon home".split()
)
_SPELT = {"favorite": "favourite", "color": "colour", "birthdate": "birthday", "hometown": "home town"}
_PAST = frozenset("was were had did been used would could may might if maybe".split())


@dataclass(frozen=True, slots=True)
class Slot:
    """A value that somebody or something has, and can have one of.

    subject, name: whose and which, folded. value: as it is written. sort: what can be compared with it. newer: it is
    told as a change, and says nothing against what was true later.
    """

    subject: str
    name: str
    value: str
    sort: str
    newer: bool = False


def read(fact: reading.Reading, types: Mapping[str, str]) -> Iterator[Slot]:
    """The slots of a fact, none for most. types: of the entities that it mentions, by their folded names."""
    text = " ".join(fact.text.split())
    if len(text) > _LONGEST:
        return
    told = False
    for pattern, name, make in _SHAPES:
        found = pattern.fullmatch(text)
        if not found or _NOBODY.search(found["subject"]):
            continue
        rest = found.groupdict().get("rest") or ""
        slot = None if _ALSO.search(rest) or re.match(r" \d", rest) else make(found, name, types)
        if slot:
            told = True
            yield slot
    if not told:
        yield from _numbers(text)


def differ(one: str, other: str, sort: str) -> bool:
    """Whether two values of a slot exclude each other: neither is the other, a part of it, or where it lies."""
    mine, theirs = (set(fold(re.sub(r"[’'-]", " ", value)).split()) - {"the", "of"} for value in (one, other))
    if not mine or not theirs or mine <= theirs or theirs <= mine:
        return False
    if sort == "place":
        return places.exclude(one, other)
    if sort == "name" and any(a.startswith(b) or b.startswith(a) for a in mine for b in theirs):
        return False  # Ben, Benjamin
    if sort == "words":  # dark green and bright green: who knows
        return not {word[:4] for word in mine} & {word[:4] for word in theirs}
    if sort == "day":
        days = [dates.absolute(fold(value))[0] for value in (one, other)]
        parts = [found[0][1] for found in days if found]
        return len(parts) == 2 and any(a and b and a != b for a, b in zip(*parts))
    return True


def denial(fact: reading.Reading) -> tuple[object, bool] | None:
    """What a fact of the present asserts or denies, and whether it denies it; None where it tells of the past."""
    text = fact.text
    for pattern, meant in _STRONG:
        text = pattern.sub(meant, text)
    told = fact if text == fact.text else reading.read(text)
    if told.tenses - {"can"} or not told.plain:
        return None
    return (told.plain, told.placed), told.denies


def _sort(value: str) -> str:
    if dates.absolute(fold(value))[0]:
        return "day"
    if any(map(str.isdecimal, value)):
        return "number"
    return "name" if re.fullmatch(_NAME, value) else "words"


def subject(written: str) -> str:
    """Whom a sentence is about, in one form."""
    return fold(re.sub(r"^[Tt]he ", "", re.sub(r"['’]s?$", "", written.strip())))


_Types = Mapping[str, str]
_Made = Callable[[re.Match[str], str, _Types], "Slot | None"]


def _slot(sort: str, *, newer: bool = False, only: str = "") -> _Made:
    """Makes slots of one sort; only: of values of which somebody has told that they are of this type."""

    def made(found: re.Match[str], name: str, types: _Types) -> Slot | None:
        value = found["value"].strip(" \"'“”.")
        if not value or fold(value) in _TIMES or (only and types.get(fold(value)) != only):
            return None
        return Slot(subject(found["subject"]), name, value, sort, newer)

    return made


def _attribute(found: re.Match[str], name: str, types: _Types) -> Slot | None:
    """A person must be named; of a thing any short value counts, against others of its sort."""
    which = " ".join(_SPELT.get(word, word) for word in found["which"].casefold().split())
    value = found["value"].strip()
    sort = _sort(value)
    if re.fullmatch(_PERSONS, found["which"], re.IGNORECASE):
        if sort != "name":
            return None
    elif len(value.split()) > 4 or (sort != "day" and re.match(r"(?:not|very|too|quite|so|one|on|in|at) ", value)):
        return None
    return Slot(subject(found["subject"]), which, value.strip(" \"'“”."), sort)


_HOME = r"(?:lives?|resides?|(?:is|has been)(?: now| currently)? (?:living|based)|has lived) in"
_WORKS = r"(?:works?|is(?: now| currently)? (?:working|employed))(?: as an? [\w -]{2,30}?)?"
_IS = r" is(?: now| currently| still)? (?:called |named |on )?"
# Who moved may have moved to another firm, or to Linux; and who works in Porto to some, and in marketing to others.
_SHAPES: tuple[tuple[re.Pattern[str], str, _Made], ...] = tuple(
    (re.compile(pattern), name, make)
    for pattern, name, make in (
        (rf"{_WHO}{_NOW} {_HOME} (?P<value>{_NAME}){_REST}", "home", _slot("place")),
        (rf"{_WHO}(?:['’]s?) home is in (?P<value>{_NAME}){_REST}", "home", _slot("place")),
        (
            rf"{_WHO} (?:has )?(?:just |recently )?moved (?:back )?(?:from {_NAME} )?to (?P<value>{_NAME}){_REST}",
            "home",
            _slot("place", newer=True, only="place"),
        ),
        (
            rf"{_WHO}{_NOW} (?:works?|is{_NOW} working) in (?P<value>{_NAME}){_REST}",
            "place of work",
            _slot("place", only="place"),
        ),
        (rf"{_WHO}{_NOW} {_WORKS} (?:at|by) (?P<value>{_NAME}){_REST}", "employer", _slot("name")),
        (
            rf"{_WHO}{_NOW} {_WORKS} for (?P<value>{_NAME}){_REST}",
            "employer",
            _slot("name", only="organisation"),
        ),
        (
            rf"{_WHO} (?:has )?(?:just |recently )?(?:started (?:working|work|a (?:new )?job)|a new job) at "
            rf"(?P<value>{_NAME}){_REST}",
            "employer",
            _slot("name", newer=True),
        ),
        (rf"{_WHO} is{_NOW} married to (?P<value>{_NAME}){_REST}", "spouse", _slot("name")),
        (rf"{_WHO} is{_NOW} (?P<value>{_STATUS})(?: to .*)?\.?", "marital status", _slot("status")),
        (rf"{_WHO} is{_NOW} (?P<value>\d{{1,3}})(?: years old| years of age)?\.?", "age", _slot("number")),
        (
            rf"{_WHO} (?:has )?(?:just )?turned (?P<value>\d{{1,3}})(?: years old)?\.?",
            "age",
            _slot("number", newer=True),
        ),
        (rf"{_WHO} was born in (?P<value>{_NAME}){_REST}", "birthplace", _slot("place")),
        (rf"{_WHO} was born on (?P<value>[^,;]*\d[^,;]*?)\.?", "birthday", _slot("day")),
        (rf"{_WHO}(?:['’]s?) (?P<which>{_PERSONS}|{_THINGS}){_IS}(?P<value>[^,;]+?)\.?", "", _attribute),
        (rf"[Tt]he (?P<which>{_PERSONS}|{_THINGS}) of {_WHO}{_IS}(?P<value>[^,;]+?)\.?", "", _attribute),
    )
)


def _numbers(text: str) -> Iterator[Slot]:
    """A number behind a verb of state, the words around it being the slot: "Ana has [two] cats". Dates are none."""
    digits = re.sub(
        r"\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b",
        lambda match: reading.NUMBERS[match[0]],
        text,
    )
    for match in _NUMBER.finditer(digits):
        head, tail = digits[: match.start()].rstrip(), digits[match.end() :]
        said = re.fullmatch(rf"{_WHO} {_STATES}\b(?P<between>.*)", head)
        if not said or _NOBODY.search(said["subject"]) or _NUMBERED.search(head):
            continue
        before, after = reading.read(head), reading.read(tail)
        unsure = (before.tenses | after.tenses) & _PAST or before.denies or _ALSO.search(said["between"] + tail)
        if unsure or _is_time(head, match[0], tail):
            continue
        around = (*before.plain, "#", *before.placed, "|", *after.plain, "#", *after.placed)
        yield Slot(subject(said["subject"]), " ".join(around), match[0], "number")


def _is_time(head: str, number: str, tail: str) -> bool:
    """Whether a number is a day or an hour: of two appointments each has its own."""
    around = fold(f"{' '.join(head.split()[-2:])} {number} {' '.join(tail.split()[:2])}")
    return (
        ":" in number or bool(dates.absolute(around)[0]) or re.match(r" ?(?:[ap]\.?m\b|o['’]clock)", tail) is not None
    )
