"""How the words of dates go together, in ten languages: rules over the kinds of tokens.

They are applied in three rounds. The first makes dates of words, the second dates of dates, the third says what is
about them. A date is a token itself: D a day, K a week or weekend, O a month, C a year, N a season or about a day.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from functools import cache

from memlite import calendar_days as calendar
from memlite import date_joins as joins
from memlite import date_meanings as meanings
from memlite.date_named import Meaning, Named, Nothing, Words
from memlite.date_tokens import Token, tokens
from memlite.date_words import MONTH_HOLDS, Language, around

_NO_DATE = frozenset("xatfpgbIv|,.-/()")  # kinds of which alone there is no date
_KINDS = {"day": "D", "week": "K", "weekend": "K", "month": "O", "year": "C"}


def may_name_a_date(text: str, language: Language) -> bool:
    """Whether a text has any word or number that a date is made of; most questions have none, which saves the rules."""
    return any(token.kind not in _NO_DATE for token in tokens(text, language))


def read(text: str, today: date, language: Language) -> list[tuple[int, int, Named]]:
    """Every date of a text with its place, in its order; none overlaps another."""
    found = tokens(text, language)
    for match in re.finditer(_SURE_WEEKDAY, _kinds(found)):
        found[match.start()] = replace(found[match.start()], kind="W")
    for round_ in _RULES:
        found = _applied(round_, text, found, today, language)
    named = [(token.start, token.end, token.value) for token in found if isinstance(token.value, Named)]
    return [each for each in _in_their_months(named, text, language) if each[2].alone]


def _in_their_months(
    found: list[tuple[int, int, Named]], text: str, language: Language
) -> Iterator[tuple[int, int, Named]]:
    """The dates; those that only number a day are the next such after a date shortly before them that names a month.

    Not those of another item: "Ana - 25 May - lunch - on the 29th".
    """
    month, since = None, 0
    for start, end, named in found:
        if named.number and month and start - since < MONTH_HOLDS and text.count(" - ", since, start) < 2:
            named = replace(named, days=calendar.one(calendar.day_of_month(month, named.number, None)))
        elif named.days[2] in ("day", "month") and not named.holiday and (named.of_year or not named.relative):
            sentence = "".join(around(text, start, end)).lower()
            if not any(word in sentence for word in language.yearly):  # a birthday
                month, since = named.days[0], end
        yield start, end, named


def _applied(round_: str, text: str, found: list[Token], today: date, language: Language) -> list[Token]:
    """The tokens with dates in the place of the words that mean them: the first, the longer, by the earlier rule."""
    kinds, places = _kinds(found), []
    for order, (pattern, meaning) in enumerate(_rules(round_)):
        match = pattern.search(kinds)
        while match:
            places.append((match.start(), -match.end(), order, match, meaning))
            match = pattern.search(kinds, match.start() + 1)
    made: list[Token] = []
    at = 0
    for start, end, _, match, meaning in sorted(places, key=lambda place: place[:3]):
        if start < at:
            continue
        try:
            named = meaning(Words(text, found, match, today, language))
        except (LookupError, OverflowError, ValueError):  # "February 30th", the year 10,000
            named = Nothing()
        if named is not None:
            kind = _KINDS.get(named.days[2], "N") if isinstance(named, Named) else "x"
            made += [*found[at:start], Token(kind, named, found[start].start, found[-end - 1].end)]
            at = -end
    return made + found[at:]


def _kinds(found: list[Token]) -> str:
    return "".join(token.kind for token in found)


@cache
def _rules(round_: str) -> list[tuple[re.Pattern[str], Meaning]]:
    """The rules of a round as patterns, made at their first use."""
    return [(re.compile(pattern.format_map(_PARTS)), meaning) for pattern, meaning in _RULES[round_]]


# Short weekdays count beside the number of a day; those that are no other word after "on", "last" and in a list too.
_SURE_WEEKDAY = (
    r"(?<=[no][Mm])[we]|(?<=[Mm]\()[we]|[we](?=\.?,?t?[no%#])"
    r"|(?<=[pHXL])w|(?<=[Ww][,g])w|(?<=[Ww],g)w|w(?=,?g?[WwT](?![no]))|w(?=[,.]T)|(?<=o)w(?=f)"
)

# Every repetition has an end, or a text could take time that grows with its square.
_PARTS = {
    "AWAY": "(?P<away>T)",
    "SPAN": "(?P<span>(?:[0nca][uYGd]|q)(?:,?g?(?:[0nca][uYGd]|q)){0,3})",
    "WAY": "(?P<way>[LHX]{1,3})",
    "WAY_": "(?P<way_>[LHX]{1,3})",
    "UNIT": "(?P<unit>[uYG])",
    "WEEKDAY": "(?P<weekday>[Ww])",
    "ON_DAY": r"(?:(?P<weekday>[Ww])\.?[,(]{0,3}[pt]{0,3}\)?)?",
    "DAY_": r"(?:,?f?\(?(?P<weekday_>[Ww])\.?\)?)?",
    "D": "(?P<d>[no])",
    "DC": "(?P<d>[noc])",
    "M": r"(?P<m>[Mm])(?:(?<=m)\.)?",
    "Y": "(?P<y>y)",
    "YY": "(?P<y>[y0n])",
    "OF": "[fpt]{0,4}",
    "ON": "[pt]{0,3}",
    "OPEN": "[,(]{0,3}",
    "APART": "(?<![TWhd])(?<![TWhd][fF])",  # not the two days of 昨日の2日前
    "THEN": r"(?![uYGdkMm%/0]|-[n0%]|\.?[0-9])",
}

_RULES: dict[str, tuple[tuple[str, Meaning], ...]] = {
    "first": (
        # no dates
        (r"R[PpLHX]?(?:[WwThS]|u|P){{1,4}}", meanings.nothing),
        (r"[Ra]{D}?P?[Ww]", meanings.nothing),
        (r"[0nca](?:[g-]|p)[0nca][uYd]Z", meanings.nothing),
        (r"[0nca][uYd]ga", meanings.nothing),  # three and a half years
        (r"[Ll][0nca][uYGd](?:,?g?[0nca][uYGd](?!Z)){{0,3}}", meanings.nothing),  # the last two years and three months
        (r"[0nca][Ll][uYGd]|[0nca][uYGd][Ll]", meanings.nothing),
        # away from today
        (r"{AWAY}P?", meanings.away),
        (r"{AWAY}P?(?P<side>[AI]){SPAN}", meanings.from_word),
        (r"(?P<weekday>W)P?(?P<side>[AI]){SPAN}", meanings.from_word),
        (r"A(?P<about>Q)?{SPAN}", meanings.ago),
        (r"A(?P<vague>v){SPAN}", meanings.ago),
        (r"{APART}(?P<vague>v)?(?P<about>Q)?{SPAN}(?P<about_>b)?Z", meanings.ago),
        (r"I(?P<about>Q)?{SPAN}", meanings.ahead),
        (r"{APART}(?P<vague>v)?(?P<about>Q)?{SPAN}J", meanings.ahead),
        (r"I{SPAN},?p(?P<weekday>W)P?", meanings.days_and_weekday),
        (r"{SPAN}(?P<ago>Z),?p(?P<weekday>W)P?", meanings.days_and_weekday),
        (r"i{SPAN}", meanings.within),
        (r"{SPAN}j", meanings.within),
        (r"{WAY}f?{UNIT}", meanings.unit),
        (r"{UNIT}{WAY}", meanings.unit),
        (r"(?<=p)t?(?P<unit>u)", meanings.the_weekend),
        # weekdays
        (r"{WAY}f?t?{WEEKDAY}P?", meanings.weekday),
        (r"{WEEKDAY}{WAY_}(?!u)(?P<part>P)?", meanings.weekday),
        (r"(?P<weekday>W)(?P<part>P)?(?P<list>(?=,?g[WD]|,[WD]))?", meanings.weekday),
        (r"{WAY}?{WEEKDAY}\.?,?(?P<mark>[tu]{{1,3}})?{DC}P?{THEN}", meanings.weekday_and_number),
        (r"{D}dP?[f,]?(?P<weekday>W)", meanings.weekday_and_number),
        (r"[pt](?P<d>n)(?P<weekday>W)", meanings.weekday_and_number),
        (r"t?(?P<which>[oLl])(?P<weekday>W){OF}{M}(?:{OF}{Y})?", meanings.weekday_of_period),
        (r"t?(?P<which>[oLl])(?P<unit>u){OF}{M}(?:{OF}{Y})?", meanings.unit_of_period),
        (r"t?(?P<which>[oLl])(?P<unit>u){OF}u?{Y}", meanings.unit_of_period),
        (r"{Y}Yf?(?P<which>[ol])f?(?P<unit>u)", meanings.unit_of_period),
        (r"(?:{Y}Yf?)?(?P<m>[nc])Gf?(?P<which>[ol])f?(?P<unit>u)", meanings.unit_of_period),
        (r"(?P<unit>u)(?P<which>[nc0]){OF}{Y}", meanings.unit_of_period),
        # dates with a month's name
        (r"{ON_DAY}{WAY}?t?u?{DC}\.?{OF}{M}(?:[,fpI]{{0,3}}t?u?{Y})?{DAY_}", meanings.month_and_day),
        (r"{ON_DAY}{D}\.?{OF}{M}f(?P<y>[0n])", meanings.month_and_day),
        (r"t?{DC}(?P<unit>u){OF}{M}(?:{OF}{Y})?", meanings.month_and_day),
        (r"{ON_DAY}{M}[,t]{{0,3}}{DC}{DAY_}(?:,?[fpI]{{0,3}}{Y})?", meanings.month_and_day),
        (r"{ON_DAY}{D}[-/.]{M}(?:[-/.]{YY})?", meanings.month_and_day),
        (r"{M}[-/]{D}(?:[-/,]{YY})?", meanings.month_and_day),
        (r"{Y}[-/]{M}[-/]{D}", meanings.month_and_day),
        (r"{Y}[-/]{D}[-/]{M}", meanings.month_and_day),
        (r"{D}[-/]{Y}[-/]{M}", meanings.month_and_day),
        (r"{M}[-/]{Y}[-/]{D}", meanings.month_and_day),
        (r"{ON}u?{D}(?=(?:[,g]{{1,2}}t?[no]){{0,6}}[,g]{{1,2}}t?[no]\.?f?{M}(?:f?{Y})?)", meanings.listed_day),
        (r"{ON}u?(?P<d>n)f(?P<m>n)f{Y}", meanings.month_and_day),
        (r"[pt]u?(?P<d>n)f(?P<m>n){THEN}", meanings.month_and_day),
        (r"(?:{WEEKDAY},?{ON}|[pt]){D}\.?/?(?P<m>o)\.?{Y}?", meanings.month_and_day),
        (r"(?:{WEEKDAY},?{ON}|[pt])(?P<d>o)\.?/?(?P<m>[no])\.?{Y}?", meanings.month_and_day),
        (r"(?:(?P<y>[y0nc])Yf?)?(?P<m>[nc])G[pf]?(?P<d>[nc])d{DAY_}", meanings.month_and_day),
        (r"(?:(?P<y>[y0nc])Yf?)?{M}f?(?P<d>[nc])d?{DAY_}", meanings.month_and_day),
        # in digits
        (r"{ON_DAY}t?(?P<date>#)", meanings.digits),
        (r"(?:(?P<weekday>[Ww])\.?{OPEN})?{WAY}?(?P<sign>[ptI]{{1,3}})?(?P<date>%)", meanings.digits_without_year),
        (r"(?P<listed>)(?P<date>%)(?=,?g?t?(?:[%#]|n[Mm]))", meanings.digits_without_year),
        (r"{WAY}(?P<weekday>[Ww]){OPEN}(?P<date>%)", meanings.digits_without_year),
        # parts of dates
        (r"(?P<unit>u){DC}{THEN}", meanings.day_number),
        (r"(?<=p)(?P<d>n)\.(?=$|[|,)pIk:])", meanings.dotted_day),
        (r"(?<=p)t?(?P<d>o)(?=$|[,.|)pIAJFBg-])", meanings.ordinal_day),
        (r"{DC}dP?(?![ZJk])", meanings.day_number),
        (r"(?:{WAY}|(?<=[pIFi])|(?<=[pIFi]t))(?P<m>M){THEN}(?!n)", meanings.month),
        (r"(?P<m>M){WAY_}(?!u)", meanings.month),
        (r"{M}[,fpI/-]{{0,3}}{Y}", meanings.month),
        (r"(?P<m>M)f(?P<y>0)", meanings.month),
        (r"{Y}{M}(?![no])", meanings.month),
        (r"(?:(?P<y>[y0n])Yf?)?(?P<m>[nc])G(?:f?(?P<early>E))?", meanings.month),
        (r"(?P<early>E){OF}-?{M}(?:{OF}{Y})?", meanings.month),
        (r"(?P<early>E){OF}(?P<unit>u)", meanings.part_of_unit),
        (r"(?P<unit>[uYG])(?P<early>E)", meanings.part_of_unit),
        (r"{WAY}(?P<season>S)", meanings.season),
        (r"(?P<season>S){WAY_}(?!u)", meanings.season),
        (r"(?P<season>S){OF}{Y}", meanings.season),
        (r"{Y}Yf?(?P<season>S)", meanings.season),
        (r"t?{WAY}?f?(?P<holiday>h)(?:{WAY_}(?!u))?(?:{OF}u?{Y})?", meanings.holiday),
        (r"{Y}Yf?(?P<holiday>h)", meanings.holiday),
        (r"(?P<y>[y0n])Y", meanings.named_year),
        (r"(?P<unit>u){OF}{Y}", meanings.named_year),
        (r"(?<=[pIFfi])(?P<on>){Y}", meanings.named_year),
        (r"(?P<era>r)(?P<y>[nc])Y(?:(?P<m>[nc])G(?:(?P<d>[nc])d)?)?", meanings.era),
    ),
    "second": (
        (r"(?P<vague>v)?{SPAN}(?P<side>[BAF])t?(?P<date>[DO])", joins.from_date),
        (r"{SPAN}(?P<side>[BAF])t?(?P<date>[DO]),?p(?P<day>D)", joins.weekday_from_date),
        (r"(?P<day>D),?{SPAN}(?P<side>[BAF])t?(?P<date>[DO])", joins.weekday_from_date),
        (r"(?P<date>D)[fF]{{0,3}}(?P<vague>v)?{SPAN}(?P<side>[ZJ])", joins.from_date),
        (r"(?P<date>D)(?P<side>[ZJ]){SPAN}", joins.from_date_in_chinese),
        (r"(?P<week>K)[,pftg-]{{0,3}}(?P<day>D)", joins.day_of_week),
        (r"(?P<day>D),?{OF}(?P<week>K)", joins.day_of_week),
        (r"t?{DC}\.?(?P<unit>u)?{OF}(?P<month>O)", joins.day_of_month),
        (r"(?P<month>O)[fp]?(?P<day>D)", joins.day_of_month),
        (r"t?(?P<which>o)(?P<day>D)[fptI]{{0,4}}(?P<month>O)", joins.weekday_of_month),
        (r"(?P<month>O)f?(?P<which>o)(?P<day>D)", joins.weekday_of_month),
        (r"(?<=C[g,])(?P<y>y)", meanings.named_year),
        (r"(?P<day>D)f[ft]{{0,3}}(?P<month>O)", joins.day_of_month),
        (r"(?P<date>[DON])[,fpIt]{{0,3}}(?P<year>C)", joins.date_of_year),
        (r"(?P<year>C)[,fpt]{{0,3}}(?P<date>[DON])", joins.date_of_year),
        (r"{M}[ft,]{{0,3}}(?P<year>C)", joins.month_of_year),
        (r"(?P<season>S)[ft,]{{0,3}}(?P<year>C)", joins.season_of_year),
        (r"(?P<year>C)f?(?P<season>S)", joins.season_of_year),
        (r"(?<=(?P<first>D)[g,])(?P<second>D)", joins.number_after_date),
        (r"(?P<early>E){OF}(?P<date>[OCK])", joins.part_of_date),
        (r"(?P<date>[OCK])f?(?P<early>E)", joins.part_of_date),
    ),
    "third": (
        (r"R(?P<date>[DOKCN])", meanings.nothing),
        (r"(?P<first>D){OPEN}(?P<second>D)\)?", joins.same_day_twice),
        (r"(?P<about>Q){OF}(?P<date>[DOKCN])", joins.about_date),
        (r"(?P<date>[DOKCN])f?(?P<about>b)", joins.about_date),
        (r"(?P<date>D)[,f]?P", joins.same),
    ),
}
