"""Measure what a thousand tenants cost: onboarding, the check at a start, memory, a decision, a killed database."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import grpc
import psycopg

from kedge.bandit.v1 import decision_service_pb2, policy_service_pb2
from kedge_bandit.entrypoints.bootstrap import core_url, make_ready
from kedge_bandit.entrypoints.settings import Settings
from kedge_migrations import upgrade
from tests.bench.figures import Bar, Control, Report, Row, Setting
from tests.bench.http2_load import Headers, Measured, closed_loop
from tests.bench.lag_load import DECIDE, Job, bodies_of
from tests.bench.memory import pss
from tests.bench.tenants_place import (
    Place,
    cpu_seconds,
    make_policy,
    policy_of,
    running,
    running_server,
    schema_of,
    tenant_of,
    wait_for_vectors,
)
from tests.fixtures.database import open_folder
from tests.fixtures.stack import Services, is_serving, running_stack, wait_for

SEED = 20260401
TENANTS = int(os.environ.get("KEDGE_TEST_TENANTS", "1000"))
"""Fewer while the bench itself is worked on."""
ROUNDS, REQUESTS, SHAPE = 5, 2_000, (8, 8)
CHECKS, IDLE_SECONDS = 3, 10.0
ONBOARD_BAR, CHECK_BAR, RATIO_BAR, RECOVER_BAR = (
    Bar(at_most=60),
    Bar(at_most=1),
    Bar(at_least=0.8),
    Bar(at_most=10),
)
NONE_BAR, CONNECTIONS_BAR = Bar(at_most=0), Bar(at_most=40)
CONNECTED = "SELECT count(*) FROM pg_stat_activity WHERE usename IS NOT NULL AND pid <> pg_backend_pid()"
FILES = "SELECT count(*), pg_database_size(current_database())::float8 / 1e6 FROM pg_class"


@dataclass(slots=True)
class Found:
    """Figures on the way; seconds, MB, requests per second and microseconds of the server's CPU per request."""

    onboarding: float = 0.0
    checks: list[float] = field(default_factory=list)
    memory: dict[str, float] = field(default_factory=dict)
    rates: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)
    failures: int = 0
    idle: dict[str, float] = field(default_factory=dict)
    connections: int = 0
    relations: float = 0.0
    disk: float = 0.0
    recovery: float = 0.0
    ready: float = 0.0


@dataclass(frozen=True, slots=True)
class Side:
    """A server and how many tenants it serves."""

    name: str
    place: Place
    pid: int
    port: int
    tenants: int

    def job(self, seed: int) -> Job:
        """Give one lot of requests; nothing of it is timed by a clock."""
        return Job(
            path=DECIDE,
            port=self.port,
            key=self.place.database.operator_key,
            tenants=self.tenants,
            rate=0.0,
            episodes=REQUESTS,
            begin=0.0,
            seed=seed,
        )


def tenants(setting: Setting) -> Report:
    """Bring the tenants in, serve them beside a server of one tenant, then kill the database under `kedge serve`."""
    found = Found()
    with open_folder() as folder, _database(folder / "single") as one:
        with _database(folder / "kedge") as place, ExitStack() as exits:
            server, port = exits.enter_context(running_server(place))
            single, single_port = exits.enter_context(running_server(one))
            worker = exits.enter_context(running(place, "worker"))
            exits.enter_context(running(one, "worker"))
            setting.say(f"onboarding {TENANTS} tenants")
            found.onboarding = _onboard(place, port, folder)
            _checks(found, place)
            setting.say("giving each a policy")
            _put_policies(place, port, TENANTS)
            _onboard_one(one, single_port)
            wait_for_vectors(one, range(1))
            wait_for_vectors(place, range(TENANTS))
            _weigh(found, place, {"server": server.pid, "worker": worker.pid}, single.pid)
            setting.say("deciding")
            _decide(
                found,
                [Side("one tenant", one, single.pid, single_port, 1), Side("all", place, server.pid, port, TENANTS)],
            )
            setting.say("standing idle")
            _idle(found, place, {"server": server.pid, "worker": worker.pid})
        setting.say("killing the database")
        _recover(found, folder / "kedge")
    return _report(found)


