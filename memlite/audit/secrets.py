"""Secrets in a text: keys and tokens by their well-known shapes, card numbers and IBANs that add up, said passwords.

A shape is taken only where it is long and strict enough to be nothing else; what only looks random is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import apsw

from memlite import facts

_MASK = "…"

# Name and shape. The prefixes are those that the issuers document for secret scanners.
_TOKENS = (
    ("an Anthropic key", r"sk-ant-[\w-]{20,}"),
    ("an OpenAI key", r"sk-(?:(?:proj|svcacct|admin)-[\w-]{20,}|(?=[A-Za-z]*\d)[A-Za-z0-9]{20,})"),
    ("an OpenRouter key", r"sk-or-v1-[a-f0-9]{64}"),
    ("a Stripe key", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("an AWS access key", r"(?:AKIA|ASIA)[A-Z2-7]{16}"),
    ("a GitHub token", r"gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{22,}"),
    ("a GitLab token", r"gl(?:pat|rt|dt|ptt)-[\w-]{20,}"),
    ("a Slack token", r"(?<![\w-])xox[abeoprs]-(?=[\w-]*\d)[A-Za-z0-9-]{10,}"),
    ("a Slack webhook", r"hooks\.slack\.com/services/T\w+/B\w+/\w{16,}"),
    ("a Google key", r"AIza[\w-]{35}"),
    ("a Google client secret", r"GOCSPX-[\w-]{28}"),
    ("a Hugging Face token", r"hf_[A-Za-z0-9]{30,}"),
    ("an npm token", r"npm_[A-Za-z0-9]{36}"),
    ("a PyPI token", r"pypi-AgEIcHlwaS5vcmc[\w-]{50,}"),
    ("a SendGrid key", r"SG\.[\w-]{16,}\.[\w-]{16,}"),
    ("a DigitalOcean token", r"do[opr]_v1_[a-f0-9]{64}"),
    ("a Telegram bot token", r"\d{8,10}:AA[\w-]{33}"),
    ("a Groq key", r"gsk_[A-Za-z0-9]{40,}"),
    ("a web token (JWT)", r"(?<![\w-])eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"),
    ("a private key", r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----[\s\S]*?(?:-----END (?:[A-Z]+ )*PRIVATE KEY-----|\Z)"),
    ("a password in an address", r"(?<=://)[^\s/:@]+:[^\s/:@]{3,}(?=@[\w.-]+)"),
)
_PASSWORD_WORDS = "pass ?words?|pass ?phrase|pass ?code|passwort|kennwort|contraseña|mot de passe|wachtwoord|senha"
_IS = (
    r"(?: (?:for|of|to|at|on|für|de|do|da|van) [^\s:=]+(?: [^\s:=]+){0,4}?)?"  # the password for the router
    r"(?:[\"']?\s*[:=]\s*| (?:is|ist|es|est|é)(?: now| jetzt)?:? )"
)
_SAID = re.compile(
    rf"\b(?:{_PASSWORD_WORDS}){_IS}(?P<value>[\"“'`«][^\"”'`»\n]{{4,64}}[\"”'`»]|\S{{4,64}})", re.IGNORECASE
)
_PIN = re.compile(
    rf"\b(?:PIN|pin)(?: ?[Cc]ode| ?[Nn]umber)?{_IS}(?P<value>\d{{4,8}})(?![\w:/-]|[.,]\d| (?!and|for|but|or|now)[a-z])"
)
_ASSIGNED = re.compile(
    r"\b(?:api|access|auth|secret|bearer|client|private|refresh)[ _-]?(?:key|token|secret)"
    r"(?:[\"']?\s*[:=]\s*| is:? )[\"'`]?(?P<value>[A-Za-z0-9+/_.-]{16,})(?:==?)?",
    re.IGNORECASE,
)
_CARD = re.compile(r"(?<![\w.,-])(?:\d{4}([ -]?)\d{4}\1\d{4}\1\d{4}|3[47]\d{2}([ -]?)\d{6}\2\d{5})(?![\w-]|[.,]\d)")
_ISSUED = re.compile(r"4|5[1-5]|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720)|3[47]|6(?:011|4[4-9]|5)|35(?:2[89]|[3-8])")
_IBAN = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}(?!\w)")
# How long an IBAN is in each country that has one (the SWIFT registry).
_LENGTHS = {
    code[:2]: int(code[2:])
    for code in (
        "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20 EG29 ES24 FI18 "
        "FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 "
        "LU20 LV21 MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24 SC31 SE24 SI19 "
        "SK24 SM27 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20"
    ).split()
}


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret of a text: what it is, where it stands, and what of it may be shown."""

    what: str
    value: str
    start: int
    end: int
    shown: str


def find(text: str) -> list[Secret]:
    """The secrets of a text in their order, none within another."""
    found: list[Secret] = []
    for secret in sorted(_all(text), key=lambda each: (each.start, -each.end)):
        if not found or secret.start >= found[-1].end:
            found.append(secret)
    return found


def masked(text: str) -> str:
    """The text with what may be shown of its secrets in their place."""
    for secret in reversed(find(text)):
        text = text[: secret.start] + secret.shown + text[secret.end :]
    return text


