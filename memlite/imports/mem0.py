"""mem0's memories: the folder of its embedded Qdrant, with history.db beside it, or history.db alone.

Read without mem0 or Qdrant installed. Qdrant keeps each point as a pickle, which can run anything when it is loaded as
usual; here nothing but plain values comes out of one, whatever it asks for.
"""

from __future__ import annotations

import datetime as datetimes
import io
import pickle
import uuid
from collections.abc import Iterator, Mapping
from datetime import tzinfo
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from memlite import filters, instants
from memlite.db import contents
from memlite.errors import FileError, InvalidInputError
from memlite.imports.items import Item, Statement, dated, undated, when
from memlite.records import LeftOut

_SQLITE = b"SQLite format 3\x00"
_STORE, _HISTORY = "storage.sqlite", "history.db"
_OF_ENTITIES = "entities"  # what the name of mem0's collection of entities ends in
_SCOPE = ("user_id", "agent_id", "run_id")
# What mem0 writes beside a memory's own metadata.
_OWN = {"data", "hash", "created_at", "updated_at", "text_lemmatized", "attributed_to", "expiration_date", *_SCOPE}
_MOST_VALUES = 100_000  # of one point: a pickle may hold one list in itself a thousand times
_LARGEST = 16_000_000  # bytes of one point


def read(path: Path, zone: tzinfo | None) -> Iterator[Item]:
    """Its memories as facts, each behind what it said before, with their ids, dates and metadata.

    Raises InvalidInputError where nothing of mem0 is there.
    """
    stores, history = find(path)
    if not stores and history is None:
        raise InvalidInputError(
            f"{path} has no memories of mem0: expected its Qdrant folder (collection/NAME/{_STORE}), or {_HISTORY}."
        )
    earlier = _History(history) if history else None
    for store in stores:
        if store.parent.name.endswith(_OF_ENTITIES):
            yield LeftOut(str(store.parent), "mem0's index of names; memlite makes its own", 0)
            continue
        yield from _memories(store, earlier, zone)
    if not stores and earlier:
        yield from _from_history(earlier, zone)


def find(path: Path) -> tuple[list[Path], Path | None]:
    """The stores of Qdrant's collections and the history at a path: a folder around them, or one of the files."""
    if path.is_file():
        tables = _tables(path)
        return ([path] if "points" in tables else []), (path if "history" in tables else None)
    stores = sorted(
        {each for form in ("", "collection/*/", "*/collection/*/", "*/") for each in path.glob(f"{form}{_STORE}")}
    )
    stores = [each for each in stores if "points" in _tables(each)]
    beside = [path / _HISTORY, *sorted(path.glob(f"*/{_HISTORY}")), path.parent / _HISTORY]
    histories = [each for each in beside if each.is_file() and "history" in _tables(each)]
    # A folder beside it counts only where this one has memories at all.
    inside = [each for each in histories if each.parent != path.parent]
    return stores, next(iter(histories if stores else inside), None)


