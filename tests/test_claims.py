"""Which claims to replace a fact are believed, and which are not."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from memlite import Memory, claims
from memlite.records import ExtractedFact, Extraction, ExtractionRequest


@pytest.mark.parametrize(
    ("old", "new", "believed"),
    [
        ("Ana lives in Porto.", "Ana moved from Porto to Lisbon.", True),
        ("Ana's flight leaves on 2026-06-09 at 7:30.", "Ana's flight leaves on 2026-06-09 at 8:30.", True),
        ("Ana's flight leaves on 2026-05-01 at 7:30.", "Ana's flight did not leave on 2026-05-01 at 7:30.", True),
        ("Ana drinks cow's milk.", "Ana drinks oat milk.", True),
        ("Ana lost the job at the bank on 2026-01-19.", "Ana starts a new job at a school.", False),
        ("Ana launched a campaign for the shop in hopes of growing it.", "Ana emailed people about the shop.", False),
        ("Ana lives in Porto.", "Ana likes tea.", False),
        # Somebody else.
        ("Ana works at Acme in Porto.", "Cleo works at Acme in Lisbon.", False),
        ("The garage moved Ana to bay 50.", "The garage moved Ben to bay 24.", False),
        ("Ana's sister lives in Porto.", "Ana lives in Lisbon, not in Porto.", False),
        ("Ana lives in Porto.", "Ana's sister moved from Porto to Lisbon.", False),
        ("Ana's sister Clara lives in Porto.", "Ana's sister Dora moved from Porto to Lisbon.", False),
        ("My sister lives in Porto.", "I live in Lisbon, not in Porto.", False),
        ("Cleo's brother works at Acme in Porto.", "Ana's brother works at Acme in Lisbon.", False),
        # The same one after all.
        ("Ana's sister Clara lives in Porto.", "Clara moved from Porto to Lisbon.", True),
        ("Ana's parents live in Porto.", "Ana's mum moved from Porto to Lisbon.", True),
        ("Ana parks in bay 50.", "Ana's landlord moved Ana from bay 50 to bay 24.", True),
        ("Ana's manager at Acme is Ben Sands.", "Ben Sands left Acme.", True),
        ("The rehearsal of Ana's choir begins at 7.", "The rehearsal begins at 8, not 7.", True),
        ("Cleo works at Acme in Porto.", "The user works at Acme in Lisbon.", True),
        ("The user works at Acme in Porto.", "Cleo works at Acme in Lisbon.", True),
        # Denials.
        ("Ana does not eat nuts.", "Ana does not eat fish.", False),
        ("Ana does not eat meat.", "Ana does not eat meat or fish.", True),
        ("Ana does not eat meat.", "Ana eats meat again.", True),
    ],
)
def test_a_claim_to_replace_is_believed_where_it_can_be(old: str, new: str, believed: bool) -> None:
    assert claims.may_replace(old, new, date(2026, 6, 1), ["Ana", "Ben", "assistant"], ["cleo"]) == believed


# Pairs of an old fact and a new one, | between. A change: the new one takes the place of the old one.
CHANGED = """
Ana lives in Porto. | Ana lives in Lisbon now.
Ana lives in Porto. | Ana moved from Porto to Lisbon on 2026-04-02.
Ana lives in Lisbon, near the castle. | Ana moved from Lisbon to Porto in 2025-02.
Ana lives in Lisbon. | Ana moved to Porto in 2025-02.
Ana's sister Clara lives in a flat by the river. | Clara moved into a house in Braga on 2026-03-01.
Ana lives with two cats in Lisbon. | Ana is moving back to Porto.
Ana's parents live in a house in Braga. | Ana's parents live in a flat in Braga.
Ana works at Feedzai as an engineer. | Ana works at Stripe.
Ana works as a nurse at the harbour clinic. | Ana works as a midwife at the harbour clinic.
Ana works at the harbour clinic. | Ana worked at the harbour clinic until May.
Ana drinks almond milk. | Ana drinks oat milk instead.
Ana drinks almond milk in coffee. | Ana switched from almond milk to oat milk.
Ana takes ibuprofen for the knee. | Ana takes naproxen for the knee.
Ana's weekly run is on Tuesday. | Ana's weekly run moved to Thursday.
Ana's weekly run is on Tuesday. | Ana's run is on Thursday.
Ana's budget for the sofa is 400 euros. | Ana's budget for the sofa is 500 euros.
Ana's rent is 900 euros. | Ana's rent went up from 900 to 1,000 euros.
Ana's phone number is 555 0101. | Ana's new phone number is 555 0199.
Ana's email address is ana@example.org. | Ana's email address is ana.sousa@example.com.
Ana's car is red. | Ana's car is blue.
Ana's favourite colour is green. | Ana's favourite colour is teal.
Ana is 34 years old. | Ana is 35 years old.
Ana's manager is Ben Sands. | Ana's manager is Carla Nunes now.
Ana has two cats. | Ana has three cats.
Ana has a dog called Rex. | Ana's dog Rex died in May.
Ana is allergic to walnuts. | Ana is no longer allergic to walnuts.
Ana is vegetarian and eats no fish. | Ana is not vegetarian any more and eats fish.
Ana plays tennis on Mondays. | Ana plays tennis on Fridays.
Ana plays tennis on Mondays. | Ana gave up tennis and plays chess on Mondays.
Ana likes green tea. | Ana used to like green tea but cannot stand it now.
Ana likes green tea. | Ana does not like tea any more.
Ana owns a red bicycle. | Ana sold the red bicycle to Ben.
Ana is learning to speak Spanish. | Ana stopped learning Spanish.
Ana's flight is on 2026-07-01. | Ana's flight is on 2026-07-03.
Ana booked a table at Osteria Lume. | Ana cancelled the table at Osteria Lume.
Ana has read Middlemarch up to page 100. | Ana has read Middlemarch up to page 200.
Ana is engaged to Tom. | Ana is married to Tom.
The server runs on port 8080. | The server runs on port 9090.
The team deploys with Jenkins. | The team deploys with Gitea now.
The status of the Atlas project is draft. | The status of the Atlas project is done.
The weekly meeting of Atlas is at 10. | The weekly meeting of Atlas is at 11.
Ana has a meeting with the bank on Monday. | Ana's meeting with the bank is postponed to Wednesday.
The user's parents live in Munich. | The user's parents have moved to Vienna from Munich.
Ben works for Siemens as a project manager. | Ben left Siemens and works for Bosch.
Ben's job at the hospital is part-time. | Ben's job at the hospital is full-time now.
Ben is unemployed and lives in Leeds. | Ben found a job in Leeds.
Ben works as a nurse in Leeds. | Ben is no nurse any more and owns a shop in Leeds.
Ben speaks French. | Ben no longer speaks French.
Ben speaks French with Tom. | Ben speaks English with Tom instead of French.
Ben has a dog and a cat. | Ben's dog died, so Ben only has a cat.
Ben has a son in the army. | Ben has a son in the navy.
Ben owns two flats in Leeds. | Ben owns one flat in Leeds.
Ben owns a Honda Civic. | Ben swapped the Honda Civic for a Toyota.
Ben plays the guitar in a band. | Ben plays the bass in the band instead.
Ben plays for the second team. | Ben plays for the first team.
Ben loves horror films. | Ben hates horror films.
Ben does not speak Spanish. | Ben speaks Spanish well now.
Ben is afraid of dogs. | Ben is not afraid of dogs any more.
Ben knows nobody in Leeds. | Ben knows two people in Leeds.
Ben is a member of the rowing club. | Ben is the chair of the rowing club.
Ben's allergy to cats is mild. | Ben's allergy to cats is severe.
Ben visited Rome with Tom. | Ben visited Rome with Clara, not with Tom.
Ben bought tickets for the 9 o'clock show. | Ben changed the tickets to the 11 o'clock show.
Ben's flight to Oslo leaves at 9:40. | Ben's flight to Oslo leaves at 11:05.
Ben's flight to Oslo is at 9:40. | Ben's flight to Oslo at 9:40 was cancelled.
Ben's appointment at the dentist is on Monday. | Ben's dentist appointment is on Tuesday.
The rent of Ben's flat is 800 euros. | The rent of Ben's flat is 850 euros.
Ben's wedding is in the town hall of Leeds. | Ben's wedding is in the castle of Leeds.
Ben's parcel is at the post office. | Ben picked the parcel up from the post office.
Ben's seat is 17B. | Ben's seat is 9F, and 17B is Carla's.
Ben wants to buy a house in Leeds. | Ben bought a house in Leeds.
Ben is reading Emma. | Ben has finished reading Emma.
Ben prefers tea to coffee. | Ben prefers coffee to tea.
Ben smokes ten cigarettes a day. | Ben smokes five cigarettes a day.
The backend of Atlas is written in Go. | The backend of Atlas is written in Rust.
The backend of Atlas uses C. | The backend of Atlas uses C++.
The default branch of Atlas is master. | The default branch of Atlas is main.
Ben wohnt in Porto. | Ben wohnt nicht mehr in Porto.
Ben vive en Oporto. | Ben ya no vive en Oporto.
"""

# Both hold: the new one is of something else, adds to the old one, or says it again.
STANDS_BESIDE = """
Ana lives in Porto. | Ana lives in Porto.
Ana lives in Porto. | Ana moved to Porto in 2025-02.
Ana lives in Porto. | Ana moved from Lisbon to Porto in 2025-02.
Ana lives in Porto. | Ana moved to the marketing team.
Ana lives in Porto. | Ana moved to 8 o'clock.
Ana lives in Porto. | Ana was moved to tears by the choir.
Ana lives in Porto. | Ana still lives in Porto with Tom.
Ana works at Feedzai. | Ana works at Feedzai in Porto with Ben.
Ana's sister Clara is allergic to walnuts. | Ana bakes no brownies, since Ana's sister Clara is allergic to walnuts.
Ana has two cats. | Ana never travels, because Ana has two cats.
Ana is allergic to walnuts. | Ana is allergic to peanuts.
Ana is allergic to walnuts. | Ana is allergic to peanuts now.
Ana is allergic to walnuts. | Ana is no longer allergic to peanuts.
Ana speaks French. | Ana speaks German.
Ana speaks fluent French with Tom. | Ana speaks some German with Tom.
Ana lives in Porto. | Ana works in Porto.
Ana works in Porto. | Ana was born in Porto.
Ana lives near the harbour in Porto. | Ana likes the harbour in Porto.
Ana has a dog called Rex. | Ana has a cat called Tom.
Ana has a dog called Rex. | Ana has a dog called Bella.
Ana has a son called Leo. | Ana has a daughter called Mia.
Ana likes green tea. | Ana likes black coffee.
Ana likes green tea. | Ana likes black tea.
Ana hates fresh coriander. | Ana hates fresh mint.
Ana is afraid of big dogs. | Ana is afraid of big spiders.
Ana plays tennis on Mondays. | Ana plays chess on Mondays.
Ana plays the piano in a band. | Ana plays the flute in a band.
Ana owns a house in Porto. | Ana owns a flat in Porto.
Ana collects stamps from Peru. | Ana collects coins from Peru.
Ana visited Rome with Tom. | Ana visited Rome with Clara.
Ana watched Heat with Ben. | Ana watched Alien with Ben.
Ana bought a lamp at the market. | Ana bought a chair at the market.
Ana has read Emma by Jane Austen. | Ana has read Persuasion by Jane Austen.
Ana knows Ben from the choir. | Ana knows Carla from the choir.
Ana's favourite colour is green. | Ana's favourite food is green curry.
Ana's phone number is 555 0101. | Ana's passport number is CB 0101.
Ana's budget for the sofa is 400 euros. | Ana's budget for the desk is 400 euros.
Ana's haircut appointment is on 2026-07-01. | Ana's dentist appointment is on 2026-07-01.
The weekly meeting of Atlas is at 10. | The retrospective of Atlas is at 10.
Ana is 34 years old. | Ana has lived in Porto for 34 years.
Ana is a member of the rowing club in Porto. | Ana is a member of the chess club in Porto.
The user lives in Berlin. | The user plays badminton in Berlin.
The user speaks German. | Ben speaks German.
The user is vegetarian. | Ben ordered the soup, since Ben is vegetarian.
Ben lives in Leeds. | Ben no longer works in Leeds.
Ben lives in Leeds. | Ben said that Ben lives in Leeds.
Ben likes the bakery in Elm Road. | Ben works at the bakery in Elm Road.
Ben works at Siemens. | Ben plays football at Siemens.
Ben works at Siemens. | Ben works at Siemens as an engineer.
Ben's daughter Mia is 6 years old. | Ben's daughter Mia plays chess.
Ben has a peanut allergy. | Ben has a pollen allergy.
Ben is allergic to penicillin. | Ben is allergic to cats and dust.
Ben is fluent in French. | Ben is fluent in Italian.
Ben speaks French. | Ben does not speak Polish.
Ben has a sister called Ida. | Ben has a brother called Leo.
Ben has two daughters. | Ben has a son.
Ben loves hiking in the Alps. | Ben loves skiing in the Alps.
Ben's brother Tom plays the violin. | Ben's brother Tom plays the cello.
Ben owns a Honda Civic. | Ben owns a Honda motorbike.
Ben belongs to the church choir. | Ben belongs to the church council.
Ben met Carla in Paris. | Ben met Dora in Paris.
Ben travelled to Japan in 2024. | Ben travelled to Peru in 2024.
Ben won the chess cup in 2023. | Ben won the tennis cup in 2023.
Ben's shoe size is 43. | Ben's shirt size is 43.
Ben's home address is 5 Elm Road. | Ben's work address is 5 Oak Road.
Ben's salary is 40,000 euros. | Ben's mortgage is 40,000 euros.
Ben's flight to Oslo is on 2026-07-10. | Ben's flight to Rome is on 2026-07-20.
Ben's meeting with Carla is at 3. | Ben's meeting with Dora is at 4.
The rent of Ben's flat is 800 euros. | The deposit of Ben's flat is 1,600 euros.
The Atlas deadline is on 2026-07-10. | The Borealis deadline is on 2026-08-10.
Ben is training for a marathon in October. | Since Ben is training for a marathon in October, Ben rests on Sunday.
Ben wohnt in Porto. | Ben wohnt in Porto mit Tom.
"""


def _pairs(lines: str) -> list[tuple[str, str]]:
    return [(old.strip(), new.strip()) for old, _, new in (line.partition("|") for line in lines.strip().splitlines())]


@pytest.mark.parametrize(("old", "new"), _pairs(CHANGED))
def test_what_changes_may_be_replaced(old: str, new: str) -> None:
    assert claims.may_replace(old, new, date(2026, 6, 1), ["Ana", "Ben", "assistant"], ["ana", "ben"])


@pytest.mark.parametrize(("old", "new"), _pairs(STANDS_BESIDE))
def test_what_adds_up_or_is_said_again_stands_beside_what_was_known(old: str, new: str) -> None:
    assert not claims.may_replace(old, new, date(2026, 6, 1), ["Ana", "Ben", "assistant"], ["ana", "ben"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "Ana's sister Clara is allergic to walnuts.",
            "The assistant recommended the brownie recipe to Ana, since Ana's sister Clara is allergic to walnuts.",
        ),
        ("Ana works at Feedzai in Porto.", "The assistant said that Ana would rent near Feedzai in Porto."),
        ("Ana's doctor is Dr. Lima.", "The assistant promised to remind Ana to call Dr. Lima, Ana's doctor."),
        ("Ana's brother Tom lives in Berlin.", "Robo suggested the night train to Ana, as Tom lives in Berlin."),
        (
            "Ana's brother Tom lives in Berlin.",
            "As Tom lives in Berlin, the assistant suggested the night train to Ana.",
        ),
        ("The assistant recommended the lentil soup to Ana.", "Ana cooked the recommended lentil soup."),
        ("The assistant booked a table for Ana at Osteria Lume.", "Ana has no table at Osteria Lume."),
    ],
)
def test_what_the_assistant_does_is_no_news_of_others_nor_the_other_way_round(old: str, new: str) -> None:
    assert not claims.may_replace(old, new, date(2026, 6, 1), ["Ana", "assistant", "Robo"], ["ana"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The assistant recommended the tram to Ana.", "The assistant recommended the bus to Ana, not the tram."),
        ("Robo promised Ana a reminder at 7.", "Robo promised Ana a reminder at 8."),
        ("Ana's brother Tom lives in Berlin.", "The user said that Tom moved from Berlin to Bonn."),
        ("Ana calls the assistant Max.", "The assistant is called Moritz by Ana now, not Max."),
        ("Ana wants answers in English.", "The assistant should give Ana answers in German, not in English."),
    ],
)
def test_what_the_assistant_does_may_replace_what_it_did(old: str, new: str) -> None:
    assert claims.may_replace(old, new, date(2026, 6, 1), ["Ana", "assistant", "user", "Robo"], ["ana"])


class Recalling:
    """An extractor whose every fact is what was said, in the place of all that is known."""

    name = "recalling"
    prompt_version = "1"

    def extract(self, request: ExtractionRequest) -> Extraction:
        known = tuple(fact.number for fact in request.known)
        told = (ExtractedFact(each.text, each.speaker, (each.number,), replaces=known) for each in request.messages)
        return Extraction(tuple(told))


def test_a_fact_whose_claim_is_not_believed_is_stored_beside_the_old_one(tmp_path: Path) -> None:
    allergy = "Ana's sister Clara is allergic to walnuts."
    advice = "The assistant recommended the brownies to Ana, since Ana's sister Clara is allergic to walnuts."
    with Memory(tmp_path / "memory.db", embedder=False, extractor=Recalling()) as memory:
        memory.add(allergy, user_id="ana", observed_at="2025-01-01")
        memory.add({"role": "assistant", "content": advice}, user_id="ana", observed_at="2025-03-01")
        memory.add("Ana's sister Clara is allergic to peanuts.", user_id="ana", observed_at="2025-03-02")
        assert len(memory.get_all(user_id="ana")) == 3
        memory.add("Ana's sister Clara is no longer allergic to walnuts.", user_id="ana", observed_at="2025-03-03")
        assert allergy not in [fact.text for fact in memory.get_all(user_id="ana")]
        assert [event.action for event in memory.history(user_id="ana")].count("SUPERSEDE") == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "Ana has been working hard on Ben's online shop and teamed up with a local artist for some designs.",
            "Ana is working on Ben's online shop, growing the customer base.",
        ),
        (
            "Ben is putting work into Ben's bakery even with the obstacles.",
            "Ben is putting work into Ben's bakery even with the obstacles, because it isn't a walk in the park.",
        ),
        (
            "Ana launched an ad campaign for Ben's clothing store in hopes of growing the business and is excited.",
            "Ben is still following Ben's passion for dance after a bumpy campaign for Ana's clothing store.",
        ),
        # What says several things is not taken away by what changes one of them.
        (
            "Ben loves modern dance, but is going to open a dance school with Ana, which is expressive and powerful.",
            "Ben lost the dance school because of losing Ben's job, and the dance school gave Ben the push to do it.",
        ),
        (
            "Ana's online clothing store has been a roller coaster, and starting a business takes courage.",
            "Ana got new online clothing store offers and promotions, and is not giving up.",
        ),
    ],
)
def test_what_goes_on_replaces_nothing(old: str, new: str) -> None:
    assert not claims.may_replace(old, new, date(2026, 6, 1), ["Ana", "Ben"], ["ana"])
