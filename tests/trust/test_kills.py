"""Kill servers, worker and database as a crash does, amid at least 64 RPCs; nothing acknowledged is lost or doubled.

Three replicas, a worker and the embedded database of one `kedge serve`, which has to bring back whatever dies. The
client writes each acknowledgement to a file before it does anything else with it, and the file is compared with the
database at the end. `make trust ARGS=tests/trust/test_kills.py` runs it at full size.
"""

import asyncio
import json
import random
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest

from kedge.bandit.v1 import episode_service_pb2, policy_service_pb2, tenant_service_pb2
from tests.fixtures.database import open_folder
from tests.fixtures.outside_fold import largest_difference
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Services, Stack, running_stack, wait_for
from tests.trust import size, written
from tests.trust.killer import IN_FLIGHT, PATIENCE, Kill, Killer
from tests.trust.turns import Players, Tenant, over_all

REPLICAS = 3
PROCESS_KILLS, DATABASE_KILLS = size.of(6, 100), size.of(2, 20)
CALLERS = 128
LARGEST_ERROR = 1e-9
STATES = ("SETTLED", "VETOED", "UNSCORED", "CANCELLED")
TENANTS = {"quick": False, "durable": True}


@pytest.fixture(scope="module")
def embedded() -> Iterator[Stack]:
    with open_folder() as folder:
        data = folder / "kedge"
        data.mkdir(mode=0o755)
        with running_stack("", data, KEDGE_REPLICAS=str(REPLICAS)) as running:
            yield running


@pytest.fixture(scope="module")
def tenants(embedded: Stack) -> list[Tenant]:
    found = []
    for name, is_durable in TENANTS.items():
        found.append(Tenant(name, embedded.tenant(name), is_durable))
        embedded.put_policy(two_models(name))
        if is_durable:
            with embedded.services() as services:
                make_durable(services, name)
    return found


def make_durable(services: Services, name: str) -> None:
    request = tenant_service_pb2.UpdateTenantRequest(name=f"tenants/{name}", durable=True, because="test")
    services.tenants.UpdateTenant(request)


async def play_while_killing(stack: Stack, tenants: list[Tenant], path: Path, victims: list[str]) -> Killer:
    with path.open("w", encoding="utf-8") as file:
        async with over_all(stack.addresses) as channel, asyncio.TaskGroup() as group:
            players = Players(channel=channel, tenants=tenants, acknowledged=file)
            callers = [group.create_task(players.play(number)) for number in range(CALLERS)]
            killer = Killer(stack, players, random.Random("moments"))
            await killer.run(victims)
            players.stopping = True
            players.playing.set()
            await asyncio.wait(callers)
    return killer


def victims_of(stack: Stack) -> list[str]:
    """Draw who is killed in which order."""
    dice = random.Random("victims")
    chosen = [dice.choice([*stack.servers, "worker"]) for _ in range(PROCESS_KILLS)] + ["database"] * DATABASE_KILLS
    dice.shuffle(chosen)
    return chosen


@pytest.mark.slow
@pytest.mark.timeout(3600 if size.IS_FULL else 600)
def test_nothing_acknowledged_is_lost_or_doubled_whatever_is_killed(
    embedded: Stack, tenants: list[Tenant], tmp_path: Path
) -> None:
    acknowledged = tmp_path / "acknowledged"
    supervisor = embedded.process.pid
    killer = asyncio.run(play_while_killing(embedded, tenants, acknowledged, victims_of(embedded)))
    seen = table_of(killer.kills)
    found = {name: check_tenant(embedded, name, acknowledged) for name in TENANTS}
    print(seen)
    print(json.dumps(found, indent=2))
    if size.IS_FULL:
        written.put_table("faults.md", "kills", seen)
    written.write_json("kills", {"kills": [vars_of(kill) for kill in killer.kills], "tenants": found})
    assert len(killer.kills) == PROCESS_KILLS + DATABASE_KILLS
    assert min(sum(kill.in_flight.values()) for kill in killer.kills) >= IN_FLIGHT
    assert {rpc for kill in killer.kills for rpc in kill.in_flight} == {"Decide", "LogEpisode", "RecordOutcomes"}
    assert embedded.process.poll() is None
    assert embedded.process.pid == supervisor
    for facts in found.values():
        assert facts["lost"] == facts["doubled"] == facts["orphans"] == 0, found
        assert facts["rebuild_error"] <= LARGEST_ERROR
        assert facts["outside_error"] <= LARGEST_ERROR


