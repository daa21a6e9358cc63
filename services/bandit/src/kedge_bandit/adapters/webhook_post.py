"""Post a message to a receiver: one attempt, never redirected, none of the answer's body read."""

import asyncio
from dataclasses import dataclass
from typing import Final

import httpx2

from kedge_bandit.application.tell import Answered

SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class HttpPost:
    """Posts over one client, which keeps connections; `new_client` makes it."""

    client: httpx2.AsyncClient
    seconds: float = SECONDS

    async def __call__(self, url: str, body: bytes, headers: dict[str, str]) -> Answered:
        """Send one, all of it within `seconds`; any 2xx takes it."""
        try:
            async with (
                asyncio.timeout(self.seconds),
                self.client.stream("POST", url, content=body, headers=headers) as response,
            ):
                return Answered(str(response.status_code), response.is_success)
        except (TimeoutError, httpx2.TimeoutException):
            return Answered(f"no answer within {self.seconds:g} s", is_taken=False)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            return Answered(f"not reached: {type(error).__name__}", is_taken=False)


def new_client() -> httpx2.AsyncClient:
    """Make the client: no proxy of the environment, no redirects."""
    return httpx2.AsyncClient(timeout=SECONDS, follow_redirects=False, trust_env=False)
