"""Let clients of one revision meet the server of another, and compare what was acknowledged with what is stored."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from kedge.bandit.v1 import policy_service_pb2, tenant_service_pb2
from tests.compat.tree import Tree
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Stack, accepted, is_serving, running_stack, wait_for

HERE = Path(__file__).parent
TENANT = "across"
POLICY = f"tenants/{TENANT}/policies/support"
TIMEOUT = 300
_DECISIONS = "SELECT episode_id, count(*) FROM t_across.decision GROUP BY 1"
STORED = {
    "decision": _DECISIONS,
    "local decision": _DECISIONS,
    "outcome": "SELECT key, count(*) FROM t_across.outcome GROUP BY 1",
    "episode": "SELECT episode_id, count(*) FROM t_across.episode_event WHERE kind = 'LOG' GROUP BY 1",
}
"""How often each event is stored, by what the client calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What came of one kind of event from one client at one server."""

    server: str
    client: str
    language: str
    kind: str
    expected: int
    acknowledged: int
    stored: int
    doubled: int

    @property
    def is_good(self) -> bool:
        """Everything that was said was acknowledged, all that is stored, and once."""
        return self.expected == self.acknowledged == self.stored and self.doubled == 0


@dataclass(slots=True)
class Meeting:
    """One database that servers of several revisions take over from each other.

    Attributes:
        say: tells the reader what goes on.
        folder: the data folder that all of them have in turn; also where clients write what was acknowledged.
        key: of the core application, as the first server made it.
        agreed: whether each server's belief is what a rebuild from the log gives.
    """

    database_url: str
    folder: Path
    turns: int
    say: Callable[[str], None]
    key: str = ""
    episodes: int = 0
    agreed: dict[str, bool] = field(default_factory=dict)

    def meet(self, server: Tree, client: Tree) -> list[Row]:
        """Let the clients of one revision play turns at the server of another, which is then killed at once."""
        with running_stack(self.database_url, self.folder, **server.settings) as stack:
            stack.environment["PYTHONPATH"] = server.path
            self.say(f"clients of {client.revision} play at the server of {server.revision}")
            self.key = self.key or _onboard(stack)
            told = {language: self._play(stack, client, language) for language in _languages(client)}
            stack.kill("server")
            self.say("its server was killed: what is stored, and what it learns from that when it is back")
            rows = [row for language in told for row in self._rows(stack, server, client, language, told[language])]
            self._learned(stack, server)
        return rows

    def _play(self, stack: Stack, client: Tree, language: str) -> list[str]:
        """Run one client to its end; gives the lines that it wrote."""
        prefix = f"{language.lower()}-{client.commit}-{len(self.agreed)}"
        file = self.folder / f"{prefix}.acknowledged"
        if language == "Java":
            command = ["java", "-cp", client.classpath, str(HERE / "Turns.java")]
        else:
            command = [sys.executable, str(HERE / "turns.py")]
        environment = {
            **os.environ,
            "PYTHONPATH": client.path,
            "KEDGE_ADDRESS": stack.address,
            "KEDGE_TENANT": TENANT,
            "KEDGE_KEY": self.key,
        }
        arguments = [prefix, str(self.turns), str(file)]
        subprocess.run([*command, *arguments], env=environment, timeout=TIMEOUT, check=True)
        return file.read_text(encoding="utf-8").splitlines()

    def _rows(self, stack: Stack, server: Tree, client: Tree, language: str, told: list[str]) -> Iterator[Row]:
        for kind, statement in STORED.items():
            keys = {key for line in told for of, key in [line.split("\t")] if of == kind}
            with stack.connect() as connection:
                stored = {key: times for key, times in connection.execute(statement.encode()) if key in keys}
            self.episodes += len(stored) if kind == "episode" else 0
            yield Row(
                server=server.revision,
                client=client.revision,
                language=language,
                kind=kind,
                expected=self.turns,
                acknowledged=len(keys),
                stored=len(stored),
                doubled=sum(times > 1 for times in stored.values()),
            )

    def _learned(self, stack: Stack, server: Tree) -> None:
        """Wait until the server that comes back has learned from everything, and compare with a rebuild."""
        wait_for(lambda: is_serving(stack.address), "the server to be back")
        status = policy_service_pb2.GetPolicyStatusRequest(name=POLICY)
        with stack.services() as services:
            read = partial(services.policies.GetPolicyStatus, status)
            wait_for(lambda: read().episode_counts["SETTLED"] >= self.episodes, "the episodes to settle", 120)
        rebuilt = stack.kedge("rebuild", TENANT, "support", "--verify", "--json", timeout=TIMEOUT)
        self.agreed[server.revision] = rebuilt.returncode == 0 and bool(json.loads(rebuilt.stdout)["agrees"])


def _languages(client: Tree) -> list[str]:
    return ["Python", *(["Java"] if client.classpath else [])]


def _onboard(stack: Stack) -> str:
    """Make the tenant, whose decisions are stored before they are answered, its key and its policy."""
    tenant = tenant_service_pb2.Tenant(name=f"tenants/{TENANT}", durable=True)
    with stack.services() as services:
        services.tenants.OnboardTenant(tenant_service_pb2.OnboardTenantRequest(tenant=tenant, because="test"))
        request = tenant_service_pb2.CreateKeyRequest(
            parent=tenant.name, principal="core-app", role=tenant_service_pb2.ROLE_ADMIN, because="test"
        )
        key: str = services.tenants.CreateKey(request).key
    with stack.services(key) as services:
        wait_for(partial(accepted, services, TENANT), "the new key to be accepted")
    stack.put_policy(two_models(TENANT))
    return key
