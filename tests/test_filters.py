"""Metadata filters, run on a real SQLite and compared with the same rules written in plain Python."""

from __future__ import annotations

import json
import math
import unicodedata
from typing import Any

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memlite.errors import InvalidInputError
from memlite.filters import LOGICAL, MAX_DEPTH, OPERATORS, check_metadata, compile_filter, needed, passing, register
from memlite.schema import METADATA, run


@pytest.fixture(scope="module")
def db() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    register(connection)
    for kind in ("fact", "message"):
        connection.execute(f"CREATE TABLE {kind}s (id INTEGER PRIMARY KEY, metadata TEXT NOT NULL) STRICT")
    run(connection, METADATA)
    return connection


def matching(db: apsw.Connection, filters: Any, rows: list[Any]) -> list[bool]:
    """For each metadata, whether SQLite says that it passes."""
    condition, bindings = compile_filter(filters)
    db.execute("DELETE FROM facts")
    db.executemany("INSERT INTO facts(metadata) VALUES (?)", [(check_metadata(row),) for row in rows])
    verdicts = [verdict for (verdict,) in db.execute(f"SELECT {condition} FROM facts ORDER BY id", bindings)]
    passed = {id for (id,) in db.execute(f"SELECT id FROM facts WHERE {condition}", bindings)}
    assert set(verdicts) <= {0, 1}
    assert [number in passed for number in range(1, len(rows) + 1)] == [bool(each) for each in verdicts]
    return [bool(verdict) for verdict in verdicts]


# The rules once more, in Python.

ABSENT = object()


def passes(filters: dict[str, Any], metadata: dict[str, Any]) -> bool:
    return all(passes_key(key, wanted, metadata) for key, wanted in filters.items())


def passes_key(key: str, wanted: Any, metadata: dict[str, Any]) -> bool:
    if key == "AND":
        return all(passes(part, metadata) for part in wanted)
    if key == "OR":
        return any(passes(part, metadata) for part in wanted)
    if key == "NOT":
        return not any(passes(part, metadata) for part in ([wanted] if isinstance(wanted, dict) else wanted))
    operators = wanted if isinstance(wanted, dict) else {"eq": wanted}
    found = metadata.get(key, ABSENT)
    return all(passes_operator(name, operand, found) for name, operand in operators.items())


def kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, (int, float)) else type(value).__name__


def same(left: Any, right: Any) -> bool:
    return kind(left) == kind(right) and left == right


def folded(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", value).casefold())


def passes_operator(name: str, operand: Any, found: Any) -> bool:
    if name in ("ne", "nin"):
        return not passes_operator({"ne": "eq", "nin": "in"}[name], operand, found)
    if name == "exists":
        return (found is not ABSENT) == operand
    if found is ABSENT:
        return False
    if name == "eq":
        return same(found, operand)
    if name == "in":
        return any(same(found, each) for each in operand)
    if name == "icontains":
        found = [folded(each) for each in found] if isinstance(found, list) else folded(found)
        operand = folded(operand)
    if name in ("contains", "icontains"):
        if isinstance(found, list):
            return any(same(each, operand) for each in found)
        return isinstance(found, str) and isinstance(operand, str) and operand in found
    if kind(found) != kind(operand) or kind(found) not in ("number", "str"):
        return False
    return {
        "gt": found > operand,
        "gte": found >= operand,
        "lt": found < operand,
        "lte": found <= operand,
    }[name]


# Few keys and few values, so that random filters often meet random metadata.
texts = st.sampled_from(["", "a", "A", "ä", "Ä", "a\u0308", "ß", "SS", "1", "b a", "😀", "\ufffd", "x\0y"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=4
)
numbers = st.sampled_from([0, 1, -1, 1.0, 0.5, 0.1 + 0.2, 2**53, 2**53 + 1, float(2**53), 2**63 - 1]) | (
    st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
scalars = st.none() | st.booleans() | numbers | texts
values = scalars | st.lists(scalars | st.lists(scalars, max_size=1), max_size=3) | st.dictionaries(texts, scalars)
keys = st.sampled_from(["a", "b", "a.b", 'say "a"', "", "Ä", "$", "x\0y", "and"]) | texts
metadatas = st.dictionaries(keys, values, max_size=4)
ordered = numbers | texts
operators = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("eq", "ne", "contains", "icontains"), scalars),
        **dict.fromkeys(("gt", "gte", "lt", "lte"), ordered),
        **dict.fromkeys(("in", "nin"), st.lists(scalars, max_size=3)),
        "exists": st.booleans(),
    },
).filter(bool)
leaves = st.dictionaries(keys.filter(lambda key: key not in LOGICAL), scalars | operators, max_size=2)
trees = st.recursive(
    leaves,
    lambda part: st.builds(
        lambda leaf, name, parts: {**leaf, name: parts[0] if name == "NOT" and len(parts) == 1 else parts},
        leaves,
        st.sampled_from(["AND", "OR", "NOT"]),
        st.lists(part, max_size=3),
    ),
    max_leaves=8,
)


