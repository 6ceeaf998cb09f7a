"""The days that a fact's text names, those that a caller gives, and since when a fact is true by them."""

from __future__ import annotations

from datetime import date, datetime, timezone

import pytest

from memlite import instants
from memlite.event_dates import Event, begins, named, read

SAID = datetime(2025, 5, 14, 12, tzinfo=timezone.utc)  # a Wednesday


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ana's flight to Oslo is on 14 June 2025.", ("2025-06-14", "2025-06-14", "day")),
        ("Ana was born on 3 March 1990 in Faro.", ("1990-03-03", "1990-03-03", "day")),
        ("Ana met Ben in May 2023.", ("2023-05-01", "2023-05-31", "month")),
        ("Ana was in Rome in summer 2024.", ("2024-06-01", "2024-08-31", "season")),
        ("Ana visited Kyoto in 2019.", ("2019-01-01", "2019-12-31", "year")),
        ("Ana moved around 10 May 2024.", ("2024-05-10", "2024-05-10", "approximate")),
        ("Ana moved in early May 2024.", ("2024-05-01", "2024-05-10", "approximate")),
        ("Ana moved in the week of 2025-05-05.", ("2025-05-05", "2025-05-11", "week")),
        ("Ana was away on the weekend of 2025-05-10.", ("2025-05-10", "2025-05-11", "weekend")),
        ("Ana moved in 2025-04.", ("2025-04-01", "2025-04-30", "month")),
        ("Ich wurde am 3. März 1990 geboren.", ("1990-03-03", "1990-03-03", "day")),
        ("アナは2019年に京都へ行った。", ("2019-01-01", "2019-12-31", "year")),
        # from one to another
        ("Ana worked at Acme from 2015 to 2019.", ("2015-01-01", "2019-12-31", "year")),
        ("Ana will be in Rome from 3 to 7 July 2025.", ("2025-07-03", "2025-07-07", "day")),
        ("Ana was in Rome from 3 June to 7 July 2024.", ("2024-06-03", "2024-07-07", "day")),
        ("Ana trained between May 2024 and June 2024.", ("2024-05-01", "2024-06-30", "month")),
        ("Ana was away from August 3 to 10, 2024.", ("2024-08-03", "2024-08-10", "day")),
        ("Ana was away between 3 and 10 August 2024.", ("2024-08-03", "2024-08-10", "day")),
        ("Ana is away from 2025-08-03 to 2025-08-10.", ("2025-08-03", "2025-08-10", "day")),
        ("Ana is in Porto from 2025-06 to 2025-08.", ("2025-06-01", "2025-08-31", "month")),
        ("Ana ist vom 3. bis 10. August 2025 weg.", ("2025-08-03", "2025-08-10", "day")),
        ("Ana ist vom 2025-08-03 bis 2025-08-10 weg.", ("2025-08-03", "2025-08-10", "day")),
        ("The exam was moved from 14 June 2025 to 21 June 2025.", ("2025-06-21", "2025-06-21", "day")),
        # of several the most exact one, the first of these
        ("In 2019 Ana met Ben, on 3 May 2020 they married.", ("2020-05-03", "2020-05-03", "day")),
        ("Ana flew on 3 March 2024 and on 5 April 2024.", ("2024-03-03", "2024-03-03", "day")),
        # no dates, or not of this year's making
        ("Ana likes tea.", None),
        ("Ana's birthday is on 3 March.", None),
        ("Ana flies next Friday.", None),
        ("Ana uses Python 3.11 and Ubuntu 22.04.", None),
        ("Ana read 'Lost in 2019'.", None),
        ('Ana saw "Summer in 2019" twice.', None),
        ("Ana saw Summer in 2019 twice.", None),
    ],
)
def test_the_days_that_a_text_names(text: str, expected: tuple[str, str, str] | None) -> None:
    assert named(text, SAID, ["Summer in 2019"]) == (expected and Event(*expected))


