"""A plugged provider only restricts: stopped until it says true, and again when it says nothing for too long."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from openfeature.client import OpenFeatureClient
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import GeneralError
from openfeature.flag_evaluation import FlagResolutionDetails
from openfeature.provider.in_memory_provider import InMemoryFlag, InMemoryProvider

from kedge_bandit.adapters.flags.own import flag_of
from kedge_bandit.adapters.flags.plugged import client_of, provider_of
from kedge_bandit.adapters.flags.watch import LEASE_SECONDS, FlagWatch
from kedge_bandit.domain.mode import Mode
from tests.bandit.adapters.flags.conftest import ACME, SUPPORT

FLAG = flag_of(SUPPORT)


class Switchable(InMemoryProvider):
    """An in-memory provider whose flag a test turns, and which it makes fail."""

    def __init__(self) -> None:
        super().__init__({})
        self.broken: Exception | None = None

    def say(self, enabled: bool | None) -> None:
        flag = InMemoryFlag("on" if enabled else "off", {"on": True, "off": False})
        self._flags = {} if enabled is None else {FLAG: flag}

    def resolve_boolean_details(
        self, flag_key: str, default_value: bool, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[bool]:
        if self.broken is not None:
            raise self.broken
        return super().resolve_boolean_details(flag_key, default_value, evaluation_context)


class Hands:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@asynccontextmanager
async def watching(client: OpenFeatureClient, now: Callable[[], float]) -> AsyncIterator[FlagWatch]:
    watch = FlagWatch(client, now=now)
    running = asyncio.create_task(watch.run())
    yield watch
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(2_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("waited 20 s in vain")


async def test_a_policy_is_stopped_until_the_provider_says_true_and_whenever_it_says_false() -> None:
    provider, hands = Switchable(), Hands()
    provider.say(True)
    async with watching(client_of(provider), hands) as watch:
        assert watch(ACME, SUPPORT) is Mode.FROZEN
        await until(lambda: watch(ACME, SUPPORT) is Mode.APPLY)

        provider.say(False)
        await until(lambda: watch(ACME, SUPPORT) is Mode.FROZEN)
        assert watch.silent == 0


async def test_a_flag_that_the_provider_does_not_have_stops_its_policy() -> None:
    provider, hands = Switchable(), Hands()
    provider.say(True)
    async with watching(client_of(provider), hands) as watch:
        await until(lambda: watch(ACME, SUPPORT) is Mode.APPLY)

        provider.say(None)
        await until(lambda: watch(ACME, SUPPORT) is Mode.FROZEN)


async def test_a_provider_that_fails_is_believed_for_the_lease_and_no_longer() -> None:
    provider, hands = Switchable(), Hands()
    provider.say(True)
    async with watching(client_of(provider), hands) as watch:
        await until(lambda: watch(ACME, SUPPORT) is Mode.APPLY)
        provider.broken = GeneralError("gone")
        hands.seconds += LEASE_SECONDS
        assert watch(ACME, SUPPORT) is Mode.APPLY

        hands.seconds += 0.1
        assert watch(ACME, SUPPORT) is Mode.FROZEN
        await until(lambda: watch.silent == 1)

        provider.broken = None
        await until(lambda: watch(ACME, SUPPORT) is Mode.APPLY)
        assert watch.silent == 0


async def test_whoever_serves_is_told_when_a_flag_changes() -> None:
    provider, hands, told = Switchable(), Hands(), asyncio.Event()
    provider.say(True)
    watch = FlagWatch(client_of(provider), now=hands)
    watch(ACME, SUPPORT)
    running = asyncio.create_task(watch.run(told.set))
    async with asyncio.timeout(20):
        await told.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def write_flags(path: Path, tenants: list[str]) -> None:
    path.write_text(
        json.dumps(
            {
                "flags": {
                    FLAG: {
                        "state": "ENABLED",
                        "variants": {"on": True, "off": False},
                        "defaultVariant": "off",
                        "targeting": {"if": [{"in": [{"var": "tenant"}, tenants]}, "on", "off"]},
                    }
                }
            }
        ),
        encoding="utf-8",
    )


async def test_flagds_file_decides_by_tenant_and_a_file_that_is_gone_stops_within_the_lease(tmp_path: Path) -> None:
    path, hands = tmp_path / "flags.json", Hands()
    write_flags(path, ["acme"])
    async with watching(client_of(provider_of(f"flagd:{path}", "")), hands) as watch:
        await until(lambda: watch(ACME, SUPPORT) is Mode.APPLY)

        write_flags(path, ["zenith"])
        await until(lambda: watch(ACME, SUPPORT) is Mode.FROZEN)
        write_flags(path, ["acme"])
        await until(lambda: watch(ACME, SUPPORT) is Mode.APPLY)

        path.unlink()
        hands.seconds += LEASE_SECONDS + 0.1
        await until(lambda: watch.silent == 1)
        assert watch(ACME, SUPPORT) is Mode.FROZEN


@pytest.mark.parametrize("chosen", ["flagd", "flagd:", "launchdarkly:x", ""])
def test_a_provider_that_is_not_known_stops_the_start_and_names_those_that_are(chosen: str) -> None:
    with pytest.raises(SystemExit, match="flagd:PATH, ofrep:URL, unleash:URL"):
        provider_of(chosen, "")


def test_a_package_that_is_not_installed_is_named() -> None:
    with pytest.raises(SystemExit, match="install openfeature-provider-unleash"):
        provider_of("unleash:http://127.0.0.1:1/api", "")
