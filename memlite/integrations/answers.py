"""The answers of a client with the shape of OpenAI's: their text, whole or as it comes in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from memlite.integrations.transcript import member, text_of


class _Streamed:
    """An answer that comes in pieces; what is not told of here is the client's own.

    remember: is told the text, once, when the stream ends or is closed; never where it fails.
    """

    def __init__(self, inner: Any, remember: Callable[[str], None]) -> None:
        self._inner, self._remember, self._over = inner, remember, False
        self._text: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _end(self) -> None:
        over, self._over = self._over, True
        if not over:
            self._remember("".join(self._text))


class Stream(_Streamed):
    """For a client that is waited for."""

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            piece = next(self._inner)
        except StopIteration:
            self._end()
            raise
        except Exception:  # whatever the client raises: an answer that failed is not remembered
            self._over = True
            raise
        self._text.append(answer_text(piece, "delta"))
        return piece

    def close(self) -> None:
        self._inner.close()
        self._end()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


class AsyncStream(_Streamed):
    """For a client of asyncio."""

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        try:
            piece = await anext(self._inner)
        except StopAsyncIteration:
            await asyncio.to_thread(self._end)
            raise
        except Exception:  # as above
            self._over = True
            raise
        self._text.append(answer_text(piece, "delta"))
        return piece

    async def close(self) -> None:
        await self._inner.close()
        await asyncio.to_thread(self._end)

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.close()


def answer_text(given: Any, part: str) -> str:
    """The text of the first choice of an answer, or of a piece of one."""
    first = next((each for each in member(given, "choices") or () if not member(each, "index")), None)
    return text_of(member(member(first, part), "content"))
