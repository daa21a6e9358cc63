"""Run the service's processes one by one over an embedded PostgreSQL with many tenants."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import psycopg
from grpc_health.v1 import health_pb2, health_pb2_grpc

from kedge.bandit.v1 import policy_pb2, policy_service_pb2, tenant_service_pb2
from kedge_bandit.entrypoints.bootstrap import ReadyDatabase, make_ready
from kedge_bandit.entrypoints.settings import Settings
from tests.fixtures.database import open_folder
from tests.fixtures.stack import Services, free_port, wait_for

TASKS = ("math", "code", "chat")
BUCKETS = 9
ARMS = ("tiny", "small", "medium", "large", "huge")
STOP_SECONDS = 30.0
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
"""Taken away, so that a process finds the service compiled, as it is where it was installed."""
SET_UP_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Place:
    """A database at head, in a folder that goes away with the bench."""

    database: ReadyDatabase
    folder: Path

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Open a connection of the database's owner, who sees everything."""
        return psycopg.connect(self.database.owner_url, autocommit=True)

    def environment(self, **more: str) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(("KEDGE_", NO_BYTECODE))},
            "KEDGE_DATABASE_URL": self.database.service_url,
            "KEDGE_DATA_DIR": str(self.folder),
            "KEDGE_METRICS_PORT": "0",
            "KEDGE_WORKER_METRICS_PORT": "0",
            "KEDGE_GATE_PORT": "0",
            "KEDGE_LOG_LEVEL": "WARNING",
            **more,
        }

    @property
    def postmaster(self) -> int:
        """Find PostgreSQL's first process."""
        (found,) = self.folder.rglob("postmaster.pid")
        return int(found.read_text(encoding="ascii").split()[0])


@contextmanager
def database_with_commit_times() -> Iterator[Place]:
    """Start PostgreSQL such that it keeps when each transaction was committed: the one setting users do not have."""
    with open_folder() as folder:
        settings = Settings(data_dir=folder / "kedge")
        first = make_ready(settings)
        try:
            with psycopg.connect(first.owner_url, autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET track_commit_timestamp = on")
        finally:
            first.stop()
        database = make_ready(settings)
        try:
            yield Place(database, folder / "kedge")
        finally:
            database.stop()


@contextmanager
def running(place: Place, name: str, **environment: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run one process of the service, in a session of its own as under `kedge serve`; end it as an operator does."""
    argv = [sys.executable, "-m", f"kedge_bandit.entrypoints.{name}"]
    with subprocess.Popen(argv, env=place.environment(**environment), start_new_session=True) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def running_server(place: Place) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """Run a server and wait until it says that it serves."""
    port = free_port()
    with running(place, "server", KEDGE_PORT=str(port)) as process:
        wait_for(lambda: is_serving(port), "the server")
        yield process, port


def is_serving(port: int) -> bool:
    """Ask the health service once."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        check: Any = health_pb2_grpc.HealthStub(channel)
        try:
            answer = check.Check(health_pb2.HealthCheckRequest(), timeout=1)
        except grpc.RpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def tenant_of(number: int) -> str:
    """Name a tenant."""
    return f"busy-{number:04d}"


def policy_of(number: int) -> str:
    """Name a tenant's policy."""
    return f"tenants/{tenant_of(number)}/policies/support"


def schema_of(number: int) -> str:
    """Name a tenant's schema."""
    return "t_" + tenant_of(number).replace("-", "_")


def onboard(place: Place, port: int, numbers: range, policy: policy_pb2.Policy) -> None:
    """Make tenants, each with a copy of the policy."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        operator = Services(channel, place.database.operator_key)
        for number in numbers:
            made = tenant_service_pb2.Tenant(name=f"tenants/{tenant_of(number)}")
            operator.tenants.OnboardTenant(tenant_service_pb2.OnboardTenantRequest(tenant=made, because="bench"))
            policy.name = policy_of(number)
            operator.policies.PutPolicy(policy_service_pb2.PutPolicyRequest(policy=policy, because="bench"))


def wait_for_vectors(place: Place, numbers: range) -> None:
    """Wait until the worker has published every policy's first vector."""
    waiting = set(numbers)
    with place.connect() as connection:

        def done() -> bool:
            for number in sorted(waiting)[:50]:
                if connection.execute(f"SELECT 1 FROM {schema_of(number)}.allocation LIMIT 1").fetchone():
                    waiting.discard(number)
            return not waiting

        wait_for(done, "every first allocation", seconds=SET_UP_SECONDS)


def make_policy(*, buckets: int = BUCKETS) -> policy_pb2.Policy:
    """Give a policy of five actions: a feature with three values, a numeric one with the cut points needed."""
    cuts = [10.0 * place for place in range(1, buckets // len(TASKS))]
    made = policy_pb2.Policy(
        features=[
            policy_pb2.Feature(name="task", categorical=policy_pb2.CategoricalFeature(values=TASKS)),
            policy_pb2.Feature(name="words", numeric=policy_pb2.NumericFeature(cut_points=cuts)),
        ],
        arms=[
            policy_pb2.Arm(dimension=policy_pb2.DIMENSION_MODEL_ROUTE, name=name, content=f"content of {name}")
            for name in ARMS
        ],
        reward=policy_pb2.RewardSpec(
            cost_reference_usd=0.01, latency_reference_ms=2000.0, safety_source=policy_pb2.SAFETY_SOURCE_GUARDRAILS
        ),
        settlement=policy_pb2.SettlementSpec(expects_task_success=True),
        exploration=policy_pb2.ExplorationSpec(exploitation_floor=0.2, budget_off=True),
        learner="beta",
    )
    made.baseline.model_route.name = "large"
    return made


def cpu_seconds(pid: int, *, with_children: bool = False) -> float:
    """Read the CPU that a process has used, user and system; with its living and ended children where asked."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    used = int(stat[11]) + int(stat[12])
    total = used / os.sysconf("SC_CLK_TCK")
    if not with_children:
        return total
    total += (int(stat[13]) + int(stat[14])) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return total + sum(cpu_seconds(int(child), with_children=True) for child in children)
