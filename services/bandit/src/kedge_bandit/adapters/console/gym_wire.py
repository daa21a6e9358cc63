"""Ask the Gym over the wire for what can be played, and for a step of an episode; no credential goes there."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx2

from kedge_bandit.adapters.http_answer import AnswerTooLarge, ask

SECONDS: Final = 30.0
"""An episode of some hundred steps is played before the first answer."""
MOST_BYTES: Final = 16 * 1024 * 1024


class GymRefused(Exception):
    """Say why the Gym shows nothing, as it said so; `away` where it does not answer."""

    def __init__(self, sentence: str, *, away: bool = False) -> None:
        super().__init__(sentence)
        self.away = away


@dataclass(frozen=True, slots=True)
class Gym:
    """The Gym at an http(s) address; empty: there is none."""

    address: str

    async def offered(self) -> list[Any]:
        """List the environments that can be played. Raises GymRefused."""
        found: list[Any] = await self._get("/environments", [])
        return found

    async def episode(self, query: Sequence[tuple[str, str]]) -> Any:
        """Show one policy's episode at a step. Raises GymRefused."""
        return await self._get("/episode", query)

    async def _get(self, path: str, query: Sequence[tuple[str, str]]) -> Any:
        if not self.address:
            raise GymRefused("No Gym is set up.", away=True)
        try:
            async with httpx2.AsyncClient(timeout=SECONDS, trust_env=False) as client:
                address = self.address.rstrip("/") + path
                asked = ask(client, "GET", address, seconds=SECONDS, most_bytes=MOST_BYTES, params=list(query))
                answer = await asked
                body = json.loads(answer.content)
        except (AnswerTooLarge, TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            raise GymRefused(f"The Gym does not answer at {self.address}.", away=True) from error
        if not answer.is_success:
            raise GymRefused(str(body.get("detail", "the Gym gave no reason")))
        return body
