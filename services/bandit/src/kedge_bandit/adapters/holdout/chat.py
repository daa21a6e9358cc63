"""Talk to an OpenAI-compatible endpoint: one completion at a time, tried three times, never redirected."""

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx2

from kedge_bandit.adapters.http_answer import AnswerTooLarge, ask
from kedge_bandit.application.answer_ports import AnswerFailed
from kedge_bandit.application.holdout_ports import Answer, AnswererSettings
from kedge_bandit.domain.dimension import Arm, Dimension
from kedge_bandit.domain.holdout import HoldoutCase
from kedge_bandit.domain.identifiers import PolicyName, TenantId

MAX_ANSWER_BYTES: Final = 1024 * 1024
PAUSES: Final = (0.5, 2.0)
"""Seconds before the second and the third try."""
_AGAIN: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_MILLION: Final = 1e6


@dataclass(frozen=True, slots=True)
class Completion:
    """What the endpoint answered."""

    text: str
    model: str
    cost_usd: float
    latency_ms: float


@dataclass(frozen=True, slots=True)
class Chat:
    """An endpoint, connected."""

    client: httpx2.AsyncClient
    settings: AnswererSettings
    pauses: tuple[float, ...] = PAUSES

    async def complete(self, model: str, messages: Sequence[Mapping[str, str]], **more: object) -> Completion:
        """Ask for one completion. Raises AnswerFailed, which names the endpoint's trouble and no message."""
        body = {"model": model, "messages": list(messages), "temperature": 0, **more}
        trouble = ""
        for pause in (*self.pauses, None):
            began = time.monotonic()
            try:
                answer = await ask(
                    self.client,
                    "POST",
                    "chat/completions",
                    seconds=self.settings.timeout_seconds,
                    most_bytes=MAX_ANSWER_BYTES,
                    json=body,
                )
            except AnswerTooLarge as error:
                raise AnswerFailed(f"the endpoint {self.settings.address} answered {error}") from error
            except (TimeoutError, httpx2.TimeoutException):
                trouble = f"gave no answer within {self.settings.timeout_seconds:g} s"
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                trouble = f"could not be reached ({type(error).__name__})"
            else:
                if answer.is_success:
                    return self._read(answer.content, (time.monotonic() - began) * 1000)
                trouble = f"answered {answer.status}"
                if answer.status not in _AGAIN:
                    break
            if pause is not None:
                await asyncio.sleep(pause)
        raise AnswerFailed(f"the endpoint {self.settings.address} {trouble}")

    def _read(self, content: bytes, latency_ms: float) -> Completion:
        try:
            found = json.loads(content)
            text = _text(found["choices"][0]["message"])
            usage = found.get("usage") or {}
            cost = (
                self.settings.usd_per_million_prompt_tokens * _tokens(usage.get("prompt_tokens"))
                + self.settings.usd_per_million_completion_tokens * _tokens(usage.get("completion_tokens"))
            ) / _MILLION
            model = found.get("model") or ""
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError) as error:
            raise AnswerFailed(f"the endpoint {self.settings.address} did not answer as OpenAI's does") from error
        return Completion(text, model if isinstance(model, str) else "", cost, latency_ms)


@asynccontextmanager
async def connected(settings: AnswererSettings, secret: str, pauses: tuple[float, ...] = PAUSES) -> AsyncIterator[Chat]:
    """Open a connection pool to an endpoint, and close it."""
    headers = {"authorization": f"Bearer {secret}"} if secret else {}
    async with httpx2.AsyncClient(
        base_url=settings.address.rstrip("/") + "/",
        headers=headers,
        timeout=settings.timeout_seconds,
        limits=httpx2.Limits(max_connections=2 * settings.parallel),
        trust_env=False,
    ) as client:
        yield Chat(client, settings, pauses)


@dataclass(frozen=True, slots=True)
class ChatAnswers:
    """Answer cases with an endpoint: the prompt's text as system message, the route as model, the depth as effort."""

    chat: Chat

    async def __call__(self, _tenant: TenantId, _policy: PolicyName, case: HoldoutCase, arms: Sequence[Arm]) -> Answer:
        """Answer one case. Raises AnswerFailed."""
        by = {arm.dimension: arm for arm in arms}
        messages = [{"role": message.role, "content": message.text} for message in case.messages]
        prompt = by.get(Dimension.PROMPT_VARIANT)
        if prompt is not None and prompt.content:
            messages.insert(0, {"role": "system", "content": filled(prompt, case)})
        route, depth = by.get(Dimension.MODEL_ROUTE), by.get(Dimension.REASONING_DEPTH)
        more = {"reasoning_effort": depth.content} if depth is not None and depth.content else {}
        model = route.content if route is not None else self.chat.settings.model
        found = await self.chat.complete(model, messages, **more)
        return Answer(output=found.text, cost_usd=found.cost_usd, latency_ms=found.latency_ms, model_id=found.model)


def filled(prompt: Arm, case: HoldoutCase) -> str:
    """Fill a prompt's declared variables, written {name}, from the case's context; others are left as they are.

    >>> arm = Arm(dimension=Dimension.PROMPT_VARIANT, name="p", content="As {who}: {x}", template_variables=("who",))
    >>> from kedge_bandit.domain.holdout import ExactCheck, Message
    >>> filled(arm, HoldoutCase(messages=(Message("user", "?"),), check=ExactCheck("!"), categories={"who": "a clerk"}))
    'As a clerk: {x}'
    """
    known: dict[str, object] = {**case.categories, **case.numbers}
    text = prompt.content
    for name in prompt.template_variables:
        if name in known:
            text = text.replace("{" + name + "}", str(known[name]))
    return text


def _tokens(found: Any) -> float:
    """Read a count of tokens; one that is left out is none. Raises ValueError."""
    count = float(found or 0)
    if not (math.isfinite(count) and count >= 0):
        raise ValueError("no count of tokens")
    return count


def _text(message: Mapping[str, Any]) -> str:
    """Read an answer's text; a call of a tool as JSON {"tool", "arguments"}."""
    calls = message.get("tool_calls") or []
    if calls:
        called = calls[0]["function"]
        return json.dumps({"tool": called["name"], "arguments": json.loads(called.get("arguments") or "{}")})
    content = message.get("content")
    if not isinstance(content, str):
        raise TypeError("no text")
    return content