def vars_of(kill: Kill) -> dict[str, Any]:
    return {"victim": kill.victim, "in_flight": dict(kill.in_flight), "seconds": round(kill.seconds, 3)}


def table_of(kills: list[Kill]) -> str:
    """Sum up the kills by victim."""
    rows = []
    for victim in sorted({kill.victim for kill in kills}):
        of_it = [kill for kill in kills if kill.victim == victim]
        flying = [sum(kill.in_flight.values()) for kill in of_it]
        mix = sum((Counter(kill.in_flight) for kill in of_it), Counter[str]())
        back = [kill.seconds for kill in of_it]
        rows.append(
            [
                victim,
                str(len(of_it)),
                f"{min(flying)} to {max(flying)}",
                ", ".join(f"{rpc} {count / len(of_it):.0f}" for rpc, count in sorted(mix.items())),
                f"{statistics.median(back):.1f} s, at most {max(back):.1f} s",
            ]
        )
    return written.markdown(["killed", "times", "RPCs in flight", "of which on average", "worked again after"], rows)


def check_tenant(stack: Stack, name: str, acknowledged: Path) -> dict[str, Any]:
    """Compare what was acknowledged with what is stored, and the belief with two rebuilds of it."""
    said: dict[str, set[str]] = {"decision": set(), "outcome": set(), "episode": set()}
    for line in acknowledged.read_text(encoding="utf-8").splitlines():
        kind, tenant, key = json.loads(line)
        if tenant == name:
            said[kind].add(key)
    lost, doubled = 0, 0
    questions = {
        "decision": f"SELECT decision_id::text FROM t_{name}.decision",
        "outcome": f"SELECT key FROM t_{name}.outcome",
        "episode": f"SELECT key FROM t_{name}.episode_event",
    }
    with stack.connect() as connection:
        for kind, question in questions.items():
            stored = Counter(key for (key,) in connection.execute(question.encode()))
            lost += len(said[kind] - stored.keys())
            doubled += sum(count > 1 for count in stored.values())
        doubled += count_of(connection, TWICE_FIRST.format(name))
        orphans = count_of(connection, ORPHANS.format(name))
        logged = count_of(connection, f"SELECT count(DISTINCT episode_id) FROM t_{name}.episode_event")
    sums = {kind: len(keys) for kind, keys in said.items()}
    return {"acknowledged": sums, "lost": lost, "doubled": doubled, "orphans": orphans} | belief(stack, name, logged)


TWICE_FIRST = (
    "SELECT count(*) FROM (SELECT 1 FROM t_{0}.decision WHERE NOT superseded GROUP BY policy, episode_id"
    " HAVING count(*) > 1) AS twice"
)
ORPHANS = (
    "SELECT count(*) FROM t_{0}.episode_event e WHERE NOT EXISTS"
    " (SELECT 1 FROM t_{0}.decision d WHERE d.decision_id = e.decision_id)"
)


def count_of(connection: psycopg.Connection[Any], question: str) -> int:
    row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return int(row[0])


def belief(stack: Stack, name: str, logged: int) -> dict[str, Any]:
    """Wait until every logged episode is in one state, and rebuild the belief here and there."""
    policy = f"tenants/{name}/policies/support"
    with stack.services() as services:

        def status() -> Any:
            return services.policies.GetPolicyStatus(policy_service_pb2.GetPolicyStatusRequest(name=policy))

        def settled() -> bool:
            try:
                now = status()
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
                return False  # a pooled connection from before the last kill says so once
            return bool(now.backlog == 0 and sum(now.episode_counts.get(state, 0) for state in STATES) == logged)

        wait_for(settled, f"{logged} episodes of {name} to settle", PATIENCE)
        rebuilt = services.policies.RebuildPolicy(
            policy_service_pb2.RebuildPolicyRequest(name=policy, verify_only=True)
        )
        assert rebuilt.agrees
        export = services.episodes.ExportDecisions(episode_service_pb2.ExportDecisionsRequest(policy=policy))
        return {
            "episodes": {state: status().episode_counts.get(state, 0) for state in STATES},
            "rebuild_error": rebuilt.max_error,
            "outside_error": largest_difference(export),
        }
