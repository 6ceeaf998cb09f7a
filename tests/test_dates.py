"""Relative dates, each said on Wednesday 14 May 2025 unless the case says otherwise."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlite.dates import find, resolve, written_out

WEDNESDAY = datetime(2025, 5, 14, 12, tzinfo=timezone.utc)


def periods(text: str, said: datetime) -> list[tuple[date, date]]:
    return [(each.first, each.last) for each in find(text, said)]


def days(text: str, observed_at: datetime = WEDNESDAY) -> list[str]:
    """What was found, as "expression = start..end precision", or without the end where it is one day."""
    return [
        f"{found.expression} = {found.start}"
        + ("" if found.precision == "day" and found.start == found.end else f"..{found.end} {found.precision}")
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
        ("on 2 May next year", "2 May next year = 2026-05-02"),
        ("It was on March 3rd of last year.", "March 3rd of last year = 2024-03-03"),
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
        "every Friday, on a Friday, on Fridays, every other Friday, every second Friday",
        "My birthday is May 5th",
        "The last two weeks were hard, over the past month, and the next day we left.",
        "a few days ago, over a year ago, two or three weeks ago, half a year ago",
        "I wrote it in three days, in a day, twice in a week",
        "three days from Tuesday",
        "1,000 days ago, 2.5 years ago, two and a half years ago",
        "February 30th",
        "The rooms 5-7 are free, it rose from 3 to 10",
        "I work from Monday to Friday, the shop is open Monday to Saturday",
        "Take it from the 3rd to the 10th floor",
        "anything fun over the weekend?",
        "We ran, sat and wed",
        "",
    ],
)
def test_what_is_no_date_of_its_own_is_left_alone(text: str) -> None:
    assert days(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # a participle behind "get", "be", "have" is no past tense
        ("my sister is getting married in June", "June = 2025-06-01..2025-06-30 month"),
        ("We're getting the kitchen renovated in August.", "August = 2025-08-01..2025-08-31 month"),
        ("I told her they want to get married in June.", "June = 2025-06-01..2025-06-30 month"),
        # what was put off
        ("The deadline was moved to 20 November.", "20 November = 2025-11-20"),
        ("They postponed the wedding to August.", "August = 2025-08-01..2025-08-31 month"),
        ("My exam got pushed back until Friday.", "Friday = 2025-05-16"),
        ("The launch has slipped to October 3rd.", "October 3rd = 2025-10-03"),
        ("We rescheduled it for Thursday.", "Thursday = 2025-05-15"),
        # what somebody has got a ticket, a date, a promise for
        ("I bought tickets for the concert in October.", "October = 2025-10-01..2025-10-31 month"),
        ("She got us seats for the final on 5 July.", "5 July = 2025-07-05"),
        ("I was invited to a wedding in August.", "August = 2025-08-01..2025-08-31 month"),
        ("They invited me to speak in October.", "October = 2025-10-01..2025-10-31 month"),
        ("I signed up for a race on Sunday.", "Sunday = 2025-05-18"),
        ("He registered for the course in September.", "September = 2025-09-01..2025-09-30 month"),
        ("My wife went online and booked a table for Friday.", "Friday = 2025-05-16"),
        ("I called the dentist and made an appointment for Monday.", "Monday = 2025-05-19"),
        ("We bought a cake for Saturday.", "Saturday = 2025-05-17"),
        ("They gave us a deadline of 20 November.", "20 November = 2025-11-20"),
        ("They gave me until Friday.", "Friday = 2025-05-16"),
        ("She handed me an essay due Friday.", "Friday = 2025-05-16"),
        ("I promised to help him on Saturday.", "Saturday = 2025-05-17"),
        ("I've been training for a marathon in October.", "October = 2025-10-01..2025-10-31 month"),
        # a verb of the present
        ("I called, and she's free on Friday.", "Friday = 2025-05-16"),
        ("I called, and Mia's coming on Friday.", "Friday = 2025-05-16"),
        ("I told you that I get paid on Friday.", "Friday = 2025-05-16"),
        ("They said the festival will be held in June.", "June = 2025-06-01..2025-06-30 month"),
        ("we ordered a sofa, it arrives Thursday", "Thursday = 2025-05-15"),
        ("I told you that the shop opens on 1 June.", "1 June = 2025-06-01"),
        ("They sent the tickets and we leave on Friday.", "Friday = 2025-05-16"),
        ("I got the job and the training takes place in July.", "July = 2025-07-01..2025-07-31 month"),
        ("I found a flat and have a viewing on Friday.", "Friday = 2025-05-16"),
        ("We adopted a puppy, arriving Thursday.", "Thursday = 2025-05-15"),
        ("I ordered a bike, it arrives in three days.", "in three days = 2025-05-17"),
    ],
)
def test_what_was_done_about_what_is_to_come_is_no_past(text: str, expected: str) -> None:
    assert days(text) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She got married in June.", "June = 2024-06-01..2024-06-30 month"),
        ("They were getting married in June when it rained.", "June = 2024-06-01..2024-06-30 month"),
        ("I have a friend who visited on Friday.", "Friday = 2025-05-09"),
        ("We moved to Lisbon in March.", "March = 2025-03-01..2025-03-31 month"),
        ("I bought tickets in October.", "October = 2024-10-01..2024-10-31 month"),
        ("I bought a ticket for the concert that was in October.", "October = 2024-10-01..2024-10-31 month"),
        ("I had an appointment on Friday.", "Friday = 2025-05-09"),
        ("I missed an appointment on Friday.", "Friday = 2025-05-09"),
        ("The rent was due on Friday.", "Friday = 2025-05-09"),
        ("I was invited to a party on Saturday and it was fun.", "Saturday = 2025-05-10"),
        ("The concert I got tickets for on Saturday was great.", "Saturday = 2025-05-10"),
        ("It did not arrive on Friday.", "Friday = 2025-05-09"),
        ("When did we leave on Friday?", "Friday = 2025-05-09"),
        ("We raked the leaves on Friday.", "Friday = 2025-05-09"),
        ("I worked there on Friday.", "Friday = 2025-05-09"),
        # whose, and no "is"
        ("I met Anna's brother on Friday.", "Friday = 2025-05-09"),
        ("I went to Tom's wedding on Friday.", "Friday = 2025-05-09"),
        ("We had dinner at Mia's on Friday.", "Friday = 2025-05-09"),
        # and two that have no ending
        ("I sold my car in June.", "June = 2024-06-01..2024-06-30 month"),
        ("She quit her job in June.", "June = 2024-06-01..2024-06-30 month"),
    ],
)
def test_what_was_then_is_past(text: str, expected: str) -> None:
    assert days(text) == [expected]


def test_both_dates_of_what_was_put_off_are_to_come() -> None:
    assert days("The trip slipped from 1 October to 15 November.") == [
        "1 October = 2025-10-01",
        "15 November = 2025-11-15",
    ]
    assert days("They moved the meeting from Friday to Monday.") == ["Friday = 2025-05-16", "Monday = 2025-05-19"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We fly on 12 September and are back on the 19th.", ["12 September = 2025-09-12", "the 19th = 2025-09-19"]),
        ("We fly on 28 December. We're back on the 3rd.", ["28 December = 2025-12-28", "the 3rd = 2026-01-03"]),
        ("We flew on 12 April and were back on the 19th.", ["12 April = 2025-04-12", "the 19th = 2025-04-19"]),
        ("In September I'm away, back on Friday the 19th.", ["September = 2025-09-01..2025-09-30 month",
                                                             "Friday the 19th = 2025-09-19"]),
        ("Out on 12 September 2026, back on the 19th.", ["the 19th = 2026-09-19"]),
        ("Today I pay, the rest on the 19th.", ["Today = 2025-05-14", "the 19th = 2025-05-19"]),
        ("I was born on 12 September 1990. The rent is due on the 1st.", ["the 1st = 2025-06-01"]),
        ("My birthday is on 12 September. The rent is due on the 1st.", ["the 1st = 2025-06-01"]),
    ],
)  # fmt: skip
def test_a_day_without_a_month_is_of_the_month_named_before_it(text: str, expected: list[str]) -> None:
    assert days(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I'm away from 3 to 10 August.", "3 to 10 August = 2025-08-03..2025-08-10 day"),
        ("I'm away between 3 and 10 August.", "3 and 10 August = 2025-08-03..2025-08-10 day"),
        ("I'm away 3-10 August.", "3-10 August = 2025-08-03..2025-08-10 day"),
        ("I'm away 3rd – 10th August.", "3rd – 10th August = 2025-08-03..2025-08-10 day"),
        ("June 5-7", "June 5-7 = 2025-06-05..2025-06-07 day"),
        ("I'm away August 3 to 10.", "August 3 to 10 = 2025-08-03..2025-08-10 day"),
        (
            "I'm away from the 3rd until the 10th of August.",
            "the 3rd until the 10th of August = 2025-08-03..2025-08-10 day",
        ),
        ("from 28 to 3 September", "28 to 3 September = 2025-08-28..2025-09-03 day"),
        ("from 3 August through 10 September", "3 August through 10 September = 2025-08-03..2025-09-10 day"),
        ("from 28 December to 3 January", "28 December to 3 January = 2025-12-28..2026-01-03 day"),
        ("I'm in Rome from 10 to 20 May.", "10 to 20 May = 2025-05-10..2025-05-20 day"),
        ("We were in Rome from 3 to 10 April.", "3 to 10 April = 2025-04-03..2025-04-10 day"),
        ("We were in Rome from 3 to 10 June.", "3 to 10 June = 2024-06-03..2024-06-10 day"),
        ("I'm away from the 3rd to the 10th.", "the 3rd to the 10th = 2025-06-03..2025-06-10 day"),
        ("I'm away in September, from the 3rd to the 10th.", "the 3rd to the 10th = 2025-09-03..2025-09-10 day"),
        ("I'm in Berlin from Monday to Friday.", "Monday to Friday = 2025-05-19..2025-05-23 day"),
        ("I was in Berlin from Monday to Friday.", "Monday to Friday = 2025-05-05..2025-05-09 day"),
        ("I'm in Berlin from Monday to Friday next week.", "Monday to Friday next week = 2025-05-19..2025-05-23 day"),
        ("from next Monday to Friday", "next Monday to Friday = 2025-05-19..2025-05-23 day"),
        ("from tomorrow until Friday", "tomorrow until Friday = 2025-05-15..2025-05-16 day"),
        ("I'll be in Rome from June to August.", "June to August = 2025-06-01..2025-08-31 month"),
        ("We were there between June and August.", "June and August = 2024-06-01..2024-08-31 month"),
        ("from November to February", "November to February = 2025-11-01..2026-02-28 month"),
    ],
)
def test_a_range_is_one_date(text: str, expected: str) -> None:
    assert expected in days(text)
    assert [each for each in days(text) if each != expected] in ([], ["September = 2025-09-01..2025-09-30 month"])


def test_an_absolute_range_is_found_and_not_resolved() -> None:
    for text in ("from 3 to 10 August 2026", "from 3 August to 10 August 2026", "from August 3 to 10, 2026"):
        assert resolve(text, WEDNESDAY) == ()
        assert periods(text, WEDNESDAY) == [(date(2026, 8, 3), date(2026, 8, 10))]
    assert periods("What did we do from June to August 2024?", WEDNESDAY) == [(date(2024, 6, 1), date(2024, 8, 31))]


def test_a_range_that_goes_backwards_stays_two_dates_or_words() -> None:
    assert days("from tomorrow to yesterday") == ["tomorrow = 2025-05-15", "yesterday = 2025-05-13"]
    assert days("We drove from 3 August 2024 to 7 April 2024.") == []


def written(said: str, fact: str) -> str:
    """The fact with the dates of what was said written out."""
    return written_out(fact, resolve(said, WEDNESDAY))


@pytest.mark.parametrize(
    ("said", "fact", "expected"),
    [
        ("I'm off from 3 to 10 August.", "Ana is off from 3 to 10 August.", "from 2025-08-03 to 2025-08-10."),
        ("I'm off between 3 and 10 August.", "Ana is off between 3 and 10 August.", "from 2025-08-03 to 2025-08-10."),
        ("I'm off 3-10 August.", "Ana is off on 3-10 August.", "from 2025-08-03 to 2025-08-10."),
        ("I'm off from the 3rd to the 10th of August.", "Ana is off from the 3rd to the 10th of August.",
         "from 2025-08-03 to 2025-08-10."),
        ("I'm off from June to August.", "Ana is off from June to August.", "from 2025-06 to 2025-08."),
        ("I'm off from 3 to 10 August.", "Ana is off from 3 to 10 August (2025-08-03 to 2025-08-10).",
         "from 2025-08-03 to 2025-08-10."),
        ("I'm off 12-15 June.", "Ana is off 12-15 in 2025-06-12 to 2025-06-15.", "off from 2025-06-12 to 2025-06-15."),
        ("I'm off from Monday to Friday next week.", "Ana is off from Monday to Friday on 2025-05-19 to 2025-05-23.",
         "off from 2025-05-19 to 2025-05-23."),
        ("I'm off from 3 to 10 August.", "Ana is off from 3 to 10 August 2025-08-03 for 2025-08-10.",
         "from 2025-08-03 to 2025-08-10."),
        # only its end was resolved
        ("I'm back on 10 August.", "Ana is off from 3 to 10 August.", "from 3 to 10 August."),
        ("I'm back on 10 August.", "Ana is off between 3 and 10 August.", "between 3 and 10 August."),
        ("We met on 10 August.", "Ana met Ben on 3 and 10 August.", "on 3 and 10 August."),
        # in another language its words stay around it
        ("Ich bin vom 3. bis 10. August weg.", "Ana ist vom 3. bis 10. August weg.",
         "vom 2025-08-03 bis 2025-08-10 weg."),
        ("Am Freitag bin ich weg.", "Ana ist am Freitag weg.", "Ana ist am 2025-05-16 weg."),
        # said twice
        ("It is on 3 July.", "It is on 3 July 2025-07-03.", "on 2025-07-03."),
        ("It is on 3 July.", "It is on 3 July (2025-07-03).", "on 2025-07-03."),
        ("It is on 3 July.", "It is on July 3rd, 2025-07-03.", "on 2025-07-03."),
        ("It is on 3 July.", "It is on 3 July on 2025-07-03.", "on 2025-07-03."),
        ("It is on 3 July.", "It is on 2025-07-03 (3 July).", "on 2025-07-03."),
        ("It is on 2 May.", "It is on 2 May (2026-05-02.", "on 2026-05-02."),
        ("See you on Friday.", "Ana comes on Friday, 2025-05-16, to Oslo.", "on 2025-05-16, to Oslo."),
        ("See you next week.", "Ana comes next week (week of 2025-05-19.", "in the week of 2025-05-19."),
        ("It is on 2 May.", "It is (2026-05-02.", "2026-05-02."),
        ("It's over in two months.", "The lambing is over in 2025-07.", "The lambing is over in 2025-07."),
        # one preposition is enough
        ("It is from Monday on.", "It runs from on 2025-05-19.", "from 2025-05-19."),
        ("It is about 31 January.", "It is about 31 January.", "about 2026-01-31."),
        ("We met on Friday.", "This is what they talked about on Friday.", "talked about on 2025-05-09."),
        ("It is for Friday.", "The table is for Friday.", "for 2025-05-16."),
        ("See you next weekend.", "Not before on the weekend of 2025-05-24.", "before the weekend of 2025-05-24."),
        ("He came by on Friday.", "Ben came by on Friday.", "came by on 2025-05-09."),
        ("I need it by Friday.", "Ana needs it by Friday.", "by 2025-05-16."),
        ("It runs from Monday.", "It runs on on 2025-05-19.", "on 2025-05-19."),
        ("Away from 3 August to 10 August.", "Away on 2025-08-03 to on 2025-08-10.", "from 2025-08-03 to 2025-08-10."),
        ("Away 3-10 August.", "Away between 2025-08-03 and on 2025-08-10.", "between 2025-08-03 and 2025-08-10."),
    ],
)  # fmt: skip
def test_a_fact_has_each_date_once(said: str, fact: str, expected: str) -> None:
    assert written(said, fact).endswith(expected)
    assert written(said, fact).count("2025-") + written(said, fact).count("2026-") == expected.count("202")


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
    for first_or_last in (datetime(1, 1, 1), datetime(9999, 12, 31)):
        text = (
            "We were there from 3 to 10 August, will be from Monday to Friday, from the 3rd to the 10th, June to July."
        )
        assert all(each.start <= each.end for each in resolve(text, first_or_last))
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
        if "-" in found.expression:  # from one to another
            continue
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
    found = periods(query, datetime(2025, 3, 1, tzinfo=timezone.utc))
    assert [(first.isoformat(), last.isoformat()) for first, last in found] == expected
