"""delete() and delete_all(): gone means that the bytes are in no file."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import pytest

from memlite import (
    ExtractedFact,
    Extraction,
    ExtractionError,
    ExtractionRequest,
    Fact,
    InvalidInputError,
    Memory,
    NamedEntity,
    NotFoundError,
    history,
    messages,
    vectors,
)
from memlite.embed import normalise, pack
from memlite.quantisation import quantised

# Its beginning is shared with no other word here: the index stores a word without what it shares with the one before.
CANARY = "Xyzzyquorvandrak"
MARK = b"quorvandrak"


class Distinct:
    """An embedder that gives every text a vector of its own, found again in a file by its bytes."""

    name = "distinct"
    dimension = 32

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1 + byte / 7 for byte in sha256(text.encode()).digest()] for text in texts]


class Echo:
    """An extractor whose facts are the messages themselves; the canary is an entity wherever it stands."""

    name = "echo"
    prompt_version = "1"
    fails = False

    def extract(self, request: ExtractionRequest) -> Extraction:
        if self.fails:
            raise ExtractionError("no JSON in: " + request.messages[0].text)
        return Extraction(
            tuple(
                ExtractedFact(
                    turn.text,
                    turn.speaker,
                    (turn.number,),
                    entities=(NamedEntity(CANARY, "person"),) if CANARY in turn.text else (),
                )
                for turn in request.messages
            )
        )


@pytest.fixture
def memory(path: Path) -> Iterator[Memory]:
    with Memory(path, embedder=Distinct(), extractor=Echo()) as opened:
        opened.remember([f"Note {n} about the garden." for n in range(40)], user_id="other")
        yield opened


def files(memory: Memory) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in memory.path.parent.iterdir() if file.is_file()}


def places_with_the_canary(memory: Memory) -> list[str]:
    return [name for name, data in files(memory).items() if MARK in data.lower()]


def vector_bytes(text: str) -> bytes:
    return quantised(pack(normalise(Distinct().embed([text])[0])))


def places_with_the_vector(memory: Memory, text: str) -> list[str]:
    """The files that hold any eight neighbouring numbers of a text's vector."""
    vector = vector_bytes(text)
    pieces = [vector[i : i + 8] for i in range(0, len(vector), 8)]
    return [name for name, data in files(memory).items() if any(piece in data for piece in pieces)]


def count(memory: Memory, table: str) -> int:
    db = sqlite3.connect(memory.path)
    (found,) = db.execute(f"SELECT count(*) FROM {table}").fetchone()
    db.close()
    return int(found)


def test_a_vectors_bytes_are_found_while_it_is_there(memory: Memory) -> None:
    text = f"{CANARY} likes tea."
    memory.remember(text, user_id="u")
    assert places_with_the_vector(memory, text)
    assert places_with_the_canary(memory)


# Every way a word can have come in.


def remembered(memory: Memory) -> list[str]:
    text = f"{CANARY} likes tea."
    memory.remember({"text": text, "by": CANARY, "kind": CANARY, "metadata": {"who": CANARY}}, user_id="u")
    return [text, CANARY]


def learnt(memory: Memory) -> list[str]:
    text = f"{CANARY} likes tea."
    memory.add(
        {"name": CANARY, "content": text, "id": CANARY},
        user_id="u",
        instructions=f"Watch {CANARY}.",
        metadata={"who": CANARY},
    )
    return [text, f"{CANARY}: {text}", CANARY]


def learnt_as_a_kind(memory: Memory) -> list[str]:
    memory.add("She likes tea.", user_id="u", kind=f"about {CANARY}")
    return []


def queued(memory: Memory) -> list[str]:
    text = f"{CANARY} likes tea."
    memory.add(text, user_id="u", extract="later", instructions=f"Watch {CANARY}.", metadata={"who": CANARY})
    memory._semantic.catch_up("message")
    return [text]


def failed(memory: Memory) -> list[str]:
    text = f"{CANARY} likes tea."
    memory._extractor.fails = True  # type: ignore[union-attr]
    assert CANARY in str(memory.add(text, user_id="u").reason)
    return [text]


def stored_only(memory: Memory) -> list[str]:
    text = f"{CANARY} 喝绿茶。"
    memory.add([{"role": "tool", "content": text}], user_id="u", extract="never")
    return [text]