@contextmanager
def _database(folder: Path) -> Iterator[Place]:
    """Run an embedded PostgreSQL in a folder that stays."""
    database = make_ready(Settings(data_dir=folder))
    try:
        yield Place(database, folder)
    finally:
        database.stop()


def _onboard(place: Place, port: int, folder: Path) -> float:
    """Run the command that a user runs, its start included."""
    names = folder / "names.txt"
    names.write_text("\n".join(tenant_of(number) for number in range(TENANTS)), encoding="utf-8")
    began = time.monotonic()
    _kedge(place, port, "tenant", "onboard", "--file", str(names), "--json")
    return time.monotonic() - began


def _onboard_one(place: Place, port: int) -> None:
    _kedge(place, port, "tenant", "onboard", tenant_of(0), "--json")
    _put_policies(place, port, 1)


def _kedge(place: Place, port: int, *arguments: str) -> None:
    command = [str(Path(sys.executable).parent / "kedge"), *arguments]
    environment = place.environment(KEDGE_ADDRESS=f"127.0.0.1:{port}", KEDGE_KEY=place.database.operator_key)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)


def _checks(found: Found, place: Place) -> None:
    """Do what every start does before it serves: look whether any tenant's schema is behind."""
    for _ in range(CHECKS):
        began = time.monotonic()
        assert upgrade(core_url(place.database.owner_url)) == 0
        found.checks.append(time.monotonic() - began)
    with place.connect() as connection:
        ((found.relations, found.disk),) = connection.execute(FILES).fetchall()


def _put_policies(place: Place, port: int, count: int) -> None:
    policy = make_policy()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        operator = Services(channel, place.database.operator_key)
        for number in range(count):
            policy.name = policy_of(number)
            operator.policies.PutPolicy(policy_service_pb2.PutPolicyRequest(policy=policy, because="bench"))


def _weigh(found: Found, place: Place, pids: dict[str, int], single: int) -> None:
    found.memory = {name: pss(pid) for name, pid in pids.items()}
    found.memory["server of one tenant"] = pss(single)
    with place.connect() as connection:
        ((found.connections,),) = connection.execute(CONNECTED).fetchall()


