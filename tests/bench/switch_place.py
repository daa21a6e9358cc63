"""Make the place of the switch bench: three replicas, a worker, one policy, an application that reports outcomes."""

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

import grpc

from kedge.bandit.v1 import decision_pb2, decision_service_pb2, policy_service_pb2, tenant_service_pb2
from kedge.bandit.v1.episode_pb2 import GUARDRAIL_KIND_PII, Trajectory
from kedge.bandit.v1.outcome_pb2 import OUTCOME_STATUS_DUPLICATE, OUTCOME_STATUS_RECORDED
from kedge_client import Arm, Baseline, CallFailed, Kedge
from tests.bench.decide_load import TASKS, requests_of_new_episodes
from tests.bench.decide_place import POLICY, policy
from tests.bench.tenants_place import Place, is_serving, running
from tests.fixtures.stack import Services, free_ports, wait_for

REPLICAS = 3
CALLERS = 4
PAUSE_SECONDS = 0.1
SUCCESS = {"large": 0.8, "medium": 0.6, "small": 0.4}
BASELINE = Baseline(
    model_route=Arm("large", "content of large"),
    reasoning_depth=Arm("short", "content of short"),
    prompt_variant=Arm("direct", "content of direct"),
)


@dataclass(frozen=True, slots=True)
class Fleet:
    """Running replicas, by their ports; `key` is the core application's."""

    place: Place
    ports: list[int]
    key: str
    operator: Services

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [("127.0.0.1", port) for port in self.ports]

    def stored(self) -> int:
        """Count decisions in the database."""
        with self.place.connect() as connection:
            row = connection.execute("SELECT count(*) FROM t_bench.decision").fetchone()
        return int(row[0]) if row else 0

    def backlog(self) -> int:
        """Count rows that the worker has not taken."""
        status = policy_service_pb2.GetPolicyStatusRequest(name=POLICY, without_cells=True)
        waiting: int = self.operator.policies.GetPolicyStatus(status).backlog
        return waiting


@contextmanager
def running_fleet(place: Place, ends: ExitStack) -> Iterator[Fleet]:
    """Start servers and worker; closing `ends` ends the servers as an operator does, with all rows written."""
    first = free_ports(REPLICAS)
    ports = list(range(first, first + REPLICAS))
    with running(place, "worker"):
        for port in ports:
            ends.enter_context(running(place, "server", KEDGE_PORT=str(port)))
        for port in ports:
            wait_for(partial(is_serving, port), "a server")
        with grpc.insecure_channel(f"127.0.0.1:{ports[0]}") as channel:
            operator = Services(channel, place.database.operator_key)
            fleet = Fleet(place, ports, _set_up(operator), operator)
            for port in ports:
                _wait_for_draws(port, fleet.key)
            yield fleet


def _set_up(operator: Services) -> str:
    tenant = tenant_service_pb2.Tenant(name="tenants/bench")
    operator.tenants.OnboardTenant(tenant_service_pb2.OnboardTenantRequest(tenant=tenant, because="bench"))
    made = operator.tenants.CreateKey(
        tenant_service_pb2.CreateKeyRequest(
            parent=tenant.name, principal="core-app", role=tenant_service_pb2.ROLE_CORE_APP, because="bench"
        )
    )
    operator.policies.PutPolicy(policy_service_pb2.PutPolicyRequest(policy=policy(), because="bench"))
    key: str = made.key
    return key


def _wait_for_draws(port: int, key: str) -> None:
    bodies = iter(requests_of_new_episodes(POLICY, 10_000, seed=port))
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        services = Services(channel, key)

        def drawn() -> bool:
            request = decision_service_pb2.DecideRequest.FromString(next(bodies))
            try:
                reason: int = services.decisions.Decide(request).reason
            except grpc.RpcError:
                return False  # the replica has not heard of the key or the policy yet
            return reason == decision_pb2.DECISION_REASON_DRAWN

        wait_for(drawn, "the first allocation")


@dataclass(slots=True)
class Application:
    """Decide, report and log from a thread of its own, through the client and over all replicas.

    Attributes:
        outcomes, episodes: keys that were acknowledged.
    """

    fleet: Fleet
    seed: int
    outcomes: set[str] = field(default_factory=set)
    episodes: set[str] = field(default_factory=set)
    failures: int = 0
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="application")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Let running turns end."""
        self._stopping.set()
        self._thread.join()

    async def _run(self) -> None:
        addresses = [f"127.0.0.1:{port}" for port in self.fleet.ports]
        async with (
            Kedge(addresses, key=self.fleet.key, tenant="bench", baselines={"support": BASELINE}) as kedge,
            asyncio.TaskGroup() as group,
        ):
            for caller in range(CALLERS):
                group.create_task(self._turns(kedge, random.Random(self.seed + caller)))

    async def _turns(self, kedge: Kedge, rng: random.Random) -> None:
        while not self._stopping.is_set():
            began = time.perf_counter()
            try:
                await self._turn(kedge, kedge.new_episode_id(), rng)
            except CallFailed:
                self.failures += 1  # not acknowledged, so nothing is owed
            await asyncio.sleep(max(0.0, began + PAUSE_SECONDS - time.perf_counter()))

    async def _turn(self, kedge: Kedge, episode: str, rng: random.Random) -> None:
        choice = await kedge.decide("support", episode_id=episode, categories={"task": rng.choice(TASKS)})
        if choice.fallback or choice.action.model_route is None:
            self.failures += 1
            return
        share = SUCCESS[choice.action.model_route.name] + rng.uniform(-0.2, 0.2)
        outcome = kedge.about(choice.handle).task_success(share, key=episode)
        (answer,) = await kedge.record_outcomes([outcome])
        if answer.status in (OUTCOME_STATUS_RECORDED, OUTCOME_STATUS_DUPLICATE):
            self.outcomes.add(episode)
        trajectory = Trajectory(terminated=True)
        trajectory.guardrail_events.add(kind=GUARDRAIL_KIND_PII, tripped=False)
        await kedge.log_episode(choice.handle, trajectory)
        self.episodes.add(episode)
