"""reextract(): facts made anew by another model, and nothing that somebody has put away comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memlite import ExtractedFact, Extraction, ExtractionError, ExtractionRequest, Memory, NamedEntity, reextract

OLD = {
    "I like tea.": ["Ana does like tea."],
    "I live in Porto.": ["Ana does live in Porto."],
    "My dog is Rex.": ["Ana's dog is Rex."],
}
NEW = {
    "I like tea.": ["Ana likes tea."],
    "I live in Porto.": ["Ana lives in Porto."],
    "My dog is Rex.": ["Ana's dog is Rex.", "Rex is a dog."],
}


class Says:
    """An extractor that answers every message with given facts."""

    prompt_version = "1"

    def __init__(self, name: str, answers: dict[str, list[str]]) -> None:
        self.name, self.answers = name, answers
        self.asked: list[ExtractionRequest] = []
        self.fails: set[str] = set()

    def extract(self, request: ExtractionRequest) -> Extraction:
        self.asked.append(request)
        if any(turn.text in self.fails for turn in request.messages):
            raise ExtractionError("no answer")
        return Extraction(
            tuple(
                ExtractedFact(text, "Ana", (turn.number,), entities=(NamedEntity("Ana", "person"),), confidence=0.9)
                for turn in request.messages
                for text in self.answers.get(turn.text, ())
            )
        )


def new(answers: dict[str, list[str]] = NEW) -> Says:
    return Says("new", answers)


@pytest.fixture
def batches(path: Path) -> dict[str, str]:
    """A file in which the old model has learnt from three messages; their batches."""
    with Memory(path, embedder=False, extractor=Says("old", OLD)) as memory:
        return {text: memory.add(said(text), user_id="u").batch for text in OLD}


def said(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "name": "Ana", "content": text}]


def opened(path: Path, extractor: Says | None = None) -> Memory:
    return Memory(path, embedder=False, extractor=extractor or new())


def texts(memory: Memory) -> list[str]:
    return sorted(fact.text for fact in memory.get_all(user_id="u"))


def ids(memory: Memory) -> dict[str, str]:
    return {fact.text: fact.id for fact in memory.get_all(user_id="u")}


AFTER = sorted(text for made in NEW.values() for text in made)
BEFORE = sorted(text for made in OLD.values() for text in made)


def test_facts_are_told_in_the_words_of_the_new_model_under_their_ids(path: Path, batches: dict[str, str]) -> None:
    with opened(path) as memory:
        before = ids(memory)
        done = memory.reextract()
        after = ids(memory)
        assert texts(memory) == AFTER
        assert after["Ana likes tea."] == before["Ana does like tea."]
        assert after["Ana's dog is Rex."] == before["Ana's dog is Rex."]
        assert [fact.text for fact in done.added] == ["Rex is a dog."]
        assert len(done.changed) == 2
        assert (done.kept, done.extracted, done.waiting, done.archived) == (1, 3, 0, ())
        fact = memory.get(after["Ana likes tea."])
        assert (fact.model, fact.prompt_version) == ("new", "1")  # type: ignore[union-attr]
        assert [event.action for event in memory.history(fact.id)] == ["ADD", "UPDATE"]
        assert memory.search("likes tea", user_id="u")[0].text == "Ana likes tea."


def test_the_same_model_has_nothing_to_do(path: Path, batches: dict[str, str]) -> None:
    with opened(path) as memory:
        memory.reextract()
        again = memory.reextract()
        assert (again.extracted, again.batches) == (0, ())


def test_what_the_new_model_does_not_find_is_archived(path: Path, batches: dict[str, str]) -> None:
    with opened(path, new({**NEW, "I like tea.": []})) as memory:
        done = memory.reextract()
        assert [fact.text for fact in done.archived] == ["Ana does like tea."]
        assert "Ana does like tea." not in texts(memory)


def test_it_can_be_undone_and_that_undone_again(path: Path, batches: dict[str, str]) -> None:
    with opened(path, new({**NEW, "I live in Porto.": []})) as memory:
        before = ids(memory)
        done = memory.reextract()
        after = ids(memory)
        back = memory.undo(*done.batches)
        assert ids(memory) == before
        fact = memory.get(before["Ana does like tea."])
        assert (fact.model, fact.entities[0].name) == ("old", "Ana")  # type: ignore[union-attr]
        assert memory.search("tea", user_id="u")[0].text == "Ana does like tea."
        memory.undo(back.batch)
        assert ids(memory) == after
        assert memory.get(before["Ana does like tea."]).model == "new"  # type: ignore[union-attr]


def test_until_all_is_extracted_nothing_changes_and_the_next_call_goes_on(path: Path, batches: dict[str, str]) -> None:
    with opened(path) as memory:
        half = memory.reextract(limit=2)
        assert (half.extracted, half.waiting, half.batches) == (2, 1, ())
        assert texts(memory) == BEFORE
    with opened(path, extractor := new()) as memory:
        done = memory.reextract()
        assert (done.extracted, len(extractor.asked)) == (1, 1)
        assert texts(memory) == AFTER


def test_a_third_model_begins_anew(path: Path, batches: dict[str, str]) -> None:
    with opened(path) as memory:
        memory.reextract(limit=2)
    with opened(path, Says("third", OLD)) as memory:
        assert memory.reextract().extracted == 3
        assert texts(memory) == BEFORE


def test_a_fault_while_the_facts_change_leaves_all_as_it_was(
    path: Path, batches: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = reextract._keep

    def stop(*given: Any) -> bool:
        keep(*given)
        raise KeyboardInterrupt

    with opened(path) as memory:
        monkeypatch.setattr(reextract, "_keep", stop)
        with pytest.raises(KeyboardInterrupt):
            memory.reextract()
        assert texts(memory) == BEFORE
        monkeypatch.setattr(reextract, "_keep", keep)
        assert memory.reextract().extracted == 0  # the answers are there
        assert texts(memory) == AFTER


def test_a_batch_that_fails_keeps_its_facts(path: Path, batches: dict[str, str]) -> None:
    extractor = new()
    extractor.fails = {"I like tea."}
    with opened(path, extractor) as memory:
        done = memory.reextract()
        assert len(done.failures) == 1
        assert batches["I like tea."] in done.failures[0]
        assert "Ana does like tea." in texts(memory)
        assert "Rex is a dog." in texts(memory)


def test_what_somebody_has_put_away_does_not_come_back(path: Path, batches: dict[str, str]) -> None:
    with opened(path) as memory:
        before = ids(memory)
        memory.archive(before["Ana does like tea."])
        memory.undo(batches["My dog is Rex."])
        memory.remember({"text": "Ana lives in Braga.", "replaces": [before["Ana does live in Porto."]]}, user_id="u")
        memory.reextract()
        assert texts(memory) == ["Ana lives in Braga."]
        assert [hit.text for hit in memory.search("tea dog Porto", user_id="u")] in ([], ["Ana lives in Braga."])


def test_of_a_message_that_was_kept_its_deleted_fact_is_not_learnt_again(path: Path, batches: dict[str, str]) -> None:
    with opened(path) as memory:
        memory.delete(ids(memory)["Ana does like tea."], keep_messages=True)
        memory.reextract()
        assert not any("tea" in text for text in texts(memory))


def test_what_was_changed_by_hand_stays(path: Path, batches: dict[str, str]) -> None:
    with opened(path) as memory:
        id_ = ids(memory)["Ana does like tea."]
        memory.update(id_, text="Ana likes green tea.")
        archived = ids(memory)["Ana does live in Porto."]
        memory.archive(archived)
        memory.restore(archived)
        memory.reextract()
        assert {"Ana likes green tea.", "Ana does live in Porto."} <= set(texts(memory))
        assert "Ana likes tea." not in texts(memory)


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(["Ana does like tea."], id="the same text"),
        pytest.param(["Ana likes tea."], id="other words"),
        pytest.param(["Tea is what Ana drinks.", "Ana likes tea.", "Ana does like tea."], id="in several"),
    ],
)
def test_a_fact_that_was_corrected_by_hand_stays_corrected(
    path: Path, batches: dict[str, str], made: list[str]
) -> None:
    with opened(path, new({**NEW, "I like tea.": made})) as memory:
        memory.update(ids(memory)["Ana does like tea."], text="Coffee is the favourite drink of the user.")
        memory.reextract()
        assert texts(memory) == sorted(
            ["Coffee is the favourite drink of the user.", *NEW["I live in Porto."], *NEW["My dog is Rex."]]
        )


def test_another_message_from_before_does_not_bring_a_corrected_fact_back(path: Path) -> None:
    with opened(path, Says("old", {"I like tea.": [TEA]})) as memory:
        for text in ("I like tea.", "As I said: tea!"):
            memory.add(said(text), user_id="u")
        memory.update(ids(memory)[TEA], text=COFFEE)
    with opened(path, new({"I like tea.": [TEA], "As I said: tea!": [TEA]})) as memory:
        memory.reextract()
        assert texts(memory) == [COFFEE]


def test_what_is_said_again_after_a_correction_is_learnt(path: Path) -> None:
    with opened(path, Says("old", {"I like tea.": [TEA]})) as memory:
        memory.add(said("I like tea."), user_id="u")
        memory.update(ids(memory)[TEA], text=COFFEE)
        memory.add(said("I like tea."), user_id="u")
        assert texts(memory) == [COFFEE, TEA]
    with opened(path, new({"I like tea.": [TEA]})) as memory:
        memory.reextract()
        assert texts(memory) == [COFFEE, TEA]


def test_facts_that_were_remembered_stay(path: Path, batches: dict[str, str]) -> None:
    with opened(path, new({})) as memory:
        memory.remember("Ana plays chess.", user_id="u")
        memory.reextract()
        assert texts(memory) == ["Ana plays chess."]


def test_the_undo_of_an_add_hides_what_was_learnt_from_it_later(path: Path, batches: dict[str, str]) -> None:
    with opened(path) as memory:
        memory.reextract()
        undone = memory.undo(batches["My dog is Rex."])
        assert not any("Rex" in text for text in texts(memory))
        memory.undo(undone.batch)
        assert texts(memory) == AFTER


def test_after_both_are_undone_each_comes_back_with_its_own(path: Path, batches: dict[str, str]) -> None:
    with opened(path) as memory:
        (mine,) = memory.reextract().batches
        back = memory.undo(mine)
        add = memory.undo(batches["My dog is Rex."])
        assert not any("Rex" in text for text in texts(memory))
        memory.undo(back.batch)
        assert not any("Rex" in text for text in texts(memory))
        memory.undo(add.batch)
        assert texts(memory) == AFTER


def test_a_deletion_takes_what_a_half_done_run_has_made(path: Path, batches: dict[str, str]) -> None:
    with opened(path) as memory:
        memory.reextract(limit=2)
        receipt = memory.delete(ids(memory)["Ana does like tea."])
        assert receipt.clean
        found = [file.name for file in path.parent.iterdir() if b"likes tea" in file.read_bytes()]
        assert found == []
        memory.reextract()
        assert not any("tea" in text for text in texts(memory))


def test_the_model_is_not_shown_what_it_is_to_find(path: Path, batches: dict[str, str]) -> None:
    with opened(path, extractor := new()) as memory:
        memory.reextract()
    known = [{each.text for each in request.known} for request in extractor.asked]
    assert all("Ana does like tea." not in shown for shown in known[:1])
    assert known[0] == set()


def test_a_handle_extracts_its_own_scope_only(path: Path, batches: dict[str, str]) -> None:
    with opened(path, Says("old", OLD)) as memory:
        memory.add(said("I like tea."), user_id="other")
    with opened(path) as memory:
        assert memory.scope(user_id="other").reextract().extracted == 1
        assert texts(memory) == BEFORE


def test_entities_and_days_follow_the_new_words(path: Path) -> None:
    with Memory(path, embedder=False, extractor=Says("old", {"I met Ben.": ["Ana met Ben."]})) as memory:
        memory.add(said("I met Ben."), user_id="u")
    with opened(path, new({"I met Ben.": ["Ana met Ben and was glad."]})) as memory:
        memory.reextract()
        assert {entity.name for entity in memory.entities(user_id="u")} == {"Ana"}


# What an attacker found.


def relearn(path: Path, message: str | list[str], old: list[str], new_: list[str]) -> Memory:
    """A memory in which the old model has made `old` of a message, and the new one will make `new_`."""
    text = message if isinstance(message, str) else message[-1]
    with Memory(path, embedder=False, extractor=Says("old", {text: old})) as memory:
        memory.add([said(each)[0] for each in ([message] if isinstance(message, str) else message)], user_id="u")
    return opened(path, new({text: new_}))


BOTH = "I like tea and I like coffee."
TEA, COFFEE = "Ana likes tea.", "Ana likes coffee."


def test_what_stands_beside_a_deleted_fact_stays(path: Path) -> None:
    with relearn(path, BOTH, [TEA, COFFEE], [TEA, COFFEE]) as memory:
        memory.delete(ids(memory)[TEA], keep_messages=True)
        memory.reextract()
        assert texts(memory) == [COFFEE]


def test_what_lost_its_message_stays(path: Path) -> None:
    old = {"I like tea. I row.": ["Ana likes tea.", "Ana rows."], "My dog is Rex.": ["Ana's dog is Rex."]}
    with Memory(path, embedder=False, extractor=Says("old", old)) as memory:
        memory.add([*said("I like tea. I row."), *said("My dog is Rex.")], user_id="u")
        memory.delete(ids(memory)["Ana likes tea."])  # its message goes with it
    with opened(path) as memory:
        memory.reextract()
        assert texts(memory) == ["Ana rows.", "Ana's dog is Rex.", "Rex is a dog."]


@pytest.mark.parametrize("made", [["Ana likes tea.", "Ana does like tea."], ["Ana likes tea and coffee."]])
def test_nothing_of_a_message_comes_back_whose_fact_was_archived(path: Path, made: list[str]) -> None:
    with relearn(path, BOTH, [TEA, COFFEE], made) as memory:
        memory.archive(ids(memory)[TEA])
        memory.reextract()
        assert texts(memory) == [COFFEE]


def test_what_one_model_does_not_find_another_may(path: Path, batches: dict[str, str]) -> None:
    with opened(path, Says("bad", {})) as memory:
        memory.reextract()
        assert texts(memory) == []
    with opened(path) as memory:
        memory.reextract()
        assert texts(memory) == AFTER


def test_what_one_run_added_another_may_archive(path: Path, batches: dict[str, str]) -> None:
    with opened(path) as memory:
        memory.reextract()
    with opened(path, Says("third", OLD)) as memory:
        memory.reextract()
        assert "Rex is a dog." not in texts(memory)


def test_an_archived_fact_that_two_batches_say_stays_archived(path: Path) -> None:
    answers = {"I like tea.": [TEA], "Yes, I like tea.": [TEA]}
    with opened(path, Says("old", answers)) as memory:
        for text in answers:
            memory.add(said(text), user_id="u")
        memory.archive(ids(memory)[TEA])
    with opened(path, new(answers)) as memory:
        memory.reextract()
        assert texts(memory) == []


def test_a_fact_that_another_batch_says_keeps_its_words(path: Path) -> None:
    answers = {"I like hot tea.": [TEA], "Yes, I like tea.": [TEA]}
    with opened(path, Says("old", answers)) as memory:
        first = memory.add(said("I like hot tea."), user_id="u").batch
        memory.add(said("Yes, I like tea."), user_id="u")
    with opened(path, new({**answers, "I like hot tea.": ["Ana likes hot tea."]})) as memory:
        memory.reextract()
        memory.undo(first)
        assert not any("hot" in text for text in texts(memory))


def test_undone_and_redone_a_fact_and_its_new_twin_are_both_there(path: Path) -> None:
    with relearn(path, BOTH, [COFFEE], [TEA, COFFEE]) as memory:
        (batch,) = memory.reextract().batches
        assert texts(memory) == [COFFEE, TEA]
        back = memory.undo(batch)
        assert texts(memory) == [COFFEE]
        memory.undo(back.batch)
        assert texts(memory) == [COFFEE, TEA]


def test_words_that_two_facts_exchanged_are_given_back(path: Path) -> None:
    with relearn(path, "I like tea a lot and I like coffee.", [COFFEE, TEA], ["Ana likes tea a lot.", TEA]) as memory:
        (batch,) = memory.reextract().batches
        memory.undo(batch)
        assert texts(memory) == [COFFEE, TEA]


def test_a_fact_is_gone_when_all_that_said_it_is_undone(path: Path) -> None:
    with opened(path, Says("old", {"I like tea.": [TEA]})) as memory:
        adds = [memory.add(said(text), user_id="u").batch for text in ("I like tea.", "Yes, I like tea.")]
    with opened(path, new({"I like tea.": [TEA], "Yes, I like tea.": [TEA]})) as memory:
        memory.reextract()
        for batch in adds:
            memory.undo(batch)
        assert texts(memory) == []


def test_a_time_to_live_is_no_change_by_hand(path: Path, batches: dict[str, str]) -> None:
    with opened(path) as memory:
        memory.set_ttl(365, user_id="u", existing=True)
        memory.reextract()
        assert texts(memory) == AFTER


def test_a_limit_counts_what_was_extracted(path: Path, batches: dict[str, str]) -> None:
    extractor = new()
    extractor.fails = {"I like tea."}
    with opened(path, extractor) as memory:
        first = memory.reextract(limit=1)
        assert (first.extracted, first.waiting) == (1, 1)
        assert memory.reextract(limit=1).extracted == 1
        done = memory.reextract(limit=1)
        assert (done.extracted, done.waiting, len(done.failures)) == (0, 0, 1)
        assert "Rex is a dog." in texts(memory)


def test_two_runs_at_once_change_the_facts_once(path: Path, batches: dict[str, str]) -> None:
    class Slow(Says):
        def extract(self, request: ExtractionRequest) -> Extraction:
            if not self.asked:
                with opened(path) as other:
                    other.undo(*other.reextract().batches)
            return super().extract(request)

    with opened(path, Slow("new", NEW)) as memory:
        assert memory.reextract().batches == ()
        assert texts(memory) == BEFORE


def test_the_sources_of_new_words_are_sources_of_the_fact(path: Path) -> None:
    class Both(Says):
        def extract(self, request: ExtractionRequest) -> Extraction:
            numbers = tuple(turn.number for turn in request.messages)
            return Extraction((ExtractedFact("Ana likes tea from Porto.", "Ana", numbers, confidence=0.9),))

    with opened(path, Says("old", {"I like tea.": [TEA]})) as memory:
        added = memory.add([*said("I like tea."), *said("It is from Porto.")], user_id="u")
    with opened(path, Both("new", {})) as memory:
        memory.reextract()
        assert texts(memory) == ["Ana likes tea from Porto."]
        memory.delete(added.messages[1])
        assert texts(memory) == []  # it drew on that message


def test_another_users_answer_does_not_make_a_receipt_unclean(path: Path) -> None:
    text = "I like jasmine tea very much."
    with opened(path, Says("old", {text: ["Ana likes jasmine tea."]})) as memory:
        for _ in range(2):
            memory.add(said(text), user_id="v")
    with opened(path, new({text: ["Ana likes jasmine tea very much."]})) as memory:
        memory.reextract(limit=1)
        (fact,) = memory.remember("Ana likes jasmine tea very much.", user_id="u").facts
        assert memory.delete(fact.id).clean
