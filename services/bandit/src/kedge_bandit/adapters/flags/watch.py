"""Keep what a plugged flag provider says of every policy, so that nobody waits for it. It can only restrict.

A provider may block, fail, or answer with the default; OpenFeature swallows its errors. So it is asked in a thread, and
a policy is stopped until it has answered true, and again when it has not answered for longer than the lease.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import monotonic

import structlog
from openfeature.client import OpenFeatureClient
from openfeature.evaluation_context import EvaluationContext
from openfeature.event import EventDetails, ProviderEvent
from openfeature.exception import ErrorCode
from openfeature.provider import ProviderStatus

from kedge_bandit.adapters.flags.own import TENANT, flag_of
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.mode import Mode

LEASE_SECONDS = 5.0
ASK_SECONDS = 1.0
FORGET_SECONDS = 3600.0
"""A policy that nobody asked about for so long is forgotten; asked about again, it is stopped until it is answered."""

_SAYS_NOTHING = (
    ErrorCode.GENERAL,
    ErrorCode.PARSE_ERROR,
    ErrorCode.PROVIDER_NOT_READY,
    ErrorCode.PROVIDER_FATAL,
)
"""Errors that are no answer. Every other one is: the provider was there and has no such flag for us, so it is false."""

Key = tuple[TenantId, PolicyName]
log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Answer:
    """What is known of one flag; times are monotonic seconds."""

    asked_time: float
    answer_time: float = float("-inf")
    is_enabled: bool = False
    is_silent: bool = True


class FlagWatch:
    """Ask a provider about every policy once a second, and whenever it says that something changed."""

    def __init__(self, client: OpenFeatureClient, *, now: Callable[[], float] = monotonic) -> None:
        self._client = client
        self._now = now
        self._answers: dict[Key, _Answer] = {}
        self._news = asyncio.Event()

    def __call__(self, tenant: TenantId, policy: PolicyName) -> Mode:
        """Read what a policy's flag means: APPLY where it is true, else FROZEN; no I/O."""
        now = self._now()
        answer = self._answers.get((tenant, policy))
        if answer is None:
            answer = self._answers[tenant, policy] = _Answer(now)
            self._news.set()
        answer.asked_time = now
        return Mode.APPLY if answer.is_enabled and now - answer.answer_time <= LEASE_SECONDS else Mode.FROZEN

    @property
    def silent(self) -> int:
        """Policies that are stopped because the provider has not answered for longer than the lease."""
        return sum(answer.is_silent for answer in self._answers.values())

    async def run(self, changed: Callable[[], None] = lambda: None) -> None:
        """Ask for ever.

        Args:
            changed: called where a policy's flag means something else now.
        """
        loop = asyncio.get_running_loop()

        def hear(_details: EventDetails) -> None:
            loop.call_soon_threadsafe(self._news.set)

        for event in (ProviderEvent.PROVIDER_READY, ProviderEvent.PROVIDER_CONFIGURATION_CHANGED):
            self._client.add_handler(event, hear)
        while True:
            self._news.clear()
            began = self._now()
            self._forget(began)
            answers = await asyncio.to_thread(self._ask, list(self._answers))
            moved = [self._take(key, said=said, began=began) for key, said in answers]
            if any(moved):
                changed()
            try:
                async with asyncio.timeout(ASK_SECONDS):
                    await self._news.wait()
            except TimeoutError:
                continue

    def _ask(self, keys: Iterable[Key]) -> list[tuple[Key, bool | None]]:
        """Ask about every policy, in a thread; None where the provider says nothing."""
        if self._client.get_provider_status() is not ProviderStatus.READY:
            return [(key, None) for key in keys]
        found: list[tuple[Key, bool | None]] = []
        for tenant, policy in keys:
            context = EvaluationContext(targeting_key=tenant, attributes={TENANT: tenant})
            details = self._client.get_boolean_details(flag_of(policy), False, context)
            says_nothing = details.error_code in _SAYS_NOTHING
            found.append(((tenant, policy), None if says_nothing else details.value is True))
        return found

    def _take(self, key: Key, *, said: bool | None, began: float) -> bool:
        """Take an answer in; says whether the flag means something else now."""
        tenant, policy = key
        answer = self._answers.get(key)
        if answer is None:
            return False
        was_served, was_silent = answer.is_enabled and not answer.is_silent, answer.is_silent
        if said is not None:
            answer.answer_time, answer.is_enabled = began, said
        answer.is_silent = self._now() - answer.answer_time > LEASE_SECONDS
        if answer.is_silent and not was_silent:
            log.error("flag.silent", tenant=tenant, policy=policy)
        is_served = answer.is_enabled and not answer.is_silent
        if is_served is not was_served:
            log.info("flag.changed", tenant=tenant, policy=policy, enabled=is_served)
        return is_served is not was_served

    def _forget(self, now: float) -> None:
        for key in [key for key, answer in self._answers.items() if now - answer.asked_time > FORGET_SECONDS]:
            del self._answers[key]
