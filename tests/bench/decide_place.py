"""Make the place of the decide bench: embedded PostgreSQL, one tenant, one policy, the server on its own core."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import grpc
import psycopg

from kedge.bandit.v1 import (
    decision_pb2,
    decision_service_pb2,
    policy_pb2,
    policy_service_pb2,
    tenant_service_pb2,
)
from kedge_bandit.entrypoints.bootstrap import ReadyDatabase, make_ready
from kedge_bandit.entrypoints.settings import Settings
from tests.bench.decide_load import TASKS, requests_of_new_episodes
from tests.bench.decide_server import SERVICE
from tests.fixtures.database import open_folder
from tests.fixtures.stack import Services, wait_for

POLICY = "tenants/bench/policies/support"
ARMS = {
    policy_pb2.DIMENSION_MODEL_ROUTE: ("small", "medium", "large"),
    policy_pb2.DIMENSION_REASONING_DEPTH: ("short", "long"),
    policy_pb2.DIMENSION_PROMPT_VARIANT: ("direct", "stepwise"),
}


@dataclass(frozen=True, slots=True)
class Cores:
    """The server has one core to itself; the load, PostgreSQL and all else share the others."""

    server: int
    load: int

    @classmethod
    def of_this_machine(cls) -> "Cores":
        """Take the first two cores that this process may use."""
        available = sorted(os.sched_getaffinity(0))
        if len(available) < 2:
            raise RuntimeError("the decide bench needs two cores: one for the server, one for everything else")
        return cls(available[0], available[-1])


@dataclass(frozen=True, slots=True)
class Place:
    """A running server.

    Attributes:
        pid: of its process.
        key: admits a core application of the tenant.
        answer: the bytes of one real answer of Decide, which Echo answers too.
    """

    pid: int
    address: tuple[str, int]
    key: str
    answer: bytes
    database: ReadyDatabase
    folder: Path

    def fdatasync_seconds(self) -> float:
        """Write a page and sync it, where PostgreSQL does the same; median of 101."""
        found = []
        with tempfile.TemporaryFile(dir=self.folder) as file:
            for _ in range(101):
                file.write(b"\0" * 8192)
                file.flush()
                began = time.perf_counter()
                os.fdatasync(file.fileno())
                found.append(time.perf_counter() - began)
        return median(found)

    def durable_decisions(self) -> set[str]:
        """Read the ids of every decision that the database holds."""
        with psycopg.connect(self.database.owner_url) as connection:
            return {str(row[0]) for row in connection.execute("SELECT decision_id FROM t_bench.decision")}

    def cpu_seconds(self) -> float:
        """Read the CPU that the server's process has used, user and system."""
        stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running_server(cores: Cores, *, durable: bool = False) -> Iterator[tuple[Place, "subprocess.Popen[str]"]]:
    """Start everything; on the way out, end it. Whoever wants the queue drained ends the server before."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before - {cores.server})  # what is started from here on leaves the server alone
    try:
        with open_folder() as folder:
            database = make_ready(Settings(data_dir=folder / "kedge"))
            try:
                with _server(database, folder / "kedge", cores) as (process, port):
                    yield _set_up(database, folder / "kedge", process.pid, port, durable=durable), process
            finally:
                database.stop()
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def _server(database: ReadyDatabase, data: Path, cores: Cores) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    argv = [sys.executable, "-m", "tests.bench.decide_server", "--core", str(cores.server)]
    with subprocess.Popen(argv, env=_environment(database, data), stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout is not None else ""
            if not line:
                raise RuntimeError("the server did not start: see its log above")
            yield process, int(line)
        finally:
            process.terminate()


def _environment(database: ReadyDatabase, data: Path) -> dict[str, str]:
    return {
        **os.environ,
        "KEDGE_DATABASE_URL": database.service_url,
        "KEDGE_DATA_DIR": str(data),
        "KEDGE_PORT": "0",
        "KEDGE_METRICS_PORT": "0",
        "KEDGE_WORKER_METRICS_PORT": "0",
        "KEDGE_GATE_PORT": "0",
        "KEDGE_LOG_LEVEL": "WARNING",
    }


def _set_up(database: ReadyDatabase, data: Path, pid: int, port: int, *, durable: bool) -> Place:
    """Onboard the tenant, put the policy, let the worker publish once, and give Echo an answer of Decide's size."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        operator = Services(channel, database.operator_key)
        tenant = tenant_service_pb2.Tenant(name="tenants/bench", durable=durable)
        operator.tenants.OnboardTenant(tenant_service_pb2.OnboardTenantRequest(tenant=tenant, because="bench"))
        made = operator.tenants.CreateKey(
            tenant_service_pb2.CreateKeyRequest(
                parent=tenant.name, principal="core-app", role=tenant_service_pb2.ROLE_CORE_APP, because="bench"
            )
        )
        operator.policies.PutPolicy(policy_service_pb2.PutPolicyRequest(policy=policy(), because="bench"))
        answer = _first_draw(Services(channel, made.key), database, data)
        set_answer: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{SERVICE}/SetAnswer")
        set_answer(answer)
    return Place(pid, ("127.0.0.1", port), made.key, answer, database, data)


def _first_draw(core_app: Services, database: ReadyDatabase, data: Path) -> bytes:
    """Run a worker until the policy's first vector is served; without evidence it has nothing to do afterwards."""
    found: list[bytes] = []
    bodies = iter(requests_of_new_episodes(POLICY, 10_000, seed=1))

    def drawn() -> bool:
        try:
            answer = core_app.decisions.Decide(decision_service_pb2.DecideRequest.FromString(next(bodies)))
        except grpc.RpcError as error:
            if error.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
                return False  # the replica has not heard of the new key yet
            raise
        found.append(answer.SerializeToString())
        return bool(answer.reason == decision_pb2.DECISION_REASON_DRAWN)

    argv = [sys.executable, "-m", "kedge_bandit.entrypoints.worker"]
    with subprocess.Popen(argv, env=_environment(database, data)) as worker:
        try:
            wait_for(drawn, "the first allocation")
        finally:
            worker.terminate()
    return found[-1]


def policy() -> policy_pb2.Policy:
    """Give the policy: 3 models × 2 depths × 2 prompts = 12 joint actions, a categorical and a numeric feature."""
    made = policy_pb2.Policy(
        name=POLICY,
        features=[
            policy_pb2.Feature(name="task", categorical=policy_pb2.CategoricalFeature(values=TASKS)),
            policy_pb2.Feature(name="words", numeric=policy_pb2.NumericFeature(cut_points=[20.0, 100.0, 400.0])),
        ],
        arms=[
            policy_pb2.Arm(dimension=dimension, name=name, content=f"content of {name}")
            for dimension, names in ARMS.items()
            for name in names
        ],
        reward=policy_pb2.RewardSpec(
            cost_reference_usd=0.01, latency_reference_ms=2000.0, safety_source=policy_pb2.SAFETY_SOURCE_GUARDRAILS
        ),
        settlement=policy_pb2.SettlementSpec(expects_task_success=True, judge_rate=0.3),
        # Without the budget rule the vector of no evidence is a real draw over all twelve.
        exploration=policy_pb2.ExplorationSpec(exploitation_floor=0.2, budget_off=True),
        learner="beta",
    )
    made.baseline.model_route.name = "large"
    made.baseline.reasoning_depth.name = "short"
    made.baseline.prompt_variant.name = "direct"
    return made
