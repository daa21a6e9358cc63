"""Read what somebody else's HTTP server answers, within a size and a time that it cannot stretch."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

import httpx2

IDENTITY: Final = {"accept-encoding": "identity"}


class AnswerTooLarge(Exception):
    """Say that an answer is larger than is read, or encoded, so that its size is not what it says."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer that was read to its end."""

    status: int
    content: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status is any 2xx."""
        return 200 <= self.status < 300


async def ask(
    client: httpx2.AsyncClient, method: str, address: str, *, seconds: float, most_bytes: int, **more: Any
) -> HttpAnswer:
    """Ask once; the whole of it, from the connection to the last byte, has that many seconds.

    Args:
        most_bytes: of the body, as it comes over the wire; what is left is not read.
        more: `json`, `params`, `content` as the client takes them.

    Raises:
        AnswerTooLarge: the body is larger, or encoded though nobody asked for that.
        TimeoutError: it took longer, however often a byte came.
        httpx2.HTTPError: it could not be reached.
    """
    async with asyncio.timeout(seconds), client.stream(method, address, headers=IDENTITY, **more) as response:
        if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            raise AnswerTooLarge("an encoded body, which nobody asked for")
        content = bytearray()
        async for piece in response.aiter_raw():
            content += piece
            if len(content) > most_bytes:
                raise AnswerTooLarge(f"over {most_bytes} bytes")
        return HttpAnswer(response.status_code, bytes(content))
