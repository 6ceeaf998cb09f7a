"""What a fact says of whom, where that can have one value only: "Ana lives in Porto." has her home, and Porto.

English sentences of a few plain shapes, whole and of the present; whatever else stands there, nothing is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
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


def read(fact: reading.Reading) -> Iterator[Slot]:
    """The slots of a fact, none for most."""
    text = " ".join(fact.text.split())
    if len(text) > _LONGEST:
        return
    told = False
    for pattern, name, make in _SHAPES:
        found = pattern.fullmatch(text)
        if found and not _NOBODY.search(found["subject"]) and not _ALSO.search(found.groupdict().get("rest") or ""):
            slot = make(found, name)
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
    if told.tenses - {"can"} and not told.tenses <= {"can"}:
        return None
    return (told.plain, told.placed), told.denies


def _sort(value: str) -> str:
    if dates.absolute(fold(value))[0]:
        return "day"
    if any(map(str.isdecimal, value)):
        return "number"
    return "name" if re.fullmatch(_NAME, value) else "words"


def _slot(found: re.Match[str], name: str, sort: str, *, newer: bool = False) -> Slot | None:
    value = found["value"].strip(" \"'“”.")
    return Slot(subject(found["subject"]), name, value, sort, newer) if value else None


def subject(written: str) -> str:
    """Whom a sentence is about, in one form."""
    return fold(re.sub(r"^[Tt]he ", "", re.sub(r"['’]s?$", "", written.strip())))


def _place(found: re.Match[str], name: str) -> Slot | None:
    return _slot(found, name, "place")


def _moved(found: re.Match[str], name: str) -> Slot | None:
    return _slot(found, name, "place", newer=True)


def _named(found: re.Match[str], name: str) -> Slot | None:
    return _slot(found, name, "name")


def _begun(found: re.Match[str], name: str) -> Slot | None:
    return _slot(found, name, "name", newer=True)


def _status(found: re.Match[str], name: str) -> Slot | None:
    return Slot(subject(found["subject"]), name, found["value"], "status")


def _age(found: re.Match[str], name: str) -> Slot | None:
    return Slot(subject(found["subject"]), name, found["value"], "number", newer="turned" in found[0])


def _attribute(found: re.Match[str], name: str) -> Slot | None:
    """A person must be named; of a thing any short value counts, against others of its sort."""
    which = " ".join(_SPELT.get(word, word) for word in found["which"].casefold().split())
    value = found["value"].strip()
    sort = _sort(value)
    if re.fullmatch(_PERSONS, found["which"], re.IGNORECASE):
        if sort != "name":
            return None
    elif len(value.split()) > 4 or (sort != "day" and re.match(r"(?:not|very|too|quite|so|one|on|in|at) ", value)):
        return None
    return _slot(found, which, sort)


_SHAPES: tuple[tuple[re.Pattern[str], str, Callable[[re.Match[str], str], Slot | None]], ...] = tuple(
    (re.compile(pattern), name, make)
    for pattern, name, make in (
        (
            rf"{_WHO}{_NOW} (?:lives?|resides?|(?:is|has been){_NOW} (?:living|based)|has lived) in (?P<value>{_NAME})"
            rf"{_REST}",
            "home",
            _place,
        ),
        (rf"{_WHO}(?:['’]s?) home is in (?P<value>{_NAME}){_REST}", "home", _place),
        (
            rf"{_WHO} (?:has (?:just |recently )?|just |recently )?moved (?:back |away )?(?:from {_NAME} )?to "
            rf"(?P<value>{_NAME}){_REST}",
            "home",
            _moved,
        ),
        (rf"{_WHO}{_NOW} (?:works?|is{_NOW} working) in (?P<value>{_NAME}){_REST}", "place of work", _place),
        (
            rf"{_WHO}{_NOW} (?:works?|is{_NOW} (?:working|employed))(?: as an? [\w -]{{2,30}}?)? (?:at|for|by) "
            rf"(?P<value>{_NAME}){_REST}",
            "employer",
            _named,
        ),
        (
            rf"{_WHO} (?:has )?(?:just |recently )?(?:started (?:working |work |a job )?at|joined|a new job at) "
            rf"(?P<value>{_NAME}){_REST}",
            "employer",
            _begun,
        ),
        (rf"{_WHO} is{_NOW} married to (?P<value>{_NAME}){_REST}", "spouse", _named),
        (rf"{_WHO} is{_NOW} (?P<value>{_STATUS})(?: to .*)?\.?", "marital status", _status),
        (
            rf"{_WHO} (?:is{_NOW}|(?:has )?(?:just )?turned) (?P<value>\d{{1,3}})(?: years old| years of age)?\.?",
            "age",
            _age,
        ),
        (rf"{_WHO} was born in (?P<value>{_NAME}){_REST}", "birthplace", _place),
        (
            rf"{_WHO} was born on (?P<value>[^,;]*\d[^,;]*?)(?P<rest>)\.?",
            "birthday",
            lambda found, name: _slot(found, name, "day"),
        ),
        (
            rf"{_WHO}(?:['’]s?) (?P<which>{_PERSONS}|{_THINGS}) is{_NOW} (?:called |named |on )?(?P<value>[^,;]+?)\.?",
            "",
            _attribute,
        ),
        (
            rf"[Tt]he (?P<which>{_PERSONS}|{_THINGS}) of {_WHO} is{_NOW} (?:called |named |on )?(?P<value>[^,;]+?)\.?",
            "",
            _attribute,
        ),
    )
)


def _numbers(text: str) -> Iterator[Slot]:
    """A number behind a verb of state, the words around it being the slot: "Ana has [two] cats"."""
    digits = re.sub(
        r"\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b",
        lambda match: reading.NUMBERS[match[0]],
        text,
    )
    for match in _NUMBER.finditer(digits):
        head, tail = digits[: match.start()], digits[match.end() :]
        said = re.fullmatch(rf"{_WHO} {_STATES}\b(?P<between>.*)", head.rstrip())
        if not said or _NOBODY.search(said["subject"]) or _NUMBERED.search(head.rstrip()):
            continue
        before, after = reading.read(head), reading.read(tail)
        if (before.tenses | after.tenses) & _PAST or before.denies or _ALSO.search(said["between"] + tail):
            continue
        around = (*before.plain, "#", *before.placed, "|", *after.plain, "#", *after.placed)
        yield Slot(subject(said["subject"]), " ".join(around), match[0], "number")