@given(filters=trees, rows=st.lists(metadatas, min_size=1, max_size=5))
def test_sqlite_and_plain_python_agree_on_every_row(
    db: apsw.Connection, filters: dict[str, Any], rows: list[dict[str, Any]]
) -> None:
    assert matching(db, filters, rows) == [passes(filters, row) for row in rows]


@given(filters=trees, rows=st.lists(metadatas, min_size=1, max_size=5))
@example(filters={"n": {"gte": 2, "lt": 9}}, rows=[{"n": n} for n in range(10)])
@example(filters={"t": "x" * 120, "u": {"lt": "y" * 101}}, rows=[{"t": "x" * 120, "u": "y" * 100}])
@example(filters={"OR": [{"a": {"in": [1, "x\0y"]}}, {"b": True}]}, rows=[{"a": 1.0}, {"a": "x\0y"}, {"b": True}, {}])
def test_all_that_passes_is_among_what_is_looked_up(
    db: apsw.Connection, filters: dict[str, Any], rows: list[dict[str, Any]]
) -> None:
    passed = {number for number, verdict in enumerate(matching(db, filters, rows), 1) if verdict}
    may = passing(db, "fact", needed(filters), most=9)
    assert may is None or passed <= may


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        pytest.param({"n": 3}, {4}, id="equal"),
        pytest.param({"n": {"in": [3, 5]}}, {4, 6}, id="one-of"),
        pytest.param({"n": {"gte": 3, "lt": 5}}, {4, 5, 6}, id="a-range-with-both-ends"),
        pytest.param({"n": {"gte": 3, "lt": 5}, "AND": [{"even": 1}]}, {5}, id="all-of"),
        pytest.param({"OR": [{"n": 3}, {"n": {"gt": 8}}]}, {4, 9, 10}, id="any-of"),
        pytest.param({"n": 3, "NOT": {"even": 1}}, {4}, id="beside-a-negation"),
        pytest.param({"n": 77}, set(), id="nothing"),
        pytest.param({"OR": [{"n": 3}, {"n": {"ne": 4}}]}, None, id="any-of-what-cannot-be-told"),
        pytest.param({"n": {"gte": 0}}, None, id="too-many"),
        pytest.param({"n": {"gte": 0}, "even": 1}, {1, 3, 5, 7, 9}, id="too-many-and-few"),
        pytest.param({"n": {"exists": True}}, None, id="a-key"),
        pytest.param({"x": None}, None, id="null"),
        pytest.param({}, None, id="no-filter"),
    ],
)
def test_what_a_filter_needs_is_looked_up(
    db: apsw.Connection, filters: dict[str, Any], expected: set[int] | None
) -> None:
    matching(db, filters, [{"n": n, "even": int(n % 2 == 0)} for n in range(10)])
    assert passing(db, "fact", needed(filters), most=5) == expected


