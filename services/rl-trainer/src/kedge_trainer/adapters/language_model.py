"""Any model behind an OpenAI-compatible chat endpoint."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import httpx

from kedge_trainer.domain.errors import ModelFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatModel:
    """A model by address and name; the token is sent and never shown."""

    url: str
    name: str
    token: str
    temperature: float = 0.3
    max_tokens: int = 400
    timeout_s: float = 60.0

    def __call__(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Answer a conversation.

        Raises:
            ModelFailed: the endpoint answered with an error, not at all, or in another form.
        """
        asked = {
            "model": self.name,
            "messages": [dict(message) for message in messages],
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
        }
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        address = self.url.rstrip("/") + "/chat/completions"
        try:
            answer = httpx.post(address, json=asked, headers=headers, timeout=self.timeout_s)
            answer.raise_for_status()
            return str(answer.json()["choices"][0]["message"]["content"] or "")
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, LookupError, TypeError) as failure:
            raise ModelFailed(self.url, str(failure) or type(failure).__name__) from failure
