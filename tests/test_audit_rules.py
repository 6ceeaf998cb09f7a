"""The rules behind an audit: what counts as a secret, as the same words, as a value that there is one of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlite.audit import contradictions, places, reading, secrets, slots

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"


@pytest.mark.parametrize(
    ("text", "what", "shown"),
    [
        ("My key is sk-proj-abc123DEF456ghi789JKL012.", "an OpenAI key", "My key is sk-p…."),
        ("sk-ant-api03-abcdefghij0123456789", "an Anthropic key", "sk-a…"),
        ("ghp_" + "a1B2" * 9, "a GitHub token", "ghp_…"),
        ("AKIAIOSFODNN7EXAMPLE", "an AWS access key", "AKIA…"),
        ("xoxb-123456789012-abcdefGHIJ", "a Slack token", "xoxb…"),
        ("AIza" + "Sy01" * 9, "", ""),
        ("AIza" + "Sy01_" * 7, "a Google key", "AIza…"),
        (f"Bearer {JWT}", "a web token (JWT)", "Bearer eyJh…"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "a private key", "----…"),
        ("postgres://ana:s3cret@db.example.org/x", "a password in an address", "postgres://…@db.example.org/x"),
        ("api_key = 9f8e7d6c5b4a39281706", "a key", "api_key = 9f…"),
        ("pay with 4111 1111 1111 1111, please", "a card number", "pay with …1111, please"),
        ("3782-822463-10005", "a card number", "…0005"),
        ("My IBAN is DE89 3704 0044 0532 0130 00 since May", "an IBAN", "My IBAN is DE…3000 since May"),
        ("GB82WEST12345698765432.", "an IBAN", "GB…5432."),
        ("my password is hunter2", "a password", "my password is …"),
        ("The password for the router is Blau-17-Haus.", "a password", "The password for the router is …."),
        ('The password is "swordfish".', "a password", "The password is …."),
        ("Mein Passwort ist Sommer2024!", "a password", "Mein Passwort ist …!"),
        ("The PIN of the card is 4711.", "a PIN", "The PIN of the card is …."),
    ],
)
def test_a_secret_is_known_by_its_shape_and_masked(text: str, what: str, shown: str) -> None:
    assert [secret.what for secret in secrets.find(text)] == ([what] if what else [])
    assert secrets.masked(text) == (shown or text)


@pytest.mark.parametrize(
    "text",
    [
        "My password is too short.",
        "My password is 12 characters long.",
        "The password is stored in 1Password.",
        "The password is changed every 90 days, and expired on 2026-05-11.",
        "password is required",
        "pay with 4111 1111 1111 1112",
        "order 1234567812345678",
        "0000 0000 0000 0000",
        "phone +351 912 345 678 901",
        "DE12 3456 7890 1234 5678 90",
        "The pin is 4000 km away.",
        "commit 9f8e7d6c5b4a392817061122334455667788aabb",
        "uuid 123e4567-e89b-12d3-a456-426614174000",
        "sk-learn-extra-tools-2026-edition and risk-management-and-reporting-2026-plan",
        "the token is valid for 24 hours",
        "see https://example.org/a/b?x=1",
    ],
)
def test_what_only_looks_like_a_secret_is_none(text: str) -> None:
    assert secrets.find(text) == []


@given(st.text(max_size=200))
def test_any_text_can_be_read_and_masked(text: str) -> None:
    assert secrets.find(secrets.masked(text)) == [] or secrets.find(text)
    told = reading.read(text, "Ana")
    assert reading.read(text, "Ana") == told
    list(slots.read(told, {}))
    list(contradictions.denials(told))
    slots.denial(told)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ana works at Feedzai in Porto.", "In Porto, Ana is employed by Feedzai"),
        ("The conference is on 14 June 2026.", "The conference is on June 14, 2026."),
        ("Ana's mum has two kids.", "Ana's mother owns 2 children."),
        ("I don't eat fish any more.", "Ana does not eat fish."),
        ('Ana said: "My dog is old."', "Ana's dog is old."),
        ("Ana lives in Porto now.", "Ana is living in Porto"),
    ],
)
def test_other_forms_of_the_same_words_are_read_alike(one: str, other: str) -> None:
    mine, theirs = reading.read(one, "Ana"), reading.read(other, "Ana")
    assert (mine.plain, mine.placed, mine.denies) == (theirs.plain, theirs.placed, theirs.denies)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Ana currently lives in Vila Nova de Gaia with Ben.", ("ana", "home", "Vila Nova de Gaia")),
        ("The user works as a nurse at the University of Porto.", ("user", "employer", "the University of Porto")),
        ("Ana's wife is called Clara.", ("ana", "wife", "Clara")),
        ("The blood type of Ana is A positive.", ("ana", "blood type", "A positive")),
        ("Ana was born on 3 May 1990.", ("ana", "birthday", "3 May 1990")),
        ("Ana turned 40.", ("ana", "age", "40")),
        ("Ana works for Clara.", None),
        ("Ana works in Marketing.", None),
        ("Ana moved to Linux.", None),
        ("Ana was born in May.", None),
        ("Ana lives in Room 12.", None),
        ("Ana and Ben live in Porto.", None),
        ("Ana says that Ben lives in Porto.", None),
        ("Everyone lives in Porto.", None),
        ("Ana lives in a boat.", None),
        ("Ana's husband is a nurse.", None),
    ],
)
def test_a_value_is_read_where_there_can_be_one_only(text: str, told: tuple[str, str, str] | None) -> None:
    read = [(slot.subject, slot.name, slot.value) for slot in slots.read(reading.read(text), {})]
    assert read[:1] == ([told] if told else [])


def test_what_somebody_moved_to_or_works_for_is_read_where_its_type_is_known() -> None:
    read = [
        [slot.name for slot in slots.read(reading.read(text), {"lisbon": "place", "feedzai": "organisation"})]
        for text in ("Ana moved from Porto to Lisbon.", "Ana works for Feedzai.", "Ana works in Lisbon.")
    ]
    assert read == [["home"], ["employer"], ["place of work"]]


def test_a_country_and_a_city_do_not_exclude_each_other() -> None:
    assert places.exclude("Porto", "Lisbon")
    assert places.exclude("Portugal", "the Netherlands")
    assert not places.exclude("Porto", "Portugal")
    assert not places.exclude("Texas", "the USA")
    assert not places.exclude("Spain", "Europe")