def test_what_is_looked_up_follows_the_rows(db: apsw.Connection) -> None:
    def found(filters: dict[str, Any]) -> set[int] | None:
        return passing(db, "message", needed(filters), most=5)

    db.execute("INSERT INTO messages(id, metadata) VALUES (7, ?)", (check_metadata({"a": "x", "b": [1], "c": 2}),))
    assert found({"a": "x"}) == found({"c": 2}) == {7}
    db.execute("UPDATE messages SET metadata = ? WHERE id = 7", (check_metadata({"a": "y", "c": 2}),))
    assert (found({"a": "x"}), found({"a": "y"}), found({"c": 2})) == (set(), {7}, {7})
    alike = check_metadata({"k" * 101: 1, "k" * 102: 1.0})
    db.execute("UPDATE OR ABORT messages SET metadata = ? WHERE id = 7", (alike,))
    db.execute("INSERT INTO messages(id, metadata) VALUES (8, '{}')")
    db.execute("UPDATE OR IGNORE messages SET metadata = '{}', id = 8 WHERE id = 7")
    assert found({"k" * 103: 1}) == {7}
    db.execute("DELETE FROM messages WHERE id = 7")
    assert not db.execute("SELECT count(*) FROM message_metadata").get


@given(filters=trees, row=metadatas)
def test_not_is_the_plain_opposite(db: apsw.Connection, filters: dict[str, Any], row: dict[str, Any]) -> None:
    assert matching(db, {"NOT": filters}, [row]) != matching(db, filters, [row])


@given(metadatas)
def test_metadata_comes_back_as_it_went_in(metadata: dict[str, Any]) -> None:
    text = check_metadata(metadata)
    assert json.loads(text) == metadata
    assert check_metadata(dict(reversed(metadata.items()))) == text


@pytest.mark.parametrize(
    ("filters", "metadata", "expected"),
    [
        pytest.param({"city": "Porto"}, {"city": "Porto"}, True, id="a plain value means equal"),
        pytest.param({"city": "Porto"}, {"city": "porto"}, False, id="equal minds the case"),
        pytest.param({"age": {"gte": 18, "lt": 65}}, {"age": 65}, False, id="operators are all required"),
        pytest.param({"a": 1, "b": 2}, {"a": 1, "b": 3}, False, id="keys are all required"),
        pytest.param({"n": "1"}, {"n": 1}, False, id="the text 1 is not the number 1"),
        pytest.param({"n": 1}, {"n": True}, False, id="true is not 1"),
        pytest.param({"n": 1}, {"n": 1.0}, True, id="1 is 1.0"),
        pytest.param({"n": {"in": [1, "a"]}}, {"n": True}, False, id="true is not in a list with 1"),
        pytest.param({"n": None}, {"n": None}, True, id="null is a value"),
        pytest.param({"n": None}, {}, False, id="a missing key is not null"),
        pytest.param({"n": {"exists": True}}, {"n": None}, True, id="null exists"),
        pytest.param({"n": {"exists": False}}, {}, True, id="a missing key does not exist"),
        pytest.param({"n": {"ne": 1}}, {}, True, id="a missing key is not equal"),
        pytest.param({"n": {"nin": [1]}}, {}, True, id="a missing key is not in"),
        pytest.param({"NOT": {"n": {"gt": 1}}}, {}, True, id="not of a missing key is true"),
        pytest.param({"n": {"gt": 1}}, {"n": "2"}, False, id="a text is not above a number"),
        pytest.param({"n": {"gt": "B"}}, {"n": "a"}, True, id="texts order by code point"),
        pytest.param({"n": {"gt": "\uffff"}}, {"n": "😀"}, True, id="texts order by code point beyond 16 bits"),
        pytest.param({"t": {"contains": "ort"}}, {"t": "Porto"}, True, id="a piece of a string"),
        pytest.param({"t": {"contains": "a"}}, {"t": ["ab"]}, False, id="a member, not a piece of one"),
        pytest.param({"t": {"contains": 2}}, {"t": [1, 2.0]}, True, id="a number in an array"),
        pytest.param({"t": {"contains": None}}, {"t": [None]}, True, id="null in an array"),
        pytest.param({"t": {"contains": 1}}, {"t": "1"}, False, id="a number is no piece of a string"),
        pytest.param({"t": {"icontains": "ä"}}, {"t": "GLÄSER"}, True, id="case beyond ASCII"),
        pytest.param({"t": {"icontains": "A\u0308"}}, {"t": ["ä"]}, True, id="either spelling of an umlaut"),
        pytest.param({"a.b": 1}, {"a": {"b": 1}}, False, id="a dot is part of the key"),
        pytest.param({'x"] --': 1}, {'x"] --': 1}, True, id="quotes are part of the key"),
        pytest.param({"m": 1}, {"m": {"eq": 1}}, False, id="an object equals no scalar"),
        pytest.param({"AND": [{"t": {"contains": "a"}}, {"t": {"contains": "b"}}]}, {"t": ["a"]}, False, id="and"),
        pytest.param({"AND": [{"t": "a"}, {"t": "b"}]}, {"t": "b"}, False, id="one key twice in an and"),
        pytest.param({"AND": [{"t": {"ne": "a"}}, {"t": {"ne": "b"}}]}, {"t": "a"}, False, id="two ne on one key"),
        pytest.param(
            {"AND": [{"OR": [{"a": 1}, {"a": 2}]}, {"OR": [{"b": 1}, {"b": 2}]}]},
            {"a": 3, "b": 1},
            False,
            id="two ors in an and",
        ),
        pytest.param({"NOT": [{"a": 1}, {"b": 1}]}, {"a": 2, "b": 1}, False, id="not of a list is none of them"),
        pytest.param({}, {}, True, id="nothing asked"),
        pytest.param({"OR": []}, {}, False, id="any of nothing"),
        pytest.param({"a": {"in": []}}, {"a": 1}, False, id="in nothing"),
    ],
)
def test_filter(db: apsw.Connection, filters: Any, metadata: Any, expected: bool) -> None:
    assert matching(db, filters, [metadata]) == [expected]
    assert passes(filters, metadata) is expected


