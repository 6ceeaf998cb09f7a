"""context(): the best hits as lines for a prompt, within a budget, and nothing where nothing answers."""

from __future__ import annotations

import hashlib
import random
import re
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memlite import InvalidInputError, Memory, context, models
from memlite.bench import synthetic
from memlite.chat import ChatModel
from memlite.cli import main

TALK = [
    {"role": "user", "content": "My sister Clara is allergic to walnuts.", "observed_at": "2026-06-01T10:00:00Z"},
    {"role": "assistant", "content": "I will keep walnuts out of every recipe.", "observed_at": "2026-06-01T10:01:00Z"},
    {"role": "user", "content": "The tram to the office was late again.", "observed_at": "2026-06-02T08:00:00Z"},
]


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with Memory(":memory:", extractor=False) as opened:
        added = opened.add(TALK, user_id="u", extract="never")
        opened.remember(
            {"text": "Clara, the user's sister, is allergic to walnuts.", "source": added.messages[0]},
            user_id="u",
            observed_at="2026-06-01T10:00:00Z",
        )
        yield opened


def test_a_line_holds_the_fact_its_day_and_what_was_said(memory: Memory) -> None:
    made = memory.context("Which nuts is Clara allergic to?", user_id="u")
    first, *_ = made.text.splitlines()
    assert first == (
        "- Clara, the user's sister, is allergic to walnuts. (2026-06-01) "
        "[user: My sister Clara is allergic to walnuts.]"
    )
    assert made.evidence >= made.floor > 0
    assert made.hits[0].kind == "fact"
    assert made.tokens == context.tokens(made.text)


def test_a_line_says_what_its_fact_replaced_where_there_is_room(learning: Memory) -> None:
    old = learning.remember("Ana drinks almond milk (the sweet one).", user_id="u", observed_at="2024-03-01").facts[0]
    new = {"text": "Ana drinks oat milk.", "replaces": old.id}
    learning.remember(new, user_id="u", observed_at="2025-05-10")
    line = "- Ana drinks oat milk. (2025-05-10, before: Ana drinks almond milk (the sweet one).)"

    def ask(**about: Any) -> str:
        return learning.context("What milk does Ana drink?", user_id="u", floor=0, **about).text

    assert ask() == line
    assert ask(replaced=False) == ask(max_tokens=30) == "- Ana drinks oat milk. (2025-05-10)"
    for text in (line, f"> {line} [somebody: no]", line.removesuffix(")")):
        learnt = learning.add([{"role": "user", "content": text}], user_id="u").facts
        assert bool(learnt) == (text != line)


def test_a_predecessor_goes_from_the_messages_that_recalled_it(learning: Memory) -> None:
    old = learning.remember("Ana drinks almond milk.", user_id="u", observed_at="2024-03-01").facts[0]
    learning.remember({"text": "Ana drinks oat milk.", "replaces": old.id}, user_id="u", observed_at="2025-05-10")
    text = learning.context("What milk does Ana drink?", user_id="u", floor=0).text
    message = learning.add(f"You told me:\n{text}", user_id="u").messages[0]
    assert message in learning.delete(old.id).messages


def test_what_nothing_answers_brings_nothing(memory: Memory) -> None:
    made = memory.context("How many moons does Jupiter have?", user_id="u")
    assert (made.text, made.hits, made.tokens) == ("", (), 0)
    assert made.evidence < made.floor
    assert memory.context("How many moons does Jupiter have?", user_id="u", floor=0).text
    assert memory.context("walnuts", user_id="nobody").text == ""


@pytest.mark.parametrize("room", [1, 10, 20, 40, 80])
def test_the_budget_is_kept_and_facts_come_before_quotations(memory: Memory, room: int) -> None:
    made = memory.context("Which nuts is Clara allergic to?", user_id="u", max_tokens=room, floor=0)
    assert made.tokens <= room
    assert len(made.text.splitlines()) == len(made.hits)
    if room == 20:
        assert "[user:" not in made.text


# What is hardly worth a line.


@pytest.mark.parametrize("embedder", [False, None], ids=["vectors-off", "real"])
def test_what_scores_next_to_nothing_beside_the_best_hit_is_left_out(embedder: Any) -> None:
    with Memory(":memory:", embedder=embedder, extractor=False) as memory:
        things = "garden piano train river bread shoes lamp winter market doctor".split()
        memory.remember([f"The user talked about the {a} and the {b}." for a in things for b in things], user_id="u")
        memory.remember("Clara is allergic to walnuts.", user_id="u", observed_at="2026-06-01")
        made = memory.context("What is Clara allergic to?", user_id="u")
        assert made.text == "- Clara is allergic to walnuts. (2026-06-01)"
        if embedder is None:
            assert len(memory.context("What is Clara allergic to?", user_id="u", floor=0).hits) > 1
        many = memory.context("Which talks were about the piano?", user_id="u")
        assert len(many.hits) >= 19
        assert all("piano" in hit.text for hit in many.hits)


