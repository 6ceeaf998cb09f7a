"""What is derived and does not fit the rows that it comes from: orphans, and vectors missing or of another model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memlite import repair
from memlite.audit.findings import finding, place
from memlite.db import Database
from memlite.errors import EmbedderMismatchError, ModelError
from memlite.records import AuditKind, Finding, Scope
from memlite.semantic import Semantic

KINDS: tuple[AuditKind, ...] = ("orphans", "vectors")

MENDS = "it is put right as `memlite doctor --repair` does; it is derived, so there is nothing to undo"
ANEW = "all vectors are made anew as `memlite reembed` does, which `memlite reembed --rollback` takes back"
MADE = "they are made as `memlite work` does; there is nothing to undo"


def look(database: Database, semantic: Semantic, kinds: Sequence[AuditKind], scope: Scope | None) -> Iterator[Finding]:
    """Orphans and faulty vectors of the whole file; of a scope, the vectors that are missing there.

    Raises FileError where the pages of the file are damaged.
    """
    if scope is None and set(kinds) & set(KINDS):
        for fault in repair.look(database):
            kind: AuditKind = "vectors" if fault.place == "vectors" else "orphans"
            if kind in kinds:
                why = f"{fault.count} {fault.what}"
                yield finding(kind, why, MENDS if fault.mendable else "", about=fault.place + fault.what)
    if "vectors" not in kinds:
        return
    if scope is None and (other := _of_another_model(semantic)):
        yield finding("vectors", other, ANEW, about="model")
        return
    with database.read() as db:
        missing = semantic.missing(db, *place(db, scope)) if semantic.name() else 0
    if missing:
        yield finding("vectors", f"{missing} row(s) have no vector yet", MADE, about="missing")


def _of_another_model(semantic: Semantic) -> str | None:
    """How the embedder of the file's vectors and the one that is here differ, None where they agree or nobody knows."""
    try:
        if semantic.begun():
            semantic.embed(["memlite"])
    except EmbedderMismatchError as error:
        return str(error)
    except ModelError:
        return None
    return None


def mend(database: Database, semantic: Semantic, chosen: Sequence[Finding], scope: Scope | None) -> tuple[str, ...]:
    """Make anew what findings say is missing or out of step; return why something could not be."""
    if scope is None and any(each.fix == MENDS for each in chosen):
        repair.mend(database, lambda line: None)
    try:
        if any(each.fix == ANEW for each in chosen):
            semantic.rebuild()
        elif any(each.kind in KINDS for each in chosen):
            semantic.complete()
    except ModelError as error:
        return (str(error),)
    return ()