def test_no_filter_passes_everything() -> None:
    assert compile_filter(None) == ("1", [])
    assert compile_filter({}) == ("1", [])


def test_what_a_caller_writes_is_bound_and_never_part_of_the_sql() -> None:
    condition, bindings = compile_filter({"secret'key": {"in": ["secret'value", "b"], "contains": "secret"}})
    assert "secret" not in condition
    assert condition.count("?") == len(bindings)


def test_the_column_may_belong_to_a_table_of_any_name(db: apsw.Connection) -> None:
    for table in ("m", "e", "f"):
        condition, bindings = compile_filter({"t": {"contains": "a"}}, f"{table}.metadata")
        db.execute(f"SELECT * FROM facts AS {table} WHERE {condition}", bindings).fetchall()


def test_a_row_without_an_object_fails_instead_of_giving_null(db: apsw.Connection) -> None:
    condition, bindings = compile_filter({"a": {"ne": 1}}, "x.column1")
    assert list(db.execute(f"SELECT {condition} FROM (VALUES (NULL), ('[1]')) AS x", bindings)) == [
        (1,),
        (1,),
    ]


def test_all_that_is_asked_of_a_key_is_asked_of_one_member(db: apsw.Connection) -> None:
    filters = {"n": {"gte": 5, "lt": 2}}  # memlite writes no key twice, others may
    condition, bindings = compile_filter(filters, "x.column1")
    assert list(db.execute(f"""SELECT {condition} FROM (VALUES ('{{"n": 1, "n": 9}}')) AS x""", bindings)) == [(0,)]


def test_wide_filters_stay_within_sqlites_limits(db: apsw.Connection) -> None:
    wide = {"OR": [{"n": {"gt": number}} for number in range(5000)]}
    assert matching(db, wide, [{"n": 1}, {"n": 0}]) == [True, False]
    long = {"n": {"in": list(range(100_000))}}
    assert matching(db, long, [{"n": 99_999}, {"n": -1}]) == [True, False]


@pytest.mark.parametrize("wrap", [lambda f: {"NOT": f}, lambda f: {"OR": [{"n": 2}, f]}], ids=["NOT", "OR"])
def test_filters_nest_fifty_levels_deep_and_no_deeper(db: apsw.Connection, wrap: Any) -> None:
    deep = {"n": {"contains": 1}}
    for _ in range(MAX_DEPTH):
        deep = wrap(deep)
    assert matching(db, deep, [{"n": [1]}]) == [True]
    with pytest.raises(InvalidInputError, match="nested more than 50 levels"):
        compile_filter(wrap(deep))


LONE = "\ud800"