def test_what_is_old_is_not_left_out_for_its_age(path: Path) -> None:
    with Memory(path, embedder=False, extractor=False) as memory:
        memory.remember("Clara is allergic to walnuts.", user_id="u")
        memory.remember("Clara is allergic to pecans.", user_id="u", observed_at="2001-01-01")
        made = memory.context("What is Clara allergic to?", user_id="u", half_life=1)
        assert [hit.text[21:-1] for hit in made.hits] == ["walnuts", "pecans"]
        assert made.hits[1].score < 0.05 * made.hits[0].score


def test_a_reranker_reads_only_what_is_worth_a_line(path: Path) -> None:
    class Keen:
        name = "keen"
        read = 0

        def scores(self, query: str, texts: Any) -> list[float]:
            self.read = len(texts)
            return [0.001 * at for at in range(len(texts))]

    reranker = Keen()
    with Memory(path, embedder=False, extractor=False, reranker=reranker) as memory:
        told = "Clara is allergic to walnuts, hazelnuts and {} from the market."
        memory.remember([told.format("almonds"), told.format("pecans"), "Clara sings."], user_id="u")
        query = "Is Clara allergic to walnuts and hazelnuts from the market?"
        assert len(memory.search(query, user_id="u")) == 3
        made = memory.context(query, user_id="u")
        assert reranker.read == len(made.hits) == 2


# Tokens.


@pytest.fixture(scope="module")
def real() -> Iterator[Callable[[str], int]]:
    """The tokenizer of the default extractor."""
    found = models.find("extractor")
    assert found is not None
    model = ChatModel(found.path, 512, 1)
    yield lambda text: len(model._tokens(text))
    model.close()


SCRIPTS = {
    "Korean": "[\uac00-\ud7af]",
    "Japanese": "[\u3040-\u30ff]",
    "Chinese": "[\u4e00-\u9fff]",
    "Arabic": "[\u0600-\u06ff]",
    "Thai": "[\u0e00-\u0e7f]",
    "Hindi": "[\u0900-\u097f]",
    "accents": "[\u00c0-\u024f]",
    "English": "",
}


def test_tokens_are_counted_high_in_every_script_but_not_much_too_high(real: Callable[[str], int]) -> None:
    texts: dict[str, list[str]] = {}
    for step in synthetic.read().steps:
        for told in (*step.get("messages", ()), *step.get("facts", ()), *step.get("updates", ())):
            script = next(name for name, letters in SCRIPTS.items() if re.search(letters, told["text"]))
            texts.setdefault(script, []).append(told["text"])
    assert texts.keys() == SCRIPTS.keys()
    for script, told in texts.items():
        high = sum(map(context.tokens, told)) / sum(map(real, told))
        assert 1 <= high <= 1.6, (script, high)


_chance = random.Random(7)
HOSTILE = {
    "German": "Die Geschwindigkeitsbegrenzung auf der Donaudampfschifffahrtsgesellschaft wurde aufgehoben.",
    "Dutch": "Was het niet in die week? We hadden geen enkele verwachtingen over de onderhandelingen.",
    "Indonesian": "saya baik, saya baru saja pulang kerja dan lelah, saya punya dua pekerjaan.",
    "Polish": "Źdźbło trawy i chrząszcz brzmi w trzcinie.",
    "Czech": "Strč prst skrz krk, vlk zmrzl, zhltl hrst zrn.",
    "Vietnamese": "Tên tôi là Nguyễn Văn Đức và tôi sống ở Hà Nội cùng với gia đình.",
    "Russian": "Анна работает в Порту и по вторникам играет на скрипке.",
    "Hebrew": "אני גר בפורטו ומנגן בכינור בימי שלישי",
    "Greek": "Ζω στο Πόρτο και παίζω βιολί κάθε Τρίτη",
    "Georgian": "მე ვცხოვრობ თბილისში და ვმუშაობ საავადმყოფოში",
    "Tamil": "எனக்கு தமிழ் பிடிக்கும்.",
    "Javanese": "ꦲꦏ꧀ꦱꦫ",
    "hieroglyphs": "𓀀𓀁𓀂 𝒜𝓃𝒶 𝕃𝕚𝕤𝕓𝕠𝕟",
    "hex": hashlib.sha256(b"memlite").hexdigest(),
    "letters": "".join(_chance.choices(string.ascii_lowercase, k=200)),
    "capitals": "".join(_chance.choices(string.ascii_uppercase, k=200)),
    "letters and digits": "".join(_chance.choices(string.ascii_letters + string.digits, k=200)),
    "printable": "".join(_chance.choices(string.printable[:94], k=200)),
    "phone and IBAN": "+351 912345678 IBAN PT50000201231234567890154",
    "digits apart": "1 2 3 4 5 6 2026-11-30T17:04:05.123Z 192.168.178.1:8080",
    "URL": "http://www.xn--bcher-kva.example/~user/index.php?id=42&ref=aGVsbG8",
    "code": 'for(i=0;i<n;i++){a[i]=b[i]*c;} {"a": [1, 2, {"b": null}]}',
    "emoji": "👨‍👩‍👧‍👦🎉🎉🏳️‍🌈🇵🇹❤️✅☎️",
    "signs": "!?!?#$%^&*()_+-=[]{}|;':,./<>? ①②㍿ ᚠᚢᚦ",
    "marks": "Z̸͓̓ą̷̎l̵͔̕g̵͖͝o̸̬̾ \u200b\u200d\u202e\ufffd",
    "controls": "\x01\x02\x03\x04",
}


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in HOSTILE.items()])
def test_tokens_are_counted_high_for_what_no_model_knows(real: Callable[[str], int], text: str) -> None:
    assert context.tokens(text) >= real(text)


