"""Three servers over one database: an episode sticks on all of them, what is told one reaches all, each may go."""

import asyncio
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from kedge.bandit.v1 import decision_pb2, episode_pb2, governance_service_pb2
from kedge_client import Arm, Baseline, Choice, Kedge
from tests.fixtures.core_app import TENANT, ask, log, now, stored, success
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Services, Stack, is_serving, wait_for

FROZEN = decision_pb2.DECISION_REASON_FROZEN
SMALL = Baseline(model_route=Arm("small", "small-model"))


@pytest.fixture(scope="module")
def key(fleet: Stack) -> str:
    made = fleet.tenant(TENANT)
    fleet.put_policy(two_models(TENANT))
    return made


@pytest.fixture(scope="module")
def replicas(fleet: Stack, key: str) -> Iterator[list[Services]]:
    with ExitStack() as exits:
        found = [exits.enter_context(fleet.services(key, replica=number)) for number in range(fleet.replicas)]
        for services in found:
            wait_for(partial(is_answered, services, decision_pb2.DECISION_REASON_DRAWN), "the policy to arrive")
        yield found


def reason(services: Services) -> int:
    """Ask for a new episode; answers the decision's reason."""
    found: int = ask(services, f"probe-{now().ToNanoseconds()}").reason
    return found


def is_answered(services: Services, wanted: int) -> bool:
    return reason(services) == wanted


def is_newer(services: Services, before: int) -> bool:
    return version(services) > before


def version(services: Services) -> int:
    found: int = ask(services, f"probe-{now().ToNanoseconds()}").allocation_version
    return found


def test_an_episode_sticks_on_every_replica_by_its_token_or_by_one_read(replicas: list[Services]) -> None:
    first_replica, *others = replicas
    for number in range(10):
        first = ask(first_replica, f"sticky-{number}")
        for other in others:
            by_token = ask(other, f"sticky-{number}", request_id="again", decision_token=first.decision_token)
            assert by_token.reused
            assert (by_token.decision, by_token.action_key) == (first.decision, first.action_key)
    wait_for(lambda: stored(first_replica, first.decision), "the decision to be written")
    for number in range(10):
        first = ask(first_replica, f"sticky-{number}")
        for other in others:
            by_read = ask(other, f"sticky-{number}", request_id="later", continues_episode=True)
            assert by_read.reused
            assert by_read.decision == first.decision


def test_a_request_that_is_repeated_elsewhere_is_answered_as_before(replicas: list[Services]) -> None:
    first = ask(replicas[0], "repeated", request_id="one-id")
    by_token = ask(replicas[1], "repeated", request_id="one-id", decision_token=first.decision_token)
    wait_for(lambda: stored(replicas[0], first.decision), "the decision to be written")
    by_read = ask(replicas[2], "repeated", request_id="one-id", continues_episode=True)
    assert {by_token.decision, by_read.decision} == {first.decision}


def test_without_token_or_word_an_episode_sticks_where_it_was_decided(replicas: list[Services]) -> None:
    first = ask(replicas[0], "forgetful")
    again, elsewhere = ask(replicas[0], "forgetful", request_id="b"), ask(replicas[1], "forgetful", request_id="c")
    assert (again.reused, again.decision) == (True, first.decision)
    assert (elsewhere.reused, elsewhere.decision == first.decision) == (False, False)


def test_a_freeze_reaches_all_while_one_is_killed_and_comes_back(fleet: Stack, replicas: list[Services]) -> None:
    name = f"tenants/{TENANT}"
    victim, survivors = replicas[1], (replicas[0], replicas[2])
    with fleet.services() as operator:
        before = {each: fleet.pid(each) for each in fleet.servers}
        fleet.kill("server-2")
        operator.governance.Freeze(governance_service_pb2.FreezeRequest(name=name, because="test"))
        for services in survivors:
            wait_for(partial(is_answered, services, FROZEN), "the freeze to arrive")
        wait_for(lambda: fleet.pid("server-2") != before["server-2"], "another process in its place")
        wait_for(lambda: is_serving(fleet.addresses[1]), "it to serve")
        assert reason(victim) == FROZEN
        assert [fleet.pid(each) for each in ("server", "server-3")] == [before["server"], before["server-3"]]
        operator.governance.Unfreeze(
            governance_service_pb2.UnfreezeRequest(
                name=name, because="over", quarantine=governance_service_pb2.QUARANTINE_CHOICE_KEEP
            )
        )
    for services in replicas:
        wait_for(partial(is_answered, services, decision_pb2.DECISION_REASON_DRAWN), "the release to arrive")


