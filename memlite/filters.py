"""Metadata filters: a mapping becomes one SQL condition over a TEXT column that holds a JSON object.

    {"city": "Porto"}                      equal
    {"age": {"gte": 18, "lt": 65}}         several operators on a key: all of them
    {"city": "Porto", "age": 40}           several keys: all of them
    {"AND": [f, f]}  {"OR": [f, f]}        all, any
    {"NOT": f}  {"NOT": [f, f]}            not, none of them

    eq ne               equal, not equal, to a string, number, boolean or null
    in nin              equal to one, to none, of a list of those
    gt gte lt lte       number with number or string with string (code point order), else false
    contains            a piece of a string, or a member of an array
    icontains           the same; strings compared without regard to case ("ä" is "Ä")
    exists              true: the key is there (null counts), false: it is not

Types matter: "1" is not 1 and true is not 1, but 1 is 1.0. A missing key fails every operator except ne, nin
and {"exists": false}. Every condition is true or false, never NULL, so NOT is the plain opposite. A key is
the literal name of a top-level member, dots and quotes included; only the names AND, OR and NOT are taken.
Empty parts mean what Python's all() and any() say: {} and {"AND": []} are true, {"OR": []} is false.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from memlite.errors import InvalidInputError, excerpt
from memlite.schema import LONGEST_MEMBER

if TYPE_CHECKING:
    from apsw import Connection

LOGICAL = ("AND", "OR", "NOT")
OPERATORS = ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "contains", "icontains", "exists")
MAX_DEPTH = 50
MOST_LOOKED_UP = 50  # of what a filter needs
MOST_BINDINGS = 30_000  # SQLite takes 32,766 in one statement, and the scope needs some

Condition = tuple[str, list[Any]]

_LISTS = (list, tuple, set, frozenset)
_NUMBER = "IN ('integer', 'real')"
_COMPARE = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


class Needed(NamedTuple):
    """What a key's value has to be: from `least` to `most`, None for anything, or one of `among`, a JSON array."""

    key: str
    least: Any = None
    most: Any = None
    among: str = ""


def register(connection: Connection) -> None:
    """Give the connection `memlite_casefold`, which icontains needs: SQLite's lower() knows only ASCII."""
    connection.create_scalar_function("memlite_casefold", _sql_fold, 1, deterministic=True)