def updated_away(memory: Memory) -> list[str]:
    texts = [f"{CANARY} likes tea.", f"{CANARY} likes coffee."]
    (fact,) = memory.remember(texts[0], user_id="u", metadata={"who": CANARY}).facts
    memory.update(fact.id, text=texts[1], metadata={})
    memory.update(fact.id, text="Somebody likes water.")
    return [*texts, CANARY]


def replaced(memory: Memory) -> list[str]:
    texts = [f"{CANARY} lives in Porto.", f"{CANARY} lives in Lisbon."]
    (old,) = memory.remember(texts[0], user_id="u", observed_at="2020-01-01").facts
    memory.remember({"text": texts[1], "replaces": old.id}, user_id="u")
    return [*texts, CANARY]


def expired(memory: Memory) -> list[str]:
    text = f"{CANARY} likes tea."
    memory.remember(text, user_id="u", expires_at="2001-01-01")
    memory.remember(text, user_id="u")
    return [text, CANARY]


def in_many_runs(memory: Memory) -> list[str]:
    text = f"{CANARY} likes tea."
    for n in range(30):
        memory.add([text, f"Reply {n}."], user_id="u", agent_id=f"a{n % 3}", run_id=f"r{n}")
    return [text, CANARY]


WAYS = [
    remembered,
    learnt,
    learnt_as_a_kind,
    queued,
    failed,
    stored_only,
    updated_away,
    replaced,
    expired,
    in_many_runs,
]