def test_a_relative_date_counts_where_it_is_asked_for_and_sure() -> None:
    assert named("Ana flies next Friday.", SAID, relative=True) == Event("2025-05-23", "2025-05-23", "day")
    assert named("Ana moved in early May.", SAID, relative=True) == Event("2025-05-01", "2025-05-10", "approximate")
    assert named("Ana flies next Friday, 14 June 2026 it is.", SAID, relative=True) == named("14 June 2026", SAID)
    august = Event("2025-08-03", "2025-08-10", "day")
    assert named("Ana will be away from 3 to 10 August.", SAID, relative=True) == august
    assert named("Ana ist vom 3. bis 10. August weg.", SAID, relative=True) == august
    moved = named("The trip was moved from 1 October to 15 November.", SAID, relative=True)
    assert moved == Event("2025-11-15", "2025-11-15", "day")
    assert named("Ana's favourite song is Yesterday.", SAID, ["Yesterday"], relative=True) is None


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        ("Ana met Ben.", "2023-05-03", "2023-05-03"),
        ("Ana booked a flight for 14 June 2025.", "2025-05-14", "2025-06-14"),
        ("On 2025-05-13 Ana booked a flight for 14 June 2025.", "2025-05-13", "2025-05-13"),
        ("Ana was in Rome from 3 to 7 July 2024.", "2024-07-03", "2024-07-03/2024-07-07"),
        ("Ana met Ben in 2023.", "2023-05-03", "2023-05-03"),
        ("Ana met Ben in 2023.", "2023-01-01", "2023"),
    ],
)
def test_the_days_that_a_model_gives_tell_which_of_the_text_are_meant(text: str, given: str, expected: str) -> None:
    assert named(text, SAID, given=read(given, SAID)) == read(expected, SAID)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2025-05-11", ("2025-05-11", "2025-05-11", "day")),
        ("2024-02", ("2024-02-01", "2024-02-29", "month")),
        ("2025", ("2025-01-01", "2025-12-31", "year")),
        ("2025-05-11T19:30", ("2025-05-11", "2025-05-11", "day")),
        ("2025-05-10/2025-05-12", ("2025-05-10", "2025-05-12", "day")),
        ("2015/2019", ("2015-01-01", "2019-12-31", "year")),
        ("summer 2024", ("2024-06-01", "2024-08-31", "season")),
        ("early May 2024", ("2024-05-01", "2024-05-10", "approximate")),
        ("week of 2024-05-08", ("2024-05-06", "2024-05-12", "week")),
        ("14 June 2025", ("2025-06-14", "2025-06-14", "day")),
        ("3. März 1990", ("1990-03-03", "1990-03-03", "day")),
        ("around 2024-05-10", ("2024-05-10", "2024-05-10", "approximate")),
        ("ca. 2018", ("2018-01-01", "2018-12-31", "approximate")),
        ("around 2024-05-01/2024-05-10", ("2024-05-01", "2024-05-10", "approximate")),
        ("soon", None),
        ("2025 soon", None),
        ("next summer", None),
        ("3 March", None),
        ("2025-02-30", None),
        ("2025-05-12/2025-05-10", None),
        ("in 2019 and in 2020", None),
    ],
)
def test_the_days_that_somebody_gives(given: str, expected: tuple[str, str, str] | None) -> None:
    assert read(given, SAID) == (expected and Event(*expected))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ana moved to Lisbon in 2025-04.", "2025-04-01"),
        ("Ana quit smoking in 2019.", "2019-01-01"),
        ("Ana visited Rome in the week of 2025-05-05.", "2025-05-05"),
        ("Ana has lived in Lisbon since March 2025.", "2025-03-01"),
        ("Ana lives in Lisbon since 2019.", "2019-01-01"),
        ("Ich wohne seit 2019 in Berlin.", "2019-01-01"),
        ("アナは2019年から東京に住んでいます。", "2019-01-01"),
        ("Ana's brother, who is a nurse, moved to Oslo in 2024.", "2024-01-01"),
        # not over yet, but told as past
        ("Ana moved to Lisbon in 2025.", "2025-01-01"),
        ("Ana is in Rome in 2025.", None),
        # what is so, with a date of something else
        ("Ana lives in the house built in 1950.", None),
        # of the day itself, or to come
        ("Ana moved on 2025-05-14.", None),
        ("Ana moves to Lisbon on 14 June 2025.", None),
    ],
)
def test_since_when_a_fact_is_true_by_its_event(text: str, expected: str | None) -> None:
    event = named(text, SAID)
    assert event is not None
    assert begins(text, event, SAID) == (expected and date.fromisoformat(expected))


def test_a_day_begins_at_its_local_midnight() -> None:
    day = date(2025, 4, 1)
    at = instants.read(SAID, None, "said")[0]
    assert instants.midnight(day, at, 0, timezone.utc) == instants.read("2025-04-01T00:00Z", None, "day")[0]
    east = instants.read("2025-04-01T00:00+14:00", None, "day")
    assert instants.midnight(day, at, east[1], timezone.utc) == east[0]


def test_the_first_day_of_the_calendar_begins_with_it() -> None:
    start = instants.midnight(date.min, 0, 840, timezone.utc)
    assert instants.local(start).date() == date.min
