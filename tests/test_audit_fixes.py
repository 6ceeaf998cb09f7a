"""audit() and fix(): entities, secrets and what is derived; scopes, single findings, and the command line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlite import AsyncMemory, Audit, Finding, InvalidInputError, Memory, NotFoundError
from tests.conftest import Echo
from tests.test_audit import dump, fixes_and_undoes, found, remember, texts
from tests.test_cli import Run, lines, run, value  # noqa: F401  # run is a fixture

KEY = "sk-proj-abc123DEF456ghi789JKL012mno345"


# Entities.


def person(name: str, *others: str) -> dict[str, Any]:
    return {"entities": [{"name": name, "type": "person"}, *({"name": each, "type": "place"} for each in others)]}


ALIKE = {
    "accents": ("Müller AG makes pumps.", "Mueller AG sells pumps."),
    "marks": ("Node.js is old.", "The user likes NodeJS."),
    "a form": ("Feedzai grows.", "Ana left Feedzai Lda."),
    "an initial": ("Ana Silva lives in Porto.", {"text": "A. Silva is a nurse.", "entities": ["A. Silva"]}),
    "a middle initial": ("Ana Silva lives in Porto.", "Ana M. Silva is a nurse."),
    "a surname": ("Ana Silva works at Feedzai.", "Ana likes the people at Feedzai."),
    "a letter": ("Catarina works at Feedzai.", "Cattarina left Feedzai."),
    "what a fact says": ("Ana Silva is also known as Ana.", "Ana lives in Porto."),
}


@pytest.mark.parametrize("case", ALIKE)
def test_entities_that_look_like_one_are_suggested_and_merged_only_when_asked(memory: Memory, case: str) -> None:
    memory.remember(ALIKE[case], user_id="u")
    (finding,) = memory.audit("entities")
    memory.fix(["near-duplicates", "contradictions", "secrets", "vectors"])
    assert len(memory.audit("entities")) == 1
    fixes_and_undoes(memory, finding.id)
    memory.fix("entities")
    names = {entity.id: entity for entity in memory.entities(user_id="u")}
    assert finding.entities[1] not in names
    assert finding.texts[1] in names[finding.entities[0]].aliases
    assert names[finding.entities[0]].facts >= 2


@pytest.mark.parametrize(
    "said",
    [
        ("Ana Silva works at Feedzai.", "Ana Costa works at Feedzai.", "Ana left Feedzai."),
        ("Ana Silva left.", "Antonio Silva left.", {"text": "A. Silva left.", "entities": ["A. Silva"]}),
        ("Ana Silva works at Feedzai.", "Ana lives in Porto."),
        ("Ana Silva works at Feedzai.", "Ana met Ana Silva at Feedzai."),
        ("Porto Alegre is in Brazil.", "Porto is not in Brazil."),
        ("Martina works at Feedzai.", "Martino works at Feedzai."),
        ("Danielle works at Feedzai.", "Daniele works at Feedzai.", "Danielle left.", "Daniele left."),
        ("Ana uses iPhone 14.", "Ana used iPhone 15."),
        ("Ana likes C++.", "Ana dislikes C#."),
        ("Mr. Silva is ill.", "Mrs. Silva is ill."),
        ("Ana Silva lives in Porto and works at Feedzai.", "Ana Sá works at Feedzai."),
    ],
)
def test_entities_that_may_be_two_are_not_suggested(memory: Memory, said: tuple[Any, ...]) -> None:
    memory.remember(said, user_id="u")
    assert found(memory, "entities") == []


def test_two_types_of_one_name_are_two(memory: Memory) -> None:
    remember(memory, "Mercury is hot.", entities=[{"name": "Mercury", "type": "place"}])
    remember(memory, "Mercury sang.", entities=[{"name": "Mercury", "type": "person"}])
    remember(memory, "Ana Silva works at Feedzai.", **person("Ana Silva", "Feedzai"))
    remember(memory, "Ana is a boat of Feedzai.", entities=[{"name": "Ana", "type": "product"}, "Feedzai"])
    assert found(memory, "entities") == []


def test_a_merged_entity_is_found_by_both_names_and_goes_on_so(memory: Memory) -> None:
    memory.remember(ALIKE["a surname"], user_id="u")
    memory.fix("entities")
    remember(memory, "Ana sings.")
    remember(memory, "Ana swims.", **person("Ana"))
    ana = next(entity for entity in memory.entities(user_id="u") if entity.name == "Ana Silva")
    assert (ana.facts, ana.aliases, ana.type) == (4, ("Ana",), "person")
    hits = memory.search("Ana Silva", user_id="u", explain=True)
    assert {hit.text for hit in hits if hit.explain and hit.explain.entity > 0} == set(texts(memory))


def test_no_name_of_a_merged_entity_outlives_the_facts_that_say_it(memory: Memory) -> None:
    remember(memory, "Bartholomew Quux works at Feedzai.", **person("Bartholomew Quux", "Feedzai"))
    gone = remember(memory, "Bartholomew likes Feedzai.", **person("Bartholomew", "Feedzai"))
    fixed = memory.fix("entities")
    memory.delete(gone)
    assert [entity.aliases for entity in memory.entities(user_id="u") if entity.type == "person"] == [()]
    with memory._database.read() as db:
        assert not list(db.execute("SELECT 1 FROM events WHERE before ->> '$.name' = 'Bartholomew'"))
    memory.undo(fixed.batches[0])
    assert [entity.name for entity in memory.entities(user_id="u") if entity.type == "person"] == ["Bartholomew Quux"]


def test_a_fact_rewritten_since_a_merge_mentions_what_it_says_now(memory: Memory) -> None:
    remember(memory, "Ana Silva works at Feedzai.", **person("Ana Silva", "Feedzai"))
    id_ = remember(memory, "Ana likes Feedzai.", **person("Ana", "Feedzai"))
    fixed = memory.fix("entities")
    memory.update(id_, text="Ben likes Feedzai.")
    memory.undo(fixed.batches[0])
    assert {e.name for e in memory.entities(user_id="u")} == {"Ana Silva", "Feedzai", "Ben"}


# Secrets.


def test_a_secret_is_hidden_with_its_messages_and_never_shown(learning: Memory) -> None:
    added = learning.add([f"My key is {KEY}.", "Ana likes tea."], user_id="u")
    waiting = learning.add(f"Once more: {KEY}", user_id="u", extract="later")
    (finding,) = learning.audit()
    assert (finding.kind, finding.facts) == ("secrets", (added.facts[0].id,))
    assert finding.messages == (added.messages[0], *waiting.messages)
    assert KEY not in repr(finding)
    assert "memlite delete" in finding.why
    fixes_and_undoes(learning, "secrets")
    fixed = learning.fix("secrets")
    assert texts(learning) == ["Ana likes tea."]
    assert not learning.search("key", user_id="u", include="messages")
    assert "fix hid it" in learning.why(added.messages[0], "key", user_id="u").reason
    assert learning.work().facts == 0  # what is hidden is not learnt either
    learning.undo(fixed.batches[0])
    assert learning.search("key", user_id="u", include="messages")


def test_a_hidden_message_stays_so_when_its_own_add_is_undone_and_redone(learning: Memory) -> None:
    added = learning.add([f"My key is {KEY}.", "Ana likes tea."], user_id="u")
    fixed = learning.fix("secrets")
    undone = learning.undo(added.batch)
    learning.undo(undone.batch)
    assert texts(learning) == ["Ana likes tea."]
    assert len(learning.search("key", user_id="u")) == 0
    undone = learning.undo(added.batch)
    learning.undo(fixed.batches[0])
    assert texts(learning) == []
    assert not learning.search("key tea", user_id="u", past=True)
    learning.undo(undone.batch)
    assert len(texts(learning)) == 2


def test_a_secret_in_an_earlier_text_or_in_metadata_is_told(memory: Memory) -> None:
    id_ = remember(memory, f"The key is {KEY}.")
    memory.update(id_, text="The key is in the safe.")
    (finding,) = memory.audit()
    assert (finding.facts, finding.fix) == ((id_,), "")
    assert memory.fix("secrets").left == (finding,)
    other = remember(memory, "The key is in the drawer.", metadata={"password": "hunter2!"})
    assert {each.facts for each in memory.audit("secrets")} == {(id_,), (other,)}


def test_no_secret_is_shown_by_another_kind(memory: Memory) -> None:
    remember(memory, "Ana's password is hunter2!a")
    remember(memory, "Ana's password is hunter3!b", 2)
    assert {finding.kind for finding in memory.audit()} >= {"secrets"}
    assert "hunter" not in repr(memory.audit())


def test_two_secrets_of_one_message_are_both_put_right(learning: Memory) -> None:
    learning.add("My password is hunter2!x9 and my IBAN is DE89370400440532013000.", user_id="u")
    assert len(learning.audit("secrets")) == 2
    fixed = learning.fix("secrets")
    assert (len(fixed.findings), fixed.left, len(fixed.batches)) == (2, (), 1)
    assert len(learning.audit("secrets")) == 0
    learning.undo(fixed.batches[0])
    assert len(learning.audit("secrets")) == 2


SAID = [
    "Ana wohnt in Köln und mag Käse.",
    "Ana wohnt jetzt in München, nicht mehr in Köln.",
    "Das Passwort für den Router ist Geheim#42x.",
    "Ana habite à Porto, elle n’aime pas le thé.",
    "A Ana não come peixe; vive no Porto.",
    "安娜住在里斯本，喜欢绿茶。",
    "アナはポルトに住んでいます。",
    "아나는 포르투에 산다.",
    "Анна живёт в Москве и не ест рыбу.",
    "تعيش آنا في بورتو ولا تأكل السمك.",
    "अना पोर्टो में रहती है।",
    "แอนาอาศัยอยู่ในปอร์โต",
    "Ana 🐈‍⬛ lives in İstanbul — ǅ, ß, ﬁ.",
    "“”‘’«»()[]{}… ½ ²",
]


def test_other_languages_are_audited_and_fixed_without_a_crash(learning: Memory) -> None:
    for day, text in enumerate(SAID, 1):
        learning.add([{"role": "system", "content": f"Sie sind ein Assistent. {text}"}, text], user_id="u")
        remember(learning, f"{text.upper()} 2", day)
        remember(learning, f"- {text} (2026-01-01, before: {text})", day)
    found_ = learning.audit()
    assert {finding.kind for finding in found_} >= {"secrets"}
    fixed = learning.fix([finding.id for finding in found_])
    for batch in fixed.batches[::-1]:
        learning.undo(batch)
    assert {each.id for each in learning.audit()} == {each.id for each in found_}


# What is derived.


def test_orphans_are_found_and_put_right(learning: Memory) -> None:
    added = learning.add(["Ana works at Feedzai.", "Ben likes tea."], user_id="u")
    with sqlite3.connect(learning.path) as stock:
        stock.execute("DELETE FROM facts WHERE uid = ?", (added.facts[0].id,))
    stock.close()
    assert {finding.kind for finding in learning.audit()} == {"orphans"}
    fixed = learning.fix("orphans")
    assert fixed.batches == ()
    assert "nothing to undo" in fixed.findings[0].fix
    assert len(learning.audit()) == 0
    assert texts(learning) == ["Ben likes tea."]


def test_missing_vectors_and_those_of_another_model_are_made(path: Path) -> None:
    class Small:
        name = "small"
        dimension = 3

        def embed(self, texts: Any) -> list[list[float]]:
            return [[1.0, len(text), text.count("a")] for text in texts]

    with Memory(path, embedder=False, extractor=False) as memory:
        remember(memory, "Ana likes tea.")
        assert len(memory.audit()) == 0  # without an embedder nothing is missing
    with Memory(path, embedder=Small(), extractor=False) as memory:
        assert [finding.kind for finding in memory.audit(user_id="u")] == ["vectors"]
        assert len(memory.audit(user_id="v")) == 0
        assert len(memory.fix("vectors").findings) == 1
        assert len(memory.audit()) == 0
    with Memory(path, extractor=False) as memory:
        (finding,) = memory.audit()
        assert finding.kind == "vectors"
        assert "small" in finding.why
        memory.fix(finding)
        assert len(memory.audit()) == 0
        assert memory.search("tea", user_id="u")


# All kinds.


def test_a_scope_is_audited_by_itself(memory: Memory) -> None:
    for user in ("u", "v"):
        for day, text in enumerate(("Ana lives in Porto.", "Ana lives in Lisbon.", f"The key is {KEY}."), 1):
            remember(memory, text, day, user=user)
        remember(memory, "Ana Sá swims.", user=user)
        remember(memory, "A. Sá sings.", user=user, entities=["A. Sá"])
    remember(memory, "Ana lives in Faro.", 9, user="w")
    assert len(memory.audit()) == 6
    for handle, ids in ((memory, {"user_id": "u"}), (memory.scope(user_id="u"), {})):
        audit = handle.audit(**ids)
        assert sorted(finding.kind for finding in audit) == ["contradictions", "entities", "secrets"]
        assert all(memory.get(id_).scope.user_id == "u" for finding in audit for id_ in finding.facts)
    (other,) = (finding for finding in memory.audit(user_id="v") if finding.kind == "secrets")
    with pytest.raises(NotFoundError):
        memory.scope(user_id="u").fix(other.id)
    fixed = memory.scope(user_id="u").fix(["contradictions", "entities", "secrets"])
    assert len(fixed.findings) == 3
    assert len(memory.audit(user_id="v")) == 3
    for batch in fixed.batches:
        with pytest.raises(NotFoundError):
            memory.scope(user_id="v").undo(batch)
        memory.scope(user_id="u").undo(batch)
    assert len(memory.audit()) == 6
    assert len(memory.audit(user_id="nobody")) == 0


def test_a_fix_of_several_users_is_undone_by_each(memory: Memory) -> None:
    for user in ("u", "v"):
        remember(memory, "Ana lives in Porto.", user=user)
        remember(memory, "Ana lives in Lisbon.", 2, user=user)
    fixed = memory.fix("contradictions")
    assert len(fixed.batches) == 2
    assert sum(len(memory.scope(user_id="u").undo(b).restored) for b in fixed.batches[:1]) == 1
    assert texts(memory) == ["Ana lives in Lisbon.", "Ana lives in Porto."]
    assert len(memory.get_all(user_id="v")) == 1


def test_an_audit_writes_nothing(memory: Memory) -> None:
    remember(memory, "Ana lives in Porto.")
    remember(memory, "Ana lives in Lisbon.", 2)
    with memory._database.read() as db:
        before = db.execute("PRAGMA data_version").get
        rows = db.execute("SELECT count(*) FROM events").get
    audit = memory.audit()
    memory.preview_fix("contradictions")
    with memory._database.read() as db:
        assert db.execute("SELECT count(*) FROM events").get == rows
        assert db.execute("PRAGMA data_version").get == before
    assert isinstance(audit, Audit)
    assert audit[0] == next(iter(audit))
    assert audit[:1] == audit.findings[:1]


def test_what_one_fix_took_another_leaves(memory: Memory) -> None:
    remember(memory, f"The key is {KEY}.")
    remember(memory, f"The key is now {KEY}.", 2)
    fixed = memory.fix(["near-duplicates", "secrets"])
    assert [finding.kind for finding in fixed.findings] == ["secrets"]
    assert [finding.kind for finding in fixed.left] == ["near-duplicates"]
    assert len(fixed.batches) == 1


@pytest.mark.parametrize("what", [(), "nonsense", 7, ["secrets", 7], "dup"])
def test_what_cannot_be_fixed_is_refused(memory: Memory, what: Any) -> None:
    with pytest.raises((InvalidInputError, NotFoundError)):
        memory.fix(what)


def test_kinds_that_are_none_are_refused(memory: Memory) -> None:
    with pytest.raises(InvalidInputError, match="near-duplicates"):
        memory.audit("duplicates")
    with pytest.raises(InvalidInputError, match="whole file"):
        memory.audit("orphans", user_id="u")
    assert "orphans" not in memory.audit(user_id="u").kinds


# The command line.


def test_the_command_shows_and_acts_only_when_told(run: Run, path: Path) -> None:  # noqa: F811
    with Memory(path, embedder=False, extractor=False) as memory:
        remember(memory, "Ana lives in Porto.")
        remember(memory, "Ana lives in Lisbon.", 2)
        remember(memory, f"The key is {KEY}.")
    shown = run("audit")
    assert "contradictions: one home, two values" in shown.stdout
    assert "Ana lives in Porto." in shown.stdout
    assert KEY not in shown.stdout
    assert "1 contradictions, 1 secrets" in shown.stderr
    (finding,) = value(run("audit", "--kind", "contradictions", "--json"))["findings"]
    assert set(finding) == {"id", "kind", "facts", "messages", "entities", "texts", "why", "fix"}
    assert [each["kind"] for each in lines(run("audit", "--nl"))] == ["contradictions", "secrets"]
    preview = run("audit", "--fix", finding["id"][:8])
    assert "add --yes" in preview.stderr
    assert len(value(run("audit", "--json"))["findings"]) == 2
    fixed = value(run("audit", "--fix", "contradictions", "--yes", "--json"))
    assert [each["id"] for each in fixed["findings"]] == [finding["id"]]
    assert json.loads(run("audit", "--json").stdout)["findings"][0]["kind"] == "secrets"
    run("undo", fixed["batches"][0])
    done = run("audit", "--fix", "contradictions", "--fix", "secrets", "--yes")
    assert done.stdout.count("memlite undo") == 2
    assert "nothing found" in run("audit").stderr


def test_the_command_refuses_what_makes_no_sense(run: Run, path: Path) -> None:  # noqa: F811
    run("audit", code=1)  # there is no file
    run("remember", "Ana likes tea.")
    run("audit", "--kind", "duplicates", code=2)
    run("audit", "--yes", code=2)
    run("audit", "--kind", "secrets", "--fix", "secrets", code=2)
    run("audit", "--fix", "nonsense", code=1)
    run("audit", "--kind", "orphans", "--user", "me", code=2)


async def _fixed(path: Path) -> tuple[Finding, ...]:
    async with AsyncMemory(path, embedder=False, extractor=False) as memory:
        return (await memory.fix(await memory.audit("contradictions"))).findings


def test_the_verbs_can_be_awaited(path: Path) -> None:
    with Memory(path, embedder=False, extractor=False) as memory:
        remember(memory, "Ana lives in Porto.")
        remember(memory, "Ana lives in Lisbon.", 2)
    assert len(asyncio.run(_fixed(path))) == 1


# Whatever came before.

SAID = (
    "Ana lives in Porto.",
    "Ana lives in Lisbon.",
    "Ana is living in Porto!",
    "Ana Silva works at Feedzai.",
    "Ana left Feedzai.",
    "I play the violin.",
    "Ana plays the violin.",
    "Ana is playing the violin.",
    "Ana eats fish.",
    "Ana no longer eats fish.",
    "The password is hunter2!x",
    "My password is hunter2!x now.",
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.sampled_from(SAID), min_size=1, max_size=3, unique=True)),
        st.tuples(st.just("fix"), st.sampled_from(("near-duplicates", "contradictions", "entities", "secrets"))),
        st.tuples(st.just("undo"), st.integers(0, 20)),
        st.tuples(st.just("archive"), st.integers(0, 20)),
    ),
    min_size=3,
    max_size=10,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_a_fix_can_be_taken_back_and_done_again_whatever_came_before(steps: list[tuple[str, Any]]) -> None:
    with Memory(":memory:", embedder=False, extractor=Echo()) as memory:
        made: list[str] = []
        for day, (verb, what) in enumerate(steps, 1):
            if verb == "add":
                made.append(memory.add(what, user_id="u", run_id=f"r{day % 2}", observed_at=f"2026-01-{day:02}").batch)
            elif verb == "fix":
                made += memory.fix(what).batches
            elif verb == "archive" and (page := memory.get_all(user_id="u")):
                memory.archive(page[what % len(page)].id)
            elif verb == "undo" and made:
                with contextlib.suppress(InvalidInputError):  # it is undone already
                    made.append(memory.undo(made[what % len(made)]).batch)
        for kind in ("secrets", "near-duplicates", "contradictions", "entities"):
            before = dump(memory)
            for batch in memory.fix(kind).batches:
                after, undone = dump(memory), memory.undo(batch)
                memory.undo(undone.batch)
                assert dump(memory) == after
                memory.undo(batch)
            assert dump(memory) == before
        assert len(memory.audit("orphans")) == 0