def _tables(path: Path) -> set[str]:
    """The names of a database's tables, none where it is no database."""
    try:
        if not path.is_file() or next(contents(path, len(_SQLITE)), b"") != _SQLITE:
            return set()
        return {name for (name,) in _opened(path).execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    except apsw.Error as error:
        raise FileError(f"cannot read {path}: {error}.") from error


def _opened(path: Path) -> apsw.Connection:
    """A foreign database, to be read only: not even its log is touched."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    log = Path(f"{path}-wal")
    unlogged = "" if log.exists() and log.stat().st_size else "&immutable=1"
    return apsw.Connection(f"file:{quote(str(path.absolute()))}?mode=ro{unlogged}", flags=flags)


class _History:
    """mem0's record of what it added, changed and deleted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = _opened(path)
        columns = {row[1] for row in self._db.execute("PRAGMA table_info(history)")}
        self._order = "coalesce(updated_at, created_at), rowid" if "updated_at" in columns else "rowid"

    def of(self, memory_id: str) -> list[tuple[str | None, str | None, str, Any]]:
        """What happened to a memory, oldest first: (earlier text, text, event, time)."""
        rows = self._db.execute(
            f"""
            SELECT old_memory, new_memory, event, coalesce(updated_at, created_at) FROM history
            WHERE memory_id = ? ORDER BY {self._order}
            """,
            (memory_id,),
        )
        return list(rows)

    def ids(self) -> Iterator[str]:
        """The ids of all memories, in the order in which they came."""
        for (id_,) in self._db.execute("SELECT memory_id FROM history GROUP BY memory_id ORDER BY min(rowid)"):
            yield str(id_)


def _memories(store: Path, history: _History | None, zone: tzinfo | None) -> Iterator[Item]:
    db = _opened(store)
    where = store.parent.name
    rows = db.execute("SELECT rowid, point FROM points ORDER BY rowid")
    try:
        for number, blob in rows:
            place = f"{where}, point {number}"
            try:
                id_, payload = _point(blob)
                yield from _memory(f"{where}, memory {id_}", id_, payload, history, zone)
            except (InvalidInputError, pickle.UnpicklingError) as error:
                yield LeftOut(place, str(error))
    except apsw.Error as error:
        raise FileError(f"cannot read {store} on: {error}.") from error


def _memory(
    place: str, id_: str, payload: Mapping[str, Any], history: _History | None, zone: tzinfo | None
) -> Iterator[Item]:
    text = payload.get("data")
    if not isinstance(text, str) or not text.strip():
        yield LeftOut(place, f"its text is {text!r:.60}")
        return
    created, updated = payload.get("created_at"), payload.get("updated_at")
    fact: dict[str, Any] = {"text": text, "observed_at": None}
    for key, given in (("observed_at", updated or created), ("expires_at", _expiry(payload.get("expiration_date")))):
        at, problems = dated(place, given, zone)
        yield from problems
        if at is not None:
            fact[key] = at
    by = payload.get("actor_id") or payload.get("attributed_to") or payload.get("role")
    if isinstance(by, str) and by.strip():
        fact["by"] = by
    metadata = {key: value for key, value in payload.items() if key not in _OWN}
    try:
        filters.check_metadata(metadata)
        fact["metadata"] = metadata
    except InvalidInputError as error:
        yield LeftOut(place, f"its metadata: {error}")
    scope = {key: str(payload[key]) for key in _SCOPE if payload.get(key) not in (None, "")}
    before, problems = _before(place, text, history.of(id_) if history else [], zone)
    yield from problems
    about: dict[str, Any] = {key: fact[key] for key in ("by", "metadata") if key in fact}
    yield Statement(id_, place, fact, scope, [{**each, **about} for each in before])


def _expiry(given: object) -> object:
    """The end of a day, in UTC, of which mem0 says that a memory counts until then."""
    try:
        return instants.end_of_day(datetimes.date.fromisoformat(given)).isoformat() if isinstance(given, str) else given
    except ValueError:
        return given  # a time, or none that can be read


def _before(
    place: str, text: str, events: list[tuple[str | None, str | None, str, Any]], zone: tzinfo | None
) -> tuple[list[dict[str, Any]], list[LeftOut]]:
    """What a memory said before it said `text`, the oldest first, each with the time it was said."""
    said: list[dict[str, Any]] = []
    problems: list[LeftOut] = []
    for old, new, event, at in events:
        if event == "UPDATE" and isinstance(old, str) and old.strip() and not said:
            said.append({"text": old})  # said when nothing tells
        if event in ("ADD", "UPDATE") and isinstance(new, str) and new.strip():
            found: dict[str, Any] = {"text": new}
            try:
                found["observed_at"] = when(at, zone)
            except InvalidInputError:
                problems.append(undated(place, at))
            if not said or said[-1]["text"] != new:
                said.append(found)
    while said and said[-1]["text"] == text:
        said.pop()
    return [each for each in said if each.get("observed_at") is not None and each["text"] != text], problems


def _from_history(history: _History, zone: tzinfo | None) -> Iterator[Item]:
    """The memories that the history alone tells of; it does not know whose they are."""
    deleted = 0
    for id_ in history.ids():
        events = history.of(id_)
        _, text, event, at = events[-1]
        if event == "DELETE" or not text:
            deleted += 1
            continue
        created = next((each[3] for each in events), at)
        yield from _memory(f"memory {id_}", id_, {"data": text, "created_at": created, "updated_at": at}, history, zone)
    if deleted:
        yield LeftOut(history.path.name, "memories that mem0 had deleted", deleted)


class _Inert:
    """In the place of a class that a pickle names: it keeps the state, and does nothing."""

    state: Any = None

    def __new__(cls, *_: Any, **__: Any) -> _Inert:
        return super().__new__(cls)

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Plain(pickle.Unpickler):
    """Loads plain values, and Qdrant's own classes without their code; refuses everything else."""

    _DATES = {("datetime", name) for name in ("datetime", "date", "timezone", "timedelta")} | {("uuid", "UUID")}

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "qdrant_client" and name.isidentifier():
            return _Inert
        if (module, name) in self._DATES:
            return uuid.UUID if module == "uuid" else getattr(datetimes, name)
        raise pickle.UnpicklingError(f"its pickle asks for {module}.{name}, which no point of Qdrant needs")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("its pickle refers to something outside of it")


def _point(blob: object) -> tuple[str, dict[str, Any]]:
    """A point's id and payload. Raises InvalidInputError and pickle.UnpicklingError."""
    if not isinstance(blob, bytes) or len(blob) > _LARGEST:
        raise InvalidInputError(f"it is a {type(blob).__name__} that is no point, or larger than {_LARGEST} bytes")
    try:
        point = _Plain(io.BytesIO(blob)).load()
        state = point.state if isinstance(point, _Inert) else None
        fields = state.get("__dict__", state) if isinstance(state, Mapping) else None
        if not isinstance(fields, Mapping) or not isinstance(fields.get("payload"), Mapping):
            raise InvalidInputError("it has no payload")
        return str(fields.get("id")), _json(fields["payload"], [_MOST_VALUES])
    except (InvalidInputError, pickle.UnpicklingError):
        raise
    except Exception as error:  # a broken pickle may raise anything
        raise InvalidInputError(f"its pickle is broken: {type(error).__name__}: {error}") from error


def _json(value: Any, left: list[int]) -> Any:
    """A value as JSON has it: times and ids as texts."""
    left[0] -= 1
    if left[0] < 0:
        raise InvalidInputError(f"it has more than {_MOST_VALUES} values")
    if isinstance(value, Mapping):
        return {str(key): _json(each, left) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_json(each, left) for each in value]
    if isinstance(value, (datetimes.date, datetimes.timedelta, uuid.UUID)):
        return value.isoformat() if isinstance(value, datetimes.date) else str(value)
    return value if isinstance(value, (str, int, float, bool, type(None))) else f"[{type(value).__name__}]"