@pytest.mark.parametrize("closed", [False, True], ids=["open", "closed"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_after_delete_all_no_file_holds_a_word_or_a_vector_of_it(memory: Memory, way: Any, closed: bool) -> None:
    texts = way(memory)
    assert places_with_the_canary(memory)
    receipt = memory.delete_all(user_id="u")
    assert receipt.wal_truncated
    assert receipt.clean
    assert sum(place.before or 0 for place in receipt.checked)
    if closed:
        memory.close()
    assert places_with_the_canary(memory) == []
    assert [text for text in texts if places_with_the_vector(memory, text)] == []


@pytest.mark.parametrize(
    "way",
    [remembered, learnt, learnt_as_a_kind, queued, failed, stored_only, updated_away],
    ids=lambda way: way.__name__,
)
def test_after_deleting_its_fact_or_message_no_file_holds_a_word_or_a_vector_of_it(memory: Memory, way: Any) -> None:
    texts = way(memory)
    facts = [fact.id for fact in memory.get_all(user_id="u")]
    hits = [hit.id for hit in memory.search(CANARY, user_id="u", include=("messages",))]
    memory.delete((facts or hits)[0])
    assert places_with_the_canary(memory) == []
    assert [text for text in texts if places_with_the_vector(memory, text)] == []


def test_an_updated_texts_old_vector_and_words_go_with_the_fact_only(memory: Memory) -> None:
    text = f"{CANARY} likes tea."
    (fact,) = memory.remember(text, user_id="u").facts
    memory.update(fact.id, text="Somebody likes water.")
    assert places_with_the_canary(memory)
    receipt = memory.delete(fact.id)
    assert receipt.versions == 1
    assert places_with_the_vector(memory, text) == []


def test_reembedding_and_compacting_leaves_nothing_of_the_old_vectors(memory: Memory) -> None:
    class Other(Distinct):
        name = "other"

        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            return [numbers[::-1] for numbers in super().embed(texts)]

    text = f"{CANARY} likes tea."
    memory.remember(text, user_id="u")
    memory.close()
    with Memory(memory.path, embedder=Other(), extractor=False) as again:
        again.reembed()
        again.compact()
    assert places_with_the_vector(memory, text) == []


def test_a_deletion_takes_the_vectors_of_every_generation(memory: Memory) -> None:
    text = f"{CANARY} likes tea."
    (fact,) = memory.remember(text, user_id="u").facts
    memory.reembed()
    receipt = memory.delete(fact.id)
    assert receipt.clean
    places = {place.name: place for place in receipt.checked}
    assert places["fact_vectors"].before == 2
    assert places_with_the_vector(memory, text) == []


# What goes and what stays.


def test_a_fact_takes_its_messages_with_it(memory: Memory) -> None:
    added = memory.add("Ana likes tea.", user_id="u")
    receipt = memory.delete(added.facts[0].id)
    assert receipt.facts == (added.facts[0].id,)
    assert receipt.messages == added.messages
    assert count(memory, "messages") == 0


def test_a_facts_messages_are_kept_on_demand(memory: Memory) -> None:
    added = memory.add("Ana likes tea.", user_id="u")
    receipt = memory.delete(added.facts[0].id, keep_messages=True)
    assert receipt.messages == ()
    assert not memory.search("Ana tea", user_id="u")
    assert [hit.kind for hit in memory.search("Ana tea", user_id="u", past=True)] == ["message"]


def test_other_facts_of_a_deleted_message_keep_their_text(memory: Memory) -> None:
    message = memory.add("Ana likes tea and Ben likes coffee.", user_id="u", extract="never").messages[0]
    tea, coffee = memory.remember(
        [{"text": "Ana likes tea.", "source": message}, {"text": "Ben likes coffee.", "source": message}], user_id="u"
    ).facts
    memory.delete(tea.id)
    kept = memory.get(coffee.id)
    assert isinstance(kept, Fact)
    assert (kept.text, kept.sources) == ("Ben likes coffee.", ())


def test_a_message_takes_the_facts_that_have_no_other_source(memory: Memory) -> None:
    one = memory.add("Ana likes tea.", user_id="u").messages[0]
    memory.add("Ana likes tea.", user_id="u")
    both = memory.get_all(user_id="u")[0]
    alone = memory.remember({"text": "Ana drinks.", "source": one}, user_id="u").facts[0]
    receipt = memory.delete(one)
    assert receipt.facts == (alone.id,)
    assert receipt.messages == (one,)
    assert memory.get(both.id)


def test_the_preview_lists_what_the_deletion_takes(memory: Memory) -> None:
    added = memory.add("Ana likes tea.", user_id="u")
    preview = memory.preview_delete(added.facts[0].id)
    assert [fact.id for fact in preview.facts] == [added.facts[0].id]
    assert [message.id for message in preview.messages] == list(added.messages)
    assert memory.preview_delete(added.facts[0].id, keep_messages=True).messages == ()
    receipt = memory.delete(added.facts[0].id)
    assert (receipt.facts, receipt.messages) == ((preview.facts[0].id,), added.messages)


def test_a_deleted_queued_message_is_never_extracted(memory: Memory) -> None:
    added = memory.add("Ana likes tea.", user_id="u", extract="later")
    memory.delete(added.messages[0])
    assert memory.stats().queued == ()
    assert memory.work().facts == 0


def test_a_deleted_fact_may_be_learnt_again(memory: Memory) -> None:
    memory.delete(memory.add("Ana likes tea.", user_id="u").facts[0].id)
    assert memory.add("Ana likes tea.", user_id="u").facts


def test_a_replaced_facts_deletion_leaves_the_new_one(memory: Memory) -> None:
    old = memory.remember("Ana lives in Porto.", user_id="u", observed_at="2020-01-01").facts[0]
    new = memory.remember({"text": "Ana lives in Lisbon.", "replaces": old.id}, user_id="u").facts[0]
    memory.delete(old.id)
    assert memory.get(new.id)
    assert count(memory, "links") == 0


def test_delete_all_takes_a_scope_and_leaves_the_rest(memory: Memory) -> None:
    memory.add("Ana likes tea.", user_id="u", run_id="r1")
    memory.add("Ben likes coffee.", user_id="u", run_id="r2")
    memory.add("Cleo likes water.", user_id="v", run_id="r1")
    receipt = memory.delete_all(user_id="u", run_id="r1")
    assert (len(receipt.facts), len(receipt.messages)) == (1, 1)
    assert {fact.text for fact in memory.get_all(user_id="u")} == {"Ben likes coffee."}
    memory.delete_all(user_id="u")
    assert len(memory.get_all(user_id="v")) == 1
    assert len(memory.get_all(user_id="other")) == 40


def test_delete_all_of_nobody_deletes_nothing(memory: Memory) -> None:
    receipt = memory.delete_all(user_id="nobody")
    assert (receipt.facts, receipt.messages, receipt.entities) == ((), (), 0)


def test_delete_all_needs_a_scope(memory: Memory) -> None:
    with pytest.raises(InvalidInputError):
        memory.delete_all()


def test_the_receipt_counts_versions_and_entities(memory: Memory) -> None:
    (fact,) = memory.remember({"text": "Ana met Ben.", "entities": ["Ana", "Ben"]}, user_id="u").facts
    memory.update(fact.id, text="Ana met Ben again.")
    receipt = memory.delete(fact.id)
    assert (receipt.versions, receipt.entities) == (1, 2)


@pytest.mark.parametrize(
    ("place", "culprit"),
    [("fact_vectors", (vectors, "delete")), ("events", (history, "blank")), ("messages", (messages, "delete"))],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_receipt_tells_what_was_left(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, place: str, culprit: tuple[Any, str]
) -> None:
    fact = memory.add(f"{CANARY} likes tea.", user_id="u").facts[0]
    memory.update(fact.id, text=f"{CANARY} likes cake.")
    monkeypatch.setattr(*culprit, lambda *_, **__: None)
    receipt = memory.delete(fact.id)
    assert not receipt.clean
    assert {checked.name for checked in receipt.checked if checked.after} >= {place}


def test_a_receipt_tells_of_bytes_that_were_left(memory: Memory) -> None:
    text = f"{CANARY} likes tea and has never liked anything else as much as that."
    fact = memory.remember(text, user_id="u").facts[0]
    memory._database._writer.execute("PRAGMA secure_delete = OFF")
    receipt = memory.delete(fact.id)
    assert {checked.name for checked in receipt.checked if checked.after} == {"file"}
    assert not receipt.clean


def test_what_others_still_say_is_no_trace(memory: Memory) -> None:
    text = "The garden gate is green and it squeaks in the wind at night."
    fact = memory.remember(text, user_id="u").facts[0]
    memory.remember(text, user_id="other")
    assert memory.delete(fact.id).clean


def test_metadata_that_another_program_wrote_goes_with_its_fact(memory: Memory, path: Path) -> None:
    facts = memory.remember(["Ana likes tea.", "Bo rows."], user_id="u").facts
    other = apsw.Connection(str(path))
    other.execute("UPDATE facts SET metadata = ?", ('{"half": "\\ud800", "n": 0.30000000000000004, "n": true}',))
    other.close()
    members = {each.name: each for each in memory.delete(facts[0].id).checked}["fact_metadata"]
    assert (members.before, members.after) == (3, 0)


def test_what_stands_in_metadata_is_no_trace(memory: Memory) -> None:
    fact = memory.remember("The garden gate squeaks.", user_id="u").facts[0]
    memory.remember("Ben likes tea.", user_id="u", metadata={"note": "The garden gate squeaks."})
    assert memory.delete(fact.id).clean


def test_a_long_text_is_searched_for_in_pieces(memory: Memory) -> None:
    text = " ".join(f"{CANARY} knows the word {number}." for number in range(2000))
    receipt = memory.delete(memory.add(text, user_id="u", extract="never").messages[0])
    assert receipt.clean
    memory._database._writer.execute("PRAGMA secure_delete = OFF")
    again = memory.add(text, user_id="u", extract="never").messages[0]
    assert not memory.delete(again).clean


def test_an_entity_takes_what_mentions_it(memory: Memory) -> None:
    memory.add([f"{CANARY} likes tea.", "Ben likes cake."], user_id="u")
    memory.add(f"I met {CANARY}'s sister.", user_id="u", run_id="r", extract="never")
    memory.add(f"{CANARY} is my boss.", user_id="v")
    rows = memory.remember(f"{CANARY} rows.", user_id="u").facts[0].id
    memory.update(rows, text="She rows.")
    entity = next(each for each in memory.entities(user_id="u") if each.name == CANARY)
    preview = memory.preview_delete(entity.id[:10])
    receipt = memory.delete(entity.id)
    assert {fact.id for fact in preview.facts} == set(receipt.facts)
    assert sorted(fact.text for fact in memory.get_all(user_id="u")) == ["Ben likes cake.", "She rows."]
    # What only names it is left and told of: a name may be a common word.
    assert [note for note in receipt.notes if "still have the name" in note]
    left = {hit.text for hit in memory.search("sister tea boss", user_id="u", include="messages")}
    assert left == {f"I met {CANARY}'s sister.", "Ben likes cake."}
    assert CANARY not in {each.name for each in memory.entities(user_id="u")}
    assert [fact.text for fact in memory.get_all(user_id="v")] == [f"{CANARY} is my boss."]
    assert len(memory.search("boss", user_id="v", include="messages")) == 1


def test_a_deleted_entity_is_named_in_no_reason(memory: Memory) -> None:
    kept = memory.remember(["Ben likes cake.", "Ben likes planned walks."], user_id="u").facts
    memory.archive(kept[0].id, reason=f"{CANARY.lower()}'s, said Ben")
    memory.archive(kept[1].id, reason="Ben said so")
    memory.add(f"{CANARY} likes tea.", user_id="u")
    receipt = memory.delete(next(each.id for each in memory.entities(user_id="u") if each.name == CANARY))
    assert [note for note in receipt.notes if note.startswith("1 reason(s)")]
    assert [memory.history(fact.id)[-1].reason for fact in kept] == ["", "Ben said so"]
    assert memory.restore(kept[0].id).current
    assert places_with_the_canary(memory) == []


@pytest.mark.parametrize("quoted", [False, True], ids=["as a line", "behind a fact"])
def test_a_message_that_repeats_a_deleted_one_is_told_of(memory: Memory, quoted: bool) -> None:
    said = memory.add({"name": "Ana", "content": "The gate squeaks\nat night."}, user_id="u", extract="never")
    line = "Ana: The gate squeaks at night."
    shown = f"Ana has a gate. (2026-01-02) [{line}]" if quoted else f"{line} (2026-01-02)"
    again = memory.add(f"You know:\n- {shown}", user_id="u", extract="never").messages[0]
    anew = memory.add("Ana: The gate squeaks at night.", user_id="u", extract="never").messages[0]
    repeating, saying = memory.delete(said.messages[0]).notes
    assert repeating.endswith(f": {again}")
    assert anew in saying


def test_an_entitys_messages_are_kept_on_demand(memory: Memory) -> None:
    memory.add(f"{CANARY} likes tea.", user_id="u")
    receipt = memory.delete(memory.entities(user_id="u")[0].id, keep_messages=True)
    assert (len(receipt.facts), receipt.messages) == (1, ())


def test_a_handle_deletes_an_entity_in_its_scope_only(memory: Memory) -> None:
    for run in ("r1", "r2"):
        memory.add(f"{CANARY} likes {run}.", user_id="u", run_id=run)
    shared = memory.search("likes r1", user_id="u", include="messages")[0].id
    cited = (
        memory.remember({"text": f"{CANARY} is fond of r1.", "source": [shared]}, user_id="u", run_id="r2").facts[0].id
    )
    entity = memory.entities(user_id="u")[0].id
    memory.scope(user_id="u", run_id="r1").delete(entity)
    left = sorted(fact.text for fact in memory.get_all(user_id="u"))
    assert left == [f"{CANARY} is fond of r1.", f"{CANARY} likes r2."]
    assert memory.get(cited).sources == ()
    with pytest.raises(NotFoundError):
        memory.scope(user_id="other").delete(entity)


def test_everything_goes(memory: Memory) -> None:
    remembered(memory)
    with pytest.raises(InvalidInputError, match="everything"):
        memory.delete_all(user_id="u", everything=True)
    memory.scope(user_id="u").delete_all(everything=True)
    assert places_with_the_canary(memory) == []
    assert len(memory.preview_delete_all(everything=True).facts) == 40
    assert memory.delete_all(everything=True).clean
    assert count(memory, "facts") == count(memory, "messages") == count(memory, "entities") == 0


def test_everything_takes_the_users_with_it(memory: Memory) -> None:
    memory.remember("Ana likes tea.", user_id=CANARY, agent_id="cook", run_id="r1")
    gone = memory.remember("Ana likes rum.", user_id=CANARY).facts[0].id
    memory.remember("Ben likes tea.", user_id="ben", agent_id="cook")
    receipt = memory.scope(user_id=CANARY).delete_all(everything=True)
    assert receipt.clean
    assert {place.name: place.before for place in receipt.checked}["scopes"] == 3
    assert places_with_the_canary(memory) == []
    assert [hit.text for hit in memory.search("tea", agent_id="cook")] == ["Ben likes tea."]
    assert [event.action for event in memory.history(gone)] == ["ADD", "DELETE"]
    memory.remember("Ana likes gin.", user_id=CANARY)
    assert [fact.text for fact in memory.get_all(user_id=CANARY)] == ["Ana likes gin."]
    assert memory.repair().found == ()
    assert memory.delete_all(everything=True).clean
    assert places_with_the_canary(memory) == []


def test_a_scope_takes_its_ids_with_it_unless_something_else_is_stored_under_them(memory: Memory) -> None:
    memory.remember("Ana likes tea.", user_id=CANARY, run_id="morning")
    memory.remember("Ben likes tea.", user_id="ben", run_id="morning")
    memory.remember("Ben likes rum.", user_id="ben", run_id="evening")
    memory.delete(memory.remember("Ben likes gin.", user_id="ben", run_id=f"{CANARY} night").facts[0].id)
    preview = memory.preview_delete_all(user_id=CANARY)
    receipt = memory.delete_all(user_id=CANARY)
    assert preview.ids == receipt.ids == (f"user_id={CANARY}",)
    assert receipt.notes == ("something else is stored under run_id=morning: not forgotten",)
    assert memory.delete_all(user_id="ben", run_id="evening").ids == ("run_id=evening",)
    assert memory.delete_all(user_id="ben").ids == ("user_id=ben", f"run_id={CANARY} night", "run_id=morning")
    assert places_with_the_canary(memory) == []
    assert {event.scope.user_id for event in memory.history()} >= {"other"}
    assert memory.history(user_id="ben") == []
    assert memory.repair().found == ()


def test_the_last_run_of_a_user_takes_the_user_with_it(memory: Memory) -> None:
    memory.remember("Ana likes tea.", user_id=CANARY, run_id="r1")
    memory.set_ttl(90, user_id=CANARY, run_id="r2")
    assert memory.delete_all(user_id=CANARY, run_id="r1").ids == ("run_id=r1",)
    memory.remember("Ana likes tea.", user_id=CANARY, run_id="r1")
    memory.set_ttl(None, user_id=CANARY, run_id="r2")
    assert memory.delete_all(user_id=CANARY, run_id="r1").ids == (f"user_id={CANARY}", "run_id=r1")
    assert places_with_the_canary(memory) == []
    receipt = memory.delete_all(everything=True)
    assert receipt.ids == ("user_id=other", "run_id=r2")  # and not what stands in the place of those that are gone


def test_a_reset_empties_a_scope_or_everything(memory: Memory) -> None:
    memory.remember("Ana likes tea.", user_id="u")
    assert len(memory.reset(user_id="u").facts) == 1
    with pytest.raises(InvalidInputError):
        memory.reset()
    memory.remember("Ana likes tea.", user_id="u")
    assert len(memory.scope(user_id="u").reset().facts) == 1
    assert len(memory.reset(everything=True).facts) == 40
    assert memory.history() != []


# By a query.


def test_a_query_deletes_what_says_all_of_its_words(memory: Memory) -> None:
    memory.add("Clara works at Feedzai.", user_id="u")
    memory.remember(["Clara likes tea.", "Clara and Ana like tea."], user_id="u")
    assert memory.delete_query("Feedzai nonsense", user_id="u").facts == ()
    assert memory.delete_query("nonsense", user_id="u").facts == memory.delete_query("!?", user_id="u").facts == ()
    assert memory.delete_query("Clara likes tea", user_id="other").facts == ()
    assert memory.delete_query("Clara likes tea", user_id="nobody").facts == ()
    # Forms of a word are one, and "the" does not count.
    receipt = memory.delete_query("the tea that Clara likes", user_id="u")
    assert (len(receipt.facts), receipt.clean) == (2, True)
    receipt = memory.delete_query("Feedzai", user_id="u")
    assert (len(receipt.facts), len(receipt.messages)) == (1, 1)
    assert len(memory.get_all(user_id="u")) == 0


def test_a_preview_says_what_a_query_takes_and_by_which_words(memory: Memory) -> None:
    ids = [memory.remember(text, user_id="u").facts[0].id for text in ("Ana likes tea.", "Ana likes rum.")]
    preview = memory.preview_delete_query("Ana tea Porto Faro", user_id="u", floor=0.5)
    matching = preview.matching
    assert matching is not None
    assert [(each.id, each.words, each.share) for each in matching.matched] == [(ids[0], ("Ana", "tea"), 0.5)]
    assert [(each.id, each.words, each.share) for each in matching.below] == [(ids[1], ("Ana",), 0.25)]
    assert [fact.id for fact in preview.facts] == [ids[0]]
    assert memory.preview_delete(ids[0]).matching is None
    assert len(memory.get_all(user_id="u")) == 2
    assert len(memory.delete_query("Ana tea Porto Faro", user_id="u", floor=0).facts) == 2


def test_a_query_takes_no_more_than_its_limit_and_says_so(memory: Memory) -> None:
    memory.remember([f"Ana likes tea number {n}." for n in range(12)], user_id="u")
    preview = memory.preview_delete_query("tea", user_id="u")
    assert preview.matching
    assert (len(preview.matching.matched), preview.matching.more) == (10, 2)
    receipt = memory.delete_query("tea", user_id="u")
    assert len(receipt.facts) == 10
    assert [note for note in receipt.notes if note.startswith("2 more")]
    assert len(memory.delete_query("tea", user_id="u", limit=1).facts) == 1


def test_a_query_takes_every_copy_and_past_facts_but_what_is_put_away_stays(memory: Memory) -> None:
    for run in ("r1", "r2"):
        memory.remember("Ana lives in Porto.", user_id="u", run_id=run, observed_at="2020-01-01")
    old = memory.get_all(user_id="u", run_id="r1")[0].id
    memory.remember({"text": "Ana lives in Faro.", "replaces": old}, user_id="u", run_id="r1")
    hidden = memory.remember("Porto is hilly.", user_id="u").facts[0].id
    memory.archive(hidden)
    assert len(memory.delete_query("Porto", user_id="u").facts) == 2
    assert [fact.text for fact in memory.get_all(user_id="u", past=True)] == ["Ana lives in Faro."]
    assert memory.get(hidden)


def test_a_query_takes_messages_too_and_leaves_them_on_demand(memory: Memory) -> None:
    added = memory.add("Ana likes tea.", user_id="u")
    said = memory.add("Green tea, please.", user_id="u", extract="never").messages
    receipt = memory.delete_query("tea", user_id="u", keep_messages=True)
    assert (len(receipt.facts), receipt.messages) == (1, said)  # the other one is of a fact
    assert memory.get(added.messages[0])


@pytest.mark.parametrize("wrong", [{"floor": 1.5}, {"limit": 0}, {"query": 7}])
def test_a_query_that_cannot_be_is_refused(memory: Memory, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        memory.delete_query(**{"query": "tea", "user_id": "u", **wrong})


RUNS = int(os.environ.get("MEMLITE_RUNS", "25"))  # 1,000 where the claim is checked


def test_any_run_of_changes_is_deleted_whole(path: Path) -> None:
    """Facts and messages are added, changed, replaced, archived, undone, and then deleted one way or the other."""
    with Memory(path, embedder=Distinct(), extractor=Echo()) as memory:
        for seed in range(RUNS):
            chance = random.Random(seed)
            for number in range(chance.randint(1, 6)):
                change_something(memory, chance, f"{CANARY} notes number {seed}.{number} with {chance.random()}.")
            ids = [fact.id for fact in memory.get_all(user_id="u", past=True)]
            some = chance.sample(ids, min(len(ids), chance.randint(0, 3)))
            receipts = [memory.delete(id_) for id_ in some if is_there(memory, id_)]
            receipts.append(memory.delete_all(user_id="u"))
            assert [receipt for receipt in receipts if not receipt.clean] == [], seed
            assert places_with_the_canary(memory) == [], seed


def change_something(memory: Memory, chance: random.Random, text: str) -> None:
    facts = memory.get_all(user_id="u", past=True).facts
    known = chance.choice(facts).id if facts else None
    way = chance.randrange(7)
    if way == 0 or known is None:
        memory.add([text, f"Also: {text}"], user_id="u", run_id=chance.choice((None, "r1", "r2")))
    elif way == 1:
        memory.remember({"text": text, "replaces": known}, user_id="u")
    elif way == 2:
        memory.update(known, text=text)
    elif way == 3:
        memory.archive(known, reason=text)
    elif way == 4:
        memory.undo(memory.add(text, user_id="u").batch)
    elif way == 5:
        memory.add(text, user_id="u", extract="later", instructions=text)
    else:
        memory.undo(memory.undo(memory.remember(text, user_id="u").batch).batch)


def is_there(memory: Memory, id_: str) -> bool:
    try:
        memory.get(id_)
    except NotFoundError:
        return False
    return True


@pytest.mark.parametrize("id_", ["0123456789abcdef", "ffff"])
def test_what_is_not_there_cannot_be_deleted(memory: Memory, id_: str) -> None:
    with pytest.raises(NotFoundError):
        memory.delete(id_)


def test_what_was_deleted_cannot_be_deleted_again(memory: Memory) -> None:
    (fact,) = memory.remember("Ana likes tea.", user_id="u").facts
    memory.delete(fact.id)
    with pytest.raises(NotFoundError):
        memory.delete(fact.id)


def test_events_remain_without_words(memory: Memory) -> None:
    (fact,) = memory.remember(f"{CANARY} likes tea.", user_id="u").facts
    memory.update(fact.id, text=f"{CANARY} likes coffee.")
    memory.delete(fact.id)
    events = memory.history(fact.id)
    assert [event.action for event in events] == ["ADD", "UPDATE", "DELETE"]
    assert all((event.before, event.after, event.reason) == (None, None, "") for event in events)
    assert [event.scope.user_id for event in events] == ["u"] * 3


def test_a_deletion_is_whole_or_not_at_all(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    added = memory.add("Ana likes tea.", user_id="u")

    def fail(*_: object) -> None:
        raise RuntimeError("power cut")

    monkeypatch.setattr("memlite.messages.delete", fail)
    with pytest.raises(RuntimeError):
        memory.delete(added.facts[0].id)
    assert memory.get(added.facts[0].id) == added.facts[0]
    assert [hit.kind for hit in memory.search("Ana tea", user_id="u")] == ["fact"]
    assert [event.action for event in memory.history(added.facts[0].id)] == ["ADD"]


def test_a_reader_that_holds_the_log_is_reported(memory: Memory) -> None:
    (fact,) = memory.remember(f"{CANARY} likes tea.", user_id="u").facts
    reader = apsw.Connection(str(memory.path))
    reader.execute("BEGIN; SELECT count(*) FROM facts").fetchall()
    receipt = memory.delete(fact.id)
    assert not receipt.wal_truncated
    assert any("write-ahead log" in note for note in receipt.notes)
    reader.execute("COMMIT")
    reader.close()
    memory.compact()
    assert places_with_the_canary(memory) == []


def test_what_is_deleted_while_the_model_runs_is_not_learnt(path: Path) -> None:
    class Deleting(Echo):
        def extract(self, request: ExtractionRequest) -> Extraction:
            memory.delete_all(user_id="u")
            return super().extract(request)

    with Memory(path, embedder=Distinct(), extractor=Deleting()) as memory:
        result = memory.add(f"{CANARY} likes tea.", user_id="u")
        assert result.facts == ()
        assert memory.stats().facts == memory.stats().messages == 0
        memory.add(f"{CANARY} likes tea.", user_id="u", extract="later")
        assert memory.work().facts == 0
        assert places_with_the_canary(memory) == []


def test_one_deleted_message_of_a_batch_in_flight_brings_no_fact(path: Path) -> None:
    class Deleting(Echo):
        def extract(self, request: ExtractionRequest) -> Extraction:
            memory.delete(memory.search(CANARY, user_id="u", include="messages")[0].id)
            return super().extract(request)

    with Memory(path, embedder=Distinct(), extractor=Deleting()) as memory:
        result = memory.add([f"{CANARY} likes tea.", "Ben likes coffee."], user_id="u")
        assert [fact.text for fact in result.facts] == ["Ben likes coffee."]
        assert places_with_the_canary(memory) == []


def test_a_receipt_names_nothing_of_another_user(memory: Memory) -> None:
    fact = memory.remember("Ana likes zebra tea.", user_id="u").facts[0]
    memory.add("I like zebra tea.", user_id="v", extract="never")
    mine = memory.add("I like zebra tea.", user_id="u", agent_id="cook", extract="never").messages[0]
    (note,) = memory.delete(fact.id).notes
    assert note.startswith("1 fact(s) or message(s)")
    assert mine in note
