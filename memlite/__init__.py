"""memlite: the SQLite of agent memory. One file, no server, no network."""

from typing import TYPE_CHECKING, Any

from memlite.errors import (
    EmbedderMismatchError,
    ExtractionError,
    FileError,
    ForeignFileError,
    InvalidInputError,
    MemliteError,
    ModelError,
    ModelMissingError,
    NewerFileError,
    NotFoundError,
    ReadOnlyError,
)
from memlite.memory import Memory
from memlite.records import (
    AddResult,
    Audit,
    Checked,
    Context,
    DeletionPreview,
    Diff,
    Embedder,
    Entity,
    Event,
    Explain,
    ExtractedFact,
    Extraction,
    ExtractionRequest,
    Extractor,
    Fact,
    Fault,
    FileCheck,
    Finding,
    Fixed,
    Hit,
    Hits,
    KnownFact,
    Matched,
    Matching,
    Message,
    NamedEntity,
    Page,
    Pruned,
    Receipt,
    Reextracted,
    Repaired,
    Reranker,
    ResolvedDate,
    Rewriter,
    Scope,
    Skipped,
    Stats,
    Ttl,
    Turn,
    Undone,
    Why,
    WorkResult,
)

if TYPE_CHECKING:
    from memlite.aio import AsyncMemory

__version__ = "0.1.0"

__all__ = [
    "AddResult",
    "AsyncMemory",
    "Audit",
    "Checked",
    "Context",
    "DeletionPreview",
    "Diff",
    "Embedder",
    "EmbedderMismatchError",
    "Entity",
    "Event",
    "Explain",
    "ExtractedFact",
    "Extraction",
    "ExtractionError",
    "ExtractionRequest",
    "Extractor",
    "Fact",
    "Fault",
    "FileCheck",
    "FileError",
    "Finding",
    "Fixed",
    "ForeignFileError",
    "Hit",
    "Hits",
    "InvalidInputError",
    "KnownFact",
    "Matched",
    "Matching",
    "MemliteError",
    "Memory",
    "Message",
    "ModelError",
    "ModelMissingError",
    "NamedEntity",
    "NewerFileError",
    "NotFoundError",
    "Page",
    "Pruned",
    "ReadOnlyError",
    "Receipt",
    "Reextracted",
    "Repaired",
    "Reranker",
    "ResolvedDate",
    "Rewriter",
    "Scope",
    "Skipped",
    "Stats",
    "Ttl",
    "Turn",
    "Undone",
    "Why",
    "WorkResult",
]


def __getattr__(name: str) -> Any:
    # asyncio is a quarter of the import time, and most programs that remember are not asynchronous.
    if name == "AsyncMemory":
        from memlite.aio import AsyncMemory

        return AsyncMemory
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
