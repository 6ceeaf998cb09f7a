"""What memlite itself wrote, back in a message: not learnt again, crowding nothing out, bringing nothing back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from memlite import ExtractedFact, Extraction, ExtractionRequest, Memory, context
from memlite.cli import main
from memlite.sentences import split

FACTS = [
    "Ana's sister Clara is allergic to walnuts.",
    "Ana works at Feedzai in Porto as a data engineer.",
    "Ana drinks oat milk every morning.",
    "Ana's brother Tom lives in Berlin.",
    "Ana is training for a marathon in October.",
]
ASKED = "Who is allergic to walnuts?"
ZEBRA = "Ana drinks zebra milk daily."
OTHERS = [
    "Clara eats no walnuts.",
    "安娜每天喝斑马奶。",
    "The user takes the tram.",
    "Dr. Sousa works in Av. Roma. She is kind.",
    "Run `make test` before pushing.",
]
ROLES = ["system", "user", "assistant", "tool"]


class Claims:
    """An extractor that learns every sentence about Ana, and keeps what it was shown."""

    name = "claims"
    prompt_version = "1"

    def __init__(self) -> None:
        self.requests: list[ExtractionRequest] = []

    def extract(self, request: ExtractionRequest) -> Extraction:
        self.requests.append(request)
        return Extraction(
            tuple(
                ExtractedFact(sentence, turn.speaker, (turn.number,))
                for turn in request.messages
                for sentence in split(turn.text)
                if "Ana" in sentence
            )
        )


@pytest.fixture
def learning(path: Path) -> Iterator[Memory]:
    with Memory(path, embedder=False, extractor=Claims()) as opened:
        yield opened


def told(memory: Memory, role: str, content: str, **scope: str) -> Any:
    return memory.add([{"role": role, "content": content}], **({"user_id": "ana"} | scope))


def remembered(memory: Memory, text: str = ZEBRA) -> str:
    return memory.remember(text, user_id="ana", observed_at="2024-01-01").facts[0].id


def texts(memory: Memory, query: str, **given: Any) -> list[str]:
    return [hit.text for hit in memory.search(query, user_id="ana", limit=50, **given)]


@pytest.mark.parametrize("vectors", [False, True], ids=["words", "vectors"])
@pytest.mark.parametrize("role", ["system", "user", "assistant"])
def test_fifty_rounds_of_recall_change_nothing(path: Path, role: str, vectors: bool) -> None:
    with Memory(path, embedder=None if vectors else False, extractor=Claims()) as memory:
        memory.remember(FACTS, user_id="ana", observed_at="2025-01-01")
        first = memory.context(ASKED, user_id="ana", floor=0)
        for number in range(50):
            made = memory.context(ASKED, user_id="ana", floor=0)
            block = {"role": role, "content": f"You are a helpful assistant. What you know:\n{made.text}\nBe kind."}
            turns = [{"role": "user", "content": "Hello there!"}, {"role": "assistant", "content": "Hi, how are you?"}]
            result = memory.add([block, *turns], user_id="ana", run_id=f"r{number}")
            assert result.facts == ()
            assert FACTS[0] in {line[2:].partition(" (2")[0] for line in made.text.splitlines()}
        assert sorted(fact.text for fact in memory.get_all(user_id="ana")) == sorted(FACTS)
        assert memory.search(ASKED, user_id="ana")[0].text == FACTS[0]
        last = memory.context(ASKED, user_id="ana", floor=0)
        for text in FACTS:
            assert last.text.count(text) == first.text.count(text) <= 1
        assert len(last.hits) <= len(first.hits) + 3  # the block's own words and the two turns, once each


def test_a_question_asked_before_is_not_its_answer(learning: Memory) -> None:
    learning.remember(FACTS, user_id="ana", observed_at="2025-01-01")
    told(learning, "user", ASKED)
    assert texts(learning, ASKED)[:2] == [FACTS[0], ASKED]


def remove(memory: Memory, id_: str) -> None:
    assert memory.delete(id_).clean


def replace(memory: Memory, id_: str) -> None:
    memory.remember({"text": "Ana drinks only water.", "replaces": id_}, user_id="ana", observed_at="2025-01-01")


def archive(memory: Memory, id_: str) -> None:
    memory.archive(id_)


def expire(memory: Memory, id_: str) -> None:
    memory.update(id_, expires_at="2024-02-01")


def change(memory: Memory, id_: str) -> None:
    memory.update(id_, text="Ana drinks only water.")


def keep(memory: Memory, id_: str) -> None:
    memory.delete(id_, keep_messages=True)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("away", [remove, replace, archive, expire, change, keep], ids=lambda each: each.__name__)
def test_what_is_put_away_does_not_come_back_through_a_recalled_block(
    learning: Memory, away: Callable[[Memory, str], None], role: str
) -> None:
    id_ = remembered(learning)
    block = learning.context("What does Ana drink?", user_id="ana", floor=0).text
    assert ZEBRA in block
    told(learning, role, block)
    told(learning, role, f"You are helpful. Known:\n{block}\nAnswer in one word.")
    away(learning, id_)
    for query in ("What milk does Ana drink daily, zebra?", "Known: answer in one word"):
        assert "zebra" not in " ".join(texts(learning, query))
        assert "[" not in learning.context(query, user_id="ana", floor=0).text


LINE = f"- {ZEBRA} (2024-01-01)"


@pytest.mark.parametrize(
    ("content", "own"),
    [
        pytest.param(LINE, "", id="alone"),
        pytest.param(f"  * {ZEBRA} (2024-01-01)", "", id="another bullet"),
        pytest.param(f"> > {LINE}", "", id="quoted"),
        pytest.param(f"1. {ZEBRA} (2024-01-01)\r\n2. {ZEBRA} (2024-01-01)", "", id="numbered"),
        pytest.param(f"{ZEBRA} (2024-01-01)", "", id="no bullet"),
        pytest.param(f"- {ZEBRA} (2024-01-01, true until 2024-03-01)", "", id="past"),
        pytest.param(f"<memory>{LINE}\n{LINE}</memory>", "", id="in a tag"),
        pytest.param(f"You know: {LINE}", "", id="behind a lead"),
        pytest.param(f"The gate squeaks: {LINE}", "The gate squeaks:", id="behind words"),
        pytest.param(f"You know:\n{LINE}\n\nBe kind.", "You know:\n\nBe kind.", id="between words"),
        pytest.param(f"---\n{LINE}\n---", "", id="between rules"),
        pytest.param(f"- {ZEBRA} (2024-01-01) [she said so]", None, id="more in brackets"),
        pytest.param(f"{LINE} and rum", None, id="more behind it"),
        pytest.param("- Ana drinks rum. (2024-01-01)", None, id="of nothing that is known"),
    ],
)
def test_a_line_is_known_in_any_hands(learning: Memory, content: str, own: str | None) -> None:
    remembered(learning)
    result = told(learning, "user", content)
    message = learning.get(result.messages[0])
    assert message.content == content  # type: ignore[union-attr]
    assert message.text == (content if own is None else own.strip())
    assert [skipped.reason for skipped in result.skipped if "recalled" in skipped.reason][:1] == (
        [] if own is None else ["memlite recalled it"]
    )


@pytest.mark.parametrize(
    ("content", "own"),
    [
        pytest.param(ZEBRA, "", id="alone"),
        pytest.param(f"- {ZEBRA}\n- {ZEBRA}", "", id="bullets"),
        pytest.param(f"As I know: {ZEBRA}", "", id="behind a lead"),
        pytest.param(f"I see. {ZEBRA} Good for her!", "I see. Good for her!", id="a sentence"),
        pytest.param(f'{{"text": "{ZEBRA}", "score": 0.9}}', '{"text": "", "score": 0.9}', id="quoted"),
    ],
)
@pytest.mark.parametrize("role", ROLES)
def test_a_fact_word_for_word_is_recalled_but_a_user_may_say_it_again(
    learning: Memory, role: str, content: str, own: str
) -> None:
    id_ = remembered(learning)
    result = told(learning, role, content)
    message = learning.get(result.messages[0])
    assert message.text == (content if role == "user" and not content.startswith("-") else own)
    if role != "user":
        assert learning.get(id_).sources == ()  # type: ignore[union-attr]
    if role != "user" and own != content:
        assert "zebra" not in " ".join(texts(learning, "zebra milk", include="messages"))


@pytest.mark.parametrize(
    ("content", "own"),
    [
        (f"As I remember: {ZEBRA} Anything else?", "Anything else?"),
        (f"As I remember: {LINE} Anything else?", "Anything else?"),
        (f"As I remember, {LINE[2:]} Anything else?", "Anything else?"),
        (f"{LINE} Anything else?", "Anything else?"),
        (f"{LINE[2:]} Anything else?", "Anything else?"),
        (f"I told you: {ZEBRA}", ""),
        (f"I know that {ZEBRA[:-1]}.", ""),
        (f"I know that {ZEBRA[:-1]}, so no cow today.", "I know that …, so no cow today."),
        (f"I know {ZEBRA[:-1]} so there will be no cow.", "I know … so there will be no cow."),
        (f"Nothing new ({ZEBRA[:-1]}), and the gate squeaks.", "Nothing new (…), and the gate squeaks."),
        (f"{ZEBRA[:-1]} and Clara eats no walnuts, right?", ""),
        (f"{ZEBRA[:-1]} and Clara has a red gate, right?", "… and Clara has a red gate, right?"),
        (f"Noted: {ZEBRA[:-1]}; Clara eats no walnuts.", ""),
        (f"Both stand: {ZEBRA[:-1]}; Clara eats no walnuts.", "Both stand: …; …"),
        (f"Drinks: {ZEBRA[:-1].replace('Ana', 'ana')}", "Drinks: …"),
        ("Since the user takes the tram, no car is needed.", "Since …, no car is needed."),
        ("Dr. Sousa works in Av. Roma. She is kind.", ""),
        ("Welcome! Dr. Sousa works in Av. Roma. She is kind. And you?", "Welcome! And you?"),
        ("Run `make test` before pushing.", ""),
        ("**Ana** drinks *zebra* milk `daily`.", ""),
        ("I know that __Ana drinks zebra milk__ daily, so no cow today.", "I know that __…, so no cow today."),
        ("我记得：安娜每天喝斑马奶。还有别的吗？", "还有别的吗？"),
        (f"As {ZEBRA[:-1]}, no __init__ for ~5 cows.", "As …, no __init__ for ~5 cows."),
        (f"I know that {ZEBRA[:-1]}; code 7781.", "I know that …; code 7781."),
    ],
)
def test_a_fact_within_a_sentence_of_an_assistant_is_recalled(learning: Memory, content: str, own: str) -> None:
    id_ = remembered(learning)
    for other in OTHERS:
        remembered(learning, other)
    message = learning.get(told(learning, "assistant", content).messages[0])
    assert (message.content, message.text) == (content, own)  # type: ignore[union-attr]
    if own != content:
        assert "zebra" not in " ".join(texts(learning, "zebra milk", include="messages"))
    if own != content and "Ana" in content:
        assert message.id in [each.id for each in learning.preview_delete(id_).messages]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "content",
    [
        f"Diana drinks zebra milk daily. Not{ZEBRA}",
        f"It is no longer so that {ZEBRA}",
        f"I know that {ZEBRA[:-1]}, but not on Sundays.",
        f"I know that {ZEBRA[:-1]} no longer.",
        f"The sister of {ZEBRA}",
        f"Careful – {ZEBRA[:-1]}!",
        "Open the settings, Dark mode, and a row of buttons. Your flight TP123 is on time.",
    ],
)
def test_what_else_an_assistant_says_with_a_facts_words_is_its_own(learning: Memory, content: str) -> None:
    for known in (ZEBRA, "Dark mode"):
        remembered(learning, known)
    assert learning.get(told(learning, "assistant", content).messages[0]).text == content  # type: ignore[union-attr]


def test_a_users_words_before_a_line_are_kept(learning: Memory) -> None:
    remembered(learning)
    message = learning.get(told(learning, "user", f"Outdated:\n{LINE}").messages[0])
    assert message.text == "Outdated:"  # type: ignore[union-attr]


@pytest.mark.parametrize("content", [f"{LINE[2:]} " * 1200, "A. " * 6000, "word" * 50_000, "Ana, " * 4000])
def test_a_looping_assistant_is_stored(learning: Memory, content: str) -> None:
    remembered(learning)
    added = learning.add([{"role": "assistant", "content": content}], user_id="ana", extract="never")
    assert learning.get(added.messages[0]).content == content  # type: ignore[union-attr]


def test_a_message_of_a_line_is_known_as_well(learning: Memory) -> None:
    learning.add({"name": "Ben", "content": "The gate (the red one)\nsqueaks."}, user_id="ana", extract="never")
    text = learning.context("Which gate squeaks?", user_id="ana", floor=0).text
    assert learning.get(told(learning, "system", text).messages[0]).text == ""
    assert texts(learning, "gate") == ["The gate (the red one)\nsqueaks."]


def test_the_own_words_of_a_message_are_known_as_well(learning: Memory) -> None:
    remembered(learning)
    learning.remember(
        {
            "text": "Ana has a squeaking gate.",
            "source": told(learning, "user", f"{LINE}\nMy gate squeaks.").messages[0],
        },
        user_id="ana",
        observed_at="2024-01-01",
    )
    text = learning.context("Does a gate squeak?", user_id="ana", floor=0).text
    assert "- Ana has a squeaking gate. (2024-01-01) [user: My gate squeaks.]" in text.splitlines()
    assert learning.get(told(learning, "user", text).messages[0]).text == ""


def test_a_fact_with_what_it_replaced_is_known(learning: Memory) -> None:
    replace(learning, remembered(learning))
    text = learning.context("What does Ana drink?", user_id="ana", floor=0).text
    added = told(learning, "user", text)
    assert learning.get(added.messages[0]).text == ""
    (old,) = (fact for fact in learning.get_all(user_id="ana", past=True) if fact.text == ZEBRA)
    assert (ZEBRA in text) == (added.messages[0] in learning.delete(old.id).messages)


def test_lines_of_all_agents_of_a_user_are_known_and_of_nobody_else(learning: Memory) -> None:
    learning.remember(ZEBRA, user_id="ana", agent_id="cook", observed_at="2024-01-01")
    assert told(learning, "user", LINE, agent_id="tutor").facts == ()
    # Whether one agent was told what another one knows is not known from the words alone.
    assert len(told(learning, "assistant", ZEBRA, agent_id="tutor").facts) == 1
    assert len(told(learning, "user", LINE, user_id="ben").facts) == 1
    assert len(told(learning, "user", LINE, user_id="carl", agent_id="cook").facts) == 1


def test_a_message_is_found_by_its_own_words_and_shows_no_others(learning: Memory) -> None:
    remembered(learning)
    content = f"{LINE}\nThe gate squeaks."
    message = told(learning, "user", content).messages[0]
    (hit,) = learning.search("gate", user_id="ana", include="messages")
    assert (hit.id, hit.text, hit.record.content) == (message, "The gate squeaks.", content)  # type: ignore[union-attr]
    assert texts(learning, "zebra", include="messages") == []
    assert "- user: The gate squeaks. (" in learning.context("Which gate?", user_id="ana", floor=0).text


def test_the_extractor_is_shown_own_words_only(path: Path) -> None:
    extractor = Claims()
    with Memory(path, embedder=False, extractor=extractor) as memory:
        remembered(memory)
        for content in (LINE, f"{LINE}\nThe gate squeaks.", "Hello."):
            told(memory, "user", content)
        last = extractor.requests[-1]
        assert [turn.text for turn in (*last.window, *last.messages)] == ["The gate squeaks.", "Hello."]


def test_what_is_not_its_own_has_neither_words_nor_a_vector(path: Path) -> None:
    with Memory(path, extractor=False) as memory:
        remembered(memory)
        for content in (LINE, f"{LINE}\nThe gate squeaks."):
            told(memory, "system", content)
        assert memory.repair(dry_run=True).left == ()
        with memory._database.read() as db:
            for table in ("message_words_docsize", "message_vectors"):
                assert [id_ for (id_,) in db.execute(f"SELECT id FROM {table}")] == [2]


def test_a_fact_takes_the_messages_along_that_repeat_it(learning: Memory) -> None:
    id_ = remembered(learning)
    block = told(learning, "system", f"You know:\n{LINE}").messages[0]
    spoken = told(learning, "assistant", f"I see. {ZEBRA}").messages[0]
    assert [message.id for message in learning.preview_delete(id_).messages] == [block, spoken]
    assert learning.preview_delete(id_, keep_messages=True).messages == ()
    receipt = learning.delete(id_)
    assert (receipt.clean, receipt.messages, receipt.notes) == (True, (block, spoken), ())
    assert b"zebra" not in learning.path.read_bytes()


@pytest.mark.parametrize("of", ["a fact", "a message"])
def test_a_receipt_names_the_messages_that_still_repeat_it(learning: Memory, of: str) -> None:
    added = learning.add(ZEBRA, user_id="ana", observed_at="2024-01-01")
    block = told(learning, "system", f"You know:\n{LINE}").messages[0]
    if of == "a fact":
        receipt = learning.delete(added.facts[0].id, keep_messages=True)
    else:
        receipt = learning.delete(added.messages[0])
        assert receipt.facts == (added.facts[0].id,)  # the block is no source of it
    (note,) = receipt.notes
    assert note.endswith(f": {block}")
    assert "zebra" not in " ".join(texts(learning, "zebra milk, you know"))


@pytest.mark.parametrize(
    ("content", "noted"),
    [
        ("You drink zebra milk daily, right?", True),
        ("Daily zebra milk, I wonder what that drinks like.", True),
        ("You drink milk daily, right?", False),
    ],
)
def test_a_receipt_names_the_messages_that_say_nearly_the_same(learning: Memory, content: str, noted: bool) -> None:
    id_ = remembered(learning)
    message = told(learning, "assistant", content).messages[0]
    receipt = learning.delete(id_)
    assert receipt.clean
    assert receipt.messages == ()
    assert [message in note and "all the words" in note for note in receipt.notes] == [True] * noted


def test_a_receipt_does_not_name_the_messages_that_are_kept(learning: Memory) -> None:
    added = told(learning, "user", ZEBRA)
    assert learning.delete(added.facts[0].id, keep_messages=True).notes == ()


def test_a_receipt_names_a_message_that_says_a_deleted_one_again(learning: Memory) -> None:
    first, second = (told(learning, "user", "The gate squeaks loudly.").messages[0] for _ in "12")
    (note,) = learning.delete(first).notes
    assert second in note


def test_why_says_that_a_message_only_repeats(learning: Memory) -> None:
    remembered(learning)
    message = told(learning, "system", LINE).messages[0]
    why = learning.why(message, "zebra", user_id="ana")
    assert (why.verdict, why.text) == ("recalled", LINE)


def test_the_command_prints_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLITE_DB", str(tmp_path / "m.db"))

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 0, done.output
        return done.stdout

    run("remember", ZEBRA)
    (line,) = run("context", ZEBRA).splitlines()
    message = json.loads(run("add", f"You know:\n{line}\nThe gate squeaks.", "--extract", "never", "--json"))[
        "messages"
    ][0]
    assert "zebra" not in run("search", "gate squeaks", "--include", "messages")
    (hit,) = json.loads(run("search", "gate squeaks", "--include", "messages", "--json"))
    assert (hit["text"], "zebra" in json.dumps(hit)) == ("You know:\nThe gate squeaks.", False)
    assert "zebra" in run("show", message)


def test_a_line_of_any_length_is_read_at_once() -> None:
    line = "- Ana (2024-01-01) [" * 5000
    assert len(context.recalled(line)) < 100
    assert context.recalled("word " * 100_000) == []
