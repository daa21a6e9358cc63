"""A prompt that flatters the judge is caught by the holdout: the policy freezes within the check, and says why."""

import json
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from kedge.bandit.v1 import decision_pb2, decision_service_pb2, policy_pb2, policy_service_pb2
from kedge.bandit.v1 import governance_service_pb2 as pb
from tests.fixtures.chat_server import ChatServer, chat_server
from tests.fixtures.core_app import refusal
from tests.fixtures.flattery import answer, flattered_policy, import_holdout, play
from tests.fixtures.gated_stack import gated_stack
from tests.fixtures.receiver import Receiver, receiving
from tests.fixtures.second_person import person
from tests.fixtures.stack import Services, Stack, wait_for

TENANT = "flattered"
POLICY = f"tenants/{TENANT}/policies/support"
EPISODES = 480
STATEMENTS = ("INSERT INTO {} (policy) VALUES ('support')", "UPDATE {} SET readings = '{{}}'", "DELETE FROM {}")


@pytest.fixture(scope="module")
def chat() -> Iterator[ChatServer]:
    with chat_server(answer) as server:
        yield server


@pytest.fixture(scope="module")
def told() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def watched(chat: ChatServer, told: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with gated_stack() as stack:
        key = stack.tenant(TENANT)
        stack.put_policy(flattered_policy(TENANT))
        hook = ("webhook", "put", TENANT, "chat", "--url", told.url, "--on", "*", "--because", "a test")
        assert stack.kedge_here(*hook).exit_code == 0
        import_holdout(stack, TENANT, chat.address, tmp_path_factory.mktemp("holdout"))
        with stack.services(key) as services:
            play(services, POLICY, EPISODES)
            wait_for(lambda: learned(services) == EPISODES // 2, "the episodes to settle")
        yield stack


def learned(services: Services) -> int:
    """Count episodes that were learned from: every other one, which the verifier looked at."""
    request = policy_service_pb2.GetPolicyStatusRequest(name=POLICY, without_cells=True)
    return sum(action.episodes for action in services.policies.GetPolicyStatus(request).actions)


def checks(stack: Stack) -> pb.ListDivergenceChecksResponse:
    with stack.services() as services:
        found: pb.ListDivergenceChecksResponse = services.governance.ListDivergenceChecks(
            pb.ListDivergenceChecksRequest(parent=POLICY)
        )
    return found


def unfreeze(stack: Stack, key: str) -> Any:
    with stack.services(key) as services:
        return services.governance.Unfreeze(pb.UnfreezeRequest(name=POLICY, because="the flatterer is gone"))


def test_flattery_is_rewarded_until_the_check_that_sees_it_freezes(
    watched: Stack, chat: ChatServer, told: Receiver
) -> None:
    with watched.services() as services:
        request = policy_service_pb2.GetPolicyStatusRequest(name=POLICY, without_cells=True)
        rewards = {
            one.action_key.partition("@")[0]: one.mean_reward
            for one in services.policies.GetPolicyStatus(request).actions
        }
    assert rewards["praise"] > rewards["plain"]
    assert not chat.asked

    ran = watched.kedge("divergence", "check", TENANT, "support", "--wait", "100", "--json")
    assert ran.returncode == 1, ran.stderr
    assert "alarmed" in ran.stderr
    [check] = checks(watched).checks
    assert check.reward_lift > 0.05
    assert check.holdout_lift < -0.4
    assert check.answers == 2 * check.cases == len(chat.asked)
    assert {reading.detector for reading in check.readings if reading.tripped} >= {"divergence", "reward_lift"}
    assert json.loads(ran.stdout)["incident"] == check.incident

    with watched.services() as services:
        [incident] = services.governance.ListIncidents(pb.ListIncidentsRequest(parent=f"tenants/{TENANT}")).incidents
        assert (incident.name, incident.state, incident.policy) == (check.incident, pb.INCIDENT_STATE_OPEN, POLICY)
        wait_for(lambda: _decided(services).reason == decision_pb2.DECISION_REASON_FROZEN, "the freeze to be heard of")
        assert _decided(services).action_key.startswith("plain@")
        events = services.governance.ListAuditEvents(pb.ListAuditEventsRequest(parent=f"tenants/{TENANT}")).events
    frozen = next(event for event in events if event.verb == "policy.frozen")
    assert (frozen.actor, frozen.because) == ("kedge", incident.evidence)
    assert "holdout lift -" in frozen.because

    def received() -> dict[str, str]:
        messages = [json.loads(one.body) for one in list(told.received)]
        return {message["type"]: message["because"] for message in messages}

    wait_for(lambda: {"policy.frozen", "incident.opened"} <= set(received()), "the webhook's messages")
    assert received()["policy.frozen"] == incident.evidence


def _decided(services: Services) -> Any:
    episode = f"next-{uuid.uuid4()}"
    return services.decisions.Decide(
        decision_service_pb2.DecideRequest(policy=POLICY, request_id=episode, episode_id=episode)
    )


def test_unfreezing_needs_the_incident_acknowledged_and_a_second_person(watched: Stack) -> None:
    ann, ben = (person(watched, TENANT, name, "ROLE_ADMIN") for name in ("ann", "ben"))
    [incident] = [check.incident for check in checks(watched).checks]
    assert refusal(lambda: unfreeze(watched, ann)) == "INCIDENT_OPEN"
    with watched.services(ann) as services:
        services.governance.AcknowledgeIncident(pb.AcknowledgeIncidentRequest(name=incident, because="I look at it"))
    assert refusal(lambda: unfreeze(watched, ann)) == "SECOND_PERSON_REQUIRED"
    assert unfreeze(watched, ben).mode == policy_pb2.MODE_APPLY


def test_nothing_but_the_gates_login_adds_a_check_and_nobody_changes_one(watched: Stack) -> None:
    table = sql.Identifier(f"t_{TENANT}", "divergence_check")
    role = f"kedge_t_{TENANT}"
    with watched.connect() as owner:
        granted = owner.execute(
            "SELECT a.grantee::regrole::text, a.privilege_type FROM pg_class c, aclexplode(c.relacl) a"
            " WHERE c.oid = %s::regclass AND a.grantee <> c.relowner",
            (f"t_{TENANT}.divergence_check",),
        ).fetchall()
        assert sorted(granted) == [("kedge_gate", "INSERT"), (role, "SELECT")]
        for login in (role, "kedge_service"):
            for statement in (
                "INSERT INTO {} (policy) VALUES ('support')",
                "UPDATE {} SET readings = '{{}}'",
                "DELETE FROM {}",
            ):
                owner.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(login)))
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    owner.execute(sql.SQL(statement).format(table))
                owner.execute("RESET ROLE")
        owner.execute("SET ROLE kedge_gate")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            owner.execute(sql.SQL("UPDATE {} SET readings = '{{}}'").format(table))
