"""A memory in the shapes that agent frameworks ask for, a module for each framework.

    memlite.integrations.langchain       a retriever and a chat history
    memlite.integrations.langgraph       a store
    memlite.integrations.llamaindex      a memory of a chat engine or an agent
    memlite.integrations.openai_agents   a session
    memlite.integrations.pydantic_ai     a capability of an agent
    memlite.integrations.openai_client   any client with the shape of OpenAI's, which needs no package

Nothing else of memlite imports them. (The folder also holds the LoRA adapter of the default extractor, a GGUF file.)
"""

from __future__ import annotations

from memlite.errors import FrameworkMissingError


def missing(extra: str, error: ImportError) -> FrameworkMissingError:
    """The error that says how to install what an adapter needs."""
    return FrameworkMissingError(
        f"this adapter needs a package that could not be imported ({error}): pip install 'memlite[{extra}]'"
    )
