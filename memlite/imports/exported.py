"""memlite's own export (see `exports` and docs/export.md), read back under the ids that its rows have."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timezone
from typing import Any, Literal

import apsw

from memlite import arguments, exports, facts, filters, instants, scopes, vectors
from memlite.conversation import ROLES
from memlite.errors import InvalidInputError
from memlite.imports.files import Text
from memlite.records import LeftOut, Scope
from memlite.scopes import StoredScope
from memlite.words import beside, digest, fold

CHUNK = 500  # records that are stored in one transaction
_ID = re.compile(r"[0-9a-f]{32}")
_LISTS = ("sources", "recalled_by", "hidden_by", "mentions", "aliases", "vector")  # of a wider export they are longer

Outcome = Literal["added", "known"]


@dataclass(frozen=True, slots=True)
class Record:
    """One line of an export."""

    place: str
    kind: str
    fields: Mapping[str, Any]


@dataclass(slots=True)
class Head:
    """The first line: who made the vectors, where there are any. records: how many the last line tells of."""

    embedder: vectors.Identity | None = None
    scale: tuple[float, float, float] | None = None
    records: int | None = None


def is_head(value: Any) -> bool:
    """Whether a value is the first line of an export."""
    return isinstance(value, Mapping) and value.get("memlite") == "export"


def read(text: Text, head: Head) -> Iterator[Record | LeftOut]:
    """Its records; `head` is filled in on the way. Raises InvalidInputError for what is no export, or a newer one."""
    count = 0
    for found in text.lines():
        if isinstance(found, LeftOut):
            yield found
            continue
        number, line = found
        place = f"line {number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == 1:
                raise InvalidInputError(f"{text.name} is no export of memlite: its first line is no JSON.") from error
            yield LeftOut(place, f"malformed JSON: {error}")
            count += 1
            continue
        if number == 1:
            _read_head(text.name, value, head)
            continue
        kind = value.get("record") if isinstance(value, Mapping) else None
        if head.records is not None:
            yield LeftOut(place, "it stands behind the end of the export")
        elif kind == "end":
            head.records = value.get("records")
            if head.records != count:
                yield LeftOut(place, f"the export had {head.records} records, and {count} are here")
        elif kind in exports.KINDS:
            count += 1
            yield Record(place, kind, value)
        else:
            count += 1
            yield LeftOut(place, f"a record {kind!r:.40}, expected one of {', '.join(exports.KINDS)}")
    if head.records is None:
        yield LeftOut(text.name, "the export has no last line: it has been cut off")


def _read_head(name: str, value: Any, head: Head) -> None:
    if not is_head(value):
        raise InvalidInputError(f"{name} is no export of memlite: its first line does not say so.")
    if value.get("format") != exports.FORMAT:
        raise InvalidInputError(
            f"{name} is an export of format {value.get('format')!r:.20}; this memlite knows {exports.FORMAT}. "
            "pip install --upgrade memlite"
        )
    if (given := value.get("embedder")) is not None:
        get = _Fields(given if isinstance(given, Mapping) else {})
        head.embedder = vectors.Identity(get.text("name"), get.whole("dimension"), get.numbers("probes"))
        if len(head.embedder.probes) % (4 * max(1, head.embedder.dimension)):
            raise InvalidInputError(f"{name} has probes of another length than its embedder's {given['dimension']}.")
        if isinstance(scale := given.get("scale"), list) and len(scale) == 3:
            head.scale = (float(scale[0]), float(scale[1]), float(scale[2]))


class _Fields:
    """The fields of a record, each of the type it must have. Raises InvalidInputError."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def _of(self, name: str, type_: type, default: Any) -> Any:
        value = self._values.get(name, default)
        if value is not None and (not isinstance(value, type_) or (type_ is int and isinstance(value, bool))):
            raise InvalidInputError(f"its {name} is {value!r:.60}, expected a {type_.__name__}")
        if value is None and default is not None:
            raise InvalidInputError(f"its {name} is null")
        return value

    def text(self, name: str, default: str | None = "") -> Any:
        """A text; None where the default is None and it has none."""
        value = self._of(name, str, default)
        if value:
            scopes.check_text(f"its {name}", value)
        return value

    def needed(self, name: str) -> str:
        """A text that is not empty."""
        value = self.text(name)
        if not value:
            raise InvalidInputError(f"it has no {name}")
        return str(value)

    def id(self, name: str) -> str:
        """An id: 32 hexadecimal digits."""
        value = self.needed(name)
        if not _ID.fullmatch(value):
            raise InvalidInputError(f"its {name} is {value!r:.60}, expected 32 hexadecimal digits")
        return value

    def ids(self, name: str) -> list[str]:
        """A list of ids."""
        value = self._of(name, list, [])
        if not all(isinstance(each, str) and _ID.fullmatch(each) for each in value):
            raise InvalidInputError(f"its {name} are {value!r:.60}, expected ids of 32 hexadecimal digits")
        return list(value)

    def objects(self, name: str) -> list[_Fields]:
        """A list of objects."""
        value = self._of(name, list, [])
        if not all(isinstance(each, Mapping) for each in value):
            raise InvalidInputError(f"its {name} are {value!r:.60}, expected objects")
        return [_Fields(each) for each in value]

    def names(self, name: str) -> list[str]:
        """A list of texts with at least a letter each."""
        value = self._of(name, list, [])
        if not all(isinstance(each, str) and fold(each) for each in value):
            raise InvalidInputError(f"its {name} are {value!r:.60}, expected names")
        scopes.check_text(f"its {name}", "".join(value))
        return list(value)

    def whole(self, name: str, default: int | None = 0) -> Any:
        """A whole number of 64 bits."""
        value = self._of(name, int, default)
        if value is not None and not 0 <= value < 2**63:
            raise InvalidInputError(f"its {name} is {value}, expected none below 0 or beyond 64 bits")
        return value

    def share(self, name: str) -> float | None:
        """A number from 0 to 1."""
        value = self._values.get(name)
        return None if value is None else arguments.probability(f"its {name}", value)

    def flag(self, name: str) -> int:
        """Whether something is so, as 0 or 1."""
        return int(self._of(name, bool, False))

    def json(self, name: str) -> str:
        """An object as it is stored."""
        return filters.check_metadata(self._of(name, dict, {}))

    def state(self, name: str) -> str | None:
        """What an event tells of a fact, as it is stored."""
        value = self._of(name, dict, None)
        return None if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)

    def instant(self, name: str) -> int:
        """A time in UTC milliseconds."""
        return self.said(name)[0]

    def perhaps(self, name: str) -> int | None:
        """A time that may be missing."""
        return None if self._values.get(name) is None else self.said(name)[0]

    def said(self, name: str) -> tuple[int, int]:
        """A time in UTC milliseconds, and its offset in minutes."""
        return instants.read(self.needed(name), timezone.utc, f"its {name}")

    def numbers(self, name: str) -> bytes:
        """Base64 of float32."""
        try:
            found = base64.b64decode(self.needed(name), validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidInputError(f"its {name} is no base64: {error}") from error
        if len(found) % 4:
            raise InvalidInputError(f"its {name} has {len(found)} bytes, expected float32 numbers")
        return found

    def has(self, name: str) -> bool:
        return self._values.get(name) is not None

    def scope(self) -> Scope:
        """Whose it is."""
        return Scope(self.text("user_id"), self.text("agent_id"), self.text("run_id"))


@dataclass(slots=True)
class Restoring:
    """Stores the records of one export. What is there already, by its id, stays as it is.

    embedder: of the vectors, where the file takes them. instead: the rows that stand for rows of the export which could
    not be stored beside them: the same name, the same fact, a message under the same id of a caller.
    """

    embedder: vectors.Identity | None = None
    instead: dict[tuple[str, str], int] = field(default_factory=dict)
    problems: list[LeftOut] = field(default_factory=list)
    names: list[int] = field(default_factory=list)  # row ids of the entities that it stored
    _found: list[tuple[vectors.Kind, vectors.Row]] = field(default_factory=list)  # of the record that is being stored
    _waiting: list[tuple[vectors.Kind, vectors.Row]] = field(default_factory=list)

    def settle(self, db: apsw.Connection) -> None:
        """Remove the entities again that only facts mention which were left out."""
        alone = "SELECT value FROM json_each(?) WHERE value NOT IN (SELECT entity_id FROM mentions)"
        rows = [id_ for (id_,) in db.execute(alone, (json.dumps(self.names),))]
        vectors.delete(db, "entity", rows)
        db.execute("DELETE FROM entities WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(rows),))

    def store(self, db: apsw.Connection, record: Record) -> Outcome:
        """Store one record, inside the caller's transaction; its vector waits for `store_vectors`. Raises
        InvalidInputError where it cannot be used.
        """
        self._found.clear()
        try:
            outcome = _STORE[record.kind](self, db, record, _Fields(record.fields))
        except apsw.ConstraintError as error:
            rule = " ".join(str(error).split())
            raise InvalidInputError(f"it breaks a rule of the file: {rule}") from error
        self._waiting += self._found
        return outcome

    def store_vectors(self, db: apsw.Connection) -> None:
        """Store the vectors of what was stored in this transaction: together they take a third of the time."""
        if self.embedder and self._waiting:
            for kind in vectors.KINDS:
                rows = [row for of, row in self._waiting if of == kind]
                vectors.insert(db, kind, rows, self.embedder.probes)
        self._waiting.clear()

    # -- one of each kind --------------------------------------------------------------------------

    def _batch(self, db: apsw.Connection, record: Record, get: _Fields) -> Outcome:
        id_ = get.id("id")
        if self._is_known(db, record, id_):
            return "known"
        undoes = self._row(db, "batch", get.id("undoes")) if get.has("undoes") else None
        self._insert(
            db,
            "batches",
            uid=id_,
            scope_id=_scope(db, get).id,
            kind=get.text("kind"),
            instructions=get.text("instructions"),
            metadata=get.json("metadata"),
            expires_at=get.perhaps("expires_at"),
            created_at=get.instant("created_at"),
            state=get.needed("state"),
            attempts=get.whole("attempts"),
            error=get.text("error"),
            undoes=undoes,
            made_by=get.text("made_by"),
        )
        return "added"

    def _message(self, db: apsw.Connection, record: Record, get: _Fields) -> Outcome:
        id_, caller_id, content = get.id("id"), get.text("caller_id", None), get.needed("content")
        if self._is_known(db, record, id_):
            return "known"
        if get.text("role") not in ROLES:
            raise InvalidInputError(f"its role is {get.text('role')!r:.40}, expected one of {', '.join(ROLES)}")
        scope = _scope(db, get)
        if caller_id is not None:
            sql = "SELECT id, uid, content FROM messages WHERE scope_id = ? AND caller_id = ?"
            there = db.execute(sql, (scope.id, caller_id)).fetchone()
            if there and there[2] == content:
                self.instead["message", id_] = there[0]
                return "known"
            if there:
                raise InvalidInputError(f"the message id {caller_id!r} stands for another text here ({there[1]})")
        own = get.text("own", None)
        at, offset = get.said("observed_at")
        archived_at = get.perhaps("archived_at")
        row_id = self._insert(
            db,
            "messages",
            uid=id_,
            scope_id=scope.id,
            batch_id=self._row(db, "batch", get.id("batch")),
            caller_id=caller_id,
            role=get.text("role"),
            name=get.text("name"),
            content=content,
            own=own,
            hash=digest(content if own is None else own),
            words=beside(content if own is None else own),
            metadata=get.json("metadata"),
            observed_at=at,
            observed_offset=offset,
            created_at=get.instant("created_at"),
            archived_at=archived_at,
            spent=get.flag("spent"),
        )
        for batch_id in self._rows(db, record, "batch", get.ids("hidden_by")):
            db.execute("INSERT INTO hidden_messages VALUES (?, ?) ON CONFLICT DO NOTHING", (batch_id, row_id))
        if archived_at is None and own != "":
            self._vector("message", row_id, scope, get)
        return "added"

    def _entity(self, db: apsw.Connection, record: Record, get: _Fields) -> Outcome:
        id_, name, type_ = get.id("id"), get.needed("name"), get.needed("type")
        aliases = get.names("aliases")
        known = self._is_known(db, record, id_)
        root = scopes.intern(db, scopes.root_of(_scope(db, get).scope))
        row_id: int | None = db.execute("SELECT id FROM entities WHERE uid = ?", (id_,)).get
        if row_id is None:
            sql = "SELECT id FROM entities WHERE root_id = ? AND folded = ? AND type = ?"
            row_id = db.execute(sql, (root.id, fold(name), type_)).get
            if row_id is not None:
                known, self.instead["entity", id_] = True, row_id
            else:
                row_id = self._insert(
                    db, "entities", uid=id_, root_id=root.id, name=name, folded=fold(name), type=type_
                )
                self.names.append(row_id)
                self._vector("entity", row_id, root, get)
        for alias in aliases:
            db.execute(
                "INSERT INTO aliases(entity_id, root_id, folded, name) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (row_id, root.id, fold(alias), alias),
            )
        return "known" if known else "added"

    def _fact(self, db: apsw.Connection, record: Record, get: _Fields) -> Outcome:
        id_, text = get.id("id"), get.needed("text")
        if self._is_known(db, record, id_):
            return "known"
        scope = _scope(db, get)
        sources = self._rows(db, record, "message", get.ids("sources"))
        twin = facts.twin(db, scope.id, text) if get.flag("live") else None
        if twin:
            # As a `restore` that finds its twin: that one takes over the sources.
            facts.add_sources(db, twin.id, sources)
            self.instead["fact", id_] = twin.id
            self.problems.append(LeftOut(record.place, f"the fact {twin.uid} says the same; it has its messages now"))
            return "known"
        at, offset = get.said("observed_at")
        archived_at = get.perhaps("archived_at")
        expires_at = get.perhaps("expires_at")
        row_id = self._insert(
            db,
            "facts",
            uid=id_,
            scope_id=scope.id,
            batch_id=self._row(db, "batch", get.id("batch")) if get.has("batch") else None,
            text=text,
            hash=digest(text),
            words=beside(text),
            live=get.flag("live"),
            attributed_to=get.text("by"),
            kind=get.text("kind"),
            metadata=get.json("metadata"),
            confidence=get.share("confidence"),
            model=get.text("model"),
            prompt_version=get.text("prompt_version"),
            created_at=get.instant("created_at"),
            observed_at=at,
            observed_offset=offset,
            event_start=get.text("event_start", None),
            event_end=get.text("event_end", None),
            event_precision=get.text("event_precision", None),
            valid_from=get.instant("valid_from"),
            begins=get.perhaps("begins"),
            valid_to=get.perhaps("valid_to"),
            recorded_to=get.perhaps("recorded_to"),
            last_confirmed_at=get.instant("last_confirmed_at"),
            expires_at=expires_at,
            ttl=get.whole("ttl", None),
            archived_at=archived_at,
            unsourced=get.flag("unsourced"),
        )
        facts.add_sources(db, row_id, sources)
        for message_id in self._rows(db, record, "message", get.ids("recalled_by")):
            db.execute("INSERT INTO recalls VALUES (?, ?) ON CONFLICT DO NOTHING", (row_id, message_id))
        for mention in get.objects("mentions"):
            names = json.dumps(mention.names("aliases"), ensure_ascii=False)
            for entity_id in self._rows(db, record, "entity", [mention.id("entity")]):
                db.execute(
                    """
                    INSERT INTO mentions(fact_id, entity_id, name, position, aliases) VALUES (?, ?, ?, ?, ?)
                    ON CONFLICT DO NOTHING
                    """,
                    (row_id, entity_id, mention.needed("name"), mention.whole("position"), names),
                )
        if archived_at is None:
            self._vector("fact", row_id, scope, get)
        return "added"

    def _link(self, db: apsw.Connection, record: Record, get: _Fields) -> Outcome:
        ends = self._row(db, "fact", get.id("from")), self._row(db, "fact", get.id("to"))
        if ends[0] == ends[1]:  # two facts of the export are one here
            return "known"
        sql = "INSERT INTO links VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING 1"
        return "added" if db.execute(sql, (*ends, get.needed("relation"))).get else "known"

    def _event(self, db: apsw.Connection, record: Record, get: _Fields) -> Outcome:
        columns = {
            "fact_uid": get.id("fact"),
            "action": get.needed("action"),
            "scope_id": _scope(db, get).id,
            "batch_id": self._row(db, "batch", get.id("batch")) if get.has("batch") else None,
            "actor": get.text("actor"),
            "reason": get.text("reason"),
            "before": get.state("before"),
            "after": get.state("after"),
            "at": get.instant("at"),
        }
        same = " AND ".join(f"{name} IS ?" for name in columns)
        there: int = db.execute(f"SELECT count(*) FROM events WHERE {same}", tuple(columns.values())).get
        if there > get.whole("again"):
            return "known"
        self._insert(db, "events", **columns)
        return "added"

    def _ttl(self, db: apsw.Connection, record: Record, get: _Fields) -> Outcome:
        scope = get.scope()
        scope_id = scopes.intern(db, scope).id if scope.given() else None
        kind, length = get.text("kind"), get.whole("milliseconds")
        sql = "SELECT milliseconds FROM ttls WHERE scope_id IS ? AND kind = ?"
        there = db.execute(sql, (scope_id, kind)).get
        if there is None:
            self._insert(db, "ttls", scope_id=scope_id, kind=kind, milliseconds=length)
            return "added"
        if there != length:
            self.problems.append(LeftOut(record.place, "a rule for the same facts is here already; it stays as it is"))
        return "known"

    # -- what they have in common ------------------------------------------------------------------

    def _is_known(self, db: apsw.Connection, record: Record, id_: str) -> bool:
        """Whether a row has this id; one that says something else is told of."""
        if not db.execute(f"SELECT 1 FROM {_TABLES[record.kind]} WHERE uid = ?", (id_,)).get:
            return False
        there = exports.stored(db, record.kind, id_)
        here, given = ({k: v for k, v in each.items() if k not in _LISTS} for each in (there, record.fields))
        if here != given:
            reason = f"the {record.kind} {id_} is another one here; it stays as it is"
            self.problems.append(LeftOut(record.place, reason))
        return True

    def _insert(self, db: apsw.Connection, table: str, **columns: Any) -> int:
        holes = ", ".join("?" * len(columns))
        db.execute(f"INSERT INTO {table}({', '.join(columns)}) VALUES ({holes})", tuple(columns.values()))
        return db.last_insert_rowid()

    def _row(self, db: apsw.Connection, kind: str, id_: str) -> int:
        """The row that stands for this id."""
        found: int | None = db.execute(f"SELECT id FROM {_TABLES[kind]} WHERE uid = ?", (id_,)).get
        found = found if found is not None else self.instead.get((kind, id_))
        if found is None:
            raise InvalidInputError(f"it names the {kind} {id_}, which is not there: it comes later, or was left out")
        return found

    def _rows(self, db: apsw.Connection, record: Record, kind: str, ids: list[str]) -> list[int]:
        """The rows that stand for these ids; one that is missing is told of."""
        found = []
        for id_ in ids:
            try:
                found.append(self._row(db, kind, id_))
            except InvalidInputError as error:
                self.problems.append(LeftOut(record.place, f"stored without one thing: {error}"))
        return found

    def _vector(self, kind: vectors.Kind, row_id: int, scope: StoredScope, get: _Fields) -> None:
        if self.embedder is None or not get.has("vector"):
            return
        numbers = get.numbers("vector")
        if len(numbers) != 4 * self.embedder.dimension:
            raise InvalidInputError(f"its vector has {len(numbers) // 4} numbers, expected {self.embedder.dimension}")
        self._found.append((kind, vectors.Row(row_id, scope.id, numbers)))


_TABLES = {"batch": "batches", "message": "messages", "entity": "entities", "fact": "facts"}
_STORE: dict[str, Callable[[Restoring, apsw.Connection, Record, _Fields], Outcome]] = {
    kind: getattr(Restoring, f"_{kind}") for kind in exports.KINDS
}


def is_there(db: apsw.Connection, record: Record) -> bool:
    """Whether a record would be known: for a dry run. Of what has no id only the event of a known fact is."""
    id_ = record.fields.get("id", record.fields.get("fact", record.fields.get("from")))
    table = _TABLES.get(record.kind, "facts")
    if not isinstance(id_, str):
        return False
    return db.execute(f"SELECT 1 FROM {table} WHERE uid = ?", (id_,)).get is not None


def _scope(db: apsw.Connection, get: _Fields) -> StoredScope:
    scope = get.scope()
    if not scope.given():
        raise InvalidInputError("it has neither user_id nor agent_id nor run_id")
    return scopes.intern(db, scope)
