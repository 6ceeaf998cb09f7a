"""Relative dates, each said on Wednesday 14 May 2025 unless the case says otherwise."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlite.dates import resolve, spans

WEDNESDAY = datetime(2025, 5, 14, 12, tzinfo=timezone.utc)


def days(text: str, observed_at: datetime = WEDNESDAY) -> list[str]:
    """What was found, as "expression = start..end precision", or without the end where it is one day."""
    return [
        f"{found.expression} = {found.start}" + ("" if found.precision == "day" else f"..{found.end} {found.precision}")
        for found in resolve(text, observed_at)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I saw her yesterday", "yesterday = 2025-05-13"),
        ("the day before yesterday I slept", "the day before yesterday = 2025-05-12"),
        ("We meet TODAY.", "TODAY = 2025-05-14"),
        ("dinner tonight?", "tonight = 2025-05-14"),
        ("I ran this morning", "this morning = 2025-05-14"),
        ("last night's game", "last night = 2025-05-13"),
        ("tomorrow  evening works", "tomorrow  evening = 2025-05-15"),
        ("not until the day after tomorrow", "the day after tomorrow = 2025-05-16"),
        ("three days ago", "three days ago = 2025-05-11"),
        ("a couple of days ago", "a couple of days ago = 2025-05-12"),
        ("two weeks ago we moved", "two weeks ago = 2025-04-28..2025-05-04 week"),
        ("two weekends ago", "two weekends ago = 2025-05-03..2025-05-04 weekend"),
        ("two months ago", "two months ago = 2025-03-01..2025-03-31 month"),
        ("about six months ago", "six months ago = 2024-11-01..2024-11-30 month"),
        ("3 years ago", "3 years ago = 2022-01-01..2022-12-31 year"),
        ("I leave in three days", "in three days = 2025-05-17"),
        ("we'll talk in 2 weeks' time", "in 2 weeks' time = 2025-05-26..2025-06-01 week"),
        ("two weeks from today", "two weeks from today = 2025-05-28"),
        ("two days before yesterday", "two days before yesterday = 2025-05-11"),
        ("a week ago today", "a week ago today = 2025-05-07"),
        ("next Friday", "next Friday = 2025-05-23"),
        ("next Monday", "next Monday = 2025-05-19"),
        ("this coming Friday", "this coming Friday = 2025-05-16"),
        ("on previous Tuesday", "previous Tuesday = 2025-05-06"),
        ("next Wednesday", "next Wednesday = 2025-05-21"),
        ("last Wednesday", "last Wednesday = 2025-05-07"),
        ("last Tues", "last Tues = 2025-05-13"),
        ("the dinner is on Friday", "Friday = 2025-05-16"),
        ("we met on Friday", "Friday = 2025-05-09"),
        ("See you Friday at 7", "Friday = 2025-05-16"),
        ("It's scheduled for Friday.", "Friday = 2025-05-16"),
        ("On Friday, I went to a show", "Friday = 2025-05-09"),
        ("Tuesday of last week", "Tuesday of last week = 2025-05-06"),
        ("next week on Friday", "next week on Friday = 2025-05-23"),
        ("last week was hard", "last week = 2025-05-05..2025-05-11 week"),
        ("the week before last", "the week before last = 2025-04-28..2025-05-04 week"),
        ("this weekend", "this weekend = 2025-05-17..2025-05-18 weekend"),
        ("we went there this weekend", "this weekend = 2025-05-10..2025-05-11 weekend"),
        ("next weekend", "next weekend = 2025-05-24..2025-05-25 weekend"),
        ("we were out over the weekend", "the weekend = 2025-05-10..2025-05-11 weekend"),
        ("next month", "next month = 2025-06-01..2025-06-30 month"),
        ("last year", "last year = 2024-01-01..2024-12-31 year"),
        ("I went there in March", "March = 2025-03-01..2025-03-31 month"),
        ("we start in March", "March = 2026-03-01..2026-03-31 month"),
        ("last May", "last May = 2024-05-01..2024-05-31 month"),
        ("in June last year", "June last year = 2024-06-01..2024-06-30 month"),
        ("last summer", "last summer = 2024-06-01..2024-08-31 season"),
        ("last winter", "last winter = 2024-12-01..2025-02-28 season"),
        ("this fall", "this fall = 2025-09-01..2025-11-30 season"),
        ("It was on 5 May.", "5 May = 2025-05-05"),
        ("The party is on May 5th", "May 5th = 2026-05-05"),
        ("let's meet on the 20th of may", "the 20th of may = 2025-05-20"),
        ("it was on Dec. 24", "Dec. 24 = 2024-12-24"),
        ("February 29th", "February 29th = 2028-02-29"),
        ("the rent is due on the 1st.", "the 1st = 2025-06-01"),
        ("Friday the 16th", "Friday the 16th = 2025-05-16"),
    ],
)
def test_a_relative_date_is_resolved(text: str, expected: str) -> None:
    assert days(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "I lived there in 2019, in May 2019 and on May 5, 2019.",
        "You may go on, and march on! I may 5 times.",
        "Wait a second, the sun is out.",
        "the last week of June",
        "We ate at TGI Friday's on Black Friday.",
        "Friday Harbor is lovely",
        "every Friday, on a Friday, on Fridays",
        "My birthday is May 5th",
        "The last two weeks were hard, over the past month, and the next day we left.",
        "a few days ago, over a year ago, two or three weeks ago, half a year ago",
        "I wrote it in three days, in a day, twice in a week",
        "three days from Tuesday",
        "1,000 days ago, 2.5 years ago, two and a half years ago",
        "February 30th",
        "June 5-7",
        "anything fun over the weekend?",
        "We ran, sat and wed",
        "",
    ],
)
def test_what_is_no_date_of_its_own_is_left_alone(text: str) -> None:
    assert days(text) == []


def test_dates_come_in_the_order_of_the_text_and_do_not_overlap() -> None:
    text = "Next week Monday I fly, yesterday I packed, and the day before yesterday I bought the ticket."
    assert days(text) == [
        "Next week Monday = 2025-05-19",
        "yesterday = 2025-05-13",
        "the day before yesterday = 2025-05-12",
    ]


def test_each_sentence_has_its_own_tense() -> None:
    assert days("We went hiking on Friday. I will be there on Friday.") == [
        "Friday = 2025-05-09",
        "Friday = 2025-05-16",
    ]


def test_the_day_is_the_local_one_of_the_offset() -> None:
    late_in_tokyo = datetime(2025, 5, 14, 0, 30, tzinfo=timezone(timedelta(hours=9)))
    assert days("yesterday", late_in_tokyo) == ["yesterday = 2025-05-13"]
    assert days("yesterday", late_in_tokyo.astimezone(timezone.utc)) == ["yesterday = 2025-05-12"]


def test_last_summer_is_this_years_once_it_is_over() -> None:
    assert days("last summer", datetime(2025, 10, 1)) == ["last summer = 2025-06-01..2025-08-31 season"]
    assert days("last summer", datetime(2025, 7, 1)) == ["last summer = 2024-06-01..2024-08-31 season"]


def test_what_the_calendar_does_not_reach_is_left_alone() -> None:
    everything = "yesterday, last week, last year, last summer, last May, last Friday, we met on May 5th, in March"
    assert days(everything, datetime(1, 1, 1)) == []
    assert days("tomorrow, next year, next summer, in 5 days, 999 years ago", datetime(9999, 12, 31)) == [
        "999 years ago = 9000-01-01..9000-12-31 year"
    ]


PIECES = (
    "yesterday|the day before|last|next|this|Friday|may|March|5th|the 31st|of|in|two|999|weeks|ago|on|, |"
    "summer|weekend|February 29th|laſt|ſummer|\n|we met|will|from|today|2019|-"
)


@given(st.lists(st.sampled_from(PIECES.split("|"))).map(" ".join) | st.text(), st.datetimes())
def test_any_text_on_any_day_gives_ordered_days_in_their_own_words(text: str, observed_at: datetime) -> None:
    position = 0
    for found in resolve(text, observed_at):
        position = text.index(found.expression, position) + len(found.expression)
        first, last = date.fromisoformat(found.start), date.fromisoformat(found.end)
        assert first <= last
        assert (last - first).days in {
            "day": [0],
            "weekend": [1],
            "week": [6],
            "month": range(27, 31),
            "season": range(89, 92),
            "year": [364, 365],
        }[found.precision]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What did Maria do on 3 June, 2023?", [("2023-06-03", "2023-06-03")]),
        ("on the 3rd of June 2023", [("2023-06-03", "2023-06-03")]),
        ("the plan of October 13, 2023", [("2023-10-13", "2023-10-13")]),
        ("What was new in Feb. 2024?", [("2024-02-01", "2024-02-29")]),
        ("How often in 2023?", [("2023-01-01", "2023-12-31")]),
        ("What happened last summer?", [("2024-06-01", "2024-08-31")]),
        ("2023-05-11 or 2023-06", [("2023-05-11", "2023-05-11"), ("2023-06-01", "2023-06-30")]),
        ("February 30, 2023", []),
        ("May I call 2023?", []),
        ("room 2023, flight 2023-17-99", []),
    ],
)
def test_the_periods_that_a_question_names(query: str, expected: list[tuple[str, str]]) -> None:
    found = spans(query, datetime(2025, 3, 1, tzinfo=timezone.utc))
    assert [(first.isoformat(), last.isoformat()) for first, last in found] == expected
