"""Midnights and time zones: what callers give as naive times, dates, or with an offset, and what comes back."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memlite import Fact, Memory, instants
from tests.conftest import Echo

# From -11 to +14 hours, some that change their clocks at midnight, and one of half an hour.
NAMES = (
    "Pacific/Pago_Pago",
    "America/New_York",
    "America/Sao_Paulo",
    "Atlantic/Azores",
    "UTC",
    "Europe/Lisbon",
    "Europe/Berlin",
    "Africa/Cairo",
    "Asia/Beirut",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Pacific/Kiritimati",
)
ZONES = st.sampled_from([ZoneInfo(name) for name in NAMES]) | st.integers(-11 * 4, 14 * 4).map(
    lambda quarters: timezone(timedelta(minutes=15 * quarters))
)
# Days on which clocks change somewhere, and those around them.
CHANGES = [
    date(2024, 3, 10),
    date(2024, 3, 31),
    date(2024, 4, 7),
    date(2024, 4, 26),
    date(2024, 10, 27),
    date(2018, 11, 4),
]
DAYS = st.dates(date(1990, 1, 1), date(2025, 12, 31)) | st.builds(
    lambda day, more: day + timedelta(days=more), st.sampled_from(CHANGES), st.integers(-1, 1)
)
WALLS = st.builds(
    lambda day, minutes: datetime(day.year, day.month, day.day) + timedelta(minutes=minutes),
    DAYS,
    st.sampled_from([0, 1, 23 * 60 + 59]) | st.integers(0, 24 * 60 - 1),
)


def forms(wall: datetime, zone: tzinfo) -> list[object]:
    """All ways to give one instant that is a wall time of a zone."""
    aware = wall.replace(tzinfo=zone)
    utc = aware.astimezone(timezone.utc)
    found: list[object] = [
        wall,
        wall.isoformat(),
        wall.isoformat(" "),
        aware,
        aware.isoformat(),
        utc,
        utc.isoformat(),
        utc.isoformat().replace("+00:00", "Z"),
    ]
    if wall.time() == datetime.min.time():
        found += [wall.date(), wall.date().isoformat()]
    return found


def milliseconds(wall: datetime, zone: tzinfo) -> int:
    return round(wall.replace(tzinfo=zone).timestamp() * 1000)


@given(WALLS, ZONES)
@example(datetime(2018, 11, 4), ZoneInfo("America/Sao_Paulo"))  # a midnight that was left out
@example(datetime(2024, 10, 27, 2, 30), ZoneInfo("Europe/Berlin"))  # an hour that came twice
def test_an_instant_is_the_same_in_whatever_form_it_is_given(wall: datetime, zone: tzinfo) -> None:
    for form in forms(wall, zone):
        at, offset = instants.read(form, zone, "at")
        assert at == milliseconds(wall, zone), form
        if "Z" not in str(form) and "+00:00" not in str(form):  # else it is given in UTC
            assert instants.local(at, offset).replace(tzinfo=None) == wall, form
            assert instants.day(at, offset) == wall.date(), form


@given(st.dates(date(1850, 1, 1), date(2025, 12, 31)), st.sampled_from([*NAMES, "Europe/Amsterdam", "Africa/Monrovia"]))
@example(date(1890, 1, 1), "Europe/Berlin")  # 53 minutes and 28 seconds east
@example(date(1960, 1, 1), "Africa/Monrovia")  # 44 minutes and 30 seconds west
def test_a_date_stays_the_day_it_is(day: date, name: str) -> None:
    zone = ZoneInfo(name)
    for form in (day, day.isoformat(), datetime(day.year, day.month, day.day)):
        assert instants.day(*instants.read(form, zone, "at")) == day


@settings(max_examples=25, deadline=None)
@given(WALLS, WALLS, ZONES)
@example(datetime(2025, 1, 10), datetime(2025, 7, 1), ZoneInfo("Europe/Lisbon"))
def test_what_comes_back_has_the_days_that_were_given(observed: datetime, begins: datetime, zone: tzinfo) -> None:
    with Memory(":memory:", timezone=zone, embedder=False, extractor=Echo()) as memory:
        message = memory.add("Ana likes rum.", user_id="u", observed_at=observed, expires_at=begins)
        fact = {"text": "Ana likes tea.", "valid_from": begins, "expires_at": begins + timedelta(days=200)}
        (told,) = memory.remember(fact, user_id="u", observed_at=observed).facts
        (learnt,) = message.facts
        for stored in (told, memory.get(told.id), memory.get(learnt.id), memory.get(message.messages[0])):
            assert stored.observed_at.replace(tzinfo=None) == observed
        assert told.valid_from.date() == begins.date()
        assert told.expires_at
        assert told.expires_at.replace(tzinfo=None) == shown(begins + timedelta(days=200), zone)
        assert learnt.expires_at
        assert learnt.expires_at.replace(tzinfo=None) == shown(begins, zone)


def shown(wall: datetime, zone: tzinfo) -> datetime:
    """What a clock there shows at a wall time: an hour more where it was put forward over it."""
    return wall.replace(tzinfo=zone).astimezone(timezone.utc).astimezone(zone).replace(tzinfo=None)


@settings(max_examples=25, deadline=None)
@given(WALLS, ZONES, st.data())
def test_what_was_true_begins_and_ends_at_the_instant(wall: datetime, zone: tzinfo, data: st.DataObject) -> None:
    at = milliseconds(wall, zone)
    with Memory(":memory:", timezone=zone, embedder=False, extractor=False) as memory:
        old = memory.remember("Ana lives in Rome.", user_id="u", observed_at="1980-01-01").facts[0]
        new = {"text": "Ana lives in Oslo.", "replaces": old.id}
        memory.remember(new, user_id="u", observed_at=data.draw(st.sampled_from(forms(wall, zone))))

        def true(when: object) -> list[str]:
            return [hit.text for hit in memory.search("Ana", user_id="u", as_of=when)]  # type: ignore[arg-type]

        for form in forms(wall, zone):
            assert true(form) == ["Ana lives in Oslo."], form
        assert true(instants.local(at - 1)) == ["Ana lives in Rome."]
        ended = memory.get(old.id)
        assert isinstance(ended, Fact)
        assert ended.valid_to == instants.local(at)


@settings(max_examples=25, deadline=None)
@given(WALLS, ZONES)
def test_what_was_known_begins_at_the_instant(wall: datetime, zone: tzinfo) -> None:
    at = milliseconds(wall, zone)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(instants, "now", lambda: at)
        with Memory(":memory:", timezone=zone, embedder=False, extractor=False) as memory:
            memory.remember("Ana lives in Rome.", user_id="u", observed_at="1980-01-01")
            before = instants.local(at - 1)
            for form in forms(wall, zone):
                assert memory.search("Ana", user_id="u", known_at=form), form  # type: ignore[arg-type]
                assert not memory.diff(form, user_id="u").added, form  # type: ignore[arg-type]
            assert not memory.search("Ana", user_id="u", known_at=before)
            assert memory.diff(before, user_id="u").added


@pytest.mark.parametrize("hours", [-11, -3, 0, 2, 14])
def test_a_naive_expiry_is_in_the_time_zone(hours: int) -> None:
    zone = timezone(timedelta(hours=hours))
    now = datetime.now(zone).replace(tzinfo=None)
    with Memory(":memory:", timezone=zone, embedder=False, extractor=False) as memory:
        for minutes in (-5, 5):
            memory.remember(
                f"Minute {minutes}.", user_id="u", expires_at=(now + timedelta(minutes=minutes)).isoformat()
            )
        assert [fact.text for fact in memory.get_all(user_id="u")] == ["Minute 5."]
        assert [hit.text for hit in memory.search("minute", user_id="u")] == ["Minute 5."]


@settings(max_examples=50, deadline=None)
@given(WALLS, ZONES, st.integers(1, 400))
@example(datetime(2025, 7, 1, 10), ZoneInfo("Europe/Lisbon"), 167)
@example(datetime(2025, 7, 1, 10), ZoneInfo("Asia/Beirut"), 93)  # clocks go from 0 to 1
@example(datetime(2025, 11, 1, 10), ZoneInfo("Asia/Beirut"), 6)  # and from 0 to 23
def test_what_happened_on_a_day_is_true_since_its_midnight(observed: datetime, zone: tzinfo, days: int) -> None:
    day = observed.date() - timedelta(days)
    with Memory(":memory:", timezone=zone, embedder=False, extractor=Echo()) as memory:
        (learnt,) = memory.add(f"Ana moved on {day}.", user_id="u", observed_at=observed).facts
        assert learnt.valid_from.date() == day
        assert learnt.valid_from.hour < 2


@pytest.fixture(params=["Pacific/Pago_Pago", "Europe/Berlin", "Pacific/Kiritimati"])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ZoneInfo]:
    """The zone that the machine is set to."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield ZoneInfo(request.param)
    monkeypatch.undo()
    time.tzset()


