"""Memory and AsyncMemory with mem0's calls, each a translation of one of memlite's."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import memlite
from memlite import arguments, conversation, instants
from memlite.errors import InvalidInputError, NotFoundError, excerpt
from memlite.mem0 import config as configuration
from memlite.mem0 import shapes
from memlite.mem0.config import MemoryConfig
from memlite.mem0.filters import IDS, id_text, read_filters
from memlite.mem0.notices import tell
from memlite.records import AddResult, Fact, Receipt
from memlite.rerank import POOL, open_reranker, reranked

PROCEDURAL = "procedural_memory"

_IDENTITY = (*IDS, "actor_id")  # say whose memory it is, which metadata may not
_POOL = 20  # facts that are scored at least, so that a score is the same for every top_k up to it


class MemoryNotFoundError(NotFoundError, ValueError):
    """No memory has this id. mem0 raises a ValueError."""


class Memory:
    """mem0's `Memory` on a memlite file; `memlite` is the `memlite.Memory` behind it, for all that mem0 has not.

    config: a dict, a MemoryConfig, or None: then the file is MEMLITE_DB, else `memory.db` in the platform's data
    folder, as for the command line. Raises InvalidInputError, and what `memlite.Memory` raises.
    """

    def __init__(self, config: MemoryConfig | Mapping[str, Any] | None = None) -> None:
        settings = configuration.read(config)
        self.config = config
        self.custom_instructions = settings.instructions
        self.reranker = open_reranker(settings.reranker)
        self.memlite = memlite.Memory(settings.path, extractor=settings.extractor, embedder=settings.embedder)
        # Notes that were told already: what somebody has switched off, nobody needs to tell him.
        self._noted = set(self.memlite.stats().notes) if settings.embedder is False else set()

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> Memory:
        """A memory by mem0's configuration (see `MemoryConfig`); a Mem0Warning names what of it has no effect."""
        return cls(config_dict)

    def add(
        self,
        messages: conversation.Given,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        timestamp: Any = None,
        expiration_date: Any = None,
        infer: bool = True,
        memory_type: str | None = None,
        prompt: str | None = None,
        llm: Any = None,
    ) -> dict[str, Any]:
        """Learn facts from messages: {"results": [{"id", "memory", "event": "ADD"}]}.

        At least one id says whose they are. timestamp: when it was said (Unix seconds, a datetime, ISO 8601).
        expiration_date: the last day, in UTC, on which they count. prompt: what to look for, instead of the
        custom_instructions. infer=False: each message but those of a system is a memory, word for word; one that is
        known already has the event "NONE". memory_type="procedural_memory": all messages are one memory, in their order
        and word for word. llm: refused, the configuration names the model.

        Where the model fails, the messages are stored and queued: the dict has a status and a reason besides, and a
        Mem0Warning says so. Raises InvalidInputError; then nothing is stored.
        """
        if llm is not None:
            raise InvalidInputError("llm= is no model of memlite's: name a GGUF file in the configuration's llm.")
        if memory_type not in (None, PROCEDURAL):
            raise InvalidInputError(f"memory_type is {excerpt(memory_type)}, expected {PROCEDURAL!r} or None.")
        ids = _ids(user_id=user_id, agent_id=agent_id, run_id=run_id)
        own = _own(metadata, {})
        expires = own.pop("expiration_date", None) if expiration_date is None else expiration_date
        about: dict[str, Any] = {
            **ids,
            "observed_at": shapes.instant(timestamp, "timestamp"),
            "expires_at": shapes.expiry(expires),
        }
        messages = _parts(messages)
        if memory_type == PROCEDURAL:
            return self._add_procedure(messages, {**own, "memory_type": PROCEDURAL}, about, prompt)
        if not infer:
            return self._add_raw(messages, own, about)
        instructions = prompt or self.custom_instructions
        result = self.memlite.add(messages, metadata=own, instructions=instructions, **about)
        return self._told(result, [_added(fact.id, fact.text) for fact in result.facts])

    def _add_raw(self, messages: Any, own: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
        facts: list[dict[str, Any]] = []
        for turn in conversation.read(messages, (0, 0), None):
            if turn.role != "system":
                actor = {"actor_id": turn.name} if turn.name else {}
                metadata = {**own, "role": turn.role, **actor}
                said = instants.local(turn.observed_at, turn.observed_offset) if turn.observed_at else None
                who = turn.name or turn.role
                facts.append({"text": turn.content, "by": who, "metadata": metadata, "observed_at": said})
        if not facts:
            return {"results": []}
        result = self.memlite.remember(facts, **about)
        new = {fact.text: fact.id for fact in result.facts}
        known = {each.text: each.existing for each in result.skipped}
        results = []
        for fact in facts:
            text = fact["text"].strip()
            added = new.pop(text, None)
            if added:
                known.setdefault(text, added)
            shown = _added(added or known[text], fact["text"]) | {"event": "ADD" if added else "NONE"}
            results.append(shown | {"actor_id": fact["metadata"].get("actor_id"), "role": fact["metadata"]["role"]})
        return self._told(result, results)

    def _add_procedure(
        self, messages: Any, own: dict[str, Any], about: dict[str, Any], prompt: str | None
    ) -> dict[str, Any]:
        if prompt:
            tell("prompt: a procedural memory is what was said, word for word, and no model writes it anew")
        turns = conversation.read(messages, (0, 0), None)
        text = "\n".join(f"{turn.name or turn.role}: {turn.content}" for turn in turns)
        result = self.memlite.remember({"text": text, "metadata": own}, kind="procedural", **about)
        if result.facts:
            return self._told(result, [_added(result.facts[0].id, text)])
        return self._told(result, [_added(result.skipped[0].existing, text) | {"event": "NONE"}])

    def get(self, memory_id: str) -> dict[str, Any] | None:
        """A memory by its id, None where there is none."""
        fact = self._fact(memory_id)
        return None if fact is None else shapes.memory(fact)

    def get_all(
        self,
        *,
        filters: Mapping[str, Any] | None = None,
        top_k: int = 20,
        show_expired: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """The memories that the filters admit, the newest first: {"results": [...]}, at most top_k of any number.

        filters: ids, at least one of them, and conditions on metadata. Raises InvalidInputError.
        """
        _refuse(kwargs, "get_all")
        ids, conditions = read_filters(filters)
        left = _top_k(top_k, arguments.MOST_KEPT)
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while len(found) < left:
            page = self.memlite.get_all(
                **ids,
                filters=conditions,
                limit=arguments.MOST if show_expired else min(left, arguments.MOST),
                cursor=cursor,
                past=show_expired,
            )
            for fact in page:
                if _admitted(fact, show_expired):
                    found.append(shapes.memory(fact))
                    del found[-1]["score"]
            cursor = page.cursor
            if cursor is None:
                break
        return {"results": found[:left]}

    def search(
        self,
        query: str,
        *,
        top_k: int = 20,
        filters: Mapping[str, Any] | None = None,
        threshold: float = 0.1,
        rerank: bool = False,
        explain: bool = False,
        reference_date: Any = None,
        show_expired: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """The memories that answer a query, best first: {"results": [{"id", "memory", "score", ...}]}.

        filters: ids, at least one of them, and conditions on metadata. top_k: 0 to 1,000. threshold: the least score, 0
        to 1: how near a memory is by meaning, words or names (see docs/mem0.md). rerank: the configured reranker orders
        the best 50, and gives each a rerank_score. explain: `score_details` for each. reference_date: from when on the
        query counts "last week". show_expired: also those whose expiration_date is past. Raises InvalidInputError.
        """
        _refuse(kwargs, "search")
        ids, conditions = read_filters(filters)
        count = _top_k(top_k, arguments.MOST)
        least = 0.1 if threshold is None else arguments.probability("threshold", threshold)
        if not isinstance(query, str) or not query.strip():
            raise InvalidInputError(f"query is {excerpt(query)}, expected a text.")
        if rerank and self.reranker is None:
            raise InvalidInputError("rerank=True, but the configuration names no reranker: add one, or leave it out.")
        most = max(count, POOL if rerank else _POOL)
        hits = self.memlite.search(
            query,
            **ids,
            limit=min(4 * most, arguments.MOST) if show_expired else most,  # with what was replaced, which is dropped
            filters=conditions,
            explain=True,
            include=["facts"],
            past=True if show_expired else None,
            asked_at=shapes.instant(reference_date, "reference_date"),
        )
        self._note(hits.notes)
        found = [hit for hit in hits if isinstance(hit.record, Fact) and _admitted(hit.record, show_expired)]
        near = {hit.id: score for hit, score in zip(found, shapes.closeness(found)) if score >= least}
        found = [hit for hit in found if hit.id in near]
        if self.reranker is not None and rerank:
            found = reranked(self.reranker, query, found)
        results = []
        for hit in found[:count]:
            assert isinstance(hit.record, Fact)
            shown = shapes.memory(hit.record, near[hit.id])
            if rerank:
                shown["rerank_score"] = hit.score
            if explain:
                shown["score_details"] = shapes.details(hit, near[hit.id], least)
            results.append(shown)
        return {"results": results}

    def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: Any = ...,
        data: str | None = None,
    ) -> dict[str, str]:
        """Change a memory; what is not given stays, also in its metadata. expiration_date=None takes the date away.

        data: the old name of text. Raises MemoryNotFoundError, and InvalidInputError where nothing is given or another
        memory says the same.
        """
        if data is not None:
            warnings.warn("data= is the old name of text=", DeprecationWarning, stacklevel=2)
            text = data if text is None else text
        if text is None and metadata is None and expiration_date is ...:
            raise InvalidInputError("nothing to update was given, expected text, metadata or expiration_date.")
        fact = self._known(memory_id)
        own = _own(metadata, {**fact.scope.given(), **fact.metadata})
        if expiration_date is ...:
            expiration_date = own.pop("expiration_date", ...)
        self.memlite.update(
            fact.id,
            text=text,
            metadata={**fact.metadata, **own} if own else None,
            expires_at=expiration_date if expiration_date is ... else shapes.expiry(expiration_date),
        )
        return {"message": "Memory updated successfully!"}

    def delete(self, memory_id: str) -> dict[str, str]:
        """Delete a memory for good: its words are gone from the history, and from the messages it was learnt from.

        Raises MemoryNotFoundError.
        """
        _tell_of(self.memlite.delete(self._known(memory_id).id))
        return {"message": "Memory deleted successfully!"}

    def delete_all(
        self, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> dict[str, str]:
        """Delete for good all memories and messages that have these ids, at least one. Raises InvalidInputError."""
        _tell_of(self.memlite.delete_all(**_ids(user_id=user_id, agent_id=agent_id, run_id=run_id)))
        return {"message": "Memories deleted successfully!"}

    def history(self, memory_id: str) -> list[dict[str, Any]]:
        """What happened to a memory, oldest first; of a deleted one without words, of an unknown one nothing.

        event: mem0's ADD, UPDATE, DELETE, or one that only memlite has (SUPERSEDE, EXPIRE, ARCHIVE, RESTORE, MERGE).
        """
        whole = _whole(memory_id)
        try:
            events = self.memlite.history(whole) if whole else []
        except NotFoundError:
            return []
        fact = self._fact(memory_id)
        return shapes.history(whole, events, {} if fact is None else fact.metadata)

    def reset(self) -> None:
        """Delete everything in the file for good."""
        _tell_of(self.memlite.reset(everything=True))

    def close(self) -> None:
        """Close the file and free the models; nothing else may be called afterwards."""
        self.memlite.close()

    def chat(self, query: str) -> None:
        """Not there, as in mem0."""
        raise NotImplementedError("chat() is not there: search(), and give what it returns to your model.")

    @property
    def project(self) -> Project:
        """What mem0's platform keeps of a project: here the custom_instructions of this object."""
        return Project(self)

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _told(self, result: AddResult, results: list[dict[str, Any]]) -> dict[str, Any]:
        """What add() returns; what is off is told as well, for nobody looks for it in mem0's dict."""
        told: dict[str, Any] = {"results": results}
        if result.status == "queued":
            told |= {"status": result.status, "reason": result.reason}
            tell(f"the messages are stored and wait to be learnt from: {result.reason}")
        self._note(result.notes)
        return told

    def _note(self, notes: Sequence[str]) -> None:
        """Tell what was off in a call, each thing once."""
        for note in notes:
            if note not in self._noted:
                self._noted.add(note)
                tell(note)

    def _fact(self, memory_id: object) -> Fact | None:
        """The fact with this id, whole; None where there is none."""
        whole = _whole(memory_id)
        try:
            found = self.memlite.get(whole) if whole else None
        except NotFoundError:
            return None
        return found if isinstance(found, Fact) else None

    def _known(self, memory_id: object) -> Fact:
        fact = self._fact(memory_id)
        if fact is None:
            raise MemoryNotFoundError(f"no memory has the id {excerpt(memory_id)}; get_all() and search() return ids.")
        return fact


class Project:
    """mem0's `Memory.project`, of which open source has nothing."""

    def __init__(self, memory: Memory) -> None:
        self._of = memory

    def update(
        self,
        custom_instructions: str | None = None,
        custom_categories: list[Any] | None = None,
        multilingual: bool | None = None,
        decay: bool | None = None,
    ) -> dict[str, str]:
        """Give the memory other custom_instructions. Raises InvalidInputError for what only mem0's platform does."""
        platform = {"custom_categories": custom_categories, "multilingual": multilingual, "decay": decay}
        if asked := [name for name, value in platform.items() if value is not None]:
            raise InvalidInputError(
                f"{', '.join(asked)}: only mem0's platform has it. Categories are metadata; facts are in the language "
                "in which they were said; `memlite.search(half_life=...)` ranks lower what was said long ago."
            )
        self._of.custom_instructions = arguments.text("custom_instructions", custom_instructions) or None
        return {"message": "Project updated successfully!"}


def _ids(**given: object) -> dict[str, Any]:
    """The ids that are given; memlite checks them."""
    return {name: id_text(value) for name, value in given.items() if value is not None}


def _own(metadata: object, existing: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata without what says whose memory it is. existing: what it has, which may be given back as it is."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise InvalidInputError(f"metadata is {excerpt(metadata)}, expected a dict.")
    if other := [key for key in _IDENTITY if key in metadata and metadata[key] != existing.get(key)]:
        tell(f"metadata has {', '.join(other)}, which are left aside: the ids are parameters of add()")
    return {key: value for key, value in metadata.items() if key not in _IDENTITY}


def _parts(messages: Any) -> Any:
    """Messages whose content is one part, as mem0 takes an image, in OpenAI's form: a list of parts."""
    several = [messages] if isinstance(messages, Mapping) else messages
    if not isinstance(several, list):
        return messages
    return [
        {**each, "content": [each["content"]]}
        if isinstance(each, Mapping) and isinstance(each.get("content"), Mapping)
        else each
        for each in several
    ]


def _added(id_: str | None, text: str) -> dict[str, Any]:
    return {"id": id_, "memory": text, "event": "ADD"}


def _tell_of(receipt: Receipt) -> None:
    """Say where something of what was deleted is left."""
    if not receipt.clean:
        places = [place.name for place in receipt.checked if place.after]
        tell("something of what was deleted is left: " + "; ".join((*places, *receipt.notes)))


def _whole(memory_id: object) -> str:
    """A whole id as memlite writes it, with or without hyphens; "" for what is none. The beginning of one is not
    enough: it could be another's.
    """
    try:
        return uuid.UUID(str(memory_id)).hex
    except ValueError:
        return ""


def _top_k(value: object, most: int) -> int:
    return 0 if value == 0 and not isinstance(value, bool) else arguments.count("top_k", value, most)


def _refuse(unknown: Mapping[str, object], verb: str) -> None:
    """Keywords that mem0 swallows, whatever they ask for."""
    if not unknown:
        return
    ids = [name for name in unknown if name in IDS]
    hint = "the ids belong into filters={...}" if ids else "limit is called top_k" if "limit" in unknown else ""
    names = ", ".join(map(str, unknown))
    raise InvalidInputError(f"{verb}() does not know {names}" + (f": {hint}." if hint else "."))


def _expired(fact: Fact) -> bool:
    """Whether a fact's day is over, and nothing had replaced it before."""
    ends = fact.expires_at
    return ends is not None and ends <= instants.local(instants.now()) and (not fact.valid_to or fact.valid_to >= ends)


def _admitted(fact: Fact, show_expired: bool) -> bool:
    """Whether a fact that was found is shown: what has expired only where it is asked for, and nothing else then that
    is past.
    """
    return fact.current or _expired(fact) if show_expired else not _expired(fact)