@pytest.mark.parametrize("room", [20, 60, 150])
def test_a_context_has_no_more_tokens_than_it_may_have(real: Callable[[str], int], path: Path, room: int) -> None:
    with Memory(path, embedder=False, extractor=False) as memory:
        said = memory.add([f"Note: {text}" for text in HOSTILE.values()], user_id="u", extract="never").messages
        told = [{"text": f"Note: {text[:40]}", "source": id_} for text, id_ in zip(HOSTILE.values(), said)]
        memory.remember(told[::2], user_id="u")
        for name, text in HOSTILE.items():
            made = memory.context(f"note {text}", user_id="u", max_tokens=room, floor=0)
            assert real(made.text) <= made.tokens <= room, name


def test_nothing_has_no_tokens() -> None:
    assert context.tokens("") == 0


def test_a_context_may_be_as_long_as_a_models_window(memory: Memory) -> None:
    memory.remember([f"Clara's walnut tree number {n} is {n} metres high." for n in range(30)], user_id="trees")
    few = memory.context("How high is Clara's walnut tree?", user_id="trees", max_tokens=100, floor=0)
    many = memory.context("How high is Clara's walnut tree?", user_id="trees", max_tokens=200_000, floor=0)
    assert len(few.hits) < len(many.hits)


@pytest.mark.parametrize(
    "wrong", [{"max_tokens": 0}, {"max_tokens": 1_000_001}, {"max_tokens": True}, {"floor": 2}, {"floor": "high"}]
)
def test_a_wrong_budget_or_floor_is_refused(memory: Memory, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        memory.context("walnuts", user_id="u", **wrong)  # type: ignore[arg-type]


def test_the_command_prints_the_lines_and_says_when_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMLITE_DB", str(tmp_path / "m.db"))
    runner = CliRunner()
    assert runner.invoke(main, ["remember", "Clara is allergic to walnuts."]).exit_code == 0
    shown = runner.invoke(main, ["context", "Clara is allergic to walnuts.", "--max-tokens", "50"])
    assert (shown.exit_code, shown.stdout[:32]) == (0, "- Clara is allergic to walnuts. ")
    none = runner.invoke(main, ["context", "moons of Jupiter"])
    assert (none.exit_code, none.stdout) == (0, "")
    assert "floor" in none.stderr


# What comes back.


def test_fifty_rounds_of_recall_teach_nothing_new(learning: Memory) -> None:
    learning.add([{"role": "user", "name": "Ana", "content": "I like tea (the green one)."}], user_id="u")
    learning.add("Ben (my brother) [the tall one] lives in Porto. (2024-01-01)", user_id="u", extract="never")
    old = learning.remember("Ana lives in Porto.", user_id="u").facts[0].id
    learning.remember({"text": "Ana lives in Lisbon.", "replaces": old}, user_id="u")
    before = sorted(fact.text for fact in learning.get_all(user_id="u", past=True))
    for number in range(50):
        query = ("Where did Ana live before?", "What does Ana like?", "Where does Ben live?")[number % 3]
        context = learning.context(query, user_id="u", run_id=None, floor=0)
        assert context.hits
        result = learning.add([{"role": "assistant", "content": context.text}], user_id="u", run_id=f"r{number}")
        assert result.facts == ()
        assert {skipped.reason for skipped in result.skipped} == {"memlite recalled it"}
    assert sorted(fact.text for fact in learning.get_all(user_id="u", past=True)) == before


def test_what_is_said_beside_a_recalled_line_is_learnt(learning: Memory) -> None:
    learning.remember("Ana likes tea.", user_id="u", observed_at="2026-01-01")
    text = learning.context("What does Ana like?", user_id="u", floor=0).text
    result = learning.add(f"You told me:\n{text}\nToday I like cake.", user_id="u")
    assert [fact.text for fact in result.facts] == ["You told me:\nToday I like cake."]
    assert learning.get(result.messages[0]).content.count("tea") == 1  # the message itself stays as it was said
    unknown = learning.add("- Ben likes rum. (2026-01-01)", user_id="u")
    assert len(unknown.facts) == 1  # in the form of a recalled line, but nothing that is known


def test_a_recalled_fact_does_not_come_back_through_the_message_that_recalled_it(learning: Memory) -> None:
    for end in (learning.archive, learning.delete):
        fact = learning.add("Clara is allergic to walnuts.", user_id="u").facts[0].id
        learning.add(learning.context("Clara walnuts", user_id="u", floor=0).text, user_id="u")
        end(fact)
        assert not learning.search("Clara walnuts", user_id="u")


def test_words_added_to_a_recalled_line_are_learnt(learning: Memory) -> None:
    learning.remember("Ana works at Feedzai.", user_id="u", observed_at="2025-05-01")
    result = learning.add("- Ana works at Feedzai. (2025-05-01) [she left in June for Acme]", user_id="u")
    assert len(result.facts) == 1


# What answers stands in the line.

GARAGE = "They changed the lock of the garage, so the garage code is 4711 from now on."
LONG = f"{'We came back from the holiday. ' * 30}{GARAGE}{' It was nice.' * 100}"


@pytest.mark.parametrize(
    ("text", "query", "most", "part"),
    [
        pytest.param(GARAGE, "code", 240, GARAGE, id="short"),
        pytest.param(LONG, "What is the garage code?", 80, f"… {GARAGE}…", id="a sentence in the middle"),
        pytest.param("word " * 50 + "code 4711 " + "word " * 50, "code", 40, "code 4711", id="no sentence"),
        pytest.param(
            "数を数える。" * 20 + "車庫は四七。" + "数を数える。" * 9,
            "車庫",
            12,
            "… 車庫は四七。数を数える。…",
            id="no spaces",
        ),
        pytest.param("x" * 50, "code", 10, "xxxxxxxxxx…", id="no word"),
    ],
)
def test_an_excerpt_has_the_words_of_the_query(text: str, query: str, most: int, part: str) -> None:
    found = context.excerpt(text, query, most)
    assert part in found
    assert len(found) <= most + 3


def test_a_context_quotes_of_a_source_what_was_asked(memory: Memory) -> None:
    said = memory.add(LONG, user_id="u", extract="never").messages[0]
    later = memory.add("The garage is green.", user_id="u", extract="never").messages[0]
    memory.remember({"text": "The user's garage has a new code.", "source": [said, later]}, user_id="u")
    text = memory.context("What is the garage code?", user_id="u", floor=0).text
    assert GARAGE in text
    assert (
        memory.get(memory.add({"role": "system", "content": text}, user_id="u", extract="never").messages[0]).text == ""
    )


def test_of_a_message_too_long_for_the_budget_a_context_shows_what_was_asked(memory: Memory) -> None:
    memory.add(LONG * 9, user_id="u", extract="never")
    text = memory.context("What is the garage code?", user_id="u", floor=0, max_tokens=200).text
    assert GARAGE in text
    assert (
        memory.get(memory.add({"role": "system", "content": text}, user_id="u", extract="never").messages[0]).text == ""
    )


def test_a_fact_about_something_else_does_not_come_in_the_place_of_its_message(memory: Memory) -> None:
    said = memory.add(f"I start at Siemens on Monday. {GARAGE}", user_id="other", extract="never").messages[0]
    fact = (
        memory.remember({"text": "The user starts at Siemens on Monday.", "source": said}, user_id="other").facts[0].id
    )
    assert [hit.id for hit in memory.search("What is the garage code?", user_id="other")] == [said]
    assert [hit.id for hit in memory.search("When do I start at Siemens?", user_id="other")] == [fact]
    why = memory.why(fact, "What is the code at Siemens and of the garage?", user_id="other")
    assert (why.verdict, why.instead) == ("shown by a message", said)