@pytest.mark.skipif(not hasattr(time, "tzset") or os.name != "posix", reason="the zone of the process cannot be set")
def test_without_a_time_zone_it_is_the_machines(machine: ZoneInfo, memory: Memory) -> None:
    fact = {"text": "Ana likes tea.", "valid_from": "2025-07-01"}
    (stored,) = memory.remember(fact, user_id="u", observed_at="2025-01-10").facts
    assert stored.observed_at == datetime(2025, 1, 10, tzinfo=machine)
    assert stored.valid_from == datetime(2025, 7, 1, tzinfo=machine)
    assert (stored.observed_at.date(), stored.valid_from.date()) == (date(2025, 1, 10), date(2025, 7, 1))


def test_a_question_about_yesterday_means_that_of_the_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    evening = instants.read("2026-03-10T11:30:00Z", None, "now")[0]  # the 11th on Kiritimati, the 10th in London
    monkeypatch.setattr(instants, "now", lambda: evening)
    for name, day in (("Pacific/Kiritimati", "10"), ("Europe/London", "09")):
        with Memory(":memory:", timezone=name, embedder=False, extractor=False) as memory:
            for n in ("08", "09", "10"):
                memory.add(f"I swim to buoy {n}.", user_id="u", observed_at=f"2026-03-{n}T09:00", extract="never")
            best = memory.search("When did I swim yesterday?", user_id="u")[0]
            assert best.text == f"I swim to buoy {day}."
