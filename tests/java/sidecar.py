"""Run a service that a JVM can stop, freeze and start again, with a second door that wants certificates."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from google.protobuf.json_format import MessageToJson

from kedge.bandit.v1 import governance_service_pb2, policy_service_pb2, tenant_service_pb2
from tests.architecture.tree import ROOT
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Stack, free_port, is_serving, running_stack, wait_for
from tests.java.promotions import Promotions
from tests.trust.authorities import Authority
from tests.trust.doors import tls_settings

TENANT = "java"
SPIFFE = "spiffe://kedge.example/core-app"
OURS = Authority("ours")
KEDGE = str(Path(sys.executable).parent / "kedge")


@dataclass(slots=True)
class Sidecar:
    """A running service and what a JVM may do to it.

    Attributes:
        verbs: by the name that a JVM calls them by; each answers a text.
        echo_port: of a second server of the same database, with an Echo beside its services.
        tls_port: of a third such server, which lets certificates in and nobody else.
        again: what `up` has started.
    """

    stack: Stack
    metrics_port: int
    echo_port: int
    tls_port: int
    folder: Path
    environment: dict[str, str]
    key: str
    verbs: dict[str, Callable[[str], str]] = field(default_factory=dict)
    again: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Name what can be done."""
        self.verbs = {
            "down": self._down,
            "up": self._up,
            "stop": lambda _: self._signal(signal.SIGSTOP),
            "continue": lambda _: self._signal(signal.SIGCONT),
            "freeze": self._freeze,
            "unfreeze": self._unfreeze,
            "mismatches": lambda _: str(int(self.metric("kedge_baseline_mismatches_total"))),
            "status": self._status,
            "rebuild": self._rebuild,
        }

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The supervisor that runs now."""
        return self.again[-1] if self.again else self.stack.process

    def metric(self, name: str) -> float:
        """Add one metric up over its labels."""
        text = httpx.get(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10).text
        values = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(name)]
        return sum(map(float, values))

    def close(self) -> None:
        """End what `up` started."""
        for process in self.again:
            process.terminate()
            process.wait(60)

    def _down(self, _: str) -> str:
        """End the whole sidecar at once, as a machine that loses its power does; its database stays."""
        pids = [self.stack.pid(name) for name in ("server", "worker", "web", "gate")]
        for pid in (self.process.pid, *pids):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()
        return str(time.time_ns())

    def _up(self, _: str) -> str:
        with (self.folder / "again.log").open("ab") as log:
            self.again.append(subprocess.Popen([KEDGE, "serve"], env=self.environment, stdout=log, stderr=log))
        wait_for(lambda: is_serving(self.stack.address), f"the server to be back; its log: {self.folder / 'again.log'}")
        return ""

    def _signal(self, number: signal.Signals) -> str:
        os.kill(self.stack.pid("server"), number)
        return ""

    def _freeze(self, policy: str) -> str:
        """Freeze a policy; answers when that was answered, nanoseconds of the wall clock."""
        request = governance_service_pb2.FreezeRequest(name=_name(policy), because="a test", request_id=_once())
        with self.stack.services() as services:
            services.governance.GetMode(governance_service_pb2.GetModeRequest(name=request.name))
            services.governance.Freeze(request)
            return str(time.time_ns())

    def _unfreeze(self, policy: str) -> str:
        request = governance_service_pb2.UnfreezeRequest(name=_name(policy), because="a test", request_id=_once())
        request.quarantine = governance_service_pb2.QUARANTINE_CHOICE_REPLAY
        with self.stack.services() as services:
            services.governance.Unfreeze(request)
        return ""

    def _status(self, policy: str) -> str:
        with self.stack.services() as services:
            request = policy_service_pb2.GetPolicyStatusRequest(name=_name(policy))
            return MessageToJson(services.policies.GetPolicyStatus(request))

    def _rebuild(self, policy: str) -> str:
        """Compare the belief with one that is folded anew from the log."""
        return self.stack.kedge("rebuild", TENANT, policy, "--verify", "--json").stdout


def _name(policy: str) -> str:
    return f"tenants/{TENANT}/policies/{policy}"


def _once() -> str:
    return f"java-{time.monotonic_ns()}"


@contextmanager
def running_sidecar(database_url: str, folder: Path) -> Iterator[Sidecar]:
    """Run the service with the tenant `java` and its policies."""
    metrics_port = free_port()
    with ExitStack() as exits:
        settings = {
            "KEDGE_METRICS_PORT": str(metrics_port),
            "KEDGE_GATE_PORT": str(free_port()),
            "KEDGE_GATE_METRICS_PORT": "0",
        }
        stack = exits.enter_context(running_stack(database_url, folder, **settings))
        clean = {name: value for name, value in stack.environment.items() if name != "KEDGE_ADDRESS"}
        environment = {
            **clean,
            **settings,
            "KEDGE_PORT": str(stack.port),
            "KEDGE_WEB_PORT": str(stack.web_port),
            "KEDGE_WORKER_METRICS_PORT": "0",
        }
        sidecar = Sidecar(stack, metrics_port, free_port(), free_port(), folder, environment, stack.tenant(TENANT))
        exits.callback(sidecar.close)
        for name in ("support", "frozen", "learning"):
            stack.put_policy(two_models(TENANT, name=name, windows=600.0))
        promotions = Promotions(stack, TENANT, f"127.0.0.1:{settings['KEDGE_GATE_PORT']}")
        promotions.put_policies()
        sidecar.verbs |= promotions.verbs
        stack.put_policy(two_models(TENANT, name="local", judge_rate=0.5, windows=600.0))
        _bind_certificate(sidecar)
        exits.enter_context(_with_echo(sidecar, "echo", sidecar.echo_port))
        exits.enter_context(_with_echo(sidecar, "sealed", sidecar.tls_port, **_tls(folder)))
        yield sidecar


def _bind_certificate(sidecar: Sidecar) -> None:
    identity = tenant_service_pb2.Identity(name=SPIFFE, role=tenant_service_pb2.ROLE_CORE_APP)
    request = tenant_service_pb2.BindIdentityRequest(parent=f"tenants/{TENANT}", identity=identity, because="test")
    with sidecar.stack.services() as services:
        services.tenants.BindIdentity(request)


def _tls(folder: Path) -> dict[str, str]:
    """Write certificates of one authority; gives the settings of a server that asks for them."""
    (folder / "ours.pem").write_bytes(OURS.certificate)
    OURS.client(SPIFFE).write(folder, "client")
    return {f"KEDGE_{key.upper()}": text for key, text in tls_settings(folder, OURS.server(), OURS).items()}


@contextmanager
def _with_echo(sidecar: Sidecar, name: str, port: int, **tls: str) -> Iterator[None]:
    """Run one more server on the same database, with the benches' Echo on the same server object and port."""
    environment = {**sidecar.environment, **tls, "KEDGE_PORT": str(port), "KEDGE_METRICS_PORT": "0"}
    command = [sys.executable, "-m", "tests.bench.decide_server"]
    where = sidecar.folder / f"{name}.log"
    with where.open("wb") as log:
        process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=log)
    try:
        wait_for(lambda: str(port) in where.read_text(encoding="utf-8").splitlines(), f"the server; its log: {where}")
        yield
    finally:
        process.terminate()
        process.wait(60)