def test_an_allocation_that_is_published_reaches_all(replicas: list[Services]) -> None:
    served = [version(services) for services in replicas]
    decided = ask(replicas[0], "learned")
    success(replicas[1], "learned", decision_token=decided.decision_token)
    log(replicas[2], decided, "learned")
    for services, before in zip(replicas, served, strict=True):
        wait_for(partial(is_newer, services, before), "the new allocation")


def test_without_its_store_every_replica_serves_the_baseline_until_it_is_back(
    fleet: Stack, replicas: list[Services], postgres_url: str
) -> None:
    before = [fleet.pid(name) for name in fleet.servers]
    with psycopg.connect(postgres_url, autocommit=True) as server, store_gone(server, fleet):
        for services in replicas:
            wait_for(partial(is_answered, services, decision_pb2.DECISION_REASON_STALE), "the lease to end")
    for services in replicas:
        wait_for(partial(is_answered, services, decision_pb2.DECISION_REASON_DRAWN), "the replica to recover")
    assert [fleet.pid(name) for name in fleet.servers] == before


@contextmanager
def store_gone(server: psycopg.Connection[tuple[Any, ...]], fleet: Stack) -> Iterator[None]:
    """Let nobody into the service's database, and put those out that are in."""
    name = urlsplit(fleet.database_url).path.removeprefix("/")
    allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    server.execute(allow.format(sql.Identifier(name), sql.SQL("false")))
    try:
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
        yield
    finally:
        server.execute(allow.format(sql.Identifier(name), sql.SQL("true")))


@dataclass(slots=True)
class Trickle:
    """One core application that decides and logs over all replicas until it is told to stop."""

    addresses: list[str]
    key: str
    under_way: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    choices: list[Choice] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)

    async def run(self) -> None:
        async with Kedge(
            self.addresses, key=self.key, tenant=TENANT, baselines={"support": SMALL}, decide_deadline_s=5.0
        ) as kedge:
            await kedge.ready()
            async with asyncio.TaskGroup() as group:
                for caller in range(4):
                    group.create_task(self._turns(kedge, caller))

    async def _turns(self, kedge: Kedge, caller: int) -> None:
        while not self.stopping.is_set():
            episode = f"trickle-{caller}-{len(self.choices)}"
            choice = await kedge.decide("support", episode_id=episode, categories={"task": "math"})
            self.choices.append(choice)
            if choice.fallback:
                continue
            await kedge.log_episode(choice.handle, trajectory())
            self.logged.append(episode)
            self.under_way.set()


def trajectory() -> episode_pb2.Trajectory:
    made = episode_pb2.Trajectory(terminated=True)
    made.guardrail_events.add(kind=episode_pb2.GUARDRAIL_KIND_PII, tripped=False)
    return made


async def restart_under(fleet: Stack, trickle: Trickle) -> None:
    """Send SIGHUP amid calls, and wait until every process is another one."""
    before = {name: fleet.pid(name) for name in (*fleet.servers, "worker", "web")}
    running = asyncio.create_task(trickle.run())
    await trickle.under_way.wait()
    fleet.process.send_signal(signal.SIGHUP)
    changed = partial(wait_for, lambda: all(fleet.pid(name) != pid for name, pid in before.items()), "the restart", 120)
    await asyncio.to_thread(changed)
    trickle.stopping.set()
    await running


@pytest.mark.usefixtures("replicas")
def test_a_rolling_restart_fails_no_decision_and_loses_nothing(fleet: Stack, key: str) -> None:
    trickle = Trickle(fleet.addresses, key)
    asyncio.run(restart_under(fleet, trickle))
    failures = Counter(choice.failure for choice in trickle.choices if choice.fallback)
    assert not failures, f"{failures} of {len(trickle.choices)}"
    with fleet.connect() as owner:
        kept = {one for (one,) in owner.execute(f"SELECT episode_id FROM t_{TENANT}.episode_event")}
    assert set(trickle.logged) <= kept