def _all(text: str) -> Iterator[Secret]:
    for match in _token().finditer(text):
        what = _TOKENS[int((match.lastgroup or "_0")[1:])][0]
        shown = f"{match[0][:4]}{_MASK}" if "key" in what or "token" in what else _MASK
        yield Secret(what, match[0], *match.span(), shown)
    if any(map(str.isdecimal, text)):
        yield from _matching(_CARD, text, "a card number", _is_card, lambda value: f"{_MASK}{value[-4:]}")
        yield from _ibans(text)
        yield from _matching(_PIN, text, "a PIN", lambda value: True, lambda value: _MASK)
        yield from _matching(_ASSIGNED, text, "a key", _is_random, lambda value: f"{value[:2]}{_MASK}")
    yield from _matching(_SAID, text, "a password", _is_password, lambda value: _MASK)


def _token() -> re.Pattern[str]:
    # re keeps what it has compiled, and most processes never need it.
    shapes = "|".join(f"(?P<_{number}>{shape})" for number, (_, shape) in enumerate(_TOKENS))
    return re.compile(rf"(?<![A-Za-z0-9_])(?:{shapes})(?![A-Za-z0-9])")


def _matching(
    pattern: re.Pattern[str], text: str, what: str, holds: Callable[[str], bool], shown: Callable[[str], str]
) -> Iterator[Secret]:
    for match in pattern.finditer(text):
        group: str | int = "value" if "value" in pattern.groupindex else 0
        value = match[group].rstrip(".,;!?)") if group else match[0]
        if holds(value):
            yield Secret(what, value, match.start(group), match.start(group) + len(value), shown(value))


def _is_card(written: str) -> bool:
    """Whether an issuer gives out numbers that begin so, and the check digit is right (Luhn)."""
    digits = [int(sign) for sign in written if sign.isdecimal()]
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    bare = "".join(map(str, digits))
    return len(set(digits)) > 1 and _ISSUED.match(bare) is not None and (sum(doubled) + sum(digits[-1::-2])) % 10 == 0


def _ibans(text: str) -> Iterator[Secret]:
    for match in _IBAN.finditer(text):
        signs = [at for at in range(*match.span()) if text[at] != " "][: _LENGTHS.get(match[0][:2], 0)]
        bare = "".join(text[at] for at in signs)
        if len(bare) != _LENGTHS.get(match[0][:2]) or text[signs[-1] + 1 : signs[-1] + 2].isalnum():
            continue
        turned = "".join(str(int(sign, 36)) for sign in bare[4:] + bare[:4])
        if int(turned) % 97 == 1:
            yield Secret("an IBAN", bare, match.start(), signs[-1] + 1, f"{bare[:2]}{_MASK}{bare[-4:]}")


def _is_password(value: str) -> bool:
    """Whether it looks like one: quoted, or of letters with digits or signs among them. "too short" does not."""
    if value[0] in "\"“'`«":
        return " " not in value or any(map(str.isdecimal, value))
    if not value.isdecimal() and re.fullmatch(r"[\d.,:/-]+(?:[a-z]{1,2}|%)?|https?:.*|[\w.-]+@[\w.-]+|\d+-?\w+", value):
        return False  # a date, an amount, an address
    return any(map(str.isdecimal, value)) or re.search(r"[^\W_][#$%&*+=!@?^~_][^\W_]", value) is not None


def _is_random(value: str) -> bool:
    return any(map(str.isdecimal, value)) and any(map(str.isalpha, value))


@dataclass(frozen=True, slots=True)
class Row:
    """A fact or message that says a secret; version: an earlier text of a fact, which is known by that fact's id."""

    id: int
    uid: str
    text: str
    version: bool = False


@dataclass(slots=True)
class Stored:
    """One secret of a root, and every visible row that says it."""

    what: str
    facts: list[Row] = field(default_factory=list)
    messages: list[Row] = field(default_factory=list)


def stored(db: apsw.Connection, sql: str, bindings: Sequence[object]) -> list[Stored]:
    """The secrets in the facts, their earlier texts and the messages of a scope (`sql` over the alias `s`)."""
    found: dict[tuple[int, str, str], Stored] = {}
    versions = """
        SELECT s.root_id, f.id, o.uid, f.text, f.metadata, 1 FROM facts f JOIN scopes s ON s.id = f.scope_id
        JOIN links l ON l.to_fact = f.id AND l.relation = 'updates' JOIN facts o ON o.id = l.from_fact
        WHERE o.archived_at IS NULL AND {sql}"""
    kept = f"""
        SELECT s.root_id, f.id, f.uid, f.text, f.metadata, 0 FROM facts f JOIN scopes s ON s.id = f.scope_id
        WHERE {facts.KEPT} AND {{sql}}"""
    said = """
        SELECT s.root_id, m.id, m.uid, m.content, m.metadata, 0 FROM messages m JOIN scopes s ON s.id = m.scope_id
        WHERE m.archived_at IS NULL AND {sql}"""
    for select, lane in ((kept, "facts"), (versions, "facts"), (said, "messages")):
        for root, id_, uid, text, metadata, version in db.execute(select.format(sql=sql), bindings):
            for secret in find(text) + (find(metadata) if metadata != "{}" else []):
                one = found.setdefault((root, secret.what, secret.value), Stored(secret.what))
                rows: list[Row] = getattr(one, lane)
                if not rows or rows[-1].id != id_:
                    rows.append(Row(id_, uid, text, bool(version)))
    return list(found.values())
