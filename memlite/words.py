"""Words as the full-text index sees them: normal forms, bigrams, and queries that are always legal."""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from memlite.date_words import frequent_words

# Scripts written without spaces, and Hangul, whose particles stick to the noun: unicode61 makes one token of
# a whole run, so a two-character word inside it is found only through bigrams.
_UNSPACED = (
    "\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Myanmar, Khmer
    "\u3005\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"  # kana, Han
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"  # Hangul
    "\U00020000-\U0003ffff"  # rarer Han
)
_RUN = re.compile(f"[{_UNSPACED}]+")
_QUOTED = re.compile(r'"([^"]{2,200})"|“([^”]{2,200})”|«([^»]{2,200})»')

_HYPHENS = "-‐–—/"  # what stands between the words of a compound, and between the ends of a range
_SIGNS = frozenset("._@:\\#=+~")  # what made-up names have inside, and ordinary words (and/or, it's, AT&T) have not
# A number as people write it: 20, 1.5, 1,200.50, 7:30, 19h30, 6'2, 4x4; perhaps of a currency, in per cent or degrees.
_PLAIN_NUMBER = r"(?:\d{1,3}(?:[.,'’]\d{3})+(?:[.,]\d+)?|\d{1,2}:\d\d:\d\d|\d+(?:[.,:'’hu]\d+)?)"
# Strings, not compiled patterns: compiling takes longer than importing, and re keeps what it compiled.
_AMOUNT = rf"(?:[^\W\d_]{{0,3}}[$€£¥₹])?{_PLAIN_NUMBER}(?:[x×]{_PLAIN_NUMBER})*[$€£¥₹%°]?"
_DAY = r"\d{4}([-./])\d{1,2}\1\d{1,2}|\d{1,2}([-./])\d{1,2}\2\d{4}|\d{1,2}([-/])\d{1,2}\3\d\d"
_LABEL = r"[^\W\d_]\d{1,2}|[^\W\d_]{2,}-\d*0(?:s|er|ies)"  # A4, B12, Q3; mid-90s
_UNIT = r"[ck]?m[23]|[ap]\.m"  # m² is m2 by now

# Letters that Unicode does not take apart, as people write them who do not have them; and the other way, in two.
_PLAIN = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "ħ": "h", "ŧ": "t", "ı": "i", "ß": "ss", "æ": "ae", "œ": "oe", "þ": "th"}
    | {"Ł": "L", "Ø": "O", "Đ": "D", "Ð": "D", "Ħ": "H", "Ŧ": "T", "ẞ": "SS", "Æ": "AE", "Œ": "OE", "Þ": "TH"}
)
_IN_TWO = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "Ø": "Oe", "Å": "Aa"}
)

# English words that say how a question is built, not what it is about. Dropped unless nothing else is left; in a
# query in another language that dates.toml knows the words by which it tells that language.
STOP_WORDS = frozenset(
    """a about above after again all also am an and any are as at be because been before being below between
    both but by can could currently did do does doing don down during each either else ever few for from further get
    got had has have having he her here hers herself him himself his how i if in into is it its itself just
    let me might more most much must my myself no nor not now of off on once only or other our ours out over own
    per please same shall she should so some such tell than that the their theirs them themselves then there
    these they this those through to too under until up upon us very was we were what whatever when where
    whether which while who whom whose why will with within without would yes yet you your yours yourself
    d ll m o re s t ve""".split()
)

_TELLING = 2000  # characters of a query that tell its language

# FTS5 evaluates each term of an OR; past this many more terms cost time and no longer change the ranking.
MAX_TERMS = 64
LONGEST_QUERY = 20_000  # characters of it that are read for words
_MAX_PARTS = 16  # of a word with punctuation, that are looked for side by side: FTS5 takes seconds for 50,000


@dataclass(frozen=True, slots=True)
class Query:
    """A person's words as the index is asked for them. `exact` are the identifiers and quoted strings."""

    text: str
    terms: tuple[str, ...]
    exact: tuple[str, ...]


def normalise(text: str) -> str:
    """The form in which two texts count as the same fact: case, width, white space and a final stop ignored."""
    folded = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return folded.rstrip(".!。！ ") or folded


def digest(text: str) -> str:
    """Identify a text by its normal form. The first letter names the algorithm, so that it can change one day: SHA-256,
    of which 144 bits are kept, since every text has its digest in three places.
    """
    found = hashlib.sha256(normalise(text).encode("utf-8", "surrogatepass")).digest()
    return "a" + base64.urlsafe_b64encode(found[:18]).decode()