def _decide(found: Found, sides: list[Side]) -> None:
    """Take turns: new episodes of one tenant on the one server, of all tenants on the other."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=spawn) as pool:
        for number in range(ROUNDS + 1):
            for side in sides:
                before = cpu_seconds(side.pid)
                load = pool.submit(run_load, side.job(SEED + number)).result()
                used = cpu_seconds(side.pid) - before
                found.failures += len(load.failures)
                if number:  # the first round warms up
                    found.rates.setdefault(side.name, []).append(REQUESTS / load.seconds)
                    found.cpu.setdefault(side.name, []).append(used / REQUESTS * 1e6)


def run_load(job: Job) -> Measured:
    """Send one lot from a process of its own."""
    bodies = [body.SerializeToString() for body in bodies_of(job)]
    headers = Headers(DECIDE, {"authorization": f"Bearer {job.key}"})
    measured = closed_loop(("127.0.0.1", job.port), headers, bodies, shape=SHAPE)
    measured.answers.clear()
    return measured


def _idle(found: Found, place: Place, pids: dict[str, int]) -> None:
    """Read what is used while nobody calls."""
    everyone = {**pids, "PostgreSQL": place.postmaster}
    before = {name: cpu_seconds(pid, with_children=True) for name, pid in everyone.items()}
    time.sleep(IDLE_SECONDS)
    found.idle = {
        name: (cpu_seconds(pid, with_children=True) - before[name]) / IDLE_SECONDS for name, pid in everyone.items()
    }


def _recover(found: Found, data: Path) -> None:
    """Start the service over all tenants, kill every process of the database, and wait for a decision on disk."""
    with running_stack("", data) as stack, stack.services() as services:
        _decided(services, "before")
        wait_for(lambda: _stored(stack.database_url, "before"), "a first decision", seconds=60)
        (pid_file,) = data.rglob("postmaster.pid")
        killed = time.monotonic()
        os.kill(int(pid_file.read_text(encoding="ascii").split()[0]), signal.SIGKILL)
        wait_for(lambda: _decided_again(services, stack.database_url, killed), "a decision recorded again", seconds=200)
        found.recovery = time.monotonic() - killed
        wait_for(lambda: is_serving(stack.address), "the server")
        found.ready = time.monotonic() - killed


def _decided(services: Services, episode: str) -> None:
    request = decision_service_pb2.DecideRequest(policy=policy_of(TENANTS - 1), request_id=episode, episode_id=episode)
    request.context.categories["task"], request.context.numbers["words"] = "math", 1.0
    services.decisions.Decide(request)


def _decided_again(services: Services, url: str, killed: float) -> bool:
    episode = f"after-{time.monotonic() - killed:.3f}"
    _decided(services, episode)
    return _stored(url, "after-%")


def _stored(url: str, episode: str) -> bool:
    wanted = f"SELECT 1 FROM {schema_of(TENANTS - 1)}.decision WHERE episode_id LIKE %s LIMIT 1"
    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=2) as connection:
            return connection.execute(wanted, [episode]).fetchone() is not None
    except psycopg.OperationalError:
        return False


def _ratios(rounds: dict[str, list[float]]) -> list[float]:
    return [every / one for one, every in zip(rounds["one tenant"], rounds["all"], strict=True)]


def _report(found: Found) -> Report:
    rows = [
        Row(name=f"onboarding {TENANTS} tenants in one command", value=found.onboarding, bar=ONBOARD_BAR, unit="s"),
        Row(name="check at a start, nothing behind", value=median(found.checks), bar=CHECK_BAR, unit="s"),
        Row.of_rounds("Decide per second, all tenants / one tenant", _ratios(found.rates), RATIO_BAR),
        Row.of_rounds("1 / CPU of Decide, all tenants / one tenant", [1 / r for r in _ratios(found.cpu)], RATIO_BAR),
        Row(name="database killed, to the next decision on disk", value=found.recovery, bar=RECOVER_BAR, unit="s"),
        Row(name="database killed, to the server's health", value=found.ready, bar=RECOVER_BAR, unit="s"),
        Row(name="decisions that failed", value=found.failures, bar=NONE_BAR),
        Row(name="connections of all processes", value=found.connections, bar=CONNECTIONS_BAR),
        *(Row(name=f"memory of the {name}", value=value, unit="MB") for name, value in found.memory.items()),
        *(Row(name=f"cores of the idle {name}", value=value) for name, value in found.idle.items()),
        *(Row(name=f"Decide per second, {name}", value=median(rounds)) for name, rounds in found.rates.items()),
        *(Row(name=f"CPU of Decide, {name}", value=median(r), unit="us") for name, r in found.cpu.items()),
        Row(name="relations in the catalog", value=found.relations),
        Row(name="database on disk", value=found.disk, unit="MB"),
    ]
    return Report(
        rows=rows,
        controls=[Control("Decide per second, one tenant", found.rates["one tenant"])],
        notes=[
            "one tenant: a second server over an embedded PostgreSQL of its own, in turns with the other",
            f"each of {ROUNDS} rounds {REQUESTS:,} new episodes, {SHAPE[0]} connections x {SHAPE[1]}; load, servers,"
            " workers and PostgreSQL (fsync on) share all cores",
        ],
        seeds=[SEED],
    )
