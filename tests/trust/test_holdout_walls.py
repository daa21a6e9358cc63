"""Only the gate's login reaches a holdout table; every other process is denied with its own connection string."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import psycopg
import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pool import Default

from kedge.bandit.v1 import episode_service_pb2
from kedge_bandit.adapters.grpc.permissions import PERMISSIONS
from kedge_bandit.domain.holdout import is_reserved
from kedge_bandit.domain.principal import GRANTS, Permission, Role
from kedge_bandit.entrypoints.profile import can_read_holdout, check_database
from kedge_bandit.entrypoints.settings import Profile, Settings
from tests.architecture.tree import ROOT
from tests.fixtures.core_app import ask, log, refusal
from tests.fixtures.gated_stack import gated_stack
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Stack, wait_for

TENANT = "walled"
POLICY = f"tenants/{TENANT}/policies/support"
STATEMENTS = (
    "SELECT * FROM {} LIMIT 1",
    "SELECT count(*) FROM {}",
    "INSERT INTO {} DEFAULT VALUES",
    "UPDATE {} SET tenant = tenant",
    "DELETE FROM {}",
    "TRUNCATE {}",
    "COPY {} TO STDOUT",
    "LOCK TABLE {}",
)
PROCESSES = ("server", "worker", "web")


@pytest.fixture(scope="module")
def walled() -> Iterator[Stack]:
    """Run everything over the embedded database, where each process has its own login."""
    with gated_stack() as stack:
        stack.tenant(TENANT)
        stack.put_policy(two_models(TENANT))
        yield stack


def environment_of(stack: Stack, process: str) -> dict[str, str]:
    """Read what a process was started with, as the system knows it."""
    raw = Path(f"/proc/{stack.pid(process)}/environ").read_bytes()
    return dict(entry.split("=", 1) for entry in raw.decode().split("\0") if "=" in entry)


def url_of(stack: Stack, process: str) -> str:
    return environment_of(stack, process)["KEDGE_DATABASE_URL"]


def tables(connection: psycopg.Connection[Any]) -> list[str]:
    found = connection.execute(
        "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = 'holdout' AND c.relkind IN ('r', 'p', 'v', 'm') ORDER BY 1"
    ).fetchall()
    return [name for (name,) in found]


def denied(connection: psycopg.Connection[Any], statement: str) -> str:
    """Try a statement; gives the state with which the database refuses it."""
    try:
        with connection.transaction(force_rollback=True), connection.cursor() as cursor:
            if statement.startswith("COPY"):
                with cursor.copy(statement.encode()) as copied:
                    return f"let {statement} through: {list(copied)}"
            cursor.execute(statement.encode())
    except psycopg.Error as error:
        return error.sqlstate or ""
    return f"let {statement} through"


@pytest.mark.parametrize("process", PROCESSES)
def test_a_process_is_denied_every_holdout_table_with_its_own_connection_string(walled: Stack, process: str) -> None:
    with psycopg.connect(url_of(walled, process), autocommit=True) as connection:
        assert connection.info.user == "kedge_service"
        names = tables(connection)
        assert len(names) == 8
        found = {denied(connection, each.format(name)) for name in names for each in STATEMENTS}
        assert found == {"42501"}
        role = f"kedge_t_{TENANT}"
        for taken in (role, "kedge_gate"):
            assert denied(connection, f"SET ROLE {taken}") == (
                "42501" if taken == "kedge_gate" else f"let SET ROLE {taken} through"
            )
        connection.execute(f"SET ROLE {role}")
        assert {denied(connection, each.format(name)) for name in names for each in STATEMENTS} == {"42501"}


def test_no_process_but_the_gate_is_told_of_its_login(walled: Stack) -> None:
    password = (walled.data_dir / "gate.password").read_text(encoding="ascii").strip()
    assert (walled.data_dir / "gate.password").stat().st_mode & 0o077 == 0
    for process in PROCESSES:
        assert not any(password in value for value in environment_of(walled, process).values())
        assert environment_of(walled, process)["KEDGE_GATE_DATABASE_URL"] == ""
    own = environment_of(walled, "gate")
    assert own["KEDGE_DATABASE_URL"] == ""
    assert urlsplit(own["KEDGE_GATE_DATABASE_URL"]).username == "kedge_gate"


def test_the_gate_sees_the_tenant_that_its_transaction_names_and_deletes_nothing(walled: Stack) -> None:
    with psycopg.connect(environment_of(walled, "gate")["KEDGE_GATE_DATABASE_URL"], autocommit=True) as connection:
        with psycopg.connect(walled.database_url, autocommit=True) as owner:
            owner.execute(
                "INSERT INTO holdout.version (tenant, policy, version_number, version, is_rotation, create_time)"
                " VALUES (%s, 'support', 1, 'v', false, now())",
                (TENANT,),
            )
        count = "SELECT count(*) FROM holdout.version"
        assert connection.execute(count).fetchone() == (0,)
        with connection.transaction():
            connection.execute("SELECT set_config('kedge.tenant', 'another', true)")
            assert connection.execute(count).fetchone() == (0,)
        with connection.transaction():
            connection.execute("SELECT set_config('kedge.tenant', %s, true)", (TENANT,))
            assert connection.execute(count).fetchone() == (1,)
        for name in tables(connection):
            assert denied(connection, f"DELETE FROM {name}") == "42501"
            assert denied(connection, f"TRUNCATE {name}") == "42501"
        assert denied(connection, "UPDATE holdout.query SET query = 1") == "42501"
        assert denied(connection, "UPDATE holdout.item SET content = '{}'") == "42501"
        assert denied(connection, f"SELECT * FROM t_{TENANT}.decision") == "42501"


def test_the_trainer_has_no_login_to_the_database_at_all(walled: Stack) -> None:
    """Nothing in it names a driver, an address or a setting of one; and the database knows no role of its name."""
    with psycopg.connect(walled.database_url) as owner:
        roles = [name for (name,) in owner.execute("SELECT rolname FROM pg_roles WHERE rolcanlogin").fetchall()]
    assert sorted(role for role in roles if role.startswith("kedge_")) == ["kedge_gate", "kedge_service"]
    sources = list((ROOT / "services" / "rl-trainer" / "src").rglob("*.py"))
    assert len(sources) > 10
    told = [
        (path.name, word)
        for path in sources
        for word in ("psycopg", "sqlalchemy", "asyncpg", "postgresql://", "DATABASE_URL")
        if word in path.read_text(encoding="utf-8")
    ]
    assert told == []


def test_the_production_profile_refuses_a_serving_login_that_could_read_the_holdout(walled: Stack) -> None:
    production = Settings(profile=Profile.PRODUCTION, data_dir=walled.data_dir)
    check_database(production, url_of(walled, "server"))
    with pytest.raises(SystemExit, match="can read the holdout"):
        check_database(production, walled.database_url)
    gate = environment_of(walled, "gate")["KEDGE_GATE_DATABASE_URL"]
    with pytest.raises(SystemExit, match="kedge_gate can read the holdout"):
        check_database(production, gate)
    check_database(production, gate, may_read_holdout=True)
    with psycopg.connect(walled.database_url, autocommit=True) as owner:
        owner.execute("CREATE ROLE curious LOGIN PASSWORD 'curious'")
        owner.execute("GRANT kedge_gate TO curious")
        owner.execute("SET SESSION AUTHORIZATION curious")
        assert can_read_holdout(owner)
        owner.execute("RESET SESSION AUTHORIZATION")
        owner.execute("DROP ROLE curious")


def messages_within(root: Descriptor) -> set[str]:
    """Name every message that an answer can hold."""
    found, open_ends = set[str](), [root]
    while open_ends:
        message = open_ends.pop()
        if message.full_name not in found:
            found.add(message.full_name)
            open_ends += [field.message_type for field in message.fields if field.message_type is not None]
    return found


def test_no_rpc_can_answer_a_case_but_the_one_that_takes_a_second_person() -> None:
    pool = Default()
    answering = set()
    for name in {method.split("/")[1] for method in PERMISSIONS}:
        for rpc in pool.FindServiceByName(name).methods:
            if "kedge.bandit.v1.HoldoutCase" in messages_within(rpc.output_type):
                answering.add(rpc.full_name)
    assert answering == {"kedge.bandit.v1.HoldoutService.OpenCases"}
    assert PERMISSIONS["/kedge.bandit.v1.HoldoutService/OpenCases"] is Permission.APPROVE
    assert {role for role in Role if Permission.APPROVE in GRANTS[role]} == {Role.APPROVER, Role.ADMIN, Role.OPERATOR}
    programs = (Role.CORE_APP, Role.TRAINER, Role.EVALUATOR, Role.PROPOSER, Role.VIEWER)
    assert not any(Permission.CURATE in GRANTS[role] for role in programs)


def test_only_the_gates_port_serves_the_holdout(walled: Stack) -> None:
    with walled.services() as services:
        call: Any = services.channel.unary_unary("/kedge.bandit.v1.HoldoutService/GetHoldout")
        key = (("authorization", f"Bearer {walled.operator_key}"),)
        with pytest.raises(grpc.RpcError, match="UNIMPLEMENTED"):
            call(b"", metadata=key, timeout=10)
    status = walled.kedge("holdout", "status", TENANT, "support", "--json")
    assert json.loads(status.stdout)["gate_cases"] == 0, status.stderr


def exported(stack: Stack, key: str) -> set[str]:
    request = episode_service_pb2.ExportDecisionsRequest(policy=POLICY)
    with stack.services(key) as services:
        found = [one for one in services.episodes.ExportDecisions(request) if one.WhichOneof("record") == "decision"]
    return {one.decision.decision.episode_id for one in found}


def test_a_trainer_is_given_no_reserved_episode(walled: Stack) -> None:
    names = [f"session-{number}/1" for number in range(200)]
    reserved = [name for name in names if is_reserved(TENANT, "support", name)][:2]
    free = [name for name in names if not is_reserved(TENANT, "support", name)][:3]
    made = [walled.kedge("key", "create", TENANT, "--principal", "t", "--role", role) for role in ("trainer", "admin")]
    trainer, admin = (one.stdout.strip() for one in made)
    with walled.services() as services:
        for name in (*reserved, *free):
            log(services, ask(services, name, policy=POLICY), name, policy=POLICY)
    wait_for(lambda: exported(walled, admin) == {*reserved, *free}, "the decisions to be written")
    assert exported(walled, trainer) == set(free)
    with walled.services(trainer) as services:
        hidden = episode_service_pb2.GetEpisodeRequest(policy=POLICY, episode_id=reserved[0])
        assert refusal(lambda: services.episodes.GetEpisode(hidden)) == "EPISODE_NOT_FOUND"