def fold(name: str) -> str:
    """The form in which two names count as the same: case, accents, width and outer punctuation ignored."""
    bare = name.casefold()
    if not name.isascii():
        decomposed = unicodedata.normalize("NFKD", name).casefold().translate(_PLAIN)
        bare = "".join(ch for ch in decomposed if not unicodedata.combining(ch))
        # Recompose: without its combining marks Hangul would stay a string of single letters.
        bare = unicodedata.normalize("NFKC", bare)
    bare = " ".join(bare.split())
    return _trim(bare) or bare


def beside(text: str) -> str:
    """What is indexed beside a text; '' for most texts.

    Two-character pieces of every run without spaces, its last character alone as well, so that a prefix query
    finds every single one; and the plain spellings of words with ligatures, full-width letters, ł or ö.
    """
    plain = unicodedata.normalize("NFKC", text)
    pieces = [run[i : i + 2] for run in _RUN.findall(plain) for i in range(len(run))]
    if pieces or plain != text:
        # "iPhone" inside a run without spaces, and what was written with a ligature or in full width.
        written = set(text.split())
        pieces += [word for word in _RUN.sub(" ", plain).split() if word not in written]
    if not text.isascii():
        for word in plain.split():
            composed = unicodedata.normalize("NFC", word)
            pieces += [other for table in (_PLAIN, _IN_TWO) if (other := composed.translate(table)) != composed]
    return " ".join(pieces)


def read_query(text: str) -> Query:
    """Split any text into quoted FTS5 terms. No input raises; a text without a letter or digit has no terms."""
    text = unicodedata.normalize("NFKC", text.replace("\x00", " ")).encode("utf-8", "replace").decode()
    foreign = frequent_words(text[:_TELLING])
    case = _Case.of(text[:LONGEST_QUERY])
    terms: dict[str, None] = {}
    stopped: dict[str, None] = {}
    exact: dict[str, None] = {}
    for match in _QUOTED.finditer(text[:LONGEST_QUERY]):
        phrase = _phrase(next(group for group in match.groups() if group))
        if phrase:
            exact[phrase] = terms[phrase] = None
    plain = text[:LONGEST_QUERY].translate(_PLAIN)  # what is written otherwise is indexed in its plain spelling as well
    for raw in plain.split():
        if len(terms) >= MAX_TERMS:
            break
        # Beyond the basic plane SQLite's idea of a letter is older than Python's: its tokenizer decides there.
        word = _trim(raw)
        if word and max(raw) > "\uffff" and not _RUN.search(raw):
            word = raw
        for suffix in ("'s", "’s"):
            word = word.removesuffix(suffix)
        if not word:
            continue
        runs = _RUN.findall(word)
        if runs:
            for run in runs:
                terms |= dict.fromkeys(_run_terms(run))
            terms |= {quote(part): None for part in map(_trim, _RUN.sub(" ", word).split()) if part}
            continue
        parts = _parts(word)
        term = quote(word if len(parts) <= _MAX_PARTS else " ".join(parts[:_MAX_PARTS]))
        if _is_identifier(word, parts, raw):
            terms[term] = exact[term] = None
            continue
        if (word.casefold() in STOP_WORDS and not case.names(word)) or (
            foreign and all(_is_stopped(part, foreign) for part in parts)
        ):
            stopped[term] = None
            continue
        terms[term] = None
        if len(parts) > 1:
            # "well-known" as a phrase, and its parts for a text that spells it "well known" or uses one.
            terms |= {quote(part): None for part in parts if len(part) > 2 and not _is_stopped(part, foreign)}
    chosen = list(terms or stopped)[:MAX_TERMS]
    return Query(text, tuple(chosen), tuple(term for term in exact if term in chosen)[:8])


def match_expression(terms: Sequence[str], scope_terms: str, also: Sequence[str] = ()) -> str:
    """The FTS5 query for any of `terms` (or every row) and all of `also`, inside the scope that all of `scope_terms`
    name. Not all of them may be empty.
    """
    said = [f"scope : ({' AND '.join(scope_terms.split())})"] if scope_terms else []
    said += [f"{{text words}} : ({' OR '.join(terms)})"] if terms else []
    said += [f"{{text words}} : ({' AND '.join(also)})"] if also else []
    return " AND ".join(said)


def unquoted(term: str) -> str:
    """A term as a person would write it, for explanations."""
    return term.rstrip("*").strip().strip('"').replace('""', '"')


