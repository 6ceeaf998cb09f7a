"""Which claims to replace a fact are believed, and which are not."""

from __future__ import annotations

from datetime import date

import pytest

from memlite import claims


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
