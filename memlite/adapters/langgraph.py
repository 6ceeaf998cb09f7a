"""LangGraph: a store in a memory's file, searched by meaning, words and names.

Needs `pip install 'memlite[langgraph]'`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import Any, cast
from urllib.parse import quote

from memlite.adapters import missing
from memlite.adapters.transcript import check
from memlite.errors import InvalidInputError, NotFoundError, excerpt
from memlite.memory import Memory
from memlite.records import Fact
from memlite.words import digest

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        get_text_at_path,
    )
except ImportError as error:
    raise missing("langgraph", error) from error

_MOST = 1000  # hits of a search, and facts of a page
_VALUE = "value."  # what the members of a value begin with in a fact's metadata
_ITEMS = {"namespace": {"exists": True}}  # which facts of the store's agent are items
_REFRESHED = 20  # parts of a time to live, of which one has to be over before a read begins it anew


class MemliteStore(BaseStore):
    """A store for LangGraph. An item is a fact: its text is what is searched, its namespace the user it belongs to, its
    key the run. An item that is put again keeps its earlier texts in the history; a deleted one is gone for good.

    agent_id: names the store; other stores of the file do not see it. fields: the paths of a value that are searched,
    as in `index=` of `put`; by default all its texts. ttl: how long items last unless `put` says so, in minutes
    (`{"default_ttl": 60, "refresh_on_read": True}`). An expired item is not returned, and
    `Memory.prune` deletes it. Values are what JSON can write, whole numbers up to 64 bits. Each operation of a batch is
    a transaction of its own, what reads before what writes. Raises InvalidInputError.

        store = MemliteStore(Memory("memory.db"))
        store.put(("memories", "ana"), "work", {"text": "Ana works at Feedzai in Porto."})
        store.search(("memories", "ana"), query="Where does she work?")
    """

    supports_ttl = True

    def __init__(
        self,
        memory: Memory,
        *,
        agent_id: str = "langgraph",
        fields: Sequence[str] | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        super().__init__()
        self._memory, self._agent = check(memory), agent_id
        self._fields = fields
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """The results of operations, in their order. Of several puts of one key the last one counts."""
        given = list(ops)
        results = [None if isinstance(op, PutOp) else self._read(op) for op in given]
        for put in {(op.namespace, op.key): op for op in given if isinstance(op, PutOp)}.values():
            self._put(put)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The same as `batch`, in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    # -- reading -------------------------------------------------------------------------------------

    def _read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            newest = self._place(op.namespace, op.key).get_all(limit=1)
            for fact in newest:
                self._refresh(fact, op.refresh_ttl)
            return Item(**_parts(newest[0])) if newest else None
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(op)
        raise InvalidInputError(f"the operation is {excerpt(op)}, expected one of LangGraph's.")

    def _search(self, op: SearchOp) -> list[SearchItem]:
        conditions = _conditions(op)
        last = op.offset + op.limit
        if op.limit < 0 or op.offset < 0 or (op.query and last > _MOST):
            raise InvalidInputError(
                f"limit {op.limit} and offset {op.offset} are beyond 0 to {_MOST} hits of a search."
            )
        found: Iterable[tuple[Fact, float | None]]
        if op.query and last:
            found = self._answering(op.query, last, conditions)
        else:
            found = ((fact, None) for fact in self._all(conditions))
        once: dict[tuple[tuple[str, ...], str], SearchItem] = {}
        for fact, score in found:
            if len(once) >= last:
                break
            item = SearchItem(**_parts(fact), score=score)
            if (item.namespace, item.key) not in once:
                once[item.namespace, item.key] = item
                if len(once) > op.offset:
                    self._refresh(fact, op.refresh_ttl)
        return list(once.values())[op.offset : last]

    def _answering(self, query: str, limit: int, conditions: dict[str, Any]) -> Iterator[tuple[Fact, float]]:
        """The facts that answer a query. A search returns one of those with equal texts; here each is an item."""
        hits = self._memory.search(
            query, agent_id=self._agent, limit=limit, filters=conditions, include=["facts"], past=False
        )
        texts = [hit.record.metadata["text"] for hit in hits]
        same: dict[str, list[Fact]] = {}
        for fact in self._all({"AND": [conditions, {"text": {"in": texts}}]}) if hits else ():
            same.setdefault(fact.metadata["text"], []).append(fact)
        for hit in hits:
            for fact in same.get(hit.record.metadata["text"], ()):
                yield fact, hit.score

    def _all(self, conditions: dict[str, Any]) -> Iterator[Fact]:
        """Every item of this store that meets conditions, the one put first last."""
        cursor = None
        while True:
            page = self._memory.get_all(agent_id=self._agent, filters=conditions, limit=_MOST, cursor=cursor)
            yield from page
            cursor = page.cursor
            if cursor is None:
                return

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        found = {tuple(fact.metadata["namespace"]) for fact in self._all(_ITEMS)}
        kept = {each[: op.max_depth] for each in found if all(_matches(c, each) for c in op.match_conditions or ())}
        return list(islice(sorted(kept), op.offset, op.offset + op.limit))

    def _refresh(self, fact: Fact, wanted: bool) -> None:
        """Begin an item's time to live anew, unless it has hardly begun: every time is an event in the history."""
        minutes = fact.metadata["ttl"]
        if not wanted or minutes is None or fact.expires_at is None:
            return
        whole = timedelta(minutes=minutes)
        if fact.expires_at - datetime.now(timezone.utc) < whole - whole / _REFRESHED:
            try:
                self._memory.update(fact.id, expires_at=datetime.now(timezone.utc) + whole)
            except NotFoundError:  # deleted since it was read
                pass

    # -- writing -------------------------------------------------------------------------------------

    def _put(self, op: PutOp) -> None:
        place = self._place(op.namespace, op.key)
        if op.value is None:
            place.delete_all(everything=True)
            return
        if not all(isinstance(name, str) for name in op.value):
            raise InvalidInputError(f"the value {excerpt(dict(op.value))} has names that are no texts.")
        text = self._text(op)
        now = datetime.now(timezone.utc)
        expires = None if op.ttl is None else now + timedelta(minutes=op.ttl)
        metadata = {
            **{f"{_VALUE}{name}": each for name, each in op.value.items()},
            "namespace": list(op.namespace),
            "under": ["/".join(map(_encoded, op.namespace[:depth])) for depth in range(1, len(op.namespace) + 1)],
            "key": op.key,
            "text": digest(text),
            "ttl": op.ttl,
            "created_at": now.isoformat(),  # a changed fact has a new row
            "updated_at": now.isoformat(),
        }
        while True:
            kept = place.get_all()
            try:
                if kept:
                    new = text if text != kept[0].text else None
                    metadata["created_at"] = kept[0].metadata["created_at"]
                    place.update(kept[0].id, text=new, metadata=metadata, expires_at=expires)
                elif not place.remember(text, metadata=metadata, expires_at=expires).facts:
                    continue  # another process has put the same meanwhile
                for older in place.get_all()[1:]:
                    place.delete(older.id)
            except NotFoundError:  # another process has deleted it meanwhile
                continue
            return

    def _text(self, op: PutOp) -> str:
        """What is searched of an item; its key where that is nothing."""
        paths = self._fields if op.index is None else op.index or ()
        value = dict(cast(Mapping[str, Any], op.value))
        texts = (
            list(_texts(value)) if paths is None else [text for path in paths for text in get_text_at_path(value, path)]
        )
        return "\n".join(text for text in texts if text.strip()) or op.key

    def _place(self, namespace: tuple[str, ...], key: str) -> Memory:
        """The scope of one key: it has one fact, or two where two processes have put it at the same time."""
        if not namespace or not key:
            raise InvalidInputError(f"namespace {excerpt(namespace)} or key {excerpt(key)} is empty, expected texts.")
        user = "/".join(map(_encoded, namespace))
        return self._memory.scope(user_id=user, agent_id=self._agent, run_id=_encoded(key))