def fold(text: str) -> str:
    """Text as icontains compares it: case-folded, and composed, so either spelling of "ä" matches."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _sql_fold(*arguments: Any) -> str:
    return fold(arguments[0])


def compile_filter(filters: Mapping[str, Any] | None, column: str = "metadata") -> Condition:
    """The filter as an SQL condition that is 0 or 1 on every row, and its bindings; ("1", []) for none."""
    if not re.fullmatch(r"\w+(\.\w+)?", column):
        raise ValueError(f"{column!r} is not a column name")
    if filters is None:
        return "1", []
    sql, bindings = _every(_conditions(filters, column, 0), "AND")
    if len(bindings) > MOST_BINDINGS:
        raise InvalidInputError(
            f"the filter compares with {len(bindings)} keys and values, expected {MOST_BINDINGS} at the most"
        )
    return sql, bindings


def needed(filters: Mapping[str, Any]) -> list[list[Needed]]:
    """Of a filter that compiles: a row that it admits meets one of each list. What cannot be told so is left out, and
    so is what would take long to look up.
    """
    found: list[list[Needed]] = []
    for key, wanted in filters.items():
        if key == "AND":
            found += [each for part in wanted for each in needed(part)]
        elif key == "OR":
            parts = [needed(part) for part in wanted]
            found += [[each for part in parts for each in part[0]]] if all(parts) else []
        elif key != "NOT":
            found += [[each] for each in _needed(key, wanted if isinstance(wanted, Mapping) else {"eq": wanted})]
    return [each for each in found if 0 < len(each) <= MOST_LOOKED_UP][:MOST_LOOKED_UP]


def _needed(key: str, tests: Mapping[str, Any]) -> Iterator[Needed]:
    for among in ([tests["eq"]] if "eq" in tests else [], tests.get("in", [])):
        if among and None not in among:
            yield Needed(key, among=json.dumps(list(among), ensure_ascii=False))
    least, most = tests.get("gt", tests.get("gte")), tests.get("lt", tests.get("lte"))
    if least is not None or most is not None:
        yield Needed(key, least, most)


def passing(db: Connection, kind: str, filters: Sequence[Sequence[Needed]], most: int) -> set[int] | None:
    """The row ids of facts or messages that may meet all of `needed`; None: they are more than `most`, or not known."""
    found: set[int] | None = None
    for each in filters:
        ids = set[int]()
        for sql, bindings in (_looked_up(kind, one) for one in each):
            # Counted first: to make numbers of Python of what is too many takes four times as long.
            if len(ids) > most or db.execute(f"{sql} LIMIT 1 OFFSET ?", (*bindings, most)).get is not None:
                break
            ids.update(id_ for (id_,) in db.execute(sql, bindings))
        else:
            found = ids if found is None else found & ids
    return None if found is not None and len(found) > most else found


def _looked_up(kind: str, wanted: Needed) -> Condition:
    """The SQL of the row ids that have it, of long texts by their beginnings, and its bindings."""
    sql, bindings = f"SELECT id FROM {kind}_metadata WHERE key = {_beginning('?')}", list[Any]([wanted.key])
    if wanted.among:
        text = _beginning("value")
        sql += f" AND value IN (SELECT CASE type WHEN 'text' THEN {text} ELSE value END FROM json_each(?))"
        bindings.append(wanted.among)
    for sign, value in ((">=", wanted.least), ("<=", wanted.most)):
        if value is not None:
            sql += f" AND value {sign} {_beginning('?') if isinstance(value, str) else '?'}"
            bindings.append(value)
    return sql, bindings


def _beginning(text: str) -> str:
    return f"substr({text}, 1, {LONGEST_MEMBER})"


def check_metadata(metadata: Mapping[str, Any] | None) -> str:
    """Metadata as canonical JSON, sorted by key; refused if SQLite could not give the same values back."""
    return json.dumps(
        {} if metadata is None else _plain(_mapping(metadata, "metadata"), "metadata", 0),
        sort_keys=True,
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
    )


def _conditions(filters: object, column: str, depth: int) -> Iterator[Condition]:
    if depth > MAX_DEPTH:
        raise InvalidInputError(f"the filter is nested more than {MAX_DEPTH} levels deep")
    for key, wanted in _mapping(filters, "a filter").items():
        if key in LOGICAL:
            yield _logical(key, wanted, column, depth)
        else:
            yield from _key_conditions(_text(key, "a metadata key"), wanted, column)


def _logical(name: str, wanted: object, column: str, depth: int) -> Condition:
    filters = [wanted] if name == "NOT" and isinstance(wanted, Mapping) else wanted
    if not isinstance(filters, list | tuple):
        raise InvalidInputError(f"{name} takes a list of filters, not {_found(wanted)}")
    parts = [_every(_conditions(part, column, depth + 1), "AND") for part in filters]
    if name == "NOT":
        sql, bindings = _every(parts, "OR")
        return f"NOT {sql}", bindings
    return _every(parts, name)


def _every(conditions: Iterator[Condition] | Sequence[Condition], word: str) -> Condition:
    """The conditions joined as a balanced tree: a flat chain of 1,000 is beyond SQLite's expression depth."""
    parts = list(conditions)
    if not parts:
        return ("1" if word == "AND" else "0"), []
    if len(parts) == 1:
        return parts[0]
    left, left_bindings = _every(parts[: len(parts) // 2], word)
    right, right_bindings = _every(parts[len(parts) // 2 :], word)
    return f"({left} {word} {right})", left_bindings + right_bindings


def _key_conditions(key: str, wanted: object, column: str) -> Iterator[Condition]:
    if not isinstance(wanted, Mapping):
        if key.strip("$").upper() in LOGICAL and isinstance(wanted, _LISTS):
            raise InvalidInputError(f"{excerpt(key)} has a list of filters: write {key.strip('$').upper()!r}")
        if isinstance(wanted, _LISTS):
            raise InvalidInputError(
                f"{excerpt(key)} is compared with a list: write {{'in': [...]}} for one of several values, "
                "or {'contains': x} for a member of an array"
            )
        wanted = {"eq": wanted}
    elif not wanted:
        raise InvalidInputError(f"{excerpt(key)} has no operator; there are {', '.join(OPERATORS)}")
    there = f"EXISTS (SELECT 1 FROM json_each({column}) AS json_member WHERE json_member.key = ? AND"
    met, bound = list[str](), list[Any]([key])
    for operator, operand in wanted.items():
        if operator not in OPERATORS:
            raise InvalidInputError(_unknown(key, operator))
        test, bindings, negated = _test(operator, operand)
        if negated:
            yield f"NOT {there} {test})", [key, *bindings]
        else:
            met.append(test)
            bound += bindings
    if met:  # of one member: JSON that somebody else wrote may have a key twice
        yield f"{there} {' AND '.join(met)})", bound


def _unknown(key: str, operator: object) -> str:
    from difflib import get_close_matches  # only here: a filter without a mistake need not pay for it

    name = str(operator).lstrip("$").lower()
    near = get_close_matches(name, OPERATORS + LOGICAL, 1) or get_close_matches(name.upper(), LOGICAL, 1)
    guess = f"; did you mean {near[0]!r}?" if near else ""
    if str(operator).strip("$").upper() in LOGICAL:
        guess = f"; did you mean {name.upper()!r}, which goes around keys, not inside one?"
    return f"unknown operator {excerpt(operator)} on {excerpt(key)}: expected one of {', '.join(OPERATORS)}{guess}"


def _test(operator: str, operand: object) -> tuple[str, list[Any], bool]:
    """The condition on the member with this key, its bindings, and whether the whole is negated."""
    if operator in ("eq", "ne"):
        return *_equal([_scalar(operand, operator)]), operator == "ne"
    if operator in ("in", "nin"):
        if not isinstance(operand, _LISTS):
            raise InvalidInputError(f"{operator} takes a list of values, not {_found(operand)}")
        return *_equal([_scalar(value, operator) for value in operand]), operator == "nin"
    if operator in _COMPARE:
        value = _scalar(operand, operator)
        if value is None or isinstance(value, bool):
            raise InvalidInputError(f"{operator} takes a number or a string, not {_found(value)}")
        kind = "= 'text'" if isinstance(value, str) else _NUMBER
        return f"json_member.type {kind} AND json_member.atom {_COMPARE[operator]} ?", [value], False
    if operator == "exists":
        if not isinstance(operand, bool):
            raise InvalidInputError(f"exists takes true or false, not {_found(operand)}")
        return "1", [], not operand
    return *_contains(_scalar(operand, operator), folded=operator == "icontains"), False


def _equal(values: Sequence[object], row: str = "json_member") -> Condition:
    """Equal to one of the values. Each kind is one binding however many values there are."""
    texts = [value for value in values if isinstance(value, str)]
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    tests, bindings = [], []
    for kind, group in (("= 'text'", texts), (_NUMBER, numbers)):
        if len(group) == 1:
            tests.append(f"{row}.type {kind} AND {row}.atom = ?")
            bindings.append(group[0])
        elif group:
            tests.append(f"{row}.type {kind} AND {row}.atom IN (SELECT atom FROM json_each(?))")
            bindings.append(json.dumps(group, ensure_ascii=False))
    for value, kind in ((None, "null"), (True, "true"), (False, "false")):
        if any(each is value for each in values):
            tests.append(f"{row}.type = '{kind}'")
    return (f"({' OR '.join(tests)})" if tests else "0"), bindings


def _contains(value: object, folded: bool) -> Condition:
    member, bindings = _equal([value], "json_item")
    piece = ""
    if isinstance(value, str):
        name = "memlite_casefold" if folded else ""
        member = f"json_item.type = 'text' AND {name}(json_item.atom) = ?"
        piece = f"WHEN 'text' THEN instr({name}(json_member.atom), ?) > 0 "
        bindings = [fold(value) if folded else value] * 2
    among = f"EXISTS (SELECT 1 FROM json_each(json_member.value) AS json_item WHERE {member})"
    # CASE, not AND: json_each of a text that is no JSON is an error, and CASE never gets there.
    return f"CASE json_member.type {piece}WHEN 'array' THEN {among} ELSE 0 END", bindings


def _scalar(value: object, operator: str) -> object:
    if isinstance(value, str):
        return _text(value, "a filter's value")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return _number(value, "a filter's value")
    raise InvalidInputError(f"{operator} compares with a string, number, boolean or null, not {_found(value)}")


def _plain(value: object, where: str, depth: int) -> object:
    """The value in the types json.dumps writes; `where` is its path, for the error that refuses it."""
    if depth > MAX_DEPTH:
        raise InvalidInputError(f"{where} is nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, Mapping):
        members = {_text(key, f"a key of {where}"): each for key, each in value.items()}
        return {key: _plain(each, f"{where}[{excerpt(key)}]", depth + 1) for key, each in members.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, f"{where}[{number}]", depth + 1) for number, each in enumerate(value)]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, where)
    if isinstance(value, int | float):
        return _number(value, where)
    raise InvalidInputError(
        f"{where} is {_found(value)}; JSON has strings, numbers, booleans, null, lists and mappings"
    )


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise InvalidInputError(f"{what} must be a string, not {_found(value)}")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidInputError(f"{what} has half of a surrogate pair, which UTF-8 cannot write: {_found(value)}")
    return value


def _number(value: float, what: str) -> float:
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInputError(f"{what} is {value}, which JSON cannot write; leave the key out or use None")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise InvalidInputError(f"{what} is an integer beyond 64 bits; store it as a string")
    return value


def _mapping(value: object, what: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{what} must be a mapping, not {_found(value)}")
    return value


def _found(value: object) -> str:
    return f"{type(value).__name__} {excerpt(value)}"