def _is_word(ch: str) -> bool:
    """What the tokenizer keeps in a word: marks too, where Python's \\w would end a Hindi word at a vowel sign."""
    return ch.isalnum() or unicodedata.category(ch) in ("Mn", "Mc", "Me", "Co")


def _trim(text: str) -> str:
    """The text without what stands before its first and after its last letter, digit or mark."""
    start = next((at for at, ch in enumerate(text) if _is_word(ch)), len(text))
    end = next((at for at in range(len(text), start, -1) if _is_word(text[at - 1])), start)
    return text[start:end]


def _parts(word: str) -> list[str]:
    return "".join(ch if _is_word(ch) else " " for ch in word).split()


def _is_stopped(part: str, foreign: frozenset[str]) -> bool:
    """Whether a part of a word says only how a question is built: of "Qu'est-ce", of "l'amie" the first."""
    return part.casefold() in STOP_WORDS or (bool(foreign) and (len(part) < 3 or part.casefold() in foreign))


@dataclass(frozen=True, slots=True)
class _Case:
    """How a text is written: whether all of it is in capitals, most of its words begin with one, and its first word."""

    shouted: bool
    titled: bool
    first: str

    @classmethod
    def of(cls, text: str) -> _Case:
        words = text.split()
        return cls(text.isupper(), 2 * sum(each[0].isupper() for each in words) > len(words), words[0] if words else "")

    def names(self, word: str) -> bool:
        """Whether what is written like a stop word is a name: the US, the WHO report, where does Will work?"""
        if len(word) < 2 or not word[0].isupper():
            return False
        return not self.shouted if word.isupper() else not self.first.startswith(word) and not self.titled


def _is_identifier(word: str, parts: list[str], raw: str) -> bool:
    """Something made up, of which every sign counts: node.js, ERR-7731, a@b.com, v2.0.1, covid-19, /etc/hosts.

    Not what stands in any text: 5pm, 7:30, 3rd, 90s, $40, 10kg, 2x, 14/06/2023, a 10-year-old, U.S.
    """
    if any(ch.isdigit() for ch in word):
        return (len(parts) > 1 or any(ch.isalpha() for ch in word)) and not _is_quantity(word)
    if len(parts) < 2 or ".." in word:
        return False
    signs = _SIGNS.intersection(word)
    if signs == {"."}:
        return max(map(len, parts)) > 2  # shorter ones abbreviate: U.S., e.g., Ph.D.
    return bool(signs) or raw.startswith(("/", "~/", "./"))


def _is_quantity(word: str) -> bool:
    """Whether a word with digits is a time, day, ordinal, decade, amount, size or range, alone or in a compound."""
    pieces = re.split(f"[{_HYPHENS}]", word)
    if re.fullmatch(_DAY, word) or re.fullmatch(_LABEL, word):
        return True
    if len(pieces) > 1 and all(piece.isdigit() for piece in pieces):
        sizes = [len(piece) for piece in pieces]
        return len(sizes) == 2 and (max(sizes) < 4 or sizes in ([4, 4], [4, 2]))  # not the number of a telephone
    return _is_amount(pieces[0]) and all(_is_amount(piece) or _is_common(piece) for piece in pieces[1:])


def _is_amount(piece: str) -> bool:
    """A number with at most a unit or an ending: 40, 5pm, 3rd, 2ème, 80er, 10kg, US$40."""
    found = re.match(_AMOUNT, piece)
    if not found:
        return False
    unit = piece[found.end() :]
    return _is_common(unit) or (len(unit) <= 3 and unit.isalpha()) or re.fullmatch(_UNIT, unit) is not None


def _is_common(piece: str) -> bool:
    """Letters, none of them a capital but the first: not the ERR of 7731-ERR."""
    return all(_is_word(ch) and not ch.isdigit() for ch in piece) and piece[1:] == piece[1:].lower()


def _run_terms(run: str) -> list[str]:
    if len(run) == 1:
        return [f"{quote(run)} *"]
    return [quote(run[i : i + 2]) for i in range(len(run) - 1)]


def quote(word: str) -> str:
    """A word or phrase as FTS5 reads it: no sign in it means anything."""
    return '"' + word.replace('"', '""') + '"'


def _phrase(text: str) -> str:
    words = text.split()
    if _RUN.search(text):
        # A quoted run is a phrase of its bigrams: they stand side by side in the index.
        words = [piece for word in words for piece in (beside(word).split()[:-1] or [word])]
    words = [word for word in words if any(ch.isalnum() for ch in word)]
    return quote(" ".join(words)) if words else ""
