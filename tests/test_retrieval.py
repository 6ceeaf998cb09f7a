"""The measure of search: sets read in both of their forms, the figures, and what a whole run prints."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import Echo

from memlite import Memory, output
from memlite.bench import figures, retrieval, sets
from memlite.cli import main
from memlite.errors import InvalidInputError

TALK = [
    ("D1:1", "Ann", "Hello Bob, how was the weekend?"),
    ("D1:2", "Bob", "I adopted a beagle called Rex at the shelter."),
    ("D1:3", "Ann", "Lovely!"),
    ("D2:1", "Bob", "I started to learn the cello."),
    ("D2:2", "Ann", "My sister plays the flute."),
]
TIMES = {"D1": "2023-05-08T13:56:00", "D2": "2023-06-01T09:05:00"}


def published_locomo() -> list[dict[str, Any]]:
    said = {f"session_{n}": [] for n in (1, 2)}
    for id_, speaker, text in TALK:
        said[f"session_{id_[1]}"].append({"speaker": speaker, "dia_id": id_, "text": text})
    said["session_1"][1]["blip_caption"] = "a photo of a dog"
    return [
        {
            "sample_id": "conv-1",
            "qa": [
                {"question": "Which pet did Bob adopt?", "answer": "a beagle", "evidence": ["D1:2"], "category": 4},
                {"question": "Who plays instruments?", "evidence": ["D2:1; D2:2"], "category": 1},
                {"question": "What is the capital of Peru?", "evidence": [], "category": 3},
            ],
            "conversation": {
                "speaker_a": "Ann",
                "session_1_date_time": "1:56 pm on 8 May, 2023",
                "session_2_date_time": "9:05 am on 1 June, 2023",
                **said,
            },
            "observation": {"session_1_observation": {"Bob": [["Bob adopted a beagle.", "D1:2"]]}},
        }
    ]


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


@pytest.fixture(params=["published", "lines"])
def locomo(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "published":
        path = tmp_path / "locomo10.json"
        path.write_text(json.dumps(published_locomo()), encoding="utf-8")
        return path
    turns = [
        {"conv": "conv-1", "id": id_, "session": int(id_[1]), "time": TIMES[id_[:2]], "speaker": who, "text": text}
        for id_, who, text in TALK
    ]
    turns[1]["image_caption"] = "a photo of a dog"
    write_lines(tmp_path / "turns.jsonl", turns)
    asked = published_locomo()[0]["qa"]
    write_lines(
        tmp_path / "questions.jsonl",
        [
            {
                "qid": f"conv-1_q{n}",
                "conv": "conv-1",
                "category": each["category"],
                "question": each["question"],
                "evidence": " ".join(each["evidence"]).split("; "),
            }
            for n, each in enumerate(asked[:2])
        ],
    )
    told = {"conv": "conv-1", "fact": "Bob adopted a beagle.", "evidence": ["D1:2"], "time": TIMES["D1"]}
    write_lines(tmp_path / "facts.jsonl", [told])
    return tmp_path


def test_locomo_is_read_as_published_and_as_lines(locomo: Path) -> None:
    read = sets.read_locomo(locomo)
    (haystack,) = read.haystacks
    assert [turn.id for turn in haystack.turns] == [id_ for id_, _, _ in TALK]
    assert haystack.turns[1].text.endswith("shelter. a photo of a dog")
    assert {turn.time for turn in haystack.turns} == set(TIMES.values())
    assert [tuple(each) for each in haystack.facts] == [("Bob adopted a beagle.", ["D1:2"], TIMES["D1"])]
    assert [(q.type, sorted(q.turns), sorted(q.sessions)) for q in read.questions] == [
        ("single-hop", ["D1:2"], ["1"]),
        ("multi-hop", ["D2:1", "D2:2"], ["2"]),
    ]


@pytest.mark.parametrize(
    ("evidence", "turns", "unknown"),
    [
        pytest.param(["D2:01"], ["D2:1"], 0, id="a zero"),
        pytest.param(["D1:2; D2:1"], ["D1:2", "D2:1"], 0, id="two in one text"),
        pytest.param(["D1:2 D1:3,D2:1"], ["D1:2", "D1:3", "D2:1"], 0, id="spaces and commas"),
        pytest.param("D1:2", ["D1:2"], 0, id="no list"),
        pytest.param(["D:2:1"], ["D2:1"], 0, id="a colon too many"),
        pytest.param(["D", "D1:2"], ["D1:2"], 1, id="unfinished"),
        pytest.param(["D1:2", "D9:9", "D2:40"], ["D1:2"], 2, id="turns that do not exist"),
        pytest.param(["D1:2-3"], ["D1:2"], 1, id="more behind it"),
        pytest.param(["D2:1", "D2:01"], ["D2:1"], 0, id="twice"),
    ],
)
@pytest.mark.parametrize("form", ["published", "lines"])
def test_the_evidence_of_locomo_is_read_as_it_was_meant_and_what_cannot_be_told_is_counted(
    tmp_path: Path, form: str, evidence: object, turns: list[str], unknown: int
) -> None:
    (told,) = published_locomo()
    told["qa"] = [{"question": "Which?", "evidence": evidence, "category": 4}]
    told["observation"]["session_1_observation"] = {"Bob": [["Bob did.", evidence]]}
    path = tmp_path / "locomo10.json"
    path.write_text(json.dumps([told]), encoding="utf-8")
    if form == "lines":
        path = tmp_path
        turn = {"conv": "c", "speaker": "Ann", "text": "Hello."}
        said = [{**turn, "id": id_, "session": int(id_[1]), "time": TIMES[id_[:2]]} for id_, _, _ in TALK]
        write_lines(path / "turns.jsonl", said)
        asked = {"qid": "q", "conv": "c", "category": 4, "question": "Which?", "evidence": evidence}
        write_lines(path / "questions.jsonl", [asked])
        write_lines(
            path / "facts.jsonl", [{"conv": "c", "fact": "Bob did.", "evidence": evidence, "time": TIMES["D1"]}]
        )
    read = sets.read_locomo(path)
    (question,) = read.questions
    assert sorted(question.turns) == turns
    assert question.sessions == {turn[1] for turn in turns}
    assert read.unknown == unknown
    assert set(read.haystacks[0].facts[0][1]) >= set(turns)
    assert (f"{unknown} id" in run("locomo", path, "--no-vectors")) == bool(unknown)


def test_a_question_whose_evidence_cannot_be_told_is_left_out(tmp_path: Path) -> None:
    told = published_locomo()
    told[0]["qa"] += [{"question": "Which?", "evidence": ["D", "D7:7"], "category": 4}]
    path = tmp_path / "locomo10.json"
    path.write_text(json.dumps(told), encoding="utf-8")
    read = sets.read_locomo(path)
    assert (len(read.questions), read.unknown) == (2, 2)
    assert json.loads(run("locomo", path, "--no-vectors", "--json").splitlines()[0])["unknown_evidence"] == 2


def published_longmemeval() -> list[dict[str, Any]]:
    def asked(id_: str, question: str) -> dict[str, Any]:
        return {
            "question_id": id_,
            "question_type": "single-session-user",
            "question": question,
            "answer": "cello",
            "question_date": "2023/06/30 (Fri) 10:00",
            "haystack_session_ids": ["chat_1", "answer_2"],
            "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/06/21 (Wed) 08:00"],
            "haystack_sessions": [
                [{"role": "user", "content": "How do I bake bread?"}, {"role": "assistant", "content": "With flour."}],
                [
                    {"role": "user", "content": "I practise the cello daily.", "has_answer": True},
                    {"role": "assistant", "content": "The cello is lovely."},
                ],
            ],
            "answer_session_ids": ["answer_2"],
        }

    return [asked("q1", "Which instrument do I practise?"), asked("q2_abs", "Which boat do I own?")]


@pytest.fixture(params=["published", "lines"])
def longmemeval(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    data = published_longmemeval()
    if request.param == "published":
        path = tmp_path / "longmemeval_s.json"
        path.write_text(json.dumps(data), encoding="utf-8")
        return path
    write_lines(
        tmp_path / "questions.jsonl",
        [
            {
                "qid": each["question_id"],
                "type": each["question_type"],
                "abstention": each["question_id"].endswith("_abs"),
                "question": each["question"],
                "evidence_sessions": each["answer_session_ids"],
                "evidence_turns": [["answer_2", 0]],
                "haystack": [["chat_1", "2023-05-20T02:21:00"], ["answer_2", "2023-06-21T08:00:00"]],
            }
            for each in data
        ],
    )
    with gzip.open(tmp_path / "sessions.jsonl.gz", "wt", encoding="utf-8") as file:
        for id_, turns in zip(data[0]["haystack_session_ids"], data[0]["haystack_sessions"], strict=True):
            file.write(json.dumps({"id": id_, "turns": [[t["role"], t["content"]] for t in turns]}) + "\n")
    return tmp_path


def test_longmemeval_is_read_from_the_users_side_under_ids_that_tell_nothing(longmemeval: Path) -> None:
    read = sets.read_longmemeval(longmemeval)
    assert [(turn.id, turn.session, turn.time, turn.text) for turn in read.haystacks[0].turns] == [
        ("0:0", "0", "2023-05-20T02:21:00", "How do I bake bread?"),
        ("1:0", "1", "2023-06-21T08:00:00", "I practise the cello daily."),
    ]
    answered, without = read.questions
    assert (answered.turns, answered.sessions) == ({"1:0"}, {"1"})
    assert (without.type, without.turns, without.sessions) == ("abstention", set(), set())


def found(turns: list[str], right: set[str]) -> retrieval.Found:
    question = sets.Question("q", "h", "t", "?", frozenset(right), frozenset())
    return retrieval.Found(question, turns)


def test_the_figures_of_two_questions() -> None:
    answers = [found(["a", "b", "x"], {"b", "c"}), found(["a"], {"a"}), found(["z"], set())]
    made = figures.figures(answers, "turn")
    assert made.n == 2
    assert made.shares == {
        "any@1": 0.5,
        "frac@1": 0.5,
        "all@1": 0.5,
        "any@5": 1.0,
        "frac@5": 0.75,
        "all@5": 0.5,
        "any@10": 1.0,
        "frac@10": 0.75,
        "all@10": 0.5,
        "mrr": 0.75,
    }
    low, high = made.interval
    assert 0.3 < low < 0.4
    assert high == pytest.approx(1.0)
    assert figures.figures([answers[2]], "turn").n == 0


def run(*arguments: object) -> Any:
    result = CliRunner().invoke(main, ["bench", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_run_prints_one_object_a_system_and_level_and_can_be_compared(locomo: Path, tmp_path: Path) -> None:
    raw, with_facts = tmp_path / "raw.out", tmp_path / "facts.out"
    printed = run("locomo", locomo, "--no-vectors", "--baselines", "--json", "--out", raw)
    reports = [json.loads(line) for line in printed.splitlines()]
    assert [(each["system"], each["level"], each["n"]) for each in reports] == [
        ("memlite", "turn", 2),
        ("memlite", "session", 2),
        ("plain FTS5", "turn", 2),
        ("plain FTS5", "session", 2),
        ("full context", "turn", 2),
        ("full context", "session", 2),
    ]
    assert reports[0]["set"] == "locomo"
    assert reports[0]["any@10"] == 1.0
    assert reports[0]["bytes"] > 0
    assert reports[0]["types"].keys() == {"multi-hop", "single-hop"}
    cuts = {f"{name}@{k}" for name in ("any", "frac", "all") for k in (1, 5, 10)}
    assert reports[0].keys() >= {*cuts, "mrr", "p50_ms", "p95_ms", "tokens", "return_rate", "abstain_rate"}
    assert [each["return_rate"] is None for each in reports[:4]] == [False, False, True, True]
    shown = run("locomo", locomo, "--no-vectors", "--gold-facts", "--only", "conv-1", "--out", with_facts)
    assert "multi-hop" in shown
    assert "any@10 between" in shown
    rows = [json.loads(line) for line in run("diff", raw, with_facts, "--json").splitlines()]
    measures = ("any@1", "any@5", "any@10", "all@5", "all@10", "mrr")
    assert [(row["level"], row["measure"]) for row in rows] == [
        *(("turn", name) for name in measures),
        *(("session", name) for name in measures),
        (None, "return_rate"),
    ]
    assert all(row["n"] == 2 for row in rows)
    assert "won" in run("diff", raw, with_facts)


def test_the_table_has_any_frac_and_all_at_every_cut_and_how_often_something_is_returned(locomo: Path) -> None:
    shown = run("locomo", locomo, "--no-vectors").splitlines()
    for level in ("turns", "sessions"):
        at = next(number for number, line in enumerate(shown) if f"locomo, {level}:" in line)
        head, everything, *types = [line.split() for line in shown[at + 1 : at + 5]]
        cuts = [name for each in ("any", "frac", "all") for name in (f"{each}@1", "@5", "@10")]
        assert head == ["memlite", "n", *cuts, "mrr", "returned", "without", "an", "answer"]
        assert len(everything) == 1 + len(head) - 3
        assert [each[0] for each in types] == ["multi-hop", "single-hop"]


def test_with_facts_the_raw_messages_alone_stand_beside(
    locomo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.jsonl"
    reports = [
        json.loads(line)
        for line in run("locomo", locomo, "--no-vectors", "--gold-facts", "--json", "--out", out).splitlines()
    ]
    assert [each["system"] for each in reports] == ["memlite", "memlite", *["raw messages alone"] * 2]
    assert reports[2]["bytes"] > 0
    assert len(figures.outcomes(out)) == 2

    def learning(path: Path, *, extractor: object, **options: Any) -> Memory:
        return Memory(path, extractor=Echo() if extractor is None else False, **options)

    monkeypatch.setattr(retrieval, "Memory", learning)
    shown = run("locomo", locomo, "--no-vectors", "--extract")
    assert "  raw messages alone" in shown
    assert "what the facts change:" in shown
    assert "turn any@10" in shown


def outcome(
    qid: str, turns: list[str], *, right: tuple[str, ...] = ("a", "b"), returned: bool = True
) -> dict[str, Any]:
    question = sets.Question(qid, "h", "t", "?", frozenset(right), frozenset(turn[0] for turn in right))
    return figures.line(retrieval.Found(question, turns, [turn[0] for turn in turns], returned=returned, evidence=0.5))


def test_two_runs_differ_by_rank_and_by_what_they_return() -> None:
    one = [outcome("1", ["x", "a"]), outcome("2", ["a", "b"]), outcome("3", [], right=(), returned=True)]
    other = [outcome("1", ["a", "b"]), outcome("2", ["x"], returned=False), outcome("3", [], right=(), returned=False)]
    rows = {(row["level"], row["measure"]): row for row in figures.compare(one, other)}
    shown = {key: (row["n"], row["before"], row["after"], row["won"], row["lost"]) for key, row in rows.items()}
    assert shown["turn", "any@1"] == (2, 0.5, 0.5, 1, 1)
    assert shown["turn", "mrr"] == (2, 0.75, 0.5, 1, 1)
    assert shown["turn", "all@5"] == (2, 0.5, 0.5, 1, 1)
    assert shown[None, "return_rate"] == (2, 1.0, 0.5, 0, 1)
    assert shown[None, "abstain_rate"] == (1, 0.0, 1.0, 1, 0)


def test_two_runs_without_a_common_question_are_refused_and_a_question_of_one_alone_is_told(tmp_path: Path) -> None:
    one, other, more = (tmp_path / name for name in ("one", "other", "more"))
    write_lines(one, [outcome("1", ["a"])])
    write_lines(other, [outcome("2", ["a"])])
    write_lines(more, [outcome("1", ["a"]), outcome("2", ["a"])])
    refused = CliRunner().invoke(main, ["bench", "diff", str(one), str(other)])
    assert refused.exit_code == 2
    assert "no question in common: one has '1', the other '2'" in refused.stderr
    done = CliRunner().invoke(main, ["bench", "diff", str(one), str(more), "--json"])
    assert done.exit_code == 0
    assert "1 question of one file only" in done.stderr
    write_lines(other, [{"qid": "1", "gold_sessions": []}])
    older = CliRunner().invoke(main, ["bench", "diff", str(other), str(one)])
    assert (older.exit_code, "expected 'gold_turns'" in older.stderr) == (2, True)


def test_a_question_without_an_answer_is_counted_by_its_type() -> None:
    def of(type_: str, right: set[str], returned: bool) -> retrieval.Found:
        question = sets.Question("q", "h", type_, "?", frozenset(right), frozenset(right))
        return retrieval.Found(question, ["a"], ["a"], returned=returned, evidence=0.5)

    answers = [of("adversarial", {"a"}, False), of("temporal", {"a"}, True), of("temporal", set(), False)]
    answers += [of("abstention", set(), True)]
    made = figures.report(sets.Collected("made", (), ()), answers, "turn")
    assert (made["n"], made["return_rate"], made["abstain_rate"]) == (2, 0.5, 0.5)
    rates = {type_: (each["n"], each["return_rate"], each["abstain_rate"]) for type_, each in made["types"].items()}
    assert rates == {"abstention": (0, None, 0.0), "adversarial": (1, 0.0, None), "temporal": (1, 1.0, 1.0)}
    assert [line.split()[0] for line in output.retrieval_lines([{"system": "memlite", **made, "bytes": 0}])[2:6]] == [
        "all",
        "abstention",
        "adversarial",
        "temporal",
    ]


def test_a_run_with_vectors_keeps_them_beside(locomo: Path, tmp_path: Path, models: Path) -> None:
    cache = tmp_path / "vectors.db"
    first = run("locomo", locomo, "--cache", cache, "--json")
    size = cache.stat().st_size
    again = run("locomo", locomo, "--cache", cache, "--json")
    assert cache.stat().st_size == size
    shares = [{k: v for k, v in json.loads(line).items() if "@" in k} for line in (first + again).splitlines()]
    assert shares[:2] == shares[2:]


def test_longmemeval_runs_whole(longmemeval: Path) -> None:
    turn, session = map(json.loads, run("longmemeval", longmemeval, "--no-vectors", "--json").splitlines())
    assert (turn["n"], turn["any@1"], session["any@1"]) == (1, 1.0, 1.0)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", "{", "expected JSON"),
        ("x.json", '{"a": 1}', "published json"),
        ("x.json", '[{"a": 1}]', "expected 'sample_id', found 'a'"),
        ("x.json", b"\xff", "published json"),
        ("folder", None, r"turns\.jsonl"),
    ],
)
def test_a_path_that_is_no_set_is_refused(tmp_path: Path, name: str, content: str | bytes | None, message: str) -> None:
    path = tmp_path / name
    path.mkdir() if content is None else path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidInputError, match=message):
        sets.read_locomo(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"turns\.jsonl, line 2: expected JSON"),
        ("[1]", r"turns\.jsonl, line 2: expected an object"),
        ('{"text": "Hello."}', r"turns\.jsonl, line 2: expected 'id', found 'text'"),
        (b"\xff", r"turns\.jsonl cannot be read"),
    ],
)
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str | bytes, message: str) -> None:
    said = {"id": "D1:1", "conv": "c", "session": 1, "time": "2023-05-01", "speaker": "Ana", "text": "Tea."}
    broken = line if isinstance(line, bytes) else line.encode()
    (tmp_path / "turns.jsonl").write_bytes(json.dumps(said).encode() + b"\n" + broken)
    (tmp_path / "questions.jsonl").write_text("")
    with pytest.raises(InvalidInputError, match=message):
        sets.read_locomo(tmp_path)


def test_an_unknown_haystack_is_refused(locomo: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="conv-1"):
        sets.part(sets.read_locomo(locomo), ["conv-2"])
    with pytest.raises(InvalidInputError, match=r"none\.jsonl cannot be read"):
        figures.outcomes(tmp_path / "none.jsonl")
    (tmp_path / "other.jsonl").write_text('{"id": 1}')
    with pytest.raises(InvalidInputError, match="qid"):
        figures.outcomes(tmp_path / "other.jsonl")