def _encoded(label: str) -> str:
    """A label so that it ends nowhere but at its end, and no blank is trimmed of it."""
    return re.sub(r"[%/\s]", lambda found: quote(found[0], safe=""), label)


def _parts(fact: Fact) -> dict[str, Any]:
    about = fact.metadata
    return {
        "namespace": tuple(about["namespace"]),
        "key": about["key"],
        "value": {name.removeprefix(_VALUE): each for name, each in about.items() if name.startswith(_VALUE)},
        "created_at": datetime.fromisoformat(about["created_at"]),
        "updated_at": datetime.fromisoformat(about["updated_at"]),
    }


def _texts(value: Any) -> Iterator[str]:
    """The texts in a value; of numbers and booleans nothing, nobody asks for them in words."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)


def _conditions(op: SearchOp) -> dict[str, Any]:
    """The namespace and filter of a search as conditions on metadata."""
    under = {"under": {"contains": "/".join(map(_encoded, op.namespace_prefix))}} if op.namespace_prefix else {}
    return {
        **_ITEMS,
        **under,
        **{f"{_VALUE}{name}": _operators(name, wanted) for name, wanted in (op.filter or {}).items()},
    }


def _operators(name: str, wanted: Any) -> Any:
    if not isinstance(wanted, Mapping):
        return wanted
    if not all(isinstance(each, str) and each.startswith("$") for each in wanted):
        raise InvalidInputError(
            f"the filter on {excerpt(name)} is {excerpt(wanted)}, expected a text, number, boolean or null, or "
            "operators like $gt: members of members cannot be filtered by."
        )
    return {each.removeprefix("$"): value for each, value in wanted.items()}


def _matches(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    count = len(condition.path)
    part = namespace[:count] if condition.match_type == "prefix" else namespace[max(0, len(namespace) - count) :]
    return len(part) == count and all(wanted in ("*", label) for wanted, label in zip(condition.path, part))
