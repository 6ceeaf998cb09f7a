"""LangGraph: a store in a memory's file, searched by meaning, words and names.

Needs `pip install 'memlite[langgraph]'`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import Any

from memlite.errors import InvalidInputError, NotFoundError, excerpt
from memlite.integrations import missing
from memlite.integrations.transcript import check
from memlite.memory import Memory
from memlite.records import Fact

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
    )

    from memlite.integrations import langgraph_items as items
except ImportError as error:
    raise missing("langgraph", error) from error

_MOST = 1000  # hits of a search, and facts of a page
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
            newest = self._place(op.namespace, op.key).get_all(filters=items.ITEMS, limit=1)
            for fact in newest:
                self._refresh(fact, op.refresh_ttl)
            return Item(**items.parts(newest[0])) if newest else None
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(op)
        raise InvalidInputError(f"the operation is {excerpt(op)}, expected one of LangGraph's.")

    def _search(self, op: SearchOp) -> list[SearchItem]:
        conditions = items.conditions(op)
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
            item = SearchItem(**items.parts(fact), score=score)
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
        found = {tuple(fact.metadata["namespace"]) for fact in self._all(items.ITEMS)}
        kept = {
            each[: op.max_depth] for each in found if all(items.matches(c, each) for c in op.match_conditions or ())
        }
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
        text = items.text(op.value, self._fields if op.index is None else op.index or ()) or op.key
        now = datetime.now(timezone.utc)
        expires = None if op.ttl is None else items.end(now, op.ttl)
        metadata = items.metadata(op, text, now)
        while True:
            kept = place.get_all()
            try:
                if kept:
                    new = text if text != kept[0].text else None
                    metadata["created_at"] = kept[0].metadata.get("created_at", metadata["created_at"])
                    place.update(kept[0].id, text=new, metadata=metadata, expires_at=expires)
                elif not place.remember(text, metadata=metadata, expires_at=expires).facts:
                    continue  # another process has put the same meanwhile
                for older in place.get_all()[1:]:
                    place.delete(older.id)
            except NotFoundError:  # another process has deleted it meanwhile
                continue
            return

    def _place(self, namespace: tuple[str, ...], key: str) -> Memory:
        """The scope of one key: it has one fact, or two where two processes have put it at the same time."""
        if not namespace or not key:
            raise InvalidInputError(f"namespace {excerpt(namespace)} or key {excerpt(key)} is empty, expected texts.")
        user = "/".join(map(items.encoded, namespace))
        return self._memory.scope(user_id=user, agent_id=self._agent, run_id=items.encoded(key))
