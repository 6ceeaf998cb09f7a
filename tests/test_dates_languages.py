"""Dates in ten languages, each said on Wednesday 14 May 2025 unless the case says otherwise."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlite import ExtractedFact, Extraction, ExtractionRequest, Memory, calendar_days, date_words
from memlite.date_tokens import tokens
from memlite.dates import find, resolve, shown

WEDNESDAY = datetime(2025, 5, 14, 12, tzinfo=timezone.utc)


def periods(text: str, said: datetime) -> list[tuple[date, date]]:
    return [(each.first, each.last) for each in find(text, said)]


LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "zh", "ja", "ko")


def days(text: str, said: datetime = WEDNESDAY) -> list[str]:
    """What was found, as "expression = first..last precision", or without the last day where it is one day."""
    return [
        f"{each.expression} = {each.first}"
        + (f"..{each.last}" if each.first != each.last else "")
        + (f" {each.precision}" if each.precision != "day" else "")
        for each in find(text, said)
    ]


RELATIVE = {
    "de": [
        ("Vorgestern kam der Brief, übermorgen fahre ich.", ["Vorgestern = 2025-05-12", "übermorgen = 2025-05-16"]),
        ("Guten Morgen! Morgen früh komme ich.", ["Morgen früh = 2025-05-15"]),
        ("Am Freitag gehen wir ins Kino.", ["Freitag = 2025-05-16"]),
        ("Am Freitag waren wir im Kino.", ["Freitag = 2025-05-09"]),
        ("Bis Donnerstagabend ist es fertig.", ["Donnerstagabend = 2025-05-15"]),
        ("Letzten Dienstag habe ich sie gesehen.", ["Letzten Dienstag = 2025-05-06"]),
        ("Am Dienstag nächster Woche", ["Dienstag nächster Woche = 2025-05-20"]),
        ("Heute in einer Woche", ["Heute in einer Woche = 2025-05-21"]),
        ("Vor zwei Wochen sind wir umgezogen.", ["Vor zwei Wochen = 2025-04-28..2025-05-04 week"]),
        ("Vorletzte Woche war es kalt.", ["Vorletzte Woche = 2025-04-28..2025-05-04 week"]),
        ("Im März haben wir geheiratet.", ["März = 2025-03-01..2025-03-31 month"]),
        ("Im März fangen wir an.", ["März = 2026-03-01..2026-03-31 month"]),
        ("Im letzten Sommer waren wir am Meer.", ["letzten Sommer = 2024-06-01..2024-08-31 season"]),
        ("Am 28.10. ist Konzert.", ["Am 28.10. = 2025-10-28"]),
        ("Am einundzwanzigsten Juni", ["einundzwanzigsten Juni = 2025-06-21"]),
        ("Am 15. des nächsten Monats ist Abgabe.", ["15. des nächsten Monats = 2025-06-15"]),
        ("Zwei Wochen vor Weihnachten fahren wir weg.", ["Zwei Wochen vor Weihnachten = 2025-12-11"]),
        ("Ende März war das Wetter gut.", ["Ende März = 2025-03-22..2025-03-31 approximate"]),
        ("Wir sehen uns rund um den 20. Mai.", ["rund um den 20. Mai = 2025-05-20 approximate"]),
    ],
    "fr": [
        ("Avant-hier il pleuvait, après-demain je pars.", ["Avant-hier = 2025-05-12", "après-demain = 2025-05-16"]),
        ("Je pars vendredi.", ["vendredi = 2025-05-16"]),
        ("Nous nous sommes vus vendredi.", ["vendredi = 2025-05-09"]),
        ("Mardi dernier, je l'ai rencontrée.", ["Mardi dernier = 2025-05-06"]),
        ("Le mardi de la semaine prochaine", ["mardi de la semaine prochaine = 2025-05-20"]),
        ("Il y a trois jours, elle est arrivée.", ["Il y a trois jours = 2025-05-11"]),
        ("Dans trois mois, je déménage.", ["Dans trois mois = 2025-08-01..2025-08-31 month"]),
        ("L'été dernier nous étions à la mer.", ["été dernier = 2024-06-01..2024-08-31 season"]),
        ("En mars nous nous sommes mariés.", ["mars = 2025-03-01..2025-03-31 month"]),
        ("Le concert est le 28/10.", ["le 28/10 = 2025-10-28"]),
        ("On se voit le vingt et un juin.", ["le vingt et un juin = 2025-06-21"]),
        ("Le 15 du mois prochain", ["Le 15 du mois prochain = 2025-06-15"]),
        ("Deux semaines avant Noël nous partons.", ["Deux semaines avant Noël = 2025-12-11"]),
        ("Je serai là vers le 20 mai.", ["vers le 20 mai = 2025-05-20 approximate"]),
    ],
    "es": [
        ("Anteayer llovía, pasado mañana me voy.", ["Anteayer = 2025-05-12", "pasado mañana = 2025-05-16"]),
        ("El viernes vamos al cine.", ["viernes = 2025-05-16"]),
        ("El viernes fuimos al cine.", ["viernes = 2025-05-09"]),
        ("El martes pasado la vi.", ["martes pasado = 2025-05-06"]),
        ("El martes de la semana que viene", ["martes de la semana que viene = 2025-05-20"]),
        ("Hace dos semanas nos mudamos.", ["Hace dos semanas = 2025-04-28..2025-05-04 week"]),
        ("El verano pasado estuvimos en el mar.", ["verano pasado = 2024-06-01..2024-08-31 season"]),
        ("En junio del año pasado", ["junio del año pasado = 2024-06-01..2024-06-30 month"]),
        ("El concierto es el 28/10.", ["el 28/10 = 2025-10-28"]),
        ("Mi hermana viene el martes 20.", ["martes 20 = 2025-05-20"]),
        ("Nos vemos el 1.º de junio.", ["el 1.º de junio = 2025-06-01"]),
        ("Dos semanas antes de Navidad nos vamos.", ["Dos semanas antes de Navidad = 2025-12-11"]),
        ("A finales de marzo hizo buen tiempo.", ["A finales de marzo = 2025-03-22..2025-03-31 approximate"]),
    ],
    "it": [
        ("L'altro ieri pioveva, dopodomani parto.", ["L'altro ieri = 2025-05-12", "dopodomani = 2025-05-16"]),
        ("Venerdì andiamo al cinema.", ["Venerdì = 2025-05-16"]),
        ("Venerdì siamo andati al cinema.", ["Venerdì = 2025-05-09"]),
        ("Martedì scorso l'ho vista.", ["Martedì scorso = 2025-05-06"]),
        ("Tre giorni fa è arrivato.", ["Tre giorni fa = 2025-05-11"]),
        ("Tra tre mesi trasloco.", ["Tra tre mesi = 2025-08-01..2025-08-31 month"]),
        ("La settimana scorsa ero malato.", ["settimana scorsa = 2025-05-05..2025-05-11 week"]),
        ("L'estate scorsa eravamo al mare.", ["estate scorsa = 2024-06-01..2024-08-31 season"]),
        ("Il concerto è il ventuno giugno.", ["il ventuno giugno = 2025-06-21"]),
        ("Tre giorni dopo Pasqua partiamo.", ["Tre giorni dopo Pasqua = 2026-04-08"]),
    ],
    "pt": [
        ("Anteontem chovia, depois de amanhã vou.", ["Anteontem = 2025-05-12", "depois de amanhã = 2025-05-16"]),
        ("Na sexta vamos ao cinema.", ["sexta = 2025-05-16"]),
        ("Na sexta-feira fomos ao cinema.", ["sexta-feira = 2025-05-09"]),
        ("Na terça passada eu vi ela.", ["terça passada = 2025-05-06"]),
        ("Há três dias ele chegou.", ["Há três dias = 2025-05-11"]),
        ("Daqui a três meses mudo de casa.", ["Daqui a três meses = 2025-08-01..2025-08-31 month"]),
        ("No verão passado estivemos no mar.", ["verão passado = 2024-06-01..2024-08-31 season"]),
        ("No fim de semana passado descansei.", ["fim de semana passado = 2025-05-10..2025-05-11 weekend"]),
        ("A reunião é no dia 4 de outubro.", ["dia 4 de outubro = 2025-10-04"]),
        ("Pago no dia 15 do próximo mês.", ["dia 15 do próximo mês = 2025-06-15"]),
    ],
    "nl": [
        ("Eergisteren regende het, overmorgen ga ik.", ["Eergisteren = 2025-05-12", "overmorgen = 2025-05-16"]),
        ("Vrijdag gaan we naar de film.", ["Vrijdag = 2025-05-16"]),
        ("Vrijdag waren we in de bioscoop.", ["Vrijdag = 2025-05-09"]),
        ("Volgende vrijdag heb ik vrij.", ["Volgende vrijdag = 2025-05-23"]),
        ("Vorige week dinsdag was ik ziek.", ["Vorige week dinsdag = 2025-05-06"]),
        ("Drie dagen geleden kwam hij aan.", ["Drie dagen geleden = 2025-05-11"]),
        ("Over drie maanden verhuis ik.", ["Over drie maanden = 2025-08-01..2025-08-31 month"]),
        ("Vorige zomer waren we aan zee.", ["Vorige zomer = 2024-06-01..2024-08-31 season"]),
        ("Het feest is op vierentwintig januari.", ["vierentwintig januari = 2026-01-24"]),
        ("De vergadering is op de 15e.", ["15e = 2025-05-15"]),
        ("Eind maart was het mooi weer.", ["Eind maart = 2025-03-22..2025-03-31 approximate"]),
    ],
    "zh": [
        ("前天下雨，后天我要走。", ["前天 = 2025-05-12", "后天 = 2025-05-16"]),
        ("周五我们去看电影。", ["周五 = 2025-05-16"]),
        ("上周五我去了北京。", ["上周五 = 2025-05-09"]),
        ("下周五我要开会。", ["下周五 = 2025-05-23"]),
        ("三天前他到了。", ["三天前 = 2025-05-11"]),
        ("三个月后我搬家。", ["三个月后 = 2025-08-01..2025-08-31 month"]),
        ("去年夏天我们在海边。", ["去年夏天 = 2024-06-01..2024-08-31 season"]),
        ("下个月15号交作业。", ["下个月15号 = 2025-06-15"]),
        ("圣诞节前两周我们出发。", ["圣诞节前两周 = 2025-12-11"]),
        ("五月二十一日左右见面。", ["五月二十一日左右 = 2025-05-21 approximate"]),
    ],
    "ja": [
        ("おとといは雨でした。明後日出発します。", ["おととい = 2025-05-12", "明後日 = 2025-05-16"]),
        ("金曜日に映画を見ます。", ["金曜日 = 2025-05-16"]),
        ("金曜日に映画を見ました。", ["金曜日 = 2025-05-09"]),
        ("来週の月曜日に学校が始まる。", ["来週の月曜日 = 2025-05-19"]),
        ("三日前に彼が着いた。", ["三日前に = 2025-05-11"]),
        ("３か月後に引っ越します。", ["３か月後に = 2025-08-01..2025-08-31 month"]),
        ("去年の夏は海にいました。", ["去年の夏 = 2024-06-01..2024-08-31 season"]),
        ("来月の15日に提出する。", ["来月の15日 = 2025-06-15"]),
        ("クリスマスの2週間前に出発します。", ["クリスマスの2週間前に = 2025-12-11"]),
        ("3月末は天気が良かった。", ["3月末 = 2025-03-22..2025-03-31 approximate"]),
    ],
    "ko": [
        ("그저께 비가 왔어요. 모레 떠나요.", ["그저께 = 2025-05-12", "모레 = 2025-05-16"]),
        ("금요일에 영화를 볼 거예요.", ["금요일 = 2025-05-16"]),
        ("금요일에 영화를 봤어요.", ["금요일 = 2025-05-09"]),
        ("다음 주 월요일에 학교가 시작해요.", ["다음 주 월요일 = 2025-05-19"]),
        ("사흘 전에 그가 도착했어요.", ["사흘 전에 = 2025-05-11"]),
        ("3개월 후에 이사할 거예요.", ["3개월 후에 = 2025-08-01..2025-08-31 month"]),
        ("작년 여름에 바다에 있었어요.", ["작년 여름 = 2024-06-01..2024-08-31 season"]),
        ("다음 달 15일에 내요.", ["다음 달 15일 = 2025-06-15"]),
        ("2주 안에 떠날 거예요.", ["2주 안에 = 2025-05-14..2025-05-28 approximate"]),
        ("5월 20일쯤 만나요.", ["5월 20일쯤 = 2025-05-20 approximate"]),
    ],
}


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [(language, text, expected) for language, cases in RELATIVE.items() for text, expected in cases],
)
def test_a_relative_date_is_found_and_resolved_in_its_language(language: str, text: str, expected: list[str]) -> None:
    assert language in date_words.languages_of(text)
    assert days(text) == expected
    assert [each.expression for each in resolve(text, WEDNESDAY)] == [each.split(" = ")[0] for each in expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I met her on the 06th Mar 2021.", "the 06th Mar 2021 = 2021-03-06"),
        ("third of August 1998", "third of August 1998 = 1998-08-03"),
        ("born on thirty one March nineteen seventy four", "thirty one March nineteen seventy four = 1974-03-31"),
        ("shipped 14/Nov/2017", "14/Nov/2017 = 2017-11-14"),
        ("the backup notes-2011-03-27.zip", "2011-03-27 = 2011-03-27"),
        ("on 8/5/2021", "8/5/2021 = 2021-08-05"),
        ("on 31/12/2018", "31/12/2018 = 2018-12-31"),
        ("in summer 2019", "summer 2019 = 2019-06-01..2019-08-31 season"),
        ("on Black Friday 2022", "Black Friday 2022 = 2022-11-25"),
        ("the last Monday of May 2024", "the last Monday of May 2024 = 2024-05-27"),
        ("the first week of 2026", "the first week of 2026 = 2025-12-29..2026-01-04 week"),
        ("Er wurde am 3.4.1987 geboren.", "3.4.1987 = 1987-04-03"),
        ("Weihnachten 2023 waren wir in Rom.", "Weihnachten 2023 = 2023-12-25"),
        (
            "Das war im Jahr neunzehnhundertneunundachtzig.",
            "Jahr neunzehnhundertneunundachtzig = 1989-01-01..1989-12-31",
        ),
        ("Elle est née le 7/6/2018.", "le 7/6/2018 = 2018-06-07"),
        ("en mille neuf cent quatre-vingt-douze", "mille neuf cent quatre-vingt-douze = 1992-01-01..1992-12-31"),
        ("Nació el 9 de junio de dos mil catorce.", "el 9 de junio de dos mil catorce = 2014-06-09"),
        ("È nato il 2 ottobre 2018.", "il 2 ottobre 2018 = 2018-10-02"),
        ("Nasceu em 7 de julho de 88.", "7 de julho de 88 = 1988-07-07"),
        ("Hij is geboren op 2 oktober 2018.", "2 oktober 2018 = 2018-10-02"),
        ("他2018年10月2日出生。", "2018年10月2日 = 2018-10-02"),
        ("二〇二三年五月", "二〇二三年五月 = 2023-05-01..2023-05-31"),
        ("彼は２０１８年１０月２日に生まれた。", "２０１８年１０月２日 = 2018-10-02"),
        ("令和2年5月1日に始まった", "令和2年5月1日 = 2020-05-01"),
        ("그는 2018년 10월 2일에 태어났다.", "2018년 10월 2일 = 2018-10-02"),
    ],
)
def test_an_absolute_date_is_found_and_not_resolved(text: str, expected: str) -> None:
    (found,) = find(text, WEDNESDAY)
    last = f"..{found.last}" if found.first != found.last else ""
    assert f"{found.expression} = {found.first}{last}" == expected.removesuffix(" season").removesuffix(" week")
    assert not found.relative
    assert resolve(text, WEDNESDAY) == ()


@pytest.mark.parametrize(
    "text",
    [
        "You may march on once more; the sun sat, they wed, and it is due to fall.",
        "It cost 12.50, version 2.10.3, at 10.30, page 5/10, a 3-2 win, 24/7, 1/2 cup.",
        "Call 415-555-0107 or +49 151-2014-2019, host 10.0.12.25, number 417-11-2033.",
        "February 30th 2019",
        "Ich wohne hier, guten Morgen, am Morgen jogge ich, die Sonne, so ist das.",
        "Jeden Freitag esse ich Fisch, an einem Montag, die letzten drei Wochen, vor mehr als zwei Wochen.",
        "Das kostet 12.50 Euro, Version 2.10.3, um 10.30 Uhr.",
        "La mer est en jeu ; tous les vendredis, le lundi je nage, un mardi, ces trois dernières semaines.",
        "Il y a plus de deux semaines, c'est le vin des amis, à 10h30, 06 12 34 56 78.",
        "Por la mañana trabajo, la sal y el mar, Santo Domingo, los lunes nado, hace más de dos semanas.",
        "Le due sorelle non escono mai; il lunedì nuoto, ogni venerdì, più di due settimane fa.",
        "A segunda vez, para ter sexo, às segundas nado, todas as sextas, há mais de duas semanas.",
        "Zo is het, do re mi, ma en pa, op zo'n dag; elke vrijdag, op een vrijdag, de laatste drie weken.",
        "一周一次，一日三餐，生日快乐，3号线，12.5元，每周五，两个多星期前。",
        "一日三回、3日間、10時半、毎週金曜日、素敵な一日を。名前は？",
        "하루 세 번, 3일 동안, 10시 반, 매주 금요일, 이해했어요, 이상한 일이야.",
    ],
)
def test_what_only_looks_like_a_date_is_none(text: str) -> None:
    assert days(text) == []


def test_a_birthday_and_a_feast_are_found_but_not_resolved() -> None:
    for text in ("Mein Geburtstag ist am 5. Mai.", "Mi cumpleaños es el 5 de mayo.", "我的生日是5月5日。"):
        assert [each.first for each in find(text, WEDNESDAY)] == [date(2026, 5, 5)]
        assert resolve(text, WEDNESDAY) == ()
    assert days("J'adore Noël.") == ["Noël = 2025-12-25"]
    assert resolve("J'adore Noël.", WEDNESDAY) == ()


def test_lists_and_parts_of_dates_are_each_a_date() -> None:
    assert days("Monday or Tuesday works") == ["Monday = 2025-05-19", "Tuesday = 2025-05-20"]
    assert days("Lunes o martes me va bien.") == ["Lunes = 2025-05-19", "martes = 2025-05-20"]
    assert days("los días 7 y 8 de agosto") == ["los días 7 = 2025-08-07", "8 de agosto = 2025-08-08"]
    assert days("8월 7일과 8일에 가요") == ["8월 7일 = 2025-08-07", "8일 = 2025-08-08"]
    assert days("five days after next Tuesday") == ["five days after next Tuesday = 2025-05-25"]
    assert days("for the last two years, two months and 3 days ago it broke") == ["3 days ago = 2025-05-11"]
    assert days("the second Sunday of next month") == ["the second Sunday of next month = 2025-06-08"]


def test_the_weekday_beside_a_date_says_its_month_or_year() -> None:
    assert days("Thursday 19") == ["Thursday 19 = 2025-06-19"]
    assert days("jueves 12") == ["jueves 12 = 2025-06-12"]
    assert days("am Dienstag, dem 13. Mai") == ["Dienstag, dem 13. Mai = 2025-05-13"]


def test_the_weekday_beside_a_counted_day_says_which_day_is_meant() -> None:
    assert days("We leave in three days on Saturday.") == ["in three days on Saturday = 2025-05-17"]
    assert days("We leave in three days on Friday.") == ["in three days on Friday = 2025-05-16"]
    assert days("Wir fahren in drei Tagen am Freitag.") == ["in drei Tagen am Freitag = 2025-05-16"]
    assert days("It broke 5 days ago on Thursday.") == ["5 days ago on Thursday = 2025-05-08"]
    assert days("two months from today on Tuesday") == ["two months from today on Tuesday = 2025-07-15"]
    assert days("It is Friday two weeks after June 3rd") == ["Friday two weeks after June 3rd = 2025-06-20"]


def test_the_exact_day_of_counted_weeks_months_and_years_is_known() -> None:
    (found,) = find("In zwei Wochen habe ich Prüfung.", WEDNESDAY)
    assert (found.first, found.last, found.day) == (date(2025, 5, 26), date(2025, 6, 1), date(2025, 5, 28))
    (found,) = find("We moved two months ago.", WEDNESDAY)
    assert (found.precision, found.day) == ("month", date(2025, 3, 14))


def test_dates_say_where_they_stand_and_do_not_overlap() -> None:
    text = "２０２５年５月９日と昨日、来週の月曜日"
    found = find(text, WEDNESDAY)
    assert [text[each.start : each.end] for each in found] == ["２０２５年５月９日", "昨日", "来週の月曜日"]
    assert all(one.end <= other.start for one, other in pairwise(found))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Was habe ich letzten Sommer gemacht?", ("2024-06-01", "2024-08-31")),
        ("Qu'est-ce que j'ai fait en mai 2023 ?", ("2023-05-01", "2023-05-31")),
        ("¿Dónde estuve ayer?", ("2025-05-13", "2025-05-13")),
        ("Che cosa ho fatto a Natale 2023?", ("2023-12-25", "2023-12-25")),
        ("O que fiz no fim de semana passado?", ("2025-05-10", "2025-05-11")),
        ("Wat deed ik vorige maand?", ("2025-04-01", "2025-04-30")),
        ("上周五我去了哪里", ("2025-05-09", "2025-05-09")),
        ("去年の夏、私は何をしましたか？", ("2024-06-01", "2024-08-31")),
        ("지난주 화요일에 뭐 했지?", ("2025-05-06", "2025-05-06")),
    ],
)
def test_a_question_names_its_period_in_its_language(query: str, expected: tuple[str, str]) -> None:
    assert [(first.isoformat(), last.isoformat()) for first, last in periods(query, WEDNESDAY)] == [expected]


AUGUST = "2025-08-03..2025-08-10"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ich bin vom 3. bis 10. August in Rom.", f"3. bis 10. August = {AUGUST}"),
        ("Ich bin zwischen dem 3. und 10. August weg.", f"dem 3. und 10. August = {AUGUST}"),
        ("Wir waren vom 3. bis 10. April in Rom.", "3. bis 10. April = 2025-04-03..2025-04-10"),
        (
            "Ich bin von Montag bis Freitag in Berlin, wir können uns sehen.",
            "Montag bis Freitag = 2025-05-19..2025-05-23",
        ),
        ("Von Juni bis August bin ich in Rom.", "Juni bis August = 2025-06-01..2025-08-31 month"),
        ("Je suis à Rome du 3 au 10 août.", f"3 au 10 août = {AUGUST}"),
        ("Je suis à Rome entre le 3 et le 10 août.", f"3 et le 10 août = {AUGUST}"),
        ("Nous étions à Rome du 3 au 10 avril.", "3 au 10 avril = 2025-04-03..2025-04-10"),
        ("Estoy en Roma del 3 al 10 de agosto.", f"3 al 10 de agosto = {AUGUST}"),
        ("Estoy en Roma entre el 3 y el 10 de agosto.", f"3 y el 10 de agosto = {AUGUST}"),
        ("Sono a Roma dal 3 al 10 agosto.", f"3 al 10 agosto = {AUGUST}"),
        ("Sono a Roma dall'8 all'11 agosto.", "8 all'11 agosto = 2025-08-08..2025-08-11"),
        ("Estou em Roma de 3 a 10 de agosto.", f"3 a 10 de agosto = {AUGUST}"),
        ("Ik ben van 3 tot 10 augustus in Rome.", f"3 tot 10 augustus = {AUGUST}"),
        ("Ik ben van 3 t/m 10 augustus in Rome.", f"3 t/m 10 augustus = {AUGUST}"),
        ("我从8月3日到10日在罗马。", f"8月3日到10日 = {AUGUST}"),
        ("8月3日から10日までローマにいます。", f"8月3日から10日 = {AUGUST}"),
        ("8월 3일부터 8월 10일까지 로마에 있어요.", f"8월 3일부터 8월 10일 = {AUGUST}"),
    ],
)
def test_a_range_is_one_date_in_its_language(text: str, expected: str) -> None:
    assert days(text) == [expected]
    assert [each.expression for each in resolve(text, WEDNESDAY)] == [expected.split(" = ")[0]]


def test_a_range_with_a_year_is_found_and_not_resolved() -> None:
    for text in ("Ich war vom 3. bis 10. August 2024 weg.", "Estuve de 3 a 10 de agosto de 2024 en Roma."):
        assert periods(text, WEDNESDAY) == [(date(2024, 8, 3), date(2024, 8, 10))]
        assert resolve(text, WEDNESDAY) == ()


@pytest.mark.parametrize(
    "text",
    [
        "Ich arbeite von Montag bis Freitag.",
        "Trabajo de lunes a viernes.",
        "Je travaille de lundi à vendredi.",
        "Ik werk van maandag tot vrijdag.",
    ],
)
def test_what_is_so_every_week_is_no_range(text: str) -> None:
    assert days(text) == []


def test_no_range_is_made_of_hours_and_counts() -> None:
    assert days("Nos vemos el 12 de junio a las 10.") == ["el 12 de junio = 2025-06-12"]
    assert days("Ik ben weg op 1 juni van 5 tot 6.") == ["1 juni = 2025-06-01"]
    assert days("今日から2日後に出発します。") == ["今日から2日後に = 2025-05-16"]
    assert days("We open on 3 August until 10.") == ["3 August = 2025-08-03"]
    assert days("I sent it on August 3 to 10 people.") == ["August 3 = 2024-08-03"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Die Abgabe wurde auf den 20. November verschoben.", "2025-11-20"),
        ("Ich habe Karten für das Konzert im Oktober gekauft.", "2025-10-01"),
        ("Ich bin zu einer Hochzeit im August eingeladen.", "2025-08-01"),
        ("Ich habe mich für einen Lauf am Sonntag angemeldet.", "2025-05-18"),
        ("Wir waren im Oktober in Rom.", "2024-10-01"),
        ("La date limite a été reportée au 20 novembre.", "2025-11-20"),
        ("J'ai acheté des billets pour le concert en octobre.", "2025-10-01"),
        ("J'ai été invité à un mariage en août.", "2025-08-01"),
        ("Nous avons commandé un canapé, il arrive jeudi.", "2025-05-15"),
        ("La fecha se aplazó al 20 de noviembre.", "2025-11-20"),
        ("Compré entradas para el concierto en octubre.", "2025-10-01"),
        ("Me invitaron a una boda en agosto.", "2025-08-01"),
        ("La scadenza è stata spostata al 20 novembre.", "2025-11-20"),
        ("Ho comprato i biglietti per il concerto a ottobre.", "2025-10-01"),
        ("O prazo foi adiado para 20 de novembro.", "2025-11-20"),
        ("Comprei ingressos para o show em outubro.", "2025-10-01"),
        ("De deadline werd naar 20 november verplaatst.", "2025-11-20"),
        ("Ik heb kaartjes gekocht voor het concert in oktober.", "2025-10-01"),
        ("截止日期推迟到11月20日了。", "2025-11-20"),
        ("我买了10月音乐会的票。", "2025-10-01"),
        ("締め切りは11月20日に延期されました。", "2025-11-20"),
        ("10月のコンサートのチケットを買いました。", "2025-10-01"),
        ("마감이 11월 20일로 연기됐어요.", "2025-11-20"),
        ("10월 콘서트 티켓을 샀어요.", "2025-10-01"),
    ],
)
def test_what_was_done_about_what_is_to_come_is_no_past(text: str, expected: str) -> None:
    assert [each.start for each in resolve(text, WEDNESDAY)] == [expected]


def test_a_day_without_a_month_is_of_the_month_named_before_it() -> None:
    assert days("Voy el 12 de septiembre y vuelvo el día 19.")[1:] == ["día 19 = 2025-09-19"]
    assert days("Am 12. September fliegen wir, zurück sind wir am 19.")[1:] == ["19. = 2025-09-19"]


def test_about_a_day_is_shown_as_it_and_about_a_period_with_both_ends() -> None:
    assert [shown(each) for each in resolve("We met around May 5th.", WEDNESDAY)] == ["2025-05-05"]
    assert [shown(each) for each in resolve("Ende März war ich dort.", WEDNESDAY)] == ["2025-03-22/2025-03-31"]
    assert [each.precision for each in resolve("We met around May 5th.", WEDNESDAY)] == ["approximate"]


class Dated:
    """An extractor whose facts are the messages, on the day that the first date of each was resolved to."""

    name = "dated"
    prompt_version = "1"

    def extract(self, request: ExtractionRequest) -> Extraction:
        return Extraction(
            tuple(
                ExtractedFact(turn.text, turn.speaker, (turn.number,), when=turn.dates[0].start)
                for turn in request.messages
            )
        )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Letzte Woche war Ana in Rom.", ("2025-05-05", "2025-05-11", "week")),
        ("El verano pasado Ana estuvo en Roma.", ("2024-06-01", "2024-08-31", "season")),
        ("昨日アナはローマにいました。", ("2025-05-13", "2025-05-13", "day")),
        ("Ende März war Ana in Rom.", ("2025-03-22", "2025-03-31", "approximate")),
        ("Ana was in Rome around May 5th.", ("2025-05-05", "2025-05-05", "approximate")),
        ("Ana was in Rome from 3 to 10 April.", ("2025-04-03", "2025-04-10", "day")),
        ("Ana will be in Rome from June to August.", ("2025-06-01", "2025-08-31", "month")),
        ("Ana ist vom 3. bis 10. August in Rom.", ("2025-08-03", "2025-08-10", "day")),
    ],
)
def test_a_fact_keeps_the_days_and_the_precision_of_its_date(text: str, expected: tuple[str, str, str]) -> None:
    with Memory(":memory:", embedder=False, extractor=Dated()) as memory:
        (fact,) = memory.add([{"role": "user", "content": text, "observed_at": WEDNESDAY}], user_id="ana").facts
    assert (fact.event_start, fact.event_end, fact.event_precision) == expected


TODAY = ("today", "heute", "aujourd'hui", "hoy", "oggi", "hoje", "vandaag", "今天我在", "今日は", "오늘은")
YESTERDAY = ("yesterday", "gestern", "hier j'ai", "ayer", "ieri", "ontem", "gisteren", "昨天我在", "昨日は", "어제는")


@given(
    st.datetimes(datetime(1900, 1, 2), datetime(2100, 1, 1)),
    st.integers(-11 * 4, 14 * 4),
    st.sampled_from([*range(len(TODAY))]),
)
def test_what_counts_is_the_local_day_at_any_offset(when: datetime, quarters: int, language: int) -> None:
    zone = timezone(timedelta(minutes=15 * quarters))
    for local in (when, when.replace(hour=0, minute=0, second=0, microsecond=0), when.replace(hour=23, minute=59)):
        said = local.replace(tzinfo=zone)
        assert [each.first for each in find(TODAY[language], said)] == [local.date()]
        assert [each.first for each in find(YESTERDAY[language], said)] == [local.date() - timedelta(1)]
        assert [each.start for each in resolve(YESTERDAY[language], said)] == [
            (local.date() - timedelta(1)).isoformat()
        ]


PIECES = (
    "gestern|letzte|Woche|vor|zwei|Monaten|il y a|deux|jours|hace|semanas|pasado|mañana|fa|giorni|há|dias|volgende|"
    "vrijdag|over|weken|上周|五|天前|明年|来週|の|月曜日|2日|다음 주|이틀|후|금요일|5|31|1/2|28.10.|2019|de|mayo|Mai|,|"
    "ou|Weihnachten|Ostern|fin de|30. Februar|999|\n|第|一|元年|令和|-|Ende"
)


@given(st.lists(st.sampled_from(PIECES.split("|"))).map(" ".join) | st.text(), st.datetimes())
def test_any_text_on_any_day_gives_ordered_days_at_their_places(text: str, said: datetime) -> None:
    at = 0
    for each in find(text, said):
        assert at <= each.start < each.end <= len(text)
        assert each.expression == text[each.start : each.end]
        assert each.first <= each.last
        at = each.end
    for each in resolve(text, said):
        assert each.expression in text
        assert date.fromisoformat(each.start) <= date.fromisoformat(each.end)


@pytest.mark.parametrize("code", LANGUAGES)
def test_the_file_has_every_language_with_its_weekdays_and_months(code: str) -> None:
    language = date_words.language(code)
    values = {(kind, str(value)) for phrases in language.phrases.values() for _, kind, value in phrases}
    assert {("W", str(at)) for at in range(7)} <= values
    if language.spaced:
        assert {("M", str(at)) for at in range(12)} <= values
    for _, kind, which in [phrase for phrases in language.phrases.values() for phrase in phrases]:
        if kind == "h":
            assert calendar_days.holiday(str(which), 2024).year in (2023, 2024)


@pytest.mark.parametrize(
    ("code", "text", "number"),
    [
        ("en", "two thousand and thirty two", 2032),
        ("en", "twenty-fifth", 25),
        ("de", "achtundneunzig", 98),
        ("de", "vierundzwanzigsten", 24),
        ("fr", "quatre-vingt-dix-neuf", 99),
        ("fr", "soixante et onze", 71),
        ("es", "mil novecientos noventa y dos", 1992),
        ("it", "ventuno", 21),
        ("pt", "vinte e um", 21),
        ("nl", "tweeëndertig", 32),
        ("zh", "二十三", 23),
        ("ja", "二〇一八", 2018),
    ],
)
def test_numbers_in_words_are_read(code: str, text: str, number: int) -> None:
    assert [token.value for token in tokens(text, date_words.language(code)) if token.kind in "coy"] == [number]


def test_holidays_that_move_are_where_they_were() -> None:
    easters = {2016: (3, 27), 2019: (4, 21), 2024: (3, 31), 2038: (4, 25), 2285: (3, 22)}
    for year, (month, day) in easters.items():
        assert calendar_days.holiday("easter", year) == date(year, month, day)
    assert calendar_days.holiday("advent", 2023) == date(2023, 12, 3)
    assert calendar_days.holiday("11-4-thursday +1", 2010) == date(2010, 11, 26)


def test_english_needs_no_other_language_and_importing_memlite_none() -> None:
    code = """
import sys
import memlite.dates as dates
from datetime import datetime
assert "memlite.date_grammar" not in sys.modules and "tomllib" not in sys.modules
dates.resolve("We met yesterday.", datetime(2025, 5, 14))
dates.find("We met yesterday and on 5 May 2020.", datetime(2025, 5, 14))
print(dates.language.cache_info().currsize)
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1\n"