@pytest.mark.parametrize(
    ("filters", "complaint"),
    [
        pytest.param(["a"], "a filter must be a mapping, not list", id="not a mapping"),
        pytest.param({"n": {"$gt": 1}}, r"unknown operator '\$gt' on 'n'.*did you mean 'gt'", id="a dollar"),
        pytest.param({"n": {"like": 1}}, ", ".join(OPERATORS), id="legal operators are listed"),
        pytest.param({"n": {"contain": "a"}}, "did you mean 'contains'", id="nearest operator"),
        pytest.param({"n": {1: 1}}, "unknown operator 1", id="an operator that is no string"),
        pytest.param({"n": {"NOT": {"eq": 1}}}, "goes around keys", id="not inside a key"),
        pytest.param({"n": {}}, "has no operator", id="no operator"),
        pytest.param({"n": [1]}, "'in'.*'contains'", id="a bare list"),
        pytest.param({"n": {"eq": [1]}}, "eq compares with a string.*not list", id="eq with a list"),
        pytest.param({"n": {"eq": {"a": 1}}}, "eq compares with a string.*not dict", id="eq with a mapping"),
        pytest.param({"and": [{"a": 1}]}, "write 'AND'", id="and in small letters"),
        pytest.param({"$or": [{"a": 1}]}, "write 'OR'", id="or with a dollar"),
        pytest.param({"AND": {"a": 1}}, "AND takes a list of filters, not dict", id="and without a list"),
        pytest.param({"OR": ["a"]}, "a filter must be a mapping, not str", id="or of strings"),
        pytest.param({"n": {"in": "abc"}}, "in takes a list of values, not str", id="in a string"),
        pytest.param({"n": {"gt": True}}, "gt takes a number or a string, not bool", id="above true"),
        pytest.param({"n": {"lt": None}}, "lt takes a number or a string, not NoneType", id="below null"),
        pytest.param({"n": {"exists": 1}}, "exists takes true or false, not int", id="exists 1"),
        pytest.param({"n": object()}, "not object", id="an object"),
        pytest.param({"n": math.nan}, "nan, which JSON cannot write", id="nan"),
        pytest.param({"n": {"in": [-math.inf]}}, "-inf, which JSON cannot write", id="infinity"),
        pytest.param({"n": 2**63}, "beyond 64 bits", id="a big integer"),
        pytest.param({"n": LONE}, "surrogate", id="half a character as a value"),
        pytest.param({LONE: 1}, "surrogate", id="half a character as a key"),
        pytest.param({1: 1}, "a metadata key must be a string, not int 1", id="a key that is no string"),
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused(filters: Any, complaint: str) -> None:
    with pytest.raises(InvalidInputError, match=complaint):
        compile_filter(filters)


def nested(depth: int) -> Any:
    return {"a": nested(depth - 1)} if depth else 1


@pytest.mark.parametrize(
    ("metadata", "complaint"),
    [
        pytest.param([1], "metadata must be a mapping, not list", id="a list"),
        pytest.param("{}", "metadata must be a mapping, not str", id="a string"),
        pytest.param({1: 1}, "a key of metadata must be a string, not int 1", id="a number as key"),
        pytest.param({"a": {"b": [0, {2}]}}, r"metadata\['a'\]\['b'\]\[1\] is set", id="a set, deep inside"),
        pytest.param({"a": math.inf}, "inf, which JSON cannot write", id="infinity"),
        pytest.param({"a": -(2**63) - 1}, "beyond 64 bits", id="a big integer"),
        pytest.param({"a": LONE}, "surrogate", id="half a character"),
        pytest.param({LONE: 1}, "surrogate", id="half a character as a key"),
        pytest.param(nested(100), "nested more than 50", id="too deep"),
    ],
)
def test_metadata_that_sqlite_could_not_give_back_is_refused(metadata: Any, complaint: str) -> None:
    with pytest.raises(InvalidInputError, match=complaint):
        check_metadata(metadata)


def test_metadata_is_canonical_json() -> None:
    assert check_metadata(None) == "{}"
    assert check_metadata({"b": (1, None), "a": "ä"}) == '{"a":"ä","b":[1,null]}'
