"""memlite: the SQLite of agent memory. One file, no server, no network."""

from __future__ import annotations

TYPE_CHECKING = False  # of typing, whose import would be a tenth of what a served command takes
if TYPE_CHECKING:
    from typing import Any

    from memlite.aio import AsyncMemory
    from memlite.errors import (
        DamagedFileError,
        EmbedderMismatchError,
        ExtractionError,
        FileError,
        ForeignFileError,
        FrameworkMissingError,
        InvalidInputError,
        MemliteError,
        ModelError,
        ModelMissingError,
        NewerFileError,
        NotFoundError,
        ReadOnlyError,
        ServerError,
        WrongKeyError,
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
        Exported,
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
        Imported,
        KnownFact,
        LeftOut,
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
        Salvaged,
        Scope,
        Skipped,
        Stats,
        Ttl,
        Turn,
        Undone,
        Why,
        WorkResult,
    )

__version__ = "0.1.0"

__all__ = [
    "AddResult",
    "AsyncMemory",
    "Audit",
    "Checked",
    "Context",
    "DamagedFileError",
    "DeletionPreview",
    "Diff",
    "Embedder",
    "EmbedderMismatchError",
    "Entity",
    "Event",
    "Explain",
    "Exported",
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
    "FrameworkMissingError",
    "Hit",
    "Hits",
    "Imported",
    "InvalidInputError",
    "KnownFact",
    "LeftOut",
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
    "Salvaged",
    "Scope",
    "ServerError",
    "Skipped",
    "Stats",
    "Ttl",
    "Turn",
    "Undone",
    "Why",
    "WorkResult",
    "WrongKeyError",
]


def __getattr__(name: str) -> Any:
    # Imported when asked for: a command that a server answers needs none of it, and would wait for it longest.
    import importlib

    if name in __all__:
        own = {"Memory": "memory", "AsyncMemory": "aio"}
        module = own.get(name) or ("errors" if name.endswith("Error") else "records")
        found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
        return found
    try:
        if not name.startswith("_"):
            return importlib.import_module(f"{__name__}.{name}")  # memlite.dates, without a line that imports it
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
